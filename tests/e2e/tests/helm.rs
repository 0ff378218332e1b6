//! Helm itself on a real API server: the chart laid over both originals by the commands that `modgate
//! migrate --check` prints, changed, removed, and installed again.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    env, fs,
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
    thread,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_e2e::{Running, eventually, kubectl, succeeds};
use modgate_engine::api::crds;
use modgate_testkit::{
    cluster::{Cluster, Options, build, helm::Helm},
    corpus,
};
use modgate_value::yaml;
use serde_json::{Value, json};

const NAMESPACE: &str = "gatekeeper-system";

/// Leaves out the webhook for Namespaces, because no server answers it here.
const QUIET: &str = "--set ignoreLabel.enabled=false";

fn plain(value: &modgate_value::Value) -> Value {
    serde_json::from_str(&value.to_json()).expect("JSON")
}

/// Both originals as kubectl installs them, with CRDs that are older than ours and webhooks that are
/// asked about nothing.
fn originals(cluster: &Cluster, bundle: &str) {
    let mut applied = String::new();
    for definition in crds::all().expect("CRDs") {
        let mut definition = plain(&definition);
        let is_modrule = definition["spec"]["names"]["kind"] == "ModRule";
        for version in definition["spec"]["versions"].as_array_mut().expect("versions") {
            version["schema"]["openAPIV3Schema"]["description"] = "the original's".into();
            if is_modrule {
                version.as_object_mut().expect("version").remove("subresources");
            }
        }
        applied.push_str(&format!("---\n{definition}\n"));
    }
    succeeds(cluster, "apply -f -", &applied);
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/modgate-migrate/tests/fixtures");
    let rendered = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(["render", "crds"])
        .arg(folder.join("gatekeeper.yaml"))
        .output()
        .expect("modgate");
    succeeds(cluster, "apply -f -", &String::from_utf8(rendered.stdout).expect("UTF-8"));
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    succeeds(cluster, "create namespace shop", "");
    for file in ["kubemod.yaml", "gatekeeper.yaml"] {
        let text = fs::read_to_string(folder.join(file)).expect(file);
        for document in yaml::load(&text).expect("YAML") {
            let mut document = plain(&document.value);
            let webhooks = document.get_mut("webhooks").and_then(Value::as_array_mut);
            for webhook in webhooks.into_iter().flatten() {
                webhook["matchConditions"] = json!([{"name": "never", "expression": "false"}]);
                webhook["clientConfig"]["caBundle"] = bundle.into();
            }
            succeeds(cluster, "apply -f -", &document.to_string());
        }
    }
}

/// Runs a command of Helm as it would be typed in the repository.
fn typed(cluster: &Cluster, helm: &Helm, command: &str) -> Output {
    let mut shell = Command::new("sh");
    let helm = helm.command();
    shell.envs(helm.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let folder = Path::new(helm.get_program()).parent().expect("folder").display().to_string();
    let path = format!("{folder}:{}", env::var("PATH").expect("PATH"));
    shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
    shell.current_dir(corpus::repository()).args(["-c", command]).output().expect("sh")
}

fn helps(cluster: &Cluster, helm: &Helm, command: &str) -> String {
    let output = typed(cluster, helm, command);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The Helm commands in the steps of the switch.
fn steps(cluster: &Cluster) -> Vec<String> {
    let report = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(["migrate", "--check", "-o", "json", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .output()
        .expect("modgate");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let steps = report["steps"].as_array().expect("steps").iter();
    let commands = steps.flat_map(|step| step["commands"].as_array().into_iter().flatten());
    let commands = commands.map(|command| command.as_str().expect("text").to_owned());
    commands.filter(|command| command.starts_with("helm ")).collect()
}

/// Every policy, as the object it is.
fn policies(cluster: &Cluster) -> String {
    let kinds = "modrules,constrainttemplates,k8sneedslabel,assignmetadata,configs";
    let fields = "{range .items[*]}{.kind} {.metadata.name} {.metadata.uid} \
                  {.metadata.generation}{\"\\n\"}{end}";
    let arguments = ["get", kinds, "-A", "-o", &format!("jsonpath={fields}")];
    let outcome = cluster.run(arguments, "").expect("kubectl");
    assert!(outcome.success, "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn a_release_is_laid_over_the_originals_changed_and_removed() {
    let Some(cluster) = Cluster::shared() else { return };
    if !build::has_go() {
        eprintln!("skipped: no Go to build Helm with");
        return;
    }
    let helm = &build::helm().expect("Helm");
    let made = rcgen::generate_simple_self_signed(vec!["modgate.test".to_owned()]).expect("made");
    let bundle = STANDARD.encode(made.cert.pem());
    originals(cluster, &bundle);
    let before = policies(cluster);
    assert_eq!(before.lines().count(), 7, "{before}");
    let of = |kind: &str, name: &str, path: &str| {
        let name = format!("{kind}webhookconfiguration {name}-{kind}-webhook-configuration");
        succeeds(cluster, &format!("get {name} -o jsonpath={{{path}}}"), "")
    };
    let service = ".webhooks[*].clientConfig.service.name";
    let args = || {
        let path = "{.spec.template.spec.containers[0].args}";
        succeeds(cluster, &format!("get deployment modgate -n {NAMESPACE} -o jsonpath={path}"), "")
    };

    // Not by accident.
    let install = "helm install modgate deploy/chart -n gatekeeper-system --set image.repository=r";
    let refused = typed(cluster, helm, install);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("exists and cannot be imported"), "{refused}");
    let steps = steps(cluster);
    let [beside, switch, rest] = steps.as_slice() else { panic!("{steps:#?}") };

    helps(cluster, helm, &format!("{beside} {QUIET}"));
    for kind in ["validating", "mutating"] {
        assert_eq!(
            of(kind, "gatekeeper", ".metadata.labels.app\\.kubernetes\\.io/name"),
            "modgate"
        );
        assert_eq!(of(kind, "gatekeeper", ".webhooks[0].clientConfig.caBundle"), bundle);
        assert!(of(kind, "kubemod", service).contains("kubemod-webhook-service"));
    }
    assert_eq!(of("mutating", "gatekeeper", ".webhooks[*].timeoutSeconds"), "1");
    let status = "get crd modrules.api.kubemod.io -o jsonpath={.spec.versions[0].subresources}";
    assert_eq!(succeeds(cluster, status, ""), r#"{"status":{}}"#);
    assert!(args().contains("--operation=mutation-webhook"), "{}", args());

    helps(cluster, helm, switch);
    assert_eq!(of("validating", "kubemod", service), ["gatekeeper-webhook-service"; 2].join(" "));
    assert_eq!(of("mutating", "kubemod", service), ["gatekeeper-webhook-service"; 3].join(" "));
    assert_eq!(
        of("mutating", "kubemod", ".webhooks[*].clientConfig.caBundle"),
        [bundle.as_str(); 3].join(" ")
    );
    helps(cluster, helm, rest);
    assert!(!args().contains("--operation"), "{}", args());
    assert_eq!(policies(cluster), before);

    // As it is changed from then on: what the originals said alike is still theirs, too.
    let upgrade = "helm upgrade modgate deploy/chart -n gatekeeper-system \
                   --reset-then-reuse-values --set replicas=2 --set validation.failurePolicy=Fail";
    let refused = typed(cluster, helm, upgrade);
    let refused = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.contains("Apply failed with 1 conflict"), "{refused}");
    helps(cluster, helm, &format!("{upgrade} --force-conflicts"));
    assert_eq!(of("validating", "gatekeeper", ".webhooks[0].failurePolicy"), "Fail");
    assert_eq!(of("validating", "gatekeeper", ".webhooks[0].clientConfig.caBundle"), bundle);
    let replicas = format!("get deployment modgate -n {NAMESPACE} -o jsonpath={{.spec.replicas}}");
    assert_eq!(succeeds(cluster, &replicas, ""), "2");

    // Nothing is asked any more, and no policy is gone.
    let is_kept = || {
        assert_eq!(policies(cluster), before);
        succeeds(cluster, "get namespace kubemod-system", "");
        let left = "validatingwebhookconfiguration,mutatingwebhookconfiguration,clusterrole,\
                    deployment,service,secret -A -l app.kubernetes.io/name=modgate -o name";
        assert_eq!(kubectl(cluster, &format!("get {left}"), "").stdout, "");
    };
    helps(cluster, helm, "helm uninstall modgate -n gatekeeper-system");
    is_kept();
    helps(
        cluster,
        helm,
        &format!("{install} --create-namespace --set validation.enabled=false {QUIET}"),
    );
    assert!(args().contains("--audit-interval"), "{}", args());
    helps(cluster, helm, upgrade);
    assert_eq!(succeeds(cluster, &replicas, ""), "2");
    helps(cluster, helm, "helm uninstall modgate -n gatekeeper-system");
    is_kept();
}

/// The commands of a section of `docs/install.md`, block by block.
fn commands_of(section: &str) -> Vec<String> {
    let path = corpus::repository().join("docs/install.md");
    let text = fs::read_to_string(path).expect("docs/install.md");
    let text = text.split_once(&format!("\n## {section}\n")).expect(section).1;
    let text = text.split("\n## ").next().unwrap_or_default();
    let blocks = text.split("\n```sh\n").skip(1);
    blocks.map(|block| block.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

const BINDINGS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: gatekeeper-kind-name}
spec: {policyName: gatekeeper-kind, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: somebody-elses}
spec: {policyName: somebody-elses, validationActions: [Deny]}
"#;

/// Commands for an emergency do what they say, and nothing else.
#[test]
fn everything_can_be_stopped_and_brought_back() {
    if !build::has_go() {
        eprintln!("skipped: no Go to build Helm with");
        return;
    }
    let Some(cluster) = &Cluster::start(&Options::default()).expect("cluster") else { return };
    let helm = &build::helm().expect("Helm");
    let run = |command: &str| helps(cluster, helm, command);
    run("kubectl apply -f deploy/modgate.yaml");
    succeeds(cluster, "apply -f -", BINDINGS);
    let get = |what: &str| succeeds(cluster, &format!("get {what}"), "");
    let configurations =
        || get("validatingwebhookconfiguration,mutatingwebhookconfiguration -o name");
    assert_eq!(configurations().lines().count(), 4);
    let blocks = commands_of("Emergency recovery");
    let [delete, back, stop, unbind] = blocks.as_slice() else { panic!("{blocks:#?}") };

    run(delete);
    assert!(configurations().ends_with("/kubemod-validating-webhook-configuration\n"));
    assert_eq!(configurations().lines().count(), 1);
    run("kubectl scale deployment modgate -n gatekeeper-system --replicas=2");
    let (with_kubectl, with_helm) = back.split_once('\n').expect("two commands");
    assert!(with_helm.starts_with("helm get manifest modgate"), "{with_helm}");
    run(with_kubectl);
    assert_eq!(configurations().lines().count(), 4);
    let deployment = "deployment modgate -n gatekeeper-system -o jsonpath=";
    assert_eq!(get(&format!("{deployment}{{.spec.replicas}}")), "2");

    run(stop);
    assert_eq!(get(&format!("{deployment}{{.spec.replicas}}")), "0");
    let bindings = get("validatingadmissionpolicybindings -o name");
    assert!(bindings.ends_with("/somebody-elses\n"), "{bindings}");
    assert_eq!(bindings.lines().count(), 1);
    run(unbind);
    let args = get(&format!("{deployment}{{.spec.template.spec.containers[0].args}}"));
    assert!(args.ends_with("\"--default-create-vap-binding-for-constraints=false\"]"), "{args}");
    run("kubectl apply -f deploy/modgate.yaml");
    let args = get(&format!("{deployment}{{.spec.template.spec.containers[0].args}}"));
    assert!(!args.contains("--default-create-vap"), "{args}");
    assert_eq!(get(&format!("{deployment}{{.spec.replicas}}")), "3");
}

const TEMPLATE: &str = "
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: any}
spec:
  crd: {spec: {names: {kind: Any}}}
  targets: [{target: admission.k8s.gatekeeper.sh, rego: 'package any'}]
";

const RULE: &str = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: any, namespace: default}
spec: {type: Reject, match: [{select: '$.kind', matchValue: None}]}
";

/// The profile `auto` installs webhooks for the policies that there are, and takes none away that there were.
#[test]
fn the_profile_follows_the_cluster() {
    if !build::has_go() {
        eprintln!("skipped: no Go to build Helm with");
        return;
    }
    let Some(cluster) = &Cluster::start(&Options::default()).expect("cluster") else { return };
    let helm = &build::helm().expect("Helm");
    let template = "helm template modgate deploy/chart -n gatekeeper-system --dry-run=server \
                    --set image.repository=r,profile=auto,crds.install=false";
    let profile = || {
        let text = helps(cluster, helm, template);
        (text.contains("name: validation.gatekeeper.sh"), text.contains("name: dragnet.kubemod.io"))
    };
    let define = |name: &str| {
        let definitions = crds::all().expect("CRDs");
        let named = |it: &&modgate_value::Value| plain(it)["metadata"]["name"] == name;
        let definition = plain(definitions.iter().find(named).expect(name));
        succeeds(cluster, "apply -f -", &definition.to_string());
        succeeds(cluster, "wait --for=condition=Established crd --all", "");
    };
    assert_eq!(profile(), (true, true), "nothing is there");
    define("modrules.api.kubemod.io");
    define("constrainttemplates.templates.gatekeeper.sh");
    assert_eq!(profile(), (true, true), "kinds are there, and no policies");
    succeeds(cluster, "apply -f -", RULE);
    assert_eq!(profile(), (false, true));
    succeeds(cluster, "apply -f -", TEMPLATE);
    assert_eq!(profile(), (true, true));
    succeeds(cluster, "delete modrules --all -n default", "");
    assert_eq!(profile(), (true, false));

    // A release says which policies it leaves alone.
    succeeds(cluster, "apply -f -", RULE);
    let install = "helm install modgate deploy/chart -n gatekeeper-system --create-namespace --set \
                   image.repository=r,profile=gatekeeper,crds.install=false,ignoreLabel.enabled=false";
    let notes = helps(cluster, helm, install);
    assert!(notes.contains("WARNING: the cluster has 1 ModRules"), "{notes}");
    succeeds(cluster, "delete constrainttemplates --all", "");
    assert_eq!(profile(), (true, true), "its webhooks are there, and a ModRule");

    // `helm test` succeeds where the webhooks answer, and fails where they do not.
    let policies = tempfile::tempdir().expect("a folder");
    fs::write(policies.path().join("rule.yaml"), RULE).expect("written");
    let server = Running::of_files(policies.path());
    let (tested, printed, _) = tested(cluster, helm, &server);
    assert!(tested, "{printed}");
    let answers = printed.lines().filter(|line| line.ends_with(" answers: allowed")).count();
    assert_eq!((answers, printed.lines().count()), (2, 2), "{printed}");
    let (address, folder) = (server.address, tempfile::tempdir().expect("a folder"));
    fs::copy(server.folder.path().join("tls.crt"), folder.path().join("tls.crt")).expect("copied");
    server.stop();
    let (tested, _, said) = tested_at(cluster, helm, address, &folder.path().join("tls.crt"));
    assert!(!tested, "{said}");
    assert!(said.contains("/v1/admit does not answer within 1 s: "), "{said}");
    assert!(said.contains("no Pod is ready, or a NetworkPolicy"), "{said}");
}

fn tested(cluster: &Cluster, helm: &Helm, server: &Running) -> (bool, String, String) {
    tested_at(cluster, helm, server.address, &server.folder.path().join("tls.crt"))
}

/// Whether `helm test` succeeds, and what the container of its Pod prints and says. There is no kubelet, so it is run
/// here, and asks a server here.
fn tested_at(
    cluster: &Cluster,
    helm: &Helm,
    server: SocketAddr,
    ca: &Path,
) -> (bool, String, String) {
    let pod = || {
        let get = "get pod modgate-test -n gatekeeper-system -o json --ignore-not-found";
        let text = succeeds(cluster, get, "");
        let pod: Value = serde_json::from_str(&text).unwrap_or_default();
        let is_new = pod["status"]["phase"] == "Pending";
        is_new.then(|| pod["spec"]["containers"][0]["args"].clone())
    };
    thread::scope(|scope| {
        let test = "helm test modgate -n gatekeeper-system --timeout 60s";
        let helm = scope.spawn(move || typed(cluster, helm, test));
        let mut args = Value::Null;
        eventually("Helm makes the Pod", || {
            args = pod().unwrap_or_default();
            args.is_array()
        });
        let service = "https://gatekeeper-webhook-service.gatekeeper-system.svc";
        let args = args.as_array().expect("arguments").iter().map(|it| {
            let arg = it.as_str().expect("text").replace(service, &format!("https://{server}"));
            let arg = arg.replace("--timeout=60s", "--timeout=1s");
            arg.replace("/ca/ca.crt", &ca.display().to_string())
        });
        let output =
            Command::new(env!("CARGO_BIN_EXE_modgate-e2e")).args(args).output().expect("modgate");
        let phase = if output.status.success() { "Succeeded" } else { "Failed" };
        let patch = format!(r#"{{"status":{{"phase":"{phase}"}}}}"#);
        let arguments =
            "patch pod modgate-test -n gatekeeper-system --subresource=status --type=merge -p";
        succeeds(cluster, &format!("{arguments} {patch}"), "");
        let tested = helm.join().expect("helm");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (tested.status.success(), text(&output.stdout), text(&output.stderr))
    })
}
