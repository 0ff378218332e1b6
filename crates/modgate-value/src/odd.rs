//! Invisible letters, and letters that look like another one. People copy them from documents and chats into policies,
//! where they change a name, an operator or a pattern.

/// The letters that are not seen, or that look like a space, and their names.
const UNSEEN: [(char, &str); 14] = [
    ('\u{a0}', "a no-break space"),
    ('\u{ad}', "a soft hyphen"),
    ('\u{2007}', "a figure space"),
    ('\u{200b}', "a zero-width space"),
    ('\u{200c}', "a zero-width non-joiner"),
    ('\u{200d}', "a zero-width joiner"),
    ('\u{200e}', "a left-to-right mark"),
    ('\u{200f}', "a right-to-left mark"),
    ('\u{2028}', "a line separator"),
    ('\u{2029}', "a paragraph separator"),
    ('\u{202f}', "a narrow no-break space"),
    ('\u{2060}', "a word joiner"),
    ('\u{3000}', "an ideographic space"),
    ('\u{feff}', "a byte order mark"),
];

/// Letters of typesetting, and those of code that they look like.
const TYPESET: [(char, &str); 15] = [
    ('“', "\""),
    ('”', "\""),
    ('„', "\""),
    ('‟', "\""),
    ('«', "\""),
    ('»', "\""),
    ('‘', "'"),
    ('’', "'"),
    ('‚', "'"),
    ('–', "-"),
    ('—', "-"),
    ('−', "-"),
    ('…', "..."),
    ('≤', "<="),
    ('≥', ">="),
];

/// The name of a letter that is not seen.
pub fn unseen(letter: char) -> Option<&'static str> {
    UNSEEN.iter().find(|(known, _)| *known == letter).map(|(_, name)| *name)
}

/// The first letter of a text that is not seen: its offset, the letter and its name.
///
/// ```
/// use modgate_value::odd::first_unseen;
///
/// assert_eq!(first_unseen("a\u{a0}b"), Some((1, '\u{a0}', "a no-break space")));
/// assert_eq!(first_unseen("a b"), None);
/// ```
pub fn first_unseen(text: &str) -> Option<(usize, char, &'static str)> {
    text.char_indices().find_map(|(at, letter)| Some((at, letter, unseen(letter)?)))
}

/// A text without the letters that are not seen.
pub fn seen(text: &str) -> String {
    text.chars().filter(|letter| unseen(*letter).is_none()).collect()
}

/// The advice about a letter of code that no language of code has.
///
/// ```
/// use modgate_value::odd::advice;
///
/// assert_eq!(advice('“').as_deref(), Some("`“` is a letter of typesetting; write `\"`"));
/// assert_eq!(
///     advice('\u{200b}').as_deref(),
///     Some("a zero-width space (U+200B) is here, which is not seen; delete it")
/// );
/// assert_eq!(advice('x'), None);
/// ```
pub fn advice(letter: char) -> Option<String> {
    if let Some(name) = unseen(letter) {
        let instead = if name.ends_with("space") && letter != '\u{200b}' {
            "write a plain space"
        } else {
            "delete it"
        };
        return Some(format!(
            "{name} (U+{:04X}) is here, which is not seen; {instead}",
            u32::from(letter)
        ));
    }
    let (_, plain) = TYPESET.iter().find(|(known, _)| *known == letter)?;
    Some(format!("`{letter}` is a letter of typesetting; write `{plain}`"))
}

/// Whether quotation marks of typesetting stand around a text, so that they are a part of it.
pub fn is_typeset_quotation(text: &str) -> bool {
    let is_quote = |letter: Option<char>| {
        let found = letter.and_then(|it| TYPESET.iter().find(|(known, _)| *known == it));
        found.is_some_and(|(_, plain)| matches!(*plain, "\"" | "'"))
    };
    text.chars().nth(1).is_some()
        && is_quote(text.chars().next())
        && is_quote(text.chars().next_back())
}
