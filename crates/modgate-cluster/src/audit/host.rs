//! The host of policies during an audit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use modgate_engine::{
    Host, HostError,
    admissionpolicy::Params,
    mutation::{Answers, Providers as Asks},
    provider::{FUNCTION, external_data},
    rego::builtins,
    template,
};
use modgate_policies::{Objects, Providers};
use modgate_value::{Clock, Str, Value};

/// How long a provider may take for one question.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) struct AuditHost {
    objects: Objects,
    providers: Option<Arc<Providers>>,
}

impl AuditHost {
    pub(super) fn new(objects: Objects, providers: Option<Arc<Providers>>) -> Self {
        Self { objects, providers }
    }
}

impl Host for AuditHost {
    fn parameters(&self) -> &dyn Params {
        self.objects.parameters()
    }

    fn clock(&self) -> &dyn Clock {
        self.objects.clock()
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        self.objects.namespace(name)
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.objects.node(name)
    }

    fn templates(&self) -> &dyn template::Host {
        self.objects.templates()
    }

    fn policies(&self) -> &dyn builtins::Host {
        self
    }

    fn providers(&self) -> &dyn Asks {
        self
    }
}

impl builtins::Host for AuditHost {
    fn now_ns(&self) -> Option<i64> {
        self.objects.policies().now_ns()
    }

    fn random(&self) -> Option<u64> {
        self.objects.policies().random()
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        match &self.providers {
            Some(providers) if name == FUNCTION => {
                let deadline = tokio::time::Instant::now() + PROVIDER_TIMEOUT;
                Some(external_data(args, &providers.asking(deadline)))
            }
            _ => self.objects.policies().call(name, args),
        }
    }
}

impl Asks for AuditHost {
    fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        match &self.providers {
            Some(providers) => {
                let deadline = tokio::time::Instant::now() + PROVIDER_TIMEOUT;
                providers.asking(deadline).ask(keys)
            }
            None => self.objects.providers().ask(keys),
        }
    }
}
