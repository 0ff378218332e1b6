//! The suite of kubescape: policies with the objects, bindings and parameters of its tests.

use std::{
    env, fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::{Value, yaml};

use super::{
    Fixture,
    api::Api,
    generated::{Case, Kind, LABEL, Operation},
    text, with,
};

/// The suite; `None` where it is not at hand.
pub(crate) fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites");
    let root = env::var_os("MODGATE_SUITES").map_or(root, PathBuf::from);
    let folder = root.join("admission-policies/kubescape");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there is no {}", folder.display());
    None
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    yaml::value(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// Every case of the suite. Its policy is meant for objects with its label alone.
pub(crate) fn cases(folder: &Path) -> Vec<Case> {
    let mut controls: Vec<_> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
        .collect();
    controls.sort();
    let mut all = Vec::new();
    for control in &controls {
        let policy = read(&control.join("policy.yaml"));
        let name = text(&policy, &["metadata", "name"]);
        for (index, case) in
            read(&control.join("cases.json")).as_array().expect("a list").iter().enumerate()
        {
            let member = |key: &str| case.get(key).and_then(Value::as_str);
            let label = format!("kubescape-{}", all.len());
            let binding = read(&folder.join(member("binding").unwrap_or("policy-binding.yaml")));
            let binding = with(&binding, &["metadata", "name"], Some(label.as_str().into()));
            let binding = with(&binding, &["spec", "policyName"], Some(name.into()));
            let selector = ["spec", "matchResources", "objectSelector", "matchLabels", LABEL];
            let binding = with(&binding, &selector, Some(label.as_str().into()));
            let binding = match member("params") {
                None => with(&binding, &["spec", "paramRef"], None),
                Some(params) => with(&binding, &["spec", "paramRef", "name"], Some(params.into())),
            };
            let object = case.get("object").expect("an object");
            let object = with(object, &["metadata", "labels", LABEL], Some(label.as_str().into()));
            let kind = GroupVersionKind::of_object(&object);
            let namespace = match text(&object, &["metadata", "namespace"]) {
                _ if kind.is_cluster_scoped() => "",
                "" => "default",
                own => own,
            };
            let mut policies = vec![binding];
            if index == 0 {
                policies.insert(0, policy.clone());
            }
            all.push(Case {
                id: format!("{} {}", control.display(), member("name").unwrap_or_default()),
                kind: Box::leak(Box::new(Kind {
                    api_version: kind.api_version().to_string().leak(),
                    kind: kind.kind.to_string().leak(),
                    resource: kind.plural().to_string().leak(),
                })),
                name: text(&object, &["metadata", "name"]).to_owned(),
                namespace: namespace.to_owned().leak(),
                operation: Operation::Create,
                object,
                policies,
            });
        }
    }
    all
}

/// Creates the Namespaces, the kind of the parameters, and the parameters.
pub(crate) fn prepare(api: &mut Api, folder: &Path, fixture: &mut Fixture) {
    let namespace =
        r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "test-namespace"}}"#;
    let namespace = Value::from_json(namespace.as_bytes()).expect("JSON");
    api.send("POST", "/api/v1/namespaces", Some(&namespace));
    for name in ["default", "test-namespace"] {
        let found = api.send("GET", &format!("/api/v1/namespaces/{name}"), None);
        assert_eq!(found.code, 200, "{name}");
        fixture.namespaces.insert(name.to_owned(), found.body);
        // No controller makes it here, and Pods need it.
        let account =
            r#"{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}"#;
        let account = Value::from_json(account.as_bytes()).expect("JSON");
        api.send("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts"), Some(&account));
    }
    let crd = read(&folder.join("crd.yaml"));
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = api.send("POST", path, Some(&crd));
    assert_eq!(made.code, 201, "{}", made.body);
    let plural = text(&crd, &["spec", "names", "plural"]);
    for file in ["default-control-configuration.yaml", "empty-control-configuration.yaml"] {
        let object = with(&read(&folder.join(file)), &["metadata", "name"], Some(file.into()));
        let path = format!("/apis/{}/{plural}", text(&object, &["apiVersion"]));
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let made = api.send("POST", &path, Some(&object));
            if made.code == 201 {
                fixture.params.push(made.body);
                break;
            }
            assert!(Instant::now() < deadline, "{} {}", made.code, made.body);
            thread::sleep(Duration::from_millis(200));
        }
    }
}
