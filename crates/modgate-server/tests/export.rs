//! Exports of audits: on disk each violation once, over HTTP at least once, whatever dies meanwhile.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use modgate_audit::{ObjectRef, PolicyRef, Sink as _, Violation};
use modgate_engine::api::constraints::EnforcementAction;
use modgate_export::{ExportConfig, Exporter};
use modgate_telemetry::metrics::Metrics;
use modgate_value::Value;
use tempfile::TempDir;

const AUDIT: &str = "2026-01-01T00:00:00Z";
const VIOLATIONS: u32 = 20_000;
const TIMEOUT: Duration = Duration::from_secs(60);

fn value(json: &str) -> Value {
    Value::from_json(json.as_bytes()).expect(json)
}

fn exporter(sidecar: &str) -> Exporter {
    let config =
        ExportConfig { audit: true, sidecar: sidecar.to_owned(), ..ExportConfig::default() };
    Exporter::new(config, Metrics::new().export().clone())
}

fn connection(name: &str, driver: &str, config: &str) -> Value {
    value(&format!(
        r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"driver": "{driver}", "config": {config}}}}}"#
    ))
}

/// The Connections of docs/export.md load as they stand there.
#[test]
fn documented_connections_are_taken() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/export.md");
    let page = fs::read_to_string(page).expect("docs/export.md");
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let connections: Vec<&str> =
        blocks.filter(|block| block.contains("kind: Connection\n")).collect();
    let exporter = exporter("http://localhost:1");
    for (connection, driver) in connections.iter().zip(["disk", "dapr"]) {
        let connection = modgate_value::yaml::value(connection).expect("YAML");
        assert_eq!(connection.path(&["spec", "driver"]), Some(&Value::from(driver)));
        exporter.connect(Some(&connection)).expect(driver);
    }
    assert_eq!(connections.len(), 2);
}

fn on_disk(folder: &Path) -> Value {
    let config = format!(r#"{{"path": "{}", "maxAuditResults": 3}}"#, folder.display());
    connection("audit-connection", "disk", &config)
}

/// The violations of an audit that finds the same each time.
fn violations(count: u32) -> impl Iterator<Item = Violation> {
    let policy = r#"{"apiVersion": "constraints.gatekeeper.sh/v1beta1", "kind": "K",
        "metadata": {"name": "c"}}"#;
    let policy = Arc::new(PolicyRef::of_policy(&value(policy)));
    (0..count).map(move |number| {
        let object = format!(
            r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {{"name": "p{number}",
            "namespace": "n", "uid": "u{number}"}}}}"#
        );
        Violation {
            policy: Arc::clone(&policy),
            subject: Arc::new(ObjectRef::of_object(&value(&object))),
            action: "deny".into(),
            actions: vec![EnforcementAction::Deny],
            message: format!("p{number} is not as it should be").into(),
            details: Value::Null,
            ordinal: 0,
        }
    })
}

/// The variable that makes this program the process that dies.
const FOLDER: &str = "MODGATE_TEST_EXPORT_FOLDER";
/// The variable that says that it is killed: however late that is, its audit is not completed.
const KILLED: &str = "MODGATE_TEST_EXPORT_KILLED";

/// No test of its own: what `killed_while_it_writes` starts and kills.
#[test]
fn audits_until_it_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let exporter = exporter("");
    exporter.connect(Some(&on_disk(Path::new(&folder)))).expect("connected");
    exporter.started(AUDIT);
    violations(VIOLATIONS).for_each(|violation| exporter.violation(AUDIT, &violation));
    if env::var_os(KILLED).is_some() {
        thread::sleep(2 * TIMEOUT);
    }
    exporter.finished(AUDIT);
}

fn lines(path: &Path) -> usize {
    fs::read(path).map_or(0, |text| text.iter().filter(|byte| **byte == b'\n').count())
}

#[test]
fn killed_while_it_writes() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |extension: &str| {
        folder.path().join(format!("audit-channel/2026-01-01T00_00_00Z.{extension}"))
    };
    let command = || {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "audits_until_it_is_killed"]).env(FOLDER, folder.path());
        command.stdout(std::process::Stdio::null());
        command
    };
    for goal in [100, 2_000, 7_000] {
        let mut child = command().env(KILLED, "1").spawn().expect("started");
        let deadline = Instant::now() + TIMEOUT;
        while lines(&file("txt")) < goal {
            assert!(Instant::now() < deadline, "{goal} lines are not written");
            thread::sleep(Duration::from_millis(2));
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        assert!(file("txt").exists(), "it was not done before it was killed");
    }
    // As if it had been in the middle of a line.
    let text = fs::read_to_string(file("txt")).expect("read");
    fs::write(file("txt"), &text[..text.len() - 20]).expect("written");
    assert!(command().status().expect("done").success());

    assert!(!file("txt").exists());
    let text = fs::read_to_string(file("log")).expect("read");
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut messages = Vec::new();
    for line in text.lines() {
        let line = value(line);
        match line.get("violationId").and_then(Value::as_str) {
            Some(id) => *found.entry(id.to_owned()).or_default() += 1,
            None => messages.push(line.get("message").expect("a message").to_json()),
        }
    }
    assert_eq!(messages, [r#""audit is started""#, r#""audit is completed""#]);
    let expected: BTreeMap<String, usize> =
        violations(VIOLATIONS).map(|violation| (violation.id(AUDIT), 1)).collect();
    assert_eq!(expected.len(), VIOLATIONS as usize);
    assert!(found == expected, "{} of {} ids", found.len(), expected.len());
}

/// A sidecar that accepts most messages, and reports which.
struct Sidecar {
    url: String,
    taken: Arc<Mutex<Vec<String>>>,
}

impl Sidecar {
    /// Of each `unreliable` messages it refuses one, and hangs up on another.
    fn start(unreliable: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("port");
        let url = format!("http://{}", listener.local_addr().expect("address"));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let (kept, count) = (Arc::clone(&taken), Arc::new(AtomicUsize::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (kept, count) = (Arc::clone(&kept), Arc::clone(&count));
                thread::spawn(move || {
                    let stream = stream.expect("a connection");
                    let _ = answer(stream, &kept, &count, unreliable);
                });
            }
        });
        Self { url, taken }
    }
}

/// Answers requests until the client hangs up, or this does.
fn answer(
    mut stream: TcpStream,
    kept: &Mutex<Vec<String>>,
    count: &AtomicUsize,
    unreliable: usize,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        assert!(head.starts_with("POST /v1.0/publish/pubsub/audit-channel HTTP/1.1\r\n"), "{head}");
        let length = head.to_lowercase();
        let length =
            length.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let mut body = vec![0; length.expect("a length").parse().expect("a number")];
        reader.read_exact(&mut body)?;
        let number = count.fetch_add(1, Ordering::Relaxed);
        if number % unreliable == 1 {
            stream.write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")?;
            continue;
        }
        let body = String::from_utf8(body).expect("text");
        kept.lock().expect("kept").push(body);
        if number % unreliable == 2 {
            // Taken, but the sender cannot know.
            return Ok(());
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}

#[test]
fn published_at_least_once() {
    let sidecar = Sidecar::start(7);
    let exporter = exporter(&sidecar.url);
    let dapr = connection("audit-connection", "dapr", r#"{"component": "pubsub"}"#);
    exporter.connect(Some(&dapr)).expect("connected");
    exporter.started(AUDIT);
    violations(500).for_each(|violation| exporter.violation(AUDIT, &violation));
    exporter.finished(AUDIT);
    let deadline = Instant::now() + TIMEOUT;
    let completed = |line: &String| line.contains("audit is completed");
    while !sidecar.taken.lock().expect("taken").iter().any(completed) {
        assert!(Instant::now() < deadline, "not completed");
        thread::sleep(Duration::from_millis(5));
    }
    let taken = sidecar.taken.lock().expect("taken").clone();
    assert!(taken[0].contains("audit is started"), "{}", taken[0]);
    let last = taken.iter().position(completed).expect("completed");
    let of_violations =
        |line: &String| value(line).get("violationId").and_then(Value::as_str).map(str::to_owned);
    let found: BTreeSet<String> = taken[..last].iter().filter_map(of_violations).collect();
    let expected: BTreeSet<String> = violations(500).map(|violation| violation.id(AUDIT)).collect();
    assert!(found == expected, "{} of {} before the end", found.len(), expected.len());
    assert!(taken.len() > 502, "some were sent again: {}", taken.len());
}

#[test]
fn connections_that_cannot_be_used() {
    let folder = TempDir::new().expect("folder");
    let exporter = exporter("http://localhost:1");
    let check = |connection: Value, expected: &str| {
        let found = exporter.connect(Some(&connection)).err().map(|error| error.to_string());
        assert_eq!(found.as_deref(), Some(expected));
    };
    check(
        connection("other", "disk", "{}"),
        "error unsupported connection name other. Connection name should align with flag \
         --audit-connection set or defaulted to 'audit-connection'",
    );
    check(connection("audit-connection", "carrier", "{}"), "driver carrier is not supported");
    check(
        connection("audit-connection", "disk", "{}"),
        "error creating connection audit-connection: missing or invalid 'path'",
    );
    check(
        connection("audit-connection", "dapr", "{}"),
        "error creating connection audit-connection: failed to get value of component",
    );
    // A missing connection is reported, and stops nothing.
    let text = |exporter: &Exporter| format!("{:?}", exporter.published().borrow());
    exporter.started(AUDIT);
    let status = text(&exporter);
    assert!(status.contains("connection is not initialized, name: audit-connection"), "{status}");
    // One that cannot be used leaves the last in place.
    exporter.connect(Some(&on_disk(folder.path()))).expect("connected");
    assert!(exporter.connect(Some(&connection("audit-connection", "disk", "{}"))).is_err());
    exporter.started(AUDIT);
    exporter.finished(AUDIT);
    let status = text(&exporter);
    assert!(status.contains("active: true") && status.contains("errors: {}"), "{status}");
    exporter.connect(None).expect("closed");
    exporter.started(AUDIT);
    assert!(text(&exporter).contains("connection is not initialized"));
}
