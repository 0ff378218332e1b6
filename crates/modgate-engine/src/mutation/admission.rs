//! Whether a mutator may be stored: what the validating webhook says of it (1.13).

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    meta::split_api_version,
    mutations::{GROUP, Mutator, MutatorKind},
};
use modgate_value::Value;

use super::{CompileError, CompiledMutator, Options};

/// The longest name a policy may have.
const MAX_NAME: usize = 63;

/// Why a policy may not be stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// 422 when the policy is wrong, 500 otherwise.
    pub code: u16,
    /// Why.
    pub message: String,
}

impl Refusal {
    /// The policy is wrong.
    pub fn invalid(error: impl ToString) -> Self {
        Self { code: 422, message: error.to_string() }
    }

    /// The policy cannot be looked at.
    pub fn failed(error: impl ToString) -> Self {
        Self { code: 500, message: error.to_string() }
    }
}

/// Checks the length of a name, before anything else, in every group of Gatekeeper's but
/// `status.gatekeeper.sh`.
///
/// # Errors
///
/// When it is longer than 63 bytes.
pub(crate) fn check_name(resource: &Value) -> Result<(), Refusal> {
    let name = resource.name();
    if name.len() > MAX_NAME {
        return Err(Refusal::failed(format!(
            "resource cannot have metadata.name larger than {MAX_NAME} char; length: {}",
            name.len()
        )));
    }
    Ok(())
}

/// Checks a mutator; returns what its author should know although it is valid.
///
/// # Errors
///
/// When the name is too long, the version is none of its kind's, or it does not compile.
pub fn validate(resource: &Value, options: Options) -> Result<Vec<String>, Refusal> {
    check_name(resource)?;
    let text = |key| resource.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if !Mutator::is_mutator(resource) || !versions(kind).contains(&split_api_version(api_version).1)
    {
        return Err(Refusal::failed(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{GROUP}\""
        )));
    }
    match CompiledMutator::compile(resource, options) {
        Ok(mutator) => Ok(mutator.warnings().to_vec()),
        Err(error @ CompileError::Decode(_)) => Err(Refusal::failed(error)),
        Err(error) => Err(Refusal::invalid(error)),
    }
}

/// The versions a kind is served in (1.1).
fn versions(kind: &str) -> &'static [&'static str] {
    if kind == MutatorKind::AssignImage.as_str() {
        &["v1alpha1"]
    } else {
        &["v1", "v1beta1", "v1alpha1"]
    }
}
