//! X.509 certificates (RFC 5280) with the fields and extensions Go gives them.

use std::net::IpAddr;

use modgate_value::go::{
    der::{
        BIT_STRING, BOOLEAN, OCTET_STRING, Reader, SEQUENCE, SET, bit_string, context, element,
        object_id, sequence,
    },
    pem,
};
use num_bigint::BigUint;
use sha1::{Digest as _, Sha1};

use super::{
    Certificate,
    der::{integer, number, oid},
    key::Key,
};
use crate::{
    Env,
    fault::{Fault, Result},
    time::{Duration, HOUR, Time, Zone},
};

/// The contents of a certificate to be made.
pub(crate) struct Request<'r> {
    pub(crate) common_name: &'r str,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) names: Vec<String>,
    pub(crate) days: i64,
    pub(crate) is_authority: bool,
}

/// The signer of a certificate.
pub(crate) struct Authority {
    subject: Vec<u8>,
    key_id: Option<Vec<u8>>,
    key: Key,
}

impl Authority {
    /// The signer that a certificate and its key make.
    pub(crate) fn from_pem(pair: &Certificate) -> Result<Self> {
        let block = pem::decode(&pair.certificate)
            .ok_or_else(|| Fault::new("unable to decode certificate"))?;
        let parsed = parse(&block.bytes)?;
        let key = Key::from_pem(&pair.key)
            .map_err(|message| Fault::new(format!("error parsing private key: {message}")))?;
        if key.public_info()? != parsed.public_info {
            return Err(Fault::new(
                "error creating certificate: x509: provided PrivateKey doesn't match parent's \
                 PublicKey",
            ));
        }
        Ok(Self { subject: parsed.subject, key_id: parsed.key_id, key })
    }
}

/// The parts of a certificate that matter when it signs another.
struct Parsed {
    subject: Vec<u8>,
    public_info: Vec<u8>,
    key_id: Option<Vec<u8>>,
}

/// Whether the bytes are a certificate.
pub(crate) fn check_certificate(der: &[u8]) -> Result<()> {
    parse(der).map(drop)
}

fn parse(der: &[u8]) -> Result<Parsed> {
    read(der).map_err(|message| {
        Fault::new(format!("error parsing certificate: decodedCert.Bytes: {message}"))
    })
}

fn read(der: &[u8]) -> Result<Parsed, String> {
    let mut certificate = Reader(der).sequence()?;
    let mut fields = certificate.sequence()?;
    fields.optional(context(0))?;
    number(&mut fields)?; // serial number
    fields.sequence()?; // signature algorithm
    fields.sequence()?; // issuer
    fields.sequence()?; // validity
    let subject = fields.any()?.whole;
    let public_info = fields.any()?.whole;
    let mut key_id = None;
    if let Some(extensions) = fields.optional(context(3))? {
        let mut extensions = extensions.reader().sequence()?;
        while !extensions.is_empty() {
            let mut extension = extensions.sequence()?;
            let id = extension.object_id()?;
            extension.optional(BOOLEAN)?; // critical
            let value = extension.octets()?;
            if id == oid::SUBJECT_KEY_ID {
                key_id = Some(Reader(value).octets()?.to_vec());
            }
        }
    }
    certificate.sequence()?; // signature algorithm
    certificate.bit_string()?;
    Ok(Parsed { subject: subject.to_vec(), public_info: public_info.to_vec(), key_id })
}

impl Request<'_> {
    /// Makes the certificate for `key`; signed by the key itself unless by an authority.
    pub(crate) fn sign(
        &self,
        env: &Env<'_>,
        key: &Key,
        authority: Option<&Authority>,
    ) -> Result<Certificate> {
        let subject = self.subject();
        let issuer = authority.map_or(&subject, |authority| &authority.subject);
        let signer = authority.map_or(key, |authority| &authority.key);
        // Of 128 bits, as Go's callers draw it.
        let mut serial = [0; 16];
        env.host.random_bytes(&mut serial)?;
        let algorithm = signer.signature_algorithm()?;
        let authority_id = authority
            .filter(|authority| authority.subject != subject)
            .and_then(|authority| authority.key_id.as_deref());
        let fields = sequence(&[
            &element(context(0), &integer(&BigUint::from(2u8))),
            &integer(&BigUint::from_bytes_be(&serial)),
            &algorithm,
            issuer,
            &self.validity(env)?,
            &subject,
            &key.public_info()?,
            &element(context(3), &self.extensions(key, authority_id)?),
        ]);
        let signature = signer.sign(env, &fields)?;
        let certificate = sequence(&[&fields, &algorithm, &bit_string(&signature)]);
        let pair = Certificate {
            certificate: pem::encode("CERTIFICATE", &certificate),
            key: key.to_pem(),
        };
        env.budget.allocate(pair.certificate.len() + pair.key.len())?;
        Ok(pair)
    }

    /// The subject: a common name, or nothing where that is empty.
    fn subject(&self) -> Vec<u8> {
        if self.common_name.is_empty() {
            return sequence(&[]);
        }
        let printable = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
        // PrintableString where it fits, else UTF8String.
        let tag = if self.common_name.bytes().all(printable) { 0x13 } else { 0x0C };
        let name = element(tag, self.common_name.as_bytes());
        let attribute = sequence(&[&object_id(oid::COMMON_NAME), &name]);
        sequence(&[&element(SET, &attribute)])
    }

    fn validity(&self, env: &Env<'_>) -> Result<Vec<u8>> {
        let now = env.host.now()?;
        let from = Time {
            unix: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
            nanos: now.subsec_nanos(),
            zone: Zone::utc(),
        };
        // The product overflows as Go's does.
        let until = from.add(Duration((HOUR * 24).wrapping_mul(self.days)));
        Ok(sequence(&[&time(&from)?, &time(&until)?]))
    }

    fn extensions(&self, key: &Key, authority_id: Option<&[u8]>) -> Result<Vec<u8>> {
        // digitalSignature and keyEncipherment; of an authority also keyCertSign.
        let usage: &[u8] = if self.is_authority { &[2, 0xA4] } else { &[5, 0xA0] };
        let purposes = sequence(&[&object_id(oid::SERVER_AUTH), &object_id(oid::CLIENT_AUTH)]);
        let constraints =
            if self.is_authority { sequence(&[&[1, 1, 0xFF]]) } else { sequence(&[]) };
        let mut all = vec![
            extension(oid::KEY_USAGE, true, &element(BIT_STRING, usage)),
            extension(oid::EXTENDED_KEY_USAGE, false, &purposes),
            extension(oid::BASIC_CONSTRAINTS, true, &constraints),
        ];
        if self.is_authority {
            let id = Sha1::digest(key.public_bytes()?);
            all.push(extension(oid::SUBJECT_KEY_ID, false, &element(OCTET_STRING, &id)));
        }
        if let Some(id) = authority_id {
            let id = sequence(&[&element(0x80, id)]);
            all.push(extension(oid::AUTHORITY_KEY_ID, false, &id));
        }
        if !self.names.is_empty() || !self.addresses.is_empty() {
            let critical = self.common_name.is_empty();
            all.push(extension(oid::ALTERNATIVE_NAME, critical, &self.alternative_names()?));
        }
        Ok(element(SEQUENCE, &all.concat()))
    }

    fn alternative_names(&self) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        for name in &self.names {
            if !name.is_ascii() {
                let quoted = crate::text::quote(name.as_bytes());
                return Err(Fault::new(format!(
                    "error creating certificate: x509: {quoted} cannot be encoded as an IA5String"
                )));
            }
            names.extend(element(0x82, name.as_bytes()));
        }
        for address in &self.addresses {
            names.extend(match address.to_canonical() {
                IpAddr::V4(address) => element(0x87, &address.octets()),
                IpAddr::V6(address) => element(0x87, &address.octets()),
            });
        }
        Ok(element(SEQUENCE, &names))
    }
}

fn extension(id: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &[1, 1, 0xFF] } else { &[] };
    sequence(&[&object_id(id), critical, &element(OCTET_STRING, value)])
}

/// `UTCTime` where the year has two digits there, else `GeneralizedTime`.
fn time(time: &Time) -> Result<Vec<u8>> {
    match time.civil().year {
        1950..2050 => Ok(element(0x17, time.format("060102150405Z").as_bytes())),
        0..=9999 => Ok(element(0x18, time.format("20060102150405Z").as_bytes())),
        _ => Err(Fault::new(
            "error creating certificate: asn1: structure error: cannot represent time as \
             GeneralizedTime",
        )),
    }
}
