//! `admissionregistration.k8s.io`: the cluster's own policies, ValidatingAdmissionPolicy and
//! MutatingAdmissionPolicy, and their bindings (Kubernetes 1.36,
//! `k8s.io/api/admissionregistration/v1`).

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

use crate::{matching::LabelSelector, meta::GroupVersionKind, templates::FailurePolicy};

/// The API group.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// The versions that have these kinds.
pub const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The kind of a policy that validates.
pub const POLICY_KIND: &str = "ValidatingAdmissionPolicy";

/// The kind of a binding of a policy that validates.
pub const BINDING_KIND: &str = "ValidatingAdmissionPolicyBinding";

/// The kind of a policy that mutates.
pub const MUTATING_POLICY_KIND: &str = "MutatingAdmissionPolicy";

/// The kind of a binding of a policy that mutates.
pub const MUTATING_BINDING_KIND: &str = "MutatingAdmissionPolicyBinding";

/// The kinds that configure admission. The API server sends their objects to no webhook and applies no
/// policy to them, so that a wrong one can be removed.
const EXEMPT_KINDS: [&str; 6] = [
    MUTATING_POLICY_KIND,
    MUTATING_BINDING_KIND,
    "MutatingWebhookConfiguration",
    POLICY_KIND,
    BINDING_KIND,
    "ValidatingWebhookConfiguration",
];

/// Whether the API server admits objects of this kind without webhooks and policies.
pub fn is_exempt(kind: &GroupVersionKind) -> bool {
    kind.group == GROUP && EXEMPT_KINDS.contains(&kind.kind.as_str())
}

/// `spec` of a ValidatingAdmissionPolicy, with the API server's defaults.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PolicySpec {
    /// The kind of object that a binding may pass as `params`.
    pub param_kind: Option<ParamKind>,
    /// The requests that the policy applies to. Required.
    pub match_constraints: Option<MatchResources>,
    /// Expressions that must be true.
    pub validations: Option<Vec<Validation>>,
    /// The result of an expression that fails, and of a wrong configuration.
    pub failure_policy: Option<Str>,
    /// Expressions whose values are written to the audit log.
    pub audit_annotations: Option<Vec<AuditAnnotation>>,
    /// Further conditions on the request, in CEL.
    pub match_conditions: Option<Vec<NamedExpression>>,
    /// Expressions that others read as `variables.NAME`.
    pub variables: Option<Vec<NamedExpression>>,
}

/// `spec` of a MutatingAdmissionPolicy. Its bindings have no `validationActions`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MutatingPolicySpec {
    /// The kind of object that a binding may pass as `params`.
    pub param_kind: Option<ParamKind>,
    /// The requests that the policy applies to. Required.
    pub match_constraints: Option<MatchResources>,
    /// Expressions that others read as `variables.NAME`.
    pub variables: Option<Vec<NamedExpression>>,
    /// The mutations, in this order.
    pub mutations: Option<Vec<Mutation>>,
    /// The result of an expression that fails, and of a wrong configuration.
    pub failure_policy: Option<Str>,
    /// Further conditions on the request, in CEL.
    pub match_conditions: Option<Vec<NamedExpression>>,
    /// `Never`, or `IfNeeded`: once more after others have changed the object. Required.
    pub reinvocation_policy: Str,
}

/// An entry of `mutations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mutation {
    /// `ApplyConfiguration` or `JSONPatch`.
    pub patch_type: Str,
    /// For `ApplyConfiguration`.
    pub apply_configuration: Option<PatchExpression>,
    /// For `JSONPatch`.
    pub json_patch: Option<PatchExpression>,
}

/// CEL for an apply configuration or a list of patch operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PatchExpression {
    /// CEL.
    pub expression: Str,
}

/// The kind of a policy's parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParamKind {
    /// Group and version.
    pub api_version: Str,
    /// Kind.
    pub kind: Str,
}

/// An entry of `variables` or `matchConditions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NamedExpression {
    /// Its name.
    pub name: Str,
    /// CEL.
    pub expression: Str,
}

/// An entry of `validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Validation {
    /// CEL; false denies.
    pub expression: Str,
    /// The text of a denial.
    pub message: Str,
    /// CEL for the text of a denial; takes precedence over `message`.
    pub message_expression: Str,
    /// A Kubernetes status reason; `Invalid` where absent.
    pub reason: Option<Str>,
}

/// An entry of `auditAnnotations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditAnnotation {
    /// The annotation's key is `POLICY/key`.
    pub key: Str,
    /// CEL that gives a text or null.
    pub value_expression: Str,
}

/// `matchConstraints` of a policy and `matchResources` of a binding.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MatchResources {
    /// Against the labels of the object's Namespace.
    pub namespace_selector: Option<LabelSelector>,
    /// Against the labels of the object or the old object.
    pub object_selector: Option<LabelSelector>,
    /// One of these must match; none matches everything.
    pub resource_rules: Option<Vec<ResourceRule>>,
    /// None of these may match.
    pub exclude_resource_rules: Option<Vec<ResourceRule>>,
    /// `Equivalent`, which is the default, or `Exact`.
    pub match_policy: Option<Str>,
}

/// An entry of `resourceRules`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRule {
    /// Names of objects; none matches all.
    pub resource_names: Option<Vec<Str>>,
    /// `CREATE`, `UPDATE`, `DELETE`, `CONNECT` or `*`.
    pub operations: Option<Vec<Str>>,
    /// API groups or `*`.
    pub api_groups: Option<Vec<Str>>,
    /// API versions or `*`.
    pub api_versions: Option<Vec<Str>>,
    /// Plural names, `name/subresource`, with `*` for either part.
    pub resources: Option<Vec<Str>>,
    /// `Cluster`, `Namespaced` or `*`.
    pub scope: Option<Str>,
}

/// `spec` of a ValidatingAdmissionPolicyBinding.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BindingSpec {
    /// The policy.
    pub policy_name: Str,
    /// The parameters.
    pub param_ref: Option<ParamRef>,
    /// Limits the policy further.
    pub match_resources: Option<MatchResources>,
    /// `Deny`, `Warn`, `Audit`.
    pub validation_actions: Option<Vec<Str>>,
}

/// The parameters that a binding passes: one object by name, or all that a selector matches.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParamRef {
    /// The object's name.
    pub name: Str,
    /// The object's namespace; the request's where absent.
    pub namespace: Str,
    /// Labels of the objects.
    pub selector: Option<LabelSelector>,
    /// `Deny` or `Allow`: the result if there is no such object.
    pub parameter_not_found_action: Option<Str>,
}

/// The members of the two kinds that are read here.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Document<Spec> {
    spec: Spec,
}

impl PolicySpec {
    /// Decodes the `spec` of a policy.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(object: &Value) -> Result<Self, DecodeError> {
        Document::<Self>::deserialize(object).map(|document| document.spec)
    }
}

impl MutatingPolicySpec {
    /// Decodes the `spec` of a policy.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(object: &Value) -> Result<Self, DecodeError> {
        Document::<Self>::deserialize(object).map(|document| document.spec)
    }
}

impl PolicySpec {
    /// The failure policy, `Fail` where the policy does not set one.
    ///
    /// # Errors
    ///
    /// The text, if it is neither `Fail` nor `Ignore`.
    pub fn failure_policy(&self) -> Result<FailurePolicy, Str> {
        let text = self.failure_policy.as_deref();
        text.map_or(Ok(FailurePolicy::Fail), |text| text.parse().map_err(|_| text.into()))
    }
}

impl BindingSpec {
    /// Decodes the `spec` of a binding.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(object: &Value) -> Result<Self, DecodeError> {
        Document::<Self>::deserialize(object).map(|document| document.spec)
    }
}
