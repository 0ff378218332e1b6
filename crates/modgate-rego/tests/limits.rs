//! Hostile programs end in an error or a result, in little time and on an ordinary stack.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code, helpers included"
)]

use std::time::{Duration, Instant};

use modgate_rego::{
    Capabilities, Error, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module,
    value::{Arena, Heap},
};
use modgate_value::{Budget, Limits, budget::Frozen};

fn compile(source: &str) -> Result<Program, Vec<Error>> {
    let module = parse_module("test.rego", source, RegoVersion::V1)?;
    Program::compile(&[module], &Capabilities::default())
}

/// The value of `data.t.p`, or why there is none.
fn run(source: &str) -> Result<Option<String>, String> {
    let texts = |errors: Vec<Error>| errors.iter().map(|error| error.to_string()).collect();
    let program = compile(source).map_err(|errors| -> String { texts(errors) })?;
    let query = program
        .query("x = data.t.p", RegoVersion::V1, &Capabilities::default())
        .map_err(|errors| -> String { texts(errors) })?;
    let limits = Limits { steps: 2_000_000, bytes: 64 << 20, time: Duration::from_secs(3600) };
    let budget = Budget::new(limits, &Frozen);
    let arena = Arena::new();
    let context = eval::Context {
        input: None,
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let rows = eval::query(&query, context).map_err(|error| error.to_string())?;
    let text = |value: &modgate_rego::value::Value<'_>| {
        value.to_text(&Budget::unlimited()).map_err(|limit| limit.to_string())
    };
    rows.first().and_then(|row| row.first()).map(text).transpose()
}

fn quickly<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    let taken = start.elapsed();
    println!("{what}: {taken:?}");
    assert!(taken < Duration::from_secs(20), "{what} took {taken:?}");
    result
}

#[test]
fn brackets_by_the_megabyte() {
    for open in ["[", "{", "(", "{[", "f(", "a[", "[x | ", "{x: y | ", "not ", "$\"{", "-"] {
        let source = format!("package t\np := {}", open.repeat((1 << 20) / open.len()));
        quickly(open, || compile(&source).expect_err("must not parse"));
        let source = format!("package t\np if {{ {}", open.repeat((1 << 20) / open.len()));
        quickly(open, || compile(&source).expect_err("must not parse"));
    }
}

#[test]
fn nesting_that_is_allowed_runs() {
    let depth = 40;
    let nested = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    for value in [
        nested("[", "1", "]"),
        nested("{\"a\": ", "1", "}"),
        nested("{", "1", "}"),
        nested("(", "1", ")"),
        nested("[x | x := ", "1", "]"),
        nested("count([", "1", "])"),
        nested("$\"{", "1", "}\""),
        format!("1{}", " + 1".repeat(100)),
    ] {
        let source = format!("package t\np := {value}");
        run(&source).unwrap_or_else(|error| panic!("{value}: {error}")).expect("defined");
    }
    let mut every = "1 == 1".to_owned();
    for level in 0..depth {
        every = format!("every x{level} in [1] {{ x{level} == 1; {every} }}");
    }
    let source = format!("package t\np if {{ {every} }}");
    assert_eq!(run(&source), Ok(Some("true".to_owned())));
}

#[test]
fn deepest_nesting_does_not_overflow() {
    // Whatever the answer is, the stack of a test thread has to be enough for it.
    for depth in [60, 63, 64, 65, 120, 126, 127, 128, 129, 500] {
        for (open, middle, close) in [
            ("[", "1", "]"),
            ("[x | x := ", "1", "]"),
            ("{x: x | x := ", "1", "}"),
            ("count([", "1", "])"),
            ("$\"{", "1", "}\""),
            ("input[", "1", "]"),
        ] {
            let value = format!("{}{middle}{}", open.repeat(depth), close.repeat(depth));
            let _ = run(&format!("package t\np := {value}"));
        }
        let _ = run(&format!("package t\np := 1{}", " + 1".repeat(depth)));
        let mut every = "1 == 1".to_owned();
        for level in 0..depth {
            every = format!("every x{level} in [1] {{ x{level} == 1; {every} }}");
        }
        let _ = run(&format!("package t\np if {{ {every} }}"));
    }
}

#[test]
fn iterations_in_a_row() {
    for count in [100, 900, 5_000] {
        let body: String = (0..count).map(|at| format!("x{at} := [1][_]\n")).collect();
        let _ = quickly(&format!("{count} iterations"), || {
            run(&format!("package t\np if {{ {body} }}"))
        });
        let rules: String = (0..count)
            .map(|at| format!("q{at} if {{ x := [1][_]; x == 1; q{} }}\n", at + 1))
            .collect();
        let source = format!("package t\n{rules}\nq{count} := true\np := q0");
        let _ = quickly(&format!("{count} rules"), || run(&source));
        let functions: String = (0..count)
            .map(|at| format!("f{at}(x) := f{}(y) if {{ y := [x][_] }}\n", at + 1))
            .collect();
        let source = format!("package t\n{functions}\nf{count}(x) := x\np := f0(1)");
        let _ = quickly(&format!("{count} functions"), || run(&source));
    }
}

#[test]
fn bodies_back_to_front() {
    let body = |count: usize| -> String {
        let mut lines: Vec<String> =
            (1..count).map(|at| format!("x{at} = x{} + 1", at - 1)).collect();
        lines.reverse();
        format!("package t\np := x{} if {{ {}\nx0 = 1 }}", count - 1, lines.join("\n"))
    };
    assert_eq!(quickly("short", || run(&body(500))), Ok(Some("500".to_owned())));
    let error = quickly("long", || run(&body(20_000))).expect_err("too long");
    assert!(error.contains("takes too long to put in a safe order"), "{error}");
}

#[test]
fn many_rules() {
    let rules: String =
        (0..5_000).map(|at| format!("q{at} := x if {{ x := data.a[_].z }}\n")).collect();
    let others: String = (0..5_000).map(|at| format!("r{at}.z := 1\n")).collect();
    let modules: Vec<_> = [format!("package t\n{rules}"), format!("package a\n{others}")]
        .iter()
        .map(|text| parse_module("m.rego", text, RegoVersion::V1).expect("parses"))
        .collect();
    let errors = quickly("rules", || Program::compile(&modules, &Capabilities::default()))
        .expect_err("too many dependencies");
    assert!(errors[0].mistake.to_string().contains("too many ways"), "{}", errors[0]);
}

#[test]
fn a_long_body_in_order() {
    let lines: String = (0..20_000).map(|at| format!("x{at} := {at}\n")).collect();
    let _ = quickly("long body", || run(&format!("package t\np := x7 if {{ {lines} }}")));
}

#[test]
fn loops_and_growth_end_in_their_budget() {
    let error = run("package t\np if { some i in numbers.range(1, 100000000); i < 0 }");
    assert!(error.is_err(), "{error:?}");
    let error = run("package t\np := count([1 | some a in numbers.range(1, 1000); some b in \
         numbers.range(1, 1000); some c in numbers.range(1, 1000); a + b + c > 1])");
    assert!(error.is_err(), "{error:?}");
    let mut doubling = "package t\ns0 := \"0123456789\"\n".to_owned();
    for at in 1..30 {
        doubling.push_str(&format!("s{at} := concat(\"\", [s{0}, s{0}])\n", at - 1));
    }
    doubling.push_str("p := count(s29)\n");
    assert!(run(&doubling).is_err());
    let mut nested = "package t\na0 := [1]\n".to_owned();
    for at in 1..60 {
        nested.push_str(&format!("a{at} := [a{0}, a{0}]\n", at - 1));
    }
    nested.push_str("p := count(json.marshal(a59))\n");
    assert!(!matches!(run(&nested), Ok(Some(_))));
}
