//! The host of one review: the policy set's objects, and external data.

use std::time::Duration;

use modgate_engine::{
    Host, HostError,
    admissionpolicy::{Authorizer, Params, Types},
    mutation,
    provider::{FUNCTION, external_data},
    rego::builtins,
    template,
};
use modgate_value::{Clock, Value};

use super::ProviderSession;

/// The host `inner`, with external data and a clock that does not count the time spent on waiting
/// for it.
pub struct ProviderHost<'h> {
    inner: &'h dyn Host,
    /// `None` when external data is off.
    asking: Option<ProviderSession<'h>>,
}

impl<'h> ProviderHost<'h> {
    /// A host for one review.
    pub fn new(inner: &'h dyn Host, asking: Option<ProviderSession<'h>>) -> Self {
        Self { inner, asking }
    }
}

impl Host for ProviderHost<'_> {
    fn parameters(&self) -> &dyn Params {
        self.inner.parameters()
    }

    fn types(&self) -> &Types {
        self.inner.types()
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self.inner.authorizer()
    }

    fn clock(&self) -> &dyn Clock {
        match &self.asking {
            Some(asking) => asking,
            None => self.inner.clock(),
        }
    }

    fn uptime(&self) -> Duration {
        self.inner.uptime()
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

impl builtins::Host for ProviderHost<'_> {
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

impl std::fmt::Debug for ProviderHost<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProviderHost").field("asking", &self.asking).finish_non_exhaustive()
    }
}
