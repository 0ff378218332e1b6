//! From a JSONSchemaProps to a [`Schema`].

use std::sync::Arc;

use modgate_value::{DecodeError, Number, Object, Str, Value, regex::Allowance};

use super::{Additional, Items, MAX_SCHEMA_DEPTH, Pattern, Rule, Schema, Unsupported, path::Path};

impl Schema {
    /// Decodes a JSONSchemaProps; `path` is where it stands, for errors. Null is the zero value
    /// of its type, as Go decodes it, and unknown keywords are left out, as the API server does.
    ///
    /// # Errors
    ///
    /// When a keyword has the wrong type, or the schema nests deeper than [`MAX_SCHEMA_DEPTH`].
    pub fn from_value(value: &Value, path: &str) -> Result<Self, DecodeError> {
        schema(value, &Path::Root(path), (0, Some(&Allowance::default())))
    }

    /// As [`from_value`](Self::from_value), of a schema that is part of this program: its patterns are compiled when
    /// they are needed.
    ///
    /// # Errors
    ///
    /// As of [`from_value`](Self::from_value).
    pub fn of_our_own(value: &Value) -> Result<Self, DecodeError> {
        schema(value, &Path::Root(""), (0, None))
    }
}

fn error(path: &Path<'_>, message: impl Into<String>) -> DecodeError {
    DecodeError { path: path.to_string(), message: message.into() }
}

/// The patterns spend the allowance beside the depth.
fn schema(
    value: &Value,
    path: &Path<'_>,
    (depth, patterns): (usize, Option<&Allowance>),
) -> Result<Schema, DecodeError> {
    if depth >= MAX_SCHEMA_DEPTH {
        let message = format!("the schema nests deeper than {MAX_SCHEMA_DEPTH} levels");
        return Err(error(path, message));
    }
    let nothing = Object::default();
    let object = if value.is_null() { Some(&nothing) } else { value.as_object() };
    let Some(object) = object else {
        return Err(error(path, format!("expected a schema, got a {}", value.type_name())));
    };
    let reader = Reader { object, path, depth, patterns };
    let pattern = reader.text("pattern")?;
    let has_members = |key| object.get(key).is_some_and(|value| !is_empty(value));
    Ok(Schema {
        kind: reader.text("type")?,
        description: !reader.text("description")?.is_empty(),
        title: !reader.text("title")?.is_empty(),
        default: reader.given("default").cloned(),
        nullable: reader.flag("nullable")?.unwrap_or_default(),
        format: reader.text("format")?,
        maximum: reader.number("maximum")?,
        exclusive_maximum: reader.flag("exclusiveMaximum")?.unwrap_or_default(),
        minimum: reader.number("minimum")?,
        exclusive_minimum: reader.flag("exclusiveMinimum")?.unwrap_or_default(),
        multiple_of: reader.number("multipleOf")?,
        max_length: reader.count("maxLength")?,
        min_length: reader.count("minLength")?,
        pattern: (!pattern.is_empty()).then(|| Pattern::new(pattern, patterns)),
        max_items: reader.count("maxItems")?,
        min_items: reader.count("minItems")?,
        unique_items: reader.flag("uniqueItems")?.unwrap_or_default(),
        max_properties: reader.count("maxProperties")?,
        min_properties: reader.count("minProperties")?,
        required: reader.texts("required")?,
        enumeration: reader.list("enum")?.to_vec(),
        items: reader.items()?,
        properties: reader.properties()?,
        additional_properties: reader.additional()?,
        all_of: reader.schemas("allOf")?,
        any_of: reader.schemas("anyOf")?,
        one_of: reader.schemas("oneOf")?,
        not: reader.one("not")?,
        preserve_unknown_fields: reader.flag("x-kubernetes-preserve-unknown-fields")?,
        embedded_resource: reader.flag("x-kubernetes-embedded-resource")?.unwrap_or_default(),
        int_or_string: reader.flag("x-kubernetes-int-or-string")?.unwrap_or_default(),
        list_type: reader.optional_text("x-kubernetes-list-type")?,
        list_map_keys: reader.texts("x-kubernetes-list-map-keys")?,
        map_type: reader.optional_text("x-kubernetes-map-type")?,
        validations: reader.rules()?,
        unsupported: Unsupported {
            id: has_members("id"),
            schema: has_members("$schema"),
            reference: reader.given("$ref").is_some(),
            additional_items: reader.given("additionalItems").is_some(),
            pattern_properties: has_members("patternProperties"),
            definitions: has_members("definitions"),
            dependencies: has_members("dependencies"),
        },
    })
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The keywords of one schema.
struct Reader<'a> {
    object: &'a Object,
    path: &'a Path<'a>,
    depth: usize,
    patterns: Option<&'a Allowance>,
}

impl<'a> Reader<'a> {
    /// A keyword that is there and not null.
    fn given(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        key: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(value) = self.given(key) else { return Ok(None) };
        let wrong = || {
            let message = format!("expected {expected}, got a {}", value.type_name());
            error(&self.path.child(key), message)
        };
        read(value).ok_or_else(wrong).map(Some)
    }

    fn optional_text(&self, key: &str) -> Result<Option<Str>, DecodeError> {
        self.read(key, "a string", |value| value.as_str().map(Str::from))
    }

    fn text(&self, key: &str) -> Result<Str, DecodeError> {
        self.optional_text(key).map(Option::unwrap_or_default)
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, DecodeError> {
        self.read(key, "a boolean", Value::as_bool)
    }

    fn number(&self, key: &str) -> Result<Option<Number>, DecodeError> {
        self.read(key, "a number", |value| value.as_number().cloned())
    }

    fn count(&self, key: &str) -> Result<Option<i64>, DecodeError> {
        self.read(key, "an integer", Value::as_i64)
    }

    fn list(&self, key: &str) -> Result<&'a [Value], DecodeError> {
        let list = self.read(key, "a list", |value| value.as_array().map(|list| &**list))?;
        Ok(list.unwrap_or_default())
    }

    fn texts(&self, key: &str) -> Result<Vec<Str>, DecodeError> {
        let texts = self.list(key)?.iter().enumerate();
        texts
            .map(|(index, value)| {
                let text = if value.is_null() { Some("") } else { value.as_str() };
                text.map(Str::from).ok_or_else(|| {
                    let message = format!("expected a string, got a {}", value.type_name());
                    error(&self.path.child(key).index(index), message)
                })
            })
            .collect()
    }

    fn one(&self, key: &str) -> Result<Option<Box<Schema>>, DecodeError> {
        let Some(value) = self.given(key) else { return Ok(None) };
        schema(value, &self.path.child(key), (self.depth + 1, self.patterns))
            .map(Box::new)
            .map(Some)
    }

    fn schemas(&self, key: &str) -> Result<Vec<Schema>, DecodeError> {
        let list = self.path.child(key);
        let values = self.list(key)?.iter().enumerate();
        values
            .map(|(index, value)| {
                schema(value, &list.index(index), (self.depth + 1, self.patterns))
            })
            .collect()
    }

    fn items(&self) -> Result<Option<Items>, DecodeError> {
        match self.given("items") {
            Some(Value::Array(_)) => self.schemas("items").map(Items::Many).map(Some),
            // A word or a number says nothing about the items (EV-140).
            Some(other) if other.as_object().is_none() => Ok(None),
            _ => Ok(self.one("items")?.map(Items::One)),
        }
    }

    fn properties(&self) -> Result<Vec<(Str, Arc<Schema>)>, DecodeError> {
        let members = self.read("properties", "a map of schemas", Value::as_object)?;
        let list = self.path.child("properties");
        let members = members.into_iter().flatten();
        members
            .map(|(name, value)| {
                let path = list.child(name);
                let decoded = schema(value, &path, (self.depth + 1, self.patterns))?;
                Ok((name.clone(), Arc::new(decoded)))
            })
            .collect()
    }

    fn additional(&self) -> Result<Option<Additional>, DecodeError> {
        match self.given("additionalProperties") {
            Some(Value::Bool(allowed)) => Ok(Some(Additional::Allowed(*allowed))),
            _ => Ok(self.one("additionalProperties")?.map(Additional::Schema)),
        }
    }

    fn rules(&self) -> Result<Vec<Rule>, DecodeError> {
        let key = "x-kubernetes-validations";
        let list = self.path.child(key);
        let rules = self.list(key)?.iter().enumerate();
        rules
            .map(|(index, value)| {
                let path = list.index(index);
                let nothing = Object::default();
                let object = if value.is_null() { Some(&nothing) } else { value.as_object() };
                let Some(object) = object else {
                    let message = format!("expected a rule, got a {}", value.type_name());
                    return Err(error(&path, message));
                };
                let reader =
                    Reader { object, path: &path, depth: self.depth, patterns: self.patterns };
                Ok(Rule {
                    rule: reader.text("rule")?,
                    message: reader.text("message")?,
                    message_expression: reader.text("messageExpression")?,
                    reason: reader.optional_text("reason")?,
                    field_path: reader.text("fieldPath")?,
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(json: &str) -> String {
        let value = Value::from_json(json.as_bytes()).expect(json);
        Schema::from_value(&value, "s").expect_err(json).to_string()
    }

    #[test]
    fn wrong_types_are_named() {
        for (json, expected) in [
            ("3", "s: expected a schema, got a number"),
            (r#"{"type":["a","b"]}"#, "s.type: expected a string, got a array"),
            (
                r#"{"properties":{"a":{"items":{"maxLength":"x"}}}}"#,
                "s.properties.a.items.maxLength: expected an integer, got a string",
            ),
            (r#"{"required":[1]}"#, "s.required[0]: expected a string, got a number"),
            (r#"{"properties":[]}"#, "s.properties: expected a map of schemas, got a array"),
            (r#"{"anyOf":[{"not":1}]}"#, "s.anyOf[0].not: expected a schema, got a number"),
        ] {
            assert_eq!(refusal(json), expected);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let deep = |levels: usize| {
            let text = format!("{}{{}}{}", r#"{"not":"#.repeat(levels), "}".repeat(levels));
            let value = Value::from_json(text.as_bytes()).expect("JSON");
            Schema::from_value(&value, "s").is_ok()
        };
        assert!(deep(MAX_SCHEMA_DEPTH - 1));
        assert!(!deep(MAX_SCHEMA_DEPTH));
    }
}
