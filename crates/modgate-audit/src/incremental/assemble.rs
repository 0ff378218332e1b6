//! The report of the results that are kept.
//!
//! How many violations there are of what stands in front of what is kept of an object; the words are
//! read only where they are shown: the first objects of each policy, in the order in which they are
//! listed, and all of them if a sink wants them.

use std::{collections::BTreeSet, sync::Arc};

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::Str;

use super::{
    Incremental,
    kept::{Broken, Kept, PackedViolations},
    verdicts::Verdicts,
};
use crate::{
    policies::{Policies, UnitId},
    reference::ObjectRef,
    report::{Audited, Report, Tally},
    sink::Sink,
    unit::UnitViolation,
    violation::{attributed, violations},
};

impl Incremental {
    /// The findings about all objects; each violation goes to `sink`, if it wants them.
    pub fn report(&mut self, audit: &str, limit: usize, sink: &dyn Sink) -> Option<Report> {
        let policies = self.policies.clone()?;
        sink.started(audit);
        let verdicts = &self.verdicts;
        let of_verdict = (0..).take(verdicts.len()).map(|id| OfVerdict {
            count: 0,
            is_short: limit > 0,
            is_attributed: verdicts
                .get(id)
                .is_some_and(|(unit, found)| attributed(&policies, *unit, found).is_some()),
        });
        let mut assembly = Assembly {
            audit,
            policies: &policies,
            verdicts,
            sink,
            wants_all: sink.wants_violations(),
            tally: Tally::new(&policies, limit),
            of_verdict: of_verdict.collect(),
        };
        let mut used = BTreeSet::new();
        let mut counts = std::mem::take(&mut self.counts);
        for (kind, of_kind) in &mut self.kinds {
            let is_namespace = kind.is_namespace();
            for (namespace, objects) in &mut of_kind.namespaces {
                if is_namespace {
                    used.extend(objects.keys().cloned());
                } else {
                    used.insert(namespace.clone());
                }
                let mut audited = Audited::default();
                for (name, record) in objects {
                    counts.objects += 1;
                    audited.objects += 1;
                    counts.excluded += u64::from(record.excluded);
                    let Some(kept) = &record.kept else { continue };
                    let place = (kind, namespace, name);
                    match assembly.object(place, kept, record.failed) {
                        Ok(violates) => audited.violating += u64::from(violates),
                        Err(broken) => {
                            let subject = Arc::new(ObjectRef::known(kind, namespace, name));
                            assembly.tally.error(&subject, &broken.to_string());
                            record.failed = true;
                        }
                    }
                }
                assembly.tally.count_audited(namespace, audited);
            }
        }
        let Assembly { mut tally, of_verdict, .. } = assembly;
        for (id, of_verdict) in (0..).zip(&of_verdict) {
            if let Some((unit, attribution)) = self.verdicts.get(id)
                && let Some((policy, action, actions)) = attributed(&policies, *unit, attribution)
            {
                tally.count_violations(policy, &action, &actions, of_verdict.count);
            }
        }
        let is_used = |id| of_verdict.get(id as usize).is_some_and(|it| it.count > 0);
        self.verdicts.retain(is_used);
        tally.count(counts);
        self.namespaces.retain(|name, _| used.contains(name));
        sink.finished(audit);
        Some(tally.finish(audit))
    }
}

/// A report on its way.
struct Assembly<'a> {
    audit: &'a str,
    policies: &'a Policies,
    verdicts: &'a Verdicts,
    sink: &'a dyn Sink,
    wants_all: bool,
    tally: Tally,
    of_verdict: Vec<OfVerdict>,
}

struct OfVerdict {
    count: u64,
    /// Whether its policy is still in force.
    is_attributed: bool,
    /// Whether its policy may not have as many violations as it lists.
    is_short: bool,
}

impl Assembly<'_> {
    /// The next object in order; returns whether it has violations.
    fn object(
        &mut self,
        place: (&GroupVersionKind, &Str, &Str),
        kept: &Kept,
        failed: bool,
    ) -> Result<bool, Broken> {
        let mut is_listed = false;
        let mut of_namespace = 0;
        for (id, count) in kept.counts() {
            let Some(of_verdict) = self.of_verdict.get_mut(id as usize) else { continue };
            of_verdict.count += u64::from(count);
            is_listed |= of_verdict.is_short;
            if of_verdict.is_attributed {
                of_namespace += u64::from(count);
            }
        }
        let (_, namespace, _) = place;
        self.tally.count_namespace(namespace, of_namespace);
        let violates = of_namespace > 0;
        if !(is_listed || self.wants_all || failed) {
            return Ok(violates);
        }
        self.words(place, kept.open()?, is_listed)?;
        if !is_listed {
            return Ok(violates);
        }
        for (id, _) in kept.counts() {
            let policy = self.verdicts.get(id).and_then(|(unit, attribution)| {
                attributed(self.policies, *unit, attribution).map(|(policy, ..)| policy)
            });
            if let Some(of_verdict) = self.of_verdict.get_mut(id as usize) {
                of_verdict.is_short &= policy.is_some_and(|policy| self.tally.is_short(policy));
            }
        }
        Ok(violates)
    }

    fn words(
        &mut self,
        (kind, namespace, name): (&GroupVersionKind, &Str, &Str),
        packed: PackedViolations,
        is_listed: bool,
    ) -> Result<(), Broken> {
        let PackedViolations { uid, labels, errors, found, .. } = packed;
        let subject =
            ObjectRef { uid, labels: labels.value()?, ..ObjectRef::known(kind, namespace, name) };
        let subject = Arc::new(subject);
        errors.iter().for_each(|error| self.tally.error(&subject, error));
        let mut by_unit: Vec<(UnitId, Vec<UnitViolation>)> = Vec::new();
        for violation in found {
            let Some((unit, attribution)) = self.verdicts.get(violation.verdict) else { continue };
            let found = UnitViolation {
                message: violation.message,
                details: violation.details.value()?,
                attribution: attribution.clone(),
            };
            match by_unit.last_mut() {
                Some((last, all)) if last == unit => all.push(found),
                _ => by_unit.push((*unit, vec![found])),
            }
        }
        for violation in violations(self.policies, &subject, &by_unit) {
            if is_listed {
                self.tally.list(&violation);
            }
            if self.wants_all {
                self.sink.violation(self.audit, &violation);
            }
        }
        Ok(())
    }
}
