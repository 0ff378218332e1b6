//! YAML as `sigs.k8s.io/yaml` reads it: go-yaml v2's rules, then JSON's.
//!
//! That means YAML 1.1 scalars (`yes` is a boolean, `010` is eight), merge keys, keys converted to
//! strings and libyaml's syntax errors (spec `kubemod.md`, section 4.4 and appendix C). JSON files
//! are YAML too and go through here.

mod parse;
mod positions;
mod scalar;
mod scan;
mod write;

pub use self::positions::Positions;
pub use self::write::{ScalarPlace, ScalarStyle, write, write_double_quoted, write_literal};

use std::{fmt, sync::Arc};

use self::{
    parse::{Options, Parser},
    scan::{Mark, Scanner},
};
use crate::{Str, Value};

/// Why a text is not YAML that has a JSON form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Go's text, such as `yaml: line 2: did not find expected key`.
    pub message: String,
    /// Where, as far as it is known. Go's own line in `message` may differ by one.
    pub position: Option<Position>,
}

/// A place in a YAML text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The byte offset, from 0.
    pub offset: usize,
}

impl fmt::Display for Position {
    /// `line:column`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One document of a YAML stream.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its content; `null` for an empty document.
    pub value: Value,
    /// Where its parts stand in the text.
    pub positions: Positions,
}

/// A part while its document is read.
#[derive(Debug, Clone)]
struct Place {
    key: Option<Spot>,
    value: Spot,
    places: Places,
    /// Whether a merge key (`<<`) brought it in.
    merged: bool,
}

/// Shared, because an alias repeats them.
#[derive(Debug, Clone, Default)]
enum Places {
    #[default]
    None,
    List(Arc<[Place]>),
    Map(Arc<[(Str, Place)]>),
}

/// A [`Position`] in half the space; texts beyond 4 GiB lose their positions, not their values.
#[derive(Debug, Clone, Copy, Default)]
struct Spot {
    line: u32,
    column: u32,
    offset: u32,
}

impl From<Mark> for Spot {
    fn from(mark: Mark) -> Self {
        let Position { line, column, offset } = mark.position();
        let narrow = |wide: usize| u32::try_from(wide).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column), offset: narrow(offset) }
    }
}

impl From<Spot> for Position {
    fn from(spot: Spot) -> Self {
        let wide = |narrow: u32| usize::try_from(narrow).unwrap_or(usize::MAX);
        Self { line: wide(spot.line), column: wide(spot.column), offset: wide(spot.offset) }
    }
}

impl Places {
    fn member(&self, key: &str) -> Option<&Place> {
        match self {
            // The last of equal keys counts.
            Self::Map(members) => {
                members.iter().rev().find(|(name, _)| name == key).map(|(_, place)| place)
            }
            _ => None,
        }
    }
}

/// All documents of `text`, empty ones included.
///
/// # Errors
///
/// When any of them is not YAML or has no JSON form.
pub fn load(text: &str) -> Result<Vec<Document>, Error> {
    documents(text).collect()
}

/// The documents of `text` one by one, so that one bad document does not hide its neighbours:
/// after a syntax error reading goes on at the next line that starts with `---`.
pub fn documents(text: &str) -> impl Iterator<Item = Result<Document, Error>> + '_ {
    Documents::new(text, Options { positions: true, ..Options::default() })
}

/// As [`documents`]; a key that appears twice in a map is an error.
pub fn documents_strict(text: &str) -> impl Iterator<Item = Result<Document, Error>> + '_ {
    Documents::new(text, Options { strict: true, positions: true, ..Options::default() })
}

/// As [`documents_strict`], where only `true` and `false` are booleans, as go-yaml v3 has it:
/// `yes`, `no`, `on`, `off`, `y` and `n` are text.
pub fn documents_v3(text: &str) -> impl Iterator<Item = Result<Document, Error>> + '_ {
    Documents::new(text, Options { strict: true, few_booleans: true, ..Options::default() })
}

/// The documents of a manifest, as `kubectl` reads them: the first byte decides about JSON, and then
/// JSON values may follow one another without a separator. What begins like JSON and is none is YAML.
pub fn manifest(text: &str) -> impl Iterator<Item = Result<Document, Error>> + '_ {
    let options = Options { positions: true, ..Options::default() };
    let mut at = 0;
    let mut place = Counted::default();
    let mut yaml = None;
    std::iter::from_fn(move || {
        if yaml.is_none() {
            let rest = text.get(at..).unwrap_or_default();
            let start = at + rest.len() - rest.trim_start().len();
            place.advance(text, start);
            if let Some((document, end)) = json_document(text, place, options) {
                at = end;
                return Some(Ok(document));
            }
            let only_space = at > 0 && start == text.len();
            yaml = (!only_space).then(|| Documents::from(text, at, options));
        }
        yaml.as_mut()?.next()
    })
}

/// The JSON object that begins at a place, and where it ends.
fn json_document(text: &str, place: Counted, options: Options) -> Option<(Document, usize)> {
    let Counted { offset: start, line, column } = place;
    let rest = text.get(start..)?;
    if !rest.starts_with('{') {
        return None;
    }
    let end = start + json_length(rest)?;
    let json = text.get(start..end)?;
    let value = Value::from_json(json.as_bytes()).ok()?;
    // Places are those of the same text as YAML, which JSON is but for some escapes.
    let scanner = Scanner::json(text.get(..end)?, start, line, column);
    let positions = match Parser::new(scanner, options).document() {
        Some(Ok(document)) => document.positions,
        _ => Positions::at(line, column, start),
    };
    Some((Document { value, positions }, end))
}

/// How long the object at the beginning of `text` is, by its brackets.
fn json_length(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// A place in a text whose lines are counted once, however many documents the text has.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    offset: usize,
    /// From 0, as the column.
    line: usize,
    column: usize,
}

impl Counted {
    /// The place at `offset`.
    fn at(text: &str, offset: usize) -> Self {
        let mut place = Self::default();
        place.advance(text, offset);
        place
    }

    /// Goes on to `offset`, which is not before this place.
    fn advance(&mut self, text: &str, offset: usize) {
        let passed = text.get(self.offset..offset).unwrap_or_default();
        self.offset = offset;
        self.line += memchr::memchr_iter(b'\n', passed.as_bytes()).count();
        match passed.rsplit_once('\n') {
            Some((_, last)) => self.column = last.chars().count(),
            None => self.column += passed.chars().count(),
        }
    }
}

/// The first document of `text`, as `yaml.YAMLToJSON` gives it; of equal keys the last one counts.
///
/// # Errors
///
/// When it is not YAML or has no JSON form. What follows the first document is not looked at.
pub fn value(text: &str) -> Result<Value, Error> {
    first(text, Options::default())
}

/// As [`value`], as `yaml.YAMLToJSONStrict` gives it: a repeated key is an error.
///
/// # Errors
///
/// When it is not YAML, has no JSON form, or repeats a key.
pub fn value_strict(text: &str) -> Result<Value, Error> {
    first(text, Options { strict: true, ..Options::default() })
}

fn first(text: &str, options: Options) -> Result<Value, Error> {
    if let Some(value) = words(text) {
        return Ok(value);
    }
    match Documents::new(text, options).next() {
        None => Ok(Value::Null),
        Some(document) => document.map(|document| document.value),
    }
}

/// The value of a text of plain words in one line, which needs no parser: most of what templates write.
fn words(text: &str) -> Option<Value> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b" ./_-".contains(byte);
    let (first, last) = (text.bytes().next()?, text.bytes().last()?);
    let begins_plain = first.is_ascii_alphanumeric() || first == b'/';
    if !begins_plain || last == b' ' || !text.as_bytes().iter().all(is_plain) {
        return None;
    }
    scalar::resolve("", text.into()).ok()?.json().ok()
}

struct Documents<'a> {
    text: &'a str,
    options: Options,
    /// Where reading began, or went on behind a syntax error.
    place: Counted,
    parser: Option<Parser<'a>>,
}

impl<'a> Documents<'a> {
    fn new(text: &'a str, options: Options) -> Self {
        Self::from(text, 0, options)
    }

    /// From the beginning of a line, or from where a document ends.
    fn from(text: &'a str, offset: usize, options: Options) -> Self {
        let place = Counted::at(text, offset);
        let scanner = Scanner::new(text, offset, place.line);
        Self { text, options, place, parser: Some(Parser::new(scanner, options)) }
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Document, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let parser = self.parser.as_mut()?;
        let result = parser.document();
        let offset = parser.document_offset();
        let Some(result) = result else {
            self.parser = None;
            return None;
        };
        Some(result.map_err(|(error, syntax)| {
            if syntax {
                let resume = next_document(self.text, offset);
                self.parser = resume.map(|offset| {
                    self.place.advance(self.text, offset);
                    let scanner = Scanner::new(self.text, offset, self.place.line);
                    Parser::new(scanner, self.options)
                });
            }
            error
        }))
    }
}

/// Offset of the first line after `offset` that starts a document: wherever it stands, in a scalar or
/// not, `---` at the beginning of a line does.
fn next_document(text: &str, offset: usize) -> Option<usize> {
    let rest = text.get(offset..)?;
    let starts = rest.match_indices("\n---").map(|(at, _)| offset + at + 1);
    starts.into_iter().find(|start| {
        let after = text.get(start + 3..).unwrap_or_default();
        after.is_empty() || after.starts_with([' ', '\t', '\r', '\n'])
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Value, String> {
        let first = Documents::new(text, Options::default()).next();
        let value = first.unwrap_or_else(|| {
            Ok(Document { value: Value::Null, positions: Positions::at(0, 0, 0) })
        });
        value.map(|document| document.value).map_err(|error| error.message)
    }

    fn assert_alike(text: &str) {
        assert_eq!(value(text).map_err(|error| error.message), parsed(text), "{text:?}");
    }

    #[test]
    fn words_are_what_the_parser_makes_of_them() {
        for text in [
            "",
            " ",
            "a",
            "a ",
            " a",
            "a b",
            "a  b",
            "a\tb",
            "a\n",
            "yes",
            "No",
            "null",
            "~",
            "0",
            "010",
            "0x1F",
            "0b11",
            "0o7",
            "1_000",
            "1.5",
            "1e3",
            "1e400",
            "1.",
            ".5",
            "-1",
            "--- a",
            "... a",
            "a --- b",
            "-",
            "- a",
            "a -",
            "/srv/a",
            "2001-01-01",
            "2001-01-01 00",
            "12 34",
            "0 0",
            "1-2",
            "18446744073709551616",
            "9223372036854775808",
            "a/b_c-d.e",
            "a:",
            "a: b",
            "a #b",
            "a#b",
            "<<",
            "=",
            "nan",
            "inf",
            "1e-400",
            "99999999999999999999999",
            "1 ",
            "true ",
            "y",
        ] {
            assert_alike(text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn texts_are_what_the_parser_makes_of_them(text in "[a-fA-Fnotyx0-9 ./_-]{0,12}[:#~+\n]{0,1}[e0-9. ]{0,3}") {
            assert_alike(&text);
        }
    }
}
