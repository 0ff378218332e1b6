//! Flags of exports, under Gatekeeper's names and with its defaults (spec `gatekeeper-validation`,
//! 7.6).

use std::env;

use modgate_export::ExportConfig;
use modgate_gator::flags::GoBool as _;

/// Where violations go besides statuses, logs and Events.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Export")]
pub(crate) struct ExportArgs {
    /// Export violations of audits to the target of the Connection.
    #[arg(long, go_bool = Some(false))]
    enable_violation_export: bool,
    /// Export violations of the validating webhook, too.
    #[arg(long, go_bool = Some(false))]
    enable_admission_violation_export: bool,
    /// Name of the Connection, in the namespace of the installation.
    #[arg(long, value_name = "NAME", default_value = "audit-connection")]
    audit_connection: String,
    /// Topic to publish to, or folder to write to.
    #[arg(long, value_name = "NAME", default_value = "audit-channel")]
    audit_channel: String,
}

impl ExportArgs {
    /// The lines to export. Where a Dapr sidecar listens is found as Dapr's own clients find it.
    pub(crate) fn config(&self) -> ExportConfig {
        let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let port = || set("DAPR_HTTP_PORT").map(|port| format!("http://localhost:{port}"));
        let mut config = ExportConfig {
            audit: self.enable_violation_export,
            admission: self.enable_admission_violation_export,
            connection: self.audit_connection.clone(),
            channel: self.audit_channel.clone(),
            ..ExportConfig::default()
        };
        if let Some(sidecar) = set("DAPR_HTTP_ENDPOINT").or_else(port) {
            config.sidecar = sidecar;
        }
        config
    }
}
