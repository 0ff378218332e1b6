//! The Kubernetes nouns modgate speaks, without a client.
//!
//! One module per API group: [`admission`] holds what the API server sends to a webhook and what
//! it expects back, [`modrule`] KubeMod's one resource. Everything decodes from a
//! [`modgate_value::Value`], so that an error names the field it is about
//! (`spec.match[0].select`), and the object under review is never turned into a typed struct: the
//! engine must keep members it does not know.
//!
//! This crate does not compile or evaluate policies, and has no client.

pub mod admission;
pub mod admissionregistration;
pub mod config;
pub mod constraints;
pub mod crds;
pub mod expansion;
pub mod externaldata;
pub mod kinds;
pub mod matching;
pub mod meta;
pub mod modrule;
pub mod mutations;
pub mod schema;
pub mod secrets;
pub mod syncset;
pub mod templates;
