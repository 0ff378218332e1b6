//! Before and after mutators: the steps of a request to `/v1/mutate` (spec `gatekeeper-mutation…`, 4.4).

use modgate_api::{config::Process, meta::Operation};
use modgate_value::{Budget, Object, Value};

use super::resources::GROUPS;
use crate::{
    Failure, Host, Review, Skipped, Snapshot,
    gatekeeper::{kind_of, subject_namespace, with_namespace},
    jsonpatch::{self, PatchOperation},
    matching::Source,
    mutation::{Mutated, MutationError, MutationRequest},
};

/// The actions of mutators that did not converge, for the log.
pub(crate) fn unfinished(error: &MutationError) -> Option<Mutated> {
    match error {
        MutationError::NotConverging { run, passes, .. } => {
            let (passes, run) = (passes.clone(), Some(run.clone()));
            Some(Mutated { object: None, iterations: passes.len(), passes, run })
        }
        _ => None,
    }
}

/// Why no mutator runs.
pub(crate) enum Unprepared {
    /// The request does not reach them.
    Skipped(Skipped),
    /// Something is in the way: a denial, whatever the webhook's `failurePolicy` says, unless the
    /// failure is ours.
    Failed(Failure),
}

/// A request that mutators run on.
pub(crate) struct Prepared {
    /// As it was sent.
    sent: Value,
    /// With the namespace of the request.
    object: Value,
    namespace: Option<Value>,
}

impl Prepared {
    /// The steps before the mutators run.
    pub(crate) fn of(
        review: &Review,
        snapshot: &Snapshot,
        host: &dyn Host,
    ) -> Result<Self, Unprepared> {
        let request = review.request();
        let skipped = |why| Err(Unprepared::Skipped(why));
        if snapshot.config().installation.is_own(&request.user_info) {
            return skipped(Skipped::OwnAccount);
        }
        if !request.operation.is_write() {
            return skipped(Skipped::NotWritten);
        }
        let kind = kind_of(request);
        if GROUPS.contains(&kind.group.as_str()) {
            return skipped(Skipped::OwnResource);
        }
        let namespace = subject_namespace(request);
        if snapshot.exclusions().excludes(Process::MutationWebhook, namespace) {
            return skipped(Skipped::Excluded);
        }
        let Some(sent) = request.object.clone().filter(|object| object.as_object().is_some())
        else {
            return Err(Unprepared::Failed(Failure::NoObject));
        };
        let (name, namespace) = if kind.is_namespace() {
            ("", Some(sent.clone()))
        } else if request.namespace.is_empty() {
            ("", None)
        } else {
            match host.namespace(&request.namespace) {
                Ok(namespace) => (request.namespace.as_str(), Some(namespace)),
                Err(error) => return Err(Unprepared::Failed(Failure::MutatorsNamespace(error))),
            }
        };
        let name = Some(Value::from(name)).filter(|_| !name.is_empty());
        let object = with_namespace(&sent, name.as_ref());
        Ok(Self { sent, object, namespace })
    }

    /// The steps of gator, which checks nothing and takes the object as it is.
    pub(crate) fn unchecked(review: &Review) -> Result<Self, Unprepared> {
        if matches!(review.operation(), Some(Operation::Delete | Operation::Connect)) {
            return Err(Unprepared::Skipped(Skipped::NotWritten));
        }
        let object = review.object().cloned().unwrap_or_default();
        let namespace = review.given_namespace().cloned().flatten();
        Ok(Self { sent: object.clone(), object, namespace })
    }

    /// The request to the mutators.
    pub(crate) fn request<'a>(
        &'a self,
        review: &'a Review,
        snapshot: &Snapshot,
        (host, shard): (&'a dyn Host, usize),
        budget: &'a Budget<'a>,
        run_id: &'a dyn Fn() -> String,
    ) -> MutationRequest<'a> {
        MutationRequest {
            shard,
            object: &self.object,
            namespace: self.namespace.as_ref(),
            operation: review.operation(),
            source: Some(Source::Original),
            username: review.username(),
            annotate: snapshot.config().mutators.annotations,
            run_id,
            providers: host.providers(),
            budget,
        }
    }

    /// The changes of the mutators, with the namespace as it was sent: the patch from the object as
    /// sent, and the new object.
    pub(crate) fn change(&self, mutated: &Mutated) -> Option<(Vec<PatchOperation>, Value)> {
        let object = mutated.object.as_ref()?;
        let mut object = with_namespace(object, self.sent.path(&["metadata", "namespace"]));
        let is_empty = |metadata: &Value| metadata.as_object().is_some_and(Object::is_empty);
        if self.sent.get("metadata").is_none()
            && object.get("metadata").is_some_and(is_empty)
            && let Value::Object(members) = &mut object
        {
            members.remove("metadata");
        }
        Some((jsonpatch::diff_exact(&self.sent, &object), object))
    }
}
