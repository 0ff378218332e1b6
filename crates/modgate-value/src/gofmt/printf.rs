//! `Printf`: what Go's `fmt` does with verbs, flags and arguments.

mod numbers;

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
};

use super::quote::{self, Quoting};
use crate::{Budget, Exhausted, MAX_DEPTH, Value, json};

/// One argument of [`sprintf`], with the Go type it has.
#[derive(Debug, Clone)]
pub enum Arg<'a> {
    /// An untyped `nil`.
    Nil,
    /// A `bool`.
    Bool(bool),
    /// A signed integer and the name of its Go type: `int`, `int64`…
    Int(i64, &'a str),
    /// An unsigned integer and the name of its Go type: `uint`, `uint8`…
    Uint(u64, &'a str),
    /// A `*big.Int`: decimal digits with an optional leading `-`.
    BigInt(Cow<'a, str>),
    /// A `float64`.
    Float(f64),
    /// A `string`.
    String(Cow<'a, str>),
    /// A `[]byte`, which Go calls `[]uint8`.
    Bytes(Cow<'a, [u8]>),
    /// A slice.
    List {
        /// The name of its Go type, such as `[]interface {}` or `[]string`.
        type_name: Cow<'a, str>,
        /// Its elements.
        elements: Vec<Arg<'a>>,
    },
    /// A map; printed sorted by key.
    Map {
        /// The name of its Go type, such as `map[string]interface {}`.
        type_name: Cow<'a, str>,
        /// Its members, in any order.
        entries: Vec<(Arg<'a>, Arg<'a>)>,
    },
    /// Anything that prints itself: an `error` or a `fmt.Stringer`.
    ///
    /// Go prints the insides of such a value for verbs other than `v`, `s`, `q`, `x` and `X`, and
    /// for `%#v`; those are not known here, and its text stands in for them.
    Stringer {
        /// The name of its Go type.
        type_name: Cow<'a, str>,
        /// The result of its `Error` or `String` method.
        text: Cow<'a, str>,
    },
    /// An integer that prints itself, such as a `time.Month`: its text for the verbs of strings, the
    /// number for all others.
    NamedInt {
        /// The number.
        value: i64,
        /// The name of its Go type.
        type_name: &'a str,
        /// The result of its `String` method.
        text: Cow<'a, str>,
    },
    /// A value as `encoding/json` decodes it into an `interface{}`: `float64`, `string`, `bool`,
    /// `nil`, `[]interface {}` and `map[string]interface {}`.
    Value(&'a Value),
}

impl<'a> Arg<'a> {
    /// An `int`.
    pub fn int(value: i64) -> Self {
        Self::Int(value, "int")
    }

    /// A `string`.
    pub fn string(text: impl Into<Cow<'a, str>>) -> Self {
        Self::String(text.into())
    }

    /// An `[]interface {}`.
    pub fn list(elements: Vec<Self>) -> Self {
        Self::List { type_name: Cow::Borrowed("[]interface {}"), elements }
    }

    /// The name of its type, as `%T` prints it.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Nil | Self::Value(Value::Null) => "<nil>",
            Self::Bool(_) | Self::Value(Value::Bool(_)) => "bool",
            Self::Int(_, name) | Self::Uint(_, name) | Self::NamedInt { type_name: name, .. } => {
                name
            }
            Self::BigInt(_) => "*big.Int",
            Self::Float(_) | Self::Value(Value::Number(_)) => "float64",
            Self::String(_) | Self::Value(Value::String(_)) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::List { type_name, .. }
            | Self::Map { type_name, .. }
            | Self::Stringer { type_name, .. } => type_name,
            Self::Value(Value::Array(_)) => "[]interface {}",
            Self::Value(Value::Object(_)) => "map[string]interface {}",
        }
    }

    fn is_nil(&self) -> bool {
        matches!(self, Self::Nil | Self::Value(Value::Null))
    }

    fn is_string(&self) -> bool {
        matches!(self, Self::String(_) | Self::Value(Value::String(_)))
    }

    /// As a width or precision.
    fn as_count(&self) -> Option<i64> {
        match self {
            Self::Int(value, _) => Some(*value),
            Self::Uint(value, _) => i64::try_from(*value).ok(),
            _ => None,
        }
    }
}

impl<'a> From<&'a Value> for Arg<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Value(value)
    }
}

/// `fmt.Sprintf(format, args...)`.
///
/// Bytes that are not UTF-8, as `%s` of a byte slice may give, become U+FFFD. Parts of a document
/// that nest deeper than [`MAX_DEPTH`] levels are printed as by `%v`, whatever the verb.
///
/// # Errors
///
/// When the text would exceed the bytes left in `budget`.
pub fn sprintf(format: &str, args: &[Arg<'_>], budget: &Budget<'_>) -> Result<String, Exhausted> {
    let mut printer = Printer::new(budget);
    printer.out.reserve(format.len().saturating_add(args.len().saturating_mul(16)));
    printer.printf(format, args)?;
    Ok(printer.finish())
}

/// `fmt.Sprint(args...)`: spaces between operands when neither is a string.
///
/// # Errors
///
/// When the text would exceed the bytes left in `budget`.
pub fn sprint(args: &[Arg<'_>], budget: &Budget<'_>) -> Result<String, Exhausted> {
    let mut printer = Printer::new(budget);
    let mut after_string = true;
    for arg in args {
        let is_string = arg.is_string();
        if !after_string && !is_string {
            printer.write(" ")?;
        }
        printer.arg(arg, 'v')?;
        after_string = is_string;
    }
    Ok(printer.finish())
}

/// `fmt.Sprintln(args...)`: spaces between operands and a newline at the end.
///
/// # Errors
///
/// When the text would exceed the bytes left in `budget`.
pub fn sprintln(args: &[Arg<'_>], budget: &Budget<'_>) -> Result<String, Exhausted> {
    let mut printer = Printer::new(budget);
    for (index, arg) in args.iter().enumerate() {
        if index > 0 {
            printer.write(" ")?;
        }
        printer.arg(arg, 'v')?;
    }
    printer.write("\n")?;
    Ok(printer.finish())
}

/// Widths, precisions and argument numbers beyond this are errors.
const MAX_COUNT: i64 = 1_000_000;

/// The flags, width and precision of one directive.
#[derive(Debug, Clone, Copy, Default)]
struct Spec {
    width: Option<usize>,
    precision: Option<usize>,
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v` and `%#v`, for which the plain flags are off.
    plus_v: bool,
    sharp_v: bool,
}

struct Printer<'b> {
    out: Vec<u8>,
    budget: &'b Budget<'b>,
    spec: Spec,
}

/// The format, the place in it, and the argument that comes next.
struct Directive<'f, 'a> {
    format: &'f [u8],
    at: usize,
    args: &'a [Arg<'a>],
    next: usize,
    good_index: bool,
    reordered: bool,
}

impl Directive<'_, '_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// `[n]`; whether there was one.
    fn index(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = self.format.get(self.at..).unwrap_or_default();
        let close = rest.iter().position(|byte| *byte == b']').filter(|_| rest.len() >= 3);
        let Some(close) = close else {
            self.good_index = false;
            self.at += 1;
            return false;
        };
        let (number, end) = number(rest, 1, close);
        self.at += close + 1;
        let Some(number) = number.filter(|_| end == close) else {
            self.good_index = false;
            return false;
        };
        match usize::try_from(number - 1) {
            Ok(index) if index < self.args.len() => self.next = index,
            _ => self.good_index = false,
        }
        true
    }

    /// The next argument as a width or precision.
    fn count_argument(&mut self) -> Option<i64> {
        let arg = self.args.get(self.next)?;
        self.next += 1;
        arg.as_count().filter(|count| (-MAX_COUNT..=MAX_COUNT).contains(count))
    }

    fn count(&mut self) -> Option<i64> {
        let (count, end) = number(self.format, self.at, self.format.len());
        self.at = end;
        count
    }
}

/// The decimal number in `text` from `start`, and where it ends. Of a number that is far too large
/// Go skips all that follows.
fn number(text: &[u8], start: usize, end: usize) -> (Option<i64>, usize) {
    let mut value = None;
    let mut at = start;
    while at < end
        && let Some(digit @ b'0'..=b'9') = text.get(at)
    {
        let so_far = value.unwrap_or(0);
        if so_far > MAX_COUNT {
            return (None, end);
        }
        value = Some(so_far * 10 + i64::from(digit - b'0'));
        at += 1;
    }
    (value, at)
}

impl<'b> Printer<'b> {
    fn new(budget: &'b Budget<'b>) -> Self {
        Self { out: Vec::new(), budget, spec: Spec::default() }
    }

    fn finish(self) -> String {
        String::from_utf8(self.out)
            .unwrap_or_else(|error| json::lossy(error.as_bytes()).into_owned())
    }

    fn write(&mut self, text: &str) -> Result<(), Exhausted> {
        self.write_bytes(text.as_bytes())
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        self.reserve(bytes.len())?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn write_char(&mut self, character: char) -> Result<(), Exhausted> {
        self.write(character.encode_utf8(&mut [0; 4]))
    }

    fn repeat(&mut self, byte: u8, count: usize) -> Result<(), Exhausted> {
        self.reserve(count)?;
        self.out.resize(self.out.len() + count, byte);
        Ok(())
    }

    /// Charges for so many bytes more, and makes room for them.
    fn reserve(&mut self, count: usize) -> Result<(), Exhausted> {
        let room = self.budget.append(self.out.len(), self.out.capacity(), count)?;
        self.out.reserve_exact(room);
        Ok(())
    }

    fn printf(&mut self, format: &str, args: &[Arg<'_>]) -> Result<(), Exhausted> {
        let mut d = Directive {
            format: format.as_bytes(),
            at: 0,
            args,
            next: 0,
            good_index: true,
            reordered: false,
        };
        loop {
            let rest = format.get(d.at..).unwrap_or_default();
            let plain = rest.find('%').unwrap_or(rest.len());
            self.write(rest.get(..plain).unwrap_or_default())?;
            d.at += plain + 1;
            if plain == rest.len() {
                break;
            }
            self.budget.spend(1)?;
            // A bare `%v` or `%s` of a text, which is most of what policies print.
            if let Some(b'v' | b's') = d.format.get(d.at)
                && let Some(Arg::String(text)) = args.get(d.next)
            {
                self.write(text)?;
                d.at += 1;
                d.next += 1;
                continue;
            }
            d.good_index = true;
            self.spec = Spec::default();
            self.flags(&mut d);
            let mut after_index = d.index();
            self.width(&mut d, &mut after_index)?;
            self.precision(&mut d, &mut after_index)?;
            if !after_index {
                d.index();
            }
            let Some(verb) = format.get(d.at..).and_then(|rest| rest.chars().next()) else {
                self.write("%!(NOVERB)")?;
                break;
            };
            d.at += verb.len_utf8();
            if verb == '%' {
                self.write("%")?;
            } else if !d.good_index {
                self.complain(verb, "(BADINDEX)")?;
            } else if let Some(arg) = args.get(d.next) {
                d.next += 1;
                if matches!(verb, 'v' | 'w') {
                    self.spec.sharp_v = std::mem::take(&mut self.spec.sharp);
                    self.spec.plus_v = std::mem::take(&mut self.spec.plus);
                }
                self.arg(arg, verb)?;
            } else {
                self.complain(verb, "(MISSING)")?;
            }
        }
        if !d.reordered && d.next < args.len() {
            self.spec = Spec::default();
            self.write("%!(EXTRA ")?;
            for (index, arg) in args.iter().skip(d.next).enumerate() {
                if index > 0 {
                    self.write(", ")?;
                }
                if !arg.is_nil() {
                    self.write(arg.type_name())?;
                    self.write("=")?;
                }
                self.arg(arg, 'v')?;
            }
            self.write(")")?;
        }
        Ok(())
    }

    fn flags(&mut self, d: &mut Directive<'_, '_>) {
        while let Some(flag) = d.peek() {
            match flag {
                b'#' => self.spec.sharp = true,
                b'0' => self.spec.zero = true,
                b'+' => self.spec.plus = true,
                b'-' => self.spec.minus = true,
                b' ' => self.spec.space = true,
                _ => return,
            }
            d.at += 1;
        }
    }

    fn width(
        &mut self,
        d: &mut Directive<'_, '_>,
        after_index: &mut bool,
    ) -> Result<(), Exhausted> {
        if d.peek() == Some(b'*') {
            d.at += 1;
            *after_index = false;
            let width = d.count_argument();
            self.spec.minus |= width.is_some_and(|width| width < 0);
            self.spec.width = width.and_then(|width| usize::try_from(width.abs()).ok());
            if width.is_none() {
                self.write("%!(BADWIDTH)")?;
            }
        } else {
            self.spec.width = d.count().and_then(|width| usize::try_from(width).ok());
            if *after_index && self.spec.width.is_some() {
                d.good_index = false;
            }
        }
        Ok(())
    }

    fn precision(
        &mut self,
        d: &mut Directive<'_, '_>,
        after_index: &mut bool,
    ) -> Result<(), Exhausted> {
        // At the very end Go takes the point for the verb.
        if d.peek() != Some(b'.') || d.at + 1 == d.format.len() {
            return Ok(());
        }
        d.at += 1;
        if *after_index {
            d.good_index = false;
        }
        *after_index = d.index();
        if d.peek() == Some(b'*') {
            d.at += 1;
            *after_index = false;
            let precision = d.count_argument();
            self.spec.precision = precision.and_then(|precision| usize::try_from(precision).ok());
            if self.spec.precision.is_none() {
                self.write("%!(BADPREC)")?;
            }
        } else {
            let precision = d.count().unwrap_or(0);
            self.spec.precision = usize::try_from(precision).ok();
        }
        Ok(())
    }

    fn complain(&mut self, verb: char, what: &str) -> Result<(), Exhausted> {
        self.write("%!")?;
        self.write_char(verb)?;
        self.write(what)
    }

    /// A verb that does not fit its argument.
    fn bad_verb(&mut self, arg: &Arg<'_>, verb: char) -> Result<(), Exhausted> {
        self.complain(verb, "(")?;
        if arg.is_nil() {
            self.write("<nil>")?;
        } else {
            self.write(arg.type_name())?;
            self.write("=")?;
            self.arg(arg, 'v')?;
        }
        self.write(")")
    }

    fn arg(&mut self, arg: &Arg<'_>, verb: char) -> Result<(), Exhausted> {
        match verb {
            'T' | 'v' if arg.is_nil() => return self.pad("<nil>"),
            'T' => return self.string(arg.type_name()),
            // Addresses mean nothing here.
            'p' => return self.bad_verb(arg, verb),
            // For `Errorf` alone; the bytes of a slice are refused one by one.
            'w' if !matches!(arg, Arg::Bytes(_)) => return self.bad_verb(arg, verb),
            _ => {}
        }
        self.element(arg, verb, 0)
    }

    /// An argument, or something inside one.
    fn element(&mut self, arg: &Arg<'_>, verb: char, depth: usize) -> Result<(), Exhausted> {
        self.budget.spend(1)?;
        match arg {
            // Documents may be deeper than calls may be nested.
            Arg::Value(value @ (Value::Array(_) | Value::Object(_))) if depth >= MAX_DEPTH => {
                self.write(&super::text(value))
            }
            Arg::Nil | Arg::Value(Value::Null) => match depth {
                0 => self.bad_verb(arg, verb),
                _ if self.spec.sharp_v => self.write("interface {}(nil)"),
                _ => self.write("<nil>"),
            },
            Arg::Bool(value) | Arg::Value(Value::Bool(value)) => match verb {
                't' | 'v' => self.pad(if *value { "true" } else { "false" }),
                _ => self.bad_verb(arg, verb),
            },
            Arg::Int(value, _) => self.integer(arg, value.unsigned_abs(), *value < 0, true, verb),
            Arg::Uint(value, _) => self.integer(arg, *value, false, false, verb),
            Arg::BigInt(digits) => self.big_integer(digits, verb),
            Arg::Float(value) => self.float(arg, *value, verb),
            Arg::Value(Value::Number(number)) => self.float(arg, number.as_f64(), verb),
            Arg::String(text) => self.text(arg, text, verb),
            Arg::Value(Value::String(text)) => self.text(arg, text, verb),
            Arg::Stringer { text, .. } => match verb {
                'v' => self.string(text),
                _ => self.text(arg, text, verb),
            },
            Arg::NamedInt { text, .. } if verb == 'v' && !self.spec.sharp_v => self.string(text),
            Arg::NamedInt { text, .. } if matches!(verb, 's' | 'q' | 'x' | 'X') => {
                self.text(arg, text, verb)
            }
            Arg::NamedInt { value, .. } => {
                self.integer(arg, value.unsigned_abs(), *value < 0, true, verb)
            }
            Arg::Bytes(bytes) => self.bytes(bytes, verb),
            Arg::List { type_name, elements } => self.sequence(type_name, elements, verb, depth),
            Arg::Value(Value::Array(elements)) => {
                self.sequence(arg.type_name(), elements.iter().map(Arg::Value), verb, depth)
            }
            Arg::Map { type_name, entries } => {
                let mut sorted: Vec<&(Arg<'_>, Arg<'_>)> = entries.iter().collect();
                sorted.sort_by(|(a, _), (b, _)| key_order(a, b));
                let entries = sorted.into_iter().map(|(key, value)| (key, value));
                self.map(type_name, entries, verb, depth)
            }
            Arg::Value(Value::Object(members)) => {
                let entries = members
                    .iter()
                    .map(|(key, value)| (Arg::String(Cow::Borrowed(key)), Arg::Value(value)));
                self.map(arg.type_name(), entries, verb, depth)
            }
        }
    }

    fn sequence<'a>(
        &mut self,
        type_name: &str,
        elements: impl IntoIterator<Item = impl Borrow<Arg<'a>>>,
        verb: char,
        depth: usize,
    ) -> Result<(), Exhausted> {
        let sharp_v = self.spec.sharp_v;
        if sharp_v {
            self.write(type_name)?;
        }
        self.write(if sharp_v { "{" } else { "[" })?;
        for (index, element) in elements.into_iter().enumerate() {
            if index > 0 {
                self.write(if sharp_v { ", " } else { " " })?;
            }
            self.element(element.borrow(), verb, depth + 1)?;
        }
        self.write(if sharp_v { "}" } else { "]" })
    }

    fn map<'a>(
        &mut self,
        type_name: &str,
        entries: impl Iterator<Item = (impl Borrow<Arg<'a>>, impl Borrow<Arg<'a>>)>,
        verb: char,
        depth: usize,
    ) -> Result<(), Exhausted> {
        let sharp_v = self.spec.sharp_v;
        if sharp_v {
            self.write(type_name)?;
        }
        self.write(if sharp_v { "{" } else { "map[" })?;
        for (index, (key, value)) in entries.enumerate() {
            if index > 0 {
                self.write(if sharp_v { ", " } else { " " })?;
            }
            self.element(key.borrow(), verb, depth + 1)?;
            self.write(":")?;
            self.element(value.borrow(), verb, depth + 1)?;
        }
        self.write(if sharp_v { "}" } else { "]" })
    }

    // Padding.

    fn padding(&mut self, count: usize) -> Result<(), Exhausted> {
        // Zeros only ever go to the left.
        self.repeat(if self.spec.zero && !self.spec.minus { b'0' } else { b' ' }, count)
    }

    fn pad(&mut self, text: &str) -> Result<(), Exhausted> {
        self.pad_bytes(text.as_bytes(), text.chars().count())
    }

    fn pad_bytes(&mut self, bytes: &[u8], characters: usize) -> Result<(), Exhausted> {
        let missing = self.spec.width.unwrap_or(0).saturating_sub(characters);
        if !self.spec.minus {
            self.padding(missing)?;
        }
        self.write_bytes(bytes)?;
        if self.spec.minus {
            self.padding(missing)?;
        }
        Ok(())
    }

    /// Pads with spaces whatever the flags: zeros were dealt with already.
    fn pad_with_spaces(&mut self, text: &str) -> Result<(), Exhausted> {
        let zero = std::mem::take(&mut self.spec.zero);
        let result = self.pad(text);
        self.spec.zero = zero;
        result
    }

    // Text.

    fn text(&mut self, arg: &Arg<'_>, text: &str, verb: char) -> Result<(), Exhausted> {
        match verb {
            'v' if self.spec.sharp_v => self.quoted(text.as_bytes()),
            'v' | 's' => self.string(text),
            'x' | 'X' => self.hex_bytes(text.as_bytes(), verb == 'X'),
            'q' => self.quoted(text.as_bytes()),
            _ => self.bad_verb(arg, verb),
        }
    }

    fn bytes(&mut self, bytes: &[u8], verb: char) -> Result<(), Exhausted> {
        match verb {
            'v' | 'd' if self.spec.sharp_v => {
                self.write("[]byte{")?;
                for (index, byte) in bytes.iter().enumerate() {
                    if index > 0 {
                        self.write(", ")?;
                    }
                    self.sharp_hex(u64::from(*byte))?;
                }
                self.write("}")
            }
            's' => {
                let bytes = truncate(bytes, self.spec.precision);
                self.pad_bytes(bytes, characters(bytes))
            }
            'x' | 'X' => self.hex_bytes(bytes, verb == 'X'),
            'q' => self.quoted(bytes),
            _ => {
                let elements = bytes.iter().map(|byte| Arg::Uint(u64::from(*byte), "uint8"));
                self.sequence("[]uint8", elements, verb, 0)
            }
        }
    }

    fn string(&mut self, text: &str) -> Result<(), Exhausted> {
        let bytes = truncate(text.as_bytes(), self.spec.precision);
        self.pad_bytes(bytes, characters(bytes))
    }

    fn quoted(&mut self, bytes: &[u8]) -> Result<(), Exhausted> {
        let bytes = truncate(bytes, self.spec.precision);
        // Escapes are at most ten bytes for a character, four for a stray byte.
        self.budget.allocate(bytes.len())?;
        let text = match std::str::from_utf8(bytes) {
            Ok(text) if self.spec.sharp && quote::can_backquote(text) => format!("`{text}`"),
            _ => {
                let quoting = if self.spec.plus { Quoting::Ascii } else { Quoting::Printable };
                quote::quote_as(bytes, quoting)
            }
        };
        self.pad(&text)
    }

    fn hex_bytes(&mut self, bytes: &[u8], upper: bool) -> Result<(), Exhausted> {
        let length = self.spec.precision.unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.get(..length).unwrap_or_default();
        let Spec { sharp, space, minus, width, .. } = self.spec;
        let prefix = if upper { "0X" } else { "0x" };
        let printed = match (space, sharp) {
            _ if length == 0 => 0,
            (true, true) => length * 5 - 1,
            (true, false) => length * 3 - 1,
            (false, true) => length * 2 + 2,
            (false, false) => length * 2,
        };
        let missing = width.unwrap_or(0).saturating_sub(printed);
        if !minus || length == 0 {
            self.padding(missing)?;
        }
        for (index, byte) in bytes.iter().enumerate() {
            if space && index > 0 {
                self.write(" ")?;
            }
            if sharp && (space || index == 0) {
                self.write(prefix)?;
            }
            self.write(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") })?;
        }
        if minus && length > 0 {
            self.padding(missing)?;
        }
        Ok(())
    }

    // Numbers.
}

/// The first `precision` characters; a stray byte counts as one.
fn truncate(bytes: &[u8], precision: Option<usize>) -> &[u8] {
    let Some(mut left) = precision else {
        return bytes;
    };
    let mut end = 0;
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if left == 0 {
                return bytes.get(..end).unwrap_or_default();
            }
            left -= 1;
            end += character.len_utf8();
        }
        for _ in chunk.invalid() {
            if left == 0 {
                return bytes.get(..end).unwrap_or_default();
            }
            left -= 1;
            end += 1;
        }
    }
    bytes
}

/// How many characters; a stray byte counts as one.
fn characters(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// The order in which Go prints the keys of a map.
fn key_order(a: &Arg<'_>, b: &Arg<'_>) -> Ordering {
    fn rank(arg: &Arg<'_>) -> u8 {
        match arg {
            _ if arg.is_nil() => 0,
            Arg::Bool(_) => 1,
            Arg::Int(..) => 2,
            Arg::Uint(..) => 3,
            Arg::Float(_) => 4,
            _ => 5,
        }
    }
    match (a, b) {
        (Arg::Bool(a), Arg::Bool(b)) => a.cmp(b),
        (Arg::Int(a, _), Arg::Int(b, _)) => a.cmp(b),
        (Arg::Uint(a, _), Arg::Uint(b, _)) => a.cmp(b),
        (Arg::Float(a), Arg::Float(b)) => {
            // Not-a-number comes first.
            a.partial_cmp(b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
        }
        (
            Arg::String(a) | Arg::Stringer { text: a, .. },
            Arg::String(b) | Arg::Stringer { text: b, .. },
        ) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}
