//! The webhooks for ModRules themselves, and the one for Pod bindings.

use modgate_engine::{
    Decision, Review,
    modrule::{Denied, PodBinding, default_modrule, validate_modrule},
};
use modgate_policies::{NotBound, PolicySet};
use tokio::time::{Instant, timeout_at};

/// Fills in defaults (spec `kubemod.md`, 1.4).
pub(super) fn default(review: &Review) -> Decision {
    let Some(object) = review.request().object.as_ref() else { return without_object(review) };
    match default_modrule(object) {
        Ok(patch) => Decision { patch, ..Decision::allowed() },
        Err(error) => denied(error),
    }
}

/// Accepts exactly the rules that load (spec `kubemod.md`, 1.5).
pub(super) fn validate(review: &Review, policies: &PolicySet) -> Decision {
    let request = review.request();
    let object = request.object.as_ref().filter(|_| request.operation.is_write());
    let Some(object) = object else { return without_object(review) };
    match validate_modrule(object, policies.snapshot.config()) {
        Ok(warnings) => Decision { warnings, ..Decision::allowed() },
        Err(error) => {
            let warnings = policies.snapshot.advice(object);
            Decision { warnings, ..denied(error) }
        }
    }
}

/// A write without an object is none that an API server sends (KM-5.5); other operations have nothing to
/// check.
fn without_object(review: &Review) -> Decision {
    if !review.request().operation.is_write() {
        return Decision::allowed();
    }
    let reason = "the request has no object".to_owned();
    Decision { allowed: false, code: 400, reason, ..Decision::allowed() }
}

/// Turns rejections of the validating phase into warnings (KM-5.4).
pub(super) fn admit_with_warnings(decision: &mut Decision) {
    if decision.allowed || decision.is_undecided() {
        return;
    }
    decision.allowed = true;
    decision.code = 200;
    if decision.rejections.is_empty() {
        decision.warnings.push(decision.reason.clone());
    }
    let warnings = decision.rejections.iter().map(|rejection| {
        format!("ModRule {rejection} rejects the object as it will be stored; it is admitted")
    });
    let warnings: Vec<String> = warnings.collect();
    decision.warnings.extend(warnings);
}

fn denied(error: Denied) -> Decision {
    Decision { allowed: false, code: error.code, reason: error.reason, ..Decision::allowed() }
}

/// Answers a request that binds a Pod to a Node (spec `kubemod.md`, 6.2). It always allows the
/// binding.
pub(super) async fn bind_pod(review: &Review, policies: &PolicySet, deadline: Instant) -> Decision {
    let binding = match PodBinding::read(review) {
        Ok(binding) => binding,
        Err(decision) => return *decision,
    };
    let Some(cluster) = policies.objects.cluster() else {
        return PodBinding::failed("failed to obtain pod", "there is no cluster to read it from");
    };
    if let Some(why) = review.request().implausible() {
        return PodBinding::failed("failed to obtain pod", &format!("no API server asks: {why}"));
    }
    match timeout_at(deadline, cluster.bind(&binding)).await {
        Ok(Ok(())) => PodBinding::ok(),
        Ok(Err(NotBound { reason, cause })) => PodBinding::failed(reason, &cause),
        Err(_) => PodBinding::failed("failed to obtain pod", "no answer of the API server in time"),
    }
}
