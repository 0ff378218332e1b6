//! A client that takes any certificate, and a server of policies in a folder.

#![allow(dead_code, unreachable_pub, reason = "no test needs all of it")]

use std::net::SocketAddr;

use modgate_policies::PolicyFiles;
use modgate_server::{Addresses, CertificateSource, ServeConfig, Server, Stopped, runtime};
use modgate_testkit::client::{self, Response, TlsConnection, exchange, free_address};
use modgate_value::Value;
use rustls::ClientConfig;
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::mpsc, task::JoinHandle};

/// A running server; it ends when dropped, whatever it is doing.
pub struct Running {
    pub address: SocketAddr,
    pub health: SocketAddr,
    pub metrics: SocketAddr,
    _folder: TempDir,
    _stop: mpsc::Sender<()>,
    _served: JoinHandle<Stopped>,
    runtime: Option<Runtime>,
}

impl Running {
    pub fn start(policies: &str, configure: impl FnOnce(&mut ServeConfig)) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("policies.yaml"), policies).expect("written");
        let files = PolicyFiles { policies: vec![folder.path().to_owned()], objects: Vec::new() };
        let certificate = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
        let mut config = ServeConfig::new(files, certificate);
        let [health, metrics] = [(); 2].map(|()| free_address().expect("port"));
        config.addresses = Addresses {
            webhooks: "127.0.0.1:0".to_owned(),
            health: Some(health.to_string()),
            metrics: Some(metrics.to_string()),
            ..Addresses::default()
        };
        configure(&mut config);
        let runtime = runtime().expect("runtime");
        let report = |finding: &modgate_value::diag::Diagnostic| panic!("{finding}");
        let server = runtime.block_on(Server::start(config, report)).expect("server");
        let address = server.address().expect("address");
        let (stop, asked) = mpsc::channel(1);
        let served = runtime.spawn(server.run_until(asked));
        Self {
            address,
            health,
            metrics,
            _folder: folder,
            _stop: stop,
            _served: served,
            runtime: Some(runtime),
        }
    }

    /// The response to a review, on a connection of its own.
    pub fn review(&self, path: &str, review: &str) -> Value {
        let answer = self.post(path, review);
        let review = Value::from_json(answer.body.as_bytes()).expect(&answer.body);
        review.get("response").expect("response").clone()
    }

    pub fn post(&self, path: &str, body: &str) -> Response {
        exchange(connect(self.address), &client::post(path, body)).expect("an answer")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The answer of plain HTTP.
pub fn get(address: SocketAddr, path: &str) -> Response {
    client::get(address, path).expect("an answer")
}

/// A connection after its handshake.
pub fn connect(address: SocketAddr) -> TlsConnection {
    client::connect(address, trusting(&[])).expect("connected")
}

/// The settings of a client that speaks these protocols.
pub fn trusting(protocols: &[&str]) -> ClientConfig {
    let mut config =
        client::trusting(rustls::DEFAULT_VERSIONS).expect("versions").with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}
