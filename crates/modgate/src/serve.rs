//! `modgate serve`: the webhooks.

use std::{
    env,
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    path::Path,
};

use anyhow::{Result, ensure};
use modgate_cluster::ClusterConfig;
use modgate_policies::{PolicyFiles, PolicyStore, manifest, paths};
use modgate_server::{
    CertificateSource, PolicyOrigin, ServeConfig, Server, Stopped, runtime, stop_signals,
};
use modgate_telemetry::{LogFormat, init_logs, log_finding};
use modgate_value::diag::Diagnostic;
use tokio::sync::mpsc;

use crate::{
    args::{ClusterArgs, Program, ServeArgs},
    exit::Exit,
    inputs,
    terminal::Terminal,
};

/// Where KubeMod's manifests mount the certificate.
const KUBEMOD_CERTIFICATE: &str = "/tmp/k8s-webhook-server/serving-certs";

/// Runs the verb until the process receives a signal to stop.
pub(crate) fn run(args: ServeArgs, terminal: &Terminal) -> Result<Exit> {
    let program = Program::of_this_process();
    args.compat.check()?;
    let mut of_flags = args.gatekeeper.check()?;
    of_flags.extend(args.logs.check()?);
    of_flags.extend(args.certificate.note());
    args.shadow.check()?;
    for path in args.policies.iter().chain(&args.objects) {
        ensure!(!manifest::is_stdin(path), "`serve` follows files; it cannot read `-`");
        ensure!(
            path.exists(),
            "`{}` does not exist{}",
            path.display(),
            paths::did_you_mean(path).map_or(String::new(), |help| format!("; {help}"))
        );
    }
    ensure!(
        !(args.gatekeeper.takes_all_bindings() && args.policies.is_empty()),
        "`--admission-policies=all` is for policies of files (`--policies`): the API server of a \
         cluster evaluates the policies that it has"
    );
    let format = init_logs(&args.logs.config(&args.compat))?;
    if let Some(lines) = args.compat.idle(program) {
        lines.iter().for_each(|line| tracing::info!(target: "main-setup", "{line}"));
        return Ok(Exit::Success);
    }
    let notes = args.compat.notes().into_iter().chain(args.telemetry.notes());
    notes.for_each(|note| tracing::warn!(target: "serve", "{note}"));
    of_flags.iter().for_each(|note| tracing::warn!(target: "serve", "{note}"));
    let telemetry = args.telemetry.clone();
    let strict = args.strict;
    let mut config = config(args, program);
    telemetry.apply(&mut config)?;
    if strict && !is_strictly_good(&config, terminal) {
        return Ok(Exit::BadInput);
    }
    let terminal = terminal.again();
    let stopping = terminal.again();
    // Machines read findings as log lines, people with the line underlined.
    let report = move |finding: &Diagnostic| match format {
        LogFormat::Json => log_finding(finding),
        LogFormat::Text | LogFormat::Auto => terminal.diagnostic(finding),
    };
    runtime()?.block_on(async {
        let asked_to_stop = tell_of_stopping(stop_signals()?, stopping);
        let server = Server::start(config, report).await?;
        announce(&server)?;
        Ok(match server.run_until(asked_to_stop).await {
            Stopped::Gracefully => Exit::Success,
            Stopped::AtOnce => Exit::Denied,
            Stopped::Broken => Exit::BadInput,
        })
    })
}

/// Whether the policies of files load without a warning; prints what is found.
fn is_strictly_good(config: &ServeConfig, terminal: &Terminal) -> bool {
    // A flag that goes with policies of files only.
    let PolicyOrigin::Files(files) = &config.policies else { return true };
    let findings = PolicyStore::new(files.clone(), config.engine.clone()).refresh().findings;
    inputs::are_good(findings, true, terminal)
}

fn config(args: ServeArgs, program: Program) -> ServeConfig {
    let ClusterArgs { kubeconfig, context } = args.cluster;
    // The originals' own libraries look there.
    let of_environment = || env::var_os("KUBECONFIG").filter(|path| !path.is_empty());
    let kubeconfig = match program {
        Program::Modgate => kubeconfig,
        _ => kubeconfig.or_else(|| of_environment().map(Into::into)),
    };
    let follows_cluster = args.policies.is_empty() && !args.compat.is_webapp_only(program);
    let policies = if follows_cluster {
        PolicyOrigin::Cluster(ClusterConfig { kubeconfig, context })
    } else {
        PolicyOrigin::Files(PolicyFiles { policies: args.policies, objects: args.objects })
    };
    let addresses = args.listen.addresses(&args.compat, program);
    let listen = args.listen;
    let mut certificate = args.certificate.source(follows_cluster);
    let mounted = |name| Path::new(KUBEMOD_CERTIFICATE).join(name);
    if program == Program::Kubemod
        && matches!(certificate, CertificateSource::Cluster(_))
        && mounted("tls.crt").exists()
    {
        certificate =
            CertificateSource::Files { cert: mounted("tls.crt"), key: mounted("tls.key") };
    }
    let mut config = ServeConfig::new(policies, certificate);
    args.certificate.apply(&mut config);
    let is_pod = env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    args.replicas.apply(is_pod || follows_cluster, &mut config);
    config.pod = env::var("POD_NAME").ok().filter(|pod| !pod.is_empty()).map(Into::into);
    config.engine = args.engine.config(&args.namespace);
    args.gatekeeper.apply(&mut config.engine);
    config.admission_policies = args.gatekeeper.follows_admission_policies();
    config.gatekeeper = args.gatekeeper.config();
    args.logs.apply(&mut config.gatekeeper);
    config.external_data = args.gatekeeper.external_data();
    if let Some(evaluators) = args.gatekeeper.evaluators() {
        config.evaluators = evaluators;
    }
    config.audit = args.audit.config();
    config.vap = args.vap.config();
    config.vap.webhook_configuration = args.certificate.validating_webhook_configuration();
    config.export = args.export.config();
    config.record = args.record.config();
    config.shadow = args.shadow.config();
    args.operations.apply(&mut config);
    config.addresses = addresses;
    listen.apply(&mut config.limits);
    if follows_cluster && !config.operations.serve() {
        config.addresses.webhooks.clear();
    }
    config
}

/// Logs after the first Ctrl-C that the next one ends the process at once.
fn tell_of_stopping(asked: mpsc::Receiver<()>, terminal: Terminal) -> mpsc::Receiver<()> {
    if !io::stderr().is_terminal() {
        return asked;
    }
    let text = "stopping once open requests are answered; Ctrl-C again stops at once";
    handed_on(asked, move || terminal.note(text))
}

/// Hands signals on, and does something at the first.
fn handed_on(
    mut asked: mpsc::Receiver<()>,
    at_first: impl FnOnce() + Send + 'static,
) -> mpsc::Receiver<()> {
    let (send, signals) = mpsc::channel(2);
    tokio::spawn(async move {
        let mut at_first = Some(at_first);
        while asked.recv().await.is_some() {
            if let Some(at_first) = at_first.take() {
                at_first();
            }
            if send.send(()).await.is_err() {
                return;
            }
        }
    });
    signals
}

/// Says where the webhooks are, and how to see a patch.
fn announce(server: &Server) -> Result<()> {
    let Some(address) = server.address() else { return Ok(()) };
    let url = format!("https://{}", reachable(address));
    let mut out = io::stdout().lock();
    let Some(store) = server.store() else {
        writeln!(out, "policies of the cluster on {url}; ready when {url}/readyz answers 200")?;
        out.flush()?;
        return Ok(());
    };
    let policies = store.policies().snapshot.policies().count();
    writeln!(out, "{policies} {} on {url}", if policies == 1 { "policy" } else { "policies" })?;
    if let Some(example) = store.example() {
        writeln!(out, "to see a patch, paste:\n  {}", curl(&url, example))?;
    }
    out.flush()?;
    Ok(())
}

/// A shell command that sends an example review and prints the patch it is answered with.
fn curl(url: &str, example: &Path) -> String {
    format!(
        "curl -sk {url}/dragnet-webhook -H 'Content-Type: application/json' --data @{} \
         | sed 's/.*\"patch\":\"\\([^\"]*\\)\".*/\\1/' | base64 -d",
        example.display()
    )
}

/// An address that listens everywhere is reached on this machine as localhost.
fn reachable(address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[test]
    fn the_first_signal_is_told_and_all_are_handed_on() {
        let runtime = runtime().expect("runtime");
        runtime.block_on(async {
            let (signal, asked) = mpsc::channel(2);
            let count = Arc::new(AtomicUsize::new(0));
            let counted = Arc::clone(&count);
            let mut signals = handed_on(asked, move || {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            assert_eq!(count.load(Ordering::Relaxed), 0);
            for _ in 0..2 {
                signal.send(()).await.expect("handed on");
                assert_eq!(signals.recv().await, Some(()));
                assert_eq!(count.load(Ordering::Relaxed), 1);
            }
            drop(signal);
            assert_eq!(signals.recv().await, None);
        });
    }

    #[test]
    fn addresses_to_paste() {
        for (address, expected) in [
            ("[::]:9443", "localhost:9443"),
            ("0.0.0.0:1", "localhost:1"),
            ("127.0.0.1:2", "127.0.0.1:2"),
        ] {
            assert_eq!(reachable(address.parse().expect("address")), expected);
        }
    }
}
