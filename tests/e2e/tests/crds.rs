//! The installation against a real API server: that it is taken as a whole, over what the originals
//! leave behind, and that our kinds keep whatever their objects say.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    sync::OnceLock,
    time::{Duration, Instant},
};

use futures_util::{StreamExt as _, stream};
use hyper::Request;
use kube::{
    Client, Config, Error,
    config::{KubeConfigOptions, Kubeconfig},
};
use modgate_e2e::{TIMEOUT, kubectl, succeeds};
use modgate_engine::{api::crds, constraint::ConstraintSchema};
use modgate_testkit::{
    Roots,
    cluster::{Cluster, build, helm::Helm},
    corpus,
};
use modgate_value::yaml;
use serde_json::{Value, json};
use tokio::time::sleep;

/// The manifest, its webhook configurations apart: nothing answers at their Service here, and no
/// request may be sent there.
struct Manifest {
    whole: String,
    webhooks: String,
    rest: String,
}

fn manifest() -> &'static Manifest {
    static MANIFEST: OnceLock<Manifest> = OnceLock::new();
    MANIFEST.get_or_init(|| {
        let path = corpus::repository().join("deploy/modgate.yaml");
        let whole = fs::read_to_string(path).expect("`cargo xtask codegen` writes it");
        let is_webhooks = |document: &&str| {
            document.contains("\nkind: MutatingWebhook")
                || document.contains("\nkind: ValidatingWebhook")
        };
        let documents: Vec<_> = whole.split("\n---\n").collect();
        let (webhooks, rest): (Vec<_>, Vec<_>) = documents.into_iter().partition(is_webhooks);
        let join = |documents: Vec<&str>| documents.join("\n---\n");
        Manifest { webhooks: join(webhooks), rest: join(rest), whole: whole.clone() }
    })
}

/// A value of ours as one that is easily taken apart.
fn plain(value: &modgate_value::Value) -> Value {
    serde_json::from_str(&value.to_json()).expect("JSON")
}

fn documents(text: &str) -> Vec<Value> {
    let documents = yaml::load(text).expect("YAML");
    documents.iter().map(|it| plain(&it.value)).filter(|it| !it.is_null()).collect()
}

fn yaml_of<'v>(values: impl IntoIterator<Item = &'v Value>) -> String {
    // JSON is YAML.
    values.into_iter().map(|value| format!("---\n{value}\n")).collect()
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Our CRDs.
fn definitions() -> Vec<Value> {
    crds::all().expect("CRDs").iter().map(plain).collect()
}

/// A CRD as the original has it: without what was restored or added, and as strict elsewhere.
fn original(mut definition: Value) -> Value {
    let is_modrule = text(&definition, "/spec/names/kind") == "ModRule";
    for version in definition["spec"]["versions"].as_array_mut().expect("versions") {
        if is_modrule {
            let version = version.as_object_mut().expect("version");
            version.remove("subresources");
            version.remove("additionalPrinterColumns");
            version["schema"]["openAPIV3Schema"]["properties"]["status"] =
                json!({"type": "object"});
        }
        let schema = version.pointer_mut("/schema/openAPIV3Schema").expect("schema");
        for (of, member) in [
            ("/properties/spec/properties/parameters/properties", "assignIf"),
            ("/properties/spec/properties", "source"),
            ("/properties/spec/properties/match/properties", "origin"),
        ] {
            if let Some(Value::Object(properties)) = schema.pointer_mut(of) {
                properties.remove(member);
            }
        }
    }
    definition
}

/// Objects of the originals' users.
const STORED: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: kept, namespace: default}
spec:
  type: Patch
  match: [{select: '$.kind', matchValue: ConfigMap}]
  patch: [{op: add, path: /metadata/labels/a, value: b}]
---
apiVersion: mutations.gatekeeper.sh/v1beta1
kind: Assign
metadata: {name: kept}
spec:
  applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}]
  match: {scope: Namespaced, labelSelector: {matchLabels: {a: b}}}
  location: spec.hostNetwork
  parameters: {assign: {value: false}}
---
apiVersion: templates.gatekeeper.sh/v1beta1
kind: ConstraintTemplate
metadata: {name: kept}
spec:
  crd: {spec: {names: {kind: Kept}}}
  targets: [{target: admission.k8s.gatekeeper.sh, rego: 'package kept'}]
---
apiVersion: externaldata.gatekeeper.sh/v1alpha1
kind: Provider
metadata: {name: kept}
spec: {url: 'https://provider.example', timeout: 1, caBundle: Zm9v}
"#;

/// A cluster that had the originals' CRDs and objects before modgate was installed over them; and the
/// objects as they were stored then.
fn installed() -> Option<&'static (&'static Cluster, Vec<Value>)> {
    static INSTALLED: OnceLock<Option<(&'static Cluster, Vec<Value>)>> = OnceLock::new();
    let install = || {
        let cluster = Cluster::shared()?;
        let originals: Vec<_> = definitions().into_iter().map(original).collect();
        succeeds(cluster, "apply -f -", &yaml_of(&originals));
        wait_for_kinds(cluster);
        let is_taken = || kubectl(cluster, "apply -f -", STORED).success;
        modgate_e2e::eventually("objects are taken", is_taken);
        let before = stored(cluster);
        succeeds(cluster, "apply -f -", &manifest().rest);
        wait_for_kinds(cluster);
        Some((cluster, before))
    };
    INSTALLED.get_or_init(install).as_ref()
}

fn wait_for_kinds(cluster: &Cluster) {
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
}

/// The objects of [`STORED`], in the versions they were written in.
fn stored(cluster: &Cluster) -> Vec<Value> {
    let answer = succeeds(cluster, "get -f - -o json", STORED);
    let list: Value = serde_json::from_str(&answer).expect("JSON");
    list["items"].as_array().expect("items").clone()
}

#[test]
fn what_the_originals_stored_survives() {
    let Some((cluster, before)) = installed() else { return };
    let after = stored(cluster);
    assert_eq!(after.len(), 4);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after["spec"], before["spec"]);
        for member in ["uid", "generation", "labels", "annotations"] {
            assert_eq!(after["metadata"][member], before["metadata"][member], "{after}");
        }
    }
    for definition in definitions() {
        let name = text(&definition, "/metadata/name");
        let path = "jsonpath={.status.storedVersions}";
        let versions = succeeds(cluster, &format!("get crd {name} -o {path}"), "");
        let storage = text(&definition, "/spec/versions/0/name");
        assert_eq!(versions, format!("[\"{storage}\"]"), "{name}");
    }
    // What was pruned before is kept now.
    let patch =
        r#"patch assign kept --type=merge -p {"spec":{"parameters":{"assignIf":{"in":[1]}}}}"#;
    succeeds(cluster, patch, "");
    let condition = "get assign kept -o jsonpath={.spec.parameters.assignIf}";
    assert_eq!(succeeds(cluster, condition, ""), r#"{"in":[1]}"#);
}

/// As a user does it again, with an upgrade; and as GitOps does it, by server-side apply.
#[test]
fn the_manifest_is_accepted_whole() {
    let Some((cluster, _)) = installed() else { return };
    let count = documents(&manifest().whole).len();
    assert_eq!(documents(&manifest().webhooks).len(), 4);
    for arguments in [
        "apply --dry-run=server -f -",
        "apply --dry-run=server --server-side --force-conflicts -f -",
    ] {
        let outcome = kubectl(cluster, arguments, &manifest().whole);
        assert!(outcome.success, "{arguments}: {}", outcome.stderr);
        // Such as that a Pod would violate the level of its namespace. kubectl itself warns of what it
        // cannot do in a dry run.
        let is_told = |line: &&str| !line.contains("last-applied-configuration for Server-Side");
        assert_eq!(outcome.stderr.lines().find(is_told), None, "{arguments}");
        assert_eq!(outcome.stdout.lines().count(), count, "{}", outcome.stdout);
    }
}

/// The namespace only takes Pods that are restricted.
#[test]
fn its_pods_are_accepted() {
    let Some((cluster, _)) = installed() else { return };
    let deployments = documents(&manifest().rest);
    let deployment = deployments.iter().find(|it| it["kind"] == "Deployment").expect("Deployment");
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "modgate-0".into();
    let create = "create -n gatekeeper-system --dry-run=server -f -";
    succeeds(cluster, create, &pod.to_string());
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = true.into();
    let outcome = kubectl(cluster, create, &pod.to_string());
    assert!(outcome.stderr.contains("violates PodSecurity \"restricted:latest\""), "{outcome:?}");
}

/// As much of cert-manager and of Prometheus' operator as the API server needs to know.
fn operators() -> String {
    [
        ("cert-manager.io", "Issuer"),
        ("cert-manager.io", "Certificate"),
        ("monitoring.coreos.com", "ServiceMonitor"),
        ("monitoring.coreos.com", "PodMonitor"),
        ("monitoring.coreos.com", "PrometheusRule"),
    ]
    .map(|(group, kind)| {
        let plural = format!("{}s", kind.to_lowercase());
        modgate_e2e::definition(group, kind, &plural, "Namespaced", "v1")
    })
    .concat()
}

/// The sets of values in the chart's `ci`.
fn sets_of_values() -> Vec<String> {
    let entries = fs::read_dir(Helm::chart().join("ci")).expect("ci");
    entries.map(|it| it.expect("entry").path().display().to_string()).collect()
}

fn helm() -> Option<Helm> {
    if build::has_go() {
        return Some(build::helm().expect("Helm"));
    }
    eprintln!("skipped: no Go to build Helm with");
    None
}

#[test]
fn every_variation_is_accepted() {
    let (Some((cluster, _)), Some(helm)) = (installed(), helm()) else { return };
    helm.lint().expect("a chart without faults");
    succeeds(cluster, "apply -f -", &operators());
    wait_for_kinds(cluster);
    succeeds(cluster, "create namespace monitoring", "");
    // The Pod of `helm test` is created as it is, with the class of `everything-values.yaml`.
    let class = "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: gvisor}, handler: runsc}";
    succeeds(cluster, "create -f -", class);
    let condition =
        r#"validation.matchConditions=[{"name":"a","expression":"request.name != 'b'"}]"#;
    let variations: &[&[&str]] = &[
        &["--set", "certificates.source=cert-manager"],
        &["--set", "certificates.source=cert-manager,certificates.issuerRef.name=ours"],
        &["--set", "certificates.source=secret,certificates.caBundle=Zm9v,hostNetwork=true"],
        &["--set", "unifiedMutation.enabled=true"],
        &["--set", "split.enabled=true,kubemod.webapp=true,networkPolicy.enabled=false"],
        &["--set", "kubemod.enabled=false,mutation.enabled=false"],
        &["--set", "validation.enabled=false,ignoreLabel.enabled=false,replicas=1"],
        &["--set", "operations={webhook,mutation-webhook},podDisruptionBudget.enabled=false"],
        &["--set", "validation.configurationName=a,mutation.configurationName=b"],
        &["--set", "validation.failurePolicy=Fail,validation.timeoutSeconds=10"],
        &["--set", "validation.exemptNamespaces={kube-system,kube-public}"],
        &["--set", "validation.operations={CREATE,UPDATE,DELETE,CONNECT}"],
        &["--set-json", condition],
        &["--set", "resourceQuota.enabled=false,priorityClassName=,replicas=1"],
        &["--set", "profile=gatekeeper,split.enabled=true,audit.policyReports=openreports"],
        &["--set", "profile=kubemod,replicas=1,ui.enabled=true,ui.expose=true"],
        &["--set", "admissionPolicies.enabled=true,profile=gatekeeper"],
        &["--set", "clientAuth.enabled=true,clientAuth.configMap=c,split.enabled=true"],
        &[
            "--set",
            "logs.denies=true,logs.mutations=true,audit.interval=0,metrics.service.enabled=false",
        ],
        &["--set", "prometheusRule.enabled=true,podMonitor.enabled=true,profile=kubemod"],
        &["--set", "ignoreLabel.allowedNamespaces={a},ignoreLabel.allowedPrefixes={b}"],
        &[
            "--set",
            "networkPolicy.egress.enabled=true,networkPolicy.webhook.from[0].ipBlock.cidr=10.0.0.0/8",
        ],
    ];
    assert!(variations.len() + sets_of_values().len() >= 30);
    let files = sets_of_values();
    let files: Vec<[&str; 2]> = files.iter().map(|it| ["--values", it.as_str()]).collect();
    let files = files.iter().map(|it| &it[..]);
    for values in variations.iter().copied().chain(files) {
        // CRDs are always the same.
        let values = [values, &["--set", "crds.install=false"]].concat();
        let manifest = helm.render(&values).expect("a manifest");
        let apply = "apply --dry-run=server --server-side --force-conflicts --validate=strict -f -";
        let outcome = kubectl(cluster, apply, &manifest);
        assert!(outcome.success, "{values:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout.lines().count(), documents(&manifest).len(), "{values:?}");
    }
}

#[test]
fn values_that_mean_nothing_are_refused() {
    let Some(helm) = helm() else { return };
    for (set, expected) in [
        ("replica=1", "additional properties 'replica' not allowed"),
        ("validation.failurePolicy=fail", "value must be one of 'Fail', 'Ignore'"),
        ("validation.failurepolicy=Fail", "additional properties 'failurepolicy' not allowed"),
        ("mutation.operations={DELETE}", "value must be one of 'CREATE', 'UPDATE'"),
        ("kubemod.dragnet.timeoutSeconds=31", "maximum: got 31, want 30"),
        ("certificates.source=none", "value must be one of 'self', 'cert-manager', 'secret'"),
        ("operations={webhooks}", "value must be one of 'audit'"),
        ("args={audit-interval=1}", "does not match pattern"),
    ] {
        let error = helm.render(&["--set", set]).expect_err(set).to_string();
        assert!(error.contains(expected), "{set}: {error}");
    }
}

#[test]
fn kubectl_answers() {
    let Some((cluster, _)) = installed() else { return };
    let status = r#"{"status":{"conditions":[{"type":"Loaded","status":"True"}]}}"#;
    let patch = format!("patch modrule kept --subresource=status --type=merge -p {status}");
    succeeds(cluster, &patch, "");
    let listed = succeeds(cluster, "get modrules", "");
    let lines: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "TYPE", "TIER", "LOADED", "AGE"]);
    assert_eq!(lines[1][..4], ["kept", "Patch", "0", "True"]);

    for (field, expected) in [
        ("modrule.spec", "targetNamespaceRegex\t<string>"),
        ("modrule.spec.match", "select\t<string> -required-"),
        ("assign.spec.parameters.assignIf", "Replace none of these values."),
        ("constrainttemplate.spec.targets", "code\t<[]Object>"),
        ("config.spec.match.processes", "`mutation-webhook`"),
    ] {
        let explain = format!("explain {field}");
        let is_explained = || kubectl(cluster, &explain, "").stdout.contains(expected);
        modgate_e2e::eventually(&format!("{field} is explained by {expected}"), is_explained);
    }
}

/// One of our kinds, as it is addressed.
struct Kind {
    group: String,
    plural: String,
    namespaced: bool,
    versions: BTreeSet<String>,
}

fn kinds(definitions: &[Value]) -> Kinds {
    let of = |definition: &Value| {
        let group = text(definition, "/spec/group").to_owned();
        let versions = definition["spec"]["versions"].as_array().expect("versions");
        let kind = Kind {
            group: group.clone(),
            plural: text(definition, "/spec/names/plural").to_owned(),
            namespaced: text(definition, "/spec/scope") == "Namespaced",
            versions: versions.iter().map(|it| text(it, "/name").to_owned()).collect(),
        };
        ((group, text(definition, "/spec/names/kind").to_owned()), kind)
    };
    definitions.iter().map(of).collect()
}

/// Every object of our kinds in a value, however deep.
fn collect(value: &Value, is_ours: &dyn Fn(&Value) -> bool, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(_) if is_ours(value) => {
            found.insert(value.to_string());
        }
        Value::Object(members) => members.values().for_each(|it| collect(it, is_ours, found)),
        Value::Array(elements) => elements.iter().for_each(|it| collect(it, is_ours, found)),
        _ => {}
    }
}

/// Whether everything `sent` says is in `kept`; defaults may have come to it.
fn is_within(sent: &Value, kept: &Value) -> bool {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => sent
            .iter()
            .all(|(key, sent)| kept.get(key).map_or(sent.is_null(), |kept| is_within(sent, kept))),
        (Value::Array(sent), Value::Array(kept)) => {
            sent.len() == kept.len() && sent.iter().zip(kept).all(|(a, b)| is_within(a, b))
        }
        _ => sent == kept,
    }
}

/// Objects that no API server with the originals' CRDs would take either: cases that test that, a
/// field that one README misspells, and placeholders of samples.
const REFUSED: [&str; 14] = [
    "metadata.labels: Invalid value",
    "spec.admissionOperations[0]: Unsupported value: \"FOO\"",
    "spec.applyTo[0].operations[0]: Unsupported value: \"DELETE\"",
    "spec.match in body should have at least 1 items",
    "spec.match: Required value",
    "spec.match[0].matchFor: Unsupported value: \"Some\"",
    "spec.match[1].matchValue in body must be of type string: \"boolean\"",
    "spec.patch[0].op: Unsupported value",
    "spec.patch[0].value in body must be of type string: \"integer\"",
    "spec.type: Required value",
    "spec.type: Unsupported value: \"...\"",
    "spec.type: Unsupported value: \"Foo\"",
    "unknown field \"spec.foo\"",
    "unknown field \"spec.matches\"",
];

type Kinds = BTreeMap<(String, String), Kind>;

/// Sends objects as if to be created, and requires that they would be stored as they are. Returns how
/// many, by kind.
fn keeps(cluster: &Cluster, ours: &Kinds, objects: &[Value]) -> BTreeMap<String, usize> {
    let threads =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let answers = threads.expect("runtime").block_on(async {
        let client = client(cluster).await;
        let asked = objects.iter().map(|object| {
            let (kind, version) = kind_of(ours, object).expect("ours");
            create(client.clone(), kind, version, object)
        });
        stream::iter(asked.collect::<Vec<_>>()).buffered(8).collect::<Vec<_>>().await
    });
    let (mut kept, mut refused, mut wrongly) = (BTreeMap::new(), 0, Vec::new());
    for (object, answer) in objects.iter().zip(answers) {
        match answer {
            Ok(stored) => {
                *kept.entry(text(object, "/kind").to_owned()).or_default() += 1;
                assert!(is_within(&object["spec"], &stored["spec"]), "{object}\nbecame {stored}");
            }
            Err(reason) => {
                refused += 1;
                if !REFUSED.iter().any(|known| reason.contains(known)) {
                    wrongly.push(format!("{reason}: {object}"));
                }
            }
        }
    }
    let count: usize = kept.values().sum();
    eprintln!("{count} objects kept as they are, {refused} refused as they should be: {kept:?}");
    assert!(wrongly.is_empty(), "{}", wrongly.join("\n"));
    kept
}

fn kind_of<'k>(ours: &'k Kinds, object: &Value) -> Option<(&'k Kind, String)> {
    let (group, version) = text(object, "/apiVersion").split_once('/')?;
    let kind = ours.get(&(group.to_owned(), text(object, "/kind").to_owned()))?;
    kind.versions.contains(version).then_some((kind, version.to_owned()))
}

#[test]
fn objects_of_the_corpora_are_kept_as_they_are() {
    let Some((cluster, _)) = installed() else { return };
    let ours = kinds(&definitions());
    let is_ours = |object: &Value| kind_of(&ours, object).is_some() && object["spec"].is_object();
    let mut found = BTreeSet::new();
    let roots = Roots::discover();
    for file in corpus::files(&roots).expect("corpora") {
        let bytes = file.bytes().expect("read");
        if file.name.ends_with(".json") {
            let value = modgate_value::Value::from_json(&bytes).expect(&file.name);
            collect(&plain(&value), &is_ours, &mut found);
        } else if file.name.ends_with(".yaml") {
            // Some are made to be unreadable.
            let Ok(documents) = yaml::load(&String::from_utf8_lossy(&bytes)) else { continue };
            documents.iter().for_each(|it| collect(&plain(&it.value), &is_ours, &mut found));
        }
    }
    for document in of_texts() {
        collect(&document, &is_ours, &mut found);
    }
    let objects: Vec<Value> =
        found.iter().map(|object| serde_json::from_str(object).expect("JSON")).collect();
    let kept = keeps(cluster, &ours, &objects);
    if roots.find_folder("gatekeeper-library").is_none() {
        eprintln!("skipped in part: upstream's own files are not here");
        return;
    }
    for (kind, least) in [("ModRule", 400), ("ConstraintTemplate", 200), ("Assign", 130)] {
        assert!(kept[kind] >= least, "only {} of {kind}", kept[kind]);
    }
}

/// Parts that look like YAML in the texts that users of the originals have read.
fn of_texts() -> Vec<Value> {
    let Ok(folder) = fs::read_dir(corpus::repository().join("../shared/seeds")) else {
        eprintln!("skipped in part: the originals' own documents are not here");
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in folder {
        let text = fs::read_to_string(entry.expect("entry").path()).expect("read");
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, it)| it.starts_with("apiVersion:")) {
            let is_part = |line: &&&str| {
                let word = line.split(':').next().unwrap_or_default();
                line.starts_with([' ', '#'])
                    || line.is_empty()
                    || (line.contains(':') && word.chars().all(char::is_alphabetic))
            };
            let part: Vec<&str> = lines[at..].iter().take_while(is_part).copied().collect();
            if let Ok(documents) = yaml::load(&part.join("\n")) {
                found.extend(documents.iter().map(|it| plain(&it.value)));
            }
        }
    }
    found
}

/// Constraints have CRDs of their own, which come of the templates.
#[test]
fn constraints_of_the_library_are_kept_as_they_are() {
    let Some((cluster, _)) = installed() else { return };
    let Some(folder) = Roots::discover().find_folder("gatekeeper-library/library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    let (mut templates, mut constraints) = (String::new(), String::new());
    modgate_e2e::manifests(&folder, "template", ".yaml", &mut templates);
    modgate_e2e::manifests(&folder, "constraint", ".yaml", &mut constraints);
    let templates = yaml::load(&templates).expect("YAML");
    let definitions: BTreeMap<String, Value> = templates
        .iter()
        .map(|template| {
            let schema = ConstraintSchema::of_template(&template.value).expect("a schema");
            let definition = plain(&schema.crd());
            (text(&definition, "/metadata/name").to_owned(), definition)
        })
        .collect();
    succeeds(cluster, "apply --server-side -f -", &yaml_of(definitions.values()));
    wait_for_kinds(cluster);
    let definitions: Vec<Value> = definitions.into_values().collect();
    let constraints = documents(&constraints);
    let kept = keeps(cluster, &kinds(&definitions), &constraints);
    assert_eq!(kept.values().sum::<usize>(), constraints.len());
    assert_eq!(kept.len(), definitions.len());
    assert!(kept.len() > 40, "{}", kept.len());
}

async fn client(cluster: &Cluster) -> Client {
    let file = Kubeconfig::read_from(cluster.kubeconfig()).expect("kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await.expect("configuration");
    Client::try_from(config).expect("client")
}

/// The object as the API server would store it, or why it would not. Its name and namespace, which
/// other tests of the corpora check, are made up.
async fn create(
    client: Client,
    kind: &Kind,
    version: String,
    object: &Value,
) -> Result<Value, String> {
    let mut object = object.clone();
    let metadata = &object["metadata"];
    let kept = ["labels", "annotations"].into_iter().filter_map(|key| {
        metadata.get(key).filter(|it| it.is_object()).map(|it| (key.to_owned(), it.clone()))
    });
    let mut metadata: serde_json::Map<_, _> = kept.collect();
    metadata.insert("name".to_owned(), "of-a-corpus".into());
    object["metadata"] = Value::Object(metadata);
    let namespace = if kind.namespaced { "namespaces/default/" } else { "" };
    let Kind { group, plural, .. } = kind;
    let url =
        format!("/apis/{group}/{version}/{namespace}{plural}?dryRun=All&fieldValidation=Strict");
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let request = Request::post(&url)
            .header("Content-Type", "application/json")
            .body(object.to_string().into_bytes())
            .expect("request");
        match client.request::<Value>(request).await {
            Ok(kept) => return Ok(kept),
            // A CRD is established a moment before its kind is served.
            Err(Error::Api(status)) if status.code == 404 && Instant::now() < deadline => {
                sleep(Duration::from_millis(50)).await;
            }
            Err(Error::Api(status)) => return Err(status.message.clone()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Scenario 77: for a namespace with the ignore label, the webhook of the manifest is not called; the
/// audit reports what is in it.
#[test]
fn ignored_namespaces_are_audited() {
    let Some((cluster, _)) = installed() else { return };
    let template = "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
                    metadata: {name: nothing}\nspec:\n  crd: {spec: {names: {kind: Nothing}}}\n  \
                    targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n      \
                    package nothing\n      violation[{\"msg\": \"never\"}] { true }\n";
    succeeds(cluster, "create -f -", template);
    let server = modgate_e2e::Running::configured(cluster, |config| {
        config.audit.interval = Duration::from_secs(1);
    });
    let constraint = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Nothing\n\
                      metadata: {name: never}\nspec: {match: {namespaces: [watched, ignored], kinds: \
                      [{apiGroups: [''], kinds: [ConfigMap]}]}}\n";
    let is_taken = || kubectl(cluster, "apply -f -", constraint).success;
    modgate_e2e::eventually("there is a constraint", is_taken);
    // As installed, but for who answers and for the objects of other tests.
    let of_chart = documents(&manifest().webhooks);
    let of_chart = of_chart.iter().flat_map(|it| it["webhooks"].as_array().expect("webhooks"));
    let mut webhook =
        of_chart.clone().find(|it| it["name"] == "validation.gatekeeper.sh").expect("ours").clone();
    let answers = plain(&yaml::value(&server.webhook("ignoring", "/v1/admit")).expect("YAML"));
    webhook["clientConfig"] = answers["webhooks"][0]["clientConfig"].clone();
    webhook["rules"] = answers["webhooks"][0]["rules"].clone();
    webhook["failurePolicy"] = "Fail".into();
    let mut configuration = answers;
    configuration["webhooks"] = json!([webhook]);
    for (name, labels) in [("watched", ""), ("ignored", "admission.gatekeeper.sh/ignore: 'yes'")] {
        let namespace = format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{labels}}}}}\n"
        );
        succeeds(cluster, "create -f -", &namespace);
    }
    succeeds(cluster, "create -f -", &configuration.to_string());
    let create = |namespace: &str, more: &str| {
        kubectl(cluster, &format!("create configmap violating -n {namespace} {more}"), "")
    };
    modgate_e2e::eventually("the webhook receives a request", || {
        create("watched", "--dry-run=server").stderr.contains("[never] never")
    });
    assert!(create("ignored", "").success);
    let found = "get nothing never -o jsonpath={.status.violations[*].namespace}";
    modgate_e2e::eventually("the audit reports it", || {
        kubectl(cluster, found, "").stdout == "ignored"
    });
    succeeds(cluster, "delete validatingwebhookconfiguration ignoring", "");
}
