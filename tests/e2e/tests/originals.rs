//! The originals' own programs decide beside modgate, which sends them every request as a shadow: what
//! they decide otherwise must be a row of `docs/compatibility.md`.
//!
//! `MODGATE_GATEKEEPER` and `MODGATE_KUBEMOD` name the programs; without them the tests say so and are skipped.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use modgate_e2e::originals::{
    Compared, Library, Served, ask, compare, documents, is_plausible, kubectl, namespaces,
    numbered, prepare, program,
};
use modgate_engine::Review;
use modgate_prove::{generate::Generator, value};
use modgate_testkit::{
    client,
    cluster::{Cluster, Options},
};
use modgate_value::{Value, yaml};

/// Another number of reviews, for a short run.
const COUNT: &str = "MODGATE_REVIEWS";
/// Reviews that are sent at once, and those that may wait for their second decision meanwhile: the shadow drops what
/// waits for longer than some seconds.
const AT_ONCE: usize = 16;
const WAITING: usize = 32;

/// The program under test: the one of this build, or an optimised one that `MODGATE_BINARY` names, for many reviews.
fn modgate() -> PathBuf {
    let named = env::var_os("MODGATE_BINARY").filter(|it| !it.is_empty());
    named.map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_modgate-e2e")), PathBuf::from)
}

fn count() -> usize {
    env::var(COUNT).ok().and_then(|number| number.parse().ok()).unwrap_or(20_000)
}

/// The samples of the library; then in turn samples that are changed at random, and invented objects with texts
/// of the policies. Some create an object, some update it, and some delete it.
fn reviews(samples: Vec<Value>, policies: &[&Value]) -> Vec<Value> {
    let mut generator = Generator::new(17, policies.iter().copied());
    let texts: Vec<Value> = generator.texts().cloned().map(Value::from).collect();
    let mut random = Random(17);
    let mut all = samples;
    let before = all.len();
    all.retain(is_plausible);
    eprintln!(
        "{} samples; {} others are none that an API server sends",
        all.len(),
        before - all.len()
    );
    all.truncate(count());
    let known = all.len();
    let mut missing = 0;
    while all.len() < count() {
        let number = all.len();
        let sample = all.get(random.below(known)).filter(|_| number.is_multiple_of(2)).cloned();
        let sample = sample.as_ref().and_then(|it| it.get("request"));
        let made = match sample {
            Some(request) => numbered(&changed(request, &texts, &mut random), number),
            None => numbered(generator.request().sent(), number),
        };
        // The random numbers go on, so that another one is made instead.
        if is_plausible(&made) {
            all.push(made);
        } else {
            missing += 1;
            assert!(
                missing < 10_000,
                "the generator makes nothing that an API server sends: {made}"
            );
        }
    }
    all
}

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits") % bound.max(1)
    }
}

/// A request with another operation and one to four changes of its object. A change removes a value or puts another one
/// of its type in its place; what names the object stays, since the request names it, too.
fn changed(request: &Value, texts: &[Value], random: &mut Random) -> Value {
    let of = |name: &str| request.get(name).filter(|it| !it.is_null());
    let Some(sample) = of("object").or_else(|| of("oldObject")) else { return request.clone() };
    let mut object = sample.clone();
    for _ in 0..=random.below(4) {
        let mut paths = value::paths(&object);
        paths.retain(|path| !FIXED.contains(&value::written(path).as_str()));
        let path = paths.get(random.below(paths.len())).cloned().unwrap_or_default();
        let other = match value::at(&object, &path) {
            Some(Value::String(_)) => texts.get(random.below(texts.len())).cloned(),
            Some(Value::Number(_)) => {
                NUMBERS.get(random.below(NUMBERS.len())).copied().map(Value::from)
            }
            Some(Value::Bool(is_set)) => Some(Value::from(!is_set)),
            _ => None,
        };
        object = match other {
            Some(other) if random.below(4) > 0 => value::replaced(&object, &path, other),
            _ => value::removed(&object, &path),
        };
    }
    let (operation, new, old) = match random.below(10) {
        0 | 1 => ("DELETE", Value::Null, object),
        2..=4 => ("UPDATE", object, sample.clone()),
        _ => ("CREATE", object, Value::Null),
    };
    let members = [("operation", Value::from(operation)), ("object", new), ("oldObject", old)];
    members.into_iter().fold(request.clone(), |request, (name, with)| {
        value::replaced(&request, &[name.into()], with)
    })
}

/// Numbers in the place of others.
const NUMBERS: [i64; 6] = [0, 1, 2, 80, 1000, 65_535];
/// The members that no change touches.
const FIXED: [&str; 5] = ["apiVersion", "kind", "metadata", "metadata.name", "metadata.namespace"];

/// The numbers of reviews that were decided alike and otherwise.
#[derive(Debug, Default)]
struct Outcome {
    same: usize,
    declared: BTreeMap<&'static str, usize>,
    different: Vec<String>,
}

/// Sends the reviews to modgate, whose shadow is the original; then asks the original itself about each
/// that the record says differs.
fn beside(
    original: &Served,
    cluster: &Cluster,
    library: Option<&Library>,
    (operation, route, version): (&str, &str, &str),
    reviews: &[Value],
) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    let url = format!("https://127.0.0.1:{}", original.address.port());
    let (authority, recorded) = (original.folder().join("tls.crt"), record.display().to_string());
    let authority = authority.display().to_string();
    let flags = ["--shadow-url", &url, "--shadow-ca", &authority, "--shadow-timeout", "30s"];
    let more = ["--record", &recorded, "--record-sample", "0"];
    let flags: Vec<&str> = flags.into_iter().chain(more).collect();
    let mut served = Served::modgate(&modgate(), cluster, &[operation], &flags).expect("modgate");
    if let Some(library) = library {
        library.loaded(&mut served).expect("the library");
    }
    let decided = |served: &Served, label: &str| {
        let metric = |name| served.metric(name, label).expect("metrics");
        metric("modgate_shadow_requests_total") + metric("modgate_shadow_dropped_total")
    };
    eprintln!("both are ready");
    let mut connection = served.connect().expect("a connection");
    let mut sent = 0_usize;
    for some in reviews.chunks(AT_ONCE) {
        for review in some {
            ask(&mut connection, route, review).expect("an answer");
            sent += 1;
        }
        let wanted = if sent == reviews.len() { sent } else { sent.saturating_sub(WAITING) };
        let wanted = u32::try_from(wanted).map(f64::from).expect("a number");
        served
            .until("all are decided again", |served| Ok(decided(served, "") >= wanted - 0.5))
            .unwrap_or_else(|error| {
                let metrics = client::get(served.metrics, "/metrics").expect("metrics").body;
                let of_shadow = metrics.lines().filter(|line| line.contains("shadow"));
                panic!("{error}: {sent} sent, {:#?}", of_shadow.collect::<Vec<_>>())
            });
        if sent.is_multiple_of(AT_ONCE * 125) {
            eprintln!("{sent} of {} reviews", reviews.len());
        }
    }
    let of = |name: &str, label: &str| served.metric(name, label).expect("metrics");
    let dropped = of("modgate_shadow_dropped_total", "");
    let failed = of("modgate_shadow_requests_total", "result=\"failed\"");
    assert!(dropped < 0.5 && failed < 0.5, "{dropped} dropped, {failed} failed");
    let differing = of("modgate_shadow_requests_total", "result=\"differs\"");
    // The record is written within half a second; it is whole when as many lines are there.
    let mut lines = Vec::new();
    served
        .until("the record is written", |_| {
            lines = differences(&record);
            Ok(u32::try_from(lines.len()).map(f64::from)? >= differing - 0.5)
        })
        .expect("a record");
    let mut outcome = Outcome { same: reviews.len() - lines.len(), ..Outcome::default() };
    let mut connection = original.connect().expect("a connection");
    for line in &lines {
        let request = line.get("request").cloned().unwrap_or_default();
        let review = [
            ("apiVersion", Value::from(version)),
            ("kind", "AdmissionReview".into()),
            ("request", request.clone()),
        ];
        let review: Value = review.into_iter().collect();
        let ours = line.get("response").cloned().unwrap_or_default();
        let shadow = line.path(&["record", "shadow"]).cloned().unwrap_or_default();
        if let Some(Compared::Declared(id)) =
            denied(&shadow, &ours).map(|it| compare(&review, &it, &ours))
        {
            *outcome.declared.entry(id).or_default() += 1;
            continue;
        }
        let is_delete = request.get("operation").and_then(Value::as_str) == Some("DELETE");
        let mut ask = || ask(&mut connection, route, &review).expect("the original answers");
        let theirs = ask();
        let mut compared = compare(&review, &theirs, &ours);
        // Whether its Rego sees the old object depends on chance, so that it answers as modgate soon.
        if is_delete && compared == Compared::Different {
            let same = (0..CHANCES).any(|_| compare(&review, &ask(), &ours) != Compared::Different);
            compared = if same { Compared::Declared("GK-Q-12") } else { compared };
        } else if is_delete && compared == Compared::Equal {
            compared = Compared::Declared("GK-Q-12");
        }
        match compared {
            Compared::Declared(id) => *outcome.declared.entry(id).or_default() += 1,
            // The shadow saw a difference; that the original answers otherwise now is one, too.
            Compared::Equal | Compared::Different => outcome.different.push(format!(
                "{request}\n  original: {theirs}\n  modgate:  {ours}\n  shadow:   {shadow}"
            )),
        }
    }
    outcome
}

/// How often the test asks the original about a deletion until it answers as modgate. It does one time in eight, as it takes
/// its two evaluators from a map, so that it misses all of these once in 10^11 deletions.
const CHANCES: usize = 200;

/// The original's denial as the record has it, if both deny and no warnings can differ.
fn denied(shadow: &Value, ours: &Value) -> Option<Value> {
    let denies = |it: &Value| it.get("allowed").and_then(Value::as_bool) == Some(false);
    let is_whole = denies(shadow) && denies(ours) && ours.get("warnings").is_none();
    let message = shadow.get("message").filter(|_| is_whole)?;
    Some(value::replaced(ours, &["status".into(), "message".into()], message.clone()))
}

/// The lines of a record that have a second decision.
fn differences(record: &Path) -> Vec<Value> {
    let Ok(entries) = fs::read_dir(record) else { return Vec::new() };
    let mut lines = Vec::new();
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        let whole = text.lines().filter_map(|line| Value::from_json(line.as_bytes()).ok());
        lines.extend(whole.filter(|line| line.path(&["record", "shadow"]).is_some()));
    }
    lines
}

fn check(name: &str, reviews: &[Value], outcome: &Outcome) {
    eprintln!(
        "beside {name}: {} reviews, {} decided alike, as declared: {:?}, otherwise: {}",
        reviews.len(),
        outcome.same,
        outcome.declared,
        outcome.different.len()
    );
    for difference in outcome.different.iter().take(12) {
        eprintln!("{difference}");
    }
    assert!(outcome.different.is_empty(), "the differences above are not declared");
}

#[test]
fn beside_gatekeeper() {
    let Some(program) = program("MODGATE_GATEKEEPER") else { return };
    let Some(library) = Library::read().expect("the library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    let Some(cluster) = Cluster::start(&Options::default()).expect("a cluster") else { return };
    let all = library.policies.templates.iter().chain(&library.policies.constraints);
    let reviews = reviews(library.samples().expect("samples"), &all.collect::<Vec<_>>());
    let names = namespaces(&reviews);
    prepare(&cluster, &names.iter().map(String::as_str).collect::<Vec<_>>()).expect("prepared");
    library.install(&cluster).expect("installed");
    let mut original =
        Served::gatekeeper(&program, &cluster, &["webhook"], &[]).expect("Gatekeeper");
    library.loaded(&mut original).expect("the library");
    let door = ("webhook", "/v1/admit", "admission.k8s.io/v1");
    let outcome = beside(&original, &cluster, Some(&library), door, &reviews);
    check("Gatekeeper", &reviews, &outcome);
}

/// Rules of both types, in both places, of several tiers. No two rules of one tier change the same member.
const RULES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: label, namespace: kubemod-system}
spec:
  type: Patch
  targetNamespaceRegex: .*
  match: [{select: $.kind, matchRegex: '^(Pod|Deployment|Service|ConfigMap)$'}]
  patch: [{op: add, path: /metadata/labels/seen, value: '{{ .Namespace }}-{{ .Target.kind | lower }}'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: pull, namespace: default}
spec:
  type: Patch
  executionTier: -1
  match: [{select: $.kind, matchValue: Pod}]
  patch:
  - op: add
    select: '$.spec.containers[? @.image =~ "^nginx"]'
    path: /spec/containers/#0/imagePullPolicy
    value: Always
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: pulled, namespace: default}
spec:
  type: Patch
  executionTier: 2
  match:
  - {select: $.kind, matchValue: Pod}
  - {select: '$.spec.containers[*].imagePullPolicy', matchValue: Always}
  patch:
  - {op: add, path: /metadata/annotations/pulled, value: '{{ len .Target.spec.containers }} "containers"'}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: latest, namespace: shop}
spec:
  type: Reject
  rejectMessage: 'use no image {{ .Target.metadata.name }}'
  match:
  - {select: '$..image', matchRegex: ':latest$'}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: privileged, namespace: kubemod-system}
spec:
  type: Reject
  targetNamespaceRegex: '^(default|prod)$'
  match:
  - {select: $.kind, matchValues: [Pod, Deployment]}
  - {select: '$..securityContext.privileged == true'}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: owned, namespace: team-a}
spec:
  type: Reject
  admissionOperations: [CREATE]
  rejectMessage: give it an owner
  match:
  - {select: '$.metadata.labels.owner', matchRegex: '.+', negate: true}
  - {select: $.kind, matchValue: Pod}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: cluster-scoped, namespace: kubemod-system}
spec:
  type: Patch
  match: [{select: $.kind, matchRegex: '^(Namespace|ClusterRole|PersistentVolume)$'}]
  patch: [{op: add, path: /metadata/annotations/scope, value: cluster}]
"#;

#[test]
fn beside_kubemod() {
    let Some(program) = program("MODGATE_KUBEMOD") else { return };
    let Some(cluster) = Cluster::start(&Options::default()).expect("a cluster") else { return };
    let rules: Vec<Value> =
        yaml::load(RULES).expect("YAML").into_iter().map(|it| it.value).collect();
    let samples = Library::read().expect("the library").map(|it| it.samples().expect("samples"));
    let reviews = reviews(samples.unwrap_or_default(), &rules.iter().collect::<Vec<_>>());
    let names = namespaces(&reviews);
    let own = ["default", "shop", "prod", "team-a"];
    prepare(&cluster, &names.iter().map(String::as_str).chain(own).collect::<Vec<_>>())
        .expect("prepared");
    kubectl(&cluster, "apply --server-side -f -", &documents(&rules)).expect("rules");
    let mut original = Served::kubemod(&program, &cluster).expect("KubeMod");
    let (route, version) = ("/dragnet-webhook", "admission.k8s.io/v1beta1");
    for (name, namespace) in [("pull", "default"), ("latest", "shop"), ("owned", "team-a")] {
        original
            .until("its rules are in force", |served| {
                let pod = format!(
                    "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: {namespace}, labels: {{a: b}}}}, \
                     spec: {{containers: [{{name: c, image: 'nginx:latest'}}]}}}}"
                );
                let object = yaml::value(&pod)?;
                let review = Review::of_object(
                    object,
                    modgate_engine::api::meta::Operation::Create,
                    "default",
                );
                let text = numbered(review.sent(), 1).to_json();
                let review = text.replace("admission.k8s.io/v1\"", "admission.k8s.io/v1beta1\"");
                let review = Value::from_json(review.as_bytes())?;
                let answer = ask(&mut served.connect()?, route, &review)?;
                let is_denied = answer.get("allowed").and_then(Value::as_bool) == Some(false);
                Ok(if name == "pull" { answer.get("patch").is_some() } else { is_denied })
            })
            .expect("rules");
    }
    let door = ("mutation-webhook", route, version);
    let outcome = beside(&original, &cluster, None, door, &reviews);
    check("KubeMod", &reviews, &outcome);
}
