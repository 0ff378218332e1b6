//! The serving certificate: made at start or read from files, replaced without a restart.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::{
    ServerConfig, SignatureScheme,
    client::ResolvesClientCert,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use crate::files::{FileWatch, Fingerprint};

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
}

/// The certificate in use; every new connection takes the newest one.
///
/// The webhooks show it to the API server, and providers of external data are shown it when they
/// ask who the engine is.
pub struct Certificates {
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
    files: Option<WatchedFiles>,
}

struct WatchedFiles {
    cert: PathBuf,
    key: PathBuf,
}

/// Self-signed certificates live as long as a process reasonably may.
const SELF_SIGNED_LIFETIME: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Clocks of a cluster's machines differ a little.
const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

impl Certificates {
    /// Reads or makes the certificate.
    ///
    /// # Errors
    ///
    /// When there is none, or its key is not its key.
    pub fn load(source: &CertificateSource) -> Result<Arc<Self>, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let (certified, files) = match source {
            CertificateSource::SelfSigned { names } => (self_signed(names, &provider)?, None),
            CertificateSource::Files { cert, key } => (
                read_pair(cert, key, &provider)?,
                Some(WatchedFiles { cert: cert.clone(), key: key.clone() }),
            ),
        };
        Ok(Arc::new(Self { provider, current: ArcSwap::from_pointee(certified), files }))
    }

    /// TLS 1.2 and 1.3, HTTP/2 preferred, no client certificates.
    pub(crate) fn server_config(self: &Arc<Self>) -> Result<ServerConfig, CertificateError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
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
        let mut seen = fingerprint(files);
        loop {
            watch.tick().await;
            let now = fingerprint(files);
            if now == seen {
                continue;
            }
            seen = now;
            match read_pair(&files.cert, &files.key, &self.provider) {
                Ok(certified) => {
                    self.current.store(Arc::new(certified));
                    tracing::info!(target: "tls", cert = %files.cert.display(), "certificate reloaded");
                }
                Err(error) => {
                    tracing::error!(target: "tls", error = %crate::telemetry::Chain(&error),
                        "certificate not reloaded, the last good one stays"
                    )
                }
            }
        }
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Whatever the server would accept: there is only one certificate to show (6.3).
impl ResolvesClientCert for Certificates {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").finish_non_exhaustive()
    }
}

fn fingerprint(files: &WatchedFiles) -> [Option<Fingerprint>; 2] {
    [Fingerprint::of(&files.cert).ok(), Fingerprint::of(&files.key).ok()]
}

fn read_pair(
    cert: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CertificateError> {
    let pem_error = |path: &Path, what| {
        let path = path.to_owned();
        move |error| match error {
            pem::Error::Io(source) => CertificateError::Read { path, source },
            source => CertificateError::Pem { path, what, source },
        }
    };
    let chain = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .and_then(|chain| if chain.is_empty() { Err(pem::Error::NoItemsFound) } else { Ok(chain) })
        .map_err(pem_error(cert, "certificate"))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(pem_error(key, "private key"))?;
    Ok(CertifiedKey::from_der(chain, key, provider)?)
}

fn self_signed(
    names: &[String],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, CertificateError> {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = rcgen::date_time_ymd(1970, 1, 1) + since_epoch;
    let dated = |mut params: CertificateParams, name: &str| {
        params.not_before = now - CLOCK_SKEW;
        params.not_after = now + SELF_SIGNED_LIFETIME;
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };

    let mut authority = dated(CertificateParams::default(), "modgate");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let authority_key = KeyPair::generate()?;
    let authority_cert = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);

    let mut leaf = dated(CertificateParams::new(names)?, "admission");
    // Providers of external data are shown the certificate too.
    leaf.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    leaf.use_authority_key_identifier_extension = true;
    let leaf_key = KeyPair::generate()?;
    let leaf_cert = leaf.signed_by(&leaf_key, &issuer)?;

    let chain = vec![leaf_cert.der().clone(), authority_cert.der().clone()];
    let key = PrivatePkcs8KeyDer::from(leaf_key.serialize_der());
    Ok(CertifiedKey::from_der(chain, key.into(), provider)?)
}
