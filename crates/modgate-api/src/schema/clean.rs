//! A schema as the API server writes it back: known keywords only, and no empty ones.

use modgate_value::{Number, Object, Str, Value};

/// The type of a keyword's value, which decides when it is left out.
enum Keyword {
    /// Left out when empty or false.
    Plain,
    /// Left out only when null.
    Pointer,
    /// A 64-bit float.
    Float,
    Schema,
    Schemas,
    SchemaMap,
    /// A schema, a list of schemas or a boolean.
    Either,
}

fn keyword(name: &str) -> Option<Keyword> {
    Some(match name {
        "id"
        | "$schema"
        | "description"
        | "type"
        | "format"
        | "title"
        | "pattern"
        | "exclusiveMaximum"
        | "exclusiveMinimum"
        | "uniqueItems"
        | "nullable"
        | "required"
        | "enum"
        | "dependencies"
        | "x-kubernetes-embedded-resource"
        | "x-kubernetes-int-or-string"
        | "x-kubernetes-list-map-keys"
        | "x-kubernetes-validations" => Keyword::Plain,
        "$ref"
        | "default"
        | "example"
        | "externalDocs"
        | "maxLength"
        | "minLength"
        | "maxItems"
        | "minItems"
        | "maxProperties"
        | "minProperties"
        | "x-kubernetes-preserve-unknown-fields"
        | "x-kubernetes-list-type"
        | "x-kubernetes-map-type" => Keyword::Pointer,
        "maximum" | "minimum" | "multipleOf" => Keyword::Float,
        "not" => Keyword::Schema,
        "allOf" | "anyOf" | "oneOf" => Keyword::Schemas,
        "properties" | "patternProperties" | "definitions" => Keyword::SchemaMap,
        "items" | "additionalProperties" | "additionalItems" => Keyword::Either,
        _ => return None,
    })
}

/// The schema without unknown and empty keywords. Anything but an object comes back as it is.
///
/// The recursion ends with the nesting of the value.
pub fn clean(schema: &Value) -> Value {
    let Some(object) = schema.as_object() else { return schema.clone() };
    let kept = object.iter().filter_map(|(name, value)| {
        clean_keyword(keyword(name)?, value).map(|value| (name.clone(), value))
    });
    Object::from_entries(kept.collect()).into()
}

fn clean_keyword(keyword: Keyword, value: &Value) -> Option<Value> {
    let cleaned = match (keyword, value) {
        (_, Value::Null) => return None,
        (Keyword::Float, Value::Number(number)) => {
            Number::from_f64(number.as_f64()).map_or_else(|| value.clone(), Value::from)
        }
        (Keyword::Pointer | Keyword::Float, _) => return Some(value.clone()),
        (Keyword::Plain, Value::Bool(false)) => return None,
        (Keyword::Plain, _) => value.clone(),
        (Keyword::Schema | Keyword::Either, Value::Object(_)) => return Some(clean(value)),
        // `additionalProperties` may be a boolean, `items` may not (EV-140).
        (Keyword::Either, Value::String(_) | Value::Number(_)) => return None,
        (Keyword::Schemas | Keyword::Either, Value::Array(items)) => {
            items.iter().map(clean).collect()
        }
        (Keyword::SchemaMap, Value::Object(members)) => {
            let members = members.iter().map(|(name, value)| {
                let value = if value.is_null() { Object::default().into() } else { clean(value) };
                (name.clone(), value)
            });
            Object::from_entries(members.collect::<Vec<(Str, Value)>>()).into()
        }
        (_, _) => value.clone(),
    };
    let is_empty = match &cleaned {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_something_is_written_back() {
        for (schema, expected) in [
            (r#"{"type":"object","foo":1,"title":"","required":[]}"#, r#"{"type":"object"}"#),
            (r#"{"maxLength":0,"default":null,"nullable":false}"#, r#"{"maxLength":0}"#),
            (r#"{"properties":{}}"#, "{}"),
            (r#"{"properties":{"a":{"x":1},"b":null}}"#, r#"{"properties":{"a":{},"b":{}}}"#),
            (
                r#"{"items":{},"additionalProperties":false}"#,
                r#"{"additionalProperties":false,"items":{}}"#,
            ),
            (r#"{"default":{"foo":1}}"#, r#"{"default":{"foo":1}}"#),
            (r#"{"minimum":1e3}"#, r#"{"minimum":1000}"#),
            ("7", "7"),
        ] {
            let value = Value::from_json(schema.as_bytes()).expect(schema);
            assert_eq!(clean(&value).to_json(), expected, "{schema}");
        }
    }
}
