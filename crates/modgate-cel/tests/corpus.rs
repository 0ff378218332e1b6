//! The recorded expressions of `conformance/languages/cel.json`: the same values, the same texts
//! of compile errors and of evaluation errors.

use std::{collections::BTreeMap, fs, path::Path};

use modgate_cel::{Activation, Arena, CompileError, Env, EvalError, Program, Type, Val};
use modgate_value::{Budget, Value};

/// How many cases of each kind still differ. Only ever lowered; a smaller count fails the run too,
/// so that this table is always the truth.
const DIFFERING: [(&str, usize); 4] =
    [("compile error", 3), ("error", 2), ("value not implemented", 153), ("wrong value", 0)];

/// The object the cases were recorded with, as far as their expressions show it.
const OBJECT: &str = r#"{"metadata": {"name": "x", "labels": {"a": "b"}},
    "spec": {"n": 5, "q": "1Gi", "list": [1, 2, 3]}}"#;

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

/// A value as the corpus writes it.
fn shown(value: Val<'_>) -> Value {
    let entries = || (0..value.size().unwrap_or(0)).filter_map(|index| value.entry(index));
    match value {
        Val::Null => Value::Null,
        Val::Bool(value) => value.into(),
        Val::Int(value) => value.into(),
        Val::Uint(value) => Value::from_json(value.to_string().as_bytes()).unwrap_or_default(),
        Val::Double(value) if value.is_finite() => {
            Value::from_json(format!("{value:?}").as_bytes()).unwrap_or_default()
        }
        Val::Double(value) => if value > 0.0 { "+Inf" } else { "other" }.into(),
        Val::String(text) => text.into(),
        Val::Bytes(bytes) => {
            let bytes: Vec<_> = bytes.iter().map(u8::to_string).collect();
            format!("<bytes [{}]>", bytes.join(" ")).into()
        }
        Val::Type(name) => format!("<type {name}>").into(),
        Val::List(_) | Val::JsonList(_) => entries().map(|(_, item)| shown(item)).collect(),
        Val::Map(_) | Val::JsonMap(_) => entries()
            .map(|(key, value)| match shown(key) {
                Value::String(key) => (key.to_string(), shown(value)),
                other => (other.to_json(), shown(value)),
            })
            .collect(),
        Val::Optional(None) => "<none>".into(),
        Val::Optional(Some(inner)) => [("<opt>", shown(*inner))].into_iter().collect(),
        _ => "?".into(),
    }
}

#[test]
fn recorded_expressions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/languages/cel.json");
    let file = Value::from_json(&fs::read(path).expect("corpus")).expect("JSON");
    let cases = file.get("cases").and_then(Value::as_array).expect("cases");
    assert_eq!(cases.len(), 345);
    let env = Env::new().with("object", Type::Dyn);
    let object = Object(Value::from_json(OBJECT.as_bytes()).expect("JSON"));
    let mut counts: BTreeMap<&str, usize> = DIFFERING.iter().map(|(kind, _)| (*kind, 0)).collect();
    for case in cases {
        let text = case.get("expr").and_then(Value::as_str).expect("expr");
        let expect = case.get("expect").expect("expect");
        let error = expect.get("e").and_then(Value::as_str);
        let compile_error = error.and_then(|error| error.strip_prefix("COMPILE "));
        let arena = Arena::new();
        let budget = Budget::unlimited();
        let program = Program::compile(text, &env);
        let found = match &program {
            Ok(program) => program
                .eval(&object, &arena, &budget, u64::MAX)
                .map(|(value, _)| shown(value))
                .map_err(|error| (error.to_string(), error)),
            Err(CompileError::Check(errors)) => Err((errors.to_string(), EvalError::Cost)),
            Err(error) => Err((error.to_string(), EvalError::Cost)),
        };
        let same = match &found {
            Ok(value) => Some(value) == expect.get("v"),
            Err((found, _)) if program.is_err() => Some(found.as_str()) == compile_error,
            Err((found, _)) => {
                error.map(|error| error.strip_prefix("PROGRAM ").unwrap_or(error))
                    == Some(found.as_str())
            }
        };
        if !same {
            let kind = match &found {
                _ if compile_error.is_some() || program.is_err() => "compile error",
                _ if error.is_some() => "error",
                Err((_, EvalError::Unimplemented(_))) => "value not implemented",
                _ => "wrong value",
            };
            *counts.entry(kind).or_default() += 1;
            println!("{kind}: {text}\n  found {found:?}\n  wanted {expect}");
        }
    }
    assert_eq!(counts, DIFFERING.into());
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
