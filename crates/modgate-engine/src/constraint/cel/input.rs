//! The variables of CEL expressions, from an admission (CE-10 to CE-14).

use modgate_cel::{Activation, Val};
use modgate_value::{Object, Str, Value};

/// The end of names that the API server generates, which are random.
const GENERATED: &str = "xxxxx";

/// The inputs that are the same for every constraint.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    object: Value,
    old_object: Value,
    request: Value,
    /// The request as match conditions see it, where it differs.
    of_conditions: Option<Value>,
    namespace: Value,
}

/// The inputs of one constraint.
pub(in crate::constraint) struct Scope<'a> {
    pub(in crate::constraint) input: &'a Input,
    /// The constraint, with the defaults of its parameters.
    pub(in crate::constraint) params: &'a Value,
}

impl Activation for Scope<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        match name {
            "params" => Some(Val::json(self.params)),
            name => self.input.member(name).map(Val::json),
        }
    }
}

impl Input {
    /// The value of a variable that every policy has.
    pub(crate) fn member(&self, name: &str) -> Option<&Value> {
        Some(match name {
            "object" => &self.object,
            "oldObject" => &self.old_object,
            "request" => &self.request,
            "namespaceObject" => &self.namespace,
            _ => return None,
        })
    }

    /// `request` in match conditions.
    pub(crate) fn condition_request(&self) -> &Value {
        self.of_conditions.as_ref().unwrap_or(&self.request)
    }

    /// Another object: what a mutation made of it.
    pub(crate) fn replace_object(&mut self, object: Value) {
        self.object = object;
    }

    /// Gives object, old object and request the group and version of the same resource that a policy asks
    /// for.
    pub(crate) fn convert_to(
        &mut self,
        group: &str,
        version: &str,
        convert: &dyn Fn(&Value) -> Value,
    ) {
        for object in [&mut self.object, &mut self.old_object] {
            if object.get("apiVersion").is_some() {
                *object = convert(object);
            }
        }
        let Value::Object(request) = &mut self.request else { return };
        let mut of_conditions = None;
        // Match conditions see the kind of the policy's rule, and the resource of the request.
        for member in ["kind", "resource"] {
            if let Some(Value::Object(kind)) = request.get(member) {
                let mut kind = kind.clone();
                kind.insert("group", Value::from(group));
                kind.insert("version", Value::from(version));
                request.insert(member, Value::from(kind));
            }
            of_conditions.get_or_insert_with(|| Value::from(request.clone()));
        }
        self.of_conditions = of_conditions;
    }

    /// Adds what the API server always sends and an object of a file does not bring along: the name of
    /// the resource, and a user, here one without name and groups.
    pub(crate) fn complete(&mut self, resource: &str) {
        let Value::Object(request) = &mut self.request else { return };
        for member in ["resource", "requestResource"] {
            if let Some(Value::Object(sent)) = request.get(member)
                && sent.get("resource").and_then(Value::as_str).is_none_or(str::is_empty)
            {
                let mut sent = sent.clone();
                sent.insert("resource", resource.into());
                request.insert(member, sent.into());
            }
        }
        if request.get("options").is_none_or(Value::is_null) {
            let kind = match request.get("operation").and_then(Value::as_str) {
                Some("CREATE") => Some("CreateOptions"),
                Some("UPDATE") => Some("UpdateOptions"),
                Some("DELETE") => Some("DeleteOptions"),
                _ => None,
            };
            if let Some(kind) = kind {
                let options = [("apiVersion", "meta.k8s.io/v1".into()), ("kind", kind.into())];
                request.insert("options", options.into_iter().collect::<Value>());
            }
        }
        if request.get("userInfo").is_none_or(Value::is_null) {
            let anonymous = [("username", "".into()), ("groups", Value::from(Vec::<Value>::new()))];
            request.insert("userInfo", anonymous.into_iter().collect::<Value>());
        }
    }

    /// Gives the objects the namespace of the request, and a new object whose name the API server
    /// generates a name: it does both before admission.
    pub(crate) fn place(&mut self, namespace: &str) {
        for object in [&mut self.object, &mut self.old_object] {
            let Value::Object(members) = object else { continue };
            let Some(Value::Object(metadata)) = members.get_mut("metadata") else { continue };
            let lacks = |member: &str| {
                metadata.get(member).and_then(Value::as_str).is_none_or(str::is_empty)
            };
            if !namespace.is_empty() && lacks("namespace") {
                metadata.insert("namespace", namespace.into());
            }
        }
        if self.request.get("operation").and_then(Value::as_str) != Some("CREATE") {
            return;
        }
        let Value::Object(members) = &mut self.object else { return };
        let Some(Value::Object(metadata)) = members.get_mut("metadata") else { return };
        let text = |member| metadata.get(member).and_then(Value::as_str).unwrap_or_default();
        if !text("name").is_empty() || text("generateName").is_empty() {
            return;
        }
        let name = Value::from(format!("{}{GENERATED}", text("generateName")));
        metadata.insert("name", name.clone());
        if let Value::Object(request) = &mut self.request {
            request.insert("name", name);
        }
    }

    /// Of `input.review`, whose `object` is a copy of `oldObject` on DELETE; here it is null
    /// (CE-14).
    pub(crate) fn of(review: &Value, namespace: Option<&Value>) -> Self {
        let member = |key: &str| review.get(key).cloned().unwrap_or_default();
        let deletes = review.get("operation").and_then(Value::as_str) == Some("DELETE");
        Self {
            object: if deletes { Value::Null } else { member("object") },
            old_object: member("oldObject"),
            request: request(review),
            of_conditions: None,
            namespace: namespace.map(exposed).unwrap_or_default(),
        }
    }
}

/// As Kubernetes makes it of the attributes of an admission
/// (`apiserver/pkg/admission/plugin/cel/condition.go`): the request's kind and resource are those
/// it was matched by, and whether it is a dry run is always known.
fn request(review: &Value) -> Value {
    let mut members: Vec<(Str, Value)> = Vec::new();
    let mut copy = |from: &str, to: &str| {
        members.extend(review.get(from).map(|value| (to.into(), value.clone())));
    };
    for (from, to) in [
        ("kind", "kind"),
        ("kind", "requestKind"),
        ("resource", "resource"),
        ("resource", "requestResource"),
        ("subResource", "subResource"),
        ("subResource", "requestSubResource"),
        ("name", "name"),
        ("namespace", "namespace"),
        ("operation", "operation"),
        ("userInfo", "userInfo"),
        ("options", "options"),
    ] {
        copy(from, to);
    }
    // What is empty is absent.
    members.retain(|(key, value)| key == "operation" || value.as_str() != Some(""));
    let dry_run = review.get("dryRun").and_then(Value::as_bool).unwrap_or(false);
    members.push(("dryRun".into(), dry_run.into()));
    Object::from_entries(members).into()
}

/// The members of `metadata` that Kubernetes exposes (CE-13).
const METADATA: [&str; 12] = [
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
];

fn exposed(namespace: &Value) -> Value {
    let metadata = namespace.get("metadata").and_then(Value::as_object);
    let metadata = metadata.into_iter().flat_map(|metadata| metadata.iter());
    let metadata: Value = metadata
        .filter(|(key, _)| METADATA.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let part = |key: &str| {
        let part = namespace.get(key).filter(|part| part.as_object().is_some());
        part.cloned().unwrap_or_else(|| Object::default().into())
    };
    let members = [("metadata", metadata), ("spec", part("spec")), ("status", part("status"))];
    members.into_iter().collect()
}
