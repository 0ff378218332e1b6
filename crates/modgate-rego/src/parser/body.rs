//! Bodies: literals, `with`, `some` and `every`, and operators.

use modgate_value::Str;

use super::{Mark, Parser};
use crate::{
    ast::{Body, Expr, ExprKind, RegoVersion, Span, Term, TermKind, With},
    lexer::{Keyword, Tok},
};

impl Parser<'_> {
    pub(super) fn query(&mut self) -> Option<Body> {
        if self.at(Tok::Eof) {
            self.error(self.span_here(), "found empty body");
            return None;
        }
        let mut body = Vec::new();
        while !self.at(Tok::Eof) {
            body.push(self.literal()?);
            if self.at(Tok::Semicolon) {
                self.advance();
            }
        }
        Some(body)
    }

    pub(super) fn body(&mut self, end: Tok) -> Option<Body> {
        self.enter()?;
        let body = self.body_inner(end);
        self.leave();
        body
    }

    fn body_inner(&mut self, end: Tok) -> Option<Body> {
        if self.at(end) {
            self.error(self.span_here(), "found empty body");
            return None;
        }
        let mut body = Vec::new();
        let mut height = 0;
        loop {
            self.height = 0;
            body.push(self.literal()?);
            height = height.max(self.height);
            if self.at(Tok::Semicolon) {
                self.advance();
                continue;
            }
            if self.at(end) {
                self.grown(height + 1)?;
                return Some(body);
            }
            if !self.token.newline {
                if self.errors.is_empty() {
                    let note = format!("expected \\n or ; or {}", end.name());
                    self.illegal(&note);
                }
                return None;
            }
        }
    }

    pub(super) fn literal(&mut self) -> Option<Expr> {
        let start = self.token.start;
        if self.keyword_starts_ref() {
            return self.literal_expr(start, false);
        }
        let negated = self.at_keyword(Keyword::Not);
        if negated {
            self.advance();
            if self.not_bodies && self.at(Tok::LBrace) {
                let body = self.braced_body()?;
                let span = self.span_from(start);
                let with = self.withs()?;
                return Some(Expr {
                    kind: ExprKind::Not(body),
                    negated: false,
                    with,
                    span,
                    generated: false,
                });
            }
        }
        match self.token.kind {
            Tok::Keyword(Keyword::Some) if negated => self.fail("illegal negation of 'some'"),
            Tok::Keyword(Keyword::Every) if negated => self.fail("illegal negation of 'every'"),
            Tok::Keyword(Keyword::Some) => self.some(start),
            Tok::Keyword(Keyword::Every) => self.every(start),
            _ => self.literal_expr(start, negated),
        }
    }

    fn literal_expr(&mut self, start: usize, negated: bool) -> Option<Expr> {
        let mark = self.mark();
        let term = self.expr()?;
        let span = self.span_from(start);
        let with = self.withs()?;
        if self.version == RegoVersion::V0
            && matches!(&term.kind, TermKind::Var(name) if name == "every")
            && self.would_parse(mark, |this| this.every(start))
        {
            self.hints
                .push("`import future.keywords.every` for `every x in xs { ... }` expressions");
        }
        if negated && self.not_bodies {
            let inner = Expr {
                kind: ExprKind::Term(term),
                negated: false,
                with: Vec::new(),
                span,
                generated: false,
            };
            let kind = ExprKind::Not(vec![inner]);
            return Some(Expr { kind, negated: false, with, span, generated: false });
        }
        Some(Expr { kind: ExprKind::Term(term), negated, with, span, generated: false })
    }

    /// Whether something could be parsed at `mark` if all future keywords were on.
    fn would_parse<T>(&mut self, mark: Mark, parse: impl FnOnce(&mut Self) -> Option<T>) -> bool {
        let here = self.mark();
        let (depth, wildcards) = (self.depth, self.wildcards);
        let keywords = std::mem::replace(&mut self.keywords, u8::MAX);
        self.reset(mark);
        let parsed = parse(self).is_some();
        self.keywords = keywords;
        (self.depth, self.wildcards) = (depth, wildcards);
        self.reset(here);
        parsed
    }

    fn withs(&mut self) -> Option<Vec<With>> {
        let mut withs = Vec::new();
        while self.at_keyword(Keyword::With) {
            let start = self.token.start;
            self.advance();
            if !self.at(Tok::Ident) {
                return self.fail("expected ident");
            }
            let target = self.term()?;
            if !matches!(target.kind, TermKind::Var(_) | TermKind::Ref(_)) {
                return self.fail("expected with target path");
            }
            if !self.at_keyword(Keyword::As) {
                return self.fail("expected as keyword");
            }
            self.advance();
            let value = self.infix()?;
            withs.push(With { target, value, span: self.span_from(start) });
        }
        Some(withs)
    }

    fn some(&mut self, start: usize) -> Option<Expr> {
        let mark = self.mark();
        self.advance();
        if let Some(term) = self.infix()
            && let TermKind::Call(operator, mut args) = term.kind
        {
            let is_in = is_member_operator(&operator);
            if !is_in {
                return self.fail("expected `x in xs` or `x, y in xs` expression");
            }
            let (Some(domain), Some(value)) = (args.pop(), args.pop()) else {
                return self.fail("illegal domain");
            };
            let kind = ExprKind::SomeIn { key: args.pop(), value, domain };
            let span = self.span_from(start);
            let with = self.withs()?;
            return Some(Expr { kind, negated: false, with, span, generated: false });
        }
        self.reset(mark);
        if self.version == RegoVersion::V0
            && self.would_parse(mark, |this| {
                this.advance();
                let is_in = |term: &Term| {
                    matches!(&term.kind, TermKind::Call(operator, _) if is_member_operator(operator))
                };
                this.infix().filter(is_in)
            })
        {
            self.hints.push("`import future.keywords.in` for `some x in xs` expressions");
        }
        let mut names = Vec::new();
        loop {
            self.advance();
            if !self.at(Tok::Ident) {
                return self.fail("expected var");
            }
            let span = self.span_here();
            if let TermKind::Var(name) = self.var().kind {
                names.push((name, span));
            }
            self.advance();
            if !self.at(Tok::Comma) {
                break;
            }
        }
        Some(Expr {
            kind: ExprKind::Some(names),
            negated: false,
            with: Vec::new(),
            span: self.span_from(start),
            generated: false,
        })
    }

    fn every(&mut self, start: usize) -> Option<Expr> {
        self.advance();
        let term = self.infix()?;
        let TermKind::Call(operator, mut args) = term.kind else {
            return self.fail("expected `x[, y] in xs { ... }` expression");
        };
        if !is_member_operator(&operator) {
            return self.fail("expected `x[, y] in xs { ... }` expression");
        }
        let (Some(domain), Some(value)) = (args.pop(), args.pop()) else {
            return self.fail("illegal domain");
        };
        let key = args.pop();
        if key.as_ref().is_some_and(|key| !matches!(key.kind, TermKind::Var(_))) {
            return self.fail("expected key to be a variable");
        }
        if !matches!(value.kind, TermKind::Var(_)) {
            return self.fail("expected value to be a variable");
        }
        if !self.at(Tok::LBrace) {
            return self.fail("missing body");
        }
        let body = self.braced_body()?;
        let span = self.span_from(start);
        let with = self.withs()?;
        let kind = ExprKind::Every { key, value, domain, body };
        Some(Expr { kind, negated: false, with, span, generated: false })
    }

    fn expr(&mut self) -> Option<Term> {
        let start = self.token.start;
        let left = self.infix()?;
        let height = self.height;
        let name = match self.token.kind {
            Tok::Assign => "assign",
            Tok::Unify => "eq",
            _ => return Some(left),
        };
        let operator = operator_term(name, self.span_here());
        self.advance();
        let right = self.infix()?;
        self.grown(height.max(self.height) + 1)?;
        Some(Term {
            kind: TermKind::Call(Box::new(operator), vec![left, right]),
            span: self.span_from(start),
        })
    }

    // Terms, loosest operator first.

    pub(super) fn infix(&mut self) -> Option<Term> {
        self.infix_from(None, true)
    }

    pub(super) fn infix_in_list(&mut self) -> Option<Term> {
        self.infix_from(None, false)
    }

    /// `left` is a term that was parsed already.
    pub(super) fn infix_from(&mut self, left: Option<(Term, usize)>, pairs: bool) -> Option<Term> {
        self.membership(left, pairs)
    }

    fn membership(&mut self, left: Option<(Term, usize)>, pairs: bool) -> Option<Term> {
        let mut left = self.binary(left, 0)?;
        let mut height = self.height;
        loop {
            if pairs && self.at(Tok::Comma) {
                let mark = self.mark();
                self.advance();
                if let Some(middle) = self.binary(None, 0)
                    && self.at_keyword(Keyword::In)
                {
                    let operator = member_operator("member_3", self.span_here());
                    let height_middle = self.height;
                    self.advance();
                    if let Some(right) = self.binary(None, 0) {
                        height = height.max(height_middle).max(self.height) + 1;
                        self.grown(height)?;
                        let span = left.span.to(right.span);
                        let args = vec![left, middle, right];
                        left = Term { kind: TermKind::Call(Box::new(operator), args), span };
                        if self.at_keyword(Keyword::In) {
                            continue;
                        }
                        return Some(left);
                    }
                }
                self.reset(mark);
            }
            self.keyword_starts_ref();
            if !self.at_keyword(Keyword::In) {
                self.height = height;
                return Some(left);
            }
            let operator = member_operator("member_2", self.span_here());
            self.advance();
            // As OPA, which goes on after the error for what the operator leaves.
            let Some(right) = self.binary(None, 0) else {
                self.height = height;
                return Some(left);
            };
            height = height.max(self.height) + 1;
            self.grown(height)?;
            let span = left.span.to(right.span);
            left = Term { kind: TermKind::Call(Box::new(operator), vec![left, right]), span };
            if !self.at_keyword(Keyword::In) {
                return Some(left);
            }
        }
    }

    fn binary(&mut self, left: Option<(Term, usize)>, level: usize) -> Option<Term> {
        let (mut left, mut height) = match left {
            Some(parsed) => parsed,
            None => {
                let term = self.term()?;
                (term, self.height)
            }
        };
        while let Some((name, own)) = infix_operator(self.token.kind) {
            if own < level {
                break;
            }
            let operator = operator_term(name, self.span_here());
            self.advance();
            let Some(right) = self.binary(None, own + 1) else { break };
            height = height.max(self.height) + 1;
            self.grown(height)?;
            let span = left.span.to(right.span);
            left = Term { kind: TermKind::Call(Box::new(operator), vec![left, right]), span };
        }
        self.height = height;
        Some(left)
    }
}

pub(super) fn is_member_operator(operator: &Term) -> bool {
    match &operator.kind {
        TermKind::Ref(parts) => match parts.as_slice() {
            [
                Term { kind: TermKind::Var(package), .. },
                Term { kind: TermKind::String(name), .. },
            ] => package == "internal" && name.starts_with("member_"),
            _ => false,
        },
        _ => false,
    }
}

pub(super) fn operator_term(name: &'static str, span: Span) -> Term {
    let var = Term { kind: TermKind::Var(Str::new_static(name)), span };
    Term { kind: TermKind::Ref(vec![var]), span }
}

fn member_operator(name: &'static str, span: Span) -> Term {
    let package = Term { kind: TermKind::Var(Str::new_static("internal")), span };
    let name = Term { kind: TermKind::String(Str::new_static(name)), span };
    Term { kind: TermKind::Ref(vec![package, name]), span }
}

/// The built-in an infix operator stands for, and how tightly it binds.
fn infix_operator(kind: Tok) -> Option<(&'static str, usize)> {
    Some(match kind {
        Tok::Equal => ("equal", 0),
        Tok::Neq => ("neq", 0),
        Tok::Lt => ("lt", 0),
        Tok::Gt => ("gt", 0),
        Tok::Lte => ("lte", 0),
        Tok::Gte => ("gte", 0),
        Tok::Or => ("or", 1),
        Tok::And => ("and", 2),
        Tok::Add => ("plus", 3),
        Tok::Sub => ("minus", 3),
        Tok::Mul => ("mul", 4),
        Tok::Quo => ("div", 4),
        Tok::Rem => ("rem", 4),
        _ => return None,
    })
}
