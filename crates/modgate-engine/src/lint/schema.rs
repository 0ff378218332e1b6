//! Values whose types a schema has: the parameters of a template, and the request that a policy reads.

use std::sync::LazyLock;

use modgate_value::{Value, near};

use super::places::{Fault, Step, What};

/// The members of a review beside its objects. Of other members nothing is known.
static REVIEW: LazyLock<Value> = LazyLock::new(|| {
    let kind = r#"{"type": "object", "properties": {
        "group": {"type": "string"}, "kind": {"type": "string"}, "version": {"type": "string"}}}"#;
    let resource = r#"{"type": "object", "properties": {
        "group": {"type": "string"}, "resource": {"type": "string"}, "version": {"type": "string"}}}"#;
    let text = r#"{"type": "string"}"#;
    let review = format!(
        r#"{{"type": "object", "properties": {{
            "dryRun": {{"type": "boolean"}}, "kind": {kind}, "name": {text}, "namespace": {text},
            "operation": {text}, "requestKind": {kind}, "requestResource": {resource},
            "requestSubResource": {text}, "resource": {resource}, "subResource": {text}, "uid": {text},
            "userInfo": {{"type": "object", "properties": {{
                "groups": {{"type": "array", "items": {text}}}, "uid": {text}, "username": {text}}}}}}}}}"#
    );
    Value::from_json(review.as_bytes()).unwrap_or(Value::Null)
});

/// The schema of a review.
pub(super) fn review() -> &'static Value {
    &REVIEW
}

/// The schema of the parameters of a template.
pub(super) fn of_template(template: &Value) -> Option<&Value> {
    template.path(&["spec", "crd", "spec", "validation", "openAPIV3Schema"])
}

/// Members with which a schema allows more than its properties.
const OPEN: [&str; 7] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
];

/// The schema behind a step.
fn below<'s>(schema: &'s Value, step: &Step<'_>) -> Option<&'s Value> {
    let element = || schema.get("items").filter(|it| it.as_object().is_some());
    let value = || schema.get("additionalProperties").filter(|it| it.as_object().is_some());
    match step {
        Step::Member(name) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            properties.and_then(|properties| properties.get(name)).or_else(value)
        }
        Step::Element => element(),
        Step::Keyed(_) => None,
        Step::Any => element().or_else(value),
    }
}

/// The schema at a place.
fn at<'s>(schema: &'s Value, steps: &[Step<'_>]) -> Option<&'s Value> {
    steps.iter().try_fold(schema, below)
}

/// The type of the values that a schema allows, if it is one.
fn type_of(schema: &Value) -> Option<&str> {
    let is_open = ["allOf", "anyOf", "oneOf", "$ref", "x-kubernetes-int-or-string"];
    let ty = schema.get("type").and_then(Value::as_str);
    ty.filter(|_| is_open.iter().all(|member| schema.get(member).is_none()))
}

/// The value at a place, in words, if it never has the type of this one.
pub(super) fn never_is(schema: &Value, steps: &[Step<'_>], value: &Value) -> Option<String> {
    let ty = type_of(at(schema, steps)?)?;
    let (fits, words) = match ty {
        "string" => (matches!(value, Value::String(_)), "a text"),
        "integer" | "number" => (matches!(value, Value::Number(_)), "a number"),
        "boolean" => (matches!(value, Value::Bool(_)), "true or false"),
        "array" => (matches!(value, Value::Array(_)), "a list"),
        "object" => (matches!(value, Value::Object(_)), "an object"),
        _ => return None,
    };
    (!fits && !matches!(value, Value::Null)).then(|| words.to_owned())
}

/// The few texts that the value at a place may be.
pub(super) fn values<'s>(schema: &'s Value, steps: &[Step<'_>]) -> Option<Vec<&'s str>> {
    let listed = at(schema, steps)?.get("enum")?.as_array()?;
    listed.iter().map(Value::as_str).collect()
}

/// The first step that leads nowhere, where a near name leads on, or where there are no members at all.
pub(super) fn fault<'t>(schema: &Value, steps: &[Step<'t>]) -> Option<Fault<'t>> {
    let mut schema = schema;
    for (at, step) in steps.iter().enumerate() {
        let Some(next) = below(schema, step) else {
            let Step::Member(name) = step else { return None };
            let what = match type_of(schema)? {
                "array" => What::OfList(name, None),
                "string" | "integer" | "number" | "boolean" => What::OfScalar(name),
                "object" if OPEN.iter().all(|member| schema.get(member).is_none()) => {
                    let properties = schema.get("properties")?.as_object()?;
                    let meant = near::nearest(name, properties.keys().map(|it| it.as_str()))?;
                    What::Misspelt(name, meant.to_owned())
                }
                _ => return None,
            };
            return Some(Fault { at, what });
        };
        schema = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &str) -> Vec<Step<'_>> {
        let step = |part| if part == "*" { Step::Any } else { Step::Member(part) };
        path.split('.').map(step).collect()
    }

    #[test]
    fn places_of_parameters() {
        let schema = br#"{"type": "object", "properties": {
            "labels": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
            "min": {"type": "integer"}, "on": {"type": "boolean"}, "any": {},
            "port": {"x-kubernetes-int-or-string": true, "type": "integer"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"name": {}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "mode": {"type": "string", "enum": ["strict", "lax"]}}}"#;
        let schema = Value::from_json(schema).expect("schema");
        for (path, value, expected) in [
            ("min", "\"3\"", Some("a number")),
            ("min", "3", None),
            ("min", "null", None),
            ("on", "\"true\"", Some("true or false")),
            ("labels", "\"x\"", Some("a list")),
            ("labels.*", "\"x\"", Some("an object")),
            ("labels.*.key", "7", Some("a text")),
            ("map.x", "7", Some("a text")),
            ("map.*", "7", Some("a text")),
            ("any", "7", None),
            ("port", "\"x\"", None),
            ("nothing", "7", None),
        ] {
            let value = Value::from_json(value.as_bytes()).expect(value);
            assert_eq!(never_is(&schema, &steps(path), &value).as_deref(), expected, "{path}");
        }
        for (path, expected) in [
            ("labels.*.kye", Some("2 kye for key")),
            ("labels.key", Some("1 key of a list")),
            ("labels.*.key.x", Some("3 x of a scalar")),
            ("lables", Some("0 lables for labels")),
            ("open.nmae", None),
            ("map.anything", None),
            ("any.thing", None),
        ] {
            let said = fault(&schema, &steps(path)).map(|fault| match fault.what {
                What::Misspelt(name, meant) => format!("{} {name} for {meant}", fault.at),
                What::OfList(name, _) => format!("{} {name} of a list", fault.at),
                What::OfScalar(name) => format!("{} {name} of a scalar", fault.at),
                _ => String::new(),
            });
            assert_eq!(said.as_deref(), expected, "{path}");
        }
        assert_eq!(values(&schema, &steps("mode")), Some(vec!["strict", "lax"]));
        let text = Value::from("true");
        assert_eq!(never_is(review(), &steps("dryRun"), &text).as_deref(), Some("true or false"));
        assert_eq!(never_is(review(), &steps("userInfo.groups.*"), &text), None);
    }
}
