//! The serving certificate: made at start, read from files or from a Secret, replaced without a
//! restart.

mod client_auth;
mod loopback;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwapOption;
use modgate_cluster::{
    ClusterCertificates,
    authority::{self, Term},
};
use modgate_http::Chain;
use modgate_policies::{FileWatch, Fingerprint};
use rustls::{
    RootCertStore, ServerConfig, SignatureScheme, SupportedProtocolVersion,
    client::ResolvesClientCert,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier},
    sign::CertifiedKey,
    version,
};

use self::client_auth::Named;
pub(crate) use self::loopback::LoopbackCheck;

/// Where the serving certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// A certificate authority and a leaf for these names, created at start and never stored.
    SelfSigned {
        /// DNS names and IP addresses the certificate is for.
        names: Vec<String>,
    },
    /// PEM files, reloaded when they change.
    Files {
        /// The certificate chain, leaf first.
        cert: PathBuf,
        /// The private key: PKCS#8, PKCS#1 or SEC 1.
        key: PathBuf,
    },
    /// A Secret that all replicas share; they create and renew it (CR-1).
    Cluster(ClusterCertificates),
}

/// The lowest version of TLS (SV-4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsVersion {
    /// 1.2.
    #[default]
    Tls12,
    /// 1.3.
    Tls13,
}

/// A parsed `--tls-min-version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MinVersion {
    /// The lowest version that the server accepts.
    pub version: TlsVersion,
    /// Whether the flag named a lower version, which the server does not support.
    pub was_raised: bool,
}

/// The text is not a version of TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid TLS version. Must be one of: 1.0, 1.1, 1.2, or 1.3")]
pub struct UnknownVersion;

impl FromStr for MinVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let (version, was_raised) = match text {
            // As in Go, an empty text means the lowest version.
            "" | "1.0" | "1.1" => (TlsVersion::Tls12, true),
            "1.2" => (TlsVersion::Tls12, false),
            "1.3" => (TlsVersion::Tls13, false),
            _ => return Err(UnknownVersion),
        };
        Ok(Self { version, was_raised })
    }
}

/// Requirements for TLS connections to the webhooks.
#[derive(Debug, Clone, Default)]
pub struct TlsConfig {
    /// The lowest version of TLS; the default is 1.2.
    pub min_version: MinVersion,
    /// Client authentication; `None` accepts every client.
    pub clients: Option<ClientAuth>,
}

/// Authentication of clients by certificate (SV-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuth {
    /// PEM file with the authorities of client certificates, read at start.
    pub authorities: PathBuf,
    /// The common name that a client must have; empty accepts any.
    pub common_name: String,
}

/// An error that prevents loading a certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is not PEM, or holds no certificate or key.
    #[error("`{}` holds no usable {what} in PEM form", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The expected contents of the file.
        what: &'static str,
        /// The error of the PEM parser.
        source: pem::Error,
    },
    /// Certificate and key do not match, or their type is not supported.
    #[error("certificate and key cannot be used together")]
    Unusable {
        /// The error of rustls.
        #[from]
        source: rustls::Error,
    },
    /// rcgen could not create a certificate.
    #[error("cannot make a self-signed certificate")]
    SelfSigned {
        /// The error of rcgen.
        #[from]
        source: rcgen::Error,
    },
    /// The file holds no usable authority.
    #[error("`{}` holds no authority of client certificates that can be used", path.display())]
    Clients {
        /// The file.
        path: PathBuf,
        /// The error of rustls.
        source: VerifierBuilderError,
    },
}

/// The certificate in use; every new connection takes the newest one.
///
/// The webhooks present it to the API server, and the client presents it to providers of external
/// data that request a client certificate.
pub struct Certificates {
    provider: Arc<CryptoProvider>,
    /// `None` until the Secret exists.
    current: ArcSwapOption<CertifiedKey>,
    files: Option<WatchedFiles>,
}

struct WatchedFiles {
    cert: PathBuf,
    key: PathBuf,
    /// Fingerprints from before the first read, so that a change during it is noticed.
    seen: Fingerprints,
}

type Fingerprints = [Option<Fingerprint>; 2];

/// Lifetime of self-signed certificates: longer than a process should run.
const SELF_SIGNED_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
impl Certificates {
    /// Reads or creates the certificate. That of a Secret arrives later; until then TLS handshakes
    /// fail.
    ///
    /// # Errors
    ///
    /// If no certificate can be loaded, or the key does not match it.
    pub fn load(source: &CertificateSource) -> Result<Arc<Self>, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let (certified, files) = match source {
            CertificateSource::SelfSigned { names } => (Some(self_signed(names, &provider)?), None),
            CertificateSource::Files { cert, key } => {
                let seen = fingerprints(cert, key);
                let pair = read_pair(cert, key, &provider)?;
                (Some(pair), Some(WatchedFiles { cert: cert.clone(), key: key.clone(), seen }))
            }
            CertificateSource::Cluster(_) => (None, None),
        };
        Ok(Arc::new(Self { provider, current: ArcSwapOption::from_pointee(certified), files }))
    }

    /// TLS 1.3, and TLS 1.2 if allowed. HTTP/2 is preferred.
    pub(crate) fn server_config(
        self: &Arc<Self>,
        tls: &TlsConfig,
    ) -> Result<ServerConfig, CertificateError> {
        if tls.min_version.was_raised {
            tracing::warn!(target: "tls", "the lowest version of TLS is 1.2; lower ones are not spoken");
        }
        let versions: &[&SupportedProtocolVersion] = match tls.min_version.version {
            TlsVersion::Tls12 => &[&version::TLS13, &version::TLS12],
            TlsVersion::Tls13 => &[&version::TLS13],
        };
        let config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(versions)?;
        let config = match &tls.clients {
            Some(clients) => {
                let verifier = self.client_verifier(clients)?;
                config.with_client_cert_verifier(Arc::new(verifier))
            }
            None => config.with_no_client_auth(),
        };
        let mut config = config.with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn client_verifier(&self, clients: &ClientAuth) -> Result<Named, CertificateError> {
        let path = &clients.authorities;
        let mut roots = RootCertStore::empty();
        for root in read_chain(path)? {
            roots.add(root)?;
        }
        let provider = Arc::clone(&self.provider);
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|source| CertificateError::Clients { path: path.clone(), source })?;
        Ok(Named { verifier, name: clients.common_name.clone() })
    }

    /// Serves this certificate from now on. Both arguments are PEM.
    ///
    /// # Errors
    ///
    /// If they are not a certificate and its key. The server then keeps the previous certificate.
    pub(crate) fn serve(&self, chain: &[u8], key: &[u8]) -> Result<(), CertificateError> {
        let unusable =
            |_| rustls::Error::General("no certificate or no key in PEM form".to_owned());
        let chain = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<Vec<_>, _>>()
            .map_err(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(unusable)?;
        let certified = CertifiedKey::from_der(chain, key, &self.provider)?;
        self.current.store(Some(Arc::new(certified)));
        Ok(())
    }

    /// The served chain, leaf first; `None` before the first certificate.
    pub(crate) fn chain(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.current.load().as_ref().map(|certified| certified.cert.clone())
    }

    /// When the served certificate expires, in Unix seconds.
    pub(crate) fn not_after(&self) -> Option<i64> {
        let current = self.current.load();
        let leaf = current.as_ref()?.cert.first()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(leaf).ok()?;
        Some(certificate.validity().not_after.timestamp())
    }

    /// Reloads the files when they change, checked at this interval, until the process ends.
    /// Returns at once if there are no files.
    pub async fn follow_every(self: Arc<Self>, interval: Duration) {
        self.follow(FileWatch::every(interval)).await;
    }

    /// As [`follow_every`](Self::follow_every).
    ///
    /// If the pair is unusable (half-written, or the key does not match yet), logs that and keeps
    /// the last good one.
    pub(crate) async fn follow(self: Arc<Self>, mut watch: FileWatch) {
        let Some(files) = &self.files else { return };
        let mut seen = files.seen;
        loop {
            watch.tick().await;
            let now = fingerprints(&files.cert, &files.key);
            if now == seen {
                continue;
            }
            seen = now;
            match read_pair(&files.cert, &files.key, &self.provider) {
                Ok(certified) => {
                    self.current.store(Some(Arc::new(certified)));
                    tracing::info!(target: "tls", cert = %files.cert.display(), "certificate reloaded");
                }
                Err(error) => {
                    tracing::error!(target: "tls", error = %Chain(&error),
                        "certificate not reloaded, the last good one stays"
                    )
                }
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }
}

/// Presents its only certificate, whatever authorities the server names (6.3).
impl ResolvesClientCert for Certificates {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current.load_full()
    }

    fn has_certs(&self) -> bool {
        self.current.load().is_some()
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn fingerprints(cert: &Path, key: &Path) -> Fingerprints {
    [cert, key].map(|path| Fingerprint::of(path).ok())
}

fn pem_error(path: &Path, what: &'static str) -> impl FnOnce(pem::Error) -> CertificateError {
    let path = path.to_owned();
    move |error| match error {
        pem::Error::Io(source) => CertificateError::Read { path, source },
        source => CertificateError::Pem { path, what, source },
    }
}

/// Reads a chain of at least one certificate.
fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .and_then(|chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) })
        .map_err(pem_error(path, "certificate"))
}

fn read_pair(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CertificateError> {
    let chain = read_chain(cert)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(pem_error(key, "private key"))?;
    Ok(CertifiedKey::from_der(chain, key, provider)?)
}

fn self_signed(
    names: &[String],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CertificateError> {
    const NAME: &str = "modgate";
    let term = Term { now: SystemTime::now(), lasts: SELF_SIGNED_LIFETIME };
    let authority = authority::make(NAME, NAME, term)?;
    let chain_end = authority.cert.clone();
    let issuer = rcgen::Issuer::from_ca_cert_der(&chain_end, authority.key)?;
    let leaf = authority::issue(&issuer, names, NAME, term)?;
    let chain = vec![leaf.cert, chain_end.clone()];
    let key = PrivatePkcs8KeyDer::from(leaf.key.serialize_der());
    Ok(CertifiedKey::from_der(chain, key.into(), provider)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lowest_versions() {
        let parsed =
            |text: &str| text.parse::<MinVersion>().map(|min| (min.version, min.was_raised));
        for (text, expected) in [
            ("1.3", Ok((TlsVersion::Tls13, false))),
            ("1.2", Ok((TlsVersion::Tls12, false))),
            ("1.1", Ok((TlsVersion::Tls12, true))),
            ("1.0", Ok((TlsVersion::Tls12, true))),
            ("", Ok((TlsVersion::Tls12, true))),
            ("1.4", Err(UnknownVersion)),
            ("TLS1.2", Err(UnknownVersion)),
        ] {
            assert_eq!(parsed(text), expected, "{text}");
        }
    }
}
