//! Nodes as Go's error messages quote them.

use std::fmt::{self, Display, Formatter};

use super::ast::{Command, Expr, ExprKind, Pipeline};

impl Display for Pipeline {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, (_, name)) in self.declared.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{name}")?;
        }
        if !self.declared.is_empty() {
            f.write_str(if self.assigns { " = " } else { " := " })?;
        }
        for (index, command) in self.commands.iter().enumerate() {
            let separator = if index > 0 { " | " } else { "" };
            write!(f, "{separator}{command}")?;
        }
        Ok(())
    }
}

impl Display for Command {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.first.kind.fmt(f)?;
        self.args.iter().try_for_each(|arg| write!(f, " {}", arg.kind))
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl Display for ExprKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dot => f.write_str("."),
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => value.fmt(f),
            Self::Number(number) => f.write_str(&number.text),
            Self::Text(literal) => f.write_str(&literal.quoted),
            Self::Field(fields) => chain(f, fields),
            Self::Variable(variable) => {
                f.write_str(&variable.name)?;
                chain(f, &variable.fields)
            }
            Self::Function(function) => f.write_str(function.name),
            Self::Pipeline(pipe) => write!(f, "({pipe})"),
            Self::Chain(parts) => {
                let (first, fields) = &**parts;
                first.kind.fmt(f)?;
                chain(f, fields)
            }
        }
    }
}

fn chain(f: &mut Formatter<'_>, fields: &[modgate_value::Str]) -> fmt::Result {
    fields.iter().try_for_each(|field| write!(f, ".{field}"))
}
