//! The owner of a policy and what to do about its denials: annotations that denials end with.

use std::fmt;

use modgate_value::{Str, Value};

/// The annotation with who owns a policy, such as `team platform`.
pub(crate) const OWNER: &str = "modgate.sh/owner";
/// The annotation with what to do about a denial.
pub(crate) const REMEDIATION: &str = "modgate.sh/remediation";
/// The annotation with the address of a page about the policy.
pub(crate) const DOCS_URL: &str = "modgate.sh/docs-url";

/// The longest text of an annotation that a denial quotes, in characters.
const MAX_TEXT: usize = 512;

/// Texts of a policy's author for the people whose requests it denies. Texts are one line, and
/// empty where there is no annotation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guidance {
    /// The owner of the policy.
    pub owner: Str,
    /// The advice.
    pub remediation: Str,
    /// Where to read about it.
    pub docs_url: Str,
}

impl Guidance {
    /// Reads the annotations of a policy: an object, or null.
    pub fn of_annotations(annotations: &Value) -> Self {
        if annotations.is_null() {
            return Self::default();
        }
        let text = |name: &str| line(annotations.get(name).and_then(Value::as_str).unwrap_or(""));
        Self { owner: text(OWNER), remediation: text(REMEDIATION), docs_url: text(DOCS_URL) }
    }

    /// Reads the annotations of a policy object.
    pub fn of_policy(policy: &Value) -> Self {
        let annotations = policy.path(&["metadata", "annotations"]);
        annotations.map(Self::of_annotations).unwrap_or_default()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.owner.is_empty() && self.remediation.is_empty() && self.docs_url.is_empty()
    }
}

impl fmt::Display for Guidance {
    /// ` (owner: team platform; fix: add the label; see https://…)`, with its leading space, so that
    /// a text without annotations stays as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts =
            [("owner: ", &self.owner), ("fix: ", &self.remediation), ("see ", &self.docs_url)];
        let mut before = " (";
        for (label, text) in parts.into_iter().filter(|(_, text)| !text.is_empty()) {
            write!(f, "{before}{label}{text}")?;
            before = "; ";
        }
        if before == "; " { f.write_str(")") } else { Ok(()) }
    }
}

/// The text on one line of limited length: each violation is a line of the denial.
fn line(text: &str) -> Str {
    let mut out = String::new();
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if !out.is_empty() && !word.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    if let Some((end, _)) = out.char_indices().nth(MAX_TEXT) {
        out.truncate(end);
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let long = "x".repeat(MAX_TEXT + 1);
        let cut = format!(" (owner: {})", "x".repeat(MAX_TEXT));
        for (annotations, expected) in [
            ("{}", ""),
            ("null", ""),
            (r#"{"modgate.sh/owner": "", "other": "x"}"#, ""),
            (r#"{"modgate.sh/owner": 1}"#, ""),
            (r#"{"modgate.sh/owner": "team a"}"#, " (owner: team a)"),
            (r#"{"modgate.sh/docs-url": "https://e.org"}"#, " (see https://e.org)"),
            (
                r#"{"modgate.sh/owner": "a", "modgate.sh/remediation": " add\n\tit\u0007 ", "modgate.sh/docs-url": "b"}"#,
                " (owner: a; fix: add it; see b)",
            ),
            (&format!(r#"{{"modgate.sh/owner": "{long}"}}"#), cut.as_str()),
        ] {
            let annotations = Value::from_json(annotations.as_bytes()).expect("JSON");
            let guidance = Guidance::of_annotations(&annotations);
            assert_eq!(guidance.to_string(), expected);
            assert_eq!(guidance.is_empty(), expected.is_empty());
        }
    }
}
