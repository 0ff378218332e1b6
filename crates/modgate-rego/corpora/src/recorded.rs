//! `languages/rego.json`: one-rule programs, and what OPA printed for the rule.

use anyhow::Result;
use modgate_rego::{
    RegoVersion, eval,
    value::{Arena, Heap, Value as Rego, View},
};
use modgate_value::{Budget, Value};

use super::{Refusal, Runner, capabilities, compile, joined, to_json};
use modgate_corpus::{
    corpus::{CorpusFile, Roots},
    decision,
    members::Members,
    report::{Case, Verdict},
};

/// OPA's functions on policies as texts, which an admission policy does not need.
const EXEMPT: [&str; 2] = ["rego.parse_module(", "rego.metadata."];

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        let (id, source) = (members.text("id")?.to_owned(), members.text("src")?);
        let expected = members.text("result")?;
        members.finish()?;
        let verdict = if EXEMPT.iter().any(|name| source.contains(name)) {
            Verdict::Exempt
        } else {
            let got = evaluate(source)?;
            match prescribed(source, expected) {
                Some(text) => Verdict::check(
                    &got,
                    &expected.to_owned(),
                    Some((vec![&decision::REGO_9], text)),
                    |a, b| a == b,
                    String::clone,
                ),
                None => check(expected, got),
            }
        };
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// The output of OPA 1.17 where 1.19, which was recorded, prints the numbers of `sprintf`
/// otherwise.
fn prescribed(source: &str, recorded: &str) -> Option<String> {
    if !source.contains("sprintf(") {
        return None;
    }
    let mut text = recorded.replace("int64", "int");
    for exponent in ["e10", "e21"] {
        text = text.replace(exponent, &exponent.replace('e', "e+"));
    }
    (text != recorded).then_some(text)
}

fn check(expected: &str, got: String) -> Verdict {
    let json = |text: &str| Value::from_json(text.as_bytes()).ok().map(|value| value.to_json());
    // Names of generated variables are OPA's own.
    let undefined_ref = |text: &str| text.split("undefined ref").next().map(str::to_owned);
    let same = match (json(&got), json(expected)) {
        (Some(got), Some(expected)) => got == expected,
        _ if expected.contains("__local") => undefined_ref(&got) == undefined_ref(expected),
        _ => got == expected,
    };
    if same { Verdict::Passed } else { Verdict::Failed { expected: expected.to_owned(), got } }
}

/// The value of `data.t.p`, as the recording writes it.
fn evaluate(source: &str) -> Result<String> {
    let modules = [("t.rego".to_owned(), source)];
    let program = match compile(modules.into_iter(), RegoVersion::V0) {
        Ok(program) => program,
        Err(Refusal::Parse(errors)) => return Ok(format!("PARSEERR {}", joined(&errors))),
        Err(Refusal::Compile(errors)) => return Ok(format!("ERR {}", joined(&errors))),
    };
    let query = match program.query("x = data.t.p", RegoVersion::V0, &capabilities()) {
        Ok(query) => query,
        Err(errors) => return Ok(format!("ERR {}", joined(&errors))),
    };
    let budget = Budget::unlimited();
    let arena = Arena::new();
    // The base documents of the recording; it had no input.
    let data = Value::from_json(br#"{"foo": [1, 2, 1], "inv": {"a": 1}}"#)?;
    let context = eval::Context {
        input: None,
        data: Some(Rego::json(&data)),
        heap: Heap::new(&arena, &budget),
        host: &Runner,
        strict_builtin_errors: false,
        tracer: None,
    };
    let rows = match eval::query(&query, context) {
        Ok(rows) => rows,
        Err(error) => return Ok(format!("ERR {error}")),
    };
    match rows.first().and_then(|row| row.first()) {
        None => Ok("UNDEF".to_owned()),
        Some(value) if matches!(value.view(), View::Null) => Ok("null".to_owned()),
        Some(value) => Ok(to_json(*value)?.to_json()),
    }
}
