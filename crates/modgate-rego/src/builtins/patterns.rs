//! Regular expressions and globs.
//!
//! A compiled pattern is kept for the next evaluation of the same thread: policies match few
//! patterns against many objects, and a cache of its own keeps a thread from waiting for others.

mod glob;
mod intersect;

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use modgate_value::{
    gofmt,
    regex::{DEFAULT_SIZE_LIMIT, GoRegex, Uncompiled, quote_meta},
};

use super::{
    Builtin, BuiltinError, Context, Outcome, operand,
    strings::{StandIn, is_raw},
    yes_or_no,
};
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

/// How many bytes of compiled patterns a thread keeps. Beyond, all are forgotten: a policy that
/// makes patterns up does not use them again.
const CACHE_BYTES: usize = 16 << 20;

/// Patterns longer than this are not kept.
const CACHED_LENGTH: usize = 4096;

/// Bounds of the compiled size that are tried in turn: how large a pattern really is decides what
/// it costs, which only compiling it shows.
const SIZES: [usize; 4] = [16 << 10, 128 << 10, 1 << 20, DEFAULT_SIZE_LIMIT];

#[derive(Default)]
struct Cache {
    patterns: HashMap<Box<str>, Rc<GoRegex>>,
    bytes: usize,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

impl Context<'_> {
    /// The compiled form of what `key` stands for, which `source` translates when it is new.
    fn compiled(
        &self,
        key: &str,
        source: impl FnOnce() -> Result<String, BuiltinError>,
    ) -> Result<Rc<GoRegex>, BuiltinError> {
        if let Some(known) = CACHE.with_borrow(|cache| cache.patterns.get(key).cloned()) {
            return Ok(known);
        }
        let source = source()?;
        let (regex, bytes) = self.compile(&source)?;
        let regex = Rc::new(regex);
        if key.len() <= CACHED_LENGTH {
            CACHE.with_borrow_mut(|cache| {
                if cache.bytes.saturating_add(bytes) > CACHE_BYTES {
                    *cache = Cache::default();
                }
                cache.bytes += bytes;
                cache.patterns.insert(key.into(), Rc::clone(&regex));
            });
        }
        Ok(regex)
    }

    /// Compiles a pattern; with it comes how many bytes it takes, roughly.
    fn compile(&self, source: &str) -> Result<(GoRegex, usize), BuiltinError> {
        self.spend(source.len().saturating_mul(COMPILE_STEPS))?;
        // Parsing takes some hundred bytes for each byte of the pattern.
        self.allocate(source.len().saturating_mul(PARSE_BYTES))?;
        let mut error = None;
        for size in SIZES {
            self.allocate(size)?;
            self.spend(size / 64)?;
            match GoRegex::within(source, size, self.heap.budget()) {
                Ok(regex) => return Ok((regex, size)),
                // Only the size can be mended by more room.
                Err(Uncompiled::Invalid(found)) if !found.is_too_large() => {
                    return Err(BuiltinError::Failed(found.to_string()));
                }
                Err(Uncompiled::Invalid(found)) => error = Some(found),
                Err(Uncompiled::Exhausted(exhausted)) => return Err(exhausted.into()),
            }
        }
        Err(BuiltinError::Failed(error.map_or_else(String::new, |error| error.to_string())))
    }

    fn regex(&self, pattern: &str) -> Result<Rc<GoRegex>, BuiltinError> {
        self.compiled(pattern, || Ok(pattern.to_owned()))
    }

    /// Charges for matching: time is linear in the text, and at worst in the pattern as well.
    fn charge_match(&self, regex: &GoRegex, text: &str) -> Result<(), BuiltinError> {
        let factor = regex.as_str().len() / 64 + 1;
        self.spend((text.len() / 8 + 1).saturating_mul(factor))
    }

    /// Charges for looking for one more match in `text`: each may look at all that is left of it,
    /// so that many matches take a time that is quadratic in the text.
    fn charge_next_match(&self, text: &str, at: usize) -> Result<(), BuiltinError> {
        self.spend((text.len().saturating_sub(at)) / 512 + 1)?;
        self.allocate(size_of::<Value<'_>>())?;
        Ok(self.heap.budget().check_time()?)
    }
}

/// Steps that compiling costs per byte of pattern.
const COMPILE_STEPS: usize = 32;

/// Bytes that parsing takes per byte of pattern.
const PARSE_BYTES: usize = 256;

fn matches<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    yes_or_no(regex.matches(text, context.heap.budget())?)
}

fn is_valid<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let Some(pattern) = operand::any(args, 0).as_str() else { return yes_or_no(false) };
    match context.regex(pattern) {
        Err(BuiltinError::Limit(limit)) => Err(limit.into()),
        other => yes_or_no(other.is_ok()),
    }
}

/// Calls a function with subjects that are not UTF-8: each wrong byte is a character while it
/// matches, and a byte again in the result.
fn with_bytes<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
    call: fn(&mut Context<'a>, &[Value<'a>]) -> Outcome<'a>,
) -> Outcome<'a> {
    let mut stand_in = StandIn::default();
    args.iter().filter_map(|arg| arg.as_bytes()).for_each(|bytes| stand_in.avoid(bytes));
    let mut texts = Vec::with_capacity(args.len());
    for arg in args {
        texts.push(match arg.as_bytes() {
            Some(bytes) => context.heap.string(&stand_in.characters(bytes))?,
            None => *arg,
        });
    }
    let found = call(context, &texts)?;
    found.map(|value| bytes_again(context, value, &stand_in)).transpose()
}

fn bytes_again<'a>(
    context: &Context<'a>,
    value: Value<'a>,
    stand_in: &StandIn,
) -> Result<Value<'a>, BuiltinError> {
    match value.view() {
        View::String(text) => Ok(context.heap.bytes(&stand_in.bytes(text))?),
        View::Array(items) => {
            let items: Vec<_> = items
                .iter()
                .map(|item| bytes_again(context, item, stand_in))
                .collect::<Result<_, _>>()?;
            Ok(context.heap.array(&items)?)
        }
        _ => Ok(value),
    }
}

fn split<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    if is_raw(args) {
        return with_bytes(context, args, split);
    }
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let parts = regex.split(text, None, context.heap.budget())?;
    let parts: Vec<_> = parts.into_iter().map(Value::str).collect();
    context.array(&parts)
}

fn replace<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    if is_raw(args) {
        return with_bytes(context, args, replace);
    }
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
    if is_raw(args) {
        return with_bytes(context, args, find_n);
    }
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let limit = limit(args)?;
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let mut found = Vec::new();
    for range in regex.find_iter(text, context.heap.budget()).take(limit) {
        let range = range?;
        context.charge_next_match(text, range.start)?;
        found.push(Value::str(text.get(range).unwrap_or_default()));
    }
    context.array(&found)
}

fn find_all_string_submatch_n<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    if is_raw(args) {
        return with_bytes(context, args, find_all_string_submatch_n);
    }
    let (pattern, text) = (operand::string(args, 0)?, operand::string(args, 1)?);
    let limit = limit(args)?;
    let regex = context.regex(pattern)?;
    context.charge_match(&regex, text)?;
    let mut found = Vec::new();
    for captures in regex.captures_iter(text, context.heap.budget()).take(limit) {
        let captures = captures?;
        context.spend(captures.groups().len())?;
        context.charge_next_match(text, captures.get(0).map_or(0, |whole| whole.start))?;
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
    let regex = context.compiled(&key, || template_source(context, template, start, end))?;
    context.charge_match(&regex, text)?;
    yes_or_no(regex.matches(text, context.heap.budget())?)
}

fn template_source(
    context: &Context<'_>,
    template: &str,
    start: &str,
    end: &str,
) -> Result<String, BuiltinError> {
    let unbalanced =
        || BuiltinError::failed(format!("unbalanced braces in {}", gofmt::quote(template)));
    let mut pattern = "^".to_owned();
    let (mut depth, mut open) = (0_u32, 0);
    let mut piece = 0;
    for (at, found) in template.match_indices(|c: char| start.contains(c) || end.contains(c)) {
        // Where both delimiters are the same, each one opens.
        if found == start {
            depth += 1;
            if depth == 1 {
                open = at;
            }
        } else {
            depth = depth.checked_sub(1).ok_or_else(unbalanced)?;
            if depth == 0 {
                let inner = template.get(open + start.len()..at).unwrap_or_default();
                context.compile(&format!("^{inner}$"))?;
                pattern.push_str(&quote_meta(template.get(piece..open).unwrap_or_default()));
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
    for text in [a, b] {
        context.spend(text.len())?;
        context.allocate(text.len().saturating_mul(intersect::BYTES_PER_BYTE))?;
    }
    let a = intersect::Pattern::parse(a).map_err(BuiltinError::Failed)?;
    let b = intersect::Pattern::parse(b).map_err(BuiltinError::Failed)?;
    let states = a.cost().saturating_mul(b.cost());
    context.spend(states)?;
    context.allocate(states.saturating_mul(intersect::BYTES_PER_STATE))?;
    yes_or_no(a.meets(&b))
}

fn glob_match<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let pattern = operand::string(args, 0)?;
    let delimiters = delimiters(args)?;
    let text = operand::string(args, 2)?;
    context.scan(pattern)?;
    if let Some(wildcards) = glob::Wildcards::of(pattern, &delimiters) {
        context.scan(text)?;
        return yes_or_no(wildcards.matches(text));
    }
    let key = format!("glob\0{pattern}\0{delimiters}");
    let regex = context
        .compiled(&key, || glob::translate(pattern, &delimiters).map_err(BuiltinError::Failed))?;
    context.charge_match(&regex, text)?;
    yes_or_no(regex.matches(text, context.heap.budget())?)
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
