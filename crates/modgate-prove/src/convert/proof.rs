//! Invented requests, decided by a policy and by what it was converted to.

use std::{
    collections::BTreeSet,
    sync::{PoisonError, RwLock},
};

use modgate_engine::{
    Change, Decision, EngineConfig, Host, HostError, NoopObserver, OnError, PolicySource, Review,
    ServedPolicies, Snapshot, Stages,
    admissionpolicy::{ParamObjects, Params},
    api::meta::Operation,
    constraint::{Arena, Inventory},
};
use modgate_value::{Clock, Object, Str, Value, budget::Frozen};

use super::{Conversion, object};
use crate::{Side, generate::Generator, value};

/// How often the two decide alike.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Proof {
    /// Requests decided by both.
    pub requests: u64,
    /// Those about which either has anything to say.
    pub found: u64,
    /// Those about which they differ.
    pub different: u64,
    /// The first of them.
    pub example: Option<Example>,
}

/// A request about which the two differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The operation of the request.
    pub operation: Operation,
    /// The object.
    pub object: Value,
    /// Actions and messages of the original.
    pub original: BTreeSet<(String, String)>,
    /// Actions and messages of what it was converted to.
    pub converted: BTreeSet<(String, String)>,
}

/// Namespaces with and without the labels that selectors ask for, and parameters.
struct Surroundings {
    labels: Vec<(Str, Str)>,
    params: ParamObjects,
    /// The object of the request: a Namespace has the labels that its request shows.
    object: RwLock<Value>,
}

/// The namespaces whose labels meet the selectors.
const LABELLED: [&str; 2] = ["prod", "shop"];

impl Host for Surroundings {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        let subject = self.object.read().unwrap_or_else(PoisonError::into_inner);
        let own = |path: &[&str]| subject.path(path).and_then(Value::as_str).unwrap_or_default();
        if own(&["kind"]) == "Namespace" && own(&["metadata", "name"]) == name {
            return Ok(subject.clone());
        }
        drop(subject);
        let mut labels = Object::default();
        labels.insert("kubernetes.io/metadata.name", name.into());
        if LABELLED.contains(&name) {
            for (key, value) in &self.labels {
                labels.insert(key.clone(), value.clone().into());
            }
        }
        let metadata = object([("name", Value::from(name)), ("labels", labels.into())]);
        Ok(object([
            ("apiVersion", "v1".into()),
            ("kind", "Namespace".into()),
            ("metadata", metadata),
        ]))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(name.to_owned()))
    }

    fn parameters(&self) -> &dyn Params {
        &self.params
    }
}

fn snapshot(documents: &[Value]) -> Snapshot {
    let config =
        EngineConfig { admission_policies: ServedPolicies::All, ..EngineConfig::default() };
    let policies = documents.iter().filter(|it| Snapshot::takes(it));
    let changes = policies.map(|it| Change::Upsert(PolicySource::of_object(it.clone()))).collect();
    Snapshot::new(config).apply(changes, OnError::Unload).snapshot
}

/// Decides this many invented requests with both; the same seed gives the same requests.
pub fn prove(conversion: &Conversion, seed: u64, count: u64) -> Proof {
    let all = || conversion.originals.iter().chain(&conversion.objects);
    let mut labels = BTreeSet::new();
    all().for_each(|document| selected(document, 0, &mut labels));
    let labels: Vec<(Str, Str)> = labels.into_iter().collect();
    let mut params = ParamObjects::default();
    all().for_each(|document| params.insert(document));
    let surroundings = Surroundings { labels, params, object: RwLock::default() };
    let (original, converted) = (snapshot(&conversion.originals), snapshot(&conversion.objects));
    let inventory = Inventory::default();
    let sides = [&original, &converted].map(|snapshot| Side {
        snapshot,
        host: &surroundings,
        inventory: &inventory,
    });
    let mut generator = Generator::new(seed, all());
    let mut proof = Proof::default();
    let mut arena = Arena::new();
    for number in 0..count {
        let review = with_labels(generator.review(), number, &surroundings.labels);
        let subject = review.object().cloned().unwrap_or_default();
        *surroundings.object.write().unwrap_or_else(PoisonError::into_inner) = subject;
        let [a, b] = sides.map(|side| {
            let stages = Stages::ALL;
            said(&side.decide(&review, stages, &mut arena, &mut NoopObserver))
        });
        proof.requests += 1;
        proof.found += u64::from(!(a.is_empty() && b.is_empty()));
        if a != b {
            proof.different += 1;
            proof.example.get_or_insert_with(|| Example {
                operation: review.request().operation,
                object: review.object().cloned().unwrap_or_default(),
                original: a,
                converted: b,
            });
        }
    }
    proof
}

/// Every second object has the labels that selectors ask for. What is updated was the same before.
fn with_labels(review: Review, number: u64, labels: &[(Str, Str)]) -> Review {
    let request = review.request();
    let subject = review.object().cloned().unwrap_or_default();
    let operation = request.operation;
    let mut subject = subject;
    if number.is_multiple_of(2) {
        for (key, text) in labels {
            let path: Vec<value::Step> =
                ["metadata", "labels", key].into_iter().map(Into::into).collect();
            subject = value::replaced(&subject, &path, text.clone().into());
        }
    }
    let review = Review::of_object(subject.clone(), operation, "default");
    match operation {
        Operation::Update => review.with_old_object(subject),
        _ => review,
    }
}

/// Actions and messages, with the parameters where policies have them.
fn said(decision: &Decision) -> BTreeSet<(String, String)> {
    let plain = |message: &str| message.replace("variables.params", "params");
    let violations = decision.violations.iter();
    let violations = violations.map(|it| (it.action.to_string(), plain(&it.message)));
    let denials = decision.denials.iter().map(|it| ("deny".to_owned(), plain(&it.message)));
    let remarks = decision.remarks.iter().map(|(action, it)| {
        let action = match action.as_str() {
            "Warn" => "warn",
            _ => "dryrun",
        };
        (action.to_owned(), plain(&it.message))
    });
    violations.chain(denials).chain(remarks).collect()
}

/// How deep selectors are looked for.
const DEPTH: usize = 8;

/// Labels that meet the selectors of a document.
fn selected(document: &Value, depth: usize, found: &mut BTreeSet<(Str, Str)>) {
    if depth > DEPTH {
        return;
    }
    match document {
        Value::Object(members) => {
            for (key, value) in members.iter() {
                match (key.as_str(), value) {
                    ("matchLabels", Value::Object(labels)) => {
                        let labels = labels.iter().filter_map(|(key, value)| {
                            Some((key.clone(), Str::from(value.as_str()?)))
                        });
                        found.extend(labels);
                    }
                    ("matchExpressions", Value::Array(list)) => {
                        found.extend(list.iter().filter_map(wanted));
                    }
                    _ => selected(value, depth + 1, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|it| selected(it, depth + 1, found)),
        _ => {}
    }
}

/// A label that meets a requirement.
fn wanted(requirement: &Value) -> Option<(Str, Str)> {
    let text = |member| requirement.get(member).and_then(Value::as_str);
    let value = match text("operator")? {
        "In" => requirement.get("values")?.as_array()?.first()?.as_str()?,
        "Exists" => "x",
        _ => return None,
    };
    Some((text("key")?.into(), value.into()))
}
