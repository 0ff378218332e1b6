//! Small generated programs over generated inputs, against the laws of the language and against
//! every evaluator there is.
//!
//! A program is made out of a list of random choices, each of which shrinks to the simplest
//! alternative. Statements only read variables that earlier ones bind, so almost every program is
//! safe, and each statement holds whatever the order it stands in.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code, helpers included"
)]

use std::time::Duration;

use modgate_rego::{
    Capabilities, Code, Program, Query, RegoVersion,
    builtins::Isolated,
    eval, parse_module,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Limits, Value as Json, budget::Frozen};
use proptest::{
    collection::vec,
    prelude::any,
    test_runner::{Config, TestCaseError, TestRunner},
};

/// Sorted solutions of a query, or the code of the error.
type Outcome = Result<Vec<String>, String>;

type Evaluate = fn(&Query, &Json) -> Outcome;

/// The code of rules that contradict each other.
const CONFLICT: &str = "eval_conflict_error";

/// Every evaluator; the first is the measure of the others.
const EVALUATORS: &[(&str, Evaluate)] = &[
    ("plain", evaluate),
    ("knowing input.xs", |query, input| evaluate_knowing("xs", query, input)),
    ("knowing input.o", |query, input| evaluate_knowing("o", query, input)),
    ("knowing input.n", |query, input| evaluate_knowing("n", query, input)),
    ("knowing input.s", |query, input| evaluate_knowing("s", query, input)),
];

const LIMITS: Limits = Limits { steps: 200_000, bytes: 8 << 20, time: Duration::MAX };

fn evaluate(query: &Query, input: &Json) -> Outcome {
    let arena = Arena::new();
    let budget = Budget::new(LIMITS, &Frozen);
    let context = eval::Context {
        input: Some(Value::json(input)),
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let rows = eval::query(query, context).map_err(|error| error.code.to_string())?;
    let text = |value: &Value<'_>| value.to_text(&Budget::unlimited()).expect("a text");
    let mut rows: Vec<String> =
        rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(" ")).collect();
    rows.sort();
    Ok(rows)
}

/// With the program specialised for a member of the input.
fn evaluate_knowing(key: &str, query: &Query, input: &Json) -> Outcome {
    let Some(value) = input.get(key) else { return evaluate(query, input) };
    let budget = Budget::new(LIMITS, &Frozen);
    evaluate(&query.specialize(key, value, &budget), input)
}

/// Choices to make a program of; when they run out, every choice is the first.
struct Choices<'c>(&'c [u8]);

impl Choices<'_> {
    fn below(&mut self, bound: usize) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first) % bound
    }

    fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// One generated program, as the text of its parts.
#[derive(Debug)]
struct Sample {
    /// Rules without any order.
    rules: Vec<String>,
    /// Statements over the variables of [`VARIABLES`].
    body: Vec<String>,
    /// The value of the rule: a term over the variables that the body binds.
    head: String,
    input: Json,
}

const VARIABLES: [&str; 4] = ["a", "b", "c", "d"];

const PATHS: [&str; 6] = ["input.xs", "input.o", "input.n", "input.s", "input.none", "input"];

/// The variables in scope while statements are made.
struct Scope {
    /// Rules that may be referred to.
    rules: usize,
    bound: Vec<String>,
    /// How deep bodies may still nest.
    depth: usize,
    fresh: usize,
}

impl Scope {
    fn term(&self, choices: &mut Choices<'_>) -> String {
        match choices.below(9) {
            0 => choices.of(&["1", "0", "2", "\"k\"", "\"x\"", "true", "null", "false"]).to_owned(),
            1 | 2 => match self.bound.len() {
                0 => "1".to_owned(),
                bound => self.bound[choices.below(bound)].clone(),
            },
            3 => choices.of(&PATHS).to_owned(),
            4 => format!("{}[{}]", choices.of(&PATHS), choices.of(&["0", "\"k\"", "1"])),
            5 => choices.of(&["[1, 2]", "{1, 2}", "{\"k\": 1}", "[]", "[[1], \"k\"]"]).to_owned(),
            6 if self.rules > 0 => self.reference(choices),
            7 => {
                let call = choices.of(&[
                    "count",
                    "to_number",
                    "sum",
                    "f0",
                    "type_name",
                    "f1",
                    "f2",
                    "f3",
                    "f4",
                    "f5",
                ]);
                format!("{call}({})", self.simple(choices))
            }
            8 => format!("[{}, {}]", self.simple(choices), self.simple(choices)),
            _ => "1".to_owned(),
        }
    }

    /// A term that does not nest.
    fn simple(&self, choices: &mut Choices<'_>) -> String {
        match (choices.below(3), self.bound.len()) {
            (0, _) | (1, 0) => choices.of(&["1", "2", "\"k\"", "input.xs"]).to_owned(),
            (1, bound) => self.bound[choices.below(bound)].clone(),
            _ => choices.of(&PATHS).to_owned(),
        }
    }

    fn reference(&self, choices: &mut Choices<'_>) -> String {
        let rule = choices.below(self.rules);
        match choices.below(4) {
            0 | 1 => format!("r{rule}"),
            2 => format!("r{rule}[{}]", self.simple(choices)),
            _ => format!("data.t.r{rule}"),
        }
    }

    fn bind(&mut self, choices: &mut Choices<'_>) -> String {
        let name = choices.of(&VARIABLES).to_owned();
        if !self.bound.contains(&name) {
            self.bound.push(name.clone());
        }
        name
    }

    fn statement(&mut self, choices: &mut Choices<'_>) -> String {
        match choices.below(12) {
            0 | 1 => {
                let term = self.term(choices);
                format!("{} = {term}", self.bind(choices))
            }
            2 | 3 => {
                let (path, key) = (choices.of(&PATHS), self.bind(choices));
                format!("{path}[{key}]")
            }
            4 => {
                let path = choices.of(&PATHS);
                format!("{} = {path}[_]", self.bind(choices))
            }
            5 => {
                let operator = choices.of(&["==", "!=", "<", ">="]);
                format!("{} {operator} {}", self.term(choices), self.term(choices))
            }
            6 => format!("not {} == {}", self.term(choices), self.term(choices)),
            7 => format!("not {}", self.term(choices)),
            8 if self.depth > 0 => {
                let (inner, body) = self.inner(choices);
                let source = choices.of(&PATHS);
                let (open, close) = choices.of(&[("[", "]"), ("{", "}"), ("{1: ", "}")]);
                let into = self.bind(choices);
                format!("{into} = {open}{inner} | {inner} = {source}[_]; {body}{close}")
            }
            9 if self.depth > 0 => {
                let (inner, body) = self.inner(choices);
                format!(
                    "every {inner} in {} {{ {body} }}",
                    choices.of(&["[1, 2]", "input.xs", "input.o"])
                )
            }
            10 => {
                let term = self.term(choices);
                let target = choices.of(&["input", "input.xs", "input.o.k", "data.t.r0"]);
                let value = choices.of(&["1", "[1, 2]", "{\"k\": [1]}", "{\"xs\": [2]}"]);
                let target =
                    if self.rules == 0 && target == "data.t.r0" { "input" } else { target };
                format!("{} = {term} with {target} as {value}", self.bind(choices))
            }
            11 => {
                let term = self.simple(choices);
                format!("walk({term}, [_, {}])", self.bind(choices))
            }
            _ => "true".to_owned(),
        }
    }

    /// A variable of an inner body, and a body that may read it.
    fn inner(&mut self, choices: &mut Choices<'_>) -> (String, String) {
        self.fresh += 1;
        let name = format!("v{}", self.fresh);
        let outside = self.bound.clone();
        self.bound.push(name.clone());
        self.depth -= 1;
        let statement = match choices.below(3) {
            // An inner body declares the variables it binds.
            0 => format!("{} == {}", self.term(choices), name),
            1 => format!("not {} == {}", self.term(choices), name),
            _ => format!("{} != {}", name, self.term(choices)),
        };
        self.depth += 1;
        self.bound = outside;
        (name, statement)
    }
}

fn input(choices: &mut Choices<'_>, depth: usize) -> Json {
    match choices.below(if depth == 0 { 5 } else { 7 }) {
        0 => Json::from(1),
        1 => Json::from(choices.below(3) as i64),
        2 => choices.of(&["k", "x", "0"]).into(),
        3 => Json::Bool(choices.below(2) == 0),
        4 => Json::Null,
        5 => (0..choices.below(4)).map(|_| input(choices, depth - 1)).collect(),
        _ => (0..choices.below(3))
            .map(|at| (["k", "x", "0"][at], input(choices, depth - 1)))
            .collect(),
    }
}

fn sample(choices: &mut Choices<'_>) -> Sample {
    let names = ["xs", "o", "n", "s"];
    let members = names.map(|name| (name, input(choices, 2)));
    let mut rules = vec![
        "f0(x) := y if { y := [x, 1] }".to_owned(),
        "f1(1) := 2\nf1(x) := x if { x != 1 }".to_owned(),
        "f2(x) if { x == 1 }\nf2(x) if { not x.k }\nf2([x, _]) if { f4(x) }".to_owned(),
        "f3(x) := y if { y := [z | z := x[_]; f2(z)] }".to_owned(),
        "f4(x) := y if { y := x.k }".to_owned(),
        "f5(x) := 1 if { x != 2 }\nf5(x) := x if { x != \"x\" }".to_owned(),
    ];
    let count = choices.below(4);
    for at in 0..count {
        let mut scope = Scope { rules: at, bound: Vec::new(), depth: 1, fresh: 0 };
        let body = body(choices, &mut scope);
        let (term, key) = (scope.term_of_rule(choices), scope.term_of_rule(choices));
        let body = format!("some {}\n  {}", VARIABLES.join(", "), body.join("\n  "));
        rules.push(match choices.below(5) {
            0 => format!("r{at} := 1 if {{\n  {body}\n}}"),
            1 => format!("r{at} contains {term} if {{\n  {body}\n}}"),
            2 => format!("r{at}[{key}] := {term} if {{\n  {body}\n}}"),
            3 => format!("default r{at} := 0\nr{at} := {term} if {{\n  {body}\n}}"),
            _ => format!("r{at} := 1 if {{\n  {body}\n}} else := {{\"k\": 2}}"),
        });
    }
    let mut scope = Scope { rules: count, bound: Vec::new(), depth: 2, fresh: 0 };
    let body = body(choices, &mut scope);
    let head = scope.term_of_rule(choices);
    Sample { rules, body, head, input: members.into_iter().collect() }
}

impl Scope {
    /// A term for a head: a variable where there is one.
    fn term_of_rule(&self, choices: &mut Choices<'_>) -> String {
        match self.bound.len() {
            0 => "1".to_owned(),
            bound => self.bound[choices.below(bound)].clone(),
        }
    }
}

fn body(choices: &mut Choices<'_>, scope: &mut Scope) -> Vec<String> {
    let count = 1 + choices.below(4);
    let mut body: Vec<String> = (0..count).map(|_| scope.statement(choices)).collect();
    // Every variable that is declared has to be bound.
    for name in VARIABLES {
        if !scope.bound.iter().any(|bound| bound == name) {
            body.push(format!("{name} = 1"));
            scope.bound.push(name.to_owned());
        }
    }
    body
}

/// Pairs of queries that have the same solutions, whatever the program.
const LAWS: &[(&str, &str)] = &[
    ("x = set", "x = {v | v = list[_]}"),
    ("x = set", "x = {v | some v in set}"),
    ("x = set", "x = comprehended"),
    ("x = set", "x = backwards"),
    ("x = set", "x = data.t.set"),
    ("x = set", "x = set with input as input"),
    ("x = set", "x = object.keys(keyed)"),
    ("x = set", "x = {v | keyed[v] = v}"),
    ("some x in set", "some x in list"),
    ("set[x]; x = 1", "set[1]; x = 1"),
    ("holds; x = 1", "not never; x = 1"),
    ("holds; x = 1", "count(list) > 0; x = 1"),
    ("holds; x = 1", "alternative = 1; x = 1"),
    ("not holds; x = 1", "alternative = 2; x = 1"),
    ("not holds; x = 1", "set == set(); x = 1"),
    ("x = {v | v = list[_]; not v == 1}", "x = set - {1}"),
    ("every v in set { v != 1 }; x = 1", "not set[1]; x = 1"),
    ("x = call(1)", "x = set"),
    ("x = [v | some v in set]", "x = sort(set)"),
    ("x = {v: 1 | some v in set}", "x = {v: 1 | v = list[_]}"),
    (
        "x = pair",
        "x = {sprintf(\"%v\", [v]) | v = list[_]} | {sprintf(\"%v!\", [v]) | v = list[_]; v != 1; v != 2} | \
         {sprintf(\"%v!\", [v]) | v = list[_]; f2(v)}",
    ),
];

/// The rules that the laws compare.
const RULES: [&str; 11] = [
    "set",
    "list",
    "keyed",
    "comprehended",
    "backwards",
    "holds",
    "never",
    "alternative",
    "call",
    "pair",
    "f2",
];

fn module(sample: &Sample, reversed: bool) -> String {
    let declared = format!("some {}", VARIABLES.join(", "));
    let body = format!("{declared}\n  {}", sample.body.join("\n  "));
    let mut backwards = sample.body.clone();
    backwards.reverse();
    let backwards = format!("{declared}\n  {}", backwards.join("\n  "));
    let head = &sample.head;
    let mut rules = sample.rules.clone();
    rules.extend([
        format!("set contains {head} if {{\n  {body}\n}}"),
        format!("backwards contains {head} if {{\n  {backwards}\n}}"),
        format!("keyed[{head}] := {head} if {{\n  {body}\n}}"),
        format!("holds if {{\n  {body}\n}}"),
        "never if not holds".to_owned(),
        format!("alternative := 1 if {{\n  {body}\n}} else := 2"),
        format!("list := [{head} |\n  {body}\n]"),
        // Rules that begin alike.
        format!("pair contains text if {{\n  {body}\n  text := sprintf(\"%v\", [{head}])\n}}"),
        format!(
            "pair contains text if {{\n  {body}\n  {head} != 1\n  {head} != 2\n  text := \
             sprintf(\"%v!\", [{head}])\n}}"
        ),
        format!(
            "pair contains text if {{\n  {body}\n  f2({head})\n  text := sprintf(\"%v!\", \
             [{head}])\n}}"
        ),
        format!("comprehended := {{{head} |\n  {body}\n}}"),
        format!("call(x) := {{{head} |\n  x == 1\n  {body}\n}}"),
    ]);
    if reversed {
        rules.reverse();
    }
    format!("package t\n{}\n", rules.join("\n"))
}

/// What was seen over all samples, so that a generator that makes nothing is noticed.
#[derive(Debug, Default)]
struct Seen {
    samples: usize,
    compiled: usize,
    compared: usize,
    solutions: usize,
    errors: usize,
}

fn compile(source: &str) -> Result<Program, String> {
    let module = parse_module("random.rego", source, RegoVersion::V1)
        .map_err(|errors| errors[0].detailed())?;
    Program::compile(&[module], &Capabilities::default()).map_err(|errors| errors[0].detailed())
}

/// The query, unless the type checker knows that it can never hold.
fn query(program: &Program, text: &str) -> Option<Query> {
    let text = RULES.iter().fold(text.to_owned(), |text, name| qualify(&text, name));
    match program.query(&text, RegoVersion::V1, &Capabilities::default()) {
        Ok(query) => Some(query),
        Err(errors) if errors[0].code == Code::Type => None,
        Err(errors) => panic!("{text}: {}", errors[0].detailed()),
    }
}

/// Writes `data.t.name` where the query says `name`.
fn qualify(text: &str, name: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let part = |c: char| c.is_ascii_alphanumeric() || c == '.';
        let whole = !before.ends_with(part) && !after.starts_with(part);
        let empty_set = name == "set" && after.starts_with("()");
        result.push_str(before);
        result.push_str(if whole && !empty_set { "data.t." } else { "" });
        result.push_str(name);
        rest = after;
    }
    result + rest
}

fn check(sample: &Sample, seen: &mut Seen) -> Result<(), String> {
    seen.samples += 1;
    let source = module(sample, false);
    let program = match compile(&source) {
        Ok(program) => program,
        // The type checker refuses what can never match; those samples only test that.
        Err(error) if error.contains("rego_type_error") => return Ok(()),
        Err(error) => return Err(format!("{error}\n{source}")),
    };
    let turned = compile(&module(sample, true)).map_err(|error| format!("reversed: {error}"))?;
    seen.compiled += 1;
    let answers = |program: &Program, text: &str| -> Result<Option<Outcome>, String> {
        let Some(query) = query(program, text) else { return Ok(None) };
        let outcomes = EVALUATORS.iter().map(|(_, run)| run(&query, &sample.input));
        let outcomes: Vec<Outcome> = outcomes.collect();
        for ((name, _), outcome) in EVALUATORS.iter().zip(&outcomes) {
            // A specialised program needs less, so it need not meet a limit.
            let met = outcomes[0].as_ref().map_or_else(|code| code == CONFLICT, |_| true);
            if met && *outcome != outcomes[0] {
                return Err(format!("{text}: {name} says {outcome:?}, not {:?}", outcomes[0]));
            }
        }
        Ok(outcomes.into_iter().next())
    };
    for (left, right) in LAWS {
        let (first, second) = (answers(&program, left)?, answers(&program, right)?);
        let reordered = answers(&turned, left)?;
        let (Some(first), Some(second), Some(reordered)) = (first, second, reordered) else {
            continue;
        };
        // Which part of a program runs into a conflict or a budget depends on the order.
        let (Ok(first), Ok(second), Ok(reordered)) = (first, second, reordered) else {
            seen.errors += 1;
            continue;
        };
        seen.compared += 1;
        seen.solutions += usize::from(!first.is_empty());
        let mut distinct = (first.clone(), second);
        distinct.0.dedup();
        distinct.1.dedup();
        if distinct.0 != distinct.1 {
            return Err(format!("`{left}` has {:?}, `{right}` {:?}", distinct.0, distinct.1));
        }
        if first != reordered {
            return Err(format!("`{left}` has {first:?}, with rules reversed {reordered:?}"));
        }
    }
    Ok(())
}

#[test]
fn laws_hold_for_generated_programs() {
    let cases = std::env::var("MODGATE_RANDOM_CASES").ok().and_then(|text| text.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(400),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..Config::default()
    };
    let seen = std::cell::RefCell::new(Seen::default());
    let mut runner = TestRunner::new(config);
    let result = runner.run(&vec(any::<u8>(), 0..160), |bytes: Vec<u8>| {
        let sample = sample(&mut Choices(&bytes));
        check(&sample, &mut seen.borrow_mut()).map_err(|why| {
            TestCaseError::fail(format!(
                "{why}\n{}input {}",
                module(&sample, false),
                sample.input.to_json()
            ))
        })
    });
    let seen = seen.into_inner();
    println!("{seen:?}");
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(seen.compiled * 2 > seen.samples, "{seen:?}");
    assert!(seen.compared > seen.errors * 4, "{seen:?}");
    assert!(seen.solutions * 4 > seen.compared, "{seen:?}");
}
