//! The policies and objects that one request sees.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use modgate_engine::{
    Host, HostError, Snapshot,
    admissionpolicy::{
        Access, Action, Authorizer, NoAuthorizer, ParamObjects, ParamScope, Params, Types, selects,
    },
    api::admissionregistration::ParamKind,
    constraint::Inventory,
    matching::Selector,
    modrule::PodBinding,
    rego::builtins,
    template,
};
use modgate_value::{Clock, Str, Value};
use tokio::time::Instant;

use crate::{
    access::DeclaredAccess,
    blocking::{Permit, wait_without},
    params::WatchedParams,
    system::{ProcessorTime, SystemHost},
};

/// Policies and the objects they may refer to, as they were at one moment.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// The compiled policies.
    pub snapshot: Snapshot,
    /// Namespaces and Nodes.
    pub objects: Objects,
    /// The documents under `data.inventory`.
    pub inventory: Inventory,
}

/// Namespaces and Nodes: those of a cluster, or read from files that stand in for one.
///
/// In a cluster, what is not among them is looked up. A Namespace that no file has is taken to exist
/// with nothing but what the API server gives to every Namespace: its name, the label
/// `kubernetes.io/metadata.name` and phase `Active` ([`Host::assumes_namespace`]). Without that, no
/// rule could be tried without a file for every Namespace. A Node that no file has does not exist.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    namespaces: Arc<BTreeMap<Str, Value>>,
    nodes: Arc<BTreeMap<Str, Value>>,
    /// Possible parameters of bindings of the cluster's own policies: every other object of files.
    params: Arc<ParamObjects>,
    /// The same in a cluster.
    watched: WatchedParams,
    /// The types of Kubernetes' own kinds and of the CustomResourceDefinitions of files, if there are any.
    types: Option<Arc<Types>>,
    /// The answers of `authorizer` in them, by files.
    access: Arc<DeclaredAccess>,
    cluster: Option<Arc<dyn ClusterLookup>>,
    /// Whether budgets count the processor time of the evaluation instead of the time that passes.
    counts_processor_time: bool,
}

/// Looks up objects that no watch has reported yet, or that do not exist.
pub trait ClusterLookup: fmt::Debug + Send + Sync {
    /// An object of kind `Namespace`, `Node`, `ConstraintTemplate` or `CustomResourceDefinition`, as
    /// the cluster has it now, if it does.
    fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, HostError>;

    /// Whether a user may do something: a SubjectAccessReview.
    ///
    /// # Errors
    ///
    /// When the API server gives no answer.
    fn access(&self, action: &Action<'_>) -> Result<Access, HostError>;

    /// Gives a Pod that asks for it the name of the node it will be bound to (spec `kubemod.md`,
    /// 6.2).
    fn bind<'a>(&'a self, binding: &'a PodBinding) -> BoxFuture<'a, Result<(), NotBound>>;
}

/// Why a Pod did not get the name of its node: the reason that KubeMod answers with, and the cause.
#[derive(Debug)]
pub struct NotBound {
    /// The reason in KubeMod's answer.
    pub reason: &'static str,
    /// The error of the API server.
    pub cause: String,
}

impl Objects {
    /// None yet; missing ones are looked up in `cluster`.
    pub fn of_cluster(cluster: Arc<dyn ClusterLookup>) -> Self {
        Self { cluster: Some(cluster), ..Self::default() }
    }

    /// Budgets count processor time from now on: the answers of a command do not depend on what else the machine does.
    /// A server has a deadline for each answer, and a clock that costs less to read.
    pub fn count_processor_time(&mut self) {
        self.counts_processor_time = true;
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

    /// Keeps an object if it is a SubjectAccessReview, whose answer `authorizer` gives; returns whether it
    /// is.
    pub fn declare(&mut self, object: &Value) -> bool {
        Arc::make_mut(&mut self.access).take(object)
    }

    /// Keeps an object that a binding of one of the cluster's own policies may pass.
    pub fn keep(&mut self, object: &Value) {
        if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
            let types = self.types.get_or_insert_with(|| Types::kubernetes().clone().into());
            Arc::make_mut(types).define(object);
        }
        Arc::make_mut(&mut self.params).insert(object);
    }

    /// The cluster's objects that bindings pass as parameters.
    pub fn watched_params(&self) -> &WatchedParams {
        &self.watched
    }

    /// Changes what a cluster has of the objects that bindings pass.
    pub fn watched_params_mut(&mut self) -> &mut WatchedParams {
        &mut self.watched
    }

    /// Whether files say anything of a kind of parameters.
    pub fn knows_params(&self, kind: &ParamKind) -> bool {
        self.params.knows(kind)
    }

    /// Namespaces or Nodes, if the kind is one of these and files stand in for a cluster.
    fn references_of(&self, kind: &ParamKind) -> Option<&BTreeMap<Str, Value>> {
        if self.cluster.is_some() {
            return None;
        }
        match (kind.api_version.as_str(), kind.kind.as_str()) {
            ("v1", "Namespace") => Some(&self.namespaces),
            ("v1", "Node") => Some(&self.nodes),
            _ => None,
        }
    }

    /// As [`take`](Self::take), and returns whether there is anything new in `object`. What the API
    /// server counts changes with every write, also with those that change nothing.
    pub fn update(&mut self, object: &Value) -> bool {
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

    /// The same for one evaluation, which gives `permit` back while it waits for the cluster, and goes
    /// on at `until` if it has no permit again before.
    pub fn yielding<'p>(&'p self, permit: &'p dyn Permit, until: Instant) -> YieldingHost<'p> {
        let answers = RefCell::default();
        YieldingHost { objects: self, permit, until, only_known: None, answers }
    }

    /// Looks up what is not among them; `None` where files stand in for a cluster.
    pub fn cluster(&self) -> Option<&Arc<dyn ClusterLookup>> {
        self.cluster.as_ref()
    }

    /// The objects of a kind.
    pub fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Value> {
        let kept = match kind {
            "Namespace" => Some(&self.namespaces),
            "Node" => Some(&self.nodes),
            _ => None,
        };
        kept.into_iter().flat_map(|kept| kept.values())
    }

    /// Drops the objects of a kind whose names are not to be kept; returns whether there were any.
    pub fn retain(&mut self, kind: &str, keep: impl Fn(&str) -> bool) -> bool {
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

impl Params for Objects {
    fn scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        match self.cluster {
            Some(_) => self.watched.scope(kind),
            None => self.params.scope(kind),
        }
    }

    fn is_synced(&self, kind: &ParamKind) -> bool {
        self.cluster.is_none() || self.watched.is_synced(kind)
    }

    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        match self.references_of(kind) {
            Some(references) => references.get(name).cloned(),
            None if self.cluster.is_some() => self.watched.get(kind, namespace, name),
            None => self.params.get(kind, namespace, name),
        }
    }

    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        match self.references_of(kind) {
            None if self.cluster.is_some() => self.watched.list(kind, namespace, selector),
            None => self.params.list(kind, namespace, selector),
            Some(references) => {
                let all = references.values();
                all.filter(|object| selects(selector, object)).cloned().collect()
            }
        }
    }

    fn version(&self, kind: &ParamKind) -> u64 {
        if self.cluster.is_some() {
            return self.watched.version(kind);
        }
        let Some(references) = self.references_of(kind) else { return self.params.version(kind) };
        let mut hash = DefaultHasher::new();
        references.values().for_each(|object| uncounted(object).hash(&mut hash));
        hash.finish()
    }
}

impl Host for Objects {
    fn parameters(&self) -> &dyn Params {
        self
    }

    fn types(&self) -> &Types {
        self.types.as_deref().unwrap_or_else(|| Types::kubernetes())
    }

    fn authorizer(&self) -> &dyn Authorizer {
        if self.access.is_empty() { &NoAuthorizer } else { &*self.access }
    }

    fn clock(&self) -> &dyn Clock {
        if self.counts_processor_time { &ProcessorTime } else { &SystemHost }
    }

    fn templates(&self) -> &dyn template::Host {
        &SystemHost
    }

    fn policies(&self) -> &dyn builtins::Host {
        &SystemHost
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

/// [`Objects`] for one evaluation, which gives its permit back while it waits for the cluster.
#[derive(Debug)]
pub struct YieldingHost<'p> {
    objects: &'p Objects,
    permit: &'p dyn Permit,
    until: Instant,
    /// Why the cluster is not read.
    only_known: Option<&'static str>,
    /// The cluster's answers to `authorizer` in this evaluation.
    answers: RefCell<BTreeMap<String, Result<Access, String>>>,
}

/// SubjectAccessReviews that one request may cause.
const MAX_ACCESS_REVIEWS: usize = 32;

impl YieldingHost<'_> {
    /// Never reads an object from the cluster, for this reason: one that no watch has reported cannot be
    /// read then.
    #[must_use]
    pub fn only_known(self, why: Option<&'static str>) -> Self {
        Self { only_known: why, ..self }
    }

    /// The error of an object that would have to be read.
    fn unread(&self, kind: &str, name: &str) -> Option<HostError> {
        let why = self.only_known.filter(|_| self.objects.cluster.is_some())?;
        let name = shown(name);
        Some(HostError::Unread(format!(
            "{kind} \"{name}\" is unknown, and is not looked up because no API server sends such a request: {why}"
        )))
    }

    /// Asks the cluster, if there is one.
    fn wait<T>(&self, ask: impl Fn() -> T) -> T {
        match self.objects.cluster {
            None => ask(),
            Some(_) => wait_without(Some(self.permit), self.until, ask),
        }
    }
}

impl Host for YieldingHost<'_> {
    fn parameters(&self) -> &dyn Params {
        self.objects
    }

    fn types(&self) -> &Types {
        self.objects.types()
    }

    fn authorizer(&self) -> &dyn Authorizer {
        match self.objects.cluster {
            Some(_) => self,
            None => self.objects.authorizer(),
        }
    }

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
            None => match self.unread("Namespace", name) {
                Some(error) => Err(error),
                None => self.wait(|| self.objects.namespace(name)),
            },
        }
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        match self.objects.nodes.get(name) {
            Some(node) => Ok(node.clone()),
            None => match self.unread("Node", name) {
                Some(error) => Err(error),
                None => self.wait(|| self.objects.node(name)),
            },
        }
    }

    fn assumes_namespace(&self, name: &str) -> bool {
        self.objects.assumes_namespace(name)
    }
}

impl Authorizer for YieldingHost<'_> {
    /// The cluster answers a question once for each evaluation.
    fn decide(&self, action: &Action<'_>) -> Result<Access, String> {
        let Some(cluster) = &self.objects.cluster else {
            return self.objects.authorizer().decide(action);
        };
        let question = format!("{action:?}");
        if let Some(answer) = self.answers.borrow().get(&question) {
            return answer.clone();
        }
        if let Some(why) = self.only_known {
            return Err(format!(
                "`authorizer` is not asked because no API server sends such a request: {why}"
            ));
        }
        if self.answers.borrow().len() >= MAX_ACCESS_REVIEWS {
            return Err(format!(
                "the policies ask `authorizer` more than {MAX_ACCESS_REVIEWS} different questions \
                 about one request"
            ));
        }
        let answer = self.wait(|| cluster.access(action)).map_err(|error| error.to_string());
        self.answers.borrow_mut().insert(question, answer.clone());
        answer
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
    HostError::NotFound(format!("{plural} \"{}\" not found", shown(name)))
}

/// The longest name of an object, in bytes.
const MAX_NAME: usize = 253;

/// A name for a message. An annotation or a request may hold a text of any length in its place.
fn shown(name: &str) -> Cow<'_, str> {
    match name.char_indices().find(|(at, _)| *at >= MAX_NAME) {
        Some((at, _)) => Cow::Owned(format!("{}...", name.get(..at).unwrap_or_default())),
        None => Cow::Borrowed(name),
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
