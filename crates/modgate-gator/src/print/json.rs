//! `json.MarshalIndent`.

use modgate_value::{
    Value,
    json::{Escape, write_string},
};

use super::{Node, Shape, number};

/// Appends JSON over several lines, `<`, `>` and `&` escaped, without a final line break.
pub(crate) fn pretty(node: &Node, indent: &str, out: &mut String) {
    write(node, indent, 0, out);
}

fn write(node: &Node, indent: &str, level: usize, out: &mut String) {
    let line = |out: &mut String, level: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n(indent, level));
    };
    match node.shape() {
        Shape::Scalar(Value::String(text)) => write_string(text, out, Escape::Html),
        Shape::Scalar(Value::Number(value)) => out.push_str(&number(value)),
        Shape::Scalar(other) => out.push_str(&other.to_json()),
        Shape::Map(members) if members.is_empty() => out.push_str("{}"),
        Shape::List(items) if items.is_empty() => out.push_str("[]"),
        Shape::Map(members) => {
            out.push('{');
            for (index, (key, node)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                line(out, level + 1);
                write_string(key, out, Escape::Html);
                out.push_str(": ");
                write(node, indent, level + 1, out);
            }
            line(out, level);
            out.push('}');
        }
        Shape::List(items) => {
            out.push('[');
            for (index, node) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                line(out, level + 1);
                write(node, indent, level + 1, out);
            }
            line(out, level);
            out.push(']');
        }
    }
}
