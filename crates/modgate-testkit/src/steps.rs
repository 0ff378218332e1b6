//! Steps of a test, and waiting for what a step leads to.

#![allow(clippy::panic, clippy::print_stderr, reason = "for tests, which fail by panicking")]

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

/// The longest wait of a test; longer than any step takes, on any machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

thread_local! {
    static STEP: Cell<&'static str> = const { Cell::new("the first step") };
}

/// Begins a step of a scenario. A failing test prints the steps that it came to, and a wait that fails names
/// its step.
pub fn step(name: &'static str) {
    STEP.set(name);
    eprintln!("step: {name}");
}

/// The step that this thread began last.
#[must_use]
pub fn current() -> &'static str {
    STEP.get()
}

/// Waits until a condition holds, for at most [`TIMEOUT`].
///
/// # Panics
///
/// The condition still does not hold.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "{}: waited in vain until {what}", current());
        thread::sleep(Duration::from_millis(20));
    }
}
