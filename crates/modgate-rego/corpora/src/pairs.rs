//! `languages/rego-pairs*.json`: what OPA answers to calls of its built-ins with boundary values,
//! recorded by `tests/record/rego`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use modgate_corpus::{
    Decision,
    corpus::{CorpusFile, Roots},
    decision,
    members::Members,
    report::{Case, Verdict},
};
use modgate_rego::{
    Capabilities, Program, Query, RegoVersion, eval,
    value::{Arena, Heap, Value as Rego},
};
use modgate_value::{Budget, Value};
use sha2::{Digest as _, Sha256};

mod model;

use crate::Runner;

/// Longer answers are recorded as their hash.
const MAX_ANSWER: usize = 160;

pub(crate) fn run(file: &CorpusFile, _: &Roots, cases: &mut Vec<Case>) -> Result<()> {
    let document = file.json()?;
    let top = Members::of(&document)?;
    top.notes(&["about", "opa"]);
    let program = Program::compile(&[], &Capabilities::default())
        .map_err(|errors| anyhow::anyhow!(crate::joined(&errors)))?;
    let compile = |text: &str| -> Result<Query> {
        program
            .query(&format!("x = {text}"), RegoVersion::V1, &Capabilities::default())
            .map_err(|errors| anyhow::anyhow!("{text}: {}", crate::joined(&errors)))
    };
    let mut texts = BTreeMap::new();
    let mut queries = BTreeMap::new();
    for (name, pool) in top.required("pools")?.as_object().context("`pools` is not an object")? {
        let pool = strings(pool)?;
        let compiled: Vec<Query> = pool.iter().map(|text| compile(text)).collect::<Result<_>>()?;
        queries.insert(name.as_str(), compiled);
        texts.insert(name.as_str(), pool);
    }
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let mut pools = BTreeMap::new();
    for (name, queries) in &queries {
        let values = queries.iter().map(|query| {
            let rows = eval::query(query, context(None, Heap::new(&arena, &budget)))?;
            rows.first().and_then(|row| row.first()).copied().context("an undefined pool value")
        });
        pools.insert(
            *name,
            values.collect::<Result<Vec<Rego<'_>>>>().with_context(|| name.to_string())?,
        );
    }
    for case in top.list("cases")? {
        let members = Members::of(case)?;
        let function = members.text("call")?;
        let operands = strings(members.required("operands")?)?;
        let values = operands.iter().map(|pool| pools.get(pool).context("an unknown pool"));
        let values = values.collect::<Result<Vec<_>>>()?;
        let places: Vec<String> = (0..operands.len()).map(|at| format!("input[{at}]")).collect();
        let query = compile(&format!("{function}({})", places.join(", ")))?;
        let (rows, answers) = (members.list("rows")?, strings(members.required("answers")?)?);
        ensure!(rows.len() == answers.len(), "{function}: as many answers as rows");
        members.finish()?;
        for (row, expected) in rows.iter().zip(answers) {
            let mut shown = Vec::with_capacity(operands.len());
            let mut input = Vec::with_capacity(operands.len());
            let row = row.as_array().context("a row is not a list")?;
            for ((place, pool), values) in row.iter().zip(&operands).zip(&values) {
                let place = usize::try_from(place.as_i64().context("a place is not a number")?)?;
                let text = texts.get(pool).and_then(|pool| pool.get(place));
                shown.push(*text.context("a place outside of its pool")?);
                input.push(*values.get(place).context("a place outside of its pool")?);
            }
            let id = format!("{function}({})", shown.join(", "));
            let got = answer(&query, &input).with_context(|| id.clone())?;
            let prescribed = prescribed(function, &input, expected);
            let verdict = Verdict::check(
                &got.as_str(),
                &expected,
                prescribed.as_ref().map(|(decision, text)| (vec![*decision], text.as_str())),
                |a, b| a == b,
                |text| (*text).to_owned(),
            );
            cases.push(Case { id, verdict });
        }
    }
    top.finish()
}

/// The decision that applies to a call, and what it asks for instead of the recorded answer.
fn prescribed(
    function: &str,
    operands: &[Rego<'_>],
    recorded: &str,
) -> Option<(&'static Decision, String)> {
    let text = |at: usize| operands.get(at).and_then(|operand| operand.as_str());
    if recorded == "error" {
        return None;
    }
    let (decision, answer) = match function {
        "object.subset" => {
            let (list, set) = (operands.first()?.as_array()?, operands.get(1)?.as_set()?);
            let within = set.iter().all(|item| list.iter().any(|other| other == item));
            (&decision::REGO_4, (within && !list.is_empty()).to_string())
        }
        "glob.match" => {
            let (pattern, subject) = (text(0)?, text(2)?);
            // Alternatives, and characters of several bytes, are where gobwas goes astray.
            if !pattern.contains('{') && pattern.is_ascii() && subject.is_ascii() {
                return None;
            }
            let delimiters = operands.get(1)?;
            let delimiters: String = match delimiters.as_array() {
                None => String::new(),
                Some(list) if list.is_empty() => ".".to_owned(),
                Some(list) => list.iter().filter_map(|item| item.as_str()).collect(),
            };
            (&decision::REGO_5, model::glob(pattern, &delimiters, subject)?.to_string())
        }
        "regex.globs_match" => (&decision::REGO_5, model::have_in_common(text(0)?, text(1)?)?),
        "sum" => {
            let numbers = operands.first()?.as_array()?;
            let numbers = numbers.iter().map(|number| number.as_number()?.as_int());
            let sum: i128 =
                numbers.collect::<Option<Vec<i64>>>()?.into_iter().map(i128::from).sum();
            (&decision::REGO_10, sum.to_string())
        }
        "sprintf" if text(0)? == "%#q" => {
            (&decision::REGO_11, recorded.replace(r#"\"\\x80\""#, r"`\x80`"))
        }
        "strings.render_template" => {
            (&decision::REGO_12, recorded.replace("json.Number", "string"))
        }
        _ => return None,
    };
    (answer != recorded).then_some((decision, answer))
}

fn strings(list: &Value) -> Result<Vec<&str>> {
    let Some(list) = list.as_array() else { bail!("expected a list") };
    list.iter().map(|text| text.as_str().context("expected a string")).collect()
}

fn context<'a>(input: Option<Rego<'a>>, heap: Heap<'a>) -> eval::Context<'a> {
    eval::Context {
        input,
        data: None,
        heap,
        host: &Runner,
        strict_builtin_errors: true,
        tracer: None,
    }
}

/// The result of a call, as the recording writes it.
fn answer(query: &Query, operands: &[Rego<'_>]) -> Result<String> {
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let heap = Heap::new(&arena, &budget);
    let input = heap.array(operands)?;
    let Ok(rows) = eval::query(query, context(Some(input), heap)) else {
        return Ok("error".to_owned());
    };
    let mut values = Vec::new();
    for row in &rows {
        values.push(row.first().context("no value")?.to_text(&budget)?);
    }
    if values.is_empty() {
        return Ok("undefined".to_owned());
    }
    values.sort();
    let text = values.join(" ; ");
    if text.len() <= MAX_ANSWER {
        return Ok(text);
    }
    let hash = Sha256::digest(text.as_bytes());
    let hash: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("sha256:{hash}"))
}
