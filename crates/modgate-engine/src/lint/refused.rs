//! Where a refused policy goes wrong, by what its error quotes: the words are the originals', and some name no field.

use modgate_value::{Value, near};

use super::values::OPERATORS;
use crate::{PolicySource, Problem, Severity};

/// The selectors of a match block.
const SELECTORS: [&str; 2] = ["labelSelector", "namespaceSelector"];

/// The parameters of an AssignImage.
const OF_IMAGES: [&str; 3] = ["assignDomain", "assignPath", "assignTag"];

/// Adds the values that are near to one that is none of the few its field may have.
pub(crate) fn near_values(found: &mut [Problem]) {
    for problem in found.iter_mut().filter(|it| it.severity == Severity::Error) {
        if problem.help.is_some() {
            continue;
        }
        if let Some((before, listed)) = problem.message.split_once(": supported values: ") {
            let listed: Vec<&str> =
                listed.split(", ").map(|text| text.trim_matches(['"', '\''])).collect();
            let value = before.rsplit_once("alue: \"").or_else(|| before.rsplit_once("alue \""));
            let value = value.map(|(_, value)| value.trim_end_matches('"'));
            problem.help = value.and_then(|value| {
                let of_others = |(other, meant): &&(&str, &str)| {
                    *other == value.to_ascii_lowercase() && listed.contains(meant)
                };
                match OTHER_WORDS.iter().find(of_others) {
                    Some((_, meant)) => Some(format!("did you mean `{meant}`?")),
                    None => near::did_you_mean(value, listed),
                }
            });
        } else if problem.message.contains("not a valid selector operator") {
            problem.help = quoted(&problem.message)
                .map(|value| near::did_you_mean_or(value, &OPERATORS, "the operators are"));
        }
    }
}

/// Words of other tools, and those that are meant.
const OTHER_WORDS: [(&str, &str); 8] = [
    ("delete", "remove"),
    ("set", "add"),
    ("append", "add"),
    ("update", "replace"),
    ("block", "Deny"),
    ("enforce", "Deny"),
    ("warning", "Warn"),
    ("log", "Audit"),
];

/// The first text in double quotes.
fn quoted(message: &str) -> Option<&str> {
    message.split('"').nth(1)
}

/// Marks the part of a selector that a constraint's error names below `spec`, and the API below `spec.match`.
pub(super) fn in_constraint(problem: &mut Problem, source: &PolicySource, path: &str) {
    let Some(below) = path.strip_prefix("spec.") else { return };
    // The error has the same name for either selector.
    let at = |path: &str| source.object.pointer(&crate::policy::pointer(path));
    let other = below.replacen("labelSelector.", "namespaceSelector.", 1);
    let is_there =
        |below: &str| at(&format!("spec.match.{}", below.trim_end_matches(".values"))).is_some();
    let is_other = !is_there(below) && is_there(&other);
    let below = if is_other { other.as_str() } else { below };
    let Some(expression) = below.strip_suffix(".values") else {
        return mark(problem, source, format!("spec.match.{below}"));
    };
    // What is missing has no place; the operator wants it.
    let operator = format!("spec.match.{expression}.operator");
    match at(&operator).and_then(Value::as_str) {
        Some("In" | "NotIn") => {
            problem.help = Some(
                "add `values: [\"a\"]`, or ask whether the label is there: `operator: Exists`"
                    .to_owned(),
            );
            mark(problem, source, operator);
        }
        _ => {
            problem.help =
                Some("leave `values` out, or compare with them: `operator: In`".to_owned());
            mark(problem, source, format!("spec.match.{below}"));
        }
    }
}

/// Marks the part of a mutator that its error quotes.
pub(super) fn in_mutator(problem: &mut Problem, source: &PolicySource) -> bool {
    let found = match problem.field.as_str() {
        "spec.match" => in_selectors(&source.object, &problem.message),
        "spec.parameters.pathTests" => in_path_tests(&source.object, &problem.message),
        "spec.parameters" if problem.message.contains("set one of `externalData`") => {
            let value = source.object.path(&["spec", "parameters", "assign", "value"]);
            if value.is_some_and(Value::is_null) {
                problem.help = Some(
                    "null is not a value that a mutator can write, and no mutator removes a field"
                        .to_owned(),
                );
            }
            Some("spec.parameters.assign".to_owned())
        }
        "spec.parameters" => OF_IMAGES
            .iter()
            .find(|name| problem.message.contains(&format!("{name} \"")))
            .map(|name| format!("spec.parameters.{name}")),
        _ => None,
    };
    let is_found = found.is_some();
    found.into_iter().for_each(|field| mark(problem, source, field));
    is_found
}

/// A value that is there, or the name of what it is missing from.
fn mark(problem: &mut Problem, source: &PolicySource, field: String) {
    problem.position = source.position(&field);
    problem.field = field;
}

fn in_path_tests(object: &Value, message: &str) -> Option<String> {
    let tests = object.path(&["spec", "parameters", "pathTests"])?.as_array()?;
    let index = tests.iter().position(|test| {
        let text = test.get("subPath").and_then(Value::as_str);
        text.is_some_and(|text| {
            message.contains(&format!("`{text}`")) || message.contains(&format!("\"{text}\""))
        })
    })?;
    Some(format!("spec.parameters.pathTests[{index}].subPath"))
}

/// The label, the key or the values of a selector that an error quotes.
fn in_selectors(object: &Value, message: &str) -> Option<String> {
    let value = quoted(message).unwrap_or_default();
    SELECTORS.into_iter().find_map(|name| {
        let field = format!("spec.match.{name}");
        let selector = object.path(&["spec", "match", name])?;
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let is_key = message.starts_with("key: ");
        let label = labels.into_iter().flat_map(|labels| labels.iter()).find(|(key, label)| {
            (is_key && key.as_str() == value)
                || (message.starts_with("values[") && label.as_str() == Some(value))
        });
        if let Some((key, _)) = label {
            return Some(format!("{field}.matchLabels.{key}"));
        }
        let list = selector.get("matchExpressions").and_then(Value::as_array)?;
        list.iter().enumerate().find_map(|(index, expression)| {
            let text = |member: &str| expression.get(member).and_then(Value::as_str);
            let values = expression.get("values").and_then(Value::as_array);
            let field = format!("{field}.matchExpressions[{index}]");
            if is_key {
                return (text("key") == Some(value)).then(|| format!("{field}.key"));
            }
            let mut values = values.into_iter().flat_map(|values| values.iter());
            if message.starts_with("values[") {
                let at = values.position(|it| it.as_str() == Some(value))?;
                return Some(format!("{field}.values[{at}]"));
            }
            let wants = matches!(text("operator"), Some("In" | "NotIn"));
            (message.starts_with("values: ") && wants != values.next().is_some())
                .then(|| format!("{field}.operator"))
        })
    })
}
