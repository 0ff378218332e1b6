//! How each rule came to match or not, and what each operation did.

use std::ops::ControlFlow;

use modgate_select::{EvalError, Shape};
use modgate_value::{Budget, Value};

use super::{
    compile::{Action, CompiledModRule, Criterion, PatchValue, Quantifier, Test},
    matching::{self, Undecided},
    patch::Calculated,
    references,
    run::{self, Observer},
    store::Store,
};
use crate::{
    Decision, EngineConfig, Host, Lookup, Rejection, Review, RuleFailure,
    cost::Meter,
    explain::{CriterionTrace, OperationTrace, RuleOutcome, RuleTrace},
    jsonpatch::{self, Op, Tree},
};

/// How many values of one criteria item are shown.
const MAX_VALUES: usize = 100;

/// As [`run::mutate`], with the actions of every loaded rule: Patch tiers, then Reject tiers, then those
/// that were no candidates.
pub(crate) fn explain(
    store: &Store,
    config: &EngineConfig,
    review: &Review,
    outside: (&dyn Host, Meter<'_>),
) -> (Decision, Vec<RuleTrace>) {
    let (host, _) = outside;
    // Every candidate is visited, so that also those the index leaves out say why.
    let config = EngineConfig { lookup: Lookup::Scan, ..config.clone() };
    let working = references::working_document(review, &config, host);
    let mut tracer = Tracer { config: &config, host, rules: Vec::new() };
    let decision = run::mutate_observed(store, &config, review, outside, working, &mut tracer);
    let mut rules = tracer.rules;
    for entry in store.entries() {
        let rule = &entry.rule;
        if rules.iter().all(|trace| trace.policy != rule.id) {
            let cause = Store::excluded(
                rule,
                review.request().operation,
                review.store_namespace(),
                &config.cluster_rules_namespaces,
            );
            // A candidate that was never visited: there was no working document.
            let cause = cause.unwrap_or_else(|| decision.reason.clone());
            rules.push(trace_of(rule, RuleOutcome::NotCandidate(cause)));
        }
    }
    (decision, rules)
}

fn trace_of(rule: &CompiledModRule, outcome: RuleOutcome) -> RuleTrace {
    RuleTrace {
        policy: rule.id.clone(),
        rule_type: rule.action.rule_type().to_owned(),
        origin: rule.origin.to_string(),
        position: rule.position,
        tier: rule.tier,
        outcome,
        criteria: Vec::new(),
        operations: Vec::new(),
    }
}

struct Tracer<'a> {
    config: &'a EngineConfig,
    host: &'a dyn Host,
    rules: Vec<RuleTrace>,
}

impl Tracer<'_> {
    fn trace_mut(&mut self, rule: &CompiledModRule) -> Option<&mut RuleTrace> {
        self.rules.iter_mut().rev().find(|trace| trace.policy == rule.id)
    }
}

impl Observer for Tracer<'_> {
    fn considered(
        &mut self,
        rule: &CompiledModRule,
        document: &Value,
        matched: &Result<bool, Undecided>,
    ) {
        // Explaining has a budget of its own: it must not change what is decided.
        let budget = Budget::new(self.config.rule_limits, self.host.clock());
        let outcome = match matched {
            // Replaced by what the rule then does.
            Ok(true) => RuleOutcome::Matched,
            Ok(false) => RuleOutcome::NoMatch,
            Err(undecided) => RuleOutcome::Failed(undecided.to_string()),
        };
        let mut trace = trace_of(rule, outcome);
        let mut criteria: Vec<&Criterion> = rule.criteria.iter().collect();
        criteria.sort_by_key(|item| item.index);
        for item in criteria {
            let traced = criterion(item, document, &budget);
            let positive = traced.positive;
            trace.criteria.push(traced);
            if !positive {
                break;
            }
        }
        self.rules.push(trace);
    }

    fn patched(
        &mut self,
        rule: &CompiledModRule,
        before: &Value,
        calculated: &[Calculated],
        failure: Option<&RuleFailure>,
    ) {
        let budget = Budget::new(self.config.rule_limits, self.host.clock());
        let operations = operations(rule, before, calculated, &budget);
        if let Some(trace) = self.trace_mut(rule) {
            trace.operations = operations;
            trace.outcome = match failure {
                None => RuleOutcome::Patched,
                Some(failure) => RuleOutcome::Failed(failure.message.clone()),
            };
        }
    }

    fn rejected(&mut self, rule: &CompiledModRule, rejection: &Rejection) {
        if let Some(trace) = self.trace_mut(rule) {
            trace.outcome = RuleOutcome::Rejected(rejection.clone());
        }
    }
}

fn criterion(item: &Criterion, document: &Value, budget: &Budget<'_>) -> CriterionTrace {
    let mut values = Vec::new();
    let shape = item.select.for_each_value(document, budget, &mut |value| {
        if values.len() < MAX_VALUES {
            values.push(value.text().into_owned());
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    let explanation = match &shape {
        Err(EvalError::Failed { message, .. }) => format!("the expression fails: {message}"),
        Err(EvalError::Exhausted(exhausted)) => exhausted.to_string(),
        Ok(Shape::Absent) => "there is no value".to_owned(),
        Ok(Shape::Bool(value)) => format!("the expression is {value}"),
        Ok(Shape::Single | Shape::List { .. }) if values.is_empty() => {
            "the list of values is empty".to_owned()
        }
        Ok(Shape::List { dropped_undefined: true }) if item.quantifier == Quantifier::All => {
            "one of the values is undefined".to_owned()
        }
        Ok(Shape::Single | Shape::List { .. }) => compared(item, &values),
    };
    if let Ok(Shape::Bool(value)) = &shape {
        values = vec![value.to_string()];
    }
    CriterionTrace {
        index: item.index,
        select: item.select.text().to_owned(),
        test: describe(item),
        position: item.position,
        values,
        explanation,
        positive: matching::is_positive(item, document, budget).unwrap_or(false),
    }
}

fn describe(item: &Criterion) -> String {
    let quantifier = match item.quantifier {
        Quantifier::Any => "",
        Quantifier::All => ", matchFor All",
    };
    let negate = if item.negate { ", negate" } else { "" };
    format!("{}{quantifier}{negate}", item.test)
}

fn compared(item: &Criterion, values: &[String]) -> String {
    let passes = |value: &String| match &item.test {
        Test::Value(expected) => value == expected,
        Test::OneOf(expected) => expected.contains(value),
        Test::Regex(regex) => regex.is_match(value),
        Test::None => true,
    };
    let count = values.iter().filter(|value| passes(value)).count();
    let deciding = match item.quantifier {
        Quantifier::Any => values.iter().find(|value| passes(value)),
        Quantifier::All => values.iter().find(|value| !passes(value)),
    };
    let decided = deciding.map(|value| format!(", decided by `{value}`")).unwrap_or_default();
    format!("{count} of {} values pass{decided}", values.len())
}

/// Applies the operations once more, one by one, to see what each does.
fn operations(
    rule: &CompiledModRule,
    before: &Value,
    calculated: &[Calculated],
    budget: &Budget<'_>,
) -> Vec<OperationTrace> {
    let Action::Patch(steps) = &rule.action else { return Vec::new() };
    let mut document = before.clone();
    let mut traces = Vec::new();
    for Calculated { step, operation, rendered } in calculated {
        let old = jsonpatch::find(&document, &operation.path).cloned();
        let mut tree = Tree::from(document.clone());
        let applied = jsonpatch::apply(&mut tree, operation, budget);
        // An element that is inserted into a list replaces none, although its path names one.
        let grows = operation.op == Op::Add && {
            let len = |document| jsonpatch::parent_len(document, &operation.path);
            len(&tree.clone().into_value()) != len(&document)
        };
        let old = old.filter(|_| !grows);
        let effect = match (&applied, operation.op, &old) {
            (Err(error), _, _) => error.to_string(),
            (Ok(()), Op::Remove, None) => "nothing to remove".to_owned(),
            (Ok(()), Op::Remove, Some(_)) => "removed".to_owned(),
            (Ok(()), Op::Add, None) => "added".to_owned(),
            (Ok(()), Op::Replace | Op::Add, _) => "replaced".to_owned(),
        };
        traces.push(OperationTrace {
            index: *step,
            op: operation.op.as_str().to_owned(),
            position: steps.get(*step).and_then(|step| step.position),
            path: operation.path.clone(),
            rendered: rendered.clone().or_else(|| match &steps.get(*step)?.value {
                PatchValue::Constant(_, text) => text.as_deref().map(str::to_owned),
                PatchValue::Broken(_) | PatchValue::Template(_) => None,
            }),
            value: operation.value.clone(),
            before: old,
            effect,
        });
        if applied.is_err() {
            break;
        }
        document = tree.into_value();
    }
    traces
}
