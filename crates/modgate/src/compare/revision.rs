//! Policies of a git revision.

use std::{
    ffi::OsStr,
    fs,
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use tempfile::TempDir;

/// Bytes that the files of a revision may have.
const MAX_BYTES: u64 = 256 << 20;

/// A path, or the files of a git revision, which go away with this.
pub(super) enum Checkout {
    Given(PathBuf),
    Revision(TempDir),
}

impl Checkout {
    /// A path as it is if it exists; `REVISION:PATH` is read from the git repository of the current
    /// folder. A PATH that starts with `./` is relative to that folder, others to the repository.
    pub(super) fn of(given: &Path) -> Result<Self> {
        let text = given.to_string_lossy();
        let (false, Some((revision, path))) = (given.exists(), text.split_once(':')) else {
            return Ok(Self::Given(given.to_owned()));
        };
        ensure!(
            !revision.is_empty() && !revision.starts_with('-'),
            "`{revision}` is not a git revision"
        );
        let name = format!("{revision}:{path}");
        let folder = tempfile::Builder::new().prefix("modgate-").tempdir()?;
        let kind = git(["cat-file", "-t", &name])?;
        match String::from_utf8_lossy(&kind).trim() {
            "blob" => {
                let file = Path::new(path).file_name().unwrap_or(OsStr::new("policies.yaml"));
                fs::write(folder.path().join(file), git(["cat-file", "blob", &name])?)?;
            }
            "tree" | "commit" => {
                let archive = git(["archive", "--format=tar", &name])?;
                tar::Archive::new(archive.as_slice())
                    .unpack(folder.path())
                    .with_context(|| format!("cannot read `{name}`"))?;
            }
            kind => bail!("`{name}` is a {kind}, not a file or a folder"),
        }
        Ok(Self::Revision(folder))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Revision(folder) => folder.path(),
        }
    }
}

/// The output of git.
fn git<const N: usize>(arguments: [&str; N]) -> Result<Vec<u8>> {
    let mut child = Command::new("git")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let mut found = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_BYTES + 1).read_to_end(&mut found)?;
    }
    if u64::try_from(found.len()).is_ok_and(|length| length > MAX_BYTES) {
        child.kill()?;
        child.wait()?;
        bail!("the revision is larger than {} MiB", MAX_BYTES >> 20);
    }
    let ended = child.wait_with_output()?;
    let problem = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "{}", problem.lines().next().unwrap_or("git failed"));
    Ok(found)
}
