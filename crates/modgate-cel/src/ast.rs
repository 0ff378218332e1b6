//! The syntax of an expression; `Display` prints one that reads back as the same.

use std::fmt;

use modgate_value::{diag::Span, gofloat};

/// An expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// Its kind.
    pub kind: Kind,
    /// The token that stands for it in messages: an operator, a parenthesis, a name.
    pub span: Span,
    pub(crate) depth: u16,
    /// Which expression of its text it is, from 0.
    pub(crate) id: u32,
}

/// By kind alone: where it stands does not matter.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of expressions.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// A literal.
    Literal(Literal),
    /// A name; `.name` starts at the root and keeps its dot.
    Ident(String),
    /// `operand.field`, `operand.?field`
    Select {
        /// The operand.
        operand: Box<Expr>,
        /// The field.
        field: String,
        /// Whether a question mark makes the result optional.
        optional: bool,
    },
    /// `operand[index]`, `operand[?index]`
    Index {
        /// The operand.
        operand: Box<Expr>,
        /// The key or position.
        index: Box<Expr>,
        /// Whether a question mark makes the result optional.
        optional: bool,
    },
    /// A function or, by cel-go's names such as `_+_`, an operator.
    Call {
        /// The name.
        function: String,
        /// The receiver, before the dot.
        target: Option<Box<Expr>>,
        /// The arguments.
        args: Vec<Expr>,
    },
    /// `[a, ?b]`
    List(Vec<Element>),
    /// `{a: b, ?c: d}`
    Map(Vec<Entry>),
    /// `name{field: value}`
    Struct {
        /// The type.
        name: String,
        /// The fields.
        fields: Vec<Field>,
    },
    /// `has(a.b)`: the operand and the field.
    Has(Box<Expr>, String),
    /// A macro that runs an expression for elements.
    Macro {
        /// Which one.
        which: Macro,
        /// The range it iterates over.
        target: Box<Expr>,
        /// One or two names.
        names: Vec<String>,
        /// The remaining arguments.
        args: Vec<Expr>,
    },
}

/// An element of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Element {
    /// Its value.
    pub value: Expr,
    /// Left out when it is an empty optional.
    pub optional: bool,
}

/// An entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its key.
    pub key: Expr,
    /// Its value.
    pub value: Expr,
    /// Left out when the value is an empty optional.
    pub optional: bool,
}

/// A field of a message.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Expr,
    /// Left out when the value is an empty optional.
    pub optional: bool,
    /// Where its colon is.
    pub span: Span,
}

/// Where its colon stands does not matter.
impl PartialEq for Field {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value && self.optional == other.optional
    }
}

/// A literal.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// `1`, `0x1F`
    Int(i64),
    /// `1u`
    Uint(u64),
    /// `1.0`
    Double(f64),
    /// `"a"`
    String(String),
    /// `b"a"`
    Bytes(Vec<u8>),
}

/// A macro over elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Macro {
    /// `all(x, p)`, `all(i, v, p)`
    All,
    /// `exists(x, p)`, `exists(i, v, p)`
    Exists,
    /// `exists_one(x, p)`, `existsOne(i, v, p)`
    ExistsOne,
    /// `map(x, e)`, `map(x, p, e)`
    Map,
    /// `filter(x, p)`
    Filter,
    /// `transformList(i, v, e)`, `transformList(i, v, p, e)`
    TransformList,
    /// `transformMap(k, v, e)`, `transformMap(k, v, p, e)`
    TransformMap,
    /// `transformMapEntry(k, v, e)`, `transformMapEntry(k, v, p, e)`
    TransformMapEntry,
    /// `optMap(x, e)`
    OptMap,
    /// `optFlatMap(x, e)`
    OptFlatMap,
    /// `sortBy(x, e)`
    SortBy,
}

impl Macro {
    /// Whether the truth of its last argument decides something.
    pub(crate) fn decides(self) -> bool {
        matches!(self, Self::All | Self::Exists | Self::ExistsOne | Self::Filter)
    }

    /// The macro of this name and number of arguments, and how many of them are names.
    pub(crate) fn find(name: &str, args: usize) -> Option<(Self, usize)> {
        Some(match (name, args) {
            ("all", 2 | 3) => (Self::All, args - 1),
            ("exists", 2 | 3) => (Self::Exists, args - 1),
            ("exists_one", 2 | 3) => (Self::ExistsOne, args - 1),
            ("existsOne", 3) => (Self::ExistsOne, 2),
            ("map", 2 | 3) => (Self::Map, 1),
            ("filter", 2) => (Self::Filter, 1),
            ("transformList", 3 | 4) => (Self::TransformList, 2),
            ("transformMap", 3 | 4) => (Self::TransformMap, 2),
            ("transformMapEntry", 3 | 4) => (Self::TransformMapEntry, 2),
            ("optMap", 2) => (Self::OptMap, 1),
            ("optFlatMap", 2) => (Self::OptFlatMap, 1),
            ("sortBy", 2) => (Self::SortBy, 1),
            _ => return None,
        })
    }

    fn name(self, names: usize) -> &'static str {
        match self {
            Self::ExistsOne if names == 1 => "exists_one",
            Self::All => "all",
            Self::Exists => "exists",
            Self::ExistsOne => "existsOne",
            Self::Map => "map",
            Self::Filter => "filter",
            Self::TransformList => "transformList",
            Self::TransformMap => "transformMap",
            Self::TransformMapEntry => "transformMapEntry",
            Self::OptMap => "optMap",
            Self::OptFlatMap => "optFlatMap",
            Self::SortBy => "sortBy",
        }
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Uint(value) => write!(f, "{value}u"),
            Self::Double(value) => {
                let text = gofloat::general(*value);
                let point = if text.contains(['.', 'e']) { "" } else { ".0" };
                write!(f, "{text}{point}")
            }
            Self::String(text) => {
                f.write_str("\"")?;
                for character in text.chars() {
                    match character {
                        '"' => f.write_str("\\\"")?,
                        '\\' => f.write_str("\\\\")?,
                        other if other.is_control() => write!(f, "\\U{:08x}", u32::from(other))?,
                        other => write!(f, "{other}")?,
                    }
                }
                f.write_str("\"")
            }
            Self::Bytes(bytes) => {
                f.write_str("b\"")?;
                for byte in bytes {
                    write!(f, "\\x{byte:02x}")?;
                }
                f.write_str("\"")
            }
        }
    }
}

fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    mut one: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        one(f, item)?;
    }
    Ok(())
}

fn field_name(name: &str) -> String {
    let mut characters = name.chars();
    let plain = characters.next().is_some_and(|first| first == '_' || first.is_ascii_alphabetic())
        && characters.all(|rest| rest == '_' || rest.is_ascii_alphanumeric())
        && !matches!(name, "in" | "true" | "false" | "null");
    if plain { name.to_owned() } else { format!("`{name}`") }
}

/// Every operator is put in parentheses.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |optional: bool| if optional { "?" } else { "" };
        match &self.kind {
            Kind::Literal(literal @ (Literal::Int(_) | Literal::Double(_))) => {
                write!(f, "({literal})")
            }
            Kind::Literal(literal) => write!(f, "{literal}"),
            Kind::Ident(name) => f.write_str(name),
            Kind::Select { operand, field, optional } => {
                write!(f, "{operand}.{}{}", mark(*optional), field_name(field))
            }
            Kind::Index { operand, index, optional } => {
                write!(f, "{operand}[{}{index}]", mark(*optional))
            }
            Kind::Call { function, target: None, args }
                if function.contains(['_', '@'])
                    && !function.starts_with(|first: char| first.is_ascii_alphabetic()) =>
            {
                let symbol = function.trim_matches(['_', '@']);
                match args.as_slice() {
                    [only] => write!(f, "({symbol}({only}))"),
                    [left, right] => write!(f, "({left} {symbol} {right})"),
                    [condition, yes, no] => write!(f, "({condition} ? {yes} : {no})"),
                    _ => Err(fmt::Error),
                }
            }
            Kind::Call { function, target, args } => {
                if let Some(target) = target {
                    write!(f, "{target}.")?;
                }
                write!(f, "{function}(")?;
                separated(f, args, |f, arg| write!(f, "{arg}"))?;
                f.write_str(")")
            }
            Kind::List(items) => {
                f.write_str("[")?;
                separated(f, items, |f, item| write!(f, "{}{}", mark(item.optional), item.value))?;
                f.write_str("]")
            }
            Kind::Map(entries) => {
                f.write_str("{")?;
                separated(f, entries, |f, entry| {
                    write!(f, "{}{}: {}", mark(entry.optional), entry.key, entry.value)
                })?;
                f.write_str("}")
            }
            Kind::Struct { name, fields } => {
                write!(f, "{name}{{")?;
                separated(f, fields, |f, field| {
                    write!(
                        f,
                        "{}{}: {}",
                        mark(field.optional),
                        field_name(&field.name),
                        field.value
                    )
                })?;
                f.write_str("}")
            }
            Kind::Has(operand, field) => write!(f, "has({operand}.{})", field_name(field)),
            Kind::Macro { which, target, names, args } => {
                write!(f, "{target}.{}({}, ", which.name(names.len()), names.join(", "))?;
                separated(f, args, |f, arg| write!(f, "{arg}"))?;
                f.write_str(")")
            }
        }
    }
}
