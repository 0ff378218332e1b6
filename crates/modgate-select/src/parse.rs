//! The parser: recursive descent with one token of look-ahead, as KubeMod's libraries (gval and its
//! JSONPath fork) have it, down to which token an error names.
//!
//! Differences: operators glued to the next token are separated, single quotes hold any
//! number of characters, and nesting and length are bounded.

use std::fmt::Write as _;

use modgate_value::{diag::Span, gofmt, regex::Allowance};

use crate::{
    ParseError,
    ast::{Binary, Entry, Function, Kind, Link, Node, Path, Root, Step, Text, Unary},
    lex::{self, Lexer, Token},
    num::{self, NotANumber},
};

/// How deep brackets, parentheses, prefixes and branches may be nested.
pub(crate) const MAX_NESTING: usize = 64;

/// How long an expression may be, in bytes.
pub(crate) const MAX_LENGTH: usize = 64 * 1024;

/// Parses a whole text as an expression.
pub(crate) fn expression(text: &str, patterns: &Allowance) -> Result<Node, ParseError> {
    Parser::run(text, patterns, |parser| {
        let node = parser.expression()?;
        parser.end()?;
        Ok(node)
    })
}

/// Parses a whole text as one bare path.
pub(crate) fn bare_path(text: &str, patterns: &Allowance) -> Result<Path, ParseError> {
    const HELP: &str = "a patch select is a bare path from `$`; conditions go into `[? …]`";
    let parsed = Parser::run(text, patterns, |parser| {
        let (path, _) = parser.captured_path()?;
        parser.scan();
        parser.put_back("operator");
        parser.end()?;
        Ok(path)
    });
    parsed.map_err(|error| ParseError { help: Some(error.help.unwrap_or(HELP)), ..error })
}

/// Why parsing stopped, without the frame that [`Parser::run`] puts around it.
#[derive(Debug)]
struct ParseFailure {
    detail: String,
    /// The offending part, unless that is the last token.
    span: Option<Span>,
    /// Whether the last token has a position of its own: a glued operator has none.
    positioned: bool,
    help: Option<&'static str>,
}

impl From<String> for ParseFailure {
    fn from(detail: String) -> Self {
        Self { detail, span: None, positioned: true, help: None }
    }
}

type Parsed<T> = Result<T, ParseFailure>;

struct Parser<'t> {
    lexer: Lexer<'t>,
    last: Token,
    /// Set when the last token was put back: the unit it did not fit, for the error should nothing
    /// else take it.
    put_back: Option<&'static str>,
    depth: usize,
    patterns: &'t Allowance,
    /// Whether placeholders are allowed: inside the key of an object literal.
    in_key: bool,
    /// Whether the innermost key has had a placeholder.
    saw_placeholder: bool,
}

impl<'t> Parser<'t> {
    fn run<T>(
        text: &'t str,
        patterns: &'t Allowance,
        parse: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Result<T, ParseError> {
        if text.len() > MAX_LENGTH {
            let detail = format!("expression is {} bytes long, limit {MAX_LENGTH}", text.len());
            return Err(ParseError {
                message: format!("parsing error: {detail}"),
                detail,
                span: Span::at(MAX_LENGTH),
                help: None,
            });
        }
        let mut parser = Self {
            lexer: Lexer::new(text),
            last: Token::Eof,
            put_back: None,
            depth: 0,
            patterns,
            in_key: false,
            saw_placeholder: false,
        };
        parse(&mut parser).map_err(|failure| parser.frame(text, failure))
    }

    fn frame(&self, text: &str, failure: ParseFailure) -> ParseError {
        let mut message = format!("parsing error: {text}\t");
        // An empty text has no position to start from.
        if failure.positioned && !text.is_empty() {
            let _ = write!(message, ":{}", self.lexer.token_location());
        }
        let _ = write!(message, " - {} {}", self.lexer.location(), failure.detail);
        let span = failure.span.unwrap_or_else(|| self.lexer.span());
        ParseError { message, detail: failure.detail, span, help: failure.help }
    }

    fn scan(&mut self) -> Token {
        if self.put_back.take().is_none() {
            self.last = self.lexer.scan();
        }
        self.last
    }

    /// Lets the next [`Parser::scan`] return the last token again.
    fn put_back(&mut self, unit: &'static str) {
        self.put_back = Some(unit);
    }

    /// Requires that everything was read.
    fn end(&mut self) -> Parsed<()> {
        match self.put_back {
            Some(unit) if self.last != Token::Eof => Err(self.unexpected(unit, &[])),
            _ => Ok(()),
        }
    }

    /// The error for a last token that does not fit.
    fn unexpected(&self, unit: &str, expected: &[Token]) -> ParseFailure {
        let mut detail = format!("unexpected {} while scanning {unit}", name(self.last));
        if let Some((last, others)) = expected.split_last() {
            detail.push_str(" expected ");
            for (index, token) in others.iter().enumerate() {
                let separator = if index + 1 < others.len() { ", " } else { " or " };
                detail.push_str(&name(*token));
                detail.push_str(separator);
            }
            detail.push_str(&name(*last));
        }
        detail.into()
    }

    /// Runs `parse` one level deeper.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_NESTING {
            return Err(format!("expression is nested deeper than {MAX_NESTING} levels").into());
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn expression(&mut self) -> Parsed<Node> {
        self.nested(Self::infix_expression)
    }

    /// Operands and operators by precedence: a left operand waits until an operator that binds no
    /// tighter has been read behind the right one.
    fn infix_expression(&mut self) -> Parsed<Node> {
        let mut waiting: Vec<(Node, Binary)> = Vec::new();
        let mut operand = self.operand()?;
        loop {
            match self.operator()? {
                Some(Operator::Infix(op)) => {
                    operand = self.reduce(&mut waiting, operand, op.precedence());
                    waiting.push((operand, op));
                    operand = self.operand()?;
                }
                Some(Operator::Condition) => {
                    operand = self.reduce(&mut waiting, operand, 0);
                    operand = self.branches(operand)?;
                }
                None => return Ok(self.reduce(&mut waiting, operand, 0)),
            }
        }
    }

    fn reduce(&mut self, waiting: &mut Vec<(Node, Binary)>, right: Node, precedence: u8) -> Node {
        let mut right = right;
        while let Some((left, op)) = waiting.pop_if(|(_, op)| op.precedence() >= precedence) {
            let mut link = Link::new(op, right);
            if link.pattern().is_some() {
                link = link.compile(self.patterns);
            }
            right = Node::infix(left, link);
        }
        right
    }

    /// Reads an operator, or puts back a token that is none.
    fn operator(&mut self) -> Parsed<Option<Operator>> {
        let token = self.scan();
        let is_symbol = matches!(token, Token::Mark(mark) if GLUED.contains(&mark));
        if !is_symbol {
            let op = (token == Token::Ident).then(|| Operator::named(self.lexer.token_text()));
            if op.flatten().is_none() {
                self.put_back("operator");
            }
            return Ok(op.flatten());
        }
        let rest = self.lexer.rest();
        let run = rest.len() - rest.trim_start_matches(GLUED).len();
        let first = self.lexer.token_text().len();
        if run == 0 {
            let op = Operator::named(self.lexer.token_text());
            if op.is_none() {
                self.put_back("operator");
            }
            return Ok(op);
        }
        self.lexer.extend(run);
        let glued = self.lexer.token_text();
        if let Some(op) = Operator::named(glued) {
            return Ok(Some(op));
        }
        // KubeMod stops here. The longest operator counts if only prefixes, a name or a comment
        // are glued to it.
        let split = (first..glued.len()).rev().find_map(|at| {
            let (op, behind) = glued.split_at_checked(at)?;
            // `==~` is a mistyped `=~`, not a comparison with a complement.
            let mistyped = op.ends_with(['=', '~']) && behind.starts_with('~');
            let behind = behind.trim_start_matches(['-', '!', '~']);
            let legible = (behind.is_empty() && !mistyped)
                || behind.starts_with(['i', 'n'])
                || behind.starts_with("//")
                || behind.starts_with("/*");
            Some((Operator::named(op).filter(|_| legible)?, at))
        });
        match split {
            Some((op, at)) => {
                self.lexer.retract(glued.len() - at);
                Ok(Some(op))
            }
            None => {
                let mut failure = ParseFailure::from(format!("unknown operator {glued}"));
                failure.positioned = false;
                failure.help = match glued {
                    "===" => Some("equality is `==`"),
                    "!==" | "<>" => Some("inequality is `!=`"),
                    "==~" => Some("a regular expression is searched with `=~`"),
                    _ => None,
                };
                Err(failure)
            }
        }
    }

    /// Reads the branches behind `condition ?`.
    fn branches(&mut self, condition: Node) -> Parsed<Node> {
        let then = self.expression()?;
        let otherwise = match self.scan() {
            Token::Mark(':') => Some(Box::new(self.expression()?)),
            Token::Eof => None,
            _ => {
                return Err(self.unexpected("<> ? <> : <>", &[Token::Mark(':'), Token::Eof]));
            }
        };
        let last = otherwise.as_deref().unwrap_or(&then);
        let span = condition.span.to(last.span);
        Ok(Node { kind: Kind::Cond(Box::new(condition), Box::new(then), otherwise), span })
    }

    fn operand(&mut self) -> Parsed<Node> {
        let token = self.scan();
        let start = self.lexer.span();
        let kind = match token {
            Token::Int | Token::Float => Kind::Number(self.number()?),
            Token::String | Token::RawString | Token::Char => Kind::Text(self.string()?),
            Token::Ident => return self.name(),
            Token::Mark('-') => return self.prefix(Unary::Negate),
            Token::Mark('!') => return self.prefix(Unary::Not),
            Token::Mark('~') => return self.prefix(Unary::Complement),
            Token::Mark('(') => {
                let inner = self.expression()?;
                if self.scan() != Token::Mark(')') {
                    return Err(self.unexpected("parentheses", &[Token::Mark(')')]));
                }
                return Ok(Node { kind: inner.kind, span: start.to(self.lexer.span()) });
            }
            Token::Mark('[') => return self.nested(|parser| parser.array(start)),
            Token::Mark('{') => return self.nested(|parser| parser.object(start)),
            Token::Mark('$') => return self.path(Root::Document),
            Token::Mark('@') => return self.path(Root::Current),
            Token::Mark('#') => return self.placeholder(),
            Token::Mark(_) | Token::Eof => return Err(self.unexpected("extensions", &[])),
        };
        Ok(Node { kind, span: start })
    }

    fn number(&self) -> Parsed<f64> {
        let text = self.lexer.token_text();
        num::parse_float(text).map_err(|error| {
            let why = match error {
                NotANumber::Syntax => "invalid syntax",
                NotANumber::Range => "value out of range",
            };
            format!("strconv.ParseFloat: parsing \"{text}\": {why}").into()
        })
    }

    fn string(&self) -> Parsed<Text> {
        let literal = self.lexer.token_text();
        lex::unquote(literal).map(Text::new).ok_or_else(|| {
            let mut failure =
                ParseFailure::from("could not parse string: invalid syntax".to_owned());
            if literal.contains('\\') {
                failure.help =
                    Some("a backslash itself is written `\\\\`, or the text in backquotes");
            }
            failure
        })
    }

    fn prefix(&mut self, op: Unary) -> Parsed<Node> {
        let start = self.lexer.span();
        let operand = self.nested(Self::operand)?;
        let span = start.to(operand.span);
        Ok(Node { kind: Kind::Unary(op, Box::new(operand)), span })
    }

    fn array(&mut self, start: Span) -> Parsed<Node> {
        let mut elements = Vec::new();
        loop {
            match self.scan() {
                Token::Mark(',') => {}
                Token::Mark(']') => break,
                _ => {
                    self.put_back("array");
                    elements.push(self.expression()?);
                }
            }
        }
        Ok(Node { kind: Kind::Array(elements), span: start.to(self.lexer.span()) })
    }

    fn object(&mut self, start: Span) -> Parsed<Node> {
        let mut entries = Vec::new();
        loop {
            match self.scan() {
                Token::Mark(',') => {}
                Token::Mark('}') => break,
                _ => {
                    self.put_back("object");
                    entries.push(self.entry()?);
                }
            }
        }
        Ok(Node { kind: Kind::Object(entries), span: start.to(self.lexer.span()) })
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let outer = (
            std::mem::replace(&mut self.in_key, true),
            std::mem::replace(&mut self.saw_placeholder, false),
        );
        let key = self.expression()?;
        let per_match = self.saw_placeholder;
        (self.in_key, self.saw_placeholder) = outer;
        // KubeMod means to require a colon here, but takes anything.
        self.scan();
        let value = if per_match {
            let (path, span) = self.captured_path()?;
            Node { kind: Kind::Path(path), span }
        } else {
            self.expression()?
        };
        Ok(Entry { key, value, per_match })
    }

    fn placeholder(&mut self) -> Parsed<Node> {
        let start = self.lexer.span();
        if !self.in_key {
            return Err("JSONPath placeholder must only be used in an JSON object key"
                .to_owned()
                .into());
        }
        self.saw_placeholder = true;
        if self.scan() != Token::Int {
            self.put_back("JSONPath placeholder");
            return Ok(Node { kind: Kind::Placeholder(None), span: start });
        }
        let text = self.lexer.token_text();
        let index = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok());
        let Some(index) = index.flatten() else {
            return Err(format!("strconv.Atoi: parsing \"{text}\": invalid syntax").into());
        };
        Ok(Node { kind: Kind::Placeholder(Some(index)), span: start.to(self.lexer.span()) })
    }

    /// Parses what an identifier starts: a constant, a function call, or a variable.
    fn name(&mut self) -> Parsed<Node> {
        let start = self.lexer.span();
        let name = self.lexer.token_text();
        match name {
            "true" => return Ok(Node { kind: Kind::Bool(true), span: start }),
            "false" => return Ok(Node { kind: Kind::Bool(false), span: start }),
            _ => {}
        }
        let Some(function) = Function::named(name) else {
            return self.variable();
        };
        let (mut span, mut arguments) = (start, Vec::new());
        if self.scan() == Token::Mark('(') {
            arguments = self.arguments()?;
            span = start.to(self.lexer.span());
        } else {
            self.put_back("function call");
        }
        Ok(Node { kind: Kind::Call(function, arguments), span })
    }

    /// Reads arguments behind `(`.
    fn arguments(&mut self) -> Parsed<Vec<Node>> {
        let mut arguments = Vec::new();
        if self.scan() == Token::Mark(')') {
            return Ok(arguments);
        }
        self.put_back("scan arguments");
        loop {
            arguments.push(self.expression()?);
            match self.scan() {
                Token::Mark(')') => return Ok(arguments),
                Token::Mark(',') => {}
                _ => {
                    let expected = [Token::Mark(')'), Token::Mark(',')];
                    return Err(self.unexpected("arguments", &expected));
                }
            }
        }
    }

    fn variable(&mut self) -> Parsed<Node> {
        let mut span = self.lexer.span();
        let mut keys = vec![Node::text(self.lexer.token_text(), span)];
        loop {
            match self.scan() {
                Token::Mark('.') => {
                    if self.scan() != Token::Ident {
                        return Err(self.unexpected("field", &[Token::Ident]));
                    }
                    keys.push(Node::text(self.lexer.token_text(), self.lexer.span()));
                }
                Token::Mark('(') => {
                    let arguments = self.arguments()?;
                    let span = span.to(self.lexer.span());
                    return Ok(Node { kind: Kind::CallVariable(keys, arguments), span });
                }
                Token::Mark('[') => {
                    keys.push(self.expression()?);
                    if self.scan() != Token::Mark(']') {
                        return Err(self.unexpected("array key", &[Token::Mark(']')]));
                    }
                }
                _ => {
                    self.put_back("variable");
                    return Ok(Node { kind: Kind::Variable(keys), span });
                }
            }
            span = span.to(self.lexer.span());
        }
    }

    fn path(&mut self, root: Root) -> Parsed<Node> {
        let (path, span) = self.steps(root)?;
        Ok(Node { kind: Kind::Path(path), span })
    }

    /// A path where nothing else may stand: its captured keys are wanted.
    fn captured_path(&mut self) -> Parsed<(Path, Span)> {
        match self.scan() {
            Token::Mark('$') => self.steps(Root::Document),
            Token::Mark('@') => self.steps(Root::Current),
            _ => Err(self.unexpected("JSONPath key and value", &[])),
        }
    }

    /// Reads the steps behind `$` or `@`.
    fn steps(&mut self, root: Root) -> Parsed<(Path, Span)> {
        let mut span = self.lexer.span();
        let mut steps = Vec::new();
        loop {
            match self.scan() {
                Token::Mark('.') => self.dotted(&mut steps)?,
                Token::Mark('[') => steps.push(self.bracket(false)?),
                Token::Mark('(') => steps.push(self.script()?),
                _ => {
                    self.put_back("jsonpath");
                    return Ok((Path::new(root, steps), span));
                }
            }
            span = span.to(self.lexer.span());
        }
    }

    /// Reads behind a dot.
    fn dotted(&mut self, steps: &mut Vec<Step>) -> Parsed<()> {
        match self.scan() {
            Token::Ident => steps.push(self.key()),
            Token::Mark('*') => steps.push(Step::Star),
            Token::Mark('.') => {
                steps.push(Step::Descend);
                steps.push(match self.scan() {
                    Token::Ident => self.key(),
                    Token::Mark('*') => Step::Star,
                    Token::Mark('[') => self.bracket(true)?,
                    Token::Mark('(') => self.script()?,
                    _ => {
                        let expected = [Token::Mark('['), Token::Ident, Token::Mark('*')];
                        return Err(self.unexpected("JSON mapper", &expected));
                    }
                });
            }
            _ => {
                let expected = [Token::Ident, Token::Mark('.'), Token::Mark('*')];
                let mut failure = self.unexpected("JSON select", &expected);
                if matches!(self.last, Token::String | Token::Char | Token::RawString) {
                    failure.help = Some("a quoted key goes into brackets: `$[\"key\"]`");
                }
                return Err(failure);
            }
        }
        Ok(())
    }

    fn key(&self) -> Step {
        Step::Key(Node::text(self.lexer.token_text(), self.lexer.span()))
    }

    fn script(&mut self) -> Parsed<Step> {
        let script = self.expression()?;
        if self.scan() != Token::Mark(')') {
            return Err(self.unexpected("jsonpath script", &[Token::Mark(')')]));
        }
        Ok(Step::Script(script))
    }

    /// Reads behind `[`; `descending` behind `..[`.
    fn bracket(&mut self, descending: bool) -> Parsed<Step> {
        /// The default of a missing bound of a slice.
        type Bound = Option<Box<Node>>;
        let mut keys: Vec<Bound> = Vec::new();
        let mut separator = None;
        loop {
            let mut token = self.scan();
            match token {
                Token::Mark('?') => {}
                // A missing bound. The third of `[:::]` is KubeMod's explicit zero, which counts
                // as 1 like a missing one.
                Token::Mark(':') => keys.push(None),
                Token::Mark('*') => {
                    if self.scan() != Token::Mark(']') {
                        return Err(self.unexpected("JSON bracket star", &[Token::Mark(']')]));
                    }
                    return Ok(Step::Star);
                }
                Token::Mark(']') if separator == Some(Token::Mark(':')) => {}
                _ => {
                    self.put_back("jsonpath brackets");
                    keys.push(Some(Box::new(self.expression()?)));
                    token = self.scan();
                }
            }
            let kind = *separator.get_or_insert(token);
            match token {
                Token::Mark(']') => break,
                Token::Mark(':' | ',') => {}
                Token::Mark('?') if keys.is_empty() => {}
                Token::Mark('?') => {
                    return Err(self.unexpected("JSON filter", &[Token::Mark(']')]));
                }
                _ => {
                    let expected = [Token::Mark(':'), Token::Mark(',')];
                    return Err(self.unexpected("JSON bracket separator", &expected));
                }
            }
            if let (Token::Mark(kind), Token::Mark(mark)) = (kind, token)
                && kind != mark
            {
                let (kind, mark) = (u32::from(kind), u32::from(mark));
                return Err(format!("mixed {kind} and {mark} in JSON bracket").into());
            }
        }
        match separator {
            Some(Token::Mark(':')) if descending => {
                Err("mapper can not be combined with range query".to_owned().into())
            }
            Some(Token::Mark(':')) => {
                let mut bounds = keys.into_iter();
                let slice = [(); 3].map(|()| bounds.next().flatten());
                if bounds.next().is_some() {
                    let detail = "range query has at least the parameter [min:max:step]";
                    return Err(detail.to_owned().into());
                }
                Ok(Step::Slice(slice))
            }
            Some(Token::Mark('?')) => {
                let mut keys = keys.into_iter().flatten();
                match (keys.next(), keys.next()) {
                    (Some(condition), None) => Ok(Step::Filter(*condition)),
                    _ => Err("filter needs exactly one key".to_owned().into()),
                }
            }
            _ => {
                let mut keys: Vec<Node> = keys.into_iter().flatten().map(|key| *key).collect();
                match keys.pop_if(|_| !descending) {
                    Some(key) if keys.is_empty() => Ok(Step::Key(key)),
                    Some(key) => {
                        keys.push(key);
                        Ok(Step::Union(keys))
                    }
                    None => Ok(Step::Union(keys)),
                }
            }
        }
    }
}

/// The tokens that may follow an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Infix(Binary),
    /// `?`
    Condition,
}

impl Operator {
    fn named(name: &str) -> Option<Self> {
        if name == "?" { Some(Self::Condition) } else { Binary::named(name).map(Self::Infix) }
    }
}

/// The characters that continue an operator: all that occur in any operator's name.
const GLUED: [char; 16] =
    ['!', '%', '&', '*', '+', '-', '/', '<', '=', '>', '?', '^', '|', '~', 'i', 'n'];

/// A token as errors name it.
fn name(token: Token) -> String {
    match token {
        Token::Eof => "EOF".to_owned(),
        Token::Ident => "Ident".to_owned(),
        Token::Int => "Int".to_owned(),
        Token::Float => "Float".to_owned(),
        Token::Char => "Char".to_owned(),
        Token::String => "String".to_owned(),
        Token::RawString => "RawString".to_owned(),
        Token::Mark(mark) => gofmt::quote(mark.encode_utf8(&mut [0; 4])),
    }
}
