//! Writes results as Go writes JSON and YAML.

mod json;
mod table;
mod yaml;

use std::{borrow::Cow, cmp::Ordering};

use modgate_value::{Number, Str, Value};

pub(crate) use self::{
    json::pretty as json,
    table::align,
    yaml::{Layout, Style, write as yaml},
};

/// A tree whose maps keep the order in which they are written down.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    /// Maps in here are sorted.
    Value(Value),
    Map(Vec<(Str, Node)>),
    List(Vec<Node>),
}

impl Node {
    pub(crate) fn text(text: impl Into<Str>) -> Self {
        Self::Value(Value::String(text.into()))
    }

    pub(crate) fn map<const N: usize>(members: [(&str, Self); N]) -> Self {
        Self::Map(members.into_iter().map(|(key, node)| (key.into(), node)).collect())
    }

    /// One level of it.
    fn shape(&self) -> Shape<'_> {
        let of_value = |value: &Value| Cow::Owned(Self::Value(value.clone()));
        match self {
            Self::Value(Value::Object(members)) => {
                Shape::Map(members.iter().map(|(key, value)| (key, of_value(value))).collect())
            }
            Self::Value(Value::Array(items)) => Shape::List(items.iter().map(of_value).collect()),
            Self::Value(scalar) => Shape::Scalar(scalar),
            Self::Map(members) => {
                Shape::Map(members.iter().map(|(key, node)| (key, Cow::Borrowed(node))).collect())
            }
            Self::List(items) => Shape::List(items.iter().map(Cow::Borrowed).collect()),
        }
    }
}

/// One level of a [`Node`].
enum Shape<'n> {
    Scalar(&'n Value),
    Map(Vec<Member<'n>>),
    List(Vec<Cow<'n, Node>>),
}

type Member<'n> = (&'n Str, Cow<'n, Node>);

/// A number as Go writes it once it is decoded: an integer of 64 bits, or a float.
fn number(number: &Number) -> String {
    match number.as_i64() {
        Some(int) if number.is_integer_text() => int.to_string(),
        _ => Number::from_f64(number.as_f64())
            .map_or_else(|| number.to_string(), |float| float.to_string()),
    }
}

/// go-yaml's order of keys: as people would, `a2` before `a10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let value = |text: &[char]| {
        let digits: Vec<u32> = text.iter().map_while(|digit| digit.to_digit(10)).collect();
        let value = digits
            .iter()
            .fold(0_i64, |sum, digit| sum.wrapping_mul(10).wrapping_add(i64::from(*digit)));
        (value, digits.len())
    };
    let mut digits = false;
    for (index, (x, y)) in a.iter().zip(&b).enumerate() {
        if x == y {
            digits = x.is_numeric();
            continue;
        }
        let less = match (x.is_alphabetic(), y.is_alphabetic()) {
            (true, true) => x < y,
            (x_letter, false) if x_letter => digits,
            (false, true) => !digits,
            _ => {
                let rest = |text: &[char]| value(text.get(index..).unwrap_or_default());
                let (mut first, mut second) = (rest(&a), rest(&b));
                if *x == '0' || *y == '0' {
                    // Zeros inside a number count by their place.
                    let before = a.get(..index).unwrap_or_default().iter().rev();
                    let inside = before.take_while(|c| c.is_numeric()).any(|c| *c != '0');
                    if inside {
                        let place = |(value, length): (i64, usize)| {
                            let power = u32::try_from(length).unwrap_or(u32::MAX);
                            (value.wrapping_add(10_i64.wrapping_pow(power)), length)
                        };
                        (first, second) = (place(first), place(second));
                    }
                }
                match first.cmp(&second) {
                    Ordering::Equal => x < y,
                    order => order == Ordering::Less,
                }
            }
        };
        return if less { Ordering::Less } else { Ordering::Greater };
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_of_keys() {
        for (a, b) in
            [("a2", "a10"), ("a_b", "aB"), ("a", "ab"), ("a-b", "ab"), ("A", "a"), ("1", "a")]
        {
            assert_eq!(natural(a, b), Ordering::Less, "{a} {b}");
            assert_eq!(natural(b, a), Ordering::Greater, "{b} {a}");
        }
    }
}
