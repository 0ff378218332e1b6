//! Which decisions an answer about ModRules differs by, for random programs that no corpus holds.

use anyhow::{Context as _, Result};
use modgate_value::Value;

use super::{
    model::{self, Answer, Decided, Request},
    scenarios,
};
use crate::report::Verdict;

/// The answer of modgate to a request; values are JSON.
pub struct Answered {
    /// Whether it admits the object.
    pub allowed: bool,
    /// The code of the response's status.
    pub code: i64,
    /// The reason in the response's status.
    pub reason: String,
    /// The object afterwards; `None` when denied.
    pub object: Option<String>,
    /// Whether a rule could not do its work.
    pub failed: bool,
}

/// The ids of the decisions by which the answer to a request differs from the original's; none if no
/// decision prescribes this answer. `cluster` holds the Namespaces and Nodes.
///
/// # Errors
///
/// Something is not JSON, or the request has no operation.
pub fn decided(
    rules: &[String],
    request: &str,
    cluster: &[String],
    answered: &Answered,
) -> Result<Vec<&'static str>> {
    let (rules, cluster, request) = (all(rules)?, all(cluster)?, value(request)?);
    let text = |key| request.get(key).and_then(Value::as_str);
    let asked = Request {
        operation: text("operation").context("the request has no operation")?,
        namespace: text("namespace").unwrap_or_default(),
        object: request.get("object"),
        old_object: request.get("oldObject"),
        cluster: &cluster,
    };
    let (required, decisions) = model::required(&rules, &asked);
    let got = Answer::Decided(Decided {
        allowed: answered.allowed,
        code: answered.code,
        reason: answered.reason.clone(),
        object: answered.object.as_deref().map(value).transpose()?,
        failed: answered.failed,
    });
    if !model::same_answer(&got, &required) {
        return Ok(Vec::new());
    }
    let decisions = if decisions.is_empty() { model::together(&rules, &asked) } else { decisions };
    Ok(decisions.into_iter().map(|decision| decision.id).collect())
}

/// The ids of the decisions by which rules are refused or accepted otherwise than by the original;
/// `None` if some rule is neither as the original has it nor as a decision prescribes. `outcomes` are
/// those of the original's refusals, as in the `ruleOutcomes` of a scenario.
///
/// # Errors
///
/// Something is not JSON, or an outcome names a rule that is not there.
pub fn decided_rules(rules: &[String], outcomes: &[String]) -> Result<Option<Vec<&'static str>>> {
    let outcomes = all(outcomes)?;
    let verdicts = scenarios::rule_verdicts(&all(rules)?, &outcomes)?;
    Ok(match scenarios::all_of(verdicts) {
        Verdict::Differs(decisions) => Some(decisions.iter().map(|decision| decision.id).collect()),
        Verdict::Failed { .. } => None,
        Verdict::Passed | Verdict::Skipped | Verdict::Exempt => Some(Vec::new()),
    })
}

fn all(texts: &[String]) -> Result<Vec<Value>> {
    texts.iter().map(|text| value(text)).collect()
}

fn value(text: &str) -> Result<Value> {
    Value::from_json(text.as_bytes()).map_err(|error| anyhow::anyhow!("{error}"))
}
