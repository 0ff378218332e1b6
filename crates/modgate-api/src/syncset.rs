//! `syncset.gatekeeper.sh`: SyncSet, further kinds for policies to see
//! (spec `gatekeeper-validation`, section 1.3).

use modgate_value::{DecodeError, Value};
use serde::Deserialize;

use crate::meta::GroupVersionKind;

/// API group of SyncSet.
pub const GROUP: &str = "syncset.gatekeeper.sh";
/// The kind.
pub const KIND: &str = "SyncSet";

/// A SyncSet as stored; it has no status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SyncSet {
    /// Its spec.
    pub spec: Spec,
}

/// `spec` of a SyncSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// Which kinds policies see in `data.inventory`, beside those of the Config.
    pub gvks: Option<Vec<GroupVersionKind>>,
}

impl SyncSet {
    /// Decodes a SyncSet.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }

    /// The kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.spec.gvks.iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    #[test]
    fn kinds() {
        let check = |spec: &str, expected: Result<&[&str], &str>| {
            let object = yaml::value(&format!("{{spec: {spec}}}")).expect(spec);
            let found = SyncSet::from_value(&object)
                .map(|set| set.kinds().map(ToString::to_string).collect::<Vec<_>>());
            let expected = expected.map(|kinds| kinds.iter().map(|it| (*it).to_owned()).collect());
            assert_eq!(found.map_err(|error| error.to_string()), expected.map_err(str::to_owned));
        };
        check("{}", Ok(&[]));
        check("{gvks: null}", Ok(&[]));
        check("{gvks: [{version: v1, kind: Pod}]}", Ok(&["v1 Pod"]));
        check(
            "{gvks: [{group: networking.k8s.io, version: v1, kind: Ingress}, {kind: X}]}",
            Ok(&["networking.k8s.io/v1 Ingress", " X"]),
        );
        let wrong = "spec.gvks[0]: expected an object, got the number `1`";
        check("{gvks: [1]}", Err(wrong));
    }
}
