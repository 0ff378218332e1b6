//! Conflicts in front of statements that parameters make false: the program as it was written is the measure of the
//! specialized one, and OPA is that of both.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code, helpers included"
)]

use modgate_rego::{
    Capabilities, Code, GroupId, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module, specialize, specialize_for,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Limits, Value as Json, budget::Frozen};

const RULES: &str = r#"package t
f(x) := 1 if x > 0
f(x) := 2 if x < 5
agreed(x) := 1 if x > 0
agreed(x) := 1 if { x < 5; f(x) > 5 }
apart(x) := 1 if is_number(x)
apart(x) := 2 if { not is_number(x); is_string(x) }
apart(x) := 3 if { not is_number(x); not is_string(x) }
table("a") := 1
table("b") := 2
c := 1 if input.review.a > 0
c := 2 if input.review.a < 5
o[k] := v if { some v in input.review.list; k := "same" }
s contains x if { some x in input.review.list; f(x) }
g(x, y) if { f(x); y == "a" }
g(x, y) if { x > 100 }
h(x, "a") if f(x)
pick(x, k) := v if v := x.s[k]
pick(x, k) := v if { not has(x, k); v := input.review.o.t[k] }
has(x, k) if x.s[k]
has(x, k) if x.s[k] == false
half(x, k) := v if v := x.s[k]
half(x, _) := 7 if not x.s.k
is_mode(m) if input.parameters.mode == m
early(x, m) if { x > 0; m == m }
early(x, m) if f(x)
later(x, m) if x > 0
later(x, m) := false if { x > 100; m == "c" }
later(x, m) if f(x)
other(x, m) := 1 if { x > 0; m == "c" }
other(x, m) := 2 if { f(x); m != "b" }
"#;

const INPUT: &str = r#"{"review": {"a": 3, "list": [1, 3], "o": {"s": {"k": false}, "t": {"k": 1, "l": 2}}},
    "parameters": {"mode": "b", "on": false, "list": ["x", "y"], "empty": []}}"#;

/// The statements of a body, and whether it ends in a conflict: what OPA 1.17.1 says.
const BODIES: &[(&str, bool)] = &[
    (r#"f(input.review.a); input.parameters.mode != "b""#, true),
    ("f(input.review.a); input.parameters.on", true),
    ("f(input.review.a); not input.parameters.mode", true),
    ("f(input.review.a); some x in input.parameters.empty", true),
    ("f(input.review.a); count(input.parameters.empty) > 0", true),
    (r#"f(input.review.a); is_mode("a")"#, true),
    ("c == 1; count(input.parameters.empty) > 0", true),
    (r#"f(input.review.a); startswith(input.parameters.mode, "zz")"#, true),
    (r#"x := input.review.list[_]; f(x); input.parameters.mode != "b""#, true),
    (r#"f(input.review.a); input.parameters.mode = {"a": 1}"#, true),
    (r#"f(input.review.a); object.get(input.parameters, "mode", "") == "a""#, true),
    (r#"f(input.review.a); object.get(input, ["parameters", "mode"], "") == "a""#, true),
    ("f(input.review.a); false", true),
    ("f(input.review.a); input.parameters == {}", true),
    ("f(input.review.a); input.parameters.mode == input.parameters.on", true),
    (r#"p := input.parameters; f(input.review.a); p.mode == "a""#, true),
    (r#"{k: v | v := input.review.list[_]; k := "same"}; input.parameters.mode != "b""#, true),
    (r#"o.same == 1; input.parameters.mode != "b""#, true),
    (r#"count(s) > 0; input.parameters.mode != "b""#, true),
    ("f(input.review.a); x := input.parameters.none[_]", true),
    ("f(input.review.a); input.parameters.none[_]", true),
    (r#"f(input.review.a); input.parameters.list[_].y == "x""#, true),
    (r#"f(input.review.a); every y in input.parameters.list { y == "z" }"#, true),
    (r#"not f(input.review.a); input.parameters.mode != "b""#, true),
    (r#"x := [y | y := input.review.list[_]; f(y)]; count(input.parameters.empty) > 0"#, true),
    ("other(input.review.a, input.parameters.mode)", true),
    (r#"half(input.review.o, "k") == 7; input.parameters.on"#, true),
    ("f(input.review.a); [[x], _] = input.parameters.none; x == 1", true),
    (r#"f(input.review.a); {"k": x} = input.parameters.mode; x == 1"#, true),
    (r#"f(input.review.a); input.parameters.list[_] == ["x"]"#, true),
    (r#"m := ["x"]; f(input.review.a); input.parameters.list[_] == m"#, true),
    ("f(input.review.a); input.review.none == input.parameters.mode", true),
    ("f(input.review.a); input.parameters.mode = input.parameters.none", true),
    ("f(input.review.a); input.parameters.list[_] == input.parameters.none", true),
    ("f(input.review.a); input.parameters.none == input.review.list[0]", true),
    ("y := input.review; f(input.review.a); y.a == input.parameters.none", true),
    // What the index of rules knows comes before everything else.
    (r#"f(input.review.a); input.parameters.mode == "a""#, false),
    ("f(input.review.a); input.parameters.none", false),
    ("f(input.review.a); input.parameters.none.x.y", false),
    (r#"f(input.review.a); m := input.parameters.mode; m == "a""#, false),
    ("f(input.review.a); [x, y] := input.parameters.none; x == y", false),
    ("f(input.review.a); [x, _] = input.parameters.mode", false),
    (r#"f(input.review.a); [_, "x"] = input.parameters.list"#, false),
    ("f(input.review.a); p := input.parameters.empty; [x] = p", false),
    (r#"m := "a"; f(input.review.a); input.parameters.mode == m"#, false),
    (r#"m := "a"; f(input.review.a); input.parameters.list[_] == m"#, false),
    ("f(input.review.a); m := input.parameters.mode; m == input.parameters.none", false),
    ("f(input.review.a); input.parameters.none == apart(input.review.a)", false),
    ("f(input.review.a); input.parameters.none > input.parameters.mode", false),
    ("f(input.review.a); [input.parameters.none] == [1]", false),
    (r#"f(input.review.a); m := input.parameters.mode; "a" == m"#, false),
    (r#"f(input.review.a); m := input.parameters.none; m == "a""#, false),
    (r#"f(input.review.a); input.parameters.list[_] == "a""#, false),
    ("f(input.review.a); input.parameters.list[_] == 3", false),
    (r#"c == 1; input.parameters.mode == "a""#, false),
    (r#"x := f(input.review.a); input.parameters.mode == "a"; x > 0"#, false),
    ("g(input.review.a, input.parameters.mode)", false),
    ("h(input.review.a, input.parameters.mode)", false),
    (r#"startswith(input.parameters.mode, "zz"); f(input.review.a)"#, false),
    (r#"f(input.review.a); "a" = input.parameters.mode"#, false),
    (r#"f(input.review.a); input.parameters.mode = ["a", 1]"#, false),
    ("f(input.review.a); input.parameters.on == true", false),
    (r#"f(input.review.a); input.parameters["mode"] == "a""#, false),
    (r#"f(input.review.a); input.parameters.list[0] == "a""#, false),
    ("f(input.review.a); count(input.parameters.none) > 0", false),
    ("f(input.review.a); not input.parameters.none > 0", false),
    (r#"f(input.review.a); "c" in input.parameters.list"#, false),
    ("f(input.review.a); every y in input.parameters.none { y == 1 }", false),
    // Nothing raises a conflict.
    (r#"f(7); input.parameters.mode != "b""#, false),
    ("apart(input.review.a) == 1; input.parameters.on", false),
    ("table(input.parameters.mode) == 1; input.parameters.on", false),
    ("agreed(input.review.a) == 1; input.parameters.on", false),
    (r#"pick(input.review.o, "k") == 1; input.parameters.on"#, false),
    (r#"pick(input.review.o, "l") == 1; input.parameters.on"#, false),
    (r#"half(input.review.o, "l") == 7; input.parameters.on"#, false),
];

struct Policy {
    written: Program,
    special: Program,
    alone: Program,
    violation: GroupId,
}

impl Policy {
    /// `None` if it is not safe, or the type checker refuses it.
    fn of(text: &str, parameters: &Json) -> Option<Self> {
        let module = parse_module("policy", text, RegoVersion::V1);
        let module = module.unwrap_or_else(|errors| panic!("{text}: {}", errors[0]));
        let written = match Program::compile(&[module], &Capabilities::default()) {
            Ok(written) => written,
            Err(errors) if matches!(errors[0].code, Code::Type | Code::UnsafeVar) => return None,
            Err(errors) => panic!("{text}: {}", errors[0]),
        };
        let violation = written.group(&["t", "violation"]).expect("a rule");
        let budget = Budget::unlimited();
        let special = specialize(&written, "parameters", parameters, &budget);
        let alone = specialize_for(violation, &written, ("parameters", parameters), &budget);
        Some(Self { written, special, alone, violation })
    }

    /// What each form of it gives: a text, or the code of an error.
    fn outcomes(&self, input: &Json) -> [(Result<String, Code>, u64); 3] {
        [&self.written, &self.special, &self.alone].map(|program| {
            let (arena, budget) = (Arena::new(), Budget::new(Limits::UNLIMITED, &Frozen));
            let context = eval::Context {
                input: Some(Value::json(input)),
                data: None,
                heap: Heap::new(&arena, &budget),
                host: &Isolated,
                strict_builtin_errors: false,
                tracer: None,
            };
            let found = eval::document(program, self.violation, context);
            let found = found.map(|value| match value {
                Some(value) => value.to_text(&Budget::unlimited()).expect("a text"),
                None => "undefined".to_owned(),
            });
            (found.map_err(|error| error.code), budget.steps_spent())
        })
    }
}

#[test]
fn conflicts_are_met_where_opa_meets_them() {
    let input = Json::from_json(INPUT.as_bytes()).expect("JSON");
    let parameters = input.get("parameters").expect("parameters");
    for (body, conflict) in BODIES {
        for head in [r#"violation contains "found""#, "violation"] {
            let policy = Policy::of(&format!("{RULES}{head} if {{ {body} }}\n"), parameters);
            for (found, _) in policy.expect("a policy").outcomes(&input) {
                let is_conflict = matches!(found, Err(Code::Conflict));
                assert_eq!(is_conflict, *conflict, "{head} if {{ {body} }}: {found:?}");
            }
        }
    }
}

/// Rules that cannot hold and cannot raise a conflict are gone.
#[test]
fn what_raises_no_conflict_is_not_kept() {
    let input = Json::from_json(INPUT.as_bytes()).expect("JSON");
    let parameters = input.get("parameters").expect("parameters");
    for body in [
        "apart(input.review.a) == 1",
        "table(input.review.a) == 1",
        r#"pick(input.review.o, "k") == 1"#,
        "x := {k: v | some k, v in input.review}",
        "x := {k: true | k := input.review.list[_]}",
        "x := [y | y := input.review.list[_]; apart(y) > 5]",
        "is_mode(input.review.a)",
    ] {
        let text = format!("{RULES}violation contains 1 if {{ {body}; input.parameters.on }}\n");
        let policy = Policy::of(&text, parameters).expect("a policy");
        let [_, special, alone] = policy.outcomes(&input);
        assert_eq!((special.1, alone.1), (0, 0), "{body}");
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items[usize::try_from(self.0 >> 33).expect("a number") % items.len()]
    }

    fn below(&mut self, bound: usize) -> usize {
        let all: Vec<usize> = (0..bound).collect();
        self.of(&all)
    }
}

const TERMS: &[&str] = &[
    "input.review.a",
    "input.review.n",
    "input.review.list[_]",
    "input.review.o",
    "input.parameters.mode",
    "input.parameters.n",
    "input.parameters.list[_]",
    "input.parameters.none",
    "c",
    "1",
    "3",
    "\"b\"",
];

fn statement(random: &mut Random) -> String {
    let (one, other) = (random.of(TERMS), random.of(TERMS));
    match random.below(16) {
        0 => format!("f({one})"),
        1 => format!("q{}({one}, {other})", random.below(3)),
        2 => format!("not q{}({one}, {other})", random.below(3)),
        3 => format!("{one} == {other}"),
        4 => format!("{one} != {other}"),
        5 => format!("{one} > {other}"),
        6 => format!("not {one} == {other}"),
        7 => one.to_owned(),
        8 => format!("count([x | x := {one}; f(x); x == {other}]) >= 0"),
        9 => format!("every x in input.parameters.list {{ q0(x, {one}) }}"),
        10 => format!("p{}", random.below(3)),
        11 => format!("not p{}", random.below(3)),
        12 => format!("apart({one}) == {}", random.of(&["1", "2", "3"])),
        13 => format!("pick({one}, \"{}\") != {other}", random.of(&["k", "l"])),
        14 => format!("half({one}, \"{}\") != {other}", random.of(&["k", "l"])),
        _ => format!("agreed({one}) == {other}"),
    }
}

fn body(random: &mut Random) -> String {
    (0..=random.below(4)).map(|_| statement(random)).collect::<Vec<_>>().join("; ")
}

fn random_policy(random: &mut Random) -> String {
    let mut text = RULES.to_owned();
    // Rules that only lead to those before them, so that they do not recurse.
    for at in 0..3 {
        for _ in 0..=random.below(3) {
            let (value, mut body) = (random.of(&["true", "true", "1", "x", "false"]), body(random));
            for later in at..3 {
                body = body.replace(&format!("q{later}("), "h(").replace(&format!("p{later}"), "c");
            }
            text.push_str(&format!("q{at}(x, y) := {value} if {{ {body} }}\n"));
        }
        for _ in 0..=random.below(2) {
            let (value, mut body) = (random.of(&["true", "1", "2"]), body(random));
            for later in at..3 {
                body = body.replace(&format!("q{}(", later + 1), "h(");
                body = body.replace(&format!("p{later}"), "c");
            }
            text.push_str(&format!("p{at} := {value} if {{ {body} }}\n"));
        }
    }
    // A set of which another one takes all members: those that nothing asks for raise nothing.
    for _ in 0..random.below(4) {
        let (term, body) = (random.of(TERMS), body(random));
        text.push_str(&format!(
            "general contains {{\"msg\": msg, \"field\": \"a\"}} if {{ {body}; msg := \
             sprintf(\"%v\", [{term}]) }}\n"
        ));
    }
    let taken = "general[{\"msg\": msg, \"field\": \"a\"}]";
    match random.below(4) {
        0 if text.contains("general") => {
            text.push_str(&format!("violation contains {{\"msg\": msg}} if {taken}\n"));
        }
        1 if text.contains("general") => {
            let look = random.of(&["input.review.n > 6", "not input.review.n", "c == 1"]);
            text.push_str(&format!("violation contains msg if {{ {look}; {taken} }}\n"));
        }
        _ => {}
    }
    for at in 0..=random.below(3) {
        let (key, body) = (random.of(TERMS), body(random));
        match random.below(3) {
            0 => text.push_str(&format!("violation contains {at} if {{ {body} }}\n")),
            1 => text.push_str(&format!("violation contains key if {{ key := {key}; {body} }}\n")),
            _ => text.push_str(&format!("violation contains key if {{ {body}; key := {key} }}\n")),
        }
    }
    text
}

/// The values and the conflicts of random policies are those of the policy as it was written.
#[test]
fn specialized_policies_conflict_as_they_were_written() {
    let cases = std::env::var("MODGATE_RANDOM_CASES").ok().and_then(|text| text.parse().ok());
    let mut random = Random(7);
    let (mut conflicts, mut values) = (0, 0);
    for _ in 0..cases.unwrap_or(3000) {
        let text = random_policy(&mut random);
        let (mode, n) = (random.of(&["\"a\"", "\"b\"", "3"]), random.of(&["1", "3", "7", "null"]));
        let list = random.of(&["[]", "[1]", "[\"b\", 3]", "[1, 3, 7]", r#"["a", "b", "x"]"#]);
        let parameters = format!(r#"{{"mode": {mode}, "n": {n}, "list": {list}}}"#);
        let parameters = Json::from_json(parameters.as_bytes()).expect("JSON");
        let Some(policy) = Policy::of(&text, &parameters) else { continue };
        for review in [
            r#"{"a": 3, "n": 7, "list": [1, 3]}"#,
            r#"{"a": 7, "n": "b", "list": [], "o": {"s": {"k": false}, "t": {"k": 1, "l": 2}}}"#,
            r#"{"a": "b", "list": [7, 8], "o": {"s": {"k": 3}, "t": {"k": 1}}}"#,
        ] {
            let review = Json::from_json(review.as_bytes()).expect("JSON");
            let members = [("parameters", parameters.clone()), ("review", review)];
            let input: Json = members.into_iter().collect();
            let [(plain, _), (special, _), (alone, _)] = policy.outcomes(&input);
            conflicts += usize::from(plain.is_err());
            values += usize::from(plain.is_ok());
            let what = format!("{text}{}", input.to_json());
            assert_eq!(plain, special, "{what}");
            assert_eq!(plain, alone, "alone: {what}");
        }
    }
    assert!(conflicts > 200 && values > 200, "{conflicts} conflicts, {values} values");
}
