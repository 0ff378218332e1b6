//! HTTP for tests: addresses that are free, and a client that sends one request per connection,
//! with or without TLS.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, SignatureScheme,
    StreamOwned, SupportedProtocolVersion, WantsVerifier,
    client::{
        WantsClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::steps::TIMEOUT;

/// A connection with TLS.
pub type TlsConnection = StreamOwned<ClientConnection, TcpStream>;

/// An answer over HTTP/1.1.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status code; 0 if there is none.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The text after the headers.
    pub body: String,
}

impl Response {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// The ports of [`free_address`]: below those that systems give to outgoing connections, one of which would take a port
/// before the server does that it is for.
const PORTS: Range<u16> = 20_000..32_000;

/// An address on loopback that is free until another test takes it. Each call of a process returns another one.
///
/// # Errors
///
/// There is no free port.
pub fn free_address() -> io::Result<SocketAddr> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let count = u32::from(PORTS.end - PORTS.start);
    // Processes start at different ports.
    let first = std::process::id().wrapping_mul(101);
    for _ in PORTS {
        let index = first.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed)) % count;
        let port = PORTS.start + u16::try_from(index).map_err(io::Error::other)?;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            return listener.local_addr();
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// The head of a request after which the server closes the connection.
#[must_use]
pub fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{more}\r\n")
}

/// A POST of a JSON text.
#[must_use]
pub fn post(path: &str, body: &str) -> String {
    let length = body.len();
    let more = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    head("POST", path, &more) + body
}

/// Sends a request with `Connection: close`, and reads until the server closes the connection.
///
/// # Errors
///
/// The connection fails, the server is silent for [`TIMEOUT`] (if the stream has it as its time-out), or the answer is
/// not UTF-8.
pub fn exchange(mut stream: impl Read + Write, request: &str) -> io::Result<Response> {
    stream.write_all(request.as_bytes())?;
    stream.flush()?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(Response::parse(&text))
}

fn open(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// GET over plain HTTP.
///
/// # Errors
///
/// As [`exchange`], or if nothing listens.
pub fn get(address: SocketAddr, path: &str) -> io::Result<Response> {
    exchange(open(address)?, &head("GET", path, ""))
}

/// Whether the process behind this address of probes is ready; false if nothing listens.
#[must_use]
pub fn is_ready(address: SocketAddr) -> bool {
    get(address, "/readyz").is_ok_and(|response| response.status == 200)
}

/// A client that accepts any certificate, for servers that have made theirs a moment ago. It shows no certificate of its
/// own unless the caller gives it one.
///
/// # Errors
///
/// The provider of cryptography has no cipher for these versions.
pub fn trusting(
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    Ok(of(versions)?.dangerous().with_custom_certificate_verifier(Arc::new(Trusting(provider))))
}

/// A client of these versions that needs to be given the certificates it trusts.
///
/// # Errors
///
/// As [`trusting`].
pub fn of(
    versions: &[&'static SupportedProtocolVersion],
) -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
}

/// Connects to `localhost` at an address; the handshake is complete.
///
/// # Errors
///
/// Nothing listens, or the handshake fails.
pub fn connect(address: SocketAddr, config: ClientConfig) -> io::Result<TlsConnection> {
    let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, open(address)?);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Accepts every certificate.
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
