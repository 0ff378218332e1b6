//! The types of a built-in's arguments and result.

use std::fmt;

/// A type as OPA's checker has it.
///
/// Displays as OPA prints it: `any<number, set[any]>`, `object<op: string>[any: any]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    /// `null`
    Null,
    /// `boolean`
    Boolean,
    /// `number`
    Number,
    /// `string`
    String,
    /// `array<T, U>[V]`: elements of known types, then any number of others.
    Array {
        /// The first elements.
        fixed: Vec<Type>,
        /// The others, if there may be any.
        rest: Option<Box<Type>>,
    },
    /// `object<k: T>[K: V]`: members with known text keys, then any number of others.
    Object {
        /// The known members, sorted by key.
        fixed: Vec<(String, Type)>,
        /// The others, if there may be any.
        rest: Option<Box<(Type, Type)>>,
    },
    /// `set[T]`
    Set(Box<Type>),
    /// `any<T, U>`: one of these; anything when empty.
    Any(Vec<Type>),
}

/// An argument or result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its name in OPA's documentation; empty if it has none.
    pub name: String,
    /// Its type.
    pub ty: Type,
}

/// The arguments and the result of a built-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declaration {
    /// The arguments, in order.
    pub args: Vec<Argument>,
    /// The type of any number of further arguments, if it takes them.
    pub variadic: Option<Type>,
    /// The result; `None` if it gives none, as `print`.
    pub result: Option<Argument>,
}

impl Declaration {
    /// Reads `(x: number, y: number) => z: number`.
    ///
    /// Signatures are constants of this crate, each checked by a test to print back; what does
    /// not parse is read as `any`.
    pub(super) fn parse(text: &str) -> Self {
        let mut parser = Parser { rest: text };
        let mut declaration = Self { args: Vec::new(), variadic: None, result: None };
        parser.take("(");
        while !parser.take(")") && !parser.rest.is_empty() {
            let argument = parser.argument();
            if parser.take("...") {
                declaration.variadic = Some(argument.ty);
            } else {
                declaration.args.push(argument);
            }
            parser.take(", ");
        }
        if parser.take(" => ") {
            declaration.result = Some(parser.argument());
        }
        declaration
    }
}

struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    fn take(&mut self, token: &str) -> bool {
        let stripped = self.rest.strip_prefix(token);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn word(&mut self) -> &'t str {
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A type, perhaps after a name, which may have spaces in it.
    fn argument(&mut self) -> Argument {
        let end = self.rest.find(": ").unwrap_or(0);
        let (name, after) = self.rest.split_at(end);
        if name.is_empty() || name.contains(['<', '[', '(', ',', ')']) {
            return Argument { name: String::new(), ty: self.ty() };
        }
        self.rest = after;
        self.take(": ");
        Argument { name: name.to_owned(), ty: self.ty() }
    }

    fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        let mut items = Vec::new();
        while !self.take(close) && !self.rest.is_empty() {
            items.push(item(self));
            self.take(", ");
        }
        items
    }

    fn ty(&mut self) -> Type {
        match self.word() {
            "null" => Type::Null,
            "boolean" => Type::Boolean,
            "number" => Type::Number,
            "string" => Type::String,
            "set" => {
                self.take("[");
                let of = self.ty();
                self.take("]");
                Type::Set(Box::new(of))
            }
            "array" => {
                let fixed = if self.take("<") { self.list(">", Self::ty) } else { Vec::new() };
                let rest = self.take("[").then(|| {
                    let of = self.ty();
                    self.take("]");
                    Box::new(of)
                });
                Type::Array { fixed, rest }
            }
            "object" => {
                let member = |parser: &mut Self| {
                    let argument = parser.argument();
                    (argument.name, argument.ty)
                };
                let fixed = if self.take("<") { self.list(">", member) } else { Vec::new() };
                let rest = self.take("[").then(|| {
                    let key = self.ty();
                    self.take(": ");
                    let value = self.ty();
                    self.take("]");
                    Box::new((key, value))
                });
                Type::Object { fixed, rest }
            }
            // Anything else would be a typing error in a signature; the test sees it.
            _ => Type::Any(if self.take("<") { self.list(">", Self::ty) } else { Vec::new() }),
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean => f.write_str("boolean"),
            Self::Number => f.write_str("number"),
            Self::String => f.write_str("string"),
            Self::Set(of) => write!(f, "set[{of}]"),
            Self::Any(of) if of.is_empty() => f.write_str("any"),
            Self::Any(of) => {
                f.write_str("any<")?;
                separated(f, of, |f, ty| ty.fmt(f))?;
                f.write_str(">")
            }
            Self::Array { fixed, rest } => {
                f.write_str("array")?;
                if !fixed.is_empty() {
                    f.write_str("<")?;
                    separated(f, fixed, |f, ty| ty.fmt(f))?;
                    f.write_str(">")?;
                }
                rest.as_ref().map_or(Ok(()), |of| write!(f, "[{of}]"))
            }
            Self::Object { fixed, rest } => {
                f.write_str("object")?;
                if !fixed.is_empty() {
                    f.write_str("<")?;
                    separated(f, fixed, |f, (key, ty)| write!(f, "{key}: {ty}"))?;
                    f.write_str(">")?;
                }
                rest.as_ref().map_or(Ok(()), |of| write!(f, "[{}: {}]", of.0, of.1))
            }
        }
    }
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        self.ty.fmt(f)
    }
}

/// `(x: number, y: number) => z: number`
impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        separated(f, &self.args, |f, argument| argument.fmt(f))?;
        if let Some(variadic) = &self.variadic {
            let comma = if self.args.is_empty() { "" } else { ", " };
            write!(f, "{comma}{variadic}...")?;
        }
        f.write_str(")")?;
        self.result.as_ref().map_or(Ok(()), |result| write!(f, " => {result}"))
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    mut item: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    items.iter().enumerate().try_for_each(|(index, one)| {
        if index > 0 {
            f.write_str(", ")?;
        }
        item(f, one)
    })
}
