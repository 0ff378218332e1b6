//! `--mutants`: small changes of policies that no case notices (`docs/coverage.md`).
//!
//! [`modgate_prove::mutants`] has the changes. Each one that stands in covered code is tried: the tests
//! that use the policy run until a case fails. A change that does not compile counts for nothing.

mod print;

use std::collections::BTreeMap;

use modgate_engine::coverage::{Coverage, PlaceKind};
use modgate_prove::mutants::{Edit, Mutant, mutants};
use modgate_value::{Value, diag::Location};

pub(super) use self::print::{node, text};
use super::{
    coverage::{Document, Policy, pointer},
    files::Replaced,
    filter::Filter,
    find::FoundSuite,
    kat,
    runner::{self, Noticed},
};
use crate::{policies::Settings, progress::Progress, review::Session, work::parallel};

/// How much is tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Changes that are tried of each policy.
    pub(super) budget: usize,
    /// The number that the choice depends on if there are more.
    pub(super) seed: u64,
}

/// The changes of one policy.
#[derive(Debug)]
pub(super) struct Mutated {
    /// The file as results have it.
    pub(super) file: String,
    /// The kind of the object.
    pub(super) kind: String,
    /// Its name.
    pub(super) name: String,
    /// How many changes a case noticed.
    pub(super) killed: usize,
    /// Those that none did, in the order of the file.
    pub(super) survivors: Vec<Survivor>,
    /// How many were not tried, because the budget is smaller.
    pub(super) left_out: usize,
}

/// A change that no case notices.
#[derive(Debug)]
pub(super) struct Survivor {
    /// From 1.
    pub(super) line: usize,
    /// In characters, from 1.
    pub(super) column: usize,
    /// The change.
    pub(super) mutant: Mutant,
    /// Whether a case reaches the place.
    pub(super) covered: bool,
    /// The lines before and after the change.
    pub(super) shown: (String, String),
}

/// The policies and the tests of a run.
pub(super) struct Tests<'t> {
    pub(super) suites: &'t [FoundSuite],
    pub(super) folders: &'t [kat::Folder],
    pub(super) filter: &'t Filter,
    pub(super) settings: &'t Settings,
}

/// One change to try.
struct Job<'p> {
    /// The number of the result of its policy.
    policy: usize,
    of: &'p Policy,
    object: &'p Value,
    mutant: Mutant,
    covered: bool,
}

/// Tries the changes of all policies that a run measured.
pub(super) fn run(policies: &[Policy], tests: &Tests<'_>, limits: Limits) -> Vec<Mutated> {
    let documents: BTreeMap<&str, Document> = policies
        .iter()
        .filter_map(|policy| Some((policy.path.as_str(), Document::read(&policy.path)?)))
        .collect();
    let mut jobs = Vec::new();
    let mut results = Vec::new();
    for policy in policies {
        let document = documents.get(policy.path.as_str());
        let object = document.and_then(|document| document.objects.get(policy.index));
        let Some(object) = object.map(|object| &object.value) else { continue };
        let all = mutants(object);
        let found = all.len();
        let chosen = chosen(all, limits);
        let number = results.len();
        results.push(Mutated {
            file: policy.file.clone(),
            kind: policy.kind.clone(),
            name: policy.name.clone(),
            killed: 0,
            survivors: Vec::new(),
            left_out: found - chosen.len(),
        });
        jobs.extend(chosen.into_iter().map(|mutant| Job {
            policy: number,
            of: policy,
            object,
            covered: is_covered(&mutant, &policy.coverage),
            mutant,
        }));
    }
    let progress = Progress::new(Some(jobs.len()), "mutants");
    let noticed = parallel(
        jobs.len(),
        || Session::new(false, false),
        |index, session| {
            let noticed =
                jobs.get(index).map_or(Noticed::Invalid, |job| tried(job, tests, session));
            progress.show(1);
            noticed
        },
    );
    progress.clear();
    for (job, noticed) in jobs.into_iter().zip(noticed) {
        let (Some(result), Some(document)) =
            (results.get_mut(job.policy), documents.get(job.of.path.as_str()))
        else {
            continue;
        };
        match noticed {
            Noticed::Invalid => {}
            Noticed::Yes => result.killed += 1,
            Noticed::No => result.survivors.extend(survivor(job, document)),
        }
    }
    for result in &mut results {
        result.survivors.sort_by_key(|survivor| (survivor.line, survivor.column));
    }
    results
}

/// Whether the tests notice a change. What no case reaches, none can notice; it counts if it compiles.
fn tried(job: &Job<'_>, tests: &Tests<'_>, session: &mut Session) -> Noticed {
    let mutated = job.mutant.apply(job.object);
    if let Some(folder) = tests.folders.iter().find(|folder| folder.is_policy(&job.of.path)) {
        return kat::notices(folder, tests.filter, &mutated, job.covered);
    }
    let replaced = Replaced { path: &job.of.path, index: job.of.index, object: &mutated };
    runner::notices(tests, replaced, job.covered, session)
}

/// At most as many as the budget allows, in their order.
fn chosen(mut all: Vec<Mutant>, limits: Limits) -> Vec<Mutant> {
    if all.len() <= limits.budget {
        return all;
    }
    let mut numbers: Vec<(u64, usize)> =
        (0..all.len()).map(|index| (mixed(limits.seed, index as u64), index)).collect();
    numbers.sort_unstable();
    numbers.truncate(limits.budget);
    let kept: std::collections::BTreeSet<usize> =
        numbers.into_iter().map(|(_, index)| index).collect();
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        kept.contains(&(index - 1))
    });
    all
}

/// A number that depends on both, by the finalizer of SplitMix64.
fn mixed(seed: u64, index: u64) -> u64 {
    let mut number = seed.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Whether a case reaches what changes: the innermost place that has it. What is no place of its own is
/// tried.
fn is_covered(mutant: &Mutant, coverage: &Coverage) -> bool {
    let field = mutant.field();
    let Edit::Text(span, _) = &mutant.edit else {
        return coverage
            .iter()
            .filter(|(spot, _)| spot.span.is_none() && spot.field == field)
            .all(|(_, hits)| hits.reached > 0);
    };
    let has = |(start, end): (usize, usize)| start <= span.start && span.start < end.max(start + 1);
    let places = coverage.iter().filter(|(spot, _)| spot.field == field);
    let around = places.filter_map(|(spot, hits)| {
        let (start, end) = spot.span.filter(|place| has(*place))?;
        // The span of a rule has all of its expressions.
        let is_rule = matches!(spot.kind, PlaceKind::Branch | PlaceKind::Message);
        let is_whole = !is_rule || start == span.start;
        is_whole.then_some((end - start, hits.reached))
    });
    around.min_by_key(|(length, _)| *length).is_none_or(|(_, reached)| reached > 0)
}

fn survivor(job: Job<'_>, document: &Document) -> Option<Survivor> {
    let object = document.objects.get(job.of.index)?;
    let pointer = pointer(&job.mutant.field());
    let offset = match &job.mutant.edit {
        Edit::Text(span, _) => {
            let text = object.value.pointer(&pointer).and_then(Value::as_str).unwrap_or_default();
            let skipped =
                text.get(span.start..).map_or(0, |rest| rest.len() - rest.trim_start().len());
            document.offset(object, &pointer, text, span.start + skipped)
        }
        Edit::Replace(_) | Edit::Remove => object.positions.nearest_key(&pointer).offset,
    };
    let Location { line, column } = Location::of(&document.text, offset);
    let shown = job.mutant.shown(job.object);
    Some(Survivor { line, column, covered: job.covered, mutant: job.mutant, shown })
}

impl Mutated {
    /// How many changes were tried, or need not be.
    pub(super) fn total(&self) -> usize {
        self.killed + self.survivors.len()
    }

    /// Survivors that no case reaches.
    pub(super) fn uncovered(&self) -> usize {
        self.survivors.iter().filter(|survivor| !survivor.covered).count()
    }
}

/// Killed and all changes of policies.
pub(super) fn score<'m>(policies: impl IntoIterator<Item = &'m Mutated>) -> super::coverage::Ratio {
    let mut score = super::coverage::Ratio::default();
    for policy in policies {
        score.covered += policy.killed as u64;
        score.total += policy.total() as u64;
    }
    score
}
