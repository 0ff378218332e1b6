//! Client certificates, versions of TLS, and the probe that checks the certificate; no cluster needed.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::{fs, net::SocketAddr, time::Duration};

use modgate_policies::PolicyFiles;
use modgate_server::{
    Addresses, CertificateSource, ClientAuth, ServeConfig, Server, TlsConfig, runtime,
};
use modgate_testkit::{
    client::{self, exchange, free_address},
    steps::eventually,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
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
        let health = free_address().expect("port");
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

    /// Whether a client with this version and this common name gets an answer.
    fn serves(&self, version: &'static SupportedProtocolVersion, name: Option<&str>) -> bool {
        self.serves_as(&self.issuer, version, name)
    }

    fn serves_as(
        &self,
        issuer: &Issuer<'static, KeyPair>,
        version: &'static SupportedProtocolVersion,
        name: Option<&str>,
    ) -> bool {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone()).expect("root");
        let config = client::of(&[version]).expect("version").with_root_certificates(roots);
        let config = match name {
            None => config.with_no_client_auth(),
            Some(name) => {
                let (_, key, der) = issue(issuer, name);
                let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
                config.with_client_auth_cert(vec![der], key).expect("client")
            }
        };
        let answer = client::connect(self.address, config)
            .and_then(|stream| exchange(stream, &client::head("GET", "/healthz", "")));
        answer.is_ok_and(|answer| answer.status == 200)
    }

    /// The answer of the probe once the server is healthy: the probe gives itself less than a second, which a busy
    /// machine may exceed.
    fn good_health(&self) -> String {
        let mut health = client::Response::default();
        eventually("the probe finds the server healthy", || {
            health = client::get(self.health, "/healthz?verbose").expect("an answer");
            health.status == 200
        });
        health.body
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let runtime = std::mem::replace(&mut self.runtime, runtime().expect("runtime"));
        runtime.shutdown_background();
    }
}

#[test]
fn the_lowest_version() {
    for (min, tls12) in [("1.2", true), ("1.1", true), ("1.3", false)] {
        let min_version = min.parse().expect("version");
        let server = Running::start(|_| TlsConfig { min_version, clients: None });
        assert_eq!(server.serves(&version::TLS12, None), tls12, "{min}");
        assert!(server.serves(&version::TLS13, None), "{min}");
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
        assert_eq!(server.serves(&version::TLS13, name), expected, "{name:?}");
        assert!(!server.serves(&version::TLS12, name), "{name:?}");
        assert!(stranger.serves(&version::TLS12, name), "this server requires no certificate");
    }
    // The probe shows no certificate; it checks the one of the server.
    server.good_health();
    // The right name of another authority.
    let name = Some("kube-apiserver");
    assert!(!server.serves_as(&stranger.issuer, &version::TLS13, name));
}

#[test]
fn the_probe_compares_what_is_served() {
    let server = Running::start(|_| TlsConfig::default());
    let health = server.good_health();
    assert!(health.ends_with("[+]default ok\n[+]tls-check ok\nhealthz check passed\n"), "{health}");
}
