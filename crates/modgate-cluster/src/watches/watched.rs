//! A watch as a stream of changes, with a back-off.

use std::{fmt::Debug, time::Duration};

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    runtime::{
        utils::Backoff,
        watcher::{self, DefaultBackoff, Event, watcher},
    },
};
use modgate_http::Chain;
use serde::de::DeserializeOwned;
use tokio::time::sleep;

use crate::LOGGER;

/// How long to wait where the backoff does not say.
const LONGEST: Duration = Duration::from_secs(30);

/// A change that a watch reports.
#[derive(Debug)]
pub(crate) enum Change<T> {
    /// All objects there are; others are gone.
    All(Vec<T>),
    /// An object is new or has changed.
    Applied(T),
    /// An object is gone.
    Deleted(T),
    /// Objects cannot be listed or watched for now. The watch goes on.
    Failed(watcher::Error),
}

/// The objects of a list while they arrive.
#[derive(Debug)]
pub(super) struct Listed<T> {
    items: Vec<T>,
    /// Whether the list has ended.
    pub(super) complete: bool,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { items: Vec::new(), complete: false }
    }
}

impl<T> Listed<T> {
    /// The change that an event completes. `keep` makes of each object, as it arrives, the part that is
    /// kept.
    pub(super) fn take<K>(&mut self, event: Event<K>, keep: impl Fn(K) -> T) -> Option<Change<T>> {
        match event {
            Event::Init => {
                *self = Self::default();
                None
            }
            Event::InitApply(object) => {
                self.items.push(keep(object));
                None
            }
            Event::InitDone => {
                self.complete = true;
                Some(Change::All(std::mem::take(&mut self.items)))
            }
            Event::Apply(object) => Some(Change::Applied(keep(object))),
            Event::Delete(object) => Some(Change::Deleted(keep(object))),
        }
    }
}

/// Lists and watches objects for ever; of each, the part that `keep` returns. Failures are logged with the
/// URL of the resource.
pub(crate) fn watched<K, T>(
    api: Api<K>,
    config: watcher::Config,
    keep: impl Fn(K) -> T + Send + 'static,
) -> BoxStream<'static, Change<T>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    T: Send + 'static,
{
    let url = api.resource_url().to_owned();
    let mut listed = Listed::default();
    let changes = with_backoff(watcher(api, config)).filter_map(move |event| {
        let change = match event {
            Ok(event) => listed.take(event, &keep),
            Err(error) => {
                tracing::warn!(target: LOGGER, %url, error = %Chain(&error),
                    "watch failed, trying again");
                Some(Change::Failed(error))
            }
        };
        async { change }
    });
    changes.boxed()
}

/// Waits after each error, longer each time until a list was received to its end, or a change.
///
/// kube's own backoff starts over with [`Event::Init`], which comes before the request, so that it repeats
/// a list that fails about once a second for ever.
pub(crate) fn with_backoff<K: Send + 'static>(
    watcher: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
) -> BoxStream<'static, watcher::Result<Event<K>>> {
    let start = (watcher.boxed(), DefaultBackoff::default(), None::<Duration>);
    let events = stream::unfold(start, |(mut watcher, mut backoff, pause)| async move {
        if let Some(pause) = pause {
            sleep(pause).await;
        }
        let event = watcher.next().await?;
        let pause = pause_after(&event, &mut backoff);
        Some((event, (watcher, backoff, pause)))
    });
    events.boxed()
}

fn pause_after<K>(
    event: &watcher::Result<Event<K>>,
    backoff: &mut impl Backoff,
) -> Option<Duration> {
    match event {
        Err(_) => return Some(backoff.next().unwrap_or(LONGEST)),
        Ok(Event::Init | Event::InitApply(_)) => {}
        Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => backoff.reset(),
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 s, 2 s, 4 s, …
    struct Doubling(u64);

    impl Iterator for Doubling {
        type Item = Duration;

        fn next(&mut self) -> Option<Duration> {
            self.0 *= 2;
            Some(Duration::from_secs(self.0 / 2))
        }
    }

    impl Backoff for Doubling {
        fn reset(&mut self) {
            self.0 = 1;
        }
    }

    #[test]
    fn waits_longer_until_a_list_was_seen_to_its_end() {
        let mut backoff = Doubling(1);
        let events = "i!i!ia!iad!ax!i!".chars().map(|event| match event {
            'i' => Ok(Event::Init),
            'a' => Ok(Event::InitApply(())),
            'd' => Ok(Event::InitDone),
            'x' => Ok(Event::Delete(())),
            _ => Err(watcher::Error::NoResourceVersion),
        });
        let pauses = events.filter_map(|event| pause_after(&event, &mut backoff));
        let pauses: Vec<_> = pauses.map(|pause| pause.as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 1, 1, 2]);
    }

    #[test]
    fn a_list_that_begins_again_forgets_what_it_had() {
        let mut listed = Listed::default();
        let mut seen = Vec::new();
        for event in [
            Event::Init,
            Event::InitApply("a"),
            Event::Init,
            Event::InitApply("b"),
            Event::InitApply("c"),
            Event::InitDone,
            Event::Apply("d"),
            Event::Delete("b"),
        ] {
            seen.extend(listed.take(event, |name| name).map(|change| format!("{change:?}")));
        }
        let expected = [r#"All(["b", "c"])"#, r#"Applied("d")"#, r#"Deleted("b")"#];
        assert_eq!(seen, expected);
    }
}
