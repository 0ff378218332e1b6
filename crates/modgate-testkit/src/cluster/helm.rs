//! Helm, for the chart in `deploy/chart`.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::{Context as _, Result, bail};

use crate::corpus::repository;

/// A `helm` that is not the user's own: it knows of no repositories, plugins or clusters.
#[derive(Debug, Clone)]
pub struct Helm {
    binary: PathBuf,
}

/// The release and namespace that a chart is rendered for, where nothing else is said.
pub const RELEASE: [&str; 2] = ["modgate", "gatekeeper-system"];

/// The value that the chart requires.
pub const IMAGE: &str = "image.repository=modgate";

impl Helm {
    pub(super) fn new(binary: PathBuf) -> Self {
        Self { binary }
    }

    /// The chart, as it stands in the repository.
    pub fn chart() -> PathBuf {
        repository().join("deploy/chart")
    }

    /// The manifests of the chart with these arguments, such as `--set replicas=1`, and with an
    /// image.
    ///
    /// # Errors
    ///
    /// The error of Helm.
    pub fn render(&self, arguments: &[&str]) -> Result<String> {
        let [release, namespace] = RELEASE;
        let chart = Self::chart();
        let output = self
            .command()
            .args(["template", release])
            .arg(&chart)
            .args(["--namespace", namespace, "--set", IMAGE])
            .args(arguments)
            .output()
            .context("cannot run helm")?;
        said(&output, &chart)
    }

    /// Checks the chart with `helm lint`, which has to find nothing.
    ///
    /// # Errors
    ///
    /// The error of Helm.
    pub fn lint(&self) -> Result<String> {
        let chart = Self::chart();
        let output = self.command().args(["lint", "--strict"]).arg(&chart).output()?;
        said(&output, &chart)
    }

    /// Helm, for anything else.
    pub fn command(&self) -> Command {
        let mut command = super::go_program(&self.binary);
        let nowhere = env::temp_dir().join("modgate-no-helm");
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, &nowhere);
        }
        command
    }
}

fn said(output: &Output, chart: &Path) -> Result<String> {
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let stdout = String::from_utf8_lossy(&output.stdout);
        bail!("`{}`: {}", chart.display(), format!("{stdout}{stderr}").trim());
    }
    Ok(String::from_utf8(output.stdout.clone())?)
}
