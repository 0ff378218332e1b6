//! `modgate serve --record`: the requests and answers in its files, and the data that is never there.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_testkit::steps::eventually;
use modgate_value::Value;

use crate::{
    program::{errors, out},
    served::Folder,
};

/// Denies Pods without a label and quotes what it sees of a Secret; a rule copies the data of Secrets.
pub(crate) const POLICIES: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: requiredlabels}
spec:
  crd:
    spec:
      names: {kind: RequiredLabels}
      validation:
        openAPIV3Schema: {type: object, properties: {labels: {type: array, items: {type: string}}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package requiredlabels
      violation[{"msg": msg}] {
        missing := {l | l := input.parameters.labels[_]} - {l | input.review.object.metadata.labels[l]}
        count(missing) > 0
        msg := sprintf("add the labels %v to %v", [missing, object.get(input.review.object, "data", {})])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabels
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod, Secret]}]}
  parameters: {labels: [owner]}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: copy, namespace: kubemod-system}
spec:
  type: Patch
  targetNamespaceRegex: .*
  match: [{select: $.kind, matchValue: Secret}]
  patch: [{op: add, path: /metadata/annotations/copy, value: '{{ .Target.data.password }}'}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: replicas, namespace: shop}
spec:
  type: Patch
  match: [{select: $.kind, matchValue: Deployment}]
  patch: [{op: add, path: /spec/replicas, value: "3"}]
"#;

/// A review of this object.
pub(crate) fn review(number: usize, operation: &str, object: &str, old_object: &str) -> String {
    let any = if object == "null" { old_object } else { object };
    let subject = Value::from_json(any.as_bytes()).expect(any);
    let text =
        |path: &[&str]| subject.path(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = text(&["kind"]);
    let resource = format!("{}s", kind.to_lowercase());
    let (group, version) = match text(&["apiVersion"]).split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text(&["apiVersion"])),
    };
    let (name, namespace) = (text(&["metadata", "name"]), text(&["metadata", "namespace"]));
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
            "uid": "0f1e2d3c-4b5a-6978-8796-{number:012x}", "operation": "{operation}", "name": "{name}",
            "kind": {{"group": "{group}", "version": "{version}", "kind": "{kind}"}},
            "resource": {{"group": "{group}", "version": "{version}", "resource": "{resource}"}},
            "userInfo": {{"username": "someone"}}, "namespace": "{namespace}",
            "object": {object}, "oldObject": {old_object}}}}}"#
    )
}

pub(crate) fn pod(number: usize, namespace: &str, label: &str) -> String {
    let object = format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p{number}", "namespace": "{namespace}",
            "labels": {{"{label}": "me"}}, "managedFields": [{{"manager": "kubectl-of-someone"}}]}},
            "spec": {{"containers": [{{"name": "web", "image": "nginx"}}]}}}}"#
    );
    review(number, "CREATE", &object, "null")
}

pub(crate) fn deployment(number: usize) -> String {
    let object = r#"{"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "api", "namespace": "shop"}, "spec": {"paused": true}}"#;
    review(number, "CREATE", object, "null")
}

/// The files of a record, the oldest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("entry").path());
    let is_one = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
    let mut files: Vec<PathBuf> = entries.filter(is_one).collect();
    files.sort();
    files
}

/// The complete lines of a record.
pub(crate) fn lines(folder: &Path) -> Vec<Value> {
    let texts = files(folder).into_iter().map(|file| fs::read_to_string(file).expect("text"));
    let mut found = Vec::new();
    for text in texts {
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            found.push(Value::from_json(line.as_bytes()).expect(line));
        }
    }
    found
}

pub(crate) fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn requests_and_answers_are_read_again() {
    let folder = Folder::new(&[
        ("policies.yaml", POLICIES),
        ("other.yaml", &POLICIES.replace("[owner]", "[team]").replace("\"3\"", "\"5\"")),
    ]);
    let server = folder.serve(&["--record", "record"]);
    server.review("/v1/admit", &pod(1, "shop", "owner"));
    server.review("/v1/admit", &pod(2, "shop", "team"));
    server.review("/mutate", &deployment(3));
    // No API server sends this, so it fills no disk.
    server.review("/v1/admit", &pod(4, "shop", "team").replace("0f1e2d3c-", ""));
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0), "{log}");

    let record = folder.path().join("record");
    let mode = |path: &Path| fs::metadata(path).expect("metadata").permissions().mode() & 0o777;
    assert_eq!(mode(&record), 0o700);
    for file in files(&record) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        assert!(!fs::read_to_string(file).expect("text").contains("managedFields"));
    }
    let lines = lines(&record);
    let shown: Vec<String> = lines
        .iter()
        .map(|line| {
            let allowed = line.path(&["response", "allowed"]).and_then(Value::as_bool);
            format!("{} {allowed:?}", text(line, &["record", "webhook"]))
        })
        .collect();
    assert_eq!(shown, ["/v1/admit Some(true)", "/v1/admit Some(false)", "/mutate Some(true)"]);
    assert!(
        text(&lines[1], &["response", "status", "message"]).starts_with("[owner] add the labels")
    );
    assert!(!text(&lines[2], &["response", "patch"]).is_empty());

    let compared = |old: &str, new: &str| {
        let run = folder.run(&["compare", old, new, "record", "-o", "json"]);
        Value::from_json(out(&run).as_bytes()).unwrap_or_else(|_| panic!("{}", errors(&run)))
    };
    let number = |value: &Value, path: &[&str]| value.path(path).and_then(Value::as_i64);
    let same = compared("policies.yaml", "policies.yaml");
    assert_eq!(number(&same, &["answers", "known"]), Some(3), "{same}");
    assert_eq!(number(&same, &["answers", "same"]), Some(3), "{same}");
    assert_eq!(number(&same, &["same"]), Some(3), "{same}");
    let changed = compared("policies.yaml", "other.yaml");
    let classes = ["allow-to-deny", "deny-to-allow", "messages", "patches"];
    let counts = |value: &Value, path: &[&str]| {
        classes.map(|class| number(value, &[path, &[class]].concat()).unwrap_or(-1))
    };
    assert_eq!(counts(&changed, &["differences"]), [1, 1, 0, 1], "{changed}");
    let turned = compared("other.yaml", "other.yaml");
    assert_eq!(counts(&turned, &["answers", "differences"]), [1, 1, 0, 1], "{turned}");
    assert_eq!(number(&turned, &["answers", "same"]), Some(0), "{turned}");

    // A process that is killed leaves half a line.
    let last = files(&record).pop().expect("a file");
    let whole = fs::read_to_string(&last).expect("text");
    fs::write(&last, &whole[..whole.len() - 10]).expect("written");
    let run = folder.run(&["compare", "policies.yaml", "other.yaml", "record"]);
    assert_eq!(run.status.code(), Some(0), "{}", errors(&run));
    assert!(
        errors(&run).contains(":3: the last line is not complete, skipped"),
        "{}",
        errors(&run)
    );
    let run = folder.run(&["review", "-f", "policies.yaml", "record", "-o", "json"]);
    assert!(errors(&run).contains("the last line is not complete, skipped"), "{}", errors(&run));
    let reviewed = Value::from_json(out(&run).as_bytes()).expect("JSON");
    assert_eq!(reviewed.as_array().map(|all| all.len()), Some(2), "{reviewed}");
}

#[test]
fn no_byte_of_a_secret_is_written() {
    const REVIEWS: usize = 10_000;
    const SECRET: &str = "correct-horse-battery-staple";
    let encoded = STANDARD.encode(SECRET);
    let secret = |number: usize, plain: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": {{
                "name": "s{number}", "namespace": "shop", "annotations": {{"copy": "x",
                "kubectl.kubernetes.io/last-applied-configuration": "{{\"data\":\"{encoded}\"}}"}},
                "managedFields": [{{"manager": "{plain}"}}]}},
                "data": {{"password": "{encoded}"}}, "stringData": {{"plain": "{plain}"}}}}"#
        )
    };
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let server = folder.serve(&["--record", "record", "--log-denies", "--log-level", "debug"]);
    let mut connection = server.connect();
    let mut quoted = 0;
    for number in 0..REVIEWS {
        let object = secret(number, SECRET);
        let review = match number % 3 {
            0 => review(number, "CREATE", &object, "null"),
            1 => review(number, "UPDATE", &object, &object),
            _ => review(number, "DELETE", "null", &object),
        };
        let route = if number % 2 == 0 { "/v1/admit" } else { "/mutate" };
        let answer = connection.review(route, &review);
        let patch = STANDARD.decode(text(&answer, &["patch"])).expect("a patch");
        let message = text(&answer, &["status", "message"]);
        quoted += usize::from(message.contains(&encoded))
            + usize::from(String::from_utf8_lossy(&patch).contains(&encoded));
    }
    assert!(quoted > REVIEWS / 2, "the answers quote the Secrets: {quoted}");
    eventually("all is counted", || {
        let dropped = ["queue_full", "behind", "disk"]
            .map(|reason| format!("modgate_record_dropped_total{{reason=\"{reason}\"}}"));
        let dropped: u64 = dropped.iter().map(|series| server.metric(series)).sum();
        let recorded = server.metric("modgate_record_requests_total");
        recorded + dropped == 10_000 && recorded > 0
    });
    let recorded = server.metric("modgate_record_requests_total");
    let (_, log) = server.end();
    let record = folder.path().join("record");
    let mut all: String =
        files(&record).iter().map(|it| fs::read_to_string(it).expect("text")).collect();
    assert_eq!(u64::try_from(all.lines().count()), Ok(recorded));
    assert!(recorded > 9_000, "{recorded} of {REVIEWS} are recorded");
    all.push_str(&log);
    assert!(!all.contains(SECRET) && !all.contains(&encoded));
    // What compares them says so.
    let run = folder.run(&["compare", "policies.yaml", "policies.yaml", "record"]);
    assert!(out(&run).contains(&format!("{recorded}: a Secret without its data")), "{}", out(&run));
}

#[test]
fn a_killed_process_loses_the_last_second_at_most() {
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let server = folder.serve(&["--record", "record"]);
    let mut connection = server.connect();
    let mut answered = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        connection.review("/v1/admit", &pod(answered.len(), "shop", "owner"));
        answered.push(Instant::now());
    }
    let killed = Instant::now();
    let dropped = ["queue_full", "behind", "disk"].map(|reason| {
        server.metric(&format!("modgate_record_dropped_total{{reason=\"{reason}\"}}"))
    });
    server.stop();
    let lines = lines(&folder.path().join("record"));
    let names: Vec<&str> = lines.iter().map(|line| text(line, &["request", "name"])).collect();
    let due = answered.iter().filter(|at| killed.duration_since(**at) > Duration::from_secs(1));
    let due = due.count();
    assert!(due > 0);
    let missing = (0..due).filter(|number| !names.contains(&format!("p{number}").as_str())).count();
    assert!(
        missing as u64 <= dropped.iter().sum(),
        "{missing} of {due} are lost, {dropped:?} dropped"
    );
}

#[test]
fn one_process_records_in_a_folder_and_follows_no_links() {
    let folder = Folder::new(&[("policies.yaml", POLICIES), ("precious", "precious\n")]);
    let record = folder.path().join("record");
    fs::create_dir(&record).expect("a folder");
    let precious = folder.path().join("precious");
    symlink(&precious, record.join("requests-0000000000000000001.jsonl")).expect("a link");
    let server = folder.serve(&["--record", "record", "--record-max-size", "1Mi"]);
    let serve = |folder: &Folder, to: &str| {
        let address = ["--policies", "policies.yaml", "--address", "127.0.0.1:0"];
        folder.run(&[&["serve"][..], &address, &["--record", to]].concat())
    };
    let second = serve(&folder, "record");
    assert_eq!(second.status.code(), Some(2));
    assert_eq!(
        errors(&second),
        "error: cannot record into `record`: another process records there; give each process a folder \
         of its own\n"
    );
    let mut connection = server.connect();
    for number in 0..3000 {
        connection.review("/v1/admit", &pod(number, "shop", "owner"));
    }
    eventually("files go", || {
        let files = files(&record);
        let bytes = |file: &PathBuf| fs::symlink_metadata(file).map_or(0, |it| it.len());
        server.metric("modgate_record_requests_total") > 2000
            && files.iter().map(bytes).sum::<u64>() <= 1 << 20
            && files.len() > 2
    });
    drop(server);
    assert_eq!(fs::read_to_string(&precious).expect("there"), "precious\n");
    assert!(record.join("requests-0000000000000000001.jsonl").is_symlink());

    // Neither is the lock a way out.
    fs::create_dir(folder.path().join("linked")).expect("a folder");
    symlink(&precious, folder.path().join("linked/.modgate-record.lock")).expect("a link");
    let linked = serve(&folder, "linked");
    assert_eq!(linked.status.code(), Some(2));
    assert!(
        errors(&linked).starts_with("error: cannot record into `linked`: "),
        "{}",
        errors(&linked)
    );
}

#[test]
fn a_disk_that_fails_is_counted_and_delays_nothing() {
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let server = folder.serve(&["--record", "record", "--log-format", "json"]);
    // No file can be made in a folder that is gone.
    fs::remove_dir_all(folder.path().join("record")).expect("removed");
    let mut connection = server.connect();
    let lost = "modgate_record_dropped_total{reason=\"disk\"}";
    let mut sent = 0;
    eventually("two rounds are lost", || {
        let before = server.metric(lost);
        for _ in 0..10 {
            let answer = connection.review("/v1/admit", &pod(sent, "shop", "owner"));
            assert_eq!(answer.get("allowed").and_then(Value::as_bool), Some(true));
            sent += 1;
        }
        before >= 10
    });
    assert_eq!(server.metric("modgate_record_requests_total"), 0);
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0));
    assert_eq!(log.matches("requests are not recorded").count(), 1, "{log}");
}

#[test]
fn samples_by_namespace_and_policy() {
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    let args = ["--record", "record", "--record-sample", "0", "--record-namespace", "shop=1"];
    let server = folder.serve(&[&args[..], &["--record-policy", "RequiredLabels=1"]].concat());
    for (number, namespace, label) in
        [(1, "shop", "owner"), (2, "back", "owner"), (3, "back", "team")]
    {
        server.review("/v1/admit", &pod(number, namespace, label));
    }
    eventually("two are recorded", || server.metric("modgate_record_requests_total") == 2);
    assert_eq!(server.metric("modgate_record_left_out_total"), 1);
    server.end();
    let lines = lines(&folder.path().join("record"));
    let names: Vec<&str> = lines.iter().map(|line| text(line, &["request", "name"])).collect();
    assert_eq!(names, ["p1", "p3"]);
}
