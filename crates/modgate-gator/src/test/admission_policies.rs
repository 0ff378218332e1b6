//! ValidatingAdmissionPolicies of an input: `modgate test` evaluates them; gator does not know them.

use std::collections::BTreeSet;

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    admissionregistration::{self as registration},
    constraints::EnforcementAction,
    meta::GroupVersionKind,
};
use modgate_engine::{
    Change, Faults, OnError, PolicyId, PolicySource, Problem, Severity, Snapshot,
    admissionpolicy::{
        Bindings, Finding, NoAuthorizer, ParamObjects, Surroundings, Types, ValidationAction,
    },
    constraint::{Cause, ConstraintKey, Inventory, Violation},
    cost::Meter,
};
use modgate_value::{Budget, Str, Value};

use crate::{
    VerbFailure,
    object::request_namespace,
    outside::{POLICY, WallClock},
    policies::config,
    review::{ReviewedViolation, Session, bare_namespace},
};

/// The policies of an input with their bindings, and the objects that these may pass.
pub(super) struct AdmissionPolicies {
    snapshot: Snapshot,
    params: ParamObjects,
    sources: Vec<(Str, Value)>,
}

/// Whether an object says it is a ValidatingAdmissionPolicy or a binding of one.
fn is_about(object: &Value) -> bool {
    let GroupVersionKind { group, kind, .. } = GroupVersionKind::of_object(object);
    let kinds = [registration::POLICY_KIND, registration::BINDING_KIND];
    group == registration::GROUP && kinds.contains(&kind.as_str())
}

impl AdmissionPolicies {
    /// Those of an input; `None` where it has none.
    ///
    /// # Errors
    ///
    /// The first policy or binding that the API server would not store.
    pub(super) fn of(objects: &[&Value]) -> Result<Option<Self>, VerbFailure> {
        let own: Vec<&Value> = objects.iter().copied().filter(|object| is_about(object)).collect();
        if own.is_empty() {
            return Ok(None);
        }
        let changes = own
            .iter()
            .map(|object| Change::Upsert(PolicySource::of_object((*object).clone())))
            .collect();
        let update = Snapshot::new(config()).apply(changes, OnError::Unload);
        // What is no error was reported with the input.
        let error = update.problems.iter().find(|problem| problem.severity == Severity::Error);
        if let Some(Problem { policy, field, message, .. }) = error {
            let place = if field.is_empty() { String::new() } else { format!("{field}: ") };
            let text = format!("auditing objects: adding {policy}: {place}{message}");
            return Err(VerbFailure::plain(text));
        }
        let mut params = ParamObjects::default();
        objects.iter().filter(|object| !is_about(object)).for_each(|it| params.insert(it));
        let sources = own.iter().map(|object| (object.name().into(), (*object).clone()));
        let sources = sources.filter(|(_, object): &(Str, Value)| {
            object.get("kind").and_then(Value::as_str) == Some(registration::POLICY_KIND)
        });
        Ok(Some(Self { sources: sources.collect(), snapshot: update.snapshot, params }))
    }

    /// Has results show the policies.
    pub(super) fn show_in(&self, policies: &mut crate::policies::Policies) {
        for (name, policy) in &self.sources {
            policies.show(key(name), policy.clone());
        }
    }

    /// The fields that the policies read last before they objected to an object.
    pub(super) fn faults(
        &self,
        (object, namespace): (&Value, Option<&Value>),
        policies: &BTreeSet<PolicyId>,
        session: &mut Session,
    ) -> Faults {
        session.faults(&self.snapshot, &Inventory::default(), (object, namespace), policies)
    }

    /// The findings of the policies in an object, as results of `test`. Policies and bindings themselves are
    /// exempt, as in the API server.
    ///
    /// # Errors
    ///
    /// When a Namespace that is needed cannot be read.
    pub(super) fn review(
        &self,
        object: &Value,
        namespace: Option<&Value>,
    ) -> Result<Vec<ReviewedViolation>, String> {
        let kind = GroupVersionKind::of_object(object);
        let place = request_namespace(object, &kind);
        let namespace = match object.namespace() {
            _ if kind.is_namespace() || kind.is_cluster_scoped() => None,
            "" => bare_namespace("default"),
            name => namespace.cloned().or_else(|| bare_namespace(name)),
        };
        let surroundings = Surroundings {
            namespace: &|| Ok(namespace.clone()),
            params: &self.params,
            authorizer: &NoAuthorizer,
            meter: Meter::default(),
            bindings: Bindings::All,
            types: Types::kubernetes(),
            assumes_namespace: false,
            conditions_see_namespace: false,
        };
        let set = self.snapshot.cluster_policies();
        let mut outcomes = Vec::new();
        for policy in set.bound().filter(|policy| policy.may_concern(&kind)) {
            let budget = Budget::new(POLICY, &WallClock);
            let name = policy.name();
            let found = set.findings_of(name, object, place, &surroundings, &budget)?;
            outcomes.extend(found.into_iter().map(|finding| outcome(name, finding)));
        }
        Ok(outcomes)
    }
}

fn key(policy: &Str) -> ConstraintKey {
    ConstraintKey { kind: registration::POLICY_KIND.into(), name: policy.clone() }
}

/// A finding in the shape of a violation; what goes into the audit event leads to nothing here.
fn outcome(policy: &Str, finding: Finding) -> ReviewedViolation {
    let action = match finding.strongest() {
        ValidationAction::Deny => EnforcementAction::Deny,
        ValidationAction::Warn => EnforcementAction::Warn,
        ValidationAction::Audit => EnforcementAction::Dryrun,
    };
    let ConstraintKey { kind, name } = key(policy);
    let violation = Violation {
        kind,
        constraint: name,
        action: action.as_str().into(),
        actions: vec![action],
        message: finding.message,
        cause: Cause::Policy,
        resultant: None,
        details: Value::Null,
        annotations: Value::Null,
    };
    ReviewedViolation { violation, has_details: false, trace: None }
}
