//! `gotemplate.json`: templates executed by Go's `text/template` over one document.

use anyhow::{Context as _, Result, ensure};
use modgate_template::{Data, Env, Functions, Isolated, Template};
use modgate_value::{Budget, Value};

use crate::{
    corpus::{CorpusFile, Roots},
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    let data = top.required("data")?;
    for (index, case) in top.list("cases")?.iter().enumerate() {
        let verdict = judge(case, data).with_context(|| format!("case {index}"))?;
        let id = Members::of(case)?.text("template")?.to_owned();
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// Error texts of a library are informative; that there is one is not.
fn judge(case: &Value, data: &Value) -> Result<Verdict> {
    let members = Members::of(case)?;
    let text = members.text("template")?;
    let expect = Members::of(members.required("expect")?)?;
    let (output, error) = (expect.optional_text("v")?, expect.optional_text("e")?);
    ensure!(output.is_some() != error.is_some(), "a case has either an output or an error");
    expect.finish()?;
    members.finish()?;
    Ok(match (output, render(text, data)) {
        (Some(expected), Ok(got)) => Verdict::equal(expected, got),
        (None, Err(_)) => Verdict::Passed,
        (Some(expected), Err(got)) => Verdict::Failed { expected: expected.to_owned(), got },
        (None, Ok(got)) => Verdict::Failed { expected: format!("error: {error:?}"), got },
    })
}

fn render(text: &str, data: &Value) -> Result<String, String> {
    let template =
        Template::parse_with("x", text, Functions::Builtin).map_err(|error| error.to_string())?;
    let budget = Budget::unlimited();
    let env = Env { budget: &budget, host: &Isolated };
    template.render(Data::Value(data), &env).map_err(|error| error.to_string())
}
