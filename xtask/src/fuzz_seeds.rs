//! `cargo xtask fuzz-seeds`: inputs for the fuzz targets to start from, out of the corpora.

use std::fs;

use anyhow::Result;
use modgate_testkit::{Roots, corpus, fuzz::TARGETS};

/// Writes `fuzz/corpus/<target>/<number>`.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run() -> Result<bool> {
    let roots = Roots::discover();
    for target in TARGETS {
        let folder = corpus::repository().join("fuzz/corpus").join(target.name);
        fs::create_dir_all(&folder)?;
        let seeds = target.seeds(&roots)?;
        for (index, seed) in seeds.iter().enumerate() {
            fs::write(folder.join(format!("seed-{index:04}")), seed)?;
        }
        println!("fuzz-seeds: {} for {}", seeds.len(), target.name);
    }
    Ok(true)
}
