//! Waiting within an evaluation, which is synchronous.

use std::fmt;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    task::block_in_place,
    time::Instant,
};

/// The permission to evaluate, which an evaluation gives back while it waits for something outside of
/// this process.
pub trait Permit: fmt::Debug + Sync {
    /// Gives the permit back, calls `wait`, and takes a permit again, at most until `deadline`.
    ///
    /// Must be called where blocking is allowed.
    fn pause(&self, deadline: Instant, wait: &mut dyn FnMut());
}

/// Whether this thread belongs to a runtime that can move its other tasks to another thread.
pub fn may_block() -> bool {
    Handle::try_current()
        .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Calls `wait`, which blocks, without holding the permit.
pub(crate) fn wait_without<T>(
    permit: Option<&dyn Permit>,
    deadline: Instant,
    wait: impl Fn() -> T,
) -> T {
    if !may_block() {
        return wait();
    }
    block_in_place(|| {
        let Some(permit) = permit else { return wait() };
        let mut waited = None;
        permit.pause(deadline, &mut || waited = Some(wait()));
        waited.unwrap_or_else(wait)
    })
}
