//! The last decisions, in memory.
//!
//! Three rings, so that what is allowed does not push out what is denied. Counts are of all decisions. Of
//! many in a second a sample is kept whole ([`sampling`]); the last denial of a namespace outlives its ring
//! ([`lasting`]).

mod entry;
mod lasting;
mod sampling;
mod secrets;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use modgate_engine::{
    Decision, PolicyId, Rejection, Review, Stages,
    admissionpolicy::Denial,
    api::{
        constraints::{self, EnforcementAction},
        modrule,
        secrets::{NOT_SHOWN, SecretValues},
    },
};
use modgate_policies::PolicySet;
use modgate_value::{Str, Value};

pub(crate) use self::entry::{Counts, Entry, LastDenial, Outcome, Part, time_of};
use self::{lasting::Lasting, sampling::Sampling, secrets::Secrets};
use crate::cut::cut;

/// Bytes of the text of an answer, of another text, and of a name.
const MESSAGE_BYTES: usize = 4 << 10;
const TEXT_BYTES: usize = 1 << 10;
const NAME_BYTES: usize = 253;
/// Warnings, and policies or changes, of one decision.
const MAX_WARNINGS: usize = 20;
const MAX_PARTS: usize = 50;
/// The largest request that is kept for an explanation, in bytes.
const MAX_REQUEST: usize = 256 << 10;
/// A request takes more memory than its text.
const REQUEST_FACTOR: usize = 4;
/// The size of an entry beside its texts.
const ENTRY_BYTES: usize = 600;
/// Namespaces and policies that are counted by name.
const MAX_NAMESPACES: usize = 1_000;
const MAX_POLICIES: usize = 5_000;
/// Stands for the other namespaces.
const OTHERS: &str = "(others)";

/// The bounds of a ring: entries, and bytes.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    entries: usize,
    bytes: usize,
}

/// For what is denied, warned about or undecided; for what is changed; for what is allowed.
const BOUNDS: [Bounds; 3] = [
    Bounds { entries: 1_000, bytes: 6 << 20 },
    Bounds { entries: 500, bytes: 4 << 20 },
    Bounds { entries: 500, bytes: 2 << 20 },
];
/// For the last denial of each namespace.
const LASTING: Bounds = Bounds { entries: MAX_NAMESPACES, bytes: 4 << 20 };

/// The last decisions, and counts of all.
#[derive(Debug)]
pub struct Decisions {
    /// When they began.
    since: SystemTime,
    kept: Mutex<Kept>,
    secrets: Secrets,
}

impl Default for Decisions {
    fn default() -> Self {
        Self { since: SystemTime::now(), kept: Mutex::default(), secrets: Secrets::default() }
    }
}

/// A decision that is kept.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) entry: Entry,
    /// The request, to explain it.
    pub(crate) request: Option<(Review, Stages)>,
    bytes: usize,
}

/// Kind, namespace and name.
pub(crate) type PolicyName = (Str, Str, Str);

#[derive(Debug, Default)]
struct Kept {
    last: u64,
    rings: [Ring; 3],
    counts: Counts,
    namespaces: BTreeMap<Str, OfNamespace>,
    policies: BTreeMap<PolicyName, OfPolicy>,
    sampling: Sampling,
    lasting: Lasting,
}

/// The part of a policy in a decision, before it is known whether that is kept.
struct PolicyPart<'a> {
    group: &'static str,
    policy: PolicyName,
    action: &'static str,
    message: &'a str,
}

impl PolicyPart<'_> {
    fn id(&self) -> PolicyId {
        let (kind, namespace, name) = self.policy.clone();
        PolicyId { group: self.group.into(), kind, namespace, name }
    }
}

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<Arc<Noted>>,
    bytes: usize,
}

/// The decisions about a namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfNamespace {
    pub(crate) counts: Counts,
    pub(crate) last_denial: Option<LastDenial>,
}

/// The decisions that a policy has a part in.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfPolicy {
    pub(crate) denials: u64,
    pub(crate) warnings: u64,
    pub(crate) last_denial: Option<LastDenial>,
}

/// A request that was decided.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decided<'a> {
    /// The path of the webhook.
    pub(crate) webhook: &'static str,
    /// The stages that ran; `None` if it was not policies that decided.
    pub(crate) stages: Option<Stages>,
    /// The policies in force.
    pub(crate) policies: &'a Arc<PolicySet>,
    pub(crate) review: &'a Review,
    pub(crate) decision: &'a Decision,
    pub(crate) took: Duration,
    /// Bytes of the request.
    pub(crate) bytes: usize,
}

/// The decisions to list. Empty and `None` stand for all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) before: Option<u64>,
}

impl Decisions {
    /// Counts a decision, and keeps it or not. A request that no API server sends leaves no trace.
    pub(crate) fn observe(&self, decided: Decided<'_>) {
        if decided.review.request().implausible().is_some() {
            return;
        }
        let outcome = outcome(decided.decision);
        let found = found(decided.decision);
        let namespace = Str::from(cut(decided.review.store_namespace(), NAME_BYTES));
        if !self.kept().count(outcome, &namespace, &found) {
            return;
        }
        // Other decisions do not wait for the copies that this one takes.
        let reads_secrets = found.iter().any(|it| decided.policies.reads_secrets(&it.id()));
        let hidden = reads_secrets.then(|| self.secrets.of(decided.policies));
        let noted = noted(outcome, found, decided, hidden.as_deref());
        self.kept().keep(namespace, noted);
    }

    /// When they began.
    pub(crate) fn since(&self) -> SystemTime {
        self.since
    }

    /// Counts of all decisions, and the number of those that are kept.
    pub(crate) fn counts(&self) -> (Counts, usize) {
        let kept = self.kept();
        (kept.counts, kept.rings.iter().map(|ring| ring.entries.len()).sum())
    }

    /// The namespaces of decisions, by name.
    pub(crate) fn namespaces(&self) -> BTreeMap<Str, OfNamespace> {
        self.kept().namespaces.clone()
    }

    /// The policies that had a part in decisions.
    pub(crate) fn policies(&self) -> BTreeMap<PolicyName, OfPolicy> {
        self.kept().policies.clone()
    }

    /// The number of the newest that is kept; 0 if there is none.
    pub(crate) fn newest(&self) -> u64 {
        let kept = self.kept();
        let newest = kept.rings.iter().filter_map(|ring| ring.entries.back());
        newest.map(|noted| noted.entry.id).max().unwrap_or_default()
    }

    /// The time of the oldest that is kept.
    pub(crate) fn oldest(&self) -> Option<String> {
        let kept = self.kept();
        let oldest = kept.rings.iter().filter_map(|ring| ring.entries.front());
        oldest.min_by_key(|noted| noted.entry.id).map(|noted| noted.entry.time.clone())
    }

    /// Those that pass a filter, newest first.
    pub(crate) fn matching(&self, filter: &Filter) -> Vec<Arc<Noted>> {
        let mut all: Vec<_> = {
            let kept = self.kept();
            let rings = kept.rings.iter().flat_map(|ring| &ring.entries);
            rings.chain(kept.lasting.all()).cloned().collect()
        };
        all.retain(|noted| filter.admits(&noted.entry));
        all.sort_by_key(|noted| std::cmp::Reverse(noted.entry.id));
        all.dedup_by_key(|noted| noted.entry.id);
        all
    }

    /// The one with this number, if it is still kept.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Noted>> {
        let kept = self.kept();
        let of_rings = kept.rings.iter().find_map(|ring| {
            let at = ring.entries.binary_search_by_key(&id, |noted| noted.entry.id).ok()?;
            ring.entries.get(at).cloned()
        });
        of_rings.or_else(|| kept.lasting.all().find(|noted| noted.entry.id == id).cloned())
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Counts a decision. Returns whether to keep it.
    fn count(&mut self, outcome: Outcome, namespace: &Str, found: &[PolicyPart<'_>]) -> bool {
        self.counts.add(outcome);
        self.of_namespace(namespace).counts.add(outcome);
        for found in found {
            let Some(of_policy) = self.of_policy(&found.policy) else { continue };
            match found.action {
                "deny" | "reject" if outcome == Outcome::Denied => of_policy.denials += 1,
                "warn" | "reject" => of_policy.warnings += 1,
                _ => {}
            }
        }
        self.sampling.takes(outcome, namespace, found)
    }

    /// Keeps a decision.
    fn keep(&mut self, namespace: Str, mut noted: Noted) {
        self.last += 1;
        noted.entry.id = self.last;
        let noted = Arc::new(noted);
        if noted.entry.outcome == Outcome::Denied {
            self.note_denial(&namespace, &noted.entry);
            self.lasting.keep(namespace, &noted, LASTING);
        }
        let ring = match noted.entry.outcome {
            Outcome::Denied | Outcome::Undecided | Outcome::Warned => 0,
            Outcome::Patched => 1,
            Outcome::Allowed => 2,
        };
        if let (Some(ring), Some(bounds)) = (self.rings.get_mut(ring), BOUNDS.get(ring)) {
            ring.push(noted, *bounds);
        }
    }

    fn of_namespace(&mut self, name: &Str) -> &mut OfNamespace {
        let is_full =
            self.namespaces.len() >= MAX_NAMESPACES && !self.namespaces.contains_key(name);
        let name = if is_full { OTHERS.into() } else { name.clone() };
        self.namespaces.entry(name).or_default()
    }

    fn of_policy(&mut self, name: &PolicyName) -> Option<&mut OfPolicy> {
        if self.policies.len() >= MAX_POLICIES && !self.policies.contains_key(name) {
            return None;
        }
        Some(self.policies.entry(name.clone()).or_default())
    }

    fn note_denial(&mut self, namespace: &Str, entry: &Entry) {
        let denial = |message: &str| LastDenial {
            id: entry.id,
            time: entry.time.clone(),
            kind: entry.kind.clone(),
            namespace: entry.namespace.clone(),
            name: entry.name.clone(),
            message: message.to_owned(),
        };
        self.of_namespace(namespace).last_denial = Some(denial(&entry.message));
        for part in entry.policies.iter().filter(|it| matches!(it.action, "deny" | "reject")) {
            let name = (part.kind.clone(), part.namespace.clone(), part.name.clone());
            if let Some(of_policy) = self.of_policy(&name) {
                of_policy.last_denial = Some(denial(&part.message));
            }
        }
    }
}

impl Ring {
    fn push(&mut self, noted: Arc<Noted>, bounds: Bounds) {
        self.bytes += noted.bytes;
        self.entries.push_back(noted);
        while self.entries.len() > bounds.entries || self.bytes > bounds.bytes {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= oldest.bytes;
        }
    }
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, text: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == text)
        };
        let has_part = |wanted: &String| {
            entry.policies.iter().any(|part| {
                let (kind, namespace, name) = (&part.kind, &part.namespace, &part.name);
                modgate_review::explain::is_named(wanted, kind, namespace, name)
            })
        };
        is(&self.namespace, &entry.namespace)
            && is(&self.kind, &entry.kind)
            && is(&self.name, &entry.name)
            && is(&self.uid, &entry.uid)
            && self.policy.as_ref().is_none_or(has_part)
            && (self.outcomes.is_empty() || self.outcomes.contains(&entry.outcome))
            && self.before.is_none_or(|before| entry.id < before)
    }
}

fn outcome(decision: &Decision) -> Outcome {
    match decision.allowed {
        _ if decision.is_undecided() => Outcome::Undecided,
        false => Outcome::Denied,
        true if !decision.warnings.is_empty() => Outcome::Warned,
        true if !decision.patch.is_empty() => Outcome::Patched,
        true => Outcome::Allowed,
    }
}

/// The policies that have a part in a decision.
fn found(decision: &Decision) -> Vec<PolicyPart<'_>> {
    let violations = decision.violations.iter().filter(|it| !it.actions.is_empty()).map(|it| {
        let has = |action| it.actions.contains(&action);
        let action = match () {
            () if has(EnforcementAction::Deny) => "deny",
            () if has(EnforcementAction::Warn) => "warn",
            () => "dryrun",
        };
        let policy = (it.kind.clone(), Str::default(), it.constraint.clone());
        PolicyPart { group: constraints::GROUP, policy, action, message: &it.message }
    });
    let rejections = decision.rejections.iter().map(|Rejection { rule, message, .. }| {
        let (namespace, name) = rule.split_once('/').unwrap_or(("", rule));
        let policy = (Str::new_static(modrule::KIND), namespace.into(), name.into());
        let message = message.as_deref().unwrap_or_default();
        PolicyPart { group: modrule::GROUP, policy, action: "reject", message }
    });
    let denials = decision.denials.iter().map(|denial| of_policy(denial, "deny"));
    let remarks = decision.remarks.iter().map(|(action, denial)| {
        of_policy(denial, if action.as_str() == "Warn" { "warn" } else { "audit" })
    });
    violations.chain(rejections).chain(denials).chain(remarks).collect()
}

fn of_policy<'a>(denial: &'a Denial, action: &'static str) -> PolicyPart<'a> {
    PolicyPart {
        group: modgate_engine::api::admissionregistration::GROUP,
        policy: (Str::new_static(denial.kind.as_str()), Str::default(), denial.policy.clone()),
        action,
        message: &denial.message,
    }
}

/// A decision to keep, without its number and the values of Secrets.
fn noted(
    outcome: Outcome,
    found: Vec<PolicyPart<'_>>,
    decided: Decided<'_>,
    hidden: Option<&SecretValues>,
) -> Noted {
    let Decided { webhook, stages, policies: _, review, decision, took, bytes } = decided;
    let request = review.request();
    let secret = review.is_secret();
    let text = |text: &str, bytes| match (secret, hidden) {
        (true, _) => NOT_SHOWN.to_owned(),
        (false, None) => cut(text, bytes),
        (false, Some(values)) => secrets::cut_without(values, text, bytes),
    };
    let part = |found: PolicyPart<'_>| {
        let PolicyPart { group, policy: (kind, namespace, name), action, message } = found;
        Part { group, kind, namespace, name, action, message: text(message, TEXT_BYTES) }
    };
    let policies = found.into_iter().take(MAX_PARTS).map(part).collect();
    let name = |text: &str| cut(text, NAME_BYTES);
    let message = match decision.allowed {
        true => String::new(),
        false => text(&decision.reason, MESSAGE_BYTES),
    };
    let warnings = decision.warnings.iter().take(MAX_WARNINGS);
    let changes = decision.patch.iter().take(MAX_PARTS);
    let user = request.user_info.get("username").and_then(Value::as_str).unwrap_or_default();
    let is_kept = outcome != Outcome::Allowed && !secret && bytes <= MAX_REQUEST;
    let kept = stages.filter(|_| is_kept).map(|stages| (review.clone(), stages));
    let entry = Entry {
        id: 0,
        uid: name(&request.uid),
        time: time_of(SystemTime::now()),
        webhook,
        operation: request.operation.as_str(),
        group: name(&request.kind.group),
        version: name(&request.kind.version),
        kind: name(&request.kind.kind),
        sub_resource: name(&request.sub_resource),
        namespace: name(review.store_namespace()),
        name: name(&request.name),
        user: name(user),
        dry_run: request.dry_run,
        outcome,
        code: decision.code,
        message,
        warnings: warnings.map(|warning| text(warning, TEXT_BYTES)).collect(),
        policies,
        changes: changes.map(|it| cut(&it.path.to_string(), TEXT_BYTES)).collect(),
        microseconds: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        secret,
        explainable: kept.is_some(),
    };
    let texts = entry.bytes();
    let of_request = if kept.is_some() { bytes * REQUEST_FACTOR } else { 0 };
    Noted { entry, request: kept, bytes: ENTRY_BYTES + texts + of_request }
}
