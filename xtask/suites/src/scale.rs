//! `cargo xtask scale`: how modgate stands in a large cluster. It starts a control plane of `tests/cluster`, fills it with
//! namespaces, Pods and policies, runs replicas in it, and measures: the start, memory, the time until a change is in
//! force, what the first audit takes, and what modgate costs the API server. A simulated API server then has more objects
//! than etcd of a test could take, and shows the memory of audits and of the inventory as a curve.
//!
//! The control plane and the replicas share the machine. Run it when nothing else does. Only loopback is contacted.

pub(crate) mod simulated;

use std::{
    fs::{self, File},
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use modgate_cluster::remote::{Place, Remote, Resource};
use modgate_testkit::{
    client::{self, free_address},
    cluster::{Cluster, Options},
};
use modgate_value::Value;
use rustls::version::TLS13;

use crate::{
    content,
    load::{ProcessFigures, cpu_model},
    program::ProgramArgs,
};

/// Options of `cargo xtask scale`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    program: ProgramArgs,
    /// Namespaces of the cluster.
    #[arg(long, default_value_t = 200)]
    namespaces: usize,
    /// Pods of the cluster, spread over the namespaces.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// Templates; every tenth reads the inventory.
    #[arg(long, default_value_t = 500)]
    templates: usize,
    /// Constraints, spread over the templates.
    #[arg(long, default_value_t = 1_000)]
    constraints: usize,
    /// ModRules, spread over the namespaces.
    #[arg(long, default_value_t = 2_000)]
    modrules: usize,
    /// Numbers of replicas to measure, separated by commas; 0 leaves the cluster out.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 3])]
    replicas: Vec<usize>,
    /// Numbers of objects of the simulated API server, separated by commas; 0 leaves it out.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 30_000, 100_000, 300_000, 1_000_000])]
    simulated: Vec<usize>,
    /// Changes of a policy whose time to take effect is measured.
    #[arg(long, default_value_t = 20)]
    changes: usize,
}

/// How long a step may take. The first start compiles every policy.
const TIMEOUT: Duration = Duration::from_secs(900);

/// How many objects are made at a time.
const WRITERS: usize = 8;

/// Where modgate runs.
const NAMESPACE: &str = "gatekeeper-system";

/// The group of the kinds that templates make.
const CONSTRAINTS: &str = "constraints.gatekeeper.sh";

/// Runs it; false where a replica lost a policy, or an audit took too much memory.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let binary = args.program.path()?;
    ensure!(
        args.namespaces > 0 && args.templates > 0 && args.modrules > 0,
        "there must be a namespace, a template and a ModRule"
    );
    let mut out = io::stdout().lock();
    writeln!(out, "{}", cpu_model())?;
    let mut good = true;
    if args.replicas.iter().any(|count| *count > 0) {
        let filled = Filled::new(args, &binary, &mut out)?;
        writeln!(out, "\nwithout modgate")?;
        filled.rest(&[], &mut out)?;
        for count in args.replicas.iter().filter(|count| **count > 0) {
            good &= filled.measure(args, &binary, *count, &mut out)?;
        }
    }
    for count in args.simulated.iter().filter(|count| **count > 0) {
        good &= simulated::measure(&binary, *count, &mut out)?;
    }
    Ok(good)
}

#[expect(clippy::print_stderr, reason = "what is going on goes there")]
fn progress(text: &str) {
    eprintln!("... {text}");
}

/// A cluster with all objects and policies.
struct Filled {
    cluster: Cluster,
    place: Place,
    api_server: u32,
}

impl Filled {
    fn new(args: &Args, binary: &Path, out: &mut impl io::Write) -> Result<Self> {
        progress("starting a control plane");
        let cluster = Cluster::start(&Options::default())?.context("there is no Go toolchain")?;
        let api_server = cluster.process().context("the control plane has no process")?;
        let place = Place { files: vec![cluster.kubeconfig().to_owned()], context: None };
        let filled = Self { cluster, place, api_server };
        let started = Instant::now();
        filled.apply(&modgate_e2e::our_definitions())?;
        filled.apply(&content::namespace(NAMESPACE))?;
        let namespaces: Vec<Value> =
            (0..args.namespaces).map(content::namespace_object).collect::<Result<_>>()?;
        filled.create("namespaces", &Resource::of_cluster("", "v1", "namespaces"), &namespaces)?;
        let pods: Vec<Value> = (0..args.pods)
            .map(|number| content::pod(number, number % args.namespaces))
            .collect::<Result<_>>()?;
        let resource = Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods") };
        filled.create("Pods", &resource, &pods)?;
        let templates: Vec<Value> =
            (0..args.templates).map(content::template).collect::<Result<_>>()?;
        let group = "templates.gatekeeper.sh";
        let resource = Resource::of_cluster(group, "v1", "constrainttemplates");
        filled.create("templates", &resource, &templates)?;
        let rules: Vec<Value> = (0..args.modrules)
            .map(|number| content::modrule(number, number % args.namespaces, "as made"))
            .collect::<Result<_>>()?;
        filled.create("ModRules", &modrules(), &rules)?;
        filled.apply(content::SYNC)?;
        writeln!(
            out,
            "filled: {} namespaces, {} Pods, {} templates, {} ModRules in {:.0} s; {} MB in the control plane",
            args.namespaces,
            args.pods,
            args.templates,
            args.modrules,
            started.elapsed().as_secs_f64(),
            megabytes(filled.figures()?.resident_kib),
        )?;
        filled.constrain(args, binary, out)?;
        out.flush()?;
        Ok(filled)
    }

    /// Constraints need the kinds that a replica makes of the templates. It is not one of those that are measured,
    /// as this happens once in the life of a cluster.
    fn constrain(&self, args: &Args, binary: &Path, out: &mut impl io::Write) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let (before, started) = (self.figures()?, Instant::now());
        let mut replica = Replica::start(binary, self, folder.path(), 0)?;
        replica.ready()?;
        let ready = started.elapsed();
        progress("waiting for the kinds of constraints");
        let remote = self.remote()?;
        let is_served = |number: usize| {
            let plural = content::kind(number).to_lowercase();
            remote.list(&Resource::of_cluster(CONSTRAINTS, "v1beta1", &plural)).is_ok()
        };
        for number in 0..args.templates {
            until("the kind of a template is served", || is_served(number))?;
        }
        let after = self.figures()?;
        writeln!(
            out,
            "the first replica ever: ready after {:.1} s; the kinds of {} templates are served after {:.1} s, which \
             took {:.1} s of processor time of the API server, and it now has {} MB",
            ready.as_secs_f64(),
            args.templates,
            started.elapsed().as_secs_f64(),
            after.cpu.saturating_sub(before.cpu).as_secs_f64(),
            megabytes(after.resident_kib)
        )?;
        for number in 0..args.constraints {
            let template = number % args.templates;
            let plural = content::kind(template).to_lowercase();
            let resource = Resource::of_cluster(CONSTRAINTS, "v1beta1", &plural);
            let constraint = content::constraint(number, template)?;
            // A kind may be read before it may be written.
            until("a constraint is made", || remote.put(&resource, &constraint).is_ok())?;
            if number % 200 == 199 {
                progress(&format!("{} of {} constraints", number + 1, args.constraints));
            }
        }
        Ok(())
    }

    fn remote(&self) -> Result<Remote> {
        Ok(Remote::connect(&self.place)?)
    }

    fn figures(&self) -> Result<ProcessFigures> {
        ProcessFigures::read(self.api_server).context("Linux says nothing of the control plane")
    }

    fn apply(&self, documents: &str) -> Result<()> {
        let outcome = self.cluster.run(["apply", "--server-side", "-f", "-"], documents)?;
        ensure!(outcome.success, "{}", outcome.stderr);
        let wait = ["wait", "--for=condition=Established", "crd", "--all"];
        let outcome = self.cluster.run(wait, "")?;
        ensure!(outcome.success, "{}", outcome.stderr);
        Ok(())
    }

    /// Creates all objects, several at a time.
    fn create(&self, what: &str, resource: &Resource, objects: &[Value]) -> Result<()> {
        let next = AtomicUsize::new(0);
        let worker = || -> Result<()> {
            let remote = self.remote()?;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(object) = objects.get(number) else { return Ok(()) };
                remote.create(resource, object).with_context(|| format!("{what}, {number}"))?;
                if number % 2000 == 1999 {
                    progress(&format!("{} of {} {what}", number + 1, objects.len()));
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(worker)).collect();
            for worker in workers {
                worker.join().map_err(|_| anyhow!("a thread panicked"))??;
            }
            Ok(())
        })
    }

    /// Requests that the API server has answered.
    fn requests(&self) -> Result<f64> {
        let outcome = self.cluster.run(["get", "--raw", "/metrics"], "")?;
        ensure!(outcome.success, "{}", outcome.stderr);
        Ok(sum(&outcome.stdout, "apiserver_request_total"))
    }

    fn measure(
        &self,
        args: &Args,
        binary: &Path,
        count: usize,
        out: &mut impl io::Write,
    ) -> Result<bool> {
        writeln!(out, "\nreplicas: {count}")?;
        progress(&format!("starting replicas: {count}"));
        let folder = tempfile::tempdir()?;
        let (requests, before, started) = (self.requests()?, self.figures()?, Instant::now());
        let mut replicas = Vec::new();
        for number in 0..count {
            replicas.push(Replica::start(binary, self, folder.path(), number)?);
        }
        for replica in &mut replicas {
            replica.ready()?;
        }
        writeln!(out, "  ready after {:.1} s", started.elapsed().as_secs_f64())?;
        let all = u64::try_from(args.templates + args.constraints + args.modrules)?;
        until("every replica has every policy", || {
            replicas.iter().all(|replica| replica.policies().is_some_and(|has| has >= all))
        })?;
        writeln!(out, "  every policy in force after {:.1} s", started.elapsed().as_secs_f64())?;
        out.flush()?;
        progress("waiting for the first audit");
        until("an audit has ended", || replicas.iter().any(|it| it.audited() > 0.0))?;
        let durations =
            replicas.iter().filter_map(|it| it.metric("gatekeeper_audit_duration_seconds_sum"));
        writeln!(
            out,
            "  the first audit ended after {:.1} s, and took {:.1} s",
            started.elapsed().as_secs_f64(),
            durations.fold(0.0, f64::max)
        )?;
        let (made, after) = (self.requests()? - requests, self.figures()?);
        writeln!(
            out,
            "  the API server until then: {made:.0} requests, {:.1} s of processor time, {} MB",
            after.cpu.saturating_sub(before.cpu).as_secs_f64(),
            megabytes(after.resident_kib)
        )?;
        out.flush()?;
        self.rest(&replicas, out)?;
        self.change(args, &replicas, out)?;
        let mut good = true;
        for replica in &replicas {
            let broken = replica.metric("modgate_policies_broken").unwrap_or_default();
            ensure!(broken < 1.0, "{broken} policies of {} do not load", replica.name);
            let figures = replica.figures()?;
            let policies = replica.policies().unwrap_or_default();
            good &= policies >= all;
            writeln!(
                out,
                "  {}: {} MB now, {} MB at the peak, {:.1} s of processor time, {policies} policies, {} synced objects; {}",
                replica.name,
                megabytes(figures.resident_kib),
                megabytes(figures.peak_kib),
                figures.cpu.as_secs_f64(),
                replica.metric("gatekeeper_sync").unwrap_or_default(),
                replica.complaints(),
            )?;
        }
        out.flush()?;
        Ok(good)
    }

    /// A minute in which nothing happens but audits, Leases and watches.
    fn rest(&self, replicas: &[Replica], out: &mut impl io::Write) -> Result<()> {
        progress("a minute at rest");
        let busy = || -> Result<Duration> {
            let all: Result<Vec<ProcessFigures>> = replicas.iter().map(Replica::figures).collect();
            Ok(all?.iter().map(|it| it.cpu).sum())
        };
        let (requests, api, modgate) = (self.requests()?, self.figures()?.cpu, busy()?);
        thread::sleep(Duration::from_secs(60));
        writeln!(
            out,
            "  a minute at rest: {:.0} requests, {:.1} s of processor time of the API server, {:.1} s of modgate",
            self.requests()? - requests,
            self.figures()?.cpu.saturating_sub(api).as_secs_f64(),
            busy()?.saturating_sub(modgate).as_secs_f64(),
        )?;
        Ok(())
    }

    /// The time from a change of a ModRule until all replicas decide by it.
    fn change(&self, args: &Args, replicas: &[Replica], out: &mut impl io::Write) -> Result<()> {
        let remote = self.remote()?;
        let mut times = Vec::new();
        for number in 0..args.changes {
            let text = format!("changed {number}");
            let rule = content::modrule(0, 0, &text)?;
            let started = Instant::now();
            // Replicas write its status meanwhile.
            remote.apply(&modrules(), &rule, "scale")?;
            for replica in replicas {
                until("a change is in force", || replica.rejects_with(&text).unwrap_or_default())?;
            }
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let of_hundred = |part: usize| {
            let rank = (times.len() * part).div_ceil(100).saturating_sub(1);
            times.get(rank).copied().unwrap_or_default().as_millis()
        };
        writeln!(
            out,
            "  a changed ModRule is in force in every replica: p50 {} ms, p90 {} ms, at most {} ms",
            of_hundred(50),
            of_hundred(90),
            of_hundred(100)
        )?;
        Ok(())
    }
}

fn modrules() -> Resource {
    Resource { namespaced: true, ..Resource::of_cluster("api.kubemod.io", "v1beta1", "modrules") }
}

/// A process that ends with this, if it has not before.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running `modgate serve`.
struct Replica {
    name: String,
    child: Ended,
    webhooks: SocketAddr,
    health: SocketAddr,
    metrics: SocketAddr,
    log: PathBuf,
}

impl Replica {
    fn start(binary: &Path, filled: &Filled, folder: &Path, number: usize) -> Result<Self> {
        let name = format!("modgate-{number}");
        // Its reports on policies belong to its Pod.
        let pod = content::own_pod(&name);
        let outcome = filled.cluster.run(["apply", "-f", "-"], &pod)?;
        ensure!(outcome.success, "{}", outcome.stderr);
        let (webhooks, health, metrics) = (free_address()?, free_address()?, free_address()?);
        let log = folder.join(format!("{name}.log"));
        let child = Command::new(binary)
            .args(["serve", "--tls-name", "127.0.0.1", "--kubeconfig"])
            .arg(filled.cluster.kubeconfig())
            .args(["--address", &webhooks.to_string(), "--health-addr", &health.to_string()])
            .args(["--operator-metrics-addr", &metrics.to_string(), "--log-format", "json"])
            .env("POD_NAME", &name)
            .env("POD_NAMESPACE", NAMESPACE)
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| binary.display().to_string())?;
        Ok(Self { name, child: Ended(child), webhooks, health, metrics, log })
    }

    fn ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while !client::is_ready(self.health) {
            if let Some(status) = self.child.0.try_wait()? {
                bail!("{} ended: {status}: {}", self.name, self.complaints());
            }
            ensure!(
                Instant::now() < deadline,
                "{} does not become ready: {}",
                self.name,
                self.complaints()
            );
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Its warnings and errors: how many, and the first of them.
    fn complaints(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let is_one = |line: &&str| {
            [r#""level":"error""#, r#""level":"warn"#].iter().any(|it| line.contains(it))
        };
        let all: Vec<&str> = log.lines().filter(is_one).collect();
        let first: Vec<String> =
            all.iter().take(3).map(|it| it.chars().take(300).collect()).collect();
        format!(
            "{} lines of its log are warnings or errors\n    {}",
            all.len(),
            first.join("\n    ")
        )
        .trim_end()
        .to_owned()
    }

    fn figures(&self) -> Result<ProcessFigures> {
        ProcessFigures::read(self.child.0.id()).context("Linux says nothing of a replica")
    }

    fn metric(&self, name: &str) -> Option<f64> {
        Some(sum(&client::get(self.metrics, "/metrics").ok()?.body, name))
    }

    /// Policies in force, as the metrics count them.
    fn policies(&self) -> Option<u64> {
        let count = self.metric("modgate_policies")?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        Some(count as u64)
    }

    /// When the last audit ended, in seconds since 1970; 0 before the first.
    fn audited(&self) -> f64 {
        self.metric("gatekeeper_audit_last_run_end_time").unwrap_or_default()
    }

    /// Whether the rule that is changed rejects a Pod with this text.
    fn rejects_with(&self, text: &str) -> Result<bool> {
        let config = client::trusting(&[&TLS13])?.with_no_client_auth();
        let stream = client::connect(self.webhooks, config)?;
        let body = content::review();
        let answer = client::exchange(stream, &client::post("/validate", &body))?;
        Ok(answer.body.contains(text))
    }
}

/// Waits; an error if it takes too long.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let deadline = Instant::now() + TIMEOUT;
    let mut pause = Duration::from_millis(1);
    while !is_so() {
        ensure!(Instant::now() < deadline, "not within {} s: {what}", TIMEOUT.as_secs());
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(50));
    }
    Ok(())
}

/// The sum of all samples of a metric.
fn sum(metrics: &str, name: &str) -> f64 {
    let samples = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let samples = samples.filter(|rest| rest.starts_with(['{', ' ']));
    samples.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

fn megabytes(kib: usize) -> usize {
    kib * 1024 / 1_000_000
}
