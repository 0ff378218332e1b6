//! Pods that are created over connections of their own to an API server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_testkit::{
    client::{self, TlsConnection},
    cluster::Cluster,
};
use modgate_value::Value;
use rustls::{
    ClientConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::load::library::pod_named;

/// Clients that create Pods.
pub(super) struct Load {
    address: SocketAddr,
    tls: ClientConfig,
    connections: usize,
}

/// The answers of a measurement.
#[derive(Default)]
pub(super) struct Measured {
    /// Of each Pod that was created, sorted.
    pub(super) latencies: Vec<Duration>,
    pub(super) errors: usize,
    pub(super) first_error: Option<String>,
}

impl Measured {
    /// The latency, in milliseconds, below which so many of a hundred stayed.
    pub(super) fn percentile(&self, of_hundred: usize) -> f64 {
        let rank = (self.latencies.len() * of_hundred).div_ceil(100).saturating_sub(1);
        self.latencies.get(rank).copied().unwrap_or_default().as_secs_f64() * 1000.0
    }

    fn add(&mut self, other: Self) {
        self.latencies.extend(other.latencies);
        self.errors += other.errors;
        self.first_error = self.first_error.take().or(other.first_error);
    }
}

/// The most that an answer may have: a Pod has some kilobytes.
const MAX_ANSWER: usize = 1 << 20;

impl Load {
    /// As the administrator of a cluster of `tests/cluster`.
    pub(super) fn prepare(cluster: &Cluster, connections: usize) -> Result<Self> {
        let folder = cluster.kubeconfig().parent().context("no folder")?.join("pki");
        let chain: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(folder.join("admin.crt"))?.collect();
        let key = PrivateKeyDer::from_pem_file(folder.join("admin.key"))?;
        let tls = client::trusting(&[&rustls::version::TLS13])?;
        let tls = tls.with_client_auth_cert(chain?, key)?;
        let address =
            cluster.server().trim_start_matches("https://").replace("localhost", "127.0.0.1");
        let address: SocketAddr = address.parse().with_context(|| address.clone())?;
        ensure!(address.ip().is_loopback(), "`{address}` is not a loopback address");
        Ok(Self { address, tls, connections })
    }

    /// Creates Pods for so long. The number of the round is part of their names.
    pub(super) fn run(&self, duration: Duration, round: usize) -> Result<Measured> {
        let end = Instant::now() + duration;
        let results: Vec<Result<Measured>> = thread::scope(|scope| {
            let start = |index: usize| scope.spawn(move || self.create(round, index, end));
            let workers: Vec<_> = (0..self.connections).map(start).collect();
            let joined = workers.into_iter().map(|worker| worker.join());
            joined.map(|result| result.unwrap_or_else(|_| bail!("a thread panicked"))).collect()
        });
        let mut all = Measured::default();
        for result in results {
            all.add(result?);
        }
        all.latencies.sort_unstable();
        Ok(all)
    }

    /// The answer of the API server to the creation of each of these Pods in `default`, as a dry
    /// run: its status, and its warnings or why it refuses, in one order.
    pub(super) fn try_out(&self, pods: &[Value]) -> Result<Vec<String>> {
        let mut connection = Connection::open(self.address, &self.tls)?;
        let path = "/api/v1/namespaces/default/pods?dryRun=All";
        let said = pods.iter().map(|pod| {
            let (status, answer) = connection.post(path, &pod.to_json())?;
            let answer = String::from_utf8_lossy(answer).into_owned();
            connection.warnings.sort();
            let lines = if status == 201 { connection.warnings.join("\n") } else { answer };
            Ok(format!("{status}\n{lines}"))
        });
        said.collect()
    }

    fn create(&self, round: usize, index: usize, end: Instant) -> Result<Measured> {
        let mut connection = Connection::open(self.address, &self.tls)?;
        let mut measured = Measured::default();
        for number in 0_u64.. {
            if Instant::now() >= end {
                break;
            }
            let body = pod_named(&format!("pod-{round}-{index}-{number}")).to_json();
            let started = Instant::now();
            let (status, answer) = connection.post("/api/v1/namespaces/default/pods", &body)?;
            if status == 201 {
                measured.latencies.push(started.elapsed());
            } else {
                measured.errors += 1;
                let text = String::from_utf8_lossy(answer).into_owned();
                measured.first_error.get_or_insert(text);
            }
        }
        Ok(measured)
    }
}

struct Connection {
    stream: BufReader<TlsConnection>,
    answer: Vec<u8>,
    /// The warnings of the last answer.
    warnings: Vec<String>,
}

impl Connection {
    fn open(address: SocketAddr, tls: &ClientConfig) -> Result<Self> {
        let stream = client::connect(address, tls.clone())?;
        Ok(Self { stream: BufReader::new(stream), answer: Vec::new(), warnings: Vec::new() })
    }

    /// Sends a request; its status and its body.
    fn post(&mut self, path: &str, body: &str) -> Result<(u16, &[u8])> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let stream = self.stream.get_mut();
        stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice())?;
        stream.flush()?;
        let line = self.line()?;
        let status =
            line.split(' ').nth(1).and_then(|code| code.parse().ok()).context(line.clone())?;
        let mut length = None;
        self.warnings.clear();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("not a header")?;
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse()?);
            } else if name.eq_ignore_ascii_case("warning") {
                self.warnings.push(value.trim().to_owned());
            }
        }
        self.answer.clear();
        match length {
            Some(length) => self.take(length)?,
            None => loop {
                let size = usize::from_str_radix(&self.line()?, 16)?;
                self.take(size)?;
                self.line()?;
                if size == 0 {
                    break;
                }
            },
        }
        Ok((status, &self.answer))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line)?;
        ensure!(read > 0, "the API server closed the connection");
        Ok(line.trim_end().to_owned())
    }

    fn take(&mut self, length: usize) -> Result<()> {
        let before = self.answer.len();
        ensure!(before + length <= MAX_ANSWER, "an answer of {} bytes", before + length);
        self.answer.resize(before + length, 0);
        self.stream.read_exact(self.answer.get_mut(before..).unwrap_or_default())?;
        Ok(())
    }
}
