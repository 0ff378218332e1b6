//! The annotation with which an author allows a warning: `modgate.sh/allow: CODE reason`.
//!
//! Several entries stand on lines of their own, or behind semicolons. An entry without a reason allows
//! nothing: the next reader of the policy has to learn why.

use modgate_value::{Value, near};

use super::Lints;
use crate::Code;
use crate::{Problem, Severity};

/// The annotation.
const ANNOTATION: &str = "modgate.sh/allow";

/// The entries: code and reason.
fn entries(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let text = object.path(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str);
    let entries = text.unwrap_or_default().split(['\n', ';']).map(str::trim);
    entries.filter(|entry| !entry.is_empty()).map(|entry| {
        let (code, reason) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        (code, reason.trim())
    })
}

/// Whether the author of a policy allows a finding, with a reason.
pub fn allows(object: &Value, code: Code) -> bool {
    entries(object).any(|(name, reason)| name == code.as_str() && !reason.is_empty())
}

/// Drops the warnings from number `first` on that the author of the policy allows.
pub(crate) fn retain(object: &Value, problems: &mut Vec<Problem>, first: usize) {
    let allowed: Vec<&str> =
        entries(object).filter(|(_, reason)| !reason.is_empty()).map(|(code, _)| code).collect();
    if allowed.is_empty() {
        return;
    }
    let mut index = 0;
    problems.retain(|problem| {
        index += 1;
        let is_allowed = problem.code.is_some_and(|code| allowed.contains(&code.as_str()));
        index <= first || problem.severity == Severity::Error || !is_allowed
    });
}

/// Entries that allow nothing.
pub(super) fn check(lints: &mut Lints<'_>) {
    let field = "metadata.annotations";
    for (code, reason) in entries(lints.object()) {
        let names = || Code::ALL.iter().map(|code| code.as_str());
        let (message, help) = if !names().any(|known| known == code) {
            (
                format!("`{ANNOTATION}` names `{code}`, which is no warning"),
                near::did_you_mean(code, names()),
            )
        } else if reason.is_empty() {
            (
                format!("`{ANNOTATION}` allows `{code}` without a reason, so it allows nothing"),
                Some(format!("write `{code} REASON`")),
            )
        } else {
            continue;
        };
        lints.push(Code::AllowAnnotation, field, message, help);
    }
}
