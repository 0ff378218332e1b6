//! CEL: what is read prints and reads back; what compiles is evaluated within its budget.

use modgate_cel::{
    Activation, Arena, CostLimits, Env, EvalError, Evaluation, Program, Type, Val, Variables,
    check, parse,
};
use modgate_value::{Budget, Value, budget::Frozen};

use super::{LIMITS, elements, halves, pair, text};

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

/// An expression and the object it reads; the expression is a policy's variable too.
pub fn cel(data: &[u8]) {
    let Some((source, object)) = halves(data) else { return };
    if let Ok(expr) = parse(source) {
        let printed = expr.to_string();
        // Printing adds brackets, so that what is near the bound of depth may not read back.
        if let Ok(again) = parse(&printed) {
            assert_eq!(again, expr, "{source:?} prints as {printed:?}");
        }
    }
    let env = Env::new().with("object", Type::Dyn);
    let Ok(program) = Program::compile(source, &env) else { return };
    let object = Object(Value::from_json(object).unwrap_or_default());
    let mut variables = Variables::new();
    let _ = variables.add("same", source, &env);
    let outer = "dyn(variables.same) == dyn(variables.same)";
    let Ok(outer) = Program::compile(outer, &variables.declare(&env)) else { return };
    let arena = Arena::new();
    let budget = Budget::new(LIMITS, &Frozen);
    let limits = CostLimits { expression: 100_000, total: 250_000 };
    let evaluation = Evaluation::new(&object, &variables, &arena, &budget, limits);
    let first = evaluation.evaluate(&program).map(Val::type_name);
    let left = evaluation.remaining();
    assert!(left <= limits.total);
    let _ = evaluation.evaluate(&outer);
    let second = evaluation.evaluate(&program).map(Val::type_name);
    let spent = |result: &Result<_, EvalError>| {
        matches!(result, Err(EvalError::OutOfBudget | EvalError::Exhausted(_)))
    };
    if !spent(&first) && !spent(&second) {
        assert_eq!(first, second, "{source:?} depends on what was evaluated before");
    }
}

/// The checker of CEL, with variables as admission policies have them: what is refused is refused
/// at a place of the text, and what is printed has the same type.
pub fn cel_check(data: &[u8]) {
    let Some((source, _)) = halves(data) else { return };
    let dynamic = ["object", "oldObject", "request", "params", "namespaceObject", "variables"];
    let env = dynamic.into_iter().fold(Env::new(), |env, name| env.with(name, Type::Dyn));
    let env = env.with("text", Type::STRING).with("flag", Type::BOOL);
    match check(source, &env) {
        Err(errors) => {
            assert!(!errors.issues.is_empty(), "{source:?}");
            for issue in &errors.issues {
                assert!(issue.span.start <= source.len(), "{source:?}: {issue}");
            }
        }
        Ok(checked) => {
            let printed = checked.expr.to_string();
            // Printing adds brackets, so that what is near the bound of depth may not read back.
            if let Ok(again) = check(&printed, &env) {
                assert_eq!(again.ty, checked.ty, "{source:?} prints as {printed:?}");
            }
        }
    }
}

pub(super) fn seeds(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if !name.starts_with("languages/cel") {
        return;
    }
    for case in elements(document, "cases") {
        let object = text(case, "object").and_then(|name| document.path(&["objects", name]));
        let object = object.map(Value::to_json).unwrap_or_default();
        seeds.extend(text(case, "expr").map(|source| pair(source, &object)));
    }
}
