//! The recordings of Sprig v3.2.2: `conformance/languages/sprig.json`.

#![allow(clippy::expect_used, reason = "a test")]

use std::{cell::Cell, time::Duration};

use modgate_template::{Env, Host, Refused, Template};
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

fn corpus() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/languages/sprig.json");
    Value::from_json(&std::fs::read(path).expect(path)).expect("corpus")
}

#[test]
fn every_recorded_template() {
    let corpus = corpus();
    let data = corpus.get("data").expect("data");
    let cases = corpus.get("cases").and_then(Value::as_array).expect("cases");
    let mut wrong = Vec::new();
    let mut worded_otherwise = 0;
    for case in cases {
        let text = case.get("template").and_then(Value::as_str).expect("template");
        let budget = Budget::unlimited();
        let host = Fixed(Cell::new(0x9E37_79B9_7F4A_7C15));
        let env = Env { budget: &budget, host: &host };
        let actual = match Template::parse("x", text) {
            Ok(template) => template
                .render_bytes(data, &env)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let expected = match case.path(&["expect", "v"]).and_then(Value::as_str) {
            Some(output) => Ok(output.to_owned()),
            None => Err(case.path(&["expect", "e"]).and_then(Value::as_str).expect("e").to_owned()),
        };
        match (&actual, &expected) {
            (Ok(actual), Ok(expected)) if actual == expected => {}
            (Err(actual), Err(expected)) => {
                if actual != expected {
                    worded_otherwise += 1;
                    eprintln!("error text: {text}\n   ours {actual}\n   Go's {expected}");
                }
            }
            _ => wrong.push(format!("{text}\n   ours {actual:?}\n   Go's {expected:?}")),
        }
    }
    eprintln!("{worded_otherwise} errors are worded otherwise");
    assert!(cases.len() >= 400, "{} cases", cases.len());
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
