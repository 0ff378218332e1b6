//! YAML against the recordings of `sigs.k8s.io/yaml` and KubeMod.

#![expect(clippy::expect_used, reason = "a test")]

use modgate_value::{Value, json, yaml};

fn corpus(path: &str) -> Vec<Value> {
    let path = format!("{}/../../conformance/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).expect(&path);
    let corpus = Value::from_json(&text).expect(&path);
    corpus.get("cases").and_then(Value::as_array).expect("cases").to_vec()
}

fn html(value: &Value) -> String {
    let mut out = String::new();
    json::write(value, &mut out, json::Escape::Html);
    out
}

#[test]
fn yaml_to_json() {
    let cases = corpus("languages/yaml.json");
    assert_eq!(cases.len(), 166);
    let mut failures = Vec::new();
    for case in &cases {
        let text = |key: &str| case.get(key).and_then(Value::as_str);
        let input = text("yaml").expect("yaml");
        for (result, value, error) in
            [(yaml::value(input), "v", "e"), (yaml::value_strict(input), "sv", "se")]
        {
            let same = match (&result, text(value), text(error)) {
                (Ok(found), Some(expected), _) => html(found) == expected,
                (Err(found), None, Some(expected)) => found.message == expected,
                _ => false,
            };
            if !same {
                failures.push(format!("{input:?} {value}: {result:?} {case}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

/// Texts of patch values. Those with template actions belong to the template engine's tests.
#[test]
fn patch_values() {
    let mut failures = Vec::new();
    let mut run = 0;
    for case in corpus("kubemod/probes/values.json") {
        let input = case.get("value").and_then(Value::as_str).expect("value");
        if input.contains("{{") {
            continue;
        }
        run += 1;
        let result = yaml::value(input);
        let same = match (&result, case.get("json"), case.get("error").and_then(Value::as_str)) {
            // The patch has passed its numbers through a 64-bit float.
            (Ok(found), Some(expected), _) => floats(found) == floats(expected),
            (Err(found), None, Some(expected)) => expected
                .strip_prefix("failed calculating patch for ModRule: ")
                // `sigs.k8s.io/yaml` has since written this in lower case.
                .is_some_and(|text| text.replace("Unsupported", "unsupported") == found.message),
            _ => false,
        };
        if !same {
            failures.push(format!("{input:?}: {result:?} {case}"));
        }
    }
    assert_eq!(run, 154);
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

fn floats(value: &Value) -> String {
    modgate_value::gofmt::text(value).into_owned()
}
