//! Rego, versions 0 and 1: parser, compiler and evaluator.
//!
//! A policy is compiled once into an immutable program that any number of threads evaluate at the
//! same time. Behaviour follows OPA 1.19 exactly, up to the text of errors.
//!
//! This crate does no IO and reads no clock: what a policy may ask of the outside comes in through
//! traits, and every evaluation spends a [`modgate_value::Budget`].

pub mod ast;
mod compile;
pub use compile::Capabilities;
pub mod error;
pub mod ir;
mod lexer;
pub mod parser;
