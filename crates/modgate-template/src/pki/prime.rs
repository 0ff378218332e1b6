//! Probable primes of random bits.

use num_bigint::BigUint;

use crate::cx::{Cx, Result};

/// A candidate with a factor below this is not tested further.
const TRIAL_LIMIT: u32 = 4_000;

/// Rounds of Miller-Rabin; for random candidates of 256 bits and more far beyond need.
const ROUNDS: usize = 20;

/// A random number of exactly `bits` bits.
pub(super) fn random(cx: &Cx<'_>, bits: u64) -> Result<BigUint> {
    let count = usize::try_from(bits.div_ceil(8)).unwrap_or(0);
    let mut bytes = vec![0; count];
    cx.env.host.random_bytes(&mut bytes)?;
    let excess = u64::try_from(count).unwrap_or(0) * 8 - bits;
    let mut number = BigUint::from_bytes_be(&bytes) >> excess;
    number.set_bit(bits - 1, true);
    Ok(number)
}

/// A random number from 1 to `limit - 1`.
pub(super) fn random_below(cx: &Cx<'_>, limit: &BigUint) -> Result<BigUint> {
    let zero = BigUint::ZERO;
    loop {
        cx.spend(16)?;
        let mut bytes = vec![0; usize::try_from(limit.bits().div_ceil(8)).unwrap_or(0)];
        cx.env.host.random_bytes(&mut bytes)?;
        let excess = bytes.len() as u64 * 8 - limit.bits();
        let number = BigUint::from_bytes_be(&bytes) >> excess;
        if number > zero && number < *limit {
            return Ok(number);
        }
    }
}

/// A random prime of `bits` bits whose two highest are set.
pub(super) fn prime(cx: &Cx<'_>, bits: u64) -> Result<BigUint> {
    loop {
        let mut candidate = random(cx, bits)?;
        candidate.set_bit(bits - 2, true);
        candidate.set_bit(0, true);
        if is_prime(cx, &candidate)? {
            return Ok(candidate);
        }
    }
}

/// `base^exponent mod modulus`, charged for what it takes.
pub(super) fn power(
    cx: &Cx<'_>,
    base: &BigUint,
    exponent: &BigUint,
    modulus: &BigUint,
) -> Result<BigUint> {
    cx.env.budget.check_time()?;
    let words = modulus.bits() / 64 + 1;
    cx.spend(usize::try_from(words * exponent.bits() / 4 + 16).unwrap_or(usize::MAX))?;
    Ok(base.modpow(exponent, modulus))
}

/// Whether an odd number is almost certainly prime.
pub(super) fn is_prime(cx: &Cx<'_>, candidate: &BigUint) -> Result<bool> {
    cx.spend(64)?;
    let mut divisor = 3;
    while divisor < TRIAL_LIMIT {
        if (candidate % divisor) == BigUint::ZERO {
            return Ok(*candidate == BigUint::from(divisor));
        }
        divisor += 2;
    }
    let one = BigUint::from(1u8);
    let below = candidate - &one;
    let twos = below.trailing_zeros().unwrap_or(0);
    let odd = &below >> twos;
    'bases: for _ in 0..ROUNDS {
        let base = random_below(cx, candidate)?;
        let mut power = power(cx, &base, &odd, candidate)?;
        if power == one || power == below {
            continue;
        }
        for _ in 1..twos {
            power = &power * &power % candidate;
            if power == below {
                continue 'bases;
            }
        }
        return Ok(false);
    }
    Ok(true)
}
