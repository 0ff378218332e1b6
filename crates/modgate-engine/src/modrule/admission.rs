//! The admission checks for ModRules themselves (spec `kubemod.md`, 1.4 and 1.5).

use modgate_value::Value;

use crate::{EngineConfig, jsonpatch::PatchOperation};

/// A ModRule that must not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Denied {
    /// `status.code`: 400 for a member of the wrong type, 403 for anything else.
    pub code: u16,
    /// `status.reason`, the whole text.
    pub reason: String,
}

/// The patch of the defaulting webhook.
///
/// # Errors
///
/// When a member has the wrong JSON type.
pub fn default_modrule(object: &Value) -> Result<Vec<PatchOperation>, Denied> {
    let _ = object;
    Ok(Vec::new())
}

/// The validating webhook: accepts exactly what loads and returns the warnings to
/// show.
///
/// # Errors
///
/// When the rule would not load.
pub fn validate_modrule(object: &Value, config: &EngineConfig) -> Result<Vec<String>, Denied> {
    let _ = (object, config);
    Ok(Vec::new())
}
