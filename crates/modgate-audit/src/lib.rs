//! Audits: what policies say of the objects that exist (spec `gatekeeper-validation`, section 7).
//!
//! A [`Violation`] is what an audit finds, a [`Sink`] takes each as it is found.

pub mod message;
mod sink;
mod violation;

pub use self::{
    sink::Sink,
    violation::{Judge, SCOPED, Subject, Violation},
};
