//! Findings about policies that are given as objects, not as files to watch.

use std::collections::BTreeMap;

use modgate_engine::{
    Change, EngineConfig, OnError, PolicyId, Snapshot, api::admission::AdmissionReview,
    lint::Definitions,
};
use modgate_review::sorted::{is_defined_twice, not_a_policy, policy_id};
use modgate_value::diag::{Diagnostic, Source};

use crate::manifest::{self, Manifest};

/// Errors and warnings of the policies among objects, as [`PolicyStore`](crate::PolicyStore) has them
/// for files. `sources` are the texts that the objects come from.
pub fn check(manifests: &[Manifest], sources: &[Source], config: &EngineConfig) -> Vec<Diagnostic> {
    let by_name: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (&*source.name, source)).collect();
    let source = |origin: &str| by_name.get(origin).copied();
    let mut findings = Vec::new();
    let mut definitions = Definitions::default();
    let all = manifests.iter().map(|manifest| &manifest.object);
    all.filter(|it| Definitions::is_definition(it)).for_each(|it| definitions.add(it));
    let mut first: BTreeMap<PolicyId, &Manifest> = BTreeMap::new();
    let mut changes = Vec::new();
    for manifest in manifests.iter().filter(|it| !AdmissionReview::is_review(&it.object)) {
        let text = source(&manifest.origin);
        if !Snapshot::takes(&manifest.object) {
            findings.extend(
                text.into_iter().flat_map(|text| not_a_policy(manifest, text, &definitions)),
            );
            continue;
        }
        let id = policy_id(manifest, config);
        if let Some(known) = first.get(&id) {
            let finding = is_defined_twice(&id, known);
            findings.extend(text.map(|text| manifest.finding(finding, text)));
            continue;
        }
        first.insert(id, manifest);
        changes.push(Change::Upsert(manifest.clone().into_policy()));
    }
    let snapshot = Snapshot::new(config.clone()).with_definitions(definitions.into());
    let update = snapshot.apply(changes, OnError::Unload);
    let problems = update.problems.iter().filter(|problem| !problem.is_consequence());
    findings.extend(problems.map(|problem| manifest::diagnose(problem, source(&problem.origin))));
    findings
}
