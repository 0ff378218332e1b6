//! Suites over `gatekeeper/`: Gatekeeper's own tables, and what was recorded from it.

use anyhow::{Context as _, Result};
use modgate_value::Value;

use crate::{decision, report::Verdict};

pub(crate) mod cases;
mod command;
pub(crate) mod crds;
pub(crate) mod expansion;
pub(crate) mod gator;
pub mod library;
pub(crate) mod location;
pub(crate) mod mutation;
pub(crate) mod oci;
pub(crate) mod suites;
pub(crate) mod tables;
pub(crate) mod unit;
pub mod validation;
pub(crate) mod vap;

/// Checks a recorded case that holds both the original's answer and the required one: `keep`, where
/// both are the same, or the decision by which they differ.
///
/// A decision may leave the result of a case as it is; then nothing differs.
pub(crate) fn check(
    decision: &str,
    expect: &Value,
    upstream: &Value,
    got: &Value,
    is_as: impl Fn(&Value) -> bool,
) -> Result<Verdict> {
    let decision = match decision {
        "keep" => None,
        tag => Some(
            decision::ALL
                .iter()
                .find(|known| known.id == tag)
                .with_context(|| format!("`{tag}` is no decision"))?,
        ),
    };
    if !is_as(expect) {
        return Ok(Verdict::Failed { expected: expect.to_json(), got: got.to_json() });
    }
    Ok(match decision {
        Some(decision) if !is_as(upstream) => Verdict::Differs(vec![decision]),
        _ => Verdict::Passed,
    })
}
