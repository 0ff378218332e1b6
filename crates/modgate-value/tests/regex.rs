//! Go regular expressions against recordings of Go's `regexp`.

use std::{ops::Range, time::Duration};

use modgate_value::{
    Budget, Exhausted, Limits, Value,
    budget::Frozen,
    regex::{Allowance, DEFAULT_SIZE_LIMIT, GoRegex, Uncompiled, quote_meta},
};
use proptest::prelude::*;

fn found(regex: &GoRegex, text: &str) -> Option<Range<usize>> {
    // An unlimited budget is never exhausted.
    regex.find(text, &Budget::unlimited()).ok().flatten()
}

#[test]
fn matches_as_go() {
    let path = format!("{}/../../conformance/languages/regexp.json", env!("CARGO_MANIFEST_DIR"));
    let corpus = Value::from_json(&std::fs::read(&path).expect(&path)).expect(&path);
    let strings = corpus.get("strings").and_then(Value::as_array).expect("strings");
    let patterns = corpus.get("patterns").and_then(Value::as_object).expect("patterns");
    assert_eq!((patterns.len(), strings.len()), (169, 42));
    let mut failures = Vec::new();
    for (pattern, expected) in patterns {
        let regex = GoRegex::new(pattern);
        let (regex, expected) = match (&regex, expected.as_array()) {
            (Err(_), None) => continue,
            (Ok(regex), Some(expected)) => (regex, expected),
            _ => {
                failures.push(format!("{pattern:?}: {regex:?}, but Go: {expected}"));
                continue;
            }
        };
        for (text, expected) in strings.iter().zip(expected) {
            let text = text.as_str().expect("text");
            let found = match found(regex, text) {
                Some(range) => format!("[{},{}]", range.start, range.end),
                None => "null".to_owned(),
            };
            if found != expected.to_json() || regex.is_match(text) == expected.is_null() {
                failures.push(format!("{pattern:?} on {text:?}: {found}, but Go: {expected}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}\n{} failures", failures.join("\n"), failures.len());
}

#[test]
fn errors_as_go_words_them() {
    for (pattern, message) in [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("x[]a", "missing closing ]: `[]a`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:word:][:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        (r"\p{Foo}b", r"invalid character class range: `\p{Foo}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}+?", "invalid nested repetition operator: `{2}+?`"),
        ("a|*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        ("(?i)(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n-a>x)", "invalid named capture: `(?P<n-a>`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        (r"a\", "trailing backslash at end of expression: ``"),
    ] {
        let error = GoRegex::new(pattern).expect_err(pattern);
        assert_eq!(error.to_string(), format!("error parsing regexp: {message}"), "{pattern}");
    }
}

#[test]
fn what_is_too_large_or_deep_is_refused() {
    let nested = |levels| format!("{}a{}", "(".repeat(levels), ")".repeat(levels));
    assert!(GoRegex::new(&nested(999)).expect("Go's bound").is_match("a"));
    for (pattern, reason) in [
        (nested(1000), "expression nests too deeply"),
        (nested(100_000), "expression nests too deeply"),
        ("(?:".repeat(2_000), "missing closing )"),
        (r"\pL{1000}".to_owned(), "expression too large"),
        ("a".repeat(1 << 20), "expression too large"),
        // Each of these classes takes milliseconds, and hundreds of ranges, while the pattern is parsed.
        (r"(?i)[\x{100}-\x{10ffff}]|".repeat(200), "expression too large"),
        (r"(?i)\W|\pL|[[:^alpha:]]|".repeat(200), "expression too large"),
        (r"\pL|".repeat(2_000), "expression too large"),
    ] {
        assert_eq!(GoRegex::new(&pattern).expect_err("refused").reason, reason);
    }
    assert!(GoRegex::with_size_limit("[a-z]{100}", 1 << 10).is_err());
}

/// The patterns of one policy share an allowance, and parsing each of these counts as 140 KB of 16 MiB.
#[test]
fn parsing_counts_for_the_allowance_of_a_policy() {
    let allowance = Allowance::default();
    let compiles =
        |index: usize| allowance.compile(&format!(r"(?i)[\x{{100}}-\x{{10ffff}}]{index}"));
    let refused = (0..1_000).position(|index| compiles(index).is_err());
    assert!(refused.is_some_and(|count| (50..200).contains(&count)), "{refused:?}");
}

#[test]
fn submatches_and_repeated_groups() {
    let regex = GoRegex::new(r"(?P<key>\w+)=(\w+)?(z){0}").expect("regex");
    let captures = regex.captures("x a= b", &Budget::unlimited()).expect("time").expect("match");
    assert_eq!(captures.groups(), [Some(2..4), Some(2..3), None, None]);
    assert_eq!(regex.group_names(), ["", "key", "", ""]);
    assert_eq!(regex.captures_iter("a=1 b=2", &Budget::unlimited()).count(), 2);
}

#[test]
fn replaces_as_go() {
    for (pattern, text, template, expected) in [
        ("a*", "baac", "X", "XbXcX"),
        ("(a)(b)?", "ab a", "<$2$1>", "<ba> <a>"),
        ("a", "a", "$1x|${1}x|$$|$|${|$é", "|x|$|$|${|"),
        ("(?P<n>a)", "a", "${n}$n $0", "aa a"),
        ("(?P<n>a)|(?P<n>b)", "ab", "[$n]", "[a][b]"),
        ("(a)", "a", "$01 $10", " "),
        ("é*", "aéb", "-", "-a-b-"),
    ] {
        let regex = GoRegex::new(pattern).expect(pattern);
        assert_eq!(regex.replace_all(text, template), expected, "{pattern} {template}");
    }
    assert_eq!(GoRegex::new("a").expect("a").replace_all_literal("a", "$0"), "$0");
    let limits = Limits { bytes: 1_000, ..Limits::UNLIMITED };
    let budget = Budget::new(limits, &Frozen);
    let replaced =
        GoRegex::new("").expect("empty").replace_all_within(&"a".repeat(900), "bb", &budget);
    assert_eq!(replaced, Err(Exhausted::Bytes { limit: 1_000 }));
    let budget = Budget::new(limits, &Frozen);
    let template = "$0".repeat(900);
    assert!(
        GoRegex::new("a+")
            .expect("a")
            .replace_all_within(&"a".repeat(900), &template, &budget)
            .is_err()
    );
}

#[test]
fn splits_as_go() {
    let split = |pattern: &str, text: &'static str, limit| {
        let regex = GoRegex::new(pattern).expect(pattern);
        regex.split(text, limit, &Budget::unlimited()).expect("unlimited")
    };
    assert_eq!(split(",", "a,b,,c", None), ["a", "b", "", "c"]);
    assert_eq!(split(",", "a,b,c", Some(2)), ["a", "b,c"]);
    assert_eq!(split(",", "a,b", Some(0)), [""; 0]);
    assert_eq!(split("", "aé", None), ["a", "é"]);
    assert_eq!(split(",", "", None), [""]);
    assert_eq!(split("", "", None), [""; 0]);
    assert_eq!(split("a*", "baac", None), ["b", "c"]);
    assert_eq!(split("a", "a", None), ["", ""]);
}

#[test]
fn quoted_text_matches_itself() {
    let text = r"a.b*c[d](e){f}^$|\+?-é";
    assert_eq!(quote_meta(text), r"a\.b\*c\[d\]\(e\)\{f\}\^\$\|\\\+\?-é");
    let regex = GoRegex::new(&quote_meta(text)).expect("quoted");
    assert_eq!(found(&regex, text), Some(0..text.len()));
}

/// Pieces that patterns are made of, sound and otherwise.
const PIECES: [&str; 62] = [
    "a",
    "b",
    "k",
    "é",
    "1",
    " ",
    ".",
    "^",
    "$",
    "*",
    "+",
    "?",
    "{2}",
    "{2,}",
    "{,3}",
    "{0}",
    "{1001}",
    "|",
    "(",
    ")",
    "(?:",
    "(?i)",
    "(?U)",
    "(?s-m:",
    "(?P<n>",
    "(?<m>",
    "(?=",
    "[",
    "]",
    "[^",
    "[]",
    "[a-z]",
    "[\\d-]",
    "[[:alpha:]]",
    "[[:^digit:]_]",
    "[a&&b]",
    "[a--b]",
    "[[a]",
    "~~",
    "\\d",
    "\\W",
    "\\s",
    "\\b",
    "\\B",
    "\\A",
    "\\z",
    "\\pL",
    "\\p{Greek}",
    "\\P{^Cs}",
    "\\p{Cs}",
    "\\Qa.b\\E",
    "\\Q",
    "\\x41",
    "\\x{10FFFF}",
    "\\x{D800}",
    "[\\x{D7FF}-\\x{E000}]",
    "\\07",
    "\\.",
    "\\<",
    "\\",
    "{",
    "}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The `regex` crate accepts every pattern that the translation accepts: the only error is its
    /// size.
    #[test]
    fn translations_compile(picks in proptest::collection::vec(0..PIECES.len(), 0..12)) {
        let pattern: String = picks.iter().map(|pick| PIECES[*pick]).collect();
        match GoRegex::new(&pattern) {
            Err(error) => prop_assert!(error.reason != "expression too large", "{pattern:?}"),
            Ok(regex) => {
                for text in ["", "ab\nk1é", "K \u{17f}", "a.b{,3}"] {
                    prop_assert_eq!(regex.is_match(text), found(&regex, text).is_some());
                    let rejoined = regex.replace_all(text, "$0");
                    prop_assert_eq!(&rejoined, text, "{:?}", pattern);
                }
            }
        }
    }
}

/// A search keeps a place for each group in each state: what would be gigabytes is refused.
#[test]
fn many_groups_are_bounded() {
    let groups = |count: usize| GoRegex::new(&"(x)?".repeat(count));
    for count in [1, 50, 500] {
        let regex = groups(count).expect("few groups");
        assert!(regex.is_match(&"x".repeat(30_000)));
        assert_eq!(
            regex
                .captures(&"x".repeat(count), &Budget::unlimited())
                .expect("time")
                .and_then(|all| all.get(0)),
            Some(0..count)
        );
    }
    for count in [15_000, 25_000, 60_000] {
        assert_eq!(groups(count).expect_err("too many").reason, "expression too large");
    }
}

/// Compiling looks at no clock, so a pattern is not begun where too little time is left for it.
#[test]
fn patterns_that_compile_for_longer_than_there_is_time_are_not_begun() {
    let compile = |pattern: &str, millis| {
        let limits = Limits { time: Duration::from_millis(millis), ..Limits::UNLIMITED };
        GoRegex::within(pattern, DEFAULT_SIZE_LIMIT, &Budget::new(limits, &Frozen))
    };
    let (digits, classes) = (r"\d".repeat(30_000), "[a-zé]".repeat(8_000));
    for pattern in [r"\pL{100}", &digits, &classes, r"([\pL\pN]{10}){10}"] {
        let shown: String = pattern.chars().take(20).collect();
        let begun = compile(pattern, 2);
        let is_refused = matches!(begun, Err(Uncompiled::Exhausted(Exhausted::Time { .. })));
        assert!(is_refused, "{shown}: {:?}", begun.err());
        assert!(compile(pattern, 2_000).is_ok(), "{shown}");
    }
    for pattern in
        [r"^[a-z0-9.-]+(/[a-z]+)*:[0-9.]+$", r"^\pL+$", "a{1000}", r"(\d{1,3}\.){3}\d{1,3}"]
    {
        assert!(compile(pattern, 2).is_ok(), "{pattern}");
    }
}
