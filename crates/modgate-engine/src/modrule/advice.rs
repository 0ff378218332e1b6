//! Advice about a ModRule that does not compile: help for the mistakes that most authors make.

use modgate_value::{Value, diag::Span, near, odd};

/// Words of other languages, and what `select` writes for them.
const WORDS: [(&str, &str); 3] = [("and", "&&"), ("or", "||"), ("not", "!")];

/// The beginnings of parts at fault, and what to write.
const SIGNS: [(&str, &str); 13] = [
    ("\\", "a name with `.` or `/` stands in brackets: `$.metadata.labels[\"a.b/c\"]`"),
    ("===", "compare with `==`"),
    ("].", "all elements are `[*]`"),
    ("]", "all elements are `[*]`"),
    (".", "a path begins with `$`: `$.spec`"),
    (";", "an item has one expression, without `;`"),
    ("/", "a pattern is a text in quotes: `=~ \"^a\"`"),
    ("matches ", "a pattern is matched by `=~`: `$.a =~ \"^a\"`"),
    ("like ", "a pattern is matched by `=~`: `$.a =~ \"^a\"`"),
    ("contains ", "a part of a text is matched by `=~`: `$.a =~ \"b\"`"),
    ("is ", "compare with `==`"),
    ("equals ", "compare with `==`"),
    ("`", "texts stand in double quotes"),
];

/// The word of another language that a `select` expression has for an operator.
pub(super) fn word(text: &str) -> Option<Span> {
    let is_part = |letter: char| letter.is_alphanumeric() || "_.$@\"'".contains(letter);
    WORDS.into_iter().find_map(|(word, _)| {
        let (at, _) = text.match_indices(word).find(|(at, _)| {
            let before = text.get(..*at).and_then(|text| text.chars().next_back());
            let after = text.get(at + word.len()..).and_then(|text| text.chars().next());
            !before.is_some_and(is_part) && !after.is_some_and(is_part)
        })?;
        Some(Span::new(at, at + word.len()))
    })
}

/// Advice about a `select` expression that does not parse at `span`: the part at fault, where it is a word of another
/// language, and what to do.
pub fn select_advice(text: &str, span: Span) -> (Option<Span>, Option<String>) {
    (word(text), select(text, span))
}

/// Advice about a `select` expression that does not parse at `span`.
pub(super) fn select(text: &str, span: Span) -> Option<String> {
    let written = text.get(span.start..).unwrap_or_default();
    if let Some(advice) = written.chars().next().and_then(odd::advice) {
        return Some(advice);
    }
    if text.trim().is_empty() {
        return Some("the expression is empty: write a path, such as `$.spec`".to_owned());
    }
    if text.trim_start().starts_with("if ") {
        return Some("an item is a condition by itself, without `if`".to_owned());
    }
    if text.matches('"').count() % 2 == 1 {
        return Some("a quote is missing at the end of the text".to_owned());
    }
    let is_bracket =
        written.starts_with(']') && text.matches('[').count() != text.matches(']').count();
    let sign = SIGNS.iter().find(|(sign, _)| written.starts_with(sign) && !is_bracket);
    if let Some((_, advice)) = sign {
        return Some((*advice).to_owned());
    }
    if written.starts_with('=') && !written.starts_with("==") {
        return Some("compare with `==`".to_owned());
    }
    let written = word(text).and_then(|span| text.get(span.start..span.end));
    if let Some((word, sign)) = WORDS.into_iter().find(|(word, _)| written == Some(word)) {
        return Some(format!("`{word}` is written `{sign}`"));
    }
    let count = |bracket: char| text.matches(bracket).count();
    let brackets = [('(', ')'), ('[', ']'), ('{', '}')];
    let (open, close) = brackets.into_iter().find(|(open, close)| count(*open) != count(*close))?;
    Some(match count(open) > count(close) {
        true => format!("a `{close}` is missing"),
        false => format!("there is a `{close}` too many"),
    })
}

/// Functions of other languages, and those of templates that do the same.
const FUNCTIONS: [(&[&str], &str); 8] = [
    (&["downcase", "lowercase", "tolower", "toLower", "toLowerCase"], "lower"),
    (&["uppercase", "upcase", "toupper", "toUpper", "toUpperCase"], "upper"),
    (&["capitalize", "capitalise"], "title"),
    (&["strip"], "trim"),
    (&["startswith", "startsWith", "starts_with"], "hasPrefix"),
    (&["endswith", "endsWith", "ends_with"], "hasSuffix"),
    (&["length", "size", "count"], "len"),
    (&["substring"], "substr"),
];

/// Advice about a template that does not parse.
pub(super) fn template(message: &str) -> Option<String> {
    if let Some((_, rest)) = message.split_once("function \"") {
        let name = rest.split('"').next().unwrap_or_default();
        let other = FUNCTIONS.iter().find(|(names, _)| names.contains(&name));
        return match other {
            Some((_, meant)) => Some(format!("did you mean `{meant}`?")),
            None => near::did_you_mean(name, modgate_template::function_names()),
        };
    }
    if message.ends_with("unclosed action") {
        return Some("a `}}` is missing".to_owned());
    }
    message
        .ends_with("unexpected EOF")
        .then(|| "an `{{ if }}`, `{{ range }}` or `{{ with }}` needs an `{{ end }}`".to_owned())
}

/// Advice about a member of the wrong type.
pub(crate) fn decoding(object: &Value, path: &str, message: &str) -> Option<String> {
    let value = object.pointer(&crate::policy::pointer(path))?;
    let name = path.rsplit('.').next().unwrap_or(path);
    match value {
        Value::Array(_) if name == "matchValue" => {
            Some("several texts go into `matchValues`".to_owned())
        }
        Value::Object(_) | Value::Array(_)
            if name == "value" && message.starts_with("expected a string") =>
        {
            let json: String = value.to_json().chars().take(60).collect();
            Some(format!("write it as a text: `'{json}'`"))
        }
        _ => None,
    }
}
