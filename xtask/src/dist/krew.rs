//! The plugin manifest for an index of krew, with addresses and digests.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

use super::{About, program::Arch};

/// Fills in `deploy/krew/modgate.yaml`. Each archive is its processor, its file name and its SHA-256.
pub(super) fn manifest(
    about: &About,
    template: &str,
    base: &str,
    archives: &[(Arch, String, String)],
) -> Result<String> {
    let (text, _) = template
        .split_once("\n  platforms:\n")
        .context("deploy/krew/modgate.yaml has no `platforms`")?;
    // Comments at the top concern the template.
    let start = text.find("apiVersion:").context("deploy/krew/modgate.yaml has no `apiVersion`")?;
    let text = text.split_at(start).1;
    let (before, after) =
        text.split_once("\n  version: ").context("deploy/krew/modgate.yaml has no `version`")?;
    let after = after.split_once('\n').map(|(_, after)| after).unwrap_or_default();
    let mut all = format!("{before}\n  version: v{}\n", about.version);
    if let Some(source) = &about.source {
        writeln!(all, "  homepage: {source}")?;
    }
    writeln!(all, "{after}\n  platforms:")?;
    for (arch, file, digest) in archives {
        write!(
            all,
            "    - selector:
        matchLabels:
          os: linux
          arch: {}
      uri: {}/{file}
      sha256: {digest}
      bin: kubectl-modgate
      files:
        - from: modgate
          to: kubectl-modgate
        - from: LICENSE
          to: .
",
            arch.name(),
            base.trim_end_matches('/')
        )?;
    }
    Ok(all)
}
