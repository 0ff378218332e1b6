//! The fast evaluator: the same language as [`crate::plain`], but results of multi steps are handed
//! on one by one instead of being collected, nothing is copied out of the document, and literals
//! are compared as they stand.
//!
//! `tests/differential.rs` holds it to the plain evaluator. What nests so deep that handing on
//! would eat the stack is left to the plain one.

use std::{borrow::Cow, cell::Cell, ops::ControlFlow, sync::Arc};

use modgate_value::{Budget, Str, Value, diag::Span};

use crate::{
    Key, List, Val,
    ast::{Binary, Function, Kind, Link, Node, Path, Root, Step},
    num,
    ops::{self, Evaluated, Fault, Why},
    plain::{self, Capture, Plain, Scope},
};

/// How many calls may be nested here before the plain evaluator takes over.
const MAX_DEPTH: u32 = 96;

/// One evaluation.
pub(crate) struct Stream<'a, 'e> {
    root: &'a Value,
    budget: &'e Budget<'e>,
    depth: Cell<u32>,
}

/// A place: in the document as long as possible.
#[derive(Clone)]
pub(crate) enum Cursor<'a> {
    Json(&'a Value),
    Built(Val<'a>),
}

/// The values of `@` and `#`.
#[derive(Clone, Copy)]
struct Frame<'f, 'a> {
    current: &'f Cursor<'a>,
    captures: Option<&'f Trail<'f>>,
}

/// The keys captured on the way to a place, innermost first, living on the stack.
#[derive(Clone, Copy)]
pub(crate) struct Trail<'t> {
    outer: Option<&'t Trail<'t>>,
    mark: Mark<'t>,
}

/// The key that one multi step captured.
#[derive(Clone, Copy)]
enum Mark<'t> {
    /// Nothing yet: no multi step has been taken.
    Start,
    Index(usize),
    Name(&'t str),
    Levels(&'t [Key]),
}

/// Receives one result of a path after the other.
type Emit<'m, 'a> = &'m mut dyn FnMut(&Trail<'_>, Cursor<'a>) -> Evaluated<'a, ControlFlow<()>>;

static NULL: Value = Value::Null;
const START: Trail<'static> = Trail { outer: None, mark: Mark::Start };
const CONTINUE: ControlFlow<()> = ControlFlow::Continue(());

impl<'a> From<Cursor<'a>> for Val<'a> {
    fn from(cursor: Cursor<'a>) -> Self {
        match cursor {
            Cursor::Json(value) => Self::from(value),
            Cursor::Built(value) => value,
        }
    }
}

impl Trail<'_> {
    fn captures(&self) -> Vec<Capture> {
        let mut captures = self.outer.map(Trail::captures).unwrap_or_default();
        captures.extend(match self.mark {
            Mark::Start => None,
            Mark::Index(index) => Some(Capture::One(Key::Index(index))),
            Mark::Name(name) => Some(Capture::One(Key::Name(name.into()))),
            Mark::Levels(keys) => Some(Capture::Levels(keys.to_vec())),
        });
        captures
    }

    /// All captured keys in path order.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys = self.outer.map(Trail::keys).unwrap_or_default();
        match self.mark {
            Mark::Start => {}
            Mark::Index(index) => keys.push(Key::Index(index)),
            Mark::Name(name) => keys.push(Key::Name(name.into())),
            Mark::Levels(levels) => keys.extend_from_slice(levels),
        }
        keys
    }
}

impl<'a, 'e> Stream<'a, 'e> {
    pub(crate) fn new(root: &'a Value, budget: &'e Budget<'e>) -> Self {
        Self { root, budget, depth: Cell::new(0) }
    }

    /// The value of a whole expression.
    pub(crate) fn run(&self, node: &'a Node) -> Evaluated<'a> {
        self.eval(node, Frame { current: &Cursor::Json(&NULL), captures: None })
    }

    /// Where a path from the root without multi steps leads to; `None` is undefined.
    #[inline]
    pub(crate) fn place(&self, path: &'a Path) -> Evaluated<'a, Option<Cursor<'a>>> {
        if path.root == Root::Document {
            self.budget.spend(1 + path.steps.len() as u64)?;
            match reach(self.root, &path.steps) {
                (Some(value), []) => return Ok(Some(Cursor::Json(value))),
                (None, []) => return Ok(None),
                _ => {}
            }
        }
        let frame = Frame { current: &Cursor::Json(&NULL), captures: None };
        Ok(match self.plain_steps(&path.steps, self.start(path, frame), frame)? {
            Cursor::Built(Val::Undefined) => None,
            cursor => Some(cursor),
        })
    }

    /// Hands on the results of a multi path, or of any path with its captured keys.
    pub(crate) fn each(&self, path: &'a Path, emit: Emit<'_, 'a>) -> Evaluated<'a, ()> {
        let frame = Frame { current: &Cursor::Json(&NULL), captures: None };
        self.each_match(path, frame, true, emit)
    }

    fn eval(&self, node: &'a Node, frame: Frame<'_, 'a>) -> Evaluated<'a> {
        self.budget.spend(1)?;
        match &node.kind {
            Kind::Number(number) => return Ok(Val::Number(*number)),
            Kind::Text(text) => return Ok(Val::Str(Cow::Borrowed(&text.text))),
            Kind::Bool(value) => return Ok(Val::Bool(*value)),
            Kind::Path(path) if !path.is_multi() => {
                let cursor = self.plain_steps(&path.steps, self.start(path, frame), frame)?;
                return Ok(ops::operand(cursor.into(), self.budget)?);
            }
            _ => {}
        }
        let depth = self.depth.get();
        if depth >= MAX_DEPTH {
            return Plain::new(None).eval(node, &self.scope(frame));
        }
        self.depth.set(depth + 1);
        let result = self.eval_compound(node, frame);
        self.depth.set(depth);
        result
    }

    /// The same point of the evaluation, for the plain evaluator.
    fn scope(&self, frame: Frame<'_, 'a>) -> Scope<'a, 'e> {
        Scope {
            current: frame.current.clone().into(),
            captures: frame.captures.map(|trail| trail.captures().into()),
            ..Scope::new(self.root, self.budget)
        }
    }

    fn eval_compound(&self, node: &'a Node, frame: Frame<'_, 'a>) -> Evaluated<'a> {
        let failed = |why| Fault::failed(why, node.span);
        match &node.kind {
            Kind::Number(_) | Kind::Text(_) | Kind::Bool(_) => Ok(Val::Undefined),
            Kind::Array(elements) => {
                self.budget.allocate(elements.len() * size_of::<Val<'_>>())?;
                let elements: Result<Arc<[_]>, _> =
                    elements.iter().map(|element| self.eval(element, frame)).collect();
                Ok(Val::Array(List::Built(elements?)))
            }
            Kind::Object(entries) => {
                let mut members: Vec<(Str, Val<'a>)> = Vec::new();
                for entry in entries {
                    if let (true, Kind::Path(path)) = (entry.per_match, &entry.value.kind) {
                        self.each_match(path, frame, true, &mut |trail, cursor| {
                            let frame = Frame { captures: Some(trail), ..frame };
                            let key = self.eval(&entry.key, frame)?;
                            let key = ops::text(&key, self.budget)?.into();
                            self.budget.allocate(size_of::<(Str, Val<'_>)>())?;
                            members.push((key, cursor.into()));
                            Ok(CONTINUE)
                        })?;
                    } else {
                        let value = self.eval(&entry.value, frame)?;
                        let key = self.eval(&entry.key, frame)?;
                        members.push((ops::text(&key, self.budget)?.into(), value));
                    }
                    self.budget.allocate(size_of::<(Str, Val<'_>)>())?;
                }
                Ok(Val::Object(ops::members(members)))
            }
            Kind::Unary(op, operand) => {
                ops::prefix(*op, self.eval(operand, frame)?, self.budget)?.map_err(failed)
            }
            Kind::Chain(first, links) => self.chain(first, links, frame),
            Kind::Cond(condition, then, otherwise) => {
                let condition = self.eval(condition, frame)?;
                match otherwise {
                    _ if !ops::is_null_or_false(&condition) => self.eval(then, frame),
                    Some(otherwise) => self.eval(otherwise, frame),
                    None => Ok(Val::Null),
                }
            }
            Kind::Call(function, arguments) => match arguments.as_slice() {
                [Node { kind: Kind::Path(path), .. }] if path.is_multi() => {
                    self.call_on_matches(*function, path, node.span, frame)
                }
                [argument] => {
                    let argument = self.eval(argument, frame)?;
                    ops::call(*function, &argument).map_err(failed)
                }
                arguments => {
                    for argument in arguments {
                        self.eval(argument, frame)?;
                    }
                    Err(failed(Why::Arity(*function)))
                }
            },
            // Rare, and calls of them never succeed.
            Kind::Variable(_) | Kind::CallVariable(..) => {
                Plain::new(None).eval(node, &self.scope(frame))
            }
            Kind::Path(path) => {
                let mut found = Vec::new();
                self.each_match(path, frame, false, &mut |_, cursor| {
                    self.budget.allocate(size_of::<Val<'_>>())?;
                    found.push(Val::from(cursor));
                    Ok(CONTINUE)
                })?;
                Ok(Val::Array(List::Built(found.into())))
            }
            Kind::Placeholder(index) => {
                plain::placeholder(*index, &self.scope(frame)).map_err(failed)
            }
        }
    }

    fn chain(&self, first: &'a Node, links: &'a [Link], frame: Frame<'_, 'a>) -> Evaluated<'a> {
        let mut left = match &first.kind {
            Kind::Path(path) if !path.is_multi() => {
                let cursor = self.plain_steps(&path.steps, self.start(path, frame), frame)?;
                ops::operand(cursor.into(), self.budget)?
            }
            _ => self.eval(first, frame)?,
        };
        for link in links {
            if let Some(value) = ops::short_circuit(link.op, &left) {
                left = value;
                continue;
            }
            if let Some(result) = self.against_literal(link, &left)? {
                left = Val::Bool(result);
                continue;
            }
            if let (Binary::In, Kind::Path(path)) = (link.op, &link.right.kind)
                && path.is_multi()
            {
                let mut found = false;
                self.each_match(path, frame, false, &mut |_, cursor| {
                    found = ops::same(&left, &cursor.into(), self.budget)?;
                    Ok(if found { ControlFlow::Break(()) } else { CONTINUE })
                })?;
                left = Val::Bool(found);
                continue;
            }
            let right = self.eval(&link.right, frame)?;
            left = ops::link(first, link, &left, &right, self.budget)?;
        }
        Ok(left)
    }

    /// Comparisons with a literal, without making a value of the literal.
    fn against_literal(&self, link: &'a Link, left: &Val<'a>) -> Evaluated<'a, Option<bool>> {
        Ok(match (link.op, &link.right.kind) {
            (op @ (Binary::Equal | Binary::NotEqual), Kind::Text(text))
                if text.number.is_none() =>
            {
                // The literal is no number, so only the same text is equal.
                let equal = matches!(left, Val::Str(left) if *left == text.text.as_str());
                Some(equal == (op == Binary::Equal))
            }
            (op @ (Binary::Equal | Binary::NotEqual), Kind::Number(number)) => {
                #[expect(clippy::float_cmp, reason = "exactly Go's comparison")]
                let equal = ops::number(left).is_some_and(|left| left == *number);
                Some(equal == (op == Binary::Equal))
            }
            (op, _) if let Some(Ok(regex)) = &link.regex => {
                Some(ops::search(op, left, regex, self.budget)?)
            }
            (Binary::In, Kind::Array(elements)) if elements.iter().all(Node::is_literal) => {
                self.budget.spend(elements.len() as u64)?;
                Some(elements.iter().any(|element| match (left, &element.kind) {
                    (Val::Str(left), Kind::Text(right)) => *left == right.text.as_str(),
                    #[expect(clippy::float_cmp, reason = "exactly Go's comparison")]
                    (Val::Number(left), Kind::Number(right)) => left == right,
                    (Val::Bool(left), Kind::Bool(right)) => left == right,
                    _ => false,
                }))
            }
            _ => None,
        })
    }

    /// A function of the list that a multi path yields, without the list.
    fn call_on_matches(
        &self,
        function: Function,
        path: &'a Path,
        span: Span,
        frame: Frame<'_, 'a>,
    ) -> Evaluated<'a> {
        let mut length = 0;
        match function {
            Function::Length => {
                self.each_match(path, frame, false, &mut |_, _| {
                    length += 1;
                    Ok(CONTINUE)
                })?;
            }
            Function::IsEmpty | Function::IsNotEmpty => {
                self.each_match(path, frame, false, &mut |_, _| {
                    length = 1;
                    Ok(ControlFlow::Break(()))
                })?;
            }
            // A list is defined, and no date.
            Function::IsDefined => return Ok(Val::Bool(true)),
            Function::IsUndefined => return Ok(Val::Bool(false)),
            Function::Date => {
                return Err(Fault::failed(Why::Arity(Function::Date), span));
            }
        }
        Ok(ops::of_length(function, length))
    }

    fn start(&self, path: &Path, frame: Frame<'_, 'a>) -> Cursor<'a> {
        match path.root {
            Root::Document => Cursor::Json(self.root),
            Root::Current => frame.current.clone(),
        }
    }

    /// Takes steps without multi steps; constant keys of objects first, which mostly are all.
    #[inline]
    fn plain_steps(
        &self,
        steps: &'a [Step],
        start: Cursor<'a>,
        frame: Frame<'_, 'a>,
    ) -> Evaluated<'a, Cursor<'a>> {
        self.budget.spend(steps.len() as u64)?;
        let Cursor::Json(start) = start else {
            return self.computed_steps(steps, start, frame);
        };
        match reach(start, steps) {
            (Some(value), []) => Ok(Cursor::Json(value)),
            (Some(value), rest) => self.computed_steps(rest, Cursor::Json(value), frame),
            (None, []) => Ok(Cursor::Built(Val::Undefined)),
            (None, rest) => self.computed_steps(rest, Cursor::Built(Val::Undefined), frame),
        }
    }

    fn computed_steps(
        &self,
        steps: &'a [Step],
        start: Cursor<'a>,
        frame: Frame<'_, 'a>,
    ) -> Evaluated<'a, Cursor<'a>> {
        let mut cursor = start;
        for step in steps {
            cursor = match step {
                Step::Key(key) => self.lookup(key, &cursor, frame)?.1,
                Step::Script(script) => {
                    Cursor::Built(self.eval(script, Frame { current: &cursor, ..frame })?)
                }
                _ => cursor,
            };
        }
        Ok(cursor)
    }

    /// `[expr]` on one place: the key it stands for and what is there.
    fn lookup(
        &self,
        key: &'a Node,
        cursor: &Cursor<'a>,
        frame: Frame<'_, 'a>,
    ) -> Evaluated<'a, (Key, Cursor<'a>)> {
        let value = Val::from(cursor.clone());
        let evaluated = || {
            let evaluated = self.eval(key, Frame { current: cursor, ..frame });
            evaluated.map_err(|fault| fault.map(|why| Why::BadKey(Box::new(why))))
        };
        let undefined = Cursor::Built(Val::Undefined);
        match value {
            Val::Undefined | Val::Null => {
                let key = evaluated()?;
                Ok((Key::Name(ops::text(&key, self.budget)?.into()), undefined))
            }
            Val::Array(list) => {
                let index = ops::index(evaluated()?, list.len())
                    .map_err(|why| Fault::failed(why, key.span))?;
                Ok((Key::Index(index), element(&list, index).unwrap_or(undefined)))
            }
            Val::Object(map) => {
                let key = evaluated()?;
                let name = ops::text(&key, self.budget)?;
                let member = match &map {
                    crate::Map::Json(object) => object.get(&name).map(Cursor::Json),
                    crate::Map::Built(_) => map.get(&name).map(Cursor::Built),
                };
                Ok((Key::Name(name.into()), member.unwrap_or(undefined)))
            }
            other => Err(Fault::failed(Why::NoContainer(other.go_type()), key.span)),
        }
    }

    fn each_match(
        &self,
        path: &'a Path,
        frame: Frame<'_, 'a>,
        capture: bool,
        emit: Emit<'_, 'a>,
    ) -> Evaluated<'a, ()> {
        let walk = Walk { stream: self, frame, capture };
        // Whether the receiver had enough is its own affair.
        let _ = walk.onward(&path.steps, true, self.start(path, frame), &START, emit)?;
        Ok(())
    }
}

/// One walk along the steps of a path.
struct Walk<'w, 'a, 'e> {
    stream: &'w Stream<'a, 'e>,
    frame: Frame<'w, 'a>,
    /// Whether the trail is used behind `..`; elsewhere it costs nothing.
    capture: bool,
}

impl<'a> Walk<'_, 'a, '_> {
    /// Takes `steps` from `cursor`. Plain steps up to the next multi step count as one: what fails
    /// or is undefined at their end is dropped.
    fn onward(
        &self,
        steps: &'a [Step],
        at_start: bool,
        cursor: Cursor<'a>,
        trail: &Trail<'_>,
        emit: Emit<'_, 'a>,
    ) -> Evaluated<'a, ControlFlow<()>> {
        let plain = steps.iter().take_while(|step| !step.is_multi()).count();
        let (group, rest) = steps.split_at_checked(plain).unwrap_or((steps, &[]));
        let mut cursor = cursor;
        if let Cursor::Json(value) = cursor
            && is_hopeless(group, value)
        {
            self.stream.budget.spend(1)?;
            return Ok(CONTINUE);
        }
        if at_start || !group.is_empty() {
            cursor = match self.stream.plain_steps(group, cursor, self.frame) {
                Ok(Cursor::Built(Val::Undefined)) | Err(Fault::Failed(_)) => return Ok(CONTINUE),
                Ok(cursor) => cursor,
                Err(exhausted) => return Err(exhausted),
            };
        }
        let Some((multi, rest)) = rest.split_first() else {
            return emit(trail, cursor);
        };
        let depth = self.stream.depth.get();
        if depth >= MAX_DEPTH {
            return self.onward_plainly(multi, rest, cursor, trail, emit);
        }
        self.stream.depth.set(depth + 1);
        let flow = self.multi_step(multi, rest, cursor, trail, emit);
        self.stream.depth.set(depth);
        flow
    }

    /// The rest of the way by the plain evaluator, which keeps results instead of calling deeper.
    fn onward_plainly(
        &self,
        multi: &'a Step,
        rest: &'a [Step],
        cursor: Cursor<'a>,
        trail: &Trail<'_>,
        emit: Emit<'_, 'a>,
    ) -> Evaluated<'a, ControlFlow<()>> {
        let scope = self.stream.scope(self.frame);
        for (captures, value) in
            Plain::new(None).matches_behind(multi, rest, cursor.into(), &scope)?
        {
            let flow = emit_behind(&captures, trail, value, emit)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(CONTINUE)
    }

    fn multi_step(
        &self,
        step: &'a Step,
        rest: &'a [Step],
        cursor: Cursor<'a>,
        trail: &Trail<'_>,
        emit: Emit<'_, 'a>,
    ) -> Evaluated<'a, ControlFlow<()>> {
        let budget = self.stream.budget;
        let mut go = |mark: Mark<'_>, child: Cursor<'a>| {
            self.onward(rest, false, child, &Trail { outer: Some(trail), mark }, emit)
        };
        match step {
            Step::Star => each_child(&cursor, &mut |mark, child| {
                budget.spend(1)?;
                go(mark, child)
            }),
            Step::Filter(condition) => each_child(&cursor, &mut |mark, child| {
                let frame = Frame { current: &child, ..self.frame };
                match self.stream.eval(condition, frame) {
                    Ok(condition) if ops::truth(&condition) == Some(true) => go(mark, child),
                    Ok(_) | Err(Fault::Failed(_)) => Ok(CONTINUE),
                    Err(exhausted) => Err(exhausted),
                }
            }),
            Step::Union(keys) => {
                for key in keys {
                    let flow = match self.stream.lookup(key, &cursor, self.frame) {
                        Ok((_, Cursor::Built(Val::Undefined))) | Err(Fault::Failed(_)) => CONTINUE,
                        Ok((Key::Index(index), child)) => go(Mark::Index(index), child)?,
                        Ok((Key::Name(name), child)) => go(Mark::Name(&name), child)?,
                        Err(exhausted) => return Err(exhausted),
                    };
                    if flow.is_break() {
                        return Ok(flow);
                    }
                }
                Ok(CONTINUE)
            }
            Step::Slice(bounds) => {
                let Val::Array(list) = Val::from(cursor.clone()) else {
                    return Ok(CONTINUE);
                };
                let frame = Frame { current: &cursor, ..self.frame };
                let mut resolved = [0, i64::MAX, 1];
                for (bound, resolved) in bounds.iter().zip(&mut resolved) {
                    let Some(bound) = bound else {
                        continue;
                    };
                    match self.stream.eval(bound, frame).map(|bound| ops::number(&bound)) {
                        Ok(Some(number)) => *resolved = num::to_i64(number),
                        Ok(None) | Err(Fault::Failed(_)) => return Ok(CONTINUE),
                        Err(exhausted) => return Err(exhausted),
                    }
                }
                let [min, max, step] = resolved;
                for position in ops::slice(min, max, step, list.len()) {
                    budget.spend(1)?;
                    if let Some(child) = element(&list, position) {
                        let flow = go(Mark::Index(position), child)?;
                        if flow.is_break() {
                            return Ok(flow);
                        }
                    }
                }
                Ok(CONTINUE)
            }
            Step::Descend => self.descend(cursor, &mut go),
            Step::Key(_) | Step::Script(_) => Ok(CONTINUE),
        }
    }

    /// The place itself and everything inside it, parents first. Keeps its own stack, because
    /// documents are deep and this may be nested in itself.
    fn descend(
        &self,
        cursor: Cursor<'a>,
        go: &mut dyn FnMut(Mark<'_>, Cursor<'a>) -> Evaluated<'a, ControlFlow<()>>,
    ) -> Evaluated<'a, ControlFlow<()>> {
        let budget = self.stream.budget;
        let mut levels: Vec<Key> = Vec::new();
        budget.spend(1)?;
        if go(Mark::Levels(&levels), cursor.clone())?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        let mut open = vec![(cursor, 0)];
        while let Some((container, next)) = open.last_mut() {
            let Some((key, child)) = child(container, *next, self.capture) else {
                open.pop();
                levels.pop();
                continue;
            };
            *next += 1;
            budget.spend(1 + if self.capture { levels.len() as u64 } else { 0 })?;
            levels.extend(key);
            if go(Mark::Levels(&levels), child.clone())?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if is_container(&child) {
                open.push((child, 0));
            } else {
                levels.pop();
            }
        }
        Ok(CONTINUE)
    }
}

/// Takes constant keys as far as there are objects: what is there and the steps left, or `None`
/// behind a missing key.
#[inline]
fn reach<'a>(start: &'a Value, steps: &'a [Step]) -> (Option<&'a Value>, &'a [Step]) {
    let (mut value, mut rest) = (start, steps);
    while let (
        Value::Object(object),
        [Step::Key(Node { kind: Kind::Text(key), .. }), behind @ ..],
    ) = (value, rest)
    {
        rest = behind;
        match object.get(&key.text) {
            Some(member) => value = member,
            None => return (None, rest),
        }
    }
    (Some(value), rest)
}

/// Whether steps fail, or end undefined, on a value that says so at once. Saves building failures
/// that a multi step would drop.
fn is_hopeless(steps: &[Step], value: &Value) -> bool {
    let [Step::Key(Node { kind: Kind::Text(key), .. }), rest @ ..] = steps else {
        return false;
    };
    match value {
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(_) => key.number.is_none(),
        Value::Null => rest.is_empty(),
        Value::Object(_) => false,
    }
}

/// Hands on a result of the plain evaluator with the trail extended by what it captured.
fn emit_behind<'a>(
    captures: &[Capture],
    trail: &Trail<'_>,
    value: Val<'a>,
    emit: Emit<'_, 'a>,
) -> Evaluated<'a, ControlFlow<()>> {
    match captures.split_first() {
        None => emit(trail, Cursor::Built(value)),
        Some((capture, rest)) => {
            let mark = match capture {
                Capture::One(Key::Index(index)) => Mark::Index(*index),
                Capture::One(Key::Name(name)) => Mark::Name(name),
                Capture::Levels(keys) => Mark::Levels(keys),
            };
            emit_behind(rest, &Trail { outer: Some(trail), mark }, value, emit)
        }
    }
}

/// Calls `visit` with the elements of a list or the members of a map.
fn each_child<'a>(
    cursor: &Cursor<'a>,
    visit: &mut dyn FnMut(Mark<'_>, Cursor<'a>) -> Evaluated<'a, ControlFlow<()>>,
) -> Evaluated<'a, ControlFlow<()>> {
    match cursor {
        Cursor::Json(Value::Array(array)) => {
            for (index, child) in array.iter().enumerate() {
                if visit(Mark::Index(index), Cursor::Json(child))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Cursor::Json(Value::Object(object)) => {
            for (key, child) in object.iter() {
                if visit(Mark::Name(key), Cursor::Json(child))?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Cursor::Json(_) => {}
        Cursor::Built(_) => {
            for index in 0.. {
                let Some((key, child)) = child(cursor, index, true) else {
                    break;
                };
                let mark = match &key {
                    Some(Key::Index(index)) => Mark::Index(*index),
                    Some(Key::Name(name)) => Mark::Name(name),
                    None => Mark::Start,
                };
                if visit(mark, child)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
    }
    Ok(CONTINUE)
}

/// The child at `index` of a list or map, with its key if wanted.
fn child<'a>(
    container: &Cursor<'a>,
    index: usize,
    with_key: bool,
) -> Option<(Option<Key>, Cursor<'a>)> {
    let at_index = || with_key.then_some(Key::Index(index));
    let named = |name: &Str| with_key.then(|| Key::Name(name.clone()));
    let member = |object: &'a modgate_value::Object| {
        let (key, value) = object.as_slice().get(index)?;
        Some((named(key), Cursor::Json(value)))
    };
    match container {
        Cursor::Json(Value::Array(array)) => {
            array.get(index).map(|child| (at_index(), Cursor::Json(child)))
        }
        Cursor::Json(Value::Object(object)) => member(object),
        Cursor::Built(Val::Array(list)) => element(list, index).map(|child| (at_index(), child)),
        Cursor::Built(Val::Object(crate::Map::Json(object))) => member(object),
        Cursor::Built(Val::Object(crate::Map::Built(entries))) => {
            entries.get(index).map(|(key, child)| (named(key), Cursor::Built(child.clone())))
        }
        _ => None,
    }
}

fn is_container(cursor: &Cursor<'_>) -> bool {
    matches!(
        cursor,
        Cursor::Json(Value::Array(_) | Value::Object(_))
            | Cursor::Built(Val::Array(_) | Val::Object(_))
    )
}

fn element<'a>(list: &List<'a>, index: usize) -> Option<Cursor<'a>> {
    match list {
        List::Json(array) => array.get(index).map(Cursor::Json),
        List::Built(values) => values.get(index).cloned().map(Cursor::Built),
    }
}
