//! Two sets of policies over the same requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    thread,
};

use modgate_engine::{
    Decision, NoopObserver, Review, Stages, Trace, admissionpolicy::Types, api::secrets,
    constraint::Arena, explain::Outcome, jsonpatch, mutation::MutatorOutcome,
};
use modgate_value::{Str, Value};

use crate::{
    Side,
    minimise::minimised,
    value::{self, replaced},
};

/// How the decisions about a request differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The old policies allow it, the new ones deny it.
    AllowToDeny,
    /// The old policies deny it, the new ones allow it.
    DenyToAllow,
    /// Both decide alike with other messages: of violations, rejections and warnings.
    Messages,
    /// Both allow it and leave another object.
    Patches,
}

impl Class {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] =
        [Self::AllowToDeny, Self::DenyToAllow, Self::Messages, Self::Patches];

    /// Its name in documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AllowToDeny => "allow-to-deny",
            Self::DenyToAllow => "deny-to-allow",
            Self::Messages => "messages",
            Self::Patches => "patches",
        }
    }
}

/// One difference between the decisions about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The kind of difference.
    pub class: Class,
    /// The policies that make the difference, such as `K8sRequiredLabels owner`; empty where none
    /// does, as with a request that cannot be decided.
    pub policies: BTreeSet<String>,
}

/// A request to decide twice.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its number; of examples of one size, the first is kept.
    pub index: usize,
    /// Where it came from, such as `pods.yaml:3:1`.
    pub place: String,
    /// The request.
    pub review: Review,
}

/// The requests that differ alike.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// The one with the smallest object.
    pub example: Option<Example>,
}

/// A request as an example.
#[derive(Debug, Clone)]
pub struct Example {
    /// The request.
    pub item: Item,
    /// The length of its object.
    size: usize,
    /// The messages of the old policies, and those of the new ones.
    pub messages: [Vec<String>; 2],
    /// The smallest object that shows the difference; without the contents of Secrets.
    pub object: Value,
}

/// The differences between two sets of policies.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// Requests decided.
    pub requests: u64,
    /// Requests of which nothing differs.
    pub same: u64,
    /// The differences by class, then policy; a request may be counted for several policies.
    pub by_policy: BTreeMap<(Class, String), Group>,
    /// How many requests differ, by class.
    pub by_class: BTreeMap<Class, u64>,
    /// The same by class, then namespace; empty for objects that are in none.
    pub by_namespace: BTreeMap<(Class, Str), u64>,
}

/// The words of a decision: policy, what it leads to, message.
type Words = BTreeSet<(String, String, String)>;

fn words(decision: &Decision) -> Words {
    let mut words = Words::new();
    let mut add = |policy: String, effect: &str, message: &str| {
        words.insert((policy, effect.to_owned(), message.to_owned()));
    };
    for violation in &decision.violations {
        let policy = format!("{} {}", violation.kind, violation.constraint);
        add(policy, &violation.action, &violation.message);
    }
    for rejection in &decision.rejections {
        let message = rejection.message.clone().unwrap_or_default();
        add(format!("ModRule {}", rejection.rule), "reject", &message);
    }
    for denial in &decision.denials {
        add(format!("{} {}", denial.kind.as_str(), denial.policy), "deny", &denial.message);
    }
    for failure in &decision.failures {
        add(format!("ModRule {}", failure.rule), "failure", &failure.message);
    }
    for (key, text) in &decision.audit_annotations {
        add(String::new(), "audit", &format!("{key}: {text}"));
    }
    // Those of constraints have been counted as violations.
    let lines: BTreeSet<String> = decision.violations.iter().map(|each| each.line()).collect();
    for warning in decision.warnings.iter().filter(|warning| !lines.contains(*warning)) {
        add(String::new(), "warn", warning);
    }
    if !decision.allowed && denying(decision).is_empty() {
        add(String::new(), "deny", &decision.reason);
    }
    words
}

/// The policies that deny a request.
fn denying(decision: &Decision) -> BTreeSet<String> {
    use modgate_engine::api::constraints::EnforcementAction::Deny;
    let violations = decision.violations.iter().filter(|each| each.actions.contains(&Deny));
    let violations = violations.map(|each| format!("{} {}", each.kind, each.constraint));
    let rejections = decision.rejections.iter().map(|each| format!("ModRule {}", each.rule));
    let denials = decision.denials.iter();
    let denials = denials.map(|each| format!("{} {}", each.kind.as_str(), each.policy));
    violations.chain(rejections).chain(denials).collect()
}

/// Decides a request twice.
struct Pair<'a> {
    old: Side<'a>,
    new: Side<'a>,
    arena: Arena,
}

impl Pair<'_> {
    fn decisions(&mut self, review: &Review) -> [Decision; 2] {
        [self.old, self.new]
            .map(|side| side.decide(review, Stages::ALL, &mut self.arena, &mut NoopObserver))
    }

    fn differences(&mut self, review: &Review, decisions: &[Decision; 2]) -> Vec<Difference> {
        let [old, new] = decisions;
        let difference = |class, policies| Difference { class, policies };
        match (old.allowed, new.allowed) {
            (true, false) => return vec![difference(Class::AllowToDeny, denying(new))],
            (false, true) => return vec![difference(Class::DenyToAllow, denying(old))],
            _ => {}
        }
        let mut found = Vec::new();
        let (old_words, new_words) = (words(old), words(new));
        if old_words != new_words {
            let changed = old_words.symmetric_difference(&new_words);
            let policies = changed.map(|(policy, ..)| policy.clone()).filter(|it| !it.is_empty());
            found.push(difference(Class::Messages, policies.collect()));
        }
        if old.allowed && old.object != new.object {
            found.push(difference(Class::Patches, self.changing(review)));
        }
        found
    }

    /// The policies that change the object with one of the sides only; all that change it where these are
    /// the same.
    fn changing(&mut self, review: &Review) -> BTreeSet<String> {
        let [old, new] = [self.old, self.new].map(|side| {
            let mut trace = Trace::default();
            side.decide(review, Stages::ALL, &mut self.arena, &mut trace);
            let mutators = trace.mutators.iter().flatten();
            let mutators = mutators
                .filter(|each| matches!(each.outcome, MutatorOutcome::Changed))
                .map(|each| format!("{} {}", each.mutator.kind.as_str(), each.mutator.name));
            let rules = trace.modrules.iter();
            let rules = rules
                .filter(|each| matches!(each.outcome, Outcome::Patched))
                .map(|each| each.policy.to_string());
            mutators.chain(rules).collect::<BTreeSet<String>>()
        });
        let only: BTreeSet<String> = old.symmetric_difference(&new).cloned().collect();
        if only.is_empty() { old.union(&new).cloned().collect() } else { only }
    }
}

impl Comparison {
    fn add(&mut self, item: &Item, decisions: &[Decision; 2], found: Vec<Difference>) {
        self.requests += 1;
        if found.is_empty() {
            self.same += 1;
        }
        for Difference { class, mut policies } in found {
            *self.by_class.entry(class).or_default() += 1;
            let namespace = Str::from(item.review.store_namespace());
            *self.by_namespace.entry((class, namespace)).or_default() += 1;
            if policies.is_empty() {
                policies.insert(String::new());
            }
            for policy in policies {
                let group = self.by_policy.entry((class, policy.clone())).or_default();
                group.count += 1;
                let example = Example::of(item, decisions, class, &policy);
                group.offer(example);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.same += other.same;
        for (class, count) in other.by_class {
            *self.by_class.entry(class).or_default() += count;
        }
        for (key, count) in other.by_namespace {
            *self.by_namespace.entry(key).or_default() += count;
        }
        for (key, group) in other.by_policy {
            let mine = self.by_policy.entry(key).or_default();
            mine.count += group.count;
            if let Some(example) = group.example {
                mine.offer(example);
            }
        }
    }

    /// How many requests differ so.
    pub fn count(&self, class: Class) -> u64 {
        self.by_class.get(&class).copied().unwrap_or_default()
    }
}

impl Group {
    fn offer(&mut self, example: Example) {
        let rank = |example: &Example| (example.size, example.item.index);
        if self.example.as_ref().is_none_or(|known| rank(&example) < rank(known)) {
            self.example = Some(example);
        }
    }
}

impl Example {
    fn of(item: &Item, decisions: &[Decision; 2], class: Class, policy: &str) -> Self {
        let object = item.review.object().cloned().unwrap_or_default();
        let size = value::size(&object);
        if class == Class::Patches {
            // The values of a patch may be those of a Secret.
            let shown = !item.review.is_secret();
            let patch = |side: &Decision| match shown {
                true => format!("patch: {}", jsonpatch::to_value(&side.patch).to_json()),
                false => format!("patch of {} operations", side.patch.len()),
            };
            let [old, new] = decisions;
            let messages = [vec![patch(old)], vec![patch(new)]];
            return Self { item: item.clone(), size, messages, object };
        }
        let messages = [0, 1].map(|side| {
            let words = decisions.get(side).map(words).unwrap_or_default();
            let own = words.into_iter().filter(|(name, ..)| policy.is_empty() || name == policy);
            own.map(|(_, effect, message)| match message.as_str() {
                "" => effect,
                message => format!("{effect}: {message}"),
            })
            .collect()
        });
        Self { item: item.clone(), size, messages, object }
    }
}

/// Compares two sets of policies over requests, on as many threads. `next` hands out some at a time
/// until there are none; `done` receives how many were decided.
///
/// Examples are made as small as they can be while the difference stays, and while their kind allows
/// them.
pub fn compare(
    old: Side<'_>,
    new: Side<'_>,
    next: &mut (dyn FnMut() -> Vec<Item> + Send),
    done: &(dyn Fn(usize) + Sync),
    threads: usize,
) -> Comparison {
    let next = Mutex::new(next);
    let work = || {
        let mut pair = Pair { old, new, arena: Arena::new() };
        let mut mine = Comparison::default();
        loop {
            let batch = match next.lock() {
                Ok(mut next) => next(),
                Err(_) => Vec::new(),
            };
            if batch.is_empty() {
                return mine;
            }
            for item in &batch {
                let decisions = pair.decisions(&item.review);
                let found = pair.differences(&item.review, &decisions);
                mine.add(item, &decisions, found);
            }
            done(batch.len());
        }
    };
    let mut all = Comparison::default();
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads.max(1)).map(|_| scope.spawn(work)).collect();
        all.merge(work());
        for other in others {
            if let Ok(found) = other.join() {
                all.merge(found);
            }
        }
    });
    let mut pair = Pair { old, new, arena: Arena::new() };
    for ((class, policy), group) in &mut all.by_policy {
        if let Some(example) = &mut group.example {
            let review = &example.item.review;
            let object = minimised(&example.object, |object| {
                fits(object) && pair.still(review, object, *class, policy)
            });
            example.object = secrets::shown(&object, review.is_secret());
        }
    }
    all
}

/// Whether an object fits its kind, as far as the kind is known.
pub fn fits(object: &Value) -> bool {
    Types::kubernetes().mistakes(object).is_none_or(|mistakes| mistakes.is_empty())
}

impl Pair<'_> {
    /// Whether the difference shows with another object.
    fn still(&mut self, review: &Review, object: &Value, class: Class, policy: &str) -> bool {
        let review = match review.request().object {
            Some(_) => review.clone().with_object(object.clone()),
            None => {
                let request = replaced(review.sent(), &["oldObject".into()], object.clone());
                match Review::from_request(&request) {
                    Ok(review) => review,
                    Err(_) => return false,
                }
            }
        };
        let decisions = self.decisions(&review);
        let found = self.differences(&review, &decisions);
        found.iter().any(|found| {
            found.class == class && (policy.is_empty() || found.policies.contains(policy))
        })
    }
}
