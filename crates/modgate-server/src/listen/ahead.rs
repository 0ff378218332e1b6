//! Reads of what comes over a connection in bulk.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// The bytes that are read at a time from a client that sends many.
const AHEAD: usize = 64 << 10;

/// A socket that is read ahead while its client sends more than a reader asks for: the reader of TLS asks for 4 KiB, and a
/// call of the system for each of them costs as much as copying them. Without anything to read it holds no memory.
#[derive(Debug)]
pub(super) struct ReadAhead {
    stream: TcpStream,
    /// Whether the last read left nothing free.
    is_bulk: bool,
    ahead: Vec<u8>,
    /// How much of it was read.
    at: usize,
}

impl ReadAhead {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, is_bulk: false, ahead: Vec::new(), at: 0 }
    }

    /// Waits for bytes. They are none at the end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        loop {
            if let Poll::Ready(ready) = self.stream.poll_read_ready(cx) {
                ready?;
            } else {
                self.ahead = Vec::new();
                return Poll::Pending;
            }
            self.ahead.reserve_exact(AHEAD);
            match self.stream.try_read_buf(&mut self.ahead) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }
}

impl AsyncRead for ReadAhead {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        wanted: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ahead.is_empty() {
            if !this.is_bulk {
                ready!(Pin::new(&mut this.stream).poll_read(cx, wanted))?;
                this.is_bulk = wanted.remaining() == 0;
                return Poll::Ready(Ok(()));
            }
            let read = ready!(this.poll_fill(cx))?;
            this.is_bulk = read == AHEAD;
        }
        let rest = this.ahead.get(this.at..).unwrap_or_default();
        let length = rest.len().min(wanted.remaining());
        wanted.put_slice(rest.get(..length).unwrap_or_default());
        this.at += length;
        if this.at >= this.ahead.len() {
            this.at = 0;
            this.ahead.clear();
            if !this.is_bulk {
                this.ahead = Vec::new();
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ReadAhead {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use super::*;

    #[tokio::test]
    async fn all_that_is_sent_is_read_in_whatever_pieces() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("port");
        let address = listener.local_addr().expect("address");
        let sent: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
        for pieces in [vec![1, 100, 5_000], vec![4096; 3], vec![70_000, 3], vec![1_000_000]] {
            for wanted in [1_000, 4_096, 200_000] {
                let mut client = TcpStream::connect(address).await.expect("connected");
                let (stream, _) = listener.accept().await.expect("accepted");
                let mut stream = ReadAhead::new(stream);
                let (all, pieces) = (sent.clone(), pieces.clone());
                let sends = tokio::spawn(async move {
                    let mut rest = &all[..];
                    for piece in pieces.iter().cycle() {
                        let (now, later) = rest.split_at(rest.len().min(*piece));
                        client.write_all(now).await.expect("sent");
                        rest = later;
                        if *piece < 100 {
                            tokio::task::yield_now().await;
                        }
                        if rest.is_empty() {
                            break;
                        }
                    }
                    client
                });
                let (mut read, mut buffer) = (Vec::new(), vec![0; wanted]);
                while read.len() < sent.len() {
                    let length = stream.read(&mut buffer).await.expect("read");
                    assert_ne!(length, 0, "it goes on");
                    read.extend_from_slice(&buffer[..length]);
                }
                assert!(read == sent);
                let mut client = sends.await.expect("no panic");
                // Nothing is held while nothing comes, and what comes then is read.
                let nothing = futures_util::poll!(std::pin::pin!(stream.read(&mut buffer)));
                assert!(nothing.is_pending());
                assert_eq!(stream.ahead.capacity(), 0);
                client.write_all(b"last").await.expect("sent");
                drop(client);
                let mut last = Vec::new();
                stream.read_to_end(&mut last).await.expect("read");
                assert_eq!(last, b"last");
            }
        }
    }
}
