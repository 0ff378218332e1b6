//! How a constraint came to its result: which match criterion excluded the object, or which
//! expressions of the policy held and failed, with which values.

mod fault;
mod rego;

use std::cell::RefCell;

use modgate_api::constraints::EnforcementPoint;
use modgate_rego::builtins;
use modgate_value::Value;
use serde::Serialize;

pub use self::fault::faults;
use super::{
    admission::{Admission, Mismatch},
    compile::CompiledConstraint,
    driver::{Arena, Driver, Externals},
    evaluate::Evaluation,
    store::{ConstraintKey, Store},
};
use crate::{PolicyId, PolicySource, Position};

/// The result of one constraint.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintTrace {
    /// Which constraint.
    pub policy: PolicyId,
    /// File or object it came from.
    pub origin: String,
    /// Where it starts in its file.
    pub position: Option<Position>,
    /// File or object its template came from.
    pub template_origin: String,
    /// `Rego` or `K8sNativeValidation`.
    pub engine: &'static str,
    /// Its `enforcementAction`.
    pub action: String,
    /// Its parameters, with defaults.
    pub parameters: Value,
    /// Its result.
    pub outcome: ConstraintOutcome,
    /// Its violations.
    pub violations: Vec<String>,
    /// The expressions of its policy that were tried, rule by rule.
    pub expressions: Vec<ExpressionTrace>,
    /// How many more there were.
    pub omitted: usize,
    /// The notes of its policy's `trace` calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl ConstraintTrace {
    /// Puts a text in the place of every value that its policy read or computed.
    pub fn hide_values(&mut self, hidden: &str) {
        self.notes.iter_mut().for_each(|note| *note = hidden.to_owned());
        for expression in &mut self.expressions {
            expression.values.iter_mut().for_each(|(_, value)| *value = hidden.to_owned());
            match &mut expression.result {
                ExpressionResult::Value(text) | ExpressionResult::Error(text) => {
                    *text = hidden.to_owned();
                }
                ExpressionResult::Held | ExpressionResult::Failed | ExpressionResult::Mixed(..) => {
                }
            }
        }
    }
}

/// The result of a constraint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "result", content = "cause")]
#[non_exhaustive]
pub enum ConstraintOutcome {
    /// It is not evaluated for this request: why.
    NotEvaluated(String),
    /// Its match block excludes the object.
    Excluded(Exclusion),
    /// Its match block cannot be decided, which counts as a violation: why.
    Undecided(String),
    /// The policy has no objection.
    Satisfied,
    /// The policy objects.
    Violated,
}

/// Why a match block excludes an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Exclusion {
    /// The criterion, as a field of the constraint: `spec.match.kinds`.
    pub field: String,
    /// Where it stands.
    pub position: Option<Position>,
    /// The text of the criterion.
    pub wanted: Value,
    /// The object's value, in words.
    pub found: String,
}

/// How one expression of a policy went.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpressionTrace {
    /// The rule it stands in, or the member of a CEL source: `violation`, `validations[0]`.
    pub rule: String,
    /// `template:3` or another module of a Rego policy; empty for CEL.
    pub module: String,
    /// The expression.
    pub text: String,
    /// Where it stands in the template's file, as far as that is known.
    pub position: Option<Position>,
    /// How it went.
    pub result: ExpressionResult,
    /// The values that it read, by name; a missing value is `undefined`.
    pub values: Vec<(String, String)>,
}

/// How an expression went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "detail")]
#[non_exhaustive]
pub enum ExpressionResult {
    /// It held whenever it was tried.
    Held,
    /// It failed or was undefined whenever it was tried.
    Failed,
    /// It was tried for several values: how often it held and how often it failed.
    Mixed(usize, usize),
    /// It has a value that is neither true nor false.
    Value(String),
    /// It has no value: why.
    Error(String),
}

/// Longer values are cut, in bytes.
const MAX_VALUE: usize = 1000;

/// Expressions of the engine's own modules say nothing to an author.
pub(super) const OWN_MODULES: &str = "hooks.";

/// How many expressions of one policy are shown.
const MAX_EXPRESSIONS: usize = 500;

/// How every constraint is decided for an admission, by kind, then name.
pub fn explain(
    store: &Store,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
) -> Vec<ConstraintTrace> {
    let constraints = store.constraints();
    constraints
        .map(|constraint| explain_one(store, constraint, admission, evaluation, arena))
        .collect()
}

/// How one constraint is decided for an admission.
fn explain_one(
    store: &Store,
    constraint: &CompiledConstraint,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
) -> ConstraintTrace {
    let id = constraint.id();
    let key = ConstraintKey { kind: id.kind.clone(), name: id.name.clone() };
    let source = store.source(&key);
    let template = constraint.template();
    let template_source = store.template_source(template.name());
    let origin_of = |source: Option<&PolicySource>, id: &PolicyId| {
        source.map_or_else(|| id.to_string(), |source| source.origin.to_string())
    };
    let mut trace = ConstraintTrace {
        origin: origin_of(source, &id),
        position: source.and_then(|source| source.position("")),
        template_origin: origin_of(template_source, &template.id()),
        engine: template.driver().engine(),
        action: constraint.enforcement().name().to_string(),
        parameters: constraint.parameters().clone(),
        outcome: ConstraintOutcome::Satisfied,
        violations: Vec::new(),
        expressions: Vec::new(),
        omitted: 0,
        notes: Vec::new(),
        policy: id,
    };
    let outcome = if evaluation.point == EnforcementPoint::Webhook
        && !template.covers(admission.operation())
    {
        ConstraintOutcome::NotEvaluated(format!(
            "its template does not apply to the operation {}",
            admission.operation()
        ))
    } else if constraint.enforcement().at(evaluation.point).is_none() {
        let point = evaluation.point;
        ConstraintOutcome::NotEvaluated(format!("no action of it is for enforcement point {point}"))
    } else {
        match constraint.mismatch(admission, evaluation.externals.inventory) {
            Err(error) => {
                let why = error.to_string();
                trace.violations.push(why.clone());
                ConstraintOutcome::Undecided(why)
            }
            Ok(Some(mismatch)) => {
                ConstraintOutcome::Excluded(exclusion(constraint, source, mismatch))
            }
            Ok(None) => {
                arena.reset();
                let budget = evaluation.budget.child(evaluation.limits);
                let host = NotingHost::new(evaluation.externals.host);
                let externals = Externals { host: &host, ..evaluation.externals };
                let Traced { violations, mut expressions } = match template.driver() {
                    Driver::Rego(driver) => {
                        rego::trace(driver, constraint, admission, externals, arena, &budget)
                    }
                    Driver::Cel(driver) => {
                        driver.trace(admission.cel(), constraint.effective(), &arena.cel, &budget)
                    }
                };
                trace.notes = host.notes.into_inner();
                trace.omitted = expressions.len().saturating_sub(MAX_EXPRESSIONS);
                expressions.truncate(MAX_EXPRESSIONS);
                for expression in &mut expressions {
                    expression.position = template_source
                        .and_then(|source| place(source, &expression.field, expression.line));
                }
                trace.expressions = expressions.into_iter().map(Placed::into_trace).collect();
                trace.violations = violations;
                if trace.violations.is_empty() {
                    ConstraintOutcome::Satisfied
                } else {
                    ConstraintOutcome::Violated
                }
            }
        }
    };
    ConstraintTrace { outcome, ..trace }
}

/// Keeps what a policy notes while it is explained. What it prints is printed by its evaluation.
struct NotingHost<'h> {
    inner: &'h dyn builtins::Host,
    notes: RefCell<Vec<String>>,
}

/// How many notes of one policy are kept.
const MAX_NOTES: usize = 500;

impl<'h> NotingHost<'h> {
    fn new(inner: &'h dyn builtins::Host) -> Self {
        Self { inner, notes: RefCell::default() }
    }
}

impl builtins::Host for NotingHost<'_> {
    fn now_ns(&self) -> Option<i64> {
        self.inner.now_ns()
    }

    fn random(&self) -> Option<u64> {
        self.inner.random()
    }

    fn trace(&self, note: &str) {
        let mut notes = self.notes.borrow_mut();
        if notes.len() < MAX_NOTES {
            notes.push(shorten(note.to_owned()));
        }
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        self.inner.call(name, args)
    }
}

/// The trace of one policy.
pub(super) struct Traced {
    pub(super) violations: Vec<String>,
    pub(super) expressions: Vec<Placed>,
}

/// An expression and where it is in its template.
pub(super) struct Placed {
    /// Of the template.
    pub(super) field: String,
    /// From 0, within the field's text.
    pub(super) line: u32,
    pub(super) position: Option<Position>,
    pub(super) rule: String,
    pub(super) module: String,
    pub(super) text: String,
    pub(super) result: ExpressionResult,
    pub(super) values: Vec<(String, String)>,
}

impl Placed {
    fn into_trace(self) -> ExpressionTrace {
        ExpressionTrace {
            rule: self.rule,
            module: self.module,
            text: self.text,
            position: self.position,
            result: self.result,
            values: self.values,
        }
    }
}

/// A text of several lines is a block scalar, hence begins on the line after its field.
fn place(source: &PolicySource, field: &str, line: u32) -> Option<Position> {
    let position = source.position(field)?;
    let text = source.object.pointer(&crate::policy::pointer(field)).and_then(Value::as_str);
    if text.is_some_and(|text| text.trim_end().contains('\n')) {
        return Some(Position { line: position.line + 1 + line, column: 1 });
    }
    Some(position)
}

fn exclusion(
    constraint: &CompiledConstraint,
    source: Option<&PolicySource>,
    mismatch: Mismatch,
) -> Exclusion {
    let name = mismatch.criterion.as_str();
    let field = format!("spec.match.{name}");
    let wanted = constraint.resource().path(&["spec", "match", name]).cloned();
    Exclusion {
        position: source.and_then(|source| source.position(&field)),
        wanted: wanted.unwrap_or_default(),
        found: mismatch.found,
        field,
    }
}

/// `text` within [`MAX_VALUE`].
pub(super) fn shorten(mut text: String) -> String {
    if text.len() > MAX_VALUE {
        text.truncate(text.floor_char_boundary(MAX_VALUE));
        text.push('…');
    }
    text
}

/// The names that begin with `root` and a dot in an expression, as far as they are plain:
/// `input.review.object` of `input.review.object["x"] == 1`.
pub(super) fn paths<'t>(text: &'t str, root: &str) -> Vec<&'t str> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut found = Vec::new();
    for (start, _) in text.match_indices(root) {
        let (before, rest) = text.split_at(start);
        if before.ends_with(|character| is_word(character) || character == '.' || character == '"')
        {
            continue;
        }
        let end = rest.find(|character| !is_word(character) && character != '.');
        let path = rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest);
        // A name that is called is a function, not a value.
        let is_call = rest.get(path.len()..).is_some_and(|rest| rest.starts_with('('));
        let path = if is_call { path.rsplit_once('.').map_or("", |(path, _)| path) } else { path };
        let path = path.trim_end_matches('.');
        let below = path.strip_prefix(root).is_some_and(|rest| rest.starts_with('.'));
        if below && !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths() {
        for (text, root, expected) in [
            ("not input.review.object.x", "input", vec!["input.review.object.x"]),
            ("input.a == input.b[_].c", "input", vec!["input.a", "input.b"]),
            ("f(input.a.b)", "input", vec!["input.a.b"]),
            ("my_input.a; x.input.b; \"input.c\"", "input", vec![]),
            ("variables.x.exists(y, y)", "variables", vec!["variables.x"]),
            ("object.size()", "object", vec![]),
            ("input", "input", vec![]),
            ("input.", "input", vec![]),
        ] {
            assert_eq!(paths(text, root), expected, "{text}");
        }
    }
}
