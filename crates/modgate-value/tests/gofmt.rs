//! `Printf` against recordings of Go's `fmt`.
#![expect(clippy::expect_used, reason = "test helpers")]

use std::{borrow::Cow, time::Duration};

use modgate_value::{
    Budget, Exhausted, Limits, Value,
    budget::Frozen,
    gofmt::{Arg, sprint, sprintf, sprintln},
    yaml,
};

/// An argument as `gofmt.json` spells it.
fn arg(spec: &Value) -> Arg<'_> {
    let type_name = spec.get("type").and_then(Value::as_str).expect("type");
    let value = || spec.get("value").expect("value");
    let text = || value().as_str().expect("text");
    let list = || value().as_array().expect("list").iter();
    let members = || value().as_object().expect("map").iter();
    match type_name {
        "nil" => Arg::Nil,
        "bool" => Arg::Bool(value().as_bool().expect("bool")),
        "int" | "int8" | "int32" | "int64" => Arg::Int(text().parse().expect("int"), type_name),
        "uint" | "uint8" | "uint64" => Arg::Uint(text().parse().expect("uint"), type_name),
        "big" => Arg::BigInt(text().into()),
        "float64" => Arg::Float(text().parse().expect("float")),
        "string" => Arg::string(text()),
        "bytes" => Arg::Bytes(bytes(text()).into()),
        "json" => Arg::Value(value()),
        "[]interface {}" => Arg::list(list().map(arg).collect()),
        "[]string" => Arg::List {
            type_name: type_name.into(),
            elements: list().map(|text| Arg::string(text.as_str().expect("text"))).collect(),
        },
        "[]int" => Arg::List {
            type_name: type_name.into(),
            elements: list().map(|int| Arg::int(int.as_i64().expect("int"))).collect(),
        },
        "map[string]interface {}" => Arg::Map {
            type_name: type_name.into(),
            entries: members()
                .map(|(key, value)| (Arg::string(key.as_str()), arg(value)))
                .collect(),
        },
        "map[int]string" => Arg::Map {
            type_name: type_name.into(),
            entries: members()
                .map(|(key, value)| {
                    let key = Arg::int(key.parse().expect("int"));
                    (key, Arg::string(value.as_str().expect("text")))
                })
                .collect(),
        },
        other => unreachable!("type {other}"),
    }
}

fn bytes(base64: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits = base64.trim_end_matches('=').bytes().flat_map(|byte| {
        let digit = digit(byte);
        (0..6).rev().map(move |at| digit >> at & 1)
    });
    let bits: Vec<u8> = bits.collect();
    let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | bit);
    bits.chunks_exact(8).map(byte).collect()
}

#[test]
fn prints_as_go() {
    let corpus = Value::from_json(include_bytes!("gofmt.json")).expect("gofmt.json");
    let cases = corpus.get("cases").and_then(Value::as_array).expect("cases");
    assert_eq!(cases.len(), 600);
    let budget = Budget::unlimited();
    let mut failures = Vec::new();
    for case in cases {
        let format = case.get("format").and_then(Value::as_str).expect("format");
        let args: Vec<Arg<'_>> =
            case.get("args").and_then(Value::as_array).expect("args").iter().map(arg).collect();
        for (function, printed) in [
            ("sprintf", sprintf(format, &args, &budget)),
            ("sprint", sprint(&args, &budget)),
            ("sprintln", sprintln(&args, &budget)),
        ] {
            let printed = printed.expect("within the budget");
            let expected = case.get(function).and_then(Value::as_str).expect(function);
            if printed != expected {
                failures.push(format!("{function} {case}\n  found {printed:?}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

fn check(format: &str, args: &[Arg<'_>], expected: &str) {
    assert_eq!(sprintf(format, args, &Budget::unlimited()).as_deref(), Ok(expected), "{format}");
}

#[test]
fn values_that_print_themselves() {
    let set = || Arg::Stringer { type_name: "ast.Set".into(), text: "{1, \"a\"}".into() };
    check(
        "%v|%s|%10s|%-10s|",
        &[set(), set(), set(), set()],
        "{1, \"a\"}|{1, \"a\"}|  {1, \"a\"}|{1, \"a\"}  |",
    );
    check("%q %x", &[set(), set()], "\"{1, \\\"a\\\"}\" 7b312c202261227d");
    check("%.2v %T", &[set(), set()], "{1 ast.Set");
    check("%d", &[set()], "%!d(ast.Set={1, \"a\"})");
    check("%v", &[Arg::list(vec![set(), Arg::int(1)])], "[{1, \"a\"} 1]");
}

#[test]
fn big_integers_in_other_bases() {
    let big = |text: &'static str| Arg::BigInt(Cow::Borrowed(text));
    check(
        "%x %X",
        &[big("123456789012345678901234567890"), big("-255")],
        "18ee90ff6c373e0ee4e3f0ad2 -FF",
    );
    check("%#b %O %#o", &[big("5"), big("8"), big("8")], "0b101 0o10 010");
    check("%b", &[big("0")], "0");
}

#[test]
fn output_is_bounded() {
    let limits = Limits { bytes: 5_000, steps: 10_000, time: Duration::MAX };
    let exhausted = Err(Exhausted::Bytes { limit: 5_000 });
    let long = Value::from("x".repeat(6_000));
    for (format, args) in [
        ("%1000000d", vec![Arg::int(1)]),
        ("%01000000d", vec![Arg::int(1)]),
        ("%.1000000d", vec![Arg::int(1)]),
        ("%.1000000f", vec![Arg::Float(1.0)]),
        ("%.1000000e", vec![Arg::Float(1.0)]),
        ("%#.1000000g", vec![Arg::Float(1.0)]),
        ("%.1000000x", vec![Arg::Float(1.0)]),
        ("%1000000f", vec![Arg::Float(1.0)]),
        ("%-1000000s|", vec![Arg::string("x")]),
        ("%.1000000U", vec![Arg::int(1)]),
        ("%*d", vec![Arg::int(1_000_000), Arg::int(1)]),
        ("%0*x", vec![Arg::int(1_000_000), Arg::BigInt("1".into())]),
        ("%v", vec![Arg::Value(&long)]),
        ("%q", vec![Arg::Value(&long)]),
        ("%x", vec![Arg::Value(&long)]),
    ] {
        let budget = Budget::new(limits, &Frozen);
        assert_eq!(sprintf(format, &args, &budget), exhausted, "{format}");
    }
    // Steps bound the work of converting a long integer.
    let digits = "7".repeat(100_000);
    let steps = Limits { steps: 10_000, ..Limits::UNLIMITED };
    let printed = sprintf("%x", &[Arg::BigInt(digits.into())], &Budget::new(steps, &Frozen));
    assert_eq!(printed, Err(Exhausted::Steps { limit: 10_000 }));
}

#[test]
fn widths_beyond_a_million_are_errors() {
    check("%*d", &[Arg::int(1_000_001), Arg::int(1)], "%!(BADWIDTH)1");
    check("%*d", &[Arg::Int(i64::MIN, "int64"), Arg::int(1)], "%!(BADWIDTH)1");
    check("%99999999999d", &[Arg::int(1)], "%!(NOVERB)%!(EXTRA int=1)");
}

#[test]
fn values_decoded_from_yaml() {
    let value = yaml::value("{a: [1, 2.5, yes, ~], b: 1e6}").expect("yaml");
    check(
        "%v %s",
        &[Arg::from(&value), Arg::from(&value)],
        "map[a:[1 2.5 true <nil>] b:1e+06] map[a:[%!s(float64=1) %!s(float64=2.5) %!s(bool=true) <nil>] b:%!s(float64=1e+06)]",
    );
}
