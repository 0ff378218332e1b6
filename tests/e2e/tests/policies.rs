//! The server against a real API server: the answers that kubectl gets, and policies that the cluster holds.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{collections::BTreeSet, fs, time::Duration};

use modgate_testkit::{
    Roots,
    cluster::{Cluster, Options},
};
use modgate_value::{Value, yaml};

use modgate_e2e::{
    Running, definition, eventually, kubectl, manifests, namespace, succeeds, until,
};

/// The error of kubectl when it creates a ConfigMap; empty if it may.
fn creating(cluster: &Cluster, namespace: &str, name: &str) -> String {
    let arguments = format!("create configmap {name} -n {namespace} --dry-run=server");
    let outcome = kubectl(cluster, &arguments, "");
    if outcome.success { String::new() } else { outcome.stderr }
}

/// Waits until kubectl prints `expected`.
fn becomes(cluster: &Cluster, namespace: &str, name: &str, expected: &str) {
    until("kubectl prints another text", || {
        let printed = creating(cluster, namespace, name);
        if printed == expected { Ok(()) } else { Err(format!("{printed:?}, not {expected:?}")) }
    });
}

fn rule(namespace: &str, name: &str, message: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  type: Reject\n  \
         rejectMessage: '{message}'\n  match: [{{select: '$.metadata.name', matchValue: bad}}]\n"
    )
}

fn denied(webhook: &str, message: &str) -> String {
    format!(
        "error: failed to create configmap: admission webhook \"{webhook}.modgate.test\" denied \
         the request: {message}\n"
    )
}

fn rejected(webhook: &str, reasons: &str) -> String {
    denied(webhook, &format!("operation rejected by the following ModRule(s): {reasons}"))
}

#[test]
fn kubectl_sees_what_a_webhook_says() {
    let Some(cluster) = Cluster::shared() else { return };
    namespace(cluster, "smoke", "smoke");
    let policies = tempfile::tempdir().expect("folder");
    let rule = rule("smoke", "refuse", "not here");
    fs::write(policies.path().join("policies.yaml"), rule).expect("written");
    let server = Running::of_files(policies.path());
    succeeds(cluster, "create -f -", &server.webhook("smoke", "/validate"));
    becomes(cluster, "smoke", "bad", &rejected("smoke", "smoke/refuse: \"not here\""));
    assert_eq!(creating(cluster, "smoke", "good"), "");
    succeeds(cluster, "delete validatingwebhookconfiguration smoke", "");
}

/// Of a collection that is deleted, the API server sends every object as the old one, and no name: so a DELETE
/// without an old object is a request that it never sends (KM-5.5).
#[test]
fn a_rule_holds_up_the_deletion_of_a_collection() {
    let Some(cluster) = Cluster::shared() else { return };
    namespace(cluster, "collections", "collections");
    let policies = tempfile::tempdir().expect("folder");
    let rule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
        metadata: {name: keep, namespace: collections}\nspec:\n  type: Reject\n  \
        rejectMessage: keep it\n  admissionOperations: [DELETE]\n  \
        match: [{select: '$.metadata.labels.keep'}]\n";
    fs::write(policies.path().join("policies.yaml"), rule).expect("written");
    let server = Running::of_files(policies.path());
    let webhook = server.webhook("collections", "/validate").replace("[CREATE]", "[DELETE]");
    succeeds(cluster, "create -f -", &webhook);
    let maps: String = ["a", "b", "c"]
        .map(|name| {
            let keep = if name == "b" { ", keep: 'yes'" } else { "" };
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: collections, \
                 labels: {{mine: 'yes'{keep}}}}}\n---\n"
            )
        })
        .concat();
    succeeds(cluster, "create -f -", &maps);
    let delete = "delete --raw /api/v1/namespaces/collections/configmaps?labelSelector=mine";
    let denied = kubectl(cluster, delete, "");
    assert!(
        !denied.success && denied.stderr.contains("collections/keep: \"keep it\""),
        "{denied:?}"
    );
    succeeds(cluster, "get configmap -n collections b", "");
    succeeds(cluster, "label configmap -n collections b keep-", "");
    succeeds(cluster, delete, "");
    let left = succeeds(cluster, "get configmap -n collections -l mine -o name", "");
    assert_eq!(left, "");
    succeeds(cluster, "delete validatingwebhookconfiguration collections", "");
}

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sforbidden}
spec:
  crd:
    spec:
      names: {kind: K8sForbidden}
      validation:
        openAPIV3Schema:
          type: object
          properties: {name: {type: string}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package forbidden
      violation[{"msg": msg}] {
        input.review.object.metadata.name == input.parameters.name
        msg := sprintf("%v is forbidden", [input.parameters.name])
      }
"#;

fn constraint(name: &str, forbidden: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sForbidden\n\
         metadata: {{name: {name}}}\nspec:\n  match:\n    \
         kinds: [{{apiGroups: [''], kinds: [ConfigMap]}}]\n    \
         namespaceSelector: {{matchLabels: {{test: gatekeeper}}}}\n  \
         parameters: {{name: {forbidden}}}\n"
    )
}

/// One test, as CRDs are the cluster's and not a namespace's.
#[test]
fn policies_of_a_cluster() {
    let Some(cluster) = Cluster::shared() else { return };
    let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
    succeeds(cluster, "create -f -", &rules);
    succeeds(cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
    namespace(cluster, "rules", "rules");
    namespace(cluster, "fresh", "gatekeeper");
    let broken = rule("rules", "broken", "x").replace("$.metadata", "$.[");
    succeeds(cluster, "create -f -", &broken);
    succeeds(cluster, "create -f -", &rule("rules", "before", "there before"));

    let server = Running::of_cluster(cluster);
    succeeds(cluster, "create -f -", &server.webhook("rules", "/validate"));
    succeeds(cluster, "create -f -", &server.webhook("gatekeeper", "/v1/admit"));

    // What was there before, and its broken neighbour has stopped nothing.
    becomes(cluster, "rules", "bad", &rejected("rules", "rules/before: \"there before\""));
    assert_eq!(creating(cluster, "rules", "good"), "");

    // Policies change, come and go.
    succeeds(cluster, "apply -f -", &rule("rules", "before", "changed"));
    becomes(cluster, "rules", "bad", &rejected("rules", "rules/before: \"changed\""));
    succeeds(cluster, "delete modrule -n rules before", "");
    becomes(cluster, "rules", "bad", "");
    succeeds(cluster, "apply -f -", &rule("rules", "broken", "repaired"));
    becomes(cluster, "rules", "bad", &rejected("rules", "rules/broken: \"repaired\""));

    // A kind that comes later, and the kind that comes of it.
    let group = "templates.gatekeeper.sh";
    let templates = definition(group, "ConstraintTemplate", "constrainttemplates", "Cluster", "v1");
    succeeds(cluster, "create -f -", &templates);
    succeeds(
        cluster,
        &format!("wait --for=condition=Established crd/constrainttemplates.{group}"),
        "",
    );
    succeeds(cluster, "create -f -", TEMPLATE);
    let forbidden = "crd/k8sforbidden.constraints.gatekeeper.sh";
    let exists = |what: &str| kubectl(cluster, &format!("get {what}"), "").success;
    eventually("the CRD of the constraints is there", || exists(forbidden));
    succeeds(cluster, &format!("wait --for=condition=Established {forbidden}"), "");
    let labels =
        succeeds(cluster, &format!("get {forbidden} -o jsonpath={{.metadata.labels}}"), "");
    assert_eq!(labels, r#"{"gatekeeper.sh/constraint":"yes"}"#);
    eventually("the constraint is taken", || {
        kubectl(cluster, "apply -f -", &constraint("never", "bad")).success
    });
    becomes(cluster, "fresh", "bad", &denied("gatekeeper", "[never] bad is forbidden"));
    assert_eq!(creating(cluster, "fresh", "good"), "");
    assert!(succeeds(cluster, "get constraints", "").contains("never"));

    // Namespaces that are seconds old.
    for round in 0..3 {
        let name = format!("new-{round}");
        namespace(cluster, &name, "gatekeeper");
        let expected = denied("gatekeeper", "[never] bad is forbidden");
        assert_eq!(creating(cluster, &name, "bad"), expected);
    }

    // A CRD that somebody deletes comes back, without its constraints.
    succeeds(cluster, &format!("delete {forbidden}"), "");
    becomes(cluster, "fresh", "bad", "");
    eventually("the CRD is back", || {
        kubectl(cluster, "apply -f -", &constraint("again", "bad")).success
    });
    becomes(cluster, "fresh", "bad", &denied("gatekeeper", "[again] bad is forbidden"));

    // A template takes its CRD with it, and thereby its constraints.
    succeeds(cluster, "delete constrainttemplate k8sforbidden", "");
    becomes(cluster, "fresh", "bad", "");
    if cluster.has_controllers() {
        eventually("the CRD is gone", || !exists(forbidden));
    }

    // Without the kind there are no rules.
    succeeds(cluster, "delete crd modrules.api.kubemod.io", "");
    becomes(cluster, "rules", "bad", "");
    let webhooks = "delete validatingwebhookconfiguration rules gatekeeper";
    succeeds(cluster, webhooks, "");
}

/// The Gatekeeper library, on a cluster of its own: all templates become kinds that the API server
/// takes, all constraints are taken, and a server that starts later loads every one of them.
#[test]
fn the_whole_library() {
    let Some(library) = Roots::discover().find_folder("gatekeeper-library/library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let (mut templates, mut constraints) = (String::new(), String::new());
    manifests(&library, "template", ".yaml", &mut templates);
    manifests(&library, "constraint", ".yaml", &mut constraints);
    let names = |text: &str| -> BTreeSet<String> {
        let name = |object: &Value| {
            let text = |path: &[&str]| object.path(path).and_then(Value::as_str).map(str::to_owned);
            Some(format!("{} {}", text(&["kind"])?, text(&["metadata", "name"])?))
        };
        let documents = yaml::load(text).expect("YAML");
        documents.iter().filter_map(|document| name(&document.value)).collect()
    };
    let kinds = names(&templates).len() as u64;
    let instances = names(&constraints).len() as u64;
    assert!(kinds > 40 && instances > 40, "{kinds} {instances}");

    let group = "templates.gatekeeper.sh";
    let plural = "constrainttemplates";
    let definition = definition(group, "ConstraintTemplate", plural, "Cluster", "v1");
    let more = "  - {name: v1beta1, served: true, storage: false, subresources: {status: {}}, schema: \
                {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n";
    succeeds(&cluster, "create -f -", &format!("{definition}{more}"));
    succeeds(&cluster, &format!("wait --for=condition=Established crd/{plural}.{group}"), "");
    let server = Running::of_cluster(&cluster);
    succeeds(&cluster, "apply --server-side -f -", &templates);
    let made = "get crd -l gatekeeper.sh/constraint=yes -o name";
    eventually("every template has its kind", || {
        succeeds(&cluster, made, "").lines().count() as u64 == kinds
    });
    let wait = "wait --for=condition=Established crd -l gatekeeper.sh/constraint=yes";
    succeeds(&cluster, wait, "");
    eventually("all constraints are taken", || {
        kubectl(&cluster, "apply --server-side -f -", &constraints).success
    });
    let loaded = |server: &Running| {
        let templates = server.metric("gatekeeper_constraint_templates", "status=\"active\"");
        (templates, server.metric("gatekeeper_constraints", "status=\"active\""))
    };
    eventually("all are loaded", || loaded(&server) == (kinds, instances));
    drop(server);
    let later = Running::of_cluster(&cluster);
    eventually("all are loaded again", || loaded(&later) == (kinds, instances));
}

/// A rule that copies what the node says into Pods, as KubeMod's documents show.
const NODE_RULE: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: zone, namespace: binding}
spec:
  type: Patch
  match:
  - {select: $.kind, matchValue: Pod}
  - {select: $.syntheticRefs.node.metadata.labels.zone}
  patch:
  - op: add
    select: $.syntheticRefs.node.metadata.labels.zone
    path: /metadata/labels/zone
    value: '{{ .SelectedItem }}'
"#;

/// Pods about to be bound get their node's name, and rules see the node from then on.
#[test]
fn pods_are_bound_to_nodes() {
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
    succeeds(&cluster, "create -f -", &rules);
    succeeds(&cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
    namespace(&cluster, "binding", "binding");
    succeeds(&cluster, "create -f -", NODE_RULE);
    succeeds(
        &cluster,
        "create -f -",
        "apiVersion: v1\nkind: Node\nmetadata: {name: node-7, labels: {zone: z-1}}\n",
    );
    let server = Running::configured(&cluster, |config| {
        config.audit.interval = Duration::from_millis(300);
    });
    // One evaluation at a time would be enough: the Pod's own review comes in meanwhile.
    let webhooks = server.webhook("binding", "/dragnet-webhook").replace("Validating", "Mutating");
    let webhooks = webhooks
        .replace("resources: [configmaps]", "resources: [pods]")
        .replace("operations: [CREATE]", "operations: [CREATE, UPDATE]");
    let binding = server
        .webhook("podbinding", "/podbinding-webhook")
        .replace("Validating", "Mutating")
        .replace("resources: [configmaps]", "resources: [pods/binding]")
        .replace("matchLabels: {test: podbinding}", "matchLabels: {test: binding}");
    succeeds(&cluster, "create -f -", &webhooks);
    succeeds(&cluster, "create -f -", &binding);
    let pod = |name: &str, annotation: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: binding, labels: \
             {{a: b}}, annotations: {{{annotation}}}}}\nspec: {{containers: [{{name: c, image: i}}]}}\n"
        )
    };
    let bind = |name: &str| {
        let path = format!("create --raw /api/v1/namespaces/binding/pods/{name}/binding -f -");
        let body = format!(
            r#"{{"apiVersion": "v1", "kind": "Binding", "metadata": {{"name": "{name}",
            "namespace": "binding"}}, "target": {{"apiVersion": "v1", "kind": "Node", "name": "node-7"}}}}"#
        );
        kubectl(&cluster, &path, &body).success
    };
    let seen = |name: &str| {
        let fields = "{.spec.nodeName},{.metadata.labels.zone},\
                      {.metadata.annotations.ref\\.kubemod\\.io/nodename}";
        succeeds(&cluster, &format!("get pod -n binding {name} -o jsonpath={fields}"), "")
    };
    let mut round = 0;
    // The webhooks are asked some time after they were made, and answer when the rule is loaded.
    eventually("a Pod that asks for it gets its node", || {
        round += 1;
        let name = format!("asks-{round}");
        let asking = pod(&name, "ref.kubemod.io/inject-node-ref: 'true'");
        kubectl(&cluster, "create -f -", &asking).success
            && bind(&name)
            && seen(&name) == "node-7,z-1,node-7"
    });
    succeeds(&cluster, "create -f -", &pod("silent", "x: z"));
    assert!(bind("silent"));
    assert_eq!(seen("silent"), "node-7,,");
    // Nor does an audit need any kind of Gatekeeper's (GK-AU-3).
    let audits = || server.plain_metric("gatekeeper_audit_duration_seconds_count");
    eventually("an audit has ended", || audits() > 0);
    succeeds(&cluster, "delete mutatingwebhookconfiguration binding podbinding", "");
}
