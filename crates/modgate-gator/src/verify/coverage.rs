//! `--coverage`: which parts of policies the cases reached (`docs/coverage.md`).
//!
//! Policies that are compiled for it count ([`modgate_engine::coverage`]); [`Collected`] adds up the
//! counts of a run by policy, and [`Measured`] has them with their places in files.

mod lcov;
mod print;

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use modgate_api::meta::{GroupVersionKind, ObjectExt as _};
use modgate_engine::{
    Trace,
    coverage::{Coverage, Hits, PlaceKind, Spot},
};
use modgate_policies::manifest::offset_within;
use modgate_value::{Value, diag::Location, yaml};

pub(super) use self::{
    lcov::lcov,
    print::{node, text},
};
use super::{
    files::{beside, objects, read},
    runner::Subject,
    suite::Test,
};

/// The counts of a run: by file, without the leading slash, and by the number of the policy among the
/// objects of the file.
#[derive(Debug, Default)]
pub(super) struct Collected(Mutex<BTreeMap<(String, usize), Coverage>>);

impl Collected {
    /// Adds what a policy counted.
    pub(super) fn add(&self, file: String, index: usize, coverage: Coverage) {
        let mut policies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        policies.entry((file, index)).or_default().merge(coverage);
    }

    /// Adds the constraint, the mutators, the ModRules and the policies of the cluster of a test. Templates belong to
    /// all tests.
    pub(super) fn of_test(&self, test: &Test, folder: &str, subject: &Subject, changes: &[Trace]) {
        for constraint in subject.policies.store.constraints() {
            self.add(beside(folder, &test.constraint), 0, constraint.coverage());
        }
        let traces = || changes.iter().flat_map(|trace| trace.mutators.iter().flatten());
        self.files(&test.mutators, folder, |_, object| {
            let mut coverage = Coverage::of_mutator(object);
            let kind = GroupVersionKind::of_object(object).kind;
            for trace in traces() {
                let id = modgate_engine::PolicyId::from(&trace.mutator);
                if id.kind == kind && id.name == object.name() {
                    coverage.mutator(trace);
                }
            }
            coverage
        });
        self.files(&test.modrules, folder, |file, object| {
            let mut coverage = Coverage::of_modrule(object);
            for trace in changes.iter().flat_map(|trace| &trace.modrules) {
                let is_namespace =
                    [object.namespace(), "default"].contains(&trace.policy.namespace.as_str());
                if trace.origin == file && trace.policy.name == object.name() && is_namespace {
                    coverage.modrule(trace);
                }
            }
            coverage.merge(subject.snapshot.coverage(object));
            coverage
        });
        self.files(&test.policies, folder, |_, object| subject.snapshot.coverage(object));
    }

    fn files(
        &self,
        files: &Option<Vec<modgate_value::Str>>,
        folder: &str,
        coverage: impl Fn(&str, &Value) -> Coverage,
    ) {
        for file in files.iter().flatten() {
            let path = beside(folder, file);
            for (index, object) in objects(&path).unwrap_or_default().iter().enumerate() {
                let coverage = coverage(&path, object);
                // Bindings and what policies read have no places.
                if coverage.iter().next().is_some() {
                    self.add(path.clone(), index, coverage);
                }
            }
        }
    }

    /// The policies with their places; `shown` has the path of a file as results have it.
    pub(super) fn measured(self, shown: impl Fn(&str) -> String) -> Measured {
        let policies = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut measured = Measured::default();
        let mut open: Option<(String, Document)> = None;
        for ((path, index), coverage) in policies {
            if open.as_ref().is_none_or(|(known, _)| *known != path) {
                open = Document::read(&path).map(|document| (path.clone(), document));
            }
            let Some((_, document)) = &open else { continue };
            let names = (path.clone(), shown(&path));
            measured.policies.extend(document.policy(index, names, coverage));
        }
        measured
    }
}

/// The coverage of a run, with the places in files.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// By file, in the order of the file.
    pub(super) policies: Vec<Policy>,
}

/// One policy.
#[derive(Debug)]
pub(super) struct Policy {
    /// Its file, as results have it.
    pub(super) file: String,
    /// The kind of the object.
    pub(super) kind: String,
    /// Its name.
    pub(super) name: String,
    /// Its file, without the leading slash.
    pub(super) path: String,
    /// Its number among the objects of the file.
    pub(super) index: usize,
    /// The counts by field.
    pub(super) coverage: Coverage,
    /// In the order of the file.
    pub(super) places: Vec<Place>,
}

/// A place in a file.
#[derive(Debug)]
pub(super) struct Place {
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
    /// The field of the policy.
    pub(super) field: String,
    /// The kind of the place.
    pub(super) kind: PlaceKind,
    /// How often it was reached.
    pub(super) hits: Hits,
    /// The line of the file, without white space around it.
    pub(super) text: String,
}

/// A file with its objects.
pub(super) struct Document {
    pub(super) text: String,
    pub(super) objects: Vec<yaml::Document>,
}

impl Document {
    pub(super) fn read(path: &str) -> Option<Self> {
        let text = read(path).ok()?;
        // Versions of YAML differ in booleans only, which have no places.
        let objects = yaml::documents(&text).filter_map(Result::ok);
        let objects = objects.filter(|document| !document.value.is_null()).collect();
        Some(Self { text, objects })
    }

    fn policy(
        &self,
        index: usize,
        (path, file): (String, String),
        coverage: Coverage,
    ) -> Option<Policy> {
        let document = self.objects.get(index)?;
        let mut places: Vec<Place> =
            coverage.iter().map(|(spot, hits)| self.place(document, spot, hits)).collect();
        places.sort_by_key(|place| (place.line, place.column));
        let kind = document.value.get("kind").and_then(Value::as_str).unwrap_or_default();
        let name = document.value.name().to_owned();
        Some(Policy { file, kind: kind.to_owned(), name, path, index, coverage, places })
    }

    /// Where the byte `at` of a member's text stands in the file.
    pub(super) fn offset(
        &self,
        document: &yaml::Document,
        pointer: &str,
        text: &str,
        at: usize,
    ) -> usize {
        let from = document.positions.nearest(pointer).offset;
        offset_within(&self.text, from, text, at)
    }

    fn place(&self, document: &yaml::Document, spot: &Spot, hits: Hits) -> Place {
        let pointer = pointer(&spot.field);
        let value = document.value.pointer(&pointer).and_then(Value::as_str);
        let offset = match (spot.span, value) {
            (Some((start, _)), Some(text)) => self.offset(document, &pointer, text, start),
            _ => document.positions.nearest_key(&pointer).offset,
        };
        let Location { line, column } = Location::of(&self.text, offset);
        let text = self.text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let (field, kind, text) = (spot.field.clone(), spot.kind, text.trim().to_owned());
        Place { line, column, field, kind, hits, text }
    }
}

/// `spec.match[0].select` as `/spec/match/0/select`.
pub(super) fn pointer(field: &str) -> String {
    let segments = field.split(['.', '[']).filter(|segment| !segment.is_empty());
    segments.map(|segment| format!("/{}", segment.trim_end_matches(']'))).collect()
}

/// How many of something were reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ratio {
    pub(super) covered: u64,
    pub(super) total: u64,
}

impl Ratio {
    fn add(&mut self, covered: u64, total: u64) {
        self.covered += covered;
        self.total += total;
    }

    /// From 0 to 100, in tenths, rounded down so that only everything is 100; without anything to
    /// reach, everything is reached.
    pub(super) fn percent(self) -> f64 {
        if self.total == 0 {
            return 100.0;
        }
        let tenths = self.covered.saturating_mul(1000) / self.total;
        f64::from(u32::try_from(tenths).unwrap_or(1000)) / 10.0
    }
}

/// The figures of policies.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Expressions that were evaluated.
    pub(super) expressions: Ratio,
    /// Outcomes: that an expression holds and that it does not, that a rule gives a value, that an
    /// operation of a patch is applied.
    pub(super) branches: Ratio,
    /// Outcomes of match clauses: that one matches and that it excludes.
    pub(super) matches: Ratio,
    /// Messages that were made.
    pub(super) messages: Ratio,
}

impl Figures {
    pub(super) fn of<'p>(places: impl IntoIterator<Item = &'p Place>) -> Self {
        let mut figures = Self::default();
        for place in places {
            let hits = place.hits;
            let reached = u64::from(hits.reached > 0);
            match place.kind {
                PlaceKind::Expression => {
                    figures.expressions.add(reached, 1);
                    if hits.decides {
                        figures.branches.add(hits.occurred(), hits.outcomes());
                    }
                }
                PlaceKind::Branch => figures.branches.add(reached, 1),
                PlaceKind::Match => figures.matches.add(hits.occurred(), hits.outcomes()),
                PlaceKind::Message => figures.messages.add(reached, 1),
            }
        }
        figures
    }

    /// All of them.
    pub(super) fn total(&self) -> Ratio {
        let Self { expressions, branches, matches, messages } = *self;
        let mut all = Ratio::default();
        for ratio in [expressions, branches, matches, messages] {
            all.add(ratio.covered, ratio.total);
        }
        all
    }
}

impl Measured {
    /// The figures of all policies.
    pub(super) fn figures(&self) -> Figures {
        Figures::of(self.policies.iter().flat_map(|policy| &policy.places))
    }
}
