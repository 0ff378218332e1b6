//! A cache of providers' answers (6.4).

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use modgate_engine::mutation::Item;
use modgate_value::{Str, Value};

/// The most bytes of the cache, counted as the JSON text of keys, values and errors and a little for
/// each entry. The oldest answers make room for new ones.
pub const MAX_CACHE_BYTES: usize = 64 << 20;

/// The bytes of an entry beside its texts.
const ENTRY_BYTES: usize = 256;

/// Answers by provider and key.
#[derive(Debug)]
pub(super) struct ResponseCache {
    ttl: Duration,
    max_bytes: usize,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    by_provider: BTreeMap<Str, BTreeMap<Str, Known>>,
    /// The entries in the order in which they came.
    order: BTreeMap<u64, (Str, Str)>,
    count: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Known {
    value: Value,
    error: String,
    /// Since 1970, in whole seconds.
    received: Duration,
    position: u64,
    bytes: usize,
}

impl ResponseCache {
    pub(super) fn new(ttl: Duration) -> Self {
        Self { ttl, max_bytes: MAX_CACHE_BYTES, answers: Mutex::default() }
    }

    /// The answers for `keys`, in their order, and the keys without an answer.
    pub(super) fn look_up(
        &self,
        provider: &str,
        keys: &[Str],
        now: Duration,
    ) -> (Vec<Item>, Vec<Str>) {
        let answers = self.lock();
        let of_provider = answers.by_provider.get(provider);
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for key in keys {
            let fresh = of_provider
                .and_then(|all| all.get(key))
                .filter(|entry| now.saturating_sub(entry.received) <= self.ttl);
            match fresh {
                Some(Known { value, error, .. }) => known.push(Item {
                    key: key.clone(),
                    value: value.clone(),
                    error: error.clone(),
                }),
                None => unknown.push(key.clone()),
            }
        }
        (known, unknown)
    }

    /// Keeps these answers if the provider that gave them is still in force.
    pub(super) fn remember(
        &self,
        provider: &Str,
        items: &[Item],
        now: Duration,
        in_force: impl FnOnce() -> bool,
    ) {
        // Printed before the lock is taken.
        let sizes: Vec<usize> = items.iter().map(size).collect();
        let received = Duration::from_secs(now.as_secs());
        let mut answers = self.lock();
        // Replacing a provider first makes it not be in force, then forgets its answers.
        if !in_force() {
            return;
        }
        for (item, bytes) in items.iter().zip(sizes) {
            if bytes > self.max_bytes {
                continue;
            }
            answers.insert(provider, item, bytes, received);
        }
        while answers.bytes > self.max_bytes && answers.remove_oldest() {}
    }

    /// Drops everything this provider answered.
    pub(super) fn forget(&self, provider: &str) {
        let mut answers = self.lock();
        let Some(gone) = answers.by_provider.remove(provider) else { return };
        for known in gone.values() {
            answers.order.remove(&known.position);
            answers.bytes = answers.bytes.saturating_sub(known.bytes);
        }
    }

    /// Drops what is too old to be used.
    pub(super) fn sweep(&self, now: Duration) {
        let mut answers = self.lock();
        while answers.oldest().is_some_and(|entry| now.saturating_sub(entry.received) > self.ttl) {
            answers.remove_oldest();
        }
    }

    /// A panic cannot leave it half-changed in a way that matters: at worst an entry is forgotten
    /// late.
    fn lock(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Answers {
    fn insert(&mut self, provider: &Str, item: &Item, bytes: usize, received: Duration) {
        let position = self.count;
        self.count += 1;
        let known = Known {
            value: item.value.clone(),
            error: item.error.clone(),
            received,
            position,
            bytes,
        };
        let of_provider = self.by_provider.entry(provider.clone()).or_default();
        if let Some(before) = of_provider.insert(item.key.clone(), known) {
            self.order.remove(&before.position);
            self.bytes = self.bytes.saturating_sub(before.bytes);
        }
        self.order.insert(position, (provider.clone(), item.key.clone()));
        self.bytes += bytes;
    }

    fn oldest(&self) -> Option<&Known> {
        let (_, (provider, key)) = self.order.first_key_value()?;
        self.by_provider.get(provider)?.get(key)
    }

    /// Returns whether there was one.
    fn remove_oldest(&mut self) -> bool {
        let Some((_, (provider, key))) = self.order.pop_first() else { return false };
        if let Some(of_provider) = self.by_provider.get_mut(&provider) {
            if let Some(known) = of_provider.remove(&key) {
                self.bytes = self.bytes.saturating_sub(known.bytes);
            }
            if of_provider.is_empty() {
                self.by_provider.remove(&provider);
            }
        }
        true
    }
}

fn size(item: &Item) -> usize {
    ENTRY_BYTES + 2 * item.key.len() + item.error.len() + item.value.to_json().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn item(key: &str, value: &str) -> Item {
        Item { key: key.into(), value: value.into(), error: String::new() }
    }

    fn keys(keys: &[&str]) -> Vec<Str> {
        keys.iter().copied().map(Str::from).collect()
    }

    #[test]
    fn known_and_unknown_keys() {
        let cache = ResponseCache::new(3 * SECOND);
        let failed = Item { error: "no".to_owned(), ..item("b", "") };
        let items = [item("a", "1"), failed.clone()];
        cache.remember(&"p".into(), &items, 10 * SECOND, || true);
        cache.remember(&"gone".into(), &items, 10 * SECOND, || false);
        let (known, unknown) = cache.look_up("p", &keys(&["c", "b", "a"]), 11 * SECOND);
        assert_eq!((known, unknown), (vec![failed, item("a", "1")], keys(&["c"])));
        assert_eq!(cache.look_up("q", &keys(&["a"]), 11 * SECOND).1, keys(&["a"]));
        assert_eq!(cache.look_up("gone", &keys(&["a"]), 11 * SECOND).1, keys(&["a"]));
    }

    #[test]
    fn answers_age() {
        let cache = ResponseCache::new(3 * SECOND);
        let half = Duration::from_millis(500);
        cache.remember(&"p".into(), &[item("a", "1")], 10 * SECOND + half, || true);
        let unknown = |now| cache.look_up("p", &keys(&["a"]), now).1.len();
        assert_eq!(unknown(13 * SECOND), 0);
        // The time of receipt counts in whole seconds.
        assert_eq!(unknown(13 * SECOND + half), 1);
        cache.remember(&"p".into(), &[item("b", "1")], 12 * SECOND, || true);
        cache.sweep(14 * SECOND);
        assert_eq!(cache.lock().order.len(), 1);
        cache.sweep(16 * SECOND);
        let answers = cache.lock();
        assert_eq!((answers.order.len(), answers.by_provider.len(), answers.bytes), (0, 0, 0));
    }

    #[test]
    fn a_provider_is_forgotten_alone() {
        let cache = ResponseCache::new(SECOND);
        for provider in ["p", "q"] {
            cache.remember(&provider.into(), &[item("a", "1")], SECOND, || true);
        }
        cache.forget("p");
        assert_eq!(cache.look_up("p", &keys(&["a"]), SECOND).0.len(), 0);
        assert_eq!(cache.look_up("q", &keys(&["a"]), SECOND).0.len(), 1);
        assert_eq!(cache.lock().order.len(), 1);
    }

    #[test]
    fn the_oldest_make_room() {
        let mut cache = ResponseCache::new(SECOND);
        cache.max_bytes = 3 * (ENTRY_BYTES + 2 + 3);
        for key in ["a", "b", "c", "a", "d"] {
            cache.remember(&"p".into(), &[item(key, "1")], SECOND, || true);
        }
        let (known, unknown) = cache.look_up("p", &keys(&["a", "b", "c", "d"]), SECOND);
        assert_eq!(known.len(), 3);
        assert_eq!(unknown, keys(&["b"]));
        let huge = "x".repeat(cache.max_bytes);
        cache.remember(&"p".into(), &[item("e", &huge)], SECOND, || true);
        assert_eq!(cache.look_up("p", &keys(&["a", "e"]), SECOND).1, keys(&["e"]));
    }
}
