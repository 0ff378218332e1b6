//! Gatekeeper's constraint framework: templates, constraints and their violations
//! (spec `gatekeeper-validation`, sections 1 to 6).
//!
//! A [`CompiledTemplate`] is a policy, checked and compiled; a [`CompiledConstraint`] is one use
//! of it: which objects, with which parameters, to what effect. A [`Store`] holds both as they come
//! and go. [`review`] asks constraints about one [`Admission`], with the [`Inventory`] as their view
//! of everything else; a [`Decision`](crate::Decision) is made of what they found. Read those in
//! this order.
//!
//! [`ConstraintSchema`] is the CRD of a template's constraints and what it says about them.

mod action;
mod admission;
mod cel;
mod compile;
mod crd;
mod driver;
mod evaluate;
mod inventory;
mod known;
mod source;
mod store;
mod template;
mod trace;
mod twins;
pub mod vap;

pub(crate) use self::cel::{
    Expression, ExpressionFailure, Input as CelInput,
    advice::{named, of_policy as advice_about_policy},
    environment as cel_environment, expression_trace,
    lint::after as place_of_name,
    shown_value, usable as usable_message,
};
pub use self::{
    action::Enforcement,
    admission::{Admission, AdmissionError},
    cel::CelDriver,
    compile::{
        CompiledConstraint, ConstraintError, ConstraintMatchError, ConstraintOptions,
        InvalidConstraint,
    },
    crd::{ConstraintSchema, SchemaError},
    driver::{Arena, Driver, Externals, RegoDriver},
    evaluate::{Cause, Evaluation, Reviewed, Violation, review, review_each},
    inventory::{Fields, Inventory, InventoryError, InventoryPart, Synced},
    store::{ConstraintKey, Inserted, Store},
    template::{
        CompiledTemplate, InvalidSource, InvalidTemplate, SourcePlace, TemplateError,
        TemplateOptions, TemplateProblem,
    },
    trace::{
        ConstraintOutcome, ConstraintTrace, Exclusion, ExpressionResult, ExpressionTrace, explain,
        faults,
    },
};
pub(crate) use known::{METADATA, unreadable};
pub(crate) use source::lint::{counts, verbs};
