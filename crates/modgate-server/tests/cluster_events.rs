//! Events, in a real cluster: about violations of requests, and about policies that do not load.

#![allow(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod common;

use common::{Running, eventually, kubectl, succeeds};
use modgate_engine::api::crds;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

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
fn violations_and_broken_policies_are_told() {
    let Some(cluster) = Cluster::shared() else { return };
    let definitions: Vec<String> =
        crds::all().expect("CRDs").iter().map(|definition| definition.to_json()).collect();
    succeeds(cluster, "apply --server-side -f -", &definitions.join("\n---\n"));
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    succeeds(cluster, &format!("create namespace {NAMESPACE}"), "");
    let running = Running::configured(cluster, |config| {
        config.gatekeeper.installation.namespace = NAMESPACE.into();
        config.gatekeeper.events.emit = true;
    });

    succeeds(cluster, "apply -f -", BROKEN);
    eventually("the rule is told of", || !events(cluster, "default", "PolicyNotLoaded").is_empty());
    let told = events(cluster, "default", "PolicyNotLoaded");
    let [(about, 1, message)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(about, "ModRule default broken");
    assert!(message.contains("spec.match[0].select"), "{message}");
    succeeds(cluster, "apply -f -", &BROKEN.replace("$.kind[", "$.kind"));
    eventually("the rule loads", || !events(cluster, "default", "PolicyLoaded").is_empty());

    succeeds(cluster, "apply -f -", TEMPLATE);
    eventually("the constraint is taken", || kubectl(cluster, "apply -f -", CONSTRAINT).success);
    common::namespace(cluster, "told", "told");
    succeeds(cluster, "apply -f -", &running.webhook("told", "/v1/admit"));
    // Until the API server asks and the constraint is in force.
    let make = || kubectl(cluster, "create configmap again -n told --dry-run=server", "");
    eventually("the webhook denies", || !make().success);
    for _ in 0..20 {
        assert!(!make().success);
    }
    let denied = || events(cluster, NAMESPACE, "FailedAdmission");
    eventually("the violation is told of", || !denied().is_empty());
    let told = denied();
    let [(about, 1.., message)] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(about, &format!("ConfigMap {NAMESPACE} again"));
    assert_eq!(
        message,
        "Admission webhook \"validation.gatekeeper.sh\" denied request, Resource Namespace: told, \
         Constraint: always, Message: never"
    );
    // Repetitions are gathered for half a minute.
    eventually("the first of each is written", || {
        running.metric("modgate_events_total", "result=\"written\"") == 3
    });
    assert!(running.metric("modgate_events_total", "result=\"merged\"") >= 20);
    assert_eq!(running.metric("modgate_events_total", "result=\"error\""), 0);
    assert!(running.metric("rest_client_requests_total", "code=\"201\"") >= 3);
    running.stop();
}
