//! Faults of the machine under the program: a resolver that never answers, a full disk, a clock that differs.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    fs::{self, File},
    net::{SocketAddr, UdpSocket},
    path::Path,
    process::{Child, Command},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use modgate_e2e::{
    Running,
    client::{self, Response},
    eventually, free_address, is_ready,
    provider::{Authority, object},
    succeeds,
};
use modgate_testkit::cluster::{Cluster, Options};
use tempfile::TempDir;

/// A loopback address that nothing else uses. Resolvers are asked on port 53.
const RESOLVER: &str = "127.53.53.53";

/// Many more than there are processors.
const CLIENTS: usize = 24;

const POLICIES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: asks}
spec:
  crd: {spec: {names: {kind: Asks}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package asks
      answer := external_data({"provider": "slow", "keys": [input.review.object.metadata.name]})
      violation[{"msg": msg}] { msg := sprintf("asked: %v", [answer.errors[_]]) }
      violation[{"msg": msg}] { answer.system_error != ""; msg := sprintf("asked: %v", [answer.system_error]) }
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: plain}
spec:
  crd: {spec: {names: {kind: Plain}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package plain
      violation[{"msg": "plainly refused"}] { input.review.object.data.kind == "bad" }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Asks
metadata: {name: asks}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Plain
metadata: {name: plain}
spec: {match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}}
"#;

/// The program, in a mount namespace of its own.
struct Server {
    child: Child,
    webhooks: SocketAddr,
    health: SocketAddr,
    metrics: SocketAddr,
}

impl Server {
    /// Serves policies of files after a script has mounted something. The script's `$0` is a folder.
    fn start(folder: &Path, mount: &str, more: &[&str]) -> Self {
        let [webhooks, health, metrics] = [(); 3].map(|()| free_address().expect("port"));
        let child = Command::new("unshare")
            .args(["-m", "sh", "-euc", &format!("{mount}; exec \"$@\"")])
            .arg(folder)
            .arg(env!("CARGO_BIN_EXE_modgate-e2e"))
            .args(["serve", "--policies"])
            .arg(folder.join("policies"))
            .args(["--address", &webhooks.to_string(), "--health-addr", &health.to_string()])
            .args(["--operator-metrics-addr", &metrics.to_string()])
            .args(more)
            .stderr(File::create(folder.join("log")).expect("a file"))
            .spawn()
            .expect("unshare");
        let server = Self { child, webhooks, health, metrics };
        eventually("it is ready", || is_ready(health));
        server
    }

    fn asked(&self, body: &str) -> Response {
        let config =
            client::trusting(&[&rustls::version::TLS13]).expect("TLS").with_no_client_auth();
        let stream = client::connect(self.webhooks, config).expect("connected");
        let answer = client::exchange(stream, &client::post("/v1/admit?timeout=10s", body));
        answer.expect("an answer")
    }

    /// A ConfigMap that a policy without data from elsewhere denies; whether it did.
    fn denies(&self) -> bool {
        let answer = self.asked(&review("ConfigMap", "configmaps", r#""data":{"kind":"bad"}"#));
        answer.body.contains("[plain] plainly refused")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn can_mount() -> bool {
    let tried = Command::new("unshare").args(["-m", "true"]).status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        eprintln!("skipped: this user may not mount");
    }
    can
}

fn folder_with_policies() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let policies = folder.path().join("policies");
    fs::create_dir(&policies).expect("made");
    fs::write(policies.join("policies.yaml"), POLICIES).expect("written");
    let authority = Authority::new("provider-ca");
    let provider = object("slow", "https://provider.example.com/", 1, &authority.pem);
    fs::write(policies.join("provider.json"), provider.to_json()).expect("written");
    folder
}

fn review(kind: &str, resource: &str, rest: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"1f0c6a52-7a54-4f0e-9d3e-6a5b1c2d3e4f","operation":"CREATE","name":"x","namespace":"default","userInfo":{{"username":"u"}},"kind":{{"group":"","version":"v1","kind":"{kind}"}},"resource":{{"group":"","version":"v1","resource":"{resource}"}},"object":{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"x","namespace":"default"}},{rest}}}}}}}"#
    )
}

#[test]
fn nothing_waits_for_a_resolver_that_never_answers() {
    let Ok(resolver) = UdpSocket::bind((RESOLVER, 53)) else {
        eprintln!("skipped: this user may not listen on port 53");
        return;
    };
    if !can_mount() {
        return;
    }
    let folder = folder_with_policies();
    let resolve = format!("nameserver {RESOLVER}\noptions timeout:30 attempts:3\n");
    fs::write(folder.path().join("resolv.conf"), resolve).expect("written");
    let mount = "mount --bind \"$0/resolv.conf\" /etc/resolv.conf";
    let server = &Server::start(folder.path(), mount, &[]);
    let pod = review("Pod", "pods", r#""spec":{"containers":[{"name":"c","image":"i"}]}"#);
    let stop = AtomicBool::new(false);
    let (plain, slowest) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            // Others are decided meanwhile, as ever.
            while !stop.load(Ordering::Relaxed) {
                let started = Instant::now();
                assert!(server.denies());
                let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
                slowest.fetch_max(took, Ordering::Relaxed);
                plain.fetch_add(1, Ordering::Relaxed);
                assert!(is_ready(server.health));
            }
        });
        let waiting: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let started = Instant::now();
                    (server.asked(&pod), started.elapsed())
                })
            })
            .collect();
        for waiting in waiting {
            let (answer, took) = waiting.join().expect("an answer");
            assert!(answer.body.contains("[asks] asked: "), "{}", answer.body);
            // The resolver would take 90 s to give up.
            assert!(took < Duration::from_secs(10), "{took:?}: {}", answer.body);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (plain, slowest) = (plain.into_inner(), slowest.into_inner());
    eprintln!("{CLIENTS} reviews asked; {plain} others were decided, the slowest in {slowest} ms");
    assert!(plain > 3);
    // It was asked, and that is what was waited for.
    resolver.set_nonblocking(true).expect("set");
    assert!(resolver.recv_from(&mut [0; 512]).is_ok(), "nothing was resolved");
}

/// The counts of dropped records, and of written ones, in the metrics.
fn records(server: &Server) -> (u64, u64) {
    let text = client::get(server.metrics, "/metrics").expect("metrics").body;
    let value = |start: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(start));
        line.and_then(|rest| rest.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    };
    (
        value(r#"modgate_record_dropped_total{reason="disk"}"#),
        value("modgate_record_requests_total"),
    )
}

/// Records stop while the disk is full, and go on when it is not; decisions never stop.
#[test]
fn the_disk_of_records_is_full() {
    if !can_mount() {
        return;
    }
    let folder = folder_with_policies();
    fs::create_dir(folder.path().join("disk")).expect("made");
    // The mount belongs to the server's namespace; its shell leaves a file there by which the disk can be filled.
    let mount = "mount -t tmpfs -o size=256k tmpfs \"$0/disk\"";
    let record = folder.path().join("disk/records").display().to_string();
    let server = &Server::start(folder.path(), mount, &["--record", &record]);
    let root = format!("/proc/{}/root", server.child.id());
    let disk =
        Path::new(&root).join(folder.path().strip_prefix("/").expect("absolute").join("disk"));
    assert!(server.denies());
    eventually("a request is recorded", || records(server).1 > 0);
    let filler = disk.join("filler");
    // As much as there is room for.
    let filled = fs::write(&filler, vec![0; 1 << 20]);
    assert!(filled.is_err(), "the disk is not full");
    eventually("records are dropped", || {
        assert!(server.denies());
        records(server).0 > 0
    });
    let (_, written) = records(server);
    for _ in 0..20 {
        assert!(server.denies());
    }
    assert!(is_ready(server.health));
    let log = fs::read_to_string(folder.path().join("log")).expect("a log");
    let lines =
        log.lines().filter(|it| it.contains("\"level\":\"warn\"") && it.contains("not recorded"));
    assert_eq!(lines.count(), 1, "{log}");
    eprintln!("{:?} dropped and written", records(server));
    fs::remove_file(filler).expect("removed");
    eventually("requests are recorded again", || {
        assert!(server.denies());
        records(server).1 > written
    });
}

/// A time of another clock, so many seconds from ours.
fn time(seconds: i64) -> String {
    let offset = format!("{seconds:+} seconds");
    let date = Command::new("date").args(["-u", "-d", &offset, "+%Y-%m-%dT%H:%M:%S.%6NZ"]).output();
    String::from_utf8(date.expect("date").stdout).expect("UTF-8").trim().to_owned()
}

/// Another replica leads, whose clock is a minute ahead, and then a minute behind: it keeps the Lease as long as it renews
/// it, and no longer.
#[test]
fn clocks_of_replicas_differ() {
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    succeeds(&cluster, "create namespace gatekeeper-system", "");
    let lease = format!(
        "apiVersion: coordination.k8s.io/v1\nkind: Lease\n\
         metadata: {{name: modgate, namespace: gatekeeper-system}}\nspec:\n  holderIdentity: other\n  \
         leaseDurationSeconds: 15\n  renewTime: '{}'\n",
        time(60)
    );
    succeeds(&cluster, "create -f -", &lease);
    let server = Running::of_cluster(&cluster);
    let of = "lease modgate -n gatekeeper-system";
    let holder =
        || succeeds(&cluster, &format!("get {of} -o jsonpath={{.spec.holderIdentity}}"), "");
    let renew = |offset: i64| {
        let patch = format!(r#"{{"spec":{{"renewTime":"{}"}}}}"#, time(offset));
        succeeds(&cluster, &format!("patch {of} --type=merge -p {patch}"), "");
    };
    // Each longer than the Lease lasts.
    for offset in [60, -60] {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            renew(offset);
            assert_eq!(holder(), "other", "a clock that is {offset} s away lost the Lease");
            thread::sleep(Duration::from_secs(1));
        }
    }
    assert_eq!(server.plain_metric("modgate_leader"), 0);
    renew(60);
    let stopped = Instant::now();
    eventually("this process takes over", || holder() != "other");
    let took = stopped.elapsed();
    eprintln!("taken over {:.1} s after the last renewal", took.as_secs_f64());
    assert!(took > Duration::from_secs(13), "{took:?}: before the Lease ended");
    eventually("it leads", || server.plain_metric("modgate_leader") == 1);
}
