//! Flags of ValidatingAdmissionPolicies, under Gatekeeper's names and with its defaults
//! (spec `gatekeeper-validation`, 9.5).

use std::time::Duration;

use modgate_cluster::VapConfig;
use modgate_gator::flags::GoBool as _;

/// What becomes ValidatingAdmissionPolicies of the API server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "ValidatingAdmissionPolicies")]
pub(crate) struct VapArgs {
    /// Whether templates in CEL without `generateVAP` become ValidatingAdmissionPolicies.
    #[arg(long, go_bool = Some(true))]
    default_create_vap_for_templates: bool,
    /// Whether constraints without scoped actions become bindings.
    #[arg(long, go_bool = Some(true))]
    default_create_vap_binding_for_constraints: bool,
    /// How old the CRD of a constraint must be, in seconds, before its first binding is made: until
    /// every API server knows it.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    default_wait_for_vapb_generation: u64,
    /// Whether ValidatingAdmissionPolicies are about what the validating webhook is about, without
    /// what its configuration, Config and exempt namespaces leave out.
    #[arg(long, go_bool = Some(true))]
    sync_vap_enforcement_scope: bool,
}

impl VapArgs {
    /// Settings of the controller.
    pub(crate) fn config(&self) -> VapConfig {
        VapConfig {
            for_templates: self.default_create_vap_for_templates,
            for_constraints: self.default_create_vap_binding_for_constraints,
            wait: Duration::from_secs(self.default_wait_for_vapb_generation),
            sync_scope: self.sync_vap_enforcement_scope,
            ..VapConfig::default()
        }
    }
}
