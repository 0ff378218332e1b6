//! Fields of Kubernetes' own kinds that have a few values only (`k8s.io/api`, the constants of their Go types).

/// Type, field, and its values; of a list, those of its elements.
const VALUES: [(&str, &str, &[&str]); 55] = [
    ("admissionregistration.v1.MutatingWebhook", "failurePolicy", &["Fail", "Ignore"]),
    ("admissionregistration.v1.MutatingWebhook", "matchPolicy", &["Equivalent", "Exact"]),
    ("admissionregistration.v1.MutatingWebhook", "reinvocationPolicy", &["IfNeeded", "Never"]),
    ("admissionregistration.v1.ValidatingWebhook", "failurePolicy", &["Fail", "Ignore"]),
    ("admissionregistration.v1.ValidatingWebhook", "matchPolicy", &["Equivalent", "Exact"]),
    ("apps.v1.DaemonSetUpdateStrategy", "type", &["OnDelete", "RollingUpdate"]),
    ("apps.v1.DeploymentStrategy", "type", &["Recreate", "RollingUpdate"]),
    (RETENTION, "whenDeleted", &["Delete", "Retain"]),
    (RETENTION, "whenScaled", &["Delete", "Retain"]),
    ("apps.v1.StatefulSetSpec", "podManagementPolicy", &["OrderedReady", "Parallel"]),
    ("apps.v1.StatefulSetUpdateStrategy", "type", &["OnDelete", "RollingUpdate"]),
    ("batch.v1.CronJobSpec", "concurrencyPolicy", &["Allow", "Forbid", "Replace"]),
    ("batch.v1.JobSpec", "completionMode", &["Indexed", "NonIndexed"]),
    ("batch.v1.JobSpec", "podReplacementPolicy", &["Failed", "TerminatingOrFailed"]),
    ("core.v1.AppArmorProfile", "type", &PROFILES),
    ("core.v1.Container", "imagePullPolicy", &PULL),
    ("core.v1.Container", "restartPolicy", &RESTART),
    ("core.v1.Container", "terminationMessagePolicy", &TERMINATION),
    ("core.v1.ContainerPort", "protocol", &PROTOCOLS),
    ("core.v1.EphemeralContainer", "imagePullPolicy", &PULL),
    ("core.v1.EphemeralContainer", "terminationMessagePolicy", &TERMINATION),
    ("core.v1.HTTPGetAction", "scheme", &["HTTP", "HTTPS"]),
    (
        "core.v1.NodeSelectorRequirement",
        "operator",
        &["DoesNotExist", "Exists", "Gt", "In", "Lt", "NotIn"],
    ),
    ("core.v1.PersistentVolumeClaimSpec", "accessModes", &ACCESS),
    ("core.v1.PersistentVolumeClaimSpec", "volumeMode", &["Block", "Filesystem"]),
    ("core.v1.PersistentVolumeSpec", "accessModes", &ACCESS),
    (
        "core.v1.PersistentVolumeSpec",
        "persistentVolumeReclaimPolicy",
        &["Delete", "Recycle", "Retain"],
    ),
    ("core.v1.PersistentVolumeSpec", "volumeMode", &["Block", "Filesystem"]),
    ("core.v1.PodOS", "name", &["linux", "windows"]),
    ("core.v1.PodSecurityContext", "fsGroupChangePolicy", &["Always", "OnRootMismatch"]),
    ("core.v1.PodSecurityContext", "supplementalGroupsPolicy", &["Merge", "Strict"]),
    (
        "core.v1.PodSpec",
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    ),
    ("core.v1.PodSpec", "preemptionPolicy", &["Never", "PreemptLowerPriority"]),
    ("core.v1.PodSpec", "restartPolicy", &RESTART),
    ("core.v1.SeccompProfile", "type", &PROFILES),
    ("core.v1.SecurityContext", "procMount", &["Default", "Unmasked"]),
    ("core.v1.ServicePort", "protocol", &PROTOCOLS),
    ("core.v1.ServiceSpec", "externalTrafficPolicy", &["Cluster", "Local"]),
    ("core.v1.ServiceSpec", "internalTrafficPolicy", &["Cluster", "Local"]),
    (
        "core.v1.ServiceSpec",
        "ipFamilyPolicy",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    ),
    ("core.v1.ServiceSpec", "sessionAffinity", &["ClientIP", "None"]),
    ("core.v1.ServiceSpec", "type", &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]),
    ("core.v1.Taint", "effect", &EFFECTS),
    ("core.v1.Toleration", "effect", &EFFECTS),
    ("core.v1.Toleration", "operator", &["Equal", "Exists", "Gt", "Lt"]),
    ("core.v1.TopologySpreadConstraint", "whenUnsatisfiable", &["DoNotSchedule", "ScheduleAnyway"]),
    ("core.v1.VolumeMount", "mountPropagation", &["Bidirectional", "HostToContainer", "None"]),
    ("meta.v1.LabelSelectorRequirement", "operator", &["DoesNotExist", "Exists", "In", "NotIn"]),
    ("networking.v1.HTTPIngressPath", "pathType", &["Exact", "ImplementationSpecific", "Prefix"]),
    ("networking.v1.NetworkPolicyPort", "protocol", &PROTOCOLS),
    ("networking.v1.NetworkPolicySpec", "policyTypes", &["Egress", "Ingress"]),
    (
        "policy.v1.PodDisruptionBudgetSpec",
        "unhealthyPodEvictionPolicy",
        &["AlwaysAllow", "IfHealthyBudget"],
    ),
    ("rbac.v1.Subject", "kind", &["Group", "ServiceAccount", "User"]),
    ("storage.v1.StorageClass", "reclaimPolicy", &["Delete", "Retain"]),
    ("storage.v1.StorageClass", "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
];

const RETENTION: &str = "apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy";
const ACCESS: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "PreferNoSchedule"];
const PROFILES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
const PULL: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const RESTART: [&str; 3] = ["Always", "Never", "OnFailure"];
const TERMINATION: [&str; 2] = ["FallbackToLogsOnError", "File"];

/// The values that a field of a type may have, where there are only a few; of a list, those of its elements.
pub(super) fn values(ty: &str, field: &str) -> Option<&'static [&'static str]> {
    let found = VALUES.iter().find(|(of, name, _)| *of == ty && *name == field);
    found.map(|(_, _, values)| *values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admissionpolicy::Types;

    #[test]
    fn every_type_has_the_field() {
        for (ty, field, _) in VALUES {
            let map = Types::kubernetes().named.get(ty).and_then(|named| named.atom().map.as_ref());
            assert!(map.is_some_and(|map| map.fields.contains_key(field)), "{ty} {field}");
        }
    }
}
