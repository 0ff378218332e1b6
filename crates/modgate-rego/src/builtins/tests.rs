//! The common part of all groups.

use super::*;

#[test]
fn signatures_print_back() {
    for builtin in all() {
        assert_eq!(builtin.declaration().to_string(), builtin.signature, "{}", builtin.name);
    }
}

#[test]
fn only_these_do_more_than_give_a_result() {
    let impure: Vec<&str> = all().filter(|it| !it.is_pure()).map(|it| it.name).collect();
    let expected = [
        "http.send",
        "internal.print",
        "io.jwt.decode_verify",
        "io.jwt.encode_sign",
        "io.jwt.encode_sign_raw",
        "net.lookup_ip_addr",
        "opa.runtime",
        "print",
        "rand.intn",
        "time.now_ns",
        "trace",
        "uuid.rfc4122",
    ];
    assert_eq!(impure, expected);
}
