//! Changes of Rego.

use modgate_engine::rego::{
    RegoVersion,
    ast::{self, Expr, ExprKind, HeadKind, Term, TermKind},
    parse_module,
};
use modgate_value::diag::Span;

use super::{Change, MutantList, comparisons};
use crate::value::Step;

/// Adds the changes of a module; none of one that does not parse.
pub(super) fn module(text: &str, version: RegoVersion, path: &[Step], found: &mut MutantList) {
    let Ok(module) = parse_module("module", text, version) else { return };
    let mut finder = Finder { text, path, found };
    for rule in &module.rules {
        finder.rule(rule);
    }
}

struct Finder<'f> {
    text: &'f str,
    path: &'f [Step],
    found: &'f mut MutantList,
}

impl Finder<'_> {
    fn add(&mut self, change: Change, span: Span, with: &str) {
        self.found.text(change, self.path, span, with);
    }

    fn rule(&mut self, rule: &ast::Rule) {
        self.add(Change::Rule, span(rule.span), "");
        for arg in rule.head.args.iter().flatten() {
            self.term(arg);
        }
        match &rule.head.kind {
            HeadKind::Value { value, .. } => self.term(value),
            HeadKind::Member(member) => self.term(member),
        }
        self.body(&rule.body);
        for branch in &rule.els {
            self.add(Change::Rule, span(branch.span), "");
            self.term(&branch.value);
            self.body(&branch.body);
        }
    }

    fn body(&mut self, body: &[Expr]) {
        for expr in body.iter().filter(|expr| !expr.generated) {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        let whole = span(expr.span);
        let end = expr.with.last().map_or(whole.end, |with| with.span.end as usize);
        let written = self.text.get(whole.start..whole.end).unwrap_or_default();
        // `true` holds as an expression that is not there, and every body may have it.
        if !matches!(written, "" | "true") && !matches!(expr.kind, ExprKind::Some(_)) {
            self.add(Change::Dropped, Span::new(whole.start, end), "true");
        }
        if let Some(rest) = written.strip_prefix("not")
            && rest.starts_with(char::is_whitespace)
        {
            let length = written.len() - rest.trim_start().len();
            self.add(Change::Negation, Span::new(whole.start, whole.start + length), "");
        }
        match &expr.kind {
            ExprKind::Term(term) => self.term(term),
            ExprKind::Some(_) => {}
            ExprKind::SomeIn { domain, .. } => self.term(domain),
            ExprKind::Not(body) => body.iter().for_each(|inner| match &inner.kind {
                // The negated expression itself has been left out.
                ExprKind::Term(term) => self.term(term),
                _ => self.expr(inner),
            }),
            ExprKind::Every { domain, body, .. } => {
                self.term(domain);
                self.body(body);
            }
        }
    }

    /// As deep as the term, which the parser bounds.
    fn term(&mut self, term: &Term) {
        let place = span(term.span);
        let written = self.text.get(place.start..place.end).unwrap_or_default();
        match &term.kind {
            TermKind::Null | TermKind::Var(_) => {}
            TermKind::Bool(value) if written == value.to_string() => {
                self.add(Change::Constant, place, if *value { "false" } else { "true" });
            }
            TermKind::Number(_) => {
                if let Ok(number) = written.parse::<i64>() {
                    self.add(Change::Constant, place, &number.saturating_add(1).to_string());
                }
            }
            // The fields of references are texts, too.
            TermKind::String(text) if written.starts_with(['"', '`']) => {
                let is_empty = text.is_empty();
                self.add(Change::Constant, place, if is_empty { "\"mutant\"" } else { "\"\"" });
            }
            TermKind::Bool(_) | TermKind::String(_) => {}
            TermKind::Ref(parts) => parts.iter().for_each(|part| self.term(part)),
            TermKind::Array(items) | TermKind::Set(items) => {
                self.elements(items);
                items.iter().for_each(|item| self.term(item));
            }
            TermKind::Object(pairs) => pairs.iter().for_each(|(_, value)| self.term(value)),
            TermKind::ArrayComprehension(head, body) | TermKind::SetComprehension(head, body) => {
                self.term(head);
                self.body(body);
            }
            TermKind::ObjectComprehension(head, body) => {
                self.term(&head.0);
                self.term(&head.1);
                self.body(body);
            }
            TermKind::Call(operator, args) => self.call(operator, args),
            TermKind::Template(_) => {}
        }
    }

    fn call(&mut self, operator: &Term, args: &[Term]) {
        let place = span(operator.span);
        let written = self.text.get(place.start..place.end).unwrap_or_default();
        for other in comparisons(written) {
            self.add(Change::Compared, place, other);
        }
        let other = match written {
            "&" => Some("|"),
            "|" => Some("&"),
            "+" => Some("-"),
            "-" => Some("+"),
            _ => None,
        };
        if let Some(other) = other {
            self.add(Change::Logic, place, other);
        }
        match args {
            // A message without one of its values is another message, not another decision.
            [format, Term { kind: TermKind::Array(values), .. }] if written == "sprintf" => {
                let place = span(format.span);
                self.add(Change::Message, place, "\"\"");
                values.iter().for_each(|value| self.term(value));
            }
            args => args.iter().for_each(|arg| self.term(arg)),
        }
    }

    fn elements(&mut self, items: &[Term]) {
        for (index, item) in items.iter().enumerate().filter(|_| items.len() > 1) {
            let place = span(item.span);
            let place =
                match (items.get(index + 1), index.checked_sub(1).and_then(|it| items.get(it))) {
                    (Some(next), _) => Span::new(place.start, span(next.span).start),
                    (None, Some(before)) => Span::new(span(before.span).end, place.end),
                    (None, None) => continue,
                };
            self.add(Change::Element, place, "");
        }
    }
}

fn span(span: ast::Span) -> Span {
    Span::new(span.start as usize, span.end as usize)
}
