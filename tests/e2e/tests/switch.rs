//! From KubeMod and Gatekeeper to modgate while objects are being made: the steps that `modgate
//! migrate --check` prints, carried out one by one on a real API server.
//!
//! The originals are two processes of ours, one asked as KubeMod and one as Gatekeeper, behind
//! webhook configurations with the originals' names; what Gatekeeper's Service would do, a balancer
//! does. One ModRule appends to a list, which shows when an object is patched twice; another and a
//! constraint refuse, which shows when one is not asked.

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
    time::Instant,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_cluster::{
    Operation,
    remote::{Place, Remote, RemoteError, Resource},
};
use modgate_engine::{EngineConfig, api::crds};
use modgate_migrate::{Found, Report};
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

/// The originals' webhook configurations as far as they are about this test: where KubeMod is
/// asked, and where Gatekeeper is.
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
fn installed(remote: &Remote) -> Vec<Found> {
    let found = |object| Found { origin: remote.server().into(), object, positions: None };
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
    let policy = |found: &Found| {
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

/// Makes objects until told to stop: one to be patched, one that a rule refuses, one that a
/// constraint refuses, and so on.
fn load(cluster: &Cluster, loader: usize, count: &Count, stop: &AtomicBool) {
    let remote = remote(cluster);
    let pods = Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods") };
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let kind = ["good", "by-rule", "by-constraint"][number % 3];
        let object = yaml::value(&format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p-{loader}-{number}, namespace: load, \
             labels: {{kind: {kind}}}}}\nspec: {{containers: [{{name: c, image: i, env: [{{name: A, \
             value: a}}]}}]}}\n"
        ))
        .expect("YAML");
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
    let definitions: String =
        crds::all().expect("CRDs").iter().map(|it| format!("---\n{}\n", it.to_json())).collect();
    succeeds(cluster, "apply --server-side -f -", &definitions);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    let load_namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: load}\n";
    succeeds(cluster, "apply -f -", load_namespace);
    succeeds(cluster, "apply -f -", &fixtures());
    succeeds(cluster, "apply -f -", POLICIES);

    step("one certificate, as Gatekeeper and modgate share a Secret");
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
    let (authority, folder) = (made.cert.pem(), tempfile::tempdir().expect("folder"));
    let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    fs::write(&cert, &authority).expect("written");
    fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let start = |operations: &[Operation]| {
        Running::configured(cluster, |config| {
            config.operations = operations.iter().copied().collect();
            config.certificate = CertificateSource::Files { cert: cert.clone(), key: key.clone() };
        })
    };
    let webhooks = [Operation::Webhook, Operation::MutationWebhook];
    step("the originals: one process serves as KubeMod, one as Gatekeeper, which writes the CRDs");
    let gatekeeper = start(&[]);
    let kubemod = start(&webhooks);
    let service = Balancer::start(&[gatekeeper.address]).expect("balancer");
    let established = || {
        modgate_e2e::kubectl(cluster, "get k8srefused", "").success
            && modgate_e2e::kubectl(cluster, "apply -f -", CONSTRAINT).success
    };
    eventually("constraints can be made", established);
    let originals = configurations(kubemod.address, service.address(), &authority);
    succeeds(cluster, "apply -f -", &originals);

    let client = remote(cluster);
    let probe = |server: &str| {
        let count = Count::default();
        let pods =
            Resource { namespaced: true, ..Resource::of_cluster("", "v1", "pods?dryRun=All") };
        ["good", "by-rule", "by-constraint"].into_iter().all(|kind| {
            let pod = yaml::value(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: probe, namespace: load, labels: \
                 {{kind: {kind}}}}}\nspec: {{containers: [{{name: c, image: i, env: [{{name: A, \
                 value: a}}]}}]}}\n"
            ))
            .expect("YAML");
            let checked = check(kind, &client.create(&pods, &pod), &count);
            checked.map_err(|wrong| eprintln!("{server}: {kind}: {wrong}")).is_ok()
        })
    };
    eventually("the originals answer", || probe("originals"));
    let before = policies(&client);
    assert!(before.len() >= 6, "{before:?}");

    let (count, stop) = (Count::default(), AtomicBool::new(false));
    let shell = Shell::new(cluster);
    let started = Instant::now();
    let modgate = thread::scope(|scope| {
        // However this ends, the loaders stop.
        let _stopping = Stopping(&stop);
        for loader in 0..LOADERS {
            let (count, stop) = (&count, &stop);
            scope.spawn(move || load(cluster, loader, count, stop));
        }
        let goes_on = || {
            let before = count.sent.load(Ordering::Relaxed);
            let is_enough = || count.sent.load(Ordering::Relaxed) >= before + BETWEEN;
            eventually("objects are made", is_enough);
        };
        goes_on();

        let report = modgate_migrate::check(
            &installed(&client),
            &EngineConfig::default(),
            &|_| Ok(None),
            modgate_migrate::Chart::default(),
        );
        assert_eq!(report.originals.len(), 2);
        assert_eq!((&report.refused, &report.warnings), (&Vec::new(), &Vec::new()));
        // All four webhook configurations but KubeMod's mutating one.
        assert_eq!(report.unchanged.len(), before.len() + 3, "{:?}", report.differs);

        shell.step(&report, "Back up");
        shell.step(&report, "Keep the originals");
        goes_on();
        // "Install modgate beside them": its Pods come behind Gatekeeper's Service.
        let beside = start(&webhooks);
        let loaded =
            |server: &Running| server.metric("gatekeeper_constraints", "status=\"active\"") == 1;
        eventually("modgate has loaded the policies", || loaded(&beside));
        service.set(&[gatekeeper.address, beside.address]);
        goes_on();
        shell.step(&report, "Stop Gatekeeper");
        service.set(&[beside.address]);
        let of_gatekeeper = ["/v1/admit", "/v1/mutate"].map(|path| requests(&gatekeeper, path));
        gatekeeper.stop();
        goes_on();
        // "Give ModRules to modgate": the same names, and modgate's Service.
        let ours = configurations(service.address(), service.address(), &authority);
        succeeds(cluster, "apply -f -", &ours);
        eventually("modgate receives a request", || requests(&beside, "/dragnet-webhook") > 0);
        goes_on();
        // The way back, and forth again.
        shell.run("kubectl replace -f webhooks-before.yaml");
        goes_on();
        succeeds(cluster, "apply -f -", &ours);
        goes_on();
        shell.step(&report, "See that modgate receives requests");
        shell.step(&report, "Stop KubeMod");
        let of_kubemod = requests(&kubemod, "/dragnet-webhook");
        goes_on();
        assert_eq!(
            requests(&kubemod, "/dragnet-webhook"),
            of_kubemod,
            "KubeMod receives no request"
        );
        eprintln!(
            "Gatekeeper was asked {of_gatekeeper:?} times (admit, mutate), KubeMod {of_kubemod} times"
        );
        assert!(of_kubemod > 0 && of_gatekeeper.iter().all(|count| *count > 0));
        kubemod.stop();
        goes_on();
        // "Enable audit, status and CRD generation": a rolling update.
        let whole = start(&[]);
        eventually("the new one has loaded the policies", || loaded(&whole));
        service.set(&[whole.address]);
        beside.stop();
        goes_on();
        shell.step(&report, "Remove what the originals leave behind");
        shell.step(&report, "Let Helm forget");
        goes_on();
        whole
    });
    let took = started.elapsed();

    let wrong = count.wrong.into_inner().expect("not poisoned");
    let (sent, patched, refused) =
        (count.sent.into_inner(), count.patched.into_inner(), count.refused.into_inner());
    eprintln!(
        "{sent} requests sent in {took:.1?}, {} answered as they should be ({patched} patched once, \
         {refused} refused), {} wrong",
        patched + refused,
        wrong.len()
    );
    assert_eq!(wrong, [""; 0]);
    assert_eq!(patched + refused, sent);
    assert!(patched > 100 && refused > 200, "{patched} {refused}");
    assert_eq!(policies(&client), before, "every policy survives, and is the same object");
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
    drop(modgate);
}

struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
