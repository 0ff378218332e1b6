//! Evaluations that share documents and calls give what they give alone, and spend as much whichever
//! of them comes first.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "test code, helpers included"
)]

use modgate_rego::{
    Capabilities, GroupId, Program, RegoVersion,
    builtins::Isolated,
    eval::{self, Memo},
    parse_module, specialize_for,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Limits, Value as Json, budget::Frozen};

/// Policies that read the same in different ways: through documents, through entries of documents,
/// through functions that call one another and read parameters, and twice over.
const POLICIES: [&str; 8] = [
    r#"package t
import data.lib.all
import data.lib.bytes
violation contains {"msg": msg} if {
    some container in all
    size := bytes(container.memory)
    size > bytes(input.parameters.most)
    msg := sprintf("%v has %v", [container.name, size])
}
"#,
    r#"package t
import data.lib.all
import data.lib.bytes
violation contains {"msg": msg} if {
    some container in all
    bytes(container.memory) == bytes(container.other)
    msg := sprintf("%v: %v", [container.name, bytes(container.memory)])
}
violation contains {"msg": "many"} if count(all) > 2
violation contains {"msg": "none"} if not data.lib.names.none
"#,
    r#"package t
violation contains {"msg": name} if {
    some name in data.lib.names
    data.lib.named[name].memory
    not data.lib.allowed(name)
}
violation contains {"msg": "first"} if data.lib.names.first
violation contains {"msg": "default"} if data.lib.big
"#,
    r#"package t
import data.lib.bytes
violation contains {"msg": "wrong"} if {
    total := sum([size | some container in data.lib.all; size := bytes(container.memory)])
    total > count(data.lib.names)
    not data.lib.big
}
violation contains {"msg": sprintf("%v", [time.now_ns()])} if input.review.late
"#,
    r#"package t
violation contains {"msg": msg} if {
    some name
    container := data.lib.named[name]
    data.lib.bytes(container.other)
    msg := name
}
violation contains {"msg": "changed"} if data.lib.big with input.review.containers as []
"#,
    r#"package t
violation contains {"msg": msg} if general[{"msg": msg, "field": "containers"}]
violation contains {"msg": msg} if general[{"msg": msg, "field": "first"}]
general contains {"msg": msg, "field": field} if {
    container := input.review[field][_]
    not data.lib.allowed(container.name)
    msg := sprintf("%v: %v", [container.name, data.lib.bytes(container.memory)])
}
general contains {"msg": msg, "field": field} if {
    container := input.review[field][_]
    data.lib.bytes(container.memory) > data.lib.bytes(input.parameters.most)
    not data.lib.big
    msg := container.name
}
general contains {"msg": "some", "field": "first"} if count(input.review.first) > 0
"#,
    // Documents that are the same, and are read as a whole and by key.
    r#"package t
one contains container if { some container in input.review.containers; container.memory }
two contains other if { some other in input.review.containers; other.memory }
named[container.name] := container if { some container in input.review.containers; container.memory }
again[container.name] := container if { some container in input.review.containers; container.memory }
violation contains {"msg": "both"} if count(one) == count(two)
violation contains {"msg": "named"} if named.a == again.a
violation contains {"msg": "all"} if { some name; named[name] == again[name] }
violation contains {"msg": "more"} if { count(one) > count(input.parameters.names); count(two) > 1 }
"#,
    // Rules that are the same once each has its constant.
    r#"package t
violation contains {"msg": msg} if {
    field := ["x", "y"][_]
    some container in input.review.containers
    name := container.name
    msg := sprintf("%v", [container.memory])
}
violation contains {"msg": msg} if {
    field := ["x", "y"][_]
    some container in input.review.containers
    name := container.name
    name != field
    msg := sprintf("%v has not %v", [name, input.parameters.most])
}
"#,
];

const LIB: &str = r#"package lib
all contains container if some container in input.review.containers
all contains container if some container in input.review.first
names contains container.name if some container in all
named[container.name] := container if some container in all
default big := false
big if { some container in all; bytes(container.memory) > 100 }
allowed(name) if { some prefix in input.parameters.names; startswith(name, prefix) }
bytes(text) := size if { is_number(text); size := text }
bytes(text) := size if {
    not is_number(text)
    suffix := letters(text)
    digits := replace(text, suffix, "")
    regex.match("^[0-9]+$", digits)
    size := to_number(digits) * factor(suffix)
}
letters(text) := "Ki" if endswith(text, "Ki")
letters(text) := "Mi" if endswith(text, "Mi")
letters(text) := "" if { not endswith(text, "Ki"); not endswith(text, "Mi") }
factor("Ki") := 1024
factor("Mi") := 1048576
factor("") := 1
"#;

const REVIEWS: [&str; 3] = [
    r#"{"containers": [{"name": "a", "memory": "5Ki", "other": "5Ki"},
        {"name": "first", "memory": 7, "other": "7"}, {"name": "c", "memory": "1Mi", "other": 1}],
        "first": [{"name": "d", "memory": "x", "other": 1.5}]}"#,
    r#"{"containers": [{"name": "none", "memory": "12"}], "first": [], "late": true}"#,
    r#"{"containers": []}"#,
];

const PARAMETERS: [&str; 3] =
    [r#"{"most": "6Ki", "names": ["a"]}"#, r#"{"most": 3, "names": []}"#, "{}"];

fn json(text: &str) -> Json {
    Json::from_json(text.as_bytes()).expect("JSON")
}

struct Case {
    program: Program,
    violation: GroupId,
    parameters: Json,
}

fn cases() -> Vec<Case> {
    cases_of(&POLICIES, LIB)
}

fn cases_of(policies: &[&str], lib: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for policy in policies {
        let modules: Vec<_> = [("policy", *policy), ("lib", lib)]
            .iter()
            .map(|(name, text)| {
                let module = parse_module(name, text, RegoVersion::V1);
                module.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]))
            })
            .collect();
        let program = Program::compile(&modules, &Capabilities::default());
        let program = program.unwrap_or_else(|errors| panic!("{policy}: {}", errors[0]));
        let violation = program.group(&["t", "violation"]).expect("a rule");
        for parameters in PARAMETERS {
            let parameters = json(parameters);
            let budget = Budget::unlimited();
            let known = ("parameters", &parameters);
            let program = specialize_for(violation, &program, known, &budget);
            cases.push(Case { program, violation, parameters });
        }
    }
    cases
}

/// The result of an evaluation, and the steps and bytes that it spends.
type Outcome = (Result<Option<String>, String>, u64, u64);

/// Evaluates cases one after the other, all sharing with one another or none.
fn run(cases: &[&Case], review: &Json, limits: Limits, sharing: bool) -> Vec<Outcome> {
    let arena = Arena::new();
    let inputs: Vec<Json> = cases
        .iter()
        .map(|case| {
            let members = [("parameters", case.parameters.clone()), ("review", review.clone())];
            members.into_iter().collect()
        })
        .collect();
    let budgets: Vec<_> = cases.iter().map(|_| Budget::new(limits, &Frozen)).collect();
    let memos: Vec<Memo<'_>> = cases.iter().map(|_| Memo::new()).collect();
    let mut outcomes = Vec::new();
    for (index, case) in cases.iter().enumerate() {
        let budget = &budgets[index];
        // Parts of documents are told apart by where they are, so it must be one document.
        let heap = Heap::new(&arena, budget);
        let review = Value::json(inputs[0].get("review").expect("a review"));
        let parameters = Value::json(inputs[index].get("parameters").expect("parameters"));
        let input = heap.record([("parameters", parameters), ("review", review)]);
        let context = eval::Context {
            input: Some(input.unwrap_or(Value::EMPTY_SET)),
            data: None,
            heap,
            host: &Isolated,
            strict_builtin_errors: false,
            tracer: None,
        };
        let memo = &memos[if sharing { 0 } else { index }];
        let found = eval::shared_document(&case.program, case.violation, context, memo);
        let (steps, bytes) = (budget.steps_spent(), budget.bytes_spent());
        let print = Budget::unlimited();
        let text = |value: Value<'_>| value.to_text(&print).expect("text");
        let found = found.map(|found| found.map(text)).map_err(|error| error.to_string());
        outcomes.push((found, steps, bytes));
    }
    outcomes
}

/// The plain evaluator's value.
fn alone(case: &Case, review: &Json) -> Result<Option<String>, String> {
    let (arena, budget) = (Arena::new(), Budget::unlimited());
    let members = [("parameters", case.parameters.clone()), ("review", review.clone())];
    let input: Json = members.into_iter().collect();
    let context = eval::Context {
        input: Some(Value::json(&input)),
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let found = eval::document(&case.program, case.violation, context);
    let text = |value: Value<'_>| value.to_text(&budget).expect("text");
    found.map(|found| found.map(text)).map_err(|error| error.to_string())
}

#[test]
fn values_and_costs_do_not_depend_on_what_was_evaluated_before() {
    let cases = cases();
    let mut orders: Vec<Vec<&Case>> = vec![cases.iter().collect(), cases.iter().rev().collect()];
    orders.push(cases.iter().chain(&cases).collect());
    orders.push((0..cases.len()).map(|index| &cases[index * 7 % cases.len()]).collect());
    for review in REVIEWS.map(json) {
        for order in &orders {
            let apart = run(order, &review, Limits::UNLIMITED, false);
            let together = run(order, &review, Limits::UNLIMITED, true);
            assert_eq!(apart, together);
            for (case, (found, ..)) in order.iter().zip(&together) {
                assert_eq!(*found, alone(case, &review));
            }
        }
    }
}

#[test]
fn too_small_budgets_end_the_same_evaluations() {
    let cases = cases();
    let order: Vec<&Case> = cases.iter().chain(&cases).collect();
    for review in REVIEWS.map(json) {
        for steps in (0..1500).step_by(41) {
            let limits = Limits { steps, ..Limits::UNLIMITED };
            assert_eq!(
                verdicts(&order, &review, limits, false),
                verdicts(&order, &review, limits, true)
            );
        }
        for bytes in (0..20_000).step_by(900) {
            let limits = Limits { bytes, ..Limits::UNLIMITED };
            assert_eq!(
                verdicts(&order, &review, limits, false),
                verdicts(&order, &review, limits, true)
            );
        }
    }
}

/// A search in a long text takes memory for a time. Who shares what it found needs as much to be left as it took, and not
/// as little as was left of it.
#[test]
fn what_took_memory_for_a_time_is_paid_for_as_if_it_took_it_again() {
    let lib = r#"package lib
found if regex.match("[a-z]{1,60}[0-9]{2,9}!", input.review.long)
named contains name if { some name in input.review.names; found }
shouted contains upper(name) if some name in named
matches(text, times) if {
    is_string(text)
    count(text) > times
    not startswith(text, "!")
    not endswith(text, "?")
    times > 0
    contains(text, "a")
    not text == "a"
    not contains(text, "?")
    regex.match("[a-z]{1,50}[0-9]{2,9}!", text)
}
many := [upper(input.review.long) | [1, 2, 3][_]]
"#;
    let policies = [
        "package t\nviolation contains \"found\" if data.lib.found",
        "package t\nviolation contains count(data.lib.many) if { count(data.lib.many) > 1; data.lib.found }",
        "package t\nviolation contains name if some name in data.lib.named",
        "package t\nviolation contains name if { count(data.lib.many) > 2; some name in data.lib.shouted }",
        "package t\nviolation contains \"matches\" if data.lib.matches(input.review.long, 3)",
        "package t\nviolation contains \"many\" if { count(data.lib.many) > 0; data.lib.matches(input.review.long, 3) }",
    ];
    let cases = cases_of(&policies, lib);
    let long = format!("{}7777!", "a".repeat(60_000));
    let review = json(&format!("{{\"long\": \"{long}\", \"names\": [\"a\", \"b\"]}}"));
    let mut ends = std::collections::BTreeSet::new();
    let order: Vec<&Case> = cases.iter().chain(&cases).collect();
    // The first evaluation of a process that needs a pattern also pays for compiling it.
    run(&order, &review, Limits::UNLIMITED, false);
    let together = run(&order, &review, Limits::UNLIMITED, true);
    assert_eq!(run(&order, &review, Limits::UNLIMITED, false), together);
    assert!(together.iter().all(|(found, ..)| *found != Ok(Some("set()".to_owned()))));
    for bytes in (0..6_000_000).step_by(150_000) {
        let limits = Limits { bytes, ..Limits::UNLIMITED };
        let apart = verdicts(&order, &review, limits, false);
        ends.insert(apart.iter().filter(|found| found.is_err()).count());
        assert_eq!(verdicts(&order, &review, limits, true), apart, "{bytes} bytes");
    }
    assert!(ends.len() > 1 && ends.contains(&0), "budgets make a difference: {ends:?}");
}

/// A text that is printed needs twice its bytes, for a time. What is left then depends on what was paid for before, which is
/// the same with sharing and without.
#[test]
fn every_budget_ends_the_same_evaluations() {
    let lib = r#"package lib
named contains name if { some name in input.review.names; found }
found if regex.match("[a-z]{1,3}!", input.review.long)
shown contains {"text": text, "field": "a"} if {
    some name in input.review.names
    text := sprintf("%v %5s", [input.review, name])
}
texts contains {"text": text, "field": "a"} if { text := sprintf("%v: %v", ["names", named]) }
plain contains sprintf("%v, %v", [input.review.long, name]) if some name in input.review.names
"#;
    let policies = [
        r#"package t
violation contains "none" if not data.lib.shown[{"text": "none", "field": "a"}]"#,
        r#"package t
violation contains "none" if not data.lib.texts[{"text": "none", "field": "a"}]
violation contains x.text if some x in data.lib.texts"#,
        r#"package t
violation contains text if { data.lib.found; some text in data.lib.plain }"#,
        r#"package t
violation contains text if {
    count(data.lib.plain) > 0
    text := sprintf("%v", [data.lib.named])
    some shown in data.lib.shown
}"#,
        r#"package t
violation contains [1, 2, x] if { some y in [1, 2, 3]; x := [y, y] }
violation contains count(data.lib.plain)
violation contains "texts" if data.lib.texts"#,
    ];
    let cases = cases_of(&policies, lib);
    let long = "a".repeat(300);
    let review = json(&format!("{{\"long\": \"{long}!\", \"names\": [\"a\", \"b\"]}}"));
    let one: Vec<&Case> = cases.iter().step_by(PARAMETERS.len()).collect();
    let orders = [one.iter().chain(&one).copied().collect(), one.iter().rev().copied().collect()];
    let mut ends = std::collections::BTreeSet::new();
    for order in &orders {
        let order: &Vec<&Case> = order;
        // The first evaluation of a process that needs a pattern also pays for compiling it.
        run(order, &review, Limits::UNLIMITED, false);
        let most = run(order, &review, Limits::UNLIMITED, false).iter().map(|it| it.2).max();
        for bytes in (0..2 * most.expect("evaluations")).step_by(5) {
            let limits = Limits { bytes, ..Limits::UNLIMITED };
            let apart = verdicts(order, &review, limits, false);
            ends.insert(apart.iter().filter(|found| found.is_err()).count());
            assert_eq!(verdicts(order, &review, limits, true), apart, "{bytes} bytes");
        }
    }
    assert!(ends.len() > 3 && ends.contains(&0), "budgets make a difference: {ends:?}");
}

fn verdicts(
    order: &[&Case],
    review: &Json,
    limits: Limits,
    sharing: bool,
) -> Vec<Result<Option<String>, String>> {
    let outcomes = run(order, review, limits, sharing);
    // An error names the statement where it happened, which may be one that pays for a document.
    let place = |error: String| error.rsplit(": ").next().unwrap_or_default().to_owned();
    outcomes.into_iter().map(|(found, ..)| found.map_err(place)).collect()
}
