//! Deprecated built-ins in Rego v1: where OPA refuses a call, and where it overlooks it.

#![allow(clippy::expect_used, reason = "tests")]

use modgate_rego::{Capabilities, Program, RegoVersion, builtins, parse_module};

/// The errors of a module of Rego v1 with this code.
fn errors(code: &str) -> Vec<String> {
    let text = format!("package a\n{code}\n");
    let module = parse_module("t.rego", &text, RegoVersion::V1).expect("a module");
    let errors = Program::compile(&[module], &Capabilities::default()).err().unwrap_or_default();
    errors.into_iter().map(|error| error.to_string()).collect()
}

/// A call of each deprecated built-in, with arguments of unknown types.
fn calls() -> Vec<(&'static str, String)> {
    let deprecated = builtins::all().filter(|builtin| builtin.deprecated);
    deprecated
        .map(|builtin| {
            let args: Vec<_> =
                (0..builtin.declaration().args.len()).map(|at| format!("input.a{at}")).collect();
            (builtin.name, format!("{}({})", builtin.name, args.join(", ")))
        })
        .collect()
}

#[test]
fn a_call_is_refused_wherever_its_types_are_checked() {
    let places = [
        "p if { CALL }",
        "p if { x := [CALL]; x }",
        "p if { not CALL }",
        "p if { x := {y | y := CALL}; x }",
        "p if { every x in [1] { y := {z | z := CALL}; y != x } }",
        "p if { every x in [CALL] { x } }",
        "p if { input.b with input as {\"b\": CALL} }",
        "p := CALL",
        "p contains CALL",
        "f(x) := [x, CALL]",
        "f(x) := 1 if { x == 2 } else := CALL",
        // The first call is overlooked, but not where OPA finds another one.
        "p if { every x in [1] { CALL == x } }\nq := CALL",
    ];
    assert!(calls().len() >= 10, "{:?}", calls());
    for (name, call) in calls() {
        for place in places {
            let code = place.replace("CALL", &call);
            let found = errors(&code);
            let wanted = format!("deprecated built-in function calls in expression: {name}");
            assert!(!found.is_empty(), "{code}");
            assert!(found.iter().all(|error| error.contains(&wanted)), "{code}: {found:?}");
        }
    }
}

#[test]
fn a_call_is_overlooked_where_nothing_checks_its_types() {
    let places = [
        "p if { every x in [1] { CALL == x } }",
        "f(x) := 1 if { x == 2 } else := 2 if { every y in [1] { [CALL] == y } }",
        "p if { print(CALL) }",
    ];
    for (_, call) in calls() {
        for place in places {
            let code = place.replace("CALL", &call);
            assert_eq!(errors(&code), Vec::<String>::new(), "{code}");
        }
    }
}

#[test]
fn types_that_do_not_fit_come_first() {
    let found = errors("p if { any([true])\n  1 == \"a\" }");
    assert!(found.iter().all(|error| error.contains("match error")), "{found:?}");
    assert_eq!(found.len(), 1, "{found:?}");
}
