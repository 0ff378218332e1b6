//! KubeMod's dry-run API (spec `kubemod.md`, 7.9).

use modgate_value::Value;

use crate::{EngineConfig, Host};

/// The request cannot be answered; HTTP status 400 and `{"error": "<text>"}`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DryRunError(pub String);

/// Answers the body of a `PUT /v1/dryrun`: `{"patch": [...], "diff": "...", "rejections": [...]}`.
///
/// # Errors
///
/// When the request or one of its rules is not valid.
pub fn dry_run(
    request: &Value,
    config: &EngineConfig,
    host: &dyn Host,
) -> Result<Value, DryRunError> {
    let _ = (request, config, host);
    Err(DryRunError("not built yet".to_owned()))
}
