//! The plain evaluator: the language as the specification describes it, one list per multi step.
//!
//! It is the oracle that [`crate::stream`] is held to, and the one that can be watched.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use modgate_value::{Budget, Str, Value, diag::Span, gofmt};

use crate::{
    EvalError, Key, List, Val,
    ast::{Kind, Node, Path, Root, Step},
    ops::{self, Evaluated, Fault, Why},
};

/// The keys that one multi step captured.
#[derive(Debug, Clone)]
pub(crate) enum Capture {
    One(Key),
    /// `..`: a key per level descended.
    Levels(Vec<Key>),
}

/// The values that names and paths refer to.
#[derive(Clone)]
pub(crate) struct Scope<'a, 'e> {
    pub(crate) root: &'a Value,
    /// `@`
    pub(crate) current: Val<'a>,
    /// The keys that placeholders refer to.
    pub(crate) captures: Option<Rc<[Capture]>>,
    pub(crate) budget: &'e Budget<'e>,
}

impl<'a, 'e> Scope<'a, 'e> {
    pub(crate) fn new(root: &'a Value, budget: &'e Budget<'e>) -> Self {
        Self { root, current: Val::Null, captures: None, budget }
    }

    fn with_current(&self, current: Val<'a>) -> Self {
        Self { current, ..self.clone() }
    }
}

/// The value one part of an expression had during an evaluation.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    /// The part.
    pub span: Span,
    /// How deep the part is nested; the whole expression is 0.
    pub depth: usize,
    /// Its value or failure.
    pub result: Result<Val<'a>, EvalError>,
}

/// Receives the value of every part on the way.
pub(crate) type Observer<'o, 'a> = &'o mut dyn FnMut(Observation<'a>);

pub(crate) struct Plain<'o, 'a> {
    depth: usize,
    observer: Option<Observer<'o, 'a>>,
}

/// One result of a path and the keys captured on the way.
type PathResult<'a> = (Vec<Capture>, Val<'a>);

impl<'o, 'a> Plain<'o, 'a> {
    pub(crate) fn new(observer: Option<Observer<'o, 'a>>) -> Self {
        Self { depth: 0, observer }
    }

    pub(crate) fn eval(&mut self, node: &'a Node, scope: &Scope<'a, '_>) -> Evaluated<'a> {
        scope.budget.spend(1)?;
        self.depth += 1;
        let result = self.eval_kind(node, scope);
        self.depth -= 1;
        let literal = matches!(node.kind, Kind::Number(_) | Kind::Text(_) | Kind::Bool(_));
        if let Some(observer) = &mut self.observer
            && !literal
        {
            let result = result.clone().map_err(Into::into);
            observer(Observation { span: node.span, depth: self.depth, result });
        }
        result
    }

    fn eval_kind(&mut self, node: &'a Node, scope: &Scope<'a, '_>) -> Evaluated<'a> {
        let failed = |why| Fault::failed(why, node.span);
        match &node.kind {
            Kind::Number(number) => Ok(Val::Number(*number)),
            Kind::Text(text) => Ok(Val::Str(Cow::Borrowed(&text.text))),
            Kind::Bool(value) => Ok(Val::Bool(*value)),
            Kind::Array(elements) => {
                scope.budget.allocate(elements.len() * size_of::<Val<'_>>())?;
                let elements: Result<Arc<[_]>, _> =
                    elements.iter().map(|element| self.eval(element, scope)).collect();
                Ok(Val::Array(List::Built(elements?)))
            }
            Kind::Object(entries) => {
                let mut members = Vec::new();
                for entry in entries {
                    if entry.per_match {
                        self.per_match(&entry.key, &entry.value, scope, &mut members)?;
                    } else {
                        let value = self.eval(&entry.value, scope)?;
                        members.push((self.eval_text(&entry.key, scope)?, value));
                    }
                    scope.budget.allocate(size_of::<(Str, Val<'_>)>())?;
                }
                Ok(Val::Object(ops::members(members)))
            }
            Kind::Unary(op, operand) => {
                ops::prefix(*op, self.eval(operand, scope)?, scope.budget)?.map_err(failed)
            }
            Kind::Chain(first, links) => {
                let mut left = self.eval(first, scope)?;
                for link in links {
                    if let Some(value) = ops::short_circuit(link.op, &left) {
                        left = value;
                        continue;
                    }
                    let right = self.eval(&link.right, scope)?;
                    left = ops::link(first, link, &left, &right, scope.budget)?;
                }
                Ok(left)
            }
            Kind::Cond(condition, then, otherwise) => {
                let condition = self.eval(condition, scope)?;
                match otherwise {
                    _ if !ops::is_null_or_false(&condition) => self.eval(then, scope),
                    Some(otherwise) => self.eval(otherwise, scope),
                    None => Ok(Val::Null),
                }
            }
            Kind::Call(function, arguments) => {
                let arguments: Vec<_> = arguments
                    .iter()
                    .map(|argument| self.eval(argument, scope))
                    .collect::<Result<_, _>>()?;
                match arguments.as_slice() {
                    [argument] => ops::call(*function, argument).map_err(failed),
                    _ => Err(failed(Why::Arity(*function))),
                }
            }
            Kind::Variable(keys) => self.variable(keys, node, scope),
            Kind::CallVariable(keys, _) => {
                let callee = self
                    .variable(keys, node, scope)
                    .map_err(|fault| fault.map(|why| Why::Callee(Box::new(why))))?;
                let name = match keys.first().map(|key| &key.kind) {
                    Some(Kind::Text(name)) => name.text.clone(),
                    _ => Str::default(),
                };
                Err(failed(Why::NotCallable(name, callee.go_type())))
            }
            Kind::Path(path) => {
                if !path.is_multi() {
                    let value = self.plain_steps(&path.steps, Self::start(path, scope), scope)?;
                    return Ok(ops::operand(value, scope.budget)?);
                }
                let found = self.matches(path, scope)?;
                Ok(Val::Array(List::Built(found.into_iter().map(|(_, value)| value).collect())))
            }
            Kind::Placeholder(index) => placeholder(*index, scope).map_err(failed),
        }
    }

    fn eval_text(&mut self, node: &'a Node, scope: &Scope<'a, '_>) -> Evaluated<'a, Str> {
        let value = self.eval(node, scope)?;
        Ok(ops::text(&value, scope.budget)?.into())
    }

    fn variable(&mut self, keys: &'a [Node], node: &Node, scope: &Scope<'a, '_>) -> Evaluated<'a> {
        let names: Vec<Str> =
            keys.iter().map(|key| self.eval_text(key, scope)).collect::<Result<_, _>>()?;
        let mut value = Val::from(scope.root);
        for (index, name) in names.iter().enumerate() {
            value = ops::variable(value, name).ok_or_else(|| {
                let path = names.get(..=index).unwrap_or_default().join(".");
                Fault::failed(Why::UnknownParameter(path.into()), node.span)
            })?;
        }
        Ok(value)
    }

    /// The members of `{#…: path}`: one per match.
    fn per_match(
        &mut self,
        key: &'a Node,
        path: &'a Node,
        scope: &Scope<'a, '_>,
        members: &mut Vec<(Str, Val<'a>)>,
    ) -> Evaluated<'a, ()> {
        let Kind::Path(path) = &path.kind else {
            return Ok(());
        };
        for (captures, value) in self.matches(path, scope)? {
            let scope = Scope { captures: Some(captures.into()), ..scope.clone() };
            members.push((self.eval_text(key, &scope)?, value));
            scope.budget.allocate(size_of::<(Str, Val<'_>)>())?;
        }
        Ok(())
    }

    fn start(path: &Path, scope: &Scope<'a, '_>) -> Val<'a> {
        match path.root {
            Root::Document => Val::from(scope.root),
            Root::Current => scope.current.clone(),
        }
    }

    /// All results of a path.
    pub(crate) fn matches(
        &mut self,
        path: &'a Path,
        scope: &Scope<'a, '_>,
    ) -> Evaluated<'a, Vec<PathResult<'a>>> {
        let plain = path.steps.iter().take_while(|step| !step.is_multi()).count();
        let (group, rest) = path.steps.split_at_checked(plain).unwrap_or((&path.steps, &[]));
        let Some(start) = self.plain_group(group, Self::start(path, scope), scope)? else {
            return Ok(Vec::new());
        };
        match rest.split_first() {
            Some((multi, rest)) => self.matches_behind(multi, rest, start, scope),
            None => Ok(vec![(Vec::new(), start)]),
        }
    }

    /// All results of a multi step on `start` and the steps behind it.
    pub(crate) fn matches_behind(
        &mut self,
        multi: &'a Step,
        rest: &'a [Step],
        start: Val<'a>,
        scope: &Scope<'a, '_>,
    ) -> Evaluated<'a, Vec<PathResult<'a>>> {
        let mut found = vec![(Vec::new(), start)];
        let (mut multi, mut rest) = (multi, rest);
        loop {
            let plain = rest.iter().take_while(|step| !step.is_multi()).count();
            let (group, behind) = rest.split_at_checked(plain).unwrap_or((rest, &[]));
            let mut next = Vec::new();
            for (captures, value) in found {
                for (capture, value) in self.multi_step(multi, value, scope)? {
                    let value = if group.is_empty() {
                        Some(value)
                    } else {
                        self.plain_group(group, value, scope)?
                    };
                    if let Some(value) = value {
                        let captures = captures.iter().cloned().chain([capture]).collect();
                        scope.budget.allocate(size_of::<PathResult<'_>>())?;
                        next.push((captures, value));
                    }
                }
            }
            found = next;
            match behind.split_first() {
                Some((step, behind)) => (multi, rest) = (step, behind),
                None => return Ok(found),
            }
        }
    }

    /// Plain steps between two multi steps count as one: what fails or is undefined at their end
    /// is dropped, what is undefined in between is not.
    fn plain_group(
        &mut self,
        steps: &'a [Step],
        start: Val<'a>,
        scope: &Scope<'a, '_>,
    ) -> Evaluated<'a, Option<Val<'a>>> {
        match self.plain_steps(steps, start, scope) {
            Ok(Val::Undefined) | Err(Fault::Failed(_)) => Ok(None),
            Ok(value) => Ok(Some(value)),
            Err(exhausted) => Err(exhausted),
        }
    }

    fn plain_steps(
        &mut self,
        steps: &'a [Step],
        start: Val<'a>,
        scope: &Scope<'a, '_>,
    ) -> Evaluated<'a> {
        let mut value = start;
        for step in steps {
            scope.budget.spend(1)?;
            value = match step {
                Step::Key(key) => self.lookup(key, &value, scope)?.1,
                Step::Script(script) => self.eval(script, &scope.with_current(value))?,
                _ => value,
            };
        }
        Ok(value)
    }

    /// `[expr]` on one value: what it captures in a union, and what is there.
    fn lookup(
        &mut self,
        key: &'a Node,
        value: &Val<'a>,
        scope: &Scope<'a, '_>,
    ) -> Evaluated<'a, (Key, Val<'a>)> {
        let span = key.span;
        let scope = scope.with_current(value.clone());
        let key = |plain: &mut Self| {
            let evaluated = plain.eval(key, &scope);
            evaluated.map_err(|fault| fault.map(|why| Why::BadKey(Box::new(why))))
        };
        match value {
            Val::Undefined | Val::Null => {
                let key = key(self)?;
                Ok((Key::Name(ops::text(&key, scope.budget)?.into()), Val::Undefined))
            }
            Val::Array(list) => {
                let index =
                    ops::index(key(self)?, list.len()).map_err(|why| Fault::failed(why, span))?;
                Ok((Key::Index(index), list.get(index).unwrap_or(Val::Undefined)))
            }
            Val::Object(map) => {
                let key = key(self)?;
                let name = ops::text(&key, scope.budget)?;
                let value = map.get(&name).unwrap_or(Val::Undefined);
                Ok((Key::Name(name.into()), value))
            }
            other => Err(Fault::failed(Why::NoContainer(other.go_type()), span)),
        }
    }

    fn multi_step(
        &mut self,
        step: &'a Step,
        value: Val<'a>,
        scope: &Scope<'a, '_>,
    ) -> Evaluated<'a, Vec<(Capture, Val<'a>)>> {
        let mut out = Vec::new();
        match step {
            Step::Star => {
                for (key, child) in children(&value, scope)? {
                    scope.budget.spend(1)?;
                    out.push((Capture::One(key), child));
                }
            }
            Step::Filter(condition) => {
                for (key, child) in children(&value, scope)? {
                    match self.eval(condition, &scope.with_current(child.clone())) {
                        Ok(condition) if ops::truth(&condition) == Some(true) => {
                            out.push((Capture::One(key), child));
                        }
                        Ok(_) | Err(Fault::Failed(_)) => {}
                        Err(exhausted) => return Err(exhausted),
                    }
                }
            }
            Step::Union(keys) => {
                for key in keys {
                    match self.lookup(key, &value, scope) {
                        Ok((_, Val::Undefined)) | Err(Fault::Failed(_)) => {}
                        Ok((key, child)) => out.push((Capture::One(key), child)),
                        Err(exhausted) => return Err(exhausted),
                    }
                }
            }
            Step::Slice(bounds) => {
                let Val::Array(list) = &value else {
                    return Ok(out);
                };
                let scope = scope.with_current(value.clone());
                let mut resolved = [0, i64::MAX, 1];
                for (bound, resolved) in bounds.iter().zip(&mut resolved) {
                    let Some(bound) = bound else {
                        continue;
                    };
                    match self.eval(bound, &scope).map(|bound| ops::number(&bound)) {
                        Ok(Some(number)) => *resolved = crate::num::to_i64(number),
                        Ok(None) | Err(Fault::Failed(_)) => return Ok(out),
                        Err(exhausted) => return Err(exhausted),
                    }
                }
                let [min, max, step] = resolved;
                for position in ops::slice(min, max, step, list.len()) {
                    scope.budget.spend(1)?;
                    if let Some(child) = list.get(position) {
                        out.push((Capture::One(Key::Index(position)), child));
                    }
                }
            }
            Step::Descend => descend(value, scope, &mut out)?,
            Step::Key(_) | Step::Script(_) => {}
        }
        Ok(out)
    }
}

/// The value itself and everything inside it, parents first. Keeps its own stack, because documents
/// are deep.
fn descend<'a>(
    value: Val<'a>,
    scope: &Scope<'a, '_>,
    out: &mut Vec<(Capture, Val<'a>)>,
) -> Evaluated<'a, ()> {
    let mut levels: Vec<Key> = Vec::new();
    let mut open: Vec<std::vec::IntoIter<(Key, Val<'a>)>> = Vec::new();
    let mut value = value;
    loop {
        scope.budget.spend(1 + levels.len() as u64)?;
        scope.budget.allocate(size_of::<(Capture, Val<'_>)>() + size_of_val(levels.as_slice()))?;
        open.push(children(&value, scope)?.into_iter());
        out.push((Capture::Levels(levels.clone()), value));
        value = loop {
            let Some(inside) = open.last_mut() else { return Ok(()) };
            if let Some((key, child)) = inside.next() {
                levels.push(key);
                break child;
            }
            open.pop();
            levels.pop();
        };
    }
}

/// The elements of a list or the members of a map; nothing for anything else.
fn children<'a>(value: &Val<'a>, scope: &Scope<'a, '_>) -> Evaluated<'a, Vec<(Key, Val<'a>)>> {
    let count = match value {
        Val::Array(list) => list.len(),
        Val::Object(map) => map.len(),
        _ => 0,
    };
    scope.budget.allocate(count * size_of::<(Key, Val<'_>)>())?;
    Ok(match value {
        Val::Array(list) => {
            list.iter().enumerate().map(|(index, child)| (Key::Index(index), child)).collect()
        }
        Val::Object(map) => map.iter().map(|(key, child)| (Key::Name(key.into()), child)).collect(),
        _ => Vec::new(),
    })
}

pub(crate) fn placeholder<'a>(
    index: Option<usize>,
    scope: &Scope<'a, '_>,
) -> Result<Val<'a>, Why<'a>> {
    let captures = scope.captures.as_deref().ok_or(Why::NoPlaceholder(index))?;
    match index {
        Some(at) => Ok(match captures.get(at).ok_or(Why::NoPlaceholder(index))? {
            Capture::One(key) => Val::Str(Cow::Owned(key.text().into())),
            Capture::Levels(keys) => {
                let keys = keys.iter().map(|key| Val::Str(Cow::Owned(key.text().into())));
                Val::Array(List::Built(keys.collect()))
            }
        }),
        None => {
            let mut out = String::from("$");
            for key in flat(captures) {
                out.push('[');
                out.push_str(&gofmt::quote(&key.text()));
                out.push(']');
            }
            Ok(Val::Str(Cow::Owned(out)))
        }
    }
}

/// All captured keys in one list.
pub(crate) fn flat(captures: &[Capture]) -> impl Iterator<Item = Key> + '_ {
    captures.iter().flat_map(|capture| match capture {
        Capture::One(key) => std::slice::from_ref(key).iter().cloned(),
        Capture::Levels(keys) => keys.as_slice().iter().cloned(),
    })
}
