//! Two sets of policies over the same requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
    thread,
};

use modgate_engine::{
    Decision, NoopObserver, Review, Stages, Trace, admissionpolicy::Types, api::secrets,
    constraint::Arena, jsonpatch,
};
use modgate_value::{Str, Value};

use crate::{
    Side,
    answer::Answer,
    difference::{Class, Difference, changing, differences, words},
    minimise::minimised,
    value::{self, replaced},
};

/// A request to decide twice.
#[derive(Debug, Clone)]
pub struct Item {
    /// Its number; of examples of one size, the first is kept.
    pub index: usize,
    /// Where it came from, such as `pods.yaml:3:1`.
    pub place: String,
    /// The request.
    pub review: Review,
    /// The stages that decide it: all, or those of one webhook.
    pub stages: Stages,
    /// The answer that it got, where that is known.
    pub answer: Option<Answer>,
}

/// How the answers that requests got compare with what the old policies decide.
#[derive(Debug, Clone, Default)]
pub struct Answers {
    /// Requests whose answer is known.
    pub known: u64,
    /// Answers that the old policies give again.
    pub same: u64,
    /// The others by class.
    pub by_class: BTreeMap<Class, u64>,
    /// The same by class, then policy; empty where no policy makes the difference.
    pub by_policy: BTreeMap<(Class, String), u64>,
}

impl Answers {
    fn add(&mut self, found: &[Difference]) {
        self.known += 1;
        if found.is_empty() {
            self.same += 1;
        }
        for Difference { class, policies } in found {
            *self.by_class.entry(*class).or_default() += 1;
            let none = policies.is_empty().then(String::new);
            for policy in policies.iter().cloned().chain(none) {
                *self.by_policy.entry((*class, policy)).or_default() += 1;
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.known += other.known;
        self.same += other.same;
        for (class, count) in other.by_class {
            *self.by_class.entry(class).or_default() += count;
        }
        for (key, count) in other.by_policy {
            *self.by_policy.entry(key).or_default() += count;
        }
    }
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
    /// The answers that requests got.
    pub recorded: Answers,
}

/// Decides a request twice.
struct Pair<'a> {
    old: Side<'a>,
    new: Side<'a>,
    arena: Arena,
}

impl Pair<'_> {
    fn decisions(&mut self, stages: Stages, review: &Review) -> [Decision; 2] {
        [self.old, self.new]
            .map(|side| side.decide(review, stages, &mut self.arena, &mut NoopObserver))
    }

    fn differences(&mut self, item: &Item, decisions: &[Decision; 2]) -> Vec<Difference> {
        let [old, new] = decisions;
        let mut found = differences(old, new);
        for difference in found.iter_mut().filter(|it| it.class == Class::Patches) {
            difference.policies = self.changing(item.stages, &item.review);
        }
        found
    }

    /// The policies that make two patches differ.
    fn changing(&mut self, stages: Stages, review: &Review) -> BTreeSet<String> {
        let [old, new] = [self.old, self.new].map(|side| {
            let mut trace = Trace::default();
            side.decide(review, stages, &mut self.arena, &mut trace);
            trace
        });
        changing(&old, &new)
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
        self.recorded.merge(other.recorded);
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
        // The values of a patch, or a message, may be those of a Secret.
        let is_secret = item.review.is_secret();
        if class == Class::Patches {
            let patch = |side: &Decision| match is_secret {
                true => format!("patch of {} operations", side.patch.len()),
                false => format!("patch: {}", jsonpatch::to_value(&side.patch).to_json()),
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
                _ if is_secret => format!("{effect}: {}", secrets::NOT_SHOWN),
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
                let decisions = pair.decisions(item.stages, &item.review);
                let found = pair.differences(item, &decisions);
                mine.add(item, &decisions, found);
                if let (Some(answer), [old, _]) = (&item.answer, &decisions) {
                    mine.recorded.add(&answer.differences(old));
                }
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
            let item = &example.item;
            let object = minimised(&example.object, |object| {
                fits(object) && pair.still(item, object, *class, policy)
            });
            example.object = secrets::shown(&object, item.review.is_secret());
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
    fn still(&mut self, item: &Item, object: &Value, class: Class, policy: &str) -> bool {
        let review = &item.review;
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
        let decisions = self.decisions(item.stages, &review);
        let found = self.differences(&Item { review, ..item.clone() }, &decisions);
        found.iter().any(|found| {
            found.class == class && (policy.is_empty() || found.policies.contains(policy))
        })
    }
}
