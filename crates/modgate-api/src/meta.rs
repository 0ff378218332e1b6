//! Names and kinds every API group shares.

use std::{fmt, str::FromStr};

use modgate_value::{Str, Value};
use serde::{Deserialize, Serialize};

/// What kind of object: API group (empty for the core group), version and kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupVersionKind {
    /// API group; empty for the core group.
    pub group: Str,
    /// API version, such as `v1`.
    pub version: Str,
    /// Kind, such as `Pod`.
    pub kind: Str,
}

impl GroupVersionKind {
    /// The kind an object says it is, from its `apiVersion` and `kind`; missing parts are empty.
    pub fn of_object(object: &Value) -> Self {
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        Self { group: group.into(), version: version.into(), kind: text("kind").into() }
    }
}

impl fmt::Display for GroupVersionKind {
    /// `apps/v1 Deployment`, as an object's own header reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.group.is_empty() {
            write!(f, "{}/", self.group)?;
        }
        write!(f, "{} {}", self.version, self.kind)
    }
}

/// Which REST resource a request addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupVersionResource {
    /// API group; empty for the core group.
    pub group: Str,
    /// API version, such as `v1`.
    pub version: Str,
    /// Plural resource name, such as `pods`.
    pub resource: Str,
}

/// Splits `apps/v1` into group and version; the core group's `v1` has an empty group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// What a request does to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Operation {
    /// A new object.
    Create,
    /// A change to an existing object.
    Update,
    /// A deletion; the object under review is the old one.
    Delete,
    /// A connection to a subresource, such as `pods/exec`.
    Connect,
}

impl Operation {
    /// The name the API server uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is not the name of an [`Operation`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown operation `{0}`, expected `CREATE`, `UPDATE`, `DELETE` or `CONNECT`")]
pub struct UnknownOperation(pub String);

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        [Self::Create, Self::Update, Self::Delete, Self::Connect]
            .into_iter()
            .find(|operation| operation.as_str() == text)
            .ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_round_trip() {
        for operation in
            [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect]
        {
            assert_eq!(operation.to_string().parse(), Ok(operation));
        }
        assert_eq!(
            "create".parse::<Operation>().map_err(|error| error.to_string()),
            Err("unknown operation `create`, expected `CREATE`, `UPDATE`, `DELETE` or `CONNECT`"
                .to_owned())
        );
    }

    #[test]
    fn kinds_of_objects() {
        let kind = |text: &str| {
            GroupVersionKind::of_object(&Value::from_json(text.as_bytes()).expect(text)).to_string()
        };
        assert_eq!(
            kind(r#"{"apiVersion": "apps/v1", "kind": "Deployment"}"#),
            "apps/v1 Deployment"
        );
        assert_eq!(kind(r#"{"apiVersion": "v1", "kind": "Pod"}"#), "v1 Pod");
        assert_eq!(kind(r#"{"kind": 3}"#), " ");
    }
}
