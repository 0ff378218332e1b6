//! The syntax tree of a module, as written: names are not resolved and nothing is rewritten.
//!
//! Every node carries the [`Span`] of its text. Infix operators are calls whose operator is the
//! built-in they stand for (`a + b` is `plus(a, b)`), which is also how the errors name them.

use std::sync::Arc;

use modgate_value::{Number, Str};

/// A half-open range of byte offsets in the text of one module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
    /// Which module of the program the offsets belong to; 0 until a compiler numbers them.
    pub module: u32,
}

impl Span {
    /// The smallest span that covers both.
    pub fn to(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
            module: self.module,
        }
    }
}

/// Which grammar a module is read with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegoVersion {
    /// The grammar before OPA 1.0: `if`, `contains`, `in` and `every` only after an import, and
    /// the deprecated built-ins are allowed. What Gatekeeper reads unless a template says
    /// otherwise.
    #[default]
    V0,
    /// The grammar since OPA 1.0.
    V1,
}

/// One parsed file.
#[derive(Debug, Clone)]
pub struct Module {
    /// The name errors mention, usually a file name.
    pub name: Str,
    /// The text it was parsed from.
    pub text: Arc<str>,
    /// The grammar it was read with; an `import rego.v1` makes a [`RegoVersion::V0`] module obey
    /// the checks of version 1 too.
    pub version: RegoVersion,
    /// Whether the checks of version 1 apply: always for [`RegoVersion::V1`], or after `import rego.v1`.
    pub strict: bool,
    /// The path after `package`, without the leading `data`.
    pub package: Vec<Str>,
    /// Where the package is declared.
    pub package_span: Span,
    /// Imports in order, without `rego.v1` and `future.keywords`.
    pub imports: Vec<Import>,
    /// Rules in order. A chain of bodies has been split into one rule per body.
    pub rules: Vec<Rule>,
}

/// An `import`.
#[derive(Debug, Clone)]
pub struct Import {
    /// `data` or `input`, then the path.
    pub path: Vec<Str>,
    /// The name after `as`.
    pub alias: Option<Str>,
    /// The whole import.
    pub span: Span,
}

impl Import {
    /// The name the import goes by in its module.
    pub fn name(&self) -> &str {
        self.alias.as_ref().or(self.path.last()).map_or("", Str::as_str)
    }
}

/// A rule: one head and one body, with its `else` branches.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The name, arguments and value.
    pub head: Head,
    /// The conditions; the single expression `true` when nothing was written.
    pub body: Body,
    /// The branches tried in order when the body is undefined.
    pub els: Vec<Else>,
    /// `default`: the value when no other rule of the name is defined.
    pub default: bool,
    /// The whole rule.
    pub span: Span,
}

/// An `else` branch.
#[derive(Debug, Clone)]
pub struct Else {
    /// The value when the branch is taken; `true` when not written.
    pub value: Term,
    /// The conditions.
    pub body: Body,
    /// From `else` on.
    pub span: Span,
}

/// The head of a rule.
#[derive(Debug, Clone)]
pub struct Head {
    /// The name as a reference: `p`, `p.q`, `p[x].r`. The first element is a [`TermKind::Var`].
    pub name: Vec<Term>,
    /// The arguments, when it is a function.
    pub args: Option<Vec<Term>>,
    /// The result of the rule: a value or a member of a set.
    pub kind: HeadKind,
    /// The whole head.
    pub span: Span,
}

/// The value that a rule produces at the path its head names.
#[derive(Debug, Clone)]
pub enum HeadKind {
    /// One value; `true` when none was written.
    Value {
        /// The value.
        value: Term,
        /// Whether `:=` was written, which makes the rule unique among its modules' names.
        assigned: bool,
    },
    /// A member of a set: `p contains x`, or `p[x]` in version 0.
    Member(Term),
}

/// A sequence of expressions, all of which have to hold.
pub type Body = Vec<Expr>;

/// One expression of a body.
#[derive(Debug, Clone)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// `not`.
    pub negated: bool,
    /// The `with` modifiers in order.
    pub with: Vec<With>,
    /// Without the modifiers.
    pub span: Span,
    /// Made by the compiler rather than written.
    pub generated: bool,
}

/// The kinds of expressions.
#[derive(Debug, Clone)]
pub enum ExprKind {
    /// A term that must be defined and not `false`; calls included.
    Term(Term),
    /// `some x, y`.
    Some(Vec<(Str, Span)>),
    /// `some v in xs`, `some k, v in xs`.
    SomeIn {
        /// The key pattern.
        key: Option<Term>,
        /// The value pattern.
        value: Term,
        /// The collection.
        domain: Term,
    },
    /// `not { ... }`, or `not x` after `import future.keywords.not`: what the operands need is
    /// evaluated inside, so an undefined operand makes the negation true.
    Not(Body),
    /// `every v in xs { ... }`, `every k, v in xs { ... }`.
    Every {
        /// The key variable.
        key: Option<Term>,
        /// The value variable.
        value: Term,
        /// The collection.
        domain: Term,
        /// The conditions that must hold for each.
        body: Body,
    },
}

/// `with target as value`.
#[derive(Debug, Clone)]
pub struct With {
    /// A reference into `input` or `data`, a function or a built-in.
    pub target: Term,
    /// The replacement.
    pub value: Term,
    /// The whole modifier.
    pub span: Span,
}

/// A term and its place.
#[derive(Debug, Clone)]
pub struct Term {
    /// Its kind.
    pub kind: TermKind,
    /// Where it is.
    pub span: Span,
}

/// The kinds of terms.
#[derive(Debug, Clone)]
pub enum TermKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number, exactly as written.
    Number(Number),
    /// A string, its escapes undone.
    String(Str),
    /// A variable; `_` has been given a name that starts with `$`.
    Var(Str),
    /// A reference: the head, then one term per operand. Dotted operands are strings. The head is
    /// a variable, a call, or a collection.
    Ref(Vec<Term>),
    /// `[a, b]`.
    Array(Vec<Term>),
    /// `{a, b}`; `set()` when empty.
    Set(Vec<Term>),
    /// `{k: v}`.
    Object(Vec<(Term, Term)>),
    /// `[term | body]`.
    ArrayComprehension(Box<Term>, Body),
    /// `{term | body}`.
    SetComprehension(Box<Term>, Body),
    /// `{key: value | body}`.
    ObjectComprehension(Box<(Term, Term)>, Body),
    /// A call of a built-in or a function; the operator is a variable or a reference.
    Call(Box<Term>, Vec<Term>),
    /// A template string.
    Template(Vec<TemplatePart>),
}

/// A piece of a template string.
#[derive(Debug, Clone)]
pub enum TemplatePart {
    /// Literal text.
    Text(Str),
    /// An expression between braces, with its own `with` modifiers.
    Expr(Box<Expr>),
}

impl Module {
    /// Calls `visit` with every term of the module's rules, each before the terms inside it.
    ///
    /// For checks of what a policy refers to before it is compiled.
    pub fn visit_terms<'m>(&'m self, visit: &mut dyn FnMut(&'m Term)) {
        self.rules.iter().for_each(|rule| rule.visit_terms(visit));
    }
}

impl Rule {
    /// Calls `visit` with every term of the rule, each before the terms inside it.
    pub fn visit_terms<'r>(&'r self, visit: &mut dyn FnMut(&'r Term)) {
        for term in self.head.name.iter().chain(self.head.args.iter().flatten()) {
            term.visit(visit);
        }
        match &self.head.kind {
            HeadKind::Value { value, .. } => value.visit(visit),
            HeadKind::Member(member) => member.visit(visit),
        }
        visit_body(&self.body, visit);
        for branch in &self.els {
            branch.value.visit(visit);
            visit_body(&branch.body, visit);
        }
    }
}

impl Term {
    /// Calls `visit` with this term, then with every term inside it.
    pub(crate) fn visit<'t>(&'t self, visit: &mut dyn FnMut(&'t Self)) {
        visit(self);
        match &self.kind {
            TermKind::Null
            | TermKind::Bool(_)
            | TermKind::Number(_)
            | TermKind::String(_)
            | TermKind::Var(_) => {}
            TermKind::Ref(items) | TermKind::Array(items) | TermKind::Set(items) => {
                items.iter().for_each(|item| item.visit(visit));
            }
            TermKind::Object(pairs) => {
                for (key, value) in pairs {
                    key.visit(visit);
                    value.visit(visit);
                }
            }
            TermKind::ArrayComprehension(head, body) | TermKind::SetComprehension(head, body) => {
                head.visit(visit);
                visit_body(body, visit);
            }
            TermKind::ObjectComprehension(head, body) => {
                head.0.visit(visit);
                head.1.visit(visit);
                visit_body(body, visit);
            }
            TermKind::Call(operator, args) => {
                operator.visit(visit);
                args.iter().for_each(|arg| arg.visit(visit));
            }
            TermKind::Template(parts) => {
                for part in parts {
                    if let TemplatePart::Expr(expr) = part {
                        visit_expr(expr, visit);
                    }
                }
            }
        }
    }
}

fn visit_body<'b>(body: &'b [Expr], visit: &mut dyn FnMut(&'b Term)) {
    body.iter().for_each(|expr| visit_expr(expr, visit));
}

fn visit_expr<'e>(expr: &'e Expr, visit: &mut dyn FnMut(&'e Term)) {
    match &expr.kind {
        ExprKind::Term(term) => term.visit(visit),
        ExprKind::Some(_) => {}
        ExprKind::SomeIn { key, value, domain } => {
            key.iter().chain([value, domain]).for_each(|term| term.visit(visit));
        }
        ExprKind::Not(body) => visit_body(body, visit),
        ExprKind::Every { key, value, domain, body } => {
            key.iter().chain([value, domain]).for_each(|term| term.visit(visit));
            visit_body(body, visit);
        }
    }
    for with in &expr.with {
        with.target.visit(visit);
        with.value.visit(visit);
    }
}

impl TermKind {
    /// The name of the kind that errors use.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Var(_) => "var",
            Self::Ref(_) => "ref",
            Self::Array(_) => "array",
            Self::Set(_) => "set",
            Self::Object(_) => "object",
            Self::ArrayComprehension(..) => "arraycomprehension",
            Self::SetComprehension(..) => "setcomprehension",
            Self::ObjectComprehension(..) => "objectcomprehension",
            Self::Call(..) => "call",
            Self::Template(_) => "templatestring",
        }
    }
}

/// The name of an operator that is a single variable.
pub(crate) fn operator_name(operator: &Term) -> Option<&str> {
    match &operator.kind {
        TermKind::Ref(parts) => match parts.as_slice() {
            [Term { kind: TermKind::Var(name), .. }] => Some(name),
            _ => None,
        },
        TermKind::Var(name) => Some(name),
        _ => None,
    }
}

/// Whether a term has no variables, references, calls or comprehensions.
pub(crate) fn is_ground(term: &Term) -> bool {
    match &term.kind {
        TermKind::Null | TermKind::Bool(_) | TermKind::Number(_) | TermKind::String(_) => true,
        TermKind::Array(items) | TermKind::Set(items) => items.iter().all(is_ground),
        TermKind::Object(pairs) => pairs.iter().all(|(k, v)| is_ground(k) && is_ground(v)),
        _ => false,
    }
}
