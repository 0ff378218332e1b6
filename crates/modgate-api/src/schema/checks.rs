//! Whether a schema may stand in a CRD.

use modgate_value::{Budget, Exhausted, Str, Value, gofmt};

use super::{
    Additional, FieldError, Items, Rule, Schema,
    error::{Numbers, as_json, shown},
    path::Path,
};

/// The types there are.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Members of a resource whose schema is metadata.
const METADATA: [&str; 3] = ["metadata", "kind", "apiVersion"];

impl Schema {
    /// The API server's errors for the schema of a custom resource; `path` is the schema's.
    ///
    /// # Errors
    ///
    /// When checking its defaults takes more than `budget`.
    pub fn problems(&self, path: &str, budget: &Budget<'_>) -> Result<Vec<FieldError>, Exhausted> {
        let path = Path::Root(path);
        let mut errors = Vec::new();
        let unreadable = self.unreadable();
        if unreadable.is_none() {
            errors = self.structural_problems(&path);
            if errors.is_empty() {
                defaults(self, &path, budget, &mut errors)?;
            }
        }
        let place = Place { is_root: true, ..Place::default() };
        keywords(self, &path, place, &mut errors);
        if errors.is_empty()
            && let Some(why) = unreadable
        {
            errors.push(FieldError::invalid(&path, "", why));
        }
        Ok(errors)
    }
}

/// Defaults must be values of their own schema. Below `additionalProperties` they are not looked
/// for.
fn defaults(
    schema: &Schema,
    path: &Path<'_>,
    budget: &Budget<'_>,
    errors: &mut Vec<FieldError>,
) -> Result<(), Exhausted> {
    if let Some(default) = &schema.default {
        let place = path.child("default").to_string();
        if !schema.unknown(default, false, budget)?.is_empty() {
            let shown = shown(default, Numbers::Exact);
            errors.push(FieldError::invalid_shown(&place, &shown, "must not have unknown fields"));
        }
        errors.extend(schema.validate_as(default, &place, Numbers::Exact, budget)?);
    }
    if let Some(item) = schema.item() {
        defaults(item, &path.child("items"), budget, errors)?;
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        defaults(property, &properties.key(name), budget, errors)?;
    }
    Ok(())
}

/// The settings that a node inherits from its place.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    is_root: bool,
    in_metadata: bool,
    /// Why it may have no default.
    no_default: Option<&'static str>,
}

fn keywords(schema: &Schema, path: &Path<'_>, place: Place, errors: &mut Vec<FieldError>) {
    own_keywords(schema, path, place, errors);
    if schema.unique_items {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes \
                      quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
    }
    let below = Place { is_root: false, ..place };
    let additional = path.child("additionalProperties");
    let closes = !matches!(schema.additional_properties, None | Some(Additional::Allowed(true)));
    if closes && !schema.properties.is_empty() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&additional, detail));
    }
    if let Some(others) = schema.additional() {
        let mut place = below;
        if place.in_metadata {
            place.no_default = Some("inside additionalProperties applying to object metadata");
        }
        keywords(others, &additional, place, errors);
    }
    let properties = path.child("properties");
    for (name, property) in &schema.properties {
        let mut inside = below;
        if (place.is_root || schema.embedded_resource) && METADATA.contains(&name.as_str()) {
            inside.in_metadata = true;
            if place.is_root {
                inside.no_default = Some(match name.as_str() {
                    "metadata" => "in top-level metadata",
                    "kind" => "in top-level kind",
                    _ => "in top-level apiVersion",
                });
            }
        }
        keywords(property, &properties.key(name), inside, errors);
    }
    if let Some(not) = &schema.not {
        keywords(not, &path.child("not"), below, errors);
    }
    for (name, clauses) in
        [("allOf", &schema.all_of), ("oneOf", &schema.one_of), ("anyOf", &schema.any_of)]
    {
        let list = path.child(name);
        for (index, clause) in clauses.iter().enumerate() {
            keywords(clause, &list.index(index), below, errors);
        }
    }
    let items = path.child("items");
    match &schema.items {
        None => {}
        Some(Items::One(item)) => keywords(item, &items, below, errors),
        Some(Items::Many(list)) => {
            for (index, item) in list.iter().enumerate() {
                keywords(item, &items.index(index), below, errors);
            }
        }
    }
    if schema.preserve_unknown_fields == Some(false) {
        let place = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid_shown(&place, "false", "must be true or undefined"));
    }
    lists_and_maps(schema, path, errors);
    map_keys(schema, path, errors);
    rules(schema, path, errors);
}

/// Keywords that a node may not have.
fn own_keywords(schema: &Schema, path: &Path<'_>, place: Place, errors: &mut Vec<FieldError>) {
    let kind = schema.kind.as_str();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        let shown = gofmt::quote(kind);
        errors.push(FieldError::unsupported(&path.child("type"), &shown, TYPES));
    }
    if let Some(why) = place.no_default.filter(|_| schema.default.is_some()) {
        let detail = format!("must not be set {why}");
        errors.push(FieldError::forbidden(&path.child("default"), &detail));
    }
    let unsupported = schema.unsupported;
    for (found, keyword) in [
        (unsupported.id, "id"),
        (unsupported.additional_items, "additionalItems"),
        (unsupported.pattern_properties, "patternProperties"),
        (unsupported.definitions, "definitions"),
        (unsupported.dependencies, "dependencies"),
        (unsupported.reference, "$ref"),
    ] {
        if found {
            let detail = format!("{keyword} is not supported");
            errors.push(FieldError::forbidden(&path.child(keyword), &detail));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(&path.child("type"), detail));
    }
    if matches!(&schema.items, Some(Items::Many(list)) if !list.is_empty()) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(&path.child("items"), detail));
    }
    if place.in_metadata && schema.embedded_resource {
        let detail = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(&path.child("x-kubernetes-embedded-resource"), detail));
    }
}

/// `x-kubernetes-map-type` and `x-kubernetes-list-type`.
fn lists_and_maps(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let list_type = schema.list_type.as_deref();
    let wrong_kind = |expected: &str, keyword: &str| {
        let detail = format!("must be {expected} if {keyword} is specified");
        if schema.kind.is_empty() {
            FieldError::required(&path.child("type"), &detail)
        } else {
            FieldError::invalid(&path.child("type"), &schema.kind, &detail)
        }
    };
    let unknown = |keyword: &str, value: &str, supported: &[&str]| {
        let shown = gofmt::quote(value);
        FieldError::unsupported(&path.child(keyword), &shown, supported)
    };
    if let Some(map_type) = &schema.map_type {
        if schema.kind != "object" {
            errors.push(wrong_kind("object", "x-kubernetes-map-type"));
        }
        if !["atomic", "granular"].contains(&map_type.as_str()) {
            let error = unknown("x-kubernetes-map-type", map_type, &["atomic", "granular"]);
            errors.push(error);
        }
    }
    if list_type.is_some() && schema.kind != "array" {
        errors.push(wrong_kind("array", "x-kubernetes-list-type"));
    } else if list_type == Some("set")
        && let Some(item) = schema.item()
    {
        let items = path.child("items");
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        // Both print the item's list type, as Kubernetes does.
        let shown = match &item.list_type {
            Some(list_type) => gofmt::quote(list_type),
            None => "null".to_owned(),
        };
        let keyword = match item.kind.as_str() {
            "array" if item.list_type.as_deref().is_some_and(|kind| kind != "atomic") => {
                Some("x-kubernetes-list-type")
            }
            "object" if item.map_type.as_deref() != Some("atomic") => Some("x-kubernetes-map-type"),
            _ => None,
        };
        if let Some(keyword) = keyword {
            errors.push(FieldError::invalid_shown(&items.child(keyword), &shown, detail));
        }
    }
    if let Some(list_type) = list_type.filter(|kind| !["atomic", "set", "map"].contains(kind)) {
        errors.push(unknown("x-kubernetes-list-type", list_type, &["atomic", "set", "map"]));
    }
    if !schema.list_map_keys.is_empty() {
        let place = path.child("x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            Some("map") => {}
            None => errors.push(FieldError::required(&place, detail)),
            Some(other) => errors.push(FieldError::invalid(&place, other, detail)),
        }
    }
}

/// The checks of a list that is a map, or a set, on its items.
fn map_keys(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(list_type @ ("map" | "set")) = schema.list_type.as_deref() else { return };
    let items = path.child("items");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let keys = &schema.list_map_keys;
    if list_type == "map" {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&keys_path, detail));
        }
        match &schema.items {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(FieldError::required(&items, detail));
            }
            Some(Items::Many(_)) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                errors.push(FieldError::invalid_shown(&items, "[]", detail));
            }
            Some(Items::One(item)) if item.kind != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&items.child("type"), &item.kind, detail));
            }
            Some(Items::One(item)) => key_properties(keys, item, &items, &keys_path, errors),
        }
    }
    let Some(item) = schema.item() else { return };
    if item.nullable {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items.child("nullable"), &detail));
    }
    if list_type == "set" {
        return;
    }
    let properties = items.child("properties");
    for key in keys {
        let Some(property) = item.property(key) else { continue };
        let place = properties.key(key);
        if !item.required.contains(key) && property.default.is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            errors.push(FieldError::required(&place.child("default"), detail));
        }
        if property.nullable {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&place.child("nullable"), detail));
        }
    }
}

fn key_properties(
    keys: &[Str],
    item: &Schema,
    items: &Path<'_>,
    keys_path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let all: Value = keys.iter().map(|key| Value::from(key.clone())).collect();
    let shown = as_json(&all);
    let properties = items.child("properties");
    for (index, key) in keys.iter().enumerate() {
        match item.property(key) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid_shown(keys_path, &shown, detail));
            }
            Some(property) if ["array", "object"].contains(&property.kind.as_str()) => {
                let place = properties.key(key);
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&place.child("type"), &item.kind, detail));
            }
            Some(_) => {}
        }
        if keys.iter().take(index).any(|earlier| earlier == key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid_shown(keys_path, &shown, detail));
        }
    }
}

/// The reasons a rule of `x-kubernetes-validations` may give.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The form of `x-kubernetes-validations`.
fn rules(schema: &Schema, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let list = path.child("x-kubernetes-validations");
    for (index, rule) in schema.validations.iter().enumerate() {
        rule_form(schema, rule, &list.index(index), errors);
    }
}

fn rule_form(schema: &Schema, rule: &Rule, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let has_newlines = |text: &str| text.contains(['\n', '\r']);
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    let place = path.child("message");
    if text.is_empty() {
        errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && message.is_empty() {
        errors.push(FieldError::invalid(&place, &rule.message, "must be non-empty if specified"));
    } else if has_newlines(message) {
        errors.push(FieldError::invalid(&place, &rule.message, "must not contain line breaks"));
    } else if has_newlines(text) && message.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(&place, detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = rule.reason.as_ref().filter(|text| !REASONS.contains(&text.as_str())) {
        let shown = gofmt::quote(reason);
        errors.push(FieldError::unsupported(&path.child("reason"), &shown, REASONS));
    }
    let place = path.child("fieldPath");
    let field = &rule.field_path;
    if field.is_empty() {
        return;
    }
    if field.trim().is_empty() {
        errors.push(FieldError::invalid(&place, field, "must be non-empty if specified"));
    }
    if has_newlines(field) {
        errors.push(FieldError::invalid(&place, field, "must not contain line breaks"));
    }
    if !names_a_field(schema, field) {
        errors.push(FieldError::invalid(&place, field, "must be a valid path"));
    }
}

/// Whether a path such as `.a.b['c.d']` leads to a field of the schema.
fn names_a_field(schema: &Schema, path: &str) -> bool {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = if let Some(quoted) = rest.strip_prefix("['") {
            let Some(split) = quoted.split_once("']") else { return false };
            split
        } else if let Some(plain) = rest.strip_prefix('.') {
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        } else {
            return false;
        };
        let Some(next) = schema.property(name).or_else(|| schema.additional()) else {
            return false;
        };
        (schema, rest) = (next, after);
    }
    true
}
