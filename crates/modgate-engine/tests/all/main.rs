//! The engine through its public functions: one program of tests, because linking each costs seconds.
//! `allocations` is a program of its own, because it counts what its process allocates.

#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "tests fail by panicking, and their output says why"
)]

mod admission_policies;
mod constraint;
mod constraint_cel;
mod constraints_store;
mod differential;
mod expansion;
mod failures;
mod histories;
mod jsonpatch;
mod mutation;
mod policies;
mod references;
mod selection;
mod sharing;
mod sharing_library;
mod sharing_random;
mod support;
mod vap;
mod vap_round_trip;
