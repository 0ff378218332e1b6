//! One expression over JSON documents, for those who need no more.

use modgate_value::{Budget, Limits, Number, Object, Value, budget::Frozen};

use crate::{
    check::Env,
    error::{EvalError, Result, failed},
    eval::compose::{Activation, CostLimits},
    library::{duration_text, timestamp_text},
    program::{Arena, CompileError, Program},
    types::Type,
    value::Val,
};

/// An expression that reads JSON documents by name.
///
/// It costs at most what Kubernetes lets an expression of a policy cost
/// ([`CostLimits::VALIDATIONS`]), takes at most 10,000,000 steps and builds at most 32 MiB;
/// [`Expression::within`] sets other limits.
#[derive(Debug, Clone)]
pub struct Expression {
    program: Program,
    cost: u64,
    limits: Limits,
}

struct Inputs<'i>(&'i [(&'i str, &'i Value)]);

impl Activation for Inputs<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| Val::json(value))
    }
}

impl Expression {
    /// Compiles `text`, which may name `variables`.
    ///
    /// # Errors
    ///
    /// The messages of cel-go and Kubernetes.
    pub fn compile(text: &str, variables: &[&str]) -> std::result::Result<Self, CompileError> {
        let env = variables.iter().fold(Env::new(), |env, name| env.with(*name, Type::Dyn));
        let limits = Limits { steps: 10_000_000, bytes: 32 << 20, ..Limits::UNLIMITED };
        let program = Program::compile(text, &env)?;
        Ok(Self { program, cost: CostLimits::VALIDATIONS.expression, limits })
    }

    /// With other limits: a cost in Kubernetes' units, and steps and bytes. The time limit counts
    /// for nothing, because nothing here looks at a clock.
    #[must_use]
    pub fn within(self, cost: u64, limits: Limits) -> Self {
        Self { cost, limits, ..self }
    }

    /// Its value for these documents, as JSON.
    ///
    /// # Errors
    ///
    /// Any [`EvalError`]; also when the result has no form in JSON, such as a quantity or bytes.
    pub fn evaluate(&self, documents: &[(&str, &Value)]) -> Result<Value> {
        self.with(documents, json)
    }

    /// Whether it gives true for these documents.
    ///
    /// # Errors
    ///
    /// Any [`EvalError`]; also when the result is no boolean.
    pub fn holds(&self, documents: &[(&str, &Value)]) -> Result<bool> {
        self.with(documents, |value| match value {
            Val::Bool(value) => Ok(value),
            other => failed(format!("the result is of type {}, not bool", other.type_name())),
        })
    }

    fn with<T>(
        &self,
        documents: &[(&str, &Value)],
        read: impl FnOnce(Val<'_>) -> Result<T>,
    ) -> Result<T> {
        let (inputs, arena, clock) = (Inputs(documents), Arena::new(), Frozen);
        let budget = Budget::new(self.limits, &clock);
        let (value, _) = self.program.eval(&inputs, &arena, &budget, self.cost)?;
        read(value)
    }
}

impl Val<'_> {
    /// As JSON; times and spans as texts.
    ///
    /// # Errors
    ///
    /// When it has no form in JSON, such as a quantity.
    pub fn to_json(self) -> Result<Value> {
        json(self)
    }

    /// The error of the type names of an object that a mutation builds: that of a field is
    /// the name of the object's type with the field's name.
    pub fn misnamed(self) -> Vec<String> {
        let mut problems = Vec::new();
        if let Val::Built(built) = self {
            misnamed(self, built.name, &mut problems);
        }
        problems
    }
}

fn misnamed(value: Val<'_>, expected: &str, problems: &mut Vec<String>) {
    if let Val::Built(built) = value {
        if built.name != expected {
            problems.push(format!(
                "unexpected type name {:?}, expected {expected:?}, which matches field name path \
                 from root Object type",
                built.name
            ));
        }
        for (name, value) in built.fields {
            misnamed(*value, &format!("{expected}.{name}"), problems);
        }
        return;
    }
    for index in 0..value.entries().unwrap_or(0) {
        if let Some((_, value)) = value.entry(index) {
            misnamed(value, expected, problems);
        }
    }
}

/// A value as JSON. Parts of documents are shared; what an expression built nests no deeper than
/// expressions do.
fn json(value: Val<'_>) -> Result<Value> {
    Ok(match value {
        Val::Null => Value::Null,
        Val::Bool(value) => value.into(),
        Val::Int(value) => value.into(),
        Val::Uint(value) => number(Number::from_json_text(&value.to_string()))?,
        Val::Double(value) => number(Number::from_f64(value))?,
        Val::String(text) => text.into(),
        Val::JsonMap(object) => object.clone().into(),
        Val::JsonList(items) => items.iter().cloned().collect(),
        Val::Optional(Some(inner)) => json(*inner)?,
        Val::Optional(None) => Value::Null,
        Val::Timestamp(at) => timestamp_text(at).into(),
        Val::Duration(nanos) => duration_text(nanos).into(),
        Val::Built(built) => {
            let mut members = Object::default();
            for (key, value) in built.fields {
                members.insert(*key, json(*value)?);
            }
            members.into()
        }
        value if value.is_list() => value.items().map(json).collect::<Result<Value>>()?,
        value if value.is_map() => {
            let mut members = Object::default();
            for index in 0..value.entries().unwrap_or(0) {
                match value.entry(index) {
                    Some((Val::String(key), value)) => {
                        members.insert(key, json(value)?);
                    }
                    _ => return failed("a map whose keys are no texts has no form in JSON"),
                }
            }
            members.into()
        }
        other => {
            return failed(format!("a value of type {} has no form in JSON", other.type_name()));
        }
    })
}

fn number(number: Option<Number>) -> Result<Value> {
    let none = || EvalError::Failed("a number that is not finite has no form in JSON".to_owned());
    number.map(Value::Number).ok_or_else(none)
}
