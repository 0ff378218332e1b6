//! Coverage: the places of policies, and what evaluations reached of them.
//!
//! Policies count only where they are compiled for it ([`TemplateOptions::observed`] and the like);
//! others have no counters and no code that would look for them. Counters belong to the compiled
//! policy, so any number of evaluations and threads add to them, and [`Coverage`] adds up the counts
//! of several compiled forms of one policy.
//!
//! [`TemplateOptions::observed`]: crate::constraint::TemplateOptions::observed

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use modgate_cel::Program;
use modgate_value::{Value, diag::Span};

use crate::{matching::Criterion, policy::pointer};

/// The kind of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PlaceKind {
    /// An expression.
    Expression,
    /// A rule or an `else` branch of Rego, a branch of a Go template, an operation of a patch: it
    /// takes effect or not.
    Branch,
    /// A clause of a match block, or a criterion of a ModRule.
    Match,
    /// A message for users.
    Message,
}

/// Where a place is: the field of the policy, such as `spec.targets[0].rego`, and the part of its
/// text; `None` for the whole field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot {
    /// The field.
    pub field: String,
    /// The part of its text, as the start and the end.
    pub span: Option<(usize, usize)>,
    /// The kind of the place.
    pub kind: PlaceKind,
}

impl Spot {
    /// The field as a JSON pointer, such as `/spec/targets/0/rego`.
    pub fn pointer(&self) -> String {
        pointer(&self.field)
    }
}

/// How often evaluations reached a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hits {
    /// Whether it has two results, of which each should occur: an expression that decides, a
    /// criterion.
    pub decides: bool,
    /// How often it was reached.
    pub reached: u64,
    /// How often it held.
    pub held: u64,
    /// How often it did not hold.
    pub failed: u64,
}

impl Hits {
    /// Of a place that has no results.
    pub fn plain(reached: u64) -> Self {
        Self { reached, ..Self::default() }
    }

    /// Of a place that decides, with one result.
    pub(crate) fn decided(held: bool) -> Self {
        Self { decides: true, reached: 1, held: held.into(), failed: (!held).into() }
    }

    /// How many outcomes it has: that it is reached, or each of its results.
    pub fn outcomes(&self) -> u64 {
        if self.decides { 2 } else { 1 }
    }

    /// How many of them occurred.
    pub fn occurred(&self) -> u64 {
        match self.decides {
            true => u64::from(self.held > 0) + u64::from(self.failed > 0),
            false => u64::from(self.reached > 0),
        }
    }

    fn add(&mut self, other: Self) {
        self.decides |= other.decides;
        self.reached = self.reached.saturating_add(other.reached);
        self.held = self.held.saturating_add(other.held);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// The places of one policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage(BTreeMap<Spot, Hits>);

impl Coverage {
    /// Every place with its counts, in order of their fields and texts.
    pub fn iter(&self) -> impl Iterator<Item = (&Spot, Hits)> {
        self.0.iter().map(|(spot, hits)| (spot, *hits))
    }

    /// Adds a place, or to its counts.
    pub fn add(&mut self, spot: Spot, hits: Hits) {
        self.0.entry(spot).or_default().add(hits);
    }

    /// Adds all places of another compiled form of the same policy.
    pub fn merge(&mut self, other: Self) {
        for (spot, hits) in other.0 {
            self.add(spot, hits);
        }
    }

    /// Adds a place that is a whole field.
    pub fn field(&mut self, field: impl Into<String>, kind: PlaceKind, hits: Hits) {
        self.add(Spot { field: field.into(), span: None, kind }, hits);
    }

    /// Adds to the counts of a place that is a whole field, if there is such a place.
    pub(crate) fn add_known(&mut self, field: String, kind: PlaceKind, hits: Hits) {
        if let Some(known) = self.0.get_mut(&Spot { field, span: None, kind }) {
            known.add(Hits { decides: known.decides, ..hits });
        }
    }

    /// Adds a part of a field's text.
    pub(crate) fn part(&mut self, field: &str, span: Span, kind: PlaceKind, hits: Hits) {
        let span = Some((span.start, span.end));
        self.add(Spot { field: field.to_owned(), span, kind }, hits);
    }

    /// Adds the places of an expression; returns those of the whole.
    pub(crate) fn expression(&mut self, field: &str, program: Option<&Program>) -> Hits {
        self.cel(field, program, PlaceKind::Expression)
    }

    /// Adds an expression that makes a message.
    pub(crate) fn message(&mut self, field: &str, program: Option<&Program>) {
        self.cel(field, program, PlaceKind::Message);
    }

    fn cel(&mut self, field: &str, program: Option<&Program>, whole: PlaceKind) -> Hits {
        let mut root = None;
        for place in program.into_iter().flat_map(Program::places) {
            let modgate_cel::Place { span, decides, reached, held, failed } = place;
            let hits = Hits { decides, reached, held, failed };
            let kind = if root.is_none() { whole } else { PlaceKind::Expression };
            self.part(field, span, kind, hits);
            root.get_or_insert(hits);
        }
        root.unwrap_or_default()
    }
}

/// Counts for the criteria of one match block.
#[derive(Debug, Default)]
pub(crate) struct MatchCounts([[AtomicU64; 2]; Criterion::ALL.len()]);

impl MatchCounts {
    /// Counts one object: the criteria in front of the first that excludes it hold.
    pub(crate) fn note(&self, mismatch: Option<Criterion>) {
        for (criterion, [held, failed]) in Criterion::ALL.iter().zip(&self.0) {
            if mismatch == Some(*criterion) {
                failed.fetch_add(1, Ordering::Relaxed);
                return;
            }
            held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds the criteria that the match block has.
    pub(crate) fn places(&self, resource: &Value, coverage: &mut Coverage) {
        for (criterion, [held, failed]) in Criterion::ALL.iter().zip(&self.0) {
            let name = criterion.as_str();
            if resource.path(&["spec", "match", name]).is_none() {
                continue;
            }
            let (held, failed) = (held.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
            let hits = Hits { decides: true, reached: held + failed, held, failed };
            coverage.field(format!("spec.match.{name}"), PlaceKind::Match, hits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn criteria_in_front_of_the_first_that_excludes_hold() {
        let resource = br#"{"spec": {"match": {"kinds": [], "namespaces": ["a"], "name": "b"}}}"#;
        let resource = Value::from_json(resource).expect("JSON");
        let counts = MatchCounts::default();
        for mismatch in [None, Some(Criterion::Namespaces), Some(Criterion::Kinds)] {
            counts.note(mismatch);
        }
        let mut coverage = Coverage::default();
        counts.places(&resource, &mut coverage);
        let found: Vec<_> = coverage
            .iter()
            .map(|(spot, hits)| (spot.field.as_str(), hits.held, hits.failed))
            .collect();
        let expected = [
            ("spec.match.kinds", 2, 1),
            ("spec.match.name", 1, 0),
            ("spec.match.namespaces", 1, 1),
        ];
        assert_eq!(found, expected);
    }
}
