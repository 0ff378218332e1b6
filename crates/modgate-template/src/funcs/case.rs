//! Sprig's functions that change or read the case of letters, word by word.

use crate::{
    funcs::{Function, Ty},
    unicode::{
        is_digit, is_letter, is_lower, is_number, is_punct, is_space, is_title, is_upper, to_lower,
        to_title, to_upper,
    },
};

const S: &[Ty] = &[Ty::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("camelcase", S, |cx, args| cx.text(camel(&args.str(0)))),
    Function::new("initials", S, |cx, args| cx.text(initials(args.text(0).as_bytes()))),
    Function::new("kebabcase", S, |cx, args| cx.text(words(&args.str(0), '-'))),
    Function::new("lower", S, |cx, args| cx.text(args.str(0).chars().map(to_lower).collect())),
    Function::new("nospace", S, |cx, args| cx.bytes(no_space(args.text(0).as_bytes()))),
    Function::new("snakecase", S, |cx, args| cx.text(words(&args.str(0), '_'))),
    Function::new("swapcase", S, |cx, args| cx.text(swap(&args.str(0)))),
    Function::new("title", S, |cx, args| cx.text(title(&args.str(0)))),
    Function::new("untitle", S, |cx, args| cx.text(untitle(&args.str(0)))),
    Function::new("upper", S, |cx, args| cx.text(args.str(0).chars().map(to_upper).collect())),
];

/// `strings.Title`
fn title(text: &str) -> String {
    let mut before = ' ';
    let letters = text.chars().map(|character| {
        let starts = separates(before);
        before = character;
        if starts { to_title(character) } else { character }
    });
    letters.collect()
}

/// Whether a letter after `character` begins a word.
fn separates(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_alphanumeric() && character != '_';
    }
    !is_letter(character) && !is_digit(character) && is_space(character)
}

/// `goutils.Uncapitalize`: the first character of every word in lower case.
fn untitle(text: &str) -> String {
    let mut starts = true;
    let letters = text.chars().map(|character| {
        if is_space(character) {
            starts = true;
            return character;
        }
        if std::mem::take(&mut starts) { to_lower(character) } else { character }
    });
    letters.collect()
}

/// `goutils.SwapCase`: lower-case letters that begin a word become title case.
fn swap(text: &str) -> String {
    let mut after_space = true;
    let letters = text.chars().map(|character| {
        if is_upper(character) || is_title(character) {
            after_space = false;
            to_lower(character)
        } else if is_lower(character) {
            if std::mem::take(&mut after_space) { to_title(character) } else { to_upper(character) }
        } else {
            after_space = is_space(character);
            character
        }
    });
    letters.collect()
}

/// `goutils.Initials`, which takes every byte for a character.
fn initials(text: &[u8]) -> String {
    let mut after_gap = true;
    let mut out = String::new();
    for character in text.iter().copied().map(char::from) {
        if is_space(character) {
            after_gap = true;
        } else if std::mem::take(&mut after_gap) {
            out.push(character);
        }
    }
    out
}

/// `goutils.DeleteWhiteSpace`, which takes every byte for a character once there is any space.
fn no_space(text: &[u8]) -> Vec<u8> {
    let kept: String =
        text.iter().copied().map(char::from).filter(|character| !is_space(*character)).collect();
    if kept.chars().count() == text.len() { text.to_vec() } else { kept.into_bytes() }
}

fn is_connector(character: char) -> bool {
    character == '-' || character == '_' || is_space(character)
}

/// `xstrings.ToCamelCase`: connectors at the ends stay, of several in a row all but one.
fn camel(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    let mut current = None;
    for character in chars.by_ref() {
        if !is_connector(character) {
            current = Some(to_upper(character));
            break;
        }
        out.push(character);
    }
    let Some(mut current) = current else {
        // The original writes the last connector of a text of connectors twice.
        out.extend(text.chars().next_back());
        return out;
    };
    for next in chars {
        let previous = std::mem::replace(&mut current, next);
        if is_connector(next) && is_connector(previous) {
            out.push(previous);
        } else if is_connector(previous) {
            current = to_upper(next);
        } else {
            current = to_lower(next);
            out.push(previous);
        }
    }
    out.push(current);
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    None,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// `xstrings.ToSnakeCase` and `ToKebabCase`: mirrors the word rules of `convert.go`.
fn words(text: &str, connector: char) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let (mut kind, mut word, mut rest) = next_word(text);
    while !rest.is_empty() {
        if kind != Word::Connector {
            append(&mut out, kind, word, connector);
        }
        let (previous, last) = (kind, word);
        (kind, word, rest) = next_word(rest);
        match previous {
            Word::Number => {
                while matches!(kind, Word::Alphabet | Word::Number) {
                    append(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::None | Word::Punctuation) {
                    out.push(connector);
                }
            }
            Word::Connector => append(&mut out, previous, last, connector),
            Word::Punctuation => {}
            Word::None | Word::Upper | Word::Alphabet | Word::Other => {
                if kind != Word::Number {
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                if rest.is_empty() {
                    continue;
                }
                let number = word;
                (kind, word, rest) = next_word(rest);
                // A number belongs to the word before it, unless lower-case letters follow.
                if kind != Word::Alphabet {
                    append(&mut out, Word::Number, number, connector);
                    if !matches!(kind, Word::Connector | Word::Punctuation) {
                        out.push(connector);
                    }
                    continue;
                }
                out.push(connector);
                append(&mut out, Word::Number, number, connector);
                while matches!(kind, Word::Alphabet | Word::Number) {
                    append(&mut out, kind, word, connector);
                    (kind, word, rest) = next_word(rest);
                }
                if !matches!(kind, Word::None | Word::Connector | Word::Punctuation) {
                    out.push(connector);
                }
            }
        }
    }
    append(&mut out, kind, word, connector);
    out
}

fn append(out: &mut String, kind: Word, word: &str, connector: char) {
    if !matches!(kind, Word::Upper | Word::Connector) {
        out.push_str(word);
        return;
    }
    out.extend(word.chars().map(|character| {
        if is_connector(character) {
            connector
        } else if is_upper(character) {
            to_lower(character)
        } else {
            character
        }
    }));
}

/// A letter of a script that is written in words: any but Chinese, Japanese and Korean characters.
fn is_alphabet(character: char) -> bool {
    let is_cjk = matches!(
        character,
        '\u{4E00}'..='\u{9FCC}' | '\u{3400}'..='\u{4D85}' | '\u{20000}'..='\u{2B81D}'
    );
    is_letter(character) && !is_cjk
}

/// The first word of `text`, what kind it is, and the rest.
fn next_word(text: &str) -> (Word, &str, &str) {
    let Some(first) = text.chars().next() else {
        return (Word::None, "", "");
    };
    let run = |skip: usize, belongs: fn(char) -> bool| {
        let after = text.get(skip..).unwrap_or_default();
        skip + after.find(|next| !belongs(next)).unwrap_or(after.len())
    };
    let one = first.len_utf8();
    let (kind, length) = if is_connector(first) {
        (Word::Connector, run(one, is_connector))
    } else if is_punct(first) {
        (Word::Punctuation, run(one, is_punct))
    } else if is_upper(first) {
        (Word::Upper, upper_length(text, one))
    } else if is_alphabet(first) {
        (Word::Alphabet, run(one, |next| is_alphabet(next) && !is_upper(next)))
    } else if is_number(first) {
        (Word::Number, run(one, is_number))
    } else {
        (
            Word::Other,
            run(one, |next| {
                !is_connector(next) && !is_alphabet(next) && !is_number(next) && !is_punct(next)
            }),
        )
    };
    let (word, rest) = text.split_at(length);
    (kind, word, rest)
}

/// Length of a word that begins with a capital: `Name`, or `HTTP` of `HTTPStatus`.
fn upper_length(text: &str, one: usize) -> usize {
    let after = text.get(one..).unwrap_or_default();
    match after.chars().next() {
        Some(second) if is_upper(second) => {
            let capitals: usize =
                after.chars().take_while(|next| is_upper(*next)).map(char::len_utf8).sum();
            let last = after.get(..capitals).and_then(|run| run.chars().next_back());
            match (after.get(capitals..).and_then(|rest| rest.chars().next()), last) {
                // The last capital begins the next word.
                (Some(next), Some(last)) if is_alphabet(next) => one + capitals - last.len_utf8(),
                _ => one + capitals,
            }
        }
        Some(second) if is_alphabet(second) => {
            let lower = after.find(|next| !is_alphabet(next) || is_upper(next));
            one + lower.unwrap_or(after.len())
        }
        _ => one,
    }
}
