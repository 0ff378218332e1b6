//! Templates whose policy is written in CEL: the `K8sNativeValidation` engine (spec, section 4).
//!
//! It does what Kubernetes does with a ValidatingAdmissionPolicy of the same expressions
//! (`apiserver/pkg/admission/plugin/policy/validating/validator.go`). Expressions that do not
//! compile are kept: the template is accepted, what is wrong is reported, and requests are evaluated
//! by `failurePolicy` (CE-18, Q-10).

pub(crate) mod advice;
mod input;
mod keys;
pub(crate) mod lint;
mod trace;
mod types;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::{Mutex, Weak},
};

use modgate_api::templates::{CelSource, CelSourceError, FailurePolicy};
use modgate_cel::{
    Arena, CompileError, CostLimits, EvalError, Evaluation, Issue, Key, Memo, Mistake, Program,
    Type, Val, Variables,
};
use modgate_value::{Budget, DecodeError, Object, Str, Value, diag::Span, near};

pub(crate) use self::input::Input;
pub(crate) use self::trace::{expression_trace, shown_value};
pub(crate) use self::types::environment;
pub(super) use self::{input::Scope, keys::Keys};
use super::{
    driver::RawViolation,
    template::{TemplateError, TemplateOptions, TemplateProblem},
};
use crate::{
    Code, Severity,
    coverage::{Coverage, Hits, PlaceKind},
};

/// The variables every policy has (CE-11).
const INJECTED: [(&str, &str); 2] = [
    ("anyObject", "request.operation == 'DELETE' && object == null ? oldObject : object"),
    ("params", "has(params.spec) && has(params.spec.parameters) ? params.spec.parameters : null"),
];

/// Longer messages of a `messageExpression` are not used (CE-16).
const MAX_MESSAGE: usize = 5120;

/// The characters of an expression that messages quote.
const MAX_QUOTED: usize = 4096;

/// The compiled CEL of one template.
#[derive(Debug)]
pub struct CelDriver {
    /// The field of the template that holds the source.
    field: String,
    source: CelSource,
    variables: Variables,
    conditions: Vec<Expression>,
    validations: Vec<Validation>,
    failure_policy: FailurePolicy,
    observed: bool,
    /// The keys of constraints in force, by what is read of them.
    keys: Mutex<BTreeMap<u128, Weak<Keys>>>,
    /// The parts that several of them have in common ([`Keys::rest`]).
    rests: Mutex<BTreeMap<u128, Weak<Key>>>,
}

/// An expression with its compiled form, or the reason why it has none.
#[derive(Debug)]
pub(crate) struct Expression {
    text: Str,
    program: Result<Program, CompileError>,
}

/// A validation that does not hold: its place, and its error if it has no value.
type Failed<'a> = (usize, &'a Validation, Option<String>);

/// Constraints with more validations do not share what all of them come to.
const MAX_ALIKE: usize = 64;

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: Str,
    message_expression: Option<Expression>,
}

impl CelDriver {
    /// Decodes, checks and compiles the entry number `index` of `code`; also returns what its
    /// author should hear of although the template is accepted.
    pub(super) fn compile(
        source: &Value,
        index: usize,
        schema: Option<&Value>,
        options: &TemplateOptions,
    ) -> Result<(Self, Vec<TemplateProblem>), TemplateError> {
        let field = format!("spec.targets[0].code[{index}].source");
        let refused = |error: CelSourceError| TemplateError::Cel {
            field: match &error {
                CelSourceError::Decode(DecodeError { path, .. }) => format!("{field}.{path}"),
                _ => field.clone(),
            },
            error,
        };
        let aliased = options.plural_match_conditions.then(|| with_alias(source)).flatten();
        let source = aliased.as_ref().unwrap_or(source);
        let decoded = CelSource::from_value(source).map_err(refused)?;
        let failure_policy = decoded.failure_policy(options.failure_policy).map_err(refused)?;
        let mut problems = unknown_fields(source, &field);
        // That place reports validations whose key is misspelt.
        let is_misspelt = problems.iter().any(|it| {
            let key = it.field.rsplit('.').next().unwrap_or_default();
            it.code == Some(Code::UnknownField) && near::nearest(key, ["validations"]).is_some()
        });
        let found = lint::lint(&decoded, &field, schema).into_iter();
        problems.extend(found.filter(|it| !is_misspelt || it.field != field));
        let declared = decoded.variables.iter().flatten();
        let variables: Vec<Str> = declared.map(|variable| variable.name.clone()).collect();
        let mut report = |part: String, text: &str, error: &CompileError| {
            let names: Vec<&str> = variables.iter().map(Str::as_str).collect();
            problems.extend(problems_of(&format!("{field}.{part}"), text, error, &names));
        };
        let build = (failure_policy, options.observed);
        let driver = Self::build(field.clone(), decoded, build, &mut report);
        Ok((driver, problems))
    }

    fn build(
        field: String,
        source: CelSource,
        (failure_policy, observed): (FailurePolicy, bool),
        report: &mut dyn FnMut(String, &str, &CompileError),
    ) -> Self {
        let environment = types::environment_of_variables().observed(observed);
        let mut variables = Variables::new();
        for (name, text) in INJECTED {
            // Ours compile.
            let _ = variables.add(name, text, &environment);
        }
        for (index, variable) in source.variables.iter().flatten().enumerate() {
            if let Err(error) = variables.add(&variable.name, &variable.expression, &environment) {
                report(format!("variables[{index}].expression"), &variable.expression, &error);
            }
        }
        let environment = variables.declare(&types::environment().observed(observed));
        let mut compile = |field: String, ty: &Type, text: &Str| {
            let program = Program::compile_to(ty, text, &environment);
            if let Err(error) = &program {
                report(field, text, error);
            }
            Expression { text: text.clone(), program }
        };
        let conditions = source.match_conditions.iter().flatten().enumerate();
        let conditions = conditions
            .map(|(index, condition)| {
                let field = format!("matchCondition[{index}].expression");
                compile(field, &Type::BOOL, &condition.expression)
            })
            .collect();
        let validations = source.validations.iter().flatten().enumerate();
        let validations = validations
            .map(|(index, validation)| {
                let field = |part: &str| format!("validations[{index}].{part}");
                let message = &validation.message_expression;
                Validation {
                    expression: compile(field("expression"), &Type::BOOL, &validation.expression),
                    message: validation.message.clone(),
                    message_expression: (!message.is_empty())
                        .then(|| compile(field("messageExpression"), &Type::STRING, message)),
                }
            })
            .collect();
        Self {
            field,
            source,
            variables,
            conditions,
            validations,
            failure_policy,
            observed,
            keys: Mutex::default(),
            rests: Mutex::default(),
        }
    }

    /// Whether it counts what evaluations reach.
    pub(super) fn is_observed(&self) -> bool {
        self.observed
    }

    /// Adds the places of its expressions and messages.
    pub(super) fn places(&self, coverage: &mut Coverage) {
        if !self.observed {
            return;
        }
        let field = |part: String| format!("{}.{part}", self.field);
        let declared = self.variables.iter().skip(INJECTED.len()).enumerate();
        for (index, (_, program)) in declared {
            coverage.expression(&field(format!("variables[{index}].expression")), program);
        }
        for (index, condition) in self.conditions.iter().enumerate() {
            let field = field(format!("matchCondition[{index}].expression"));
            coverage.expression(&field, condition.program());
        }
        for (index, validation) in self.validations.iter().enumerate() {
            let field = |part: &str| field(format!("validations[{index}].{part}"));
            let program = validation.expression.program();
            let whole = coverage.expression(&field("expression"), program);
            match &validation.message_expression {
                Some(made) => coverage.message(&field("messageExpression"), made.program()),
                None if !validation.message.trim().is_empty() => {
                    let hits = Hits::plain(whole.failed);
                    coverage.field(field("message"), PlaceKind::Message, hits);
                }
                None => {}
            }
        }
    }

    /// The source as it was decoded.
    pub fn source(&self) -> &CelSource {
        &self.source
    }

    /// The effect of errors of its expressions.
    pub fn failure_policy(&self) -> FailurePolicy {
        self.failure_policy
    }

    /// The violations of one constraint in the order of its validations.
    ///
    /// Messages are made for validations that failed only, so what the others would have cost does
    /// not count.
    pub(super) fn violations<'a>(
        &'a self,
        scope: &'a Scope<'a>,
        arena: &'a Arena,
        budget: &'a Budget<'a>,
        shared: Option<(&'a Memo<'a>, &'a Keys)>,
    ) -> Vec<RawViolation> {
        let fails = |message: String| match self.failure_policy {
            FailurePolicy::Fail => vec![RawViolation::failure(message)],
            FailurePolicy::Ignore => Vec::new(),
        };
        let begin = |limits: CostLimits| {
            let evaluation = Evaluation::new(scope, &self.variables, arena, budget, limits);
            match shared {
                Some((memo, keys)) => evaluation.sharing(memo, &keys.variables),
                None => evaluation,
            }
        };
        let keys = shared.map(|(_, keys)| keys);
        if !self.conditions.is_empty() {
            match self.is_asked(&begin(CostLimits::MATCH_CONDITIONS), keys) {
                Ok(true) => {}
                Ok(false) => return Vec::new(),
                Err(message) => return fails(message),
            }
        }
        let limits = CostLimits::VALIDATIONS;
        let evaluation = begin(limits);
        let key_of = |index| keys.map_or_else(Default::default, |keys| keys.of_validation(index));
        let found = match self.failed(&evaluation, keys) {
            Ok(found) => found,
            Err(message) => return fails(message),
        };
        if found.is_empty() {
            return Vec::new();
        }
        let total = evaluation.remaining();
        let evaluation = begin(CostLimits { total, ..limits }).after(&evaluation);
        let mut violations = Vec::with_capacity(found.len());
        for (index, validation, failed) in found {
            match failed {
                Some(message) => violations.extend(fails(message)),
                None => {
                    let message = self.message(validation, key_of(index).1, &evaluation);
                    violations.push(RawViolation::bare(message));
                }
            }
        }
        violations
    }

    /// The validations that do not hold, with the errors of those that have no value.
    fn failed<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        keys: Option<&Keys>,
    ) -> Result<Vec<Failed<'a>>, String> {
        let rest = keys.and_then(Keys::rest).filter(|_| self.validations.len() <= MAX_ALIKE);
        if let Some(failed) = rest.and_then(|rest| evaluation.alike(rest)) {
            let all = self.validations.iter().enumerate();
            let failed = all.filter(|(index, _)| failed >> index & 1 == 1);
            return Ok(failed.map(|(index, validation)| (index, validation, None)).collect());
        }
        let (mut found, mut places, mut errors) = (Vec::new(), 0_u64, false);
        for (index, validation) in self.validations.iter().enumerate() {
            let key = keys.map_or(Key::NONE, |keys| keys.of_validation(index).0);
            match validation.expression.holds_shared(evaluation, key) {
                Ok(true) => {}
                Ok(false) => {
                    places |= 1 << (index % MAX_ALIKE);
                    found.push((index, validation, None));
                }
                Err(ExpressionFailure::Error(message)) => {
                    errors = true;
                    found.push((index, validation, Some(message)));
                }
                Err(ExpressionFailure::OutOfBudget(message)) => return Err(message),
            }
        }
        if let Some(rest) = rest.filter(|_| !errors) {
            evaluation.keep_alike(rest, places);
        }
        Ok(found)
    }

    /// Whether the match conditions hold: one that is false settles it, whatever others failed.
    fn is_asked<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        keys: Option<&Keys>,
    ) -> Result<bool, String> {
        let mut errors: Vec<String> = Vec::new();
        let mut holds = true;
        for (index, condition) in self.conditions.iter().enumerate() {
            let key = keys.map_or(Key::NONE, |keys| keys.of_condition(index));
            match condition.holds_shared(evaluation, key) {
                Ok(held) => holds &= held,
                Err(ExpressionFailure::OutOfBudget(message)) => return Err(message),
                Err(ExpressionFailure::Error(message)) if errors.contains(&message) => {}
                Err(ExpressionFailure::Error(message)) => errors.push(message),
            }
        }
        if !holds {
            return Ok(false);
        }
        match errors.as_slice() {
            [] => Ok(true),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }

    /// The message of a validation that is false (CE-16).
    fn message<'a>(
        &'a self,
        validation: &'a Validation,
        key: Key,
        evaluation: &Evaluation<'a>,
    ) -> String {
        let made = validation.message_expression.as_ref().and_then(|expression| {
            match evaluation.evaluate_shared(expression.program.as_ref().ok()?, key) {
                Ok(Val::String(text)) => usable(text).map(str::to_owned),
                Err(error @ EvalError::OutOfBudget)
                    if self.failure_policy == FailurePolicy::Fail =>
                {
                    Some(format!("failed messageExpression: {error}"))
                }
                _ => None,
            }
        });
        made.unwrap_or_else(|| match validation.message.trim() {
            "" => format!("failed expression: {}", excerpt(validation.expression.text.trim())),
            message => message.to_owned(),
        })
    }
}

/// Why an expression has no value.
pub(crate) enum ExpressionFailure {
    /// Nothing else may be evaluated.
    OutOfBudget(String),
    Error(String),
}

impl Expression {
    pub(crate) fn new(text: Str, program: Result<Program, CompileError>) -> Self {
        Self { text, program }
    }

    pub(crate) fn text(&self) -> &Str {
        &self.text
    }

    /// The compiled form, if it compiles.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.program.as_ref().ok()
    }

    /// Whether its value is `true`.
    pub(crate) fn holds<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
    ) -> Result<bool, ExpressionFailure> {
        self.holds_shared(evaluation, Key::NONE)
    }

    /// As [`holds`](Self::holds), with a key by which the evaluation may share the outcome.
    fn holds_shared<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        key: Key,
    ) -> Result<bool, ExpressionFailure> {
        self.evaluate_shared(evaluation, key).map(|value| matches!(value, Val::Bool(true)))
    }

    pub(crate) fn evaluate<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
    ) -> Result<Val<'a>, ExpressionFailure> {
        self.evaluate_shared(evaluation, Key::NONE)
    }

    fn evaluate_shared<'a>(
        &'a self,
        evaluation: &Evaluation<'a>,
        key: Key,
    ) -> Result<Val<'a>, ExpressionFailure> {
        let program = self
            .program
            .as_ref()
            .map_err(|error| ExpressionFailure::Error(format!("compilation error: {error}")))?;
        match evaluation.evaluate_shared(program, key) {
            Ok(value) => Ok(value),
            Err(error @ EvalError::OutOfBudget) => {
                Err(ExpressionFailure::OutOfBudget(error.to_string()))
            }
            Err(error) => Err(ExpressionFailure::Error(format!(
                "expression '{}' resulted in error: {error}",
                excerpt(&self.text)
            ))),
        }
    }
}

/// An expression as messages quote it: its beginning, if it is longer than expressions of policies
/// are.
fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_QUOTED) {
        None => text.into(),
        Some((end, _)) => {
            let (start, rest) = text.split_at_checked(end).unwrap_or((text, ""));
            format!("{start}… (and {} bytes more)", rest.len()).into()
        }
    }
}

/// A made message, unless it is one that Kubernetes does not show.
pub(crate) fn usable(text: &str) -> Option<&str> {
    let text = text.trim();
    let shown = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    shown.then_some(text)
}

/// The source with `matchConditions` as its `matchCondition`, if it has but the former.
fn with_alias(source: &Value) -> Option<Value> {
    let mut members = source.as_object()?.clone();
    if members.get("matchCondition").is_some() {
        return None;
    }
    let conditions = members.get("matchConditions")?.clone();
    let kept = members.iter().filter(|(key, _)| key != "matchConditions").cloned();
    members = Object::from_entries(kept.collect());
    members.insert("matchCondition", conditions);
    Some(members.into())
}

/// Members that are never read.
fn unknown_fields(source: &Value, field: &str) -> Vec<TemplateProblem> {
    let unknown = CelSource::unknown_fields(source).into_iter();
    unknown
        .map(|key| TemplateProblem {
            severity: Severity::Warning,
            code: Some(Code::UnknownField),
            field: format!("{field}.{key}"),
            text: None,
            span: None,
            message: "unknown field, ignored".to_owned(),
            help: Some(match key.as_str() {
                "matchConditions" => "the key is `matchCondition`".to_owned(),
                key => near::did_you_mean_or(key, &CelSource::MEMBERS, "known fields"),
            }),
        })
        .collect()
}

fn problems_of(
    field: &str,
    text: &str,
    error: &CompileError,
    variables: &[&str],
) -> Vec<TemplateProblem> {
    let problem = |span: Option<Span>, message: String, help: Option<String>| TemplateProblem {
        severity: Severity::Error,
        code: None,
        field: field.to_owned(),
        text: Some(text.into()),
        span,
        message,
        help,
    };
    let CompileError::Check(errors) = error else {
        return vec![problem(None, error.to_string(), advice::of_whole(text, error))];
    };
    // A misspelt function leaves its variable undeclared, and an unknown token leaves the text behind
    // it without meaning: the first error is enough.
    let stops = |issue: &Issue| {
        matches!(issue.mistake, Mistake::Syntax(_) | Mistake::Reserved(_) | Mistake::Undeclared(_))
    };
    let most = if errors.issues.first().is_some_and(stops) { 1 } else { usize::MAX };
    let problems = errors.issues.iter().take(most).map(|issue| {
        let help = advice::advice(text, &issue.mistake, variables);
        problem(Some(advice::named(text, issue)), advice::shortened(&issue.mistake), help)
    });
    problems.collect()
}
