//! The fast evaluator against the plain one, and both against whatever they must never do.

#![allow(clippy::expect_used, reason = "a test")]

mod common;

use std::ops::ControlFlow;

use modgate_select::{EvalError, Expr, Item, PatchSelect, Shape, Val};
use modgate_value::{Budget, Clock, Limits, Value};
use proptest::prelude::*;

/// A value or failure to the last detail.
fn shown(result: &Result<Val<'_>, EvalError>) -> String {
    match result {
        Ok(value) => detail(value),
        Err(error) => format!("{error} at {:?}", error.span()),
    }
}

/// Unlike `Debug`, the same for borrowed and built values.
fn detail(value: &Val<'_>) -> String {
    match value {
        Val::Array(list) => {
            let elements: Vec<_> = list.iter().map(|element| detail(&element)).collect();
            format!("[{}]", elements.join(", "))
        }
        Val::Object(map) => {
            let members: Vec<_> =
                map.iter().map(|(key, member)| format!("{key:?}: {}", detail(&member))).collect();
            format!("{{{}}}", members.join(", "))
        }
        Val::Str(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    }
}

/// The values that a criteria item sees, the long way round.
fn values(result: &Result<Val<'_>, EvalError>) -> Option<(Shape, Vec<String>)> {
    Some(match result.as_ref().ok()? {
        Val::Undefined | Val::Null => (Shape::Absent, Vec::new()),
        Val::Bool(value) => (Shape::Bool(*value), Vec::new()),
        Val::Array(list) => {
            let all: Vec<_> = list.iter().collect();
            let defined = all.iter().filter(|element| !element.is_undefined());
            let defined: Vec<_> = defined.map(detail).collect();
            (Shape::List { dropped_undefined: defined.len() < all.len() }, defined)
        }
        single => (Shape::Single, vec![detail(single)]),
    })
}

fn items(items: &[Item<'_>]) -> Vec<String> {
    items.iter().map(|item| format!("{:?} {}", item.keys, detail(&item.value))).collect()
}

/// A bound that generated expressions may well reach.
const SMALL: Limits = Limits { steps: 100_000, bytes: 1 << 20, time: std::time::Duration::MAX };

struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn fast_is_plain(text in common::expression(), document in common::document()) {
        let expr = Expr::parse(&text).expect(&text);
        let budget = Budget::new(SMALL, &Frozen);
        let plain = expr.eval_plain(&document, &budget);
        let budget = Budget::new(SMALL, &Frozen);
        let fast = expr.eval(&document, &budget);
        prop_assume!(!matches!(plain, Err(EvalError::Exhausted(_))));
        prop_assert_eq!(shown(&fast), shown(&plain), "{}", text);

        let mut visited = Vec::new();
        let shape = expr.for_each_value(&document, &Budget::unlimited(), &mut |value| {
            visited.push(detail(value));
            ControlFlow::Continue(())
        });
        prop_assert_eq!(shape.ok().map(|shape| (shape, visited)), values(&plain), "{}", text);

        let mut last = None;
        let traced = expr.trace(&document, &Budget::unlimited(), &mut |seen| last = Some(seen));
        prop_assert_eq!(shown(&traced), shown(&plain));
        if let Some(last) = last.filter(|last| last.depth == 0) {
            prop_assert_eq!(shown(&last.result), shown(&plain));
        }
    }

    #[test]
    fn fast_items_are_plain_items(text in common::path(), document in common::document()) {
        let select = PatchSelect::parse(&text).expect(&text);
        let budget = Budget::new(SMALL, &Frozen);
        if let Ok(plain) = select.items_plain(&document, &budget) {
            let fast = select.items(&document, &Budget::unlimited()).expect("not exhausted");
            prop_assert_eq!(items(&fast), items(&plain), "{}", text);
        }
    }

    /// Parts that an expression does not read may have any value.
    #[test]
    fn what_is_not_read_does_not_matter(
        text in common::expression(),
        path in common::path(),
        key in "[abk]",
        document in common::document(),
        other in common::document(),
    ) {
        let Value::Object(members) = &document else { return Ok(()) };
        let mut changed = members.clone();
        changed.insert(key.as_str(), other);
        let changed = Value::from(changed);
        let expr = Expr::parse(&text).expect(&text);
        if !expr.may_read(&[&key]) {
            let before = expr.eval_plain(&document, &Budget::unlimited());
            let after = expr.eval_plain(&changed, &Budget::unlimited());
            prop_assert_eq!(shown(&before), shown(&after), "{} without {}", text, key);
        }
        let select = PatchSelect::parse(&path).expect(&path);
        if !select.may_read(&[&key]) {
            let before = select.items_plain(&document, &Budget::unlimited());
            let after = select.items_plain(&changed, &Budget::unlimited());
            let shown = |found: Result<Vec<Item<'_>>, EvalError>| found.map(|found| items(&found));
            prop_assert_eq!(shown(before).ok(), shown(after).ok(), "{} without {}", path, key);
        }
    }

    #[test]
    fn requirements_are_necessary(text in common::expression(), document in common::document()) {
        let expr = Expr::parse(&text).expect(&text);
        if let Ok(Val::Bool(true)) = expr.eval_plain(&document, &Budget::unlimited()) {
            for requirement in expr.requirements() {
                let path: Vec<&str> = requirement.path.iter().map(|key| key.as_str()).collect();
                let found = document.path(&path).and_then(Value::as_str);
                prop_assert!(
                    found.is_some_and(|found| requirement.texts.contains(found)),
                    "{} requires {:?}", text, requirement
                );
            }
        }
    }

    #[test]
    fn print_parses_back(text in common::expression()) {
        let expr = Expr::parse(&text).expect(&text);
        let printed = expr.to_string();
        let again = Expr::parse(&printed);
        prop_assert!(again.is_ok(), "{} printed as {}: {:?}", text, printed, again.err());
        let again = again.expect("just checked");
        prop_assert!(expr.same_tree(&again), "{} printed as {}", text, printed);
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in ".*", document in common::document()) {
        anything_goes(&text, &document);
    }

    #[test]
    fn any_tokens_are_parsed_or_refused(
        tokens in prop::collection::vec(prop::sample::select(&TOKENS[..]), 0..30),
        document in common::document(),
    ) {
        anything_goes(&tokens.concat(), &document);
    }
}

const TOKENS: [&str; 48] = [
    "$", "@", ".", "..", "*", "[", "]", "(", ")", "{", "}", "?", ":", ",", "#", "#0", "a", "list",
    " ", "\n", "1", ".5", "0x1p4", "1e400", "\"a\"", "'ab'", "`a", "\"\\", "==", "!=", "=~", "&&",
    "||", "??", "in", "!", "-", "~", "//", "/*", "*/", "length", "date(", "true", "null", "é", "²",
    "\u{feff}",
];

/// Whatever the text: no panic, and errors point into it.
fn anything_goes(text: &str, document: &Value) {
    let budget = Budget::new(SMALL, &Frozen);
    match Expr::parse(text) {
        Ok(expr) => {
            let _ = expr.lints();
            let _ = expr.requirements();
            let _ = expr.eval(document, &budget);
            let again = Expr::parse(&expr.to_string()).expect(text);
            assert!(expr.same_tree(&again), "{text} printed as {expr}");
        }
        Err(error) => {
            assert!(text.get(error.span.start..error.span.end).is_some(), "{text}: {error:?}");
        }
    }
    if let Ok(select) = PatchSelect::parse(text) {
        let _ = select.items(document, &budget);
    }
}

/// Mutations of the recorded expressions: bytes dropped, doubled, exchanged and spliced.
#[test]
fn mutated_expressions_are_parsed_or_refused() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/kubemod/probes/expressions.json");
    let corpus = Value::from_json(&std::fs::read(path).expect(path)).expect("valid JSON");
    let mut texts = Vec::new();
    let mut documents = Vec::new();
    for group in corpus.get("groups").and_then(Value::as_array).expect("groups").iter() {
        documents.push(group.get("input").expect("input"));
        for case in group.get("cases").and_then(Value::as_array).expect("cases").iter() {
            texts.push(case.get("expr").and_then(Value::as_str).expect("expr"));
        }
    }
    // A fixed sequence (xorshift), so that a failure repeats.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % bound.max(1) as u64).expect("small")
    };
    for round in 0..20_000 {
        let mut mutated: Vec<char> = texts[round % texts.len()].chars().collect();
        for _ in 0..=below(3) {
            let at = below(mutated.len() + 1);
            match below(4) {
                0 if at < mutated.len() => drop(mutated.remove(at)),
                1 if at < mutated.len() => mutated.insert(at, mutated[at]),
                2 if at < mutated.len() => {
                    let other = below(mutated.len());
                    mutated.swap(at, other);
                }
                _ => {
                    let other: Vec<char> = texts[below(texts.len())].chars().collect();
                    let from = below(other.len());
                    let to = (from + 1 + below(6)).min(other.len());
                    mutated.splice(at..at, other[from.min(to)..to].iter().copied());
                }
            }
        }
        let mutated: String = mutated.into_iter().collect();
        anything_goes(&mutated, documents[round % documents.len()]);
    }
}
