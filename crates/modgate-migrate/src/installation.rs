//! Finding the originals among the objects of a cluster, by the names of their manifests
//! (spec `kubemod.md`, 7.1 to 7.5; `gatekeeper-validation.md`, 9.2 and 9.4).

use std::{collections::BTreeSet, fmt};

use modgate_value::Value;
use serde::Serialize;

use crate::object::{InstalledObject, list, text, texts};

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
    /// The original that it belongs to.
    pub original: Original,
    pub(crate) found: &'f InstalledObject,
}

impl<'f> Workload<'f> {
    pub(crate) fn containers(&self) -> &'f [Value] {
        list(&self.found.object, &["spec", "template", "spec", "containers"])
    }

    /// The images it runs.
    pub(crate) fn images(&self) -> impl Iterator<Item = &'f str> {
        self.containers().iter().map(|container| text(container, &["image"]))
    }

    /// Whether it was scaled to nothing.
    pub(crate) fn is_stopped(&self) -> bool {
        let replicas = self.found.object.path(&["spec", "replicas"]);
        replicas.and_then(Value::as_i64) == Some(0)
    }

    /// Whether a flag is given, and not as `false`.
    pub(crate) fn has_flag(&self, name: &str) -> bool {
        let given = |container: &Value| {
            crate::arguments::given(container).into_iter().any(|(flag, value)| {
                flag == name && value.as_deref().is_none_or(|value| value != "false")
            })
        };
        self.containers().iter().any(given)
    }
}

/// The parts of the originals that are present.
pub(crate) struct Installation<'f> {
    pub(crate) workloads: Vec<Workload<'f>>,
    pub(crate) objects: &'f [InstalledObject],
}

/// Names of Deployments, and the repositories of their images, by whose they are.
const WORKLOADS: [(&str, &str, Original); 3] = [
    ("kubemod-operator", "kubemod/kubemod", Original::KubeMod),
    ("gatekeeper-controller-manager", GATEKEEPER, Original::Gatekeeper),
    ("gatekeeper-audit", GATEKEEPER, Original::Gatekeeper),
];

/// The repository of Gatekeeper's image. What else is published beside it, such as
/// `openpolicyagent/gatekeeper-external-data-provider`, is not Gatekeeper.
pub(crate) const GATEKEEPER: &str = "openpolicyagent/gatekeeper";

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
    pub(crate) fn of(objects: &'f [InstalledObject]) -> Self {
        let workload = |found: &'f InstalledObject| {
            if found.kind() != "Deployment" || found.group() != "apps" {
                return None;
            }
            let containers = found.list(&["spec", "template", "spec", "containers"]);
            let runs =
                |repository: &str| containers.iter().any(|container| is_of(container, repository));
            let (.., original) = WORKLOADS
                .into_iter()
                .find(|(name, image, _)| found.name() == *name || runs(image))?;
            (!is_modgates(found)).then_some(Workload { original, found })
        };
        Self { workloads: objects.iter().filter_map(workload).collect(), objects }
    }

    /// Which of the originals there is any of.
    pub(crate) fn originals(&self) -> BTreeSet<Original> {
        let of_workloads = self.workloads.iter().map(|workload| workload.original);
        let of_configurations = self.configurations().map(|(_, original)| original);
        let of_parts = self.switched().map(|(_, original)| original);
        let of_parts = of_parts.filter(|original| self.parts(*original).next().is_some());
        of_workloads.chain(of_configurations).chain(of_parts).collect()
    }

    /// The namespaces an original runs in, its own one last resort.
    pub(crate) fn namespaces(&self, original: Original) -> BTreeSet<&'f str> {
        let of_workloads = self
            .workloads
            .iter()
            .filter(|workload| workload.original == original)
            .map(|workload| workload.found.namespace());
        // Gatekeeper's namespace is where modgate is.
        let taken = self.switched().filter(|_| original == Original::Gatekeeper);
        let of_services = self
            .configurations()
            .chain(taken)
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

    /// The originals' webhook configurations: those of their manifests as long as they are not
    /// modgate's, and others that call their Services.
    pub(crate) fn configurations(&self) -> impl Iterator<Item = (&'f InstalledObject, Original)> {
        let has_modgate = self.has_modgate();
        self.objects.iter().filter_map(move |found| {
            if found.group() != "admissionregistration.k8s.io" || is_modgates(found) {
                return None;
            }
            let of_service = || {
                SERVICES.into_iter().find_map(|(name, original)| {
                    services(found).any(|(_, called)| called == name).then_some(original)
                })
            };
            // Behind Gatekeeper's Service is modgate, too.
            let of_service =
                || of_service().filter(|it| !(has_modgate && *it == Original::Gatekeeper));
            Some((found, named(found).or_else(of_service)?))
        })
    }

    /// Webhook configurations that have an original's name and are modgate's.
    pub(crate) fn switched(&self) -> impl Iterator<Item = (&'f InstalledObject, Original)> {
        let modgates = self.objects.iter().filter(|found| is_modgates(found));
        modgates.filter_map(|found| Some((found, named(found)?)))
    }

    /// Whether a configuration goes on under its name, for modgate's has the same.
    pub(crate) fn is_taken_over(found: &InstalledObject) -> bool {
        named(found).is_some()
    }

    /// Whether modgate is installed, as far as that can be seen.
    pub(crate) fn has_modgate(&self) -> bool {
        self.objects.iter().any(|found| {
            is_modgates(found) && (found.kind() == "Deployment" || named(found).is_some())
        })
    }

    /// Whether modgate is seen to do everything: no part of it is left to an original.
    pub(crate) fn modgate_does_all(&self) -> bool {
        let is_deployment =
            |found: &&InstalledObject| found.kind() == "Deployment" && is_modgates(found);
        let deployments = self.objects.iter().filter(is_deployment);
        let mut containers = deployments
            .flat_map(|found| found.list(&["spec", "template", "spec", "containers"]))
            .map(crate::arguments::given);
        containers.any(|flags| {
            let mut operations = flags.iter().filter(|(flag, _)| flag == "operation").peekable();
            operations.peek().is_none()
                || operations.any(|(_, operation)| operation.as_deref() == Some("audit"))
        })
    }

    /// The objects of [`PARTS`] that are there and to be removed; Secrets are not among them, for
    /// they are not read.
    pub(crate) fn parts(&self, original: Original) -> impl Iterator<Item = &'f InstalledObject> {
        let namespaces = self.namespaces(original);
        let parts = PARTS.into_iter().filter(move |part| part.0 == original);
        let parts = parts.filter(|(_, kind, _, name)| *kind != "Secret" && !is_kept(kind, name));
        parts.flat_map(move |(_, kind, namespaced, name)| {
            let namespaces = namespaces.clone();
            self.objects.iter().filter(move |found| {
                found.kind() == kind
                    && found.name() == name
                    && (!namespaced || namespaces.contains(found.namespace()))
                    && !is_modgates(found)
            })
        })
    }
}

/// The original that a webhook configuration has its name from.
fn named(found: &InstalledObject) -> Option<Original> {
    let is_named =
        |(kind, name, _): &(&str, &str, Original)| found.kind() == *kind && found.name() == *name;
    CONFIGURATIONS.into_iter().find(is_named).map(|(.., original)| original)
}

/// Whether an object belongs to modgate, whatever its name: so say the label that the chart gives it,
/// or Helm.
pub(crate) fn is_modgates(found: &InstalledObject) -> bool {
    const NAME: &str = "modgate";
    found.text(&["metadata", "labels", "app.kubernetes.io/name"]) == NAME
        || found.text(&["metadata", "annotations", "meta.helm.sh/release-name"]) == NAME
}

/// Whether a container's image is of a repository, whatever registry it is mirrored in.
pub(crate) fn is_of(container: &Value, repository: &str) -> bool {
    let image = text(container, &["image"]);
    let image = image.split('@').next().unwrap_or_default();
    // Further to the left a colon is that of a port.
    let image = match image.rsplit_once(':') {
        Some((image, tag)) if !tag.contains('/') => image,
        _ => image,
    };
    image.strip_suffix(repository).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('/'))
}

/// Namespace and name of the Services that a webhook configuration calls.
fn services(configuration: &InstalledObject) -> impl Iterator<Item = (&str, &str)> {
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

/// Objects that modgate has under the same name, in the same place.
const KEPT: [(&str, &str); 5] = [
    ("Service", "gatekeeper-webhook-service"),
    ("Secret", "gatekeeper-webhook-server-cert"),
    ("ServiceAccount", "gatekeeper-admin"),
    ("PodDisruptionBudget", "gatekeeper-controller-manager"),
    ("ResourceQuota", "gatekeeper-critical-pods"),
];

pub(crate) fn is_kept(kind: &str, name: &str) -> bool {
    KEPT.contains(&(kind, name))
}

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

/// Objects to look for besides policies, Deployments and webhook configurations, given those. Secrets
/// are not among it: they need not be read.
pub fn parts(objects: &[InstalledObject]) -> Vec<Part> {
    let installation = Installation::of(objects);
    let mut all = Vec::new();
    let switched = installation.switched().map(|(_, original)| original);
    let originals: BTreeSet<Original> =
        installation.originals().into_iter().chain(switched).collect();
    for original in originals {
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
pub(crate) fn release(found: &InstalledObject) -> Option<(&str, &str)> {
    let annotation = |name: &str| found.text(&["metadata", "annotations", name]);
    let name = annotation("meta.helm.sh/release-name");
    let namespace = match annotation("meta.helm.sh/release-namespace") {
        "" => found.namespace(),
        namespace => namespace,
    };
    (!name.is_empty()).then_some((namespace, name))
}

/// The resources that a webhook of a configuration is called for.
pub(crate) fn resources(webhook: &Value) -> impl Iterator<Item = &str> {
    list(webhook, &["rules"]).iter().flat_map(|rule| texts(rule, &["resources"]))
}

/// The operations that a webhook of a configuration is called for.
pub(crate) fn operations(webhook: &Value) -> impl Iterator<Item = &str> {
    list(webhook, &["rules"]).iter().flat_map(|rule| texts(rule, &["operations"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images() {
        for (image, expected) in [
            ("openpolicyagent/gatekeeper", true),
            ("openpolicyagent/gatekeeper:v3.22.0", true),
            ("openpolicyagent/gatekeeper@sha256:0123", true),
            ("openpolicyagent/gatekeeper:v3.22.0@sha256:0123", true),
            ("docker.io/openpolicyagent/gatekeeper:v3.22.0", true),
            ("registry.example.com:5000/mirror/openpolicyagent/gatekeeper", true),
            ("registry.example.com:5000/mirror/openpolicyagent/gatekeeper:v3", true),
            ("openpolicyagent/gatekeeper-external-data-provider:v0.1", false),
            ("openpolicyagent/gatekeeper-crds:v3.22.0", false),
            ("openpolicyagent/gatekeeper/more", false),
            ("notopenpolicyagent/gatekeeper:v3.22.0", false),
            ("example.com/a:openpolicyagent/gatekeeper", false),
            ("", false),
        ] {
            let container = [("image", Value::from(image))].into_iter().collect();
            assert_eq!(is_of(&container, GATEKEEPER), expected, "{image}");
        }
    }
}
