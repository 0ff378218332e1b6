//! `sprintf` with a format that has been read ahead.

use std::{borrow::Cow, fmt::Write as _};

use modgate_value::{Budget, gofmt};

use super::{BuiltinError, Context, formatted, numeric};
use crate::value::{Value, View};

/// Room for the values that are no texts.
const ROOM: usize = 128;

/// Memory for texts of more bytes is not kept.
const MANY: usize = 4096;

/// A format in which each directive is a bare `%v`, `%s` or `%d`.
#[derive(Debug, Clone)]
pub(crate) struct Format {
    /// The text in front of each directive, and its verb.
    directives: Box<[(Box<str>, Verb)]>,
    /// The text behind them.
    end: Box<str>,
    /// How many bytes all these texts have.
    length: usize,
}

/// The values that a directive prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    /// Any value.
    Value,
    /// A text.
    Text,
    /// An integer.
    Integer,
}

impl Format {
    /// `None` for a format with any other directive.
    pub(crate) fn new(format: &str) -> Option<Self> {
        let (mut left, mut directives, mut length) = (format, Vec::new(), 0);
        while let Some((before, directive)) = left.split_once('%') {
            let verb = match directive.bytes().next()? {
                b'v' => Verb::Value,
                b's' => Verb::Text,
                b'd' => Verb::Integer,
                _ => return None,
            };
            length += before.len();
            directives.push((before.into(), verb));
            left = directive.get(1..)?;
        }
        length += left.len();
        Some(Self { directives: directives.into(), end: left.into(), length })
    }
}

/// A call that has its text from values of which each fits its directive, as policies have mostly.
pub(crate) struct Printing<'p, 'a> {
    format: &'p Format,
    values: &'p [Value<'a>],
    /// Steps for the directives and their values.
    steps: usize,
    /// The bytes of the texts among them.
    length: usize,
}

impl<'p, 'a> Printing<'p, 'a> {
    /// `None` where Go prints a complaint or a value that needs a closer look, and where too little may be left to
    /// pay for the text.
    pub(crate) fn new(
        format: &'p Format,
        values: &'p [Value<'a>],
        budget: &Budget<'_>,
    ) -> Option<Self> {
        if format.directives.len() != values.len() {
            return None;
        }
        let (mut steps, mut length) = (values.len(), format.length);
        for ((_, verb), value) in format.directives.iter().zip(values) {
            match (value.as_utf8(), verb) {
                (Some(text), Verb::Value | Verb::Text) => {
                    length = length.saturating_add(text.len())
                }
                (Some(_), Verb::Integer) => return None,
                (None, verb) => match (value.view(), verb) {
                    // An integer takes a step as a directive and one as a value.
                    (View::Number(number), Verb::Value | Verb::Integer) => {
                        number.as_int()?;
                        steps += 1;
                    }
                    (View::Number(_) | View::String(_), _) | (_, Verb::Integer) => return None,
                    _ => {}
                },
            }
        }
        (length as u64 <= budget.bytes_left() / 2).then_some(Self { format, values, steps, length })
    }

    /// The text. `text` is the format as it is written, `out` memory to be used.
    pub(crate) fn print(
        &self,
        text: &str,
        context: &mut Context<'a>,
        out: &mut String,
    ) -> Result<Value<'a>, BuiltinError> {
        out.clear();
        let printed = self.print_to(text, context, out);
        if out.capacity() > MANY {
            *out = String::new();
        }
        printed
    }

    fn print_to(
        &self,
        text: &str,
        context: &mut Context<'a>,
        out: &mut String,
    ) -> Result<Value<'a>, BuiltinError> {
        let budget = context.heap.budget();
        context.scan(text)?;
        out.reserve(self.length.saturating_add(ROOM));
        for ((before, _), value) in self.format.directives.iter().zip(self.values) {
            out.push_str(before);
            match (value.as_utf8(), value.view()) {
                (Some(text), _) => out.push_str(text),
                (None, View::Number(number)) => {
                    let _ = write!(out, "{}", number.as_int().unwrap_or_default());
                }
                (None, _) => value.append_text(out, budget)?,
            }
        }
        out.push_str(&self.format.end);
        let (steps, bytes) = (self.steps as u64, out.len() as u64);
        if budget.steps_left() < steps || budget.bytes_left() / 2 < bytes {
            return self.print_while_it_lasts(text, context);
        }
        context.spend(self.steps)?;
        budget.allocate_again(bytes, bytes)?;
        Ok(context.heap.charged_string(out))
    }

    /// The same where the budget ends in the middle.
    #[cold]
    fn print_while_it_lasts(
        &self,
        format: &str,
        context: &Context<'a>,
    ) -> Result<Value<'a>, BuiltinError> {
        let printed = self.values.iter().map(|value| match value.view() {
            View::String(text) => Ok(gofmt::Arg::String(Cow::Borrowed(text))),
            View::Number(number) => Ok(numeric(number)),
            // Its text has been paid for.
            _ => Ok(gofmt::Arg::String(Cow::Owned(value.to_text(&Budget::unlimited())?))),
        });
        let printed = printed.collect::<Result<Vec<_>, BuiltinError>>()?;
        Ok(context.heap.charged_string(&formatted(context, format, &printed)?))
    }
}
