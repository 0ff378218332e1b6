//! `constraints.gatekeeper.sh`: constraints of every kind
//! (spec `gatekeeper-validation`, sections 1.4 and 6.2).

use std::{fmt, str::FromStr};

use modgate_value::{DecodeError, Str, Value};
use serde::Deserialize;

use crate::matching::Match;

/// API group of constraints.
pub const GROUP: &str = "constraints.gatekeeper.sh";

/// The versions every constraint kind is served in.
pub const VERSIONS: [&str; 2] = ["v1alpha1", "v1beta1"];

/// A constraint as stored.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Constraint {
    /// Group and version.
    pub api_version: Str,
    /// The template's constraint kind.
    pub kind: Str,
    /// Name and generation.
    pub metadata: Metadata,
    /// The parameters; they may be absent.
    pub spec: Option<Spec>,
}

/// The parts of a constraint's metadata its meaning depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Its name.
    pub name: Str,
    /// Counted up by the API server on every change.
    pub generation: i64,
}

/// `spec` of a constraint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// Which objects.
    #[serde(rename = "match")]
    pub matching: Option<Match>,
    /// The enforcement action; absent means `deny`.
    pub enforcement_action: Option<Str>,
    /// The actions by enforcement point, with `enforcementAction: scoped`.
    pub scoped_enforcement_actions: Option<Vec<ScopedAction>>,
    /// With which settings.
    pub parameters: Option<Value>,
}

/// One entry of `scopedEnforcementActions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopedAction {
    /// `deny`, `dryrun` or `warn`.
    pub action: Str,
    /// Where; `*` stands for everywhere.
    pub enforcement_points: Option<Vec<ScopedPoint>>,
}

/// One entry of `enforcementPoints`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScopedPoint {
    /// An [`EnforcementPoint`] or `*`.
    pub name: Str,
}

impl Constraint {
    /// Decodes a constraint of any kind and version.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type; the error names its path.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        Self::deserialize(value)
    }
}

/// An enforcement action. Ordered as Gatekeeper orders results (EV-40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnforcementAction {
    /// The request is denied.
    Deny,
    /// Nothing visible.
    Dryrun,
    /// The actions of `scopedEnforcementActions`.
    Scoped,
    /// The request is allowed with a warning.
    Warn,
}

/// Where constraints are enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnforcementPoint {
    /// The validating webhook.
    Webhook,
    /// The audit of existing objects.
    Audit,
    /// The command line.
    Gator,
    /// The API server's own ValidatingAdmissionPolicies.
    Vap,
}

impl EnforcementAction {
    /// All of them, as error texts list them.
    pub const ALL: [Self; 4] = [Self::Deny, Self::Dryrun, Self::Warn, Self::Scoped];

    /// The name in `enforcementAction`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Dryrun => "dryrun",
            Self::Scoped => "scoped",
            Self::Warn => "warn",
        }
    }
}

impl EnforcementPoint {
    /// All of them, as error texts list them.
    pub const ALL: [Self; 4] = [Self::Webhook, Self::Audit, Self::Gator, Self::Vap];

    /// The name in `enforcementPoints`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Webhook => "validation.gatekeeper.sh",
            Self::Audit => "audit.gatekeeper.sh",
            Self::Gator => "gator.gatekeeper.sh",
            Self::Vap => "vap.k8s.io",
        }
    }
}

/// The text names no [`EnforcementAction`] or [`EnforcementPoint`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not known")]
pub struct Unrecognized(pub String);

impl FromStr for EnforcementAction {
    type Err = Unrecognized;

    fn from_str(text: &str) -> Result<Self, Unrecognized> {
        let found = Self::ALL.into_iter().find(|action| action.as_str() == text);
        found.ok_or_else(|| Unrecognized(text.to_owned()))
    }
}

impl FromStr for EnforcementPoint {
    type Err = Unrecognized;

    fn from_str(text: &str) -> Result<Self, Unrecognized> {
        let found = Self::ALL.into_iter().find(|point| point.as_str() == text);
        found.ok_or_else(|| Unrecognized(text.to_owned()))
    }
}

impl fmt::Display for EnforcementAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for EnforcementPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for action in EnforcementAction::ALL {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        for point in EnforcementPoint::ALL {
            assert_eq!(point.to_string().parse(), Ok(point));
        }
        assert_eq!("Deny".parse::<EnforcementAction>(), Err(Unrecognized("Deny".to_owned())));
    }

    #[test]
    fn actions_order_as_their_names() {
        let mut actions = EnforcementAction::ALL;
        actions.sort();
        assert!(actions.is_sorted_by_key(|action| action.as_str()));
    }
}
