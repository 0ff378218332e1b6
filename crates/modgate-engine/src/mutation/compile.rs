//! From the resource to a [`CompiledMutator`] (1.14): the checks, in the original's order and with
//! its texts.

use modgate_api::{
    meta::GroupVersionKind,
    mutations::{self as wire, ApplyTo, MutatorKind},
};
use modgate_value::{DecodeError, Str, Value, gofmt};

use super::{
    Action, AssignFrom, CompiledMutator, Constant, Constants, MutatorId,
    external::{DataSource, External},
    image::ImageParts,
    location::{Elements, Location, Node},
    path_test::PathTests,
};
use crate::{
    cost::Usage,
    matching::{Criteria, SelectorError},
};

/// The longest name a mutator may have.
const MAX_NAME: usize = 63;

/// The longest location a mutator may have, in steps.
const MAX_STEPS: usize = 256;

/// How many combinations of group, version and kind `applyTo` may name.
const MAX_KINDS: usize = 1000;

/// The options of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether mutators may ask providers (`--enable-external-data`).
    pub external_data: bool,
    /// Whether mutators leave annotations about what they did (`--mutation-annotations`).
    pub annotations: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { external_data: true, annotations: false }
    }
}

/// Why a mutator is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A member has the wrong type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A selector of the match block.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Anything else, in the original's words.
    #[error("{message}")]
    Invalid {
        /// The error.
        message: String,
        /// The field at fault; empty for the whole.
        field: &'static str,
    },
}

impl CompileError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), field: "" }
    }

    /// Sets the field at fault, unless one is set.
    fn of(self, about: &'static str) -> Self {
        match self {
            Self::Invalid { message, field: "" } => Self::Invalid { message, field: about },
            other => other,
        }
    }

    /// The field at fault, as Kubernetes writes paths; empty for the whole.
    pub(crate) fn field(&self) -> &str {
        match self {
            Self::Decode(error) => &error.path,
            Self::Selector(_) => "spec.match",
            Self::Invalid { field, .. } => field,
        }
    }
}

impl CompiledMutator {
    /// Compiles the resource of any mutator kind and version.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn compile(resource: &Value, options: Options) -> Result<Self, CompileError> {
        let kind_name = GroupVersionKind::of_object(resource).kind;
        let Some(kind) = MutatorKind::from_name(&kind_name) else {
            return Err(CompileError::new(format!("`{kind_name}` is not a mutator")));
        };
        let mutator = wire::Mutator::from_value(resource)?;
        Compiler { kind, name: mutator.metadata.name.clone(), options, mutator }.compile()
    }
}

struct Compiler {
    kind: MutatorKind,
    name: Str,
    options: Options,
    mutator: wire::Mutator,
}

impl Compiler {
    fn compile(self) -> Result<CompiledMutator, CompileError> {
        if self.name.len() > MAX_NAME {
            return Err(CompileError::new(format!("maximum name length is {MAX_NAME} characters")));
        }
        let location = self.location().map_err(|error| error.of("spec.location"))?;
        let action = match self.kind {
            MutatorKind::Assign => self.assign(&location),
            MutatorKind::AssignMetadata => self.assign_metadata(&location),
            MutatorKind::ModifySet => self.modify_set(&location),
            MutatorKind::AssignImage => self.assign_image(&location),
        };
        let action = action.map_err(|error| error.of("spec.parameters"))?;
        let (tests, apply_to) = if self.kind == MutatorKind::AssignMetadata {
            (PathTests::must_not_exist(&location), None)
        } else {
            let tests = self.mutator.spec.parameters.path_tests.as_deref().unwrap_or_default();
            let tests = PathTests::compile(tests, &location, self.kind.as_str(), &self.name);
            let tests = tests.map_err(|error| error.of("spec.parameters.pathTests"))?;
            (tests, Some(self.apply_to().map_err(|error| error.of("spec.applyTo"))?))
        };
        let (matching, warnings) = self.matching().map_err(|error| error.of("spec.match"))?;
        Ok(CompiledMutator {
            id: MutatorId {
                kind: self.kind,
                namespace: self.mutator.metadata.namespace.clone(),
                name: self.name.clone(),
            },
            generation: self.mutator.metadata.generation,
            apply_to,
            criteria: Criteria::compile(&matching)?,
            location,
            tests,
            action,
            warnings,
            usage: Usage::default(),
        })
    }

    /// The kind as the original spells it inside sentences.
    fn kind_in_text(&self) -> &'static str {
        match self.kind {
            MutatorKind::Assign => "assign",
            MutatorKind::AssignImage => "assignImage",
            MutatorKind::AssignMetadata => "assignmetadata",
            MutatorKind::ModifySet => "modifyset",
        }
    }

    fn location(&self) -> Result<Location, CompileError> {
        let (name, text) = (&self.name, &self.mutator.spec.location);
        let location = Location::parse(text).map_err(|error| {
            CompileError::new(match self.kind {
                MutatorKind::AssignMetadata => {
                    format!("invalid location format for AssignMetadata {name}: {text}: {error}")
                }
                MutatorKind::AssignImage => {
                    format!("invalid location format `{text}` for assignImage {name}: {error}")
                }
                MutatorKind::Assign | MutatorKind::ModifySet => format!(
                    "invalid location format `{text}` for {} {name}: {error}",
                    self.kind.as_str()
                ),
            })
        })?;
        if location.nodes().len() > MAX_STEPS {
            return Err(CompileError::new(format!(
                "location has {} steps, at most {MAX_STEPS} are allowed",
                location.nodes().len()
            )));
        }
        let kind = self.kind_in_text();
        let in_metadata =
            matches!(location.nodes(), [Node::Field(first), ..] if first == "metadata");
        if self.kind == MutatorKind::AssignMetadata {
            return match location.nodes() {
                [Node::Field(_), Node::Field(map), Node::Field(_)]
                    if in_metadata && (map == "labels" || map == "annotations") =>
                {
                    Ok(location)
                }
                _ => Err(CompileError::new(format!("invalid location for {kind} {name}: {text}"))),
            };
        }
        if in_metadata {
            return Err(CompileError::new(format!("{kind} {name} can't change metadata")));
        }
        match (self.kind, location.nodes()) {
            (MutatorKind::ModifySet, [.., Node::List { .. }]) => {
                Err(CompileError::new("final node in a modifyset location cannot be a keyed list"))
            }
            (MutatorKind::AssignImage, [.., Node::List { .. }]) => {
                Err(CompileError::new(format!("{kind} {name} cannot mutate list-type fields")))
            }
            (_, []) => Err(CompileError::new("empty path")),
            (MutatorKind::Assign | MutatorKind::AssignImage, nodes) if changes_key(nodes) => {
                Err(CompileError::new("invalid path format: changing the item key is not allowed"))
            }
            _ => Ok(location),
        }
    }

    fn assign(&self, location: &Location) -> Result<Action, CompileError> {
        let from = self.value_source()?;
        if let [.., Node::List { key, elements }] = location.nodes() {
            match &from {
                AssignFrom::Value(constant) => {
                    self.check_element(&constant.value, key, elements)?;
                }
                AssignFrom::External(_) => {
                    return Err(CompileError::new(
                        "cannot assign external data response to a list",
                    ));
                }
                AssignFrom::Metadata(_) => {
                    return Err(CompileError::new("cannot assign a metadata field to a list"));
                }
            }
        }
        let condition = self.mutator.spec.parameters.assign_if.clone().unwrap_or_default();
        let one_of = condition.one_of.unwrap_or_default();
        let none_of = condition.none_of.unwrap_or_default();
        if !one_of.is_empty() || !none_of.is_empty() {
            if matches!(from, AssignFrom::External(_)) {
                return Err(CompileError::new(
                    "assignIf is not supported together with externalData",
                ));
            }
            if matches!(location.nodes(), [.., Node::List { .. }]) {
                return Err(CompileError::new("assignIf is not supported for list elements"));
            }
        }
        Ok(Action::Assign { from, one_of, none_of })
    }

    fn assign_metadata(&self, _location: &Location) -> Result<Action, CompileError> {
        let from = self.value_source()?;
        let name = &self.name;
        match &from {
            AssignFrom::External(external) if external.source != DataSource::Username => {
                return Err(CompileError::new(format!(
                    "only username data source is supported for assignmetadata {name}"
                )));
            }
            AssignFrom::Value(constant) if constant.value.as_str().is_none() => {
                return Err(CompileError::new(format!(
                    "spec.parameters.assign.value field must be a string for AssignMetadata {}",
                    gofmt::quote(name)
                ))
                .of("spec.parameters.assign.value"));
            }
            _ => {}
        }
        Ok(Action::Assign { from, one_of: Vec::new(), none_of: Vec::new() })
    }

    fn modify_set(&self, _location: &Location) -> Result<Action, CompileError> {
        let parameters = &self.mutator.spec.parameters;
        let values = parameters.values.from_list.clone();
        match (parameters.operation.as_str(), values) {
            ("" | "merge" | "prune", None) => Ok(Action::Nothing),
            ("" | "merge", Some(values)) => Ok(Action::Merge(Constants::new(values))),
            ("prune", Some(values)) => Ok(Action::Prune(Constants::new(values))),
            (other, _) => {
                Err(CompileError::new(format!("unrecognized operation for modifyset: {other}"))
                    .of("spec.parameters.operation"))
            }
        }
    }

    fn assign_image(&self, _location: &Location) -> Result<Action, CompileError> {
        ImageParts::compile(&self.mutator.spec.parameters).map(Action::Image).map_err(|reason| {
            CompileError::new(format!("assignImage {} has invalid parameters: {reason}", self.name))
        })
    }

    fn value_source(&self) -> Result<AssignFrom, CompileError> {
        let assign = &self.mutator.spec.parameters.assign;
        let value = assign.value.as_ref().filter(|value| !value.is_null());
        match (value, &assign.from_metadata, &assign.external_data) {
            (None, None, None) => Err(CompileError::new(
                "assign must set one of `externalData`, `value` or `fromMetadata`: invalid assign \
                 field",
            )),
            (Some(value), None, None) => Ok(AssignFrom::Value(Constant::new(value.clone()))),
            (None, Some(metadata), None) => match metadata.field.as_str() {
                "name" => Ok(AssignFrom::Metadata("name")),
                "namespace" => Ok(AssignFrom::Metadata("namespace")),
                other => Err(CompileError::new(format!(
                    "field {other} is not recognized: invalid fromMetadata field"
                ))
                .of("spec.parameters.assign.fromMetadata.field")),
            },
            (None, None, Some(_)) if !self.options.external_data => {
                Err(CompileError::new("external data feature flag is not enabled"))
            }
            (None, None, Some(external)) => External::compile(external).map(AssignFrom::External),
            _ => Err(CompileError::new(
                "assign must only set one of `externalData`, `value` or `fromMetadata`: invalid \
                 assign field",
            )),
        }
    }

    /// An element put into a keyed list has to have the key the location names.
    fn check_element(
        &self,
        value: &Value,
        key: &Str,
        elements: &Elements,
    ) -> Result<(), CompileError> {
        if *elements == Elements::All {
            return Err(CompileError::new("can't append to a globbed list"));
        }
        let Value::Object(members) = value else {
            return Err(CompileError::new(format!(
                "invalid value: `{}`, only objects can be added to keyed lists",
                gofmt::text(value)
            )));
        };
        match members.get(key) {
            Some(own) if elements.include(own) => Ok(()),
            own => Err(CompileError::new(format!(
                "adding object to list with different key {key}: list key {}, object key {}",
                elements.value().map(|value| gofmt::text(&value).into_owned()).unwrap_or_default(),
                gofmt::text(own.unwrap_or(&Value::Null))
            ))),
        }
    }

    fn apply_to(&self) -> Result<Vec<ApplyTo>, CompileError> {
        let mutator = format!("{} mutator {}", self.kind.as_str(), self.name);
        let entries = self.mutator.spec.apply_to.clone().unwrap_or_default();
        let missing = |list: &Option<Vec<Str>>| list.as_ref().is_none_or(Vec::is_empty);
        if entries.iter().any(|entry| {
            missing(&entry.groups) || missing(&entry.versions) || missing(&entry.kinds)
        }) {
            return Err(CompileError::new(format!(
                "invalid applyTo for {mutator}, all of group, version and kind must be specified"
            )));
        }
        let complaints = operation_complaints(&entries);
        if !complaints.is_empty() {
            return Err(CompileError::new(format!(
                "invalid applyTo for {mutator}: {}",
                complaints.join("; ")
            )));
        }
        if entries.is_empty() {
            return Err(CompileError::new(format!("applyTo required for {mutator}")));
        }
        let kinds = entries.iter().fold(0_usize, |sum, entry| {
            let length = |list: &Option<Vec<Str>>| list.as_ref().map_or(0, Vec::len);
            let product = length(&entry.groups)
                .saturating_mul(length(&entry.versions))
                .saturating_mul(length(&entry.kinds));
            sum.saturating_add(product)
        });
        if kinds > MAX_KINDS {
            return Err(CompileError::new(format!(
                "invalid applyTo for {mutator}, it names {kinds} kinds, at most {MAX_KINDS} are \
                 allowed"
            )));
        }
        Ok(entries)
    }

    /// The match block with the older spellings of `source` folded in (1.10).
    fn matching(&self) -> Result<(modgate_api::matching::Match, Vec<String>), CompileError> {
        let mut matching = self.mutator.spec.matching.clone();
        let spellings = [
            ("match.source", matching.source.clone()),
            ("match.origin", matching.origin.clone()),
            ("source", self.mutator.spec.source.clone()),
        ];
        let set: Vec<(&str, Str)> = spellings
            .into_iter()
            .filter_map(|(field, value)| value.filter(|text| !text.is_empty()).map(|v| (field, v)))
            .collect();
        let Some((_, first)) = set.first() else { return Ok((matching, Vec::new())) };
        if set.iter().any(|(_, value)| value != first) {
            return Err(CompileError::new("conflicting source fields"));
        }
        let warnings = set
            .iter()
            .filter(|(field, _)| *field != "match.source")
            .map(|(field, _)| format!("spec.{field} is deprecated; use spec.match.source"))
            .collect();
        matching.source = Some(first.clone());
        Ok((matching, warnings))
    }
}

/// Whether the last step is the key field of the list element before it.
fn changes_key(nodes: &[Node]) -> bool {
    matches!(nodes, [.., Node::List { key, .. }, Node::Field(field)] if key == field)
}

/// The errors of the operations of `applyTo`, entry by entry.
pub(super) fn operation_complaints(entries: &[ApplyTo]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let operations = entry.operations.as_deref().unwrap_or_default();
        for (at, operation) in operations.iter().enumerate() {
            let shown = gofmt::quote(operation);
            if operations.iter().take(at).any(|earlier| earlier == operation) {
                complaints
                    .push(format!("duplicate operation {shown} in applyTo[{index}].operations"));
            }
            if !["CREATE", "UPDATE", "*"].contains(&operation.as_str()) {
                complaints.push(format!(
                    "invalid operation {shown} in applyTo[{index}].operations: must be one of \
                     CREATE, UPDATE, *"
                ));
            }
        }
        if operations.len() > 1 && operations.iter().any(|operation| operation == "*") {
            complaints.push(format!(
                "wildcard \"*\" in applyTo[{index}].operations must not be combined with other \
                 operations"
            ));
        }
    }
    complaints
}
