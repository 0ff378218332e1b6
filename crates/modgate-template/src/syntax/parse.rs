//! Tokens to tree. Mirrors Go's `text/template/parse/parse.go`: the same grammar, the same errors,
//! reported from the same token; nesting and size are bounded much lower.

use std::collections::BTreeMap;

use modgate_value::{
    Str,
    regex::{Allowance, GoRegex},
};

use super::{
    ast::{
        Branch, BranchKind, Call, Command, Expr, ExprKind, Fields, Literal, Node, Pipeline, Tree,
        Trees, VarId, Variable,
    },
    lex::{Kind, Lexer, Token},
};
use crate::{
    Functions, ParseError,
    funcs::{self, Function},
    number::Number,
    text::{quote, unquote, unquote_char},
};

/// The longest template text, in bytes; Kubernetes objects are not much larger.
pub(crate) const MAX_TEXT: usize = 1 << 20;

/// How deep blocks and parentheses may nest, together. Go allows 10,000 parentheses.
const MAX_NESTING: usize = 100;

/// How many constant regular expressions are compiled ahead.
const MAX_CONSTANT_REGEXES: usize = 64;

/// The result of parsing a text.
pub(crate) struct Parsed {
    pub(crate) trees: Trees,
    /// Functions called anywhere, in order of appearance, with repeats.
    pub(crate) functions: Vec<&'static Function>,
    /// Regular expressions spelled out as the first argument of a `regex…` function, compiled.
    pub(crate) regexes: BTreeMap<Box<str>, GoRegex>,
}

/// Parses `text`; its main template is the tree called `name`.
pub(crate) fn parse(
    name: &str,
    text: &str,
    functions: Functions,
    patterns: &Allowance,
) -> Result<Parsed, ParseError> {
    let mut parser = Parser {
        patterns,
        name,
        text,
        lexer: Lexer::new(text),
        functions,
        tokens: [const { None }; 3],
        peeked: 0,
        variables: vec!["$".into()],
        visible: vec![0],
        range_depth: 0,
        action_line: 0,
        nesting: 0,
        trees: Trees::default(),
        called: Vec::new(),
        regexes: BTreeMap::new(),
    };
    if text.len() > MAX_TEXT {
        return Err(parser.error(format!("template longer than {MAX_TEXT} bytes")));
    }
    let root = parser.top()?;
    parser.add(name.into(), Tree::new(root))?;
    Ok(Parsed { trees: parser.trees, functions: parser.called, regexes: parser.regexes })
}

struct Parser<'t> {
    name: &'t str,
    text: &'t str,
    lexer: Lexer<'t>,
    functions: Functions,
    /// Look-ahead; the zeroth is the last one read from the lexer.
    tokens: [Option<Token>; 3],
    peeked: usize,
    /// Every variable name of the text; the index is its [`VarId`].
    variables: Vec<Str>,
    /// Variables in scope.
    visible: Vec<VarId>,
    range_depth: usize,
    /// Line where the action being parsed began; 0 for none.
    action_line: usize,
    nesting: usize,
    trees: Trees,
    called: Vec<&'static Function>,
    regexes: BTreeMap<Box<str>, GoRegex>,
    patterns: &'t Allowance,
}

type Result<T, E = ParseError> = std::result::Result<T, E>;

/// The keyword that ended a list of nodes.
enum End {
    End,
    /// `else`; with a pending `if` or `with` where one follows directly.
    Else,
}

/// One step of a list.
enum Item {
    Node(Node),
    End(End),
}

impl<'t> Parser<'t> {
    fn next(&mut self) -> Token {
        if self.peeked > 0 {
            self.peeked -= 1;
        } else {
            let token = self.lexer.next_token();
            self.tokens[0] = Some(token);
        }
        self.tokens.get(self.peeked).cloned().flatten().unwrap_or_else(|| self.lexer.next_token())
    }

    fn back(&mut self) {
        self.peeked += 1;
    }

    /// Puts `first` back before the token read last.
    fn back_with(&mut self, first: Token) {
        self.tokens[1] = Some(first);
        self.peeked = 2;
    }

    /// Puts `first` and `second` back before the token read last.
    fn back_with_two(&mut self, first: Token, second: Token) {
        self.tokens[1] = Some(second);
        self.tokens[2] = Some(first);
        self.peeked = 3;
    }

    fn peek(&mut self) -> Token {
        let token = self.next();
        self.back();
        token
    }

    fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.back();
        token
    }

    fn source(&self, token: &Token) -> &'t str {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        let token = self.tokens[0].as_ref();
        ParseError {
            name: self.name.to_owned(),
            line: token.map_or(1, |token| token.line),
            message: message.into(),
            span: token.map_or(0..0, |token| token.start..token.end),
        }
    }

    fn unexpected(&self, token: &Token, context: &str) -> ParseError {
        let mut error = if let Some(message) = &token.message {
            let mut message = message.clone();
            if self.action_line != 0 && self.action_line != token.line {
                let joined = if message.ends_with(" action") { "" } else { " in action" };
                let started = format!("{joined} started at {}:{}", self.name, self.action_line);
                message.push_str(&started);
            }
            self.error(message)
        } else {
            self.error(format!("unexpected {} in {context}", self.describe(token)))
        };
        error.span = token.start..token.end;
        error
    }

    /// A token as Go's messages name it.
    fn describe(&self, token: &Token) -> String {
        let text = self.source(token);
        match token.kind {
            Kind::Eof => "EOF".to_owned(),
            kind if kind.is_keyword() => format!("<{text}>"),
            _ if text.len() > 10 => {
                let short: String = text.chars().take(10).collect();
                format!("{}...", quote(short.as_bytes()))
            }
            _ => quote(text.as_bytes()),
        }
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Result<Token> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { Err(self.unexpected(&token, context)) }
    }

    fn deeper(&mut self) -> Result<()> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.error(format!("more than {MAX_NESTING} nested levels")));
        }
        Ok(())
    }

    /// Installs a template; one that is not empty may not be replaced.
    fn add(&mut self, name: Str, tree: Tree) -> Result<()> {
        match self.trees.get(&name) {
            Some(existing) if !existing.is_empty() => {
                if !tree.is_empty() {
                    let name = quote(name.as_bytes());
                    let message = format!("template: multiple definition of template {name}");
                    return Err(self.error(message));
                }
            }
            _ => self.trees.insert(name, tree),
        }
        Ok(())
    }

    /// The whole text: as a list, but definitions may appear and no `end` may.
    fn top(&mut self) -> Result<Vec<Node>> {
        let mut root = Vec::new();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let delim = self.next();
                if self.next_non_space().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.back_with(delim);
            }
            match self.text_or_action()? {
                Item::Node(node) => root.push(node),
                Item::End(End::End) => return Err(self.error("unexpected {{end}}")),
                Item::End(End::Else) => return Err(self.error("unexpected {{else}}")),
            }
        }
        Ok(root)
    }

    fn definition(&mut self) -> Result<()> {
        const CONTEXT: &str = "define clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        self.separate_tree(name, CONTEXT)
    }

    /// The body of a `define` or `block`: sees no variables but `$`, and is in no `range`.
    fn separate_tree(&mut self, name: Str, context: &str) -> Result<()> {
        let visible = std::mem::replace(&mut self.visible, vec![0]);
        let range_depth = std::mem::take(&mut self.range_depth);
        let action_line = std::mem::take(&mut self.action_line);
        let (root, end) = self.list()?;
        if matches!(end, End::Else) {
            return Err(self.error(format!("unexpected {{{{else}}}} in {context}")));
        }
        self.visible = visible;
        self.range_depth = range_depth;
        self.action_line = action_line;
        self.add(name, Tree::new(root))
    }

    fn list(&mut self) -> Result<(Vec<Node>, End)> {
        self.deeper()?;
        let mut nodes = Vec::new();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => nodes.push(node),
                Item::End(end) => {
                    self.nesting -= 1;
                    nodes.shrink_to_fit();
                    return Ok((nodes, end));
                }
            }
        }
        Err(self.error("unexpected EOF"))
    }

    fn text_or_action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(self.source(&token).into()))),
            Kind::LeftDelim => {
                self.action_line = token.line;
                let item = self.action();
                if item.is_ok() {
                    self.action_line = 0;
                }
                item
            }
            _ => Err(self.unexpected(&token, "input")),
        }
    }

    fn action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.loop_control("{{break}}", Node::Break)?,
            Kind::Continue => self.loop_control("{{continue}}", Node::Continue)?,
            Kind::Else => {
                if !matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
                    self.expect(Kind::RightDelim, "else")?;
                }
                return Ok(Item::End(End::Else));
            }
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::End(End::End));
            }
            Kind::If => self.branch(BranchKind::If)?,
            Kind::Range => self.branch(BranchKind::Range)?,
            Kind::With => self.branch(BranchKind::With)?,
            Kind::Template => self.template()?,
            _ => {
                self.back();
                Node::Action(Box::new(self.pipeline("command", Kind::RightDelim)?))
            }
        };
        Ok(Item::Node(node))
    }

    fn loop_control(&mut self, name: &str, node: Node) -> Result<Node> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return Err(self.unexpected(&token, name));
        }
        if self.range_depth == 0 {
            return Err(self.error(format!("{name} outside {{{{range}}}}")));
        }
        Ok(node)
    }

    fn branch(&mut self, kind: BranchKind) -> Result<Node> {
        let context = match kind {
            BranchKind::If => "if",
            BranchKind::With => "with",
            BranchKind::Range => "range",
        };
        let visible = self.visible.len();
        let pipe = self.pipeline(context, Kind::RightDelim)?;
        let loops = usize::from(kind == BranchKind::Range);
        self.range_depth += loops;
        let (list, end) = self.list()?;
        self.range_depth -= loops;
        let otherwise = match end {
            End::End => None,
            End::Else => Some(self.otherwise(kind)?),
        };
        self.visible.truncate(visible);
        Ok(Node::Branch(Box::new(Branch { kind, pipe, list, otherwise })))
    }

    /// Parses after `else`. `else if` and `else with` share the `end` of the block they follow.
    fn otherwise(&mut self, kind: BranchKind) -> Result<Vec<Node>> {
        let next = self.peek().kind;
        let chained = (kind == BranchKind::If && next == Kind::If)
            || (kind == BranchKind::With && next == Kind::With);
        if chained {
            self.next();
            self.deeper()?;
            let node = self.branch(kind)?;
            self.nesting -= 1;
            return Ok(vec![node]);
        }
        let (list, end) = self.list()?;
        match end {
            End::End => Ok(list),
            End::Else => Err(self.error("expected end; found {{else}}")),
        }
    }

    fn block(&mut self) -> Result<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        self.separate_tree(name.clone(), CONTEXT)?;
        Ok(Node::Template(Box::new(Call { pos: token.start, name, pipe: Some(pipe) })))
    }

    fn template(&mut self) -> Result<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(&token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.back();
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(Node::Template(Box::new(Call { pos: token.start, name, pipe })))
    }

    fn template_name(&self, token: &Token, context: &str) -> Result<Str> {
        if !matches!(token.kind, Kind::QuotedString | Kind::RawString) {
            return Err(self.unexpected(token, context));
        }
        match unquote(self.source(token)) {
            Some(Ok(name)) => Ok(name.into()),
            Some(Err(bytes)) => Ok(String::from_utf8_lossy(&bytes).into()),
            None => Err(self.error("invalid syntax")),
        }
    }

    fn pipeline(&mut self, context: &str, end: Kind) -> Result<Pipeline> {
        let pos = self.peek_non_space().start;
        let mut pipe = Pipeline { pos, declared: Vec::new(), assigns: false, commands: Vec::new() };
        self.declarations(&mut pipe, context)?;
        loop {
            let token = self.next_non_space();
            match token.kind {
                kind if kind == end => {
                    self.check_pipeline(&pipe, context)?;
                    pipe.commands.shrink_to_fit();
                    return Ok(pipe);
                }
                Kind::Bool
                | Kind::CharConstant
                | Kind::Complex
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawString
                | Kind::QuotedString
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back();
                    pipe.commands.push(self.command()?);
                }
                _ => return Err(self.unexpected(&token, context)),
            }
        }
    }

    /// `$x :=`, `$x =`, and `$i, $x :=` in a range.
    fn declarations(&mut self, pipe: &mut Pipeline, context: &str) -> Result<()> {
        loop {
            let variable = self.peek_non_space();
            if variable.kind != Kind::Variable {
                return Ok(());
            }
            self.next();
            // Space is a token, so in the worst case three tokens are looked at before it is known
            // that `$x foo` declares nothing.
            let after = self.peek();
            let next = self.peek_non_space();
            let name = self.source(&variable);
            match next.kind {
                Kind::Assign | Kind::Declare => {
                    pipe.assigns = next.kind == Kind::Assign;
                    self.next_non_space();
                    self.declare(pipe, name);
                    return Ok(());
                }
                Kind::Char if self.source(&next) == "," => {
                    self.next_non_space();
                    self.declare(pipe, name);
                    if context != "range" || pipe.declared.len() >= 2 {
                        return Err(self.error(format!("too many declarations in {context}")));
                    }
                    if !matches!(
                        self.peek_non_space().kind,
                        Kind::Variable | Kind::RightDelim | Kind::RightParen
                    ) {
                        return Err(self.error("range can only initialize variables"));
                    }
                }
                _ if after.kind == Kind::Space => {
                    self.back_with_two(variable, after);
                    return Ok(());
                }
                _ => {
                    self.back_with(variable);
                    return Ok(());
                }
            }
        }
    }

    fn declare(&mut self, pipe: &mut Pipeline, name: &str) {
        let id = self.variable_id(name);
        pipe.declared.push((id, name.into()));
        self.visible.push(id);
    }

    fn variable_id(&mut self, name: &str) -> VarId {
        let known = self.variables.iter().position(|known| known.as_str() == name);
        let index = known.unwrap_or_else(|| {
            self.variables.push(name.into());
            self.variables.len() - 1
        });
        VarId::try_from(index).unwrap_or(VarId::MAX) // at most MAX_TEXT of them
    }

    fn check_pipeline(&self, pipe: &Pipeline, context: &str) -> Result<()> {
        if pipe.commands.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (index, command) in pipe.commands.iter().enumerate().skip(1) {
            if matches!(
                command.first.kind,
                ExprKind::Bool(_)
                    | ExprKind::Dot
                    | ExprKind::Nil
                    | ExprKind::Number(_)
                    | ExprKind::Text(_)
            ) {
                let stage = index + 1;
                return Err(self.error(format!("non executable command in pipeline stage {stage}")));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command> {
        let pos = self.peek_non_space().start;
        let mut operands = Vec::new();
        loop {
            self.peek_non_space(); // skips leading space
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            let token = self.next();
            match token.kind {
                Kind::Space => {}
                Kind::RightDelim | Kind::RightParen => {
                    self.back();
                    break;
                }
                Kind::Pipe => break,
                _ => return Err(self.unexpected(&token, "operand")),
            }
        }
        let mut operands = operands.into_iter();
        match operands.next() {
            Some(first) => {
                // Not in the memory of all operands, whose first one is out of it.
                let mut args = Vec::with_capacity(operands.len());
                args.extend(operands);
                let command = Command { pos, first, args };
                self.compile_regex(&command);
                Ok(command)
            }
            None => Err(self.error("empty command")),
        }
    }

    /// Compiles the expression a `regex…` function is given as a constant, so that rendering need
    /// not. One that is wrong is an error only when it is used, as in Go.
    fn compile_regex(&mut self, command: &Command) {
        let ExprKind::Function(function) = &command.first.kind else {
            return;
        };
        if let Some(ExprKind::Text(pattern)) = command.args.first().map(|arg| &arg.kind)
            && function.takes_regex()
            && let Ok(pattern) = &pattern.value
            && self.regexes.len() < MAX_CONSTANT_REGEXES
            && let Ok(regex) = self.patterns.compile(pattern)
        {
            self.regexes.insert(pattern.clone(), regex);
        }
    }

    /// A term and the fields chained to it; `None` where no operand begins.
    fn operand(&mut self) -> Result<Option<Expr>> {
        let Some(mut term) = self.term()? else {
            return Ok(None);
        };
        let chain = self.peek();
        if chain.kind != Kind::Field {
            return Ok(Some(term));
        }
        let mut chained: Vec<Str> = Vec::new();
        while self.peek().kind == Kind::Field {
            let token = self.next();
            chained.push(self.source(&token).get(1..).unwrap_or_default().into());
        }
        let longer = |fields: &Fields| fields.iter().chain(&chained).cloned().collect();
        match &mut term.kind {
            ExprKind::Field(fields) => {
                *fields = longer(fields);
                term.pos = chain.start;
            }
            ExprKind::Variable(variable) => {
                variable.fields = longer(&variable.fields);
                term.pos = chain.start;
            }
            ExprKind::Bool(_)
            | ExprKind::Text(_)
            | ExprKind::Number(_)
            | ExprKind::Nil
            | ExprKind::Dot => {
                let shown = quote(term.kind.to_string().as_bytes());
                return Err(self.error(format!("unexpected . after term {shown}")));
            }
            _ => {
                let kind = ExprKind::Chain(Box::new((term, chained.into())));
                term = Expr { pos: chain.start, kind };
            }
        }
        Ok(Some(term))
    }

    fn term(&mut self) -> Result<Option<Expr>> {
        let token = self.next_non_space();
        let text = self.source(&token);
        let kind = match token.kind {
            Kind::Identifier => {
                let Some(function) = funcs::lookup(text, self.functions) else {
                    let name = quote(text.as_bytes());
                    let mut error = self.error(format!("function {name} not defined"));
                    error.span = token.start..token.end;
                    return Err(error);
                };
                self.called.push(function);
                ExprKind::Function(function)
            }
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                let id = self.variable_id(text);
                if !self.visible.contains(&id) {
                    let name = quote(text.as_bytes());
                    return Err(self.error(format!("undefined variable {name}")));
                }
                ExprKind::Variable(Box::new(Variable {
                    id,
                    name: text.into(),
                    fields: Fields::default(),
                }))
            }
            Kind::Field => ExprKind::Field([text.get(1..).unwrap_or_default().into()].into()),
            Kind::Bool => ExprKind::Bool(text == "true"),
            Kind::CharConstant => match unquote_char(text) {
                Some(character) => ExprKind::Number(Box::new(Number::of_char(text, character))),
                None => return Err(self.error(format!("malformed character constant: {text}"))),
            },
            Kind::Complex => self.number(Number::of_complex(text))?,
            Kind::Number => self.number(Number::of_text(text))?,
            Kind::LeftParen => {
                self.deeper()?;
                let pipe = self.pipeline("parenthesized pipeline", Kind::RightParen)?;
                self.nesting -= 1;
                return Ok(Some(Expr { pos: pipe.pos, kind: ExprKind::Pipeline(Box::new(pipe)) }));
            }
            Kind::QuotedString | Kind::RawString => {
                let Some(value) = unquote(text) else {
                    return Err(self.error("invalid syntax"));
                };
                let value = value.map(String::into_boxed_str).map_err(Vec::into_boxed_slice);
                ExprKind::Text(Box::new(Literal { quoted: text.into(), value }))
            }
            _ => {
                self.back();
                return Ok(None);
            }
        };
        Ok(Some(Expr { pos: token.start, kind }))
    }

    fn number(&self, number: Result<Number, String>) -> Result<ExprKind> {
        number
            .map(|number| ExprKind::Number(Box::new(number)))
            .map_err(|message| self.error(message))
    }
}
