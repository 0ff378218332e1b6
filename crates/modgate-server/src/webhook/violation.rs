//! One log line per violation or mutation, with Gatekeeper's keys (spec `gatekeeper-validation`,
//! 6.4; `gatekeeper-mutation…`, 4.3).
//!
//! Messages and details may quote the object, so neither is logged for a Secret.

use modgate_engine::{
    Decision, Review, StageReport,
    api::{constraints, secrets::NOT_SHOWN},
    cost::Statistics,
    mutation::MutatorId,
};
use modgate_value::{Object, Value};

use super::events::Subject;

/// Gatekeeper's logger name.
const LOGGER: &str = "webhook";
const MUTATION_LOGGER: &str = "mutation";

/// The version constraints are stored in.
pub(super) const VERSION: &str = "v1beta1";

/// Logs failures, and with `all` every violation with an enforcement action.
pub(super) fn record(review: &Review, decision: &Decision, all: bool) {
    let request = review.request();
    let violations = &decision.violations;
    if decision.code == 500 {
        tracing::error!(
            target: LOGGER,
            process = "admission",
            "request uid" = %request.uid,
            resource_kind = %request.kind.kind,
            resource_namespace = %request.namespace,
            resource_name = %request.name,
            error = %decision.reason,
            "error executing query"
        );
    }
    tracing::debug!(
        target: LOGGER,
        process = "admission",
        "request uid" = %request.uid,
        resource_kind = %request.kind.kind,
        resource_namespace = %request.namespace,
        resource_name = %request.name,
        code = decision.code,
        violations = violations.len(),
        "{}",
        if decision.allowed { "Allowed" } else { "Denied" }
    );
    if !all {
        return;
    }
    let Subject { kind, name, username, secret, .. } = Subject::of(review, review.is_secret());
    for violation in violations.iter().filter(|violation| !violation.actions.is_empty()) {
        let actions: Value =
            violation.actions.iter().map(|action| Value::from(action.as_str())).collect();
        let (message, details) = if secret {
            (NOT_SHOWN, "{}".to_owned())
        } else {
            (violation.message.as_str(), violation.details.to_json())
        };
        tracing::info!(
            target: LOGGER,
            hookType = "validation",
            process = "admission",
            event_type = "violation",
            details,
            constraint_name = %violation.constraint,
            constraint_group = constraints::GROUP,
            constraint_api_version = VERSION,
            constraint_kind = %violation.kind,
            constraint_action = %violation.action,
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

/// Logs the cost of each constraint of a request (`--log-stats-admission`; SS-1).
pub(super) fn statistics(review: &Review, statistics: &Statistics) {
    let Subject { kind, namespace, name, username, .. } = Subject::of(review, false);
    tracing::info!(
        target: LOGGER,
        process = "admission",
        event_type = "review_response_stats",
        resource_group = %kind.group,
        resource_api_version = %kind.version,
        resource_kind = %kind.kind,
        resource_namespace = namespace,
        resource_name = name,
        request_username = username,
        execution_stats = statistics.to_value().to_json(),
        "admission review request stats"
    );
}

/// Logs a failed mutation, and with `all` each one that changed the object: the names of the
/// mutators, not the values they wrote.
pub(super) fn mutation(review: &Review, decision: &Decision, all: bool) {
    let request = review.request();
    let failed = decision.stages.mutators == StageReport::Denied;
    if failed {
        let error = if review.is_secret() { NOT_SHOWN } else { &decision.reason };
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
    let Some(mutated) = decision.mutated.as_ref().filter(|_| all) else { return };
    let message = match (failed, &mutated.object) {
        (true, _) => "Mutation not converging",
        (false, Some(_)) => "Mutation applied",
        (false, None) => return,
    };
    let Subject { kind, namespace, name, .. } = Subject::of(review, false);
    let labels = review.object().and_then(|object| object.path(&["metadata", "labels"]));
    let labels = labels.map_or_else(|| "{}".to_owned(), Value::to_json);
    tracing::info!(
        target: MUTATION_LOGGER,
        process = "mutation",
        event_type = "mutation_applied",
        "Mutation Id" = mutated.run.as_deref().unwrap_or_default(),
        resource_group = %kind.group,
        resource_kind = %kind.kind,
        resource_api_version = %kind.version,
        resource_namespace = namespace,
        resource_name = name,
        resource_source_type = "Original",
        resource_labels = labels,
        iterations = mutated.passes.len(),
        members = passes(&mutated.passes).to_json(),
        "{message}"
    );
}

/// Maximum number of passes in the log line; mutators that do not converge run as many passes as
/// there are mutators.
const NAMED_PASSES: usize = 20;

/// `iteration_0` and so on: the mutators that were applied in each pass.
fn passes(passes: &[Vec<MutatorId>]) -> Value {
    let passes = passes.iter().take(NAMED_PASSES).enumerate().map(|(index, pass)| {
        let names: Vec<String> = pass.iter().map(ToString::to_string).collect();
        (format!("iteration_{index}"), Value::from(names.join(", ")))
    });
    passes.collect::<Object>().into()
}

#[cfg(test)]
mod tests {
    use modgate_engine::{
        api::{constraints::EnforcementAction, meta::Operation},
        constraint::{Cause, Violation},
    };
    use modgate_value::json;

    use super::*;
    use modgate_telemetry::capture;

    fn logged(kind: &str, actions: &[EnforcementAction]) -> String {
        let object = format!(
            r#"{{"apiVersion": "v1", "kind": "{kind}", "metadata": {{"name": "n", "namespace": "ns"}}}}"#
        );
        let object = Value::from_json(object.as_bytes()).expect("object");
        let review = Review::of_object(object, Operation::Create, "default");
        let violation = Violation {
            kind: "K8sFoo".into(),
            constraint: "c".into(),
            action: "scoped".into(),
            actions: actions.to_vec(),
            message: "it says s3cret".to_owned(),
            cause: Cause::Policy,
            resultant: None,
            details: Value::from_json(br#"{"is": "s3cret"}"#).expect("details"),
            annotations: Value::Null,
        };
        let decision = Decision { violations: vec![violation], ..Decision::unchanged(Value::Null) };
        capture(|| record(&review, &decision, true))
    }

    #[test]
    fn gatekeepers_keys() -> Result<(), json::ParseError> {
        let text = logged("Pod", &[EnforcementAction::Deny, EnforcementAction::Warn]);
        // The line before it has the result of the request.
        let line = Value::from_json(text.lines().last().unwrap_or_default().as_bytes())?;
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
        let text = logged("Pod", &[]);
        assert!(text.lines().all(|line| line.contains(r#""level":"debug""#)), "{text}");
    }
}
