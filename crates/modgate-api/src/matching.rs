//! The match block that Gatekeeper's mutators and constraints share
//! (spec `gatekeeper-mutation…`, 1.3; `gatekeeper-validation`, 1.5).

use std::collections::BTreeMap;

use modgate_value::Str;
use serde::Deserialize;

/// `spec.match`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Match {
    /// Original or generated objects: `All`, `Generated`, `Original`.
    pub source: Option<Str>,
    /// An older spelling of `source` (1.10).
    pub origin: Option<Str>,
    /// Any entry may match; none matches everything.
    pub kinds: Option<Vec<Kinds>>,
    /// `*`, `Cluster` or `Namespaced`.
    pub scope: Option<Str>,
    /// Names of namespaces, with `*` at either end as a wildcard.
    pub namespaces: Option<Vec<Str>>,
    /// As `namespaces`, excluding.
    pub excluded_namespaces: Option<Vec<Str>>,
    /// Against the object's labels.
    pub label_selector: Option<LabelSelector>,
    /// Against the labels of the object's namespace.
    pub namespace_selector: Option<LabelSelector>,
    /// Against the object's name, with `*` at either end as a wildcard.
    pub name: Option<Str>,
}

/// One entry of `kinds`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Kinds {
    /// API groups; `*`, none or a missing list match all.
    pub api_groups: Option<Vec<Str>>,
    /// Kinds; `*`, none or a missing list match all.
    pub kinds: Option<Vec<Str>>,
}

/// `metav1.LabelSelector`: everything in it has to hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels that must have exactly these values; null is the empty text, as Go decodes it.
    pub match_labels: Option<BTreeMap<Str, Str>>,
    /// Further requirements.
    pub match_expressions: Option<Vec<Requirement>>,
}

/// One entry of `matchExpressions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// The label.
    pub key: Str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Str,
    /// For `In` and `NotIn`.
    pub values: Option<Vec<Str>>,
}
