//! A text for each violation that is kept, such as a line of a log. A cluster may have millions, so that all cores make
//! them; they come out in the order in which reports tell violations.

use std::{
    sync::{
        OnceLock,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::Str;

use super::{
    Incremental,
    kept::{Broken, Kept, printed},
    verdicts::VerdictId,
};
use crate::{
    policies::Policies,
    reference::ObjectRef,
    sink::{Texts, Told},
    violation::{attributed, scoped_actions},
};

/// Objects whose texts one thread makes before another goes on.
const CHUNK: usize = 32;
/// Texts are handed over when they have so many bytes.
const PART: usize = 128 << 10;

/// Texts of a chunk.
struct Part {
    text: String,
    /// Whether the chunk has no more.
    is_last: bool,
}

impl Incremental {
    /// Hands over the text of each violation, in the order in which [`report`](Self::report) tells them, many at a time.
    /// So many threads make them; in memory are some parts for each.
    pub fn tell(&self, texts: &dyn Texts, threads: usize, take: &mut dyn FnMut(&str)) {
        let Some(policies) = &self.policies else { return };
        let of_verdicts = (0..self.verdicts.len()).map(|_| OnceLock::new()).collect();
        let teller = Teller { known: self, policies, texts, of_verdicts };
        let threads = threads.max(1);
        thread::scope(|scope| {
            let start = |number| {
                let (sender, parts) = sync_channel(1);
                let teller = &teller;
                scope.spawn(move || teller.work(number, threads, &sender));
                parts
            };
            let workers: Vec<_> = (0..threads).map(start).collect();
            for parts in workers.iter().cycle() {
                loop {
                    // Who has no next chunk is the first of whom that is so.
                    let Ok(Part { text, is_last }) = parts.recv() else { return };
                    take(&text);
                    if is_last {
                        break;
                    }
                }
            }
        });
    }
}

struct Teller<'a> {
    known: &'a Incremental,
    policies: &'a Policies,
    texts: &'a dyn Texts,
    /// The share of each verdict's policy; nothing if it is gone.
    of_verdicts: Vec<OnceLock<Option<String>>>,
}

impl Teller<'_> {
    /// Makes the texts of each chunk of which this is the turn, until no one wants more.
    fn work(&self, number: usize, of: usize, parts: &SyncSender<Part>) {
        let all = self.known.kinds.iter().flat_map(|(kind, of_kind)| {
            of_kind
                .records()
                .map(move |(namespace, name, record)| ((kind, namespace, name), record))
        });
        let mut kept = all.filter_map(|(place, record)| Some((place, record.kept.as_ref()?)));
        let mut words = Vec::new();
        let mut chunk = 0;
        loop {
            let mut objects = kept.by_ref().take(CHUNK).peekable();
            if objects.peek().is_none() {
                return;
            }
            if chunk % of != number {
                objects.for_each(drop);
                chunk += 1;
                continue;
            }
            chunk += 1;
            let start = self.texts.start();
            let mut text = String::new();
            for (place, kept) in objects {
                // That it cannot be read is an error of the report.
                let Ok(found) = self.object(place, kept, &mut words) else { continue };
                let Found { subject, share, found } = found;
                for (verdict, message, details) in found {
                    let Some(policy) = self.of_verdict(verdict) else { continue };
                    let told = Told { subject: &subject, message, details: printed(details) };
                    self.texts.violation([&start, policy, &share], &told, &mut text);
                    if text.len() >= PART {
                        let part = Part { text: std::mem::take(&mut text), is_last: false };
                        if parts.send(part).is_err() {
                            return;
                        }
                    }
                }
            }
            if parts.send(Part { text, is_last: true }).is_err() {
                return;
            }
        }
    }

    fn object<'w>(
        &self,
        (kind, namespace, name): (&GroupVersionKind, &Str, &Str),
        kept: &Kept,
        words: &'w mut Vec<u8>,
    ) -> Result<Found<'w>, Broken> {
        let opened = kept.words(words)?;
        let labels = opened.labels()?;
        let subject =
            ObjectRef { uid: opened.uid, labels, ..ObjectRef::known(kind, namespace, name) };
        let share = self.texts.object(&subject);
        Ok(Found { subject, share, found: opened.found })
    }

    fn of_verdict(&self, id: VerdictId) -> Option<&str> {
        let share = || {
            let (unit, attribution) = self.known.verdicts.get(id)?;
            let (policy, action, actions) = attributed(self.policies, *unit, attribution)?;
            Some(self.texts.policy(policy, &action, scoped_actions(&action, &actions)))
        };
        self.of_verdicts.get(id as usize)?.get_or_init(share).as_deref()
    }
}

/// The violations of an object: of what, message and details.
struct Found<'w> {
    subject: ObjectRef,
    share: String,
    found: Vec<(VerdictId, &'w str, &'w str)>,
}
