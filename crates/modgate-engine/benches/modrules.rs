//! One review against N ModRules, the fixture of KubeMod's own measurement: a 3.5 KB Deployment of
//! four containers; rules of four criteria (one a filter) and two operations, one rule in five
//! matching.
#![expect(clippy::expect_used, reason = "a bench may panic")]

use std::time::Duration;

use modgate_engine::{
    Change, Decision, EngineConfig, Evaluation, Host, HostError, Lookup, NoopObserver, OnError,
    PolicySource, Review, Snapshot, Stages,
    api::meta::Operation,
    constraint::{Arena, Inventory},
};
use modgate_value::{Clock, Value};

fn main() {
    divan::main();
}

/// The decision for one review.
#[divan::bench(args = [10, 100, 1000])]
fn mutate(bencher: divan::Bencher<'_, '_>, rules: usize) {
    let snapshot = snapshot(matching_rules(rules), Lookup::Index);
    let review = review();
    bencher.bench(|| decide(&snapshot, &review));
}

/// The oracle, which looks at every rule.
#[divan::bench(args = [10, 100, 1000])]
fn mutate_scanning(bencher: divan::Bencher<'_, '_>, rules: usize) {
    let snapshot = snapshot(matching_rules(rules), Lookup::Scan);
    let review = review();
    bencher.bench(|| decide(&snapshot, &review));
}

/// Rules for one kind that share 50 selects, ten of which match.
#[divan::bench(args = [1000, 10_000])]
fn sharing_selects(bencher: divan::Bencher<'_, '_>, rules: usize) {
    let snapshot = snapshot(rules_sharing_selects(rules), Lookup::Index);
    let review = review();
    let patch = decide(&snapshot, &review).patch;
    assert_eq!(patch.len(), 10, "one annotation for each rule that matches");
    bencher.bench(|| decide(&snapshot, &review));
}

/// N = 100 beside 10,000 rules that concern other objects.
#[divan::bench(args = [0, 10_000])]
fn beside_excluded(bencher: divan::Bencher<'_, '_>, excluded: usize) {
    let mut rules = matching_rules(100);
    rules.extend(excluded_rules(excluded));
    let snapshot = snapshot(rules, Lookup::Index);
    let review = review();
    bencher.bench(|| decide(&snapshot, &review));
}

#[divan::bench(args = [100, 1000])]
fn compile(bencher: divan::Bencher<'_, '_>, rules: usize) {
    let rules = matching_rules(rules);
    bencher.bench(|| snapshot(rules.clone(), Lookup::Index));
}

fn decide(snapshot: &Snapshot, review: &Review) -> Decision {
    let (inventory, mut arena) = (Inventory::default(), Arena::new());
    let mut evaluation = Evaluation::new(&Cluster, &inventory, &mut arena);
    snapshot.decide(review, Stages::MODRULES, &mut evaluation, &mut NoopObserver)
}

struct Cluster;

struct Monotonic;

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

impl Host for Cluster {
    fn clock(&self) -> &dyn Clock {
        &Monotonic
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        Ok(json(&format!(
            r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#
        )))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("there is no node {name}")))
    }
}

fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes()).expect(text)
}

fn snapshot(rules: Vec<Value>, lookup: Lookup) -> Snapshot {
    let changes =
        rules.into_iter().map(|rule| Change::Upsert(PolicySource::of_object(rule))).collect();
    let config = EngineConfig { lookup, ..EngineConfig::default() };
    let update = Snapshot::new(config).apply(changes, OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    update.snapshot
}

fn review() -> Review {
    let bytes = deployment().to_json().len();
    assert!((3_300..3_700).contains(&bytes), "the Deployment has {bytes} bytes");
    Review::of_object(deployment(), Operation::Create, "default")
}

fn deployment() -> Value {
    let containers: Vec<String> = (0..4)
        .map(|c| {
            let env: Vec<String> = (0..10)
                .map(|e| {
                    format!(
                        r#"{{"name": "VARIABLE_{e}", "value": "value-of-variable-number-{c}-{e}"}}"#
                    )
                })
                .collect();
            format!(
                r#"{{"name": "container-{c}", "image": "registry.example.com/team/app-{c}:1.14.{c}",
                     "ports": [{{"containerPort": {}, "protocol": "TCP"}},
                               {{"containerPort": {}, "protocol": "TCP"}}],
                     "env": [{}]}}"#,
                8080 + c,
                9090 + c,
                env.join(",")
            )
        })
        .collect();
    json(&format!(
        r#"{{"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {{"name": "app", "namespace": "my-namespace",
                          "labels": {{"app": "web", "tier": "front"}},
                          "annotations": {{"note": "bench"}}}},
            "spec": {{"replicas": 3, "selector": {{"matchLabels": {{"app": "web"}}}},
                      "template": {{"metadata": {{"labels": {{"app": "web"}}}},
                                    "spec": {{"containers": [{}]}}}}}}}}"#,
        containers.join(",")
    ))
}

/// The parts in which the rules of the fixture differ.
#[derive(Clone, Copy)]
struct Rule<'a> {
    namespace: &'a str,
    kind: &'a str,
    /// Expression and value of the third criterion.
    third: (&'a str, &'a str),
    operation: &'a str,
    target: &'a str,
}

const TIER: &str = "$.metadata.labels.tier";

/// The rule that matches.
const MATCHING: Rule<'_> = Rule {
    namespace: "my-namespace",
    kind: "Deployment",
    third: (TIER, "front"),
    operation: "CREATE",
    target: "",
};

/// One rule in five matches: the others differ in their third criterion.
fn matching_rules(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| {
            let tier = if n % 5 == 0 { "front" } else { "back" };
            Rule { third: (TIER, tier), ..MATCHING }.numbered(n)
        })
        .collect()
}

/// Each requires a value of one of 50 selects; ten of the rules require the value that the Deployment has.
fn rules_sharing_selects(count: usize) -> Vec<Value> {
    (0..count)
        .map(|n| {
            let variable = n % 50;
            let (container, variable) = (variable / 10 % 4, variable % 10);
            // Selects 40 to 49 test the first container, as 0 to 9 do, by another expression.
            let value_of = if n % 50 < 40 { ".value" } else { "['value']" };
            let value = if n < 10 {
                format!("value-of-variable-number-{container}-{variable}")
            } else {
                format!("other-{n}")
            };
            json(&format!(
                r#"{{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
                "metadata": {{"name": "rule-{n}", "namespace": "my-namespace"}},
                "spec": {{"type": "Patch", "match": [
                    {{"select": "$.kind", "matchValue": "Deployment"}},
                    {{"select": "$.spec.template.spec.containers[{container}].env[{variable}]{value_of}",
                      "matchValue": "{value}"}}
                  ],
                  "patch": [
                    {{"op": "add", "path": "/metadata/annotations/rule-{n}", "value": "applied"}}
                  ]}}}}"#
            ))
        })
        .collect()
}

/// By kind, home, operation, a criterion on the namespace, and `targetNamespaceRegex`.
fn excluded_rules(count: usize) -> Vec<Value> {
    let cluster = Rule { namespace: "kubemod-system", target: ".*", ..MATCHING };
    (0..count)
        .map(|n| {
            let target = format!("^team-{n}$");
            let rule = match n % 5 {
                0 => Rule { kind: "StatefulSet", ..MATCHING },
                1 => Rule { namespace: "other-namespace", ..MATCHING },
                2 => Rule { operation: "DELETE", ..MATCHING },
                3 => Rule { third: ("$.metadata.namespace", "other"), ..cluster },
                _ => Rule { target: &target, ..cluster },
            };
            rule.numbered(100_000 + n)
        })
        .collect()
}

impl Rule<'_> {
    fn numbered(self, n: usize) -> Value {
        let Self { namespace, kind, third: (place, text), operation, target } = self;
        json(&format!(
            r#"{{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
            "metadata": {{"name": "rule-{n}", "namespace": "{namespace}"}},
            "spec": {{"type": "Patch", "admissionOperations": ["{operation}"],
              "targetNamespaceRegex": "{target}",
              "match": [
                {{"select": "$.kind", "matchValue": "{kind}"}},
                {{"select": "$.spec.template.spec.containers[*].image",
                  "matchRegex": "registry\\.example\\.com/team/app-{}:.*"}},
                {{"select": "{place}", "matchValue": "{text}"}},
                {{"select":
                  "$.spec.template.spec.containers[? @.ports[0].containerPort == {}].name"}}
              ],
              "patch": [
                {{"op": "add", "path": "/metadata/annotations/rule-{n}", "value": "applied"}},
                {{"op": "add", "select": "$.spec.template.spec.containers[*]",
                  "path": "/spec/template/spec/containers/#0/imagePullPolicy",
                  "value": "IfNotPresent"}}
              ]}}}}"#,
            n % 4,
            8080 + n % 4,
        ))
    }
}
