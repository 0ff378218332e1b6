//! Strings.

use std::borrow::Cow;

use modgate_value::{Budget, Exhausted, Limits, go::cutset::Cutset, gofmt};
use num_bigint::BigInt;

mod print;
mod raw;

pub(crate) use print::{Format, Printing};
pub(super) use raw::{StandIn, any as is_raw};

use super::{Builtin, BuiltinError, Context, Outcome, host, operand, yes_or_no};
use crate::{
    number::Num,
    value::{Items, Value, Values, View},
};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new(
        "concat",
        "(delimiter: string, collection: any<array[string], set[string]>) => output: string",
        concat,
    ),
    Builtin::new(
        "contains",
        "(haystack: string, needle: string) => result: boolean",
        |context, args| {
            test(
                context,
                args,
                |text, part| text.contains(part),
                |text, part| raw::find(text, part).is_some(),
            )
        },
    ),
    Builtin::new(
        "startswith",
        "(search: string, base: string) => result: boolean",
        |context, args| {
            test(context, args, |text, part| text.starts_with(part), <[u8]>::starts_with)
        },
    ),
    Builtin::new(
        "endswith",
        "(search: string, base: string) => result: boolean",
        |context, args| test(context, args, |text, part| text.ends_with(part), <[u8]>::ends_with),
    ),
    Builtin::new(
        "strings.any_prefix_match",
        "(search: any<string, array[string], set[string]>, base: any<string, array[string], set[string]>) => result: boolean",
        |context, args| any_match(context, args, <[u8]>::starts_with),
    ),
    Builtin::new(
        "strings.any_suffix_match",
        "(search: any<string, array[string], set[string]>, base: any<string, array[string], set[string]>) => result: boolean",
        |context, args| any_match(context, args, <[u8]>::ends_with),
    ),
    Builtin::new("format_int", "(number: number, base: number) => output: string", format_int),
    Builtin::new("indexof", "(haystack: string, needle: string) => output: number", index_of),
    Builtin::new(
        "indexof_n",
        "(haystack: string, needle: string) => output: array[number]",
        index_of_n,
    ),
    Builtin::new(
        "substring",
        "(value: string, offset: number, length: number) => output: string",
        substring,
    ),
    Builtin::new("strings.count", "(search: string, substring: string) => output: number", count),
    Builtin::new("strings.reverse", "(x: string) => y: string", reverse),
    Builtin::new("lower", "(x: string) => y: string", |context, args| {
        map_case(context, args, lower, str::to_ascii_lowercase)
    }),
    Builtin::new("upper", "(x: string) => y: string", |context, args| {
        map_case(context, args, upper, str::to_ascii_uppercase)
    }),
    Builtin::new("split", "(x: string, delimiter: string) => ys: array[string]", split),
    Builtin::new(
        "strings.split_n",
        "(x: string, delimiter: string, n: number) => ys: array[string]",
        split_n,
    ),
    Builtin::new("replace", "(x: string, old: string, new: string) => y: string", replace),
    Builtin::new(
        "strings.replace_n",
        "(patterns: object[string: string], value: string) => output: string",
        replace_n,
    ),
    Builtin::new("trim", "(value: string, cutset: string) => output: string", |context, args| {
        trim(
            context,
            args,
            |text, set| text.trim_matches(in_set(set)),
            |text, set| raw::trim(text, in_set(set), true, true),
        )
    }),
    Builtin::new(
        "trim_left",
        "(value: string, cutset: string) => output: string",
        |context, args| {
            trim(
                context,
                args,
                |text, set| text.trim_start_matches(in_set(set)),
                |text, set| raw::trim(text, in_set(set), true, false),
            )
        },
    ),
    Builtin::new(
        "trim_right",
        "(value: string, cutset: string) => output: string",
        |context, args| {
            trim(
                context,
                args,
                |text, set| text.trim_end_matches(in_set(set)),
                |text, set| raw::trim(text, in_set(set), false, true),
            )
        },
    ),
    Builtin::new(
        "trim_prefix",
        "(value: string, prefix: string) => output: string",
        |context, args| {
            let (text, prefix) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
            cut(context, args, text.strip_prefix(prefix))
        },
    ),
    Builtin::new(
        "trim_suffix",
        "(value: string, suffix: string) => output: string",
        |context, args| {
            let (text, suffix) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
            cut(context, args, text.strip_suffix(suffix))
        },
    ),
    Builtin::new("trim_space", "(value: string) => output: string", trim_space),
    Builtin::new("sprintf", "(format: string, values: array[any]) => output: string", sprintf),
    Builtin::new("internal.template_string", "(array[any]) => string", template_string),
];

/// The most values of a format that are gathered on the stack.
const FEW: usize = 8;

/// Text being put together, charged as it grows.
pub(super) struct Sink<'a> {
    text: String,
    budget: &'a Budget<'a>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(context: &Context<'a>) -> Self {
        Self { text: String::new(), budget: context.heap.budget() }
    }

    pub(super) fn push(&mut self, text: &str) -> Result<(), BuiltinError> {
        let Self { text: out, budget } = self;
        out.reserve_exact(budget.append(out.len(), out.capacity(), text.len())?);
        out.push_str(text);
        Ok(())
    }

    pub(super) fn finish(self, context: &Context<'a>) -> Outcome<'a> {
        Ok(Some(context.heap.charged_string(&self.text)))
    }
}

impl<'a> Context<'a> {
    /// Charges for reading `text` once: sixteen bytes a step.
    pub(super) fn scan(&self, text: impl AsRef<[u8]>) -> Result<(), BuiltinError> {
        self.spend(text.as_ref().len() / 16 + 1)
    }
}

fn concat<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let separator = operand::bytes(args, 0)?;
    let parts = operand::byte_strings(args, 1, &["set", "array"])?;
    context.spend(parts.len())?;
    if parts.len() == 1 {
        return Ok(operand::elements(args, 1, &["set", "array"])?.next());
    }
    let length = parts
        .iter()
        .map(|part| part.len().saturating_add(separator.len()))
        .fold(0, usize::saturating_add);
    context.allocate(length)?;
    context.spend(length / 256)?;
    Ok(Some(context.heap.charged_bytes(&parts.join(separator))?))
}

fn test<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    holds: impl Fn(&str, &str) -> bool,
    holds_raw: impl Fn(&[u8], &[u8]) -> bool,
) -> Outcome<'a> {
    if raw::any(args) {
        let (text, part) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
        context.spend(raw::find_cost(text, part))?;
        return yes_or_no(holds_raw(text, part));
    }
    let (text, part) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(text)?;
    yes_or_no(holds(text, part))
}

/// A string alone or each of a collection.
#[derive(Clone)]
enum OneOrMany<'a> {
    One(Option<&'a [u8]>),
    Many(Items<'a>),
}

impl<'a> OneOrMany<'a> {
    fn of(args: &[Value<'a>], index: usize) -> Result<Self, BuiltinError> {
        let value = operand::any(args, index);
        if let Some(text) = value.as_bytes() {
            return Ok(Self::One(Some(text)));
        }
        let items = operand::elements(args, index, &["string", "set", "array"])?;
        match items.clone().find(|item| item.as_bytes().is_none()) {
            Some(item) => Err(operand::wrong_element(index, value, item, &["string"])),
            None => Ok(Self::Many(items)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::One(text) => usize::from(text.is_some()),
            Self::Many(items) => items.len(),
        }
    }
}

impl<'a> Iterator for OneOrMany<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match self {
            Self::One(text) => text.take(),
            Self::Many(items) => items.next().map(|item| item.as_bytes().unwrap_or_default()),
        }
    }
}

fn any_match<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    holds: impl Fn(&[u8], &[u8]) -> bool,
) -> Outcome<'a> {
    let (texts, parts) = (OneOrMany::of(args, 0)?, OneOrMany::of(args, 1)?);
    for text in texts {
        context.spend(parts.len())?;
        if parts.clone().any(|part| holds(text, part)) {
            return yes_or_no(true);
        }
    }
    yes_or_no(false)
}

fn format_int<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let number = operand::number(args, 0)?;
    let Num::Int(base @ (2 | 8 | 10 | 16)) = operand::number(args, 1)? else {
        return Err(operand::wrong(1, "must be one of {2, 8, 10, 16}"));
    };
    let integer = match number {
        Num::Int(int) => BigInt::from(int),
        // By way of a float, towards zero.
        _ => number.truncate()?,
    };
    context.string(&integer.to_str_radix(u32::try_from(base).unwrap_or(10)))
}

/// Positions are counted in characters.
fn index_of<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, search) = (operand::string(args, 0)?, operand::string(args, 1)?);
    if search.is_empty() {
        return Err(BuiltinError::failed("empty search character"));
    }
    context.scan(text)?;
    let before = text.find(search).and_then(|at| text.get(..at));
    Ok(Some(before.map_or(Value::int(-1), |before| Value::len(before.chars().count()))))
}

/// Every position, also of overlapping matches.
fn index_of_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, search) = (operand::string(args, 0)?, operand::string(args, 1)?);
    if search.is_empty() {
        return Err(BuiltinError::failed("empty search character"));
    }
    let mut found = Vec::new();
    for (position, (at, _)) in text.char_indices().enumerate() {
        context.spend(1)?;
        if text.get(at..).is_some_and(|rest| rest.starts_with(search)) {
            context.spend(search.len() / 16)?;
            context.allocate(size_of::<Value<'_>>())?;
            found.push(Value::len(position));
        }
    }
    context.array(&found)
}

/// From a position in characters, as many characters; a negative length means the rest.
fn substring<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    let (offset, length) = (operand::int(args, 1)?, operand::int(args, 2)?);
    let offset = usize::try_from(offset).map_err(|_| BuiltinError::failed("negative offset"))?;
    context.scan(text)?;
    let position = |text: &str, chars: usize| {
        if text.is_ascii() {
            return chars.min(text.len());
        }
        text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
    };
    if offset == 0 && usize::try_from(length).is_ok_and(|all| position(text, all) == text.len()) {
        return Ok(args.first().copied());
    }
    let rest = text.get(position(text, offset)..).unwrap_or_default();
    let kept = match usize::try_from(length) {
        Ok(length) => rest.get(..position(rest, length)).unwrap_or_default(),
        Err(_) => rest,
    };
    Ok(Some(Value::str(kept)))
}

/// How often a string occurs, one after the other; the empty one around every character.
fn count<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, search) = (operand::string(args, 0)?, operand::string(args, 1)?);
    if raw::any(args) && !search.is_empty() {
        let (text, search) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
        context.spend(raw::find_cost(text, search))?;
        return Ok(Some(Value::len(raw::split(text, search).len() - 1)));
    }
    context.scan(text)?;
    Ok(Some(Value::len(text.matches(search).count())))
}

fn reverse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    context.allocate(text.len())?;
    Ok(Some(context.heap.charged_string(&text.chars().rev().collect::<String>())))
}

/// `ascii` does what `map` does, for text that is ASCII throughout, as most names are.
fn map_case<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    map: impl Fn(char) -> char,
    ascii: impl Fn(&str) -> String,
) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    // A letter's other case may be longer, but never by more than this.
    context.allocate(text.len().saturating_mul(2))?;
    let mapped: String =
        if text.is_ascii() { ascii(text) } else { text.chars().map(map).collect() };
    Ok(Some(context.heap.charged_string(&mapped)))
}

/// Go's `unicode.ToLower`: one character for one.
fn lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        _ => single(c, c.to_lowercase()),
    }
}

/// Go's `unicode.ToUpper`: one character for one.
fn upper(c: char) -> char {
    match c {
        // Those whose full mapping is two letters but that have a single one as well.
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
            char::from_u32(u32::from(c) + 8).unwrap_or(c)
        }
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => char::from_u32(u32::from(c) + 9).unwrap_or(c),
        _ => single(c, c.to_uppercase()),
    }
}

fn single(c: char, mut mapped: impl ExactSizeIterator<Item = char>) -> char {
    if mapped.len() == 1 { mapped.next().unwrap_or(c) } else { c }
}

/// The parts between separators; the characters if the separator is empty.
fn parts<'a>(context: &Context<'a>, args: &[Value<'a>]) -> Result<Values<'a>, BuiltinError> {
    let mut found = Values::new();
    if raw::any(args) {
        let (text, separator) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
        context.spend(raw::find_cost(text, separator))?;
        let parts = match separator {
            [] => raw::characters(text).map(|(part, _)| part).collect(),
            _ => raw::split(text, separator),
        };
        context.spend(parts.len())?;
        for part in parts {
            found.push(context.heap.bytes(part)?);
        }
        return Ok(found);
    }
    let (text, separator) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(text)?;
    // Parts are counted before they are collected.
    let count = match separator.as_bytes() {
        [] => text.len(),
        [one] => text.bytes().filter(|byte| byte == one).count() + 1,
        _ => text.matches(separator).count() + 1,
    };
    context.spend(count)?;
    context.allocate(count.saturating_mul(size_of::<Value<'_>>()))?;
    if separator.is_empty() {
        let next = |(at, c): (usize, char)| text.get(at..at + c.len_utf8()).map(Value::str);
        text.char_indices().filter_map(next).for_each(|part| found.push(part));
        return Ok(found);
    }
    match separator.as_bytes() {
        [one] => text.split(char::from(*one)).for_each(|part| found.push(Value::str(part))),
        _ => text.split(separator).for_each(|part| found.push(Value::str(part))),
    }
    Ok(found)
}

fn split<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let mut parts = parts(context, args)?;
    context.array(parts.as_mut_slice())
}

/// The first parts; with a negative count, the last.
fn split_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (_, _, wanted) =
        (operand::bytes(args, 0)?, operand::bytes(args, 1)?, operand::int(args, 2)?);
    let mut parts = parts(context, args)?;
    let parts = parts.as_mut_slice();
    let amount = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX).min(parts.len());
    let range = if wanted >= 0 { 0..amount } else { parts.len() - amount..parts.len() };
    context.array(parts.get(range).unwrap_or_default())
}

fn replace<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    let (old, new) = (operand::string(args, 1)?, operand::string(args, 2)?);
    // An empty string is between any two bytes, whether or not they are of one character.
    if raw::any(args) || old.is_empty() {
        return replace_raw(context, args);
    }
    context.scan(text)?;
    if !text.contains(old) {
        return Ok(args.first().copied());
    }
    let mut sink = Sink::new(context);
    let mut rest = 0;
    for (at, found) in text.match_indices(old) {
        sink.push(text.get(rest..at).unwrap_or_default())?;
        sink.push(new)?;
        rest = at + found.len();
    }
    sink.push(text.get(rest..).unwrap_or_default())?;
    sink.finish(context)
}

fn replace_raw<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::bytes(args, 0)?;
    let (old, new) = (operand::bytes(args, 1)?, operand::bytes(args, 2)?);
    context.spend(raw::find_cost(text, old))?;
    if old.is_empty() {
        context.spend(text.len())?;
        context.allocate(text.len().saturating_mul(size_of::<&[u8]>()))?;
    }
    let parts: Vec<&[u8]> = match old {
        [] => [&[][..]].into_iter().chain(text.chunks(1)).chain([&[][..]]).collect(),
        _ => raw::split(text, old),
    };
    context.spend(parts.len())?;
    context.allocate(text.len().saturating_add(parts.len().saturating_mul(new.len())))?;
    Ok(Some(context.heap.charged_bytes(&parts.join(new))?))
}

/// Replaces several strings in one pass over the bytes; where more than one fits, the first by key
/// does.
fn replace_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let patterns = operand::object(args, 0)?;
    let text = operand::bytes(args, 1)?;
    let mut pairs = Vec::with_capacity(patterns.len());
    for (old, new) in patterns {
        let (Some(old), Some(new)) = (old.as_bytes(), new.as_bytes()) else {
            let part = if old.as_str().is_none() { "key" } else { "value" };
            let problem = format!("non-string {part} found in pattern object");
            return Err(operand::wrong(0, &problem));
        };
        pairs.push((old, new));
    }
    let mut out: Vec<u8> = Vec::new();
    let mut push = |part: &[u8]| -> Result<(), BuiltinError> {
        let room = context.heap.budget().append(out.len(), out.capacity(), part.len())?;
        out.reserve_exact(room);
        out.extend_from_slice(part);
        Ok(())
    };
    let (mut kept, mut at) = (0, 0);
    let mut after_empty = false;
    while let Some(rest) = text.get(at..) {
        // Charged as it goes, so that time is looked at.
        context.spend(pairs.len() + 1)?;
        // The empty string matches once between two bytes.
        let fits =
            |(old, _): &&(&[u8], &[u8])| rest.starts_with(old) && !(after_empty && old.is_empty());
        match pairs.iter().find(fits) {
            Some((old, new)) => {
                push(text.get(kept..at).unwrap_or_default())?;
                push(new)?;
                at += old.len();
                kept = at;
                after_empty = old.is_empty();
            }
            None => {
                at += 1;
                after_empty = false;
            }
        }
    }
    push(text.get(kept..).unwrap_or_default())?;
    Ok(Some(context.heap.charged_bytes(&out)?))
}

fn in_set(set: &Cutset) -> impl Fn(char) -> bool {
    move |character| set.contains(character)
}

fn trim<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    cut: impl Fn(&'a str, &Cutset) -> &'a str,
    cut_raw: impl Fn(&'a [u8], &Cutset) -> &'a [u8],
) -> Outcome<'a> {
    let (text, what) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(text)?;
    let set = Cutset::new(what, context.heap.budget())?;
    if operand::any(args, 0).as_utf8().is_none() {
        return context.bytes(cut_raw(operand::bytes(args, 0)?, &set));
    }
    Ok(Some(Value::str(cut(text, &set))))
}

/// The first operand, or what is left of it after something was cut off.
fn cut<'a>(context: &mut Context<'a>, args: &[Value<'a>], left: Option<&'a [u8]>) -> Outcome<'a> {
    let Some(left) = left else { return Ok(args.first().copied()) };
    context.scan(left)?;
    match std::str::from_utf8(left) {
        Ok(text) => Ok(Some(Value::str(text))),
        Err(_) => context.bytes(left),
    }
}

fn trim_space<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    if operand::any(args, 0).as_utf8().is_none() {
        return context.bytes(raw::trim(operand::bytes(args, 0)?, char::is_whitespace, true, true));
    }
    Ok(Some(Value::str(text.trim())))
}

fn sprintf<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let format = operand::string(args, 0)?;
    let values = operand::array(args, 1)?;
    let budget = context.heap.budget();
    context.scan(format)?;
    let is_utf8 = operand::any(args, 0).as_utf8().is_some();
    if is_utf8
        && let Some(text) = sprintf_texts(context, format, values.iter().map(Value::as_utf8))?
    {
        return Ok(Some(text));
    }
    if raw::any(args) || values.iter().any(|value| raw::any(&[value])) {
        return sprintf_raw(context, args);
    }
    let mut printed = Vec::with_capacity(values.len());
    for value in values {
        printed.push(match value.view() {
            View::String(text) => gofmt::Arg::String(Cow::Borrowed(text)),
            View::Number(number) => numeric(number),
            _ => gofmt::Arg::String(Cow::Owned(value.to_text(budget)?)),
        });
    }
    let texts = printed.iter().map(|arg| match arg {
        gofmt::Arg::String(text) => Some(&**text),
        _ => None,
    });
    if let Some(text) = sprintf_texts(context, format, texts)? {
        return Ok(Some(text));
    }
    let text = formatted(context, format, &printed)?;
    Ok(Some(context.heap.charged_string(&text)))
}

/// The same where the format has nothing but a bare `%v` or `%s` for each of a few values, and all of these are
/// text, which is most of what policies print. `None` otherwise, and where too little is left to pay for it.
fn sprintf_texts<'a, 't>(
    context: &Context<'a>,
    format: &'t str,
    values: impl ExactSizeIterator<Item = Option<&'t str>>,
) -> Result<Option<Value<'a>>, BuiltinError> {
    let count = values.len();
    let mut parts = [""; 2 * FEW + 1];
    let (mut left, mut length) = (format, format.len());
    let mut room = parts.iter_mut();
    for value in values {
        let (Some(text), Some(at)) = (value, left.find('%')) else { return Ok(None) };
        let (Some(plain), Some(printed)) = (room.next(), room.next()) else { return Ok(None) };
        let (before, directive) = left.split_at(at);
        let Some(rest) = directive.strip_prefix("%v").or_else(|| directive.strip_prefix("%s"))
        else {
            return Ok(None);
        };
        (*plain, *printed, left) = (before, text, rest);
        length = length.saturating_add(text.len());
    }
    let Some(end) = room.next().filter(|_| !left.contains('%')) else { return Ok(None) };
    *end = left;
    length = length.saturating_sub(2 * count);
    let budget = context.heap.budget();
    let bytes = u64::try_from(length).unwrap_or(u64::MAX);
    if budget.steps_left() < count as u64 || budget.bytes_left() / 2 < bytes {
        return Ok(None);
    }
    context.spend(count)?;
    budget.allocate_again(bytes, bytes)?;
    Ok(context.heap.charged_parts(length, &parts))
}

/// The text, within half of the bytes that are left: it grows by doubling, and is copied in the end.
fn formatted(
    context: &Context<'_>,
    format: &str,
    printed: &[gofmt::Arg<'_>],
) -> Result<String, BuiltinError> {
    let budget = context.heap.budget();
    let half = Limits { bytes: budget.bytes_left() / 2, ..Limits::UNLIMITED };
    let before = budget.bytes_spent();
    let text = gofmt::sprintf(format, printed, &budget.child(half));
    match text {
        Ok(text) => {
            // The other half was taken for a time.
            budget.allocate_again(0, budget.bytes_spent() - before)?;
            Ok(text)
        }
        Err(Exhausted::Bytes { .. }) => {
            // The error names what the evaluation as a whole may build.
            context.allocate(usize::MAX)?;
            Ok(String::new())
        }
        Err(other) => Err(other.into()),
    }
}

/// As [`sprintf`], for strings that are not UTF-8: while it is formatted each wrong byte is a
/// character that occurs nowhere in the operands.
fn sprintf_raw<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let budget = context.heap.budget();
    let mut stand_in = StandIn::default();
    let mut values = Vec::new();
    for value in operand::array(args, 1)? {
        values.push(match value.view() {
            View::Number(number) => Err(number),
            View::String(_) => Ok(value.as_bytes().unwrap_or_default().to_vec()),
            _ => Ok(value.to_text(budget)?.into_bytes()),
        });
    }
    let format = operand::bytes(args, 0)?;
    stand_in.avoid(format);
    values.iter().flatten().for_each(|text| stand_in.avoid(text));
    let mut printed = Vec::with_capacity(values.len());
    for value in &values {
        printed.push(match value {
            Err(number) => numeric(*number),
            Ok(text) => {
                context.allocate(text.len().saturating_mul(4))?;
                gofmt::Arg::String(Cow::Owned(stand_in.characters(text)))
            }
        });
    }
    let text = formatted(context, &stand_in.characters(format), &printed)?;
    context.spend(text.len())?;
    let text = stand_in.unescaped(text);
    Ok(Some(context.heap.charged_bytes(&stand_in.bytes(&text))?))
}

/// The Go type OPA prints a number as: by how it is written, not by what it is worth.
fn numeric(number: Num<'_>) -> gofmt::Arg<'_> {
    if let Some(int) = number.as_int() {
        return gofmt::Arg::Int(int, "int");
    }
    let text = number.text();
    let float = number.as_f64();
    if !text.contains(['.', 'e', 'E']) {
        gofmt::Arg::BigInt(text)
    } else if float.is_finite() {
        gofmt::Arg::Float(float)
    } else {
        gofmt::Arg::String(text)
    }
}

/// The value of `$"..."`: the parts, each a set of at most one value, one after the other.
fn template_string<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let rows = host::choices(context, args)?;
    let [row] = rows.as_slice() else {
        let message = "template-strings must not produce multiple outputs";
        return Err(BuiltinError::Conflict(message.to_owned()));
    };
    let mut text = String::new();
    for part in row {
        match part {
            Some(value) => host::append_printed(context, *value, &mut text)?,
            None => text.push_str("<undefined>"),
        }
    }
    Ok(Some(context.heap.charged_string(&text)))
}
