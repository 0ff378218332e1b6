//! A set of policies, evaluated repeatably.

use std::{cell::Cell, time::Duration};

use modgate_engine::{
    Decision, Evaluation, Host, HostError, Observer, Review, Snapshot, Stages,
    admissionpolicy::{Authorizer, Params, Types},
    constraint::{Arena, Inventory},
    mutation::Providers,
    rego::builtins,
    template::{self, Refused},
};
use modgate_value::{Clock, Value};

/// Policies, and what they see.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    /// The policies.
    pub snapshot: &'a Snapshot,
    /// The facts outside of a request that they read. Its time and its randomness are not used.
    pub host: &'a (dyn Host + Sync),
    /// The documents under `data.inventory`.
    pub inventory: &'a Inventory,
}

impl Side<'_> {
    /// Decides a request. Policies get the same time and the same random numbers for every request, so
    /// that two decisions differ only if the policies or the requests do.
    pub fn decide<O: Observer>(
        &self,
        review: &Review,
        stages: Stages,
        arena: &mut Arena,
        observer: &mut O,
    ) -> Decision {
        repeatably(self.host, NOW, |host| {
            let mut evaluation = Evaluation::new(host, self.inventory, arena);
            self.snapshot.decide(review, stages, &mut evaluation, observer)
        })
    }
}

/// Evaluates something with a host whose time stands still, so long after the epoch, and whose random numbers are always
/// the same. Everything else comes from `host`.
pub fn repeatably<T>(host: &dyn Host, now: Duration, evaluate: impl FnOnce(&dyn Host) -> T) -> T {
    evaluate(&Repeatable { host, now, state: Cell::new(0x9e37_79b9_7f4a_7c15) })
}

/// 2026-01-01T00:00:00Z.
const NOW: Duration = Duration::from_secs(1_767_225_600);

/// A host whose time stands still and whose randomness repeats.
struct Repeatable<'a> {
    host: &'a dyn Host,
    now: Duration,
    state: Cell<u64>,
}

impl Repeatable<'_> {
    fn next(&self) -> u64 {
        let next = step(self.state.get());
        self.state.set(next);
        next
    }
}

/// The next number after `state` (xorshift64).
pub(crate) fn step(mut state: u64) -> u64 {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    state
}

impl Host for Repeatable<'_> {
    fn clock(&self) -> &dyn Clock {
        self.host.clock()
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        self.host.namespace(name)
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.host.node(name)
    }

    fn assumes_namespace(&self, name: &str) -> bool {
        self.host.assumes_namespace(name)
    }

    fn templates(&self) -> &dyn template::Host {
        self
    }

    fn policies(&self) -> &dyn builtins::Host {
        self
    }

    fn parameters(&self) -> &dyn Params {
        self.host.parameters()
    }

    fn types(&self) -> &Types {
        self.host.types()
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self.host.authorizer()
    }

    fn providers(&self) -> &dyn Providers {
        self.host.providers()
    }
}

impl template::Host for Repeatable<'_> {
    fn now(&self) -> Result<Duration, Refused> {
        Ok(self.now)
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        for byte in out {
            *byte = self.next().to_le_bytes()[0];
        }
        Ok(())
    }

    fn resolve_host(&self, name: &str) -> Result<Option<String>, Refused> {
        self.host.templates().resolve_host(name)
    }

    fn local_zone(&self) -> &str {
        self.host.templates().local_zone()
    }
}

impl builtins::Host for Repeatable<'_> {
    fn now_ns(&self) -> Option<i64> {
        i64::try_from(self.now.as_nanos()).ok()
    }

    fn random(&self) -> Option<u64> {
        Some(self.next())
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        self.host.policies().call(name, args)
    }
}
