//! The CRDs of constraints: made from templates, and kept as they are made.

mod drift;

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt as _, stream};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use modgate_engine::api::{constraints, meta::GroupVersionKind, templates};
use modgate_http::Backoff;
use modgate_value::Value;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use self::drift::{Sight, Upkeep};
use super::{
    FIELD_MANAGER, LOGGER,
    context::Context,
    kinds::{self, Kind},
    object::{Key, Stored},
    reports::{Report, ReportedError},
    state::State,
};

/// As which it reports.
const CONTROLLER: &str = "definitions";

/// Writes under way at the same time: a template does not wait for all that came before it.
const AT_ONCE: usize = 8;

/// How long to wait after a write failed, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];

/// The CRDs there should be, and those there are.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Definitions {
    /// By name, as they are to be written.
    wanted: BTreeMap<String, Value>,
    /// How often each was deleted while it was wanted.
    lost: BTreeMap<String, u64>,
    /// As they were last seen.
    seen: BTreeMap<String, Sight>,
}

impl Definitions {
    /// Wants the CRDs of the templates that are loaded (1.4). A template that does not load any
    /// more keeps the CRD of its last good version, as it stays in force itself (TC-3).
    pub(crate) fn want(&mut self, state: &State) -> bool {
        let wanted = of_templates(state);
        if wanted == self.wanted {
            return false;
        }
        self.lost.retain(|name, _| wanted.contains_key(name));
        self.wanted = wanted;
        true
    }

    /// Notes how the CRD of a kind of constraints stands in the cluster, whoever made it so; returns
    /// whether that matters.
    pub(crate) fn saw(&mut self, name: &str, definition: &Value) -> bool {
        let group = definition.path(&["spec", "group"]).and_then(Value::as_str);
        if group != Some(constraints::GROUP) {
            return false;
        }
        self.seen.insert(name.to_owned(), Sight::of(definition));
        self.wanted.contains_key(name)
    }

    /// Notes that a CRD is gone; returns whether it should not be (ST-13).
    pub(crate) fn gone(&mut self, name: &str) -> bool {
        self.seen.remove(name);
        let is_wanted = self.wanted.contains_key(name);
        if is_wanted {
            *self.lost.entry(name.to_owned()).or_default() += 1;
        }
        is_wanted
    }
}

fn of_templates(state: &State) -> BTreeMap<String, Value> {
    let resources: BTreeMap<&str, &Value> = state
        .of_kind(templates::GROUP, templates::KIND)
        .map(|(key, loaded)| (key.name.as_str(), &loaded.object))
        .collect();
    state
        .current
        .snapshot
        .constraints()
        .templates()
        .filter_map(|template| {
            let resource = *resources.get(template.name().as_str())?;
            let mut definition = template.schema().crd();
            let name = definition.path(&["metadata", "name"])?.as_str()?.to_owned();
            if let Value::Object(members) = &mut definition
                && let Some(Value::Object(metadata)) = members.get_mut("metadata")
            {
                metadata.insert("ownerReferences", [owner(resource)?].into_iter().collect());
            }
            Some((name, definition))
        })
        .collect()
}

/// Deleting the template deletes its CRD, and thereby all its constraints (ST-11).
pub(super) fn owner(template: &Value) -> Option<Value> {
    let GroupVersionKind { kind, .. } = GroupVersionKind::of_object(template);
    let members: [(&str, Value); 6] = [
        ("apiVersion", template.get("apiVersion")?.clone()),
        ("blockOwnerDeletion", true.into()),
        ("controller", true.into()),
        ("kind", kind.into()),
        ("name", template.path(&["metadata", "name"])?.clone()),
        ("uid", template.path(&["metadata", "uid"])?.clone()),
    ];
    Some(members.into_iter().collect())
}

/// Shows in the status of a template that its CRD could not be written (TC-40), or could.
fn tell(context: &Context, definition: &str, failed: Option<(bool, kube::Error)>) {
    let template = definition.split('.').next().unwrap_or_default();
    let kind = Kind { group: templates::GROUP.to_owned(), kind: templates::KIND.to_owned() };
    let key = Key { namespace: "".into(), name: template.into() };
    let report = failed.map(|(is_update, error)| {
        let (code, what) =
            if is_update { ("update_error", "update") } else { ("create_error", "create") };
        let message = format!("Could not {what} CRD: {error}");
        Report { errors: vec![ReportedError { code, message }], ..Report::default() }
    });
    context.reports.set(CONTROLLER, &kind, &key, report);
}

/// Writes the CRDs that are wanted, for as long as somebody wants any and this process leads.
///
/// A write that fails is tried again, less and less often, and holds up no other. What somebody else
/// changes of what we wrote is put back, less and less often too.
pub(crate) async fn write(context: Context, mut wanted: watch::Receiver<Definitions>) {
    let api: Api<Stored> = Api::all_with(context.client.clone(), &kinds::definitions());
    // Each with how often it had been deleted by then.
    let mut written: BTreeMap<String, (Value, u64)> = BTreeMap::new();
    let mut upkeep: BTreeMap<String, Upkeep> = BTreeMap::new();
    let mut backoff = Backoff::new(BACKOFF);
    let mut leader = context.leadership.subscribe();
    loop {
        if leader.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        let Definitions { wanted: now, lost, seen } = wanted.borrow_and_update().clone();
        written.retain(|name, _| now.contains_key(name));
        upkeep.retain(|name, _| now.contains_key(name));
        let mut next_due = None;
        let mut due_now = Vec::new();
        for (name, definition) in now {
            let this = (definition, lost.get(&name).copied().unwrap_or_default());
            let seen = seen.get(&name);
            let (exists, mut changed) = (seen.is_some(), None);
            if written.get(&name) == Some(&this) {
                let due = upkeep.get(&name).and_then(|upkeep| upkeep.due(seen, Instant::now()));
                match due {
                    Some(due) if due <= Instant::now() => changed = seen.cloned(),
                    Some(due) => {
                        next_due = Some(next_due.map_or(due, |next: Instant| next.min(due)));
                        continue;
                    }
                    None => continue,
                }
            }
            due_now.push((name, this, exists, changed));
        }
        let writes = due_now.into_iter().map(async |(name, this, exists, changed)| {
            let made = match context.leads() {
                true => {
                    let params = PatchParams::apply(FIELD_MANAGER).force();
                    let (definition, _): &(Value, u64) = &this;
                    Some(api.patch(&name, &params, &Patch::Apply(definition)).await)
                }
                false => None,
            };
            (name, this, exists, changed, made)
        });
        let mut writes = stream::iter(writes).buffer_unordered(AT_ONCE);
        let mut failed = false;
        while let Some((name, this, exists, changed, made)) = writes.next().await {
            let Some(made) = made else { break };
            match made {
                Ok(made) => {
                    let made = made.object.map(kinds::without_schemas).unwrap_or_default();
                    let settled = Sight::of(&made);
                    match (upkeep.get_mut(&name), changed) {
                        (Some(upkeep), Some(changed)) => {
                            tracing::info!(target: LOGGER, %name, "CRD was changed, written again");
                            upkeep.rewritten(changed, &settled, Instant::now());
                        }
                        _ => {
                            tracing::info!(target: LOGGER, %name, "CRD written");
                            upkeep.insert(name.clone(), Upkeep::new(&settled));
                        }
                    }
                    tell(&context, &name, None);
                    written.insert(name, this);
                }
                Err(error) => {
                    failed = true;
                    tracing::warn!(target: LOGGER, %name, %error, "CRD not written, trying again");
                    tell(&context, &name, Some((exists, error)));
                }
            }
        }
        let until_due = next_due.map(|due| due.saturating_duration_since(Instant::now()));
        let rest = if failed {
            backoff.pause()
        } else {
            backoff = Backoff::new(BACKOFF);
            Duration::MAX
        };
        let rest = until_due.map_or(rest, |due| due.min(rest));
        tokio::select! {
            () = sleep(rest) => {}
            changed = wanted.changed() => if changed.is_err() { return },
            // What another process wrote meanwhile may be less than is wanted now.
            changed = leader.changed() => match changed {
                Ok(()) => {
                    written.clear();
                    // Whoever leads now says what comes of it.
                    context.reports.replace(CONTROLLER, BTreeMap::new());
                }
                Err(_) => return,
            },
        }
    }
}
