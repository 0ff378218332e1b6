//! The build of the image, as far as it runs without a container engine.

#![allow(clippy::expect_used, clippy::panic, reason = "test code, helpers included")]

use std::{fs, path::Path, process::Command};

use modgate_testkit::corpus::repository;

/// Cargo needs every member of the workspace, even to build one of them. So the image has to copy
/// them all.
#[test]
fn the_image_copies_all_that_cargo_reads() {
    let repository = repository();
    let recipe = fs::read_to_string(repository.join("deploy/Containerfile")).expect("read");
    let build = recipe.split("\nFROM ").find(|stage| stage.contains(" AS build\n"));
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target).expect("created");
    let copied =
        build.expect("a build stage").lines().filter_map(|line| line.strip_prefix("COPY "));
    for line in copied {
        let (sources, to) = line.rsplit_once(' ').expect("sources and a target");
        for source in sources.split(' ') {
            let to = if to == "./" { source } else { to };
            copy(&repository.join(source), &target.join(to));
        }
    }
    let found = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(&target)
        .output()
        .expect("cargo runs");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    assert!(target.join("deploy/build").is_file(), "the image runs deploy/build");
}

/// Copies a file, or of a folder the manifests and sources that Cargo looks for.
fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().expect("a folder")).expect("created");
        fs::copy(from, to)
            .unwrap_or_else(|error| panic!("cannot copy {}: {error}", from.display()));
        return;
    }
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        if path.is_dir() || path.extension().is_some_and(|kind| kind == "rs" || kind == "toml") {
            copy(&path, &to.join(entry.file_name()));
        }
    }
}
