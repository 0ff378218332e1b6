//! The references in an expression's text: `input.review.object.spec["a"]`, `c.image`.
//!
//! The text is read alike for Rego and CEL, in which names, members and literals look the same.

/// A step of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'t> {
    /// `.name`, `["name"]`, and CEL's `.?name`.
    Member(&'t str),
    /// `[0]`, as it is written.
    Index(&'t str),
    /// `[i]`
    Variable(&'t str),
}

/// A name with the steps behind it, up to the first that the text does not tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ref<'t> {
    pub(crate) root: &'t str,
    pub(crate) steps: Vec<Step<'t>>,
    /// Where it stands in the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// All references, in the order of the text. Literals and comments have none, nor has the name of a
/// function.
pub(crate) fn refs(text: &str) -> Vec<Ref<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    // Whether a dot stands in front: what follows is a member of something.
    let mut is_member = false;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(length) = skipped(rest) {
            at += length;
            is_member = false;
            continue;
        }
        let name = name(rest);
        if name.is_empty() {
            let first = rest.chars().next();
            is_member = match first {
                Some(character) if character.is_whitespace() => is_member,
                first => first == Some('.'),
            };
            at += first.map_or(1, char::len_utf8);
            continue;
        }
        let start = at;
        at += name.len();
        if is_member {
            is_member = false;
            continue;
        }
        let mut steps = Vec::new();
        while let Some((step, length)) = step(text.get(at..).unwrap_or_default()) {
            steps.push(step);
            at += length;
        }
        let is_call = steps.is_empty() && text.get(at..).is_some_and(|it| it.starts_with('('));
        // The rest of a method call: `.size(`.
        if !is_call {
            found.push(Ref { root: name, steps, start, end: at });
        }
    }
    found
}

/// The length of a literal, a comment or a number at the start of a text.
fn skipped(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    match first {
        '"' | '\'' | '`' => Some(literal(text, first)),
        '#' => Some(text.find('\n').unwrap_or(text.len())),
        '/' if text.starts_with("//") => Some(text.find('\n').unwrap_or(text.len())),
        '0'..='9' => {
            let end = text.find(|it: char| !it.is_ascii_alphanumeric() && it != '.');
            Some(end.unwrap_or(text.len()))
        }
        _ => None,
    }
}

/// The length of a literal with its quotes; raw ones have no escapes.
pub(super) fn literal(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if character == '\\' && quote != '`' {
            escaped = true;
        } else if character == quote {
            return at + 1;
        }
    }
    text.len()
}

/// The name at the start of a text; may be empty.
pub(super) fn name(text: &str) -> &str {
    let is_first = text.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
    let end = text.find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
    let name = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    if is_first { name } else { "" }
}

/// The step at the start of a text, and its length.
fn step(text: &str) -> Option<(Step<'_>, usize)> {
    if let Some(rest) = text.strip_prefix(".?").or_else(|| text.strip_prefix('.')) {
        let name = name(rest);
        let behind = rest.get(name.len()..).unwrap_or_default();
        // A name that is called is a function.
        let known = !name.is_empty() && !behind.starts_with('(');
        return known.then(|| (Step::Member(name), text.len() - behind.len()));
    }
    let inner = text.strip_prefix("[?").or_else(|| text.strip_prefix('['))?;
    let (step, length) = match inner.chars().next()? {
        quote @ ('"' | '\'') => {
            let length = literal(inner, quote);
            let name = inner.get(1..length.checked_sub(1)?)?;
            // An escape would have to be read.
            (!name.contains('\\')).then_some((Step::Member(name), length))?
        }
        '0'..='9' => {
            let end = inner.find(|it: char| !it.is_ascii_digit()).unwrap_or(inner.len());
            (Step::Index(inner.get(..end)?), end)
        }
        _ => {
            let name = name(inner);
            (!name.is_empty()).then_some((Step::Variable(name), name.len()))?
        }
    };
    let behind = inner.get(length..)?.strip_prefix(']')?;
    Some((step, text.len() - behind.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let one = |it: &Ref<'_>| {
            let steps = it.steps.iter().map(|step| match step {
                Step::Member(name) => format!(".{name}"),
                Step::Index(number) => format!("[{number}]"),
                Step::Variable(name) => format!("[{name}]"),
            });
            format!("{}{}", it.root, steps.collect::<String>())
        };
        refs(text).iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn references() {
        for (text, expected) in [
            ("not c.securityContext.privileged", "not c.securityContext.privileged"),
            (
                r#"input.review.object.metadata.labels["a.b/c"] == "x.y""#,
                "input.review.object.metadata.labels.a.b/c",
            ),
            (
                "object.spec.containers.all(c, c.image.startsWith('a.b'))",
                "object.spec.containers c c.image",
            ),
            ("object.?spec[?\"a\"].orValue([]).size() > 1", "object.spec.a"),
            ("startswith(c.image, p[i])", "c.image p[i]"),
            ("x[0].y # z.w\n; u", "x[0].y u"),
            ("x[_].y", "x[_].y"),
            ("x[f(y)].z", "x y"),
            ("f(x).y.z", "x"),
            ("1.5e3 + a.b", "a.b"),
            ("\"unclosed a.b", ""),
            ("x[\"unclosed", "x"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
