//! `api.kubemod.io/v1beta1`: the ModRule resource, field by field as its CRD declares it
//! (spec `kubemod.md`, 1.2).
//!
//! These types are what is on the wire; enumerated fields stay text here, because the order and
//! wording of the complaints about them belong to the validating webhook (1.5), not to decoding.

use modgate_value::{DecodeError, Str, Value};
use serde::{Deserialize, Serialize};

/// API group of ModRule.
pub const GROUP: &str = "api.kubemod.io";
/// `apiVersion` of ModRule.
pub const API_VERSION: &str = "api.kubemod.io/v1beta1";
/// Kind of ModRule.
pub const KIND: &str = "ModRule";

/// A ModRule as stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModRule {
    /// Name and namespace.
    #[serde(default)]
    pub metadata: Metadata,
    /// Its spec.
    pub spec: ModRuleSpec,
}

/// The parts of an object's metadata a rule needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Name of the rule.
    pub name: Str,
    /// Namespace of the rule.
    pub namespace: Str,
}

/// The `spec` of a ModRule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ModRuleSpec {
    /// Kind of rule: `Patch` or `Reject`.
    #[serde(rename = "type")]
    pub rule_type: Str,
    /// Rules of lower tiers run first; 0 if not given.
    pub execution_tier: i16,
    /// Operations the rule reacts to: `CREATE`, `UPDATE`, `DELETE`.
    pub admission_operations: Vec<Str>,
    /// Criteria items; the rule matches when all of them do.
    #[serde(rename = "match")]
    pub criteria: Vec<MatchItem>,
    /// Patch operations, in order; for type `Patch`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<PatchOperation>,
    /// Go template of the text shown when the rule rejects; for type `Reject`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject_message: Option<String>,
    /// Which namespaces a rule of the cluster-rules namespace reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_namespace_regex: Option<String>,
}

/// One entry of `spec.match`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MatchItem {
    /// Expression whose result is tested.
    pub select: String,
    /// Quantifier over the results: `Any` or `All`.
    pub match_for: Str,
    /// Exact comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_value: Option<String>,
    /// One-of comparison.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_values: Vec<String>,
    /// Regular expression, searched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_regex: Option<String>,
    /// Whether the item is inverted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub negate: bool,
}

/// One entry of `spec.patch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PatchOperation {
    /// `add`, `replace` or `remove`.
    pub op: Str,
    /// Bare path selecting the items the operation is repeated for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub select: Option<String>,
    /// RFC 6901 pointer; with `select`, `#N` stands for a captured key. Required, though it may
    /// be empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Go template producing YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

impl ModRule {
    /// Whether a document says it is a ModRule.
    pub fn is_modrule(document: &Value) -> bool {
        let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
        text("kind") == KIND && text("apiVersion").split('/').next() == Some(GROUP)
    }

    /// Decodes a rule and fills in the defaults of the CRD and the defaulting webhook (1.4).
    ///
    /// # Errors
    ///
    /// When a member has the wrong JSON type; the error names it (Q-58).
    pub fn from_value(document: &Value) -> Result<Self, DecodeError> {
        let mut rule = Self::deserialize(document)?;
        rule.set_defaults();
        Ok(rule)
    }

    /// An empty `matchFor` becomes `Any`, empty `admissionOperations` CREATE and UPDATE.
    pub fn set_defaults(&mut self) {
        if self.spec.admission_operations.is_empty() {
            self.spec.admission_operations = DEFAULT_OPERATIONS.map(Str::from).to_vec();
        }
        for item in &mut self.spec.criteria {
            if item.match_for.is_empty() {
                item.match_for = DEFAULT_MATCH_FOR.into();
            }
        }
    }
}

/// The default of `admissionOperations`, when missing or empty.
pub const DEFAULT_OPERATIONS: [&str; 2] = ["CREATE", "UPDATE"];
/// The default of `matchFor`, when missing or empty.
pub const DEFAULT_MATCH_FOR: &str = "Any";

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(spec: &str) -> Result<ModRuleSpec, String> {
        let text = format!(r#"{{"metadata": {{"name": "r"}}, "spec": {spec}}}"#);
        ModRule::from_value(&Value::from_json(text.as_bytes()).expect(&text))
            .map(|rule| rule.spec)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn defaults() {
        let spec = decode(r#"{"type": "Patch", "match": [{"select": "$.a", "matchRegex": null}]}"#)
            .expect("spec");
        assert_eq!(spec.admission_operations, ["CREATE", "UPDATE"]);
        assert_eq!(spec.criteria[0].match_for, "Any");
        assert_eq!(spec.criteria[0].match_regex, None);
        assert_eq!(spec.execution_tier, 0);
        assert!(decode(r#"{"match": null}"#).expect("spec").criteria.is_empty());
    }

    #[test]
    fn a_wrong_type_names_the_field() {
        for (spec, message) in [
            (
                r#"{"patch": [{"value": 8080}]}"#,
                "spec.patch[0].value: expected a string, got the number `8080`",
            ),
            (
                r#"{"match": [{}, {"negate": "yes"}]}"#,
                "spec.match[1].negate: expected a boolean, got the string `yes`",
            ),
            (
                r#"{"executionTier": 40000}"#,
                "spec.executionTier: expected a whole number from -32768 to 32767, got the number `40000`",
            ),
        ] {
            assert_eq!(decode(spec), Err(message.to_owned()));
        }
    }
}
