//! A watcher that waits longer and longer while nothing can be listed.

use std::time::Duration;

use futures_util::{
    Stream, StreamExt as _,
    stream::{self, BoxStream},
};
use kube::runtime::{
    utils::Backoff,
    watcher::{self, DefaultBackoff, Event},
};
use tokio::time::sleep;

/// How long to wait where the backoff does not say.
const LONGEST: Duration = Duration::from_secs(30);

/// Waits after each error, longer each time until something was seen whole: a list to its end, or a
/// change.
///
/// kube's own backoff starts over with [`Event::Init`], which comes before the server was asked, so
/// that a list that fails is asked for about once a second for ever.
pub(crate) fn patient<K: Send + 'static>(
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
}
