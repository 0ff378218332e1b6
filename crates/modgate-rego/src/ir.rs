//! Compiled programs: resolved, ordered and flat enough to interpret directly.
//!
//! Names are gone. A variable is a [`Slot`] of its rule's frame, a constant an index into
//! [`Program::constants`], a rule an index into [`Program::rules`]; nothing that evaluation reads
//! is behind a reference count. Statements stand in an order in which every input of a statement
//! is bound by the statements before it, so at each point it is known whether a variable is bound:
//! [`Pattern::Bind`] is always its first occurrence, and an occurrence after that is a
//! [`Term::Local`] that can be read without asking.
//!
//! # How to evaluate
//!
//! A [`Body`] is a conjunction. Each [`Stmt`] succeeds any number of times (a reference may yield
//! several values) and the statements after it run once for every success; the body succeeds
//! once for every way through all of them. A slot belongs to one variable for the whole rule, so
//! backtracking needs no undo: whatever runs after a `Bind` sees the newest value.
//!
//! Terms that can be undefined have been hoisted out: operands, arguments, members and keys are
//! [`Term`]s, which always have a value. Only a [`Source`] can be undefined, and then its
//! statement simply does not succeed. The arguments of a call under `not` have been hoisted in
//! front of the `not`, as OPA does, which makes the whole body undefined when they are.

pub(crate) mod effects;
pub(crate) mod shared;
pub(crate) mod slots;
pub(crate) mod types;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

pub(crate) use modgate_value::Hint;
use modgate_value::Str;

use self::{
    shared::{Key, Keys},
    types::Environment,
};
use crate::{ast::Span, builtins};

/// The value of a constant.
pub(crate) type Constant = modgate_value::Value;

/// Index into [`Program::constants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ConstId(pub(crate) u32);

/// Index into [`Program::sets`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SetId(pub(crate) u32);

/// Index of a variable in the frame of its rule or query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

/// Index into [`Program::rules`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RuleId(pub(crate) u32);

/// Index into [`Program::groups`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub(crate) u32);

/// Index into [`Program::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// Index into [`Program::builtins`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BuiltinId(pub(crate) u32);

/// Index into [`Program::paths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathId(pub(crate) u32);

/// A compiled set of modules. Immutable, shared between threads; cloning shares everything.
#[derive(Debug, Clone)]
pub struct Program {
    /// The modules, for locations: [`Span::module`] is an index here.
    pub(crate) modules: Arc<[SourceText]>,
    /// Every constant, each once.
    pub(crate) constants: Arc<[Constant]>,
    /// Every set that is a constant: its members in Rego's order, each once.
    pub(crate) sets: Arc<[Arc<[Constant]>]>,
    /// Every rule.
    pub(crate) rules: Arc<[Rule]>,
    /// Rules that define the same document, together.
    pub(crate) groups: Arc<[Group]>,
    /// The tree of documents that rules define; the first node is `data`.
    pub(crate) nodes: Arc<[Node]>,
    /// The built-ins that are called.
    pub(crate) builtins: Arc<[Builtin]>,
    /// Where objects have the members that constants name, by constant; none until it is specialized.
    pub(crate) hints: Arc<[Hint]>,
    /// The formats of calls of `sprintf`, sorted by their constants; none until it is specialized.
    pub(crate) formats: Arc<[Format]>,
    /// The places in the input where references start; none until it is specialized.
    pub(crate) paths: Arc<[InputPath]>,
    /// Whether any `with` replaces a function or a built-in; when not, calls need not look.
    pub(crate) replaces_functions: bool,
    /// Whether any `with` replaces something under `data`; when not, references need not look.
    pub(crate) replaces_data: bool,
    /// The inferred types of rules, for checking queries.
    pub(crate) types: Arc<Environment>,
    /// The keys of the documents that it shares with programs that are evaluated for the same
    /// input; none until it is specialized.
    pub(crate) shared: Arc<Keys>,
}

/// The text of a module, for locations.
#[derive(Debug, Clone)]
pub struct SourceText {
    /// The name errors mention.
    pub name: Str,
    /// The text.
    pub text: Arc<str>,
}

/// A place in the input.
#[derive(Debug, Clone)]
pub(crate) struct InputPath {
    /// The place where the names begin; without one they begin at the input.
    pub(crate) from: Option<PathId>,
    /// The names of the fields that lead there, and where objects have them.
    pub(crate) names: Box<[(Str, Hint)]>,
    /// The same for the same names, in every program; `None` where they lead through what the inputs of
    /// one [`Memo`](crate::eval::Memo) differ in, and where they are few.
    pub(crate) key: Option<Key>,
}

/// A format of `sprintf`.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    /// Its text.
    pub(crate) constant: ConstId,
    /// `sprintf`.
    pub(crate) callee: BuiltinId,
    /// Its directives.
    pub(crate) read: builtins::Format,
}

/// A built-in or host function that the program calls.
#[derive(Debug, Clone)]
pub(crate) struct Builtin {
    /// Its full name, such as `object.get`; infix operators have names too (`plus`).
    pub(crate) name: Str,
    /// How many arguments it takes.
    pub(crate) arity: usize,
    /// Its implementation; `None` for a function that only the host has.
    pub(crate) run: Option<&'static builtins::Builtin>,
    /// The comparison that it makes, if it is one.
    pub(crate) compares: Option<builtins::Comparison>,
}

/// A node of the tree of documents.
///
/// A reference into `data` yields at a node the merge of the values below it here and the values that
/// the base documents hold at the same path; rules win.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    /// The keys from `data` down to here.
    pub(crate) path: Vec<ConstId>,
    /// The nodes below, by key (compared as constants: each constant has one id).
    pub(crate) children: BTreeMap<ConstId, NodeId>,
    /// The rules that define the document here. Descending stops at a node with a group: when the
    /// group is [`GroupKind::Object`], it holds the rules of the nodes below as well.
    pub(crate) group: Option<GroupId>,
}

/// The rules that define one document or function.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// The keys from `data` to the document.
    pub(crate) path: Vec<ConstId>,
    /// The kind of document.
    pub(crate) kind: GroupKind,
    /// The rules, in the order of their modules; without the default.
    pub(crate) rules: Vec<RuleId>,
    /// `default p := ...`.
    pub(crate) default: Option<RuleId>,
    /// Whether the first rule that succeeds decides: no rule gives anything but one constant.
    pub(crate) exits_early: bool,
    /// Which of the rules can succeed, where one argument tells.
    pub(crate) index: Option<Index>,
    /// How to compute all of the set, where it is not rule by rule.
    pub(crate) whole: Option<Whole>,
}

/// The rules of a set in another form, which has the same members: what rules have in common is computed
/// once.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    /// The members that evaluations under other parameters have, too.
    pub(crate) part: Option<GroupId>,
    /// The rules of all other members.
    pub(crate) rules: Vec<RuleId>,
}

/// The rules of a function by the text that each requires of one argument.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    /// Which argument.
    pub(crate) arg: usize,
    /// The rules, in their order; no rule takes any other value.
    pub(crate) by_text: HashMap<Str, Vec<RuleId>>,
}

/// The kinds of documents that groups define.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupKind {
    /// One value. All rules that succeed must agree.
    Complete,
    /// A set: every rule has [`Leaf::Member`] and no keys.
    Set,
    /// An object, possibly nested, possibly with sets at its leaves. Empty, not undefined, when
    /// no rule succeeds.
    Object,
    /// The members that some rules add to a set, as an array; no reference leads to it.
    Part,
    /// A function. All rules that succeed for the same arguments must agree.
    Function {
        /// How many arguments it takes.
        arity: usize,
    },
}

/// One rule.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    /// The group it belongs to.
    pub(crate) group: GroupId,
    /// How many slots a frame needs.
    pub(crate) frame: u32,
    /// A function's parameters, matched against the arguments first.
    pub(crate) args: Vec<Pattern>,
    /// The path from the group's document to what this rule produces: empty unless the group is
    /// [`GroupKind::Object`]. Read after the body.
    pub(crate) keys: Vec<Term>,
    /// The rule's body, then those of its `else` branches: the first that succeeds counts.
    /// Never empty.
    pub(crate) branches: Vec<Branch>,
    /// The same rule when its first keys are already known: element `n - 1` is for `n` known keys.
    /// Keys are `keys` and then the member of a [`Leaf::Member`]. Empty for complete rules and
    /// functions, and there may be fewer elements than keys.
    ///
    /// OPA looks at a single key of a partial rule in this way, without evaluating the rest of
    /// the document.
    pub(crate) keyed: Vec<Keyed>,
    /// The names of the slots, for traces. Generated variables have an empty name.
    pub(crate) names: Vec<Str>,
    /// The whole rule.
    pub(crate) span: Span,
}

/// A body and what it produces.
#[derive(Debug, Clone)]
pub(crate) struct Branch {
    /// The conditions.
    pub(crate) body: Body,
    /// The value that is produced then.
    pub(crate) leaf: Leaf,
    /// The branch.
    pub(crate) span: Span,
}

/// A body for when keys are known.
#[derive(Debug, Clone)]
pub(crate) struct Keyed {
    /// Matched against the known keys, in order, before the body.
    pub(crate) patterns: Vec<Pattern>,
    /// The first branch's body, without the bindings that the patterns make.
    pub(crate) body: Body,
    /// The rule's keys, in the variables of this body.
    pub(crate) keys: Vec<Term>,
    /// The result of the first branch, in the variables of this body.
    pub(crate) leaf: Leaf,
}

/// The value that a rule produces at the end of its path.
#[derive(Debug, Clone)]
pub(crate) enum Leaf {
    /// A value.
    Value(Term),
    /// A member of a set.
    Member(Term),
}

/// A conjunction.
pub(crate) type Body = Vec<Stmt>;

/// One statement of a body.
#[derive(Debug, Clone)]
pub(crate) struct Stmt {
    /// Its kind.
    pub(crate) kind: StmtKind,
    /// The expression it came from.
    pub(crate) span: Span,
    /// Whether the compiler made it (a hoisted operand); a trace leaves such statements out.
    pub(crate) generated: bool,
}

/// Those are equal that do the same, wherever they come from.
impl PartialEq for Stmt {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The kinds of statements.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum StmtKind {
    /// Succeeds for each value of the source that is not `false`.
    Test(Source),
    /// Succeeds for each value of the source that the pattern matches. The source runs first: its
    /// operands may bind variables that the pattern only reads.
    Match(Source, Pattern),
    /// Succeeds once when the body does not succeed. Binds nothing.
    Not(Body),
    /// Runs the body with parts of `input`, `data` or functions replaced; the statements after it see the
    /// originals again. Succeeds as often as the body does.
    With(Vec<With>, Body),
    /// Succeeds once when the body succeeds for each member of the domain.
    Every(Box<Every>),
    /// Succeeds once when one of the bodies succeeds, which are tried in their order. Binds nothing. Only
    /// specialized programs have it.
    Any(Vec<Body>),
    /// Succeeds as often as all of the bodies do, one body after the other. Nothing reads what they bind
    /// but statements inside and the slot that all of them bind. Only specialized programs have it.
    Each(Vec<Body>),
}

/// `every k, v in domain { body }`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Every {
    /// The collection.
    pub(crate) domain: Term,
    /// Bound to the key, index or (for a set) member.
    pub(crate) key: Pattern,
    /// Bound to the value.
    pub(crate) value: Pattern,
    /// The conditions.
    pub(crate) body: Body,
}

/// Something that may yield no value, one or several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Source {
    /// Exactly one value.
    Term(Term),
    /// A look into a document: one value per way through its operands.
    Ref(Ref),
    /// A collection built from a body; always one value.
    Comprehension(Box<Comprehension>),
    /// At most one value, except relations (`walk`), which yield several.
    Call(Call),
}

/// A reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ref {
    /// Where it starts.
    pub(crate) base: Base,
    /// The steps from there.
    pub(crate) path: Vec<Operand>,
}

/// Where a reference starts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Base {
    /// A value at hand.
    Term(Term),
    /// The input document; undefined when there is none.
    Input,
    /// A place in the input document, in programs without `with`.
    InputAt(PathId),
    /// Under `data`.
    Data {
        /// The constant keys from `data` to where `at` is.
        prefix: Vec<ConstId>,
        /// The place under `data`.
        at: DataBase,
    },
}

/// The compiler's knowledge of a place under `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataBase {
    /// A node that has no rules itself, but has some below; base documents merge with them.
    Node(NodeId),
    /// The document that a group of rules defines.
    Group(GroupId),
    /// No rules here or below: base documents only.
    Document,
}

/// One step of a reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Operand {
    /// Look this key up.
    Key(Term),
    /// Try every key that matches the pattern, which binds a variable or takes anything.
    Each(Pattern),
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// The function.
    pub(crate) callee: Callee,
    /// The arguments, as many as it takes.
    pub(crate) args: Vec<Term>,
}

/// The functions that can be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Callee {
    /// A built-in or host function.
    Builtin(BuiltinId),
    /// A function of the program.
    Function(GroupId),
}

/// A comprehension. Its variables live in the frame of the rule around it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comprehension {
    /// The value collected for each success of the body.
    pub(crate) head: Collect,
    /// The body.
    pub(crate) body: Body,
    /// The slots bound outside that it reads; with equal values there (and the same `with`
    /// modifiers) the result is equal.
    pub(crate) captures: Vec<Slot>,
}

/// The values that a comprehension collects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Collect {
    /// An array, in order of success.
    Array(Term),
    /// A set.
    Set(Term),
    /// An object; two different values for one key are a conflict.
    Object(Term, Term),
}

/// Something that always has exactly one value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// A constant.
    Const(ConstId),
    /// A set that is a constant.
    ConstSet(SetId),
    /// A variable that is bound.
    Local(Slot),
    /// An array.
    Array(Vec<Term>),
    /// A set.
    Set(Vec<Term>),
    /// An object; of equal keys the last counts.
    Object(Vec<(Term, Term)>),
}

/// A pattern that a value is matched against.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pattern {
    /// Anything.
    Any,
    /// Anything; the variable is bound to it.
    Bind(Slot),
    /// A value equal to this.
    Equal(Term),
    /// An array of exactly this length.
    Array(Vec<Pattern>),
    /// An object with exactly these keys.
    Object(Vec<(Term, Pattern)>),
}

/// `with target as value`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct With {
    /// The target.
    pub(crate) target: WithTarget,
    /// The replacement.
    pub(crate) value: WithValue,
    /// The modifier.
    pub(crate) span: Span,
}

/// The target of a `with`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WithTarget {
    /// The input document, or what is at a path of it.
    Input(Vec<ConstId>),
    /// The document at a path of `data`, rules included.
    Data(Vec<ConstId>),
    /// A function.
    Callee(Callee),
}

/// The replacement of a `with`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WithValue {
    /// A value. In place of a function: what every call yields.
    Term(Term),
    /// Another function, called in its place. Calls made by that function itself reach the
    /// original.
    Callee(Callee),
}

/// A query: a body that runs against a program.
#[derive(Debug, Clone)]
pub struct Query {
    /// The program, with the query's own constants added.
    pub(crate) program: Program,
    /// The conditions.
    pub(crate) body: Body,
    /// How many slots a frame needs.
    pub(crate) frame: u32,
    /// The variables of a result, by name.
    pub(crate) outputs: Vec<(Str, Slot)>,
}

impl Query {
    /// The names of the variables of a [`Row`](crate::eval::Row), in its order.
    pub fn outputs(&self) -> impl Iterator<Item = &Str> {
        self.outputs.iter().map(|(name, _)| name)
    }
}
