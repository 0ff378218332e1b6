//! The fuzz targets, and two that feed the whole of `modgate serve` without a socket: any bytes as an HTTP request, and any
//! AdmissionReview on any route, with policies of every kind loaded.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use axum::{
    Router,
    body::Body,
    http::{Method, Request, StatusCode, header},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http_body_util::BodyExt as _;
use hyper::server::conn::http1;
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use modgate_engine::EngineConfig;
use modgate_policies::PolicyFiles;
use modgate_server::{Addresses, CertificateSource, ServeConfig, Server};
use modgate_value::{Limits, Value, diag::Severity};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    runtime::Runtime,
};
use tower::ServiceExt as _;

use modgate_testkit::{
    corpus,
    fuzz::{LIMITS, TARGETS, Target, elements},
};

/// Every target: those of `modgate_testkit` and the two of the server.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    TARGETS.iter().chain(SERVER)
}

/// The target of this name.
pub fn named(name: &str) -> Option<&'static Target> {
    targets().find(|target| target.name == name)
}

const SERVER: &[Target] = &[
    Target { name: "review", run: review, seeds: seeds_review },
    Target { name: "http", run: http, seeds: seeds_http },
];

/// A folder of policies that are loaded besides, such as the public Gatekeeper library.
const MORE_POLICIES: &str = "MODGATE_FUZZ_POLICIES";

/// Routes an AdmissionReview is posted to; the first byte of an input names one.
const ROUTES: &[&str] = &[
    "/dragnet-webhook",
    "/podbinding-webhook",
    "/mutate-api-kubemod-io-v1beta1-modrule",
    "/validate-api-kubemod-io-v1beta1-modrule",
    "/mutate",
    "/validate",
    "/v1/admit",
    "/v1/admitlabel",
    "/v1/mutate",
    "/v1/policies/mutate",
    "/v1/policies/validate",
    "/v1/dryrun",
];

/// The server under test, made once.
struct Edge {
    runtime: Runtime,
    router: Router,
}

static EDGE: LazyLock<Edge> =
    LazyLock::new(|| Edge::start(std::env::var_os(MORE_POLICIES).map(PathBuf::from)));

/// Policies of every kind.
const POLICIES: &[&str] = &[
    "examples/quickstart/modrules.yaml",
    "examples/gatekeeper/template.yaml",
    "examples/gatekeeper/constraint.yaml",
    "examples/gatekeeper/mutator.yaml",
    "examples/gatekeeper/expansion.yaml",
    "fuzz/policies.yaml",
];

impl Edge {
    /// The server with [`POLICIES`], and those of a folder of others.
    #[expect(clippy::expect_used, reason = "without a server there is no test")]
    fn start(more: Option<PathBuf>) -> Self {
        let own: Vec<PathBuf> =
            POLICIES.iter().map(|file| corpus::repository().join(file)).collect();
        let policies = own.iter().cloned().chain(more).collect();
        let files = PolicyFiles { policies, objects: Vec::new() };
        let names = vec!["localhost".to_owned()];
        let mut config = ServeConfig::new(files, CertificateSource::SelfSigned { names });
        // Nothing listens.
        config.addresses = Addresses {
            webhooks: String::new(),
            health: None,
            metrics: None,
            dry_run: None,
            ui: None,
        };
        config.evaluators = 1;
        // Time would make answers depend on the machine.
        let limits = Limits { steps: 1_000_000, ..LIMITS };
        config.engine =
            EngineConfig { request_limits: limits, rule_limits: LIMITS, ..EngineConfig::default() };
        let runtime = modgate_server::runtime().expect("a runtime");
        let server = runtime
            .block_on(Server::start(config, move |finding| {
                // A folder of others may have policies with warnings, and some that do not load.
                let file = finding.source.as_ref().map(|source| Path::new(&*source.name));
                let is_own = file.is_some_and(|file| own.iter().any(|own| own == file));
                assert!(
                    !is_own || finding.severity != Severity::Error,
                    "a policy does not load: {finding}"
                );
            }))
            .expect("a server");
        Self { runtime, router: server.router() }
    }

    fn post(&self, route: &str, body: &[u8]) -> (StatusCode, Vec<u8>) {
        let method = if route == "/v1/dryrun" { Method::PUT } else { Method::POST };
        let mut request = Request::new(Body::from(body.to_vec()));
        *request.method_mut() = method;
        if let Ok(uri) = route.parse() {
            *request.uri_mut() = uri;
        }
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json);
        let router = self.router.clone();
        let answer = async move {
            let Ok(response) = router.oneshot(request).await;
            let (head, body) = response.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes().to_vec());
            (head.status, body.unwrap_or_default())
        };
        // On a worker, as requests are. A panic there has been recorded by the hook.
        let answer = self.runtime.block_on(self.runtime.spawn(answer));
        answer.unwrap_or((StatusCode::INTERNAL_SERVER_ERROR, Vec::new()))
    }
}

/// A route and an AdmissionReview: the answer is one, to this request, its patch is one, and the
/// same request is decided in the same way again.
pub fn review(data: &[u8]) {
    let Some((first, body)) = data.split_first() else { return };
    let Some(route) = ROUTES.get(usize::from(*first) % ROUTES.len()) else { return };
    let (status, answer) = EDGE.post(route, body);
    let shown = || {
        format!("{route} {:?} {}", String::from_utf8_lossy(body), String::from_utf8_lossy(&answer))
    };
    let again = EDGE.post(route, body);
    // Texts may differ: those about failed mutations carry an id of the request.
    assert_eq!(decision(status, &answer), decision(again.0, &again.1), "{}", shown());
    let (Ok(sent), Ok(answer)) = (Value::from_json(body), Value::from_json(&answer)) else {
        return;
    };
    let Some(response) = answer.get("response").filter(|_| status == StatusCode::OK) else {
        return;
    };
    assert!(response.get("allowed").is_some_and(|it| it.as_bool().is_some()), "{}", shown());
    let uid =
        |value: &Value, key| value.path(&[key, "uid"]).and_then(Value::as_str).map(str::to_owned);
    if let Some(sent) = uid(&sent, "request") {
        assert_eq!(uid(&answer, "response"), Some(sent), "{}", shown());
    }
    if let Some(patch) = response.get("patch") {
        let patch = patch.as_str().and_then(|text| STANDARD.decode(text).ok());
        let patch = patch.and_then(|bytes| Value::from_json(&bytes).ok());
        assert!(patch.is_some_and(|patch| patch.as_array().is_some()), "{}", shown());
    }
}

/// The decision in an answer.
fn decision(status: StatusCode, answer: &[u8]) -> (StatusCode, [Option<Value>; 3]) {
    let answer = Value::from_json(answer).unwrap_or_default();
    let member = |path: &[&str]| answer.path(&[&["response"], path].concat()).cloned();
    (status, [member(&["allowed"]), member(&["patch"]), member(&["status", "code"])])
}

/// The bytes of one connection: every answer is HTTP, and the connection comes to its end.
pub fn http(data: &[u8]) {
    let answers = EDGE.runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        let service = TowerToHyperService::new(EDGE.router.clone());
        let served = EDGE
            .runtime
            .spawn(http1::Builder::new().serve_connection(TokioIo::new(server), service));
        let sent = client.write_all(data).await.is_ok() && client.shutdown().await.is_ok();
        let mut answers = Vec::new();
        let read = client.read_to_end(&mut answers).await;
        // A request that is cut off is an error of the connection, and of nothing else.
        let _ = (sent, read, served.await);
        answers
    });
    assert!(
        answers.is_empty() || answers.starts_with(b"HTTP/1."),
        "{:?}: {:?}",
        String::from_utf8_lossy(data),
        String::from_utf8_lossy(&answers)
    );
}

/// A review of the creation of `object`.
fn wrapped(object: &Value) -> String {
    let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
    let (group, version) =
        text(&["apiVersion"]).split_once('/').unwrap_or(("", text(&["apiVersion"])));
    let kind = text(&["kind"]);
    let quoted = |text: &str| Value::from(text).to_json();
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u-1","kind":{{"group":{0},"version":{1},"kind":{2}}},"resource":{{"group":{0},"version":{1},"resource":{3}}},"name":{4},"namespace":{5},"operation":"CREATE","userInfo":{{"username":"fuzz"}},"object":{6}}}}}"#,
        quoted(group),
        quoted(version),
        quoted(kind),
        quoted(&format!("{}s", kind.to_lowercase())),
        quoted(text(&["metadata", "name"])),
        quoted(text(&["metadata", "namespace"])),
        object.to_json()
    )
}

/// Objects of a corpus.
fn objects(document: &Value) -> impl Iterator<Item = &Value> {
    let requests = elements(document, "scenarios").flat_map(|it| elements(it, "requests"));
    let scenarios = requests.filter_map(|request| request.get("object"));
    let cases = elements(document, "cases").filter_map(|case| case.get("object"));
    let rules = elements(document, "scenarios").flat_map(|scenario| elements(scenario, "rules"));
    scenarios.chain(cases).chain(rules).filter(|object| object.as_object().is_some())
}

/// One in so many objects, each on a route of its own.
const ONE_IN: usize = 5;

fn seeds_review(name: &str, document: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name == "kubemod/readme.json" {
        // Objects that the loaded policies are about, on every route.
        for object in own_objects() {
            for route in 0..ROUTES.len() {
                let route = u8::try_from(route).unwrap_or_default();
                seeds.push([&[route], wrapped(&object).as_bytes()].concat());
            }
        }
    }
    for (index, object) in objects(document).enumerate().filter(|(at, _)| at % ONE_IN == 0) {
        let route = u8::try_from(index / ONE_IN % ROUTES.len()).unwrap_or_default();
        seeds.push([&[route], wrapped(object).as_bytes()].concat());
    }
}

fn seeds_http(name: &str, _: &Value, seeds: &mut Vec<Vec<u8>>) {
    if name != "kubemod/readme.json" {
        return;
    }
    for (index, object) in own_objects().iter().enumerate() {
        let body = wrapped(object);
        let length = body.len();
        for route in ROUTES.iter().skip(index % 2).step_by(2) {
            let head = format!("POST {route}?timeout=10s HTTP/1.1\r\nHost: h\r\n");
            let json = "Content-Type: application/json\r\n";
            let whole = format!("{head}{json}Content-Length: {length}\r\n\r\n{body}");
            let chunked = format!(
                "{head}{json}Transfer-Encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n"
            );
            // One after the other on one connection.
            seeds.push(format!("{whole}{chunked}").into_bytes());
            seeds.push(chunked.into_bytes());
            seeds.push(whole.into_bytes());
        }
    }
    for path in ["/healthz", "/readyz", "/metrics", "/", "/v1/dryrun"] {
        seeds.push(
            format!("GET {path} HTTP/1.1\r\nHost: h\r\nAccept: text/plain\r\n\r\n").into_bytes(),
        );
        seeds.push(format!("PUT {path} HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").into_bytes());
    }
}

/// The objects in `examples` and `fuzz`, and the policies there, which are reviewed, too.
fn own_objects() -> Vec<Value> {
    let folder = corpus::repository();
    let files = [
        "examples/quickstart/debug-pod.yaml",
        "examples/quickstart/deployment.yaml",
        "examples/quickstart/modrules.yaml",
        "examples/gatekeeper/objects/large.yaml",
        "examples/gatekeeper/template.yaml",
        "examples/gatekeeper/constraint.yaml",
        "examples/gatekeeper/mutator.yaml",
        "fuzz/policies.yaml",
        "fuzz/objects.yaml",
    ];
    let texts = files.iter().filter_map(|file| std::fs::read_to_string(folder.join(file)).ok());
    let mut objects: Vec<Value> = Vec::new();
    for text in texts {
        let documents = modgate_value::yaml::documents(&text).filter_map(Result::ok);
        objects
            .extend(documents.map(|document| document.value).filter(|it| it.as_object().is_some()));
    }
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_others_that_do_not_load_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let rule = |name: &str, select: &str| {
            format!(
                "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
                 metadata: {{name: {name}, namespace: other}}\n\
                 spec: {{type: Reject, rejectMessage: not here, match: [{{select: '{select}'}}]}}\n"
            )
        };
        let texts = [("broken", "$.kind =="), ("whole", "$.kind")];
        for (name, select) in texts {
            let file = folder.path().join(format!("{name}.yaml"));
            std::fs::write(file, rule(name, select)).expect("written");
        }
        let edge = Edge::start(Some(folder.path().to_owned()));
        let object = Value::from_json(
            br#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "other"}}"#,
        );
        let review = wrapped(&object.expect("an object"));
        let (_, answer) = edge.post("/dragnet-webhook", review.as_bytes());
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.contains("other/whole"), "{answer}");
    }
}
