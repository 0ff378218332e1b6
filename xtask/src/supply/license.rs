//! SPDX license expressions, as far as crates use them.

use std::collections::BTreeSet;

/// Whether an expression can be met with these licenses; `None` if it cannot be read. The old
/// spelling of "or", a slash, is read as well.
pub(super) fn allows(text: &str, allowed: &BTreeSet<String>) -> Option<bool> {
    let text = spdx(text).replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    let met = reader.either()?;
    reader.words.is_empty().then_some(met)
}

/// The expression as SPDX spells it.
pub(super) fn spdx(text: &str) -> String {
    text.replace('/', " OR ")
}

struct Reader<'t> {
    words: &'t [&'t str],
    allowed: &'t BTreeSet<String>,
}

impl Reader<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        if let Some((first, rest)) = self.words.split_first()
            && *first == word
        {
            self.words = rest;
            return true;
        }
        false
    }

    fn either(&mut self) -> Option<bool> {
        let mut met = self.both()?;
        while self.next_is("OR") {
            met |= self.both()?;
        }
        Some(met)
    }

    fn both(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.next_is("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let met = self.either()?;
            return self.next_is(")").then_some(met);
        }
        let (first, rest) = self.words.split_first()?;
        if matches!(*first, "AND" | "OR" | "WITH" | ")") {
            return None;
        }
        self.words = rest;
        if self.next_is("WITH") {
            let (exception, rest) = self.words.split_first()?;
            self.words = rest;
            return Some(self.allowed.contains(&format!("{first} WITH {exception}")));
        }
        Some(self.allowed.contains(*first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for (text, expected) in [
            ("MIT", Some(true)),
            ("GPL-3.0", Some(false)),
            ("MIT/GPL-3.0", Some(true)),
            ("MIT OR GPL-3.0 AND ISC", Some(true)),
            ("GPL-3.0 AND MIT", Some(false)),
            ("(MIT OR GPL-3.0) AND ISC", Some(true)),
            ("(MIT OR ISC) AND GPL-3.0", Some(false)),
            ("Apache-2.0 WITH LLVM-exception", Some(true)),
            ("Apache-2.0", Some(false)),
            ("", None),
            ("MIT OR", None),
            ("(MIT", None),
            ("MIT ISC", None),
        ] {
            assert_eq!(allows(text, &allowed), expected, "{text}");
        }
    }
}
