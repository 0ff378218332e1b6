//! The exact violations that OPA finds in every case of the public library
//! (`conformance/languages/library-rego-results.json`).

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

#[path = "support/library.rs"]
mod library;

use std::{fs, path::Path};

use modgate_rego::value::Arena;
use modgate_value::{Budget, Value};

#[test]
fn violations_are_those_of_opa() {
    let Some(dir) = library::corpora() else {
        println!("skipped: the public library is not here; set MODGATE_CONFORMANCE");
        return;
    };
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/languages/library-rego-results.json");
    let recorded = Value::from_json(&fs::read(recorded).expect("recorded")).expect("recorded");
    let recorded = recorded.get("results").and_then(Value::as_object).expect("results");

    let cases = library::cases(&dir, "");
    assert_eq!(cases.len(), recorded.len());
    let mut failures = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let key = format!("{}#{number}", case.key);
        let Some(expected) = recorded.get(&key).and_then(Value::as_array) else {
            failures.push(format!("{key}: not recorded"));
            continue;
        };
        let mut expected: Vec<Value> = expected
            .iter()
            .map(|text| Value::from_json(text.as_str().expect("text").as_bytes()).expect("JSON"))
            .collect();
        expected.sort();
        let arena = Arena::new();
        let found = case.evaluate(&arena, |violations| {
            let set = violations.as_set().expect("a set");
            set.iter()
                .map(|violation| violation.to_json(&Budget::unlimited()).expect("JSON"))
                .collect::<Vec<_>>()
        });
        let mut found: Vec<Value> = found;
        found.sort();
        if found != expected {
            failures.push(format!("{key}: found {found:?}, expected {expected:?}"));
        }
    }
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}
