//! The messages that users see, and the part of the expression that is underlined.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use modgate_select::{Expr, PatchSelect};
use modgate_value::{Budget, Value, diag::Span};

fn slice(text: &str, span: Span) -> &str {
    text.get(span.start..span.end).expect("a span of the text")
}

#[test]
fn parse_errors() {
    for (text, detail, underlined, help) in [
        ("$.arr[", "unexpected EOF while scanning extensions", "", None),
        ("$.a.5", "unexpected Float while scanning operator", ".5", None),
        ("$.a === 1", "unknown operator ===", "===", Some("equality is `==`")),
        (
            "$.a ==~ \"b\"",
            "unknown operator ==~",
            "==~",
            Some("a regular expression is searched with `=~`"),
        ),
        (
            r#""\.""#,
            "could not parse string: invalid syntax",
            r#""\.""#,
            Some("a backslash itself is written `\\\\`, or the text in backquotes"),
        ),
        (
            r#"$."a-b""#,
            r#"unexpected String while scanning JSON select expected Ident, "." or "*""#,
            r#""a-b""#,
            Some("a quoted key goes into brackets: `$[\"key\"]`"),
        ),
        ("#0", "JSONPath placeholder must only be used in an JSON object key", "#", None),
        ("1e400", r#"strconv.ParseFloat: parsing "1e400": value out of range"#, "1e400", None),
        ("", "unexpected EOF while scanning extensions", "", None),
    ] {
        let error = Expr::parse(text).expect_err(text);
        assert_eq!(error.detail, detail, "{text}");
        assert_eq!(slice(text, error.span), underlined, "{text}");
        assert_eq!(error.help, help, "{text}");
        assert!(error.message.starts_with(&format!("parsing error: {text}\t")), "{error}");
        assert!(error.message.ends_with(&format!(" {detail}")), "{error}");
    }
}

#[test]
fn patch_selects_are_bare_paths() {
    for (text, detail, underlined) in [
        ("", "unexpected EOF while scanning JSONPath key and value", ""),
        ("length($.a)", "unexpected Ident while scanning JSONPath key and value", "length"),
        ("($.a)", r#"unexpected "(" while scanning JSONPath key and value"#, "("),
        ("$.a == 1", r#"unexpected "=" while scanning operator"#, "="),
        ("$.a, \"b\": $.c", r#"unexpected "," while scanning operator"#, ","),
        ("$.a[", "unexpected EOF while scanning extensions", ""),
        ("not valid [", "unexpected Ident while scanning JSONPath key and value", "not"),
        ("$.a[#0]", "JSONPath placeholder must only be used in an JSON object key", "#"),
    ] {
        let error = PatchSelect::parse(text).expect_err(text);
        assert_eq!(error.detail, detail, "{text}");
        assert_eq!(slice(text, error.span), underlined, "{text}");
        assert!(error.help.is_some_and(|help| help.contains("bare path")), "{text}");
    }
    for text in ["$", "@", " $ . a // comment", "$..a[? @.b == 'long text']", "$.a(@ + 1)"] {
        PatchSelect::parse(text).expect(text);
    }
}

#[test]
fn evaluation_errors_point_at_the_part_that_failed() {
    let document = Value::from_json(br#"{"a": [1], "s": "x"}"#).expect("valid JSON");
    for (text, message, underlined) in [
        ("1 + $.a[7] * 2", "index 7 out of bounds", "7"),
        (
            "true && $.s.x",
            "unsupported value type string for select, expected map[string]interface{} or \
             []interface{}",
            "x",
        ),
        ("1 + $.s - 1 * 2", "invalid operation (string) - (float64)", "1 + $.s - 1 * 2"),
        (
            "$.a == 1 ? 1 : length(1)",
            "expected exactly one array, string or object argument",
            "length(1)",
        ),
        ("$.s =~ \"(\"", "error parsing regexp: missing closing ): `(`", "$.s =~ \"(\""),
        ("nope(1)", "could not call 'nope' type <nil>", "nope(1)"),
    ] {
        let expr = Expr::parse(text).expect(text);
        let error = expr.eval(&document, &Budget::unlimited()).expect_err(text);
        assert_eq!(error.to_string(), message, "{text}");
        assert_eq!(slice(text, error.span().expect("no exhaustion")), underlined, "{text}");
    }
}

#[test]
fn lints() {
    for (text, expected) in [
        (r#"$.kind != "Pod""#, vec![]),
        (r#"$.spec.x != "a""#, vec![("Q-03", r#"$.spec.x != "a""#)]),
        (r#"isDefined($.spec.x) && $.spec.x != "a""#, vec![]),
        ("$.a[? @.b != 1]", vec![("Q-03", "@.b != 1")]),
        ("$.a[?(@.b)]", vec![("Q-04", "(@.b)")]),
        ("$.a[? @]", vec![]),
        (r#"$.v == "1.20""#, vec![("Q-07", r#""1.20""#)]),
        (r#"$.v in ["1.20"]"#, vec![]),
        (r#"$.uid =~ "^1000660000$""#, vec![("Q-08", r#""^1000660000$""#)]),
        (r#"$.port =~ "^8080$""#, vec![]),
        (r#"$.a =~ "(""#, vec![("Q-14", r#""(""#)]),
        ("isdefined($.a)", vec![("Q-15", "isdefined($.a)")]),
        ("isDefined", vec![("Q-15", "isDefined")]),
        ("$.a[-1].b", vec![("Q-12", "-1")]),
        ("$.a[0, -2]", vec![("Q-12", "-2")]),
        ("$.a[-2:]", vec![]),
        ("$.a[length(@) - 1]", vec![]),
        ("!(nope($.a[? @.b]))", vec![("Q-15", "(nope($.a[? @.b]))"), ("Q-04", "@.b")]),
    ] {
        let lints = Expr::parse(text).expect(text).lints();
        let found: Vec<_> = lints.iter().map(|lint| (lint.id, slice(text, lint.span))).collect();
        assert_eq!(found, expected, "{text}: {lints:?}");
    }
    let lints = Expr::parse(r#"$.a[1].b[length(@) - 1] != "x""#).expect("a comparison").lints();
    assert_eq!(
        lints[0].help.as_deref(),
        Some("add `isDefined($.a[1].b[length(@) - 1]) && ` unless that is meant")
    );
    let lints = Expr::parse("$.a[-1]").expect("a path").lints();
    assert_eq!(lints[0].help.as_deref(), Some("to count from the end write `[length(@) - 1]`"));
    let lints = Expr::parse("isEmty($.a)").expect("a call").lints();
    assert_eq!(lints[0].help.as_deref(), Some("did you mean `isEmpty`?"));
    let lints = Expr::parse("contains($.a)").expect("a call").lints();
    assert_eq!(
        lints[0].help.as_deref(),
        Some("the functions are: date, isDefined, isEmpty, isNotEmpty, isUndefined, length")
    );
}

#[test]
fn requirements() {
    for (text, expected) in [
        (r#"$.kind == "Pod""#, "kind: Pod"),
        (r#""Pod" == $["kind"]"#, "kind: Pod"),
        (r#"$.kind in ["Pod", "Job"]"#, "kind: Job|Pod"),
        (r#"$.kind == "Pod" || $.kind == "Job""#, "kind: Job|Pod"),
        (
            r#"$.kind == "Pod" && $.metadata.namespace == "a" && $.x"#,
            "kind: Pod, metadata.namespace: a",
        ),
        (r#"$.kind == "Pod" && $.a == "x" || $.kind == "Job""#, "kind: Job|Pod"),
        // Numbers have many spellings, and KubeMod compares some texts as numbers.
        (r#"$.kind == "1""#, ""),
        (r#"$.kind in ["Pod", 1]"#, ""),
        (r#"$.kind == "Pod" || $.a"#, ""),
        (r#"!($.kind == "Pod")"#, ""),
        (r#"$.kind != "Pod""#, ""),
        ("$.kind", ""),
    ] {
        let requirements = Expr::parse(text).expect(text).requirements();
        let shown: Vec<String> = requirements
            .iter()
            .map(|requirement| {
                let texts: Vec<&str> = requirement.texts.iter().map(|text| text.as_str()).collect();
                format!("{}: {}", requirement.path.join("."), texts.join("|"))
            })
            .collect();
        assert_eq!(shown.join(", "), expected, "{text}");
    }
}

#[test]
fn plain_paths() {
    for (text, expected) in [
        ("$.kind", Some("kind")),
        (r#"$.metadata["namespace"]"#, Some("metadata namespace")),
        ("($.kind)", Some("kind")),
        ("$", Some("")),
        ("$.a[0]", None),
        ("$.a[*]", None),
        ("@.a", None),
        ("kind", None),
    ] {
        let expr = Expr::parse(text).expect(text);
        let path = expr.plain_path().map(|keys| keys.join(" "));
        assert_eq!(path.as_deref(), expected, "{text}");
    }
}

#[test]
fn captured_keys() {
    let document = Value::from_json(
        br#"{"l": {"007": 1, "a[b]": 2, "x\"y": 3, "": 4, "80": 5}, "c": [{"p": [7, 8]}, {"p": [9]}]}"#,
    )
    .expect("valid JSON");
    for (text, expected) in [
        // The document's own keys (Q-25), in order, and as `.SelectKeyParts` shows them (Q-26).
        ("$.l.*", r#"[Text("")]=4 [Text("007")]=1 [Int(80)]=5 [Text("a[b]")]=2 [Text("x\"y")]=3"#),
        ("$.c[*].p[? @ > 7]", "[Int(0), Int(1)]=8 [Int(1), Int(0)]=9"),
        ("$.c[0].p", "[]=[7 8]"),
        ("$..p", r#"[Text("c"), Int(0)]=[7 8] [Text("c"), Int(1)]=[9]"#),
        (
            r#"$..["p"]"#,
            r#"[Text("c"), Int(0), Text("p")]=[7 8] [Text("c"), Int(1), Text("p")]=[9]"#,
        ),
        // Equal keys collapse (Q-69).
        ("$.c[0, 0, 1].p[0]", "[Int(0)]=7 [Int(1)]=9"),
        ("$.c[::-1].p[0]", "[Int(1)]=9 [Int(0)]=7"),
        ("$.c[9][*]", ""),
        ("$.nope", ""),
        ("@.l", ""),
        ("@", "[]=<nil>"),
    ] {
        let select = PatchSelect::parse(text).expect(text);
        let items = select.items(&document, &Budget::unlimited()).expect(text);
        let shown: Vec<String> = items
            .iter()
            .map(|item| {
                let parts: Vec<_> = item.keys.iter().map(|key| key.part()).collect();
                format!("{parts:?}={}", item.value.text())
            })
            .collect();
        assert_eq!(shown.join(" "), expected, "{text}");
    }
}

#[test]
fn observations_name_each_part() {
    let document = Value::from_json(br#"{"a": 1, "b": "x"}"#).expect("valid JSON");
    let text = r#"$.a == 1 && ($.b == "y" || isDefined($.c))"#;
    let expr = Expr::parse(text).expect(text);
    let mut seen = Vec::new();
    let value = expr.trace(&document, &Budget::unlimited(), &mut |seen_now| {
        let shown = match &seen_now.result {
            Ok(value) => value.text().into_owned(),
            Err(error) => error.to_string(),
        };
        seen.push((seen_now.depth, slice(text, seen_now.span), shown));
    });
    assert_eq!(value.expect(text).text(), "false");
    let expected = [
        (2, "$.a", "1"),
        (1, "$.a == 1", "true"),
        (3, "$.b", "x"),
        (2, "$.b == \"y\"", "false"),
        (3, "$.c", ""),
        (2, "isDefined($.c)", "false"),
        (1, "($.b == \"y\" || isDefined($.c))", "false"),
        (0, text, "false"),
    ];
    let seen: Vec<_> =
        seen.iter().map(|(depth, part, shown)| (*depth, *part, shown.as_str())).collect();
    assert_eq!(seen, expected);
}
