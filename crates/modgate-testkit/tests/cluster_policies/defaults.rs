//! The object as admission sees it: a webhook on loopback keeps the object of each request.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use modgate_value::{Value, go::base64::Alphabet, yaml};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use super::{api::Api, text, with};

/// The objects to send.
pub(crate) fn objects() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster_policies/defaults.yaml");
    let text = fs::read_to_string(file).expect("the objects");
    let documents = text.split("\n---\n");
    documents
        .map(|text| yaml::value(text).unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect()
}

/// The kind of the custom resources among the objects.
const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.defaults.test}
spec:
  group: defaults.test
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            default: {}
            properties:
              size: {type: integer, default: 3}
              empty: {type: array, items: {type: string}}
              bare: {type: object}
              either: {x-kubernetes-int-or-string: true}
              map:
                type: object
                additionalProperties: {type: object, properties: {x: {type: integer, default: 1}}}
              parts:
                type: array
                items:
                  type: object
                  properties: {name: {type: string}, up: {type: boolean, default: true}}
              open:
                type: object
                x-kubernetes-preserve-unknown-fields: true
                properties: {shut: {type: object, properties: {q: {type: integer}}}}
              template:
                type: object
                x-kubernetes-embedded-resource: true
                properties: {spec: {type: object, properties: {a: {type: string, default: b}}}}
";

/// Creates the kind of the custom resources; its definition.
pub(crate) fn define(api: &mut Api) -> Value {
    let definition = yaml::value(DEFINITION).expect("YAML");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = api.send("POST", path, Some(&definition));
    assert_eq!(made.code, 201, "{}", made.body);
    let deadline = Instant::now() + Duration::from_secs(60);
    let listed = "/apis/defaults.test/v1/namespaces/default/widgets";
    while api.send("GET", listed, None).code != 200 {
        assert!(Instant::now() < deadline, "the kind is not served");
        thread::sleep(Duration::from_millis(50));
    }
    definition
}

/// A webhook that allows everything.
pub(crate) struct Webhook {
    seen: Arc<Mutex<Option<Value>>>,
    /// Its configuration.
    pub(crate) configuration: Value,
}

impl Webhook {
    pub(crate) fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
        let bundle = Alphabet::Standard.encode(made.cert.pem().as_bytes());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .expect("a certificate");
        let config = Arc::new(config);
        let address = modgate_testkit::client::free_address().expect("an address");
        let listener = TcpListener::bind(address).expect("a listener");
        let seen: Arc<Mutex<Option<Value>>> = Arc::default();
        let kept = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().filter_map(Result::ok) {
                let (config, kept) = (Arc::clone(&config), Arc::clone(&kept));
                thread::spawn(move || {
                    let Ok(connection) = ServerConnection::new(config) else { return };
                    serve(BufReader::new(StreamOwned::new(connection, stream)), &kept);
                });
            }
        });
        let configuration = format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, \
             metadata: {{name: seen}}, webhooks: [{{name: seen.modgate.test, sideEffects: None, \
             admissionReviewVersions: [v1], failurePolicy: Fail, clientConfig: {{url: \
             'https://{address}/', caBundle: {bundle}}}, rules: [{{apiGroups: ['*'], apiVersions: \
             ['*'], operations: [CREATE], resources: ['*']}}]}}]}}"
        );
        Self { seen, configuration: yaml::value(&configuration).expect("YAML") }
    }

    /// The object of the last request, once.
    pub(crate) fn take(&self) -> Option<Value> {
        self.seen.lock().expect("no panic").take()
    }
}

fn serve(
    mut stream: BufReader<StreamOwned<ServerConnection, std::net::TcpStream>>,
    kept: &Mutex<Option<Value>>,
) {
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if !stream.read_line(&mut line).is_ok_and(|read| read > 0) {
                return;
            }
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                if line.trim().is_empty() {
                    break;
                }
                continue;
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        if stream.read_exact(&mut body).is_err() {
            return;
        }
        let review = Value::from_json(&body).unwrap_or_default();
        let uid = text(&review, &["request", "uid"]).to_owned();
        *kept.lock().expect("no panic") = review.path(&["request", "object"]).cloned();
        let answer = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
        );
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
        let sent = format!("{head}{}\r\n\r\n{answer}", answer.len());
        if stream.get_mut().write_all(sent.as_bytes()).is_err() || stream.get_mut().flush().is_err()
        {
            return;
        }
    }
}

/// Values that an API server takes from its cluster, or makes up: no table has them.
const FROM_THE_CLUSTER: [(&str, &[&str]); 12] = [
    ("Pod", &["spec", "tolerations"]),
    ("Pod", &["spec", "priority"]),
    ("Pod", &["spec", "preemptionPolicy"]),
    ("Service", &["spec", "clusterIP"]),
    ("Service", &["spec", "clusterIPs"]),
    ("Service", &["spec", "ipFamilies"]),
    ("Service", &["spec", "ipFamilyPolicy"]),
    ("Job", &["metadata", "labels"]),
    ("Job", &["spec", "selector"]),
    ("Job", &["spec", "template", "metadata", "labels"]),
    ("Node", &["spec", "taints"]),
    ("CustomResourceDefinition", &["status"]),
];

/// An object without what comes from the cluster, and without nulls.
pub(crate) fn comparable(object: &Value) -> Value {
    let kind = text(object, &["kind"]).to_owned();
    let mut object = object.clone();
    for member in [
        "uid",
        "creationTimestamp",
        "managedFields",
        "resourceVersion",
        "generation",
        "namespace",
        "finalizers",
        "annotations",
    ] {
        object = with(&object, &["metadata", member], None);
    }
    if kind == "Namespace" {
        object = with(&object, &["metadata", "labels"], None);
    }
    for (of, path) in FROM_THE_CLUSTER {
        if of == kind && object.path(path).is_some() {
            object = with(&object, path, None);
        }
    }
    if object.path(&["status", "lastPhaseTransitionTime"]).is_some() {
        object = with(&object, &["status", "lastPhaseTransitionTime"], None);
    }
    bare(&object, kind == "Service")
}

fn bare(value: &Value, service: bool) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .filter(|(key, value)| !(value.is_null() || service && key == "nodePort"))
            .map(|(key, value)| (key.clone(), bare(value, service)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| bare(item, service)).collect(),
        scalar => scalar.clone(),
    }
}

/// Where two values differ.
pub(crate) fn differences(theirs: &Value, ours: &Value, path: &str, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for (key, value) in a.iter() {
                let path = format!("{path}.{key}");
                match b.get(key) {
                    Some(other) => differences(value, other, &path, found),
                    None => found.push(format!("{path}: {value} is missing")),
                }
            }
            let more = b.iter().filter(|(key, _)| a.get(key).is_none());
            found.extend(more.map(|(key, value)| format!("{path}.{key}: {value} is too much")));
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b.iter()).enumerate() {
                differences(a, b, &format!("{path}[{index}]"), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => found.push(format!("{path}: {a}, ours {b}")),
    }
}
