//! A pass that changes nothing allocates nothing that grows with the object.

#![allow(clippy::expect_used, reason = "a test")]

use std::sync::Arc;

use modgate_engine::{
    api::meta::Operation,
    matching::Source,
    mutation::{CompiledMutator, MutationRequest, MutationSystem, NoProviders, Options},
};
use modgate_value::{Budget, Value, yaml};

fn value(text: &str) -> Value {
    yaml::value(text).expect(text)
}

/// Bytes and blocks that one run takes.
fn allocated(system: &MutationSystem, object: &Value) -> (u64, u64) {
    let budget = Budget::unlimited();
    let request = MutationRequest {
        shard: 0,
        object,
        namespace: None,
        operation: Some(Operation::Create),
        source: Some(Source::Original),
        username: "",
        annotate: false,
        run_id: &String::new,
        providers: &NoProviders,
        budget: &budget,
    };
    let mut mutated = None;
    let info = allocation_counter::measure(|| {
        mutated = Some(system.mutate(&request).expect("converges"));
    });
    assert_eq!(mutated.expect("ran").object, None, "nothing changes");
    (info.bytes_total, info.count_total)
}

#[test]
fn a_pass_that_changes_nothing() {
    let mutators = [
        ("Assign", "spec.list[name: *].v", "{assign: {value: {a: [1, 2, 3]}}}"),
        (
            "Assign",
            "spec.list[name: c0]",
            "{assign: {value: {name: c0, v: {a: [1, 2, 3]}, \
          set: [1, 2], image: 'a.io/b/c/d:1', named: a-name-that-is-longer-than-what-fits-inline}}}",
        ),
        ("Assign", "spec.list[name: *].named", "{assign: {fromMetadata: {field: name}}}"),
        ("Assign", "spec.list[name: *].v", "{assign: {value: 1}, assignIf: {in: [2]}}"),
        (
            "Assign",
            "spec.list[name: no].v",
            "{assign: {value: 1}, \
          pathTests: [{subPath: 'spec.list[name: no]', condition: MustExist}]}",
        ),
        ("ModifySet", "spec.list[name: *].set", "{operation: merge, values: {fromList: [2, 1]}}"),
        ("ModifySet", "spec.list[name: *].set", "{operation: prune, values: {fromList: [9]}}"),
        ("AssignImage", "spec.list[name: *].image", "{assignTag: ':1', assignDomain: a.io}"),
    ];
    let compiled = mutators.iter().enumerate().map(|(index, (kind, location, parameters))| {
        let text = format!(
            "{{apiVersion: mutations.gatekeeper.sh/v1alpha1, kind: {kind}, \
             metadata: {{name: m{index}}}, spec: {{applyTo: [{{groups: [''], versions: [v1], \
             kinds: [Pod]}}], location: '{location}', parameters: {parameters}}}}}"
        );
        Arc::new(CompiledMutator::compile(&value(&text), Options::default()).expect(&text))
    });
    let system = MutationSystem::new(compiled);
    assert!(system.conflicts().is_empty());
    let pod = |elements: usize| {
        let elements: Vec<String> = (0..elements)
            .map(|index| {
                format!(
                    "{{name: c{index}, v: {{a: [1, 2, 3]}}, set: [1, 2], image: 'a.io/b/c/d:1', \
                     named: a-name-that-is-longer-than-what-fits-inline}}"
                )
            })
            .collect();
        value(&format!(
            "{{apiVersion: v1, kind: Pod, \
             metadata: {{name: a-name-that-is-longer-than-what-fits-inline}}, \
             spec: {{list: [{}]}}}}",
            elements.join(", ")
        ))
    };
    let (small, large) = (pod(1), pod(1000));
    // The counters of a mutator are made when it first runs.
    allocated(&system, &small);
    let expected = allocated(&system, &small);
    assert_eq!(allocated(&system, &large), expected, "(bytes, blocks)");
}
