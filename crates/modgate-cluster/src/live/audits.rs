//! The last audits of this process, in numbers.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
};

use modgate_audit::Report;
use modgate_value::Str;

/// Audits that are remembered.
const KEPT: usize = 60;
/// Namespaces of which they are.
const MAX_NAMESPACES: usize = 1_000;
/// Policies of which the last audit is.
const MAX_POLICIES: usize = 10_000;

/// Group, kind, namespace and name of a policy.
pub type PolicyKey = (Str, Str, Str, Str);

/// The violations of one audit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrendPoint {
    /// When it began, RFC 3339.
    pub time: Str,
    /// How many there were.
    pub violations: u64,
}

/// The last audit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSummary {
    /// When it began, RFC 3339.
    pub time: Str,
    /// Objects that were audited.
    pub objects: u64,
    /// Objects that could not be evaluated.
    pub errors: u64,
    /// Violations of all policies.
    pub violations: u64,
    /// Violations of constraints by `enforcementAction`.
    pub by_action: Vec<(&'static str, u64)>,
    /// Violations by policy.
    pub by_policy: BTreeMap<PolicyKey, u64>,
    /// By namespace; the empty name stands for cluster-scoped objects.
    pub by_namespace: BTreeMap<Str, NamespaceAudit>,
    /// The last audits, oldest first.
    pub trend: VecDeque<TrendPoint>,
}

/// The last audit of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceAudit {
    /// Objects that were audited.
    pub objects: u64,
    /// Of these, the ones with a violation.
    pub violating: u64,
    /// Violations.
    pub violations: u64,
    /// The last audits, oldest first.
    pub trend: VecDeque<TrendPoint>,
}

impl NamespaceAudit {
    /// The share of objects without a violation in percent, rounded down.
    pub fn score(&self) -> u64 {
        let good = self.objects.saturating_sub(self.violating);
        (good * 100).checked_div(self.objects).unwrap_or(100)
    }
}

/// The audits of this process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Audits(Arc<Mutex<Option<Arc<AuditSummary>>>>);

impl Audits {
    /// The last audit; `None` before the first, and once another process audits.
    pub fn last(&self) -> Option<Arc<AuditSummary>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An audit is over.
    pub(crate) fn finished(&self, report: &Report) {
        let before = self.last().unwrap_or_default();
        let next = Arc::new(summary(report, &before));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
    }

    /// Another process audits.
    pub(crate) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn summary(report: &Report, before: &AuditSummary) -> AuditSummary {
    let violations = report.totals.sum();
    let point = |violations| TrendPoint { time: report.audit.clone(), violations };
    let names = report.audited.keys().chain(before.by_namespace.keys());
    let mut by_namespace = BTreeMap::new();
    for name in names {
        if by_namespace.len() >= MAX_NAMESPACES || by_namespace.contains_key(name) {
            continue;
        }
        let audited = report.audited.get(name).copied().unwrap_or_default();
        let known = before.by_namespace.get(name);
        let violations = report.by_namespace.get(name).copied().unwrap_or_default();
        let trend = known.map(|it| it.trend.clone()).unwrap_or_default();
        let trend = next(trend, point(violations));
        // A namespace without objects is gone once no audit that is remembered had any.
        if audited.objects == 0 && trend.iter().all(|it| it.violations == 0) {
            continue;
        }
        let of_namespace = NamespaceAudit {
            objects: audited.objects,
            violating: audited.violating,
            violations,
            trend,
        };
        by_namespace.insert(name.clone(), of_namespace);
    }
    let by_policy = report.by_policy.iter().take(MAX_POLICIES).map(|it| {
        let policy = &it.policy;
        let key = (&policy.kind.group, &policy.kind.kind, &policy.namespace, &policy.name);
        ((key.0.clone(), key.1.clone(), key.2.clone(), key.3.clone()), it.total)
    });
    AuditSummary {
        time: report.audit.clone(),
        objects: report.counts.objects,
        errors: report.counts.errors,
        violations,
        by_action: report.totals.by_action().to_vec(),
        by_policy: by_policy.collect(),
        by_namespace,
        trend: next(before.trend.clone(), point(violations)),
    }
}

fn next(mut trend: VecDeque<TrendPoint>, point: TrendPoint) -> VecDeque<TrendPoint> {
    trend.push_back(point);
    if trend.len() > KEPT {
        trend.pop_front();
    }
    trend
}
