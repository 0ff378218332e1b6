//! Probable primes of random bits.

use std::sync::LazyLock;

use num_bigint::BigUint;

use crate::{Env, fault::Result};

/// A candidate with a factor below this is not tested further.
const TRIAL_LIMIT: u32 = 4_000;

/// The odd primes below [`TRIAL_LIMIT`] in groups whose product fits 32 bits, beside that product:
/// one division of the candidate serves a whole group.
static SMALL_PRIMES: LazyLock<Vec<(u64, Vec<u64>)>> = LazyLock::new(|| {
    let mut groups: Vec<(u64, Vec<u64>)> = Vec::new();
    let mut primes: Vec<u64> = Vec::new();
    for number in (3..u64::from(TRIAL_LIMIT)).step_by(2) {
        let mut smaller = primes.iter().take_while(|prime| *prime * *prime <= number);
        if smaller.any(|prime| number % prime == 0) {
            continue;
        }
        primes.push(number);
        match groups.last_mut() {
            Some((product, group)) if *product * number <= u64::from(u32::MAX) => {
                *product *= number;
                group.push(number);
            }
            _ => groups.push((number, vec![number])),
        }
    }
    groups
});

/// Rounds of Miller-Rabin; for random candidates of 256 bits and more far beyond need.
const ROUNDS: usize = 20;

/// A random number of exactly `bits` bits.
pub(super) fn random(env: &Env<'_>, bits: u64) -> Result<BigUint> {
    let count = usize::try_from(bits.div_ceil(8)).unwrap_or(0);
    let mut bytes = vec![0; count];
    env.host.random_bytes(&mut bytes)?;
    let excess = u64::try_from(count).unwrap_or(0) * 8 - bits;
    let mut number = BigUint::from_bytes_be(&bytes) >> excess;
    number.set_bit(bits - 1, true);
    Ok(number)
}

/// A random number from 1 to `limit - 1`.
pub(super) fn random_below(env: &Env<'_>, limit: &BigUint) -> Result<BigUint> {
    let zero = BigUint::ZERO;
    loop {
        env.budget.spend(16)?;
        let mut bytes = vec![0; usize::try_from(limit.bits().div_ceil(8)).unwrap_or(0)];
        env.host.random_bytes(&mut bytes)?;
        let excess = bytes.len() as u64 * 8 - limit.bits();
        let number = BigUint::from_bytes_be(&bytes) >> excess;
        if number > zero && number < *limit {
            return Ok(number);
        }
    }
}

/// A random prime of `bits` bits whose two highest are set.
pub(super) fn prime(env: &Env<'_>, bits: u64) -> Result<BigUint> {
    loop {
        let mut candidate = random(env, bits)?;
        candidate.set_bit(bits - 2, true);
        candidate.set_bit(0, true);
        if is_prime(env, &candidate)? {
            return Ok(candidate);
        }
    }
}

/// The work of a power between two looks at the clock, some milliseconds: exponent bits times the square of
/// the modulus's words. Powers of 2,048 bits are below it, so new keys take no detour.
const PIECE: u64 = 64 * 64 * 1_024;

/// `base^exponent mod modulus`, charged for what it takes, in pieces of the exponent if it is long.
pub(super) fn power(
    env: &Env<'_>,
    base: &BigUint,
    exponent: &BigUint,
    modulus: &BigUint,
) -> Result<BigUint> {
    env.budget.check_time()?;
    let words = modulus.bits() / 64 + 1;
    env.budget.spend(words.saturating_mul(exponent.bits()) / 4 + 16)?;
    let piece = (PIECE / (words * words)).max(64);
    let pieces = exponent.bits().div_ceil(piece);
    if pieces <= 1 {
        return Ok(base.modpow(exponent, modulus));
    }
    let shift = BigUint::from(1u8) << piece;
    let mut result = BigUint::from(1u8) % modulus;
    for index in (0..pieces).rev() {
        env.budget.check_time()?;
        let bits = (exponent >> (index * piece)) % &shift;
        result = result.modpow(&shift, modulus) * base.modpow(&bits, modulus) % modulus;
    }
    Ok(result)
}

/// Whether an odd number is almost certainly prime.
pub(super) fn is_prime(env: &Env<'_>, candidate: &BigUint) -> Result<bool> {
    env.budget.spend(64)?;
    let digits: Vec<u64> = candidate.iter_u32_digits().rev().map(u64::from).collect();
    for (product, primes) in &*SMALL_PRIMES {
        let rest = digits.iter().fold(0, |rest, digit| (rest << 32 | digit) % product);
        if let Some(factor) = primes.iter().find(|prime| rest % **prime == 0) {
            return Ok(*candidate == BigUint::from(*factor));
        }
    }
    let one = BigUint::from(1u8);
    let below = candidate - &one;
    let twos = below.trailing_zeros().unwrap_or(0);
    let odd = &below >> twos;
    'bases: for _ in 0..ROUNDS {
        let base = random_below(env, candidate)?;
        let mut power = power(env, &base, &odd, candidate)?;
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

#[cfg(test)]
mod tests {
    use modgate_value::{Budget, Limits, budget::Frozen};

    use super::*;
    use crate::Isolated;

    #[test]
    fn powers_in_pieces_are_the_same() {
        let budget = Budget::new(Limits::UNLIMITED, &Frozen);
        let env = Env { budget: &budget, host: &Isolated };
        let number = |bits: u64, less: u8| (BigUint::from(1u8) << bits) - less;
        for (base, exponent, modulus) in [
            (number(4_000, 7), number(5_000, 1), number(4_096, 3)),
            (number(8_000, 9), number(300, 5), number(8_192, 1)),
            (number(100, 3), BigUint::ZERO, number(8_192, 1)),
            (number(100, 3), number(9_000, 1), number(8_000, 0)),
        ] {
            let expected = base.modpow(&exponent, &modulus);
            assert_eq!(power(&env, &base, &exponent, &modulus).ok(), Some(expected));
        }
    }
}
