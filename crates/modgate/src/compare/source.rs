//! Where sets of policies come from: files, git revisions, archives, registries, clusters.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Error, Result, anyhow, bail, ensure};
use tempfile::TempDir;

use super::CompareArgs;
use crate::{cluster::Cluster, terminal::Terminal};

/// Endings of archives.
const ARCHIVES: [&str; 3] = [".tar", ".tar.gz", ".tgz"];
const NO_CLUSTER: &str = "no cluster is configured; give `--kubeconfig`";
/// Bytes that the files of a revision or an archive may have.
const MAX_BYTES: u64 = 256 << 20;

/// A path, or files that go away with this.
pub(super) enum Checkout {
    Given(PathBuf),
    Fetched(TempDir),
}

impl Checkout {
    /// A path as it is if it exists; `REVISION:PATH` is read from the git repository of the current
    /// folder. A PATH that starts with `./` is relative to that folder, others to the repository.
    ///
    /// `oci://REFERENCE` is pulled from its registry, archives are unpacked, and `cluster:CONTEXT` is the policies of a
    /// cluster.
    pub(super) fn of(given: &Path, args: &CompareArgs, terminal: &Terminal) -> Result<Self> {
        let text = given.to_string_lossy();
        let folder = || tempfile::Builder::new().prefix("modgate-").tempdir();
        if let Some(reference) = text.strip_prefix("oci://") {
            let folder = folder()?;
            let env = |name: &str| std::env::var(name).ok();
            modgate_gator::pull(reference, false, folder.path(), &env).map_err(Error::msg)?;
            return Ok(Self::Fetched(folder));
        }
        if given.is_file() && ARCHIVES.iter().any(|ending| text.ends_with(ending)) {
            let folder = folder()?;
            let content = read(given)?;
            modgate_gator::unpack(&content, folder.path())
                .map_err(|error| anyhow!("cannot unpack `{text}`: {error}"))?;
            return Ok(Self::Fetched(folder));
        }
        let (false, Some((revision, path))) = (given.exists(), text.split_once(':')) else {
            return Ok(Self::Given(given.to_owned()));
        };
        if revision == "cluster" {
            let folder = folder()?;
            let context = Some(path).filter(|it| !it.is_empty()).or(args.context.as_deref());
            let cluster =
                Cluster::connect(args.kubeconfig.as_deref(), context, NO_CLUSTER, terminal)?;
            ensure!(!cluster.incomplete, "the policies of the cluster cannot be read");
            cluster.write_policies(folder.path())?;
            return Ok(Self::Fetched(folder));
        }
        ensure!(
            !revision.is_empty() && !revision.starts_with('-'),
            "`{revision}` is not a git revision"
        );
        let name = format!("{revision}:{path}");
        let folder = folder()?;
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
        Ok(Self::Fetched(folder))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Fetched(folder) => folder.path(),
        }
    }
}

/// A file of at most [`MAX_BYTES`].
fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = || format!("cannot read `{}`", path.display());
    let mut content = Vec::new();
    File::open(path).with_context(failed)?.take(MAX_BYTES + 1).read_to_end(&mut content)?;
    let is_small = u64::try_from(content.len()).is_ok_and(|length| length <= MAX_BYTES);
    ensure!(is_small, "`{}` is larger than {} MiB", path.display(), MAX_BYTES >> 20);
    Ok(content)
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
