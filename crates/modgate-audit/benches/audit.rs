//! Audits of synthetic objects by the public library, in one command:
//!
//! ```text
//! cargo bench -p modgate-audit --bench audit -- [--objects N] [--pods N] [--threads N]
//! ```
//!
//! `--pods` (5,000 unless said otherwise) is the number of Pods of the first measurement, `--objects`
//! (100,000) that of the mixed objects of the second. Objects are made as they are asked for, as JSON
//! that is parsed, like pages of the API server. One JSON document with all figures is printed; times
//! are in seconds, memory is the process's peak so far in MB.
//!
//! Needs upstream's files; without them nothing is measured, and it says so.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::indexing_slicing,
    missing_docs,
    reason = "a benchmark"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use modgate_audit::{Incremental, Item, Manner, Options, Policies, Report, Sink, Violation, audit};
use modgate_engine::{
    Change, EngineConfig, Host, HostError, OnError, PolicySource, Snapshot, constraint::Inventory,
};
use modgate_value::{Clock, Value, yaml};

static NEVER: AtomicBool = AtomicBool::new(false);

fn main() {
    let argument = |name: &str, default: usize| {
        let mut all = env::args().skip_while(|argument| argument != name).skip(1);
        all.next().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    // `cargo test` runs benchmarks too, to see whether they run.
    let is_test = env::args().all(|argument| argument != "--bench");
    let (few, many) = if is_test { (50, 200) } else { (5_000, 100_000) };
    let (pods, objects) = (argument("--pods", few), argument("--objects", many));
    let threads = argument("--threads", Manner::all_cores());
    let Some(snapshot) = library() else {
        eprintln!("the public library is not here; set MODGATE_CONFORMANCE");
        return;
    };
    let templates = snapshot.constraints().templates().count();
    let constraints = snapshot.constraints().constraints().count();
    let mut figures = vec![
        ("templates", number(templates)),
        ("constraints", number(constraints)),
        ("threads", number(threads)),
        ("startRssMb", rss()),
    ];
    let manner = Manner { threads, limit: 20, stop: &NEVER };
    figures.push(("pods", of_pods(&snapshot, pods, manner)));
    figures.push(("mixed", of_mixed(&snapshot, objects, manner)));
    println!("{}", figures.into_iter().collect::<Value>());
}

/// One audit of equal Pods that keeps nothing.
fn of_pods(snapshot: &Snapshot, count: usize, manner: Manner<'_>) -> Value {
    let policies = Policies::new(snapshot.clone(), Inventory::default(), Options::default());
    let mut objects = (0..count).map(|index| Item::new(parsed(&pod(index, 0))));
    let mut source = || {
        let batch: Vec<_> = objects.by_ref().take(32).collect();
        (!batch.is_empty()).then_some(batch)
    };
    let (measured, report) = measure(|| {
        audit("", &policies, &mut source, &Outside, &Nowhere, manner).expect("not stopped")
    });
    assert_eq!(report.counts.objects, count as u64);
    with(measured, count, &report)
}

/// Audits of many kinds of objects that keep what they find.
fn of_mixed(snapshot: &Snapshot, count: usize, manner: Manner<'_>) -> Value {
    let mut inventory = Inventory::default();
    for index in (0..count).filter(|index| is_synced(*index)) {
        inventory.insert(parsed(&mixed(index, 0))).expect("inserted");
    }
    let mut incremental = Incremental::new(Options::default());
    let run = |incremental: &mut Incremental, which: &mut Which<'_>| {
        let mut source = || {
            let next = (0..32).map_while(|_| which.next());
            let batch: Vec<_> =
                next.map(|(index, version)| Item::new(parsed(&mixed(index, version)))).collect();
            (!batch.is_empty()).then_some(batch)
        };
        incremental.run(&mut source, &Outside, manner);
    };
    let (first, report) = measure(|| {
        incremental.adopt(snapshot, &inventory, &Outside);
        run(&mut incremental, &mut (0..count).map(|index| (index, 0)));
        incremental.report("", manner.limit, &Nowhere).expect("policies")
    });
    let before = first.cpu;
    let first = with(first, count, &report);

    let (unchanged, report) = measure(|| {
        incremental.adopt(snapshot, &inventory, &Outside);
        incremental.report("", manner.limit, &Nowhere).expect("policies")
    });
    let unchanged = share(with(unchanged, 0, &report), before);

    // Pods and ConfigMaps, which no template looks at in the inventory.
    let changed: Vec<usize> =
        (0..count).filter(|index| !is_synced(*index)).step_by(7).take(100).collect();
    let (second, report) = measure(|| {
        incremental.adopt(snapshot, &inventory, &Outside);
        run(&mut incremental, &mut changed.iter().map(|index| (*index, 1)));
        again(&mut incremental, &run, count);
        incremental.report("", manner.limit, &Nowhere).expect("policies")
    });
    assert_eq!(report.counts.evaluated, changed.len() as u64, "nothing else is evaluated");
    let second = share(with(second, changed.len(), &report), before);

    let services: Vec<usize> =
        (0..count).filter(|index| kind(*index) == "Service").take(10).collect();
    for index in &services {
        inventory.insert(parsed(&mixed(*index, 2))).expect("inserted");
    }
    let (third, report) = measure(|| {
        incremental.adopt(snapshot, &inventory, &Outside);
        run(&mut incremental, &mut services.iter().map(|index| (*index, 2)));
        again(&mut incremental, &run, count);
        incremental.report("", manner.limit, &Nowhere).expect("policies")
    });
    let third = share(with(third, services.len(), &report), before);
    [
        ("first", first),
        ("nothingChanged", unchanged),
        ("objectsChanged", second),
        ("servicesChanged", third),
    ]
    .into_iter()
    .collect()
}

/// Numbers of objects, and their versions.
type Which<'a> = dyn Iterator<Item = (usize, u32)> + Send + 'a;

/// Lists the kinds of what is stale again.
fn again(
    incremental: &mut Incremental,
    run: &dyn Fn(&mut Incremental, &mut Which<'_>),
    count: usize,
) {
    for stale in incremental.stale() {
        let mut of_kind =
            (0..count).filter(|index| kind(*index) == stale.kind.kind).map(|it| (it, 0));
        run(incremental, &mut of_kind);
    }
}

struct Measured {
    wall: Duration,
    cpu: f64,
}

fn measure<T>(work: impl FnOnce() -> T) -> (Measured, T) {
    let (began, spent) = (Instant::now(), cpu());
    let result = work();
    (Measured { wall: began.elapsed(), cpu: cpu() - spent }, result)
}

fn with(measured: Measured, handed: usize, report: &Report) -> Value {
    let rate = handed as f64 / measured.wall.as_secs_f64().max(1e-9);
    [
        ("objects", number(report.counts.objects as usize)),
        ("evaluated", number(report.counts.evaluated as usize)),
        ("asked", number(report.counts.asked as usize)),
        ("violations", number(report.totals.sum() as usize)),
        ("errors", number(report.counts.errors as usize)),
        ("seconds", decimal(measured.wall.as_secs_f64())),
        ("cpuSeconds", decimal(measured.cpu)),
        ("objectsPerSecond", decimal(rate)),
        ("peakRssMb", rss()),
    ]
    .into_iter()
    .collect()
}

/// Adds what part of the first audit's processor time it took.
fn share(figures: Value, first: f64) -> Value {
    let cpu =
        figures.get("cpuSeconds").map(Value::to_json).and_then(|text| text.parse::<f64>().ok());
    let mut members = figures.as_object().cloned().expect("figures");
    members.insert("percentOfFirst", decimal(100.0 * cpu.unwrap_or_default() / first.max(1e-9)));
    members.into()
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

fn rss() -> Value {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    decimal(kilobytes.unwrap_or_default() / 1024.0)
}

/// The templates of the public library, and the constraints of their samples.
fn library() -> Option<Snapshot> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = env::var_os("MODGATE_CONFORMANCE").map(PathBuf::from);
    let folders = named.into_iter().chain([repository.join("../shared/conformance")]);
    let mut folders = folders.map(|folder| folder.join("gatekeeper-library/library"));
    let folder = folders.find(|folder| folder.is_dir())?;
    let mut changes = Vec::new();
    read(&folder, &mut changes);
    let update = Snapshot::new(EngineConfig::default()).apply(changes, OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    Some(update.snapshot)
}

fn read(folder: &Path, changes: &mut Vec<Change>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            read(&path, changes);
        } else if name == "template.yaml" || name == "constraint.yaml" {
            let text = fs::read_to_string(&path).expect("a file");
            for document in yaml::documents(&text) {
                let object = document.expect("a document").value;
                changes.push(Change::Upsert(PolicySource::of_object(unique(object, &path))));
            }
        }
    }
}

/// Samples of one template may have constraints of one name; all of them are to live.
fn unique(object: Value, path: &Path) -> Value {
    let is_constraint = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .is_some_and(|version| version.starts_with("constraints."));
    let sample =
        path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let (true, Some(sample), Value::Object(mut members)) = (is_constraint, sample, object.clone())
    else {
        return object;
    };
    let mut metadata =
        members.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut unique = sample.to_lowercase().replace('_', "-");
    unique.truncate(63);
    let unique = unique.trim_end_matches('-').to_owned();
    metadata.insert("name", unique.into());
    members.insert("metadata", metadata.into());
    members.into()
}

fn parsed(text: &str) -> Value {
    Value::from_json(text.as_bytes()).expect("JSON")
}

/// Of what kind an object is. Every Service is judged by all others, and every Ingress: a hundred
/// times as many of them take ten thousand times as long.
fn kind(index: usize) -> &'static str {
    match index % 100 {
        0..50 => "Pod",
        50..75 => "Deployment",
        75..97 => "ConfigMap",
        97..99 => "Service",
        _ => "Ingress",
    }
}

/// Whether policies see an object in the inventory: Services and Ingresses.
fn is_synced(index: usize) -> bool {
    matches!(kind(index), "Service" | "Ingress")
}

fn mixed(index: usize, version: u32) -> String {
    match kind(index) {
        "Pod" => pod(index, version),
        "Deployment" => format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{},"spec":{{"replicas":3,
            "selector":{{"matchLabels":{{"app":"a{index}"}}}},"template":{{"metadata":{{"labels":
            {{"app":"a{index}"}}}},"spec":{}}}}}}}"#,
            metadata(index, version),
            pod_spec(index)
        ),
        "Service" => format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{},"spec":{{"type":"ClusterIP",
            "selector":{{"app":"a{index}"}},"ports":[{{"port":80,"targetPort":8080}}]}}}}"#,
            metadata(index, version)
        ),
        "Ingress" => format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{},"spec":
            {{"rules":[{{"host":"h{index}.example.com","http":{{"paths":[{{"path":"/","pathType":
            "Prefix","backend":{{"service":{{"name":"s{index}","port":{{"number":80}}}}}}}}]}}}}]}}}}"#,
            metadata(index, version)
        ),
        other => format!(
            r#"{{"apiVersion":"v1","kind":"{other}","metadata":{},"data":{{"key":"value {index}"}}}}"#,
            metadata(index, version)
        ),
    }
}

fn metadata(index: usize, version: u32) -> String {
    format!(
        r#"{{"name":"object-{index}","namespace":"team-{}","uid":"8f2c-{index}","resourceVersion":
        "{index}.{version}","creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"a{index}",
        "tier":"t{}"}},"annotations":{{"note":"made for a measurement"}}}}"#,
        index % 50,
        index % 5
    )
}

/// A Pod that breaks most rules, as most Pods do.
fn pod(index: usize, version: u32) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{},"status":{{"phase":"Running",
        "podIP":"10.0.0.1"}}}}"#,
        metadata(index, version),
        pod_spec(index)
    )
}

fn pod_spec(index: usize) -> String {
    format!(
        r#"{{"hostNetwork":true,"hostPID":true,"serviceAccountName":"default","volumes":
        [{{"name":"host","hostPath":{{"path":"/var/run"}}}}],"containers":[{{"name":"main","image":
        "registry.example.com/app:latest","ports":[{{"containerPort":8080,"hostPort":8080}}],
        "env":[{{"name":"INDEX","value":"{index}"}}],"resources":{{"limits":{{"cpu":"4",
        "memory":"8Gi"}}}},"securityContext":{{"privileged":true,"allowPrivilegeEscalation":true,
        "capabilities":{{"add":["NET_ADMIN","SYS_ADMIN"]}},"runAsUser":0}},"volumeMounts":
        [{{"name":"host","mountPath":"/host"}}]}},{{"name":"helper","image":"helper",
        "securityContext":{{"readOnlyRootFilesystem":false}}}}]}}"#
    )
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
        Err(HostError(format!("nodes \"{name}\" not found")))
    }
}

/// Takes violations as a log would, and drops them.
struct Nowhere;

impl Sink for Nowhere {
    fn violation(&self, audit: &str, violation: &Violation) {
        static LENGTH: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let line = format!("{audit} {} {}", violation.message, violation.details);
        LENGTH.fetch_add(line.len(), Ordering::Relaxed);
    }
}
