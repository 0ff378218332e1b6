//! Turns for evaluation, and what happens when one goes wrong.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

/// Evaluations that may run at the same time.
///
/// An evaluation runs where its request is, on a worker of the runtime, rather than on a thread
/// pool: it takes tens of microseconds, and `block_in_place` around it cost a quarter to a half more
/// processor time per review (180 to 220 µs instead of 145 µs on two cores of an AMD EPYC, 8
/// connections, 10 rules) and 4 MB of stacks. What handing over would buy, a reactor that stays
/// free, comes from the numbers instead: [`runtime`] has more workers than there are turns, so that
/// even with every turn taken by policies that use up their time budget, connections are accepted
/// and probes answered. Two workers more than processors cost nothing that could be measured.
///
/// [`runtime`]: crate::runtime
#[derive(Debug)]
pub struct Evaluators(Arc<Semaphore>);

/// Why an evaluation gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EvaluationError {
    #[error("no turn to evaluate within {} ms", .0.as_millis())]
    Busy(Duration),
    /// Without the panic's message, which may quote the object under review.
    #[error("evaluation failed, see the log of modgate")]
    Panicked,
}

impl Evaluators {
    /// As many as there are processors.
    pub fn per_processor() -> Self {
        Self::new(processors())
    }

    /// `turns` at the same time.
    pub fn new(turns: usize) -> Self {
        Self(Arc::new(Semaphore::new(turns)))
    }

    /// Runs `evaluate` when there is a turn, which it may give back while it waits.
    pub(crate) async fn run<T>(
        &self,
        patience: Duration,
        evaluate: impl FnOnce(&Turn) -> T,
    ) -> Result<T, EvaluationError> {
        let turn = match Arc::clone(&self.0).try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                match tokio::time::timeout(patience, Arc::clone(&self.0).acquire_owned()).await {
                    Ok(Ok(turn)) => turn,
                    // The semaphore is never closed, so only time can have run out.
                    Ok(Err(_)) | Err(_) => return Err(EvaluationError::Busy(patience)),
                }
            }
        };
        let turn = Turn { evaluators: Arc::clone(&self.0), permit: Mutex::new(Some(turn)) };
        // Policies and objects live in immutable values, so nothing can be left half-changed.
        let outcome = catch_unwind(AssertUnwindSafe(|| evaluate(&turn)));
        drop(turn);
        outcome.map_err(|_| EvaluationError::Panicked)
    }
}

/// One of the evaluations that may run.
pub(crate) struct Turn {
    evaluators: Arc<Semaphore>,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Turn {
    /// Lets another evaluation run while this one waits for something else, and returns what it
    /// waited for once there is a turn again, or at `deadline` without one.
    ///
    /// To be called where blocking is allowed.
    pub(crate) fn pause<T>(&self, deadline: Instant, wait: impl FnOnce() -> T) -> T {
        let mut permit = self.permit.lock().unwrap_or_else(PoisonError::into_inner);
        let held = permit.take().is_some();
        let waited = wait();
        if held && let Ok(runtime) = Handle::try_current() {
            let turn = Arc::clone(&self.evaluators).acquire_owned();
            let again = runtime.block_on(timeout_at(deadline, turn));
            *permit = again.ok().and_then(Result::ok);
        }
        waited
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

/// Processors this process may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_frees_its_turn() {
        let evaluators = Evaluators::new(1);
        let failed: Result<(), _> = evaluators.run(Duration::ZERO, |_| panic!("on purpose")).await;
        assert_eq!(failed, Err(EvaluationError::Panicked));
        assert_eq!(evaluators.run(Duration::ZERO, |_| 1).await, Ok(1));
    }

    /// Two evaluations with one turn: the second runs while the first waits.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_waits_gives_its_turn_back() {
        let evaluators = Arc::new(Evaluators::new(1));
        let patience = Duration::from_secs(20);
        let (ask, asked) = std::sync::mpsc::channel();
        let (answer, answered) = std::sync::mpsc::channel();
        let of_first = Arc::clone(&evaluators);
        let first = tokio::spawn(async move {
            let evaluate = move |turn: &Turn| {
                tokio::task::block_in_place(|| {
                    turn.pause(Instant::now() + patience, || {
                        ask.send(()).expect("the second listens");
                        answered.recv_timeout(patience).expect("the second answers")
                    })
                })
            };
            of_first.run(patience, evaluate).await
        });
        let asked = tokio::task::spawn_blocking(move || asked.recv_timeout(patience));
        asked.await.expect("no panic").expect("the first asks");
        let second = evaluators.run(patience, |_| answer.send(7).expect("the first listens"));
        assert_eq!(second.await, Ok(()));
        assert_eq!(first.await.expect("no panic"), Ok(7));
        assert_eq!(evaluators.0.available_permits(), 1);
    }

    #[tokio::test]
    async fn no_turn_in_time() {
        let evaluators = Evaluators::new(0);
        let patience = Duration::from_millis(1);
        assert_eq!(evaluators.run(patience, |_| 1).await, Err(EvaluationError::Busy(patience)));
    }
}
