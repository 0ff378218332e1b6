//! Path templates: a pointer whose `#N` stand for captured keys (4.2).

use std::fmt::Write as _;

use modgate_select::Key;
use modgate_value::pointer;

/// A `path` read once: literal text and placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathTemplate {
    parts: Vec<Part>,
    /// Whether the last segment is exactly one placeholder, which decides the order of `add`s
    /// and which one.
    last: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    Key(usize),
}

/// A placeholder beyond what was captured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to generate Patch path from path template \"{template}\": \
     generated value \"{generated}\" "
)]
pub struct PathError {
    /// The template.
    pub template: String,
    /// The rendered path, with `#(BADINDEX)` in place of missing keys.
    pub generated: String,
}

impl PathTemplate {
    /// The path of an operation without `select`: `#` is an ordinary character.
    pub fn literal(path: &str) -> Self {
        Self { parts: vec![Part::Literal(path.into())], last: None }
    }

    /// The path of an operation with `select`: `#` and digits are a placeholder.
    pub fn parse(path: &str) -> Self {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = path;
        while let Some((before, after)) = rest.split_once('#') {
            literal.push_str(before);
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = after.split_at(digits);
            if number.is_empty() {
                literal.push('#');
            } else {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal).into()));
                }
                // A number too large to read is beyond any captured key all the same.
                parts.push(Part::Key(number.parse().unwrap_or(usize::MAX)));
            }
            rest = tail;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        let last = match parts.as_slice() {
            [.., Part::Literal(before), Part::Key(key)] if before.ends_with('/') => Some(*key),
            _ => None,
        };
        parts.shrink_to_fit();
        Self { parts, last }
    }

    /// The numbers of its placeholders.
    pub(super) fn placeholders(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Key(number) => Some(*number),
        })
    }

    /// The placeholder that is the whole last segment, if that is what it is.
    pub(super) fn last_key(&self) -> Option<usize> {
        self.last
    }

    /// The path with its placeholders filled in; keys are escaped as pointers require.
    ///
    /// # Errors
    ///
    /// When a placeholder names a key that was not captured.
    pub fn expand(&self, keys: &[Key]) -> Result<String, PathError> {
        let literals = self.parts.iter().map(|part| match part {
            Part::Literal(text) => text.len(),
            // Most keys are positions in lists.
            Part::Key(_) => 4,
        });
        let mut out = String::with_capacity(literals.sum());
        let mut complete = true;
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Key(index) => match keys.get(*index) {
                    Some(Key::Index(position)) => {
                        let _ = write!(out, "{position}");
                    }
                    Some(Key::Name(name)) => out.push_str(&pointer::escape(name)),
                    None => {
                        complete = false;
                        out.push_str("#(BADINDEX)");
                    }
                },
            }
        }
        if complete {
            Ok(out)
        } else {
            Err(PathError { template: self.to_string(), generated: out })
        }
    }
}

impl std::fmt::Display for PathTemplate {
    /// The path as it was written, placeholders in canonical form.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Literal(text) => f.write_str(text),
            Part::Key(index) => write!(f, "#{index}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, keys: &[&str], expected: &str) {
        let keys: Vec<Key> = keys
            .iter()
            .map(|key| key.parse().map_or_else(|_| Key::Name((*key).into()), Key::Index))
            .collect();
        let expanded = PathTemplate::parse(path)
            .expand(&keys)
            .unwrap_or_else(|error| format!("error: {}", error.generated));
        assert_eq!(expanded, expected);
    }

    #[test]
    fn placeholders() {
        let abc = ["a", "b", "c"];
        check("/#0", &["12"], "/12");
        check("/hello/#2/whatever/#1/foo/#2/#0", &abc, "/hello/c/whatever/b/foo/c/a");
        check("/x/#20", &abc, "error: /x/#(BADINDEX)");
        check("/x/#99999999999999999999999", &abc, "error: /x/#(BADINDEX)");
        check("/hello/#1hello/w", &["a", "XXX", "c"], "/hello/XXXhello/w");
        check("/hello/#hello/w#", &["a"], "/hello/#hello/w#");
        check("/#0#0", &["a"], "/aa");
        check("/a%vb/#0", &["x"], "/a%vb/x");
        check("", &[], "");
    }

    #[test]
    fn keys_are_escaped_and_kept_as_they_are() {
        check("/l/#0", &["app.kubernetes.io/name"], "/l/app.kubernetes.io~1name");
        let key = [Key::Name("007".into())];
        assert_eq!(PathTemplate::parse("/l/#0").expand(&key).as_deref(), Ok("/l/007"));
    }

    #[test]
    fn the_last_placeholder() {
        for (path, last) in [
            ("/a/#0", Some(0)),
            ("/a/#0/b", None),
            ("/a/x#0", None),
            ("/a/#0#1", None),
            ("#0", None),
        ] {
            assert_eq!(PathTemplate::parse(path).last_key(), last, "{path}");
        }
        assert_eq!(PathTemplate::literal("/a/#0").last_key(), None);
    }
}
