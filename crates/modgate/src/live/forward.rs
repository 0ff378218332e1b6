//! `kubectl port-forward`: a Pod's port on this machine.
//!
//! kubectl does this for every way to authenticate, so modgate needs no client of WebSockets for it.

use std::{
    env,
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};

use super::ConnectionArgs;
use crate::terminal::printable;

/// How long kubectl may take to forward the port: it waits a minute for a Pod that does not run.
const TIME: Duration = Duration::from_secs(90);
/// How long to wait for the rest of its errors: a program that it started may still hold its output open.
const REST: Duration = Duration::from_secs(1);
/// Bytes of the line that names the port.
const MAX_LINE: u64 = 4 << 10;
/// Bytes that are kept of what kubectl writes about its errors, the last ones.
const MAX_ERRORS: usize = 4 << 10;

/// A forwarded port; it closes when this is dropped.
pub(super) struct Forwarded {
    child: Child,
    /// The errors that kubectl wrote, once it has ended.
    errors: Receiver<String>,
}

impl Forwarded {
    /// Forwards a port of this machine, any that is free by default, to the live page of a Pod.
    pub(super) fn start(args: &ConnectionArgs, pod: &str, port: Option<u16>) -> Result<Self> {
        let program = env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into());
        let mut command = Command::new(&program);
        if let Some(kubeconfig) = &args.kubeconfig {
            command.arg("--kubeconfig").arg(kubeconfig);
        }
        if let Some(context) = &args.context {
            command.args(["--context", context]);
        }
        let local = port.map(|port| port.to_string()).unwrap_or_default();
        let ports = format!("{local}:{}", args.modgate_port);
        command.args(["--namespace", &args.modgate_namespace, "port-forward"]);
        command.args(["--address", "127.0.0.1", &format!("pod/{pod}"), &ports]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| {
            format!(
                "cannot run `{}`, which forwards the port; install kubectl, or name it in KUBECTL",
                program.display()
            )
        })?;
        // Read all the time: kubectl writes a line for each connection that fails, and must not wait for a reader.
        let (sender, errors) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || sender.send(tail(stderr)));
        }
        Ok(Self { child, errors })
    }

    /// The address on this machine, once there is one.
    pub(super) fn address(&mut self) -> Result<String> {
        let stdout = self.child.stdout.take().context("the output of kubectl is read already")?;
        let (sender, first) = mpsc::channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            let _ = reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line);
            let _ = sender.send(line);
            // It writes a line for each connection, too.
            let _ = std::io::copy(&mut reader, &mut std::io::sink());
        });
        let line = first.recv_timeout(TIME).unwrap_or_default();
        match local_port(&String::from_utf8_lossy(&line)) {
            Some(port) => Ok(format!("http://127.0.0.1:{port}")),
            None => {
                let _ = self.child.kill();
                bail!("kubectl forwards no port: {}", self.errors())
            }
        }
    }

    /// Waits until kubectl ends.
    ///
    /// # Errors
    ///
    /// It failed, for example because the Pod is gone.
    pub(super) fn wait(&mut self) -> Result<()> {
        let status = self.child.wait()?;
        ensure!(status.success(), "kubectl has ended the forwarding: {}", self.errors());
        Ok(())
    }

    /// The errors of kubectl, which has ended.
    fn errors(&self) -> String {
        let errors = self.errors.recv_timeout(REST).unwrap_or_default();
        match errors.trim() {
            "" => "it does not say why".to_owned(),
            errors => printable(errors),
        }
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads to the end, and returns the last bytes as text.
fn tail(mut from: impl Read) -> String {
    let (mut kept, mut part) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = from.read(&mut part) {
        kept.extend_from_slice(part.get(..read).unwrap_or_default());
        let surplus = kept.len().saturating_sub(MAX_ERRORS);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The port of `Forwarding from 127.0.0.1:40123 -> 8088`.
fn local_port(line: &str) -> Option<u16> {
    let rest = line.trim().strip_prefix("Forwarding from ")?;
    rest.split_once(" -> ")?.0.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_errors_the_end_is_kept() {
        let text = format!("{}the end", "x".repeat(3 * MAX_ERRORS));
        let kept = tail(text.as_bytes());
        assert!(kept.ends_with("the end") && kept.len() == MAX_ERRORS, "{}", kept.len());
    }

    #[test]
    fn the_port_that_kubectl_chose() {
        assert_eq!(local_port("Forwarding from 127.0.0.1:40123 -> 8088\n"), Some(40123));
        assert_eq!(local_port("Forwarding from [::1]:7 -> 8088"), Some(7));
        assert_eq!(local_port("error: pods \"a\" not found"), None);
        assert_eq!(local_port(""), None);
    }
}
