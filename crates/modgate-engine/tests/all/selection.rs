//! Which rules concern a request, and in what order (spec `kubemod.md`, section 5).

use modgate_engine::{Change, OnError, Review, api::meta::Operation};
use modgate_value::Value;

use crate::support::{Cluster, appends, create, modrules, mutate, rule, snapshot, value};

const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: my-namespace}, spec: {}}";

fn order(rules: Vec<Value>, object: &str) -> String {
    let decision = create(rules, object);
    let order = decision.object.pointer("/spec/order").and_then(Value::as_array).cloned();
    let names: Vec<String> =
        order.iter().flat_map(|names| names.iter()).map(ToString::to_string).collect();
    names.join(" ").replace('"', "")
}

/// Every order of a few elements.
fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = items.split_first() else { return vec![Vec::new()] };
    permutations(rest)
        .into_iter()
        .flat_map(|tail| {
            (0..=tail.len()).map(move |at| {
                let mut all = tail.clone();
                all.insert(at, first.clone());
                all
            })
        })
        .collect()
}

#[test]
fn tier_then_cluster_rules_then_name_whatever_the_load_order() {
    let everywhere = ", targetNamespaceRegex: '.*'";
    // `default` sorts before `kubemod-system`, yet its rules come after.
    let rules = [
        appends("default/a", ""),
        appends("default/c", ", executionTier: -1"),
        appends("kubemod-system/b", everywhere),
        appends("kubemod-system/z", everywhere),
        appends("modgate-system/q", everywhere),
    ];
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default}, spec: {}}";
    for rules in permutations(&rules) {
        assert_eq!(
            order(rules, pod),
            "default/c kubemod-system/b modgate-system/q kubemod-system/z default/a"
        );
    }
}

#[test]
fn scope() {
    let cluster_role = "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: c}, spec: {}}";
    let namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: foo}, spec: {}}";
    let system =
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: kubemod-system}, spec: {}}";
    // Columns: a pod in my-namespace, cluster-scoped, a Namespace, a pod in kubemod-system.
    for (home, regex, expected) in [
        ("my-namespace", "", [1, 0, 0, 0]),
        ("my-namespace", ".*", [1, 0, 0, 0]),
        ("other", ".*", [0, 0, 0, 0]),
        ("kubemod-system", "", [0, 1, 1, 1]),
        ("kubemod-system", ".*", [1, 1, 1, 1]),
        ("kubemod-system", ".+", [1, 0, 0, 1]),
        ("kubemod-system", "name", [1, 0, 0, 1]),
        ("kubemod-system", "zz*|^$", [0, 1, 1, 1]),
        ("modgate-system", "name", [1, 0, 0, 0]),
    ] {
        let name = format!("{home}/r");
        let rules = || vec![appends(&name, &format!(", targetNamespaceRegex: '{regex}'"))];
        let counts = [POD, cluster_role, namespace, system]
            .map(|object| order(rules(), object).split_whitespace().count());
        assert_eq!(counts, expected, "{home} {regex}");
    }
}

#[test]
fn operations() {
    let reject = |operations: &str| {
        vec![rule(
            "my-namespace/r",
            &format!("type: Reject, match: [{{select: $.kind}}]{operations}"),
        )]
    };
    for (operations, operation, allowed) in [
        ("", Operation::Create, false),
        ("", Operation::Update, false),
        ("", Operation::Delete, true),
        ("", Operation::Connect, true),
        (", admissionOperations: []", Operation::Create, false),
        (", admissionOperations: [DELETE]", Operation::Create, true),
        (", admissionOperations: [DELETE]", Operation::Delete, false),
    ] {
        let decision = mutate(reject(operations), operation, POD);
        assert_eq!(decision.allowed, allowed, "{operations} {operation}");
    }
}

#[test]
fn a_patch_on_delete_is_dropped() {
    let decision = mutate(
        vec![
            appends("my-namespace/p", ", admissionOperations: [DELETE]"),
            rule(
                "my-namespace/r",
                "type: Reject, admissionOperations: [DELETE], match: [{select: '$.spec.keep'}]",
            ),
        ],
        Operation::Delete,
        POD,
    );
    assert!(decision.allowed && decision.patch.is_empty());
    assert_eq!(decision.reason, "non-patched ok");
    assert!(decision.warnings.iter().any(|warning| warning.ends_with("(Q-34)")));
    assert_eq!(decision.object, value(POD));
}

#[test]
fn criteria_of_a_tier_are_decided_at_its_start() {
    let on_first = "type: Patch, match: [{select: '$.spec.order[*]', matchValue: my-namespace/a}], \
                    patch: [{op: add, path: /spec/late, value: '1'}]";
    let same = vec![appends("my-namespace/a", ""), rule("my-namespace/b", on_first)];
    assert_eq!(create(same, POD).object.pointer("/spec/late"), None);
    let next = vec![
        appends("my-namespace/a", ""),
        rule("my-namespace/b", &format!("executionTier: 1, {on_first}")),
    ];
    assert_eq!(create(next, POD).object.pointer("/spec/late"), Some(&Value::from(1)));
}

#[test]
fn a_rule_that_changes_the_kind_changes_who_comes_next() {
    let rules = vec![
        rule(
            "my-namespace/a",
            "type: Patch, match: [{select: $.kind, matchValue: Pod}], \
             patch: [{op: replace, path: /kind, value: Job}]",
        ),
        rule(
            "my-namespace/b",
            "executionTier: 1, type: Patch, match: [{select: $.kind, matchValue: Job}], \
             patch: [{op: add, path: /spec/job, value: 'true'}]",
        ),
        rule("my-namespace/c", "type: Reject, match: [{select: $.kind, matchValue: Pod}]"),
    ];
    let decision = create(rules, POD);
    assert!(decision.allowed, "{}", decision.reason);
    assert_eq!(decision.object.pointer("/spec/job"), Some(&Value::from(true)));
}

#[test]
fn a_bad_version_unloads_or_stays() {
    let good = rule("my-namespace/r", "type: Reject, match: [{select: $.kind}]");
    let bad = rule("my-namespace/r", "type: Reject, match: [{select: '$.kind['}]");
    let review = Review::of_object(value(POD), Operation::Create, "default");
    for (on_error, allowed) in [(OnError::Unload, true), (OnError::Keep, false)] {
        let loaded = snapshot(vec![good.clone()]);
        let source = modgate_engine::PolicySource::of_object(bad.clone());
        let update = loaded.apply(vec![Change::Upsert(source)], on_error);
        assert!(update.has_errors());
        let decision = modrules(&update.snapshot, &review, &Cluster::default());
        assert_eq!(decision.allowed, allowed, "{on_error:?}");
    }
}
