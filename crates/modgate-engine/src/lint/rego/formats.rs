//! The formats of `sprintf` and their values.

use modgate_rego::ast::{Term, TermKind};
use modgate_value::Value;

use super::{Binding, Paths, RegoFinding, Variables, counts, dotted, name_of, text};
use crate::{Code, constraint::verbs};

impl<'m> Paths<'m> {
    /// A mistake in the values of a format: they are not a list, their number differs from that of
    /// the verbs, or a verb does not take the type of its value.
    pub(super) fn format(
        &self,
        operator: &Term,
        arguments: &'m [Term],
        (variables, bindings): (&Variables<'m>, &[Binding<'m>]),
        found: &mut Vec<RegoFinding>,
    ) {
        let ([format, values, ..], Some("sprintf")) = (arguments, dotted(operator).as_deref())
        else {
            return;
        };
        let list = Value::from(Vec::new());
        if self.never_is(values, variables, &list).is_some() {
            found.push(RegoFinding {
                code: Code::FormatArguments,
                span: values.span,
                message: "the values of a format are a list, and this is none, so it is undefined"
                    .to_owned(),
                help: Some("put it in brackets: `sprintf(\"%v\", [value])`".to_owned()),
            });
        }
        let name = name_of(Some(values));
        let mut bound = bindings.iter().filter(|it| Some(it.name) == name && !it.element);
        let bound = match (&values.kind, bound.next(), bound.next()) {
            (TermKind::Array(values), ..) => values,
            (_, Some(Binding { term: Term { kind: TermKind::Array(bound), .. }, .. }), None) => {
                bound
            }
            _ => return,
        };
        let Some(written) = text(format) else { return };
        let Some(wanted) = verbs(written) else { return };
        if wanted.len() != bound.len() {
            // Those of a literal list have a warning already.
            if name.is_some() {
                found.push(RegoFinding {
                    code: Code::FormatArguments,
                    span: values.span,
                    message: counts(wanted.len(), bound.len()),
                    help: None,
                });
            }
            return;
        }
        for (verb, value) in wanted.into_iter().zip(bound) {
            let Some((message, span)) = self.verb(verb, format, value, variables) else { continue };
            let help = Some("`%v` is for every value".to_owned());
            found.push(RegoFinding { code: Code::FormatArguments, span, message, help });
        }
    }

    /// Why a verb does not show a value, and what to mark.
    fn verb(
        &self,
        verb: char,
        format: &Term,
        value: &'m Term,
        variables: &Variables<'m>,
    ) -> Option<(String, modgate_rego::ast::Span)> {
        if !KNOWN.contains(verb) {
            return Some((format!("there is no verb `%{verb}`"), format.span));
        }
        // Whatever is no number comes to the format as a text.
        let is_number = match &value.kind {
            TermKind::Number(_) => Some(true),
            TermKind::String(_)
            | TermKind::Bool(_)
            | TermKind::Null
            | TermKind::Array(_)
            | TermKind::Object(_)
            | TermKind::Set(_) => Some(false),
            TermKind::Call(operator, _) => match dotted(operator).as_deref() {
                Some("count" | "plus" | "minus" | "mul" | "div" | "rem" | "to_number" | "sum") => {
                    Some(true)
                }
                Some("concat" | "lower" | "upper" | "sprintf" | "trim_space" | "json.marshal") => {
                    Some(false)
                }
                _ => None,
            },
            _ => {
                let is_never = |example: Value| self.never_is(value, variables, &example);
                match (is_never(Value::from(1)), is_never(Value::from(""))) {
                    (None, Some(words)) => (words == "a number").then_some(true),
                    (Some(_), _) => Some(false),
                    (None, None) => None,
                }
            }
        };
        let what = match (is_number?, verb) {
            (true, 's' | 't') => "a number",
            (false, verb) if NUMBERS.contains(verb) => "no number",
            _ => return None,
        };
        let message = format!(
            "the value is {what}, which `%{verb}` is not for: the message has `%!{verb}(…)`"
        );
        Some((message, value.span))
    }
}

/// The verbs of Go.
const KNOWN: &str = "vTtbcdoOqxXUeEfFgGsp";

/// Those that are for numbers only.
const NUMBERS: &str = "bcdoOUeEfFgG";
