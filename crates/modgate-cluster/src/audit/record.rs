//! Audits in logs and Events, with Gatekeeper's keys (7.5).
//!
//! Messages and details may quote the object, so where it is a Secret neither is logged.

use modgate_audit::{ObjectRef, PolicyRef, Report, SCOPED, Sink, Texts, Told, Violation};
use modgate_engine::{
    api::{
        constraints::{self, EnforcementAction},
        secrets::NOT_SHOWN,
    },
    cost::Statistics,
};
use modgate_telemetry::BulkLog;
use modgate_value::{Str, Value};

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
        let Violation { policy, subject, action, message, details, .. } = violation;
        let (message, details) = if subject.kind.is_secret() {
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
            constraint_group = %policy.kind.group,
            constraint_api_version = %policy.kind.version,
            constraint_kind = %policy.kind.kind,
            constraint_name = %policy.name,
            constraint_namespace = %policy.namespace,
            constraint_action = %action,
            constraint_enforcement_actions = actions(violation.scoped_actions()).to_json(),
            constraint_annotations = policy.annotations.to_json(),
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

fn actions(actions: &[EnforcementAction]) -> Value {
    actions.iter().map(|action| Value::from(action.as_str())).collect()
}

/// The same lines, made on all cores and written many at a time. They are those of [`Lines`] in form, too.
pub(super) struct BulkLines<'a> {
    pub(super) log: &'a BulkLog,
    pub(super) audit: &'a str,
}

impl BulkLines<'_> {
    /// Nothing, where each line must be an event: it is text for people, or no one wants it.
    pub(super) fn log() -> Option<&'static BulkLog> {
        BulkLog::in_use().filter(|_| Lines.wants_violations())
    }
}

impl Texts for BulkLines<'_> {
    fn start(&self) -> String {
        let mut start = self.log.start(tracing::Level::INFO, LOGGER);
        // The message comes next.
        BulkLog::literal(&mut start, "message", "");
        start
    }

    fn policy(&self, policy: &PolicyRef, action: &str, scoped: &[EnforcementAction]) -> String {
        let mut share = String::new();
        let mut add = |name, value: &str| BulkLog::text(&mut share, name, value);
        add("constraint_group", &policy.kind.group);
        add("constraint_api_version", &policy.kind.version);
        add("constraint_kind", &policy.kind.kind);
        add("constraint_name", &policy.name);
        add("constraint_namespace", &policy.namespace);
        add("constraint_action", action);
        add("constraint_enforcement_actions", &actions(scoped).to_json());
        add("constraint_annotations", &policy.annotations.to_json());
        share
    }

    fn object(&self, subject: &ObjectRef) -> String {
        let mut share = String::new();
        let mut add = |name, value: &str| BulkLog::text(&mut share, name, value);
        add("resource_group", &subject.kind.group);
        add("resource_api_version", &subject.kind.version);
        add("resource_kind", &subject.kind.kind);
        add("resource_namespace", &subject.namespace);
        add("resource_name", &subject.name);
        add("resource_labels", &subject.labels.to_json());
        BulkLog::literal(&mut share, "semantic", "true");
        BulkLog::end(&mut share);
        share
    }

    fn violation(&self, shares: [&str; 3], violation: &Told<'_>, line: &mut String) {
        let [start, policy, object] = shares;
        let Told { subject, message, details } = *violation;
        let (message, details) =
            if subject.kind.is_secret() { (NOT_SHOWN, "{}") } else { (message, details) };
        line.push_str(start);
        BulkLog::string(line, message);
        BulkLog::text(line, "process", "audit");
        BulkLog::text(line, "audit_id", self.audit);
        BulkLog::text(line, "event_type", "violation_audited");
        BulkLog::text(line, "details", details);
        line.push_str(policy);
        line.push_str(object);
    }
}

/// A line for each constraint with violations, and for what could not be evaluated (Q-8).
pub(super) fn errors(audit: &str, report: &Report) {
    for constraint in report.by_policy.iter().filter(|report| report.total > 0) {
        let policy = &constraint.policy;
        if policy.kind.group != constraints::GROUP {
            continue;
        }
        let scoped = if constraint.action == SCOPED { &*constraint.actions } else { &[] };
        tracing::info!(
            target: LOGGER,
            process = "audit",
            audit_id = audit,
            event_type = "constraint_audited",
            constraint_group = %policy.kind.group,
            constraint_api_version = %policy.kind.version,
            constraint_kind = %policy.kind.kind,
            constraint_name = %policy.name,
            constraint_namespace = %policy.namespace,
            constraint_action = %constraint.action,
            constraint_enforcement_actions = actions(scoped).to_json(),
            constraint_annotations = policy.annotations.to_json(),
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
            error = if subject.kind.is_secret() { NOT_SHOWN } else { &error.message },
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
    /// Whether it is in the namespace of the object, rather than in that of the installation.
    pub(super) in_namespace: bool,
    pub(super) installation: Str,
}

impl Sink for AsEvents {
    fn violation(&self, audit: &str, violation: &Violation) {
        if violation.policy.kind.group == constraints::GROUP {
            self.events.emit(self.event(audit, violation));
        }
    }
}

impl AsEvents {
    fn event(&self, audit: &str, violation: &Violation) -> Event {
        let Violation { policy, subject, action, message, .. } = violation;
        let message = if subject.kind.is_secret() { NOT_SHOWN } else { message.as_str() };
        let text = format!("Constraint: {}, Message: {message}", policy.name);
        let (kind, namespace, name) = (&subject.kind, &subject.namespace, &subject.name);
        // The same object and uid as in the Events of the webhook (EV-A2).
        let (home, uid, text) = if self.in_namespace {
            let home = if namespace.is_empty() { &self.installation } else { namespace };
            (home, subject.uid.to_string(), text)
        } else {
            let constraint = [&policy.kind.kind, &policy.namespace, &policy.name].map(Str::as_str);
            let object = format!("{}/{namespace}/{name}", kind.kind);
            let uid = format!("{object}/{}", constraint.join("/"));
            (&self.installation, uid, format!("Resource Namespace: {namespace}, {text}"))
        };
        Event {
            involved: Involved {
                api_version: String::new(),
                kind: kind.kind.to_string(),
                namespace: home.to_string(),
                name: name.to_string(),
                uid,
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
                ("constraint_group", policy.kind.group.to_string()),
                ("constraint_api_version", policy.kind.version.to_string()),
                ("constraint_kind", policy.kind.kind.to_string()),
                ("constraint_name", policy.name.to_string()),
                ("constraint_namespace", policy.namespace.to_string()),
                ("constraint_action", action.to_string()),
                ("constraint_enforcement_actions", actions(violation.scoped_actions()).to_json()),
                ("resource_group", kind.group.to_string()),
                ("resource_api_version", kind.version.to_string()),
                ("resource_kind", kind.kind.to_string()),
                ("resource_namespace", namespace.to_string()),
                ("resource_name", name.to_string()),
            ],
        }
    }
}

/// The cost of all constraints (SS-1): one line, with the sums of all that this audit evaluated.
pub(super) fn statistics(audit: &str, from_cache: bool, statistics: &Statistics) {
    let (event_type, message) = if from_cache {
        ("audit_cache_stats", "audit from cache review request stats")
    } else {
        ("audit_stats", "audit review request stats")
    };
    tracing::info!(
        target: LOGGER,
        process = "audit",
        audit_id = audit,
        event_type,
        execution_stats = statistics.to_value().to_json(),
        "{message}"
    );
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use modgate_audit::{Counts, ObjectRef, PolicyRef, PolicySummary, Totals};

    use super::*;
    use modgate_telemetry::{capture, metrics::Metrics};

    fn value(json: &str) -> Value {
        Value::from_json(json.as_bytes()).expect(json)
    }

    fn violation(object: &str) -> Violation {
        let policy = r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K",
            "metadata": {"name": "c", "annotations": {"severity": "high"}}}"#;
        Violation {
            policy: Arc::new(PolicyRef::of_policy(&value(policy))),
            subject: Arc::new(ObjectRef::of_object(&value(object))),
            action: SCOPED.into(),
            actions: vec![EnforcementAction::Deny],
            message: "it says s3cret".into(),
            details: value(r#"{"is": "s3cret"}"#),
            ordinal: 0,
        }
    }

    const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
        "namespace": "n", "uid": "u", "labels": {"l": "m"}}}"#;
    const NODE: &str =
        r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "o", "uid": "w"}}"#;
    const SECRET: &str = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}"#;

    fn check(text: &str, expected: &[(&str, &str)]) {
        let line = value(text.lines().next().expect("a line"));
        for (key, expected) in expected {
            let found = line.get(key).map(Value::to_json);
            assert_eq!(found.as_deref(), Some(*expected), "{key}\n{text}");
        }
    }

    /// The line of a violation without an event, but for the time.
    #[test]
    fn lines_in_bulk_are_those_of_events() {
        let log = BulkLog::by_default();
        let lines = BulkLines { log: &log, audit: "run" };
        let long = POD.replace("\"m\"", &format!("\"{}\"", "m".repeat(5000)));
        let mut all = vec![violation(POD), violation(NODE), violation(SECRET), violation(&long)];
        all.push(Violation { action: "deny".into(), ..violation(POD) });
        all.push(Violation { details: value("{}"), message: "a \"b\"\n".into(), ..violation(POD) });
        for violation in all {
            let Violation { policy, subject, action, message, details, .. } = &violation;
            let start = lines.start();
            let policy = lines.policy(policy, action, violation.scoped_actions());
            let object = lines.object(subject);
            let details = details.to_json();
            let told = Told { subject, message, details: &details };
            let mut line = String::new();
            lines.violation([&start, &policy, &object], &told, &mut line);
            let event = capture(|| Lines.violation("run", &violation));
            let behind_time =
                |line: &str| line.split_once(",\"logger\"").map(|(_, it)| it.to_owned());
            assert_eq!(behind_time(&line), behind_time(&event));
            assert!(behind_time(&line).is_some(), "{line}");
        }
    }

    #[test]
    fn gatekeepers_keys() {
        let of_both = [
            ("audit_id", r#""run""#),
            ("process", r#""audit""#),
            ("semantic", "true"),
            ("constraint_group", r#""constraints.gatekeeper.sh""#),
            ("constraint_api_version", r#""v1beta1""#),
            ("constraint_kind", r#""K""#),
            ("constraint_name", r#""c""#),
            ("constraint_namespace", r#""""#),
            ("constraint_action", r#""scoped""#),
            ("constraint_enforcement_actions", r#"["deny"]"#),
            ("constraint_annotations", r#"{"severity":"high"}"#),
        ];
        let text = capture(|| Lines.violation("run", &violation(POD)));
        check(&text, &of_both);
        check(
            &text,
            &[
                ("event_type", r#""violation_audited""#),
                ("msg", r#""it says s3cret""#),
                ("details", r#"{"is":"s3cret"}"#),
                ("resource_group", r#""""#),
                ("resource_api_version", r#""v1""#),
                ("resource_kind", r#""Pod""#),
                ("resource_namespace", r#""n""#),
                ("resource_name", r#""p""#),
                ("resource_labels", r#"{"l":"m"}"#),
            ],
        );
        let report = Report {
            audit: "run".into(),
            by_policy: vec![PolicySummary {
                policy: violation(POD).policy,
                action: SCOPED.into(),
                actions: vec![EnforcementAction::Deny],
                total: 7,
                first: Vec::new(),
            }],
            totals: Totals::default(),
            by_namespace: Default::default(),
            audited: Default::default(),
            counts: Counts::default(),
            errors: Vec::new(),
        };
        let text = capture(|| errors("run", &report));
        check(&text, &of_both);
        check(
            &text,
            &[
                ("event_type", r#""constraint_audited""#),
                ("msg", r#""audit results for constraint""#),
                ("constraint_status", r#""enforced""#),
                ("constraint_violations", r#""7""#),
            ],
        );
    }

    #[test]
    fn events() {
        let metrics = Metrics::new();
        let events = |in_namespace| AsEvents {
            events: Events::channel(metrics.events().clone()).0,
            in_namespace,
            installation: "gatekeeper-system".into(),
        };
        for (object, in_namespace, expected) in [
            (POD, false, " Pod gatekeeper-system p Pod/n/p/K//c"),
            (POD, true, " Pod n p u"),
            (NODE, false, " Node gatekeeper-system o Node//o/K//c"),
            (NODE, true, " Node gatekeeper-system o w"),
        ] {
            let event = events(in_namespace).event("run", &violation(object));
            let Involved { api_version, kind, namespace, name, uid, .. } = event.involved;
            let found = [api_version, kind, namespace, name, uid].join(" ");
            assert_eq!(found, expected, "{object} {in_namespace}");
        }
        let event = events(false).event("run", &violation(POD));
        assert_eq!(event.message, "Resource Namespace: n, Constraint: c, Message: it says s3cret");
        assert_eq!((event.reason, event.component), ("AuditViolation", "gatekeeper-audit"));
        let annotation = |key: &str| {
            let found = event.annotations.iter().find(|(known, _)| *known == key);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(annotation("auditTimestamp"), Some("run"));
        assert_eq!(annotation("constraint_enforcement_actions"), Some(r#"["deny"]"#));
        let event = events(true).event("run", &violation(POD));
        assert_eq!(event.message, "Constraint: c, Message: it says s3cret");
    }

    #[test]
    fn secrets_are_never_logged() {
        let line = capture(|| Lines.violation("run", &violation(SECRET)));
        assert!(line.contains(NOT_SHOWN) && !line.contains("s3cret"), "{line}");
        let metrics = Metrics::new();
        let events = AsEvents {
            events: Events::channel(metrics.events().clone()).0,
            in_namespace: false,
            installation: "gatekeeper-system".into(),
        };
        let event = format!("{:?}", events.event("run", &violation(SECRET)));
        assert!(event.contains(NOT_SHOWN) && !event.contains("s3cret"), "{event}");
    }
}
