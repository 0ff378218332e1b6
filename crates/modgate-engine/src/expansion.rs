//! Workload expansion: ExpansionTemplates (spec `gatekeeper-mutation…`, sections 1.12 and 5).
//!
//! A *generator* (a Deployment, a Job) contains another resource. A [`CompiledTemplate`] says
//! where, and the [`ExpansionSystem`] builds from a generator the *resultants* the cluster would
//! make of it, mutated as they would be. Nothing of them is stored: they are reviewed by the
//! constraints, and what is found is charged to the generator ([`Resultant::implied`]).

mod build;
mod compile;
mod cycle;
mod system;

pub(crate) use self::system::{ExpandOptions, PostProcess};
pub use self::{
    compile::{CompileError, CompiledTemplate, validate},
    system::{CYCLE, ExpansionError, ExpansionRequest, ExpansionSystem, Resultant, expandable},
};
