//! Measures the cluster's own policies: what they cost the API server's requests, policy by policy.

use std::{
    cmp::Reverse,
    time::{Duration, Instant},
};

use modgate_api::{
    admissionregistration as registration,
    meta::{GroupVersionKind, Operation},
};
use modgate_engine::{
    Change, OnError, PolicySource, Review, Severity, Snapshot,
    admissionpolicy::{Bindings, NoAuthorizer, ParamObjects, Surroundings, Types},
    cost::Meter,
};
use modgate_value::{Budget, Str, Value};

use super::measure::{Figures, Latencies, Plan, measured};
use crate::{
    object::request_namespace,
    outside::{POLICY, WallClock},
    policies::config,
    review::bare_namespace,
};

/// How the figures of these policies are called among those of engines.
pub(super) const NAME: &str = "policies";

/// Policies whose costs are shown where the user gives no number.
const SHOWN: usize = 20;

/// Whether an object is one of the cluster's own policies, or a binding.
pub(super) fn is_about(object: &Value) -> bool {
    let GroupVersionKind { group, kind, .. } = GroupVersionKind::of_object(object);
    let kinds = [
        registration::POLICY_KIND,
        registration::BINDING_KIND,
        registration::MUTATING_POLICY_KIND,
        registration::MUTATING_BINDING_KIND,
    ];
    group == registration::GROUP && kinds.contains(&kind.as_str())
}

/// The CREATE request for each object is decided over and over: first by the policies that mutate, then by
/// those that validate.
///
/// # Errors
///
/// The first policy or binding that the API server would not store.
pub(super) fn measure(plan: &Plan<'_>) -> Result<Figures, String> {
    let began = Instant::now();
    let changes = plan.policies.iter();
    let changes = changes.map(|it| Change::Upsert(PolicySource::of_object((*it).clone())));
    let update = Snapshot::new(config()).apply(changes.collect(), OnError::Unload);
    let compiled = Instant::now();
    if let Some(problem) = update.problems.iter().find(|it| it.severity == Severity::Error) {
        return Err(problem.to_string());
    }
    let (mut params, mut types) = (ParamObjects::default(), Types::kubernetes().clone());
    for object in &plan.objects {
        params.insert(object);
        if GroupVersionKind::of_object(object).kind == "CustomResourceDefinition" {
            types.define(object);
        }
    }
    let ready = Instant::now();
    let set = update.snapshot.cluster_policies();
    let reviews: Vec<(Review, Option<Value>)> =
        plan.objects.iter().map(|object| request(object)).collect();
    let one = |index: usize, shard: usize| -> Result<(usize, u64), String> {
        let Some((review, namespace)) = reviews.get(index) else { return Ok((0, 0)) };
        let budget = Budget::new(POLICY, &WallClock);
        let surroundings = Surroundings {
            namespace: &|| Ok(namespace.clone()),
            params: &params,
            authorizer: &NoAuthorizer,
            meter: Meter { shard, ..Meter::default() },
            bindings: Bindings::All,
            types: &types,
            assumes_namespace: false,
            conditions_see_namespace: false,
        };
        let mutated = set.mutate(review, &surroundings, &budget)?;
        let denials = mutated.denials.len();
        let changed = mutated.object.map(|object| review.clone().with_object(object));
        let decided = match denials {
            0 => set.validate(changed.as_ref().unwrap_or(review), &surroundings, &budget)?,
            _ => Default::default(),
        };
        let found = denials + decided.denials.len() + decided.warnings.len();
        Ok((found, budget.bytes_spent()))
    };
    for index in (0..plan.warmup).flat_map(|_| 0..reviews.len()) {
        one(index, 0)?;
    }
    let before: Vec<_> = set.costs().collect();
    let started = Instant::now();
    let (durations, violations, bytes) =
        measured(plan, |index, _, shard| one(index, shard).unwrap_or_default())?;
    let total = started.elapsed();
    let mut costs: Vec<_> = set.costs().collect();
    for (now, before) in costs.iter_mut().zip(before) {
        now.cost = now.cost.since(before.cost);
    }
    costs.retain(|each| each.cost.evaluations > 0);
    let cost_time = costs.iter().map(|each| each.cost.time).sum();
    costs.sort_by_key(|each| Reverse(each.cost.time));
    costs.truncate(if plan.top == 0 { SHOWN } else { plan.top });
    let policies = set.names().count();
    let reviews_per_second = durations.len() as f64 / total.as_secs_f64().max(f64::MIN_POSITIVE);
    let (latencies, distribution) = Latencies::of(durations);
    Ok(Figures {
        engine: NAME,
        templates: policies,
        constraints: plan.policies.len() - policies,
        objects: plan.objects.len(),
        iterations: plan.iterations,
        concurrency: plan.concurrency,
        setup: ready - began,
        setup_parts: [Duration::ZERO, compiled - began, Duration::ZERO, ready - compiled],
        total,
        reviews_per_second,
        latencies,
        distribution,
        violations,
        bytes: plan.memory.then_some(bytes),
        stats: Vec::new(),
        costs,
        cost_time,
        skipped_templates: Vec::new(),
        skipped_constraints: Vec::new(),
        referential_data: true,
    })
}

/// The request that creates an object, and its Namespace.
fn request(object: &Value) -> (Review, Option<Value>) {
    let kind = GroupVersionKind::of_object(object);
    let place = request_namespace(object, &kind);
    let namespace = match kind.is_namespace() || place.is_empty() {
        true => None,
        false => bare_namespace(place),
    };
    (Review::of_object(object.clone(), Operation::Create, &Str::from(place)), namespace)
}
