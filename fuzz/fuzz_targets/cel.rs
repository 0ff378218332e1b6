//! Any bytes into `modgate_testkit::fuzz::cel`, which says what must hold.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| modgate_testkit::fuzz::cel(data));
