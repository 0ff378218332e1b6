//! What a person should know of a review besides its results.

use std::{collections::BTreeSet, sync::Arc};

use modgate_engine::{
    Decision, Evaluation, Host, NoopObserver, Snapshot, Stages,
    api::meta::GroupVersionKind,
    constraint::{Arena, CompiledConstraint, Inventory},
    matching::Criteria,
};
use modgate_report::printable;

use crate::{
    references::References,
    subject::{Subject, as_stored},
};

/// Notes about the input as a whole.
pub fn about_input<'s>(
    snapshot: &Snapshot,
    references: &References,
    subjects: impl Iterator<Item = &'s Subject> + Clone,
) -> Vec<String> {
    let assumed = assumed_namespaces(snapshot, references, subjects.clone());
    let unexpanded = unexpanded(snapshot, subjects);
    assumed.into_iter().chain(unexpanded).chain(unknown_params(snapshot, references)).collect()
}

/// The Namespaces that no file describes and that policies read.
fn assumed_namespaces<'s>(
    snapshot: &Snapshot,
    references: &References,
    subjects: impl Iterator<Item = &'s Subject>,
) -> Vec<String> {
    let names = subjects.map(|subject| subject.review.store_namespace());
    let assumed: BTreeSet<&str> = names
        .filter(|name| {
            !name.is_empty()
                && references.namespace(name).is_none()
                && (snapshot.modrules_read_namespace(name) || selects_namespaces(snapshot))
        })
        .collect();
    let note = |name: &str| {
        format!(
            "note: no file describes Namespace `{}`, so policies see one without labels of its own; \
             give it with `--objects`",
            printable(name)
        )
    };
    assumed.into_iter().map(note).collect()
}

/// The kinds of parameters that the input does not contain: the API server denies until they exist.
fn unknown_params(snapshot: &Snapshot, references: &References) -> Vec<String> {
    let kinds = snapshot.cluster_policies().bound_param_kinds().into_iter();
    let unknown = kinds.filter(|kind| !references.knows_params(kind));
    let note = |kind: modgate_engine::api::admissionregistration::ParamKind| {
        format!(
            "note: nothing in the input says that there is a kind {} {}, which a `paramKind` names; an \
             API server without it denies as `failurePolicy` sets",
            printable(&kind.api_version),
            printable(&kind.kind)
        )
    };
    unknown.map(note).collect()
}

/// Whether a constraint looks at labels of Namespaces.
fn selects_namespaces(snapshot: &Snapshot) -> bool {
    let mut constraints = snapshot.constraints().constraints();
    constraints.any(|it| it.criteria().is_some_and(Criteria::selects_namespaces))
}

/// The workloads whose Pods no constraint sees, because no ExpansionTemplate generates them.
fn unexpanded<'s>(snapshot: &Snapshot, subjects: impl Iterator<Item = &'s Subject>) -> Vec<String> {
    let pod = GroupVersionKind { group: "".into(), version: "v1".into(), kind: "Pod".into() };
    let mut noted = BTreeSet::new();
    let mut notes = Vec::new();
    for subject in subjects {
        let Some(object) = subject.review.object() else { continue };
        let kind = GroupVersionKind::of_object(object);
        let makes_pods = ["template", "jobTemplate"]
            .iter()
            .any(|member| object.path(&["spec", member, "spec"]).is_some());
        let is_done = !makes_pods || snapshot.expansions().expands(&kind);
        if is_done || !noted.insert(kind.clone()) {
            continue;
        }
        let misses = |it: &Arc<CompiledConstraint>| {
            it.criteria().is_some_and(|it| it.admits_kind(&pod) && !it.admits_kind(&kind))
        };
        let count = snapshot.constraints().constraints().filter(|it| misses(it)).count();
        if count > 0 {
            let (plural, are) = if count == 1 { ("", "is") } else { ("s", "are") };
            notes.push(format!(
                "note: {count} constraint{plural} {are} for Pods and not evaluated for the Pods of \
                 a {}: no ExpansionTemplate generates them (docs/concepts.md)",
                printable(&kind.kind)
            ));
        }
    }
    notes
}

/// The note where the cluster's own policies decide differently about the object with the API server's
/// defaults, because one of them reads a field that these fill.
pub fn about_defaults(
    snapshot: &Snapshot,
    host: &dyn Host,
    inventory: &Inventory,
    subject: &Subject,
    decision: &Decision,
) -> Option<String> {
    if snapshot.cluster_policies().is_empty() {
        return None;
    }
    let stored = as_stored(subject.review.clone(), host.types());
    if stored.object() == subject.review.object() {
        return None;
    }
    let mut arena = Arena::new();
    let mut evaluation = Evaluation::new(host, inventory, &mut arena);
    let with_defaults = snapshot.decide(&stored, Stages::ALL, &mut evaluation, &mut NoopObserver);
    let texts = |decision: &Decision| {
        let denials = decision.denials.iter().map(ToString::to_string);
        denials.chain(decision.warnings.iter().cloned()).collect::<Vec<_>>()
    };
    let (found, expected) = (texts(decision), texts(&with_defaults));
    if found == expected {
        return None;
    }
    let other = match expected.first() {
        Some(text) => text.as_str(),
        None => "allowed",
    };
    Some(format!(
        "note: {}: a policy reads fields that the API server fills or changes. With its defaults \
         (`--defaulting`): {}",
        subject.title(),
        printable(other)
    ))
}
