//! The functions of `text/template` itself.

use crate::{
    cx::{Cx, Fault, Result},
    funcs::{Args, Function, Ty},
    print,
    text::Text,
    unicode,
    val::{Kind, Map, Val},
};

pub(crate) const FUNCTIONS: &[Function] = &[
    Function::variadic("and", &[Ty::Value, Ty::Value], |_, args| Ok(args.get(0).clone()))
        .short_circuiting(),
    Function::variadic("call", &[Ty::Value, Ty::Value], call),
    Function::variadic("eq", &[Ty::Value, Ty::Value], |cx, args| {
        equals_any(cx, args.get(0), args.rest(1)).map(Val::Bool)
    }),
    Function::new("ge", &[Ty::Value, Ty::Value], |_, args| {
        less(args.get(0), args.get(1)).map(|less| Val::Bool(!less))
    }),
    Function::new("gt", &[Ty::Value, Ty::Value], |cx, args| {
        less_or_equal(cx, args).map(|lesser| Val::Bool(!lesser))
    }),
    Function::variadic("html", &[Ty::Any], html),
    Function::variadic("index", &[Ty::Value, Ty::Value], index),
    Function::variadic("js", &[Ty::Any], js),
    Function::new("le", &[Ty::Value, Ty::Value], |cx, args| less_or_equal(cx, args).map(Val::Bool)),
    Function::new("len", &[Ty::Value], len),
    Function::new("lt", &[Ty::Value, Ty::Value], |_, args| {
        less(args.get(0), args.get(1)).map(Val::Bool)
    }),
    Function::new("ne", &[Ty::Value, Ty::Value], |cx, args| {
        equals_any(cx, args.get(0), args.rest(1)).map(|equal| Val::Bool(!equal))
    }),
    Function::new("not", &[Ty::Value], |cx, args| Ok(Val::Bool(!truth(cx, args.get(0))))),
    Function::variadic("or", &[Ty::Value, Ty::Value], |_, args| Ok(args.get(0).clone()))
        .short_circuiting(),
    Function::variadic("print", &[Ty::Any], |cx, args| Ok(Val::bytes(sprint(cx, args.all())?))),
    Function::variadic("printf", &[Ty::Text, Ty::Any], printf),
    Function::variadic("println", &[Ty::Any], println),
    Function::variadic("slice", &[Ty::Value, Ty::Value], slice),
    Function::variadic("urlquery", &[Ty::Any], urlquery),
];

/// Whether a value counts as true in `if`, `with`, `and`, `or` and `not`.
pub(crate) fn truth<'a>(cx: &Cx<'a>, value: &Val<'a>) -> bool {
    match value {
        Val::Missing | Val::Nil => false,
        Val::Bool(value) => *value,
        Val::Float(value) => *value != 0.0,
        Val::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
        Val::Text(text) => !text.is_empty(),
        Val::List(list) => list.len() > 0,
        Val::Map(map) => cx.len(*map) > 0,
        Val::Pointer(_) | Val::Context | Val::Time(_) | Val::Version(_) | Val::Certificate(_) => {
            true
        }
        Val::Int(_) | Val::Int64(_) | Val::Duration(_) | Val::Month(_) | Val::Weekday(_) => {
            value.as_signed() != Some(0)
        }
        Val::Uint64(_) | Val::Uint32(_) | Val::Uint8(_) => value.as_unsigned() != Some(0),
    }
}

fn call<'a>(_: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    Err(match args.get(0) {
        Val::Missing | Val::Nil => Fault::new("call of nil"),
        // No value of ours is a function.
        other => Fault::new(format!("non-function of type {}", other.type_name())),
    })
}

fn index<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let mut item = args.get(0).clone();
    if matches!(item, Val::Missing | Val::Nil) {
        return Err(Fault::new("index of untyped nil"));
    }
    for index in args.rest(1) {
        item = match item.pointed() {
            Val::Missing | Val::Nil => return Err(Fault::new("index of nil pointer")),
            Val::List(list) => {
                let at = position(index, list.len())?;
                list.get(at).ok_or_else(|| out_of_range(at))?
            }
            Val::Text(text) => {
                let at = position(index, text.len())?;
                let byte = text.as_bytes().get(at);
                Val::Uint8(*byte.ok_or_else(|| out_of_range(at))?)
            }
            Val::Map(map) => member(cx, map, index)?,
            other => {
                return Err(Fault::new(format!("can't index item of type {}", other.type_name())));
            }
        };
    }
    Ok(item)
}

fn out_of_range(at: usize) -> Fault {
    Fault::new(format!("reflect: slice index out of range: {at}"))
}

/// `map[key]`, the zero value of the element type where there is no such key.
fn member<'a>(cx: &Cx<'a>, map: Map<'a>, key: &Val<'a>) -> Result<Val<'a>> {
    let key = match key {
        Val::Text(text) => text.lossy(),
        Val::Missing | Val::Nil => {
            return Err(Fault::new("value is nil; should be of type string"));
        }
        other => {
            let name = other.type_name();
            return Err(Fault::new(format!("value has type {name}; should be string")));
        }
    };
    let zero = if map.holds_texts() { Val::Text(Text::Ref("")) } else { Val::Nil };
    Ok(cx.get(map, &key).unwrap_or(zero))
}

/// An index argument; may equal `length`, which slicing allows.
fn position(index: &Val<'_>, length: usize) -> Result<usize> {
    let number = match (index.as_signed(), index.as_unsigned()) {
        (Some(number), _) => i128::from(number),
        (_, Some(number)) => i128::from(number),
        _ if matches!(index, Val::Missing | Val::Nil) => {
            return Err(Fault::new("cannot index slice/array with nil"));
        }
        _ => {
            let name = index.type_name();
            return Err(Fault::new(format!("cannot index slice/array with type {name}")));
        }
    };
    let at = usize::try_from(number).ok().filter(|at| *at <= length);
    at.ok_or_else(|| Fault::new(format!("index out of range: {number}")))
}

fn slice<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let item = args.get(0).pointed();
    let indexes = args.rest(1);
    if matches!(item, Val::Missing | Val::Nil) {
        return Err(Fault::new("slice of untyped nil"));
    }
    if indexes.len() > 3 {
        return Err(Fault::new(format!("too many slice indexes: {}", indexes.len())));
    }
    let length = match &item {
        Val::Text(_) if indexes.len() == 3 => {
            return Err(Fault::new("cannot 3-index slice a string"));
        }
        Val::Text(text) => text.len(),
        Val::List(list) => list.len(),
        other => {
            return Err(Fault::new(format!("can't slice item of type {}", other.type_name())));
        }
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position(index, length)?;
    }
    let [start, end, capacity] = bounds;
    for (low, high) in [(start, end), (end, capacity)] {
        if low > high {
            return Err(Fault::new(format!("invalid slice index: {low} > {high}")));
        }
    }
    match &item {
        Val::List(list) => {
            let items = (start..end).filter_map(|index| list.get(index));
            cx.list(items.collect(), list.kind())
        }
        Val::Text(text) => cx.bytes(text.as_bytes().get(start..end).unwrap_or_default().to_vec()),
        _ => Ok(item),
    }
}

fn len<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let length = match args.get(0).pointed() {
        Val::List(list) => list.len(),
        Val::Map(map) => cx.len(map),
        Val::Text(text) => text.len(),
        Val::Nil => return Err(Fault::new("len of nil pointer")),
        Val::Missing => {
            return Err(Fault::new("reflect: call of reflect.Value.Type on zero Value"));
        }
        other => return Err(Fault::new(format!("len of type {}", other.type_name()))),
    };
    Ok(Val::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// Values that `eq` and `lt` compare with each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Complex,
    Int,
    Float,
    Text,
    Uint,
    /// None of them.
    Other,
}

fn basic(value: &Val<'_>) -> Basic {
    match value.kind() {
        Kind::Bool => Basic::Bool,
        Kind::Int | Kind::Int64 => Basic::Int,
        Kind::Uint8 | Kind::Uint32 | Kind::Uint64 => Basic::Uint,
        Kind::Float64 => Basic::Float,
        Kind::Complex128 => Basic::Complex,
        Kind::String => Basic::Text,
        Kind::Invalid | Kind::Slice | Kind::Map | Kind::Pointer | Kind::Struct => Basic::Other,
    }
}

fn is_absent(value: &Val<'_>) -> bool {
    matches!(value, Val::Missing | Val::Nil)
}

fn is_nil(value: &Val<'_>) -> bool {
    match value {
        Val::Missing | Val::Nil | Val::Map(Map::Nil) => true,
        Val::List(list) => list.kind().is_nil(),
        _ => false,
    }
}

fn equals_any<'a>(cx: &Cx<'a>, first: &Val<'a>, others: &[Val<'a>]) -> Result<bool> {
    if others.is_empty() {
        return Err(Fault::new("missing argument for comparison"));
    }
    for other in others {
        if equals(cx, first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn incompatible(a: &Val<'_>, b: &Val<'_>) -> Fault {
    Fault::new(format!(
        "incompatible types for comparison: {} and {}",
        a.type_name(),
        b.type_name()
    ))
}

#[expect(clippy::float_cmp, reason = "Go compares floats exactly")]
fn equals<'a>(cx: &Cx<'a>, a: &Val<'a>, b: &Val<'a>) -> Result<bool> {
    let kinds = (basic(a), basic(b));
    match kinds {
        (Basic::Int, Basic::Int) => return Ok(a.as_signed() == b.as_signed()),
        (Basic::Uint, Basic::Uint) => return Ok(a.as_unsigned() == b.as_unsigned()),
        (Basic::Int | Basic::Uint, Basic::Int | Basic::Uint) => return Ok(wide(a) == wide(b)),
        _ => {}
    }
    if kinds.0 != kinds.1 {
        return if is_absent(a) || is_absent(b) { Ok(false) } else { Err(incompatible(a, b)) };
    }
    Ok(match (a, b) {
        (Val::Bool(a), Val::Bool(b)) => a == b,
        (Val::Float(a), Val::Float(b)) => a == b,
        (Val::Complex(a, ai), Val::Complex(b, bi)) => a == b && ai == bi,
        (Val::Text(a), Val::Text(b)) => a == b,
        _ => {
            if a.kind() != b.kind() && !is_absent(a) && !is_absent(b) {
                let (a, b) = (a.type_name(), b.type_name());
                return Err(Fault::new(format!("non-comparable types {a}, {b}")));
            }
            match (a, b) {
                _ if is_nil(a) || is_nil(b) => is_nil(a) == is_nil(b),
                (Val::Pointer(a), Val::Pointer(b)) => std::ptr::eq(*a, *b),
                (Val::Version(a), Val::Version(b)) => std::rc::Rc::ptr_eq(a, b),
                (Val::Time(a), Val::Time(b)) => a == b,
                (Val::Certificate(a), Val::Certificate(b)) => a == b,
                (_, Val::List(_) | Val::Map(_)) => {
                    let shown = print::text(cx, b)?;
                    let shown = String::from_utf8_lossy(&shown);
                    let name = b.type_name();
                    return Err(Fault::new(format!("non-comparable type {shown}: {name}")));
                }
                _ => false,
            }
        }
    })
}

/// An integer of either sign.
fn wide(value: &Val<'_>) -> Option<i128> {
    value.as_signed().map(i128::from).or_else(|| value.as_unsigned().map(i128::from))
}

fn less(a: &Val<'_>, b: &Val<'_>) -> Result<bool> {
    let kinds = (basic(a), basic(b));
    if kinds.0 == Basic::Other || kinds.1 == Basic::Other {
        return Err(Fault::new("invalid type for comparison"));
    }
    match (a, b) {
        (Val::Float(a), Val::Float(b)) => Ok(a < b),
        (Val::Text(a), Val::Text(b)) => Ok(a.as_bytes() < b.as_bytes()),
        _ => match (wide(a), wide(b)) {
            (Some(a), Some(b)) => Ok(a < b),
            _ if kinds.0 == kinds.1 => Err(Fault::new("invalid type for comparison")),
            _ => Err(incompatible(a, b)),
        },
    }
}

fn less_or_equal<'a>(cx: &Cx<'a>, args: Args<'_, 'a>) -> Result<bool> {
    let (a, b) = (args.get(0), args.get(1));
    Ok(less(a, b)? || equals(cx, a, b)?)
}

/// `fmt.Sprint`: spaces between operands when neither is a string.
pub(crate) fn sprint<'a>(cx: &Cx<'a>, values: &[Val<'a>]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut after_text = true;
    for (index, value) in values.iter().enumerate() {
        let is_text = matches!(value, Val::Text(_));
        if index > 0 && !is_text && !after_text {
            out.push(b' ');
        }
        after_text = is_text;
        print::append(cx, value, &mut out)?;
    }
    Ok(out)
}

fn println<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let mut out = Vec::new();
    for (index, value) in args.all().iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        print::append(cx, value, &mut out)?;
    }
    out.push(b'\n');
    Ok(Val::bytes(out))
}

fn printf<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let values = print::args(cx, args.rest(1))?;
    let text = modgate_value::gofmt::sprintf(&args.str(0), &values, cx.env.budget)?;
    Ok(Val::text(text))
}

/// The arguments as one text: a single string as it is, anything else as `print` has it.
fn joined<'a>(cx: &Cx<'a>, values: &[Val<'a>]) -> Result<Vec<u8>> {
    if let [Val::Text(text)] = values {
        cx.allocate(text.len())?;
        return Ok(text.as_bytes().to_vec());
    }
    let shown: Vec<Val<'a>> = values
        .iter()
        .map(|value| match value {
            Val::Missing | Val::Nil => Val::Text(Text::Ref("<no value>")),
            other => other.clone(),
        })
        .collect();
    sprint(cx, &shown)
}

fn html<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let text = joined(cx, args.all())?;
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend("\u{FFFD}".bytes()),
            b'"' => out.extend(b"&#34;"),
            b'\'' => out.extend(b"&#39;"),
            b'&' => out.extend(b"&amp;"),
            b'<' => out.extend(b"&lt;"),
            b'>' => out.extend(b"&gt;"),
            _ => out.push(byte),
        }
    }
    cx.bytes(out)
}

fn js<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let text = joined(cx, args.all())?;
    let text = Text::of_bytes(text);
    let text = text.lossy();
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' => out.push_str(r"\\"),
            '\'' => out.push_str(r"\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' | '\0'..' ' => {
                out.push_str(&format!("\\u{:04X}", u32::from(character)));
            }
            _ if character.is_ascii() || unicode::is_print(character) => out.push(character),
            _ => out.push_str(&format!("\\u{:04X}", u32::from(character))),
        }
    }
    cx.text(out)
}

fn urlquery<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>) -> Result<Val<'a>> {
    let text = joined(cx, args.all())?;
    let mut out = String::with_capacity(text.len());
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    cx.text(out)
}
