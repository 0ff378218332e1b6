//! Finding the originals among the objects of a cluster, by the names of their manifests
//! (spec `kubemod.md`, 7.1 to 7.5; `gatekeeper-validation.md`, 9.2 and 9.4).

use std::{collections::BTreeSet, fmt};

use modgate_value::Value;
use serde::Serialize;

use crate::object::{Found, list, text, texts};

/// A program that modgate takes over from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Original {
    /// KubeMod.
    KubeMod,
    /// OPA Gatekeeper.
    Gatekeeper,
}

impl fmt::Display for Original {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KubeMod => "KubeMod",
            Self::Gatekeeper => "Gatekeeper",
        })
    }
}

/// A Deployment of an original.
#[derive(Debug, Clone, Copy)]
pub struct Workload<'f> {
    /// Whose it is.
    pub original: Original,
    pub(crate) found: &'f Found,
}

impl<'f> Workload<'f> {
    pub(crate) fn containers(&self) -> &'f [Value] {
        list(&self.found.object, &["spec", "template", "spec", "containers"])
    }

    /// The images it runs.
    pub(crate) fn images(&self) -> impl Iterator<Item = &'f str> {
        self.containers().iter().map(|container| text(container, &["image"]))
    }

    /// The operations it is told to do; none given means all.
    pub(crate) fn has_flag(&self, name: &str) -> bool {
        let given = |container: &Value| {
            crate::flags::given(container).into_iter().any(|(flag, value)| {
                flag == name && value.as_deref().is_none_or(|value| value != "false")
            })
        };
        self.containers().iter().any(given)
    }
}

/// What of the originals is there.
pub(crate) struct Installation<'f> {
    pub(crate) workloads: Vec<Workload<'f>>,
    pub(crate) objects: &'f [Found],
}

/// Names of Deployments, and parts of the names of images, by whose they are.
const WORKLOADS: [(&str, &str, Original); 3] = [
    ("kubemod-operator", "kubemod/kubemod", Original::KubeMod),
    ("gatekeeper-controller-manager", "openpolicyagent/gatekeeper", Original::Gatekeeper),
    ("gatekeeper-audit", "openpolicyagent/gatekeeper", Original::Gatekeeper),
];

/// The webhook configurations of their manifests.
pub(crate) const CONFIGURATIONS: [(&str, &str, Original); 4] = [
    (
        "ValidatingWebhookConfiguration",
        "gatekeeper-validating-webhook-configuration",
        Original::Gatekeeper,
    ),
    (
        "MutatingWebhookConfiguration",
        "gatekeeper-mutating-webhook-configuration",
        Original::Gatekeeper,
    ),
    (
        "ValidatingWebhookConfiguration",
        "kubemod-validating-webhook-configuration",
        Original::KubeMod,
    ),
    ("MutatingWebhookConfiguration", "kubemod-mutating-webhook-configuration", Original::KubeMod),
];

/// Services that the originals' webhooks are reached by.
const SERVICES: [(&str, Original); 2] = [
    ("gatekeeper-webhook-service", Original::Gatekeeper),
    ("kubemod-webhook-service", Original::KubeMod),
];

impl<'f> Installation<'f> {
    pub(crate) fn of(objects: &'f [Found]) -> Self {
        let workload = |found: &'f Found| {
            if found.kind() != "Deployment" || found.group() != "apps" {
                return None;
            }
            let containers = found.list(&["spec", "template", "spec", "containers"]);
            let runs = |part: &str| {
                containers.iter().any(|container| text(container, &["image"]).contains(part))
            };
            let (.., original) = WORKLOADS
                .into_iter()
                .find(|(name, image, _)| found.name() == *name || runs(image))?;
            Some(Workload { original, found })
        };
        Self { workloads: objects.iter().filter_map(workload).collect(), objects }
    }

    /// Which of the originals there is any of.
    pub(crate) fn originals(&self) -> BTreeSet<Original> {
        let of_workloads = self.workloads.iter().map(|workload| workload.original);
        let of_configurations = self.configurations().map(|(_, original)| original);
        of_workloads.chain(of_configurations).collect()
    }

    /// The namespaces an original runs in, its own one last resort.
    pub(crate) fn namespaces(&self, original: Original) -> BTreeSet<&'f str> {
        let of_workloads = self
            .workloads
            .iter()
            .filter(|workload| workload.original == original)
            .map(|workload| workload.found.namespace());
        let of_services = self
            .configurations()
            .filter(|(_, whose)| *whose == original)
            .flat_map(|(found, _)| services(found).map(|(namespace, _)| namespace));
        let mut found: BTreeSet<&str> =
            of_workloads.chain(of_services).filter(|name| !name.is_empty()).collect();
        if found.is_empty() {
            found.insert(match original {
                Original::KubeMod => "kubemod-system",
                Original::Gatekeeper => "gatekeeper-system",
            });
        }
        found
    }

    /// The originals' webhook configurations: those of their manifests, and others that call their
    /// Services.
    pub(crate) fn configurations(&self) -> impl Iterator<Item = (&'f Found, Original)> {
        self.objects.iter().filter_map(|found| {
            if found.group() != "admissionregistration.k8s.io" {
                return None;
            }
            let named = CONFIGURATIONS
                .into_iter()
                .find(|(kind, name, _)| found.kind() == *kind && found.name() == *name);
            let of_service = || {
                SERVICES.into_iter().find_map(|(name, original)| {
                    services(found).any(|(_, called)| called == name).then_some(original)
                })
            };
            Some((found, named.map(|(.., original)| original).or_else(of_service)?))
        })
    }

    /// Whether a configuration goes on under its name, for modgate's has the same.
    pub(crate) fn is_taken_over(found: &Found) -> bool {
        CONFIGURATIONS
            .into_iter()
            .any(|(kind, name, _)| found.kind() == kind && found.name() == name)
    }
}

/// Namespace and name of the Services that a webhook configuration calls.
fn services(configuration: &Found) -> impl Iterator<Item = (&str, &str)> {
    configuration.list(&["webhooks"]).iter().filter_map(|webhook| {
        let service = webhook.path(&["clientConfig", "service"])?;
        Some((text(service, &["namespace"]), text(service, &["name"])))
    })
}

/// Objects of the originals' manifests besides workloads, webhook configurations and CRDs: kind as
/// kubectl takes it, whether they live in the originals' namespace, and name. In the order in which
/// they are removed.
pub(crate) const PARTS: [(Original, &str, bool, &str); 24] = [
    (Original::KubeMod, "CronJob", true, "kubemod-crt-cron-job"),
    (Original::KubeMod, "Job", true, "kubemod-crt-job"),
    (Original::KubeMod, "Service", true, "kubemod-webhook-service"),
    (Original::KubeMod, "Service", true, "kubemod-webapp-service"),
    (Original::KubeMod, "ClusterRoleBinding", false, "kubemod-manager"),
    (Original::KubeMod, "ClusterRoleBinding", false, "kubemod-crt"),
    (Original::KubeMod, "ClusterRole", false, "kubemod-manager"),
    (Original::KubeMod, "ClusterRole", false, "kubemod-crt"),
    (Original::KubeMod, "RoleBinding", true, "kubemod-crt"),
    (Original::KubeMod, "Role", true, "kubemod-crt"),
    (Original::KubeMod, "Secret", true, "webhook-server-cert"),
    (Original::Gatekeeper, "PodDisruptionBudget", true, "gatekeeper-controller-manager"),
    (Original::Gatekeeper, "ResourceQuota", true, "gatekeeper-critical-pods"),
    (Original::Gatekeeper, "Service", true, "gatekeeper-webhook-service"),
    (Original::Gatekeeper, "ClusterRoleBinding", false, "gatekeeper-manager-rolebinding"),
    (Original::Gatekeeper, "ClusterRole", false, "gatekeeper-manager-role"),
    (Original::Gatekeeper, "RoleBinding", true, "gatekeeper-manager-rolebinding"),
    (Original::Gatekeeper, "Role", true, "gatekeeper-manager-role"),
    (Original::Gatekeeper, "ServiceAccount", true, "gatekeeper-admin"),
    (Original::Gatekeeper, "ServiceAccount", true, "gatekeeper-admin-upgrade-crds"),
    (Original::Gatekeeper, "ClusterRole", false, "gatekeeper-admin-upgrade-crds"),
    (Original::Gatekeeper, "ClusterRoleBinding", false, "gatekeeper-admin-upgrade-crds"),
    (Original::Gatekeeper, "Secret", true, "gatekeeper-webhook-server-cert"),
    (Original::Gatekeeper, "NetworkPolicy", true, "gatekeeper-controller-manager"),
];

/// Where the API server has objects of a kind of [`PARTS`]: group, and name in URLs.
fn place(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "CronJob" => ("batch", "cronjobs"),
        "Job" => ("batch", "jobs"),
        "Service" => ("", "services"),
        "ServiceAccount" => ("", "serviceaccounts"),
        "ResourceQuota" => ("", "resourcequotas"),
        "PodDisruptionBudget" => ("policy", "poddisruptionbudgets"),
        "NetworkPolicy" => ("networking.k8s.io", "networkpolicies"),
        "ClusterRole" => (RBAC, "clusterroles"),
        "ClusterRoleBinding" => (RBAC, "clusterrolebindings"),
        "Role" => (RBAC, "roles"),
        "RoleBinding" => (RBAC, "rolebindings"),
        _ => ("", "secrets"),
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// An object that may be part of an original's installation, to be looked for by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// API group; the version is `v1` for all of them.
    pub group: &'static str,
    /// Name of the kind in URLs.
    pub plural: &'static str,
    /// Empty for objects that live in none.
    pub namespace: String,
    /// Its name.
    pub name: &'static str,
}

/// What to look for besides policies, Deployments and webhook configurations, given those. Secrets
/// are not among it: nobody has to read them.
pub fn parts(objects: &[Found]) -> Vec<Part> {
    let installation = Installation::of(objects);
    let mut all = Vec::new();
    for original in installation.originals() {
        let parts = PARTS.into_iter().filter(|part| part.0 == original && part.1 != "Secret");
        for (_, kind, namespaced, name) in parts {
            let (group, plural) = place(kind);
            let namespaces = installation.namespaces(original);
            let part =
                |namespace: &str| Part { group, plural, namespace: namespace.to_owned(), name };
            match namespaced {
                true => all.extend(namespaces.into_iter().map(part)),
                false => all.push(part("")),
            }
        }
    }
    all
}

/// The release of Helm that an object belongs to.
pub(crate) fn release(found: &Found) -> Option<(&str, &str)> {
    let annotation = |name: &str| found.text(&["metadata", "annotations", name]);
    let name = annotation("meta.helm.sh/release-name");
    let namespace = match annotation("meta.helm.sh/release-namespace") {
        "" => found.namespace(),
        namespace => namespace,
    };
    (!name.is_empty()).then_some((namespace, name))
}

/// The operations that a webhook of a configuration is called for.
pub(crate) fn operations(webhook: &Value) -> impl Iterator<Item = &str> {
    list(webhook, &["rules"]).iter().flat_map(|rule| texts(rule, &["operations"]))
}
