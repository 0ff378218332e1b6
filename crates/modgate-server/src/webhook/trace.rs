//! Traces of requests that the Config selects (TR-1).
//!
//! A trace shows which expressions held, never the values they read: these may come from a Secret,
//! in the request or in the inventory. `modgate explain` shows them, since its user has the
//! objects. For the same reason a dump has the policies, and only the number of objects per kind.

use std::fmt::Write as _;

use modgate_engine::{
    Decision, Review, Snapshot, Trace,
    api::{config, secrets::NOT_SHOWN, templates::TARGET},
    constraint::{ConstraintTrace, ExpressionResult},
};
use modgate_value::Value;

/// Logger of the validating webhook.
const LOGGER: &str = "webhook";

/// Logs how the constraints decided a request, once for each trace that selects it.
pub(super) fn record(review: &Review, snapshot: &Snapshot, decision: &Decision, seen: &Trace) {
    for wanted in wanted(review, snapshot) {
        let text = match decision.code {
            500 => format!("Target: {TARGET}\nTrace: {}\n", decision.reason),
            _ => text(&seen.constraints, review.is_secret()),
        };
        let request = review.request();
        tracing::info!(
            target: LOGGER,
            process = "admission",
            "request uid" = %request.uid,
            resource_kind = %request.kind.kind,
            resource_namespace = %request.namespace,
            resource_name = %request.name,
            "{text}"
        );
        if wanted.dump.eq_ignore_ascii_case("all") {
            let dump = dump(snapshot);
            tracing::info!(target: LOGGER, process = "admission", "{dump}");
        }
    }
}

/// Whether the Config selects the request.
pub(super) fn is_wanted(review: &Review, snapshot: &Snapshot) -> bool {
    wanted(review, snapshot).next().is_some()
}

fn wanted<'s>(review: &Review, snapshot: &'s Snapshot) -> impl Iterator<Item = &'s config::Trace> {
    let request = review.request();
    let username = request.user_info.get("username").and_then(Value::as_str).unwrap_or_default();
    snapshot
        .traces()
        .iter()
        .filter(move |trace| trace.user == username && trace.kind == request.kind)
}

fn text(constraints: &[ConstraintTrace], secret: bool) -> String {
    let mut out = format!("Target: {TARGET}\nTrace:\n");
    for trace in constraints {
        let _ = writeln!(out, "{}/{}: {:?}", trace.policy.kind, trace.policy.name, Plain(trace));
        for expression in &trace.expressions {
            let result = match &expression.result {
                ExpressionResult::Held => "held".to_owned(),
                ExpressionResult::Failed => "failed".to_owned(),
                ExpressionResult::Mixed(held, failed) => format!("held {held}, failed {failed}"),
                ExpressionResult::Value(_) => "has a value".to_owned(),
                ExpressionResult::Error(_) => "has no value".to_owned(),
                _ => String::new(),
            };
            let _ = writeln!(out, "  {}: {}: {result}", expression.rule, expression.text);
        }
        if trace.omitted > 0 {
            let _ = writeln!(out, "  and {} more", trace.omitted);
        }
    }
    let results = constraints
        .iter()
        .flat_map(|trace| trace.violations.iter().map(move |violation| (&trace.policy, violation)));
    for (index, (policy, violation)) in results.enumerate() {
        let shown = if secret { NOT_SHOWN } else { violation };
        let _ = writeln!(out, "Result({index}): {}/{}: {shown}", policy.kind, policy.name);
    }
    out
}

/// The result of a constraint, without values of the object.
struct Plain<'a>(&'a ConstraintTrace);

impl std::fmt::Debug for Plain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use modgate_engine::constraint::ConstraintOutcome as Outcome;
        match &self.0.outcome {
            Outcome::NotEvaluated(why) => write!(f, "not evaluated: {why}"),
            Outcome::Excluded(exclusion) => write!(f, "excluded by {}", exclusion.field),
            Outcome::Undecided(_) => f.write_str("its match block cannot be decided"),
            Outcome::Satisfied => f.write_str("satisfied"),
            Outcome::Violated => f.write_str("violated"),
            _ => Ok(()),
        }
    }
}

/// The templates and constraints in force, as written.
fn dump(snapshot: &Snapshot) -> String {
    let store = snapshot.constraints();
    let mut out = String::from("Dump:\n");
    for template in store.templates() {
        if let Some(source) = store.template_source(template.name()) {
            let spec = source.object.get("spec").map(Value::to_json).unwrap_or_default();
            let _ = writeln!(out, "ConstraintTemplate {}: {spec}", template.name());
        }
    }
    for constraint in store.constraints() {
        let spec = constraint.resource().get("spec").map(Value::to_json).unwrap_or_default();
        let _ = writeln!(out, "{} {}: {spec}", constraint.kind(), constraint.name());
    }
    out
}

#[cfg(test)]
mod tests {
    use modgate_engine::{
        Change, Evaluation, OnError, PolicySource, Stages,
        constraint::{Arena, Inventory},
        cost::Statistics,
    };

    use super::*;
    use crate::webhook::violation;
    use modgate_policies::{Objects, ProviderHost};
    use modgate_telemetry::capture;

    const POLICIES: [&str; 3] = [
        r#"{"apiVersion": "templates.gatekeeper.sh/v1", "kind": "ConstraintTemplate",
            "metadata": {"name": "k8stells"}, "spec": {
                "crd": {"spec": {"names": {"kind": "K8sTells"}}},
                "targets": [{"target": "admission.k8s.gatekeeper.sh", "rego":
                    "package tells\nviolation[{\"msg\": msg, \"details\": {\"all\": input.review.object}}] { msg := sprintf(\"it is %v\", [input.review.object.data]) }"}]}}"#,
        r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K8sTells",
            "metadata": {"name": "tells"}}"#,
        r#"{"apiVersion": "config.gatekeeper.sh/v1alpha1", "kind": "Config",
            "metadata": {"name": "config", "namespace": "gatekeeper-system"},
            "spec": {"validation": {"traces": [
                {"user": "me", "kind": {"group": "", "version": "v1", "kind": "Secret"}, "dump": "all"},
                {"user": "me", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"}}]}}}"#,
    ];

    fn snapshot() -> Snapshot {
        let value = |text: &&str| Value::from_json(text.as_bytes()).expect("a policy");
        let sources = POLICIES.iter().map(value).map(PolicySource::of_object);
        let update =
            Snapshot::default().apply(sources.map(Change::Upsert).collect(), OnError::Unload);
        assert!(!update.has_errors(), "{:?}", update.problems);
        update.snapshot
    }

    fn review(kind: &str, user: &str) -> Review {
        let review = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
                "uid": "u1", "operation": "CREATE", "userInfo": {{"username": "{user}"}},
                "kind": {{"group": "", "version": "v1", "kind": "{kind}"}},
                "object": {{"apiVersion": "v1", "kind": "{kind}",
                    "metadata": {{"name": "n", "labels": {{"a": "b"}}, "annotations": {{
                        "kubectl.kubernetes.io/last-applied-configuration": "s3cret"}}}},
                    "data": {{"k": "s3cret"}}, "stringData": {{"k": "s3cret"}}}}}}}}"#
        );
        let document = Value::from_json(review.as_bytes()).expect("a review");
        Review::parse(&document).expect("a review")
    }

    /// All log lines about a request, with every kind of logging on.
    fn logged(kind: &str, user: &str) -> String {
        let (snapshot, review) = (snapshot(), review(kind, user));
        let (inventory, objects) = (Inventory::default(), Objects::default());
        let host = ProviderHost::new(&objects, None);
        let statistics = Statistics::default();
        capture(|| {
            let (mut arena, mut trace) = (Arena::new(), Trace::default());
            let mut evaluation = Evaluation::new(&host, &inventory, &mut arena);
            evaluation.meter.statistics = Some(&statistics);
            let stages = Stages::CONSTRAINTS;
            let decision = snapshot.decide(&review, stages, &mut evaluation, &mut trace);
            assert_eq!(decision.violations.len(), 1, "{:?}", decision.violations);
            record(&review, &snapshot, &decision, &trace);
            violation::record(&review, &decision, true);
            violation::statistics(&review, &statistics);
        })
    }

    #[test]
    fn requests_of_a_user_about_a_kind_are_traced() {
        let text = logged("ConfigMap", "me");
        for expected in [
            r#""msg":"Target: admission.k8s.gatekeeper.sh\nTrace:\nK8sTells/tells: violated"#,
            r"Result(0): K8sTells/tells: it is {",
            r#""msg":"denied admission: it is {"#,
            r#""msg":"admission review request stats""#,
            r#""statsFor":"K8sTells""#,
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("Dump:"), "{text}");
        // The log has the expressions, but not the values they read.
        let trace = text.lines().find(|line| line.contains("Target: ")).expect("a trace");
        assert!(trace.contains("sprintf"), "{trace}");
        assert!(!logged("ConfigMap", "you").contains("Target: "));
        assert!(!logged("Pod", "me").contains("Target: "));
    }

    #[test]
    fn nothing_from_inside_a_secret_is_ever_logged() {
        let text = logged("Secret", "me");
        for expected in
            ["Target: ", "Dump:", "ConstraintTemplate k8stells", "not shown for a Secret"]
        {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        assert!(!text.contains("s3cret"), "{text}");
    }
}
