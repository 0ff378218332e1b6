//! Sources of a template that no engine reads, and members of sources: the schema of the CRD leaves them open.

use modgate_value::{Value, near};

use super::{Lints, fields::help};
use crate::Code;

/// The members of a source, by engine, and of the items of its lists.
const REGO: [&str; 3] = ["libs", "rego", "version"];
const LISTS: [(&str, &[&str]); 3] = [
    ("matchCondition", &["expression", "name"]),
    ("validations", &["expression", "message", "messageExpression"]),
    ("variables", &["expression", "name"]),
];

/// The versions of Rego that a source can name.
const VERSIONS: [&str; 2] = ["v0", "v1"];

/// Checks every entry of `code`. The members of a CEL source itself are checked where it is compiled.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(target) = lints.object().pointer("/spec/targets/0") else { return };
    let Some(code) = target.get("code").and_then(Value::as_array) else { return };
    let legacy = target.get("rego").and_then(Value::as_str).unwrap_or_default();
    // `rego` wins over an entry of `code` (TC-10).
    let mut read: Vec<&str> = if legacy.is_empty() { Vec::new() } else { vec!["Rego"] };
    for (index, entry) in code.iter().enumerate() {
        let field = format!("spec.targets[0].code[{index}]");
        let (engine, source) = (entry.get("engine").and_then(Value::as_str), entry.get("source"));
        if let Some(engine) = engine {
            if read.contains(&engine) {
                let message = "another source of this engine is read instead of this one";
                let help = Some("keep one of them".to_owned());
                lints.push_key(Code::NoEffect, &field, message.to_owned(), help);
            }
            read.push(engine);
        }
        let field = format!("{field}.source");
        match (engine, source) {
            (Some("Rego"), Some(source)) => {
                members(lints, source, &field, &REGO);
                version(lints, source, &field);
            }
            (Some("K8sNativeValidation"), Some(source)) => {
                for (list, known) in LISTS {
                    let items = source.get(list).and_then(Value::as_array);
                    for (at, item) in items.into_iter().flat_map(|items| items.iter()).enumerate() {
                        members(lints, item, &format!("{field}.{list}[{at}]"), known);
                    }
                }
            }
            _ => {}
        }
    }
}

/// A version that is neither of the two means `v0`.
fn version(lints: &mut Lints<'_>, source: &Value, field: &str) {
    let version = source.get("version").and_then(Value::as_str).unwrap_or_default();
    if !version.is_empty() && !VERSIONS.contains(&version) {
        let message = format!("`{version}` is unknown and means `v0`");
        let help = near::did_you_mean_or(version, &VERSIONS, "the versions are");
        lints.push(Code::UnknownValue, &format!("{field}.version"), message, Some(help));
    }
}

fn members(lints: &mut Lints<'_>, value: &Value, field: &str, known: &[&str]) {
    let names = value.as_object().into_iter().flat_map(|members| members.keys());
    let unknown: Vec<String> = names
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| format!("{field}.{name}"))
        .collect();
    for field in unknown {
        let help = help(&field, known);
        lints.push_key(Code::UnknownField, &field, "unknown field, ignored".to_owned(), Some(help));
    }
}
