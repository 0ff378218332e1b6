//! `gotemplate*.json` and `sprig*.json`: templates executed by Go's `text/template` over one
//! document, with its own functions only and with Sprig's.

use std::{cell::Cell, time::Duration};

use anyhow::{Context as _, Result, ensure};
use modgate_template::{Data, Env, Functions, Host, Refused, Template};
use modgate_value::{Budget, Value};

use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn builtin(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    run(file, Functions::Builtin, cases)
}

pub(crate) fn sprig(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    run(file, Functions::Sprig, cases)
}

fn run(file: &CorpusFile, functions: Functions, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let data = top.required("data")?;
    for (index, case) in top.list("cases")?.iter().enumerate() {
        let verdict = check(case, data, functions).with_context(|| format!("case {index}"))?;
        let id = Members::of(case)?.text("template")?.to_owned();
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// Error texts of a library are informative; that there is one is not.
fn check(case: &Value, data: &Value, functions: Functions) -> Result<Verdict> {
    let members = Members::of(case)?;
    let text = members.text("template")?;
    let expect = Members::of(members.required("expect")?)?;
    let (output, error) = (expect.optional_text("v")?, expect.optional_text("e")?);
    ensure!(output.is_some() != error.is_some(), "a case has either an output or an error");
    expect.finish()?;
    members.finish()?;
    Ok(match (output, render(text, data, functions)) {
        (Some(expected), Ok(got)) => Verdict::equal(expected, got),
        (None, Err(_)) => Verdict::Passed,
        (Some(expected), Err(got)) => Verdict::Failed { expected: expected.to_owned(), got },
        (None, Ok(got)) => Verdict::Failed { expected: format!("error: {error:?}"), got },
    })
}

fn render(text: &str, data: &Value, functions: Functions) -> Result<String, String> {
    let template = Template::parse_with("x", text, functions).map_err(|error| error.to_string())?;
    let (budget, host) = (Budget::unlimited(), RecordedHost(Cell::new(0x9e37_79b9_7f4a_7c15)));
    let env = Env { budget: &budget, host: &host };
    let bytes =
        template.render_bytes(Data::Value(data), &env).map_err(|error| error.to_string())?;
    // What was recorded went through Go's JSON, which replaces every byte that is not text.
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(out)
}

/// Time and randomness for functions. Recorded results do not depend on either: the length of a random
/// text, for example.
struct RecordedHost(Cell<u64>);

impl Host for RecordedHost {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(Duration::from_secs(1_700_000_000))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            // xorshift64
            let mut state = self.0.get();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.0.set(state);
            let [_, _, _, middle, ..] = state.to_le_bytes();
            *byte = middle;
        }
        Ok(())
    }

    fn resolve_host(&self, _name: &str) -> Result<Option<String>, Refused> {
        Ok(None)
    }
}
