//! A sorted map whose copies share what did not change.

use std::sync::Arc;

use modgate_rego::value::{Node, Tree};
use modgate_value::{Str, Value};

/// Names, sorted by their bytes, and what is below them.
///
/// They lie in chunks, so that changing one of a hundred thousand in a shared level copies one chunk
/// and the list of chunks: some hundred words each.
#[derive(Debug, Clone, Default)]
pub(super) struct Level {
    /// None is empty.
    chunks: Vec<Chunk>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Chunk {
    /// How many entries the chunks before this one hold.
    start: usize,
    entries: Arc<Vec<Entry>>,
}

type Entry = (Str, Child);

#[derive(Debug, Clone)]
pub(super) enum Child {
    Level(Arc<Level>),
    Object(Value),
}

/// Entries of a full chunk.
const FULL: usize = 256;
/// A chunk with fewer is joined with its neighbour, if both together are half full at most.
const SPARSE: usize = FULL / 4;

/// Where an entry is, or would be.
#[derive(Clone, Copy)]
struct Place {
    chunk: usize,
    at: usize,
}

impl Level {
    pub(super) fn child(&self, key: &str) -> Option<&Child> {
        let Place { chunk, at } = self.find(key).ok()?;
        self.chunks.get(chunk)?.entries.get(at).map(|(_, child)| child)
    }

    /// The child for changing; a shared chunk is copied first.
    pub(super) fn child_mut(&mut self, key: &str) -> Option<&mut Child> {
        let Place { chunk, at } = self.find(key).ok()?;
        let entries = Arc::make_mut(&mut self.chunks.get_mut(chunk)?.entries);
        entries.get_mut(at).map(|(_, child)| child)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Str, &Child)> {
        let entries = self.chunks.iter().flat_map(|chunk| chunk.entries.iter());
        entries.map(|(key, child)| (key, child))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Sets what is below a name; says whether the name is new.
    pub(super) fn insert(&mut self, key: &Str, child: Child) -> bool {
        let Place { chunk, at } = match self.find(key) {
            Ok(_) => {
                if let Some(known) = self.child_mut(key) {
                    *known = child;
                }
                return false;
            }
            Err(place) => place,
        };
        let entry = (key.clone(), child);
        let Some(found) = self.chunks.get_mut(chunk) else {
            self.chunks.push(Chunk { start: self.len, entries: Arc::new(vec![entry]) });
            self.len += 1;
            return true;
        };
        let entries = Arc::make_mut(&mut found.entries);
        entries.insert(at, entry);
        if entries.len() > FULL {
            let entries = Arc::new(entries.split_off(FULL / 2));
            self.chunks.insert(chunk + 1, Chunk { start: 0, entries });
        }
        self.count_from(chunk);
        true
    }

    /// Takes out a name and what is below it; says whether it was there.
    pub(super) fn remove(&mut self, key: &str) -> bool {
        let Ok(Place { chunk, at }) = self.find(key) else { return false };
        let Some(found) = self.chunks.get_mut(chunk) else { return false };
        let entries = Arc::make_mut(&mut found.entries);
        entries.remove(at);
        if entries.is_empty() {
            self.chunks.remove(chunk);
        } else if entries.len() < SPARSE {
            self.join(chunk);
        }
        self.count_from(chunk.saturating_sub(1));
        true
    }

    /// Joins a chunk with the one before it, or the one after it.
    fn join(&mut self, chunk: usize) {
        for left in [chunk.checked_sub(1), Some(chunk)].into_iter().flatten() {
            let len = |at: usize| self.chunks.get(at).map(|chunk| chunk.entries.len());
            let (Some(first), Some(second)) = (len(left), len(left + 1)) else { continue };
            if first + second > FULL / 2 {
                continue;
            }
            let moved = self.chunks.remove(left + 1).entries;
            if let Some(kept) = self.chunks.get_mut(left) {
                Arc::make_mut(&mut kept.entries).extend(moved.iter().cloned());
            }
            return;
        }
    }

    /// Counts again from a chunk on.
    fn count_from(&mut self, chunk: usize) {
        let before = chunk.checked_sub(1).and_then(|before| self.chunks.get(before));
        let mut start = before.map_or(0, |before| before.start + before.entries.len());
        for chunk in self.chunks.iter_mut().skip(chunk) {
            chunk.start = start;
            start += chunk.entries.len();
        }
        self.len = start;
    }

    fn find(&self, key: &str) -> Result<Place, Place> {
        let begins_after = |chunk: &Chunk| chunk.entries.first().is_some_and(|(it, _)| **it > *key);
        let chunk = self.chunks.partition_point(|chunk| !begins_after(chunk)).saturating_sub(1);
        let entries = self.chunks.get(chunk).map_or(&[][..], |chunk| chunk.entries.as_slice());
        match entries.binary_search_by(|(name, _)| name.as_str().cmp(key)) {
            Ok(at) => Ok(Place { chunk, at }),
            Err(at) => Err(Place { chunk, at }),
        }
    }
}

impl Tree for Level {
    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, key: &str) -> Option<Node<'_>> {
        self.child(key).map(Child::node)
    }

    fn entry(&self, index: usize) -> Option<(&str, Node<'_>)> {
        let chunk = match self.chunks.as_slice() {
            [only] => only,
            chunks => {
                let next = chunks.partition_point(|chunk| chunk.start <= index);
                chunks.get(next.checked_sub(1)?)?
            }
        };
        let (key, child) = chunk.entries.get(index.checked_sub(chunk.start)?)?;
        Some((key.as_str(), child.node()))
    }
}

impl Child {
    pub(super) fn level(&self) -> Option<&Level> {
        match self {
            Self::Level(level) => Some(level),
            Self::Object(_) => None,
        }
    }

    pub(super) fn object(&self) -> Option<&Value> {
        match self {
            Self::Object(object) => Some(object),
            Self::Level(_) => None,
        }
    }

    fn node(&self) -> Node<'_> {
        match self {
            Self::Level(level) => Node::Tree(&**level),
            Self::Object(object) => Node::Json(object),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn number(child: &Child) -> i64 {
        child.object().and_then(Value::as_i64).expect("a number")
    }

    fn check(level: &Level, model: &BTreeMap<String, i64>) {
        let found: Vec<_> =
            level.iter().map(|(key, child)| (key.to_string(), number(child))).collect();
        let expected: Vec<_> = model.iter().map(|(key, value)| (key.clone(), *value)).collect();
        assert_eq!(found, expected);
        assert_eq!(Tree::len(level), model.len());
        for (index, (key, _)) in expected.iter().enumerate() {
            assert_eq!(level.entry(index).map(|(key, _)| key), Some(key.as_str()));
            assert!(level.child(key).is_some());
        }
        assert!(level.entry(model.len()).is_none());
        for chunk in &level.chunks {
            assert!((1..=FULL).contains(&chunk.entries.len()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_level_is_a_map(steps in prop::collection::vec((0..900_u32, any::<bool>()), 0..3000)) {
            let (mut level, mut model) = (Level::default(), BTreeMap::new());
            let mut shared = None;
            for (step, (key, add)) in steps.iter().enumerate() {
                let key = Str::from(format!("k{key}"));
                // Keys come in runs, so that levels fill and empty again.
                if *add || step % 1000 < 600 {
                    let number = i64::try_from(step).expect("small");
                    let is_new = model.insert(key.to_string(), number).is_none();
                    prop_assert_eq!(level.insert(&key, Child::Object(number.into())), is_new);
                } else {
                    let was_there = model.remove(key.as_str()).is_some();
                    prop_assert_eq!(level.remove(&key), was_there);
                }
                if step == steps.len() / 2 {
                    shared = Some((level.clone(), model.clone()));
                }
            }
            check(&level, &model);
            if let Some((level, model)) = shared {
                check(&level, &model);
            }
        }
    }

    #[test]
    fn one_change_copies_one_chunk() {
        let mut level = Level::default();
        for index in 0..100_000 {
            level.insert(&format!("pod-{index}").into(), Child::Object(Value::Null));
        }
        let before = level.clone();
        level.insert(&"pod-new".into(), Child::Object(Value::Null));
        let shared = |chunk: &Chunk| {
            before.chunks.iter().any(|before| Arc::ptr_eq(&before.entries, &chunk.entries))
        };
        let copied = level.chunks.iter().filter(|chunk| !shared(chunk)).count();
        assert!(copied <= 2, "{copied} of {}", level.chunks.len());
        assert_eq!(level.len(), before.len() + 1);
    }

    #[test]
    fn emptied_levels_are_small_again() {
        let mut level = Level::default();
        let key = |index: u32| Str::from(format!("pod-{index}"));
        for index in 0..10_000 {
            level.insert(&key(index), Child::Object(Value::Null));
        }
        for index in (0..10_000).filter(|index| index % 100 != 0) {
            level.remove(&key(index));
        }
        assert_eq!(level.len(), 100);
        assert!(level.chunks.len() <= 4, "{}", level.chunks.len());
    }
}
