//! The 737 expressions recorded from KubeMod (`conformance/kubemod/probes/expressions.json`).
//!
//! Outcomes and values must be equal; so must error texts, although the corpus calls them
//! informative. Where we differ on purpose, a predicate over the expression says so and a rewriting
//! of it into KubeMod's language says what is required instead.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use modgate_select::{EvalError, Expr, Val};
use modgate_value::{Budget, Value};

/// A deliberate difference: an id of the specification's section 9, and how KubeMod would have to be
/// told the same.
struct Difference {
    id: &'static str,
    rewritten: String,
}

#[test]
fn expressions() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/kubemod/probes/expressions.json");
    let corpus = Value::from_json(&std::fs::read(path).expect(path)).expect("valid JSON");
    let mut cases: Vec<(Value, &Value)> = Vec::new();
    for group in corpus.get("groups").and_then(Value::as_array).expect("groups").iter() {
        let input = restored(group.get("input").expect("input"));
        let list = group.get("cases").and_then(Value::as_array).expect("cases");
        cases.extend(list.iter().map(|case| (input.clone(), case)));
    }
    let suite = corpus.get("language_suite").and_then(Value::as_array).expect("language_suite");
    cases.extend(suite.iter().map(|case| (case.get("input").expect("input").clone(), case)));
    assert_eq!(cases.len(), 737);

    let (mut passed, mut differing, mut failures) = (0, 0, Vec::new());
    for (input, case) in cases {
        let text = case.get("expr").and_then(Value::as_str).expect("expr");
        let ours = outcome(text, &input);
        let recorded = recorded(case);
        let unordered = case.get("unordered").is_some();
        let same = ours == recorded || (unordered && sorted(&ours) == sorted(&recorded));
        match difference(text) {
            Some(Difference { id, rewritten }) => {
                let required = outcome(&rewritten, &input);
                if same {
                    failures.push(format!("{text}: listed under {id}, but equal"));
                } else if ours != required || ours.get("outcome") == recorded.get("outcome") {
                    failures.push(format!("{text}: {ours}, {id} requires {required}"));
                } else {
                    differing += 1;
                }
            }
            None if same => passed += 1,
            None => failures.push(format!("{text}: {ours}, recorded {recorded}")),
        }
    }
    println!("{passed} passed, {differing} differing by decision, {} failed", failures.len());
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

/// The document as it was when recorded: writing the corpus turned the `-0.0` in one list into `0`,
/// while the texts recorded for it still say `-0`.
fn restored(input: &Value) -> Value {
    let mut input = input.clone();
    if let Value::Object(root) = &mut input
        && let Some(Value::Array(numbers)) = root.get_mut("nums")
        && let Some(number) = numbers.make_mut().get_mut(19)
    {
        assert_eq!(number.to_json(), "0");
        *number = Value::from_json(b"-0.0").expect("a number");
    }
    input
}

fn recorded(case: &Value) -> Value {
    let keys = ["outcome", "result", "error"];
    keys.into_iter().filter_map(|key| Some((key, case.get(key)?.clone()))).collect()
}

/// The result of the expression, in the corpus's own encoding.
fn outcome(text: &str, input: &Value) -> Value {
    let budget = Budget::unlimited();
    let expr = match Expr::parse(text) {
        Ok(expr) => expr,
        Err(error) => {
            let detail = ("error", error.message.into());
            return [("outcome", "parse_error".into()), detail].into_iter().collect();
        }
    };
    let fast = evaluated(text, expr.eval(input, &budget));
    let plain = evaluated(text, expr.eval_plain(input, &budget));
    assert_eq!(fast, plain, "{text}");
    plain
}

fn evaluated(text: &str, result: Result<Val<'_>, EvalError>) -> Value {
    let (outcome, detail) = match result {
        Ok(Val::Null) => ("null", None),
        Ok(Val::Undefined) => ("undefined", None),
        Ok(value) => ("value", Some(("result", encode(&value)))),
        Err(EvalError::Failed { message, .. }) => ("eval_error", Some(("error", message.into()))),
        Err(error) => panic!("{text}: {error}"),
    };
    [("outcome", outcome.into())].into_iter().chain(detail).collect()
}

fn encode(value: &Val<'_>) -> Value {
    let tagged = |tag: &str, value: Value| [(tag, value)].into_iter().collect::<Value>();
    match value {
        Val::Undefined => tagged("$undefined", true.into()),
        Val::Int(int) => tagged("$int", (*int).into()),
        Val::Time(time) => tagged("$time", time.to_string().into()),
        Val::Number(number) if !number.is_finite() || number.to_bits() == (-0.0_f64).to_bits() => {
            tagged("$float", value.text().as_ref().into())
        }
        Val::Array(list) => list.iter().map(|element| encode(&element)).collect(),
        Val::Object(map) => {
            map.iter().map(|(key, member)| (key.to_owned(), encode(&member))).collect()
        }
        other => other.to_json().expect("JSON"),
    }
}

/// The outcome with the elements of a list result in one order.
fn sorted(outcome: &Value) -> Value {
    let Some(Value::Array(list)) = outcome.get("result") else {
        return outcome.clone();
    };
    let mut list = list.to_vec();
    list.sort();
    list.into()
}

/// The two places where we accept more than KubeMod, found from the expression alone.
fn difference(text: &str) -> Option<Difference> {
    if let Some(rewritten) = separate_operators(text) {
        return Some(Difference { id: "Q-10", rewritten });
    }
    let rewritten = double_quotes(text)?;
    Some(Difference { id: "Q-11", rewritten })
}

/// An infix operator directly followed by prefix operators or a name that starts with `i` or `n`:
/// the expression with blanks between them.
fn separate_operators(text: &str) -> Option<String> {
    const INFIX: [&str; 23] = [
        "**", "<<", ">>", "==", "!=", "<=", ">=", "=~", "!~", "&&", "||", "??", "*", "/", "%", "+",
        "-", "&", "|", "^", "<", ">", "?",
    ];
    let mut out = String::new();
    let mut rest = text;
    let mut changed = false;
    while let Some(c) = rest.chars().next() {
        let behind_operand = out
            .trim_end()
            .ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '"'));
        let run = rest.len() - rest.trim_start_matches(is_operator_character).len();
        let glued = rest.get(..run).unwrap_or_default();
        let end = if matches!(c, '"' | '`') {
            rest.get(1..)?.find(c)? + 2
        } else if !behind_operand || run == 0 || matches!(c, 'i' | 'n') || INFIX.contains(&glued) {
            c.len_utf8()
        } else if let Some(operator) = INFIX.iter().find(|name| {
            let behind =
                glued.strip_prefix(**name).map(|rest| rest.trim_start_matches(['-', '!', '~']));
            let complement = glued.strip_prefix(**name).is_some_and(|rest| rest.starts_with('~'))
                && name.ends_with(['=', '~']);
            behind.is_some_and(|rest| {
                (rest.is_empty() && !complement) || rest.starts_with(['i', 'n'])
            })
        }) {
            out.push_str(operator);
            out.push(' ');
            rest = rest.get(operator.len()..)?;
            changed = true;
            continue;
        } else {
            run
        };
        out.push_str(rest.get(..end)?);
        rest = rest.get(end..)?;
    }
    changed.then_some(out)
}

fn is_operator_character(c: char) -> bool {
    "!%&*+-/<=>?^|~in".contains(c)
}

/// A single-quoted literal of other than one character: the expression with double quotes.
fn double_quotes(text: &str) -> Option<String> {
    let (before, rest) = text.split_once('\'')?;
    let (literal, behind) = rest.split_once('\'')?;
    (literal.chars().count() != 1).then(|| format!("{before}\"{literal}\"{behind}"))
}
