//! The world as one review sees it, external data included.

use std::time::{Duration, Instant};

use modgate_engine::{
    Host, HostError,
    cost::Statistics,
    mutation,
    provider::{FUNCTION, external_data},
    rego::builtins,
    template,
};
use modgate_value::{Clock, Value};

use super::Asking;

/// What it takes to write an answer and send it.
const TO_ANSWER: Duration = Duration::from_millis(50);

/// What `inner` knows, with external data and a clock that does not count the time spent on waiting
/// for it.
pub struct WithProviders<'h> {
    inner: &'h dyn Host,
    /// `None` when external data is off.
    asking: Option<Asking<'h>>,
    /// When whoever asks stops waiting.
    deadline: Option<Instant>,
    /// What each constraint took, if that is asked for.
    statistics: Option<Statistics>,
}

impl<'h> WithProviders<'h> {
    /// A host for one review.
    pub fn new(inner: &'h dyn Host, asking: Option<Asking<'h>>) -> Self {
        Self { inner, asking, deadline: None, statistics: None }
    }

    /// Ends evaluation in time for an answer at `deadline`.
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Keeps what each constraint takes, if `asked`.
    #[must_use]
    pub fn counting(self, asked: bool) -> Self {
        Self { statistics: asked.then(Statistics::default), ..self }
    }
}

impl Host for WithProviders<'_> {
    fn clock(&self) -> &dyn Clock {
        match &self.asking {
            Some(asking) => asking,
            None => self.inner.clock(),
        }
    }

    fn uptime(&self) -> Duration {
        self.inner.uptime()
    }

    fn lane(&self) -> usize {
        self.inner.lane()
    }

    fn statistics(&self) -> Option<&Statistics> {
        self.statistics.as_ref()
    }

    fn time_left(&self) -> Option<Duration> {
        let left = self.deadline?.saturating_duration_since(Instant::now());
        Some(left.saturating_sub(TO_ANSWER))
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        self.inner.namespace(name)
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.inner.node(name)
    }

    fn assumes_namespace(&self, name: &str) -> bool {
        self.inner.assumes_namespace(name)
    }

    fn templates(&self) -> &dyn template::Host {
        self.inner.templates()
    }

    fn policies(&self) -> &dyn builtins::Host {
        self
    }

    fn providers(&self) -> &dyn mutation::Providers {
        match &self.asking {
            Some(asking) => asking,
            None => self.inner.providers(),
        }
    }
}

impl builtins::Host for WithProviders<'_> {
    fn now_ns(&self) -> Option<i64> {
        self.inner.policies().now_ns()
    }

    fn random(&self) -> Option<u64> {
        self.inner.policies().random()
    }

    fn print(&self, text: &str) {
        self.inner.policies().print(text);
    }

    fn trace(&self, note: &str) {
        self.inner.policies().trace(note);
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        match &self.asking {
            Some(asking) if name == FUNCTION => Some(external_data(args, asking)),
            _ => self.inner.policies().call(name, args),
        }
    }
}

impl std::fmt::Debug for WithProviders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WithProviders").field("asking", &self.asking).finish_non_exhaustive()
    }
}
