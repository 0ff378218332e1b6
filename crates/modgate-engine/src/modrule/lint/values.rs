//! Values that the API server refuses, and fields that templates do not have.

use modgate_template::Template;
use modgate_value::{Value, near};

use super::Lints;
use crate::{
    Code,
    jsonpatch::Op,
    lint::{
        places::{self, Fault, Objects, Pointer, Step, What},
        types,
    },
    modrule::compile::{PatchStep, PatchValue},
};

/// The data of the template of a patch value, and that of a message.
pub(super) const OF_PATCHES: [&str; 4] = ["Namespace", "SelectKeyParts", "SelectedItem", "Target"];
pub(super) const OF_MESSAGES: [&str; 2] = ["Namespace", "Target"];

/// A constant value that does not have the type of its field in the kinds of the rule.
pub(super) fn of_type(kinds: &[&str], step: &PatchStep, path: &str, lints: &mut Lints<'_>) {
    let PatchValue::Constant(value, Some(_)) = &step.value else { return };
    if step.op == Op::Remove || value.is_null() {
        return;
    }
    let Some(pointer) = Pointer::parse(path) else { return };
    // What `#0` stands for may be an element or the name of a member, which have one type.
    let steps = pointer.steps();
    // Labels and annotations have a warning of their own.
    if let [Step::Member("metadata"), Step::Member("labels" | "annotations"), ..] = steps.as_slice()
    {
        return;
    }
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

/// A value that the operation does not read, or the lack of one that it writes.
pub(super) fn of_operation(step: &PatchStep, lints: &mut Lints<'_>) {
    let item = format!("spec.patch[{}]", step.index);
    let written = lints.source.object.pointer(&crate::policy::pointer(&item));
    let has_value = written.is_some_and(|item| item.get("value").is_some());
    match (step.op, has_value) {
        (Op::Remove, true) => {
            let message = "`remove` removes what is there, and reads no value".to_owned();
            let help = "delete the value; `op: replace` writes one".to_owned();
            lints.push_key(Code::NoEffect, format!("{item}.value"), message, Some(help));
        }
        (Op::Add | Op::Replace, false) => {
            let message = format!("`{}` without a value writes null", step.op.as_str());
            let help = "add `value`, or `op: remove` to remove the field".to_owned();
            lints.push_key(Code::PatchValue, format!("{item}.op"), message, Some(help));
        }
        _ => {}
    }
}

/// Parts of a constant value that no object has at its place. `text` is the value as it is written.
pub(super) fn of_parts(
    objects: &Objects<'_>,
    pointer: &Pointer,
    step: &PatchStep,
    text: &str,
    lints: &mut Lints<'_>,
) {
    let PatchValue::Constant(value, Some(_)) = &step.value else { return };
    let steps = pointer.steps();
    let Some(Step::Member("spec" | "data" | "rules" | "roleRef" | "subjects" | "webhooks")) =
        steps.first()
    else {
        return;
    };
    if step.op == Op::Remove || !matches!(objects, Objects::Of(_)) {
        return;
    }
    let name = places::last_name(&steps);
    for misfit in types::misfits(&objects.shapes(&steps), name, value) {
        let field = format!("spec.patch[{}].value", step.index);
        lints.push(misfit.code, field, misfit.message, misfit.help);
        lints.mark(text, &misfit.mark);
    }
}

/// A constant text that is none of the few that its field may have.
pub(super) fn of_few(
    objects: &Objects<'_>,
    pointer: &Pointer,
    step: &PatchStep,
    lints: &mut Lints<'_>,
) {
    let PatchValue::Constant(Value::String(text), Some(_)) = &step.value else { return };
    let steps = pointer.steps();
    let Some(known) = objects.values(&steps).filter(|known| !known.contains(&text.as_str())) else {
        return;
    };
    if step.op == Op::Remove {
        return;
    }
    let name = places::last_name(&steps);
    let help = near::did_you_mean_or(text, known, "the values are");
    let field = format!("spec.patch[{}].value", step.index);
    lints.push(Code::UnknownValue, field, places::has_no_value(name, text), Some(help));
}

/// Fields that a template reads and its data does not have.
pub(super) fn of_template(
    template: &Template,
    known: &[&str],
    objects: &Objects<'_>,
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
        let steps: Vec<Step<'_>> = rest.iter().map(|step| Step::Member(step)).collect();
        if first == "Target"
            && let Some(Fault { what: What::Misspelt(name, meant), .. }) = objects.fault(&steps)
        {
            let message = format!("no object that this rule matches has the field `{name}`");
            let help = format!("did you mean `{meant}`?");
            lints.push(Code::UnknownPath, field.to_owned(), message, Some(help));
            lints.mark(text, &format!(".{name}"));
        }
    }
}
