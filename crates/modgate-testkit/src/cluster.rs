//! A Kubernetes control plane for tests: etcd and kube-apiserver on loopback, with a kubectl.
//!
//! It comes from one of two places. Where the variable [`ASSETS`] names a folder, the binaries
//! `etcd`, `kube-apiserver` and `kubectl` in it are run ([`assets`]). Otherwise the Go module in
//! `tests/cluster` is built ([`build`]), once for all tests, and also runs the namespace and
//! garbage-collector controllers. Without either, tests are skipped and say so, but fail where `CI`
//! is `true`.
//!
//! Nothing stays behind: the processes end when the [`Cluster`] is dropped or this process ends,
//! however it ends.

mod assets;
pub mod balancer;
pub mod build;
pub mod helm;

use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use modgate_value::Value;
use tempfile::TempDir;

pub use assets::VARIABLE as ASSETS;

/// How long a start may take; some seconds on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(180);

/// How long an end may take.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How long an object may have no conditions.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(60);

/// The message of `kubectl wait` for an object without conditions, with which it fails at once.
const NO_CONDITIONS: &str = ".status.conditions accessor error: <nil>";

/// A running control plane.
#[derive(Debug)]
pub struct Cluster {
    running: Running,
    /// Removed by the processes that write to it, at their end: the [shared](Self::shared) cluster
    /// is never dropped.
    folder: PathBuf,
    kubeconfig: PathBuf,
    server: String,
    kubernetes: String,
    kubectl: PathBuf,
    has_controllers: bool,
}

/// How to start a [`Cluster`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Further flags of kube-apiserver, such as `--feature-gates=WatchList=false`.
    pub flags: Vec<String>,
}

/// The variable with further flags of kube-apiserver for every cluster, separated by spaces.
pub const FLAGS: &str = "MODGATE_CLUSTER_FLAGS";

impl Options {
    fn all_flags(&self) -> Vec<String> {
        let everywhere = env::var(FLAGS).unwrap_or_default();
        let everywhere = everywhere.split_whitespace().map(str::to_owned);
        self.flags.iter().cloned().chain(everywhere).collect()
    }
}

/// A command for a Go program, or for a shell that starts one, which runs for seconds or minutes here. It collects garbage less often than usual, and so
/// takes a fifth less processor time, and some 70 MB more memory.
fn go_program(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("GOGC", "400");
    command
}

#[derive(Debug)]
enum Running {
    Built(Program),
    #[expect(dead_code, reason = "held for its drop")]
    Assets(assets::Processes),
}

impl Cluster {
    /// The cluster all tests of this process share, started by the first that asks. `None`, with a
    /// line on standard error, where there is nothing to start it from.
    ///
    /// # Panics
    ///
    /// When it does not start, or nothing is there and `CI` is `true`: a test that needs it cannot
    /// pass.
    #[expect(clippy::panic, reason = "for tests only")]
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        let start = || match Self::start(&Options::default()) {
            Ok(cluster) => cluster,
            Err(error) => panic!("no test cluster: {error:#}"),
        };
        SHARED.get_or_init(start).as_ref()
    }

    /// A cluster of its own; `None` as [`shared`](Self::shared).
    ///
    /// # Errors
    ///
    /// When it does not build or start, or nothing is there and `CI` is `true`.
    #[expect(clippy::print_stderr, reason = "says why tests are skipped")]
    pub fn start(options: &Options) -> Result<Option<Self>> {
        match Source::find() {
            Source::Assets(binaries) => Self::from_assets(&binaries, options).map(Some),
            Source::Go => Self::from_build(&build::binaries()?, options).map(Some),
            Source::Nothing => {
                let what = format!("neither Go nor {ASSETS} is there");
                if env::var_os("CI").is_some_and(|ci| ci == "true") {
                    bail!("{what}, and CI must not skip the cluster tests");
                }
                eprintln!("skipped: {what}, so there is no Kubernetes to test against");
                Ok(None)
            }
        }
    }

    fn from_build(binaries: &build::Binaries, options: &Options) -> Result<Self> {
        let folder = folder()?;
        let (program, ready) = Program::start(&binaries.cluster, folder.path(), options)?;
        let text = |member: &str| -> Result<String> {
            let value = ready.get(member).and_then(Value::as_str);
            Ok(value
                .with_context(|| format!("the cluster did not report its `{member}`"))?
                .to_owned())
        };
        Ok(Self {
            running: Running::Built(program),
            kubeconfig: text("kubeconfig")?.into(),
            server: text("server")?,
            kubernetes: text("kubernetes")?,
            kubectl: binaries.kubectl.clone(),
            has_controllers: true,
            folder: folder.keep(),
        })
    }

    fn from_assets(binaries: &Path, options: &Options) -> Result<Self> {
        let folder = folder()?;
        let (processes, ready) = assets::start(binaries, folder.path(), options)?;
        Ok(Self {
            running: Running::Assets(processes),
            kubeconfig: ready.kubeconfig,
            server: ready.server,
            kubernetes: ready.kubernetes,
            kubectl: binaries.join("kubectl"),
            has_controllers: false,
            folder: folder.keep(),
        })
    }

    /// Stops the control plane, does something in the meantime, and starts it again with the data
    /// and the address it had. `None`, with nothing done, where it comes from [`ASSETS`].
    ///
    /// # Errors
    ///
    /// When it does not start again.
    pub fn restart<T>(&mut self, meanwhile: impl FnOnce() -> T) -> Result<Option<T>> {
        self.restart_as(&Options::default(), meanwhile)
    }

    /// As [`restart`](Self::restart), but it starts again with these options.
    ///
    /// # Errors
    ///
    /// As `restart`.
    pub fn restart_as<T>(
        &mut self,
        options: &Options,
        meanwhile: impl FnOnce() -> T,
    ) -> Result<Option<T>> {
        let Running::Built(program) = &mut self.running else { return Ok(None) };
        let keep = self.folder.join("keep");
        File::create(&keep)?;
        program.stop();
        let done = meanwhile();
        let binary = build::binaries()?.cluster;
        (*program, _) = Program::start(&binary, &self.folder, options)?;
        fs::remove_file(keep)?;
        Ok(Some(done))
    }

    /// A file with the credentials of an administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The URL of the API server.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The version that the API server reports, such as `v1.36.3`.
    pub fn kubernetes(&self) -> &str {
        &self.kubernetes
    }

    /// Whether namespaces and what belongs to deleted owners are removed, as in a whole cluster;
    /// binaries of [`ASSETS`] come without the controllers for that.
    pub fn has_controllers(&self) -> bool {
        self.has_controllers
    }

    /// The process of kube-apiserver and etcd; `None` where they come from [`ASSETS`], as two.
    pub fn process(&self) -> Option<u32> {
        let Running::Built(Program(shell)) = &self.running else { return None };
        let shell = shell.id();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// The log, for the message of a failed test.
    pub fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// The kubectl that belongs to the cluster.
    pub fn kubectl_binary(&self) -> &Path {
        &self.kubectl
    }

    /// `kubectl`, as administrator.
    pub fn kubectl<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = go_program(&self.kubectl);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            // Nothing of the user's own.
            .env("HOME", &self.folder)
            .args(arguments);
        command
    }

    /// Runs kubectl with `input` on its standard input; again where it will not wait for an object
    /// because that is too new to have any condition.
    ///
    /// # Errors
    ///
    /// When it cannot be run; that it fails is in the [`KubectlOutput`].
    pub fn run<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Result<KubectlOutput> {
        let file = self.folder.join(format!("input-{:?}", thread::current().id()));
        fs::write(&file, input)?;
        let mut command = self.kubectl(arguments);
        let deadline = Instant::now() + CONDITION_TIMEOUT;
        loop {
            let output =
                command.stdin(File::open(&file)?).output().context("cannot run kubectl")?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let outcome = KubectlOutput {
                success: output.status.success(),
                stdout: text(&output.stdout),
                stderr: text(&output.stderr),
            };
            if !outcome.stderr.contains(NO_CONDITIONS) || Instant::now() >= deadline {
                return Ok(outcome);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The output of kubectl.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubectlOutput {
    /// Whether it exited with 0.
    pub success: bool,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// Where a cluster can come from on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    /// A folder of binaries.
    Assets(PathBuf),
    /// The module in `tests/cluster`.
    Go,
    Nothing,
}

impl Source {
    fn find() -> Self {
        match env::var_os(ASSETS) {
            Some(folder) if !folder.is_empty() => Self::Assets(folder.into()),
            _ if build::has_go() => Self::Go,
            _ => Self::Nothing,
        }
    }
}

const LOG: &str = "cluster.log";

fn folder() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("modgate-test-")
        .tempdir()
        .context("cannot make a folder for the test cluster")
}

/// The program of `tests/cluster`, running; it stops when its standard input ends.
#[derive(Debug)]
struct Program(Child);

/// Runs a program and removes the folder `$0` when it has ended, also if that is by Ctrl-C, unless it
/// is to be started again.
const THEN_REMOVE: &str = "trap : INT TERM; \"$@\"; [ -e \"$0/keep\" ] || rm -rf \"$0\"";

impl Program {
    /// Returns the line it prints when it is ready.
    fn start(binary: &Path, folder: &Path, options: &Options) -> Result<(Self, Value)> {
        let log = folder.join(LOG);
        let mut child = go_program("sh")
            .args(["-c", THEN_REMOVE])
            .arg(folder)
            .arg(binary)
            .arg("--data-dir")
            .arg(folder.join("data"))
            .arg("--")
            .args(options.all_flags())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| format!("cannot run `{}`", binary.display()))?;
        let stdout = child.stdout.take();
        let program = Self(child);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut line = String::new();
            if let Some(stdout) = stdout {
                let _ = BufReader::new(stdout).read_line(&mut line);
            }
            let _ = sender.send(line);
        });
        let line = receiver.recv_timeout(TIMEOUT).unwrap_or_default();
        let ready = Value::from_json(line.as_bytes())
            .map_err(|_| anyhow::anyhow!("the test cluster did not start: {}", tail(&log)))?;
        Ok((program, ready))
    }
}

impl Program {
    fn stop(&mut self) {
        drop(self.0.stdin.take());
        stop(&mut self.0);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for a stopping process, up to a limit: a server with open watches takes its full ten
/// seconds, and the port of a killed server may stay in use for an unknown time.
fn stop(child: &mut Child) {
    let asked = Instant::now();
    while asked.elapsed() < STOP_TIMEOUT {
        match child.try_wait() {
            Ok(None) => thread::sleep(Duration::from_millis(50)),
            _ => return,
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
}
