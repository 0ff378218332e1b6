//! The policies and objects that one request sees.

use std::{cell::RefCell, collections::BTreeMap, fmt, sync::Arc};

use futures_util::future::BoxFuture;
use modgate_engine::{
    Host, HostError, PolicyId, Snapshot,
    admissionpolicy::{Access, Action, Authorizer, Params, Types},
    api::{admissionregistration::POLICY_KIND, secrets::SecretValues},
    constraint::{Inventory, InventoryPart},
    modrule::PodBinding,
    rego::builtins,
    template,
};
use modgate_review::references::{References, minimal_namespace, not_found, shown_name};
use modgate_value::{Clock, Value};
use tokio::time::Instant;

use crate::{
    blocking::{Permit, wait_without},
    params::WatchedParams,
    system::{ProcessorTime, SystemHost},
    types::WatchedTypes,
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

impl PolicySet {
    /// The values of the Secrets that policies read: of the inventory, and of parameters.
    pub fn secrets(&self) -> SecretValues {
        let mut values = SecretValues::default();
        self.inventory.objects().for_each(|synced| values.add(synced.object, false));
        self.objects.references.params().for_each(|it| values.add(it, false));
        self.objects.watched.objects().for_each(|it| values.add(it, false));
        values
    }

    /// Whether a constraint or a ValidatingAdmissionPolicy can read a Secret other than the reviewed object: one of
    /// the inventory, or its parameter.
    pub fn reads_secrets(&self, policy: &PolicyId) -> bool {
        if policy.kind == POLICY_KIND {
            let kind = self.snapshot.cluster_policies().param_kind(&policy.name);
            return kind.is_some_and(|it| it.api_version == "v1" && it.kind == "Secret");
        }
        let Some(template) = self.snapshot.constraints().template(&policy.kind) else {
            return false;
        };
        let step = |name: &str| Some(name.into());
        let secrets = InventoryPart(vec![step("namespace"), None, step("v1"), step("Secret")]);
        template.driver().reads().iter().any(|part| part.overlaps(&secrets))
            && self.inventory.counts().contains_key(&("v1".into(), "Secret".into()))
    }
}

/// Namespaces and Nodes: those of a cluster, or read from files that stand in for one.
///
/// In a cluster, what is not among them is looked up. A Namespace that no file has is taken to exist
/// with nothing but what the API server gives to every Namespace: its name, the label
/// `kubernetes.io/metadata.name` and phase `Active` ([`Host::assumes_namespace`]). Without that, no
/// rule could be tried without a file for every Namespace. A Node that no file has does not exist.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    references: References,
    /// Possible parameters of bindings of the cluster's own policies in a cluster.
    watched: WatchedParams,
    /// The types of a cluster's custom resources, as far as policies need them.
    watched_types: WatchedTypes,
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

    /// Those of files, which stand in for a cluster.
    pub fn of_files(references: References) -> Self {
        Self { references, ..Self::default() }
    }

    /// Budgets count processor time from now on: the answers of a command do not depend on what else the machine does.
    /// A server has a deadline for each answer, and a clock that costs less to read.
    pub fn count_processor_time(&mut self) {
        self.counts_processor_time = true;
    }

    /// The cluster's objects that bindings pass as parameters.
    pub fn watched_params(&self) -> &WatchedParams {
        &self.watched
    }

    /// Changes what a cluster has of the objects that bindings pass.
    pub fn watched_params_mut(&mut self) -> &mut WatchedParams {
        &mut self.watched
    }

    /// The types of the cluster's custom resources that policies need.
    pub fn watched_types(&self) -> &WatchedTypes {
        &self.watched_types
    }

    /// Changes what is known of the cluster's custom resources.
    pub fn watched_types_mut(&mut self) -> &mut WatchedTypes {
        &mut self.watched_types
    }

    /// Whether everything that the cluster's own policies refer to has been listed, is not served, or cannot
    /// be read.
    pub fn is_settled(&self) -> bool {
        self.watched.is_settled() && self.watched_types.is_settled()
    }

    /// The same for one evaluation, which gives `permit` back while it waits for the cluster, and goes
    /// on at `until` if it has no permit again before.
    pub fn yielding<'p>(&'p self, permit: &'p dyn Permit, until: Instant) -> YieldingHost<'p> {
        let answers = RefCell::default();
        YieldingHost { objects: self, permit, until, only_known: None, answers }
    }

    /// The Namespaces, Nodes and other objects.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// Changes the Namespaces, Nodes and other objects.
    pub fn references_mut(&mut self) -> &mut References {
        &mut self.references
    }

    /// Where parameters of the cluster's own policies are.
    fn params(&self) -> &dyn Params {
        if self.cluster.is_some() { &self.watched } else { &self.references }
    }

    /// Looks up what is not among them; `None` where files stand in for a cluster.
    pub fn cluster(&self) -> Option<&Arc<dyn ClusterLookup>> {
        self.cluster.as_ref()
    }
}

impl Host for Objects {
    fn parameters(&self) -> &dyn Params {
        self.params()
    }

    fn types(&self) -> &Types {
        self.watched_types.types().unwrap_or_else(|| self.references.types())
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self.references.authorizer()
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
        match (self.references.namespace(name), &self.cluster) {
            (Some(namespace), _) => Ok(namespace.clone()),
            (None, Some(cluster)) => {
                cluster.get("Namespace", name)?.ok_or_else(|| not_found("namespaces", name))
            }
            (None, None) => Ok(minimal_namespace(name)),
        }
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        match (self.references.node(name), &self.cluster) {
            (Some(node), _) => Ok(node.clone()),
            (None, Some(cluster)) => {
                cluster.get("Node", name)?.ok_or_else(|| not_found("nodes", name))
            }
            (None, None) => Err(not_found("nodes", name)),
        }
    }

    fn assumes_namespace(&self, name: &str) -> bool {
        self.cluster.is_none() && self.references.namespace(name).is_none()
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
        let name = shown_name(name);
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
        self.objects.params()
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
        match self.objects.references.namespace(name) {
            Some(namespace) => Ok(namespace.clone()),
            None => match self.unread("Namespace", name) {
                Some(error) => Err(error),
                None => self.wait(|| self.objects.namespace(name)),
            },
        }
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        match self.objects.references.node(name) {
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
                "`authorizer` has no answer because no API server sends such a request: {why}"
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
