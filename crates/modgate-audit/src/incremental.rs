//! Audits that keep what they found, and evaluate again what may have changed since.
//!
//! The violations of a constraint by an object depend on the object, its Namespace, the constraint with its
//! template, the parts of the inventory that the template can look at if it did look at any, the expansion templates and
//! mutators where the object is a generator, and the host's answers. The violations of a
//! ValidatingAdmissionPolicy depend on its bindings and the parameters they pass, too. [`Incremental`] keeps for each
//! object the version that was evaluated, the time of the evaluation and its findings; for everything else, the time of
//! the last change. Times are epochs: the number of the last [`Incremental::adopt`].
//!
//! An evaluation that asked the host for anything that may change by itself (time, randomness, providers, Nodes),
//! was cut short, or failed, is done again in every epoch.

mod assemble;
mod change;
mod kept;
mod pack;
mod record;
mod tell;
mod verdicts;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
};

use modgate_engine::{
    Host, Snapshot,
    api::{config::Process, meta::GroupVersionKind},
    constraint::Inventory,
};
use modgate_value::Str;

use self::{
    change::{Changes, Since},
    kept::{Broken, Json, Kept, PackedViolation, PackedViolations},
    pack::Dictionary,
    record::{OfKind, Record},
    verdicts::{Verdict, Verdicts},
};
use crate::{
    evaluate::{Asked, ObjectResult, Session, excluded_as},
    object::{IntoItem, Item},
    pass::{AuditOptions, Source, each},
    policies::{Options, Policies, UnitId},
    reference::ObjectRef,
    report::Counts,
};

/// The findings about all objects.
///
/// The order of calls: [`adopt`](Self::adopt) the policies, hand in objects with
/// [`run`](Self::run) until nothing is [`stale`](Self::stale), take the [`report`](Self::report).
/// Everything handed in is kept at once, so that an audit that was stopped goes on where it was.
#[derive(Debug)]
pub struct Incremental {
    options: Options,
    policies: Option<Arc<Policies>>,
    epoch: u32,
    changes: Changes,
    /// Which objects the bindings of ValidatingAdmissionPolicies pass, as numbers.
    params: BTreeMap<UnitId, u64>,
    /// Namespaces of objects, and the empty one.
    namespaces: BTreeMap<Str, Namespace>,
    kinds: BTreeMap<GroupVersionKind, OfKind>,
    verdicts: Verdicts,
    /// Since the last report.
    counts: Counts,
}

#[derive(Debug, Clone, Copy)]
struct Namespace {
    fingerprint: u64,
    /// Since when it is like that.
    changed: u32,
}

/// Objects of one kind that must be handed in again for the next report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    /// Their kind.
    pub kind: GroupVersionKind,
    /// Namespaces and names.
    pub objects: Vec<(Str, Str)>,
    /// How many objects of the kind are known.
    pub of: usize,
}

/// The policies to evaluate for an object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    Nothing,
    Only(Vec<UnitId>),
    All,
}

impl Incremental {
    /// Nothing is known yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            policies: None,
            epoch: 0,
            changes: Changes::default(),
            params: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            kinds: BTreeMap::new(),
            verdicts: Verdicts::default(),
            counts: Counts::default(),
        }
    }

    /// Begins an epoch: from now on objects are evaluated against these policies, and what depends on
    /// anything that differs from before is [stale](Self::stale).
    pub fn adopt(&mut self, snapshot: &Snapshot, inventory: &Inventory, host: &dyn Host) {
        self.epoch += 1;
        let next = match self.policies.take() {
            None => Policies::new(snapshot.clone(), inventory.clone(), self.options),
            Some(before) => {
                let next = before.next(snapshot.clone(), inventory.clone());
                let gone = self.changes.between(&before, &next, self.epoch);
                self.forget_units(&next, &gone);
                self.renew_packers(&next);
                self.change_generators(&before, &next);
                next
            }
        };
        self.changes.extend_to(next.units.len(), self.epoch);
        self.change_params(&next, host);
        for (name, namespace) in &mut self.namespaces {
            let fingerprint = fingerprint(name, &next, host);
            if namespace.fingerprint != fingerprint {
                *namespace = Namespace { fingerprint, changed: self.epoch };
            }
        }
        self.policies = Some(Arc::new(next));
    }

    /// The policies in force.
    pub fn policies(&self) -> Option<&Arc<Policies>> {
        self.policies.as_ref()
    }

    /// Takes objects in: those that are new, have changed or are stale are evaluated, as far as they
    /// must be. What the source still has when `options` says stop is not asked for.
    pub fn run<I: IntoItem>(
        &mut self,
        source: &mut Source<'_, I>,
        host: &(dyn Host + Sync),
        options: AuditOptions<'_>,
    ) {
        let Some(policies) = self.policies.clone() else { return };
        let state = Mutex::new(self);
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        let prepare = |item: &Item| match lock().look_at(item, host) {
            Need::Nothing => None,
            need => Some(need),
        };
        let work = |item: &Item, need: Need, session: &mut Session| {
            let asked = match &need {
                Need::Only(ids) => Asked::Only(ids),
                Need::All | Need::Nothing => Asked::All,
            };
            let outcome = policies.evaluate(item, asked, host, session);
            let (evaluated, texts) = Evaluated::of(outcome, &item.subject);
            // What takes long, hence making texts and packing them, is done by all threads at once.
            let (violations, dictionary) = lock().number(item, &need, texts);
            evaluated.packed(&violations, &dictionary)
        };
        let mut take = |item: Item, evaluated: Evaluated| lock().keep(&item, evaluated);
        each(source, options, &prepare, work, &mut take);
    }

    /// Begins to list a kind: objects that are not handed in by [`end`](Self::end) are gone.
    pub fn begin(&mut self, kind: &GroupVersionKind) {
        self.of_kind(kind).sweep += 1;
    }

    /// All objects of a kind have been handed in.
    pub fn end(&mut self, kind: &GroupVersionKind) {
        let of_kind = self.of_kind(kind);
        let sweep = of_kind.sweep;
        of_kind.retain(|record| record.sweep == sweep);
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: &GroupVersionKind, namespace: &str, name: &str) {
        if let Some(of_kind) = self.kinds.get_mut(kind) {
            of_kind.remove(namespace, name);
        }
    }

    /// A kind is no longer listed.
    pub fn remove_kind(&mut self, kind: &GroupVersionKind) {
        self.kinds.remove(kind);
    }

    /// The kinds of which anything is known.
    pub fn kinds(&self) -> impl Iterator<Item = &GroupVersionKind> {
        self.kinds.keys()
    }

    /// The objects of which something must be evaluated again although they have not changed.
    pub fn stale(&self) -> Vec<Stale> {
        let stale = self.kinds.iter().map(|(kind, of_kind)| {
            let mut since = Since::default();
            let stale = of_kind.records().filter(|(namespace, name, record)| {
                self.need((kind, namespace, name), of_kind, record, &mut since) != Need::Nothing
            });
            let objects = stale.map(|(namespace, name, _)| (namespace.clone(), name.clone()));
            Stale { kind: kind.clone(), objects: objects.collect(), of: of_kind.len() }
        });
        stale.filter(|stale| !stale.objects.is_empty()).collect()
    }

    fn of_kind(&mut self, kind: &GroupVersionKind) -> &mut OfKind {
        self.kinds.entry(kind.clone()).or_default()
    }

    /// The policies to evaluate for an object that arrives.
    fn look_at(&mut self, item: &Item, host: &dyn Host) -> Need {
        let subject = &item.subject;
        let namespace = excluded_as(subject);
        if let Some(policies) =
            self.policies.as_ref().filter(|_| !self.namespaces.contains_key(namespace))
        {
            // As it was before the object is looked at: if it changes meanwhile, that will be seen.
            let fingerprint = fingerprint(namespace, policies, host);
            let known = Namespace { fingerprint, changed: self.epoch };
            self.namespaces.insert(namespace.into(), known);
        }
        let Some(of_kind) = self.kinds.get_mut(&subject.kind) else { return Need::All };
        let sweep = of_kind.sweep;
        let record = of_kind.get_mut(&subject.namespace, &subject.name);
        let Some(record) = record else { return Need::All };
        record.sweep = sweep;
        if record.version != item.version {
            return Need::All;
        }
        let Some(of_kind) = self.kinds.get(&subject.kind) else { return Need::All };
        match of_kind.get(&subject.namespace, &subject.name) {
            Some(record) => {
                let place = (&subject.kind, &subject.namespace, &subject.name);
                self.need(place, of_kind, record, &mut Since::default())
            }
            None => Need::All,
        }
    }

    /// The policies to evaluate for an object that has not changed; `since` belongs to its kind.
    fn need(
        &self,
        (kind, namespace, name): (&GroupVersionKind, &Str, &Str),
        of_kind: &OfKind,
        record: &Record,
        since: &mut Since,
    ) -> Need {
        let epoch = record.epoch;
        if epoch == self.epoch {
            return Need::Nothing;
        }
        let namespace = self.namespaces.get(if kind.is_namespace() { name } else { namespace });
        let is_other = namespace.is_none_or(|namespace| namespace.changed > epoch);
        if is_other || of_kind.changed > epoch || record.fleeting || record.failed {
            return Need::All;
        }
        let mut ids: Vec<UnitId> = record.kept.iter().flat_map(Kept::volatile).collect();
        if let Some(policies) = &self.policies {
            let changed = since.units(epoch, &self.changes, policies, kind);
            ids.extend_from_slice(&changed.own);
            if let Some(kept) = record.kept.as_ref().filter(|_| !changed.inventory.is_empty()) {
                let is_changed = |id: &UnitId| changed.inventory.binary_search(id).is_ok();
                ids.extend(kept.looked().filter(is_changed));
            }
        }
        if ids.is_empty() {
            return Need::Nothing;
        }
        ids.sort_unstable();
        ids.dedup();
        Need::Only(ids)
    }

    /// Numbers what was found, and adds what was found before by units that were not asked; with what to pack it.
    fn number(
        &mut self,
        item: &Item,
        need: &Need,
        texts: Unnumbered,
    ) -> (PackedViolations, Arc<Dictionary>) {
        let Unnumbered { mut violations, found } = texts;
        let (subject, verdicts) = (&item.subject, &mut self.verdicts);
        let found = found.into_iter().map(|(verdict, message, details)| PackedViolation {
            verdict: verdicts.id(verdict),
            message,
            details,
        });
        violations.found = found.collect();
        let of_kind = self.kinds.entry(subject.kind.clone()).or_default();
        if let Need::Only(ids) = need
            && let Some(before) = of_kind.get(&subject.namespace, &subject.name)
            && let Some(before) = &before.kept
        {
            match before.open() {
                Ok(before) => violations.merge(before, ids, &self.verdicts),
                // Then the object is evaluated once more, wholly.
                Err(Broken) => violations.errors.push(Broken.to_string().into()),
            }
        }
        (violations, Arc::clone(of_kind.packer.dictionary()))
    }

    fn keep(&mut self, item: &Item, evaluated: Evaluated) {
        let Evaluated { asked, fleeting, excluded, failed, kept, novel } = evaluated;
        self.counts.evaluated += 1;
        self.counts.asked += asked;
        let subject = &item.subject;
        let of_kind = self.kinds.entry(subject.kind.clone()).or_default();
        if let Some(kept) = &kept {
            kept.teach(&mut of_kind.packer, novel.as_deref());
        }
        let (version, epoch, sweep) = (item.version, self.epoch, of_kind.sweep);
        let record = Record { version, epoch, sweep, fleeting, excluded, failed, kept };
        of_kind.insert(&subject.namespace, &subject.name, record);
    }

    /// Drops what units found that are gone, or no longer about a kind.
    fn forget_units(&mut self, next: &Policies, gone: &BTreeSet<UnitId>) {
        let (epoch, verdicts) = (self.epoch, &self.verdicts);
        for (kind, of_kind) in &mut self.kinds {
            let narrowed = self.changes.at(epoch).filter(|id| !change::concerns(next, *id, kind));
            let forgotten: BTreeSet<UnitId> = narrowed.chain(gone.iter().copied()).collect();
            if forgotten.is_empty() {
                continue;
            }
            for record in of_kind.namespaces.values_mut().flat_map(BTreeMap::values_mut) {
                let Some(kept) = &record.kept else { continue };
                let found = kept.counts().filter_map(|(id, _)| verdicts.unit(id));
                if !found
                    .chain(kept.volatile())
                    .chain(kept.looked())
                    .any(|id| forgotten.contains(&id))
                {
                    continue;
                }
                match kept.open() {
                    Ok(mut violations) => {
                        violations.forget(|id| forgotten.contains(&id), verdicts);
                        record.kept = Kept::of(&violations, &mut of_kind.packer);
                    }
                    Err(Broken) => record.failed = true,
                }
            }
        }
    }

    /// Objects that are evaluated again have other things in common.
    fn renew_packers(&mut self, next: &Policies) {
        for (kind, of_kind) in &mut self.kinds {
            if self.changes.at(self.epoch).any(|id| change::concerns(next, id, kind)) {
                of_kind.packer.renew();
            }
        }
    }

    /// Bindings may pass other objects.
    fn change_params(&mut self, next: &Policies, host: &dyn Host) {
        let units = (0..).zip(&next.units).filter_map(|(id, unit)| {
            let (policy, _) = unit.as_ref()?.policy.as_ref()?;
            Some((id, policy.params_version(host.parameters())))
        });
        let params: BTreeMap<UnitId, u64> = units.collect();
        for (id, version) in &params {
            if self.params.get(id).is_some_and(|known| known != version) {
                self.changes.touch(*id, self.epoch);
            }
        }
        self.params = params;
    }

    /// The resultants of generators may have changed.
    fn change_generators(&mut self, before: &Policies, next: &Policies) {
        if !self.options.expansion || !change::expands_otherwise(before, next) {
            return;
        }
        for (kind, of_kind) in &mut self.kinds {
            let expands = |policies: &Policies| policies.snapshot().expansions().expands(kind);
            if expands(before) || expands(next) {
                of_kind.changed = self.epoch;
            }
        }
    }
}

/// The findings about an object, but for the numbers of verdicts.
struct Unnumbered {
    /// `found` is empty.
    violations: PackedViolations,
    found: Vec<(Verdict, Str, Json)>,
}

/// The results that an evaluation leaves behind.
struct Evaluated {
    asked: u64,
    fleeting: bool,
    excluded: bool,
    failed: bool,
    kept: Option<Kept>,
    /// Words that the dictionary lacks.
    novel: Option<Vec<u8>>,
}

impl Evaluated {
    fn of(outcome: ObjectResult, subject: &ObjectRef) -> (Self, Unnumbered) {
        let ObjectResult { found, volatile, looked, errors, fleeting, excluded, asked } = outcome;
        let found = found.into_iter().flat_map(|(id, found)| {
            found.into_iter().map(move |found| {
                let details = Json::of(&found.details);
                ((id, found.attribution), found.message, details)
            })
        });
        let violations = PackedViolations {
            uid: subject.uid.clone(),
            labels: Json::of(&subject.labels),
            errors: errors.into_iter().map(Into::into).collect(),
            volatile,
            looked,
            found: Vec::new(),
        };
        let texts = Unnumbered { violations, found: found.collect() };
        (Self { asked, fleeting, excluded, failed: false, kept: None, novel: None }, texts)
    }

    fn packed(mut self, violations: &PackedViolations, dictionary: &Arc<Dictionary>) -> Self {
        self.failed = !violations.errors.is_empty();
        if let Some((kept, novel)) = Kept::packed(violations, dictionary) {
            (self.kept, self.novel) = (Some(kept), novel);
        }
        self
    }
}

/// Facts about a Namespace for the objects in it; the empty name stands for none.
fn fingerprint(name: &str, policies: &Policies, host: &dyn Host) -> u64 {
    let mut hash = DefaultHasher::new();
    policies.snapshot().exclusions().excludes(Process::Audit, name).hash(&mut hash);
    if !name.is_empty() {
        host.namespace(name).map_err(|error| error.to_string()).hash(&mut hash);
    }
    hash.finish()
}
