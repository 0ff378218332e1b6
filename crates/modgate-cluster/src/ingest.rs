//! Builds the policy set that decides requests from the objects that watches deliver. No IO here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::api::meta::ObjectExt as _;
use modgate_engine::{
    Change, Compiled, EngineConfig, Host as _, OnError, PolicyId, PolicySource, Problem, Severity,
    Snapshot, Update,
    api::{
        admissionregistration::{self as registration, ParamKind},
        config::{self, Config},
        constraints,
        meta::GroupVersionKind,
        modrule,
        syncset::{self, SyncSet},
        templates,
    },
    constraint::Fields,
    lint::{self, Definitions},
};
use modgate_policies::{Objects, PolicySet, manifest};
use modgate_value::{Object, Str, Value, diag::Diagnostic};

use super::{
    LOGGER, broken,
    kinds::{self, Kind},
    object::{Item, Key},
    state::{Loaded, OfKind},
    sync::{SyncedInventory, SyncedKind},
    watches::{Seen, Target},
};

/// Policies as the cluster has them, and the policy set built from them.
#[derive(Debug)]
pub(crate) struct Ingest {
    /// Configs of other namespaces have no effect (ST-30).
    namespace: Str,
    policies: BTreeMap<Kind, Arc<OfKind>>,
    objects: Objects,
    broken: BTreeSet<PolicyId>,
    changes: Vec<Change>,
    /// Whether the next policy set has changes other than those of policies and inventory.
    changed: bool,
    /// Whether Nodes have changed, which say that they are alive every few minutes each.
    nodes_changed: bool,
    /// Whether what bindings of the cluster's own policies pass has changed.
    params_changed: bool,
    /// Kinds of the core group whose objects were all seen.
    listed: BTreeSet<String>,
    sync: SyncedInventory,
    synced: Arc<BTreeMap<GroupVersionKind, SyncedKind>>,
    /// The last Config.
    config: Config,
    /// Whether what is to be synced may have changed.
    sync_stale: bool,
    /// ModRules that look at Nodes.
    node_rules: BTreeSet<Key>,
    /// Whether whole objects are synced, whatever policies look at.
    keeps_all_fields: bool,
    /// The custom resources of the cluster.
    definitions: Arc<Definitions>,
    /// Warnings about SyncSets, which the engine does not load.
    warnings: Vec<Problem>,
    /// Compiled policies that were not reported yet.
    compiled: Vec<Compiled>,
    /// The newest policies, while they wait for fields of synced objects.
    held: Option<Snapshot>,
    current: Arc<PolicySet>,
}

/// Kinds of parameters that are watched.
const MAX_PARAM_KINDS: usize = 64;

/// How much work the next policy set is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Pending {
    Nothing,
    /// Objects in the inventory, of which there may be a thousand a second, parameters and Nodes.
    Inventory,
    /// Policies, and objects that decide where they apply.
    Policies,
}

impl Ingest {
    /// An empty policy set. `namespace` is the one whose Config counts.
    pub(crate) fn new(config: EngineConfig, namespace: Str, objects: Objects) -> Self {
        Self {
            namespace,
            policies: BTreeMap::new(),
            broken: BTreeSet::new(),
            changes: Vec::new(),
            changed: false,
            nodes_changed: false,
            params_changed: false,
            listed: BTreeSet::new(),
            sync: SyncedInventory::default(),
            synced: Arc::default(),
            config: Config::default(),
            sync_stale: false,
            node_rules: BTreeSet::new(),
            keeps_all_fields: false,
            definitions: Arc::default(),
            warnings: Vec::new(),
            compiled: Vec::new(),
            held: None,
            current: Arc::new(PolicySet {
                snapshot: Snapshot::new(config),
                objects: objects.clone(),
                inventory: modgate_engine::constraint::Inventory::default(),
            }),
            objects,
        }
    }

    /// Takes in a CustomResourceDefinition, which the next policies are compared with.
    pub(crate) fn define(&mut self, definition: &Value) {
        Arc::make_mut(&mut self.definitions).add_kind(definition);
    }

    /// Forgets a CustomResourceDefinition that is gone, by its name.
    pub(crate) fn undefine(&mut self, name: &str) {
        Arc::make_mut(&mut self.definitions).remove(name);
    }

    /// The policies that were compiled since this was last asked.
    pub(crate) fn take_compiled(&mut self) -> Vec<Compiled> {
        std::mem::take(&mut self.compiled)
    }

    /// The policy set of the last [`apply`](Self::apply).
    pub(crate) fn current(&self) -> &Arc<PolicySet> {
        &self.current
    }

    /// Policies whose newest version does not load.
    pub(crate) fn broken(&self) -> &BTreeSet<PolicyId> {
        &self.broken
    }

    /// Policies as the cluster has them, and what is wrong with them.
    pub(crate) fn policies(&self) -> &BTreeMap<Kind, Arc<OfKind>> {
        &self.policies
    }

    /// The state of the synced kinds, as of the last [`apply`](Self::apply).
    pub(crate) fn synced(&self) -> &Arc<BTreeMap<GroupVersionKind, SyncedKind>> {
        &self.synced
    }

    /// The synced kinds.
    pub(crate) fn sync(&self) -> &SyncedInventory {
        &self.sync
    }

    /// The kinds to list anew since this was last asked.
    pub(crate) fn take_refills(&mut self) -> BTreeSet<GroupVersionKind> {
        self.sync.take_refills()
    }

    /// Whether any policy looks at Nodes. Others that come upon one all the same ask the cluster.
    pub(crate) fn wants_nodes(&self) -> bool {
        !self.node_rules.is_empty() || self.sync.wants(&kinds::gvk(&kinds::nodes()))
    }

    /// Syncs whole objects, whatever policies look at: for audits of synced objects.
    pub(crate) fn keep_all_fields(&mut self) {
        self.keeps_all_fields = true;
    }

    /// Whether the newest policies wait for fields of synced objects, so that those before them are
    /// still in force.
    pub(crate) fn awaits_fields(&self) -> bool {
        self.held.is_some()
    }

    /// Ends the wait for fields of synced objects.
    pub(crate) fn stop_waiting_for_fields(&mut self) {
        if let Some(snapshot) = self.held.take() {
            let PolicySet { objects, inventory, .. } = &*self.current;
            let (objects, inventory) = (objects.clone(), inventory.clone());
            self.current = Arc::new(PolicySet { snapshot, objects, inventory });
            self.sync.give_up_fields();
            self.changed = true;
        }
    }

    /// The work of the next [`apply`](Self::apply).
    pub(crate) fn pending(&self) -> Pending {
        let is_released = self.held.is_some() && !self.sync.lacks_fields();
        if self.changed || !self.changes.is_empty() || self.sync.report_has_changed() || is_released
        {
            Pending::Policies
        } else if self.sync.has_changed() || self.nodes_changed || self.params_changed {
            Pending::Inventory
        } else {
            Pending::Nothing
        }
    }

    /// Takes in what a watch saw; it has an effect with the next [`apply`](Self::apply). Returns
    /// what is wrong with objects that cannot even be read.
    pub(crate) fn take(&mut self, target: &Target, seen: Seen) -> Vec<Diagnostic> {
        let kind = match target {
            Target::Kind(kind) => kind,
            Target::Synced(kind) => {
                self.sync.take(kind, seen);
                return Vec::new();
            }
            Target::Params(kind) => {
                self.take_params(kind, seen);
                return Vec::new();
            }
            Target::Types(_) => {
                self.take_types(seen);
                return Vec::new();
            }
        };
        let mut findings = Vec::new();
        if kind.group.is_empty() {
            self.share(kind, &seen);
        }
        match seen {
            Seen::All(all, _) => {
                let present: BTreeSet<Key> = all.iter().map(|item| item.key.clone()).collect();
                self.retain(kind, |key| present.contains(key));
                for item in all {
                    self.apply_one(kind, item, &mut findings);
                }
                if kind.group.is_empty() {
                    self.listed.insert(kind.kind.clone());
                }
            }
            Seen::Applied(item) => self.apply_one(kind, item, &mut findings),
            Seen::Deleted(Item { key: gone, .. }) => self.retain(kind, |key| *key != gone),
            Seen::Failed(_) | Seen::Served(_) | Seen::NotServed => {}
        }
        if std::mem::take(&mut self.sync_stale) {
            self.sync_configured(&mut findings);
        }
        findings
    }

    /// The objects that policies read beside requests.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Definitions of custom resources whose types policies need.
    fn take_types(&mut self, seen: Seen) {
        let types = self.objects.watched_types_mut();
        // A definition that cannot be read defines nothing; those of other groups come without content.
        let needed = |item: &Item| item.object.as_ref().is_ok_and(|it| !it.is_null());
        self.params_changed |= match &seen {
            Seen::All(all, _) => {
                let all = all.iter().filter(|item| needed(item));
                types.replace(all.filter_map(|item| item.object.as_ref().ok()))
            }
            Seen::Applied(Item { object: Ok(object), .. }) if !object.is_null() => {
                types.insert(object)
            }
            Seen::Deleted(Item { object: Ok(object), .. }) if !object.is_null() => {
                types.remove(object)
            }
            Seen::Failed(problem) => {
                let is_new = types.failed(problem.clone());
                if is_new {
                    tracing::error!(target: LOGGER, error = problem,
                        "CustomResourceDefinitions cannot be read: ApplyConfiguration of custom resources fails");
                }
                is_new
            }
            Seen::Applied(_) | Seen::Deleted(_) | Seen::Served(_) | Seen::NotServed => false,
        };
    }

    fn take_params(&mut self, kind: &ParamKind, seen: Seen) {
        let place = |key: Key| (key.namespace, key.name);
        let params = self.objects.watched_params_mut();
        self.params_changed |= match seen {
            Seen::All(all, _) => {
                let readable = all.into_iter().filter_map(|Item { key, object }| {
                    object
                        .inspect_err(|error| unreadable(kind, &key, error))
                        .ok()
                        .map(|object| (place(key), object))
                });
                params.replace(kind, readable.collect())
            }
            Seen::Applied(Item { key, object: Ok(object) }) => {
                params.insert(kind, place(key), object)
            }
            // A parameter that cannot be read is missing.
            Seen::Applied(Item { key, object: Err(error) }) => {
                unreadable(kind, &key, &error);
                params.remove(kind, &place(key))
            }
            Seen::Deleted(Item { key, .. }) => params.remove(kind, &place(key)),
            Seen::Failed(problem) => params.failed(kind, problem),
            Seen::Served(scope) => params.found(kind, scope),
            Seen::NotServed => params.missing(kind),
        };
    }

    /// Follows the parameters of the policies that are bound, and the types that they need.
    fn want_params(&mut self, snapshot: &Snapshot) {
        let mut kinds = snapshot.cluster_policies().bound_param_kinds();
        if kinds.len() > MAX_PARAM_KINDS {
            let count = kinds.len();
            tracing::error!(target: LOGGER, count, followed = MAX_PARAM_KINDS,
                "too many kinds of parameters: policies with other kinds fail as their failurePolicy sets");
            kinds = kinds.into_iter().take(MAX_PARAM_KINDS).collect();
        }
        self.objects.watched_params_mut().want(&kinds);
        self.objects.watched_types_mut().want(snapshot.cluster_policies().configured_groups());
    }

    /// Takes out a kind that the cluster no longer has.
    pub(crate) fn forget(&mut self, kind: &Kind) {
        self.retain(kind, |_| false);
        if kind.group.is_empty() {
            self.listed.remove(&kind.kind);
        }
        self.policies.remove(kind);
        if std::mem::take(&mut self.sync_stale) {
            self.sync_configured(&mut Vec::new());
        }
    }

    /// Namespaces and Nodes are watched once, also if they are synced.
    fn share(&mut self, kind: &Kind, seen: &Seen) {
        let synced = core(&kind.kind);
        if !self.sync.wants(&synced) {
            return;
        }
        let seen = match seen {
            Seen::All(all, fields) => Seen::All(all.clone(), Arc::clone(fields)),
            Seen::Applied(item) => Seen::Applied(item.clone()),
            Seen::Deleted(item) => Seen::Deleted(item.clone()),
            Seen::Failed(problem) => Seen::Failed(problem.clone()),
            Seen::Served(_) | Seen::NotServed => return,
        };
        self.sync.take(&synced, seen);
    }

    /// Brings what is synced in line with the Config and the SyncSets (ST-31).
    fn sync_configured(&mut self, findings: &mut Vec<Diagnostic>) {
        let mut wanted = BTreeSet::new();
        let key = Key { namespace: self.namespace.clone(), name: config::NAME.into() };
        let configs = Kind { group: config::GROUP.to_owned(), kind: config::KIND.to_owned() };
        let object = self.policies.get(&configs).and_then(|known| known.get(&key));
        match object.map(|loaded| Config::from_value(&loaded.object)) {
            None => self.config = Config::default(),
            Some(Ok(config)) => self.config = config,
            // Reported as of every policy, and what it said before holds, as it does for requests.
            Some(Err(_)) => {}
        }
        wanted.extend(self.config.spec.sync.sync_only.iter().flatten().cloned());
        let sets = Kind { group: syncset::GROUP.to_owned(), kind: syncset::KIND.to_owned() };
        for (key, loaded) in self.policies.get(&sets).iter().flat_map(|known| known.iter()) {
            match SyncSet::from_value(&loaded.object) {
                Ok(set) => wanted.extend(set.kinds().cloned()),
                Err(error) => {
                    findings.push(Diagnostic::error(format!("{}: {error}", id(&sets, key))));
                }
            }
        }
        let new = self.sync.want(&wanted);
        self.sync.exclude(&self.config);
        let refills = self.sync.refills().filter(|kind| kind.group.is_empty());
        let refills: Vec<_> = refills.cloned().chain(new).collect();
        for kind in refills.iter().filter(|kind| kind.group.is_empty() && kind.version == "v1") {
            self.fill(kind);
        }
    }

    /// Fills a synced kind from the objects that are kept anyway, if it is one of those.
    fn fill(&mut self, kind: &GroupVersionKind) {
        let resource = [kinds::namespaces(), kinds::nodes()].into_iter();
        if !resource.map(|resource| kinds::gvk(&resource)).any(|shared| shared == *kind) {
            return;
        }
        self.sync.take_refill(kind);
        // Before they were listed all of them are still to come.
        if !self.listed.contains(kind.kind.as_str()) {
            return;
        }
        let item = |object: &Value| {
            let name = object.metadata("name");
            let name = Str::from(name.unwrap_or_default());
            Item { key: Key { namespace: Str::default(), name }, object: Ok(object.clone()) }
        };
        let all = self.objects.references().of_kind(&kind.kind).map(item).collect();
        self.sync.take(kind, Seen::All(all, Arc::new(Fields::all())));
    }

    fn retain(&mut self, kind: &Kind, keep: impl Fn(&Key) -> bool) {
        if kind.group.is_empty() {
            let has_changed = self.objects.references_mut().retain(&kind.kind, |name| {
                keep(&Key { namespace: Str::default(), name: name.into() })
            });
            self.object_changed(kind, has_changed);
            return;
        }
        let Some(known) = self.policies.get_mut(kind) else { return };
        let gone: Vec<Key> = known.keys().filter(|key| !keep(key)).cloned().collect();
        if gone.is_empty() {
            return;
        }
        self.changed = true;
        self.sync_stale |= decides_sync(kind);
        let known = Arc::make_mut(known);
        for key in gone {
            known.remove(&key);
            let id = id(kind, &key);
            self.broken.remove(&id);
            if kind.group == modrule::GROUP {
                self.node_rules.remove(&key);
            }
            self.changes.push(Change::Remove(id));
        }
    }

    /// Notes that a Namespace or Node has changed, if it has. All Nodes that were there at first are as
    /// important as policies, which are not in force before.
    fn object_changed(&mut self, kind: &Kind, has_changed: bool) {
        if kind.kind == kinds::nodes().kind && self.listed.contains(&kind.kind) {
            self.nodes_changed |= has_changed;
        } else {
            self.changed |= has_changed;
        }
    }

    fn apply_one(&mut self, kind: &Kind, item: Item, findings: &mut Vec<Diagnostic>) {
        let Item { key, object } = item;
        let object = match object {
            Ok(object) => object,
            Err(error) => {
                // What was in force of it before no longer is what the cluster stores.
                self.retain(kind, |known| *known != key);
                let id = id(kind, &key);
                findings.push(Diagnostic::error(format!("{id}: cannot be read: {error}")));
                if !kind.group.is_empty() {
                    self.broken.insert(id);
                }
                return;
            }
        };
        if kind.group.is_empty() {
            let has_changed = self.objects.references_mut().update(&object);
            self.object_changed(kind, has_changed);
            return;
        }
        if kind.group == config::GROUP
            && !(key.namespace == self.namespace && key.name == config::NAME)
        {
            // In Gatekeeper's words (ST-30).
            let Key { namespace, name } = &key;
            tracing::info!(target: LOGGER, %namespace, %name, "Ignoring unsupported config name");
            return;
        }
        if kinds::is_our_own(kind) && key.namespace != self.namespace {
            return;
        }
        if is_leaving(kind, &object) || is_of_template(kind, &object) {
            self.retain(kind, |known| *known != key);
            return;
        }
        let object = as_written(object);
        let known = self.policies.entry(kind.clone()).or_default();
        // Statuses are written often, and after a watch has broken off everything comes again.
        if known.get(&key).is_some_and(|known| known.object == object) {
            return;
        }
        self.changed = true;
        self.sync_stale |= decides_sync(kind);
        if kind.group == modrule::GROUP {
            if looks_at_nodes(&object) {
                self.node_rules.insert(key.clone());
            } else {
                self.node_rules.remove(&key);
            }
        }
        let loaded = Loaded { object: object.clone(), problems: Vec::new() };
        Arc::make_mut(known).insert(key, Arc::new(loaded));
        let source = PolicySource::of_object(object);
        // SyncSets and Connections are none of the engine's.
        if Snapshot::takes(&source.object) {
            self.changes.push(Change::Upsert(source));
        } else {
            self.warnings.extend(lint::read(&source, &self.definitions));
        }
    }

    /// Builds the next policy set; `None` if nothing has changed. Returns the findings about the policies
    /// that changed.
    pub(crate) fn apply(&mut self) -> Option<Vec<Diagnostic>> {
        if self.pending() == Pending::Nothing {
            return None;
        }
        let changes = std::mem::take(&mut self.changes);
        (self.changed, self.nodes_changed, self.params_changed) = (false, false, false);
        self.sync.take_changed();
        if self.sync.take_report_changed() {
            self.synced = Arc::new(self.sync.kinds().clone());
        }
        for change in &changes {
            if let Change::Upsert(source) = change {
                self.broken.remove(&source.id());
            }
        }
        let before = self.held.take().unwrap_or_else(|| self.current.snapshot.clone());
        let Update { snapshot, mut problems, compiled } = if changes.is_empty() {
            Update { snapshot: before, problems: Vec::new(), compiled: Vec::new() }
        } else {
            let before = before.with_definitions(Arc::clone(&self.definitions));
            before.apply_timed(changes, OnError::Unload, self.objects.clock())
        };
        self.compiled.extend(compiled);
        if !self.keeps_all_fields {
            self.sync.look_at(snapshot.constraints().inventory_reads());
        }
        self.want_params(&snapshot);
        problems.append(&mut self.warnings);
        for problem in &problems {
            if problem.severity == Severity::Error {
                self.broken.insert(problem.policy.clone());
            }
            self.note(problem);
        }
        self.broken.retain(|id| broken::is_still(id, &snapshot, &self.policies));
        let snapshot = if self.sync.lacks_fields() {
            let in_force = self.current.snapshot.clone();
            self.held = Some(snapshot);
            in_force
        } else {
            snapshot
        };
        self.current = Arc::new(PolicySet {
            snapshot,
            objects: self.objects.clone(),
            inventory: self.sync.inventory().clone(),
        });
        Some(problems.iter().map(|problem| manifest::diagnose(problem, None)).collect())
    }

    fn note(&mut self, problem: &Problem) {
        let PolicyId { group, kind, namespace, name } = &problem.policy;
        let kind = Kind { group: group.to_string(), kind: kind.to_string() };
        let key = Key { namespace: namespace.clone(), name: name.clone() };
        let known = self.policies.get_mut(&kind).map(Arc::make_mut);
        if let Some(loaded) = known.and_then(|known| known.get_mut(&key)) {
            let loaded = Arc::make_mut(loaded);
            // A template that comes and goes finds the same each time.
            if !loaded.problems.contains(problem) {
                loaded.problems.push(problem.clone());
            }
        }
    }
}

fn core(kind: &str) -> GroupVersionKind {
    GroupVersionKind { group: "".into(), version: "v1".into(), kind: kind.into() }
}

/// Whether objects of a kind name the synced kinds.
fn decides_sync(kind: &Kind) -> bool {
    kind.group == config::GROUP || kind.group == syncset::GROUP
}

/// Whether a ModRule mentions the Node of its object. That nothing is missed is not essential: a Node
/// that is not kept is needed.
fn looks_at_nodes(rule: &Value) -> bool {
    rule.get("spec").is_some_and(|spec| spec.to_json().contains("syntheticRefs"))
}

fn id(kind: &Kind, key: &Key) -> PolicyId {
    PolicyId {
        group: kind.group.as_str().into(),
        kind: kind.kind.as_str().into(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

/// Whether an object that is being deleted, but has finalizers, has no effect any more: so it is for
/// Gatekeeper's kinds (ST-10), while KubeMod's rules and the cluster's own policies hold until they are
/// gone.
fn is_leaving(kind: &Kind, object: &Value) -> bool {
    let holds = [modrule::GROUP, registration::GROUP].contains(&kind.group.as_str());
    !holds && object.path(&["metadata", "deletionTimestamp"]).is_some()
}

/// Whether one of the cluster's own policies, or a binding, was generated for a template or a constraint,
/// which modgate evaluates itself.
fn is_of_template(kind: &Kind, object: &Value) -> bool {
    let owners = object.path(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    let is_ours = |owner: &Value| {
        let version = owner.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let group = version.split_once('/').map_or("", |(group, _)| group);
        [templates::GROUP, constraints::GROUP].contains(&group)
    };
    kind.group == registration::GROUP
        && owners.into_iter().flat_map(|owners| owners.iter()).any(is_ours)
}

fn unreadable(kind: &ParamKind, key: &Key, error: &str) {
    let Key { namespace, name } = key;
    tracing::error!(target: LOGGER, kind = %kind.kind, %namespace, %name, error,
        "a parameter cannot be read: policies do not see it");
}

/// The object as its author wrote it: without the fields that the API server and controllers add.
fn as_written(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.remove("status");
        if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
            Object::remove(metadata, "resourceVersion");
        }
    }
    object
}

#[cfg(test)]
mod tests;
