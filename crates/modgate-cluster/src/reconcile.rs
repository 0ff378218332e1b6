//! The driver of controllers.
//!
//! A controller is a [`Reconcile`]: what there should be, and the code that brings the cluster in line with
//! it. The driver knows when: at first when everything present at start is loaded, then after each change
//! of the policies, after a [change](Reconcile::changed) of other things that the controller follows, and
//! at the time that the controller named for another attempt. It also knows whether this process may:
//! [`run_as_leader`] stops a controller while another process leads.

use std::{
    future::{Future, pending},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::{sleep_until, timeout_at};

use super::{context::Context, state::State};

/// How soon to look again whether this process still leads, if its term ended without notice.
const LEASE_CHECK: Duration = Duration::from_secs(1);

/// Brings a part of the cluster in line with the policies that are loaded.
pub(crate) trait Reconcile: Send {
    /// The desired state.
    type Desired: Send;

    /// Changes that follow each other within this time are reconciled together.
    const COALESCE: Duration = Duration::ZERO;

    /// The desired state, from the loaded policies.
    fn desired(&mut self, state: &Arc<State>) -> Self::Desired;

    /// Makes it so; returns when to do this again even if nothing changes.
    ///
    /// A controller that only the leader runs is dropped in the middle of this when another process
    /// takes over, and calls [`Context::leads`] before each write.
    fn apply(&mut self, desired: Self::Desired) -> impl Future<Output = Option<Instant>> + Send;

    /// Waits for a change of anything but the policies, and takes it in. Nothing is lost if this is
    /// dropped before it is ready.
    fn changed(&mut self) -> impl Future<Output = ()> + Send {
        pending()
    }

    /// Another process leads from now on.
    fn ended(&mut self) {}
}

/// Runs a controller until the process ends.
pub(crate) async fn run(context: Context, mut controller: impl Reconcile) {
    drive(&context, &mut controller, || true).await;
}

/// Runs a controller whenever this process leads, until the process ends.
pub(crate) async fn run_as_leader(context: Context, mut controller: impl Reconcile) {
    let mut leader = context.leadership.subscribe();
    while leader.wait_for(|leads| *leads).await.is_ok() {
        tokio::select! {
            () = drive(&context, &mut controller, || context.leads()) => return,
            _ = leader.wait_for(|leads| !*leads) => {}
        }
        controller.ended();
    }
}

/// Returns when the process ends.
async fn drive<R: Reconcile>(context: &Context, controller: &mut R, may: impl Fn() -> bool + Send) {
    let mut policies = context.state.clone();
    if policies.wait_for(Option::is_some).await.is_err() {
        return;
    }
    loop {
        let mut again = None;
        if may() {
            let Some(state) = policies.borrow_and_update().clone() else { return };
            let desired = controller.desired(&state);
            drop(state);
            again = controller.apply(desired).await;
        }
        if !may() {
            again = Some(Instant::now() + LEASE_CHECK);
        }
        tokio::select! {
            changed = policies.changed() => if changed.is_err() { return },
            () = controller.changed() => {}
            () = wait_until(again) => {}
        }
        let soon = Instant::now() + R::COALESCE;
        while Instant::now() < soon && timeout_at(soon.into(), controller.changed()).await.is_ok() {
        }
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        sync::{mpsc, watch},
        time::timeout,
    };

    use super::*;
    use crate::context::scripted;

    /// Sends what happens to it.
    struct Recorder {
        happened: mpsc::UnboundedSender<&'static str>,
        other: watch::Receiver<()>,
        /// Attempts that fail.
        failures: usize,
    }

    impl Reconcile for Recorder {
        type Desired = Arc<State>;

        const COALESCE: Duration = Duration::from_millis(1);

        fn desired(&mut self, state: &Arc<State>) -> Arc<State> {
            Arc::clone(state)
        }

        async fn apply(&mut self, _: Arc<State>) -> Option<Instant> {
            let _ = self.happened.send(if self.failures > 0 { "failed" } else { "applied" });
            let fails = self.failures > 0;
            self.failures -= usize::from(fails);
            fails.then(Instant::now)
        }

        async fn changed(&mut self) {
            if self.other.changed().await.is_err() {
                pending().await
            }
        }

        fn ended(&mut self) {
            let _ = self.happened.send("ended");
        }
    }

    struct Fixture {
        context: Context,
        state: watch::Sender<Option<Arc<State>>>,
        other: watch::Sender<()>,
        happened: mpsc::UnboundedReceiver<&'static str>,
        recorder: Option<Recorder>,
    }

    impl Fixture {
        fn new(failures: usize) -> Self {
            let client = scripted::client(|_, _, _| (500, String::new()));
            let (context, state) = scripted::context(client, State::empty());
            let ((other, receiver), (sender, happened)) =
                (watch::channel(()), mpsc::unbounded_channel());
            let recorder = Some(Recorder { happened: sender, other: receiver, failures });
            Self { context, state, other, happened, recorder }
        }

        fn recorder(&mut self) -> Recorder {
            self.recorder.take().expect("one controller")
        }

        async fn next(&mut self) -> &'static str {
            let next = timeout(Duration::from_secs(20), self.happened.recv()).await;
            next.expect("something happens").expect("a running controller")
        }
    }

    #[tokio::test]
    async fn reconciles_what_is_loaded_what_changes_and_what_failed() {
        let mut fixture = Fixture::new(2);
        let loaded = fixture.state.send_replace(None);
        let task = tokio::spawn(run(fixture.context.clone(), fixture.recorder()));
        tokio::task::yield_now().await;
        assert!(fixture.happened.try_recv().is_err(), "nothing is loaded");
        fixture.state.send_replace(loaded.clone());
        assert_eq!(fixture.next().await, "failed");
        assert_eq!(fixture.next().await, "failed");
        assert_eq!(fixture.next().await, "applied");
        fixture.state.send_replace(loaded);
        assert_eq!(fixture.next().await, "applied");
        fixture.other.send_replace(());
        assert_eq!(fixture.next().await, "applied");
        let Fixture { context, state, .. } = fixture;
        drop((context, state));
        timeout(Duration::from_secs(20), task).await.expect("it ends").expect("no panic");
    }

    #[tokio::test]
    async fn only_the_leader_writes() {
        let mut fixture = Fixture::new(0);
        let leadership = fixture.context.leadership.clone();
        let controller = run_as_leader(fixture.context.clone(), fixture.recorder());
        let task = tokio::spawn(controller);
        tokio::task::yield_now().await;
        assert!(fixture.happened.try_recv().is_err(), "another process leads");
        for _ in 0..2 {
            leadership.lead_until(Instant::now() + Duration::from_secs(60));
            assert_eq!(fixture.next().await, "applied");
            leadership.end();
            assert_eq!(fixture.next().await, "ended");
        }
        // A term that has ended without notice, and is renewed after all.
        leadership.lead_until(Instant::now());
        tokio::task::yield_now().await;
        assert!(fixture.happened.try_recv().is_err(), "the term has ended");
        leadership.lead_until(Instant::now() + Duration::from_secs(60));
        assert_eq!(fixture.next().await, "applied");
        task.abort();
    }
}
