//! Templates in CEL and the ValidatingAdmissionPolicies that modgate generates from them decide the
//! same: for the samples of Gatekeeper's library (`MODGATE_CONFORMANCE`), and for match blocks and
//! objects made here.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
};

use modgate_engine::{
    Change, Code, Decision, EngineConfig, Evaluation, Host, HostError, NoopObserver, OnError,
    PolicySource, Review, ServedPolicies, Snapshot, Stages,
    admissionpolicy::{ParamObjects, Params},
    api::meta::Operation,
    constraint::{
        Arena, Inventory,
        vap::{self, VapOptions, VapVersion},
    },
};
use modgate_value::{Clock, Str, Value, budget::Frozen, yaml};

use super::support::Random;

/// Namespaces, and the constraints that bindings pass.
#[derive(Default)]
struct TestHost {
    namespaces: BTreeMap<String, Value>,
    params: ParamObjects,
}

impl Host for TestHost {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        Ok(self.namespaces.get(name).cloned().unwrap_or_else(|| namespace(name, "")))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(name.to_owned()))
    }

    fn parameters(&self) -> &dyn Params {
        &self.params
    }
}

fn namespace(name: &str, labels: &str) -> Value {
    value(&format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: '{name}', \
         labels: {{kubernetes.io/metadata.name: '{name}', {labels}}}}}}}"
    ))
}

fn value(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn snapshot(policies: &[&Value]) -> (Snapshot, Vec<String>) {
    let config =
        EngineConfig { admission_policies: ServedPolicies::All, ..EngineConfig::default() };
    let sources = policies.iter().map(|object| PolicySource::of_object((*object).clone()));
    let update =
        Snapshot::new(config).apply(sources.map(Change::Upsert).collect(), OnError::Unload);
    // Generated match blocks may contradict themselves.
    let problems = update.problems.into_iter().filter(|it| it.code != Some(Code::NeverMatches));
    let problems = problems.map(|problem| problem.message).collect();
    (update.snapshot, problems)
}

/// One constraint, as it is and as the API server's own policy.
struct Pair {
    constraint: Snapshot,
    policy: Snapshot,
    host: TestHost,
}

impl Pair {
    fn new(template: &Value, constraint: &Value, namespaces: &[Value]) -> Self {
        let options = VapOptions { version: VapVersion::V1, ..VapOptions::default() };
        let policy = vap::policy(template, &options).expect("a policy").object;
        let actions = [Str::from("deny")];
        let binding = vap::binding(constraint, &actions, &options).expect("a binding");
        let (as_constraint, problems) = snapshot(&[template, constraint]);
        assert_eq!(problems, [""; 0], "{}", constraint.to_json());
        let (as_policy, problems) = snapshot(&[&policy, &binding]);
        assert_eq!(problems, [""; 0], "{}", policy.to_json());
        let mut host = TestHost::default();
        for namespace in namespaces {
            let name = namespace.path(&["metadata", "name"]).and_then(Value::as_str);
            host.namespaces.insert(name.unwrap_or_default().to_owned(), namespace.clone());
        }
        // The API server gives parameters their defaults when it stores the constraint.
        let stored = as_constraint.constraints().constraints().next().expect("a constraint");
        host.params.insert(&with_parameters(constraint, stored.parameters()));
        Self { constraint: as_constraint, policy: as_policy, host }
    }

    fn decide(&self, snapshot: &Snapshot, review: &Review, stages: Stages) -> Decision {
        let (inventory, mut arena) = (Inventory::default(), Arena::new());
        let mut evaluation = Evaluation::new(&self.host, &inventory, &mut arena);
        snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver)
    }

    /// The messages of both, sorted.
    fn messages(&self, review: &Review) -> [BTreeSet<String>; 2] {
        let constraint = self.decide(&self.constraint, review, Stages::CONSTRAINTS);
        let policy = self.decide(&self.policy, review, Stages::VALIDATING_POLICIES);
        assert_eq!(constraint.allowed, constraint.violations.is_empty());
        assert_eq!(policy.allowed, policy.denials.is_empty());
        [
            constraint.violations.into_iter().map(|violation| violation.message).collect(),
            policy.denials.into_iter().map(|denial| denial.message).collect(),
        ]
    }
}

fn with_parameters(constraint: &Value, parameters: &Value) -> Value {
    let mut members = constraint.as_object().cloned().expect("an object");
    let mut spec = members.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_empty = parameters.as_object().is_none_or(|all| all.is_empty());
    if !is_empty || spec.get("parameters").is_some() {
        spec.insert("parameters", parameters.clone());
    }
    members.insert("spec", spec.into());
    members.into()
}

/// The requests about an object that the validating webhook receives: it is created, or updated.
fn reviews(object: &Value) -> Vec<Review> {
    [Operation::Create, Operation::Update]
        .into_iter()
        .map(|operation| {
            let review = Review::of_object(object.clone(), operation, "default");
            match operation {
                Operation::Update => review.with_old_object(object.clone()),
                _ => review,
            }
        })
        .collect()
}

/// Every document of a file.
fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a file");
    let parts = text.split("\n---").filter(|part| !part.trim().is_empty());
    parts.filter_map(|part| yaml::value(part).ok()).filter(|it| !it.is_null()).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "yaml") {
            found.push(path);
        }
    }
}

fn library() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance");
    let root = env::var_os("MODGATE_CONFORMANCE").map_or(root, PathBuf::from);
    let library = root.join("gatekeeper-library/library");
    if library.is_dir() {
        return Some(library);
    }
    println!("skipped: there is no {}", library.display());
    None
}

#[test]
fn the_library_decides_the_same_as_policies() {
    let Some(library) = library() else { return };
    let mut all = Vec::new();
    files(&library, &mut all);
    let (mut pairs, mut requests, mut denied) = (0, 0, 0);
    for path in all.iter().filter(|path| path.ends_with("template.yaml")) {
        let template = documents(path).remove(0);
        if vap::policy(&template, &VapOptions::default()).is_err() {
            continue;
        }
        let kind = template.path(&["spec", "crd", "spec", "names", "kind"]);
        let kind = kind.and_then(Value::as_str).expect("a kind");
        let mut samples = Vec::new();
        files(&path.with_file_name("samples"), &mut samples);
        let samples: Vec<Value> = samples.iter().flat_map(|path| documents(path)).collect();
        let is_constraint =
            |object: &&Value| object.get("kind").and_then(Value::as_str) == Some(kind);
        for constraint in samples.iter().filter(is_constraint) {
            let pair = Pair::new(&template, constraint, &[]);
            pairs += 1;
            for object in samples.iter().filter(|object| !is_constraint(object)) {
                let all = match object.get("request") {
                    None => reviews(object),
                    // An API server sets the kind of a request.
                    Some(request) if request.get("kind").is_none() => continue,
                    Some(request) => vec![Review::from_request(request).expect("a review")],
                };
                for review in all {
                    let [constraint, policy] = pair.messages(&review);
                    assert_eq!(constraint, policy, "{}: {}", path.display(), review.sent());
                    requests += 1;
                    denied += usize::from(!policy.is_empty());
                }
            }
        }
    }
    println!("{pairs} constraints, {requests} requests, {denied} denied");
    assert!(pairs >= 16 && denied >= 100, "{pairs} constraints, {denied} denied");
}

/// A template whose parameters select the result; reading a missing member is an error.
const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: most}
spec:
  crd:
    spec:
      names: {kind: Most}
      validation:
        openAPIV3Schema: {type: object, properties: {most: {type: integer, default: 2}, label: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        failurePolicy: FAILURE
        matchCondition: [{name: not-b, expression: "!has(request.name) || request.name != 'b'"}]
        variables:
        - {name: replicas, expression: 'has(variables.anyObject.spec) ? variables.anyObject.spec.replicas : 0'}
        validations:
        - {expression: variables.replicas <= variables.params.most, messageExpression: '"at most " + string(variables.params.most)'}
        - {expression: '!has(variables.params.label) || variables.params.label in variables.anyObject.metadata.labels', message: no label}
        - {expression: 'has(variables.anyObject.metadata.labels)', messageExpression: '""'}
"#;

#[test]
fn generated_constraints_decide_the_same_as_policies() {
    let mut numbers = Random(16);
    let namespaces =
        [namespace("a", "team: x"), namespace("b", "team: y"), namespace("kube-system", "")];
    let mut denied = 0;
    for _ in 0..400 {
        let template = TEMPLATE.replace("FAILURE", numbers.one(&["Fail", "Ignore"]));
        let matches: Vec<String> = [
            [
                "",
                "kinds: [{apiGroups: [''], kinds: [Pod]}]",
                "kinds: [{apiGroups: [apps, ''], kinds: ['*']}]",
            ],
            ["", "namespaces: [a, 'kube-*']", "namespaces: [b]"],
            ["", "excludedNamespaces: ['*b', c]", "excludedNamespaces: ['kube-*']"],
            ["", "name: 'a*'", "name: b"],
            [
                "",
                "labelSelector: {matchLabels: {app: x}}",
                "labelSelector: {matchExpressions: [{key: app, operator: Exists}]}",
            ],
            [
                "",
                "namespaceSelector: {matchLabels: {team: x}}",
                "namespaceSelector: {matchExpressions: [{key: team, operator: DoesNotExist}]}",
            ],
        ]
        .iter()
        .map(|choices| if numbers.below(2) == 0 { "" } else { numbers.one(choices) }.to_owned())
        .filter(|text| !text.is_empty())
        .collect();
        let parameters = numbers.one(&[
            "",
            "parameters: {most: 1}",
            "parameters: {label: app}",
            "parameters: {}",
        ]);
        let constraint = value(&format!(
            "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Most, metadata: {{name: c}}, \
             spec: {{match: {{{}}}, {parameters}}}}}",
            matches.join(", ")
        ));
        let pair = Pair::new(&value(&template), &constraint, &namespaces);
        for _ in 0..12 {
            let (head, place) = match numbers.below(4) {
                0 => ("apiVersion: v1, kind: Node", String::new()),
                1 => (
                    "apiVersion: v1, kind: Pod",
                    numbers.one(&["a", "b", "kube-system"]).to_owned(),
                ),
                2 => ("apiVersion: v1, kind: ConfigMap", numbers.one(&["a", "b"]).to_owned()),
                _ => (
                    "apiVersion: apps/v1, kind: Deployment",
                    numbers.one(&["a", "b", "kube-system"]).to_owned(),
                ),
            };
            let place = if place.is_empty() { place } else { format!("namespace: {place}, ") };
            let labels =
                numbers.one(&["", "labels: {app: x}", "labels: {app: y}", "labels: {other: z}"]);
            let spec = numbers.one(&[
                "",
                "spec: {}",
                "spec: {replicas: 1}",
                "spec: {replicas: 2}",
                "spec: {replicas: 9}",
            ]);
            let object = value(&format!(
                "{{{head}, metadata: {{{place}name: {}, {labels}}}, {spec}}}",
                numbers.one(&["a", "b", "ab"])
            ));
            for review in reviews(&object) {
                let [as_constraint, as_policy] = pair.messages(&review);
                assert_eq!(as_constraint, as_policy, "{}\n{}", constraint.to_json(), review.sent());
                denied += usize::from(!as_policy.is_empty());
            }
        }
    }
    assert!(denied > 1000, "{denied}");
}
