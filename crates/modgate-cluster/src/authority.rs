//! Certificate authorities and what they sign: made with ECDSA P-256, read of any common kind.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, pem::PemObject as _,
};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, parse_x509_certificate};

/// Clocks of a cluster's machines differ a little.
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// A certificate with its key, as PEM and as made.
#[derive(Debug)]
pub struct Made {
    /// As made.
    pub cert: CertificateDer<'static>,
    pub(crate) cert_pem: String,
    /// Its key.
    pub key: KeyPair,
}

/// From when on, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Term {
    /// From when on.
    pub now: SystemTime,
    /// For how long.
    pub lasts: Duration,
}

/// Makes a certificate authority.
///
/// # Errors
///
/// When no key can be made.
pub fn make(name: &str, organization: &str, term: Term) -> Result<Made, rcgen::Error> {
    let mut params = dated(CertificateParams::default(), term);
    params.distinguished_name.push(DnType::CommonName, name);
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let key = KeyPair::generate()?;
    let cert = params.self_signed(&key)?;
    Ok(Made { cert: cert.der().clone(), cert_pem: cert.pem(), key })
}

/// Makes a certificate for these DNS names and IP addresses, the first of which is its name.
///
/// # Errors
///
/// When a name cannot be in a certificate.
pub fn issue(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
    organization: &str,
    term: Term,
) -> Result<Made, rcgen::Error> {
    let mut params = dated(CertificateParams::new(names)?, term);
    // Longer ones are not allowed (RFC 5280), and no client reads it.
    if let Some(name) = names.first().filter(|name| name.len() <= 64) {
        params.distinguished_name.push(DnType::CommonName, name.as_str());
    }
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    // Providers of external data are shown the certificate too.
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let cert = params.signed_by(&key, issuer)?;
    Ok(Made { cert: cert.der().clone(), cert_pem: cert.pem(), key })
}

fn dated(mut params: CertificateParams, term: Term) -> CertificateParams {
    let since_epoch = term.now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = rcgen::date_time_ymd(1970, 1, 1) + since_epoch;
    params.not_before = now - CLOCK_SKEW;
    params.not_after = now + term.lasts;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
}

/// The key of an authority, if it is one to sign with, and if it belongs to the certificate.
pub(crate) fn issuer(cert: &CertificateDer<'_>, key: &[u8]) -> Option<Issuer<'static, KeyPair>> {
    let pkcs8 = match PrivateKeyDer::from_pem_slice(key).ok()? {
        PrivateKeyDer::Pkcs8(key) => key,
        PrivateKeyDer::Pkcs1(key) => wrapped(&key),
        _ => return None,
    };
    let key = KeyPair::try_from(&pkcs8).ok()?;
    let (_, parsed) = parse_x509_certificate(cert).ok()?;
    let public_key = &parsed.public_key().subject_public_key.data;
    if public_key.as_ref() != key.public_key_raw() {
        return None;
    }
    Issuer::from_ca_cert_der(cert, key).ok()
}

/// An RSA key of the older form, which Gatekeeper writes, in the newer (RFC 5958), which can be read.
fn wrapped(key: &PrivatePkcs1KeyDer<'_>) -> PrivatePkcs8KeyDer<'static> {
    /// Version 0, and the algorithm `rsaEncryption` without parameters.
    const RSA: &[u8] = &[
        0x02, 0x01, 0x00, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01,
        0x01, 0x05, 0x00,
    ];
    const SEQUENCE: u8 = 0x30;
    const OCTET_STRING: u8 = 0x04;
    let octets = der(OCTET_STRING, key.secret_pkcs1_der());
    der(SEQUENCE, &[RSA, &octets].concat()).into()
}

/// A tag, the length in as few bytes as it takes, and the content.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
    let mut out = vec![tag];
    match significant.as_slice() {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

/// The contents of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) der: CertificateDer<'static>,
    /// Seconds since 1970.
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
    pub(crate) is_authority: bool,
    /// DNS names and IP addresses.
    pub(crate) names: Vec<String>,
    pub(crate) common_names: Vec<String>,
    pub(crate) serial: String,
}

impl Certificate {
    fn of(der: CertificateDer<'static>) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(&der).ok()?;
        let validity = parsed.validity();
        let common_names = common_names(&parsed);
        Some(Self {
            not_before: validity.not_before.timestamp(),
            not_after: validity.not_after.timestamp(),
            is_authority: parsed.is_ca(),
            names: names(&parsed),
            common_names,
            serial: parsed.raw_serial_as_string(),
            der: der.clone(),
        })
    }

    /// Those of a PEM file that can be read, in its order.
    pub(crate) fn all_of(pem: &[u8]) -> Vec<Self> {
        let read = CertificateDer::pem_slice_iter(pem).map_while(Result::ok);
        read.filter_map(Self::of).collect()
    }

    /// Whether the authority signed it.
    pub(crate) fn is_signed_by(&self, authority: &Self) -> bool {
        let (Ok((_, this)), Ok((_, authority))) =
            (parse_x509_certificate(&self.der), parse_x509_certificate(&authority.der))
        else {
            return false;
        };
        this.issuer().as_raw() == authority.subject().as_raw()
            && this.verify_signature(Some(authority.public_key())).is_ok()
    }
}

/// The common names of the subject.
pub fn common_names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let names = certificate.subject().iter_common_name();
    names.filter_map(|name| name.as_str().ok().map(str::to_owned)).collect()
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return Vec::new() };
    let name = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(std::net::IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(*bytes).map(std::net::IpAddr::from);
            v4.or_else(|_| v6()).ok().map(|address| address.to_string())
        }
        _ => None,
    };
    extension.value.general_names.iter().filter_map(name).collect()
}

/// PEM text of a certificate.
pub(crate) fn to_pem(der: &CertificateDer<'_>) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    const LINE: usize = 64;
    let encoded = STANDARD.encode(der);
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(LINE));
        out.push_str(line);
        out.push('\n');
        rest = more;
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for (length, expected) in [
            (0, vec![0x04, 0]),
            (0x7f, vec![0x04, 0x7f]),
            (0x80, vec![0x04, 0x81, 0x80]),
            (0x1234, vec![0x04, 0x82, 0x12, 0x34]),
        ] {
            let encoded = der(0x04, &vec![0; length]);
            assert_eq!(encoded.get(..expected.len()), Some(expected.as_slice()), "{length}");
            assert_eq!(encoded.len(), expected.len() + length);
        }
    }

    #[test]
    fn what_is_made_is_read_back() {
        let now = SystemTime::now();
        let lasts = Duration::from_secs(3600);
        let authority = make("ca", "org", Term { now, lasts }).expect("made");
        let issuing =
            issuer(&authority.cert, authority.key.serialize_pem().as_bytes()).expect("key");
        let names = ["a.b.svc".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let leaf = issue(&issuing, &names, "org", Term { now, lasts }).expect("made");
        let [authority] = &Certificate::all_of(authority.cert_pem.as_bytes())[..] else { panic!() };
        let [read] = &Certificate::all_of(to_pem(&leaf.cert).as_bytes())[..] else { panic!() };
        assert!(authority.is_authority && !read.is_authority);
        assert_eq!(read.names, names);
        assert_eq!(read.common_names, ["a.b.svc"]);
        assert_eq!(authority.common_names, ["ca"]);
        assert!(read.is_signed_by(authority) && !authority.is_signed_by(read));
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).expect("now").as_secs() as i64;
        assert_eq!((read.not_before, read.not_after), (seconds - 3600, seconds + 3600));
        let other = make("ca", "org", Term { now, lasts }).expect("made");
        let [other_read] = &Certificate::all_of(other.cert_pem.as_bytes())[..] else { panic!() };
        assert!(!read.is_signed_by(other_read), "of the same name");
        assert!(issuer(&authority.der, other.key.serialize_pem().as_bytes()).is_none());
        assert!(issuer(&authority.der, b"").is_none());
    }
}
