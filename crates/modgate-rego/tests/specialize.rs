//! What is known before a program runs changes neither its values nor, for the worse, its steps.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code, helpers included"
)]

use modgate_rego::{
    Capabilities, GroupId, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module, specialize,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Value as Json};

/// The value of `t.violation` and the steps that it takes.
fn evaluate(program: &Program, violation: GroupId, input: &Json) -> (String, u64) {
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let context = eval::Context {
        input: Some(Value::json(input)),
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let found = eval::document(program, violation, context).expect("a value");
    let steps = budget.steps_spent();
    (found.expect("a set").to_text(&Budget::unlimited()).expect("text"), steps)
}

/// The value and the steps of the program as it was written, and specialized.
fn both(policy: &str) -> [(String, u64); 2] {
    let input = Json::from_json(
        br#"{"parameters": {"most": 2}, "review": {
            "a": [{"name": "x", "size": 3}, {"name": "y", "size": 1}],
            "b": [{"name": "z", "size": 5}], "c": {"d": {"name": "w", "size": 9}}, "n": 7,
            "e": [{"name": "v", "size": 4}], "f": [{"name": "u", "size": 4}]}}"#,
    )
    .expect("JSON");
    let text = format!("package t\n{policy}");
    let module = parse_module("policy", &text, RegoVersion::V1);
    let module = module.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]));
    let program = Program::compile(&[module], &Capabilities::default());
    let program = program.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]));
    let violation = program.group(&["t", "violation"]).expect("a rule");
    let parameters = input.get("parameters").expect("parameters");
    let special = specialize(&program, "parameters", parameters, &Budget::unlimited());
    [&program, &special].map(|program| evaluate(program, violation, &input))
}

const GENERAL: &str = r#"
general contains {"msg": msg, "field": field} if {
    part := input.review[field][_]
    part.size > input.parameters.most
    msg := sprintf("%v of %v", [part.name, field])
}
general contains {"msg": msg, "field": field} if {
    part := input.review[field][key]
    not part.color
    msg := sprintf("%v: %v", [key, part.name])
}
"#;

#[test]
fn members_that_no_rule_asks_for_are_not_computed() {
    let asked = r#"
violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains msg if general[{"msg": msg, "field": "c"}]
violation contains msg if general[{"msg": msg, "field": "missing"}]
general contains {"msg": "fixed", "field": "a"} if input.review.n > 6
general contains {"msg": "other", "field": "b"} if input.review.n > 6
"#;
    let [(plain, before), (special, after)] = both(&format!("{asked}{GENERAL}"));
    assert_eq!(plain, special);
    assert_eq!(special, r#"{"0: x", "1: y", "d: w", "fixed", "w of c", "x of a"}"#);
    assert!(2 * after < before, "{after} steps instead of {before}");
}

#[test]
fn sets_that_are_asked_in_other_ways_are_computed_once() {
    for asked in [
        // As a whole, too.
        r#"violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains "many" if count(general) > 3"#,
        // For many fields.
        r#"violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains msg if general[{"msg": msg, "field": "b"}]
violation contains msg if general[{"msg": msg, "field": "c"}]
violation contains msg if general[{"msg": msg, "field": "e"}]
violation contains msg if general[{"msg": msg, "field": "f"}]"#,
        // For what is not a text.
        r#"violation contains msg if general[{"msg": msg, "field": 1}]"#,
        r#"violation contains member if { some member in general; member.field == "b" }"#,
        r#"violation contains field if general[{"msg": "z of b", "field": field}]"#,
    ] {
        let [(plain, before), (special, after)] = both(&format!("{asked}\n{GENERAL}"));
        assert_eq!(plain, special, "{asked}");
        assert!(after <= before + 20, "{asked}: {after} steps instead of {before}");
    }
}

#[test]
fn rules_that_begin_with_something_else_keep_their_set() {
    let [(plain, before), (special, after)] = both(
        r#"
violation contains msg if general[{"msg": msg, "field": "a"}]
violation contains msg if general[{"msg": msg, "field": "b"}]
general contains {"msg": msg, "field": field} if {
    sum([part.size | part := input.review[_][_]]) > input.parameters.most
    part := input.review[field][_]
    msg := part.name
}
general contains {"msg": msg, "field": field} if {
    some field in ["a", "b"]
    some msg, _ in {"m": 1}
}
"#,
    );
    assert_eq!(plain, special);
    assert!(after <= before + 20, "{after} steps instead of {before}");
}

#[test]
fn single_members_are_found_in_sets_that_were_split() {
    let [(plain, _), (special, _)] = both(
        r#"
violation contains "x" if names["x"]
violation contains "big" if names[{"of": "w", "size": 9}]
violation contains "none" if not names.none
violation contains name if { some part in input.review.a; name := names[part.name] }
names contains name if {
    some part in input.review.a
    part.size > 0
    name := part.name
}
names contains {"of": name, "size": size} if {
    some part in input.review.c
    size := part.size
    name := part.name
}
"#,
    );
    assert_eq!(plain, special);
    assert_eq!(special, r#"{"big", "none", "x", "y"}"#);
}
