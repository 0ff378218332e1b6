//! Flags of the serving certificate, under Gatekeeper's names and with its defaults
//! (spec `gatekeeper-validation`, 9.2 and 9.5), and of stopping and leading (9.1; `kubemod`, 7.6).

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use modgate_cluster::ClusterCertificates;
use modgate_gator::flags::GoBool as _;
use modgate_server::{CertificateSource, ClientAuth, MinVersion, ServeConfig, TlsConfig};

/// Names of the certificate made at start: this machine's own, and the services that manifests point
/// their webhooks to.
const NAMES: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "::1",
    "kubemod-webhook-service.kubemod-system.svc",
    "gatekeeper-webhook-service.gatekeeper-system.svc",
    "modgate-webhook.modgate-system.svc",
];

/// The serving certificate. In a cluster it is made and renewed in a Secret, with policies of files
/// it is made at start, and with files of its own it is read from them.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Certificate")]
pub(crate) struct CertificateArgs {
    /// PEM file with the certificate chain, reloaded when it changes.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// PEM file with the private key.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Further name or address in the generated certificate, besides the services of the webhooks;
    /// repeat for more.
    #[arg(long, value_name = "NAME", conflicts_with = "cert")]
    tls_name: Vec<String>,
    /// Serve `tls.crt` and `tls.key` from `--cert-dir`, as cert-manager writes them. modgate then
    /// neither generates certificates nor writes webhook configurations.
    #[arg(long, go_bool = Some(false))]
    disable_cert_rotation: bool,
    /// Folder with `tls.crt` and `tls.key` if modgate does not generate the certificate, and with the
    /// file of `--client-ca-name`.
    #[arg(long, value_name = "FOLDER", default_value = "/certs")]
    cert_dir: PathBuf,
    /// Service in front of the webhooks, in the namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = "gatekeeper-webhook-service")]
    cert_service_name: String,
    /// Name of the ValidatingWebhookConfiguration whose `caBundle` modgate maintains.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "gatekeeper-validating-webhook-configuration"
    )]
    validating_webhook_configuration_name: String,
    /// Name of the MutatingWebhookConfiguration whose `caBundle` modgate maintains.
    #[arg(long, value_name = "NAME", default_value = "gatekeeper-mutating-webhook-configuration")]
    mutating_webhook_configuration_name: String,
    /// Further ValidatingWebhookConfigurations whose `caBundle` modgate maintains.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    additional_validating_webhook_configs_to_rotate_certs: Vec<String>,
    /// Further MutatingWebhookConfigurations whose `caBundle` modgate maintains.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    additional_mutating_webhook_configs_to_rotate_certs: Vec<String>,
    /// Lowest version of TLS: 1.2 or 1.3; 1.0 and 1.1 mean 1.2.
    #[arg(long, value_name = "VERSION", default_value = "1.3")]
    tls_min_version: MinVersion,
    /// File in `--cert-dir` with the CA of client certificates. Clients of the webhooks must then
    /// present a certificate.
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    client_ca_name: String,
    /// Common name that those certificates must have.
    #[arg(long, value_name = "NAME", default_value = "kube-apiserver")]
    client_cn_name: String,
    /// Fail `/healthz` if the served certificate is not the current one.
    #[arg(long, go_bool = Some(false))]
    enable_tls_healthcheck: bool,
}

impl CertificateArgs {
    /// The configuration of the validating webhook.
    pub(crate) fn validating_webhook_configuration(&self) -> String {
        self.validating_webhook_configuration_name.clone()
    }

    /// The certificates to serve; `has_cluster` is whether policies come from a cluster.
    pub(crate) fn source(&self, has_cluster: bool) -> CertificateSource {
        if let (Some(cert), Some(key)) = (self.cert.clone(), self.key.clone()) {
            return CertificateSource::Files { cert, key };
        }
        if self.disable_cert_rotation {
            let file = |name| self.cert_dir.join(name);
            return CertificateSource::Files { cert: file("tls.crt"), key: file("tls.key") };
        }
        if has_cluster {
            return CertificateSource::Cluster(ClusterCertificates {
                service: self.cert_service_name.clone(),
                names: self.tls_name.clone(),
                validating: self.validating_webhook_configuration_name.clone(),
                mutating: self.mutating_webhook_configuration_name.clone(),
                additional_validating: self
                    .additional_validating_webhook_configs_to_rotate_certs
                    .clone(),
                additional_mutating: self
                    .additional_mutating_webhook_configs_to_rotate_certs
                    .clone(),
                ..ClusterCertificates::default()
            });
        }
        let names = NAMES.into_iter().map(str::to_owned).chain(self.tls_name.iter().cloned());
        CertificateSource::SelfSigned { names: names.collect() }
    }

    /// A note about a folder that does not exist and is not read either.
    pub(crate) fn note(&self) -> Option<String> {
        let is_read = self.disable_cert_rotation || !self.client_ca_name.is_empty();
        let is_silent = is_read || self.cert_dir.exists() || self.cert_dir == Path::new("/certs");
        (!is_silent).then(|| {
            format!(
                "--cert-dir: `{}` does not exist, and only `--disable-cert-rotation` and \
                 `--client-ca-name` read it",
                self.cert_dir.display()
            )
        })
    }

    /// Sets the requirements for connections.
    pub(crate) fn apply(&self, config: &mut ServeConfig) {
        let clients = (!self.client_ca_name.is_empty()).then(|| ClientAuth {
            authorities: self.cert_dir.join(&self.client_ca_name),
            common_name: self.client_cn_name.clone(),
        });
        config.tls = TlsConfig { min_version: self.tls_min_version, clients };
        config.tls_health_check = self.enable_tls_healthcheck;
    }
}

/// How a process stops, and who of several writes.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Replicas")]
pub(crate) struct ReplicaArgs {
    /// Seconds for which requests are answered as before after a signal to stop
    /// [default: 10 in a cluster or with its policies, else 0]
    #[arg(long, value_name = "SECONDS")]
    shutdown_delay: Option<u32>,
    /// Accepted for KubeMod's manifests: replicas always elect a leader, and all of them enforce.
    #[arg(long, go_bool = Some(false))]
    enable_leader_election: bool,
}

/// Until every API server knows that a Pod is going.
const SHUTDOWN_DELAY: u32 = 10;

impl ReplicaArgs {
    /// `is_asked_by_cluster` is whether API servers may call this process.
    pub(crate) fn apply(&self, is_asked_by_cluster: bool, config: &mut ServeConfig) {
        // Whatever it says, there is one leader, and it decides nothing.
        let _ = self.enable_leader_election;
        let default = if is_asked_by_cluster { SHUTDOWN_DELAY } else { 0 };
        let delay = self.shutdown_delay.unwrap_or(default);
        config.shutdown_delay = Duration::from_secs(delay.into());
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use modgate_policies::PolicyFiles;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        certificate: CertificateArgs,
    }

    fn parsed(flags: &str) -> CertificateArgs {
        let all = ["modgate"].into_iter().chain(flags.split_whitespace());
        Flags::try_parse_from(all).expect("flags").certificate
    }

    fn files(cert: &str, key: &str) -> CertificateSource {
        CertificateSource::Files { cert: cert.into(), key: key.into() }
    }

    #[test]
    fn where_the_certificate_comes_from() {
        for (flags, has_cluster, expected) in [
            ("--cert a --key b", true, files("a", "b")),
            ("--disable-cert-rotation", true, files("/certs/tls.crt", "/certs/tls.key")),
            ("--disable-cert-rotation=true --cert-dir x", false, files("x/tls.crt", "x/tls.key")),
            ("", true, CertificateSource::Cluster(ClusterCertificates::default())),
            (
                "--disable-cert-rotation=false --cert-service-name s --tls-name n \
                 --additional-mutating-webhook-configs-to-rotate-certs a,b",
                true,
                CertificateSource::Cluster(ClusterCertificates {
                    service: "s".to_owned(),
                    names: vec!["n".to_owned()],
                    additional_mutating: vec!["a".to_owned(), "b".to_owned()],
                    ..ClusterCertificates::default()
                }),
            ),
        ] {
            assert_eq!(parsed(flags).source(has_cluster), expected, "{flags}");
        }
        let CertificateSource::SelfSigned { names } = parsed("--tls-name n").source(false) else {
            panic!("not made at start");
        };
        assert!(names.starts_with(&["localhost".to_owned()]) && names.ends_with(&["n".to_owned()]));
    }

    #[test]
    fn how_long_a_process_goes_on() {
        #[derive(Debug, Parser)]
        struct Flags {
            #[command(flatten)]
            replicas: ReplicaArgs,
        }
        for (flags, is_asked_by_cluster, expected) in [
            ("modgate", true, 10),
            ("modgate", false, 0),
            ("modgate --shutdown-delay=3", true, 3),
            ("modgate --shutdown-delay=3", false, 3),
            ("modgate --shutdown-delay=0", true, 0),
        ] {
            let flags = Flags::try_parse_from(flags.split_whitespace()).expect(flags);
            let files = PolicyFiles { policies: Vec::new(), objects: Vec::new() };
            let mut config = ServeConfig::new(files, parsed("").source(false));
            flags.replicas.apply(is_asked_by_cluster, &mut config);
            assert_eq!(config.shutdown_delay.as_secs(), expected, "{flags:?}");
        }
    }

    #[test]
    fn a_version_that_is_none() {
        let error = Flags::try_parse_from(["modgate", "--tls-min-version", "2"]).expect_err("none");
        let expected = "invalid TLS version. Must be one of: 1.0, 1.1, 1.2, or 1.3";
        assert!(error.to_string().contains(expected), "{error}");
    }
}
