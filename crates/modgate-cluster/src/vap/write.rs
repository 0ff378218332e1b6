//! Writing and deleting one object at a time, less and less often where it fails.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use kube::{
    Api, Client, Resource as _,
    api::{ApiResource, DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use modgate_engine::constraint::vap::VapVersion;
use modgate_value::Value;

use super::{
    super::{
        FIELD_MANAGER, LOGGER,
        object::Stored,
        retry::{ContentionBackoff, Retries},
    },
    BINDINGS, POLICIES,
    compare::{Owner, is_same, says_more},
    observed::Observed,
    resource,
};

/// An object of ours.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Policy(String),
    Binding(String),
}

impl Target {
    fn name(&self) -> &str {
        let (Self::Policy(name) | Self::Binding(name)) = self;
        name
    }
}

/// How long to wait after a failure, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(120)];

/// Why an object is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriteFailure {
    pub(super) message: String,
    /// Whether there is one, only another.
    pub(super) existed: bool,
    /// When it is tried again.
    pub(super) again: Instant,
}

/// The written object.
#[derive(Debug)]
struct Written {
    object: Value,
    /// The generation that resulted: the object may keep differing from the one that was written.
    generation: i64,
    /// Against another writer that changes it.
    backoff: ContentionBackoff,
}

impl Written {
    /// The next time, after `before`.
    fn after(before: Option<&Self>, object: &Value, generation: i64, at: Instant) -> Self {
        let mut backoff = ContentionBackoff::default();
        if let Some(before) = before.filter(|before| before.object == *object) {
            backoff = before.backoff;
            backoff.record(at);
        }
        Self { object: object.clone(), generation, backoff }
    }
}

/// Writes policies and bindings, and knows what it wrote.
pub(super) struct Writer {
    client: Client,
    policies: ApiResource,
    bindings: ApiResource,
    written: BTreeMap<Target, Written>,
    /// By what could not be written; none for a deletion.
    refused: Retries<Target, Option<Value>>,
}

impl Writer {
    pub(super) fn new(client: &Client, version: VapVersion) -> Self {
        let [policy, policies] = POLICIES;
        let [binding, bindings] = BINDINGS;
        Self {
            client: client.clone(),
            policies: resource(version, policy, policies),
            bindings: resource(version, binding, bindings),
            written: BTreeMap::new(),
            refused: Retries::new(BACKOFF),
        }
    }

    /// Forgets objects that are not wanted any more.
    pub(super) fn forget(&mut self, keep: impl Fn(&Target) -> bool) {
        self.written.retain(|target, _| keep(target));
        self.refused.retain(|target, _| keep(target));
    }

    /// Makes an object what it should be.
    pub(super) async fn ensure(
        &mut self,
        target: &Target,
        wanted: &Value,
        observed: &mut Observed,
    ) -> Result<(), WriteFailure> {
        let live = observed.get(target);
        let existed = live.is_some();
        if let Some(live) = live {
            let is_settled = |written: &Written| {
                written.object == *wanted && written.generation == generation(live)
            };
            if is_same(wanted, live) || self.written.get(target).is_some_and(is_settled) {
                self.refused.succeeded(target);
                return Ok(());
            }
        }
        let desired = Some(wanted.clone());
        self.may_try(target, &desired, existed)?;
        let before = self.written.get(target);
        let same = before.filter(|before| before.object == *wanted);
        if let Some(again) = same.and_then(|same| same.backoff.until())
            && again > Instant::now()
        {
            let message = "another writer keeps changing it".to_owned();
            return Err(WriteFailure { message, existed, again });
        }
        match self.write(target, wanted, live).await {
            Ok(now) => {
                tracing::info!(target: LOGGER, name = target.name(), "{} written", self.resource(target).kind);
                self.refused.succeeded(target);
                let before = self.written.get(target);
                let written = Written::after(before, wanted, generation(&now), Instant::now());
                self.written.insert(target.clone(), written);
                observed.note(target, Some(now));
                Ok(())
            }
            Err(message) => Err(self.failed(target, desired, existed, message)),
        }
    }

    /// Deletes an object, if it is still the one that was observed.
    pub(super) async fn delete(
        &mut self,
        target: &Target,
        observed: &mut Observed,
    ) -> Result<(), WriteFailure> {
        self.may_try(target, &None, true)?;
        let live = observed.get(target);
        let uid =
            live.and_then(|live| live.path(&["metadata", "uid"])?.as_str().map(str::to_owned));
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid, resource_version: None }),
            ..DeleteParams::background()
        };
        match self.api(target).delete(target.name(), &params).await {
            Ok(_) => {
                tracing::info!(target: LOGGER, name = target.name(), "{} deleted", self.resource(target).kind);
            }
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(self.failed(target, None, true, text(&error))),
        }
        observed.note(target, None);
        self.written.remove(target);
        self.refused.succeeded(target);
        Ok(())
    }

    async fn write(
        &self,
        target: &Target,
        wanted: &Value,
        live: Option<&Value>,
    ) -> Result<Value, String> {
        // The one that is there belongs to a template or constraint of the same name that is gone;
        // applying would make it have two controllers.
        let mut is_left_over = false;
        if let (Some(ours), Some(theirs)) = (Owner::of(wanted), live.and_then(Owner::of)) {
            if !theirs.is_policy() {
                return Err(format!("`{}` exists and belongs to {theirs}", target.name()));
            }
            is_left_over = !theirs.is(&ours);
        }
        if let Some(live) = live.filter(|_| is_left_over) {
            return self.replace(target, wanted, live).await;
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let applied = self.api(target).patch(target.name(), &params, &Patch::Apply(wanted)).await;
        let applied = self.read(target, applied)?;
        // What another manager wrote stays where it is part of a list or of a selector.
        if says_more(wanted, &applied) {
            return self.replace(target, wanted, &applied).await;
        }
        Ok(applied)
    }

    /// Writes the whole object, keeping labels and annotations that others gave it.
    async fn replace(
        &self,
        target: &Target,
        wanted: &Value,
        live: &Value,
    ) -> Result<Value, String> {
        let mut object = wanted.clone();
        if let Value::Object(members) = &mut object
            && let Some(Value::Object(metadata)) = members.get_mut("metadata")
        {
            for key in ["annotations", "labels", "resourceVersion"] {
                if let Some(value) = live.path(&["metadata", key]) {
                    metadata.insert(key, value.clone());
                }
            }
        }
        let path = <Stored>::url_path(self.resource(target), None);
        let params =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let request = Request::new(path)
            .replace(target.name(), &params, object.to_json().into_bytes())
            .map_err(|error| error.to_string())?;
        self.read(target, self.client.request::<Stored>(request).await)
    }

    fn read(&self, target: &Target, written: Result<Stored, kube::Error>) -> Result<Value, String> {
        let stored = written.map_err(|error| text(&error))?;
        stored.of_kind(self.resource(target)).object
    }

    fn resource(&self, target: &Target) -> &ApiResource {
        match target {
            Target::Policy(_) => &self.policies,
            Target::Binding(_) => &self.bindings,
        }
    }

    fn api(&self, target: &Target) -> Api<Stored> {
        Api::all_with(self.client.clone(), self.resource(target))
    }

    fn may_try(
        &self,
        target: &Target,
        wanted: &Option<Value>,
        existed: bool,
    ) -> Result<(), WriteFailure> {
        let now = Instant::now();
        let Some(failure) = self.refused.pending(target, wanted, now) else { return Ok(()) };
        let (message, again) = (failure.reason.clone(), failure.next.unwrap_or(now));
        Err(WriteFailure { message, existed, again })
    }

    fn failed(
        &mut self,
        target: &Target,
        wanted: Option<Value>,
        existed: bool,
        message: String,
    ) -> WriteFailure {
        let kind = &self.resource(target).kind;
        tracing::warn!(target: LOGGER, name = target.name(), error = %message, "{kind} not written, trying again");
        let again = self.refused.failed(target.clone(), wanted, message.clone(), Instant::now());
        WriteFailure { message, existed, again }
    }
}

/// The API server's error, for statuses.
pub(super) fn text(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

fn generation(object: &Value) -> i64 {
    object.path(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_over_one_object_does_not_delay_another() {
        let (ours, other) = (Value::from("ours"), Value::from("other"));
        let now = Instant::now();
        let until = |written: &Written| written.backoff.until().map(|until| until - now);
        let first = Written::after(None, &ours, 1, now);
        assert_eq!(until(&first), None);
        let again = Written::after(Some(&first), &ours, 1, now);
        assert_eq!(until(&again), Some(Duration::from_secs(1)));
        let next = Written::after(Some(&again), &other, 1, now);
        assert_eq!(until(&next), None, "something else is wanted");
    }
}
