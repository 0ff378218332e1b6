//! `templates.gatekeeper.sh`: ConstraintTemplate, all versions
//! (spec `gatekeeper-validation`, section 1.2).

mod cel;

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

pub use self::cel::{
    CEL_ENGINE, CelExpression, CelSource, CelSourceError, CelValidation, FailurePolicy,
};

/// API group of ConstraintTemplate.
pub const GROUP: &str = "templates.gatekeeper.sh";

/// The kind.
pub const KIND: &str = "ConstraintTemplate";

/// The versions that are served.
pub const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The one target there is: admission of Kubernetes objects.
pub const TARGET: &str = "admission.k8s.gatekeeper.sh";

/// A template as stored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ConstraintTemplate {
    /// Group and version.
    pub api_version: Str,
    /// Name and generation.
    pub metadata: Metadata,
    /// The generated CRD.
    pub spec: Spec,
}

/// The parts of a template's metadata its meaning depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// The constraint kind in lower case.
    pub name: Str,
    /// Counted up by the API server on every change.
    pub generation: i64,
}

/// `spec` of a template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// The constraint kind.
    pub crd: Crd,
    /// The policy; exactly one entry is accepted.
    pub targets: Option<Vec<Target>>,
}

/// `spec.crd`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Crd {
    /// The spec of the generated CRD.
    pub spec: CrdSpec,
}

/// `spec.crd.spec`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CrdSpec {
    /// Names of the constraint kind.
    pub names: Names,
    /// The schema of its parameters.
    pub validation: Option<Validation>,
}

/// `spec.crd.spec.names`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Names {
    /// Kind of the constraints.
    pub kind: Str,
    /// Copied to the generated CRD.
    pub short_names: Option<Vec<Str>>,
}

/// `spec.crd.spec.validation`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Validation {
    /// Schema of `spec.parameters`, a JSONSchemaProps.
    #[serde(rename = "openAPIV3Schema")]
    pub schema: Option<Value>,
    /// Whether the schema need not be structural; its default depends on the version (RM-1).
    #[serde(rename = "legacySchema")]
    pub legacy: Option<bool>,
}

/// One entry of `targets`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Target {
    /// Must be [`TARGET`].
    pub target: Str,
    /// The legacy place of the Rego source; wins over `code`.
    pub rego: Option<Str>,
    /// The legacy place of Rego libraries.
    pub libs: Option<Vec<Str>>,
    /// Source per engine.
    pub code: Option<Vec<Code>>,
    /// Limits admission requests; `*` stands for all.
    pub operations: Option<Vec<Str>>,
}

/// One entry of `code`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Code {
    /// `Rego` or `K8sNativeValidation`.
    pub engine: Str,
    /// Each engine decodes its own.
    pub source: Value,
}

/// The source of `engine: Rego`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RegoSource {
    /// The main module; required.
    pub rego: Option<Str>,
    /// `v1` selects Rego version 1, anything else version 0.
    pub version: Option<Str>,
    /// Library modules.
    pub libs: Option<Vec<Str>>,
}

impl ConstraintTemplate {
    /// Decodes a template of any version.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }

    /// Whether its parameter schema need not be structural (RM-1).
    pub fn is_legacy(&self) -> bool {
        let written = self.spec.crd.spec.validation.as_ref().and_then(|schema| schema.legacy);
        written.unwrap_or_else(|| {
            let (_, version) = crate::meta::split_api_version(&self.api_version);
            matches!(version, "v1beta1" | "v1alpha1")
        })
    }
}

impl RegoSource {
    /// Decodes the source of an entry with `engine: Rego`.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }
}
