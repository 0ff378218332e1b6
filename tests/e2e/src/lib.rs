//! The harness of the end-to-end tests: a running server ([`Running`]), kubectl in few words, load
//! through an API server ([`load`]), a provider of external data ([`provider`]); and the fuzz targets
//! ([`fuzz`]).
//!
//! The API server is [`modgate_testkit::cluster`]'s. Helpers panic when a step fails, and say which; a
//! wait says what it waited for and shows what was seen last.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "for tests, which fail by panicking"
)]

pub mod connection;
pub mod fuzz;
pub mod load;
pub mod originals;
pub mod provider;

use std::{fs, net::SocketAddr, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_cluster::ClusterConfig;
use modgate_engine::api::crds;
use modgate_policies::PolicyFiles;
use modgate_server::{
    Addresses, CertificateSource, PolicyOrigin, ServeConfig, Server, Stopped, runtime,
};
pub use modgate_testkit::{
    client::{self, free_address, is_ready},
    steps::{TIMEOUT, eventually, step, until},
};
use modgate_testkit::{
    cluster::{Cluster, KubectlOutput},
    steps,
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::mpsc, task::JoinHandle};

/// A running server, and the folder with its certificate. It ends when dropped.
pub struct Running {
    pub address: SocketAddr,
    pub metrics: SocketAddr,
    pub folder: TempDir,
    stop: mpsc::Sender<()>,
    served: Option<JoinHandle<Stopped>>,
    pub runtime: Runtime,
}

impl Running {
    fn start(policies: PolicyOrigin, configure: impl FnOnce(&mut ServeConfig)) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).expect("made");
        let (cert, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        fs::write(&cert, made.cert.pem()).expect("written");
        fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let mut config = ServeConfig::new(policies, CertificateSource::Files { cert, key });
        let metrics = free_address().expect("port");
        config.addresses = Addresses {
            webhooks: "127.0.0.1:0".to_owned(),
            metrics: Some(metrics.to_string()),
            ..Addresses::default()
        };
        configure(&mut config);
        let runtime = runtime().expect("runtime");
        let report = |finding: &modgate_value::diag::Diagnostic| eprintln!("{finding}");
        let server = runtime.block_on(Server::start(config, report)).expect("server");
        let address = server.address().expect("address");
        let (stop, asked) = mpsc::channel(1);
        let served = Some(runtime.spawn(server.run_until(asked)));
        Self { address, metrics, folder, stop, served, runtime }
    }

    pub fn of_files(policies: &Path) -> Self {
        let files = PolicyFiles { policies: vec![policies.to_owned()], objects: Vec::new() };
        Self::start(files.into(), |_| {})
    }

    pub fn of_cluster(cluster: &Cluster) -> Self {
        Self::configured(cluster, |_| {})
    }

    /// As [`of_cluster`](Self::of_cluster), but for what `configure` changes.
    pub fn configured(cluster: &Cluster, configure: impl FnOnce(&mut ServeConfig)) -> Self {
        let kubeconfig = Some(cluster.kubeconfig().to_owned());
        let cluster = ClusterConfig { kubeconfig, context: None };
        Self::start(PolicyOrigin::Cluster(cluster), configure)
    }

    /// Stops as a process that gets a signal: it answers every request that it has received.
    pub fn stop(mut self) {
        let _ = self.stop.try_send(());
        if let Some(served) = self.served.take() {
            let _ = self.runtime.block_on(served);
        }
    }

    /// The sum of the metrics with this name and label; 0 without any.
    pub fn metric(&self, name: &str, label: &str) -> u64 {
        self.metrics()
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('{')?.split_once("} "))
            .filter(|(labels, _)| labels.contains(label))
            .map(|(_, value)| value.trim().parse::<u64>().expect("number"))
            .sum()
    }

    /// A metric without labels; 0 without it.
    pub fn plain_metric(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0, |value| value.trim().parse().expect("number"))
    }

    /// The text of all metrics.
    pub fn metrics(&self) -> String {
        client::get(self.metrics, "/metrics").expect("metrics").body
    }

    /// A webhook configuration for ConfigMaps in Namespaces with label `test: <name>`.
    pub fn webhook(&self, name: &str, path: &str) -> String {
        let ca = STANDARD.encode(fs::read(self.folder.path().join("tls.crt")).expect("read"));
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
             metadata: {{name: {name}}}\nwebhooks:\n- name: {name}.modgate.test\n  \
             clientConfig: {{url: 'https://{}{path}', caBundle: {ca}}}\n  \
             rules: [{{apiGroups: [''], apiVersions: [v1], resources: [configmaps], \
             operations: [CREATE]}}]\n  \
             namespaceSelector: {{matchLabels: {{test: {name}}}}}\n  failurePolicy: Fail\n  \
             sideEffects: None\n  admissionReviewVersions: [v1]\n  timeoutSeconds: 10\n",
            self.address
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.stop.try_send(());
        // What is left ends with the runtime.
        let runtime = std::mem::replace(&mut self.runtime, runtime().expect("runtime"));
        runtime.shutdown_background();
    }
}

pub fn kubectl(cluster: &Cluster, arguments: &str, input: &str) -> KubectlOutput {
    cluster.run(arguments.split_whitespace(), input).expect("kubectl")
}

pub fn succeeds(cluster: &Cluster, arguments: &str, input: &str) -> String {
    let outcome = kubectl(cluster, arguments, input);
    assert!(outcome.success, "{}: {arguments}: {}", steps::current(), outcome.stderr);
    outcome.stdout
}

pub fn namespace(cluster: &Cluster, name: &str, test: &str) {
    let text = format!(
        "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{test: {test}}}}}\n"
    );
    succeeds(cluster, "create -f -", &text);
}

/// Our CRDs. kubectl of Kubernetes 1.30 takes a text that does not begin as YAML for JSON to its end.
pub fn our_definitions() -> String {
    let all = crds::all().expect("CRDs");
    all.iter().map(|definition| format!("---\n{}\n", definition.to_json())).collect()
}

/// As little of a CRD as the API server takes.
pub fn definition(group: &str, kind: &str, plural: &str, scope: &str, version: &str) -> String {
    let lower = kind.to_lowercase();
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.{group}}}\nspec:\n  group: {group}\n  scope: {scope}\n  \
         names: {{kind: {kind}, plural: {plural}, singular: {lower}}}\n  versions:\n  \
         - name: {version}\n    served: true\n    storage: true\n    \
         subresources: {{status: {{}}}}\n    schema:\n      openAPIV3Schema: \
         {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n"
    )
}

/// Every file below a folder whose name begins and ends so, one YAML text.
pub fn manifests(folder: &Path, beginning: &str, ending: &str, text: &mut String) {
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("folder").map(|entry| entry.expect("entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("name").to_string_lossy();
        if path.is_dir() {
            manifests(&path, beginning, ending, text);
        } else if name.starts_with(beginning) && name.ends_with(ending) {
            text.push_str("---\n");
            text.push_str(&fs::read_to_string(&path).expect("read"));
            text.push('\n');
        }
    }
}
