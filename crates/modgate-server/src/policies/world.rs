//! What one request sees of policies and cluster.

use std::{collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use modgate_engine::{
    Host, HostError, Snapshot, constraint::Inventory, modrule::PodBinding, rego::builtins, template,
};
use modgate_value::{Clock, Str, Value};
use tokio::{task::block_in_place, time::Instant};

use super::outside::Outside;
use crate::{providers::may_block, webhook::Turn};

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
/// In a cluster, what is not among them is asked for. A Namespace that no file has is taken to exist
/// with nothing but what the API server gives to every Namespace: its name, the label
/// `kubernetes.io/metadata.name` and phase `Active` ([`Host::assumes_namespace`]). Without that, no
/// rule could be tried without a file for every Namespace. A Node that no file has does not exist.
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

    /// As [`take`](Self::take), and returns whether there is anything new in `object`. What the API
    /// server counts changes with every write, also with those that change nothing.
    pub(crate) fn update(&mut self, object: &Value) -> bool {
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let name = text(&["metadata", "name"]);
        let known = match text(&["kind"]) {
            "Namespace" => self.namespaces.get(name),
            "Node" => self.nodes.get(name),
            _ => None,
        };
        if known.is_some_and(|known| uncounted(known) == uncounted(object)) {
            return false;
        }
        self.take(object)
    }

    /// The same for one evaluation, which gives `turn` back while it waits for the cluster, and goes
    /// on at `until` if there is no turn again before.
    pub(crate) fn pausing<'t>(&'t self, turn: &'t Turn, until: Instant) -> Pausing<'t> {
        Pausing { objects: self, turn, until }
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

    fn assumes_namespace(&self, name: &str) -> bool {
        self.cluster.is_none() && !self.namespaces.contains_key(name)
    }
}

/// [`Objects`] as one evaluation asks for them.
pub(crate) struct Pausing<'t> {
    objects: &'t Objects,
    turn: &'t Turn,
    until: Instant,
}

impl Pausing<'_> {
    /// Asks for something that is not known.
    fn wait<T>(&self, ask: impl FnOnce() -> T) -> T {
        if self.objects.cluster.is_none() || !may_block() {
            return ask();
        }
        block_in_place(|| self.turn.pause(self.until, ask))
    }
}

impl Host for Pausing<'_> {
    fn clock(&self) -> &dyn Clock {
        self.objects.clock()
    }

    fn templates(&self) -> &dyn template::Host {
        self.objects.templates()
    }

    fn policies(&self) -> &dyn builtins::Host {
        self.objects.policies()
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        match self.objects.namespaces.get(name) {
            Some(namespace) => Ok(namespace.clone()),
            None => self.wait(|| self.objects.namespace(name)),
        }
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        match self.objects.nodes.get(name) {
            Some(node) => Ok(node.clone()),
            None => self.wait(|| self.objects.node(name)),
        }
    }

    fn assumes_namespace(&self, name: &str) -> bool {
        self.objects.assumes_namespace(name)
    }
}

/// An object without what the API server counts.
fn uncounted(object: &Value) -> Value {
    let mut object = object.clone();
    if let Value::Object(members) = &mut object
        && let Some(Value::Object(metadata)) = members.get_mut("metadata")
    {
        for member in ["managedFields", "resourceVersion"] {
            metadata.remove(member);
        }
    }
    object
}

fn not_found(plural: &str, name: &str) -> HostError {
    HostError::NotFound(format!("{plural} \"{name}\" not found"))
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

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;
    use crate::webhook::{Evaluators, Flow};

    /// A cluster that answers once another evaluation had its turn.
    #[derive(Debug)]
    struct Slow {
        asked: mpsc::SyncSender<()>,
        answer: std::sync::Mutex<mpsc::Receiver<()>>,
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    impl Lookup for Slow {
        fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, HostError> {
            self.asked.send(()).expect("the other listens");
            let answer = self.answer.lock().expect("no panic");
            answer
                .recv_timeout(PATIENCE)
                .map_err(|_| HostError::Unread("no other had a turn".to_owned()))?;
            let members = [("kind", Value::from(kind)), ("name", name.into())];
            Ok(Some(members.into_iter().collect()))
        }

        fn bind<'a>(&'a self, _: &'a PodBinding) -> BoxFuture<'a, Result<(), Unbound>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    fn flow() -> Flow {
        Flow { route: "/validate", namespace: "ns".into() }
    }

    /// There is one turn, and whoever has it asks a cluster that does not answer.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn others_go_on_while_the_cluster_is_asked() {
        for kind in ["Namespace", "Node"] {
            let evaluators = Arc::new(Evaluators::new(1));
            let (ask, asked) = mpsc::sync_channel(1);
            let (answer, answered) = mpsc::sync_channel(1);
            let cluster = Slow { asked: ask, answer: answered.into() };
            let objects = Objects::of_cluster(Arc::new(cluster));
            let of_first = Arc::clone(&evaluators);
            let first = tokio::spawn(async move {
                let evaluate = |turn: &Turn| {
                    let host = objects.pausing(turn, Instant::now() + PATIENCE);
                    if kind == "Node" { host.node("a") } else { host.namespace("a") }
                };
                of_first.run(flow(), PATIENCE, evaluate).await
            });
            let asked = tokio::task::spawn_blocking(move || asked.recv_timeout(PATIENCE));
            asked.await.expect("no panic").expect("the first asks");
            let second =
                evaluators.run(flow(), PATIENCE, |_| answer.send(()).expect("the first listens"));
            assert_eq!(second.await, Ok(()), "{kind}");
            let found = first.await.expect("no panic").expect("a turn").expect(kind);
            assert_eq!(found.get("kind"), Some(&kind.into()));
        }
    }
}
