//! `opa/*.json`: OPA's compliance cases, one file per group.

use anyhow::{Context as _, Result};
use modgate_rego::{
    Error, Query, RegoVersion, eval,
    value::{Arena, Heap, Value as Rego},
};
use modgate_value::{Budget, Object, Value};

use super::{Refusal, Runner, capabilities, compile, joined, to_json};
use modgate_corpus::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    for (index, case) in top.list("cases")?.iter().enumerate() {
        let members = Members::of(case)?;
        members.notes(&["ignore", "ignore_generated_vars"]);
        let id = members.text("note")?.to_owned();
        let verdict = check(&members).with_context(|| format!("case {index}, `{id}`"))?;
        members.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// The expectation of a case.
enum Wanted<'a> {
    Rows(Vec<Value>),
    Error { code: Option<&'a str>, text: Option<&'a str> },
}

fn check(case: &Members<'_>) -> Result<Verdict> {
    let query_text = case.text("query")?;
    let modules = case.optional_list("modules")?;
    let data = case.optional("data");
    let input = case.optional("input");
    let input_term = case.optional_text("input_term")?;
    let strict = case.flag("strict_error")?;
    let sort = case.flag("sort_bindings")?;
    let (code, text) = (case.optional_text("want_error_code")?, case.optional_text("want_error")?);
    let rows = case.optional_list("want_result")?;
    let wanted = if code.is_some() || text.is_some() {
        Wanted::Error { code, text }
    } else {
        Wanted::Rows(
            rows.iter().map(|row| if sort { sorted_row(row) } else { row.clone() }).collect(),
        )
    };
    // Calls that go out to the network are no admission policy's.
    let sources = || modules.iter().filter_map(Value::as_str);
    if query_text.contains("http.send") || sources().any(|source| source.contains("http.send")) {
        return Ok(Verdict::Exempt);
    }

    let named = sources().enumerate().map(|(index, text)| (format!("test-{index}.rego"), text));
    let program = match compile(named, RegoVersion::V1) {
        Ok(program) => program,
        Err(Refusal::Parse(errors) | Refusal::Compile(errors)) => {
            return Ok(refused(&joined(&errors), &wanted));
        }
    };
    let query = |text: &str| -> Result<Query, String> {
        program.query(text, RegoVersion::V1, &capabilities()).map_err(|errors| joined(&errors))
    };
    let compiled = match query(query_text) {
        Ok(query) => query,
        Err(error) => return Ok(refused(&error, &wanted)),
    };
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let context = |input| eval::Context {
        input,
        data: data.map(Rego::json),
        heap: Heap::new(&arena, &budget),
        host: &Runner,
        strict_builtin_errors: strict,
        tracer: None,
    };
    let term = input_term.map(|term| query(&format!("x = {term}"))).transpose();
    let term = term.map_err(anyhow::Error::msg).context("input_term")?;
    let input = match &term {
        Some(term) => {
            let rows = eval::query(term, context(None)).context("input_term")?;
            rows.first().and_then(|row| row.first()).copied()
        }
        None => input.map(Rego::json),
    };
    match (eval::query(&compiled, context(input)), &wanted) {
        (Err(error), _) => Ok(failed(&error, &wanted)),
        (Ok(rows), Wanted::Error { .. }) => {
            Ok(Verdict::Failed { expected: show(&wanted), got: format!("{} rows", rows.len()) })
        }
        (Ok(rows), Wanted::Rows(expected)) => {
            let got = rows
                .iter()
                .map(|row| {
                    let members = compiled.outputs().zip(row).map(|(name, value)| {
                        let value = to_json(*value)?;
                        Ok((name.clone(), if sort { sorted(value) } else { value }))
                    });
                    Ok(Value::Object(Object::from_entries(members.collect::<Result<_>>()?)))
                })
                .collect::<Result<Vec<Value>>>()?;
            // Both are sets of rows.
            let within = |a: &[Value], b: &[Value]| a.iter().all(|a| b.contains(a));
            if within(&got, expected) && within(expected, &got) {
                return Ok(Verdict::Passed);
            }
            let got: Value = got.into_iter().collect();
            Ok(Verdict::Failed { expected: show(&wanted), got: got.to_json() })
        }
    }
}

/// The verdict on a program or query that does not compile.
fn refused(error: &str, wanted: &Wanted<'_>) -> Verdict {
    let holds = match wanted {
        Wanted::Error { code, text } => {
            code.is_none_or(|code| error.contains(code)) && text.is_none_or(|t| error.contains(t))
        }
        Wanted::Rows(_) => false,
    };
    if holds {
        Verdict::Passed
    } else {
        Verdict::Failed { expected: show(wanted), got: error.to_owned() }
    }
}

/// The verdict on an evaluation that fails.
fn failed(error: &Error, wanted: &Wanted<'_>) -> Verdict {
    let message = error.to_string();
    let holds = match wanted {
        Wanted::Error { code, text } => {
            code.is_none_or(|code| code == error.code.as_str())
                && text.is_none_or(|text| message.contains(text))
        }
        Wanted::Rows(_) => false,
    };
    if holds { Verdict::Passed } else { Verdict::Failed { expected: show(wanted), got: message } }
}

fn show(wanted: &Wanted<'_>) -> String {
    match wanted {
        Wanted::Rows(rows) => rows.iter().cloned().collect::<Value>().to_json(),
        Wanted::Error { code, text } => {
            format!("{}: {}", code.unwrap_or("any code"), text.unwrap_or("any text"))
        }
    }
}

fn sorted_row(row: &Value) -> Value {
    match row {
        Value::Object(row) => {
            row.iter().map(|(key, value)| (key.clone(), sorted(value.clone()))).collect()
        }
        other => other.clone(),
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().cloned().collect();
            items.sort_by_key(Value::to_json);
            items.into()
        }
        other => other,
    }
}
