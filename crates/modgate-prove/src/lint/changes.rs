//! Mutators and Patch rules, alone and in pairs: what a second run changes again, what depends on the order of two
//! policies, and what another policy undoes. Each is shown by an object and by two results.

use modgate_engine::{Code, NoopObserver, Review, Snapshot, Stages, constraint::Arena};
use modgate_value::Value;

use super::{
    Options, Request,
    seeds::{created, hardened, usual},
};
use crate::{
    Side,
    generate::Generator,
    minimise::minimised_within,
    objects::possible::{Possible, as_sent},
};

/// A policy that changes objects.
pub struct Changer<'a> {
    /// The policy alone.
    pub side: Side<'a>,
    /// Its place in the order of evaluation.
    pub order: Order,
}

/// The place of a policy in the order of evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Its name: mutators run before rules, and again until they change nothing.
    Mutator,
    /// Its tier, then its name.
    Rule(i64),
}

/// Several policies, what they are tried with, and how they are combined.
pub struct Changers<'a> {
    /// The policies.
    pub all: &'a [Changer<'a>],
    /// Objects and AdmissionReviews to start from.
    pub seeds: &'a [Value],
    /// The documents of the policies; their texts are tried.
    pub documents: &'a [Value],
    /// The set of two of the policies; `None` if they cannot be together.
    pub together: &'a dyn Fn(usize, usize) -> Option<Snapshot>,
}

/// A finding about a policy, or about two.
#[derive(Debug, Clone)]
pub struct Change {
    /// The code of the mistake.
    pub code: Code,
    /// The policy, by its place among all.
    pub policy: usize,
    /// The other policy.
    pub other: Option<usize>,
    /// The request that shows it.
    pub request: Request,
    /// The object after one run and after two; after both policies in one order and in the other; after the policy alone
    /// and after both, where the second is null if they do not come to an end.
    pub results: [Value; 2],
}

/// Objects that are invented.
const INVENTED: usize = 150;
/// Objects of each policy that pairs are tried with.
const MAX_OBJECTS: usize = 8;
/// Decisions to make one object smaller.
const TRIES: usize = 150;
/// Runs of two mutators until they change nothing.
const MAX_RUNS: usize = 8;

/// Tries policies that change objects; how many of them changed none.
pub fn changes(changers: &Changers<'_>, options: Options) -> (Vec<Change>, Vec<usize>) {
    let Some(first) = changers.all.first() else { return (Vec::new(), Vec::new()) };
    let possible = Possible::new(first.side.host.types(), changers.seeds);
    let left = options.budget.saturating_mul(changers.all.len());
    let mut tried = Tried { changers, arena: Arena::new(), left };
    let objects: Vec<Value> =
        objects(changers, options).into_iter().filter(|object| possible.takes(object)).collect();
    let mut found = Vec::new();
    let (mut unchanged, mut again) = (Vec::new(), Vec::new());
    let mut changed: Vec<Vec<&Value>> = Vec::new();
    for index in 0..changers.all.len() {
        let mut own: Vec<&Value> = Vec::new();
        for object in &objects {
            if own.len() == MAX_OBJECTS {
                break;
            }
            if tried.changes(index, object) {
                own.push(object);
            }
        }
        if own.is_empty() {
            unchanged.push(index);
        }
        if let Some(object) = own.iter().find(|object| tried.twice(index, object).is_some()) {
            again.push(index);
            let small = minimised_within(object, TRIES, |object| {
                possible.takes(object) && tried.twice(index, object).is_some()
            });
            let results = tried.twice(index, &small);
            found.extend(results.map(|results| Change {
                code: Code::NotIdempotent,
                policy: index,
                other: None,
                request: Request::create(small),
                results,
            }));
        }
        changed.push(own);
    }
    let settled: Vec<(usize, &Vec<&Value>)> =
        changed.iter().enumerate().filter(|(index, _)| !again.contains(index)).collect();
    for (position, (one, of_one)) in settled.iter().enumerate() {
        for (two, of_two) in settled.iter().skip(position + 1) {
            found.extend(tried.pair(*one, *two, of_one, of_two, &possible));
        }
    }
    (found, unchanged)
}

/// Given objects, usual ones, invented ones.
fn objects(changers: &Changers<'_>, options: Options) -> Vec<Value> {
    let mut generator = Generator::new(options.seed, changers.documents);
    let texts: Vec<String> = generator.texts().map(ToString::to_string).collect();
    let hardened = hardened(&texts, &[]);
    let mut found: Vec<Value> = changers.seeds.iter().filter_map(created).collect();
    found.extend(usual(&texts, &hardened));
    found.extend((0..INVENTED).map(|_| generator.object()));
    found.into_iter().map(as_sent).collect()
}

/// Runs policies within a budget of decisions.
struct Tried<'c, 'a> {
    changers: &'c Changers<'a>,
    arena: Arena,
    left: usize,
}

impl Tried<'_, '_> {
    /// The object after a policy; `None` if the policy cannot do its work, or the budget is used up.
    fn run(&mut self, index: usize, object: &Value) -> Option<Value> {
        let side = self.changers.all.get(index)?.side;
        self.decide(side, object)
    }

    fn decide(&mut self, side: Side<'_>, object: &Value) -> Option<Value> {
        self.left = self.left.checked_sub(1)?;
        let request = Request::create(object.clone()).document();
        let review = Review::from_request(request.get("request")?).ok()?;
        let decision = side.decide(&review, Stages::ALL, &mut self.arena, &mut NoopObserver);
        let fails = decision.failure.is_some() || !decision.failures.is_empty();
        (!fails).then_some(decision.object)
    }

    fn changes(&mut self, index: usize, object: &Value) -> bool {
        self.run(index, object).is_some_and(|changed| changed != *object)
    }

    /// The object after one run and after two, if they differ.
    fn twice(&mut self, index: usize, object: &Value) -> Option<[Value; 2]> {
        let once = self.run(index, object)?;
        let twice = self.run(index, &once)?;
        (once != *object && twice != once).then_some([once, twice])
    }

    /// The mistakes in two policies together.
    fn pair(
        &mut self,
        one: usize,
        two: usize,
        of_one: &[&Value],
        of_two: &[&Value],
        possible: &Possible<'_>,
    ) -> Option<Change> {
        let together = (self.changers.together)(one, two)?;
        let all = || of_one.iter().chain(of_two).copied();
        let clash = all().find(|object| self.orders(one, two, object).is_some())?;
        // A policy that another one undoes for some objects only may be meant as a default.
        let undone = |tried: &mut Self, policy: usize, other: usize, own: &[&Value]| {
            !own.is_empty()
                && own.iter().all(|object| tried.undone(policy, other, &together, object).is_some())
        };
        let (code, policy, other) = match () {
            () if undone(self, one, two, of_one) => (Code::Defeated, one, two),
            () if undone(self, two, one, of_two) => (Code::Defeated, two, one),
            () if self.order(one)? == self.order(two)? => (Code::OrderDependent, one, two),
            () => return None,
        };
        let start = if code == Code::Defeated && policy == one { of_one } else { of_two };
        let start = if code == Code::OrderDependent { clash } else { start.first()? };
        let mut shows = |object: &Value| match code {
            Code::Defeated => self.undone(policy, other, &together, object),
            _ => self.orders(one, two, object),
        };
        let small = minimised_within(start, TRIES, |object| {
            possible.takes(object) && shows(object).is_some()
        });
        let results = shows(&small)?;
        Some(Change { code, policy, other: Some(other), request: Request::create(small), results })
    }

    fn order(&self, index: usize) -> Option<Order> {
        self.changers.all.get(index).map(|changer| changer.order)
    }

    /// The results of two policies in one order and in the other, if they differ.
    fn orders(&mut self, one: usize, two: usize, object: &Value) -> Option<[Value; 2]> {
        let again = self.order(one)? == Order::Mutator && self.order(two)? == Order::Mutator;
        let mut after = |first: usize, second: usize| {
            let mut now = object.clone();
            for _ in 0..if again { MAX_RUNS } else { 1 } {
                let half = self.run(first, &now)?;
                let next = self.run(second, &half)?;
                if next == now {
                    break;
                }
                now = next;
            }
            Some(now)
        };
        let results = [after(one, two)?, after(two, one)?];
        (results[0] != results[1]).then_some(results)
    }

    /// The object after a policy alone and after both, if nothing of the policy is left.
    fn undone(
        &mut self,
        policy: usize,
        other: usize,
        together: &Snapshot,
        object: &Value,
    ) -> Option<[Value; 2]> {
        let alone = self.run(policy, object)?;
        let by_other = self.run(other, object)?;
        if alone == *object || by_other == *object {
            return None;
        }
        let side = Side { snapshot: together, ..self.changers.all.get(policy)?.side };
        let Some(both) = self.decide(side, object) else {
            // Each undoes what the other one does, so that mutators come to no end.
            return (self.left > 0).then_some([alone, Value::Null]);
        };
        (both == by_other && self.run(policy, &both)? != both).then_some([alone, both])
    }
}
