//! The first audit of the same cluster.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use modgate_e2e::originals::{Library, Served, documents, kubectl, prepare};
use modgate_value::Value;

use super::{Answers, Report, cluster, say, webhooks::megabytes};
use crate::load::{ProcessFigures, cpu_model, library};

/// Pods in the cluster, and Deployments.
const OBJECTS: [usize; 2] = [500, 100];
/// Of both: the first audit begins so long after the start, and constraints list all of their violations.
const FLAGS: [&str; 2] = ["--audit-interval=60", "--constraint-violations-limit=5000"];
const OPERATIONS: [&str; 2] = ["audit", "status"];
const DURATION: &str = "gatekeeper_audit_duration_seconds";
/// How long the statuses may take after the audit.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The audit of one side.
struct Audited {
    seconds: f64,
    processor: f64,
    peak: f64,
    violations: Vec<String>,
    /// The times of the audit in the statuses of the constraints.
    times: BTreeSet<String>,
}

pub(super) fn run(
    program: &Path,
    binary: &Path,
    policies: &Library,
    report: &mut Report,
) -> Result<()> {
    let cluster = cluster()?;
    prepare(&cluster, &[])?;
    policies.install(&cluster)?;
    let [pods, deployments] = OBJECTS;
    say(&format!("{pods} Pods and {deployments} Deployments"));
    let all = (0..pods).map(|at| library::pod_named(&format!("pod-{at}")));
    let all = all.chain((0..deployments).map(|at| library::deployment_named(&format!("web-{at}"))));
    kubectl(&cluster, "create -f -", &documents(&all.collect::<Vec<_>>()))?;
    let list = || kubectl(&cluster, "get constraint -o json", "");
    say("Gatekeeper");
    let served = Served::gatekeeper(program, &cluster, &OPERATIONS, &FLAGS)?;
    let theirs = audited(served, policies, &BTreeSet::new(), list).context("Gatekeeper")?;
    say("modgate");
    let served = Served::modgate(binary, &cluster, &OPERATIONS, &FLAGS)?;
    let ours = audited(served, policies, &theirs.times, list).context("modgate")?;
    let what = format!("first audit of {pods} Pods and {deployments} Deployments");
    let name = format!("Gatekeeper, violations of the {what}");
    report.answers.push(Answers::unordered(&name, theirs.violations, ours.violations));
    report.row("Gatekeeper", &what, "s", (theirs.seconds, ours.seconds));
    let pair = (theirs.processor, ours.processor);
    report.row("Gatekeeper", &format!("{what}: processor time"), "s", pair);
    report.row("Gatekeeper", &format!("{what}: most memory"), "MB", (theirs.peak, ours.peak));
    Ok(())
}

/// Of [`alone`]: time enough to load all policies before the first audit.
const SOON: &str = "--audit-interval=20";
/// Gatekeeper logs violations at this level.
const LEVEL: &str = "info";

/// modgate's first audit of so many Pods, with every violation in its log, which is a file.
pub(super) fn alone(binary: &Path, policies: &Library, pods: usize) -> Result<()> {
    let cluster = cluster()?;
    prepare(&cluster, &[])?;
    policies.install(&cluster)?;
    say(&format!("{pods} Pods"));
    let all: Vec<_> = (0..pods).map(|at| library::pod_named(&format!("pod-{at}"))).collect();
    kubectl(&cluster, "create -f -", &documents(&all))?;
    let mut served = Served::modgate_logging(LEVEL, binary, &cluster, &OPERATIONS, &[SOON])?;
    policies.loaded(&mut served)?;
    let api_server = cluster.process().context("the control plane has no process")?;
    let (server, log) = (api_server, served.log_file());
    let read = |served: &Served| -> Result<[ProcessFigures; 2]> {
        let of = |id| ProcessFigures::read(id).context("the kernel has no figures of a process");
        Ok([of(served.id())?, of(server)?])
    };
    // The log says it without any work of modgate, which a look at its metrics would make.
    served.until("the first audit begins", |_| {
        is_logged(&log, SeekFrom::Start(0), "audit_started")
    })?;
    let before = read(&served)?;
    served.until("it ends", |_| is_logged(&log, SeekFrom::End(-LAST), "audit_finished"))?;
    let after = read(&served)?;
    let [ours, theirs] = [0, 1].map(|at| {
        let cpu = |figures: &[ProcessFigures; 2]| figures.get(at).map(|it| it.cpu);
        cpu(&after).unwrap_or_default().saturating_sub(cpu(&before).unwrap_or_default())
    });
    let seconds = served.metric(&format!("{DURATION}_sum"), "")?;
    let violations = served.metric("gatekeeper_violations", "")?;
    let mut lines = 0;
    for line in BufReader::new(File::open(&log)?).lines() {
        lines += usize::from(line?.contains("\"violation_audited\""));
    }
    ensure!(
        (lines as f64 - violations).abs() < 0.5,
        "{lines} of {violations} violations are logged"
    );
    writeln!(
        io::stdout(),
        "{}\nfirst audit of {pods} Pods: {seconds:.2} s, {:.0} Pods/s, {lines} violations, all logged ({} MB of lines)\n\
         processor time: {:.2} s, of the API server {:.2} s; most memory: {:.1} MB",
        cpu_model(),
        pods as f64 / seconds,
        log.metadata()?.len() / 1_000_000,
        ours.as_secs_f64(),
        theirs.as_secs_f64(),
        megabytes(after.first().map_or(0, |it| it.peak_kib)),
    )?;
    Ok(())
}

/// Bytes at the end of a log in which its last lines are.
const LAST: i64 = 16 << 10;

/// Whether a text stands among 1 MB of a log from somewhere on.
fn is_logged(log: &Path, from: SeekFrom, text: &str) -> Result<bool> {
    let mut file = File::open(log)?;
    if file.seek(from).is_err() {
        file.rewind()?;
    }
    let mut bytes = Vec::new();
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).contains(text))
}

/// Waits for the first audit of a process that has just started, until no status is of an earlier one.
fn audited(
    mut served: Served,
    policies: &Library,
    earlier: &BTreeSet<String>,
    list: impl Fn() -> Result<String>,
) -> Result<Audited> {
    let count = |served: &Served| served.metric(&format!("{DURATION}_count"), "");
    let read = |served: &Served| {
        ProcessFigures::read(served.id()).context("the kernel has no figures of the process")
    };
    policies.loaded(&mut served)?;
    ensure!(
        count(&served)? < 0.5,
        "the first audit ended before all policies were loaded: this machine is too slow or too busy"
    );
    let before = read(&served)?;
    served.until("the first audit ends", |served| Ok(count(served)? > 0.5))?;
    let after = read(&served)?;
    let seconds = served.metric(&format!("{DURATION}_sum"), "")?;
    let deadline = Instant::now() + TIMEOUT;
    let (times, violations) = loop {
        let constraints = Value::from_json(list()?.as_bytes())?;
        let constraints = constraints.get("items").and_then(Value::as_array).context("no items")?;
        let times = constraints.iter().map(|it| text(it, &["status", "auditTimestamp"]));
        let times: BTreeSet<String> = times.collect();
        if !times.contains("") && times.is_disjoint(earlier) {
            break (times, violations(constraints.iter())?);
        }
        ensure!(Instant::now() < deadline, "the statuses have no result of the audit");
        thread::sleep(Duration::from_millis(200));
    };
    Ok(Audited {
        seconds,
        processor: after.cpu.saturating_sub(before.cpu).as_secs_f64(),
        peak: megabytes(after.peak_kib),
        violations,
        times,
    })
}

fn text(value: &Value, path: &[&str]) -> String {
    value.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The violations in the statuses, which list as many as they count.
fn violations<'c>(constraints: impl Iterator<Item = &'c Value>) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    for constraint in constraints {
        let name =
            format!("{} {}", text(constraint, &["kind"]), text(constraint, &["metadata", "name"]));
        let listed = constraint.path(&["status", "violations"]).and_then(Value::as_array);
        let total = constraint.path(&["status", "totalViolations"]).and_then(Value::as_i64);
        let before = lines.len();
        for it in listed.into_iter().flat_map(|all| all.iter()) {
            let [kind, namespace, object, action, message] =
                ["kind", "namespace", "name", "enforcementAction", "message"]
                    .map(|member| text(it, &[member]));
            lines.push(format!("{name}: {action}: {kind} {namespace}/{object}: {message}"));
        }
        let count = i64::try_from(lines.len() - before)?;
        ensure!(total.unwrap_or_default() == count, "{name} lists {count} of {total:?} violations");
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_violations_must_be_listed() {
        let constraint = |total: i64| {
            let text = format!(
                "{{\"kind\": \"K\", \"metadata\": {{\"name\": \"n\"}}, \"status\": {{\"totalViolations\": {total}, \
                 \"violations\": [{{\"kind\": \"Pod\", \"name\": \"p\", \"message\": \"m\"}}]}}}}"
            );
            Value::from_json(text.as_bytes()).expect("JSON")
        };
        let lines = violations([constraint(1)].iter()).expect("all are listed");
        assert_eq!(lines, ["K n: : Pod /p: m"]);
        assert!(violations([constraint(2)].iter()).is_err());
    }
}
