//! The annotation with which an author allows a warning: `modgate.sh/allow: CODE reason`; and the comment, `# modgate: allow
//! CODE reason`.
//!
//! Several entries stand on lines of their own, or behind semicolons. An entry without a reason allows
//! nothing: the next reader of the policy has to learn why.

use modgate_value::{Value, near, pointer};

use super::Lints;
use crate::{
    Code, Problem, Severity,
    guidance::{DOCS_URL, OWNER, REMEDIATION},
    sync_data,
};

/// The annotation.
const ANNOTATION: &str = "modgate.sh/allow";

/// Every annotation that modgate reads.
const ANNOTATIONS: [&str; 4] = [ANNOTATION, DOCS_URL, OWNER, REMEDIATION];

/// The entries: code and reason.
fn entries(object: &Value) -> impl Iterator<Item = (&str, &str)> {
    let text = object.path(&["metadata", "annotations", ANNOTATION]).and_then(Value::as_str);
    let entries = text.unwrap_or_default().split(['\n', ';']).map(str::trim);
    entries.filter(|entry| !entry.is_empty()).map(|entry| {
        let (code, reason) = entry.split_once(char::is_whitespace).unwrap_or((entry, ""));
        (code, reason.trim())
    })
}

/// The beginning of a comment that allows warnings about its line, or about the line below it: `#
/// modgate: allow CODE reason`; in CEL, comments begin with `//`.
const COMMENT: &str = "modgate: allow";

/// The code and the reason of a comment in a line.
fn of_comment(line: &str) -> Option<(&str, &str)> {
    let mut starts = line.match_indices(COMMENT);
    starts.find_map(|(at, _)| {
        let before = line.get(..at)?.trim_end();
        let is_comment = before.ends_with('#') || before.ends_with("//");
        let rest = line.get(at + COMMENT.len()..)?;
        let rest = rest.strip_prefix(char::is_whitespace).or(rest.is_empty().then_some(rest))?;
        let (code, reason) =
            rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        is_comment.then(|| (code, reason.trim()))
    })
}

/// Whether a comment in a text allows a warning about the place at an offset, with a reason: in its line, or in a line of
/// its own above it.
pub fn allowed_at(text: &str, offset: usize, code: &str) -> bool {
    let allows =
        |line: &str| of_comment(line).is_some_and(|(it, why)| it == code && !why.is_empty());
    let start = text.get(..offset).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let line = text.get(start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let is_comment = |line: &&str| {
        let line = line.trim_start();
        line.starts_with('#') || line.starts_with("//")
    };
    let above = text.get(..start).unwrap_or_default().lines().rev().take_while(is_comment);
    allows(line) || above.into_iter().any(allows)
}

/// The comments of a text that allow nothing: the offset of each, the message and the advice.
pub fn idle_comments(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if let Some((code, reason)) = of_comment(line) {
            let at = start + line.find(COMMENT).unwrap_or_default();
            found.extend(
                idle(code, reason, "the comment").map(|(message, help)| (at, message, help)),
            );
        }
        start += line.len();
    }
    found
}

/// The mistake in an entry that allows nothing, and the advice.
fn idle(code: &str, reason: &str, what: &str) -> Option<(String, String)> {
    let mut names = Code::ALL.iter().map(|code| code.as_str());
    if !names.any(|known| known == code) {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
        let help = near::did_you_mean(code, names);
        let help = help.unwrap_or_else(|| "docs/warnings.md has the codes".to_owned());
        return Some((format!("{what} names `{code}`, which is no warning"), help));
    }
    reason.is_empty().then(|| {
        let message = format!("{what} allows `{code}` without a reason, so it allows nothing");
        (message, format!("write `{code} REASON`"))
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
    // Rego and CEL are texts of the object, so their comments are known without a file.
    let by_comment = |problem: &Problem, code: Code| {
        let text = problem.text.as_deref().zip(problem.span);
        text.is_some_and(|(text, span)| allowed_at(text, span.start, code.as_str()))
    };
    let mut index = 0;
    problems.retain(|problem| {
        index += 1;
        let is_allowed = problem
            .code
            .is_some_and(|code| allowed.contains(&code.as_str()) || by_comment(problem, code));
        index <= first || problem.severity == Severity::Error || !is_allowed
    });
}

/// An annotation that is none of modgate's and looks like one.
fn misspelt(lints: &mut Lints<'_>, name: &str) {
    if ANNOTATIONS.contains(&name) || name == sync_data::ANNOTATION {
        return;
    }
    if near::nearest(name, [sync_data::ANNOTATION]).is_some() {
        let message = format!("nothing reads an annotation `{name}`");
        let help = near::did_you_mean(name, [sync_data::ANNOTATION]);
        return at_name(lints, name, message, help);
    }
    let near = near::nearest(name, ANNOTATIONS);
    if near.is_none() && !name.starts_with("modgate.sh/") {
        return;
    }
    let message = format!("modgate reads no annotation `{name}`");
    let help = near::did_you_mean_or(name, &ANNOTATIONS, "the annotations are");
    at_name(lints, name, message, Some(help));
}

/// A warning about the name of an annotation.
fn at_name(lints: &mut Lints<'_>, name: &str, message: String, help: Option<String>) {
    let pointer = pointer::below("/metadata/annotations", name);
    let position = lints.source.positions.as_ref().map(|all| all.nearest_key(&pointer).into());
    let field = "metadata.annotations";
    lints.at(Code::AllowAnnotation, field, position, message, help);
}

/// Entries that allow nothing.
pub(super) fn check(lints: &mut Lints<'_>) {
    let field = "metadata.annotations";
    let annotations = lints.object().path(&["metadata", "annotations"]).and_then(Value::as_object);
    for name in annotations.into_iter().flat_map(|members| members.keys()) {
        misspelt(lints, name);
    }
    for (code, reason) in entries(lints.object()) {
        if let Some((message, help)) = idle(code, reason, &format!("`{ANNOTATION}`")) {
            lints.push(Code::AllowAnnotation, field, message, Some(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments() {
        let text = "\
a: 1 # modgate: allow no-effect it is meant
# modgate: allow unknown-path the CRD has it
# more
b: 2
c: 3 # modgate: allow no-effect
d: '# modgate: allowed no-effect x'
e: size(x) == 0 // modgate: allow type-check dynamic
";
        let at = |word: &str| text.find(word).expect(word);
        for (word, code, expected) in [
            ("a:", "no-effect", true),
            ("a:", "unknown-path", false),
            ("b:", "unknown-path", true),
            ("b:", "no-effect", false),
            ("c:", "no-effect", false),
            ("d:", "no-effect", false),
            ("e: size", "type-check", true),
        ] {
            assert_eq!(allowed_at(text, at(word), code), expected, "{word} {code}");
        }
        let idle: Vec<String> = idle_comments(text).into_iter().map(|(_, it, _)| it).collect();
        assert_eq!(idle, ["the comment allows `no-effect` without a reason, so it allows nothing"]);
        assert!(!allowed_at("", 7, "no-effect"));
    }
}
