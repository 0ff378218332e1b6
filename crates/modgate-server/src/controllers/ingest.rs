//! What watches see, taken into the world that requests are decided by. No IO here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::{
    Change, EngineConfig, OnError, PolicyId, PolicySource, Problem, Severity, Snapshot, Update,
    api::{config, modrule},
    constraint::Inventory,
};
use modgate_value::{Object, Str, Value, diag::Diagnostic};

use super::{
    kinds::Kind,
    object::{Key, Stored},
    state::{Loaded, OfKind},
    watches::Seen,
};
use crate::{
    manifest,
    policies::{Objects, World},
};

/// Policies as the cluster has them, and the world made from them.
#[derive(Debug)]
pub(crate) struct Ingest {
    /// Configs of other namespaces have no effect (ST-30).
    namespace: Str,
    policies: BTreeMap<Kind, Arc<OfKind>>,
    objects: Objects,
    broken: BTreeSet<PolicyId>,
    changes: Vec<Change>,
    objects_changed: bool,
    world: Arc<World>,
}

impl Ingest {
    /// An empty world. `namespace` is the one whose Config counts.
    pub(crate) fn new(config: EngineConfig, namespace: Str, objects: Objects) -> Self {
        Self {
            namespace,
            policies: BTreeMap::new(),
            broken: BTreeSet::new(),
            changes: Vec::new(),
            objects_changed: false,
            world: Arc::new(World {
                snapshot: Snapshot::new(config),
                objects: objects.clone(),
                inventory: Inventory::default(),
            }),
            objects,
        }
    }

    /// The newest world; older than what was [taken in](Self::take) since the last
    /// [`apply`](Self::apply).
    pub(crate) fn world(&self) -> &Arc<World> {
        &self.world
    }

    /// Policies whose newest version does not load.
    pub(crate) fn broken(&self) -> &BTreeSet<PolicyId> {
        &self.broken
    }

    /// Policies as the cluster has them, and what is wrong with them.
    pub(crate) fn policies(&self) -> &BTreeMap<Kind, Arc<OfKind>> {
        &self.policies
    }

    /// Takes in what a watch saw; it has an effect with the next [`apply`](Self::apply). Returns
    /// what is wrong with objects that cannot even be read.
    pub(crate) fn take(&mut self, kind: &Kind, seen: Seen) -> Vec<Diagnostic> {
        let mut findings = Vec::new();
        match seen {
            Seen::All(all) => {
                let present: BTreeSet<Key> = all.iter().map(Stored::key).collect();
                self.retain(kind, |key| present.contains(key));
                for stored in all {
                    self.apply_one(kind, stored, &mut findings);
                }
            }
            Seen::Applied(stored) => self.apply_one(kind, stored, &mut findings),
            Seen::Deleted(stored) => {
                let gone = stored.key();
                self.retain(kind, |key| *key != gone);
            }
        }
        findings
    }

    /// Takes out a kind that the cluster no longer has.
    pub(crate) fn forget(&mut self, kind: &Kind) {
        self.retain(kind, |_| false);
        self.policies.remove(kind);
    }

    fn retain(&mut self, kind: &Kind, keep: impl Fn(&Key) -> bool) {
        if kind.group.is_empty() {
            self.objects_changed |= self.objects.retain(&kind.kind, |name| {
                keep(&Key { namespace: Str::default(), name: name.into() })
            });
            return;
        }
        let Some(known) = self.policies.get_mut(kind) else { return };
        let gone: Vec<Key> = known.keys().filter(|key| !keep(key)).cloned().collect();
        if gone.is_empty() {
            return;
        }
        let known = Arc::make_mut(known);
        for key in gone {
            known.remove(&key);
            let id = id(kind, &key);
            self.broken.remove(&id);
            self.changes.push(Change::Remove(id));
        }
    }

    fn apply_one(&mut self, kind: &Kind, stored: Stored, findings: &mut Vec<Diagnostic>) {
        let key = stored.key();
        let object = match stored.object {
            Ok(object) => object,
            Err(error) => {
                // What was in force of it before no longer is what the cluster stores (Q-16).
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
            self.objects_changed |= self.objects.take(&object);
            return;
        }
        if kind.group == config::GROUP && key.namespace != self.namespace {
            return;
        }
        if is_leaving(kind, &object) {
            self.retain(kind, |known| *known != key);
            return;
        }
        let object = as_written(object);
        let known = self.policies.entry(kind.clone()).or_default();
        // Statuses are written often, and after a watch has broken off everything comes again.
        if known.get(&key).is_some_and(|known| known.object == object) {
            return;
        }
        let loaded = Loaded { object: object.clone(), problems: Vec::new() };
        Arc::make_mut(known).insert(key, Arc::new(loaded));
        self.changes.push(Change::Upsert(PolicySource::of_object(object)));
    }

    /// Makes the next world of everything taken in; `None` if nothing has changed. Returns what is
    /// wrong with the policies that changed.
    pub(crate) fn apply(&mut self) -> Option<Vec<Diagnostic>> {
        if self.changes.is_empty() && !self.objects_changed {
            return None;
        }
        let changes = std::mem::take(&mut self.changes);
        self.objects_changed = false;
        for change in &changes {
            if let Change::Upsert(source) = change {
                self.broken.remove(&source.id());
            }
        }
        let Update { snapshot, problems } = if changes.is_empty() {
            Update { snapshot: self.world.snapshot.clone(), problems: Vec::new() }
        } else {
            self.world.snapshot.apply(changes, OnError::Unload)
        };
        for problem in &problems {
            if problem.severity == Severity::Error {
                self.broken.insert(problem.policy.clone());
            }
            self.note(problem);
        }
        self.world = Arc::new(World {
            snapshot,
            objects: self.objects.clone(),
            inventory: self.world.inventory.clone(),
        });
        Some(problems.iter().map(|problem| manifest::diagnose(problem, None)).collect())
    }

    fn note(&mut self, problem: &Problem) {
        let PolicyId { group, kind, namespace, name } = &problem.policy;
        let kind = Kind { group: group.to_string(), kind: kind.to_string() };
        let key = Key { namespace: namespace.clone(), name: name.clone() };
        let known = self.policies.get_mut(&kind).map(Arc::make_mut);
        if let Some(loaded) = known.and_then(|known| known.get_mut(&key)) {
            Arc::make_mut(loaded).problems.push(problem.clone());
        }
    }
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
/// Gatekeeper's kinds (ST-10), while KubeMod's rules hold until they are gone.
fn is_leaving(kind: &Kind, object: &Value) -> bool {
    kind.group != modrule::GROUP && object.path(&["metadata", "deletionTimestamp"]).is_some()
}

/// What people wrote: without what the API server and controllers add as time goes by.
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
mod tests {
    use modgate_engine::{Host as _, api::modrule};

    use super::*;

    fn kind(group: &str, kind: &str) -> Kind {
        Kind { group: group.to_owned(), kind: kind.to_owned() }
    }

    fn rules() -> Kind {
        kind(modrule::GROUP, modrule::KIND)
    }

    fn stored(json: &str) -> Stored {
        serde_json::from_str(json).expect("object")
    }

    fn rule(name: &str, select: &str, more: &str) -> Stored {
        stored(&format!(
            r#"{{"apiVersion": "api.kubemod.io/v1beta1", "kind": "ModRule",
            "metadata": {{"name": "{name}", "namespace": "n"{more}}},
            "spec": {{"type": "Reject", "match": [{{"select": "{select}"}}]}}}}"#
        ))
    }

    struct Fixture(Ingest);

    impl Fixture {
        fn new() -> Self {
            let objects = Objects::default();
            Self(Ingest::new(EngineConfig::default(), "gatekeeper-system".into(), objects))
        }

        /// What is found, and what is in force afterwards.
        fn take(&mut self, kind: &Kind, seen: Seen) -> Option<(Vec<String>, Vec<String>)> {
            let unread = self.0.take(kind, seen);
            let found = self.0.apply()?;
            let texts = unread.iter().chain(&found).map(|found| found.to_string());
            let policies = self.0.world().snapshot.policies().map(|id| id.to_string());
            Some((texts.collect(), policies.collect()))
        }
    }

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn policies_come_change_and_go() {
        let mut fixture = Fixture::new();
        let all = Seen::All(vec![rule("a", "$.kind", ""), rule("b", "$.kind", "")]);
        let both = texts(&["ModRule n/a", "ModRule n/b"]);
        assert_eq!(fixture.take(&rules(), all), Some((vec![], both.clone())));

        let same = rule("b", "$.kind", r#", "resourceVersion": "9", "managedFields": []"#);
        assert_eq!(fixture.take(&rules(), Seen::Applied(same)), None, "nothing new");

        let gone = Seen::Deleted(rule("a", "$.kind", ""));
        assert_eq!(fixture.take(&rules(), gone), Some((vec![], texts(&["ModRule n/b"]))));

        let again = Seen::All(vec![rule("c", "$.kind", "")]);
        assert_eq!(fixture.take(&rules(), again), Some((vec![], texts(&["ModRule n/c"]))));

        fixture.0.forget(&rules());
        assert_eq!(fixture.0.apply().map(|found| found.len()), Some(0));
        assert_eq!(fixture.0.world().snapshot.policies().count(), 0);
    }

    #[test]
    fn a_bad_policy_stops_nothing_and_is_not_in_force() {
        let mut fixture = Fixture::new();
        let all = Seen::All(vec![rule("a", "$.kind", ""), rule("b", "$.kind", "")]);
        fixture.take(&rules(), all).expect("loaded");
        let all = Seen::All(vec![rule("a", "$.kind[", ""), rule("c", "$.kind", "")]);
        let (found, policies) = fixture.take(&rules(), all).expect("loaded");
        assert_eq!(policies, ["ModRule n/c"]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("ModRule n/a"), "{found:?}");
        assert_eq!(fixture.0.broken().len(), 1);

        let fixed = Seen::Applied(rule("a", "$.kind", ""));
        let good = texts(&["ModRule n/a", "ModRule n/c"]);
        assert_eq!(fixture.take(&rules(), fixed), Some((vec![], good)));
        assert_eq!(fixture.0.broken().len(), 0);
    }

    #[test]
    fn a_policy_that_cannot_be_read() {
        let mut fixture = Fixture::new();
        fixture.take(&rules(), Seen::All(vec![rule("a", "$.kind", "")])).expect("loaded");
        let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
        let bad = stored(&format!(
            r#"{{"metadata": {{"name": "a", "namespace": "n"}}, "spec": {deep}}}"#
        ));
        let (found, policies) = fixture.take(&rules(), Seen::Applied(bad)).expect("changed");
        assert_eq!(policies, [""; 0]);
        assert!(found[0].starts_with("ModRule n/a: cannot be read: "), "{found:?}");
        assert_eq!(fixture.0.broken().len(), 1);
    }

    #[test]
    fn leaving_policies_of_gatekeeper_have_left() {
        let assign = |more: &str| {
            stored(&format!(
                r#"{{"apiVersion": "mutations.gatekeeper.sh/v1", "kind": "Assign",
                "metadata": {{"name": "a"{more}}}, "spec": {{"location": "spec.a",
                "applyTo": [{{"groups": [""], "versions": ["v1"], "kinds": ["Pod"]}}],
                "parameters": {{"assign": {{"value": 1}}}}}}}}"#
            ))
        };
        let assigns = kind("mutations.gatekeeper.sh", "Assign");
        let leaving = r#", "deletionTimestamp": "2026-01-01T00:00:00Z""#;
        let mut fixture = Fixture::new();
        let loaded = fixture.take(&assigns, Seen::Applied(assign("")));
        assert_eq!(loaded, Some((vec![], texts(&["Assign a"]))));
        let left = fixture.take(&assigns, Seen::Applied(assign(leaving)));
        assert_eq!(left, Some((vec![], vec![])));

        let loaded = fixture.take(&rules(), Seen::Applied(rule("a", "$.kind", leaving)));
        assert_eq!(loaded, Some((vec![], texts(&["ModRule n/a"]))));
    }

    #[test]
    fn configs_of_other_namespaces() {
        let config = |namespace: &str| {
            stored(&format!(
                r#"{{"apiVersion": "config.gatekeeper.sh/v1alpha1", "kind": "Config",
                "metadata": {{"name": "config", "namespace": "{namespace}"}}, "spec": {{}}}}"#
            ))
        };
        let configs = kind("config.gatekeeper.sh", "Config");
        let mut fixture = Fixture::new();
        assert_eq!(fixture.take(&configs, Seen::Applied(config("other"))), None);
        let loaded = fixture.take(&configs, Seen::Applied(config("gatekeeper-system")));
        assert_eq!(loaded, Some((vec![], vec![])));
    }

    #[test]
    fn namespaces() {
        let namespace = |name: &str| {
            stored(&format!(
                r#"{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}"#
            ))
        };
        let namespaces = kind("", "Namespace");
        let mut fixture = Fixture::new();
        let all = Seen::All(vec![namespace("a"), namespace("b")]);
        fixture.take(&namespaces, all).expect("loaded");
        let snapshot = |fixture: &Fixture| fixture.0.world().objects.clone();
        let labelled = |objects: &Objects, name: &str| {
            let namespace = objects.namespace(name).expect(name);
            namespace.path(&["metadata", "labels"]).is_some()
        };
        let first = snapshot(&fixture);
        assert!(!labelled(&first, "a"), "as the cluster has it");
        fixture.take(&namespaces, Seen::Deleted(namespace("a"))).expect("changed");
        let second = snapshot(&fixture);
        assert!(labelled(&second, "a"), "made up, as it is not there");
        assert!(!labelled(&second, "b"));
        assert!(!labelled(&first, "a"), "a world does not change");
    }
}
