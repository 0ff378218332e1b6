//! Findings about policies that are given as objects, not as files to watch.

use std::collections::BTreeMap;

use modgate_engine::{
    Change, EngineConfig, OnError, PolicyId, Snapshot, api::admission::AdmissionReview,
};
use modgate_review::{
    run,
    sorted::{drop_consequences, is_defined_twice, not_a_policy, policy_id},
};
use modgate_value::diag::{Diagnostic, Source};

use crate::manifest::{self, Manifest};

/// Errors and warnings of the policies among objects, as [`PolicyStore`](crate::PolicyStore) has them
/// for files. `sources` are the texts that the objects come from.
pub fn check(manifests: &[Manifest], sources: &[Source], config: &EngineConfig) -> Vec<Diagnostic> {
    let by_name: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (&*source.name, source)).collect();
    let source = |origin: &str| by_name.get(origin).copied();
    let mut findings = Vec::new();
    let definitions = run::definitions(manifests.iter().map(|manifest| &manifest.object));
    let mut first: BTreeMap<PolicyId, &Manifest> = BTreeMap::new();
    let mut changes = Vec::new();
    for manifest in manifests.iter().filter(|it| !AdmissionReview::is_review(&it.object)) {
        let text = source(&manifest.origin);
        if !Snapshot::takes(&manifest.object) {
            let Some(text) = text else { continue };
            let mut found = not_a_policy(manifest, text, &definitions);
            if found.is_empty() {
                found = run::impossible(manifest, text, &definitions);
            }
            findings.append(&mut found);
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
    findings.retain(|finding| !manifest::is_allowed(finding));
    drop_consequences(&mut findings);
    findings
}
