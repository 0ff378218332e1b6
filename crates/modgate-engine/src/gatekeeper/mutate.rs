//! `/v1/mutate`: the steps of a request (spec `gatekeeper-mutation…`, 4.4).

use modgate_api::{config::Process, meta::Operation};
use modgate_value::{Budget, Object, Value};

use super::{Installation, is_core_namespace, kind_of, resources::GROUPS, subject_namespace};
use crate::{
    Host, Review, Snapshot,
    host::budget,
    jsonpatch::{self, PatchOperation},
    matching::Source,
    mutation::{Mutated, MutationError, MutationExplanation, MutationRequest},
};

/// What a request to `/v1/mutate` came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    /// Whether the request may go on.
    pub allowed: bool,
    /// 200, or 500 when mutation failed.
    pub code: u16,
    /// Why nothing was changed, or what went wrong; empty when something was changed.
    pub message: String,
    /// What changes the object as sent into the mutated one.
    pub patch: Vec<PatchOperation>,
    /// The mutated object; `None` when nothing changed it.
    pub object: Option<Value>,
    /// What the mutators did, as far as they were asked: for the log and the metrics.
    pub mutated: Option<Mutated>,
    /// How the request is counted.
    pub status: MutationStatus,
}

/// How a request is counted: `mutation_status` in Gatekeeper's metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutationStatus {
    /// Not at all: nothing that is ever mutated.
    Uncounted,
    /// Decided.
    Success,
    /// In a namespace that is excluded.
    Skip,
    /// Failed (`fix-metric-error`).
    Error,
}

impl MutationStatus {
    /// The value of the label, for what is counted.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Uncounted => None,
            Self::Success => Some("success"),
            Self::Skip => Some("skip"),
            Self::Error => Some("error"),
        }
    }
}

impl Mutation {
    /// The answer when the mutators did not come to an end.
    fn broken_off(error: MutationError) -> Self {
        let message = error.to_string();
        let mutated = match error {
            MutationError::NotConverging { run, passes, .. } => {
                Some(Mutated { object: None, iterations: passes.len(), passes, run: Some(run) })
            }
            _ => None,
        };
        Self { mutated, ..Self::failed(message) }
    }

    fn unchanged(message: &str, status: MutationStatus) -> Self {
        Self {
            allowed: true,
            code: 200,
            message: message.to_owned(),
            patch: Vec::new(),
            object: None,
            mutated: None,
            status,
        }
    }

    /// The answer when mutation fails: a denial, whatever the webhook's `failurePolicy` says.
    pub fn failed(message: String) -> Self {
        let unchanged = Self::unchanged("", MutationStatus::Error);
        Self { allowed: false, code: 500, message, ..unchanged }
    }
}

/// Answers a request to `/v1/mutate`.
pub fn mutate(
    review: &Review,
    installation: &Installation,
    snapshot: &Snapshot,
    host: &dyn Host,
) -> Mutation {
    let prepared = match Prepared::of(review, installation, snapshot, host) {
        Ok(prepared) => prepared,
        Err(answer) => return *answer,
    };
    let budget = budget(snapshot.config().mutation_limits, host);
    let run_id = || run_id(host);
    let request = prepared.request(review, snapshot, host, &budget, &run_id);
    match snapshot.mutators().mutate(&request) {
        Ok(mutated) => prepared.answer(mutated),
        Err(error) => Mutation::broken_off(error),
    }
}

/// What [`mutate`] does, and what each mutator had to do with it; `None` where no mutator is asked.
pub fn explain_mutation(
    review: &Review,
    installation: &Installation,
    snapshot: &Snapshot,
    host: &dyn Host,
) -> (Mutation, Option<MutationExplanation>) {
    let prepared = match Prepared::of(review, installation, snapshot, host) {
        Ok(prepared) => prepared,
        Err(answer) => return (*answer, None),
    };
    let budget = budget(snapshot.config().mutation_limits, host);
    let run_id = || run_id(host);
    let request = prepared.request(review, snapshot, host, &budget, &run_id);
    let explanation = snapshot.mutators().explain(&request);
    let answer = match explanation.result.clone() {
        Ok(mutated) => prepared.answer(mutated),
        Err(error) => Mutation::broken_off(error),
    };
    (answer, Some(explanation))
}

/// A request that is up to the mutators.
struct Prepared {
    /// As it was sent.
    sent: Value,
    /// With the namespace of the request.
    object: Value,
    namespace: Option<Value>,
}

impl Prepared {
    /// The steps before the mutators are asked; the answer where one of them ends the request.
    fn of(
        review: &Review,
        installation: &Installation,
        snapshot: &Snapshot,
        host: &dyn Host,
    ) -> Result<Self, Box<Mutation>> {
        let request = review.request();
        let unchanged = |message, status| Err(Box::new(Mutation::unchanged(message, status)));
        let failed = |message| Err(Box::new(Mutation::failed(message)));
        if installation.is_own(&request.user_info) {
            return unchanged("Gatekeeper does not self-manage", MutationStatus::Uncounted);
        }
        if !matches!(request.operation, Operation::Create | Operation::Update) {
            return unchanged("Mutating only on create or update", MutationStatus::Uncounted);
        }
        let kind = kind_of(request);
        if GROUPS.contains(&kind.group.as_str()) {
            return unchanged("Not mutating gatekeeper resources", MutationStatus::Uncounted);
        }
        let namespace = subject_namespace(request);
        if snapshot.exclusions().excludes(Process::MutationWebhook, namespace) {
            let message = "Namespace is set to be ignored by Gatekeeper config";
            return unchanged(message, MutationStatus::Skip);
        }
        let Some(sent) = request.object.clone().filter(|object| object.as_object().is_some())
        else {
            return failed("failed to decode the object of the request".to_owned());
        };
        let (name, namespace) = if is_core_namespace(&kind) {
            ("", Some(sent.clone()))
        } else if request.namespace.is_empty() {
            ("", None)
        } else {
            match host.namespace(&request.namespace) {
                Ok(namespace) => (request.namespace.as_str(), Some(namespace)),
                Err(error) => return failed(error.to_string()),
            }
        };
        let name = Some(Value::from(name)).filter(|_| !name.is_empty());
        let object = with_namespace(&sent, name.as_ref());
        Ok(Self { sent, object, namespace })
    }

    fn request<'a>(
        &'a self,
        review: &'a Review,
        snapshot: &Snapshot,
        host: &'a dyn Host,
        budget: &'a Budget<'a>,
        run_id: &'a dyn Fn() -> String,
    ) -> MutationRequest<'a> {
        let user = &review.request().user_info;
        MutationRequest {
            lane: host.lane(),
            object: &self.object,
            namespace: self.namespace.as_ref(),
            operation: Some(review.request().operation),
            source: Some(Source::Original),
            username: user.get("username").and_then(Value::as_str).unwrap_or_default(),
            annotate: snapshot.config().mutators.annotations,
            run_id,
            providers: host.providers(),
            budget,
        }
    }

    /// The answer, with the namespace as it was sent.
    fn answer(&self, mutated: Mutated) -> Mutation {
        let Some(object) = &mutated.object else {
            let unchanged =
                Mutation::unchanged("Resource was not mutated", MutationStatus::Success);
            return Mutation { mutated: Some(mutated), ..unchanged };
        };
        let mut object = with_namespace(object, self.sent.path(&["metadata", "namespace"]));
        let is_empty = |metadata: &Value| metadata.as_object().is_some_and(Object::is_empty);
        if self.sent.get("metadata").is_none()
            && object.get("metadata").is_some_and(is_empty)
            && let Value::Object(members) = &mut object
        {
            members.remove("metadata");
        }
        let patch = jsonpatch::diff_exact(&self.sent, &object);
        Mutation {
            patch,
            object: Some(object),
            mutated: Some(mutated),
            ..Mutation::unchanged("", MutationStatus::Success)
        }
    }
}

/// The object with this `metadata.namespace`, or without one.
pub(crate) fn with_namespace(object: &Value, namespace: Option<&Value>) -> Value {
    if object.path(&["metadata", "namespace"]) == namespace {
        return object.clone();
    }
    let Some(members) = object.as_object() else { return object.clone() };
    let mut metadata = match members.get("metadata") {
        None => Object::default(),
        Some(Value::Object(metadata)) => metadata.clone(),
        // Nothing that Kubernetes would take; mutators say what is wrong with it.
        Some(_) => return object.clone(),
    };
    match namespace {
        Some(name) => metadata.insert("namespace", name.clone()),
        None => metadata.remove("namespace"),
    };
    let mut members = members.clone();
    members.insert("metadata", metadata.into());
    members.into()
}

/// A random UUID, as far as the host has randomness.
pub(crate) fn run_id(host: &dyn Host) -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness all runs have the same id, as in the tests of a policy.
    let _ = host.templates().random_bytes(&mut bytes);
    let [_, _, _, _, _, _, six, _, eight, ..] = &mut bytes;
    *six = (*six & 0x0f) | 0x40;
    *eight = (*eight & 0x3f) | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = |range| hex.get(range).unwrap_or_default();
    [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
}
