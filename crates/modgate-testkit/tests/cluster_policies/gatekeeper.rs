//! The policies that are generated for the templates of `gatekeeper/vap.json`, with constraints and
//! objects.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use modgate_engine::{
    api::meta::GroupVersionKind,
    constraint::{
        CompiledTemplate, TemplateOptions,
        vap::{self, VapOptions, VapScope, VapVersion},
    },
};
use modgate_testkit::corpus::Roots;
use modgate_value::{Str, Value, yaml};

use super::{
    Fixture,
    api::Api,
    generated::{Case, Kind, LABEL, Operation},
    text, with,
};

/// Policies of one template with their constraints, and the objects for them.
pub(crate) struct Family {
    template: Value,
    constraints: Vec<Value>,
    pub(crate) cases: Vec<Case>,
}

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("a file");
    let parts = text.split("\n---").filter(|part| !part.trim().is_empty());
    parts.filter_map(|part| yaml::value(part).ok()).filter(|it| !it.is_null()).collect()
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        match path.is_dir() {
            true => files(&path, found),
            false if path.extension().is_some_and(|end| end == "yaml") => found.push(path),
            false => {}
        }
    }
}

fn list<'v>(case: &'v Value, member: &str) -> impl Iterator<Item = &'v Value> {
    case.get(member).and_then(Value::as_array).into_iter().flat_map(|list| list.iter())
}

fn texts(case: &Value, member: &str) -> BTreeSet<Str> {
    list(case, member).filter_map(Value::as_str).map(Str::from).collect()
}

/// A template under a kind of its own. A validation that nothing fails is failed by everything, so that
/// the answer shows the match.
fn of_its_own(template: &Value, kind: &str) -> Value {
    let template = with(template, &["metadata", "name"], Some(kind.to_lowercase().into()));
    let path = ["spec", "crd", "spec", "names", "kind"];
    let template = with(&template, &path, Some(kind.into()));
    let text = template.to_json().replace(r#"{"expression":"true""#, r#"{"expression":"false""#);
    Value::from_json(text.as_bytes()).expect("JSON")
}

/// Objects that differ in what constraints and webhooks of the corpus select.
const PROBES: [&str; 8] = [
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: diff-a}}",
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: plain, namespace: kube-system}}",
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: diff-a, labels: {a: b}}}",
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: y, namespace: diff-b, labels: {x: y}}}",
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: both, namespace: gk-x, labels: {a: b, x: y}}}",
    "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: gk-a}, spec: {ports: [{port: 80}]}}",
    "{apiVersion: v1, kind: Namespace, metadata: {name: fresh, labels: {k: x, e: e}}}",
    "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r, labels: {x: y}}}",
];

/// Further Namespaces, with labels that the corpus selects.
pub(crate) const NAMESPACES: [&str; 2] = [
    "{apiVersion: v1, kind: Namespace, metadata: {name: gk-x, labels: {k: x, e: e}}}",
    "{apiVersion: v1, kind: Namespace, metadata: {name: gk-a, labels: {a: a}}}",
];

/// The families of the corpus, and how many templates of it are not at hand.
pub(crate) fn families(file: &Path) -> (Vec<Family>, usize) {
    let corpus = Value::from_json(&fs::read(file).expect("the corpus")).expect("JSON");
    let roots = Roots::discover();
    let (mut all, mut absent) = (Vec::new(), 0);
    for (number, case) in list(&corpus, "cases").enumerate() {
        let file = case.get("file").and_then(Value::as_str);
        let path = file.and_then(|name| roots.find(name));
        let template = match (case.get("template"), &path) {
            (Some(template), _) => template.clone(),
            (None, Some(path)) => documents(path).swap_remove(0),
            (None, None) => {
                absent += 1;
                continue;
            }
        };
        all.extend(family(case, &template, path.as_deref(), number));
    }
    (all, absent)
}

fn family(case: &Value, template: &Value, path: Option<&Path>, number: usize) -> Option<Family> {
    let options = VapOptions {
        version: VapVersion::V1,
        scope: VapScope {
            webhook: case.get("webhook").cloned(),
            excluded_namespaces: texts(case, "excluded"),
            exempt_namespaces: texts(case, "exempted"),
        },
        ..VapOptions::default()
    };
    let original = text(template, &["spec", "crd", "spec", "names", "kind"]).to_owned();
    let kind = format!("{original}{number}");
    let template = of_its_own(template, &kind);
    let policy = vap::policy(&template, &options).ok()?.object;
    let mut samples = Vec::new();
    if let Some(path) = path {
        files(&path.with_file_name("samples"), &mut samples);
    }
    let samples: Vec<Value> = samples.iter().flat_map(|path| documents(path)).collect();
    let is_constraint = |it: &&Value| text(it, &["kind"]) == original;
    let actions = |it: &Value| -> Vec<Str> {
        list(it, "actions").filter_map(Value::as_str).map(Str::from).collect()
    };
    let recorded = list(case, "bindings")
        .map(|it| (it.get("constraint").cloned().unwrap_or_default(), actions(it)));
    let sampled = samples.iter().filter(is_constraint).map(|it| (it.clone(), vec!["deny".into()]));
    let mut constraints: Vec<(Value, Vec<Str>)> = recorded.chain(sampled).collect();
    if constraints.is_empty() {
        let any = "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Any, metadata: {name: c}, spec: {}}";
        constraints.push((yaml::value(any).expect("YAML"), vec!["deny".into()]));
    }
    let objects: Vec<Value> = match path {
        Some(_) => samples.iter().filter(|it| !is_constraint(it)).cloned().collect(),
        None => PROBES.map(|text| yaml::value(text).expect("YAML")).into(),
    };
    let mut family = Family { template, constraints: Vec::new(), cases: Vec::new() };
    for (index, (constraint, actions)) in constraints.into_iter().enumerate() {
        let label = format!("gk-{number}-{index}");
        let constraint = with(&constraint, &["kind"], Some(kind.as_str().into()));
        let constraint = with(&constraint, &["metadata", "name"], Some(label.as_str().into()));
        let selector = ["spec", "match", "labelSelector", "matchLabels", LABEL];
        let constraint = with(&constraint, &selector, Some(label.as_str().into()));
        let Ok(binding) = vap::binding(&constraint, &actions, &options) else { continue };
        let first = family.cases.len();
        let cases = objects.iter().filter_map(|object| of_object(object, &label, case));
        family.cases.extend(cases);
        let Some(case) = family.cases.get_mut(first) else { continue };
        case.policies.push(binding);
        if family.constraints.is_empty() {
            case.policies.push(policy.clone());
        }
        family.constraints.push(constraint);
    }
    Some(family)
}

/// The request that creates an object; `None` for objects that are requests themselves.
fn of_object(object: &Value, label: &str, case: &Value) -> Option<Case> {
    let kind = GroupVersionKind::of_object(object);
    if kind.kind.is_empty() || kind.kind == "AdmissionReview" {
        return None;
    }
    let object = with(object, &["metadata", "labels", LABEL], Some(label.into()));
    let namespace = match text(&object, &["metadata", "namespace"]) {
        _ if kind.is_cluster_scoped() => "",
        "" => "default",
        own => own,
    };
    Some(Case {
        id: format!("{} {label} {}", text(case, &["id"]), object.to_json()),
        kind: Box::leak(Box::new(Kind {
            api_version: kind.api_version().to_string().leak(),
            kind: kind.kind.to_string().leak(),
            resource: kind.plural().to_string().leak(),
        })),
        name: text(&object, &["metadata", "name"]).to_owned(),
        namespace: namespace.to_owned().leak(),
        operation: Operation::Create,
        object,
        policies: Vec::new(),
    })
}

/// Creates the kinds of the constraints.
pub(crate) fn define(api: &mut Api, families: &[Family]) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for family in families {
        let template = CompiledTemplate::compile(&family.template, &TemplateOptions::default());
        let crd = template.unwrap_or_else(|error| panic!("{error}: {}", family.template));
        let made = api.send("POST", path, Some(&crd.schema().crd()));
        assert_eq!(made.code, 201, "{}", made.body);
    }
}

/// Creates the constraints, which are parameters, and the Namespaces that samples name.
pub(crate) fn prepare(api: &mut Api, families: &[Family], fixture: &mut Fixture) {
    for text in NAMESPACES {
        let namespace = yaml::value(text).expect("YAML");
        assert_eq!(api.send("POST", "/api/v1/namespaces", Some(&namespace)).code, 201);
    }
    let cases = families.iter().flat_map(|family| &family.cases);
    let names: BTreeSet<&str> = cases.map(|case| case.namespace).collect();
    for name in names.into_iter().filter(|name| !name.is_empty()) {
        let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}");
        let namespace = yaml::value(&namespace).expect("YAML");
        api.send("POST", "/api/v1/namespaces", Some(&namespace));
        let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}";
        let account = yaml::value(account).expect("YAML");
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
        api.send("POST", &path, Some(&account));
        let found = api.send("GET", &format!("/api/v1/namespaces/{name}"), None);
        assert_eq!(found.code, 200, "{name}");
        fixture.namespaces.insert(name.to_owned(), found.body);
    }
    let deadline = Instant::now() + Duration::from_secs(120);
    for constraint in families.iter().flat_map(|family| &family.constraints) {
        let plural = text(constraint, &["kind"]).to_lowercase();
        let path = format!("/apis/constraints.gatekeeper.sh/v1beta1/{plural}");
        let made = loop {
            let made = api.send("POST", &path, Some(constraint));
            if made.code != 404 {
                break made;
            }
            assert!(Instant::now() < deadline, "{plural} is not served");
            thread::sleep(Duration::from_millis(100));
        };
        // What a webhook would refuse, the schema may refuse here.
        if made.code == 201 {
            fixture.params.push(made.body);
        } else {
            println!("not stored: {}", text(&made.body, &["message"]));
        }
    }
}
