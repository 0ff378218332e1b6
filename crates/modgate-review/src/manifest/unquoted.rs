//! Texts that YAML takes for something else because they stand there without quotes.

use modgate_value::{Value, yaml};

/// No number and no spelling of a boolean is longer.
const LONGEST: usize = 40;

/// The scalar that `file` begins with, if YAML reads it as a boolean or number where `message` wants a
/// text, and what to do about it.
pub(super) fn scalar<'t>(message: &str, file: &'t str) -> Option<(&'t str, String)> {
    let wants_text =
        message.contains("expected a string, got ") || message.contains("must be of type string: ");
    if !wants_text {
        return None;
    }
    let ends = |character: char| character.is_whitespace() || ",]}".contains(character);
    let scalar = file.split(ends).next().filter(|scalar| (1..=LONGEST).contains(&scalar.len()))?;
    let read = match yaml::value(scalar).ok()? {
        value @ Value::Bool(_) if value.to_json() == scalar => "a boolean".to_owned(),
        Value::Bool(value) => value.to_string(),
        value @ Value::Number(_) => match value.to_json() {
            same if same == scalar => "a number".to_owned(),
            other => other,
        },
        _ => return None,
    };
    Some((scalar, format!("put it in quotes; YAML reads `{scalar}` as {read}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do() {
        let wanted = "expected a string, got the boolean `true`";
        let of_schema = "a in body must be of type string: \"boolean\"";
        for (message, file, expected) in [
            (wanted, "y\nb: c", Some(("y", "true"))),
            (wanted, "no", Some(("no", "false"))),
            (wanted, "On # a switch", Some(("On", "true"))),
            (wanted, "off, b]}", Some(("off", "false"))),
            (wanted, "true", Some(("true", "a boolean"))),
            (wanted, "010}", Some(("010", "8"))),
            (wanted, "8080\r\n", Some(("8080", "a number"))),
            (wanted, "1.50", Some(("1.50", "1.5"))),
            (of_schema, "yes", Some(("yes", "true"))),
            (wanted, "'y'", None),
            (wanted, "\"8080\"", None),
            (wanted, "a: y", None),
            (wanted, "!!bool y", None),
            (wanted, "", None),
            (wanted, "{y: 1}", None),
            ("expected a boolean, got the string `y`", "y", None),
        ] {
            let expected = expected.map(|(scalar, read)| {
                (scalar, format!("put it in quotes; YAML reads `{scalar}` as {read}"))
            });
            assert_eq!(scalar(message, file), expected, "{message}: {file}");
        }
        assert_eq!(scalar(wanted, &"1".repeat(100_000)), None);
    }
}
