//! Runs the installation of `deploy/`: the program with the flags of the chart, as the
//! ServiceAccount of the chart and with no other rights.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command},
    thread,
    time::Instant,
};

use modgate_e2e::{client, eventually, free_address, is_ready, succeeds};
use modgate_testkit::{
    cluster::{Cluster, Options, balancer::Balancer, build},
    corpus,
};
use modgate_value::yaml;
use serde_json::{Value, json};
use tempfile::TempDir;

const NAMESPACE: &str = "gatekeeper-system";
const POD: &str = "modgate-0";

fn documents(text: &str) -> Vec<Value> {
    let documents = yaml::load(text).expect("YAML");
    let plain = |value: &modgate_value::Value| {
        serde_json::from_str::<Value>(&value.to_json()).expect("JSON")
    };
    documents.iter().map(|it| plain(&it.value)).filter(|it| !it.is_null()).collect()
}

fn manifest() -> Vec<Value> {
    let path = corpus::repository().join("deploy/modgate.yaml");
    documents(&fs::read_to_string(path).expect("`cargo xtask codegen` writes it"))
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The arguments of every container of a manifest.
fn arguments(documents: &[Value]) -> Vec<Vec<String>> {
    let deployments = documents.iter().filter(|it| it["kind"] == "Deployment");
    deployments.map(|deployment| container_arguments(&deployment["spec"]["template"])).collect()
}

fn container_arguments(pod: &Value) -> Vec<String> {
    let arguments = pod["spec"]["containers"][0]["args"].as_array().expect("arguments");
    arguments.iter().map(|it| it.as_str().expect("text").to_owned()).collect()
}

/// The program gets as far as looking for the cluster, which is after it has understood every flag.
#[test]
fn flags_of_the_chart_exist() {
    let mut all = arguments(&manifest());
    if build::has_go() {
        let helm = build::helm().expect("Helm");
        for values in [
            "split.enabled=true,logs.denies=true,logs.mutations=true,ignoreLabel.allowedPrefixes={b}",
            "certificates.source=cert-manager,unifiedMutation.enabled=true,audit.policyReports=openreports",
            "ignoreLabel.allowedNamespaces={a},certificates.additionalConfigurations.mutating={m}",
            "ignoreLabel.allowedSuffixes={c},operations={webhook,mutation-webhook,status},audit.interval=0",
        ] {
            let manifest = helm.render(&["--set", values]).expect("a manifest");
            all.extend(arguments(&documents(&manifest)));
        }
        assert_eq!(all.len(), 6);
    } else {
        eprintln!("skipped: no Go to build Helm with, so only the default flags are tried");
    }
    for arguments in all {
        let output = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
            .args(&arguments)
            .args(["--kubeconfig", "/there/is/none"])
            .output()
            .expect("modgate");
        let stderr = String::from_utf8_lossy(&output.stderr);
        // Or for the certificate, where it is one of a file.
        let understood =
            ["cannot use the kubeconfig `/there/is/none`", "cannot read `/certs/tls.crt`"];
        let is_understood = understood.iter().any(|expected| stderr.contains(expected));
        assert!(is_understood, "{arguments:?}: {stderr}");
    }
}

/// The program as a Pod of the manifest runs it, but for where it listens.
struct Installed {
    child: Child,
    webhooks: SocketAddr,
    health: SocketAddr,
    metrics: SocketAddr,
    log: PathBuf,
    _folder: TempDir,
}

impl Installed {
    fn start(cluster: &Cluster, pod: &Value, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let kubeconfig = folder.path().join("kubeconfig");
        let account = text(pod, "/spec/serviceAccountName");
        fs::write(&kubeconfig, as_service_account(cluster, account)).expect("written");
        let (webhooks, health, metrics) = (
            free_address().expect("port"),
            free_address().expect("port"),
            free_address().expect("port"),
        );
        let arguments = container_arguments(pod).into_iter().map(|argument| {
            match argument.split_once('=').unwrap_or((argument.as_str(), "")).0 {
                "--port" => format!("--address={webhooks}"),
                "--health-addr" => format!("--health-addr={health}"),
                "--prometheus-port" => format!("--operator-metrics-addr={metrics}"),
                "--webapp-addr" => format!("--webapp-addr={}", free_address().expect("port")),
                "--audit-interval" => "--audit-interval=1".to_owned(),
                _ => argument,
            }
        });
        let log = folder.path().join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
            .args(arguments)
            .args(more)
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .env("POD_NAME", text(pod, "/metadata/name"))
            .env("POD_NAMESPACE", NAMESPACE)
            .stdout(File::create(folder.path().join("out")).expect("file"))
            .stderr(File::create(&log).expect("file"))
            .spawn()
            .expect("modgate");
        Self { child, webhooks, health, metrics, log, _folder: folder }
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(40)..).unwrap_or_default();
            eprintln!("--- the log\n{}", last.join("\n"));
        }
    }
}

/// A kubeconfig with a token of a ServiceAccount.
fn as_service_account(cluster: &Cluster, name: &str) -> String {
    let token = succeeds(cluster, &format!("create token {name} -n {NAMESPACE}"), "");
    let ours = succeeds(cluster, "config view --raw --flatten -o json", "");
    let ours: Value = serde_json::from_str(&ours).expect("JSON");
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": ours["clusters"][0]["cluster"]}],
        "users": [{"name": "u", "user": {"token": token.trim()}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    })
    .to_string()
}

/// Applies a manifest, and a Pod of each Deployment, which no controller makes here. Returns these.
fn install(cluster: &Cluster, manifest: Vec<Value>) -> Vec<Value> {
    let mut pods = Vec::new();
    let mut applied = String::new();
    for mut document in manifest {
        match text(&document, "/kind") {
            // No server answers at their Service here, so no request may be sent there.
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
                for webhook in document["webhooks"].as_array_mut().expect("webhooks") {
                    webhook["matchConditions"] = json!([{"name": "never", "expression": "false"}]);
                }
            }
            "Deployment" => {
                let mut pod = document["spec"]["template"].clone();
                pod["apiVersion"] = "v1".into();
                pod["kind"] = "Pod".into();
                let name = format!("{}-0", text(&document, "/metadata/name"));
                pod["metadata"]["name"] = name.into();
                pods.push(pod);
            }
            _ => {}
        }
        applied.push_str(&format!("---\n{document}\n"));
    }
    succeeds(cluster, "apply -f -", &applied);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    for pod in &pods {
        succeeds(cluster, &format!("create -n {NAMESPACE} -f -"), &pod.to_string());
    }
    pods
}

/// One policy of each kind, and what is synced.
const POLICIES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: good, namespace: default}
spec:
  type: Reject
  match: [{select: '$.metadata.labels.bad', matchValue: 'yes'}]
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: inrego}
spec:
  crd: {spec: {names: {kind: InRego}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: Rego
      source: {rego: "package p\nviolation[{\"msg\": \"never\"}] { input.review.object.metadata.name == \"never\" }"}
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: incel}
spec:
  crd: {spec: {names: {kind: InCel}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source: {generateVAP: true, validations: [{expression: "object.metadata.name != 'never'"}]}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: good}
spec: {location: metadata.labels.a, parameters: {assign: {value: b}}}
---
apiVersion: expansion.gatekeeper.sh/v1beta1
kind: ExpansionTemplate
metadata: {name: good}
spec:
  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]
  templateSource: spec.template
  generatedGVK: {version: v1, kind: Pod}
---
apiVersion: config.gatekeeper.sh/v1alpha1
kind: Config
metadata: {name: config, namespace: gatekeeper-system}
spec: {sync: {syncOnly: [{version: v1, kind: ConfigMap}]}}
---
apiVersion: syncset.gatekeeper.sh/v1alpha1
kind: SyncSet
metadata: {name: good}
spec: {gvks: [{group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole}]}
"#;

const CONSTRAINTS: &str = r#"
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InRego
metadata: {name: good}
spec: {}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: InCel
metadata: {name: good}
spec: {}
"#;

/// A cluster that writes down what ServiceAccounts ask it for.
struct Audited {
    cluster: Cluster,
    folder: TempDir,
}

impl Audited {
    fn start() -> Option<Self> {
        let folder = tempfile::tempdir().expect("folder");
        let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                      rules: [{level: Metadata, userGroups: ['system:serviceaccounts']}]\n";
        fs::write(folder.path().join("policy"), policy).expect("written");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let flags = vec![
            format!("--audit-policy-file={}", path("policy")),
            format!("--audit-log-path={}", path("requests")),
        ];
        let cluster = Cluster::start(&Options { flags }).expect("cluster")?;
        Some(Self { cluster, folder })
    }

    /// The requests that were forbidden, as `verb resource/subresource namespace/name`. (No metric
    /// counts these.)
    fn forbidden(&self) -> BTreeSet<String> {
        let requests = fs::read_to_string(self.folder.path().join("requests")).expect("requests");
        let requests = requests.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut asked = 0;
        let forbidden = requests
            .inspect(|_| asked += 1)
            .filter(|request| request["annotations"]["authorization.k8s.io/decision"] == "forbid")
            .map(|request| {
                let text = |pointer: &str| text(&request, pointer).to_owned();
                format!(
                    "{} {}/{} {}/{}",
                    text("/verb"),
                    text("/objectRef/resource"),
                    text("/objectRef/subresource"),
                    text("/objectRef/namespace"),
                    text("/objectRef/name")
                )
            })
            .collect();
        assert!(asked > 20, "only {asked} requests were written down");
        forbidden
    }
}

#[test]
fn the_rights_of_the_chart_suffice() {
    let Some(audited) = Audited::start() else { return };
    let cluster = &audited.cluster;
    let pods = install(cluster, manifest());
    // Something was stored in an old version once.
    let old = r#"{"status":{"storedVersions":["v1","v1beta1"]}}"#;
    let crd = "crd constrainttemplates.templates.gatekeeper.sh";
    succeeds(cluster, &format!("patch {crd} --subresource=status --type=merge -p {old}"), "");
    let installed = Installed::start(cluster, &pods[0], &["--default-wait-for-vapb-generation=0"]);
    let get = |what: &str| modgate_e2e::kubectl(cluster, &format!("get {what}"), "").stdout;
    eventually("it is ready", || is_ready(installed.health));
    for configuration in ["gatekeeper", "kubemod"] {
        for kind in ["mutating", "validating"] {
            let of =
                format!("{kind}webhookconfiguration {configuration}-{kind}-webhook-configuration");
            let bundle = get(&format!("{of} -o jsonpath={{.webhooks[*].clientConfig.caBundle}}"));
            assert!(!bundle.is_empty(), "{of}");
        }
    }
    let holder = get(&format!("lease modgate -n {NAMESPACE} -o jsonpath={{.spec.holderIdentity}}"));
    assert!(holder.contains(POD), "{holder}");

    succeeds(cluster, "apply -f -", POLICIES);
    let crds = "crd -l gatekeeper.sh/constraint=yes -o name";
    eventually("templates have their kinds", || get(crds).lines().count() == 2);
    succeeds(cluster, "wait --for=condition=Established crd -l gatekeeper.sh/constraint=yes", "");
    eventually("constraints can be made", || {
        modgate_e2e::kubectl(cluster, "apply -f -", CONSTRAINTS).success
    });
    succeeds(cluster, "wait --for=condition=Loaded --timeout=60s modrule good", "");
    for policy in [
        "constrainttemplate inrego",
        "constrainttemplate incel",
        "inrego good",
        "incel good",
        "assignmetadata good",
        "expansiontemplate good",
        "config config -n gatekeeper-system",
    ] {
        eventually(policy, || get(&format!("{policy} -o jsonpath={{.status.byPod[0].id}}")) == POD);
    }
    eventually("the kind in CEL is given to the API server", || {
        get("validatingadmissionpolicy gatekeeper-incel -o name").contains("gatekeeper-incel")
            && get("validatingadmissionpolicybinding -o name").contains("gatekeeper-incel-good")
    });
    eventually("constraints are audited", || {
        !get("inrego good -o jsonpath={.status.auditTimestamp}").is_empty()
    });
    eventually("templates are stored anew", || {
        get(&format!("{crd} -o jsonpath={{.status.storedVersions}}")) == "[\"v1\"]"
    });
    let listed = get("constraints");
    assert!(listed.contains("inrego.constraints.gatekeeper.sh/good"), "{listed}");
    assert!(listed.contains("incel.constraints.gatekeeper.sh/good"), "{listed}");

    // What is deleted is made again, or goes with what it belongs to.
    succeeds(cluster, &format!("delete secret gatekeeper-webhook-server-cert -n {NAMESPACE}"), "");
    let secret = format!("secret gatekeeper-webhook-server-cert -n {NAMESPACE}");
    eventually("there is a certificate again", || {
        !get(&format!("{secret} -o jsonpath={{.data}}")).is_empty()
    });
    succeeds(cluster, "delete -f -", CONSTRAINTS);
    succeeds(cluster, "delete -f -", POLICIES);
    eventually("nothing is said of policies that are gone", || {
        get("constraintpodstatuses,constrainttemplatepodstatuses,mutatorpodstatuses -A -o name")
            .is_empty()
    });
    let metrics = client::get(installed.metrics, "/metrics").expect("metrics").body;
    assert!(metrics.contains("gatekeeper_constraint_templates"), "{metrics}");
    assert_eq!(audited.forbidden(), BTreeSet::new());
}

/// A constraint about one kind; Rego that looks at ConfigMaps that are synced.
const NARROW: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: narrow}
spec:
  crd: {spec: {names: {kind: Narrow}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: Rego
      source: {rego: "package p\nviolation[{\"msg\": \"two\"}] { count(data.inventory.namespace[\"two\"][\"v1\"].ConfigMap) == 2 }"}
---
apiVersion: syncset.gatekeeper.sh/v1alpha1
kind: SyncSet
metadata: {name: narrow}
spec: {gvks: [{group: "", version: v1, kind: ConfigMap}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: two}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: two}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: two}
"#;

fn narrow(name: &str, kind: &str) -> String {
    format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Narrow\nmetadata: {{name: {name}}}\n\
         spec: {{match: {{kinds: [{{apiGroups: [''], kinds: [{kind}]}}]}}}}\n"
    )
}

/// The rights of a ServiceAccount where only ConfigMaps are readable, and those that it does not
/// have.
const RIGHTS: [(&str, bool); 20] = [
    ("list configmaps -A", true),
    ("watch modrules.api.kubemod.io -A", true),
    ("patch modrules.api.kubemod.io --subresource=status -A", true),
    ("create customresourcedefinitions.apiextensions.k8s.io", true),
    ("list secrets/gatekeeper-webhook-server-cert -n gatekeeper-system", true),
    ("create secrets -n gatekeeper-system", true),
    ("list secrets -n gatekeeper-system", false),
    ("get secrets/other -n gatekeeper-system", false),
    ("list secrets -A", false),
    ("create secrets -n default", false),
    ("list deployments.apps -A", false),
    ("update configmaps -A", false),
    ("create pods -n gatekeeper-system", false),
    ("delete pods -n gatekeeper-system", false),
    ("create modrules.api.kubemod.io -A", false),
    ("delete constrainttemplates.templates.gatekeeper.sh", false),
    ("delete customresourcedefinitions.apiextensions.k8s.io", false),
    ("patch validatingwebhookconfigurations.admissionregistration.k8s.io/another", false),
    ("delete mutatingwebhookconfigurations.admissionregistration.k8s.io", false),
    ("create clusterrolebindings.rbac.authorization.k8s.io", false),
];

/// Each Deployment as its ServiceAccount, where the audit and the inventory may read one kind only.
#[test]
fn the_rights_of_a_narrow_split_installation_suffice_and_no_more() {
    if !build::has_go() {
        eprintln!("skipped: no Go to build Helm with");
        return;
    }
    let Some(audited) = Audited::start() else { return };
    let cluster = &audited.cluster;
    let readable = r#"rbac.readable=[{"apiGroups":[""],"resources":["configmaps"]}]"#;
    let values = ["--set", "split.enabled=true,namespace.create=true", "--set-json", readable];
    let manifest = build::helm().expect("Helm").render(&values).expect("a manifest");
    let pods = install(cluster, documents(&manifest));
    let installed: Vec<Installed> =
        pods.iter().map(|pod| Installed::start(cluster, pod, &[])).collect();
    let names: Vec<&str> = pods.iter().map(|pod| text(pod, "/metadata/name")).collect();
    assert_eq!(names, ["modgate-0", "modgate-audit-0"]);
    let get = |what: &str| modgate_e2e::kubectl(cluster, &format!("get {what}"), "").stdout;
    installed.iter().for_each(|one| eventually("it is ready", || is_ready(one.health)));
    // Each elects among its like.
    for (pod, lease) in [
        ("modgate-0", "modgate-mutation-webhook.webhook"),
        ("modgate-audit-0", "modgate-audit.generate.mutation-status.status"),
    ] {
        let holder = format!("lease {lease} -n {NAMESPACE} -o jsonpath={{.spec.holderIdentity}}");
        eventually(lease, || get(&holder).contains(pod));
    }
    succeeds(cluster, "apply -f -", NARROW);
    let is_taken =
        |name, kind| modgate_e2e::kubectl(cluster, "apply -f -", &narrow(name, kind)).success;
    eventually("constraints can be made", || is_taken("maps", "ConfigMap"));
    for policy in ["constrainttemplate narrow", "narrow maps"] {
        let ids = format!("{policy} -o jsonpath={{.status.byPod[*].id}}");
        eventually(policy, || get(&ids) == "modgate-0 modgate-audit-0");
    }
    let total = |name: &str| get(&format!("narrow {name} -o jsonpath={{.status.totalViolations}}"));
    eventually("what may be read is audited, with what is synced", || {
        total("maps").parse().is_ok_and(|found: u64| found > 1)
    });
    let configuration =
        "validatingwebhookconfiguration gatekeeper-validating-webhook-configuration";
    let bundle = format!("{configuration} -o jsonpath={{.webhooks[*].clientConfig.caBundle}}");
    eventually("the API server knows the certificate", || !get(&bundle).is_empty());
    assert_eq!(audited.forbidden(), BTreeSet::new());

    for pod in &pods {
        let account = text(pod, "/spec/serviceAccountName");
        for (what, expected) in RIGHTS {
            let subject = format!("--as=system:serviceaccount:{NAMESPACE}:{account}");
            let outcome =
                modgate_e2e::kubectl(cluster, &format!("auth can-i {what} {subject}"), "");
            let answer = outcome.stdout.trim();
            assert_eq!(answer, if expected { "yes" } else { "no" }, "{account}: {what}");
        }
    }

    // What it may not read is reported, and does not keep it from the rest.
    assert!(is_taken("secrets", "Secret"));
    eventually("the other kind was listed", || !audited.forbidden().is_empty());
    let asked = audited.forbidden();
    assert!(asked.iter().all(|what| what.contains(" secrets/ /")), "{asked:?}");
    let audit = &installed[1];
    eventually("the log says so", || {
        let log = fs::read_to_string(&audit.log).expect("log");
        log.lines().any(|line| line.contains("secrets") && line.contains("forbidden"))
    });
    let last = || get("narrow maps -o jsonpath={.status.auditTimestamp}");
    let before = last();
    eventually("the rest is audited on", || last() > before);

    // A configuration of a flag that the ClusterRole does not name.
    let more = "--additional-mutating-webhook-configs-to-rotate-certs=theirs";
    let other = Installed::start(cluster, &pods[0], &[more]);
    let expected = "the ClusterRole must allow `list`, `watch` and `patch` on \
                    `mutatingwebhookconfigurations` with the resourceName `theirs`";
    eventually("what is missing is named", || {
        fs::read_to_string(&other.log).expect("log").contains(expected)
    });
    assert!(!is_ready(other.health));
}

/// The commands and answers of a step of `docs/quick-start.md`: each block, whatever its language.
fn blocks_of(step: &str) -> Vec<String> {
    let path = corpus::repository().join("docs/quick-start.md");
    let page = fs::read_to_string(path).expect("docs/quick-start.md");
    let (_, section) = page.split_once(&format!("\n## {step}\n")).expect(step);
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut blocks = Vec::new();
    for block in section.split("\n```").skip(1).step_by(2) {
        blocks.push(block.split_once('\n').expect("a language").1.to_owned());
    }
    blocks
}

/// A command as it is typed in the repository.
fn typed(cluster: &Cluster, command: &str) -> Command {
    let folder = cluster.kubectl_binary().parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").expect("PATH"));
    let mut shell = Command::new("sh");
    shell.args(["-euc", command]).current_dir(corpus::repository());
    shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
    shell
}

/// Does the work of nodes, the controller of Deployments and the network where there is none of
/// them: runs as many Pods as the Deployment wants, lets the Service lead to them, and reports
/// them.
fn run_deployment(cluster: &Cluster) -> Vec<Installed> {
    let get = |what: &str| modgate_e2e::kubectl(cluster, &format!("get {what} -o json"), "").stdout;
    let parsed = |what: &str| serde_json::from_str::<Value>(&get(what)).ok();
    let of_deployment = format!("deployment modgate -n {NAMESPACE}");
    eventually("the manifest is applied to its end", || {
        // The webhook configurations come last.
        let all = parsed("validatingwebhookconfigurations,mutatingwebhookconfigurations");
        let count = all.and_then(|all| Some(all["items"].as_array()?.len()));
        count == Some(4) && parsed(&of_deployment).is_some()
    });
    let deployment = parsed(&of_deployment).expect("a Deployment");
    let replicas = deployment["spec"]["replicas"].as_u64().expect("replicas");
    let pods: Vec<Installed> = (0..replicas)
        .map(|number| {
            let mut pod = deployment["spec"]["template"].clone();
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            pod["metadata"]["name"] = format!("modgate-{number}").into();
            succeeds(cluster, &format!("create -n {NAMESPACE} -f -"), &pod.to_string());
            Installed::start(cluster, &pod, &[])
        })
        .collect();
    let addresses: Vec<SocketAddr> = pods.iter().map(|pod| pod.webhooks).collect();
    let balancer = Balancer::start(&addresses).expect("a balancer");
    // By name, and thus with the certificate of the Service.
    let service = r#"{"spec":{"type":"ExternalName","externalName":"localhost","clusterIP":null,"clusterIPs":null}}"#;
    let patch = |what: &str, patch: &str, more: &str| {
        let arguments = format!("patch {what} --type=merge {more} -p {patch}");
        succeeds(cluster, &arguments, "");
    };
    patch(&format!("service gatekeeper-webhook-service -n {NAMESPACE}"), service, "");
    for configuration in ["gatekeeper", "kubemod"] {
        for kind in ["mutating", "validating"] {
            let name =
                format!("{kind}webhookconfiguration/{configuration}-{kind}-webhook-configuration");
            let found = parsed(&name).expect("a configuration");
            let count = found["webhooks"].as_array().expect("webhooks").len();
            let port = balancer.address().port();
            let ports: Vec<Value> = (0..count)
                .map(|number| {
                    let path = format!("/webhooks/{number}/clientConfig/service/port");
                    json!({"op": "add", "path": path, "value": port})
                })
                .collect();
            let ports = Value::from(ports).to_string();
            succeeds(cluster, &format!("patch {name} --type=json -p {ports}"), "");
        }
    }
    pods.iter().for_each(|pod| eventually("a Pod is ready", || is_ready(pod.health)));
    let status = json!({"status": {
        "observedGeneration": deployment["metadata"]["generation"],
        "replicas": replicas, "updatedReplicas": replicas,
        "readyReplicas": replicas, "availableReplicas": replicas,
    }});
    patch(&of_deployment, &status.to_string(), "--subresource=status");
    pods
}

/// From an empty cluster to each denial that the page shows, by the commands of the page.
#[test]
fn a_newcomer_follows_the_quick_start() {
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let cluster = &cluster;
    let started = Instant::now();
    let note = |what: &str| eprintln!("{what} after {:.1} s", started.elapsed().as_secs_f64());
    let readme = fs::read_to_string(corpus::repository().join("README.md")).expect("README.md");
    let install = blocks_of("2. Install modgate");
    for command in install[0].lines() {
        let command = command.split(" --timeout").next().unwrap_or_default();
        assert!(readme.contains(command), "the README installs otherwise than `{command}`");
    }
    let mut waiting = typed(cluster, &install[0]).spawn().expect("sh");
    let pods = run_deployment(cluster);
    assert!(waiting.wait().expect("kubectl").success());
    assert_eq!(pods.len(), 3);
    note("installed");
    let succeeds = |step: &str, number: usize| {
        let command = &blocks_of(step)[number];
        let output = typed(cluster, command).output().expect("sh");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{command}: {stderr}");
    };
    // The command fails with these words. An object that was admitted before every replica knew the policy is taken
    // back, and made again.
    let is_refused = |step: &str, command: &str, words: &str| {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut tries = 0;
        eventually(step, || {
            tries += 1;
            let output = typed(cluster, command).output().expect("sh");
            if output.status.success() {
                let undo = command.replace("kubectl apply", "kubectl delete --ignore-not-found");
                typed(cluster, &undo).output().expect("sh");
                return false;
            }
            let stderr = flat(&String::from_utf8_lossy(&output.stderr));
            assert!(stderr.contains(&flat(words)), "{command}: {stderr}");
            true
        });
        note(&format!("{step}: {tries} tries"));
    };
    succeeds("3. Apply a constraint", 0);
    let denial = blocks_of("4. See the denial");
    is_refused("the first denial", &denial[0], &denial[1]);
    let blocks = blocks_of("5. Check workloads, not only Pods");
    is_refused("a workload is denied", &blocks[0], "[Implied by pods-of-workloads]");
    let blocks = blocks_of("6. Apply ModRules");
    let (before, last) = blocks[0].trim_end().rsplit_once('\n').expect("several commands");
    let output = typed(cluster, before).output().expect("sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    is_refused("a ModRule rejects", last, &blocks[1]);
    succeeds("7. See what exists already", 0);
}
