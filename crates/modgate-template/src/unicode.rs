//! Unicode general categories as Go's `unicode` package asks for them.

use std::sync::LazyLock;

/// Sorted, disjoint, inclusive ranges of code points.
struct Class(Vec<(char, char)>);

impl Class {
    /// The class a regular expression such as `\p{L}` names.
    fn named(pattern: &str) -> Self {
        use regex_syntax::hir::{Class as HirClass, HirKind};
        let hir = regex_syntax::parse(pattern);
        let ranges = match hir.as_ref().map(regex_syntax::hir::Hir::kind) {
            Ok(HirKind::Class(HirClass::Unicode(class))) => {
                class.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            _ => Vec::new(),
        };
        Self(ranges)
    }

    fn contains(&self, character: char) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= character);
        after
            .checked_sub(1)
            .and_then(|index| self.0.get(index))
            .is_some_and(|(_, end)| character <= *end)
    }
}

macro_rules! category {
    ($($(#[$doc:meta])* $name:ident = $pattern:literal, $ascii:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(character: char) -> bool {
            static CLASS: LazyLock<Class> = LazyLock::new(|| Class::named($pattern));
            let ascii: fn(&char) -> bool = $ascii;
            if character.is_ascii() { ascii(&character) } else { CLASS.contains(character) }
        }
    )*};
}

category! {
    /// Category L.
    is_letter = r"\p{L}", char::is_ascii_alphabetic;
    /// Category Nd.
    is_digit = r"\p{Nd}", char::is_ascii_digit;
    /// Category N.
    is_number = r"\p{N}", char::is_ascii_digit;
    /// Category Lu.
    is_upper = r"\p{Lu}", char::is_ascii_uppercase;
    /// Category Ll.
    is_lower = r"\p{Ll}", char::is_ascii_lowercase;
    /// Category Lt.
    is_title = r"\p{Lt}", |_| false;
    /// Category P; of ASCII punctuation `$+<=>^`|~` are symbols instead.
    is_punct = r"\p{P}", |character| {
        character.is_ascii_punctuation() && !matches!(
            character, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~'
        )
    };
    /// Letters, marks, numbers, punctuation, symbols and the ASCII space.
    is_print = r"[\p{L}\p{M}\p{N}\p{P}\p{S}]", |character| matches!(character, ' '..='~');
}

/// White space as `unicode.IsSpace` has it.
pub(crate) fn is_space(character: char) -> bool {
    character.is_whitespace()
}

/// `unicode.ToTitle` of one character, where it has a single one.
pub(crate) fn to_title(character: char) -> char {
    match character {
        'Ǆ' | 'ǅ' | 'ǆ' => 'ǅ',
        'Ǉ' | 'ǈ' | 'ǉ' => 'ǈ',
        'Ǌ' | 'ǋ' | 'ǌ' => 'ǋ',
        'Ǳ' | 'ǲ' | 'ǳ' => 'ǲ',
        // Georgian: upper case exists, title case is the letter itself.
        '\u{10D0}'..='\u{10FA}' | '\u{10FD}'..='\u{10FF}' => character,
        _ => to_upper(character),
    }
}

/// `unicode.ToUpper`: the simple mapping, never more than one character.
pub(crate) fn to_upper(character: char) -> char {
    single(character, character.to_uppercase())
}

/// `unicode.ToLower`: the simple mapping, never more than one character.
pub(crate) fn to_lower(character: char) -> char {
    match character {
        'İ' => 'i',
        _ => single(character, character.to_lowercase()),
    }
}

fn single(character: char, mut mapped: impl Iterator<Item = char>) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(only), None) => only,
        // Characters whose full mapping is longer map simply to themselves, but for the Greek
        // letters with a subscript iota, whose simple upper case is the title-case letter.
        _ => match u32::from(character) {
            0x1F80..=0x1F87 | 0x1F90..=0x1F97 | 0x1FA0..=0x1FA7 => {
                char::from_u32(u32::from(character) + 8).unwrap_or(character)
            }
            0x1FB3 => '\u{1FBC}',
            0x1FC3 => '\u{1FCC}',
            0x1FF3 => '\u{1FFC}',
            _ => character,
        },
    }
}
