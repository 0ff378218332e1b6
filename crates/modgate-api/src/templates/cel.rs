//! The source of `engine: K8sNativeValidation` (spec `gatekeeper-validation`, section 4.1).

use std::{fmt, str::FromStr};

use modgate_value::{DecodeError, Str, Value, gofmt};
use serde::Deserialize;

use super::ConstraintTemplate;

/// The engine's name in `code`.
pub const CEL_ENGINE: &str = "K8sNativeValidation";

/// The prefix that names of authors may not have.
const RESERVED: &str = "gatekeeper_internal_";

/// The policy of a template in CEL. Only [`CelSource::from_value`] makes one, so that holding one
/// is the proof that its names are free and its failure policy is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[non_exhaustive]
pub struct CelSource {
    /// The validations.
    pub validations: Option<Vec<CelValidation>>,
    /// Values that expressions may refer to as `variables.<name>`.
    pub variables: Option<Vec<CelExpression>>,
    /// The conditions under which the policy applies. The key is singular (Q-9).
    #[serde(rename = "matchCondition")]
    pub match_conditions: Option<Vec<CelExpression>>,
    /// A [`FailurePolicy`]; the installation's where absent.
    pub failure_policy: Option<Str>,
    /// Whether the API server shall enforce it too; the installation's setting where absent.
    #[serde(rename = "generateVAP")]
    pub generate_vap: Option<bool>,
}

/// One entry of `validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CelValidation {
    /// True for objects that comply.
    pub expression: Str,
    /// The message for those that do not.
    pub message: Str,
    /// An expression for the message; wins over `message` when it yields a usable text.
    pub message_expression: Str,
}

/// One entry of `variables` or `matchCondition`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CelExpression {
    /// Its name.
    pub name: Str,
    /// The expression it stands for.
    pub expression: Str,
}

/// The result of an expression that cannot be evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum FailurePolicy {
    /// A violation.
    #[default]
    Fail,
    /// Nothing.
    Ignore,
}

/// Why a source is refused (CE-2).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CelSourceError {
    /// It is not a map.
    #[error("could not recognize the type")]
    Type,
    /// A member has the wrong type.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// The name of a match condition is reserved.
    #[error(
        "invalid match condition: {0} is not a valid match condition; cannot have {prefix} as a \
         prefix",
        prefix = gofmt::quote(RESERVED)
    )]
    MatchCondition(Str),
    /// The name of a variable begins as reserved ones do.
    #[error(
        "invalid variable definition: {0} is not a valid variable; cannot have {prefix} as a \
         prefix",
        prefix = gofmt::quote(RESERVED)
    )]
    Variable(Str),
    /// A variable has the name of one that is always there.
    #[error(
        "invalid variable definition: {0} an invalid variable name, {quoted} is a reserved keyword",
        quoted = gofmt::quote(.0)
    )]
    Keyword(Str),
    /// The failure policy is neither of the two.
    #[error("invalid failure policy: unrecognized failure policy: {0}")]
    FailurePolicy(String),
}

impl CelSource {
    /// Decodes and checks the source of an entry with `engine: K8sNativeValidation`.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it.
    pub fn from_value(value: &Value) -> Result<Self, CelSourceError> {
        if value.as_object().is_none() {
            return Err(CelSourceError::Type);
        }
        let source = Self::deserialize(value)?;
        let reserved = |name: &Str| name.starts_with(RESERVED);
        for condition in source.match_conditions.iter().flatten() {
            if reserved(&condition.name) {
                return Err(CelSourceError::MatchCondition(condition.name.clone()));
            }
        }
        for variable in source.variables.iter().flatten() {
            if reserved(&variable.name) {
                return Err(CelSourceError::Variable(variable.name.clone()));
            }
            if ["params", "anyObject"].contains(&variable.name.as_str()) {
                return Err(CelSourceError::Keyword(variable.name.clone()));
            }
        }
        source.failure_policy(FailurePolicy::Fail)?;
        Ok(source)
    }

    /// The failure policy; `default` where the source has none.
    ///
    /// # Errors
    ///
    /// When it says something else.
    pub fn failure_policy(&self, default: FailurePolicy) -> Result<FailurePolicy, CelSourceError> {
        match &self.failure_policy {
            None => Ok(default),
            Some(text) => text.parse(),
        }
    }

    /// The members of a source.
    pub const MEMBERS: [&str; 5] =
        ["failurePolicy", "generateVAP", "matchCondition", "validations", "variables"];

    /// The members of a source that mean nothing, sorted: misspelt, or in the plural (Q-9).
    pub fn unknown_fields(value: &Value) -> Vec<Str> {
        let members = value.as_object().into_iter().flatten();
        members
            .map(|(name, _)| name)
            .filter(|name| !Self::MEMBERS.contains(&name.as_str()))
            .cloned()
            .collect()
    }
}

impl ConstraintTemplate {
    /// Where the CEL source of the template stands in `spec.targets[0].code`, and what it is.
    pub fn cel_source(&self) -> Option<(usize, &Value)> {
        let [target] = self.spec.targets.as_deref()? else { return None };
        let mut code = target.code.iter().flatten().enumerate();
        code.find(|(_, code)| code.engine == CEL_ENGINE).map(|(index, code)| (index, &code.source))
    }
}

impl FailurePolicy {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "Fail",
            Self::Ignore => "Ignore",
        }
    }
}

impl FromStr for FailurePolicy {
    type Err = CelSourceError;

    fn from_str(text: &str) -> Result<Self, CelSourceError> {
        match text {
            "Fail" => Ok(Self::Fail),
            "Ignore" => Ok(Self::Ignore),
            other => Err(CelSourceError::FailurePolicy(other.to_owned())),
        }
    }
}

impl fmt::Display for FailurePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
    }

    #[test]
    fn what_means_nothing_is_known() {
        let source = r#"{"validations": [], "matchConditions": [], "foo": 1}"#;
        let source = Value::from_json(source.as_bytes()).expect("JSON");
        assert_eq!(CelSource::unknown_fields(&source), ["foo", "matchConditions"]);
    }
}
