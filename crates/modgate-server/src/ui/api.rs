//! The documents of the API, as `openapi.json` describes them.

use modgate_value::{Str, Value};
use serde::{Deserialize, Serialize};

use crate::decisions::{Counts, Entry, LastDenial};

/// The last decisions.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listed<'a> {
    pub(super) items: Vec<&'a Entry>,
    pub(super) next: Option<u64>,
    pub(super) oldest: Option<String>,
    pub(super) newest_id: u64,
}

/// A decision with its explanation.
#[derive(Debug, Serialize)]
pub(super) struct Details<'a> {
    pub(super) decision: &'a Entry,
    pub(super) result: Option<Explained>,
    pub(super) unexplained: String,
    pub(super) changed: bool,
}

/// The evaluation of one object.
#[derive(Debug, Serialize)]
pub(super) struct Explained {
    pub(super) title: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) explanation: Value,
    #[serde(skip)]
    pub(super) allowed: bool,
}

/// The object to evaluate.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TryRequest {
    pub(super) objects: String,
    #[serde(default)]
    pub(super) operation: String,
    #[serde(default)]
    pub(super) user: String,
    #[serde(default)]
    pub(super) groups: Vec<String>,
    #[serde(default)]
    pub(super) all: bool,
}

/// The decisions about what was tried.
#[derive(Debug, Serialize)]
pub(super) struct TryResult {
    pub(super) results: Vec<Explained>,
    pub(super) findings: Vec<Finding>,
    pub(super) notes: Vec<String>,
}

/// A problem with the documents.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    pub(super) level: &'static str,
    pub(super) message: String,
    pub(super) help: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The state of the process and of the installation.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) version: &'static str,
    pub(super) time: String,
    pub(super) source: &'static str,
    pub(super) user: Option<String>,
    pub(super) replica: Replica,
    pub(super) replicas: Option<Replicas>,
    pub(super) certificate: Option<Certificate>,
    pub(super) policies: PolicyCounts,
    pub(super) audit: Option<Audit>,
    pub(super) decisions: DecisionCounts,
    pub(super) shadow: bool,
}

/// The process that answers.
#[derive(Debug, Serialize)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) leader: Option<bool>,
    pub(super) checks: Vec<CheckState>,
}

/// One check of `/readyz`.
#[derive(Debug, Serialize)]
pub(super) struct CheckState {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    pub(super) message: String,
}

/// The Pods of the installation.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Replicas {
    pub(super) items: Vec<PodItem>,
    pub(super) leader: String,
    pub(super) error: String,
}

/// A Pod.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodItem {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) leader: bool,
    pub(super) started_at: Option<String>,
    pub(super) restarts: i64,
    pub(super) image: String,
    pub(super) node: String,
}

/// The serving certificate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Certificate {
    pub(super) not_after: String,
    pub(super) seconds_left: i64,
}

/// Policies of the process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PolicyCounts {
    pub(super) in_force: usize,
    pub(super) failed: usize,
}

/// The last audit.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Audit {
    pub(super) time: Str,
    pub(super) objects: u64,
    pub(super) errors: u64,
    pub(super) violations: u64,
    pub(super) by_action: Value,
    pub(super) trend: Vec<TrendPoint>,
}

/// The violations of one audit.
#[derive(Debug, Serialize)]
pub(super) struct TrendPoint {
    pub(super) time: Str,
    pub(super) violations: u64,
}

/// Decisions since the process started.
#[derive(Debug, Serialize)]
pub(super) struct DecisionCounts {
    pub(super) since: String,
    pub(super) counts: Counts,
    pub(super) kept: usize,
}

/// The policies.
#[derive(Debug, Serialize)]
pub(super) struct Policies {
    pub(super) items: Vec<Policy>,
    pub(super) audit: Option<Str>,
}

/// A policy and its state in this process.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    pub(super) group: Str,
    pub(super) kind: Str,
    pub(super) namespace: Str,
    pub(super) name: Str,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) action: String,
    pub(super) status: &'static str,
    pub(super) in_force: bool,
    pub(super) messages: Vec<String>,
    pub(super) demoted: bool,
    pub(super) cost: Option<Cost>,
    pub(super) denials: u64,
    pub(super) warnings: u64,
    pub(super) last_denial: Option<LastDenial>,
    pub(super) violations: Option<u64>,
}

/// The cost of a policy since its newest version was loaded.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    pub(super) evaluations: u64,
    pub(super) seconds: f64,
    pub(super) steps: u64,
    pub(super) bytes: u64,
}

/// The namespaces.
#[derive(Debug, Serialize)]
pub(super) struct Namespaces {
    pub(super) items: Vec<Namespace>,
    pub(super) audit: Option<Str>,
}

/// A namespace.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Namespace {
    pub(super) name: Str,
    pub(super) decisions: Counts,
    pub(super) last_denial: Option<LastDenial>,
    pub(super) audit: Option<NamespaceAudit>,
}

/// The last audit of a namespace.
#[derive(Debug, Serialize)]
pub(super) struct NamespaceAudit {
    pub(super) objects: u64,
    pub(super) violating: u64,
    pub(super) violations: u64,
    pub(super) score: u64,
    pub(super) trend: Vec<TrendPoint>,
}

/// An error.
#[derive(Debug, Serialize)]
pub(super) struct ErrorBody<'a> {
    pub(super) code: u16,
    pub(super) error: &'a str,
}
