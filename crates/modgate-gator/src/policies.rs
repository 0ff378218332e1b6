//! Templates, constraints and referential data, and reviews by them (7.4, 7.6).

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Instant};

use modgate_api::{
    constraints::{self, EnforcementAction, EnforcementPoint},
    meta::GroupVersionKind,
    templates::{self, FailurePolicy},
};
use modgate_engine::{
    PolicySource,
    constraint::{
        Admission, Arena, CompiledConstraint, CompiledTemplate, ConstraintKey, ConstraintOptions,
        ConstraintTrace, Driver, Evaluation, ExpressionResult, ExpressionTrace, Finding, Inserted,
        Inventory, InventoryError, Store, TemplateError, TemplateOptions, World, explain_one,
        review,
    },
    cost::Meter,
};
use modgate_value::{Budget, Limits, Object, Str, Value};

use crate::{
    Failure,
    cli::CelArgs,
    outside::{Outside, POLICY, WallClock},
    read::{kind_text, metadata},
};

/// Constraints' actions are not checked here: one nobody knows leads to nothing (7.4).
const CONSTRAINTS: ConstraintOptions = ConstraintOptions { any_enforcement_action: true };

/// Whether an object says it is a ConstraintTemplate.
pub(crate) fn is_template(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    kind.group == templates::GROUP && kind.kind == templates::KIND
}

/// Whether an object says it is a constraint.
pub(crate) fn is_constraint(object: &Value) -> bool {
    GroupVersionKind::of_object(object).group == constraints::GROUP
}

/// What templates may use here.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) templates: TemplateOptions,
}

impl Settings {
    /// From the flags about CEL, and whether somebody wants to see what policies print.
    pub(crate) fn of(args: &CelArgs, print: bool) -> Result<Self, String> {
        let policy = args.default_k8s_native_validation_failure_policy.as_str();
        let failure_policy = match policy {
            "Fail" => FailurePolicy::Fail,
            "Ignore" => FailurePolicy::Ignore,
            _ => {
                return Err(format!(
                    "invalid default K8sNativeValidation failure policy: invalid failure policy: \
                     unrecognized failure policy: {policy}"
                ));
            }
        };
        let cel = args.enable_k8s_native_validation;
        let offline = Self::offline().templates;
        Ok(Self { templates: TemplateOptions { cel, failure_policy, print, ..offline } })
    }

    /// The usual ones.
    pub(crate) fn offline() -> Self {
        // Nothing outside can be asked.
        Self { templates: TemplateOptions { external_data: false, ..TemplateOptions::default() } }
    }

    /// Compiles a template.
    pub(crate) fn template(
        &self,
        resource: &Value,
    ) -> Result<Arc<CompiledTemplate>, TemplateError> {
        CompiledTemplate::compile(resource, &self.templates).map(Arc::new)
    }
}

/// Everything an object is judged by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    pub(crate) store: Store,
    pub(crate) inventory: Inventory,
    /// The constraints as results show them.
    shown: BTreeMap<ConstraintKey, Value>,
}

/// One violation, with all that is printed about it.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) finding: Finding,
    /// Whether it has a place for details: those of Rego do, unless the match block could not be
    /// decided.
    pub(crate) has_details: bool,
    /// What the policy tried, if that was asked for.
    pub(crate) trace: Option<String>,
}

/// What one thread keeps from review to review.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) arena: Arena,
    pub(crate) outside: Outside,
    /// Whether to say how each result came about, and what has been said so far.
    tracing: bool,
    traced: String,
}

impl Session {
    /// A session that tells how results come about, or not.
    pub(crate) fn new(tracing: bool) -> Self {
        Self { tracing, ..Self::default() }
    }

    /// Every trace since the last time; `None` if there is none.
    pub(crate) fn take_traced(&mut self) -> Option<String> {
        Some(std::mem::take(&mut self.traced)).filter(|traced| !traced.is_empty())
    }
}

/// How long a policy took: Rego for all constraints of a kind, CEL for each of them.
#[derive(Debug, Clone)]
pub(crate) struct Timing {
    pub(crate) engine: &'static str,
    pub(crate) kind: Str,
    /// The constraint's name, with CEL.
    pub(crate) constraint: Option<Str>,
    pub(crate) nanoseconds: u128,
    pub(crate) constraints: usize,
    /// `Implied by`, for resultants.
    pub(crate) template: Option<Str>,
}

impl Policies {
    /// Loads templates, then constraints, then every object as referential data.
    pub(crate) fn load<'o>(
        objects: impl Iterator<Item = &'o Value> + Clone,
        settings: &Settings,
    ) -> Result<Self, String> {
        let mut policies = Self::default();
        for object in objects.clone().filter(|object| is_template(object)) {
            let name = modgate_value::gofmt::quote(metadata(object, "name"));
            let template = settings.template(object).map_err(|error| match error {
                TemplateError::Decode(_) => {
                    format!("converting unstructured {name} to template: {error}")
                }
                error => format!("adding template {name}: {error}"),
            })?;
            policies.add_template(template);
        }
        for object in objects.clone().filter(|object| is_constraint(object)) {
            policies.add_constraint(object).map_err(|error| {
                let name = modgate_value::gofmt::quote(metadata(object, "name"));
                format!("adding constraint {name}: {error}")
            })?;
        }
        for object in objects {
            policies.add_data(object).map_err(|error| {
                let kind = modgate_value::gofmt::quote(&kind_text(object));
                format!("adding data of GVK {kind}: {error}")
            })?;
        }
        Ok(policies)
    }

    pub(crate) fn add_template(&mut self, template: Arc<CompiledTemplate>) {
        // Templates come before constraints, so none can be refused.
        let _ = self.store.insert_template(template, &CONSTRAINTS);
    }

    /// Adds a constraint; its template must be there.
    pub(crate) fn add_constraint(&mut self, resource: &Value) -> Result<(), ConstraintRefused> {
        let key = ConstraintKey::of_object(resource);
        let source = PolicySource::of_object(resource.clone());
        let inserted = match self.store.template(&key.kind) {
            Some(_) => self.store.insert_constraint(source, &CONSTRAINTS)?,
            None => Inserted::Waiting,
        };
        match inserted {
            Inserted::Live(compiled) => {
                self.shown.insert(key, shown(resource, &compiled));
                Ok(())
            }
            Inserted::Waiting => {
                Err(ConstraintRefused::NoTemplate { template: key.kind.to_lowercase() })
            }
        }
    }

    /// Adds an object that policies can refer to. One without a name, or whose name is no text, is
    /// found under the empty name, as in gator.
    pub(crate) fn add_data(&mut self, object: &Value) -> Result<(), String> {
        let version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        let added = match has_version(version) {
            false => Err(InventoryError::NoVersion { name: metadata(object, "name").to_owned() }),
            true => match self.inventory.insert(object.clone()) {
                // A Namespace of such a name ends the run in gator, too (G41).
                Err(InventoryError::NoName) if !(is_namespace(object) && has_name(object)) => {
                    self.inventory.insert_nameless(object.clone());
                    Ok(())
                }
                added => added,
            },
        };
        added.map_err(|error| format!("{}: {error}\n", templates::TARGET))
    }

    /// A constraint as results show it: complete, its defaults and its action filled in.
    pub(crate) fn shown(&self, finding: &Finding) -> Value {
        let key = ConstraintKey { kind: finding.kind.clone(), name: finding.constraint.clone() };
        self.shown.get(&key).cloned().unwrap_or_default()
    }

    /// Everything the constraints find about an object at gator's enforcement point.
    pub(crate) fn review(&self, admission: &Admission, session: &mut Session) -> Vec<Outcome> {
        let candidates = self.store.candidates(admission);
        self.ask(candidates, admission, session)
    }

    /// As [`review`](Self::review), timing each policy on its own.
    pub(crate) fn timed_review(
        &self,
        admission: &Admission,
        session: &mut Session,
    ) -> (Vec<Outcome>, Vec<Timing>) {
        let mut groups: BTreeMap<(&Str, Option<&Str>), Vec<&CompiledConstraint>> = BTreeMap::new();
        for constraint in self.store.candidates(admission) {
            let applies = constraint.enforcement().at(EnforcementPoint::Gator).is_some()
                && constraint.matches(admission, &self.inventory) != Ok(false);
            if applies {
                let is_rego = matches!(constraint.template().driver(), Driver::Rego(_));
                let name = (!is_rego).then(|| constraint.name());
                groups.entry((constraint.kind(), name)).or_default().push(constraint);
            }
        }
        let mut outcomes = Vec::new();
        let mut timings = Vec::new();
        for ((kind, name), constraints) in groups {
            let count = constraints.len();
            let engine = constraints.first().map(|first| first.template().driver().engine());
            let start = Instant::now();
            outcomes.extend(self.ask(constraints, admission, session));
            timings.push(Timing {
                engine: engine.unwrap_or_default(),
                kind: kind.clone(),
                constraint: name.cloned(),
                nanoseconds: start.elapsed().as_nanos(),
                constraints: count,
                template: None,
            });
        }
        (outcomes, timings)
    }

    /// How a constraint comes to its result; `None` where it is not about the object.
    fn trace(&self, constraint: &CompiledConstraint, admission: &Admission) -> Option<String> {
        if constraint.matches(admission, &self.inventory) != Ok(true) {
            return None;
        }
        let budget = Budget::new(Limits::UNLIMITED, &WallClock);
        // What is printed meanwhile is printed by the review, too.
        let outside = Outside::default();
        let evaluation = Evaluation {
            meter: Meter::default(),
            point: EnforcementPoint::Gator,
            world: World { inventory: &self.inventory, host: &outside },
            budget: &budget,
            limits: POLICY,
        };
        let trace = explain_one(&self.store, constraint, admission, evaluation, &mut Arena::new());
        let notes = outside.take_notes().unwrap_or_default();
        let notes: String = notes.lines().map(|note| format!("  note: {note}\n")).collect();
        Some(format!("{}{notes}", trace_text(&trace)))
    }

    fn ask(
        &self,
        constraints: Vec<&CompiledConstraint>,
        admission: &Admission,
        session: &mut Session,
    ) -> Vec<Outcome> {
        let budget = Budget::new(Limits::UNLIMITED, &WallClock);
        let evaluation = Evaluation {
            meter: Meter::default(),
            point: EnforcementPoint::Gator,
            world: World { inventory: &self.inventory, host: &session.outside },
            budget: &budget,
            limits: POLICY,
        };
        let mut traces = BTreeMap::new();
        if session.tracing {
            for constraint in &constraints {
                if let Some(text) = self.trace(constraint, admission) {
                    session.traced.push_str(&text);
                    traces.insert((constraint.kind().clone(), constraint.name().clone()), text);
                }
            }
        }
        let findings = review(constraints, admission, evaluation, &mut session.arena);
        let outcome = |finding: Finding| {
            let key =
                ConstraintKey { kind: finding.kind.clone(), name: finding.constraint.clone() };
            let has_details = self.store.constraint(&key).is_some_and(|constraint| {
                // Only then is it worth asking again whether it was the match block.
                let is_match_error = finding.message.starts_with(MATCH_ERROR)
                    && constraint.matches(admission, &self.inventory).is_err();
                matches!(constraint.template().driver(), Driver::Rego(_)) && !is_match_error
            });
            let trace = traces.get(&(finding.kind.clone(), finding.constraint.clone())).cloned();
            Outcome { finding, has_details, trace }
        };
        findings.into_iter().map(outcome).collect()
    }
}

fn is_namespace(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    kind.group.is_empty() && kind.kind == "Namespace"
}

/// Whether there is a name, of whatever type.
fn has_name(object: &Value) -> bool {
    object.path(&["metadata", "name"]).is_some_and(|name| !name.is_null())
}

/// Whether an `apiVersion` has a version: `v1`, `apps/v1`, but neither `v1/` nor `a/b/c`.
fn has_version(api_version: &str) -> bool {
    let (_, version) = api_version.split_once('/').unwrap_or(("", api_version));
    !version.is_empty() && !version.contains('/')
}

/// How a constraint came to its result, a line for each expression of its policy that was tried.
fn trace_text(trace: &ConstraintTrace) -> String {
    let mut out = format!("{} {} ({})\n", trace.policy.kind, trace.policy.name, trace.engine);
    for expression in &trace.expressions {
        let ExpressionTrace { rule, module, text, result, values, .. } = expression;
        let result = match result {
            ExpressionResult::Held => "held".to_owned(),
            ExpressionResult::Failed => "failed".to_owned(),
            ExpressionResult::Mixed(held, failed) => format!("held {held}, failed {failed} times"),
            ExpressionResult::Value(value) => value.clone(),
            ExpressionResult::Error(error) => format!("error: {error}"),
            _ => String::new(),
        };
        let place = if module.is_empty() { String::new() } else { format!("{module} ") };
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(out, "  {place}{rule}: {text}: {result}");
        let values: Vec<String> =
            values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        if !values.is_empty() {
            let _ = write!(out, " ({})", values.join(", "));
        }
        out.push('\n');
    }
    if trace.omitted > 0 {
        let _ = writeln!(out, "  and {} more", trace.omitted);
    }
    out
}

/// How the engine's message of an undecided match block begins.
const MATCH_ERROR: &str = "unable to match constraints: ";

/// Why a constraint is refused.
pub(crate) type ConstraintRefused = modgate_engine::constraint::ConstraintError;

fn shown(resource: &Value, compiled: &CompiledConstraint) -> Value {
    let mut root = resource.as_object().cloned().unwrap_or_default();
    let mut spec = root.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    let is_given = spec.get("parameters").is_some();
    let has_members = compiled.parameters().as_object().is_some_and(|all| !all.is_empty());
    if is_given || has_members {
        spec.insert("parameters", compiled.parameters().clone());
    }
    if spec.get("enforcementAction").is_none() {
        spec.insert("enforcementAction", Value::from(EnforcementAction::Deny.as_str()));
    }
    root.insert("spec", Object::into(spec));
    root.into()
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}
