//! External data end to end: policies in files, webhooks over HTTPS, and a provider that wants to
//! know who asks.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

use std::{fs, path::Path, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::{
    Method,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
};
use modgate_http::{Bounds, Client, Outgoing, Trust};
use modgate_policies::PolicyFiles;
use modgate_server::{Addresses, CertificateSource, ServeConfig, Server};
use modgate_value::Value;
use rcgen::ExtendedKeyUsagePurpose::{ClientAuth, ServerAuth};
use rustls::version::TLS13;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use modgate_e2e::{
    TIMEOUT,
    provider::{Authority, Dummy, Presented, object},
};

const POLICIES: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: knownimages}
spec:
  crd: {spec: {names: {kind: KnownImages}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package knownimages
      answer := external_data({"provider": "images", "keys": images})
      images := [image | image := input.review.object.spec.containers[_].image]
      violation[{"msg": msg}] {
        error := answer.errors[_]
        msg := sprintf("%v: %v", [error[0], error[1]])
      }
      violation[{"msg": answer.system_error}] { answer.system_error != "" }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: KnownImages
metadata: {name: known-images}
spec: {match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: images}
spec:
  applyTo: [{groups: [""], versions: [v1], kinds: [Pod]}]
  location: 'spec.containers[name:*].image'
  parameters: {assign: {externalData: {provider: images, dataSource: ValueAtLocation, failurePolicy: Fail}}}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: owner}
spec:
  location: metadata.annotations.owner
  parameters: {assign: {externalData: {provider: images, dataSource: Username}}}
"#;

struct Setup {
    server: std::net::SocketAddr,
    client: Client,
    folder: tempfile::TempDir,
    dummy: Dummy,
    _stop: mpsc::Sender<()>,
}

impl Setup {
    async fn new() -> Self {
        let (engines, providers) = (Authority::new("engine-ca"), Authority::new("provider-ca"));
        let leaf = providers.leaf("localhost", ServerAuth);
        let presented = Presented { leaf: &leaf, clients: Some(&engines), version: &TLS13 };
        let dummy = Dummy::start(presented).await;

        let folder = tempfile::tempdir().expect("folder");
        let certificate = engines.leaf_for("localhost", vec![ServerAuth, ClientAuth]);
        let files = tempfile::tempdir().expect("folder");
        let (cert, key) = (files.path().join("tls.crt"), files.path().join("tls.key"));
        fs::write(&cert, &certificate.cert_pem).expect("write");
        fs::write(&key, &certificate.key_pem).expect("write");
        fs::write(folder.path().join("policies.yaml"), POLICIES).expect("write");
        let provider = object("images", &dummy.url("/validate"), 5, &providers.pem);
        write(folder.path(), "provider.json", &provider.to_json());

        let policies =
            PolicyFiles { policies: vec![folder.path().to_owned()], objects: Vec::new() };
        let mut config = ServeConfig::new(policies, CertificateSource::Files { cert, key });
        config.addresses = Addresses { webhooks: "127.0.0.1:0".to_owned(), ..Addresses::default() };
        config.poll = Duration::from_millis(20);
        let report = |_: &modgate_value::diag::Diagnostic| {};
        let server = Server::start(config, report).await.expect("server");
        let address = server.address().expect("address");
        let (stop, stopping) = mpsc::channel(1);
        tokio::spawn(server.run_until(stopping));
        let trust = Trust::Only { roots: vec![engines.der.to_vec()], identity: None };
        let client = Client::new(trust).expect("client");
        Self { server: address, client, folder, dummy, _stop: stop }
    }

    /// The answer of a webhook about a Pod with these images.
    async fn ask(&self, path: &str, images: &[&str]) -> Value {
        let containers: Vec<String> = images
            .iter()
            .enumerate()
            .map(|(index, image)| format!(r#"{{"name": "c{index}", "image": "{image}"}}"#))
            .collect();
        let body = format!(
            r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {{
                "uid": "u", "operation": "CREATE", "name": "p", "namespace": "default",
                "kind": {{"group": "", "version": "v1", "kind": "Pod"}},
                "resource": {{"group": "", "version": "v1", "resource": "pods"}},
                "userInfo": {{"username": "jo"}},
                "object": {{"apiVersion": "v1", "kind": "Pod",
                    "metadata": {{"name": "p", "namespace": "default"}},
                    "spec": {{"containers": [{}]}}}}}}}}"#,
            containers.join(", ")
        );
        let url = format!("https://localhost:{}{path}", self.server.port());
        let outgoing = Outgoing {
            method: Method::POST,
            url: url.parse().expect("url"),
            headers: vec![(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
            body: Bytes::from(body),
        };
        let bounds =
            Bounds { deadline: Instant::now() + Duration::from_secs(30), body_bytes: 1 << 20 };
        let incoming = self.client.exchange(outgoing, bounds).await.expect("an answer");
        let review = Value::from_json(&incoming.body).expect("JSON");
        review.get("response").expect("a response").clone()
    }

    /// Whether a scrape has all of these lines.
    async fn measures(&self, lines: &[&str]) -> bool {
        let url = format!("https://localhost:{}/metrics", self.server.port());
        let outgoing = Outgoing::get(url.parse().expect("url"));
        let bounds =
            Bounds { deadline: Instant::now() + Duration::from_secs(30), body_bytes: 1 << 20 };
        let incoming = self.client.exchange(outgoing, bounds).await.expect("metrics");
        let text = String::from_utf8_lossy(&incoming.body).into_owned();
        lines.iter().all(|line| text.lines().any(|found| found == *line))
    }

    /// The message of `/v1/admit`; empty when it allows.
    async fn admit(&self, images: &[&str]) -> String {
        message(&self.ask("/v1/admit", images).await)
    }
}

fn message(response: &Value) -> String {
    let message = response.path(&["status", "message"]).and_then(Value::as_str);
    let allowed = response.get("allowed") == Some(&Value::Bool(true));
    assert!(allowed == message.unwrap_or_default().is_empty(), "{response}");
    message.unwrap_or_default().to_owned()
}

/// In one step, so that no half-written file is seen.
fn write(folder: &Path, name: &str, text: &str) {
    let fresh = folder.join(".fresh");
    fs::write(&fresh, text).expect("write");
    fs::rename(fresh, folder.join(name)).expect("rename");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constraints_ask_providers() {
    let setup = Setup::new().await;
    assert_eq!(setup.admit(&["nginx", "busybox"]).await, "");
    assert_eq!(setup.admit(&["error_a", "nginx"]).await, "[known-images] error_a: error_a_invalid");
    assert_eq!(setup.admit(&["x_systemError"]).await, "[known-images] testing system error");
    assert_eq!(
        setup.dummy.keys(),
        [vec!["nginx", "busybox"], vec!["error_a"], vec!["x_systemError"]],
        "each question once, known answers not at all"
    );

    // Half-edited, the file's last good Provider stays; gone, there is none.
    write(setup.folder.path(), "provider.json", "{");
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(setup.admit(&["fresh"]).await, "");
    let good =
        ["gatekeeper_provider_error_count_total 0", r#"gatekeeper_providers{status="active"} 1"#];
    assert!(setup.measures(&good).await);
    let insecure = object("images", "http://localhost/", 5, "");
    write(setup.folder.path(), "provider.json", &insecure.to_json());
    let bad =
        ["gatekeeper_provider_error_count_total 1", r#"gatekeeper_providers{status="error"} 1"#];
    let waiting = async { while !setup.measures(&bad).await {} };
    timeout(TIMEOUT, waiting).await.expect("the broken Provider is counted");
    fs::remove_file(setup.folder.path().join("provider.json")).expect("remove");
    let unknown = "[known-images] key is not found in provider cache";
    let mut last = String::new();
    for index in 0..200 {
        last = setup.admit(&[&format!("new-{index}")]).await;
        if last == unknown {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(last, unknown);
    assert_eq!(setup.admit(&["nginx"]).await, unknown, "what it said is forgotten");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutators_ask_providers() {
    let setup = Setup::new().await;
    let response = setup.ask("/v1/mutate", &["nginx", "busybox", "nginx"]).await;
    assert_eq!(message(&response), "", "{response}");
    let patch = response.get("patch").and_then(Value::as_str).expect("a patch");
    let patch = String::from_utf8(STANDARD.decode(patch).expect("base64")).expect("text");
    for value in [r#""nginx_valid""#, r#""busybox_valid""#, r#""jo_valid""#] {
        assert!(patch.contains(value), "{value}: {patch}");
    }
    assert_eq!(setup.dummy.keys(), [vec!["busybox", "jo", "nginx"]]);

    let response = setup.ask("/v1/mutate", &["error_a"]).await;
    assert_eq!(response.path(&["status", "code"]), Some(&Value::from(500)));
    assert_eq!(
        message(&response),
        "failed to resolve external data placeholders: failed to retrieve external data item from \
         provider images: error_a_invalid"
    );
}
