//! Rules: heads, bodies and `else`.

use modgate_value::Str;

use super::{Parser, body::is_member_operator};
use crate::{
    ast::{Body, Else, Expr, ExprKind, Head, HeadKind, Rule, Span, Term, TermKind, is_ground},
    lexer::{Keyword, Tok},
    mistake::SyntaxError,
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

/// A statement that is not a package and not an import.
enum Statement {
    /// Rules with bodies, a default or a `contains`, which were pushed.
    Rules,
    /// An expression, which may be a rule without a body.
    Expression(Option<RuleHead>),
}

impl Parser<'_> {
    /// Reads one statement as rules and, if it is none, as an expression, as OPA does.
    pub(super) fn rules(&mut self, rules: &mut Vec<Rule>) -> Option<()> {
        let mark = self.mark();
        let Statement::Expression(head) = self.rule(rules)? else { return Some(()) };
        if !self.errors.is_empty() {
            return None;
        }
        let end = self.last_end;
        self.reset(mark);
        let expr = self.literal()?;
        let mut problem = unfit(&expr);
        while self.at(Tok::Semicolon) {
            self.advance();
            self.literal()?;
            problem = Some("multiple expressions cannot be used for rule head".to_owned());
        }
        match (problem, head) {
            (None, Some(head)) if self.last_end == end => {
                self.bodiless_rule(mark.token.start, head, rules);
            }
            (problem, _) => {
                let problem =
                    problem.unwrap_or_else(|| "expression cannot be used for rule head".to_owned());
                self.error_in_statement(expr.span, problem);
            }
        }
        Some(())
    }

    fn rule(&mut self, rules: &mut Vec<Rule>) -> Option<Statement> {
        let start = self.token.start;
        self.keyword_starts_ref();
        let default = self.at_keyword(Keyword::Default);
        if default {
            self.advance();
            self.keyword_starts_ref();
        }
        if !self.at(Tok::Ident) {
            return Some(Statement::Expression(None));
        }
        let mut head = self.head(default)?;
        if default {
            return self.default_rule(start, head, rules).map(|()| Statement::Rules);
        }
        let has_if = self.at_keyword(Keyword::If);
        let has_brace = self.at(Tok::LBrace);
        let contains = head.member.is_some();
        if !has_if && !has_brace && !contains {
            return Some(Statement::Expression(Some(head)));
        }
        // `p[x] { .. }` defines a set, in version 0.
        if !has_if
            && !contains
            && head.args.is_none()
            && head.value.is_none()
            && head.name.len() == 2
        {
            head.member = head.name.pop();
        }
        let head = finished(head);
        let bodiless = !has_if && !has_brace;
        let body = if has_if {
            self.advance();
            self.if_body()?
        } else if has_brace {
            self.braced_body()?
        } else {
            vec![true_expr(head.span)]
        };
        let complaints = self.strictness.len();
        let mut els = Vec::new();
        if !bodiless && self.at_keyword(Keyword::Else) && !self.keyword_starts_ref() {
            let problem = if head.name.len() > 1 && !head.name.iter().skip(1).all(is_ground) {
                Some("else keyword cannot be used on rules with variables in head")
            } else if matches!(head.kind, HeadKind::Member(_)) {
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
        // The rule's complaints stand before those of its `else`.
        let of_else = self.strictness.split_off(complaints);
        self.complain_of_name(&head, span);
        if has_brace {
            self.error_in_v1(span, before_body(sort(&head)));
        }
        self.complain_of_set(&head, contains, span);
        self.strictness.extend(of_else);
        rules.push(Rule { head, body, els, default: false, span });
        if !bodiless {
            self.more_bodies(rules)?;
        }
        Some(Statement::Rules)
    }

    /// A rule that is written as an expression: `p := 1`, `p[x]`, `f(x) = y`, `p.q.r`.
    fn bodiless_rule(&mut self, start: usize, mut head: RuleHead, rules: &mut Vec<Rule>) {
        let mut generated = false;
        if head.args.is_none() && head.value.is_none() && head.name.len() == 2 {
            head.member = head.name.pop();
        } else {
            generated = head.args.is_none() && head.value.is_none();
        }
        let head = finished(head);
        let span = self.span_from(start);
        self.complain_of_name(&head, span);
        if generated {
            let sort = sort(&head);
            let message = format!("{sort} must have value assignment and/or body declaration");
            self.error_in_v1(span, message);
        }
        self.complain_of_set(&head, false, span);
        let body = vec![true_expr(head.span)];
        rules.push(Rule { head, body, els: Vec::new(), default: false, span });
    }

    fn complain_of_name(&mut self, head: &Head, span: Span) {
        if let [Term { kind: TermKind::Var(name), .. }] = head.name.as_slice()
            && let Some(word) = Keyword::from_name(name)
        {
            let message = format!("{} keyword cannot be used for rule name", word.name());
            self.error_in_v1(span, message);
        }
    }

    fn complain_of_set(&mut self, head: &Head, contains: bool, span: Span) {
        if matches!(head.kind, HeadKind::Member(_)) && !contains {
            let place = "for partial set rules".to_owned();
            self.error_in_v1(span, SyntaxError::KeywordRequired { keyword: "contains", place });
        }
    }

    /// Further bodies in braces, each of which makes a rule with the head of the last one.
    fn more_bodies(&mut self, rules: &mut Vec<Rule>) -> Option<()> {
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
            self.error_in_v1(span, before_body(sort(&head)));
            if let Some(args) = &mut head.args {
                args.iter_mut().for_each(|arg| self.renew_wildcards(arg));
            }
            rules.push(Rule { head, body, els: Vec::new(), default: false, span });
        }
        Some(())
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
            Tok::LParen | Tok::Dot | Tok::LBrack => match self.reference(first, start) {
                Some(term) => term,
                None => return self.fail("expected rule head name"),
            },
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
            .split_whitespace()
            .collect::<String>();
        self.head_value(&mut head, &name, default);
        head.span = self.span_from(start);
        Some(head)
    }

    /// The key after `contains`, or the value after `=` or `:=`. `name` is for messages.
    fn head_value(&mut self, head: &mut RuleHead, name: &str, default: bool) {
        match self.token.kind {
            Tok::Keyword(Keyword::Contains) => {
                if head.args.is_some() {
                    self.illegal(&format!(
                        "the contains keyword can only be used with multi-value rule definitions \
                         (e.g., {name} contains <VALUE> {{ ... }})"
                    ));
                }
                self.advance();
                let member = self.infix().unwrap_or_else(|| {
                    let note =
                        format!("expected rule key term (e.g., {name} contains <VALUE> {{ ... }})");
                    self.illegal(&note);
                    true_term(self.span_here())
                });
                head.member = Some(member);
            }
            Tok::Unify => {
                self.advance();
                head.value = self.infix();
                if head.value.is_none() {
                    self.illegal(&format!(
                        "expected rule value term (e.g., {name}[<nil>] = <VALUE> {{ ... }})"
                    ));
                }
            }
            Tok::Assign => {
                self.advance();
                head.assigned = true;
                head.value = self.infix();
                if head.value.is_none() {
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
                    self.illegal(&note);
                }
            }
            _ => {}
        }
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
                if !has_if {
                    let span = self.span(start, self.token.end);
                    self.error_in_v1(span, before_body("rule"));
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

/// The head as the tree has it.
fn finished(head: RuleHead) -> Head {
    let kind = match head.member {
        Some(member) => HeadKind::Member(member),
        None => HeadKind::Value {
            value: head.value.unwrap_or(true_term(head.span)),
            assigned: head.assigned,
        },
    };
    Head { name: head.name, args: head.args, kind, span: head.span }
}

fn sort(head: &Head) -> &'static str {
    if head.args.is_some() { "function" } else { "rule" }
}

fn before_body(rule: &str) -> SyntaxError {
    SyntaxError::KeywordRequired { keyword: "if", place: format!("before {rule} body") }
}

/// Why an expression is no rule.
fn unfit(expr: &Expr) -> Option<String> {
    if !expr.with.is_empty() {
        return Some("expressions using with keyword cannot be used for rule head".to_owned());
    }
    if expr.negated {
        return Some("negated expressions cannot be used for rule head".to_owned());
    }
    let term = match &expr.kind {
        ExprKind::Term(term) => term,
        ExprKind::Some(_) | ExprKind::SomeIn { .. } => {
            return Some("'some' declarations cannot be used for rule head".to_owned());
        }
        _ => return Some("expression cannot be used for rule head".to_owned()),
    };
    let TermKind::Call(operator, args) = &term.kind else {
        return match &term.kind {
            TermKind::Ref(parts) if parts.len() == 1 => {
                Some("refs cannot be used for rule head".to_owned())
            }
            TermKind::Ref(_) => None,
            other => Some(format!("{} cannot be used for rule name", other.type_name())),
        };
    };
    let name = match &operator.kind {
        TermKind::Ref(parts) => parts.as_slice(),
        _ => std::slice::from_ref(&**operator),
    };
    let conflict = || Some("rule name conflicts with built-in function".to_owned());
    match name {
        [Term { kind: TermKind::Var(name), .. }] if matches!(name.as_str(), "eq" | "assign") => {
            match &args.first()?.kind {
                TermKind::Var(_) | TermKind::Ref(_) | TermKind::Call(..) => None,
                other => Some(format!("{} cannot be used for rule name", other.type_name())),
            }
        }
        [Term { kind: TermKind::Var(name), .. }] if crate::builtins::find(name).is_some() => {
            conflict()
        }
        _ if is_member_operator(operator) => conflict(),
        _ if args.is_empty() => {
            Some("rule argument list must take at least one argument".to_owned())
        }
        _ => None,
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
