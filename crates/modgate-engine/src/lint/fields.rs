//! Members that no kind of ours has, by the schemas of their CRDs.

use std::{collections::BTreeMap, sync::OnceLock};

use modgate_api::{crds, schema::Schema};
use modgate_value::{Budget, Limits, Value, budget::Frozen, near};

use super::Lints;
use crate::Code;

/// A policy has fewer members; what is larger is not looked at.
const MAX_STEPS: u64 = 100_000;

/// The schemas of our kinds, by group and kind.
fn schema_of(group: &str, kind: &str) -> Option<&'static Schema> {
    static SCHEMAS: OnceLock<BTreeMap<(String, String), Schema>> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| {
        let definitions = crds::all().unwrap_or_default();
        let entry = |definition: &Value| {
            let text = |path: &[&str]| Some(definition.path(path)?.as_str()?.to_owned());
            let version = definition.path(&["spec", "versions"])?.at(0)?;
            let schema = version.path(&["schema", "openAPIV3Schema"])?;
            let schema = Schema::from_value(schema, "").ok()?;
            Some(((text(&["spec", "group"])?, text(&["spec", "names", "kind"])?), schema))
        };
        definitions.iter().filter_map(entry).collect()
    });
    schemas.get(&(group.to_owned(), kind.to_owned()))
}

/// Members that the schema of the kind does not have.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(schema) = schema_of(&lints.id.group, &lints.id.kind) else { return };
    let budget = Budget::new(Limits { steps: MAX_STEPS, ..Limits::UNLIMITED }, &Frozen);
    for field in schema.unknown_fields(lints.object(), &budget).unwrap_or_default() {
        let known = schema.known_members(&field);
        let help = help(&field, &known);
        lints.push_key(Code::UnknownField, &field, "unknown field, ignored".to_owned(), Some(help));
    }
}

/// The advice about an unknown field: a near name, or all that are known there.
pub(crate) fn help(field: &str, known: &[&str]) -> String {
    let name = field.rsplit('.').next().unwrap_or(field);
    near::did_you_mean_or(name, known, "known fields")
}
