//! Clients that must show a certificate (spec `gatekeeper-validation`, SV-5).

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use x509_parser::parse_x509_certificate;

use super::authority::common_names;

/// Accepts a certificate that the inner verifier accepts and that has the right common name.
#[derive(Debug)]
pub(crate) struct Named {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    /// The common name; empty accepts any.
    pub(crate) name: String,
}

/// The client's certificate has another common name, or none.
#[derive(Debug, thiserror::Error)]
#[error("x509: subject with cn={found} do not identify as {wanted}")]
struct WrongName {
    found: String,
    wanted: String,
}

impl Named {
    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), WrongName> {
        if self.name.is_empty() {
            return Ok(());
        }
        let parsed = parse_x509_certificate(certificate);
        let names = parsed.map(|(_, parsed)| common_names(&parsed)).unwrap_or_default();
        // As in Go, the last common name of a subject counts.
        let found = names.last().cloned().unwrap_or_default();
        if found == self.name {
            return Ok(());
        }
        Err(WrongName { found, wanted: self.name.clone() })
    }
}

impl ClientCertVerifier for Named {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        let wrong = |error| CertificateError::Other(OtherError(Arc::new(error)));
        self.check(end_entity).map_err(wrong)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
