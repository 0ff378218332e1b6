//! From a constraint to a [`CompiledConstraint`] (spec 1.4, 3.2, 5.3 and 6.6).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use modgate_api::{
    constraints::{self as wire, Constraint},
    matching::Match,
    schema::{self, FieldError},
    templates::CEL_ENGINE,
};
use modgate_rego::Program;
use modgate_value::{Budget, DecodeError, Exhausted, Limits, Object, Str, Value, gofmt};
use sha2::{Digest as _, Sha256};

use super::{
    action::Enforcement,
    admission::{Admission, Mismatch},
    cel::Keys,
    driver::Driver,
    evaluate::Evaluation,
    inventory::Inventory,
    template::CompiledTemplate,
    twins::Twins,
};
use crate::{
    PolicyId,
    cost::{Cost, Evaluated, Meter, Usage},
    coverage::{Coverage, MatchCounts},
    matching::{Criteria, MatchError},
};

/// The options of an installation for constraints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConstraintOptions {
    /// Whether unknown actions are accepted (`--disable-enforcementaction-validation`).
    pub any_enforcement_action: bool,
}

/// A constraint that is ready to evaluate. Holding one is the proof that it is valid.
#[derive(Debug, Clone)]
pub struct CompiledConstraint {
    template: Arc<CompiledTemplate>,
    name: Str,
    generation: i64,
    /// `None` without a match block, which matches everything, even nothing (EV-22).
    criteria: Option<Criteria>,
    /// A digest of the match block.
    block: Block,
    enforcement: Enforcement,
    parameters: Value,
    /// As it was given.
    resource: Value,
    /// Its annotations, an object; null where it has none.
    annotations: Value,
    /// With defaults.
    effective: Value,
    warnings: Vec<String>,
    /// The template's Rego as these parameters leave it, made when the constraint comes into force
    /// and never by a review: its cost is that of the policy's author, not of a request.
    specialized: Option<Arc<Program>>,
    /// The keys of the template's CEL that it shares with other constraints compiled at the same time.
    shared: Option<Arc<Keys>>,
    /// Its cost, with every version of the template.
    usage: Usage,
    /// Counts of the results of its match block, if its template is observed.
    matched: Option<Arc<MatchCounts>>,
}

/// A digest of a match block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Block(u128);

impl Block {
    fn of(block: Option<&Value>) -> Self {
        let digest = Sha256::digest(block.map(Value::to_json).unwrap_or_default());
        Self(u128::from_le_bytes(digest.first_chunk().copied().unwrap_or_default()))
    }
}

/// The results of match blocks for one object: many constraints have the same block.
#[derive(Debug, Default)]
pub(super) struct Decided {
    all: BTreeMap<Block, bool>,
    /// The last one: constraints of a template often have the same.
    last: Option<(Block, bool)>,
}

/// Later match blocks are evaluated each time.
const MAX_DECIDED: usize = 1024;

/// Why a constraint is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintError {
    /// A member has the wrong type.
    #[error("invalid Constraint: {0}")]
    Decode(#[from] DecodeError),
    /// It does not hang together (AD-30, MA-20).
    #[error("invalid Constraint: {reason}")]
    Invalid {
        /// The field, such as `spec.match`; empty for the whole.
        field: String,
        /// Its error.
        reason: InvalidConstraint,
    },
    /// The errors of the generated CRD's schema (AD-31).
    #[error("schema validation failed: {message}")]
    Schema {
        /// The field of the first error.
        field: String,
        /// All errors.
        message: String,
    },
    /// Its enforcement action (AD-33).
    #[error("{0}")]
    Action(String),
    /// No template defines its kind (AD-30).
    #[error("missing ConstraintTemplate: template {} not found", gofmt::quote(template))]
    NoTemplate {
        /// The name of the template that would make it known.
        template: String,
    },
    /// The schema's defaults would make its parameters too large.
    #[error("invalid Constraint: defaults of spec.parameters: {0}")]
    Defaults(#[from] Exhausted),
}

/// Why a constraint does not hang together. Displays as the original's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidConstraint {
    /// Its name is none that Kubernetes allows.
    #[error("invalid name: {}", gofmt::quote(&.0.join("\n")))]
    Name(Vec<String>),
    /// Its version is not served.
    #[error(
        "unsupported version {} for Constraint {}; supported versions: map[{}]",
        gofmt::quote(version),
        gofmt::quote(name),
        wire::VERSIONS.map(|version| format!("{version}:true")).join(" ")
    )]
    Version {
        /// The version.
        version: String,
        /// The name of the constraint.
        name: String,
    },
    /// A member of the match block that should be an object.
    #[error(
        "{} accessor error: {value} is of the type {kind}, expected map[string]interface{{}}",
        path.iter().map(|name| format!(".{name}")).collect::<String>()
    )]
    NoObject {
        /// Where it is.
        path: Vec<&'static str>,
        /// The value, as Go prints it.
        value: String,
        /// Its type in Go.
        kind: &'static str,
    },
    /// A selector with a member of the wrong type.
    #[error("Could not convert JSON to LabelSelector: {0}")]
    SelectorType(DecodeError),
    /// A selector that Kubernetes refuses. The paths of the errors begin with `spec.labelSelector` for either selector
    /// (MA-20).
    #[error("{}", schema::aggregate(.0))]
    Selector(Vec<FieldError>),
    /// Fields that the schema does not have.
    #[error("unknown fields: [{}]", .0.join(" "))]
    UnknownFields(Vec<String>),
    /// Another error.
    #[error("{0}")]
    Other(String),
}

impl From<String> for InvalidConstraint {
    fn from(message: String) -> Self {
        Self::Other(message)
    }
}

impl ConstraintError {
    /// An error about the whole constraint.
    pub(super) fn invalid(reason: impl Into<InvalidConstraint>) -> Self {
        Self::at("", reason)
    }

    /// An error about a field.
    pub(super) fn at(field: &str, reason: impl Into<InvalidConstraint>) -> Self {
        Self::Invalid { field: field.to_owned(), reason: reason.into() }
    }

    /// The field with the error, as Kubernetes writes paths.
    pub(crate) fn field(&self) -> &str {
        match self {
            Self::Decode(DecodeError { path, .. }) => path,
            Self::Invalid { field, .. } | Self::Schema { field, .. } => field,
            Self::Action(_) => "spec.enforcementAction",
            Self::Defaults(_) => "spec.parameters",
            Self::NoTemplate { .. } => "kind",
        }
    }

    /// The message beside the field.
    pub(crate) fn message(&self) -> String {
        match self {
            Self::Decode(DecodeError { message, .. }) => message.clone(),
            error => error.to_string(),
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
    /// # Errors
    ///
    /// The first check that fails.
    pub fn compile(
        resource: &Value,
        template: Arc<CompiledTemplate>,
        options: &ConstraintOptions,
    ) -> Result<Self, ConstraintError> {
        template.schema().check(resource)?;
        let constraint = Constraint::from_value(resource)?;
        let spec = constraint.spec.as_ref();
        let matching = spec.and_then(|spec| spec.matching.as_ref());
        let criteria = matching.map(compile_match).transpose()?;
        let mut warnings = Vec::new();
        let enforcement = Enforcement::compile(spec, options, &mut warnings)?;
        let effective = template.schema().fill_defaults(resource)?;
        let matched = template.is_observed().then(Arc::default);
        Ok(Self {
            parameters: parameters(&effective),
            effective,
            annotations: resource.path(&["metadata", "annotations"]).cloned().unwrap_or_default(),
            resource: resource.clone(),
            name: constraint.metadata.name,
            generation: constraint.metadata.generation,
            template,
            criteria,
            block: Block::of(resource.path(&["spec", "match"])),
            enforcement,
            warnings,
            specialized: None,
            shared: None,
            usage: Usage::default(),
            matched,
        })
    }

    /// The same constraint with another version of its template, which takes it as it is: what was
    /// valid once is not checked again. Parameters that the new defaults would make too large stay
    /// as they were.
    pub(super) fn with_template(&self, template: Arc<CompiledTemplate>) -> Self {
        let effective = template.schema().fill_defaults(&self.resource);
        let effective = effective.unwrap_or_else(|_| self.effective.clone());
        Self {
            parameters: parameters(&effective),
            effective,
            template,
            specialized: None,
            shared: None,
            ..self.clone()
        }
    }

    /// The constraint with defaults: what CEL calls `params`.
    pub(super) fn effective(&self) -> &Value {
        &self.effective
    }

    /// Its cost since it was compiled.
    pub fn cost(&self) -> Cost {
        self.usage.total()
    }

    /// The budget of the next evaluation: less time while the constraint is demoted.
    #[inline]
    pub(super) fn limits(&self, limits: Limits, meter: Meter<'_>) -> Limits {
        match meter.uptime {
            Some(uptime) => self.usage.limits(limits, || uptime),
            None => limits,
        }
    }

    /// An evaluation has ended after `took`.
    #[inline]
    pub(super) fn ended(&self, evaluation: &Evaluation<'_>, budget: &Budget<'_>, took: Duration) {
        if let Some(uptime) = evaluation.meter.uptime {
            self.usage.ended(evaluation.limits, budget, took, || uptime + took);
        }
    }

    /// Whether it keeps using up its time, and gets less of it for now.
    pub(crate) fn is_demoted(&self) -> bool {
        self.usage.is_demoted()
    }

    #[inline]
    pub(super) fn spent(&self, cost: Cost, meter: Meter<'_>) {
        self.usage.add(meter.shard, cost);
        if let Some(statistics) = meter.statistics {
            let is_cel = self.template.driver().engine() == CEL_ENGINE;
            let (kind, name) = (self.kind().clone(), is_cel.then(|| self.name().clone()));
            statistics.add(Evaluated { kind, name }, cost);
        }
    }

    /// The constraint as it was given.
    pub fn resource(&self) -> &Value {
        &self.resource
    }

    /// Its annotations, an object; null where it has none.
    pub(super) fn annotations(&self) -> &Value {
        &self.annotations
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

    /// The actions for its violations.
    pub fn enforcement(&self) -> &Enforcement {
        &self.enforcement
    }

    /// `input.parameters` (EV-10).
    pub fn parameters(&self) -> &Value {
        &self.parameters
    }

    /// The constraint ready to evaluate requests: with its template's Rego specialised for its
    /// parameters.
    pub(super) fn in_force(mut self) -> Arc<Self> {
        match self.template.driver() {
            Driver::Rego(driver) => {
                self.specialized = driver.specialized(&self.parameters);
            }
            Driver::Cel(driver) => self.shared = driver.keys(&self.effective),
        }
        Arc::new(self)
    }

    /// The keys of its template's CEL that it shares once it is in force.
    pub(super) fn shared(&self) -> Option<&Keys> {
        self.shared.as_deref()
    }

    /// The constraints in force that find the same in every object, if there are others.
    #[inline]
    pub(super) fn twins(&self) -> Option<Twins> {
        match self.template.driver() {
            Driver::Rego(driver) => {
                let specialized = self.specialized.as_ref()?;
                Twins::of(specialized).filter(|_| driver.is_closed(specialized))
            }
            Driver::Cel(_) => {
                let keys = self.shared.as_ref()?;
                Twins::of(keys).filter(|_| keys.are_whole())
            }
        }
    }

    /// Its template's Rego, specialised for its parameters once the constraint is in force.
    pub(super) fn specialized(&self) -> Option<&Program> {
        self.specialized.as_deref()
    }

    /// Warnings for its author; it is valid.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// As [`matches`](Self::matches), with what match blocks that read the same have decided for this object.
    pub(super) fn matches_like(
        &self,
        admission: &Admission,
        inventory: &Inventory,
        decided: &mut Decided,
    ) -> Result<bool, ConstraintMatchError> {
        if self.criteria.is_none() || self.matched.is_some() {
            return self.matches(admission, inventory);
        }
        if let Some((block, matches)) = decided.last
            && block == self.block
        {
            return Ok(matches);
        }
        let matches = match decided.all.get(&self.block) {
            Some(known) => *known,
            None => {
                let matches = self.matches(admission, inventory)?;
                if decided.all.len() < MAX_DECIDED {
                    decided.all.insert(self.block, matches);
                }
                matches
            }
        };
        decided.last = Some((self.block, matches));
        Ok(matches)
    }

    /// Whether it applies to this object.
    ///
    /// # Errors
    ///
    /// Why the match block cannot be decided, which counts as a violation (EV-21, EV-22).
    pub fn matches(
        &self,
        admission: &Admission,
        inventory: &Inventory,
    ) -> Result<bool, ConstraintMatchError> {
        if let Some(counts) = &self.matched {
            let mismatch = self.mismatch(admission, inventory)?;
            counts.note(mismatch.as_ref().map(|mismatch| mismatch.criterion));
            return Ok(mismatch.is_none());
        }
        let Some(criteria) = self.criteria_for(admission)? else { return Ok(true) };
        admission.matches(criteria, inventory).map_err(ConstraintMatchError::of)
    }

    /// The clauses of its match block, with what they decided; empty unless its template is
    /// [observed](super::TemplateOptions::observed).
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage::default();
        if let Some(counts) = &self.matched {
            counts.places(&self.resource, &mut coverage);
        }
        coverage
    }

    /// Why it does not apply to this object; `None` if it does.
    pub(super) fn mismatch(
        &self,
        admission: &Admission,
        inventory: &Inventory,
    ) -> Result<Option<Mismatch>, ConstraintMatchError> {
        let Some(criteria) = self.criteria_for(admission)? else { return Ok(None) };
        admission.mismatch(criteria, inventory).map_err(ConstraintMatchError::of)
    }

    fn criteria_for(
        &self,
        admission: &Admission,
    ) -> Result<Option<&Criteria>, ConstraintMatchError> {
        if self.criteria.is_some() && admission.is_empty() {
            return Err(ConstraintMatchError::NoObject);
        }
        if self.criteria.is_some() && admission.lacks_kind() {
            return Err(ConstraintMatchError::NoKind);
        }
        Ok(self.criteria.as_ref())
    }
}

/// Why it cannot be decided whether a constraint applies to an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConstraintMatchError {
    /// There is nothing to match.
    #[error(
        "unable to match constraints: invalid request object: neither object nor old object are \
         defined"
    )]
    NoObject,
    /// The object has no kind.
    #[error("unable to match constraints: invalid request object: the object has no kind")]
    NoKind,
    /// A criterion cannot be decided for the object.
    #[error("unable to match constraints: error matching the requested object: {object} :{error}")]
    Criteria {
        /// The name of the object.
        object: Str,
        /// The cause.
        error: MatchError,
    },
}

impl ConstraintMatchError {
    fn of((error, object): (MatchError, Str)) -> Self {
        Self::Criteria { object, error }
    }
}

fn compile_match(block: &Match) -> Result<Criteria, ConstraintError> {
    Criteria::compile(block).map_err(|error| ConstraintError::invalid(error.to_string()))
}

/// `spec.parameters` of a constraint with its defaults; without a `spec` there are none (EV-10).
fn parameters(effective: &Value) -> Value {
    let parameters = effective.path(&["spec", "parameters"]).cloned();
    parameters.unwrap_or_else(|| Object::default().into())
}
