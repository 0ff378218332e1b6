//! A [`Value`] as any serde format's output, and as any serde format's input.

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
    ser::{self, SerializeMap as _, SerializeSeq as _},
};

use crate::{MAX_DEPTH, Number, Object, Str, TooDeep, Value};

/// Ends in an error beyond [`MAX_DEPTH`] levels, because serde recurses.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Nested { value: self, depth: 0 }.serialize(serializer)
    }
}

/// A value inside of so many containers.
struct Nested<'a> {
    value: &'a Value,
    depth: usize,
}

impl Serialize for Nested<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let depth = self.depth + 1;
        let container = matches!(self.value, Value::Array(_) | Value::Object(_));
        if container && depth > MAX_DEPTH {
            return Err(ser::Error::custom(TooDeep { limit: MAX_DEPTH }));
        }
        match self.value {
            Value::Null => serializer.serialize_unit(),
            Value::Bool(value) => serializer.serialize_bool(*value),
            Value::Number(number) => match number.as_i64() {
                Some(int) if number.is_integer_text() => serializer.serialize_i64(int),
                _ => serializer.serialize_f64(number.as_f64()),
            },
            Value::String(text) => serializer.serialize_str(text),
            Value::Array(elements) => {
                let mut seq = serializer.serialize_seq(Some(elements.len()))?;
                for value in elements {
                    seq.serialize_element(&Nested { value, depth })?;
                }
                seq.end()
            }
            Value::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (key, value) in members {
                    map.serialize_entry(key.as_str(), &Nested { value, depth })?;
                }
                map.end()
            }
        }
    }
}

/// Through other formats numbers pass as 64-bit integers or floats; read JSON text with
/// [`Value::from_json`] where their spelling matters. Ends in an error beyond [`MAX_DEPTH`] levels.
impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor { depth: 0 })
    }
}

/// Reads a value inside of so many containers.
#[derive(Clone, Copy)]
struct ValueVisitor {
    depth: usize,
}

impl ValueVisitor {
    fn inside<E: de::Error>(self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(TooDeep { limit: MAX_DEPTH }));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for ValueVisitor {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Number::from_valid_text(&value.to_string()).into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::from)
            .ok_or_else(|| E::custom("infinities and NaN are not JSON numbers"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(inside)? {
            elements.push(element);
        }
        Ok(elements.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inside = self.inside()?;
        let mut members: Vec<(Str, Value)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            members.push((key.into(), map.next_value_seed(inside)?));
        }
        Ok(Object::from_entries(members).into())
    }
}
