//! A control plane from binaries that are already there.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use modgate_value::Value;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use super::{LOG, Options, TIMEOUT, tail};

/// The variable that names a folder with `etcd`, `kube-apiserver` and `kubectl`; the name is what
/// other projects use.
pub const VARIABLE: &str = "KUBEBUILDER_ASSETS";

const ADVERTISED: &str = "http://127.0.0.1:2380";

/// The addresses and files of a running control plane.
pub(super) struct Ready {
    pub(super) kubeconfig: PathBuf,
    pub(super) server: String,
    pub(super) kubernetes: String,
}

/// The running binaries, ended in this order.
#[derive(Debug)]
#[expect(dead_code, reason = "held for their drops")]
pub(super) struct Processes {
    api_server: Process,
    etcd: Process,
}

pub(super) fn start(
    binaries: &Path,
    folder: &Path,
    options: &Options,
) -> Result<(Processes, Ready)> {
    for name in ["etcd", "kube-apiserver", "kubectl"] {
        let binary = binaries.join(name);
        ensure!(binary.is_file(), "{VARIABLE}: `{}` does not exist", binary.display());
    }
    let secrets = Secrets::write(folder)?;
    // The path of a socket may have about 100 bytes, which the folder's can exceed.
    let sockets = tempfile::Builder::new().prefix("mgc").tempdir()?;
    let log = folder.join(LOG);
    let url = |name: &str| format!("unix://{}", sockets.path().join(name).display());
    let (client, peer) = (url("client"), url("peer"));
    let etcd = Process::start(
        &binaries.join("etcd"),
        &[
            format!("--data-dir={}", folder.join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            // Must have a port, although no client of a single member uses it.
            format!("--advertise-client-urls={ADVERTISED}"),
            format!("--initial-advertise-peer-urls={ADVERTISED}"),
            format!("--initial-cluster=default={ADVERTISED}"),
            "--log-level=error".to_owned(),
            "--unsafe-no-fsync".to_owned(),
        ],
        &log,
        sockets.path(),
    )?;
    // Free until another process takes it; kube-apiserver takes no open socket.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let file = |path: &Path| path.display().to_string();
    let mut flags = vec![
        format!("--etcd-servers={client}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file(&secrets.server.certificate)),
        format!("--tls-private-key-file={}", file(&secrets.server.key)),
        format!("--client-ca-file={}", file(&secrets.authority)),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={}", file(&secrets.tokens)),
        format!("--service-account-signing-key-file={}", file(&secrets.server.key)),
        "--authorization-mode=RBAC".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
    ];
    flags.extend(options.all_flags());
    let api_server = Process::start(&binaries.join("kube-apiserver"), &flags, &log, folder)?;
    let processes = Processes { api_server, etcd };
    // Removed by the process.
    let _ = sockets.keep();

    let server = format!("https://127.0.0.1:{port}");
    let kubeconfig = folder.join("kubeconfig");
    fs::write(&kubeconfig, secrets.kubeconfig(&server))?;
    let kubernetes = wait(&binaries.join("kubectl"), &kubeconfig, &log)?;
    Ok((processes, Ready { kubeconfig, server, kubernetes }))
}

/// The version of the API server, once it is ready and has its first namespace.
fn wait(kubectl: &Path, kubeconfig: &Path, log: &Path) -> Result<String> {
    let run = |arguments: &[&str]| {
        super::go_program(kubectl).env("KUBECONFIG", kubeconfig).args(arguments).output()
    };
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let ready = [&["get", "--raw", "/readyz"][..], &["get", "namespace", "default"]];
        let mut good = true;
        for arguments in ready {
            good = good && run(arguments).context("cannot run kubectl")?.status.success();
        }
        if good {
            let version = run(&["get", "--raw", "/version"])?.stdout;
            let version = Value::from_json(&version).context("no version of the API server")?;
            let version = version.get("gitVersion").and_then(Value::as_str).unwrap_or_default();
            return Ok(version.to_owned());
        }
        if Instant::now() > deadline {
            bail!("the API server of {VARIABLE} is not ready in time: {}", tail(log));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// A process that ends when we do.
#[derive(Debug)]
struct Process(Child);

/// Runs a program until the end of our input, which comes even when this process is killed, and
/// then removes the folder `$0`. Its further output is dropped.
const UNTIL_LEFT: &str =
    "trap : INT TERM; \"$@\" & pid=$!; read -r _; kill -9 $pid; wait $pid; rm -rf \"$0\"";

impl Process {
    /// Writes `log`; `folder` is removed at the end.
    fn start(binary: &Path, flags: &[String], log: &Path, folder: &Path) -> Result<Self> {
        let log = File::options().create(true).append(true).open(log)?;
        let child = super::go_program("sh")
            .args(["-c", UNTIL_LEFT])
            .arg(folder)
            .arg(binary)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot run `{}`", binary.display()))?;
        Ok(Self(child))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        super::stop(&mut self.0);
    }
}

/// A certificate authority and what it signed, as files.
struct Secrets {
    authority: PathBuf,
    server: Pair,
    /// The public key of `server`, which also signs tokens.
    tokens: PathBuf,
    /// In group `system:masters`.
    admin: Pair,
}

struct Pair {
    certificate: PathBuf,
    key: PathBuf,
}

impl Pair {
    fn write(folder: &Path, name: &str, certificate: &str, key: &KeyPair) -> Result<Self> {
        let pair = Self {
            certificate: folder.join(format!("{name}.crt")),
            key: folder.join(format!("{name}.key")),
        };
        fs::write(&pair.certificate, certificate)?;
        fs::write(&pair.key, key.serialize_pem())?;
        Ok(pair)
    }
}

impl Secrets {
    fn write(folder: &Path) -> Result<Self> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "modgate test cluster");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let certificate = authority.self_signed(&authority_key)?;
        let authority_file = folder.join("ca.crt");
        fs::write(&authority_file, certificate.pem())?;
        let issuer = Issuer::new(authority, authority_key);

        let mut server = CertificateParams::new(["localhost".to_owned()])?;
        server.subject_alt_names.push(SanType::IpAddress(Ipv4Addr::LOCALHOST.into()));
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let mut admin = CertificateParams::default();
        admin.distinguished_name.push(DnType::CommonName, "admin");
        admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let issue = |name, params: CertificateParams, key: &KeyPair| {
            let certificate = params.signed_by(key, &issuer)?;
            Pair::write(folder, name, &certificate.pem(), key)
        };
        let (server_key, admin_key) = (KeyPair::generate()?, KeyPair::generate()?);
        let tokens = folder.join("tokens.pub");
        fs::write(&tokens, server_key.public_key_pem())?;
        Ok(Self {
            authority: authority_file,
            server: issue("server", server, &server_key)?,
            tokens,
            admin: issue("admin", admin, &admin_key)?,
        })
    }

    fn kubeconfig(&self, server: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\ncontexts:\n- name: test\n  \
             context: {{cluster: test, user: admin}}\nclusters:\n- name: test\n  cluster:\n    \
             server: {server}\n    certificate-authority: {}\nusers:\n- name: admin\n  user:\n    \
             client-certificate: {}\n    client-key: {}\n",
            self.authority.display(),
            self.admin.certificate.display(),
            self.admin.key.display()
        )
    }
}
