//! Synthetic references: what rules see of Namespaces and Nodes, and what happens without them (Q-36,
//! KM-6.1).

use modgate_engine::{
    Decision, EngineConfig, FailureKind, MissingReference, NodeReferences, NodeView, Review,
    Stages, api::meta::Operation,
};
use modgate_value::Value;

use crate::support::{Cluster, decide as run, modrules, rule, snapshot_with, value};

const POD: &str = "{apiVersion: v1, kind: Pod, \
    metadata: {name: p, namespace: ns, annotations: {ref.kubemod.io/nodename: n1}}, \
    spec: {privileged: true}}";

const NODE: &str = "{apiVersion: v1, kind: Node, \
    metadata: {name: n1, uid: u, labels: {zone: a}, annotations: {secret: x}}, \
    spec: {providerID: p}, status: {capacity: {cpu: 4}, nodeInfo: {kernelVersion: k}}}";

/// How much the cluster answers.
#[derive(Debug, Clone, Copy)]
enum State {
    Found,
    NoNode,
    NoNamespace,
    UnreadNode,
    UnreadNamespace,
}

fn cluster(state: State) -> Cluster {
    let nodes = vec![value(NODE)];
    match state {
        State::Found => Cluster { nodes, ..Cluster::default() },
        State::NoNode => Cluster::default(),
        State::NoNamespace => Cluster { nodes, missing_namespaces: true, ..Cluster::default() },
        State::UnreadNode => Cluster { unread_nodes: true, ..Cluster::default() },
        State::UnreadNamespace => Cluster { nodes, no_namespaces: true, ..Cluster::default() },
    }
}

fn decide(mode: MissingReference, state: State, rules: &[Value]) -> Decision {
    let config = EngineConfig { missing_reference: mode, ..EngineConfig::default() };
    let review = Review::of_object(value(POD), Operation::Create, "default");
    modrules(&snapshot_with(config, rules.to_vec()), &review, &cluster(state))
}

fn reject(name: &str, select: &str) -> Value {
    rule(name, &format!("type: Reject, match: [{{select: $.kind}}, {{select: '{select}'}}]"))
}

#[test]
fn every_state_in_every_mode() {
    use MissingReference::{Allow, Deny, Empty};
    use State::{Found, NoNamespace, NoNode, UnreadNamespace, UnreadNode};
    // Which of the rules deny: one that looks at neither reference, one at the Namespace, one at the
    // Node, one at the Node whose other criterion rules the object out.
    let rules = [
        reject("ns/plain", "$.spec.privileged"),
        reject("ns/space", "$.syntheticRefs.namespace.metadata.name"),
        reject("ns/node", "$.syntheticRefs.node.metadata.name"),
        rule(
            "ns/other",
            "type: Reject, match: [{select: $.syntheticRefs.node}, {select: $.spec.nope}]",
        ),
    ];
    for (mode, state, denying) in [
        (Empty, Found, "plain space node"),
        (Empty, NoNode, "plain space"),
        (Empty, NoNamespace, "plain node"),
        (Empty, UnreadNode, "plain space node"),
        (Empty, UnreadNamespace, "plain space node"),
        (Allow, Found, "plain space node"),
        (Allow, NoNode, ""),
        (Allow, NoNamespace, ""),
        (Allow, UnreadNode, ""),
        (Allow, UnreadNamespace, ""),
        (Deny, Found, "plain space node"),
        (Deny, NoNode, "all"),
        (Deny, NoNamespace, "all"),
        (Deny, UnreadNode, "all"),
        (Deny, UnreadNamespace, "all"),
    ] {
        let names = ["plain", "space", "node", "other"];
        let denials = rules.iter().zip(names).filter_map(|(rule, name)| {
            let decision = decide(mode, state, std::slice::from_ref(rule));
            (!decision.allowed).then_some(name)
        });
        let denials = denials.collect::<Vec<_>>().join(" ");
        let denying = if denying == "all" { "plain space node other" } else { denying };
        assert_eq!(denials, denying, "{mode:?} {state:?}");
        let decision = decide(mode, state, &rules);
        assert_eq!(decision.failures.is_empty(), matches!(state, Found), "{mode:?} {state:?}");
    }
}

#[test]
fn what_does_not_exist_is_empty_and_warned_about() {
    let rules = [rule(
        "ns/copy",
        "type: Patch, match: [{select: $.kind}], patch: [{op: add, path: /spec/node, \
         value: '{{ toJson .Target.syntheticRefs.node }}'}]",
    )];
    let decision = decide(MissingReference::Empty, State::NoNode, &rules);
    assert_eq!(decision.object.pointer("/spec/node"), Some(&value("{}")));
    assert!(
        decision.warnings.iter().any(|warning| warning.contains("names Node `n1`, which does not")),
        "{:?}",
        decision.warnings
    );
}

#[test]
fn what_cannot_be_read_drops_the_patches_that_look_at_it() {
    let patch = |name: &str, value: &str| {
        rule(
            name,
            &format!(
                "type: Patch, match: [{{select: $.kind}}], \
                 patch: [{{op: add, path: /spec/{}, value: '{value}'}}]",
                name.trim_start_matches("ns/")
            ),
        )
    };
    let rules = [
        patch("ns/plain", "1"),
        patch("ns/node", "{{ .Target.syntheticRefs.node.metadata.name }}"),
        patch("ns/everything", "{{ len (toJson .Target) }}"),
        reject("ns/named", "$.spec.nope"),
    ];
    let decision = decide(MissingReference::Empty, State::UnreadNode, &rules);
    assert!(decision.allowed, "{}", decision.reason);
    let spec = decision.object.get("spec").expect("spec").to_json();
    assert_eq!(spec, r#"{"plain":1,"privileged":true}"#);
    let dropped: Vec<&str> = decision
        .failures
        .iter()
        .filter(|failure| failure.kind == FailureKind::References && !failure.rule.is_empty())
        .map(|failure| failure.rule.as_str())
        .collect();
    assert_eq!(dropped, ["ns/everything", "ns/node"]);
    let undecided =
        decide(MissingReference::Empty, State::UnreadNode, &[reject("ns/r", "$.syntheticRefs.*")]);
    assert_eq!(
        undecided.reason,
        "operation rejected by the following ModRule(s): ns/r: \"the rule could not be decided: \
         failed to read node `n1`: nodes cannot be read\""
    );
}

/// KubeMod's user names anything at all in the annotation.
#[test]
fn no_name_of_a_node_switches_rules_off() {
    let rules = [reject("ns/r", "$.spec.privileged")];
    for name in ["", "nope", "../x", "a b", "\u{0}", &"n".repeat(100_000)] {
        let mut object = value(POD).as_object().expect("object").clone();
        let annotations: Value =
            [("ref.kubemod.io/nodename", Value::from(name))].into_iter().collect();
        let metadata =
            [("name", Value::from("p")), ("namespace", "ns".into()), ("annotations", annotations)];
        object.insert("metadata", metadata.into_iter().collect());
        let review = Review::of_object(object.into(), Operation::Create, "default");
        let snapshot = snapshot_with(EngineConfig::default(), rules.to_vec());
        for decision in [
            modrules(&snapshot, &review, &Cluster::default()),
            run(&snapshot, &review, Stages::REJECTIONS),
        ] {
            assert!(!decision.allowed, "{name:.20}");
            let longest = decision.warnings.iter().map(String::len).max();
            assert!(longest.is_none_or(|longest| longest < 1000));
        }
    }
}

#[test]
fn without_a_kind_rules_run_and_without_an_object_nothing_passes() {
    let rules = [
        reject("ns/r", "$.spec.privileged"),
        rule("ns/a", "type: Reject, match: [{select: '!isDefined($.kind)'}]"),
    ];
    let snapshot = snapshot_with(EngineConfig::default(), rules.to_vec());
    let review = |operation: &str, object: &str| {
        let text = format!(
            r#"{{"uid": "u", "operation": "{operation}", "namespace": "ns", "object": {object}}}"#
        );
        Review::from_request(&Value::from_json(text.as_bytes()).expect("json")).expect("a request")
    };
    for (operation, object, allowed) in [
        ("CREATE", r#"{"spec": {"privileged": true}}"#, false),
        ("CREATE", r#""text""#, false),
        // KM-5.5
        ("CREATE", "null", false),
        ("UPDATE", "null", false),
        ("DELETE", "null", false),
    ] {
        let decision = modrules(&snapshot, &review(operation, object), &Cluster::default());
        assert_eq!(decision.allowed, allowed, "{object}: {}", decision.reason);
    }
}

/// A rule's view of the Node goes by where the rule lives, and later rules are not affected.
#[test]
fn rules_of_one_namespace_see_a_summary_of_the_node() {
    let copy = |name: &str, into: &str| {
        rule(
            name,
            &format!(
                "type: Patch, targetNamespaceRegex: '.*', match: [{{select: $.kind}}], patch: \
                 [{{op: add, path: /spec/{into}, value: '{{{{ toJson .Target.syntheticRefs.node }}}}'}}]"
            ),
        )
    };
    let rules =
        || vec![copy("ns/own", "own"), copy("modgate-system/all", "all"), copy("ns/z", "z")];
    let whole = value(NODE);
    let summary = value(
        "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {zone: a}}, \
         status: {capacity: {cpu: 4}}}",
    );
    let (full, part) = (NodeView::Full, NodeView::Summary);
    for (namespaced, cluster_wide, own, all) in [
        (part, full, &summary, &whole),
        (full, full, &whole, &whole),
        (part, part, &summary, &summary),
    ] {
        let node_references = NodeReferences { namespaced, cluster: cluster_wide };
        let config = EngineConfig { node_references, ..EngineConfig::default() };
        let review = Review::of_object(value(POD), Operation::Create, "default");
        let decision = modrules(&snapshot_with(config, rules()), &review, &cluster(State::Found));
        assert_eq!(decision.object.pointer("/spec/own"), Some(own));
        assert_eq!(decision.object.pointer("/spec/all"), Some(all));
        assert_eq!(decision.object.pointer("/spec/z"), Some(own));
    }
    // Neither criteria nor messages see more.
    let leaks =
        rule("ns/r", "type: Reject, match: [{select: '$.syntheticRefs.node.spec.providerID'}]");
    let says = rule(
        "ns/s",
        "type: Reject, match: [{select: $.kind}], rejectMessage: '{{ .Target.syntheticRefs }}'",
    );
    assert!(decide(MissingReference::Empty, State::Found, &[leaks]).allowed);
    let said = decide(MissingReference::Empty, State::Found, &[says]);
    assert!(
        said.reason.contains("zone:a") && !said.reason.contains("providerID"),
        "{}",
        said.reason
    );
}
