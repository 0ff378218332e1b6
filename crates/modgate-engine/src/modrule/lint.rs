//! Rules that load but probably do not do what their authors intend: the verdicts W of section 9.

mod compared;
mod criteria;
mod values;

use modgate_api::{kinds, meta::Operation, modrule::ModRule};
use modgate_select::{PatchSelect, Read, ReadStep};
use modgate_value::{Value, diag::Span, gofmt::quote, near};

use super::{
    compile::{Action, CompiledModRule, Criterion, PatchStep, PatchValue, Test},
    patch, references,
};
use crate::{
    Code, EngineConfig, PolicyId, PolicySource, Problem, Severity,
    jsonpatch::{Op, PatchOperation},
    lint::{
        known_fields,
        places::{self, Fault, Objects, Pointer, Step, What},
    },
    policy::pointer,
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
    let objects = Objects::of_kinds(&kinds);
    for criterion in &compiled.criteria {
        lint_criterion(criterion, &mut lints);
        lint_kinds(criterion, &mut lints);
        criteria::ignored(rule, criterion, own_kinds, &mut lints);
        let field = format!("spec.match[{}].select", criterion.index);
        let (reads, text) = (criterion.select.reads(), criterion.select.text());
        lint_reads(&objects, &reads, (&field, text), &mut lints);
        lint_values(&objects, &reads, criterion, &mut lints);
        compared::types(&objects, &reads, criterion, &mut lints);
        compared::texts(&reads, criterion, &mut lints);
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
            let pointer = path.and_then(Pointer::parse);
            let fault = pointer.as_ref().and_then(|it| it.fault(&objects, step.op == Op::Add));
            if let Some((code, message, help)) = fault {
                lints.push(code, format!("spec.patch[{}].path", step.index), message, help);
            }
            if let Some(select) = &step.select {
                let field = format!("spec.patch[{}].select", step.index);
                lint_reads(&objects, &select.reads(), (&field, select.text()), &mut lints);
            }
            if let Some(pointer) = &pointer {
                values::of_few(&objects, pointer, step, &mut lints);
            }
            lint_step(step, path.unwrap_or_default(), &mut lints);
            values::of_type(own_kinds, step, path.unwrap_or_default(), &mut lints);
            if let (Some(pointer), false) = (&pointer, own_kinds.is_empty()) {
                let text = operation.and_then(|operation| operation.value.as_deref());
                values::of_parts(&objects, pointer, step, text.unwrap_or_default(), &mut lints);
            }
            if let PatchValue::Template(template) = &step.value {
                let text = operation.and_then(|operation| operation.value.as_deref());
                let (known, field) =
                    (&values::OF_PATCHES, format!("spec.patch[{}].value", step.index));
                let text = text.unwrap_or_default();
                values::of_template(template, known, &objects, &field, text, &mut lints);
            }
        }
    }
    if let Action::Reject(Some(message)) = &compiled.action {
        let field = "spec.rejectMessage";
        lints.impure(field.to_owned(), message.impure_functions());
        let text = rule.spec.reject_message.as_deref().unwrap_or_default();
        values::of_template(message, &values::OF_MESSAGES, &objects, field, text, &mut lints);
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

/// Fields that a select reads and that no object has.
fn lint_reads(
    objects: &Objects<'_>,
    reads: &[Read],
    (field, text): (&str, &str),
    lints: &mut Lints<'_>,
) {
    for read in reads {
        let steps = steps_of(read);
        if let [Step::Member("syntheticRefs"), Step::Member(name), ..] = steps.as_slice()
            && let Some(help) = references::misspelt(name)
        {
            let message = format!("`syntheticRefs` has no `{name}`, so nothing is found");
            lints.push(Code::UnknownPath, field.to_owned(), message, Some(help));
            if let Some((_, span)) = read.steps.get(1) {
                lints.mark_span(text, *span);
            }
            continue;
        }
        let Some(Fault { at, what }) = objects.fault(&steps) else { continue };
        let Some((_, span)) = read.steps.get(at) else { continue };
        let (code, message, help) = match what {
            What::Misspelt(name, meant) => (
                Code::UnknownPath,
                format!("no object that this rule matches has the field `{name}`"),
                Some(format!("did you mean `{meant}`?")),
            ),
            What::OfList(name, _) => (
                Code::NeverMatches,
                format!("`{name}` is read from a list, so nothing is found"),
                Some(match name {
                    "length" | "size" | "count" => "write `length($.list)`".to_owned(),
                    _ => format!("name the elements: `[*].{name}`"),
                }),
            ),
            What::OfScalar(name) => (
                Code::NeverMatches,
                format!("`{name}` is read from a text or a number, so nothing is found"),
                text.contains('/').then(|| {
                    "a name with `.` or `/` stands in brackets: `$.metadata.labels[\"a.b/c\"]`"
                        .to_owned()
                }),
            ),
            What::Key(..) | What::NoList => continue,
        };
        lints.push(code, field.to_owned(), message, help);
        lints.mark_span(text, *span);
    }
}

fn steps_of(read: &Read) -> Vec<Step<'_>> {
    let steps = read.steps.iter().map(|(step, _)| match step {
        ReadStep::Member(name) => Step::Member(name),
        ReadStep::Element => Step::Any,
    });
    steps.collect()
}

/// Texts that are near to one of the few values of the field with which they are compared.
fn lint_values(
    objects: &Objects<'_>,
    reads: &[Read],
    criterion: &Criterion,
    lints: &mut Lints<'_>,
) {
    let slip = |steps: &[Step<'_>], text: &str| {
        let known = objects.values(steps).filter(|known| !known.contains(&text))?;
        near::did_you_mean(text, known.iter().copied())
    };
    for read in reads {
        for (text, span) in &read.compared {
            if let Some(help) = slip(&steps_of(read), text) {
                let field = format!("spec.match[{}].select", criterion.index);
                lints.push(Code::NeverMatches, field, places::never_has(text), Some(help));
                lints.mark_span(criterion.select.text(), *span);
            }
        }
    }
    let ([read], false) = (reads, criterion.select.is_condition()) else { return };
    let texts: Vec<&str> = match &criterion.test {
        Test::Value(text) => vec![text],
        Test::OneOf(texts) => texts.iter().map(String::as_str).collect(),
        Test::Regex(_) | Test::None => return,
    };
    let item = format!("spec.match[{}]", criterion.index);
    let list = lints.source.object.pointer(&pointer(&format!("{item}.matchValues")));
    for text in texts {
        let Some(help) = slip(&steps_of(read), text) else { continue };
        let mut written = list.and_then(Value::as_array).into_iter().flat_map(|list| list.iter());
        let field = match written.position(|it| it.as_str() == Some(text)) {
            Some(at) => format!("{item}.matchValues[{at}]"),
            None => format!("{item}.matchValue"),
        };
        lints.push(Code::NeverMatches, field, places::never_has(text), Some(help));
    }
}

fn lint_criterion(criterion: &Criterion, lints: &mut Lints<'_>) {
    let field = |name: &str| format!("spec.match[{}].{name}", criterion.index);
    for lint in criterion.select.lints() {
        let message = match lint.id {
            "" => lint.message,
            id => format!("{} ({id})", lint.message),
        };
        lints.push(select_code(lint.id), field("select"), message, lint.help);
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
    captured_keys(step, path, field("path"), lints);
    values::of_operation(step, lints);
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
fn captured_keys(step: &PatchStep, path: &str, field: String, lints: &mut Lints<'_>) {
    let is_key = |part: &&str| {
        let digits = part.strip_prefix('#').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    if let (None, Some(key)) = (&step.select, path.split('/').find(is_key)) {
        let message = format!("`{key}` stands for itself, because the patch has no `select`");
        let help = "add `select`, such as `$.spec.containers[*]`".to_owned();
        lints.push(Code::CapturedKey, field, message, Some(help));
        return;
    }
    let Some(most) = step.select.as_deref().and_then(PatchSelect::captures) else { return };
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
        "" => Code::NeverMatches,
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
                missing: None,
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
            missing: None,
        });
    }

    /// As [`push`](Self::push), of the name of the field.
    fn push_key(&mut self, code: Code, field: String, message: String, help: Option<String>) {
        let position = self.source.key_position(&field);
        self.push(code, field, message, help);
        if let Some(problem) = self.found.last_mut() {
            problem.position = position;
        }
    }

    /// Has the last warning mark a part of its field's text.
    fn mark(&mut self, text: &str, part: &str) {
        if let Some(at) = text.find(part) {
            self.mark_span(text, Span::new(at, at + part.len()));
        }
    }

    fn mark_span(&mut self, text: &str, span: Span) {
        if let Some(problem) = self.found.last_mut() {
            problem.text = Some(text.into());
            problem.span = Some(span);
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
