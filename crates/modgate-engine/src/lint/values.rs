//! Values of which there are only a few: where a wrong one stands, and which are meant.

use modgate_value::{Value, near};

use crate::{PolicySource, Problem};

/// The operators of label selectors.
pub(super) const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// The enforcement action that is meant by one that does not exist: a near one, or one with the same meaning.
pub(crate) fn action<'k>(action: &str, known: &[&'k str]) -> Option<&'k str> {
    let meant = match action.to_lowercase().as_str() {
        "warning" => "warn",
        "audit" | "dry_run" | "log" | "none" => "dryrun",
        "block" | "enforce" | "reject" => "deny",
        _ => return near::nearest(action, known.iter().copied()),
    };
    known.iter().copied().find(|it| *it == meant)
}

/// Where the selectors of a match block have their operators. `*` stands for every element of a list.
pub(super) const SELECTORS: [&str; 2] = [
    "spec.match.labelSelector.matchExpressions.*.operator",
    "spec.match.namespaceSelector.matchExpressions.*.operator",
];

/// Moves a problem to the first value at one of these places that is not `known`, with advice: a near value, or
/// all of them behind `otherwise`. Returns whether there is such a value.
pub(super) fn point_at(
    problem: &mut Problem,
    source: &PolicySource,
    places: &[&str],
    known: &[&str],
    otherwise: &str,
) -> bool {
    let wrong = places.iter().find_map(|place| first_wrong(&source.object, "", place, known));
    let Some((field, value)) = wrong else { return false };
    problem.position = source.position(&field);
    problem.help = Some(near::did_you_mean_or(value, known, otherwise));
    problem.field = field;
    true
}

/// The first value at `place` below `value` that is not `known`, and its field. The places are ours, so the recursion ends.
fn first_wrong<'o>(
    value: &'o Value,
    field: &str,
    place: &str,
    known: &[&str],
) -> Option<(String, &'o str)> {
    let (step, rest) = place.split_once('.').unwrap_or((place, ""));
    if place.is_empty() {
        let text = value.as_str()?;
        return (!known.contains(&text)).then(|| (field.to_owned(), text));
    }
    if step == "*" {
        let mut items = value.as_array()?.iter().enumerate();
        return items.find_map(|(index, item)| {
            first_wrong(item, &format!("{field}[{index}]"), rest, known)
        });
    }
    let below = if field.is_empty() { step.to_owned() } else { format!("{field}.{step}") };
    first_wrong(value.get(step)?, &below, rest, known)
}
