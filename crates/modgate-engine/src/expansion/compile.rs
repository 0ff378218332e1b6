//! From the resource to a [`CompiledTemplate`] (1.12): the checks, in the original's order and with
//! its texts.

use modgate_api::{
    constraints::EnforcementAction,
    expansion::{ExpansionTemplate, GROUP, KIND},
    meta::{GroupVersionKind, split_api_version},
    mutations::ApplyTo,
};
use modgate_value::{DecodeError, Str, Value, gofmt};

use crate::{
    PolicyId, lint,
    mutation::{Refusal, check_name},
};

/// An expansion template that is ready to use. Holding one is the proof that it is valid.
#[derive(Debug, Clone)]
pub struct CompiledTemplate {
    name: Str,
    apply_to: Vec<ApplyTo>,
    pub(super) source: Source,
    generated: GroupVersionKind,
    action: Option<EnforcementAction>,
}

/// Where in a generator the resultant stands.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// As written.
    pub(super) text: Str,
    pub(super) path: Vec<Str>,
}

/// The longest name a template may have.
const MAX_NAME: usize = 63;

/// The longest source path a template may have, in fields.
const MAX_FIELDS: usize = 256;

/// The actions a template may ask for, in the order in which messages list them.
const ACTIONS: [EnforcementAction; 3] =
    [EnforcementAction::Deny, EnforcementAction::Dryrun, EnforcementAction::Warn];

/// Why a template is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A member has the wrong type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It has no name.
    #[error("ExpansionTemplate has empty name field")]
    NoName,
    /// Its name is too long.
    #[error("ExpansionTemplate name must be less than 64 characters")]
    LongName,
    /// It does not say where the resultant stands.
    #[error("ExpansionTemplate {0} has empty source field")]
    NoSource(Str),
    /// It does not name the kind of the resultant.
    #[error("ExpansionTemplate {0} has empty generatedGVK field")]
    NoGenerated(Str),
    /// It does not name the kinds that it expands.
    #[error("ExpansionTemplate {0} must specify ApplyTo")]
    NoApplyTo(Str),
    /// It expands what it makes.
    #[error(
        "ExpansionTemplate {name} generates GVK {}, but also applies to that same GVK",
        gvk(.generated)
    )]
    Loop {
        /// The template.
        name: Str,
        /// The kind of its resultants.
        generated: GroupVersionKind,
    },
    /// Its action is none (`fix-expansion-action`).
    #[error(
        "unrecognized enforcementAction: {} is not within the supported list [{}]",
        gofmt::quote(.0),
        ACTIONS.map(EnforcementAction::as_str).join(" ")
    )]
    Action(Str),
    /// Its source path is too long.
    #[error("templateSource has {0} fields, at most {MAX_FIELDS} are allowed")]
    LongSource(usize),
}

impl CompileError {
    /// The field at fault, as Kubernetes writes paths.
    pub fn field(&self) -> &str {
        match self {
            Self::Decode(error) => &error.path,
            Self::NoName | Self::LongName => "metadata.name",
            Self::NoSource(_) | Self::LongSource(_) => "spec.templateSource",
            Self::NoGenerated(_) | Self::Loop { .. } => "spec.generatedGVK",
            Self::NoApplyTo(_) => "spec.applyTo",
            Self::Action(_) => "spec.enforcementAction",
        }
    }

    /// Advice for the template's author.
    pub fn help(&self) -> Option<String> {
        let Self::Action(action) = self else { return None };
        let known = ACTIONS.map(EnforcementAction::as_str);
        Some(match lint::action(action, &known) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the actions are: {}", known.join(", ")),
        })
    }
}

/// A kind as `schema.GroupVersionKind` prints.
fn gvk(kind: &GroupVersionKind) -> String {
    format!("{}/{}, Kind={}", kind.group, kind.version, kind.kind)
}

impl CompiledTemplate {
    /// Compiles the resource, of any version.
    ///
    /// # Errors
    ///
    /// The first check that fails.
    pub fn compile(resource: &Value) -> Result<Self, CompileError> {
        let ExpansionTemplate { metadata, spec } = ExpansionTemplate::from_value(resource)?;
        let name = metadata.name;
        if name.is_empty() {
            return Err(CompileError::NoName);
        }
        if name.len() > MAX_NAME {
            return Err(CompileError::LongName);
        }
        if spec.template_source.is_empty() {
            return Err(CompileError::NoSource(name));
        }
        let generated = spec.generated_gvk;
        if generated == GroupVersionKind::default() {
            return Err(CompileError::NoGenerated(name));
        }
        let apply_to = spec.apply_to.unwrap_or_default();
        if apply_to.is_empty() {
            return Err(CompileError::NoApplyTo(name));
        }
        if apply_to.iter().any(|entry| entry.names(&generated)) {
            return Err(CompileError::Loop { name, generated });
        }
        let action = match spec.enforcement_action.as_str() {
            "" => None,
            text => match text.parse().ok().filter(|action| ACTIONS.contains(action)) {
                Some(action) => Some(action),
                None => return Err(CompileError::Action(spec.enforcement_action)),
            },
        };
        let path: Vec<Str> = spec.template_source.split('.').map(Str::from).collect();
        if path.len() > MAX_FIELDS {
            return Err(CompileError::LongSource(path.len()));
        }
        let source = Source { text: spec.template_source, path };
        Ok(Self { name, apply_to, source, generated, action })
    }

    /// Its name, which identifies it.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// Its id.
    pub fn id(&self) -> PolicyId {
        PolicyId {
            group: GROUP.into(),
            kind: KIND.into(),
            namespace: Str::default(),
            name: self.name.clone(),
        }
    }

    /// The form of its resultants.
    pub fn generated(&self) -> &GroupVersionKind {
        &self.generated
    }

    /// The action for violations of its resultants; `None` leaves it to the constraint (5.5).
    pub fn action(&self) -> Option<EnforcementAction> {
        self.action
    }

    /// Whether it expands objects of this kind.
    pub(crate) fn applies_to(&self, kind: &GroupVersionKind) -> bool {
        self.apply_to.iter().any(|entry| entry.names(kind))
    }

    /// The names of the kinds it can expand.
    pub(super) fn kind_names(&self) -> impl Iterator<Item = &Str> {
        self.apply_to.iter().flat_map(|entry| entry.kinds.iter().flatten())
    }
}

/// Checks a template as the validating webhook does (1.13).
///
/// # Errors
///
/// When the name is too long, the version is unknown, or it does not compile.
pub fn validate(resource: &Value) -> Result<(), Refusal> {
    check_name(resource)?;
    let text = |key| resource.get(key).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let (group, version) = split_api_version(api_version);
    if text("kind") != KIND || group != GROUP || !["v1alpha1", "v1beta1"].contains(&version) {
        return Err(Refusal::failed(format!(
            "no kind \"{}\" is registered for version \"{api_version}\" in scheme \"{GROUP}\"",
            text("kind")
        )));
    }
    match CompiledTemplate::compile(resource) {
        Ok(_) => Ok(()),
        Err(error @ CompileError::Decode(_)) => Err(Refusal::failed(error)),
        Err(error) => Err(Refusal::invalid(error)),
    }
}
