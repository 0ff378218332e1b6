//! Sprig's URL functions.

use std::collections::BTreeMap;

use modgate_value::{
    go::url::{Url, UserInfo},
    gofmt::quote_bytes,
};

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    val::{Map, Val},
};

pub(super) const FUNCTIONS: &[Function] =
    &[Function::new("urlJoin", &[Ty::Map], join), Function::new("urlParse", &[Ty::Text], parse)];

fn parse<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let text = args.text(0).as_bytes();
    cx.spend(text.len() / 8)?;
    let url = Url::parse(text, quote_bytes)
        .map_err(|message| Fault::new(format!("unable to parse url: {message}")))?;
    let user = url.user.as_ref().map(UserInfo::text).unwrap_or_default();
    let hostname = url.hostname().to_vec();
    let mut entries = BTreeMap::new();
    for (key, part) in [
        ("scheme", url.scheme.into_bytes()),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.raw_query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", user),
    ] {
        entries.insert(key.into(), cx.bytes(part)?);
    }
    cx.any_map(entries)
}

fn join<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let map = args.map(0);
    let mut url = Url {
        scheme: String::from_utf8_lossy(&part(cx, map, "scheme")?).into_owned(),
        host: part(cx, map, "host")?,
        path: part(cx, map, "path")?,
        raw_query: part(cx, map, "query")?,
        opaque: part(cx, map, "opaque")?,
        fragment: part(cx, map, "fragment")?,
        ..Url::default()
    };
    let user = part(cx, map, "userinfo")?;
    if !user.is_empty() {
        let whole = [&b"proto://"[..], &user, b"@host"].concat();
        let parsed = Url::parse(&whole, quote_bytes).map_err(|message| {
            Fault::new(format!("unable to parse userinfo in dict: {message}"))
        })?;
        url.user = parsed.user;
    }
    cx.bytes(url.text())
}

fn part<'a>(cx: &Cx<'a>, map: Map<'a>, key: &str) -> Result<Vec<u8>> {
    match cx.get(map, key) {
        None => Ok(Vec::new()),
        Some(Val::Text(text)) => {
            cx.allocate(text.len())?;
            Ok(text.as_bytes().to_vec())
        }
        Some(Val::Nil | Val::Missing) => {
            Err(Fault::new("runtime error: invalid memory address or nil pointer dereference"))
        }
        Some(other) => Err(Fault::new(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind().name()
        ))),
    }
}
