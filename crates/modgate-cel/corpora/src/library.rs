//! The CEL halves of the public Gatekeeper library's templates, compiled as the engine would.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_cel::{
    Activation, Arena, CompileError, CostLimits, Env, EvalError, Evaluation, Program, Type, Val,
    Variables,
};
use modgate_corpus::Roots;
use modgate_value::{Budget, Value, yaml};

/// A template's CEL source.
pub struct Policy {
    /// Its folder below the library.
    pub name: String,
    source: Value,
}

/// Its expressions, compiled.
pub struct Compiled {
    variables: Variables,
    /// Validations and the expressions of their messages.
    programs: Vec<Program>,
}

/// A sample of the library as expressions see it.
pub struct Review {
    object: Value,
    params: Value,
    request: Value,
}

impl Activation for Review {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        Some(match name {
            "object" => Val::json(&self.object),
            "oldObject" | "namespaceObject" => Val::Null,
            "params" => Val::json(&self.params),
            "request" => Val::json(&self.request),
            _ => return None,
        })
    }
}

impl Review {
    /// The sample `object` of a folder `samples/NAME` of the library, against its constraint.
    ///
    /// # Errors
    ///
    /// When one of the two files cannot be read.
    pub fn of(samples: &Path, object: &str) -> Result<Self> {
        Ok(Self {
            object: document(&samples.join(object))?,
            params: document(&samples.join("constraint.yaml"))?,
            request: [("operation", Value::from("CREATE"))].into_iter().collect(),
        })
    }
}

fn document(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    yaml::value(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

/// The folder of the public library, if it is here.
pub fn folder() -> Option<PathBuf> {
    Roots::discover().find_folder("gatekeeper-library")
}

/// All of them; nothing if the library is not here.
///
/// # Errors
///
/// When a template cannot be read.
pub fn policies() -> Result<Vec<Policy>> {
    let Some(library) = folder() else { return Ok(Vec::new()) };
    let mut policies = Vec::new();
    for group in ["library/general", "library/pod-security-policy"] {
        for entry in fs::read_dir(library.join(group)).context(group)? {
            let folder = entry?.path();
            let Ok(text) = fs::read_to_string(folder.join("template.yaml")) else { continue };
            let template = yaml::value(&text).map_err(|error| anyhow::anyhow!("{error}"))?;
            let name = relative(&library, &folder);
            policies.extend(sources(&template).map(|source| Policy { name: name.clone(), source }));
        }
    }
    policies.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(policies)
}

fn relative(library: &Path, folder: &Path) -> String {
    folder.strip_prefix(library).unwrap_or(folder).display().to_string()
}

fn sources(template: &Value) -> impl Iterator<Item = Value> {
    let targets = template.path(&["spec", "targets"]).and_then(Value::as_array);
    let codes = targets.into_iter().flat_map(|targets| targets.iter()).flat_map(|target| {
        target.get("code").and_then(Value::as_array).map(|codes| codes.to_vec()).unwrap_or_default()
    });
    codes
        .filter(|code| code.get("engine").and_then(Value::as_str) == Some("K8sNativeValidation"))
        .filter_map(|code| code.get("source").cloned())
        .collect::<Vec<_>>()
        .into_iter()
}

impl Policy {
    /// Compiles every expression.
    ///
    /// # Errors
    ///
    /// The first that does not compile, and why.
    pub fn compile(&self) -> Result<Compiled, (String, CompileError)> {
        let inputs = ["object", "oldObject", "request", "namespaceObject"];
        let env = inputs.into_iter().fold(Env::new(), |env, name| env.with(name, Type::Dyn));
        let with_params = env.clone().with("params", Type::Dyn);
        let mut variables = Variables::new();
        let any = "request.operation == 'DELETE' && object == null ? oldObject : object";
        let params =
            "has(params.spec) && has(params.spec.parameters) ? params.spec.parameters : null";
        let own = self.texts("variables", &["name", "expression"]);
        let own = own.into_iter().filter_map(|texts| <[String; 2]>::try_from(texts).ok());
        let injected = [("anyObject", any), ("params", params)];
        let injected = injected.map(|(name, text)| [name.to_owned(), text.to_owned()]);
        for [name, text] in injected.into_iter().chain(own) {
            variables.add(&name, &text, &with_params).map_err(|error| (text, error))?;
        }
        let env = variables.declare(&env);
        let mut programs = Vec::new();
        for (list, key, ty) in [
            ("matchCondition", "expression", Type::BOOL),
            ("validations", "expression", Type::BOOL),
            ("validations", "messageExpression", Type::STRING),
        ] {
            for text in self.texts(list, &[key]).into_iter().flatten() {
                let program = Program::compile_to(&ty, &text, &env);
                programs.push(program.map_err(|error| (text, error))?);
            }
        }
        Ok(Compiled { variables, programs })
    }

    fn texts(&self, list: &str, keys: &[&str]) -> Vec<Vec<String>> {
        let elements = self.source.get(list).and_then(Value::as_array);
        let text = |element: &Value, key: &&str| Some(element.get(key)?.as_str()?.to_owned());
        elements
            .into_iter()
            .flat_map(|elements| elements.iter())
            .map(|element| keys.iter().filter_map(|key| text(element, key)).collect())
            .collect()
    }
}

impl Compiled {
    /// How many expressions there are beside the variables.
    pub fn len(&self) -> usize {
        self.programs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// Evaluates all of them; how many gave a value.
    ///
    /// # Errors
    ///
    /// When a budget is spent.
    pub fn evaluate(
        &self,
        review: &Review,
        arena: &Arena,
        budget: &Budget<'_>,
    ) -> Result<usize, EvalError> {
        let budget = budget.child(modgate_value::Limits::UNLIMITED);
        let limits = CostLimits::VALIDATIONS;
        let evaluation = Evaluation::new(review, &self.variables, arena, &budget, limits);
        let mut values = 0;
        for program in &self.programs {
            match evaluation.evaluate(program) {
                Ok(_) => values += 1,
                Err(error @ (EvalError::OutOfBudget | EvalError::Exhausted(_))) => {
                    return Err(error);
                }
                Err(_) => {}
            }
        }
        Ok(values)
    }
}
