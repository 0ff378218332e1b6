//! The evaluator: walks the syntax, builds in an arena, charges a cost and a budget.

use std::{cell::Cell, cmp::Ordering};

use bumpalo::Bump;
use modgate_value::{Budget, Exhausted, regex::GoRegex};

use crate::{
    ast::{Expr, Kind, Literal, Macro},
    compose::Evaluation,
    value::Val,
};

/// What an expression's variables stand for.
pub trait Activation {
    /// The variable `name`.
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>>;
}

/// Why an evaluation gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// An error of the expression, in cel-go's words.
    #[error("{0}")]
    Failed(String),
    /// More than one expression may cost.
    #[error("operation cancelled: actual cost limit exceeded")]
    Cost,
    /// More than all expressions together may cost.
    #[error(
        "validation failed due to running out of cost budget, no further validation rules will be \
         run"
    )]
    OutOfBudget,
    /// The budget is spent.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// A function that type checks but cannot be evaluated yet.
    #[error("function `{0}` is not implemented")]
    Unimplemented(String),
}

type Result<T> = std::result::Result<T, EvalError>;

fn failed<T>(message: impl Into<String>) -> Result<T> {
    Err(EvalError::Failed(message.into()))
}

impl EvalError {
    /// Whether `&&` and `||` may pass over it.
    fn is_plain(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}

pub(crate) struct Machine<'e, 'a> {
    evaluation: &'e Evaluation<'a>,
    arena: &'a Bump,
    budget: &'a Budget<'a>,
    pub(crate) cost: Cell<u64>,
    limit: u64,
    locals: Vec<(&'a str, Val<'a>)>,
}

fn int(value: Option<i64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("integer overflow"), |value| Ok(Val::Int(value)))
}

fn uint(value: Option<u64>) -> Result<Val<'static>> {
    value.map_or_else(|| failed("unsigned integer overflow"), |value| Ok(Val::Uint(value)))
}

impl<'e, 'a> Machine<'e, 'a> {
    pub(crate) fn new(evaluation: &'e Evaluation<'a>, limit: u64) -> Self {
        Self {
            evaluation,
            arena: &evaluation.arena.0,
            budget: evaluation.budget,
            cost: Cell::new(0),
            limit,
            locals: Vec::new(),
        }
    }

    fn charge(&self, cost: u64) -> Result<()> {
        self.budget.spend(1)?;
        self.cost.set(self.cost.get().saturating_add(cost));
        if self.cost.get() > self.limit { Err(EvalError::Cost) } else { Ok(()) }
    }

    fn list(&self, items: &[Val<'a>]) -> Result<Val<'a>> {
        self.budget.allocate(size_of_val(items))?;
        Ok(Val::List(self.arena.alloc_slice_copy(items)))
    }

    fn map(&self, entries: &[(Val<'a>, Val<'a>)]) -> Result<Val<'a>> {
        self.budget.allocate(size_of_val(entries))?;
        Ok(Val::Map(self.arena.alloc_slice_copy(entries)))
    }

    fn text(&self, text: &str) -> Result<Val<'a>> {
        self.budget.allocate(text.len())?;
        Ok(Val::String(self.arena.alloc_str(text)))
    }

    fn some(&self, value: Val<'a>) -> Result<Val<'a>> {
        self.budget.allocate(size_of::<Val<'_>>())?;
        Ok(Val::Optional(Some(self.arena.alloc(value))))
    }

    pub(crate) fn eval(&mut self, expr: &'a Expr) -> Result<Val<'a>> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(match literal {
                Literal::Null => Val::Null,
                Literal::Bool(value) => Val::Bool(*value),
                Literal::Int(value) => Val::Int(*value),
                Literal::Uint(value) => Val::Uint(*value),
                Literal::Double(value) => Val::Double(*value),
                Literal::String(text) => Val::String(text),
                Literal::Bytes(bytes) => Val::Bytes(bytes),
            }),
            Kind::Ident(name) => {
                self.charge(1)?;
                self.variable(name)
            }
            Kind::Select { operand, field, optional } => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                self.look(operand, Val::String(field), *optional)
            }
            Kind::Index { operand, index, optional } => {
                let operand = self.eval(operand)?;
                let index = self.eval(index)?;
                self.charge(1)?;
                self.look(operand, index, *optional)
            }
            Kind::Has(operand, field) => {
                let operand = self.eval(operand)?;
                self.charge(1)?;
                let operand = match operand {
                    Val::Optional(None) => return Ok(Val::Bool(false)),
                    Val::Optional(Some(inner)) => *inner,
                    other => other,
                };
                Ok(Val::Bool(self.find(operand, Val::String(field))?.is_some()))
            }
            Kind::Call { function, target, args } => self.call(function, target.as_deref(), args),
            Kind::List(elements) => {
                let mut items = Vec::new();
                for element in elements {
                    match (self.eval(&element.value)?, element.optional) {
                        (Val::Optional(inner), true) => items.extend(inner.copied()),
                        (value, _) => items.push(value),
                    }
                }
                self.charge(10)?;
                self.list(&items)
            }
            Kind::Map(parts) => {
                let mut entries: Vec<(Val<'a>, Val<'a>)> = Vec::new();
                for part in parts {
                    let key = self.eval(&part.key)?;
                    match (self.eval(&part.value)?, part.optional) {
                        (Val::Optional(None), true) => {}
                        (Val::Optional(Some(value)), true) => {
                            self.put(&mut entries, key, *value)?
                        }
                        (value, _) => self.put(&mut entries, key, value)?,
                    }
                }
                self.charge(30)?;
                self.map(&entries)
            }
            Kind::Struct { name, .. } => Err(EvalError::Unimplemented(name.clone())),
            Kind::Macro { which, target, names, args } => {
                let range = self.eval(target)?;
                let depth = self.locals.len();
                let result = self.comprehension(*which, range, names, args);
                self.locals.truncate(depth);
                result
            }
        }
    }

    fn put(
        &self,
        entries: &mut Vec<(Val<'a>, Val<'a>)>,
        key: Val<'a>,
        value: Val<'a>,
    ) -> Result<()> {
        for (old, slot) in entries.iter_mut() {
            if self.equal(*old, key)? {
                *slot = value;
                return Ok(());
            }
        }
        entries.push((key, value));
        Ok(())
    }

    fn variable(&self, name: &str) -> Result<Val<'a>> {
        let local = self.locals.iter().rev().find(|(local, _)| *local == name);
        if let Some((_, value)) = local {
            return Ok(*value);
        }
        let name = name.trim_start_matches('.');
        if name == "variables" {
            return Ok(Val::Variables);
        }
        if let Some(value) = self.evaluation.activation.variable(name) {
            return Ok(value);
        }
        let types = [
            "bool",
            "int",
            "uint",
            "double",
            "string",
            "bytes",
            "list",
            "map",
            "null_type",
            "type",
        ];
        match types.into_iter().find(|ty| *ty == name) {
            Some(ty) => Ok(Val::Type(ty)),
            None => failed(format!("no such attribute(s): {name}")),
        }
    }

    /// The entry `key`; `None` if a list or map has none.
    fn find(&self, operand: Val<'a>, key: Val<'a>) -> Result<Option<Val<'a>>> {
        if operand.is_list() {
            let index = match key {
                Val::Int(index) => usize::try_from(index).ok(),
                Val::Uint(index) => usize::try_from(index).ok(),
                _ => return failed("no such overload"),
            };
            return Ok(index.and_then(|index| operand.entry(index)).map(|(_, value)| value));
        }
        match (operand, key) {
            (Val::Variables, Val::String(name)) => match self.evaluation.position(name) {
                Some(index) => self.evaluation.variable(index).map(Some),
                None => Ok(None),
            },
            (Val::JsonMap(object), Val::String(key)) => Ok(object.get(key).map(Val::json)),
            (Val::JsonMap(_), _) => Ok(None),
            (Val::Map(entries), key) => {
                for (name, value) in entries {
                    if self.equal(*name, key)? {
                        return Ok(Some(*value));
                    }
                }
                Ok(None)
            }
            (_, Val::String(name)) => failed(format!("no such key: {name}")),
            _ => failed("no such overload"),
        }
    }

    fn look(&self, operand: Val<'a>, key: Val<'a>, optional: bool) -> Result<Val<'a>> {
        let (inner, wrapped) = match operand {
            Val::Optional(None) => return Ok(operand),
            Val::Optional(Some(inner)) => (*inner, true),
            other => (other, false),
        };
        match self.find(inner, key)? {
            Some(value) if optional || wrapped => self.some(value),
            Some(value) => Ok(value),
            None if optional || wrapped => Ok(Val::Optional(None)),
            None => match key {
                Val::Int(index) if inner.is_list() => {
                    failed(format!("index out of bounds: {index}"))
                }
                Val::String(key) => failed(format!("no such key: {key}")),
                Val::Int(key) => failed(format!("no such key: {key}")),
                Val::Uint(key) => failed(format!("no such key: {key}")),
                Val::Bool(key) => failed(format!("no such key: {key}")),
                _ => failed("no such key"),
            },
        }
    }

    fn equal(&self, left: Val<'a>, right: Val<'a>) -> Result<bool> {
        self.budget.spend(1)?;
        Ok(match (left, right) {
            (Val::Null, Val::Null) => true,
            (Val::Bool(a), Val::Bool(b)) => a == b,
            (Val::String(a), Val::String(b)) => a == b,
            (Val::Bytes(a), Val::Bytes(b)) => a == b,
            (Val::Type(a), Val::Type(b)) => a == b,
            (Val::Optional(a), Val::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => self.equal(*a, *b)?,
                (a, b) => a.is_none() && b.is_none(),
            },
            (a, b) if a.is_list() && b.is_list() || a.is_map() && b.is_map() => {
                if a.size() != b.size() {
                    return Ok(false);
                }
                for index in 0..a.size().unwrap_or(0) {
                    let Some((key, value)) = a.entry(index) else { return Ok(false) };
                    let Some(other) = self.find(b, key)? else { return Ok(false) };
                    if !self.equal(value, other)? {
                        return Ok(false);
                    }
                }
                true
            }
            (a, b) => numbers(a, b) == Some(Some(Ordering::Equal)),
        })
    }

    fn truth(&mut self, expr: &'a Expr) -> Result<bool> {
        match self.eval(expr)? {
            Val::Bool(value) => Ok(value),
            _ => failed("no such overload"),
        }
    }

    /// `&&` if `stop` is false, `||` if it is true: an error counts only if nothing decides.
    fn logic(&mut self, args: &'a [Expr], stop: bool) -> Result<Val<'a>> {
        let mut error = None;
        for arg in args {
            match self.truth(arg) {
                Ok(value) if value == stop => return Ok(Val::Bool(stop)),
                Ok(_) => {}
                Err(found) if !found.is_plain() => return Err(found),
                Err(found) => error = error.or(Some(found)),
            }
        }
        error.map_or(Ok(Val::Bool(!stop)), Err)
    }

    fn comprehension(
        &mut self,
        which: Macro,
        range: Val<'a>,
        names: &'a [String],
        args: &'a [Expr],
    ) -> Result<Val<'a>> {
        let (Some(last), Some(name)) = (args.last(), names.first()) else {
            return failed("no such overload");
        };
        if let (Macro::OptMap | Macro::OptFlatMap, Val::Optional(inner)) = (which, range) {
            let Some(inner) = inner else { return Ok(range) };
            self.locals.push((name, *inner));
            let value = self.eval(last)?;
            return if which == Macro::OptMap { self.some(value) } else { Ok(value) };
        }
        if which == Macro::SortBy {
            return Err(EvalError::Unimplemented("sortBy".to_owned()));
        }
        if !range.is_list() && !range.is_map() {
            return failed("no such overload");
        }
        let depth = self.locals.len();
        let mut items = Vec::new();
        let mut entries = Vec::new();
        let mut error = None;
        let mut found = 0_usize;
        for index in 0..range.size().unwrap_or(0) {
            let Some((key, value)) = range.entry(index) else { break };
            self.locals.truncate(depth);
            match names.get(1) {
                Some(second) => self.locals.extend([(name.as_str(), key), (second, value)]),
                None => self.locals.push((name, if range.is_list() { value } else { key })),
            }
            self.charge(3)?;
            if let Macro::All | Macro::Exists = which {
                match self.truth(last) {
                    Ok(value) if value == (which == Macro::Exists) => return Ok(Val::Bool(value)),
                    Ok(_) => {}
                    Err(other) if !other.is_plain() => return Err(other),
                    Err(other) => error = error.or(Some(other)),
                }
                continue;
            }
            let filter = match (which, args) {
                (Macro::ExistsOne | Macro::Filter, _) => Some(last),
                (_, [filter, _]) => Some(filter),
                _ => None,
            };
            if let Some(filter) = filter
                && !self.truth(filter)?
            {
                continue;
            }
            match which {
                Macro::ExistsOne => found += 1,
                Macro::Filter => items.push(if range.is_list() { value } else { key }),
                Macro::TransformMap => {
                    let value = self.eval(last)?;
                    self.put(&mut entries, key, value)?;
                }
                Macro::TransformMapEntry => {
                    let made = self.eval(last)?;
                    for at in 0..made.size().unwrap_or(0) {
                        let Some((key, value)) = made.entry(at) else { break };
                        self.put(&mut entries, key, value)?;
                    }
                }
                _ => items.push(self.eval(last)?),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        match which {
            Macro::All => Ok(Val::Bool(true)),
            Macro::Exists => Ok(Val::Bool(false)),
            Macro::ExistsOne => Ok(Val::Bool(found == 1)),
            Macro::TransformMap | Macro::TransformMapEntry => self.map(&entries),
            _ => self.list(&items),
        }
    }

    fn call(
        &mut self,
        function: &str,
        target: Option<&'a Expr>,
        args: &'a [Expr],
    ) -> Result<Val<'a>> {
        match (function, args) {
            ("_&&_", _) => return self.logic(args, false),
            ("_||_", _) => return self.logic(args, true),
            ("_?_:_", [condition, yes, no]) => {
                let chosen = if self.truth(condition)? { yes } else { no };
                return self.eval(chosen);
            }
            _ => {}
        }
        let namespace = target.and_then(crate::parser::qualified_name);
        if let ("of" | "none", Some("optional")) = (function, namespace.as_deref()) {
            self.charge(1)?;
            return match args.first() {
                Some(arg) => {
                    let value = self.eval(arg)?;
                    self.some(value)
                }
                None => Ok(Val::Optional(None)),
            };
        }
        if let Some(name) = namespace
            .filter(|name| crate::functions::overloads(&format!("{name}.{function}")).is_some())
        {
            return Err(EvalError::Unimplemented(format!("{name}.{function}")));
        }
        let mut values = Vec::with_capacity(3);
        for arg in target.into_iter().chain(args) {
            values.push(self.eval(arg)?);
        }
        let size =
            |at: usize| values.get(at).and_then(|value| value.size()).map_or(1, |size| size as u64);
        let tenth = |size: u64| size.div_ceil(10);
        self.charge(match function {
            "startsWith" | "endsWith" => tenth(size(0)),
            "@in" if values.get(1).is_some_and(|range| range.is_list()) => size(1),
            "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => tenth(size(0).min(size(1))),
            "_+_" if matches!(values.first(), Some(Val::String(_) | Val::Bytes(_))) => {
                tenth(size(0) + size(1))
            }
            "contains" => tenth(size(0)) * tenth(size(1)),
            "matches" => tenth(size(0) + 1) * size(1).div_ceil(4),
            "lowerAscii" | "upperAscii" | "trim" => tenth(size(0)),
            "split" => tenth(size(0) * 2),
            _ => 1,
        })?;
        self.apply(function, &values)
    }

    fn apply(&self, function: &str, values: &[Val<'a>]) -> Result<Val<'a>> {
        match (function, values) {
            ("_==_", [a, b]) => self.equal(*a, *b).map(Val::Bool),
            ("_!=_", [a, b]) => self.equal(*a, *b).map(|same| Val::Bool(!same)),
            ("!_", [Val::Bool(value)]) => Ok(Val::Bool(!value)),
            ("-_", [Val::Int(value)]) => int(value.checked_neg()),
            ("-_", [Val::Double(value)]) => Ok(Val::Double(-value)),
            ("_<_" | "_<=_" | "_>_" | "_>=_", [a, b]) => {
                let order = match (a, b) {
                    (Val::Bool(a), Val::Bool(b)) => Some(a.cmp(b)),
                    (Val::String(a), Val::String(b)) => Some(a.cmp(b)),
                    (Val::Bytes(a), Val::Bytes(b)) => Some(a.cmp(b)),
                    (a, b) => match numbers(*a, *b) {
                        Some(order) => order,
                        None => return failed("no such overload"),
                    },
                };
                Ok(Val::Bool(order.is_some_and(|order| match function {
                    "_<_" => order.is_lt(),
                    "_<=_" => order.is_le(),
                    "_>_" => order.is_gt(),
                    _ => order.is_ge(),
                })))
            }
            ("_/_" | "_%_", [Val::Int(_), Val::Int(0)] | [Val::Uint(_), Val::Uint(0)]) => {
                failed(if function == "_/_" { "division by zero" } else { "modulus by zero" })
            }
            ("_+_", [Val::Int(a), Val::Int(b)]) => int(a.checked_add(*b)),
            ("_-_", [Val::Int(a), Val::Int(b)]) => int(a.checked_sub(*b)),
            ("_*_", [Val::Int(a), Val::Int(b)]) => int(a.checked_mul(*b)),
            ("_/_", [Val::Int(a), Val::Int(b)]) => int(a.checked_div(*b)),
            ("_%_", [Val::Int(a), Val::Int(b)]) => int(a.checked_rem(*b)),
            ("_+_", [Val::Uint(a), Val::Uint(b)]) => uint(a.checked_add(*b)),
            ("_-_", [Val::Uint(a), Val::Uint(b)]) => uint(a.checked_sub(*b)),
            ("_*_", [Val::Uint(a), Val::Uint(b)]) => uint(a.checked_mul(*b)),
            ("_/_", [Val::Uint(a), Val::Uint(b)]) => uint(a.checked_div(*b)),
            ("_%_", [Val::Uint(a), Val::Uint(b)]) => uint(a.checked_rem(*b)),
            ("_+_", [Val::Double(a), Val::Double(b)]) => Ok(Val::Double(a + b)),
            ("_-_", [Val::Double(a), Val::Double(b)]) => Ok(Val::Double(a - b)),
            ("_*_", [Val::Double(a), Val::Double(b)]) => Ok(Val::Double(a * b)),
            ("_/_", [Val::Double(a), Val::Double(b)]) => Ok(Val::Double(a / b)),
            ("_+_", [Val::String(a), Val::String(b)]) => {
                self.budget.allocate(a.len() + b.len())?;
                self.text(&format!("{a}{b}"))
            }
            ("_+_", [Val::Bytes(a), Val::Bytes(b)]) => {
                self.budget.allocate(a.len() + b.len())?;
                Ok(Val::Bytes(self.arena.alloc_slice_copy(&[*a, *b].concat())))
            }
            ("_+_", [a, b]) if a.is_list() && b.is_list() => {
                let mut items = Vec::new();
                for list in [a, b] {
                    self.budget.spend(list.size().unwrap_or(0) as u64)?;
                    let all = (0..list.size().unwrap_or(0)).filter_map(|index| list.entry(index));
                    items.extend(all.map(|(_, item)| item));
                }
                self.list(&items)
            }
            ("@in", [value, range]) if range.is_list() => {
                for index in 0..range.size().unwrap_or(0) {
                    if let Some((_, item)) = range.entry(index)
                        && self.equal(item, *value)?
                    {
                        return Ok(Val::Bool(true));
                    }
                }
                Ok(Val::Bool(false))
            }
            ("@in", [key, range]) if range.is_map() => {
                Ok(Val::Bool(self.find(*range, *key)?.is_some()))
            }
            ("size", [value]) if value.size().is_some() => {
                int(value.size().and_then(|size| i64::try_from(size).ok()))
            }
            ("type", [value]) => Ok(Val::Type(value.type_name())),
            ("dyn", [value]) => Ok(*value),
            ("contains", [Val::String(a), Val::String(b)]) => Ok(Val::Bool(a.contains(b))),
            ("startsWith", [Val::String(a), Val::String(b)]) => Ok(Val::Bool(a.starts_with(b))),
            ("endsWith", [Val::String(a), Val::String(b)]) => Ok(Val::Bool(a.ends_with(b))),
            ("matches", [Val::String(text), Val::String(pattern)]) => {
                self.budget.spend(text.len() as u64)?;
                match GoRegex::new(pattern) {
                    Ok(regex) => Ok(Val::Bool(regex.is_match(text))),
                    Err(error) => failed(error.to_string()),
                }
            }
            ("lowerAscii", [Val::String(text)]) => self.text(&text.to_ascii_lowercase()),
            ("upperAscii", [Val::String(text)]) => self.text(&text.to_ascii_uppercase()),
            ("trim", [Val::String(text)]) => Ok(Val::String(text.trim())),
            ("split", [Val::String(text), Val::String(separator)]) if !separator.is_empty() => {
                self.budget.spend(text.len() as u64)?;
                self.list(&text.split(separator).map(Val::String).collect::<Vec<_>>())
            }
            ("join", [list, rest @ ..]) if list.is_list() => {
                let separator = match rest.first() {
                    Some(Val::String(text)) => text,
                    _ => "",
                };
                let mut out = String::new();
                for index in 0..list.size().unwrap_or(0) {
                    let Some((_, Val::String(text))) = list.entry(index) else {
                        return failed("no such overload");
                    };
                    self.budget.allocate(separator.len() + text.len())?;
                    if index > 0 {
                        out.push_str(separator);
                    }
                    out.push_str(text);
                }
                self.text(&out)
            }
            ("charAt", [Val::String(text), Val::Int(index)]) => {
                let start = place(text, *index)?;
                let rest = text.get(start..).unwrap_or_default();
                let length = rest.chars().next().map_or(0, char::len_utf8);
                Ok(Val::String(rest.get(..length).unwrap_or_default()))
            }
            ("substring", [Val::String(text), Val::Int(from)]) => {
                Ok(Val::String(text.get(place(text, *from)?..).unwrap_or_default()))
            }
            ("substring", [Val::String(text), Val::Int(from), Val::Int(to)]) => {
                if from > to {
                    return failed(format!("invalid substring range. start: {from}, end: {to}"));
                }
                let range = place(text, *from)?..place(text, *to)?;
                Ok(Val::String(text.get(range).unwrap_or_default()))
            }
            ("first" | "last", [list]) if list.is_list() => {
                let size = list.size().unwrap_or(0);
                let index = if function == "first" { 0 } else { size.saturating_sub(1) };
                match list.entry(index) {
                    Some((_, value)) => self.some(value),
                    None => Ok(Val::Optional(None)),
                }
            }
            ("reverse", [list]) if list.is_list() => {
                let size = list.size().unwrap_or(0);
                self.budget.spend(size as u64)?;
                let items = (0..size).rev().filter_map(|index| list.entry(index));
                self.list(&items.map(|(_, value)| value).collect::<Vec<_>>())
            }
            ("indexOf" | "lastIndexOf", [list, wanted]) if list.is_list() => {
                let mut found = -1;
                for index in 0..list.size().unwrap_or(0) {
                    if let Some((Val::Int(at), value)) = list.entry(index)
                        && (found < 0 || function == "lastIndexOf")
                        && self.equal(value, *wanted)?
                    {
                        found = at;
                    }
                }
                Ok(Val::Int(found))
            }
            ("distinct", [list]) if list.is_list() => {
                let mut kept: Vec<Val<'a>> = Vec::new();
                'items: for index in 0..list.size().unwrap_or(0) {
                    let Some((_, value)) = list.entry(index) else { break };
                    for other in &kept {
                        if self.equal(*other, value)? {
                            continue 'items;
                        }
                    }
                    kept.push(value);
                }
                self.list(&kept)
            }
            ("string", [value]) => match value {
                Val::String(_) => Ok(*value),
                Val::Bool(value) => self.text(&value.to_string()),
                Val::Int(value) => self.text(&value.to_string()),
                Val::Uint(value) => self.text(&value.to_string()),
                Val::Bytes(bytes) => std::str::from_utf8(bytes).map_or_else(
                    |_| failed("invalid UTF-8 in bytes, cannot convert to string"),
                    |text| Ok(Val::String(text)),
                ),
                _ => Err(EvalError::Unimplemented("string".to_owned())),
            },
            ("bytes", [Val::Bytes(bytes)]) => Ok(Val::Bytes(bytes)),
            ("bytes", [Val::String(text)]) => Ok(Val::Bytes(text.as_bytes())),
            ("bool", [Val::Bool(value)]) => Ok(Val::Bool(*value)),
            ("bool", [Val::String(text)]) => match *text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Val::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Val::Bool(false)),
                _ => failed("type conversion error from 'string' to 'bool'"),
            },
            ("int", [value]) => match value {
                Val::Int(_) => Ok(*value),
                Val::Uint(value) => int(i64::try_from(*value).ok()),
                Val::Double(value) => int(truncated(*value).and_then(|v| i64::try_from(v).ok())),
                Val::String(text) => text
                    .parse()
                    .map(Val::Int)
                    .or_else(|_| failed("type conversion error from 'string' to 'int'")),
                _ => failed("no such overload"),
            },
            ("uint", [value]) => match value {
                Val::Uint(_) => Ok(*value),
                Val::Int(value) => uint(u64::try_from(*value).ok()),
                Val::Double(value) => uint(truncated(*value).and_then(|v| u64::try_from(v).ok())),
                Val::String(text) if !text.starts_with('+') => text
                    .parse()
                    .map(Val::Uint)
                    .or_else(|_| failed("type conversion error from 'string' to 'uint'")),
                _ => failed("type conversion error from 'string' to 'uint'"),
            },
            ("hasValue", [Val::Optional(inner)]) => Ok(Val::Bool(inner.is_some())),
            ("value", [Val::Optional(Some(inner))]) => Ok(**inner),
            ("value", [Val::Optional(None)]) => failed("optional.none() dereference"),
            ("or", [Val::Optional(None), other]) => Ok(*other),
            ("or", [first, _]) => Ok(*first),
            ("orValue", [Val::Optional(inner), other]) => Ok(inner.copied().unwrap_or(*other)),
            _ if function.starts_with(['_', '@', '!', '-']) => failed("no such overload"),
            _ => Err(EvalError::Unimplemented(function.to_owned())),
        }
    }
}

/// The byte at which the character number `index` starts, or the end.
fn place(text: &str, index: i64) -> Result<usize> {
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let found = usize::try_from(index).ok().and_then(|index| starts.into_iter().nth(index));
    found.map_or_else(|| failed(format!("index out of range: {index}")), Ok)
}

/// The integer below, towards zero, if it is strictly within 64 bits.
fn truncated(value: f64) -> Option<i128> {
    let bound = 18_446_744_073_709_551_616.0;
    // Within the bounds the conversion is exact after dropping the fraction.
    (value > -bound && value < bound).then_some(value as i128)
}

/// How two numbers compare, whatever their types; the inner `None` if one is not a number.
#[expect(clippy::cast_precision_loss, reason = "only whether the order is clear is asked first")]
fn numbers(left: Val<'_>, right: Val<'_>) -> Option<Option<Ordering>> {
    let whole = |value: Val<'_>| match value {
        Val::Int(value) => Some(i128::from(value)),
        Val::Uint(value) => Some(i128::from(value)),
        _ => None,
    };
    let mixed = |whole: i128, float: f64| -> Option<Ordering> {
        let order = (whole as f64).partial_cmp(&float)?;
        // Beyond 2^53 several integers share a float; that float is itself an exact integer.
        Some(if order.is_eq() { whole.cmp(&(float as i128)) } else { order })
    };
    Some(match (left, right) {
        (Val::Double(a), Val::Double(b)) => a.partial_cmp(&b),
        (Val::Double(a), b) => mixed(whole(b)?, a).map(Ordering::reverse),
        (a, Val::Double(b)) => mixed(whole(a)?, b),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    })
}
