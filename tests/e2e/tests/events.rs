//! Events, in a real cluster: about violations of requests, and about policies that do not load.

#![allow(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

use modgate_e2e::{Running, eventually, kubectl, succeeds};

const NAMESPACE: &str = "gatekeeper-system";

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8salways}
spec:
  crd: {spec: {names: {kind: K8sAlways}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package always
      violation[{"msg": "never"}] { true }
"#;

const CONSTRAINT: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sAlways
metadata: {name: always}
spec: {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}}
";

const BROKEN: &str = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: broken, namespace: default}
spec: {type: Reject, match: [{select: '$.kind['}]}
";

/// The Events with this reason: what they are about, how often it happened, and their text.
fn events(cluster: &Cluster, namespace: &str, reason: &str) -> Vec<(String, i64, String)> {
    let arguments = format!("get events -n {namespace} --field-selector reason={reason} -o json");
    let outcome = kubectl(cluster, &arguments, "");
    let list = Value::from_json(outcome.stdout.as_bytes()).unwrap_or_default();
    let items = list.get("items").and_then(Value::as_array);
    let text = |event: &Value, path: &[&str]| {
        event.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    items
        .map(|items| {
            let event = |event: &Value| {
                let count = event.get("count").and_then(Value::as_i64).unwrap_or_default();
                let about = ["kind", "namespace", "name"]
                    .map(|member| text(event, &["involvedObject", member]))
                    .join(" ");
                (about, count, text(event, &["message"]))
            };
            items.iter().map(event).collect()
        })
        .unwrap_or_default()
}

#[test]
fn violations_and_broken_policies_become_events() {
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "apply --server-side -f -", &modgate_e2e::our_definitions());
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    succeeds(cluster, &format!("create namespace {NAMESPACE}"), "");
    let running = Running::configured(cluster, |config| {
        config.engine.installation.namespace = NAMESPACE.into();
        config.gatekeeper.events.emit = true;
    });

    succeeds(cluster, "apply -f -", BROKEN);
    eventually("an Event reports the rule", || {
        !events(cluster, "default", "PolicyNotLoaded").is_empty()
    });
    let emitted = events(cluster, "default", "PolicyNotLoaded");
    let [(about, 1, message)] = emitted.as_slice() else { panic!("{emitted:?}") };
    assert_eq!(about, "ModRule default broken");
    assert!(message.contains("spec.match[0].select"), "{message}");
    succeeds(cluster, "apply -f -", &BROKEN.replace("$.kind[", "$.kind"));
    eventually("the rule loads", || !events(cluster, "default", "PolicyLoaded").is_empty());

    succeeds(cluster, "apply -f -", TEMPLATE);
    eventually("the constraint is taken", || kubectl(cluster, "apply -f -", CONSTRAINT).success);
    modgate_e2e::namespace(cluster, "watched", "watched");
    succeeds(cluster, "apply -f -", &running.webhook("watched", "/v1/admit"));
    // Until the API server asks and the constraint is in force.
    let is_denied = || {
        let outcome = kubectl(cluster, "create configmap again -n watched --dry-run=server", "");
        outcome.stderr.contains("[always] never")
    };
    eventually("the webhook denies", is_denied);
    for _ in 0..20 {
        assert!(is_denied());
    }
    let denied = || events(cluster, NAMESPACE, "FailedAdmission");
    eventually("an Event reports the violation", || !denied().is_empty());
    let emitted = denied();
    let [(about, 1.., message)] = emitted.as_slice() else { panic!("{emitted:?}") };
    assert_eq!(about, &format!("ConfigMap {NAMESPACE} again"));
    assert_eq!(
        message,
        "Admission webhook \"validation.gatekeeper.sh\" denied request, Resource Namespace: watched, \
         Constraint: always, Message: never"
    );
    // Repetitions are gathered for half a minute, and then are no other Event.
    eventually("the first of each is written", || {
        running.metric("modgate_events_total", "result=\"written\"") >= 3
    });
    for (namespace, reason) in [
        ("default", "PolicyNotLoaded"),
        ("default", "PolicyLoaded"),
        (NAMESPACE, "FailedAdmission"),
    ] {
        let emitted = events(cluster, namespace, reason);
        assert_eq!(emitted.len(), 1, "{emitted:?}");
    }
    assert!(running.metric("modgate_events_total", "result=\"merged\"") >= 20);
    assert_eq!(running.metric("modgate_events_total", "result=\"error\""), 0);
    assert!(running.metric("rest_client_requests_total", "code=\"201\"") >= 3);
    running.stop();
    audits_emit_events(cluster);
}

/// Audits write Events, in the namespace of the installation and then in those of the objects; a
/// violation that repeats is one Event, and all of them together have a rate.
fn audits_emit_events(cluster: &Cluster) {
    const OBJECTS: u64 = 60;
    modgate_e2e::namespace(cluster, "found", "found");
    let maps: String = (0..OBJECTS)
        .map(|number| {
            format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: bad-{number:02}, namespace: found}}\n")
        })
        .collect();
    succeeds(cluster, "create -f -", &maps);
    succeeds(cluster, "delete k8salways.constraints.gatekeeper.sh always", "");
    let one = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sAlways
metadata: {name: found}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap, Namespace]}], namespaces: [found], name: 'bad-*'}
";
    let other = one.replace("name: found}", "name: of-one}").replace("'bad-*'", "bad-07");
    let of_namespaces =
        one.replace("name: found}", "name: of-namespaces}").replace("'bad-*'", "found");
    succeeds(cluster, "apply -f -", &format!("{one}---{other}---{of_namespaces}"));
    let violations = OBJECTS + 2;
    let auditing = |in_namespace| {
        Running::configured(cluster, |config| {
            config.operations = [modgate_cluster::Operation::Audit].into_iter().collect();
            config.audit.interval = Duration::from_millis(500);
            config.audit.events = true;
            config.audit.events_in_namespace = in_namespace;
        })
    };
    let started = Instant::now();
    let server = auditing(false);
    let events_that =
        |became: &str| server.metric("modgate_events_total", &format!("result=\"{became}\""));
    eventually("the first are written", || events_that("written") >= 20);
    // Fifty at once, then five a second.
    let written = events_that("written");
    let most = 50 + 5 * (started.elapsed().as_secs() + 1);
    assert!(written <= most, "{written} of {most}");
    eventually("each is written, and found again", || {
        events_that("merged") > violations
            && events(cluster, NAMESPACE, "AuditViolation").len() as u64 >= violations
    });
    let emitted = events(cluster, NAMESPACE, "AuditViolation");
    assert_eq!(emitted.len() as u64, violations, "what is found again is no other Event");
    let of_one: Vec<&str> = emitted
        .iter()
        .filter(|(about, _, _)| about == &format!("ConfigMap {NAMESPACE} bad-07"))
        .map(|(_, _, message)| message.as_str())
        .collect();
    let text = |constraint: &str| {
        format!("Resource Namespace: found, Constraint: {constraint}, Message: never")
    };
    assert_eq!(of_one.len(), 2, "{of_one:?}");
    assert!(of_one.contains(&&*text("found")) && of_one.contains(&&*text("of-one")), "{of_one:?}");
    let shown = "get events -n gatekeeper-system -o json --field-selector \
                 reason=AuditViolation,involvedObject.name=bad-00";
    let shown = Value::from_json(succeeds(cluster, shown, "").as_bytes()).expect("JSON");
    let event = shown.get("items").and_then(|items| items.at(0)).expect("an Event").clone();
    let said =
        |path: &[&str]| event.path(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    for (path, expected) in [
        (&["type"][..], "Warning"),
        (&["source", "component"], "gatekeeper-audit"),
        (&["involvedObject", "uid"], "ConfigMap/found/bad-00/K8sAlways//found"),
        (&["metadata", "annotations", "process"], "audit"),
        (&["metadata", "annotations", "event_type"], "violation_audited"),
        (&["metadata", "annotations", "constraint_kind"], "K8sAlways"),
        (&["metadata", "annotations", "constraint_action"], "warn"),
        (&["metadata", "annotations", "constraint_enforcement_actions"], "[]"),
        (&["metadata", "annotations", "resource_namespace"], "found"),
    ] {
        assert_eq!(said(path), expected, "{path:?}");
    }
    assert!(said(&["metadata", "annotations", "auditTimestamp"]).ends_with('Z'), "{event}");
    server.stop();

    let server = auditing(true);
    let about = |namespace: &str, about: &str| {
        let emitted = events(cluster, namespace, "AuditViolation");
        emitted.into_iter().find(|(found, _, _)| found == about)
    };
    eventually("they are with the objects", || {
        about("found", "ConfigMap found bad-00").is_some()
            && about(NAMESPACE, "Namespace gatekeeper-system found").is_some()
    });
    let (_, _, message) = about("found", "ConfigMap found bad-00").expect("an Event");
    assert_eq!(message, "Constraint: found, Message: never");
    let uid =
        |what: &str, path: &str| succeeds(cluster, &format!("get {what} -o jsonpath={path}"), "");
    let shown = "events -n found --field-selector involvedObject.name=bad-00";
    assert_eq!(
        uid(shown, "{.items[0].involvedObject.uid}"),
        uid("configmap -n found bad-00", "{.metadata.uid}")
    );
    server.stop();
}
