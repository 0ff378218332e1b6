//! What an evaluation tells about itself when asked.

use crate::{ast::Span, ir::Rule, value::Value};

use super::Machine;

/// Is told about each expression that an author wrote, as it succeeds or fails.
pub trait Tracer {
    /// One expression was tried.
    fn event(&mut self, event: Event<'_, '_>);
}

/// One expression that was tried.
pub struct Event<'e, 'a> {
    /// Whether it held.
    pub kind: EventKind,
    /// The expression; its text is in the program's module of that number.
    pub span: Span,
    /// The rule it stands in; `None` in a query.
    pub rule: Option<&'a Rule>,
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
    /// Reports one expression; free when nobody listens.
    #[inline]
    pub(super) fn report(&mut self, kind: EventKind, span: Span, generated: bool) {
        if self.tracer.is_some() && !generated {
            self.report_to_tracer(kind, span);
        }
    }

    #[cold]
    fn report_to_tracer(&mut self, kind: EventKind, span: Span) {
        let slots = self.slots.get(self.base..).unwrap_or_default();
        if let Some(tracer) = self.tracer.as_deref_mut() {
            tracer.event(Event { kind, span, rule: self.rule, slots });
        }
    }
}
