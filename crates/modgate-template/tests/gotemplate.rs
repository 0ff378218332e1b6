//! The recordings of Go's `text/template`: `conformance/languages/gotemplate.json`.

#![allow(clippy::expect_used, reason = "a test")]

use modgate_template::{Env, Functions, Isolated, Template};
use modgate_value::{Budget, Value};

fn corpus() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/languages/gotemplate.json");
    Value::from_json(&std::fs::read(path).expect(path)).expect("corpus")
}

#[test]
fn every_recorded_template() {
    let corpus = corpus();
    let data = corpus.get("data").expect("data");
    let cases = corpus.get("cases").and_then(Value::as_array).expect("cases");
    let mut wrong = Vec::new();
    for case in cases {
        let text = case.get("template").and_then(Value::as_str).expect("template");
        let budget = Budget::unlimited();
        let env = Env { budget: &budget, host: &Isolated };
        let actual = match Template::parse_with("x", text, Functions::Builtin) {
            Ok(template) => template.render(data, &env).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let expected = match case.path(&["expect", "v"]).and_then(Value::as_str) {
            Some(output) => Ok(output.to_owned()),
            None => Err(case.path(&["expect", "e"]).and_then(Value::as_str).expect("e").to_owned()),
        };
        let same = match (&actual, &expected) {
            (Ok(actual), Ok(expected)) => actual == expected,
            (Err(actual), Err(expected)) => {
                if actual != expected {
                    eprintln!("error text: {text}\n   ours {actual}\n   Go's {expected}");
                }
                true
            }
            _ => false,
        };
        if !same {
            wrong.push(format!("{text}: {actual:?} instead of {expected:?}"));
        }
    }
    assert!(cases.len() >= 144, "{} cases", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
