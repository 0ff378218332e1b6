//! Schemas from before CRDs had to be structural (RM-2).

use modgate_value::{Object, Value};

/// A list of schemas where there may be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("non-nil JSONSchemas encountered, multiple schemas are not supported")]
pub struct UnsupportedItems;

/// The schema with `x-kubernetes-preserve-unknown-fields` on every object and on every node
/// without a type, and with a schema for the items of every list. Junctors (`anyOf` and its like)
/// are left as they are.
///
/// The recursion ends with the nesting of the value.
///
/// # Errors
///
/// When `items` is a list.
pub fn preserve_unknown_fields(schema: &Value) -> Result<Value, UnsupportedItems> {
    let Some(object) = schema.as_object() else { return Ok(schema.clone()) };
    let mut object = object.clone();
    let preserve = "x-kubernetes-preserve-unknown-fields";
    match object.get("type").and_then(Value::as_str).unwrap_or_default() {
        "" | "object" => {
            object.insert(preserve, true.into());
            if object.get("items").is_some_and(says_nothing) {
                object.remove("items");
            }
        }
        "array" if object.get("items").is_none_or(says_nothing) => {
            let anything: Value = [(preserve, Value::from(true))].into_iter().collect();
            object.insert("items", anything);
        }
        _ if object.get("items").is_some_and(says_nothing) => {
            object.remove("items");
        }
        _ => {}
    }
    if let Some(properties) = object.get("properties").and_then(Value::as_object) {
        let properties = properties.iter().map(|(name, property)| {
            let empty = Value::from(Object::default());
            let property = if property.is_null() { &empty } else { property };
            Ok((name.clone(), preserve_unknown_fields(property)?))
        });
        let properties = Object::from_entries(properties.collect::<Result<_, _>>()?);
        object.insert("properties", properties.into());
    }
    if object.get("items").is_some_and(|items| items.as_array().is_some()) {
        return Err(UnsupportedItems);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = object.get(key).filter(|below| below.as_object().is_some()) {
            let below = preserve_unknown_fields(below)?;
            object.insert(key, below);
        }
    }
    Ok(object.into())
}
/// Whether `items` is neither a schema nor a list of them: then it is as good as absent (EV-140).
fn says_nothing(items: &Value) -> bool {
    !matches!(items, Value::Object(_) | Value::Array(_))
}
