//! From a constraint to a [`CompiledConstraint`] (spec 1.4, 3.2, 5.3 and 6.6).

use std::{sync::Arc, time::Duration};

use modgate_api::{
    constraints::{self as wire, Constraint},
    matching::{LabelSelector, Match},
    meta::split_api_version,
};
use modgate_value::{
    Budget, DecodeError, Exhausted, Limits, Object, Str, Value, budget::Frozen, gofmt,
};

use super::{
    action::Enforcement, admission::Admission, defaults, inventory::Inventory,
    template::CompiledTemplate,
};
use crate::{
    PolicyId,
    matching::{Criteria, MatchError},
};

/// What an installation allows constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConstraintOptions {
    /// Whether actions nobody knows are accepted (`--disable-enforcementaction-validation`).
    pub any_enforcement_action: bool,
}

/// What filling in the defaults of one constraint may cost.
const DEFAULTS: Limits = Limits { steps: 10_000_000, bytes: 16 << 20, time: Duration::MAX };

/// A constraint that is ready to judge. Holding one is the proof that it is valid.
#[derive(Debug, Clone)]
pub struct CompiledConstraint {
    template: Arc<CompiledTemplate>,
    name: Str,
    generation: i64,
    /// `None` without a match block, which matches everything, even nothing (EV-22).
    criteria: Option<Criteria>,
    enforcement: Enforcement,
    parameters: Value,
    /// As it was given.
    resource: Value,
    warnings: Vec<String>,
}

/// Why a constraint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// A member has the wrong type.
    #[error("invalid Constraint: {0}")]
    Decode(#[from] DecodeError),
    /// It does not hang together (AD-30, MA-20).
    #[error("invalid Constraint: {0}")]
    Invalid(String),
    /// What the generated CRD's schema refuses (AD-31).
    #[error("schema validation failed: {0}")]
    Schema(String),
    /// Its enforcement action (AD-33).
    #[error("{0}")]
    Action(String),
    /// Nobody knows its kind (AD-30).
    #[error("missing ConstraintTemplate: template {} not found", gofmt::quote(template))]
    NoTemplate {
        /// The name of the template that would make it known.
        template: String,
    },
    /// The schema's defaults would make its parameters too large.
    #[error("invalid Constraint: defaults of spec.parameters: {0}")]
    Defaults(#[from] Exhausted),
}

impl ConstraintError {
    /// The field it is about, as Kubernetes writes paths, and the message without it.
    pub(crate) fn located(&self) -> (String, String) {
        match self {
            Self::Decode(DecodeError { path, message }) => (path.clone(), message.clone()),
            Self::Schema(text) => {
                // `[].spec.parameters.x: Invalid value: …`
                let place = text.strip_prefix("[].").and_then(|rest| rest.split_once(": "));
                let field = place.map_or("spec", |(field, _)| field);
                (field.to_owned(), self.to_string())
            }
            Self::Action(_) => ("spec.enforcementAction".to_owned(), self.to_string()),
            Self::Defaults(_) => ("spec.parameters".to_owned(), self.to_string()),
            Self::NoTemplate { .. } => ("kind".to_owned(), self.to_string()),
            Self::Invalid(text) => {
                let in_match = text.trim_start_matches('[').starts_with("spec.labelSelector");
                let field = if in_match { "spec.match" } else { "" };
                (field.to_owned(), self.to_string())
            }
        }
    }

    /// The HTTP status with which admission refuses the constraint.
    pub fn code(&self) -> u16 {
        if matches!(self, Self::Action(_)) { 500 } else { 422 }
    }
}

impl CompiledConstraint {
    /// Compiles a constraint of the template's kind.
    ///
    /// Of its schema only nulls and what cannot be decoded are refused; the rest needs the
    /// generated CRD.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn compile(
        resource: &Value,
        template: Arc<CompiledTemplate>,
        options: &ConstraintOptions,
    ) -> Result<Self, ConstraintError> {
        let constraint = Constraint::from_value(resource)?;
        check_identity(&constraint, &template)?;
        for member in ["match", "parameters"] {
            if resource.path(&["spec", member]).is_some_and(Value::is_null) {
                return Err(ConstraintError::Schema(format!(
                    "[].spec.{member}: Invalid value: \"null\": spec.{member} in body must be of \
                     type object: \"null\""
                )));
            }
        }
        let spec = constraint.spec.as_ref();
        let matching = spec.and_then(|spec| spec.matching.as_ref());
        let criteria = matching.map(compile_match).transpose()?;
        let mut warnings = Vec::new();
        let enforcement = Enforcement::compile(spec, options, &mut warnings)?;
        Ok(Self {
            parameters: parameters(resource.get("spec"), template.schema())?,
            resource: resource.clone(),
            name: constraint.metadata.name,
            generation: constraint.metadata.generation,
            template,
            criteria,
            enforcement,
            warnings,
        })
    }

    /// The same constraint with another version of its template, which takes it as it is: what was
    /// valid once is not judged again. Parameters that the new defaults would make too large stay
    /// as they were.
    pub(super) fn with_template(&self, template: Arc<CompiledTemplate>) -> Self {
        let parameters = parameters(self.resource.get("spec"), template.schema());
        Self {
            parameters: parameters.unwrap_or_else(|_| self.parameters.clone()),
            template,
            ..self.clone()
        }
    }

    /// The constraint as it was given.
    pub fn resource(&self) -> &Value {
        &self.resource
    }

    /// Which policy it is.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: wire::GROUP.into(),
            kind: self.kind().clone(),
            namespace: Str::default(),
            name: self.name.clone(),
        }
    }

    /// The constraint's name.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The constraint's kind.
    pub fn kind(&self) -> &Str {
        self.template.kind()
    }

    /// Its `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Its template.
    pub fn template(&self) -> &Arc<CompiledTemplate> {
        &self.template
    }

    /// Its match block, if it has one.
    pub fn criteria(&self) -> Option<&Criteria> {
        self.criteria.as_ref()
    }

    /// What its violations lead to.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// `input.parameters` (EV-10).
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// What its author should know although it is valid.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether it is about this object.
    ///
    /// # Errors
    ///
    /// The message of the result that stands in for an answer (EV-21, EV-22).
    pub fn matches(&self, admission: &Admission, inventory: &Inventory) -> Result<bool, String> {
        let Some(criteria) = &self.criteria else { return Ok(true) };
        if admission.is_empty() {
            return Err("unable to match constraints: invalid request object: neither object nor \
                        old object are defined"
                .to_owned());
        }
        admission.matches(criteria, inventory).map_err(|(error, name): (MatchError, Str)| {
            format!(
                "unable to match constraints: error matching the requested object: {name} :{error}"
            )
        })
    }
}

/// Group, kind, version and name (AD-30).
fn check_identity(
    constraint: &Constraint,
    template: &CompiledTemplate,
) -> Result<(), ConstraintError> {
    let name = &constraint.metadata.name;
    let invalid = |message: String| Err(ConstraintError::Invalid(message));
    let (group, version) = split_api_version(&constraint.api_version);
    if name.is_empty() {
        return invalid("missing metadata.name".to_owned());
    }
    if constraint.kind != *template.kind() {
        return invalid(format!(
            "wrong kind {} for Constraint {}, expected {}",
            gofmt::quote(&constraint.kind),
            gofmt::quote(name),
            gofmt::quote(template.kind())
        ));
    }
    if group != wire::GROUP {
        return invalid(format!(
            "wrong group {} for Constraint {}, expected {}",
            gofmt::quote(group),
            gofmt::quote(name),
            gofmt::quote(wire::GROUP)
        ));
    }
    if !wire::VERSIONS.contains(&version) {
        let served: Vec<String> =
            wire::VERSIONS.iter().map(|version| format!("{version}:true")).collect();
        return invalid(format!(
            "unsupported version {} for Constraint {}; supported versions: map[{}]",
            gofmt::quote(version),
            gofmt::quote(name),
            served.join(" ")
        ));
    }
    Ok(())
}

fn compile_match(block: &Match) -> Result<Criteria, ConstraintError> {
    for selector in block.label_selector.iter().chain(&block.namespace_selector) {
        check_selector(selector)?;
    }
    Criteria::compile(block).map_err(|error| ConstraintError::Invalid(error.to_string()))
}

/// Kubernetes' own validation, as far as operators and values go (MA-20); both selectors report
/// the one path.
fn check_selector(selector: &LabelSelector) -> Result<(), ConstraintError> {
    let mut errors = Vec::new();
    for (index, requirement) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("spec.labelSelector.matchExpressions[{index}]");
        let has_values = requirement.values.as_ref().is_some_and(|values| !values.is_empty());
        match (requirement.operator.as_str(), has_values) {
            ("In" | "NotIn", true) | ("Exists" | "DoesNotExist", false) => {}
            ("In" | "NotIn", false) => errors.push(format!(
                "{path}.values: Required value: must be specified when `operator` is 'In' or \
                 'NotIn'"
            )),
            ("Exists" | "DoesNotExist", true) => errors.push(format!(
                "{path}.values: Forbidden: may not be specified when `operator` is 'Exists' or \
                 'DoesNotExist'"
            )),
            (operator, _) => errors.push(format!(
                "{path}.operator: Invalid value: {}: not a valid selector operator",
                gofmt::quote(operator)
            )),
        }
    }
    match errors.as_slice() {
        [] => Ok(()),
        [error] => Err(ConstraintError::Invalid(error.clone())),
        errors => Err(ConstraintError::Invalid(format!("[{}]", errors.join(", ")))),
    }
}

/// `spec.parameters` with the schema's defaults; without a `spec` nothing is defaulted (EV-10).
fn parameters(spec: Option<&Value>, schema: Option<&Value>) -> Result<Value, Exhausted> {
    let nothing = || Value::from(Object::default());
    let Some(spec) = spec else { return Ok(nothing()) };
    let given = spec.get("parameters");
    let Some(schema) = schema else { return Ok(given.cloned().unwrap_or_else(nothing)) };
    match given.or_else(|| schema.get("default")) {
        Some(value) => defaults::fill(value, schema, &Budget::new(DEFAULTS, &Frozen)),
        None => Ok(nothing()),
    }
}
