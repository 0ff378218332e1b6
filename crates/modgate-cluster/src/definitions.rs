//! The CRDs of constraints: made from templates, and kept as they are made.

mod drift;

use std::{
    collections::BTreeMap,
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use modgate_engine::api::meta::ObjectExt as _;
use modgate_engine::api::{constraints, meta::GroupVersionKind, templates};
use modgate_value::Value;
use tokio::sync::watch;

use self::drift::{Sight, Upkeep};
use super::{
    FIELD_MANAGER, LOGGER,
    context::Context,
    kinds::{self, Kind},
    object::{Key, Stored},
    reconcile::Reconcile,
    reports::{Report, ReportedError},
    retry::Retries,
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

    /// Notes how the CRD of a kind of constraints stands in the cluster, whichever writer made it so; returns
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
            let name = definition.metadata("name")?.to_owned();
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

/// Writes the CRDs that are wanted.
///
/// A write that fails is tried again, less and less often, and does not hold up others. Changes that
/// another writer makes to our part are put back, less and less often too.
pub(crate) struct Writer {
    context: Context,
    api: Api<Stored>,
    definitions: watch::Receiver<Definitions>,
    /// Each with how often it had been deleted by then.
    written: BTreeMap<String, Version>,
    upkeep: BTreeMap<String, Upkeep>,
    retries: Retries<String, Version>,
}

/// A CRD, and how often it was deleted before.
type Version = (Value, u64);

/// A CRD that is to be written now.
struct Due {
    name: String,
    version: Version,
    exists: bool,
    /// The change by another writer that is the reason, if one is.
    changed: Option<Sight>,
}

impl Writer {
    pub(crate) fn new(context: Context, definitions: watch::Receiver<Definitions>) -> Self {
        Self {
            api: Api::all_with(context.client.clone(), &kinds::definitions()),
            context,
            definitions,
            written: BTreeMap::new(),
            upkeep: BTreeMap::new(),
            retries: Retries::new(BACKOFF),
        }
    }

    /// The CRDs that are due now, and the time at which the next one is due that another writer has changed.
    fn due(&self, definitions: Definitions) -> (Vec<Due>, Option<Instant>) {
        let Definitions { wanted, lost, seen } = definitions;
        let now = Instant::now();
        let (mut next, mut all) = (None, Vec::new());
        for (name, definition) in wanted {
            let version = (definition, lost.get(&name).copied().unwrap_or_default());
            let (seen, mut changed) = (seen.get(&name), None);
            if self.written.get(&name) == Some(&version) {
                let upkeep = self.upkeep.get(&name);
                let Some(due) = upkeep.and_then(|upkeep| upkeep.due(seen, now)) else { continue };
                if due > now {
                    next = next.into_iter().chain([due]).min();
                    continue;
                }
                changed = seen.cloned();
            }
            if self.retries.pending(&name, &version, now).is_none() {
                all.push(Due { exists: seen.is_some(), name, version, changed });
            }
        }
        (all, next)
    }

    fn record(&mut self, due: Due, made: Result<Stored, kube::Error>) {
        let Due { name, version, exists, changed } = due;
        match made {
            Ok(made) => {
                let made = made.object.map(kinds::without_schemas).unwrap_or_default();
                let settled = Sight::of(&made);
                match (self.upkeep.get_mut(&name), changed) {
                    (Some(upkeep), Some(changed)) => {
                        tracing::info!(target: LOGGER, %name, "CRD was changed, written again");
                        upkeep.rewritten(changed, &settled, Instant::now());
                    }
                    _ => {
                        tracing::info!(target: LOGGER, %name, "CRD written");
                        self.upkeep.insert(name.clone(), Upkeep::new(&settled));
                    }
                }
                self.report(&name, None);
                self.retries.succeeded(&name);
                self.written.insert(name, version);
            }
            Err(error) => {
                tracing::warn!(target: LOGGER, %name, %error, "CRD not written, trying again");
                let reason = error.to_string();
                self.report(&name, Some((exists, error)));
                self.retries.failed(name, version, reason, Instant::now());
            }
        }
    }

    /// Shows in the status of a template that its CRD could not be written (TC-40), or could.
    fn report(&self, definition: &str, failed: Option<(bool, kube::Error)>) {
        let template = definition.split('.').next().unwrap_or_default();
        let kind = Kind { group: templates::GROUP.to_owned(), kind: templates::KIND.to_owned() };
        let key = Key { namespace: "".into(), name: template.into() };
        let report = failed.map(|(is_update, error)| {
            let (code, verb) =
                if is_update { ("update_error", "update") } else { ("create_error", "create") };
            let message = format!("Could not {verb} CRD: {error}");
            Report { errors: vec![ReportedError { code, message }], ..Report::default() }
        });
        self.context.reports.set(CONTROLLER, &kind, &key, report);
    }
}

impl Reconcile for Writer {
    type Desired = Definitions;

    fn desired(&mut self, _: &Arc<State>) -> Definitions {
        let definitions = self.definitions.borrow_and_update().clone();
        let is_wanted = |name: &String| definitions.wanted.contains_key(name);
        self.written.retain(|name, _| is_wanted(name));
        self.upkeep.retain(|name, _| is_wanted(name));
        self.retries.retain(|name, _| is_wanted(name));
        definitions
    }

    async fn apply(&mut self, definitions: Definitions) -> Option<Instant> {
        let (all, next) = self.due(definitions);
        let (api, context) = (self.api.clone(), self.context.clone());
        let writes = all.into_iter().map(async |due| {
            if !context.leads() {
                return None;
            }
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let made = api.patch(&due.name, &params, &Patch::Apply(&due.version.0)).await;
            Some((due, made))
        });
        let mut writes = stream::iter(writes).buffer_unordered(AT_ONCE);
        while let Some(Some((due, made))) = writes.next().await {
            self.record(due, made);
        }
        [next, self.retries.next()].into_iter().flatten().min()
    }

    async fn changed(&mut self) {
        if self.definitions.changed().await.is_err() {
            pending().await
        }
    }

    fn ended(&mut self) {
        // The next leader may write less than this process did.
        self.written.clear();
        self.context.reports.replace(CONTROLLER, BTreeMap::new());
    }
}
