//! The recordings of Go's templates and Sprig: `conformance/languages/sprig*` and
//! `gotemplate-pairs*`.

#![allow(clippy::expect_used, clippy::print_stderr, reason = "a test")]

use std::{cell::Cell, io::Read as _, time::Duration};

use modgate_template::{Env, Functions, Host, Refused, Template};
use modgate_value::{Budget, Value};

/// A clock that stands still and numbers that are random enough.
struct Fixed(Cell<u64>);

impl Host for Fixed {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(Duration::from_secs(1_700_000_000))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            // xorshift
            let mut state = self.0.get();
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            self.0.set(state);
            *byte = state.to_le_bytes()[3];
        }
        Ok(())
    }

    fn resolve_host(&self, _name: &str) -> Result<Option<String>, Refused> {
        Ok(None)
    }
}

/// The corpus file of this name, unpacked where it is compressed.
fn corpus(name: &str) -> Value {
    let path = format!("{}/../../conformance/languages/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = std::fs::read(&path).expect(&path);
    if name.ends_with(".gz") {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).expect(&path);
    }
    Value::from_json(&bytes).expect("corpus")
}

/// Text as Go's `encoding/json` writes it: U+FFFD for every byte that is no text.
fn lossy(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}

fn run(name: &str, functions: Functions, at_least: usize) {
    let corpus = corpus(name);
    let data = corpus.get("data").expect("data");
    let cases = corpus.get("cases").and_then(Value::as_array).expect("cases");
    let mut wrong = Vec::new();
    let mut worded_otherwise = 0;
    for case in cases {
        let text = case.get("template").and_then(Value::as_str).expect("template");
        let budget = Budget::unlimited();
        let host = Fixed(Cell::new(0x9E37_79B9_7F4A_7C15));
        let env = Env { budget: &budget, host: &host };
        let actual = match Template::parse_with("x", text, functions) {
            Ok(template) => template
                .render_bytes(data, &env)
                .map(|bytes| lossy(&bytes))
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let expected = match case.path(&["expect", "v"]).and_then(Value::as_str) {
            Some(output) => Ok(output.to_owned()),
            None => Err(case.path(&["expect", "e"]).and_then(Value::as_str).expect("e").to_owned()),
        };
        match (&actual, &expected) {
            (Ok(actual), Ok(expected)) if actual == expected => {}
            (Err(actual), Err(expected)) => worded_otherwise += usize::from(actual != expected),
            _ => wrong.push(format!("{text}\n   ours {actual:?}\n   Go's {expected:?}")),
        }
    }
    eprintln!("{name}: {worded_otherwise} errors are worded otherwise");
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn every_recorded_template() {
    run("sprig.json", Functions::Sprig, 400);
}

#[test]
fn pairs_of_arguments_of_sprig() {
    run("sprig-pairs.json.gz", Functions::Sprig, 25_000);
}

#[test]
fn methods() {
    run("sprig-methods.json.gz", Functions::Sprig, 1_300);
}

#[test]
fn pairs_of_arguments_of_the_language_itself() {
    run("gotemplate-pairs.json.gz", Functions::Builtin, 4_000);
}
