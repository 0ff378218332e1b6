//! Requests that a policy is tried with, and what it answers.

use modgate_engine::{
    Decision, NoopObserver, Review, Stages, Trace,
    api::{
        admission::{ReviewVersion, review_of},
        meta::GroupVersionKind,
    },
    constraint::{Arena, Cause, ConstraintOutcome},
};
use modgate_value::{Object, Value};

use super::Subject;
use crate::{Side, objects::possible::Possible};

/// A request as the API server would send it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The object; null for a deletion.
    pub object: Value,
    /// The object before an update or a deletion.
    pub old: Option<Value>,
    /// The subresource; empty for none.
    pub sub_resource: &'static str,
    /// The kind that the subresource is of, where its objects are of another one: `Scale` of Deployments.
    pub of: Option<GroupVersionKind>,
}

impl Request {
    /// A creation.
    pub fn create(object: Value) -> Self {
        Self { object, old: None, sub_resource: "", of: None }
    }

    /// An update of `old`.
    pub fn update(old: Value, object: Value) -> Self {
        Self { object, old: Some(old), sub_resource: "", of: None }
    }

    /// A deletion of `old`.
    pub fn delete(old: Value) -> Self {
        Self { object: Value::Null, old: Some(old), sub_resource: "", of: None }
    }

    /// `CREATE`, `UPDATE` or `DELETE`.
    pub fn operation(&self) -> &'static str {
        match (&self.old, self.object.is_null()) {
            (None, _) => "CREATE",
            (Some(_), false) => "UPDATE",
            (Some(_), true) => "DELETE",
        }
    }

    /// The object, or the one that is deleted.
    pub fn subject(&self) -> &Value {
        self.old.as_ref().filter(|_| self.object.is_null()).unwrap_or(&self.object)
    }

    /// The name in the request. An API server generates names after it has read the request, and before
    /// validating admission: the object has one then, and the request has none.
    fn name(&self) -> Value {
        let metadata = |key: &str| self.subject().path(&["metadata", key]).cloned();
        let generated = self.old.is_none() && metadata("generateName").is_some();
        metadata("name").filter(|_| !generated).unwrap_or_else(|| "".into())
    }

    /// The `request` member of its AdmissionReview.
    fn members(&self) -> Object {
        let kind = GroupVersionKind::of_object(self.subject());
        let metadata = |key: &str| self.subject().path(&["metadata", key]).cloned();
        let namespace = match kind.is_cluster_scoped() {
            _ if kind.is_namespace() => metadata("name"),
            true => None,
            false => metadata("namespace").or(Some("default".into())),
        };
        let texts = |members: [(&str, Value); 3]| -> Value { members.into_iter().collect() };
        let (group, version) = (Value::from(kind.group.clone()), Value::from(kind.version.clone()));
        let of = self.of.as_ref().unwrap_or(&kind);
        let resource = [
            ("group", Value::from(of.group.clone())),
            ("version", of.version.clone().into()),
            ("resource", of.plural().into()),
        ];
        let groups: Value = [Value::from("system:authenticated")].into_iter().collect();
        let user = [("username", Value::from("user")), ("groups", groups)];
        [
            ("uid", Value::from("00000000-0000-0000-0000-000000000000")),
            ("kind", texts([("group", group), ("version", version), ("kind", kind.kind.into())])),
            ("resource", texts(resource)),
            ("subResource", self.sub_resource.into()),
            ("name", self.name()),
            ("namespace", namespace.unwrap_or_else(|| "".into())),
            ("operation", self.operation().into()),
            ("userInfo", user.into_iter().collect()),
            ("object", self.object.clone()),
            ("oldObject", self.old.clone().unwrap_or_default()),
            ("dryRun", false.into()),
            ("options", Value::Null),
        ]
        .into_iter()
        .collect()
    }

    /// The AdmissionReview.
    pub fn document(&self) -> Value {
        review_of(ReviewVersion::V1, self.members())
    }
}

/// The answer of a policy.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It objects: its messages.
    Denied(Vec<String>),
    /// It has no objection, or does not match.
    Admitted,
    /// It could not be evaluated, or the budget is used up.
    Undecided,
}

/// Asks one policy, within a budget of decisions.
pub(super) struct Prober<'a> {
    side: Side<'a>,
    possible: Possible<'a>,
    arena: Arena,
    left: usize,
}

impl<'a> Prober<'a> {
    pub(super) fn new(subject: &Subject<'a>, budget: usize) -> Self {
        let possible = Possible::new(subject.side.host.types(), subject.seeds);
        Self { side: subject.side, possible, arena: Arena::new(), left: budget }
    }

    /// The kinds that are known.
    pub(super) fn possible(&self) -> &Possible<'a> {
        &self.possible
    }

    /// Whether an API server takes the object, as far as is known.
    pub(super) fn takes(&self, object: &Value) -> bool {
        self.possible.takes(object)
    }

    /// Decisions left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// The answer to a request; none to one that no API server sends.
    pub(super) fn ask(&mut self, request: &Request) -> Verdict {
        let objects = [Some(&request.object).filter(|it| !it.is_null()), request.old.as_ref()];
        if !objects.into_iter().flatten().all(|object| self.takes(object)) {
            return Verdict::Undecided;
        }
        let Ok(review) = Review::from_request(&request.members().into()) else {
            return Verdict::Undecided;
        };
        self.review(&review)
    }

    pub(super) fn review(&mut self, review: &Review) -> Verdict {
        let Some(left) = self.left.checked_sub(1) else { return Verdict::Undecided };
        self.left = left;
        let decision = self.side.decide(review, Stages::ALL, &mut self.arena, &mut NoopObserver);
        verdict(&decision)
    }

    pub(super) fn denies(&mut self, request: &Request) -> bool {
        matches!(self.ask(request), Verdict::Denied(_))
    }

    pub(super) fn admits(&mut self, request: &Request) -> bool {
        self.ask(request) == Verdict::Admitted
    }

    /// Whether the policy is meant to look at the request: its match lets it through. ModRules have
    /// no match that is not their condition.
    pub(super) fn matches(&mut self, request: &Request) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let Ok(review) = Review::from_request(&request.members().into()) else { return false };
        let mut trace = Trace::default();
        self.side.decide(&review, Stages::ALL, &mut self.arena, &mut trace);
        let about = |outcome: &ConstraintOutcome| {
            matches!(outcome, ConstraintOutcome::Satisfied | ConstraintOutcome::Violated)
        };
        trace.constraints.iter().any(|trace| about(&trace.outcome))
            || trace
                .resultants
                .iter()
                .any(|each| each.constraints.iter().any(|trace| about(&trace.outcome)))
    }
}

/// The answer of policies to a request.
pub fn ask(side: &Side<'_>, request: &Request) -> Verdict {
    let Ok(review) = Review::from_request(&request.members().into()) else {
        return Verdict::Undecided;
    };
    verdict(&side.decide(&review, Stages::ALL, &mut Arena::new(), &mut NoopObserver))
}

fn verdict(decision: &Decision) -> Verdict {
    let is_error = |message: &str| message.starts_with("expression '");
    let failed = decision.failure.is_some()
        || !decision.failures.is_empty()
        || decision.violations.iter().any(|each| each.cause != Cause::Policy)
        || decision.denials.iter().any(|each| is_error(&each.message));
    if failed {
        return Verdict::Undecided;
    }
    let violations = decision.violations.iter().map(|each| each.message.clone());
    let denials = decision.denials.iter().map(|each| each.message.clone());
    let rejections = decision.rejections.iter().map(ToString::to_string);
    let messages: Vec<String> = violations.chain(denials).chain(rejections).collect();
    match (messages.is_empty(), decision.allowed) {
        (false, _) => Verdict::Denied(messages),
        (true, false) => Verdict::Denied(vec![decision.reason.clone()]),
        // A binding that warns or audits only.
        (true, true) if decision.warnings.is_empty() && decision.audit_annotations.is_empty() => {
            Verdict::Admitted
        }
        (true, true) => Verdict::Denied(decision.warnings.clone()),
    }
}
