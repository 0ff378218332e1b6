//! The input of runs of mutators: the object in its namespace, and an id.

use modgate_value::{Object, Value};

use crate::Host;

/// The object with this `metadata.namespace`, or without one.
pub(crate) fn with_namespace(object: &Value, namespace: Option<&Value>) -> Value {
    if object.path(&["metadata", "namespace"]) == namespace {
        return object.clone();
    }
    let Some(members) = object.as_object() else { return object.clone() };
    let mut metadata = match members.get("metadata") {
        None => Object::default(),
        Some(Value::Object(metadata)) => metadata.clone(),
        // Kubernetes would refuse this object; mutators report the error.
        Some(_) => return object.clone(),
    };
    match namespace {
        Some(name) => metadata.insert("namespace", name.clone()),
        None => metadata.remove("namespace"),
    };
    let mut members = members.clone();
    members.insert("metadata", metadata.into());
    members.into()
}

/// A random UUID, as far as the host has randomness.
pub(crate) fn run_id(host: &dyn Host) -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness all runs have the same id, as in the tests of a policy.
    let _ = host.templates().random_bytes(&mut bytes);
    let [_, _, _, _, _, _, six, _, eight, ..] = &mut bytes;
    *six = (*six & 0x0f) | 0x40;
    *eight = (*eight & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
