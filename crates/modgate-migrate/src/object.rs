//! Objects as they are looked at here.

use std::{fmt, sync::Arc};

use modgate_api::{config, constraints, expansion, externaldata, modrule, mutations, templates};
use modgate_engine::PolicySource;
use modgate_value::{Str, Value, yaml};
use serde::Serialize;

/// An object of an installation.
#[derive(Debug, Clone)]
pub struct InstalledObject {
    /// File name, or URL of the cluster.
    pub origin: Str,
    /// The object.
    pub object: Value,
    /// Where its parts stand in the file, if it came from one.
    pub positions: Option<Arc<yaml::Positions>>,
}

impl InstalledObject {
    /// Group of its `apiVersion`.
    pub(crate) fn group(&self) -> &str {
        let version = self.text(&["apiVersion"]);
        version.split_once('/').map_or("", |(group, _)| group)
    }

    pub(crate) fn kind(&self) -> &str {
        self.text(&["kind"])
    }

    pub(crate) fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }

    pub(crate) fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }

    /// A text in it; empty if there is none.
    pub(crate) fn text(&self, path: &[&str]) -> &str {
        text(&self.object, path)
    }

    /// A list in it; empty if there is none.
    pub(crate) fn list(&self, path: &[&str]) -> &[Value] {
        list(&self.object, path)
    }

    pub(crate) fn source(&self) -> PolicySource {
        PolicySource {
            origin: self.origin.clone(),
            object: self.object.clone(),
            positions: self.positions.clone(),
        }
    }

    /// Where a field stands, or the innermost part of its path that exists; the whole if it is
    /// empty.
    pub(crate) fn place(&self, field: &str) -> String {
        match self.source().position(field) {
            Some(position) => format!("{}:{position}", self.origin),
            None => self.origin.to_string(),
        }
    }

    /// Its kind and place.
    pub(crate) fn subject(&self) -> Subject {
        Subject {
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
            place: self.place(""),
        }
    }
}

pub(crate) fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    value.path(path).and_then(Value::as_array).map_or(&[], |list| list)
}

/// The texts of a list.
pub(crate) fn texts<'v>(value: &'v Value, path: &[&str]) -> impl Iterator<Item = &'v str> {
    list(value, path).iter().filter_map(Value::as_str)
}

/// Which object something is said of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subject {
    /// Such as `ModRule`.
    pub kind: String,
    /// Empty for objects that live in none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `file:line:column`, or the URL of the cluster.
    pub place: String,
}

impl fmt::Display for Subject {
    /// `ModRule my-namespace/my-rule`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Groups whose objects are policies, or configure what policies see and where violations go.
pub const GROUPS: [&str; 9] = [
    modrule::GROUP,
    templates::GROUP,
    constraints::GROUP,
    mutations::GROUP,
    expansion::GROUP,
    externaldata::GROUP,
    config::GROUP,
    "syncset.gatekeeper.sh",
    "connection.gatekeeper.sh",
];

/// Whether an object is a policy.
pub(crate) fn is_policy(found: &InstalledObject) -> bool {
    GROUPS.contains(&found.group())
}
