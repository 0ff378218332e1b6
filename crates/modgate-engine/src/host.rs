//! What the engine needs from outside.

use modgate_rego::builtins;
use modgate_template as template;
use modgate_value::{Clock, Value};

use crate::mutation::{NoProviders, Providers};

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

    /// Where mutators get external data; by default none can be asked.
    fn providers(&self) -> &dyn Providers {
        &NoProviders
    }
}

/// Why the host could not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HostError(pub String);
