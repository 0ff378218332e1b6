//! YAML as the two versions of go-yaml lay it out.

use std::borrow::Cow;

use modgate_value::{
    Value,
    yaml::{ScalarPlace, ScalarStyle, write_double_quoted, write_literal},
};

use super::{Member, Node, Shape, natural, number};

/// Which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `sigs.k8s.io/yaml`: two columns, lists below their keys, lines folded after 80 columns.
    V2,
    /// `gopkg.in/yaml.v3`: four columns, nothing folded.
    V3,
}

/// Whether a node goes over several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    Block,
    /// Each element of the outermost list but the first in one line. This is what the original
    /// makes of a list of structs whose last member is marked as inline.
    FirstBlock,
}

/// The column after which version 2 breaks lines.
const WIDTH: usize = 80;

/// A node as a document, with a final line break.
pub(crate) fn write(node: &Node, style: Style, layout: Layout) -> String {
    let mut writer = Writer { out: String::new(), style, layout };
    writer.node(node, 0, true);
    writer.out.push('\n');
    writer.out
}

struct Writer {
    out: String,
    style: Style,
    layout: Layout,
}

impl Writer {
    /// Writes a node whose first line has begun. `item` is whether it follows a dash.
    fn node(&mut self, node: &Node, indent: usize, item: bool) {
        match node.shape() {
            Shape::Scalar(value) => self.scalar(value, indent, item),
            Shape::Map(members) if members.is_empty() => self.out.push_str("{}"),
            Shape::List(items) if items.is_empty() => self.out.push_str("[]"),
            Shape::Map(mut members) => {
                sort(node, &mut members);
                for (index, (key, node)) in members.iter().enumerate() {
                    if index > 0 {
                        self.line(indent);
                    }
                    self.text(key, ScalarPlace::Key, 0);
                    self.out.push(':');
                    self.member(node, indent);
                }
            }
            Shape::List(items) => self.list(&items, indent),
        }
    }

    fn member(&mut self, node: &Node, indent: usize) {
        let inner = self.deeper(indent);
        match node.shape() {
            Shape::Map(members) if !members.is_empty() => {
                self.line(inner);
                self.node(node, inner, false);
            }
            Shape::List(items) if !items.is_empty() => {
                let indent = if self.style == Style::V3 { inner } else { indent };
                self.line(indent);
                self.list(&items, indent);
            }
            _ => {
                self.out.push(' ');
                self.node(node, indent, false);
            }
        }
    }

    fn list(&mut self, items: &[Cow<'_, Node>], indent: usize) {
        let flow = std::mem::replace(&mut self.layout, Layout::Block) == Layout::FirstBlock;
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.line(indent);
            }
            self.out.push_str("- ");
            if flow && index > 0 {
                self.flow(item);
            } else {
                self.node(item, indent + 2, true);
            }
        }
    }

    fn flow(&mut self, node: &Node) {
        match node.shape() {
            Shape::Scalar(Value::String(text)) => self.text(text, ScalarPlace::Flow, 0),
            Shape::Scalar(value) => self.scalar(value, 0, false),
            Shape::Map(mut members) => {
                sort(node, &mut members);
                self.out.push('{');
                for (index, (key, node)) in members.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.text(key, ScalarPlace::Flow, 0);
                    self.out.push_str(": ");
                    self.flow(node);
                }
                self.out.push('}');
            }
            Shape::List(items) => {
                self.out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push_str(", ");
                    }
                    self.flow(item);
                }
                self.out.push(']');
            }
        }
    }

    fn scalar(&mut self, value: &Value, indent: usize, item: bool) {
        match value {
            // The lines of a scalar are one level below its parent; after a dash, they start at the
            // scalar.
            Value::String(text) => {
                let inner = if item { indent } else { self.deeper(indent) };
                self.text(text, ScalarPlace::Value, inner);
            }
            Value::Number(value) => self.out.push_str(&number(value)),
            other => self.out.push_str(&other.to_json()),
        }
    }

    fn text(&mut self, text: &str, place: ScalarPlace, indent: usize) {
        let fold = self.style == Style::V2 && place == ScalarPlace::Value;
        match ScalarStyle::of(text, place) {
            ScalarStyle::Plain => self.folded(text, fold.then_some(indent), false),
            ScalarStyle::Single => {
                self.out.push('\'');
                self.folded(text, fold.then_some(indent), true);
                self.out.push('\'');
            }
            ScalarStyle::Double => write_double_quoted(text, &mut self.out),
            ScalarStyle::Literal => {
                let step = if self.style == Style::V3 { 4 } else { 2 };
                write_literal(text, indent, step, &mut self.out);
            }
        }
    }

    /// Text in one line, or broken at spaces beyond the width.
    fn folded(&mut self, text: &str, indent: Option<usize>, single: bool) {
        let mut column = self.out.rsplit('\n').next().unwrap_or_default().chars().count();
        let characters: Vec<char> = text.chars().collect();
        let mut after_space = false;
        for (index, character) in characters.iter().enumerate() {
            let next = characters.get(index + 1);
            let inside = !single || (index > 0 && next.is_some());
            if *character == ' ' {
                match indent {
                    Some(indent)
                        if !after_space && column > WIDTH && inside && next != Some(&' ') =>
                    {
                        self.line(indent);
                        column = indent;
                    }
                    _ => {
                        self.out.push(' ');
                        column += 1;
                    }
                }
                after_space = true;
                continue;
            }
            after_space = false;
            self.out.push(*character);
            column += 1;
            if single && *character == '\'' {
                self.out.push('\'');
                column += 1;
            }
        }
    }

    fn line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    /// Where the level below starts: version 3 goes to the next multiple of four.
    fn deeper(&self, indent: usize) -> usize {
        match self.style {
            Style::V2 => indent + 2,
            Style::V3 => 4 * ((indent + 4) / 4),
        }
    }
}

/// Maps of values are sorted as go-yaml sorts keys.
fn sort(node: &Node, members: &mut [Member<'_>]) {
    if matches!(node, Node::Value(_)) {
        members.sort_by(|(a, _), (b, _)| natural(a, b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(json: &str) -> Node {
        Node::Value(Value::from_json(json.as_bytes()).expect(json))
    }

    /// Recorded from go-yaml.
    #[test]
    fn layouts() {
        let node = value(
            r#"{"b": "line1\nline2", "c": [["x"], {"k": "a\nb", "y": "  a\nb"}], "e": "", "g": {},
                "m": {"l": [1.0]}}"#,
        );
        assert_eq!(
            write(&node, Style::V2, Layout::Block),
            "b: |-\n  line1\n  line2\nc:\n- - x\n- k: |-\n    a\n    b\n  \"y\": |2-\n      a\n    \
             b\ne: \"\"\ng: {}\nm:\n  l:\n  - 1\n"
        );
        assert_eq!(
            write(&node, Style::V3, Layout::Block),
            "b: |-\n    line1\n    line2\nc:\n    - - x\n    - k: |-\n        a\n        b\n      \
             \"y\": |4-\n          a\n        b\ne: \"\"\ng: {}\nm:\n    l:\n        - 1\n"
        );
        let list = value(r#"[{"a": "x:y"}, {"a": "x:y", "b": [{"c": "1"}]}]"#);
        assert_eq!(
            write(&list, Style::V3, Layout::FirstBlock),
            "- a: x:y\n- {a: 'x:y', b: [{c: \"1\"}]}\n"
        );
    }

    #[test]
    fn long_lines_of_version_2() {
        let long = format!(r#"{{"a": "{}x"}}"#, "x ".repeat(60));
        assert_eq!(
            write(&value(&long), Style::V2, Layout::Block),
            format!("a: {}x\n  {}x\n", "x ".repeat(39), "x ".repeat(20))
        );
        assert_eq!(
            write(&value(&long), Style::V3, Layout::Block),
            format!("a: {}x\n", "x ".repeat(60))
        );
    }
}
