//! Values that the API server refuses, and fields that templates do not have.

use modgate_template::Template;
use modgate_value::{Value, near};

use super::Lints;
use crate::{
    Code,
    jsonpatch::Op,
    lint::{misspelt_field, types},
    modrule::compile::{PatchStep, PatchValue},
};

/// What the template of a patch value reads, and that of a message.
pub(super) const OF_PATCHES: [&str; 4] = ["Namespace", "SelectKeyParts", "SelectedItem", "Target"];
pub(super) const OF_MESSAGES: [&str; 2] = ["Namespace", "Target"];

/// A constant value that does not have the type of its field in the kinds of the rule.
pub(super) fn of_type(kinds: &[&str], step: &PatchStep, path: &str, lints: &mut Lints<'_>) {
    let PatchValue::Constant(value, Some(_)) = &step.value else { return };
    if step.op == Op::Remove || value.is_null() {
        return;
    }
    let names: Vec<String> =
        path.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    // Labels and annotations have a warning of their own.
    if let [metadata, map, ..] = names.as_slice()
        && metadata == "metadata"
        && ["labels", "annotations"].contains(&map.as_str())
    {
        return;
    }
    let is_element = |name: &str| {
        let digits = name.strip_prefix('#').unwrap_or(name);
        name == "-" || (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let steps: Vec<types::Step<'_>> = names
        .iter()
        .map(|name| match is_element(name) {
            true => types::Step::Element,
            false => types::Step::Member(name),
        })
        .collect();
    let Some(expected) = types::mismatch(kinds, &steps, value) else { return };
    let help = match value {
        Value::String(text)
            if matches!(text.as_str(), "true" | "false") || text.parse::<f64>().is_ok() =>
        {
            Some(format!(
                "write `'{text}'`: the value is YAML, and its quotes within make it a text"
            ))
        }
        Value::Object(_) if expected == "a list" => {
            Some("to add an element, end the path with `/-`".to_owned())
        }
        _ => None,
    };
    let message = format!("the field is {expected}, and the value is {}", types::shown(value));
    lints.push(Code::ValueType, format!("spec.patch[{}].value", step.index), message, help);
}

/// Fields that a template reads and its data does not have.
pub(super) fn of_template(
    template: &Template,
    known: &[&str],
    kinds: &[&str],
    field: &str,
    text: &str,
    lints: &mut Lints<'_>,
) {
    for path in template.fields_read() {
        let Some((first, rest)) = path.split_first() else { continue };
        if !known.contains(&first.as_str()) {
            let message = format!("a template here has no `.{first}`, so that it always fails");
            let listed: Vec<String> = known.iter().map(|name| format!(".{name}")).collect();
            let help = match near::nearest(first, known.iter().copied()) {
                Some(meant) => format!("did you mean `.{meant}`?"),
                None => format!("there are: {}", listed.join(", ")),
            };
            lints.push(Code::TemplateField, field.to_owned(), message, Some(help));
            lints.mark(text, &format!(".{first}"));
            continue;
        }
        let steps: Vec<&str> = rest.iter().map(|step| step.as_str()).collect();
        if first == "Target"
            && let Some((name, meant)) = misspelt_field(kinds, &steps)
        {
            let message = format!("no object that this is about has the field `{name}`");
            let help = format!("did you mean `{meant}`?");
            lints.push(Code::UnknownPath, field.to_owned(), message, Some(help));
            lints.mark(text, &format!(".{name}"));
        }
    }
}
