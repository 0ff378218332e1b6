//! The operations of a process, and its readiness (spec `gatekeeper-validation`, 8.1 and 8.7).

use modgate_cluster::Operation;
use modgate_server::ServeConfig;
use modgate_value::near;

/// The operations of this process.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Operations")]
pub(crate) struct OperationArgs {
    /// Operation to run: `audit`, `generate`, `mutation-controller`, `mutation-status`,
    /// `mutation-webhook`, `status` or `webhook`; repeat, or separate with commas [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = operation)]
    operation: Vec<Operation>,
    /// Readiness when a policy fails to compile at startup. 0 or more: become ready anyway. -1: stay
    /// unready until it is fixed.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    readiness_retries: i64,
}

fn operation(name: &str) -> Result<Operation, String> {
    name.parse::<Operation>().map_err(|error| {
        let known = NAMES.iter().copied();
        match near::did_you_mean(name, known) {
            Some(help) => format!("{error}; {help}"),
            None => error.to_string(),
        }
    })
}

/// The names of operations.
const NAMES: [&str; 7] = [
    "audit",
    "generate",
    "mutation-controller",
    "mutation-status",
    "mutation-webhook",
    "status",
    "webhook",
];

impl OperationArgs {
    pub(crate) fn apply(&self, config: &mut ServeConfig) {
        config.operations = self.operation.iter().copied().collect();
        config.waits_for_broken_policies = self.readiness_retries < 0;
    }
}
