//! Rules that load but probably do not do what their authors intend: the verdicts W of section 9.

mod criteria;
mod values;

use modgate_api::{kinds, meta::Operation, modrule::ModRule};
use modgate_select::PatchSelect;
use modgate_value::{Value, diag::Span, gofmt::quote};

use super::{
    compile::{Action, CompiledModRule, Criterion, PatchStep, PatchValue, Test},
    patch,
};
use crate::{
    Code, EngineConfig, PolicyId, PolicySource, Problem, Severity,
    jsonpatch::PatchOperation,
    lint::{known_fields, misspelt_field},
};

/// The warnings about a rule, in the order of its fields.
pub(super) fn lint(
    rule: &ModRule,
    compiled: &CompiledModRule,
    source: &PolicySource,
    config: &EngineConfig,
) -> Vec<Problem> {
    let mut lints = Lints { compiled, source, found: Vec::new() };
    if compiled.target.is_some()
        && !config.cluster_rules_namespaces.contains(&compiled.id.namespace)
    {
        let clusters: Vec<String> = config
            .cluster_rules_namespaces
            .iter()
            .map(|namespace| format!("`{namespace}`"))
            .collect();
        lints.push(
            Code::NoEffect,
            "spec.targetNamespaceRegex".to_owned(),
            format!(
                "has no effect in namespace `{}`, only in {}",
                compiled.id.namespace,
                clusters.join(" and ")
            ),
            None,
        );
    }
    let kinds: Vec<&str> = compiled
        .criteria
        .iter()
        .filter_map(|criterion| criterion.kinds.as_ref().filter(|_| !criterion.negate))
        .flat_map(|kinds| kinds.iter().map(|kind| kind.as_str()))
        .collect();
    criteria::reach(compiled, config, &mut lints);
    // Kinds of custom resources may have the names of others.
    let names_group = compiled.criteria.iter().any(|it| it.select.text().contains("apiVersion"));
    let own_kinds = if names_group { &[][..] } else { &kinds[..] };
    for criterion in &compiled.criteria {
        lint_criterion(criterion, &mut lints);
        lint_kinds(criterion, &mut lints);
        criteria::ignored(rule, criterion, own_kinds, &mut lints);
        let (field, text) =
            (format!("spec.match[{}].select", criterion.index), criterion.select.text());
        lint_path(&kinds, &selected(text), field, &mut lints);
    }
    if let Action::Patch(steps) = &compiled.action {
        if compiled.operations.contains(Operation::Delete) {
            lints.push(
                Code::NoEffect,
                "spec.admissionOperations".to_owned(),
                "a patch cannot change an object that is being deleted; it is dropped (Q-34)"
                    .to_owned(),
                None,
            );
        }
        for step in steps {
            let operation = rule.spec.patch.get(step.index);
            let path = operation.and_then(|operation| operation.path.as_deref());
            let field = format!("spec.patch[{}].path", step.index);
            lint_path(&kinds, &addressed(path.unwrap_or_default()), field, &mut lints);
            lint_step(step, path.unwrap_or_default(), &mut lints);
            values::of_type(own_kinds, step, path.unwrap_or_default(), &mut lints);
            if let PatchValue::Template(template) = &step.value {
                let text = operation.and_then(|operation| operation.value.as_deref());
                let (known, field) =
                    (&values::OF_PATCHES, format!("spec.patch[{}].value", step.index));
                let text = text.unwrap_or_default();
                values::of_template(template, known, &kinds, &field, text, &mut lints);
            }
        }
    }
    if let Action::Reject(Some(message)) = &compiled.action {
        let field = "spec.rejectMessage";
        lints.impure(field.to_owned(), message.impure_functions());
        let text = rule.spec.reject_message.as_deref().unwrap_or_default();
        values::of_template(message, &values::OF_MESSAGES, &kinds, field, text, &mut lints);
    }
    lints.found
}

/// Kinds that no object has: resources, and kinds in other case.
fn lint_kinds(criterion: &Criterion, lints: &mut Lints<'_>) {
    let field = match &criterion.test {
        Test::Value(_) => "matchValue",
        Test::OneOf(_) => "matchValues",
        Test::Regex(_) => "matchRegex",
        Test::None => "select",
    };
    for kind in criterion.kinds.iter().flatten() {
        let meant = kinds::of_resource_name(kind).filter(|meant| meant != kind);
        let is_kind = kinds::all().any(|known| known == kind);
        let Some(meant) = meant.filter(|_| !is_kind) else { continue };
        lints.push(
            Code::NeverMatches,
            format!("spec.match[{}].{field}", criterion.index),
            format!("no kind is called `{kind}`"),
            Some(format!("did you mean `{meant}`?")),
        );
    }
}

/// A field of built-in kinds that does not exist and is close to one that does.
fn lint_path(kinds: &[&str], steps: &[&str], field: String, lints: &mut Lints<'_>) {
    if let Some((name, meant)) = misspelt_field(kinds, steps) {
        lints.push(
            Code::UnknownPath,
            field,
            format!("no object that this is about has the field `{name}`"),
            Some(format!("did you mean `{meant}`?")),
        );
    }
}

/// The fields at the start of a select such as `$.spec.containers[*].image`; elements of lists are
/// empty.
fn selected(text: &str) -> Vec<&str> {
    let Some(path) = text.trim_start().strip_prefix("$.") else { return Vec::new() };
    let is_part = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        let end = rest.find(|it| !is_part(it)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return steps;
        }
        steps.push(name);
        rest = match after.strip_prefix('.') {
            Some(after) => after,
            // Only whole elements: names behind a filter may belong to anything.
            None => match after.strip_prefix("[*].") {
                Some(after) => after,
                None => return steps,
            },
        };
    }
}

/// The fields of the path of a patch; elements of lists are empty.
fn addressed(path: &str) -> Vec<&str> {
    let Some(path) = path.strip_prefix('/') else { return Vec::new() };
    let is_element = |step: &str| {
        step == "-" || step.starts_with('#') || step.chars().all(|it| it.is_ascii_digit())
    };
    path.split('/').map(|step| if is_element(step) { "" } else { step }).collect()
}

fn lint_criterion(criterion: &Criterion, lints: &mut Lints<'_>) {
    let field = |name: &str| format!("spec.match[{}].{name}", criterion.index);
    for lint in criterion.select.lints() {
        lints.push(
            select_code(lint.id),
            field("select"),
            format!("{} ({})", lint.message, lint.id),
            lint.help,
        );
        if let Some(problem) = lints.found.last_mut() {
            problem.text = Some(criterion.select.text().into());
            problem.span = Some(lint.span);
        }
    }
    let texts: Vec<&String> = match &criterion.test {
        Test::Value(text) => vec![text],
        Test::OneOf(texts) => texts.iter().collect(),
        Test::Regex(_) | Test::None => Vec::new(),
    };
    for text in texts.into_iter().filter(|text| is_big_integer(text)) {
        lints.push(
            Code::SelectNumber,
            field("matchValue"),
            format!(
                "a number from 1000000 on has exponent form as text, so {} never equals one \
                 (Q-08)",
                quote(text)
            ),
            Some(format!("compare numbers: `{} == {text}`", criterion.select.text())),
        );
    }
}

/// `path` is the path of the patch as it is written.
fn lint_step(step: &PatchStep, path: &str, lints: &mut Lints<'_>) {
    let field = |name: &str| format!("spec.patch[{}].{name}", step.index);
    if !path.starts_with('/') {
        lints.push(
            Code::PatchPath,
            field("path"),
            match path.split_once('/') {
                Some((before, _)) => {
                    format!("`{before}` before the first `/` is dropped (Q-24)")
                }
                None => "a path without `/` addresses nothing (Q-24)".to_owned(),
            },
            Some("start the path with `/`".to_owned()),
        );
    }
    captured_keys(step, field("path"), lints);
    match &step.value {
        PatchValue::Constant(value, Some(text)) => {
            let (path, value_of) = (path.to_owned(), Some(value.clone()));
            let operation = PatchOperation { op: step.op, path, value: value_of };
            if let Some(found) = patch::not_text(&operation) {
                lints.push(Code::PatchValue, field("value"), found, None);
            }
            let text = text.trim();
            if value.is_null() && (text.is_empty() || text.starts_with('#')) {
                lints.push(
                    Code::PatchValue,
                    field("value"),
                    "an empty value and one that starts with `#` are null (Q-22)".to_owned(),
                    Some("quote it within the value: `'\"\"'`".to_owned()),
                );
            }
        }
        PatchValue::Constant(_, None) => {}
        PatchValue::Broken(cause) => lints.push(
            Code::PatchValue,
            field("value"),
            format!("the value is not YAML, so the patch is always dropped: {cause}"),
            Some("quote it within the value".to_owned()),
        ),
        PatchValue::Template(template) => {
            lints.impure(field("value"), template.impure_functions());
        }
    }
}

/// Placeholders beyond the keys that `select` captures: the patch fails on every object.
fn captured_keys(step: &PatchStep, field: String, lints: &mut Lints<'_>) {
    let Some(most) = step.select.as_ref().and_then(PatchSelect::captures) else { return };
    let Some(beyond) = step.path.placeholders().find(|number| *number >= most) else { return };
    let help = match most {
        0 => "`select` has no step with several results, such as `[*]`".to_owned(),
        1 => "`select` captures one key: `#0`".to_owned(),
        most => format!("`select` captures {most} keys: `#0` to `#{}`", most - 1),
    };
    let message = format!("nothing stands for `#{beyond}`, so the patch is always dropped");
    lints.push(Code::CapturedKey, field, message, Some(help));
}

/// The code of what a `select` expression is warned about.
fn select_code(id: &str) -> Code {
    match id {
        "Q-03" | "Q-04" => Code::SelectMissing,
        "Q-07" | "Q-08" => Code::SelectNumber,
        "Q-12" => Code::SelectIndex,
        "Q-14" => Code::BadPattern,
        "Q-79" => Code::SelectName,
        _ => Code::UnknownFunction,
    }
}

/// Members the resource does not have: the API server would prune them, and a misspelled field
/// silently does nothing.
pub(crate) fn unknown_fields(id: &PolicyId, source: &PolicySource) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut check = |value: Option<&Value>, at: &str, known: &[&str]| {
        let Some(Value::Object(members)) = value else { return };
        for key in members.keys().filter(|key| !known.contains(&key.as_str())) {
            let field = format!("{at}{key}");
            found.push(Problem {
                severity: Severity::Warning,
                code: Some(Code::UnknownField),
                policy: id.clone(),
                origin: source.origin.clone(),
                position: source.key_position(&field),
                text: None,
                span: None,
                message: "unknown field, ignored".to_owned(),
                help: Some(known_fields(&field, known)),
                field,
            });
        }
    };
    let object = &source.object;
    check(Some(object), "", &["apiVersion", "kind", "metadata", "spec", "status"]);
    let spec = object.get("spec");
    check(spec, "spec.", &SPEC_FIELDS);
    for (list, known) in [("match", &MATCH_FIELDS[..]), ("patch", &PATCH_FIELDS[..])] {
        let items = spec.and_then(|spec| spec.get(list)).and_then(Value::as_array);
        for (index, item) in items.into_iter().flat_map(|items| items.iter()).enumerate() {
            check(Some(item), &format!("spec.{list}[{index}]."), known);
        }
    }
    found
}

const SPEC_FIELDS: [&str; 7] = [
    "admissionOperations",
    "executionTier",
    "match",
    "patch",
    "rejectMessage",
    "targetNamespaceRegex",
    "type",
];
const MATCH_FIELDS: [&str; 6] =
    ["matchFor", "matchRegex", "matchValue", "matchValues", "negate", "select"];
const PATCH_FIELDS: [&str; 4] = ["op", "path", "select", "value"];

/// Decimal digits of an integer that prints in exponent form.
fn is_big_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() >= 7
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
}

struct Lints<'a> {
    compiled: &'a CompiledModRule,
    source: &'a PolicySource,
    found: Vec<Problem>,
}

impl Lints<'_> {
    fn push(&mut self, code: Code, field: String, message: String, help: Option<String>) {
        self.found.push(Problem {
            severity: Severity::Warning,
            code: Some(code),
            policy: self.compiled.id.clone(),
            origin: self.source.origin.clone(),
            position: self.source.position(&field),
            field,
            text: None,
            span: None,
            message,
            help,
        });
    }

    /// Has the last warning mark a part of its field's text.
    fn mark(&mut self, text: &str, part: &str) {
        if let (Some(problem), Some(at)) = (self.found.last_mut(), text.find(part)) {
            problem.text = Some(text.into());
            problem.span = Some(Span::new(at, at + part.len()));
        }
    }

    fn impure(&mut self, field: String, functions: &[&'static str]) {
        if !functions.is_empty() {
            let names: Vec<String> = functions.iter().map(|name| format!("`{name}`")).collect();
            self.push(
                Code::ImpureTemplate,
                field,
                format!(
                    "the result depends on more than the object and differs from one review to \
                     the next: {} (Q-74)",
                    names.join(", ")
                ),
                None,
            );
        }
    }
}
