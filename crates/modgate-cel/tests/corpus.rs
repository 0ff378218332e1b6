//! The recorded expressions of `conformance/languages/cel.json`, as far as the crate goes: what
//! cel-go rejects at compile time must be rejected with the same text, all else accepted.

use std::{collections::BTreeMap, fs, path::Path};

use modgate_cel::{Env, Type, check};
use modgate_value::Value;

/// How many cases of each kind still differ. Only ever lowered; a smaller count fails the run too,
/// so that this table is always the truth.
const DIFFERING: [(&str, usize); 2] = [("accepted", 0), ("rejected", 3)];

#[test]
fn compile_verdicts() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/languages/cel.json");
    let file = Value::from_json(&fs::read(path).expect("corpus")).expect("JSON");
    let cases = file.get("cases").and_then(Value::as_array).expect("cases");
    assert_eq!(cases.len(), 345);
    let env = Env::new().with("object", Type::Dyn);
    let mut counts: BTreeMap<&str, usize> = [("accepted", 0), ("rejected", 0)].into();
    for case in cases {
        let text = case.get("expr").and_then(Value::as_str).expect("expr");
        let error = case.path(&["expect", "e"]).and_then(Value::as_str);
        let wanted = error.and_then(|error| error.strip_prefix("COMPILE "));
        let found = check(text, &env).err().map(|errors| errors.to_string());
        if found.as_deref() != wanted {
            *counts.entry(if wanted.is_some() { "rejected" } else { "accepted" }).or_default() += 1;
            println!("{text}\n  found {found:?}\n  wanted {wanted:?}");
        }
    }
    assert_eq!(counts, DIFFERING.into());
}
