//! Gatekeeper's own cluster scenarios (`gatekeeper/cases.json`, kind `scenario`) on a real API
//! server: what is applied in which order, and what the API server then has or says.
//!
//! The names of the scenarios that are run stand in [`SCENARIOS`]; the conformance run reads them
//! from here, and a scenario of the corpus that is not among them fails this test.

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
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_engine::api::crds;
use modgate_server::CertificateSource;
use modgate_testkit::{
    Roots,
    cluster::{Cluster, KubectlOutput},
};
use modgate_value::{Value, yaml};
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rustls::version::TLS13;

use modgate_e2e::{
    Running, eventually, kubectl,
    provider::{Authority, Dummy, Presented},
    succeeds, until,
};

/// Every scenario of the corpus.
const SCENARIOS: [&str; 9] = [
    "e2e/mutation-assignmetadata",
    "e2e/mutation-assign",
    "e2e/mutation-assignimage",
    "e2e/externaldata-validation",
    "e2e/externaldata-mutation",
    "e2e/expansion-deny-and-mutator",
    "e2e/expansion-warn-override",
    "e2e/expansion-source-generated",
    "e2e/expansion-recursive-and-cycle",
];

/// The Pod this process says it is.
const POD: &str = "modgate-0";

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| list)
}

/// One run of a scenario.
struct Stage<'c> {
    cluster: &'c Cluster,
    /// Gatekeeper's files.
    root: PathBuf,
    server: Running,
    provider: Provider,
    /// The applied objects, to be removed in the end.
    applied: Vec<String>,
}

/// The provider of the scenarios, and the runtime it runs on.
struct Provider {
    url: String,
    bundle: String,
    _dummy: Dummy,
    _runtime: tokio::runtime::Runtime,
}

impl Provider {
    fn start(engines: &Authority) -> Self {
        let runtime = modgate_server::runtime().expect("runtime");
        let authority = Authority::new("provider-ca");
        let leaf = authority.leaf("localhost", ServerAuth);
        let presented = Presented { leaf: &leaf, clients: Some(engines), version: &TLS13 };
        let dummy = runtime.block_on(Dummy::start(presented));
        Self {
            url: dummy.url("/validate"),
            bundle: STANDARD.encode(&authority.pem),
            _dummy: dummy,
            _runtime: runtime,
        }
    }
}

impl<'c> Stage<'c> {
    fn set(cluster: &'c Cluster, root: &Path, flags: &[Value]) -> Self {
        let engines = Authority::new("engine-ca");
        let folder = tempfile::tempdir().expect("folder");
        let leaf = engines.leaf_for("127.0.0.1", vec![ServerAuth, ClientAuth]);
        let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        fs::write(&cert, &leaf.cert_pem).expect("written");
        fs::write(&key, &leaf.key_pem).expect("written");
        let annotations = flags.iter().any(|it| it.as_str() == Some("--mutation-annotations"));
        assert!(flags.len() <= 1 && (flags.is_empty() || annotations), "{flags:?}");
        let server = Running::configured(cluster, |config| {
            config.certificate = CertificateSource::Files { cert, key };
            config.engine.mutators.annotations = annotations;
            config.pod = Some(POD.into());
            config.audit.interval = Duration::from_secs(1);
            // Each step is tried before it is taken, and an answer that is kept has no system error.
            config.external_data = Some(Duration::ZERO);
        });
        let stage = Self {
            cluster,
            root: root.to_owned(),
            server,
            provider: Provider::start(&engines),
            applied: Vec::new(),
        };
        stage.call_webhooks(&engines);
        stage
    }

    fn call_webhooks(&self, engines: &Authority) {
        let ca = STANDARD.encode(&engines.pem);
        let configuration = |kind: &str, name: &str, path: &str| {
            format!(
                "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}\n\
                 metadata: {{name: gatekeeper-{name}-webhook-configuration}}\nwebhooks:\n\
                 - name: {name}.gatekeeper.sh\n  \
                 clientConfig: {{url: 'https://{}{path}', caBundle: {ca}}}\n  \
                 rules: [{{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: \
                 [CREATE, UPDATE]}}]\n  matchPolicy: Exact\n  failurePolicy: Fail\n  \
                 namespaceSelector: {{matchExpressions: [{{key: kubernetes.io/metadata.name, \
                 operator: NotIn, values: [gatekeeper-system, kube-system]}}]}}\n  \
                 sideEffects: None\n  admissionReviewVersions: [v1]\n  timeoutSeconds: 10\n",
                self.server.address
            )
        };
        let both = configuration("ValidatingWebhookConfiguration", "validation", "/v1/admit")
            + &configuration("MutatingWebhookConfiguration", "mutation", "/v1/mutate");
        succeeds(self.cluster, "apply -f -", &both);
        let probe = "create configmap probe -n default --dry-run=server";
        eventually("the webhooks answer", || kubectl(self.cluster, probe, "").success);
    }

    /// The text of a step: a file of the corpus, or an object of its own.
    fn text(&self, step: &Value, key: &str) -> Option<String> {
        let what = step.get(key)?;
        let Some(file) = what.as_str() else { return Some(what.to_json()) };
        let text = fs::read_to_string(self.root.join(file)).expect(file);
        if !file.ends_with("manifest/provider.yaml") {
            return Some(text);
        }
        // The provider of these tests is elsewhere, and trusted for its own certificate.
        let mut provider = yaml::value(&text).expect("YAML").as_object().cloned().expect("object");
        let spec: Value = [
            ("url", Value::from(self.provider.url.as_str())),
            ("timeout", 5.into()),
            ("caBundle", self.provider.bundle.as_str().into()),
        ]
        .into_iter()
        .collect();
        provider.insert("spec", spec);
        Some(Value::from(provider).to_json())
    }

    fn step(&mut self, step: &Value) {
        let expect = step.get("expect");
        if let Some(text) = self.text(step, "delete") {
            succeeds(self.cluster, "delete --ignore-not-found -f -", &text);
            return;
        }
        if step.get("audit").is_some() {
            self.audit(expect.expect("an audit expects something"));
            return;
        }
        let user = text(step, &["as"]);
        // An administrator by certificate has a name of his own.
        let user = match user {
            "" => String::new(),
            user => format!(" --as={user} --as-group=system:masters"),
        };
        let text = self.text(step, "apply").or_else(|| self.text(step, "create")).expect("a step");
        let verb = if step.get("create").is_some() { "create" } else { "apply" };
        let Some(expect) = expect else {
            let apply = format!("{verb} -f -{user}");
            eventually("it is taken", || kubectl(self.cluster, &apply, &text).success);
            self.applied.push(text);
            return;
        };
        // What was applied before may still be on its way into the server.
        let try_it = format!("{verb} -f - -o json --dry-run=server{user}");
        until("the dry run gives the expected answer", || {
            self.check(expect, &kubectl(self.cluster, &try_it, &text))
                .map_err(|why| format!("{}: {why}", step.to_json()))
        });
        let outcome = kubectl(self.cluster, &format!("{verb} -f - -o json{user}"), &text);
        if let Err(why) = self.check(expect, &outcome) {
            panic!("{}: {why}", step.to_json());
        }
        if outcome.success {
            self.applied.push(text.clone());
        }
        self.status(expect, &text);
    }

    /// Whether kubectl said what is expected.
    fn check(&self, expect: &Value, outcome: &KubectlOutput) -> Result<(), String> {
        let allowed = expect.get("allowed").and_then(Value::as_bool).expect("`allowed`");
        if allowed != outcome.success {
            return Err(format!("allowed: {}: {}", outcome.success, outcome.stderr));
        }
        for part in list(expect, "messageContains") {
            let part = part.as_str().expect("text");
            if !outcome.stderr.contains(part) {
                return Err(format!("{part:?} is not in {}", outcome.stderr));
            }
        }
        let Some(fields) = expect.get("object").and_then(Value::as_object) else { return Ok(()) };
        let object = Value::from_json(outcome.stdout.as_bytes()).map_err(|it| it.to_string())?;
        for (path, expected) in fields.iter() {
            let got = at(&object, path);
            let same = match expected.as_str() {
                Some("<uuid>") => {
                    got.and_then(Value::as_str).is_some_and(|it| it.split('-').count() == 5)
                }
                // The API server leaves an empty list out.
                _ if expected.as_array().is_some_and(|it| it.is_empty()) => {
                    got.is_none_or(|it| it.as_array().is_some_and(|it| it.is_empty()))
                }
                _ => got == Some(expected),
            };
            if !same {
                return Err(format!("{path}: {:?}", got.map(Value::to_json)));
            }
        }
        Ok(())
    }

    /// Waits until the statuses of the applied objects, and of others that are named, are as
    /// expected.
    fn status(&self, expect: &Value, text: &str) {
        if expect.get("statusByPod").is_some() {
            eventually("there is a status", || {
                let object = self.get("-f -", text);
                object
                    .path(&["status", "byPod"])
                    .and_then(Value::as_array)
                    .is_some_and(|it| it.iter().any(|entry| common_id(entry) == POD))
            });
        }
        let parts = list(expect, "statusByPodErrorContains");
        let others = list(expect, "alsoOn").iter().map(|other| other.as_str().expect("text"));
        let everywhere = std::iter::once(("-f -", text)).chain(others.map(|other| (other, "")));
        for (what, input) in everywhere.filter(|_| !parts.is_empty()) {
            until("the status has these parts", || {
                let object = self.get(what, input);
                let pods = object.path(&["status", "byPod"]).map(Value::to_json);
                let pods = pods.unwrap_or_default();
                let has_all = parts.iter().all(|part| pods.contains(part.as_str().expect("text")));
                if has_all { Ok(()) } else { Err(format!("{what}: status.byPod is {pods}")) }
            });
        }
    }

    fn get(&self, what: &str, input: &str) -> Value {
        let json = succeeds(self.cluster, &format!("get {what} -o json"), input);
        let got = Value::from_json(json.as_bytes()).expect("JSON");
        // What is asked for by a file comes as a list.
        let first = got.get("items").and_then(Value::as_array).and_then(|all| all.first());
        first.cloned().unwrap_or(got)
    }

    /// Waits for an audit that found what is expected.
    fn audit(&self, expect: &Value) {
        // Made by a controller that a test cluster does not have.
        let deployment = self.get("deployment nginx-deployment -n loadbalancers", "");
        let spec = deployment.get("spec").expect("spec");
        let replica_set: Value = [
            ("apiVersion", Value::from("apps/v1")),
            ("kind", "ReplicaSet".into()),
            (
                "metadata",
                [
                    ("name", Value::from("nginx-deployment-1")),
                    ("namespace", "loadbalancers".into()),
                ]
                .into_iter()
                .collect(),
            ),
            (
                "spec",
                ["replicas", "selector", "template"]
                    .into_iter()
                    .filter_map(|key| Some((key, spec.get(key)?.clone())))
                    .collect(),
            ),
        ]
        .into_iter()
        .collect();
        succeeds(self.cluster, "apply -f -", &replica_set.to_json());
        let (kind, name) = text(expect, &["constraint"]).split_once('/').expect("kind/name");
        let total = expect.get("totalViolations").expect("a number");
        let part = text(expect, &["messagesContain"]);
        until("the audit reports the violations", || {
            let status = self.get(&format!("{kind} {name}"), "").get("status").cloned();
            let status = status.unwrap_or_default();
            let violations = list(&status, "violations");
            let have_text = violations.iter().all(|it| text(it, &["message"]).contains(part));
            let is_complete =
                status.get("totalViolations") == Some(total) && !violations.is_empty();
            if is_complete && have_text { Ok(()) } else { Err(status.to_json()) }
        });
        succeeds(self.cluster, "delete replicaset nginx-deployment-1 -n loadbalancers", "");
    }

    /// Leaves nothing to the next scenario.
    fn clear(self) {
        for applied in self.applied.iter().rev() {
            succeeds(self.cluster, "delete --ignore-not-found -f -", applied);
        }
        let configurations = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
        succeeds(self.cluster, &format!("delete {configurations} --all"), "");
        self.server.stop();
    }
}

fn common_id(entry: &Value) -> &str {
    text(entry, &["id"])
}

/// A field by its path: `spec.containers[0].image`, `metadata.annotations."a.b/c"`.
fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let mut value = object;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        (name, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("a closing quote"),
            None => rest.split_at(rest.find(['.', '[', '"']).unwrap_or(rest.len())),
        };
        if !name.is_empty() {
            value = value.get(name)?;
        }
        if let Some(index) = rest.strip_prefix('[') {
            let (index, after) = index.split_once(']').expect("a closing bracket");
            value = value.as_array()?.get(index.parse::<usize>().expect("an index"))?;
            rest = after;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    Some(value)
}

#[test]
fn fields_of_objects() {
    let object = yaml::value("{a: {b: [{c: 1}], 'd.e/f': 2}}").expect("YAML");
    for (path, expected) in
        [("a.b[0].c", Some(1)), ("a.\"d.e/f\"", Some(2)), ("a.b[1].c", None), ("a.x", None)]
    {
        assert_eq!(at(&object, path).and_then(Value::as_i64), expected, "{path}");
    }
}

#[test]
fn scenarios() {
    let Some(tests) = Roots::discover().find_folder("gatekeeper/test") else {
        eprintln!("skipped: no corpus has `gatekeeper/test`");
        return;
    };
    let Some(cluster) = Cluster::shared() else { return };
    let root = tests.parent().expect("a parent");
    let cases = fs::read(root.join("cases.json")).expect("cases");
    let cases = Value::from_json(&cases).expect("JSON");
    let scenarios: Vec<&Value> =
        list(&cases, "cases").iter().filter(|it| text(it, &["kind"]) == "scenario").collect();
    let known: BTreeSet<&str> = SCENARIOS.into();
    let there: BTreeSet<&str> = scenarios.iter().map(|it| text(it, &["id"])).collect();
    assert_eq!(there, known);

    let definitions: String =
        crds::all().expect("CRDs").iter().map(|it| format!("---\n{}\n", it.to_json())).collect();
    succeeds(cluster, "apply --server-side -f -", &definitions);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    let pod = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: gatekeeper-system}}\n\
         ---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: loadbalancers}}\n\
         ---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {POD}, namespace: gatekeeper-system}}\n\
         spec: {{containers: [{{name: modgate, image: modgate}}]}}\n"
    );
    succeeds(cluster, "apply -f -", &pod);
    for scenario in scenarios {
        let started = Instant::now();
        let mut stage = Stage::set(cluster, root, list(scenario, "flags"));
        // The provider is there before its mutators are; the scenario does not say so again.
        if text(scenario, &["id"]) == "e2e/externaldata-mutation" {
            let provider = "test/externaldata/dummy-provider/manifest/provider.yaml";
            let step: Value = [("apply", Value::from(provider))].into_iter().collect();
            stage.step(&step);
        }
        let steps = list(scenario, "steps");
        steps.iter().for_each(|step| stage.step(step));
        stage.clear();
        let (id, count) = (text(scenario, &["id"]), steps.len());
        eprintln!("{id}: {count} steps in {:.1?}", started.elapsed());
    }
}
