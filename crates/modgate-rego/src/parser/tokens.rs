//! The token at hand, places, and errors.

use super::{MAX_ERRORS, MAX_NESTING, MAX_STACK, MAX_STATEMENTS, Mark, Parser, Problem};
use crate::{
    ast::Span,
    lexer::{Keyword, Tok, Token},
    mistake::{SyntaxError, TokenError},
    stack_position,
};

impl<'t> Parser<'t> {
    pub(super) fn advance(&mut self) {
        self.last_end = self.token.end;
        let next = if self.fuel == 0 {
            let error = SyntaxError::from("module takes too long to parse");
            if !self.errors.iter().any(|problem| problem.error == error) {
                self.error(self.span_here(), error);
            }
            Token { kind: Tok::Eof, start: self.text.len(), end: self.text.len(), ..self.token }
        } else {
            self.fuel -= 1;
            self.lexer.next(self.token.end)
        };
        self.install(next);
    }

    pub(super) fn install(&mut self, mut token: Token) {
        if token.kind == Tok::Ident
            && let Some(keyword) =
                self.text.get(token.start..token.end).and_then(Keyword::from_name)
            && self.is_active(keyword)
        {
            token.kind = Tok::Keyword(keyword);
        }
        self.token = token;
        match token.problem {
            Some(TokenError::FractionAndNumber) => {
                self.error(self.span_here(), TokenError::Fraction);
                self.error(self.span_here(), TokenError::Number);
            }
            Some(problem) => self.error(self.span_here(), problem),
            None => {}
        }
    }

    fn is_active(&self, keyword: Keyword) -> bool {
        !keyword.is_future() || self.keywords & keyword_bit(keyword) != 0
    }

    /// The token after this one, without going there.
    pub(super) fn peek(&self) -> Token {
        self.lexer.next(self.token.end)
    }

    pub(super) fn lit(&self) -> &'t str {
        self.text.get(self.token.start..self.token.end).unwrap_or("")
    }

    pub(super) fn at(&self, kind: Tok) -> bool {
        self.token.kind == kind
    }

    pub(super) fn at_keyword(&self, keyword: Keyword) -> bool {
        self.at(Tok::Keyword(keyword))
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            token: self.token,
            last_end: self.last_end,
            errors: self.errors.len(),
            hints: self.hints.len(),
        }
    }

    pub(super) fn reset(&mut self, mark: Mark) {
        self.token = mark.token;
        self.last_end = mark.last_end;
        self.errors.truncate(mark.errors);
        self.hints.truncate(mark.hints);
    }

    /// The white space before the current token, as a token.
    pub(super) fn space_here(&self) -> Token {
        let newline = self.text.get(self.last_end..).is_some_and(|rest| rest.starts_with('\n'));
        Token {
            kind: Tok::Whitespace,
            start: self.last_end,
            end: (self.last_end + 1).min(self.text.len()),
            space: false,
            newline,
            problem: None,
        }
    }

    /// A keyword directly followed by `.` or `[` is a name: `if.x`.
    pub(super) fn keyword_starts_ref(&mut self) -> bool {
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

    pub(super) fn is_ref_keyword(&self, keyword: Keyword) -> bool {
        self.is_active(keyword)
    }

    // Places and errors.

    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        let offset = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        Span { start: offset(start), end: offset(end.max(start)), module: 0 }
    }

    pub(super) fn span_here(&self) -> Span {
        self.span(self.token.start, self.token.end)
    }

    pub(super) fn span_from(&self, start: usize) -> Span {
        self.span(start, self.last_end)
    }

    pub(super) fn error(&mut self, span: Span, error: impl Into<SyntaxError>) {
        if self.errors.len() >= MAX_ERRORS {
            return;
        }
        let problem = Problem {
            span,
            error: error.into(),
            hints: std::mem::take(&mut self.hints),
            excerpt: true,
        };
        // OPA remembers that nothing could be read at the end.
        let is_end = matches!(
            &problem.error,
            SyntaxError::Unexpected { name, note, .. } if *name == Tok::Eof.name() && note.is_empty()
        );
        let is_repeated =
            is_end && problem.hints.is_empty() && self.errors.last() == Some(&problem);
        if !is_repeated {
            self.errors.push(problem);
        }
    }

    /// An error about a whole statement, which OPA reports without the line.
    pub(super) fn error_in_statement(&mut self, span: Span, error: impl Into<SyntaxError>) {
        if self.statements.len() < MAX_STATEMENTS {
            self.statements.push(Problem::without_excerpt(span, error.into()));
        }
    }

    /// An error about a rule, if the module turns out to be of version 1.
    pub(super) fn error_in_v1(&mut self, span: Span, error: impl Into<SyntaxError>) {
        if self.strictness.len() < MAX_STATEMENTS {
            self.strictness.push(Problem::without_excerpt(span, error.into()));
        }
    }

    pub(super) fn illegal(&mut self, note: &str) {
        let error = match self.token.kind {
            Tok::Illegal => TokenError::Illegal.into(),
            kind => SyntaxError::Unexpected {
                name: kind.name(),
                is_keyword: matches!(kind, Tok::Keyword(_)),
                note: note.to_owned(),
            },
        };
        self.error(self.span_here(), error);
    }

    pub(super) fn fail<T>(&mut self, note: &str) -> Option<T> {
        self.illegal(note);
        None
    }

    pub(super) fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        let deep = stack_position().abs_diff(self.stack) > MAX_STACK;
        if self.depth > MAX_NESTING || deep {
            self.error(self.span_here(), "max parsing recursion depth exceeded");
            self.depth -= 1;
            return None;
        }
        Some(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Notes that a term of this height was built.
    pub(super) fn grown(&mut self, height: usize) -> Option<()> {
        self.height = height;
        if height > MAX_NESTING {
            self.error(self.span_here(), "max parsing recursion depth exceeded");
            return None;
        }
        Some(())
    }
}

pub(super) fn keyword_bit(keyword: Keyword) -> u8 {
    match keyword {
        Keyword::In => 1,
        Keyword::Every => 2,
        Keyword::Contains => 4,
        Keyword::If => 8,
        _ => 0,
    }
}
