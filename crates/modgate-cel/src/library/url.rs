//! URLs as Go reads them (`net/url`).

use std::{collections::BTreeMap, fmt};

use modgate_value::go::url::{self as go, query_unescape};

use super::{Opaque, Table};
use crate::{
    brief::quote_bytes,
    error::{EvalError, Result, failed},
    heap::Heap,
    value::Val,
};

/// A URL, as text and in the parts that functions return.
#[derive(Debug, Clone, Copy)]
pub struct Url<'a> {
    text: &'a str,
    scheme: &'a str,
    host: &'a str,
    hostname: &'a str,
    port: &'a str,
    path: &'a str,
    query: &'a str,
}

/// As Go writes it.
impl fmt::Display for Url<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

pub(super) const FUNCTIONS: Table = &[
    ("url", |heap, args| match args {
        [Val::String(text)] => {
            heap.budget.spend(text.len() as u64 / 4)?;
            heap.temporary(text.len() * 8, || match read(text) {
                Ok(url) => heap.opaque(Opaque::Url(Url::store(heap, &url)?)),
                Err(error) => {
                    failed(format!("URL parse error during conversion from string: {error}"))
                }
            })
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("isURL", |heap, args| match args {
        [Val::String(text)] => {
            heap.budget.spend(text.len() as u64 / 4)?;
            heap.temporary(text.len() * 4, || Ok(Val::Bool(request_uri(text).is_ok())))
        }
        _ => Err(EvalError::NoOverload),
    }),
    ("getScheme", |_, args| Ok(Val::String(of(args)?.scheme))),
    ("getHost", |_, args| Ok(Val::String(of(args)?.host))),
    ("getHostname", |_, args| Ok(Val::String(of(args)?.hostname))),
    ("getPort", |_, args| Ok(Val::String(of(args)?.port))),
    ("getEscapedPath", |_, args| Ok(Val::String(of(args)?.path))),
    ("getQuery", |heap, args| {
        let mut all: BTreeMap<String, Vec<Val<'_>>> = BTreeMap::new();
        for part in of(args)?.query.split('&') {
            if part.is_empty() || part.contains(';') {
                continue;
            }
            heap.build(part.len())?;
            heap.budget.allocate(256)?;
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let plain = |text: &str| {
                let bytes = query_unescape(text.as_bytes(), quote_bytes)?;
                Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
            };
            let (Ok(key), Ok(value)) = (plain(key), plain(value)) else { continue };
            let value = heap.text(&value)?;
            heap.budget.allocate(key.len())?;
            all.entry(key).or_default().push(value);
        }
        let mut entries = heap.vec(all.len())?;
        for (key, values) in &all {
            entries.push((heap.text(key)?, heap.list(values)?));
        }
        heap.map(&entries)
    }),
];

fn of<'a>(args: &[Val<'a>]) -> Result<Url<'a>> {
    match args {
        [Val::Opaque(Opaque::Url(url))] => Ok(*url),
        _ => Err(EvalError::NoOverload),
    }
}

/// Reads an absolute URL or an absolute path.
///
/// # Errors
///
/// Go's text.
pub(super) fn request_uri(text: &str) -> std::result::Result<(), String> {
    go::Url::parse_request_uri(text.as_bytes(), quote_bytes).map(drop)
}

fn read(text: &str) -> std::result::Result<go::Url, String> {
    request_uri(text)?;
    go::Url::parse(text.as_bytes(), quote_bytes)
}

impl<'a> Url<'a> {
    fn store(heap: Heap<'a>, url: &go::Url) -> Result<Self> {
        let text = |bytes: &[u8]| heap.str(&String::from_utf8_lossy(bytes));
        Ok(Self {
            text: text(&url.text())?,
            scheme: heap.str(&url.scheme)?,
            host: text(&url.host)?,
            hostname: text(url.hostname())?,
            port: text(url.port())?,
            path: text(&url.escaped_path())?,
            query: text(&url.raw_query)?,
        })
    }

    pub(super) fn text(&self) -> &'a str {
        self.text
    }
}
