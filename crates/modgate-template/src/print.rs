//! `%v`: the text of any value, as Go's `fmt` prints it.

use std::borrow::Cow;

use modgate_value::{Str, Value, gofloat, gofmt::Arg};

use crate::{
    Data,
    cx::{Cx, Result, check_depth},
    text::Text,
    val::{List, Map, Val},
};

/// The `%v` text, charged for.
pub(crate) fn text<'a>(cx: &Cx<'a>, value: &Val<'a>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    append(cx, value, &mut out)?;
    Ok(out)
}

/// Appends the `%v` text, charging for it on the way.
pub(crate) fn append<'a>(cx: &Cx<'a>, value: &Val<'a>, out: &mut Vec<u8>) -> Result<()> {
    append_at(cx, value, out, 0)
}

fn append_at<'a>(cx: &Cx<'a>, value: &Val<'a>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    cx.spend(1)?;
    check_depth(depth)?;
    match value {
        Val::List(list) => append_list(cx, list, out, depth),
        Val::Map(map) => append_map(cx, *map, out, depth),
        Val::Pointer(value) => append_at(cx, &Val::of_json(value), out, depth + 1),
        Val::Context => append_context(cx, out, depth),
        _ => append_flat(cx, value, out),
    }
}

/// A value without parts. A function of its own, so that nested calls take little of the stack.
fn append_flat<'a>(cx: &Cx<'a>, value: &Val<'a>, out: &mut Vec<u8>) -> Result<()> {
    let text = match value {
        Val::Missing | Val::Nil => return put(cx, b"<nil>", out),
        Val::Bool(value) => return put(cx, if *value { b"true" } else { b"false" }, out),
        Val::Text(text) => return put(cx, text.as_bytes(), out),
        Val::Int(value) | Val::Int64(value) => value.to_string(),
        Val::Uint64(value) => value.to_string(),
        Val::Uint32(value) => value.to_string(),
        Val::Uint8(value) => value.to_string(),
        Val::Float(value) => gofloat::general(*value),
        Val::Complex(real, imaginary) => complex(*real, *imaginary),
        Val::Time(time) => time.to_string(),
        Val::Duration(duration) => duration.to_string(),
        Val::Month(month) => return put(cx, month.name().as_bytes(), out),
        Val::Weekday(day) => return put(cx, day.name().as_bytes(), out),
        Val::Version(version) => version.to_string(),
        Val::Certificate(pair) => format!("{{{} {}}}", pair.certificate, pair.key),
        Val::List(_) | Val::Map(_) | Val::Pointer(_) | Val::Context => return Ok(()),
    };
    put(cx, text.as_bytes(), out)
}

/// Appends bytes, charged for.
fn put(cx: &Cx<'_>, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let room = cx.budget().append(out.len(), out.capacity(), bytes.len())?;
    out.reserve_exact(room);
    out.extend_from_slice(bytes);
    Ok(())
}

fn append_list<'a>(cx: &Cx<'a>, list: &List<'a>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    put(cx, b"[", out)?;
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            put(cx, b" ", out)?;
        }
        append_at(cx, &item, out, depth + 1)?;
    }
    put(cx, b"]", out)
}

fn append_map<'a>(cx: &Cx<'a>, map: Map<'a>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    put(cx, b"map[", out)?;
    for (index, (key, value)) in cx.entries(map)?.into_iter().enumerate() {
        if index > 0 {
            put(cx, b" ", out)?;
        }
        put(cx, key.as_bytes(), out)?;
        put(cx, b":", out)?;
        append_at(cx, &value, out, depth + 1)?;
    }
    cx.budget().release(cx.entries_size(map));
    put(cx, b"]", out)
}

/// The whole context; Go prints the address behind `.Target`, we print what is there.
fn append_context(cx: &Cx<'_>, out: &mut Vec<u8>, depth: usize) -> Result<()> {
    let (namespace, target) = match cx.data {
        Data::Value(value) => return append_at(cx, &Val::of_json(value), out, depth + 1),
        Data::Patch(context) => (context.namespace, context.target),
        Data::Reject(context) => (context.namespace, context.target),
    };
    put(cx, b"{", out)?;
    put(cx, namespace.as_bytes(), out)?;
    put(cx, b" ", out)?;
    append_at(cx, &Val::of_json(target), out, depth + 1)?;
    if let Data::Patch(context) = cx.data {
        put(cx, b" ", out)?;
        append_at(cx, &cx.key_parts(&context)?, out, depth + 1)?;
        put(cx, b" ", out)?;
        append_at(cx, &context.selected_item.map_or(Val::Nil, Val::of_json), out, depth + 1)?;
    }
    put(cx, b"}", out)
}

/// `%v` of a complex128.
fn complex(real: f64, imaginary: f64) -> String {
    let sign = if imaginary.is_sign_negative() && !imaginary.is_nan() { "" } else { "+" };
    let imaginary = gofloat::general(imaginary);
    let sign = if imaginary.starts_with(['+', '-']) { "" } else { sign };
    format!("({}{sign}{imaginary}i)", gofloat::general(real))
}

/// Values as arguments of [`modgate_value::gofmt::sprintf`]; charged for what is copied.
pub(crate) fn args<'a>(cx: &Cx<'a>, values: &[Val<'a>]) -> Result<Vec<Arg<'a>>> {
    values.iter().map(|value| arg(cx, value, 0)).collect()
}

fn arg<'a>(cx: &Cx<'a>, value: &Val<'a>, depth: usize) -> Result<Arg<'a>> {
    cx.spend(1)?;
    cx.allocate(size_of::<Arg<'_>>())?;
    check_depth(depth)?;
    match value {
        Val::List(List::Json(elements)) if cx.is_pristine() => {
            cx.spend(elements.len())?;
            cx.allocate(size_of::<Arg<'_>>() * elements.len())?;
            let elements = elements.iter().map(Arg::Value).collect();
            Ok(Arg::List { type_name: value.type_name().into(), elements })
        }
        Val::List(list) => {
            let mut elements = Vec::with_capacity(list.len());
            for item in list.iter() {
                elements.push(arg(cx, &item, depth + 1)?);
            }
            Ok(Arg::List { type_name: value.type_name().into(), elements })
        }
        Val::Map(Map::Json(object)) if cx.is_pristine() => {
            cx.spend(object.len())?;
            cx.allocate(2 * size_of::<Arg<'_>>() * object.len())?;
            let entry = |(key, value): &'a (Str, Value)| {
                (Arg::String(Cow::Borrowed(key.as_str())), Arg::Value(value))
            };
            let entries = object.iter().map(entry).collect();
            Ok(Arg::Map { type_name: value.type_name().into(), entries })
        }
        Val::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in cx.entries(*map)? {
                cx.allocate(size_of::<Arg<'_>>() + key.len())?;
                entries.push((Arg::String(String::from(key).into()), arg(cx, &value, depth + 1)?));
            }
            Ok(Arg::Map { type_name: value.type_name().into(), entries })
        }
        Val::Pointer(value) if cx.is_pristine() => Ok(Arg::Value(value)),
        Val::Pointer(value) => arg(cx, &Val::of_json(value), depth + 1),
        _ => flat_arg(cx, value),
    }
}

/// A value without parts. A function of its own, so that nested calls take little of the stack.
fn flat_arg<'a>(cx: &Cx<'a>, value: &Val<'a>) -> Result<Arg<'a>> {
    let type_name = value.type_name();
    Ok(match value {
        Val::Bool(value) => Arg::Bool(*value),
        Val::Int(value) | Val::Int64(value) => Arg::Int(*value, type_name),
        Val::Uint64(value) => Arg::Uint(*value, type_name),
        Val::Uint32(value) => Arg::Uint((*value).into(), type_name),
        Val::Uint8(value) => Arg::Uint((*value).into(), type_name),
        Val::Float(value) => Arg::Float(*value),
        Val::Text(Text::Ref(text)) => Arg::String(Cow::Borrowed(text)),
        Val::Text(text) => {
            cx.allocate(text.len())?;
            Arg::String(text.lossy().into_owned().into())
        }
        Val::Duration(value) => named(value.0, type_name, value.to_string().into()),
        Val::Month(month) => named(month.0.into(), type_name, month.name().into()),
        Val::Weekday(day) => named(day.0.into(), type_name, day.name().into()),
        Val::Complex(..) | Val::Context | Val::Time(_) | Val::Version(_) | Val::Certificate(_) => {
            let printed = String::from_utf8_lossy(&text(cx, value)?).into_owned();
            Arg::Stringer { type_name: type_name.into(), text: printed.into() }
        }
        Val::Missing | Val::Nil | Val::List(_) | Val::Map(_) | Val::Pointer(_) => Arg::Nil,
    })
}

fn named<'a>(value: i64, type_name: &'static str, text: Cow<'a, str>) -> Arg<'a> {
    Arg::NamedInt { value, type_name, text }
}
