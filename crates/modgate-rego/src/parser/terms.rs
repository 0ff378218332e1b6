//! Terms: scalars, references, calls, collections and templates.

use modgate_value::{Number, Str};

use super::{Parser, body::operator_term};
use crate::{
    ast::{ExprKind, RegoVersion, TemplatePart, Term, TermKind, operator_name},
    lexer::{Keyword, Tok},
};

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Option<Term> {
        self.enter()?;
        let term = self.term_inner();
        self.leave();
        term
    }

    fn term_inner(&mut self) -> Option<Term> {
        let start = self.token.start;
        let span = self.span_here();
        self.height = 1;
        let mut minus = None;
        let term = match self.token.kind {
            Tok::Keyword(Keyword::Null) => Term { kind: TermKind::Null, span },
            Tok::Keyword(Keyword::True) => Term { kind: TermKind::Bool(true), span },
            Tok::Keyword(Keyword::False) => Term { kind: TermKind::Bool(false), span },
            Tok::Sub => {
                let mark = self.mark();
                self.advance();
                if self.at(Tok::Ident) || self.at_keyword(Keyword::Contains) {
                    minus = Some(span);
                    self.var()
                } else {
                    self.reset(mark);
                    self.number()?
                }
            }
            Tok::Dot | Tok::Number => self.number()?,
            Tok::String | Tok::RawString => self.string()?,
            Tok::TemplatePart { raw } | Tok::TemplateEnd { raw } => self.template(raw)?,
            Tok::Ident | Tok::Keyword(Keyword::Contains) => self.var(),
            Tok::LBrack => self.array()?,
            Tok::LBrace => self.braces()?,
            Tok::LParen => {
                self.advance();
                let mut term = self.infix()?;
                if !self.at(Tok::RParen) {
                    self.error(self.span_here(), "non-terminated expression");
                    return None;
                }
                term.span = self.span(start, self.token.end);
                term
            }
            _ => return self.fail(""),
        };
        let height = self.height;
        // The token of the term itself is still the current one.
        self.advance();
        self.height = height;
        let inner = term.span.start as usize;
        let continues =
            !self.token.space && matches!(self.token.kind, Tok::LParen | Tok::Dot | Tok::LBrack);
        let term = if continues { self.reference(term, inner)? } else { root_document(term) };
        let Some(at) = minus else { return Some(term) };
        self.grown(self.height + 1)?;
        let zero = Term { kind: TermKind::Number(Number::from(0)), span: at };
        Some(Term {
            span: at.to(term.span),
            kind: TermKind::Call(Box::new(operator_term("minus", at)), vec![zero, term]),
        })
    }

    pub(super) fn var(&mut self) -> Term {
        let span = self.span_here();
        let name = match self.lit() {
            "_" => self.wildcard(),
            name => Str::from(name),
        };
        Term { kind: TermKind::Var(name), span }
    }

    pub(super) fn wildcard(&mut self) -> Str {
        let name = modgate_value::format_smolstr!("${}", self.wildcards);
        self.wildcards += 1;
        name
    }

    fn number(&mut self) -> Option<Term> {
        let start = self.token.start;
        let mut text = String::new();
        if self.at(Tok::Sub) {
            text.push('-');
            self.advance();
            if !matches!(self.token.kind, Tok::Number | Tok::Dot) {
                return self.fail("expected number");
            }
        }
        let mut leading_dot = false;
        if self.at(Tok::Dot) {
            leading_dot = true;
            text.push_str("0.");
            self.advance();
            if !self.at(Tok::Number) {
                return self.fail("expected number");
            }
        }
        let literal = self.lit();
        let mut bytes = literal.bytes();
        if !leading_dot
            && bytes.next() == Some(b'0')
            && bytes.next().is_some_and(|byte| !matches!(byte, b'.' | b'e' | b'E'))
        {
            return self.fail("expected number without leading zero");
        }
        text.push_str(literal);
        if is_too_big(&text) {
            self.error(self.span_here(), "number too big");
            return None;
        }
        let Some(number) = Number::from_json_text(&text) else {
            return self.fail("invalid float");
        };
        self.height = 1;
        Some(Term { kind: TermKind::Number(number), span: self.span(start, self.token.end) })
    }

    fn string(&mut self) -> Option<Term> {
        let span = self.span_here();
        let literal = self.lit();
        let inner = literal.get(1..literal.len().saturating_sub(1)).unwrap_or("");
        let text = if self.at(Tok::RawString) {
            Str::from(inner)
        } else if let Some(text) = unescape(inner, false) {
            text
        } else {
            self.error(span, format!("illegal string literal: {literal}"));
            return None;
        };
        Some(Term { kind: TermKind::String(text), span })
    }

    fn template(&mut self, raw: bool) -> Option<Term> {
        let start = self.token.start;
        if self.version == RegoVersion::V0 {
            // OPA 1.19 has the feature in its capabilities for version 1 only.
            let message = "template strings are not supported by current capabilities";
            self.error(self.span_here(), message);
            return None;
        }
        let mut parts = Vec::new();
        let mut height = 0;
        let mut first = true;
        loop {
            let literal = self.lit();
            let skip = if first { 2 } else { 0 };
            first = false;
            let inner = literal.get(skip..literal.len().saturating_sub(1)).unwrap_or("");
            let text = if raw {
                Some(Str::from(inner.replace("\\{", "{")))
            } else {
                unescape(inner, true)
            };
            let Some(text) = text else {
                let message = format!("illegal template-string part: {literal}");
                self.error(self.span_here(), message);
                return None;
            };
            if !text.is_empty() {
                parts.push(TemplatePart::Text(text));
            }
            if matches!(self.token.kind, Tok::TemplateEnd { .. }) {
                break;
            }
            self.advance();
            let Some(expr) = self.literal() else {
                self.error(self.span_here(), "invalid template-string expression");
                return None;
            };
            height = height.max(self.height);
            let problem = match &expr.kind {
                _ if expr.negated => Some("unexpected negation ('not')"),
                ExprKind::Not(_) => Some("unexpected negation ('not')"),
                ExprKind::Every { .. } => Some("unexpected 'every'"),
                ExprKind::Some(_) | ExprKind::SomeIn { .. } => Some("unexpected 'some'"),
                ExprKind::Term(Term { kind: TermKind::Call(operator, _), .. }) => {
                    match operator_name(operator) {
                        Some("eq") => Some("unexpected unification ('=')"),
                        Some("assign") => Some("unexpected assignment (':=')"),
                        _ => None,
                    }
                }
                ExprKind::Term(_) => None,
            };
            if let Some(problem) = problem {
                self.error(expr.span, format!("{problem} in template-string expression"));
                return None;
            }
            parts.push(TemplatePart::Expr(Box::new(expr)));
            if !self.at(Tok::RBrace) {
                self.error(self.span_here(), "expected } to end template string expression");
                return None;
            }
            self.last_end = self.token.end;
            let next = self.lexer.next_template(self.token.end, raw);
            self.install(next);
            if self.at(Tok::Illegal) {
                return self.fail("");
            }
        }
        self.grown(height + 1)?;
        Some(Term { kind: TermKind::Template(parts), span: self.span(start, self.token.end) })
    }

    /// The rest of a reference or call whose head has been read; the current token is what
    /// continues it.
    pub(super) fn reference(&mut self, head: Term, start: usize) -> Option<Term> {
        match &head.kind {
            TermKind::Var(_)
            | TermKind::Array(_)
            | TermKind::Object(_)
            | TermKind::Set(_)
            | TermKind::ArrayComprehension(..)
            | TermKind::SetComprehension(..)
            | TermKind::ObjectComprehension(..)
            | TermKind::Call(..) => {}
            other => {
                let message = format!("illegal ref (head cannot be {})", other.type_name());
                self.error(head.span, message);
            }
        }
        let mut height = self.height.max(1);
        let mut parts = vec![head];
        loop {
            match self.token.kind {
                _ if self.token.space && parts.len() > 1 => break,
                Tok::Dot => {
                    self.advance();
                    let is_name = match self.token.kind {
                        Tok::Ident | Tok::Keyword(_) => !self.token.space,
                        _ => false,
                    };
                    if !is_name {
                        if self.token.space {
                            self.token = self.space_here();
                        }
                        return self.fail("expected identifier");
                    }
                    let name = Str::from(self.lit());
                    parts.push(Term { kind: TermKind::String(name), span: self.span_here() });
                    self.advance();
                }
                Tok::LBrack => {
                    self.advance();
                    let operand = self.infix()?;
                    height = height.max(self.height + 1);
                    if !self.at(Tok::RBrack) {
                        return self.fail("expected [");
                    }
                    parts.push(operand);
                    self.advance();
                }
                Tok::LParen => {
                    let operator = Term { kind: TermKind::Ref(parts), span: self.span_from(start) };
                    self.height = height;
                    let call = self.call(operator, start)?;
                    if !self.token.space && matches!(self.token.kind, Tok::Dot | Tok::LBrack) {
                        return self.reference(call, start);
                    }
                    return Some(call);
                }
                _ => break,
            }
        }
        self.grown(height + 1)?;
        Some(Term { kind: TermKind::Ref(parts), span: self.span_from(start) })
    }

    fn call(&mut self, operator: Term, start: usize) -> Option<Term> {
        let height = self.height;
        self.advance();
        self.height = 0;
        let args =
            if self.at(Tok::RParen) { Vec::new() } else { self.list(Tok::RParen, Vec::new())? };
        self.grown(height.max(self.height) + 1)?;
        let span = self.span(start, self.token.end);
        let height = self.height;
        self.advance();
        self.height = height;
        if args.is_empty() && operator_name(&operator) == Some("set") {
            return Some(Term { kind: TermKind::Set(Vec::new()), span });
        }
        Some(Term { kind: TermKind::Call(Box::new(operator), args), span })
    }

    // Collections. On return the current token is the closing bracket.

    fn array(&mut self) -> Option<Term> {
        let start = self.token.start;
        self.advance();
        if self.at(Tok::RBrack) {
            self.height = 1;
            let span = self.span(start, self.token.end);
            return Some(Term { kind: TermKind::Array(Vec::new()), span });
        }
        let leading_comma = self.at(Tok::Comma);
        if leading_comma {
            self.advance();
        }
        let head = self.term()?;
        let height = self.height;
        if self.at(Tok::Or) && !leading_comma {
            let mark = self.mark();
            self.advance();
            if let Some(body) = self.body(Tok::RBrack) {
                self.grown(height.max(self.height) + 1)?;
                let span = self.span(start, self.token.end);
                let kind = TermKind::ArrayComprehension(Box::new(head), body);
                return Some(Term { kind, span });
            }
            if !self.at(Tok::Comma) {
                return None;
            }
            self.reset(mark);
        }
        let first = self.infix_from(Some((head, height)), false)?;
        let items = self.list_rest(Tok::RBrack, vec![first])?;
        self.grown(self.height + 1)?;
        let span = self.span(start, self.token.end);
        Some(Term { kind: TermKind::Array(items), span })
    }

    fn braces(&mut self) -> Option<Term> {
        let start = self.token.start;
        self.advance();
        if self.at(Tok::RBrace) {
            self.height = 1;
            let span = self.span(start, self.token.end);
            return Some(Term { kind: TermKind::Object(Vec::new()), span });
        }
        let leading_comma = self.at(Tok::Comma);
        if leading_comma {
            self.advance();
        }
        let head = self.term()?;
        let height = self.height;
        if self.at(Tok::Or) && !leading_comma {
            let mark = self.mark();
            self.advance();
            if let Some(body) = self.body(Tok::RBrace) {
                self.grown(height.max(self.height) + 1)?;
                let span = self.span(start, self.token.end);
                let kind = TermKind::SetComprehension(Box::new(head), body);
                return Some(Term { kind, span });
            }
            // A comprehension with an infix key: `{a | b: c}`.
            if !matches!(self.token.kind, Tok::Comma | Tok::Colon) {
                return None;
            }
            self.reset(mark);
        }
        let first = self.infix_from(Some((head, height)), false)?;
        let height = self.height;
        match self.token.kind {
            Tok::RBrace | Tok::Comma => {
                let items = self.list_rest(Tok::RBrace, vec![first])?;
                self.grown(self.height + 1)?;
                let span = self.span(start, self.token.end);
                Some(Term { kind: TermKind::Set(items), span })
            }
            Tok::Colon => self.object(start, first, height, !leading_comma),
            _ => self.fail("non-terminated set"),
        }
    }

    fn object(
        &mut self,
        start: usize,
        key: Term,
        key_height: usize,
        comprehension: bool,
    ) -> Option<Term> {
        self.advance();
        let before = self.mark();
        let value = self.term()?;
        let mut height = key_height.max(self.height);
        if comprehension && matches!(self.token.kind, Tok::RBrace | Tok::Comma) {
            let Some(pairs) = self.pairs((key, value), height) else {
                // As OPA, which forgets what was wrong in the pairs.
                self.reset(before);
                return self.fail("non-terminated object");
            };
            let span = self.span(start, self.token.end);
            return Some(Term { kind: TermKind::Object(pairs), span });
        }
        if self.at(Tok::Or) && comprehension {
            let mark = self.mark();
            self.advance();
            if let Some(body) = self.body(Tok::RBrace) {
                self.grown(height.max(self.height) + 1)?;
                let span = self.span(start, self.token.end);
                let kind = TermKind::ObjectComprehension(Box::new((key, value)), body);
                return Some(Term { kind, span });
            }
            // OPA reads the value again whatever was wrong, which takes for ever where these nest.
            if !matches!(self.token.kind, Tok::Comma | Tok::RBrace) {
                return None;
            }
            self.reset(mark);
        }
        let value = self.infix_from(Some((value, height)), false)?;
        height = height.max(self.height);
        let pairs = self.pairs((key, value), height)?;
        let span = self.span(start, self.token.end);
        Some(Term { kind: TermKind::Object(pairs), span })
    }

    /// The pairs of an object from behind its first one.
    fn pairs(&mut self, first: (Term, Term), mut height: usize) -> Option<Vec<(Term, Term)>> {
        let mut pairs = vec![first];
        loop {
            match self.token.kind {
                Tok::RBrace => break,
                Tok::Comma => {
                    self.advance();
                    if self.at(Tok::RBrace) {
                        break;
                    }
                }
                _ if pairs.len() == 1 => return self.fail("non-terminated object"),
                _ => return self.fail("expected \",\" or \"}\""),
            }
            let key = self.infix_in_list()?;
            height = height.max(self.height);
            if !self.at(Tok::Colon) {
                return self.fail("expected \":\"");
            }
            self.advance();
            let value = self.infix_in_list()?;
            height = height.max(self.height);
            pairs.push((key, value));
        }
        self.grown(height + 1)?;
        Some(pairs)
    }

    fn list(&mut self, end: Tok, mut items: Vec<Term>) -> Option<Vec<Term>> {
        if self.at(end) {
            return Some(items);
        }
        let first = self.infix_in_list()?;
        items.push(first);
        self.list_rest(end, items)
    }

    /// The rest of a list after an item; leaves the greatest height of the items behind.
    fn list_rest(&mut self, end: Tok, mut items: Vec<Term>) -> Option<Vec<Term>> {
        let mut height = self.height;
        loop {
            if self.at(end) {
                break;
            }
            if !self.at(Tok::Comma) {
                let note = format!("expected \",\" or {:?}", end.name());
                return self.fail(&note);
            }
            self.advance();
            if self.at(end) {
                break;
            }
            items.push(self.infix_in_list()?);
            height = height.max(self.height);
        }
        self.height = height;
        Some(items)
    }
}

/// `input` and `data` alone are references.
fn root_document(term: Term) -> Term {
    let span = term.span;
    match &term.kind {
        TermKind::Var(name) if name == "input" || name == "data" => {
            Term { kind: TermKind::Ref(vec![term]), span }
        }
        _ => term,
    }
}

/// Whether a number's binary exponent lies outside what OPA accepts.
fn is_too_big(text: &str) -> bool {
    const DIGITS: i64 = 30_103;
    let text = text.trim_start_matches('-');
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => match exponent.parse::<i64>() {
            Ok(exponent) => (mantissa, exponent),
            Err(_) => return true,
        },
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole_digits = whole.trim_start_matches('0').len();
    if whole_digits == 0 && fraction.bytes().all(|byte| byte == b'0') {
        return false;
    }
    let leading = if whole_digits > 0 {
        i64::try_from(whole_digits).unwrap_or(i64::MAX)
    } else {
        let zeros = fraction.len() - fraction.trim_start_matches('0').len();
        -i64::try_from(zeros).unwrap_or(i64::MAX)
    };
    leading.saturating_add(exponent).abs() > DIGITS
}

/// Undoes the escapes of a JSON string; in a template `\{` is one more.
fn unescape(text: &str, template: bool) -> Option<Str> {
    if !text.contains('\\') {
        return Some(Str::from(text));
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut pending: Option<u32> = None;
    while let Some(c) = chars.next() {
        let mut unit = None;
        if c != '\\' {
            if c < ' ' {
                return None;
            }
            flush(&mut out, &mut pending);
            out.push(c);
            continue;
        }
        let plain = match chars.next()? {
            '"' => '"',
            '\\' => '\\',
            '/' => '/',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '{' if template => '{',
            'u' => {
                let mut code = 0;
                for _ in 0..4 {
                    code = code * 16 + chars.next()?.to_digit(16)?;
                }
                unit = Some(code);
                ' '
            }
            _ => return None,
        };
        let Some(unit) = unit else {
            flush(&mut out, &mut pending);
            out.push(plain);
            continue;
        };
        match pending.take() {
            Some(high) if (0xdc00..0xe000).contains(&unit) => {
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00);
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                continue;
            }
            Some(_) => out.push(char::REPLACEMENT_CHARACTER),
            None => {}
        }
        if (0xd800..0xdc00).contains(&unit) {
            pending = Some(unit);
        } else {
            out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }
    flush(&mut out, &mut pending);
    Some(Str::from(out))
}

/// A surrogate that found no partner becomes the replacement character.
fn flush(out: &mut String, pending: &mut Option<u32>) {
    if pending.take().is_some() {
        out.push(char::REPLACEMENT_CHARACTER);
    }
}
