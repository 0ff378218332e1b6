//! Hashes, certificates and keys.
//!
//! Only public operations: nothing here signs with or computes on a private key beyond reading it.

mod certificates;
mod chain;
mod der;
mod json;
mod keys;
mod rsa;

use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use modgate_value::go::hex;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{Builtin, BuiltinError, Context, Outcome, operand, yes_or_no};
use crate::value::Value;

pub(super) use keys::{PublicKey, SetKey, key_set, pem_or_jwk};

/// Whether `der` is one X.509 certificate.
pub fn is_certificate(der: &[u8]) -> bool {
    certificates::Certificate::read(der).is_some()
}

pub(super) const BUILTINS: &[Builtin] = &[
    Builtin::new("crypto.md5", "(x: string) => y: string", |context, args| {
        digest::<Md5>(context, args)
    }),
    Builtin::new("crypto.sha1", "(x: string) => y: string", |context, args| {
        digest::<Sha1>(context, args)
    }),
    Builtin::new("crypto.sha256", "(x: string) => y: string", |context, args| {
        digest::<Sha256>(context, args)
    }),
    Builtin::new("crypto.hmac.md5", "(x: string, key: string) => y: string", |context, args| {
        hmac::<Hmac<Md5>>(context, args)
    }),
    Builtin::new("crypto.hmac.sha1", "(x: string, key: string) => y: string", |context, args| {
        hmac::<Hmac<Sha1>>(context, args)
    }),
    Builtin::new("crypto.hmac.sha256", "(x: string, key: string) => y: string", |context, args| {
        hmac::<Hmac<Sha256>>(context, args)
    }),
    Builtin::new("crypto.hmac.sha512", "(x: string, key: string) => y: string", |context, args| {
        hmac::<Hmac<Sha512>>(context, args)
    }),
    Builtin::new(
        "crypto.hmac.equal",
        "(mac1: string, mac2: string) => result: boolean",
        hmac_equal,
    ),
    Builtin::new(
        "crypto.x509.parse_certificates",
        "(certs: string) => output: array[object[string: any]]",
        certificates::parse,
    ),
    Builtin::new(
        "crypto.x509.parse_and_verify_certificates",
        "(certs: string) => output: array<boolean, array[object[string: any]]>",
        chain::parse_and_verify,
    ),
    Builtin::new(
        "crypto.x509.parse_and_verify_certificates_with_options",
        "(certs: string, options: object[string: any]) => output: array<boolean, array[object[string: any]]>",
        chain::parse_and_verify_with_options,
    ),
    Builtin::new(
        "crypto.x509.parse_certificate_request",
        "(csr: string) => output: object[string: any]",
        certificates::parse_request,
    ),
    Builtin::new(
        "crypto.x509.parse_keypair",
        "(cert: string, pem: string) => output: object[string: any]",
        certificates::parse_keypair,
    ),
    Builtin::new(
        "crypto.x509.parse_rsa_private_key",
        "(pem: string) => output: object[string: any]",
        keys::parse_rsa_private_key,
    ),
    Builtin::new(
        "crypto.parse_private_keys",
        "(keys: string) => output: array[object[string: any]]",
        keys::parse_private_keys,
    ),
];

/// A hash function that signatures are made over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hash {
    /// SHA-1
    Sha1,
    /// SHA-256
    Sha256,
    /// SHA-384
    Sha384,
    /// SHA-512
    Sha512,
}

impl Hash {
    /// The hash of `message`.
    pub(super) fn of(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(message).to_vec(),
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha384 => Sha384::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }

    /// The authentication code of `message` under `key`.
    pub(super) fn mac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => mac::<Hmac<Sha1>>(key, message),
            Self::Sha256 => mac::<Hmac<Sha256>>(key, message),
            Self::Sha384 => mac::<Hmac<Sha384>>(key, message),
            Self::Sha512 => mac::<Hmac<Sha512>>(key, message),
        }
    }
}

fn mac<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
    // A key of any length is a key.
    <M as KeyInit>::new_from_slice(key)
        .map(|mac| mac.chain_update(message).finalize().into_bytes().to_vec())
        .unwrap_or_default()
}

/// Whether two secrets are equal, in a time that does not depend on where they differ.
pub(super) fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

fn digest<'a, D: Digest>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let bytes = operand::bytes(args, 0)?;
    context.spend(bytes.len() / 4 + 64)?;
    context.string(&hex::encode(&D::digest(bytes)))
}

fn hmac<'a, M: Mac + KeyInit>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (message, key) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
    context.spend((message.len() + key.len()) / 4 + 128)?;
    context.string(&hex::encode(&mac::<M>(key, message)))
}

fn hmac_equal<'a>(context: &mut Context<'a>, args: &[Value<'a>]) -> Outcome<'a> {
    let (a, b) = (operand::bytes(args, 0)?, operand::bytes(args, 1)?);
    context.scan(a)?;
    yes_or_no(equal(a, b))
}

/// Steps that one signature costs to check, and one that a private key costs to read.
const SIGNATURE_STEPS: usize = 20_000;

impl Context<'_> {
    /// Charges for checking a signature.
    pub(super) fn charge_signature(&self) -> Result<(), BuiltinError> {
        self.spend(SIGNATURE_STEPS)
    }

    /// Charges for taking certificates or keys apart.
    fn charge_parsing(&self, text: &str) -> Result<(), BuiltinError> {
        self.spend(text.len() + 64)?;
        self.allocate(text.len().saturating_mul(16))
    }
}
