//! Comparisons whose result is always the same: values of other types, texts that names cannot have, patterns in slashes.

use modgate_select::Read;
use modgate_value::{
    Value,
    regex::{self, Slashes},
};

use super::{Lints, steps_of};
use crate::{
    Code,
    lint::places::{self, Objects, Step},
    modrule::compile::{Criterion, Test},
    policy::pointer,
};

/// Values in a `select` that have another type than the field. A number and the text of a number are equal.
pub(super) fn types(
    objects: &Objects<'_>,
    reads: &[Read],
    criterion: &Criterion,
    lints: &mut Lints<'_>,
) {
    let field = format!("spec.match[{}].select", criterion.index);
    for read in reads {
        let steps = steps_of(read);
        for (value, span, is_order) in &read.literals {
            let Some(expected) = objects.never_is(&steps, value) else { continue };
            let is_number = match value {
                Value::Number(_) => true,
                Value::String(text) => text.parse::<f64>().is_ok(),
                _ => false,
            };
            let (message, help) = match expected.as_str() {
                "true or false" | "a list" | "an object" => {
                    (places::never_equal(&expected, value), places::as_type(&expected, value))
                }
                _ if objects.is_quantity(&steps) && is_number && *is_order => (
                    "the field is a quantity, which is compared as a text".to_owned(),
                    Some("`matchRegex` tests how it is written, such as `^[0-9]+Mi$`".to_owned()),
                ),
                _ if is_number || objects.is_quantity(&steps) => continue,
                _ => (places::never_equal(&expected, value), places::as_type(&expected, value)),
            };
            lints.push(Code::NeverMatches, field.clone(), message, help);
            lints.mark_span(criterion.select.text(), *span);
        }
    }
}

/// Texts that no name has, and patterns in slashes.
pub(super) fn texts(reads: &[Read], criterion: &Criterion, lints: &mut Lints<'_>) {
    let ([read], false) = (reads, criterion.select.is_condition()) else { return };
    let steps = steps_of(read);
    let item = format!("spec.match[{}]", criterion.index);
    let written = |lints: &Lints<'_>, member: &str| {
        lints.source.object.pointer(&pointer(&format!("{item}.{member}"))).cloned()
    };
    match &criterion.test {
        Test::Regex(_) => {
            let Some(Value::String(pattern)) = written(lints, "matchRegex") else { return };
            let is_wrong = match regex::slashes(&pattern) {
                Slashes::Delimiters => true,
                Slashes::Perhaps => places::has_no_slash(&steps),
                Slashes::None => false,
            };
            if is_wrong {
                let help = Some(regex::without_slashes(&pattern));
                let field = format!("{item}.matchRegex");
                lints.push(Code::BadPattern, field, regex::IN_SLASHES.to_owned(), help);
            }
        }
        Test::Value(text) => name(&steps, text, format!("{item}.matchValue"), lints),
        Test::OneOf(_) => {
            let Some(Value::Array(list)) = written(lints, "matchValues") else { return };
            for (at, text) in list.iter().enumerate() {
                let Some(text) = text.as_str() else { continue };
                name(&steps, text, format!("{item}.matchValues[{at}]"), lints);
            }
        }
        Test::None => {}
    }
}

/// A text that no kind, name or namespace can be.
fn name(steps: &[Step<'_>], text: &str, field: String, lints: &mut Lints<'_>) {
    let what = match steps {
        [Step::Member("kind")] => "kind",
        [Step::Member("metadata"), Step::Member("name")] => "name",
        [Step::Member("metadata"), Step::Member("namespace")] => "namespace",
        _ => return,
    };
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || ".:-_".contains(letter);
    let Some(odd) = text.chars().find(|letter| !is_part(*letter)) else { return };
    let help = match odd {
        ',' | ' ' if text.contains(',') => "write `matchValues`, a list",
        ' ' => "delete the space",
        '*' | '^' | '$' | '|' | '(' | '[' | '?' | '+' | '/' => "patterns go into `matchRegex`",
        // Letters that are not seen have a warning of their own.
        _ => return,
    };
    let message =
        format!("no {what} has `{odd}`, and `matchValue` is no pattern, so this never matches");
    lints.push(Code::NeverMatches, field, message, Some(help.to_owned()));
}
