//! What a process does of all there is to do, and what it waits for
//! (spec `gatekeeper-validation`, 8.1 and 8.7).

use modgate_cluster::Operation;
use modgate_server::ServeConfig;

/// What is done here.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Operations")]
pub(crate) struct OperationArgs {
    /// Part of the work to do: `audit`, `generate`, `mutation-controller`, `mutation-status`,
    /// `mutation-webhook`, `status` or `webhook`; repeat, or separate with commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    operation: Vec<Operation>,
    /// Whether the process is ready while policies that were there at start do not load: 0 and more
    /// say yes, as a policy that does not compile will not when it is tried again; -1 says no.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    readiness_retries: i64,
}

impl OperationArgs {
    pub(crate) fn apply(&self, config: &mut ServeConfig) {
        config.operations = self.operation.iter().copied().collect();
        config.waits_for_broken_policies = self.readiness_retries < 0;
    }
}
