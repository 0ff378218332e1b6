//! Any bytes into the target that `MODGATE_FUZZ_TARGET` names; `modgate_testkit::fuzz` says what must
//! hold of each.

#![no_main]

use std::{env, sync::LazyLock};

use modgate_testkit::fuzz::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = env::var("MODGATE_FUZZ_TARGET").expect("MODGATE_FUZZ_TARGET names a target");
    Target::named(&name).expect("MODGATE_FUZZ_TARGET names a target")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
