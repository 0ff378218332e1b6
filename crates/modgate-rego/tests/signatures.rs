//! The types that the checker knows of each built-in, beside those that OPA declares.
//!
//! `signatures.tsv` is what `tests/record/rego` printed: a name, and types without the names of
//! arguments.

#![allow(missing_docs, clippy::expect_used, clippy::panic, reason = "test code, helpers included")]

use std::collections::BTreeMap;

use modgate_rego::builtins::{self, Declaration};

/// `strings.split_n` is of a later OPA (REGO-13).
const LATER: &[&str] = &["strings.split_n"];

fn printed(declaration: &Declaration) -> String {
    let mut args: Vec<String> = declaration.args.iter().map(|arg| arg.ty.to_string()).collect();
    args.extend(declaration.variadic.as_ref().map(|ty| format!("{ty}...")));
    let result = declaration.result.as_ref().map_or("???".to_owned(), |it| it.ty.to_string());
    format!("({}) => {result}", args.join(", "))
}

#[test]
fn every_builtin_has_the_types_that_opa_declares() {
    let recorded: BTreeMap<&str, &str> =
        include_str!("signatures.tsv").lines().filter_map(|line| line.split_once('\t')).collect();
    assert!(recorded.len() > 200, "{} built-ins are recorded", recorded.len());
    let ours: BTreeMap<&str, String> =
        builtins::all().map(|builtin| (builtin.name, printed(&builtin.declaration()))).collect();
    let mut wrong = Vec::new();
    for (name, expected) in &recorded {
        match ours.get(name) {
            Some(got) if got == expected => {}
            got => wrong.push(format!("{name}: {expected}, but here {got:?}")),
        }
    }
    let known = |name: &&&str| !recorded.contains_key(**name) && !LATER.contains(*name);
    wrong.extend(ours.keys().filter(known).map(|name| format!("{name} is not OPA's")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
