//! One admission request, as policies see it.

use modgate_api::{
    admission::{AdmissionRequest, AdmissionReview, ReviewError},
    meta::{GroupVersionKind, GroupVersionResource, Operation},
};
use modgate_value::{Str, Value};

/// The members of ConfigMaps and Secrets that hold what others put there.
pub const CONTENTS: [&str; 3] = ["binaryData", "data", "stringData"];

/// A request to decide.
#[derive(Debug, Clone)]
pub struct Review {
    request: AdmissionRequest,
    /// The same as it was sent, with what [`AdmissionRequest`] does not keep.
    sent: Value,
    origin: Origin,
    /// The Namespace of the object, where the caller knows it and the host is not asked.
    namespace: Option<Option<Value>>,
    /// Whether only match blocks see that Namespace.
    hides_namespace: bool,
}

/// Where a review comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An AdmissionReview.
    Sent,
    /// An object, as if it were created, changed or deleted.
    Assumed,
    /// An object that exists: there is no operation, and there is no user.
    Existing,
    /// KubeMod's dry run: the object has no synthetic references.
    DryRun,
}

impl Review {
    /// Whether texts about the object may quote a Secret. The request may say so, or the object: the
    /// sender chooses what the object claims to be.
    pub fn is_secret(&self) -> bool {
        let request = self.request();
        let says = |object: &Value| object.get("kind").and_then(Value::as_str) == Some("Secret");
        request.resource.resource == "secrets"
            || request.kind.kind == "Secret"
            || request.object.iter().chain(&request.old_object).any(says)
    }

    /// Reads an AdmissionReview. Policies see its request as it was sent, with the members that
    /// [`AdmissionRequest`] does not keep.
    ///
    /// # Errors
    ///
    /// When the document is not a review of a known version or its request is malformed.
    pub fn parse(document: &Value) -> Result<Self, ReviewError> {
        let request = AdmissionReview::from_value(document)?.request;
        let sent = document.get("request").cloned().unwrap_or_default();
        Ok(Self { request, sent, origin: Origin::Sent, namespace: None, hides_namespace: false })
    }

    /// Reads the `request` member of an AdmissionReview, as [`parse`](Self::parse) does.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn from_request(request: &Value) -> Result<Self, ReviewError> {
        let sent = request.clone();
        let request = AdmissionRequest::from_value(request)?;
        Ok(Self { request, sent, origin: Origin::Sent, namespace: None, hides_namespace: false })
    }

    /// A review that was never sent.
    pub(crate) fn unsent(request: AdmissionRequest, origin: Origin) -> Self {
        let texts = |members: [(&str, &Str); 3]| -> Value {
            members.into_iter().map(|(key, text)| (key, Value::from(text.clone()))).collect()
        };
        let (kind, resource) = (&request.kind, &request.resource);
        let kind =
            texts([("group", &kind.group), ("version", &kind.version), ("kind", &kind.kind)]);
        let resource = texts([
            ("group", &resource.group),
            ("version", &resource.version),
            ("resource", &resource.resource),
        ]);
        let members = [
            ("uid", Value::from(request.uid.clone())),
            // Without conversion, both are those of the request.
            ("requestKind", kind.clone()),
            ("requestResource", resource.clone()),
            ("kind", kind),
            ("resource", resource),
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
        let sent = members.into_iter().collect();
        Self { request, sent, origin, namespace: None, hides_namespace: false }
    }

    /// The review of an object as if someone did `operation` to it.
    ///
    /// The namespace is the object's own. A namespaced object without one gets
    /// `default_namespace`, as kubectl would do; which kinds are cluster-scoped is known for
    /// Kubernetes' own kinds and the engine's policies only. The resource is the plural of the kind.
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
        let request = AdmissionRequest {
            uid: "".into(),
            resource: GroupVersionResource {
                group: kind.group.clone(),
                version: kind.version.clone(),
                resource: kind.plural(),
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
        };
        Self::unsent(request, Origin::Assumed)
    }

    /// The review of an object that exists, by which gator and audits evaluate constraints. There is
    /// no operation and no user.
    pub fn of_existing(object: Value) -> Self {
        Self::unchecked(Value::Null, Some(object), None, Origin::Existing)
    }

    /// A request of which constraints see what is there, however little: gator does not check what an
    /// API server would never send.
    pub fn of_any_request(request: &Value) -> Self {
        let member = |key| request.get(key).filter(|value| !value.is_null()).cloned();
        Self::unchecked(request.clone(), member("object"), member("oldObject"), Origin::Sent)
    }

    fn unchecked(
        sent: Value,
        object: Option<Value>,
        old_object: Option<Value>,
        origin: Origin,
    ) -> Self {
        let subject = object.as_ref().or(old_object.as_ref());
        let metadata = |key| -> Str {
            let found = subject.and_then(|object| object.path(&["metadata", key])?.as_str());
            found.unwrap_or_default().into()
        };
        let request = AdmissionRequest {
            uid: Str::default(),
            kind: subject.map(GroupVersionKind::of_object).unwrap_or_default(),
            resource: GroupVersionResource::default(),
            sub_resource: Str::default(),
            name: metadata("name"),
            namespace: metadata("namespace"),
            operation: Operation::Create,
            user_info: Value::Null,
            object,
            old_object,
            dry_run: false,
            options: Value::Null,
        };
        Self { request, sent, origin, namespace: None, hides_namespace: false }
    }

    /// The same with this Namespace of the object, or without one: the host is not asked for it by
    /// constraints, nor by the mutators of gator.
    #[must_use]
    pub fn with_namespace(self, namespace: Option<Value>) -> Self {
        Self { namespace: Some(namespace), ..self }
    }

    /// The same, and that Namespace is an assumption, which match blocks see and expressions do not
    /// (EV-142).
    #[must_use]
    pub fn hiding_namespace(self) -> Self {
        Self { hides_namespace: true, ..self }
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

    /// The same with this stored object.
    #[must_use]
    pub fn with_old_object(mut self, object: Value) -> Self {
        if let Value::Object(sent) = &mut self.sent {
            sent.insert("oldObject", object.clone());
        }
        self.request.old_object = Some(object);
        self
    }

    /// The same request, made by this user: the `userInfo` of the request.
    #[must_use]
    pub fn with_user(mut self, user: Value) -> Self {
        if let Value::Object(sent) = &mut self.sent {
            sent.insert("userInfo", user.clone());
        }
        self.request.user_info = user;
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

    /// Where it comes from.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    /// The operation, where there is one.
    pub(crate) fn operation(&self) -> Option<Operation> {
        (self.origin != Origin::Existing).then_some(self.request.operation)
    }

    /// The Namespace that came with it: `None` where the host knows it.
    pub(crate) fn given_namespace(&self) -> Option<&Option<Value>> {
        self.namespace.as_ref()
    }

    /// Whether only match blocks see the Namespace.
    pub(crate) fn hides_namespace(&self) -> bool {
        self.hides_namespace
    }

    /// The user who makes the request; empty if it is not known.
    pub(crate) fn username(&self) -> &str {
        let name = self.request.user_info.get("username");
        name.and_then(Value::as_str).unwrap_or_default()
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
