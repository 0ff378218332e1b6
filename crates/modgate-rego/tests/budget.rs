//! The maximum cost of an evaluation: a hostile program over hostile input ends in a result or an
//! error value within its steps, its bytes and its time, on a thread with 2 MiB of stack.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "test code, helpers included"
)]

use std::{
    fmt::Write as _,
    iter, thread,
    time::{Duration, Instant},
};

use modgate_corpus::CountingClock;
use modgate_rego::{
    Capabilities, Code, Error, Program, RegoVersion,
    builtins::Isolated,
    eval, parse_module,
    value::{Arena, Heap, Value},
};
use modgate_value::{Budget, Limits, MAX_DEPTH, Value as Json, budget::Clock, budget::Frozen};

/// The stack of a thread of the standard library by default.
const STACK: usize = 2 << 20;

const LIMITS: Limits = Limits { steps: 2_000_000, bytes: 8 << 20, time: Duration::MAX };

/// The result of one evaluation of `data.t.p`.
struct Run {
    /// The value as a term; `None` when undefined.
    result: Result<Option<String>, Error>,
    /// The bytes that the arena holds in the end.
    held: usize,
    taken: Duration,
}

impl Run {
    /// Whether a budget ended the evaluation.
    fn spent(&self) -> bool {
        let error = self.result.as_ref().err();
        error.is_some_and(|error| {
            error.code == Code::Cancel && error.mistake.to_string().contains(" budget of ")
        })
    }

    /// The result in a few words.
    fn brief(&self) -> String {
        match &self.result {
            Ok(Some(text)) => format!("{text:.60}"),
            Ok(None) => "undefined".to_owned(),
            Err(error) => format!("{:.90}", error.to_string()),
        }
    }
}

fn compile(source: &str) -> Result<Program, Vec<Error>> {
    let module = parse_module("test.rego", source, RegoVersion::V1)?;
    Program::compile(&[module], &Capabilities::default())
}

fn on_small_stack<T: Send>(what: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let thread = thread::Builder::new().stack_size(STACK).spawn_scoped(scope, what);
        thread.expect("a thread").join().expect("no panic")
    })
}

/// Compiles and evaluates on a small stack.
fn run(source: &str, input: &Json, limits: Limits) -> Run {
    on_small_stack(|| run_here(source, input, limits, &Frozen))
}

fn run_here(source: &str, input: &Json, limits: Limits, clock: &dyn Clock) -> Run {
    let program = compile(source).unwrap_or_else(|errors| panic!("{source:.200}: {}", errors[0]));
    let group = program.group(&["t", "p"]).expect("`p` is a rule");
    let arena = Arena::new();
    let budget = Budget::new(limits, clock);
    let start = Instant::now();
    let context = eval::Context {
        input: Some(Value::json(input)),
        data: None,
        heap: Heap::new(&arena, &budget),
        host: &Isolated,
        strict_builtin_errors: false,
        tracer: None,
    };
    let result = eval::document(&program, group, context);
    let taken = start.elapsed();
    // A result may hold the same large document many times.
    let print = Budget::new(Limits { steps: 1 << 20, ..LIMITS }, &Frozen);
    let text = |value: Value<'_>| value.to_text(&print).unwrap_or_else(|limit| limit.to_string());
    let result = result.map(|value| value.map(text));
    Run { result, held: arena.allocated_bytes(), taken }
}

/// A clock that shows the time since it was made.
struct Watch(Instant);

impl Clock for Watch {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[test]
fn comparing_documents_is_timed() {
    // Equal but not the same: each comparison walks all of both, which no step count can tell.
    let document =
        || -> Json { (0..200).map(|_| Json::from_json(b"[[1]]").expect("JSON")).collect() };
    let input: Json = [("a", document()), ("b", document())].into_iter().collect();
    let limits = Limits { time: Duration::from_millis(20), ..Limits::UNLIMITED };
    for holds in ["input.a == input.b", "[input.a] == [input.b]", "input.a in [input.b]"] {
        let source =
            format!("package t\np := count([1 | some _ in numbers.range(1, 100); {holds}])");
        let run = run_here(&source, &input, limits, &CountingClock::default());
        assert!(run.spent(), "{holds}: {}", run.brief());
    }
}

#[test]
fn loops_run_out_of_budget() {
    for body in [
        "some i in numbers.range(1, 1000000000); i < 0",
        "some i, j, k; xs := numbers.range(1, 1000); xs[i] + xs[j] + xs[k] < 0",
        "xs := numbers.range(1, 2000); every x in xs { every y in xs { x + y > 0 } }",
        "xs := numbers.range(1, 3000); count({[x, y] | some x in xs; some y in xs}) < 0",
        "xs := numbers.range(1, 3000); not count([x | some x in xs; xs[_] == 0]) < 0",
        "xs := numbers.range(1, 3000); some x in xs; some y in xs; n := count(xs) with input as y; n < x - 9000",
        "xs := numbers.range(1, 3000); some x in xs; some y in xs; f(x, y)",
        "xs := numbers.range(1, 200000); walk([xs, xs, xs, xs, xs, xs, xs, xs], [_, -1])",
        "xs := numbers.range(1, 100000); some x in xs; sum(xs) < x",
    ] {
        let source = format!("package t\nf(x, y) if x + y < 0\np if {{ {body} }}");
        let run = run(&source, &Json::Null, LIMITS);
        assert!(run.spent(), "{body}: {}", run.brief());
    }
}

#[test]
fn recursion_is_refused() {
    for rules in [
        "p if p",
        "p if not p",
        "p := q\nq := r\nr := p",
        "p if f(1)\nf(x) if f(x + 1)",
        "p if f(1)\nf(x) if g(x)\ng(x) if f(x)",
        "p contains x if some x in p",
        "p[x] := y if { x := 1; y := p[x] }",
        "p := 1 if false else := p",
        "p := [x | x := p]",
        "p if every x in [1] { x == p }",
        "p := x if x := p with input as 1",
        "p := x if x := f(1) with f as g\nf(x) := x\ng(x) := f(p)",
        "p := data.t",
        "p := data.t[input.x]",
        "p := data",
        "default p := false\np if q.r\nq.r if p",
        "p if count(q) > 0\nq contains 1 if p",
    ] {
        let outcome = on_small_stack(|| compile(&format!("package t\n{rules}")));
        let errors = outcome.expect_err(rules);
        assert!(errors.iter().all(|error| error.code == Code::Recursion), "{rules}: {errors:?}");
    }
}

/// Every way we know of making much text out of little.
#[test]
fn text_grows_within_its_budget() {
    let mut failures = Vec::new();
    let input: Json = [("k", Json::from("0123é56aB ".repeat(1000)))].into_iter().collect();
    for expression in [
        "concat(\",\", [input.k | some _ in numbers.range(1, 20000)])",
        "[sprintf(\"%999999d\", [x]) | some x in numbers.range(1, 100)]",
        "[sprintf(\"%.999999f\", [x / 3]) | some x in numbers.range(1, 100)]",
        "[sprintf(\"%*d\", [999999, x]) | some x in numbers.range(1, 100)]",
        "sprintf(\"%v\", [[input.k | some _ in numbers.range(1, 20000)]])",
        "replace(replace(input.k, \"0\", input.k), \"1\", input.k)",
        "strings.replace_n({\"0\": big, \"1\": big, \"2\": big}, big)",
        "regex.replace(big, \".\", input.k)",
        "regex.replace(big, \"(.*)\", \"$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1$1\")",
        "json.marshal([big | some _ in numbers.range(1, 1000)])",
        "json.marshal_with_options([big | some _ in numbers.range(1, 1000)], {\"indent\": input.k})",
        "yaml.marshal([big | some _ in numbers.range(1, 1000)])",
        "base64.encode(concat(\"\", [large, large]))",
        "hex.encode(large)",
        "[x | some y in [large, large]; x := urlquery.encode(y)]",
        "[x | some y in [large, large]; x := upper(y)]",
        "[x | some y in [large, large]; x := lower(y)]",
        "[x | some y in [large, large]; x := strings.reverse(y)]",
        "split(large, \"\")",
        "indexof_n(large, \"0\")",
        "[upper(substring(large, 0, n)) | some n in numbers.range(2000000, 2000100)]",
        "regex.find_n(\".\", large, -1)",
        "regex.split(\"\", large)",
        "$\"{large}{large}{large}\"",
        "sprintf(\"%s%s%s\", [large, large, large])",
        "crypto.sha256(concat(\"\", [large, large, large]))",
        "numbers.range(1, 100000000)",
        "net.cidr_expand(\"::/0\")",
        "array.concat(numbers.range(1, 800000), numbers.range(1, 800000))",
        "object.union_n([{x: big} | some x in numbers.range(1, 1000000)])",
        "{x: sprintf(\"%d%s\", [x, big]) | some x in numbers.range(1, 100000)}",
    ] {
        let source = format!(
            "package t\nbig := concat(\"\", [input.k | some _ in numbers.range(1, 10)])\n\
             large := concat(\"\", [big | some _ in numbers.range(1, 30)])\np := {expression}"
        );
        let limits = Limits { steps: 50_000_000, ..LIMITS };
        let run = run(&source, &input, limits);
        println!("{:>9?} {:>4} MiB {expression}", run.taken, run.held >> 20);
        // Blocks of the arena double in size.
        if !run.spent() || run.held > (4 * 8) << 20 {
            failures.push(format!("{expression}: {}, {} MiB", run.brief(), run.held >> 20));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn numbers_beyond_all_bounds() {
    for expression in [
        "1e1000000000 + 1",
        "1e1000000000 - 1e-1000000000",
        "1e1000000000 * 1e1000000000",
        "1e1000000000 / 3",
        "1e1000000000 % 7",
        "1e1000000000 == 1e999999999",
        "1e1000000000 < 1",
        "round(1e1000000000)",
        "ceil(1e-1000000000)",
        "floor(-1e1000000000)",
        "abs(-1e1000000000)",
        "to_number(\"1e1000000000\")",
        "to_number(\"-1e-1000000000\") * 2",
        "format_int(1e1000000000, 16)",
        "sprintf(\"%d\", [1e1000000000])",
        "sprintf(\"%f\", [1e1000000000])",
        "sprintf(\"%v\", [1e1000000000])",
        "sprintf(\"%x\", [1e100000])",
        "bits.lsh(1, 1000000000000)",
        "bits.rsh(1e100000, 1)",
        "bits.and(1e100000, 1e100001)",
        "bits.negate(1e1000000000)",
        "sum([1e1000000000, 1, -1e1000000000])",
        "product([x | some x in numbers.range(1, 100000)])",
        "product([1e1000000000, 1e1000000000])",
        "units.parse(\"1e1000000000Ki\")",
        "units.parse_bytes(\"1e1000000000Ki\")",
        "json.unmarshal(\"[1e1000000000, -1e-1000000000]\")",
        "sort([1e1000000000, 1e999999999, 1, -1e1000000000])",
        "{1e1000000000, 10e999999999}",
        "max([1e1000000000, 2])",
        "input.xs[1e1000000000]",
        "input.xs[1e-1000000000]",
        "array.slice(input.xs, 1e1000000000, 1e1000000001)",
        "substring(\"abc\", 1e1000000000, -1e1000000000)",
        "numbers.range(1e1000000000, 1e1000000001)",
        "numbers.range_step(1, 10, 1e1000000000)",
        "time.parse_duration_ns(\"1e1000000000h\")",
        "time.date(1e1000000000)",
        "time.add_date(0, 1000000000000, 1000000000000, 1000000000000)",
        "time.format(1e1000000000)",
        "rand.intn(\"x\", 1e1000000000)",
        "object.get({\"a\": 1}, 1e1000000000, 0)",
        "walk(1e1000000000, _)",
    ] {
        let rule = match expression.split_once('(').map(|(name, _)| name) {
            Some("walk") => format!("p if {expression}"),
            _ => format!("p := {expression}"),
        };
        let input: Json =
            [("xs", Json::from_iter([1, 2, 3].map(Json::from)))].into_iter().collect();
        let source = format!("package t\n{rule}");
        // What is a mistake the compiler sees is as good an answer as any.
        let outcome = on_small_stack(|| compile(&source).map(|_| ()));
        if outcome.is_ok() {
            let run = run(&source, &input, LIMITS);
            println!("{:>9?} {} {expression}", run.taken, run.brief());
            assert!(run.taken < Duration::from_secs(10), "{expression} took {:?}", run.taken);
        }
    }
}

#[test]
fn deep_input_fits_the_stack() {
    let mut arrays = Json::from(1);
    let mut objects = Json::from(1);
    for _ in 1..MAX_DEPTH - 2 {
        arrays = iter::once(arrays).collect();
        objects = iter::once(("k", objects)).collect();
    }
    let input: Json = [("a", arrays), ("o", objects)].into_iter().collect();
    for expression in [
        "input",
        "[input, input]",
        "{input, [input], [[input]]}",
        "{input: input}",
        "input == input",
        "[input] == [[input]]",
        "count([1 | walk(input, [_, _])])",
        "[path | walk(input, [path, 1])]",
        "json.marshal(input)",
        "json.unmarshal(json.marshal(input)) == input",
        "yaml.marshal(input)",
        "yaml.unmarshal(yaml.marshal(input))",
        "sprintf(\"%v\", [input])",
        "sort([input, input.a, input.o])",
        "json.patch(input, [{\"op\": \"add\", \"path\": \"/b\", \"value\": input}])",
        "json.remove(input, [\"a/0/0\", \"o/k/k\"])",
        "json.filter(input, [\"a/0/0\", \"o/k/k\"])",
        "object.union(input, {\"o\": input.o})",
        "object.union_n([input, input, {\"a\": input}])",
        "object.subset(input, input)",
        "object.filter(input, [\"o\"])",
        "input.a | input.a",
        "x if { x := input.o with input.o as input }",
        "json.match_schema(input, {\"$ref\": \"#\"})",
        "json.match_schema(input.o, {\"properties\": {\"k\": {\"$ref\": \"#\"}}})",
        "json.unmarshal(concat(\"\", [concat(\"\", [\"[\" | some _ in numbers.range(1, 9999)]), \"1\"]))",
        "yaml.unmarshal(concat(\"\", [concat(\"\", [\"[\" | some _ in numbers.range(1, 9999)]), \"1\"]))",
        "yaml.unmarshal(concat(\"\", [\"- \" | some _ in numbers.range(1, 9999)]))",
        "regex.match(concat(\"\", [\"(\" | some _ in numbers.range(1, 9999)]), \"a\")",
        "glob.match(concat(\"\", [\"{\" | some _ in numbers.range(1, 9999)]), [], \"a\")",
    ] {
        let run = run(&format!("package t\np := {expression}"), &input, LIMITS);
        println!("{:>9?} {} {expression}", run.taken, run.brief());
    }
}

/// Nests what has the given text around what has been nested.
fn nested(depth: usize, wrap: impl Fn(usize, &str) -> String) -> String {
    (0..depth).fold("true".to_owned(), |inner, level| wrap(level, &inner))
}

#[test]
fn deep_programs_fit_the_stack() {
    let some = |level: usize, inner: &str| format!("some x{level} in [1, 2]; {inner}");
    for depth in [10, 30, 60, 120, 200] {
        let bodies = [
            nested(depth, |level, inner| format!("[x{level} | x{level} := 1; {inner}][_] == 1")),
            nested(depth, |level, inner| format!("{{x{level} | x{level} := 1; {inner}}}[_] == 1")),
            nested(depth, |level, inner| format!("every x{level} in [1] {{ x{level}; {inner} }}")),
            nested(depth, |_, inner| format!("count([1 | {inner}]) > 0 with input as 1")),
            nested(depth, |_, inner| format!("not count([1 | {inner}]) == 0")),
            nested(8, some),
            nested(depth, |level, inner| format!("x{level} := [1][_]; {inner}")),
            nested(depth, |_, inner| format!("walk([1], _); {inner}")),
        ];
        for body in bodies {
            let answer = on_small_stack(|| {
                let source = format!("package t\np if {{ {body} }}");
                if let Err(errors) = compile(&source) {
                    return errors[0].to_string();
                }
                run_here(&source, &Json::Null, LIMITS, &Frozen).brief()
            });
            println!("{depth:>4} {answer:.90} {body:.60}");
        }
    }
}

/// Rules that each need the next, and what they say of themselves.
fn chain(length: usize, rule: impl Fn(usize, usize) -> String) -> String {
    let mut source = "package t\np := r0\n".to_owned();
    for at in 0..length {
        writeln!(source, "{}", rule(at, at + 1)).expect("a string");
    }
    write!(source, "r{length} := 1\nf{length}(x) := x\ns{length} contains 1").expect("a string");
    source
}

#[test]
fn long_chains_of_rules_fit_the_stack() {
    for length in [100, 2000] {
        let chains = [
            chain(length, |at, next| format!("r{at} := r{next}")),
            chain(length, |at, next| format!("r{at} := x if {{ x := [y | y := r{next}][_] }}")),
            chain(length, |at, next| format!("r{at} := x if {{ x := r{next} with input as 1 }}")),
            chain(length, |at, next| format!("default r{at} := 2\nr{at} if not r{next} == 3")),
            chain(length, |at, next| {
                format!("r{at} if {{ every x in [1] {{ r{next} != x + 1 }} }}")
            }),
            chain(length, |at, next| format!("r{at} := 1 if r{next} == 2 else := r{next}")),
            chain(length, |at, next| format!("f{at}(x) := f{next}(x)\nr{at} := f0(1)")),
            chain(length, |at, next| {
                format!("f{at}(x) := f{next}(y) if {{ some y in [x] }}\nr{at} := f0(1)")
            }),
            chain(length, |at, next| format!("s{at} contains x if some x in s{next}\nr{at} := s0")),
            chain(length, |at, next| {
                format!("s{at} contains x if {{ x := 1; s{next}[x] }}\nr{at} := s0")
            }),
        ];
        for (kind, source) in chains.iter().enumerate() {
            let outcome = on_small_stack(|| compile(source).map(|_| ()));
            outcome.unwrap_or_else(|errors| panic!("{kind}: {}", errors[0]));
            let run = run(source, &Json::Null, LIMITS);
            println!("{length:>5} {kind} {:>9?} {}", run.taken, run.brief());
            match run.result {
                Ok(value) => assert!(value.is_some(), "{kind}"),
                Err(error) => {
                    assert!(length > 100, "{kind}: {error}");
                    // Frames differ between builds, so a chain may reach the limit of bytes first.
                    let ends = ["nests too deep", "exceeded its budget"];
                    assert!(
                        ends.iter().any(|end| error.mistake.to_string().contains(*end)),
                        "{kind}: {error}"
                    );
                }
            }
        }
    }
}

/// The clock is looked at while a built-in works, not only between statements.
#[test]
fn time_runs_out_within_long_work() {
    let big = "0123456789".repeat(100_000);
    let many: Json = (0..50_000).map(|at| Json::from(format!("k{at}"))).collect();
    let nodes: Json = (0..24)
        .map(|at| {
            let edges: Json = (0..24).map(|to| Json::from(format!("{to}"))).collect();
            (format!("{at}"), edges)
        })
        .collect();
    let input: Json = [("big", big.into()), ("many", many), ("graph", nodes)].into_iter().collect();
    for expression in [
        "numbers.range(1, 1000000000)",
        "net.cidr_expand(\"0.0.0.0/0\")",
        "graph.reachable_paths(input.graph, {\"0\"})",
        "product(numbers.range(1, 100000))",
        "sum([z | some x in numbers.range(1, 100000); some y in numbers.range(1, 100000); z := x * y])",
        "[regex.replace(input.big, \"[0-9]\", \"x\") | some _ in numbers.range(1, 100)]",
        "[regex.match(\"(0|1|2|3|4|5|6|7|8|9)*x\", input.big) | some _ in numbers.range(1, 1000)]",
        "[replace(input.big, \"0\", \"xx\") | some _ in numbers.range(1, 10000)]",
        "[upper(input.big) | some _ in numbers.range(1, 10000)]",
        "[trim(input.big, concat(\"\", input.many)) | some _ in numbers.range(1, 10000)]",
        "[contains(input.big, \"01234567890\") | some _ in numbers.range(1, 100000)]",
        "[indexof(input.big, \"x\") | some _ in numbers.range(1, 100000)]",
        "[count(input.big) | some _ in numbers.range(1, 100000)]",
        "[substring(input.big, 500000, 1) | some _ in numbers.range(1, 100000)]",
        "strings.any_prefix_match(input.many, input.many)",
        "[strings.any_suffix_match(input.many, [\"x\"]) | some _ in numbers.range(1, 10000)]",
        "strings.replace_n({x: \"y\" | some x in input.many}, input.big)",
        "[sort(input.many) | some _ in numbers.range(1, 10000)]",
        "[concat(\"\", input.many) | some _ in numbers.range(1, 10000)]",
        "[json.marshal(input) | some _ in numbers.range(1, 10000)]",
        "[json.unmarshal(input.big) | some _ in numbers.range(1, 10000)]",
        "[yaml.marshal(input.many) | some _ in numbers.range(1, 10000)]",
        "[sprintf(\"%v\", [input.many]) | some _ in numbers.range(1, 10000)]",
        "[crypto.sha256(input.big) | some _ in numbers.range(1, 10000)]",
        "[crypto.hmac.sha256(input.big, \"k\") | some _ in numbers.range(1, 10000)]",
        "[base64.encode(input.big) | some _ in numbers.range(1, 10000)]",
        "[object.subset(input.many, input.many) | some _ in numbers.range(1, 10000)]",
        "[1 | some _ in numbers.range(1, 100000); input.many == [x | some x in input.many]]",
        "[x | some _ in numbers.range(1, 10000); x := {input.many: 1}; x[input.many]]",
        "[x | some _ in numbers.range(1, 100000); x := f(input.many, input.many)]",
        "[1 | some _ in numbers.range(1, 100000); s[input.many]]",
        "[1 | some i in numbers.range(1, 100000); t[[i, input.many]]]",
        "[array.concat(input.many, [1]) | some _ in numbers.range(1, 10000)]",
        "[array.slice(input.many, 1, 40000) | some _ in numbers.range(1, 10000)]",
        "[1 | some _ in numbers.range(1, 100000); glob.match(\"*x*y*z*\", [], input.big)]",
        "regex.globs_match(concat(\"\", [\"a*\" | some _ in numbers.range(1, 200)]), concat(\"\", [\"a*b*\" | some _ in numbers.range(1, 200)]))",
        "[1 | some _ in numbers.range(1, 100000); input.big in {input.big}]",
        "[1 | some _ in numbers.range(1, 100000); walk(input.many, [[], _])]",
        "json.patch({}, [{\"op\": \"add\", \"path\": x, \"value\": input.many} | some x in input.many])",
        "[json.remove(input, [\"many/3\"]) | some _ in numbers.range(1, 100000)]",
        "[x | some _ in numbers.range(1, 100000); x := bits.lsh(1, 100000) * bits.lsh(1, 100000)]",
        "[format_int(bits.lsh(1, 100000), 10) | some _ in numbers.range(1, 1000)]",
        "[x | some _ in numbers.range(1, 100); x := to_number(concat(\"\", [input.big, \"1\"])) + 1]",
    ] {
        let rules = "f(x, y) if x == y\ns contains input.many\nt contains x if { x := input.many }";
        let source = format!("package t\n{rules}\np := {expression}");
        let limits = Limits { steps: u64::MAX, bytes: 1 << 29, time: Duration::from_millis(100) };
        let run = on_small_stack(|| run_here(&source, &input, limits, &Watch(Instant::now())));
        println!("{:>9?} {} {expression}", run.taken, run.brief());
        assert!(run.taken < Duration::from_secs(5), "{expression} took {:?}", run.taken);
    }
}

#[test]
fn every_few_thousand_steps_the_clock_is_seen() {
    let limits = Limits { steps: u64::MAX, bytes: u64::MAX, time: Duration::from_millis(20) };
    let source = "package t\np if { some i in numbers.range(1, 1000000); i < 0 }";
    let clock = CountingClock::default();
    let run = run_here(source, &Json::Null, limits, &clock);
    assert!(run.spent(), "{}", run.brief());
    let message = run.result.expect_err("time").mistake.to_string();
    assert_eq!(message, "evaluation exceeded its time budget of 20 ms");
    assert!(clock.readings() < 30, "looked {} times", clock.readings());
}
