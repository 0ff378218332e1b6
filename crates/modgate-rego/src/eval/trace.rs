//! Tracing: each expression as an evaluation tries it.

use crate::{
    ast::Span,
    ir::{Program, Rule, Stmt},
    value::Value,
};

use super::Machine;

/// Receives each expression that an author wrote, as it succeeds or fails.
pub trait Tracer {
    /// One expression was tried.
    fn event(&mut self, event: Event<'_, '_>);

    /// A rule or an `else` branch produced a value.
    fn produced(&mut self, _branch: Span) {}
}

/// One expression that was tried.
pub struct Event<'e, 'a> {
    /// Whether it held.
    pub kind: EventKind,
    /// The expression; [`Program::module`] has its text.
    pub span: Span,
    program: &'a Program,
    rule: Option<&'a Rule>,
    /// The slots of the rule's frame. A variable that is not bound yet holds `null`, or its value
    /// of an earlier try; see [`bindings`](Self::bindings).
    slots: &'e [Value<'a>],
}

/// How an expression went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It held, with this value of the bindings.
    Succeeded,
    /// It did not hold, or was undefined.
    Failed,
}

impl<'e, 'a> Event<'e, 'a> {
    /// The name of the rule that the expression is part of; `None` in a query.
    pub fn rule_name(&self) -> Option<&'a str> {
        let group = self.program.groups.get(self.rule?.group.0 as usize)?;
        self.program.constants.get(group.path.last()?.0 as usize)?.as_str()
    }

    /// The variables of the rule by name, with their current values.
    pub fn bindings(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> + use<'e, 'a> {
        let names = self.rule.map_or(&[][..], |rule| &rule.names);
        names
            .iter()
            .map(modgate_value::Str::as_str)
            .zip(self.slots.iter().copied())
            .filter(|(name, _)| !name.is_empty())
    }
}

impl<'a> Machine<'a> {
    /// Reports one expression; without a tracer this costs a comparison.
    #[inline]
    pub(super) fn report(&mut self, holds: bool, stmt: &Stmt) {
        if self.tracer.is_some() && !stmt.generated {
            let kind = if holds { EventKind::Succeeded } else { EventKind::Failed };
            self.report_to_tracer(kind, stmt.span);
        }
    }

    /// Reports that a rule or an `else` branch produced a value.
    #[inline]
    pub(super) fn report_value(&mut self, branch: Span) {
        if let Some(tracer) = self.tracer.as_deref_mut() {
            tracer.produced(branch);
        }
    }

    #[cold]
    fn report_to_tracer(&mut self, kind: EventKind, span: Span) {
        let slots = self.slots.get(self.base..).unwrap_or_default();
        if let Some(tracer) = self.tracer.as_deref_mut() {
            tracer.event(Event { kind, span, program: self.program, rule: self.rule, slots });
        }
    }
}
