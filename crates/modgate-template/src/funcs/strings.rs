//! Sprig's string functions.

use std::collections::BTreeMap;

use modgate_value::{Str, go::cutset::Cutset};

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    print,
    text::{Text, quote},
    val::{ListKind, MapKind, Val},
};

use Ty::{Any, Int, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("abbrev", &[Int, S], |cx, args| {
        let width = args.int(0);
        let text = args.text(1).as_bytes();
        if width < 4 { cx.bytes(text.to_vec()) } else { cx.bytes(abbreviate(text, 0, width)) }
    }),
    Function::new("abbrevboth", &[Int, Int, S], |cx, args| {
        let (left, right) = (args.int(0), args.int(1));
        let text = args.text(2).as_bytes();
        if right < 4 || (left > 0 && right < 7) {
            return cx.bytes(text.to_vec());
        }
        cx.bytes(abbreviate(text, left, right))
    }),
    Function::variadic("cat", &[Any], cat),
    Function::new("contains", &[S, S], |cx, args| {
        let (part, whole) = (args.str(0), args.str(1));
        cx.spend(whole.len() / 64)?;
        Ok(Val::Bool(whole.contains(&*part)))
    }),
    Function::new("hasPrefix", &[S, S], |_, args| {
        Ok(Val::Bool(args.text(1).as_bytes().starts_with(args.text(0).as_bytes())))
    }),
    Function::new("hasSuffix", &[S, S], |_, args| {
        Ok(Val::Bool(args.text(1).as_bytes().ends_with(args.text(0).as_bytes())))
    }),
    Function::new("hello", &[], |_, _| Ok(Val::Text(Text::Ref("Hello!")))),
    Function::new("indent", &[Int, S], |cx, args| {
        let out = indent(cx, args.int(0), &args.str(1), "")?;
        Ok(Val::text(out))
    }),
    Function::new("join", &[S, Any], |cx, args| {
        let texts = texts_of(cx, args.get(1))?;
        let pieces: Vec<&[u8]> = texts.iter().map(Text::as_bytes).collect();
        joined(cx, &pieces, args.text(0).as_bytes())
    }),
    Function::new("nindent", &[Int, S], |cx, args| {
        let out = indent(cx, args.int(0), &args.str(1), "\n")?;
        Ok(Val::text(out))
    }),
    Function::new("plural", &[S, S, Int], |_, args| {
        Ok(args.get(usize::from(args.int(2) != 1)).clone())
    }),
    Function::variadic("quote", &[Any], |cx, args| {
        quoted(cx, args, |cx, value| Ok(quote(text_of(cx, value)?.as_bytes()).into_bytes()))
    }),
    Function::variadic("squote", &[Any], |cx, args| {
        quoted(cx, args, |cx, value| Ok([b"'", text_of(cx, value)?.as_bytes(), b"'"].concat()))
    }),
    Function::new("repeat", &[Int, S], |cx, args| {
        let text = args.text(1).as_bytes();
        let Ok(count) = usize::try_from(args.int(0)) else {
            return Err(Fault::new("strings: negative Repeat count"));
        };
        cx.allocate(text.len().saturating_mul(count))?;
        Ok(Val::bytes(text.repeat(count)))
    }),
    Function::new("replace", &[S, S, S], replace),
    Function::new("split", &[S, S], |cx, args| split_map(cx, &args.str(0), -1, &args.str(1))),
    Function::new("splitList", &[S, S], |cx, args| {
        let (separator, text) = (args.str(0), args.str(1));
        let pieces = pieces(cx, &separator, &text)?;
        cx.allocate(pieces.saturating_mul(size_of::<&str>()))?;
        cx.texts(split(&text, &separator, -1))
    }),
    Function::new("splitn", &[S, Int, S], |cx, args| {
        split_map(cx, &args.str(0), args.int(1), &args.str(2))
    }),
    Function::new("substr", &[Int, Int, S], substr),
    Function::new("toString", &[Any], |cx, args| Ok(Val::Text(text_of(cx, args.get(0))?))),
    Function::new("toStrings", &[Any], |cx, args| {
        let texts = texts_of(cx, args.get(0))?;
        cx.list(texts.into_iter().map(Val::Text).collect(), ListKind::Texts)
    }),
    Function::new("trim", &[S], |cx, args| cx.text(args.str(0).trim().to_owned())),
    Function::new("trimAll", &[S, S], trim_all),
    Function::new("trimPrefix", &[S, S], |cx, args| {
        let (prefix, text) = (args.text(0).as_bytes(), args.text(1).as_bytes());
        cx.bytes(text.strip_prefix(prefix).unwrap_or(text).to_vec())
    }),
    Function::new("trimSuffix", &[S, S], |cx, args| {
        let (suffix, text) = (args.text(0).as_bytes(), args.text(1).as_bytes());
        cx.bytes(text.strip_suffix(suffix).unwrap_or(text).to_vec())
    }),
    Function::new("trimall", &[S, S], trim_all),
    Function::new("trunc", &[Int, S], trunc),
    Function::new("wrap", &[Int, S], |cx, args| {
        wrap(cx, args.text(1).as_bytes(), args.int(0), b"\n", false)
    }),
    Function::new("wrapWith", &[Int, S, S], |cx, args| {
        let separator = args.text(1).as_bytes();
        let separator = if separator.is_empty() { b"\n" } else { separator };
        wrap(cx, args.text(2).as_bytes(), args.int(0), separator, true)
    }),
];

/// Sprig's `strval`: a string as it is, anything else by `%v`.
pub(crate) fn text_of<'a>(cx: &Cx<'a>, value: &Val<'a>) -> Result<Text<'a>> {
    match value {
        Val::Text(text) => Ok(text.clone()),
        other => Ok(Text::of_bytes(print::text(cx, other)?)),
    }
}

/// Sprig's `strslice`: the texts of a list without its nils; one text for anything else.
pub(crate) fn texts_of<'a>(cx: &Cx<'a>, value: &Val<'a>) -> Result<Vec<Text<'a>>> {
    match value {
        Val::Missing | Val::Nil => Ok(Vec::new()),
        Val::List(list) => {
            cx.spend(list.len())?;
            cx.allocate(list.len() * size_of::<Text<'_>>())?;
            let some = list.iter().filter(|item| !matches!(item, Val::Nil | Val::Missing));
            some.map(|item| text_of(cx, &item)).collect()
        }
        other => Ok(vec![text_of(cx, other)?]),
    }
}

/// The pieces with a separator in between, made at once in its final size.
fn joined<'a>(cx: &Cx<'a>, pieces: &[&[u8]], separator: &[u8]) -> Result<Val<'a>> {
    let separators = separator.len().saturating_mul(pieces.len().saturating_sub(1));
    let text: usize = pieces.iter().map(|piece| piece.len()).sum();
    cx.allocate(text.saturating_add(separators))?;
    Ok(Val::bytes(pieces.join(separator)))
}

/// `strings.SplitN`: an empty separator splits between characters; a negative `limit` is none.
pub(crate) fn split<'t>(text: &'t str, separator: &str, limit: i64) -> Vec<&'t str> {
    let limit = match usize::try_from(limit) {
        Ok(0) => return Vec::new(),
        Ok(limit) => limit,
        Err(_) => usize::MAX,
    };
    if !separator.is_empty() {
        return text.splitn(limit, separator).collect();
    }
    let mut pieces = Vec::with_capacity(text.len().min(limit));
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if pieces.len() + 1 == limit {
            pieces.push(rest);
            break;
        }
        let (piece, after) = rest.split_at(first.len_utf8());
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// How many pieces [`split`] makes at most, charged for in steps.
fn pieces(cx: &Cx<'_>, separator: &str, text: &str) -> Result<usize> {
    cx.spend(text.len())?;
    Ok(match separator {
        "" => text.len(),
        _ => text.matches(separator).count() + 1,
    })
}

fn split_map<'a>(cx: &mut Cx<'a>, separator: &str, limit: i64, text: &str) -> Result<Val<'a>> {
    let most = pieces(cx, separator, text)?;
    let count = usize::try_from(limit).map_or(most, |limit| limit.min(most));
    // The pieces, and the map of them while it is filled.
    cx.allocate(count.saturating_mul(2 * size_of::<&str>() + 2 * size_of::<(Str, Val<'_>)>()))?;
    let mut entries: BTreeMap<Str, Val<'a>> = BTreeMap::new();
    for (index, piece) in split(text, separator, limit).into_iter().enumerate() {
        cx.spend(1)?;
        let piece = cx.text(piece.to_owned())?;
        entries.insert(modgate_value::format_smolstr!("_{index}"), piece);
    }
    Ok(Val::Map(cx.map(entries, MapKind::Texts)?))
}

fn cat<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let mut out = Vec::new();
    let some = args.all().iter().filter(|value| !matches!(value, Val::Nil | Val::Missing));
    for (index, value) in some.enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        print::append(cx, value, &mut out)?;
    }
    Ok(Val::bytes(out))
}

fn quoted<'a>(
    cx: &mut Cx<'a>,
    args: Args<'_, 'a>,
    quote: impl Fn(&Cx<'a>, &Val<'a>) -> Result<Vec<u8>>,
) -> Result<Val<'a>> {
    let mut out = Vec::new();
    for value in args.all().iter().filter(|value| !matches!(value, Val::Nil | Val::Missing)) {
        let text = quote(cx, value)?;
        cx.allocate(text.len() + 1)?;
        if !out.is_empty() {
            out.push(b' ');
        }
        out.extend(text);
    }
    Ok(Val::bytes(out))
}

fn indent(cx: &Cx<'_>, spaces: i64, text: &str, before: &str) -> Result<String> {
    let Ok(spaces) = usize::try_from(spaces) else {
        return Err(Fault::new("strings: negative Repeat count"));
    };
    let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let length = spaces.saturating_mul(lines).saturating_add(before.len() + text.len());
    cx.allocate(length)?;
    let mut out = String::with_capacity(length);
    out.push_str(before);
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            out.push('\n');
        }
        out.extend(std::iter::repeat_n(' ', spaces));
        out.push_str(line);
    }
    Ok(out)
}

fn replace<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let (old, new, text) = (args.str(0), args.str(1), args.str(2));
    cx.spend(text.len() / 16)?;
    let count = text.matches(&*old).count();
    cx.allocate(text.len().saturating_add(count.saturating_mul(new.len())))?;
    Ok(Val::text(text.replace(&*old, &new)))
}

fn out_of_bounds(bounds: impl std::fmt::Display) -> Fault {
    Fault::new(format!("runtime error: slice bounds out of range {bounds}"))
}

/// `text[start:end]` in bytes; as in Go, bounds that do not fit are an error.
fn byte_range(text: &[u8], start: i64, end: i64) -> Result<Vec<u8>> {
    let length = text.len();
    let end = usize::try_from(end).ok().filter(|end| *end <= length).ok_or_else(|| match end {
        0.. => out_of_bounds(format_args!("[:{end}] with length {length}")),
        _ => out_of_bounds(format_args!("[:{end}]")),
    })?;
    let start = usize::try_from(start)
        .ok()
        .filter(|start| *start <= end)
        .ok_or_else(|| out_of_bounds(format_args!("[{start}:{end}]")))?;
    Ok(text.get(start..end).unwrap_or_default().to_vec())
}

fn length(text: &[u8]) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

fn substr<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let (start, end) = (args.int(0), args.int(1));
    let text = args.text(2).as_bytes();
    let (start, end) = if start < 0 {
        (0, end)
    } else if end < 0 || end > length(text) {
        (start, length(text))
    } else {
        (start, end)
    };
    cx.bytes(byte_range(text, start, end)?)
}

fn trunc<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let count = args.int(0);
    let text = args.text(1).as_bytes();
    let all = length(text);
    let (start, end) = if count < 0 && all.saturating_add(count) > 0 {
        (all.saturating_add(count), all)
    } else if count >= 0 && all > count {
        (0, count)
    } else {
        (0, all)
    };
    cx.bytes(byte_range(text, start, end)?)
}

fn trim_all<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let (set, text) = (args.str(0), args.str(1));
    cx.spend(text.len() / 16)?;
    let set = Cutset::new(&set, cx.budget())?;
    cx.text(text.trim_matches(|character| set.contains(character)).to_owned())
}

/// `goutils.AbbreviateFull`: cuts to `width` bytes, with `...` where something is left out.
fn abbreviate(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    const MARK: &[u8] = b"...";
    let all = length(text);
    // Callers make sure of at least 4; less is an error whose text Sprig throws away.
    if width < 4 {
        return Vec::new();
    }
    if all <= width {
        return text.to_vec();
    }
    let part = |start: i64, end: i64| byte_range(text, start, end).unwrap_or_default();
    let mut offset = offset.min(all);
    // Go subtracts without looking, and so does this.
    if all.wrapping_sub(offset) < width - 3 {
        offset = all - (width - 3);
    }
    if offset <= 4 {
        return [&part(0, width - 3), MARK].concat();
    }
    if width < 7 {
        return Vec::new();
    }
    if offset.saturating_add(width - 3) < all {
        return [MARK, &abbreviate(&part(offset, all), 0, width - 3)].concat();
    }
    [MARK, &part(all - (width - 3), all)].concat()
}

/// `goutils.WrapCustom`
fn wrap<'a>(
    cx: &mut Cx<'a>,
    text: &[u8],
    width: i64,
    separator: &[u8],
    long_words: bool,
) -> Result<Val<'a>> {
    let width = usize::try_from(width).unwrap_or(0).max(1);
    cx.spend(text.len())?;
    let part = |start: usize, end: usize| text.get(start..end).unwrap_or_default();
    let mut lines: Vec<&[u8]> = Vec::new();
    let mut offset = 0;
    while text.len() - offset > width {
        cx.allocate(size_of::<&[u8]>())?;
        if text.get(offset) == Some(&b' ') {
            offset += 1;
            continue;
        }
        let window = part(offset, offset + width + 1);
        if let Some(space) = window.iter().rposition(|byte| *byte == b' ') {
            lines.push(part(offset, offset + space));
            offset += space + 1;
        } else if long_words {
            lines.push(part(offset, offset + width));
            offset += width;
        } else if let Some(space) =
            part(offset + width, text.len()).iter().position(|byte| *byte == b' ')
        {
            let end = offset + width + space;
            lines.push(part(offset, end));
            offset = end + 1;
        } else {
            break;
        }
    }
    lines.push(part(offset, text.len()));
    joined(cx, &lines, separator)
}
