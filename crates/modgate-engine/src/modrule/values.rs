//! Rules by the values that they require.
//!
//! Many rules test the same select for texts of their own. It is evaluated once for a document, and
//! the rules that one of its values leaves are looked up. Rules are only left out where the plain
//! evaluator would find that they do not match, without an error: their first item (behind those on
//! the kind and the namespace, which the index knows already) is not positive for any value. A
//! select that fails, or takes more than a rule may spend, leaves none out.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

use modgate_select::Shape;
use modgate_value::{Budget, Str, Value};

use super::{
    compile::{CompiledModRule, Criterion, Quantifier, Test},
    store::Entry,
};

/// A select that fewer rules test is not worth an evaluation of its own.
const FEW: usize = 4;
/// Items that allow more texts are evaluated.
const MAX_TEXTS: usize = 64;

impl Criterion {
    /// The texts of which the select must have one for the item to be positive; `None` where that is
    /// not what the item asks.
    fn texts(&self) -> Option<Vec<&str>> {
        if self.negate || self.quantifier != Quantifier::Any || !self.reads.is_none() {
            return None;
        }
        match &self.test {
            Test::Value(text) => Some(vec![text]),
            Test::OneOf(texts) if texts.len() <= MAX_TEXTS => {
                Some(texts.iter().map(String::as_str).collect())
            }
            Test::OneOf(_) | Test::Regex(_) | Test::None => None,
        }
    }

    /// Where the item stands in the order in which items are evaluated: those that let an index leave
    /// the rule out come first.
    pub(super) fn order(&self) -> u8 {
        if self.kinds.is_some() || self.namespaces.is_some() {
            0
        } else if self.texts().is_some() {
            1
        } else {
            2
        }
    }
}

impl CompiledModRule {
    /// The item whose select is looked up, by its place.
    fn looked_up(&self) -> Option<(usize, &Criterion)> {
        self.criteria.iter().enumerate().find(|(_, criterion)| criterion.order() == 1)
    }
}

/// Rules, and those to visit for a document.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Visited for every document; also new ones until [`Rules::arrange`].
    always: Vec<Entry>,
    selects: Vec<Select>,
}

/// Rules that test the same select.
#[derive(Debug)]
struct Select {
    /// A rule that has it, and its item there.
    rule: Arc<CompiledModRule>,
    item: usize,
    /// Where rules are in `lists`, by the text that they require.
    by_text: HashMap<Str, usize>,
    lists: Vec<Vec<Entry>>,
}

/// The request for which rules are looked up.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    pub(super) value: &'a Value,
    /// Pays for selects; each may spend what one rule may.
    pub(super) budget: &'a Budget<'a>,
    pub(super) limits: modgate_value::Limits,
}

impl Rules {
    pub(super) fn push(&mut self, entry: Entry) {
        self.always.push(entry);
    }

    /// Sorts rules by their selects, once all are there.
    pub(super) fn arrange(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for entry in &self.always {
            if let Some((_, item)) = entry.rule.looked_up() {
                *counts.entry(item.select.text()).or_default() += 1;
            }
        }
        let mut places: BTreeMap<Str, usize> = BTreeMap::new();
        for (text, count) in counts {
            if count >= FEW {
                places.insert(text.into(), places.len());
            }
        }
        if places.is_empty() {
            self.always.shrink_to_fit();
            return;
        }
        let mut selects: Vec<Option<Select>> = Vec::new();
        selects.resize_with(places.len(), || None);
        let mut always = Vec::new();
        for entry in std::mem::take(&mut self.always) {
            let rule = Arc::clone(&entry.rule);
            let found = rule.looked_up().and_then(|(item, criterion)| {
                let place = places.get(criterion.select.text())?;
                Some((item, criterion.texts()?, selects.get_mut(*place)?))
            });
            let Some((item, texts, select)) = found else {
                always.push(entry);
                continue;
            };
            let select = select.get_or_insert_with(|| Select {
                rule: Arc::clone(&rule),
                item,
                by_text: HashMap::new(),
                lists: Vec::new(),
            });
            for text in texts {
                let next = select.lists.len();
                let at = *select.by_text.entry(text.into()).or_insert(next);
                if at == next {
                    select.lists.push(Vec::new());
                }
                select.lists.get_mut(at).into_iter().for_each(|list| list.push(entry.clone()));
            }
        }
        always.shrink_to_fit();
        let mut selects: Vec<Select> = selects.into_iter().flatten().collect();
        let lists = selects.iter_mut().flat_map(|select| &mut select.lists);
        lists.for_each(Vec::shrink_to_fit);
        *self = Self { always, selects };
    }

    /// The rules to visit, some perhaps more than once. Returns whether the document's values were
    /// looked at.
    pub(super) fn find<'s>(
        &'s self,
        document: Option<Document<'_>>,
        found: &mut Vec<&'s Entry>,
    ) -> bool {
        found.extend(&self.always);
        self.selects.iter().for_each(|select| select.find(document, found));
        !self.selects.is_empty()
    }
}

impl Select {
    /// All of its rules where there is no document.
    fn find<'s>(&'s self, document: Option<Document<'_>>, found: &mut Vec<&'s Entry>) {
        let before = found.len();
        let item = self.rule.criteria.get(self.item);
        // Each list is found once, however often the document has its text.
        let mut missing = vec![true; self.lists.len()];
        let shape = document.zip(item).map(|(document, item)| {
            let budget = document.budget.child(document.limits);
            item.select.for_each_value(document.value, &budget, &mut |value| {
                if let Some(at) = self.by_text.get(value.text().as_ref())
                    && missing.get_mut(*at).is_some_and(std::mem::take)
                {
                    found.extend(self.lists.get(*at).into_iter().flatten());
                }
                ControlFlow::Continue(())
            })
        });
        match shape {
            // A boolean decides the item, whatever it is compared with.
            Some(Ok(Shape::Absent | Shape::Single | Shape::List { .. } | Shape::Bool(false))) => {}
            Some(Ok(Shape::Bool(true)) | Err(_)) | None => {
                found.truncate(before);
                found.extend(self.lists.iter().flatten());
            }
        }
    }
}
