//! Tells the crate whether `cargo xtask playground` has built the playground, and what tells its files from older ones.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

const FILES: [&str; 6] =
    ["index.html", "main.js", "modgate.wasm", "start.js", "style.css", "worker.js"];

fn main() {
    // The folder, which is always there: a path that is missing would have the crate built each time.
    println!("cargo::rerun-if-changed=dist");
    println!("cargo::rustc-check-cfg=cfg(playground)");
    let read = |name: &str| fs::read(format!("dist/playground/{name}.gz")).ok();
    let Some(files) = FILES.into_iter().map(read).collect::<Option<Vec<_>>>() else { return };
    println!("cargo::rustc-cfg=playground");
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    // One for all: they belong together.
    println!("cargo::rustc-env=PLAYGROUND_TAG=\"{:016x}\"", hasher.finish());
}
