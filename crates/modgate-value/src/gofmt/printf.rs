use std::borrow::Cow;

use crate::{Budget, Exhausted, Value};

/// One argument of [`sprintf`], with the Go type it has.
#[derive(Debug, Clone)]
pub enum Arg<'a> {
    /// An untyped `nil`.
    Nil,
    /// A `bool`.
    Bool(bool),
    /// A signed integer and the name of its Go type: `int`, `int64`, `time.Duration`…
    Int(i64, &'a str),
    /// An unsigned integer and the name of its Go type: `uint`, `uint8`…
    Uint(u64, &'a str),
    /// A `*big.Int`: decimal digits with an optional leading `-`.
    BigInt(Cow<'a, str>),
    /// A `float64`.
    Float(f64),
    /// A `string`.
    String(Cow<'a, str>),
    /// A `[]byte` (`[]uint8`).
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
    Stringer {
        /// The name of its Go type.
        type_name: Cow<'a, str>,
        /// What its `Error` or `String` method returns.
        text: Cow<'a, str>,
    },
    /// A value as `encoding/json` decodes it into an `interface{}`: `float64`, `string`, `bool`,
    /// `nil`, `[]interface {}` and `map[string]interface {}`.
    Value(&'a Value),
}

/// `fmt.Sprintf(format, args...)`.
///
/// # Errors
///
/// When the text would exceed the bytes left in `budget`.
pub fn sprintf(format: &str, args: &[Arg<'_>], budget: &Budget<'_>) -> Result<String, Exhausted> {
    let _ = (format, args, budget);
    Ok(String::new())
}

/// `fmt.Sprint(args...)`: spaces between operands when neither is a string.
///
/// # Errors
///
/// When the text would exceed the bytes left in `budget`.
pub fn sprint(args: &[Arg<'_>], budget: &Budget<'_>) -> Result<String, Exhausted> {
    let _ = (args, budget);
    Ok(String::new())
}

/// `fmt.Sprintln(args...)`: spaces between operands and a newline at the end.
///
/// # Errors
///
/// When the text would exceed the bytes left in `budget`.
pub fn sprintln(args: &[Arg<'_>], budget: &Budget<'_>) -> Result<String, Exhausted> {
    let _ = (args, budget);
    Ok(String::new())
}
