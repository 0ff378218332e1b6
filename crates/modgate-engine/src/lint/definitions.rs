//! The kinds of CustomResourceDefinitions at hand: those of files, and those of a cluster.

use std::collections::BTreeMap;

use modgate_api::kinds;
use modgate_value::{Str, Value, near};

use crate::admissionpolicy::Types;

/// The kinds that CustomResourceDefinitions define, by which warnings find mistakes in policies about
/// custom resources.
///
/// A kind that is not here may still exist: files rarely hold every definition of a cluster.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// By API group and kind.
    kinds: BTreeMap<(Str, Str), Defined>,
    /// The fields of their objects, as far as they are kept.
    types: Types,
}

/// One kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Defined {
    /// The name of the definition.
    name: Str,
    /// The name of the resource.
    pub(super) plural: Str,
    /// Whether its objects have no namespace.
    pub(super) is_cluster_scoped: bool,
    /// The versions that are served.
    pub(super) versions: Vec<Str>,
}

impl Definitions {
    /// Adds the CustomResourceDefinitions among objects.
    pub fn add_those_of<'o>(&mut self, objects: impl Iterator<Item = &'o Value>) {
        for object in objects {
            if object.get("kind").and_then(Value::as_str) == Some("CustomResourceDefinition") {
                self.add(object);
            }
        }
    }

    /// Adds a CustomResourceDefinition with the fields of its objects.
    pub fn add(&mut self, definition: &Value) {
        self.add_kind(definition);
        self.types.define(definition);
    }

    /// Adds the kind of a CustomResourceDefinition without its fields: the schemas of a cluster's
    /// definitions may take many megabytes. Returns whether that changes anything.
    pub fn add_kind(&mut self, definition: &Value) -> bool {
        let text = |path: &[&str]| definition.path(path).and_then(Value::as_str);
        let (Some(group), Some(kind)) =
            (text(&["spec", "group"]), text(&["spec", "names", "kind"]))
        else {
            return false;
        };
        let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array);
        let is_served =
            |version: &&Value| version.get("served").and_then(Value::as_bool) != Some(false);
        let versions = versions.into_iter().flat_map(|versions| versions.iter()).filter(is_served);
        let defined = Defined {
            name: text(&["metadata", "name"]).unwrap_or_default().into(),
            plural: text(&["spec", "names", "plural"]).unwrap_or_default().into(),
            is_cluster_scoped: text(&["spec", "scope"]) == Some("Cluster"),
            versions: versions
                .filter_map(|version| Some(version.get("name")?.as_str()?.into()))
                .collect(),
        };
        let key = (group.into(), kind.into());
        let known = self.kinds.insert(key, defined.clone());
        known.as_ref() != Some(&defined)
    }

    /// Forgets the kind of a definition that is gone; returns whether that changes anything.
    pub fn remove(&mut self, name: &str) -> bool {
        let before = self.kinds.len();
        self.kinds.retain(|_, defined| defined.name != name);
        self.kinds.len() < before
    }

    /// The API groups, some several times.
    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(|(group, _)| group.as_str())
    }

    /// The kinds of an API group. None for Kubernetes' own groups, which definitions cannot add to.
    pub(super) fn of_group<'d, 'g>(
        &'d self,
        group: &'g str,
    ) -> impl Iterator<Item = (&'d str, &'d Defined)> + use<'d, 'g> {
        let is_own = kinds::of_group(group).is_some();
        let all = self.kinds.iter().filter(move |((of, _), _)| !is_own && of == group);
        all.map(|((_, kind), defined)| (kind.as_str(), defined))
    }

    /// A kind of an API group.
    pub(super) fn get(&self, group: &str, kind: &str) -> Option<&Defined> {
        self.of_group(group).find(|(name, _)| *name == kind).map(|(_, defined)| defined)
    }

    /// The kinds of all groups.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(|(_, kind)| kind.as_str())
    }

    /// The kind of an API group that a misspelt name, or the name of its resource, means.
    pub(super) fn meant(&self, group: &str, name: &str) -> Option<&str> {
        let lower = name.to_ascii_lowercase();
        let by_resource = self
            .of_group(group)
            .find(|(kind, defined)| {
                lower == defined.plural.as_str() || lower == kind.to_ascii_lowercase()
            })
            .map(|(kind, _)| kind);
        by_resource.or_else(|| near::nearest(name, self.of_group(group).map(|(kind, _)| kind)))
    }

    /// The resource of an API group that a misspelt name, or a kind, means.
    pub(super) fn meant_resource(&self, group: &str, name: &str) -> Option<&str> {
        let of_kind = self.of_group(group).find(|(kind, _)| *kind == name);
        let of_kind = of_kind.map(|(_, defined)| defined.plural.as_str());
        let all = self.of_group(group).map(|(_, defined)| defined.plural.as_str());
        of_kind.or_else(|| near::nearest(name, all))
    }

    /// Whether an API group has a resource of this name.
    pub(super) fn has_resource(&self, group: &str, name: &str) -> bool {
        self.of_group(group).any(|(_, defined)| defined.plural == name)
    }

    /// The types of the kinds, as far as their fields are kept.
    pub(super) fn types(&self) -> &Types {
        &self.types
    }
}
