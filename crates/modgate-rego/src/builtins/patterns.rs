//! Regular expressions and globs.
//!
//! A compiled pattern is kept for the next evaluation of the same thread: policies match few
//! patterns against many objects, and a cache of its own keeps a thread from waiting for others.

mod glob;
mod intersect;

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use modgate_value::{
    gofmt,
    regex::{GoRegex, quote_meta},
};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::{Value, View};

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("regex.match", "(pattern: string, value: string) => result: boolean", matches),
    Builtin::new("re_match", "(string, string) => boolean", matches).deprecated(),
    Builtin::new("regex.is_valid", "(pattern: string) => result: boolean", is_valid),
    Builtin::new("regex.split", "(pattern: string, value: string) => output: array[string]", split),
    Builtin::new(
        "regex.replace",
        "(s: string, pattern: string, value: string) => output: string",
        replace,
    ),
    Builtin::new(
        "regex.find_n",
        "(pattern: string, value: string, number: number) => output: array[string]",
        find_n,
    ),
    Builtin::new(
        "regex.find_all_string_submatch_n",
        "(pattern: string, value: string, number: number) => output: array[array[string]]",
        find_all_string_submatch_n,
    ),
    Builtin::new(
        "regex.template_match",
        "(template: string, value: string, delimiter_start: string, delimiter_end: string) => result: boolean",
        template_match,
    ),
    Builtin::new(
        "regex.globs_match",
        "(glob1: string, glob2: string) => result: boolean",
        globs_match,
    ),
    Builtin::new(
        "glob.match",
        "(pattern: string, delimiters: any<null, array[string]>, match: string) => result: boolean",
        glob_match,
    ),
    Builtin::new("glob.quote_meta", "(pattern: string) => output: string", glob_quote_meta),
];

/// How many patterns a thread keeps. Beyond, all are forgotten: whoever makes patterns up does not
/// come back for them.
const CACHE_SIZE: usize = 512;

/// Patterns longer than this are not kept.
const CACHED_LENGTH: usize = 4096;

thread_local! {
    static CACHE: RefCell<HashMap<Box<str>, Rc<GoRegex>>> = RefCell::default();
}

impl Context<'_> {
    /// The compiled form of what `key` stands for, which `source` translates when it is new.
    fn compiled(
        &self,
        key: &str,
        source: impl FnOnce() -> Result<String, BuiltinError>,
    ) -> Result<Rc<GoRegex>, BuiltinError> {
        if let Some(known) = CACHE.with_borrow(|cache| cache.get(key).cloned()) {
            return Ok(known);
        }
        let source = source()?;
        self.spend(source.len().saturating_mul(COMPILE_STEPS))?;
        let regex =
            GoRegex::new(&source).map_err(|error| BuiltinError::Failed(error.to_string()))?;
        let regex = Rc::new(regex);
        if key.len() <= CACHED_LENGTH {
            CACHE.with_borrow_mut(|cache| {
                if cache.len() >= CACHE_SIZE {
                    cache.clear();
                }
                cache.insert(key.into(), Rc::clone(&regex));
            });
        }
        Ok(regex)
    }

    fn regex(&self, pattern: &str) -> Result<Rc<GoRegex>, BuiltinError> {
        self.compiled(pattern, || Ok(pattern.to_owned()))
    }

    /// Charges for matching: time is linear in the text, and at worst in the pattern as well.
    fn charge_match(&self, regex: &GoRegex, text: &str) -> Result<(), BuiltinError> {
        let factor = regex.as_str().len() / 64 + 1;
        self.spend((text.len() / 8 + 1).saturating_mul(factor))
    }
}

/// Steps that compiling costs per byte of pattern.
const COMPILE_STEPS: usize = 32;

fn matches<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    yes_or_no(regex.is_match(text))
}

fn is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(pattern) = operand::any(args, 0).as_str() else { return yes_or_no(false) };
    match context.regex(pattern) {
        Err(BuiltinError::Limit(limit)) => Err(limit.into()),
        other => yes_or_no(other.is_ok()),
    }
}

fn split<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let parts: Vec<_> = regex.split(text, None).into_iter().map(Value::str).collect();
    context.spend(parts.len())?;
    context.array(&parts)
}

fn replace<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    let (pattern, template) = (operand::string(args, 1)?, operand::string(args, 2)?);
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let replaced = regex.replace_all_within(text, template, context.heap.budget())?;
    if replaced == text {
        return Ok(args.first().copied());
    }
    Ok(Some(context.heap.charged_string(&replaced)))
}

/// How many matches to take: all if negative.
fn limit(args: &[Value<'_>]) -> Result<usize, BuiltinError> {
    Ok(usize::try_from(operand::int(args, 2)?).unwrap_or(usize::MAX))
}

fn find_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let limit = limit(args)?;
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let found: Vec<_> = regex
        .find_iter(text)
        .take(limit)
        .map(|range| Value::str(text.get(range).unwrap_or_default()))
        .collect();
    context.spend(found.len())?;
    context.array(&found)
}

fn find_all_string_submatch_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let limit = limit(args)?;
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let mut found = Vec::new();
    for captures in regex.captures_iter(text).take(limit) {
        context.spend(captures.groups().len())?;
        // A group that took no part in the match is empty.
        let group = |range: &Option<std::ops::Range<usize>>| {
            Value::str(range.clone().and_then(|range| text.get(range)).unwrap_or_default())
        };
        let groups: Vec<_> = captures.groups().iter().map(group).collect();
        found.push(context.heap.array(&groups)?);
    }
    context.array(&found)
}

/// Text with regular expressions between delimiters, such as `urn:foo:{.*}`.
fn template_match<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (template, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let (start, end) = (operand::string(args, 2)?, operand::string(args, 3)?);
    for (name, delimiter) in [("start", start), ("end", end)] {
        if delimiter.len() != 1 {
            return Err(BuiltinError::failed(format!(
                // OPA counts the start delimiter in both messages.
                "{name} delimiter has to be exactly one character long but is {} long",
                start.len()
            )));
        }
    }
    let key = format!("template\0{template}\0{start}{end}");
    let regex = context.compiled(&key, || template_source(template, start, end))?;
    context.charge_match(&regex, text)?;
    yes_or_no(regex.is_match(text))
}

fn template_source(template: &str, start: &str, end: &str) -> Result<String, BuiltinError> {
    let unbalanced =
        || BuiltinError::failed(format!("unbalanced braces in {}", gofmt::quote(template)));
    let mut pattern = "^".to_owned();
    let mut depth = 0u32;
    let mut piece = 0;
    for (at, found) in template.match_indices(|c: char| start.contains(c) || end.contains(c)) {
        if found == start {
            depth += 1;
            if depth == 1 {
                pattern.push_str(&quote_meta(template.get(piece..at).unwrap_or_default()));
                piece = at + found.len();
            }
        } else {
            depth = depth.checked_sub(1).ok_or_else(unbalanced)?;
            if depth == 0 {
                let inner = template.get(piece..at).unwrap_or_default();
                GoRegex::new(&format!("^{inner}$"))
                    .map_err(|error| BuiltinError::Failed(error.to_string()))?;
                pattern.push('(');
                pattern.push_str(inner);
                pattern.push(')');
                piece = at + found.len();
            }
        }
    }
    if depth > 0 {
        return Err(unbalanced());
    }
    pattern.push_str(&quote_meta(template.get(piece..).unwrap_or_default()));
    pattern.push('$');
    Ok(pattern)
}

/// Whether any text matches both of two patterns.
fn globs_match<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let a = intersect::Pattern::parse(a).map_err(BuiltinError::Failed)?;
    let b = intersect::Pattern::parse(b).map_err(BuiltinError::Failed)?;
    context.spend(a.cost().saturating_mul(b.cost()))?;
    context.allocate(a.cost().saturating_mul(b.cost()))?;
    yes_or_no(a.meets(&b))
}

fn glob_match<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let pattern = operand::string(args, 0)?;
    let delimiters = delimiters(args)?;
    let text = operand::string(args, 2)?;
    let key = format!("glob\0{pattern}\0{delimiters}");
    let regex = context
        .compiled(&key, || glob::translate(pattern, &delimiters).map_err(BuiltinError::Failed))?;
    context.charge_match(&regex, text)?;
    yes_or_no(regex.is_match(text))
}

/// `null` is none, and an empty array is a dot.
fn delimiters(args: &[Value<'_>]) -> Result<String, BuiltinError> {
    let value = operand::any(args, 1);
    let array = match value.view() {
        View::Null => return Ok(String::new()),
        View::Array(array) if array.is_empty() => return Ok(".".to_owned()),
        View::Array(array) => array,
        _ => return Err(operand::wrong_type(1, value, &["array", "null"])),
    };
    let mut delimiters = String::new();
    for item in array {
        let text =
            item.as_str().ok_or_else(|| operand::wrong_element(1, value, item, &["string"]))?;
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(one), None) => delimiters.push(one),
            _ => return Err(operand::wrong_element(1, value, item, &["rune"])),
        }
    }
    Ok(delimiters)
}

fn glob_quote_meta<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let pattern = operand::string(args, 0)?;
    context.scan(pattern)?;
    context.allocate(pattern.len().saturating_mul(2))?;
    let mut quoted = String::with_capacity(pattern.len());
    for c in pattern.chars() {
        if matches!(c, '*' | '?' | '\\' | '[' | ']' | '{' | '}') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Ok(Some(context.heap.charged_string(&quoted)))
}
