//! `modgate serve --shadow`: candidates and other webhooks decide a second time, and change nothing.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write as _},
    net::{Ipv4Addr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use modgate_testkit::steps::eventually;
use modgate_value::Value;
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::{
    program::{errors, out},
    record::{POLICIES, deployment, lines, pod, text},
    served::{Folder, Serving},
};

const CLASSES: [&str; 4] = ["allow-to-deny", "deny-to-allow", "messages", "patches"];

/// Policies that require another label and set other replicas.
fn others() -> String {
    POLICIES.replace("[owner]", "[team]").replace("\"3\"", "\"5\"")
}

/// Five requests: one for each class of differences, and one that is decided alike.
fn five(first: usize) -> [(&'static str, String); 5] {
    [
        ("/v1/admit", pod(first, "shop", "owner")),
        ("/v1/admit", pod(first + 1, "shop", "team")),
        ("/v1/admit", pod(first + 2, "shop", "none")),
        ("/mutate", deployment(first + 3)),
        ("/v1/admit", pod(first + 4, "shop", "owner\": \"me\", \"team")),
    ]
}

fn decided(server: &Serving) -> u64 {
    ["same", "differs", "failed"]
        .map(|result| {
            server.metric(&format!("modgate_shadow_requests_total{{result=\"{result}\"}}"))
        })
        .iter()
        .sum()
}

/// The differences by class that the report counts.
fn reported(server: &Serving) -> [i64; 4] {
    let report = server.get("/shadow");
    let report = Value::from_json(report.as_bytes()).expect(&report);
    CLASSES
        .map(|class| report.path(&["differences", class]).and_then(Value::as_i64).expect("a count"))
}

/// Sends rounds of [`five`], and waits until all of them are decided again. The answers are those of the policies in force.
fn send(server: &Serving, rounds: usize) {
    let before = decided(server);
    let mut connection = server.connect();
    let mut sent = 0;
    for round in 0..rounds {
        for (route, review) in five(round * 5) {
            let answer = connection.review(route, &review);
            let allowed = answer.get("allowed").and_then(Value::as_bool);
            assert_eq!(allowed, Some(!matches!(sent % 5, 1 | 2)), "{answer}");
            sent += 1;
        }
        if sent % 500 == 0 || round + 1 == rounds {
            eventually("all are decided again", || decided(server) == before + sent as u64);
        }
    }
}

#[test]
fn candidates_decide_again_and_follow_their_files() {
    let folder = Folder::new(&[("policies.yaml", POLICIES), ("candidate.yaml", &others())]);
    let server =
        folder.serve(&["--shadow", "candidate.yaml", "--record", "record", "--log-format", "json"]);
    send(&server, 1);
    assert_eq!(reported(&server), [1, 1, 1, 1]);
    let report = server.get("/shadow");
    for expected in ["RequiredLabels owner", "ModRule shop/replicas", r#""name":"p0""#] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    assert!(!report.contains("add the labels"), "{report}");
    for (class, webhook) in CLASSES.iter().zip(["/v1/admit", "/v1/admit", "/v1/admit", "/mutate"]) {
        let series =
            format!("modgate_shadow_differences_total{{class=\"{class}\",webhook=\"{webhook}\"}}");
        assert_eq!(server.metric(&series), 1, "{series}");
    }

    // The candidate replaces the policies in force.
    folder.write("candidate.yaml", POLICIES);
    eventually("it is loaded again", || reported(&server) == [0; 4]);
    send(&server, 1);
    assert_eq!(reported(&server), [0; 4]);
    // A candidate that does not load is counted; the last good version stays.
    folder.write("candidate.yaml", &POLICIES.replace("count(missing) > 0", "count(missing >"));
    eventually("it is broken", || server.metric("modgate_shadow_policies{state=\"broken\"}") > 0);
    send(&server, 1);
    assert_eq!(reported(&server), [0; 4]);
    assert_eq!(server.metric("modgate_policies_broken"), 0);

    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0));
    let logged: Vec<&str> =
        log.lines().filter(|it| it.contains("The shadow decides otherwise")).collect();
    assert_eq!(logged.len(), 4, "{log}");
    assert!(logged[0].contains(r#""class":"allow-to-deny""#), "{}", logged[0]);
    let lines = lines(&folder.path().join("record"));
    let of_shadow = lines.iter().filter(|line| line.path(&["record", "shadow"]).is_some());
    let of_shadow: Vec<&Value> = of_shadow.collect();
    assert_eq!((lines.len(), of_shadow.len()), (15 + 4, 4));
    assert!(
        of_shadow
            .iter()
            .all(|line| { line.path(&["record", "again"]).and_then(Value::as_bool) == Some(true) })
    );
    let message = text(of_shadow[0], &["record", "shadow", "message"]);
    assert!(message.starts_with("[owner] add the labels {\"team\"}"), "{message}");
    // Lines that repeat others are not counted twice.
    let run = folder.run(&["compare", "policies.yaml", "policies.yaml", "record"]);
    assert!(out(&run).contains("\n15 requests: 15 decided alike"), "{}{}", out(&run), errors(&run));
}

#[test]
fn no_secret_is_logged_or_reported() {
    let secret = r#"{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "shop",
        "labels": {"owner": "me"}}, "data": {"password": "aHVudGVyMg=="}}"#;
    let folder = Folder::new(&[("policies.yaml", POLICIES), ("candidate.yaml", &others())]);
    let server =
        folder.serve(&["--shadow", "candidate.yaml", "--record", "record", "--record-sample", "0"]);
    server.review("/v1/admit", &crate::record::review(1, "CREATE", secret, "null"));
    eventually("it is decided again", || decided(&server) == 1);
    assert_eq!(reported(&server), [1, 0, 0, 0]);
    let report = server.get("/shadow");
    let (_, log) = server.end();
    assert!(log.contains("not shown for a Secret"), "{log}");
    let record = folder.path().join("record");
    let lines = lines(&record);
    assert_eq!(lines.len(), 1, "requests that differ are recorded whatever the sample");
    assert_eq!(text(&lines[0], &["record", "shadow", "message"]), "not shown for a Secret");
    let record: String = lines.iter().map(Value::to_json).collect();
    for text in [&report, &log, &record] {
        assert!(!text.contains("aHVudGVyMg==") && !text.contains("hunter2"), "{text}");
    }
}

/// A certificate for `localhost`, signed by itself.
fn certificate(folder: &Folder) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    folder.write("tls.crt", &made.cert.pem());
    folder.write("tls.key", &made.signing_key.serialize_pem());
}

/// Set `MODGATE_REVIEWS` for another number of requests.
#[test]
fn another_modgate_differs_as_declared() {
    let reviews = env::var("MODGATE_REVIEWS").ok().and_then(|number| number.parse().ok());
    let rounds = reviews.unwrap_or(500_usize) / 5;
    let other = Folder::new(&[("policies.yaml", &others())]);
    certificate(&other);
    let second = other.serve(&["--cert", "tls.crt", "--key", "tls.key"]);
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    fs::copy(other.path().join("tls.crt"), folder.path().join("ca.crt")).expect("copied");
    let url = format!("https://localhost:{}", second.address.port());
    let server = folder.serve(&["--shadow-url", &url, "--shadow-ca", "ca.crt"]);
    send(&server, rounds);
    let expected = i64::try_from(rounds).expect("a number");
    assert_eq!(reported(&server), [expected; 4]);
    assert_eq!(server.metric("modgate_shadow_requests_total{result=\"failed\"}"), 0);
}

/// Answers reviews as KubeMod does: those of `v1` cannot be read. Returns how many of these came.
fn answer_v1beta1_only(folder: &Folder, listener: TcpListener) -> Arc<AtomicUsize> {
    let read = |name: &str| fs::read(folder.path().join(name)).expect(name);
    let certificate = CertificateDer::from_pem_slice(&read("tls.crt")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_slice(&read("tls.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|it| it.with_no_client_auth().with_single_cert(vec![certificate], key));
    let config = Arc::new(config.expect("a server"));
    let unread = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&unread);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let connection = ServerConnection::new(Arc::clone(&config)).expect("a connection");
            let mut stream = BufReader::new(StreamOwned::new(connection, stream));
            while let Some(review) = received(&mut stream) {
                let v1beta1 = text(&review, &["apiVersion"]).ends_with("/v1beta1");
                count.fetch_add(usize::from(!v1beta1), Ordering::Relaxed);
                let response = match v1beta1 {
                    true => format!(
                        r#"{{"uid": "{}", "allowed": true}}"#,
                        text(&review, &["request", "uid"])
                    ),
                    false => r#"{"uid": "", "allowed": false, "status": {"code": 400}}"#.to_owned(),
                };
                let body = format!(
                    r#"{{"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {response}}}"#
                );
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                let stream = stream.get_mut();
                stream.write_all((head + &body).as_bytes()).expect("sent");
                stream.flush().expect("sent");
            }
        }
    });
    unread
}

/// The next review of a connection; `None` at its end.
fn received(stream: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some(Value::from_json(&body).expect("JSON"))
}

#[test]
fn a_webhook_that_knows_v1beta1_only_is_asked_so() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let url = format!("https://localhost:{}", listener.local_addr().expect("address").port());
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    certificate(&folder);
    let unread = answer_v1beta1_only(&folder, listener);
    let server = folder.serve(&["--shadow-url", &url, "--shadow-ca", "tls.crt"]);
    let mut connection = server.connect();
    for number in 0..3 {
        connection.review("/v1/admit", &pod(number, "shop", "owner"));
        eventually("it is decided again", || decided(&server) == number as u64 + 1);
    }
    assert_eq!(reported(&server), [0; 4]);
    assert_eq!(server.metric("modgate_shadow_requests_total{result=\"failed\"}"), 0);
    assert_eq!(unread.load(Ordering::Relaxed), 1, "the version is known after the first answer");
}

#[test]
fn a_shadow_that_never_answers_is_never_waited_for() {
    // Connections are accepted by the system, and read by no one.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let folder = Folder::new(&[("policies.yaml", POLICIES)]);
    certificate(&folder);
    let url = format!("https://localhost:{}", silent.local_addr().expect("address").port());
    let args = ["--shadow-url", &url, "--shadow-ca", "tls.crt", "--shadow-timeout", "1s"];
    let server = folder.serve(&args);
    let mut connection = server.connect();
    let mut sent = 0;
    let dropped = |server: &Serving| {
        ["queue_full", "behind"]
            .map(|reason| {
                server.metric(&format!("modgate_shadow_dropped_total{{reason=\"{reason}\"}}"))
            })
            .iter()
            .sum::<u64>()
    };
    eventually("some fail and some are dropped", || {
        for _ in 0..200 {
            let answer = connection.review("/v1/admit", &pod(sent, "shop", "owner"));
            assert_eq!(answer.get("allowed").and_then(Value::as_bool), Some(true));
            sent += 1;
        }
        dropped(&server) > 0 && decided(&server) > 0
    });
    assert_eq!(reported(&server), [0; 4]);
    let (status, log) = server.end();
    assert_eq!(status.code(), Some(0));
    assert_eq!(log.matches("no second decision").count(), 1, "{log}");
}

#[test]
fn what_cannot_be_a_shadow() {
    let folder = Folder::new(&[("policies.yaml", POLICIES), ("empty.pem", "")]);
    let serve = |args: &[&str]| {
        let run = folder.run(
            &[&["serve", "--policies", "policies.yaml", "--address", "127.0.0.1:0"], args].concat(),
        );
        (run.status.code(), errors(&run))
    };
    for (args, expected) in [
        (&["--shadow", "missing"][..], "error: `missing` does not exist"),
        (&["--shadow-url", "http://other"], "`http://other` is not a URL with `https` and a host"),
        (
            &["--shadow-url", "https://other", "--shadow-ca", "missing"],
            "error: cannot read `missing`: ",
        ),
        (
            &["--shadow-url", "https://other", "--shadow-ca", "empty.pem"],
            "no usable certificate authority",
        ),
        (&["--shadow", "policies.yaml", "--shadow-url", "https://other"], "cannot be used with"),
    ] {
        let (code, text) = serve(args);
        assert_eq!(code, Some(2), "{args:?}: {text}");
        assert!(text.contains(expected), "{args:?}: {text}");
    }
}
