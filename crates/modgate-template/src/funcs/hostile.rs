//! Every function and method of the tables on arguments made to hurt: none takes more than twice
//! the memory its budget allows, or the stack of a thread, none goes on once its time is over, and none
//! panics. The slowest calls are printed and not compared, because other work delays them.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "a test")]

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::{LazyLock, Mutex},
    time::{Duration, Instant},
};

use allocation_counter::measure;
use modgate_corpus::CountingClock;
use modgate_value::{
    Budget, Limits, MAX_JSON_DEPTH, Value,
    go::{
        der::{INTEGER, SEQUENCE, element},
        pem,
    },
};
use num_bigint::BigUint;

use super::{Function, SPRIG, Ty, builtin, methods};
use crate::{Env, Host, Refused, Template};

const LIMITS: Limits = Limits { steps: 200_000, bytes: 1 << 20, time: Duration::from_millis(400) };

/// The allowance of a call beside its budget: the machinery, and tables of expressions of ours that
/// are made once.
const ALLOWANCE: u64 = 256 << 10;

/// As many rounds bring each pair of arguments together: the longest list of arguments is shorter.
const PAIRS: usize = 64;

/// How many calls of one function.
const CALLS: usize = 24;

struct Outside(Cell<u8>);

impl Host for Outside {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(Duration::from_secs(1_700_000_000))
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            self.0.set(self.0.get().wrapping_mul(73).wrapping_add(41));
            *byte = self.0.get();
        }
        Ok(())
    }

    fn resolve_host(&self, name: &str) -> Result<Option<String>, Refused> {
        Ok(Some(name.to_owned()))
    }
}

/// An RSA key whose first prime and public exponent have this many bits; the second prime is 3.
fn rsa_key(prime: u64, exponent: u64) -> Value {
    let one = BigUint::from(1u8);
    let ones = |bits: u64| (&one << bits) - &one;
    let (p, q) = ((&one << prime) + &one, BigUint::from(3u8));
    let numbers = [BigUint::ZERO, &p * &q, ones(exponent), ones(prime), p, q];
    let integer = |number: &BigUint| element(INTEGER, &[&[0], &*number.to_bytes_be()].concat());
    let numbers: Vec<u8> = numbers.iter().flat_map(integer).collect();
    Value::from(pem::encode("RSA PRIVATE KEY", &element(SEQUENCE, &numbers)))
}

/// Texts, lists and maps that templates find in their data, by name.
fn data() -> Value {
    const SIZE: usize = 120 << 10;
    let fill = |part: &str| Value::from(part.repeat(SIZE / part.len()));
    let nested = |open: &str, close: &str, levels: usize| {
        Value::from(format!("{}1{}", open.repeat(levels), close.repeat(levels)))
    };
    let deep = |open: &str, close: &str| {
        let levels = MAX_JSON_DEPTH / open.matches(['[', '{']).count() - 2;
        let text = format!("{}1{}", open.repeat(levels), close.repeat(levels));
        Value::from_json_nested(text.as_bytes(), MAX_JSON_DEPTH).expect("JSON")
    };
    let numbers = || (0..10_000).map(Value::from);
    let certificate = "-----BEGIN CERTIFICATE-----\n".to_owned() + &"QUJD\n".repeat(20_000);
    [
        ("letters", fill("x")),
        ("words", fill("a b ")),
        ("lines", fill("a\n")),
        ("escapes", fill("\u{1}<\"\\")),
        ("wide", fill("\u{10FFFF}é")),
        ("zeros", fill("0")),
        ("hex", fill("0x1")),
        ("alternatives", fill(">1 || ")),
        ("ranges", fill("1 - 2 ")),
        ("comparisons", fill(">=1.2.x,")),
        ("dots", fill("1.")),
        ("pre", fill("1.0.0-a.")),
        ("semver", Value::from(format!("1.0.0-{}", "a.".repeat(60_000) + "b"))),
        ("verbs", fill("%v%+v%#v")),
        ("width", Value::from("%999999d%*d%.999999f%q")),
        ("layout", fill("Monday January ")),
        ("units", fill("1h1m1s")),
        ("json", nested("[", "]", 50_000)),
        ("braces", nested(r#"{"a":"#, "}", 500)),
        ("brackets", nested("[", "]", 500)),
        ("elements", fill("[],")),
        ("array", Value::from(format!("[{}1]", "1,".repeat(60_000)))),
        ("pairs", Value::from(format!("[{}1]", "{\"a\":[]},".repeat(12_000)))),
        ("pattern", Value::from("(((((a{9}){9}){9}){9})*|x*)*")),
        ("class", fill(r"\pL|")),
        ("folded", fill(r"(?i)[\x{100}-\x{10ffff}]|\W|")),
        ("groups", fill("(x)?")),
        ("any", Value::from("(.*)*|.*?|")),
        ("empty", Value::from("")),
        ("one", Value::from("1")),
        ("template", fill("${0}$0")),
        ("path", fill("../a/")),
        ("base", fill("QUJD")),
        (
            "url",
            Value::from(format!("http://u:p@h/{}?{}#f", "a/".repeat(30_000), "a=b&".repeat(9_000))),
        ),
        ("percent", fill("%41")),
        ("pem", Value::from(certificate)),
        ("longkey", rsa_key(8_000, 2)),
        ("longexponent", rsa_key(1_000, 300_000)),
        ("longprime", rsa_key(300_000, 2)),
        ("list", Value::from_iter(numbers())),
        ("texts", (0..5_000).map(|_| Value::from("some text or other")).collect()),
        ("lists", (0..5_000).map(|_| Value::from_iter([Value::from(1)])).collect()),
        ("same", (0..3_000).map(|_| Value::from_iter(numbers().take(3))).collect()),
        ("map", numbers().map(|n| (n.to_json(), n)).collect()),
        ("maps", (0..3_000).map(|n| Value::from_iter([(n.to_string(), Value::Null)])).collect()),
        ("deeplist", deep("[", "]")),
        ("deepmap", deep(r#"{"a":"#, "}")),
        ("deepmix", deep(r#"{"a":["#, "]}").get("a").cloned().unwrap_or_default()),
        ("small", Value::from_json(br#"{"a": {"b": [1, "x", null]}}"#).expect("JSON")),
    ]
    .into_iter()
    .collect()
}

static DATA: LazyLock<Value> = LazyLock::new(data);

/// Expressions of the type a parameter has.
fn arguments(ty: Ty) -> Vec<String> {
    let of = |wanted: fn(&Value) -> bool| {
        let members = DATA.as_object().into_iter().flatten();
        members.filter(move |(_, value)| wanted(value)).map(|(key, _)| format!(".{key}"))
    };
    let literal = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    match ty {
        Ty::Any | Ty::Value => of(|_| true)
            .chain(
                ["nil", "-1", "1e300", "now", "(fromJson .braces)", "(fromJson .brackets)"]
                    .map(str::to_owned),
            )
            .collect(),
        Ty::Text => of(|value| value.as_str().is_some()).collect(),
        Ty::Bool => literal(&["true", "false"]),
        Ty::Int => literal(&[
            "0",
            "1",
            "-1",
            "3",
            "9223372036854775807",
            "-9223372036854775808",
            "1000000",
            "4096",
        ]),
        Ty::Uint32 => literal(&["0", "4294967295", "1"]),
        Ty::Float => literal(&["0.0", "1e308", "-1.5", "5e-324"]),
        Ty::Map => of(|value| value.as_object().is_some())
            .chain(["(fromJson .braces)".to_owned()])
            .collect(),
        Ty::List => of(|value| value.as_array().is_some())
            .chain(["(fromJson .brackets)".to_owned()])
            .collect(),
        Ty::Time => literal(&["now", "(now.AddDate 100000 1 1)"]),
        Ty::Duration => literal(&["(now.Sub now)"]),
        Ty::Version => literal(&["(semver .semver)", "(semver \"1.2.3\")"]),
        Ty::Certificate => literal(&["(genCA \"x\" 1)"]),
    }
}

/// Calls with arguments that go through all of those of the last parameter, and in strides
/// through those of the others, which begin at another one in each round.
fn calls(function: &Function, receiver: Option<&str>, round: usize) -> Vec<String> {
    let extra = if function.variadic { 2 } else { 0 };
    let count = function.fixed() + extra;
    let pools: Vec<Vec<String>> =
        (0..count).map(|index| arguments(function.param(index))).collect();
    let longest = pools.iter().map(Vec::len).max().unwrap_or(1).max(CALLS);
    // Every other argument of the pools is for functions of even, or odd, names.
    let calls = (function.name.len() % 2..longest).step_by(2).map(|at| {
        let mut call = match receiver {
            Some(receiver) => format!("({receiver}).{}", function.name),
            None => function.name.to_owned(),
        };
        for (index, pool) in pools.iter().enumerate() {
            // The last parameter, mostly the text worked on, goes through its whole pool; the
            // others take another step each time.
            let stride = if index + 1 == count { 1 } else { 7 + 2 * index };
            let begin = if index + 1 == count { 0 } else { round * (index + 1) };
            let argument = pool.get((at * stride + at / pool.len() + begin) % pool.len());
            call.extend([" ", argument.map_or("nil", String::as_str)]);
        }
        call
    });
    calls.collect()
}

fn all_calls(round: usize) -> Vec<String> {
    let functions = SPRIG.iter().flat_map(|group| group.iter()).chain(builtin::FUNCTIONS);
    let mut all: Vec<String> =
        functions.flat_map(|function| calls(function, None, round)).collect();
    for (receiver, methods) in [
        ("now", methods::TIME),
        ("now.Sub now", methods::DURATION),
        ("now.Month", methods::NAMED),
        ("semver .semver", methods::VERSION),
    ] {
        all.extend(methods.iter().flat_map(|method| calls(method, Some(receiver), round)));
    }
    if round > 0 {
        return all;
    }
    for key in ["longkey", "longexponent", "longprime"] {
        all.extend([
            format!("genCAWithKey .words 1 .{key}"),
            format!("genSelfSignedCertWithKey .letters (list \"1.1.1.1\") .texts 9 .{key}"),
            format!("genSignedCertWithKey \"x\" .list .texts 9 (genCA \"x\" 1) .{key}"),
        ]);
    }
    all.extend(["rsa", "dsa", "ecdsa", "ed25519"].map(|kind| format!("genPrivateKey \"{kind}\"")));
    all
}

/// The cost of one call.
struct Taken {
    call: String,
    bytes: u64,
    allocations: u64,
    looks: u64,
    time: Duration,
}

fn run(call: &str) -> Taken {
    let text = format!("{{{{ $x := {call} }}}}{{{{ $x }}}}");
    let template = Template::parse("x", &text).unwrap_or_else(|error| panic!("{call}: {error}"));
    let host = Outside(Cell::new(0));
    let clock = CountingClock::default();
    let start = Instant::now();
    let taken = measure(|| {
        let budget = Budget::new(LIMITS, &clock);
        let _ = template.render_bytes(&*DATA, &Env { budget: &budget, host: &host });
    });
    Taken {
        call: call.to_owned(),
        bytes: taken.bytes_max,
        allocations: taken.count_total,
        looks: clock.readings(),
        time: start.elapsed(),
    }
}

impl Taken {
    /// Its error.
    fn excess(&self) -> Option<String> {
        let Self { call, bytes, allocations, looks, .. } = self;
        // Each look is a millisecond to the budget: no call goes on once the time is over.
        let is_over = *bytes > 2 * LIMITS.bytes + ALLOWANCE
            || *allocations > 4 * LIMITS.steps
            || *looks > 500;
        is_over.then(|| format!("{bytes} bytes, {allocations} allocations, {looks} looks: {call}"))
    }
}

#[test]
fn no_function_takes_more_than_its_budget() {
    keep_to_their_budgets(&all_calls(0));
}

#[test]
#[ignore = "takes minutes: every pair of arguments, before a release"]
fn no_pair_of_arguments_takes_more_than_its_budget() {
    let calls: BTreeSet<String> = (1..PAIRS).flat_map(all_calls).collect();
    keep_to_their_budgets(&calls.into_iter().collect::<Vec<_>>());
}

fn keep_to_their_budgets(calls: &[String]) {
    let next = Mutex::new(calls.iter());
    let done: Mutex<Vec<Taken>> = Mutex::default();
    let work = || {
        loop {
            let call = next.lock().expect("no panic").next();
            let Some(call) = call else { return };
            let mut taken = run(call);
            if taken.excess().is_some() {
                // Tables that are made once do not count.
                taken = run(call);
            }
            done.lock().expect("no panic").push(taken);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let thread = std::thread::Builder::new().stack_size(2 << 20);
            thread.spawn_scoped(scope, work).expect("a thread");
        }
    });
    let mut done = done.into_inner().expect("no panic");
    done.sort_by_key(|taken| std::cmp::Reverse(taken.time));
    println!("{} calls; the slowest:", done.len());
    for Taken { call, looks, bytes, time, .. } in done.iter().take(12) {
        println!("  {time:?}, {looks} looks, {bytes} bytes: {call}");
    }
    let name = |call: &str| call.split(' ').next().unwrap_or_default().to_owned();
    let found: BTreeMap<String, String> =
        done.iter().filter_map(|taken| Some((name(&taken.call), taken.excess()?))).collect();
    let lines: Vec<&String> = found.values().collect();
    assert!(found.is_empty(), "{} of {} calls: {lines:#?}", lines.len(), calls.len());
}

/// Where nothing but time ends a call, time does.
#[test]
fn every_function_ends_with_its_time() {
    end_with_their_time(all_calls(0));
}

#[test]
#[ignore = "takes minutes: every pair of arguments, before a release"]
fn every_pair_of_arguments_ends_with_its_time() {
    let calls: BTreeSet<String> = (1..PAIRS).flat_map(all_calls).collect();
    end_with_their_time(calls.into_iter().collect());
}

fn end_with_their_time(calls: Vec<String>) {
    let mut calls: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let text = format!("{{{{ $x := {call} }}}}{{{{ $x }}}}");
            let template = Template::parse("x", &text).expect(&call);
            let host = Outside(Cell::new(0));
            let spent = modgate_corpus::spent(16 << 20, |budget| {
                let _ = template.render_bytes(&*DATA, &Env { budget, host: &host });
            });
            (spent, call)
        })
        .collect();
    calls.sort_unstable_by(|one, other| other.cmp(one));
    println!("{} calls; the slowest: {:#?}", calls.len(), calls.get(..12));
    let over: Vec<_> = calls.iter().filter(|call| call.0 > modgate_corpus::allowed()).collect();
    assert!(over.is_empty(), "{over:#?}");
}
