//! Signatures, with a key that comes from outside and is never written anywhere.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_value::Value;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};

use super::sha256;
use crate::supply::object;

/// A private key.
pub(super) enum Key {
    /// Signatures of the same bytes are the same.
    Ed25519(Ed25519KeyPair),
    /// Over SHA-256, in DER. Each signature is another one.
    P256(EcdsaKeyPair),
}

impl Key {
    /// Reads a private key in PKCS #8, as `openssl genpkey` writes one.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the key `{}`", path.display()))?;
        Self::parse(&text).with_context(|| format!("the key `{}`", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let label = text.lines().find_map(|it| it.trim().strip_prefix("-----BEGIN "));
        match label.map(|it| it.trim_end_matches('-')) {
            Some("PRIVATE KEY") => {}
            Some("ENCRYPTED PRIVATE KEY") => {
                bail!(
                    "is encrypted; decrypt it to a file that only you can read, with `openssl pkey`"
                )
            }
            Some("EC PRIVATE KEY") => {
                bail!("is not in PKCS #8; convert it with `openssl pkcs8 -topk8 -nocrypt`")
            }
            Some(other) => bail!("is a `{other}`, not a `PRIVATE KEY`"),
            None => bail!("is not PEM; `openssl genpkey -algorithm ed25519` writes one"),
        }
        let body = text.split("-----BEGIN PRIVATE KEY-----").nth(1).unwrap_or_default();
        let body = body.split("-----END").next().unwrap_or_default();
        let body: String = body.split_whitespace().collect();
        let der = STANDARD.decode(body).ok().context("is not base64 between its lines")?;
        if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            return Ok(Self::Ed25519(key));
        }
        let random = SystemRandom::new();
        match EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &random) {
            Ok(key) => Ok(Self::P256(key)),
            Err(error) => bail!("is neither Ed25519 nor ECDSA on P-256 ({error})"),
        }
    }

    /// A detached signature, as OpenSSL verifies it.
    pub(super) fn sign(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Ed25519(key) => Ok(key.sign(bytes).as_ref().to_vec()),
            Self::P256(key) => match key.sign(&SystemRandom::new(), bytes) {
                Ok(signature) => Ok(signature.as_ref().to_vec()),
                Err(_) => bail!("this machine gives no random bytes to sign with"),
            },
        }
    }

    /// SubjectPublicKeyInfo in DER.
    fn public(&self) -> Vec<u8> {
        const ED25519: &[u8] = &[0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        const P256: &[u8] = &[
            0x30, 0x59, 0x30, 0x13, 6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1, 6, 8, 0x2a, 0x86,
            0x48, 0xce, 0x3d, 3, 1, 7, 3, 0x42, 0,
        ];
        match self {
            Self::Ed25519(key) => [ED25519, key.public_key().as_ref()].concat(),
            Self::P256(key) => [P256, key.public_key().as_ref()].concat(),
        }
    }

    /// The public key in PEM.
    pub(super) fn public_pem(&self) -> String {
        let body = STANDARD.encode(self.public());
        let (mut rest, mut lines) = (body.as_str(), String::new());
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(64));
            lines.push_str(line);
            lines.push('\n');
            rest = more;
        }
        format!("-----BEGIN PUBLIC KEY-----\n{lines}-----END PUBLIC KEY-----\n")
    }

    /// The command that verifies a signature of a file.
    pub(super) fn verification(&self, file: &str) -> String {
        match self {
            Self::Ed25519(_) => format!(
                "openssl pkeyutl -verify -pubin -inkey modgate.pub -rawin -in {file} -sigfile {file}.sig"
            ),
            Self::P256(_) => {
                format!("openssl dgst -sha256 -verify modgate.pub -signature {file}.sig {file}")
            }
        }
    }

    /// A DSSE envelope: the form in which verifiers of provenance read a signed statement.
    pub(super) fn envelope(&self, statement: &[u8]) -> Result<Value> {
        const TYPE: &str = "application/vnd.in-toto+json";
        let mut signed = format!("DSSEv1 {} {TYPE} {} ", TYPE.len(), statement.len()).into_bytes();
        signed.extend(statement);
        let signature = object([
            ("keyid", Value::from(sha256(&self.public()))),
            ("sig", Value::from(STANDARD.encode(self.sign(&signed)?))),
        ]);
        Ok(object([
            ("payloadType", TYPE.into()),
            ("payload", Value::from(STANDARD.encode(statement))),
            ("signatures", [signature].into_iter().collect()),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_other_kinds_are_named() {
        let pem = |label: &str, body: &str| {
            format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
        };
        for (text, expected) in [
            ("no key".to_owned(), "is not PEM"),
            (pem("ENCRYPTED PRIVATE KEY", "AAAA"), "is encrypted"),
            (pem("EC PRIVATE KEY", "AAAA"), "openssl pkcs8 -topk8"),
            (pem("RSA PRIVATE KEY", "AAAA"), "is a `RSA PRIVATE KEY`"),
            (pem("PRIVATE KEY", "AAAA"), "is neither Ed25519 nor ECDSA on P-256"),
            (pem("PRIVATE KEY", "A*"), "is not base64"),
        ] {
            let error = Key::parse(&text).err().map(|error| format!("{error:#}"));
            assert!(error.as_ref().is_some_and(|it| it.contains(expected)), "{text}: {error:?}");
        }
    }
}
