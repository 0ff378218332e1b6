//! Steps of a test, and waiting for what a step leads to.

#![allow(clippy::panic, clippy::print_stderr, reason = "for tests, which fail by panicking")]

use std::{
    cell::Cell,
    fmt::Display,
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
    until(what, || holds().then_some(()).ok_or("the condition does not hold"));
}

/// Tries something until it succeeds, for at most [`TIMEOUT`], and returns its result.
///
/// # Panics
///
/// It still fails; the message shows the last error.
pub fn until<T, E: Display>(what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) if Instant::now() >= deadline => {
                panic!("{}: waited in vain until {what}: {error}", current());
            }
            // Other processes give no event that a test could wait for.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
