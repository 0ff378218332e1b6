//! Nothing an expression says may take the stack, the memory or the time of the process.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::time::Duration;

use modgate_select::{EvalError, Expr, PatchSelect, Val};
use modgate_value::{Budget, Clock, Exhausted, Limits, MAX_JSON_DEPTH, Value};

struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

const LIMITS: Limits = Limits { steps: 2_000_000, bytes: 64 << 20, time: Duration::MAX };

/// Runs on half the stack that threads have by default, unoptimised or not.
fn on_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(test).expect("a thread");
    thread.join().expect("no panic");
}

/// 500 objects inside one another, each with a list beside.
fn deep() -> Value {
    let text = format!("{}1{}", r#"{"b":[1,2],"a":"#.repeat(500), "}".repeat(500));
    Value::from_json(text.as_bytes()).expect("within the depth of documents")
}

#[test]
fn deep_expressions_are_refused() {
    on_small_stack(|| {
        for open in
            ["(", "[", "{", "!", "-", "$[", "$[?", "$(", "a[", "length(", "{\"a\":", "1?", "[?"]
        {
            for count in [200, 60_000 / open.len(), (1 << 20) / open.len()] {
                let text = open.repeat(count);
                let error = Expr::parse(&text).expect_err(open);
                assert!(text.len() < 70_000 || error.message.len() < 100, "{open}");
                PatchSelect::parse(&text).expect_err(open);
            }
        }
    });
}

#[test]
fn the_deepest_accepted_expressions_evaluate() {
    on_small_stack(|| {
        let document = deep();
        for (open, inner, close) in [
            ("(", "1", ")"),
            ("[", "$..b", "]"),
            ("!", "true", ""),
            ("$..b[? ", "@ == 1", "]"),
            ("$..(", "$", ")"),
            ("$.*.*.*.*[", "0", "]"),
            ("$..*..a[? length(", "$..a", ") > 0]"),
            ("(true ? ", "1", " : 2)"),
            ("{\"k\": ", "$..a", "}"),
            ("[1] in [", "$..b", "]"),
        ] {
            let nest =
                |count: usize| format!("{}{inner}{}", open.repeat(count), close.repeat(count));
            let levels = (1..200).rev().find(|count| Expr::parse(&nest(*count)).is_ok());
            let levels = levels.expect(open);
            assert!(levels >= 15, "{open}: {levels}");
            let expr = Expr::parse(&nest(levels)).expect(open);
            let _ = expr.eval(&document, &Budget::new(LIMITS, &Frozen));
            let _ = expr.eval_plain(&document, &Budget::new(LIMITS, &Frozen));
            let _ = (expr.lints(), expr.requirements(), expr.to_string());
        }
    });
}

#[test]
fn long_expressions_evaluate() {
    on_small_stack(|| {
        let document = deep();
        let sum = format!("1{}", " + 1".repeat(10_000));
        let sum = Expr::parse(&sum).expect("a sum");
        let value = sum.eval(&document, &Budget::unlimited());
        assert!(matches!(value, Ok(Val::Number(10_001.0))), "{value:?}");
        for step in [".*", "..a", ".a", "[0,0]", "[? true]", "($)", "..*"] {
            let text = format!("${}", step.repeat(3_000));
            let expr = Expr::parse(&text).expect(step);
            let _ = expr.eval(&document, &Budget::new(LIMITS, &Frozen));
            let _ = expr.eval_plain(&document, &Budget::new(LIMITS, &Frozen));
            let select = PatchSelect::parse(&text).expect(step);
            let _ = select.items(&document, &Budget::new(LIMITS, &Frozen));
        }
    });
}

/// Documents as deep as an API server sends them: two equal ones beside each other, of lists, of
/// objects and of both.
#[test]
fn the_deepest_documents_are_evaluated() {
    on_small_stack(|| {
        let few = Limits { steps: 200_000, ..LIMITS };
        let levels = MAX_JSON_DEPTH - 1;
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}"), (r#"[{"a":"#, "}]")] {
            let levels = levels / open.matches(['[', '{']).count();
            let part = format!("{}1{}", open.repeat(levels), close.repeat(levels));
            let text = format!(r#"{{"a":{part},"b":{part},"s":"x"}}"#);
            let document = Value::from_json_nested(text.as_bytes(), MAX_JSON_DEPTH);
            let document = document.expect("as deep as documents may be");
            for text in [
                "$",
                "$.a",
                "$..a",
                "$..*",
                "$..*..*",
                "$..a[0]",
                "$.a == $.b",
                "$.a != $.b",
                "$.a in [$.b]",
                "[$.a] == [$.b]",
                "{\"k\": $.a} == {\"k\": $.b}",
                "$.a + $.s",
                "$.s + $.a",
                "$.a =~ \"1\"",
                "$.s =~ $.a",
                "$.a < $.b",
                "length($..a)",
                "!$.a",
                "isEmpty($..a)",
                "$.a ?? 1",
                "$..[? @ == $.b]",
                "{#: $..a}",
                "$[$.a]",
                "$.a[$.b]",
            ] {
                let Ok(expr) = Expr::parse(text) else { panic!("{text}") };
                for result in [
                    expr.eval(&document, &Budget::new(few, &Frozen)),
                    expr.eval_plain(&document, &Budget::new(few, &Frozen)),
                ] {
                    let Ok(value) = result else { continue };
                    // Results of `..` hold each level with all levels below: too much text.
                    let _ = (value.to_json(), text.contains("..") || !value.text().is_empty());
                }
                let mut seen = 0;
                let _ = expr.trace(&document, &Budget::new(few, &Frozen), &mut |_| seen += 1);
                let Ok(select) = PatchSelect::parse(text) else { continue };
                let _ = select.items(&document, &Budget::new(few, &Frozen));
                let _ = select.items_plain(&document, &Budget::new(few, &Frozen));
            }
            let equal = Expr::parse("$.a in [$.b]").expect("an expression");
            let value = equal.eval(&document, &Budget::unlimited());
            assert!(matches!(value, Ok(Val::Bool(true))), "{open}: {value:?}");
        }
    });
}

#[test]
fn an_exhausted_budget_is_no_failure_of_the_language() {
    let document = deep();
    let steps = Limits { steps: 1000, ..LIMITS };
    let bytes = Limits { bytes: 1000, ..LIMITS };
    for (text, limits, exhausted) in [
        ("$..*..*", steps, Exhausted::Steps { limit: 1000 }),
        // Not even where failures are dropped, negated or short-circuited.
        ("$.b[? length($..*..*..c) == 0]", steps, Exhausted::Steps { limit: 1000 }),
        ("$([$..*..*])[*] ?? 1", steps, Exhausted::Steps { limit: 1000 }),
        ("$..b + \"\"", bytes, Exhausted::Bytes { limit: 1000 }),
    ] {
        let expr = Expr::parse(text).expect(text);
        for result in [
            expr.eval(&document, &Budget::new(limits, &Frozen)),
            expr.eval_plain(&document, &Budget::new(limits, &Frozen)),
        ] {
            match result {
                Err(EvalError::Exhausted(found)) => assert_eq!(found, exhausted, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
    let select = PatchSelect::parse("$..*..*").expect("a path");
    let items = select.items(&document, &Budget::new(steps, &Frozen));
    assert!(matches!(items, Err(EvalError::Exhausted(_))));
}

/// Concatenation doubles; the budget counts what is built.
#[test]
fn texts_cannot_grow_without_bound() {
    let document = Value::from_json(br#"{"s": "0123456789abcdef"}"#).expect("valid JSON");
    let mut text = "$.s".to_owned();
    for _ in 0..11 {
        text = format!("{text} + {text}");
    }
    let expr = Expr::parse(&text).expect("short enough");
    let limits = Limits { bytes: 10_000, ..LIMITS };
    let value = expr.eval(&document, &Budget::new(limits, &Frozen));
    assert!(matches!(value, Err(EvalError::Exhausted(Exhausted::Bytes { .. }))), "{value:?}");
}
