//! The suites of the Gatekeeper library whose templates are written in CEL: what the API server
//! decides by the policies made of them, and what the webhook decides about the same requests.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use kube::{
    Client, Config,
    api::{PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{Request, params::Patch},
};
use modgate_testkit::{
    Roots,
    cluster::Cluster,
    gatekeeper::validation::{EngineSubject, Settings},
};
use modgate_value::{Value, yaml};
use tokio::time::sleep;

/// The results of all cases.
#[derive(Debug, Default)]
pub(crate) struct LibraryResult {
    pub(crate) templates: usize,
    pub(crate) cases: usize,
    /// Cases that both decided alike, as the objects the API server takes.
    pub(crate) same: usize,
    /// Those of them that are about objects no API server takes as what they are, and were sent as
    /// a kind of the same name without a schema.
    pub(crate) look_alikes: Vec<String>,
    pub(crate) not_compared: BTreeMap<String, String>,
    pub(crate) different: Vec<String>,
}

/// The folder of the library, if it is there.
pub(crate) fn find() -> Option<PathBuf> {
    let found = Roots::discover().find_folder("gatekeeper-library/library");
    if found.is_none() {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
    }
    found
}

/// The group of the kinds that take what the API server does not take as a Pod.
const LOOK_ALIKE: &str = "compare.modgate.test";
/// The label that tells the objects of one test from those of others.
const LABEL: &str = "modgate-test";
const NAMESPACE: &str = "cases";
const TIMEOUT: Duration = Duration::from_secs(60);

/// One test of a suite: a constraint, and objects that it is asked about.
struct Test {
    id: String,
    template: Value,
    constraint: Value,
    cases: Vec<Case>,
}

/// An object that is created, or changed from what it was.
struct Case {
    id: String,
    name: String,
    object: Value,
    old: Option<Value>,
}

/// A request that the API server takes as long as no policy minds.
struct Taken {
    path: String,
    look_alike: bool,
    /// As it is sent.
    sent: Value,
    is_update: bool,
    /// As the webhook is sent it.
    request: Value,
}

/// Creates the namespace of the cases and the kind of the look-alikes.
async fn serve_look_alikes(client: &Client) {
    let namespace =
        format!(r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{NAMESPACE}"}}}}"#);
    apply(client, "/api/v1/namespaces", &json(&namespace)).await;
    let definition = json(&format!(
        r#"{{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {{"name": "pods.{LOOK_ALIKE}"}}, "spec": {{"group": "{LOOK_ALIKE}",
        "scope": "Namespaced", "names": {{"kind": "Pod", "plural": "pods", "singular": "pod"}},
        "versions": [{{"name": "v1", "served": true, "storage": true, "schema": {{"openAPIV3Schema":
        {{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}]}}}}"#
    ));
    apply(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let empty = format!("/apis/{LOOK_ALIKE}/v1/namespaces/{NAMESPACE}/pods");
    eventually("the look-alike kind is served", async || {
        client
            .request::<serde_json::Value>(
                Request::new(&empty).list(&Default::default()).expect("a request"),
            )
            .await
            .is_ok()
    })
    .await;
}

/// Sends every case twice: to the API server, when nothing but the policies is bound, and to the
/// engine as the webhook would.
pub(crate) async fn compare(root: &Path, cluster: &Cluster) -> LibraryResult {
    let client = client(cluster).await;
    let tests = tests(root);
    let mut outcome = LibraryResult::default();
    let mut templates: Vec<&Value> = Vec::new();
    for test in &tests {
        outcome.cases += test.cases.len();
        if !templates.contains(&&test.template) {
            templates.push(&test.template);
        }
    }
    outcome.templates = templates.len();
    let group = "/apis/templates.gatekeeper.sh/v1/constrainttemplates";
    for template in templates {
        apply(&client, group, template).await;
    }
    serve_look_alikes(&client).await;

    // What the API server makes of the objects while no policy minds.
    let mut taken: Vec<Vec<(&Case, Taken)>> = Vec::new();
    for test in &tests {
        let mut of_test = Vec::new();
        for case in &test.cases {
            match take(&client, case).await {
                Ok(one) => {
                    if one.look_alike {
                        outcome.look_alikes.push(case.id.clone());
                    }
                    of_test.push((case, one));
                }
                Err(reason) => drop(outcome.not_compared.insert(case.id.clone(), reason)),
            }
        }
        taken.push(of_test);
    }

    for test in &tests {
        let kind = text(&test.constraint, &["kind"]).to_lowercase();
        let path = format!("/apis/constraints.gatekeeper.sh/v1beta1/{kind}");
        eventually("the kind of the constraint is served", async || {
            try_apply(&client, &path, &test.constraint).await.is_ok()
        })
        .await;
    }

    let expected: Vec<Vec<Result<(), String>>> = tests
        .iter()
        .zip(&taken)
        .map(|(test, taken)| {
            let mut subject = EngineSubject::boxed(&Settings::default(), &[]).expect("an engine");
            let problems = subject.load(&[test.template.clone(), test.constraint.clone()]);
            assert_eq!(problems, [""; 0], "{}", test.id);
            let mut answer = |taken: &Taken| {
                let answer = subject.admit(&taken.request).expect("an answer").response;
                match answer.get("allowed").and_then(Value::as_bool) {
                    Some(true) => Ok(()),
                    _ => Err(text(&answer, &["status", "message"])),
                }
            };
            taken.iter().map(|(_, taken)| answer(taken)).collect()
        })
        .collect();

    // Bindings take effect one after the other; of each test at least one case must be refused
    // before its others tell anything.
    for ((test, taken), expected) in tests.iter().zip(&taken).zip(&expected) {
        let Some(index) = expected.iter().position(Result::is_err) else { continue };
        let (_, first) = &taken[index];
        eventually(&format!("{} is enforced", test.id), async || {
            matches!(send(&client, first).await, Err(message) if message.contains("' denied request: "))
        })
        .await;
    }
    for ((test, taken), expected) in tests.iter().zip(&taken).zip(&expected) {
        let name = text(&test.constraint, &["metadata", "name"]);
        for ((case, taken), expected) in taken.iter().zip(expected) {
            let got = send(&client, taken).await;
            let is_same = match (&got, expected) {
                (Ok(_), Ok(())) => true,
                (Err(got), Err(expected)) => {
                    let (_, said) = got.split_once("' denied request: ").unwrap_or_default();
                    !said.is_empty() && expected.contains(&format!("[{name}] {said}"))
                }
                _ => false,
            };
            if is_same {
                outcome.same += 1;
            } else {
                let got = got.map(drop);
                let text = format!("{}: API server {got:?}, webhook {expected:?}", case.id);
                outcome.different.push(text);
            }
        }
    }
    outcome
}

async fn client(cluster: &Cluster) -> Client {
    let file = Kubeconfig::read_from(cluster.kubeconfig()).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await.expect("a configuration");
    Client::try_from(config).expect("a client")
}

/// How a case can be sent, and what comes of it without policies.
async fn take(client: &Client, case: &Case) -> Result<Taken, String> {
    let is_namespace = text(&case.object, &["kind"]) == "Namespace";
    let base = if is_namespace {
        "/api/v1/namespaces".to_owned()
    } else {
        format!("/api/v1/namespaces/{NAMESPACE}/pods")
    };
    match take_as(client, case, &base, false).await {
        Ok(taken) => Ok(taken),
        Err(reason) if is_namespace => Err(reason),
        Err(_) => {
            let base = format!("/apis/{LOOK_ALIKE}/v1/namespaces/{NAMESPACE}/pods");
            take_as(client, case, &base, true).await
        }
    }
}

async fn take_as(
    client: &Client,
    case: &Case,
    base: &str,
    look_alike: bool,
) -> Result<Taken, String> {
    let as_kind = |object: &Value, name: &str| {
        let mut object = object.clone();
        if look_alike {
            set(&mut object, &["apiVersion"], format!("{LOOK_ALIKE}/v1").as_str().into());
        }
        set(&mut object, &["metadata", "name"], name.into());
        object
    };
    let mut taken = Taken {
        path: base.to_owned(),
        look_alike,
        sent: as_kind(&case.object, &case.name),
        is_update: case.old.is_some(),
        request: Value::Null,
    };
    let mut old = Value::Null;
    if let Some(before) = &case.old {
        // Names of objects that cannot be changed after all stay taken.
        let name = if look_alike { format!("{}-alike", case.name) } else { case.name.clone() };
        taken.sent = as_kind(&case.object, &name);
        old = create(client, base, &as_kind(before, &name), false).await?;
        let version = text(&old, &["metadata", "resourceVersion"]);
        set(&mut taken.sent, &["metadata", "resourceVersion"], version.as_str().into());
        taken.path = format!("{base}/{name}");
        set(&mut taken.sent, &["metadata", "annotations"], json(r#"{"changed": "yes"}"#));
    }
    let object = send(client, &taken).await?;
    taken.request = request(case, &object, &old, look_alike);
    Ok(taken)
}

/// Sends a request that has no effect; returns the object as it would be.
async fn send(client: &Client, taken: &Taken) -> Result<Value, String> {
    if !taken.is_update {
        return create(client, &taken.path, &taken.sent, true).await;
    }
    let (base, name) = taken.path.rsplit_once('/').expect("a path with a name");
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let request = Request::new(base).replace(name, &params, taken.sent.to_json().into_bytes());
    answer(client.request(request.expect("a request")).await)
}

async fn create(
    client: &Client,
    path: &str,
    object: &Value,
    dry_run: bool,
) -> Result<Value, String> {
    let params = PostParams { dry_run, ..PostParams::default() };
    let request = Request::new(path).create(&params, object.to_json().into_bytes());
    answer(client.request(request.expect("a request")).await)
}

async fn try_apply(client: &Client, path: &str, object: &Value) -> Result<Value, String> {
    let params = PatchParams::apply("test").force();
    let name = text(object, &["metadata", "name"]);
    let request = Request::new(path).patch(&name, &params, &Patch::Apply(object));
    answer(client.request(request.expect("a request")).await)
}

async fn apply(client: &Client, path: &str, object: &Value) {
    try_apply(client, path, object).await.expect("applied");
}

fn answer(answer: Result<serde_json::Value, kube::Error>) -> Result<Value, String> {
    match answer {
        Ok(object) => Ok(json(&object.to_string())),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}

async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "still not so: {what}");
        sleep(Duration::from_millis(50)).await;
    }
}

/// The request that the API server would send to the webhook.
fn request(case: &Case, object: &Value, old: &Value, look_alike: bool) -> Value {
    let kind = text(object, &["kind"]);
    let group = if look_alike { LOOK_ALIKE } else { "" };
    let plural = format!("{}s", kind.to_lowercase());
    let namespace = text(object, &["metadata", "namespace"]);
    // Namespaces are reviewed as in themselves.
    let namespace =
        if kind == "Namespace" { text(object, &["metadata", "name"]) } else { namespace };
    let operation = if old.is_null() { "CREATE" } else { "UPDATE" };
    json(&format!(
        r#"{{"uid": "1", "operation": "{operation}", "dryRun": true, "name": "{}",
        "namespace": "{namespace}",
        "kind": {{"group": "{group}", "version": "v1", "kind": "{kind}"}},
        "resource": {{"group": "{group}", "version": "v1", "resource": "{plural}"}},
        "userInfo": {{"username": "admin", "groups": ["system:masters"]}},
        "object": {}, "oldObject": {}}}"#,
        case.name,
        object.to_json(),
        old.to_json(),
    ))
}

/// All tests of templates that are written in CEL.
fn tests(root: &Path) -> Vec<Test> {
    let mut folders = Vec::new();
    suites(root, &mut folders);
    folders.sort();
    let (mut tests, mut cases) = (Vec::new(), 0);
    for folder in folders {
        let suite = read(&folder.join("suite.yaml"));
        for test in list(&suite, "tests") {
            let template = read(&folder.join(text(test, &["template"])));
            if !template.to_json().contains("K8sNativeValidation") {
                continue;
            }
            let number = tests.len();
            let label = format!("t{number}");
            let shown = folder.strip_prefix(root).expect("below the root").display().to_string();
            let id = format!("{shown} {}", text(test, &["name"]));
            let mut constraint = read(&folder.join(text(test, &["constraint"])));
            set(&mut constraint, &["metadata", "name"], label.as_str().into());
            let selector = json(&format!(r#"{{"matchLabels": {{"{LABEL}": "{label}"}}}}"#));
            assert_eq!(constraint.path(&["spec", "match", "labelSelector"]), None, "{id}");
            set(&mut constraint, &["spec", "match", "labelSelector"], selector);
            with_look_alikes(&mut constraint);
            let cases_of_test = list(test, "cases").iter().map(|case| {
                cases += 1;
                let mut found = read(&folder.join(text(case, &["object"])));
                let mut old = None;
                if text(&found, &["kind"]) == "AdmissionReview" {
                    let object = found.path(&["request", "object"]).cloned();
                    old =
                        Some(found.path(&["request", "oldObject"]).cloned().unwrap_or_else(|| {
                            assert_eq!(text(&found, &["request", "operation"]), "UPDATE", "{id}");
                            object.clone().expect("an object")
                        }));
                    found = object.expect("an object");
                }
                for object in [Some(&mut found), old.as_mut()].into_iter().flatten() {
                    set(object, &["metadata", "labels", LABEL], label.as_str().into());
                    if text(object, &["kind"]) != "Namespace" {
                        set(object, &["metadata", "namespace"], NAMESPACE.into());
                    }
                }
                Case {
                    id: format!("{id}/{}", text(case, &["name"])),
                    name: format!("c{cases}"),
                    object: found,
                    old,
                }
            });
            let cases_of_test = cases_of_test.collect();
            tests.push(Test { id, template, constraint, cases: cases_of_test });
        }
    }
    tests
}

/// The constraint is about the look-alikes of what it is about, too.
fn with_look_alikes(constraint: &mut Value) {
    let kinds = constraint.path(&["spec", "match", "kinds"]).cloned().expect("kinds");
    let kinds: Value = kinds
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| {
            let mut entry = entry.clone();
            let groups = entry.get("apiGroups").and_then(Value::as_array).expect("groups");
            let groups: Value = groups.iter().cloned().chain([LOOK_ALIKE.into()]).collect();
            set(&mut entry, &["apiGroups"], groups);
            entry
        })
        .collect();
    set(constraint, &["spec", "match", "kinds"], kinds);
}

fn suites(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() {
            suites(&path, found);
        } else if path.ends_with("suite.yaml") {
            found.push(folder.to_owned());
        }
    }
}

fn read(path: &Path) -> Value {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    yaml::value(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(text: &str) -> Value {
    Value::from_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| &list[..])
}

fn text(value: &Value, path: &[&str]) -> String {
    value.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Sets a member, making the objects it is in.
fn set(value: &mut Value, path: &[&str], to: Value) {
    let [first, rest @ ..] = path else {
        *value = to;
        return;
    };
    if value.as_object().is_none() {
        *value = Value::Object(Default::default());
    }
    let Value::Object(members) = value else { return };
    let mut member = members.get(first).cloned().unwrap_or_default();
    set(&mut member, rest, to);
    members.insert(*first, member);
}
