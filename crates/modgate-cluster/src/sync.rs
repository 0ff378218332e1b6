//! The objects that policies see in `data.inventory` (8.5). No IO here.
//!
//! A change of the synced kinds or of the excluded namespaces adds and removes only what it names;
//! the rest stays as it is (Q-29). A kind that has to be listed again stays as it was until the
//! list is complete.
//!
//! Of each object those fields are kept that the loaded templates can look at. When they come to look
//! at more, the kind is listed again, and until it was they are not in force: data that lacks fields
//! is never taken for data that has none. When they come to look at less, fields are dropped at once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::{
    api::{
        config::{Config, Process},
        meta::GroupVersionKind,
    },
    constraint::{Fields, Inventory, Synced},
    gatekeeper::Exclusions,
    rego::Reads,
};
use modgate_value::{Str, Value};

use super::{
    object::{Item, Key},
    watches::Seen,
};

/// The inventory, and the kinds that it is made of.
#[derive(Debug)]
pub(crate) struct SyncedInventory {
    kinds: BTreeMap<GroupVersionKind, SyncedKind>,
    /// The patterns of excluded namespaces, and what they come to.
    patterns: BTreeSet<Str>,
    exclusions: Exclusions,
    inventory: Inventory,
    /// The data that policies read; everything until that is known.
    reads: Reads,
    /// Kinds to list anew.
    refills: BTreeSet<GroupVersionKind>,
    /// Whether the inventory has changed.
    changed: bool,
    /// Whether the report on kinds has changed.
    report_changed: bool,
}

/// The state of a kind that is to be synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyncedKind {
    /// Whether its objects were all seen at least once.
    pub(crate) listed: bool,
    /// Why its objects cannot be seen, for now.
    pub(crate) problem: Option<String>,
    /// Objects that cannot be read.
    pub(crate) unreadable: BTreeSet<Key>,
    /// The fields of its objects that are there.
    kept: Arc<Fields>,
    /// Those that policies look at.
    wanted: Arc<Fields>,
}

impl SyncedKind {
    /// Whether a process that starts need not wait for it any more: its objects were seen, or they
    /// cannot be (RD-5).
    fn is_settled(&self) -> bool {
        self.listed || self.problem.is_some()
    }

    fn new(wanted: Fields) -> Self {
        let wanted = Arc::new(wanted);
        Self {
            listed: false,
            problem: None,
            unreadable: BTreeSet::new(),
            kept: Arc::clone(&wanted),
            wanted,
        }
    }

    /// Whether objects lack fields that are looked at, and will have them soon.
    fn lacks_fields(&self) -> bool {
        self.listed && self.problem.is_none() && !self.kept.covers(&self.wanted)
    }

    /// The fields to keep of its objects.
    pub(crate) fn fields(&self) -> &Arc<Fields> {
        &self.wanted
    }
}

impl Default for SyncedInventory {
    fn default() -> Self {
        Self {
            kinds: BTreeMap::new(),
            patterns: BTreeSet::new(),
            exclusions: Exclusions::default(),
            inventory: Inventory::default(),
            reads: Reads::everything(),
            refills: BTreeSet::new(),
            changed: false,
            report_changed: false,
        }
    }
}

impl SyncedInventory {
    /// The data that policies see.
    pub(crate) fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The kinds, and what has become of them.
    pub(crate) fn kinds(&self) -> &BTreeMap<GroupVersionKind, SyncedKind> {
        &self.kinds
    }

    /// Whether a kind is synced.
    pub(crate) fn wants(&self, kind: &GroupVersionKind) -> bool {
        self.kinds.contains_key(kind)
    }

    /// Whether nothing need be waited for at start.
    pub(crate) fn is_settled(&self) -> bool {
        self.kinds.values().all(SyncedKind::is_settled)
    }

    /// Whether the inventory has changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.changed
    }

    /// Whether there is news of kinds since this was last asked.
    pub(crate) fn take_report_changed(&mut self) -> bool {
        std::mem::take(&mut self.report_changed)
    }

    pub(crate) fn report_has_changed(&self) -> bool {
        self.report_changed
    }

    /// The kinds to list anew.
    pub(crate) fn refills(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.refills.iter()
    }

    /// A kind need not be listed anew: its objects are at hand.
    pub(crate) fn take_refill(&mut self, kind: &GroupVersionKind) {
        self.refills.remove(kind);
    }

    /// The kinds to list anew since this was last asked.
    pub(crate) fn take_refills(&mut self) -> BTreeSet<GroupVersionKind> {
        std::mem::take(&mut self.refills)
    }

    /// Syncs these kinds and no others. Returns those that are new.
    pub(crate) fn want(&mut self, wanted: &BTreeSet<GroupVersionKind>) -> Vec<GroupVersionKind> {
        let gone: Vec<_> =
            self.kinds.keys().filter(|kind| !wanted.contains(*kind)).cloned().collect();
        for kind in gone {
            self.kinds.remove(&kind);
            self.refills.remove(&kind);
            self.changed |= self.inventory.remove_kind(&api_version(&kind), &kind.kind);
            self.report_changed = true;
        }
        let new: Vec<_> = wanted.iter().filter(|kind| !self.wants(kind)).cloned().collect();
        for kind in &new {
            let wanted = fields(&self.reads, kind);
            self.kinds.insert(kind.clone(), SyncedKind::new(wanted));
            self.report_changed = true;
        }
        new
    }

    /// Keeps what policies look at from now on.
    pub(crate) fn look_at(&mut self, reads: Reads) {
        if reads == self.reads {
            return;
        }
        self.reads = reads;
        let mut drops = Vec::new();
        for (kind, known) in &mut self.kinds {
            let wanted = fields(&self.reads, kind);
            if wanted == *known.wanted {
                continue;
            }
            known.wanted = Arc::new(wanted);
            if known.kept.covers(&known.wanted) {
                known.kept = Arc::clone(&known.wanted);
                self.refills.remove(kind);
                drops.push((kind.clone(), Arc::clone(&known.wanted)));
            } else {
                self.refills.insert(kind.clone());
            }
        }
        for (kind, fields) in drops {
            self.drop_fields(&kind, &fields);
        }
    }

    fn drop_fields(&mut self, kind: &GroupVersionKind, fields: &Fields) {
        let version = api_version(kind);
        let is_of_kind = |it: &Synced<'_>| it.api_version == version && it.kind == kind.kind;
        let objects: Vec<Value> = self
            .inventory
            .objects()
            .filter(is_of_kind)
            .map(|synced| fields.keep(synced.object.clone()))
            .collect();
        self.changed |= !objects.is_empty();
        for object in objects {
            // It was in there before.
            let _ = self.inventory.insert(object);
        }
    }

    /// Takes objects as they are for what policies look at.
    pub(crate) fn give_up_fields(&mut self) {
        for known in self.kinds.values_mut().filter(|known| known.lacks_fields()) {
            known.kept = Arc::clone(&known.wanted);
        }
    }

    /// Whether objects of some kind lack fields that policies look at, and will have them soon.
    pub(crate) fn lacks_fields(&self) -> bool {
        self.kinds.values().any(SyncedKind::lacks_fields)
    }

    /// Leaves out the namespaces that a Config excludes. Objects of namespaces that no longer are
    /// come with the next list of their kind.
    pub(crate) fn exclude(&mut self, config: &Config) {
        let patterns: BTreeSet<Str> = config.excluded_from(Process::Sync).cloned().collect();
        if patterns == self.patterns {
            return;
        }
        let admits_more = !self.patterns.is_subset(&patterns);
        self.exclusions = Exclusions::of_config(config);
        self.patterns = patterns;
        let exclusions = &self.exclusions;
        self.changed |= self.inventory.retain(|synced| !exclusions.excludes_synced(synced));
        if admits_more {
            self.refills.extend(self.kinds.keys().cloned());
        }
    }

    /// Takes in what a watch saw.
    pub(crate) fn take(&mut self, kind: &GroupVersionKind, seen: Seen) {
        if !self.wants(kind) {
            return;
        }
        match seen {
            Seen::All(all, fields) => {
                self.inventory.remove_kind(&api_version(kind), &kind.kind);
                self.changed = true;
                let Some(known) = self.kinds.get_mut(kind) else { return };
                self.report_changed |= !known.listed || known.problem.is_some();
                (known.listed, known.problem) = (true, None);
                known.unreadable.clear();
                let suffices = fields.covers(&known.wanted);
                known.kept = if suffices { Arc::clone(&known.wanted) } else { fields };
                for item in all {
                    self.apply(kind, item);
                }
            }
            Seen::Applied(item) => self.apply(kind, item),
            Seen::Deleted(item) => self.remove(kind, &item.key),
            Seen::Served(_) | Seen::NotServed => {}
            Seen::Failed(problem) => {
                let Some(known) = self.kinds.get_mut(kind) else { return };
                let problem = Some(problem);
                if known.problem != problem {
                    known.problem = problem;
                    self.report_changed = true;
                }
            }
        }
    }

    fn apply(&mut self, kind: &GroupVersionKind, Item { key, object }: Item) {
        let Some(known) = self.kinds.get_mut(kind) else { return };
        let object = match object {
            Ok(object) => {
                known.unreadable.remove(&key);
                // The watch may have begun when more was looked at.
                known.kept.keep(object)
            }
            Err(_) => {
                known.unreadable.insert(key.clone());
                return self.remove(kind, &key);
            }
        };
        let is_leaving = object.path(&["metadata", "deletionTimestamp"]).is_some();
        let is_excluded = self.exclusions.excludes_synced(&synced(kind, &key, &object));
        if is_leaving || is_excluded {
            return self.remove(kind, &key);
        }
        // What is served has a version, kind and name.
        self.changed |= self.inventory.insert(object).is_ok();
    }

    fn remove(&mut self, kind: &GroupVersionKind, key: &Key) {
        let version = api_version(kind);
        self.changed |=
            self.inventory.remove_object(&version, &kind.kind, &key.namespace, &key.name);
    }
}

/// Namespaces and Nodes are kept in full in any case, and shared.
fn fields(reads: &Reads, kind: &GroupVersionKind) -> Fields {
    let is_shared = kind.group.is_empty() && ["Namespace", "Node"].contains(&kind.kind.as_str());
    if is_shared { Fields::all() } else { Fields::of_kind(reads, kind) }
}

fn api_version(kind: &GroupVersionKind) -> Str {
    let GroupVersionKind { group, version, .. } = kind;
    match group.as_str() {
        "" => version.clone(),
        group => format!("{group}/{version}").into(),
    }
}

fn synced<'i>(kind: &'i GroupVersionKind, key: &'i Key, object: &'i Value) -> Synced<'i> {
    Synced {
        // Only the core group's own is looked at.
        api_version: if kind.group.is_empty() { &kind.version } else { "" },
        kind: &kind.kind,
        namespace: &key.namespace,
        name: &key.name,
        object,
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    fn gvk(group: &str, kind: &str) -> GroupVersionKind {
        GroupVersionKind { group: group.into(), version: "v1".into(), kind: kind.into() }
    }

    fn item(kind: &GroupVersionKind, namespace: &str, name: &str, more: &str) -> Item {
        let version = api_version(kind);
        let namespaced = match namespace {
            "" => String::new(),
            namespace => format!("namespace: {namespace}, "),
        };
        let text = format!(
            "{{apiVersion: {version}, kind: {}, metadata: {{{namespaced}name: {name}{more}}}}}",
            kind.kind
        );
        let key = Key { namespace: namespace.into(), name: name.into() };
        Item { key, object: Ok(yaml::value(&text).expect("object")) }
    }

    fn config(excluded: &str) -> Config {
        let text = format!(
            "{{spec: {{match: [{{processes: [sync], excludedNamespaces: [{excluded}]}}]}}}}"
        );
        Config::from_value(&yaml::value(&text).expect("config")).expect("config")
    }

    fn all(items: Vec<Item>) -> Seen {
        Seen::All(items, Arc::new(Fields::all()))
    }

    /// Every object there is, one word each.
    fn objects(sync: &SyncedInventory) -> String {
        let objects = sync.inventory().objects();
        let each = objects.map(|it| format!("{}/{}/{}", it.kind, it.namespace, it.name));
        each.collect::<Vec<_>>().join(" ")
    }

    fn fixture() -> (SyncedInventory, GroupVersionKind, GroupVersionKind) {
        let (pods, ingresses) = (gvk("", "Pod"), gvk("networking.k8s.io", "Ingress"));
        let mut sync = SyncedInventory::default();
        let new = sync.want(&[pods.clone(), ingresses.clone()].into());
        assert_eq!(new, [pods.clone(), ingresses.clone()]);
        let each =
            |kind: &GroupVersionKind| all(vec![item(kind, "a", "x", ""), item(kind, "b", "x", "")]);
        assert!(!sync.is_settled());
        sync.take(&pods, each(&pods));
        assert!(!sync.is_settled());
        sync.take(&ingresses, each(&ingresses));
        assert!(sync.is_settled() && sync.take_changed() && sync.take_report_changed());
        assert_eq!(objects(&sync), "Ingress/a/x Pod/a/x Ingress/b/x Pod/b/x");
        (sync, pods, ingresses)
    }

    #[test]
    fn objects_come_change_and_go() {
        let (mut sync, pods, _) = fixture();
        sync.take(&pods, Seen::Applied(item(&pods, "b", "k", "")));
        assert_eq!(objects(&sync), "Ingress/a/x Pod/a/x Ingress/b/x Pod/b/k Pod/b/x");
        sync.take(&pods, Seen::Deleted(item(&pods, "b", "x", "")));
        assert_eq!(objects(&sync), "Ingress/a/x Pod/a/x Ingress/b/x Pod/b/k");
        assert!(sync.take_changed());
        let leaving = ", deletionTimestamp: '2026-01-01T00:00:00Z'";
        sync.take(&pods, Seen::Applied(item(&pods, "b", "k", leaving)));
        assert_eq!(objects(&sync), "Ingress/a/x Pod/a/x Ingress/b/x");
        assert!(sync.take_changed());
        sync.take(&pods, Seen::Deleted(item(&pods, "b", "k", "")));
        assert!(!sync.take_changed());
        sync.take(&pods, all(vec![item(&pods, "c", "z", "")]));
        assert_eq!(objects(&sync), "Ingress/a/x Ingress/b/x Pod/c/z");
        let other = gvk("apps", "Deployment");
        sync.take(&other, all(vec![item(&other, "c", "z", "")]));
        assert_eq!(objects(&sync), "Ingress/a/x Ingress/b/x Pod/c/z", "not synced");
    }

    #[test]
    fn only_what_leaves_is_removed() {
        let (mut sync, pods, ingresses) = fixture();
        assert!(sync.want(&[pods.clone(), ingresses].into()).is_empty());
        assert!(!sync.take_changed() && !sync.take_report_changed());
        assert!(sync.want(&[pods.clone()].into()).is_empty());
        assert_eq!(objects(&sync), "Pod/a/x Pod/b/x");
        assert!(
            sync.take_changed() && sync.take_report_changed() && sync.take_refills().is_empty()
        );
        let services = gvk("", "Service");
        assert_eq!(sync.want(&[pods, services.clone()].into()), [services]);
        assert!(!sync.is_settled());
        sync.want(&BTreeSet::new());
        assert!(sync.inventory().is_empty());
    }

    #[test]
    fn excluded_namespaces() {
        let (mut sync, pods, ingresses) = fixture();
        let both: BTreeSet<_> = [pods.clone(), ingresses].into();
        sync.exclude(&config("'b*'"));
        assert_eq!(objects(&sync), "Ingress/a/x Pod/a/x");
        assert!(sync.take_changed() && sync.take_refills().is_empty(), "nothing is missing");
        sync.take(&pods, Seen::Applied(item(&pods, "bc", "k", "")));
        sync.take(&pods, Seen::Applied(item(&pods, "c", "k", "")));
        assert_eq!(objects(&sync), "Ingress/a/x Pod/a/x Pod/c/k");

        sync.exclude(&config("a, 'b*'"));
        assert_eq!(objects(&sync), "Pod/c/k");
        assert!(sync.take_refills().is_empty());
        sync.exclude(&config("a"));
        assert_eq!(objects(&sync), "Pod/c/k", "what there is stays");
        assert_eq!(sync.take_refills(), both, "what is missing is listed");
        sync.exclude(&config("a"));
        assert!(sync.take_refills().is_empty());
        sync.exclude(&Config::default());
        assert_eq!(sync.take_refills(), both);
    }

    #[test]
    fn namespaces_are_excluded_by_their_own_name() {
        let (namespaces, roles) =
            (gvk("", "Namespace"), gvk("rbac.authorization.k8s.io", "ClusterRole"));
        let mut sync = SyncedInventory::default();
        sync.want(&[namespaces.clone(), roles.clone()].into());
        sync.exclude(&config("a"));
        sync.take(
            &namespaces,
            all(vec![item(&namespaces, "", "a", ""), item(&namespaces, "", "b", "")]),
        );
        sync.take(&roles, all(vec![item(&roles, "", "a", "")]));
        assert_eq!(objects(&sync), "ClusterRole//a Namespace//b");
        sync.exclude(&config("'*'"));
        assert_eq!(objects(&sync), "", "Q-23");
    }

    #[test]
    fn kinds_that_cannot_be_seen() {
        let (mut sync, pods, _) = fixture();
        let widgets = gvk("example.com", "Widget");
        sync.want(&[pods.clone(), widgets.clone()].into());
        sync.take_report_changed();
        assert!(!sync.is_settled());
        sync.take(&widgets, Seen::Failed("not served".to_owned()));
        assert!(sync.is_settled() && sync.take_report_changed(), "RD-5");
        sync.take(&widgets, Seen::Failed("not served".to_owned()));
        assert!(!sync.take_report_changed(), "no news");
        sync.take(&widgets, all(vec![item(&widgets, "a", "w", "")]));
        let known = &sync.kinds()[&widgets];
        assert!(known.listed && known.problem.is_none());
        assert!(sync.take_report_changed());
        sync.take(&pods, Seen::Failed("gone".to_owned()));
        assert_eq!(objects(&sync), "Widget/a/w Pod/a/x Pod/b/x", "what was seen stays");
    }

    #[test]
    fn objects_that_cannot_be_read() {
        let (mut sync, pods, _) = fixture();
        let key = Key { namespace: "a".into(), name: "x".into() };
        let bad = Item { key: key.clone(), object: Err("too deep".to_owned()) };
        sync.take(&pods, Seen::Applied(bad));
        assert_eq!(objects(&sync), "Ingress/a/x Ingress/b/x Pod/b/x");
        assert!(sync.kinds()[&pods].unreadable.contains(&key));
        sync.take(&pods, Seen::Applied(item(&pods, "a", "x", "")));
        assert!(sync.kinds()[&pods].unreadable.is_empty());
    }

    /// The data that a template reads.
    fn reads(rego: &str) -> Reads {
        use modgate_engine::rego::{Capabilities, Program, ast, parse_module};
        let text = format!("package p\n{rego}");
        let module = parse_module("p", &text, ast::RegoVersion::V0).expect("parses");
        let program = Program::compile(&[module], &Capabilities::default()).expect("compiles");
        program.reads("inventory")
    }

    #[test]
    fn fields_come_with_the_next_list_and_go_at_once() {
        let (mut sync, pods, ingresses) = fixture();
        let more = ", annotations: {p: v, q: w}";
        let annotations = |sync: &SyncedInventory| -> String {
            let pod = sync.inventory().objects().find(|it| it.kind == "Pod").expect("a Pod");
            pod.object.path(&["metadata", "annotations"]).map(Value::to_json).unwrap_or_default()
        };
        sync.take(&pods, Seen::Applied(item(&pods, "a", "x", more)));
        assert_eq!(annotations(&sync), r#"{"p":"v","q":"w"}"#, "which fields are read is unknown");

        let path = "data.inventory.namespace[_].v1.Pod[_].metadata.annotations";
        let one = reads(&format!("v {{ {path}.p == 1 }}"));
        sync.take_changed();
        sync.look_at(one.clone());
        assert_eq!(annotations(&sync), r#"{"p":"v"}"#);
        assert!(sync.take_changed() && sync.take_refills().is_empty() && !sync.lacks_fields());
        sync.look_at(one.clone());
        assert!(!sync.take_changed());

        sync.take(&pods, Seen::Applied(item(&pods, "a", "x", more)));
        assert_eq!(annotations(&sync), r#"{"p":"v"}"#);

        let both = reads(&format!("v {{ {path}.p == 1; {path}.q == 2 }}"));
        sync.look_at(both.clone());
        assert!(sync.lacks_fields(), "until all were listed");
        assert_eq!(sync.take_refills(), [pods.clone()].into());
        assert_eq!(annotations(&sync), r#"{"p":"v"}"#);
        // The old watch lists anew, with what was kept before.
        let fewer = Arc::new(Fields::of_kind(&one, &pods));
        sync.take(&pods, Seen::All(vec![item(&pods, "a", "x", more)], fewer));
        assert!(sync.lacks_fields());
        let enough = Arc::new(Fields::of_kind(&both, &pods));
        sync.take(&pods, Seen::All(vec![item(&pods, "a", "x", more)], enough));
        assert!(!sync.lacks_fields());
        assert_eq!(annotations(&sync), r#"{"p":"v","q":"w"}"#);

        sync.look_at(Reads::everything());
        assert!(sync.lacks_fields());
        for kind in [&pods, &ingresses] {
            assert!(sync.lacks_fields());
            sync.take(kind, Seen::Failed("gone".to_owned()));
        }
        assert!(!sync.lacks_fields(), "policies do not wait for fields that cannot be read");
        sync.look_at(one);
        assert!(sync.take_refills().is_empty(), "nothing is missing any more");
    }
}
