//! Defaults of a schema filled into a value, as the API server does for custom resources
//! (`apiextensions-apiserver/pkg/apiserver/schema/defaulting`).

use modgate_value::{Array, Budget, Exhausted, Object, Str, Value};

/// `value` with the defaults of `schema` where it says nothing.
///
/// A default below a parent that is absent and has no default of its own does not create it. The
/// recursion ends with the nesting of value and schema, which is that of any value.
///
/// # Errors
///
/// When it takes more than `budget`: every item of a list may get every default of a schema.
pub(super) fn fill(value: &Value, schema: &Value, budget: &Budget<'_>) -> Result<Value, Exhausted> {
    budget.spend(1)?;
    match value {
        Value::Object(object) => fill_object(object, schema, budget).map(Value::from),
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return Ok(value.clone()) };
            budget.allocate(size_of_val(&**items))?;
            let fill_item = |item: &Value| {
                let default = default_of(Some(item), schema);
                fill(default.as_ref().unwrap_or(item), schema, budget)
            };
            let items: Vec<Value> = items.iter().map(fill_item).collect::<Result<_, _>>()?;
            Ok(Value::Array(Array::from(items)))
        }
        _ => Ok(value.clone()),
    }
}

fn fill_object(object: &Object, schema: &Value, budget: &Budget<'_>) -> Result<Object, Exhausted> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties").filter(|other| other.as_object().is_some());
    let mut members: Vec<(Str, Value)> = object.iter().cloned().collect();
    for (name, schema) in properties.iter().flat_map(|properties| properties.iter()) {
        budget.spend(1)?;
        // Of two members with one name the later one stays.
        members.extend(default_of(object.get(name), schema).map(|value| (name.clone(), value)));
    }
    budget.allocate(size_of::<(Str, Value)>().saturating_mul(members.len()))?;
    for (name, member) in &mut members {
        let declared = properties.and_then(|properties| properties.get(name));
        let Some(schema) = declared.or(others) else { continue };
        let default = default_of(Some(member), schema);
        *member = fill(default.as_ref().unwrap_or(member), schema, budget)?;
    }
    Ok(Object::from_entries(members))
}

/// The default that replaces a member: when it is absent, or a null that is not allowed.
fn default_of(member: Option<&Value>, schema: &Value) -> Option<Value> {
    let nullable = schema.get("nullable").and_then(Value::as_bool).unwrap_or(false);
    let replaced = member.is_none_or(|member| member.is_null() && !nullable);
    schema.get("default").filter(|_| replaced).cloned()
}

#[cfg(test)]
mod tests {
    use modgate_value::{Limits, budget::Frozen};

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
            let filled = fill(&parse(value), &parse(schema), &Budget::unlimited());
            assert_eq!(filled.expect("a value").to_json(), expected, "{schema}");
        }
    }

    #[test]
    fn what_would_grow_too_large_is_refused() {
        let items: Value = vec![Value::from(Object::default()); 100].into_iter().collect();
        let properties: Value = (0..100)
            .map(|index| {
                let schema: Value = [("default", Value::from("x"))].into_iter().collect();
                (index.to_string(), schema)
            })
            .collect();
        let schema: Value = [("properties", properties)].into_iter().collect();
        let schema: Value = [("items", schema)].into_iter().collect();
        let limits = Limits { steps: 5000, ..Limits::UNLIMITED };
        let filled = fill(&items, &schema, &Budget::new(limits, &Frozen));
        assert_eq!(filled, Err(Exhausted::Steps { limit: 5000 }));
    }
}
