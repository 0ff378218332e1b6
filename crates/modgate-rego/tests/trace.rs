//! Tracers receive which expressions of which rule held or failed, where they are, and
//! with which bindings.

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
    eval::{self, Event, EventKind, Tracer},
    parse_module,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Value as Json};

/// Writes each event as `rule:line text [binding=value ...] -> ok | fail`.
struct Notes<'p> {
    program: &'p Program,
    lines: Vec<String>,
}

impl Tracer for Notes<'_> {
    fn event(&mut self, event: Event<'_, '_>) {
        let text = &self.program.module(event.span.module).expect("a module").text;
        let (start, end) = (event.span.start as usize, event.span.end as usize);
        let line = text[..start].matches('\n').count() + 1;
        let rule = event.rule_name().unwrap_or_default();
        let mut bindings: Vec<String> = event
            .bindings()
            .map(|(name, value)| {
                format!("{name}={}", value.to_text(&Budget::unlimited()).expect("a text"))
            })
            .collect();
        bindings.sort();
        let went = match event.kind {
            EventKind::Succeeded => "ok",
            EventKind::Failed => "fail",
        };
        let written = &text[start..end];
        self.lines.push(format!("{rule}:{line} {written} [{}] -> {went}", bindings.join(" ")));
    }
}

fn compile(source: &str) -> (Program, GroupId) {
    let module = parse_module("test.rego", source, RegoVersion::V1)
        .unwrap_or_else(|errors| panic!("{}", errors[0]));
    let program = Program::compile(&[module], &Capabilities::default())
        .unwrap_or_else(|errors| panic!("{}", errors[0]));
    let group = program.group(&["t", "p"]).expect("`p` is a rule");
    (program, group)
}

fn evaluate(
    (program, group): &(Program, GroupId),
    input: &Json,
    budget: &Budget<'_>,
    tracer: Option<&mut Notes<'_>>,
) -> Result<Option<String>, String> {
    let arena = Arena::new();
    let context = eval::Context {
        input: Some(Value::json(input)),
        data: None,
        heap: Heap::new(&arena, budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: tracer.map(|notes| notes as &mut dyn Tracer),
    };
    let value = eval::document(program, *group, context).map_err(|error| error.to_string())?;
    Ok(value.map(|value| value.to_text(&Budget::unlimited()).expect("a text")))
}

/// The events of evaluating `data.t.p`, after checking that being watched changes nothing.
fn trace(source: &str, input: &str) -> Vec<String> {
    let compiled = compile(source);
    let input = Json::from_json(input.as_bytes()).expect("JSON");
    let (alone, watched) = (Budget::unlimited(), Budget::unlimited());
    let mut notes = Notes { program: &compiled.0, lines: Vec::new() };
    let expected = evaluate(&compiled, &input, &alone, None);
    let result = evaluate(&compiled, &input, &watched, Some(&mut notes));
    assert_eq!(result, expected, "{source}");
    assert_eq!(watched.steps_spent(), alone.steps_spent(), "{source}");
    assert_eq!(watched.bytes_spent(), alone.bytes_spent(), "{source}");
    notes.lines
}

fn check(rules: &str, input: &str, expected: &[&str]) {
    let events = trace(&format!("package t\n{rules}"), input);
    assert_eq!(events, expected, "{rules}\n{events:#?}");
}

#[test]
fn expressions_in_order() {
    check(
        "p if {\n  x := input.a\n  x > 1\n  x < 3\n}",
        r#"{"a": 2}"#,
        &["p:3 x := input.a [x=2] -> ok", "p:4 x > 1 [x=2] -> ok", "p:5 x < 3 [x=2] -> ok"],
    );
}

#[test]
fn the_rest_of_a_body_is_not_tried_after_a_failure() {
    check("p if {\n  input.a\n  input.b == 2\n}", r#"{"b": 2}"#, &["p:3 input.a [] -> fail"]);
}

#[test]
fn every_way_through_an_iteration() {
    check(
        "p contains x if {\n  some x in input.xs\n  x > 1\n}",
        r#"{"xs": [1, 2, 3]}"#,
        &[
            "p:3 some x in input.xs [x=1] -> ok",
            "p:4 x > 1 [x=1] -> fail",
            "p:3 some x in input.xs [x=2] -> ok",
            "p:4 x > 1 [x=2] -> ok",
            "p:3 some x in input.xs [x=3] -> ok",
            "p:4 x > 1 [x=3] -> ok",
        ],
    );
}

#[test]
fn rules_and_functions_of_their_own() {
    check(
        "p if {\n  q\n  f(input.a) == 3\n}\nq if input.a == 2\nf(x) := y if y := x + 1",
        r#"{"a": 2}"#,
        &[
            "q:6 input.a == 2 [] -> ok",
            "p:3 q [] -> ok",
            "f:7 y := x + 1 [x=2 y=3] -> ok",
            "p:4 f(input.a) == 3 [] -> ok",
        ],
    );
}

#[test]
fn inside_negation_every_comprehension_and_with() {
    check(
        "p if {\n  not q\n}\nq if input.a == 3",
        r#"{"a": 2}"#,
        &["q:5 input.a == 3 [] -> fail", "p:3 not q [] -> ok"],
    );
    check(
        "p if {\n  every x in input.xs {\n    x > 1\n  }\n}",
        r#"{"xs": [2, 1]}"#,
        &[
            "p:4 x > 1 [x=2] -> ok",
            "p:4 x > 1 [x=1] -> fail",
            "p:3 every x in input.xs {\n    x > 1\n  } [x=1] -> fail",
        ],
    );
    check(
        "p if {\n  n := count([x | some x in input.xs; x > 1])\n  n == 1\n}",
        r#"{"xs": [2, 1]}"#,
        &[
            "p:3 some x in input.xs [n=null x=2] -> ok",
            "p:3 x > 1 [n=null x=2] -> ok",
            "p:3 some x in input.xs [n=null x=1] -> ok",
            "p:3 x > 1 [n=null x=1] -> fail",
            "p:3 n := count([x | some x in input.xs; x > 1]) [n=1 x=1] -> ok",
            "p:4 n == 1 [n=1 x=1] -> ok",
        ],
    );
    check(
        "p if {\n  q with input.a as 5\n}\nq if input.a == 5",
        r#"{"a": 2}"#,
        &["q:5 input.a == 5 [] -> ok", "p:3 q [] -> ok"],
    );
}

#[test]
fn branches_are_tried_in_order() {
    check(
        "p := 1 if {\n  input.a == 1\n} else := 2 if {\n  input.a == 2\n}",
        r#"{"a": 2}"#,
        &["p:3 input.a == 1 [] -> fail", "p:5 input.a == 2 [] -> ok"],
    );
}
