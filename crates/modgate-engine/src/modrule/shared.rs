//! Parts that several rules have alike. Thousands of rules may ask for the same kind, and a parsed expression takes
//! kilobytes.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use modgate_select::PatchSelect;
use modgate_value::Str;

use super::compile::Condition;

/// The parts that some rule holds, by their texts, and those that none holds any more until they are swept out.
struct Parts<T> {
    held: BTreeMap<Str, Weak<T>>,
    /// At how many they are swept.
    full: usize,
}

static CONDITIONS: Mutex<Parts<Condition>> = Mutex::new(Parts::NONE);
static SELECTS: Mutex<Parts<PatchSelect>> = Mutex::new(Parts::NONE);

/// Replaces a condition by an equal one that some rule holds.
pub(super) fn condition(own: &mut Arc<Condition>) {
    let text = own.fingerprint.clone();
    share(&CONDITIONS, text, own);
}

/// Replaces a select by an equal one that some rule holds.
pub(super) fn select(own: &mut Arc<PatchSelect>) {
    let text = own.text().into();
    share(&SELECTS, text, own);
}

fn share<T>(parts: &Mutex<Parts<T>>, text: Str, own: &mut Arc<T>) {
    let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(held) = parts.held.get(&text).and_then(Weak::upgrade) {
        *own = held;
        return;
    }
    if parts.held.len() >= parts.full {
        parts.held.retain(|_, part| part.strong_count() > 0);
        parts.full = Parts::<T>::LEAST.max(parts.held.len() * 2);
    }
    parts.held.insert(text, Arc::downgrade(own));
}

impl<T> Parts<T> {
    const LEAST: usize = 64;
    const NONE: Self = Self { held: BTreeMap::new(), full: Self::LEAST };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Arc<PatchSelect> {
        let mut parsed = Arc::new(PatchSelect::parse(text).expect(text));
        select(&mut parsed);
        parsed
    }

    #[test]
    fn equal_selects_are_one_while_a_rule_holds_it() {
        let text = "$.shared.parts[*]";
        let one = parsed(text);
        assert!(Arc::ptr_eq(&one, &parsed(text)));
        assert!(!Arc::ptr_eq(&one, &parsed("$.shared.parts[0]")));
        let held = || SELECTS.lock().expect("no panic").held.get(text).and_then(Weak::upgrade);
        assert!(held().is_some());
        drop(one);
        assert!(held().is_none());
    }

    #[test]
    fn selects_that_no_rule_holds_are_swept_out() {
        for number in 0..1_000 {
            parsed(&format!("$.swept.out{number}"));
        }
        let parts = SELECTS.lock().expect("no panic");
        let left = parts.held.keys().filter(|text| text.starts_with("$.swept.")).count();
        assert!(left <= 500, "{left}");
    }
}
