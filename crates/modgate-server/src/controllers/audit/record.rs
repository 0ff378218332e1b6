//! Audits in logs and Events, with Gatekeeper's keys (7.5).
//!
//! Messages and details may quote the object, so where it is a Secret neither is told.

use modgate_audit::{Report, Sink, Subject, Violation};
use modgate_engine::api::constraints;
use modgate_value::Value;

use super::{
    super::events::{Event, EventSeverity, Events, Involved},
    LOGGER,
};

/// A log line for each violation.
pub(super) struct Lines;

impl Sink for Lines {
    fn wants_violations(&self) -> bool {
        tracing::enabled!(target: LOGGER, tracing::Level::INFO)
    }

    fn violation(&self, audit: &str, violation: &Violation) {
        let Violation { judge, subject, action, message, details, .. } = violation;
        let (message, details) = if is_secret(subject) {
            (NOT_SHOWN, "{}".to_owned())
        } else {
            (message.as_str(), details.to_json())
        };
        tracing::info!(
            target: LOGGER,
            process = "audit",
            audit_id = audit,
            event_type = "violation_audited",
            details,
            constraint_group = %judge.kind.group,
            constraint_api_version = %judge.kind.version,
            constraint_kind = %judge.kind.kind,
            constraint_name = %judge.name,
            constraint_namespace = %judge.namespace,
            constraint_action = %action,
            constraint_enforcement_actions = actions(violation).to_json(),
            constraint_annotations = judge.annotations.to_json(),
            resource_group = %subject.kind.group,
            resource_api_version = %subject.kind.version,
            resource_kind = %subject.kind.kind,
            resource_namespace = %subject.namespace,
            resource_name = %subject.name,
            resource_labels = subject.labels.to_json(),
            semantic = true,
            "{message}"
        );
    }
}

const NOT_SHOWN: &str = "not shown for a Secret";

fn is_secret(subject: &Subject) -> bool {
    subject.kind.group.is_empty() && subject.kind.kind == "Secret"
}

fn actions(violation: &Violation) -> Value {
    violation.scoped_actions().iter().map(|action| Value::from(action.as_str())).collect()
}

/// A line for each constraint with violations, and for what could not be judged.
pub(super) fn errors(audit: &str, report: &Report) {
    for constraint in report.judges.iter().filter(|report| report.total > 0) {
        let judge = &constraint.judge;
        if judge.kind.group != constraints::GROUP {
            continue;
        }
        tracing::info!(
            target: LOGGER,
            process = "audit",
            audit_id = audit,
            event_type = "constraint_audited",
            constraint_group = %judge.kind.group,
            constraint_api_version = %judge.kind.version,
            constraint_kind = %judge.kind.kind,
            constraint_name = %judge.name,
            constraint_namespace = %judge.namespace,
            constraint_action = %constraint.action,
            constraint_status = "enforced",
            constraint_violations = constraint.total.to_string(),
            semantic = true,
            "audit results for constraint"
        );
    }
    for error in &report.errors {
        let subject = &error.subject;
        tracing::error!(
            target: LOGGER,
            process = "audit",
            audit_id = audit,
            resource_kind = %subject.kind.kind,
            resource_namespace = %subject.namespace,
            resource_name = %subject.name,
            error = if is_secret(subject) { NOT_SHOWN } else { &error.message },
            "an object could not be audited completely"
        );
    }
    let more = report.counts.errors.saturating_sub(report.errors.len() as u64);
    if more > 0 {
        tracing::error!(target: LOGGER, process = "audit", audit_id = audit, more,
            "further objects could not be audited completely");
    }
}

/// An Event for each violation (AU-41).
pub(super) struct AsEvents {
    pub(super) events: Events,
    pub(super) in_namespace: bool,
}

impl Sink for AsEvents {
    fn violation(&self, audit: &str, violation: &Violation) {
        let Violation { judge, subject, action, message, .. } = violation;
        if judge.kind.group != constraints::GROUP {
            return;
        }
        let message = if is_secret(subject) { NOT_SHOWN } else { message.as_str() };
        let text = format!("Constraint: {}, Message: {message}", judge.name);
        let text = match (self.in_namespace, subject.namespace.as_str()) {
            (true, _) => text,
            (false, namespace) => format!("Resource Namespace: {namespace}, {text}"),
        };
        let api_version = match subject.kind.group.as_str() {
            "" => subject.kind.version.to_string(),
            group => format!("{group}/{}", subject.kind.version),
        };
        self.events.emit(Event {
            involved: Involved {
                api_version,
                kind: subject.kind.kind.to_string(),
                namespace: if self.in_namespace {
                    subject.namespace.to_string()
                } else {
                    String::new()
                },
                name: subject.name.to_string(),
                uid: subject.uid.to_string(),
                resource_version: String::new(),
            },
            component: "gatekeeper-audit",
            severity: EventSeverity::Warning,
            reason: "AuditViolation",
            message: text,
            annotations: vec![
                ("process", "audit".to_owned()),
                ("auditTimestamp", audit.to_owned()),
                ("event_type", "violation_audited".to_owned()),
                ("constraint_group", judge.kind.group.to_string()),
                ("constraint_api_version", judge.kind.version.to_string()),
                ("constraint_kind", judge.kind.kind.to_string()),
                ("constraint_name", judge.name.to_string()),
                ("constraint_action", action.to_string()),
                ("resource_group", subject.kind.group.to_string()),
                ("resource_api_version", subject.kind.version.to_string()),
                ("resource_kind", subject.kind.kind.to_string()),
                ("resource_namespace", subject.namespace.to_string()),
                ("resource_name", subject.name.to_string()),
            ],
        });
    }
}
