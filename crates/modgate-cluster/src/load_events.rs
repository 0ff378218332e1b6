//! Events about policies that do not load, where `kubectl describe` shows them.

use std::collections::BTreeMap;

use modgate_engine::Severity;
use modgate_value::{Str, Value};

use super::{
    context::Context,
    events::{Event, EventSeverity, Involved},
    kinds::Kind,
    object::Key,
    state::{Loaded, State},
};

const COMPONENT: &str = "modgate";

/// One policy, from when it was made until it is deleted.
type Policy = (Kind, Key, String);

/// Tells of every version of a policy that does not load, once, and of the one that loads after it.
pub(crate) async fn run(mut context: Context) {
    // With the generation that was told of.
    let mut told: BTreeMap<Policy, i64> = BTreeMap::new();
    while context.loaded().await.is_some() {
        let state = context.state.borrow_and_update().clone();
        if let Some(state) = state.filter(|_| context.leads()) {
            for event in news(&state, &mut told, &context.identity.namespace) {
                context.events.emit(event);
            }
        }
        if context.state.changed().await.is_err() {
            return;
        }
    }
}

fn news(state: &State, told: &mut BTreeMap<Policy, i64>, installation: &Str) -> Vec<Event> {
    let all = state.policies.iter().flat_map(|(kind, policies)| {
        policies.iter().map(move |(key, loaded)| (kind, key, &**loaded))
    });
    let mut events = Vec::new();
    let mut broken = BTreeMap::new();
    for (kind, key, loaded) in all {
        let policy = (kind.clone(), key.clone(), loaded.uid().to_owned());
        if loaded.is_in_force() {
            if told.contains_key(&policy) {
                events.push(event(&policy, loaded, installation));
            }
        } else {
            if told.get(&policy) != Some(&loaded.generation()) {
                events.push(event(&policy, loaded, installation));
            }
            broken.insert(policy, loaded.generation());
        }
    }
    *told = broken;
    events
}

fn event((kind, key, uid): &Policy, loaded: &Loaded, installation: &Str) -> Event {
    let api_version = loaded.object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let errors = loaded.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let errors: Vec<String> = errors.map(ToString::to_string).collect();
    // Those about cluster-scoped objects are where the installation is.
    let namespace = if key.namespace.is_empty() { installation } else { &key.namespace };
    let (severity, reason, message) = if loaded.is_in_force() {
        (EventSeverity::Normal, "PolicyLoaded", "the policy is in force".to_owned())
    } else {
        (EventSeverity::Warning, "PolicyNotLoaded", errors.join("; "))
    };
    Event {
        involved: Involved {
            api_version: api_version.to_owned(),
            kind: kind.kind.clone(),
            namespace: namespace.to_string(),
            name: key.name.to_string(),
            uid: uid.clone(),
            resource_version: String::new(),
        },
        component: COMPONENT,
        severity,
        reason,
        message,
        annotations: Vec::new(),
    }
}
