//! ModRules: KubeMod's rules, as its specification has them.

mod admission;
mod binding;
mod dry_run;

pub use admission::{Denied, default_modrule, validate_modrule};
pub use binding::PodBinding;
pub use dry_run::{DryRunError, dry_run};
