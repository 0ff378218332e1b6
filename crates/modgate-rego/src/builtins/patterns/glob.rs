//! Globs as `github.com/gobwas/glob` reads them, turned into regular expressions.
//!
//! `*` is any run of characters other than the delimiters, `**` any run at all, `?` one character
//! that is no delimiter, `[abc]`, `[a-c]` and `[!a]` one character, `{a,b}` either; `\` takes the
//! next character as it is.
//!
//! # Differences from gobwas
//!
//! gobwas matches without going back, and so misses matches where an alternative or a run could
//! have taken less (`{a*,b}.*` and `aa.`) and next to characters of several bytes (`{a,b}é` and
//! `aé`). Here a pattern matches what its description says, but for [`Wildcards`], where gobwas
//! matches more.

use std::{fmt::Write as _, iter::Peekable, str::Chars};

type Source<'p> = Peekable<Chars<'p>>;

/// A pattern of nothing but `?`, `*`, `**`, `[!abc]` and `[!a-c]`, which gobwas matches in a way of
/// its own.
pub(super) enum Wildcards {
    /// One `?` or `[!abc]` alone, and the characters it does not match. It takes the empty text for a
    /// character.
    One(String),
    /// One `[!a-c]` alone, likewise.
    Range(char, char),
    /// Several with the same forbidden characters: the text has at least so many characters, and at
    /// most so many if there is a bound; and the forbidden characters are not in it, one after the
    /// other, as a word.
    Several { least: usize, most: Option<usize>, word: String },
}

impl Wildcards {
    /// Reads a pattern; `None` for all others.
    pub(super) fn of(pattern: &str, delimiters: &str) -> Option<Self> {
        let mut source = pattern.chars().peekable();
        let mut word: Option<String> = None;
        let (mut parts, mut characters) = (0, 0);
        let (mut any, mut all) = (false, false);
        while let Some(c) = source.next() {
            let forbidden = match c {
                '?' => {
                    characters += 1;
                    delimiters.to_owned()
                }
                '*' if source.next_if_eq(&'*').is_some() => {
                    all = true;
                    String::new()
                }
                '*' => {
                    any = true;
                    delimiters.to_owned()
                }
                '[' => {
                    source.next_if_eq(&'!')?;
                    let list: String = source.by_ref().take_while(|c| *c != ']').collect();
                    if let [low, '-', high] = list.chars().collect::<Vec<_>>()[..] {
                        let alone = parts == 0 && source.peek().is_none() && low <= high;
                        return alone.then_some(Self::Range(low, high));
                    }
                    characters += 1;
                    let plain = !list.is_empty()
                        && !list.contains('\\')
                        && pattern.ends_with(']') | source.peek().is_some();
                    if !plain {
                        return None;
                    }
                    list
                }
                _ => return None,
            };
            parts += 1;
            if *word.get_or_insert_with(|| forbidden.clone()) != forbidden {
                return None;
            }
        }
        let word = word?;
        match (parts, characters) {
            (1, 1) => Some(Self::One(word)),
            (0 | 1, _) | (_, 0) => None,
            _ => Some(Self::Several {
                least: characters,
                most: (!any && !all).then_some(characters),
                word,
            }),
        }
    }

    /// Whether gobwas finds a match.
    pub(super) fn matches(&self, text: &str) -> bool {
        match self {
            Self::One(forbidden) => {
                let mut chars = text.chars();
                let first = chars.next();
                chars.next().is_none() && !first.is_some_and(|c| forbidden.contains(c))
            }
            Self::Range(low, high) => {
                let mut chars = text.chars();
                let first = chars.next();
                chars.next().is_none() && !first.is_some_and(|c| (*low..=*high).contains(&c))
            }
            Self::Several { least, most, word } => {
                let count = text.chars().count();
                count >= *least
                    && most.is_none_or(|most| count <= most)
                    && (word.is_empty() || !text.contains(word.as_str()))
            }
        }
    }
}

/// The regular expression that matches what the glob does, or gobwas' error.
pub(super) fn translate(pattern: &str, delimiters: &str) -> Result<String, String> {
    let other = if delimiters.is_empty() {
        ".".to_owned()
    } else {
        let mut class = "[^".to_owned();
        delimiters.chars().for_each(|c| literal(c, &mut class));
        class.push(']');
        class
    };
    let mut out = r"\A(?s:".to_owned();
    let mut source = pattern.chars().peekable();
    let mut open = 0u32;
    while let Some(c) = source.next() {
        match c {
            '{' => {
                open += 1;
                out.push_str("(?:");
            }
            ',' if open > 0 => out.push('|'),
            '}' if open > 0 => {
                open -= 1;
                out.push(')');
            }
            '[' => range(&mut source, &mut out)?,
            '?' => out.push_str(&other),
            '*' if source.next_if_eq(&'*').is_some() => out.push_str(".*"),
            '*' => {
                out.push_str(&other);
                out.push('*');
            }
            '\\' => source.next().into_iter().for_each(|c| literal(c, &mut out)),
            c => literal(c, &mut out),
        }
    }
    // An alternation that is not closed ends with the pattern.
    (0..open).for_each(|_| out.push(')'));
    out.push_str(r")\z");
    Ok(out)
}

fn literal(c: char, out: &mut String) {
    if c.is_ascii_alphanumeric() {
        out.push(c);
    } else {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
    }
}

/// Translates the class after a `[`.
fn range(source: &mut Source<'_>, out: &mut String) -> Result<(), String> {
    const END: &str = "unexpected end of input";
    let not = source.next_if_eq(&'!').is_some();
    out.push_str(if not { "[^" } else { "[" });
    let first = *source.peek().ok_or(END)?;
    let mut ahead = source.clone();
    ahead.next();
    if ahead.next_if_eq(&'-').is_some() {
        let high = ahead.next().ok_or(END)?;
        match ahead.next() {
            Some(']') => {}
            Some(_) => return Err("expected close range character".to_owned()),
            None => return Err(END.to_owned()),
        }
        if high < first {
            return Err(format!("hi character '{high}' should be greater than lo '{first}'"));
        }
        *source = ahead;
        literal(first, out);
        out.push('-');
        literal(high, out);
    } else {
        let mut empty = true;
        loop {
            let c = match source.next().ok_or(END)? {
                ']' => break,
                '\\' => source.next().ok_or(END)?,
                c => c,
            };
            literal(c, out);
            empty = false;
        }
        if empty {
            return Err("could not parse range".to_owned());
        }
    }
    out.push(']');
    Ok(())
}
