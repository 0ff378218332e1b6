//! Inputs made of others by chance, for where no fuzzer is.

/// An endless row of inputs, the same for the same seed.
pub struct Mutations<'s> {
    seeds: &'s [Vec<u8>],
    random: Random,
}

impl<'s> Mutations<'s> {
    /// Inputs made of `seeds`.
    pub fn of(seeds: &'s [Vec<u8>], seed: u64) -> Self {
        Self { seeds, random: Random(0x9e37_79b9_7f4a_7c15 ^ seed) }
    }

    fn any_seed(&mut self) -> &'s [u8] {
        let index = self.random.below(self.seeds.len());
        self.seeds.get(index).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Iterator for Mutations<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut input = self.any_seed().to_vec();
        for _ in 0..=self.random.below(4) {
            let other = self.any_seed();
            mutate(&mut input, other, &mut self.random);
        }
        Some(input)
    }
}

const PIECES: &[&str] = &[
    "[",
    "]",
    "{{",
    "}}",
    "(",
    "$",
    "..",
    "\0",
    "&a",
    "*a",
    "<<:",
    "-1",
    "#0",
    "\"",
    "\\",
    "1e9",
    "not ",
    "some x in ",
    ":= ",
    " with input as ",
    " | ",
    "\n",
    "\r\n",
    "---\n",
    "null",
    "else ",
    "every ",
];

fn mutate(input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let at = random.below(input.len() + 1);
    let end = (at + random.below(8)).min(input.len());
    match random.below(5) {
        0 => drop(input.drain(at..end)),
        1 => {
            let piece = PIECES.get(random.below(PIECES.len())).copied().unwrap_or_default();
            drop(input.splice(at..at, piece.bytes()));
        }
        2 => {
            let copy = input.get(at..end).unwrap_or_default().to_vec();
            drop(input.splice(at..at, copy.repeat(1 + random.below(40))));
        }
        3 => {
            let from = random.below(other.len() + 1);
            let to = (from + random.below(16)).min(other.len());
            let copy = other.get(from..to).unwrap_or_default();
            drop(input.splice(at..end, copy.iter().copied()));
        }
        _ => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
    }
}

/// xorshift64
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap_or_default()
    }
}
