//! The working document: the object as rules see it (section 6).

use modgate_value::{Object, Value};

use crate::{Host, HostError, Review};

/// Root key of the references.
pub(super) const SYNTHETIC_REFS: &str = "syntheticRefs";

/// Annotation naming the node of a pod; KubeMod's code knows this one, its README another.
pub(super) const NODE_NAME: &str = "ref.kubemod.io/nodename";

/// Why the working document cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReferenceError {
    #[error("the request has no object")]
    NoObject,
    #[error("the object is not a JSON object")]
    NotAnObject,
    #[error("the object has no kind")]
    NoKind,
    #[error("failed to read namespace `{name}`: {error}")]
    Namespace { name: String, error: HostError },
    #[error("failed to read node `{name}`: {error}")]
    Node { name: String, error: HostError },
}

/// The object under review with `syntheticRefs` and without `metadata.managedFields`.
///
/// # Errors
///
/// When the object is not one, or its Namespace or Node cannot be read.
pub(super) fn working_document(review: &Review, host: &dyn Host) -> Result<Value, ReferenceError> {
    let mut references: Vec<(&str, Value)> = Vec::new();
    let namespace = review.store_namespace();
    if !namespace.is_empty() {
        let object = host
            .namespace(namespace)
            .map_err(|error| ReferenceError::Namespace { name: namespace.to_owned(), error })?;
        references.push(("namespace", without_last_applied(without_managed_fields(object))));
    }
    let object = review.object().ok_or(ReferenceError::NoObject)?;
    let Value::Object(members) = object else { return Err(ReferenceError::NotAnObject) };
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() {
        return Err(ReferenceError::NoKind);
    }
    let node = object.path(&["metadata", "annotations", NODE_NAME]).and_then(Value::as_str);
    if let Some(name) = node.filter(|name| kind == "Pod" && !name.is_empty()) {
        let object = host
            .node(name)
            .map_err(|error| ReferenceError::Node { name: name.to_owned(), error })?;
        references.push(("node", without_managed_fields(object)));
    }
    let mut document = members.clone();
    document.insert(SYNTHETIC_REFS, references.into_iter().collect());
    Ok(without_managed_fields(document.into()))
}

fn without_managed_fields(object: Value) -> Value {
    without(&object, &["metadata"], "managedFields").unwrap_or(object)
}

fn without_last_applied(object: Value) -> Value {
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    without(&object, &["metadata", "annotations"], annotation).unwrap_or(object)
}

/// The object without the member `key` of what `path` leads to; `None` if it has none.
fn without(object: &Value, path: &[&str], key: &str) -> Option<Value> {
    let members: &Object = object.as_object()?;
    let mut changed = members.clone();
    match path.split_first() {
        None => {
            changed.remove(key)?;
        }
        Some((step, rest)) => {
            let inner = without(members.get(step)?, rest, key)?;
            changed.insert(*step, inner);
        }
    }
    Some(changed.into())
}
