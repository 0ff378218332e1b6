//! What ends an evaluation.

use modgate_cel::{Activation, Arena, Env, EvalError, Program, Type, Val};
use modgate_value::{Budget, Value};

const OBJECT: &str = r#"{"metadata": {"name": "x", "labels": {"a": "b"}},
    "spec": {"n": 5, "q": "1Gi", "list": [1, 2, 3]}}"#;

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

#[test]
fn limits_end_an_evaluation() {
    let env = Env::new().with("object", Type::Dyn);
    let object = Object(Value::from_json(OBJECT.as_bytes()).expect("JSON"));
    let program = Program::compile("object.spec.list.all(x, x > 0)", &env).expect("compiles");
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let (_, cost) = program.eval(&object, &arena, &budget, u64::MAX).expect("enough");
    assert!(program.eval(&object, &arena, &budget, cost).is_ok());
    assert_eq!(program.eval(&object, &arena, &budget, cost - 1).err(), Some(EvalError::Cost));
    let small =
        budget.child(modgate_value::Limits { steps: 3, ..modgate_value::Limits::UNLIMITED });
    let error = program.eval(&object, &arena, &small, u64::MAX).err();
    assert!(matches!(error, Some(EvalError::Exhausted(_))), "{error:?}");
}
