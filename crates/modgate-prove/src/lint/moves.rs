//! The same offence in another place.

use modgate_engine::{Code, api::meta::GroupVersionKind};
use modgate_value::Value;

use super::{
    Bypass, Subject, bypass,
    probe::{Prober, Request},
    seeds::Seeds,
};
use crate::{
    objects::{
        KINDS,
        pods::{List, containers, named, spec_path, with_containers, workload},
    },
    value::{Path, Step, at, removed, replaced},
};

/// Containers tried in place of an offender.
const MAX_CONTAINERS: usize = 40;
/// A namespace that no policy mentions.
const ELSEWHERE: &str = "elsewhere";

/// An object that is denied, and where its offence is if it is in a container.
pub(super) struct Offence {
    pub(super) object: Value,
    pub(super) container: Option<Offender>,
}

/// A container for which an object is denied.
pub(super) struct Offender {
    /// The object with the good container alone.
    pub(super) clean: Value,
    /// A container with which the policy admits the object.
    pub(super) good: Value,
    /// The same with the offence.
    pub(super) bad: Value,
    /// The members that differ.
    pub(super) members: Vec<String>,
}

impl Offence {
    pub(super) fn of(prober: &mut Prober<'_>, object: &Value, seeds: &Seeds) -> Self {
        let container = Offender::of(prober, object, seeds);
        Self { object: object.clone(), container }
    }
}

impl Offender {
    fn of(prober: &mut Prober<'_>, object: &Value, seeds: &Seeds) -> Option<Self> {
        let spec = spec_path(object)?;
        let without = |object: &Value, list: List| {
            let mut path = spec.clone();
            path.push(list.name().into());
            removed(object, &path)
        };
        let bare = without(&without(object, List::Init), List::Ephemeral);
        let with = |container: &Value| {
            let container = named(container, "web");
            Request::create(with_containers(&bare, List::Containers, vec![container]))
        };
        let lists = [List::Containers, List::Init, List::Ephemeral];
        let all: Vec<Value> = lists.iter().flat_map(|list| containers(object, *list)).collect();
        let bad = all.iter().find(|container| prober.denies(&with(container)))?;
        let candidates = seeds.containers.iter().take(MAX_CONTAINERS);
        let good = candidates.into_iter().find(|container| prober.admits(&with(container)))?;
        let names = |container: &Value| -> Vec<String> {
            let members = container.as_object().into_iter().flat_map(|members| members.keys());
            members.map(ToString::to_string).collect()
        };
        let mut good = named(good, "web");
        let extra: Vec<String> = names(&good);
        for member in extra.iter().filter(|member| !matches!(member.as_str(), "name" | "image")) {
            let less = removed(&good, &[member.as_str().into()]);
            if prober.admits(&with(&less)) {
                good = less;
            }
        }
        let mut members = [names(&good), names(bad)].concat();
        members.sort_unstable();
        members.dedup();
        members.retain(|member| member != "name" && good.get(member) != bad.get(member));
        let one = members.iter().find_map(|member| {
            let mixed = taken(&good, bad, member);
            prober.denies(&with(&mixed)).then(|| (mixed, vec![member.clone()]))
        });
        let (bad, members) = one.unwrap_or_else(|| (named(bad, "web"), members.clone()));
        Some(Self { clean: with(&good).object, good, bad, members })
    }

    /// The offender for a list, if the offence can be there.
    fn for_list(&self, list: List, name: &str) -> Option<Value> {
        if !self.members.iter().all(|member| list.takes(member)) {
            return None;
        }
        let members = self.bad.as_object()?.iter();
        let kept: Value = members.filter(|(member, _)| list.takes(member)).cloned().collect();
        Some(named(&kept, name))
    }
}

/// The container with a member as another one has it.
fn taken(container: &Value, from: &Value, member: &str) -> Value {
    match from.get(member) {
        Some(value) => replaced(container, &[member.into()], value.clone()),
        None => removed(container, &[member.into()]),
    }
}

pub(super) fn tried(
    prober: &mut Prober<'_>,
    offence: &Offence,
    seeds: &Seeds,
    subject: &Subject<'_>,
    report: &mut dyn FnMut(Bypass),
) {
    if let Some(offender) = &offence.container {
        let found = [
            init_containers(prober, offender),
            ephemeral_containers(prober, offender),
            another_element(prober, offender),
            empty(prober, offender),
            update_of_container(prober, offender),
            pod_templates(prober, offence, offender),
        ];
        found.into_iter().flatten().for_each(&mut *report);
    }
    let found = [
        update(prober, offence, seeds),
        generate_name(prober, &offence.object),
        namespace(prober, &offence.object, subject),
    ];
    found.into_iter().flatten().for_each(report);
}

/// The path to an element of a list of containers.
fn place(object: &Value, list: List, index: usize) -> Vec<Step> {
    let mut path = spec_path(object).unwrap_or_default();
    path.extend([Step::from(list.name()), Step::from(index)]);
    path
}

/// The denied object: the offender alone.
fn denied(offender: &Offender) -> Value {
    with_containers(&offender.clean, List::Containers, vec![offender.bad.clone()])
}

fn init_containers(prober: &mut Prober<'_>, offender: &Offender) -> Option<Bypass> {
    let moved = offender.for_list(List::Init, "moved")?;
    let witness = with_containers(&offender.clean, List::Init, vec![moved]);
    let place = place(&witness, List::Init, 0);
    let denied = Request::create(denied(offender));
    bypass(prober, Code::BypassInitContainers, &place, denied, Request::create(witness))
}

/// An ephemeral container comes by an update of `pods/ephemeralcontainers`.
fn ephemeral_containers(prober: &mut Prober<'_>, offender: &Offender) -> Option<Bypass> {
    let old = offender.clean.clone();
    if old.get("kind").and_then(Value::as_str) != Some("Pod") {
        return None;
    }
    let moved = offender.for_list(List::Ephemeral, "moved")?;
    let object = with_containers(&old, List::Ephemeral, vec![moved]);
    let denied = denied(offender);
    // A policy for creations alone means to leave out what exists.
    if !prober.matches(&Request::update(old.clone(), denied.clone())) {
        return None;
    }
    let place = place(&object, List::Ephemeral, 0);
    let witness = Request { object, old: Some(old), sub_resource: "ephemeralcontainers", of: None };
    bypass(prober, Code::BypassEphemeralContainers, &place, Request::create(denied), witness)
}

fn another_element(prober: &mut Prober<'_>, offender: &Offender) -> Option<Bypass> {
    let bad = named(&offender.bad, "moved");
    let orders =
        [(vec![offender.good.clone(), bad.clone()], 1), (vec![bad, offender.good.clone()], 0)];
    orders.into_iter().find_map(|(containers, index)| {
        let witness = with_containers(&offender.clean, List::Containers, containers);
        let place = place(&witness, List::Containers, index);
        let denied = Request::create(denied(offender));
        bypass(prober, Code::BypassListElement, &place, denied, Request::create(witness))
    })
}

/// An empty object in place of a missing one.
fn empty(prober: &mut Prober<'_>, offender: &Offender) -> Option<Bypass> {
    let [member] = offender.members.as_slice() else { return None };
    if offender.bad.get(member).is_some()
        || !matches!(member.as_str(), "resources" | "securityContext")
    {
        return None;
    }
    let nothing: Value = Vec::<(&str, Value)>::new().into_iter().collect();
    let bad = replaced(&offender.bad, &[member.as_str().into()], nothing);
    let witness = with_containers(&offender.clean, List::Containers, vec![bad]);
    let mut place = place(&witness, List::Containers, 0);
    place.push(member.as_str().into());
    let denied = Request::create(denied(offender));
    bypass(prober, Code::BypassEmptyValue, &place, denied, Request::create(witness))
}

/// The parts of containers that an update may change: of a Pod the images, of a workload everything.
fn update_of_container(prober: &mut Prober<'_>, offender: &Offender) -> Option<Bypass> {
    let kind = offender.clean.get("kind").and_then(Value::as_str)?;
    let mutable = match kind {
        "Pod" => offender.members == ["image"],
        "Job" => false,
        _ => true,
    };
    let object = denied(offender);
    let witness = Request::update(offender.clean.clone(), object.clone());
    if !mutable || !prober.matches(&witness) {
        return None;
    }
    let place = place(&object, List::Containers, 0);
    bypass(prober, Code::BypassUpdate, &place, Request::create(object), witness)
}

/// Kinds whose specs an update may change.
const MUTABLE: [&str; 7] = [
    "ConfigMap",
    "HorizontalPodAutoscaler",
    "Ingress",
    "Namespace",
    "PodDisruptionBudget",
    "Service",
    "ServiceAccount",
];

/// An admitted object becomes the denied one.
fn update(prober: &mut Prober<'_>, offence: &Offence, seeds: &Seeds) -> Option<Bypass> {
    let object = &offence.object;
    let kind = object.get("kind").and_then(Value::as_str)?;
    if !MUTABLE.contains(&kind) {
        return None;
    }
    let old = seeds.of_kind(object).find_map(|seed| {
        let metadata = |of: &Value, key: &str| of.path(&["metadata", key]).cloned();
        let mut old = seed.clone();
        for key in ["name", "namespace"] {
            let path = ["metadata".into(), key.into()];
            old = match metadata(object, key) {
                Some(value) => replaced(&old, &path, value),
                None => removed(&old, &path),
            };
        }
        prober.admits(&Request::create(old.clone())).then_some(old)
    })?;
    let witness = Request::update(old, object.clone());
    if !prober.matches(&witness) {
        return None;
    }
    bypass(prober, Code::BypassUpdate, &[], Request::create(object.clone()), witness)
}

/// A name that the API server generates: the request has none.
fn generate_name(prober: &mut Prober<'_>, object: &Value) -> Option<Bypass> {
    let generated = replaced(object, &["metadata".into(), "name".into()], "web-x7k2p".into());
    let path: &Path = &["metadata".into(), "generateName".into()];
    let witness = Request::create(replaced(&generated, path, "web-".into()));
    if !prober.matches(&witness) {
        return None;
    }
    // The same name, given: a policy that denies certain names has no objection to others.
    bypass(prober, Code::BypassGenerateName, path, Request::create(generated), witness)
}

fn namespace(prober: &mut Prober<'_>, object: &Value, subject: &Subject<'_>) -> Option<Bypass> {
    let path: &Path = &["metadata".into(), "namespace".into()];
    let own = match at(object, path).and_then(Value::as_str) {
        Some(own) => own,
        None if GroupVersionKind::of_object(object).is_cluster_scoped() => return None,
        None => "default",
    };
    let mentions = |document: &Value| document.to_json().contains(own);
    if subject.sees_others || subject.documents.iter().any(mentions) {
        return None;
    }
    let witness = Request::create(replaced(object, path, ELSEWHERE.into()));
    if !prober.matches(&witness) {
        return None;
    }
    bypass(prober, Code::BypassNamespace, path, Request::create(object.clone()), witness)
}

/// Other kinds that make the same Pods, where the policy does not look at the Pods themselves.
fn pod_templates(
    prober: &mut Prober<'_>,
    offence: &Offence,
    offender: &Offender,
) -> Option<Bypass> {
    let denied = denied(offender);
    let own = denied.get("kind").and_then(Value::as_str)?.to_owned();
    let spec = at(&denied, &spec_path(&denied)?)?.clone();
    let namespace = offence.object.path(&["metadata", "namespace"]).cloned().unwrap_or_default();
    let metadata = [("name", Value::from("web")), ("namespace", namespace.clone())];
    let pod: Value = [
        ("apiVersion", Value::from("v1")),
        ("kind", "Pod".into()),
        ("metadata", metadata.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        ("spec", spec.clone()),
    ]
    .into_iter()
    .collect();
    if own == "Pod" || prober.matches(&Request::create(pod)) {
        return None;
    }
    KINDS.iter().filter(|(_, kind, template)| !template.is_empty() && *kind != own).find_map(
        |(api_version, kind, _)| {
            let witness = Request::create(workload(api_version, kind, &spec, &namespace));
            if !prober.matches(&witness) {
                return None;
            }
            let place = spec_path(&witness.object).unwrap_or_default();
            bypass(
                prober,
                Code::BypassPodTemplate,
                &place,
                Request::create(denied.clone()),
                witness,
            )
        },
    )
}
