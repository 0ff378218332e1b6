//! Findings, and the formats in which commands report them.
//!
//! A [`Report`] is the result of a command as data: what was checked, by which [`Rule`]s, and every
//! [`Finding`]. [`write()`] turns it into text for people or into one of the formats that
//! code scanning, merge requests and build servers read. The crate does no IO and knows neither
//! policies nor Kubernetes clients; commands fill the report.
//!
//! ```
//! use modgate_report::{Finding, Format, Level, Place, Report, Rule, write};
//!
//! let mut report = Report::new("1.2.3");
//! let rule = report.rule(Rule::policy("NeedLabel/need-owner"));
//! let place = Place::at("deploy.yaml", 4, 9);
//! report.findings.push(Finding::new(rule, Level::Error, "label owner is missing").at(place));
//! assert_eq!(
//!     write(&report, Format::Github),
//!     "::error file=deploy.yaml,line=4,col=9,title=NeedLabel/need-owner::label owner is missing\n"
//! );
//! ```
//!
//! # Adding a format
//!
//! A format is a module with one function from `&Report` to text, and a variant of [`Format`].
//! `tests/formats.rs` runs every format over the same reports.

mod document;
mod format;
mod github;
mod gitlab;
mod junit;
mod markdown;
mod model;
mod origin;
mod sarif;
mod snippet;
mod text;
pub mod xml;

pub use self::{
    document::about_policies,
    format::{Format, UnknownFormat, write},
    model::{Finding, Level, Object, Passed, Place, Report, Rule, RuleKind, title},
    origin::generated_from,
    sarif::is_address,
    snippet::{one_line, printable, snippet},
};
