//! Requests to the API server through `kubectl proxy`, with what the audit log says of them.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

pub(crate) struct Api {
    proxy: Child,
    stream: BufReader<TcpStream>,
    log: PathBuf,
    read: usize,
    annotations: BTreeMap<String, BTreeMap<String, String>>,
    /// The `userInfo` of who sends the requests; null for the administrator.
    pub(crate) user: Value,
}

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    /// Sorted.
    pub(crate) warnings: Vec<String>,
    /// Those of policies.
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Drop for Api {
    fn drop(&mut self) {
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

impl Api {
    pub(crate) fn start(cluster: &Cluster, log: &Path) -> Self {
        let mut command = cluster.kubectl(["proxy", "--port=0", "--reject-methods=^$"]);
        let mut proxy = command.stdout(Stdio::piped()).spawn().expect("a proxy");
        let mut line = String::new();
        let output = proxy.stdout.take().expect("its output");
        BufReader::new(output).read_line(&mut line).expect("an address");
        let address = line.trim().rsplit(' ').next().expect("an address").to_owned();
        let stream = TcpStream::connect(address).expect("a connection");
        let (log, annotations) = (log.to_owned(), BTreeMap::new());
        Self { proxy, stream: BufReader::new(stream), log, read: 0, annotations, user: Value::Null }
    }

    pub(crate) fn send(&mut self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_json).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\n{}Content-Length: {}\r\n\r\n{body}",
            self.impersonation(),
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).expect("a request");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a status");
        let code = line.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a code");
        let mut warnings = Vec::new();
        let (mut length, mut id) = (None, String::new());
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse::<usize>().ok(),
                "audit-id" => value.clone_into(&mut id),
                "warning" => warnings.push(warning(value)),
                _ => {}
            }
        }
        let mut bytes = Vec::new();
        match length {
            Some(length) => {
                bytes.resize(length, 0);
                self.stream.read_exact(&mut bytes).expect("a body");
            }
            None => self.chunks(&mut bytes),
        }
        warnings.sort();
        let annotations = match self.log.as_os_str().is_empty() {
            true => BTreeMap::new(),
            false => self.annotations(&id),
        };
        // Go's protobuf writes one of two spaces, as the hash of the program has it, so that none relies on it.
        let text = String::from_utf8_lossy(&bytes).replace("proto:\u{a0}", "proto: ");
        let body = Value::from_json(text.as_bytes()).unwrap_or_default();
        Answer { code, body, warnings, annotations }
    }

    /// The headers that let the administrator act as the user.
    fn impersonation(&self) -> String {
        let Some(name) = self.user.get("username").and_then(Value::as_str) else {
            return String::new();
        };
        let groups = self.user.get("groups").and_then(Value::as_array);
        let groups = groups.into_iter().flat_map(|groups| groups.iter()).filter_map(Value::as_str);
        let groups: String =
            groups.map(|group| format!("Impersonate-Group: {group}\r\n")).collect();
        format!("Impersonate-User: {name}\r\n{groups}")
    }

    fn chunks(&mut self, bytes: &mut Vec<u8>) {
        loop {
            let mut line = String::new();
            self.stream.read_line(&mut line).expect("a chunk");
            let size = usize::from_str_radix(line.trim(), 16).expect("its size");
            let mut chunk = vec![0; size + 2];
            self.stream.read_exact(&mut chunk).expect("a chunk");
            if size == 0 {
                return;
            }
            bytes.extend(&chunk[..size]);
        }
    }

    /// The annotations that policies wrote into the audit event of a request.
    fn annotations(&mut self, id: &str) -> BTreeMap<String, String> {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !self.annotations.contains_key(id) {
            let text = std::fs::read_to_string(&self.log).unwrap_or_default();
            let new = text.get(self.read..).unwrap_or_default();
            let end = new.rfind('\n').map_or(0, |end| end + 1);
            self.read += end;
            for line in new[..end].lines() {
                let event = Value::from_json(line.as_bytes()).unwrap_or_default();
                let id = event.get("auditID").and_then(Value::as_str).unwrap_or_default();
                let found = event.get("annotations").and_then(Value::as_object);
                let found = found.into_iter().flat_map(|found| found.iter());
                let found = found
                    .filter(|(key, _)| key.starts_with("p-") || key.starts_with("validation."))
                    .map(|(key, value)| {
                        (key.to_string(), value.as_str().unwrap_or_default().to_owned())
                    });
                self.annotations.insert(id.to_owned(), found.collect());
            }
            assert!(Instant::now() < deadline, "no audit event {id}");
            if end == 0 {
                thread::sleep(Duration::from_millis(2));
            }
        }
        self.annotations.remove(id).unwrap_or_default()
    }
}

/// The text of a `Warning` header: `299 - "text"`.
fn warning(header: &str) -> String {
    let text = header.split_once('"').map_or(header, |(_, text)| text);
    let text = text.strip_suffix('"').unwrap_or(text);
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => out.extend(chars.next()),
            char => out.push(char),
        }
    }
    out
}
