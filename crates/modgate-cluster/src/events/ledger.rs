//! Which Events are to be written, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use modgate_telemetry::metrics::EventResult;
use tokio::time::Instant;

use super::{Event, EventSeverity, Involved};

/// Events remembered, to count repetitions.
const REMEMBERED: usize = 4096;
/// How long an Event that is not repeated is remembered; after that it is a new one.
const MEMORY: Duration = Duration::from_secs(600);
/// How long repetitions are gathered before the Event is written again.
const GATHERING: Duration = Duration::from_secs(30);
/// New Events about one object at once, and how long it takes for one more.
const OBJECT_BURST: u32 = 25;
const OBJECT_REFILL: Duration = Duration::from_secs(300);
/// Writes at once, and how long it takes for one more.
const BURST: u32 = 50;
const REFILL: Duration = Duration::from_millis(200);
/// How often one write is tried, and how long after a failure.
const TRIES: u32 = 3;
const BACK_OFF: Duration = Duration::from_secs(5);

/// Events that are the same but for the time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    involved: Involved,
    component: &'static str,
    severity: EventSeverity,
    reason: &'static str,
    message: String,
}

impl Key {
    fn of(event: &Event) -> Self {
        let Event { involved, component, severity, reason, message, .. } = event.clone();
        // Versions of an object are one object.
        let involved = Involved { resource_version: String::new(), ..involved };
        Self { involved, component, severity, reason, message }
    }
}

/// The state of an Event.
#[derive(Debug)]
struct Entry {
    event: Event,
    /// As the API server knows it.
    name: Option<String>,
    /// How often it happened.
    count: u32,
    /// How often since it was last written.
    news: u32,
    first: Timestamp,
    last: Timestamp,
    /// When it last happened.
    seen: Instant,
    /// When it was last written.
    wrote: Option<Instant>,
    failures: u32,
}

/// An Event to be written now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) event: Event,
    /// Its name, where it was written before.
    pub(super) name: Option<String>,
    pub(super) count: u32,
    pub(super) news: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

/// Tokens that come back with time.
#[derive(Debug)]
struct Bucket {
    left: u32,
    since: Instant,
}

impl Bucket {
    fn full(burst: u32, now: Instant) -> Self {
        Self { left: burst, since: now }
    }

    fn refill(&mut self, burst: u32, refill: Duration, now: Instant) {
        let passed = now.saturating_duration_since(self.since).as_nanos();
        let back = u32::try_from(passed / refill.as_nanos().max(1)).unwrap_or(u32::MAX);
        if back == 0 {
            return;
        }
        self.left = self.left.saturating_add(back).min(burst);
        self.since = if self.left == burst { now } else { self.since + refill * back };
    }

    fn take(&mut self) -> bool {
        let taken = self.left.checked_sub(1);
        self.left = taken.unwrap_or_default();
        taken.is_some()
    }
}

/// Everything that is known of Events, and what has to be done about them.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: BTreeMap<Key, Entry>,
    /// Due times of writes.
    agenda: BTreeSet<(Instant, Key)>,
    objects: BTreeMap<(&'static str, Involved), Bucket>,
    writes: Option<Bucket>,
}

impl Ledger {
    /// Takes in an Event; `None` if it is a new one that will be written.
    pub(super) fn take(
        &mut self,
        event: Event,
        now: Instant,
        at: Timestamp,
    ) -> Option<EventResult> {
        let key = Key::of(&event);
        if let Some(entry) = self.entries.get_mut(&key)
            && now.saturating_duration_since(entry.seen) < MEMORY
        {
            entry.count = entry.count.saturating_add(1);
            entry.news += 1;
            entry.last = at;
            entry.seen = now;
            let is_first = entry.news == 1;
            if is_first {
                let due = entry.wrote.map_or(now, |wrote| wrote + GATHERING).max(now);
                self.agenda.insert((due, key));
            }
            return Some(EventResult::Merged);
        }
        if !self.make_room(now) || !self.may_have_another(&event, now) {
            return Some(EventResult::Dropped);
        }
        self.agenda.insert((now, key.clone()));
        self.entries.insert(
            key,
            Entry {
                event,
                name: None,
                count: 1,
                news: 1,
                first: at,
                last: at,
                seen: now,
                wrote: None,
                failures: 0,
            },
        );
        None
    }

    /// When to ask what is [due](Self::due); `None` if nothing is.
    pub(super) fn next_write(&mut self) -> Option<Instant> {
        let (at, _) = self.agenda.first()?;
        let has_turn = self.writes.as_ref().is_none_or(|writes| writes.left > 0);
        let turn = self.writes.as_ref().map(|writes| writes.since + REFILL);
        Some(if has_turn { *at } else { turn.unwrap_or(*at).max(*at) })
    }

    /// The next write that is due now, if any. Record the result with [`written`](Self::written) or
    /// [`failed`](Self::failed).
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        self.agenda.first().filter(|(at, _)| *at <= now)?;
        let writes = self.writes.get_or_insert_with(|| Bucket::full(BURST, now));
        writes.refill(BURST, REFILL, now);
        if !writes.take() {
            return None;
        }
        let (_, key) = self.agenda.pop_first()?;
        let entry = self.entries.get(&key)?;
        Some(Due {
            event: entry.event.clone(),
            name: entry.name.clone(),
            count: entry.count,
            news: entry.news,
            first: entry.first,
            last: entry.last,
        })
    }

    /// The API server has it.
    pub(super) fn written(&mut self, due: &Due, name: String, now: Instant) {
        let Some(entry) = self.entries.get_mut(&Key::of(&due.event)) else { return };
        entry.name = Some(name);
        entry.news = 0;
        entry.failures = 0;
        entry.wrote = Some(now);
    }

    /// The API server did not take it; returns whether it is tried again.
    pub(super) fn failed(&mut self, due: &Due, now: Instant) -> bool {
        let key = Key::of(&due.event);
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        entry.failures += 1;
        if entry.failures >= TRIES {
            self.entries.remove(&key);
            return false;
        }
        self.agenda.insert((now + BACK_OFF * entry.failures, key));
        true
    }

    /// Forgets what was not seen for long; returns whether there is room for another.
    fn make_room(&mut self, now: Instant) -> bool {
        if self.entries.len() < REMEMBERED {
            return true;
        }
        let is_fresh = |seen: Instant| now.saturating_duration_since(seen) < MEMORY;
        self.entries.retain(|_, entry| entry.news > 0 || is_fresh(entry.seen));
        if self.entries.len() >= REMEMBERED {
            // A written Event can occur again as a new one.
            self.entries.retain(|_, entry| entry.news > 0);
        }
        self.entries.len() < REMEMBERED
    }

    /// Whether there may be another new Event about this object.
    fn may_have_another(&mut self, event: &Event, now: Instant) -> bool {
        let key = (event.component, Key::of(event).involved);
        if self.objects.len() >= REMEMBERED && !self.objects.contains_key(&key) {
            for bucket in self.objects.values_mut() {
                bucket.refill(OBJECT_BURST, OBJECT_REFILL, now);
            }
            self.objects.retain(|_, bucket| bucket.left < OBJECT_BURST);
            if self.objects.len() >= REMEMBERED {
                return false;
            }
        }
        let full = || Bucket::full(OBJECT_BURST, now);
        let bucket = self.objects.entry(key).or_insert_with(full);
        bucket.refill(OBJECT_BURST, OBJECT_REFILL, now);
        bucket.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, message: &str) -> Event {
        Event {
            involved: Involved {
                kind: "Pod".to_owned(),
                name: name.to_owned(),
                ..Involved::default()
            },
            component: "gatekeeper-webhook",
            severity: EventSeverity::Warning,
            reason: "FailedAdmission",
            message: message.to_owned(),
            annotations: Vec::new(),
        }
    }

    /// A ledger, and time to move.
    struct Desk {
        ledger: Ledger,
        now: Instant,
    }

    impl Desk {
        fn new() -> Self {
            Self { ledger: Ledger::default(), now: Instant::now() }
        }

        fn take(&mut self, name: &str, message: &str) -> Option<EventResult> {
            self.ledger.take(event(name, message), self.now, Timestamp::UNIX_EPOCH)
        }

        /// Writes what is due, all of it, and returns names and counts.
        fn write(&mut self) -> Vec<(String, u32)> {
            let mut written = Vec::new();
            while let Some(due) = self.ledger.due(self.now) {
                let name = due.name.clone().unwrap_or_else(|| format!("{}.1", written.len()));
                self.ledger.written(&due, name, self.now);
                written.push((due.event.involved.name.clone(), due.count));
            }
            written
        }
    }

    #[test]
    fn repetitions_become_counts() {
        let mut desk = Desk::new();
        assert_eq!(desk.take("a", "no"), None);
        assert_eq!(desk.take("a", "no"), Some(EventResult::Merged));
        assert_eq!(desk.take("a", "never"), None, "another message is another Event");
        let key = |name: &str, count| (name.to_owned(), count);
        assert_eq!(desk.write(), [key("a", 1), key("a", 2)]);
        for _ in 0..1000 {
            assert_eq!(desk.take("a", "no"), Some(EventResult::Merged));
        }
        assert_eq!(desk.write(), [], "repetitions are gathered");
        assert_eq!(desk.ledger.next_write(), Some(desk.now + GATHERING));
        desk.now += GATHERING;
        assert_eq!(desk.write(), [key("a", 1002)]);
        assert_eq!(desk.ledger.next_write(), None);
        desk.now += MEMORY;
        assert_eq!(desk.take("a", "no"), None, "long ago is not a repetition");
    }

    #[test]
    fn an_object_gets_a_burst_and_then_few() {
        let mut desk = Desk::new();
        let new = |desk: &mut Desk, count: usize| {
            let all = (0..count).map(|index| desk.take("a", &format!("{index} {:?}", desk.now)));
            all.filter(Option::is_none).count()
        };
        assert_eq!(new(&mut desk, 100), OBJECT_BURST as usize);
        assert_eq!(desk.take("b", "no"), None, "others are not held up");
        desk.now += OBJECT_REFILL;
        assert_eq!(new(&mut desk, 100), 1);
    }

    #[test]
    fn writes_have_a_rate() {
        let mut desk = Desk::new();
        for index in 0..2000 {
            assert_eq!(desk.take(&format!("pod-{index}"), "no"), None);
        }
        let started = desk.now;
        assert_eq!(desk.write().len(), BURST as usize);
        assert_eq!(desk.write().len(), 0);
        assert_eq!(desk.ledger.next_write(), Some(started + REFILL));
        desk.now += REFILL;
        assert_eq!(desk.write().len(), 1);
        desk.now += Duration::from_secs(10);
        assert_eq!(desk.write().len(), BURST as usize);
    }

    #[test]
    fn memory_is_bounded() {
        let mut desk = Desk::new();
        let taken = (0..10_000).filter(|index| desk.take(&format!("pod-{index}"), "no").is_none());
        assert_eq!(taken.count(), REMEMBERED);
        assert_eq!(desk.ledger.entries.len(), REMEMBERED);
        assert_eq!(desk.ledger.agenda.len(), REMEMBERED);
        assert!(desk.ledger.objects.len() <= REMEMBERED);
        assert_eq!(desk.take("one-more", "no"), Some(EventResult::Dropped));
        // Time makes room, for what was written need not be remembered.
        for _ in 0..REMEMBERED {
            desk.now += REFILL;
            desk.write();
        }
        desk.now += OBJECT_REFILL;
        assert_eq!(desk.take("one-more", "no"), None);
    }

    #[test]
    fn what_fails_is_tried_again_a_few_times() {
        let mut desk = Desk::new();
        assert_eq!(desk.take("a", "no"), None);
        for tries in 1..=TRIES {
            let due = desk.ledger.due(desk.now).expect("due");
            assert_eq!(desk.ledger.failed(&due, desk.now), tries < TRIES);
            assert_eq!(desk.ledger.due(desk.now), None);
            desk.now += BACK_OFF * tries;
        }
        assert_eq!(desk.ledger.next_write(), None);
        assert!(desk.ledger.entries.is_empty());
    }
}
