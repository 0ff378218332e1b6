//! Flags of the originals that ask for nothing here, or for what is not to be had
//! (spec `gatekeeper-validation`, 9.5; `kubemod`, 7.6).

use anyhow::{Result, bail};
use modgate_gator::flags::GoBool as _;

use super::Program;

/// Accepted for manifests written for Gatekeeper and KubeMod.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Compatibility")]
pub(crate) struct CompatArgs {
    /// Serve webhooks, `--operator-metrics-addr` and `--operator-health-probe-addr`, as KubeMod's
    /// operator does. Webhooks are served in any case, unless only `--webapp` is given.
    #[arg(long, go_bool = Some(false))]
    pub(super) operator: bool,
    /// Serve the dry-run API on `--webapp-addr`, as KubeMod's web app does.
    #[arg(long, go_bool = Some(false))]
    pub(super) webapp: bool,
    /// Log at debug level, as KubeMod does.
    #[arg(long, go_bool = Some(false))]
    enable_dev_mode_log: bool,
    /// Without effect: the environment variable `POD_NAME` names the Pod.
    #[arg(long, go_bool = Some(false), hide = true)]
    debug_use_fake_pod: bool,
    /// Refused: statuses are written to the cluster that is governed.
    #[arg(long, go_bool = Some(false), hide = true)]
    enable_remote_cluster: bool,
    /// Without effect: mutation is served with `--operation=mutation-webhook`.
    #[arg(long, go_bool = None, hide = true)]
    enable_mutation: Option<bool>,
    /// Refused: use `--kubeconfig`.
    #[arg(long, value_name = "URL", hide = true)]
    master: Option<String>,
    /// Without effect: audits keep no files of objects.
    #[arg(long, value_name = "FOLDER", hide = true)]
    api_cache_dir: Option<String>,
    /// Without effect: logs go to standard error.
    #[arg(long, go_bool = None, hide = true)]
    logtostderr: Option<bool>,
    /// Without effect.
    #[arg(long, go_bool = None, hide = true)]
    alsologtostderr: Option<bool>,
    /// Without effect.
    #[arg(long, value_name = "LEVEL", hide = true)]
    v: Option<String>,
    /// Without effect.
    #[arg(long, value_name = "LEVELS", hide = true)]
    vmodule: Option<String>,
    /// Without effect.
    #[arg(long, value_name = "LEVEL", hide = true)]
    stderrthreshold: Option<String>,
    /// Without effect.
    #[arg(long = "log_dir", value_name = "FOLDER", hide = true)]
    log_dir: Option<String>,
    /// Without effect.
    #[arg(long = "log_backtrace_at", value_name = "PLACE", hide = true)]
    log_backtrace_at: Option<String>,
}

impl CompatArgs {
    /// Refuses what would be misunderstood if it were ignored.
    pub(crate) fn check(&self) -> Result<()> {
        if self.enable_remote_cluster {
            bail!(
                "`--enable-remote-cluster` is not supported: statuses are written to the cluster \
                 that is governed; run modgate there, or give `--kubeconfig` without it"
            );
        }
        if self.master.is_some() {
            bail!("`--master` is not supported: give `--kubeconfig` a file that names the server");
        }
        Ok(())
    }

    /// The notes about flags without effect.
    pub(crate) fn notes(&self) -> Vec<&'static str> {
        let mut notes = Vec::new();
        if self.enable_mutation.is_some() {
            notes.push("--enable-mutation does nothing: mutation is --operation=mutation-webhook");
        }
        if self.debug_use_fake_pod {
            notes
                .push("--debug-use-fake-pod does nothing: without POD_NAME no Pod is reported for");
        }
        if self.api_cache_dir.is_some() {
            notes.push(
                "--api-cache-dir does nothing: objects that are audited are not put into files",
            );
        }
        let glog = [
            ("--alsologtostderr", self.alsologtostderr.is_some()),
            ("--v", self.v.is_some()),
            ("--vmodule", self.vmodule.is_some()),
            ("--stderrthreshold", self.stderrthreshold.is_some()),
            ("--log_dir", self.log_dir.is_some()),
            ("--log_backtrace_at", self.log_backtrace_at.is_some()),
            ("--logtostderr=false", self.logtostderr == Some(false)),
        ];
        if glog.iter().any(|(_, is_given)| *is_given) {
            notes.push("flags of glog do nothing: --log-level sets the level");
        }
        notes
    }

    /// Whether KubeMod would log at debug level.
    pub(crate) fn logs_debug(&self) -> bool {
        self.enable_dev_mode_log
    }

    /// Whether only the dry-run API is served.
    pub(crate) fn is_webapp_only(&self, program: Program) -> bool {
        program == Program::Kubemod && self.webapp && !self.operator
    }

    /// KubeMod's error when there is nothing for it to do.
    pub(crate) fn idle(&self, program: Program) -> Option<[&'static str; 2]> {
        (program == Program::Kubemod && !self.operator && !self.webapp).then_some([
            "skipping operator: -operator option is not set",
            "skipping web app: -webapp option is not set",
        ])
    }
}
