//! The desired objects, and the reports on policies for which there are none. No IO here.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use modgate_engine::{
    api::{
        config::{self, Config, Process},
        constraints::{self, Constraint},
        templates::{self, ConstraintTemplate},
    },
    constraint::vap::{self, VapError, VapOptions},
};
use modgate_value::{Str, Value};

use super::{
    super::{
        definitions,
        kinds::Kind,
        object::Key,
        reports::{EnforcementPoint, Report, ReportedError, VapGeneration},
        state::{Loaded, State},
    },
    state,
    write::Target,
};

/// Annotations that Gatekeeper leaves on templates while their bindings wait (RM-4).
const BLOCK_UNTIL: &str = "gatekeeper.sh/block-vapb-generation-until";
const BLOCK_STATE: &str = "gatekeeper.sh/vapb-generation-state";

const API_ABSENT: &str = "validatingAdmissionPolicy API is not enabled";
const CONDITIONS: &str = "conditions are not satisfied to generate ValidatingAdmissionPolicy and \
                          ValidatingAdmissionPolicyBinding";

/// The desired state.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// By name.
    pub(super) policies: BTreeMap<String, WantedPolicy>,
    /// By name.
    pub(super) bindings: BTreeMap<String, WantedBinding>,
    /// Existing objects that stay as they are.
    pub(super) kept: BTreeSet<Target>,
    /// Reports that do not depend on the cluster.
    pub(super) reports: BTreeMap<(Kind, Key), Report>,
    /// How many policies and bindings cannot even be made.
    pub(super) failed_policies: usize,
    pub(super) failed_bindings: usize,
}

#[derive(Debug)]
pub(super) struct WantedPolicy {
    pub(super) template: (Kind, Key),
    pub(super) generation: i64,
    pub(super) object: Value,
    pub(super) warning: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct WantedBinding {
    pub(super) constraint: (Kind, Key),
    /// The kind of the constraint.
    pub(super) kind: Str,
    pub(super) generation: i64,
    pub(super) object: Value,
    pub(super) blocked_until: Blocked,
}

/// How long a first binding has to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Gatekeeper waited already.
    Never,
    /// Gatekeeper was waiting.
    Until(Timestamp),
    /// Until the CRD of the constraint is old enough.
    ByAge,
}

/// The state of a template's policy, for its constraints.
enum Ground {
    /// A policy.
    Policy(Blocked),
    /// The template is not written in CEL.
    Rego(String),
    /// None, for a reason that constraints report.
    None { reason: String, keep: bool },
    /// Unknown, as the template does not load.
    Unknown,
}

/// The namespaces that Config keeps from the webhook.
pub(super) fn excluded_namespaces(state: &State) -> BTreeSet<Str> {
    let is_used = |(key, _): &(&Key, &_)| key.name == config::NAME;
    let mut configs = state.of_kind(config::GROUP, config::KIND).filter(is_used);
    let config = configs.next().and_then(|(_, loaded)| Config::from_value(&loaded.object).ok());
    let config = config.unwrap_or_default();
    config.excluded_from(Process::Webhook).cloned().collect()
}

impl Plan {
    /// For an API server that has the API, or has not.
    pub(super) fn of(state: &State, options: &VapOptions, has_api: bool) -> Self {
        let mut plan = Self::default();
        let templates =
            Kind { group: templates::GROUP.to_owned(), kind: templates::KIND.to_owned() };
        let mut grounds: BTreeMap<&str, Ground> = BTreeMap::new();
        for (key, loaded) in state.of_kind(templates::GROUP, templates::KIND) {
            let id = (templates.clone(), key.clone());
            grounds.insert(&key.name, plan.template(id, loaded, options, has_api));
        }
        let constraints =
            state.policies.iter().filter(|(kind, _)| kind.group == constraints::GROUP);
        for (kind, of_kind) in constraints {
            let ground = grounds.get(kind.kind.to_lowercase().as_str()).unwrap_or(&Ground::Unknown);
            for (key, loaded) in of_kind.iter() {
                let id = (kind.clone(), key.clone());
                plan.constraint(id, loaded, ground, options, has_api);
            }
        }
        plan
    }

    fn template(
        &mut self,
        id: (Kind, Key),
        loaded: &Loaded,
        options: &VapOptions,
        has_api: bool,
    ) -> Ground {
        let name = format!("gatekeeper-{}", id.1.name);
        if !loaded.is_in_force() {
            self.kept.insert(Target::Policy(name));
            return Ground::Unknown;
        }
        let template = ConstraintTemplate::from_value(&loaded.object).map_err(VapError::from);
        let wanted = template.and_then(|template| vap::cel_source(&template, options));
        let report = |error: Option<String>, warning: Option<String>| Report {
            errors: error
                .into_iter()
                .map(|message| ReportedError { code: "create_error", message })
                .collect(),
            generation: warning.map(|warning| VapGeneration {
                state: state::ERROR,
                observed_generation: loaded.generation(),
                warning,
            }),
            ..Report::default()
        };
        let not_generated =
            |error: &VapError| format!("ValidatingAdmissionPolicy is not generated: {error}");
        match wanted {
            Err(error @ VapError::NoCel) => return Ground::Rego(error.to_string()),
            Err(error) => {
                self.failed_policies += 1;
                self.reports.insert(id, report(None, Some(not_generated(&error))));
                let reason = format!(
                    "could not determine if ConstraintTemplate is configured to generate \
                     ValidatingAdmissionPolicy: {error}"
                );
                return Ground::None { reason, keep: false };
            }
            Ok((_, false)) => {
                let reason =
                    format!("cannot generate ValidatingAdmissionPolicyBinding: {CONDITIONS}");
                return Ground::None { reason, keep: false };
            }
            Ok((_, true)) => {}
        }
        if !has_api {
            self.failed_policies += 1;
            let message = format!(
                "ValidatingAdmissionPolicy resource cannot be generated for ConstraintTemplate: \
                 {API_ABSENT}"
            );
            self.reports.insert(id, report(Some(message), None));
            let reason = format!("cannot generate ValidatingAdmissionPolicyBinding: {API_ABSENT}");
            return Ground::None { reason, keep: true };
        }
        match vap::policy(&loaded.object, options) {
            Ok(policy) => {
                let wanted = WantedPolicy {
                    template: id,
                    generation: loaded.generation(),
                    object: owned(policy.object, &loaded.object),
                    warning: policy.warning,
                };
                self.policies.insert(name, wanted);
                Ground::Policy(blocked(&loaded.object))
            }
            Err(error) => {
                self.failed_policies += 1;
                self.kept.insert(Target::Policy(name));
                let message = format!("Could not transform to VAP object: {error}");
                self.reports.insert(id, report(Some(message), Some(not_generated(&error))));
                let reason = format!("cannot generate ValidatingAdmissionPolicyBinding: {error}");
                Ground::None { reason, keep: true }
            }
        }
    }

    fn constraint(
        &mut self,
        id: (Kind, Key),
        loaded: &Loaded,
        ground: &Ground,
        options: &VapOptions,
        has_api: bool,
    ) {
        let name = vap::binding_name(&id.0.kind.to_lowercase(), &id.1.name);
        let constraint = match Constraint::from_value(&loaded.object) {
            Ok(constraint) if loaded.is_in_force() => constraint,
            _ => {
                self.kept.insert(Target::Binding(name));
                return;
            }
        };
        let actions = vap::binding_actions(&constraint, options);
        if actions.is_empty() {
            return;
        }
        let error = |message: String| Report {
            errors: vec![ReportedError { code: "", message }],
            ..Report::default()
        };
        match ground {
            Ground::Unknown => drop(self.kept.insert(Target::Binding(name))),
            // Tools look for this; it is no failure.
            Ground::Rego(message) => {
                let point = EnforcementPoint {
                    point: constraints::EnforcementPoint::Vap.as_str(),
                    state: state::ERROR,
                    message: message.clone(),
                    observed_generation: loaded.generation(),
                };
                self.reports.insert(id, Report { points: vec![point], ..Report::default() });
            }
            Ground::None { reason, keep } => {
                self.failed_bindings += 1;
                self.reports.insert(id, error(reason.clone()));
                if *keep || !has_api {
                    self.kept.insert(Target::Binding(name));
                }
            }
            Ground::Policy(blocked) => match vap::binding(&loaded.object, &actions, options) {
                Ok(object) => {
                    let wanted = WantedBinding {
                        kind: id.0.kind.as_str().into(),
                        constraint: id,
                        generation: loaded.generation(),
                        object: owned(object, &loaded.object),
                        blocked_until: *blocked,
                    };
                    self.bindings.insert(name, wanted);
                }
                Err(problem) => {
                    self.failed_bindings += 1;
                    self.kept.insert(Target::Binding(name));
                    let message = format!(
                        "could not transform constraint to ValidatingAdmissionPolicyBinding: \
                             {problem}"
                    );
                    self.reports.insert(id, error(message));
                }
            },
        }
    }
}

/// The object, owned by the policy it was made from.
fn owned(mut object: Value, policy: &Value) -> Value {
    if let Value::Object(members) = &mut object
        && let Some(Value::Object(metadata)) = members.get_mut("metadata")
        && let Some(owner) = definitions::owner(policy)
    {
        metadata.insert("ownerReferences", [owner].into_iter().collect());
    }
    object
}

/// Gatekeeper's annotation of a template. A time that cannot be read counts as none.
fn blocked(template: &Value) -> Blocked {
    let annotation = |name| template.path(&["metadata", "annotations", name])?.as_str();
    if annotation(BLOCK_STATE) == Some("unblocked") {
        return Blocked::Never;
    }
    let until = annotation(BLOCK_UNTIL).and_then(|until| until.parse().ok());
    until.map_or(Blocked::ByAge, Blocked::Until)
}
