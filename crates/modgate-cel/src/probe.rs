//! Counting which parts of an expression evaluations reach.

use std::sync::atomic::{AtomicU64, Ordering};

use modgate_value::diag::Span;

use crate::{
    ast::{Expr, Kind},
    value::Val,
};

/// A part of an expression that evaluations reach or not: the whole, a side of `&&`, `||` and `?:`,
/// the body of a macro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The part of the text.
    pub span: Span,
    /// Whether it decides something, hence whether both its results matter.
    pub decides: bool,
    /// How often it was evaluated, whatever the result.
    pub reached: u64,
    /// How often it was true.
    pub held: u64,
    /// How often it was false.
    pub failed: u64,
}

/// The counts of one place.
#[derive(Debug)]
pub(crate) struct Probe {
    span: Span,
    decides: bool,
    reached: AtomicU64,
    held: AtomicU64,
    failed: AtomicU64,
}

impl Probe {
    pub(crate) fn new(expr: &Expr, decides: bool) -> Self {
        let zero = AtomicU64::default;
        let (reached, held, failed) = (zero(), zero(), zero());
        Self { span: expr.extent(), decides, reached, held, failed }
    }

    pub(crate) fn reach(&self) {
        self.reached.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn result(&self, value: Val<'_>) {
        if let Val::Bool(value) = value {
            let count = if value { &self.held } else { &self.failed };
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            span: self.span,
            decides: self.decides,
            reached: self.reached.load(Ordering::Relaxed),
            held: self.held.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}

impl Expr {
    /// The part of the text from its first token to its last. Closing brackets and the names of
    /// fields at its end may be left out.
    pub fn extent(&self) -> Span {
        let mut extent = self.span;
        // The token of a call is its parenthesis; its name stands in front.
        extent.start -= match &self.kind {
            Kind::Call { function, target: None, .. } if is_name(function) => function.len(),
            Kind::Has(..) => "has".len(),
            _ => 0,
        }
        .min(extent.start);
        self.for_each_part(&mut |part| extent = extent.to(part.extent()));
        extent
    }

    /// Calls `visit` with the expressions directly inside this one.
    pub fn for_each_part<'e>(&'e self, visit: &mut dyn FnMut(&'e Self)) {
        match &self.kind {
            Kind::Literal(_) | Kind::Ident(_) => {}
            Kind::Select { operand, .. } | Kind::Has(operand, _) => visit(operand),
            Kind::Index { operand, index, .. } => {
                visit(operand);
                visit(index);
            }
            Kind::Call { target, args, .. } => {
                target.iter().for_each(|target| visit(target));
                args.iter().for_each(visit);
            }
            Kind::List(elements) => elements.iter().for_each(|it| visit(&it.value)),
            Kind::Map(entries) => entries.iter().for_each(|entry| {
                visit(&entry.key);
                visit(&entry.value);
            }),
            Kind::Struct { fields, .. } => fields.iter().for_each(|field| visit(&field.value)),
            Kind::Macro { target, args, .. } => {
                visit(target);
                args.iter().for_each(visit);
            }
        }
    }
}

/// Whether a function is written with its name, as operators are not.
fn is_name(function: &str) -> bool {
    function.starts_with(|it: char| it.is_ascii_alphabetic() || it == '.')
}
