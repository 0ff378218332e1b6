//! Audits of synthetic objects by the public library, in one command:
//!
//! ```text
//! cargo bench -p modgate-testkit --bench audit -- [--objects N] [--pods N] [--density clean|dirty]
//!     [--threads N] [--emit DIR]
//! ```
//!
//! `--pods` (5,000 unless said otherwise) is the number of Pods of the first measurement, `--objects`
//! (100,000) that of the mixed objects of the second, `--density` how much is wrong with them. Objects
//! are made as they are asked for, as JSON that is parsed, like pages of the API server. One JSON
//! document with all figures is printed; times are in seconds, memory is the process's in MB.
//!
//! `--emit` measures nothing: it writes the policies and the Pods of the first measurement as YAML
//! for other programs, and prints how many violations each constraint finds.
//!
//! Needs upstream's files; without them nothing is measured, and it says so.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::indexing_slicing,
    unreachable_pub,
    missing_docs,
    reason = "a benchmark"
)]

mod objects;

use std::{
    env, fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use modgate_audit::{
    AuditOptions, Incremental, Item, Options, Policies, Report, Sink, Violation, audit,
};
use modgate_engine::{
    Change, EngineConfig, Host, HostError, OnError, PolicySource, Snapshot, constraint::Inventory,
};
use modgate_testkit::{gatekeeper::library, rego};
use modgate_value::{Clock, Value};

use self::objects::{Density, is_synced, kind, mixed, pod};

static NEVER: AtomicBool = AtomicBool::new(false);

fn main() {
    let argument = |name: &str| env::args().skip_while(|argument| argument != name).nth(1);
    let count = |name: &str, default: usize| {
        argument(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let density =
        argument("--density").map_or(Density::Dirty, |text| text.parse().expect("--density"));
    // `cargo test` runs benchmarks too, to see whether they run.
    let is_test = env::args().all(|argument| argument != "--bench");
    let (few, many) = if is_test { (50, 200) } else { (5_000, 100_000) };
    let (pods, objects) = (count("--pods", few), count("--objects", many));
    let threads = count("--threads", AuditOptions::all_cores());
    let Some(folder) = rego::library::folder() else {
        eprintln!("the public library is not here; set MODGATE_CONFORMANCE");
        return;
    };
    let library = library::policies(&folder).expect("the library");
    let snapshot = snapshot(&library);
    let options = AuditOptions { threads, limit: 20, stop: &NEVER, statistics: None };
    if let Some(folder) = argument("--emit") {
        emit(Path::new(&folder), &library, &snapshot, pods, density, options);
        return;
    }
    drop(library);
    let templates = snapshot.constraints().templates().count();
    let constraints = snapshot.constraints().constraints().count();
    let mut figures = vec![
        ("templates", number(templates)),
        ("constraints", number(constraints)),
        ("threads", number(threads)),
        ("density", format!("{density:?}").into()),
        ("startRssMb", memory("VmRSS:")),
    ];
    figures.push(("pods", of_pods(&snapshot, pods, density, options)));
    figures.push(("mixed", Mixed::new(&snapshot, objects, density, options).measure()));
    println!("{}", figures.into_iter().collect::<Value>());
}

/// One audit of equal Pods that keeps nothing.
fn of_pods(
    snapshot: &Snapshot,
    count: usize,
    density: Density,
    options: AuditOptions<'_>,
) -> Value {
    let (measured, report) = measure(|| audited(snapshot, count, density, options));
    measured.figures(count, &report).into_iter().collect()
}

fn audited(
    snapshot: &Snapshot,
    pods: usize,
    density: Density,
    options: AuditOptions<'_>,
) -> Report {
    let policies = Policies::new(snapshot.clone(), Inventory::default(), Options::default());
    let mut objects = (0..pods).map(|index| Item::new(parsed(&pod(index, 0, density))));
    let mut source = || {
        let batch: Vec<_> = objects.by_ref().take(32).collect();
        (!batch.is_empty()).then_some(batch)
    };
    let report = audit("", &policies, &mut source, &Outside, &Everything, options);
    let report = report.expect("not stopped");
    assert_eq!(report.counts.objects, pods as u64);
    report
}

/// Audits of many kinds of objects that keep what they find.
struct Mixed<'a> {
    snapshot: &'a Snapshot,
    inventory: Inventory,
    incremental: Incremental,
    count: usize,
    density: Density,
    options: AuditOptions<'a>,
    /// Processor time of the first audit.
    first: f64,
}

impl<'a> Mixed<'a> {
    fn new(
        snapshot: &'a Snapshot,
        count: usize,
        density: Density,
        options: AuditOptions<'a>,
    ) -> Self {
        let mut inventory = Inventory::default();
        for index in (0..count).filter(|index| is_synced(*index)) {
            inventory.insert(parsed(&mixed(index, 0, density))).expect("inserted");
        }
        let incremental = Incremental::new(Options::default());
        Self { snapshot, inventory, incremental, count, density, options, first: f64::NAN }
    }

    fn measure(mut self) -> Value {
        let empty = megabytes("VmRSS:");
        let all: Vec<usize> = (0..self.count).collect();
        let (mut first, violations) = self.audit(&all, 0, &TotalsOnly);
        let kept = (megabytes("VmRSS:") - empty) * 1024.0 * 1024.0;
        first.push(("bytesPerObject", decimal(kept / self.count as f64)));
        first.push(("bytesPerViolation", decimal(kept / violations.max(1) as f64)));

        let (unchanged, _) = self.audit(&[], 0, &TotalsOnly);
        // Pods and ConfigMaps, which no template looks at in the inventory.
        let changed: Vec<usize> =
            (0..self.count).filter(|index| !is_synced(*index)).step_by(7).take(100).collect();
        let (objects, _) = self.audit(&changed, 1, &TotalsOnly);
        let (told, _) = self.audit(&changed, 2, &Everything);
        let services: Vec<usize> =
            (0..self.count).filter(|index| kind(*index) == "Service").take(10).collect();
        for index in &services {
            self.inventory.insert(parsed(&mixed(*index, 3, self.density))).expect("inserted");
        }
        let (others, _) = self.audit(&services, 3, &TotalsOnly);
        let audits = [
            ("first", first),
            ("nothingChanged", unchanged),
            ("objectsChanged", objects),
            ("objectsChangedAndAllTold", told),
            ("servicesChanged", others),
        ];
        audits
            .into_iter()
            .map(|(name, figures)| (name, figures.into_iter().collect::<Value>()))
            .collect()
    }

    /// One audit in which these objects are other than before; returns the violations, too.
    fn audit(&mut self, changed: &[usize], version: u32, sink: &dyn Sink) -> (Figures, u64) {
        let is_first = self.first.is_nan();
        let (measured, report) = measure(|| {
            self.incremental.adopt(self.snapshot, &self.inventory, &Outside);
            self.run(changed.iter().copied(), version);
            // Kinds of what is stale are listed again.
            for stale in self.incremental.stale() {
                let is_stale =
                    |index: &usize| kind(*index) == stale.kind.kind && !changed.contains(index);
                self.run((0..self.count).filter(is_stale), 0);
            }
            self.incremental.report("", self.options.limit, sink).expect("policies")
        });
        if version < 3 {
            let evaluated = report.counts.evaluated;
            assert_eq!(evaluated, changed.len() as u64, "nothing else is evaluated");
        }
        let mut figures = measured.figures(changed.len(), &report);
        if is_first {
            self.first = measured.cpu;
        } else {
            let percent = 100.0 * measured.cpu / self.first.max(1e-9);
            figures.push(("percentOfFirst", decimal(percent)));
        }
        (figures, report.totals.sum())
    }

    fn run(&mut self, mut which: impl Iterator<Item = usize> + Send, version: u32) {
        let density = self.density;
        let mut source = || {
            let next = which.by_ref().take(32);
            let batch: Vec<_> =
                next.map(|index| Item::new(parsed(&mixed(index, version, density)))).collect();
            (!batch.is_empty()).then_some(batch)
        };
        self.incremental.run(&mut source, &Outside, self.options);
    }
}

/// The input of another program for the same work.
fn emit(
    folder: &Path,
    library: &library::Policies,
    snapshot: &Snapshot,
    pods: usize,
    density: Density,
    options: AuditOptions<'_>,
) {
    fs::create_dir_all(folder).expect("a folder");
    let documents = |name: &str, objects: &mut dyn Iterator<Item = String>| {
        let text: String = objects.map(|object| format!("---\n{object}\n")).collect();
        fs::write(folder.join(name), text).expect("a file");
    };
    let policies = library.templates.iter().chain(&library.constraints);
    documents("policies.yaml", &mut policies.map(Value::to_json));
    let pods_as_json = (0..pods).map(|index| parsed(&pod(index, 0, density)).to_json());
    documents("pods.yaml", &mut { pods_as_json });
    for policy in audited(snapshot, pods, density, options).by_policy {
        println!("{} {} {}", policy.policy.kind.kind, policy.policy.name, policy.total);
    }
}

struct Measured {
    wall: Duration,
    cpu: f64,
}

type Figures = Vec<(&'static str, Value)>;

fn measure<T>(work: impl FnOnce() -> T) -> (Measured, T) {
    let (began, spent) = (Instant::now(), cpu());
    let result = work();
    (Measured { wall: began.elapsed(), cpu: cpu() - spent }, result)
}

impl Measured {
    fn figures(&self, handed: usize, report: &Report) -> Figures {
        let seconds = self.wall.as_secs_f64();
        let rate = handed as f64 / seconds.max(1e-9);
        vec![
            ("objects", number(report.counts.objects as usize)),
            ("evaluated", number(report.counts.evaluated as usize)),
            ("asked", number(report.counts.asked as usize)),
            ("violations", number(report.totals.sum() as usize)),
            ("errors", number(report.counts.errors as usize)),
            ("seconds", decimal(seconds)),
            ("cpuSeconds", decimal(self.cpu)),
            ("objectsPerSecond", decimal(rate)),
            ("rssMb", memory("VmRSS:")),
            ("peakRssMb", memory("VmHWM:")),
        ]
    }
}

fn number(count: usize) -> Value {
    i64::try_from(count).expect("a count").into()
}

fn decimal(number: f64) -> Value {
    Value::from_json(format!("{number:.3}").as_bytes()).expect("a number")
}

/// Processor time of this process in seconds, from the kernel's hundredths.
fn cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(") ").next().unwrap_or_default();
    let fields: Vec<f64> =
        after.split(' ').map(|field| field.parse().unwrap_or_default()).collect();
    fields.get(11..13).map_or(0.0, |times| times.iter().sum::<f64>() / 100.0)
}

fn memory(line: &str) -> Value {
    decimal(megabytes(line))
}

fn megabytes(line: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let found = status.lines().find_map(|text| text.strip_prefix(line));
    let kilobytes = found.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or_default() / 1024.0
}

/// All of the library, in force.
fn snapshot(library: &library::Policies) -> Snapshot {
    let policies = library.templates.iter().chain(&library.constraints).cloned();
    let changes = policies.map(|policy| Change::Upsert(PolicySource::of_object(policy)));
    let update = Snapshot::new(EngineConfig::default()).apply(changes.collect(), OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    update.snapshot
}

fn parsed(text: &str) -> Value {
    Value::from_json(text.as_bytes()).expect("JSON")
}

/// Every Namespace exists, and time passes.
struct Outside;

impl Clock for Outside {
    fn now(&self) -> Duration {
        static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        START.elapsed()
    }
}

impl Host for Outside {
    fn clock(&self) -> &dyn Clock {
        self
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        Ok(parsed(&format!(
            r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}}}}"#
        )))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
    }
}

/// Takes violations as a log would, and drops them.
struct Everything;

impl Sink for Everything {
    fn violation(&self, audit: &str, violation: &Violation) {
        static LENGTH: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let line = format!("{audit} {} {}", violation.message, violation.details);
        LENGTH.fetch_add(line.len(), Ordering::Relaxed);
    }
}

/// As where statuses and metrics are all that is wanted.
struct TotalsOnly;

impl Sink for TotalsOnly {
    fn wants_violations(&self) -> bool {
        false
    }

    fn violation(&self, _: &str, _: &Violation) {}
}
