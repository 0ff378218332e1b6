//! A registry on loopback that serves one layout, for whatever name it is asked under.

use std::{
    fs,
    io::{BufRead as _, BufReader, Result, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    thread,
};

use modgate_value::Value;

/// It ends with the process.
pub(crate) struct Registry(SocketAddr);

impl Registry {
    pub(crate) fn serve(layout: &Path) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let layout = layout.to_owned();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let layout = layout.clone();
                thread::spawn(move || connection(&layout, stream));
            }
        });
        Ok(Self(address))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0
    }
}

/// Answers one request and closes.
fn connection(layout: &Path, mut stream: TcpStream) -> Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    let request = lines.next().transpose()?.unwrap_or_default();
    while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, digest, body) = match content(layout, path) {
        Some((kind, digest, body)) => ("200 OK", kind, digest, body),
        None if path == "/v2/" => {
            ("200 OK", "application/json".to_owned(), String::new(), b"{}".to_vec())
        }
        None => ("404 Not Found", "application/json".to_owned(), String::new(), b"{}".to_vec()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Docker-Content-Digest: {digest}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(&body)?;
    }
    Ok(())
}

/// Type, digest and bytes of a manifest or a blob.
fn content(layout: &Path, path: &str) -> Option<(String, String, Vec<u8>)> {
    let blob = |digest: &str| -> Option<Vec<u8>> {
        let file: PathBuf = layout.join("blobs/sha256").join(digest.strip_prefix("sha256:")?);
        fs::read(file).ok()
    };
    if let Some((_, digest)) = path.split_once("/blobs/") {
        return Some(("application/octet-stream".to_owned(), digest.to_owned(), blob(digest)?));
    }
    let (_, reference) = path.split_once("/manifests/")?;
    let index = Value::from_json(&fs::read(layout.join("index.json")).ok()?).ok()?;
    let named = index.pointer("/manifests/0")?;
    let text = |pointer: &str| named.pointer(pointer).and_then(Value::as_str);
    let digest = text("/digest")?;
    let tag = text("/annotations/org.opencontainers.image.ref.name")?;
    if reference != tag && reference != digest {
        return None;
    }
    Some((text("/mediaType")?.to_owned(), digest.to_owned(), blob(digest)?))
}
