//! Flags of ValidatingAdmissionPolicies, under Gatekeeper's names and with its defaults
//! (spec `gatekeeper-validation`, 9.5).

use std::time::Duration;

use modgate_cluster::VapConfig;
use modgate_gator::flags::GoBool as _;

/// The templates and constraints that become ValidatingAdmissionPolicies of the API server.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "ValidatingAdmissionPolicies")]
pub(crate) struct VapArgs {
    /// Generate ValidatingAdmissionPolicies for CEL templates without `generateVAP`.
    #[arg(long, go_bool = Some(true))]
    default_create_vap_for_templates: bool,
    /// Generate bindings for constraints without scoped actions.
    #[arg(long, go_bool = Some(true))]
    default_create_vap_binding_for_constraints: bool,
    /// Seconds to wait after the CRD of a constraint is created before its first binding is generated,
    /// so that every API server knows the CRD.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    default_wait_for_vapb_generation: u64,
    /// Give generated ValidatingAdmissionPolicies the scope of the validating webhook, including its
    /// selectors, the Config's exclusions and exempt namespaces.
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
