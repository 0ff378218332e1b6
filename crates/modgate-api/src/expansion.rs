//! `expansion.gatekeeper.sh`: ExpansionTemplate, both versions
//! (spec `gatekeeper-mutation…`, section 1.12).

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

use crate::{meta::GroupVersionKind, mutations::ApplyTo};

/// API group of expansion templates.
pub const GROUP: &str = "expansion.gatekeeper.sh";

/// Kind of expansion templates.
pub const KIND: &str = "ExpansionTemplate";

/// An ExpansionTemplate as stored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ExpansionTemplate {
    /// Its name.
    pub metadata: Metadata,
    /// Its spec.
    pub spec: ExpansionTemplateSpec,
}

/// The parts of an object's metadata an expansion template needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The template's name.
    pub name: Str,
}

/// `spec` of an ExpansionTemplate.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExpansionTemplateSpec {
    /// The generators it expands; `operations` has no meaning here.
    pub apply_to: Option<Vec<ApplyTo>>,
    /// Where in the generator the resultant stands: field names joined by `.`.
    pub template_source: Str,
    /// The group, version and kind of the resultant.
    #[serde(rename = "generatedGVK")]
    pub generated_gvk: GroupVersionKind,
    /// The action for violations of resultants, whatever the constraint says; empty leaves it to the
    /// constraint.
    pub enforcement_action: Str,
}

impl ExpansionTemplate {
    /// Decodes a template of any version.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }

    /// Whether an object says it is an expansion template.
    pub fn is_expansion_template(object: &Value) -> bool {
        let kind = GroupVersionKind::of_object(object);
        kind.kind == KIND && kind.group == GROUP
    }
}
