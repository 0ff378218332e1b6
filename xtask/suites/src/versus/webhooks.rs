//! Webhooks over TLS: Gatekeeper's with the library, KubeMod's with rules.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_e2e::originals::{
    Compared, Library, Served, ask, compare, documents, is_plausible, kubectl, namespaces, prepare,
};
use modgate_value::{Value, yaml};

use super::{Answers, CONNECTIONS, Report, cluster, say};
use crate::load::{
    self, Expected, ProcessFigures, Request, Target, fixture_review, fixture_rule, library,
};

/// The figures of one side under one load.
struct Load {
    rate: f64,
    p99: f64,
    /// Processor time of the program for each review, in milliseconds.
    processor: f64,
}

/// The answers and figures of one side.
struct Side {
    answers: Vec<Value>,
    loads: Vec<Load>,
    /// The most memory, in MB.
    peak: f64,
}

/// The loads: name and review.
type Loads<'l> = [(&'l str, &'l Value)];

fn side(
    seconds: u64,
    served: &Served,
    (route, any_order): (&str, bool),
    reviews: &[Value],
    loads: &Loads<'_>,
) -> Result<Side> {
    let mut connection = served.connect()?;
    let answers: Result<Vec<Value>> =
        reviews.iter().map(|review| ask(&mut connection, route, review)).collect();
    let loads: Result<Vec<Load>> = loads
        .iter()
        .map(|(what, review)| {
            say(what);
            put(seconds, served, (route, any_order), review).with_context(|| (*what).to_owned())
        })
        .collect();
    Ok(Side { answers: answers?, loads: loads?, peak: megabytes(read(served)?.peak_kib) })
}

fn put(
    seconds: u64,
    served: &Served,
    (route, any_order): (&str, bool),
    review: &Value,
) -> Result<Load> {
    let target = Target::resolve(&served.address.to_string(), route)?;
    let request = Request::prepare(&target, review.to_json().as_bytes())?;
    let drive = |seconds| {
        let (start, duration) = (Instant::now(), Duration::from_secs(seconds));
        let expected = Expected { allowed: None, patch: None, any_order };
        load::drive(&target, &request, &expected, CONNECTIONS, (start, start + duration))
    };
    drive(1)?;
    let before = read(served)?.cpu;
    let outcomes = drive(seconds)?;
    let busy = read(served)?.cpu.saturating_sub(before);
    let mut latencies = Vec::new();
    for outcome in outcomes {
        if let Some(error) = outcome.first_error {
            bail!("a review failed: {error}");
        }
        latencies.extend(outcome.latencies);
    }
    latencies.sort_unstable();
    let count = load::count(latencies.len());
    Ok(Load {
        rate: count / Duration::from_secs(seconds).as_secs_f64(),
        p99: load::percentile(&latencies, 0.99),
        processor: busy.as_secs_f64() * 1000.0 / count.max(1.0),
    })
}

fn read(served: &Served) -> Result<ProcessFigures> {
    ProcessFigures::read(served.id()).context("the kernel has no figures of the process")
}

/// Kibibytes as megabytes.
pub(super) fn megabytes(kib: usize) -> f64 {
    load::count(kib) * 1.024 / 1000.0
}

fn add(
    report: &mut Report,
    name: &'static str,
    reviews: &[Value],
    loads: &Loads<'_>,
    (theirs, ours): (&Side, &Side),
) {
    let mut answers = Answers::of(&format!("{name}'s webhook, {}", loads_name(loads)));
    for ((review, theirs), ours) in reviews.iter().zip(&theirs.answers).zip(&ours.answers) {
        match compare(review, theirs, ours) {
            Compared::Equal => answers.equal += 1,
            Compared::Declared(id) => *answers.declared.entry(id).or_default() += 1,
            Compared::Different => answers
                .different
                .push(format!("{review}\n  original: {theirs}\n  modgate:  {ours}")),
        }
    }
    report.answers.push(answers);
    for (((what, _), theirs), ours) in loads.iter().zip(&theirs.loads).zip(&ours.loads) {
        let text = |end: &str| format!("{what}: {end}");
        report.row(name, &text("reviews"), "/s", (theirs.rate, ours.rate));
        report.row(name, &text("99th percentile"), "ms", (theirs.p99, ours.p99));
        let pair = (theirs.processor, ours.processor);
        report.row(name, &text("processor time of each"), "ms", pair);
    }
    let what = format!("{}: most memory", loads_name(loads));
    report.row(name, &what, "MB", (theirs.peak, ours.peak));
}

/// The common part of the names of loads of one pair of sides.
fn loads_name<'l>(loads: &Loads<'l>) -> &'l str {
    let name = loads.first().map_or("", |(name, _)| name);
    name.split_once(',').map_or(name, |(policies, _)| policies)
}

/// Gatekeeper's webhook with the library: 49 templates, 75 constraints.
pub(super) fn gatekeeper(
    seconds: u64,
    program: &Path,
    binary: &Path,
    policies: &Library,
    report: &mut Report,
) -> Result<()> {
    let [pod, deployment] = library::reviews();
    let mut reviews = policies.samples()?;
    // What Gatekeeper's Rego sees of a deletion depends on chance (GK-Q-12).
    let deletes =
        |it: &Value| it.path(&["request", "operation"]).and_then(Value::as_str) == Some("DELETE");
    reviews.retain(|review| is_plausible(review) && !deletes(review));
    reviews.extend([pod.clone(), deployment.clone()]);
    let loads = [("library, Pod", &pod), ("library, Deployment", &deployment)];
    let cluster = cluster()?;
    let names = namespaces(&reviews);
    prepare(&cluster, &names.iter().map(String::as_str).collect::<Vec<_>>())?;
    policies.install(&cluster)?;
    let run = |mut served: Served| {
        policies.loaded(&mut served)?;
        side(seconds, &served, ("/v1/admit", false), &reviews, &loads)
    };
    say("Gatekeeper");
    let theirs = run(Served::gatekeeper(program, &cluster, &["webhook"], &[])?)?;
    say("modgate");
    let ours = run(Served::modgate(binary, &cluster, &["webhook"], &[])?)?;
    add(report, "Gatekeeper", &reviews, &loads, (&theirs, &ours));
    Ok(())
}

const ROUTE: &str = "/dragnet-webhook";

/// KubeMod's webhook with rules, one in five of which patches the Deployment.
pub(super) fn kubemod(
    seconds: u64,
    program: &Path,
    binary: &Path,
    report: &mut Report,
) -> Result<()> {
    // KubeMod reads this version only.
    let text = fixture_review().to_json().replace("k8s.io/v1\"", "k8s.io/v1beta1\"");
    let review = Value::from_json(text.as_bytes())?;
    let reviews = std::slice::from_ref(&review);
    let cluster = cluster()?;
    prepare(&cluster, &["shop"])?;
    for (what, count) in [("10 ModRules", 10_usize), ("100 ModRules", 100)] {
        // No two rules may change one member: KubeMod applies rules of one tier in no certain order.
        let rule = |index| fixture_rule(index).replace("workingDir", &format!("dir{index}"));
        let rules: Result<Vec<Value>, _> =
            (0..count).map(|index| yaml::value(&rule(index))).collect();
        kubectl(&cluster, "apply --server-side -f -", &documents(&rules?))?;
        let loads = [(what, &review)];
        let run = |mut served: Served, any_order| {
            // KubeMod is ready before it has read a rule.
            served.until("the rules are in force", |served| {
                let answer = ask(&mut served.connect()?, ROUTE, &review)?;
                Ok(patching(&answer) == count / 5)
            })?;
            side(seconds, &served, (ROUTE, any_order), reviews, &loads)
        };
        say("KubeMod");
        // Each patch of KubeMod has its operations in an order of its own.
        let theirs = run(Served::kubemod(program, &cluster)?, true)?;
        say("modgate");
        let ours = run(Served::modgate(binary, &cluster, &["mutation-webhook"], &[])?, false)?;
        add(report, "KubeMod", reviews, &loads, (&theirs, &ours));
    }
    Ok(())
}

/// How many of the rules left their annotation in the patch of an answer.
fn patching(answer: &Value) -> usize {
    let patch = answer.get("patch").and_then(Value::as_str).unwrap_or_default();
    let patch = STANDARD.decode(patch).unwrap_or_default();
    String::from_utf8_lossy(&patch).matches("seen in").count()
}
