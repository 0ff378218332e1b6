//! Events about policies that do not load, where `kubectl describe` shows them.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use modgate_engine::Severity;
use modgate_value::{Str, Value};

use super::{
    context::Context,
    events::{Event, EventSeverity, Involved},
    kinds::Kind,
    object::Key,
    reconcile::Reconcile,
    state::{Loaded, State},
};

const COMPONENT: &str = "modgate";

/// One policy, from when it was made until it is deleted.
type Policy = (Kind, Key, String);

/// Emits one Event for every version of a policy that does not load, and one for the version after it
/// that loads.
pub(crate) struct LoadEvents {
    context: Context,
    /// Policies that do not load, with the generation of the last Event.
    reported: BTreeMap<Policy, i64>,
}

impl LoadEvents {
    pub(crate) fn new(context: Context) -> Self {
        Self { context, reported: BTreeMap::new() }
    }
}

impl Reconcile for LoadEvents {
    type Desired = Vec<Event>;

    fn desired(&mut self, state: &Arc<State>) -> Vec<Event> {
        new_events(state, &mut self.reported, &self.context.identity.namespace)
    }

    async fn apply(&mut self, events: Vec<Event>) -> Option<Instant> {
        events.into_iter().for_each(|event| self.context.events.emit(event));
        None
    }
}

fn new_events(
    state: &State,
    reported: &mut BTreeMap<Policy, i64>,
    installation: &Str,
) -> Vec<Event> {
    let all = state.policies.iter().flat_map(|(kind, policies)| {
        policies.iter().map(move |(key, loaded)| (kind, key, &**loaded))
    });
    let mut events = Vec::new();
    let mut broken = BTreeMap::new();
    for (kind, key, loaded) in all {
        let policy = (kind.clone(), key.clone(), loaded.uid().to_owned());
        if loaded.is_in_force() {
            if reported.contains_key(&policy) {
                events.push(event(&policy, loaded, installation));
            }
        } else {
            if reported.get(&policy) != Some(&loaded.generation()) {
                events.push(event(&policy, loaded, installation));
            }
            broken.insert(policy, loaded.generation());
        }
    }
    *reported = broken;
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
