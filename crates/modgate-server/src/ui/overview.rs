//! The state of the process: health, policies and namespaces.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwap;
use modgate_cluster::live::{AuditSummary, Live, PodState, TrendPoint as Point};
use modgate_engine::{
    PolicyId, Severity, Snapshot,
    api::{constraints, modrule},
};
use modgate_policies::Standing;
use modgate_review::findings;
use modgate_value::{Str, Value};
use tokio::sync::Mutex;

use super::api::{
    Audit, Certificate, CheckState, Cost, DecisionCounts, Namespace, NamespaceAudit, Namespaces,
    PodItem, Policies, Policy, PolicyCounts, Replica, Replicas, Status, TrendPoint,
};
use crate::{
    cut::cut,
    decisions::{Decisions, OfPolicy, PolicyName, time_of},
    tls::Certificates,
    webhook::{App, checks},
};

/// How long the Pods count as the API server had them.
const PODS: Duration = Duration::from_secs(10);
/// Messages about a policy, and bytes of one.
const MAX_MESSAGES: usize = 20;
const MESSAGE_BYTES: usize = 2 << 10;

/// Where policies come from.
pub(crate) enum Origin {
    /// Files: the policies as they were read last.
    Files(Arc<ArcSwap<Vec<Standing>>>),
    /// A cluster.
    Cluster(Box<Live>),
}

/// The content of the page beside decisions.
pub(super) struct Overview {
    origin: Origin,
    certificates: Arc<Certificates>,
    pod: Option<Str>,
    replicas: Mutex<Option<(Instant, Replicas)>>,
}

impl Overview {
    pub(super) fn new(origin: Origin, certificates: Arc<Certificates>, pod: Option<Str>) -> Self {
        Self { origin, certificates, pod, replicas: Mutex::default() }
    }

    /// The Pods of the installation; `None` outside of a cluster.
    pub(super) async fn replicas(&self) -> Option<Replicas> {
        let Origin::Cluster(live) = &self.origin else { return None };
        // Held meanwhile: one viewer asks for all.
        let mut known = self.replicas.lock().await;
        if let Some((_, replicas)) = known.as_ref().filter(|(at, _)| at.elapsed() < PODS) {
            return Some(replicas.clone());
        }
        let (pods, leader) = tokio::join!(live.pods(), live.leader());
        let errors: Vec<&str> = [pods.as_ref().err(), leader.as_ref().err()]
            .into_iter()
            .flatten()
            .map(|it| &**it)
            .collect();
        let error = errors.join("; ");
        let leader = leader.unwrap_or_default();
        let items = pods.unwrap_or_default().into_iter().map(|pod| item(pod, &leader)).collect();
        let replicas = Replicas { items, leader, error };
        *known = Some((Instant::now(), replicas.clone()));
        Some(replicas)
    }

    pub(super) fn status(
        &self,
        app: &App,
        decisions: &Decisions,
        replicas: Option<Replicas>,
        user: Option<String>,
    ) -> Status {
        let checks: Vec<CheckState> = checks(app)
            .into_iter()
            .map(|(name, outcome)| CheckState {
                name,
                ok: outcome.is_ok(),
                message: outcome.err().unwrap_or_default(),
            })
            .collect();
        let leader = match &self.origin {
            Origin::Cluster(live) => Some(live.leads()),
            Origin::Files(_) => None,
        };
        let replica = Replica {
            name: self.pod.as_deref().unwrap_or_default().to_owned(),
            ready: checks.iter().all(|check| check.ok),
            leader,
            checks,
        };
        let policies = app.current.load();
        let in_force = policies.map_or(0, |policies| policies.snapshot.policies().count());
        let failed = self.standings().iter().filter(|standing| is_failed(standing)).count();
        let (counts, kept) = decisions.counts();
        Status {
            version: env!("CARGO_PKG_VERSION"),
            time: time_of(SystemTime::now()),
            source: if leader.is_some() { "cluster" } else { "files" },
            user,
            replica,
            replicas,
            certificate: self.certificates.not_after().map(certificate),
            policies: PolicyCounts { in_force, failed },
            audit: self.audit().map(|it| audit(&it)),
            decisions: DecisionCounts { since: time_of(decisions.since()), counts, kept },
            shadow: app.traffic.shadow.is_some(),
        }
    }

    /// `None` before policies are loaded.
    pub(super) fn policies(&self, app: &App, decisions: &Decisions) -> Option<Policies> {
        let policies = app.current.load()?;
        let snapshot = &policies.snapshot;
        let audit = self.audit();
        let facts = Facts {
            snapshot,
            in_force: snapshot.policies().collect(),
            demoted: snapshot.demoted().collect(),
            costs: snapshot.costs().map(|it| (it.policy, it.cost)).collect(),
            decided: decisions.policies(),
            audit: audit.as_deref(),
        };
        let standings = self.standings();
        let mut items: Vec<_> = standings.iter().map(|standing| facts.policy(standing)).collect();
        items.sort_by(|a, b| {
            (&a.kind, &a.namespace, &a.name).cmp(&(&b.kind, &b.namespace, &b.name))
        });
        Some(Policies { items, audit: audit.map(|it| it.time.clone()) })
    }

    pub(super) fn namespaces(&self, decisions: &Decisions) -> Namespaces {
        let audit = self.audit();
        let decided = decisions.namespaces();
        let audited = audit.iter().flat_map(|it| it.by_namespace.keys());
        let names: BTreeSet<&Str> = decided.keys().chain(audited).collect();
        let items = names.into_iter().map(|name| {
            let of_decisions = decided.get(name).cloned().unwrap_or_default();
            let of_audit = audit.as_ref().and_then(|it| it.by_namespace.get(name));
            Namespace {
                name: name.clone(),
                decisions: of_decisions.counts,
                last_denial: of_decisions.last_denial,
                audit: of_audit.map(|it| NamespaceAudit {
                    objects: it.objects,
                    violating: it.violating,
                    violations: it.violations,
                    score: it.score(),
                    trend: it.trend.iter().map(point).collect(),
                }),
            }
        });
        Namespaces { items: items.collect(), audit: audit.as_ref().map(|it| it.time.clone()) }
    }

    fn standings(&self) -> Arc<Vec<Standing>> {
        match &self.origin {
            Origin::Files(standings) => standings.load_full(),
            Origin::Cluster(live) => Arc::new(live.policies()),
        }
    }

    fn audit(&self) -> Option<Arc<AuditSummary>> {
        match &self.origin {
            Origin::Files(_) => None,
            Origin::Cluster(live) => live.audits().last(),
        }
    }
}

/// The state of policies.
struct Facts<'a> {
    snapshot: &'a Snapshot,
    in_force: BTreeSet<PolicyId>,
    demoted: BTreeSet<PolicyId>,
    costs: BTreeMap<PolicyId, modgate_engine::cost::Cost>,
    decided: BTreeMap<PolicyName, OfPolicy>,
    audit: Option<&'a AuditSummary>,
}

impl Facts<'_> {
    fn policy(&self, standing: &Standing) -> Policy {
        let Standing { id, object, .. } = standing;
        let annotations = object.path(&["metadata", "annotations"]).unwrap_or(&Value::Null);
        let is_constraint = id.group == constraints::GROUP;
        let template = is_constraint.then(|| findings::template(self.snapshot, &id.kind)).flatten();
        let rule = findings::rule(String::new(), annotations, template);
        let action = match id.kind.as_str() {
            modrule::KIND if id.group == modrule::GROUP => object.path(&["spec", "type"]),
            _ if is_constraint => object.path(&["spec", "enforcementAction"]),
            _ => None,
        };
        let action = action.and_then(Value::as_str);
        let action = action.or(is_constraint.then_some("deny")).unwrap_or_default();
        let name = (id.kind.clone(), id.namespace.clone(), id.name.clone());
        let OfPolicy { denials, warnings, last_denial } =
            self.decided.get(&name).cloned().unwrap_or_default();
        let key = (id.group.clone(), id.kind.clone(), id.namespace.clone(), id.name.clone());
        let is_failed = is_failed(standing);
        Policy {
            group: id.group.clone(),
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            title: rule.title,
            description: rule.description,
            action: action.to_owned(),
            status: if is_failed { "failed" } else { "active" },
            in_force: self.in_force.contains(id),
            messages: messages(standing),
            demoted: self.demoted.contains(id),
            cost: self.costs.get(id).map(|cost| Cost {
                evaluations: cost.evaluations,
                seconds: cost.time.as_secs_f64(),
                steps: cost.steps,
                bytes: cost.bytes,
            }),
            denials,
            warnings,
            last_denial,
            violations: self.audit.and_then(|audit| audit.by_policy.get(&key).copied()),
        }
    }
}

fn is_failed(standing: &Standing) -> bool {
    standing.problems.iter().any(|problem| problem.severity == Severity::Error)
}

/// Errors, then warnings.
fn messages(standing: &Standing) -> Vec<String> {
    let mut problems: Vec<_> = standing.problems.iter().collect();
    problems.sort_by_key(|problem| problem.severity != Severity::Error);
    let lines = problems.into_iter().map(|problem| cut(&problem.one_line(), MESSAGE_BYTES));
    lines.take(MAX_MESSAGES).collect()
}

fn item(pod: PodState, leader: &str) -> PodItem {
    let PodState { name, ready, started, restarts, image, node } = pod;
    PodItem { leader: name == leader, name, ready, started_at: started, restarts, image, node }
}

fn certificate(not_after: i64) -> Certificate {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let seconds = u64::try_from(not_after).unwrap_or_default();
    let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    Certificate {
        not_after: time_of(end.unwrap_or(SystemTime::UNIX_EPOCH)),
        seconds_left: not_after.saturating_sub(now),
    }
}

fn audit(summary: &AuditSummary) -> Audit {
    let number = |count: u64| Value::from(i64::try_from(count).unwrap_or(i64::MAX));
    let by_action = summary.by_action.iter().map(|(action, count)| (*action, number(*count)));
    Audit {
        time: summary.time.clone(),
        objects: summary.objects,
        errors: summary.errors,
        violations: summary.violations,
        by_action: by_action.collect(),
        trend: summary.trend.iter().map(point).collect(),
    }
}

fn point(point: &Point) -> TrendPoint {
    TrendPoint { time: point.time.clone(), violations: point.violations }
}
