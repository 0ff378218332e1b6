//! Defaults of a schema filled into a value, as the API server does for custom resources
//! (`apiextensions-apiserver/pkg/apiserver/schema/defaulting`).

use modgate_value::{Array, Value};

/// `value` with the defaults of `schema` where it says nothing.
///
/// A default below a parent that is absent and has no default of its own does not create it. The
/// value may be nested no deeper than values may be at all, so neither is the recursion.
pub(super) fn fill(value: &Value, schema: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut filled = object.clone();
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, schema) in properties.iter().flat_map(|properties| properties.iter()) {
                if let Some(default) = default_of(object.get(name), schema) {
                    filled.insert(name.clone(), default);
                }
            }
            let others =
                schema.get("additionalProperties").filter(|other| other.get("type").is_some());
            let present: Vec<_> = filled.iter().cloned().collect();
            for (name, member) in present {
                let declared = properties.and_then(|properties| properties.get(&name));
                let Some(schema) = declared.or(others) else { continue };
                let member = default_of(Some(&member), schema).unwrap_or(member);
                let inner = fill(&member, schema);
                if filled.get(&name) != Some(&inner) {
                    filled.insert(name, inner);
                }
            }
            filled.into()
        }
        Value::Array(items) => match schema.get("items") {
            Some(schema) => {
                let fill_item = |item: &Value| {
                    let default = default_of(Some(item), schema);
                    fill(default.as_ref().unwrap_or(item), schema)
                };
                Value::Array(items.iter().map(fill_item).collect::<Array>())
            }
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

/// The default that replaces a member: when it is absent, or a null that is not allowed.
fn default_of(member: Option<&Value>, schema: &Value) -> Option<Value> {
    let nullable = schema.get("nullable").and_then(Value::as_bool).unwrap_or(false);
    let replaced = member.is_none_or(|member| member.is_null() && !nullable);
    schema.get("default").filter(|_| replaced).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_the_api_server_does() {
        for (value, schema, expected) in [
            (r#"{}"#, r#"{"properties":{"a":{"default":3}}}"#, r#"{"a":3}"#),
            (r#"{"a":1}"#, r#"{"properties":{"a":{"default":3}}}"#, r#"{"a":1}"#),
            (r#"{"a":null}"#, r#"{"properties":{"a":{"default":3}}}"#, r#"{"a":3}"#),
            (
                r#"{"a":null}"#,
                r#"{"properties":{"a":{"default":3,"nullable":true}}}"#,
                r#"{"a":null}"#,
            ),
            // No parent is made for a default inside it, unless it has one itself.
            (r#"{}"#, r#"{"properties":{"p":{"properties":{"a":{"default":3}}}}}"#, r#"{}"#),
            (
                r#"{}"#,
                r#"{"properties":{"p":{"default":{},"properties":{"a":{"default":3}}}}}"#,
                r#"{"p":{"a":3}}"#,
            ),
            (
                r#"{"l":[{},{"a":1}]}"#,
                r#"{"properties":{"l":{"items":{"properties":{"a":{"default":3}}}}}}"#,
                r#"{"l":[{"a":3},{"a":1}]}"#,
            ),
            (
                r#"{"x":{}}"#,
                r#"{"additionalProperties":{"type":"object","properties":{"a":{"default":3}}}}"#,
                r#"{"x":{"a":3}}"#,
            ),
            (r#""text""#, r#"{"properties":{"a":{"default":3}}}"#, r#""text""#),
        ] {
            let parse = |text: &str| Value::from_json(text.as_bytes()).expect(text);
            assert_eq!(fill(&parse(value), &parse(schema)).to_json(), expected, "{schema}");
        }
    }
}
