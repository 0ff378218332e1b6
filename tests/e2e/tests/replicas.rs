//! Three replicas of the program, in front of a real API server: stopped, rolled over, killed and cut
//! off while requests never stop, and how fast they are.

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
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use modgate_cluster::LeaseTimes;
use modgate_engine::api::crds;
use modgate_server::runtime;
use modgate_testkit::{
    Roots,
    cluster::{Cluster, Options, balancer::Balancer},
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use modgate_e2e::{
    client, definition, eventually, free_address, is_ready, kubectl,
    load::{DENIAL, Load, LoadResult},
    manifests, namespace, succeeds,
};

const NAMESPACE: &str = "gatekeeper-system";
/// Where rules for all namespaces live.
const RULES: &str = "modgate-system";
/// Shorter than in a cluster, where endpoints take seconds to follow.
const DELAY: Duration = Duration::from_secs(6);
/// How much of it is left for endpoints to follow on a busy machine.
const RESERVE: Duration = Duration::from_secs(2);

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One process, and the Pod it is.
struct Replica {
    name: String,
    child: Child,
    webhooks: SocketAddr,
    health: SocketAddr,
    log: PathBuf,
}

/// The program, or another build of it.
fn program() -> PathBuf {
    let built = || env!("CARGO_BIN_EXE_modgate-e2e").into();
    env::var_os("MODGATE_BINARY").map_or_else(built, PathBuf::from)
}

/// A version of modgate: its program, and the flags that its chart gives it beside those of the tests.
#[derive(Clone)]
struct Version {
    program: PathBuf,
    flags: &'static [&'static str],
}

impl Version {
    fn this() -> Self {
        Self { program: program(), flags: &[] }
    }

    /// An older one: the build that `MODGATE_OLDER` names, else this one with other flags.
    fn older() -> Self {
        let program = env::var_os("MODGATE_OLDER").map_or_else(program, PathBuf::from);
        Self {
            program,
            flags: &["--audit-interval=30", "--constraint-violations-limit=5", "--log-level=DEBUG"],
        }
    }
}

impl Replica {
    /// It answers for `delay` after the signal to stop.
    fn start(
        version: &Version,
        folder: &Path,
        kubeconfig: &Path,
        name: &str,
        delay: Duration,
    ) -> Self {
        let (webhooks, health) = (free_address().expect("port"), free_address().expect("port"));
        let log = folder.join(format!("{name}.log"));
        let child = Command::new(&version.program)
            .args(["serve", "--tls-name", "127.0.0.1", "--log-format", "json", "--kubeconfig"])
            .arg(kubeconfig)
            .args(["--address", &webhooks.to_string()])
            .args(["--operator-health-probe-addr", &health.to_string()])
            .args(["--shutdown-delay", &delay.as_secs().to_string()])
            .args(version.flags)
            .env("POD_NAME", name)
            .env("POD_NAMESPACE", NAMESPACE)
            .stdout(File::create(folder.join(format!("{name}.out"))).expect("file"))
            .stderr(File::create(&log).expect("file"))
            .spawn()
            .expect("modgate");
        Self { name: name.to_owned(), child, webhooks, health, log }
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args([signal, &pid]).status().expect("kill");
        assert!(killed.success());
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the process ends", || {
            status = self.child.try_wait().expect("waited");
            status.is_some()
        });
        status.expect("status")
    }

    fn logged(&self, what: &str) -> bool {
        fs::read_to_string(&self.log).expect("log").contains(what)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
            eprintln!("--- {}\n{}", self.name, last.join("\n"));
        }
    }
}

/// The endpoints of a cluster: only ready servers receive requests.
#[derive(Clone)]
struct Endpoints {
    balancer: Balancer,
    /// Where each is asked whether it is ready, where requests go, and whether it was when last asked.
    all: Arc<Mutex<BTreeMap<SocketAddr, (SocketAddr, bool)>>>,
}

impl Endpoints {
    fn new() -> Self {
        Self { balancer: Balancer::start(&[]).expect("balancer"), all: Arc::default() }
    }

    /// Each is asked by a thread of its own, so that none waits for the answer of another.
    fn follow(&self, replica: &Replica) {
        let health = replica.health;
        self.all.lock().expect("endpoints").insert(health, (replica.webhooks, false));
        let endpoints = self.clone();
        thread::spawn(move || {
            while endpoints.set(health, is_ready(health)) {
                thread::sleep(Duration::from_millis(50));
            }
        });
    }

    /// Returns whether it is still followed.
    fn set(&self, health: SocketAddr, is_ready: bool) -> bool {
        let mut all = self.all.lock().expect("endpoints");
        let Some((_, was_ready)) = all.get_mut(&health) else { return false };
        *was_ready = is_ready;
        self.publish(&all);
        true
    }

    fn forget(&self, replica: &Replica) {
        let mut all = self.all.lock().expect("endpoints");
        all.remove(&replica.health);
        self.publish(&all);
    }

    fn publish(&self, all: &BTreeMap<SocketAddr, (SocketAddr, bool)>) {
        let ready = all.values().filter(|(_, is_ready)| *is_ready);
        self.balancer.set(&ready.map(|(webhooks, _)| *webhooks).collect::<Vec<_>>());
    }
}

/// Replicas, what stands in front of them, and between them and the API server.
struct Fleet {
    _alone: MutexGuard<'static, ()>,
    cluster: &'static Cluster,
    folder: TempDir,
    kubeconfig: PathBuf,
    to_cluster: Balancer,
    endpoints: Endpoints,
    delay: Duration,
    /// The version that is started next.
    version: Version,
    replicas: Vec<Replica>,
    runtime: Runtime,
    client: Client,
}

impl Fleet {
    /// Three replicas, ready, in the cluster the tests share.
    fn start() -> Option<Self> {
        static PREPARED: OnceLock<()> = OnceLock::new();
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::shared()?;
        PREPARED.get_or_init(|| prepare(cluster));
        Some(Self::start_in(cluster, alone, DELAY, Version::this()))
    }

    /// The same in a cluster of their own, which ends with this process; nothing is sent to those that
    /// are stopped.
    fn start_apart() -> Option<Self> {
        Self::start_apart_as(Version::this(), Duration::ZERO)
    }

    fn start_apart_as(version: Version, delay: Duration) -> Option<Self> {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::start(&Options::default()).expect("cluster")?;
        let cluster = Box::leak(Box::new(cluster));
        prepare(cluster);
        Some(Self::start_in(cluster, alone, delay, version))
    }

    fn start_in(
        cluster: &'static Cluster,
        alone: MutexGuard<'static, ()>,
        delay: Duration,
        version: Version,
    ) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let server = cluster.server().trim_start_matches("https://").parse().expect("address");
        let to_cluster = Balancer::start(&[server]).expect("balancer");
        let kubeconfig = folder.path().join("kubeconfig");
        let text = fs::read_to_string(cluster.kubeconfig()).expect("kubeconfig");
        let through = format!("https://{}", to_cluster.address());
        assert!(text.contains(cluster.server()), "{text}");
        fs::write(&kubeconfig, text.replace(cluster.server(), &through)).expect("written");
        let runtime = runtime().expect("runtime");
        let client = runtime.block_on(modgate_e2e::load::client(cluster.kubeconfig()));
        let mut fleet = Self {
            _alone: alone,
            cluster,
            folder,
            kubeconfig,
            to_cluster,
            endpoints: Endpoints::new(),
            delay,
            version,
            replicas: Vec::new(),
            runtime,
            client,
        };
        for index in 0..3 {
            fleet.add(&format!("modgate-{index}"));
        }
        fleet.configure();
        fleet.all_ready();
        eventually("the balanced webhook is enforced", || fleet.said("balanced").contains(DENIAL));
        fleet
    }

    fn add(&mut self, name: &str) {
        self.make_pod(name);
        self.start_replica(name);
    }

    fn make_pod(&self, name: &str) {
        let pod = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {NAMESPACE}}}\n\
             spec: {{containers: [{{name: manager, image: modgate}}]}}\n"
        );
        succeeds(self.cluster, "apply -f -", &pod);
    }

    fn start_replica(&mut self, name: &str) {
        let (folder, kubeconfig) = (self.folder.path(), &self.kubeconfig);
        let replica = Replica::start(&self.version, folder, kubeconfig, name, self.delay);
        self.endpoints.follow(&replica);
        self.replicas.push(replica);
    }

    /// The balanced webhook, and one of each replica.
    fn configure(&self) {
        let mut text = "apiVersion: admissionregistration.k8s.io/v1\n\
             kind: ValidatingWebhookConfiguration\n\
             metadata: {name: gatekeeper-validating-webhook-configuration}\nwebhooks:\n"
            .to_owned();
        let replicas =
            self.replicas.iter().map(|replica| (replica.name.as_str(), replica.webhooks));
        for (name, address) in
            [("balanced", self.endpoints.balancer.address())].into_iter().chain(replicas)
        {
            text += &format!(
                "- name: {name}.modgate.test\n  clientConfig: {{url: 'https://{address}/validate'}}\n  \
                 rules: [{{apiGroups: [''], apiVersions: [v1], resources: [configmaps], \
                 operations: [CREATE]}}]\n  namespaceSelector: {{matchLabels: {{test: {name}}}}}\n  \
                 failurePolicy: Fail\n  sideEffects: None\n  admissionReviewVersions: [v1]\n  \
                 timeoutSeconds: 10\n"
            );
        }
        succeeds(self.cluster, "apply -f -", &text);
    }

    fn all_ready(&self) {
        for replica in &self.replicas {
            eventually("a replica is ready", || is_ready(replica.health));
        }
    }

    /// The message for a ConfigMap named `bad`; empty if it is admitted.
    fn said(&self, namespace: &str) -> String {
        let arguments = format!("create configmap bad -n {namespace} --dry-run=server");
        let outcome = kubectl(self.cluster, &arguments, "");
        if outcome.success { String::new() } else { outcome.stderr }
    }

    fn load(&self) -> Load {
        let _inside = self.runtime.enter();
        Load::start(&self.client, "balanced", 4)
    }

    fn stop(&self, load: Load) -> LoadResult {
        self.runtime.block_on(load.stop())
    }

    /// Changes what the rule says.
    fn change(&self, message: &str) {
        let gvk = GroupVersionKind::gvk("api.kubemod.io", "v1beta1", "ModRule");
        let resource = ApiResource::from_gvk(&gvk);
        let rules: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), RULES, &resource);
        let patch = Patch::Merge(serde_json::json!({"spec": {"rejectMessage": message}}));
        let params = PatchParams::default();
        self.runtime.block_on(rules.patch("r", &params, &patch)).expect("patched");
    }

    /// The Lease's holder and when it was renewed last.
    fn leader(&self) -> (String, Option<String>) {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let lease = self.runtime.block_on(api.get_opt("modgate")).expect("Lease");
        let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
        let renewed = spec.renew_time.map(|time| time.0.to_string());
        (spec.holder_identity.unwrap_or_default(), renewed)
    }

    /// Tells a replica to stop and waits for its end, which must be a good one.
    fn terminate(&mut self, index: usize) -> Duration {
        let mut replica = self.replicas.remove(index);
        let signalled = Instant::now();
        replica.signal("-TERM");
        let status = replica.ended();
        assert_eq!(status.code(), Some(0), "{}", replica.name);
        self.endpoints.forget(&replica);
        signalled.elapsed()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.endpoints.all.lock().expect("endpoints").clear();
        let delete =
            "delete validatingwebhookconfiguration gatekeeper-validating-webhook-configuration";
        let _ = kubectl(self.cluster, delete, "");
    }
}

/// Namespaces, KubeMod's kind and a rule for all namespaces.
fn prepare(cluster: &Cluster) {
    for name in [NAMESPACE, RULES, "balanced", "modgate-0", "modgate-1", "modgate-2"] {
        namespace(cluster, name, name);
    }
    let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
    succeeds(cluster, "create -f -", &rules);
    succeeds(cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
    let rule = format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: r, namespace: {RULES}}}\nspec:\n  type: Reject\n  \
         targetNamespaceRegex: '.*'\n  rejectMessage: '{DENIAL}'\n  \
         match: [{{select: '$.metadata.name', matchValue: bad}}]\n"
    );
    succeeds(cluster, "create -f -", &rule);
}

/// Nothing may be lost when a process is asked to go; only unanswered, and never wrong, when it is
/// killed.
#[test]
fn stopped_rolled_over_and_killed_under_load() {
    let Some(mut fleet) = Fleet::start() else { return };
    eventually("somebody leads", || !fleet.leader().0.is_empty());

    // Scenario 89: the leader gets the signal to stop.
    let load = fleet.load();
    load.goes_on();
    let (leader, _) = fleet.leader();
    let index = fleet.replicas.iter().position(|replica| replica.name == leader).expect("leader");
    let (webhooks, signalled) = (fleet.replicas[index].webhooks, Instant::now());
    fleet.replicas[index].signal("-TERM");
    let health = fleet.replicas[index].health;
    eventually("it is not ready any more", || !is_ready(health));
    assert!(signalled.elapsed() < DELAY, "{:?}", signalled.elapsed());
    eventually("another leads", || {
        let (holder, _) = fleet.leader();
        !holder.is_empty() && holder != leader
    });
    eprintln!("another replica leads {} ms after the signal", signalled.elapsed().as_millis());
    // It still takes new connections, for as long as it is configured to.
    while signalled.elapsed() < DELAY - RESERVE {
        assert!(TcpStream::connect(webhooks).is_ok(), "after {:?}", signalled.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    let mut stopped = fleet.replicas.remove(index);
    assert_eq!(stopped.ended().code(), Some(0));
    assert!(signalled.elapsed() >= DELAY);
    fleet.endpoints.forget(&stopped);
    let outcome = fleet.stop(load);
    eprintln!("one of three stopped: {outcome}");
    assert_all_right(&outcome);

    // A rolling update: a new one first, then an old one goes.
    let load = fleet.load();
    for round in 0..2 {
        fleet.add(&format!("rolled-{round}"));
        fleet.all_ready();
        fleet.terminate(0);
    }
    fleet.add("rolled-2");
    fleet.all_ready();
    let outcome = fleet.stop(load);
    eprintln!("all replicas replaced: {outcome}");
    assert_all_right(&outcome);

    // The leader is killed.
    let mut leader = String::new();
    eventually("somebody leads", || {
        leader = fleet.leader().0;
        fleet.replicas.iter().any(|replica| replica.name == leader)
    });
    let load = fleet.load();
    load.goes_on();
    let index = fleet.replicas.iter().position(|replica| replica.name == leader).expect("leader");
    let mut killed = fleet.replicas.remove(index);
    let when = Instant::now();
    killed.child.kill().expect("killed");
    killed.ended();
    eventually("another leads", || {
        let (holder, _) = fleet.leader();
        fleet.replicas.iter().any(|replica| replica.name == holder)
    });
    // The time of the Lease, and what it takes to notice.
    let took = when.elapsed();
    fleet.endpoints.forget(&killed);
    let outcome = fleet.stop(load);
    eprintln!("leader killed, another leads after {} ms: {outcome}", took.as_millis());
    assert!(outcome.wrong.is_empty() && outcome.unsent.is_empty(), "{outcome}");
    // What was on its way to the killed one, and what was sent to it before its endpoint was gone.
    assert!(outcome.lost() < 100 && outcome.right > 20, "{outcome}");
}

/// The replicas are cut off from the API server, which goes on asking them.
#[test]
fn cut_off_from_the_api_server_under_load() {
    let Some(fleet) = Fleet::start() else { return };
    // Not only by what the Lease still says of one of that name before.
    let mut leader = String::new();
    eventually("a replica leads", || {
        leader = fleet.leader().0;
        let is_it = |replica: &Replica| replica.logged("this process leads");
        fleet.replicas.iter().any(|replica| replica.name == leader && is_it(replica))
    });
    let load = fleet.load();
    let leads = fleet.replicas.iter().find(|replica| replica.name == leader).expect("leader");
    let cut = Instant::now();
    fleet.to_cluster.cut();
    eventually("the leader steps down", || leads.logged("this process no longer leads"));
    let stepped_down = cut.elapsed();
    // Before anybody else may take over.
    assert!(stepped_down < Duration::from_secs(15), "{stepped_down:?}");
    assert!(fleet.replicas.iter().all(|replica| is_ready(replica.health)));
    // What changes meanwhile is noticed afterwards.
    fleet.change("not any more");
    let outcome = fleet.stop(load);
    let mended = Instant::now();
    fleet.to_cluster.mend();
    for name in ["modgate-0", "modgate-1", "modgate-2"] {
        eventually("the change is enforced", || fleet.said(name).contains("not any more"));
    }
    let caught_up = mended.elapsed();
    let (_, before) = fleet.leader();
    eventually("somebody leads again", || fleet.leader().1 != before);
    eprintln!(
        "cut off for {} s, stepped down after {} ms, caught up after {} ms: {outcome}",
        cut.elapsed().as_secs(),
        stepped_down.as_millis(),
        caught_up.as_millis()
    );
    assert_all_right(&outcome);
    fleet.change(DENIAL);
}

/// How many reviews are under way at once: more than there are slots and long places.
const BURNING: usize = 16;

/// While reviews that use up their budget hold every slot and every long place of the leader, for longer than it
/// leads without renewing, it renews the Lease, and no other replica takes it.
#[test]
fn the_lease_is_renewed_while_every_slot_is_held() {
    let Some(fleet) = Fleet::start() else { return };
    let mut leader = String::new();
    eventually("a replica leads", || {
        leader = fleet.leader().0;
        let is_it = |replica: &Replica| replica.logged("this process leads");
        fleet.replicas.iter().any(|replica| replica.name == leader && is_it(replica))
    });
    let rules: String = (0..20).map(|number| burning_rule(number, &leader)).collect();
    succeeds(fleet.cluster, "apply -f -", &rules);
    let replica = fleet.replicas.iter().find(|replica| replica.name == leader).expect("leader");
    // Evaluations that used up their time.
    let spent = || fs::read_to_string(&replica.log).expect("log").matches("time budget of").count();
    eventually("the rules burn", || !fleet.denial(&leader).is_empty() && spent() > 0);
    let (asked, over) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let fleet = &fleet;
    thread::scope(|scope| {
        for _ in 0..BURNING {
            let leader = &leader;
            scope.spawn(move || {
                while !over.load(Ordering::SeqCst) {
                    asked.fetch_add(1, Ordering::SeqCst);
                    fleet.denial(leader);
                }
            });
        }
        eventually("all are under way", || asked.load(Ordering::SeqCst) >= BURNING);
        let before = spent();
        let start = Instant::now();
        let (mut renewals, mut longest) = (0_u32, Duration::ZERO);
        let mut last = fleet.leader().1;
        let mut renewed_at = Instant::now();
        // By then a leader that could not renew would have stopped leading.
        let times = LeaseTimes::default();
        while start.elapsed() < times.deadline + times.retry * 2 {
            eventually("the Lease is renewed", || {
                longest = longest.max(renewed_at.elapsed());
                fleet.leader().1 != last
            });
            renewed_at = Instant::now();
            let (holder, renewed) = fleet.leader();
            assert_eq!(holder, leader, "after {:?}", start.elapsed());
            (last, renewals) = (renewed, renewals + 1);
        }
        over.store(true, Ordering::SeqCst);
        let ended = spent() - before;
        eprintln!(
            "{BURNING} reviews at a time, {ended} evaluations used up their time in {} s: {renewals} \
             renewals by the same leader, the longest gap {} ms (one every {} s; leadership ends \
             after {} s)",
            start.elapsed().as_secs(),
            longest.as_millis(),
            times.retry.as_secs(),
            times.deadline.as_secs()
        );
        assert!(longest < times.deadline, "{longest:?}");
        assert!(ended > 0, "the reviews held their slots");
    });
    assert!(!replica.logged("this process no longer leads"));
    succeeds(fleet.cluster, &format!("delete modrules --all -n {leader}"), "");
}

/// A Reject rule that uses up whatever time it is given.
fn burning_rule(number: usize, namespace: &str) -> String {
    format!(
        "---\napiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: burn-{number}, namespace: {namespace}}}\n\
         spec:\n  type: Reject\n  match: [{{select: '$.kind', matchValue: ConfigMap}}]\n  \
         rejectMessage: '{{{{ $x := repeat 1000000 \"a\" }}}}{{{{ $y := repeat 1000000 \"a\" }}}}\
         {{{{ range until 100000 }}}}{{{{ $c := eq $x $y }}}}{{{{ end }}}}'\n"
    )
}

fn assert_all_right(outcome: &LoadResult) {
    assert!(outcome.wrong.is_empty() && outcome.lost() == 0, "{outcome}");
    assert!(outcome.unsent.is_empty() && outcome.right > 20, "{outcome}");
}

/// Policies of every kind, which say in which round of changes they were written.
fn policies_of_round(round: usize) -> String {
    format!(
        r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {{name: refuse, namespace: balanced}}
spec:
  type: Reject
  rejectMessage: rule of round-{round}
  match: [{{select: $.metadata.labels.kind, matchValue: by-rule}}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {{name: note, namespace: balanced}}
spec:
  type: Patch
  match: [{{select: $.kind, matchValue: ConfigMap}}]
  patch: [{{op: add, path: /metadata/annotations/note, value: round-{round}}}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {{name: skewed}}
spec:
  crd:
    spec:
      names: {{kind: Skewed}}
      validation: {{openAPIV3Schema: {{type: object, properties: {{kind: {{type: string}}}}}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package skewed
      violation[{{"msg": "constraint of round-{round}"}}] {{
        input.review.object.metadata.labels.kind == input.parameters.kind
      }}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {{name: skewed}}
spec:
  match: {{scope: Namespaced, namespaces: [balanced]}}
  location: metadata.labels.mutated
  parameters: {{assign: {{value: round-{round}}}}}
"#
    )
}

const SKEWED: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Skewed
metadata: {name: skewed}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], namespaces: [balanced]}
  parameters: {kind: by-constraint}
";

/// Our CRDs but for that of ModRules, as an older version had them: described otherwise, and without a field.
fn older_definitions() -> String {
    let mut text = String::new();
    for definition in crds::all().expect("CRDs") {
        let mut definition: serde_json::Value =
            serde_json::from_str(&definition.to_json()).expect("JSON");
        if definition["spec"]["names"]["kind"] == "ModRule" {
            continue;
        }
        for version in definition["spec"]["versions"].as_array_mut().expect("versions") {
            let schema = &mut version["schema"]["openAPIV3Schema"];
            schema["description"] = "an older version's".into();
            let parameters = "/properties/spec/properties/parameters/properties";
            if let Some(parameters) = schema.pointer_mut(parameters) {
                parameters.as_object_mut().expect("properties").remove("assignIf");
            }
        }
        text += &format!("---\n{definition}\n");
    }
    text
}

/// A ConfigMap with a label, as each webhook is asked about it.
const ASKED: [(&str, &str); 4] = [
    ("/dragnet-webhook", "by-rule"),
    ("/dragnet-webhook", "any"),
    ("/v1/admit", "by-constraint"),
    ("/v1/mutate", "any"),
];

impl Replica {
    /// Its answer to a review, with the patch in clear.
    fn answer(&self, (route, label): (&str, &str)) -> String {
        let object = format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"x","namespace":"balanced","labels":{{"kind":"{label}"}},"annotations":{{"a":"b"}}}}}}"#
        );
        let review = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","operation":"CREATE","name":"x","namespace":"balanced","userInfo":{{"username":"u"}},"kind":{{"group":"","version":"v1","kind":"ConfigMap"}},"resource":{{"group":"","version":"v1","resource":"configmaps"}},"object":{object}}}}}"#
        );
        let config = client::trusting(rustls::DEFAULT_VERSIONS).expect("versions");
        let stream = client::connect(self.webhooks, config.with_no_client_auth()).expect("TLS");
        let answer = client::exchange(stream, &client::post(route, &review)).expect("an answer");
        let mut answer: serde_json::Value = serde_json::from_str(&answer.body).expect("JSON");
        let response = &mut answer["response"];
        if let Some(patch) = response["patch"].as_str() {
            let patch = STANDARD.decode(patch).expect("base64");
            response["patch"] = serde_json::from_slice(&patch).expect("a patch");
        }
        response.to_string()
    }
}

/// The round of which an answer tells.
fn round_of(answer: &str) -> Option<usize> {
    let (_, rest) = answer.split_once("round-")?;
    rest.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

impl Fleet {
    /// Changes all policies, and waits until every replica decides by them, whichever version it is. None goes back
    /// to an earlier round, and in the end all answers are the same.
    fn round(&self, round: usize) -> Duration {
        succeeds(self.cluster, "apply --server-side -f -", &policies_of_round(round));
        let changed = Instant::now();
        let mut seen: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        let mut last = Vec::new();
        eventually("every replica decides by the change", || {
            last.clear();
            let mut all = true;
            for replica in &self.replicas {
                for (index, asked) in ASKED.into_iter().enumerate() {
                    let answer = replica.answer(asked);
                    let now = round_of(&answer).unwrap_or_default();
                    let before = seen.entry((&replica.name, index)).or_default();
                    assert!(now >= *before, "{} went back from {before}: {answer}", replica.name);
                    *before = now;
                    all &= now == round;
                    last.push((index, answer));
                }
            }
            all
        });
        for (index, answer) in &last {
            let (_, first) = &last[*index];
            assert_eq!(answer, first, "{:?}", ASKED[*index]);
        }
        changed.elapsed()
    }

    fn generation(&self, of: &str) -> String {
        succeeds(self.cluster, &format!("get {of} -o jsonpath={{.metadata.generation}}"), "")
    }
}

/// A rolling update from one version to another, from one set of flags and CRDs to another, while policies change and
/// requests never stop. `MODGATE_OLDER` names the older program; without it, it is this one.
#[test]
fn two_versions_decide_alike_while_policies_change() {
    let delay = Duration::from_secs(2);
    let Some(mut fleet) = Fleet::start_apart_as(Version::older(), delay) else { return };
    let established = "wait --for=condition=Established crd --all";
    succeeds(fleet.cluster, "apply --server-side -f -", &older_definitions());
    succeeds(fleet.cluster, established, "");
    succeeds(fleet.cluster, "apply --server-side -f -", &policies_of_round(1));
    eventually("the kind of the constraint is there", || {
        kubectl(fleet.cluster, "apply -f -", SKEWED).success
    });
    let mut round = 1;
    let mut slowest = fleet.round(round);
    let uid = "get skewed skewed -o jsonpath={.metadata.uid}";
    let constraint = succeeds(fleet.cluster, uid, "");

    let load = fleet.load();
    load.goes_on();
    // Helm applies CRDs first, and the older version runs with them.
    let ours = modgate_e2e::our_definitions();
    succeeds(fleet.cluster, "apply --server-side --force-conflicts -f -", &ours);
    succeeds(fleet.cluster, established, "");
    round += 1;
    slowest = slowest.max(fleet.round(round));
    fleet.version = Version::this();
    for number in 0..3 {
        // Written while the new one starts, which waits until it has every policy.
        round += 1;
        fleet.add(&format!("newer-{number}"));
        succeeds(fleet.cluster, "apply --server-side -f -", &policies_of_round(round));
        let newer = fleet.replicas.last().expect("a replica");
        eventually("the newer version is ready", || is_ready(newer.health));
        for asked in ASKED {
            let found = round_of(&newer.answer(asked)).unwrap_or_default();
            assert!(found + 1 >= round, "{asked:?}: ready with round {found} of {round}");
        }
        slowest = slowest.max(fleet.round(round));
        let definition = "crd skewed.constraints.gatekeeper.sh";
        let before = fleet.generation(definition);
        round += 1;
        slowest = slowest.max(fleet.round(round));
        thread::sleep(Duration::from_secs(1));
        assert_eq!(fleet.generation(definition), before, "two versions write one CRD in turn");
        fleet.terminate(0);
        round += 1;
        slowest = slowest.max(fleet.round(round));
    }
    let outcome = fleet.stop(load);
    eprintln!(
        "{round} rounds of changes, the slowest was in force everywhere after {} ms: {outcome}",
        slowest.as_millis()
    );
    assert_all_right(&outcome);
    assert_eq!(succeeds(fleet.cluster, uid, ""), constraint, "it was made anew");
    eventually("a replica of the newer version leads", || fleet.leader().0.starts_with("newer-"));
}

/// How long until every replica enforces a change; how long a start with the whole library takes,
/// and how much memory it needs. The times are printed, not asserted: tests run unoptimised, and next
/// to each other. `MODGATE_BINARY` names another build to measure.
#[test]
fn changes_starts_and_memory() {
    let Some(mut fleet) = Fleet::start_apart() else { return };
    let mut slowest = Duration::ZERO;
    for round in 0..5 {
        let message = format!("change {round}");
        fleet.change(&message);
        let changed = Instant::now();
        let everywhere = || {
            ["modgate-0", "modgate-1", "modgate-2"]
                .iter()
                .all(|name| fleet.denial(name).contains(&message))
        };
        eventually("every replica enforces the change", everywhere);
        slowest = slowest.max(changed.elapsed());
    }
    fleet.change(DENIAL);
    eprintln!(
        "the slowest of 5 changes is enforced by 3 replicas after {} ms",
        slowest.as_millis()
    );

    let Some(library) = Roots::discover().find_folder("gatekeeper-library/library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    // The library has something against such Pods.
    fleet.make_pod("measured");
    fleet.terminate(2);
    fleet.terminate(1);
    let (mut templates, mut constraints) = (String::new(), String::new());
    manifests(&library, "template", ".yaml", &mut templates);
    manifests(&library, "constraint", ".yaml", &mut constraints);
    let group = "templates.gatekeeper.sh";
    let plural = "constrainttemplates";
    let more = "  - {name: v1beta1, served: true, storage: false, subresources: {status: {}}, schema: \
                {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n";
    let kind = definition(group, "ConstraintTemplate", plural, "Cluster", "v1");
    succeeds(fleet.cluster, "create -f -", &format!("{kind}{more}"));
    succeeds(fleet.cluster, &format!("wait --for=condition=Established crd/{plural}.{group}"), "");
    succeeds(fleet.cluster, "apply --server-side -f -", &templates);
    let wanted = succeeds(fleet.cluster, "get constrainttemplates -o name", "").lines().count();
    let made = "get crd -l gatekeeper.sh/constraint=yes -o name";
    eventually("every template has its kind", || {
        succeeds(fleet.cluster, made, "").lines().count() == wanted
    });
    let wait = "wait --for=condition=Established crd -l gatekeeper.sh/constraint=yes";
    succeeds(fleet.cluster, wait, "");
    succeeds(fleet.cluster, "apply --server-side -f -", &constraints);
    fleet.terminate(0);

    let started = Instant::now();
    fleet.start_replica("measured");
    let measured = fleet.replicas.last().expect("replica");
    while !is_ready(measured.health) {
        assert!(started.elapsed() < Duration::from_secs(180), "not ready");
        thread::sleep(Duration::from_millis(5));
    }
    let took = started.elapsed();
    thread::sleep(Duration::from_secs(2));
    let memory = resident(measured.child.id());
    eprintln!(
        "with {wanted} templates of the library: ready {} ms after its start, {} MB in memory",
        took.as_millis(),
        memory >> 20
    );
    assert!(memory < 500 << 20);
}

impl Fleet {
    /// The API server's message about a ConfigMap named `bad`, without kubectl, which is slow.
    fn denial(&self, namespace: &str) -> String {
        use k8s_openapi::api::core::v1::ConfigMap;
        use kube::api::{ObjectMeta, PostParams};

        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let metadata = ObjectMeta { name: Some("bad".to_owned()), ..ObjectMeta::default() };
        let map = ConfigMap { metadata, ..ConfigMap::default() };
        let params = PostParams { dry_run: true, ..PostParams::default() };
        match self.runtime.block_on(api.create(&params, &map)) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }
}

/// Bytes of a process in memory; 0 if they are not known.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes =
        line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() << 10
}
