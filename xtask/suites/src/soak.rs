//! `cargo xtask soak`: one `modgate serve` under everything at once.
//!
//! Clients send reviews on every route and check every answer against the one they got before it
//! began; meanwhile policy files change and break, attackers hold connections open, send bombs and
//! cut bodies short. Each minute it prints memory, descriptors and the latency of well-behaved
//! clients. Only loopback is ever contacted.

mod attacks;
mod cases;
mod probes;

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_e2e::connection::Connection;

use self::{
    cases::{Case, cases},
    probes::{Ports, Times},
};
use crate::{
    load::{ProcessFigures, Target},
    program::ProgramArgs,
};

/// Options of `cargo xtask soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How long.
    #[arg(long, default_value_t = 5)]
    minutes: u64,
    #[command(flatten)]
    program: ProgramArgs,
    /// Clients that send as fast as they are answered, beside the well-behaved ones.
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// Reviews a second of well-behaved clients, each of which sends 50.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Idle and half-open connections of each kind.
    #[arg(long, default_value_t = 100)]
    idle: usize,
    /// Clients whose reviews meet three rules that use up all the time they get.
    #[arg(long, default_value_t = 0)]
    burning: usize,
}

/// Flags of the server: what a person would give it, and room for nothing.
const FLAGS: &[&str] = &["--log-level", "warn"];

/// A well-behaved client sends a review this often.
const PERIOD: Duration = Duration::from_millis(20);

/// And connects anew after so many: who is locked out is seen.
const FRESH: u64 = 20;

/// Different faults that are printed, and characters of each.
const MAX_FAULTS: usize = 20;
const FAULT_CHARS: usize = 400;

/// How much more memory than in the first third of the time there may be later: 10 %.
const GROWTH: (usize, usize) = (11, 10);

/// The state that all threads of a run share.
struct Run {
    address: SocketAddr,
    cases: Vec<Case>,
    over: AtomicBool,
    sent: AtomicU64,
    wrong: AtomicU64,
    failed: AtomicU64,
    attacks: AtomicU64,
    /// The faults, and how often they occurred.
    faults: Mutex<BTreeMap<String, u64>>,
    start: Instant,
    /// Nanoseconds of each answer to a well-behaved client in this minute.
    latencies: Mutex<Vec<u64>>,
    probes: Mutex<Times>,
}

impl Run {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn fault(&self, count: &AtomicU64, what: &str) {
        count.fetch_add(1, Ordering::Relaxed);
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let what = what.trim().chars().take(FAULT_CHARS).collect::<String>();
        if let Some(count) = faults.get_mut(&what) {
            *count += 1;
        } else if faults.len() < MAX_FAULTS {
            let minute = self.start.elapsed().as_secs() / 60 + 1;
            print_fault(minute, &what);
            faults.insert(what, 1);
        }
    }
}

/// Runs it; false when an answer was wrong or missing, memory grew, or the server did not survive.
#[expect(clippy::print_stdout, reason = "results go there")]
pub(crate) fn run(args: &Args) -> Result<bool> {
    let binary = args.program.path()?;
    let folder = tempfile::tempdir()?;
    cases::write_policies(folder.path())?;
    let address = free_address()?;
    let ports = Ports { health: free_address()?, metrics: free_address()? };
    let mut server = Server::start(&binary, folder.path(), address, ports)?;
    let cases = cases(address)?;
    server.wait(&cases)?;
    let run = Arc::new(Run {
        address,
        cases,
        over: AtomicBool::new(false),
        sent: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
        failed: AtomicU64::new(0),
        attacks: AtomicU64::new(0),
        faults: Mutex::default(),
        start: Instant::now(),
        latencies: Mutex::new(Vec::new()),
        probes: Mutex::default(),
    });
    // Every case once, before anything else happens: what it is answered then is right.
    let mut connection = run.connect()?;
    for case in 0..run.cases.len() {
        run.ask(&mut connection, case, 0, 0)?;
    }
    println!("minute  memory MB  descriptors  answers     wrong  missing  p50 ms  p99 ms  max ms");
    let minutes = thread::scope(|scope| {
        for _ in 0..args.rate.div_ceil(50) {
            scope.spawn(|| run.behave());
        }
        for client in 0..args.clients {
            let run = &run;
            scope.spawn(move || run.press(client + 1));
        }
        scope.spawn(|| cases::churn(folder.path(), &run.over));
        attacks::start(scope, &run, args.idle, args.burning);
        scope.spawn(|| probes::probe(&run, ports));
        let minutes = run.watch(&mut server, args.minutes);
        run.over.store(true, Ordering::Relaxed);
        minutes
    });
    let minutes = minutes?;
    let undecided = probes::undecided(ports)?;
    let faults = run.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
    println!(
        "answers checked {}, wrong {}, missing {}, attacks {}",
        run.sent.load(Ordering::Relaxed),
        run.wrong.load(Ordering::Relaxed),
        run.failed.load(Ordering::Relaxed),
        run.attacks.load(Ordering::Relaxed),
    );
    for (what, count) in &faults {
        println!("{count} times: {what}");
    }
    for line in undecided.lines() {
        println!("{line}");
    }
    println!("{}", run.probes.lock().unwrap_or_else(PoisonError::into_inner));
    let is_flat = is_flat(&minutes);
    if !is_flat {
        println!("memory grew by more than a tenth after the first third of the time");
    }
    Ok(is_flat && faults.is_empty())
}

/// Faults are printed when they happen: what the machine did then explains some.
#[expect(clippy::print_stdout, reason = "results go there")]
fn print_fault(minute: u64, what: &str) {
    println!("in minute {minute}: {what}");
}

/// Whether the memory of the minutes stays what it was in the first third of them.
fn is_flat(minutes: &[usize]) -> bool {
    let (early, late) = minutes.split_at(minutes.len().div_ceil(3));
    let most = |minutes: &[usize]| minutes.iter().copied().max().unwrap_or_default();
    late.is_empty() || most(late) * GROWTH.1 <= most(early) * GROWTH.0
}

impl Run {
    fn connect(&self) -> Result<Connection> {
        Target::resolve(&self.address.to_string(), "/")?.connect()
    }

    /// Sends a case and checks its answer.
    fn ask(
        &self,
        connection: &mut Connection,
        case: usize,
        client: usize,
        count: u64,
    ) -> Result<()> {
        let Some(case) = self.cases.get(case % self.cases.len().max(1)) else { bail!("no cases") };
        let mut request = case.request.clone();
        let uid = request.renew(client, count);
        let answer = connection.exchange(request.bytes())?.to_vec();
        self.sent.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = case.reference.check(&uid, &answer, &case.expected) {
            self.fault(&self.wrong, &format!("{}: {error:#}", case.name));
        }
        Ok(())
    }

    /// One review at a time, at a human pace.
    fn behave(&self) {
        let mut connection = None;
        for count in 0_u64.. {
            if self.is_over() {
                break;
            }
            if count % FRESH == 0 {
                connection = None;
            }
            let start = Instant::now();
            self.ask_again(&mut connection, 0, count);
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(nanos);
            thread::sleep(PERIOD.saturating_sub(start.elapsed()));
        }
    }

    /// As fast as it is answered.
    fn press(&self, client: usize) {
        let mut connection = None;
        for count in 0_u64.. {
            if self.is_over() {
                break;
            }
            self.ask_again(&mut connection, client, count);
        }
    }

    /// As an API server does it: over a new connection where the old one was closed meanwhile.
    fn ask_again(&self, connection: &mut Option<Connection>, client: usize, count: u64) {
        let case = usize::try_from(count).unwrap_or_default() + client;
        let was_open = connection.is_some();
        let mut attempt = || -> Result<()> {
            let open = match connection {
                Some(open) => open,
                None => connection.insert(self.connect()?),
            };
            self.ask(open, case, client, count)
        };
        let Err(mut error) = attempt() else { return };
        *connection = None;
        if was_open {
            let mut fresh = || -> Result<()> {
                let open = connection.insert(self.connect()?);
                self.ask(open, case, client, count)
            };
            match fresh() {
                Ok(()) => return,
                Err(again) => error = again,
            }
            *connection = None;
        }
        self.fault(&self.failed, &format!("no answer: {error:#}"));
        thread::sleep(PERIOD);
    }

    /// Prints a line for each minute; the most memory of each, in KiB.
    #[expect(clippy::print_stdout, reason = "results go there")]
    fn watch(&self, server: &mut Server, minutes: u64) -> Result<Vec<usize>> {
        let start = Instant::now();
        let mut most_memory = Vec::new();
        for minute in 1..=minutes {
            let (mut memory, mut descriptors) = (0, 0);
            while start.elapsed() < Duration::from_secs(minute * 60) {
                thread::sleep(Duration::from_secs(1));
                let figures = server.figures()?;
                memory = memory.max(figures.0);
                descriptors = descriptors.max(figures.1);
            }
            let mut latencies =
                std::mem::take(&mut *self.latencies.lock().unwrap_or_else(PoisonError::into_inner));
            latencies.sort_unstable();
            let at = |share: usize| {
                let rank = (latencies.len() * share / 100).min(latencies.len().saturating_sub(1));
                let nanos = latencies.get(rank).copied().unwrap_or_default();
                Duration::from_nanos(nanos).as_secs_f64() * 1000.0
            };
            println!(
                "{minute:>6}  {:>9}  {descriptors:>11}  {:>7}  {:>8}  {:>7}  {:>6.1}  {:>6.1}  {:>6.1}",
                memory / 1024,
                self.sent.load(Ordering::Relaxed),
                self.wrong.load(Ordering::Relaxed),
                self.failed.load(Ordering::Relaxed),
                at(50),
                at(99),
                at(100)
            );
            most_memory.push(memory);
        }
        Ok(most_memory)
    }
}

/// An address nothing listens on at the moment.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// The process under test; it ends with this.
struct Server(Child);

impl Server {
    fn start(binary: &Path, policies: &Path, address: SocketAddr, ports: Ports) -> Result<Self> {
        let child = Command::new(binary)
            .arg("serve")
            .arg("--policies")
            .arg(policies)
            .args(["--address", &address.to_string()])
            .args(["--health-addr", &ports.health.to_string()])
            .args(["--metrics-addr", &ports.metrics.to_string()])
            .args(FLAGS)
            // What it says about policies that are broken on purpose.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| binary.display().to_string())?;
        Ok(Self(child))
    }

    /// Until it answers.
    fn wait(&mut self, cases: &[Case]) -> Result<()> {
        let start = Instant::now();
        let target = &cases.first().context("no cases")?.target;
        while target.connect().and_then(|mut open| open.greet()).is_err() {
            if let Some(status) = self.0.try_wait()? {
                bail!("the server ended at once: {status}");
            }
            ensure!(start.elapsed() < Duration::from_secs(30), "the server does not answer");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Resident memory in KiB, and open descriptors.
    fn figures(&mut self) -> Result<(usize, usize)> {
        if let Some(status) = self.0.try_wait()? {
            bail!("the server did not survive: {status}");
        }
        let figures = ProcessFigures::read(self.0.id()).context("Linux says nothing of it")?;
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.0.id()))?.count();
        Ok((figures.resident_kib, descriptors))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_may_grow_by_a_tenth() {
        for (minutes, expected) in [
            (vec![], true),
            (vec![100], true),
            (vec![100, 110, 90], true),
            (vec![100, 90, 111], false),
            (vec![100, 100, 105, 110, 100, 100], true),
        ] {
            assert_eq!(is_flat(&minutes), expected, "{minutes:?}");
        }
    }
}
