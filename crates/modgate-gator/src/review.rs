//! Reviews: the engine decides one object or request, and gator's details are kept.

use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use modgate_api::meta::{ObjectExt as _, Operation};
use modgate_engine::{
    Decision, Evaluation, Failure, Faults, Host, HostError, Observer, PlannedResultant, PolicyId,
    Review, Snapshot, Stages, Trace,
    admissionpolicy::{Authorizer, NoAuthorizer, NoParams, Params, Types},
    constraint::{
        Arena, Cause, ConstraintKey, ConstraintOutcome, ConstraintTrace, Driver, ExpressionResult,
        ExpressionTrace, Inventory, Violation,
    },
    cost::{Meter, Statistics},
    expansion::Resultant,
    explain::RuleTrace,
    mutation::MutationExplanation,
    rego::builtins,
    template,
};
use modgate_policies::references::References;
use modgate_value::{Clock, Str, Value, gofmt};

use crate::outside::{Outside, WallClock};

/// One violation, with all printed details.
#[derive(Debug, Clone)]
pub(crate) struct ReviewedViolation {
    pub(crate) violation: Violation,
    /// Whether it has a place for details: those of Rego do, unless the match block could not be
    /// decided.
    pub(crate) has_details: bool,
    /// The trace of the policy, if on.
    pub(crate) trace: Option<String>,
}

/// How long a policy took: Rego for all constraints of a kind, CEL for each of them.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(crate) engine: &'static str,
    pub(crate) kind: Str,
    /// The constraint's name, with CEL.
    pub(crate) constraint: Option<Str>,
    pub(crate) nanoseconds: u128,
    pub(crate) constraints: u64,
    /// `Implied by`, for resultants.
    pub(crate) template: Option<Str>,
}

/// The result of a review.
pub(crate) struct Reviewed {
    pub(crate) decision: Decision,
    pub(crate) outcomes: Vec<ReviewedViolation>,
    pub(crate) timings: Vec<Timing>,
    pub(crate) resultants: Vec<Resultant>,
}

impl Reviewed {
    /// The same, unless a stage failed.
    ///
    /// # Errors
    ///
    /// The failure as gator words it for an object.
    pub(crate) fn of_object(self, object: &Value) -> Result<Self, String> {
        let name = object.name();
        Err(match self.decision.failure.as_deref() {
            None => return Ok(self),
            Some(Failure::Mutation(error)) => {
                format!("error mutating base resource {name}: {error}")
            }
            Some(Failure::Expansion(error)) => {
                format!("error expanding resource {name}: {error}")
            }
            Some(Failure::Admission { error, .. }) => error.to_string(),
            Some(failure) => failure.to_string(),
        })
    }
}

/// State that one thread keeps between reviews.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) arena: Arena,
    pub(crate) outside: Outside,
    /// The objects that the cluster's own policies read: parameters, types, answers of
    /// `authorizer`.
    pub(crate) objects: Option<Arc<References>>,
    tracing: bool,
    timing: bool,
    traced: String,
    /// Whether coverage is measured.
    pub(crate) observes: bool,
    /// Whether the actions of mutators and ModRules are kept now.
    pub(crate) keeps_changes: bool,
    changes: Vec<Trace>,
}

impl Session {
    /// A session that traces constraints, and measures them.
    pub(crate) fn new(tracing: bool, timing: bool) -> Self {
        Self { tracing, timing, ..Self::default() }
    }

    /// The same session, which measures coverage if `observes`.
    pub(crate) fn observing(self, observes: bool) -> Self {
        Self { observes, ..self }
    }

    /// Every trace since the last time; `None` if there is none.
    pub(crate) fn take_traced(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.traced)).filter(|traced| !traced.is_empty())
    }

    /// The actions of mutators and ModRules since the last time, decision by decision.
    pub(crate) fn take_changes(&mut self) -> Vec<Trace> {
        std::mem::take(&mut self.changes)
    }

    /// The fields that these policies read last before they objected to an object. They see it as a request that creates
    /// it: gator's own input of an object alone has no place for what a policy reads.
    pub(crate) fn faults(
        &mut self,
        snapshot: &Snapshot,
        inventory: &Inventory,
        (object, namespace): (&Value, Option<&Value>),
        policies: &BTreeSet<PolicyId>,
    ) -> Faults {
        let review = Review::of_object(object.clone(), Operation::Create, "");
        let host =
            GatorHost { outside: &self.outside, namespace, objects: self.objects.as_deref() };
        let mut evaluation = Evaluation::new(&host, inventory, &mut self.arena);
        snapshot.faults(&review, policies, &mut evaluation)
    }

    /// Runs stages of a review. `namespace` is the Namespace of the object, if it is known.
    pub(crate) fn decide(
        &mut self,
        snapshot: &Snapshot,
        inventory: &Inventory,
        review: Review,
        namespace: Option<&Value>,
        stages: Stages,
    ) -> Reviewed {
        let review = review.with_namespace(namespace.cloned());
        let host =
            GatorHost { outside: &self.outside, namespace, objects: self.objects.as_deref() };
        let statistics = self.timing.then(Statistics::default);
        let meter = Meter { statistics: statistics.as_ref(), ..Meter::default() };
        let arena = &mut self.arena;
        let mut evaluation = Evaluation { meter, ..Evaluation::new(&host, inventory, arena) };
        if self.tracing || self.keeps_changes {
            let mut watch = Watch::<true>::new(statistics.as_ref());
            let decision = snapshot.decide(&review, stages, &mut evaluation, &mut watch);
            let reviewed = watch.reviewed(decision, snapshot);
            if self.tracing {
                self.traced.push_str(&watch.traced());
            }
            if self.keeps_changes {
                self.changes.push(watch.trace);
            }
            reviewed
        } else {
            let mut watch = Watch::<false>::new(statistics.as_ref());
            let decision = snapshot.decide(&review, stages, &mut evaluation, &mut watch);
            watch.reviewed(decision, snapshot)
        }
    }
}

/// Keeps the details that gator shows besides the decision.
struct Watch<'s, const EXPLAINS: bool> {
    trace: Trace,
    statistics: Option<&'s Statistics>,
    timings: Vec<Timing>,
    resultants: Vec<Resultant>,
}

impl<const EXPLAINS: bool> Observer for Watch<'_, EXPLAINS> {
    const EXPLAINS: bool = EXPLAINS;

    fn mutators(&mut self, explanation: MutationExplanation) {
        self.trace.mutators(explanation);
    }

    fn modrules(&mut self, rules: Vec<RuleTrace>) {
        self.trace.modrules(rules);
    }

    fn constraints(&mut self, traces: Vec<ConstraintTrace>) {
        self.trace.constraints(traces);
    }

    fn resultant(&mut self, resultant: &Resultant, traces: Vec<ConstraintTrace>) {
        self.trace.resultant(resultant, traces);
    }

    fn reviewed(&mut self, resultant: Option<&Resultant>) {
        let counted = self.statistics.into_iter().flat_map(Statistics::take);
        self.timings.extend(counted.map(|(evaluated, figures)| Timing {
            engine: evaluated.engine(),
            kind: evaluated.kind,
            constraint: evaluated.name,
            nanoseconds: figures.time.as_nanos(),
            constraints: figures.constraints,
            template: resultant.map(|resultant| resultant.template.name().clone()),
        }));
    }

    fn expanded(&mut self, resultants: Vec<Resultant>) {
        self.resultants = resultants;
    }
}

impl<'s, const EXPLAINS: bool> Watch<'s, EXPLAINS> {
    fn new(statistics: Option<&'s Statistics>) -> Self {
        let (trace, timings, resultants) = (Trace::default(), Vec::new(), Vec::new());
        Self { trace, statistics, timings, resultants }
    }

    fn reviewed(&mut self, mut decision: Decision, snapshot: &Snapshot) -> Reviewed {
        let violations = std::mem::take(&mut decision.violations);
        let outcomes = violations.into_iter().map(|violation| {
            let key =
                ConstraintKey { kind: violation.kind.clone(), name: violation.constraint.clone() };
            let constraint = snapshot.constraints().constraint(&key);
            let is_rego = constraint
                .is_some_and(|known| matches!(known.template().driver(), Driver::Rego(_)));
            ReviewedViolation {
                has_details: is_rego && violation.cause != Cause::MatchError,
                trace: self.trace_of(&violation).map(trace_text),
                violation,
            }
        });
        Reviewed {
            outcomes: outcomes.collect(),
            decision,
            timings: std::mem::take(&mut self.timings),
            resultants: std::mem::take(&mut self.resultants),
        }
    }

    /// How the constraint of a violation came to its result.
    fn trace_of(&self, violation: &Violation) -> Option<&ConstraintTrace> {
        let traces = match violation.resultant {
            None => &self.trace.constraints,
            Some(index) => &self.trace.resultants.get(index)?.constraints,
        };
        let is_it = |trace: &&ConstraintTrace| {
            trace.policy.kind == violation.kind && trace.policy.name == violation.constraint
        };
        traces.iter().find(is_it).filter(|trace| is_evaluated(trace))
    }

    /// Every constraint that was evaluated.
    fn traced(&self) -> String {
        let resultants = &self.trace.resultants;
        let implied =
            resultants.iter().flat_map(|PlannedResultant { constraints, .. }| constraints);
        let all = self.trace.constraints.iter().chain(implied);
        all.filter(|trace| is_evaluated(trace)).map(trace_text).collect()
    }
}

fn is_evaluated(trace: &ConstraintTrace) -> bool {
    matches!(trace.outcome, ConstraintOutcome::Satisfied | ConstraintOutcome::Violated)
}

/// The machine, and the Namespace of the object. Other Namespaces are as the API server creates
/// them from a name.
struct GatorHost<'a> {
    outside: &'a Outside,
    namespace: Option<&'a Value>,
    objects: Option<&'a References>,
}

impl Host for GatorHost<'_> {
    fn clock(&self) -> &dyn Clock {
        &WallClock
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        let known = self.namespace.filter(|known| known.name() == name).cloned();
        known.or_else(|| bare_namespace(name)).ok_or_else(|| {
            HostError::NotFound(format!("namespaces {} not found", gofmt::quote(name)))
        })
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("nodes {} not found", gofmt::quote(name))))
    }

    fn templates(&self) -> &dyn template::Host {
        self.outside
    }

    fn policies(&self) -> &dyn builtins::Host {
        self.outside
    }

    fn parameters(&self) -> &dyn Params {
        match self.objects {
            Some(objects) => objects,
            None => &NoParams,
        }
    }

    fn types(&self) -> &Types {
        match self.objects {
            Some(objects) => objects.types(),
            None => Types::kubernetes(),
        }
    }

    fn authorizer(&self) -> &dyn Authorizer {
        match self.objects {
            Some(objects) => objects.authorizer(),
            None => &NoAuthorizer,
        }
    }
}

/// A Namespace as the API server creates it from a name; `None` for an empty name.
pub(crate) fn bare_namespace(name: &str) -> Option<Value> {
    if name.is_empty() {
        return None;
    }
    let labels: Value = [("kubernetes.io/metadata.name", Value::from(name))].into_iter().collect();
    let metadata: Value = [("name", Value::from(name)), ("labels", labels)].into_iter().collect();
    let members =
        [("apiVersion", "v1".into()), ("kind", "Namespace".into()), ("metadata", metadata)];
    Some(members.into_iter().collect())
}

/// How a constraint came to its result, a line for each expression of its policy that was tried.
fn trace_text(trace: &ConstraintTrace) -> String {
    let mut out = format!("{} {} ({})\n", trace.policy.kind, trace.policy.name, trace.engine);
    for expression in &trace.expressions {
        let ExpressionTrace { rule, module, text, result, values, .. } = expression;
        let result = match result {
            ExpressionResult::Held => "held".to_owned(),
            ExpressionResult::Failed => "failed".to_owned(),
            ExpressionResult::Mixed(held, failed) => format!("held {held}, failed {failed} times"),
            ExpressionResult::Value(value) => value.clone(),
            ExpressionResult::Error(error) => format!("error: {error}"),
            _ => String::new(),
        };
        let place = if module.is_empty() { String::new() } else { format!("{module} ") };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(out, "  {place}{rule}: {text}: {result}");
        let values: Vec<String> =
            values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if !values.is_empty() {
            let _ = write!(out, " ({})", values.join(", "));
        }
        out.push('\n');
    }
    if trace.omitted > 0 {
        let _ = writeln!(out, "  and {} more", trace.omitted);
    }
    for note in trace.notes.iter().flat_map(|note| note.lines()) {
        let _ = writeln!(out, "  note: {note}");
    }
    out
}
