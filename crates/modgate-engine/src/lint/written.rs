//! Advice about values that have another type or another form than their field: how to write what is meant.

use modgate_api::{
    constraints, externaldata, kinds,
    schema::names::{label_value, subdomain},
};
use modgate_value::Value;

use crate::{PolicySource, Problem, Severity, policy::pointer};

/// Adds advice to an error that has none.
pub(crate) fn advise(problem: &mut Problem, source: &PolicySource) {
    if problem.severity == Severity::Error && problem.help.is_none() {
        problem.help = advice(problem, &source.object);
    }
}

fn advice(problem: &Problem, object: &Value) -> Option<String> {
    let (field, message) = (problem.field.as_str(), problem.message.as_str());
    let value = object.pointer(&pointer(field))?;
    let wants = |ours: &str, of_schema: &str| {
        message.contains(&format!("expected {ours}, got"))
            || message.contains(&format!("must be of type {of_schema}: "))
    };
    let is_constraint = problem.policy.group == constraints::GROUP;
    let name = field.rsplit('.').next().unwrap_or(field);
    match value {
        Value::String(text) if wants("a list", "array") => Some(format!("write `[{text}]`")),
        Value::Object(_) if wants("a list", "array") => {
            Some(format!("write `- ` in front of each item of `{name}`"))
        }
        Value::String(kind)
            if wants("an object", "object") && field.starts_with("spec.match.kinds[") =>
        {
            let group = kinds::groups_of(kind).next().unwrap_or_default();
            let advice = format!(
                "a kind stands with its API group: `{{apiGroups: [\"{group}\"], kinds: [{kind}]}}`"
            );
            Some(advice)
        }
        Value::String(_) | Value::Number(_) | Value::Bool(_)
            if wants("an object", "object") && name == "assign" =>
        {
            Some(format!(
                "write `assign: {{value: {}}}`",
                value.as_str().map_or_else(|| value.to_json(), str::to_owned)
            ))
        }
        Value::String(text) if problem.policy.group == externaldata::GROUP => {
            of_provider(name, text)
        }
        Value::String(text)
            if ["integer", "number"].iter().any(|it| wants("a whole number", it))
                || wants("a number", "number") =>
        {
            text.parse::<f64>().ok().map(|_| format!("write `{text}` without quotes"))
        }
        Value::String(text) if wants("a boolean", "boolean") => match text.as_str() {
            "true" | "false" => Some(format!("write `{text}` without quotes")),
            "yes" | "on" => Some("write `true`".to_owned()),
            "no" | "off" => Some("write `false`".to_owned()),
            _ => None,
        },
        Value::String(text)
            if is_constraint
                && message.contains("should match")
                && field.contains("amespaces[") =>
        {
            Some(of_namespace(text))
        }
        Value::String(text)
            if field == "metadata.name" && message.contains("RFC 1123 subdomain") =>
        {
            Some(as_name(text))
        }
        Value::String(text)
            if !text.is_empty() && message.contains("'-', '_' or '.'") && text.contains(' ') =>
        {
            let meant = text.trim().replace(' ', "-");
            label_value(&meant).is_empty().then(|| format!("it has no spaces: `{meant}`"))
        }
        _ => None,
    }
}

/// How to write a name that no API server takes.
pub(super) fn as_name(name: &str) -> String {
    let letter = |letter: char| match letter.to_ascii_lowercase() {
        lower if lower.is_ascii_alphanumeric() || lower == '.' => lower,
        _ => '-',
    };
    let meant: String = name.chars().map(letter).collect();
    let meant = meant.trim_matches(['-', '.']);
    let rule = "a name has lower-case letters, digits, `-` and `.`";
    match subdomain(meant).is_empty() {
        true => format!("name it `{meant}`: {rule}"),
        false => rule.to_owned(),
    }
}

/// The name of a namespace that the schema of a match block refuses.
fn of_namespace(text: &str) -> String {
    let inner = text.strip_prefix('*').unwrap_or(text);
    if inner.strip_suffix('*').unwrap_or(inner).contains('*') {
        return "`*` is a wildcard at its beginning or end only".to_owned();
    }
    let lower = text.to_lowercase().replace(['_', ' '], "-");
    let rule = "the name of a namespace has lower-case letters, digits and `-`";
    if lower == text { rule.to_owned() } else { format!("did you mean `{lower}`? {rule}") }
}

/// The address and the time-out of a Provider.
fn of_provider(name: &str, text: &str) -> Option<String> {
    match name {
        "url" => {
            let rest = text.strip_prefix("http://")?;
            Some(format!("a Provider answers with TLS: `https://{rest}`"))
        }
        "timeout" => {
            let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
            let seconds: u32 = digits.parse().ok()?;
            let seconds = match text.get(digits.len()..)? {
                "" | "s" => seconds,
                "m" => seconds.checked_mul(60)?,
                "h" => seconds.checked_mul(3600)?,
                _ => return None,
            };
            Some(format!("it is a number of seconds: write `{seconds}`"))
        }
        _ => None,
    }
}
