//! kat's suites: every test in a Namespace of its own, sent by the user that it names.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::{Value, yaml};

use super::{
    Fixture,
    api::Api,
    generated::{Case, Kind, LABEL, Operation},
    text, with,
};

/// A test of kat's.
pub(crate) struct Test {
    /// The creation: for updates, of the old object.
    pub(crate) case: Case,
    /// The policy and the binding as they are written, where the API server stores neither like that.
    pub(crate) unstored: Case,
    /// The object after an update.
    new: Option<Value>,
    /// The user of the request; the administrator without one.
    user: Option<Value>,
    labels: Value,
    params: Option<Value>,
}

/// The suites; `None` where they are not at hand.
pub(crate) fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/suites");
    let root = env::var_os("MODGATE_SUITES").map_or(root, PathBuf::from);
    let folder = root.join("admission-policies/kat");
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

fn policies(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut entries: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries.iter().filter(|path| path.is_dir()) {
        policies(path, found);
    }
    if folder.join("policy.yaml").is_file() {
        found.push(folder.to_owned());
    }
}

/// The files of a policy's tests: by test, then by part.
fn tests(folder: &Path) -> BTreeMap<String, BTreeMap<String, PathBuf>> {
    let mut tests: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(folder.join("tests")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let mut parts: Vec<_> = name.split('.').collect();
        let (_, part) = (parts.pop(), parts.pop().unwrap_or_default());
        tests.entry(parts.join(".")).or_default().insert(part.to_owned(), path.clone());
    }
    tests
}

/// Every test, in the order of its folders, and how many of them no API server can be sent: they connect,
/// which has no dry run, or have no object.
pub(crate) fn cases(folder: &Path) -> (Vec<Test>, usize) {
    let mut folders = Vec::new();
    policies(folder, &mut folders);
    let (mut all, mut left_out) = (Vec::new(), 0);
    for folder in folders {
        for (name, parts) in tests(&folder) {
            let id = format!("kat-{}", all.len() + left_out);
            match case(&folder, &id, &name, &parts) {
                Some(test) => all.push(test),
                None => left_out += 1,
            }
        }
    }
    (all, left_out)
}

fn case(folder: &Path, id: &str, name: &str, parts: &BTreeMap<String, PathBuf>) -> Option<Test> {
    let part = |name: &str| parts.get(name).map(|path| read(path));
    let request = part("request").unwrap_or_default();
    let given = |name: &str| {
        part(name).or_else(|| request.get(name).cloned()).filter(|value| !value.is_null())
    };
    let (object, old) = (given("object"), given("oldObject"));
    let operation = match (text(&request, &["operation"]), &object, &old) {
        ("CREATE", ..) | ("", Some(_), None) => Operation::Create,
        ("UPDATE", ..) | ("", Some(_), Some(_)) => Operation::Update,
        ("DELETE", ..) | ("", None, Some(_)) => Operation::Delete,
        _ => return None,
    };
    let own = |object: &Value| {
        let object = with(&completed(object), &["metadata", "labels", LABEL], Some(id.into()));
        match GroupVersionKind::of_object(&object).is_cluster_scoped() {
            true => with(&object, &["metadata", "name"], Some(format!("{id}-object").into())),
            false => with(&object, &["metadata", "namespace"], Some(id.into())),
        }
    };
    let (first, new) = match operation {
        // Some tests of updates have no old object: it is what the object becomes.
        Operation::Update => (old.or_else(|| object.clone())?, object),
        Operation::Create => (object?, None),
        Operation::Delete => (old?, None),
    };
    let (first, new) = (own(&first), new.as_ref().map(own));
    let kind = GroupVersionKind::of_object(&first);
    let namespace = if kind.is_cluster_scoped() { "" } else { id.to_owned().leak() };
    let written = documents(folder, id);
    let policies: Vec<Value> = written.iter().map(storable).collect();
    let differing = written.into_iter().zip(&policies).filter(|(a, b)| a != *b);
    let unstored = differing.map(|(written, _)| written).collect();
    let case = Case {
        id: format!("{} {name}", folder.display()),
        kind: Box::leak(Box::new(Kind {
            api_version: kind.api_version().to_string().leak(),
            kind: kind.kind.to_string().leak(),
            resource: kind.plural().to_string().leak(),
        })),
        name: text(&first, &["metadata", "name"]).to_owned(),
        namespace,
        operation,
        object: first,
        policies,
    };
    let unstored = Case { policies: unstored, ..case.clone() };
    let labels = request.path(&["namespaceObject", "metadata", "labels"]).cloned();
    let user = request.get("userInfo").cloned();
    Some(Test {
        case,
        unstored,
        new,
        user,
        labels: labels.unwrap_or_default(),
        params: part("params"),
    })
}

/// The object with what an API server requires and no policy of kat's reads: the containers of its Pods.
fn completed(object: &Value) -> Value {
    let containers = ["spec", "template", "spec", "containers"];
    let lacks =
        |path: &[&str]| object.path(path).and_then(Value::as_array).is_none_or(|it| it.is_empty());
    if object.path(&["spec", "template"]).is_none() || !lacks(&containers) {
        return object.clone();
    }
    let container = yaml::value("[{name: main, image: main}]").expect("YAML");
    with(object, &containers, Some(container))
}

/// A policy or binding with what the API server requires and kat does not: rules, which then are about
/// everything, `reinvocationPolicy`, `parameterNotFoundAction`, and reasons that it knows.
fn storable(document: &Value) -> Value {
    let mut document = document.clone();
    let set = |document: &mut Value, path: &[&str], text: &str| {
        if document.path(path).is_none() {
            *document = with(document, path, Some(yaml::value(text).expect("YAML")));
        }
    };
    let kind = text(&document, &["kind"]).to_owned();
    if kind.ends_with("Policy") {
        let rules = "[{apiGroups: ['*'], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: ['*']}]";
        set(&mut document, &["spec", "matchConstraints", "resourceRules"], rules);
    }
    if kind == "MutatingAdmissionPolicy" {
        set(&mut document, &["spec", "reinvocationPolicy"], "Never");
    }
    if document.path(&["spec", "paramRef"]).is_some() {
        set(&mut document, &["spec", "paramRef", "parameterNotFoundAction"], "Allow");
    }
    let text = document.to_json().replace(r#""reason":"Warn""#, r#""reason":"Forbidden""#);
    Value::from_json(text.as_bytes()).expect("JSON")
}

/// The policy and its binding, for the objects of one test alone.
fn documents(folder: &Path, id: &str) -> Vec<Value> {
    let name = format!("p-{id}");
    let stored = |path: &str, name: &str| {
        let group = "admissionregistration.k8s.io/v1";
        let document = with(&read(&folder.join(path)), &["apiVersion"], Some(group.into()));
        with(&document, &["metadata", "name"], Some(name.into()))
    };
    let policy = stored("policy.yaml", &name);
    let binding = match folder.join("binding.yaml").is_file() {
        true => stored("binding.yaml", id),
        false => {
            let text = format!(
                "{{apiVersion: admissionregistration.k8s.io/v1, kind: {}Binding, metadata: {{name: {id}}}}}",
                text(&policy, &["kind"])
            );
            let binding = yaml::value(&text).expect("a document");
            match text.contains("Validating") {
                true => {
                    let deny = [Value::from("Deny")].into_iter().collect();
                    with(&binding, &["spec", "validationActions"], Some(deny))
                }
                false => binding,
            }
        }
    };
    let mut binding = with(&binding, &["spec", "policyName"], Some(name.as_str().into()));
    if binding.path(&["spec", "paramRef", "namespace"]).is_some() {
        binding = with(&binding, &["spec", "paramRef", "namespace"], Some(id.into()));
    }
    let selector = ["spec", "matchResources", "objectSelector", "matchLabels", LABEL];
    vec![policy, with(&binding, &selector, Some(id.into()))]
}

impl Test {
    /// Creates the Namespace, the parameters, and what the user of the test may do.
    pub(crate) fn prepare(&self, api: &mut Api, fixture: &mut Fixture) {
        let Some(id) = self.case.object.path(&["metadata", "labels", LABEL]) else { return };
        let id = id.as_str().expect("a label");
        let create = |api: &mut Api, path: &str, text: &str, more: Option<(&[&str], Value)>| {
            let mut document = yaml::value(text).expect("a document");
            if let Some((path, value)) = more {
                document = with(&document, path, Some(value));
            }
            let made = api.send("POST", path, Some(&document));
            assert_eq!(made.code, 201, "{}", made.body);
            made.body
        };
        let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {id}}}}}");
        let labels = Some((&["metadata", "labels"][..], self.labels.clone()))
            .filter(|(_, labels)| !labels.is_null());
        let namespace = create(api, "/api/v1/namespaces", &namespace, labels);
        fixture.namespaces.insert(id.to_owned(), namespace);
        let account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default}}";
        let path = format!("/api/v1/namespaces/{id}/serviceaccounts");
        create(api, &path, account, None);
        if let Some(params) = &self.params {
            let name = self.case.policies[1].path(&["spec", "paramRef", "name"]).cloned();
            let params = with(params, &["metadata", "namespace"], Some(id.into()));
            let params = with(&params, &["metadata", "name"], name);
            let path = format!("/api/v1/namespaces/{id}/configmaps");
            let made = api.send("POST", &path, Some(&params));
            assert_eq!(made.code, 201, "{}", made.body);
            fixture.params.push(made.body);
        }
        let Some(user) = &self.user else { return };
        let rbac = "rbac.authorization.k8s.io";
        let role = format!(
            "{{apiVersion: {rbac}/v1, kind: ClusterRole, metadata: {{name: {id}}}, rules: [{{apiGroups: \
             ['*'], resources: ['{}'], verbs: ['*']}}]}}",
            self.case.kind.resource
        );
        create(api, &format!("/apis/{rbac}/v1/clusterroles"), &role, None);
        let binding = format!(
            "{{apiVersion: {rbac}/v1, kind: ClusterRoleBinding, metadata: {{name: {id}}}, roleRef: \
             {{apiGroup: {rbac}, kind: ClusterRole, name: {id}}}, subjects: [{{apiGroup: {rbac}, kind: \
             User, name: '{}'}}]}}",
            text(user, &["username"])
        );
        create(api, &format!("/apis/{rbac}/v1/clusterrolebindings"), &binding, None);
    }

    /// The object and the old object as admission sees them; `None` where the API server does not serve the
    /// kind, or does not store the object.
    pub(crate) fn before(&self, api: &mut Api) -> Option<(Value, Value)> {
        let answer = api.send("POST", &self.case.path(), Some(&self.case.object));
        if answer.code != 201 {
            println!("{}: {} {}", self.case.id, answer.code, text(&answer.body, &["message"]));
            return None;
        }
        let (object, old) = self.case.before(api);
        let Some(new) = &self.new else { return Some((object, old)) };
        // Without its label the object meets no policy.
        let label = ["metadata", "labels", LABEL];
        let path = self.case.path().replace('?', &format!("/{}?", self.case.name));
        let answer = api.send("PUT", &path, Some(&with(new, &label, None)));
        assert_eq!(answer.code, 200, "{}: {}", self.case.id, answer.body);
        Some((with(&answer.body, &label, new.path(&label).cloned()), old))
    }

    /// Sends requests as the user of the test from now on. Returns the user as admission sees it.
    pub(crate) fn act(&self, api: &mut Api) -> Value {
        api.user = self.user.clone().unwrap_or_default();
        let review = "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}";
        let review = Value::from_json(review.as_bytes()).expect("JSON");
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let user = api.send("POST", path, Some(&review)).body;
        user.path(&["status", "userInfo"]).cloned().expect("a user")
    }
}
