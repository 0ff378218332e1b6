//! The server against a real API server: what kubectl is told, and policies that the cluster holds.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::BTreeSet,
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_server::{
    Addresses, CertificateSource, ClusterConfig, PolicyFiles, ServeConfig, Server, runtime,
};
use modgate_testkit::{
    Roots,
    cluster::{Cluster, Options, Outcome},
};
use modgate_value::{Value, yaml};
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::mpsc};

/// Longer than anything here takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server, and the folder with its certificate. It ends when dropped.
struct Running {
    address: SocketAddr,
    metrics: SocketAddr,
    folder: TempDir,
    stop: mpsc::Sender<()>,
    runtime: Runtime,
}

impl Running {
    fn start(files: PolicyFiles, cluster: Option<ClusterConfig>) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
        let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        fs::write(&cert, made.cert.pem()).expect("written");
        fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let mut config = ServeConfig::new(files, CertificateSource::Files { cert, key });
        // Free until another process takes it.
        let free = TcpListener::bind("127.0.0.1:0").expect("port");
        let metrics = free.local_addr().expect("address");
        drop(free);
        config.addresses = Addresses {
            webhooks: "127.0.0.1:0".to_owned(),
            metrics: Some(metrics.to_string()),
            ..Addresses::default()
        };
        config.cluster = cluster;
        let runtime = runtime(2).expect("runtime");
        let report = |finding: &modgate_value::diag::Diagnostic| eprintln!("{finding}");
        let server = runtime.block_on(Server::start(config, report)).expect("server");
        let address = server.address().expect("address");
        let (stop, asked) = mpsc::channel(1);
        runtime.spawn(server.run_until(asked));
        Self { address, metrics, folder, stop, runtime }
    }

    fn of_files(policies: &Path) -> Self {
        let files = PolicyFiles { policies: vec![policies.to_owned()], objects: Vec::new() };
        Self::start(files, None)
    }

    fn of_cluster(cluster: &Cluster) -> Self {
        let files = PolicyFiles { policies: Vec::new(), objects: Vec::new() };
        let kubeconfig = Some(cluster.kubeconfig().to_owned());
        Self::start(files, Some(ClusterConfig { kubeconfig, context: None }))
    }

    /// What the metrics with this name and label add up to; 0 without any.
    fn metric(&self, name: &str, label: &str) -> u64 {
        let mut stream = TcpStream::connect(self.metrics).expect("metrics");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("received");
        response
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "))
            .filter(|(labels, _)| labels.contains(label))
            .map(|(_, value)| value.trim().parse::<u64>().expect("number"))
            .sum()
    }

    /// A webhook configuration for ConfigMaps in Namespaces with label `test: <name>`.
    fn webhook(&self, name: &str, path: &str) -> String {
        let ca = STANDARD.encode(fs::read(self.folder.path().join("tls.crt")).expect("read"));
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
             metadata: {{name: {name}}}\nwebhooks:\n- name: {name}.modgate.test\n  \
             clientConfig: {{url: 'https://{}{path}', caBundle: {ca}}}\n  \
             rules: [{{apiGroups: [''], apiVersions: [v1], resources: [configmaps], \
             operations: [CREATE]}}]\n  \
             namespaceSelector: {{matchLabels: {{test: {name}}}}}\n  failurePolicy: Fail\n  \
             sideEffects: None\n  admissionReviewVersions: [v1]\n  timeoutSeconds: 10\n",
            self.address
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.try_send(());
        // What is left ends with the runtime.
        let runtime = std::mem::replace(&mut self.runtime, runtime(1).expect("runtime"));
        runtime.shutdown_background();
    }
}

fn kubectl(cluster: &Cluster, arguments: &str, input: &str) -> Outcome {
    cluster.run(arguments.split_whitespace(), input).expect("kubectl")
}

fn succeeds(cluster: &Cluster, arguments: &str, input: &str) -> String {
    let outcome = kubectl(cluster, arguments, input);
    assert!(outcome.success, "{arguments}: {}", outcome.stderr);
    outcome.stdout
}

fn namespace(cluster: &Cluster, name: &str, test: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{test: {test}}}}}\n"
    );
    succeeds(cluster, "create -f -", &text);
}

/// What kubectl says when it would create a ConfigMap; empty if it may.
fn creating(cluster: &Cluster, namespace: &str, name: &str) -> String {
    let arguments = format!("create configmap {name} -n {namespace} --dry-run=server");
    let outcome = kubectl(cluster, &arguments, "");
    if outcome.success { String::new() } else { outcome.stderr }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until kubectl is told `expected`.
fn becomes(cluster: &Cluster, namespace: &str, name: &str, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let said = creating(cluster, namespace, name);
        if said == expected {
            return;
        }
        assert!(Instant::now() < deadline, "expected {expected:?}, still {said:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn rule(namespace: &str, name: &str, message: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  type: Reject\n  \
         rejectMessage: '{message}'\n  match: [{{select: '$.metadata.name', matchValue: bad}}]\n"
    )
}

fn denied(webhook: &str, message: &str) -> String {
    format!(
        "error: failed to create configmap: admission webhook \"{webhook}.modgate.test\" denied \
         the request: {message}\n"
    )
}

fn rejected(webhook: &str, reasons: &str) -> String {
    denied(webhook, &format!("operation rejected by the following ModRule(s): {reasons}"))
}

#[test]
fn kubectl_sees_what_a_webhook_says() {
    let Some(cluster) = Cluster::shared() else { return };
    namespace(cluster, "smoke", "smoke");
    let policies = tempfile::tempdir().expect("folder");
    let rule = rule("smoke", "refuse", "not here");
    fs::write(policies.path().join("policies.yaml"), rule).expect("written");
    let server = Running::of_files(policies.path());
    succeeds(cluster, "create -f -", &server.webhook("smoke", "/validate"));
    becomes(cluster, "smoke", "bad", &rejected("smoke", "smoke/refuse: \"not here\""));
    assert_eq!(creating(cluster, "smoke", "good"), "");
    succeeds(cluster, "delete validatingwebhookconfiguration smoke", "");
}

/// As little of a CRD as the API server takes.
fn definition(group: &str, kind: &str, plural: &str, scope: &str, version: &str) -> String {
    let lower = kind.to_lowercase();
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.{group}}}\nspec:\n  group: {group}\n  scope: {scope}\n  \
         names: {{kind: {kind}, plural: {plural}, singular: {lower}}}\n  versions:\n  \
         - name: {version}\n    served: true\n    storage: true\n    \
         subresources: {{status: {{}}}}\n    schema:\n      openAPIV3Schema: \
         {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
    )
}

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sforbidden}
spec:
  crd:
    spec:
      names: {kind: K8sForbidden}
      validation:
        openAPIV3Schema:
          type: object
          properties: {name: {type: string}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package forbidden
      violation[{"msg": msg}] {
        input.review.object.metadata.name == input.parameters.name
        msg := sprintf("%v is forbidden", [input.parameters.name])
      }
"#;

fn constraint(name: &str, forbidden: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sForbidden\n\
         metadata: {{name: {name}}}\nspec:\n  match:\n    \
         kinds: [{{apiGroups: [''], kinds: [ConfigMap]}}]\n    \
         namespaceSelector: {{matchLabels: {{test: gatekeeper}}}}\n  \
         parameters: {{name: {forbidden}}}\n"
    )
}

/// One test, as CRDs are the cluster's and not a namespace's.
#[test]
fn policies_of_a_cluster() {
    let Some(cluster) = Cluster::shared() else { return };
    let rules = definition("api.kubemod.io", "ModRule", "modrules", "Namespaced", "v1beta1");
    succeeds(cluster, "create -f -", &rules);
    succeeds(cluster, "wait --for=condition=Established crd/modrules.api.kubemod.io", "");
    namespace(cluster, "rules", "rules");
    namespace(cluster, "fresh", "gatekeeper");
    let broken = rule("rules", "broken", "x").replace("$.metadata", "$.[");
    succeeds(cluster, "create -f -", &broken);
    succeeds(cluster, "create -f -", &rule("rules", "before", "there before"));

    let server = Running::of_cluster(cluster);
    succeeds(cluster, "create -f -", &server.webhook("rules", "/validate"));
    succeeds(cluster, "create -f -", &server.webhook("gatekeeper", "/v1/admit"));

    // What was there before, and its broken neighbour has stopped nothing.
    becomes(cluster, "rules", "bad", &rejected("rules", "rules/before: \"there before\""));
    assert_eq!(creating(cluster, "rules", "good"), "");

    // Policies change, come and go.
    succeeds(cluster, "apply -f -", &rule("rules", "before", "changed"));
    becomes(cluster, "rules", "bad", &rejected("rules", "rules/before: \"changed\""));
    succeeds(cluster, "delete modrule -n rules before", "");
    becomes(cluster, "rules", "bad", "");
    succeeds(cluster, "apply -f -", &rule("rules", "broken", "repaired"));
    becomes(cluster, "rules", "bad", &rejected("rules", "rules/broken: \"repaired\""));

    // A kind that comes later, and the kind that comes of it.
    let group = "templates.gatekeeper.sh";
    let templates = definition(group, "ConstraintTemplate", "constrainttemplates", "Cluster", "v1");
    succeeds(cluster, "create -f -", &templates);
    succeeds(
        cluster,
        &format!("wait --for=condition=Established crd/constrainttemplates.{group}"),
        "",
    );
    succeeds(cluster, "create -f -", TEMPLATE);
    let forbidden = "crd/k8sforbidden.constraints.gatekeeper.sh";
    let exists = |what: &str| kubectl(cluster, &format!("get {what}"), "").success;
    eventually("the CRD of the constraints is there", || exists(forbidden));
    succeeds(cluster, &format!("wait --for=condition=Established {forbidden}"), "");
    let labels =
        succeeds(cluster, &format!("get {forbidden} -o jsonpath={{.metadata.labels}}"), "");
    assert_eq!(labels, r#"{"gatekeeper.sh/constraint":"yes"}"#);
    succeeds(cluster, "create -f -", &constraint("never", "bad"));
    becomes(cluster, "fresh", "bad", &denied("gatekeeper", "[never] bad is forbidden"));
    assert_eq!(creating(cluster, "fresh", "good"), "");
    assert!(succeeds(cluster, "get constraints", "").contains("never"));

    // Namespaces that are seconds old.
    for round in 0..3 {
        let name = format!("new-{round}");
        namespace(cluster, &name, "gatekeeper");
        let expected = denied("gatekeeper", "[never] bad is forbidden");
        assert_eq!(creating(cluster, &name, "bad"), expected);
    }

    // A CRD that somebody deletes comes back, without its constraints.
    succeeds(cluster, &format!("delete {forbidden}"), "");
    becomes(cluster, "fresh", "bad", "");
    eventually("the CRD is back", || {
        kubectl(cluster, "apply -f -", &constraint("again", "bad")).success
    });
    becomes(cluster, "fresh", "bad", &denied("gatekeeper", "[again] bad is forbidden"));

    // A template takes its CRD with it, and thereby its constraints.
    succeeds(cluster, "delete constrainttemplate k8sforbidden", "");
    becomes(cluster, "fresh", "bad", "");
    if cluster.has_controllers() {
        eventually("the CRD is gone", || !exists(forbidden));
    }

    // Without the kind there are no rules.
    succeeds(cluster, "delete crd modrules.api.kubemod.io", "");
    becomes(cluster, "rules", "bad", "");
    let webhooks = "delete validatingwebhookconfiguration rules gatekeeper";
    succeeds(cluster, webhooks, "");
}

/// Every file below a folder whose name begins and ends so, one YAML text.
fn manifests(folder: &Path, beginning: &str, ending: &str, text: &mut String) {
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("name").to_string_lossy();
        if path.is_dir() {
            manifests(&path, beginning, ending, text);
        } else if name.starts_with(beginning) && name.ends_with(ending) {
            text.push_str("---\n");
            text.push_str(&fs::read_to_string(&path).expect("read"));
            text.push('\n');
        }
    }
}

/// The Gatekeeper library, on a cluster of its own: all templates become kinds that the API server
/// takes, all constraints are taken, and a server that starts later loads every one of them.
#[test]
fn the_whole_library() {
    let Some(library) = Roots::discover().find_folder("gatekeeper-library/library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let (mut templates, mut constraints) = (String::new(), String::new());
    manifests(&library, "template", ".yaml", &mut templates);
    manifests(&library, "constraint", ".yaml", &mut constraints);
    let names = |text: &str| -> BTreeSet<String> {
        let name = |object: &Value| {
            let text = |path: &[&str]| object.path(path).and_then(Value::as_str).map(str::to_owned);
            Some(format!("{} {}", text(&["kind"])?, text(&["metadata", "name"])?))
        };
        let documents = yaml::load(text).expect("YAML");
        documents.iter().filter_map(|document| name(&document.value)).collect()
    };
    let kinds = names(&templates).len() as u64;
    let instances = names(&constraints).len() as u64;
    assert!(kinds > 40 && instances > 40, "{kinds} {instances}");

    let group = "templates.gatekeeper.sh";
    let plural = "constrainttemplates";
    let definition = definition(group, "ConstraintTemplate", plural, "Cluster", "v1");
    let more = "  - {name: v1beta1, served: true, storage: false, subresources: {status: {}}, schema: \
                {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n";
    succeeds(&cluster, "create -f -", &format!("{definition}{more}"));
    succeeds(&cluster, &format!("wait --for=condition=Established crd/{plural}.{group}"), "");
    let server = Running::of_cluster(&cluster);
    succeeds(&cluster, "apply --server-side -f -", &templates);
    let made = "get crd -l gatekeeper.sh/constraint=yes -o name";
    eventually("every template has its kind", || {
        succeeds(&cluster, made, "").lines().count() as u64 == kinds
    });
    let wait = "wait --for=condition=Established crd -l gatekeeper.sh/constraint=yes";
    succeeds(&cluster, wait, "");
    succeeds(&cluster, "apply --server-side -f -", &constraints);
    let loaded = |server: &Running| {
        let templates = server.metric("gatekeeper_constraint_templates", "status=\"active\"");
        (templates, server.metric("gatekeeper_constraints", "status=\"active\""))
    };
    eventually("all are loaded", || loaded(&server) == (kinds, instances));
    drop(server);
    let later = Running::of_cluster(&cluster);
    eventually("all are loaded again", || loaded(&later) == (kinds, instances));
}
