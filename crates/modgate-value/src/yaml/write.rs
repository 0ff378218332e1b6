use super::scalar::{self, Scalar};
use crate::{MAX_DEPTH, Object, Value, json};

/// `value` as block YAML with sorted keys, ending in a line break.
///
/// Reads back as the same value. Quoting and layout are those of go-yaml v2 behind
/// `sigs.k8s.io/yaml`, hence of `kubectl get -o yaml`, with one difference: long lines are never
/// folded, so that a difference between two documents shows whole values. What nests deeper than
/// [`MAX_DEPTH`] levels is JSON on one line: its indentation would grow with the square of the depth.
pub fn write(value: &Value) -> String {
    let mut out = String::new();
    Writer { out: &mut out, depth: 1 }.node(value, 0);
    out.push('\n');
    out
}

struct Writer<'a> {
    out: &'a mut String,
    /// The level of the container that may begin here, from 1.
    depth: usize,
}

/// Columns by which a level is indented.
const INDENT: usize = 2;
/// Keys longer than this, or of several lines, are written as `? key`, as readers look no further
/// for the colon.
const MAX_SIMPLE_KEY: usize = 128;

impl Writer<'_> {
    /// Writes a value whose first line has begun; its other lines start at `column`.
    fn node(mut self, value: &Value, column: usize) {
        match value {
            _ if self.depth > MAX_DEPTH => json::write(value, self.out, json::Escape::Minimal),
            Value::Object(members) if !members.is_empty() => self.map(members, column),
            Value::Array(elements) if !elements.is_empty() => self.list(elements, column),
            Value::Object(_) => self.out.push_str("{}"),
            Value::Array(_) => self.out.push_str("[]"),
            Value::String(text) => self.text(text, column, Place::Value),
            Value::Null | Value::Bool(_) | Value::Number(_) => self.out.push_str(&value.to_json()),
        }
    }

    fn nested(&mut self, value: &Value, column: usize) {
        Writer { out: self.out, depth: self.depth + 1 }.node(value, column);
    }

    fn map(&mut self, members: &Object, column: usize) {
        for (index, (key, value)) in members.iter().enumerate() {
            if index > 0 {
                self.line(column);
            }
            if key.len() > MAX_SIMPLE_KEY || key.contains(is_break) {
                self.out.push_str("? ");
                self.text(key, column + INDENT, Place::Value);
                self.line(column);
            } else {
                self.text(key, column, Place::Key);
            }
            self.out.push(':');
            match value {
                Value::Object(members) if !members.is_empty() && self.depth < MAX_DEPTH => {
                    self.line(column + INDENT);
                    self.nested(value, column + INDENT);
                }
                // A list stands below its key, not indented.
                Value::Array(elements) if !elements.is_empty() && self.depth < MAX_DEPTH => {
                    self.line(column);
                    self.nested(value, column);
                }
                _ => {
                    self.out.push(' ');
                    self.nested(value, column + INDENT);
                }
            }
        }
    }

    fn list(&mut self, elements: &[Value], column: usize) {
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.line(column);
            }
            self.out.push_str("- ");
            self.nested(element, column + INDENT);
        }
    }

    fn line(&mut self, column: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', column));
    }

    fn text(&mut self, text: &str, column: usize, place: Place) {
        let style = Style::of(text, place);
        match style {
            Style::Plain => self.out.push_str(text),
            Style::Single => {
                self.out.push('\'');
                self.out.push_str(&text.replace('\'', "''"));
                self.out.push('\'');
            }
            Style::Double => write_double_quoted(text, self.out),
            // At the top, too, the lines are indented.
            Style::Literal => write_literal(text, column.max(INDENT), 2, self.out),
        }
    }
}

/// Appends `text` as a literal block scalar whose lines start at column `indent`. `step` is the
/// indentation relative to the parent, written where the first line does not show it.
pub fn write_literal(text: &str, indent: usize, step: u8, out: &mut String) {
    out.push('|');
    // Where the first line itself starts with a space its indentation cannot be inferred.
    if text.starts_with([' ', '\n']) {
        out.push_str(&step.to_string());
    }
    let body = text.strip_suffix('\n');
    match body {
        None => out.push('-'),
        Some(body) if body.is_empty() || body.ends_with('\n') => out.push('+'),
        Some(_) => {}
    }
    for line in body.unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
}

/// Appends `text` as a double-quoted scalar on one line.
pub fn write_double_quoted(text: &str, out: &mut String) {
    out.push('"');
    // libyaml looks for a byte order mark at the start each time it asks whether a character is one.
    let all = text.starts_with('\u{feff}');
    for character in text.chars() {
        push_escaped(character, all, out);
    }
    out.push('"');
}

fn push_escaped(character: char, always: bool, out: &mut String) {
    let escape = match character {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        '\u{85}' => "\\N",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ if is_printable(character) && !always => return out.push(character),
        _ => {
            let code = u32::from(character);
            return out.push_str(&match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    };
    out.push_str(escape);
}

/// Where a scalar stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarPlace {
    /// Before the colon of a block mapping.
    Key,
    /// Where a block may follow.
    Value,
    /// Inside `{}` or `[]`, on one line.
    Flow,
}

use ScalarPlace as Place;

/// How go-yaml writes a text, for writers of other layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScalarStyle {
    /// As it is.
    Plain,
    /// Between `'`, which is doubled inside.
    Single,
    /// Between `"`, with escapes; see [`write_double_quoted`].
    Double,
    /// A block after `|`.
    Literal,
}

use ScalarStyle as Style;

impl ScalarStyle {
    /// The style go-yaml asks for, where libyaml's emitter allows it; otherwise the next one up.
    pub fn of(text: &str, place: Place) -> Self {
        let shape = Shape::of(text);
        if text.contains('\n') {
            return match place {
                Place::Value if shape.literal => Self::Literal,
                Place::Key | Place::Value | Place::Flow => Self::Double,
            };
        }
        if !reads_as_text(text) {
            return Self::Double;
        }
        // These end an element or a member inside of brackets.
        let ends = place == Place::Flow && text.contains([',', '[', ']', '{', '}', '?', ':']);
        match () {
            () if shape.plain && !ends => Self::Plain,
            () if shape.single => Self::Single,
            () => Self::Double,
        }
    }
}

/// Whether a plain scalar of this text would be read as this text.
fn reads_as_text(text: &str) -> bool {
    let resolves =
        scalar::resolve("", text.into()).is_ok_and(|found| matches!(found, Scalar::String(_)));
    resolves && text != "<<" && text != "=" && !scalar::is_timestamp(text) && !is_base_60(text)
}

/// `1:30`, a number in other readers of YAML 1.1: `^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let first = parts.next().unwrap_or_default();
    let sixtieth = |part: &str| match part.as_bytes() {
        [one] => one.is_ascii_digit(),
        [ten, one] => (b'0'..=b'5').contains(ten) && one.is_ascii_digit(),
        _ => false,
    };
    let rest: Vec<&str> = parts.collect();
    first.starts_with(|first: char| first.is_ascii_digit())
        && digits(first)
        && !rest.is_empty()
        && rest.into_iter().all(sixtieth)
        && digits(fraction)
}

/// Which styles can carry a text, as libyaml's `yaml_emitter_analyze_scalar` has it.
struct Shape {
    plain: bool,
    single: bool,
    literal: bool,
}

impl Shape {
    fn of(text: &str) -> Self {
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) =
            (false, false, false, false);
        let mut before = None;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            let blank_before = before.is_none_or(is_blank);
            let blank_after = characters.peek().is_none_or(|next| is_blank(*next));
            indicators |= match character {
                '#' => blank_before,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`' => before.is_none(),
                '?' | '-' => before.is_none() && blank_after,
                ':' => blank_after,
                _ => false,
            };
            let breaks_line = is_break(character);
            breaks |= breaks_line;
            special |= !breaks_line && !is_printable(character);
            break_space |= character == ' ' && before.is_some_and(is_break);
            space_break |= breaks_line && before == Some(' ');
            before = Some(character);
        }
        let space_at_end = text.ends_with(' ');
        let edges = space_at_end || text.starts_with(' ') || breaks;
        Self {
            plain: !(edges || indicators || special || break_space || space_break),
            single: !(special || break_space || space_break),
            literal: !(space_at_end || special || space_break || text.contains('\r')),
        }
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t') || is_break(character)
}

fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether go-yaml prints a character unescaped; it escapes everything beyond the basic plane.
fn is_printable(character: char) -> bool {
    matches!(character, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && character != '\u{feff}'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::yaml;

    fn written(json: &str) -> String {
        let value = Value::from_json(json.as_bytes()).expect(json);
        let out = write(&value);
        assert_eq!(yaml::value(&out), Ok(value), "{out}");
        out
    }

    #[test]
    fn layout() {
        assert_eq!(
            written(
                r#"{"spec": {"containers": [{"name": "a", "args": ["-x", ["y"]]}, {}], "n": null},
                    "kind": "Pod", "empty": [], "count": 3}"#
            ),
            "count: 3\nempty: []\nkind: Pod\nspec:\n  containers:\n  - args:\n    - -x\n    - - \"y\"\n    \
             name: a\n  - {}\n  \"n\": null\n"
        );
    }

    #[test]
    fn quoting() {
        for (text, expected) in [
            ("plain text", "plain text"),
            ("", "\"\""),
            ("true", "\"true\""),
            ("yes", "\"yes\""),
            ("12", "\"12\""),
            ("1:30", "\"1:30\""),
            ("2020-01-01", "\"2020-01-01\""),
            ("<<", "\"<<\""),
            ("a: b", "'a: b'"),
            ("a #b", "'a #b'"),
            ("- a", "'- a'"),
            ("-a", "-a"),
            ("*a", "'*a'"),
            (" a", "' a'"),
            ("it's: so", "'it''s: so'"),
            ("tab\there", "\"tab\\there\""),
            ("caf\u{e9}", "caf\u{e9}"),
            ("\u{1f600}", "\"\\U0001F600\""),
        ] {
            let json = Value::from(text).to_json();
            assert_eq!(written(&json), format!("{expected}\n"), "{text:?}");
        }
    }

    #[test]
    fn several_lines() {
        assert_eq!(written(r#"{"a": "x\ny\n", "b": 1}"#), "a: |\n  x\n  y\nb: 1\n");
        assert_eq!(written(r#"{"a": "x\n\ny"}"#), "a: |-\n  x\n\n  y\n");
        assert_eq!(written(r#"{"a": ["x\n\n"]}"#), "a:\n- |+\n  x\n\n");
        assert_eq!(written(r#"{"a": " x\ny"}"#), "a: |2-\n   x\n  y\n");
        assert_eq!(written(r#"{"a": "x \ny"}"#), "a: \"x \\ny\"\n");
        assert_eq!(written(r#"{"a\nb": 1}"#), "? |-\n  a\n  b\n: 1\n");
        assert_eq!(written(r#"{"a\nb": {"c": [1]}}"#), "? |-\n  a\n  b\n:\n  c:\n  - 1\n");
        assert_eq!(written(r#""a\nb""#), "|-\n  a\n  b\n");
        assert_eq!(written("\"\u{feff}a\""), "\"\\uFEFF\\x61\"\n");
    }

    #[test]
    fn styles_by_place() {
        use ScalarPlace::{Flow, Key, Value};
        use ScalarStyle::{Double, Literal, Plain, Single};
        for (text, place, expected) in [
            ("a:b", Value, Plain),
            ("a:b", Flow, Single),
            ("x]", Key, Plain),
            ("x]", Flow, Single),
            ("<x> y", Flow, Plain),
            ("a\nb", Value, Literal),
            ("a\nb", Flow, Double),
            ("yes", Flow, Double),
        ] {
            assert_eq!(ScalarStyle::of(text, place), expected, "{text:?} {place:?}");
        }
    }

    #[test]
    fn long_keys() {
        let key = "k".repeat(2000);
        written(&format!(r#"{{"{key}": {{"{key}": [1]}}}}"#));
    }

    fn values() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "[ -~]{0,8}",
            "[a:#\\-\n \t'\"?,|>~0-9.]{0,6}",
            "\\PC{0,4}",
            any::<String>().prop_map(|text| text.chars().take(4).collect()),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..4)
                    .prop_map(|members| members.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn reads_back(value in values()) {
            let out = write(&value);
            prop_assert_eq!(yaml::value(&out), Ok(value), "{:?}", out);
        }
    }
}
