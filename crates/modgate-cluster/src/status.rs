//! The state of policies, in their statuses.
//!
//! Every Pod [reports](pod) what it made of each policy in an object of its own, and one process
//! [gathers](gather) the reports of all Pods into `status.byPod` of the policy, where people and tools
//! look. ModRules load alike everywhere; their state is a condition.
//!
//! # Guarantees
//!
//! - Only members of ours are written, as merge patches: what an audit or another writer puts into a
//!   status stays.
//! - Nothing is written that the cluster has already. What changes at the same time is written
//!   together, and no more than [`CONCURRENCY`] writes are under way at once.
//! - What could not be written is tried again, less and less often, and holds up no other.
//!
//! # Limits
//!
//! Outside of a cluster there is no Pod, so `status.byPod` has no entry of such a process.

mod entry;
mod gather;
mod ledger;
mod modrule;
mod pod;
mod subject;
#[cfg(test)]
mod tests;

use std::{future::Future, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::{sync::watch, task::JoinSet};

use self::ledger::Written;
use super::context::Context;

/// Writes under way at once.
const CONCURRENCY: usize = 8;

/// Changes that come within this time are written together.
const COALESCE: Duration = Duration::from_millis(100);

/// How long to wait after a write or a list failed, at first and at most.
const BACKOFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(60)];

/// How often everything the cluster has is read again, in case another writer changed it.
const RESYNC: Duration = Duration::from_secs(600);

/// Keeps statuses current until the process ends.
pub(crate) async fn run(context: Context) {
    let (reported, own) = watch::channel(false);
    tokio::join!(pod::report(context.clone(), reported), gather::run(context, own));
}

/// The time, as Kubernetes writes it.
fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn outcome<T>(written: &Result<T, kube::Error>) -> Written {
    match written {
        Ok(_) => Written::Done,
        Err(error) => error.into(),
    }
}

/// Runs writes, some at a time, and returns how they ended.
async fn write_all<W>(writes: Vec<W>) -> Vec<W::Output>
where
    W: Future + Send + 'static,
    W::Output: Send,
{
    let mut done = Vec::with_capacity(writes.len());
    let mut under_way = JoinSet::new();
    for write in writes {
        if under_way.len() >= CONCURRENCY {
            done.extend(under_way.join_next().await.and_then(Result::ok));
        }
        under_way.spawn(write);
    }
    while let Some(written) = under_way.join_next().await {
        done.extend(written.ok());
    }
    done
}
