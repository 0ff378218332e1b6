//! How much of a text errors quote.

use std::borrow::Cow;

/// The bytes of a text that an error quotes at most.
const QUOTED: usize = 512;

/// The characters of a line that are shown at most.
const LINE: usize = 1_000;

/// How many characters are shown on either side of a place in a line that is too long.
const AROUND: usize = 200;

/// A text as errors quote it: its beginning, if it is long.
pub(crate) fn brief(text: &str) -> Cow<'_, str> {
    if text.len() <= QUOTED {
        return text.into();
    }
    let mut end = QUOTED;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len()).into()
}

/// A text in quotation marks, as Go writes it and as errors quote it.
pub(crate) fn quote(text: &str) -> String {
    modgate_value::gofmt::quote(&brief(text))
}

/// [`quote`] for bytes that need not be UTF-8.
pub(crate) fn quote_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => quote(text),
        Err(_) => modgate_value::gofmt::quote_bytes(bytes.get(..QUOTED).unwrap_or(bytes)),
    }
}

/// The line around the character number `column`, which counts from 1, and that number in what is
/// shown.
pub(crate) fn excerpt(line: &str, column: usize) -> (String, usize) {
    if line.len() <= LINE {
        return (line.to_owned(), column);
    }
    let skipped = column.saturating_sub(AROUND + 1);
    let mut rest = line.chars().skip(skipped);
    let mut shown: String = if skipped > 0 { "…" } else { "" }.to_owned();
    shown.extend(rest.by_ref().take(2 * AROUND));
    if rest.next().is_some() {
        shown.push('…');
    }
    (shown, column - skipped + usize::from(skipped > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(brief("short"), "short");
        let long = "é".repeat(10_000);
        assert!(brief(&long).len() < 600 && brief(&long).ends_with("… (20000 bytes)"));
        assert!(quote(&"\u{1}".repeat(100_000)).len() < 4_000);
    }

    #[test]
    fn the_place_stays() {
        assert_eq!(excerpt("a + b", 3), ("a + b".to_owned(), 3));
        let line = format!("{}!{}", "x".repeat(5_000), "y".repeat(5_000));
        let (shown, column) = excerpt(&line, 5_001);
        assert_eq!(shown.chars().nth(column - 1), Some('!'));
        assert!(shown.chars().count() < 500);
        let (shown, column) = excerpt(&line, 1);
        assert_eq!((shown.chars().next(), column), (Some('x'), 1));
    }
}
