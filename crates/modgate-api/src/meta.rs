//! Names and kinds every API group shares.

use std::{fmt, str::FromStr};

use modgate_value::{Str, Value, format_smolstr};
use serde::{Deserialize, Serialize};

/// The kind of an object: API group (empty for the core group), version and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: Str,
    /// API version, such as `v1`.
    pub version: Str,
    /// Kind, such as `Pod`.
    pub kind: Str,
}

impl GroupVersionKind {
    /// The kind an object says it is, from its `apiVersion` and `kind`; missing parts are empty.
    pub fn of_object(object: &Value) -> Self {
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        Self { group: group.into(), version: version.into(), kind: text("kind").into() }
    }

    /// The kind that the members `group`, `version` and `kind` name; empty where one is missing.
    pub fn of_members(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().into();
        Self { group: text("group"), version: text("version"), kind: text("kind") }
    }

    /// Whether it is the core group's Namespace.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }

    /// Whether it is the core group's Secret.
    pub fn is_secret(&self) -> bool {
        self.group.is_empty() && self.kind == "Secret"
    }

    /// The `apiVersion` of its objects: `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> Str {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version).into(),
        }
    }

    /// Whether objects of this kind have no namespace. Known for the kinds of Kubernetes itself, of
    /// Gatekeeper and of KubeMod; of any other kind only the API server knows it.
    pub fn is_cluster_scoped(&self) -> bool {
        let kinds = CLUSTER_SCOPED.iter().find(|(group, _)| *group == self.group.as_str());
        kinds.is_some_and(|(_, kinds)| kinds.is_empty() || kinds.contains(&self.kind.as_str()))
    }
}

/// Reads the metadata of an object that is not decoded.
pub trait ObjectExt {
    /// A text member of `metadata`.
    fn metadata(&self, member: &str) -> Option<&str>;

    /// `metadata.name`; empty where there is none.
    fn name(&self) -> &str {
        self.metadata("name").unwrap_or_default()
    }

    /// `metadata.namespace`; empty where there is none.
    fn namespace(&self) -> &str {
        self.metadata("namespace").unwrap_or_default()
    }
}

impl ObjectExt for Value {
    fn metadata(&self, member: &str) -> Option<&str> {
        self.path(&["metadata", member])?.as_str()
    }
}

/// The kinds without a namespace, by group; an empty list means all kinds of the group.
const CLUSTER_SCOPED: [(&str, &[&str]); 23] = [
    ("", &["Namespace", "Node", "PersistentVolume", "ComponentStatus"]),
    ("admissionregistration.k8s.io", &[]),
    ("apiextensions.k8s.io", &[]),
    ("apiregistration.k8s.io", &[]),
    ("authentication.k8s.io", &[]),
    (
        "authorization.k8s.io",
        &["SelfSubjectAccessReview", "SelfSubjectRulesReview", "SubjectAccessReview"],
    ),
    ("certificates.k8s.io", &["CertificateSigningRequest", "ClusterTrustBundle"]),
    ("flowcontrol.apiserver.k8s.io", &[]),
    ("internal.apiserver.k8s.io", &[]),
    ("networking.k8s.io", &["IngressClass", "IPAddress", "ServiceCIDR"]),
    ("node.k8s.io", &[]),
    ("policy", &["PodSecurityPolicy"]),
    ("rbac.authorization.k8s.io", &["ClusterRole", "ClusterRoleBinding"]),
    ("resource.k8s.io", &["DeviceClass", "DeviceTaintRule", "ResourceSlice"]),
    ("scheduling.k8s.io", &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment", "VolumeAttributesClass"],
    ),
    ("storagemigration.k8s.io", &[]),
    // Gatekeeper's. Its Config, its Connections and its statuses have a namespace.
    ("constraints.gatekeeper.sh", &[]),
    ("expansion.gatekeeper.sh", &[]),
    ("externaldata.gatekeeper.sh", &[]),
    ("mutations.gatekeeper.sh", &[]),
    ("syncset.gatekeeper.sh", &[]),
    ("templates.gatekeeper.sh", &[]),
];

impl GroupVersionKind {
    /// The plural name of the resource, by the rule that all built-in kinds follow. The plural of a
    /// custom resource is in its CRD, which may say otherwise.
    pub fn plural(&self) -> Str {
        let name = self.kind.to_lowercase();
        let vowel_before_y = ["ay", "ey", "oy", "uy"].iter().any(|end| name.ends_with(end));
        match name.as_str() {
            "" => Str::default(),
            name if name.ends_with("endpoints") => name.into(),
            name if name.ends_with('s') || name.ends_with('x') => format_smolstr!("{name}es"),
            name if name.ends_with('y') && !vowel_before_y => {
                format_smolstr!("{}ies", name.strip_suffix('y').unwrap_or(name))
            }
            name => format_smolstr!("{name}s"),
        }
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1 Deployment`, as an object's own header reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} {}", self.version, self.kind)
    }
}

/// Which REST resource a request addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource {
    /// API group; empty for the core group.
    pub group: Str,
    /// API version, such as `v1`.
    pub version: Str,
    /// Plural resource name, such as `pods`.
    pub resource: Str,
}

/// Splits `apps/v1` into group and version; the core group's `v1` has an empty group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A change to an existing object.
    Update,
    /// A deletion; the object under review is the old one.
    Delete,
    /// A connection to a subresource, such as `pods/exec`.
    Connect,
}

impl Operation {
    /// Whether the request writes an object: creates or updates it.
    pub fn is_write(self) -> bool {
        matches!(self, Self::Create | Self::Update)
    }

    /// The name the API server uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of an [`Operation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation `{0}`, expected `CREATE`, `UPDATE`, `DELETE` or `CONNECT`")]
pub struct UnknownOperation(pub String);

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_round_trip() {
        for operation in
            [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect]
        {
            assert_eq!(operation.to_string().parse(), Ok(operation));
        }
        assert_eq!(
            "create".parse::<Operation>().map_err(|error| error.to_string()),
            Err("unknown operation `create`, expected `CREATE`, `UPDATE`, `DELETE` or `CONNECT`"
                .to_owned())
        );
    }

    #[test]
    fn kinds_without_a_namespace() {
        for (api_version, kind, expected) in [
            ("v1", "Namespace", true),
            ("v1", "Node", true),
            ("v1", "Pod", false),
            ("example.com/v1", "Namespace", false),
            ("resource.k8s.io/v1", "DeviceClass", true),
            ("resource.k8s.io/v1", "ResourceClaim", false),
            ("storage.k8s.io/v1", "StorageClass", true),
            ("storage.k8s.io/v1", "CSIStorageCapacity", false),
            ("apiextensions.k8s.io/v1", "CustomResourceDefinition", true),
            ("templates.gatekeeper.sh/v1", "ConstraintTemplate", true),
            ("constraints.gatekeeper.sh/v1beta1", "K8sAnything", true),
            ("config.gatekeeper.sh/v1alpha1", "Config", false),
            ("status.gatekeeper.sh/v1beta1", "ConstraintPodStatus", false),
            ("api.kubemod.io/v1beta1", "ModRule", false),
        ] {
            let object = [("apiVersion", api_version), ("kind", kind)];
            let object = object.into_iter().map(|(key, text)| (key, Value::from(text))).collect();
            let kind = GroupVersionKind::of_object(&object);
            assert_eq!(kind.is_cluster_scoped(), expected, "{kind}");
            assert_eq!(kind.api_version(), api_version);
        }
    }

    #[test]
    fn plurals() {
        for (kind, plural) in [
            ("Pod", "pods"),
            ("Ingress", "ingresses"),
            ("NetworkPolicy", "networkpolicies"),
            ("StorageClass", "storageclasses"),
            ("Endpoints", "endpoints"),
            ("CSIStorageCapacity", "csistoragecapacities"),
            ("Gateway", "gateways"),
            ("", ""),
        ] {
            let kind = GroupVersionKind { kind: kind.into(), ..GroupVersionKind::default() };
            assert_eq!(kind.plural(), plural);
        }
    }

    #[test]
    fn kinds_of_objects() {
        let kind = |text: &str| {
            GroupVersionKind::of_object(&Value::from_json(text.as_bytes()).expect(text)).to_string()
        };
        assert_eq!(
            kind(r#"{"apiVersion": "apps/v1", "kind": "Deployment"}"#),
            "apps/v1 Deployment"
        );
        assert_eq!(kind(r#"{"apiVersion": "v1", "kind": "Pod"}"#), "v1 Pod");
        assert_eq!(kind(r#"{"kind": 3}"#), " ");
    }
}
