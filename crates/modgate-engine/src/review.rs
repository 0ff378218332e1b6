//! One admission request, as policies see it.

use modgate_api::{
    admission::{AdmissionRequest, AdmissionReview, ReviewError},
    meta::{GroupVersionKind, GroupVersionResource, Operation},
};
use modgate_value::{Str, Value};

/// A request to decide.
#[derive(Debug, Clone)]
pub struct Review {
    request: AdmissionRequest,
    /// The same as it was sent, with what [`AdmissionRequest`] does not keep.
    sent: Value,
}

impl Review {
    /// Reads an AdmissionReview. Policies see its request as it was sent, with the members that
    /// [`AdmissionRequest`] does not keep.
    ///
    /// # Errors
    ///
    /// When the document is not a review of a known version or its request is malformed.
    pub fn parse(document: &Value) -> Result<Self, ReviewError> {
        let request = AdmissionReview::from_value(document)?.request;
        let sent = document.get("request").cloned().unwrap_or_default();
        Ok(Self { request, sent })
    }

    /// Reads the `request` member of an AdmissionReview, as [`parse`](Self::parse) does.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn from_request(request: &Value) -> Result<Self, ReviewError> {
        let sent = request.clone();
        AdmissionRequest::from_value(request).map(|request| Self { request, sent })
    }

    /// A review that was never sent.
    pub(crate) fn unsent(request: AdmissionRequest) -> Self {
        let texts = |members: [(&str, &Str); 3]| -> Value {
            members.into_iter().map(|(key, text)| (key, Value::from(text.clone()))).collect()
        };
        let (kind, resource) = (&request.kind, &request.resource);
        let members = [
            ("uid", Value::from(request.uid.clone())),
            (
                "kind",
                texts([("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)]),
            ),
            (
                "resource",
                texts([
                    ("group", &resource.group),
                    ("version", &resource.version),
                    ("resource", &resource.resource),
                ]),
            ),
            ("subResource", request.sub_resource.clone().into()),
            ("name", request.name.clone().into()),
            ("namespace", request.namespace.clone().into()),
            ("operation", request.operation.as_str().into()),
            ("userInfo", request.user_info.clone()),
            ("object", request.object.clone().unwrap_or_default()),
            ("oldObject", request.old_object.clone().unwrap_or_default()),
            ("dryRun", request.dry_run.into()),
            ("options", request.options.clone()),
        ];
        Self { sent: members.into_iter().collect(), request }
    }

    /// The review of an object as if someone did `operation` to it.
    ///
    /// The namespace is the object's own. A namespaced object without one gets
    /// `default_namespace`, as kubectl would do; which kinds are cluster-scoped is known for
    /// Kubernetes' own kinds and the engine's policies only.
    pub fn of_object(object: Value, operation: Operation, default_namespace: &str) -> Self {
        let kind = GroupVersionKind::of_object(&object);
        let metadata =
            |key| object.path(&["metadata", key]).and_then(Value::as_str).unwrap_or_default();
        let name = metadata("name");
        let namespace = match metadata("namespace") {
            "" if kind.is_namespace() => name,
            "" if kind.is_cluster_scoped() => "",
            "" => default_namespace,
            own => own,
        };
        let (name, namespace) = (Str::from(name), Str::from(namespace));
        let (object, old_object) = match operation {
            Operation::Delete => (None, Some(object)),
            Operation::Create | Operation::Update | Operation::Connect => (Some(object), None),
        };
        Self::unsent(AdmissionRequest {
            uid: "".into(),
            resource: GroupVersionResource {
                group: kind.group.clone(),
                version: kind.version.clone(),
                resource: "".into(),
            },
            sub_resource: "".into(),
            name,
            namespace,
            operation,
            user_info: Value::Null,
            object,
            old_object,
            dry_run: false,
            options: Value::Null,
            kind,
        })
    }

    /// The same request with another object: what one webhook hands on to the next. The object of a
    /// deletion stays.
    #[must_use]
    pub fn with_object(mut self, object: Value) -> Self {
        if self.request.object.is_some() {
            if let Value::Object(sent) = &mut self.sent {
                sent.insert("object", object.clone());
            }
            self.request.object = Some(object);
        }
        self
    }

    /// The `request` member of its AdmissionReview, as it was sent, or as it would be.
    pub fn sent(&self) -> &Value {
        &self.sent
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
        if kind.is_namespace() && kind.version == "v1" {
            return "";
        }
        &self.request.namespace
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
