//! How a CEL policy came to its result: each expression, with what it read.

use modgate_cel::{Arena, CostLimits, Evaluation, Program, Val};
use modgate_value::Budget;

use super::{
    CelDriver, Expression,
    input::{Input, Scope},
    types,
};
use crate::constraint::trace::{ExpressionResult, ExpressionTrace, Placed, Traced, paths, shorten};

/// The values that expressions read.
const ROOTS: [&str; 5] = ["variables", "object", "oldObject", "request", "namespaceObject"];

/// How many levels of a value are shown.
const MAX_SHOWN: usize = 20;

impl CelDriver {
    /// As [`violations`](Self::violations), and how each expression went. Values are looked at
    /// without counting what that costs.
    pub(in crate::constraint) fn trace(
        &self,
        input: &Input,
        params: &modgate_value::Value,
        arena: &Arena,
        budget: &Budget<'_>,
    ) -> Traced {
        let scope = Scope { input, params };
        let violations = self.violations(&scope, arena, budget, None);
        let violations = violations.into_iter().map(|violation| violation.message).collect();
        let environment = self.variables.declare(&types::environment());
        let limits = CostLimits { total: u64::MAX, ..CostLimits::VALIDATIONS };
        let evaluation = Evaluation::new(&scope, &self.variables, arena, budget, limits);
        let conditions = self.conditions.iter().enumerate();
        let conditions = conditions.map(|(index, condition)| {
            (format!("matchCondition[{index}]"), condition, "expression")
        });
        let validations = self.validations.iter().enumerate();
        let validations = validations.flat_map(|(index, validation)| {
            let rule = format!("validations[{index}]");
            let message = validation.message_expression.as_ref();
            let message = message.map(|message| (rule.clone(), message, "messageExpression"));
            [(rule, &validation.expression, "expression")].into_iter().chain(message)
        });
        let mut expressions = Vec::new();
        for (rule, expression, member) in conditions.chain(validations) {
            let values = paths_of(&expression.text).map(|name| {
                let shown = Program::compile(name, &environment).map_err(|error| error.to_string());
                // One evaluation for each, which ends before its program does.
                let shown = shown.and_then(|program| {
                    let limits = CostLimits { total: u64::MAX, ..CostLimits::VALIDATIONS };
                    let evaluation =
                        Evaluation::new(&scope, &self.variables, arena, budget, limits);
                    evaluate(&program, &evaluation)
                });
                (name.to_owned(), shown.unwrap_or_else(|error| error))
            });
            expressions.push(Placed {
                field: format!("{}.{rule}.{member}", self.field),
                line: 0,
                position: None,
                module: String::new(),
                text: expression.text.trim().to_owned(),
                result: expression.result(&evaluation),
                values: values.collect(),
                rule,
            });
        }
        Traced { violations, expressions }
    }

    /// Whether an expression about the input holds; an error if it fails, none if it does not compile.
    pub(in crate::constraint) fn holds(
        &self,
        text: &str,
        input: &Input,
        params: &modgate_value::Value,
        arena: &Arena,
        budget: &Budget<'_>,
    ) -> Option<Result<bool, ()>> {
        let environment = self.variables.declare(&types::environment());
        let program = Program::compile(text, &environment).ok()?;
        let scope = Scope { input, params };
        let limits = CostLimits { total: u64::MAX, ..CostLimits::VALIDATIONS };
        let evaluation = Evaluation::new(&scope, &self.variables, arena, budget, limits);
        let value = evaluation.evaluate(&program).map_err(|_| ());
        Some(value.map(|value| matches!(value, Val::Bool(true))))
    }
}

/// How an expression of one of the cluster's own policies went, with what it read.
pub(crate) fn expression_trace<'a>(
    rule: String,
    expression: &'a Expression,
    environment: &modgate_cel::Env,
    evaluation: &Evaluation<'a>,
    again: &dyn Fn(&Program) -> String,
) -> ExpressionTrace {
    let roots = ROOTS.into_iter().chain(["params"]);
    let names = roots.flat_map(|root| paths(&expression.text, root));
    let values = names.map(|name| {
        let shown = match Program::compile(name, environment) {
            Ok(program) => again(&program),
            Err(error) => error.to_string(),
        };
        (name.to_owned(), shown)
    });
    let values = values.collect();
    ExpressionTrace {
        rule,
        module: String::new(),
        text: expression.text.trim().to_owned(),
        position: None,
        result: expression.result(evaluation),
        values,
    }
}

/// The value of a program as it is shown.
pub(crate) fn shown_value<'a>(program: &'a Program, evaluation: &Evaluation<'a>) -> String {
    evaluate(program, evaluation).unwrap_or_else(|error| error)
}

impl Expression {
    fn result<'a>(&'a self, evaluation: &Evaluation<'a>) -> ExpressionResult {
        let value = match &self.program {
            Ok(program) => evaluation.evaluate(program).map_err(|error| error.to_string()),
            Err(error) => Err(format!("compilation error: {error}")),
        };
        match value {
            Ok(Val::Bool(true)) => ExpressionResult::Held,
            Ok(Val::Bool(false)) => ExpressionResult::Failed,
            Ok(value) => ExpressionResult::Value(shorten(shown(value, MAX_SHOWN))),
            Err(error) => ExpressionResult::Error(shorten(error)),
        }
    }
}

/// The variables that an expression reads.
fn paths_of(text: &str) -> impl Iterator<Item = &str> {
    ROOTS.into_iter().flat_map(|root| paths(text, root))
}

fn evaluate<'a>(program: &'a Program, evaluation: &Evaluation<'a>) -> Result<String, String> {
    let value = evaluation.evaluate(program).map_err(|error| error.to_string())?;
    Ok(shorten(shown(value, MAX_SHOWN)))
}

/// A value as JSON, as far as it can be; below `depth` levels only its type.
fn shown(value: Val<'_>, depth: usize) -> String {
    let name = value.type_name();
    match value {
        Val::Null => "null".to_owned(),
        Val::Bool(value) => value.to_string(),
        Val::Int(value) => value.to_string(),
        Val::Uint(value) => format!("{value}u"),
        Val::Double(value) => value.to_string(),
        Val::String(text) => modgate_value::Value::from(text).to_json(),
        _ if depth > 0 && (name == "list" || name == "map") => {
            let entries = (0..value.size().unwrap_or_default()).filter_map(|at| value.entry(at));
            let shown: Vec<String> = entries
                .map(|(key, value)| {
                    let value = shown(value, depth - 1);
                    if name == "list" { value } else { format!("{}:{value}", shown(key, 0)) }
                })
                .collect();
            let inside = shown.join(",");
            if name == "list" { format!("[{inside}]") } else { format!("{{{inside}}}") }
        }
        _ => format!("<{name}>"),
    }
}

#[cfg(test)]
mod tests {
    use modgate_cel::Env;

    use super::*;

    #[test]
    fn values_are_shown() {
        struct Nothing;
        impl modgate_cel::Activation for Nothing {
            fn variable<'a>(&'a self, _: &str) -> Option<Val<'a>> {
                None
            }
        }
        for (text, expected) in [
            ("[dyn(1), dyn(2u), dyn(null)]", "[1,2u,null]"),
            ("{'a': dyn([true]), 'b': dyn({})}", r#"{"a":[true],"b":{}}"#),
            ("'a\"b'", r#""a\"b""#),
            ("duration('1s')", "<google.protobuf.Duration>"),
        ] {
            let program = Program::compile(&format!("dyn({text})"), &Env::new()).expect(text);
            let (arena, budget) = (Arena::new(), Budget::unlimited());
            let (value, _) = program.eval(&Nothing, &arena, &budget, 1000).expect(text);
            assert_eq!(shown(value, MAX_SHOWN), expected);
        }
    }
}
