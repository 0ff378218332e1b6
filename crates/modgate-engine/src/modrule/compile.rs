//! A ModRule as the engine evaluates it, and what keeps one from becoming that (1.5, 1.7).
//!
//! Validation and loading are one function, so that what the webhook accepts is exactly what loads
//! (Q-16, Q-17).

use std::{collections::BTreeSet, fmt, ops::Deref, sync::Arc};

use modgate_api::{
    meta::Operation,
    modrule::{MatchItem, ModRule, PatchOperation},
};
use modgate_select::{Expr, PatchSelect};
use modgate_template::{Place, Template, offset_before, preprocess};
use modgate_value::{
    Str, Value,
    diag::Span,
    gofmt::quote,
    near,
    regex::{Allowance, GoRegex},
    yaml,
};

use super::{advice, lint, path::PathTemplate, references::Reads, shared};
use crate::{
    EngineConfig, PolicyId, PolicySource, Position, Problem, Severity,
    cost::Usage,
    coverage::{Coverage, Hits, PlaceKind},
    guidance::Guidance,
    jsonpatch::Op,
    policy::pointer,
};

/// A rule that is known to be valid.
#[derive(Debug)]
pub(crate) struct CompiledModRule {
    pub(crate) id: PolicyId,
    /// `namespace/name`, as rejections and logs have it.
    pub(crate) label: Str,
    /// The end of its rejections' messages.
    pub(crate) guidance: Guidance,
    pub(crate) tier: i16,
    pub(crate) operations: Operations,
    /// `targetNamespaceRegex`, if there is one and it is not empty.
    pub(crate) target: Option<Arc<GoRegex>>,
    /// Those that require a kind or a namespace come first, then those that require a text: when one
    /// of them is negative the rule does not match, whatever the others would cost. That is what
    /// lets the index leave rules out.
    pub(crate) criteria: Vec<Criterion>,
    pub(crate) action: Action,
    /// The synthetic references that any part of it may look at.
    pub(crate) reads: Reads,
    /// File or object it came from.
    pub(crate) origin: Str,
    /// Where it starts in its file.
    pub(crate) position: Option<Position>,
    /// Its cost.
    pub(crate) usage: Usage,
}

/// The operations a rule reacts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Operations(u8);

impl Operations {
    fn insert(&mut self, operation: Operation) {
        self.0 |= 1 << operation as u8;
    }

    pub(crate) fn contains(self, operation: Operation) -> bool {
        self.0 & (1 << operation as u8) != 0
    }
}

/// The action of a rule when it matches.
#[derive(Debug)]
pub(crate) enum Action {
    Patch(Vec<PatchStep>),
    Reject(Option<Template>),
}

impl Action {
    /// `spec.type`
    pub(crate) fn rule_type(&self) -> &'static str {
        match self {
            Self::Patch(_) => "Patch",
            Self::Reject(_) => "Reject",
        }
    }
}

/// One entry of `spec.match`.
#[derive(Debug)]
pub(crate) struct Criterion {
    /// Index in `spec.match`.
    pub(crate) index: usize,
    pub(crate) position: Option<Position>,
    /// Shared by rules that have the same one.
    pub(crate) condition: Arc<Condition>,
}

impl Deref for Criterion {
    type Target = Condition;

    fn deref(&self) -> &Condition {
        &self.condition
    }
}

/// The requirement of an entry of `spec.match`, wherever it stands.
#[derive(Debug)]
pub(crate) struct Condition {
    pub(crate) select: Expr,
    pub(crate) quantifier: Quantifier,
    pub(crate) test: Test,
    pub(crate) negate: bool,
    /// The kinds of object the item can be positive for, where that follows from its text.
    pub(crate) kinds: Option<BTreeSet<Str>>,
    /// Likewise for `metadata.namespace`.
    pub(crate) namespaces: Option<BTreeSet<Str>>,
    /// The synthetic references it may look at.
    pub(crate) reads: Reads,
    /// Equal for items that always come out the same.
    pub(crate) fingerprint: Str,
}

/// `matchFor`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    All,
}

/// The condition for each value of a criteria item (3.4): only the first one given counts.
#[derive(Debug)]
pub(crate) enum Test {
    Value(String),
    OneOf(BTreeSet<String>),
    Regex(Arc<GoRegex>),
    None,
}

impl fmt::Display for Test {
    /// `matchValue "Pod"`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(text) => write!(f, "matchValue {}", quote(text)),
            Self::OneOf(texts) => {
                f.write_str("matchValues [")?;
                for (index, text) in texts.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    write!(f, "{comma}{}", quote(text))?;
                }
                f.write_str("]")
            }
            Self::Regex(regex) => write!(f, "matchRegex {}", quote(regex.as_str())),
            Self::None => f.write_str("any value"),
        }
    }
}

/// One entry of `spec.patch`.
#[derive(Debug)]
pub(crate) struct PatchStep {
    /// Index in `spec.patch`.
    pub(crate) index: usize,
    pub(crate) op: Op,
    /// Shared by rules that have the same one.
    pub(crate) select: Option<Arc<PatchSelect>>,
    pub(crate) path: PathTemplate,
    pub(crate) value: PatchValue,
    /// The synthetic references it may look at.
    pub(crate) reads: Reads,
    pub(crate) position: Option<Position>,
}

impl PatchStep {
    /// Has its template count what renderings reach.
    fn observe(&mut self) {
        if let PatchValue::Template(template) = &mut self.value {
            *template = template.clone().observed();
        }
    }
}

/// The value of a patch operation.
#[derive(Debug)]
pub(crate) enum PatchValue {
    /// The same for every object; with the text it was read from, if any.
    Constant(Value, Option<Box<str>>),
    /// Not YAML, whatever the object: the rule's patch cannot be calculated.
    Broken(String),
    /// Rendered for each item.
    Template(Template),
}

/// Something wrong with one field of a policy, as the API server words it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field: `spec.match[0].select`.
    pub field: String,
    /// Which sentence it makes.
    pub kind: FieldErrorKind,
    /// The error.
    pub detail: String,
    /// The field's text and the part of it that is wrong, where only a part is.
    pub span: Option<(Str, Span)>,
    /// Advice for its author.
    pub help: Option<String>,
}

/// The sentences Kubernetes has for invalid fields.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldErrorKind {
    /// The value, as shown: texts quoted as Go does.
    Invalid(String),
    /// There is no value.
    Required,
    /// The value, quoted, is not one of an enumeration.
    Unsupported(String),
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, kind, detail, .. } = self;
        match kind {
            FieldErrorKind::Invalid(value) => {
                write!(f, "{field}: Invalid value: {value}: {detail}")
            }
            FieldErrorKind::Required => write!(f, "{field}: Required value: {detail}"),
            FieldErrorKind::Unsupported(value) => {
                write!(f, "{field}: Unsupported value: {value}: {detail}")
            }
        }
    }
}

impl FieldError {
    fn invalid(field: impl Into<String>, value: &str, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind: FieldErrorKind::Invalid(quote(value)),
            detail: detail.into(),
            span: None,
            help: None,
        }
    }

    fn required(field: impl Into<String>, detail: &str) -> Self {
        Self {
            field: field.into(),
            kind: FieldErrorKind::Required,
            detail: detail.to_owned(),
            span: None,
            help: None,
        }
    }

    fn unsupported(field: impl Into<String>, value: &str, supported: &str) -> Self {
        Self {
            field: field.into(),
            kind: FieldErrorKind::Unsupported(quote(value)),
            detail: format!("supported values: {supported}"),
            span: None,
            help: None,
        }
    }

    fn at(mut self, text: &str, span: impl Into<Span>) -> Self {
        self.span = Some((text.into(), span.into()));
        self
    }

    fn help(mut self, help: Option<impl Into<String>>) -> Self {
        self.help = help.map(Into::into);
        self
    }

    /// Whether it follows from a type that is misspelt, so that the type is all there is to mend.
    pub(crate) fn follows_from_type(&self) -> bool {
        ["spec.patch", "spec.rejectMessage"].contains(&self.field.as_str())
    }

    /// Whether the type of the rule is at fault.
    pub(crate) fn is_of_type(&self) -> bool {
        self.field == "spec.type"
    }

    /// The error as a problem of the policy it was found in.
    pub(crate) fn into_problem(self, id: &PolicyId, source: &PolicySource) -> Problem {
        let (text, span) = self.span.unzip();
        let message = match self.kind {
            FieldErrorKind::Invalid(_) => self.detail,
            FieldErrorKind::Required => format!("required: {}", self.detail),
            FieldErrorKind::Unsupported(value) => {
                format!("unsupported value {value}: {}", self.detail)
            }
        };
        Problem {
            severity: Severity::Error,
            code: None,
            policy: id.clone(),
            origin: source.origin.clone(),
            position: source.position(&self.field),
            field: self.field,
            text,
            span,
            message,
            help: self.help,
            missing: None,
        }
    }
}

/// Compiles a rule; also returns what its author may not have meant (verdicts W).
///
/// # Errors
///
/// Everything that is wrong with it: first what KubeMod's webhook reports, in its order and words
/// (V1 to V12), then what it fails to report (Q-16, Q-17) and what the CRD's schema would.
pub(crate) fn compile(
    rule: &ModRule,
    id: &PolicyId,
    source: &PolicySource,
    config: &EngineConfig,
) -> Result<(CompiledModRule, Vec<Problem>), Vec<FieldError>> {
    let mut errors = Vec::new();
    let patterns = Allowance::default();
    check_spec(rule, &mut errors);
    let criteria: Vec<Option<Criterion>> = rule
        .spec
        .criteria
        .iter()
        .enumerate()
        .map(|(index, item)| criterion(index, item, source, (&patterns, &mut errors)))
        .collect();
    let steps: Vec<Option<PatchStep>> = rule
        .spec
        .patch
        .iter()
        .enumerate()
        .map(|(index, operation)| patch_step(index, operation, source, (&patterns, &mut errors)))
        .collect();
    let message = rule.spec.reject_message.as_ref().and_then(|text| {
        template("spec.rejectMessage", "rejectMessage", text, text, (&patterns, &mut errors))
    });
    let target = rule.spec.target_namespace_regex.as_ref().filter(|regex| !regex.is_empty());
    let target = target
        .and_then(|pattern| regex("spec.targetNamespaceRegex", pattern, (&patterns, &mut errors)));
    let operations = check_schema(rule, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut criteria: Vec<Criterion> = criteria.into_iter().flatten().collect();
    criteria.sort_by_key(Criterion::order);
    criteria.shrink_to_fit();
    let mut steps: Vec<PatchStep> = steps.into_iter().flatten().collect();
    steps.shrink_to_fit();
    // Otherwise a pattern may be missing that another rule has.
    if !patterns.is_spent() {
        criteria.iter_mut().for_each(|item| shared::condition(&mut item.condition));
        steps.iter_mut().filter_map(|step| step.select.as_mut()).for_each(shared::select);
    }
    let mut message = message;
    if config.templates.observed {
        steps.iter_mut().for_each(PatchStep::observe);
        message = message.map(Template::observed);
    }
    let message_reads = Reads::of_template(rule.spec.reject_message.as_deref().unwrap_or_default());
    let parts = criteria.iter().map(|item| item.reads).chain(steps.iter().map(|step| step.reads));
    let compiled = CompiledModRule {
        reads: parts.fold(message_reads, Reads::and),
        id: id.clone(),
        label: format!("{}/{}", id.namespace, id.name).into(),
        guidance: Guidance::of_policy(&source.object),
        tier: rule.spec.execution_tier,
        operations,
        target,
        criteria,
        action: if rule.spec.rule_type == "Patch" {
            Action::Patch(steps)
        } else {
            Action::Reject(message)
        },
        origin: source.origin.clone(),
        position: source.position(""),
        usage: Usage::default(),
    };
    let warnings = lint::lint(rule, &compiled, source, config);
    Ok((compiled, warnings))
}

impl CompiledModRule {
    /// The places of its Go templates, with what renderings reached, if it was compiled for it. `rule` is its object.
    pub(crate) fn add_templates(&self, rule: &Value, coverage: &mut Coverage) {
        let mut add = |field: &str, template: &Template, text: &dyn Fn(usize) -> usize| {
            for place in template.places() {
                let Place { start, decides, reached, held, failed } = place;
                let start = text(start);
                let hits = Hits { decides, reached, held, failed };
                coverage.part(field, Span::new(start, start), PlaceKind::Expression, hits);
            }
        };
        match &self.action {
            Action::Reject(Some(message)) => add("spec.rejectMessage", message, &|at| at),
            Action::Reject(None) => {}
            Action::Patch(steps) => {
                for step in steps {
                    let PatchValue::Template(template) = &step.value else { continue };
                    let field = format!("spec.patch[{}].value", step.index);
                    let written = rule.pointer(&pointer(&field)).and_then(Value::as_str);
                    let written = written.unwrap_or_default();
                    add(&field, template, &|at| offset_before(written, at));
                }
            }
        }
    }
}

/// V1 to V5.
fn check_spec(rule: &ModRule, errors: &mut Vec<FieldError>) {
    let spec = &rule.spec;
    let is = |name: &str| spec.rule_type == name;
    if !is("Patch") && !is("Reject") {
        let help = near::did_you_mean_or(&spec.rule_type, &["Patch", "Reject"], "the types are");
        errors.push(
            FieldError::invalid("spec.type", &spec.rule_type, "unrecognized ModRule type")
                .help(Some(help)),
        );
    }
    if !is("Patch") && !spec.patch.is_empty() {
        let mut error = FieldError::invalid(
            "spec.patch",
            "",
            "field 'patch' should be present only for ModRules of type Patch",
        );
        // KubeMod prints a Go dump with memory addresses here (Q-60).
        let shown: Vec<String> = spec.patch.iter().map(show).collect();
        error.kind = FieldErrorKind::Invalid(format!("[{}]", shown.join(", ")));
        errors.push(error);
    }
    if is("Patch") && spec.patch.is_empty() {
        errors.push(FieldError::required(
            "spec.patch",
            "field 'patch' cannot be empty for ModRules of type Patch",
        ));
    }
    if let Some(message) = spec.reject_message.as_ref().filter(|_| !is("Reject")) {
        errors.push(FieldError::invalid(
            "spec.rejectMessage",
            message,
            "field 'rejectMessage' should be present only for ModRules of type Reject",
        ));
    }
    if matches!(spec.execution_tier, i16::MIN | i16::MAX) {
        let mut error = FieldError::invalid(
            "spec.executionTier",
            "",
            "field 'executionTier' should be an integer value between -32767 and 32766",
        );
        error.kind = FieldErrorKind::Invalid(spec.execution_tier.to_string());
        errors.push(error);
    }
}

/// A patch operation in short: `add "/metadata/labels/x"`.
fn show(operation: &PatchOperation) -> String {
    format!("{} {}", operation.op, quote(operation.path.as_deref().unwrap_or_default()))
}

/// V6 to V9.
fn criterion(
    index: usize,
    item: &MatchItem,
    source: &PolicySource,
    (patterns, errors): Compiling<'_>,
) -> Option<Criterion> {
    let field = |name: &str| format!("spec.match[{index}].{name}");
    let before = errors.len();
    let select = if item.select.is_empty() {
        errors.push(FieldError::invalid(
            field("select"),
            "",
            "spec.match[].select in body must be non-empty string",
        ));
        None
    } else {
        expression(&field("select"), &item.select, (patterns, errors))
    };
    let match_regex = item
        .match_regex
        .as_ref()
        .and_then(|pattern| regex(&field("matchRegex"), pattern, (patterns, errors)));
    let quantifier = match item.match_for.as_str() {
        "Any" => Quantifier::Any,
        "All" => Quantifier::All,
        other => {
            let help = near::did_you_mean_or(other, &["All", "Any"], "the values are");
            errors.push(
                FieldError::invalid(field("matchFor"), other, "unrecognized matchFor value")
                    .help(Some(help)),
            );
            Quantifier::Any
        }
    };
    let select = select.filter(|_| errors.len() == before)?;
    let test = match (&item.match_value, match_regex) {
        (Some(value), _) => Test::Value(value.clone()),
        (None, _) if !item.match_values.is_empty() => {
            Test::OneOf(item.match_values.iter().cloned().collect())
        }
        (None, Some(regex)) => Test::Regex(regex),
        (None, None) => Test::None,
    };
    let required = |place: &[&str]| {
        if item.negate { None } else { required_texts(&select, &test, place) }
    };
    let condition = Condition {
        kinds: required(&["kind"]),
        namespaces: required(&["metadata", "namespace"]),
        reads: Reads::of_expression(&select),
        fingerprint: format!("{quantifier:?} {} {test} {}", item.negate, item.select).into(),
        select,
        quantifier,
        test,
        negate: item.negate,
    };
    let position = source.position(&format!("spec.match[{index}]"));
    Some(Criterion { index, position, condition: condition.into() })
}

/// The texts at `place` an item can be positive for: the place itself compared with texts, or a
/// condition that is true of those texts only.
fn required_texts(select: &Expr, test: &Test, place: &[&str]) -> Option<BTreeSet<Str>> {
    if select.plain_path().is_some_and(|path| path == place) {
        return match test {
            Test::Value(text) => Some(BTreeSet::from([Str::from(text.as_str())])),
            Test::OneOf(texts) => Some(texts.iter().map(|text| text.as_str().into()).collect()),
            Test::Regex(_) | Test::None => None,
        };
    }
    select
        .requirements()
        .into_iter()
        .find(|requirement| requirement.path == place)
        .map(|requirement| requirement.texts)
}

/// V10 and V11, and bare paths (Q-16).
fn patch_step(
    index: usize,
    operation: &PatchOperation,
    source: &PolicySource,
    (patterns, errors): Compiling<'_>,
) -> Option<PatchStep> {
    let field = |name: &str| format!("spec.patch[{index}].{name}");
    let before = errors.len();
    let path = operation.path.as_deref().unwrap_or_default();
    let value = operation.value.as_ref().and_then(|text| {
        let rewritten = preprocess(text);
        template(&field("value"), path, text, &rewritten, (patterns, errors))
    });
    let select = operation.select.as_ref().and_then(|text| {
        // KubeMod parses the text by itself first, but only beside a `value`.
        let alone = operation.value.is_some() && !text.is_empty();
        if alone && expression(&field("select"), text, (patterns, errors)).is_none() {
            return None;
        }
        PatchSelect::parse_within(text, patterns)
            .map_err(|error| {
                errors.push(
                    FieldError::invalid(field("select"), text, error.message)
                        .at(text, error.span)
                        .help(error.help),
                );
            })
            .ok()
            .map(Arc::new)
    });
    if errors.len() > before {
        return None;
    }
    // Reported by `check_schema`.
    let op = Op::ALL.into_iter().find(|op| op.as_str() == operation.op)?;
    let reads = select.as_deref().map(Reads::of_select).unwrap_or_default();
    Some(PatchStep {
        reads: reads.and(Reads::of_template(operation.value.as_deref().unwrap_or_default())),
        index,
        op,
        path: if select.is_some() {
            PathTemplate::parse(path)
        } else {
            PathTemplate::literal(path)
        },
        select,
        value: match value {
            None => PatchValue::Constant(Value::Null, None),
            Some(template) => match template.as_constant() {
                Some(text) => match yaml::value(text) {
                    Ok(value) => PatchValue::Constant(value, Some(text.into())),
                    Err(error) => PatchValue::Broken(error.to_string()),
                },
                None => PatchValue::Template(template),
            },
        },
        position: source.position(&format!("spec.patch[{index}]")),
    })
}

/// The requirements of the CRD's schema beyond V1 to V12 (1.2), so that rules that did not pass through
/// an API server are held to it too.
fn check_schema(rule: &ModRule, errors: &mut Vec<FieldError>) -> Operations {
    if rule.spec.criteria.is_empty() {
        // A misspelled `match` would otherwise match every object (AS-02).
        errors.push(FieldError::required("spec.match", "a rule must have at least one item"));
    }
    for (index, operation) in rule.spec.patch.iter().enumerate() {
        if !Op::ALL.iter().any(|op| op.as_str() == operation.op) {
            errors.push(
                FieldError::unsupported(
                    format!("spec.patch[{index}].op"),
                    &operation.op,
                    r#""add", "replace", "remove""#,
                )
                .help(near::did_you_mean(&operation.op, Op::ALL.map(Op::as_str))),
            );
        }
        if operation.path.is_none() {
            let field = format!("spec.patch[{index}].path");
            errors.push(FieldError::required(field, "an operation must have a path"));
        }
    }
    let mut operations = Operations::default();
    for (index, name) in rule.spec.admission_operations.iter().enumerate() {
        match name.parse() {
            Ok(operation) if operation != Operation::Connect => operations.insert(operation),
            _ => errors.push(
                FieldError::unsupported(
                    format!("spec.admissionOperations[{index}]"),
                    name,
                    r#""CREATE", "UPDATE", "DELETE""#,
                )
                .help(near::did_you_mean(name, ["CREATE", "UPDATE", "DELETE"])),
            ),
        }
    }
    operations
}

fn expression(field: &str, text: &str, (patterns, errors): Compiling<'_>) -> Option<Expr> {
    Expr::parse_within(text, patterns)
        .map_err(|error| {
            let help = advice::select(text, error.span);
            errors.push(
                FieldError::invalid(field, text, error.message)
                    .at(text, advice::word(text).unwrap_or(error.span))
                    .help(help.or(error.help.map(str::to_owned))),
            );
        })
        .ok()
}

/// The allowance that the patterns of a rule spend, and the list of its errors.
type Compiling<'c> = (&'c Allowance, &'c mut Vec<FieldError>);

fn regex(field: &str, pattern: &str, (patterns, errors): Compiling<'_>) -> Option<Arc<GoRegex>> {
    patterns
        .share(pattern)
        .map_err(|error| {
            // A pattern of names of files.
            let is_glob = pattern.starts_with(['*', '?']);
            let help = is_glob
                .then(|| format!("any text is `.*`: write `{}`", pattern.replace('*', ".*")));
            errors.push(FieldError::invalid(field, pattern, error.to_string()).help(help));
        })
        .ok()
}

/// `shown` is the text as the author wrote it, `text` what is parsed.
fn template(
    field: &str,
    name: &str,
    shown: &str,
    text: &str,
    (patterns, errors): Compiling<'_>,
) -> Option<Template> {
    Template::parse_within(name, text, patterns)
        .map_err(|error| {
            let found = FieldError::invalid(field, shown, error.to_string())
                .help(advice::template(&error.message));
            // A span in a rewritten text would point beside the mark.
            errors.push(if shown == text { found.at(shown, error.span) } else { found });
        })
        .ok()
}
