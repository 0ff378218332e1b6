//! `probes/expressions.json`: select expressions and what they evaluate to.

use anyhow::{Context as _, Result, bail};
use modgate_select::{EvalError, Expr, List, Map, Val};
use modgate_value::{Budget, Number, Object, Value, gofloat};

use super::syntax;
use crate::{
    compare::{same, same_in_any_order},
    corpus::{CorpusFile, Roots},
    decision,
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    for (index, group) in top.list("groups")?.iter().enumerate() {
        let group = Members::of(group)?;
        let input = group.required("input")?;
        for case in group.list("cases")? {
            let members = Members::of(case)?;
            let verdict = check(&members, input)?;
            cases.push(Case { id: format!("{index}: {}", members.text("expr")?), verdict });
            members.finish()?;
        }
        group.finish()?;
    }
    for case in top.optional_list("language_suite")? {
        let members = Members::of(case)?;
        let verdict = check(&members, members.required("input")?)?;
        let id = format!("{}: {}", members.text("name")?, members.text("expr")?);
        cases.push(Case { id, verdict });
        members.finish()?;
    }
    top.finish()
}

/// Error texts are informative except for the shape of parse errors, which the specification
/// quotes; those are compared to the letter.
fn check(case: &Members<'_>, input: &Value) -> Result<Verdict> {
    let text = case.text("expr")?;
    let outcome = case.text("outcome")?;
    let result = case.optional("result");
    let error = case.optional_text("error")?;
    let in_any_order = case.flag("unordered")?;
    if outcome == "parse_error" {
        return Ok(check_parse_error(text, error, input));
    }
    let expr = match Expr::parse(text) {
        Ok(expr) => expr,
        Err(got) => return Ok(failed(outcome, result, got.message)),
    };
    let budget = Budget::unlimited();
    let got = expr.eval(input, &budget);
    Ok(match (outcome, &got) {
        ("eval_error", Err(EvalError::Failed { .. })) | ("undefined", Ok(Val::Undefined)) => {
            Verdict::Passed
        }
        ("null", Ok(Val::Null)) => Verdict::Passed,
        ("value", Ok(value)) => {
            let expected = result.context("a value without `result`")?;
            let got = tagged(value);
            let equal = if in_any_order { same_in_any_order } else { same };
            if equal(expected, &got) || agrees_with_a_negative_zero(&expr, input, expected) {
                Verdict::Passed
            } else {
                failed(outcome, result, got.to_json())
            }
        }
        ("eval_error" | "undefined" | "null" | "value", _) => failed(outcome, result, show(&got)),
        (other, _) => bail!("outcome `{other}` is not known"),
    })
}

/// Writing the corpus turned a `-0.0` of an input into `0`, while the result recorded from it still
/// shows `-0`. So where a result shows one, the input is tried with one of its zeros negative.
fn agrees_with_a_negative_zero(expr: &Expr, input: &Value, expected: &Value) -> bool {
    let shown = expected.to_json();
    let shows_negative_zero = shown
        .split(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
        .any(|word| word == "-0");
    let zeros = count_zeros(input);
    shows_negative_zero
        && (0..zeros).any(|which| {
            let document = with_negative_zero(input, &mut { which });
            let budget = Budget::unlimited();
            let got = expr.eval(&document, &budget).map(|value| tagged(&value));
            got.is_ok_and(|got| same(expected, &got))
        })
}

fn is_zero(value: &Value) -> bool {
    value.as_number().is_some_and(|number| number.as_f64() == 0.0)
}

fn count_zeros(value: &Value) -> usize {
    match value {
        Value::Array(elements) => elements.iter().map(count_zeros).sum(),
        Value::Object(members) => members.values().map(count_zeros).sum(),
        _ => usize::from(is_zero(value)),
    }
}

/// The document with its zero number `which`, counted in document order, negative.
fn with_negative_zero(value: &Value, which: &mut usize) -> Value {
    match value {
        Value::Array(elements) => {
            elements.iter().map(|element| with_negative_zero(element, which)).collect()
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, member)| (key.clone(), with_negative_zero(member, which)));
            Value::Object(members.collect::<Object>())
        }
        _ if is_zero(value) => {
            let this_one = *which == 0;
            *which = which.wrapping_sub(1);
            let negative = this_one.then(|| Number::from_json_text("-0.0")).flatten();
            negative.map_or_else(|| value.clone(), Value::from)
        }
        _ => value.clone(),
    }
}

/// An expression the original refuses. Where we accept it by decision, it must mean
/// what the stricter spelling means.
fn check_parse_error(text: &str, error: Option<&str>, input: &Value) -> Verdict {
    let mut decisions = Vec::new();
    if syntax::unglued(text).is_some() {
        decisions.push(&decision::Q_10);
    }
    if syntax::requoted(text).is_some() {
        decisions.push(&decision::Q_11);
    }
    let strict = syntax::strict(text).and_then(|strict| Expr::parse(&strict).ok());
    match (Expr::parse(text), strict) {
        (Err(got), None) => match error {
            // What the original stops at is no mistake to us, so we stop at a later one.
            Some(error) if *error != got.message && !decisions.is_empty() => {
                Verdict::Differs(decisions)
            }
            Some(error) => Verdict::equal(error, got.message),
            None => Verdict::Passed,
        },
        (Err(got), Some(_)) => {
            failed("accepted by decision", None, format!("{got}; is {decisions:?} stale?"))
        }
        (Ok(expr), None) => {
            failed("parse_error", None, show(&expr.eval(input, &Budget::unlimited())))
        }
        (Ok(expr), Some(strict)) => {
            let budget = Budget::unlimited();
            let required = show(&strict.eval(input, &budget));
            match Verdict::equal(required, show(&expr.eval(input, &budget))) {
                Verdict::Passed => Verdict::Differs(decisions),
                other => other,
            }
        }
    }
}

fn failed(outcome: &str, result: Option<&Value>, got: String) -> Verdict {
    let result = result.map(|value| format!(" {value}")).unwrap_or_default();
    Verdict::Failed { expected: format!("{outcome}{result}"), got }
}

fn show(result: &Result<Val<'_>, EvalError>) -> String {
    match result {
        Ok(value) => tagged(value).to_json(),
        Err(error) => format!("error: {error}"),
    }
}

/// A value in the encoding of the corpus, which marks what JSON cannot say.
fn tagged(value: &Val<'_>) -> Value {
    let tag = |name: &str, value: Value| -> Value { [(name, value)].into_iter().collect() };
    match value {
        Val::Undefined => tag("$undefined", Value::Bool(true)),
        Val::Null => Value::Null,
        Val::Bool(value) => Value::Bool(*value),
        Val::Number(float) => match Number::from_f64(*float) {
            Some(number) if !(*float == 0.0 && float.is_sign_negative()) => number.into(),
            _ => tag("$float", gofloat::general(*float).into()),
        },
        Val::Int(int) => tag("$int", Value::from(*int)),
        Val::Str(text) => Value::from(text.as_ref()),
        Val::Time(time) => tag("$time", time.to_string().into()),
        Val::Array(List::Json(array)) => Value::Array((*array).clone()),
        Val::Array(list) => list.iter().map(|element| tagged(&element)).collect(),
        Val::Object(Map::Json(object)) => Value::Object((*object).clone()),
        Val::Object(Map::Built(members)) => {
            let members = members.iter().map(|(key, member)| (key.clone(), tagged(member)));
            Value::Object(members.collect::<Object>())
        }
    }
}
