//! Sprig's path functions: Go's `path`, and `path/filepath` on Unix, which is the same.

use crate::{
    cx::{Cx, Result},
    funcs::{Args, Function, Ty},
    val::Val,
};

const S: &[Ty] = &[Ty::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("base", S, |cx, args| on_bytes(cx, args, base)),
    Function::new("clean", S, |cx, args| on_bytes(cx, args, clean)),
    Function::new("dir", S, |cx, args| on_bytes(cx, args, dir)),
    Function::new("ext", S, |cx, args| on_bytes(cx, args, ext)),
    Function::new("isAbs", S, is_absolute),
    Function::new("osBase", S, |cx, args| on_bytes(cx, args, base)),
    Function::new("osClean", S, |cx, args| on_bytes(cx, args, clean)),
    Function::new("osDir", S, |cx, args| on_bytes(cx, args, dir)),
    Function::new("osExt", S, |cx, args| on_bytes(cx, args, ext)),
    Function::new("osIsAbs", S, is_absolute),
];

fn on_bytes<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, f: fn(&[u8]) -> Vec<u8>) -> Result<Val<'a>> {
    let path = args.text(0).as_bytes();
    cx.spend(path.len() / 16)?;
    cx.bytes(f(path))
}

fn is_absolute<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    Ok(Val::Bool(args.text(0).as_bytes().starts_with(b"/")))
}

fn base(path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return b".".to_vec();
    }
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let path = path.get(..end).unwrap_or_default();
    match path.rsplit(|byte| *byte == b'/').next() {
        None | Some([]) => b"/".to_vec(),
        Some(last) => last.to_vec(),
    }
}

fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    clean(path.get(..end).unwrap_or_default())
}

fn ext(path: &[u8]) -> Vec<u8> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let dot = name.iter().rposition(|byte| *byte == b'.');
    dot.and_then(|dot| name.get(dot..)).unwrap_or_default().to_vec()
}

/// The shortest path that means the same, looked at as text only.
fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut kept: Vec<&[u8]> = Vec::new();
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => match kept.last() {
                Some(&b"..") => kept.push(part),
                Some(_) => {
                    kept.pop();
                }
                None if rooted => {}
                None => kept.push(part),
            },
            _ => kept.push(part),
        }
    }
    let joined = kept.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", &*joined].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}
