//! Advice about a text that is no YAML.

use modgate_value::yaml;

/// The message without the line that Go counts, which may be another one than where the mark is.
pub(super) fn message(error: &yaml::Error) -> String {
    let Some(rest) = error.message.strip_prefix("yaml: line ") else {
        return error.message.clone();
    };
    match rest.split_once(": ") {
        Some((line, what)) if line.bytes().all(|digit| digit.is_ascii_digit()) => {
            format!("not YAML: {what}")
        }
        _ => error.message.clone(),
    }
}

/// The advice, by the message and the text at the mark.
pub(super) fn help(error: &yaml::Error, text: &str) -> Option<String> {
    let at = error.position.map_or(0, |position| position.offset);
    let (before, after) = (text.get(..at).unwrap_or(text), text.get(at..).unwrap_or_default());
    let line = before.rsplit('\n').next().unwrap_or_default();
    let message = error.message.as_str();
    let is_template =
        |part: &str| part.contains("{{") && !part.contains("'{{") && !part.contains("\"{{");
    // What follows `*` or `&` is the name of another value, and no name begins with these.
    let first = match (line.chars().next_back(), after.chars().next()) {
        (Some(last), _) if message.contains("alphabetic or numeric") => Some(last),
        (_, next) if message.contains("unknown anchor") => next,
        (_, next) if message.contains("cannot start any token") => next,
        _ => None,
    };
    if let Some(first) = first.filter(|first| "*&@`%".contains(*first)) {
        return Some(format!("put a text that begins with `{first}` in quotes"));
    }
    let advice = if message.contains("map[interface {}]interface {}") || is_template(line) {
        "this looks like a template of Helm: review what `helm template` prints"
    } else if message.contains("cannot start any token")
        && (after.starts_with('\t') || line.contains('\t'))
        || message.contains("found a tab character")
    {
        "YAML takes no tab for indentation; use spaces"
    } else if message.contains("unexpected end of stream") {
        "the quote that opens this text is not closed"
    } else if message.contains("did not find expected key") && line.contains(['"', '\'']) {
        "a text with quotes inside needs the other quotes around it"
    } else if message.contains("expected node content") {
        "a value or a closing bracket is missing"
    } else if message.contains("did not find expected ','") {
        "a comma or a closing bracket is missing"
    } else if message.contains("did not find expected") {
        "the indentation fits no line above"
    } else if message.contains("mapping values are not allowed") {
        "put a text with `: ` in quotes, or check the indentation"
    } else if message.contains("could not find expected ':'") {
        "a `:` is missing, or the indentation fits no line above"
    } else {
        return None;
    };
    Some(advice.to_owned())
}

/// Where a quote is opened that a later line closes by mistake: the first line with an odd number of
/// the quote that stands in front of the mark.
pub(super) fn unclosed_quote(error: &yaml::Error, text: &str) -> Option<usize> {
    if !error.message.contains("did not find expected key") {
        return None;
    }
    let before = text.get(..error.position?.offset)?;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let quote = before.trim_end().chars().next_back().filter(|last| ['\'', '"'].contains(last))?;
    let mut offset = 0;
    for line in before.get(..start)?.split_inclusive('\n') {
        if line.matches(quote).count() % 2 == 1 {
            return Some(offset + line.find(quote)?);
        }
        offset += line.len();
    }
    None
}

/// The colon of a member that is written `key:value`, which makes it one text with the line behind it.
pub(super) fn missing_space(error: &yaml::Error, text: &str) -> Option<usize> {
    let is_it = ["mapping values are not allowed", "could not find expected ':'"];
    if !is_it.iter().any(|message| error.message.contains(message)) {
        return None;
    }
    let at = error.position?.offset.min(text.len());
    let end = text.get(at..)?.find('\n').map_or(text.len(), |end| at + end);
    let mut offset = end;
    let mut found = None;
    for line in text.get(..end)?.rsplit('\n').take(MAX_LINES) {
        let start = offset - line.len();
        match colon(line) {
            Some(within) => found = Some(start + within),
            // The line at the mark may be the one behind.
            None if found.is_some() || offset != end => break,
            None => {}
        }
        offset = start.saturating_sub(1);
    }
    found
}

/// How many lines one text may have been made of.
const MAX_LINES: usize = 20;

/// Where `key:value` has its colon.
fn colon(line: &str) -> Option<usize> {
    let body = line.trim_start_matches([' ', '-']);
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let name = body.find(|letter| !is_part(letter))?;
    let rest = body.get(name..)?.strip_prefix(':')?;
    let is_value = rest.starts_with(|first: char| !first.is_whitespace() && first != '/');
    (name > 0 && is_value).then(|| line.len() - body.len() + name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colons() {
        for (line, expected) in [
            ("enforcementAction:deny", Some(17)),
            ("  - name:x", Some(8)),
            ("    app.kubernetes.io/name:x", Some(26)),
            ("a: b", None),
            ("a:", None),
            ("https://example.com", None),
            ("- image: a:1", None),
            ("\"a\":1", None),
            ("", None),
        ] {
            assert_eq!(colon(line), expected, "{line}");
        }
    }

    #[test]
    fn spaces_behind_colons() {
        for (text, expected) in [
            ("spec:\n  action:deny\n  match:\n    a: b\n", Some("action")),
            ("a: b\nc:d\n", Some("c")),
            ("a: b\nc:d\ne:f\ng: h\n", Some("c")),
            ("a: b: c\n", None),
            ("a: 'b\n", None),
        ] {
            let error = yaml::value(text).expect_err(text);
            let at = missing_space(&error, text).map(|at| {
                let before = text.get(..at).unwrap_or_default();
                before.rsplit(['\n', ' ']).next().unwrap_or_default()
            });
            assert_eq!(at, expected, "{text}");
        }
    }
}
