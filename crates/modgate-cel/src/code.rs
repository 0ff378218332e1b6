//! Checked expressions made ready: names resolved to places, constants computed, costs known.
//!
//! The shape follows cel-go's planner (`interpreter/planner.go`), because what an expression costs
//! follows from it: a chain of fields is one node, a constant list is a constant, and membership in
//! one is a look-up.

use std::sync::Arc;

use modgate_value::{Hint, Str, regex::GoRegex};

use crate::{
    ast::Macro,
    cost::CallCost,
    functions::{Guard, Overload},
    library::{Message, Native},
    probe::Probe,
    value::Owned,
};

/// An expression.
#[derive(Debug)]
pub(crate) enum Node {
    Constant(Owned),
    Attribute(Box<Attribute>),
    /// `&&` if `stop` is false, `||` if it is true.
    Logic {
        stop: bool,
        terms: Box<[Node; 2]>,
    },
    /// `!`
    Not(Box<Node>),
    /// `==` and `!=`
    Equal {
        negated: bool,
        sides: Box<[Node; 2]>,
    },
    Call(Box<Call>),
    /// Membership in a constant list of scalars.
    InSet {
        item: Box<Node>,
        set: Set,
    },
    /// `or` and `orValue`
    OrElse {
        value: bool,
        /// Whether the first side need not be an optional.
        any: bool,
        sides: Box<[Node; 2]>,
    },
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Message {
        which: Message,
        fields: Box<[(Box<str>, Node, bool)]>,
    },
    Fold(Box<Fold>),
    /// `optMap` and `optFlatMap`
    OptionalMap(Box<OptionalMap>),
    SortBy(Box<SortBy>),
    /// Counts that it is reached; only in programs that are observed.
    Probe(Box<Observed>),
}

/// A value and a path into it.
#[derive(Debug)]
pub(crate) struct Attribute {
    pub(crate) base: Base,
    pub(crate) path: Vec<Qualifier>,
    /// Whether this only tests the presence of the last step.
    pub(crate) test: bool,
}

/// Where an attribute starts.
#[derive(Debug)]
pub(crate) enum Base {
    Input(Box<str>),
    /// The variables of the policy, and where the one of the first step is.
    Variables(Hint),
    /// By its place among the names in scope.
    Local(usize),
    Computed(Node),
    /// `condition ? yes : no`
    Choice(Box<[Node; 3]>),
}

/// One step of a path.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: Key,
    pub(crate) optional: bool,
    /// Where objects have a member of this name.
    pub(crate) hint: Hint,
}

impl Qualifier {
    pub(crate) fn new(key: Key, optional: bool) -> Self {
        Self { key, optional, hint: Hint::default() }
    }
}

#[derive(Debug)]
pub(crate) enum Key {
    Field(Str),
    Constant(Owned),
    Computed(Node),
}

/// A call of a function that evaluates all of its arguments.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: Box<str>,
    /// The types of arguments it takes, known only when it is evaluated.
    pub(crate) guard: Guard,
    pub(crate) native: Native,
    pub(crate) cost: CallCost,
    pub(crate) args: Box<[Node]>,
    /// The compiled pattern, if that is a constant.
    pub(crate) regex: Option<GoRegex>,
    /// The operation that is done at once with the usual arguments.
    pub(crate) usual: Option<Usual>,
    /// Of a sum that is not part of another one: whether it adds nothing but a few variables.
    pub(crate) of_variables: bool,
}

impl Node {
    /// The name, if this is a variable of the policy as a whole.
    pub(crate) fn as_variable(&self) -> Option<(&Str, &Hint)> {
        let Self::Attribute(attribute) = self else { return None };
        match (&attribute.base, attribute.path.as_slice(), attribute.test) {
            (
                Base::Variables(hint),
                [Qualifier { key: Key::Field(name), optional: false, .. }],
                false,
            ) => Some((name, hint)),
            _ => None,
        }
    }

    /// How many variables it adds up, if it does nothing else.
    pub(crate) fn summands(&self) -> Option<usize> {
        match self {
            Self::Call(call) if &*call.name == "_+_" => match &*call.args {
                [first, second] => {
                    second.as_variable()?;
                    Some(first.summands()? + 1)
                }
                _ => None,
            },
            node => node.as_variable().map(|_| 1),
        }
    }
}

/// A call that policies make for each element of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Usual {
    /// Whether a text starts with another one.
    StartsWith,
    /// Whether a list has an element.
    In,
    /// A text as a text.
    Text,
}

impl Usual {
    /// Of calls of `function`; `overload` is the only one that fits, if there is only one.
    pub(crate) fn of(function: &str, overload: Option<&Overload>) -> Option<Self> {
        match function {
            "startsWith" => Some(Self::StartsWith),
            "@in" => Some(Self::In),
            "string" if overload.is_none_or(|it| it.arg(0) == Some("string")) => Some(Self::Text),
            _ => None,
        }
    }
}

/// A part whose evaluations count.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) probe: Arc<Probe>,
    pub(crate) node: Node,
}

/// The elements of a constant list, to be looked up.
#[derive(Debug)]
pub(crate) enum Set {
    /// Sorted.
    Strings(Box<[Box<str>]>),
    Other(Owned),
}

/// A macro over the elements of a list or map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) which: Macro,
    pub(crate) range: Node,
    /// Whether there are two names.
    pub(crate) two: bool,
    /// The condition of `map` and the `transform` macros.
    pub(crate) filter: Option<Node>,
    pub(crate) body: Node,
}

#[derive(Debug)]
pub(crate) struct OptionalMap {
    /// Whether the body's value is wrapped.
    pub(crate) wrap: bool,
    pub(crate) target: Node,
    pub(crate) body: Node,
}

#[derive(Debug)]
pub(crate) struct SortBy {
    pub(crate) list: Node,
    /// The key of an element.
    pub(crate) key: Node,
    pub(crate) cost: CallCost,
}
