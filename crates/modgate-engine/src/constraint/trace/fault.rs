//! The fields at fault of violations, from what policies read.

use std::collections::BTreeSet;

use modgate_rego::{
    Program,
    ast::Span,
    eval::{Event, EventKind, Tracer},
    value,
};
use modgate_value::Value;

use super::{ExpressionResult, OWN_MODULES, Placed, Traced};
use crate::{
    PolicyId,
    constraint::{
        admission::Admission,
        compile::CompiledConstraint,
        driver::{Arena, Driver, RegoDriver},
        evaluate::Evaluation,
        store::{ConstraintKey, Store},
    },
    fault::{Places, Step, choose, common, failed, refs, walk},
};

/// The object in `input.review`.
const OBJECT: &str = "/object";
/// The rule whose members are violations.
const VIOLATION: &str = "violation";
/// Reads that are kept for one expression.
const MAX_READS: usize = 1000;
/// Ways to a violation that are kept for one constraint.
const MAX_WAYS: usize = 10_000;

/// For each of these constraints its messages with the pointers of the fields at fault, as far as they
/// are known.
pub fn faults(
    store: &Store,
    keys: &[ConstraintKey],
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
) -> Vec<(PolicyId, Vec<(String, String)>)> {
    let constraints = keys.iter().filter_map(|key| store.constraint(key));
    constraints
        .map(|constraint| {
            (constraint.id(), of_constraint(constraint, admission, evaluation, arena))
        })
        .collect()
}

fn of_constraint(
    constraint: &CompiledConstraint,
    admission: &Admission,
    evaluation: Evaluation<'_>,
    arena: &mut Arena,
) -> Vec<(String, String)> {
    arena.reset();
    let budget = evaluation.budget.child(evaluation.limits);
    match constraint.template().driver() {
        Driver::Rego(driver) => {
            let review = admission.review();
            let mut ways = Ways::new(driver, review);
            let parameters = constraint.parameters();
            let found =
                driver.traced(review, parameters, evaluation.externals, arena, &budget, &mut ways);
            let messages = found.into_iter().flatten().map(|violation| violation.message);
            ways.of_messages(messages)
        }
        Driver::Cel(driver) => {
            let Some(object) = admission.review().get("object") else { return Vec::new() };
            let (input, params) = (admission.cel(), constraint.effective());
            let Traced { violations, expressions } =
                driver.trace(input, params, &arena.cel, &budget);
            // The first of a rule is its expression, the second makes its message.
            let mut rules = BTreeSet::new();
            let failing: Vec<&Placed> = expressions
                .iter()
                .filter(|it| it.rule.starts_with("validations[") && rules.insert(&*it.rule))
                .filter(|it| it.result != ExpressionResult::Held)
                .collect();
            // Failures may be ignored; then it is not known which one a message is of.
            if failing.len() != violations.len() {
                return Vec::new();
            }
            let variables = driver.source().variables.as_deref().unwrap_or_default();
            let variable = |name: &str| {
                let found = variables.iter().find(|variable| variable.name.as_str() == name);
                found.map(|variable| variable.expression.as_str())
            };
            let holds = |text: &str| driver.holds(text, input, params, &arena.cel, &budget);
            let found = violations.into_iter().zip(failing).filter_map(|(message, it)| {
                Some((message, failed(&it.text, &variable, object, &holds)?))
            });
            found.collect()
        }
    }
}

/// The fields that Rego read on each way to a violation.
struct Ways<'p> {
    program: Option<&'p Program>,
    places: Places,
    review: &'p Value,
    /// The expressions of the rule that held on the way so far, each with what it read.
    held: Vec<(Span, Vec<String>)>,
    /// The fields read since the last violation: by other rules, and by expressions that did not
    /// hold.
    pending: Vec<String>,
    /// The texts of the rule's variables.
    texts: Vec<String>,
    /// The texts of each way, one of which is the message, with the field.
    ways: Vec<(Vec<String>, String)>,
}

impl<'p> Ways<'p> {
    fn new(driver: &'p RegoDriver, review: &'p Value) -> Self {
        Self {
            program: driver.written(),
            places: Places::of(review),
            review,
            held: Vec::new(),
            pending: Vec::new(),
            texts: Vec::new(),
            ways: Vec::new(),
        }
    }

    /// The fields of these messages. Where a message is made in the head of the rule, the way is not
    /// known, only what all ways have in common.
    fn of_messages(&self, messages: impl Iterator<Item = String>) -> Vec<(String, String)> {
        let fields = self.ways.iter().map(|(_, pointer)| pointer.as_str());
        let shared = common(fields);
        let found = messages.filter_map(|message| {
            let mut ways = self.ways.iter();
            let way = ways.find(|(texts, _)| texts.contains(&message));
            let pointer = way.map(|(_, pointer)| pointer).or(shared.as_ref())?.clone();
            Some((message, pointer))
        });
        let object = found.filter_map(|(message, pointer)| {
            Some((message, pointer.strip_prefix(OBJECT)?.to_owned()))
        });
        object.collect()
    }

    fn text(&self, span: Span) -> Option<&'p str> {
        let module = self.program?.module(span.module)?;
        if module.name.starts_with(OWN_MODULES) {
            return None;
        }
        module.text.get(span.start as usize..span.end as usize)
    }

    /// The fields of the object that an expression reads.
    fn reads(&self, text: &str, bindings: &[(&str, value::Value<'_>)]) -> Vec<String> {
        let bound = |name: &str| {
            let mut found = bindings.iter().filter(|(known, _)| *known == name);
            // Variables of comprehensions may share a name; which one is meant is not known.
            let (_, value) = found.next()?;
            found.next().is_none().then_some(*value)
        };
        let mut found = Vec::new();
        for it in refs(text).into_iter().take(MAX_READS) {
            let mut steps = it.steps.as_slice();
            let base = match (it.root, steps) {
                ("input", [Step::Member("review"), rest @ ..]) => {
                    steps = rest;
                    Some("")
                }
                (root, _) => bound(root).and_then(|it| self.places.at(it.address()?)),
            };
            let Some(base) = base else { continue };
            let names: Vec<String> = steps
                .iter()
                .map_while(|step| match step {
                    Step::Member(name) | Step::Index(name) => Some((*name).to_owned()),
                    Step::Variable(name) => named(bound(name)?),
                })
                .collect();
            let pointer = walk(self.review, base, names.iter().map(String::as_str));
            found.extend(pointer.filter(|pointer| pointer.starts_with("/object/")));
        }
        found
    }
}

/// A key or an index, as a pointer has it.
fn named(value: value::Value<'_>) -> Option<String> {
    match value.as_str() {
        Some(text) => Some(text.to_owned()),
        None => match value.as_number() {
            Some(value::Num::Int(index)) => Some(index.to_string()),
            _ => None,
        },
    }
}

/// Whether an expression makes a message or details of what was read before.
fn makes_text(text: &str) -> bool {
    let assigned = text.split_once(":=").or_else(|| text.split_once('='));
    let made = assigned.map(|(_, made)| made.trim_start());
    made.is_some_and(|made| {
        ["sprintf(", "concat(", "format_int(", "json.marshal(", "{\"", "\"", "`"]
            .iter()
            .any(|start| made.starts_with(start))
    })
}

fn is_within(inner: Span, outer: Span) -> bool {
    inner.module == outer.module && inner.start >= outer.start && inner.end <= outer.end
}

impl Tracer for Ways<'_> {
    fn event(&mut self, event: Event<'_, '_>) {
        let Some(text) = self.text(event.span) else { return };
        let bindings: Vec<_> = event.bindings().collect();
        if event.rule_name() != Some(VIOLATION) {
            let reads = self.reads(text, &bindings);
            if self.pending.len() < MAX_READS {
                self.pending.extend(reads);
            }
            return;
        }
        let reads = if makes_text(text) { Vec::new() } else { self.reads(text, &bindings) };
        if event.kind == EventKind::Failed {
            if self.pending.len() < MAX_READS {
                self.pending.extend(reads);
            }
            return;
        }
        // The rule tries the expression's next value: what followed the last one is another way.
        if let Some(at) = self.held.iter().position(|(span, _)| *span == event.span) {
            self.held.truncate(at);
            self.pending.clear();
        }
        // The parts of an expression, such as a comprehension, come before it.
        let mut all = Vec::new();
        while let Some((_, part)) = self.held.pop_if(|(span, _)| is_within(*span, event.span)) {
            all.splice(0..0, part);
        }
        all.append(&mut self.pending);
        all.extend(reads);
        self.held.push((event.span, all));
        let texts = bindings.iter().filter_map(|(_, value)| value.as_str()).map(str::to_owned);
        self.texts = texts.collect();
    }

    fn produced(&mut self, branch: Span) {
        let is_way = self.held.last().is_some_and(|(span, _)| is_within(*span, branch));
        if !is_way || self.ways.len() >= MAX_WAYS {
            return;
        }
        let held = self.held.iter().filter(|(span, _)| is_within(*span, branch));
        let reads: Vec<&str> = held.flat_map(|(_, reads)| reads).map(String::as_str).collect();
        let of_object: Vec<&str> = reads.iter().filter_map(|it| it.strip_prefix(OBJECT)).collect();
        if let Some(field) = choose(&of_object) {
            self.ways.push((std::mem::take(&mut self.texts), format!("{OBJECT}{field}")));
        }
    }
}
