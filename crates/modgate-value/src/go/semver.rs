//! The precedence of semantic versions, which all readers of them share. How versions are written
//! differs between the originals, so each language reads them itself.

use std::cmp::Ordering;

/// A version without build metadata, which does not count.
#[derive(Debug, Clone, Copy)]
pub struct Version<'t, N> {
    /// Major, minor and patch.
    pub numbers: [N; 3],
    /// The identifiers after the hyphen; empty in a release.
    pub prerelease: &'t str,
}

impl<N: Ord> Version<'_, N> {
    /// By precedence (section 11 of the specification).
    pub fn compare(&self, other: &Self) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| match (self.prerelease, other.prerelease) {
            (a, b) if a == b => Ordering::Equal,
            ("", _) => Ordering::Greater,
            (_, "") => Ordering::Less,
            (a, b) => a.split('.').map(identifier).cmp(b.split('.').map(identifier)),
        })
    }
}

/// Whether a text has letters, digits and hyphens only, which identifiers consist of.
pub fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// An identifier; numbers come before texts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'t> {
    /// How many digits it has without leading zeros, and these digits.
    Number(usize, &'t str),
    Text(&'t str),
}

fn identifier(text: &str) -> Identifier<'_> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let digits = text.trim_start_matches('0');
        Identifier::Number(digits.len(), digits)
    } else {
        Identifier::Text(text)
    }
}
