//! `data.inventory`: the synced objects as policies see them (spec 3.3).

use std::sync::Arc;

use modgate_rego::value::{Node, Tree};
use modgate_value::{Str, Value};

/// The synced objects, immutable once shared.
///
/// A clone shares everything. Changing a shared inventory copies the lists of names along one
/// path, nothing else, so an evaluation keeps the state it began with. Policies look objects up in
/// sorted lists; what they do not ask for costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Holds `inventory`, or nothing while there are no objects (EV-16).
    root: Arc<Level>,
}

/// Names, sorted by their bytes, and what is below them.
#[derive(Debug, Clone, Default)]
struct Level(Vec<(Str, Child)>);

#[derive(Debug, Clone)]
enum Child {
    Level(Arc<Level>),
    Object(Value),
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

    /// Removes the object of the same kind, namespace and name; says whether there was one.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert).
    pub fn remove(&mut self, object: &Value) -> Result<bool, InventoryError> {
        Ok(remove(&mut self.root, &path(object)?))
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.root.0.is_empty()
    }

    /// The Namespace object of that name, if Namespaces are synced.
    pub fn namespace(&self, name: &str) -> Option<&Value> {
        let mut level = &self.root;
        for key in ["inventory", "cluster", "v1", "Namespace"] {
            let Some(Child::Level(inner)) = level.child(key) else { return None };
            level = inner;
        }
        match level.child(name)? {
            Child::Object(object) => Some(object),
            Child::Level(_) => None,
        }
    }

    /// The whole of `data`.
    pub(super) fn data(&self) -> &dyn Tree {
        &*self.root
    }
}

impl Level {
    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(name, _)| name.as_str().cmp(key))
    }

    fn child(&self, key: &str) -> Option<&Child> {
        let index = self.find(key).ok()?;
        self.0.get(index).map(|(_, child)| child)
    }
}

impl Tree for Level {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, key: &str) -> Option<Node<'_>> {
        self.child(key).map(Child::node)
    }

    fn entry(&self, index: usize) -> Option<(&str, Node<'_>)> {
        self.0.get(index).map(|(key, child)| (key.as_str(), child.node()))
    }
}

impl Child {
    fn node(&self) -> Node<'_> {
        match self {
            Self::Level(level) => Node::Tree(&**level),
            Self::Object(object) => Node::Json(object),
        }
    }
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
    let mut keys: Vec<Str> = vec!["inventory".into()];
    match text(&["metadata", "namespace"]) {
        Some(namespace) => keys.extend(["namespace".into(), namespace]),
        None => keys.push("cluster".into()),
    }
    keys.extend([version, kind, name.ok_or(InventoryError::NoName)?]);
    Ok(keys)
}

fn insert(level: &mut Arc<Level>, path: &[Str], object: Value) {
    let Some((key, rest)) = path.split_first() else { return };
    let level = Arc::make_mut(level);
    let index = match level.find(key) {
        Ok(index) => index,
        Err(index) => {
            level.0.insert(index, (key.clone(), Child::Level(Arc::default())));
            index
        }
    };
    let Some((_, child)) = level.0.get_mut(index) else { return };
    match child {
        Child::Level(inner) if !rest.is_empty() => insert(inner, rest, object),
        // Paths below one parent have one length, so objects and levels never mix.
        Child::Level(_) | Child::Object(_) => *child = Child::Object(object),
    }
}

/// Levels that become empty go too: what has no objects is undefined.
fn remove(level: &mut Arc<Level>, path: &[Str]) -> bool {
    let Some((key, rest)) = path.split_first() else { return false };
    let Ok(index) = level.find(key) else { return false };
    let level = Arc::make_mut(level);
    let Some((_, child)) = level.0.get_mut(index) else { return false };
    match child {
        Child::Level(inner) => {
            if !remove(inner, rest) {
                return false;
            }
            if inner.0.is_empty() {
                level.0.remove(index);
            }
        }
        Child::Object(_) => {
            level.0.remove(index);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect(text)
    }

    fn keys(tree: &dyn Tree, prefix: &str, out: &mut Vec<String>) {
        for index in 0..tree.len() {
            let (key, node) = tree.entry(index).expect("an entry");
            match node {
                Node::Json(_) => out.push(format!("{prefix}/{key}")),
                Node::Tree(inner) => keys(inner, &format!("{prefix}/{key}"), out),
            }
        }
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
        let mut found = Vec::new();
        keys(inventory.data(), "", &mut found);
        assert_eq!(
            found,
            [
                "/inventory/cluster/rbac.authorization.k8s.io/v1/ClusterRole/r",
                "/inventory/cluster/v1/Namespace/n",
                "/inventory/namespace/n/v1/Pod/p",
            ]
        );
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
