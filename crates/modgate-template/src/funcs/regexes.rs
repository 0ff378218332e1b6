//! Sprig's regular expressions.

use modgate_value::regex::{GoRegex, quote_meta};

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    val::{ListKind, Val},
};

use Ty::{Int, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("mustRegexFind", &[S, S], |cx, args| find(cx, args, Compile::Must)),
    Function::new("mustRegexFindAll", &[S, S, Int], |cx, args| find_all(cx, args, Compile::Must)),
    Function::new("mustRegexMatch", &[S, S], |cx, args| matches(cx, args).map(Val::Bool)),
    Function::new("mustRegexReplaceAll", &[S, S, S], |cx, args| {
        replace(cx, args, Compile::Must, false)
    }),
    Function::new("mustRegexReplaceAllLiteral", &[S, S, S], |cx, args| {
        replace(cx, args, Compile::Must, true)
    }),
    Function::new("mustRegexSplit", &[S, S, Int], |cx, args| split(cx, args, Compile::Must)),
    Function::new("regexFind", &[S, S], |cx, args| find(cx, args, Compile::Panic)),
    Function::new("regexFindAll", &[S, S, Int], |cx, args| find_all(cx, args, Compile::Panic)),
    Function::new("regexMatch", &[S, S], |cx, args| match matches(cx, args) {
        Err(Fault::Failed(_)) => Ok(Val::Bool(false)),
        other => other.map(Val::Bool),
    }),
    Function::new("regexQuoteMeta", &[S], |cx, args| cx.text(quote_meta(&args.str(0)))),
    Function::new("regexReplaceAll", &[S, S, S], |cx, args| {
        replace(cx, args, Compile::Panic, false)
    }),
    Function::new("regexReplaceAllLiteral", &[S, S, S], |cx, args| {
        replace(cx, args, Compile::Panic, true)
    }),
    Function::new("regexSplit", &[S, S, Int], |cx, args| split(cx, args, Compile::Panic)),
];

/// How a wrong expression is reported.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compile {
    /// As the error itself.
    Must,
    /// With the words of `regexp.MustCompile`.
    Panic,
}

/// The expression of the first argument; matching is charged by the length of the text.
fn compile<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, how: Compile) -> Result<GoRegex> {
    let pattern = args.str(0);
    cx.spend(args.text(1).len())?;
    cx.regex(&pattern).map_err(|fault| match fault {
        Fault::Failed(message) if how == Compile::Panic => {
            let quoted = if pattern.contains('`') {
                crate::text::quote(pattern.as_bytes())
            } else {
                format!("`{pattern}`")
            };
            Fault::new(format!("regexp: Compile({quoted}): {message}"))
        }
        fault => fault,
    })
}

fn matches<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<bool> {
    let regex = compile(cx, args, Compile::Must)?;
    Ok(regex.matches(&args.str(1), cx.budget())?)
}

fn find<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, how: Compile) -> Result<Val<'a>> {
    let regex = compile(cx, args, how)?;
    let text = args.str(1);
    let found = regex.find(&text, cx.budget())?.and_then(|range| text.get(range));
    cx.text(found.unwrap_or_default().to_owned())
}

/// At most as many as a limit that is not negative says.
fn limit(value: i64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn find_all<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, how: Compile) -> Result<Val<'a>> {
    let regex = compile(cx, args, how)?;
    let text = args.str(1);
    let mut found = Vec::new();
    let budget = cx.budget();
    for range in regex.find_iter(&text, budget).take(limit(args.int(2))) {
        let range = range?;
        budget.check_time()?;
        cx.spend(1)?;
        found.push(cx.text(text.get(range).unwrap_or_default().to_owned())?);
    }
    let kind = if found.is_empty() { ListKind::NilTexts } else { ListKind::Texts };
    cx.list(found, kind)
}

fn replace<'a>(
    cx: &mut Cx<'a>,
    args: Args<'_, 'a>,
    how: Compile,
    literal: bool,
) -> Result<Val<'a>> {
    let regex = compile(cx, args, how)?;
    let (text, template) = (args.str(1), args.str(2));
    let mut out = String::new();
    let mut copied = 0;
    let references = if literal { 0 } else { template.matches('$').count() };
    let budget = cx.budget();
    for captures in regex.captures_iter(&text, budget) {
        let captures = captures?;
        let Some(range) = captures.get(0) else { continue };
        budget.check_time()?;
        cx.spend(1)?;
        let before = out.capacity();
        // A group is no longer than the match.
        let most = template.len().saturating_add(references.saturating_mul(range.len()));
        let passed = text.get(copied..range.start).unwrap_or_default();
        let needed = out.len().saturating_add(passed.len()).saturating_add(most);
        // Memory that the text may need is paid for before it is taken, and twice that where it grows.
        if needed > before {
            cx.allocate((needed - before).max(before))?;
            out.reserve_exact(needed.max(2 * before) - out.len());
        }
        out.push_str(passed);
        if literal {
            out.push_str(&template);
        } else {
            regex.expand(&template, &text, &captures, &mut out, budget)?;
        }
        copied = range.end;
    }
    let rest = text.get(copied..).unwrap_or_default();
    cx.allocate(rest.len())?;
    out.push_str(rest);
    Ok(Val::text(out))
}

fn split<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, how: Compile) -> Result<Val<'a>> {
    let regex = compile(cx, args, how)?;
    let text = args.str(1);
    let count = args.int(2);
    if count == 0 {
        return cx.list(Vec::new(), ListKind::NilTexts);
    }
    let pieces = regex.split(&text, usize::try_from(count).ok(), cx.budget())?;
    cx.texts(pieces)
}
