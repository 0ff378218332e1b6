//! The first audit of the same cluster.

use std::{
    collections::BTreeSet,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use modgate_e2e::originals::{Library, Served, documents, kubectl, prepare};
use modgate_value::Value;

use super::{Answers, Report, cluster, say, webhooks::megabytes};
use crate::load::{ProcessFigures, library};

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
