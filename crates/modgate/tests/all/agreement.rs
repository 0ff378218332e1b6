//! The commands that evaluate constraints agree with the webhook: for every case of the recorded suites
//! with an object, `gator test`, `gator verify` and the audit report the violations that the engine's
//! decision has, texts included. What differs by design is in `docs/compatibility.md`.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, atomic::AtomicBool},
};

use modgate_audit::{AuditOptions, Item, Options, Policies, Sink, Violation, audit};
use modgate_engine::{
    Change, Evaluation, Host, HostError, NoopObserver, OnError, PolicySource, Review, Snapshot,
    Stages,
    api::meta::{GroupVersionKind, Operation},
    constraint::{Arena, Inventory},
};
use modgate_value::{Clock, Value, budget::Frozen, gofmt, yaml};
use tempfile::TempDir;

/// A violation as every command shows it: kind and name of the constraint, action, message.
type Shown = [String; 4];

/// The Namespaces of a case; others have nothing but a name.
struct Cluster<'a>(&'a [Value]);

impl Host for Cluster<'_> {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        let is_it = |object: &&Value| {
            object.get("kind") == Some(&"Namespace".into())
                && object.path(&["metadata", "name"]) == Some(&name.into())
        };
        Ok(self.0.iter().find(is_it).cloned().unwrap_or_else(|| namespace(name)))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
    }
}

fn namespace(name: &str) -> Value {
    let text = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, \
         labels: {{kubernetes.io/metadata.name: {name}}}}}}}"
    );
    yaml::value(&text).expect(&text)
}

/// The policies of a case, the objects it refers to, and one object or AdmissionReview.
struct Case {
    name: String,
    policies: Vec<Value>,
    objects: Vec<Value>,
    subject: Value,
}

impl Case {
    fn is_review(&self) -> bool {
        self.subject.get("kind") == Some(&"AdmissionReview".into())
    }

    fn snapshot(&self) -> Snapshot {
        let sources = self.policies.iter().cloned().map(PolicySource::of_object);
        let changes = sources.map(Change::Upsert).collect();
        Snapshot::default().apply(changes, OnError::Unload).snapshot
    }

    /// The objects of `data.inventory`: also the subject, as in `gator test` and an audit.
    fn inventory(&self, with_subject: bool) -> Inventory {
        let mut inventory = Inventory::default();
        let subject = Some(&self.subject).filter(|_| with_subject);
        for object in self.objects.iter().chain(subject) {
            // An object without a version or name is no part of an inventory.
            let _ = inventory.insert(object.clone());
        }
        inventory
    }

    /// The same with the namespace that kubectl fills in.
    fn in_a_namespace(&self) -> Self {
        let mut subject = self.subject.clone();
        let is_named = subject.path(&["metadata", "namespace"]).is_some();
        let kind = GroupVersionKind::of_object(&subject);
        if !is_named
            && !kind.is_cluster_scoped()
            && let Value::Object(members) = &mut subject
            && let Some(Value::Object(metadata)) = members.get_mut("metadata")
        {
            metadata.insert("namespace", "default".into());
        }
        let Self { name, policies, objects, .. } = self;
        let (name, policies, objects) = (name.clone(), policies.clone(), objects.clone());
        Self { name, policies, objects, subject }
    }

    /// The decision of the webhook: the request, or the creation of the object.
    fn decided(&self, with_subject: bool) -> Vec<Shown> {
        let review = match self.subject.get("request") {
            Some(request) => Review::from_request(request).expect(&self.name),
            None => Review::of_object(self.subject.clone(), Operation::Create, "default"),
        };
        let (cluster, inventory) = (Cluster(&self.objects), self.inventory(with_subject));
        let mut arena = Arena::new();
        let mut evaluation = Evaluation::new(&cluster, &inventory, &mut arena);
        let stages = Stages::CONSTRAINTS;
        let decision = self.snapshot().decide(&review, stages, &mut evaluation, &mut NoopObserver);
        let violations = decision.violations.into_iter();
        let shown = violations.map(|it| {
            [it.kind.to_string(), it.constraint.to_string(), it.action.to_string(), it.message]
        });
        shown.collect()
    }

    fn audited(&self) -> Vec<Shown> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let policies = Policies::new(self.snapshot(), self.inventory(true), Options::default());
        let mut items = Some(vec![Item::new(self.subject.clone())]);
        let mut source = || items.take();
        let seen = Seen::default();
        let options = AuditOptions { threads: 1, limit: 0, stop: &NEVER, statistics: None };
        audit("", &policies, &mut source, &Cluster(&self.objects), &seen, options);
        seen.0.into_inner().expect("no panic")
    }

    /// The results of `gator test` for the object.
    fn tested(&self) -> Vec<Shown> {
        let folder = tempfile::tempdir().expect("a folder");
        let all = self.policies.iter().chain(&self.objects);
        write(&folder, "input.yaml", all.chain([&self.subject]));
        let text = gator(&folder, &["test", "-f", "input.yaml", "-o", "json"]);
        let results = Value::from_json(text.as_bytes()).expect(&text);
        let results = results.as_array().into_iter().flat_map(|all| all.iter());
        let mine = results.filter(|it| it.get("violatingObject") == Some(&self.subject));
        let text = |it: &Value, path: &[&str]| {
            it.path(path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let shown = mine.map(|it| {
            [
                text(it, &["constraint", "kind"]),
                text(it, &["constraint", "metadata", "name"]),
                text(it, &["enforcementAction"]),
                text(it, &["msg"]),
            ]
        });
        shown.collect()
    }

    /// The messages that `gator verify` prints, in the order in which they are shown.
    fn verified(&self) -> Option<String> {
        let of_kind = |wanted: &str| -> Vec<&Value> {
            let is_it = |it: &&Value| GroupVersionKind::of_object(it).group == wanted;
            self.policies.iter().filter(is_it).collect()
        };
        let (templates, constraints) =
            (of_kind("templates.gatekeeper.sh"), of_kind("constraints.gatekeeper.sh"));
        let ([template], [constraint]) = (&*templates, &*constraints) else { return None };
        let folder = tempfile::tempdir().expect("a folder");
        write(&folder, "template.yaml", [*template]);
        write(&folder, "constraint.yaml", [*constraint]);
        write(&folder, "expansion.yaml", of_kind("expansion.gatekeeper.sh"));
        write(&folder, "object.yaml", [&self.subject]);
        write(&folder, "inventory.yaml", &self.objects);
        let inventory = if self.objects.is_empty() { "" } else { "inventory: [inventory.yaml], " };
        let suite = format!(
            "{{kind: Suite, apiVersion: test.gatekeeper.sh/v1alpha1, tests: [{{name: t, \
             template: template.yaml, constraint: constraint.yaml, expansion: expansion.yaml, \
             cases: [{{name: c, object: object.yaml, {inventory}\
             assertions: [{{violations: 100000}}]}}]}}]}}"
        );
        fs::write(folder.path().join("suite.yaml"), suite).expect("a suite");
        let text = gator(&folder, &["verify", "suite.yaml"]);
        let (_, found) = text.split_once("got messages [").expect(&text);
        Some(found.rsplit_once("]\n").map_or(found, |(found, _)| found).to_owned())
    }
}

fn write<'v>(folder: &TempDir, name: &str, documents: impl IntoIterator<Item = &'v Value>) {
    let documents: Vec<String> = documents.into_iter().map(Value::to_json).collect();
    fs::write(folder.path().join(name), documents.join("\n---\n")).expect(name);
}

/// Standard output of a run.
fn gator(folder: &TempDir, args: &[&str]) -> String {
    let args: Vec<OsString> = ["gator"].iter().chain(args).map(OsString::from).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io = modgate_gator::Io {
        stdin: None,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder.path(),
        env: &|_| None,
        connect: modgate_gator::no_cluster,
    };
    modgate_gator::run(&args, &mut io);
    let stdout = String::from_utf8(stdout).expect("text");
    assert!(!stdout.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    stdout
}

#[derive(Default)]
struct Seen(Mutex<Vec<Shown>>);

impl Sink for Seen {
    fn violation(&self, _: &str, violation: &Violation) {
        let Violation { policy, action, message, .. } = violation;
        let shown = [
            policy.kind.kind.to_string(),
            policy.name.to_string(),
            action.to_string(),
            message.to_string(),
        ];
        self.0.lock().expect("no panic").push(shown);
    }
}

fn sorted(mut all: Vec<Shown>) -> Vec<Shown> {
    all.sort();
    all
}

/// As audits cut messages.
fn cut(all: Vec<Shown>) -> Vec<Shown> {
    let cut = |[kind, name, action, message]: Shown| {
        [kind, name, action, modgate_audit::message::cut(&message).to_string()]
    };
    sorted(all.into_iter().map(cut).collect())
}

/// Compares the commands; what differs is returned.
fn compare(case: &Case) -> Vec<String> {
    let mut differences = Vec::new();
    let mut same = |what: &str, expected: String, got: String| {
        if expected != got {
            let name = &case.name;
            differences.push(format!("{name}: {what}:\n  decided {expected}\n  but got {got}"));
        }
    };
    let alone = sorted(case.decided(false));
    let messages = |all: &[Shown]| {
        let mut all: Vec<_> = all.iter().map(|[_, _, action, message]| (action, message)).collect();
        all.sort();
        all.into_iter().map(|(_, message)| message.as_str()).collect::<Vec<_>>().join(" ")
    };
    if let Some(verified) = case.verified() {
        same("verify", messages(&alone), verified);
    }
    if !case.is_review() {
        // An object without a namespace is in `default` for a request, in none for `gator test`, and
        // cluster-scoped for an audit (`fix-gator-scope`).
        let case = &case.in_a_namespace();
        let among_others = sorted(case.decided(true));
        same("test", format!("{among_others:?}"), format!("{:?}", sorted(case.tested())));
        same("audit", format!("{:?}", cut(among_others)), format!("{:?}", cut(case.audited())));
    }
    differences
}

/// A Pod of every workload, so that resultants are compared, too.
const EXPANSION: &str = "{apiVersion: expansion.gatekeeper.sh/v1beta1, kind: ExpansionTemplate, \
    metadata: {name: workloads}, spec: {applyTo: [{groups: [apps], versions: [v1], \
    kinds: [Deployment, ReplicaSet, StatefulSet, DaemonSet]}], templateSource: spec.template, \
    generatedGVK: {version: v1, kind: Pod}}}";

fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    yaml::documents(&text).filter_map(Result::ok).map(|document| document.value).collect()
}

fn find(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            find(&path, name, found);
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
}

fn list<'v>(of: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    of.get(key).and_then(Value::as_array).into_iter().flat_map(|items| items.iter())
}

/// Every case of a suite that has one template and one constraint.
fn cases(suite: &Path) -> Vec<Case> {
    let folder = suite.parent().expect("a folder");
    let document = documents(suite).into_iter().next().unwrap_or_default();
    let expansion = yaml::value(EXPANSION).expect(EXPANSION);
    let mut cases = Vec::new();
    for test in list(&document, "tests") {
        let read = |of: &Value, key: &str| match of.get(key).and_then(Value::as_str) {
            Some(file) => documents(&folder.join(file)),
            None => Vec::new(),
        };
        let mut policies = read(test, "template");
        policies.extend(read(test, "constraint"));
        policies.push(expansion.clone());
        for case in list(test, "cases") {
            let inventory = list(case, "inventory").filter_map(Value::as_str);
            let objects: Vec<Value> =
                inventory.flat_map(|file| documents(&folder.join(file))).collect();
            let text =
                |of: &Value| of.get("name").map(gofmt::text).unwrap_or_default().into_owned();
            for subject in read(case, "object") {
                let name = format!("{} {} {}", suite.display(), text(test), text(case));
                let (policies, objects) = (policies.clone(), objects.clone());
                cases.push(Case { name, policies, objects, subject });
            }
        }
    }
    cases
}

#[test]
fn every_case_of_the_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let named = std::env::var_os("MODGATE_CONFORMANCE").map(PathBuf::from);
    let beside = root.join("../shared/conformance");
    let corpora = [named, Some(beside)].into_iter().flatten().find(|path| path.is_dir());
    let Some(corpora) = corpora else { return };
    let mut suites = Vec::new();
    find(&corpora.join("gatekeeper-library/library"), "suite.yaml", &mut suites);
    let cases: Vec<Case> = suites.iter().flat_map(|suite| cases(suite)).collect();
    let differences: BTreeSet<String> = cases.iter().flat_map(compare).collect();
    let all: Vec<&str> = differences.iter().map(String::as_str).collect();
    assert!(all.is_empty(), "{} of {}\n{}", all.len(), cases.len(), all.join("\n"));
    assert!(cases.len() > 200, "{} cases were compared", cases.len());
}
