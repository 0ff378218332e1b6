//! RSA: key pairs and PKCS #1 v1.5 signatures over SHA-256 (RFC 8017).
//!
//! # What this does not protect from
//!
//! The arithmetic is that of `num-bigint`. It is **not constant-time** and not blinded: how long
//! generating and signing take depends on the private key, so a process on the same machine that
//! measures it often and precisely enough could learn the key. Private numbers are also not erased
//! from memory after use.
//!
//! That is acceptable here, because these keys are made by a template (`genCA`, `genSignedCert`) or
//! given to it as text, sign one certificate each, and end up in the object that the template
//! renders, where every reader of the object can read them. Do not use this module to serve TLS or to
//! sign anything that another party chooses: the server's own keys are made and used by `ring`.
//! Signatures are verified before they are returned, which protects from faults of the Chinese
//! remainder computation.

use modgate_value::go::der::{OCTET_STRING, Reader, SEQUENCE, element, object_id, sequence};
use num_bigint::BigUint;

use super::{
    der::{integer, number, oid},
    prime::{power, prime},
};
use crate::{
    Env,
    fault::{Fault, Result},
};

const EXPONENT: u32 = 65_537;

/// The largest modulus taken from a template, in bits.
const MAX_BITS: u64 = 8_192;

/// The largest public exponent, in bits: Go's.
const MAX_EXPONENT_BITS: u64 = 31;

#[derive(Clone)]
pub(crate) struct RsaKey {
    modulus: BigUint,
    public: BigUint,
    private: BigUint,
    p: BigUint,
    q: BigUint,
}

impl RsaKey {
    /// A new key with a modulus of `bits` bits.
    pub(super) fn generate(env: &Env<'_>, bits: u64) -> Result<Self> {
        let public = BigUint::from(EXPONENT);
        let one = BigUint::from(1u8);
        loop {
            let p = prime(env, bits / 2)?;
            let q = prime(env, bits - bits / 2)?;
            if p == q {
                continue;
            }
            let totient = (&p - &one) * (&q - &one);
            if let Some(private) = public.modinv(&totient) {
                return Ok(Self { modulus: &p * &q, public, private, p, q });
            }
        }
    }

    /// `d mod (p-1)`, `d mod (q-1)` and `q^-1 mod p`.
    fn chinese(&self) -> Option<(BigUint, BigUint, BigUint)> {
        let one = BigUint::from(1u8);
        let by_p = &self.private % (&self.p - &one);
        let by_q = &self.private % (&self.q - &one);
        Some((by_p, by_q, self.q.modinv(&self.p)?))
    }

    /// PKCS #1 `RSAPrivateKey`.
    pub(super) fn to_der(&self) -> Vec<u8> {
        let zero = BigUint::ZERO;
        let (by_p, by_q, inverse) =
            self.chinese().unwrap_or((zero.clone(), zero.clone(), zero.clone()));
        let numbers = [
            &zero,
            &self.modulus,
            &self.public,
            &self.private,
            &self.p,
            &self.q,
            &by_p,
            &by_q,
            &inverse,
        ];
        element(SEQUENCE, &numbers.map(integer).concat())
    }

    pub(super) fn from_der(der: &[u8]) -> Result<Self, String> {
        let mut outer = Reader(der);
        let mut numbers = outer.sequence()?;
        if number(&mut numbers)? != BigUint::ZERO {
            return Err("x509: unsupported private key version".to_owned());
        }
        let key = Self {
            modulus: number(&mut numbers)?,
            public: number(&mut numbers)?,
            private: number(&mut numbers)?,
            p: number(&mut numbers)?,
            q: number(&mut numbers)?,
        };
        let small = BigUint::from(3u8);
        let parts = [&key.modulus, &key.public, &key.private, &key.p, &key.q];
        if parts.into_iter().any(|part| *part < small) {
            return Err("x509: private key contains zero or negative value".to_owned());
        }
        if key.modulus.bits() > MAX_BITS {
            return Err(format!("RSA modulus of more than {MAX_BITS} bits"));
        }
        if key.public.bits() > MAX_EXPONENT_BITS {
            return Err("crypto/rsa: public exponent too large".to_owned());
        }
        let is_larger = |part: &BigUint| part.bits() > key.modulus.bits();
        if is_larger(&key.p) || is_larger(&key.q) || is_larger(&key.private) {
            return Err("crypto/rsa: invalid prime or product".to_owned());
        }
        if &key.p * &key.q != key.modulus || key.chinese().is_none() {
            return Err("crypto/rsa: invalid prime or product".to_owned());
        }
        Ok(key)
    }

    /// `RSAPublicKey`
    pub(super) fn public_der(&self) -> Vec<u8> {
        sequence(&[&integer(&self.modulus), &integer(&self.public)])
    }

    /// Signs a SHA-256 digest.
    pub(super) fn sign(&self, env: &Env<'_>, digest: &[u8]) -> Result<Vec<u8>> {
        let algorithm = sequence(&[&object_id(oid::SHA256), &[5, 0]]);
        let info = sequence(&[&algorithm, &element(OCTET_STRING, digest)]);
        let length = usize::try_from(self.modulus.bits().div_ceil(8)).unwrap_or(0);
        let Some(padding) = length.checked_sub(info.len() + 3).filter(|padding| *padding >= 8)
        else {
            return Err(Fault::new("crypto/rsa: message too long for RSA public key size"));
        };
        let padded = [&[0, 1][..], &vec![0xFF; padding], &[0], &info].concat();
        let message = BigUint::from_bytes_be(&padded);
        let failed = || Fault::new("rsa: internal error");
        let (by_p, by_q, inverse) = self.chinese().ok_or_else(failed)?;
        let mod_p = power(env, &message, &by_p, &self.p)?;
        let mod_q = power(env, &message, &by_q, &self.q)?;
        // mod_p - mod_q, kept from going below zero.
        let difference = (&self.p + mod_p - (&mod_q % &self.p)) % &self.p;
        let signature = mod_q + (difference * inverse % &self.p) * &self.q;
        // A wrong signature reveals a factor of the modulus.
        if power(env, &signature, &self.public, &self.modulus)? != message {
            return Err(failed());
        }
        let bytes = signature.to_bytes_be();
        Ok([vec![0; length.saturating_sub(bytes.len())], bytes].concat())
    }
}
