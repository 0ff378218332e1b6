//! A connection for many requests to a webhook on loopback: TLS 1.3 and HTTP/1.1, kept open.
//!
//! The generators of load use it, so it costs little: one buffer, no copy of an answer that has a
//! `Content-Length`. Go's servers send long answers in chunks, which are put together.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};

/// More than any answer to an admission review.
const MAX_RESPONSE: usize = 16 << 20;

/// An open connection.
pub struct Connection {
    stream: StreamOwned<ClientConnection, TcpStream>,
    buffer: Vec<u8>,
    filled: usize,
    /// An answer that came in chunks.
    body: Vec<u8>,
}

impl Connection {
    /// Connects to an address; the handshake comes with the first request. Reading fails if no byte comes for `time`.
    ///
    /// # Errors
    ///
    /// If nothing listens, or TLS cannot be set up.
    pub fn open(
        address: std::net::SocketAddr,
        tls: &Arc<ClientConfig>,
        time: Duration,
    ) -> Result<Self> {
        let tcp = TcpStream::connect(address)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(time))?;
        let tls = ClientConnection::new(Arc::clone(tls), ServerName::try_from("localhost")?)?;
        let stream = StreamOwned::new(tls, tcp);
        Ok(Self { stream, buffer: Vec::new(), filled: 0, body: Vec::new() })
    }

    /// Completes the handshake.
    ///
    /// # Errors
    ///
    /// If the handshake fails.
    pub fn greet(&mut self) -> Result<()> {
        while self.stream.conn.is_handshaking() {
            self.stream.conn.complete_io(&mut self.stream.sock)?;
        }
        Ok(())
    }

    /// Sends one request and returns the body of its answer.
    ///
    /// # Errors
    ///
    /// If the connection fails, or the answer is not one of HTTP status 200 with a length or in chunks.
    pub fn exchange(&mut self, request: &[u8]) -> Result<&[u8]> {
        self.stream.write_all(request)?;
        self.stream.flush()?;
        self.filled = 0;
        let head_end = loop {
            let received = self.buffer.get(..self.filled).unwrap_or_default();
            if let Some(at) = received.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.fill()?;
        };
        let head = str::from_utf8(self.buffer.get(..head_end).unwrap_or_default())?;
        let status = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let header = |name: &str| {
            let headers = head.lines().filter_map(|line| line.split_once(':'));
            let mut found = headers.filter(|(key, _)| key.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.trim().to_owned())
        };
        let body = match (header("content-length"), header("transfer-encoding")) {
            (Some(length), _) => self.counted(head_end, length.parse()?)?,
            (None, Some(coding)) if coding.eq_ignore_ascii_case("chunked") => {
                self.chunked(head_end)?
            }
            _ => bail!("the answer has no Content-Length and is not in chunks"),
        };
        if status != "200" {
            bail!("HTTP status {status}: {}", String::from_utf8_lossy(body));
        }
        Ok(body)
    }

    fn counted(&mut self, start: usize, length: usize) -> Result<&[u8]> {
        ensure!(length <= MAX_RESPONSE, "an answer of {length} bytes");
        let end = start + length;
        self.until(end)?;
        ensure!(self.filled == end, "bytes follow the answer");
        self.buffer.get(start..end).context("the answer is cut off")
    }

    fn chunked(&mut self, start: usize) -> Result<&[u8]> {
        self.body.clear();
        let mut at = start;
        loop {
            let size_end = loop {
                let received = self.buffer.get(at..self.filled).unwrap_or_default();
                if let Some(length) = received.windows(2).position(|window| window == b"\r\n") {
                    break at + length;
                }
                self.fill()?;
            };
            let size = str::from_utf8(self.buffer.get(at..size_end).unwrap_or_default())?;
            let size = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).context("the size of a chunk")?;
            ensure!(self.body.len().saturating_add(size) <= MAX_RESPONSE, "the answer is too long");
            let end = size_end + 2 + size;
            self.until(end + 2)?;
            if size == 0 {
                ensure!(self.filled == end + 2, "bytes follow the answer");
                return Ok(&self.body);
            }
            self.body.extend_from_slice(self.buffer.get(size_end + 2..end).unwrap_or_default());
            at = end + 2;
        }
    }

    fn until(&mut self, end: usize) -> Result<()> {
        while self.filled < end {
            self.fill()?;
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        if self.buffer.len() == self.filled {
            self.buffer.resize((self.filled * 2).max(16 << 10), 0);
        }
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let read = self.stream.read(room)?;
        ensure!(read > 0, "the server closed the connection");
        self.filled += read;
        Ok(())
    }
}
