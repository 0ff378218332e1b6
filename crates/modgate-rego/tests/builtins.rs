//! Calls of built-ins against what OPA 1.17 gave for them, errors included.
//!
//! The recording is `builtins.json` beside this file; `MODGATE_BUILTINS` names another one to
//! compare with.

#![allow(missing_docs)]

use std::{env, fs, path::PathBuf};

use modgate_rego::{
    Capabilities, Program, RegoVersion,
    builtins::Host,
    eval,
    value::{Arena, Heap, Value as Rego},
};
use modgate_value::{Budget, Value};

struct Fixed;

impl Host for Fixed {
    fn now_ns(&self) -> Option<i64> {
        Some(1_790_000_000_000_000_000)
    }
}

/// Calls that give something else than in OPA: the call, what it gives here, and why.
const DIFFER: &[(&str, &str, &str)] = &[
    ("10.0 == 1", "false", "OPA trims zeros before the point when it compares"),
    ("{10.0, 1}", "[1,10.0]", "they are not equal"),
    ("object.subset([1,1],{1,2})", "false", "OPA counts 1 twice"),
    ("glob.match(\"{a*,b}.*\", [\".\"], \"aa.\")", "true", "gobwas does not go back"),
    ("glob.match(\"{a,b}é\", [], \"aé\")", "true", "gobwas mixes up bytes and characters"),
    ("regex.globs_match(\"[bc]*\", \"a*[a-c]\")", "true", "`b` matches both"),
    (
        "graph.reachable_paths({\"a\":[\"b\"],\"b\":[\"c\",\"d\"],\"c\":[\"d\"],\"d\":[\"e\"],\"e\":[]},[\"a\"])",
        "[[\"a\",\"b\"],[\"a\",\"b\",\"c\",\"d\",\"e\"]]",
        "as OPA's compliance cases have it, which OPA itself no longer follows",
    ),
    (
        "json.unmarshal(\"{\")",
        "eval_builtin_error: json.unmarshal: unexpected end of JSON at line 1, column 2",
        "the parser's own words, with the place",
    ),
];

/// The result as JSON, or the error as OPA words it.
fn call(program: &Program, expr: &str, input: &Value) -> Result<Option<Value>, String> {
    let capabilities = Capabilities::default();
    let query = program
        .query(&format!("x = {expr}"), RegoVersion::V1, &capabilities)
        .map_err(|errors| errors.iter().map(|error| error.detailed()).collect::<String>())?;
    let budget = Budget::unlimited();
    let arena = Arena::new();
    let context = eval::Context {
        input: Some(Rego::json(input)),
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Fixed,
        strict_builtin_errors: true,
        tracer: None,
    };
    let rows = eval::query(&query, context).map_err(|error| error.to_string())?;
    let value = rows.first().and_then(|row| row.first());
    value.map(|value| value.to_json(&budget).map_err(|limit| limit.to_string())).transpose()
}

/// From the code on: what stands before is the place.
fn message(error: &str) -> &str {
    error.find("eval_").and_then(|at| error.get(at..)).unwrap_or(error)
}

fn differs(program: &Program, case: &Value, input: &Value) -> Option<String> {
    let expr = case.get("expr").and_then(Value::as_str).unwrap_or_default();
    let wanted_error = case.get("error").and_then(Value::as_str);
    let wanted = case.get("result");
    let got = call(program, expr, input);
    let listed = DIFFER.iter().find(|(listed, ..)| *listed == expr);
    let shown = match &got {
        Ok(Some(value)) => value.to_json(),
        Ok(None) => "undefined".to_owned(),
        Err(error) => message(error).to_owned(),
    };
    let agrees = match (&got, wanted, wanted_error) {
        // The text, so that numbers are spelled alike.
        (Ok(Some(got)), Some(wanted), None) => got.to_json() == wanted.to_json(),
        (Ok(None), None, None) => true,
        (Err(got), None, Some(wanted)) => message(got) == message(wanted),
        _ => false,
    };
    match (agrees, listed) {
        (true, None) => None,
        (true, Some((_, _, why))) => Some(format!("{expr}: listed ({why}) but agrees")),
        (false, Some((_, ours, _))) if shown == *ours => None,
        (false, _) => {
            let wanted = wanted.map(Value::to_json).or(wanted_error.map(str::to_owned));
            Some(format!(
                "{expr}\n  got    {shown}\n  wanted {}",
                wanted.unwrap_or("undefined".into())
            ))
        }
    }
}

#[test]
fn calls_are_as_recorded() {
    let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/builtins.json");
    let path = env::var_os("MODGATE_BUILTINS").map_or(own, PathBuf::from);
    let text = fs::read(&path).expect("recording");
    let recording = Value::from_json(&text).expect("json");
    let input = recording.get("input").expect("input");
    let cases = recording.get("cases").and_then(Value::as_array).expect("cases");
    let program = Program::compile(&[], &Capabilities::default()).expect("empty program");
    let failures: Vec<String> =
        cases.iter().filter_map(|case| differs(&program, case, input)).collect();
    assert!(
        failures.is_empty(),
        "{} of {} calls differ:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}
