//! The binary `modgate`.

use std::process::ExitCode;

/// musl's own has one lock for all threads, and costs a third more time; that of glibc takes a tenth more instructions for a
/// review. Without huge pages (the crate's feature `no_thp`): each of them is in memory as a whole once one byte of it is
/// used (`docs/performance.md`).
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Nor those that a kernel gives unasked. Where it cannot turn them off, it takes more memory.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    modgate::main()
}
