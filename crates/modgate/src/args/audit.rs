//! Flags of audits in a cluster, under Gatekeeper's names and with its defaults
//! (spec `gatekeeper-validation`, 7.1).

use std::{path::PathBuf, time::Duration};

use clap::ValueEnum;
use modgate_cluster::{AuditConfig, PolicyReportConfig, PolicyReportFormat};
use modgate_export::ViolationsFileConfig;
use modgate_gator::flags::GoBool as _;

/// How existing objects are audited.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Audit")]
pub(crate) struct AuditArgs {
    /// Seconds from one audit to the next; 0 for none.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds)]
    audit_interval: u64,
    /// Violations listed in the status of a constraint.
    #[arg(long, value_name = "N", default_value_t = 20)]
    constraint_violations_limit: usize,
    /// Most objects in each page of a list, which has fewer where they are large; 0 for all in one.
    #[arg(long, value_name = "N", default_value_t = 500)]
    audit_chunk_size: u32,
    /// Audit the synced objects instead of all objects of the API server.
    #[arg(long, go_bool = Some(false))]
    audit_from_cache: bool,
    /// Audit only the kinds that constraints match, unless one of them matches all kinds.
    #[arg(long, go_bool = Some(false))]
    audit_match_kind_only: bool,
    /// Emit an Event for each violation.
    #[arg(long, go_bool = Some(false))]
    emit_audit_events: bool,
    /// Put those Events into the namespaces of the objects.
    #[arg(long, go_bool = Some(false))]
    audit_events_involved_namespace: bool,
    /// Also report objects that Gatekeeper's mutators would change.
    #[arg(long, go_bool = Some(false))]
    audit_mutators: bool,
    /// Log the time of each constraint once per audit.
    #[arg(long, go_bool = Some(false))]
    log_stats_audit: bool,
    /// Write the violations of each audit to this file, as JSON lines; it is replaced when the audit
    /// is complete.
    #[arg(long, value_name = "FILE")]
    audit_violations_file: Option<PathBuf>,
    /// Maximum size of that file; its last line counts the violations that do not fit.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 20,
        requires = "audit_violations_file")]
    audit_violations_file_bytes: u64,
    /// Write violations to policy reports, one for each namespace and one for the cluster.
    #[arg(long, value_name = "FORMAT", default_value = "none")]
    policy_reports: PolicyReports,
    /// Violations listed in one policy report, 500 at most; its summary counts all.
    #[arg(long, value_name = "N", default_value_t = 100,
        value_parser = clap::value_parser!(u16).range(0..=500))]
    policy_report_results: u16,
    /// Namespaces with a policy report, the first by name.
    #[arg(long, value_name = "N", default_value_t = 500)]
    policy_reports_limit: usize,
}

/// The kinds of policy reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PolicyReports {
    /// None.
    None,
    /// PolicyReport and ClusterPolicyReport of wgpolicyk8s.io/v1alpha2.
    #[value(name = "wgpolicyk8s")]
    WgPolicy,
    /// Report and ClusterReport of openreports.io/v1alpha1.
    #[value(name = "openreports")]
    OpenReports,
}

/// A number of seconds. Go's durations, such as `1m`, are named in seconds.
fn seconds(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        let duration = modgate_value::gotime::Duration::parse(text).ok();
        match duration.filter(|it| it.0 >= 0).map(|it| it.0 / 1_000_000_000) {
            Some(seconds) => format!("not a number of seconds; write {seconds}"),
            None => "not a number of seconds".to_owned(),
        }
    })
}

impl AuditArgs {
    /// Settings of the controller.
    pub(crate) fn config(&self) -> AuditConfig {
        let format = match self.policy_reports {
            PolicyReports::None => None,
            PolicyReports::WgPolicy => Some(PolicyReportFormat::WgPolicy),
            PolicyReports::OpenReports => Some(PolicyReportFormat::OpenReports),
        };
        AuditConfig {
            interval: Duration::from_secs(self.audit_interval),
            limit: self.constraint_violations_limit,
            chunk: self.audit_chunk_size,
            from_cache: self.audit_from_cache,
            match_kind_only: self.audit_match_kind_only,
            events: self.emit_audit_events,
            events_in_namespace: self.audit_events_involved_namespace,
            mutators: self.audit_mutators,
            log_statistics: self.log_stats_audit,
            violations_file: self.audit_violations_file.clone().map(|path| ViolationsFileConfig {
                path,
                max_bytes: self.audit_violations_file_bytes,
            }),
            policy_reports: format.map(|format| PolicyReportConfig {
                format,
                results: self.policy_report_results.into(),
                reports: self.policy_reports_limit,
            }),
        }
    }
}
