//! The status of ModRules: whether they are in force, as a condition that `kubectl wait` can wait
//! for. Rules load alike everywhere, so one process says it for all.

use modgate_engine::{Problem, Severity};
use modgate_value::{Object, Value};

use super::entry::shortened;
use crate::state::Loaded;

/// The type of the condition.
const LOADED: &str = "Loaded";

/// Problems named in a message.
const MAX_NAMED: usize = 5;

/// `status` without times.
pub(crate) fn status(loaded: &Loaded) -> Value {
    let is_in_force = loaded.is_in_force();
    let severity = if is_in_force { Severity::Warning } else { Severity::Error };
    let mut named: Vec<String> = Vec::new();
    let found = loaded.problems.iter().filter(|problem| problem.severity == severity);
    for problem in found {
        let text = text(problem);
        if !named.contains(&text) {
            named.push(text);
        }
    }
    let reason = match (is_in_force, named.is_empty()) {
        (true, true) => "Loaded",
        (true, false) => "LoadedWithWarnings",
        (false, _) => "Invalid",
    };
    let more = named.len().saturating_sub(MAX_NAMED);
    named.truncate(MAX_NAMED);
    let mut message = named.join("; ");
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    let generation = Value::from(loaded.generation());
    let condition: Value = [
        ("type", LOADED.into()),
        ("status", if is_in_force { "True" } else { "False" }.into()),
        ("reason", reason.into()),
        ("message", shortened(&message).into()),
        ("observedGeneration", generation.clone()),
    ]
    .into_iter()
    .collect();
    [("observedGeneration", generation), ("conditions", Value::from(vec![condition]))]
        .into_iter()
        .collect()
}

/// The field, the place in its text if the message concerns a part of it, what is wrong, and the code of
/// a warning.
fn text(problem: &Problem) -> String {
    let Problem { field, message, .. } = problem;
    let place = problem.text.as_deref().zip(problem.span).and_then(|(text, span)| {
        let column = text.get(..span.start)?.chars().count() + 1;
        Some(format!(" (character {column})"))
    });
    let place = place.unwrap_or_default();
    let separator = if field.is_empty() { "" } else { ": " };
    let code = problem.code.map_or(String::new(), |code| format!(" [{code}]"));
    format!("{field}{place}{separator}{}{code}", message.replace('\n', " "))
}

/// The cluster's condition, without times, and the time since when it has its status.
pub(crate) fn stored(object: &Value) -> (Value, Option<(Value, Value)>) {
    let condition = object
        .path(&["status", "conditions"])
        .and_then(Value::as_array)
        .into_iter()
        .flat_map(|conditions| conditions.iter())
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some(LOADED));
    let Some(condition) = condition else { return (Value::Null, None) };
    let mut known: Object = condition.as_object().cloned().unwrap_or_default();
    let since = known.remove("lastTransitionTime");
    let generation = object.path(&["status", "observedGeneration"]).cloned().unwrap_or_default();
    let since = condition.get("status").cloned().zip(since);
    let status =
        [("observedGeneration", generation), ("conditions", Value::from(vec![Value::from(known)]))];
    (status.into_iter().collect(), since)
}

/// `status` with the time at which the condition got its status, and what that is.
pub(crate) fn timed(
    status: &Value,
    before: Option<&(Value, Value)>,
    now: &str,
) -> (Value, Option<(Value, Value)>) {
    let condition = status.get("conditions").and_then(|conditions| conditions.at(0));
    let Some(Value::Object(condition)) = condition.cloned() else { return (status.clone(), None) };
    let state = condition.get("status").cloned().unwrap_or_default();
    let kept = before.filter(|(known, _)| *known == state);
    let since = kept.map_or_else(|| now.into(), |(_, since)| since.clone());
    let mut condition = condition;
    condition.insert("lastTransitionTime", since.clone());
    let mut status = status.clone();
    if let Value::Object(members) = &mut status {
        members.insert("conditions", Value::from(vec![condition.into()]));
    }
    (status, Some((state, since)))
}
