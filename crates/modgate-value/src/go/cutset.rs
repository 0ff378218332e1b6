//! Go's cut sets: the characters that `strings.Trim` takes off the ends of a text.

use crate::{Budget, Exhausted};

/// The characters of a text, to ask for one of them in a time that does not grow with the text.
#[derive(Debug, Clone)]
pub struct Cutset {
    ascii: [bool; 128],
    /// The others, sorted.
    others: Vec<char>,
}

impl Cutset {
    /// The characters of `text`.
    ///
    /// # Errors
    ///
    /// When `budget` has too few steps or bytes left to sort them.
    pub fn new(text: &str, budget: &Budget<'_>) -> Result<Self, Exhausted> {
        budget.spend(text.len() as u64 / 4 + 1)?;
        let mut ascii = [false; 128];
        let count = text.chars().filter(|character| !character.is_ascii()).count();
        budget.allocate(count.saturating_mul(size_of::<char>()))?;
        let mut others = Vec::with_capacity(count);
        for character in text.chars() {
            match ascii.get_mut(character as usize) {
                Some(is_in) => *is_in = true,
                None => others.push(character),
            }
        }
        others.sort_unstable();
        others.dedup();
        Ok(Self { ascii, others })
    }

    /// Whether it has this character.
    pub fn contains(&self, character: char) -> bool {
        match self.ascii.get(character as usize) {
            Some(is_in) => *is_in,
            None => self.others.binary_search(&character).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_the_characters_of_its_text() {
        let texts = ["", "a", "é", "aé\u{10FFFF}éa\0", "\u{7f}\u{80}"];
        for text in texts {
            let set = Cutset::new(text, &Budget::unlimited()).expect("no limit");
            for character in texts.concat().chars() {
                assert_eq!(
                    set.contains(character),
                    text.contains(character),
                    "{text:?} {character:?}"
                );
            }
        }
    }
}
