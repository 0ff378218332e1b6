//! A document that is opened, one container at a time, only where it is changed.

use modgate_value::{Budget, Exhausted, Object, Str, Value, json};

/// A JSON document under change.
#[derive(Debug, Clone)]
pub enum Tree<'t> {
    /// Untouched, shared with the original.
    Value(Value),
    /// Untouched, as text; must be valid JSON.
    Text(&'t str),
    /// An opened object, sorted by key, and the editor that opened it last.
    Object(Vec<(Str, Tree<'t>)>, Editor),
    /// An opened array, and the editor that opened it last.
    Array(Vec<Tree<'t>>, Editor),
}

/// The number of one editor of a tree that several change one after the other. Each pays for the containers that it
/// opens as if no editor had opened them before: the cost of an editor does not depend on the others.
pub(crate) type Editor = u32;

/// The editor of a tree that has only one.
pub(super) const ONLY: Editor = 0;

/// Operations on a node that do not open it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    Scalar,
    Object,
    Array,
}

/// An opened container.
pub(super) enum Opened<'n, 't> {
    Object(&'n mut Vec<(Str, Tree<'t>)>),
    Array(&'n mut Vec<Tree<'t>>),
}

impl<'t> Tree<'t> {
    /// The document a text holds, unopened.
    ///
    /// # Errors
    ///
    /// When the text is not JSON.
    pub fn of_text(text: &'t str) -> Result<Self, json::ParseError> {
        Value::from_json(text.as_bytes())?;
        Ok(Self::Text(text.trim_matches(WHITE)))
    }

    pub(super) fn shape(&self) -> Shape {
        match self {
            Self::Object(..) | Self::Value(Value::Object(_)) => Shape::Object,
            Self::Array(..) | Self::Value(Value::Array(_)) => Shape::Array,
            Self::Value(Value::Null) => Shape::Null,
            Self::Value(_) => Shape::Scalar,
            Self::Text(text) => match text.as_bytes().first() {
                Some(b'{') => Shape::Object,
                Some(b'[') => Shape::Array,
                Some(b'n') => Shape::Null,
                _ => Shape::Scalar,
            },
        }
    }

    /// Opens a container; `None` for anything else. Costs a step per member, once for each editor.
    pub(super) fn open(
        &mut self,
        editor: Editor,
        budget: &Budget<'_>,
    ) -> Result<Option<Opened<'_, 't>>, Exhausted> {
        let opened = match &*self {
            Self::Value(Value::Object(object)) => {
                budget.spend(object.len() as u64)?;
                // What is opened mostly gets one member more.
                let mut members = Vec::with_capacity(object.len() + 1);
                members
                    .extend(object.iter().map(|(key, value)| (key.clone(), value.clone().into())));
                Some(Self::Object(members, editor))
            }
            Self::Value(Value::Array(array)) => {
                budget.spend(array.len() as u64)?;
                Some(Self::Array(array.iter().cloned().map(Self::Value).collect(), editor))
            }
            Self::Text(text) if matches!(self.shape(), Shape::Object | Shape::Array) => {
                budget.spend(text.len() as u64)?;
                Some(open_text(text, editor))
            }
            Self::Object(members, last) if *last != editor => {
                budget.spend(members.len() as u64)?;
                None
            }
            Self::Array(elements, last) if *last != editor => {
                budget.spend(elements.len() as u64)?;
                None
            }
            _ => None,
        };
        if let Some(opened) = opened {
            *self = opened;
        }
        Ok(match self {
            Self::Object(members, last) => {
                *last = editor;
                Some(Opened::Object(members))
            }
            Self::Array(elements, last) => {
                *last = editor;
                Some(Opened::Array(elements))
            }
            Self::Value(_) | Self::Text(_) => None,
        })
    }

    /// Whether it holds this value, where nothing is text.
    pub(super) fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Value(own), value) => own == value,
            (Self::Object(members, _), Value::Object(others)) => {
                members.len() == others.len()
                    && members
                        .iter()
                        .zip(others)
                        .all(|((key, member), (name, other))| key == name && member.holds(other))
            }
            (Self::Array(elements, _), Value::Array(others)) => {
                elements.len() == others.len()
                    && elements.iter().zip(others).all(|(element, other)| element.holds(other))
            }
            _ => false,
        }
    }

    /// Opens the root, as every operation would; `false` if it is a scalar.
    ///
    /// # Errors
    ///
    /// When the budget runs out.
    pub fn open_root(&mut self, budget: &Budget<'_>) -> Result<bool, Exhausted> {
        Ok(self.open(ONLY, budget)?.is_some())
    }

    /// Whether the document is `null`.
    pub fn is_null(&self) -> bool {
        match self {
            Self::Value(value) => value.is_null(),
            Self::Text(text) => text.trim() == "null",
            Self::Object(..) | Self::Array(..) => false,
        }
    }

    /// The document as a value; what was not touched is shared, not copied.
    pub fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value,
            // Checked by `of_text`.
            Self::Text(text) => Value::from_json(text.as_bytes()).unwrap_or_default(),
            Self::Object(members, _) => Object::from_sorted(
                members.into_iter().map(|(key, member)| (key, member.into_value())),
            )
            .into(),
            Self::Array(elements, _) => elements.into_iter().map(Self::into_value).collect(),
        }
    }

    /// Appends the document as Go's `encoding/json` prints one read lazily: keys of opened objects
    /// sorted, untouched text as it was but without white space, `<`, `>`, `&` escaped.
    pub fn write(&self, out: &mut String) {
        match self {
            Self::Value(value) => json::write(value, out, json::Escape::Html),
            Self::Text(text) => compact(text, out),
            Self::Object(members, _) => {
                out.push('{');
                for (index, (key, member)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    json::write_string(key, out, json::Escape::Html);
                    out.push(':');
                    member.write(out);
                }
                out.push('}');
            }
            Self::Array(elements, _) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }
        }
    }
}

impl From<Value> for Tree<'_> {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// JSON's white space.
const WHITE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Splits the text of a valid object or array into its members.
fn open_text(text: &str, editor: Editor) -> Tree<'_> {
    let is_object = text.starts_with('{');
    let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default().trim_matches(WHITE);
    let parts = if inside.is_empty() { Vec::new() } else { split(inside, b',') };
    if !is_object {
        return Tree::Array(parts.into_iter().map(Tree::Text).collect(), editor);
    }
    let mut members: Vec<(Str, Tree<'_>)> = Vec::with_capacity(parts.len());
    for part in parts {
        let mut halves = split(part, b':').into_iter();
        let (Some(key), Some(member)) = (halves.next(), halves.next()) else { continue };
        let key = match Value::from_json(key.as_bytes()) {
            Ok(Value::String(key)) => key,
            _ => continue,
        };
        members.push((key, Tree::Text(member)));
    }
    // As in Go, the last of equal keys counts.
    members.reverse();
    members.sort_by(|(a, _), (b, _)| a.cmp(b));
    members.dedup_by(|(a, _), (b, _)| a == b);
    Tree::Object(members, editor)
}

/// Splits valid JSON at a separator outside of strings and nested containers; trims the parts.
fn split(text: &str, separator: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ if byte == separator && depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default().trim_matches(WHITE));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(start..).unwrap_or_default().trim_matches(WHITE));
    parts
}

/// Valid JSON without white space and with Go's HTML escapes; strings stay as they are spelled.
fn compact(text: &str, out: &mut String) {
    let (mut in_string, mut escaped) = (false, false);
    for character in text.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if character == '"' {
            in_string = true;
        } else if WHITE.contains(&character) {
            continue;
        }
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_keeps_what_is_not_opened() {
        let text = r#" { "b" : {"z": 1 , "a": "<x, \"y\": [>"}, "a": [ 1, {"q":2,"p":3} ], "a\u0062": 1.50 } "#;
        let mut tree = Tree::of_text(text).expect("json");
        let print = |tree: &Tree<'_>| {
            let mut out = String::new();
            tree.write(&mut out);
            out
        };
        assert_eq!(
            print(&tree),
            r#"{"b":{"z":1,"a":"\u003cx, \"y\": [\u003e"},"a":[1,{"q":2,"p":3}],"a\u0062":1.50}"#
        );
        let budget = Budget::unlimited();
        let Ok(Some(Opened::Object(members))) = tree.open(ONLY, &budget) else {
            panic!("an object")
        };
        let keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["a", "ab", "b"]);
        assert_eq!(
            print(&tree),
            r#"{"a":[1,{"q":2,"p":3}],"ab":1.50,"b":{"z":1,"a":"\u003cx, \"y\": [\u003e"}}"#
        );
        assert_eq!(tree.into_value(), Value::from_json(text.as_bytes()).expect("json"));
    }

    #[test]
    fn duplicate_keys_and_empty_containers() {
        let budget = Budget::unlimited();
        let mut tree = Tree::of_text(r#"{"a":1,"b":[ ],"a":2}"#).expect("json");
        assert!(tree.open(ONLY, &budget).expect("budget").is_some());
        assert_eq!(tree.into_value().to_json(), r#"{"a":2,"b":[]}"#);
        let mut empty = Tree::of_text("{ }").expect("json");
        assert!(empty.open(ONLY, &budget).expect("budget").is_some());
        assert_eq!(empty.into_value().to_json(), "{}");
        assert!(Tree::of_text("hello").is_err());
    }
}
