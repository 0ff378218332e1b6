//! Audits that keep what they found, and evaluate again what may have changed since.
//!
//! What a constraint finds in an object depends on the object, its Namespace, the constraint with its
//! template, the parts of the inventory that the template can look at, the expansion templates and
//! mutators where the object is a generator, and what the host is asked. So for each object is kept
//! which version of it was judged, when, and what was found; for everything else, when it last
//! changed. *When* is an epoch: the number of the last [`Incremental::adopt`].
//!
//! What asked the host for anything that may change by itself (time, randomness, providers, Nodes),
//! was cut short, or failed, is done again in every epoch.

mod change;
mod record;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Arc, Mutex, PoisonError},
};

use modgate_engine::{
    Host, Snapshot,
    api::{config::Process, meta::GroupVersionKind},
    constraint::Inventory,
};
use modgate_value::{Str, Value};

use self::{
    change::Changes,
    record::{Kept, Key, OfKind, Record},
};
use crate::{
    evaluate::{Asked, Outcome, Session, excluded_as},
    object::Item,
    pass::{Manner, Source, each},
    policies::{Options, Policies, UnitId},
    report::{Counts, Report, Tally},
    sink::Sink,
    violation::{Subject, violations},
};

/// What is known of all objects.
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
    /// Namespaces of objects, and the empty one.
    namespaces: BTreeMap<Str, Namespace>,
    kinds: BTreeMap<GroupVersionKind, OfKind>,
    texts: HashSet<Str>,
    values: HashSet<Value>,
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

/// What must be evaluated of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Need {
    Nothing,
    Only(Vec<UnitId>),
    All,
}

/// Texts that are looked for among those known already; more are not shared.
const MAX_SHARED: usize = 1 << 16;

impl Incremental {
    /// Nothing is known yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            policies: None,
            epoch: 0,
            changes: Changes::default(),
            namespaces: BTreeMap::new(),
            kinds: BTreeMap::new(),
            texts: HashSet::new(),
            values: HashSet::new(),
            counts: Counts::default(),
        }
    }

    /// Begins an epoch: from now on objects are judged by these policies, and what depends on
    /// anything that differs from before is [stale](Self::stale).
    pub fn adopt(&mut self, snapshot: &Snapshot, inventory: &Inventory, host: &dyn Host) {
        self.epoch += 1;
        let next = match self.policies.take() {
            None => Policies::new(snapshot.clone(), inventory.clone(), self.options),
            Some(before) => {
                let next = before.next(snapshot.clone(), inventory.clone());
                let gone = self.changes.between(&before, &next, self.epoch);
                self.forget_units(&next, &gone);
                self.change_generators(&before, &next);
                next
            }
        };
        self.changes.extend_to(next.units.len(), self.epoch);
        for (name, namespace) in &mut self.namespaces {
            let fingerprint = fingerprint(name, &next, host);
            if namespace.fingerprint != fingerprint {
                *namespace = Namespace { fingerprint, changed: self.epoch };
            }
        }
        self.policies = Some(Arc::new(next));
    }

    /// What objects are judged by.
    pub fn policies(&self) -> Option<&Arc<Policies>> {
        self.policies.as_ref()
    }

    /// Takes objects in: those that are new, have changed or are stale are evaluated, as far as they
    /// must be. What the source still has when `manner` says stop is not asked for.
    pub fn run(&mut self, source: &mut Source<'_>, host: &(dyn Host + Sync), manner: Manner<'_>) {
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
            let outcome = policies.evaluate(&item.object, &item.subject, asked, host, session);
            (need, outcome)
        };
        let mut take = |item: Item, (need, outcome): (Need, Outcome)| {
            lock().keep(&item, need, outcome);
        };
        each(source, manner, &prepare, work, &mut take);
    }

    /// Begins to list a kind: objects that are not handed in by [`end`](Self::end) are gone.
    pub fn begin(&mut self, kind: &GroupVersionKind) {
        self.of_kind(kind).sweep += 1;
    }

    /// All objects of a kind have been handed in.
    pub fn end(&mut self, kind: &GroupVersionKind) {
        let of_kind = self.of_kind(kind);
        let sweep = of_kind.sweep;
        of_kind.objects.retain(|_, record| record.sweep == sweep);
    }

    /// An object is gone.
    pub fn remove(&mut self, kind: &GroupVersionKind, namespace: &str, name: &str) {
        let key = Key { namespace: namespace.into(), name: name.into() };
        if let Some(of_kind) = self.kinds.get_mut(kind) {
            of_kind.objects.remove(&key);
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
            let objects = of_kind.objects.iter();
            let stale =
                objects.filter(|(_, record)| self.need(kind, of_kind, record) != Need::Nothing);
            let objects = stale.map(|(key, _)| (key.namespace.clone(), key.name.clone())).collect();
            Stale { kind: kind.clone(), objects, of: of_kind.objects.len() }
        });
        stale.filter(|stale| !stale.objects.is_empty()).collect()
    }

    /// What is known of all objects; each violation goes to `sink`.
    pub fn report(&mut self, audit: &str, limit: usize, sink: &dyn Sink) -> Option<Report> {
        let policies = self.policies.clone()?;
        sink.started(audit);
        let mut tally = Tally::new(&policies, limit);
        let mut used = BTreeSet::new();
        let mut counts = std::mem::take(&mut self.counts);
        for (kind, of_kind) in &self.kinds {
            for (key, record) in &of_kind.objects {
                counts.objects += 1;
                counts.excluded += u64::from(record.excluded);
                if used.last() != Some(&&record.namespace) {
                    used.insert(&record.namespace);
                }
                let Some(kept) = &record.kept else { continue };
                let subject = Arc::new(kept.subject(kind, key));
                kept.errors.iter().for_each(|error| tally.error(&subject, error));
                for violation in violations(&policies, &subject, &kept.found) {
                    tally.violation(&violation);
                    sink.violation(audit, &violation);
                }
            }
        }
        tally.count(counts);
        self.namespaces.retain(|name, _| used.contains(name));
        sink.finished(audit);
        Some(tally.finish(audit))
    }

    fn of_kind(&mut self, kind: &GroupVersionKind) -> &mut OfKind {
        self.kinds.entry(kind.clone()).or_default()
    }

    /// What must be evaluated of an object that arrives.
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
        let key = Key::of(subject);
        let Some(of_kind) = self.kinds.get_mut(&subject.kind) else { return Need::All };
        let sweep = of_kind.sweep;
        let Some(record) = of_kind.objects.get_mut(&key) else { return Need::All };
        record.sweep = sweep;
        if record.version != item.version {
            return Need::All;
        }
        let Some(of_kind) = self.kinds.get(&subject.kind) else { return Need::All };
        match of_kind.objects.get(&key) {
            Some(record) => self.need(&subject.kind, of_kind, record),
            None => Need::All,
        }
    }

    /// What must be evaluated of an object that has not changed.
    fn need(&self, kind: &GroupVersionKind, of_kind: &OfKind, record: &Record) -> Need {
        if record.epoch == self.epoch {
            return Need::Nothing;
        }
        let since = record.epoch;
        let namespace = self.namespaces.get(&record.namespace);
        let is_other = namespace.is_none_or(|namespace| namespace.changed > since);
        if is_other || of_kind.changed > since || record.fleeting {
            return Need::All;
        }
        let mut ids = match &record.kept {
            Some(kept) if !kept.errors.is_empty() => return Need::All,
            Some(kept) => kept.volatile.to_vec(),
            None => Vec::new(),
        };
        if let Some(policies) = &self.policies {
            ids.extend(self.changes.since(since, policies, kind));
        }
        if ids.is_empty() {
            return Need::Nothing;
        }
        ids.sort_unstable();
        ids.dedup();
        Need::Only(ids)
    }

    fn keep(&mut self, item: &Item, need: Need, outcome: Outcome) {
        self.counts.evaluated += 1;
        self.counts.asked += outcome.asked;
        let subject = &item.subject;
        let key = Key::of(subject);
        let (epoch, sweep) = (self.epoch, self.kinds.get(&subject.kind).map_or(0, |it| it.sweep));
        let labels = share(&mut self.values, subject.labels.clone());
        let found = outcome.found.into_iter().map(|(id, found)| {
            let found = found.into_iter().map(|mut found| {
                found.message = share(&mut self.texts, found.message);
                found.details = share(&mut self.values, found.details);
                found
            });
            (id, found.collect())
        });
        let mut kept = Kept {
            uid: subject.uid.clone(),
            labels,
            found: found.collect(),
            volatile: outcome.volatile.into(),
            errors: outcome.errors.into_iter().map(Into::into).collect(),
        };
        let objects = &mut self.kinds.entry(subject.kind.clone()).or_default().objects;
        if let (Need::Only(ids), Some(before)) = (&need, objects.get_mut(&key))
            && let Some(before) = before.kept.take()
        {
            kept.merge(*before, ids);
        }
        let record = Record {
            version: item.version,
            epoch,
            sweep,
            namespace: excluded_as(subject).into(),
            fleeting: outcome.fleeting,
            excluded: outcome.excluded,
            kept: (!kept.is_empty()).then(|| kept.into()),
        };
        objects.insert(key, record);
    }

    /// Drops what units found that are gone, or no longer about a kind.
    fn forget_units(&mut self, next: &Policies, gone: &BTreeSet<UnitId>) {
        let epoch = self.epoch;
        for (kind, of_kind) in &mut self.kinds {
            let forget = |id: &UnitId| {
                gone.contains(id)
                    || self.changes.is_changed(*id, epoch) && !change::concerns(next, *id, kind)
            };
            for record in of_kind.objects.values_mut() {
                let Some(kept) = &mut record.kept else { continue };
                kept.forget(&forget);
                if kept.is_empty() {
                    record.kept = None;
                }
            }
        }
    }

    /// What generators expand to may be something else.
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

/// What a Namespace means to the objects in it; the empty name stands for none.
fn fingerprint(name: &str, policies: &Policies, host: &dyn Host) -> u64 {
    let mut hash = DefaultHasher::new();
    policies.snapshot().exclusions().excludes(Process::Audit, name).hash(&mut hash);
    if !name.is_empty() {
        host.namespace(name).map_err(|error| error.0).hash(&mut hash);
    }
    hash.finish()
}

/// The same value, stored once.
fn share<T: Clone + Eq + std::hash::Hash>(known: &mut HashSet<T>, value: T) -> T {
    if let Some(known) = known.get(&value) {
        return known.clone();
    }
    if known.len() >= MAX_SHARED {
        known.clear();
    }
    known.insert(value.clone());
    value
}

impl Kept {
    fn subject(&self, kind: &GroupVersionKind, key: &Key) -> Subject {
        Subject {
            kind: kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            uid: self.uid.clone(),
            labels: self.labels.clone(),
            origin: Str::default(),
            position: None,
        }
    }
}
