//! The effects of a change of policies, and the ways around a policy. Every answer comes with an object that
//! proves it.
//!
//! A [`Side`] is a set of policies with what it sees. [`compare`] decides the same requests with two of
//! them and counts what differs. [`lint`] looks for ways past a policy. [`record`] makes requests of the events of an audit log,
//! [`recorded`] writes and reads the requests and answers of a server, and [`generate`] invents objects. [`mutants`] are small
//! changes of a policy that its tests should notice.
//!
//! The proof is as small as it can be. The name stays, because every object has one:
//!
//! ```
//! use modgate_prove::{minimise::minimised, value::at};
//! use modgate_value::yaml;
//!
//! let pod = yaml::value("
//! metadata: {name: web, labels: {team: shop}}
//! spec: {containers: [{name: web, image: nginx}], hostNetwork: true}
//! ")?;
//! let path = ["spec".into(), "hostNetwork".into()];
//! let smallest = minimised(&pod, |object| at(object, &path).is_some_and(|it| it.as_bool() == Some(true)));
//! assert_eq!(smallest.to_string(), r#"{"metadata":{"name":"web"},"spec":{"hostNetwork":true}}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What this crate deliberately does not do: read files, write results, know the order of the stages.
//! That is [`Snapshot::decide`](modgate_engine::Snapshot::decide)'s.
//!
//! # Limits
//!
//! An example is made smaller with at most [`minimise::MAX_TRIES`] decisions. A log keeps at most
//! [`record::MAX_REMEMBERED`] bytes of objects that later events change.

pub mod answer;
pub mod compare;
pub mod convert;
pub mod difference;
pub mod generate;
pub mod lint;
pub mod minimise;
pub mod mutants;
mod objects;
pub mod record;
pub mod recorded;
mod side;
pub mod value;

pub use self::side::{Side, repeatably};
