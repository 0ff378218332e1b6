//! Kubernetes' rules for names, label keys and label values, in its own words
//! (`apimachinery/pkg/util/validation`).

use super::{FieldError, path::Path};
use crate::matching::LabelSelector;
use modgate_value::Object;

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
     '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
     'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
     used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// Begins and ends with an alphanumeric character, with those of `inner` allowed between.
fn is_word(text: &str, alphanumeric: fn(u8) -> bool, inner: &[u8]) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| alphanumeric(*byte));
    let bytes = text.as_bytes();
    ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| alphanumeric(*byte) || inner.contains(byte))
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_any_case(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Why `text` is no DNS subdomain, the form of most objects' names; empty when it is one.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if !text.split('.').all(|label| is_word(label, is_lower, b"-")) {
        problems.push(SUBDOMAIN.to_owned());
    }
    problems
}

/// Why `text` is no DNS label, the form of resource names; empty when it is one.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !is_word(text, is_lower, b"-") || text.starts_with(|c: char| c.is_ascii_digit()) {
        problems.push(LABEL_1035.to_owned());
    }
    problems
}

/// Why `text` is no label key; empty when it is one.
pub fn label_key(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {QUALIFIED} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some(("", name)) => {
            problems.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            problems.extend(subdomain(prefix).iter().map(|text| format!("prefix part {text}")));
            name
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name, is_any_case, b"-_.") {
        problems.push(format!("name part {QUALIFIED}"));
    }
    problems
}

/// Why `text` is no label value; empty when it is one.
pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if text.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_word(text, is_any_case, b"-_.") {
        problems.push(LABEL_VALUE.to_owned());
    }
    problems
}

/// The errors of labels; `path` is theirs. Values that are no texts are left to decoding.
pub fn labels(labels: &Object, path: &str) -> Vec<FieldError> {
    let pairs =
        labels.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    label_pairs(pairs, &Path::Root(path))
}

fn label_pairs<'a>(
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    path: &Path<'_>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        errors.extend(label_key(key).iter().map(|text| FieldError::invalid(path, key, text)));
        errors.extend(label_value(value).iter().map(|text| FieldError::invalid(path, value, text)));
    }
    errors
}

/// The errors of a label selector; `path` is its own (MA-20).
pub fn selector(selector: &LabelSelector, path: &str) -> Vec<FieldError> {
    let root = Path::Root(path);
    let labels = selector.match_labels.iter().flatten();
    let pairs = labels.map(|(key, value)| (key.as_str(), value.as_str()));
    let mut errors = label_pairs(pairs, &root.child("matchLabels"));
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let list = root.child("matchExpressions");
        let place = list.index(index);
        let values = requirement.values.as_deref().unwrap_or_default();
        match (requirement.operator.as_str(), values.is_empty()) {
            ("In" | "NotIn", true) => errors.push(FieldError::required(
                &place.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            ("Exists" | "DoesNotExist", false) => errors.push(FieldError::forbidden(
                &place.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            (other, _) => errors.push(FieldError::invalid(
                &place.child("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        let key = &requirement.key;
        errors.extend(
            label_key(key).iter().map(|text| FieldError::invalid(&place.child("key"), key, text)),
        );
        for (index, value) in values.iter().enumerate() {
            let list = place.child("values");
            errors.extend(
                label_value(value)
                    .iter()
                    .map(|text| FieldError::invalid(&list.index(index), value, text)),
            );
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(problems: fn(&str) -> Vec<String>, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!(problems(text), Vec::<String>::new(), "{text}");
        }
        for text in bad {
            assert!(!problems(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn names() {
        let long = "a".repeat(64);
        check(subdomain, &["a", "a-b.c1", "1.2"], &["", "A", "a..b", "-a", "a.", "a_b", "ä"]);
        check(label_1035, &["a", "a-1"], &["", "1a", "a.b", "a-", &long]);
        check(
            label_key,
            &["a", "A_b.c", "x.y/Z", "9"],
            &["", "/a", "a/", "a/b/c", "X/a", "_a", &long],
        );
        check(label_value, &["", "a", "A_b.9"], &["-a", "a b", &long]);
    }
}
