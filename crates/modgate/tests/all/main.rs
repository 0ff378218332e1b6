//! The binary as people run it: one program of tests, because linking each costs seconds. A verb has a
//! module: `cargo test -p modgate --test all plan`.

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
mod agreement;
mod audit;
mod audit_cluster;
mod cli;
mod compare;
mod constraints;
mod convert;
mod coverage;
mod decisions;
mod documents;
mod flags;
mod gator;
mod http2;
mod lint;
mod lint_changes;
mod lint_moves;
mod live;
mod messages;
mod migrate;
mod migrate_chart;
mod objects_of_a_run;
mod originals;
mod places;
mod plan;
mod playground;
mod probe;
mod program;
mod recipes;
mod record;
mod render;
mod reports;
mod requests;
mod review_findings;
mod reviewed;
mod secrets;
mod serve;
mod served;
mod shadow;
