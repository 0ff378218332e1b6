//! How the static program is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Its start reads every relocation, all of them of one kind: in this form a hundredth of the bytes, which stay in memory otherwise
    // (`docs/performance.md`). The dynamic program's loader may be too old for it.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|it| it == "musl") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}
