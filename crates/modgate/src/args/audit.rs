//! Flags of audits in a cluster, under Gatekeeper's names and with its defaults
//! (spec `gatekeeper-validation`, 7.1).

use std::time::Duration;

use clap::ArgAction;
use modgate_server::AuditConfig;

/// How existing objects are audited.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Audit")]
pub(crate) struct AuditArgs {
    /// Seconds from one audit to the next; 0 for none.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    audit_interval: u64,
    /// Violations listed in the status of a constraint.
    #[arg(long, value_name = "N", default_value_t = 20)]
    constraint_violations_limit: usize,
    /// Objects asked for at once when a kind is listed; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 500)]
    audit_chunk_size: u32,
    /// Audit the objects that are synced for policies, instead of those the API server has.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    audit_from_cache: bool,
    /// Audit only the kinds that constraints name, unless one of them is about all kinds.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    audit_match_kind_only: bool,
    /// Emit an Event for each violation.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    emit_audit_events: bool,
    /// Put those Events into the namespaces of the objects.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    audit_events_involved_namespace: bool,
    /// Also audit what Gatekeeper's mutators would still change.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true", action = ArgAction::Set)]
    audit_mutators: bool,
}

impl AuditArgs {
    /// Settings of the controller.
    pub(crate) fn config(&self) -> AuditConfig {
        AuditConfig {
            interval: Duration::from_secs(self.audit_interval),
            limit: self.constraint_violations_limit,
            chunk: self.audit_chunk_size,
            from_cache: self.audit_from_cache,
            match_kind_only: self.audit_match_kind_only,
            events: self.emit_audit_events,
            events_in_namespace: self.audit_events_involved_namespace,
            mutators: self.audit_mutators,
        }
    }
}
