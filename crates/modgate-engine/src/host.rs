//! What the engine needs from outside.

use std::time::Duration;

use modgate_rego::builtins;
use modgate_template as template;
use modgate_value::{Budget, Clock, Limits, Value};

use crate::{
    cost::{Meter, Statistics},
    mutation::{NoProviders, Providers},
};

/// The world as the engine may see it; implemented by the edge, and by tests.
pub trait Host {
    /// Measures budgets.
    fn clock(&self) -> &dyn Clock;

    /// The Namespace object called `name`.
    ///
    /// # Errors
    ///
    /// When it does not exist or cannot be read.
    fn namespace(&self, name: &str) -> Result<Value, HostError>;

    /// The Node object called `name`.
    ///
    /// # Errors
    ///
    /// When it does not exist or cannot be read.
    fn node(&self, name: &str) -> Result<Value, HostError>;

    /// Whether the Namespace called `name` is made up: no file describes it, and no cluster can be
    /// asked.
    fn assumes_namespace(&self, _name: &str) -> bool {
        false
    }

    /// The clock, randomness and names that templates may ask for; by default they get
    /// none, and the functions that need them fail.
    fn templates(&self) -> &dyn template::Host {
        &template::Isolated
    }

    /// What Rego's built-ins may ask of the outside: time, randomness, external data; by default
    /// they get nothing, and those that need it are undefined.
    fn policies(&self) -> &dyn builtins::Host {
        &builtins::Isolated
    }

    /// Time since some moment before the first evaluation: one clock for all of them, while that of
    /// budgets may be this evaluation's own.
    fn uptime(&self) -> Duration {
        self.clock().now()
    }

    /// Which counters to use for what policies cost: threads that work at the same time best say
    /// different numbers.
    fn lane(&self) -> usize {
        0
    }

    /// Where to keep what each constraint of this review took, if anybody wants to know.
    fn statistics(&self) -> Option<&Statistics> {
        None
    }

    /// How long whoever asks will still wait for the answer; `None` when that is not known.
    fn time_left(&self) -> Option<Duration> {
        None
    }

    /// Where mutators get external data; by default none can be asked.
    fn providers(&self) -> &dyn Providers {
        &NoProviders
    }
}

/// Where the costs of a review are counted.
pub(crate) fn meter(host: &dyn Host) -> Meter<'_> {
    Meter { lane: host.lane(), statistics: host.statistics(), uptime: Some(host.uptime()) }
}

/// A budget that ends in time for the answer (EV-50).
pub(crate) fn budget(limits: Limits, host: &dyn Host) -> Budget<'_> {
    let time = host.time_left().map_or(limits.time, |left| left.min(limits.time));
    Budget::new(Limits { time, ..limits }, host.clock())
}

/// Why the host has no object to give.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// There is no such object.
    #[error("{0}")]
    NotFound(String),
    /// Whether there is one is not known: the API server failed, or did not answer in time.
    #[error("{0}")]
    Unread(String),
}
