//! Evaluations for viewers: a decision once more, with its explanation, and objects that they try.
//!
//! They take the one place of the dry run and wait for it, so that admission has its slots to itself.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use modgate_engine::{
    Decision, Evaluation, Plan, Review, Stages, Trace,
    api::{
        meta::Operation,
        secrets::{self, HIDDEN, SecretValues},
    },
    constraint::Arena,
    cost::Meter,
};
use modgate_policies::{PolicySet, ProviderHost};
use modgate_review::{
    decision,
    explain::{Shown, explained, set_columns},
    manifest::{self, Manifest},
    subject::{self, Assumed, Subject},
};
use modgate_value::{
    Object, Str, Value,
    diag::{Diagnostic, Severity, Source},
};
use tokio::time::Instant;

use super::{
    access::Refused,
    api::{Explained, Finding, TryRequest, TryResult},
};
use crate::webhook::{App, DRY_RUN, EvaluationError, EvaluationSlot, Flow, meter};

/// Objects of one request.
const MAX_OBJECTS: usize = 20;
/// Bytes of the explanations of one answer.
const MAX_EXPLANATION: usize = 8 << 20;
/// The name of the text that holds objects to try.
const OBJECTS: &str = "objects";
/// The namespace of objects that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// Evaluates a request once more, with the policies in force now.
pub(super) async fn again(app: &App, review: Review, stages: Stages) -> Result<Explained, Refused> {
    // Reject rules alone are not explained; with Patch rules they are, and those have nothing left to change.
    let stages = if stages == Stages::REJECTIONS { Stages::MODRULES } else { stages };
    run(app, |policies, slot, deadline| {
        // The object is the request's; where it stood is not known.
        let source = Source::new("request", "{}".to_owned());
        let manifest = manifest::parse(&source).0.into_iter().next();
        let Some(manifest) = manifest else { return Err(Refused::bad("there is no object")) };
        let subject = Subject { place: String::new(), manifest, source, review };
        let mut evaluator = Evaluator::new(app, policies, slot, deadline);
        evaluator.explain(&subject, stages, false)
    })
    .await?
}

/// Evaluates the objects of a request as if they were written now. All of them must be in `namespace`, if
/// there is one.
pub(super) async fn tried(
    app: &App,
    wanted: TryRequest,
    namespace: Option<String>,
) -> Result<TryResult, Refused> {
    run(app, |policies, slot, deadline| {
        let operation = match wanted.operation.as_str() {
            "" => Operation::Create,
            name => match name.parse() {
                Ok(operation @ (Operation::Create | Operation::Update | Operation::Delete)) => {
                    operation
                }
                _ => return Err(Refused::bad("`operation` must be CREATE, UPDATE or DELETE")),
            },
        };
        let source = Source::new(OBJECTS, wanted.objects.as_str());
        let (manifests, found) = manifest::parse(&source);
        let mut findings: Vec<Finding> = found.iter().map(finding).collect();
        if manifests.len() > MAX_OBJECTS {
            return Err(Refused::bad(format!("there are more than {MAX_OBJECTS} objects")));
        }
        if manifests.is_empty() && findings.is_empty() {
            findings.push(finding(&Diagnostic::error("there is no object in the text")));
        }
        let assumed = Assumed {
            operation,
            namespace: namespace
                .as_deref()
                .filter(|it| !it.is_empty())
                .unwrap_or(DEFAULT_NAMESPACE),
            user: user(&wanted),
        };
        let subjects = subjects(manifests, &source, &assumed, &mut findings);
        if let Some(namespace) = &namespace
            && subjects.iter().any(|it| !is_within(&it.review, namespace))
        {
            let message = format!("every object must be in namespace `{namespace}`");
            return Err(Refused::new(StatusCode::FORBIDDEN, message));
        }
        let notes = notes(policies, &subjects);
        let mut evaluator = Evaluator::new(app, policies, slot, deadline);
        let results = subjects.iter().map(|it| evaluator.explain(it, Stages::ALL, wanted.all));
        Ok(TryResult { results: results.collect::<Result<_, _>>()?, findings, notes })
    })
    .await?
}

/// Runs an evaluation in its turn.
async fn run<T>(
    app: &App,
    evaluate: impl FnOnce(&PolicySet, &EvaluationSlot, Instant) -> T,
) -> Result<T, Refused> {
    let policies = app.current.load().ok_or_else(Refused::not_loaded)?;
    let flow = Flow { route: DRY_RUN, namespace: Str::default() };
    let time = app.limits.time;
    let deadline = Instant::now() + time;
    let outcome = app.evaluators.run(flow, time, |slot| evaluate(&policies, slot, deadline)).await;
    outcome.map_err(|error| {
        let status = match error {
            EvaluationError::Busy(_) | EvaluationError::Full => StatusCode::TOO_MANY_REQUESTS,
            EvaluationError::Panicked => {
                tracing::error!(target: "ui", %error, "evaluation failed");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        Refused::new(status, error.to_string())
    })
}

/// Evaluates one object after the other.
struct Evaluator<'a> {
    app: &'a App,
    policies: &'a PolicySet,
    slot: &'a EvaluationSlot,
    deadline: Instant,
    arena: Arena,
    secrets: SecretValues,
    /// Bytes that explanations may still have.
    left: usize,
}

impl<'a> Evaluator<'a> {
    fn new(
        app: &'a App,
        policies: &'a PolicySet,
        slot: &'a EvaluationSlot,
        deadline: Instant,
    ) -> Self {
        let secrets = policies.secrets();
        Self { app, policies, slot, deadline, arena: Arena::new(), secrets, left: MAX_EXPLANATION }
    }

    fn explain(
        &mut self,
        subject: &Subject,
        stages: Stages,
        all: bool,
    ) -> Result<Explained, Refused> {
        let request = subject.review.request();
        let is_secret = subject.review.is_secret();
        for object in request.object.iter().chain(&request.old_object) {
            self.secrets.add(object, is_secret);
        }
        let mut trace = Trace::default();
        let decision = self.decide(subject, stages, &mut trace);
        self.hide_values(&mut trace);
        let snapshot = &self.policies.snapshot;
        set_columns(&mut trace.constraints, &mut BTreeMap::new(), |_| None);
        let mut plan = Plan::of(&decision, &trace, snapshot.config());
        let shown = Shown { all, ..Shown::default() };
        shown.limit(&mut plan);
        let explained = explained(subject, &decision, &trace, &plan, snapshot, &shown);
        let explained = explained.map_err(|error| {
            let message = format!("there is no explanation: {error}");
            Refused::new(StatusCode::INTERNAL_SERVER_ERROR, message)
        })?;
        let explanation = without_data(self.secrets.hide_in(&explained), is_secret);
        let (before, after) = texts(subject, &decision);
        let bytes = before.len() + after.len() + explanation.to_json().len();
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            let message =
                "the explanation is larger than 8 MiB; try fewer objects, or without `all`";
            Refused::new(StatusCode::PAYLOAD_TOO_LARGE, message)
        })?;
        let title = subject.title();
        Ok(Explained { title, before, after, explanation, allowed: decision.allowed })
    }

    /// Takes the values out of explanations of policies that can read Secrets: a policy may have decoded or split
    /// them, or may have made another text of them.
    fn hide_values(&self, trace: &mut Trace) {
        let resultants = trace.resultants.iter_mut().flat_map(|it| &mut it.constraints);
        for trace in trace.constraints.iter_mut().chain(resultants) {
            if self.policies.reads_secrets(&trace.policy) {
                trace.hide_values(HIDDEN);
            }
        }
    }

    fn decide(&mut self, subject: &Subject, stages: Stages, trace: &mut Trace) -> Decision {
        let Self { app, policies, slot, deadline, arena, .. } = self;
        let providers = app.current.providers();
        let asking = providers.map(|all| all.asking(*deadline).yielding(*slot));
        let objects = policies.objects.yielding(*slot, *deadline);
        let host = ProviderHost::new(&objects, asking);
        let mut evaluation = Evaluation::new(&host, &policies.inventory, arena);
        // A viewer must not be able to have a policy demoted, by objects for which it takes long.
        evaluation.meter = Meter { uptime: None, ..meter(&host, deadline.into_std(), None) };
        policies.snapshot.decide(&subject.review, stages, &mut evaluation, trace)
    }
}

/// Whether a request and its objects are of a namespace: policies read the names in the objects, too.
fn is_within(review: &Review, namespace: &str) -> bool {
    let request = review.request();
    let mut objects = request.object.iter().chain(&request.old_object);
    let is_other = |object: &Value| {
        let own = object.path(&["metadata", "namespace"]);
        own.is_some_and(
            |own| !matches!(own.as_str(), Some(own) if own.is_empty() || own == namespace),
        )
    };
    request.namespace == namespace && !objects.any(is_other)
}

/// The object before and after the policies, as YAML.
fn texts(subject: &Subject, decision: &Decision) -> (String, String) {
    if subject.review.is_secret() {
        return decision::texts(subject, decision);
    }
    let text = |object: &Value| modgate_value::yaml::write(&secrets::shown(object, false));
    let before = subject.review.object().map(text).unwrap_or_default();
    (before, text(&decision.object))
}

/// An explanation without the object and the patch of a Secret.
fn without_data(explanation: Value, is_secret: bool) -> Value {
    if !is_secret {
        return explanation;
    }
    let Some(mut members) = explanation.as_object().cloned() else { return Value::Null };
    for member in ["object", "patch"] {
        members.insert(member, Value::Null);
    }
    members.into()
}

/// The `userInfo` of a request, if it names a user.
fn user(wanted: &TryRequest) -> Option<Value> {
    if wanted.user.is_empty() && wanted.groups.is_empty() {
        return None;
    }
    let groups: Value = wanted.groups.iter().map(|group| Value::from(group.as_str())).collect();
    let members = [("username", Value::from(wanted.user.as_str())), ("groups", groups)];
    Some(members.into_iter().collect::<Object>().into())
}

fn subjects(
    manifests: Vec<Manifest>,
    source: &Source,
    assumed: &Assumed<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Subject> {
    let mut subjects = Vec::new();
    for manifest in manifests {
        match subject::review_of(&manifest, assumed) {
            Ok(review) => {
                let place = manifest.location();
                subjects.push(Subject { place, manifest, source: source.clone(), review });
            }
            Err(problem) => findings.push(finding(&manifest.finding(*problem, source))),
        }
    }
    subjects
}

/// Notes about what no policy looks at.
fn notes(policies: &PolicySet, subjects: &[Subject]) -> Vec<String> {
    let is_concerned = |subject: &&Subject| !policies.snapshot.concerns(&subject.review);
    let unconcerned = subjects.iter().filter(is_concerned);
    unconcerned.map(|it| format!("no policy applies to {}", it.title())).collect()
}

fn finding(diagnostic: &Diagnostic) -> Finding {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let place = diagnostic.source.as_ref().map(|it| it.location(diagnostic.span.start));
    Finding {
        level,
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone().unwrap_or_default(),
        line: place.as_ref().map_or(0, |it| it.line),
        column: place.as_ref().map_or(0, |it| it.column),
    }
}
