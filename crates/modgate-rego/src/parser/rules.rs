//! Rules: heads, bodies and `else`.

use modgate_value::Str;

use super::{Parser, body::infix_operator};
use crate::{
    ast::{Body, Else, Expr, ExprKind, Head, HeadKind, Rule, Span, Term, TermKind, is_ground},
    lexer::{Keyword, Tok},
};

/// The head of a rule while its body is not parsed yet.
struct RuleHead {
    name: Vec<Term>,
    args: Option<Vec<Term>>,
    member: Option<Term>,
    value: Option<Term>,
    assigned: bool,
    span: Span,
}

impl Parser<'_> {
    pub(super) fn rules(&mut self, rules: &mut Vec<Rule>) -> Option<()> {
        let start = self.token.start;
        self.keyword_starts_ref();
        let default = self.at_keyword(Keyword::Default);
        if default {
            self.advance();
            self.keyword_starts_ref();
        }
        if !self.at(Tok::Ident) && !self.at_keyword(Keyword::Contains) {
            return self.not_a_rule(default);
        }
        let mut head = self.head(default)?;
        if default {
            return self.default_rule(start, head, rules);
        }
        let has_if = self.at_keyword(Keyword::If);
        let has_brace = self.at(Tok::LBrace);
        let contains = head.member.is_some();
        let function = head.args.is_some();
        let mut generated_value = false;
        // `p[x] { .. }` and a bare `p[x]` define a set, in version 0.
        if !has_if && !contains && !function && head.name.len() == 2 && head.value.is_none() {
            head.member = head.name.pop();
        } else if !contains && !function && head.value.is_none() {
            generated_value = true;
        }
        let bodiless = !has_if && !has_brace;
        if bodiless && !contains && head.value.is_none() {
            self.check_bare_head(&head)?;
        }
        let sort = if function { "function" } else { "rule" };
        let kind = match head.member {
            Some(member) => HeadKind::Member(member),
            None => HeadKind::Value {
                value: head.value.unwrap_or(true_term(head.span)),
                assigned: head.assigned,
            },
        };
        let is_set = matches!(kind, HeadKind::Member(_));
        let ground = head.name.iter().skip(1).all(is_ground);
        let dotted = head.name.len() > 1;
        let keyword_name = match head.name.as_slice() {
            [Term { kind: TermKind::Var(name), .. }] => Keyword::from_name(name).map(Keyword::name),
            _ => None,
        };
        let head = Head { name: head.name, args: head.args, kind, span: head.span };

        let body = if has_if {
            self.advance();
            self.if_body()?
        } else if has_brace {
            self.braced_body()?
        } else {
            vec![true_expr(head.span)]
        };
        let mut els = Vec::new();
        if !bodiless && self.at_keyword(Keyword::Else) && !self.keyword_starts_ref() {
            let problem = if dotted && !ground {
                Some("else keyword cannot be used on rules with variables in head")
            } else if is_set {
                Some("else keyword cannot be used on multi-value rules")
            } else {
                None
            };
            if let Some(problem) = problem {
                self.error(self.span_here(), problem);
                return None;
            }
            self.else_chain(&mut els)?;
        }
        let span = self.span_from(start);
        if self.rego_v1 {
            let mut complain = |message: String| self.error_in_statement(span, message);
            if let Some(word) = keyword_name {
                complain(format!("{word} keyword cannot be used for rule name"));
            }
            if bodiless && generated_value {
                complain(format!("{sort} must have value assignment and/or body declaration"));
            }
            if has_brace {
                complain(format!("`if` keyword is required before {sort} body"));
            }
            if is_set && !contains {
                complain("`contains` keyword is required for partial set rules".to_owned());
            }
        }
        rules.push(Rule { head, body, els, default: false, span });
        if bodiless { Some(()) } else { self.more_bodies(sort, rules) }
    }

    /// Further bodies in braces, each of which makes a rule with the head of the last one.
    fn more_bodies(&mut self, sort: &str, rules: &mut Vec<Rule>) -> Option<()> {
        while self.at(Tok::LBrace) {
            let Some(Rule { head, els, .. }) = rules.last() else { break };
            if !els.is_empty() {
                self.error(self.span_here(), "expected else keyword");
                return None;
            }
            let mut head = head.clone();
            let start = self.token.start;
            let body = self.braced_body()?;
            let span = self.span_from(start);
            if self.rego_v1 {
                let message = format!("`if` keyword is required before {sort} body");
                self.error_in_statement(span, message);
            }
            if let Some(args) = &mut head.args {
                args.iter_mut().for_each(|arg| self.renew_wildcards(arg));
            }
            rules.push(Rule { head, body, els: Vec::new(), default: false, span });
        }
        Some(())
    }

    /// The error for a statement that does not begin as rules do. It is parsed as an expression, for
    /// the sake of the message.
    fn not_a_rule(&mut self, default: bool) -> Option<()> {
        if default {
            return self.fail("");
        }
        let expr = self.literal()?;
        let message = match &expr.kind {
            _ if !expr.with.is_empty() => {
                "expressions using with keyword cannot be used for rule head".to_owned()
            }
            _ if expr.negated => "negated expressions cannot be used for rule head".to_owned(),
            ExprKind::Some(_) | ExprKind::SomeIn { .. } => {
                "'some' declarations cannot be used for rule head".to_owned()
            }
            ExprKind::Term(term) => {
                let named = match &term.kind {
                    TermKind::Call(_, args) => args.first().unwrap_or(term),
                    _ => term,
                };
                format!("{} cannot be used for rule name", named.kind.type_name())
            }
            _ => "expression cannot be used for rule head".to_owned(),
        };
        self.error_in_statement(expr.span, message);
        None
    }

    /// The error for a head without value and body that is only an expression after all.
    fn check_bare_head(&mut self, head: &RuleHead) -> Option<()> {
        let named = match head.name.as_slice() {
            [Term { kind: TermKind::Var(name), .. }] => Some(name.as_str()),
            _ => None,
        };
        let is_builtin = |name| crate::builtins::find(name).is_some();
        let problem = if infix_operator(self.token.kind).is_some()
            || (head.args.is_some() && named.is_some_and(is_builtin))
        {
            Some("rule name conflicts with built-in function")
        } else if self.at_keyword(Keyword::With) {
            Some("expressions using with keyword cannot be used for rule head")
        } else if named.is_some() && head.args.is_none() && head.member.is_none() {
            Some("var cannot be used for rule name")
        } else {
            None
        };
        match problem {
            Some(problem) => {
                self.error_in_statement(head.span, problem);
                None
            }
            None => Some(()),
        }
    }

    fn renew_wildcards(&mut self, term: &mut Term) {
        if let TermKind::Var(name) = &mut term.kind
            && name.starts_with('$')
        {
            *name = self.wildcard();
        }
    }

    fn default_rule(&mut self, start: usize, head: RuleHead, rules: &mut Vec<Rule>) -> Option<()> {
        let span = self.span_from(start);
        let value = match head.value {
            Some(value) => value,
            // OPA takes a bare name as `true`, but not `p.q` or `p[q]`.
            None if head.name.len() != 2 => true_term(head.span),
            None => {
                self.error(span, "illegal default rule (must have a value)");
                return None;
            }
        };
        if let Some(sort) = not_constant(&value) {
            self.error(span, format!("illegal default rule (value cannot contain {sort})"));
            return None;
        }
        let mut seen: Vec<&Str> = Vec::new();
        for arg in head.args.iter().flatten() {
            let message = match &arg.kind {
                TermKind::Var(name) if seen.contains(&name) => {
                    format!("illegal default rule (arguments cannot be repeated {name})")
                }
                TermKind::Var(name) => {
                    seen.push(name);
                    continue;
                }
                other => {
                    format!("illegal default rule (arguments cannot contain {})", other.type_name())
                }
            };
            self.error(span, message);
            return None;
        }
        let kind = HeadKind::Value { value, assigned: head.assigned };
        rules.push(Rule {
            head: Head { name: head.name, args: head.args, kind, span: head.span },
            body: vec![true_expr(span)],
            els: Vec::new(),
            default: true,
            span,
        });
        Some(())
    }

    fn head(&mut self, default: bool) -> Option<RuleHead> {
        let start = self.token.start;
        let first = self.var();
        self.advance();
        match self.token.kind {
            Tok::Add
            | Tok::Sub
            | Tok::Mul
            | Tok::Quo
            | Tok::Rem
            | Tok::And
            | Tok::Or
            | Tok::Equal
            | Tok::Neq
            | Tok::Gt
            | Tok::Gte
            | Tok::Lt
            | Tok::Lte
                if !self.token.space =>
            {
                return self.fail("");
            }
            _ => {}
        }
        // Unlike anywhere else, white space may stand before what continues the name.
        let term = match self.token.kind {
            Tok::LParen | Tok::Dot | Tok::LBrack => self.reference(first, start)?,
            _ => first,
        };
        let mut head = RuleHead {
            name: Vec::new(),
            args: None,
            member: None,
            value: None,
            assigned: false,
            span: self.span_from(start),
        };
        match term.kind {
            TermKind::Ref(name) => head.name = name,
            TermKind::Call(operator, args) => {
                match operator.kind {
                    TermKind::Ref(name) => head.name = name,
                    _ => head.name = vec![*operator],
                }
                head.args = Some(args);
            }
            _ => head.name = vec![term],
        }
        if !matches!(head.name.first(), Some(Term { kind: TermKind::Var(_), .. })) {
            return self.fail("expected rule head name");
        }
        let name = self
            .text
            .get(start..self.last_end)
            .and_then(|text| text.split('(').next())
            .unwrap_or("")
            .to_owned();
        self.head_value(&mut head, &name, default)?;
        head.span = self.span_from(start);
        Some(head)
    }

    /// The key after `contains`, or the value after `=` or `:=`. `name` is for messages.
    fn head_value(&mut self, head: &mut RuleHead, name: &str, default: bool) -> Option<()> {
        match self.token.kind {
            Tok::Keyword(Keyword::Contains) => {
                if head.args.is_some() {
                    self.illegal(&format!(
                        "the contains keyword can only be used with multi-value rule definitions \
                         (e.g., {name} contains <VALUE> {{ ... }})"
                    ));
                }
                self.advance();
                let Some(member) = self.infix() else {
                    let note =
                        format!("expected rule key term (e.g., {name} contains <VALUE> {{ ... }})");
                    return self.fail(&note);
                };
                head.member = Some(member);
            }
            Tok::Unify => {
                self.advance();
                let Some(value) = self.infix() else {
                    let note = format!(
                        "expected rule value term (e.g., {name}[<nil>] = <VALUE> {{ ... }})"
                    );
                    return self.fail(&note);
                };
                head.value = Some(value);
            }
            Tok::Assign => {
                self.advance();
                head.assigned = true;
                let Some(value) = self.infix() else {
                    let note = if head.args.as_ref().is_some_and(|args| !args.is_empty()) {
                        format!(
                            "expected function value term (e.g., {name}(...) := <VALUE> {{ ... }})"
                        )
                    } else if default {
                        format!(
                            "expected default rule value term (e.g., default {name} := <VALUE>)"
                        )
                    } else {
                        format!("expected rule value term (e.g., {name} := <VALUE> {{ ... }})")
                    };
                    return self.fail(&note);
                };
                head.value = Some(value);
            }
            _ => {}
        }
        Some(())
    }

    pub(super) fn braced_body(&mut self) -> Option<Body> {
        self.advance();
        let body = self.body(Tok::RBrace)?;
        self.advance();
        Some(body)
    }

    /// Parses after `if`: one expression, or a body in braces.
    fn if_body(&mut self) -> Option<Body> {
        let mark = self.mark();
        if let Some(expr) = self.literal() {
            // A set is never false, so `p if { true }` cannot mean one.
            let is_set = matches!(&expr.kind, ExprKind::Term(Term { kind: TermKind::Set(_), .. }));
            if !is_set || mark.token.kind != Tok::LBrace {
                return Some(vec![expr]);
            }
        }
        // Like OPA, whatever stands where the brace should is skipped.
        self.reset(mark);
        self.braced_body()
    }

    fn else_chain(&mut self, els: &mut Vec<Else>) -> Option<()> {
        while self.at_keyword(Keyword::Else) && !(els.is_empty() && self.keyword_starts_ref()) {
            let start = self.token.start;
            self.advance();
            let value = match self.token.kind {
                Tok::LBrace | Tok::Keyword(Keyword::If) => true_term(self.span(start, start + 4)),
                Tok::Assign | Tok::Unify => {
                    self.advance();
                    self.infix()?
                }
                _ => return self.fail("expected else value term or rule body"),
            };
            let has_if = self.at_keyword(Keyword::If);
            if has_if {
                self.advance();
            }
            let body = if self.at(Tok::LBrace) {
                if !has_if && self.rego_v1 {
                    let span = self.span(start, self.token.end);
                    self.error_in_statement(span, "`if` keyword is required before rule body");
                }
                self.braced_body()?
            } else if has_if {
                if self.at(Tok::Eof) {
                    return self.fail("rule body expected");
                }
                vec![self.literal()?]
            } else {
                els.push(Else {
                    body: vec![true_expr(value.span)],
                    value,
                    span: self.span_from(start),
                });
                return Some(());
            };
            els.push(Else { value, body, span: self.span_from(start) });
        }
        Some(())
    }
}

fn true_term(span: Span) -> Term {
    Term { kind: TermKind::Bool(true), span }
}

fn true_expr(span: Span) -> Expr {
    Expr {
        kind: ExprKind::Term(true_term(span)),
        negated: false,
        with: Vec::new(),
        span,
        generated: true,
    }
}

/// The first thing that keeps a term from being constant; comprehensions are let through, as in
/// OPA.
fn not_constant(term: &Term) -> Option<&'static str> {
    match &term.kind {
        TermKind::Null
        | TermKind::Bool(_)
        | TermKind::Number(_)
        | TermKind::String(_)
        | TermKind::ArrayComprehension(..)
        | TermKind::SetComprehension(..)
        | TermKind::ObjectComprehension(..) => None,
        TermKind::Array(items) | TermKind::Set(items) => items.iter().find_map(not_constant),
        TermKind::Object(pairs) => {
            pairs.iter().find_map(|(k, v)| not_constant(k).or_else(|| not_constant(v)))
        }
        TermKind::Ref(_) => Some("ref"),
        TermKind::Var(_) => Some("var"),
        TermKind::Call(..) => Some("call"),
        TermKind::Template(_) => Some("templatestring"),
    }
}
