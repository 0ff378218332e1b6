//! Searches that end when their budget does.
//!
//! A search of the `regex` crate cannot be interrupted, and its time is at worst in proportion to the text
//! times the automaton. So one that could take long walks the text with lazy automata of its own, and
//! looks at the clock on the way.

use std::{ops::Range, time::Duration};

use regex_automata::{
    Anchored, Input, MatchKind,
    hybrid::{
        LazyStateID,
        dfa::{Cache, DFA},
    },
    nfa::thompson::{self, WhichCaptures},
};

use super::{Captures, GoRegex, compile};
use crate::{Budget, Exhausted};

/// Bytes of text times units of the automaton that are searched at once: 10 ms at worst.
const AT_ONCE: usize = 1 << 21;

/// As many are searched before the clock is looked at.
const BETWEEN_LOOKS: usize = 1 << 18;

/// The most bytes of text before the clock is looked at.
const MOST_BYTES: usize = 4096;

/// The time for one byte and one unit where the places of groups are looked for.
const GROUPS_TIME: Duration = Duration::from_nanos(20);

/// Bytes of an automaton for each of its units, at least.
const BYTES_PER_UNIT: usize = 24;

/// One operation with a pattern; it keeps what later searches of the operation use again.
pub(super) struct Search<'r, 'b> {
    regex: &'r GoRegex,
    budget: &'b Budget<'b>,
    at_once: usize,
    walkers: Option<Walkers>,
    /// The bytes that were charged for the walkers.
    charged: usize,
}

/// Both directions: the end of a match is found forward, its start from there back.
struct Walkers {
    forward: (DFA, Cache),
    reverse: (DFA, Cache),
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Reverse,
}

impl<'r, 'b> Search<'r, 'b> {
    pub(super) fn new(regex: &'r GoRegex, budget: &'b Budget<'b>) -> Self {
        Self { regex, budget, at_once: AT_ONCE, walkers: None, charged: 0 }
    }

    pub(super) fn is_match(&mut self, text: &str) -> Result<bool, Exhausted> {
        if self.is_at_once(text.len())? {
            return Ok(self.regex.regex.is_match(text));
        }
        Ok(self.end(text, 0)?.is_some())
    }

    /// The leftmost match that starts at `from` or later.
    pub(super) fn find(
        &mut self,
        text: &str,
        from: usize,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        if self.is_at_once(text.len().saturating_sub(from))? {
            let found = self.regex.regex.find(Input::new(text).range(from..));
            return Ok(found.map(|found| found.range()));
        }
        let Some((from, end)) = self.end(text, from)? else { return Ok(None) };
        let start = self.walk(text, from..end, Direction::Reverse)?.unwrap_or(from);
        Ok(Some(start..end))
    }

    /// As [`Search::find`], with the groups.
    pub(super) fn captures(
        &mut self,
        text: &str,
        from: usize,
    ) -> Result<Option<Captures>, Exhausted> {
        let mut input = Input::new(text).range(from..);
        // Each state has the places of all groups.
        let groups = 1 + self.regex.names.len() / 8;
        if !self.is_at_once(text.len().saturating_sub(from).saturating_mul(groups))? {
            let Some(found) = self.find(text, from)? else { return Ok(None) };
            self.budget.check_time_for(self.time(found.len().saturating_mul(groups)))?;
            input = Input::new(text).range(found).anchored(Anchored::Yes);
        }
        let mut slots = self.regex.regex.create_captures();
        self.regex.regex.search_captures(&input, &mut slots);
        Ok(slots.is_match().then(|| Captures::of(&slots, self.regex.names.len())))
    }

    /// The longest that a search of so many bytes takes.
    fn time(&self, bytes: usize) -> Duration {
        let work = bytes.saturating_mul(self.regex.units);
        GROUPS_TIME.saturating_mul(work.try_into().unwrap_or(u32::MAX))
    }

    /// Whether a search of that many bytes is so short that it needs no interruption.
    fn is_at_once(&self, bytes: usize) -> Result<bool, Exhausted> {
        let work = bytes.saturating_mul(self.regex.units);
        if work > BETWEEN_LOOKS {
            self.budget.check_time()?;
        }
        Ok(work <= self.at_once)
    }

    /// Where the leftmost match ends, and from where it was looked for.
    fn end(&mut self, text: &str, from: usize) -> Result<Option<(usize, usize)>, Exhausted> {
        let mut from = from;
        while from <= text.len() {
            match self.walk(text, from..text.len(), Direction::Forward)? {
                // An empty match within a character is none.
                Some(end) if !text.is_char_boundary(end) => {
                    from = (end..text.len())
                        .find(|at| text.is_char_boundary(*at))
                        .unwrap_or(text.len());
                }
                found => return Ok(found.map(|end| (from, end))),
            }
        }
        Ok(None)
    }

    /// Where a match ends that starts within `range`, or starts that ends where it ends.
    fn walk(
        &mut self,
        text: &str,
        range: Range<usize>,
        direction: Direction,
    ) -> Result<Option<usize>, Exhausted> {
        let budget = self.budget;
        // Making a state takes at worst a look at every unit.
        let between = (BETWEEN_LOOKS / self.regex.units.max(1)).clamp(1, MOST_BYTES);
        let Some(walkers) = self.walkers()? else {
            budget.check_time_for(self.time(range.len()))?;
            let found = self.regex.regex.find(Input::new(text).range(range));
            return Ok(found.map(|found| match direction {
                Direction::Forward => found.end(),
                Direction::Reverse => found.start(),
            }));
        };
        let bytes = text.as_bytes();
        let input = Input::new(text).range(range.clone());
        match direction {
            Direction::Forward => {
                let (dfa, cache) = &mut walkers.forward;
                let Ok(state) = dfa.start_state_forward(cache, &input) else { return Ok(None) };
                // What follows the range is the end of the text.
                let steps = range.zip(bytes.get(input.start()..).unwrap_or_default());
                step(dfa, cache, state, steps, None, between, budget)
                    .map(|found| found.map(|(at, is_end)| if is_end { text.len() } else { at }))
            }
            Direction::Reverse => {
                let (dfa, cache) = &mut walkers.reverse;
                let input = input.anchored(Anchored::Yes);
                let Ok(state) = dfa.start_state_reverse(cache, &input) else { return Ok(None) };
                let before = range.start.checked_sub(1).and_then(|at| bytes.get(at).copied());
                let start = range.start;
                let read = bytes.get(range.clone()).unwrap_or_default();
                // A start is found one byte late, at the byte before it.
                let steps = range.map(|at| at + 1).rev().zip(read.iter().rev());
                step(dfa, cache, state, steps, before, between, budget)
                    .map(|found| found.map(|(at, is_end)| if is_end { start } else { at }))
            }
        }
    }

    /// The automata; `None` if the pattern has none.
    fn walkers(&mut self) -> Result<Option<&mut Walkers>, Exhausted> {
        if self.walkers.is_none() {
            let units = self.regex.units;
            let compiling = compile::compile_time(units).saturating_mul(2);
            self.budget.check_time_for(compiling.saturating_add(self.regex.class_time))?;
            let bytes = (units.saturating_mul(BYTES_PER_UNIT) + compile::cache_limit(units))
                .saturating_mul(2);
            self.budget.allocate(bytes)?;
            self.charged += bytes;
            self.walkers = Walkers::of(self.regex);
        }
        Ok(self.walkers.as_mut())
    }
}

impl Drop for Search<'_, '_> {
    fn drop(&mut self) {
        self.budget.release(self.charged);
    }
}

impl Walkers {
    fn of(regex: &GoRegex) -> Option<Self> {
        let hir = compile::parse(&regex.translated)?;
        let automaton = |reverse: bool| {
            let nfa = thompson::Compiler::new()
                .configure(
                    thompson::Config::new().which_captures(WhichCaptures::None).reverse(reverse),
                )
                .build_from_hir(&hir)
                .ok()?;
            let kind = if reverse { MatchKind::All } else { MatchKind::LeftmostFirst };
            let config = DFA::config()
                .match_kind(kind)
                .cache_capacity(compile::cache_limit(regex.units))
                .skip_cache_capacity_check(true)
                .minimum_cache_clear_count(None);
            let dfa = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
            let cache = dfa.create_cache();
            Some((dfa, cache))
        };
        Some(Self { forward: automaton(false)?, reverse: automaton(true)? })
    }
}

/// Walks an automaton over bytes that stand at places, and then over what follows them, `None` for the
/// end of the text. Gives the last place at which it matched, and whether that was behind all bytes.
fn step<'t>(
    dfa: &DFA,
    cache: &mut Cache,
    start: LazyStateID,
    bytes: impl Iterator<Item = (usize, &'t u8)>,
    behind: Option<u8>,
    between: usize,
    budget: &Budget<'_>,
) -> Result<Option<(usize, bool)>, Exhausted> {
    let (mut state, mut found) = (start, None);
    for (count, (at, byte)) in bytes.enumerate() {
        if count % between == 0 {
            budget.check_time()?;
        }
        // The cache never gives up.
        let Ok(next) = dfa.next_state(cache, state, *byte) else { return Ok(found) };
        state = next;
        if state.is_match() {
            found = Some((at, false));
        } else if state.is_dead() || state.is_quit() {
            return Ok(found);
        }
    }
    let last = match behind {
        Some(byte) => dfa.next_state(cache, state, byte),
        None => dfa.next_eoi_state(cache, state),
    };
    if last.is_ok_and(|last| last.is_match()) {
        found = Some((0, true));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::{Clock, Limits};

    const PATTERNS: [&str; 24] = [
        "",
        "a",
        "a|ab",
        "ab|a",
        "a*",
        "a*?",
        "(a)(b)?",
        "(?:a|b)*b",
        "^a",
        "b$",
        "^$",
        r"\bb",
        r"\B",
        r"\Ba",
        "(?m)^b",
        "(?m)a$",
        "(?i)AB",
        "[^a]",
        r"\pL+",
        "(?s).*b",
        ".*?",
        "é|€",
        "(a*)*",
        "x{2,3}|(b)",
    ];
    const TEXTS: [&str; 9] =
        ["", "a", "ab", "ba", "aabba", "a\nb\na", "é€ab", "xxxx b", "aaaaaaaaaaaaaaab"];

    #[test]
    fn walking_finds_what_searching_finds() {
        let budget = Budget::unlimited();
        for pattern in PATTERNS {
            let regex = GoRegex::new(pattern).expect(pattern);
            for text in TEXTS {
                let search = || Search::new(&regex, &budget);
                let walk = || {
                    let mut search = search();
                    search.at_once = 0;
                    search
                };
                assert_eq!(walk().is_match(text), search().is_match(text), "{pattern:?} {text:?}");
                for from in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let (walked, searched) = (walk().find(text, from), search().find(text, from));
                    assert_eq!(walked, searched, "{pattern:?} {text:?} {from}");
                    let (walked, searched) =
                        (walk().captures(text, from), search().captures(text, from));
                    assert_eq!(walked, searched, "{pattern:?} {text:?} {from}");
                }
            }
        }
    }

    /// A clock on which each look takes a millisecond.
    struct Looked(Cell<u32>);

    impl Clock for Looked {
        fn now(&self) -> Duration {
            self.0.set(self.0.get() + 1);
            Duration::from_millis(self.0.get().into())
        }
    }

    #[test]
    fn a_search_ends_with_its_time_and_gives_its_memory_back() {
        let regex = GoRegex::new("[ab]*a[ab]{900}c").expect("a pattern");
        let text: String =
            (0..20_000_u32).map(|at| if (at * at / 7) % 3 == 0 { 'a' } else { 'b' }).collect();
        let clock = Looked(Cell::new(0));
        let limits = Limits { time: Duration::from_millis(9), ..Limits::UNLIMITED };
        type Operation = fn(&GoRegex, &str, &Budget<'_>) -> Result<(), Exhausted>;
        let operations: [Operation; 6] = [
            |regex, text, budget| regex.matches(text, budget).map(drop),
            |regex, text, budget| regex.find(text, budget).map(drop),
            |regex, text, budget| regex.captures(text, budget).map(drop),
            |regex, text, budget| {
                regex.find_iter(text, budget).collect::<Result<Vec<_>, _>>().map(drop)
            },
            |regex, text, budget| regex.split(text, None, budget).map(drop),
            |regex, text, budget| regex.replace_all_within(text, "", budget).map(drop),
        ];
        for search in operations {
            let budget = Budget::new(limits, &clock);
            assert_eq!(search(&regex, &text, &budget), Err(Exhausted::Time { limit: limits.time }));
            assert_eq!(budget.bytes_spent(), 0);
            assert!(budget.ran_out());
        }
    }

    /// One match, and a replacement of it that goes on for long.
    #[test]
    fn a_replacement_ends_with_its_time() {
        let clock = Looked(Cell::new(0));
        let limits = Limits { time: Duration::from_millis(9), ..Limits::UNLIMITED };
        for (pattern, reference) in
            [("a", "$9"), ("a", "$$"), ("a", "$"), ("a", "${n}"), (&*"(?P<m>a)?".repeat(99), "$n")]
        {
            let regex = GoRegex::new(pattern).expect(pattern);
            let template = format!("{reference} ").repeat(100_000);
            let timed = Err(Exhausted::Time { limit: limits.time });
            let budget = Budget::new(limits, &clock);
            let replaced = regex.replace_all_within("a", &template, &budget).map(drop);
            assert_eq!(replaced, timed, "{pattern} {reference}");
            let budget = Budget::new(limits, &clock);
            let captures = regex.captures("a", &Budget::unlimited()).expect("unlimited");
            let expanded = regex.expand(
                &template,
                "a",
                &captures.expect("a match"),
                &mut String::new(),
                &budget,
            );
            assert_eq!(expanded, timed, "{pattern} {reference}");
        }
    }
}
