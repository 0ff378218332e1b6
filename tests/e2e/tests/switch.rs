//! From KubeMod and Gatekeeper to modgate while objects are being made: the steps that `modgate
//! migrate --check` prints, carried out one by one on a real API server.
//!
//! The originals are two processes of ours, one that serves as KubeMod and one as Gatekeeper, behind
//! webhook configurations with the originals' names; what Gatekeeper's Service would do, a balancer
//! does. One ModRule appends to a list, which shows when an object is patched twice; another and a
//! constraint refuse, which shows when one receives no request.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_cluster::{
    Operation,
    remote::{Place, Remote, RemoteError, Resource},
};
use modgate_engine::{EngineConfig, api::crds};
use modgate_migrate::{InstalledObject, Report};
use modgate_server::CertificateSource;
use modgate_testkit::cluster::{Cluster, balancer::Balancer};
use modgate_value::{Value, yaml};
use tempfile::TempDir;

use modgate_e2e::{Running, eventually, step, succeeds};

/// Those who make objects, each as fast as it is answered.
const LOADERS: usize = 3;
/// How many objects are made between two steps.
const BETWEEN: usize = 100;

const POLICIES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: append, namespace: load}
spec:
  type: Patch
  match: [{select: $.kind, matchValue: Pod}]
  patch: [{op: add, path: /spec/containers/0/env/-, value: '{name: SEEN, value: "1"}'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: refuse, namespace: load}
spec:
  type: Reject
  rejectMessage: not by rule
  match: [{select: $.metadata.labels.kind, matchValue: by-rule}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8srefused}
spec:
  crd:
    spec:
      names: {kind: K8sRefused}
      validation: {openAPIV3Schema: {type: object, properties: {kind: {type: string}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package refused
      violation[{"msg": "not by constraint"}] {
        input.review.object.metadata.labels.kind == input.parameters.kind
      }
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: seen}
spec:
  match: {scope: Namespaced, kinds: [{apiGroups: [''], kinds: [Pod]}]}
  location: metadata.labels.mutated
  parameters: {assign: {value: "yes"}}
"#;

const CONSTRAINT: &str = r#"
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sRefused
metadata: {name: never}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}
  parameters: {kind: by-constraint}
"#;

/// The originals' webhook configurations as far as this test needs them, with the addresses of KubeMod and of
/// Gatekeeper.
fn configurations(kubemod: SocketAddr, gatekeeper: SocketAddr, authority: &str) -> String {
    let ca = STANDARD.encode(authority);
    let client = |address: SocketAddr, path: &str| {
        format!("{{url: 'https://{address}{path}', caBundle: {ca}}}")
    };
    let rules = "[{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [CREATE, \
                 UPDATE]}]";
    let own = "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: \
               NotIn, values: [gatekeeper-system]}]}";
    let ignored = "namespaceSelector: {matchExpressions: [{key: admission.kubemod.io/ignore, \
                   operator: NotIn, values: ['true']}]}";
    let modrules = "[{apiGroups: [api.kubemod.io], apiVersions: [v1beta1], resources: [modrules], \
                    operations: [CREATE, UPDATE]}]";
    let targets = "[{apiGroups: ['*'], apiVersions: ['*'], resources: [configmaps, pods], \
                   operations: [CREATE, UPDATE, DELETE], scope: '*'}]";
    let end = "sideEffects: None\n  admissionReviewVersions: [v1, v1beta1]\n  timeoutSeconds: 10\n";
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {{name: gatekeeper-validating-webhook-configuration}}\nwebhooks:\n\
         - name: validation.gatekeeper.sh\n  clientConfig: {}\n  rules: {rules}\n  \
         matchPolicy: Exact\n  failurePolicy: Ignore\n  {own}\n  {end}\
         ---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
         metadata: {{name: gatekeeper-mutating-webhook-configuration}}\nwebhooks:\n\
         - name: mutation.gatekeeper.sh\n  clientConfig: {}\n  rules: {rules}\n  \
         matchPolicy: Exact\n  failurePolicy: Ignore\n  reinvocationPolicy: Never\n  {own}\n  {end}\
         ---\napiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
         metadata: {{name: kubemod-mutating-webhook-configuration}}\nwebhooks:\n\
         - name: mmodrule.kubemod.io\n  clientConfig: {}\n  rules: {modrules}\n  \
         failurePolicy: Fail\n  {end}\
         - name: dragnet.kubemod.io\n  clientConfig: {}\n  rules: {targets}\n  \
         failurePolicy: Ignore\n  reinvocationPolicy: IfNeeded\n  {ignored}\n  {end}\
         ---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {{name: kubemod-validating-webhook-configuration}}\nwebhooks:\n\
         - name: vmodrule.kubemod.io\n  clientConfig: {}\n  rules: {modrules}\n  \
         failurePolicy: Fail\n  {end}",
        client(gatekeeper, "/v1/admit"),
        client(gatekeeper, "/v1/mutate"),
        client(kubemod, "/mutate-api-kubemod-io-v1beta1-modrule"),
        client(kubemod, "/dragnet-webhook"),
        client(kubemod, "/validate-api-kubemod-io-v1beta1-modrule"),
    )
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn remote(cluster: &Cluster) -> Remote {
    let place = Place { files: vec![cluster.kubeconfig().to_owned()], context: None };
    Remote::connect(&place).expect("client")
}

/// Everything of the originals that the cluster has, as `modgate migrate --check` reads it.
fn installed(remote: &Remote) -> Vec<InstalledObject> {
    let found =
        |object| InstalledObject { origin: remote.server().into(), object, positions: None };
    let mut all = Vec::new();
    for group in modgate_migrate::GROUPS {
        for resource in remote.resources(group).expect("kinds") {
            all.extend(remote.list(&resource).expect("objects").into_iter().map(found));
        }
    }
    let admission = "admissionregistration.k8s.io";
    for (group, plural) in [
        (admission, "validatingwebhookconfigurations"),
        (admission, "mutatingwebhookconfigurations"),
        ("apps", "deployments"),
    ] {
        let resource = Resource::of_cluster(group, "v1", plural);
        all.extend(remote.list(&resource).expect("objects").into_iter().map(found));
    }
    for part in modgate_migrate::parts(&all) {
        let resource = Resource::of_cluster(part.group, "v1", part.plural);
        all.extend(remote.get(&resource, &part.namespace, part.name).expect("object").map(found));
    }
    all
}

/// Kind, namespace and name of every policy, with what it says and which object it is.
fn policies(remote: &Remote) -> BTreeMap<String, (String, String)> {
    let policy = |found: &InstalledObject| {
        let object = &found.object;
        let group = text(object, &["apiVersion"]).split('/').next().unwrap_or_default();
        modgate_migrate::GROUPS.contains(&group).then(|| {
            let [kind, namespace, name, uid] = [
                &["kind"][..],
                &["metadata", "namespace"],
                &["metadata", "name"],
                &["metadata", "uid"],
            ]
            .map(|path| text(object, path));
            let spec = object.get("spec").map(Value::to_json).unwrap_or_default();
            (format!("{kind} {namespace}/{name}"), (uid.to_owned(), spec))
        })
    };
    installed(remote).iter().filter_map(policy).collect()
}

/// The answers to the objects that were made.
#[derive(Default)]
struct Count {
    sent: AtomicUsize,
    patched: AtomicUsize,
    refused: AtomicUsize,
    wrong: Mutex<Vec<String>>,
}

/// The Pods that are created: one to be patched, one that a rule refuses, and one that a constraint refuses.
const KINDS: [&str; 3] = ["good", "by-rule", "by-constraint"];

fn pod(name: &str, kind: &str) -> Value {
    yaml::value(&format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: load, labels: \
         {{kind: {kind}}}}}\nspec: {{containers: [{{name: c, image: i, env: [{{name: A, \
         value: a}}]}}]}}\n"
    ))
    .expect("YAML")
}

/// Creates Pods of each kind in turn until `stop` is set.
fn load(cluster: &Cluster, loader: usize, count: &Count, stop: &AtomicBool) {
    let remote = remote(cluster);
    let pods = Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods") };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let kind = KINDS[number % 3];
        let object = pod(&format!("p-{loader}-{number}"), kind);
        count.sent.fetch_add(1, Ordering::Relaxed);
        let answer = remote.create(&pods, &object);
        if let Err(wrong) = check(kind, &answer, count) {
            count.wrong.lock().expect("not poisoned").push(format!("{kind} {number}: {wrong}"));
        }
    }
}

fn check(kind: &str, answer: &Result<Value, RemoteError>, count: &Count) -> Result<(), String> {
    let expected = match kind {
        "good" => None,
        "by-rule" => Some("operation rejected by the following ModRule(s): load/refuse"),
        _ => Some("[never] not by constraint"),
    };
    match (expected, answer) {
        (None, Ok(pod)) => {
            let env = pod.pointer("/spec/containers/0/env").and_then(Value::as_array);
            let seen = |it: &&Value| text(it, &["name"]) == "SEEN";
            let times = env.into_iter().flatten().filter(seen).count();
            let label = text(pod, &["metadata", "labels", "mutated"]);
            if (times, label) != (1, "yes") {
                return Err(format!("patched {times} times, mutated {label:?}"));
            }
            count.patched.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        (Some(text), Err(RemoteError::Refused { message, .. })) if message.contains(text) => {
            count.refused.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        (Some(_), Ok(_)) => Err("no policy denied it".to_owned()),
        (_, Err(error)) => Err(error.to_string()),
    }
}

/// Runs the printed commands of a step as somebody would who pastes them.
struct Shell<'c> {
    cluster: &'c Cluster,
    /// Has a `kubectl`, and is where files are written.
    folder: TempDir,
}

impl<'c> Shell<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        symlink(cluster.kubectl_binary(), folder.path().join("kubectl")).expect("link");
        Self { cluster, folder }
    }

    fn run(&self, command: &str) {
        let path = std::env::var("PATH").unwrap_or_default();
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", self.folder.path().display()))
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("HOME", self.folder.path())
            .output()
            .expect("sh");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {error}");
    }

    /// The commands of the step whose title starts so. No Deployment ever rolls out here, because
    /// there is no kubelet.
    fn step(&self, report: &Report, title: &str) {
        let step = report.steps.iter().find(|step| step.title.starts_with(title)).expect(title);
        let commands = step.commands.iter().filter(|command| !command.contains("rollout status"));
        let commands: Vec<_> = commands.collect();
        assert!(!commands.is_empty(), "{title}");
        commands.into_iter().for_each(|command| self.run(command));
    }
}

/// The manifests of installations, but for what a test cluster answers itself.
fn fixtures() -> String {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/modgate-migrate/tests/fixtures");
    let mut all = String::new();
    for name in ["kubemod.yaml", "gatekeeper.yaml"] {
        let text = fs::read_to_string(folder.join(name)).expect(name);
        let parts = text.split("\n---\n").filter(|part| {
            ["Namespace\n", "Deployment\n", "CronJob\n", "Service\n", "PodDisruptionBudget\n"]
                .iter()
                .chain(&["ClusterRole\n", "ClusterRoleBinding\n", "Config\n"])
                .any(|kind| part.contains(&format!("\nkind: {kind}")))
        });
        parts.for_each(|part| all.push_str(&format!("---\n{part}\n")));
    }
    all
}

fn requests(server: &Running, path: &str) -> u64 {
    let label = format!("webhook=\"{path}\"");
    server.metric("controller_runtime_webhook_requests_total", &label)
}

#[test]
fn switching_under_load() {
    let Some(cluster) = Cluster::shared() else { return };
    install(cluster);
    let switch = Switch::new(cluster);
    let originals = Originals::start(&switch);
    let before = policies(&switch.client);
    assert!(before.len() >= 6, "{before:?}");
    let started = Instant::now();
    let modgate = thread::scope(|scope| {
        // However this ends, the loaders stop.
        let _stopping = Stopping(&switch.stop);
        for loader in 0..LOADERS {
            let (count, stop) = (&switch.count, &switch.stop);
            scope.spawn(move || load(cluster, loader, count, stop));
        }
        switch.objects_are_created();
        let report = check_installation(&switch.client, before.len());
        switch.take_the_steps(&report, originals)
    });
    let took = started.elapsed();
    assert_eq!(policies(&switch.client), before, "every policy survives, and is the same object");
    originals_are_gone(cluster);
    switch.every_answer_is_right(took);
    drop(modgate);
}

/// The CRDs, the manifests of the originals, and the policies.
fn install(cluster: &Cluster) {
    let definitions: String =
        crds::all().expect("CRDs").iter().map(|it| format!("---\n{}\n", it.to_json())).collect();
    succeeds(cluster, "apply --server-side -f -", &definitions);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    let load_namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: load}\n";
    succeeds(cluster, "apply -f -", load_namespace);
    succeeds(cluster, "apply -f -", &fixtures());
    succeeds(cluster, "apply -f -", POLICIES);
}

/// What all steps use.
struct Switch<'c> {
    cluster: &'c Cluster,
    client: Remote,
    shell: Shell<'c>,
    /// Of the one certificate, as Gatekeeper and modgate share a Secret.
    authority: String,
    /// Has the certificate and its key.
    folder: TempDir,
    count: Count,
    stop: AtomicBool,
}

impl<'c> Switch<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
        let (authority, folder) = (made.cert.pem(), tempfile::tempdir().expect("folder"));
        fs::write(folder.path().join("tls.crt"), &authority).expect("written");
        fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem())
            .expect("written");
        Self {
            cluster,
            client: remote(cluster),
            shell: Shell::new(cluster),
            authority,
            folder,
            count: Count::default(),
            stop: AtomicBool::new(false),
        }
    }

    /// Starts a process with these operations; with all of them if none are given.
    fn start(&self, operations: &[Operation]) -> Running {
        let [cert, key] = ["tls.crt", "tls.key"].map(|name| self.folder.path().join(name));
        Running::configured(self.cluster, |config| {
            config.operations = operations.iter().copied().collect();
            config.certificate = CertificateSource::Files { cert, key };
        })
    }

    /// Whether a dry run of each kind of Pod gets the right answer.
    fn is_answered(&self, server: &str) -> bool {
        let count = Count::default();
        let pods =
            Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods?dryRun=All") };
        KINDS.into_iter().all(|kind| {
            let checked = check(kind, &self.client.create(&pods, &pod("probe", kind)), &count);
            checked.map_err(|wrong| eprintln!("{server}: {kind}: {wrong}")).is_ok()
        })
    }

    /// Waits until the loaders have created some more objects.
    fn objects_are_created(&self) {
        let before = self.count.sent.load(Ordering::Relaxed);
        eventually("the loaders create objects", || {
            self.count.sent.load(Ordering::Relaxed) >= before + BETWEEN
        });
    }

    /// Takes the steps of the report, and returns the server that then decides.
    fn take_the_steps(&self, report: &Report, originals: Originals) -> Running {
        let Originals { gatekeeper, kubemod, service } = originals;
        self.shell.step(report, "Back up");
        self.shell.step(report, "Keep the originals");
        self.objects_are_created();
        let beside = self.replace_gatekeeper(report, gatekeeper, &service);
        self.give_modrules_to_modgate(&beside, &service);
        self.stop_kubemod(report, kubemod);

        step("enable audit, status and CRD generation: a rolling update");
        let whole = self.start(&[]);
        eventually("the new Pod has loaded the policies", || has_loaded(&whole));
        service.set(&[whole.address]);
        beside.stop();
        self.objects_are_created();
        self.shell.step(report, "Remove what the originals leave behind");
        self.shell.step(report, "Let Helm forget");
        self.objects_are_created();
        whole
    }

    fn replace_gatekeeper(
        &self,
        report: &Report,
        gatekeeper: Running,
        service: &Balancer,
    ) -> Running {
        step("install modgate beside them: its Pods come behind Gatekeeper's Service");
        let beside = self.start(&WEBHOOKS);
        eventually("modgate has loaded the policies", || has_loaded(&beside));
        service.set(&[gatekeeper.address, beside.address]);
        self.objects_are_created();
        self.shell.step(report, "Stop Gatekeeper");
        service.set(&[beside.address]);
        for path in ["/v1/admit", "/v1/mutate"] {
            let received = requests(&gatekeeper, path);
            eprintln!("Gatekeeper received {received} requests at {path}");
            assert!(received > 0, "{path}");
        }
        gatekeeper.stop();
        self.objects_are_created();
        beside
    }

    fn give_modrules_to_modgate(&self, beside: &Running, service: &Balancer) {
        step("give ModRules to modgate: the same names, and modgate's Service");
        let ours = configurations(service.address(), service.address(), &self.authority);
        succeeds(self.cluster, "apply -f -", &ours);
        eventually("modgate receives a request", || requests(beside, "/dragnet-webhook") > 0);
        self.objects_are_created();
        step("the way back, and forth again");
        self.shell.run("kubectl replace -f webhooks-before.yaml");
        self.objects_are_created();
        succeeds(self.cluster, "apply -f -", &ours);
        self.objects_are_created();
    }

    fn stop_kubemod(&self, report: &Report, kubemod: Running) {
        self.shell.step(report, "See that modgate receives requests");
        self.shell.step(report, "Stop KubeMod");
        let received = requests(&kubemod, "/dragnet-webhook");
        self.objects_are_created();
        let later = requests(&kubemod, "/dragnet-webhook");
        assert_eq!(later, received, "KubeMod receives no request");
        eprintln!("KubeMod received {received} requests");
        assert!(received > 0);
        kubemod.stop();
        self.objects_are_created();
    }

    fn every_answer_is_right(self, took: Duration) {
        let [sent, patched, refused] = [&self.count.sent, &self.count.patched, &self.count.refused]
            .map(|count| count.load(Ordering::Relaxed));
        let wrong = self.count.wrong.lock().expect("not poisoned");
        eprintln!(
            "{sent} requests sent in {took:.1?}, {} answered as they should be ({patched} patched \
             once, {refused} refused), {} wrong",
            patched + refused,
            wrong.len()
        );
        assert_eq!(*wrong, [""; 0]);
        assert_eq!(patched + refused, sent);
        assert!(patched > 100 && refused > 200, "{patched} {refused}");
    }
}

const WEBHOOKS: [Operation; 2] = [Operation::Webhook, Operation::MutationWebhook];

/// The originals: one process serves as KubeMod, one as Gatekeeper, which writes the CRDs.
struct Originals {
    gatekeeper: Running,
    kubemod: Running,
    /// Gatekeeper's Service.
    service: Balancer,
}

impl Originals {
    fn start(switch: &Switch<'_>) -> Self {
        step("the originals");
        let gatekeeper = switch.start(&[]);
        let kubemod = switch.start(&WEBHOOKS);
        let service = Balancer::start(&[gatekeeper.address]).expect("balancer");
        eventually("constraints can be created", || {
            modgate_e2e::kubectl(switch.cluster, "get k8srefused", "").success
                && modgate_e2e::kubectl(switch.cluster, "apply -f -", CONSTRAINT).success
        });
        let originals = configurations(kubemod.address, service.address(), &switch.authority);
        succeeds(switch.cluster, "apply -f -", &originals);
        eventually("the originals answer", || switch.is_answered("originals"));
        Self { gatekeeper, kubemod, service }
    }
}

fn has_loaded(server: &Running) -> bool {
    server.metric("gatekeeper_constraints", "status=\"active\"") == 1
}

/// What `modgate migrate --check` reports: both originals, and policies that modgate loads unchanged.
fn check_installation(client: &Remote, policies: usize) -> Report {
    let report = modgate_migrate::check(
        &installed(client),
        &EngineConfig::default(),
        &|_| Ok(None),
        modgate_migrate::Chart::default(),
    );
    assert_eq!(report.originals.len(), 2);
    assert_eq!((&report.refused, &report.warnings), (&Vec::new(), &Vec::new()));
    // All four webhook configurations but KubeMod's mutating one.
    assert_eq!(report.unchanged.len(), policies + 3, "{:?}", report.differs);
    report
}

fn originals_are_gone(cluster: &Cluster) {
    for gone in [
        "deployment/kubemod-operator -n kubemod-system",
        "deployment/gatekeeper-controller-manager -n gatekeeper-system",
        "service/kubemod-webhook-service -n kubemod-system",
        "cronjob/kubemod-crt-cron-job -n kubemod-system",
    ] {
        assert!(!modgate_e2e::kubectl(cluster, &format!("get {gone}"), "").success, "{gone}");
    }
    let stays = "get service/gatekeeper-webhook-service -n gatekeeper-system";
    assert!(modgate_e2e::kubectl(cluster, stays, "").success);
}

struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
