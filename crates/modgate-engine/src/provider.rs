//! Providers of external data (spec `gatekeeper-mutation…`, 1.11 and 6).
//!
//! A [`CompiledProvider`] is one Provider, checked. Asking it is the edge's work, behind two
//! traits: [`mutation::Providers`](crate::mutation::Providers) for values that mutators assign,
//! and [`ExternalData`] for Rego's `external_data`, whose argument and result [`external_data`]
//! reads and writes.

mod rego;

use std::{sync::Arc, time::Duration};

use modgate_api::externaldata::Provider;
use modgate_rego::builtins::is_certificate;
use modgate_value::{
    Str,
    go::{base64::Alphabet, pem, url::Url},
    gofmt::quote_bytes,
};

pub use self::rego::{
    ExternalData, FUNCTION, NoExternalData, Responses, Unanswered, external_data,
};

/// The time limit of a call where the Provider sets none (`fix-timeout-zero`).
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// A Provider that can receive queries. Holding one is the proof that its fields are valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompiledProvider {
    name: Str,
    url: Str,
    timeout: Duration,
    roots: Arc<[Vec<u8>]>,
}

/// Why a Provider cannot be used; the texts are Gatekeeper's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// Without a name.
    #[error("provider name can not be empty. value ")]
    NoName,
    /// Without a URL.
    #[error("invalid provider url. value: ")]
    NoUrl,
    /// Less than no time.
    #[error("provider timeout should be a positive integer. value: {0}")]
    NegativeTimeout(i64),
    /// Not a URL.
    #[error("{0}")]
    Url(String),
    /// Not `https`.
    #[error("only HTTPS scheme is supported for Providers")]
    NotHttps,
    /// Without a certificate bundle.
    #[error("caBundle should be set for HTTPS scheme")]
    NoBundle,
    /// Not base64.
    #[error("failed to base64 decode caBundle: {0}")]
    Base64(String),
    /// Base64 of something else than PEM.
    #[error("bad caBundle")]
    NotPem,
    /// PEM of something else than a certificate.
    #[error("failed to parse caBundle: {0}")]
    NotCertificate(&'static str),
}

impl ProviderError {
    /// The field to look at.
    pub fn field(&self) -> &'static str {
        match self {
            Self::NoName => "metadata.name",
            Self::NoUrl | Self::Url(_) | Self::NotHttps => "spec.url",
            Self::NegativeTimeout(_) => "spec.timeout",
            Self::NoBundle | Self::Base64(_) | Self::NotPem | Self::NotCertificate(_) => {
                "spec.caBundle"
            }
        }
    }
}

impl CompiledProvider {
    /// Checks a Provider, in the order of 1.11.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn compile(provider: &Provider) -> Result<Self, ProviderError> {
        let spec = &provider.spec;
        if provider.metadata.name.is_empty() {
            return Err(ProviderError::NoName);
        }
        if spec.url.is_empty() {
            return Err(ProviderError::NoUrl);
        }
        let seconds = u64::try_from(spec.timeout)
            .map_err(|_| ProviderError::NegativeTimeout(spec.timeout))?;
        let url = Url::parse(spec.url.as_bytes(), quote_bytes).map_err(ProviderError::Url)?;
        if url.scheme != "https" {
            return Err(ProviderError::NotHttps);
        }
        Ok(Self {
            name: provider.metadata.name.clone(),
            url: spec.url.clone(),
            timeout: if seconds == 0 { DEFAULT_TIMEOUT } else { Duration::from_secs(seconds) },
            roots: roots(&spec.ca_bundle)?,
        })
    }

    /// The name in policies.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// Where it is: `https://…`.
    pub fn url(&self) -> &Str {
        &self.url
    }

    /// The time limit of a call.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The certificates that are trusted, in DER.
    pub fn roots(&self) -> &[Vec<u8>] {
        &self.roots
    }
}

/// The certificates of a bundle. Only the first block has to be one; others that are not are left
/// out, as in Go's `AppendCertsFromPEM`.
fn roots(bundle: &str) -> Result<Arc<[Vec<u8>]>, ProviderError> {
    if bundle.is_empty() {
        return Err(ProviderError::NoBundle);
    }
    let bundle = Alphabet::Standard
        .decode(bundle)
        .map_err(|corrupt| ProviderError::Base64(corrupt.to_string()))?;
    let text = String::from_utf8_lossy(&bundle);
    let first = pem::decode(&text).ok_or(ProviderError::NotPem)?;
    if !is_certificate(&first.bytes) {
        return Err(ProviderError::NotCertificate("x509: malformed certificate"));
    }
    Ok(pem::blocks(&text)
        .filter(|block| block.label == "CERTIFICATE" && is_certificate(&block.bytes))
        .map(|block| block.bytes)
        .collect())
}

#[cfg(test)]
mod tests {
    use modgate_value::Value;

    use super::*;

    /// Self-signed, for `localhost`; made for this test.
    const CERTIFICATE: &str = include_str!("provider/testdata/certificate.pem");

    fn base64(text: &str) -> String {
        Alphabet::Standard.encode(text.as_bytes())
    }

    fn compile(name: &str, spec: &str) -> Result<CompiledProvider, String> {
        let text = format!(r#"{{"metadata": {{"name": "{name}"}}, "spec": {spec}}}"#);
        let object = Value::from_json(text.as_bytes()).expect(spec);
        let provider = Provider::from_value(&object).expect(spec);
        CompiledProvider::compile(&provider).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_refused() {
        let key = base64("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        for (name, spec, expected) in [
            ("", "{}", "provider name can not be empty. value "),
            ("p", "{}", "invalid provider url. value: "),
            (
                "p",
                r#"{"url": "http://foo.com", "timeout": -1}"#,
                "provider timeout should be a positive integer. value: -1",
            ),
            (
                "p",
                r#"{"url": " http://foo.com"}"#,
                r#"parse " http://foo.com": first path segment in URL cannot contain colon"#,
            ),
            ("p", r#"{"url": "http://foo.com"}"#, "only HTTPS scheme is supported for Providers"),
            ("p", r#"{"url": "https://foo.com"}"#, "caBundle should be set for HTTPS scheme"),
            (
                "p",
                r#"{"url": "HTTPS://foo.com", "caBundle": "-"}"#,
                "failed to base64 decode caBundle: illegal base64 data at input byte 0",
            ),
            ("p", r#"{"url": "https://foo.com", "caBundle": "AAAA"}"#, "bad caBundle"),
            (
                "p",
                &format!(r#"{{"url": "https://foo.com", "caBundle": "{key}"}}"#),
                "failed to parse caBundle: x509: malformed certificate",
            ),
        ] {
            assert_eq!(compile(name, spec), Err(expected.to_owned()), "{spec}");
        }
    }

    #[test]
    fn all_certificates_are_trusted() {
        let junk = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let bundle = base64(&format!("{CERTIFICATE}{junk}{CERTIFICATE}"));
        let spec = format!(r#"{{"url": "https://foo.com/v", "caBundle": "{bundle}"}}"#);
        let provider = compile("p", &spec).expect("valid");
        assert_eq!(provider.roots().len(), 2);
        assert_eq!(provider.timeout(), DEFAULT_TIMEOUT);
        let spec = spec.replace("{\"url", "{\"timeout\": 3, \"url");
        assert_eq!(compile("p", &spec).expect("valid").timeout(), Duration::from_secs(3));
    }
}
