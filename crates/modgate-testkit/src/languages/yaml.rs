//! `yaml.json`: documents converted to JSON by `sigs.k8s.io/yaml`, plain and strict.

use anyhow::{Context as _, Result, ensure};
use modgate_value::{Value, yaml};

use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    for (index, case) in top.list("cases")?.iter().enumerate() {
        case_of(case, cases).with_context(|| format!("case {index}"))?;
    }
    top.finish()
}

fn case_of(case: &Value, cases: &mut Vec<Case>) -> Result<()> {
    let members = Members::of(case)?;
    let text = members.text("yaml")?;
    let plain = recorded(members.optional_text("v")?, members.optional_text("e")?)?;
    let strict = recorded(members.optional_text("sv")?, members.optional_text("se")?)?;
    members.finish()?;
    let verdict = match check(&plain, yaml::value(text)) {
        Verdict::Passed => check(&strict, yaml::value_strict(text)),
        other => other,
    };
    cases.push(Case { id: format!("{text:?}"), verdict });
    Ok(())
}

/// The JSON the reference wrote, or its error.
type Recorded<'a> = Result<Value, &'a str>;

fn recorded<'a>(value: Option<&'a str>, error: Option<&'a str>) -> Result<Recorded<'a>> {
    ensure!(value.is_some() != error.is_some(), "a case has either a value or an error");
    Ok(match (value, error) {
        (Some(json), _) => Ok(Value::from_json(json.as_bytes())?),
        (None, error) => Err(error.unwrap_or_default()),
    })
}

/// Error texts are informative; that there is one is not.
fn check(recorded: &Recorded<'_>, got: Result<Value, yaml::Error>) -> Verdict {
    match (recorded, got) {
        (Ok(expected), Ok(got)) if exactly(expected, &got) => Verdict::Passed,
        (Err(_), Err(_)) => Verdict::Passed,
        (expected, got) => Verdict::Failed { expected: show(expected), got: show(&got) },
    }
}

/// Integers must agree to the last digit; floats as floats.
fn exactly(expected: &Value, got: &Value) -> bool {
    match (expected, got) {
        (Value::Number(a), Value::Number(b)) => {
            let both_integers = a.as_i64().is_some() && b.as_i64().is_some();
            a == b || (!both_integers && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| exactly(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let mut pairs = a.iter().zip(b.iter());
            a.len() == b.len() && pairs.all(|((k, a), (l, b))| k == l && exactly(a, b))
        }
        _ => expected == got,
    }
}

fn show<E: std::fmt::Display>(result: &Result<Value, E>) -> String {
    match result {
        Ok(value) => value.to_json(),
        Err(error) => format!("error: {error}"),
    }
}
