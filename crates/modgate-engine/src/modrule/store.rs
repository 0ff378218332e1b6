//! The loaded rules and how those a request concerns are found (5.2, 5.3).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use modgate_api::meta::Operation;
use modgate_value::{Str, regex::GoRegex};

use super::compile::{Action, CompiledModRule, Criterion};
use crate::PolicyId;

/// Rules in their total order, indexed. Immutable; [`Store::with`] makes the next one.
#[derive(Debug, Default)]
pub(crate) struct Store {
    by_id: BTreeMap<PolicyId, Arc<CompiledModRule>>,
    /// Sorted by tier, then cluster-rules namespaces before others, then name (5.3), then
    /// namespace.
    ordered: Vec<Entry>,
    /// Rules by the namespace they live in.
    own: HashMap<Str, Bucket>,
    /// Rules of the cluster-rules namespaces, which may reach further.
    cluster: Bucket,
    /// Each distinct `targetNamespaceRegex`, so that it is tried once per request.
    targets: Vec<GoRegex>,
}

/// A loaded rule.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) rule: Arc<CompiledModRule>,
    /// For each criteria item, a number that the same item of other rules has too, if any has it.
    pub(super) shared: Vec<Option<u32>>,
    /// Place of the rule's `targetNamespaceRegex` in [`Store::targets`], if it has an effect.
    target: Option<usize>,
}

/// Which rules a pass is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) rule_type: RuleType,
    pub(super) operation: Operation,
    /// The store namespace of the request.
    pub(super) namespace: &'a str,
    /// The kind of the working document; `None` asks for rules of every kind.
    pub(super) kind: Option<&'a str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleType {
    Patch,
    Reject,
}

impl RuleType {
    pub(super) fn of(rule: &CompiledModRule) -> Self {
        match rule.action {
            Action::Patch(_) => Self::Patch,
            Action::Reject(_) => Self::Reject,
        }
    }
}

/// Positions in [`Store::ordered`], ascending, by rule type, operation and kind.
#[derive(Debug, Default)]
struct Bucket {
    lists: [[ByKind; 3]; 2],
}

#[derive(Debug, Default)]
struct ByKind {
    /// Rules that only match objects of one of these kinds.
    kinds: HashMap<Str, Vec<u32>>,
    /// Rules whose criteria do not say.
    any: Vec<u32>,
    all: Vec<u32>,
}

/// The operations a rule can name.
const OPERATIONS: [Operation; 3] = [Operation::Create, Operation::Update, Operation::Delete];

impl Bucket {
    fn insert(&mut self, position: u32, rule: &CompiledModRule, kinds: Option<&BTreeSet<Str>>) {
        let Some(lists) = self.lists.get_mut(RuleType::of(rule) as usize) else { return };
        for (operation, list) in OPERATIONS.iter().zip(lists) {
            if !rule.operations.contains(*operation) {
                continue;
            }
            list.all.push(position);
            match kinds {
                None => list.any.push(position),
                Some(kinds) => {
                    for kind in kinds {
                        list.kinds.entry(kind.clone()).or_default().push(position);
                    }
                }
            }
        }
    }

    fn lists(&self, query: &Query<'_>) -> impl Iterator<Item = &[u32]> {
        let operation = OPERATIONS.iter().position(|operation| *operation == query.operation);
        let lists = self.lists.get(query.rule_type as usize);
        let list = lists.zip(operation).and_then(|(lists, operation)| lists.get(operation));
        let of_kind = query.kind.and_then(|kind| list?.kinds.get(kind)).map(Vec::as_slice);
        let others =
            list.map(|list| if query.kind.is_some() { &list.any[..] } else { &list.all[..] });
        of_kind.into_iter().chain(others)
    }
}

impl Store {
    /// The store after these changes; `None` removes a rule.
    pub(crate) fn with(
        &self,
        changes: Vec<(PolicyId, Option<CompiledModRule>)>,
        cluster_rules_namespaces: &[Str],
    ) -> Self {
        let mut by_id = self.by_id.clone();
        for (id, rule) in changes {
            match rule {
                Some(rule) => by_id.insert(id, Arc::new(rule)),
                None => by_id.remove(&id),
            };
        }
        let in_cluster =
            |rule: &CompiledModRule| cluster_rules_namespaces.contains(&rule.id.namespace);
        let mut ordered: Vec<Arc<CompiledModRule>> = by_id.values().cloned().collect();
        ordered.sort_by(|a, b| {
            let key = |rule: &CompiledModRule| (rule.tier, !in_cluster(rule));
            key(a)
                .cmp(&key(b))
                .then_with(|| a.id.name.cmp(&b.id.name))
                .then_with(|| a.id.namespace.cmp(&b.id.namespace))
        });
        let shared = Shared::of(&ordered);
        let mut store = Self { by_id, ..Self::default() };
        for (position, rule) in (0_u32..).zip(&ordered) {
            let kinds = required_kinds(rule);
            let own = store.own.entry(rule.id.namespace.clone()).or_default();
            own.insert(position, rule, kinds.as_ref());
            let mut target = None;
            if in_cluster(rule) {
                store.cluster.insert(position, rule, kinds.as_ref());
                target = rule.target.as_ref().map(|regex| store.intern(regex));
            }
            let shared = shared.numbers(rule);
            store.ordered.push(Entry { rule: Arc::clone(rule), shared, target });
        }
        store
    }

    fn intern(&mut self, regex: &GoRegex) -> usize {
        let known = self.targets.iter().position(|known| known.as_str() == regex.as_str());
        known.unwrap_or_else(|| {
            self.targets.push(regex.clone());
            self.targets.len() - 1
        })
    }

    /// Every rule, in order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.ordered
    }

    /// The rules a request may concern, in order: those of its namespace and those of the
    /// cluster-rules namespaces that reach it, each once.
    pub(super) fn candidates(&self, query: &Query<'_>) -> Vec<&Entry> {
        let mut positions: Vec<u32> = Vec::new();
        if !query.namespace.is_empty()
            && let Some(bucket) = self.own.get(query.namespace)
        {
            positions.extend(bucket.lists(query).flatten());
        }
        let mut reached: Vec<Option<bool>> = vec![None; self.targets.len()];
        positions.extend(self.cluster.lists(query).flatten().filter(|position| {
            let target = self.ordered.get(**position as usize).and_then(|entry| entry.target);
            let Some(target) = target else { return query.namespace.is_empty() };
            let (Some(regex), Some(known)) = (self.targets.get(target), reached.get_mut(target))
            else {
                return false;
            };
            *known.get_or_insert_with(|| regex.is_match(query.namespace))
        }));
        positions.sort_unstable();
        positions.dedup();
        positions.into_iter().filter_map(|position| self.ordered.get(position as usize)).collect()
    }

    /// Why a rule is no candidate, looked at one by one; the oracle of [`Store::candidates`].
    pub(super) fn excluded(
        rule: &CompiledModRule,
        operation: Operation,
        namespace: &str,
        cluster_rules_namespaces: &[Str],
    ) -> Option<String> {
        if !rule.operations.contains(operation) {
            return Some(format!("the rule does not react to {operation}"));
        }
        let home = &rule.id.namespace;
        if !namespace.is_empty() && home == namespace {
            return None;
        }
        let requested = if namespace.is_empty() {
            "a cluster-scoped object".to_owned()
        } else {
            format!("namespace `{namespace}`")
        };
        if !cluster_rules_namespaces.contains(home) {
            return Some(format!(
                "the rule is for namespace `{home}`, the request for {requested}"
            ));
        }
        match &rule.target {
            None if namespace.is_empty() => None,
            None => Some(format!(
                "without targetNamespaceRegex the rule is for cluster-scoped objects and \
                 namespace `{home}`, the request is for {requested}"
            )),
            Some(regex) if regex.is_match(namespace) => None,
            Some(regex) => Some(format!(
                "targetNamespaceRegex `{}` does not match {requested}",
                regex.as_str()
            )),
        }
    }
}

/// The kinds a rule can match: those every item that names some can be positive for.
fn required_kinds(rule: &CompiledModRule) -> Option<BTreeSet<Str>> {
    rule.criteria
        .iter()
        .filter_map(|criterion| criterion.kinds.clone())
        .reduce(|a, b| a.intersection(&b).cloned().collect())
}

/// The criteria items more than one rule has.
struct Shared<'r> {
    numbers: HashMap<&'r str, u32>,
}

impl<'r> Shared<'r> {
    fn of(rules: &'r [Arc<CompiledModRule>]) -> Self {
        let mut seen: HashMap<&str, u32> = HashMap::new();
        let mut numbers = HashMap::new();
        for criterion in rules.iter().flat_map(|rule| &rule.criteria) {
            let count = seen.entry(&criterion.fingerprint).or_default();
            *count += 1;
            if *count == 2 {
                let number = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                numbers.insert(criterion.fingerprint.as_str(), number);
            }
        }
        Self { numbers }
    }

    fn numbers(&self, rule: &CompiledModRule) -> Vec<Option<u32>> {
        let number = |criterion: &Criterion| self.numbers.get(&*criterion.fingerprint).copied();
        rule.criteria.iter().map(number).collect()
    }
}
