//! Events about violations of requests (spec `gatekeeper-validation`, 6.5).

use modgate_cluster::events::{Event, EventSeverity, Events, Involved};
use modgate_engine::{
    Review,
    api::{
        constraints::{EnforcementAction, GROUP},
        meta::GroupVersionKind,
        secrets::NOT_SHOWN,
    },
    constraint::Violation,
};
use modgate_value::Value;

const COMPONENT: &str = "gatekeeper-webhook";

/// Which violations of requests become Events, and in which namespace.
#[derive(Debug, Clone, Default)]
pub struct AdmissionEvents {
    /// Whether violations become Events (`--emit-admission-events`).
    pub emit: bool,
    /// Whether Events are created in the namespace of the object instead of that of the
    /// installation (`--admission-events-involved-namespace`).
    pub in_object_namespace: bool,
    /// The writer of Events; the server sets it if there is a cluster.
    pub to: Option<Events>,
}

impl AdmissionEvents {
    /// Emits one Event per violation and action.
    pub(super) fn emit(&self, review: &Review, violations: &[Violation], installation: &str) {
        let Some(events) = self.to.as_ref().filter(|events| self.emit && events.are_written())
        else {
            return;
        };
        if violations.is_empty() {
            return;
        }
        let subject = Subject::of(review, review.is_secret());
        for violation in violations {
            for action in &violation.actions {
                events.emit(self.event(&subject, violation, *action, installation));
            }
        }
    }

    fn event(
        &self,
        subject: &Subject<'_>,
        violation: &Violation,
        action: EnforcementAction,
        installation: &str,
    ) -> Event {
        let (reason, begin) = match action {
            EnforcementAction::Warn => (
                "WarningAdmission",
                "Admission webhook \"validation.gatekeeper.sh\" raised a warning for this request",
            ),
            EnforcementAction::Dryrun => ("DryrunViolation", "Dryrun violation"),
            EnforcementAction::Deny | EnforcementAction::Scoped => {
                ("FailedAdmission", "Admission webhook \"validation.gatekeeper.sh\" denied request")
            }
        };
        let Subject { kind, name, namespace, .. } = subject;
        let Violation { constraint, kind: constraint_kind, .. } = violation;
        let shown = if subject.secret { NOT_SHOWN } else { &violation.message };
        let detail = format!("Constraint: {constraint}, Message: {shown}");
        let message = if self.in_object_namespace {
            format!("{begin}, {detail}")
        } else {
            format!("{begin}, Resource Namespace: {namespace}, {detail}")
        };
        let home = if self.in_object_namespace && !namespace.is_empty() {
            namespace
        } else {
            installation
        };
        let uid = if self.in_object_namespace {
            subject.uid.to_owned()
        } else {
            // Keeps the Events of different constraints apart.
            format!("{}/{namespace}/{name}/{constraint_kind}//{constraint}", kind.kind)
        };
        let actions: Value =
            violation.actions.iter().map(|action| Value::from(action.as_str())).collect();
        Event {
            involved: Involved {
                api_version: String::new(),
                kind: kind.kind.to_string(),
                namespace: home.to_owned(),
                name: (*name).to_owned(),
                resource_version: if self.in_object_namespace && !uid.is_empty() {
                    subject.resource_version.to_owned()
                } else {
                    String::new()
                },
                uid,
            },
            component: COMPONENT,
            severity: EventSeverity::Warning,
            reason,
            message,
            annotations: vec![
                ("process", "admission".to_owned()),
                ("event_type", "violation".to_owned()),
                ("constraint_group", GROUP.to_owned()),
                ("constraint_api_version", super::violation::VERSION.to_owned()),
                ("constraint_kind", constraint_kind.to_string()),
                ("constraint_name", constraint.to_string()),
                ("constraint_namespace", String::new()),
                ("constraint_action", violation.action.to_string()),
                ("constraint_enforcement_actions", actions.to_json()),
                ("resource_group", kind.group.to_string()),
                ("resource_api_version", kind.version.to_string()),
                ("resource_kind", kind.kind.to_string()),
                ("resource_namespace", (*namespace).to_owned()),
                ("resource_name", (*name).to_owned()),
                ("request_username", subject.username.to_owned()),
            ],
        }
    }
}

/// The object of a request, as logs and Events name it.
pub(super) struct Subject<'a> {
    pub(super) kind: GroupVersionKind,
    pub(super) namespace: &'a str,
    /// From the object when the request has no name.
    pub(super) name: &'a str,
    pub(super) username: &'a str,
    uid: &'a str,
    resource_version: &'a str,
    /// Whether messages about the object may quote a Secret.
    pub(super) secret: bool,
}

impl<'a> Subject<'a> {
    pub(super) fn of(review: &'a Review, secret: bool) -> Self {
        let request = review.request();
        let kind = match (request.kind.kind.is_empty(), review.object()) {
            (true, Some(object)) => GroupVersionKind::of_object(object),
            _ => request.kind.clone(),
        };
        let of_object = |key: &str| {
            let metadata = review.object().and_then(|object| object.path(&["metadata", key]));
            metadata.and_then(Value::as_str).unwrap_or_default()
        };
        let name = if request.name.is_empty() { of_object("name") } else { &request.name };
        Self {
            kind,
            namespace: &request.namespace,
            name,
            username: request.user_info.get("username").and_then(Value::as_str).unwrap_or_default(),
            uid: of_object("uid"),
            resource_version: of_object("resourceVersion"),
            secret,
        }
    }
}

#[cfg(test)]
mod tests {
    use modgate_engine::{
        api::meta::{ObjectExt as _, Operation},
        constraint::Cause,
    };

    use super::*;

    const POD: &str = r#"{"apiVersion": "v1", "kind": "Pod", "metadata":
        {"name": "n", "namespace": "ns", "uid": "u1", "resourceVersion": "7"}}"#;

    fn event(object: &str, in_object_namespace: bool, action: EnforcementAction) -> Event {
        let object = Value::from_json(object.as_bytes()).expect(object);
        let namespace = object.metadata("namespace");
        let namespace = namespace.unwrap_or_default().to_owned();
        let review = Review::of_object(object, Operation::Create, &namespace);
        let violation = Violation {
            kind: "K8sFoo".into(),
            constraint: "c".into(),
            action: action.as_str().into(),
            actions: vec![action],
            message: "it says s3cret".to_owned(),
            cause: Cause::Policy,
            resultant: None,
            details: Value::Null,
            annotations: Value::Null,
        };
        let events = AdmissionEvents { emit: true, in_object_namespace, to: None };
        let subject = Subject::of(&review, review.is_secret());
        events.event(&subject, &violation, action, "gatekeeper-system")
    }

    #[test]
    fn texts_by_action() {
        for (action, in_object_namespace, reason, message) in [
            (
                EnforcementAction::Deny,
                false,
                "FailedAdmission",
                "Admission webhook \"validation.gatekeeper.sh\" denied request, Resource \
                 Namespace: ns, Constraint: c, Message: it says s3cret",
            ),
            (
                EnforcementAction::Warn,
                true,
                "WarningAdmission",
                "Admission webhook \"validation.gatekeeper.sh\" raised a warning for this request, \
                 Constraint: c, Message: it says s3cret",
            ),
            (
                EnforcementAction::Dryrun,
                false,
                "DryrunViolation",
                "Dryrun violation, Resource Namespace: ns, Constraint: c, Message: it says s3cret",
            ),
        ] {
            let found = event(POD, in_object_namespace, action);
            assert_eq!((found.reason, found.message.as_str()), (reason, message), "{action:?}");
            assert_eq!(found.component, "gatekeeper-webhook");
            assert_eq!(found.severity, EventSeverity::Warning);
        }
    }

    #[test]
    fn what_is_involved() {
        let involved = |object: &str, in_object_namespace| {
            let Involved { api_version, kind, namespace, name, uid, resource_version } =
                event(object, in_object_namespace, EnforcementAction::Deny).involved;
            [api_version, kind, namespace, name, uid, resource_version].join(" ")
        };
        let namespace = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#;
        for (object, in_object_namespace, expected) in [
            (POD, false, " Pod gatekeeper-system n Pod/ns/n/K8sFoo//c "),
            (POD, true, " Pod ns n u1 7"),
            (namespace, false, " Node gatekeeper-system n Node//n/K8sFoo//c "),
            (namespace, true, " Node gatekeeper-system n  "),
        ] {
            assert_eq!(involved(object, in_object_namespace), expected, "{object}");
        }
    }

    #[test]
    fn secrets_are_never_told() {
        let secret = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "n"}}"#;
        for in_object_namespace in [false, true] {
            let found = event(secret, in_object_namespace, EnforcementAction::Deny);
            assert!(!format!("{found:?}").contains("s3cret"), "{found:?}");
            assert!(found.message.ends_with("Message: not shown for a Secret"), "{found:?}");
        }
    }
}
