//! `docs/client-certificates.md` on a real API server: with the files of that page it calls webhooks that
//! require a client certificate, and without one it cannot.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    fs::{self, File},
    net::{SocketAddr, TcpStream},
    path::Path,
    process::{Child, Command},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_e2e::{eventually, free_address, kubectl, succeeds};
use modgate_testkit::{
    cluster::{Cluster, Options},
    corpus,
};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use tempfile::TempDir;

const POLICY: &str = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: taken, namespace: default}
spec:
  type: Reject
  rejectMessage: this name is taken
  match: [{select: '$.kind', matchValue: ConfigMap}, {select: '$.metadata.name', matchValue: taken}]
";

/// The YAML blocks of the page: the kubeconfig, and the configuration of admission.
fn blocks() -> (String, String) {
    let page = fs::read_to_string(corpus::repository().join("docs/client-certificates.md"));
    let page = page.expect("the page");
    let blocks: Vec<&str> = page
        .split("\n```yaml\n")
        .skip(1)
        .map(|block| block.split("\n```").next().unwrap_or_default())
        .collect();
    let [kubeconfig, configuration] = blocks.as_slice() else { panic!("{blocks:?}") };
    ((*kubeconfig).to_owned(), (*configuration).to_owned())
}

/// An authority, and certificates that it signs.
fn write_certificates(folder: &Path) {
    let write = |name: &str, text: String| fs::write(folder.join(name), text).expect("written");
    let key = KeyPair::generate().expect("key");
    let mut authority = CertificateParams::new(Vec::new()).expect("parameters");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("clients-ca.crt", authority.self_signed(&key).expect("signed").pem());
    let issuer = Issuer::new(authority, key);
    let key = KeyPair::generate().expect("key");
    let mut client = CertificateParams::new(Vec::new()).expect("parameters");
    client.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    write("apiserver.crt", client.signed_by(&key, &issuer).expect("signed").pem());
    write("apiserver.key", key.serialize_pem());
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let serving = rcgen::generate_simple_self_signed(names).expect("made");
    write("tls.crt", serving.cert.pem());
    write("tls.key", serving.signing_key.serialize_pem());
}

struct Modgate(Child);

impl Drop for Modgate {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(folder: &Path, address: SocketAddr) -> Modgate {
    fs::write(folder.join("policy.yaml"), POLICY).expect("written");
    let child = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .arg("serve")
        .arg("--policies")
        .arg(folder.join("policy.yaml"))
        .arg(format!("--address={address}"))
        .args(["--disable-cert-rotation", "--client-ca-name=clients-ca.crt"])
        .arg("--cert-dir")
        .arg(folder)
        .stderr(File::create(folder.join("log")).expect("file"))
        .spawn()
        .expect("modgate");
    Modgate(child)
}

/// Webhooks of both plugins at a host, closed on failure; one is about each kind of request.
fn webhooks(folder: &Path, host: &str) -> String {
    let bundle = STANDARD.encode(fs::read(folder.join("tls.crt")).expect("read"));
    let of = |kind: &str, path: &str| {
        format!(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}WebhookConfiguration\n\
             metadata: {{name: client-certificates}}\n\
             webhooks: [{{name: modgate.example.com, sideEffects: None, failurePolicy: Fail,\n\
             admissionReviewVersions: [v1], clientConfig: {{url: 'https://{host}{path}', caBundle: {bundle}}},\n\
             rules: [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]}}]\n"
        )
    };
    of("Mutating", "/dragnet-webhook") + &of("Validating", "/v1/admit")
}

#[test]
fn an_api_server_shows_its_certificate() {
    let folder = TempDir::new().expect("folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    write_certificates(folder.path());
    let address = free_address().expect("port");
    let (kubeconfig, configuration) = blocks();
    let service = "gatekeeper-webhook-service.gatekeeper-system.svc";
    let files = "/etc/kubernetes/admission/";
    assert!(kubeconfig.contains(service) && configuration.contains(files));
    // Services are not served here: the entry is by host and port.
    let host = format!("localhost:{}", address.port());
    let kubeconfig = kubeconfig.replace(service, &host).replace(files, &at(""));
    fs::write(at("webhooks.kubeconfig"), kubeconfig).expect("written");
    fs::write(at("configuration.yaml"), configuration.replace(files, &at(""))).expect("written");
    let flag = format!("--admission-control-config-file={}", at("configuration.yaml"));
    let options = Options { flags: vec![flag] };
    let Some(cluster) = &Cluster::start(&options).expect("cluster") else { return };
    let _modgate = serve(folder.path(), address);
    eventually("modgate listens", || TcpStream::connect(address).is_ok());
    let create = |name: &str| {
        kubectl(cluster, &format!("create configmap {name} --dry-run=server -o name"), "")
    };

    succeeds(cluster, "apply -f -", &webhooks(folder.path(), &host));
    eventually("requests are sent", || create("taken").stderr.contains("this name is taken"));
    let free = create("free");
    assert!(free.success, "{}", free.stderr);

    // Of this host the kubeconfig has no certificate.
    let stranger = format!("127.0.0.1:{}", address.port());
    succeeds(cluster, "apply -f -", &webhooks(folder.path(), &stranger));
    let refused = |words: &str| {
        let said = create("free").stderr;
        said.contains("failed calling webhook") && said.contains(words)
    };
    eventually("the handshake fails", || refused("certificate required"));
    succeeds(cluster, "apply -f -", &webhooks(folder.path(), &host));
    eventually("requests are sent again", || create("free").success);
}
