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
    /// A certificate authority and a leaf for these names, made at start and never written down.
    SelfSigned {
        /// DNS names and IP addresses the certificate is for.
        names: Vec<String>,
    },
    /// PEM files, read again whenever they change.
    Files {
        /// The certificate chain, leaf first.
        cert: PathBuf,
        /// The private key: PKCS#8, PKCS#1 or SEC 1.
        key: PathBuf,
    },
    /// A Secret that all replicas share, made and renewed by them (CR-1).
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

/// A version as `--tls-min-version` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MinVersion {
    /// What is served.
    pub version: TlsVersion,
    /// Whether a lower one was asked for, which nothing here speaks.
    pub was_raised: bool,
}

/// No version of TLS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid TLS version. Must be one of: 1.0, 1.1, 1.2, or 1.3")]
pub struct UnknownVersion;

impl FromStr for MinVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let (version, was_raised) = match text {
            // As in Go, where nothing given means the lowest.
            "" | "1.0" | "1.1" => (TlsVersion::Tls12, true),
            "1.2" => (TlsVersion::Tls12, false),
            "1.3" => (TlsVersion::Tls13, false),
            _ => return Err(UnknownVersion),
        };
        Ok(Self { version, was_raised })
    }
}

/// What connections to the webhooks must be like.
#[derive(Debug, Clone, Default)]
pub struct TlsConfig {
    /// The lowest version of TLS; the default is 1.2.
    pub min_version: MinVersion,
    /// Who may connect; without it anybody.
    pub clients: Option<ClientAuth>,
}

/// Clients that must show a certificate (SV-5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientAuth {
    /// PEM file with the certificates of those who sign the clients', read at start.
    pub authorities: PathBuf,
    /// The common name a client must have; any if empty.
    pub common_name: String,
}

/// Why there is no certificate to serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not PEM, or holds no certificate or key.
    #[error("`{}` holds no usable {what} in PEM form", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        what: &'static str,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// Certificate and key do not belong together, or are of an unsupported kind.
    #[error("certificate and key cannot be used together")]
    Unusable {
        /// What rustls said.
        #[from]
        source: rustls::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a self-signed certificate")]
    SelfSigned {
        /// What rcgen said.
        #[from]
        source: rcgen::Error,
    },
    /// No client could be trusted.
    #[error("`{}` holds no authority of client certificates that can be used", path.display())]
    Clients {
        /// The file.
        path: PathBuf,
        /// What rustls said.
        source: VerifierBuilderError,
    },
}

/// The certificate in use; every new connection takes the newest one.
///
/// The webhooks show it to the API server, and providers of external data are shown it when they
/// ask who the engine is.
pub struct Certificates {
    provider: Arc<CryptoProvider>,
    /// None until there is a Secret to take it from.
    current: ArcSwapOption<CertifiedKey>,
    files: Option<WatchedFiles>,
}

struct WatchedFiles {
    cert: PathBuf,
    key: PathBuf,
    /// Before they were first read: what changes meanwhile is read again.
    seen: Fingerprints,
}

type Fingerprints = [Option<Fingerprint>; 2];

/// Self-signed certificates live as long as a process reasonably may.
const SELF_SIGNED_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
impl Certificates {
    /// Reads or makes the certificate; that of a Secret comes later, and until then no connection is
    /// made.
    ///
    /// # Errors
    ///
    /// When there is none, or its key is not its key.
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

    /// TLS 1.3, and 1.2 unless that is too low; HTTP/2 preferred.
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

    /// From now on, this certificate is served, of PEM texts.
    ///
    /// # Errors
    ///
    /// When they are no certificate and its key; the one before stays.
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

    /// What is served, leaf first; none if there is nothing yet.
    pub(crate) fn chain(&self) -> Option<Vec<CertificateDer<'static>>> {
        self.current.load().as_ref().map(|certified| certified.cert.clone())
    }

    /// Follows the files until the process ends, looking at them this often; returns at once when
    /// there are none.
    pub async fn follow_every(self: Arc<Self>, interval: Duration) {
        self.follow(FileWatch::every(interval)).await;
    }

    /// As [`follow_every`](Self::follow_every).
    ///
    /// A pair that cannot be used (half-written, or a key that does not match yet) is reported and
    /// the last good one stays.
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

/// Whatever the server would accept: there is only one certificate to show (6.3).
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

/// At least one certificate.
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
