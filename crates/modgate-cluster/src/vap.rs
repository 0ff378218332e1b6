//! ValidatingAdmissionPolicies of templates written in CEL, and the bindings of their constraints:
//! made, kept as they are made, taken away and reported (spec `gatekeeper-validation`, 4.6 to 4.8).
//!
//! The desired state is computed from the loaded policies ([`plan`]); the observed state is
//! watched ([`observed`]), and the difference is written ([`write`]). Objects keep the names that
//! Gatekeeper gives them, so that those it left behind are taken over.
//!
//! # Guarantees
//!
//! - Only the leader writes, and only where it has the operation `generate`.
//! - Only objects that a template or a constraint owns are deleted; what another controller owns is
//!   neither written nor deleted.
//! - What the user wrote is not touched: when a first binding may come (CE-40) follows from the age
//!   of the CRD of the constraint, and is shown in the status.
//! - A template or constraint that does not load keeps what its last version has got.

mod compare;
mod observed;
mod plan;
mod write;

use std::{
    collections::BTreeMap,
    future::pending,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use kube::{Api, api::ApiResource};
use modgate_engine::{
    api::{constraints, templates},
    constraint::vap::{VapOptions, VapScope, VapVersion, webhook_of},
    gatekeeper::ExemptNamespaces,
};
use modgate_telemetry::metrics::AdmissionPolicyMetrics;
use modgate_value::Str;

use self::{
    observed::{Follow, Observed},
    plan::{Plan, WantedBinding, WantedPolicy},
    write::{Target, Writer},
};
use super::{
    LOGGER,
    context::Context,
    kinds::{self, Kind},
    object::{Key, Stored},
    reconcile::Reconcile,
    reports::{EnforcementPoint, Report, ReportedError, VapGeneration},
    state::State,
};

/// The key of our reports.
const CONTROLLER: &str = "vap";

/// States of the reports (CE-32, CE-34).
mod state {
    pub(super) const GENERATED: &str = "generated";
    pub(super) const WAITING: &str = "waiting";
    pub(super) const ERROR: &str = "error";
}

/// The templates that become ValidatingAdmissionPolicies (spec `gatekeeper-validation`, 9.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VapConfig {
    /// Whether templates that do not say get a policy.
    pub for_templates: bool,
    /// Whether constraints without scoped actions get a binding.
    pub for_constraints: bool,
    /// How old the CRD of a constraint must be before its first binding is made, so that every API
    /// server knows it.
    pub wait: Duration,
    /// Whether policies match what the validating webhook matches.
    pub sync_scope: bool,
    /// The ValidatingWebhookConfiguration that says so.
    pub webhook_configuration: String,
}

impl Default for VapConfig {
    fn default() -> Self {
        Self {
            for_templates: true,
            for_constraints: true,
            wait: Duration::from_secs(30),
            sync_scope: true,
            webhook_configuration: "gatekeeper-validating-webhook-configuration".to_owned(),
        }
    }
}

/// The settings of the flags, of the webhook and the engine as well.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which ones.
    pub config: VapConfig,
    /// For templates without a failure policy.
    pub failure_policy: templates::FailurePolicy,
    /// Namespaces that may carry the ignore label.
    pub exempt: ExemptNamespaces,
}

impl Default for Settings {
    fn default() -> Self {
        let failure_policy = templates::FailurePolicy::Fail;
        let (config, exempt) = (VapConfig::default(), ExemptNamespaces::default());
        Self { config, failure_policy, exempt }
    }
}

/// How soon to ask again for the age of a CRD that could not be read.
const AGE_RETRY: Duration = Duration::from_secs(1);

/// How often to look whether the API is there now.
const DISCOVERY: Duration = Duration::from_secs(30);

/// The writer of policies and bindings.
pub(crate) struct AdmissionPolicies {
    context: Context,
    settings: Settings,
    metrics: AdmissionPolicyMetrics,
    /// None while no version of the API is served.
    served: Option<Served>,
    /// When the CRDs of constraints were made, by kind of constraint.
    created: BTreeMap<Str, Timestamp>,
}

/// State that exists only where the API server has the API.
struct Served {
    version: VapVersion,
    follow: Follow,
    observed: Observed,
    writer: Writer,
}

/// The resource of a kind in a version.
fn resource(version: VapVersion, kind: &str, plural: &str) -> ApiResource {
    let api_version = version.api_version();
    let (group, version) = api_version.split_once('/').unwrap_or_default();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

const POLICIES: [&str; 2] = ["ValidatingAdmissionPolicy", "validatingadmissionpolicies"];
const BINDINGS: [&str; 2] =
    ["ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings"];

impl Reconcile for AdmissionPolicies {
    type Desired = Plan;

    const COALESCE: Duration = Duration::from_millis(50);

    fn desired(&mut self, state: &Arc<State>) -> Plan {
        self.created.retain(|kind, _| {
            let kind = Kind { group: constraints::GROUP.to_owned(), kind: kind.to_string() };
            state.served.contains_key(&kind)
        });
        Plan::of(state, &self.options(state), self.served.is_some())
    }

    async fn apply(&mut self, plan: Plan) -> Option<Instant> {
        let Some(mut served) = self.served.take() else {
            self.discover().await;
            if self.served.is_none() {
                self.publish(plan.reports, [0, plan.failed_policies], [0, plan.failed_bindings]);
            }
            return Some(Instant::now() + DISCOVERY);
        };
        let mut next = None;
        if served.observed.is_complete() {
            next = self.write(plan, &mut served).await;
        }
        self.served = Some(served);
        next
    }

    async fn changed(&mut self) {
        match &mut self.served {
            Some(served) => served.observed.take(served.follow.next().await),
            None => pending().await,
        }
    }

    fn ended(&mut self) {
        self.served = None;
        self.created.clear();
        // The next leader reports.
        self.publish(BTreeMap::new(), [0, 0], [0, 0]);
    }
}

impl AdmissionPolicies {
    pub(crate) fn new(
        context: Context,
        settings: Settings,
        metrics: AdmissionPolicyMetrics,
    ) -> Self {
        Self { context, settings, metrics, served: None, created: BTreeMap::new() }
    }

    /// Which version of the API there is (CE-31), for as long as this process leads.
    async fn discover(&mut self) {
        for version in [VapVersion::V1, VapVersion::V1Beta1] {
            let client = &self.context.client;
            match client.list_api_group_resources(version.api_version()).await {
                Ok(list) if list.resources.iter().any(|it| it.name == POLICIES[1]) => {
                    let follow = Follow::new(client, version, &self.settings.config);
                    let writer = Writer::new(client, version);
                    let observed = Observed::default();
                    self.served = Some(Served { version, follow, observed, writer });
                    return;
                }
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    tracing::warn!(target: LOGGER, %error, "cannot find out whether there are ValidatingAdmissionPolicies, trying again");
                    return;
                }
            }
        }
        tracing::warn!(target: LOGGER, "the API server has no ValidatingAdmissionPolicies");
    }

    fn options(&self, state: &State) -> VapOptions {
        let Settings { config, failure_policy, exempt } = &self.settings;
        let served = self.served.as_ref();
        let scope = match served.filter(|_| config.sync_scope) {
            None => VapScope::default(),
            Some(served) => VapScope {
                webhook: served.observed.webhook().and_then(webhook_of).cloned(),
                excluded_namespaces: plan::excluded_namespaces(state),
                exempt_namespaces: exempt.patterns().collect(),
            },
        };
        VapOptions {
            version: served.map_or(VapVersion::V1, |served| served.version),
            for_templates: config.for_templates,
            for_constraints: config.for_constraints,
            failure_policy: *failure_policy,
            scope,
        }
    }

    /// Brings the cluster in line with the plan, and reports. Returns when to look again.
    async fn write(&mut self, plan: Plan, served: &mut Served) -> Option<Instant> {
        let Plan { policies, bindings, kept, mut reports, failed_policies, failed_bindings } = plan;
        let (mut policy_counts, mut binding_counts) = ([0, failed_policies], [0, failed_bindings]);
        let mut next = Vec::new();
        for (name, policy) in &policies {
            if !self.context.leads() {
                return None;
            }
            let report = reports.entry(policy.template.clone()).or_default();
            match write_policy(served, name, policy, report).await {
                Ok(()) => policy_counts[0] += 1,
                Err(again) => {
                    policy_counts[1] += 1;
                    next.push(again);
                }
            }
        }
        for (name, binding) in &bindings {
            if !self.context.leads() {
                return None;
            }
            let report = reports.entry(binding.constraint.clone()).or_default();
            match self.write_binding(served, name, binding, report).await {
                Ok(Binding::Written) => binding_counts[0] += 1,
                Ok(Binding::Waits(until)) => next.push(until),
                Err(again) => {
                    binding_counts[1] += 1;
                    next.push(again);
                }
            }
        }
        let wanted = |target: &Target| match target {
            Target::Policy(name) => policies.contains_key(name) || kept.contains(target),
            Target::Binding(name) => bindings.contains_key(name) || kept.contains(target),
        };
        let Served { observed, writer, .. } = served;
        // Bindings first: one without its policy is of no use.
        for target in observed.owned().into_iter().filter(|target| !wanted(target)) {
            if !self.context.leads() {
                return None;
            }
            if let Err(failure) = writer.delete(&target, observed).await {
                next.push(failure.again);
            }
        }
        writer.forget(|target| wanted(target) || observed.has(target));
        self.publish(reports, policy_counts, binding_counts);
        next.into_iter().min()
    }

    /// Writes a binding, if it may be written yet. Fails with the time of the next attempt.
    async fn write_binding(
        &mut self,
        served: &mut Served,
        name: &str,
        binding: &WantedBinding,
        report: &mut Report,
    ) -> Result<Binding, Instant> {
        let Served { observed, writer, .. } = served;
        let target = Target::Binding(name.to_owned());
        let mut point = |state, message: String| {
            report.points.push(EnforcementPoint {
                point: constraints::EnforcementPoint::Vap.as_str(),
                state,
                message,
                observed_generation: binding.generation,
            });
        };
        if !observed.has(&target) {
            match self.may_bind(binding).await {
                Ok(None) => {}
                Ok(Some((until, wait))) => {
                    let message = format!(
                        "waiting until {until} before generating ValidatingAdmissionPolicyBinding to \
                         make sure api-server has cached constraint CRD"
                    );
                    point(state::WAITING, message);
                    return Ok(Binding::Waits(Instant::now() + wait));
                }
                Err(message) => {
                    point(state::ERROR, message);
                    return Err(Instant::now() + AGE_RETRY);
                }
            }
        }
        match writer.ensure(&target, &binding.object, observed).await {
            Ok(()) => {
                point(state::GENERATED, String::new());
                Ok(Binding::Written)
            }
            Err(failure) => {
                let verb = if failure.existed { "update" } else { "create" };
                let message = format!(
                    "could not {verb} ValidatingAdmissionPolicyBinding: {name}: {}",
                    failure.message
                );
                report.errors.push(ReportedError { code: "", message });
                Err(failure.again)
            }
        }
    }

    /// Until when a first binding has to wait: the time for the status, and the pause (CE-40).
    async fn may_bind(
        &mut self,
        binding: &WantedBinding,
    ) -> Result<Option<(Timestamp, Duration)>, String> {
        let until = match binding.blocked_until {
            plan::Blocked::Never => return Ok(None),
            plan::Blocked::Until(until) => until,
            plan::Blocked::ByAge => {
                let created = match self.created.get(&binding.kind) {
                    Some(created) => *created,
                    None => {
                        let name =
                            format!("{}.{}", binding.kind.to_lowercase(), constraints::GROUP);
                        let api: Api<Stored> =
                            Api::all_with(self.context.client.clone(), &kinds::definitions());
                        let failed = |error: &str| {
                            format!("could not get CustomResourceDefinition {name}: {error}")
                        };
                        let found = api.get_metadata(&name).await;
                        let found = found.map_err(|error| failed(&write::text(&error)))?;
                        let created = found.metadata.creation_timestamp;
                        let created = created.ok_or_else(|| failed("it has no age"))?.0;
                        self.created.insert(binding.kind.clone(), created);
                        created
                    }
                };
                let wait = i64::try_from(self.settings.config.wait.as_secs()).unwrap_or(i64::MAX);
                let until = created.as_second().saturating_add(wait);
                Timestamp::from_second(until).unwrap_or(Timestamp::MAX)
            }
        };
        let left = Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default();
        Ok((!left.is_zero()).then_some((until, left)))
    }

    fn publish(
        &self,
        reports: BTreeMap<(Kind, Key), Report>,
        [active_policies, failed_policies]: [usize; 2],
        [active_bindings, failed_bindings]: [usize; 2],
    ) {
        let reports =
            reports.into_iter().filter(|(_, report)| *report != Report::default()).collect();
        self.context.reports.replace(CONTROLLER, reports);
        self.metrics.policies(active_policies, failed_policies);
        self.metrics.bindings(active_bindings, failed_bindings);
    }
}

/// The result for a binding.
enum Binding {
    Written,
    /// It must not be written before this time.
    Waits(Instant),
}

/// Writes a policy. Fails with the time of the next attempt.
async fn write_policy(
    served: &mut Served,
    name: &str,
    policy: &WantedPolicy,
    report: &mut Report,
) -> Result<(), Instant> {
    let Served { observed, writer, .. } = served;
    let generation = |state, warning: String| {
        Some(VapGeneration { state, observed_generation: policy.generation, warning })
    };
    let target = Target::Policy(name.to_owned());
    match writer.ensure(&target, &policy.object, observed).await {
        Ok(()) => {
            let warnings = policy.warning.into_iter().map(str::to_owned);
            let warnings = warnings.chain(observed.type_warnings(name));
            let warning = warnings.collect::<Vec<_>>().join("; ");
            report.generation = generation(state::GENERATED, warning);
            Ok(())
        }
        Err(failure) => {
            let (code, verb) = match failure.existed {
                true => ("update_error", "update"),
                false => ("create_error", "create"),
            };
            let message = format!("Could not {verb} VAP object: {}", failure.message);
            report.errors.push(ReportedError { code, message });
            let warning =
                format!("ValidatingAdmissionPolicy is not generated: {}", failure.message);
            report.generation = generation(state::ERROR, warning);
            Err(failure.again)
        }
    }
}
