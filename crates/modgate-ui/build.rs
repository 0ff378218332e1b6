//! Tells the crate whether `cargo xtask playground` has built the playground.

use std::path::Path;

const FILES: [&str; 5] = ["index.html", "main.js", "modgate.wasm", "style.css", "worker.js"];

fn main() {
    // The folder, which is always there: a path that is missing would have the crate built each time.
    println!("cargo::rerun-if-changed=dist");
    println!("cargo::rustc-check-cfg=cfg(playground)");
    let is_there = |name: &str| Path::new("dist/playground").join(format!("{name}.gz")).is_file();
    if FILES.iter().all(|name| is_there(name)) {
        println!("cargo::rustc-cfg=playground");
    }
}
