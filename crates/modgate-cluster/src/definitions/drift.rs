//! CRDs that another writer changes: what to put back, and when.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Instant,
};

use modgate_value::{Str, Value};

use crate::retry::ContentionBackoff;

/// A CRD as it was seen: what of it may be ours, in short, and which version of the object it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sight {
    content: u64,
    version: Str,
}

impl Sight {
    /// Of a CRD with hashes for schemas.
    pub(super) fn of(definition: &Value) -> Self {
        let mut hasher = DefaultHasher::new();
        for path in [&["spec"][..], &["metadata", "labels"], &["metadata", "ownerReferences"]] {
            definition.path(path).hash(&mut hasher);
        }
        let version = definition.path(&["metadata", "resourceVersion"]).and_then(Value::as_str);
        Self { content: hasher.finish(), version: version.unwrap_or_default().into() }
    }
}

/// The history of one CRD since it was written.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// As the API server had it after the write; what is not ours may be other than before.
    settled: u64,
    /// The change that the write was for.
    answered: Option<Sight>,
    backoff: ContentionBackoff,
}

impl Upkeep {
    /// After the first write, of which the API server made this.
    pub(super) fn new(settled: &Sight) -> Self {
        Self { settled: settled.content, answered: None, backoff: ContentionBackoff::default() }
    }

    /// When to write it again; `None` while it is unchanged.
    pub(super) fn due(&self, seen: Option<&Sight>, now: Instant) -> Option<Instant> {
        let seen = seen?;
        if seen.content == self.settled || self.answered.as_ref() == Some(seen) {
            return None;
        }
        Some(self.backoff.until().map_or(now, |until| now.max(until)))
    }

    /// Notes that it was written again for what was seen, and what the API server made of that.
    pub(super) fn rewritten(&mut self, seen: Sight, settled: &Sight, now: Instant) {
        // If it is as it was seen, nothing of ours had been changed.
        if settled.content != seen.content {
            self.backoff.record(now);
        }
        self.settled = settled.content;
        self.answered = Some(seen);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use modgate_value::yaml;

    use super::*;

    fn sight(version: u32, metadata: &str, spec: &str) -> Sight {
        let text = format!(
            "{{metadata: {{resourceVersion: '{version}', {metadata}}}, spec: {{{spec}}}, \
             status: {{v: {version}}}}}"
        );
        Sight::of(&yaml::value(&text).expect("a CRD"))
    }

    #[test]
    fn what_counts_as_a_change() {
        let ours = sight(1, "labels: {a: b}, generation: 1", "x: 1");
        let upkeep = Upkeep::new(&ours);
        let now = Instant::now();
        let is_due = |seen: &Sight| upkeep.due(Some(seen), now).is_some();
        assert!(!is_due(&ours));
        assert!(!is_due(&sight(2, "labels: {a: b}, annotations: {c: d}", "x: 1")));
        assert!(is_due(&sight(2, "labels: {a: c}", "x: 1")));
        assert!(is_due(&sight(2, "labels: {a: b}, ownerReferences: [1]", "x: 1")));
        assert!(is_due(&sight(2, "labels: {a: b}", "x: 2")));
        assert_eq!(upkeep.due(None, now), None);
    }

    #[test]
    fn changes_are_put_back_less_and_less_often() {
        let (ours, theirs) = (sight(1, "", "x: 1"), |version| sight(version, "", "x: 2"));
        let mut upkeep = Upkeep::new(&ours);
        let mut now = Instant::now();
        let mut waits = Vec::new();
        for version in 2..16 {
            let due = upkeep.due(Some(&theirs(version)), now).expect("changed");
            waits.push((due - now).as_secs());
            now = due;
            upkeep.rewritten(theirs(version), &ours, now);
            assert_eq!(upkeep.due(Some(&theirs(version)), now), None, "an event of before");
            assert_eq!(upkeep.due(Some(&sight(version, "", "x: 1")), now), None);
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600]);
        now += Duration::from_secs(1300);
        assert_eq!(upkeep.due(Some(&theirs(20)), now), Some(now));
        upkeep.rewritten(theirs(20), &ours, now);
        let due = upkeep.due(Some(&theirs(21)), now).expect("changed");
        assert_eq!((due - now).as_secs(), 1);
    }

    #[test]
    fn what_is_not_ours_is_left() {
        let ours = sight(1, "labels: {a: b}", "x: 1");
        let more = sight(2, "labels: {a: b, c: d}", "x: 1");
        let mut upkeep = Upkeep::new(&ours);
        let now = Instant::now();
        assert_eq!(upkeep.due(Some(&more), now), Some(now));
        // The API server says that it is as it should be.
        upkeep.rewritten(more.clone(), &more, now);
        let again = sight(3, "labels: {a: b, c: d}", "x: 1");
        assert_eq!(upkeep.due(Some(&again), now), None);
        let theirs = sight(4, "labels: {c: d}", "x: 1");
        assert_eq!(upkeep.due(Some(&theirs), now), Some(now), "no quarrel yet");
    }
}
