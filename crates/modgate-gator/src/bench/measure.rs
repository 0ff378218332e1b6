//! Runs the reviews and measures them.

use std::{
    cmp::Reverse,
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use modgate_api::constraints::EnforcementPoint;
use modgate_api::meta::ObjectExt as _;
use modgate_engine::{
    Review, Stages,
    constraint::{Admission, Evaluation, Externals, review},
    cost::{Meter, PolicyCost},
    expansion::ExpansionSystem,
    matching::Source,
    mutation::MutationSystem,
};
use modgate_value::{Budget, Limits, Object, Value, gofmt};

use super::args::Engine;
use crate::{
    outside::{POLICY, WallClock},
    policies::{Policies, Settings},
    review::{Session, Timing},
};

/// Maximum number of measured durations. A run with more is refused, because it keeps each in
/// memory.
const MAX_REVIEWS: u64 = 50_000_000;

/// The policies and objects to measure.
#[derive(Debug)]
pub(super) struct Plan<'o> {
    pub(super) templates: Vec<&'o Value>,
    pub(super) constraints: Vec<&'o Value>,
    pub(super) objects: Vec<&'o Value>,
    /// The cluster's own policies and bindings.
    pub(super) policies: Vec<&'o Value>,
    pub(super) iterations: u32,
    pub(super) warmup: u32,
    pub(super) concurrency: u32,
    pub(super) stats: bool,
    pub(super) memory: bool,
    /// Number of constraints to show with their cost.
    pub(super) top: usize,
}

/// The figures of one engine.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    pub(super) engine: &'static str,
    pub(super) templates: usize,
    pub(super) constraints: usize,
    pub(super) objects: usize,
    pub(super) iterations: u32,
    pub(super) concurrency: u32,
    pub(super) setup: Duration,
    /// Client creation, template compilation, constraint loading, data loading.
    pub(super) setup_parts: [Duration; 4],
    pub(super) total: Duration,
    pub(super) latencies: Latencies,
    /// How many reviews took how long.
    pub(super) distribution: Vec<Bin>,
    pub(super) violations: u64,
    pub(super) reviews_per_second: f64,
    /// Bytes of all measured reviews, if requested.
    pub(super) bytes: Option<u64>,
    pub(super) stats: Vec<Stat>,
    /// Cost of constraints in the measured reviews, highest first.
    pub(super) costs: Vec<PolicyCost>,
    /// The time of all constraints.
    pub(super) cost_time: Duration,
    pub(super) skipped_templates: Vec<String>,
    pub(super) skipped_constraints: Vec<String>,
    pub(super) referential_data: bool,
}

impl Figures {
    pub(super) fn reviews(&self) -> u64 {
        u64::from(self.iterations) * self.objects as u64
    }

    pub(super) fn bytes_per_review(&self) -> Option<u64> {
        self.bytes.map(|bytes| bytes / self.reviews().max(1))
    }
}

/// Time of the constraints of one kind for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) kind: String,
    pub(super) nanoseconds: i64,
    pub(super) constraints: i64,
}

/// In whole nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Latencies {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) mean: u64,
    pub(super) p50: u64,
    pub(super) p95: u64,
    pub(super) p99: u64,
}

/// The reviews that took from `from` nanoseconds to less than `to`; those of the last bin, `to` at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) reviews: u64,
}

/// Bins of a distribution.
const BINS: u32 = 48;

/// How durations are distributed, in bins of equal width on a logarithmic scale; none without durations.
fn distribution(sorted: &[u64]) -> Vec<Bin> {
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else { return Vec::new() };
    if min == max {
        return vec![Bin { from: *min, to: *max, reviews: sorted.len() as u64 }];
    }
    // A duration may be 0, which has no logarithm.
    let (least, most) = ((*min).max(1) as f64, (*max).max(2) as f64);
    let edge = |at: u32| match at {
        0 => *min,
        BINS => *max,
        at => {
            let edge = least * (most / least).powf(f64::from(at) / f64::from(BINS));
            (edge.round() as u64).min(*max)
        }
    };
    let mut counted = 0;
    let bins = (0..BINS).map(|at| {
        let (from, to) = (edge(at), edge(at + 1));
        let before = counted;
        counted = match at + 1 {
            BINS => sorted.len(),
            _ => sorted.partition_point(|it| *it < to),
        };
        Bin { from, to, reviews: (counted - before) as u64 }
    });
    // Near to each other, durations have fewer bins: those between two nanoseconds are empty.
    bins.filter(|bin| bin.from < bin.to || bin.reviews > 0).collect()
}

impl Latencies {
    /// The figures of durations, and how these are distributed.
    pub(super) fn of(mut durations: Vec<u64>) -> (Self, Vec<Bin>) {
        durations.sort_unstable();
        (Self::of_sorted(&durations), distribution(&durations))
    }

    fn of_sorted(durations: &[u64]) -> Self {
        let (Some(min), Some(max)) = (durations.first(), durations.last()) else {
            return Self::default();
        };
        let sum: u128 = durations.iter().map(|each| u128::from(*each)).sum();
        let percentile = |percent| percentile(durations, percent);
        Self {
            min: *min,
            max: *max,
            mean: u64::try_from(sum / durations.len() as u128).unwrap_or(u64::MAX),
            p50: percentile(50.0),
            p95: percentile(95.0),
            p99: percentile(99.0),
        }
    }
}

/// By linear interpolation between the two nearest.
fn percentile(sorted: &[u64], percent: f64) -> u64 {
    let rank = percent / 100.0 * sorted.len().saturating_sub(1) as f64;
    let at = |rank: f64| sorted.get(rank as usize).copied().unwrap_or_default() as f64;
    let (lower, upper) = (at(rank.floor()), at(rank.ceil()));
    (lower + (upper - lower) * rank.fract()) as u64
}

impl Plan<'_> {
    /// Measures one engine.
    pub(super) fn measure(&self, engine: Engine) -> Result<Figures, String> {
        let began = Instant::now();
        let settings = Settings::offline();
        let mut policies = Policies::default();
        let created = Instant::now();
        let mut kinds = BTreeSet::new();
        let mut skipped_templates = Vec::new();
        for template in &self.templates {
            let name = template.name();
            let Some(only) = for_engine(template, engine) else {
                skipped_templates.push(name.to_owned());
                continue;
            };
            let compiled = settings
                .template(&only)
                .map_err(|error| format!("adding template {}: {error}", gofmt::quote(name)))?;
            kinds.insert(compiled.kind().clone());
            policies.add_template(compiled);
        }
        let compiled = Instant::now();
        if skipped_templates.len() == self.templates.len() {
            return Err(format!(
                "no templates compatible with {} engine (all {} templates skipped)",
                engine.name(),
                self.templates.len()
            ));
        }
        let mut skipped_constraints = Vec::new();
        for constraint in &self.constraints {
            let name = constraint.name();
            let kind = constraint.get("kind").and_then(Value::as_str).unwrap_or_default();
            if !kinds.contains(kind) {
                skipped_constraints.push(name.to_owned());
                continue;
            }
            policies
                .add_constraint(constraint)
                .map_err(|error| format!("adding constraint {}: {error}", gofmt::quote(name)))?;
        }
        let loaded = Instant::now();
        if skipped_constraints.len() == self.constraints.len() {
            return Err(format!(
                "no constraints loaded (all {} constraints skipped due to missing templates)",
                self.constraints.len()
            ));
        }
        let referential_data = engine == Engine::Rego;
        if referential_data {
            for object in &self.objects {
                policies.add_data(object).map_err(|error| {
                    format!("adding data {}: {error}", gofmt::quote(object.name()))
                })?;
            }
        }
        let ready = Instant::now();
        let run = Run::of(self, &policies);
        run.warm_up();
        let before = run.costs();
        let started = Instant::now();
        let (durations, violations, bytes) = measured(self, |index, session, shard| {
            let admission = run.admissions.get(index);
            admission.map_or((0, 0), |admission| run.one(admission, session, shard))
        })?;
        let total = started.elapsed();
        let reviews = durations.len();
        let (latencies, distribution) = Latencies::of(durations);
        let mut costs = run.costs();
        for (now, before) in costs.iter_mut().zip(before) {
            now.cost = now.cost.since(before.cost);
        }
        costs.retain(|each| each.cost.evaluations > 0);
        let cost_time = costs.iter().map(|each| each.cost.time).sum();
        costs.sort_by_key(|each| Reverse(each.cost.time));
        costs.truncate(self.top);
        Ok(Figures {
            engine: engine.name(),
            templates: self.templates.len() - skipped_templates.len(),
            constraints: self.constraints.len() - skipped_constraints.len(),
            objects: self.objects.len(),
            iterations: self.iterations,
            concurrency: self.concurrency,
            setup: ready - began,
            setup_parts: [created - began, compiled - created, loaded - compiled, ready - loaded],
            total,
            latencies,
            distribution,
            violations,
            reviews_per_second: reviews as f64 / total.as_secs_f64().max(f64::MIN_POSITIVE),
            bytes: self.memory.then_some(bytes),
            costs,
            cost_time,
            stats: if self.stats { run.stats() } else { Vec::new() },
            skipped_templates,
            skipped_constraints,
            referential_data,
        })
    }
}

/// The template with the source of this engine alone; `None` when it has none.
fn for_engine(template: &Value, engine: Engine) -> Option<Value> {
    let targets = template.path(&["spec", "targets"]).and_then(Value::as_array);
    let mut has_source = false;
    let targets: Vec<Value> = targets
        .into_iter()
        .flat_map(|targets| targets.iter())
        .map(|target| {
            let Some(members) = target.as_object() else { return target.clone() };
            let mut members = members.clone();
            match engine {
                Engine::Rego => {
                    let legacy = members.get("rego").and_then(Value::as_str);
                    has_source |= legacy.is_some_and(|rego| !rego.is_empty());
                }
                Engine::Cel => {
                    members.remove("rego");
                    members.remove("libs");
                }
            }
            if let Some(code) = members.get("code").and_then(Value::as_array) {
                let named = |entry: &&Value| {
                    entry.get("engine").and_then(Value::as_str) == Some(engine.in_templates())
                };
                let code: Vec<Value> = code.iter().filter(named).cloned().collect();
                has_source |= !code.is_empty();
                members.insert("code", code.into());
            }
            Object::into(members)
        })
        .collect();
    // The compiler refuses a template without targets.
    if !has_source && !targets.is_empty() {
        return None;
    }
    let mut root = template.as_object()?.clone();
    let mut spec = root.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    if !targets.is_empty() {
        spec.insert("targets", targets.into());
    }
    root.insert("spec", Object::into(spec));
    Some(root.into())
}

/// Objects being reviewed over and over.
struct Run<'p> {
    policies: &'p Policies,
    objects: &'p [&'p Value],
    admissions: Vec<Admission>,
    warmup: u32,
}

impl<'p> Run<'p> {
    fn of(plan: &'p Plan<'_>, policies: &'p Policies) -> Self {
        let admissions = plan.objects.iter().map(|object| {
            Admission::of_object(Value::clone(object), None).with_source(Some(Source::Original))
        });
        Self {
            policies,
            objects: &plan.objects,
            admissions: admissions.collect(),
            warmup: plan.warmup,
        }
    }

    fn warm_up(&self) {
        let mut session = Session::default();
        for _ in 0..self.warmup {
            for admission in &self.admissions {
                self.one(admission, &mut session, 0);
            }
        }
    }

    /// Reviews one object; returns its violations and the bytes used.
    fn one(&self, admission: &Admission, session: &mut Session, shard: usize) -> (usize, u64) {
        let budget = Budget::new(Limits::UNLIMITED, &WallClock);
        let evaluation = Evaluation {
            meter: Meter { shard, ..Meter::default() },
            point: EnforcementPoint::Gator,
            externals: Externals { inventory: &self.policies.inventory, host: &session.outside },
            budget: &budget,
            limits: POLICY,
        };
        let candidates = self.policies.store.candidates(admission);
        let violations = review(candidates, admission, evaluation, &mut session.arena).len();
        (violations, budget.bytes_spent())
    }

    /// The cost of each constraint so far, by kind and name.
    fn costs(&self) -> Vec<PolicyCost> {
        let constraints = self.policies.store.constraints();
        constraints
            .map(|constraint| PolicyCost { policy: constraint.id(), cost: constraint.cost() })
            .collect()
    }

    fn stats(&self) -> Vec<Stat> {
        let mut session = Session::new(false, true);
        let snapshot =
            self.policies.snapshot(MutationSystem::default(), ExpansionSystem::default());
        let timings = self.objects.iter().flat_map(|object| {
            let review = Review::of_existing(Value::clone(object));
            let (inventory, stages) = (&self.policies.inventory, Stages::SUITE_CONSTRAINTS);
            session.decide(&snapshot, inventory, review, None, stages).timings
        });
        let int = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        timings
            .map(|Timing { kind, nanoseconds, constraints, .. }| Stat {
                kind: kind.to_string(),
                nanoseconds: int(nanoseconds),
                constraints: int(constraints.into()),
            })
            .collect()
    }
}

/// Reviews every object of a plan as often as it sets: nanoseconds of every review, and violations and bytes
/// of all together. `one` reviews the object at an index; its last argument numbers the thread.
pub(super) fn measured(
    plan: &Plan<'_>,
    one: impl Fn(usize, &mut Session, usize) -> (usize, u64) + Sync,
) -> Result<(Vec<u64>, u64, u64), String> {
    let objects = plan.objects.len() as u64;
    let reviews = u64::from(plan.iterations) * objects;
    if reviews > MAX_REVIEWS {
        return Err(format!("{reviews} reviews are more than {MAX_REVIEWS}"));
    }
    let next = AtomicU64::new(0);
    let work = |shard: usize| {
        let mut session = Session::default();
        let (mut durations, mut violations, mut bytes) = (Vec::new(), 0, 0);
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= reviews {
                return (durations, violations, bytes);
            }
            let index = usize::try_from(index % objects).unwrap_or_default();
            let began = Instant::now();
            let (found, spent) = one(index, &mut session, shard);
            let took = began.elapsed().as_nanos();
            durations.push(u64::try_from(took).unwrap_or(u64::MAX));
            violations += found as u64;
            bytes += spent;
            // `bench` does not show the output of policies.
            session.outside.take_printed();
        }
    };
    if plan.concurrency <= 1 {
        return Ok(work(0));
    }
    let work = &work;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.concurrency)
            .map(|shard| thread::Builder::new().spawn_scoped(scope, move || work(shard as usize)))
            .collect::<Result<_, _>>()
            .map_err(|error| format!("cannot start workers: {error}"))?;
        let mut all = (Vec::new(), 0, 0);
        for worker in workers {
            let (durations, violations, bytes) =
                worker.join().map_err(|_| "a review panicked".to_owned())?;
            all.0.extend(durations);
            all.1 += violations;
            all.2 += bytes;
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let sorted = [10, 20, 30, 40];
        for (percent, expected) in [(0.0, 10), (50.0, 25), (95.0, 38), (100.0, 40)] {
            assert_eq!(percentile(&sorted, percent), expected, "{percent}");
        }
        assert_eq!(percentile(&[7], 99.0), 7);
        let (latencies, _) = Latencies::of(vec![40, 10, 31, 20]);
        assert_eq!((latencies.min, latencies.max, latencies.mean), (10, 40, 25));
    }

    #[test]
    fn distributions() {
        let wide: Vec<u64> = (0..1_000).map(|it| 1_000 + it * it * it).collect();
        for durations in
            [wide, vec![7], vec![0, 0, 0], vec![5, 6, 7], vec![0, u64::MAX], vec![3; 9]]
        {
            let bins = distribution(&durations);
            let edges: Vec<u64> = bins.iter().flat_map(|bin| [bin.from, bin.to]).collect();
            assert!(edges.is_sorted(), "{bins:?}");
            assert!(bins.len() <= BINS as usize && !bins.is_empty(), "{bins:?}");
            for bin in &bins {
                let is_last = bin == bins.last().expect("one");
                let is_within =
                    |it: &&u64| bin.from <= **it && (**it < bin.to || is_last && **it <= bin.to);
                let within = durations.iter().filter(is_within).count() as u64;
                assert_eq!(bin.reviews, within, "{bin:?} of {bins:?}");
            }
            let all: u64 = bins.iter().map(|bin| bin.reviews).sum();
            assert_eq!(all, durations.len() as u64);
        }
        assert_eq!(distribution(&[]), []);
    }

    #[test]
    fn sources_of_one_engine() {
        let template = |target: &str| {
            let text = format!(r#"{{"spec": {{"targets": [{target}]}}}}"#);
            Value::from_json(text.as_bytes()).expect("template")
        };
        let both = template(
            r#"{"target": "t", "rego": "r", "code": [{"engine": "Rego"}, {"engine": "K8sNativeValidation"}]}"#,
        );
        let only = |engine| for_engine(&both, engine).expect("has a source").to_json();
        assert_eq!(
            only(Engine::Rego),
            r#"{"spec":{"targets":[{"code":[{"engine":"Rego"}],"rego":"r","target":"t"}]}}"#
        );
        assert_eq!(
            only(Engine::Cel),
            r#"{"spec":{"targets":[{"code":[{"engine":"K8sNativeValidation"}],"target":"t"}]}}"#
        );
        assert_eq!(for_engine(&template(r#"{"rego": "r"}"#), Engine::Cel), None);
        assert_eq!(for_engine(&template(r#"{"code": []}"#), Engine::Rego), None);
    }
}
