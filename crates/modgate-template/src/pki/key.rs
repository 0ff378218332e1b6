//! Private keys of any kind: making, reading, writing and signing.

use ed25519_dalek::Signer as _;
use modgate_value::go::{
    der::{OCTET_STRING, Reader, bit_string, context, element, object_id, sequence},
    pem::{self, Block},
};
use num_bigint::BigUint;
use p256::ecdsa::signature::hazmat::PrehashSigner as _;
use sha2::{Digest as _, Sha256};

use super::{
    der::{integer, number, oid},
    dsa,
    rsa::RsaKey,
};
use crate::{
    Env,
    fault::{Fault, Result},
};

pub(crate) enum Key {
    Rsa(Box<RsaKey>),
    /// ECDSA on P-256, the only curve there is here.
    Ecdsa(Box<p256::ecdsa::SigningKey>),
    Ed25519(Box<ed25519_dalek::SigningKey>),
    /// The encoding only: Go refuses to sign certificates with DSA.
    Dsa(Vec<u8>),
}

/// The kinds of keys that `genPrivateKey` makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Rsa,
    Dsa,
    Ecdsa,
    Ed25519,
}

impl KeyKind {
    /// Sprig's name of the kind; the empty name is RSA.
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "" | "rsa" => Some(Self::Rsa),
            "dsa" => Some(Self::Dsa),
            "ecdsa" => Some(Self::Ecdsa),
            "ed25519" => Some(Self::Ed25519),
            _ => None,
        }
    }
}

impl Key {
    /// A new key; `rsa_bits` is the size where it is RSA.
    pub(crate) fn generate(env: &Env<'_>, kind: KeyKind, rsa_bits: u64) -> Result<Self> {
        Ok(match kind {
            KeyKind::Rsa => Self::Rsa(RsaKey::generate(env, rsa_bits)?.into()),
            KeyKind::Dsa => Self::Dsa(dsa::generate(env)?),
            KeyKind::Ecdsa => loop {
                env.budget.spend(10_000)?;
                let mut scalar = [0; 32];
                env.host.random_bytes(&mut scalar)?;
                // Almost every number of 256 bits is a key.
                if let Ok(key) = p256::ecdsa::SigningKey::from_slice(&scalar) {
                    break Self::Ecdsa(key.into());
                }
            },
            KeyKind::Ed25519 => {
                env.budget.spend(10_000)?;
                let mut seed = [0; 32];
                env.host.random_bytes(&mut seed)?;
                Self::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed).into())
            }
        })
    }

    /// Sprig's `parsePrivateKeyPEM`.
    pub(crate) fn from_pem(text: &str) -> Result<Self, String> {
        let Block { label, bytes: der, .. } = pem::decode(text).ok_or("no PEM data in input")?;
        let explain = |kind: &str| {
            let kind = kind.to_owned();
            move |message: String| format!("parsing {kind} private key from PEM: {message}")
        };
        match label.strip_suffix("PRIVATE KEY") {
            Some("") => {
                Self::from_pkcs8(&der).map_err(|error| format!("decoding PEM as PKCS#8: {error}"))
            }
            Some("RSA ") => {
                RsaKey::from_der(&der).map(|key| Self::Rsa(key.into())).map_err(explain("RSA"))
            }
            Some("EC ") => Self::from_sec1(&der, None).map_err(explain("EC")),
            Some("DSA ") => {
                let six = Reader(&der)
                    .sequence()
                    .and_then(|mut numbers| (0..6).try_for_each(|_| numbers.unsigned().map(drop)));
                six.map_err(|malformed| explain("DSA")(malformed.into()))?;
                Ok(Self::Dsa(der))
            }
            Some(other) if other.ends_with(' ') => {
                Err(format!("invalid private key type {}", other.trim_end()))
            }
            _ => Err(format!("no private key data in PEM block of type {label}")),
        }
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, String> {
        let mut info = Reader(der).sequence()?;
        number(&mut info)?;
        let mut algorithm = info.sequence()?;
        let kind = algorithm.object_id()?;
        let key = info.octets()?;
        match kind {
            oid::RSA => RsaKey::from_der(key).map(|key| Self::Rsa(key.into())),
            oid::EC => Self::from_sec1(key, Some(algorithm.object_id()?)),
            oid::ED25519 => {
                let seed = Reader(key).octets()?;
                let seed = <[u8; 32]>::try_from(seed)
                    .map_err(|_| "x509: invalid Ed25519 private key length".to_owned())?;
                Ok(Self::Ed25519(ed25519_dalek::SigningKey::from_bytes(&seed).into()))
            }
            _ => {
                Err("x509: PKCS#8 wrapping contained private key with unknown algorithm".to_owned())
            }
        }
    }

    /// SEC 1 `ECPrivateKey`; the curve may be named outside.
    fn from_sec1(der: &[u8], curve: Option<&[u8]>) -> Result<Self, String> {
        let mut fields = Reader(der).sequence()?;
        number(&mut fields)?;
        let scalar = fields.octets()?;
        let inside = fields.optional(context(0))?;
        let inside = inside.map(|parameters| parameters.reader().object_id()).transpose()?;
        if curve.or(inside) != Some(oid::P256) {
            return Err("x509: unknown elliptic curve".to_owned());
        }
        p256::ecdsa::SigningKey::from_slice(scalar)
            .map(|key| Self::Ecdsa(key.into()))
            .map_err(|_| "x509: invalid elliptic curve private key value".to_owned())
    }

    /// The key as Sprig writes it: PKCS #1, SEC 1 or PKCS #8.
    pub(crate) fn to_pem(&self) -> String {
        match self {
            Self::Rsa(key) => pem::encode("RSA PRIVATE KEY", &key.to_der()),
            Self::Dsa(der) => pem::encode("DSA PRIVATE KEY", der),
            Self::Ecdsa(key) => {
                let der = sequence(&[
                    &integer(&BigUint::from(1u8)),
                    &element(OCTET_STRING, &key.to_bytes()),
                    &element(context(0), &object_id(oid::P256)),
                    &element(context(1), &bit_string(&point(key))),
                ]);
                pem::encode("EC PRIVATE KEY", &der)
            }
            Self::Ed25519(key) => {
                let der = sequence(&[
                    &integer(&BigUint::ZERO),
                    &sequence(&[&object_id(oid::ED25519)]),
                    &element(OCTET_STRING, &element(OCTET_STRING, key.as_bytes())),
                ]);
                pem::encode("PRIVATE KEY", &der)
            }
        }
    }

    /// The public key as bytes: what a key identifier is the hash of.
    pub(super) fn public_bytes(&self) -> Result<Vec<u8>> {
        match self {
            Self::Rsa(key) => Ok(key.public_der()),
            Self::Ecdsa(key) => Ok(point(key)),
            Self::Ed25519(key) => Ok(key.verifying_key().as_bytes().to_vec()),
            Self::Dsa(_) => Err(unsupported()),
        }
    }

    /// `SubjectPublicKeyInfo`
    pub(super) fn public_info(&self) -> Result<Vec<u8>> {
        let algorithm = match self {
            Self::Rsa(_) => sequence(&[&object_id(oid::RSA), &[5, 0]]),
            Self::Ecdsa(_) => sequence(&[&object_id(oid::EC), &object_id(oid::P256)]),
            Self::Ed25519(_) => sequence(&[&object_id(oid::ED25519)]),
            Self::Dsa(_) => return Err(unsupported()),
        };
        Ok(sequence(&[&algorithm, &bit_string(&self.public_bytes()?)]))
    }

    /// The `AlgorithmIdentifier` of [`Key::sign`].
    pub(super) fn signature_algorithm(&self) -> Result<Vec<u8>> {
        match self {
            Self::Rsa(_) => Ok(sequence(&[&object_id(oid::RSA_SHA256), &[5, 0]])),
            Self::Ecdsa(_) => Ok(sequence(&[&object_id(oid::ECDSA_SHA256)])),
            Self::Ed25519(_) => Ok(sequence(&[&object_id(oid::ED25519)])),
            Self::Dsa(_) => Err(unsupported()),
        }
    }

    pub(super) fn sign(&self, env: &Env<'_>, message: &[u8]) -> Result<Vec<u8>> {
        env.budget.spend(10_000)?;
        match self {
            Self::Rsa(key) => key.sign(env, &Sha256::digest(message)),
            Self::Ecdsa(key) => {
                let signature: p256::ecdsa::Signature = key
                    .sign_prehash(&Sha256::digest(message))
                    .map_err(|error| Fault::new(error.to_string()))?;
                let (r, s) = signature.split_bytes();
                let number = |bytes: &[u8]| integer(&BigUint::from_bytes_be(bytes));
                Ok(sequence(&[&number(&r), &number(&s)]))
            }
            Self::Ed25519(key) => Ok(key.sign(message).to_bytes().to_vec()),
            Self::Dsa(_) => Err(unsupported()),
        }
    }
}

fn unsupported() -> Fault {
    Fault::new("error creating certificate: x509: unsupported public key type: *dsa.PublicKey")
}

/// The public point, uncompressed.
fn point(key: &p256::ecdsa::SigningKey) -> Vec<u8> {
    key.verifying_key().to_sec1_point(false).as_bytes().to_vec()
}
