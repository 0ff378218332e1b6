//! Tests of [`Ingest`] on lists and events as watches deliver them.

use modgate_engine::{Host as _, api::modrule};

use super::*;
use crate::object::Stored;
use modgate_telemetry::capture;

fn kind(group: &str, kind: &str) -> Kind {
    Kind { group: group.to_owned(), kind: kind.to_owned() }
}

fn rules() -> Kind {
    kind(modrule::GROUP, modrule::KIND)
}

fn stored(json: &str) -> Item {
    serde_json::from_str::<Stored>(json).expect("object").into()
}

fn rule(name: &str, select: &str, more: &str) -> Item {
    stored(&format!(
        r#"{{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
        "metadata": {{"name": "{name}", "namespace": "n"{more}}},
        "spec": {{"type": "Reject", "match": [{{"select": "{select}"}}]}}}}"#
    ))
}

fn listed(items: Vec<Item>) -> Seen {
    Seen::All(items, Arc::new(Fields::all()))
}

struct Fixture(Ingest);

impl Fixture {
    fn new() -> Self {
        let objects = Objects::default();
        Self(Ingest::new(EngineConfig::default(), "gatekeeper-system".into(), objects))
    }

    /// The findings, and the policies in force afterwards.
    fn take(&mut self, kind: &Kind, seen: Seen) -> Option<(Vec<String>, Vec<String>)> {
        let unread = self.0.take(&Target::Kind(kind.clone()), seen);
        let found = self.0.apply()?;
        let texts = unread.iter().chain(&found).map(|found| found.to_string());
        let policies = self.0.current().snapshot.policies().map(|id| id.to_string());
        Some((texts.collect(), policies.collect()))
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn policies_come_change_and_go() {
    let mut fixture = Fixture::new();
    let all = listed(vec![rule("a", "$.kind", ""), rule("b", "$.kind", "")]);
    let both = texts(&["ModRule n/a", "ModRule n/b"]);
    assert_eq!(fixture.take(&rules(), all), Some((vec![], both.clone())));

    let same = rule("b", "$.kind", r#", "resourceVersion": "9", "managedFields": []"#);
    assert_eq!(fixture.take(&rules(), Seen::Applied(same)), None, "nothing new");

    let gone = Seen::Deleted(rule("a", "$.kind", ""));
    assert_eq!(fixture.take(&rules(), gone), Some((vec![], texts(&["ModRule n/b"]))));

    let again = listed(vec![rule("c", "$.kind", "")]);
    assert_eq!(fixture.take(&rules(), again), Some((vec![], texts(&["ModRule n/c"]))));

    fixture.0.forget(&rules());
    assert_eq!(fixture.0.apply().map(|found| found.len()), Some(0));
    assert_eq!(fixture.0.current().snapshot.policies().count(), 0);
}

#[test]
fn a_bad_policy_stops_nothing_and_is_not_in_force() {
    let mut fixture = Fixture::new();
    let all = listed(vec![rule("a", "$.kind", ""), rule("b", "$.kind", "")]);
    fixture.take(&rules(), all).expect("loaded");
    let all = listed(vec![rule("a", "$.kind[", ""), rule("c", "$.kind", "")]);
    let (found, policies) = fixture.take(&rules(), all).expect("loaded");
    assert_eq!(policies, ["ModRule n/c"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("ModRule n/a"), "{found:?}");
    assert_eq!(fixture.0.broken().len(), 1);

    let fixed = Seen::Applied(rule("a", "$.kind", ""));
    let good = texts(&["ModRule n/a", "ModRule n/c"]);
    assert_eq!(fixture.take(&rules(), fixed), Some((vec![], good)));
    assert_eq!(fixture.0.broken().len(), 0);
}

#[test]
fn a_policy_that_cannot_be_read() {
    let mut fixture = Fixture::new();
    fixture.take(&rules(), listed(vec![rule("a", "$.kind", "")])).expect("loaded");
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let bad =
        stored(&format!(r#"{{"metadata": {{"name": "a", "namespace": "n"}}, "spec": {deep}}}"#));
    let (found, policies) = fixture.take(&rules(), Seen::Applied(bad)).expect("changed");
    assert_eq!(policies, [""; 0]);
    assert!(found[0].starts_with("ModRule n/a: cannot be read: "), "{found:?}");
    assert_eq!(fixture.0.broken().len(), 1);
}

#[test]
fn leaving_policies_of_gatekeeper_have_left() {
    let assign = |more: &str| {
        stored(&format!(
            r#"{{"apiVersion": "mutations.gatekeeper.sh/v1", "kind": "Assign",
            "metadata": {{"name": "a"{more}}}, "spec": {{"location": "spec.a",
            "applyTo": [{{"groups": [""], "versions": ["v1"], "kinds": ["Pod"]}}],
            "parameters": {{"assign": {{"value": 1}}}}}}}}"#
        ))
    };
    let assigns = kind("mutations.gatekeeper.sh", "Assign");
    let leaving = r#", "deletionTimestamp": "2026-01-01T00:00:00Z""#;
    let mut fixture = Fixture::new();
    let loaded = fixture.take(&assigns, Seen::Applied(assign("")));
    assert_eq!(loaded, Some((vec![], texts(&["Assign a"]))));
    let left = fixture.take(&assigns, Seen::Applied(assign(leaving)));
    assert_eq!(left, Some((vec![], vec![])));

    let loaded = fixture.take(&rules(), Seen::Applied(rule("a", "$.kind", leaving)));
    assert_eq!(loaded, Some((vec![], texts(&["ModRule n/a"]))));
}

#[test]
fn configs_of_other_namespaces_and_names() {
    let config = |namespace: &str, name: &str| {
        stored(&format!(
            r#"{{"apiVersion": "config.gatekeeper.sh/v1alpha1", "kind": "Config",
            "metadata": {{"name": "{name}", "namespace": "{namespace}"}}, "spec": {{}}}}"#
        ))
    };
    let configs = kind("config.gatekeeper.sh", "Config");
    let mut fixture = Fixture::new();
    let logged = capture(|| {
        assert_eq!(fixture.take(&configs, Seen::Applied(config("other", "config"))), None);
        let second = config("gatekeeper-system", "second");
        assert_eq!(fixture.take(&configs, Seen::Applied(second)), None);
    });
    let lines: Vec<&str> = logged.lines().collect();
    let [first, second] = lines[..] else { panic!("{logged}") };
    for (line, name) in [(first, r#""namespace":"other","name":"config""#), (second, "second")] {
        assert!(line.contains(r#""msg":"Ignoring unsupported config name""#), "{line}");
        assert!(line.contains(name), "{line}");
    }
    assert!(fixture.0.broken().is_empty());
    let ours = Seen::Applied(config("gatekeeper-system", "config"));
    let logged = capture(|| assert_eq!(fixture.take(&configs, ours), Some((vec![], vec![]))));
    assert_eq!(logged, "");
}

fn node(name: &str, version: &str, label: &str, heartbeat: &str) -> Item {
    stored(&format!(
        r#"{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{name}",
        "resourceVersion": "{version}", "managedFields": [{{"manager": "{version}"}}],
        "labels": {{"zone": "{label}"}}}},
        "status": {{"conditions": [{{"type": "Ready", "lastHeartbeatTime": "{heartbeat}"}}]}}}}"#
    ))
}

/// A change of Nodes is no change of policies, and new counters of the API server are none at all.
#[test]
fn nodes_say_that_they_are_alive() {
    let nodes = kind("", "Node");
    let mut fixture = Fixture::new();
    let mut pending = |seen: Seen| {
        fixture.0.take(&Target::Kind(nodes.clone()), seen);
        let pending = fixture.0.pending();
        fixture.0.apply();
        let zone = fixture.0.current().objects.node("a").ok().and_then(|node| {
            let zone = node.path(&["metadata", "labels", "zone"]).cloned();
            zone.and_then(|zone| zone.as_str().map(str::to_owned))
        });
        (pending, zone.unwrap_or_default())
    };
    let at_first = listed(vec![node("a", "1", "x", "10:00")]);
    assert_eq!(pending(at_first), (Pending::Policies, "x".to_owned()));
    for (seen, expected) in [
        (Seen::Applied(node("a", "2", "x", "10:00")), Pending::Nothing),
        (listed(vec![node("a", "3", "x", "10:00")]), Pending::Nothing),
        // ModRules can read it.
        (Seen::Applied(node("a", "4", "x", "10:05")), Pending::Inventory),
        (listed(vec![node("a", "5", "x", "10:06")]), Pending::Inventory),
        (Seen::Applied(node("b", "6", "x", "10:06")), Pending::Inventory),
        (Seen::Deleted(node("b", "6", "x", "10:06")), Pending::Inventory),
    ] {
        let seen_as = format!("{seen:?}");
        assert_eq!(pending(seen), (expected, "x".to_owned()), "{seen_as}");
    }
    let labelled = Seen::Applied(node("a", "7", "y", "10:06"));
    assert_eq!(pending(labelled), (Pending::Inventory, "y".to_owned()));
}

/// Nodes that are watched again are listed again before policies see them as complete.
#[test]
fn nodes_that_were_forgotten() {
    let nodes = kind("", "Node");
    let mut fixture = Fixture::new();
    fixture.take(&nodes, listed(vec![node("a", "1", "x", "")])).expect("loaded");
    fixture.0.forget(&nodes);
    fixture.0.apply();
    let synced = stored(
        r#"{"apiVersion": "config.gatekeeper.sh/v1alpha1", "kind": "Config",
        "metadata": {"name": "config", "namespace": "gatekeeper-system"},
        "spec": {"sync": {"syncOnly": [{"group": "", "version": "v1", "kind": "Node"}]}}}"#,
    );
    let configs = kind("config.gatekeeper.sh", "Config");
    fixture.take(&configs, Seen::Applied(synced)).expect("loaded");
    assert!(!fixture.0.sync().is_settled(), "they were not listed");
    fixture.take(&nodes, listed(vec![node("a", "1", "x", "")])).expect("loaded");
    assert!(fixture.0.sync().is_settled());
}

#[test]
fn namespaces() {
    let namespace = |name: &str| {
        stored(&format!(
            r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#
        ))
    };
    let namespaces = kind("", "Namespace");
    let mut fixture = Fixture::new();
    let all = listed(vec![namespace("a"), namespace("b")]);
    fixture.take(&namespaces, all).expect("loaded");
    assert_eq!(fixture.take(&namespaces, Seen::Applied(namespace("b"))), None, "nothing new");
    let snapshot = |fixture: &Fixture| fixture.0.current().objects.clone();
    let labelled = |objects: &Objects, name: &str| {
        let namespace = objects.namespace(name).expect(name);
        namespace.path(&["metadata", "labels"]).is_some()
    };
    let first = snapshot(&fixture);
    assert!(!labelled(&first, "a"), "as the cluster has it");
    fixture.take(&namespaces, Seen::Deleted(namespace("a"))).expect("changed");
    let second = snapshot(&fixture);
    assert!(labelled(&second, "a"), "made up, as it is not there");
    assert!(!labelled(&second, "b"));
    assert!(!labelled(&first, "a"), "a policy set does not change");
}

#[test]
fn types_of_custom_resources_are_followed_for_policies_that_need_them() {
    let mut fixture = Fixture::new();
    let item = |kind: &str, spec: &str| {
        stored(&format!(
            r#"{{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "{kind}",
            "metadata": {{"name": "p"}}, "spec": {spec}}}"#
        ))
    };
    let policy = |patch: &str| {
        item(
            "MutatingAdmissionPolicy",
            &format!(
                r#"{{"reinvocationPolicy": "Never", "matchConstraints": {{"resourceRules": [{{
                "apiGroups": ["apps", "widgets.test"], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["*"]}}]}}, "mutations": [{patch}]}}"#
            ),
        )
    };
    let configures = r#"{"patchType": "ApplyConfiguration",
        "applyConfiguration": {"expression": "Object{}"}}"#;
    let patches = r#"{"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}}"#;
    let of = |name: &str| kind(registration::GROUP, name);
    let groups = |fixture: &Fixture| fixture.0.objects().watched_types().groups().clone();
    fixture.take(&of("MutatingAdmissionPolicy"), listed(vec![policy(configures)]));
    assert!(groups(&fixture).is_empty(), "it is not bound");
    let bindings = of("MutatingAdmissionPolicyBinding");
    let binding = item("MutatingAdmissionPolicyBinding", r#"{"policyName": "p.modgate.sh"}"#);
    fixture.take(&bindings, listed(vec![binding]));
    assert_eq!(*groups(&fixture), ["widgets.test".into()].into(), "those of Kubernetes are known");
    let target = Target::Types(groups(&fixture));
    let definition = stored(
        r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.widgets.test"}, "spec": {"group": "widgets.test",
        "names": {"kind": "Widget"}, "versions": [{"name": "v1", "schema": {"openAPIV3Schema":
        {"type": "object"}}}]}}"#,
    );
    let gone = definition.clone();
    fixture.0.take(&target, listed(vec![definition]));
    assert_eq!(fixture.0.pending(), Pending::Inventory);
    fixture.0.apply();
    let knows =
        |fixture: &Fixture| fixture.0.current().objects.types().has("widgets.test/v1", "Widget");
    assert!(knows(&fixture));
    fixture.0.take(&target, Seen::Deleted(gone));
    fixture.0.apply();
    assert!(!knows(&fixture));
    fixture.take(&of("MutatingAdmissionPolicy"), Seen::Applied(policy(patches)));
    assert!(groups(&fixture).is_empty(), "a JSON patch needs no types");
}
