//! The cost of a large inventory: memory while large objects are listed, and processor time while
//! objects change. Prints figures; run by name, with a release build:
//!
//! ```sh
//! MODGATE_BINARY=target/release/modgate \
//!   cargo test -p modgate-e2e --test load -- --ignored --nocapture
//! ```
//!
//! `MODGATE_CLUSTER_FLAGS=--feature-gates=WatchList=false` has lists come in pages.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says what was measured"
)]

use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use modgate_e2e::{client, eventually, free_address, is_ready, kubectl, succeeds};
use modgate_testkit::cluster::Cluster;
use serde_json::json;
use tokio::{runtime::Runtime, task::JoinSet, time::sleep_until};

const LARGE: usize = 5_000;
const BYTES: usize = 50_000;
const SMALL: usize = 1_000;
/// Events a second that are aimed at, and for how long.
const RATE: usize = 1_000;
const SECONDS: usize = 10;
const WORKERS: usize = 16;

/// Looks at labels alone, so that nothing else is kept; or at everything.
fn template(name: &str, walks: bool) -> String {
    let looks = match walks {
        false => "object.metadata.labels.never",
        true => "walk(object, [_, \"never\"])",
    };
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: {name}}}\n\
         spec:\n  crd: {{spec: {{names: {{kind: {}}}}}}}\n  targets:\n  \
         - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package p\n      \
         violation[{{\"msg\": \"no\"}}] {{ object := data.inventory.namespace[_].v1.ConfigMap[_]; {looks} \
         }}\n",
        name.to_uppercase()
    )
}

const SYNC_SET: &str = "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\n\
                        metadata: {name: maps}\n\
                        spec: {gvks: [{group: '', version: v1, kind: ConfigMap}]}\n";

/// The program, and what the system says of it.
struct Process {
    child: Child,
    health: SocketAddr,
    metrics: SocketAddr,
}

impl Process {
    fn start(cluster: &Cluster, folder: &Path) -> Self {
        let free = || free_address().expect("port");
        let (health, metrics) = (free(), free());
        let built = || env!("CARGO_BIN_EXE_modgate-e2e").into();
        let program = env::var_os("MODGATE_BINARY").map_or_else(built, PathBuf::from);
        let child = Command::new(program)
            .args(["serve", "--tls-name", "127.0.0.1", "--address", &free().to_string()])
            .args(["--operator-health-probe-addr", &health.to_string()])
            .args(["--operator-metrics-addr", &metrics.to_string()])
            .args(["--audit-interval", "0", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .env("POD_NAMESPACE", "gatekeeper-system")
            .stderr(File::create(folder.join("log")).expect("file"))
            .spawn()
            .expect("modgate");
        Self { child, health, metrics }
    }

    /// How long it takes until requests may come.
    fn ready(&self) -> Duration {
        let started = Instant::now();
        eventually("the process is ready", || is_ready(self.health));
        started.elapsed()
    }

    fn synced(&self) -> String {
        let metrics = client::get(self.metrics, "/metrics").expect("metrics").body;
        let line = metrics.lines().find(|line| {
            line.starts_with("gatekeeper_sync{")
                && line.contains("ConfigMap")
                && line.contains("active")
        });
        line.and_then(|line| line.rsplit_once(' ')).map_or("0", |(_, count)| count).to_owned()
    }

    /// A line of `/proc/PID/status`, in MB.
    fn memory(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.expect("status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        let kilobytes = line.split_whitespace().nth(1).expect("a number");
        kilobytes.parse::<u64>().expect("a number") * 1024 / 1_000_000
    }

    /// Processor time so far, in seconds.
    fn processor(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("stat");
        let (_, fields) = stat.rsplit_once(") ").expect("fields");
        // utime and stime, in hundredths of a second.
        let ticks = fields.split(' ').skip(11).take(2).map(|it| it.parse::<f64>().expect("number"));
        ticks.sum::<f64>() / 100.0
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes so many ConfigMaps of a namespace, all at once.
async fn make(client: &Client, namespace: &str, count: usize, bytes: usize) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (api, next) = (api.clone(), Arc::clone(&next));
        workers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    return;
                }
                // Some hundred members, as large objects have them.
                let value = "v".repeat(80);
                let data = (0..bytes / 100).map(|it| (format!("key-{it:012}"), value.clone()));
                let data: BTreeMap<String, String> = data.collect();
                let metadata =
                    ObjectMeta { name: Some(format!("c-{number}")), ..ObjectMeta::default() };
                let map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
                api.create(&PostParams::default(), &map).await.expect("created");
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("worker");
    }
}

/// Changes ConfigMaps as often as is aimed at; returns how often, and the time it took.
async fn change(client: &Client, namespace: &str) -> (usize, Duration) {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let started = tokio::time::Instant::now();
    let end = started + Duration::from_secs(SECONDS as u64);
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (api, next) = (api.clone(), Arc::clone(&next));
        workers.spawn(async move {
            while tokio::time::Instant::now() < end {
                let number = next.fetch_add(1, Ordering::Relaxed);
                sleep_until(started + Duration::from_secs(1) / RATE as u32 * number as u32).await;
                let label = json!({"metadata": {"labels": {"round": number.to_string()}}});
                let name = format!("c-{}", number % SMALL);
                let params = PatchParams::default();
                api.patch_metadata(&name, &params, &Patch::Merge(label)).await.expect("changed");
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker.expect("worker");
    }
    (next.load(Ordering::Relaxed), started.elapsed())
}

#[test]
#[ignore = "takes minutes and is there for its figures"]
fn a_large_inventory() {
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "apply --server-side -f -", &modgate_e2e::our_definitions());
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    for name in ["gatekeeper-system", "large", "small"] {
        succeeds(cluster, &format!("create namespace {name}"), "");
    }
    let runtime = Runtime::new().expect("runtime");
    let client = runtime.block_on(modgate_e2e::load::client(cluster.kubeconfig()));
    let folder = tempfile::tempdir().expect("folder");

    let idle = Process::start(cluster, folder.path());
    idle.ready();
    eprintln!("nothing synced: {} MB at most", idle.memory("VmHWM"));
    drop(idle);

    runtime.block_on(make(&client, "large", LARGE, BYTES));
    succeeds(cluster, "create -f -", SYNC_SET);
    for (walks, what) in [(false, "labels are looked at"), (true, "everything is looked at")] {
        succeeds(cluster, "apply -f -", &template("looks", walks));
        let process = Process::start(cluster, folder.path());
        let took = process.ready();
        eventually("they are synced", || {
            process.synced().parse::<usize>().is_ok_and(|count| count >= LARGE)
        });
        eprintln!(
            "{LARGE} objects of {BYTES} bytes, of which {what}: ready after {took:.1?} and {:.1} s of a \
             processor; {} MB at most, {} MB then",
            process.processor(),
            process.memory("VmHWM"),
            process.memory("VmRSS")
        );
    }

    // Small ones that change, beside the large ones, whose labels alone are kept again.
    succeeds(cluster, "apply -f -", &template("looks", false));
    runtime.block_on(make(&client, "small", SMALL, 1_000));
    let process = Process::start(cluster, folder.path());
    process.ready();
    std::thread::sleep(Duration::from_secs(1));
    let before = process.processor();
    let (events, took) = runtime.block_on(change(&client, "small"));
    let used = process.processor() - before;
    let (events, took) = (events as f64, took.as_secs_f64());
    eprintln!(
        "{:.0} events a second for {took:.0} s: {:.1} % of a processor, {:.0} us an event; {} MB",
        events / took,
        used / took * 100.0,
        used / events * 1e6,
        process.memory("VmRSS")
    );
    assert!(kubectl(cluster, "get syncset maps", "").success);
}
