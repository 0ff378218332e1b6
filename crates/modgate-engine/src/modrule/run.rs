//! One review: tier by tier, first Patch rules, then Reject rules (5.3, 5.4).

use std::time::Duration;

use modgate_api::meta::Operation;
use modgate_template::{Env, RejectContext, RenderError};
use modgate_value::{Budget, Value};

use super::{
    changes::Changes,
    compile::{Action, CompiledModRule, PatchStep},
    last_applied::{self, LastApplied},
    matching::{self, Memo, Undecided},
    patch::{self, Calculated},
    references::{self, Reads, Reference, ReferenceError, SYNTHETIC_REFS, Working},
    store::{Entry, Known, Query, RuleType, Store},
    values::Document,
};
use crate::{
    Decision, EngineConfig, FailureKind, Host, Lookup, MissingReference, NodeView, Rejection,
    Review, RuleFailure,
    cost::{Cost, Meter},
    decision::reason,
    jsonpatch::{self, ApplyError, PatchOperation, Tree},
};

/// How many warnings one answer carries; the API server cuts them off at 4 KiB.
const MAX_WARNINGS: usize = 20;

/// Watches a run; [`NoopObserver`] for runs that are not explained.
pub(super) trait Observer {
    /// Whether it sees anything.
    const SEES: bool = true;

    /// The criteria of a candidate of a tier were evaluated on `document`.
    fn considered(
        &mut self,
        rule: &CompiledModRule,
        document: &Value,
        matched: &Result<bool, Undecided>,
    );

    /// A matching Patch rule did, or failed to do, its work on `before`.
    fn patched(
        &mut self,
        rule: &CompiledModRule,
        before: &Value,
        calculated: &[Calculated],
        failure: Option<&RuleFailure>,
    );

    /// A matching Reject rule rejected the request.
    fn rejected(&mut self, rule: &CompiledModRule, rejection: &Rejection);
}

pub(super) struct NoopObserver;

impl Observer for NoopObserver {
    const SEES: bool = false;

    fn considered(&mut self, _: &CompiledModRule, _: &Value, _: &Result<bool, Undecided>) {}
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

/// Patches the object, then asks the Reject rules about the result: KubeMod's dragnet webhook. Unless it `wants_object`,
/// the object of the decision is the one before the patch.
pub(crate) fn mutate(
    store: &Store,
    config: &EngineConfig,
    review: &Review,
    outside: (&dyn Host, Meter<'_>),
    wants_object: bool,
) -> Decision {
    let working = references::working_document(review, config, outside.0);
    let observer = &mut NoopObserver;
    mutate_and_observe(store, config, review, outside, working, (observer, wants_object))
}

/// Asks the Reject rules about the object as it is.
pub(crate) fn validate(
    store: &Store,
    config: &EngineConfig,
    review: &Review,
    (host, meter): (&dyn Host, Meter<'_>),
) -> Decision {
    let working = match references::working_document(review, config, host) {
        Ok(working) => working,
        Err(error) => return unreferenced(config, review, &error),
    };
    let budget = meter.budget(config.request_limits, host.uptime(), host.clock());
    let mut run = Run::new(store, config, review, (host, meter), &budget, working);
    run.reject(&mut NoopObserver);
    run.decide(true)
}

/// [`mutate`] on a given working document.
pub(super) fn mutate_observed<O: Observer>(
    store: &Store,
    config: &EngineConfig,
    review: &Review,
    outside: (&dyn Host, Meter<'_>),
    working: Result<Working, ReferenceError>,
    observer: &mut O,
) -> Decision {
    mutate_and_observe(store, config, review, outside, working, (observer, true))
}

fn mutate_and_observe<O: Observer>(
    store: &Store,
    config: &EngineConfig,
    review: &Review,
    (host, meter): (&dyn Host, Meter<'_>),
    working: Result<Working, ReferenceError>,
    (observer, wants_object): (&mut O, bool),
) -> Decision {
    let working = match working {
        Ok(working) => working,
        Err(error) => return unreferenced(config, review, &error),
    };
    let budget = meter.budget(config.request_limits, host.uptime(), host.clock());
    let mut run = Run::new(store, config, review, (host, meter), &budget, working);
    run.patch(observer);
    run.reject(observer);
    run.decide(wants_object)
}

/// The answer when there is no working document: no rule is looked at (6.3, Q-36). A CONNECT has nothing
/// that a rule could be about; every other request without an object is none that an API server sends: of a
/// collection that is deleted it sends each object (KM-5.5).
fn unreferenced(config: &EngineConfig, review: &Review, error: &ReferenceError) -> Decision {
    let mut decision = Decision::unchanged(review.object().cloned().unwrap_or_default());
    decision.reason = reason::NO_REFERENCES.to_owned();
    let unchecked = config.missing_reference == MissingReference::Allow;
    let is_empty =
        *error == ReferenceError::NoObject && review.operation() == Some(Operation::Connect);
    if !unchecked && !is_empty {
        decision.allowed = false;
        decision.code = 403;
        decision.reason = format!("{}: {error}", reason::NO_REFERENCES);
    }
    decision.failures.push(RuleFailure {
        kind: FailureKind::References,
        rule: String::new(),
        message: error.to_string(),
    });
    decision
}

struct Run<'a> {
    store: &'a Store,
    config: &'a EngineConfig,
    review: &'a Review,
    host: &'a dyn Host,
    budget: &'a Budget<'a>,
    /// The working document before any rule.
    before: Value,
    /// The working document now, but for `changes`.
    document: Value,
    changes: Changes,
    memo: Memo,
    /// The document with a summary of its Node, once some rule that may not see more asked for it.
    summary: Option<Value>,
    summary_memo: Memo,
    /// Whether the document has a Node at all.
    has_node: bool,
    /// How often the document was replaced.
    version: u64,
    /// References that could not be read.
    unread: Vec<(Reference, ReferenceError)>,
    /// When the last rule was done: there the time of the next one begins.
    mark: Duration,
    shard: usize,
    /// Whether rules that keep using up their time are demoted, see [`Meter::uptime`].
    demotes: bool,
    rejections: Vec<Rejection>,
    warnings: Vec<String>,
    failures: Vec<RuleFailure>,
}

impl<'a> Run<'a> {
    fn new(
        store: &'a Store,
        config: &'a EngineConfig,
        review: &'a Review,
        (host, meter): (&'a dyn Host, Meter<'_>),
        budget: &'a Budget<'a>,
        working: Working,
    ) -> Self {
        let Working { document, missing, unread } = working;
        let warnings: Vec<String> = missing.iter().map(ReferenceError::warning).collect();
        let unread_ones = unread.iter().map(|(_, error)| error.to_string());
        let failures = warnings.iter().cloned().chain(unread_ones).map(|message| RuleFailure {
            kind: FailureKind::References,
            rule: String::new(),
            message,
        });
        Self {
            store,
            config,
            review,
            host,
            budget,
            before: document.clone(),
            has_node: references::has_node(&document),
            version: 0,
            document,
            changes: Changes::default(),
            memo: Memo::default(),
            summary: None,
            summary_memo: Memo::default(),
            failures: failures.collect(),
            warnings,
            unread,
            mark: budget.now(),
            shard: meter.shard,
            demotes: meter.uptime.is_some(),
            rejections: Vec::new(),
        }
    }

    /// Makes `document` the one that rules see next.
    fn set_document(&mut self, document: Value) -> Value {
        self.memo.clear();
        self.summary = None;
        self.summary_memo.clear();
        self.has_node = references::has_node(&document);
        self.version += 1;
        std::mem::replace(&mut self.document, document)
    }

    /// Makes the changes of rules part of the document.
    fn settle(&mut self) {
        if let Some(document) = self.changes.take() {
            self.set_document(document);
        }
    }

    /// Whether the rule sees a summary of the Node; it is then in `summary`.
    fn sees_summary(&mut self, rule: &CompiledModRule) -> bool {
        if !self.has_node {
            return false;
        }
        let in_cluster = self.config.cluster_rules_namespaces.contains(&rule.id.namespace);
        let views = &self.config.node_references;
        let view = if in_cluster { views.cluster } else { views.namespaced };
        if view == NodeView::Full {
            return false;
        }
        if self.summary.is_none() {
            self.summary = references::with_node(&self.document, view);
        }
        self.summary.is_some()
    }

    /// The document as the rule sees it.
    fn seen_by(&mut self, rule: &CompiledModRule) -> Value {
        let summary = if self.sees_summary(rule) { self.summary.as_ref() } else { None };
        summary.unwrap_or(&self.document).clone()
    }

    /// Why something that looks at these references cannot be decided, if so.
    fn unread(&self, reads: Reads) -> Option<&ReferenceError> {
        let unread = self.unread.iter().find(|(reference, _)| reads.contains(*reference));
        unread.map(|(_, error)| error)
    }

    fn patch<O: Observer>(&mut self, observer: &mut O) {
        let text = last_applied::text_of(&self.document);
        let mut last_applied = LastApplied::new(text.as_deref());
        let mut tiers = Tiers::new(RuleType::Patch, self);
        while let Some(tier) = tiers.next(self) {
            // All criteria of a tier are decided before any of its patches is applied.
            let mut matching = Vec::new();
            for entry in tier {
                let rule = &*entry.rule;
                let matched = self.matches(entry);
                let seen = self.seen_by(rule);
                observer.considered(rule, &seen, &matched);
                match matched {
                    Ok(true) => matching.push(rule),
                    Ok(false) => {}
                    Err(undecided) => {
                        self.drop_patch(rule, kind_of(&undecided), undecided.to_string());
                    }
                }
            }
            for rule in matching {
                if let Action::Patch(steps) = &rule.action {
                    self.apply(rule, steps, &mut last_applied, observer);
                }
            }
            self.settle();
        }
        let document = last_applied.finish(std::mem::take(&mut self.document));
        self.set_document(document);
        self.mark = self.budget.now();
    }

    /// Applies one rule as a unit: all of its operations or, when anything fails, none (4.8; Q-01).
    fn apply<O: Observer>(
        &mut self,
        rule: &CompiledModRule,
        steps: &[PatchStep],
        last_applied: &mut LastApplied<'_>,
        observer: &mut O,
    ) {
        let budget = self.budget_of(rule);
        self.apply_within(rule, steps, last_applied, observer, &budget);
        self.spent(rule, &budget, 0);
    }

    fn apply_within<O: Observer>(
        &mut self,
        rule: &CompiledModRule,
        steps: &[PatchStep],
        last_applied: &mut LastApplied<'_>,
        observer: &mut O,
        budget: &Budget<'_>,
    ) {
        // What is explained, and a rule that may see a part of the Node, gets a document of its own; so does
        // every rule of the oracle.
        let is_plain = O::SEES || self.has_node || self.config.lookup == Lookup::Scan;
        if is_plain || self.changes.concern(steps) {
            self.settle();
        }
        let summarized = self.sees_summary(rule);
        let seen = self.seen_by(rule);
        let reads = steps.iter().fold(Reads::default(), |all, step| all.and(step.reads));
        if let Some(message) = self.unread(reads).map(ToString::to_string) {
            self.drop_patch(rule, FailureKind::References, message);
            observer.patched(rule, &seen, &[], self.failures.last());
            return;
        }
        let context = patch::Context {
            document: &seen,
            namespace: self.review.store_namespace(),
            budget,
            host: self.host,
        };
        let calculated = match patch::calculate(steps, &context) {
            Ok(calculated) => calculated,
            Err(error) => {
                let kind = if error.is_exhausted() {
                    FailureKind::Budget
                } else {
                    FailureKind::CalculatePatch
                };
                self.drop_patch(rule, kind, error.to_string());
                observer.patched(rule, &seen, &[], self.failures.last());
                return;
            }
        };
        let operations = || calculated.iter().map(|calculated| &calculated.operation);
        let applied = if summarized {
            apply_all(&seen, operations(), budget).map(|document| {
                let document = self.with_all_references(&seen, document);
                self.set_document(document);
            })
        } else {
            self.changes.apply(&self.document, operations(), budget)
        };
        if let Err(error) = applied {
            if !summarized && let Some(document) = self.changes.undone(&self.document) {
                self.set_document(document);
            }
            let kind = match error {
                ApplyError::Exhausted(_) => FailureKind::Budget,
                _ => FailureKind::ApplyPatch,
            };
            self.drop_patch(rule, kind, error.to_string());
            observer.patched(rule, &seen, &calculated, self.failures.last());
            return;
        }
        if self.changes.reach(SYNTHETIC_REFS) {
            self.settle();
        }
        observer.patched(rule, &seen, &calculated, None);
        for missing in calculated.iter().filter(|calculated| calculated.has_no_value()) {
            self.warnings.push(format!(
                "ModRule {}: spec.patch[{}].value: `<no value>` was written to {} (Q-23)",
                rule.label, missing.step, missing.operation.path
            ));
        }
        for not_text in calculated.iter().filter(|calculated| calculated.rendered.is_some()) {
            if let Some(found) = patch::not_text(&not_text.operation) {
                self.warnings.push(format!(
                    "ModRule {}: spec.patch[{}].value: {found}",
                    rule.label, not_text.step
                ));
            }
        }
        if let Err(message) = last_applied.apply(operations(), budget) {
            self.failures.push(RuleFailure {
                kind: FailureKind::LastApplied,
                rule: rule.label.to_string(),
                message: format!("the last-applied annotation is patched no further: {message}"),
            });
        }
    }

    /// The document after a rule, as the rule saw it, with the whole Node again unless the rule
    /// changed a reference.
    fn with_all_references(&self, seen: &Value, document: Value) -> Value {
        let unchanged = document.get(SYNTHETIC_REFS) == seen.get(SYNTHETIC_REFS);
        let whole = self.document.get(SYNTHETIC_REFS);
        if !unchanged || seen.get(SYNTHETIC_REFS) == whole {
            return document;
        }
        references::with_references(&document, whole).unwrap_or(document)
    }

    fn drop_patch(&mut self, rule: &CompiledModRule, kind: FailureKind, message: String) {
        self.warnings.push(format!("ModRule {}: patch dropped: {message}", rule.label));
        self.failures.push(RuleFailure { kind, rule: rule.label.to_string(), message });
    }

    fn reject<O: Observer>(&mut self, observer: &mut O) {
        let mut tiers = Tiers::new(RuleType::Reject, self);
        while let Some(tier) = tiers.next(self) {
            for entry in tier {
                let rule = &*entry.rule;
                let matched = self.matches(entry);
                let seen = self.seen_by(rule);
                observer.considered(rule, &seen, &matched);
                let rejection = match matched {
                    Ok(false) => continue,
                    Ok(true) => self.rejection(rule, &seen),
                    Err(undecided) => {
                        let message = format!("the rule could not be decided: {undecided}");
                        self.failures.push(RuleFailure {
                            kind: kind_of(&undecided),
                            rule: rule.label.to_string(),
                            message: message.clone(),
                        });
                        Rejection {
                            rule: rule.label.clone(),
                            message: Some(message),
                            guidance: rule.guidance.clone(),
                        }
                    }
                };
                observer.rejected(rule, &rejection);
                self.rejections.push(rejection);
            }
        }
    }

    /// The rejection of a matching Reject rule; it stands even if its message cannot be rendered
    /// (5.6).
    fn rejection(&mut self, rule: &CompiledModRule, seen: &Value) -> Rejection {
        let bare =
            Rejection { rule: rule.label.clone(), message: None, guidance: rule.guidance.clone() };
        let Action::Reject(Some(message)) = &rule.action else { return bare };
        let budget = self.budget_of(rule);
        let env = Env { budget: &budget, host: self.host.templates() };
        let context = RejectContext { target: seen, namespace: self.review.store_namespace() };
        // The original's answer is JSON, in which Go replaces bytes that are no text.
        let rendered = message.render_lossy(context, &env);
        self.spent(rule, &budget, 0);
        match rendered {
            Ok(text) => Rejection { message: Some(text), ..bare },
            Err(error) => {
                let kind = match error {
                    RenderError::Exhausted { .. } => FailureKind::Budget,
                    _ => FailureKind::RejectMessage,
                };
                self.failures.push(RuleFailure {
                    kind,
                    rule: rule.label.to_string(),
                    message: error.to_string(),
                });
                bare
            }
        }
    }

    fn matches(&mut self, entry: &Entry) -> Result<bool, Undecided> {
        let budget = self.budget_of(&entry.rule);
        let summarized = self.sees_summary(&entry.rule);
        let (document, memo) = match &self.summary {
            Some(summary) if summarized => (summary, &mut self.summary_memo),
            _ => (&self.document, &mut self.memo),
        };
        let matched = match self.config.lookup {
            _ if !self.unread.is_empty() => {
                matching::matches_unread(&entry.rule, document, &self.unread, &budget)
            }
            Lookup::Index => {
                matching::matches_indexed(entry, document, &budget, memo).map_err(Undecided::from)
            }
            Lookup::Scan => {
                matching::matches(&entry.rule, document, &budget).map_err(Undecided::from)
            }
        };
        self.spent(&entry.rule, &budget, 1);
        matched
    }

    /// The budget of one rule, from the end of the previous one.
    fn budget_of(&self, rule: &CompiledModRule) -> Budget<'a> {
        let limits = match self.demotes {
            true => rule.usage.limits(self.config.rule_limits, || self.host.uptime()),
            false => self.config.rule_limits,
        };
        self.budget.child_since(limits, self.mark)
    }

    /// Counts what a rule cost since the last one was done.
    fn spent(&mut self, rule: &CompiledModRule, budget: &Budget<'_>, evaluations: u64) {
        let now = budget.now();
        let cost = Cost::of(budget, now.saturating_sub(self.mark));
        rule.usage.add(self.shard, Cost { evaluations, ..cost });
        if self.demotes {
            rule.usage.ended(self.config.rule_limits, budget, cost.time, || self.host.uptime());
        }
        self.mark = now;
    }

    fn decide(mut self, wants_object: bool) -> Decision {
        // Only later rules see changes to the references.
        let mut patch =
            jsonpatch::diff(&without_references(&self.before), &without_references(&self.document));
        if self.review.request().operation == Operation::Delete && !patch.is_empty() {
            patch.clear();
            self.warnings.push(
                "the patch of the ModRules for this object is dropped: an object that is being \
                 deleted cannot be changed (Q-34)"
                    .to_owned(),
            );
            self.failures.push(RuleFailure {
                kind: FailureKind::PatchOnDelete,
                rule: String::new(),
                message: "an object that is being deleted cannot be changed".to_owned(),
            });
        }
        let object = self.review.object().cloned().unwrap_or_default();
        let object = match wants_object {
            true => patched(&object, &patch).unwrap_or(object),
            false => object,
        };
        if let Some(more) = self.warnings.len().checked_sub(MAX_WARNINGS).filter(|more| *more > 0) {
            self.warnings.truncate(MAX_WARNINGS);
            self.warnings.push(format!("and {more} more warnings"));
        }
        let allowed = self.rejections.is_empty();
        Decision {
            allowed,
            code: if allowed { 200 } else { 403 },
            reason: if !allowed {
                let rejections: Vec<_> = self.rejections.iter().map(ToString::to_string).collect();
                format!("{}{}", reason::REJECTED, rejections.join(","))
            } else if patch.is_empty() {
                reason::UNCHANGED.to_owned()
            } else {
                reason::PATCHED.to_owned()
            },
            patch: if allowed { patch } else { Vec::new() },
            rejections: self.rejections,
            warnings: self.warnings,
            failures: self.failures,
            ..Decision::unchanged(object)
        }
    }
}

fn apply_all<'o>(
    document: &Value,
    operations: impl Iterator<Item = &'o PatchOperation>,
    budget: &Budget<'_>,
) -> Result<Value, ApplyError> {
    let mut tree = Tree::from(document.clone());
    for operation in operations {
        jsonpatch::apply(&mut tree, operation, budget)?;
    }
    Ok(tree.into_value())
}

/// The object after the patch; the patch only has operations that apply.
fn patched(object: &Value, patch: &[PatchOperation]) -> Option<Value> {
    if patch.is_empty() {
        return None;
    }
    apply_all(object, patch.iter(), &Budget::unlimited()).ok()
}

fn without_references(document: &Value) -> Value {
    references::with_references(document, None).unwrap_or_else(|| document.clone())
}

fn kind_of(undecided: &Undecided) -> FailureKind {
    match undecided {
        Undecided::Exhausted(_) => FailureKind::Budget,
        Undecided::Unread(_) => FailureKind::References,
    }
}

/// The candidates of a pass, tier by tier.
struct Tiers<'s> {
    rule_type: RuleType,
    candidates: std::iter::Peekable<std::vec::IntoIter<&'s Entry>>,
    /// The document the candidates were looked up for, and its version.
    document: Value,
    version: u64,
    /// Whether they depend on values of the document other than those of [`indexed`].
    by_values: bool,
    last: Option<i16>,
}

/// The keys of the index: the kind, and the namespace as the document has it.
fn indexed(document: &Value) -> (Known<'_>, Known<'_>) {
    (Known::at(document, &["kind"]), Known::at(document, &["metadata", "namespace"]))
}

impl<'s> Tiers<'s> {
    fn new(rule_type: RuleType, run: &Run<'s>) -> Self {
        let candidates = Vec::new().into_iter().peekable();
        let mut tiers = Self {
            rule_type,
            candidates,
            document: Value::Null,
            version: 0,
            by_values: false,
            last: None,
        };
        tiers.look_up(run);
        tiers
    }

    fn look_up(&mut self, run: &Run<'s>) {
        let (kind, home) = indexed(&run.document);
        // What could not be read makes rules undecided, which is found one by one.
        let document = run.unread.is_empty().then_some(Document {
            value: &run.document,
            budget: run.budget,
            limits: run.config.rule_limits,
        });
        let query = Query {
            document,
            rule_type: self.rule_type,
            operation: run.review.request().operation,
            namespace: run.review.store_namespace(),
            kind,
            home,
        };
        let (mut found, by_values) = match run.config.lookup {
            Lookup::Index => run.store.candidates(&query),
            Lookup::Scan => (scan(run, &query), false),
        };
        if let Some(last) = self.last {
            found.retain(|entry| entry.rule.tier > last);
        }
        self.document = run.document.clone();
        (self.version, self.by_values) = (run.version, by_values);
        self.candidates = found.into_iter().peekable();
    }

    /// The candidates of the next tier that has any.
    fn next(&mut self, run: &Run<'s>) -> Option<Vec<&'s Entry>> {
        // A rule may have changed what the index goes by.
        if self.last.is_some()
            && self.version != run.version
            && (self.by_values || indexed(&self.document) != indexed(&run.document))
        {
            self.look_up(run);
        }
        let tier = self.candidates.peek()?.rule.tier;
        self.last = Some(tier);
        let mut rules = Vec::new();
        while let Some(rule) = self.candidates.next_if(|entry| entry.rule.tier == tier) {
            rules.push(rule);
        }
        Some(rules)
    }
}

fn scan<'s>(run: &Run<'s>, query: &Query<'_>) -> Vec<&'s Entry> {
    let cluster = &run.config.cluster_rules_namespaces;
    let Query { operation, namespace, .. } = *query;
    let entries = run.store.entries().iter();
    entries
        .filter(|entry| RuleType::of(&entry.rule) == query.rule_type)
        .filter(|entry| Store::excluded(&entry.rule, operation, namespace, cluster).is_none())
        .collect()
}
