//! OPA's own compliance cases, all of them, and the programs recorded from OPA 1.19.
//!
//! The figures per group are printed (`--nocapture`). A group that is not yet complete has its
//! number of failing cases in [`BEHIND`]; the test fails when a figure is worse and also when it
//! is better, so that the table only ever shrinks.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code, helpers included"
)]

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use modgate_rego::{
    Capabilities,
    ast::{Module, RegoVersion},
    builtins::Host,
    eval,
    ir::{Program, Query},
    parser,
    value::{Arena, Heap, Value as Rego, View},
};
use modgate_template::{Functions, Template};
use modgate_value::{Budget, Value};

/// Groups that reach outside an evaluation or belong to other products; exempt by name.
const EXEMPT_GROUPS: [&str; 11] = [
    "graphql",
    "jwtencodesign",
    "jwtencodesignheadererrors",
    "jwtencodesignpayloaderrors",
    "jwtencodesignraw",
    "netlookupipaddr",
    "planner-ir",
    "providers-aws",
    "regometadatachain",
    "regometadatarule",
    "regoparsemodule",
];

/// Single cases that call `http.send` for real.
const EXEMPT_CASES: [&str; 2] = ["invalidkeyerror/invalid keys", "invalidkeyerror/missing keys"];

/// How many cases of a group still fail.
const BEHIND: &[(&str, usize)] = &[];

/// How many of the recorded programs still differ.
const RECORDED_BEHIND: usize = 0;

/// Grants what OPA's own runner grants.
struct Runner;

impl Host for Runner {
    fn now_ns(&self) -> Option<i64> {
        // Later than the certificates of the corpus were made.
        Some(1_790_000_000_000_000_000)
    }

    fn random(&self) -> Option<u64> {
        Some(4)
    }

    fn render_template(
        &self,
        template: &str,
        variables: &Value,
        budget: &Budget<'_>,
    ) -> Option<Result<String, String>> {
        let env = modgate_template::Env { budget, host: &modgate_template::Isolated };
        let rendered = Template::parse_with("template", template, Functions::Builtin)
            .map_err(|error| error.to_string())
            .and_then(|template| {
                template.render(variables, &env).map_err(|error| error.to_string())
            });
        Some(rendered)
    }

    fn call(&self, name: &str, _: &[Value]) -> Option<Result<Value, String>> {
        match name {
            "test.sleep" => Some(Ok(Value::Null)),
            "opa.runtime" => Some(Ok(Value::Object(modgate_value::Object::default()))),
            _ => None,
        }
    }
}

fn capabilities() -> Capabilities {
    Capabilities { host_functions: BTreeMap::from([("test.sleep".into(), 1)]) }
}

fn compile(modules: &[(String, &str)], version: RegoVersion) -> Result<Program, String> {
    let first = |errors: Vec<modgate_rego::error::Error>| {
        let texts: Vec<String> = errors.iter().map(|error| error.detailed()).collect();
        match texts.as_slice() {
            [one] => format!("1 error occurred: {one}"),
            many => format!("{} errors occurred:\n{}", many.len(), many.join("\n")),
        }
    };
    let modules: Vec<Module> = modules
        .iter()
        .map(|(name, text)| parser::parse_module(name, text, version))
        .collect::<Result<_, _>>()
        .map_err(|errors| format!("PARSE{}", first(errors)))?;
    Program::compile(&modules, &capabilities()).map_err(first)
}

/// A value as OPA's runner compares it: sets are arrays, keys are text.
fn to_json(value: Rego<'_>) -> Value {
    value.to_json(&Budget::unlimited()).expect("depth")
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().cloned().collect();
            items.sort_by_key(Value::to_json);
            Value::Array(items.into_iter().collect())
        }
        other => other,
    }
}

/// Numbers are compared by value, as OPA does.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right.iter()).all(|(l, r)| same(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right.iter())
                    .all(|((lk, lv), (rk, rv))| lk == rk && same(lv, rv))
        }
        _ => left == right,
    }
}

fn run_case(case: &Value) -> Result<(), String> {
    let text = |key: &str| case.get(key).and_then(Value::as_str);
    let modules: Vec<(String, &str)> = case
        .get("modules")
        .and_then(Value::as_array)
        .into_iter()
        .flat_map(|modules| modules.iter())
        .enumerate()
        .filter_map(|(index, module)| Some((format!("test-{index}.rego"), module.as_str()?)))
        .collect();
    let program = compile(&modules, RegoVersion::V1)?;
    let query = |text: &str| -> Result<Query, String> {
        program
            .query(text, RegoVersion::V1, &capabilities())
            .map_err(|errors| errors.iter().map(|error| error.detailed()).collect())
    };
    let compiled = query(text("query").unwrap_or_default())?;

    let budget = Budget::unlimited();
    let arena = Arena::new();
    let heap = Heap::new(&arena, &budget);
    let context = |input| eval::Context {
        input,
        data: case.get("data").map(Rego::json),
        heap,
        host: &Runner,
        strict_builtin_errors: case.get("strict_error").and_then(Value::as_bool) == Some(true),
        tracer: None,
    };
    let input_term = text("input_term").map(|term| query(&format!("x = {term}"))).transpose()?;
    let input = match &input_term {
        Some(term) => {
            let rows = eval::query(term, context(None)).map_err(|error| error.to_string())?;
            rows.first().and_then(|row| row.first()).copied()
        }
        None => case.get("input").map(Rego::json),
    };
    let outcome = eval::query(&compiled, context(input));

    let wanted_code = text("want_error_code");
    let wanted_text = text("want_error");
    if wanted_code.is_some() || wanted_text.is_some() {
        let error = match outcome {
            Ok(rows) => return Err(format!("expected an error, got {} rows", rows.len())),
            Err(error) => error,
        };
        let message = error.to_string();
        if wanted_code.is_some_and(|code| code != error.code.as_str())
            || wanted_text.is_some_and(|text| !message.contains(text))
        {
            return Err(format!("got `{message}`, wanted {wanted_code:?} `{wanted_text:?}`"));
        }
        return Ok(());
    }
    let rows = outcome.map_err(|error| error.to_string())?;
    let sort = case.get("sort_bindings").and_then(Value::as_bool) == Some(true);
    let got: Vec<Value> = rows
        .iter()
        .map(|row| {
            let entries = compiled.outputs.iter().zip(row).map(|((name, _), value)| {
                let value = to_json(*value);
                (name.clone(), if sort { sorted(value) } else { value })
            });
            Value::Object(modgate_value::Object::from_entries(entries.collect()))
        })
        .collect();
    let wanted: Vec<Value> = case
        .get("want_result")
        .and_then(Value::as_array)
        .into_iter()
        .flat_map(|rows| rows.iter().cloned())
        .map(|row| match row {
            Value::Object(row) if sort => Value::Object(modgate_value::Object::from_entries(
                row.iter().map(|(key, value)| (key.clone(), sorted(value.clone()))).collect(),
            )),
            other => other,
        })
        .collect();
    // Both are sets of rows.
    let within = |a: &[Value], b: &[Value]| a.iter().all(|a| b.iter().any(|b| same(a, b)));
    if within(&got, &wanted) && within(&wanted, &got) {
        return Ok(());
    }
    let show = |rows: &[Value]| rows.iter().map(Value::to_json).collect::<Vec<_>>().join(" ");
    Err(format!("got {}, wanted {}", show(&got), show(&wanted)))
}

#[test]
fn opa_corpus() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/opa");
    let Ok(entries) = fs::read_dir(&dir) else { return };
    let mut groups: Vec<_> = entries
        .map(|entry| entry.expect("entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    groups.sort();
    let only = std::env::var("OPA_GROUP").ok();
    let mut report = String::new();
    let mut wrong = Vec::new();
    let (mut all_passed, mut all_cases, mut exempt) = (0, 0, 0);
    for path in groups {
        let group = path.file_stem().and_then(|stem| stem.to_str()).expect("name").to_owned();
        if only.as_ref().is_some_and(|only| *only != group) {
            continue;
        }
        let document = Value::from_json(&fs::read(&path).expect("file")).expect("JSON");
        let cases = document.get("cases").unwrap_or(&document).as_array().expect("cases");
        if EXEMPT_GROUPS.contains(&group.as_str()) {
            exempt += cases.len();
            continue;
        }
        let (mut passed, mut failed) = (0, 0);
        for case in cases.iter() {
            let note = case.get("note").and_then(Value::as_str).unwrap_or_default();
            if EXEMPT_CASES.contains(&note) {
                exempt += 1;
                continue;
            }
            match run_case(case) {
                Ok(()) => passed += 1,
                Err(why) => {
                    failed += 1;
                    println!("{group}: {note}: {why}");
                }
            }
        }
        all_passed += passed;
        all_cases += passed + failed;
        let _ = writeln!(report, "{group}: {passed} of {}", passed + failed);
        let behind =
            BEHIND.iter().find(|(name, _)| *name == group).map_or(0, |(_, behind)| *behind);
        if failed != behind {
            wrong.push(format!("    (\"{group}\", {failed}), // was {behind}"));
        }
    }
    println!("{report}{all_passed} of {all_cases} cases pass, {exempt} exempt");
    assert!(only.is_some() || wrong.is_empty(), "figures changed:\n{}", wrong.join("\n"));
}

#[test]
fn recorded_programs() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/languages/rego.json");
    let document = Value::from_json(&fs::read(path).expect("file")).expect("JSON");
    let cases = document.get("cases").and_then(Value::as_array).expect("cases");
    let (mut failed, mut exempted) = (0, 0);
    // Exempt like their groups above.
    let exempt = ["rego.parse_module(", "rego.metadata."];
    for case in cases.iter() {
        let text = |key: &str| case.get(key).and_then(Value::as_str).expect("text");
        if exempt.iter().any(|name| text("src").contains(name)) {
            exempted += 1;
            continue;
        }
        let got = recorded(text("src"));
        let wanted = text("result");
        let same = match (Value::from_json(got.as_bytes()), Value::from_json(wanted.as_bytes())) {
            (Ok(got), Ok(wanted)) => got.to_json() == wanted.to_json(),
            // Names of generated variables are OPA's own.
            _ if wanted.contains("__local") => {
                got.split("undefined ref").next() == wanted.split("undefined ref").next()
            }
            _ => got == wanted,
        };
        if !same {
            failed += 1;
            println!("{}: got {got}, wanted {wanted}", text("id"));
        }
    }
    let all = cases.len() - exempted;
    println!("{} of {all} recorded programs agree, {exempted} exempt", all - failed);
    assert_eq!(failed, RECORDED_BEHIND);
}

/// What a program's `data.t.p` is, in the words of the recording.
fn recorded(source: &str) -> String {
    let program = match compile(&[("t.rego".to_owned(), source)], RegoVersion::V0) {
        Ok(program) => program,
        Err(error) => {
            return match error.strip_prefix("PARSE") {
                Some(error) => format!("PARSEERR {error}"),
                None => format!("ERR {error}"),
            };
        }
    };
    let query = program.query("x = data.t.p", RegoVersion::V0, &capabilities()).expect("query");
    let budget = Budget::unlimited();
    let arena = Arena::new();
    // The base documents of the recording; it had no input.
    let data = Value::from_json(br#"{"foo": [1, 2, 1], "inv": {"a": 1}}"#).expect("JSON");
    let context = eval::Context {
        input: None,
        data: Some(Rego::json(&data)),
        heap: Heap::new(&arena, &budget),
        host: &Runner,
        strict_builtin_errors: false,
        tracer: None,
    };
    match eval::query(&query, context) {
        Err(error) => format!("ERR {error}"),
        Ok(rows) => match rows.first().and_then(|row| row.first()) {
            None => "UNDEF".to_owned(),
            Some(value) => match value.view() {
                View::Null => "null".to_owned(),
                _ => to_json(*value).to_json(),
            },
        },
    }
}
