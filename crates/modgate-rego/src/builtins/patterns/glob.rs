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
//! `aé`); and a pattern that is nothing but `?` or `[!a]` matches the empty text. Here a pattern
//! matches what its description says.

use std::{fmt::Write as _, iter::Peekable, str::Chars};

type Source<'p> = Peekable<Chars<'p>>;

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
    // What was opened and not closed ends with the pattern.
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

/// What follows a `[`.
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
