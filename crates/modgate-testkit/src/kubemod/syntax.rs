//! Where modgate's expressions accept more than KubeMod's, said as the expression
//! KubeMod would accept for the same thing.

/// The text with a space behind every operator that is glued to what follows it; nothing if
/// there is none.
pub(super) fn unglued(text: &str) -> Option<String> {
    rewritten(text, Rewrite::Operators)
}

/// The text with every single-quoted string of other than one character in double quotes;
/// nothing if there is none.
pub(super) fn requoted(text: &str) -> Option<String> {
    rewritten(text, Rewrite::Quotes)
}

/// Both.
pub(super) fn strict(text: &str) -> Option<String> {
    match (requoted(text), unglued(text)) {
        (Some(text), _) => Some(unglued(&text).unwrap_or(text)),
        (None, unglued) => unglued,
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rewrite {
    Operators,
    Quotes,
}

/// Infix operators, the longer ones first.
const INFIX: &[&str] = &[
    "**", "<<", ">>", "==", "!=", "<=", ">=", "=~", "!~", "&&", "||", "??", "*", "/", "%", "+",
    "-", "&", "|", "^", "<", ">", "?",
];

fn is_operator(character: char) -> bool {
    "!%&*+-/<=>?^|~".contains(character)
}

fn rewritten(text: &str, rewrite: Rewrite) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 8);
    let mut changed = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' | '\'' => quoted(rest, first),
            '`' => rest.get(1..).and_then(|tail| tail.find('`')).map_or(rest.len(), |at| at + 2),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            // Not an operator: the mark of a filter.
            '?' if out.trim_end().ends_with('[') => 1,
            first if is_operator(first) => {
                rest.len()
                    - rest.trim_start_matches(|c| is_operator(c) || c == 'i' || c == 'n').len()
            }
            first => first.len_utf8(),
        };
        let (token, tail) = rest.split_at_checked(length)?;
        rest = tail;
        match rewrite {
            Rewrite::Quotes if first == '\'' && is_closed(token) && !is_one_character(token) => {
                changed = true;
                out.push_str(&in_double_quotes(token));
            }
            Rewrite::Operators if is_operator(first) && !INFIX.contains(&token) => {
                match INFIX.iter().find_map(|infix| Some((*infix, token.strip_prefix(infix)?))) {
                    Some((infix, glued)) if length > 1 && !token.starts_with("//") => {
                        changed = true;
                        out.push_str(infix);
                        out.push(' ');
                        out.push_str(glued);
                    }
                    _ => out.push_str(token),
                }
            }
            _ => out.push_str(token),
        }
    }
    changed.then_some(out)
}

/// The length of the string literal that `text` starts with.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a string literal ends with its quote rather than with the expression.
fn is_closed(literal: &str) -> bool {
    let inner = literal.strip_suffix('\'').unwrap_or_default();
    let backslashes = inner.len() - inner.trim_end_matches('\\').len();
    literal.len() > 1 && literal.ends_with('\'') && backslashes.is_multiple_of(2)
}

fn is_one_character(literal: &str) -> bool {
    let inner = literal.trim_matches('\'');
    inner.chars().count() == 1 || (inner.starts_with('\\') && inner.len() == 2)
}

fn in_double_quotes(literal: &str) -> String {
    let inner = literal.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    let inner = inner.unwrap_or(literal).replace("\\'", "'").replace('"', "\\\"");
    format!("\"{inner}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rewritten() {
        for (text, expected) in [
            ("$.n==-3", Some("$.n== -3")),
            ("!isDefined($.x)&&!isDefined($.y)", Some("!isDefined($.x)&& !isDefined($.y)")),
            ("$.n==nil", Some("$.n== nil")),
            ("$.t?-1:2", Some("$.t? -1:2")),
            ("$['kind']", Some("$[\"kind\"]")),
            ("$['n']", None),
            ("$.a[?!isEmpty(@.x)]", None),
            ("$.a[*].b == \"==-\"", None),
            ("$.n == -3 // ==-", None),
            ("$.a == 'bc", None),
            ("$.a == 'bc\\'", None),
            ("'a\"b'==-1", Some("\"a\\\"b\"== -1")),
        ] {
            assert_eq!(strict(text).as_deref(), expected, "{text}");
        }
    }
}
