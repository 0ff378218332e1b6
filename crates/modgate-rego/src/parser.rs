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

mod body;
mod rules;
mod terms;
mod tokens;

use std::sync::Arc;

use modgate_value::Str;

use self::tokens::keyword_bit;
use crate::{
    ast::{Body, Import, Module, RegoVersion, Span, TermKind},
    error::{Code, Error},
    lexer::{Keyword, Lexer, Tok, Token},
    mistake::{Mistake, SyntaxError},
    stack_position,
};

/// The longest module, in bytes.
pub const MAX_TEXT: usize = 8 << 20;

/// How much of the native stack the parser may use; only unoptimised builds come near it.
const MAX_STACK: usize = 1 << 20;

/// The one error that has no place.
/// How many errors of syntax are reported.
const MAX_ERRORS: usize = 10;

/// How many statements that are no rules are reported; OPA reports each.
const MAX_STATEMENTS: usize = 100;

/// How deep terms and bodies may nest. A chain of infix operators nests once per operator.
pub const MAX_NESTING: usize = 128;

/// Reads a module.
///
/// # Errors
///
/// Errors of [`Code::Parse`], in the order found.
pub fn parse_module(name: &str, text: &str, version: RegoVersion) -> Result<Module, Vec<Error>> {
    let name = Str::from(name);
    let mut parser = Parser::new(&name, text, version)?;
    match parser.module() {
        Some(module) if parser.is_clean() => Ok(module),
        _ => Err(parser.into_errors()),
    }
}

/// Reads a query: expressions separated by `;` or line breaks.
///
/// # Errors
///
/// Errors of [`Code::Parse`], in the order found.
pub fn parse_query(text: &str, version: RegoVersion) -> Result<Body, Vec<Error>> {
    let name = Str::default();
    let mut parser = Parser::new(&name, text, version)?;
    match parser.query() {
        Some(body) if parser.errors.is_empty() => Ok(body),
        _ => Err(parser.into_errors()),
    }
}

/// A position that the parser can return to.
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
    /// Statements that are no rules. OPA reports them if the syntax has no error.
    statements: Vec<Problem>,
    /// The problems that version 1 forbids in rules. OPA looks for them at the end.
    strictness: Vec<Problem>,
}

/// An error that is not worked out yet.
#[derive(PartialEq)]
struct Problem {
    span: Span,
    error: SyntaxError,
    hints: Vec<&'static str>,
    /// Whether the line is shown.
    excerpt: bool,
}

impl Problem {
    fn without_excerpt(span: Span, error: SyntaxError) -> Self {
        Self { span, error, hints: Vec::new(), excerpt: false }
    }
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
            statements: Vec::new(),
            strictness: Vec::new(),
        };
        parser.advance();
        Ok(parser)
    }

    /// Whether there is nothing to report.
    fn is_clean(&self) -> bool {
        let strict = self.rego_v1 && !self.strictness.is_empty();
        self.errors.is_empty() && self.statements.is_empty() && !strict
    }

    fn into_errors(mut self) -> Vec<Error> {
        if self.is_clean() {
            self.illegal("");
        }
        if self.errors.is_empty() {
            self.errors.append(&mut self.statements);
            if self.rego_v1 {
                self.errors.append(&mut self.strictness);
            }
        }
        let length = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let mut errors = Vec::new();
        for problem in self.errors {
            let Problem { span, error, hints, excerpt } = problem;
            let is_empty = error == SyntaxError::EmptyModule;
            let mistake = Mistake::Syntax { error, hints };
            let mut error = Error::at(Code::Parse, self.name, self.text, span, mistake);
            if excerpt {
                error = error.with_excerpt(self.text);
                if self.text.as_bytes().get(span.start as usize) == Some(&b'\n') {
                    // OPA has read the line break where white space may not stand.
                    error.line += 1;
                }
                if span.start == length {
                    // OPA counts the characters it has read.
                    error.column = error.column.saturating_sub(1);
                }
            } else if is_empty {
                (error.line, error.column) = (0, 0);
            }
            errors.push(error);
        }
        errors
    }

    // Tokens.

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
                if !first {
                    self.error_in_statement(self.span_from(start), "unexpected package");
                }
                package = Some((path, self.span_from(start)));
            } else {
                if !self.errors.is_empty() {
                    return None;
                }
                if self.at_keyword(Keyword::Import) && !is_ref {
                    imports.extend(self.import()?);
                } else {
                    self.rules(&mut rules)?;
                }
                if first {
                    // OPA looks no further at what stands in the package's place.
                    self.statements.clear();
                    self.strictness.clear();
                    self.error_in_statement(self.span_from(start), SyntaxError::PackageExpected);
                }
            }
            first = false;
        }
        if first {
            self.error_in_statement(Span::default(), SyntaxError::EmptyModule);
        }
        let (package, package_span) = package?;
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
        // The token after the path was read without the future keywords, of which `not` is one.
        if self.at_keyword(Keyword::Not) {
            self.token.kind = Tok::Ident;
        }
        let Some(term) = term else {
            self.error(self.span_here(), "expected path");
            return None;
        };
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
            let written: String = path
                .iter()
                .enumerate()
                .map(|(index, part)| match Keyword::from_name(part) {
                    _ if index == 0 => part.to_string(),
                    Some(keyword) if !keyword.is_future() => format!("[\"{part}\"]"),
                    _ => format!(".{part}"),
                })
                .collect();
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
        Some(())
    }

    fn is_reserved(&self, word: &str) -> bool {
        Keyword::from_name(word)
            .is_some_and(|keyword| !keyword.is_future() || self.version == RegoVersion::V1)
    }
}
