//! The coverage of a run: the marks beside the lines of its policies.
//!
//! It is a request of its own, with policies that are compiled to count: the answer that people wait for is evaluated by
//! the policies as they are, and comes first.

use std::collections::BTreeMap;

use modgate_engine::{
    Evaluation, NoopObserver, PolicyId, Snapshot, Stages, Trace,
    api::{constraints, meta::GroupVersionKind, modrule, mutations, templates},
    constraint::{Arena, Inventory},
    coverage::{Coverage, Hits, PlaceKind, Spot},
};
use modgate_review::{
    manifest::{Manifest, offset_within},
    references::FileHost,
    subject::Subject,
};
use modgate_value::{
    Value,
    diag::{LineIndex, Source},
};
use serde::Serialize;

/// A place of a policy that evaluations reach or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// The name of the file.
    pub file: String,
    /// Where it begins, from 1.
    pub line: usize,
    /// The same in its line, in characters, from 1.
    pub column: usize,
    /// `expression`, `branch`, `match` or `message`.
    pub kind: &'static str,
    /// Whether the run reached it.
    pub reached: bool,
    /// Whether it held, and whether it did not, where it has these two results.
    pub held: Option<bool>,
    /// See `held`.
    pub failed: Option<bool>,
}

/// Decides about objects with policies that count, and returns the traces of what changes objects.
pub(crate) fn run<'s>(
    snapshot: &Snapshot,
    host: &FileHost<'_>,
    inventory: &Inventory,
    subjects: impl Iterator<Item = &'s Subject>,
) -> Vec<Trace> {
    let changes_objects =
        snapshot.policies().any(|it| [modrule::GROUP, mutations::GROUP].contains(&&*it.group));
    let mut arena = Arena::new();
    let mut traces = Vec::new();
    for subject in subjects {
        let mut evaluation = Evaluation::new(host, inventory, &mut arena);
        snapshot.decide(&subject.review, Stages::ALL, &mut evaluation, &mut NoopObserver);
        // Constraints count by themselves. Mutators and ModRules are counted by their explanations.
        if changes_objects {
            let mut trace = Trace::default();
            let mut evaluation = Evaluation::new(host, inventory, &mut arena);
            snapshot.decide(&subject.review, Stages::ALL, &mut evaluation, &mut trace);
            traces.push(trace);
        }
    }
    traces
}

/// The places of a policy, in the order of its text, with what was counted since `before`.
pub(crate) fn places(
    manifest: &Manifest,
    source: &Source,
    coverage: &Coverage,
    before: &Coverage,
) -> Vec<Reach> {
    let before: BTreeMap<&Spot, Hits> = before.iter().collect();
    let lines = LineIndex::new(&source.text);
    let of = |(spot, hits)| {
        let hits = since(hits, before.get(spot).copied());
        place(manifest, (source, &lines), spot, hits)
    };
    let mut places: Vec<Reach> = coverage.iter().map(of).collect();
    places.sort_by_key(|place| (place.line, place.column));
    places
}

/// The counts since then.
fn since(hits: Hits, before: Option<Hits>) -> Hits {
    let Some(before) = before else { return hits };
    Hits {
        decides: hits.decides,
        reached: hits.reached.saturating_sub(before.reached),
        held: hits.held.saturating_sub(before.held),
        failed: hits.failed.saturating_sub(before.failed),
    }
}

/// The coverage of a policy by all evaluations so far. Mutators and ModRules count in the traces
/// alone.
pub(crate) fn counted(policy: &Value, snapshot: &Snapshot, traces: &[Trace]) -> Coverage {
    let kind = GroupVersionKind::of_object(policy);
    let mut id = PolicyId::of_object(policy);
    match &*kind.group {
        templates::GROUP => {
            let of = policy.path(&["spec", "crd", "spec", "names", "kind"]).and_then(Value::as_str);
            let template = snapshot.constraints().template(of.unwrap_or_default());
            template.map(|template| template.coverage()).unwrap_or_default()
        }
        constraints::GROUP => {
            let mut all = snapshot.constraints().constraints();
            let constraint = all.find(|it| *it.kind() == id.kind && *it.name() == id.name);
            constraint.map(|constraint| constraint.coverage()).unwrap_or_default()
        }
        mutations::GROUP => {
            let mut coverage = Coverage::of_mutator(policy);
            for trace in traces.iter().flat_map(|trace| trace.mutators.iter().flatten()) {
                let traced = PolicyId::from(&trace.mutator);
                if traced.kind == id.kind && traced.name == id.name {
                    coverage.mutator(trace);
                }
            }
            coverage
        }
        modrule::GROUP => {
            if id.namespace.is_empty() {
                id.namespace = snapshot.config().default_namespace.clone();
            }
            let mut coverage = Coverage::of_modrule(policy);
            for trace in traces.iter().flat_map(|trace| &trace.modrules) {
                if trace.policy.namespace == id.namespace && trace.policy.name == id.name {
                    coverage.modrule(trace);
                }
            }
            coverage.merge(snapshot.coverage(policy));
            coverage
        }
        _ => snapshot.coverage(policy),
    }
}

fn place(
    manifest: &Manifest,
    (source, lines): (&Source, &LineIndex),
    spot: &Spot,
    hits: Hits,
) -> Reach {
    let pointer = spot.pointer();
    let text = manifest.object.pointer(&pointer).and_then(Value::as_str);
    let offset = match (spot.span, text) {
        (Some((start, _)), Some(text)) => {
            let from = manifest.positions.nearest(&pointer).offset;
            offset_within(&source.text, from, text, start)
        }
        _ => manifest.positions.nearest_key(&pointer).offset,
    };
    let at = lines.location(&source.text, offset);
    let kind = match spot.kind {
        PlaceKind::Expression => "expression",
        PlaceKind::Branch => "branch",
        PlaceKind::Match => "match",
        PlaceKind::Message => "message",
    };
    Reach {
        file: source.name.to_string(),
        line: at.line,
        column: at.column,
        kind,
        reached: hits.reached > 0,
        held: hits.decides.then_some(hits.held > 0),
        failed: hits.decides.then_some(hits.failed > 0),
    }
}
