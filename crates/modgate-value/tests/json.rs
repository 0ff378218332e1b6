//! JSON read back from what was printed.

use modgate_value::{Number, Str, Value, json, yaml};
use proptest::prelude::*;

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", Number::from_f64).prop_map(Value::from),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,9})?([eE][+-]?[0-9]{1,3})?"
            .prop_filter_map("a number", |text| Number::from_json_text(&text))
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::vec((any::<String>().prop_map(Str::from), inner), 0..6)
                .prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Documents whose members have few names, some of them twice.
fn documents() -> impl Strategy<Value = String> {
    let text =
        ["", "a", "\\n", "line\\nline", "\\u00e9\\ud83d", "\\\"\\\\", "0123456789012345678", "é😀"];
    let leaf = prop_oneof![
        prop::sample::select(vec![
            "null", "true", "false", "0", "-1.50", "1e400", "[]", "{}", " [ ] "
        ])
        .prop_map(str::to_owned),
        prop::sample::select(text.to_vec()).prop_map(|text| format!("\"{text}\"")),
    ];
    let names = ["a", "b", "\\u0061", "c\\n"];
    leaf.prop_recursive(6, 60, 5, move |inner| {
        let member = (prop::sample::select(names.to_vec()), inner.clone())
            .prop_map(|(name, value)| format!("\"{name}\": {value}"));
        prop_oneof![
            1 => proptest::collection::vec(inner, 0..4)
                .prop_map(|all| format!("[{}]", all.join(","))),
            3 => proptest::collection::vec(member, 0..5)
                .prop_map(|all| format!("{{{}}}", all.join(","))),
        ]
    })
}

/// The value with null at a path through objects.
fn without(value: &Value, path: &[&str]) -> Value {
    let Some((key, rest)) = path.split_first() else { return Value::Null };
    match value {
        Value::Object(members) if members.contains_key(key) => {
            let replace = |(name, value): &(Str, Value)| match name == key {
                true => (name.clone(), without(value, rest)),
                false => (name.clone(), value.clone()),
            };
            members.iter().map(replace).collect()
        }
        other => other.clone(),
    }
}

const LEFT_OUT: [&[&str]; 3] = [&["a", "a"], &["b", "a", "b"], &["c\n"]];

fn assert_leaves_out(text: &[u8], max_depth: usize) {
    let whole = Value::from_json_nested(text, max_depth);
    let has = |value: &Value, path: &[&str]| value.path(path).is_some();
    let expected = whole.map(|whole| json::Partial {
        value: LEFT_OUT.iter().fold(whole.clone(), |value, path| without(&value, path)),
        is_whole: !LEFT_OUT.iter().any(|path| has(&whole, path)),
    });
    let shown = String::from_utf8_lossy(text);
    let bounds = json::Bounds { max_depth, max_values: usize::MAX, left_out: &LEFT_OUT };
    let mut found = json::parse_within(text, &bounds);
    // Of members with one name the last counts, and what an earlier one left out is not missed.
    if let (Ok(found), Ok(expected)) = (&mut found, &expected)
        && expected.is_whole
    {
        found.is_whole |= found.value == expected.value;
    }
    assert_eq!(found, expected, "{shown}");
}

/// Commas, arrays, and five for each object, outside of texts.
fn values_of(document: &str) -> usize {
    let (mut count, mut in_text, mut is_escaped) = (0, false, false);
    for byte in document.bytes() {
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b',' | b'[') => count += 1,
            (false, b'{') => count += json::OBJECT_VALUES,
            _ => {}
        }
    }
    count
}

/// Values that are not built are checked as closely as others.
#[test]
fn what_is_left_out_is_checked() {
    for inside in [
        "1",
        "01",
        "-",
        "1.",
        "1e",
        "tru",
        "nulll",
        "",
        "\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"\\ud83d\\u00e9\"",
        "\"a\tb\"",
        "\"a\u{1}\"",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[1 2]",
        "[,]",
        "{",
        "{]",
        "{}",
        "{1:2}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{\"a\":1 \"b\":2}",
        "{\"\\q\":1}",
        "[[[[{\"a\":[]}]]]]",
        "[[[[[[]]]]]]",
        "\u{feff}",
        "[1]]",
        "é",
        "\"é\\u00e\"",
        "\"\\u00é\"",
    ] {
        for around in [
            "{\"a\":{\"a\":_}}",
            " {\"b\" : { \"a\":{\"b\" : _ , \"a\":1}}}",
            "{\"c\\n\":_,\"d\":[_]}",
            "{\"a\":_}",
        ] {
            let text = around.replace('_', inside);
            for max_depth in [1, 2, 3, 6, 512] {
                assert_leaves_out(text.as_bytes(), max_depth);
            }
            for end in 0..text.len() {
                assert_leaves_out(&text.as_bytes()[..end], 512);
            }
        }
    }
    let deep = |levels| format!("{{\"a\":{{\"a\":{}{}}}}}", "[".repeat(levels), "]".repeat(levels));
    [509, 510, 511, 100_000]
        .into_iter()
        .for_each(|levels| assert_leaves_out(deep(levels).as_bytes(), 512));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_json_reads_back(value in values()) {
        let compact = value.to_json();
        let read = Value::from_json(compact.as_bytes());
        prop_assert_eq!(read.as_ref(), Ok(&value));
        prop_assert_eq!(read.map(|read| read.to_json()), Ok(compact));
        let mut pretty = String::new();
        json::write_pretty(&value, &mut pretty, "  ", json::Escape::Html);
        prop_assert_eq!(Value::from_json(pretty.as_bytes()), Ok(value));
    }

    #[test]
    fn what_is_left_out_is_read_all_the_same(
        document in documents(),
        changes in proptest::collection::vec(
            (any::<prop::sample::Index>(), prop::sample::select(b"{}[]:,\"\\ntu01-e.\n\x01\xff\xc3 ".to_vec())),
            0..3,
        ),
        end in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut text = document.into_bytes();
        for (at, byte) in changes {
            let at = at.index(text.len());
            text[at] = byte;
        }
        if cut {
            text.truncate(end.index(text.len()));
        }
        assert_leaves_out(&text, 5);
        assert_leaves_out(&text, 512);
    }

    /// Whether they are built or not.
    #[test]
    fn values_are_bounded(document in documents(), left_out in any::<bool>()) {
        let left_out = if left_out { &LEFT_OUT[..] } else { &[] };
        let read = |max_values| {
            let bounds = json::Bounds { max_depth: 512, max_values, left_out };
            json::parse_within(document.as_bytes(), &bounds).map_err(|error| error.kind)
        };
        let count = values_of(&document);
        prop_assert_eq!(read(count), read(usize::MAX));
        prop_assert!(read(count).is_ok());
        for fewer in 0..count {
            prop_assert_eq!(read(fewer), Err(json::ParseErrorKind::TooMany(fewer)));
        }
    }

    /// Wherever its parts stand in the blocks that are looked at together.
    #[test]
    fn long_texts_are_read_alike(
        piece in "[ a-zé\"\\\\:,{}\\[\\]]{0,40}",
        other in documents(),
        times in 1_usize..3_000,
        odd in prop::sample::select(vec!["", "\u{1}", "\\", "\"", "\n", "\\u00"]),
        at in any::<prop::sample::Index>(),
    ) {
        let mut text = format!("{{\"a\":{{\"a\":{},\"c\":{other}}},\"b\":{}}}", Value::from(piece.repeat(times)).to_json(), Value::from("x".repeat(20_000)).to_json());
        let at = (0..=at.index(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.insert_str(at, odd);
        assert_leaves_out(text.as_bytes(), 512);
        let found = Value::from_json(text.as_bytes()).map_err(|error| (error.kind, error.offset + 1));
        let plain = Value::from_json(format!("\n{text}").as_bytes());
        prop_assert_eq!(found, plain.map_err(|error| (error.kind, error.offset)));
    }

    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(value) = Value::from_json(&bytes) {
            prop_assert_eq!(Value::from_json(value.to_json().as_bytes()), Ok(value));
        }
        let _ = yaml::load(&String::from_utf8_lossy(&bytes));
    }
}
