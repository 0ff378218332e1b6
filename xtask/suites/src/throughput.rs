//! `cargo xtask throughput`: how many Pods an API server creates with the same ValidatingAdmissionPolicies in
//! it, in modgate's webhook, and without any.
//!
//! Each measurement has a new control plane of `tests/cluster`: kube-apiserver and etcd in one process. The
//! generator, the control plane and modgate share the machine, so the processor time of each is printed
//! beside the rate. Only loopback is ever contacted.

mod pods;
mod policies;

use std::{
    fmt, fs,
    io::{self, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_testkit::{
    client::{self, free_address},
    cluster::{Cluster, Options},
};
use modgate_value::Value;
use tempfile::TempDir;

use self::{
    pods::{Load, Measured},
    policies::Policies,
};
use crate::{
    load::{ProcessFigures, count, cpu_model},
    program::ProgramArgs,
};

/// Options of `cargo xtask throughput`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many policies; repeat, or separate with commas. Gatekeeper's library has 16 in CEL; further ones
    /// are the same under other names.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    policies: Vec<usize>,
    #[command(flatten)]
    program: ProgramArgs,
    /// Connections to the API server, each with one request at a time.
    #[arg(long, default_value_t = 8)]
    connections: usize,
    /// How long each measurement takes, after three seconds of warming up.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// The program that decides about the Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decider {
    Nothing,
    ApiServer,
    Webhook,
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "no policies",
            Self::ApiServer => "in the API server",
            Self::Webhook => "modgate's webhook",
        })
    }
}

/// How long a step may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs it; false where requests failed, or where policies were not evaluated.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let binary = args.program.path()?;
    let mut out = io::stdout().lock();
    writeln!(out, "{}, {} connections, {} s each", cpu_model(), args.connections, args.seconds)?;
    writeln!(
        out,
        "{:>44}{:>27}{:>30}{:>18}{:>14}",
        "", "latency, ms", "processor time per Pod, ms", "memory, MB", "for each Pod",
    )?;
    writeln!(
        out,
        "{:>8} {:>8} {:<18} {:>7} {:>12} {:>13} {:>9} {:>9} {:>10} {:>8} {:>9} {:>13}",
        "policies",
        "bindings",
        "evaluated",
        "Pods/s",
        "p50",
        "p99",
        "API",
        "modgate",
        "generator",
        "API",
        "modgate",
        "counted",
    )?;
    let load = Creation { connections: args.connections, seconds: args.seconds, pods: &[] };
    let mut good = true;
    for count in &args.policies {
        let policies = Policies::of_library(*count, "dryrun")?;
        for decider in [Decider::Nothing, Decider::ApiServer, Decider::Webhook] {
            let row = measure(&load, &binary, &policies, decider)
                .with_context(|| format!("{count} policies, {decider}"))?;
            good &= row.is_good(&policies);
            writeln!(out, "{row}")?;
            out.flush()?;
        }
    }
    Ok(good)
}

/// How Pods are created; and Pods that are sent to the API server afterwards, as a dry run.
pub(crate) struct Creation<'p> {
    pub(crate) connections: usize,
    pub(crate) seconds: u64,
    pub(crate) pods: &'p [Value],
}

/// A line of the table.
pub(crate) struct Row {
    decider: Decider,
    policies: usize,
    bindings: usize,
    seconds: u64,
    measured: Measured,
    /// The count of the process that evaluates during the measurement: for modgate evaluations of
    /// policies, for the API server validations that failed.
    counted: f64,
    /// Processor time.
    api_server: Duration,
    modgate: Option<Duration>,
    generator: Duration,
    /// Resident memory at the end, in KiB.
    api_server_kib: usize,
    modgate_kib: Option<usize>,
    /// The answer of the API server for each of the Pods.
    pub(crate) said: Vec<String>,
    /// The version of the API server.
    pub(crate) kubernetes: String,
}

impl Row {
    /// Whether all Pods were created, after policies were evaluated for them. That they are in force in the
    /// API server was seen before.
    fn is_good(&self, policies: &Policies) -> bool {
        let least = match self.decider {
            Decider::Nothing | Decider::ApiServer => 0.0,
            Decider::Webhook => policies.least_evaluations(),
        };
        self.measured.errors == 0 && self.per_pod(self.counted) >= least * 0.99
    }

    /// Pods per second.
    pub(crate) fn rate(&self) -> f64 {
        count(self.measured.latencies.len()) / Duration::from_secs(self.seconds).as_secs_f64()
    }

    /// Processor time of the API server and of modgate for each Pod, in milliseconds.
    pub(crate) fn processor_ms(&self) -> f64 {
        let both = self.api_server + self.modgate.unwrap_or_default();
        self.per_pod(both.as_secs_f64() * 1000.0)
    }

    fn per_pod(&self, amount: f64) -> f64 {
        amount / count(self.measured.latencies.len()).max(1.0)
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |time: Duration| self.per_pod(time.as_secs_f64() * 1000.0);
        let mb = |kib: usize| count(kib) * 1.024 / 1000.0;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let (policies, bindings) = match self.decider {
            Decider::Nothing => (0, 0),
            _ => (self.policies, self.bindings),
        };
        write!(
            f,
            "{policies:>8} {bindings:>8} {:<18} {:>7.0} {:>12.2} {:>13.2} {:>9.2} {:>9} {:>10.2} {:>8.0} {:>9} {:>13.1}",
            self.decider.to_string(),
            self.rate(),
            self.measured.percentile(50),
            self.measured.percentile(99),
            each(self.api_server),
            or_none(self.modgate.map(|time| format!("{:.2}", each(time)))),
            each(self.generator),
            mb(self.api_server_kib),
            or_none(self.modgate_kib.map(|kib| format!("{:.0}", mb(kib)))),
            self.per_pod(self.counted),
        )?;
        if let Some(error) = &self.measured.first_error {
            write!(f, "\n  {} requests failed: {error}", self.measured.errors)?;
        }
        Ok(())
    }
}

/// All policies of the library that are in CEL, with bindings that warn.
pub(crate) fn warned(binary: &Path, creation: &Creation<'_>, decider: Decider) -> Result<Row> {
    let policies = Policies::of_library(16, "warn")?;
    let row = measure(creation, binary, &policies, decider)?;
    ensure!(row.is_good(&policies), "policies were not evaluated, or requests failed: {row}");
    Ok(row)
}

fn measure(
    creation: &Creation<'_>,
    binary: &Path,
    policies: &Policies,
    decider: Decider,
) -> Result<Row> {
    let cluster = Cluster::start(&Options::default())?.context("there is no Go toolchain")?;
    let api_server = cluster.process().context("the control plane has no process")?;
    if decider != Decider::Nothing {
        policies.install(&cluster, decider == Decider::Webhook)?;
    }
    let webhook = match decider {
        Decider::Webhook => Some(Webhook::start(binary, &cluster)?),
        _ => None,
    };
    let load = Load::prepare(&cluster, creation.connections)?;
    load.run(Duration::from_secs(3), 0)?;
    let counts = |webhook: &Option<Webhook>| match (decider, webhook) {
        (Decider::Webhook, Some(webhook)) => webhook.evaluations(),
        (Decider::ApiServer, _) => in_api_server(&cluster),
        _ => Ok(0.0),
    };
    let read = |id: u32| ProcessFigures::read(id).context("Linux says nothing of a process");
    let modgate = webhook.as_ref().map(|webhook| webhook.process.id());
    let figures = || -> Result<_> {
        Ok((read(api_server)?, modgate.map(read).transpose()?, read(std::process::id())?))
    };
    let (counted, before) = (counts(&webhook)?, figures()?);
    let measured = load.run(Duration::from_secs(creation.seconds), 1)?;
    let (after, counted_after) = (figures()?, counts(&webhook)?);
    let busy =
        |after: &ProcessFigures, before: &ProcessFigures| after.cpu.saturating_sub(before.cpu);
    Ok(Row {
        decider,
        policies: policies.policies.len(),
        bindings: policies.bindings.len(),
        seconds: creation.seconds,
        measured,
        counted: counted_after - counted,
        api_server: busy(&after.0, &before.0),
        modgate: after.1.as_ref().zip(before.1.as_ref()).map(|(after, before)| busy(after, before)),
        generator: busy(&after.2, &before.2),
        api_server_kib: after.0.resident_kib,
        modgate_kib: after.1.map(|figures| figures.resident_kib),
        said: load.try_out(creation.pods)?,
        kubernetes: cluster.kubernetes().to_owned(),
    })
}

/// The sum of all samples of a metric.
fn sum(metrics: &str, name: &str) -> f64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
    samples.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// Validations that failed; the API server does not count others.
fn in_api_server(cluster: &Cluster) -> Result<f64> {
    let outcome = cluster.run(["get", "--raw", "/metrics"], "")?;
    ensure!(outcome.success, "{}", outcome.stderr);
    Ok(sum(&outcome.stdout, "apiserver_validating_admission_policy_check_total"))
}

/// Runs kubectl with documents.
fn apply(cluster: &Cluster, arguments: &[&str], documents: &[Value]) -> Result<()> {
    let texts: Vec<String> = documents.iter().map(Value::to_json).collect();
    let outcome = cluster.run(arguments, &texts.join("\n---\n"))?;
    ensure!(outcome.success, "{}", outcome.stderr);
    Ok(())
}

/// `modgate serve`, which the API server sends the creation of Pods to.
struct Webhook {
    process: Child,
    metrics: SocketAddr,
    _folder: TempDir,
}

impl Webhook {
    fn start(binary: &Path, cluster: &Cluster) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
        fs::write(folder.path().join("tls.crt"), made.cert.pem())?;
        fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem())?;
        let (address, metrics, health) = (free_address()?, free_address()?, free_address()?);
        let process = Command::new(binary)
            .arg("serve")
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .arg("--cert-dir")
            .arg(folder.path())
            .args(["--disable-cert-rotation", "--admission-policies", "marked"])
            .args(["--operation", "webhook", "--log-level", "error"])
            .args(["--address", &address.to_string()])
            .args(["--metrics-addr", &metrics.to_string()])
            .args(["--health-addr", &health.to_string()])
            .stdout(Stdio::null())
            // Parameters are constraints, of whose templates it finds none.
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| binary.display().to_string())?;
        let mut webhook = Self { process, metrics, _folder: folder };
        let deadline = Instant::now() + TIMEOUT;
        while !client::is_ready(health) {
            if let Some(status) = webhook.process.try_wait()? {
                bail!("modgate ended: {status}");
            }
            ensure!(Instant::now() < deadline, "modgate does not become ready");
            thread::sleep(Duration::from_millis(50));
        }
        let configuration = policies::webhook(address, &made.cert.pem())?;
        apply(cluster, &["create", "-f", "-"], &[configuration])?;
        Ok(webhook)
    }

    /// Evaluations of policies, as modgate counts them.
    fn evaluations(&self) -> Result<f64> {
        let metrics = client::get(self.metrics, "/metrics")?;
        Ok(sum(&metrics.body, "modgate_policy_evaluations_total"))
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_metric_are_added() {
        let metrics = "# HELP a_total x\na_total{b=\"c d\"} 3\na_total{b=\"e\"} 4.5\na_total_more 9\na_total 1\n";
        assert!((sum(metrics, "a_total") - 8.5).abs() < f64::EPSILON);
        assert!(sum(metrics, "b").abs() < f64::EPSILON);
    }
}
