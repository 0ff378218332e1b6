//! Both originals in one webhook: mutators until nothing changes, then ModRules by tier.
//!
//! A cluster with Gatekeeper and KubeMod in it sends a request first to Gatekeeper's mutating
//! webhook, whose configuration sorts before, and what comes of it to KubeMod's. [`mutate`] does the
//! same in one answer: each engine sees what its own webhook configuration would let through, and
//! its own kinds, operations and ignore label stay its own ([`Reach`]).

use std::fmt;

use modgate_api::{admission::AdmissionRequest, meta::Operation};
use modgate_value::{Str, Value};

use crate::{
    Decision, EngineConfig, Host, Review, Snapshot,
    decision::reason,
    gatekeeper::{self, IGNORE_LABEL, Installation, Mutation},
};

/// What a request came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Piped {
    /// The decision of both: the patch leads from the object as sent to the final one.
    pub decision: Decision,
    /// What Gatekeeper's mutators did; `None` where the request does not reach them.
    pub mutation: Option<Mutation>,
}

/// Answers a request as Gatekeeper's mutating webhook and KubeMod's would one after the other.
pub fn mutate(
    review: &Review,
    installation: &Installation,
    snapshot: &Snapshot,
    host: &dyn Host,
) -> Piped {
    let reach = Reach::of(review, installation, snapshot.config(), host);
    let mutation =
        reach.mutators.is_ok().then(|| gatekeeper::mutate(review, installation, snapshot, host));
    let Some(done) = &mutation else {
        return Piped { decision: by_modrules(review, reach, snapshot, host), mutation };
    };
    if !done.allowed {
        let object = review.object().cloned().unwrap_or_default();
        let decision = Decision {
            allowed: false,
            code: done.code,
            reason: done.message.clone(),
            ..Decision::unchanged(object)
        };
        return Piped { decision, mutation };
    }
    let Some(object) = &done.object else {
        return Piped { decision: by_modrules(review, reach, snapshot, host), mutation };
    };
    let handed_on = review.clone().with_object(object.clone());
    let mut decision = by_modrules(&handed_on, reach, snapshot, host);
    if decision.allowed && !done.patch.is_empty() {
        // One patch after the other is a patch.
        decision.patch.splice(0..0, done.patch.iter().cloned());
        if decision.reason == reason::UNCHANGED {
            decision.reason = reason::PATCHED.to_owned();
        }
    }
    Piped { decision, mutation }
}

fn by_modrules(review: &Review, reach: Reach, snapshot: &Snapshot, host: &dyn Host) -> Decision {
    match reach.modrules {
        Ok(()) => snapshot.mutate(review, host),
        Err(_) => Decision::unchanged(review.object().cloned().unwrap_or_default()),
    }
}

/// Which of the two webhooks the API server would send a request to, as both are installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// Gatekeeper's, or why not.
    pub mutators: Result<(), Unreached>,
    /// KubeMod's, or why not.
    pub modrules: Result<(), Unreached>,
}

/// Why a request is not sent to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreached {
    /// The namespace carries the label that says so.
    IgnoreLabel(&'static str),
    /// It is the namespace the engine runs in.
    OwnNamespace,
    /// The webhook is not asked about this.
    Operation(Operation),
    /// Nor about parts of objects.
    SubResource(Str),
    /// Nor about this kind.
    Kind(Str),
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IgnoreLabel(label) => write!(f, "the namespace has the label `{label}`"),
            Self::OwnNamespace => f.write_str("it is the namespace the engine runs in"),
            Self::Operation(operation) => write!(f, "the webhook is not asked about {operation}"),
            Self::SubResource(name) => {
                write!(f, "the webhook is not asked about subresources, such as `{name}`")
            }
            Self::Kind(kind) => write!(f, "`{kind}` is not among the kinds of the webhook"),
        }
    }
}

/// The label of namespaces that KubeMod leaves alone when it is `true`.
const KUBEMOD_LABEL: &str = "admission.kubemod.io/ignore";

/// What KubeMod's webhook is asked about as shipped (spec `kubemod.md`, 7.1), with the kinds.
const KUBEMOD_RESOURCES: [(&str, &str); 21] = [
    ("namespaces", "Namespace"),
    ("nodes", "Node"),
    ("configmaps", "ConfigMap"),
    ("persistentvolumeclaims", "PersistentVolumeClaim"),
    ("persistentvolumes", "PersistentVolume"),
    ("secrets", "Secret"),
    ("services", "Service"),
    ("daemonsets", "DaemonSet"),
    ("deployments", "Deployment"),
    ("replicasets", "ReplicaSet"),
    ("statefulsets", "StatefulSet"),
    ("horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ("ingresses", "Ingress"),
    ("pods", "Pod"),
    ("cronjobs", "CronJob"),
    ("jobs", "Job"),
    ("serviceaccounts", "ServiceAccount"),
    ("clusterrolebindings", "ClusterRoleBinding"),
    ("clusterroles", "ClusterRole"),
    ("rolebindings", "RoleBinding"),
    ("roles", "Role"),
];

impl Reach {
    /// What the labels of the request's namespace, its kind and its operation let through. A
    /// namespace that cannot be read has no labels.
    pub fn of(
        review: &Review,
        installation: &Installation,
        config: &EngineConfig,
        host: &dyn Host,
    ) -> Self {
        let request = review.request();
        let namespace = match review.store_namespace() {
            "" if request.kind.kind == "Namespace" && request.kind.group.is_empty() => {
                review.object().cloned()
            }
            "" => None,
            name => host.namespace(name).ok(),
        };
        let label = |key: &str| {
            namespace.as_ref()?.path(&["metadata", "labels"])?.get(key).and_then(Value::as_str)
        };
        let mutators = if label(IGNORE_LABEL).is_some() {
            Err(Unreached::IgnoreLabel(IGNORE_LABEL))
        } else if request.namespace == installation.namespace {
            Err(Unreached::OwnNamespace)
        } else {
            Ok(())
        };
        let modrules = if label(KUBEMOD_LABEL) == Some("true") {
            Err(Unreached::IgnoreLabel(KUBEMOD_LABEL))
        } else {
            reaches_modrules(request, config)
        };
        Self { mutators, modrules }
    }
}

fn reaches_modrules(request: &AdmissionRequest, config: &EngineConfig) -> Result<(), Unreached> {
    if request.operation == Operation::Connect {
        return Err(Unreached::Operation(request.operation));
    }
    if !request.sub_resource.is_empty() {
        return Err(Unreached::SubResource(request.sub_resource.clone()));
    }
    let is_meant = |resource: &str, kind: &str| match request.resource.resource.as_str() {
        // An object on its own does not say what its resource is called.
        "" => kind == request.kind.kind,
        name => name == resource,
    };
    let meant = match &config.modrule_resources {
        None => KUBEMOD_RESOURCES.iter().any(|(resource, kind)| is_meant(resource, kind)),
        Some(resources) => resources.iter().any(|resource| {
            let known = KUBEMOD_RESOURCES.iter().find(|(name, _)| name == resource);
            resource == "*" || is_meant(resource, known.map_or(resource.as_str(), |(_, kind)| kind))
        }),
    };
    if meant { Ok(()) } else { Err(Unreached::Kind(request.kind.kind.clone())) }
}
