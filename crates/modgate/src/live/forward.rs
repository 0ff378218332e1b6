//! `kubectl port-forward`: a Pod's port on this machine.
//!
//! kubectl does this for every way to authenticate, so modgate needs no client of WebSockets for it.

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result, bail};

use super::ConnectionArgs;

/// A forwarded port; it closes when this is dropped.
pub(super) struct Forwarded(Child);

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
        let child = command.spawn().with_context(|| {
            format!("cannot run `{}`, which forwards the port", program.display())
        })?;
        Ok(Self(child))
    }

    /// The address on this machine, once there is one.
    pub(super) fn address(&mut self) -> Result<String> {
        let stdout = self.0.stdout.take().context("the output of kubectl is read already")?;
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        reader.read_line(&mut line)?;
        let Some(port) = local_port(&line) else {
            let _ = self.0.kill();
            let mut error = String::new();
            if let Some(mut stderr) = self.0.stderr.take() {
                let _ = stderr.read_to_string(&mut error);
            }
            bail!("kubectl forwards no port: {}", error.trim());
        };
        // kubectl writes a line for each connection, and must not wait for a reader.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        if let Some(mut stderr) = self.0.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        Ok(format!("http://127.0.0.1:{port}"))
    }

    /// Waits until kubectl ends: the Pod is gone, or the user interrupts.
    pub(super) fn wait(&mut self) -> Result<()> {
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Forwarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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
    fn the_port_that_kubectl_chose() {
        assert_eq!(local_port("Forwarding from 127.0.0.1:40123 -> 8088\n"), Some(40123));
        assert_eq!(local_port("Forwarding from [::1]:7 -> 8088"), Some(7));
        assert_eq!(local_port("error: pods \"a\" not found"), None);
        assert_eq!(local_port(""), None);
    }
}
