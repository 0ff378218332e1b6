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
