//! Notes for the user of a review besides its results.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use modgate_engine::{
    Decision, Evaluation, Host, NoopObserver, PolicyId, Review, Scope, Snapshot, Stages,
    UnsentByDefault,
    api::{admissionregistration, constraints, meta::GroupVersionKind, modrule, mutations},
    constraint::{Arena, CompiledConstraint, Inventory},
};
use modgate_report::printable;

use crate::{
    references::References,
    subject::{Subject, as_stored},
};

/// Notes about the input as a whole.
pub fn about_input<'r>(
    snapshot: &Snapshot,
    references: &References,
    reviews: impl Iterator<Item = &'r Review> + Clone,
) -> Vec<String> {
    let is_missing = |name: &str| references.namespace(name).is_none();
    let missing = missing_namespaces(snapshot, reviews.clone(), is_missing);
    let mut notes: Vec<String> = missing
        .into_iter()
        .map(|name| {
            format!(
                "note: no file describes Namespace `{}`, so policies see one without labels of its \
                 own; give it with `--objects`",
                printable(name)
            )
        })
        .collect();
    notes.extend(unexpanded(snapshot, reviews.clone()));
    notes.extend(unconcerned(snapshot, reviews.clone()));
    notes.extend(unknown_params(snapshot, references));
    notes.extend(unsent(snapshot, reviews));
    notes
}

/// A note for each kind of request that constraints see only in installations whose values say so.
fn unsent<'r>(snapshot: &Snapshot, reviews: impl Iterator<Item = &'r Review>) -> Vec<String> {
    if snapshot.constraints().constraints().next().is_none() {
        return Vec::new();
    }
    let unsent: BTreeSet<UnsentByDefault> = reviews.flat_map(Scope::unsent_by_default).collect();
    let texts = unsent.into_iter().map(|it| match it {
        UnsentByDefault::Operation(operation) => (
            format!("{operation} requests"),
            "to constraints",
            "value `validation.operations` lists",
        ),
        UnsentByDefault::SubResource(name) => (
            format!("requests for `{name}`"),
            "to constraints and mutators",
            "values `validation.resources` and `mutation.resources` list",
        ),
    });
    let note = |(requests, to, values): (String, &str, &str)| {
        let requests = printable(&requests);
        format!("note: the API server sends {requests} {to} only if the chart {values} them")
    };
    texts.map(note).collect()
}

/// The kinds of parameters that the input does not contain: the API server denies until they exist.
fn unknown_params(snapshot: &Snapshot, references: &References) -> Vec<String> {
    let kinds = snapshot.cluster_policies().bound_param_kinds().into_iter();
    let unknown = kinds.filter(|kind| !references.knows_params(kind));
    let note = |kind: admissionregistration::ParamKind| {
        format!(
            "note: the input does not define the kind {} {} that a `paramKind` names; an API server \
             without it denies as `failurePolicy` sets",
            printable(&kind.api_version),
            printable(&kind.kind)
        )
    };
    unknown.map(note).collect()
}

/// Kinds named in one note.
const MAX_NAMED: usize = 5;

/// The namespaces of objects whose Namespace policies read and `is_missing` does not know.
pub fn missing_namespaces<'r>(
    snapshot: &Snapshot,
    reviews: impl Iterator<Item = &'r Review>,
    is_missing: impl Fn(&str) -> bool,
) -> BTreeSet<&'r str> {
    let selects = |kind: &GroupVersionKind| {
        let is_expanded = snapshot.expansions().expands(kind);
        snapshot.constraints().constraints().any(|constraint| {
            constraint.criteria().is_some_and(|criteria| {
                criteria.selects_namespaces() && (is_expanded || criteria.admits_kind(kind))
            })
        })
    };
    let namespaces = reviews.filter_map(|review| {
        let name = review.store_namespace();
        let is_read = || {
            snapshot.modrules_read_namespace(name)
                || review.object().map(GroupVersionKind::of_object).is_some_and(|it| selects(&it))
        };
        (!name.is_empty() && is_missing(name) && is_read()).then_some(name)
    });
    namespaces.collect()
}

/// A note for each kind of workload whose Pods no constraint sees, because no ExpansionTemplate
/// generates them.
pub fn unexpanded<'r>(
    snapshot: &Snapshot,
    reviews: impl Iterator<Item = &'r Review>,
) -> Vec<String> {
    let pod = GroupVersionKind { group: "".into(), version: "v1".into(), kind: "Pod".into() };
    let mut noted = BTreeSet::new();
    let mut notes = Vec::new();
    for object in reviews.filter_map(Review::object) {
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
                 a {}: no ExpansionTemplate generates them (docs/mutation.md)",
                printable(&kind.kind)
            ));
        }
    }
    notes
}

/// A note if no policy applies to some of the objects. Policies, Namespaces and definitions of kinds
/// among them are left out: they are there for the others.
pub fn unconcerned<'r>(
    snapshot: &Snapshot,
    reviews: impl Iterator<Item = &'r Review>,
) -> Option<String> {
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    let mut namespaces: BTreeSet<&str> = BTreeSet::new();
    let (mut all, mut missed) = (0_usize, 0_usize);
    for review in reviews {
        let kind = review.request().kind.kind.as_str();
        let is_reference = ["Namespace", "CustomResourceDefinition"].contains(&kind)
            || review.object().is_some_and(Snapshot::takes);
        if is_reference {
            continue;
        }
        all += 1;
        if !snapshot.concerns(review) {
            missed += 1;
            *kinds.entry(kind).or_default() += 1;
            namespaces.insert(review.request().namespace.as_str());
        }
    }
    let policies = snapshot.policies().filter(is_evaluated).count();
    if missed == 0 || policies == 0 {
        return None;
    }
    let named: Vec<&str> = kinds.keys().copied().take(MAX_NAMED).collect();
    let more = kinds.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more kinds") } else { String::new() };
    let (plural, ies) = if policies == 1 { ("y", "ies") } else { ("ies", "y") };
    let objects = match (missed, all) {
        (1, 1) => "the object".to_owned(),
        (missed, all) if missed == all => format!("the {all} objects"),
        (missed, all) => format!("{missed} of the {all} objects"),
    };
    let why = other_namespaces(snapshot, &namespaces).unwrap_or_default();
    Some(format!(
        "note: 0 of {policies} polic{plural} appl{ies} to {objects} ({}{more}){why}",
        printable(&named.join(", "))
    ))
}

/// Why no policy applies to objects of these namespaces, if all are ModRules of others.
fn other_namespaces(snapshot: &Snapshot, namespaces: &BTreeSet<&str>) -> Option<String> {
    let of_cluster = &snapshot.config().cluster_rules_namespaces;
    let mut own = BTreeSet::new();
    for policy in snapshot.policies().filter(is_evaluated) {
        let is_other = policy.group == modrule::GROUP
            && !of_cluster.contains(&policy.namespace)
            && !namespaces.contains(policy.namespace.as_str());
        if !is_other {
            return None;
        }
        own.insert(policy.namespace);
    }
    let named: Vec<String> = own.iter().take(MAX_NAMED).map(|name| format!("`{name}`")).collect();
    Some(printable(&format!(
        ": a ModRule applies to objects of its own namespace, here {}",
        named.join(", ")
    )))
}

/// The note where no policy matches any kind of a cluster, so that none of its objects is read.
pub fn no_kind(snapshot: &Snapshot) -> String {
    let policies = snapshot.policies().filter(is_evaluated).count();
    let (plural, ies) = if policies == 1 { ("y", "ies") } else { ("ies", "y") };
    format!("note: 0 of {policies} polic{plural} appl{ies} to a kind that the cluster serves")
}

/// Whether a policy is evaluated by itself; templates and bindings are parts of others.
fn is_evaluated(policy: &PolicyId) -> bool {
    match policy.group.as_str() {
        modrule::GROUP | constraints::GROUP | mutations::GROUP => true,
        admissionregistration::GROUP => !policy.kind.ends_with("Binding"),
        _ => false,
    }
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
