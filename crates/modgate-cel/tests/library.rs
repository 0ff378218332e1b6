//! The CEL of the public library: every expression compiles.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

use modgate_cel_corpora::library::policies;

#[test]
fn every_expression_compiles() {
    let policies = policies().expect("the library");
    if policies.is_empty() {
        eprintln!("skipped: the library is not here");
        return;
    }
    let mut expressions = 0;
    for policy in &policies {
        match policy.compile() {
            Ok(compiled) => expressions += compiled.len(),
            Err((text, error)) => panic!("{}: {text}: {error}", policy.name),
        }
    }
    assert_eq!(policies.len(), 16, "templates with CEL");
    assert!(expressions >= 20, "{expressions} expressions");
}
