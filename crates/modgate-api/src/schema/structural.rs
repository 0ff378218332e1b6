//! Whether a schema is structural: the shape of values must be said outside of junctors, so that
//! pruning and defaulting know it.

use super::{FieldError, Items, Schema, path::Path};

/// Where a node stands, which decides what it must say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

impl Schema {
    /// The violations that keep the schema from being structural, sorted as Kubernetes sorts them.
    pub(super) fn structural_problems(&self, path: &Path<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        node(self, Level::Root, path, &mut errors);
        errors.sort_by_cached_key(ToString::to_string);
        errors
    }

    /// Why the schema cannot even be read as a structural one.
    pub(super) fn unreadable(&self) -> Option<&'static str> {
        let unsupported = self.unsupported;
        let named = [
            (unsupported.id, "OpenAPIV3Schema 'id' is not supported"),
            (unsupported.schema, "OpenAPIV3Schema 'schema' is not supported"),
            (unsupported.reference, "OpenAPIV3Schema '$ref' is not supported"),
            (
                unsupported.pattern_properties,
                "OpenAPIV3Schema 'patternProperties' is not supported",
            ),
            (unsupported.dependencies, "OpenAPIV3Schema 'dependencies' is not supported"),
            (unsupported.additional_items, "OpenAPIV3Schema 'additionalItems' is not supported"),
            (unsupported.definitions, "OpenAPIV3Schema 'definitions' is not supported"),
            (
                self.preserve_unknown_fields == Some(false),
                "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
            ),
            (
                matches!(&self.items, Some(Items::Many(list)) if !list.is_empty()),
                "OpenAPIV3Schema 'items' must be a schema, but is an array",
            ),
        ];
        named
            .into_iter()
            .find_map(|(found, why)| found.then_some(why))
            .or_else(|| self.children().find_map(Self::unreadable))
    }

    /// The schemas directly below, wherever they stand.
    fn children(&self) -> impl Iterator<Item = &Self> {
        let junctors = [&self.all_of, &self.any_of, &self.one_of].into_iter().flatten();
        self.item()
            .into_iter()
            .chain(self.properties.iter().map(|(_, schema)| &**schema))
            .chain(self.additional())
            .chain(self.not.as_deref())
            .chain(junctors)
    }

    fn is_bare(&self, kind: &str) -> bool {
        self.kind == kind && *self == Self { kind: self.kind.clone(), ..Self::default() }
    }

    /// The one pair of typed alternatives that is allowed: an integer or a string.
    fn is_int_or_string_choice(&self) -> bool {
        matches!(self.any_of.as_slice(), [a, b] if a.is_bare("integer") && b.is_bare("string"))
    }
}

fn node(schema: &Schema, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if schema.kind == "array" && schema.item().is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(item) = schema.item() {
        node(item, Level::Item, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        node(property, Level::Field, &properties.key(name), errors);
    }
    if schema.additional_properties.is_some() {
        let place = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&place, "must not be used at the root"));
        }
        if let Some(additional) = schema.additional() {
            node(additional, Level::Field, &place, errors);
        }
        if schema.embedded_resource {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            errors.push(FieldError::forbidden(&place, detail));
        }
    }
    extensions(schema, path, errors);
    junctors(schema, schema.is_int_or_string_choice(), true, path, errors);
    kind(schema, level, path, errors);
    resource(schema, level, path, errors);
}

fn extensions(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !schema.int_or_string {
        return;
    }
    let extensions = [
        (schema.preserves(), "x-kubernetes-preserve-unknown-fields"),
        (schema.embedded_resource, "x-kubernetes-embedded-resource"),
    ];
    for (_, name) in extensions.into_iter().filter(|(set, _)| *set) {
        let detail = "must be false if x-kubernetes-int-or-string is true";
        errors.push(FieldError::invalid_shown(&path.child(name), "true", detail));
    }
}

fn kind(schema: &Schema, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let place = path.child("type");
    let is_missing = schema.kind.is_empty();
    if schema.embedded_resource && schema.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if is_missing {
            FieldError::required(&place, detail)
        } else {
            FieldError::invalid(&place, &schema.kind, detail)
        });
    } else if is_missing && !schema.int_or_string && !schema.preserves() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&place, detail));
    }
    if level == Level::Root && !is_missing && schema.kind != "object" {
        errors.push(FieldError::invalid(&place, &schema.kind, "must be object at the root"));
    }
}

/// Checks the members that every resource has, whose types are fixed.
fn resource(schema: &Schema, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let properties = path.child("properties");
    if level == Level::Root || schema.embedded_resource {
        for (name, kind, detail) in [
            ("kind", "string", "must be string"),
            ("apiVersion", "string", "must be string"),
            ("metadata", "object", "must be object"),
        ] {
            if let Some(property) = schema.property(name).filter(|property| property.kind != kind) {
                let place = properties.key(name);
                errors.push(FieldError::invalid(&place.child("type"), &property.kind, detail));
            }
        }
    }
    if schema.embedded_resource && !schema.preserves() && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&properties, detail));
    }
}

fn junctors(
    schema: &Schema,
    skip_any_of: bool,
    may_skip_first: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        let list = path.child("anyOf");
        for (index, clause) in schema.any_of.iter().enumerate() {
            nested(clause, false, &list.index(index), errors);
        }
    }
    let list = path.child("allOf");
    for (index, clause) in schema.all_of.iter().enumerate() {
        let skip = may_skip_first && index == 0 && clause.is_int_or_string_choice();
        nested(clause, skip, &list.index(index), errors);
    }
    let list = path.child("oneOf");
    for (index, clause) in schema.one_of.iter().enumerate() {
        nested(clause, false, &list.index(index), errors);
    }
    if let Some(not) = &schema.not {
        nested(not, false, &path.child("not"), errors);
    }
    if let Some(pattern) = &schema.pattern
        && let Some(error) = pattern.error()
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&path.child("pattern"), &pattern.text, &detail));
    }
}

/// A schema inside a junctor, which may only restrict values.
fn nested(schema: &Schema, skip_any_of: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    junctors(schema, skip_any_of, false, path, errors);
    if let Some(item) = schema.item() {
        nested(item, false, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        nested(property, false, &properties.key(name), errors);
    }
    let constrains_others = matches!(
        schema.additional_properties,
        Some(super::Additional::Schema(_) | super::Additional::Allowed(true))
    );
    for (found, keyword, must) in [
        (!schema.kind.is_empty(), "type", "empty"),
        (constrains_others, "additionalProperties", "undefined"),
        (schema.default.is_some(), "default", "undefined"),
        (schema.title, "title", "empty"),
        (schema.description, "description", "empty"),
        (schema.nullable, "nullable", "false"),
        (schema.preserves(), "x-kubernetes-preserve-unknown-fields", "false"),
        (schema.embedded_resource, "x-kubernetes-embedded-resource", "false"),
        (schema.int_or_string, "x-kubernetes-int-or-string", "false"),
        (!schema.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", "empty"),
        (schema.list_type.is_some(), "x-kubernetes-list-type", "undefined"),
        (schema.map_type.is_some(), "x-kubernetes-map-type", "undefined"),
        (!schema.validations.is_empty(), "x-kubernetes-validations", "empty"),
    ] {
        if found {
            let detail = format!("must be {must} to be structural");
            errors.push(FieldError::forbidden(&path.child(keyword), &detail));
        }
    }
    if schema.property("metadata").is_some() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(&properties.key("metadata"), detail));
    }
}
