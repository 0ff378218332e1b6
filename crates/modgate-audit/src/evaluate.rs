//! One object, evaluated against the policies that concern it.

use modgate_engine::{
    Expansion, Host,
    api::{config::Process, constraints::EnforcementPoint},
    constraint::{self, Admission, Arena, CompiledConstraint, Evaluation, Externals, Reviewed},
    cost::{Meter, Statistics},
    expansion::Resultant,
    matching::Source,
};
use modgate_value::{Budget, Limits, Value};

use crate::{
    host::RecordingHost,
    message,
    object::Item,
    policies::{Policies, UnitId, UnitKey},
    reference::ObjectRef,
    rules,
    unit::{Attribution, UnitViolation},
};

/// The state that one thread keeps from object to object.
#[derive(Debug, Default)]
pub(crate) struct Session {
    arena: Arena,
    /// Which counters of policies this thread uses.
    shard: usize,
    /// The statistics of constraints on this thread, if they are counted.
    statistics: Option<Statistics>,
}

impl Session {
    pub(crate) fn new(shard: usize, counts: bool) -> Self {
        let statistics = counts.then(Statistics::default);
        Self { shard, statistics, ..Self::default() }
    }

    /// The statistics of constraints on this thread.
    pub(crate) fn into_statistics(self) -> Option<Statistics> {
        self.statistics
    }
}

/// Which units are evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asked<'a> {
    All,
    /// Sorted.
    Only(&'a [UnitId]),
}

impl Asked<'_> {
    fn contains(self, id: UnitId) -> bool {
        match self {
            Self::All => true,
            Self::Only(ids) => ids.binary_search(&id).is_ok(),
        }
    }
}

/// The result of one object.
#[derive(Debug, Default)]
pub(crate) struct ObjectResult {
    /// Units with violations, by number.
    pub(crate) found: Vec<(UnitId, Vec<UnitViolation>)>,
    /// Units that depend on the outside, by number.
    pub(crate) volatile: Vec<UnitId>,
    /// Units that looked at the inventory, by number.
    pub(crate) looked: Vec<UnitId>,
    /// Why the object, or a part of it, could not be evaluated.
    pub(crate) errors: Vec<String>,
    /// Whether more than the object and its Namespace was looked at, hence nothing of it may be
    /// kept.
    pub(crate) fleeting: bool,
    /// Whether the Config excludes it (EX-4).
    pub(crate) excluded: bool,
    /// How many evaluations there were: a constraint for the object or for a resultant.
    pub(crate) asked: u64,
}

impl ObjectResult {
    fn add(&mut self, id: UnitId, mut found: Vec<UnitViolation>) {
        if found.is_empty() {
            return;
        }
        match self.found.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => known.append(&mut found),
            None => self.found.push((id, found)),
        }
    }
}

/// The name that Config exclusions look at (EX-3).
pub(crate) fn excluded_as(subject: &ObjectRef) -> &str {
    if subject.kind.is_namespace() { &subject.name } else { &subject.namespace }
}

impl Policies {
    /// Evaluates one object.
    pub(crate) fn evaluate(
        &self,
        item: &Item,
        asked: Asked<'_>,
        host: &dyn Host,
        session: &mut Session,
    ) -> ObjectResult {
        let Item { object, subject, unread, .. } = item;
        let mut outcome = ObjectResult::default();
        if self.snapshot.exclusions().excludes(Process::Audit, excluded_as(subject)) {
            outcome.excluded = true;
            return outcome;
        }
        if let Some(reason) = unread {
            outcome.errors.push(format!("cannot be read: {reason}"));
            return outcome;
        }
        let host = RecordingHost::new(host);
        let namespace = match subject.namespace.as_str() {
            _ if subject.kind.is_namespace() => None,
            "" => None,
            name => match host.namespace(name) {
                Ok(namespace) => Some(namespace),
                Err(error) => {
                    outcome.errors.push(format!("cannot read its Namespace: {error}"));
                    return outcome;
                }
            },
        };
        let namespace = namespace.as_ref();
        let resultants = self.resultants(object, namespace, subject, &host, &mut outcome);
        let is_fleeting = host.take_asked();
        outcome.fleeting |= is_fleeting;
        let mut evaluator = Evaluator { policies: self, asked, host: &host, session, outcome };
        let admission =
            Admission::of_object(object.clone(), namespace).in_namespace(&subject.namespace);
        evaluator.constraints(&admission, None);
        for resultant in &resultants {
            // Its Namespace is then looked for in the inventory (MA-4).
            let wanders =
                namespace.is_none() && resultant.object.path(&["metadata", "namespace"]).is_some();
            evaluator.outcome.fleeting |= wanders;
            let admission = Admission::of_object(resultant.object.clone(), namespace)
                .in_namespace(&subject.namespace)
                .with_source(Some(Source::Generated));
            evaluator.constraints(&admission, Some(resultant));
        }
        evaluator.rules(object, subject);
        evaluator.admission_policies(object, subject, namespace);
        let mut outcome = evaluator.outcome;
        outcome.found.sort_by_key(|(id, _)| *id);
        for ids in [&mut outcome.volatile, &mut outcome.looked] {
            ids.sort_unstable();
            ids.dedup();
        }
        outcome
    }

    fn resultants(
        &self,
        object: &Value,
        namespace: Option<&Value>,
        subject: &ObjectRef,
        host: &RecordingHost<'_>,
        outcome: &mut ObjectResult,
    ) -> Vec<Resultant> {
        if !self.options.expansion || !self.snapshot.expansions().expands(&subject.kind) {
            return Vec::new();
        }
        host.allow(self.snapshot.config().expansion_limits.time);
        let expansion = Expansion { object, namespace, operation: None, username: "" };
        // The object's own violations stay (`fix-audit-expand-error`).
        self.snapshot.expand(&expansion, host).unwrap_or_else(|error| {
            outcome.errors.push(format!("unable to expand object: {error}"));
            Vec::new()
        })
    }
}

struct Evaluator<'a> {
    policies: &'a Policies,
    asked: Asked<'a>,
    host: &'a RecordingHost<'a>,
    session: &'a mut Session,
    outcome: ObjectResult,
}

impl Evaluator<'_> {
    /// The violations of one constraint do not depend on the cost of others: each has a budget of its own.
    fn constraints(&mut self, admission: &Admission, resultant: Option<&Resultant>) {
        let (policies, host) = (self.policies, self.host);
        let candidates = policies.snapshot.constraints().candidates(admission);
        let asked = candidates.into_iter().filter(|constraint| {
            policies.id_of(constraint).is_some_and(|id| self.asked.contains(id))
        });
        let asked: Vec<&CompiledConstraint> = asked.collect();
        let limits = policies.snapshot.config().constraint_limits;
        let budget = Budget::new(Limits::UNLIMITED, host);
        let Session { arena, shard, statistics } = &mut *self.session;
        let evaluation = Evaluation {
            point: EnforcementPoint::Audit,
            externals: Externals { inventory: &policies.inventory, host },
            budget: &budget,
            limits,
            meter: Meter { shard: *shard, statistics: statistics.as_ref(), ..Meter::default() },
        };
        let outcome = &mut self.outcome;
        let begin = || host.allow(limits.time);
        // Until the first one begins, the clock is looked at, too.
        begin();
        constraint::review_each(asked, admission, evaluation, arena, &begin, |reviewed| {
            let Reviewed { constraint, violations, looked } = reviewed;
            let Some(id) = policies.id_of(constraint) else { return };
            outcome.asked += 1;
            if host.take_asked() {
                outcome.volatile.push(id);
            }
            if looked {
                outcome.looked.push(id);
            }
            let found = violations.into_iter().map(|violation| match resultant {
                None => UnitViolation {
                    message: message::cut(&violation.message),
                    details: violation.details,
                    attribution: Attribution::Constraint,
                },
                Some(resultant) => UnitViolation {
                    message: message::cut(&resultant.implied(&violation.message)),
                    details: violation.details,
                    attribution: resultant
                        .action()
                        .map_or(Attribution::Constraint, Attribution::Overridden),
                },
            });
            outcome.add(id, found.collect());
        });
    }

    fn rules(&mut self, object: &Value, subject: &ObjectRef) {
        type Ask = fn(&Policies, &Value, &ObjectRef, &dyn Host, usize) -> rules::RuleResult;
        let policies = self.policies;
        let units: [(UnitKey, bool, Ask); 2] = [
            (UnitKey::ModRules, policies.asks_modrules(), rules::modrules),
            (UnitKey::Mutators, policies.asks_mutators(), rules::mutators),
        ];
        for (key, is_wanted, ask) in units {
            let Some(id) = policies.id(&key).filter(|id| is_wanted && self.asked.contains(*id))
            else {
                continue;
            };
            let config = policies.snapshot.config();
            self.host.allow(config.request_limits.time.min(config.mutation_limits.time));
            let rules::RuleResult { found, errors } =
                ask(policies, object, subject, self.host, self.session.shard);
            self.outcome.asked += 1;
            if self.host.take_asked() || !errors.is_empty() {
                self.outcome.volatile.push(id);
            }
            self.outcome.errors.extend(errors);
            self.outcome.add(id, found);
        }
    }

    /// Each ValidatingAdmissionPolicy has a budget of its own, as a request has.
    fn admission_policies(
        &mut self,
        object: &Value,
        subject: &ObjectRef,
        namespace: Option<&Value>,
    ) {
        let policies = self.policies;
        for (id, policy, reference) in policies.admission_policies(&subject.kind) {
            if !self.asked.contains(id) {
                continue;
            }
            let limits = policies.snapshot.config().constraint_limits;
            self.host.allow(limits.time);
            let budget = Budget::new(limits, self.host);
            let found = rules::admission_policy(
                policies,
                (policy.name(), reference),
                (object, subject, namespace),
                (self.host, self.session.shard),
                &budget,
            );
            self.outcome.asked += 1;
            if self.host.take_asked() || !found.errors.is_empty() {
                self.outcome.volatile.push(id);
            }
            self.outcome.errors.extend(found.errors);
            self.outcome.add(id, found.found);
        }
    }
}
