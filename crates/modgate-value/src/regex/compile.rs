//! From a translated pattern to an automaton, with an estimate of the time that takes.
//!
//! Compiling looks at no clock. So its time is estimated from the parsed pattern before it begins, and a
//! pattern for which too little time is left is not compiled.

use std::time::Duration;

use regex_automata::meta::{Config, Regex};
use regex_syntax::{
    ParserBuilder,
    hir::{self, Class, Hir, HirKind, Visitor},
};

use super::translate::{Classes, Translation};
use crate::{Budget, Exhausted};

/// How many groups times bytes of the automaton there may be for each byte of the limit on its size. A state takes 24 bytes
/// or more, and a search 32 bytes for each of its groups, so that a search takes at most 11 times the limit.
const SLOTS_PER_BYTE: usize = 8;

/// The bytes that the states take which a search meets and keeps: as many for each unit of [`Work`], within
/// [`DFA_SIZE`].
const BYTES_PER_STATE: usize = 128;

/// How many bytes a pattern may use while it matches.
const DFA_SIZE: (usize, usize) = (64 << 10, 2 << 20);

/// How deep our own output may nest: Go's bound of 1000, times what one of its levels becomes.
const NEST_LIMIT: u32 = 4000;

/// The time that it takes to parse a byte of a pattern.
const PARSE_TIME: Duration = Duration::from_nanos(200);

/// The time that it takes to compile a unit of [`Work`].
const UNIT_TIME: Duration = Duration::from_nanos(400);

/// The time that it takes to parse a class of Unicode.
const PROPERTY_TIME: Duration = Duration::from_micros(20);

/// The bytes that such a class takes while the pattern is parsed.
const PROPERTY_BYTES: usize = 5 << 10;

/// The other cases of as many code points are looked for in the time of a unit of [`Work`].
const FOLDED_PER_UNIT: usize = 64;

/// A unit of work adds at least as many bytes to the automaton, so that its limit ends the work as well.
const BYTES_PER_UNIT: usize = 8;

/// A sequence of more parts gets no search for literals before the automaton runs: one is tried for each
/// part, which takes 0.1 ms where the part is a small class such as `\d`.
const SEARCHED_PARTS: usize = 64;

/// Why there is no automaton.
pub(super) enum NoAutomaton {
    /// It would be larger than allowed.
    Large,
    /// The budget has too little time left for it.
    Exhausted(Exhausted),
}

/// The time that parsing takes; charged before the pattern is translated.
pub(super) fn parse_time(pattern: &str) -> Duration {
    PARSE_TIME.saturating_mul(pattern.len().try_into().unwrap_or(u32::MAX))
}

/// The time that it takes to parse the classes of a pattern.
pub(super) fn class_time(classes: Classes) -> Duration {
    let properties = u32::try_from(classes.properties).unwrap_or(u32::MAX);
    compile_time(classes.folded / FOLDED_PER_UNIT)
        .saturating_add(PROPERTY_TIME.saturating_mul(properties))
}

/// The bytes that count for the classes of a pattern: what parsing takes, and for each unit of work as many as a
/// unit of [`Work`] adds, so that the limit on the size ends parsing as well.
pub(super) fn class_bytes(classes: Classes) -> usize {
    let folded = classes.folded / FOLDED_PER_UNIT * BYTES_PER_UNIT;
    classes.properties.saturating_mul(PROPERTY_BYTES).saturating_add(folded)
}

/// The time that compiling takes.
pub(super) fn compile_time(units: usize) -> Duration {
    UNIT_TIME.saturating_mul(units.try_into().unwrap_or(u32::MAX))
}

/// About how many bytes searches keep.
pub(super) fn cache_size(units: usize) -> usize {
    units.saturating_mul(BYTES_PER_STATE).min(DFA_SIZE.1)
}

/// How many bytes the states may take that a search keeps.
pub(super) fn cache_limit(units: usize) -> usize {
    cache_size(units).max(DFA_SIZE.0)
}

/// The pattern as a tree. A translation is always valid, so that only its size can be wrong with it.
pub(super) fn parse(translated: &str) -> Option<Hir> {
    ParserBuilder::new().nest_limit(NEST_LIMIT).build().parse(translated).ok()
}

/// Compiles to an automaton of at most `limit` bytes, and says about how many transitions it has.
pub(super) fn compile(
    translation: &Translation,
    limit: usize,
    budget: &Budget<'_>,
) -> Result<(Regex, usize), NoAutomaton> {
    if class_bytes(translation.classes) > limit {
        return Err(NoAutomaton::Large);
    }
    budget.check_time_for(class_time(translation.classes)).map_err(NoAutomaton::Exhausted)?;
    let hir = parse(&translation.pattern).ok_or(NoAutomaton::Large)?;
    let Ok(work) = hir::visit(&hir, Work::default());
    let units = work.units().min(limit / BYTES_PER_UNIT);
    budget.check_time_for(compile_time(units)).map_err(NoAutomaton::Exhausted)?;
    // A search may keep the place of each group for each state of the automaton, so that a pattern with
    // many groups must have few states.
    let groups = translation.names.len().max(1);
    let states_limit = limit.min(limit.saturating_mul(SLOTS_PER_BYTE) / groups);
    let config = Config::new()
        .nfa_size_limit(Some(states_limit))
        .hybrid_cache_capacity(cache_limit(units))
        .auto_prefilter(work.longest <= SEARCHED_PARTS);
    let regex =
        Regex::builder().configure(config).build_from_hir(&hir).map_err(|_| NoAutomaton::Large)?;
    Ok((regex, units))
}

/// How much there is to compile: about as many units as the automaton has transitions.
#[derive(Default)]
struct Work {
    /// The units of each open node, the innermost last; the first is the whole.
    open: Vec<usize>,
    total: usize,
    /// The parts of the longest sequence.
    longest: usize,
}

impl Work {
    fn units(&self) -> usize {
        self.total
    }
}

impl Visitor for Work {
    type Output = Self;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self, Self::Err> {
        Ok(self)
    }

    fn visit_pre(&mut self, node: &Hir) -> Result<(), Self::Err> {
        if let HirKind::Concat(parts) = node.kind() {
            self.longest = self.longest.max(parts.len());
        }
        self.open.push(match node.kind() {
            HirKind::Literal(literal) => literal.0.len(),
            // A range beyond ASCII becomes sequences of several bytes.
            HirKind::Class(Class::Unicode(class)) => {
                class.ranges().iter().map(|range| if range.end().is_ascii() { 1 } else { 3 }).sum()
            }
            HirKind::Class(Class::Bytes(class)) => class.ranges().len(),
            _ => 1,
        });
        Ok(())
    }

    fn visit_post(&mut self, node: &Hir) -> Result<(), Self::Err> {
        let own = self.open.pop().unwrap_or_default();
        let own = match node.kind() {
            HirKind::Repetition(repeat) => {
                let copies = repeat.max.unwrap_or(repeat.min).max(repeat.min).max(1);
                own.saturating_mul(copies.try_into().unwrap_or(usize::MAX))
            }
            _ => own,
        };
        let outer = self.open.last_mut().unwrap_or(&mut self.total);
        *outer = outer.saturating_add(own);
        Ok(())
    }
}
