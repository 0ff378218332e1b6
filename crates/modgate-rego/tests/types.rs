//! Types of variables in patterns: which programs OPA 1.17.1 accepts.
#![allow(missing_docs, clippy::expect_used, reason = "tests")]

use modgate_rego::{Capabilities, Program, RegoVersion, parse_module};

/// Members of several types, and a statement that asks for some of them; whether OPA accepts that.
const CASES: &[(&str, &str, bool)] = &[
    // A pattern gives types to the variables in front of the first member that does not fit, by the order of keys.
    (MIXED, r#"set[{"msg": "m", "field": x}]; x == "a""#, true),
    (MIXED, r#"set[{"field": x, "msg": "m"}]; x == "a""#, true),
    (MIXED, r#"set[{"msg": "m", "field": x}]; x == 1"#, true),
    (MIXED, r#"set[{"msg": x, "field": "a"}]; x == 1"#, true),
    (MIXED, r#"set[{"msg": x, "field": "a"}]; x == "m""#, false),
    (MIXED, r#"set[{"field": "a", "msg": x}]; x == "m""#, false),
    (MIXED, r#"set[{"msg": "m", "field": x}]; x == null"#, false),
    (MIXED, r#"set[{"msg": x, "field": y}]; x == y"#, true),
    (MIXED, r#"some {"msg": "m", "field": x} in set; x == "a""#, true),
    (NESTED, r#"set[{"b": {"z": "m", "y": x}, "a": 1}]; x == "t""#, false),
    (NESTED, r#"set[{"b": {"z": "m", "y": x}, "a": "u"}]; x == "t""#, false),
    (NESTED, r#"set[{"b": {"z": "m", "y": x}, "a": "u"}]; x == 2"#, true),
];

const MIXED: &str = r#"set contains {"msg": msg, "field": "a"} if msg := 0
set contains {"msg": msg, "field": 1} if msg := sprintf("%v", [input.x])"#;

const NESTED: &str = r#"set contains {"a": 1, "b": {"y": "t", "z": 3}} if input.x
set contains {"a": "u", "b": {"y": 2, "z": "m"}} if input.x"#;

#[test]
fn patterns_give_types_to_variables_as_in_opa() {
    for (rules, body, accepted) in CASES {
        let text = format!("package t\n{rules}\nviolation contains \"found\" if {{ {body} }}\n");
        let module = parse_module("policy", &text, RegoVersion::V1).expect("a module");
        let errors = Program::compile(&[module], &Capabilities::default()).err();
        assert_eq!(errors.is_none(), *accepted, "{body}: {errors:?}");
    }
}
