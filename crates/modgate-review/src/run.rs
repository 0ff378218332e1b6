//! The objects of a run: each is evaluated, and all of them stand in for a cluster.

use modgate_engine::{
    Snapshot,
    api::admission::AdmissionReview,
    constraint::{Inventory, InventoryError},
    lint::{self, Definitions},
};
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
};

use crate::{
    manifest::Manifest,
    references::References,
    sorted::{placed, without_managed_fields},
};

/// Has the objects of a run stand in for those of a cluster, in every command alike: policies see them in
/// `data.inventory`, as parameters, and as Namespaces and Nodes. Requests bring nothing.
///
/// An object without a name is there under the empty name. As in a cluster, the inventory lacks what a
/// Config excludes.
pub fn stand_in<'o>(
    objects: impl Iterator<Item = &'o Value>,
    snapshot: &Snapshot,
    references: &mut References,
    inventory: &mut Inventory,
) {
    for object in objects.filter(|object| !AdmissionReview::is_review(object)) {
        if !references.take(object) {
            references.keep(object);
        }
        let object = without_managed_fields(object);
        if inventory.insert(object.clone()) == Err(InventoryError::NoName) {
            inventory.insert_nameless(object);
        }
    }
    inventory.retain(|synced| !snapshot.exclusions().excludes_synced(synced));
}

/// The CustomResourceDefinitions among objects.
pub fn definitions<'o>(objects: impl Iterator<Item = &'o Value>) -> Definitions {
    let mut definitions = Definitions::default();
    definitions.add_those_of(objects);
    definitions
}

/// Warnings about an object that no API server stores. A request comes from one, so there are none.
pub fn impossible(
    manifest: &Manifest,
    source: &Source,
    definitions: &Definitions,
) -> Vec<Diagnostic> {
    if AdmissionReview::is_review(&manifest.object) {
        return Vec::new();
    }
    let found = lint::of_object(&manifest.object, definitions);
    found.into_iter().map(|found| placed(manifest, source, found)).collect()
}
