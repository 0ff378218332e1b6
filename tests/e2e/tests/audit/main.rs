//! Audits of a real cluster: the scenarios of the specification that are theirs.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says what was measured"
)]

mod passes;
mod reports;
mod silent;

use std::{fmt::Write as _, time::Duration};

use modgate_cluster::Operation;
use modgate_server::ServeConfig;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

use modgate_e2e::{Running, eventually, succeeds};

const KIND: &str = "foosystemrequiredlabels.constraints.gatekeeper.sh";

/// The template of the specification's scenarios.
const TEMPLATE: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: foosystemrequiredlabels}
spec:
  crd:
    spec:
      names: {kind: FooSystemRequiredLabels}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels: {type: array, items: {type: string}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package foosystemrequiredlabels
      violation[{"msg": msg, "details": {"missing_labels": missing}}] {
        provided := {l | input.review.object.metadata.labels[l]}
        required := {l | l := input.parameters.labels[_]}
        missing := required - provided
        count(missing) > 0
        msg := sprintf("you must provide labels: %v", [missing])
      }
"#;

fn constraint(name: &str, kind: &str, labels: &str, more: &str) -> String {
    format!(
        "---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: FooSystemRequiredLabels\n\
         metadata: {{name: {name}}}\nspec:\n  match: {{kinds: [{{apiGroups: [''], kinds: [{kind}]}}]}}\n  \
         parameters: {{labels: [{labels}]}}\n{more}"
    )
}

/// A process that does nothing but audit, often.
fn auditing(cluster: &Cluster, configure: impl FnOnce(&mut ServeConfig)) -> Running {
    Running::configured(cluster, |config| {
        config.operations = [Operation::Audit, Operation::Generate].into_iter().collect();
        config.audit.interval = Duration::from_millis(300);
        configure(config);
    })
}

fn read(cluster: &Cluster, name: &str) -> Value {
    let text = succeeds(cluster, &format!("get {KIND} {name} -o json"), "");
    let object = Value::from_json(text.as_bytes()).expect("JSON");
    object.get("status").cloned().unwrap_or_default()
}

fn total(status: &Value) -> Option<i64> {
    status.get("totalViolations").and_then(Value::as_i64)
}

fn violations(status: &Value) -> Vec<Value> {
    let list = status.get("violations").and_then(Value::as_array);
    list.map(|list| list.to_vec()).unwrap_or_default()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn found(cluster: &Cluster, name: &str, count: i64) -> Value {
    eventually(&format!("{name} has {count} violations"), || {
        total(&read(cluster, name)) == Some(count)
    });
    read(cluster, name)
}

/// The audits that begin from now on.
fn another_audit(cluster: &Cluster, name: &str) {
    let before = text(&read(cluster, name), "auditTimestamp").to_owned();
    eventually("there is another audit", || {
        text(&read(cluster, name), "auditTimestamp") > before.as_str()
    });
}

fn config_maps(names: impl Iterator<Item = String>, labels: &str) -> String {
    let mut text = String::new();
    for name in names {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: many, \
             labels: {{{labels}}}}}\n"
        );
    }
    text
}

/// How often the API server was asked for a list of a resource.
fn lists(cluster: &Cluster, resource: &str) -> u64 {
    let metrics = succeeds(cluster, "get --raw /metrics", "");
    let wanted = format!(r#"resource="{resource}""#);
    metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
        .filter(|line| line.contains(&wanted) && line.contains(r#"verb="LIST""#))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum()
}

#[test]
fn audits() {
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "apply --server-side -f -", &modgate_e2e::our_definitions());
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    succeeds(cluster, "create namespace gatekeeper-system", "");
    succeeds(cluster, "create namespace many", "");
    succeeds(cluster, "label namespace --all gatekeeper=1 s=1", "");
    let violating = "apiVersion: v1\nkind: Namespace\nmetadata: {name: foo, labels: {a: b}}\n";
    succeeds(cluster, "create -f -", violating);
    succeeds(cluster, "apply -f -", TEMPLATE);

    let server = auditing(cluster, |_| {});
    eventually("the kind of the constraints is served", || {
        modgate_e2e::kubectl(cluster, &format!("get {KIND}"), "").success
    });
    scenario_15(cluster);
    scenario_21(cluster, &server);
    scenarios_78_to_81(cluster);
    scenario_51(cluster);
    scenario_70(cluster);
    silent::an_api_that_does_not_answer(cluster);
    server.stop();
    reports::policy_reports_and_file(cluster);
    scenario_82(cluster);
    scenario_83(cluster);
    succeeds(cluster, "delete config config -n gatekeeper-system", "");
    passes::what_a_pass_asks(cluster);
    passes::what_is_interrupted_goes_on(cluster);
}

/// Scenario 15: what violates is listed in the status of the constraint.
fn scenario_15(cluster: &Cluster) {
    succeeds(cluster, "apply -f -", &constraint("ns-must-have-gk", "Namespace", "gatekeeper", ""));
    let status = found(cluster, "ns-must-have-gk", 1);
    let expected = r#"[{"enforcementAction":"deny","group":"","kind":"Namespace","message":"you must provide labels: {\"gatekeeper\"}","name":"foo","version":"v1"}]"#;
    assert_eq!(Value::from(violations(&status)).to_json(), expected);
}

/// Scenario 21: constraints that are scoped to audits.
fn scenario_21(cluster: &Cluster, server: &Running) {
    let scoped = |entries: &str| {
        format!("  enforcementAction: scoped\n  scopedEnforcementActions:\n{entries}")
    };
    let c = scoped(
        "  - {action: warn, enforcementPoints: [{name: validation.gatekeeper.sh}]}\n  \
         - {action: deny, enforcementPoints: [{name: '*'}]}\n",
    );
    let d = scoped("  - {action: deny, enforcementPoints: [{name: audit.gatekeeper.sh}]}\n");
    let e = scoped("  - {action: deny, enforcementPoints: [{name: validation.gatekeeper.sh}]}\n");
    succeeds(cluster, "apply -f -", &constraint("c-scoped", "Namespace", "s", &c));
    succeeds(cluster, "apply -f -", &constraint("d-scoped-audit", "Namespace", "s", &d));
    succeeds(cluster, "apply -f -", &constraint("e-scoped-elsewhere", "Namespace", "s", &e));
    found(cluster, "c-scoped", 1);
    let status = found(cluster, "d-scoped-audit", 1);
    let violation = &violations(&status)[0];
    assert_eq!(text(violation, "enforcementAction"), "scoped");
    let actions = violation.get("enforcementActions").map(Value::to_json);
    assert_eq!(actions.as_deref(), Some(r#"["deny"]"#));
    assert_eq!(violations(&found(cluster, "e-scoped-elsewhere", 0)), []);
    eventually("the metric counts both", || {
        server.metric("gatekeeper_violations", r#"enforcement_action="scoped""#) == 2
    });
    let cluster_scoped = r#"object_namespace="(cluster-scoped)""#;
    eventually("the violations are counted by namespace", || {
        server.metric("modgate_violations", cluster_scoped) == 3
    });
    assert_eq!(server.plain_metric("modgate_leader"), 1);
    succeeds(cluster, &format!("delete {KIND} c-scoped d-scoped-audit e-scoped-elsewhere"), "");
}

/// Scenario 78: thirty violations, twenty of them listed, the last of those first. Scenario 79: long
/// messages are cut. Scenario 80: violations disappear. Scenario 81: others write, too.
fn scenarios_78_to_81(cluster: &Cluster) {
    let names = || (1..=30).map(|number| format!("n{number:02}"));
    succeeds(cluster, "create -f -", &config_maps(names(), "a: b"));
    let only = "  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], namespaces: [many], \
                name: 'n*'}\n";
    let many = constraint("many", "ConfigMap", "owner", "");
    let many =
        many.replacen("  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}\n", only, 1);
    succeeds(cluster, "apply -f -", &many);
    let status = found(cluster, "many", 30);
    let listed: Vec<String> =
        violations(&status).iter().map(|violation| text(violation, "name").to_owned()).collect();
    let expected: Vec<String> = (1..=20).rev().map(|number| format!("n{number:02}")).collect();
    assert_eq!(listed, expected, "scenario 78");

    let long = many.replacen("{name: many}", "{name: long}", 1);
    let long = long.replacen("[owner]", &format!("[{}]", "x".repeat(300)), 1);
    succeeds(cluster, "apply -f -", &long);
    let status = found(cluster, "long", 30);
    let message = text(&violations(&status)[0], "message").to_owned();
    assert_eq!((message.len(), message.ends_with("...")), (256, true), "scenario 79: {message}");
    succeeds(cluster, &format!("delete {KIND} long"), "");

    // Whole statuses, and parts of them, with and without a resource version.
    for round in 0..10 {
        let by =
            format!(r#"{{"status":{{"byPod":[{{"id":"other","observedGeneration":{round}}}]}}}}"#);
        let patch = ["patch", KIND, "many", "--subresource=status", "--type=merge", "-p", &by];
        assert!(cluster.run(patch, "").expect("kubectl").success);
        let whole = succeeds(cluster, &format!("get {KIND} many -o json"), "");
        // Refused if somebody has written meanwhile, as it is to be.
        let _ = modgate_e2e::kubectl(cluster, "replace --subresource=status -f -", &whole);
        let status = status_of(&whole);
        assert_eq!((total(&status), violations(&status).len()), (Some(30), 20), "scenario 81");
    }
    another_audit(cluster, "many");
    let status = read(cluster, "many");
    assert_eq!((total(&status), violations(&status).len()), (Some(30), 20), "scenario 81");
    assert!(status.get("byPod").is_some(), "what others wrote stays");

    let before = text(&status, "auditTimestamp").to_owned();
    succeeds(cluster, "label configmap -n many --all owner=me", "");
    let status = found(cluster, "many", 0);
    assert_eq!(status.get("violations"), None, "scenario 80");
    assert!(text(&status, "auditTimestamp") > before.as_str(), "scenario 80");
    succeeds(cluster, "label configmap -n many n07 owner-", "");
    found(cluster, "many", 1);
    succeeds(cluster, "delete configmap -n many n07", "");
    found(cluster, "many", 0);
}

/// Scenario 51: the operations of a template are about requests, and nothing else (Q-7).
fn scenario_51(cluster: &Cluster) {
    let template = TEMPLATE.replace("foosystemrequiredlabels", "ofcreations");
    let template = template.replace("FooSystemRequiredLabels", "OfCreations").replacen(
        "  - target: admission.k8s.gatekeeper.sh\n",
        "  - target: admission.k8s.gatekeeper.sh\n    operations: [CREATE]\n",
        1,
    );
    succeeds(cluster, "apply -f -", &template);
    let policy = constraint("of-creations", "Namespace", "gatekeeper", "");
    let policy = policy.replacen("FooSystemRequiredLabels", "OfCreations", 1);
    eventually("it is taken", || modgate_e2e::kubectl(cluster, "apply -f -", &policy).success);
    let get = "get ofcreations.constraints.gatekeeper.sh of-creations -o json";
    eventually("what violates is found", || {
        total(&status_of(&succeeds(cluster, get, ""))) == Some(1)
    });
    succeeds(cluster, "delete constrainttemplate ofcreations", "");
}

/// Scenario 70: audits pass over namespaces that the Config excludes from them.
fn scenario_70(cluster: &Cluster) {
    for namespace in ["shop", "shop-2"] {
        succeeds(cluster, &format!("create namespace {namespace}"), "");
        succeeds(cluster, &format!("label namespace {namespace} gatekeeper=1"), "");
        succeeds(cluster, &format!("create configmap of-shop -n {namespace}"), "");
    }
    let policy = constraint("of-shops", "ConfigMap", "owner", "");
    let policy = policy.replacen("kinds: [ConfigMap]}]", "kinds: [ConfigMap]}], name: of-shop", 1);
    succeeds(cluster, "apply -f -", &policy);
    found(cluster, "of-shops", 2);
    let config = "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
                  metadata: {name: config, namespace: gatekeeper-system}\n\
                  spec: {match: [{processes: [audit], excludedNamespaces: [shop]}]}\n";
    succeeds(cluster, "apply -f -", config);
    let status = found(cluster, "of-shops", 1);
    assert_eq!(text(&violations(&status)[0], "namespace"), "shop-2");
    // The webhook is not concerned.
    let webhook = config.replacen("[audit]", "[webhook]", 1);
    succeeds(cluster, "apply -f -", &webhook);
    found(cluster, "of-shops", 2);
    succeeds(cluster, "delete config config -n gatekeeper-system", "");
    succeeds(cluster, &format!("delete {KIND} of-shops"), "");
}

fn status_of(object: &str) -> Value {
    let object = Value::from_json(object.as_bytes()).expect("JSON");
    object.get("status").cloned().unwrap_or_default()
}

/// Scenario 82: only the kinds that constraints name are listed.
fn scenario_82(cluster: &Cluster) {
    succeeds(cluster, &format!("delete {KIND} --all"), "");
    succeeds(cluster, "apply -f -", &constraint("of-pods", "Pod", "owner", ""));
    let before = [lists(cluster, "podtemplates"), lists(cluster, "pods")];
    let server = auditing(cluster, |config| config.audit.match_kind_only = true);
    found(cluster, "of-pods", 0);
    let after = [lists(cluster, "podtemplates"), lists(cluster, "pods")];
    assert_eq!(after[0], before[0], "nothing but Pods is listed");
    assert!(after[1] > before[1], "Pods are listed");
    server.stop();
    // The same metric sees what is listed when a constraint is about everything.
    let everything = constraint("of-pods", "'*'", "owner", "");
    succeeds(cluster, "apply -f -", &everything);
    let server = auditing(cluster, |config| config.audit.match_kind_only = true);
    eventually("other kinds are listed", || lists(cluster, "podtemplates") > before[0]);
    server.stop();
}

/// Scenario 83: nothing is synced, so nothing is found.
fn scenario_83(cluster: &Cluster) {
    succeeds(cluster, "apply -f -", &constraint("ns-must-have-gk", "Namespace", "gatekeeper", ""));
    let server = auditing(cluster, |config| config.audit.from_cache = true);
    let status = found(cluster, "ns-must-have-gk", 0);
    assert_eq!(violations(&status), []);
    let sync = "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
                metadata: {name: config, namespace: gatekeeper-system}\n\
                spec: {sync: {syncOnly: [{group: '', version: v1, kind: Namespace}]}}\n";
    succeeds(cluster, "apply -f -", sync);
    // What is synced is audited.
    found(cluster, "ns-must-have-gk", 1);
    server.stop();
}
