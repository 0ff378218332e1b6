//! Changes of CEL.

use modgate_cel::{
    ast::{Expr, Kind, Literal, Macro},
    parse,
};
use modgate_value::diag::Span;

use super::{Change, MutantList, comparisons, edited};
use crate::value::Step;

/// Adds the changes of an expression; none of one that does not parse.
pub(super) fn expression(text: &str, path: &[Step], found: &mut MutantList) {
    let Ok(expr) = parse(text) else { return };
    Finder { text, path, found }.expr(&expr);
}

struct Finder<'f> {
    text: &'f str,
    path: &'f [Step],
    found: &'f mut MutantList,
}

impl Finder<'_> {
    /// Adds a change, unless the text is no expression then.
    fn add(&mut self, change: Change, span: Span, with: &str) {
        if parse(&edited(self.text, span, with)).is_ok() {
            self.found.text(change, self.path, span, with);
        }
    }

    /// As deep as the expression, which the parser bounds.
    fn expr(&mut self, expr: &Expr) {
        let written = self.text.get(expr.span.start..expr.span.end).unwrap_or_default();
        match &expr.kind {
            Kind::Literal(literal) => self.literal(literal, written, expr.span),
            Kind::Call { function, target: None, args } => {
                self.operator(function, args, written, expr.span);
            }
            Kind::Macro { which, .. } => self.quantifier(*which, expr.span),
            Kind::List(elements) if elements.len() > 1 => {
                for element in elements {
                    self.element(element.value.extent());
                }
            }
            _ => {}
        }
        expr.for_each_part(&mut |part| self.expr(part));
    }

    fn literal(&mut self, literal: &Literal, written: &str, span: Span) {
        let other = match literal {
            Literal::Bool(value) => (!value).to_string(),
            // The token of a negative number is its sign.
            Literal::Int(value) if *value >= 0 => value.saturating_add(1).to_string(),
            Literal::Uint(value) => format!("{}u", value.saturating_add(1)),
            Literal::String(text) if text.is_empty() => "'mutant'".to_owned(),
            Literal::String(_) => "''".to_owned(),
            _ => return,
        };
        if other != written {
            self.add(Change::Constant, span, &other);
        }
    }

    fn operator(&mut self, function: &str, args: &[Expr], written: &str, span: Span) {
        for other in comparisons(written) {
            self.add(Change::Compared, span, other);
        }
        match (function, args) {
            ("!_", _) => self.add(Change::Negation, span, ""),
            ("_&&_", [left, right]) => {
                self.add(Change::Logic, span, "||");
                self.side(left, right, span, "_&&_");
            }
            ("_||_", [left, right]) => {
                self.add(Change::Logic, span, "&&");
                self.side(left, right, span, "_||_");
            }
            ("_?_:_", [condition, ..]) => {
                let start = self.start(condition.extent().start, span.start);
                for constant in ["true ", "false "] {
                    self.add(Change::Logic, Span::new(start, span.start), constant);
                }
            }
            _ => {}
        }
    }

    /// `a && b` without `a`, and without `b`. Of a chain, each link is left out once.
    fn side(&mut self, left: &Expr, right: &Expr, operator: Span, function: &str) {
        let is_link = |expr: &Expr| matches!(&expr.kind, Kind::Call { function: other, .. } if other == function);
        if !is_link(left) {
            let start = self.start(left.extent().start, operator.start);
            let end = operator.end + self.spaces(operator.end);
            self.add(Change::Dropped, Span::new(start, end), "");
        }
        if !is_link(right) {
            let end = self.end(operator.end, function);
            let before = self.text.get(..operator.start).unwrap_or_default().trim_end().len();
            self.add(Change::Dropped, Span::new(before, end), "");
        }
    }

    fn spaces(&self, at: usize) -> usize {
        let rest = self.text.get(at..).unwrap_or_default();
        rest.len() - rest.trim_start().len()
    }

    /// Where an operand starts that has `from` in it and ends at `to`: with the parentheses that are
    /// closed in between.
    fn start(&self, from: usize, to: usize) -> usize {
        let mut open = 0_i32;
        for_each_symbol(self.text.get(from..to).unwrap_or_default(), &mut |_, symbol| {
            open += match symbol {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            true
        });
        let mut start = from;
        while open < 0 {
            let before = self.text.get(..start).unwrap_or_default().trim_end();
            let Some(shorter) = before.strip_suffix('(') else { break };
            start = shorter.len();
            open += 1;
        }
        start
    }

    /// Where the right operand of an operator ends, which starts at `from`.
    fn end(&self, from: usize, function: &str) -> usize {
        let rest = self.text.get(from..).unwrap_or_default();
        let mut depth = 0_i32;
        let mut end = rest.len();
        for_each_symbol(rest, &mut |at, symbol| {
            let here = rest.get(at..).unwrap_or_default();
            match symbol {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            let ends = depth < 0
                || (depth == 0
                    && (matches!(symbol, ',' | ':')
                        || here.starts_with("||")
                        || (function == "_&&_" && here.starts_with("&&"))
                        || here.starts_with("? ")));
            if ends {
                end = at;
            }
            !ends
        });
        let kept = rest.get(..end).unwrap_or_default().trim_end();
        from + kept.len()
    }

    /// An element of a list, which has another one in front or behind.
    fn element(&mut self, extent: Span) {
        let end = self.end(extent.start, "");
        let after = self.text.get(end..).unwrap_or_default();
        let space = after.len() - after.trim_start().len();
        let span = match after.trim_start().starts_with(',') {
            true => {
                let next = end + space + 1;
                Span::new(extent.start, next + self.spaces(next))
            }
            false => {
                let before = self.text.get(..extent.start).unwrap_or_default().trim_end();
                let Some(before) = before.strip_suffix(',') else { return };
                Span::new(before.len(), end)
            }
        };
        self.add(Change::Element, span, "");
    }

    /// `all` and `exists` for one another.
    fn quantifier(&mut self, which: Macro, paren: Span) {
        let (name, other) = match which {
            Macro::All => ("all", "exists"),
            Macro::Exists => ("exists", "all"),
            _ => return,
        };
        let before = self.text.get(..paren.start).unwrap_or_default();
        if before.ends_with(name) {
            self.add(Change::Logic, Span::new(before.len() - name.len(), paren.start), other);
        }
    }
}

/// Calls `visit` with each character that is not in a text, and its place, until it returns `false`.
fn for_each_symbol(text: &str, visit: &mut dyn FnMut(usize, char) -> bool) {
    let mut quote = None;
    let mut escaped = false;
    for (at, symbol) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if symbol == '\\' => escaped = true,
            Some(open) if symbol == open => quote = None,
            Some(_) => {}
            None if matches!(symbol, '\'' | '"') => quote = Some(symbol),
            None if !visit(at, symbol) => return,
            None => {}
        }
    }
}
