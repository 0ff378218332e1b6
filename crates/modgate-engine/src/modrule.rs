//! ModRules: KubeMod's rules, as its specification has them (spec `kubemod.md`; section numbers in
//! this module are its).
//!
//! In reading order: `compile` makes a rule evaluable or returns its errors; the
//! store finds the rules a request concerns; `run` visits them tier by tier; `matching` decides
//! criteria; `patch` calculates operations; `changes` holds what they changed.

mod changes;
mod compile;
mod lint;
mod path;
mod shared;

mod store;
mod values;

mod last_applied;
mod matching;
mod patch;
mod references;
mod run;
mod trace;

mod advice;

mod admission;
mod binding;
mod fault;

pub use admission::{Denied, default_modrule, validate_modrule};
pub use advice::select_advice;
pub use binding::PodBinding;
pub use compile::{FieldError, FieldErrorKind};
pub use path::{PathError, PathTemplate};

pub(crate) use admission::compile_or_deny;
pub(crate) use advice::decoding as decoding_advice;
pub(crate) use compile::{CompiledModRule, compile};
pub(crate) use fault::faults;
pub(crate) use lint::unknown_fields;
pub(crate) use run::{mutate, validate};
pub(crate) use store::Store;
pub(crate) use trace::explain;
