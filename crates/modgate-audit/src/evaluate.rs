//! One object, asked about by the policies that concern it.

use std::sync::Arc;

use modgate_engine::{
    Expansion, Host,
    api::{
        config::Process,
        constraints::{EnforcementAction, EnforcementPoint},
    },
    constraint::{self, Admission, Arena, CompiledConstraint, Evaluation, World},
    cost::{Meter, Statistics},
    expansion::Resultant,
    matching::Source,
};
use modgate_value::{Budget, Limits, Str, Value};

use crate::{
    host::Watched,
    message,
    policies::{Policies, UnitId, UnitKey},
    rules,
    violation::{Judge, Subject},
};

/// What one thread keeps from object to object.
#[derive(Debug, Default)]
pub(crate) struct Session {
    arena: Arena,
    /// Which counters of policies this thread uses.
    shard: usize,
    /// What constraints took on this thread, if that is counted.
    statistics: Option<Statistics>,
}

impl Session {
    pub(crate) fn new(shard: usize, counts: bool) -> Self {
        let statistics = counts.then(Statistics::default);
        Self { shard, statistics, ..Self::default() }
    }

    /// What constraints took on this thread.
    pub(crate) fn into_statistics(self) -> Option<Statistics> {
        self.statistics
    }
}

/// Which units are asked.
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

/// One violation, without what the unit says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Cut.
    pub(crate) message: Str,
    pub(crate) details: Value,
    pub(crate) charge: Charge,
}

/// Whose demand a violation is, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Charge {
    /// As the constraint says.
    Constraint,
    /// As the expansion template says instead.
    Overridden(EnforcementAction),
    /// A ModRule or mutator, and what it would do.
    Rule(Arc<Judge>, &'static str),
}

/// What came of one object.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Units with violations, by number.
    pub(crate) found: Vec<(UnitId, Vec<Found>)>,
    /// Units that asked the outside, by number.
    pub(crate) volatile: Vec<UnitId>,
    /// Units that looked at the inventory, by number.
    pub(crate) looked: Vec<UnitId>,
    /// Why the object, or a part of it, could not be judged.
    pub(crate) errors: Vec<String>,
    /// Whether more than the object and its Namespace was looked at, hence nothing of it may be
    /// kept.
    pub(crate) fleeting: bool,
    /// Whether it was left alone (EX-4).
    pub(crate) excluded: bool,
    /// Questions asked: a constraint about the object or about a resultant.
    pub(crate) asked: u64,
}

/// The name that Config exclusions look at (EX-3).
pub(crate) fn excluded_as(subject: &Subject) -> &str {
    if subject.kind.is_namespace() { &subject.name } else { &subject.namespace }
}

impl Policies {
    /// Judges one object.
    pub(crate) fn evaluate(
        &self,
        object: &Value,
        subject: &Subject,
        asked: Asked<'_>,
        host: &dyn Host,
        session: &mut Session,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if self.snapshot.exclusions().excludes(Process::Audit, excluded_as(subject)) {
            outcome.excluded = true;
            return outcome;
        }
        let host = Watched::new(host);
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
        let mut judging = Judging { policies: self, asked, host: &host, session, outcome };
        let admission = Admission::of_object(object.clone(), namespace);
        judging.constraints(&admission, None);
        for resultant in &resultants {
            // Its Namespace is then looked for in the inventory (MA-4).
            let wanders =
                namespace.is_none() && resultant.object.path(&["metadata", "namespace"]).is_some();
            judging.outcome.fleeting |= wanders;
            let admission = Admission::of_object(resultant.object.clone(), namespace)
                .with_source(Some(Source::Generated));
            judging.constraints(&admission, Some(resultant));
        }
        judging.rules(object, subject);
        let mut outcome = judging.outcome;
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
        subject: &Subject,
        host: &Watched<'_>,
        outcome: &mut Outcome,
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

struct Judging<'a> {
    policies: &'a Policies,
    asked: Asked<'a>,
    host: &'a Watched<'a>,
    session: &'a mut Session,
    outcome: Outcome,
}

impl Judging<'_> {
    fn constraints(&mut self, admission: &Admission, resultant: Option<&Resultant>) {
        for constraint in self.policies.snapshot.constraints().candidates(admission) {
            let Some(id) = self.policies.id_of(constraint) else { continue };
            if self.asked.contains(id) {
                self.constraint(id, constraint, admission, resultant);
            }
        }
    }

    /// What one constraint finds does not depend on what others spend: each has a budget of its own.
    fn constraint(
        &mut self,
        id: UnitId,
        constraint: &CompiledConstraint,
        admission: &Admission,
        resultant: Option<&Resultant>,
    ) {
        let limits = self.policies.snapshot.config().constraint_limits;
        self.host.allow(limits.time);
        let budget = Budget::new(limits, self.host);
        let evaluation = Evaluation {
            point: EnforcementPoint::Audit,
            world: World { inventory: &self.policies.inventory, host: self.host },
            budget: &budget,
            limits: Limits::UNLIMITED,
            meter: Meter {
                shard: self.session.shard,
                statistics: self.session.statistics.as_ref(),
                ..Meter::default()
            },
        };
        let findings =
            constraint::review([constraint], admission, evaluation, &mut self.session.arena);
        self.outcome.asked += 1;
        if self.host.take_asked() {
            self.outcome.volatile.push(id);
        }
        if self.session.arena.take_looked() {
            self.outcome.looked.push(id);
        }
        let found = findings.into_iter().map(|finding| match resultant {
            None => Found {
                message: message::cut(&finding.message),
                details: finding.details,
                charge: Charge::Constraint,
            },
            Some(resultant) => Found {
                message: message::cut(&resultant.implied(&finding.message)),
                details: finding.details,
                charge: resultant.action().map_or(Charge::Constraint, Charge::Overridden),
            },
        });
        self.add(id, found.collect());
    }

    fn rules(&mut self, object: &Value, subject: &Subject) {
        type Ask = fn(&Policies, &Value, &Subject, &dyn Host, usize) -> rules::Judged;
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
            let rules::Judged { found, errors } =
                ask(policies, object, subject, self.host, self.session.shard);
            self.outcome.asked += 1;
            if self.host.take_asked() || !errors.is_empty() {
                self.outcome.volatile.push(id);
            }
            self.outcome.errors.extend(errors);
            self.add(id, found);
        }
    }

    fn add(&mut self, id: UnitId, mut found: Vec<Found>) {
        if found.is_empty() {
            return;
        }
        match self.outcome.found.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => known.append(&mut found),
            None => self.outcome.found.push((id, found)),
        }
    }
}
