//! Who may connect, with which version of TLS, and what the probe of it says; no cluster needed.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    time::{Duration, Instant},
};

use modgate_policies::PolicyFiles;
use modgate_server::{
    Addresses, CertificateSource, ClientAuth, ServeConfig, Server, TlsConfig, runtime,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    version,
};
use tempfile::TempDir;
use tokio::{runtime::Runtime, sync::mpsc};

struct Running {
    address: SocketAddr,
    health: SocketAddr,
    _folder: TempDir,
    authority: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    _stop: mpsc::Sender<()>,
    runtime: Runtime,
}

/// A certificate for a name, and its key.
fn issue(
    issuer: &Issuer<'static, KeyPair>,
    name: &str,
) -> (rcgen::Certificate, KeyPair, CertificateDer<'static>) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("key");
    let certificate = params.signed_by(&key, issuer).expect("certificate");
    let der = certificate.der().clone();
    (certificate, key, der)
}

impl Running {
    fn start(tls: impl FnOnce(&TempDir) -> TlsConfig) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "ca");
        let key = KeyPair::generate().expect("key");
        let authority = params.self_signed(&key).expect("authority");
        let issuer = Issuer::new(params, key);
        let (certificate, key, _) = issue(&issuer, "server");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("ca.crt"), authority.pem()).expect("written");
        fs::write(path("tls.crt"), certificate.pem()).expect("written");
        fs::write(path("tls.key"), key.serialize_pem()).expect("written");
        let certificate = CertificateSource::Files { cert: path("tls.crt"), key: path("tls.key") };
        let files = PolicyFiles { policies: Vec::new(), objects: Vec::new() };
        let mut config = ServeConfig::new(files, certificate);
        let free = TcpListener::bind("127.0.0.1:0").expect("port");
        let health = free.local_addr().expect("address");
        drop(free);
        config.addresses = Addresses {
            webhooks: "127.0.0.1:0".to_owned(),
            health: Some(health.to_string()),
            ..Addresses::default()
        };
        config.tls = tls(&folder);
        config.tls_health_check = true;
        config.poll = Duration::from_millis(20);
        let runtime = runtime().expect("runtime");
        let server = runtime.block_on(Server::start(config, |_| {})).expect("server");
        let address = server.address().expect("address");
        let (stop, asked) = mpsc::channel(1);
        runtime.spawn(server.run_until(asked));
        let authority = authority.der().clone();
        Self { address, health, _folder: folder, authority, issuer, _stop: stop, runtime }
    }

    /// What `/healthz` answers to a client with this version and this common name; the error if
    /// there is no connection.
    fn ask(
        &self,
        version: &'static SupportedProtocolVersion,
        name: Option<&str>,
    ) -> Result<String, String> {
        self.ask_as(&self.issuer, version, name)
    }

    fn ask_as(
        &self,
        issuer: &Issuer<'static, KeyPair>,
        version: &'static SupportedProtocolVersion,
        name: Option<&str>,
    ) -> Result<String, String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).expect("root");
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .expect("version")
            .with_root_certificates(roots);
        let config = match name {
            None => config.with_no_client_auth(),
            Some(name) => {
                let (_, key, der) = issue(issuer, name);
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
                config.with_client_auth_cert(vec![der], key).expect("client")
            }
        };
        let server = ServerName::try_from("localhost").expect("name");
        let connection = ClientConnection::new(Arc::new(config), server).expect("connection");
        let stream = TcpStream::connect(self.address).expect("connect");
        let mut stream = StreamOwned::new(connection, stream);
        let mut answer = String::new();
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .and_then(|()| stream.read_to_string(&mut answer))
            .map(|_| answer)
            .map_err(|error| error.to_string())
    }

    /// What the probe says once it says that all is well: it gives itself less than a second, which
    /// a busy machine may need longer for.
    fn good_health(&self) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let health = self.health();
            if health.starts_with("HTTP/1.1 200 ") {
                return health;
            }
            assert!(Instant::now() < deadline, "{health}");
        }
    }

    fn health(&self) -> String {
        let mut stream = TcpStream::connect(self.health).expect("connect");
        let request = "GET /healthz?verbose HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("received");
        answer
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let runtime = std::mem::replace(&mut self.runtime, runtime().expect("runtime"));
        runtime.shutdown_background();
    }
}

fn is_ok(answer: &Result<String, String>) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

#[test]
fn the_lowest_version() {
    for (min, tls12) in [("1.2", true), ("1.1", true), ("1.3", false)] {
        let min_version = min.parse().expect("version");
        let server = Running::start(|_| TlsConfig { min_version, clients: None });
        assert_eq!(is_ok(&server.ask(&version::TLS12, None)), tls12, "{min}");
        assert!(is_ok(&server.ask(&version::TLS13, None)), "{min}");
    }
}

/// And the lowest version stays what it was.
#[test]
fn clients_that_must_show_who_they_are() {
    let server = Running::start(|folder| TlsConfig {
        min_version: "1.3".parse().expect("version"),
        clients: Some(ClientAuth {
            authorities: folder.path().join("ca.crt"),
            common_name: "kube-apiserver".to_owned(),
        }),
    });
    let stranger = Running::start(|_| TlsConfig::default());
    for (name, expected) in
        [(None, false), (Some("somebody"), false), (Some("kube-apiserver"), true)]
    {
        assert_eq!(is_ok(&server.ask(&version::TLS13, name)), expected, "{name:?}");
        assert!(!is_ok(&server.ask(&version::TLS12, name)), "{name:?}");
        assert!(is_ok(&stranger.ask(&version::TLS12, name)), "nobody is asked there");
    }
    // The probe shows none, and is about what the server shows.
    server.good_health();
    // The right name of another authority.
    let name = Some("kube-apiserver");
    assert!(!is_ok(&server.ask_as(&stranger.issuer, &version::TLS13, name)));
}

#[test]
fn the_probe_compares_what_is_served() {
    let server = Running::start(|_| TlsConfig::default());
    let health = server.good_health();
    assert!(health.ends_with("[+]default ok\n[+]tls-check ok\nhealthz check passed\n"), "{health}");
}
