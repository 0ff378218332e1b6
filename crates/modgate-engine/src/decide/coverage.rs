//! Coverage of policies that change objects, from their explanations.

use modgate_value::Value;

use crate::{
    PolicyId, Snapshot,
    coverage::{Coverage, Hits, PlaceKind},
    explain::{RuleOutcome, RuleTrace},
    matching::Criterion,
    mutation::{MutatorOutcome, MutatorTrace},
};

impl Snapshot {
    /// The coverage of the expressions and messages of one of the cluster's own policies, and of
    /// the Go templates of a ModRule; empty unless
    /// [`observed`](crate::constraint::TemplateOptions::observed) is on.
    pub fn coverage(&self, policy: &Value) -> Coverage {
        let mut id = PolicyId::of_object(policy);
        let mut coverage = self.cluster_policies().coverage_of(&id).unwrap_or_default();
        if id.namespace.is_empty() {
            id.namespace = self.config().default_namespace.clone();
        }
        let known = self.modrules().entries().iter().find(|entry| entry.rule.id == id);
        if let Some(entry) = known {
            entry.rule.add_templates(policy, &mut coverage);
        }
        coverage
    }
}

impl Coverage {
    /// The criteria, operations and the message of a ModRule, none of them reached yet.
    pub fn of_modrule(rule: &Value) -> Self {
        let mut coverage = Self::default();
        for index in 0..items(rule, "match").len() {
            coverage.decides(criterion(index), PlaceKind::Match, None);
        }
        for (index, operation) in items(rule, "patch").iter().enumerate() {
            coverage.field(operation_field(index), PlaceKind::Branch, Hits::default());
            if operation.get("select").is_some_and(|select| !select.is_null()) {
                coverage.decides(select(index), PlaceKind::Expression, None);
            }
        }
        if rule.path(&["spec", "rejectMessage"]).is_some() {
            coverage.field(REJECT_MESSAGE, PlaceKind::Message, Hits::default());
        }
        coverage
    }

    /// Counts what one evaluation of a ModRule reached.
    pub fn modrule(&mut self, trace: &RuleTrace) {
        for item in &trace.criteria {
            self.decides(criterion(item.index), PlaceKind::Match, Some(item.positive));
        }
        if let RuleOutcome::Rejected(_) = trace.outcome {
            self.known(REJECT_MESSAGE.to_owned(), PlaceKind::Message, Hits::plain(1));
        }
        if trace.outcome != RuleOutcome::Patched {
            return;
        }
        let applied = |index: usize| {
            trace.operations.iter().filter(|operation| operation.index == index).count() as u64
        };
        for index in 0..self.operations() {
            self.known(operation_field(index), PlaceKind::Branch, Hits::plain(applied(index)));
            let found = applied(index) > 0;
            self.known(select(index), PlaceKind::Expression, Hits::decided(found));
        }
    }

    /// The criteria, the location and the value of a mutator, none of them reached yet.
    pub fn of_mutator(mutator: &Value) -> Self {
        let mut coverage = Self::default();
        if mutator.path(&["spec", "applyTo"]).is_some() {
            coverage.decides(APPLY_TO.to_owned(), PlaceKind::Match, None);
        }
        for criterion in Criterion::ALL {
            if mutator.path(&["spec", "match", criterion.as_str()]).is_some() {
                coverage.decides(match_field(criterion), PlaceKind::Match, None);
            }
        }
        coverage.decides(LOCATION.to_owned(), PlaceKind::Match, None);
        coverage.field(PARAMETERS, PlaceKind::Branch, Hits::default());
        coverage
    }

    /// Counts what one pass of a mutator reached.
    pub fn mutator(&mut self, trace: &MutatorTrace) {
        let (excluded_by, applied) = match &trace.outcome {
            MutatorOutcome::Conflicting(_) | MutatorOutcome::Failed(_) => return,
            MutatorOutcome::NotAppliedTo => {
                return self.known(APPLY_TO.to_owned(), PlaceKind::Match, Hits::decided(false));
            }
            MutatorOutcome::NoMatch(criterion) => (Some(criterion.as_str()), false),
            MutatorOutcome::Stopped => (None, false),
            MutatorOutcome::Unchanged | MutatorOutcome::Changed => (None, true),
        };
        self.known(APPLY_TO.to_owned(), PlaceKind::Match, Hits::decided(true));
        for criterion in Criterion::ALL {
            let holds = excluded_by != Some(criterion.as_str());
            self.known(match_field(criterion), PlaceKind::Match, Hits::decided(holds));
            if !holds {
                return;
            }
        }
        self.known(LOCATION.to_owned(), PlaceKind::Match, Hits::decided(applied));
        if trace.outcome == MutatorOutcome::Changed {
            self.known(PARAMETERS.to_owned(), PlaceKind::Branch, Hits::plain(1));
        }
    }

    /// Adds a place with two results, and a result.
    fn decides(&mut self, field: String, kind: PlaceKind, held: Option<bool>) {
        let hits = held.map_or_else(Hits::default, Hits::decided);
        self.field(field, kind, Hits { decides: true, ..hits });
    }

    /// Adds to the counts of a place, if the policy has it.
    fn known(&mut self, field: String, kind: PlaceKind, hits: Hits) {
        self.add_known(field, kind, hits);
    }

    /// How many operations the ModRule has.
    fn operations(&self) -> usize {
        self.iter().filter(|(spot, _)| spot.kind == PlaceKind::Branch).count()
    }
}

const REJECT_MESSAGE: &str = "spec.rejectMessage";
const APPLY_TO: &str = "spec.applyTo";
const LOCATION: &str = "spec.location";
const PARAMETERS: &str = "spec.parameters";

fn items<'v>(rule: &'v Value, list: &str) -> &'v [Value] {
    rule.path(&["spec", list]).and_then(Value::as_array).map_or(&[], |items| items)
}

fn criterion(index: usize) -> String {
    format!("spec.match[{index}]")
}

fn operation_field(index: usize) -> String {
    format!("spec.patch[{index}]")
}

fn select(index: usize) -> String {
    format!("spec.patch[{index}].select")
}

fn match_field(criterion: Criterion) -> String {
    format!("spec.match.{}", criterion.as_str())
}
