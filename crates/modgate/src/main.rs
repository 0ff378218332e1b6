//! The binary `modgate`.

use std::process::ExitCode;

/// The static binary's: musl's own has one lock for all threads, and costs a third more time
/// (`docs/performance.md`).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    modgate::main()
}
