//! Checks that the webhooks' listener presents the expected certificate (spec
//! `gatekeeper-validation`, HE-1).

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::Certificates;

/// Shorter than the default timeout of a probe, one second.
const TIMEOUT: Duration = Duration::from_millis(900);

/// Connects to this process and compares the presented certificate with the expected one.
#[derive(Debug)]
pub(crate) struct LoopbackCheck {
    address: SocketAddr,
    certificates: Arc<Certificates>,
}

impl LoopbackCheck {
    /// A check of the listener on this address, which may be a wildcard.
    pub(crate) fn new(mut address: SocketAddr, certificates: Arc<Certificates>) -> Self {
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        Self { address, certificates }
    }

    pub(crate) async fn run(&self) -> Result<(), String> {
        match timeout(TIMEOUT, self.compare()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no TLS connection to {} in time", self.address)),
        }
    }

    async fn compare(&self) -> Result<(), String> {
        let wanted = self.certificates.chain().ok_or("no certificate to serve yet")?;
        let failed = |error: &dyn std::fmt::Display| {
            format!("no TLS connection to {}: {error}", self.address)
        };
        let provider = Arc::new(ring::default_provider());
        let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anything(provider)))
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await.map_err(|error| failed(&error))?;
        let name = ServerName::from(self.address.ip());
        let stream = TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .map_err(|error| failed(&error))?;
        let served = stream.get_ref().1.peer_certificates().unwrap_or_default();
        if served == wanted {
            Ok(())
        } else {
            Err("another certificate is served than should be".to_owned())
        }
    }
}

/// Accepts any certificate; the caller compares it afterwards.
#[derive(Debug)]
struct Anything(Arc<CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::tls::{CertificateSource, TlsConfig};

    /// Creates a new certificate on each call.
    fn certificates() -> Arc<Certificates> {
        let source = CertificateSource::SelfSigned { names: vec!["localhost".to_owned()] };
        Certificates::load(&source).expect("made")
    }

    /// Starts a TLS server with these certificates.
    async fn serve(certificates: &Arc<Certificates>, tls: &TlsConfig) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        let acceptor = TlsAcceptor::from(Arc::new(certificates.server_config(tls).expect("TLS")));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = acceptor.accept(stream).await;
            }
        });
        address
    }

    #[tokio::test]
    async fn the_certificate_that_is_shown_is_compared() {
        let (wanted, other) = (certificates(), certificates());
        let address = serve(&wanted, &TlsConfig::default()).await;
        let check = |wanted: &Arc<Certificates>, address| {
            let check = LoopbackCheck::new(address, Arc::clone(wanted));
            // Without the timeout of a probe, which a busy machine may miss.
            async move { check.compare().await }
        };
        assert_eq!(check(&wanted, address).await, Ok(()));
        let wrong = "another certificate is served than should be";
        assert_eq!(check(&other, address).await, Err(wrong.to_owned()));
        let none = Certificates::load(&CertificateSource::Cluster(Default::default()));
        let none = none.expect("none yet");
        assert_eq!(check(&none, address).await, Err("no certificate to serve yet".to_owned()));
        let silent = serve(&none, &TlsConfig::default()).await;
        let problem = check(&wanted, silent).await.expect_err("nothing is shown");
        assert!(problem.starts_with(&format!("no TLS connection to {silent}: ")), "{problem}");

        // The certificate is renewed while clients connect.
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made");
        wanted
            .serve(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes())
            .expect("usable");
        assert_eq!(check(&wanted, address).await, Ok(()));
    }
}
