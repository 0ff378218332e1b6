//! Walking a template over data. Mirrors Go's `text/template/exec.go`.

mod call;
mod fields;

use std::{fmt, ops::Range};

use modgate_value::Exhausted;

use crate::{
    Data, Env, RenderError,
    coverage::Counts,
    cx::{Cx, Fault},
    funcs::builtin::truth,
    number::Number,
    print,
    program::Program,
    syntax::{
        Branch, BranchKind, Call, Command, Expr, ExprKind, Node, Pipeline, Pos, VarId, Variable,
    },
    text::{Text, quote},
    val::{Kind, List, Map, Val},
};

/// How many blocks, parentheses and template calls may be open at once. Go allows 100,000 template
/// calls; this many fit a thread's stack.
const MAX_DEPTH: usize = 250;

/// The room that a rendering has from the start, at most: most results are about as long as their templates.
const MAX_ROOM: usize = 1 << 10;

/// The variable `$`.
const DOLLAR: VarId = 0;

type Result<T, E = RenderError> = std::result::Result<T, E>;

/// Renders the main template. `counts` gets what is reached.
pub(crate) fn run<'a>(
    program: &'a Program,
    counts: Option<&'a Counts>,
    data: Data<'a>,
    env: &Env<'a>,
) -> Result<Vec<u8>> {
    let cx = Cx::new(*env, data, &program.regexes);
    let dot = match data {
        Data::Value(value) => Val::of_json(value),
        Data::Patch(_) | Data::Reject(_) => Val::Context,
    };
    let mut run = Run {
        program,
        counts,
        name: &program.name,
        cx,
        out: Vec::with_capacity(program.text.len().min(MAX_ROOM)),
        vars: vec![(DOLLAR, dot.clone())],
        depth: 0,
        at: At::Nothing,
    };
    if let Some(tree) = program.tree(&program.name) {
        run.list(&dot, &tree.root)?;
    }
    Ok(run.out)
}

struct Run<'a> {
    program: &'a Program,
    counts: Option<&'a Counts>,
    /// Name of the template being run, which need not be the main one.
    name: &'a str,
    cx: Cx<'a>,
    out: Vec<u8>,
    /// Variables in scope, innermost last.
    vars: Vec<(VarId, Val<'a>)>,
    depth: usize,
    /// The node being evaluated, for errors.
    at: At<'a>,
}

/// The node that an error names.
#[derive(Clone, Copy)]
enum At<'a> {
    Nothing,
    Pipe(&'a Pipeline),
    Command(&'a Command),
    Expr(&'a Expr),
    /// A `template` action.
    Call(&'a Call),
}

impl At<'_> {
    fn pos(&self) -> Pos {
        match self {
            Self::Nothing => 0,
            Self::Pipe(pipe) => pipe.pos,
            Self::Command(command) => command.pos,
            Self::Expr(expr) => expr.pos,
            Self::Call(call) => call.pos,
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Pipe(pipe) => pipe.fmt(f),
            Self::Command(command) => command.fmt(f),
            Self::Expr(expr) => expr.fmt(f),
            Self::Call(call) => {
                write!(f, "{{{{template {}", quote(call.name.as_bytes()))?;
                if let Some(pipe) = &call.pipe {
                    write!(f, " {pipe}")?;
                }
                f.write_str("}}")
            }
        }
    }
}

/// How a list of nodes was left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

impl<'a> Run<'a> {
    /// An error about the node being evaluated.
    fn fail<T>(&self, message: impl fmt::Display) -> Result<T> {
        let (line, column) = self.program.line_column(self.at.pos());
        let message = format!(
            "template: {}:{line}:{column}: executing {} at <{}>: {message}",
            self.program.name,
            quote(self.name.as_bytes()),
            self.at,
        );
        Err(RenderError::Failed { message, span: self.span() })
    }

    fn exhausted(&self, exhausted: Exhausted) -> RenderError {
        let name = self.program.name.to_string();
        RenderError::Exhausted { name, exhausted, span: self.span() }
    }

    fn span(&self) -> Range<usize> {
        let start = self.at.pos();
        start..(start + self.at.to_string().len()).min(self.program.text.len())
    }

    /// Turns a function's fault into an error about the node being evaluated.
    fn lift<T>(&self, result: Result<T, Fault>) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(Fault::Failed(message)) => self.fail(message),
            Err(Fault::Exhausted(exhausted)) => Err(self.exhausted(exhausted)),
        }
    }

    fn spend(&self, steps: u64) -> Result<()> {
        self.cx.env.budget.spend(steps).map_err(|exhausted| self.exhausted(exhausted))
    }

    fn list(&mut self, dot: &Val<'a>, nodes: &'a [Node]) -> Result<Flow> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(format!("exceeded maximum template depth ({MAX_DEPTH})"));
        }
        for node in nodes {
            let flow = self.node(dot, node)?;
            if flow != Flow::Next {
                self.depth -= 1;
                return Ok(flow);
            }
        }
        self.depth -= 1;
        Ok(Flow::Next)
    }

    fn node(&mut self, dot: &Val<'a>, node: &'a Node) -> Result<Flow> {
        self.spend(1)?;
        match node {
            Node::Text(text) => {
                self.lift(self.cx.allocate(text.len()))?;
                self.out.extend(text.bytes());
            }
            Node::Action(pipe) => {
                self.reach(pipe.pos);
                let value = self.pipeline(dot, pipe)?;
                if pipe.declared.is_empty() {
                    self.at = At::Pipe(pipe);
                    self.print(&value)?;
                }
            }
            Node::Branch(branch) if branch.kind == BranchKind::Range => {
                return self.range(dot, branch);
            }
            Node::Branch(branch) => return self.if_or_with(dot, branch),
            Node::Template(call) => self.template(dot, call)?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn print(&mut self, value: &Val<'a>) -> Result<()> {
        let mut out = std::mem::take(&mut self.out);
        let result = match value {
            Val::Missing => {
                out.extend(b"<no value>");
                self.cx.allocate(10)
            }
            value => print::append(&self.cx, value, &mut out),
        };
        self.out = out;
        self.lift(result)
    }

    fn reach(&self, at: Pos) {
        if let Some(counts) = self.counts {
            counts.reach(at);
        }
    }

    /// Whether a branch is taken, counted.
    fn decided(&self, branch: &Branch, held: bool) -> bool {
        if let Some(counts) = self.counts {
            counts.result(branch.pipe.pos, held);
        }
        held
    }

    fn if_or_with(&mut self, dot: &Val<'a>, branch: &'a Branch) -> Result<Flow> {
        let mark = self.vars.len();
        self.reach(branch.pipe.pos);
        let value = self.pipeline(dot, &branch.pipe)?;
        let flow = if self.decided(branch, truth(&self.cx, &value)) {
            let dot = if branch.kind == BranchKind::With { &value } else { dot };
            self.list(dot, &branch.list)?
        } else if let Some(otherwise) = &branch.otherwise {
            self.list(dot, otherwise)?
        } else {
            Flow::Next
        };
        self.vars.truncate(mark);
        Ok(flow)
    }

    fn range(&mut self, dot: &Val<'a>, branch: &'a Branch) -> Result<Flow> {
        let mark = self.vars.len();
        self.reach(branch.pipe.pos);
        let value = self.pipeline(dot, &branch.pipe)?.pointed();
        let ran = match &value {
            Val::List(list) => self.range_list(branch, list)?,
            Val::Map(map) => self.range_map(branch, *map)?,
            Val::Missing | Val::Nil => false,
            _ => match int_range(&value) {
                Some(_) if branch.pipe.declared.len() > 1 => {
                    let shown = self.shown(&value)?;
                    return self
                        .fail(format!("can't use {shown} to iterate over more than one variable"));
                }
                Some(count) => self.range_int(branch, &value, count)?,
                None => {
                    let shown = self.shown(&value)?;
                    return self.fail(format!("range can't iterate over {shown}"));
                }
            },
        };
        let mut flow = Flow::Next;
        if !self.decided(branch, ran)
            && let Some(otherwise) = &branch.otherwise
        {
            flow = self.list(dot, otherwise)?;
        }
        self.vars.truncate(mark);
        Ok(flow)
    }

    fn range_list(&mut self, branch: &'a Branch, list: &List<'a>) -> Result<bool> {
        for (index, item) in list.iter().enumerate() {
            let index = Val::Int(i64::try_from(index).unwrap_or(i64::MAX));
            if self.iteration(branch, index, item)? == Flow::Break {
                break;
            }
        }
        Ok(list.len() > 0)
    }

    fn range_map(&mut self, branch: &'a Branch, map: Map<'a>) -> Result<bool> {
        // A snapshot: Go leaves open whether a loop sees the changes its body makes.
        let entries = self.lift(self.cx.entries(map))?;
        let ran = !entries.is_empty();
        for (key, value) in entries {
            let key = Val::text(String::from(key));
            if self.iteration(branch, key, value)? == Flow::Break {
                break;
            }
        }
        Ok(ran)
    }

    fn range_int(&mut self, branch: &'a Branch, like: &Val<'a>, count: u64) -> Result<bool> {
        for number in 0..count {
            let signed = i64::try_from(number).unwrap_or(i64::MAX);
            let value = match like {
                Val::Int64(_) => Val::Int64(signed),
                Val::Uint64(_) => Val::Uint64(number),
                Val::Uint32(_) => Val::Uint32(u32::try_from(number).unwrap_or(u32::MAX)),
                Val::Uint8(_) => Val::Uint8(u8::try_from(number).unwrap_or(u8::MAX)),
                _ => Val::Int(signed),
            };
            if self.iteration(branch, Val::Missing, value)? == Flow::Break {
                break;
            }
        }
        Ok(count > 0)
    }

    fn iteration(&mut self, branch: &'a Branch, index: Val<'a>, item: Val<'a>) -> Result<Flow> {
        self.spend(1)?;
        let mark = self.vars.len();
        match branch.pipe.declared.as_slice() {
            [(only, _)] => self.bind(branch, *only, 1, &item),
            [(first, _), (second, _), ..] => {
                self.bind(branch, *second, 1, &item);
                self.bind(branch, *first, 2, &index);
            }
            [] => {}
        }
        let flow = self.list(&item, &branch.list)?;
        self.vars.truncate(mark);
        Ok(flow)
    }

    /// Sets a loop variable: the one declared `from_top`, or with `=` the one of that name.
    fn bind(&mut self, branch: &Branch, id: VarId, from_top: usize, value: &Val<'a>) {
        let slot = if branch.pipe.assigns {
            self.vars.iter_mut().rev().find(|(name, _)| *name == id)
        } else {
            let top = self.vars.len();
            top.checked_sub(from_top).and_then(|index| self.vars.get_mut(index))
        };
        if let Some((_, slot)) = slot {
            slot.clone_from(value);
        }
    }

    fn template(&mut self, dot: &Val<'a>, call: &'a Call) -> Result<()> {
        let Call { pos, name, pipe } = call;
        self.at = At::Call(call);
        self.reach(*pos);
        let Some(tree) = self.program.tree(name) else {
            return self.fail(format!("template {} not defined", quote(name.as_bytes())));
        };
        let dot = match pipe {
            Some(pipe) => self.pipeline(dot, pipe)?,
            None => Val::Missing,
        };
        let vars = std::mem::replace(&mut self.vars, vec![(DOLLAR, dot.clone())]);
        let caller = std::mem::replace(&mut self.name, name);
        self.list(&dot, &tree.root)?;
        self.name = caller;
        self.vars = vars;
        Ok(())
    }

    fn pipeline(&mut self, dot: &Val<'a>, pipe: &'a Pipeline) -> Result<Val<'a>> {
        self.at = At::Pipe(pipe);
        let mut value = None;
        for command in &pipe.commands {
            let result = self.command(dot, command, value)?;
            // The inside of an interface value; a nil one has none.
            value = Some(if matches!(result, Val::Nil) { Val::Missing } else { result });
        }
        let value = value.unwrap_or(Val::Missing);
        for (id, name) in &pipe.declared {
            if !pipe.assigns {
                self.vars.push((*id, value.clone()));
                continue;
            }
            match self.vars.iter_mut().rev().find(|(known, _)| known == id) {
                Some((_, slot)) => slot.clone_from(&value),
                None => return self.fail(format!("undefined variable: {name}")),
            }
        }
        Ok(value)
    }

    fn command(
        &mut self,
        dot: &Val<'a>,
        command: &'a Command,
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        self.spend(1)?;
        let first = &command.first;
        match &first.kind {
            ExprKind::Field(fields) => {
                self.at = At::Expr(first);
                return self.fields(dot, dot.clone(), first, fields, &command.args, last);
            }
            ExprKind::Chain(parts) => {
                return self.chain(dot, first, parts, &command.args, last);
            }
            ExprKind::Function(function) => {
                self.at = At::Expr(first);
                return self.call(dot, function, At::Command(command), &command.args, last);
            }
            ExprKind::Pipeline(pipe) => {
                self.not_a_function(command, &last)?;
                return self.nested(dot, pipe);
            }
            ExprKind::Variable(variable) => {
                self.at = At::Expr(first);
                if variable.fields.is_empty() {
                    self.not_a_function(command, &last)?;
                }
                return self.variable(dot, first, variable, &command.args, last);
            }
            ExprKind::Dot
            | ExprKind::Nil
            | ExprKind::Bool(_)
            | ExprKind::Number(_)
            | ExprKind::Text(_) => {}
        }
        self.at = At::Expr(first);
        self.not_a_function(command, &last)?;
        match &first.kind {
            ExprKind::Dot => Ok(dot.clone()),
            ExprKind::Nil => self.fail("nil is not a command"),
            _ => self.constant(first),
        }
    }

    fn not_a_function(&self, command: &Command, last: &Option<Val<'a>>) -> Result<()> {
        if command.args.is_empty() && last.is_none() {
            return Ok(());
        }
        self.fail(format!("can't give argument to non-function {}", command.first))
    }

    /// A parenthesised pipeline.
    fn nested(&mut self, dot: &Val<'a>, pipe: &'a Pipeline) -> Result<Val<'a>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(format!("exceeded maximum template depth ({MAX_DEPTH})"));
        }
        let value = self.pipeline(dot, pipe)?;
        self.depth -= 1;
        Ok(value)
    }

    fn variable(
        &mut self,
        dot: &Val<'a>,
        node: &'a Expr,
        Variable { id, name, fields }: &'a Variable,
        args: &'a [Expr],
        last: Option<Val<'a>>,
    ) -> Result<Val<'a>> {
        let Some((_, value)) = self.vars.iter().rev().find(|(known, _)| known == id) else {
            return self.fail(format!("undefined variable: {name}"));
        };
        let value = value.clone();
        if fields.is_empty() {
            return Ok(value);
        }
        self.fields(dot, value, node, fields, args, last)
    }

    /// A constant where no type is expected.
    fn constant(&self, expr: &'a Expr) -> Result<Val<'a>> {
        match &expr.kind {
            ExprKind::Bool(value) => Ok(Val::Bool(*value)),
            ExprKind::Text(literal) => Ok(Val::Text(match &literal.value {
                Ok(text) => Text::Ref(text),
                Err(bytes) => Text::RawRef(bytes),
            })),
            ExprKind::Number(number) => self.ideal(number),
            _ => {
                self.fail(format!("can't handle assignment of {expr} to empty interface argument"))
            }
        }
    }

    /// A number constant where its spelling decides the type.
    fn ideal(&self, number: &Number) -> Result<Val<'a>> {
        if let Some((real, imaginary)) = number.complex {
            return Ok(Val::Complex(real, imaginary));
        }
        match (number.float, number.int) {
            (Some(float), _) if number.looks_like_float() => Ok(Val::Float(float)),
            (_, Some(int)) => Ok(Val::Int(int)),
            _ => self.fail(format!("{} overflows int", number.text)),
        }
    }

    fn shown(&self, value: &Val<'a>) -> Result<String> {
        let bytes = self.lift(print::text(&self.cx, value))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// How often `range` runs over an integer; `None` for other types.
fn int_range(value: &Val<'_>) -> Option<u64> {
    match value.kind() {
        Kind::Int | Kind::Int64 => Some(u64::try_from(value.as_signed()?).unwrap_or(0)),
        _ => value.as_unsigned(),
    }
}
