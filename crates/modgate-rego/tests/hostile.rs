//! Every built-in, from the table of built-ins, with hostile operands: what it allocates is at most
//! twice what its budget allows, and it ends when the budget does.
//!
//! How long it takes is measured in processor time, so that a busy machine changes nothing.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and their output says why"
)]

use std::time::{Duration, Instant};

use modgate_corpus::CountingClock;
use modgate_rego::{
    Capabilities, Program, Query, RegoVersion,
    builtins::{self, Isolated},
    eval, parse_module, specialize,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Limits, Value as Json, budget::Frozen};

const BYTES: usize = 2 << 20;

/// Memory that does not grow with the operands: tables made once, the first block of an arena.
const FIXED: usize = 1 << 20;

/// Hostile documents: long, deep, wide, extreme, and text in every notation that some built-in reads.
fn documents() -> Vec<Json> {
    let list = |items: &mut dyn Iterator<Item = Json>| items.collect::<Json>();
    let long = |text: &str, length: usize| Json::from(text.repeat(length / text.len()));
    let deep = (0..400).fold(Json::from("x"), |inner, _| [inner].into_iter().collect());
    let object =
        |size: i64| -> Json { (0..size).map(|n| (format!("key-{n}"), Json::from(n))).collect() };
    let clique: Json = (0..300)
        .map(|n| (n.to_string(), list(&mut (0..300).map(|to| Json::from(to.to_string())))))
        .collect();
    let doubling = (0..30)
        .fold(Json::from_json(br#"{"type": "string"}"#).expect("JSON"), |part, _| {
            [("allOf", list(&mut [part.clone(), part].into_iter()))].into_iter().collect()
        });
    let patches = list(&mut (0..2_000).map(|n| {
        [("op", Json::from("add")), ("path", format!("/key-{n}/-").into()), ("value", deep.clone())]
            .into_iter()
            .collect()
    }));
    let number = |text: &str| Json::from_json(text.as_bytes()).expect("a number");
    let mut found = vec![
        long("a", 100_000),
        long("d", 40_000),
        long("\u{e9}\u{1f600}", 60_000),
        long("a,b.c/d\n", 60_000),
        long("0", 50_000),
        long("QUJD", 60_000),
        long("[", 50_000),
        long("{\"a\":[", 30_000),
        long("a: &x [*x, *x]\n", 30_000),
        long("%1000000d", 9_000),
        long("{{range .}}{{.}}{{end}}", 20_000),
        long("{a,b}*", 6_000),
        long("$9${0}$x ", 30_000),
        long("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", 60_000),
        long("a.", 50_000),
        long("1.2.3-", 50_000),
        Json::from(".*[^d]x|d"),
        Json::from("(\\pL{200}\\pN{200}){2}"),
        Json::from("((a{100}){100}){100}"),
        Json::from("[a-z]*".repeat(12)),
        Json::from("0.0.0.0/0"),
        Json::from("::/0"),
        Json::from(""),
        number("9223372036854775807"),
        number("-9223372036854775808"),
        number("1e9999"),
        number("0.5"),
        number("-1"),
        deep.clone(),
        list(&mut (0..20_000).map(Json::from)),
        list(&mut (0..5_000).map(|n| Json::from(format!("10.0.{}.{}/32", n / 256, n % 256)))),
        list(&mut (0..5_000).map(|n| Json::from(format!("key-{n}/a/b")))),
        list(&mut std::iter::repeat_n(long("a", 2_000), 200)),
        object(5_000),
        clique,
        doubling,
        patches,
        long("\\pL|", 30_000),
        long("(?i)[\\x{100}-\\x{10ffff}]|\\W|", 30_000),
    ];
    found.push(list(&mut found.clone().into_iter().take(8)));
    found
}

/// Policies whose constants would take all memory, or all time, if they were written out.
fn constants() -> Vec<String> {
    let chain = |first: &str, step: &str| {
        let mut source = format!("package t\nv0 := {first}\n");
        for n in 1..=60 {
            source += &format!("v{n} := {}\n", step.replace('@', &format!("v{}", n - 1)));
        }
        source
    };
    let locals = |first: &str, step: &str| {
        let mut body = format!("x0 := {first}\n");
        for n in 1..=60 {
            body += &format!("x{n} := {}\n", step.replace('@', &format!("x{}", n - 1)));
        }
        body
    };
    let pair = r#"{"a": @, "b": @}"#;
    let map = r#"{"a": 1}"#;
    vec![
        format!("{}p {{ v60 == v60 }}", chain(map, pair)),
        format!("{}p {{ count(v60) == 9 }}", chain(map, pair)),
        format!("{}p {{ count(v60) == 9 }}", chain("[1]", "[@, @]")),
        format!("{}p {{ count({{v60}}) == 9 }}", chain("{1}", "{@, [@]}")),
        format!("{}p {{ count(json.marshal(v60)) == 9 }}", chain(map, pair)),
        format!("{}p {{ count(v60) == 9 }}", chain("\"abcdefgh\"", "concat(\"\", [@, @])")),
        format!("package t\np {{ {}\ncount(x60) == 9 }}", locals(map, pair)),
        format!("package t\np {{ {}\nx60 == x60 }}", locals("input.parameters", pair)),
        "package t\np { count([x | x := numbers.range(1, 100000000)[_]]) == 1 }".to_owned(),
        "package t\np { count(sprintf(\"%s\", [concat(\"\", [sprintf(\"%1000000d\", [1]) | \
         numbers.range(1, 1000)[_]])])) == 1 }"
            .to_owned(),
        "package t\np { count([sprintf(\"%1000000d\", [1]) | numbers.range(1, 1000)[_]]) == 1 }"
            .to_owned(),
    ]
}

/// The work of the specialiser ahead of a request is bounded, and where it is too much the original
/// program remains.
#[test]
fn constants_are_computed_within_bounds() {
    for source in constants() {
        let module = parse_module("t.rego", &source, RegoVersion::V0).expect("a module");
        let program = Program::compile(&[module], &Capabilities::default()).expect("a program");
        let limits = Limits { steps: 1_000_000, bytes: 16 << 20, time: Duration::MAX };
        let parameters = Json::from_json(br#"{"a": 1}"#).expect("JSON");
        let start = Instant::now();
        let mut specialized = None;
        let allocated = allocation_counter::measure(|| {
            let budget = Budget::new(limits, &Frozen);
            specialized = Some(specialize(&program, "parameters", &parameters, &budget));
        });
        let shown: String = source.chars().rev().take(60).collect();
        let shown: String = shown.chars().rev().collect();
        println!("{:?}, {} bytes: {shown}", start.elapsed(), allocated.bytes_max);
        assert!(allocated.bytes_max <= 2 * (16 << 20), "{} bytes: {shown}", allocated.bytes_max);
        // What is kept when it is done.
        assert!(allocated.bytes_current <= 4 << 20, "{} bytes: {shown}", allocated.bytes_current);
        let input: Json = [("parameters", parameters)].into_iter().collect();
        let evaluated = |program: &Program| {
            let budget = Budget::new(Limits { steps: 200_000, bytes: 4 << 20, ..limits }, &Frozen);
            let arena = Arena::new();
            let context = eval::Context {
                input: Some(Value::json(&input)),
                data: None,
                heap: Heap::new(&arena, &budget),
                host: &Isolated,
                strict_builtin_errors: false,
                tracer: None,
            };
            let group = program.group(&["t", "p"]).expect("`p` is a rule");
            eval::document(program, group, context)
                .map(|value| value.map(|value| value.to_string()))
        };
        // Either may run out of its budget where the other does not.
        let specialized = specialized.expect("measured");
        if let (Ok(plain), Ok(ahead)) = (evaluated(&program), evaluated(&specialized)) {
            assert_eq!(plain, ahead, "{shown}");
        }
    }
}

/// The maximum memory of one call, how often it looked at the clock, and how long it took.
struct Call {
    name: String,
    bytes: u64,
    looks: u64,
    taken: Duration,
}

fn evaluate(query: &Query, input: &Json, budget: &Budget<'_>) {
    let arena = Arena::new();
    let context = eval::Context {
        input: Some(Value::json(input)),
        data: None,
        heap: Heap::new(&arena, budget),
        host: &Isolated,
        strict_builtin_errors: true,
        tracer: None,
    };
    let _ = eval::query(query, context);
}

fn call(name: &str, query: &Query, operands: &[Json]) -> Call {
    let input: Json = operands.iter().cloned().collect();
    let clock = CountingClock::default();
    let limits = Limits { steps: 60_000, bytes: BYTES as u64, time: Duration::from_millis(400) };
    let start = Instant::now();
    let allocated = allocation_counter::measure(|| {
        evaluate(query, &input, &Budget::new(limits, &clock));
    });
    Call {
        name: name.to_owned(),
        bytes: allocated.bytes_max,
        looks: clock.readings(),
        taken: start.elapsed(),
    }
}

/// Makes all calls of every second built-in, from the one at `first`; with `pairs`, those with each pair of
/// documents beside harmless operands.
fn calls<T>(first: usize, pairs: bool, make: impl Fn(&str, &Query, &[Json]) -> T) -> Vec<T> {
    let program = Program::compile(&[], &Capabilities::default()).expect("an empty program");
    let documents = documents();
    let plain: Vec<Json> = ["a", "b", "c", "d"].into_iter().map(Json::from).collect();
    let mut calls = Vec::new();
    // What the compiler makes of syntax takes operands that only it makes.
    let callable = builtins::all()
        .filter(|builtin| !builtin.name.starts_with("internal.") && builtin.name != "print");
    for builtin in callable.skip(first).step_by(2) {
        let arity = builtin.declaration().args.len();
        let places: Vec<String> = (0..arity).map(|at| format!("input[{at}]")).collect();
        let text = format!("x = {}({})", builtin.name, places.join(", "));
        // Deprecated built-ins are there in version 0 only.
        let compiled = program.query(&text, RegoVersion::V0, &Capabilities::default());
        let query = compiled.unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        if pairs {
            for (first, second) in
                (1..arity).flat_map(|second| (0..second).map(move |first| (first, second)))
            {
                for pair in 0..documents.len().pow(2) {
                    let (one, other) = (pair / documents.len(), pair % documents.len());
                    let mut row: Vec<Json> = plain.iter().take(arity).cloned().collect();
                    row.splice(first..=first, documents.get(one).cloned());
                    row.splice(second..=second, documents.get(other).cloned());
                    let name = format!("{} with documents {one} and {other}", builtin.name);
                    calls.push(make(&name, &query, &row));
                }
            }
            continue;
        }
        for (number, document) in documents.iter().enumerate() {
            let mut rows = vec![vec![document.clone(); arity]];
            for place in 0..arity {
                // Beside harmless operands, and beside a wide one.
                let mut row: Vec<Json> = plain.iter().take(arity).cloned().collect();
                row.splice(place..=place, [document.clone()]);
                rows.push(row);
                if arity == 2 {
                    let mut row = vec![documents.get(29).cloned().unwrap_or_default(); arity];
                    row.splice(place..=place, [document.clone()]);
                    rows.push(row);
                }
            }
            if arity == 3 {
                // As what replaces each match in a long text.
                let text = documents.first().cloned().unwrap_or_default();
                rows.push(vec![text, Json::from("a"), document.clone()]);
            }
            if builtin.name == "strings.replace_n" {
                let text = documents.first().cloned().unwrap_or_default();
                let pairs = [("a", document.clone())].into_iter().collect();
                rows.push(vec![pairs, text]);
            }
            let name = format!("{} with document {number}", builtin.name);
            calls.extend(rows.iter().map(|row| make(&name, &query, row)));
        }
    }
    calls
}

/// All calls, made by two threads.
fn all_calls<T: Send>(
    pairs: bool,
    make: impl Fn(&str, &Query, &[Json]) -> T + Copy + Send,
) -> Vec<T> {
    std::thread::scope(|scope| {
        let other = scope.spawn(move || calls(1, pairs, make));
        let mut all = calls(0, pairs, make);
        all.extend(other.join().expect("no panic"));
        all
    })
}

#[test]
fn every_builtin_keeps_to_its_budget() {
    keep_to_their_budgets(all_calls(false, call));
}

#[test]
#[ignore = "takes minutes: every pair of operands, before a release"]
fn every_pair_of_operands_keeps_to_its_budget() {
    keep_to_their_budgets(all_calls(true, call));
}

fn keep_to_their_budgets(mut calls: Vec<Call>) {
    calls.sort_by_key(|call| std::cmp::Reverse(call.taken));
    println!("{} calls; the slowest:", calls.len());
    for call in calls.iter().take(12) {
        println!("  {:?}, {} looks, {} bytes: {}", call.taken, call.looks, call.bytes, call.name);
    }
    let over: Vec<String> = calls
        .iter()
        .filter(|call| call.bytes > (2 * BYTES + FIXED) as u64)
        .map(|call| format!("{}: {} bytes", call.name, call.bytes))
        .collect();
    assert!(over.is_empty(), "over twice the budget of {BYTES} bytes:\n{}", over.join("\n"));
    // Each look is a millisecond to the budget: no call goes on once the time is over.
    for call in &calls {
        assert!(call.looks < 1_000, "{}: {} looks", call.name, call.looks);
    }
}

/// Where nothing but time ends a call, time does.
#[test]
fn every_builtin_ends_with_its_time() {
    end_with_their_time(false);
}

#[test]
#[ignore = "takes minutes: every pair of operands, before a release"]
fn every_pair_of_operands_ends_with_its_time() {
    end_with_their_time(true);
}

fn end_with_their_time(pairs: bool) {
    let mut calls = all_calls(pairs, |name, query, operands| {
        let input: Json = operands.iter().cloned().collect();
        (modgate_corpus::spent(32 << 20, |budget| evaluate(query, &input, budget)), name.to_owned())
    });
    calls.sort_unstable_by(|one, other| other.cmp(one));
    println!("{} calls; the slowest: {:#?}", calls.len(), calls.get(..12));
    let over: Vec<_> = calls.iter().filter(|call| call.0 > modgate_corpus::allowed()).collect();
    assert!(over.is_empty(), "{over:#?}");
}
