//! Which stages a request reaches, and why not the others.

use modgate_api::{admission::AdmissionRequest, admissionregistration, meta::Operation};
use modgate_value::Value;

use crate::{
    EngineConfig, Host, Review, Skipped,
    gatekeeper::{IGNORE_LABEL, MODRULE_IGNORE_LABEL},
};

/// The stages to which the configurations of the webhooks, as they are installed, let a request
/// through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Mutators and constraints, or why not.
    pub gatekeeper: Result<(), Skipped>,
    /// ModRules, or why not.
    pub modrules: Result<(), Skipped>,
}

/// A part of a request for which Gatekeeper's webhooks receive it only in some installations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnsentByDefault {
    /// Its operation. The webhook for mutators never receives it.
    Operation(Operation),
    /// Its subresource, with the resource in front: `pods/status`.
    SubResource(String),
}

/// The subresources whose requests Gatekeeper's webhooks receive as the chart installs them.
const SUBRESOURCES: [&str; 16] = [
    "deployments/scale",
    "nodes/proxy",
    "pods/attach",
    "pods/binding",
    "pods/ephemeralcontainers",
    "pods/eviction",
    "pods/exec",
    "pods/log",
    "pods/portforward",
    "pods/proxy",
    "pods/resize",
    "replicasets/scale",
    "replicationcontrollers/scale",
    "services/proxy",
    "services/status",
    "statefulsets/scale",
];

/// The resources of KubeMod's webhook as shipped (spec `kubemod.md`, 7.1), with their kinds.
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

impl Scope {
    /// Everything.
    pub const ALL: Self = Self { gatekeeper: Ok(()), modrules: Ok(()) };

    /// The parts for which Gatekeeper's webhooks do not receive the request as the chart installs them.
    /// Installations differ in this, so a command runs their stages.
    pub fn unsent_by_default(review: &Review) -> Vec<UnsentByDefault> {
        let request = review.request();
        let path = format!("{}/{}", request.resource.resource, request.sub_resource);
        let is_sent = request.sub_resource.is_empty() || SUBRESOURCES.contains(&path.as_str());
        let unsent = Some(request.operation).filter(|operation| !operation.is_write());
        let operation = unsent.map(UnsentByDefault::Operation);
        operation
            .into_iter()
            .chain((!is_sent).then_some(UnsentByDefault::SubResource(path)))
            .collect()
    }

    /// The stages that the labels of the request's namespace, its kind and its operation allow. A
    /// namespace that cannot be read has no labels.
    pub fn of(review: &Review, config: &EngineConfig, host: &dyn Host) -> Self {
        let request = review.request();
        let unreached = if admissionregistration::is_exempt(&request.kind) {
            Some(Skipped::ExemptKind(request.kind.kind.clone()))
        } else if request.namespace == config.installation.namespace {
            Some(Skipped::OwnNamespace)
        } else {
            None
        };
        if let Some(why) = unreached {
            return Self { gatekeeper: Err(why.clone()), modrules: Err(why) };
        }
        let namespace = match review.store_namespace() {
            "" if request.kind.is_namespace() => review.object().cloned(),
            "" => None,
            name => host.namespace(name).ok(),
        };
        let label = |key: &str| {
            namespace.as_ref()?.path(&["metadata", "labels"])?.get(key).and_then(Value::as_str)
        };
        let gatekeeper = if label(IGNORE_LABEL).is_some() {
            Err(Skipped::IgnoreLabel(IGNORE_LABEL))
        } else {
            Ok(())
        };
        let modrules = if label(MODRULE_IGNORE_LABEL) == Some("true") {
            Err(Skipped::IgnoreLabel(MODRULE_IGNORE_LABEL))
        } else {
            reaches_modrules(request, config)
        };
        Self { gatekeeper, modrules }
    }
}

fn reaches_modrules(request: &AdmissionRequest, config: &EngineConfig) -> Result<(), Skipped> {
    if request.operation == Operation::Connect {
        return Err(Skipped::Operation(request.operation));
    }
    if !request.sub_resource.is_empty() {
        return Err(Skipped::SubResource(request.sub_resource.clone()));
    }
    let is_meant = |resource: &str, kind: &str| match request.resource.resource.as_str() {
        // An object on its own does not name its resource.
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
    if meant { Ok(()) } else { Err(Skipped::Kind(request.kind.kind.clone())) }
}
