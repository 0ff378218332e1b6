//! Turns for evaluation, and what happens when one goes wrong.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
    time::Duration,
};

use tokio::sync::Semaphore;

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
pub struct Evaluators(Semaphore);

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
        Self(Semaphore::new(turns))
    }

    /// Runs `evaluate` when there is a turn.
    pub(crate) async fn run<T>(
        &self,
        patience: Duration,
        evaluate: impl FnOnce() -> T,
    ) -> Result<T, EvaluationError> {
        let turn = match self.0.try_acquire() {
            Ok(turn) => turn,
            Err(_) => match tokio::time::timeout(patience, self.0.acquire()).await {
                Ok(Ok(turn)) => turn,
                // The semaphore is never closed, so only time can have run out.
                Ok(Err(_)) | Err(_) => return Err(EvaluationError::Busy(patience)),
            },
        };
        // Policies and objects live in immutable values, so nothing can be left half-changed.
        let outcome = catch_unwind(AssertUnwindSafe(evaluate));
        drop(turn);
        outcome.map_err(|_| EvaluationError::Panicked)
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
        let failed: Result<(), _> = evaluators.run(Duration::ZERO, || panic!("on purpose")).await;
        assert_eq!(failed, Err(EvaluationError::Panicked));
        assert_eq!(evaluators.run(Duration::ZERO, || 1).await, Ok(1));
    }

    #[tokio::test]
    async fn no_turn_in_time() {
        let evaluators = Evaluators::new(0);
        let patience = Duration::from_millis(1);
        assert_eq!(evaluators.run(patience, || 1).await, Err(EvaluationError::Busy(patience)));
    }
}
