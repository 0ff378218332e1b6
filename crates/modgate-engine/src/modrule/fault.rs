//! The field at fault of an object that a rule rejects: what its criteria matched.

use std::ops::ControlFlow;

use modgate_select::{List, Map, ReadStep, Val};
use modgate_value::{Budget, Value};

use super::{
    compile::{Action, CompiledModRule, Criterion, Quantifier, Test},
    matching::Undecided,
    patch::Calculated,
    references,
    run::{self, Observer},
    store::Store,
};
use crate::{
    EngineConfig, Host, PolicyId, Rejection, Review, RuleFailure,
    cost::Meter,
    fault::{Places, choose, walk},
};

/// The fields at fault for the Reject rules that match an object. They stand for all messages of a
/// rule, hence beside an empty one.
pub(crate) fn faults(
    store: &Store,
    config: &EngineConfig,
    review: &Review,
    outside: (&dyn Host, Meter<'_>),
) -> Vec<(PolicyId, Vec<(String, String)>)> {
    let working = references::working_document(review, config, outside.0);
    let mut faults = Faults { config, host: outside.0, found: Vec::new() };
    let _ = run::mutate_observed(store, config, review, outside, working, &mut faults);
    faults.found
}

struct Faults<'a> {
    config: &'a EngineConfig,
    host: &'a dyn Host,
    found: Vec<(PolicyId, Vec<(String, String)>)>,
}

impl Observer for Faults<'_> {
    fn considered(
        &mut self,
        rule: &CompiledModRule,
        document: &Value,
        matched: &Result<bool, Undecided>,
    ) {
        if !matches!((matched, &rule.action), (Ok(true), Action::Reject(_))) {
            return;
        }
        let budget = Budget::new(self.config.rule_limits, self.host.clock());
        let places = Places::of(document);
        let mut criteria: Vec<&Criterion> = rule.criteria.iter().collect();
        criteria.sort_by_key(|item| item.index);
        let fields: Vec<String> = criteria
            .iter()
            .flat_map(|item| fields(item, document, &places, &budget))
            .filter(|pointer| !pointer.starts_with("/syntheticRefs"))
            .collect();
        if let Some(field) = choose(&fields) {
            self.found.push((rule.id.clone(), vec![(String::new(), field.to_owned())]));
        }
    }

    fn patched(
        &mut self,
        _: &CompiledModRule,
        _: &Value,
        _: &[Calculated],
        _: Option<&RuleFailure>,
    ) {
    }

    fn rejected(&mut self, _: &CompiledModRule, _: &Rejection) {}
}

/// The fields that an item reads, and behind them the value that decides it.
fn fields(item: &Criterion, document: &Value, places: &Places, budget: &Budget<'_>) -> Vec<String> {
    let reads = item.select.reads();
    let mut found: Vec<String> = reads
        .iter()
        .filter_map(|read| {
            let names = read.steps.iter().map_while(|(step, _)| match step {
                ReadStep::Member(name) => Some(name.as_str()),
                ReadStep::Element => None,
            });
            walk(document, "", names)
        })
        .collect();
    // The path itself comes before those of its filters, and the item tests its values.
    found.reverse();
    let mut deciding = None;
    let _ = item.select.for_each_value(document, budget, &mut |value| {
        if passes(item, &value.text()) == decides(item)
            && let Some(pointer) = address(value).and_then(|address| places.at(address))
        {
            deciding = Some(pointer.to_owned());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found.extend(deciding);
    found
}

/// Whether a value that passes is the one that makes the item positive. With `matchFor: All` all do, and the first
/// stands for them; if it is negated, it is one that does not pass.
fn decides(item: &Criterion) -> bool {
    !(item.negate && item.quantifier == Quantifier::All)
}

fn passes(item: &Criterion, value: &str) -> bool {
    match &item.test {
        Test::Value(expected) => value == expected,
        Test::OneOf(expected) => expected.contains(value),
        Test::Regex(regex) => regex.is_match(value),
        Test::None => true,
    }
}

/// Where a value of the document is in memory.
fn address(value: &Val<'_>) -> Option<usize> {
    match value {
        Val::Str(std::borrow::Cow::Borrowed(text)) if !text.is_empty() => {
            Some(text.as_ptr().addr())
        }
        Val::Array(List::Json(items)) if !items.is_empty() => Some(items.as_ptr().addr()),
        Val::Object(Map::Json(members)) => Some(std::ptr::from_ref(*members).addr()),
        _ => None,
    }
}
