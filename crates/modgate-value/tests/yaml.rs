//! YAML against the recordings of `sigs.k8s.io/yaml` and KubeMod.

#![expect(clippy::expect_used, reason = "test helpers")]

use modgate_value::{MAX_DEPTH, Value, json, yaml};

fn corpus(path: &str) -> Vec<Value> {
    let path = format!("{}/../../conformance/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read(&path).expect(&path);
    let corpus = Value::from_json(&text).expect(&path);
    corpus.get("cases").and_then(Value::as_array).expect("cases").to_vec()
}

fn html(value: &Value) -> String {
    let mut out = String::new();
    json::write(value, &mut out, json::Escape::Html);
    out
}

#[test]
fn yaml_to_json() {
    let cases = corpus("languages/yaml.json");
    assert_eq!(cases.len(), 166);
    let mut failures = Vec::new();
    for case in &cases {
        let text = |key: &str| case.get(key).and_then(Value::as_str);
        let input = text("yaml").expect("yaml");
        for (result, value, error) in
            [(yaml::value(input), "v", "e"), (yaml::value_strict(input), "sv", "se")]
        {
            let same = match (&result, text(value), text(error)) {
                (Ok(found), Some(expected), _) => html(found) == expected,
                (Err(found), None, Some(expected)) => found.message == expected,
                _ => false,
            };
            if !same {
                failures.push(format!("{input:?} {value}: {result:?} {case}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

/// Texts of patch values. Those with template actions belong to the template engine's tests.
#[test]
fn patch_values() {
    let mut failures = Vec::new();
    let mut run = 0;
    for case in corpus("kubemod/probes/values.json") {
        let input = case.get("value").and_then(Value::as_str).expect("value");
        if input.contains("{{") {
            continue;
        }
        run += 1;
        let result = yaml::value(input);
        let same = match (&result, case.get("json"), case.get("error").and_then(Value::as_str)) {
            // The patch has passed its numbers through a 64-bit float.
            (Ok(found), Some(expected), _) => floats(found) == floats(expected),
            (Err(found), None, Some(expected)) => expected
                .strip_prefix("failed calculating patch for ModRule: ")
                // `sigs.k8s.io/yaml` has since written this in lower case.
                .is_some_and(|text| text.replace("Unsupported", "unsupported") == found.message),
            _ => false,
        };
        if !same {
            failures.push(format!("{input:?}: {result:?} {case}"));
        }
    }
    assert_eq!(run, 154);
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

fn floats(value: &Value) -> String {
    modgate_value::gofmt::text(value).into_owned()
}

#[test]
fn positions_of_values_and_keys() {
    let text = "# policies\nkind: Rule\nspec:\n  'match':\n  - select: $.kind\n    é: &x {a/b: 1}\n  base: *x\n---\n- 1\n-   two\n";
    let documents = yaml::load(text).expect("yaml");
    let [first, second] = documents.as_slice() else { panic!("two documents") };
    let show = |at: Option<yaml::Position>| at.map(|at| at.to_string()).unwrap_or_default();
    for (pointer, key, value) in [
        ("", "", "2:1"),
        ("/kind", "2:1", "2:7"),
        ("/spec/match", "4:3", "5:3"),
        ("/spec/match/0", "", "5:5"),
        ("/spec/match/0/select", "5:5", "5:13"),
        ("/spec/match/0/é/a~1b", "6:12", "6:17"),
        ("/spec/base", "7:3", "7:9"),
        ("/spec/base/a~1b", "6:12", "6:17"),
        ("/spec/nope", "", ""),
        ("/spec/match/1", "", ""),
    ] {
        let positions = &first.positions;
        assert_eq!(show(positions.key(pointer)), key, "key {pointer}");
        assert_eq!(show(positions.value(pointer)), value, "value {pointer}");
        if let Some(at) = positions.value(pointer) {
            let line = text.lines().nth(at.line - 1).expect("line");
            let rest: String = line.chars().skip(at.column - 1).collect();
            assert!(text[at.offset..].starts_with(&rest), "{pointer}");
        }
    }
    assert_eq!(first.positions.nearest("/spec/nope/deeper").to_string(), "4:3");
    assert_eq!(show(second.positions.value("/1")), "10:5");
}

#[test]
fn a_bad_document_does_not_hide_its_neighbours() {
    let text = "a: 1\n---\nb: [\n---\nc: 3\n---\nnull: x\n---\nd: 4\n";
    let read: Vec<String> = yaml::documents(text)
        .map(|document| match document {
            Ok(document) => document.value.to_json(),
            Err(error) => format!("{} at {}", error.message, error.position.expect("position")),
        })
        .collect();
    let unsupported = "unsupported map key of type: %!s(<nil>), key: <nil>, value: \"x\" at 7:1";
    let syntax = "yaml: line 3: did not find expected node content at 4:1";
    assert_eq!(read, [r#"{"a":1}"#, syntax, r#"{"c":3}"#, unsupported, r#"{"d":4}"#]);
}

#[test]
fn aliases_cannot_explode() {
    let mut laughs = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let list = vec![format!("*a{}", level - 1); 9].join(", ");
        laughs += &format!("a{level}: &a{level} [{list}]\n");
    }
    let error = yaml::value(&laughs).expect_err("billion laughs");
    assert_eq!(error.message, "yaml: document contains excessive aliasing");
    // Few nodes, much text.
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 90].join(", "));
    let error = yaml::value(&long).expect_err("long aliases");
    assert_eq!(error.message, "yaml: document contains excessive aliasing");
}

#[test]
fn nesting_is_bounded() {
    let flow = |levels| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert!(yaml::value(&flow(MAX_DEPTH)).is_ok());
    for deep in
        [flow(MAX_DEPTH + 1), "[".repeat(1 << 20), "- ".repeat(1 << 20), "? ".repeat(1 << 20)]
    {
        let error = yaml::value(&deep).expect_err("too deep");
        assert!(error.message.ends_with("exceeded max depth of 512"), "{error}");
    }
    // Aliases can make a shallow text deep.
    let mut tower = format!("- &a0 {}\n", flow(100));
    for level in 1..10 {
        let inner = format!("*a{}", level - 1);
        tower += &format!("- &a{level} {}{inner}{}\n", "[".repeat(100), "]".repeat(100));
    }
    let error = yaml::value(&tower).expect_err("tower");
    assert!(error.message.ends_with("exceeded max depth of 512"), "{error}");
}

/// A seeded walk through damaged documents: the loader answers every one, and never loses its way.
#[test]
fn damaged_documents_never_panic() {
    let seeds: Vec<String> = corpus("languages/yaml.json")
        .iter()
        .filter_map(|case| case.get("yaml").and_then(Value::as_str).map(str::to_owned))
        .collect();
    let pieces = [
        ":",
        ": ",
        "- ",
        "\n",
        "\n  ",
        "\t",
        " ",
        "#",
        " #",
        "[",
        "]",
        "{",
        "}",
        ",",
        "?",
        "? ",
        "&a ",
        "*a",
        "!",
        "!!str ",
        "!x,",
        "!<",
        "!%41 ",
        "!%e2%82 ",
        "!a!b ",
        "|",
        ">",
        "|-\n",
        "|+9\n",
        "\"",
        "'",
        "\\",
        "\\u00e9",
        "\\x",
        "%",
        "%YAML 1.1\n",
        "%TAG !a! x:\n",
        "---",
        "\n---\n",
        "\n...\n",
        "<<: ",
        "~",
        "0x",
        ".inf",
        "\u{2028}",
        "\u{85}",
        "\u{feff}",
        "\u{7}",
        "é",
        "!!binary ",
        "\r\n",
        "\0",
        "*b",
        "&b",
        "!!int ",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below).expect("small")).expect("small")
    };
    for _ in 0..20_000 {
        let mut text = seeds[random(seeds.len())].clone();
        for _ in 0..random(6) {
            let mut at = random(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            match random(4) {
                0 => text.truncate(at),
                1 if at < text.len() => drop(text.remove(at)),
                _ => text.insert_str(at, pieces[random(pieces.len())]),
            }
        }
        let all: Vec<_> = yaml::documents(&text).collect();
        let first = yaml::value(&text);
        match all.first() {
            None => assert_eq!(first, Ok(Value::Null), "{text:?}"),
            Some(Ok(document)) => assert_eq!(first.as_ref(), Ok(&document.value), "{text:?}"),
            Some(Err(error)) => assert_eq!(first.as_ref(), Err(error), "{text:?}"),
        }
        if let (Ok(lenient), Ok(strict)) = (first, yaml::value_strict(&text)) {
            assert_eq!(lenient, strict, "{text:?}");
        }
    }
}

#[test]
fn few_booleans() {
    let read = |text: &str| {
        let mut documents = yaml::documents_v3(text);
        let first = documents.next().expect("a document");
        first.map(|document| document.value.to_json()).map_err(|error| error.message)
    };
    assert_eq!(
        read("{a: yes, b: off, c: 010, d: y, e: True, f: 1_000, no: ~}"),
        Ok(r#"{"a":"yes","b":"off","c":8,"d":"y","e":true,"f":1000,"no":null}"#.to_owned())
    );
    assert!(read("{a: 1, a: 2}").is_err(), "a repeated key");
}

/// Documents that `kubectl` reads as JSON, with the places of their parts.
#[test]
fn manifests_in_json() {
    let read = |text: &str| -> Vec<String> {
        let print = |found: Result<yaml::Document, yaml::Error>| match found {
            Ok(document) => format!("{} at {}", document.value, document.positions.nearest("/a")),
            Err(error) => format!("error: {}", error.message),
        };
        yaml::manifest(text).map(print).collect()
    };
    for (text, expected) in [
        (r#"{"a": "\ud83d\ude00 b\/c"}"#, vec![r#"{"a":"😀 b/c"} at 1:7"#]),
        (
            "{\"a\": 1}\n{\"a\": 2} {\"a\":3}\n",
            vec![r#"{"a":1} at 1:7"#, r#"{"a":2} at 2:7"#, r#"{"a":3} at 2:15"#],
        ),
        (
            "\n {\"b\": {\"}\": \"{\"},\n\"a\": [1.50]}",
            vec![r#"{"a":[1.50],"b":{"}":"{"}} at 3:6"#],
        ),
        ("{\"a\": 1}\n---\na: yes\n", vec![r#"{"a":1} at 1:7"#, r#"{"a":true} at 3:4"#]),
        // YAML in braces is YAML.
        ("{a: yes}\n", vec![r#"{"a":true} at 1:5"#]),
        ("{a: 1}\n--- # two\n{\"a\": 2}", vec![r#"{"a":1} at 1:5"#, r#"{"a":2} at 3:7"#]),
        (
            "# JSON is told by its first byte\n{\"a\": \"\\/\"}",
            vec!["error: yaml: line 2: found unknown escape character"],
        ),
        ("a: 1\n---\na: 2\n", vec![r#"{"a":1} at 1:4"#, r#"{"a":2} at 3:4"#]),
        ("", vec![]),
        ("{\"a\": 1", vec!["error: yaml: line 1: did not find expected ',' or '}'"]),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

/// Each document is read once, however many are before it: counting lines from the beginning for each of these took
/// minutes.
#[test]
fn many_documents_have_their_places() {
    const MANY: usize = 20_000;
    for separator in ["", " ", "\n", "\n\n  ", "\r\n"] {
        let document = |index: usize| format!(r#"{{"é": "{index}", "a": 1}}"#);
        let text: String = (0..MANY).map(|index| document(index) + separator).collect();
        let found: Vec<yaml::Document> =
            yaml::manifest(&text).map(|it| it.expect("a document")).collect();
        assert_eq!(found.len(), MANY, "{separator:?}");
        for index in [0, 1, 9, 10, 11, 999, MANY - 1] {
            let place = found[index].positions.nearest("/a");
            let before = &text[..place.offset];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().expect("a line").chars().count() + 1;
            assert_eq!((place.line, place.column), (line, column), "{separator:?} {index}");
            assert!(text[place.offset..].starts_with("1}"), "{separator:?} {index}");
        }
    }
    // Of documents that cannot be read, too.
    const BROKEN: usize = 500;
    let text = "a: [\n---\n".repeat(BROKEN) + "b: 1\n";
    let found: Vec<_> = yaml::manifest(&text).collect();
    assert_eq!(found.len(), BROKEN + 1);
    let last = found.last().expect("one").as_ref().expect("a document");
    assert_eq!(last.positions.nearest("/b").line, 2 * BROKEN + 1);
    let before = found[BROKEN - 1].as_ref().expect_err("no YAML").position.expect("a place");
    assert!(before.line >= 2 * BROKEN - 1, "{before:?}");
}

/// The line breaks that only YAML 1.1 knows, as go-yaml v2.3.0 reads them.
#[test]
fn unicode_line_breaks() {
    for (text, expected) in [
        ("a\u{85}b", Ok(r#""a b""#)),
        ("a: b\u{85}c", Err("yaml: line 3: could not find expected ':'")),
        ("a: \u{85}b", Err("yaml: line 3: could not find expected ':'")),
        ("a: b\u{85} c", Ok(r#"{"a":"b c"}"#)),
        ("'a\u{85}b'", Ok(r#""a b""#)),
        ("x: |\n  a\u{85}  b\n", Ok(r#"{"x":"a\nb\n"}"#)),
        ("a: 1\u{85}b: 2", Ok(r#"{"a":1,"b":2}"#)),
        ("a\u{2028}b", Ok("\"a\u{2028}b\"")),
        ("x: y\u{2028}  z", Ok("{\"x\":\"y\u{2028}z\"}")),
        ("x: y\u{2029}z", Err("yaml: line 3: could not find expected ':'")),
        ("x: |\n  a\u{2028}  b\n", Ok("{\"x\":\"a\u{2028}b\\n\"}")),
        ("x: \"a\u{85} b\"", Ok(r#"{"x":"a b"}"#)),
        ("x: >\n  a\u{85}  b\n", Ok(r#"{"x":"a b\n"}"#)),
        ("- a\u{85}- b", Ok(r#"["a","b"]"#)),
        ("# c\u{85}a: 1", Ok(r#"{"a":1}"#)),
        ("a: 1 # c\u{2028}b: 2", Ok(r#"{"a":1,"b":2}"#)),
    ] {
        let found = yaml::value(text).map(|value| value.to_json()).map_err(|error| error.message);
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text:?}");
    }
}
