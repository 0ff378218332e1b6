//! Gatekeeper's mutators: the language of locations, and mutators on objects.

use std::sync::Arc;

use modgate_engine::{
    api::meta::Operation,
    jsonpatch::{self, Tree},
    matching::Source,
    mutation::{
        CompiledMutator, Location, MutationError, MutationRequest, MutationSystem, NoProviders,
        Options, location::Node,
    },
};
use modgate_value::{Budget, Value, budget::Frozen, yaml};

use super::{LIMITS, elements, halves, pair, text};

/// Locations: a list follows a field, and the canonical text, where it can be read again, says the
/// same.
pub fn location(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(location) = Location::parse(text) else { return };
    let mut after_field = false;
    for node in location.nodes() {
        let is_field = matches!(node, Node::Field(_));
        assert!(is_field || after_field, "{text:?}");
        after_field = is_field;
    }
    // Some names print bare that need quotes to be read (2.4); all others come back.
    if let Ok(again) = Location::parse(&location.to_string()) {
        assert_eq!(again, location, "{text:?}");
    }
    assert!(location.is_prefix_of(&location), "{text:?}");
}

/// A mutator and an object: it comes to an end.
pub fn mutator(data: &[u8]) {
    let Some((policy, object)) = halves(data) else { return };
    let Ok(policy) = yaml::value(policy) else { return };
    let Ok(object) = Value::from_json(object) else { return };
    let Ok(mutator) = CompiledMutator::compile(&policy, Options::default()) else { return };
    if let Err(error) = converges(MutationSystem::new([Arc::new(mutator)]), &object) {
        assert!(
            !matches!(error, MutationError::NotConverging { .. }),
            "a single mutator undoes itself: {policy} {object}"
        );
    }
}

/// Several mutators, which may undo each other, and an object.
pub fn mutators(data: &[u8]) {
    let Some((policies, object)) = halves(data) else { return };
    let Ok(object) = Value::from_json(object) else { return };
    let policies = yaml::documents(policies).filter_map(Result::ok);
    let mutators = policies
        .filter_map(|policy| CompiledMutator::compile(&policy.value, Options::default()).ok())
        .map(Arc::new);
    let _ = converges(MutationSystem::new(mutators), &object);
}

/// A system that converged stays as it is, its patch leads to the object, and explaining gives the
/// same result.
fn converges(system: MutationSystem, object: &Value) -> Result<(), MutationError> {
    let budget = Budget::new(LIMITS, &Frozen);
    let request = MutationRequest {
        shard: 0,
        object,
        namespace: None,
        operation: Some(Operation::Create),
        source: Some(Source::Original),
        username: "fuzz",
        annotate: false,
        run_id: &|| "<uuid>".to_owned(),
        providers: &NoProviders,
        budget: &budget,
    };
    let result = system.mutate(&request);
    let again = Budget::new(LIMITS, &Frozen);
    let explained = system.explain(&MutationRequest { budget: &again, ..request }).result;
    assert_eq!(explained, result, "{object}");
    let Some(after) = result?.object else { return Ok(()) };
    let mut tree = Tree::from(object.clone());
    let budget = Budget::unlimited();
    for operation in jsonpatch::diff_exact(object, &after) {
        let applied = jsonpatch::apply(&mut tree, &operation, &budget);
        assert!(applied.is_ok(), "{object}: {applied:?}");
    }
    assert_eq!(tree.into_value(), after, "{object}");
    let again = Budget::new(LIMITS, &Frozen);
    let request = MutationRequest { object: &after, budget: &again, ..request };
    if let Ok(mutated) = system.mutate(&request) {
        assert_eq!(mutated.object, None, "{object}");
    }
    Ok(())
}

pub(super) fn seeds_location(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name == "gatekeeper/acceptance/location.json" {
        let locations = elements(document, "cases").filter_map(|case| text(case, "location"));
        seeds.extend(locations.map(|location| location.as_bytes().to_vec()));
    }
}

pub(super) fn seeds_mutator(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name == "gatekeeper/acceptance/mutation.json" {
        for case in elements(document, "cases") {
            let object = case.get("object").map(Value::to_json).unwrap_or_default();
            let mutators = elements(case, "mutators");
            seeds.extend(mutators.map(|mutator| pair(&mutator.to_json(), &object)));
        }
    }
}

pub(super) fn seeds_mutators(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name == "gatekeeper/acceptance/mutation.json" {
        for case in elements(document, "cases") {
            let object = case.get("object").map(Value::to_json).unwrap_or_default();
            let mutators: Vec<String> = elements(case, "mutators").map(Value::to_json).collect();
            seeds.push(pair(&mutators.join("\n---\n"), &object));
        }
    }
}
