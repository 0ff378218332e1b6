//! Building the Go modules in `tests/cluster` and `tests/helm`.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, IsTerminal as _, Write as _, stderr},
    path::PathBuf,
    process::{Command, Stdio},
    sync::OnceLock,
};

use anyhow::{Context as _, Result, bail};

use super::helm::Helm;
use crate::corpus::repository;

/// The programs that the module builds.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// The control plane.
    pub cluster: PathBuf,
    /// kubectl of the same version.
    pub kubectl: PathBuf,
}

/// The packages of the module that are commands.
const COMMANDS: [&str; 2] = [".", "./kubectl"];

/// The command of the module in `tests/helm`.
const HELM: &str = "helm.sh/helm/v4/cmd/helm";

/// The module whose version the API server reports.
const KUBERNETES: &str = "k8s.io/kubernetes";

/// Whether there is a Go toolchain.
pub fn has_go() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| go().arg("version").output().is_ok_and(|output| output.status.success()))
}

/// Builds the module, or finds that nothing has changed since it was built.
///
/// Go builds only what is new; the first time that is all of kube-apiserver, some ten minutes of
/// processor time. Only one process builds at a time, others wait for it.
///
/// # Errors
///
/// When Go says no; its words are in the error.
pub fn binaries() -> Result<Binaries> {
    static BUILT: OnceLock<Result<Binaries, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| locked(false).map_err(|error| format!("{error:#}")));
    built.clone().map_err(anyhow::Error::msg)
}

/// As [`binaries`], telling on standard error what is going on if that takes long.
///
/// # Errors
///
/// As [`binaries`].
pub fn with_progress() -> Result<Binaries> {
    locked(true)
}

fn locked(tell: bool) -> Result<Binaries> {
    let folder = target();
    let binaries = Binaries { cluster: folder.join("cluster"), kubectl: folder.join("kubectl") };
    let sources = ["tests/cluster", "tests/cluster/kubectl"];
    let outputs = [&binaries.cluster, &binaries.kubectl];
    once("built", &sources, &outputs, || build(&folder, tell))?;
    Ok(binaries)
}

/// Helm, built from the module in `tests/helm`, or found to be built already.
///
/// # Errors
///
/// As [`binaries`].
pub fn helm() -> Result<Helm> {
    let binary = target().join("helm");
    once("helm-built", &["tests/helm"], &[&binary], || {
        let mut command = go_in("tests/helm");
        command.args(["build", "-ldflags", "-s -w", "-o"]).arg(&binary).arg(HELM);
        let output = command.output().context("cannot run go")?;
        if !output.status.success() {
            bail!("cannot build tests/helm: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    })?;
    Ok(Helm::new(binary))
}

/// Where everything is built.
fn target() -> PathBuf {
    repository().join("target/cluster")
}

/// Runs `build` unless `outputs` are there and nothing they depend on has changed since. Only one
/// process does at a time, others wait for it.
fn once(
    name: &str,
    sources: &[&str],
    outputs: &[&PathBuf],
    build: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let folder = target();
    fs::create_dir_all(&folder)?;
    let lock = File::create(folder.join(format!("{name}.lock")))?;
    lock.lock().with_context(|| format!("cannot wait for another build ({name})"))?;
    // The toolchain looks whether all is new, which takes it two seconds; a look at the files of
    // the module itself is enough for us.
    let stamp = stamp(sources)?;
    let stamp_file = folder.join(name);
    if fs::read_to_string(&stamp_file).is_ok_and(|built| built == stamp)
        && outputs.iter().all(|output| output.is_file())
    {
        return Ok(());
    }
    build()?;
    Ok(fs::write(stamp_file, stamp)?)
}

/// Everything a build depends on: the files of a module and the toolchain.
fn stamp(sources: &[&str]) -> Result<String> {
    let mut files: Vec<_> = sources
        .iter()
        .filter_map(|folder| fs::read_dir(repository().join(folder)).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file() && path.extension().is_none_or(|extension| extension != "md"))
        .collect();
    files.sort();
    let version = go().arg("version").output().context("cannot run go")?;
    let mut stamp = String::from_utf8_lossy(&version.stdout).into_owned();
    for file in files {
        stamp.push_str(&fs::read_to_string(&file)?);
    }
    Ok(stamp)
}

fn build(folder: &std::path::Path, tell: bool) -> Result<()> {
    let version = version()?;
    let number = version.trim_start_matches('v');
    let mut parts = number.split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    // What Kubernetes' own build does; without it the API server says it is v0.0.0.
    let package = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} \
         -X {package}.gitMinor={minor}"
    );
    let mut command = go();
    command.args(["build", "-ldflags", &flags, "-o"]).arg(folder.join(""));
    if tell {
        command.arg("-v").args(COMMANDS);
        return build_telling(command);
    }
    command.args(COMMANDS);
    let output = command.output().context("cannot run go")?;
    if !output.status.success() {
        bail!("cannot build tests/cluster: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Counts packages as `go build -v` names them.
#[expect(clippy::print_stderr, reason = "progress of a long build")]
fn build_telling(mut command: Command) -> Result<()> {
    let listed = go().args(["list", "-deps"]).args(COMMANDS).output().context("cannot run go")?;
    let all = listed.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    eprintln!("building the test cluster (kube-apiserver, etcd, kubectl); minutes the first time");
    let mut child = command.stderr(Stdio::piped()).spawn().context("cannot run go")?;
    let terminal = stderr().is_terminal();
    let mut said = String::new();
    let mut built = 0_usize;
    for line in BufReader::new(child.stderr.take().context("no output of go")?).lines() {
        let line = line?;
        // Names of packages have no spaces; everything else is an error.
        if line.contains(' ') {
            said.push_str(&line);
            said.push('\n');
        } else {
            built += 1;
        }
        if terminal {
            eprint!("\r  {built} of at most {all} packages");
            stderr().flush()?;
        }
    }
    if terminal {
        eprintln!();
    }
    if !child.wait()?.success() {
        bail!("cannot build tests/cluster: {}", said.trim());
    }
    Ok(())
}

/// The version of Kubernetes the module asks for.
fn version() -> Result<String> {
    let output = go()
        .args(["list", "-m", "-f", "{{.Version}}", KUBERNETES])
        .output()
        .context("cannot run go")?;
    if !output.status.success() {
        bail!(
            "tests/cluster is no usable Go module: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Go, in the module of the cluster.
fn go() -> Command {
    go_in("tests/cluster")
}

fn go_in(module: &str) -> Command {
    let mut go = Command::new("go");
    go.current_dir(repository().join(module));
    go
}
