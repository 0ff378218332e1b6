//! The Kubernetes nouns modgate speaks, without a client.
//!
//! One module per API group: [`admission`] holds what the API server sends to a webhook and what
//! it expects back, [`modrule`] KubeMod's one resource. Everything decodes from a
//! [`modgate_value::Value`], so that an error names its field
//! (`spec.match[0].select`), and the object under review is never turned into a typed struct: the
//! engine must keep members it does not know.
//!
//! ```
//! use modgate_api::modrule::ModRule;
//! use modgate_value::yaml;
//!
//! let rule = yaml::value("
//! apiVersion: api.kubemod.io/v1beta1
//! kind: ModRule
//! metadata: {name: no-latest, namespace: shop}
//! spec: {type: Reject, match: [{select: 1}]}
//! ")?;
//! let error = ModRule::from_value(&rule).expect_err("a select is a text");
//! assert!(error.to_string().contains("spec.match[0].select"), "{error}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
