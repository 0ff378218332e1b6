//! Mutators on a Pod of three containers: a hundred of which ten apply, alone and beside thousands
//! for other kinds; and passes that change nothing, on small and large objects. What those allocate
//! is `tests/allocations.rs`.
#![expect(clippy::expect_used, reason = "a bench may panic")]

use std::sync::Arc;

use modgate_engine::{
    api::meta::Operation,
    matching::Source,
    mutation::{CompiledMutator, MutationRequest, MutationSystem, NoProviders, Options},
};
use modgate_value::{Budget, Value, yaml};

fn main() {
    divan::main();
}

/// A hundred mutators of Pods, ten of which change the object, beside N of other kinds.
#[divan::bench(args = [0, 5_000], sample_count = 200, sample_size = 50)]
fn beside_other_kinds(bencher: divan::Bencher<'_, '_>, others: usize) {
    let system = system(hundred().into_iter().chain((0..others).map(for_another_kind)).collect());
    let pod = pod(3);
    assert_eq!(applied(&system, &pod), 10);
    bencher.bench(|| mutate(&system, &pod));
}

/// The same mutators on the Pod they have already changed: one pass, and nothing to do.
#[divan::bench(args = [3, 300], sample_size = 20)]
fn unchanged(bencher: divan::Bencher<'_, '_>, containers: usize) {
    let system = system(hundred());
    let pod = mutate(&system, &pod(containers)).expect("ten apply");
    assert_eq!(mutate(&system, &pod), None);
    bencher.bench(|| mutate(&system, &pod));
}

/// Of all the work that a change of policies makes.
#[divan::bench(args = [100, 5_000])]
fn load(bencher: divan::Bencher<'_, '_>, mutators: usize) {
    let mutators: Vec<Value> = (0..mutators).map(for_another_kind).collect();
    bencher.bench(|| system(mutators.clone()));
}

/// Nine in ten are stopped: by their match block, a path test, or `assignIf`.
fn hundred() -> Vec<Value> {
    let apply_to = "applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}]";
    (0..100)
        .map(|index| {
            let (location, rest) = match index % 10 {
                0 => ("spec.containers[name: *].imagePullPolicy", ""),
                1..=3 => ("spec.containers[name: c1].tty", "match: {namespaces: [elsewhere]},"),
                4..=6 => (
                    "spec.containers[name: *].image",
                    "match: {labelSelector: {matchLabels: {app: other}}},",
                ),
                7 => ("spec.containers[name: *].stdin", "match: {name: 'web-*'},"),
                _ => ("spec.dnsPolicy", "match: {excludedNamespaces: ['def*']},"),
            };
            let location = location.replace("imagePullPolicy", &format!("field{index}"));
            value(&format!(
                "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, \
                 metadata: {{name: m{index:03}}}, spec: {{{apply_to}, {rest} \
                 location: '{location}', parameters: {{assign: {{value: v{index}}}}}}}}}"
            ))
        })
        .collect()
}

fn for_another_kind(index: usize) -> Value {
    value(&format!(
        "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {{name: o{index}}}, \
         spec: {{applyTo: [{{groups: [example.com], versions: [v1], kinds: [Kind{}]}}], \
         location: spec.replicas, parameters: {{assign: {{value: {index}}}}}}}}}",
        index % 50
    ))
}

fn pod(containers: usize) -> Value {
    let containers: Vec<String> = (0..containers)
        .map(|index| {
            format!(
                "{{name: c{index}, image: 'registry.example.com/team/app:{index}', \
                 ports: [{{containerPort: {}}}], resources: {{limits: {{cpu: 100m, memory: 1Gi}}}}, \
                 env: [{{name: A, value: b}}, {{name: C, value: d}}]}}",
                8000 + index
            )
        })
        .collect();
    value(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: app, namespace: default, \
         labels: {{app: app, tier: web}}}}, spec: {{containers: [{}]}}}}",
        containers.join(", ")
    ))
}

fn system(mutators: Vec<Value>) -> MutationSystem {
    MutationSystem::new(mutators.iter().map(|mutator| {
        Arc::new(CompiledMutator::compile(mutator, Options::default()).expect("compiles"))
    }))
}

fn mutate(system: &MutationSystem, object: &Value) -> Option<Value> {
    let budget = Budget::unlimited();
    system.mutate(&request(object, &budget)).expect("converges").object
}

/// How many mutators change the object in the first pass.
fn applied(system: &MutationSystem, object: &Value) -> usize {
    let budget = Budget::unlimited();
    let mutated = system.mutate(&request(object, &budget)).expect("converges");
    mutated.passes.first().map_or(0, Vec::len)
}

fn request<'a>(object: &'a Value, budget: &'a Budget<'a>) -> MutationRequest<'a> {
    MutationRequest {
        shard: 0,
        object,
        namespace: None,
        operation: Some(Operation::Create),
        source: Some(Source::Original),
        username: "",
        annotate: false,
        run_id: &String::new,
        providers: &NoProviders,
        budget,
    }
}

fn value(text: &str) -> Value {
    yaml::value(text).expect(text)
}
