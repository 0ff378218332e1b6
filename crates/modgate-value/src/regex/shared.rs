//! Patterns that several policies spell out alike. A compiled pattern takes kilobytes, and thousands of rules may
//! have the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::GoRegex;

/// The patterns that some policy holds, and those that none holds any more until they are swept out.
#[derive(Default)]
struct Shared {
    patterns: BTreeMap<Arc<str>, Weak<GoRegex>>,
    /// At how many they are swept.
    full: usize,
}

static SHARED: Mutex<Shared> = Mutex::new(Shared { patterns: BTreeMap::new(), full: 64 });

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The compiled pattern that some policy holds.
pub(super) fn known(pattern: &str) -> Option<Arc<GoRegex>> {
    shared().patterns.get(pattern)?.upgrade()
}

/// Keeps a compiled pattern for as long as some policy holds it.
pub(super) fn keep(regex: GoRegex) -> Arc<GoRegex> {
    let regex = Arc::new(regex);
    let mut shared = shared();
    if shared.patterns.len() >= shared.full {
        shared.patterns.retain(|_, regex| regex.strong_count() > 0);
        shared.full = 64.max(shared.patterns.len() * 2);
    }
    shared.patterns.insert(Arc::clone(&regex.source), Arc::downgrade(&regex));
    regex
}

#[cfg(test)]
mod tests {
    use super::super::Allowance;
    use super::*;

    #[test]
    fn equal_patterns_are_one_and_each_is_paid_for() {
        let pattern = "^shared-[0-9]+$";
        let first = Allowance::default();
        let one = first.share(pattern).expect("a pattern");
        let second = Allowance::default();
        let other = second.share(pattern).expect("a pattern");
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        drop(one);
        assert!(known(pattern).is_some(), "the other policy has it");
        drop(other);
        assert!(known(pattern).is_none());
        // An allowance that is used up refuses it, also where another policy has it already.
        let holder = first.share(pattern).expect("a pattern");
        let mut refused = false;
        for _ in 0..10_000 {
            refused |= second.share(pattern).is_err();
        }
        assert!(refused, "{}", holder.memory());
    }

    #[test]
    fn patterns_that_no_policy_holds_are_swept_out() {
        let allowances = || Allowance::default();
        for number in 0..1_000 {
            allowances().share(&format!("^swept-{number}$")).expect("a pattern");
        }
        let left = shared().patterns.keys().filter(|it| it.starts_with("^swept-")).count();
        assert!(left <= 500, "{left}");
    }
}
