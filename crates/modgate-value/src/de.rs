//! Typed structs out of a [`Value`]: `T::deserialize(&value)`.

use serde::{
    Deserializer,
    de::{
        DeserializeSeed, EnumAccess, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
        Unexpected, VariantAccess, Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};

use crate::{MAX_DEPTH, Str, TooDeep, Value, near};

/// Why a value does not have the shape of a type, with the path to the offending member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}{message}", path, if path.is_empty() { "" } else { ": " })]
pub struct DecodeError {
    /// Where, as Kubernetes writes field paths: `spec.match[0].select`; empty at the root.
    pub path: String,
    /// The problem there.
    pub message: String,
}

impl DecodeError {
    fn under_key(mut self, key: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{key}{dot}{}", self.path);
        self
    }

    fn under_index(mut self, index: usize) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{index}]{dot}{}", self.path);
        self
    }
}

impl serde::de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self { path: String::new(), message: message.to_string() }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let wanted = wanted(&expected.to_string(), false);
        Self::custom(format_args!("expected {wanted}, got {}", shown(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let wanted = wanted(&expected.to_string(), true);
        Self::custom(format_args!("expected {wanted}, got {}", shown(found)))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let help = near::did_you_mean_or(variant, expected, "the values are");
        Self::custom(format_args!("there is no value `{variant}`; {help}"))
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let help = near::did_you_mean_or(field, expected, "the fields are");
        Self::custom(format_args!("there is no field `{field}`; {help}"))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::custom(format_args!("the field `{field}` is missing"))
    }
}

/// The longest part of a text that a message has.
const MAX_SHOWN: usize = 60;

/// A value in the words of YAML.
fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit => "null".to_owned(),
        Unexpected::Map => "an object".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Bool(value) => format!("the boolean `{value}`"),
        Unexpected::Unsigned(number) => format!("the number `{number}`"),
        Unexpected::Signed(number) => format!("the number `{number}`"),
        Unexpected::Float(number) => format!("the number `{number}`"),
        Unexpected::Str(text) => {
            let cut: String = text.chars().take(MAX_SHOWN).collect();
            let more = if cut.len() < text.len() { "…" } else { "" };
            format!("the string `{cut}{more}`")
        }
        other => other.to_string(),
    }
}

/// A type in the words of YAML; with `ranges`, a number has its limits.
fn wanted(expected: &str, ranges: bool) -> String {
    let between = |least: i64, most: i64| match ranges {
        true => format!("a whole number from {least} to {most}"),
        false => "a whole number".to_owned(),
    };
    match expected {
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "i8" => between(i8::MIN.into(), i8::MAX.into()),
        "i16" => between(i16::MIN.into(), i16::MAX.into()),
        "i32" => between(i32::MIN.into(), i32::MAX.into()),
        "i64" => between(i64::MIN, i64::MAX),
        "u8" => between(0, u8::MAX.into()),
        "u16" => between(0, u16::MAX.into()),
        "u32" => between(0, u32::MAX.into()),
        "u64" | "usize" => "a whole number from 0".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        text if text.starts_with("struct ") => "an object".to_owned(),
        text => text.to_owned(),
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Ends in an error beyond [`MAX_DEPTH`] levels of what the type asks for, because serde recurses.
impl<'de> Deserializer<'de> for &'de Value {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        Nested::outermost(self).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        Nested::outermost(self).deserialize_option(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        Nested::outermost(self).deserialize_struct(name, fields, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        Nested::outermost(self).deserialize_newtype_struct(name, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        Nested::outermost(self).deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map identifier
    }
}

/// A value inside of so many containers.
#[derive(Clone, Copy)]
struct Nested<'de> {
    value: &'de Value,
    depth: usize,
}

impl<'de> Nested<'de> {
    fn outermost(value: &'de Value) -> Self {
        Self { value, depth: 0 }
    }

    /// A part of this container.
    fn part(self, value: &'de Value) -> Self {
        Self { value, depth: self.depth + 1 }
    }
}

/// Null is the zero value of a type, as Go decodes it.
macro_rules! null_is_zero {
    ($($name:ident: $visit:ident($zero:expr)),*) => {
        $(fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            match self.value {
                Value::Null => visitor.$visit($zero),
                _ => self.deserialize_any(visitor),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Nested<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if self.depth > MAX_DEPTH {
            return Err(DecodeError::custom(TooDeep { limit: MAX_DEPTH }));
        }
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(int) => visitor.visit_i64(int),
                None => visitor.visit_f64(number.as_f64()),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => {
                visitor.visit_seq(Elements { list: self, rest: elements.iter().enumerate() })
            }
            Value::Object(members) => {
                visitor.visit_map(Members { map: self, rest: members.iter(), member: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// Null is an object without members. serde would read a list as the fields in their order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_map(Members { map: self, rest: [].iter(), member: None }),
            Value::Array(_) => Err(DecodeError::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::String(variant) => visitor.visit_enum(Variant { name: variant, content: None }),
            Value::Object(members) => match members.as_slice() {
                [(name, content)] => {
                    let content = Some(self.part(content));
                    visitor.visit_enum(Variant { name, content })
                }
                _ => Err(DecodeError::invalid_type(Unexpected::Map, &"an object with one member")),
            },
            other => Err(DecodeError::invalid_type(unexpected(other), &"a string")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_seq(Elements { list: self, rest: [].iter().enumerate() }),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_map(Members { map: self, rest: [].iter(), member: None }),
            _ => self.deserialize_any(visitor),
        }
    }

    null_is_zero! {
        deserialize_bool: visit_bool(false), deserialize_str: visit_borrowed_str(""),
        deserialize_string: visit_borrowed_str(""), deserialize_i8: visit_i64(0),
        deserialize_i16: visit_i64(0), deserialize_i32: visit_i64(0), deserialize_i64: visit_i64(0),
        deserialize_u8: visit_i64(0), deserialize_u16: visit_i64(0), deserialize_u32: visit_i64(0),
        deserialize_u64: visit_i64(0), deserialize_f32: visit_i64(0), deserialize_f64: visit_i64(0)
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Unexpected::Signed(int),
            None => Unexpected::Float(number.as_f64()),
        },
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}

struct Elements<'de> {
    list: Nested<'de>,
    rest: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        self.rest
            .next()
            .map(|(index, element)| {
                seed.deserialize(self.list.part(element)).map_err(|error| error.under_index(index))
            })
            .transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Members<'de> {
    map: Nested<'de>,
    rest: std::slice::Iter<'de, (Str, Value)>,
    member: Option<&'de (Str, Value)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, DecodeError> {
        self.member = self.rest.next();
        self.member
            .map(|(key, _)| {
                let key: StrDeserializer<'_, DecodeError> = key.as_str().into_deserializer();
                seed.deserialize(key)
            })
            .transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, DecodeError> {
        let Some((key, member)) = self.member else {
            return Err(DecodeError::custom("a member's value was asked for before its key"));
        };
        seed.deserialize(self.map.part(member)).map_err(|error| error.under_key(key))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Variant<'de> {
    name: &'de Str,
    content: Option<Nested<'de>>,
}

const NULL: &Value = &Value::Null;

impl<'de> Variant<'de> {
    fn content(&self) -> Nested<'de> {
        self.content.unwrap_or(Nested::outermost(NULL))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(
        self,
        seed: V,
    ) -> Result<(V::Value, Self), DecodeError> {
        let name: StrDeserializer<'_, DecodeError> = self.name.as_str().into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        match self.content().value {
            Value::Null => Ok(()),
            other => Err(DecodeError::invalid_type(unexpected(other), &"nothing")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<T::Value, DecodeError> {
        seed.deserialize(self.content()).map_err(|error| error.under_key(self.name))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.content().deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.content().deserialize_struct("", fields, visitor)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Spec {
        name: String,
        #[serde(default)]
        ports: Vec<Port>,
        mode: Option<Mode>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Port {
        number: u16,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    enum Mode {
        Any,
        All,
    }

    fn decode(text: &str) -> Result<Spec, DecodeError> {
        Spec::deserialize(&Value::from_json(text.as_bytes()).expect(text))
    }

    #[test]
    fn typed() {
        assert_eq!(
            decode(r#"{"name": "a", "ports": [{"number": 80}], "mode": "All", "other": 1}"#),
            Ok(Spec { name: "a".into(), ports: vec![Port { number: 80 }], mode: Some(Mode::All) })
        );
        assert_eq!(
            decode(r#"{"name": "a", "mode": null}"#),
            Ok(Spec { name: "a".into(), ports: vec![], mode: None })
        );
    }

    #[test]
    fn errors_name_the_field() {
        for (text, path) in [
            (r#"{"name": 1}"#, "name"),
            (r#"{"name": "a", "ports": [{"number": 80}, {"number": "x"}]}"#, "ports[1].number"),
            (r#"{"name": "a", "ports": [{"number": 70000}]}"#, "ports[0].number"),
            (r#"{"name": "a", "ports": [{}]}"#, "ports[0]"),
            (r#"{"name": "a", "ports": [[80]]}"#, "ports[0]"),
            (r#"{"name": "a", "mode": "Some"}"#, "mode"),
            (r#"["a"]"#, ""),
        ] {
            assert_eq!(decode(text).expect_err(text).path, path);
        }
    }
}
