//! The exported members of a violation (XP-2).

use modgate_audit::Violation;
use modgate_engine::{
    Review,
    api::{
        constraints::{EnforcementAction, GROUP},
        secrets::NOT_SHOWN,
    },
    constraint,
};
use modgate_value::{Object, Str, Value};
use sha2::{Digest as _, Sha256};

use super::Line;

/// Messages around the violations of an audit.
pub(super) const STARTED: &str = "audit is started";
pub(super) const COMPLETED: &str = "audit is completed";

/// The key of [`Line::id`].
pub(super) const ID: &str = "violationId";

/// The version constraints are stored in.
const VERSION: &str = "v1beta1";

/// A line around the violations of an audit.
pub(super) fn frame(audit: &str, message: &str) -> String {
    object([("id", audit.into()), ("message", message.into())]).to_json()
}

/// The last line of a file of one audit: how many violations there are, and how many of those the
/// file does not have.
pub(super) fn closing(audit: &str, violations: u64, left_out: u64) -> String {
    let number = |count: u64| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
    let counts = [("violations", number(violations)), ("leftOut", number(left_out))];
    let written = [("id", audit.into()), ("message", COMPLETED.into())];
    object(written.into_iter().chain(counts)).to_json()
}

/// A violation that an audit found.
pub(super) fn of_audit(audit: &str, violation: &Violation) -> Line {
    let id = violation.id(audit);
    let (policy, subject) = (&violation.policy, &violation.subject);
    let is_secret = subject.kind.is_secret();
    let members = [
        ("id", audit.into()),
        (ID, id.as_str().into()),
        ("eventType", "violation_audited".into()),
        ("details", if is_secret { Value::Null } else { violation.details.clone() }),
        ("message", if is_secret { NOT_SHOWN.into() } else { violation.message.clone().into() }),
        ("group", policy.kind.group.clone().into()),
        ("version", policy.kind.version.clone().into()),
        ("kind", policy.kind.kind.clone().into()),
        ("name", policy.name.clone().into()),
        ("namespace", policy.namespace.clone().into()),
        ("enforcementAction", violation.action.clone().into()),
        ("enforcementActions", actions(violation.scoped_actions())),
        ("constraintAnnotations", policy.annotations.clone()),
        ("resourceGroup", subject.kind.group.clone().into()),
        ("resourceAPIVersion", subject.kind.version.clone().into()),
        ("resourceKind", subject.kind.kind.clone().into()),
        ("resourceNamespace", subject.namespace.clone().into()),
        ("resourceName", subject.name.clone().into()),
        ("resourceLabels", subject.labels.clone()),
    ];
    Line { id: u128::from_str_radix(&id, 16).unwrap_or_default(), json: object(members).to_json() }
}

/// A violation by a request, at this time (RFC 3339); `ordinal` counts those of the request.
pub(super) fn of_request(
    review: &Review,
    violation: &constraint::Violation,
    ordinal: usize,
    timestamp: &str,
) -> Line {
    let request = review.request();
    let id = request_id(&request.uid, violation, ordinal);
    let object_or = |path: &[&str]| review.object().and_then(|object| object.path(path).cloned());
    let is_secret = review.is_secret();
    let user = |key: &str| request.user_info.get(key).cloned().unwrap_or_default();
    let name = match request.name.as_str() {
        "" => object_or(&["metadata", "generateName"]).unwrap_or_default(),
        name => name.into(),
    };
    let scoped = violation.action == EnforcementAction::Scoped.as_str();
    let members = [
        ("id", request.uid.clone().into()),
        (ID, format!("{id:032x}").into()),
        ("eventType", "violation_admission".into()),
        ("details", if is_secret { Value::Null } else { violation.details.clone() }),
        ("message", if is_secret { NOT_SHOWN.into() } else { violation.message.as_str().into() }),
        ("group", GROUP.into()),
        ("version", VERSION.into()),
        ("kind", violation.kind.clone().into()),
        ("name", violation.constraint.clone().into()),
        ("enforcementAction", violation.action.clone().into()),
        ("enforcementActions", actions(if scoped { &violation.actions } else { &[] })),
        ("constraintAnnotations", annotations(&violation.annotations)),
        ("resourceGroup", request.kind.group.clone().into()),
        ("resourceAPIVersion", request.kind.version.clone().into()),
        ("resourceKind", request.kind.kind.clone().into()),
        ("resourceNamespace", request.namespace.clone().into()),
        ("resourceName", name),
        ("resourceLabels", object_or(&["metadata", "labels"]).unwrap_or_default()),
        ("timestamp", timestamp.into()),
        ("operation", request.operation.as_str().into()),
        ("requestResource", request.resource.resource.clone().into()),
        ("requestSubresource", request.sub_resource.clone().into()),
        ("requestUsername", user("username")),
        ("requestUserUID", user("uid")),
        ("requestUserGroups", user("groups")),
        // Present even where it is false.
        ("dryRun", request.dry_run.into()),
    ];
    Line { id, json: object(members).to_json() }
}

/// A constraint's annotations without the copy of itself that `kubectl apply` keeps there; those of
/// [audits](Violation) come without it.
fn annotations(all: &Value) -> Value {
    let mut kept = all.as_object().cloned().unwrap_or_default();
    kept.remove("kubectl.kubernetes.io/last-applied-configuration");
    kept.into()
}

fn request_id(uid: &str, violation: &constraint::Violation, ordinal: usize) -> u128 {
    let mut hash = Sha256::new();
    for part in [uid, &violation.kind, &violation.constraint, &ordinal.to_string()] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest.iter().take(16).fold(0, |id, byte| id << 8 | u128::from(*byte))
}

fn actions(actions: &[EnforcementAction]) -> Value {
    actions.iter().map(|action| Value::from(action.as_str())).collect()
}

/// An object without empty members.
fn object<'k>(members: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let kept = members.into_iter().filter(|(_, value)| !is_empty(value));
    Object::from_entries(kept.map(|(key, value)| (Str::from(key), value)).collect()).into()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use modgate_audit::{ObjectRef, PolicyRef};
    use modgate_engine::{api::meta::Operation, constraint::Cause};

    use super::*;

    fn value(json: &str) -> Value {
        Value::from_json(json.as_bytes()).expect(json)
    }

    pub(crate) fn violation(object: &str) -> Violation {
        let policy = r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K",
            "metadata": {"name": "c", "annotations": {"a": "b"}}}"#;
        Violation {
            policy: Arc::new(PolicyRef::of_policy(&value(policy))),
            subject: Arc::new(ObjectRef::of_object(&value(object))),
            action: "deny".into(),
            actions: vec![EnforcementAction::Deny],
            message: "s3cret".into(),
            details: value(r#"{"why": "s3cret"}"#),
            ordinal: 0,
        }
    }

    #[test]
    fn of_audits() {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
            "namespace": "n", "uid": "u"}}"#;
        let line = of_audit("run", &violation(pod));
        let expected = format!(
            r#"{{"constraintAnnotations":{{"a":"b"}},"details":{{"why":"s3cret"}},"enforcementAction":"deny","eventType":"violation_audited","group":"constraints.gatekeeper.sh","id":"run","kind":"K","message":"s3cret","name":"c","resourceAPIVersion":"v1","resourceKind":"Pod","resourceName":"p","resourceNamespace":"n","version":"v1beta1","violationId":"{:032x}"}}"#,
            line.id
        );
        assert_eq!(line.json, expected);
        assert_eq!(line, of_audit("run", &violation(pod)));
        assert_ne!(line.id, of_audit("later", &violation(pod)).id);
    }

    #[test]
    fn secrets_are_not_exported() {
        let secret = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p"}}"#;
        let line = of_audit("run", &violation(secret));
        assert!(!line.json.contains("s3cret"), "{}", line.json);
        let review = Review::of_object(value(secret), Operation::Create, "default");
        let line = of_request(&review, &denied(), 0, "now");
        assert!(!line.json.contains("s3cret"), "{}", line.json);
    }

    fn denied() -> constraint::Violation {
        constraint::Violation {
            kind: "K".into(),
            constraint: "c".into(),
            action: "scoped".into(),
            actions: vec![EnforcementAction::Warn],
            message: "s3cret".to_owned(),
            cause: Cause::Policy,
            resultant: None,
            details: Value::Null,
            annotations: value(
                r#"{"a": "b", "kubectl.kubernetes.io/last-applied-configuration": "{}"}"#,
            ),
        }
    }

    #[test]
    fn of_requests() {
        let pod = r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p",
            "labels": {"l": "m"}}}"#;
        let review = Review::of_object(value(pod), Operation::Create, "default");
        let line = of_request(&review, &denied(), 0, "2026-01-01T00:00:00.5Z");
        let written = value(&line.json);
        for (key, expected) in [
            ("eventType", r#""violation_admission""#),
            ("enforcementActions", r#"["warn"]"#),
            ("constraintAnnotations", r#"{"a":"b"}"#),
            ("message", r#""s3cret""#),
            ("resourceLabels", r#"{"l":"m"}"#),
            ("operation", r#""CREATE""#),
            ("dryRun", "false"),
            ("timestamp", r#""2026-01-01T00:00:00.5Z""#),
        ] {
            assert_eq!(written.get(key).map(Value::to_json).as_deref(), Some(expected), "{key}");
        }
        assert_ne!(line.id, of_request(&review, &denied(), 1, "now").id);
    }
}
