//! Faults in clusters while objects are created: modgate admits no object that a policy denies,
//! denies no other, and follows everything again afterwards.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    fs,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use modgate_cluster::{
    ClusterConfig,
    remote::{Place, Remote, RemoteError, Resource},
};
use modgate_testkit::cluster::{Cluster, Options, balancer::Balancer};
use modgate_value::{Value, yaml};

use modgate_e2e::{Running, definition, eventually, kubectl, namespace, succeeds};
use modgate_server::PolicyOrigin;

/// Those who make objects, each as fast as it is answered.
const LOADERS: usize = 2;

/// A cluster with ModRules, one of which refuses ConfigMaps of Namespaces that say `kind: bad`, and
/// a server that follows it.
struct Fixture {
    cluster: Cluster,
    _server: Running,
}

impl Fixture {
    fn start() -> Option<Self> {
        Some(Self::in_cluster(Cluster::start(&Options::default()).expect("cluster")?, None))
    }

    /// The server reaches the cluster as this kubeconfig says.
    fn in_cluster(cluster: Cluster, kubeconfig: Option<PathBuf>) -> Self {
        let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
        succeeds(&cluster, "create -f -", &rules);
        succeeds(&cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
        namespace(&cluster, "load", "faults");
        succeeds(&cluster, "create -f -", &rule("refuse", "bad", "by rule"));
        let server = Running::configured(&cluster, |config| {
            // Audits would ask the API server for what it gets here without them.
            config.audit.interval = Duration::ZERO;
            if kubeconfig.is_some() {
                config.policies =
                    PolicyOrigin::Cluster(ClusterConfig { kubeconfig, context: None });
            }
        });
        succeeds(&cluster, "create -f -", &server.webhook("faults", "/validate"));
        let fixture = Self { cluster, _server: server };
        let first = fixture.remote();
        eventually_refused(&first, "first", "bad", "load/refuse: ");
        fixture
    }

    fn remote(&self) -> Remote {
        let place = Place { files: vec![self.cluster.kubeconfig().to_owned()], context: None };
        Remote::connect(&place).expect("client")
    }

    /// Makes objects in a Namespace for as long as `meanwhile` takes.
    fn under_load<T>(&self, namespace: &str, meanwhile: impl FnOnce() -> T) -> (T, Count) {
        let (count, stop) = (Count::default(), AtomicBool::new(false));
        let done = thread::scope(|scope| {
            for loader in 0..LOADERS {
                let (count, stop) = (&count, &stop);
                let remote = self.remote();
                scope.spawn(move || load(&remote, namespace, loader, count, stop));
            }
            let _stop = Stop(&stop);
            meanwhile()
        });
        (done, count)
    }
}

fn rules() -> Resource {
    let group = Resource::of_cluster("api.kubemod.io", "v1beta1", "modrules");
    Resource { namespaced: true, ..group }
}

fn rule(name: &str, kind: &str, message: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: {name}, namespace: load}}\nspec:\n  type: Reject\n  \
         rejectMessage: '{message}'\n  match: [{{select: '$.data.kind', matchValue: '{kind}'}}]\n"
    )
}

fn make(remote: &Remote, namespace: &str, name: &str, kind: &str) -> Result<Value, RemoteError> {
    let config_maps = Resource { namespaced: true, ..Resource::of_cluster("", "v1", "configmaps") };
    let text = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\n\
         data: {{kind: {kind}}}\n"
    );
    remote.create(&config_maps, &yaml::value(&text).expect("YAML"))
}

/// Waits until a policy refuses objects of a kind in Namespace `load`, and says so. Each has another
/// name: one that was made before is refused for being there.
fn eventually_refused(remote: &Remote, name: &str, kind: &str, text: &str) {
    let mut tries = 0..;
    eventually(&format!("{kind} is refused: {text}"), || {
        let name = format!("{name}-{}", tries.next().expect("more"));
        let said = make(remote, "load", &name, kind).map_err(|error| error.to_string());
        said.is_err_and(|message| message.contains(text))
    });
}

/// Stops the load that was started, also where a test fails meanwhile.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The counts of the objects that were created, by result.
#[derive(Debug, Default)]
struct Count {
    sent: AtomicU64,
    answered: AtomicU64,
    /// The API server was not there.
    unreachable: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Count {
    /// Waits until more was answered than [`check`](Self::check) asks for.
    fn goes_on(&self) {
        let before = self.answered.load(Ordering::Relaxed);
        eventually("objects are made", || self.answered.load(Ordering::Relaxed) > before + 20);
    }

    /// Nothing was wrong, and there was something that could have been.
    fn check(&self, what: &str) {
        let [sent, answered, unreachable] =
            [&self.sent, &self.answered, &self.unreachable].map(|it| it.load(Ordering::Relaxed));
        let wrong = self.wrong.lock().expect("not poisoned");
        eprintln!(
            "{what}: {sent} sent, {answered} answered, {unreachable} without an API server, {} wrong",
            wrong.len()
        );
        assert!(wrong.is_empty(), "{what}: {:#?}", wrong.iter().take(10).collect::<Vec<_>>());
        assert_eq!(sent, answered + unreachable, "{what}");
        assert!(answered > 20, "{what}");
    }
}

/// Makes objects until `stop` is set, every other one of them bad.
fn load(remote: &Remote, namespace: &str, loader: usize, count: &Count, stop: &AtomicBool) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let kind = ["good", "bad"][number % 2];
        count.sent.fetch_add(1, Ordering::Relaxed);
        let answer = make(remote, namespace, &format!("c-{loader}-{number}"), kind);
        if let Err(RemoteError::Unreachable { .. }) = &answer {
            count.unreachable.fetch_add(1, Ordering::Relaxed);
            thread::sleep(Duration::from_millis(20));
            continue;
        }
        if let Some(wrong) = wrong(kind, &answer) {
            // An API server that stops says so; no policy decided.
            if ["shutting down", "connection refused", "etcdserver", "not yet ready"]
                .iter()
                .any(|text| wrong.contains(text))
            {
                count.unreachable.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            count.wrong.lock().expect("not poisoned").push(format!("{kind} {number}: {wrong}"));
        }
        count.answered.fetch_add(1, Ordering::Relaxed);
    }
}

fn wrong(kind: &str, answer: &Result<Value, RemoteError>) -> Option<String> {
    match (kind, answer) {
        ("good", Ok(_)) => None,
        ("bad", Ok(_)) => Some("no policy denied it".to_owned()),
        ("bad", Err(RemoteError::Refused { message, .. }))
            if message.contains("load/refuse: \"") =>
        {
            None
        }
        (_, Err(error)) => Some(error.to_string()),
        (_, Ok(_)) => None,
    }
}

#[test]
fn the_api_server_restarts() {
    let Some(mut fixture) = Fixture::start() else { return };
    let place = Place { files: vec![fixture.cluster.kubeconfig().to_owned()], context: None };
    let (count, stop) = (Count::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for loader in 0..LOADERS {
            let (count, stop) = (&count, &stop);
            let remote = Remote::connect(&place).expect("client");
            scope.spawn(move || load(&remote, "load", loader, count, stop));
        }
        count.goes_on();
        let down = || thread::sleep(Duration::from_secs(1));
        let restarted = fixture.cluster.restart(down).expect("restarted").is_some();
        if restarted {
            count.goes_on();
        }
        if !restarted {
            eprintln!("skipped: binaries of others are not restarted");
        }
    });
    count.check("API server restart");
    // What changes afterwards is seen, though every watch had broken off.
    succeeds(&fixture.cluster, "apply -f -", &rule("refuse", "bad", "by a changed rule"));
    eventually_refused(&fixture.remote(), "after", "bad", "by a changed rule");
}

/// The control plane is upgraded by two minor versions and taken back: kinds, streamed lists and discovery change under
/// the watches.
#[test]
fn the_api_server_is_upgraded_and_taken_back() {
    let old = || Options { flags: vec!["--emulated-version=1.34".to_owned()] };
    let Some(cluster) = Cluster::start(&old()).expect("cluster") else { return };
    let mut fixture = Fixture::in_cluster(cluster, None);
    let minor = |fixture: &Fixture| {
        let version = succeeds(&fixture.cluster, "get --raw /version", "");
        let version = Value::from_json(version.as_bytes()).expect("JSON");
        version.get("emulationMinor").and_then(Value::as_str).map(str::to_owned)
    };
    if minor(&fixture).as_deref() != Some("34") {
        eprintln!("skipped: this API server does not emulate older versions");
        return;
    }
    let place = Place { files: vec![fixture.cluster.kubeconfig().to_owned()], context: None };
    let (count, stop) = (Count::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for loader in 0..LOADERS {
            let (count, stop) = (&count, &stop);
            let remote = Remote::connect(&place).expect("client");
            scope.spawn(move || load(&remote, "load", loader, count, stop));
        }
        count.goes_on();
        for (options, expected) in [(Options::default(), None), (old(), Some("34"))] {
            let restarted = fixture.cluster.restart_as(&options, || ()).expect("restarted");
            assert!(restarted.is_some(), "an API server that emulates versions is ours");
            count.goes_on();
            match expected {
                Some(expected) => assert_eq!(minor(&fixture).as_deref(), Some(expected)),
                None => assert_ne!(minor(&fixture).as_deref(), Some("34")),
            }
            // What changes afterwards is seen.
            let message = format!("by a rule of {}", expected.unwrap_or("the newest"));
            succeeds(&fixture.cluster, "apply -f -", &rule("refuse", "bad", &message));
            eventually_refused(&fixture.remote(), &message.replace(' ', "-"), "bad", &message);
        }
    });
    count.check("API server upgraded and taken back");
}

#[test]
fn policies_come_and_go_by_the_thousand() {
    let Some(fixture) = Fixture::start() else { return };
    let before = resident();
    let ((), count) = fixture.under_load("load", || {
        let many: Vec<Value> = (0..500)
            .map(|number| {
                yaml::value(&rule(&format!("many-{number}"), &format!("kind-{number}"), "x"))
                    .expect("YAML")
            })
            .collect();
        for round in 0..2 {
            let started = Instant::now();
            in_parallel(&fixture, &many, |remote, rule| {
                remote.put(&rules(), rule).expect("applied");
            });
            let applied = started.elapsed();
            // The last one is in force, and therefore all before it.
            let remote = fixture.remote();
            eventually_refused(&remote, &format!("probe-{round}"), "kind-499", "load/many-499: ");
            eprintln!(
                "round {round}: 500 applied in {applied:?}, in force after {:?}",
                started.elapsed()
            );
            in_parallel(&fixture, &many, |remote, rule| {
                let name = rule.path(&["metadata", "name"]).and_then(Value::as_str).expect("name");
                assert!(remote.delete(&rules(), "load", name).expect("deleted"));
            });
            eventually("all are gone", || {
                make(&remote, "load", &format!("gone-{round}"), "kind-499").is_ok()
            });
        }
    });
    count.check("1000 policies applied and deleted, half at a time");
    let after = resident();
    eprintln!("resident, with the loaders: {before} KiB before, {after} KiB after");
}

/// Memory of this process, KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

fn in_parallel(fixture: &Fixture, all: &[Value], each: impl Fn(&Remote, &Value) + Sync) {
    thread::scope(|scope| {
        for part in all.chunks(all.len() / 4) {
            let (remote, each) = (fixture.remote(), &each);
            scope.spawn(move || part.iter().for_each(|one| each(&remote, one)));
        }
    });
}

#[test]
fn a_namespace_goes_with_its_rules() {
    let Some(fixture) = Fixture::start() else { return };
    if !fixture.cluster.has_controllers() {
        eprintln!("skipped: this cluster has no controller that removes Namespaces");
        return;
    }
    namespace(&fixture.cluster, "doomed", "faults");
    let doomed =
        rule("doomed", "bad", "by the doomed").replace("namespace: load", "namespace: doomed");
    succeeds(&fixture.cluster, "create -f -", &doomed);
    let remote = fixture.remote();
    let refused = |remote: &Remote| {
        let said = make(remote, "doomed", "probe", "bad").map_err(|error| error.to_string());
        said.err().filter(|message| message.contains("doomed/doomed"))
    };
    eventually("its rule is in force", || refused(&remote).is_some());
    // Made until the API server says that the Namespace is no more; bad ones never.
    let made = AtomicUsize::new(0);
    thread::scope(|scope| {
        let loader = scope.spawn(|| {
            let remote = fixture.remote();
            for number in 0.. {
                let kind = ["good", "bad"][number % 2];
                match make(&remote, "doomed", &format!("d-{number}"), kind) {
                    Ok(_) => {
                        assert_eq!(kind, "good", "no policy denied number {number}");
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => {
                        let message = error.to_string();
                        if message.contains("doomed/doomed: \"by the doomed\"") {
                            assert_eq!(kind, "bad");
                        } else {
                            let gone = ["being terminated", "not found"];
                            assert!(gone.iter().any(|text| message.contains(text)), "{message}");
                            break;
                        }
                    }
                }
            }
        });
        eventually("objects are made", || made.load(Ordering::Relaxed) > 10);
        succeeds(&fixture.cluster, "delete namespace doomed --wait=false", "");
        loader.join().expect("no bad object was made");
    });
    let made = made.into_inner();
    eprintln!("namespace deleted mid-way: {made} objects made before it went, none wrong");
    eventually("it is gone", || !kubectl(&fixture.cluster, "get namespace doomed", "").success);
    // One of the same name has none of its rules.
    namespace(&fixture.cluster, "doomed", "faults");
    eventually("nothing is refused", || make(&remote, "doomed", "again", "bad").is_ok());
}

/// A Namespace cannot be deleted, because a finalizer holds one of its rules: rules that still exist stay in force, others
/// are not held up, and when the Namespace goes its rules go.
#[test]
fn a_namespace_is_stuck_in_deletion() {
    let Some(fixture) = Fixture::start() else { return };
    if !fixture.cluster.has_controllers() {
        eprintln!("skipped: this cluster has no controller that removes Namespaces");
        return;
    }
    let cluster = &fixture.cluster;
    // Nothing can be made in a Namespace that is being deleted, so changes have to be reviewed, too.
    let webhook = fixture._server.webhook("stuck", "/validate");
    succeeds(cluster, "create -f -", &webhook.replace("[CREATE]", "[CREATE, UPDATE]"));
    namespace(cluster, "stuck", "stuck");
    let finalizers = "namespace: stuck, finalizers: [example.com/held]";
    let held = rule("held", "bad", "by the held").replace("namespace: load", finalizers);
    succeeds(cluster, "create -f -", &held);
    let map = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: kept, {finalizers}}}\ndata: {{kind: good}}\n"
    );
    succeeds(cluster, "create -f -", &map);
    let change = || {
        let patch = r#"patch configmap kept -n stuck --type=merge -p {"data":{"kind":"bad"}}"#;
        kubectl(cluster, &format!("{patch} --dry-run=server"), "").stderr
    };
    eventually("its rule is in force", || change().contains("stuck/held"));
    let phase = || succeeds(cluster, "get namespace stuck -o jsonpath={.status.phase}", "");
    let ((), count) = fixture.under_load("load", || {
        succeeds(cluster, "delete namespace stuck --wait=false", "");
        eventually("it is being deleted", || phase() == "Terminating");
        let marked = "get modrule held -n stuck -o jsonpath={.metadata.deletionTimestamp}";
        eventually("its rule is being deleted", || !succeeds(cluster, marked, "").is_empty());
        // Rules of others change as before.
        succeeds(cluster, "apply -f -", &rule("refuse", "bad", "by a changed rule"));
        eventually_refused(&fixture.remote(), "meanwhile", "bad", "by a changed rule");
        // A rule that is there is in force.
        assert!(change().contains("stuck/held"), "{}", change());
        assert_eq!(phase(), "Terminating");
        for what in ["modrule held", "configmap kept"] {
            let release = r#"-n stuck --type=merge -p {"metadata":{"finalizers":null}}"#;
            succeeds(cluster, &format!("patch {what} {release}"), "");
        }
        eventually("it is gone", || !kubectl(cluster, "get namespace stuck", "").success);
    });
    count.check("a namespace stuck in deletion");
    namespace(cluster, "stuck", "stuck");
    let remote = fixture.remote();
    eventually("nothing is refused", || make(&remote, "stuck", "again", "bad").is_ok());
}

/// Watches stand still until everything they missed is compacted, and then break off: the API server
/// answers that they are expired, and the kinds are listed anew.
#[test]
fn watches_expire() {
    // Watches are etcd's own, whose past is short; lists are counted apart from them.
    let flags =
        ["--watch-cache=false", "--etcd-compaction-interval=1s", "--feature-gates=WatchList=false"];
    let options = Options { flags: flags.map(str::to_owned).into() };
    let Some(cluster) = Cluster::start(&options).expect("cluster") else { return };
    let server = cluster.server().strip_prefix("https://").expect("HTTPS").to_owned();
    let balancer = Balancer::start(&[server.parse().expect("an address")]).expect("balancer");
    let folder = tempfile::tempdir().expect("folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let direct = fs::read_to_string(cluster.kubeconfig()).expect("kubeconfig");
    fs::write(&kubeconfig, direct.replace(&server, &balancer.address().to_string()))
        .expect("written");
    let fixture = Fixture::in_cluster(cluster, Some(kubeconfig));
    let (cluster, remote) = (&fixture.cluster, fixture.remote());
    succeeds(cluster, "create -f -", &rule("leaves", "leaving", "by what leaves"));
    let refused = |name: &str, kind: &str| {
        let answer = make(&remote, "load", name, kind).map_err(|error| error.to_string());
        answer.err().unwrap_or_default()
    };
    eventually_refused(&remote, "probe", "leaving", "by what leaves");

    let watched = "/apis/api.kubemod.io/v1beta1/modrules";
    let count = |metric: &str, verb: &str| {
        let metrics = succeeds(cluster, "get --raw /metrics", "");
        let verb = format!(r#"verb="{verb}""#);
        let is_it = |line: &&str| {
            line.strip_prefix(metric).is_some_and(|rest| rest.starts_with('{'))
                && line.contains(r#"resource="modrules""#)
                && line.contains(&verb)
        };
        let counts = metrics.lines().filter(is_it).filter_map(|line| line.rsplit_once(' '));
        counts.map(|(_, count)| count.parse::<f64>().expect("number")).sum::<f64>()
    };
    let lists = || count("apiserver_request_total", "LIST");
    // The garbage collector lists the kind some time after it was made, and watches it then. Nobody
    // but this process lists it from here on.
    let watches = if cluster.has_controllers() { 2.0 } else { 1.0 };
    eventually("everybody watches the kind", || {
        let now = count("apiserver_longrunning_requests", "WATCH");
        now == watches
    });
    let list = succeeds(cluster, &format!("get --raw {watched}?limit=1"), "");
    let list = Value::from_json(list.as_bytes()).expect("JSON");
    let version = list.path(&["metadata", "resourceVersion"]).and_then(Value::as_str);
    let version = version.expect("a version").to_owned();
    let before = lists();
    let (listed, count) = fixture.under_load("load", || {
        balancer.hold();
        succeeds(cluster, "delete modrule leaves -n load --wait=false", "");
        succeeds(cluster, "create -f -", &rule("comes", "coming", "by what comes"));
        succeeds(cluster, "apply -f -", &rule("refuse", "bad", "by a changed rule"));
        let watch =
            format!("get --raw {watched}?watch=1&timeoutSeconds=1&resourceVersion={version}");
        eventually("what was missed is compacted", || {
            kubectl(cluster, &watch, "").stdout.contains(r#""code":410"#)
        });
        assert_eq!(lists(), before, "nothing was seen yet");
        assert_eq!(refused("unseen", "coming"), "");
        // Events that the watches would still have received are lost with their connections.
        balancer.cut();
        balancer.mend();
        eventually_refused(&remote, "comes", "coming", "by what comes");
        eventually_refused(&remote, "c", "bad", "by a changed rule");
        eventually("the deleted one is not", || refused("leaves", "leaving").is_empty());
        lists()
    });
    assert!(listed > before, "{listed} lists, {before} before");
    count.check("watches expired by a compaction");
}
