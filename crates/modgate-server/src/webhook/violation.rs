//! One log line per violation or mutation, with Gatekeeper's keys (spec `gatekeeper-validation`,
//! 6.4; `gatekeeper-mutation…`, 4.3).
//!
//! Messages and details may quote the object, so where it is a Secret neither is logged.

use modgate_engine::{
    Review,
    api::{constraints, meta::GroupVersionKind},
    constraint::{Finding, Verdict},
    gatekeeper::{Mutation, MutationStatus},
};
use modgate_value::Value;

/// Gatekeeper's logger name.
const LOGGER: &str = "webhook";
const MUTATION_LOGGER: &str = "mutation";

/// The version constraints are stored in.
const VERSION: &str = "v1beta1";

/// Logs what went wrong, and with `all` every violation that leads to something.
pub(super) fn record(review: &Review, verdict: &Verdict, findings: &[Finding], all: bool) {
    let request = review.request();
    if verdict.code == 500 {
        tracing::error!(
            target: LOGGER,
            process = "admission",
            "request uid" = %request.uid,
            resource_kind = %request.kind.kind,
            resource_namespace = %request.namespace,
            resource_name = %request.name,
            error = %verdict.message,
            "error executing query"
        );
    }
    if !all {
        return;
    }
    let kind = match (request.kind.kind.is_empty(), review.object()) {
        (true, Some(object)) => GroupVersionKind::of_object(object),
        _ => request.kind.clone(),
    };
    let named = review.object().and_then(|object| object.path(&["metadata", "name"])?.as_str());
    let name = if request.name.is_empty() { named.unwrap_or_default() } else { &request.name };
    let username = request.user_info.get("username").and_then(Value::as_str).unwrap_or_default();
    let secret = super::is_secret(review);
    for finding in findings.iter().filter(|finding| !finding.actions.is_empty()) {
        let actions: Value =
            finding.actions.iter().map(|action| Value::from(action.as_str())).collect();
        let (message, details) = if secret {
            ("not shown for a Secret", "{}".to_owned())
        } else {
            (finding.message.as_str(), finding.details.to_json())
        };
        tracing::info!(
            target: LOGGER,
            hookType = "validation",
            process = "admission",
            event_type = "violation",
            details,
            constraint_name = %finding.constraint,
            constraint_group = constraints::GROUP,
            constraint_api_version = VERSION,
            constraint_kind = %finding.kind,
            constraint_action = %finding.action,
            constraint_enforcement_actions = actions.to_json(),
            resource_group = %kind.group,
            resource_api_version = %kind.version,
            resource_kind = %kind.kind,
            resource_namespace = %request.namespace,
            resource_name = name,
            request_username = username,
            semantic = true,
            "denied admission: {message}"
        );
    }
}

/// Logs a mutation that failed, and with `all` each that changed something. Mutators are named, what
/// they wrote is not.
pub(super) fn mutation(review: &Review, answer: &Mutation, all: bool) {
    let request = review.request();
    if answer.status == MutationStatus::Error {
        let error =
            if super::is_secret(review) { "not shown for a Secret" } else { &answer.message };
        tracing::error!(
            target: MUTATION_LOGGER,
            process = "mutation",
            "request uid" = %request.uid,
            resource_kind = %request.kind.kind,
            resource_namespace = %request.namespace,
            resource_name = %request.name,
            error,
            "failed to mutate object"
        );
    }
    let Some(mutated) = answer.mutated.as_ref().filter(|_| all && answer.object.is_some()) else {
        return;
    };
    // Fields have fixed names; nearly all mutations converge in the third pass.
    let pass = |index: usize| {
        let pass: Vec<String> =
            mutated.passes.get(index)?.iter().map(ToString::to_string).collect();
        Some(pass.join(", "))
    };
    tracing::info!(
        target: MUTATION_LOGGER,
        process = "mutation",
        event_type = "mutation_applied",
        resource_group = %request.kind.group,
        resource_kind = %request.kind.kind,
        resource_api_version = %request.kind.version,
        resource_namespace = %request.namespace,
        resource_name = %request.name,
        resource_source_type = "Original",
        iterations = mutated.passes.len(),
        iteration_0 = pass(0),
        iteration_1 = pass(1),
        iteration_2 = pass(2),
        iteration_3 = pass(3),
        iteration_4 = pass(4),
        "Mutation applied"
    );
}

#[cfg(test)]
mod tests {
    use modgate_engine::api::{constraints::EnforcementAction, meta::Operation};
    use modgate_value::json;

    use super::*;
    use crate::telemetry::capture;

    fn logged(kind: &str, actions: &[EnforcementAction]) -> String {
        let object = format!(
            r#"{{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "n", "namespace": "ns"}}}}"#
        );
        let object = Value::from_json(object.as_bytes()).expect("object");
        let review = Review::of_object(object, Operation::Create, "default");
        let finding = Finding {
            kind: "K8sFoo".into(),
            constraint: "c".into(),
            action: "scoped".into(),
            actions: actions.to_vec(),
            message: "it says s3cret".to_owned(),
            details: Value::from_json(br#"{"is": "s3cret"}"#).expect("details"),
        };
        let verdict = Verdict::of(std::slice::from_ref(&finding));
        capture(|| record(&review, &verdict, &[finding], true))
    }

    #[test]
    fn gatekeepers_keys() -> Result<(), json::ParseError> {
        let text = logged("Pod", &[EnforcementAction::Deny, EnforcementAction::Warn]);
        let line = Value::from_json(text.as_bytes())?;
        for (key, expected) in [
            ("level", r#""info""#),
            ("logger", r#""webhook""#),
            ("msg", r#""denied admission: it says s3cret""#),
            ("event_type", r#""violation""#),
            ("details", r#"{"is":"s3cret"}"#),
            ("constraint_name", r#""c""#),
            ("constraint_group", r#""constraints.gatekeeper.sh""#),
            ("constraint_kind", r#""K8sFoo""#),
            ("constraint_action", r#""scoped""#),
            ("constraint_enforcement_actions", r#"["deny","warn"]"#),
            ("resource_group", r#""""#),
            ("resource_api_version", r#""v1""#),
            ("resource_kind", r#""Pod""#),
            ("resource_namespace", r#""ns""#),
            ("resource_name", r#""n""#),
            ("request_username", r#""""#),
            ("semantic", "true"),
        ] {
            let found = line.get(key).map(Value::to_json);
            assert_eq!(found.as_deref(), Some(expected), "{key}\n{text}");
        }
        Ok(())
    }

    #[test]
    fn secrets_are_never_logged() {
        let text = logged("Secret", &[EnforcementAction::Deny]);
        assert!(text.contains("denied admission: not shown for a Secret"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }

    #[test]
    fn violations_that_lead_to_nothing_are_not_logged() {
        assert_eq!(logged("Pod", &[]), "");
    }
}
