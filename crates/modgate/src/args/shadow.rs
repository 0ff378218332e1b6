//! Flags of the second decision about requests.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use modgate_policies::manifest;
use modgate_server::ShadowConfig;
use modgate_traffic::{Remote, Target};
use modgate_value::gotime;

/// Second decisions about requests, without effect.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Shadow")]
pub(crate) struct ShadowArgs {
    /// File or folder with candidate policies, reloaded when it changes; repeat for more. They
    /// decide each request again after the answer; differences are counted, logged and reported.
    /// With `--policies` they replace all policies; otherwise they are added to those of the
    /// cluster.
    #[arg(long, value_name = "PATH", conflicts_with = "shadow_url")]
    shadow: Vec<PathBuf>,
    /// Also send each request to another webhook, and count, log and report its different answers:
    /// `https://HOST:PORT` for the same paths as here, `https://HOST:PORT/PATH` for one path, or
    /// `/v1/admit=URL` for the requests of one webhook; repeat for more. It receives Secrets as they are.
    #[arg(long, value_name = "URL")]
    shadow_url: Vec<Target>,
    /// PEM file with the CAs of the other webhook; the connection is TLS 1.3
    /// [default: those of the system]
    #[arg(long, value_name = "FILE", requires = "shadow_url")]
    shadow_ca: Option<PathBuf>,
    /// Time that the other webhook has for an answer [default: 5s]
    #[arg(long, value_name = "DURATION", requires = "shadow_url", value_parser = time)]
    shadow_timeout: Option<Duration>,
}

fn time(text: &str) -> Result<Duration, String> {
    let duration = gotime::Duration::parse(text)?;
    let nanoseconds = u64::try_from(duration.0).unwrap_or_default();
    let time = Duration::from_nanos(nanoseconds);
    if !(Duration::from_secs(1)..=Duration::from_secs(30)).contains(&time) {
        return Err("expected 1s to 30s".to_owned());
    }
    Ok(time)
}

impl ShadowArgs {
    /// Whether the paths can be followed.
    pub(crate) fn check(&self) -> Result<()> {
        for path in &self.shadow {
            ensure!(!manifest::is_stdin(path), "`serve` follows files; it cannot read `-`");
            ensure!(path.exists(), "`{}` does not exist", path.display());
        }
        Ok(())
    }

    /// The second decision, if any.
    pub(crate) fn config(&self) -> Option<ShadowConfig> {
        if !self.shadow.is_empty() {
            return Some(ShadowConfig::Policies(self.shadow.clone()));
        }
        (!self.shadow_url.is_empty()).then(|| ShadowConfig::Webhook {
            targets: self.shadow_url.clone(),
            authorities: self.shadow_ca.clone(),
            time: self.shadow_timeout.unwrap_or(Remote::TIME),
        })
    }
}
