//! The syntax tree. Plain data: shared between threads, walked by reference.

use modgate_value::Str;

use crate::{funcs::Function, number::Number};

/// Byte offset into the template text.
pub(crate) type Pos = usize;

/// Every template of one text by name, the main one included. There is one, mostly.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trees {
    /// Sorted by name.
    named: Vec<(Str, Tree)>,
}

impl Trees {
    pub(crate) fn get(&self, name: &str) -> Option<&Tree> {
        let at = self.named.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.named.get(at).map(|(_, tree)| tree)
    }

    /// The templates in the order of their names.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Tree> {
        self.named.iter().map(|(_, tree)| tree)
    }

    /// Adds a template, or takes the place of the one with its name.
    pub(crate) fn insert(&mut self, name: Str, tree: Tree) {
        match self.named.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => {
                if let Some((_, known)) = self.named.get_mut(at) {
                    *known = tree;
                }
            }
            Err(at) => {
                self.named.reserve_exact(1);
                self.named.insert(at, (name, tree));
            }
        }
    }
}

/// A variable's name, interned per text: `$` is 0.
pub(crate) type VarId = u32;

/// One named template.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) root: Vec<Node>,
}

impl Tree {
    pub(crate) fn new(mut root: Vec<Node>) -> Self {
        root.shrink_to_fit();
        Self { root }
    }

    /// Whether there is nothing but space, comments and definitions.
    pub(crate) fn is_empty(&self) -> bool {
        self.root.iter().all(|node| match node {
            Node::Text(text) => text.trim().is_empty(),
            _ => false,
        })
    }

    /// The output, if there is nothing but text.
    pub(crate) fn constant(&self) -> Option<String> {
        let texts = self.root.iter().map(|node| match node {
            Node::Text(text) => Some(&**text),
            _ => None,
        });
        texts.collect()
    }
}

/// Rare parts are behind a pointer: thousands of policies keep their templates.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Text(Box<str>),
    Action(Box<Pipeline>),
    Branch(Box<Branch>),
    Template(Box<Call>),
    Break,
    Continue,
}

/// A `template` action.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) pos: Pos,
    pub(crate) name: Str,
    pub(crate) pipe: Option<Pipeline>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchKind {
    If,
    With,
    Range,
}

/// `if`, `with` and `range`.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) kind: BranchKind,
    pub(crate) pipe: Pipeline,
    pub(crate) list: Vec<Node>,
    pub(crate) otherwise: Option<Vec<Node>>,
}

/// `$a, $b := command | command`
#[derive(Debug, Clone)]
pub(crate) struct Pipeline {
    pub(crate) pos: Pos,
    pub(crate) declared: Vec<(VarId, Str)>,
    /// `=` rather than `:=`.
    pub(crate) assigns: bool,
    pub(crate) commands: Vec<Command>,
}

/// An operand and its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) pos: Pos,
    pub(crate) first: Expr,
    pub(crate) args: Vec<Expr>,
}

/// `.a.b.c` without the leading receiver.
pub(crate) type Fields = Box<[Str]>;

#[derive(Debug, Clone)]
pub(crate) struct Expr {
    pub(crate) pos: Pos,
    pub(crate) kind: ExprKind,
}

#[derive(Debug, Clone)]
pub(crate) enum ExprKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Box<Number>),
    Text(Box<Literal>),
    /// `.a.b`
    Field(Fields),
    /// `$x.a.b`
    Variable(Box<Variable>),
    Function(&'static Function),
    /// `( … )`
    Pipeline(Box<Pipeline>),
    /// `( … ).a.b` or `function.a.b`
    Chain(Box<(Expr, Fields)>),
}

/// `$x.a.b`
#[derive(Debug, Clone)]
pub(crate) struct Variable {
    pub(crate) id: VarId,
    pub(crate) name: Str,
    pub(crate) fields: Fields,
}

/// A string constant; Go strings may hold any bytes.
#[derive(Debug, Clone)]
pub(crate) struct Literal {
    /// As written, quotes included.
    pub(crate) quoted: Box<str>,
    pub(crate) value: Result<Box<str>, Box<[u8]>>,
}
