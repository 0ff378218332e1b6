//! Defaults of a schema filled into a value, as the API server does for custom resources.

use modgate_value::{Array, Budget, Exhausted, Object, Str, Value};

use super::Schema;

impl Schema {
    /// `value` with the defaults of the schema where it says nothing.
    ///
    /// A default below a parent that is absent and has no default of its own does not create it.
    ///
    /// # Errors
    ///
    /// When it takes more than `budget`: every item of a list may get every default of a schema.
    pub fn fill_defaults(&self, value: &Value, budget: &Budget<'_>) -> Result<Value, Exhausted> {
        budget.spend(1)?;
        match value {
            Value::Object(object) => self.fill_object(object, budget).map(Value::from),
            Value::Array(items) => {
                let Some(schema) = self.item() else { return Ok(value.clone()) };
                budget.allocate(size_of_val(&**items))?;
                let fill_item = |item: &Value| {
                    let default = schema.default_for(Some(item));
                    schema.fill_defaults(default.unwrap_or(item), budget)
                };
                let items: Vec<Value> = items.iter().map(fill_item).collect::<Result<_, _>>()?;
                Ok(Value::Array(Array::from(items)))
            }
            _ => Ok(value.clone()),
        }
    }

    fn fill_object(&self, object: &Object, budget: &Budget<'_>) -> Result<Object, Exhausted> {
        let mut members: Vec<(Str, Value)> = object.iter().cloned().collect();
        for (name, schema) in &self.properties {
            budget.spend(1)?;
            // Of two members with one name the later one stays.
            let default = schema.default_for(object.get(name)).cloned();
            members.extend(default.map(|value| (name.clone(), value)));
        }
        budget.allocate(size_of::<(Str, Value)>().saturating_mul(members.len()))?;
        for (name, member) in &mut members {
            let Some(schema) = self.property(name).or_else(|| self.additional()) else { continue };
            let default = schema.default_for(Some(member)).cloned();
            *member = schema.fill_defaults(default.as_ref().unwrap_or(member), budget)?;
        }
        Ok(Object::from_entries(members))
    }

    /// The default that replaces a member: when it is absent, or a null that is not allowed.
    fn default_for(&self, member: Option<&Value>) -> Option<&Value> {
        let replaced = member.is_none_or(|member| member.is_null() && !self.nullable);
        self.default.as_ref().filter(|_| replaced)
    }
}

#[cfg(test)]
mod tests {
    use modgate_value::{Limits, budget::Frozen};

    use super::*;

    fn parse(text: &str) -> Value {
        Value::from_json(text.as_bytes()).expect(text)
    }

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
            let schema = Schema::from_value(&parse(schema), "").expect(schema);
            let filled =
                schema.fill_defaults(&parse(value), &Budget::unlimited()).expect("a value");
            assert_eq!(filled.to_json(), expected, "{value}");
            let again = schema.fill_defaults(&filled, &Budget::unlimited()).expect("a value");
            assert_eq!(again, filled, "{value}");
        }
    }

    #[test]
    fn what_would_grow_too_large_is_refused() {
        let items: Value = vec![Value::from(Object::default()); 100].into_iter().collect();
        let properties: Value =
            (0..100).map(|index| (index.to_string(), parse(r#"{"default":"x"}"#))).collect();
        let schema: Value = [("properties", properties)].into_iter().collect();
        let schema: Value = [("items", schema)].into_iter().collect();
        let schema = Schema::from_value(&schema, "").expect("a schema");
        let limits = Limits { steps: 5000, ..Limits::UNLIMITED };
        let filled = schema.fill_defaults(&items, &Budget::new(limits, &Frozen));
        assert_eq!(filled, Err(Exhausted::Steps { limit: 5000 }));
    }
}
