//! Removing data that a program does not read does not change its results: programs of the
//! public library and generated ones are evaluated with and without.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::sync::atomic::{AtomicUsize, Ordering};

use modgate_rego::{
    Capabilities, GroupId, Program, Reads, RegoVersion,
    builtins::Isolated,
    eval::{self, Context},
    parse_module, specialize,
    value::{Arena, Heap, Value as Rego},
};
use modgate_rego_corpora::library;
use modgate_value::{Budget, Value};
use proptest::prelude::*;

/// The result of a rule as text, or its error.
fn evaluate(program: &Program, rule: GroupId, input: &Value, inventory: &Value) -> String {
    let data: Value = [("inventory", inventory.clone())].into_iter().collect();
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let context = Context {
        input: Some(Rego::json(input)),
        data: Some(Rego::json(&data)),
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    match eval::document(program, rule, context) {
        Ok(None) => "undefined".to_owned(),
        Ok(Some(value)) => value.to_text(&budget).expect("text"),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn the_library_sees_no_difference() {
    let Some(folder) = library::folder() else {
        eprintln!("skipped: no corpus has `gatekeeper-library`");
        return;
    };
    let (mut referential, mut smaller) = (0, 0);
    for case in library::cases(&folder, "").expect("cases") {
        let Some(inventory) = case.data.get("inventory") else { continue };
        let kept = case.program.reads("inventory");
        if kept == Reads::default() {
            continue;
        }
        referential += 1;
        let pruned = kept.keep(inventory);
        smaller += usize::from(pruned.to_json().len() < inventory.to_json().len());
        let parameters = case.input.get("parameters").cloned().unwrap_or_default();
        let budget = Budget::unlimited();
        let specialized = specialize(&case.program, "parameters", &parameters, &budget);
        for program in [&case.program, &specialized] {
            let run = |inventory| evaluate(program, case.violation, &case.input, inventory);
            assert_eq!(run(&pruned), run(inventory), "{}", case.key);
        }
    }
    eprintln!("{referential} cases with an inventory that is read, {smaller} of them smaller");
    assert!(referential >= 10 && smaller >= 10, "{referential} {smaller}");
}

/// A step of a reference.
const STEPS: [&str; 9] = [".a", ".b", ".c", "[_]", "[0]", "[1]", "[input.k]", "[input.n]", ".a.b"];

/// One statement: what it does, to which variable, and where it looks.
type Statement = (u8, u8, u8, u8);

/// A rule that binds variables one after the other, each to a part of another or of the inventory.
fn program_text(statements: &[Statement], head: u8) -> String {
    let mut body = Vec::new();
    let mut bound = 0_usize;
    for (kind, variable, first, second) in statements {
        let base = match usize::from(*variable) % (bound + 1) {
            0 => "data.inventory".to_owned(),
            number => format!("x{number}"),
        };
        let step = |index: &u8| STEPS[usize::from(*index) % STEPS.len()];
        let path = format!("{base}{}{}", step(first), step(second));
        let near = format!("{base}{}", step(first));
        let (binds, text) = match kind % 20 {
            0..=4 => (true, path),
            5 => (true, near),
            6 => (false, format!("{path} == {}", second % 3)),
            7 => (false, path),
            8 => (false, format!("not {path}")),
            9 => (false, format!("same({near}, input)")),
            10 => (true, format!("part({near})")),
            11 => (false, format!("not far({near})")),
            12 => (true, format!("object.get({near}, \"a\", 7)")),
            13 => (true, format!("count({near})")),
            14 => (true, format!("[z | z := {near}[_]]")),
            15 => (true, format!("{{k: z.a | z := {near}[k]}}")),
            16 => (true, format!("count([q | walk({near}, [_, q])])")),
            17 => (false, format!("{near} != {path}")),
            18 => (false, format!("every z in {near} {{ z.b != 1 }}")),
            _ => (true, format!("[{near}, {path}]")),
        };
        if binds {
            bound += 1;
            body.push(format!("x{bound} := {text}"));
        } else {
            body.push(text);
        }
    }
    let out = match usize::from(head) % (bound + 1) {
        0 => "1".to_owned(),
        number => format!("x{number}"),
    };
    format!(
        "package p\nimport future.keywords\n\
         same(o, i) {{ o.a == i.k }}\nsame(o, i) {{ o.b[_] == i.n }}\n\
         part(o) = p {{ p := o.b }}\nfar(o) {{ q := o.c; near(q) }}\nnear(q) {{ q.a }}\n\
         v[out] {{\n\t{}\n\tout := {out}\n}}\n",
        body.join("\n\t")
    )
}

fn document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Bool(false)),
        Just(Value::Bool(true)),
        (0..3_i64).prop_map(Value::from),
        prop_oneof![Just("a"), Just("b")].prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 48, 4, |inner| {
        let key = prop_oneof![Just("a"), Just("b"), Just("c")];
        prop_oneof![
            2 => prop::collection::vec((key, inner.clone()), 1..4)
                .prop_map(|members| members.into_iter().collect::<Value>()),
            1 => prop::collection::vec(inner, 1..3).prop_map(Value::from),
        ]
    })
}

/// How many generated programs were compiled, and how many of them came to anything.
static COMPILED: AtomicUsize = AtomicUsize::new(0);
static TOLD: AtomicUsize = AtomicUsize::new(0);

fn check(statements: &[Statement], head: u8, inventory: &Value, input: &Value) {
    let text = program_text(statements, head);
    let Ok(module) = parse_module("p.rego", &text, RegoVersion::V0) else { return };
    // Some cannot work, and the compiler sees it.
    let Ok(program) = Program::compile(&[module], &Capabilities::default()) else { return };
    COMPILED.fetch_add(1, Ordering::Relaxed);
    let rule = program.group(&["p", "v"]).expect("defined");
    let kept = program.reads("inventory");
    let full = evaluate(&program, rule, input, inventory);
    let pruned = evaluate(&program, rule, input, &kept.keep(inventory));
    assert_eq!(pruned, full, "{text}\n{}", inventory.to_json());
    TOLD.fetch_add(usize::from(full != "set()"), Ordering::Relaxed);
    // Keeping more makes no difference either.
    let mut more = kept.clone();
    more.merge(&Reads::below(&["a"], Reads::everything()));
    assert!(more.covers(&kept));
    assert_eq!(evaluate(&program, rule, input, &more.keep(inventory)), full, "{text}");
}

#[test]
fn generated_programs_see_no_difference() {
    let config = ProptestConfig { cases: 3000, failure_persistence: None, ..Default::default() };
    let statements = prop::collection::vec(any::<Statement>(), 1..6);
    let strategy = (statements, any::<u8>(), document(), 0..2_i64);
    proptest!(config, |((statements, head, inventory, n) in strategy)| {
        let input: Value = [("k", Value::from("a")), ("n", Value::from(n))].into_iter().collect();
        check(&statements, head, &inventory, &input);
    });
    let (compiled, told) = (COMPILED.load(Ordering::Relaxed), TOLD.load(Ordering::Relaxed));
    eprintln!("{compiled} programs compiled, {told} of them found something");
    assert!(compiled > 1000 && told > 100, "{compiled} {told}");
}
