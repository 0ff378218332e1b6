//! What one request sees of policies and cluster.

use std::collections::BTreeMap;

use modgate_engine::{Host, HostError, Snapshot, constraint::Inventory, rego::builtins, template};
use modgate_value::{Clock, Str, Value};

use super::outside::Outside;

/// Policies and the objects they may refer to, as they were at one moment.
#[derive(Debug, Clone)]
pub struct World {
    /// The compiled policies.
    pub snapshot: Snapshot,
    /// Namespaces and Nodes.
    pub objects: Objects,
    /// What policies see as `data.inventory`.
    pub inventory: Inventory,
}

/// Namespaces and Nodes read from files, standing in for a cluster.
///
/// A Namespace that no file has is taken to exist with nothing but what the API server gives to
/// every Namespace: its name, the label `kubernetes.io/metadata.name` and phase `Active`. Without
/// that, no rule could ever be tried without a file for every Namespace (Q-36 would admit each
/// object unseen). A Node that no file has does not exist.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    namespaces: BTreeMap<Str, Value>,
    nodes: BTreeMap<Str, Value>,
}

impl Objects {
    /// Keeps `object` if it is a Namespace or a Node; returns whether it is.
    pub fn take(&mut self, object: &Value) -> bool {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let kept = match (text(&["apiVersion"]), text(&["kind"])) {
            ("v1", "Namespace") => &mut self.namespaces,
            ("v1", "Node") => &mut self.nodes,
            _ => return false,
        };
        kept.insert(text(&["metadata", "name"]).into(), object.clone());
        true
    }
}

impl Host for Objects {
    fn clock(&self) -> &dyn Clock {
        &Outside
    }

    fn templates(&self) -> &dyn template::Host {
        &Outside
    }

    fn policies(&self) -> &dyn builtins::Host {
        &Outside
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        Ok(self.namespaces.get(name).cloned().unwrap_or_else(|| minimal_namespace(name)))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.nodes
            .get(name)
            .cloned()
            .ok_or_else(|| HostError(format!("nodes \"{name}\" not found")))
    }
}

fn minimal_namespace(name: &str) -> Value {
    let object = |members: Vec<(&str, Value)>| members.into_iter().collect::<Value>();
    let labels = object(vec![("kubernetes.io/metadata.name", name.into())]);
    object(vec![
        ("apiVersion", "v1".into()),
        ("kind", "Namespace".into()),
        ("metadata", object(vec![("name", name.into()), ("labels", labels)])),
        ("spec", object(vec![("finalizers", Value::from(vec!["kubernetes".into()]))])),
        ("status", object(vec![("phase", "Active".into())])),
    ])
}
