//! Every operator, function and step on documents made to hurt: none takes more than twice the
//! memory its budget allows, or more allocations than its steps explain, and none panics.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use allocation_counter::measure;
use modgate_value::{Budget, Limits, MAX_JSON_DEPTH, Value, budget::Frozen};

use crate::{
    Expr, PatchSelect,
    ast::{Binary, Function, Unary},
};

const LIMITS: Limits = Limits { steps: 20_000, bytes: 256 << 10, time: Duration::MAX };

/// The memory an evaluation may take beside its budget, for the machinery and its tables.
const ALLOWANCE: u64 = 256 << 10;

/// Values that expressions find in their document, by name.
fn document() -> Value {
    const SIZE: usize = 30 << 10;
    let fill = |part: &str| Value::from(part.repeat(SIZE / part.len()));
    let deep = |open: &str, close: &str| {
        let levels = (MAX_JSON_DEPTH / 4) / open.matches(['[', '{']).count();
        let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
        Value::from_json_nested(text.as_bytes(), MAX_JSON_DEPTH).expect("JSON")
    };
    let numbers = || (0..2_500).map(Value::from);
    [
        ("letters", fill("x")),
        ("digits", fill("9")),
        ("date", fill("2020-01-01 ")),
        ("number", Value::from(format!("0x{}p1", "1".repeat(SIZE)))),
        ("pattern", Value::from("(((((a{9}){9}){9}){9})*|x*)*")),
        ("classes", fill(r"\pL|")),
        ("folded", Value::from(format!("(?i){}", r"[\x{100}-\x{10ffff}]|".repeat(SIZE / 25)))),
        ("wide", fill("\u{10FFFF}é")),
        ("text", Value::from("2020-01-01T00:00:00Z")),
        ("huge", Value::from_json(b"1e308").expect("JSON")),
        ("tiny", Value::from_json(b"-5e-324").expect("JSON")),
        ("list", Value::from_iter(numbers())),
        ("lists", (0..800).map(|_| Value::from_iter(numbers().take(3))).collect()),
        ("map", numbers().map(|n| (n.to_json(), n)).collect()),
        ("deeplist", deep("[", "]")),
        ("deepmap", deep(r#"{"a":"#, "}")),
        ("deepmix", deep(r#"{"a":["#, "]}")),
        ("nothing", Value::Null),
    ]
    .into_iter()
    .collect()
}

/// With `pairs`, each operator with each pair of operands.
fn expressions(document: &Value, pairs: bool) -> Vec<String> {
    let members = document.as_object().into_iter().flatten();
    let mut operands: Vec<String> = members.map(|(key, _)| format!("$.{key}")).collect();
    operands.extend(["$..a", "$.list[*]", "$.map.*", "$", "1e308", "-1"].map(str::to_owned));
    let mut all = Vec::new();
    for operand in &operands {
        all.extend(Function::ALL.map(|function| format!("{}({operand})", function.name())));
        for unary in [Unary::Negate, Unary::Not, Unary::Complement] {
            all.push(format!("{}{operand}", unary.symbol()));
        }
        for step in ["..*", "..a", ".*", "[0]", "[*]", "[::2]", "[? @ == 1]", "[0,1,\"a\"]", "(@)"]
        {
            all.push(format!("$.list[*][? {operand}{step}]"));
            all.push(format!("{operand}{step}"));
            all.push(format!("{{#: {operand}{step}}}"));
        }
        all.push(format!("{operand} ? {operand} : 1"));
        for (at, op) in Binary::ALL.into_iter().enumerate() {
            let (step, count) = if pairs { (1, operands.len()) } else { (5, 5) };
            let others = operands.iter().cycle().skip(at).step_by(step).take(count);
            all.extend(others.map(|other| format!("{operand} {} {other}", op.name())));
        }
        for other in operands.iter().step_by(3) {
            all.push(format!("$[{operand}][{other}]"));
            all.push(format!("[{operand}, {other}] == [{operand}, {other}]"));
            all.push(format!("$.list[? {operand} == {other}]"));
        }
    }
    all
}

#[test]
fn no_expression_takes_more_than_its_budget() {
    keep_to_their_budgets(false);
}

#[test]
#[ignore = "takes minutes: every pair of operands, before a release"]
fn no_pair_of_operands_takes_more_than_its_budget() {
    keep_to_their_budgets(true);
}

fn keep_to_their_budgets(pairs: bool) {
    let document = document();
    let expressions = expressions(&document, pairs);
    let mut found = Vec::new();
    let mut evaluated = 0;
    for text in &expressions {
        let budget = || Budget::new(LIMITS, &Frozen);
        let mut take = |what: &str, run: &dyn Fn(&Budget<'_>)| {
            let budget = budget();
            let taken = measure(|| run(&budget));
            let (bytes, count) = (taken.bytes_max, taken.count_total);
            if bytes > 2 * LIMITS.bytes + ALLOWANCE || count > 4 * LIMITS.steps {
                found.push(format!("{bytes} bytes, {count} allocations: {what} {text}"));
            }
        };
        if let Ok(expr) = Expr::parse(text) {
            evaluated += 1;
            take("value of", &|budget| drop(expr.eval(&document, budget)));
            take("plain value of", &|budget| drop(expr.eval_plain(&document, budget)));
        }
        if let Ok(select) = PatchSelect::parse(text) {
            take("items of", &|budget| drop(select.items(&document, budget)));
        }
    }
    assert!(evaluated > 3_000, "{evaluated} of {}", expressions.len());
    let first: Vec<&String> = found.iter().take(40).collect();
    assert!(found.is_empty(), "{} of {}: {first:#?}", found.len(), expressions.len());
}

/// Where nothing but time ends an evaluation, time does.
#[test]
fn every_expression_ends_with_its_time() {
    end_with_their_time(false);
}

#[test]
#[ignore = "takes minutes: every pair of operands, before a release"]
fn every_pair_of_operands_ends_with_its_time() {
    end_with_their_time(true);
}

fn end_with_their_time(pairs: bool) {
    let document = document();
    let mut all = Vec::new();
    for text in expressions(&document, pairs) {
        let Ok(expr) = Expr::parse(&text) else { continue };
        let spent = modgate_corpus::spent(16 << 20, |budget| drop(expr.eval(&document, budget)));
        all.push((spent, text));
    }
    all.sort_unstable_by(|one, other| other.cmp(one));
    let over: Vec<_> = all.iter().filter(|it| it.0 > modgate_corpus::allowed()).collect();
    assert!(over.is_empty(), "{over:#?} of {}; the slowest: {:#?}", all.len(), all.get(..12));
}
