//! Go's regular expressions (RE2 syntax and semantics) on the `regex` crate.
//!
//! [`GoRegex::new`] parses Go's syntax with Go's rules and error texts, and writes the pattern anew
//! in the syntax of the `regex` crate, so that what Go matches is what we match (spec `kubemod.md`,
//! appendix A), in the crate's linear time.
//!
//! # Limits
//!
//! Unicode classes and case folding follow the `regex` crate's Unicode version, which may be newer
//! than Go's.

mod compile;
mod search;
mod shared;
mod translate;
mod unicode;

use std::{
    ops::Range,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use regex_automata::{meta::Regex, util::captures::Captures as Slots};

use self::{compile::NoAutomaton, search::Search};
use crate::{Budget, Exhausted};

/// The largest compiled size of a pattern, in bytes, unless the caller says otherwise.
pub const DEFAULT_SIZE_LIMIT: usize = 8 << 20;

/// Memory that parsing takes per byte of pattern, at least; bounds the pattern by the size limit.
const BYTES_PER_PATTERN_BYTE: usize = 32;

/// Why a pattern is not a Go regular expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {reason}: `{piece}`")]
pub struct Error {
    /// Go's words for what is wrong, such as `missing closing )`.
    pub reason: &'static str,
    /// The piece of the pattern that is wrong; the whole pattern where Go says so.
    pub piece: String,
}

impl Error {
    /// Whether the pattern is a Go regular expression that compiles to more bytes than allowed.
    pub fn is_too_large(&self) -> bool {
        self.reason == translate::LARGE
    }
}

/// Why there is no compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Uncompiled {
    /// It is not a Go regular expression, or compiles to more bytes than allowed.
    #[error(transparent)]
    Invalid(#[from] Error),
    /// The budget has too little time left to compile it.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

/// How many bytes the patterns that a policy spells out may take together.
pub const POLICY_SIZE_LIMIT: usize = 16 << 20;

/// The bytes that the patterns of one policy may still take together, compiled and while they
/// match.
#[derive(Debug)]
pub struct Allowance(AtomicUsize);

impl Default for Allowance {
    fn default() -> Self {
        Self(AtomicUsize::new(POLICY_SIZE_LIMIT))
    }
}

impl Allowance {
    /// As [`GoRegex::new`], with what is left as the limit.
    ///
    /// # Errors
    ///
    /// When Go refuses the pattern, or when it takes more bytes than [`DEFAULT_SIZE_LIMIT`] or than are left.
    pub fn compile(&self, pattern: &str) -> Result<GoRegex, Error> {
        let left = self.0.load(Ordering::Relaxed);
        let compiled = GoRegex::with_size_limit(pattern, left.min(DEFAULT_SIZE_LIMIT));
        let took = match &compiled {
            Ok(regex) => regex.memory().max(regex.parsed),
            // Compiling stopped at the limit, so it took all of it.
            Err(error) if error.is_too_large() => left,
            Err(_) => pattern.len(),
        };
        self.0.store(left.saturating_sub(took), Ordering::Relaxed);
        match compiled {
            Ok(_) if took > left => Err(too_large(pattern)),
            other => other,
        }
    }

    /// Whether nothing is left: a pattern may not have been compiled that alone would have been.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// As [`Allowance::compile`]. Policies with equal patterns share one, and each pays for it.
    ///
    /// # Errors
    ///
    /// As of [`Allowance::compile`].
    pub fn share(&self, pattern: &str) -> Result<Arc<GoRegex>, Error> {
        let Some(known) = shared::known(pattern) else {
            return self.compile(pattern).map(shared::keep);
        };
        let left = self.0.load(Ordering::Relaxed);
        let takes = known.memory().max(known.parsed);
        self.0.store(left.saturating_sub(takes), Ordering::Relaxed);
        if takes > left { Err(too_large(pattern)) } else { Ok(known) }
    }
}

/// A compiled Go regular expression. Cheap to clone and to share between threads.
///
/// Matching is leftmost-first, as Perl's; places are byte ranges. Methods bear Go's names in their
/// descriptions where Rust's differ.
#[derive(Debug, Clone)]
pub struct GoRegex {
    source: Arc<str>,
    /// The same in the syntax of the `regex` crate.
    translated: Arc<str>,
    regex: Regex,
    names: Arc<[String]>,
    /// About how many transitions the automaton has: the time of a search is at most in proportion to
    /// these times the bytes of the text.
    units: usize,
    /// The bytes that count for parsing it.
    parsed: usize,
    /// The time that it takes to parse its classes.
    class_time: Duration,
}

/// The groups of one match as byte ranges; group 0 is the whole match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captures {
    groups: Vec<Option<Range<usize>>>,
}

impl Captures {
    /// Where group `index` matched; `None` if it took no part in the match.
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
    /// When Go refuses the pattern, or when it compiles to more than [`DEFAULT_SIZE_LIMIT`] bytes
    /// (`expression too large`, which Go says as well, but later).
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Self::with_size_limit(pattern, DEFAULT_SIZE_LIMIT)
    }

    /// As [`GoRegex::new`], with a compiled size of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// When Go refuses the pattern, or when it compiles to more than `limit` bytes.
    pub fn with_size_limit(pattern: &str, limit: usize) -> Result<Self, Error> {
        Self::within(pattern, limit, &Budget::unlimited()).map_err(|failure| match failure {
            Uncompiled::Invalid(error) => error,
            Uncompiled::Exhausted(_) => too_large(pattern),
        })
    }

    /// As [`GoRegex::with_size_limit`]. Compiling looks at no clock, so the time that it takes is
    /// estimated beforehand. Steps and bytes are for the caller to charge.
    ///
    /// # Errors
    ///
    /// Also when `budget` has less time left than compiling takes.
    pub fn within(pattern: &str, limit: usize, budget: &Budget<'_>) -> Result<Self, Uncompiled> {
        if pattern.len() > limit / BYTES_PER_PATTERN_BYTE {
            return Err(too_large(pattern).into());
        }
        budget.check_time_for(compile::parse_time(pattern))?;
        let translation = translate::translate(pattern)
            .map_err(|invalid| Error { reason: invalid.code, piece: invalid.piece.to_owned() })?;
        let (regex, units) =
            compile::compile(&translation, limit, budget).map_err(|failure| match failure {
                NoAutomaton::Large => Uncompiled::Invalid(too_large(pattern)),
                NoAutomaton::Exhausted(exhausted) => exhausted.into(),
            })?;
        Ok(Self {
            source: pattern.into(),
            translated: translation.pattern.into(),
            regex,
            names: translation.names.into(),
            units,
            parsed: compile::class_bytes(translation.classes),
            class_time: compile::class_time(translation.classes),
        })
    }

    /// The bytes that it takes, with what searches keep.
    pub fn memory(&self) -> usize {
        let texts = self.source.len() + self.translated.len();
        self.regex.memory_usage() + compile::cache_size(self.units) + texts + size_of::<Self>()
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// `MatchString`: whether it matches anywhere in `text`. For patterns of our own, and texts that are
    /// short: it takes as long as it takes.
    pub fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// As [`GoRegex::is_match`]. Steps are for the caller to charge.
    ///
    /// # Errors
    ///
    /// When the time of `budget`, or its bytes, do not suffice.
    pub fn matches(&self, text: &str, budget: &Budget<'_>) -> Result<bool, Exhausted> {
        Search::new(self, budget).is_match(text)
    }

    /// `FindStringIndex`: the leftmost match.
    ///
    /// # Errors
    ///
    /// As [`GoRegex::matches`].
    pub fn find(&self, text: &str, budget: &Budget<'_>) -> Result<Option<Range<usize>>, Exhausted> {
        Search::new(self, budget).find(text, 0)
    }

    /// `FindStringSubmatchIndex`: the leftmost match with its groups.
    ///
    /// # Errors
    ///
    /// As [`GoRegex::matches`].
    pub fn captures(&self, text: &str, budget: &Budget<'_>) -> Result<Option<Captures>, Exhausted> {
        Search::new(self, budget).captures(text, 0)
    }

    /// `FindAllStringIndex(text, -1)`: the matches from left to right that do not overlap.
    ///
    /// An empty match right after another match does not count. An error, as of [`GoRegex::matches`], is the
    /// last item.
    pub fn find_iter<'a>(
        &'a self,
        text: &'a str,
        budget: &'a Budget<'_>,
    ) -> impl Iterator<Item = Result<Range<usize>, Exhausted>> + 'a {
        let mut search = Search::new(self, budget);
        Matches::new(text, move |text, at| search.find(text, at), Range::clone)
    }

    /// `FindAllStringSubmatchIndex(text, -1)`: as [`GoRegex::find_iter`], with the groups.
    pub fn captures_iter<'a>(
        &'a self,
        text: &'a str,
        budget: &'a Budget<'_>,
    ) -> impl Iterator<Item = Result<Captures, Exhausted>> + 'a {
        let mut search = Search::new(self, budget);
        Matches::new(
            text,
            move |text, at| search.captures(text, at),
            |captures: &Captures| captures.get(0).unwrap_or_default(),
        )
    }

    /// `ReplaceAllString`: replaces every match; `$1`, `$name` and `${name}` in `template` stand
    /// for groups, `$$` for a dollar sign, and a name is as long as it can be (`$1x` is group `1x`).
    ///
    /// The result can be as long as `text` times `template`: where both come from users, use
    /// [`GoRegex::replace_all_within`].
    pub fn replace_all(&self, text: &str, template: &str) -> String {
        self.replace_all_within(text, template, &Budget::unlimited()).unwrap_or_default()
    }

    /// As [`GoRegex::replace_all`].
    ///
    /// # Errors
    ///
    /// When the result would exceed the bytes, or the matches the steps, left in `budget`.
    pub fn replace_all_within(
        &self,
        text: &str,
        template: &str,
        budget: &Budget<'_>,
    ) -> Result<String, Exhausted> {
        self.replace(text, budget, |captures, out| {
            self.expanded(template, text, captures, budget, |piece| append(piece, out, budget))
        })
    }

    /// `ReplaceAllLiteralString`: replaces every match by `replacement` as it stands.
    ///
    /// As long as [`GoRegex::replace_all`]; see there.
    pub fn replace_all_literal(&self, text: &str, replacement: &str) -> String {
        self.replace_all_literal_within(text, replacement, &Budget::unlimited()).unwrap_or_default()
    }

    /// As [`GoRegex::replace_all_literal`].
    ///
    /// # Errors
    ///
    /// When the result would exceed the bytes, or the matches the steps, left in `budget`.
    pub fn replace_all_literal_within(
        &self,
        text: &str,
        replacement: &str,
        budget: &Budget<'_>,
    ) -> Result<String, Exhausted> {
        self.replace(text, budget, |_, out| append(replacement, out, budget))
    }

    /// An empty match right after another match is not replaced.
    fn replace(
        &self,
        text: &str,
        budget: &Budget<'_>,
        mut write: impl FnMut(&Captures, &mut String) -> Result<(), Exhausted>,
    ) -> Result<String, Exhausted> {
        let mut search = Search::new(self, budget);
        let mut out = String::new();
        let mut copied = 0;
        let mut at = 0;
        while at <= text.len()
            && let Some(captures) = search.captures(text, at)?
            && let Some(found) = captures.get(0)
        {
            // Each match may have looked at all that is left of the text.
            budget.spend(1 + (text.len() - at) as u64 / 512)?;
            budget.check_time()?;
            append(text.get(copied..found.start).unwrap_or_default(), &mut out, budget)?;
            if found.end > copied || found.start == 0 {
                write(&captures, &mut out)?;
            }
            copied = found.end;
            at = next_character(text, at).max(found.end);
        }
        append(text.get(copied..).unwrap_or_default(), &mut out, budget)?;
        Ok(out)
    }

    /// `ExpandString`: appends `template` with the groups of `captures`, found in `text`, filled in. Its bytes
    /// are for the caller to charge.
    ///
    /// # Errors
    ///
    /// When the references in `template` exceed the steps or the time left in `budget`.
    pub fn expand(
        &self,
        template: &str,
        text: &str,
        captures: &Captures,
        out: &mut String,
        budget: &Budget<'_>,
    ) -> Result<(), Exhausted> {
        self.expanded(template, text, captures, budget, |piece| {
            out.push_str(piece);
            Ok(())
        })
    }

    /// Gives the pieces of a template with the groups filled in.
    fn expanded(
        &self,
        template: &str,
        text: &str,
        captures: &Captures,
        budget: &Budget<'_>,
        mut push: impl FnMut(&str) -> Result<(), Exhausted>,
    ) -> Result<(), Exhausted> {
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('$') {
            budget.spend(1)?;
            push(before)?;
            if let Some(after) = after.strip_prefix('$') {
                push("$")?;
                rest = after;
                continue;
            }
            let Some((name, after)) = group_reference(after) else {
                push("$")?;
                rest = after;
                continue;
            };
            rest = after;
            let group = match group_number(name) {
                Some(number) => captures.get(number),
                // Of several groups with this name the first one that took part.
                None => {
                    budget.spend(self.names.len() as u64 / 8)?;
                    self.names
                        .iter()
                        .zip(captures.groups())
                        .find_map(|(known, group)| group.clone().filter(|_| known == name))
                }
            };
            push(group.and_then(|group| text.get(group)).unwrap_or_default())?;
        }
        push(rest)
    }

    /// `Split`: the pieces of `text` between matches; at most `limit` of them, the last one
    /// unsplit, where there is a limit.
    ///
    /// # Errors
    ///
    /// When the matches exceed what is left in `budget`: each may look at all of the text behind it.
    pub fn split<'t>(
        &self,
        text: &'t str,
        limit: Option<usize>,
        budget: &Budget<'_>,
    ) -> Result<Vec<&'t str>, Exhausted> {
        if limit == Some(0) {
            return Ok(Vec::new());
        }
        if !self.source.is_empty() && text.is_empty() {
            return Ok(vec![""]);
        }
        let mut pieces = Vec::new();
        let mut begin = 0;
        let mut end = 0;
        for found in self.find_iter(text, budget).take(limit.unwrap_or(usize::MAX)) {
            let found = found?;
            budget.spend(1 + (text.len() - found.start) as u64 / 512)?;
            budget.allocate(size_of::<&str>())?;
            budget.check_time()?;
            if limit.is_some_and(|limit| pieces.len() + 1 == limit) {
                break;
            }
            end = found.start;
            // An empty match at the start does not split.
            if found.end != 0 {
                pieces.push(text.get(begin..end).unwrap_or_default());
            }
            begin = found.end;
        }
        if end != text.len() {
            pieces.push(text.get(begin..).unwrap_or_default());
        }
        Ok(pieces)
    }

    /// `SubexpNames`: the name of each group, empty where it has none; group 0 is the whole match.
    pub fn group_names(&self) -> &[String] {
        &self.names
    }
}

fn too_large(pattern: &str) -> Error {
    Error { reason: translate::LARGE, piece: pattern.to_owned() }
}

/// Whether a pattern is written as JavaScript and Perl write it, with slashes around it, which are a part of it in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slashes {
    /// There are none.
    None,
    /// They may be meant, as in `/etc/`.
    Perhaps,
    /// No text can have a slash in front of its start or behind its end, and flags behind a slash are meant for another
    /// language.
    Delimiters,
}

/// The slashes around a pattern.
///
/// ```
/// use modgate_value::regex::{Slashes, slashes};
///
/// assert_eq!(slashes("/^a/"), Slashes::Delimiters);
/// assert_eq!(slashes("/a/i"), Slashes::Delimiters);
/// assert_eq!(slashes("/etc/"), Slashes::Perhaps);
/// assert_eq!(slashes("/usr/bin/"), Slashes::None);
/// assert_eq!(slashes("^/etc/"), Slashes::None);
/// ```
pub fn slashes(pattern: &str) -> Slashes {
    const FLAGS: [&str; 7] = ["i", "g", "gi", "ig", "m", "im", "gim"];
    let parts = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
    let Some((inner, flags)) = parts else { return Slashes::None };
    let is_one = !inner.is_empty() && !inner.replace("\\/", "").contains('/');
    if !is_one || !(flags.is_empty() || FLAGS.contains(&flags)) {
        return Slashes::None;
    }
    let is_anchored = inner.starts_with('^') || (inner.ends_with('$') && !inner.ends_with("\\$"));
    if is_anchored || !flags.is_empty() { Slashes::Delimiters } else { Slashes::Perhaps }
}

/// The advice about a pattern with slashes around it.
pub fn without_slashes(pattern: &str) -> String {
    let inner = pattern.strip_prefix('/').unwrap_or(pattern);
    let (inner, flags) = inner.rsplit_once('/').unwrap_or((inner, ""));
    let flag = if flags.contains('i') { "(?i)" } else { "" };
    format!("a pattern stands without slashes: `{flag}{inner}`")
}

/// The message about a pattern with slashes around it.
pub const IN_SLASHES: &str = "the slashes are a part of the pattern, so it matches nothing";

/// Why Go refuses the pattern, without compiling it.
///
/// # Errors
///
/// When the pattern is not a Go regular expression.
pub fn check(pattern: &str) -> Result<(), Error> {
    match translate::translate(pattern) {
        Ok(_) => Ok(()),
        Err(invalid) => Err(Error { reason: invalid.code, piece: invalid.piece.to_owned() }),
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

impl Captures {
    /// `count` may be more than there are slots: groups that are repeated zero times have none.
    fn of(slots: &Slots, count: usize) -> Self {
        let range = |index| slots.get_group(index).map(|span| span.range());
        Self { groups: (0..count).map(range).collect() }
    }
}

/// Go's way through all matches of a text.
struct Matches<'t, F, R> {
    text: &'t str,
    at: usize,
    last_end: Option<usize>,
    failed: bool,
    find: F,
    range: R,
}

impl<'t, T, F, R> Matches<'t, F, R>
where
    F: FnMut(&'t str, usize) -> Result<Option<T>, Exhausted>,
    R: Fn(&T) -> Range<usize>,
{
    fn new(text: &'t str, find: F, range: R) -> Self {
        Self { text, at: 0, last_end: None, failed: false, find, range }
    }
}

impl<'t, T, F, R> Iterator for Matches<'t, F, R>
where
    F: FnMut(&'t str, usize) -> Result<Option<T>, Exhausted>,
    R: Fn(&T) -> Range<usize>,
{
    type Item = Result<T, Exhausted>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at <= self.text.len() && !self.failed {
            let found = match (self.find)(self.text, self.at).transpose()? {
                Ok(found) => found,
                Err(exhausted) => {
                    self.failed = true;
                    return Some(Err(exhausted));
                }
            };
            let Range { start, end } = (self.range)(&found);
            // Only an empty match can end where the search began.
            let empty = end == self.at;
            let accept = !(empty && self.last_end == Some(start));
            self.at = if empty { next_character(self.text, self.at) } else { end };
            self.last_end = Some(end);
            if accept {
                return Some(Ok(found));
            }
        }
        None
    }
}

/// Offset of the character after the one at `at`; beyond the end from the end on.
fn next_character(text: &str, at: usize) -> usize {
    let next = text.get(at..).and_then(|rest| rest.chars().next());
    at + next.map_or(1, char::len_utf8)
}

fn append(text: &str, out: &mut String, budget: &Budget<'_>) -> Result<(), Exhausted> {
    out.reserve_exact(budget.append(out.len(), out.capacity(), text.len())?);
    out.push_str(text);
    Ok(())
}

/// The name after a `$`, in braces or not, and what follows it.
fn group_reference(text: &str) -> Option<(&str, &str)> {
    let braced = text.strip_prefix('{');
    let inside = braced.unwrap_or(text);
    let length = inside.find(|c: char| !is_name_character(c)).unwrap_or(inside.len());
    let (name, rest) = inside.split_at_checked(length)?;
    let rest = if braced.is_some() { rest.strip_prefix('}')? } else { rest };
    (!name.is_empty()).then_some((name, rest))
}

/// Go's letters (category L), digits (category Nd) and the underscore.
fn is_name_character(character: char) -> bool {
    static BEYOND_ASCII: LazyLock<Option<GoRegex>> =
        LazyLock::new(|| GoRegex::new(r"^[\p{L}\p{Nd}]$").ok());
    if character.is_ascii() {
        return character == '_' || character.is_ascii_alphanumeric();
    }
    let letter = |regex: &GoRegex| regex.is_match(character.encode_utf8(&mut [0; 4]));
    BEYOND_ASCII.as_ref().is_some_and(letter)
}

/// A group number, without leading zeros.
fn group_number(name: &str) -> Option<usize> {
    if (name.len() > 1 && name.starts_with('0')) || !name.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    name.parse().ok()
}
