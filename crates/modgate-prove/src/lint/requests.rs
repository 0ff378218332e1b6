//! The same offence by another request: of a subresource, or by a deletion.

use std::collections::BTreeSet;

use modgate_engine::{
    Code,
    api::{meta::GroupVersionKind, schema::names},
};
use modgate_value::Value;

use super::{
    Bypass, Subject, bypass,
    moves::Offence,
    probe::{Prober, Request},
    seeds::Seeds,
};
use crate::{
    minimise::minimised_within,
    objects::pods::{List, with_containers},
    value::{Step, at, removed, replaced},
};

/// Objects that are tried as protected ones.
const MAX_PROTECTED: usize = 24;
/// Decisions to make one of them smaller.
const TRIES: usize = 150;
/// Labels and annotations that may protect an object.
const MAX_KEYS: usize = 64;

pub(super) fn tried(
    prober: &mut Prober<'_>,
    offence: &Offence,
    subject: &Subject<'_>,
    report: &mut dyn FnMut(Bypass),
) {
    // A ValidatingAdmissionPolicy names resources and subresources. Kinds, which constraints name, are those of the
    // objects in a request, so that a constraint for Deployments leaves out what is of the kind Scale.
    let is_policy =
        subject.documents.iter().any(|it| it.path(&["spec", "matchConstraints"]).is_some());
    if !is_policy {
        return;
    }
    let found = [scaled(prober, &offence.object), resized(prober, offence)];
    found.into_iter().flatten().for_each(report);
}

/// Replicas that come by an update of `scale`.
fn scaled(prober: &mut Prober<'_>, object: &Value) -> Option<Bypass> {
    let kind = GroupVersionKind::of_object(object);
    if kind.group != "apps" || kind.kind == "DaemonSet" {
        return None;
    }
    let path: [Step; 2] = ["spec".into(), "replicas".into()];
    let replicas = at(object, &path)?;
    let old = removed(object, &path);
    let clean =
        [old.clone(), replaced(&old, &path, 1_i64.into()), replaced(&old, &path, 2_i64.into())];
    let old = clean.into_iter().find(|it| prober.admits(&Request::create(it.clone())))?;
    // A policy for creations alone means to leave out what exists.
    if !prober.denies(&Request::update(old.clone(), object.clone())) {
        return None;
    }
    let count = at(&old, &path).cloned().unwrap_or_else(|| 1_i64.into());
    let scale = |replicas: &Value| -> Value {
        let metadata = ["name", "namespace"].into_iter();
        let metadata = metadata
            .filter_map(|key| Some((key, object.path(&["metadata", key])?.clone())))
            .collect();
        [
            ("apiVersion", Value::from("autoscaling/v1")),
            ("kind", "Scale".into()),
            ("metadata", metadata),
            ("spec", [("replicas", replicas.clone())].into_iter().collect()),
        ]
        .into_iter()
        .collect()
    };
    let witness = Request {
        object: scale(replicas),
        old: Some(scale(&count)),
        sub_resource: "scale",
        of: Some(kind),
    };
    bypass(prober, Code::BypassSubresource, &path, Request::create(object.clone()), witness)
}

/// Resources of a container that come by an update of `pods/resize`.
fn resized(prober: &mut Prober<'_>, offence: &Offence) -> Option<Bypass> {
    let offender = offence.container.as_ref()?;
    let is_pod = offender.clean.get("kind").and_then(Value::as_str) == Some("Pod");
    // A resize changes resources that the container has already.
    let both = [&offender.good, &offender.bad].iter().all(|it| it.get("resources").is_some());
    if !is_pod || !both || offender.members != ["resources"] {
        return None;
    }
    let object = with_containers(&offender.clean, List::Containers, vec![offender.bad.clone()]);
    let old = offender.clean.clone();
    if !prober.denies(&Request::update(old.clone(), object.clone())) {
        return None;
    }
    let place: [Step; 4] = ["spec".into(), "containers".into(), 0.into(), "resources".into()];
    let denied = Request::create(object.clone());
    let witness = Request { object, old: Some(old), sub_resource: "resize", of: None };
    bypass(prober, Code::BypassSubresource, &place, denied, witness)
}

/// The deletion of an object that the policy protects from updates, where the policy names deletions, too. Counts
/// the objects that are protected.
pub(super) fn deletion(
    prober: &mut Prober<'_>,
    seeds: &Seeds,
    subject: &Subject<'_>,
    offences: &mut usize,
) -> Option<Bypass> {
    if !subject.documents.iter().any(|document| document.to_json().contains("DELETE")) {
        return None;
    }
    let is_key = |key: &&String| names::label_key(key).is_empty();
    let keys: Vec<&String> = seeds.texts.iter().filter(is_key).take(MAX_KEYS).collect();
    let marked = |object: &Value| {
        keys.iter().fold(object.clone(), |object, key| {
            ["labels", "annotations"].into_iter().fold(object, |object, member| {
                let path = ["metadata".into(), member.into(), Step::from(key.as_str())];
                replaced(&object, &path, "true".into())
            })
        })
    };
    let mut kinds = BTreeSet::new();
    let first = seeds.admitted.iter().filter(|it| kinds.insert(GroupVersionKind::of_object(it)));
    let first: Vec<Value> = first.map(marked).collect();
    let candidates = seeds.admitted.iter().take(MAX_PROTECTED).cloned().chain(first);
    for object in candidates {
        let unchanged = |object: &Value| Request::update(object.clone(), object.clone());
        if !prober.denies(&unchanged(&object)) {
            continue;
        }
        *offences += 1;
        let object = minimised_within(&object, TRIES, |object| prober.denies(&unchanged(object)));
        let (denied, witness) = (unchanged(&object), Request::delete(object));
        if !prober.matches(&witness) {
            continue;
        }
        let found = bypass(prober, Code::BypassDelete, &[], denied, witness);
        if found.is_some() {
            return found;
        }
    }
    None
}
