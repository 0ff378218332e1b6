//! The command line's processing of texts: documents, policies, objects under review, and results as JSON.
//!
//! `modgate` reads the texts from files; the playground has them from a page. [`manifest`] parses them,
//! [`sorted`] tells policies from the objects that they refer to ([`references`]), [`subject`] makes
//! requests of objects, [`decision`] and [`explain`] write what `review -o json` and `explain -o json`
//! print. Read [`Sorted`](sorted::Sorted) and [`Subject`](subject::Subject) first.
//!
//! What this crate deliberately does not do: IO. It reads no file, no clock and no randomness; the
//! caller hands in a [`Host`](modgate_engine::Host).
//!
//! ```
//! use modgate_review::manifest;
//! use modgate_value::diag::Source;
//!
//! let source = Source::new("a.yaml", "kind: Pod\n---\nkind: Service\n".to_owned());
//! let (documents, findings) = manifest::parse(&source);
//! assert_eq!(documents[1].location(), "a.yaml:3:1");
//! assert!(findings.is_empty());
//! ```

mod access;
pub mod decision;
pub mod explain;
pub mod findings;
pub mod manifest;
pub mod notes;
pub mod place;
pub mod references;
pub mod run;
pub mod sorted;
pub mod subject;
