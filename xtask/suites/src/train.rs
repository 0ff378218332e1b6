//! `cargo xtask train`: counts how often each piece of modgate runs, for the build of what ships.
//!
//! A program that counts is built by `deploy/build`. It then does what users have it do: it answers webhooks over TLS,
//! audits, and tests policies of this project and, where it is here, the public library. The compiler takes the counts
//! (`deploy/build` with `COUNTS=FILE`, `cargo xtask dist --counts`): it makes fast what runs often, and puts what
//! seldom runs where it is seldom read into memory.

use std::{
    env,
    ffi::OsStr,
    fs,
    io::{self, Write as _},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_testkit::{client::free_address, corpus, rego::library::folder};
use tempfile::TempDir;

use crate::{
    load::{self, Expected, Reference, Request, Target},
    program::targets,
    scale::simulated,
};

/// Options of `cargo xtask train`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The target to build for; this machine must be able to run it. Default: the target that the release has for this processor.
    #[arg(long, value_name = "TARGET")]
    target: Option<String>,
    /// The file to write. Default: target/TARGET/modgate.profdata.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// LLVM's `llvm-profdata`, of the compiler's major version. Default: the one of rustup's component `llvm-tools`.
    #[arg(long, value_name = "PROGRAM")]
    llvm_profdata: Option<PathBuf>,
    /// How long each webhook is asked.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

/// How long a server may take until it answers, and to end. A program that counts is slow.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Connections to a webhook.
const CONNECTIONS: usize = 4;
/// Pods of the audits.
const PODS: usize = 300;

/// Builds, trains and merges; false if the build failed, which has said why.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let target =
        args.target.clone().unwrap_or_else(|| format!("{}-unknown-linux-musl", env::consts::ARCH));
    let merge = merge_program(args)?;
    let Some(program) = build(&target)? else { return Ok(false) };
    let training = Training { program, counts: tempfile::tempdir()?, seconds: args.seconds };
    training.modrules()?;
    training.examples()?;
    if let Some(library) = folder() {
        training.library(&library)?;
    } else {
        say("the public library is not here (MODGATE_CONFORMANCE): trained without it");
    }
    training.audit()?;
    let default = || targets().join(&target).join("modgate.profdata");
    let out = args.out.clone().unwrap_or_else(default);
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let size = training.merge(&merge, &out)?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}: {size} bytes", out.display())?;
    writeln!(stdout, "build with it: COUNTS={} deploy/build --target {target}", out.display())?;
    Ok(true)
}

/// LLVM's program that merges counts.
fn merge_program(args: &Args) -> Result<PathBuf> {
    if let Some(program) = &args.llvm_profdata {
        // Before all that takes minutes.
        let asked = Command::new(program).arg("--version").output();
        let asked = asked.with_context(|| format!("cannot run `{}`", program.display()))?;
        let printed = String::from_utf8_lossy(&asked.stdout);
        ensure!(printed.contains("LLVM"), "`{}` is no program of LLVM", program.display());
        return Ok(program.clone());
    }
    let asked = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .current_dir(corpus::repository())
        .output()
        .context("cannot run rustc")?;
    let folder = PathBuf::from(String::from_utf8_lossy(&asked.stdout).trim());
    let program = folder.with_file_name("bin").join("llvm-profdata");
    ensure!(
        program.is_file(),
        "there is no `{}`: `rustup component add llvm-tools` installs it, or name one of the compiler's \
         LLVM version (`rustc --version --verbose`) with `--llvm-profdata`",
        program.display()
    );
    Ok(program)
}

/// Builds a program that counts, in a target folder of its own; `None` if that failed.
fn build(target: &str) -> Result<Option<PathBuf>> {
    say("building a program that counts");
    let folder = targets().join("train");
    let status = Command::new(corpus::repository().join("deploy/build"))
        .args(["--target", target])
        .env("CARGO_TARGET_DIR", &folder)
        .env("COUNT", "yes")
        .env_remove("COUNTS")
        .status()
        .context("cannot run deploy/build")?;
    Ok(status.success().then(|| folder.join(target).join("dist/modgate")))
}

/// A program that counts, and the folder of its counts.
struct Training {
    program: PathBuf,
    counts: TempDir,
    seconds: u64,
}

impl Training {
    /// The program, which writes its counts to a folder when it ends.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .current_dir(corpus::repository())
            .env("LLVM_PROFILE_FILE", self.counts.path().join("%p-%m.profraw"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs a command line, which may find fault with what it reads, but not end otherwise.
    fn once(&self, arguments: &[&OsStr]) -> Result<()> {
        let shown = arguments.join(OsStr::new(" "));
        say(&format!("modgate {}", shown.display()));
        let status = self.command().args(arguments).status()?;
        ensure!(matches!(status.code(), Some(0 | 1)), "modgate {}: {status}", shown.display());
        Ok(())
    }

    /// ModRules behind their webhook.
    fn modrules(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        load::write_fixture(folder.path(), 10, 0)?;
        let review = fs::read(folder.path().join("review.json"))?;
        let asked = [("/dragnet-webhook", review)];
        self.serve(&folder.path().join("policies"), &asked)
    }

    /// The policies of this project: each command that reads them.
    fn examples(&self) -> Result<()> {
        let examples = corpus::repository().join("examples");
        let mut folders = vec![(examples.join("gatekeeper"), examples.join("gatekeeper/objects"))];
        folders.push((examples.join("quickstart"), examples.join("quickstart/deployment.yaml")));
        for entry in fs::read_dir(examples.join("playground"))? {
            let folder = entry?.path();
            folders.push((folder.clone(), folder.join("object.yaml")));
        }
        folders.sort();
        for (policies, objects) in &folders {
            for command in ["review", "explain", "plan", "audit"] {
                let arguments =
                    [command.as_ref(), "-f".as_ref(), policies.as_os_str(), objects.as_os_str()];
                self.once(&arguments)?;
            }
        }
        self.once(&["verify".as_ref(), examples.join("gatekeeper/...").as_os_str()])?;
        self.once(&["lint".as_ref(), "-f".as_ref(), examples.join("gatekeeper").as_os_str()])
    }

    /// The public library behind the webhook of constraints, and under its suites.
    fn library(&self, library: &Path) -> Result<()> {
        let folder = tempfile::tempdir()?;
        load::library::write(folder.path())?;
        let body = |name: &str| fs::read(folder.path().join(name));
        let policies = folder.path().join("policies");
        let asked = [("/v1/admit", body("pod.json")?), ("/v1/admit", body("deployment.json")?)];
        self.serve(&policies, &asked)?;
        let all = library.join("...");
        self.once(&["verify".as_ref(), all.as_os_str()])?;
        let objects = folder.path().join("objects.json");
        let pods = (0..PODS).map(|at| load::library::pod_named(&format!("pod-{at}")).to_json());
        fs::write(&objects, pods.collect::<Vec<_>>().join("\n---\n"))?;
        self.once(&["audit".as_ref(), "-f".as_ref(), policies.as_os_str(), objects.as_os_str()])
    }

    /// Objects of an API server.
    fn audit(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let server = simulated::start(PODS * 10)?;
        simulated::prepare(folder.path(), server, 0..10)?;
        say("modgate audit, of an API server");
        let mut command = self.command();
        let status = command.current_dir(folder.path()).args(simulated::AUDIT).status()?;
        ensure!(status.success(), "modgate audit: {status}");
        Ok(())
    }

    /// Starts a server with the policies, asks it each of the reviews for a time, and ends it as a cluster does.
    fn serve(&self, policies: &Path, asked: &[(&str, Vec<u8>)]) -> Result<()> {
        let (address, health) = (free_address()?, free_address()?);
        say(&format!("modgate serve, {} reviews for {} s each", asked.len(), self.seconds));
        let child = self
            .command()
            .args(["serve", "--log-level", "error", "--address", &address.to_string()])
            .args(["--health-addr", &health.to_string(), "--policies"])
            .arg(policies)
            .spawn()?;
        let mut server = Server(child);
        for (route, body) in asked {
            let target = Target::resolve(&address.to_string(), route)?;
            server.wait(&target)?;
            ask(&target, body, Duration::from_secs(self.seconds))?;
        }
        server.end(address)
    }

    /// Merges all counts; the size of the file.
    fn merge(&self, program: &Path, out: &Path) -> Result<u64> {
        let mut command = Command::new(program);
        command.arg("merge").arg("--output").arg(out).arg(self.counts.path());
        let status =
            command.status().with_context(|| format!("cannot run `{}`", program.display()))?;
        ensure!(status.success(), "`{}` cannot merge the counts: {status}", program.display());
        Ok(fs::metadata(out).with_context(|| out.display().to_string())?.len())
    }
}

/// Asks for the same review for so long.
fn ask(target: &Target, body: &[u8], time: Duration) -> Result<()> {
    let mut request = Request::prepare(target, body)?;
    let expected = Expected { allowed: None, patch: None, any_order: false };
    let first = request.renew(0, 0);
    let mut connection = target.connect()?;
    Reference::default().check(&first, connection.exchange(request.bytes())?, &expected)?;
    let start = Instant::now();
    let outcomes = load::drive(target, &request, &expected, CONNECTIONS, (start, start + time))?;
    if let Some(error) = outcomes.into_iter().find_map(|outcome| outcome.first_error) {
        bail!("a review failed: {error}");
    }
    Ok(())
}

/// A server under training; it ends with this.
struct Server(Child);

impl Server {
    /// Until it takes connections.
    fn wait(&mut self, target: &Target) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        while target.connect().and_then(|mut open| open.greet()).is_err() {
            if let Some(status) = self.0.try_wait()? {
                bail!("the server ended at once: {status}");
            }
            ensure!(Instant::now() < deadline, "the server does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Ends it by a signal, after which it writes its counts.
    fn end(mut self, address: SocketAddr) -> Result<()> {
        let sent = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        ensure!(sent.context("cannot run kill")?.success(), "the server cannot be ended");
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.0.try_wait()? {
                ensure!(status.success(), "the server at {address} ended with {status}");
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the server at {address} does not end");
            thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Says what it does now, as it takes minutes.
fn say(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}
