//! From a place in the text of a scalar to the place in its file.

/// The offset in `file` of the byte `at` of a scalar's text. The scalar starts at `start`.
///
/// YAML only changes the white space of a scalar and its escapes, so the characters in front of the
/// place are counted. Exact for literal, folded, plain and quoted scalars.
pub fn offset_within(file: &str, start: usize, text: &str, at: usize) -> usize {
    let before = text.get(..text.floor_char_boundary(at)).unwrap_or_default();
    let mut left = before.chars().filter(|it| !it.is_whitespace()).count();
    let rest = file.get(start..).unwrap_or_default();
    let (style, body) = match rest.chars().next() {
        Some('|' | '>') => (Style::Plain, rest.find('\n').map_or(rest.len(), |end| end + 1)),
        Some('"') => (Style::Double, 1),
        Some('\'') => (Style::Single, 1),
        _ => (Style::Plain, 0),
    };
    let mut offset = start + body;
    let mut rest = rest.get(body..).unwrap_or_default();
    loop {
        let (length, is_space) = token(rest, style);
        if length == 0 || (left == 0 && !is_space) {
            return offset;
        }
        left -= usize::from(!is_space);
        offset += length;
        rest = rest.get(length..).unwrap_or_default();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Plain,
    Double,
    Single,
}

/// How many bytes the next character of the text takes in the file, and whether it is white space;
/// 0 at the end.
fn token(rest: &str, style: Style) -> (usize, bool) {
    let mut chars = rest.chars();
    let Some(first) = chars.next() else { return (0, false) };
    match (style, first) {
        (Style::Double, '\\') => {
            let Some(escaped) = chars.next() else { return (0, false) };
            let digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            let is_space =
                escaped.is_whitespace() || matches!(escaped, 'n' | 't' | 'r' | 'v' | 'f');
            (1 + escaped.len_utf8() + digits, is_space)
        }
        (Style::Single, '\'') if rest.starts_with("''") => (2, false),
        _ => (first.len_utf8(), first.is_whitespace()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_every_style_of_scalar() {
        for (yaml, text, word) in [
            ("a: |\n  package x\n\n  y {\n    z\n  }\n", "package x\n\ny {\n  z\n}\n", "z"),
            ("a: >-\n  one\n  two &&\n  three\n", "one two && three", "three"),
            ("a: one\n  two\n", "one two", "two"),
            ("a: \"q \\\" \\n w\"\n", "q \" \n w", "w"),
            ("a: \"\\u0041 b\"\n", "A b", "b"),
            ("a: 'it''s w'\n", "it's w", "w"),
            ("a: |- # é\n  é = w\n", "é = w", "w"),
        ] {
            let at = text.rfind(word).expect(word);
            let offset = offset_within(yaml, 3, text, at);
            assert!(yaml[offset..].starts_with(word), "{yaml}: {}", &yaml[offset..]);
        }
        assert_eq!(offset_within("a: x", 3, "longer than the file", 12), 4);
    }
}
