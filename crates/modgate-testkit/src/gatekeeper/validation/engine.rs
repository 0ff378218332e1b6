//! The engine as a subject.

use std::collections::BTreeMap;

use anyhow::Result;
use modgate_api::meta::ObjectExt as _;
use modgate_api::{admission::AdmissionResponse, constraints::EnforcementPoint};
use modgate_engine::{
    AdmissionStatus, Change, Decision, EngineConfig, Evaluation, Host, HostError, NoopObserver,
    OnError, PolicySource, Review, Snapshot, Stages,
    constraint::{Admission, Arena, Inventory},
    gatekeeper::{ExemptNamespaces, Installation, admit_label},
};
use modgate_value::{Clock, Str, Value, budget::Frozen};

use super::{Answer, Settings, Subject, specified};

/// A snapshot, and a cluster that consists of a few objects.
pub struct EngineSubject {
    snapshot: Snapshot,
    inventory: Inventory,
    cluster: Cluster,
}

impl EngineSubject {
    /// One for an installation with these objects, boxed as [`Make`](super::Make) wants it.
    pub fn boxed(settings: &Settings, objects: &[Value]) -> Option<Box<dyn Subject>> {
        let mut inventory = Inventory::default();
        for object in objects {
            inventory.insert(object.clone()).ok()?;
        }
        Some(Box::new(Self {
            snapshot: Snapshot::new(settings.engine()),
            inventory,
            cluster: Cluster::new(settings, objects),
        }))
    }
}

impl Settings {
    /// The settings of the engine.
    pub fn engine(&self) -> EngineConfig {
        let mut config = EngineConfig::default();
        let templates = &mut config.templates;
        templates.referential_rules = self.referential_rules.unwrap_or(true);
        templates.cel = self.k8s_native_validation.unwrap_or(true);
        let prefixes = self.exempt_namespace_prefixes.iter().map(Str::from).collect();
        config.installation = Installation {
            exempt: ExemptNamespaces { prefixes, ..ExemptNamespaces::default() },
            deny_invalid_templates: self.deny_invalid_templates,
            ..Installation::default()
        };
        config
    }
}

impl Subject for EngineSubject {
    fn load(&mut self, resources: &[Value]) -> Vec<String> {
        let sources = resources.iter().cloned().map(PolicySource::of_object);
        let update = self.snapshot.apply(sources.map(Change::Upsert).collect(), OnError::Unload);
        self.snapshot = update.snapshot;
        specified(update.problems)
    }

    fn admit(&mut self, request: &Value) -> Result<Answer> {
        let review = Review::from_request(request)?;
        let mut arena = Arena::new();
        let mut evaluation = Evaluation::new(&self.cluster, &self.inventory, &mut arena);
        let stages = Stages::CONSTRAINTS;
        let decision = self.snapshot.decide(&review, stages, &mut evaluation, &mut NoopObserver);
        let status = decision.admission_status().map(AdmissionStatus::as_str);
        let dry_run = if review.request().dry_run { "true" } else { "false" };
        let counted = status.map(|status| [status, dry_run]);
        let logged = decision.violations.iter().filter(|violation| !violation.actions.is_empty());
        let logged = logged.map(|violation| violation.message.clone()).collect();
        Ok(Answer { response: response(decision)?, logged, counted })
    }

    fn label(&mut self, request: &Value) -> Result<Answer> {
        let review = Review::from_request(request)?;
        let installation = &self.snapshot.config().installation;
        let decision = admit_label(review.request(), installation);
        Ok(Answer { response: response(decision)?, logged: Vec::new(), counted: None })
    }

    fn audit(&mut self, object: &Value) -> Option<Vec<[String; 3]>> {
        let admission = Admission::of_object(object.clone(), None);
        let point = EnforcementPoint::Audit;
        let mut arena = Arena::new();
        let mut evaluation = Evaluation::new(&self.cluster, &self.inventory, &mut arena);
        let found = self.snapshot.review_constraints(&admission, point, &mut evaluation);
        let shown = found.into_iter().map(|violation| {
            [violation.constraint.to_string(), violation.message, violation.action.to_string()]
        });
        Some(shown.collect())
    }
}

/// As it goes over the wire.
fn response(decision: Decision) -> Result<Value> {
    let Decision { allowed, code, reason: message, warnings, .. } = decision;
    let reason = if code == 403 { "Forbidden".to_owned() } else { String::new() };
    let response =
        AdmissionResponse { allowed, code, reason, message, warnings, ..Default::default() };
    let review = response.to_json(Default::default(), |_| String::new());
    Ok(Value::from_json(review.as_bytes())?.get("response").cloned().unwrap_or_default())
}

/// The Namespaces there are: those given, and every other that is not said to be absent.
struct Cluster {
    namespaces: BTreeMap<Str, Value>,
    absent: Vec<String>,
}

impl Cluster {
    fn new(settings: &Settings, objects: &[Value]) -> Self {
        let namespaces = objects
            .iter()
            .filter(|object| object.get("kind").and_then(Value::as_str) == Some("Namespace"));
        let named =
            namespaces.filter_map(|object| Some((object.metadata("name")?.into(), object.clone())));
        Self { namespaces: named.collect(), absent: settings.absent_namespaces.clone() }
    }
}

impl Host for Cluster {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        if self.absent.iter().any(|absent| absent == name) {
            return Err(HostError::NotFound(format!("namespaces \"{name}\" not found")));
        }
        Ok(self.namespaces.get(name).cloned().unwrap_or_else(|| {
            let metadata: Value = [("name", Value::from(name))].into_iter().collect();
            [("metadata", metadata)].into_iter().collect()
        }))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
    }
}
