//! Functions that are tables: the row that an argument names, found or tried one by one.

#![allow(missing_docs, clippy::expect_used, clippy::panic, reason = "test code, helpers included")]

use modgate_rego::{
    Capabilities, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module,
    value::{Arena, Heap},
};
use modgate_value::Budget;

const TABLE: &str = r#"
package t

f(_, "a") := 1
f(_, "b") := 2
f(x, "b") := 2 if x == 0
f(x, "c") := x if x > 1 else := "small"
f(x, "d") := x

g("a") := 1
g("b") := 2
g("c") := 3
g("d") := 4
default g(_) := "other"

h("a") := 1
h("b") := 2
h("c") := 3
h(1) := 4
"#;

fn check(text: &str, expected: Option<&str>) {
    let module = parse_module("t.rego", TABLE, RegoVersion::V1).expect("a module");
    let program = Program::compile(&[module], &Capabilities::default()).expect("a program");
    let query = program
        .query(&format!("x = {text}"), RegoVersion::V1, &Capabilities::default())
        .unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let context = eval::Context {
        input: None,
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let rows = eval::query(&query, context).expect("an evaluation");
    let got = rows.first().and_then(|row| row.first());
    let got = got.map(|value| value.to_text(&budget).expect("a text"));
    assert_eq!(got.as_deref(), expected, "{text}");
}

#[test]
fn the_row_that_an_argument_names() {
    check(r#"data.t.f(0, "a")"#, Some("1"));
    check(r#"data.t.f(0, "b")"#, Some("2"));
    check(r#"data.t.f(2, "c")"#, Some("2"));
    check(r#"data.t.f(1, "c")"#, Some("\"small\""));
    check(r#"data.t.f(7, "d")"#, Some("7"));
    check(r#"data.t.f(7, "e")"#, None);
}

#[test]
fn no_row_but_a_default() {
    check(r#"data.t.g("d")"#, Some("4"));
    check(r#"data.t.g("e")"#, Some("\"other\""));
    check("data.t.g([])", Some("\"other\""));
}

#[test]
fn rows_of_different_types() {
    check(r#"data.t.h("c")"#, Some("3"));
    check("data.t.h(1)", Some("4"));
    check("data.t.h(1.0)", Some("4"));
}
