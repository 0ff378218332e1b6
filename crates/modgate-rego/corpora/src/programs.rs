//! `languages/rego-programs.json`: programs of our own against what OPA said about them: solutions,
//! errors, their words and places.

use anyhow::{Context as _, Result, bail};
use modgate_rego::{
    Capabilities, Error, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module,
    value::{Arena, Heap, Num, Value as Rego},
};
use modgate_value::{Budget, Value};

use modgate_corpus::{
    corpus::{CorpusFile, Roots},
    decision,
    members::Members,
    report::{Case, Verdict},
};

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about"]);
    for (index, case) in top.list("cases")?.iter().enumerate() {
        let members = Members::of(case)?;
        let id = members.text("id")?.to_owned();
        let verdict = check(&members).with_context(|| format!("case {index}, `{id}`"))?;
        members.finish()?;
        cases.push(Case { id, verdict });
    }
    top.finish()
}

/// The result of a run: sorted solutions, or the stage that failed and its errors.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Rows(Vec<String>),
    Failed { stage: String, errors: Vec<String> },
}

fn check(case: &Members<'_>) -> Result<Verdict> {
    let version = match case.required("version")?.as_i64() {
        Some(0) => RegoVersion::V0,
        Some(1) => RegoVersion::V1,
        _ => bail!("`version` is neither 0 nor 1"),
    };
    let sources: Vec<&str> = case.list("modules")?.iter().filter_map(Value::as_str).collect();
    let query = case.text("query")?;
    let texts = |list: &[Value]| -> Vec<String> {
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let original = match case.optional_text("stage")? {
        Some(stage) => {
            Outcome::Failed { stage: stage.to_owned(), errors: texts(case.list("errors")?) }
        }
        None => Outcome::Rows(texts(case.list("rows")?)),
    };
    let (input, data) = (case.optional("input"), case.optional("data"));
    let strict = case.optional("strict").is_some();
    let got = evaluate(version, &sources, query, input, data, strict)?;
    let prescribed = prescribed(&sources, &original);
    Ok(Verdict::check(
        &got,
        &original,
        prescribed
            .map(|outcome| (&decision::REGO_1, outcome))
            .or_else(|| rounded(&original).map(|outcome| (&decision::REGO_9, outcome)))
            .map(|(decision, outcome)| (vec![decision], outcome)),
        same,
        |outcome| format!("{outcome:?}"),
    ))
}

/// The outcome that we prescribe for a number without its leading zero: OPA keeps `.5` as it is
/// written, which is not a JSON number.
fn prescribed(sources: &[&str], original: &Outcome) -> Option<Outcome> {
    let bare_point = |text: &str| {
        text.split_whitespace().any(|word| {
            word.strip_prefix('.')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let Outcome::Rows(rows) = original else { return None };
    sources
        .iter()
        .any(|source| bare_point(source))
        .then(|| Outcome::Rows(rows.iter().map(|row| row.replace("=.", "=0.")).collect()))
}

/// Integers beyond 64 bits as OPA 1.17 computes them: with floats of 64 bits.
fn rounded(original: &Outcome) -> Option<Outcome> {
    let Outcome::Rows(rows) = original else { return None };
    let round = |row: &String| -> Option<String> {
        let (name, number) = row.strip_suffix(';')?.split_once('=')?;
        let long = number.len() > 20 && number.bytes().all(|byte| byte.is_ascii_digit());
        let rounded = Num::from_text(number).plus(Num::Int(0)).ok().filter(|_| long)?;
        Some(format!("{name}={};", rounded.as_num().text()))
    };
    let found: Vec<String> =
        rows.iter().map(|row| round(row).unwrap_or_else(|| row.clone())).collect();
    (found != *rows).then_some(Outcome::Rows(found))
}

fn evaluate(
    version: RegoVersion,
    sources: &[&str],
    query: &str,
    input: Option<&Value>,
    data: Option<&Value>,
    strict: bool,
) -> Result<Outcome> {
    let failed = |stage: &str, errors: &[Error]| Outcome::Failed {
        stage: stage.to_owned(),
        errors: errors.iter().map(Error::detailed).collect(),
    };
    let mut modules = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match parse_module(&format!("test-{index}.rego"), source, version) {
            Ok(module) => modules.push(module),
            Err(errors) => return Ok(failed("parse", &errors)),
        }
    }
    let capabilities = Capabilities::default();
    let program = match Program::compile(&modules, &capabilities) {
        Ok(program) => program,
        Err(errors) => return Ok(failed("compile", &errors)),
    };
    let query = match program.query(query, version, &capabilities) {
        Ok(query) => query,
        Err(errors) => return Ok(failed("query", &errors)),
    };
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let context = eval::Context {
        input: input.map(Rego::json),
        data: data.map(Rego::json),
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: strict,
        tracer: None,
    };
    match eval::query(&query, context) {
        Err(error) => {
            Ok(Outcome::Failed { stage: "eval".to_owned(), errors: vec![error.to_string()] })
        }
        Ok(solutions) => {
            let mut rows = Vec::new();
            for row in &solutions {
                let mut text = String::new();
                for (name, value) in query.outputs().zip(row) {
                    text.push_str(&format!("{name}={};", value.to_text(&budget)?));
                }
                rows.push(text);
            }
            rows.sort();
            Ok(Outcome::Rows(rows))
        }
    }
}

/// Whether both say the same. How generated variables are numbered, and how the inferred types are
/// drawn below a `match error`, is OPA's own business.
fn same(got: &Outcome, wanted: &Outcome) -> bool {
    let (
        Outcome::Failed { stage, errors },
        Outcome::Failed { stage: wanted_stage, errors: wanted },
    ) = (got, wanted)
    else {
        return got == wanted;
    };
    let place_and_code =
        |error: &str| error.split(": ").take(2).map(str::to_owned).collect::<Vec<_>>();
    let plain = |error: &String| match error.split_once("__local") {
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}__local{}", after.lines().next().unwrap_or_default())
        }
        None => error.clone(),
    };
    stage == wanted_stage
        && errors.len() == wanted.len()
        && errors.iter().zip(wanted).all(|(got, wanted)| {
            plain(got) == plain(wanted)
                || wanted.contains(": match error\n")
                    && place_and_code(got) == place_and_code(wanted)
        })
}
