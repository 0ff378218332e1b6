//! What CEL expressions see of an admission (CE-10 to CE-14).

use modgate_cel::{Activation, Val};
use modgate_value::{Object, Str, Value};

/// The inputs that are the same for every constraint.
#[derive(Debug, Clone)]
pub(in crate::constraint) struct Input {
    object: Value,
    old_object: Value,
    request: Value,
    namespace: Value,
}

/// The inputs of one constraint.
pub(super) struct Scope<'a> {
    pub(super) input: &'a Input,
    /// The constraint, with the defaults of its parameters.
    pub(super) params: &'a Value,
}

impl Activation for Scope<'_> {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        Some(Val::json(match name {
            "object" => &self.input.object,
            "oldObject" => &self.input.old_object,
            "request" => &self.input.request,
            "namespaceObject" => &self.input.namespace,
            "params" => self.params,
            _ => return None,
        }))
    }
}

impl Input {
    /// Of `input.review`, whose `object` is a copy of `oldObject` on DELETE; here it is null
    /// (CE-14).
    pub(in crate::constraint) fn of(review: &Value, namespace: Option<&Value>) -> Self {
        let member = |key: &str| review.get(key).cloned().unwrap_or_default();
        let deletes = review.get("operation").and_then(Value::as_str) == Some("DELETE");
        Self {
            object: if deletes { Value::Null } else { member("object") },
            old_object: member("oldObject"),
            request: request(review),
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
