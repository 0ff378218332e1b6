//! Any bytes into the target that `MODGATE_FUZZ_TARGET` names; `modgate_testkit::fuzz` and `modgate_e2e::fuzz` say what must
//! hold of each.

#![no_main]

use std::{env, sync::LazyLock};

use modgate_e2e::fuzz::named;
use modgate_testkit::fuzz::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("MODGATE_FUZZ_TARGET").expect("MODGATE_FUZZ_TARGET names a target");
    named(&name).expect("MODGATE_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
