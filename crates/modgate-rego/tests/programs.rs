//! Programs of our own against what OPA 1.19 said about them: solutions, errors, their words and
//! places. `MODGATE_PROGRAMS` names another recording to compare with.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code, helpers included"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use modgate_rego::{
    Capabilities,
    ast::{Module, RegoVersion},
    builtins::Isolated,
    error::Error,
    eval,
    ir::Program,
    parser,
    value::{Arena, Heap, Value as Rego},
};
use modgate_value::{Budget, Value};

/// Programs about which we say something else than OPA, and why.
const DIFFER: [(&str, &str); 2] = [
    ("leading dot (v0)", "OPA keeps `.5` as it is written, which is not a JSON number"),
    ("some in number (v1)", "OPA says `match error` about unknown types; we name the reference"),
];

/// What a run came to: sorted solutions, or the stage that failed and its errors.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Rows(Vec<String>),
    Failed { stage: String, errors: Vec<String> },
}

fn failed(stage: &str, errors: &[Error]) -> Outcome {
    let errors = errors.iter().map(Error::detailed).collect();
    Outcome::Failed { stage: stage.to_owned(), errors }
}

fn run(case: &Value) -> Outcome {
    let version = match case.get("version").and_then(Value::as_i64) {
        Some(1) => RegoVersion::V1,
        _ => RegoVersion::V0,
    };
    let sources = case.get("modules").and_then(Value::as_array).expect("modules");
    let mut modules: Vec<Module> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let source = source.as_str().expect("text");
        match parser::parse_module(&format!("test-{index}.rego"), source, version) {
            Ok(module) => modules.push(module),
            Err(errors) => return failed("parse", &errors),
        }
    }
    let capabilities = Capabilities::default();
    let program = match Program::compile(&modules, &capabilities) {
        Ok(program) => program,
        Err(errors) => return failed("compile", &errors),
    };
    let query = case.get("query").and_then(Value::as_str).expect("query");
    let query = match program.query(query, version, &capabilities) {
        Ok(query) => query,
        Err(errors) => return failed("query", &errors),
    };
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let context = eval::Context {
        input: case.get("input").map(Rego::json),
        data: case.get("data").map(Rego::json),
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: case.get("strict").is_some(),
        tracer: None,
    };
    match eval::query(&query, context) {
        Err(error) => Outcome::Failed { stage: "eval".to_owned(), errors: vec![error.to_string()] },
        Ok(rows) => {
            let mut rows: Vec<String> = rows
                .iter()
                .map(|row| {
                    let cells = query.outputs.iter().zip(row).map(|((name, _), value)| {
                        format!("{name}={};", value.to_text(&budget).expect("text"))
                    });
                    cells.collect()
                })
                .collect();
            rows.sort();
            Outcome::Rows(rows)
        }
    }
}

fn wanted(case: &Value) -> Outcome {
    let texts = |key: &str| -> Vec<String> {
        let items = case.get(key).and_then(Value::as_array);
        let items = items.into_iter().flat_map(|items| items.iter());
        items.filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    match case.get("stage").and_then(Value::as_str) {
        Some(stage) => Outcome::Failed { stage: stage.to_owned(), errors: texts("errors") },
        None => Outcome::Rows(texts("rows")),
    }
}

/// Whether both say the same; how generated variables are numbered is OPA's own business.
fn same(got: &Outcome, wanted: &Outcome) -> bool {
    let (
        Outcome::Failed { stage, errors },
        Outcome::Failed { stage: wanted_stage, errors: wanted },
    ) = (got, wanted)
    else {
        return got == wanted;
    };
    let plain = |error: &String| match error.split_once("__local") {
        Some((before, after)) => {
            let after = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}__local{}", after.lines().next().unwrap_or_default())
        }
        None => error.clone(),
    };
    stage == wanted_stage && errors.iter().map(plain).eq(wanted.iter().map(plain))
}

#[test]
fn programs() {
    let path = env::var_os("MODGATE_PROGRAMS").map_or_else(
        || {
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../conformance/languages/rego-programs.json")
        },
        PathBuf::from,
    );
    let document = Value::from_json(&fs::read(path).expect("file")).expect("JSON");
    let cases = document.get("cases").and_then(Value::as_array).expect("cases");
    let mut differ = 0;
    for case in cases.iter() {
        let (got, wanted) = (run(case), wanted(case));
        let id = case.get("id").and_then(Value::as_str).unwrap_or_default();
        let expected = DIFFER.iter().all(|(known, _)| *known != id);
        if same(&got, &wanted) != expected {
            differ += 1;
            let modules = case.get("modules").map_or_else(String::new, Value::to_json);
            println!("== {id} {modules}\n   got    {got:?}\n   wanted {wanted:?}");
        }
    }
    println!("{} of {} programs agree", cases.len() - differ, cases.len());
    assert_eq!(differ, 0);
}
