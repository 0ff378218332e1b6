//! Members that no kind of ours has, by the schemas of their CRDs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use modgate_api::{admissionregistration, crds, schema::Schema};
use modgate_value::{Budget, Limits, Str, Value, budget::Frozen, near};

use super::Lints;
use crate::{
    Code,
    admissionpolicy::{Types, Unknown},
};

/// A policy has fewer members; what is larger is not looked at.
const MAX_STEPS: u64 = 100_000;

/// The schemas of a group's kinds.
type Schemas = BTreeMap<String, Schema>;

/// The schemas of one of our groups, read when the first policy of the group is; empty for other groups.
fn schemas_of(group: &str) -> Arc<Schemas> {
    static SCHEMAS: Mutex<BTreeMap<String, Arc<Schemas>>> = Mutex::new(BTreeMap::new());
    let mut known = SCHEMAS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(schemas) = known.get(group) {
        return Arc::clone(schemas);
    }
    let definitions = crds::of_group(group).unwrap_or_default();
    let entry = |definition: &Value| {
        let kind = definition.path(&["spec", "names", "kind"])?.as_str()?.to_owned();
        let version = definition.path(&["spec", "versions"])?.at(0)?;
        let schema = version.path(&["schema", "openAPIV3Schema"])?;
        Some((kind, Schema::from_value(schema, "").ok()?))
    };
    let schemas: Arc<Schemas> = Arc::new(definitions.iter().filter_map(entry).collect());
    // Others may be named as policies name them, without end.
    if !schemas.is_empty() {
        known.insert(group.to_owned(), Arc::clone(&schemas));
    }
    schemas
}

/// Members that the type or the schema of the kind does not have.
pub(super) fn lint(lints: &mut Lints<'_>) {
    if lints.id.group == admissionregistration::GROUP {
        // Older versions have fewer members; their API servers say so.
        let ty = format!("admissionregistration.v1.{}", lints.id.kind);
        of_type(lints, &ty, lints.object(), "");
        return;
    }
    let schemas = schemas_of(&lints.id.group);
    let Some(schema) = schemas.get(&*lints.id.kind) else { return };
    let budget = Budget::new(Limits { steps: MAX_STEPS, ..Limits::UNLIMITED }, &Frozen);
    for field in schema.unknown_fields(lints.object(), &budget).unwrap_or_default() {
        let known = schema.known_members(&field);
        unknown(lints, &field, &known);
    }
    // The schema of a template leaves the schema of its parameters open.
    let path = ["spec", "crd", "spec", "validation", "openAPIV3Schema"];
    if let Some(parameters) = lints.object().path(&path) {
        of_type(lints, "apiextensions.v1.JSONSchemaProps", parameters, &path.join("."));
    }
}

/// Members of `metadata` that no object has.
pub(super) fn metadata(lints: &mut Lints<'_>) {
    if lints.id.group == admissionregistration::GROUP {
        return;
    }
    if let Some(metadata) = lints.object().get("metadata") {
        of_type(lints, "meta.v1.ObjectMeta", metadata, "metadata");
    }
}

fn of_type(lints: &mut Lints<'_>, ty: &str, value: &Value, path: &str) {
    for Unknown { path, known } in Types::kubernetes().unknown_members(ty, value, path) {
        let known: Vec<&str> = known.iter().map(Str::as_str).collect();
        unknown(lints, &path, &known);
    }
}

fn unknown(lints: &mut Lints<'_>, field: &str, known: &[&str]) {
    let help = match field {
        "metadata.spec" => "indent it less: `spec` stands beside `metadata`".to_owned(),
        _ => help(field, known),
    };
    lints.push_key(Code::UnknownField, field, "unknown field, ignored".to_owned(), Some(help));
}

/// The advice about an unknown field: a near name, or all that are known there.
pub(crate) fn help(field: &str, known: &[&str]) -> String {
    let name = field.rsplit('.').next().unwrap_or(field);
    near::did_you_mean_or(name, known, "known fields")
}
