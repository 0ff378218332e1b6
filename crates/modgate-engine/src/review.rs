//! One admission request, as policies see it.

use modgate_api::{
    admission::{AdmissionRequest, ReviewError},
    meta::{GroupVersionKind, GroupVersionResource, Operation},
};
use modgate_value::Value;

/// A request to decide.
#[derive(Debug, Clone)]
pub struct Review {
    request: AdmissionRequest,
}

impl Review {
    /// The review of a request the API server sent.
    pub fn new(request: AdmissionRequest) -> Self {
        Self { request }
    }

    /// Reads the `request` member of an AdmissionReview.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn from_request(request: &Value) -> Result<Self, ReviewError> {
        AdmissionRequest::from_value(request).map(Self::new)
    }

    /// The review of an object as if someone did `operation` to it.
    ///
    /// The namespace is the object's own. A namespaced object without one gets
    /// `default_namespace`, as kubectl would do; which kinds are cluster-scoped is known for
    /// Kubernetes' own kinds only.
    pub fn of_object(object: Value, operation: Operation, default_namespace: &str) -> Self {
        let kind = GroupVersionKind::of_object(&object);
        let metadata =
            |key| object.path(&["metadata", key]).and_then(Value::as_str).unwrap_or_default();
        let name = metadata("name");
        let namespace = match metadata("namespace") {
            "" if kind.group.is_empty() && kind.kind == "Namespace" => name,
            "" if is_cluster_scoped(&kind) => "",
            "" => default_namespace,
            own => own,
        };
        let (object_now, old_object) = match operation {
            Operation::Delete => (None, Some(object.clone())),
            Operation::Create | Operation::Update | Operation::Connect => {
                (Some(object.clone()), None)
            }
        };
        Self::new(AdmissionRequest {
            uid: "".into(),
            resource: GroupVersionResource {
                group: kind.group.clone(),
                version: kind.version.clone(),
                resource: "".into(),
            },
            sub_resource: "".into(),
            name: name.into(),
            namespace: namespace.into(),
            operation,
            user_info: Value::Null,
            object: object_now,
            old_object,
            dry_run: false,
            options: Value::Null,
            kind,
        })
    }

    /// The request as it came.
    pub fn request(&self) -> &AdmissionRequest {
        &self.request
    }

    /// The object under review: the old one on DELETE (spec `kubemod.md`, 5.5).
    pub fn object(&self) -> Option<&Value> {
        match self.request.operation {
            Operation::Delete => self.request.old_object.as_ref(),
            Operation::Create | Operation::Update | Operation::Connect => {
                self.request.object.as_ref()
            }
        }
    }

    /// The namespace whose rules apply: empty for cluster-scoped objects and for Namespaces, which
    /// the API server reports as living in themselves (spec `kubemod.md`, 5.1).
    pub fn store_namespace(&self) -> &str {
        let kind = &self.request.kind;
        if kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace" {
            return "";
        }
        &self.request.namespace
    }
}

/// Whether a built-in kind has no namespace.
fn is_cluster_scoped(kind: &GroupVersionKind) -> bool {
    match kind.group.as_str() {
        "" => matches!(kind.kind.as_str(), "Namespace" | "Node" | "PersistentVolume"),
        "rbac.authorization.k8s.io" => {
            matches!(kind.kind.as_str(), "ClusterRole" | "ClusterRoleBinding")
        }
        "apiextensions.k8s.io"
        | "apiregistration.k8s.io"
        | "admissionregistration.k8s.io"
        | "scheduling.k8s.io"
        | "node.k8s.io"
        | "flowcontrol.apiserver.k8s.io"
        | "certificates.k8s.io" => true,
        "storage.k8s.io" => kind.kind != "CSIStorageCapacity",
        "networking.k8s.io" => {
            matches!(kind.kind.as_str(), "IngressClass" | "IPAddress" | "ServiceCIDR")
        }
        "policy" => kind.kind == "PodSecurityPolicy",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_of_bare_objects() {
        for (object, namespace, store) in [
            (r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"a"}}"#, "a", "a"),
            (r#"{"apiVersion":"v1","kind":"Pod","metadata":{}}"#, "default", "default"),
            (r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}"#, "n", ""),
            (r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#, "", ""),
            (r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole"}"#, "", ""),
            (r#"{"apiVersion":"example.com/v1","kind":"Namespace"}"#, "default", "default"),
        ] {
            let value = Value::from_json(object.as_bytes()).expect(object);
            let review = Review::of_object(value, Operation::Create, "default");
            assert_eq!(review.request().namespace, namespace, "{object}");
            assert_eq!(review.store_namespace(), store, "{object}");
        }
    }
}
