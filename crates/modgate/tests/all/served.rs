//! A running `modgate serve`.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    thread::{self, JoinHandle},
};

use modgate_testkit::{
    client::{self, TlsConnection, exchange, free_address},
    steps::eventually,
};
use modgate_value::Value;
use tempfile::TempDir;

/// A folder with policies and objects.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("written");
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
        command.args(args).current_dir(self.0.path()).env("NO_COLOR", "1");
        command.env_remove("KUBERNETES_SERVICE_HOST").env_remove("POD_NAMESPACE");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("modgate")
    }

    /// The results of `review` as JSON.
    pub(crate) fn review(&self, objects: &str) -> Vec<Value> {
        let output = self.run(&["review", "-o", "json", "-f", "policies.yaml", objects]);
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let results = Value::from_json(text.as_bytes()).unwrap_or_else(|_| panic!("{errors}"));
        results.as_array().unwrap_or_else(|| panic!("{text}{errors}")).to_vec()
    }

    /// `modgate serve` with `policies.yaml`, once it is ready.
    pub(crate) fn serve(&self, args: &[&str]) -> Serving {
        let address = free_address().expect("an address");
        let health = free_address().expect("an address");
        let metrics = free_address().expect("an address");
        let addresses = [address, health, metrics].map(|address| address.to_string());
        let mut all = vec!["serve", "--policies", "policies.yaml", "--address", &addresses[0]];
        all.extend(["--health-addr", &addresses[1], "--metrics-addr", &addresses[2]]);
        all.extend(args);
        let mut child = self
            .command(&all)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("modgate");
        // Read all the time: a full pipe would hold up the server.
        let mut stderr = BufReader::new(child.stderr.take().expect("stderr"));
        let log = thread::spawn(move || {
            let mut bytes = Vec::new();
            while stderr.read_until(b'\n', &mut bytes).is_ok_and(|read| read > 0) {}
            bytes
        });
        eventually("it is ready", || client::is_ready(health));
        Serving { child, log: Some(log), address, metrics }
    }
}

/// A running `modgate serve`.
pub(crate) struct Serving {
    child: Child,
    log: Option<JoinHandle<Vec<u8>>>,
    pub(crate) address: SocketAddr,
    metrics: SocketAddr,
}

impl Serving {
    /// The `response` of the answer to a review.
    pub(crate) fn review(&self, route: &str, review: &str) -> Value {
        let answer = exchange(self.open(), &client::post(route, review)).expect("an answer");
        response(&answer.body)
    }

    fn open(&self) -> TlsConnection {
        let config = client::trusting(rustls::DEFAULT_VERSIONS).expect("versions");
        client::connect(self.address, config.with_no_client_auth()).expect("TLS")
    }

    /// A connection for many reviews.
    pub(crate) fn connect(&self) -> Connection {
        Connection(BufReader::new(self.open()))
    }

    /// The answer of a path of the metrics' port.
    pub(crate) fn get(&self, path: &str) -> String {
        client::get(self.metrics, path).expect("an answer").body
    }

    /// The value of a series of `/metrics`; 0 if there is none.
    pub(crate) fn metric(&self, series: &str) -> u64 {
        let text = self.get("/metrics");
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map_or(0, |value| value.parse::<f64>().expect(value) as u64)
    }

    /// Kills it; its log.
    pub(crate) fn stop(mut self) -> Vec<u8> {
        self.child.kill().expect("killed");
        self.log.take().expect("a log").join().expect("a log")
    }

    /// Asks it to end, and waits; its log.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(id).status().expect("kill").success());
        let status = self.child.wait().expect("an end");
        let log = self.log.take().expect("a log").join().expect("a log");
        (status, String::from_utf8(log).expect("text"))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that stays open.
pub(crate) struct Connection(BufReader<TlsConnection>);

impl Connection {
    /// The `response` of the answer to a review.
    pub(crate) fn review(&mut self, route: &str, review: &str) -> Value {
        let length = review.len();
        let head = format!(
            "POST {route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        // In one piece: the system delays the second of two small ones.
        let stream = self.0.get_mut();
        stream.write_all((head + review).as_bytes()).expect("sent");
        stream.flush().expect("sent");
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("a line");
            let line = line.trim_end().to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            if line.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).expect("a body");
        response(&String::from_utf8(body).expect("text"))
    }
}

fn response(body: &str) -> Value {
    let review = Value::from_json(body.as_bytes()).expect(body);
    review.get("response").expect("a response").clone()
}
