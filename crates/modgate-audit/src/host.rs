//! A host that records whether an evaluation depends on anything but its input.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use modgate_engine::{
    Host, HostError,
    admissionpolicy::{Access, Action, Authorizer, Params, Types},
    mutation::{Answers, Providers},
    rego::builtins,
    template::{self, Refused},
};
use modgate_value::{Clock, Str, Value};

/// The host `inner`; an evaluation that asked it for anything that can change by itself must be
/// done again each time.
///
/// Policies are pure functions of what they are given, and all that is not given to them they get
/// from a host. So nothing needs to be known about built-ins, templates or mutators.
pub(crate) struct RecordingHost<'h> {
    inner: &'h dyn Host,
    asked: Cell<bool>,
    /// When evaluation is cut short, which depends on the machine.
    deadline: Cell<Duration>,
}

impl<'h> RecordingHost<'h> {
    pub(crate) fn new(inner: &'h dyn Host) -> Self {
        Self { inner, asked: Cell::new(false), deadline: Cell::new(Duration::MAX) }
    }

    /// Whether a policy used it since the last time.
    pub(crate) fn take_asked(&self) -> bool {
        self.asked.replace(false)
    }

    /// An evaluation may take this long from now.
    pub(crate) fn allow(&self, time: Duration) {
        self.deadline.set(self.inner.clock().now().saturating_add(time));
    }

    fn ask(&self) -> &'h dyn Host {
        self.asked.set(true);
        self.inner
    }
}

impl Clock for RecordingHost<'_> {
    fn now(&self) -> Duration {
        let now = self.inner.clock().now();
        if now >= self.deadline.get() {
            self.asked.set(true);
        }
        now
    }
}

impl Host for RecordingHost<'_> {
    fn clock(&self) -> &dyn Clock {
        self
    }

    /// The caller that keeps results compares Namespaces itself.
    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        self.inner.namespace(name)
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        self.ask().node(name)
    }

    /// The caller that keeps results compares their versions itself.
    fn parameters(&self) -> &dyn Params {
        self.inner.parameters()
    }

    fn types(&self) -> &Types {
        self.inner.types()
    }

    fn authorizer(&self) -> &dyn Authorizer {
        self
    }

    fn templates(&self) -> &dyn template::Host {
        self
    }

    fn policies(&self) -> &dyn builtins::Host {
        self
    }

    fn providers(&self) -> &dyn Providers {
        self
    }
}

impl fmt::Debug for RecordingHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingHost").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl Authorizer for RecordingHost<'_> {
    fn decide(&self, action: &Action<'_>) -> Result<Access, String> {
        self.ask().authorizer().decide(action)
    }
}

impl template::Host for RecordingHost<'_> {
    fn now(&self) -> Result<Duration, Refused> {
        self.ask().templates().now()
    }

    fn random_bytes(&self, out: &mut [u8]) -> Result<(), Refused> {
        self.ask().templates().random_bytes(out)
    }

    fn resolve_host(&self, name: &str) -> Result<Option<String>, Refused> {
        self.ask().templates().resolve_host(name)
    }

    fn local_zone(&self) -> &str {
        self.inner.templates().local_zone()
    }
}

impl builtins::Host for RecordingHost<'_> {
    fn now_ns(&self) -> Option<i64> {
        self.ask().policies().now_ns()
    }

    fn random(&self) -> Option<u64> {
        self.ask().policies().random()
    }

    fn print(&self, text: &str) {
        self.inner.policies().print(text);
    }

    fn trace(&self, note: &str) {
        self.inner.policies().trace(note);
    }

    fn call(&self, name: &str, args: &[Value]) -> Option<Result<Value, String>> {
        self.ask().policies().call(name, args)
    }
}

impl Providers for RecordingHost<'_> {
    fn ask(&self, keys: &BTreeMap<Str, BTreeSet<Str>>) -> Result<Answers, String> {
        RecordingHost::ask(self).providers().ask(keys)
    }
}
