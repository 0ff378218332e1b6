//! Rego, versions 0 and 1: parser, compiler and evaluator.
//!
//! A policy is compiled once into an immutable program that any number of threads evaluate at the
//! same time. Behaviour follows OPA 1.19 exactly, up to the text of errors.
//!
//! This crate does no IO and reads no clock: what a policy may ask of the outside comes in through
//! traits, and every evaluation spends a [`modgate_value::Budget`].

pub mod ast;
mod lexer;
pub mod parser;

pub mod error;

mod compile;
pub mod ir;

pub mod builtins;
pub mod eval;
pub mod number;
pub mod value;

pub use compile::Capabilities;
