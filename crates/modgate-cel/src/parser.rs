//! Tokens into syntax, by descent; operators by precedence.

use std::cell::Cell;

use modgate_value::diag::Span;

use crate::{
    ast::{Element, Entry, Expr, Field, Kind, Literal, Macro},
    brief::brief,
    error::Errors,
    issue::{Expected, Issue, Mistake, SyntaxError},
    lexer::{Token, is_reserved, tokens},
};

/// How deeply an expression may nest, cel-go's bound.
pub const MAX_DEPTH: u16 = 250;

/// How deeply brackets and ternaries may nest; lower than [`MAX_DEPTH`] because every level takes
/// several calls of the parser, and threads have as little as 2 MB of stack.
pub const MAX_NESTING: u16 = 120;

/// How many characters an expression may have, cel-go's bound.
pub const MAX_SIZE: usize = 100_000;

/// Reads one expression.
///
/// # Errors
///
/// A syntax error and its place.
pub fn parse(text: &str) -> Result<Expr, Errors> {
    parse_with(text, true)
}

/// As [`parse`]; `quoted` where names may stand in backticks.
pub(crate) fn parse_with(text: &str, quoted: bool) -> Result<Expr, Errors> {
    let size = text.chars().count();
    if size > MAX_SIZE {
        let mistake = Mistake::TooLong { size, limit: MAX_SIZE };
        return Err(Errors::new(&brief(text), vec![Issue::new(Span::at(0), mistake)]));
    }
    let (tokens, mut issues) = tokens(text);
    let mut parser =
        Parser { text, quoted, tokens, at: 0, depth: 0, ids: Cell::new(0), issues: Vec::new() };
    let expr = parser.expression().and_then(|expr| match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.extraneous(Expected::End)),
    });
    let found = match expr {
        Ok(expr) if issues.is_empty() && parser.issues.is_empty() => return Ok(expr),
        Ok(_) => None,
        Err(issue) => Some(issue),
    };
    issues.extend(parser.issues);
    issues.extend(found);
    Err(Errors::new(text, issues))
}

struct Parser<'t> {
    text: &'t str,
    /// Whether names may stand in backticks.
    quoted: bool,
    tokens: Vec<(Token, Span)>,
    at: usize,
    depth: u16,
    ids: Cell<u32>,
    issues: Vec<Issue>,
}

type Parsed<T> = Result<T, Issue>;

/// The name cel-go gives an infix operator, and how tightly it binds.
fn infix(symbol: &str) -> Option<(&'static str, u8)> {
    Some(match symbol {
        "||" => ("_||_", 1),
        "&&" => ("_&&_", 2),
        "==" => ("_==_", 3),
        "!=" => ("_!=_", 3),
        "<" => ("_<_", 3),
        "<=" => ("_<=_", 3),
        ">" => ("_>_", 3),
        ">=" => ("_>=_", 3),
        "in" => ("@in", 3),
        "+" => ("_+_", 4),
        "-" => ("_-_", 4),
        "*" => ("_*_", 5),
        "/" => ("_/_", 5),
        "%" => ("_%_", 5),
        _ => return None,
    })
}

/// Whether this token may follow a symbol: an expression a colon, the end a bracket.
fn follows(symbol: &str, token: &Token) -> bool {
    match symbol {
        ":" => begins_expression(token),
        _ => *token == Token::End,
    }
}

/// Whether an expression may begin with this token.
fn begins_expression(token: &Token) -> bool {
    match token {
        Token::Symbol(symbol) => matches!(*symbol, "[" | "{" | "(" | "." | "-" | "!"),
        token => *token != Token::End,
    }
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    fn span(&self) -> Span {
        self.tokens.get(self.at).map_or(Span::at(self.text.len()), |(_, span)| *span)
    }

    fn advance(&mut self) -> (Token, Span) {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token.unwrap_or((Token::End, Span::at(self.text.len())))
    }

    fn eat(&mut self, symbol: &str) -> Option<Span> {
        let found = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        found.then(|| self.advance().1)
    }

    fn expect(&mut self, symbol: &'static str) -> Parsed<Span> {
        self.eat(symbol).ok_or_else(|| match self.peek_second() {
            Token::Symbol(next) if *next == symbol => self.extraneous(Expected::Symbol(symbol)),
            // The symbol is missing only where what stands here may follow it.
            _ if !follows(symbol, self.peek()) => self.mismatched(Expected::Symbol(symbol)),
            _ => {
                let found = self.found();
                self.syntax(SyntaxError::Missing { symbol, found })
            }
        })
    }

    /// The end of a list or map, where a comma could stand too.
    fn expect_end(&mut self, symbol: &'static str) -> Parsed<Span> {
        self.eat(symbol).ok_or_else(|| {
            let expected = Expected::SymbolOrComma(symbol);
            match self.peek_second() {
                Token::Symbol(next) if *next == symbol => self.extraneous(expected),
                _ => self.mismatched(expected),
            }
        })
    }

    fn peek_second(&self) -> &Token {
        self.tokens.get(self.at + 1).map_or(&Token::End, |(token, _)| token)
    }

    /// The next token as it is written.
    fn found(&self) -> String {
        let span = self.span();
        let found = match self.peek() {
            Token::End => "<EOF>",
            _ => self.text.get(span.start..span.end).unwrap_or_default(),
        };
        found.to_owned()
    }

    /// Something else than the beginning of an expression.
    fn no_primary(&self) -> Issue {
        match begins_expression(self.peek_second()) {
            true => self.extraneous(Expected::Expression),
            false => self.mismatched(Expected::Expression),
        }
    }

    fn extraneous(&self, expected: Expected) -> Issue {
        self.syntax(SyntaxError::Extraneous { found: self.found(), expected })
    }

    fn mismatched(&self, expected: Expected) -> Issue {
        self.syntax(SyntaxError::Mismatched { found: self.found(), expected })
    }

    /// A syntax error at the next token.
    fn syntax(&self, error: SyntaxError) -> Issue {
        Issue::new(self.span(), error)
    }

    fn node(&self, kind: Kind, span: Span, depth: u16) -> Parsed<Expr> {
        if depth >= MAX_DEPTH {
            return Err(Issue::new(span, Mistake::TooDeep(MAX_DEPTH)));
        }
        let id = self.ids.get();
        self.ids.set(id + 1);
        Ok(Expr { kind, span, depth: depth + 1, id })
    }

    fn call(&self, function: &str, args: Vec<Expr>, span: Span) -> Parsed<Expr> {
        let depth = depth_of(&args);
        self.node(Kind::Call { function: function.into(), target: None, args }, span, depth)
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(Issue::new(self.span(), Mistake::TooDeep(MAX_NESTING)));
        }
        let condition = self.binary(1)?;
        let expr = match self.eat("?") {
            None => condition,
            Some(span) => {
                let yes = self.binary(1)?;
                self.expect(":")?;
                let no = self.expression()?;
                self.call("_?_:_", vec![condition, yes, no], span)?
            }
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn binary(&mut self, level: u8) -> Parsed<Expr> {
        let mut left = self.unary()?;
        loop {
            let Token::Symbol(symbol) = *self.peek() else { return Ok(left) };
            let Some((function, binding)) = infix(symbol).filter(|(_, at)| *at >= level) else {
                return Ok(left);
            };
            if binding <= 2 {
                // Long chains of one logical operator are balanced, so that they stay shallow.
                let mut terms = vec![left];
                let mut spans = Vec::new();
                while let Some(span) = self.eat(symbol) {
                    spans.push(span);
                    terms.push(self.binary(binding + 1)?);
                }
                left = self.balance(function, terms, &spans)?;
            } else {
                let (_, span) = self.advance();
                let right = self.binary(binding + 1)?;
                left = self.call(function, vec![left, right], span)?;
            }
        }
    }

    fn balance(&self, function: &str, mut terms: Vec<Expr>, spans: &[Span]) -> Parsed<Expr> {
        let middle = spans.len() / 2;
        let right = terms.split_off((middle + 1).min(terms.len()));
        let (before, rest) = spans.split_at(middle);
        let Some((span, after)) = rest.split_first() else {
            return terms.pop().ok_or_else(|| self.mismatched(Expected::Expression));
        };
        let left = self.balance(function, terms, before)?;
        let right = self.balance(function, right, after)?;
        self.call(function, vec![left, right], *span)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        for (symbol, function) in [("!", "!_"), ("-", "-_")] {
            let Some(span) = self.eat(symbol) else { continue };
            let mut count = 1;
            while self.eat(symbol).is_some() {
                count += 1;
            }
            // Of a row of equal signs only whether it is odd counts.
            let odd = count % 2 == 1;
            if odd && symbol == "-" {
                let literal = match self.peek() {
                    Token::HugeInt => Some(Literal::Int(i64::MIN)),
                    Token::Literal(Literal::Int(value)) => Some(Literal::Int(-value)),
                    Token::Literal(Literal::Double(value)) => Some(Literal::Double(-value)),
                    _ => None,
                };
                if let Some(literal) = literal {
                    self.advance();
                    let literal = self.node(Kind::Literal(literal), span, 0)?;
                    return self.postfix(literal);
                }
            }
            let operand = match self.peek() {
                // Signs may alternate.
                Token::Symbol("!" | "-") => self.nested_unary()?,
                _ => {
                    let primary = self.primary()?;
                    self.postfix(primary)?
                }
            };
            return if odd { self.call(function, vec![operand], span) } else { Ok(operand) };
        }
        let primary = self.primary()?;
        self.postfix(primary)
    }

    fn nested_unary(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(Issue::new(self.span(), Mistake::TooDeep(MAX_NESTING)));
        }
        let operand = self.unary();
        self.depth -= 1;
        operand
    }

    /// Reports a name in backticks where there may be none.
    fn allow_quoted(&mut self, place: Span) {
        if !self.quoted {
            self.issues.push(Issue::new(place, Mistake::Unsupported("unsupported syntax: '`'")));
        }
    }

    fn postfix(&mut self, mut operand: Expr) -> Parsed<Expr> {
        loop {
            if let Some(span) = self.eat(".") {
                let optional = self.eat("?").is_some();
                let (token, place) = self.advance();
                let field = match token {
                    Token::Ident(name) => name,
                    Token::Quoted(name) => {
                        self.allow_quoted(place);
                        operand = self.select(operand, name, optional, span)?;
                        continue;
                    }
                    _ => {
                        self.at -= 1;
                        let here = self.span();
                        let end = if *self.peek() == Token::End { here.start } else { here.end };
                        let seen = self.text.get(span.start..end).unwrap_or_default().trim_end();
                        return Err(self.syntax(SyntaxError::NoAlternative(seen.to_owned())));
                    }
                };
                match self.eat("(") {
                    Some(paren) if !optional => operand = self.method(operand, field, paren)?,
                    Some(paren) => {
                        let mistake = Mistake::Unsupported("unsupported optional call");
                        return Err(Issue::new(paren, mistake));
                    }
                    None => operand = self.select(operand, field, optional, span)?,
                }
            } else if let Some(span) = self.eat("[") {
                let optional = self.eat("?").is_some();
                let index = Box::new(self.expression()?);
                self.expect("]")?;
                let depth = operand.depth.max(index.depth);
                let operand_box = Box::new(operand);
                operand =
                    self.node(Kind::Index { operand: operand_box, index, optional }, span, depth)?;
            } else if matches!(self.peek(), Token::Symbol("{"))
                && let Some(name) = qualified_name(&operand)
            {
                let (_, brace) = self.advance();
                operand = self.message(name, brace)?;
            } else {
                return Ok(operand);
            }
        }
    }

    fn select(&self, operand: Expr, field: String, optional: bool, at: Span) -> Parsed<Expr> {
        let depth = operand.depth;
        self.node(Kind::Select { operand: Box::new(operand), field, optional }, at, depth)
    }

    fn method(&mut self, target: Expr, function: String, paren: Span) -> Parsed<Expr> {
        let mut args = self.arguments()?;
        let depth = target.depth.max(depth_of(&args));
        let target = Box::new(target);
        if let Some((which, count)) = Macro::find(&function, args.len()) {
            let rest = args.split_off(count);
            let is_optional = matches!(which, Macro::OptMap | Macro::OptFlatMap);
            let not_a_name = match which {
                Macro::OptMap => "optMap() variable name must be a simple identifier",
                Macro::OptFlatMap => "optFlatMap() variable name must be a simple identifier",
                Macro::Map | Macro::Filter | Macro::SortBy => "argument is not an identifier",
                _ => "argument must be a simple name",
            };
            let mut names = Vec::new();
            for name in args {
                let mistake = match name.kind {
                    Kind::Ident(text) => {
                        let text = text.trim_start_matches('.').to_owned();
                        if names.contains(&text) {
                            Mistake::DuplicateVariable(text)
                        } else if text == "__result__" && !is_optional {
                            Mistake::Unsupported(
                                "iteration variable overwrites accumulator variable",
                            )
                        } else {
                            names.push(text);
                            continue;
                        }
                    }
                    _ => Mistake::Unsupported(not_a_name),
                };
                self.issues.push(Issue::new(name.span, mistake));
            }
            let scalar =
                matches!(&target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. });
            if which == Macro::SortBy && scalar {
                let mistake = Mistake::Unsupported(
                    "sortBy can only be applied to a list, identifier, comprehension, call or \
                     select expression",
                );
                self.issues.push(Issue::new(target.span, mistake));
            }
            return self.node(Kind::Macro { which, target, names, args: rest }, paren, depth);
        }
        self.node(Kind::Call { function, target: Some(target), args }, paren, depth)
    }

    fn arguments(&mut self) -> Parsed<Vec<Expr>> {
        let mut args = Vec::new();
        if self.eat(")").is_some() {
            return Ok(args);
        }
        loop {
            args.push(self.expression()?);
            if self.eat(",").is_none() {
                self.expect(")")?;
                return Ok(args);
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let (token, span) = self.advance();
        match token {
            Token::Literal(literal) => self.node(Kind::Literal(literal), span, 0),
            Token::HugeInt => Err(Issue::new(span, Mistake::InvalidLiteral("int"))),
            Token::Ident(name) => self.name(name, span),
            Token::Symbol(".") => match self.advance() {
                (Token::Ident(name), _) => self.name(format!(".{name}"), span),
                _ => {
                    self.at -= 1;
                    Err(self.mismatched(Expected::Identifier))
                }
            },
            Token::Symbol("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol("[") => self.list(span),
            Token::Symbol("{") => self.map(span),
            _ => {
                self.at -= 1;
                Err(self.no_primary())
            }
        }
    }

    fn name(&mut self, name: String, span: Span) -> Parsed<Expr> {
        let Some(paren) = self.eat("(") else {
            if is_reserved(&name) {
                self.issues.push(Issue::new(span, Mistake::Reserved(name.clone())));
            }
            return self.node(Kind::Ident(name), span, 0);
        };
        let mut args = self.arguments()?;
        let depth = depth_of(&args);
        if name == "has" && args.len() == 1 {
            let at = args.first().map_or(paren, |arg| arg.span);
            let Some(Expr { kind: Kind::Select { operand, field, optional: false }, .. }) =
                args.pop()
            else {
                return Err(Issue::new(at, Mistake::HasWithoutField));
            };
            return self.node(Kind::Has(operand, field), paren, depth);
        }
        self.node(Kind::Call { function: name, target: None, args }, paren, depth)
    }

    fn list(&mut self, span: Span) -> Parsed<Expr> {
        let mut items = Vec::new();
        let mut depth = 0;
        if matches!(self.peek_second(), Token::Symbol("]")) {
            self.eat(",");
        }
        while self.eat("]").is_none() {
            let optional = self.eat("?").is_some();
            let value = self.expression()?;
            depth = value.depth.max(depth);
            items.push(Element { value, optional });
            if self.eat(",").is_none() {
                self.expect_end("]")?;
                break;
            }
        }
        self.node(Kind::List(items), span, depth)
    }

    fn map(&mut self, span: Span) -> Parsed<Expr> {
        let mut entries = Vec::new();
        let mut depth = 0;
        if matches!(self.peek_second(), Token::Symbol("}")) {
            self.eat(",");
        }
        while self.eat("}").is_none() {
            let optional = self.eat("?").is_some();
            let key = self.expression()?;
            self.expect(":")?;
            let value = self.expression()?;
            depth = depth.max(key.depth).max(value.depth);
            entries.push(Entry { key, value, optional });
            if self.eat(",").is_none() {
                self.expect_end("}")?;
                break;
            }
        }
        self.node(Kind::Map(entries), span, depth)
    }

    fn message(&mut self, name: String, span: Span) -> Parsed<Expr> {
        let mut fields = Vec::new();
        let mut depth = 0;
        while self.eat("}").is_none() {
            let optional = self.eat("?").is_some();
            let (token, place) = self.advance();
            let name = match token {
                Token::Ident(name) => name,
                Token::Quoted(name) => {
                    self.allow_quoted(place);
                    name
                }
                _ => {
                    self.at -= 1;
                    return Err(self.mismatched(Expected::Identifier));
                }
            };
            let colon = self.expect(":")?;
            let value = self.expression()?;
            depth = value.depth.max(depth);
            fields.push(Field { name, value, optional, span: colon });
            if self.eat(",").is_none() {
                self.expect_end("}")?;
                break;
            }
        }
        self.node(Kind::Struct { name, fields }, span, depth)
    }
}

fn depth_of(args: &[Expr]) -> u16 {
    args.iter().map(|arg| arg.depth).max().unwrap_or(0)
}

/// `a.b.c` if the expression is only names.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, optional: false } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printing_reads_back() {
        for text in [
            "a.b.`c-d`[0].?e[?1] + -3 * 2u - -x",
            "!(a && b || c && d && e) ? [1, ?o, 2.5] : {?'k': b'\\xff', 1: null}",
            "has(a.b) && x.all(i, v, v > i) && x.map(i, i in [1], i)",
            "google.protobuf.Duration{seconds: 1}.f(r'\\d', \"\"\"a\n\"b\" \"\"\")",
            "1e10 - .5 != 5.0 || -9223372036854775808 < 1",
        ] {
            let first = parse(text).expect(text);
            let printed = first.to_string();
            assert_eq!(parse(&printed).expect(&printed), first, "{printed}");
        }
    }

    #[test]
    fn bounds() {
        let deep = format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000));
        assert!(parse(&deep).expect_err("deep").to_string().contains("recursion limit"));
        let chain = vec!["1"; 5_000].join("+");
        assert!(parse(&chain).expect_err("chain").to_string().contains("recursion limit"));
        let flat = vec!["true"; 5_000].join("&&");
        assert!(parse(&flat).is_ok());
        assert!(parse(&" ".repeat(MAX_SIZE + 1)).is_err());
    }

    #[test]
    fn errors_point_at_their_place() {
        for (text, expected) in [
            ("cel.@block([1], 2)", "1:5: Syntax error: token recognition error at: '@'"),
            ("9223372036854775808", "1:1: invalid int literal"),
            ("has(a)", "1:5: invalid argument to has() macro"),
            ("x.all(1, true)", "1:7: argument must be a simple name"),
            ("x.all(x, 1, true)", "1:10: argument must be a simple name"),
            ("x.transformMap(k, k, true)", "1:19: duplicate variable name: k"),
            ("x.map(1, true)", "1:7: argument is not an identifier"),
            ("x.sortBy(a.b, true)", "1:11: argument is not an identifier"),
            ("x.all(__result__, true)", "1:7: iteration variable overwrites accumulator variable"),
            ("true ? 1 ? 2 : 3 : 4", "1:10: Syntax error: mismatched input '?' expecting ':'"),
            ("true ? 1 , 2", "1:10: Syntax error: mismatched input ',' expecting ':'"),
            ("true ? 1 ] : 2", "1:10: Syntax error: extraneous input ']' expecting ':'"),
            ("true ? 1 2", "1:10: Syntax error: missing ':' at '2'"),
            ("true ? 1", "1:9: Syntax error: mismatched input '<EOF>' expecting ':'"),
            ("{1 }", "1:4: Syntax error: mismatched input '}' expecting ':'"),
            ("(1", "1:3: Syntax error: missing ')' at '<EOF>'"),
            ("(1 2", "1:4: Syntax error: mismatched input '2' expecting ')'"),
            ("(1 ]", "1:4: Syntax error: mismatched input ']' expecting ')'"),
            ("(1 1 )", "1:4: Syntax error: extraneous input '1' expecting ')'"),
            ("size(1 x", "1:8: Syntax error: mismatched input 'x' expecting ')'"),
            ("size(1", "1:7: Syntax error: missing ')' at '<EOF>'"),
            ("[1][0 !1", "1:7: Syntax error: mismatched input '!' expecting ']'"),
            ("[1][0", "1:6: Syntax error: missing ']' at '<EOF>'"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("ERROR: <input>:{expected}\n")), "{error}");
        }
    }
}
