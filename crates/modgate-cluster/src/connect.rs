//! The client of a cluster.

use std::{path::PathBuf, time::Duration};

use kube::{
    Client, Config,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use modgate_telemetry::metrics::Metrics;

use super::{LOGGER, request_metrics::CountRequests};

/// The cluster to take policies from, and the user to take them as.
#[derive(Debug, Clone, Default)]
pub struct ClusterConfig {
    /// The file that names the cluster; without one it is the cluster this process runs in, and
    /// never one that merely happens to be in a home folder.
    pub kubeconfig: Option<PathBuf>,
    /// The context of that file, if not its current one.
    pub context: Option<String>,
}

/// Why there is no cluster to take policies from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The kubeconfig cannot be used.
    #[error("cannot use the kubeconfig `{}`: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Its error.
        reason: String,
    },
    /// This process does not run in a cluster.
    #[error(
        "no policies to serve: neither `--policies` nor `--kubeconfig` is given, and this process \
         is not in a cluster: {reason}"
    )]
    Nowhere {
        /// The missing part.
        reason: String,
    },
    /// The configuration cannot be used: its key is unreadable, for example.
    #[error("cannot make a client of the cluster: {reason}")]
    Client {
        /// The error.
        reason: String,
    },
}

/// How long the API server may be silent on a connection: longer than it lets a watch last.
const SILENCE: Duration = Duration::from_secs(295);

/// How long it may take to begin an answer: a little longer than it gives itself.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// Makes the client; its requests are counted and have deadlines. Nothing is sent yet.
///
/// # Errors
///
/// When the kubeconfig cannot be used, or this process is not in a cluster.
pub async fn connect(config: &ClusterConfig, metrics: &Metrics) -> Result<Client, ClusterError> {
    let mut found = match &config.kubeconfig {
        Some(path) => {
            let unusable = |error| ClusterError::Kubeconfig {
                path: path.clone(),
                reason: match error {
                    KubeconfigError::ReadConfig(error, _) => error.to_string(),
                    error => error.to_string(),
                },
            };
            let context = config.context.clone();
            let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
            let file = Kubeconfig::read_from(path).map_err(unusable)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(unusable)?
        }
        None => Config::incluster()
            .map_err(|error| ClusterError::Nowhere { reason: error.to_string() })?,
    };
    tracing::info!(target: LOGGER, server = %found.cluster_url, "policies come from a cluster");
    (found.read_timeout, found.reset_reader_on_write) = (Some(SILENCE), true);
    let host = found.cluster_url.authority().map(ToString::to_string).unwrap_or_default();
    let count = CountRequests {
        metrics: metrics.controllers().clone(),
        host: host.into(),
        timeout: REQUEST_TIMEOUT,
    };
    let client = ClientBuilder::try_from(found)
        .map_err(|error| ClusterError::Client { reason: error.to_string() })?;
    Ok(client.with_layer(&count).build())
}
