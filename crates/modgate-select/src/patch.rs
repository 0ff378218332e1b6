//! Patch selects: bare paths and the keys they capture.

use std::{collections::BTreeMap, ops::ControlFlow};

use modgate_value::{Budget, Str, Value, regex::Allowance};

use crate::{
    EvalError, Key, ParseError, Val, analysis,
    ast::{Path, Step},
    parse,
    plain::{self, Plain, Scope},
    reads::{self, Read},
    stream::Stream,
};

/// A parsed `patch[].select`: nothing but a path (spec `kubemod.md`, 2.9, strict ).
#[derive(Debug, Clone)]
pub struct PatchSelect {
    text: Box<str>,
    path: Path,
}

/// One selected place.
#[derive(Debug, Clone)]
pub struct Item<'a> {
    /// The keys captured by the multi steps of the path, in path order: what `#0`, `#1`… stand for.
    pub keys: Vec<Key>,
    /// The value there; null counts, undefined never appears.
    pub value: Val<'a>,
}

impl PatchSelect {
    /// Parses a bare path.
    ///
    /// # Errors
    ///
    /// When `text` does not parse or is anything but one path starting with `$` or `@`.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        Self::parse_within(text, &Allowance::default())
    }

    /// Parses a bare path; see [`Expr::parse_within`](crate::Expr::parse_within).
    ///
    /// # Errors
    ///
    /// As [`PatchSelect::parse`].
    pub fn parse_within(text: &str, patterns: &Allowance) -> Result<Self, ParseError> {
        let path = parse::bare_path(text, patterns)?;
        Ok(Self { text: text.into(), path })
    }

    /// The text it was parsed from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The places of the document that the path reads.
    pub fn reads(&self) -> Vec<Read> {
        reads::of_path(&self.path)
    }

    /// How many keys each place captures; `None` where that depends on the document.
    pub fn captures(&self) -> Option<usize> {
        let steps = &self.path.steps;
        let descends = steps.iter().any(|step| matches!(step, Step::Descend));
        (!descends).then(|| steps.iter().filter(|step| step.is_multi()).count())
    }

    /// Whether what it selects may depend on what is at `place`, keys from the root. `false` is
    /// certain.
    pub fn may_read(&self, place: &[&str]) -> bool {
        analysis::path_may_read(&self.path, place)
    }

    /// The selected places in document order. Places with equal keys count once, where the first
    /// and as the last of them.
    ///
    /// # Errors
    ///
    /// Only [`EvalError::Exhausted`]: a path that fails selects nothing.
    pub fn items<'a>(
        &'a self,
        root: &'a Value,
        budget: &Budget<'_>,
    ) -> Result<Vec<Item<'a>>, EvalError> {
        let stream = Stream::new(root, budget);
        let mut items: Vec<Item<'a>> = Vec::new();
        stream.each(&self.path, &mut |trail, cursor| {
            let keys = trail.keys();
            budget.allocate(size_of::<Item<'_>>() + size_of_val(keys.as_slice()))?;
            items.push(Item { keys, value: cursor.into() });
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(if self.path.may_collide() { distinct(items) } else { items })
    }

    /// As [`PatchSelect::items`] by the plain evaluator, which that is measured against.
    ///
    /// # Errors
    ///
    /// As [`PatchSelect::items`].
    pub fn items_plain<'a>(
        &'a self,
        root: &'a Value,
        budget: &Budget<'_>,
    ) -> Result<Vec<Item<'a>>, EvalError> {
        let scope = Scope::new(root, budget);
        let found = Plain::new(None).matches(&self.path, &scope)?;
        let items = found.into_iter().map(|(captures, value)| {
            let keys = plain::flat(&captures).collect();
            Item { keys, value }
        });
        Ok(distinct(items.collect()))
    }
}

/// Joins items with equal keys; KubeMod tells them apart by the texts of the keys.
fn distinct(items: Vec<Item<'_>>) -> Vec<Item<'_>> {
    let mut distinct: Vec<Item<'_>> = Vec::with_capacity(items.len());
    let mut places: BTreeMap<Vec<Str>, usize> = BTreeMap::new();
    for item in items {
        let texts = item.keys.iter().map(Key::text).collect();
        let at = *places.entry(texts).or_insert(distinct.len());
        match distinct.get_mut(at) {
            Some(known) => known.value = item.value,
            None => distinct.push(item),
        }
    }
    distinct
}
