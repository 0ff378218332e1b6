//! The common part of all groups.

use super::*;

#[test]
fn signatures_print_back() {
    for builtin in all() {
        assert_eq!(builtin.declaration().to_string(), builtin.signature, "{}", builtin.name);
    }
}
