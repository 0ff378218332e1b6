//! A client that takes any certificate, and a server of policies in a folder.

#![allow(dead_code, unreachable_pub, reason = "no test needs all of it")]

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::Duration,
};

use modgate_policies::PolicyFiles;
use modgate_server::{Addresses, CertificateSource, ServeConfig, Server, Stopped, runtime};
use modgate_value::Value;
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::mpsc, task::JoinHandle};

/// Longer than anything here takes, on any machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

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

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("port")
}

impl Running {
    pub fn start(policies: &str, configure: impl FnOnce(&mut ServeConfig)) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::write(folder.path().join("policies.yaml"), policies).expect("written");
        let files = PolicyFiles { policies: vec![folder.path().to_owned()], objects: Vec::new() };
        let certificate = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
        let mut config = ServeConfig::new(files, certificate);
        let (health, metrics) = (free_address(), free_address());
        config.addresses = Addresses {
            webhooks: "127.0.0.1:0".to_owned(),
            health: Some(health.to_string()),
            metrics: Some(metrics.to_string()),
            dry_run: None,
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
        let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
        let review = Value::from_json(body.as_bytes()).expect(&answer);
        review.get("response").expect("response").clone()
    }

    pub fn post(&self, path: &str, body: &str) -> String {
        let mut stream = connect(self.address);
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(body.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("received");
        answer
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
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(TIMEOUT)).expect("set");
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("received");
    answer
}

/// A connection after its handshake.
pub fn connect(address: SocketAddr) -> StreamOwned<ClientConnection, TcpStream> {
    let tcp = TcpStream::connect(address).expect("connected");
    tcp.set_read_timeout(Some(TIMEOUT)).expect("set");
    let name = ServerName::try_from("localhost").expect("name");
    let connection = ClientConnection::new(Arc::new(client(&[])), name).expect("connection");
    let mut stream = StreamOwned::new(connection, tcp);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("handshake");
    }
    stream
}

/// The settings of a client that speaks these protocols.
pub fn client(protocols: &[&str]) -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Takes the certificate as it is: the server made it a moment ago.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
