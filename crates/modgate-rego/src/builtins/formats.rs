//! Formats that policies and the settings around them share, read as Go's libraries read them.

use super::{crypto, encoding};

/// Where a URL leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// In lower case; empty for a relative URL.
    pub scheme: String,
    /// Host and, where one is given, port.
    pub host: String,
}

/// The origin of a URL.
///
/// # Errors
///
/// In the words of Go's `url.Parse`.
pub fn url_origin(text: &str) -> Result<Origin, String> {
    encoding::url_origin(text).map(|(scheme, host)| Origin { scheme, host })
}

/// The bytes of padded base64; line breaks do not count.
///
/// # Errors
///
/// In the words of Go's `base64.StdEncoding`.
pub fn base64_bytes(text: &str) -> Result<Vec<u8>, String> {
    encoding::decode_base64(text, encoding::Alphabet::Standard)
        .map_err(|at| format!("illegal base64 data at input byte {at}"))
}

/// One block of PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PemBlock {
    /// Such as `CERTIFICATE`.
    pub label: String,
    /// What it holds, most often DER.
    pub bytes: Vec<u8>,
}

/// The blocks of a PEM text; what is between them does not count.
pub fn pem_blocks(text: &str) -> Vec<PemBlock> {
    crypto::pem_blocks(text).into_iter().map(|(label, bytes)| PemBlock { label, bytes }).collect()
}

/// Whether `der` is one X.509 certificate.
pub fn is_certificate(der: &[u8]) -> bool {
    crypto::is_certificate(der)
}
