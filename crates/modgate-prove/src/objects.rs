//! Facts about Kubernetes' objects: kinds, Pods, images, and which objects an API server takes.

pub(crate) mod images;
pub(crate) mod pods;
pub(crate) mod possible;

/// The kinds, with the places where they have the template of a Pod. Pods come first and most often.
pub(crate) const KINDS: [(&str, &str, &[&str]); 18] = [
    ("v1", "Pod", &[]),
    ("apps/v1", "Deployment", &["spec", "template"]),
    ("apps/v1", "StatefulSet", &["spec", "template"]),
    ("apps/v1", "DaemonSet", &["spec", "template"]),
    ("apps/v1", "ReplicaSet", &["spec", "template"]),
    ("batch/v1", "Job", &["spec", "template"]),
    ("batch/v1", "CronJob", &["spec", "jobTemplate", "spec", "template"]),
    ("v1", "Service", &[]),
    ("networking.k8s.io/v1", "Ingress", &[]),
    ("v1", "Namespace", &[]),
    ("v1", "ConfigMap", &[]),
    ("v1", "Secret", &[]),
    ("v1", "ServiceAccount", &[]),
    ("v1", "PersistentVolumeClaim", &[]),
    ("autoscaling/v2", "HorizontalPodAutoscaler", &[]),
    ("policy/v1", "PodDisruptionBudget", &[]),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", &[]),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", &[]),
];
