//! Every function and operator, called with values made to hurt: what it takes is within its budget.
//!
//! The calls come from the table of functions itself, so a new one is among them. Memory is measured;
//! of processor time the steps are looked at that a call pays for what it reads.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests fail by panicking, and their output says why"
)]

use std::collections::BTreeSet;

use modgate_cel::{Activation, Arena, Env, EvalError, Program, Signature, Type, Val, signatures};
use modgate_value::{Budget, Limits, Value, budget::Frozen};

/// The bytes of a long text, and the elements of a wide list and a wide map.
const LONG: usize = 120_000;
const WIDE: usize = 6_000;

/// The bytes a call may allocate: far fewer than its arguments have.
const BYTES: u64 = 30_000;

/// The steps a call may take.
const STEPS: u64 = 1_000_000;

/// The bytes that every evaluation takes, however small.
const SLACK: u64 = 20_000;

struct Object(Value);

impl Activation for Object {
    fn variable<'a>(&'a self, name: &str) -> Option<Val<'a>> {
        (name == "object").then(|| Val::json(&self.0))
    }
}

fn hostile() -> Object {
    let long = |part: &str| Value::from(part.repeat(LONG / part.len()));
    let wide = |item: &dyn Fn(usize) -> Value| (0..WIDE).map(item).collect::<Value>();
    let deep = (0..9_000).fold(Value::from("a"), |inner, _| [inner].into_iter().collect());
    let members = [
        ("long", long("a")),
        ("unicode", long("\u{e9}")),
        ("escapes", long("\u{1}")),
        ("commas", long(",")),
        ("digits", long("9")),
        ("dots", long("1.")),
        ("formats", long("%s")),
        ("percent", long("%61")),
        ("labels", Value::from(format!("1.0.0-{}", "a.".repeat(LONG / 2)))),
        (
            "url",
            Value::from(format!(
                "http://{}/{}?{}",
                "%C3".repeat(1_000),
                "a b".repeat(LONG / 3),
                "a=%61&".repeat(LONG / 6)
            )),
        ),
        ("pattern", Value::from("(a|b)".repeat(LONG / 5))),
        ("letters", "[a-z]{500}".into()),
        ("classes", "\\pL{400}".into()),
        ("properties", long("\\pL|")),
        ("folded", long("(?i)[\\x{100}-\\x{10ffff}]|\\W|")),
        ("counted", "(((a{100}){100}){100}){100}".into()),
        ("texts", wide(&|_| "abcdefgh".into())),
        ("numbers", wide(&|index| Value::from(i64::try_from(index).unwrap_or(0)))),
        ("same", wide(&|_| 1.into())),
        ("lists", wide(&|_| [1, 2, 3].into_iter().map(Value::from).collect())),
        ("longs", [long("a"), long("a"), long("a")].into_iter().collect()),
        ("map", (0..WIDE).map(|index| (format!("k{index}"), Value::from(1))).collect()),
        ("deep", deep),
    ];
    Object(members.into_iter().collect())
}

/// Hostile expressions of a type.
fn arguments(ty: &Type) -> Vec<String> {
    let texts = [
        "long",
        "unicode",
        "escapes",
        "commas",
        "digits",
        "dots",
        "formats",
        "percent",
        "labels",
        "url",
        "pattern",
        "counted",
        "letters",
        "classes",
        "properties",
        "folded",
    ];
    let texts = || texts.iter().map(|name| format!("object.{name}")).collect::<Vec<_>>();
    let fixed = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match ty.to_string().as_str() {
        "string" => {
            let mut all = texts();
            all.extend(fixed(&[
                "'a'",
                "''",
                "'(a*)*'",
                "'%.1000f%.4294967295e'",
                "'1e2147483647'",
                "'1e-2147483648'",
                "'0x1p-9999999999'",
                "'[a-z]{500}'",
                "'\\\\pL{400}'",
            ]));
            all
        }
        "bytes" => fixed(&["bytes(object.long)", "b''"]),
        "bool" => fixed(&["true"]),
        "int" => fixed(&["0", "9223372036854775807", "-9223372036854775808", "9999999", "1"]),
        "uint" => fixed(&["18446744073709551615u"]),
        "double" => fixed(&["1.7976931348623157e308", "5e-324", "double('NaN')"]),
        "timestamp" => fixed(&["timestamp('9999-12-31T23:59:59Z')"]),
        "duration" => fixed(&["duration('-2562047h')"]),
        "null" => fixed(&["null"]),
        "kubernetes.Quantity" => fixed(&[
            "quantity('1e2000000000')",
            "quantity('1e-9')",
            "quantity('12345678901234567890')",
        ]),
        "kubernetes.Semver" => fixed(&["semver('1.0.0-a.b.c')"]),
        "kubernetes.URL" => fixed(&["url('http://a/b?c=d')"]),
        "net.IP" => fixed(&["ip('::1')"]),
        "net.CIDR" => fixed(&["cidr('::/0')"]),
        "kubernetes.NamedFormat" => fixed(&[
            "format.uri()",
            "format.byte()",
            "format.dns1123Subdomain()",
            "format.qualifiedName()",
        ]),
        "list(string)" => fixed(&["object.texts", "object.longs"]),
        "list(dyn)" => fixed(&[
            "object.texts",
            "object.numbers",
            "object.same",
            "object.deep",
            "object.longs",
            "object.lists",
            "[object.numbers, object.texts]",
        ]),
        "list(list(dyn))" => fixed(&["object.lists", "object.deep"]),
        other if other.starts_with("list(") => {
            fixed(&["object.numbers", "object.same", "object.texts"])
        }
        other if other.starts_with("map(") => fixed(&["object.map"]),
        other if other.starts_with("optional_type(list") => fixed(&["optional.of(object.numbers)"]),
        other if other.starts_with("optional_type(map") => fixed(&["optional.of(object.map)"]),
        other if other.starts_with("optional_type") => fixed(&["optional.of(object.deep)"]),
        _ => fixed(&[
            "object.long",
            "object.numbers",
            "object.map",
            "object.deep",
            "object.longs",
            "1",
        ]),
    }
}

/// The calls of a function: each hostile argument in each place, the others in turn.
fn calls(signature: &Signature) -> Vec<String> {
    if signature.args.iter().any(|arg| arg.to_string().contains("authorization")) {
        return Vec::new();
    }
    let columns: Vec<_> = signature.args.iter().map(arguments).collect();
    let most = columns.iter().map(Vec::len).max().unwrap_or(1);
    let mut all = Vec::new();
    for turn in 0..most {
        for shift in 0..columns.len().max(1) {
            let args: Vec<_> = columns
                .iter()
                .enumerate()
                .map(|(place, column)| column[(turn + shift * place) % column.len()].as_str())
                .collect();
            all.push(written(signature, &args));
        }
    }
    all.sort();
    all.dedup();
    all
}

/// The calls of a function with each pair of hostile arguments, beside the first of the others.
fn pairs(signature: &Signature) -> Vec<String> {
    if signature.args.iter().any(|arg| arg.to_string().contains("authorization")) {
        return Vec::new();
    }
    let columns: Vec<_> = signature.args.iter().map(arguments).collect();
    let mut all = Vec::new();
    for (second, others) in columns.iter().enumerate() {
        for first in 0..second {
            for (one, other) in
                columns[first].iter().flat_map(|one| others.iter().map(move |other| (one, other)))
            {
                let mut args: Vec<&str> = columns.iter().map(|column| column[0].as_str()).collect();
                args[first] = one;
                args[second] = other;
                all.push(written(signature, &args));
            }
        }
    }
    all.sort();
    all.dedup();
    all
}

fn written(signature: &Signature, args: &[&str]) -> String {
    let args: Vec<_> = args.iter().map(|arg| format!("dyn({arg})")).collect();
    match (signature.name, args.as_slice()) {
        ("_?_:_", [a, b, c]) => format!("{a} ? {b} : {c}"),
        ("_[_]", [a, b]) => format!("{a}[{b}]"),
        ("_[?_]", [a, b]) => format!("{a}[?{b}]"),
        ("@in", [a, b]) => format!("{a} in {b}"),
        ("@sortByAssociatedKeys", [a, _]) => format!("{a}.sortBy(x, x)"),
        ("!_" | "-_", [a]) => format!("{}{a}", signature.name.trim_end_matches('_')),
        (name, [a, b]) if name.starts_with('_') => format!("{a} {} {b}", name.trim_matches('_')),
        (name, [target, rest @ ..]) if signature.member => {
            format!("{target}.{name}({})", rest.join(", "))
        }
        (name, args) => format!("{name}({})", args.join(", ")),
    }
}

/// The resources an evaluation took.
struct Taken {
    result: Result<(), EvalError>,
    /// The most that was allocated at once.
    peak: u64,
    steps: u64,
}

fn taken(expression: &str, object: &Object, limits: Limits) -> Option<Taken> {
    let program =
        Program::compile(expression, &Env::new().with("object", Type::Dyn).with_patches()).ok()?;
    let clock = Frozen;
    let budget = Budget::new(limits, &clock);
    let mut result = Ok(());
    let measured = allocation_counter::measure(|| {
        let arena = Arena::new();
        result = program.eval(object, &arena, &budget, u64::MAX).map(drop);
    });
    Some(Taken { result, peak: measured.bytes_max, steps: budget.steps_spent() })
}

#[test]
fn every_function_stays_within_twice_its_memory() {
    let (tried, names) = stay_within_twice_their_memory(calls);
    assert!(tried > 800 && names > 120, "{tried} calls of {names} functions");
}

#[test]
#[ignore = "takes minutes: every pair of arguments, before a release"]
fn every_pair_of_arguments_stays_within_twice_its_memory() {
    stay_within_twice_their_memory(pairs);
}

/// Returns the numbers of calls and of functions.
fn stay_within_twice_their_memory(calls: fn(&Signature) -> Vec<String>) -> (usize, usize) {
    let object = hostile();
    let limits = Limits { bytes: BYTES, steps: STEPS, ..Limits::UNLIMITED };
    // Tables that are made once, by the first call that needs them, are not part of any.
    let _ = taken(r"cidr('\u00e9\u0001')", &object, limits);
    let (mut tried, mut names, mut wrong) = (0, Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for signature in signatures() {
        for call in calls(&signature) {
            if !seen.insert(call.clone()) {
                continue;
            }
            let Some(taken) = taken(&call, &object, limits) else { continue };
            tried += 1;
            names.push(signature.name);
            if taken.peak > 2 * BYTES + SLACK {
                wrong.push(format!("{call}: {} bytes", taken.peak));
            }
            if let Err(error) = taken.result
                && error.to_string().len() > 5_000
            {
                wrong.push(format!("{call}: an error of {} bytes", error.to_string().len()));
            }
        }
    }
    names.dedup();
    assert!(wrong.is_empty(), "{} of {tried} calls:\n{}", wrong.len(), wrong.join("\n"));
    (tried, names.len())
}

/// Where nothing but time ends a call, time does.
#[test]
fn every_function_ends_with_its_time() {
    end_with_their_time(calls);
}

#[test]
#[ignore = "takes minutes: every pair of arguments, before a release"]
fn every_pair_of_arguments_ends_with_its_time() {
    end_with_their_time(pairs);
}

fn end_with_their_time(calls: fn(&Signature) -> Vec<String>) {
    let object = hostile();
    let (mut seen, mut all) = (BTreeSet::new(), Vec::new());
    for call in signatures().iter().flat_map(calls) {
        let environment = Env::new().with("object", Type::Dyn).with_patches();
        let Ok(program) = Program::compile(&call, &environment) else { continue };
        if seen.insert(call.clone()) {
            let spent = modgate_corpus::spent(16 << 20, |budget| {
                let _ = program.eval(&object, &Arena::new(), budget, u64::MAX).map(drop);
            });
            all.push((spent, call));
        }
    }
    all.sort_unstable_by(|one, other| other.cmp(one));
    println!("{} calls; the slowest: {:#?}", all.len(), all.get(..12));
    let over: Vec<_> = all.iter().filter(|call| call.0 > modgate_corpus::allowed()).collect();
    assert!(over.is_empty(), "{over:#?}");
}

/// Functions that read none of their long arguments, or only as much as they return.
const CONSTANT: &[&str] = &[
    "_?_:_",
    "_&&_",
    "_||_",
    "!_",
    "-_",
    "_[_]",
    "_[?_]",
    "type",
    "dyn",
    "bool",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "hasValue",
    "value",
    "or",
    "orValue",
    "first",
    "last",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    "charAt",
    "substring",
    "slice",
    "format.named",
    // The size is known, or the first element decides.
    "size",
    "sets.intersects",
    "string",
    "timestamp",
    "duration",
    "bytes",
];

/// Long texts cost a step for every 128 bytes at least, wide lists one for every 16 elements.
#[test]
fn every_function_pays_for_what_it_reads() {
    let object = hostile();
    let wrong: Vec<_> = signatures()
        .iter()
        .filter(|signature| !CONSTANT.contains(&signature.name))
        .flat_map(|signature| {
            let long = |ty: &Type| match ty.to_string().as_str() {
                "string" => Some(("object.long", LONG / 128)),
                "bytes" => Some(("bytes(object.long)", LONG / 128)),
                "list(string)" => Some(("object.texts", WIDE / 16)),
                name if name.starts_with("list(list") => Some(("object.lists", WIDE / 16)),
                name if name.starts_with("list(") => Some(("object.numbers", WIDE / 16)),
                _ => None,
            };
            let args: Option<Vec<_>> = signature.args.iter().map(long).collect();
            let args = args.filter(|args| !args.is_empty())?;
            let texts: Vec<_> = args.iter().map(|(text, _)| *text).collect();
            let call = written(signature, &texts);
            let limits = Limits { steps: STEPS, ..Limits::UNLIMITED };
            let taken = taken(&call, &object, limits)?;
            let least = args.iter().map(|(_, steps)| *steps as u64).min()?;
            let error = taken.result.as_ref().err().map(ToString::to_string);
            let fails = error.is_some_and(|error| error.starts_with("no such overload"));
            (taken.steps < least && !fails).then(|| {
                format!("{call}: {} of {least} steps: {:?}", taken.steps, taken.result.err())
            })
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
