//! Audits of a real cluster by the program: `modgate audit --kubeconfig`, and a process that is killed
//! while it exports what it found.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{self, File},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use modgate_testkit::cluster::Cluster;
use modgate_value::Value;
use tempfile::TempDir;

use modgate_e2e::{eventually, succeeds};

/// Both tests change what the other counts.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const POLICIES: &str = r#"apiVersion: templates.gatekeeper.sh/v1
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
      violation[{"msg": msg, "details": {"missing": missing}}] {
        missing := {l | l := input.parameters.labels[_]} - {l | input.review.object.metadata.labels[l]}
        count(missing) > 0
        msg := sprintf("add the labels %v", [missing])
      }
---
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: unique}
spec:
  crd: {spec: {names: {kind: Unique}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package unique
      violation[{"msg": msg}] {
        value := input.review.object.metadata.annotations.host
        other := data.inventory.namespace[namespace]["v1"]["ConfigMap"][name]
        other.metadata.annotations.host == value
        namespace != input.review.object.metadata.namespace
        msg := sprintf("%v is taken by %v/%v", [value, namespace, name])
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabels
metadata: {name: owner}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: ["audited-*"], name: "of-*"}
  parameters: {labels: [owner]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: RequiredLabels
metadata: {name: team}
spec:
  enforcementAction: warn
  match: {kinds: [{apiGroups: [""], kinds: [Namespace]}], name: "audited-*"}
  parameters: {labels: [team]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Unique
metadata: {name: hosts}
spec:
  enforcementAction: dryrun
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], namespaces: ["audited-*"]}
"#;

const OBJECTS: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: audited-a}
---
apiVersion: v1
kind: Namespace
metadata: {name: audited-b, labels: {team: b}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-a, namespace: audited-a, annotations: {host: x}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-b, namespace: audited-b, labels: {owner: me}, annotations: {host: x}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: of-c, namespace: audited-b}
";

struct Run {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

impl Run {
    fn json(&self) -> Value {
        Value::from_json(self.stdout.as_bytes()).expect("JSON")
    }
}

fn audit(kubeconfig: &Path, policies: &str, arguments: &[&str]) -> Run {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("policies.yaml"), policies).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(["audit", "-f", "policies.yaml", "--kubeconfig"])
        .arg(kubeconfig)
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(|list| &**list).unwrap_or_default()
}

#[test]
fn of_a_cluster() {
    let _alone = ONE_AT_A_TIME.lock();
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "create -f -", OBJECTS);
    let run = |arguments: &[&str]| audit(cluster.kubeconfig(), POLICIES, arguments);

    let by_constraint = run(&[]);
    let (before, totals) = by_constraint.stdout.rsplit_once("\n\n").expect("totals");
    assert_eq!(
        before,
        "RequiredLabels owner: 2 violations\n  \
         deny ConfigMap audited-a/of-a: add the labels {\"owner\"}\n  \
         deny ConfigMap audited-b/of-c: add the labels {\"owner\"}\n\n\
         RequiredLabels team: 1 violation\n  \
         warn Namespace audited-a: add the labels {\"team\"}\n\n\
         Unique hosts: 2 violations\n  \
         dryrun ConfigMap audited-a/of-a: x is taken by audited-b/of-b\n  \
         dryrun ConfigMap audited-b/of-b: x is taken by audited-a/of-a"
    );
    assert!(
        totals.ends_with(" objects audited, 5 violations: 2 deny, 2 dryrun, 1 warn\n"),
        "{totals}"
    );
    // Standard error is no terminal, so that nothing is drawn on it.
    assert_eq!((by_constraint.stderr.as_str(), by_constraint.code), ("", Some(1)));

    let by_namespace = run(&["--by", "namespace", "--limit", "1"]);
    let titles: Vec<&str> = by_namespace
        .stdout
        .lines()
        .filter(|line| line.contains(": ") && !line.starts_with(' '))
        .collect();
    assert_eq!(
        titles[..3],
        [
            "cluster-scoped objects: 1 violation",
            "namespace audited-a: 2 violations",
            "namespace audited-b: 2 violations"
        ]
    );

    // What is as bad as asked for.
    let milder = POLICIES.replace(
        "metadata: {name: owner}\nspec:\n",
        "metadata: {name: owner}\nspec:\n  enforcementAction: warn\n",
    );
    for (policies, arguments, expected) in [
        (POLICIES, &["--fail-on", "none"][..], 0),
        (&milder, &[], 0),
        (&milder, &["--fail-on", "warn"], 1),
    ] {
        let run = audit(cluster.kubeconfig(), policies, arguments);
        assert_eq!(run.code, Some(expected), "{arguments:?}: {}", run.stderr);
    }

    let json = run(&["-o", "json"]).json();
    assert_eq!(json.path(&["totals", "deny"]).and_then(Value::as_i64), Some(2));
    let titles: Vec<&str> =
        list(&json, "groups").iter().map(|group| text(group, &["title"])).collect();
    assert_eq!(titles, ["RequiredLabels owner", "RequiredLabels team", "Unique hosts"]);
    let yaml = run(&["-o", "yaml"]).stdout;
    assert!(yaml.contains("\n- title: RequiredLabels owner\n  total: 2\n"), "{yaml}");
    let lines = run(&["-o", "jsonl"]).stdout;
    assert_eq!(lines.lines().count(), 5);
    let line = Value::from_json(lines.lines().next().expect("a line").as_bytes()).expect("JSON");
    assert_eq!(text(&line, &["resourceName"]), "of-a");
    // Objects of a cluster have uids, so that ids are theirs for as long as they live.
    assert_eq!(lines, run(&["-o", "jsonl"]).stdout);
    let sarif = run(&["-o", "sarif"]).json();
    let results = list(&list(&sarif, "runs")[0], "results").to_vec();
    let levels: Vec<&str> = results.iter().map(|result| text(result, &["level"])).collect();
    assert_eq!(levels, ["error", "error", "warning", "note", "note"]);
    let name = results[0]
        .get("locations")
        .and_then(|all| all.at(0)?.get("logicalLocations")?.at(0).cloned());
    assert_eq!(
        name.map(|name| text(&name, &["fullyQualifiedName"]).to_owned()).as_deref(),
        Some("ConfigMap audited-a/of-a")
    );
    let junit = run(&["-o", "junit"]).stdout;
    assert!(
        junit.contains(
            r#"<testsuite name="RequiredLabels/owner" tests="2" failures="2" errors="0" skipped="0">"#
        ),
        "{junit}"
    );

    errors_of_a_cluster(cluster);
    succeeds(cluster, "delete namespace audited-a audited-b --wait=false", "");
}

/// A cluster that does not answer, and a kubeconfig that does not exist.
fn errors_of_a_cluster(cluster: &Cluster) {
    let nowhere = TempDir::new().expect("folder");
    let config = nowhere.path().join("config");
    let known = fs::read_to_string(cluster.kubeconfig()).expect("read");
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("port");
    fs::write(&config, known.replace(cluster.server(), &format!("https://{closed}")))
        .expect("written");
    for config in [config, nowhere.path().join("absent")] {
        let run = audit(&config, POLICIES, &[]);
        assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}

/// A hundred violations for each object.
const MANY: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: many}
spec:
  crd: {spec: {names: {kind: Many}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package many
      violation[{"msg": msg}] {
        number := numbers.range(1, 100)[_]
        msg := sprintf("%v has fault %v", [input.review.object.metadata.name, number])
      }
"#;

const OF_MANY: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Many
metadata: {name: many}
spec: {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}], namespaces: [exported]}}
";

const VIOLATIONS: usize = 20_000;

/// The program, as it audits and exports; killed when dropped.
struct Serving {
    child: Child,
    log: PathBuf,
}

impl Serving {
    fn start(cluster: &Cluster, folder: &Path) -> Self {
        let log = folder.join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
            .args(["serve", "--operation=audit,generate", "--log-format=json", "--kubeconfig"])
            .arg(cluster.kubeconfig())
            .args(["--audit-interval=1", "--enable-violation-export", "--log-stats-audit"])
            .arg("--audit-violations-file")
            .arg(folder.join("violations.jsonl"))
            .args(["--shutdown-delay=0", "--health-addr=127.0.0.1:0"])
            .env("POD_NAMESPACE", "gatekeeper-system")
            .stdout(File::create(folder.join("out")).expect("file"))
            .stderr(File::create(&log).expect("file"))
            .spawn()
            .expect("modgate");
        Self { child, log }
    }

    /// As `kill -9`.
    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> =
                log.lines().filter(|line| !line.contains("violation_audited")).collect();
            let last = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
            eprintln!("{}", last.join("\n"));
        }
    }
}

const CHANNEL: &str = "audit-channel";

/// The newest file of an audit that is not complete.
fn open_file(folder: &Path) -> Option<String> {
    let entries = fs::read_dir(folder.join(CHANNEL)).ok()?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".txt")).max()
}

/// Files of audits by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder.join(CHANNEL)).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, fs::read_to_string(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// A process is killed in the middle of an audit, and another one audits: every violation stands once
/// in the export, whichever process found it.
#[test]
fn killed_in_the_middle_of_an_audit() {
    let _alone = ONE_AT_A_TIME.lock();
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "create -f -", &modgate_e2e::our_definitions());
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    succeeds(cluster, "create namespace gatekeeper-system", "");
    succeeds(cluster, "create namespace exported", "");
    // The controllers of some clusters make one of their own in each namespace.
    let others = succeeds(cluster, "get configmaps -n exported -o name", "").lines().count();
    let mut maps = String::new();
    for number in others..VIOLATIONS / 100 {
        let _ = write!(
            maps,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: e{number:04}, namespace: exported}}\n"
        );
    }
    succeeds(cluster, "create -f -", &maps);
    let folder = TempDir::new().expect("folder");
    let connection = format!(
        "apiVersion: connection.gatekeeper.sh/v1alpha1\nkind: Connection\n\
         metadata: {{name: audit-connection, namespace: gatekeeper-system}}\n\
         spec: {{driver: disk, config: {{path: {}, maxAuditResults: 5}}}}\n",
        folder.path().display()
    );
    succeeds(cluster, "create -f -", &connection);
    succeeds(cluster, "create -f -", MANY);
    let mut first = Serving::start(cluster, folder.path());
    eventually("the constraint is taken", || {
        modgate_e2e::kubectl(cluster, "apply -f -", OF_MANY).success
    });
    // In the middle of one that finds something.
    let deadline = Instant::now() + 3 * modgate_e2e::TIMEOUT;
    let unfinished = loop {
        assert!(Instant::now() < deadline, "no audit is caught in the middle");
        thread::sleep(Duration::from_millis(2));
        let Some(name) = open_file(folder.path()) else { continue };
        let path = folder.path().join(CHANNEL).join(&name);
        let lines = fs::read_to_string(&path).unwrap_or_default().lines().count();
        if lines <= 100 || lines >= VIOLATIONS / 2 {
            continue;
        }
        first.kill();
        if fs::read_to_string(&path).is_ok_and(|text| !text.contains("audit is completed")) {
            break name.replace(".txt", ".log");
        }
        // It was complete before it was killed. The next one waits until the Lease is free.
        first = Serving::start(cluster, folder.path());
    };
    drop(first);

    let mut second = Serving::start(cluster, folder.path());
    let is_complete = |name: &str, text: &str| {
        name.ends_with(".log")
            && *name > *unfinished
            && text.lines().count() == VIOLATIONS + 2
            && text.contains("audit is completed")
    };
    eventually("an audit is complete", || {
        files(folder.path()).iter().any(|(name, text)| is_complete(name, text))
    });
    second.kill();

    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    let all = files(folder.path());
    assert!(all.contains_key(&unfinished), "what was published stays: {:?}", all.keys());
    for (name, file) in all.iter().filter(|(name, _)| name.ends_with(".log")) {
        let mut here = 0;
        for line in file.lines() {
            let violation = Value::from_json(line.as_bytes()).unwrap_or_default();
            let id = text(&violation, &["violationId"]);
            if !id.is_empty() {
                *ids.entry(id.to_owned()).or_default() += 1;
                here += 1;
            }
        }
        eprintln!("{name}: {here} violations");
    }
    assert!(ids.len() > VIOLATIONS, "{} ids", ids.len());
    assert!(ids.values().all(|count| *count == 1), "each id stands once");

    // What else was asked for.
    let log = fs::read_to_string(&second.log).expect("log");
    let line = |event: &str| {
        let wanted = format!(r#""event_type":"{event}""#);
        let found = log.lines().find(|line| line.contains(&wanted)).expect(event);
        Value::from_json(found.as_bytes()).expect(found)
    };
    let statistics = line("audit_stats");
    assert_eq!(text(&statistics, &["msg"]), "audit review request stats");
    let of = &list(&statistics, "execution_stats")[0];
    assert_eq!([text(of, &["scope"]), text(of, &["statsFor"])], ["template", "Many"], "{of}");
    let audited = line("constraint_audited");
    assert_eq!(text(&audited, &["constraint_violations"]), VIOLATIONS.to_string());
    let file = fs::read_to_string(folder.path().join("violations.jsonl")).expect("the file");
    assert_eq!(file.lines().count(), VIOLATIONS + 1);
}
