//! Two threads that share one program against two threads that share nothing, and an inventory of
//! 5,000 objects. Needs the public library: set `MODGATE_CONFORMANCE`.
//!
//! Run with `cargo bench -p modgate-rego-corpora --bench scaling`. Both loops run in turn, so that what
//! else the machine does weighs on both; the ratio is that of the medians.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench"
)]

use std::{
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use modgate_rego::value::Arena;
use modgate_rego_corpora::library::{self, Case};
use modgate_value::{Budget, Object, Value as Json};

const CASES: [&str; 3] = [
    "users/suite.yaml:users-and-groups-together/example-disallowed",
    "general/requiredlabels/suite.yaml:must-have-owner/example-disallowed",
    "general/containerlimits/suite.yaml:container-limits/example-disallowed",
];

const THREADS: usize = 2;

/// How long one loop runs, and how many of each kind.
const ROUND: Duration = Duration::from_millis(300);
const ROUNDS: usize = 12;

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    inventory();
    for name in CASES {
        scaling(name);
    }
}

fn cases(name: &str) -> Vec<Case> {
    library::folder().map_or_else(Vec::new, |dir| library::cases(&dir, name).expect("the library"))
}

/// How many violations there are.
fn violations(case: &Case, arena: &Arena) -> Option<usize> {
    let budget = Budget::unlimited();
    case.evaluate(arena, &budget).expect("an evaluation").entry_count()
}

fn scaling(filter: &str) {
    let Some(shared) = cases(filter).into_iter().next() else {
        println!("skipped: {filter} is not here");
        return;
    };
    let own: Vec<Case> = (0..THREADS).filter_map(|_| cases(filter).into_iter().next()).collect();
    let own: Vec<&Case> = own.iter().collect();
    let shared: Vec<&Case> = vec![&shared; THREADS];
    let (mut sharing, mut nothing, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // The first run has the cooler machine.
        let pair = match round % 2 {
            0 => (rate(&shared), rate(&own)),
            _ => {
                let own = rate(&own);
                (rate(&shared), own)
            }
        };
        sharing.push(pair.0);
        nothing.push(pair.1);
        ratios.push(pair.0 / pair.1);
    }
    let (sharing, nothing, ratio) = (median(sharing), median(nothing), median(ratios));
    println!(
        "{filter}: {THREADS} threads, one program {sharing:.0}/s, own programs {nothing:.0}/s, \
         ratio {ratio:.3} (bar 0.95)"
    );
}

/// Evaluations in a second, of all threads together; each has its case and its arena.
fn rate(cases: &[&Case]) -> f64 {
    let start = Barrier::new(cases.len());
    thread::scope(|scope| {
        let threads: Vec<_> = cases
            .iter()
            .map(|case| {
                scope.spawn(|| {
                    let mut arena = Arena::new();
                    start.wait();
                    let begin = Instant::now();
                    let mut count = 0_u32;
                    while begin.elapsed() < ROUND {
                        for _ in 0..32 {
                            arena.reset();
                            std::hint::black_box(violations(case, &arena));
                        }
                        count += 32;
                    }
                    f64::from(count) / begin.elapsed().as_secs_f64()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// `uniqueingresshost` over 5,000 other Ingresses, none of which has the host.
fn inventory() {
    let Some(mut case) = cases("general/uniqueingresshost/").into_iter().next() else {
        println!("skipped: uniqueingresshost is not here");
        return;
    };
    let mut namespaces = Object::default();
    for namespace in 0..50 {
        let ingresses: Object = (0..100)
            .map(|at| {
                let name = format!("ingress-{at}");
                let object = ingress(&name, &format!("ns-{namespace}"), namespace * 100 + at);
                (name, object)
            })
            .collect();
        let kinds: Json = [("Ingress", Json::from(ingresses))].into_iter().collect();
        let versions: Json = [("networking.k8s.io/v1", kinds)].into_iter().collect();
        namespaces.insert(format!("ns-{namespace}"), versions);
    }
    let inventory: Json = [("namespace", Json::from(namespaces))].into_iter().collect();
    case.data = [("inventory", inventory)].into_iter().collect();
    let object = ingress("new", "ns-new", 5_001);
    let review: Json = [
        ("kind", kind()),
        ("name", "new".into()),
        ("namespace", "ns-new".into()),
        ("object", object),
    ]
    .into_iter()
    .collect();
    case.input =
        [("review", review), ("parameters", Object::default().into())].into_iter().collect();
    let mut arena = Arena::new();
    let mut taken = Vec::new();
    for _ in 0..101 {
        arena.reset();
        let begin = Instant::now();
        let found = violations(&case, &arena);
        taken.push(begin.elapsed().as_secs_f64() * 1e3);
        assert_eq!(found, Some(0), "the host is not taken");
    }
    // The same with a host that is taken: the policy does see the inventory.
    let taken_host = ingress("new", "ns-new", 4_321);
    case.input = [(
        "review",
        [
            ("kind", kind()),
            ("name", Json::from("new")),
            ("namespace", "ns-new".into()),
            ("object", taken_host),
        ]
        .into_iter()
        .collect::<Json>(),
    )]
    .into_iter()
    .collect();
    arena.reset();
    assert_eq!(violations(&case, &arena), Some(1), "the host is taken");
    println!("uniqueingresshost, 5,000 Ingresses: {:.3} ms (bar 5 ms)", median(taken));
}

fn kind() -> Json {
    [("group", "networking.k8s.io"), ("version", "v1"), ("kind", "Ingress")]
        .into_iter()
        .map(|(key, value)| (key, Json::from(value)))
        .collect()
}

fn ingress(name: &str, namespace: &str, host: usize) -> Json {
    let text = format!(
        r#"{{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {{"name": "{name}", "namespace": "{namespace}"}},
            "spec": {{"rules": [
                {{"host": "host-{host}.example.com", "http": {{"paths": [{{"path": "/"}}]}}}}]}}}}"#
    );
    Json::from_json(text.as_bytes()).expect("JSON")
}
