//! `data.inventory`: the synced objects as policies see them (spec 3.3).

mod changed;
mod fields;
mod level;
mod watched;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use modgate_api::meta::{GroupVersionKind, split_api_version};
use modgate_rego::value::Tree;
use modgate_value::{Str, Value};

use self::level::{Child, Level};
pub(super) use self::watched::Watched;
pub use self::{changed::InventoryPart, fields::Fields};

/// The synced objects, immutable once shared.
///
/// A clone shares everything. Changing a shared inventory copies a few hundred names along one path,
/// however many objects there are, so an evaluation keeps the state it began with. Policies look
/// objects up in sorted lists; what they do not ask for costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Holds `inventory`, or nothing while there are no objects (EV-16).
    root: Arc<Level>,
}

/// An object of an [`Inventory`], and where it stands there.
#[derive(Debug, Clone, Copy)]
pub struct Synced<'i> {
    /// As in the object: `v1`, `apps/v1`.
    pub api_version: &'i str,
    /// The kind.
    pub kind: &'i str,
    /// Empty for cluster-scoped objects.
    pub namespace: &'i str,
    /// The name.
    pub name: &'i str,
    /// The object.
    pub object: &'i Value,
}

impl Synced<'_> {
    /// Group, version and kind.
    pub fn gvk(&self) -> GroupVersionKind {
        let (group, version) = split_api_version(self.api_version);
        GroupVersionKind { group: group.into(), version: version.into(), kind: self.kind.into() }
    }
}

/// Why an object cannot be in the inventory; the texts are the original's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InventoryError {
    /// No `apiVersion`.
    #[error("invalid request object: resource {name} has no version")]
    NoVersion {
        /// The object's name.
        name: String,
    },
    /// No `kind`.
    #[error("invalid request object: resource {name} has no kind")]
    NoKind {
        /// The object's name.
        name: String,
    },
    /// No `metadata.name`.
    #[error("invalid request object: resource has no name")]
    NoName,
}

impl Inventory {
    /// Adds an object, or replaces the one of its kind, namespace and name.
    ///
    /// # Errors
    ///
    /// When it lacks `apiVersion`, `kind` or `metadata.name`.
    pub fn insert(&mut self, object: Value) -> Result<(), InventoryError> {
        let path = path(&object)?;
        insert(&mut self.root, &path, object);
        Ok(())
    }

    /// Adds an object of a kind under the empty name, for lack of one of its own.
    pub fn insert_nameless(&mut self, object: Value) {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let version = text(&["apiVersion"]);
        let api_version = version.strip_prefix('/').unwrap_or(version);
        let namespace = text(&["metadata", "namespace"]);
        let mut path = path_of(namespace, api_version, text(&["kind"]));
        path.push(Str::default());
        insert(&mut self.root, &path, object);
    }

    /// Removes the object of the same kind, namespace and name; says whether there was one.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, object: &Value) -> Result<bool, InventoryError> {
        Ok(remove(&mut self.root, &path(object)?))
    }

    /// Removes an object; `namespace` is empty for a cluster-scoped one. Says whether it was there.
    pub fn remove_object(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> bool {
        let mut path = path_of(namespace, api_version, kind);
        path.push(name.into());
        remove(&mut self.root, &path)
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// All objects: cluster-scoped ones by kind and name, then the others by namespace, kind and
    /// name.
    pub fn objects(&self) -> impl Iterator<Item = Synced<'_>> {
        self.kinds().flat_map(|OfKind { namespace, api_version, kind, names }| {
            names.iter().filter_map(move |(name, child)| {
                let object = child.object()?;
                Some(Synced { api_version, kind, namespace, name, object })
            })
        })
    }

    /// How many objects there are of each kind, by `apiVersion` and kind.
    pub fn counts(&self) -> BTreeMap<(Str, Str), usize> {
        let mut counts = BTreeMap::new();
        for OfKind { api_version, kind, names, .. } in self.kinds() {
            *counts.entry((api_version.into(), kind.into())).or_default() += names.len();
        }
        counts
    }

    /// How many objects there are, by the names of their kinds alone.
    pub fn counts_by_name(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for OfKind { kind, names, .. } in self.kinds() {
            *counts.entry(kind).or_default() += names.len();
        }
        counts
    }

    /// Removes all objects of a kind; says whether there were any.
    pub fn remove_kind(&mut self, api_version: &str, kind: &str) -> bool {
        let is_of_kind = |it: &OfKind<'_>| it.api_version == api_version && it.kind == kind;
        let gone: Vec<Vec<Str>> =
            self.kinds().filter(is_of_kind).map(|of_kind| of_kind.path()).collect();
        for path in &gone {
            remove(&mut self.root, path);
        }
        !gone.is_empty()
    }

    /// Removes the objects that are not to be kept; says whether there were any.
    pub fn retain(&mut self, keep: impl Fn(&Synced<'_>) -> bool) -> bool {
        let gone: Vec<Vec<Str>> =
            self.objects().filter(|synced| !keep(synced)).map(|synced| place(&synced)).collect();
        for path in &gone {
            remove(&mut self.root, path);
        }
        !gone.is_empty()
    }

    /// The Namespace object of that name, if Namespaces are synced.
    pub fn namespace(&self, name: &str) -> Option<&Value> {
        self.level(&[INVENTORY, CLUSTER, "v1", "Namespace"])?.child(name)?.object()
    }

    /// The whole of `data`.
    pub(super) fn data(&self) -> &dyn Tree {
        &*self.root
    }

    /// [`data`](Self::data); `looked` is set when a policy reads it.
    pub(super) fn watched<'a>(&'a self, looked: &'a AtomicBool) -> Watched<'a> {
        Watched::new(self.data(), looked)
    }

    fn level(&self, path: &[&str]) -> Option<&Level> {
        path.iter().try_fold(&*self.root, |level, key| level.child(key)?.level())
    }

    fn kinds(&self) -> impl Iterator<Item = OfKind<'_>> {
        let cluster = self.level(&[INVENTORY, CLUSTER]).map(|versions| ("", versions));
        let namespaces = self.level(&[INVENTORY, NAMESPACE]).into_iter().flat_map(levels);
        cluster.into_iter().chain(namespaces).flat_map(|(namespace, versions)| {
            levels(versions).flat_map(move |(api_version, kinds)| {
                levels(kinds).map(move |(kind, names)| OfKind {
                    namespace,
                    api_version,
                    kind,
                    names,
                })
            })
        })
    }
}

const INVENTORY: &str = "inventory";
const CLUSTER: &str = "cluster";
const NAMESPACE: &str = "namespace";

/// The objects of one kind in one namespace.
struct OfKind<'i> {
    namespace: &'i str,
    api_version: &'i str,
    kind: &'i str,
    names: &'i Level,
}

impl OfKind<'_> {
    fn path(&self) -> Vec<Str> {
        path_of(self.namespace, self.api_version, self.kind)
    }
}

fn levels(level: &Level) -> impl Iterator<Item = (&str, &Level)> {
    level.iter().filter_map(|(key, child)| Some((key.as_str(), child.level()?)))
}

/// Where an object is, from the root (EV-15).
fn path(object: &Value) -> Result<Vec<Str>, InventoryError> {
    let text = |path: &[&str]| {
        object.path(path).and_then(Value::as_str).filter(|text| !text.is_empty()).map(Str::from)
    };
    let name = text(&["metadata", "name"]);
    let shown = || name.as_deref().unwrap_or_default().to_owned();
    let version =
        text(&["apiVersion"]).ok_or_else(|| InventoryError::NoVersion { name: shown() })?;
    // `/v1` is the core group, too.
    let version = version.strip_prefix('/').map_or(version.clone(), Str::from);
    let kind = text(&["kind"]).ok_or_else(|| InventoryError::NoKind { name: shown() })?;
    let name = name.ok_or(InventoryError::NoName)?;
    let namespace = text(&["metadata", "namespace"]).unwrap_or_default();
    let synced =
        Synced { api_version: &version, kind: &kind, namespace: &namespace, name: &name, object };
    Ok(place(&synced))
}

fn place(synced: &Synced<'_>) -> Vec<Str> {
    let Synced { api_version, kind, namespace, name, object: _ } = *synced;
    let mut path = path_of(namespace, api_version, kind);
    path.push(name.into());
    path
}

/// Where the objects of a kind and namespace are.
fn path_of(namespace: &str, api_version: &str, kind: &str) -> Vec<Str> {
    let scope = match namespace {
        "" => &[CLUSTER][..],
        _ => &[NAMESPACE, namespace],
    };
    let keys = [INVENTORY].into_iter().chain(scope.iter().copied()).chain([api_version, kind]);
    keys.map(Str::from).collect()
}

fn insert(level: &mut Arc<Level>, path: &[Str], object: Value) {
    let Some((key, rest)) = path.split_first() else { return };
    let level = Arc::make_mut(level);
    // Paths below one parent have one length, so objects and levels never mix.
    if rest.is_empty() {
        level.insert(key, Child::Object(object));
        return;
    }
    if level.child(key).is_none() {
        level.insert(key, Child::Level(Arc::default()));
    }
    if let Some(Child::Level(inner)) = level.child_mut(key) {
        insert(inner, rest, object);
    }
}

/// Levels that become empty go too: what has no objects is undefined.
fn remove(level: &mut Arc<Level>, path: &[Str]) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    // Looked for before anything is copied.
    if !holds(level, path) {
        return false;
    }
    let level = Arc::make_mut(level);
    let is_empty = match level.child_mut(key) {
        Some(Child::Level(inner)) if !rest.is_empty() => {
            remove(inner, rest);
            inner.is_empty()
        }
        _ => true,
    };
    if is_empty {
        level.remove(key);
    }
    true
}

fn holds(level: &Level, path: &[Str]) -> bool {
    let Some((key, rest)) = path.split_first() else { return true };
    match level.child(key) {
        Some(Child::Level(inner)) => holds(inner, rest),
        Some(Child::Object(_)) => rest.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect(text)
    }

    fn paths(inventory: &Inventory) -> Vec<String> {
        let path = |synced: Synced<'_>| place(&synced).join("|");
        inventory.objects().map(path).collect()
    }

    #[test]
    fn layout_and_removal() {
        let pod =
            object(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"n"}}"#);
        let role = object(
            r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",
                "metadata":{"name":"r"}}"#,
        );
        let namespace = object(r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}"#);
        let mut inventory = Inventory::default();
        for object in [&pod, &role, &namespace] {
            assert_eq!(inventory.insert(object.clone()), Ok(()));
        }
        assert_eq!(
            paths(&inventory),
            [
                "inventory|cluster|rbac.authorization.k8s.io/v1|ClusterRole|r",
                "inventory|cluster|v1|Namespace|n",
                "inventory|namespace|n|v1|Pod|p",
            ]
        );
        let gvks: Vec<_> = inventory.objects().map(|synced| synced.gvk().to_string()).collect();
        assert_eq!(gvks, ["rbac.authorization.k8s.io/v1 ClusterRole", "v1 Namespace", "v1 Pod"]);
        assert_eq!(inventory.namespace("n"), Some(&namespace));

        let before = inventory.clone();
        for object in [&pod, &role, &namespace] {
            assert_eq!(inventory.remove(object), Ok(true));
            assert_eq!(inventory.remove(object), Ok(false));
        }
        assert!(inventory.is_empty(), "nothing is left of a path without objects");
        assert!(before.namespace("n").is_some(), "a clone keeps what it had");
    }

    #[test]
    fn kinds_and_namespaces_go() {
        let mut inventory = Inventory::default();
        for (version, kind, namespace) in [
            ("v1", "Pod", "a"),
            ("v1", "Pod", "b"),
            ("apps/v1", "Pod", "b"),
            ("v1", "Service", "b"),
            ("v1", "Pod", ""),
        ] {
            let object = object(&format!(
                r#"{{"apiVersion":"{version}","kind":"{kind}",
                "metadata":{{"name":"x","namespace":"{namespace}"}}}}"#
            ));
            assert_eq!(inventory.insert(object), Ok(()));
        }
        let count = |inventory: &Inventory| {
            let counts = inventory.counts().into_iter();
            counts.map(|((version, kind), n)| format!("{version} {kind} {n}")).collect::<Vec<_>>()
        };
        assert_eq!(count(&inventory), ["apps/v1 Pod 1", "v1 Pod 3", "v1 Service 1"]);

        let mut without_pods = inventory.clone();
        assert!(without_pods.remove_kind("v1", "Pod"));
        assert!(!without_pods.remove_kind("v1", "Pod"));
        assert_eq!(count(&without_pods), ["apps/v1 Pod 1", "v1 Service 1"]);

        assert!(inventory.retain(|synced| synced.namespace != "b"));
        assert!(!inventory.retain(|synced| synced.namespace != "b"));
        assert_eq!(
            paths(&inventory),
            ["inventory|cluster|v1|Pod|x", "inventory|namespace|a|v1|Pod|x"]
        );
        assert!(inventory.retain(|_| false));
        assert!(inventory.is_empty());
    }

    #[test]
    fn objects_that_do_not_say_what_they_are() {
        for (text, message) in [
            (
                r#"{"kind":"Object","metadata":{"name":"object"}}"#,
                "invalid request object: resource object has no version",
            ),
            (
                r#"{"apiVersion":"v1","metadata":{"name":"object"}}"#,
                "invalid request object: resource object has no kind",
            ),
            (
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#,
                "invalid request object: resource has no name",
            ),
        ] {
            let refused = Inventory::default().insert(object(text));
            assert_eq!(refused.map_err(|error| error.to_string()), Err(message.to_owned()));
        }
    }
}
