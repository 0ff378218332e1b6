//! Public and private keys.

use modgate_value::{
    Number, Value as Json,
    go::{
        base64::Alphabet,
        der::{Element, Reader, context},
        pem,
    },
};
use num_bigint::{BigInt, BigUint};

use super::{
    super::{BuiltinError, Context, Outcome, operand},
    Hash,
    certificates::Certificate,
    der::{Oid, integer},
    json,
    rsa::RsaKey,
};
use crate::value::Value;

/// A named elliptic curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    /// Bytes of a coordinate.
    pub(super) fn width(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    fn of(oid: &Oid) -> Option<Self> {
        match oid.0.as_slice() {
            [1, 2, 840, 10045, 3, 1, 7] => Some(Self::P256),
            [1, 3, 132, 0, 34] => Some(Self::P384),
            [1, 3, 132, 0, 35] => Some(Self::P521),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    /// The hash that JOSE pairs it with (RFC 7518, section 3.4).
    fn hash(self) -> Hash {
        match self {
            Self::P256 => Hash::Sha256,
            Self::P384 => Hash::Sha384,
            Self::P521 => Hash::Sha512,
        }
    }

    /// Whether `r` and `s` sign `digest`; `point` is uncompressed.
    fn verify(self, point: &[u8], digest: &[u8], r: &[u8], s: &[u8]) -> bool {
        let width = self.width();
        let (Some(r), Some(s)) = (fixed(r, width), fixed(s, width)) else { return false };
        let signature = [r, s].concat();
        macro_rules! verify {
            ($curve:ident) => {{
                use $curve::ecdsa::{Signature, VerifyingKey, signature::hazmat::PrehashVerifier};
                let key = VerifyingKey::from_sec1_bytes(point);
                let signature = Signature::from_slice(&signature);
                key.is_ok_and(|key| {
                    signature.is_ok_and(|signature| key.verify_prehash(digest, &signature).is_ok())
                })
            }};
        }
        match self {
            Self::P256 => verify!(p256),
            Self::P384 => verify!(p384),
            Self::P521 => verify!(p521),
        }
    }

    /// The uncompressed public point of a private scalar.
    fn public_point(self, scalar: &[u8]) -> Option<Vec<u8>> {
        let scalar = fixed(scalar, self.width())?;
        macro_rules! point {
            ($curve:ident) => {{
                let key = $curve::ecdsa::SigningKey::from_slice(&scalar).ok()?;
                Some(key.verifying_key().to_sec1_point(false).as_bytes().to_vec())
            }};
        }
        match self {
            Self::P256 => point!(p256),
            Self::P384 => point!(p384),
            Self::P521 => point!(p521),
        }
    }
}

/// A big-endian number as exactly `width` bytes, if it fits.
fn fixed(number: &[u8], width: usize) -> Option<Vec<u8>> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    let significant = number.get(zeros..)?;
    let mut out = vec![0; width.checked_sub(significant.len())?];
    out.extend(significant);
    Some(out)
}

/// A key that signatures are checked with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum PublicKey {
    /// RSA
    Rsa(RsaKey),
    /// A curve and an uncompressed point on it.
    Ec(Curve, Vec<u8>),
    /// Ed25519
    Ed25519([u8; 32]),
    /// A secret shared by both sides.
    Secret(Vec<u8>),
    /// A kind of key that checks nothing here.
    Other,
}

impl PublicKey {
    /// The key of a SubjectPublicKeyInfo (RFC 5280, section 4.1).
    pub(super) fn read(info: Element<'_>) -> Option<Self> {
        let mut fields = info.reader();
        let mut algorithm = fields.sequence().ok()?;
        let key = fields.bit_string().ok()?;
        let oid = Oid::read(&mut algorithm)?;
        if oid.is(&[1, 2, 840, 113_549, 1, 1, 1]) {
            let mut numbers = Reader(key).sequence().ok()?;
            let (modulus, exponent) = (integer(&mut numbers)?, integer(&mut numbers)?);
            return Some(Self::Rsa(RsaKey {
                modulus: modulus.to_biguint()?,
                exponent: exponent.to_biguint()?,
            }));
        }
        if oid.is(&[1, 2, 840, 10045, 2, 1]) {
            let curve = Curve::of(&Oid::read(&mut algorithm)?)?;
            let uncompressed = key.first() == Some(&4) && key.len() == 1 + 2 * curve.width();
            return uncompressed.then(|| Self::Ec(curve, key.to_vec()));
        }
        if oid.is(&[1, 3, 101, 112]) {
            return Some(Self::Ed25519(key.try_into().ok()?));
        }
        Some(Self::Other)
    }

    /// Go's number for the algorithm.
    pub(super) fn go_algorithm(&self) -> i64 {
        match self {
            Self::Rsa(_) => 1,
            Self::Ec(..) => 3,
            Self::Ed25519(_) => 4,
            Self::Secret(_) | Self::Other => 0,
        }
    }

    /// As Go's `encoding/json` writes its key types.
    pub(super) fn go_json(&self) -> Json {
        match self {
            Self::Rsa(key) => json::object([
                ("N", json::unsigned(&key.modulus)),
                ("E", json::unsigned(&key.exponent)),
            ]),
            Self::Ec(curve, point) => {
                let (x, y) = coordinates(*curve, point);
                json::object([
                    ("Curve", json::object([])),
                    ("X", json::unsigned(&x)),
                    ("Y", json::unsigned(&y)),
                ])
            }
            Self::Ed25519(key) => json::bytes(key),
            Self::Secret(_) | Self::Other => Json::Null,
        }
    }

    /// Whether `signature` is this key's under a JOSE algorithm such as `RS256`.
    pub(in super::super) fn verify(
        &self,
        algorithm: &str,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let hash = match algorithm.get(2..) {
            Some("256") => Hash::Sha256,
            Some("384") => Hash::Sha384,
            Some("512") => Hash::Sha512,
            _ if algorithm == "EdDSA" => Hash::Sha512,
            _ => return false,
        };
        match (self, algorithm.get(..2)) {
            (Self::Rsa(key), Some("RS")) => key.verify_pkcs1(hash, &hash.of(message), signature),
            (Self::Rsa(key), Some("PS")) => key.verify_pss(hash, &hash.of(message), signature),
            (Self::Ec(curve, point), Some("ES")) => {
                let (r, s) = signature.split_at(signature.len() / 2);
                curve.hash() == hash && curve.verify(point, &hash.of(message), r, s)
            }
            (Self::Ed25519(key), Some("Ed")) => verify_ed25519(key, message, signature),
            (Self::Secret(secret), Some("HS")) => {
                super::equal(&hash.mac(secret, message), signature)
            }
            _ => false,
        }
    }

    /// Whether a certificate's `signature` is this key's; `scheme` is of [`Scheme::of`].
    pub(super) fn verify_certificate(
        &self,
        scheme: Scheme,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        match (self, scheme) {
            (Self::Rsa(key), Scheme::Pkcs1(hash)) => {
                key.verify_pkcs1(hash, &hash.of(message), signature)
            }
            (Self::Rsa(key), Scheme::Pss(hash)) => {
                key.verify_pss(hash, &hash.of(message), signature)
            }
            (Self::Ec(curve, point), Scheme::Ecdsa(hash)) => {
                let numbers = || {
                    let mut numbers = Reader(signature).sequence().ok()?;
                    let (r, s) = (integer(&mut numbers)?, integer(&mut numbers)?);
                    Some((r.to_biguint()?.to_bytes_be(), s.to_biguint()?.to_bytes_be()))
                };
                numbers().is_some_and(|(r, s)| curve.verify(point, &hash.of(message), &r, &s))
            }
            (Self::Ed25519(key), Scheme::Ed25519) => verify_ed25519(key, message, signature),
            _ => false,
        }
    }
}

fn verify_ed25519(key: &[u8; 32], message: &[u8], signature: &[u8]) -> bool {
    use ed25519_dalek::{Signature, Verifier, VerifyingKey};
    let key = VerifyingKey::from_bytes(key);
    let signature = Signature::from_slice(signature);
    key.is_ok_and(|key| signature.is_ok_and(|signature| key.verify(message, &signature).is_ok()))
}

fn coordinates(curve: Curve, point: &[u8]) -> (BigUint, BigUint) {
    let (x, y) =
        point.get(1..).unwrap_or_default().split_at_checked(curve.width()).unwrap_or_default();
    (BigUint::from_bytes_be(x), BigUint::from_bytes_be(y))
}

/// How a certificate is signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Pkcs1(Hash),
    Pss(Hash),
    Ecdsa(Hash),
    Ed25519,
    /// Nothing that is checked here: broken hashes and unknown schemes.
    Other,
}

impl Scheme {
    /// The scheme of an AlgorithmIdentifier, and Go's number for it.
    pub(super) fn of(mut algorithm: Reader<'_>) -> Option<(Self, i64)> {
        let oid = Oid::read(&mut algorithm)?;
        const RSA: [u64; 6] = [1, 2, 840, 113_549, 1, 1];
        const ECDSA: [u64; 5] = [1, 2, 840, 10045, 4];
        let last = oid.0.last().copied().unwrap_or(0);
        let rest = oid.0.split_last().map_or(&[] as &[u64], |(_, rest)| rest);
        Some(if rest == RSA {
            match last {
                2 => (Self::Other, 1),
                4 => (Self::Other, 2),
                5 => (Self::Pkcs1(Hash::Sha1), 3),
                11 => (Self::Pkcs1(Hash::Sha256), 4),
                12 => (Self::Pkcs1(Hash::Sha384), 5),
                13 => (Self::Pkcs1(Hash::Sha512), 6),
                10 => match pss_hash(algorithm) {
                    Some(Hash::Sha256) => (Self::Pss(Hash::Sha256), 13),
                    Some(Hash::Sha384) => (Self::Pss(Hash::Sha384), 14),
                    Some(Hash::Sha512) => (Self::Pss(Hash::Sha512), 15),
                    _ => (Self::Other, 0),
                },
                _ => (Self::Other, 0),
            }
        } else if oid.is(&[1, 2, 840, 10045, 4, 1]) {
            (Self::Ecdsa(Hash::Sha1), 9)
        } else if rest.starts_with(&ECDSA) {
            match last {
                2 => (Self::Ecdsa(Hash::Sha256), 10),
                3 => (Self::Ecdsa(Hash::Sha384), 11),
                4 => (Self::Ecdsa(Hash::Sha512), 12),
                _ => (Self::Other, 0),
            }
        } else if oid.is(&[1, 3, 101, 112]) {
            (Self::Ed25519, 16)
        } else {
            (Self::Other, 0)
        })
    }
}

/// The hash in the parameters of RSASSA-PSS (RFC 4055, section 3.1).
fn pss_hash(mut algorithm: Reader<'_>) -> Option<Hash> {
    let mut parameters = algorithm.sequence().ok()?;
    let oid = Oid::read(&mut parameters.expect(context(0)).ok()?.reader().sequence().ok()?)?;
    match oid.0.as_slice() {
        [2, 16, 840, 1, 101, 3, 4, 2, 1] => Some(Hash::Sha256),
        [2, 16, 840, 1, 101, 3, 4, 2, 2] => Some(Hash::Sha384),
        [2, 16, 840, 1, 101, 3, 4, 2, 3] => Some(Hash::Sha512),
        _ => None,
    }
}

/// A key of a set, and what the set says about it; empty where it says nothing.
pub(in super::super) struct SetKey {
    pub(in super::super) id: String,
    pub(in super::super) algorithm: String,
    pub(in super::super) key: PublicKey,
}

/// The keys of a certificate or public key in PEM, or of a JSON Web Key or set of them.
pub(in super::super) fn pem_or_jwk(text: &str) -> Result<Vec<SetKey>, BuiltinError> {
    let Some(block) = pem::decode(text) else { return key_set(text) };
    if !block.rest.is_empty() {
        return Err(BuiltinError::failed("extra data after a PEM certificate block"));
    }
    let key = match block.label {
        "CERTIFICATE" => {
            let certificate = Certificate::read(&block.bytes).ok_or_else(|| {
                BuiltinError::failed(
                    "failed to parse a PEM certificate: x509: malformed certificate",
                )
            })?;
            certificate.key
        }
        "PUBLIC KEY" => {
            let info = Reader(&block.bytes).any().ok();
            info.and_then(PublicKey::read).ok_or_else(|| {
                BuiltinError::failed("failed to parse a PEM public key: asn1: structure error")
            })?
        }
        _ => {
            let problem = "failed to extract a Key from the PEM certificate";
            return Err(BuiltinError::failed(problem));
        }
    };
    Ok(vec![SetKey { id: String::new(), algorithm: String::new(), key }])
}

/// The keys of a JSON Web Key or set of them (RFC 7517).
pub(in super::super) fn key_set(text: &str) -> Result<Vec<SetKey>, BuiltinError> {
    let invalid =
        |problem: &str| BuiltinError::failed(format!("failed to parse a JWK key (set): {problem}"));
    let document = Json::from_json(text.as_bytes()).map_err(|error| invalid(&error.to_string()))?;
    let keys = match document.get("keys").and_then(Json::as_array) {
        Some(keys) => keys.to_vec(),
        None => vec![document],
    };
    const KNOWN: [&str; 13] = [
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "HS256",
        "HS384", "HS512", "EdDSA",
    ];
    let mut found = Vec::new();
    for key in &keys {
        let text = |name: &str| key.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        let algorithm = text("alg");
        if !algorithm.is_empty() && !KNOWN.contains(&algorithm.as_str()) {
            continue;
        }
        let read = web_key(key).ok_or_else(|| invalid("not a key"))?;
        found.push(SetKey { id: text("kid"), algorithm, key: read });
    }
    Ok(found)
}

fn web_key(key: &Json) -> Option<PublicKey> {
    let text = |name: &str| key.get(name).and_then(Json::as_str);
    let number = |name: &str| {
        let text = text(name)?;
        let padding = "=".repeat((4 - text.len() % 4) % 4);
        Alphabet::Url.decode(format!("{text}{padding}")).ok()
    };
    let key = match text("kty")? {
        "RSA" => PublicKey::Rsa(RsaKey {
            modulus: BigUint::from_bytes_be(&number("n")?),
            exponent: BigUint::from_bytes_be(&number("e")?),
        }),
        "EC" => {
            let curve = [Curve::P256, Curve::P384, Curve::P521]
                .into_iter()
                .find(|curve| text("crv") == Some(curve.name()))?;
            let width = curve.width();
            let point = [vec![4], fixed(&number("x")?, width)?, fixed(&number("y")?, width)?];
            PublicKey::Ec(curve, point.concat())
        }
        "OKP" if text("crv") == Some("Ed25519") => {
            PublicKey::Ed25519(number("x")?.try_into().ok()?)
        }
        "OKP" => PublicKey::Other,
        "oct" => PublicKey::Secret(number("k")?),
        _ => return None,
    };
    // A private key checks nothing.
    let private = text("d").is_some();
    Some(if private { PublicKey::Other } else { key })
}

/// A private key, read to be shown.
pub(super) enum PrivateKey {
    /// Modulus, exponents, primes and the numbers derived from them, in the order of RFC 8017.
    Rsa(Vec<BigInt>),
    Ec(Curve, Vec<u8>),
    Ed25519([u8; 32]),
}

impl PrivateKey {
    /// The key of a PEM block; `None` if its label is of something else.
    pub(super) fn of_block(block: &pem::Block<'_>) -> Option<Result<Self, BuiltinError>> {
        let read = match block.label {
            "RSA PRIVATE KEY" => Self::pkcs1(&block.bytes),
            "PRIVATE KEY" => Self::pkcs8(&block.bytes),
            "EC PRIVATE KEY" => Self::sec1(&block.bytes, None),
            _ => return None,
        };
        Some(read.ok_or_else(|| BuiltinError::failed("asn1: structure error: not a private key")))
    }

    fn pkcs1(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader(bytes).sequence().ok()?;
        integer(&mut fields)?;
        let numbers: Vec<BigInt> = (0..8).map_while(|_| integer(&mut fields)).collect();
        (numbers.len() == 8).then_some(Self::Rsa(numbers))
    }

    pub(super) fn pkcs8(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader(bytes).sequence().ok()?;
        integer(&mut fields)?;
        let mut algorithm = fields.sequence().ok()?;
        let key = fields.octets().ok()?;
        let oid = Oid::read(&mut algorithm)?;
        if oid.is(&[1, 2, 840, 113_549, 1, 1, 1]) {
            Self::pkcs1(key)
        } else if oid.is(&[1, 2, 840, 10045, 2, 1]) {
            Self::sec1(key, Curve::of(&Oid::read(&mut algorithm)?))
        } else if oid.is(&[1, 3, 101, 112]) {
            Some(Self::Ed25519(Reader(key).octets().ok()?.try_into().ok()?))
        } else {
            None
        }
    }

    fn sec1(bytes: &[u8], curve: Option<Curve>) -> Option<Self> {
        let mut fields = Reader(bytes).sequence().ok()?;
        integer(&mut fields)?;
        let scalar = fields.octets().ok()?;
        let named = fields.optional(context(0)).ok()?;
        let named = named.and_then(|parameters| Curve::of(&Oid::read(&mut parameters.reader())?));
        Some(Self::Ec(curve.or(named)?, scalar.to_vec()))
    }

    /// As Go's `encoding/json` writes its key types.
    pub(super) fn go_json(&self) -> Option<Json> {
        Some(match self {
            Self::Rsa(numbers) => {
                let [n, e, d, p, q, dp, dq, qi] = numbers.as_slice() else { return None };
                json::object([
                    ("N", json::number(n)),
                    ("E", json::number(e)),
                    ("D", json::number(d)),
                    ("Primes", vec![json::number(p), json::number(q)].into()),
                    (
                        "Precomputed",
                        json::object([
                            ("Dp", json::number(dp)),
                            ("Dq", json::number(dq)),
                            ("Qinv", json::number(qi)),
                            ("CRTValues", Vec::new().into()),
                        ]),
                    ),
                ])
            }
            Self::Ec(curve, scalar) => {
                let (x, y) = coordinates(*curve, &curve.public_point(scalar)?);
                json::object([
                    ("Curve", json::object([])),
                    ("X", json::unsigned(&x)),
                    ("Y", json::unsigned(&y)),
                    ("D", json::unsigned(&BigUint::from_bytes_be(scalar))),
                ])
            }
            Self::Ed25519(seed) => json::bytes(&[*seed, ed25519_public(seed)].concat()),
        })
    }

    /// As a JSON Web Key.
    fn web_key(&self) -> Option<Json> {
        Some(match self {
            Self::Rsa(numbers) => {
                let names = ["n", "e", "d", "p", "q", "dp", "dq", "qi"];
                let numbers = numbers.iter().map(|n| json::url_bytes(&n.to_bytes_be().1));
                let mut members: Vec<(&str, Json)> = names.into_iter().zip(numbers).collect();
                members.push(("kty", "RSA".into()));
                members.into_iter().collect()
            }
            Self::Ec(curve, scalar) => {
                let point = curve.public_point(scalar)?;
                let (x, y) = point.get(1..)?.split_at_checked(curve.width())?;
                json::object([
                    ("kty", "EC".into()),
                    ("crv", curve.name().into()),
                    ("x", json::url_bytes(x)),
                    ("y", json::url_bytes(y)),
                    ("d", json::url_bytes(&fixed(scalar, curve.width())?)),
                ])
            }
            Self::Ed25519(seed) => json::object([
                ("kty", "OKP".into()),
                ("crv", "Ed25519".into()),
                ("x", json::url_bytes(&ed25519_public(seed))),
                ("d", json::url_bytes(seed)),
            ]),
        })
    }

    /// The public half.
    pub(super) fn public(&self) -> Option<PublicKey> {
        Some(match self {
            Self::Rsa(numbers) => PublicKey::Rsa(RsaKey {
                modulus: numbers.first()?.to_biguint()?,
                exponent: numbers.get(1)?.to_biguint()?,
            }),
            Self::Ec(curve, scalar) => PublicKey::Ec(*curve, curve.public_point(scalar)?),
            Self::Ed25519(seed) => PublicKey::Ed25519(ed25519_public(seed)),
        })
    }
}

fn ed25519_public(seed: &[u8; 32]) -> [u8; 32] {
    ed25519_dalek::SigningKey::from_bytes(seed).verifying_key().to_bytes()
}

/// All private keys in some PEM, which may itself be in base64.
fn private_keys(text: &str) -> Result<Vec<PrivateKey>, BuiltinError> {
    let decoded = Alphabet::Standard.decode(text).ok();
    let decoded = decoded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let blocks = pem::blocks(decoded.as_deref().unwrap_or(text));
    blocks.filter_map(|block| PrivateKey::of_block(&block)).collect()
}

pub(super) fn parse_private_keys<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    if text.is_empty() {
        return Ok(Some(Value::NULL));
    }
    context.charge_parsing(text)?;
    let keys = private_keys(text)?;
    context.spend(keys.len().saturating_mul(super::SIGNATURE_STEPS))?;
    let shown: Json = keys.iter().map(|key| key.go_json().unwrap_or_default()).collect();
    Ok(Some(context.heap.copy_json(&shown)?))
}

/// The first key as a JSON Web Key; any kind, whatever the name says.
pub(super) fn parse_rsa_private_key<'a>(
    context: &mut Context<'a>,
    args: &[Value<'a>],
) -> Outcome<'a> {
    let text = operand::string(args, 0)?;
    if text.is_empty() {
        return Err(BuiltinError::failed("input PEM data was empty"));
    }
    context.charge_parsing(text)?;
    context.charge_signature()?;
    if !text.starts_with("-----BEGIN") {
        Alphabet::Standard.decode(text)?;
    }
    let keys = private_keys(text)?;
    match keys.first() {
        None => Ok(Some(Value::NULL)),
        Some(key) => {
            let shown = key.web_key().unwrap_or_default();
            Ok(Some(context.heap.copy_json(&shown)?))
        }
    }
}

/// An unsigned number for Go's JSON, from an `i64`.
pub(super) fn int(value: i64) -> Json {
    Json::Number(Number::from(value))
}
