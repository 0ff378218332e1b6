//! The shape of an expression.
//!
//! Trees are only as deep as their author nested them: operators of one precedence are one flat
//! [`Kind::Chain`], steps of one path one list. So whatever recurses over a tree (evaluating,
//! printing, dropping) is bounded by the parser's nesting limit.

use modgate_value::{
    Str,
    diag::Span,
    regex::{Allowance, GoRegex},
};

use crate::num;

/// A part of an expression and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Number(f64),
    Text(Text),
    Bool(bool),
    Array(Vec<Node>),
    Object(Vec<Entry>),
    Unary(Unary, Box<Node>),
    /// Operators of one precedence, applied from left to right.
    Chain(Box<Node>, Vec<Link>),
    /// `c ? a : b`; without `b` only at the very end of the expression.
    Cond(Box<Node>, Box<Node>, Option<Box<Node>>),
    Call(Function, Vec<Node>),
    /// A lookup from the root; the first key is a constant.
    Variable(Vec<Node>),
    /// A call of a variable, which no document can make succeed.
    CallVariable(Vec<Node>, Vec<Node>),
    Path(Path),
    /// `#` and `#3` in the key of an object literal.
    Placeholder(Option<usize>),
}

/// A string literal with its numeric reading, which `==` asks for first.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: Str,
    pub(crate) number: Option<f64>,
}

/// One `key: value` of an object literal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    /// With placeholders in the key always a path.
    pub(crate) value: Node,
    /// Whether the key has placeholders: then there is one member per match of the path.
    pub(crate) per_match: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Negate,
    Not,
    Complement,
}

#[derive(Debug, Clone)]
pub(crate) struct Link {
    pub(crate) op: Binary,
    pub(crate) right: Node,
    /// The compiled right side of `=~` and `!~` where it is a literal.
    pub(crate) regex: Option<Result<GoRegex, Str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Power,
    Times,
    Divide,
    Remainder,
    Plus,
    Minus,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
    BitXor,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Matches,
    MatchesNot,
    In,
    And,
    Or,
    Coalesce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Date,
    Length,
    IsDefined,
    IsUndefined,
    IsEmpty,
    IsNotEmpty,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Path {
    pub(crate) root: Root,
    pub(crate) steps: Vec<Step>,
    multi: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// `$`
    Document,
    /// `@`
    Current,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    /// `.k` and `[expr]`
    Key(Node),
    /// `(expr)`
    Script(Node),
    /// `.*` and `[*]`
    Star,
    /// `[? expr]`
    Filter(Node),
    /// `[a, b]`; with one member only behind `..`.
    Union(Vec<Node>),
    Slice([Option<Box<Node>>; 3]),
    /// `..`, always followed by another step that is neither a slice nor a computed key.
    Descend,
}

impl Step {
    /// Whether the path's value becomes a list with this step.
    pub(crate) fn is_multi(&self) -> bool {
        !matches!(self, Self::Key(_) | Self::Script(_))
    }
}

impl Path {
    pub(crate) fn new(root: Root, mut steps: Vec<Step>) -> Self {
        steps.shrink_to_fit();
        let multi = steps.iter().any(Step::is_multi);
        Self { root, steps, multi }
    }

    /// Whether the path's value is a list of all places it leads to.
    pub(crate) fn is_multi(&self) -> bool {
        self.multi
    }

    /// Whether different places can have the same captured keys.
    pub(crate) fn may_collide(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Union(_) | Step::Descend))
    }

    /// The keys, if every step is a constant text key.
    pub(crate) fn constant_keys(&self) -> Option<Vec<Str>> {
        self.steps
            .iter()
            .map(|step| match step {
                Step::Key(Node { kind: Kind::Text(key), .. }) => Some(key.text.clone()),
                _ => None,
            })
            .collect()
    }
}

// Spans are not part of what an expression means, and the compiled form follows from the text.
impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl PartialEq for Link {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.right == other.right
    }
}

impl Node {
    pub(crate) fn text(text: impl Into<Str>, span: Span) -> Self {
        Self { kind: Kind::Text(Text::new(text)), span }
    }

    /// `left op right`, kept flat where `left` already is a chain of this precedence.
    pub(crate) fn infix(left: Self, link: Link) -> Self {
        let span = left.span.to(link.right.span);
        let precedence = link.op.precedence();
        match left.kind {
            Kind::Chain(first, mut links)
                if links.first().is_some_and(|link| link.op.precedence() == precedence) =>
            {
                links.push(link);
                Self { kind: Kind::Chain(first, links), span }
            }
            _ => Self { kind: Kind::Chain(Box::new(left), vec![link]), span },
        }
    }

    pub(crate) fn is_literal(&self) -> bool {
        matches!(self.kind, Kind::Number(_) | Kind::Text(_) | Kind::Bool(_))
    }

    /// Calls `visit` with every node directly inside this one.
    pub(crate) fn children<'n>(&'n self, visit: &mut dyn FnMut(&'n Self)) {
        match &self.kind {
            Kind::Number(_) | Kind::Text(_) | Kind::Bool(_) | Kind::Placeholder(_) => {}
            Kind::Array(nodes) | Kind::Call(_, nodes) | Kind::Variable(nodes) => {
                nodes.iter().for_each(visit);
            }
            Kind::CallVariable(keys, arguments) => keys.iter().chain(arguments).for_each(visit),
            Kind::Object(entries) => {
                for entry in entries {
                    visit(&entry.key);
                    visit(&entry.value);
                }
            }
            Kind::Unary(_, operand) => visit(operand),
            Kind::Chain(first, links) => {
                visit(first);
                links.iter().map(|link| &link.right).for_each(visit);
            }
            Kind::Cond(condition, then, otherwise) => {
                visit(condition);
                visit(then);
                if let Some(otherwise) = otherwise {
                    visit(otherwise);
                }
            }
            Kind::Path(path) => {
                for step in &path.steps {
                    match step {
                        Step::Key(node) | Step::Script(node) | Step::Filter(node) => visit(node),
                        Step::Union(nodes) => nodes.iter().for_each(&mut *visit),
                        Step::Slice(bounds) => {
                            bounds.iter().flatten().for_each(|bound| visit(bound));
                        }
                        Step::Star | Step::Descend => {}
                    }
                }
            }
        }
    }
}

impl Text {
    pub(crate) fn new(text: impl Into<Str>) -> Self {
        let text = text.into();
        let number = num::parse_float(&text).ok();
        Self { text, number }
    }
}

impl Link {
    pub(crate) fn new(op: Binary, right: Node) -> Self {
        Self { op, right, regex: None }
    }

    /// The pattern, where this searches for a literal one.
    pub(crate) fn pattern(&self) -> Option<&Str> {
        match (self.op, &self.right.kind) {
            (Binary::Matches | Binary::MatchesNot, Kind::Text(pattern)) => Some(&pattern.text),
            _ => None,
        }
    }

    /// Compiles a literal pattern. An invalid one stays an evaluation error.
    pub(crate) fn compile(mut self, patterns: &Allowance) -> Self {
        self.regex = self
            .pattern()
            .map(|pattern| patterns.compile(pattern).map_err(|error| error.to_string().into()));
        self
    }
}

impl Binary {
    pub(crate) const ALL: [Self; 23] = [
        Self::Power,
        Self::Times,
        Self::Divide,
        Self::Remainder,
        Self::Plus,
        Self::Minus,
        Self::ShiftLeft,
        Self::ShiftRight,
        Self::BitAnd,
        Self::BitOr,
        Self::BitXor,
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessEqual,
        Self::Greater,
        Self::GreaterEqual,
        Self::Matches,
        Self::MatchesNot,
        Self::In,
        Self::And,
        Self::Or,
        Self::Coalesce,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Power => "**",
            Self::Times => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Matches => "=~",
            Self::MatchesNot => "!~",
            Self::In => "in",
            Self::And => "&&",
            Self::Or => "||",
            Self::Coalesce => "??",
        }
    }

    /// Higher binds tighter (spec `kubemod.md`, 2.3).
    pub(crate) fn precedence(self) -> u8 {
        match self {
            Self::Power => 200,
            Self::Times | Self::Divide | Self::Remainder => 150,
            Self::Plus | Self::Minus => 120,
            Self::ShiftLeft | Self::ShiftRight => 90,
            Self::BitAnd | Self::BitOr | Self::BitXor => 60,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessEqual
            | Self::Greater
            | Self::GreaterEqual
            | Self::Matches
            | Self::MatchesNot
            | Self::In => 40,
            Self::And => 21,
            Self::Or => 20,
            Self::Coalesce => 0,
        }
    }
}

impl Unary {
    pub(crate) fn symbol(self) -> char {
        match self {
            Self::Negate => '-',
            Self::Not => '!',
            Self::Complement => '~',
        }
    }
}

impl Function {
    pub(crate) const ALL: [Self; 6] = [
        Self::Date,
        Self::Length,
        Self::IsDefined,
        Self::IsUndefined,
        Self::IsEmpty,
        Self::IsNotEmpty,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::Length => "length",
            Self::IsDefined => "isDefined",
            Self::IsUndefined => "isUndefined",
            Self::IsEmpty => "isEmpty",
            Self::IsNotEmpty => "isNotEmpty",
        }
    }
}
