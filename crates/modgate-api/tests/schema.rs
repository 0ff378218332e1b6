//! Structural schemas: what the API server says, and what holds for every schema and value.

#![allow(clippy::expect_used, reason = "a test")]

use std::time::Duration;

use modgate_api::schema::{Schema, aggregate, clean};
use modgate_value::{Budget, Limits, Object, Str, Value, budget::Frozen};
use proptest::prelude::*;

fn parse(json: &str) -> Value {
    Value::from_json(json.as_bytes()).expect(json)
}

fn schema(json: &str) -> Schema {
    Schema::from_value(&parse(json), "schema").expect(json)
}

#[test]
fn values_against_schemas() {
    let check = |json: &str, value: &str, expected: &str| {
        let errors = schema(json).validate(&parse(value), "$", &Budget::unlimited());
        assert_eq!(aggregate(&errors.expect("a verdict")), expected, "{value} as {json}");
    };
    let labels = r#"{"type":"object","properties":{"labels":{"type":"array","items":{"type":"string","pattern":"^[a-z]+$"},"maxItems":2}}}"#;
    check(labels, r#"{"labels":["a","b"]}"#, "[]");
    check(
        labels,
        r#"{"labels":"a"}"#,
        "$.labels: Invalid value: \"string\": labels in body must be of type array: \"string\"",
    );
    check(
        labels,
        r#"{"labels":["A","b","c"]}"#,
        "[$.labels[0]: Invalid value: \"A\": labels[0] in body should match '^[a-z]+$', $.labels: \
         Too many: 3: must have at most 2 items]",
    );
    let nested = r#"{"type":"object","required":["a"],"properties":{"a":{"type":"object","required":["b"]}}}"#;
    check(nested, "{}", "$.a: Required value");
    check(nested, r#"{"a":{}}"#, "$.a.b: Required value");
    check(
        r#"{"type":"string","enum":["x","y"]}"#,
        r#""z""#,
        "$: Unsupported value: \"z\": supported values: \"x\", \"y\"",
    );
    check(r#"{"x-kubernetes-int-or-string":true}"#, "5", "[]");
}

#[test]
fn schemas_that_no_crd_may_have() {
    let check = |json: &str, expected: &str| {
        let problems = schema(json).problems("s", &Budget::unlimited()).expect("problems");
        assert_eq!(aggregate(&problems), expected, "{json}");
    };
    check(r#"{"type":"object"}"#, "[]");
    check("{}", "s.type: Required value: must not be empty at the root");
    check(r#"{"type":"string"}"#, "s.type: Invalid value: \"string\": must be object at the root");
    check(
        r#"{"type":"object","additionalProperties":{"type":"string"}}"#,
        "s.additionalProperties: Forbidden: must not be used at the root",
    );
    check(
        r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"labels":{"type":"object","additionalProperties":{"type":"string","default":"x"}}}}}}"#,
        "s.properties[metadata].properties[labels].additionalProperties.default: Forbidden: must \
         not be set inside additionalProperties applying to object metadata",
    );
    check(
        r#"{"type":"object","$schema":"x"}"#,
        "s: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported",
    );
}

/// Alternatives inside of alternatives are the worst there is: every level asks all of the next.
#[test]
fn a_budget_bounds_alternatives() {
    let mut json = r#"{"type":"string"}"#.to_owned();
    for _ in 0..30 {
        json = format!(r#"{{"anyOf":[{json},{{"minLength":1}}],"oneOf":[{{"maxLength":9}}]}}"#);
    }
    let limits = Limits { steps: 50, bytes: u64::MAX, time: Duration::MAX };
    let verdict = schema(&json).validate(&parse("5"), "$", &Budget::new(limits, &Frozen));
    assert!(verdict.is_err());
}

fn text() -> impl Strategy<Value = Str> {
    prop::sample::select(vec!["a", "b", "kind", "metadata", "", "x.y", "ä"]).prop_map(Str::from)
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-9_i64..9).prop_map(Value::from),
        prop::sample::select(vec!["1.5", "1e300", "123456789012345678901234567890"])
            .prop_map(parse),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..4)
                .prop_map(|members| Object::from_entries(members).into()),
        ]
    })
}

fn member(
    name: &'static str,
    value: impl Strategy<Value = Value>,
) -> impl Strategy<Value = (Str, Value)> {
    value.prop_map(move |value| (Str::from(name), value))
}

/// Schemas of every keyword, most of them no CRD's.
fn any_schema() -> impl Strategy<Value = Value> {
    let words = |words: &'static [&'static str]| prop::sample::select(words).prop_map(Value::from);
    let flag = || any::<bool>().prop_map(Value::from);
    let count = || (-1_i64..4).prop_map(Value::from);
    let plain = prop_oneof![
        member("type", words(&["object", "array", "string", "integer", "number", "boolean", "x"])),
        member("format", words(&["ipv4", "int32", "float", "date-time", "x"])),
        member("pattern", words(&["^a", "(", "b$"])),
        member("nullable", flag()),
        member("default", any_value()),
        member("enum", prop::collection::vec(any_value(), 0..3).prop_map(Value::from)),
        member(
            "required",
            prop::collection::vec(text().prop_map(Value::from), 0..3).prop_map(Value::from)
        ),
        member("maximum", count()),
        member("minimum", count()),
        member("exclusiveMaximum", flag()),
        member("multipleOf", count()),
        member("minLength", count()),
        member("maxItems", count()),
        member("minProperties", count()),
        member("x-kubernetes-preserve-unknown-fields", flag()),
        member("x-kubernetes-int-or-string", flag()),
        member("x-kubernetes-embedded-resource", flag()),
        member("x-kubernetes-list-type", words(&["map", "set", "atomic", "x"])),
        member("x-kubernetes-list-map-keys", Just(parse(r#"["a","b"]"#))),
        member("x-kubernetes-validations", Just(parse(r#"[{"rule":"","fieldPath":".a['b'].c"}]"#))),
    ];
    let leaf = prop::collection::vec(plain.clone(), 0..5)
        .prop_map(|members| Value::from(Object::from_entries(members)));
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let map = prop::collection::vec((text(), inner.clone()), 0..4)
            .prop_map(|members| Value::from(Object::from_entries(members)));
        let list = || prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
        let either = prop_oneof![inner.clone(), any::<bool>().prop_map(Value::from)];
        let below = prop_oneof![
            member("properties", map),
            member("items", inner.clone()),
            member("additionalProperties", either),
            member("anyOf", list()),
            member("oneOf", list()),
            member("allOf", list()),
            member("not", inner),
        ];
        (prop::collection::vec(plain.clone(), 0..4), prop::collection::vec(below, 0..4)).prop_map(
            |(mut members, below)| {
                members.extend(below);
                Object::from_entries(members).into()
            },
        )
    })
}

const LIMITS: Limits = Limits { steps: 100_000, bytes: 10_000_000, time: Duration::MAX };

proptest! {
    #[test]
    fn no_schema_and_no_value_panics(json in any_value(), value in any_value()) {
        if let Ok(schema) = Schema::from_value(&json, "s") {
            let budget = Budget::new(LIMITS, &Frozen);
            let _ = schema.problems("s", &budget);
            let _ = schema.validate(&value, "$", &budget);
        }
    }

    #[test]
    fn every_answer_is_bounded(json in any_schema(), value in any_value()) {
        let schema = Schema::from_value(&json, "s").expect("every keyword has its type");
        let budget = Budget::new(LIMITS, &Frozen);
        let _ = schema.problems("s", &budget);
        let _ = schema.validate(&value, "$", &budget);
        let _ = schema.unknown_fields(&value, &budget);
        prop_assert!(budget.steps_spent() <= LIMITS.steps);
        prop_assert!(budget.bytes_spent() <= LIMITS.bytes);
    }

    #[test]
    fn defaults_are_filled_in_once(json in any_schema(), value in any_value()) {
        let schema = Schema::from_value(&json, "s").expect("every keyword has its type");
        let budget = Budget::unlimited();
        let filled = schema.fill_defaults(&value, &budget).expect("no limit");
        prop_assert_eq!(schema.fill_defaults(&filled, &budget), Ok(filled));
    }

    #[test]
    fn a_clean_schema_says_the_same(json in any_schema(), value in any_value()) {
        let cleaned = clean(&json);
        prop_assert_eq!(&clean(&cleaned), &cleaned);
        let verdict = |json: &Value| {
            let schema = Schema::from_value(json, "s").expect("a schema");
            let budget = Budget::unlimited();
            (schema.validate(&value, "$", &budget), schema.unknown_fields(&value, &budget))
        };
        prop_assert_eq!(verdict(&json), verdict(&cleaned));
    }
}
