//! Suites over `kubemod/`: KubeMod's own test data and what was recorded from it.

pub(crate) mod cases;
pub(crate) mod decided;
#[cfg(test)]
mod differential;
pub(crate) mod expressions;
mod harness;
pub(crate) mod matching;
mod model;
mod patching;
pub(crate) mod scenarios;
mod syntax;
pub(crate) mod values;

/// Tries one rule on the creation of an object; fails if the decision contradicts itself.
pub(crate) fn try_rule(
    rule: modgate_value::Value,
    object: &modgate_value::Value,
    config: modgate_engine::EngineConfig,
) -> anyhow::Result<()> {
    let request = model::Request {
        operation: "CREATE",
        namespace: "my-namespace",
        object: Some(object),
        old_object: None,
        cluster: &[],
    };
    harness::Loaded::with(&[rule], config).answer(&request)?;
    Ok(())
}
