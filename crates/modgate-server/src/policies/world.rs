//! What one request sees of policies and cluster.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use modgate_engine::{
    Host, HostError, Snapshot, constraint::Inventory, modrule::PodBinding, rego::builtins, template,
};
use modgate_value::{Clock, Str, Value};

use super::outside::Outside;
use crate::telemetry::metrics::lane;

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

/// Namespaces and Nodes: those of a cluster, or read from files that stand in for one.
///
/// In a cluster, what is not among them is asked for. A Namespace that no file has is taken to exist with nothing but what the API server gives to
/// every Namespace: its name, the label `kubernetes.io/metadata.name` and phase `Active`. Without
/// that, no rule could ever be tried without a file for every Namespace (Q-36 would admit each
/// object unseen). A Node that no file has does not exist.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    namespaces: Arc<BTreeMap<Str, Value>>,
    nodes: Arc<BTreeMap<Str, Value>>,
    cluster: Option<Arc<dyn Lookup>>,
}

/// The way to objects that a watch has not told of yet, or that do not exist.
pub(crate) trait Lookup: fmt::Debug + Send + Sync {
    /// An object of kind `Namespace`, `Node`, `ConstraintTemplate` or `CustomResourceDefinition`, as
    /// the cluster has it now, if it does.
    fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, HostError>;

    /// Gives a Pod that asks for it the name of the node it is about to be bound to (spec `kubemod.md`,
    /// 6.2).
    fn bind<'a>(&'a self, binding: &'a PodBinding) -> BoxFuture<'a, Result<(), Unbound>>;
}

/// Why a Pod did not get the name of its node: the reason that KubeMod answers with, and the cause.
#[derive(Debug)]
pub(crate) struct Unbound {
    pub(crate) reason: &'static str,
    pub(crate) cause: String,
}

impl Objects {
    /// None yet; what is missing is asked for.
    pub(crate) fn of_cluster(cluster: Arc<dyn Lookup>) -> Self {
        Self { cluster: Some(cluster), ..Self::default() }
    }

    /// Keeps `object` if it is a Namespace or a Node; returns whether it is.
    pub fn take(&mut self, object: &Value) -> bool {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let kept = match (text(&["apiVersion"]), text(&["kind"])) {
            ("v1", "Namespace") => &mut self.namespaces,
            ("v1", "Node") => &mut self.nodes,
            _ => return false,
        };
        Arc::make_mut(kept).insert(text(&["metadata", "name"]).into(), object.clone());
        true
    }

    /// Where to ask for what is not among them; `None` where files stand in for a cluster.
    pub(crate) fn cluster(&self) -> Option<&Arc<dyn Lookup>> {
        self.cluster.as_ref()
    }

    /// The objects of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let kept = match kind {
            "Namespace" => Some(&self.namespaces),
            "Node" => Some(&self.nodes),
            _ => None,
        };
        kept.into_iter().flat_map(|kept| kept.values())
    }

    /// Drops the objects of a kind whose names are not to be kept; returns whether there were any.
    pub(crate) fn retain(&mut self, kind: &str, keep: impl Fn(&str) -> bool) -> bool {
        let kept = match kind {
            "Namespace" => &mut self.namespaces,
            "Node" => &mut self.nodes,
            _ => return false,
        };
        if kept.keys().all(|name| keep(name)) {
            return false;
        }
        Arc::make_mut(kept).retain(|name, _| keep(name));
        true
    }
}

impl Host for Objects {
    fn clock(&self) -> &dyn Clock {
        &Outside
    }

    fn lane(&self) -> usize {
        lane()
    }

    fn templates(&self) -> &dyn template::Host {
        &Outside
    }

    fn policies(&self) -> &dyn builtins::Host {
        &Outside
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        match (self.namespaces.get(name), &self.cluster) {
            (Some(namespace), _) => Ok(namespace.clone()),
            (None, Some(cluster)) => {
                cluster.get("Namespace", name)?.ok_or_else(|| not_found("namespaces", name))
            }
            (None, None) => Ok(minimal_namespace(name)),
        }
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        match (self.nodes.get(name), &self.cluster) {
            (Some(node), _) => Ok(node.clone()),
            (None, Some(cluster)) => {
                cluster.get("Node", name)?.ok_or_else(|| not_found("nodes", name))
            }
            (None, None) => Err(not_found("nodes", name)),
        }
    }
}

fn not_found(plural: &str, name: &str) -> HostError {
    HostError(format!("{plural} \"{name}\" not found"))
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
