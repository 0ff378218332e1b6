//! Makes a differing program small: leaves out what the difference does not need.

use serde_json::Value;

/// How many programs one shrinking may try.
const TRIES: usize = 600;

/// The smallest program found that `differs` still accepts.
pub(crate) fn shrink(program: Vec<Value>, mut differs: impl FnMut(&[Value]) -> bool) -> Vec<Value> {
    let mut best = program;
    let mut tries = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&Value::Array(best.clone())) {
            tries += 1;
            if tries > TRIES {
                return best;
            }
            if let Value::Array(documents) = candidate
                && differs(&documents)
            {
                smaller = Some(documents);
                break;
            }
        }
        match smaller {
            Some(documents) => best = documents,
            None => return best,
        }
    }
}

/// Every way to leave one thing out, the largest first.
fn candidates(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => {
            let mut all = Vec::new();
            for at in 0..items.len() {
                let mut fewer = items.clone();
                fewer.remove(at);
                all.push(Value::Array(fewer));
            }
            for (at, item) in items.iter().enumerate() {
                for changed in candidates(item) {
                    let mut other = items.clone();
                    other[at] = changed;
                    all.push(Value::Array(other));
                }
            }
            all
        }
        Value::Object(members) => {
            let mut all = Vec::new();
            for name in members.keys() {
                let mut fewer = members.clone();
                fewer.remove(name);
                all.push(Value::Object(fewer));
            }
            for (name, member) in members {
                for changed in candidates(member) {
                    let mut other = members.clone();
                    other.insert(name.clone(), changed);
                    all.push(Value::Object(other));
                }
            }
            all
        }
        Value::String(text) if text.contains('\n') => {
            let lines: Vec<&str> = text.lines().collect();
            let without = |from: usize, to: usize| {
                let kept: Vec<&str> = lines[..from].iter().chain(&lines[to..]).copied().collect();
                Value::String(kept.join("\n") + "\n")
            };
            let mut all = Vec::new();
            // Whole rules, then single lines.
            let mut from = 0;
            for (at, line) in lines.iter().enumerate() {
                if *line == "}" {
                    all.push(without(from, at + 1));
                    from = at + 1;
                }
            }
            all.extend((0..lines.len()).map(|at| without(at, at + 1)));
            all
        }
        _ => Vec::new(),
    }
}
