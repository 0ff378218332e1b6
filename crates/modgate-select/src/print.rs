//! Expressions as text that parses back to the same tree.

use std::fmt::{Display, Formatter, Result, Write as _};

use modgate_value::gofmt;

use crate::{
    ast::{Entry, Function, Kind, Node, Path, Root, Step},
    lex,
};

impl Display for Node {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            Kind::Number(number) if number.fract() == 0.0 && (0.0..1e15).contains(number) => {
                write!(f, "{number:.0}")
            }
            // `{:?}` prints huge and tiny numbers with an exponent, and reads back exactly.
            Kind::Number(number) => write!(f, "{number:?}"),
            Kind::Text(text) => f.write_str(&gofmt::quote(&text.text)),
            Kind::Bool(value) => write!(f, "{value}"),
            Kind::Array(elements) => {
                f.write_char('[')?;
                list(elements, f)?;
                f.write_char(']')
            }
            Kind::Object(entries) => {
                f.write_char('{')?;
                for (index, Entry { key, value, .. }) in entries.iter().enumerate() {
                    let separator = if index > 0 { ", " } else { "" };
                    write!(f, "{separator}{key}: {value}")?;
                }
                f.write_char('}')
            }
            Kind::Unary(op, operand) => write!(f, "{}{}", op.symbol(), Operand(operand)),
            Kind::Chain(first, links) => {
                let precedence = links.first().map_or(0, |link| link.op.precedence());
                Side(first, precedence).fmt(f)?;
                for link in links {
                    write!(f, " {} {}", link.op.name(), Side(&link.right, precedence))?;
                }
                Ok(())
            }
            Kind::Cond(condition, then, otherwise) => {
                // A condition is everything to its left that binds tighter than `?`.
                if matches!(condition.kind, Kind::Cond(..)) {
                    write!(f, "({condition}) ? {then}")?;
                } else {
                    write!(f, "{condition} ? {then}")?;
                }
                match otherwise {
                    Some(otherwise) => write!(f, " : {otherwise}"),
                    None => Ok(()),
                }
            }
            Kind::Call(function, arguments) => {
                write!(f, "{}(", Function::name(*function))?;
                list(arguments, f)?;
                f.write_char(')')
            }
            Kind::Variable(keys) => variable(keys, f),
            Kind::CallVariable(keys, arguments) => {
                variable(keys, f)?;
                f.write_char('(')?;
                list(arguments, f)?;
                f.write_char(')')
            }
            Kind::Path(path) => path.fmt(f),
            Kind::Placeholder(None) => f.write_char('#'),
            Kind::Placeholder(Some(index)) => write!(f, "#{index}"),
        }
    }
}

impl Display for Path {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char(match self.root {
            Root::Document => '$',
            Root::Current => '@',
        })?;
        let mut behind_dots = false;
        for step in &self.steps {
            match step {
                Step::Key(node) => match &node.kind {
                    Kind::Text(key) if lex::is_identifier(&key.text) => {
                        write!(f, "{}{}", if behind_dots { "" } else { "." }, key.text)?;
                    }
                    _ => write!(f, "[{node}]")?,
                },
                Step::Script(node) => write!(f, "({node})")?,
                Step::Star => f.write_str("[*]")?,
                Step::Filter(node) => write!(f, "[? {node}]")?,
                Step::Union(nodes) => {
                    f.write_char('[')?;
                    list(nodes, f)?;
                    f.write_char(']')?;
                }
                Step::Slice(bounds) => {
                    f.write_char('[')?;
                    for (index, bound) in bounds.iter().enumerate() {
                        f.write_str(if index > 0 { ":" } else { "" })?;
                        if let Some(bound) = bound {
                            bound.fmt(f)?;
                        }
                    }
                    f.write_char(']')?;
                }
                Step::Descend => f.write_str("..")?,
            }
            behind_dots = matches!(step, Step::Descend);
        }
        Ok(())
    }
}

/// One side of an infix operator; in parentheses unless it binds tighter by itself.
struct Side<'n>(&'n Node, u8);

impl Display for Side<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(node, outer) = self;
        let loose = match &node.kind {
            Kind::Cond(..) => true,
            Kind::Chain(_, links) => links.iter().any(|link| link.op.precedence() <= *outer),
            _ => false,
        };
        if loose { write!(f, "({node})") } else { node.fmt(f) }
    }
}

/// The operand of a prefix operator.
struct Operand<'n>(&'n Node);

impl Display for Operand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Side(self.0, u8::MAX).fmt(f)
    }
}

fn list(nodes: &[Node], f: &mut Formatter<'_>) -> Result {
    for (index, node) in nodes.iter().enumerate() {
        f.write_str(if index > 0 { ", " } else { "" })?;
        node.fmt(f)?;
    }
    Ok(())
}

fn variable(keys: &[Node], f: &mut Formatter<'_>) -> Result {
    for (index, key) in keys.iter().enumerate() {
        match &key.kind {
            Kind::Text(name) if lex::is_identifier(&name.text) => {
                write!(f, "{}{}", if index > 0 { "." } else { "" }, name.text)?;
            }
            _ => write!(f, "[{key}]")?,
        }
    }
    Ok(())
}
