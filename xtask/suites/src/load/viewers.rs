//! Viewers of the live page beside the load: each polls what the page polls.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream, ToSocketAddrs as _},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};

/// Documents that a page polls.
const PATHS: [&str; 4] = ["status", "decisions", "policies", "namespaces"];
/// How often, as `openapi.json` allows.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The answers that viewers had.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    pub(crate) answers: u64,
    /// Answers that ask to come again later.
    pub(crate) refused: u64,
    pub(crate) failed: u64,
}

impl Seen {
    /// Together with those of another viewer.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            answers: self.answers + other.answers,
            refused: self.refused + other.refused,
            failed: self.failed + other.failed,
        }
    }
}

/// The address of the page; loopback only.
pub(crate) fn resolve(address: &str) -> Result<SocketAddr> {
    let found = address.to_socket_addrs().with_context(|| format!("`{address}`"))?.next();
    let found = found.context("the address has no address")?;
    ensure!(found.ip().is_loopback(), "`{address}` is not a loopback address");
    Ok(found)
}

/// Polls until `end`. Viewers begin at different moments, so that they do not ask all at once.
pub(crate) fn watch(page: SocketAddr, index: usize, count: usize, end: Instant) -> Seen {
    let share = u32::try_from(index).unwrap_or_default();
    let all = u32::try_from(count).unwrap_or(1).max(1);
    thread::sleep(INTERVAL * share / all);
    let mut seen = Seen::default();
    while Instant::now() < end {
        let next = Instant::now() + INTERVAL;
        for path in PATHS {
            match ask(page, path) {
                Ok(200) => seen.answers += 1,
                Ok(429) => seen.refused += 1,
                _ => seen.failed += 1,
            }
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    seen
}

/// The status of an answer, which is read to its end.
fn ask(page: SocketAddr, path: &str) -> Result<u16> {
    let mut stream = TcpStream::connect_timeout(&page, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /api/v1/{path} HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.get(9..12).context("no answer")?;
    Ok(str::from_utf8(head)?.parse()?)
}
