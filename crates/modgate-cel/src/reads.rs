//! The variables that an expression reads.

use crate::{
    code::{Attribute, Base, Key, Node},
    program::Program,
};

/// Something an expression may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Read<'p> {
    /// An input, such as `object`.
    Input(&'p str),
    /// A variable of the policy, or only one member of it.
    Variable {
        /// `NAME` in `variables.NAME`.
        name: &'p str,
        /// `MEMBER` if it is read as `variables.NAME.MEMBER` here.
        member: Option<&'p str>,
    },
    /// The variables of the policy in a way that does not name one.
    Variables,
}

impl Program {
    /// Calls `on` for everything that an evaluation may read, as often as it is written.
    pub fn reads<'p>(&'p self, on: &mut dyn FnMut(Read<'p>)) {
        node(self.code(), on);
    }

    /// Whether an evaluation reads nothing but these inputs and these variables of the policy.
    pub fn reads_only(
        &self,
        is_input: impl Fn(&str) -> bool,
        is_variable: impl Fn(&str) -> bool,
    ) -> bool {
        let mut only = true;
        self.reads(&mut |read| {
            only &= match read {
                Read::Input(name) => is_input(name),
                Read::Variable { name, .. } => is_variable(name),
                Read::Variables => false,
            };
        });
        only
    }
}

type On<'o, 'p> = &'o mut dyn FnMut(Read<'p>);

/// As deep as the expression, which the parser bounds.
fn node<'p>(code: &'p Node, on: On<'_, 'p>) {
    match code {
        Node::Constant(_) => {}
        Node::Attribute(part) => attribute(part, on),
        Node::Logic { terms: sides, .. }
        | Node::Equal { sides, .. }
        | Node::OrElse { sides, .. } => sides.iter().for_each(|side| node(side, on)),
        Node::Call(call) => call.args.iter().for_each(|arg| node(arg, on)),
        Node::InSet { item, .. } | Node::Not(item) => node(item, on),
        Node::List(elements) => elements.iter().for_each(|(element, _)| node(element, on)),
        Node::Map(entries) => {
            for (key, value, _) in entries {
                node(key, on);
                node(value, on);
            }
        }
        Node::Message { fields, .. } => fields.iter().for_each(|(_, value, _)| node(value, on)),
        Node::Fold(fold) => {
            node(&fold.range, on);
            fold.filter.iter().for_each(|filter| node(filter, on));
            node(&fold.body, on);
        }
        Node::OptionalMap(map) => {
            node(&map.target, on);
            node(&map.body, on);
        }
        Node::Probe(part) => node(&part.node, on),
        Node::SortBy(sort) => {
            node(&sort.list, on);
            node(&sort.key, on);
        }
    }
}

fn attribute<'p>(attribute: &'p Attribute, on: On<'_, 'p>) {
    let field = |at: usize| match attribute.path.get(at).map(|step| (&step.key, step.optional)) {
        Some((Key::Field(name), false)) => Some(&**name),
        _ => None,
    };
    match &attribute.base {
        Base::Input(name) => on(Read::Input(name)),
        Base::Variables(_) => on(match field(0) {
            Some(name) => Read::Variable { name, member: field(1) },
            None => Read::Variables,
        }),
        Base::Local(_) => {}
        Base::Computed(inner) => node(inner, on),
        Base::Choice(parts) => parts.iter().for_each(|part| node(part, on)),
    }
    for step in &attribute.path {
        if let Key::Computed(key) = &step.key {
            node(key, on);
        }
    }
}
