//! Policies of every kind, as they are read from files.

use modgate_engine::{Change, EngineConfig, OnError, PolicySource, Snapshot};
use modgate_value::{Value, yaml};

use super::{LIMITS, elements};

/// Documents of YAML: what compiles loads, in whatever order, and loading it again changes nothing.
pub fn policies(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let objects: Vec<Value> = yaml::documents(text)
        .filter_map(Result::ok)
        .map(|document| document.value)
        .filter(Snapshot::takes)
        .take(16)
        .collect();
    let config =
        EngineConfig { request_limits: LIMITS, rule_limits: LIMITS, ..EngineConfig::default() };
    let load = |snapshot: &Snapshot, objects: &mut dyn Iterator<Item = &Value>| {
        let changes = objects.cloned().map(PolicySource::of_object).map(Change::Upsert);
        snapshot.apply(changes.collect(), OnError::Unload)
    };
    let update = load(&Snapshot::new(config.clone()), &mut objects.iter());
    for problem in &update.problems {
        assert!(!problem.message.is_empty(), "{text:?}");
    }
    let ids = |snapshot: &Snapshot| {
        let mut ids: Vec<String> = snapshot.policies().map(|id| id.to_string()).collect();
        ids.sort_unstable();
        ids
    };
    let loaded = ids(&update.snapshot);
    assert_eq!(ids(&load(&update.snapshot, &mut objects.iter()).snapshot), loaded, "{text:?}");
    let mut names: Vec<String> = objects
        .iter()
        .map(|object| PolicySource::of_object(object.clone()).id().to_string())
        .collect();
    names.sort_unstable();
    names.dedup();
    // Of two objects of one name the later one counts; all others load in any order.
    if names.len() == objects.len() {
        let backwards = load(&Snapshot::new(config), &mut objects.iter().rev());
        assert_eq!(ids(&backwards.snapshot), loaded, "{text:?}");
    }
}

pub(super) fn seeds(_: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    let mut push = |objects: Vec<&Value>| {
        let texts: Vec<String> = objects.into_iter().map(Value::to_json).collect();
        if !texts.is_empty() {
            seeds.push(texts.join("\n---\n").into_bytes());
        }
    };
    for scenario in elements(document, "scenarios") {
        push(elements(scenario, "rules").collect());
    }
    for case in elements(document, "cases") {
        let objects = |key| elements(case, key).filter(|object| object.as_object().is_some());
        push(objects("mutators").collect());
        push(objects("documents").collect());
        push(
            case.get("template")
                .into_iter()
                .chain(objects("constraints"))
                .filter(|it| it.as_object().is_some())
                .collect(),
        );
    }
    let cases = elements(document, "cases");
    let files =
        cases.filter_map(|case| case.get("files")?.as_object()).flat_map(|files| files.iter());
    seeds.extend(files.filter_map(|(_, text)| Some(text.as_str()?.as_bytes().to_vec())));
}
