//! Reports mistakes that two checks find once.

use crate::{Code, Problem, Severity};

/// Reports a field that is missing because its name is misspelt once, at the misspelt name.
pub(crate) fn misspelt_once(found: &mut Vec<Problem>) {
    let meant = |problem: &Problem| {
        let is_unknown = problem.code == Some(Code::UnknownField);
        let help = problem.help.as_deref().filter(|_| is_unknown)?;
        let name = help.strip_prefix("did you mean `")?.split_once("`?")?.0;
        let parent = problem.field.rsplit_once('.').map_or("", |(parent, _)| parent);
        Some((parent.to_owned(), name.to_owned()))
    };
    for index in 0..found.len() {
        let Some((parent, name)) = found.get(index).and_then(meant) else { continue };
        let right = if parent.is_empty() { name.clone() } else { format!("{parent}.{name}") };
        let is_word = |text: &str| {
            let is_part = |letter: char| letter.is_alphanumeric();
            text.split(|letter| !is_part(letter)).any(|word| word == name)
        };
        // Errors name the field, what it is missing from, or neither.
        let follows = |problem: &Problem| {
            problem.severity == Severity::Error
                && (problem.field == right
                    // Neither `rego` nor `code` is there.
                    || (problem.message.starts_with("no language driver")
                        && ["code", "rego"].contains(&name.as_str()))
                    || problem.field.starts_with(&format!("{right}."))
                    || (is_word(&problem.message) && parent.starts_with(&problem.field)))
        };
        if !found.iter().any(follows) {
            continue;
        }
        if let Some(problem) = found.get_mut(index) {
            problem.severity = Severity::Error;
            problem.message = format!("unknown field, and `{name}` is missing");
        }
        let kept = found.get(index).cloned();
        found.retain(|problem| !follows(problem) || Some(problem) == kept.as_ref());
        return;
    }
}

/// Reports a letter that is not seen once: a message about the field of its key or its text has it as advice.
pub(crate) fn unseen_once(found: &mut Vec<Problem>) {
    let reported: Vec<String> = found
        .iter()
        .filter(|it| it.severity == Severity::Error || it.code == Some(Code::UnknownField))
        .map(|it| it.field.clone())
        .collect();
    found.retain(|it| it.code != Some(Code::OddLetter) || !reported.contains(&it.field));
}

/// Reports a mistake of a refused policy once: warnings about the same field, or about the field
/// around it, become advice.
pub(crate) fn refused_once(found: &mut Vec<Problem>) {
    let mut index = 0;
    while let Some(warning) = found.get(index) {
        let is_within = |error: &Problem| {
            error.field == warning.field
                || (warning.code == Some(Code::NeverMatches)
                    && error
                        .field
                        .strip_prefix(warning.field.as_str())
                        .is_some_and(|below| below.starts_with(['.', '['])))
        };
        // Two parts of one text are two mistakes, but for steps of one path.
        let is_apart = |error: &Problem| match (error.span, warning.span) {
            (Some(a), Some(b)) => a.end + 1 < b.start || b.end + 1 < a.start,
            _ => false,
        };
        let is_about = |error: &Problem| {
            error.severity == Severity::Error
                && !is_apart(error)
                && error.policy == warning.policy
                && error.origin == warning.origin
                && !error.field.is_empty()
                && is_within(error)
        };
        let at = match warning.severity {
            Severity::Warning => found.iter().position(is_about),
            _ => None,
        };
        let Some(at) = at else {
            index += 1;
            continue;
        };
        let warning = found.remove(index);
        let at = if at > index { at - 1 } else { at };
        if let Some(error) = found.get_mut(at).filter(|error| error.help.is_none()) {
            let is_same = error.field == warning.field;
            error.help = warning.help.or_else(|| is_same.then_some(warning.message));
        }
    }
}

/// Reports a mistake that both the type checking and a lint found in a field once, in the words of
/// the API server and with the advice of the lint.
pub(crate) fn checked_once(checked: &mut [Problem], known: &mut Vec<Problem>) {
    for problem in checked.iter_mut().filter(|it| it.code == Some(Code::TypeCheck)) {
        let is_it = |other: &Problem| {
            other.code == Some(Code::UnknownPath)
                && other.policy == problem.policy
                && other.field == problem.field
        };
        if let Some(at) = known.iter().position(is_it) {
            problem.help = known.remove(at).help;
        }
    }
}
