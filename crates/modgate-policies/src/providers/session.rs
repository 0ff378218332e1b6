//! How an evaluation, which is synchronous, gets answers, which are not.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, mpsc},
    time::Duration,
};

use modgate_engine::{
    mutation::{Answer, Answers, NO_CLIENT_CERTIFICATE},
    provider::{ExternalData, Responses, Unanswered},
};
use modgate_value::{Clock, Str};
use tokio::time::Instant;

use super::{
    LOGGER, Providers,
    call::{Answered, Endpoint},
    now,
};
use crate::blocking::{Permit, wait_without};

/// How much longer than its deadline a call is waited for; its own error is the better one.
const GRACE: Duration = Duration::from_millis(250);

/// The session of one review with providers.
#[derive(Debug)]
pub struct ProviderSession<'p> {
    providers: Arc<Providers>,
    began: Instant,
    deadline: Instant,
    waited: Cell<Duration>,
    permit: Option<&'p dyn Permit>,
}

impl<'p> ProviderSession<'p> {
    pub(super) fn new(providers: Arc<Providers>, deadline: Instant) -> Self {
        Self { providers, began: Instant::now(), deadline, waited: Cell::default(), permit: None }
    }

    /// Gives this permit back while it waits for answers.
    #[must_use]
    pub fn yielding(self, permit: &'p dyn Permit) -> Self {
        Self { permit: Some(permit), ..self }
    }

    /// How long answers have been waited for so far.
    pub fn waited(&self) -> Duration {
        self.waited.get()
    }

    /// Starts a call.
    fn call(&self, endpoint: Arc<Endpoint>, keys: Vec<Str>) -> Call {
        let (reply, answer) = mpsc::sync_channel(1);
        let name = endpoint.provider.name().clone();
        let Ok(permit) = Arc::clone(&self.providers.calls).try_acquire_owned() else {
            let _ = reply.send(Err("failed to send external data request: too many calls are \
                                    under way"
                .to_owned()));
            return Call { name, answer };
        };
        let deadline = self.deadline;
        self.providers.runtime.spawn(async move {
            let answered = endpoint.ask(&keys, deadline).await;
            drop(permit);
            if let Err(reason) = &answered {
                let provider = endpoint.provider.name();
                tracing::warn!(target: LOGGER, %provider, reason, "no external data");
            }
            // The receiver is gone if the review has timed out.
            let _ = reply.send(answered);
        });
        Call { name, answer }
    }

    /// Waits for calls, all of which are under way.
    fn wait(&self, calls: &[Call]) -> Vec<(Str, Answered)> {
        let began = Instant::now();
        let until = self.deadline + GRACE;
        let collect = || {
            calls
                .iter()
                .map(|Call { name, answer }| {
                    let left = until.saturating_duration_since(Instant::now());
                    let answered = answer.recv_timeout(left).unwrap_or_else(|_| {
                        Err("failed to send external data request: no answer before the deadline"
                            .to_owned())
                    });
                    (name.clone(), answered)
                })
                .collect()
        };
        let answers = wait_without(self.permit, until, collect);
        self.waited.set(self.waited.get() + began.elapsed());
        answers
    }
}

/// A call that is under way.
struct Call {
    name: Str,
    answer: mpsc::Receiver<Answered>,
}

/// Rego's `external_data` (6.4).
impl ExternalData for ProviderSession<'_> {
    fn query(&self, provider: &str, keys: &[Str]) -> Result<Responses, Unanswered> {
        let (mut items, unknown) = match &self.providers.cache {
            Some(cache) => cache.look_up(provider, keys, now()),
            None => (Vec::new(), keys.to_vec()),
        };
        if unknown.is_empty() {
            return Ok(Responses { items, ..Responses::default() });
        }
        let endpoint =
            self.providers.endpoint(provider).ok_or_else(Unanswered::unknown_provider)?;
        if self.providers.identity.is_none() {
            return Err(Unanswered::refused(NO_CLIENT_CERTIFICATE));
        }
        let call = self.call(Arc::clone(&endpoint), unknown);
        let (_, answered) = self.wait(&[call]).pop().ok_or_else(Unanswered::unknown_provider)?;
        let (answer, status) = answered.map_err(Unanswered::failed)?;
        self.providers.remember(&endpoint, &answer);
        let Answer { system_error, items: new, .. } = answer;
        items.extend(new);
        Ok(Responses { items, status, system_error })
    }
}

/// Mutators (6.5): always asked, never cached.
impl modgate_engine::mutation::Providers for ProviderSession<'_> {
    fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        if self.providers.identity.is_none() {
            return Err(NO_CLIENT_CERTIFICATE.to_owned());
        }
        let calls = keys
            .iter()
            .filter_map(|(name, keys)| {
                let endpoint = self.providers.endpoint(name)?;
                Some(self.call(endpoint, keys.iter().cloned().collect()))
            })
            .collect::<Vec<_>>();
        let answers = self.wait(&calls).into_iter();
        Ok(answers
            .map(|(name, answered)| (name, answered.map(|(answer, _status)| answer)))
            .collect())
    }
}

/// Stands still while answers are waited for: an evaluation's budget is for its own work, waiting
/// has a deadline of its own.
impl Clock for ProviderSession<'_> {
    fn now(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.waited.get())
    }
}
