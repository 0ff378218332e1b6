//! Members of a template's sources that no engine reads: the schema of the CRD leaves them open.

use modgate_value::Value;

use super::{Lints, fields::help};
use crate::Code;

/// The members of a source, by engine, and of the items of its lists.
const REGO: [&str; 3] = ["libs", "rego", "version"];
const LISTS: [(&str, &[&str]); 3] = [
    ("matchCondition", &["expression", "name"]),
    ("validations", &["expression", "message", "messageExpression"]),
    ("variables", &["expression", "name"]),
];

/// Checks every entry of `code`. The members of a CEL source itself are checked where it is compiled.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(code) = lints.object().pointer("/spec/targets/0/code").and_then(Value::as_array)
    else {
        return;
    };
    for (index, entry) in code.iter().enumerate() {
        let field = format!("spec.targets[0].code[{index}].source");
        let (engine, source) = (entry.get("engine").and_then(Value::as_str), entry.get("source"));
        match (engine, source) {
            (Some("Rego"), Some(source)) => members(lints, source, &field, &REGO),
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
