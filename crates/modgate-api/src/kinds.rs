//! The kinds of Kubernetes itself, to find those that are misspelt.
//!
//! Kinds of versions that are gone are here, too: policies keep them for older clusters.

/// API groups of Kubernetes with their kinds. No other kind can be added to these groups.
const KINDS: [(&str, &[&str]); 24] = [
    (
        "",
        &[
            "Binding",
            "ComponentStatus",
            "ConfigMap",
            "Endpoints",
            "Event",
            "LimitRange",
            "Namespace",
            "Node",
            "NodeProxyOptions",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "Pod",
            "PodAttachOptions",
            "PodExecOptions",
            "PodPortForwardOptions",
            "PodProxyOptions",
            "PodTemplate",
            "ReplicationController",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
            "ServiceProxyOptions",
        ],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
        ],
    ),
    ("apiextensions.k8s.io", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io", &["APIService"]),
    (
        "apps",
        &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "Scale", "StatefulSet"],
    ),
    ("authentication.k8s.io", &["SelfSubjectReview", "TokenRequest", "TokenReview"]),
    (
        "authorization.k8s.io",
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    ("autoscaling", &["HorizontalPodAutoscaler", "Scale"]),
    ("batch", &["CronJob", "Job"]),
    (
        "certificates.k8s.io",
        &["CertificateSigningRequest", "ClusterTrustBundle", "PodCertificateRequest"],
    ),
    ("coordination.k8s.io", &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["EndpointSlice"]),
    ("events.k8s.io", &["Event"]),
    (
        "extensions",
        &[
            "DaemonSet",
            "Deployment",
            "Ingress",
            "NetworkPolicy",
            "PodSecurityPolicy",
            "ReplicaSet",
            "Scale",
        ],
    ),
    ("flowcontrol.apiserver.k8s.io", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("internal.apiserver.k8s.io", &["StorageVersion"]),
    (
        "networking.k8s.io",
        &["IPAddress", "Ingress", "IngressClass", "NetworkPolicy", "ServiceCIDR"],
    ),
    ("node.k8s.io", &["RuntimeClass"]),
    ("policy", &["Eviction", "PodDisruptionBudget", "PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    (
        "resource.k8s.io",
        &[
            "DeviceClass",
            "DeviceTaintRule",
            "PodSchedulingContext",
            "ResourceClaim",
            "ResourceClaimParameters",
            "ResourceClaimTemplate",
            "ResourceClass",
            "ResourceClassParameters",
            "ResourceSlice",
        ],
    ),
    ("scheduling.k8s.io", &["PriorityClass", "Workload"]),
    (
        "storage.k8s.io",
        &[
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
    ("storagemigration.k8s.io", &["StorageVersionMigration"]),
];

/// The short names of resources that people type, and their kinds.
const SHORT_NAMES: &[(&str, &str)] = &[
    ("cj", "CronJob"),
    ("cm", "ConfigMap"),
    ("crd", "CustomResourceDefinition"),
    ("crds", "CustomResourceDefinition"),
    ("csr", "CertificateSigningRequest"),
    ("deploy", "Deployment"),
    ("ds", "DaemonSet"),
    ("ep", "Endpoints"),
    ("ev", "Event"),
    ("hpa", "HorizontalPodAutoscaler"),
    ("ing", "Ingress"),
    ("limits", "LimitRange"),
    ("netpol", "NetworkPolicy"),
    ("no", "Node"),
    ("ns", "Namespace"),
    ("pc", "PriorityClass"),
    ("pdb", "PodDisruptionBudget"),
    ("po", "Pod"),
    ("pv", "PersistentVolume"),
    ("pvc", "PersistentVolumeClaim"),
    ("quota", "ResourceQuota"),
    ("rc", "ReplicationController"),
    ("rs", "ReplicaSet"),
    ("sa", "ServiceAccount"),
    ("sc", "StorageClass"),
    ("sts", "StatefulSet"),
    ("svc", "Service"),
];

/// The API groups of Kubernetes; the core group is the empty text.
pub fn groups() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(group, _)| *group)
}

/// The kinds of an API group of Kubernetes; `None` for any other group.
pub fn of_group(group: &str) -> Option<&'static [&'static str]> {
    KINDS.iter().find(|(known, _)| *known == group).map(|(_, kinds)| *kinds)
}

/// The groups of Kubernetes that have this kind.
pub fn groups_of(kind: &str) -> impl Iterator<Item = &'static str> {
    let has = move |kinds: &[&str]| kinds.contains(&kind);
    KINDS.iter().filter(move |(_, kinds)| has(kinds)).map(|(group, _)| *group)
}

/// Every kind of Kubernetes; some stand in several groups.
pub fn all() -> impl Iterator<Item = &'static str> {
    KINDS.iter().flat_map(|(_, kinds)| kinds.iter().copied())
}

/// The name of a kind's resource: `pods` for `Pod`.
///
/// ```
/// assert_eq!(modgate_api::kinds::resource("NetworkPolicy"), "networkpolicies");
/// ```
pub fn resource(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower == "endpoints" {
        return lower;
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if lower.ends_with(['s', 'x']) || lower.ends_with("ch") => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

/// The kind that `name` means where it is the name of a resource (`pods`) or a kind in other
/// letters (`pod`).
pub fn of_resource_name(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let is_it = |kind: &&str| {
        let lower = kind.to_lowercase();
        lower == name || resource(kind) == name || format!("{lower}s") == name
    };
    all().find(is_it)
}

/// The kind that `name` means for people: the name of a resource (`deployments`, `deployments.apps`), its short name
/// (`deploy`), or the kind in other letters.
///
/// ```
/// assert_eq!(modgate_api::kinds::of_typed_name("deploy"), Some("Deployment"));
/// ```
pub fn of_typed_name(name: &str) -> Option<&'static str> {
    let (plain, group) = name.split_once('.').unwrap_or((name, ""));
    let short = SHORT_NAMES.iter().find(|(short, _)| short.eq_ignore_ascii_case(plain));
    let kind = short.map(|(_, kind)| *kind).or_else(|| of_resource_name(plain))?;
    (group.is_empty() || groups_of(kind).any(|known| known == group)).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_people_type() {
        for (name, kind) in [
            ("cm", Some("ConfigMap")),
            ("Deploy", Some("Deployment")),
            ("deploy.apps", Some("Deployment")),
            ("deployments.apps", Some("Deployment")),
            ("deployments.example.org", None),
            ("sts", Some("StatefulSet")),
            ("configmaps", Some("ConfigMap")),
            ("ConfigMap", Some("ConfigMap")),
            ("widgets", None),
        ] {
            assert_eq!(of_typed_name(name), kind, "{name}");
        }
        for (short, kind) in SHORT_NAMES {
            assert!(all().any(|known| known == *kind), "{kind}");
            assert_eq!(of_resource_name(short), None, "{short} is the name of another resource");
        }
    }

    #[test]
    fn names_of_resources() {
        for (name, kind) in [
            ("pods", Some("Pod")),
            ("pod", Some("Pod")),
            ("ingresses", Some("Ingress")),
            ("networkpolicies", Some("NetworkPolicy")),
            ("endpoints", Some("Endpoints")),
            ("DEPLOYMENT", Some("Deployment")),
            ("widgets", None),
            ("", None),
        ] {
            assert_eq!(of_resource_name(name), kind, "{name}");
        }
        assert_eq!(resource("IngressClass"), "ingressclasses");
        assert_eq!(groups_of("Event").collect::<Vec<_>>(), ["", "events.k8s.io"]);
    }
}
