//! Watches of the objects that Pods report with, in the namespace of the installation.

use futures_util::StreamExt as _;
use kube::{
    Api,
    runtime::watcher::{self, watcher},
};
use tokio::sync::mpsc;

use super::subject::Subject;
use crate::{LOGGER, object::Stored, watches::patient};

/// What a watch saw.
#[derive(Debug)]
pub(super) enum Seen {
    /// All reports there are; what is not among them is gone.
    All(Vec<Stored>),
    /// A report is new or has changed.
    Applied(Stored),
    /// A report is gone.
    Deleted(Stored),
}

/// Follows the reports on one kind until nobody listens any more. Whatever goes wrong is tried again,
/// less and less often.
pub(super) async fn follow(
    api: Api<Stored>,
    subject: Subject,
    events: mpsc::Sender<(Subject, Seen)>,
) {
    let mut stream = patient(watcher(api, watcher::Config::default()));
    let mut listed = Vec::new();
    while let Some(event) = stream.next().await {
        let seen = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(stored)) => {
                listed.push(stored);
                continue;
            }
            Ok(watcher::Event::InitDone) => Seen::All(std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(stored)) => Seen::Applied(stored),
            Ok(watcher::Event::Delete(stored)) => Seen::Deleted(stored),
            Err(error) => {
                let kind = subject.resource().kind;
                tracing::warn!(target: LOGGER, %kind, %error, "watch failed, trying again");
                continue;
            }
        };
        if events.send((subject, seen)).await.is_err() {
            return;
        }
    }
}
