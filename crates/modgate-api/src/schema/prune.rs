//! Members of a value that its schema does not know.

use modgate_value::{Budget, Exhausted, Value};

use super::{Additional, Schema, path::Path};

/// Members of a resource that need no schema.
const RESOURCE: [&str; 3] = ["apiVersion", "kind", "metadata"];

impl Schema {
    /// The paths of members that the API server would drop from a resource of this schema, sorted.
    ///
    /// # Errors
    ///
    /// When it takes more than `budget`.
    pub fn unknown_fields(
        &self,
        resource: &Value,
        budget: &Budget<'_>,
    ) -> Result<Vec<String>, Exhausted> {
        self.unknown(resource, true, budget)
    }

    /// The members that the object may have which the member at `path` is in, as
    /// [`unknown_fields`](Self::unknown_fields) names paths.
    pub fn known_members(&self, path: &str) -> Vec<&str> {
        let mut schema = Some(self);
        let mut names: Vec<&str> = Vec::new();
        for step in path.split('.') {
            let name = step.split('[').next().unwrap_or(step);
            let known =
                schema.map(|schema| schema.properties.iter().map(|(name, _)| name.as_str()));
            names = known.into_iter().flatten().collect();
            schema = schema.and_then(|schema| schema.property(name));
            for _ in step.matches('[') {
                schema = schema.and_then(Self::item);
            }
        }
        names
    }

    /// As [`Schema::unknown_fields`] for a value that is no resource unless its schema says so.
    pub(super) fn unknown(
        &self,
        value: &Value,
        is_resource: bool,
        budget: &Budget<'_>,
    ) -> Result<Vec<String>, Exhausted> {
        let mut walk = Walk { found: Vec::new(), budget };
        let is_resource = is_resource || self.embedded_resource;
        walk.value(value, Some(self), is_resource, self.preserves(), &Path::Root(""))?;
        walk.found.sort();
        Ok(walk.found)
    }
}

struct Walk<'b> {
    found: Vec<String>,
    budget: &'b Budget<'b>,
}

impl Walk<'_> {
    /// Without a schema everything is unknown; with `preserve` nothing is, except below what the
    /// schema mentions.
    fn value(
        &mut self,
        value: &Value,
        schema: Option<&Schema>,
        is_resource: bool,
        preserve: bool,
        path: &Path<'_>,
    ) -> Result<(), Exhausted> {
        self.budget.spend(1)?;
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    if is_resource && RESOURCE.contains(&name.as_str()) {
                        continue;
                    }
                    let below = path.property(name);
                    let Some(schema) = schema else {
                        self.record(&below)?;
                        continue;
                    };
                    if let Some(property) = schema.property(name) {
                        self.member(member, Some(property), &below)?;
                    } else if let Some(additional) = &schema.additional_properties {
                        let schema = match additional {
                            Additional::Schema(schema) => Some(&**schema),
                            Additional::Allowed(_) => None,
                        };
                        self.member(member, schema, &below)?;
                    } else if !preserve {
                        self.record(&below)?;
                    }
                }
            }
            Value::Array(items) => {
                let schema = schema.and_then(Schema::item);
                for (index, item) in items.iter().enumerate() {
                    let below = path.index(index);
                    if !preserve {
                        self.member(item, schema, &below)?;
                    } else if schema.is_some() {
                        let is_resource = schema.is_some_and(|schema| schema.embedded_resource);
                        self.value(item, schema, is_resource, true, &below)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn member(
        &mut self,
        value: &Value,
        schema: Option<&Schema>,
        path: &Path<'_>,
    ) -> Result<(), Exhausted> {
        let is_resource = schema.is_some_and(|schema| schema.embedded_resource);
        self.value(value, schema, is_resource, schema.is_some_and(Schema::preserves), path)
    }

    fn record(&mut self, path: &Path<'_>) -> Result<(), Exhausted> {
        let path = path.to_string();
        self.budget.allocate(path.len())?;
        self.found.push(path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: &str, value: &str, expected: &[&str]) {
        let parse = |text: &str| Value::from_json(text.as_bytes()).expect(text);
        let schema = Schema::from_value(&parse(schema), "").expect(schema);
        let found = schema.unknown_fields(&parse(value), &Budget::unlimited()).expect("a list");
        assert_eq!(found, expected, "{value}");
    }

    #[test]
    fn undeclared_members() {
        let schema = r#"{"properties": {"spec": {"properties": {
            "a": {"type": "string"},
            "l": {"items": {"properties": {"x": {}}}},
            "m": {"additionalProperties": {"properties": {"y": {}}}},
            "t": {"additionalProperties": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true, "properties": {"o": {}}},
            "r": {"x-kubernetes-embedded-resource": true, "properties": {"z": {}}}}}}}"#;
        check(schema, r#"{"apiVersion": "v1", "kind": "K", "metadata": {"zz": 1}}"#, &[]);
        check(schema, r#"{"foo": 1, "spec": {"b": {"c": 1}, "a": "x"}}"#, &["foo", "spec.b"]);
        check(schema, r#"{"spec": {"l": [{"x": 1}, {"y": 1}]}}"#, &["spec.l[1].y"]);
        check(schema, r#"{"spec": {"m": {"k": {"y": 1, "x": 1}}}}"#, &["spec.m.k.x"]);
        check(schema, r#"{"spec": {"t": {"k": {"x": 1}, "s": 1}}}"#, &["spec.t.k.x"]);
        check(schema, r#"{"spec": {"any": {"q": {"x": 1}, "o": {"p": 1}}}}"#, &["spec.any.o.p"]);
        check(schema, r#"{"spec": {"r": {"kind": "x", "z": 1, "y": 1}}}"#, &["spec.r.y"]);
    }
}
