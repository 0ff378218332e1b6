//! Operators and functions on values (spec `kubemod.md`, 2.4 to 2.6). Both evaluators
//! share these.

use std::{borrow::Cow, fmt, sync::Arc};

use modgate_value::{
    Budget, Exhausted, Str, Value, Visit,
    diag::Span,
    regex::{GoRegex, Uncompiled},
};

use crate::{
    EvalError, List, Map, Val,
    ast::{Binary, Function, Link, Node, Unary},
    num, time,
};

/// The compiled size of a pattern that is no literal, and so is compiled for every evaluation.
const COMPUTED_REGEX_BYTES: usize = 1 << 20;

/// Why a part of an expression has no value. Kept as data, because filters and multi steps drop
/// most failures unseen and their texts would cost more than the evaluation.
#[derive(Debug, Clone)]
pub(crate) enum Fault<'a> {
    Exhausted(Exhausted),
    /// Boxed, so that results stay small on the way up.
    Failed(Box<(Why<'a>, Span)>),
}

impl<'a> Fault<'a> {
    pub(crate) fn failed(why: Why<'a>, span: Span) -> Self {
        Self::Failed(Box::new((why, span)))
    }

    /// The same failure with another message.
    pub(crate) fn map(self, change: impl FnOnce(Why<'a>) -> Why<'a>) -> Self {
        match self {
            Self::Failed(failure) => Self::failed(change(failure.0), failure.1),
            exhausted => exhausted,
        }
    }
}

impl From<Exhausted> for Fault<'_> {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(exhausted)
    }
}

impl From<Fault<'_>> for EvalError {
    fn from(fault: Fault<'_>) -> Self {
        match fault {
            Fault::Exhausted(exhausted) => Self::Exhausted(exhausted),
            Fault::Failed(failure) => {
                Self::Failed { message: failure.0.to_string(), span: failure.1 }
            }
        }
    }
}

pub(crate) type Evaluated<'a, T = Val<'a>> = Result<T, Fault<'a>>;

/// A failure of the language; its `Display` is KubeMod's text.
#[derive(Debug, Clone)]
pub(crate) enum Why<'a> {
    /// `.k` or `[k]` on something that has neither keys nor indexes.
    NoContainer(&'static str),
    /// The key itself failed.
    BadKey(Box<Why<'a>>),
    NotANumber(Val<'a>),
    OutOfBounds(i64),
    Operands(&'static str, Binary, &'static str),
    NotABool(&'static str),
    NegateOf(Val<'a>),
    ComplementOf(&'static str),
    NotAList(&'static str),
    Pattern(Str),
    Arity(Function),
    NoLength,
    NoDate(Str),
    UnknownParameter(Str),
    NotCallable(Str, &'static str),
    Callee(Box<Why<'a>>),
    NoPlaceholder(Option<usize>),
}

impl fmt::Display for Why<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoContainer(go_type) => write!(
                f,
                "unsupported value type {go_type} for select, expected map[string]interface{{}} \
                 or []interface{{}}"
            ),
            Self::BadKey(why) => write!(f, "could not select value, invalid key: {why}"),
            Self::NotANumber(val) => {
                write!(f, "expected number but got {} ({})", val.text(), val.go_type())
            }
            Self::OutOfBounds(index) => write!(f, "index {index} out of bounds"),
            Self::Operands(left, op, right) => {
                write!(f, "invalid operation ({left}) {} ({right})", op.name())
            }
            Self::NotABool(go_type) => {
                write!(f, "unexpected operand type {go_type}; expected bool")
            }
            Self::NegateOf(val) => {
                write!(f, "unexpected {}({}) expected number", val.text(), val.go_type())
            }
            Self::ComplementOf(go_type) => write!(f, "unexpected {go_type} expected number"),
            Self::NotAList(go_type) => {
                write!(f, "expected type []interface{{}} for in operator but got {go_type}")
            }
            Self::Pattern(message) => f.write_str(message),
            Self::Arity(function) => {
                let argument = match function {
                    Function::Date => "string argument",
                    Function::Length => "array, string or object argument",
                    _ => "argument",
                };
                write!(f, "{}() expects exactly one {argument}", function.name())
            }
            Self::NoLength => f.write_str("expected exactly one array, string or object argument"),
            Self::NoDate(text) => write!(f, "date() could not parse {text}"),
            Self::UnknownParameter(name) => write!(f, "unknown parameter {name}"),
            Self::NotCallable(name, go_type) => {
                write!(f, "could not call '{name}' type {go_type}")
            }
            Self::Callee(why) => write!(f, "could not call function: {why}"),
            Self::NoPlaceholder(index) => {
                // KubeMod numbers the bare `#` -1.
                let index = index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1);
                write!(f, "JSONPath placeholder #{index} is not available")
            }
        }
    }
}

/// num(v): the number a value stands for in arithmetic.
pub(crate) fn number(val: &Val<'_>) -> Option<f64> {
    match val {
        Val::Number(number) => Some(*number),
        Val::Undefined => Some(f64::NAN),
        #[expect(clippy::cast_precision_loss, reason = "as Go converts an int")]
        Val::Int(int) => Some(*int as f64),
        Val::Str(text) => num::parse_float(text).ok(),
        Val::Null | Val::Bool(_) | Val::Array(_) | Val::Object(_) | Val::Time(_) => None,
    }
}

/// Charges for a long text that an operand turned out to be: whatever is done with it next looks at
/// all of it, often to find out that it is no number.
#[inline]
pub(crate) fn operand<'a>(val: Val<'a>, budget: &Budget<'_>) -> Result<Val<'a>, Exhausted> {
    match &val {
        Val::Str(text) if text.len() >= 64 => budget.spend(text.len() as u64 / 16)?,
        _ => {}
    }
    Ok(val)
}

/// truth(v): what a filter makes of its condition; `None` is an error.
pub(crate) fn truth(val: &Val<'_>) -> Option<bool> {
    match val {
        Val::Bool(value) => Some(*value),
        Val::Null => Some(false),
        Val::Str(text) if matches!(text.as_ref(), "false" | "FALSE") => Some(false),
        Val::Str(text) if matches!(text.as_ref(), "true" | "TRUE") => Some(true),
        // Not-a-number, hence undefined, is true.
        other => number(other).map(|number| number != 0.0),
    }
}

/// Whether `c ? …` and `??` take the value for false: only null and false (0, "" and undefined do
/// not count).
pub(crate) fn is_null_or_false(val: &Val<'_>) -> bool {
    matches!(val, Val::Null | Val::Bool(false))
}

/// text(v), charged to the budget.
pub(crate) fn text<'v>(val: &'v Val<'_>, budget: &Budget<'_>) -> Result<Cow<'v, str>, Exhausted> {
    if let Val::Array(_) | Val::Object(_) = val {
        spend_size(val, budget)?;
        return Ok(val.text());
    }
    let text = val.text();
    if let Cow::Owned(text) = &text {
        budget.allocate(text.len())?;
    }
    Ok(text)
}

/// Charges for the text of a list or map before it is made: one step per value inside, and the
/// bytes of keys and texts; numbers and brackets count as eight.
fn spend_size(val: &Val<'_>, budget: &Budget<'_>) -> Result<(), Exhausted> {
    let part = |visit: Visit<'_>| {
        budget.spend(1)?;
        let key = visit.key.map_or(0, |key| key.len());
        budget.allocate(8 + key + visit.value.as_str().map_or(0, str::len))
    };
    match val {
        Val::Str(text) => budget.allocate(text.len()),
        Val::Array(List::Json(elements)) => {
            elements.iter().flat_map(Value::walk).try_for_each(part)
        }
        Val::Object(Map::Json(members)) => {
            let mut keys = members.keys();
            keys.try_for_each(|key| budget.allocate(key.len()))?;
            members.values().flat_map(Value::walk).try_for_each(part)
        }
        Val::Array(list) => {
            budget.spend(1 + list.len() as u64)?;
            list.iter().try_for_each(|element| spend_size(&element, budget))
        }
        Val::Object(map) => {
            budget.spend(1 + map.len() as u64)?;
            map.iter().try_for_each(|(key, member)| {
                budget.allocate(key.len())?;
                spend_size(&member, budget)
            })
        }
        _ => budget.allocate(8),
    }
}

/// `==` (Q-07: texts that read as numbers compare as numbers).
pub(crate) fn equal(
    left: &Val<'_>,
    right: &Val<'_>,
    budget: &Budget<'_>,
) -> Result<bool, Exhausted> {
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        #[expect(clippy::float_cmp, reason = "exactly Go's comparison")]
        return Ok(left == right);
    }
    same(left, right, budget)
}

/// Structural equality without any conversion, as `in` has it (Go's `reflect.DeepEqual`). Keeps its
/// own stack, because documents are deep.
pub(crate) fn same(
    left: &Val<'_>,
    right: &Val<'_>,
    budget: &Budget<'_>,
) -> Result<bool, Exhausted> {
    budget.spend(1)?;
    if let Some(answer) = shallow(left, right) {
        return Ok(answer);
    }
    let mut open = vec![(left.clone(), right.clone(), 0)];
    while let Some((left, right, next)) = open.last_mut() {
        let parts = match (&*left, &*right) {
            (Val::Array(left), Val::Array(right)) => left.get(*next).zip(right.get(*next)),
            // Both sorted by key.
            (Val::Object(left), Val::Object(right)) => match (left.at(*next), right.at(*next)) {
                (Some((key, _)), Some((other, _))) if key != other => return Ok(false),
                (Some((_, left)), Some((_, right))) => Some((left, right)),
                _ => None,
            },
            _ => None,
        };
        *next += 1;
        let Some((left, right)) = parts else {
            open.pop();
            continue;
        };
        let bytes = if let Val::Str(text) = &left { text.len() } else { 0 };
        budget.spend(1 + bytes as u64 / 256)?;
        match shallow(&left, &right) {
            Some(true) => {}
            Some(false) => return Ok(false),
            None => open.push((left, right, 0)),
        }
    }
    Ok(true)
}

/// Compares two values without looking at their parts; `None` if the parts decide.
fn shallow(left: &Val<'_>, right: &Val<'_>) -> Option<bool> {
    Some(match (left, right) {
        // Undefined is a not-a-number to Go, so it is not even equal to itself.
        (Val::Undefined, Val::Undefined) => false,
        (Val::Null, Val::Null) => true,
        (Val::Bool(left), Val::Bool(right)) => left == right,
        #[expect(clippy::float_cmp, reason = "exactly Go's comparison")]
        (Val::Number(left), Val::Number(right)) => left == right,
        (Val::Int(left), Val::Int(right)) => left == right,
        (Val::Str(left), Val::Str(right)) => left == right,
        (Val::Time(left), Val::Time(right)) => left == right,
        (Val::Array(left), Val::Array(right)) if left.ptr_eq(right) => true,
        (Val::Object(left), Val::Object(right)) if left.ptr_eq(right) => true,
        (Val::Array(left), Val::Array(right)) if left.len() == right.len() => return None,
        (Val::Object(left), Val::Object(right)) if left.len() == right.len() => return None,
        _ => false,
    })
}

/// `left op right`, once both sides have values; `first` starts the chain.
pub(crate) fn link<'a>(
    first: &Node,
    link: &'a Link,
    left: &Val<'a>,
    right: &Val<'a>,
    budget: &Budget<'_>,
) -> Evaluated<'a> {
    let result = match &link.regex {
        Some(Ok(regex)) => Ok(Val::Bool(search(link.op, left, regex, budget)?)),
        Some(Err(message)) => Err(Why::Pattern(message.clone())),
        None => infix(link.op, left, right, budget)?,
    };
    result.map_err(|why| Fault::failed(why, first.span.to(link.right.span)))
}

/// Every infix operator; the inner error is the language's.
fn infix<'a>(
    op: Binary,
    left: &Val<'a>,
    right: &Val<'a>,
    budget: &Budget<'_>,
) -> Result<Result<Val<'a>, Why<'a>>, Exhausted> {
    let misfit = || Why::Operands(left.go_type(), op, right.go_type());
    Ok(match op {
        Binary::Equal => Ok(Val::Bool(equal(left, right, budget)?)),
        Binary::NotEqual => Ok(Val::Bool(!equal(left, right, budget)?)),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            order(op, left, right, budget)?.map(Val::Bool).ok_or_else(misfit)
        }
        Binary::Plus => plus(left, right, budget)?.ok_or_else(misfit),
        Binary::Minus
        | Binary::Times
        | Binary::Divide
        | Binary::Remainder
        | Binary::Power
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::ShiftLeft
        | Binary::ShiftRight => match (number(left), number(right)) {
            (Some(left), Some(right)) => Ok(Val::Number(arithmetic(op, left, right))),
            _ => Err(misfit()),
        },
        Binary::Matches | Binary::MatchesNot => {
            let pattern = text(right, budget)?;
            // Compiling costs far more than a step: about a microsecond, or 64 steps, a byte.
            budget.spend(64 * (1 + pattern.len() as u64))?;
            match GoRegex::within(&pattern, COMPUTED_REGEX_BYTES, budget) {
                Ok(regex) => Ok(Val::Bool(search(op, left, &regex, budget)?)),
                Err(Uncompiled::Invalid(error)) => Err(Why::Pattern(error.to_string().into())),
                Err(Uncompiled::Exhausted(exhausted)) => return Err(exhausted),
            }
        }
        Binary::In => match right {
            Val::Array(list) => {
                let mut found = false;
                for element in list.iter() {
                    found = same(left, &element, budget)?;
                    if found {
                        break;
                    }
                }
                Ok(Val::Bool(found))
            }
            _ => Err(Why::NotAList(right.go_type())),
        },
        Binary::And | Binary::Or => match (left, right) {
            (Val::Bool(left), Val::Bool(right)) => {
                Ok(Val::Bool(if op == Binary::And { *left && *right } else { *left || *right }))
            }
            (Val::Bool(_), other) | (other, _) => Err(Why::NotABool(other.go_type())),
        },
        Binary::Coalesce => Ok(if is_null_or_false(left) { right.clone() } else { left.clone() }),
    })
}

/// The value an operator has by its left side alone.
pub(crate) fn short_circuit<'a>(op: Binary, left: &Val<'a>) -> Option<Val<'a>> {
    match (op, left) {
        (Binary::And, Val::Bool(false)) => Some(Val::Bool(false)),
        (Binary::Or, Val::Bool(true)) => Some(Val::Bool(true)),
        (Binary::Coalesce, left) if !is_null_or_false(left) => Some(left.clone()),
        _ => None,
    }
}

/// `=~` and `!~`: an unanchored search in the text of `left`.
pub(crate) fn search(
    op: Binary,
    left: &Val<'_>,
    regex: &GoRegex,
    budget: &Budget<'_>,
) -> Result<bool, Exhausted> {
    let text = text(left, budget)?;
    budget.spend(1 + text.len() as u64 / 16)?;
    Ok(regex.matches(&text, budget)? == (op == Binary::Matches))
}

fn order(
    op: Binary,
    left: &Val<'_>,
    right: &Val<'_>,
    budget: &Budget<'_>,
) -> Result<Option<bool>, Exhausted> {
    fn holds<T: PartialOrd + ?Sized>(op: Binary, left: &T, right: &T) -> bool {
        match op {
            Binary::Less => left < right,
            Binary::LessEqual => left <= right,
            Binary::Greater => left > right,
            _ => left >= right,
        }
    }
    if let (Val::Str(left), Val::Str(right)) = (left, right) {
        return Ok(Some(holds(op, left.as_ref(), right.as_ref())));
    }
    if let (Some(left), Some(right)) = (number(left), number(right)) {
        return Ok(Some(holds(op, &left, &right)));
    }
    if let Val::Null = left {
        return Ok(None);
    }
    if let Val::Null = right {
        return Ok(None);
    }
    Ok(Some(holds(op, text(left, budget)?.as_ref(), text(right, budget)?.as_ref())))
}

fn plus<'a>(
    left: &Val<'a>,
    right: &Val<'a>,
    budget: &Budget<'_>,
) -> Result<Option<Val<'a>>, Exhausted> {
    let both_text = matches!((left, right), (Val::Str(_), Val::Str(_)));
    if !both_text {
        if let (Some(left), Some(right)) = (number(left), number(right)) {
            return Ok(Some(Val::Number(left + right)));
        }
        if matches!(left, Val::Null) || matches!(right, Val::Null) {
            return Ok(None);
        }
    }
    let (left, right) = (text(left, budget)?, text(right, budget)?);
    budget.allocate(left.len() + right.len())?;
    Ok(Some(Val::Str(Cow::Owned([left, right].concat()))))
}

fn arithmetic(op: Binary, left: f64, right: f64) -> f64 {
    let (a, b) = (num::to_i64(left), num::to_i64(right));
    #[expect(clippy::cast_precision_loss, reason = "bit operations give a float again, as in Go")]
    let float = |int: i64| int as f64;
    // Go unspecifies negative counts; we give 0 for them (spec 2.5).
    let count = u32::try_from(b).unwrap_or(u32::MAX);
    match op {
        Binary::Minus => left - right,
        Binary::Times => left * right,
        Binary::Divide => left / right,
        Binary::Remainder => left % right,
        Binary::Power => power(left, right),
        Binary::BitAnd => float(a & b),
        Binary::BitOr => float(a | b),
        Binary::BitXor => float(a ^ b),
        Binary::ShiftLeft if b < 0 => 0.0,
        Binary::ShiftLeft => float(a.checked_shl(count).unwrap_or(0)),
        Binary::ShiftRight if b < 0 => 0.0,
        Binary::ShiftRight => float(a >> count.min(63)),
        // No other operator comes here.
        _ => f64::NAN,
    }
}

/// Go's `math.Pow`: C's `pow`, which both languages define alike, special cases included.
fn power(base: f64, exponent: f64) -> f64 {
    base.powf(exponent)
}

/// `-v`, `!v` and `~v`; the inner error is the language's.
pub(crate) fn prefix<'a>(
    op: Unary,
    val: Val<'a>,
    budget: &Budget<'_>,
) -> Result<Result<Val<'a>, Why<'a>>, Exhausted> {
    Ok(match (op, &val) {
        // The message holds the text of the value.
        (Unary::Negate, Val::Array(_) | Val::Object(_)) => {
            spend_size(&val, budget)?;
            Err(Why::NegateOf(val))
        }
        (Unary::Not, Val::Bool(value)) => Ok(Val::Bool(!value)),
        (Unary::Not, _) => Err(Why::NotABool(val.go_type())),
        (Unary::Negate, _) => match number(&val) {
            Some(number) => Ok(Val::Number(-number)),
            None => Err(Why::NegateOf(val)),
        },
        (Unary::Complement, _) => match number(&val) {
            #[expect(clippy::cast_precision_loss, reason = "a float again, as in Go")]
            Some(number) => Ok(Val::Number(!num::to_i64(number) as f64)),
            None => Err(Why::ComplementOf(val.go_type())),
        },
    })
}

/// A call with exactly one argument.
pub(crate) fn call<'a>(function: Function, argument: &Val<'a>) -> Result<Val<'a>, Why<'a>> {
    match function {
        Function::Date => match argument {
            Val::Str(text) => match time::parse(text) {
                Some(time) => Ok(Val::Time(Box::new(time))),
                None => Err(Why::NoDate(text.as_ref().into())),
            },
            _ => Err(Why::Arity(Function::Date)),
        },
        Function::IsDefined => Ok(Val::Bool(!argument.is_undefined())),
        Function::IsUndefined => Ok(Val::Bool(argument.is_undefined())),
        Function::Length | Function::IsEmpty | Function::IsNotEmpty => {
            let length = match argument {
                Val::Null | Val::Undefined => 0,
                Val::Array(list) => list.len(),
                // Bytes, not characters.
                Val::Str(text) => text.len(),
                Val::Object(map) => map.len(),
                Val::Bool(_) | Val::Number(_) | Val::Int(_) | Val::Time(_) => {
                    return Err(Why::NoLength);
                }
            };
            Ok(of_length(function, length))
        }
    }
}

/// The results of `length`, `isEmpty` and `isNotEmpty` for a length.
pub(crate) fn of_length<'a>(function: Function, length: usize) -> Val<'a> {
    match function {
        Function::IsEmpty => Val::Bool(length == 0),
        Function::IsNotEmpty => Val::Bool(length != 0),
        _ => Val::Int(i64::try_from(length).unwrap_or(i64::MAX)),
    }
}

/// The index that a key stands for on a list of `length` elements.
pub(crate) fn index<'a>(key: Val<'a>, length: usize) -> Result<usize, Why<'a>> {
    let Some(number) = number(&key) else {
        return Err(Why::BadKey(Box::new(Why::NotANumber(key))));
    };
    let index = num::to_i64(number);
    usize::try_from(index).ok().filter(|index| *index < length).ok_or(Why::OutOfBounds(index))
}

/// The positions a slice selects, in order. Bounds as written; a missing end is [`i64::MAX`].
pub(crate) fn slice(min: i64, max: i64, step: i64, length: usize) -> Positions {
    // As written, before negative bounds are resolved.
    if min > max {
        return Positions { next: 0, end: 0, step: 1 };
    }
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let resolve = |bound: i64| if bound < 0 { (length + bound).max(0) } else { bound.min(length) };
    let (min, max) = (resolve(min), resolve(max));
    match step {
        0 => Positions { next: min, end: max, step: 1 },
        1.. => Positions { next: min, end: max, step },
        _ => Positions { next: max - 1, end: min - 1, step },
    }
}

/// Positions from `next` up to (or down to) but without `end`.
#[derive(Debug, Clone)]
pub(crate) struct Positions {
    next: i64,
    end: i64,
    step: i64,
}

impl Iterator for Positions {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let position = self.next;
        let more = if self.step > 0 { position < self.end } else { position > self.end };
        if !more {
            return None;
        }
        self.next = position.saturating_add(self.step);
        usize::try_from(position).ok()
    }
}

/// Members of an object literal: sorted, the last of equal keys.
pub(crate) fn members<'a>(mut entries: Vec<(Str, Val<'a>)>) -> Map<'a> {
    entries.reverse();
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    entries.dedup_by(|(later, _), (kept, _)| later == kept);
    Map::Built(Arc::from(entries))
}

/// One step of a variable lookup.
pub(crate) fn variable<'a>(val: Val<'a>, key: &str) -> Option<Val<'a>> {
    match &val {
        Val::Object(map) => Some(map.get(key).unwrap_or(Val::Null)),
        // Anything that is no index within the list leaves it as it is.
        Val::Array(list) => {
            let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
            let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let index = key.parse::<i64>().ok().filter(|_| is_integer);
            let element = index.and_then(|index| list.get(usize::try_from(index).ok()?));
            Some(element.unwrap_or(val))
        }
        _ => None,
    }
}
