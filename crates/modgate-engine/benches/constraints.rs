//! One review of a Pod against the public library: its 49 templates and the 75 constraints of its
//! suites, all of them live.
//!
//! The library is not part of this repository; without it there is nothing to measure.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench may panic and say why it does nothing"
)]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use modgate_engine::{
    Change, Decision, EngineConfig, Evaluation, Host, HostError, Lookup, NoopObserver, OnError,
    PolicySource, Review, Snapshot, Stages,
    api::constraints::EnforcementPoint,
    constraint::{self, Admission, Arena, Externals, Inventory, review_each},
    cost::Meter,
};
use modgate_value::{Budget, Clock, Limits, Value, yaml};

fn main() {
    if library().is_some() {
        divan::main();
    } else {
        println!("the public library is not here; set MODGATE_CONFORMANCE");
    }
}

fn decide(
    snapshot: &Snapshot,
    review: &Review,
    inventory: &Inventory,
    arena: &mut Arena,
) -> Decision {
    let mut evaluation = Evaluation::new(&Cluster, inventory, arena);
    snapshot.decide(review, Stages::CONSTRAINTS, &mut evaluation, &mut NoopObserver)
}

/// The 75 constraints, and beside them some for other kinds.
#[divan::bench(args = [0, 5000])]
fn admit(bencher: divan::Bencher<'_, '_>, others: usize) {
    run(bencher, others, &EngineConfig::default());
}

/// Each of the 75 four times, each time under other parameters.
#[divan::bench]
fn admit_other_parameters(bencher: divan::Bencher<'_, '_>) {
    let snapshot = with_other_parameters();
    let (review, inventory, mut arena) = (review(), Inventory::default(), Arena::new());
    bencher.bench_local(|| decide(&snapshot, &review, &inventory, &mut arena));
}

/// 50 Pods against each of the 75 four times: together, as audits evaluate them, and each by itself.
#[divan::bench(args = [true, false])]
fn audit(bencher: divan::Bencher<'_, '_>, together: bool) {
    let snapshot = with_other_parameters();
    let pods: Vec<Admission> = (0..50).map(pod).collect();
    let mut arena = Arena::new();
    bencher.bench_local(|| violations_of(&pods, &snapshot, together, &mut arena));
}

#[inline(never)]
fn violations_of(
    pods: &[Admission],
    snapshot: &Snapshot,
    together: bool,
    arena: &mut Arena,
) -> usize {
    let (inventory, budget) = (Inventory::default(), Budget::new(Limits::UNLIMITED, &Monotonic));
    let evaluation = constraint::Evaluation {
        point: EnforcementPoint::Audit,
        externals: Externals { inventory: &inventory, host: Cluster.policies() },
        budget: &budget,
        limits: snapshot.config().constraint_limits,
        meter: Meter::default(),
    };
    let mut count = 0;
    for pod in pods {
        let all = snapshot.constraints().candidates(pod);
        let size = if together { all.len().max(1) } else { 1 };
        for part in all.chunks(size) {
            let part = part.iter().copied();
            review_each(part, pod, evaluation, arena, &|| {}, |it| count += it.violations.len());
        }
    }
    count
}

/// The Pod of the review under another name.
fn pod(number: usize) -> Admission {
    let mut object = review().object().expect("an object").as_object().expect("one").clone();
    let mut metadata = object.get("metadata").and_then(Value::as_object).expect("one").clone();
    metadata.insert("name", format!("web-{number}").into());
    object.insert("metadata", metadata.into());
    Admission::of_object(object.into(), None)
}

/// With the Rego of the templates that have both.
#[divan::bench]
fn admit_by_rego(bencher: divan::Bencher<'_, '_>) {
    let mut config = EngineConfig::default();
    config.templates.cel = false;
    run(bencher, 0, &config);
}

/// The oracle, which looks at every constraint.
#[divan::bench(args = [0, 5000])]
fn admit_scanning(bencher: divan::Bencher<'_, '_>, others: usize) {
    run(bencher, others, &EngineConfig { lookup: Lookup::Scan, ..EngineConfig::default() });
}

/// The cost of the request without any policy.
#[divan::bench]
fn admit_without_policies(bencher: divan::Bencher<'_, '_>) {
    let snapshot = Snapshot::new(EngineConfig::default());
    let (review, inventory, mut arena) = (review(), Inventory::default(), Arena::new());
    bencher.bench_local(|| decide(&snapshot, &review, &inventory, &mut arena));
}

/// Everything from YAML values to a snapshot.
#[divan::bench(sample_count = 10)]
fn load(bencher: divan::Bencher<'_, '_>) {
    let policies = policies();
    bencher.bench(|| snapshot(&policies, 0, &EngineConfig::default()));
}

fn run(bencher: divan::Bencher<'_, '_>, others: usize, config: &EngineConfig) {
    let snapshot = snapshot(&policies(), others, config);
    let (review, inventory, mut arena) = (review(), Inventory::default(), Arena::new());
    // A Pod that meets most of the library's demands, as most do, and fails some.
    let found = decide(&snapshot, &review, &inventory, &mut arena).violations;
    assert!((10..60).contains(&found.len()), "{} violations", found.len());
    bencher.bench_local(|| decide(&snapshot, &review, &inventory, &mut arena));
}

fn library() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = env::var_os("MODGATE_CONFORMANCE")
        .map_or_else(|| root.join("../shared/conformance"), PathBuf::from);
    let library = dir.join("gatekeeper-library/library");
    library.is_dir().then_some(library)
}

/// Templates, and one constraint for each test of a suite.
fn policies() -> Vec<Value> {
    let library = library().expect("the library");
    let mut templates = BTreeMap::new();
    let mut constraints = Vec::new();
    for group in ["general", "pod-security-policy"] {
        let folders = fs::read_dir(library.join(group)).expect("a folder");
        let mut folders: Vec<PathBuf> =
            folders.map(|entry| entry.expect("an entry").path()).collect();
        folders.sort();
        for folder in folders.iter().filter(|folder| folder.join("suite.yaml").is_file()) {
            let suite = document(&folder.join("suite.yaml"));
            for test in suite.get("tests").and_then(Value::as_array).into_iter().flatten() {
                let read = |key: &str| {
                    let file = test.get(key).and_then(Value::as_str).expect("a file");
                    (folder.join(file), document(&folder.join(file)))
                };
                let (path, template) = read("template");
                templates.insert(path, template);
                let (_, constraint) = read("constraint");
                constraints.push(renamed(&constraint, constraints.len()));
            }
        }
    }
    assert_eq!((templates.len(), constraints.len()), (49, 75));
    templates.into_values().chain(constraints).collect()
}

/// Each of the 75 four times, each time under other parameters.
fn with_other_parameters() -> Snapshot {
    let mut templates = policies();
    let constraints = templates.split_off(49);
    let mut snapshot = snapshot(&templates, 0, &EngineConfig::default());
    // 75 numbers for each copy: constraints of one kind may have the same name.
    for number in 75..375 {
        let (Some(constraint), copy) = (constraints.get(number % 75), number / 75 - 1) else {
            continue;
        };
        let insert = |constraint: Value| {
            let changes = vec![Change::Upsert(PolicySource::of_object(constraint))];
            snapshot.apply(changes, OnError::Unload)
        };
        let mut update = insert(other_parameters(constraint, number, copy));
        if update.has_errors() {
            // A parameter of which the template allows no other value.
            update = insert(renamed(constraint, number));
        }
        snapshot = update.snapshot;
    }
    assert_eq!(snapshot.constraints().constraints().count(), 300);
    snapshot
}

/// A constraint of another name, whose parameters differ from those of the first copy in their first
/// text or number, if they have one.
fn other_parameters(constraint: &Value, number: usize, copy: usize) -> Value {
    let mut constraint = renamed(constraint, number);
    if copy > 0
        && let Value::Object(members) = &mut constraint
        && let Some(Value::Object(spec)) = members.get_mut("spec")
        && let Some(parameters) = spec.get_mut("parameters")
    {
        change_first(parameters, copy);
    }
    constraint
}

/// Whether there was anything to change.
fn change_first(value: &mut Value, copy: usize) -> bool {
    match value {
        Value::String(text) => {
            *value = format!("{text}{copy}").as_str().into();
            true
        }
        Value::Number(number) => {
            let number = number.as_i64().unwrap_or(0) + i64::try_from(copy).unwrap_or(1);
            *value = number.into();
            true
        }
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().cloned().collect();
            let changed = items.iter_mut().any(|item| change_first(item, copy));
            *value = items.into_iter().collect();
            changed
        }
        Value::Object(members) => {
            let mut all: Vec<_> = members.iter().cloned().collect();
            let changed = all.iter_mut().any(|(_, member)| change_first(member, copy));
            *value = all.into_iter().collect();
            changed
        }
        Value::Null | Value::Bool(_) => false,
    }
}

/// `<name>-<number>`: some suites use one name for several constraints.
fn renamed(constraint: &Value, number: usize) -> Value {
    let mut members = constraint.as_object().expect("an object").clone();
    let mut metadata =
        constraint.get("metadata").and_then(Value::as_object).expect("metadata").clone();
    let name = metadata.get("name").and_then(Value::as_str).expect("a name");
    // Of names that were numbered before, so that they do not become too long.
    let name = format!("{}-{number}", name.get(..40).unwrap_or(name));
    metadata.insert("name", name.as_str().into());
    members.insert("metadata", Value::from(metadata));
    members.into()
}

fn snapshot(policies: &[Value], others: usize, config: &EngineConfig) -> Snapshot {
    let mut changes: Vec<Change> = policies
        .iter()
        .map(|policy| Change::Upsert(PolicySource::of_object(policy.clone())))
        .collect();
    changes.extend((0..others).map(|number| {
        let constraint = format!(
            "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: K8sRequiredLabels, metadata: \
             {{name: other-{number}}}, spec: {{match: {{kinds: [{{apiGroups: [example.com], kinds: \
             [Kind{}]}}]}}, parameters: {{labels: [{{key: owner}}]}}}}}}",
            number % 100
        );
        Change::Upsert(PolicySource::of_object(yaml::value(&constraint).expect("YAML")))
    }));
    let update = Snapshot::new(config.clone()).apply(changes, OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    assert_eq!(update.snapshot.constraints().constraints().count(), policies.len() - 49 + others);
    update.snapshot
}

fn review() -> Review {
    let request = document_of(
        r#"
uid: 705ab4f5-6393-11e8-b7cc-42010a800002
kind: {group: "", version: v1, kind: Pod}
resource: {group: "", version: v1, resource: pods}
requestKind: {group: "", version: v1, kind: Pod}
requestResource: {group: "", version: v1, resource: pods}
name: web-0
namespace: default
operation: CREATE
userInfo: {username: jane, groups: [developers, "system:authenticated"]}
dryRun: false
object:
  apiVersion: v1
  kind: Pod
  metadata:
    name: web-0
    namespace: default
    labels: {app: web, owner: team.agilebank.demo}
    annotations: {note: bench}
  spec:
    serviceAccountName: web
    automountServiceAccountToken: false
    securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
    initContainers:
    - name: prepare
      image: registry.example.com/team/prepare:1.2.3
      args: [--once]
      resources: {limits: {cpu: 100m, memory: 64Mi}, requests: {cpu: 50m, memory: 32Mi}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    containers:
    - name: web
      image: registry.example.com/team/web:1.14.2
      ports: [{containerPort: 8080, protocol: TCP}, {containerPort: 9090, protocol: TCP}]
      env: [{name: MODE, value: production}, {name: REGION, value: north}, {name: LEVEL, value: info}]
      livenessProbe: {httpGet: {path: /healthz, port: 8080}}
      readinessProbe: {httpGet: {path: /readyz, port: 8080}}
      resources: {limits: {cpu: 500m, memory: 512Mi}, requests: {cpu: 250m, memory: 256Mi}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: data, mountPath: /data}, {name: config, mountPath: /config, readOnly: true}]
    - name: proxy
      image: registry.example.com/tools/proxy:v3
      ports: [{containerPort: 15001, protocol: TCP}]
      resources: {limits: {cpu: 200m, memory: 128Mi}, requests: {cpu: 100m, memory: 64Mi}}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    volumes: [{name: data, emptyDir: {}}, {name: config, configMap: {name: web}}]
options: {apiVersion: meta.k8s.io/v1, kind: CreateOptions}
"#,
    );
    Review::from_request(&request).expect("a request")
}

fn document(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    document_of(&text)
}

fn document_of(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

struct Cluster;

struct Monotonic;

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        START.get_or_init(std::time::Instant::now).elapsed()
    }
}

impl Host for Cluster {
    fn clock(&self) -> &dyn Clock {
        &Monotonic
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        let labels = [("kubernetes.io/metadata.name", Value::from(name))];
        let metadata = [("name", Value::from(name)), ("labels", labels.into_iter().collect())];
        Ok([("metadata", metadata.into_iter().collect::<Value>())].into_iter().collect())
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("there is no node {name}")))
    }
}
