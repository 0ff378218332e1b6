//! Sprig's JSON functions: `encoding/json` of template values.

use std::collections::BTreeMap;

use modgate_value::{Number, Str, Value, gofloat};

use crate::{
    Data,
    cx::{Cx, Fault, Result, check_depth},
    funcs::{Args, Function, Ty},
    text::Text,
    val::{Map, Val},
};

use Ty::{Any, Text as S};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("fromJson", &[S], |cx, args| match decode(cx, args.text(0)) {
        Err(Fault::Failed(_)) => Ok(Val::Nil),
        other => other.map(|(value, _)| value),
    }),
    Function::new("mustFromJson", &[S], |cx, args| match decode(cx, args.text(0))? {
        (value, None) => Ok(value),
        (_, Some(message)) => Err(Fault::Failed(message)),
    }),
    Function::new("mustToJson", &[Any], |cx, args| encode(cx, args, Style::Compact)),
    Function::new("mustToPrettyJson", &[Any], |cx, args| encode(cx, args, Style::Pretty)),
    Function::new("mustToRawJson", &[Any], |cx, args| encode(cx, args, Style::Raw)),
    Function::new("toJson", &[Any], |cx, args| or_nothing(encode(cx, args, Style::Compact))),
    Function::new("toPrettyJson", &[Any], |cx, args| or_nothing(encode(cx, args, Style::Pretty))),
    Function::new("toRawJson", &[Any], |cx, args| encode(cx, args, Style::Raw)),
];

/// Sprig throws away the error of what has no JSON form.
fn or_nothing(result: Result<Val<'_>>) -> Result<Val<'_>> {
    match result {
        Err(Fault::Failed(_)) => Ok(Val::Text(Text::Ref(""))),
        other => other,
    }
}

/// The value, and the error of a number that no float holds, in whose place there is nil.
fn decode<'a>(cx: &mut Cx<'a>, text: &Text<'a>) -> Result<(Val<'a>, Option<String>)> {
    let bytes = text.as_bytes();
    cx.spend(bytes.len() / 8)?;
    // The parsed tree, at its largest: every other byte a value.
    cx.allocate(bytes.len().saturating_mul(size_of::<Value>() / 2))?;
    let value = Value::from_json(bytes).map_err(|error| Fault::new(error.to_string()))?;
    let mut error = None;
    Ok((own(cx, &value, &mut error)?, error))
}

/// A value that borrows nothing; its depth is bounded by the JSON reader.
fn own<'a>(cx: &mut Cx<'a>, value: &Value, error: &mut Option<String>) -> Result<Val<'a>> {
    match value {
        Value::Null => Ok(Val::Nil),
        Value::Bool(value) => Ok(Val::Bool(*value)),
        Value::Number(number) => Ok(float(number, error)),
        Value::String(text) => cx.text(String::from(text.as_str())),
        Value::Array(elements) => {
            let mut items = Vec::with_capacity(elements.len());
            for element in elements {
                items.push(own(cx, element, error)?);
            }
            cx.any_list(items)
        }
        Value::Object(members) => {
            let mut entries = BTreeMap::new();
            for (key, member) in members {
                entries.insert(key.clone(), own(cx, member, error)?);
            }
            cx.any_map(entries)
        }
    }
}

fn float<'a>(number: &Number, error: &mut Option<String>) -> Val<'a> {
    let float = number.as_f64();
    if float.is_finite() {
        return Val::Float(float);
    }
    error.get_or_insert_with(|| {
        format!("json: cannot unmarshal number {number} into Go value of type float64")
    });
    Val::Nil
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Compact,
    /// Indented by two spaces.
    Pretty,
    /// `<`, `>` and `&` as they are.
    Raw,
}

fn encode<'a>(cx: &mut Cx<'a>, args: Args<'_, 'a>, style: Style) -> Result<Val<'a>> {
    let mut writer = Writer { cx, style, out: String::new() };
    writer.value(args.get(0))?;
    Ok(Val::text(writer.out))
}

struct Writer<'c, 'a> {
    cx: &'c Cx<'a>,
    style: Style,
    out: String,
}

/// A container being written.
struct Open<'a> {
    parts: std::vec::IntoIter<(Option<Str>, Val<'a>)>,
    brackets: (&'static str, &'static str),
    /// Whether a part of it was written.
    begun: bool,
}

impl<'a> Open<'a> {
    /// `None` for what has no parts, nil lists and maps included.
    fn of(cx: &Cx<'a>, value: &Val<'a>) -> Result<Option<Self>> {
        let (parts, brackets): (Vec<_>, _) = match value {
            Val::List(list) if !list.kind().is_nil() => {
                (list.iter().map(|item| (None, item)).collect(), ("[", "]"))
            }
            Val::Map(map) if !matches!(map, Map::Nil) => (named(cx.entries(*map)?), ("{", "}")),
            Val::Context => (named(context_members(cx)?), ("{", "}")),
            Val::Certificate(pair) => {
                let certificate = Val::text(pair.certificate.clone());
                let key = Val::text(pair.key.clone());
                (named(vec![("Cert".into(), certificate), ("Key".into(), key)]), ("{", "}"))
            }
            _ => return Ok(None),
        };
        Ok(Some(Self { parts: parts.into_iter(), brackets, begun: false }))
    }
}

fn named<'a>(members: Vec<(Str, Val<'a>)>) -> Vec<(Option<Str>, Val<'a>)> {
    members.into_iter().map(|(key, value)| (Some(key), value)).collect()
}

impl<'a> Writer<'_, 'a> {
    fn push(&mut self, text: &str) -> Result<()> {
        self.cx.allocate(text.len())?;
        self.out.push_str(text);
        Ok(())
    }

    /// A value with all its parts. Keeps a list of the containers it is inside of, because data may
    /// be deeper than calls may be nested.
    fn value(&mut self, value: &Val<'a>) -> Result<()> {
        let mut open: Vec<Open<'a>> = Vec::new();
        let mut value = value.clone();
        loop {
            self.cx.spend(1)?;
            check_depth(open.len())?;
            value = value.pointed();
            match Open::of(self.cx, &value)? {
                Some(container) => {
                    self.push(container.brackets.0)?;
                    open.push(container);
                }
                None => self.flat(&value)?,
            }
            value = loop {
                let depth = open.len();
                let Some(innermost) = open.last_mut() else { return Ok(()) };
                if let Some((key, part)) = innermost.parts.next() {
                    self.separate(innermost.begun, depth)?;
                    innermost.begun = true;
                    if let Some(key) = key {
                        self.string(key.as_bytes())?;
                        self.push(if self.style == Style::Pretty { ": " } else { ":" })?;
                    }
                    break part;
                }
                if innermost.begun {
                    self.line(depth - 1)?;
                }
                self.push(innermost.brackets.1)?;
                open.pop();
            };
        }
    }

    /// A value without parts.
    fn flat(&mut self, value: &Val<'a>) -> Result<()> {
        match value {
            Val::Missing | Val::Nil => self.push("null"),
            Val::Bool(value) => self.push(if *value { "true" } else { "false" }),
            Val::Float(value) if !value.is_finite() => {
                let shown = gofloat::general(*value);
                Err(Fault::new(format!("json: unsupported value: {shown}")))
            }
            Val::Float(value) => self.push(&gofloat::json(*value)),
            Val::Uint64(value) => self.push(&value.to_string()),
            Val::Uint32(value) => self.push(&value.to_string()),
            Val::Uint8(value) => self.push(&value.to_string()),
            Val::Int(_) | Val::Int64(_) | Val::Duration(_) | Val::Month(_) | Val::Weekday(_) => {
                self.push(&value.as_signed().unwrap_or(0).to_string())
            }
            Val::Complex(..) => Err(Fault::new("json: unsupported type: complex128")),
            Val::Text(text) => self.string(text.as_bytes()),
            Val::Time(time) => {
                if !(0..=9999).contains(&time.civil().year) {
                    return Err(Fault::new(
                        "json: error calling MarshalJSON for type time.Time: Time.MarshalJSON: \
                         year outside of range [0,9999]",
                    ));
                }
                let text = time.format("2006-01-02T15:04:05.999999999Z07:00");
                self.string(text.as_bytes())
            }
            Val::Version(version) => self.string(version.to_string().as_bytes()),
            Val::List(_) | Val::Map(_) | Val::Pointer(_) | Val::Context | Val::Certificate(_) => {
                self.push("null")
            }
        }
    }

    fn separate(&mut self, begun: bool, depth: usize) -> Result<()> {
        if begun {
            self.push(",")?;
        }
        self.line(depth)
    }

    fn line(&mut self, depth: usize) -> Result<()> {
        if self.style != Style::Pretty {
            return Ok(());
        }
        self.cx.allocate(1 + 2 * depth)?;
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n("  ", depth));
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<()> {
        self.cx.allocate(bytes.len() + 2)?;
        self.out.push('"');
        for chunk in bytes.utf8_chunks() {
            for character in chunk.valid().chars() {
                self.character(character)?;
            }
            for _ in chunk.invalid() {
                self.push("\\ufffd")?;
            }
        }
        self.out.push('"');
        Ok(())
    }

    fn character(&mut self, character: char) -> Result<()> {
        let named = match character {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\n' => "\\n",
            '\r' => "\\r",
            '\t' => "\\t",
            '\u{8}' => "\\b",
            '\u{c}' => "\\f",
            '\0'..' ' | '\u{2028}' | '\u{2029}' => "",
            '<' | '>' | '&' if self.style != Style::Raw => "",
            _ => {
                self.out.push(character);
                return Ok(());
            }
        };
        if named.is_empty() {
            self.push(&format!("\\u{:04x}", u32::from(character)))
        } else {
            self.push(named)
        }
    }
}

/// The fields of KubeMod's context, in the order it declares them.
fn context_members<'a>(cx: &Cx<'a>) -> Result<Vec<(Str, Val<'a>)>> {
    let (namespace, target) = match cx.data {
        Data::Value(_) => return Ok(Vec::new()),
        Data::Patch(context) => (context.namespace, context.target),
        Data::Reject(context) => (context.namespace, context.target),
    };
    let mut members = vec![
        ("Namespace".into(), Val::Text(Text::Ref(namespace))),
        ("Target".into(), Val::Pointer(target)),
    ];
    if let Data::Patch(context) = cx.data {
        members.push(("SelectKeyParts".into(), cx.key_parts(&context)?));
        members.push(("SelectedItem".into(), context.selected_item.map_or(Val::Nil, Val::of_json)));
    }
    Ok(members)
}
