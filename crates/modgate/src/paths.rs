//! The files that paths of the command line stand for, and what kustomize builds.

use std::{io, path::Path, process::Command};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
pub(crate) use modgate_policies::paths::{
    Exclude, expanded, is_of_a_tool, patches, template_of_helm, unmatched,
};
use modgate_value::diag::Source;

/// The longest output of kustomize that is read.
const MAX_KUSTOMIZE_BYTES: usize = 64 << 20;

/// The output of kustomize for a folder.
///
/// # Errors
///
/// When there is no kustomize, or it fails.
pub(crate) fn kustomize(folder: &Path) -> Result<Source> {
    let run = Command::new("kustomize").arg("build").arg("--").arg(folder).output();
    let output = run.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow!(
            "`-k {}` needs `kustomize`, which is not in PATH; install it, or use `kubectl kustomize \
             {} | modgate ... -`",
            folder.display(),
            folder.display()
        ),
        _ => anyhow!("cannot run kustomize: {error}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("kustomize cannot build `{}`: {}", folder.display(), said.trim());
    }
    ensure!(output.stdout.len() <= MAX_KUSTOMIZE_BYTES, "kustomize printed more than 64 MiB");
    let text = String::from_utf8(output.stdout).context("kustomize printed no UTF-8 text")?;
    Ok(Source::new(format!("{} (kustomize)", folder.display()), text))
}
