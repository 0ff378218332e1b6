//! ModRules and mutators: what they would do to an object if it were made again today.

use std::sync::Arc;

use modgate_engine::{
    Host, HostError, PolicyId, Review,
    api::meta::{GroupVersionKind, Operation},
    explain::{Outcome, RuleTrace},
    gatekeeper::{self, Installation},
    jsonpatch,
    mutation::MutatorOutcome,
    pipeline::Reach,
};
use modgate_value::{Clock, Object, Str, Value, budget::Frozen};

use crate::{
    evaluate::{Charge, Found, is_namespace},
    message,
    policies::{Policies, modrule_judge},
    violation::{Judge, Subject},
};

/// What a Reject rule would do.
pub const REJECT: &str = "reject";
/// What a Patch rule would do.
pub const PATCH: &str = "patch";
/// What a mutator would do.
pub const MUTATE: &str = "mutate";

/// What came of it.
pub(crate) struct Judged {
    pub(crate) found: Vec<Found>,
    pub(crate) errors: Vec<String>,
}

/// Which Reject rules would refuse the object, and which Patch rules would still change it.
///
/// Rules are asked as if the object were created; those that react to updates only, as if it were
/// updated to what it is. Reject rules see what the Patch rules make of the object, as in the
/// webhook.
pub(crate) fn modrules(
    policies: &Policies,
    object: &Value,
    subject: &Subject,
    host: &dyn Host,
) -> Judged {
    let snapshot = &policies.snapshot;
    let mut judged = Judged { found: Vec::new(), errors: Vec::new() };
    let mut asked: Vec<PolicyId> = Vec::new();
    for operation in [Operation::Create, Operation::Update] {
        let mut rules = snapshot.modrules_for(operation).filter(|id| !asked.contains(id));
        if rules.next().is_none() {
            continue;
        }
        let review = review(object, subject, operation);
        if reach(policies, &review, host).modrules.is_err() {
            continue;
        }
        let decision = snapshot.mutate(&review, host);
        let failures = decision.failures.iter();
        judged.errors.extend(failures.map(|failure| match failure.rule.as_str() {
            "" => failure.message.clone(),
            rule => format!("ModRule {rule}: {}", failure.message),
        }));
        if !decision.allowed || !decision.patch.is_empty() {
            let explanation = snapshot.explain(&review, host);
            let rules = explanation.rules.iter().filter(|rule| !asked.contains(&rule.policy));
            judged.found.extend(rules.filter_map(of_rule));
        }
        asked.extend(snapshot.modrules_for(operation).cloned());
    }
    judged
}

fn of_rule(rule: &RuleTrace) -> Option<Found> {
    let PolicyId { namespace, name, .. } = &rule.policy;
    let judge = || Arc::new(modrule_judge(namespace, name));
    match &rule.outcome {
        Outcome::Rejected(entry) => {
            // `namespace/name: "message"`
            let text = entry.split_once(": ").map(|(_, text)| text.trim_matches('"'));
            let message = text.unwrap_or("rejected by the ModRule");
            Some(Found {
                message: message::cut(message),
                details: Object::default().into(),
                charge: Charge::Rule(judge(), REJECT),
            })
        }
        Outcome::Patched => {
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
                    members.extend(change.value.clone().map(|value| ("value", value)));
                    members.into_iter().collect::<Value>()
                })
                .collect();
            Some(Found {
                message: message::cut(&format!("would change {}", paths.join(", "))),
                details: [("patch", patch)].into_iter().collect(),
                charge: Charge::Rule(judge(), PATCH),
            })
        }
        _ => None,
    }
}

/// What Gatekeeper's mutators would still change.
pub(crate) fn mutators(
    policies: &Policies,
    object: &Value,
    subject: &Subject,
    host: &dyn Host,
) -> Judged {
    let snapshot = &policies.snapshot;
    let review = review(object, subject, Operation::Create);
    let installation = Installation::default();
    if reach(policies, &review, host).mutators.is_err() {
        return Judged { found: Vec::new(), errors: Vec::new() };
    }
    let mutation = gatekeeper::mutate(&review, &installation, snapshot, host);
    let mut judged = Judged { found: Vec::new(), errors: Vec::new() };
    if !mutation.allowed {
        judged.errors.push(mutation.message);
        return judged;
    }
    if mutation.patch.is_empty() {
        return judged;
    }
    let paths: Vec<String> =
        mutation.patch.iter().map(|operation| operation.path.to_string()).collect();
    let message = message::cut(&format!("would change {}", paths.join(", ")));
    let details: Value = [("patch", jsonpatch::to_value(&mutation.patch))].into_iter().collect();
    let (_, explanation) = gatekeeper::explain_mutation(&review, &installation, snapshot, host);
    let passes = explanation.map(|explanation| explanation.passes).unwrap_or_default();
    let mut changing: Vec<PolicyId> = passes
        .iter()
        .flatten()
        .filter(|trace| trace.outcome == MutatorOutcome::Changed)
        .map(|trace| PolicyId::from(&trace.mutator))
        .collect();
    changing.sort();
    changing.dedup();
    for id in changing {
        let judge = Judge {
            kind: GroupVersionKind { group: id.group, version: "v1".into(), kind: id.kind },
            namespace: id.namespace,
            name: id.name,
            annotations: Object::default().into(),
        };
        judged.found.push(Found {
            message: message.clone(),
            details: details.clone(),
            charge: Charge::Rule(judge.into(), MUTATE),
        });
    }
    judged
}

/// Whether the webhooks of ModRules are asked about objects of a kind.
pub(crate) fn reach_modrules(policies: &Policies, kind: &GroupVersionKind) -> bool {
    let api_version = match kind.group.as_str() {
        "" => kind.version.to_string(),
        group => format!("{group}/{}", kind.version),
    };
    let members = [("apiVersion", Value::from(api_version)), ("kind", kind.kind.clone().into())];
    let review = Review::of_object(members.into_iter().collect(), Operation::Create, "");
    reach(policies, &review, &Nobody).modrules.is_ok()
}

fn reach(policies: &Policies, review: &Review, host: &dyn Host) -> Reach {
    Reach::of(review, &Installation::default(), policies.snapshot.config(), host)
}

/// Knows nothing: an object without a namespace is asked about.
struct Nobody;

impl Host for Nobody {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError(format!("namespaces \"{name}\" not found")))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError(format!("nodes \"{name}\" not found")))
    }
}

/// The request that would make the object. It has the namespace the object has, so that
/// cluster-scoped objects of unknown kinds stay so.
fn review(object: &Value, subject: &Subject, operation: Operation) -> Review {
    let namespace: &Str =
        if is_namespace(&subject.kind) { &subject.name } else { &subject.namespace };
    Review::of_object(object.clone(), operation, namespace)
}
