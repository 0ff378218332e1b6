//! DSA parameters and keys of 2048 and 256 bits (FIPS 186-3), which Sprig makes but cannot use.

use modgate_value::go::der::{SEQUENCE, element};
use num_bigint::BigUint;

use super::{
    der::integer,
    prime::{is_prime, power, prime, random, random_below},
};
use crate::{Env, fault::Result};

const BITS: u64 = 2_048;
const SUBGROUP_BITS: u64 = 256;

/// A new key with new parameters: `SEQUENCE { 0, p, q, g, y, x }`.
pub(super) fn generate(env: &Env<'_>) -> Result<Vec<u8>> {
    let one = BigUint::from(1u8);
    let (p, q) = parameters(env)?;
    let exponent = (&p - &one) / &q;
    let mut base = BigUint::from(2u8);
    let g = loop {
        let g = power(env, &base, &exponent, &p)?;
        if g != one {
            break g;
        }
        base += 1u8;
    };
    let x = random_below(env, &q)?;
    let y = power(env, &g, &x, &p)?;
    Ok(element(SEQUENCE, &[BigUint::ZERO, p, q, g, y, x].map(|number| integer(&number)).concat()))
}

/// Primes with `q` dividing `p - 1`.
fn parameters(env: &Env<'_>) -> Result<(BigUint, BigUint)> {
    let one = BigUint::from(1u8);
    let q = prime(env, SUBGROUP_BITS)?;
    let step = &q * 2u8;
    loop {
        let start = random(env, BITS)?;
        let candidate = &start - (&start % &step) + &one;
        if candidate.bits() == BITS && is_prime(env, &candidate)? {
            return Ok((candidate, q));
        }
    }
}
