//! X.509 certificates and requests (RFC 5280, RFC 2986), shown as Go's `crypto/x509` has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use modgate_value::{
    Value as Json,
    go::{
        base64::Alphabet,
        der::{BIT_STRING, BOOLEAN, Element, Reader, SEQUENCE, SET, context, primitive},
        pem,
    },
    gotime::{Time, Zone},
};
use num_bigint::BigInt;

use super::{
    super::{BuiltinError, Context, Outcome, encoding::url_json, operand},
    der::{Oid, integer},
    json,
    keys::{PrivateKey, PublicKey, Scheme, int},
};
use crate::value::Value;

/// A certificate, taken apart.
pub(super) struct Certificate {
    raw: Vec<u8>,
    signed: Vec<u8>,
    signature: Vec<u8>,
    scheme: (Scheme, i64),
    version: i64,
    serial: BigInt,
    pub(super) issuer: Name,
    pub(super) subject: Name,
    pub(super) not_before: i64,
    pub(super) not_after: i64,
    key_info: Vec<u8>,
    pub(super) key: PublicKey,
    pub(super) extensions: Extensions,
}

/// A distinguished name.
pub(super) struct Name {
    pub(super) raw: Vec<u8>,
    attributes: Vec<(Oid, String)>,
}

impl Name {
    fn read(element: Element<'_>) -> Option<Self> {
        let mut attributes = Vec::new();
        let mut sets = element.reader();
        while !sets.is_empty() {
            let mut set = sets.expect(SET).ok()?.reader();
            while !set.is_empty() {
                let mut attribute = set.sequence().ok()?;
                attributes.push((Oid::read(&mut attribute)?, text(attribute.any().ok()?)?));
            }
        }
        Some(Self { raw: element.whole.to_vec(), attributes })
    }

    fn json(&self) -> Json {
        let all = |last: u64| -> Vec<String> {
            let of_kind = self.attributes.iter().filter(|(kind, _)| kind.is(&[2, 5, 4, last]));
            of_kind.map(|(_, value)| value.clone()).collect()
        };
        let last = |kind: u64| Json::from(all(kind).pop().unwrap_or_default());
        let names = self.attributes.iter().map(|(kind, value)| {
            json::object([("Type", arcs(kind)), ("Value", value.as_str().into())])
        });
        json::object([
            ("Country", json::texts(&all(6))),
            ("Organization", json::texts(&all(10))),
            ("OrganizationalUnit", json::texts(&all(11))),
            ("Locality", json::texts(&all(7))),
            ("Province", json::texts(&all(8))),
            ("StreetAddress", json::texts(&all(9))),
            ("PostalCode", json::texts(&all(17))),
            ("SerialNumber", last(5)),
            ("CommonName", last(3)),
            ("Names", json::list(names.collect())),
            ("ExtraNames", Json::Null),
        ])
    }
}

fn arcs(oid: &Oid) -> Json {
    let arcs = oid.0.iter().map(|arc| int(i64::try_from(*arc).unwrap_or(i64::MAX)));
    Json::from(arcs.collect::<Vec<_>>())
}

/// A string of any of ASN.1's kinds.
fn text(element: Element<'_>) -> Option<String> {
    Some(match element.tag {
        // UTF8String, PrintableString, IA5String, NumericString
        12 | 18 | 19 | 22 => std::str::from_utf8(element.content).ok()?.to_owned(),
        // TeletexString, which everyone takes for Latin-1
        20 => element.content.iter().map(|byte| char::from(*byte)).collect(),
        // BMPString
        30 => {
            let units: Vec<u16> = element
                .content
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |unit, byte| unit << 8 | u16::from(*byte)))
                .collect();
            String::from_utf16(&units).ok()?
        }
        _ => return None,
    })
}

/// Seconds since 1970 of a UTCTime or GeneralizedTime in the form RFC 5280 wants.
fn time(element: Element<'_>) -> Option<i64> {
    let text = std::str::from_utf8(element.content).ok()?.strip_suffix('Z')?;
    let (year, rest) = match element.tag {
        23 => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year >= 50 { 1900 + year } else { 2000 + year }, rest)
        }
        24 => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    if rest.len() != 10 || !rest.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let part = |at: usize| rest.get(at..at + 2).and_then(|digits| digits.parse::<u8>().ok());
    let (month, day) = (part(0)?, part(2)?);
    let seconds = i64::from(part(4)?) * 3600 + i64::from(part(6)?) * 60 + i64::from(part(8)?);
    let valid = (1..=12).contains(&month)
        && (1..=modgate_value::gotime::days_in(month, year)).contains(&day);
    valid.then(|| Time::at_civil(year, month, day, seconds, 0, Zone::Utc).unix)
}

/// Names that a subject has beside its distinguished name.
#[derive(Default)]
pub(super) struct AltNames {
    pub(super) dns: Vec<String>,
    pub(super) emails: Vec<String>,
    pub(super) uris: Vec<String>,
    pub(super) ips: Vec<IpAddr>,
}

impl AltNames {
    fn read(value: &[u8]) -> Option<Self> {
        let mut names = Self::default();
        let mut list = Reader(value).sequence().ok()?;
        while !list.is_empty() {
            let name = list.any().ok()?;
            let ascii = || std::str::from_utf8(name.content).ok().map(str::to_owned);
            match name.tag & 0x1f {
                1 => names.emails.push(ascii()?),
                2 => names.dns.push(ascii()?),
                6 => names.uris.push(ascii()?),
                7 => names.ips.push(address(name.content)?),
                _ => {}
            }
        }
        Some(names)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    let v6 = || <[u8; 16]>::try_from(bytes).map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes)));
    v4.or_else(|_| v6()).ok()
}

/// Names that a certificate authority may, or may not, certify.
#[derive(Default)]
pub(super) struct Subtrees {
    pub(super) dns: Vec<String>,
    pub(super) emails: Vec<String>,
    pub(super) uris: Vec<String>,
    /// Address and mask.
    pub(super) ips: Vec<Vec<u8>>,
}

impl Subtrees {
    fn read(element: Option<Element<'_>>) -> Option<Self> {
        let mut trees = Self::default();
        let Some(element) = element else { return Some(trees) };
        let mut list = element.reader();
        while !list.is_empty() {
            let base = list.sequence().ok()?.any().ok()?;
            let ascii = || std::str::from_utf8(base.content).ok().map(str::to_owned);
            match base.tag & 0x1f {
                1 => trees.emails.push(ascii()?),
                2 => trees.dns.push(ascii()?),
                6 => trees.uris.push(ascii()?),
                7 => trees.ips.push(base.content.to_vec()),
                _ => {}
            }
        }
        Some(trees)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.dns.is_empty() && self.emails.is_empty() && self.uris.is_empty() && self.ips.is_empty()
    }

    fn ips_json(&self) -> Json {
        let network = |bytes: &Vec<u8>| {
            let (address_bytes, mask) = bytes.split_at(bytes.len() / 2);
            let shown = address(address_bytes).map(|ip| ip.to_string()).unwrap_or_default();
            json::object([("IP", shown.into()), ("Mask", json::bytes(mask))])
        };
        json::list(self.ips.iter().map(network).collect())
    }
}

/// The extensions: those understood here, and all of them as they are.
#[derive(Default)]
pub(super) struct Extensions {
    all: Vec<(Oid, bool, Vec<u8>)>,
    pub(super) key_usage: i64,
    pub(super) basic_constraints: bool,
    pub(super) is_ca: bool,
    /// -1 when there is no limit, 0 when there are no basic constraints.
    pub(super) max_path: i64,
    pub(super) alt: AltNames,
    pub(super) ext_key_usage: Vec<i64>,
    pub(super) unknown_ext_key_usage: Vec<Oid>,
    subject_key_id: Vec<u8>,
    authority_key_id: Vec<u8>,
    ocsp: Vec<String>,
    issuers: Vec<String>,
    crls: Vec<String>,
    policies: Vec<Oid>,
    pub(super) permitted: Subtrees,
    pub(super) excluded: Subtrees,
    names_critical: bool,
    pub(super) unhandled: Vec<Oid>,
}

/// Key usage of who signs certificates.
pub(super) const CERT_SIGN: i64 = 1 << 5;

impl Extensions {
    fn read(mut list: Reader<'_>) -> Option<Self> {
        let mut extensions = Self::default();
        while !list.is_empty() {
            let mut extension = list.sequence().ok()?;
            let oid = Oid::read(&mut extension)?;
            let critical = match extension.0.first() {
                Some(&BOOLEAN) => extension.boolean().ok()?,
                _ => false,
            };
            let value = extension.octets().ok()?;
            let handled = extensions.understand(&oid, critical, value)?;
            if critical && !handled {
                extensions.unhandled.push(oid.clone());
            }
            extensions.all.push((oid, critical, value.to_vec()));
        }
        Some(extensions)
    }

    fn understand(&mut self, oid: &Oid, critical: bool, value: &[u8]) -> Option<bool> {
        let mut reader = Reader(value);
        match oid.0.as_slice() {
            [2, 5, 29, 15] => {
                let bits = reader.expect(BIT_STRING).ok()?.content.get(1..)?;
                for bit in 0..9usize {
                    let byte = bits.get(bit / 8).copied().unwrap_or(0);
                    self.key_usage |= i64::from(byte >> (7 - bit % 8) & 1) << bit;
                }
            }
            [2, 5, 29, 19] => {
                let mut fields = reader.sequence().ok()?;
                self.basic_constraints = true;
                self.is_ca = match fields.0.first() {
                    Some(&BOOLEAN) => fields.boolean().ok()?,
                    _ => false,
                };
                self.max_path = match fields.is_empty() {
                    true => -1,
                    false => i64::try_from(integer(&mut fields)?).ok()?,
                };
            }
            [2, 5, 29, 17] => {
                self.alt = AltNames::read(value)?;
                let alt = &self.alt;
                let known = !alt.dns.is_empty() || !alt.emails.is_empty();
                return Some(known || !alt.uris.is_empty() || !alt.ips.is_empty());
            }
            [2, 5, 29, 30] => {
                let mut fields = reader.sequence().ok()?;
                self.permitted = Subtrees::read(fields.optional(context(0)).ok()?)?;
                self.excluded = Subtrees::read(fields.optional(context(1)).ok()?)?;
                self.names_critical = critical;
            }
            [2, 5, 29, 31] => {
                let mut points = reader.sequence().ok()?;
                while !points.is_empty() {
                    let mut point = points.sequence().ok()?;
                    let Some(name) = point.optional(context(0)).ok()? else { continue };
                    let Some(names) = name.reader().optional(context(0)).ok()? else { continue };
                    let mut names = names.reader();
                    while !names.is_empty() {
                        let name = names.any().ok()?;
                        if name.tag == primitive(6) {
                            self.crls.push(std::str::from_utf8(name.content).ok()?.to_owned());
                        }
                    }
                }
            }
            [2, 5, 29, 32] => {
                let mut policies = reader.sequence().ok()?;
                while !policies.is_empty() {
                    self.policies.push(Oid::read(&mut policies.sequence().ok()?)?);
                }
            }
            [2, 5, 29, 35] => {
                let id = reader.sequence().ok()?.optional(primitive(0)).ok()?;
                self.authority_key_id = id.map(|id| id.content.to_vec()).unwrap_or_default();
            }
            [2, 5, 29, 37] => {
                let mut usages = reader.sequence().ok()?;
                while !usages.is_empty() {
                    let usage = Oid::read(&mut usages)?;
                    match ext_key_usage(&usage) {
                        Some(number) => self.ext_key_usage.push(number),
                        None => self.unknown_ext_key_usage.push(usage),
                    }
                }
            }
            [2, 5, 29, 14] => self.subject_key_id = reader.octets().ok()?.to_vec(),
            [1, 3, 6, 1, 5, 5, 7, 1, 1] => {
                let mut descriptions = reader.sequence().ok()?;
                while !descriptions.is_empty() {
                    let mut description = descriptions.sequence().ok()?;
                    let method = Oid::read(&mut description)?;
                    let place = description.any().ok()?;
                    if place.tag == primitive(6) {
                        let place = std::str::from_utf8(place.content).ok()?.to_owned();
                        match method.0.as_slice() {
                            [1, 3, 6, 1, 5, 5, 7, 48, 1] => self.ocsp.push(place),
                            [1, 3, 6, 1, 5, 5, 7, 48, 2] => self.issuers.push(place),
                            _ => {}
                        }
                    }
                }
            }
            _ => return Some(false),
        }
        Some(true)
    }

    fn json(&self) -> Json {
        let extension = |(oid, critical, value): &(Oid, bool, Vec<u8>)| {
            json::object([
                ("Id", arcs(oid)),
                ("Critical", (*critical).into()),
                ("Value", json::bytes(value)),
            ])
        };
        json::list(self.all.iter().map(extension).collect())
    }
}

/// Go's number for an extended key usage.
fn ext_key_usage(oid: &Oid) -> Option<i64> {
    Some(match oid.0.as_slice() {
        [2, 5, 29, 37, 0] => 0,
        [1, 3, 6, 1, 5, 5, 7, 3, number @ 1..=9] => i64::try_from(*number).ok()?,
        [1, 3, 6, 1, 4, 1, 311, 10, 3, 3] => 10,
        [2, 16, 840, 1, 113_730, 4, 1] => 11,
        [1, 3, 6, 1, 4, 1, 311, 2, 1, 22] => 12,
        [1, 3, 6, 1, 4, 1, 311, 61, 1, 1] => 13,
        _ => return None,
    })
}

impl Certificate {
    /// The certificate that `bytes` are.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let certificate = Self::next(&mut reader)?;
        reader.is_empty().then_some(certificate)
    }

    fn next(reader: &mut Reader<'_>) -> Option<Self> {
        let whole = reader.expect(SEQUENCE).ok()?;
        let mut parts = whole.reader();
        let signed = parts.expect(SEQUENCE).ok()?;
        let scheme = Scheme::of(parts.sequence().ok()?)?;
        let signature = parts.bit_string().ok()?.to_vec();
        let mut fields = signed.reader();
        let version = match fields.optional(context(0)).ok()? {
            Some(version) => i64::try_from(integer(&mut version.reader())?).ok()? + 1,
            None => 1,
        };
        let serial = integer(&mut fields)?;
        fields.sequence().ok()?;
        let issuer = Name::read(fields.expect(SEQUENCE).ok()?)?;
        let mut validity = fields.sequence().ok()?;
        let (not_before, not_after) = (time(validity.any().ok()?)?, time(validity.any().ok()?)?);
        let subject = Name::read(fields.expect(SEQUENCE).ok()?)?;
        let key_info = fields.expect(SEQUENCE).ok()?;
        let key = PublicKey::read(key_info)?;
        // Unique identifiers of version 2, which certificates no longer have.
        for number in [1, 2] {
            fields.optional(primitive(number)).ok()?;
        }
        let extensions = match fields.optional(context(3)).ok()? {
            Some(extensions) => Extensions::read(extensions.reader().sequence().ok()?)?,
            None => Extensions::default(),
        };
        Some(Self {
            raw: whole.whole.to_vec(),
            signed: signed.whole.to_vec(),
            signature,
            scheme,
            version,
            serial,
            issuer,
            subject,
            not_before,
            not_after,
            key_info: key_info.whole.to_vec(),
            key,
            extensions,
        })
    }

    /// Whether the key of `issuer` made the signature.
    pub(super) fn is_signed_by(&self, issuer: &Self) -> bool {
        issuer.key.verify_certificate(self.scheme.0, &self.signed, &self.signature)
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.raw == other.raw
    }

    /// As Go's `encoding/json` writes its `x509.Certificate`; with the member `URIStrings` that
    /// OPA adds in some places.
    pub(super) fn json(&self, with_uri_strings: bool) -> Json {
        let ext = &self.extensions;
        let alt = &ext.alt;
        let oids = |oids: &[Oid]| json::list(oids.iter().map(arcs).collect());
        let ips = |ips: &[IpAddr]| json::list(ips.iter().map(|ip| ip.to_string().into()).collect());
        let policies: Vec<String> = ext.policies.iter().map(Oid::to_string).collect();
        let mut members = vec![
            ("Raw", json::bytes(&self.raw)),
            ("RawTBSCertificate", json::bytes(&self.signed)),
            ("RawSubjectPublicKeyInfo", json::bytes(&self.key_info)),
            ("RawSubject", json::bytes(&self.subject.raw)),
            ("RawIssuer", json::bytes(&self.issuer.raw)),
            ("Signature", json::bytes(&self.signature)),
            ("SignatureAlgorithm", int(self.scheme.1)),
            ("PublicKeyAlgorithm", int(self.key.go_algorithm())),
            ("PublicKey", self.key.go_json()),
            ("Version", int(self.version)),
            ("SerialNumber", json::number(&self.serial)),
            ("Issuer", self.issuer.json()),
            ("Subject", self.subject.json()),
            ("NotBefore", json::time(self.not_before)),
            ("NotAfter", json::time(self.not_after)),
            ("KeyUsage", int(ext.key_usage)),
            ("Extensions", ext.json()),
            ("ExtraExtensions", Json::Null),
            ("UnhandledCriticalExtensions", oids(&ext.unhandled)),
            (
                "ExtKeyUsage",
                json::list(ext.ext_key_usage.iter().map(|usage| int(*usage)).collect()),
            ),
            ("UnknownExtKeyUsage", oids(&ext.unknown_ext_key_usage)),
            ("BasicConstraintsValid", ext.basic_constraints.into()),
            ("IsCA", ext.is_ca.into()),
            ("MaxPathLen", int(ext.max_path)),
            ("MaxPathLenZero", (ext.basic_constraints && ext.max_path == 0).into()),
            ("SubjectKeyId", json::bytes(&ext.subject_key_id)),
            ("AuthorityKeyId", json::bytes(&ext.authority_key_id)),
            ("OCSPServer", json::texts(&ext.ocsp)),
            ("IssuingCertificateURL", json::texts(&ext.issuers)),
            ("DNSNames", json::texts(&alt.dns)),
            ("EmailAddresses", json::texts(&alt.emails)),
            ("IPAddresses", ips(&alt.ips)),
            ("URIs", json::list(alt.uris.iter().map(|uri| url_json(uri)).collect())),
            ("PermittedDNSDomainsCritical", ext.names_critical.into()),
            ("PermittedDNSDomains", json::texts(&ext.permitted.dns)),
            ("ExcludedDNSDomains", json::texts(&ext.excluded.dns)),
            ("PermittedIPRanges", ext.permitted.ips_json()),
            ("ExcludedIPRanges", ext.excluded.ips_json()),
            ("PermittedEmailAddresses", json::texts(&ext.permitted.emails)),
            ("ExcludedEmailAddresses", json::texts(&ext.excluded.emails)),
            ("PermittedURIDomains", json::texts(&ext.permitted.uris)),
            ("ExcludedURIDomains", json::texts(&ext.excluded.uris)),
            ("CRLDistributionPoints", json::texts(&ext.crls)),
            ("PolicyIdentifiers", oids(&ext.policies)),
            ("Policies", json::texts(&policies)),
            ("InhibitAnyPolicy", int(0)),
            ("InhibitAnyPolicyZero", false.into()),
            ("InhibitPolicyMapping", int(0)),
            ("InhibitPolicyMappingZero", false.into()),
            ("RequireExplicitPolicy", int(0)),
            ("RequireExplicitPolicyZero", false.into()),
            ("PolicyMappings", Json::Null),
        ];
        if with_uri_strings {
            members.push(("URIStrings", json::texts(&alt.uris)));
        }
        members.into_iter().collect()
    }
}

/// The certificates of PEM, or of base64 of PEM or DER.
pub(super) fn read_all(text: &str) -> Result<Vec<Certificate>, BuiltinError> {
    let decoded;
    let pem_text = if text.starts_with("-----BEGIN") {
        Some(text)
    } else {
        decoded = Alphabet::Standard.decode(text)?;
        if decoded.starts_with(b"-----BEGIN") { std::str::from_utf8(&decoded).ok() } else { None }
    };
    let bytes = match pem_text {
        Some(text) => {
            let mut bytes = Vec::new();
            for block in pem::blocks(text) {
                if block.label != "CERTIFICATE" {
                    return Err(BuiltinError::failed(format!(
                        "PEM block type is '{}', expected CERTIFICATE",
                        block.label
                    )));
                }
                bytes.extend(&block.bytes);
            }
            bytes
        }
        None => Alphabet::Standard.decode(text)?,
    };
    let mut reader = Reader(&bytes);
    let mut certificates = Vec::new();
    while !reader.is_empty() {
        let certificate = Certificate::next(&mut reader)
            .ok_or_else(|| BuiltinError::failed("x509: malformed certificate"))?;
        certificates.push(certificate);
    }
    Ok(certificates)
}

pub(super) fn parse<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    context.charge_parsing(text)?;
    let certificates: Json = read_all(text)?.iter().map(|one| one.json(true)).collect();
    Ok(Some(context.heap.copy_json(&certificates)?))
}

pub(super) fn parse_request<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    const LABEL: &str = "CERTIFICATE REQUEST";
    let text = operand::string(args, 0)?;
    context.charge_parsing(text)?;
    let bytes = match text.starts_with("-----BEGIN CERTIFICATE REQUEST-----") {
        true => text.as_bytes().to_vec(),
        false => Alphabet::Standard.decode(text)?,
    };
    let block = std::str::from_utf8(&bytes).ok().and_then(pem::decode);
    let bytes = match block {
        Some(block) if block.label != LABEL => {
            return Err(BuiltinError::failed("invalid PEM-encoded certificate signing request"));
        }
        Some(block) => block.bytes,
        None => bytes,
    };
    let request = request_json(&bytes).ok_or_else(|| {
        BuiltinError::failed("asn1: structure error: not a certificate signing request")
    })?;
    Ok(Some(context.heap.copy_json(&request)?))
}

fn request_json(bytes: &[u8]) -> Option<Json> {
    let mut reader = Reader(bytes);
    let whole = reader.expect(SEQUENCE).ok()?;
    let mut parts = whole.reader();
    let signed = parts.expect(SEQUENCE).ok()?;
    let (_, algorithm) = Scheme::of(parts.sequence().ok()?)?;
    let signature = parts.bit_string().ok()?;
    let mut fields = signed.reader();
    let version = integer(&mut fields)?;
    let subject = Name::read(fields.expect(SEQUENCE).ok()?)?;
    let key_info = fields.expect(SEQUENCE).ok()?;
    let key = PublicKey::read(key_info)?;
    let mut extensions = Extensions::default();
    let mut attributes_json = Vec::new();
    if let Some(attributes) = fields.optional(context(0)).ok()? {
        let mut attributes = attributes.reader();
        while !attributes.is_empty() {
            let mut attribute = attributes.sequence().ok()?;
            let kind = Oid::read(&mut attribute)?;
            let mut values = attribute.expect(SET).ok()?.reader();
            if kind.is(&[1, 2, 840, 113_549, 1, 9, 14]) {
                extensions = Extensions::read(values.sequence().ok()?)?;
            }
            attributes_json.push(json::object([("Type", arcs(&kind)), ("Value", Json::Null)]));
        }
    }
    let alt = &extensions.alt;
    let ips = alt.ips.iter().map(|ip| ip.to_string().into()).collect();
    reader.is_empty().then(|| {
        json::object([
            ("Raw", json::bytes(whole.whole)),
            ("RawTBSCertificateRequest", json::bytes(signed.whole)),
            ("RawSubjectPublicKeyInfo", json::bytes(key_info.whole)),
            ("RawSubject", json::bytes(&subject.raw)),
            ("Version", json::number(&version)),
            ("Signature", json::bytes(signature)),
            ("SignatureAlgorithm", int(algorithm)),
            ("PublicKeyAlgorithm", int(key.go_algorithm())),
            ("PublicKey", key.go_json()),
            ("Subject", subject.json()),
            ("Attributes", json::list(attributes_json)),
            ("Extensions", extensions.json()),
            ("ExtraExtensions", Json::Null),
            ("DNSNames", json::texts(&alt.dns)),
            ("EmailAddresses", json::texts(&alt.emails)),
            ("IPAddresses", json::list(ips)),
            ("URIs", json::list(alt.uris.iter().map(|uri| url_json(uri)).collect())),
        ])
    })
}

/// A certificate chain and its private key, as Go's `tls.X509KeyPair` reads them.
pub(super) fn parse_keypair<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (chain, key) = (operand::string(args, 0)?, operand::string(&[operand::any(args, 1)], 0)?);
    context.charge_parsing(chain)?;
    context.charge_parsing(key)?;
    context.charge_signature()?;
    let certificates = read_all(chain)?;
    let Some(leaf) = certificates.first() else {
        return Err(BuiltinError::failed("tls: failed to find any PEM data in certificate input"));
    };
    let key = read_key(key)?;
    if key.public().as_ref() != Some(&leaf.key) {
        return Err(BuiltinError::failed("tls: private key does not match public key"));
    }
    let raw = certificates.iter().map(|one| json::bytes(&one.raw)).collect();
    let pair = json::object([
        ("Certificate", json::list(raw)),
        ("PrivateKey", key.go_json().unwrap_or_default()),
        ("SupportedSignatureAlgorithms", Json::Null),
        ("OCSPStaple", Json::Null),
        ("SignedCertificateTimestamps", Json::Null),
        ("Leaf", leaf.json(false)),
    ]);
    Ok(Some(context.heap.copy_json(&pair)?))
}

/// A private key in PEM, or in base64 of PEM or PKCS#8.
fn read_key(text: &str) -> Result<PrivateKey, BuiltinError> {
    let unusable = || BuiltinError::failed("tls: failed to parse private key");
    let decoded;
    let text = if text.starts_with("-----BEGIN") {
        text
    } else {
        let bytes = Alphabet::Standard.decode(text)?;
        if !bytes.starts_with(b"-----BEGIN") {
            return PrivateKey::pkcs8(&bytes).ok_or_else(unusable);
        }
        decoded = String::from_utf8_lossy(&bytes).into_owned();
        &decoded
    };
    let key = pem::blocks(text).find_map(|block| PrivateKey::of_block(&block));
    key.unwrap_or_else(|| {
        Err(BuiltinError::failed("tls: failed to find any PEM data in key input"))
    })
}
