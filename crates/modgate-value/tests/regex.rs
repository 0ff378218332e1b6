//! Go regular expressions against recordings of Go's `regexp`.

use modgate_value::{Value, regex::GoRegex};

#[test]
fn matches_as_go() {
    let path = format!("{}/../../conformance/languages/regexp.json", env!("CARGO_MANIFEST_DIR"));
    let corpus = Value::from_json(&std::fs::read(&path).expect(&path)).expect(&path);
    let strings = corpus.get("strings").and_then(Value::as_array).expect("strings");
    let patterns = corpus.get("patterns").and_then(Value::as_object).expect("patterns");
    assert_eq!((patterns.len(), strings.len()), (169, 42));
    let mut failures = Vec::new();
    for (pattern, expected) in patterns {
        let regex = GoRegex::new(pattern);
        let (regex, expected) = match (&regex, expected.as_array()) {
            (Err(_), None) => continue,
            (Ok(regex), Some(expected)) => (regex, expected),
            _ => {
                failures.push(format!("{pattern:?}: {regex:?}, but Go: {expected}"));
                continue;
            }
        };
        for (text, expected) in strings.iter().zip(expected) {
            let text = text.as_str().expect("text");
            let found = match regex.find(text) {
                Some(range) => format!("[{},{}]", range.start, range.end),
                None => "null".to_owned(),
            };
            if found != expected.to_json() || regex.is_match(text) == expected.is_null() {
                failures.push(format!("{pattern:?} on {text:?}: {found}, but Go: {expected}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}
