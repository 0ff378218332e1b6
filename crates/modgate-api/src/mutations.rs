//! `mutations.gatekeeper.sh`: Assign, AssignMetadata, ModifySet and AssignImage, all versions
//! (spec `gatekeeper-mutation…`, sections 1.2 to 1.10).

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

use crate::{
    matching::Match,
    meta::{GroupVersionKind, Operation},
};

/// API group of the mutators.
pub const GROUP: &str = "mutations.gatekeeper.sh";

/// The kinds of mutators, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutatorKind {
    /// Sets a value outside `metadata`.
    Assign,
    /// Replaces parts of an image reference.
    AssignImage,
    /// Adds a label or annotation.
    AssignMetadata,
    /// Adds members to a list used as a set, or removes them.
    ModifySet,
}

impl MutatorKind {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 4] =
        [Self::Assign, Self::AssignImage, Self::AssignMetadata, Self::ModifySet];

    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assign => "Assign",
            Self::AssignImage => "AssignImage",
            Self::AssignMetadata => "AssignMetadata",
            Self::ModifySet => "ModifySet",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A mutator as stored; which members mean something depends on its kind.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Mutator {
    /// Name and generation.
    pub metadata: Metadata,
    /// Its spec.
    pub spec: MutatorSpec,
}

/// The parts of an object's metadata a mutator needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The mutator's name.
    pub name: Str,
    /// Empty: mutators are cluster-scoped. Kept because it is part of an id.
    pub namespace: Str,
    /// Counted up by the API server on every change.
    pub generation: i64,
}

/// `spec` of a mutator.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MutatorSpec {
    /// The groups, versions and kinds it applies to; absent from AssignMetadata.
    pub apply_to: Option<Vec<ApplyTo>>,
    /// Which objects of those.
    #[serde(rename = "match")]
    pub matching: Match,
    /// An older spelling of `match.source` (1.10).
    pub source: Option<Str>,
    /// Where in the object.
    pub location: Str,
    /// The parameters of the change.
    pub parameters: Parameters,
}

/// One entry of `applyTo`, of mutators and expansion templates: any combination of its lists, all
/// of them exact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ApplyTo {
    /// API groups, exactly.
    pub groups: Option<Vec<Str>>,
    /// Versions, exactly.
    pub versions: Option<Vec<Str>>,
    /// Kinds, exactly.
    pub kinds: Option<Vec<Str>>,
    /// `CREATE`, `UPDATE` or `*`; none means both.
    pub operations: Option<Vec<Str>>,
}

impl ApplyTo {
    /// The operations mutators know.
    pub const SUPPORTED: [Operation; 2] = [Operation::Create, Operation::Update];

    /// Whether the entry names this kind: group, version and kind are each in their list.
    pub fn names(&self, kind: &GroupVersionKind) -> bool {
        let contains = |list: &Option<Vec<Str>>, name: &Str| {
            list.as_ref().is_some_and(|list| list.contains(name))
        };
        contains(&self.groups, &kind.group)
            && contains(&self.versions, &kind.version)
            && contains(&self.kinds, &kind.kind)
    }

    /// The supported operations the entry names, which are all when it names none.
    pub fn operations(&self) -> impl Iterator<Item = Operation> + '_ {
        let named = self.operations.as_deref().unwrap_or_default();
        Self::SUPPORTED.into_iter().filter(move |operation| {
            named.is_empty() || named.iter().any(|name| name == "*" || name == operation.as_str())
        })
    }

    /// Whether the entry covers this operation. An unknown one is only covered by entries that
    /// cover every supported operation.
    pub fn covers(&self, operation: Option<Operation>) -> bool {
        match operation {
            Some(operation) => self.operations().any(|covered| covered == operation),
            None => self.operations().count() == Self::SUPPORTED.len(),
        }
    }
}

/// `spec.parameters`, of all kinds together.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Parameters {
    /// Assign, AssignMetadata: the value.
    pub assign: AssignFrom,
    /// Conditions on what exists along the location.
    pub path_tests: Option<Vec<PathTest>>,
    /// Assign: conditions on the present value (restored, 1.10).
    pub assign_if: Option<AssignIf>,
    /// ModifySet: `merge` or `prune`.
    pub operation: Str,
    /// ModifySet: the members.
    pub values: SetValues,
    /// AssignImage: the domain, without a trailing slash.
    pub assign_domain: Str,
    /// AssignImage: the path.
    pub assign_path: Str,
    /// AssignImage: the tag or digest with its `:` or `@`.
    pub assign_tag: Str,
}

/// Where an assigned value comes from: one of the three.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AssignFrom {
    /// A constant; `null` counts as absent.
    pub value: Option<Value>,
    /// A field of the object's metadata.
    pub from_metadata: Option<FromMetadata>,
    /// A provider's answer.
    pub external_data: Option<ExternalData>,
}

/// `fromMetadata`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct FromMetadata {
    /// `name` or `namespace`.
    pub field: Str,
}

/// `externalData` (1.8).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExternalData {
    /// Name of a Provider.
    pub provider: Str,
    /// `ValueAtLocation` or `Username`.
    pub data_source: Str,
    /// `Fail`, `Ignore` or `UseDefault`.
    pub failure_policy: Str,
    /// The value for `UseDefault`.
    pub default: Str,
}

/// One entry of `pathTests`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathTest {
    /// A beginning of the location.
    pub sub_path: Str,
    /// `MustExist` or `MustNotExist`.
    pub condition: Str,
}

/// `assignIf` (3.6).
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AssignIf {
    /// The present value must be one of these.
    #[serde(rename = "in")]
    pub one_of: Option<Vec<Value>>,
    /// The present value must be none of these.
    #[serde(rename = "notIn")]
    pub none_of: Option<Vec<Value>>,
}

/// `values` of a ModifySet.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SetValues {
    /// The members, in order.
    pub from_list: Option<Vec<Value>>,
}

impl Mutator {
    /// Whether an object says it is a mutator of any kind.
    pub fn is_mutator(object: &Value) -> bool {
        let kind = GroupVersionKind::of_object(object);
        kind.group == GROUP && MutatorKind::from_name(&kind.kind).is_some()
    }

    /// Decodes a mutator of any kind and version.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }
}
