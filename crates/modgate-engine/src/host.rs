//! The engine's interface to the outside.

use std::time::Duration;

use modgate_rego::builtins;
use modgate_template as template;
use modgate_value::{Clock, Value};

use crate::{
    admissionpolicy::{Authorizer, NoAuthorizer, NoParams, Params, Types},
    mutation::{NoProviders, Providers},
};

/// The facts outside of a request that the engine may read. The edge and tests implement it.
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

    /// The host of Rego's built-ins: time, randomness, external data; by default
    /// they get nothing, and those that need it are undefined.
    fn policies(&self) -> &dyn builtins::Host {
        &builtins::Isolated
    }

    /// Time since some moment before the first evaluation: one clock for all of them, while that of
    /// budgets may be this evaluation's own.
    fn uptime(&self) -> Duration {
        self.clock().now()
    }

    /// The objects that bindings of the cluster's own policies pass; by default there are none.
    fn parameters(&self) -> &dyn Params {
        &NoParams
    }

    /// The types of the objects that the cluster's own policies change; by default those of Kubernetes'
    /// own kinds.
    fn types(&self) -> &Types {
        Types::kubernetes()
    }

    /// The answers of `authorizer` in the cluster's own policies; by default it does not know.
    fn authorizer(&self) -> &dyn Authorizer {
        &NoAuthorizer
    }

    /// The source of external data for mutators; by default there is none.
    fn providers(&self) -> &dyn Providers {
        &NoProviders
    }
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
