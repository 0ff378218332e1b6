//! Strings.

use std::borrow::Cow;

use modgate_value::{Budget, gofmt};
use num_bigint::BigInt;

use super::{Builtin, BuiltinError, Context, Outcome, host, operand, yes_or_no};
use crate::{
    number::Num,
    value::{Value, View},
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
        |context, args| test(context, args, |text, part| text.contains(part)),
    ),
    Builtin::new(
        "startswith",
        "(search: string, base: string) => result: boolean",
        |context, args| test(context, args, |text, part| text.starts_with(part)),
    ),
    Builtin::new(
        "endswith",
        "(search: string, base: string) => result: boolean",
        |context, args| test(context, args, |text, part| text.ends_with(part)),
    ),
    Builtin::new(
        "strings.any_prefix_match",
        "(search: any<string, array[string], set[string]>, base: any<string, array[string], set[string]>) => result: boolean",
        |context, args| any_match(context, args, |text, part| text.starts_with(part)),
    ),
    Builtin::new(
        "strings.any_suffix_match",
        "(search: any<string, array[string], set[string]>, base: any<string, array[string], set[string]>) => result: boolean",
        |context, args| any_match(context, args, |text, part| text.ends_with(part)),
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
        trim(context, args, |text, set| text.trim_matches(in_set(set)))
    }),
    Builtin::new(
        "trim_left",
        "(value: string, cutset: string) => output: string",
        |context, args| trim(context, args, |text, set| text.trim_start_matches(in_set(set))),
    ),
    Builtin::new(
        "trim_right",
        "(value: string, cutset: string) => output: string",
        |context, args| trim(context, args, |text, set| text.trim_end_matches(in_set(set))),
    ),
    Builtin::new(
        "trim_prefix",
        "(value: string, prefix: string) => output: string",
        |context, args| {
            trim(context, args, |text, prefix| text.strip_prefix(prefix).unwrap_or(text))
        },
    ),
    Builtin::new(
        "trim_suffix",
        "(value: string, suffix: string) => output: string",
        |context, args| {
            trim(context, args, |text, suffix| text.strip_suffix(suffix).unwrap_or(text))
        },
    ),
    Builtin::new("trim_space", "(value: string) => output: string", trim_space),
    Builtin::new("sprintf", "(format: string, values: array[any]) => output: string", sprintf),
    Builtin::new("internal.template_string", "(array[any]) => string", template_string),
];

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
        self.budget.allocate(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    pub(super) fn finish(self, context: &Context<'a>) -> Outcome<'a> {
        Ok(Some(context.heap.charged_string(&self.text)))
    }
}

impl<'a> Context<'a> {
    /// Charges for reading `text` once: sixteen bytes a step.
    pub(super) fn scan(&self, text: &str) -> Result<(), BuiltinError> {
        self.spend(text.len() / 16 + 1)
    }
}

fn concat<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let separator = operand::string(args, 0)?;
    let parts = operand::strings(args, 1, &["set", "array"])?;
    context.spend(parts.len())?;
    if let [only] = parts.as_slice() {
        return Ok(Some(Value::str(only)));
    }
    let length = parts
        .iter()
        .map(|part| part.len().saturating_add(separator.len()))
        .fold(0, usize::saturating_add);
    context.allocate(length)?;
    context.spend(length / 256)?;
    Ok(Some(context.heap.charged_string(&parts.join(separator))))
}

fn test<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    holds: impl Fn(&str, &str) -> bool,
) -> Outcome<'a> {
    let (text, part) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(text)?;
    yes_or_no(holds(text, part))
}

/// A string alone or each of a collection.
fn one_or_many<'a>(args: &[Value<'a>], index: usize) -> Result<Vec<&'a str>, BuiltinError> {
    match operand::any(args, index).as_str() {
        Some(text) => Ok(vec![text]),
        None => operand::strings(args, index, &["string", "set", "array"]),
    }
}

fn any_match<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    holds: impl Fn(&str, &str) -> bool,
) -> Outcome<'a> {
    let (texts, parts) = (one_or_many(args, 0)?, one_or_many(args, 1)?);
    for text in texts {
        context.spend(parts.len())?;
        if parts.iter().any(|part| holds(text, part)) {
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
        // Exact when written as an integer, otherwise by way of a float, towards zero.
        _ => match number.text().parse::<BigInt>() {
            Ok(integer) if number.text().len() <= crate::number::MAX_DIGITS => integer,
            _ => number.truncate()?,
        },
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
    context.spend(text.len())?;
    let found: Vec<_> = text
        .char_indices()
        .enumerate()
        .filter(|(_, (at, _))| text.get(*at..).is_some_and(|rest| rest.starts_with(search)))
        .map(|(position, _)| Value::len(position))
        .collect();
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
fn parts<'t>(text: &'t str, separator: &str) -> Vec<&'t str> {
    if separator.is_empty() {
        let next = |(at, c): (usize, char)| text.get(at..at + c.len_utf8());
        return text.char_indices().filter_map(next).collect();
    }
    text.split(separator).collect()
}

fn split<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(text)?;
    let parts: Vec<_> = parts(text, separator).into_iter().map(Value::str).collect();
    context.spend(parts.len())?;
    context.array(&parts)
}

/// The first parts; with a negative count, the last.
fn split_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let wanted = operand::int(args, 2)?;
    context.scan(text)?;
    let parts: Vec<_> = parts(text, separator).into_iter().map(Value::str).collect();
    context.spend(parts.len())?;
    let amount = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX).min(parts.len());
    let range = if wanted >= 0 { 0..amount } else { parts.len() - amount..parts.len() };
    context.array(parts.get(range).unwrap_or_default())
}

fn replace<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    let (old, new) = (operand::string(args, 1)?, operand::string(args, 2)?);
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

/// Replaces several strings in one pass; where more than one fits, the first by key does.
fn replace_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let patterns = operand::object(args, 0)?;
    let text = operand::string(args, 1)?;
    let mut pairs = Vec::with_capacity(patterns.len());
    for (old, new) in patterns {
        let (Some(old), Some(new)) = (old.as_str(), new.as_str()) else {
            let part = if old.as_str().is_none() { "key" } else { "value" };
            let problem = format!("non-string {part} found in pattern object");
            return Err(operand::wrong(0, &problem));
        };
        pairs.push((old, new));
    }
    let mut sink = Sink::new(context);
    let (mut kept, mut at) = (0, 0);
    let mut after_empty = false;
    while let Some(rest) = text.get(at..) {
        // Charged as it goes, so that time is looked at.
        context.spend(pairs.len() + 1)?;
        // The empty string matches once between two characters.
        let fits =
            |(old, _): &&(&str, &str)| rest.starts_with(old) && !(after_empty && old.is_empty());
        match pairs.iter().find(fits) {
            Some((old, new)) => {
                sink.push(text.get(kept..at).unwrap_or_default())?;
                sink.push(new)?;
                at += old.len();
                kept = at;
                after_empty = old.is_empty();
            }
            None => {
                let Some(next) = rest.chars().next() else { break };
                at += next.len_utf8();
                after_empty = false;
            }
        }
    }
    sink.push(text.get(kept..).unwrap_or_default())?;
    sink.finish(context)
}

fn in_set(set: &str) -> impl Fn(char) -> bool + '_ {
    move |c| set.contains(c)
}

fn trim<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    cut: impl Fn(&'a str, &'a str) -> &'a str,
) -> Outcome<'a> {
    let (text, what) = (operand::string(args, 0)?, operand::string(args, 1)?);
    context.scan(text)?;
    Ok(Some(Value::str(cut(text, what))))
}

fn trim_space<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.scan(text)?;
    Ok(Some(Value::str(text.trim())))
}

fn sprintf<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let format = operand::string(args, 0)?;
    let values = operand::array(args, 1)?;
    let budget = context.heap.budget();
    context.scan(format)?;
    let mut printed = Vec::with_capacity(values.len());
    for value in values {
        printed.push(match value.view() {
            View::String(text) => gofmt::Arg::String(Cow::Borrowed(text)),
            View::Number(number) => numeric(number),
            _ => gofmt::Arg::String(Cow::Owned(value.to_text(budget)?)),
        });
    }
    let text = gofmt::sprintf(format, &printed, budget)?;
    Ok(Some(context.heap.charged_string(&text)))
}

/// The Go type OPA prints a number as: by how it is written, not by what it is worth.
fn numeric(number: Num<'_>) -> gofmt::Arg<'_> {
    if let Some(int) = number.as_int() {
        return gofmt::Arg::Int(int, "int64");
    }
    let text = number.text();
    let float = number.as_f64();
    if text.contains('.') && float.is_finite() {
        gofmt::Arg::Float(float)
    } else if text.contains(['.', 'e', 'E']) {
        gofmt::Arg::String(text)
    } else {
        gofmt::Arg::BigInt(text)
    }
}

/// What `$"..."` means: the parts, each a set of at most one value, one after the other.
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
