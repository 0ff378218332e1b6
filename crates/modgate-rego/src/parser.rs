//! Tokens to a [`Module`] or a query.
//!
//! Recursive descent with one token of look-ahead and cheap backing up. Where OPA's grammar is
//! surprising the parser is surprising in the same way: a reference ends at white space, `{a | b}`
//! is a comprehension before it is a set, `p[x] { .. }` is a set and `p[x] if { .. }` is not.
//!
//! # Limits
//!
//! A module has at most [`MAX_TEXT`] bytes and its terms nest at most [`MAX_NESTING`] levels, so
//! that everything downstream may recurse over them. Backing up is charged against a multiple of
//! the text's length.

use std::sync::Arc;

use modgate_value::{Number, Str};

use crate::{
    ast::{
        Body, Else, Expr, ExprKind, Head, HeadKind, Import, Module, RegoVersion, Rule, Span,
        TemplatePart, Term, TermKind, With,
    },
    error::{Code, Error},
    lexer::{Keyword, Lexer, Tok, Token},
    stack_position,
};

/// The longest module, in bytes.
pub const MAX_TEXT: usize = 8 << 20;

/// How much of the native stack the parser may use; only unoptimised builds come near it.
const MAX_STACK: usize = 1 << 20;

/// The one error that has no place.
const EMPTY_MODULE: &str = "empty module";

/// How many errors are reported.
const MAX_ERRORS: usize = 10;

/// How deep terms and bodies may nest. A chain of infix operators nests once per operator.
pub const MAX_NESTING: usize = 128;

/// Reads a module.
///
/// # Errors
///
/// What [`Code::Parse`] covers, in the order found.
pub fn parse_module(name: &str, text: &str, version: RegoVersion) -> Result<Module, Vec<Error>> {
    let name = Str::from(name);
    let mut parser = Parser::new(&name, text, version)?;
    match parser.module() {
        Some(module) if parser.errors.is_empty() => Ok(module),
        _ => Err(parser.into_errors()),
    }
}

/// Reads a query: expressions separated by `;` or line breaks.
///
/// # Errors
///
/// What [`Code::Parse`] covers, in the order found.
pub fn parse_query(text: &str, version: RegoVersion) -> Result<Body, Vec<Error>> {
    let name = Str::default();
    let mut parser = Parser::new(&name, text, version)?;
    match parser.query() {
        Some(body) if parser.errors.is_empty() => Ok(body),
        _ => Err(parser.into_errors()),
    }
}

/// What the parser goes back to.
#[derive(Clone, Copy)]
struct Mark {
    token: Token,
    last_end: usize,
    errors: usize,
    hints: usize,
}

struct Parser<'t> {
    name: &'t Str,
    text: &'t str,
    lexer: Lexer<'t>,
    token: Token,
    /// Where the token before this one ended.
    last_end: usize,
    version: RegoVersion,
    /// The future keywords that are on, one bit each.
    keywords: u8,
    /// Whether `not` takes a body of its own (`import future.keywords.not`).
    not_bodies: bool,
    rego_v1: bool,
    wildcards: u32,
    depth: usize,
    /// Where the native stack was when parsing began.
    stack: usize,
    /// The height of the term that was parsed last.
    height: usize,
    /// Tokens that may still be read, backing up included.
    fuel: usize,
    /// Advice for the next error.
    hints: Vec<&'static str>,
    /// Most are dropped again by backing up, so they are worked out only at the end.
    errors: Vec<Problem>,
}

/// An error that is not worked out yet.
struct Problem {
    span: Span,
    message: String,
    /// Whether the line is shown.
    excerpt: bool,
}

/// What became of the head of a rule before its body is known.
struct RuleHead {
    name: Vec<Term>,
    args: Option<Vec<Term>>,
    member: Option<Term>,
    value: Option<Term>,
    assigned: bool,
    span: Span,
}

impl<'t> Parser<'t> {
    fn new(name: &'t Str, text: &'t str, version: RegoVersion) -> Result<Self, Vec<Error>> {
        let problem =
            |message: String| vec![Error::at(Code::Parse, name, text, Span::default(), message)];
        if text.len() > MAX_TEXT {
            return Err(problem(format!("module is longer than {MAX_TEXT} bytes")));
        }
        let lexer = Lexer::new(text);
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let token = Token {
            kind: Tok::Eof,
            start,
            end: start,
            space: false,
            newline: false,
            problem: None,
        };
        let mut parser = Self {
            name,
            text,
            lexer,
            token,
            last_end: start,
            version,
            keywords: if version == RegoVersion::V1 { u8::MAX } else { 0 },
            not_bodies: false,
            rego_v1: version == RegoVersion::V1,
            wildcards: 0,
            depth: 0,
            stack: stack_position(),
            height: 0,
            fuel: 10_000 + text.len().saturating_mul(16),
            hints: Vec::new(),
            errors: Vec::new(),
        };
        parser.advance();
        Ok(parser)
    }

    fn into_errors(mut self) -> Vec<Error> {
        if self.errors.is_empty() {
            self.illegal("");
        }
        let length = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let mut errors = Vec::new();
        for problem in self.errors {
            let Problem { span, message, excerpt } = problem;
            let mut error = Error::at(Code::Parse, self.name, self.text, span, message);
            if excerpt {
                error = error.with_excerpt(self.text);
                if span.start == length {
                    // OPA counts the characters it has read.
                    error.column = error.column.saturating_sub(1);
                }
            } else if error.message == EMPTY_MODULE {
                (error.line, error.column) = (0, 0);
            }
            errors.push(error);
        }
        errors
    }

    // Tokens.

    fn advance(&mut self) {
        self.last_end = self.token.end;
        let next = if self.fuel == 0 {
            let message = "module takes too long to parse";
            if !self.errors.iter().any(|problem| problem.message == message) {
                self.error(self.span_here(), message);
            }
            Token { kind: Tok::Eof, start: self.text.len(), end: self.text.len(), ..self.token }
        } else {
            self.fuel -= 1;
            self.lexer.next(self.token.end)
        };
        self.install(next);
    }

    fn install(&mut self, mut token: Token) {
        if token.kind == Tok::Ident
            && let Some(keyword) =
                self.text.get(token.start..token.end).and_then(Keyword::from_name)
            && self.is_active(keyword)
        {
            token.kind = Tok::Keyword(keyword);
        }
        self.token = token;
        if let Some(problem) = token.problem {
            self.error(self.span_here(), problem);
        }
    }

    fn is_active(&self, keyword: Keyword) -> bool {
        !keyword.is_future() || self.keywords & keyword_bit(keyword) != 0
    }

    /// The token after this one, without going there.
    fn peek(&self) -> Token {
        self.lexer.next(self.token.end)
    }

    fn lit(&self) -> &'t str {
        self.text.get(self.token.start..self.token.end).unwrap_or("")
    }

    fn at(&self, kind: Tok) -> bool {
        self.token.kind == kind
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.at(Tok::Keyword(keyword))
    }

    fn mark(&self) -> Mark {
        Mark {
            token: self.token,
            last_end: self.last_end,
            errors: self.errors.len(),
            hints: self.hints.len(),
        }
    }

    fn reset(&mut self, mark: Mark) {
        self.token = mark.token;
        self.last_end = mark.last_end;
        self.errors.truncate(mark.errors);
        self.hints.truncate(mark.hints);
    }

    /// A keyword directly followed by `.` or `[` is a name: `if.x`.
    fn keyword_starts_ref(&mut self) -> bool {
        let Tok::Keyword(keyword) = self.token.kind else { return false };
        if !self.is_ref_keyword(keyword) {
            return false;
        }
        let next = self.peek();
        if !next.space && matches!(next.kind, Tok::Dot | Tok::LBrack) {
            self.token.kind = Tok::Ident;
            return true;
        }
        false
    }

    fn is_ref_keyword(&self, keyword: Keyword) -> bool {
        self.is_active(keyword)
    }

    // Places and errors.

    fn span(&self, start: usize, end: usize) -> Span {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { start: offset(start), end: offset(end.max(start)), module: 0 }
    }

    fn span_here(&self) -> Span {
        self.span(self.token.start, self.token.end)
    }

    fn span_from(&self, start: usize) -> Span {
        self.span(start, self.last_end)
    }

    fn error(&mut self, span: Span, message: impl Into<String>) {
        if self.errors.len() >= MAX_ERRORS {
            return;
        }
        let mut message = message.into();
        match self.hints.as_slice() {
            [] => {}
            [hint] => message.push_str(&format!(" (hint: {hint})")),
            hints => message.push_str(&format!(" (hints: {})", hints.join(", "))),
        }
        self.hints.clear();
        self.errors.push(Problem { span, message, excerpt: true });
    }

    /// An error about a whole statement, which OPA reports without the line.
    fn error_in_statement(&mut self, span: Span, message: impl Into<String>) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(Problem { span, message: message.into(), excerpt: false });
        }
    }

    fn illegal(&mut self, note: &str) {
        let message = match self.token.kind {
            Tok::Illegal => "illegal token".to_owned(),
            kind => {
                let sort = match kind {
                    Tok::Keyword(_) => "keyword",
                    _ => "token",
                };
                let separator = if note.is_empty() { "" } else { ": " };
                format!("unexpected {} {sort}{separator}{note}", kind.name())
            }
        };
        self.error(self.span_here(), message);
    }

    fn fail<T>(&mut self, note: &str) -> Option<T> {
        self.illegal(note);
        None
    }

    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        let deep = stack_position().abs_diff(self.stack) > MAX_STACK;
        if self.depth > MAX_NESTING || deep {
            self.error(self.span_here(), "max parsing recursion depth exceeded");
            self.depth -= 1;
            return None;
        }
        Some(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Notes that a term of this height was built.
    fn grown(&mut self, height: usize) -> Option<()> {
        self.height = height;
        if height > MAX_NESTING {
            self.error(self.span_here(), "max parsing recursion depth exceeded");
            return None;
        }
        Some(())
    }

    // Modules.

    fn module(&mut self) -> Option<Module> {
        let mut package = None;
        let mut imports = Vec::new();
        let mut rules = Vec::new();
        let mut first = true;
        while !self.at(Tok::Eof) {
            let start = self.token.start;
            let next = self.peek();
            let is_ref = !next.space && matches!(next.kind, Tok::Dot | Tok::LBrack);
            if self.at_keyword(Keyword::Package) && !is_ref {
                let path = self.package()?;
                if package.is_some() {
                    self.error_in_statement(self.span_from(start), "unexpected package");
                } else if !first {
                    self.error_in_statement(self.span_from(start), "package expected");
                }
                package = Some((path, self.span_from(start)));
            } else {
                if first {
                    self.error_in_statement(self.span_here(), "package expected");
                    return None;
                }
                if self.at_keyword(Keyword::Import) && !is_ref {
                    imports.extend(self.import()?);
                } else {
                    self.rules(&mut rules)?;
                }
            }
            first = false;
        }
        let Some((package, package_span)) = package else {
            self.error_in_statement(Span::default(), EMPTY_MODULE);
            return None;
        };
        Some(Module {
            name: self.name.clone(),
            text: Arc::from(self.text),
            version: self.version,
            strict: self.rego_v1,
            package,
            package_span,
            imports,
            rules,
        })
    }

    fn package(&mut self) -> Option<Vec<Str>> {
        self.advance();
        if let Tok::Keyword(keyword) = self.token.kind
            && self.is_ref_keyword(keyword)
        {
            self.token.kind = Tok::Ident;
        }
        if !self.at(Tok::Ident) {
            return self.fail("");
        }
        let term = self.term()?;
        let mut path = Vec::new();
        match term.kind {
            TermKind::Var(name) => path.push(name),
            TermKind::Ref(parts) => {
                for (index, part) in parts.into_iter().enumerate() {
                    match part.kind {
                        TermKind::Var(name) if index == 0 => path.push(name),
                        TermKind::String(name) if index > 0 => path.push(name),
                        other => {
                            let wanted = if index == 0 { "var" } else { "string" };
                            let message = format!(
                                "unexpected {} token: expecting {wanted}",
                                other.type_name()
                            );
                            self.error(part.span, message);
                            return None;
                        }
                    }
                }
            }
            _ => return self.fail(""),
        }
        Some(path)
    }

    fn import(&mut self) -> Option<Option<Import>> {
        let start = self.token.start;
        self.advance();
        if let Tok::Keyword(keyword) = self.token.kind
            && self.is_ref_keyword(keyword)
        {
            self.token.kind = Tok::Ident;
        }
        if !self.at(Tok::Ident) {
            return self.fail("");
        }
        let keywords = std::mem::replace(&mut self.keywords, 0);
        let term = self.term();
        self.keywords = keywords;
        // The token after the path was read without the future keywords.
        let token = Token { kind: unkeyword(self.token.kind), problem: None, ..self.token };
        self.install(token);
        let term = term?;
        let path_span = term.span;
        let mut path = Vec::new();
        let mut last_span = path_span;
        match term.kind {
            TermKind::Var(name) => path.push(name),
            TermKind::Ref(parts) => {
                for (index, part) in parts.into_iter().enumerate() {
                    last_span = part.span;
                    match part.kind {
                        TermKind::Var(name) if index == 0 => path.push(name),
                        TermKind::String(name) if index > 0 => path.push(name),
                        other => {
                            let message =
                                format!("unexpected {} token: expecting string", other.type_name());
                            self.error(part.span, message);
                            return None;
                        }
                    }
                }
            }
            _ => {
                self.error(self.span_here(), "expected path");
                return None;
            }
        }
        let root = path.first().map_or("", Str::as_str).to_owned();
        if !matches!(root.as_str(), "data" | "input" | "future" | "rego") {
            let message = format!(
                "unexpected import path, must begin with one of: {{data, future, input, rego}}, \
                 got: {root} (hint: if this is unexpected, try updating OPA)"
            );
            self.error(path_span, message);
            return None;
        }
        let mut alias = None;
        if self.at_keyword(Keyword::As) {
            self.advance();
            if !self.at(Tok::Ident) {
                return self.fail("expected var");
            }
            match self.term()?.kind {
                TermKind::Var(name) => alias = Some(name),
                _ => return self.fail("expected var"),
            }
        } else if root != "future"
            && let Some(last) = path.last()
            && self.is_reserved(last)
        {
            let message = format!(
                "unexpected import path, must not end with a keyword, got: {last} (hint: import a \
                 different path or use an alias)"
            );
            self.error(last_span, message);
            return None;
        }
        match root.as_str() {
            "rego" => self.import_rego(&path, alias.is_some(), path_span).map(|()| None),
            "future" => self.import_future(&path, alias.is_some(), path_span).map(|()| None),
            _ => Some(Some(Import { path, alias, span: self.span_from(start) })),
        }
    }

    fn import_rego(&mut self, path: &[Str], aliased: bool, span: Span) -> Option<()> {
        if path.len() != 2 || path.get(1).map(Str::as_str) != Some("v1") {
            let written = path.join(".");
            self.error(span, format!("invalid import `{written}`, must be `rego.v1`"));
            return None;
        }
        if self.version == RegoVersion::V1 {
            return Some(());
        }
        if aliased {
            self.error(span, "`rego` imports cannot be aliased");
            return None;
        }
        self.rego_v1 = true;
        self.keywords = u8::MAX;
        self.refresh();
        Some(())
    }

    fn import_future(&mut self, path: &[Str], aliased: bool, span: Span) -> Option<()> {
        if path.get(1).map(Str::as_str) != Some("keywords") {
            self.error(span, "invalid import, must be `future.keywords`");
            return None;
        }
        if aliased {
            self.error(span, "`future` imports cannot be aliased");
            return None;
        }
        match path.get(2).map(Str::as_str) {
            None => self.keywords = u8::MAX,
            Some("not") => self.not_bodies = true,
            Some(word) => match Keyword::from_name(word).filter(|keyword| keyword.is_future()) {
                Some(keyword) => {
                    self.keywords |= keyword_bit(keyword);
                    if keyword == Keyword::Every {
                        self.keywords |= keyword_bit(Keyword::In);
                    }
                }
                None => {
                    let known = "[contains every if in not]";
                    self.error(span, format!("unexpected keyword, must be one of {known}"));
                    return None;
                }
            },
        }
        self.refresh();
        Some(())
    }

    /// Looks at the current token again after keywords have been added.
    fn refresh(&mut self) {
        let token = Token { kind: unkeyword(self.token.kind), problem: None, ..self.token };
        self.install(token);
    }

    fn is_reserved(&self, word: &str) -> bool {
        Keyword::from_name(word)
            .is_some_and(|keyword| !keyword.is_future() || self.version == RegoVersion::V1)
    }

    // Rules.

    fn rules(&mut self, rules: &mut Vec<Rule>) -> Option<()> {
        let start = self.token.start;
        self.keyword_starts_ref();
        let default = self.at_keyword(Keyword::Default);
        if default {
            self.advance();
            self.keyword_starts_ref();
        }
        if !self.at(Tok::Ident) && !self.at_keyword(Keyword::Contains) {
            // Not a rule: parse it as an expression for the sake of the message.
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
            return None;
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
            // Only an expression after all; the message is the one for that.
            let named = match head.name.as_slice() {
                [Term { kind: TermKind::Var(name), .. }] => Some(name.as_str()),
                _ => None,
            };
            let is_builtin = |name| crate::builtins::find(name).is_some();
            let problem = if infix_operator(self.token.kind).is_some()
                || (function && named.is_some_and(is_builtin))
            {
                Some("rule name conflicts with built-in function")
            } else if self.at_keyword(Keyword::With) {
                Some("expressions using with keyword cannot be used for rule head")
            } else if named.is_some() && !function && head.member.is_none() {
                Some("var cannot be used for rule name")
            } else {
                None
            };
            if let Some(problem) = problem {
                self.error_in_statement(head.span, problem);
                return None;
            }
        }
        let strict = self.rego_v1;
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
            if dotted && !ground {
                let message = "else keyword cannot be used on rules with variables in head";
                self.error(self.span_here(), message);
                return None;
            }
            if is_set {
                let message = "else keyword cannot be used on multi-value rules";
                self.error(self.span_here(), message);
                return None;
            }
            self.else_chain(&mut els)?;
        }
        let span = self.span_from(start);
        if strict {
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
        let has_else = !els.is_empty();
        rules.push(Rule { head: head.clone(), body, els, default: false, span });
        while !bodiless && self.at(Tok::LBrace) {
            if has_else {
                self.error(self.span_here(), "expected else keyword");
                return None;
            }
            let start = self.token.start;
            let body = self.braced_body()?;
            let span = self.span_from(start);
            if strict {
                let message = format!("`if` keyword is required before {sort} body");
                self.error_in_statement(span, message);
            }
            let mut head = head.clone();
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
        head.span = self.span_from(start);
        Some(head)
    }

    fn braced_body(&mut self) -> Option<Body> {
        self.advance();
        let body = self.body(Tok::RBrace)?;
        self.advance();
        Some(body)
    }

    /// What follows `if`: one expression, or a body in braces.
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

    // Bodies.

    fn query(&mut self) -> Option<Body> {
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

    fn body(&mut self, end: Tok) -> Option<Body> {
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

    fn literal(&mut self) -> Option<Expr> {
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

    fn infix(&mut self) -> Option<Term> {
        self.infix_from(None, true)
    }

    fn infix_in_list(&mut self) -> Option<Term> {
        self.infix_from(None, false)
    }

    /// `left` is a term that was parsed already.
    fn infix_from(&mut self, left: Option<(Term, usize)>, pairs: bool) -> Option<Term> {
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
            let right = self.binary(None, 0)?;
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
            let right = self.binary(None, own + 1)?;
            height = height.max(self.height) + 1;
            self.grown(height)?;
            let span = left.span.to(right.span);
            left = Term { kind: TermKind::Call(Box::new(operator), vec![left, right]), span };
        }
        self.height = height;
        Some(left)
    }

    fn term(&mut self) -> Option<Term> {
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

    fn var(&mut self) -> Term {
        let span = self.span_here();
        let name = match self.lit() {
            "_" => self.wildcard(),
            name => Str::from(name),
        };
        Term { kind: TermKind::Var(name), span }
    }

    fn wildcard(&mut self) -> Str {
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
    fn reference(&mut self, head: Term, start: usize) -> Option<Term> {
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
        let value = self.term()?;
        let mut height = key_height.max(self.height);
        if self.at(Tok::Or) && comprehension {
            let mark = self.mark();
            self.advance();
            if let Some(body) = self.body(Tok::RBrace) {
                self.grown(height.max(self.height) + 1)?;
                let span = self.span(start, self.token.end);
                let kind = TermKind::ObjectComprehension(Box::new((key, value)), body);
                return Some(Term { kind, span });
            }
            if !self.at(Tok::Comma) {
                return None;
            }
            self.reset(mark);
        }
        let value = self.infix_from(Some((value, height)), false)?;
        height = height.max(self.height);
        let mut pairs = vec![(key, value)];
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
        let span = self.span(start, self.token.end);
        Some(Term { kind: TermKind::Object(pairs), span })
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

impl TermKind {
    /// The name of the kind that errors use.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::Var(_) => "var",
            Self::Ref(_) => "ref",
            Self::Array(_) => "array",
            Self::Set(_) => "set",
            Self::Object(_) => "object",
            Self::ArrayComprehension(..) => "arraycomprehension",
            Self::SetComprehension(..) => "setcomprehension",
            Self::ObjectComprehension(..) => "objectcomprehension",
            Self::Call(..) => "call",
            Self::Template(_) => "templatestring",
        }
    }
}

/// The name of an operator that is a single variable.
pub(crate) fn operator_name(operator: &Term) -> Option<&str> {
    match &operator.kind {
        TermKind::Ref(parts) => match parts.as_slice() {
            [Term { kind: TermKind::Var(name), .. }] => Some(name),
            _ => None,
        },
        TermKind::Var(name) => Some(name),
        _ => None,
    }
}

fn is_member_operator(operator: &Term) -> bool {
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

fn operator_term(name: &'static str, span: Span) -> Term {
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

fn keyword_bit(keyword: Keyword) -> u8 {
    match keyword {
        Keyword::In => 1,
        Keyword::Every => 2,
        Keyword::Contains => 4,
        Keyword::If => 8,
        _ => 0,
    }
}

fn unkeyword(kind: Tok) -> Tok {
    if matches!(kind, Tok::Keyword(_)) { Tok::Ident } else { kind }
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

pub(crate) fn true_term(span: Span) -> Term {
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

/// Whether a term has no variables, references, calls or comprehensions.
pub(crate) fn is_ground(term: &Term) -> bool {
    match &term.kind {
        TermKind::Null | TermKind::Bool(_) | TermKind::Number(_) | TermKind::String(_) => true,
        TermKind::Array(items) | TermKind::Set(items) => items.iter().all(is_ground),
        TermKind::Object(pairs) => pairs.iter().all(|(k, v)| is_ground(k) && is_ground(v)),
        _ => false,
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
