//! Where violations go beside the report: logs, exports, events.

use std::sync::Arc;

use modgate_engine::api::constraints::EnforcementAction;
use modgate_value::Value;

use crate::{
    reference::{ObjectRef, PolicyRef},
    violation::Violation,
};

/// Takes the violations of audits as they are found, each once per audit.
///
/// An audit calls [`started`](Self::started), then [`violation`](Self::violation) from one thread at
/// a time in no particular order, then [`finished`](Self::finished); that is left out if the audit is
/// interrupted. An audit that is resumed has its old name, starts again, and reports some
/// violations: [`Violation::id`] says which are the same.
///
/// Nothing is buffered in front of a sink: one that takes its time holds up the audit, which keeps
/// its memory bounded. Failures are the sink's to report.
pub trait Sink: Send + Sync {
    /// The audit of this name (RFC 3339, seconds) begins.
    fn started(&self, audit: &str) {
        let _ = audit;
    }

    /// Whether it wants violations now; it may get them even if not.
    ///
    /// An audit that keeps results counts violations without reading their words. Where no sink wants
    /// them, only those that the report lists are read.
    fn wants_violations(&self) -> bool {
        true
    }

    /// The whole object of the violations after this one. Audits that keep results do not
    /// have it.
    fn object(&self, subject: &Arc<ObjectRef>, object: &Value) {
        let _ = (subject, object);
    }

    /// Something is not as it should be.
    fn violation(&self, audit: &str, violation: &Violation);

    /// The audit is complete: every violation was reported.
    fn finished(&self, audit: &str) {
        let _ = audit;
    }
}

/// Makes a text of each violation, such as a line of a log, on several threads.
///
/// The part that texts about a policy or an object have in common is asked for once, and handed in for each of them.
pub trait Texts: Sync {
    /// The beginning of some texts that are made now.
    fn start(&self) -> String;

    /// The share of a policy: with its `enforcementAction`, and what that leads to, which is shown for scoped constraints.
    fn policy(&self, policy: &PolicyRef, action: &str, scoped: &[EnforcementAction]) -> String;

    /// The share of an object.
    fn object(&self, subject: &ObjectRef) -> String;

    /// Adds the text of a violation; `shares` are those of the three above.
    fn violation(&self, shares: [&str; 3], violation: &Told<'_>, out: &mut String);
}

/// A violation, but for its policy.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a> {
    /// The object.
    pub subject: &'a ObjectRef,
    /// As that of [`Violation`].
    pub message: &'a str,
    /// The JSON of its details.
    pub details: &'a str,
}

/// Several sinks, one after the other.
impl Sink for Vec<Arc<dyn Sink>> {
    fn started(&self, audit: &str) {
        self.iter().for_each(|sink| sink.started(audit));
    }

    fn wants_violations(&self) -> bool {
        self.iter().any(|sink| sink.wants_violations())
    }

    fn violation(&self, audit: &str, violation: &Violation) {
        self.iter().for_each(|sink| sink.violation(audit, violation));
    }

    fn finished(&self, audit: &str) {
        self.iter().for_each(|sink| sink.finished(audit));
    }
}
