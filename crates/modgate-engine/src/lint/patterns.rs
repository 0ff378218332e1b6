//! Patterns where a text is compared letter by letter.

use super::reads::Path;

/// The signs of regular expressions that neither names nor images have.
const SIGNS: [char; 9] = ['^', '$', '|', '[', ']', '(', ')', '\\', '?'];

/// The message and the advice about a pattern that is compared with texts that have no sign of patterns.
pub(super) fn no_pattern(
    compared: Compared,
    text: &str,
    paths: &[Path<'_>],
    spelled: Spelled,
) -> Option<(String, String)> {
    if paths.is_empty() || !paths.iter().all(Path::has_no_sign) {
        return None;
    }
    let message = |sign: &str| {
        format!("`{sign}` stands for itself here: the text is compared letter by letter")
    };
    if text.contains(".*") {
        return Some((message(".*"), spelled.matched(text)));
    }
    if let Some(sign) = text.chars().find(|letter| SIGNS.contains(letter)) {
        return Some((message(&sign.to_string()), spelled.matched(text)));
    }
    let inner = text.trim_matches('*');
    if inner.is_empty() || !text.contains('*') {
        return None;
    }
    let advice = match (text.starts_with('*'), text.ends_with('*')) {
        _ if inner.contains('*') => spelled.matched(&text.replace('*', ".*")),
        _ if compared != Compared::Whole => format!("leave the `*` out: `{inner}`"),
        (true, true) => spelled.call(Compared::Part, inner),
        (true, false) => spelled.call(Compared::End, inner),
        _ => spelled.call(Compared::Start, inner),
    };
    Some((message("*"), advice))
}

/// The part of a text that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// Its beginning.
    Start,
    /// Its end.
    End,
    /// Any part.
    Part,
    /// All of it.
    Whole,
}

/// How a language writes its functions for texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spelled {
    /// `startswith(x, "a")`
    Rego,
    /// `x.startsWith("a")`
    Cel,
}

impl Spelled {
    fn call(self, compared: Compared, text: &str) -> String {
        match (self, compared) {
            (Self::Rego, Compared::Start) => format!("write `startswith(x, \"{text}\")`"),
            (Self::Rego, Compared::End) => format!("write `endswith(x, \"{text}\")`"),
            (Self::Rego, _) => format!("write `contains(x, \"{text}\")`"),
            (Self::Cel, Compared::Start) => format!("write `x.startsWith(\"{text}\")`"),
            (Self::Cel, Compared::End) => format!("write `x.endsWith(\"{text}\")`"),
            (Self::Cel, _) => format!("write `x.contains(\"{text}\")`"),
        }
    }

    fn matched(self, pattern: &str) -> String {
        match self {
            Self::Rego => format!("write `regex.match(\"{pattern}\", x)`"),
            Self::Cel => format!("write `x.matches(\"{pattern}\")`"),
        }
    }
}
