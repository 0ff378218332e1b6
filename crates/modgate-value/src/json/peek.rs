//! A look at the front of a text that need not be JSON to its end.

/// The text at `path`, each key applied to an object, in what may be cut off, broken or nested
/// without limit.
///
/// Reads no further than to the end of that text, in one pass without allocating, so it answers
/// where [`parse`](super::parse) cannot: an API server writes an AdmissionReview's `apiVersion` and
/// `request.uid` in front of the objects. The first member of a name counts. `None` where the text
/// is missing, is longer than `max_length` bytes, contains escapes or is not UTF-8, and where a key
/// before it contains escapes.
pub fn peek_text<'t>(text: &'t [u8], path: &[&str], max_length: usize) -> Option<&'t str> {
    let mut reader = Reader { rest: text };
    let (last, parents) = path.split_last()?;
    for key in parents {
        reader.enter(key)?;
    }
    reader.enter(last)?;
    let found = reader.string()?;
    (found.len() <= max_length && !found.contains(&b'\\'))
        .then(|| std::str::from_utf8(found).ok())
        .flatten()
}

struct Reader<'t> {
    rest: &'t [u8],
}

impl<'t> Reader<'t> {
    /// Goes to the value of the member `key` of the object that begins here.
    fn enter(&mut self, key: &str) -> Option<()> {
        self.take(b'{')?;
        loop {
            let name = self.string()?;
            self.take(b':')?;
            if name == key.as_bytes() {
                return Some(());
            }
            if name.contains(&b'\\') {
                return None;
            }
            self.skip_value()?;
            self.take(b',')?;
        }
    }

    /// Passes over one value; what it is made of is not checked.
    fn skip_value(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'[' | b'{' => {
                    depth += 1;
                    self.advance(1);
                }
                b']' | b'}' => {
                    depth = depth.checked_sub(1)?;
                    self.advance(1);
                }
                b',' | b':' if depth > 0 => {
                    self.advance(1);
                    continue;
                }
                b',' | b':' => return None,
                _ => {
                    let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
                    match self.rest.iter().take_while(|byte| word(byte)).count() {
                        0 => return None,
                        length => self.advance(length),
                    }
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// The text between the quotes of a string, escapes as written.
    fn string(&mut self) -> Option<&'t [u8]> {
        self.take(b'"')?;
        let mut length = 0;
        loop {
            length += self.rest.get(length..)?.iter().position(|b| matches!(b, b'"' | b'\\'))?;
            if self.rest.get(length) == Some(&b'"') {
                break;
            }
            length += 2;
        }
        let text = self.rest.get(..length)?;
        self.advance(length + 1);
        Some(text)
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.advance(1))
    }

    /// The next byte that is no space.
    fn peek(&mut self) -> Option<u8> {
        let spaces = self.rest.iter().take_while(|b| b" \t\r\n".contains(b)).count();
        self.advance(spaces);
        self.rest.first().copied()
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRONT: &str = r#"{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "705ab4f5", "kind": {"group": "", "kind": "Pod"}, "object": "#;

    fn uid(text: &str) -> Option<&str> {
        peek_text(text.as_bytes(), &["request", "uid"], 64)
    }

    #[test]
    fn whatever_follows_does_not_matter() {
        let deep = "[".repeat(1 << 20);
        for rest in ["", "{", "nonsense \u{1}", "{}}} {", deep.as_str()] {
            let body = format!("{FRONT}{rest}");
            assert_eq!(uid(&body), Some("705ab4f5"));
            let version = peek_text(body.as_bytes(), &["apiVersion"], 64);
            assert_eq!(version, Some("admission.k8s.io/v1"));
        }
    }

    #[test]
    fn only_the_path_counts() {
        for (text, expected) in [
            (r#"{"uid": "a", "request": {"object": {"uid": "b"}, "uid": "c"}}"#, Some("c")),
            (r#"{"x": [{"request": {"uid": "a"}}, "}", -1.5e3], "request": {"uid": "b"#, None),
            (r#"{"x": [1, {"y": "\\"}, true], "request": {"uid": "b""#, Some("b")),
            (r#"{"x": "\"request\": {", "request": {"uid": "b"}}"#, Some("b")),
            (r#"{"request": {"object": {"uid": "b"}}}"#, None),
            (r#"{"request": {"uid": "a\u0062"}}"#, None),
            (r#"{"request": {"uid": 7}}"#, None),
            (r#"{"request": {"\u0075id": "a", "uid": "b"}}"#, None),
            (r#"{"a":]"#, None),
            (r#"{"a": 1 "request": {"uid": "b"}}"#, None),
            (r#"["request"]"#, None),
            ("", None),
        ] {
            assert_eq!(uid(text), expected, "{text}");
        }
        let long = format!(r#"{{"request": {{"uid": "{}"}}}}"#, "a".repeat(65));
        assert_eq!(uid(&long), None);
    }
}
