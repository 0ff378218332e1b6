//! The loaded rules and how those a request concerns are found (5.2, 5.3).

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
    sync::{Arc, RwLock},
};

use modgate_api::meta::Operation;
use modgate_value::{Str, Value, regex::GoRegex};

use super::{
    compile::{Action, CompiledModRule, Criterion},
    values::{Document, Rules},
};
use crate::PolicyId;

/// Rules in their total order, indexed. Immutable; [`Store::with`] makes the next one.
#[derive(Debug, Default)]
pub(crate) struct Store {
    by_id: BTreeSet<ById>,
    /// Sorted by tier, then cluster-rules namespaces before others, then name (5.3), then
    /// namespace.
    ordered: Vec<Entry>,
    /// Rules by the namespace they live in.
    own: HashMap<Str, Bucket>,
    /// Rules of the cluster-rules namespaces by their `targetNamespaceRegex`.
    cluster: Vec<(Option<Arc<GoRegex>>, Bucket)>,
    /// For namespaces asked about lately, which of `cluster` reach them.
    reaching: RwLock<HashMap<Str, Arc<[usize]>>>,
}

/// A rule in the order of its id.
#[derive(Debug, Clone)]
struct ById(Arc<CompiledModRule>);

impl Borrow<PolicyId> for ById {
    fn borrow(&self) -> &PolicyId {
        &self.0.id
    }
}

impl PartialEq for ById {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ById {}

impl PartialOrd for ById {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ById {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

/// How many namespaces [`Store::reaching`] remembers.
const MAX_REMEMBERED: usize = 4096;

/// A loaded rule. Lists hold copies, so that those a request visits lie side by side in memory
/// however many others there are.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Place in the total order.
    position: u32,
    /// For each of the first criteria items, a number that the same item of other rules has too;
    /// [`Entry::ALONE`] if none has it.
    shared: [u32; 4],
    pub(crate) rule: Arc<CompiledModRule>,
}

impl Entry {
    const ALONE: u32 = u32::MAX;

    /// The criteria items, with their numbers where other rules have them too.
    pub(super) fn criteria(&self) -> impl Iterator<Item = (&Criterion, Option<u32>)> {
        let numbers = self.shared.iter().copied().chain(std::iter::repeat(Self::ALONE));
        let numbers = numbers.map(|number| (number != Self::ALONE).then_some(number));
        self.rule.criteria.iter().zip(numbers)
    }
}

/// Which rules a pass visits.
#[derive(Clone, Copy)]
pub(super) struct Query<'a> {
    pub(super) rule_type: RuleType,
    pub(super) operation: Operation,
    /// The store namespace of the request.
    pub(super) namespace: &'a str,
    /// The kind of the working document.
    pub(super) kind: Known<'a>,
    /// `metadata.namespace` of the working document.
    pub(super) home: Known<'a>,
    /// The working document, if rules are left out by its values, too.
    pub(super) document: Option<Document<'a>>,
}

/// The value at a place of the document, as far as the index uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known<'a> {
    /// A text.
    Text(&'a str),
    /// Nothing: no text can be required of it.
    Missing,
    /// Something else; rules that require some text may still match.
    Other,
}

impl<'a> Known<'a> {
    pub(super) fn at(document: &'a Value, path: &[&str]) -> Self {
        match document.path(path) {
            Some(Value::String(text)) => Self::Text(text),
            None if path.len() == 1 => Self::Missing,
            // A parent that is no object makes the expression fail, or a list of values.
            None => match document.path(path.get(..path.len() - 1).unwrap_or_default()) {
                None | Some(Value::Object(_)) => Self::Missing,
                Some(_) => Self::Other,
            },
            Some(_) => Self::Other,
        }
    }
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

/// Rules, in order, by rule type, operation, and the texts their criteria require.
#[derive(Debug, Default)]
struct Bucket {
    lists: [[Requiring<Requiring<Rules>>; 3]; 2],
}

/// Rules by the text they require of one place of the document.
#[derive(Debug, Default)]
struct Requiring<T> {
    /// Rules that only match if the place has this text; a rule may be with several.
    texts: HashMap<Str, T>,
    /// Rules that do not say.
    any: T,
}

impl<T: Default> Requiring<T> {
    fn for_each_mut(&mut self, texts: Option<&BTreeSet<Str>>, mut then: impl FnMut(&mut T)) {
        match texts {
            None => then(&mut self.any),
            Some(texts) => {
                for text in texts {
                    then(self.texts.entry(text.clone()).or_default());
                }
            }
        }
    }

    fn for_all_mut(&mut self, mut then: impl FnMut(&mut T)) {
        then(&mut self.any);
        #[expect(clippy::iter_over_hash_type, reason = "each is arranged by itself")]
        for list in self.texts.values_mut() {
            then(list);
        }
    }

    fn for_each<'s>(&'s self, place: Known<'_>, mut then: impl FnMut(&'s T)) {
        then(&self.any);
        match place {
            Known::Text(text) => self.texts.get(text).into_iter().for_each(then),
            Known::Missing => {}
            #[expect(clippy::iter_over_hash_type, reason = "what is found is sorted afterwards")]
            Known::Other => {
                for list in self.texts.values() {
                    then(list);
                }
            }
        }
    }
}

/// The operations a rule can name.
const OPERATIONS: [Operation; 3] = [Operation::Create, Operation::Update, Operation::Delete];

impl Bucket {
    fn insert(&mut self, entry: &Entry) {
        let rule = &entry.rule;
        let kinds = required(rule, |criterion| criterion.kinds.as_ref());
        let namespaces = required(rule, |criterion| criterion.namespaces.as_ref());
        let Some(lists) = self.lists.get_mut(RuleType::of(rule) as usize) else { return };
        for (operation, list) in OPERATIONS.iter().zip(lists) {
            if rule.operations.contains(*operation) {
                list.for_each_mut(kinds.as_ref(), |list| {
                    list.for_each_mut(namespaces.as_ref(), |list| list.push(entry.clone()));
                });
            }
        }
    }

    fn arrange(&mut self) {
        for list in self.lists.iter_mut().flatten() {
            list.for_all_mut(|list| list.for_all_mut(Rules::arrange));
        }
    }

    /// Returns whether the document's values were looked at.
    fn find<'s>(&'s self, query: &Query<'_>, found: &mut Vec<&'s Entry>) -> bool {
        let mut looked = false;
        let operation = OPERATIONS.iter().position(|operation| *operation == query.operation);
        let lists = self.lists.get(query.rule_type as usize);
        if let Some(list) = lists.zip(operation).and_then(|(lists, operation)| lists.get(operation))
        {
            list.for_each(query.kind, |list| {
                list.for_each(query.home, |rules| looked |= rules.find(query.document, found));
            });
        }
        looked
    }
}

impl Store {
    /// The store after these changes; `None` removes a rule.
    #[expect(
        clippy::mutable_key_type,
        reason = "rules are ordered by their ids, which never change"
    )]
    pub(crate) fn with(
        &self,
        changes: Vec<(PolicyId, Option<Arc<CompiledModRule>>)>,
        cluster_rules_namespaces: &[Str],
    ) -> Self {
        let mut by_id = self.by_id.clone();
        for (id, rule) in changes {
            match rule {
                Some(rule) => drop(by_id.replace(ById(rule))),
                None => drop(by_id.take(&id)),
            }
        }
        let in_cluster =
            |rule: &CompiledModRule| cluster_rules_namespaces.contains(&rule.id.namespace);
        let mut ordered: Vec<Arc<CompiledModRule>> =
            by_id.iter().map(|ById(rule)| Arc::clone(rule)).collect();
        ordered.sort_by(|a, b| {
            let key = |rule: &CompiledModRule| (rule.tier, !in_cluster(rule));
            key(a)
                .cmp(&key(b))
                .then_with(|| a.id.name.cmp(&b.id.name))
                .then_with(|| a.id.namespace.cmp(&b.id.namespace))
        });
        let shared = Shared::of(&ordered);
        let room = Vec::with_capacity(ordered.len());
        let mut store = Self { by_id, ordered: room, ..Self::default() };
        let mut targets: HashMap<Option<&str>, usize> = HashMap::new();
        for (position, rule) in (0_u32..).zip(&ordered) {
            let entry = Entry { position, shared: shared.numbers(rule), rule: Arc::clone(rule) };
            store.own.entry(rule.id.namespace.clone()).or_default().insert(&entry);
            if in_cluster(rule) {
                let pattern = rule.target.as_deref().map(GoRegex::as_str);
                let at = *targets.entry(pattern).or_insert(store.cluster.len());
                if at == store.cluster.len() {
                    store.cluster.push((rule.target.clone(), Bucket::default()));
                }
                if let Some((_, bucket)) = store.cluster.get_mut(at) {
                    bucket.insert(&entry);
                }
            }
            store.ordered.push(entry);
        }
        #[expect(clippy::iter_over_hash_type, reason = "each is arranged by itself")]
        for bucket in store.own.values_mut() {
            bucket.arrange();
        }
        store.cluster.iter_mut().for_each(|(_, bucket)| bucket.arrange());
        store
    }

    /// Every rule, in order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.ordered
    }

    /// The rules a request may concern, in order: those of its namespace and those of the
    /// cluster-rules namespaces that reach it, each once; and whether they were found by
    /// other values of the document than kind and namespace.
    pub(super) fn candidates(&self, query: &Query<'_>) -> (Vec<&Entry>, bool) {
        let (mut found, mut looked) = (Vec::new(), false);
        if !query.namespace.is_empty()
            && let Some(bucket) = self.own.get(query.namespace)
        {
            looked |= bucket.find(query, &mut found);
        }
        for at in self.reaching(query.namespace).iter() {
            if let Some((_, bucket)) = self.cluster.get(*at) {
                looked |= bucket.find(query, &mut found);
            }
        }
        found.sort_unstable_by_key(|entry| entry.position);
        found.dedup_by_key(|entry| entry.position);
        (found, looked)
    }

    /// Whether any rule may be about objects of this kind's name in a namespace.
    pub(crate) fn may_concern(&self, kind: &str, namespace: &str, operation: Operation) -> bool {
        [RuleType::Patch, RuleType::Reject].into_iter().any(|rule_type| {
            let (kind, home) = (Known::Text(kind), Known::Other);
            let query = Query { rule_type, operation, namespace, kind, home, document: None };
            !self.candidates(&query).0.is_empty()
        })
    }

    /// Which of the cluster-wide rules' targets reach a namespace; empty stands for
    /// cluster-scoped objects.
    fn reaching(&self, namespace: &str) -> Arc<[usize]> {
        let remembered = self.reaching.read().ok().and_then(|known| known.get(namespace).cloned());
        if let Some(remembered) = remembered {
            return remembered;
        }
        let reaches = |target: &Option<Arc<GoRegex>>| match target {
            None => namespace.is_empty(),
            Some(regex) => regex.is_match(namespace),
        };
        let all = self.cluster.iter().enumerate();
        let found: Arc<[usize]> =
            all.filter(|(_, (target, _))| reaches(target)).map(|(at, _)| at).collect();
        if let Ok(mut known) = self.reaching.write()
            && known.len() < MAX_REMEMBERED
        {
            known.insert(namespace.into(), Arc::clone(&found));
        }
        found
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

/// The texts one place must have for a rule to match: those every item that names some allows.
fn required<'r>(
    rule: &'r CompiledModRule,
    texts: impl Fn(&'r Criterion) -> Option<&'r BTreeSet<Str>>,
) -> Option<BTreeSet<Str>> {
    let sets = rule.criteria.iter().filter_map(texts).cloned();
    sets.reduce(|a, b| a.intersection(&b).cloned().collect())
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

    fn numbers(&self, rule: &CompiledModRule) -> [u32; 4] {
        let mut numbers = [Entry::ALONE; 4];
        for (slot, criterion) in numbers.iter_mut().zip(&rule.criteria) {
            *slot = self.numbers.get(&*criterion.fingerprint).copied().unwrap_or(Entry::ALONE);
        }
        numbers
    }
}
