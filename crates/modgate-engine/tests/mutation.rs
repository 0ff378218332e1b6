//! Mutators against the recorded cases: `conformance/gatekeeper/acceptance`.

#![allow(clippy::expect_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex},
};

use modgate_engine::{
    api::meta::Operation,
    jsonpatch,
    matching::Source,
    mutation::{
        Answer, Answers, CompiledMutator, Item, Location, MutationRequest, MutationSystem, Options,
        Providers,
        location::{Elements, Node},
    },
};
use modgate_value::{Budget, Str, Value};

fn corpus(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/gatekeeper/acceptance")
        .join(name);
    Value::from_json(&std::fs::read(&path).expect(name)).expect(name)
}

fn cases(corpus: &Value) -> &[Value] {
    corpus.get("cases").and_then(Value::as_array).expect("cases")
}

fn text<'a>(case: &'a Value, key: &str) -> &'a str {
    case.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn locations() {
    let corpus = corpus("location.json");
    let mut failures = Vec::new();
    for case in cases(&corpus) {
        let location = text(case, "location");
        let problem = match (Location::parse(location), case.get("error")) {
            (Ok(parsed), None) => {
                let nodes: Value = parsed.nodes().iter().map(describe).collect();
                (Some(&nodes) != case.get("path") || parsed.to_string() != text(case, "canonical"))
                    .then(|| format!("{nodes} {parsed}"))
            }
            (Err(error), Some(expected)) => {
                (Some(error.to_string().as_str()) != expected.as_str()).then(|| error.to_string())
            }
            (result, _) => Some(format!("{result:?}")),
        };
        if let Some(problem) = problem {
            failures.push(format!("{location}: {problem}, expected {case}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn describe(node: &Node) -> Value {
    let entry = |key: &str, value: Value| (Str::from(key), value);
    match node {
        Node::Field(name) => [entry("field", name.clone().into())].into_iter().collect(),
        Node::List { key, elements } => {
            let mut members = vec![entry("key", key.clone().into())];
            match elements {
                Elements::All => members.push(entry("glob", true.into())),
                Elements::Text(text) => {
                    members.push(entry("type", "string".into()));
                    members.push(entry("value", text.clone().into()));
                }
                Elements::Integer(integer) => {
                    members.push(entry("type", "int64".into()));
                    members.push(entry("value", (*integer).into()));
                }
            }
            members.into_iter().collect()
        }
    }
}

/// Providers that answer as a case says, and remember what they were asked.
struct Recorded<'a> {
    providers: Option<&'a Value>,
    requests: Mutex<BTreeMap<Str, Vec<Vec<Str>>>>,
}

impl Providers for Recorded<'_> {
    fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        let mut answers = BTreeMap::new();
        for (name, keys) in keys {
            let Some(provider) = self.providers.and_then(|all| all.get(name)) else { continue };
            let mut requests = self.requests.lock().expect("not poisoned");
            requests.entry(name.clone()).or_default().push(keys.iter().cloned().collect());
            let answer = match provider.get("sendError").and_then(Value::as_str) {
                Some(error) => Err(error.to_owned()),
                None => Ok(answer(provider.get("response").expect("response"))),
            };
            answers.insert(name.clone(), answer);
        }
        Ok(answers)
    }
}

fn answer(response: &Value) -> Answer {
    let items = response.get("items").and_then(Value::as_array);
    Answer {
        idempotent: response.get("idempotent").and_then(Value::as_bool).unwrap_or_default(),
        system_error: text(response, "systemError").to_owned(),
        items: items
            .map(|items| {
                items
                    .iter()
                    .map(|item| Item {
                        key: text(item, "key").into(),
                        value: item.get("value").cloned().unwrap_or_default(),
                        error: text(item, "error").to_owned(),
                    })
                    .collect()
            })
            .unwrap_or_default(),
    }
}

#[test]
fn mutations() {
    let corpus = corpus("mutation.json");
    let failures: Vec<String> = cases(&corpus)
        .iter()
        .filter_map(|case| {
            let problem = mutate(case).err()?;
            Some(format!("{} {}: {problem}", text(case, "id"), text(case, "title")))
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn mutate(case: &Value) -> Result<(), String> {
    let expect = case.get("expect").ok_or("no expectation")?;
    let mut compiled = Vec::new();
    let mut errors = Vec::new();
    for mutator in case.get("mutators").and_then(Value::as_array).ok_or("no mutators")? {
        match CompiledMutator::compile(mutator, Options::default()) {
            Ok(mutator) => compiled.push(Arc::new(mutator)),
            Err(error) => errors.push(Value::from(error.to_string())),
        }
    }
    same("mutatorErrors", expect.get("mutatorErrors"), &errors)?;
    if !errors.is_empty() {
        return Ok(());
    }
    let system = MutationSystem::new(compiled.clone());
    let conflicts: BTreeSet<Value> =
        system.conflicts().values().map(|conflict| conflict.to_string().into()).collect();
    same(
        "conflictErrors",
        expect.get("conflictErrors"),
        &conflicts.into_iter().collect::<Vec<_>>(),
    )?;
    let removed: Vec<i64> = case
        .get("remove")
        .and_then(Value::as_array)
        .map(|indexes| indexes.iter().filter_map(Value::as_i64).collect())
        .unwrap_or_default();
    let kept = compiled
        .into_iter()
        .enumerate()
        .filter(|(index, _)| !removed.contains(&i64::try_from(*index).unwrap_or(-1)))
        .map(|(_, mutator)| mutator);
    let system = MutationSystem::new(kept);

    let object = case.get("object").ok_or("no object")?;
    let providers =
        Recorded { providers: case.get("providers"), requests: Mutex::new(BTreeMap::new()) };
    let budget = Budget::unlimited();
    let operation = match text(case, "operation") {
        "" => Some(Operation::Create),
        other => other.parse().ok(),
    };
    let source = match text(case, "source") {
        "Generated" => Source::Generated,
        _ => Source::Original,
    };
    let request = MutationRequest {
        object,
        namespace: case.get("namespace").filter(|namespace| !namespace.is_null()),
        operation,
        source: Some(source),
        username: text(case, "username"),
        annotate: case.get("annotate").is_some(),
        run_id: &|| "<uuid>".to_owned(),
        providers: &providers,
        budget: &budget,
    };
    let result = system.mutate(&request);
    if let Some(contained) = expect.get("errorContains").and_then(Value::as_str) {
        let error = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        return if error.contains(contained) { Ok(()) } else { Err(format!("got {result:?}")) };
    }
    if let Some(error) = expect.get("error").and_then(Value::as_str) {
        match &result {
            Err(found) if found.to_string() == error => {}
            found => return Err(format!("expected error {error}, got {found:?}")),
        }
    } else {
        let mutated = result.map_err(|error| error.to_string())?;
        let was = Value::from(mutated.object.is_some());
        if expect.get("mutated").is_some_and(|expected| *expected != was) {
            return Err(format!("mutated: {was}"));
        }
        let after = mutated.object.as_ref().unwrap_or(object);
        if expect.get("object").is_some_and(|expected| expected != after) {
            return Err(format!("got object {after}"));
        }
        if let Some(expected) = expect.get("patch").and_then(Value::as_array) {
            let patch = jsonpatch::diff(object, after);
            if patch.is_empty() != expected.is_empty() {
                return Err(format!("got patch {patch:?}"));
            }
        }
    }
    let requests: Value = providers
        .requests
        .into_inner()
        .map_err(|error| error.to_string())?
        .into_iter()
        .map(|(name, calls)| {
            let calls: Value = calls
                .into_iter()
                .map(|keys| keys.into_iter().map(Value::from).collect::<Value>())
                .collect();
            (name, calls)
        })
        .collect();
    match expect.get("requests") {
        Some(expected) if *expected != requests => Err(format!("requests {requests}")),
        _ => Ok(()),
    }
}

fn same(what: &str, expected: Option<&Value>, found: &[Value]) -> Result<(), String> {
    let expected = expected.and_then(Value::as_array).map(|list| list.to_vec()).unwrap_or_default();
    if expected == found {
        Ok(())
    } else {
        Err(format!("{what}: {found:?}, expected {expected:?}"))
    }
}
