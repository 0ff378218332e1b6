//! ModRules, mutators and the cluster's own policies: what they would do to an object if it were made
//! again today.

use std::sync::Arc;

use modgate_engine::{
    Decision, Evaluation, Host, NoopObserver, Observer, PolicyId, Review, StageReport, Stages,
    Trace,
    admissionpolicy::{Bindings, Finding, Surroundings, ValidationAction},
    api::meta::{GroupVersionKind, Operation},
    constraint::Arena,
    cost::Meter,
    explain::{RuleOutcome, RuleTrace},
    jsonpatch::PatchOperation,
    mutation::MutatorOutcome,
};
use modgate_value::{Budget, Object, Str, Value};

use crate::{
    message,
    policies::{Policies, modrule_policy},
    reference::{ObjectRef, PolicyRef},
    unit::{Attribution, UnitViolation},
};

/// The action of a Reject rule.
pub const REJECT: &str = "reject";
/// The action of a Patch rule.
pub const PATCH: &str = "patch";
/// The action of a mutator.
pub const MUTATE: &str = "mutate";

/// The action of a ValidatingAdmissionPolicy with `validationActions: [Deny]`.
pub const DENY: &str = "deny";
/// With `[Warn]`.
pub const WARN: &str = "warn";
/// With `[Audit]`.
pub const AUDIT: &str = "audit";

/// The result.
pub(crate) struct RuleResult {
    pub(crate) found: Vec<UnitViolation>,
    pub(crate) errors: Vec<String>,
}

/// Which Reject rules would refuse the object, and which Patch rules would still change it.
///
/// Rules are evaluated as if the object were created; those that react to updates only, as if it
/// were updated to what it is. Reject rules see what the Patch rules make of the object, as in the
/// webhook.
pub(crate) fn modrules(
    policies: &Policies,
    object: &Value,
    subject: &ObjectRef,
    host: &dyn Host,
    shard: usize,
) -> RuleResult {
    let snapshot = &policies.snapshot;
    let mut result = RuleResult { found: Vec::new(), errors: Vec::new() };
    let mut asked: Vec<PolicyId> = Vec::new();
    for operation in [Operation::Create, Operation::Update] {
        let mut rules = snapshot.modrules_for(operation).filter(|id| !asked.contains(id));
        if rules.next().is_none() {
            continue;
        }
        let review = review(object, subject, operation);
        let stages = Stages::MODRULES.as_configured();
        let decision = decide(policies, &review, stages, (host, shard), &mut NoopObserver);
        if matches!(decision.stages.modrules, StageReport::Skipped(_)) {
            continue;
        }
        let failures = decision.failures.iter();
        result.errors.extend(failures.map(|failure| match failure.rule.as_str() {
            "" => failure.message.clone(),
            rule => format!("ModRule {rule}: {}", failure.message),
        }));
        if !decision.allowed || !decision.patch.is_empty() {
            let mut trace = Trace::default();
            decide(policies, &review, stages, (host, shard), &mut trace);
            let rules = trace.modrules.iter().filter(|rule| !asked.contains(&rule.policy));
            let found = rules.filter_map(|rule| of_rule(rule, review.is_secret()));
            result.found.extend(found);
        }
        asked.extend(snapshot.modrules_for(operation).cloned());
    }
    result
}

/// The change that a rule would make. Of a change of a Secret only operation and path are kept.
fn of_rule(rule: &RuleTrace, is_secret: bool) -> Option<UnitViolation> {
    let PolicyId { namespace, name, .. } = &rule.policy;
    let policy = || Arc::new(modrule_policy(namespace, name));
    match &rule.outcome {
        RuleOutcome::Rejected(rejection) => {
            let message = rejection.message.as_deref().unwrap_or("rejected by the ModRule");
            Some(UnitViolation {
                message: message::cut(message),
                details: Object::default().into(),
                attribution: Attribution::Rule(policy(), REJECT),
            })
        }
        RuleOutcome::Patched => {
            let changes: Vec<_> = rule
                .operations
                .iter()
                .filter(|operation| operation.before != operation.value)
                .collect();
            if changes.is_empty() {
                return None;
            }
            let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
            let patch: Value = changes
                .iter()
                .map(|change| {
                    let mut members = vec![
                        ("op", change.op.as_str().into()),
                        ("path", change.path.as_str().into()),
                    ];
                    let value = change.value.clone().filter(|_| !is_secret);
                    members.extend(value.map(|value| ("value", value)));
                    members.into_iter().collect::<Value>()
                })
                .collect();
            Some(UnitViolation {
                message: message::cut(&format!("would change {}", paths.join(", "))),
                details: [("patch", patch)].into_iter().collect(),
                attribution: Attribution::Rule(policy(), PATCH),
            })
        }
        _ => None,
    }
}

/// Findings about changes that Gatekeeper's mutators would still make.
pub(crate) fn mutators(
    policies: &Policies,
    object: &Value,
    subject: &ObjectRef,
    host: &dyn Host,
    shard: usize,
) -> RuleResult {
    let review = review(object, subject, Operation::Create);
    let stages = Stages::MUTATORS.as_configured();
    let decision = decide(policies, &review, stages, (host, shard), &mut NoopObserver);
    let mut result = RuleResult { found: Vec::new(), errors: Vec::new() };
    if !decision.allowed {
        result.errors.push(decision.reason);
        return result;
    }
    if decision.patch.is_empty() {
        return result;
    }
    let paths: Vec<String> =
        decision.patch.iter().map(|operation| operation.path.to_string()).collect();
    let message = message::cut(&format!("would change {}", paths.join(", ")));
    let is_secret = review.is_secret();
    let patch = decision.patch.iter().map(|operation| match is_secret {
        true => PatchOperation { value: None, ..operation.clone() }.to_value(),
        false => operation.to_value(),
    });
    let details: Value = [("patch", patch.collect::<Value>())].into_iter().collect();
    let mut trace = Trace::default();
    decide(policies, &review, stages, (host, shard), &mut trace);
    let mut changing: Vec<PolicyId> = trace
        .mutators
        .iter()
        .flatten()
        .filter(|trace| trace.outcome == MutatorOutcome::Changed)
        .map(|trace| PolicyId::from(&trace.mutator))
        .collect();
    changing.sort();
    changing.dedup();
    for id in changing {
        let policy = PolicyRef {
            kind: GroupVersionKind { group: id.group, version: "v1".into(), kind: id.kind },
            namespace: id.namespace,
            name: id.name,
            annotations: Object::default().into(),
        };
        result.found.push(UnitViolation {
            message: message.clone(),
            details: details.clone(),
            attribution: Attribution::Rule(policy.into(), MUTATE),
        });
    }
    result
}

/// The findings of one ValidatingAdmissionPolicy in the object.
///
/// The policy is evaluated as if the object were created; one that is not about creations, as if the
/// object were updated to what it is. Each violation has the strongest action of its binding.
pub(crate) fn admission_policy(
    policies: &Policies,
    (name, reference): (&Str, &Arc<PolicyRef>),
    (object, subject, namespace): (&Value, &ObjectRef, Option<&Value>),
    (host, shard): (&dyn Host, usize),
    budget: &Budget<'_>,
) -> RuleResult {
    let mut result = RuleResult { found: Vec::new(), errors: Vec::new() };
    let surroundings = Surroundings {
        namespace: &|| Ok(namespace.cloned()),
        params: host.parameters(),
        authorizer: host.authorizer(),
        meter: Meter { shard, ..Meter::default() },
        bindings: Bindings::All,
        types: host.types(),
        assumes_namespace: false,
        conditions_see_namespace: false,
    };
    let set = policies.snapshot.cluster_policies();
    let place = if subject.kind.is_namespace() { &subject.name } else { &subject.namespace };
    match set.findings_of(name, object, place, &surroundings, budget) {
        Ok(findings) => {
            result.found.extend(findings.iter().map(|found| of_finding(found, reference)));
        }
        Err(error) => result.errors.push(format!("ValidatingAdmissionPolicy {name}: {error}")),
    }
    result
}

fn of_finding(finding: &Finding, policy: &Arc<PolicyRef>) -> UnitViolation {
    let Finding { binding, param, validation, reason, message, .. } = finding;
    let action = match finding.strongest() {
        ValidationAction::Deny => DENY,
        ValidationAction::Warn => WARN,
        ValidationAction::Audit => AUDIT,
    };
    let mut details: Vec<(&str, Value)> = vec![("reason", reason.as_str().into())];
    details.extend(binding.clone().map(|binding| ("binding", binding.into())));
    let index = validation.and_then(|index| i64::try_from(index).ok());
    details.extend(index.map(|index| ("validation", index.into())));
    details.extend(param.as_ref().map(|(namespace, name)| {
        let members = [("namespace", namespace), ("name", name)];
        let members = members.into_iter().filter(|(_, text)| !text.is_empty());
        ("params", members.map(|(key, text)| (key, Value::from(text.clone()))).collect())
    }));
    UnitViolation {
        message: message::cut(message),
        details: details.into_iter().collect(),
        attribution: Attribution::Rule(Arc::clone(policy), action),
    }
}

fn decide<O: Observer>(
    policies: &Policies,
    review: &Review,
    stages: Stages,
    (host, shard): (&dyn Host, usize),
    observer: &mut O,
) -> Decision {
    let mut arena = Arena::new();
    let mut evaluation = Evaluation::new(host, &policies.inventory, &mut arena);
    evaluation.meter.shard = shard;
    policies.snapshot.decide(review, stages, &mut evaluation, observer)
}

/// The request that would make the object. It has the namespace the object has, so that
/// cluster-scoped objects of unknown kinds stay so.
fn review(object: &Value, subject: &ObjectRef, operation: Operation) -> Review {
    let namespace: &Str =
        if subject.kind.is_namespace() { &subject.name } else { &subject.namespace };
    Review::of_object(object.clone(), operation, namespace)
}
