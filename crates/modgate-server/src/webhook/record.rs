//! One log line per decision, with the messages that KubeMod logs (spec `kubemod.md`,
//! 7.8).
//!
//! Paths of patches and names of rules are logged at info, values at debug only. Texts that may
//! quote a Secret (values, reject messages, causes) are never logged (Q-47).

use std::fmt;

use modgate_engine::{
    Decision, FailureKind, Rejection, Review, api::secrets::NOT_SHOWN, jsonpatch::PatchOperation,
};
use tracing::Level;

use super::Webhook;

/// KubeMod's logger names.
mod logger {
    pub(super) const DRAGNET: &str = "dragnet-webhook";
    pub(super) const CORE: &str = "dragnet-webhook.core";
    pub(super) const POLICIES: &str = "policies-webhook";
}

/// A log event with the keys that all lines about a request share.
macro_rules! event {
    ($target:expr, $level:expr, $subject:expr, $($field:tt)*) => {
        tracing::event!(
            target: $target,
            $level,
            webhook = $subject.webhook.path(),
            "request uid" = %$subject.review.request().uid,
            namespace = %$subject.review.request().namespace,
            resource = %$subject,
            operation = %$subject.review.request().operation,
            $($field)*
        )
    };
}

/// Logs a decision, and the rules that failed.
pub(super) fn decision(webhook: Webhook, review: &Review, decision: &Decision) {
    let subject = Subject { webhook, review };
    let secret = subject.is_secret();
    for failure in &decision.failures {
        let rule = &failure.rule;
        let error = if secret { NOT_SHOWN } else { &failure.message };
        let message = failure.kind.log_message();
        if failure.kind == FailureKind::PatchOnDelete {
            event!(logger::CORE, Level::WARN, subject, %rule, %error, "{message}");
        } else {
            event!(logger::CORE, Level::ERROR, subject, %rule, %error, "{message}");
        }
    }
    if !decision.allowed {
        let rejections = Rejections { entries: &decision.rejections, names_only: secret };
        event!(logger::DRAGNET, Level::INFO, subject, %rejections, "Rejected");
    } else if !decision.rejections.is_empty() {
        let rejections = Rejections { entries: &decision.rejections, names_only: secret };
        event!(logger::DRAGNET, Level::WARN, subject, %rejections, "Admitted though rejected");
    } else if !decision.patch.is_empty() {
        let patch = Patch { operations: &decision.patch, with_values: false };
        event!(logger::DRAGNET, Level::INFO, subject, %patch, "Applying ModRule patch");
        if !secret {
            let patch = Patch { operations: &decision.patch, with_values: true };
            event!(logger::CORE, Level::DEBUG, subject, %patch, "modrule patch");
        }
    } else {
        event!(logger::DRAGNET, Level::DEBUG, subject, reason = %decision.reason, "Allowed");
    }
}

/// Logs which of the cluster's own policies denied a request. Messages may quote a Secret.
pub(super) fn denials(webhook: Webhook, review: &Review, decision: &Decision) {
    let subject = Subject { webhook, review };
    for denial in &decision.denials {
        let binding = denial.binding.as_deref().unwrap_or_default();
        let message = if subject.is_secret() { NOT_SHOWN } else { &denial.message };
        event!(logger::POLICIES, Level::INFO, subject, kind = denial.kind.as_str(),
            policy = %denial.policy, binding, code = denial.code(), message_of_policy = message,
            "Denied by a policy");
    }
}

/// The object of a log line, displayed as `<plural>/<name>` like KubeMod's `resource` key.
struct Subject<'a> {
    webhook: Webhook,
    review: &'a Review,
}

impl Subject<'_> {
    fn is_secret(&self) -> bool {
        self.review.is_secret()
    }
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = self.review.request();
        write!(f, "{}/{}", request.resource.resource, request.name)
    }
}

/// The rejections of a request, or just the names of the rules.
struct Rejections<'a> {
    entries: &'a [Rejection],
    names_only: bool,
}

impl fmt::Display for Rejections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match self.names_only {
                true => f.write_str(&entry.rule)?,
                false => entry.fmt(f)?,
            }
        }
        Ok(())
    }
}

/// `add /metadata/labels/x, remove /spec/y`, with values if `values` is set.
struct Patch<'a> {
    operations: &'a [PatchOperation],
    with_values: bool,
}

impl fmt::Display for Patch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, operation) in self.operations.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{} {}", operation.op.as_str(), operation.path)?;
            if let Some(value) = operation.value.as_ref().filter(|_| self.with_values) {
                write!(f, " {value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use modgate_engine::{RuleFailure, api::meta::Operation, guidance::Guidance, jsonpatch::Op};
    use modgate_value::Value;

    use super::*;
    use modgate_telemetry::capture;

    #[test]
    fn patches_without_values() {
        let operations = [
            PatchOperation { op: Op::Add, path: "/a".into(), value: Some("s3cret".into()) },
            PatchOperation { op: Op::Remove, path: "/b".into(), value: None },
        ];
        let show = |with_values| Patch { operations: &operations, with_values }.to_string();
        assert_eq!(show(false), "add /a, remove /b");
        assert_eq!(show(true), "add /a \"s3cret\", remove /b");
    }

    #[test]
    fn rejections_of_secrets_name_rules_only() {
        let message = Some("pass: s3cret".to_owned());
        let entries = [
            Rejection { rule: "ns/a".into(), message, guidance: Guidance::default() },
            Rejection { rule: "ns/b".into(), message: None, guidance: Guidance::default() },
        ];
        let show = |names_only| Rejections { entries: &entries, names_only }.to_string();
        assert_eq!(show(false), "ns/a: \"pass: s3cret\",ns/b");
        assert_eq!(show(true), "ns/a,ns/b");
    }

    /// Everything logged about a decision that mentions `s3cret` wherever it can, for an object of
    /// this kind.
    fn logged(kind: &str) -> String {
        let object = format!(r#"{{"apiVersion": "v1", "kind": "{kind}"}}"#);
        let object = Value::from_json(object.as_bytes()).expect("object");
        let review = Review::of_object(object, Operation::Create, "default");
        let failure = RuleFailure {
            kind: FailureKind::CalculatePatch,
            rule: "ns/f".to_owned(),
            message: "cannot read `s3cret`".to_owned(),
        };
        let operation =
            PatchOperation { op: Op::Add, path: "/data/k".into(), value: Some("s3cret".into()) };
        let base = Decision {
            allowed: true,
            code: 200,
            reason: "patched ok".to_owned(),
            warnings: vec!["careful with s3cret".to_owned()],
            patch: vec![operation],
            object: "s3cret".into(),
            failures: vec![failure],
            ..Decision::unchanged(Value::Null)
        };
        let message = Some("s3cret".to_owned());
        let entry = Rejection { rule: "ns/r".into(), message, guidance: Guidance::default() };
        let rejected = Decision {
            allowed: false,
            reason: format!("rejected by {entry}"),
            rejections: vec![entry],
            patch: Vec::new(),
            ..base.clone()
        };
        capture(|| {
            decision(Webhook::Dragnet, &review, &base);
            decision(Webhook::Dragnet, &review, &rejected);
        })
    }

    #[test]
    fn secrets_are_never_logged() {
        let text = logged("Secret");
        for expected in ["Rejected", "ns/r", "Applying ModRule patch", "add /data/k", "ns/f"] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("s3cret"), "{text}");
        assert_eq!(logged("ConfigMap").matches("s3cret").count(), 4, "{}", logged("ConfigMap"));
    }

    #[test]
    fn secrets_are_recognised() {
        for (object, expected) in [
            (r#"{"apiVersion":"v1","kind":"Secret"}"#, true),
            (r#"{"apiVersion":"v1","kind":"Pod"}"#, false),
        ] {
            let value = Value::from_json(object.as_bytes()).expect(object);
            let review = Review::of_object(value, Operation::Create, "default");
            let subject = Subject { webhook: Webhook::Dragnet, review: &review };
            assert_eq!(subject.is_secret(), expected, "{object}");
        }
    }
}
