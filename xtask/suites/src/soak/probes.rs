//! How long probes, metrics and handshakes take meanwhile.

use std::{
    fmt,
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    sync::PoisonError,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use super::Run;

/// A probe waits no longer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often.
const PERIOD: Duration = Duration::from_millis(200);

/// The ports beside that of the webhooks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub(super) health: SocketAddr,
    pub(super) metrics: SocketAddr,
}

/// The times of each kind of probe.
#[derive(Debug, Default)]
pub(super) struct Times {
    kinds: [(&'static str, Vec<Duration>); 4],
}

impl Times {
    fn add(&mut self, index: usize, name: &'static str, took: Duration) {
        if let Some((of, times)) = self.kinds.get_mut(index) {
            *of = name;
            times.push(took);
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, times)) in self.kinds.iter().enumerate() {
            let mut times = times.clone();
            times.sort_unstable();
            let at = |share: usize| {
                let rank = (times.len() * share / 100).min(times.len().saturating_sub(1));
                times.get(rank).copied().unwrap_or_default().as_secs_f64() * 1000.0
            };
            let separator = if index == 0 { "" } else { "; " };
            write!(
                f,
                "{separator}{name} p50 {:.1} p99 {:.1} max {:.1} ms of {}",
                at(50),
                at(99),
                at(100),
                times.len()
            )?;
        }
        Ok(())
    }
}

/// Asks everything again and again. What does not answer is a fault of the run.
pub(super) fn probe(run: &Run, ports: Ports) {
    while !run.is_over() {
        let kinds: [(&'static str, &dyn Fn() -> Result<()>); 4] = [
            ("/healthz", &|| get(ports.health, "/healthz").map(drop)),
            ("/readyz", &|| get(ports.health, "/readyz").map(drop)),
            ("/metrics", &|| get(ports.metrics, "/metrics").map(drop)),
            ("handshake", &|| run.connect()?.greet()),
        ];
        for (index, (name, ask)) in kinds.into_iter().enumerate() {
            let start = Instant::now();
            let answered = ask();
            let took = start.elapsed();
            if let Err(error) = answered
                && !run.is_over()
            {
                run.fault(&run.failed, &format!("{name}: {error:#}"));
            }
            run.probes.lock().unwrap_or_else(PoisonError::into_inner).add(index, name, took);
        }
        thread::sleep(PERIOD);
    }
}

/// The lines of `/metrics` with the reviews that the server itself failed to decide, by cause.
pub(super) fn undecided(ports: Ports) -> Result<String> {
    let metrics = get(ports.metrics, "/metrics")?;
    let lines = metrics.lines().filter(|line| line.starts_with("modgate_undecided_reviews_total"));
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(
        format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").as_bytes(),
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let first = answer.lines().next().unwrap_or_default();
    ensure!(first.starts_with("HTTP/1.1 200"), "{first}");
    Ok(answer)
}
