//! Templates, constraints and referential data, and reviews by them (7.4, 7.6).

use std::{collections::BTreeMap, sync::Arc};

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    constraints::{self, EnforcementAction},
    meta::GroupVersionKind,
    templates::{self, FailurePolicy},
};
use modgate_engine::{
    EngineConfig, PolicySource, Snapshot,
    constraint::{
        CompiledConstraint, CompiledTemplate, ConstraintKey, ConstraintOptions, Inserted,
        Inventory, InventoryError, Store, TemplateError, TemplateOptions, Violation,
    },
    expansion::ExpansionSystem,
    mutation::MutationSystem,
};
use modgate_value::{Limits, Object, Value};

use crate::{
    VerbFailure,
    args::CelArgs,
    object::kind_text,
    outside::{OBJECT, POLICY},
};

/// gator does not check actions of constraints: an unknown one has no effect (7.4).
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

/// Options for compiling templates.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) templates: TemplateOptions,
}

impl Settings {
    /// From the flags about CEL, and whether the output of `print` is shown.
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

    /// The same, and policies count what evaluations reach.
    pub(crate) fn observed(mut self, observed: bool) -> Self {
        self.templates.observed = observed;
        self
    }

    /// The usual ones.
    pub(crate) fn offline() -> Self {
        // There are no providers.
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

/// Constraints, their templates, and referential data.
#[derive(Debug, Clone, Default)]
pub(crate) struct Policies {
    pub(crate) store: Store,
    pub(crate) inventory: Inventory,
    /// The constraints as results show them.
    shown: BTreeMap<ConstraintKey, Value>,
}

/// Settings of gator's snapshots.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        mutation_limits: OBJECT,
        expansion_limits: OBJECT,
        review_limits: Limits::UNLIMITED,
        constraint_limits: POLICY,
        ..EngineConfig::default()
    }
}

impl Policies {
    /// Loads templates, then constraints, then every object as referential data.
    pub(crate) fn load<'o>(
        objects: impl Iterator<Item = &'o Value> + Clone,
        settings: &Settings,
    ) -> Result<Self, String> {
        let mut policies = Self::default();
        for object in objects.clone().filter(|object| is_template(object)) {
            let name = modgate_value::gofmt::quote(object.name());
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
                let name = modgate_value::gofmt::quote(object.name());
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
            false => Err(InventoryError::NoVersion { name: object.name().to_owned() }),
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
    pub(crate) fn shown(&self, violation: &Violation) -> Value {
        let key =
            ConstraintKey { kind: violation.kind.clone(), name: violation.constraint.clone() };
        self.shown.get(&key).cloned().unwrap_or_default()
    }

    /// Has results show a policy that is no constraint.
    pub(crate) fn show(&mut self, key: ConstraintKey, policy: Value) {
        self.shown.insert(key, policy);
    }

    /// The snapshot of these constraints with mutators and expansion templates.
    pub(crate) fn snapshot(
        &self,
        mutators: MutationSystem,
        expansions: ExpansionSystem,
    ) -> Snapshot {
        Snapshot::new(config()).with_compiled(self.store.clone(), mutators, expansions)
    }
}

fn is_namespace(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    kind.group.is_empty() && kind.kind == "Namespace"
}

/// Whether there is a name of any type.
fn has_name(object: &Value) -> bool {
    object.path(&["metadata", "name"]).is_some_and(|name| !name.is_null())
}

/// Whether an `apiVersion` has a version: `v1`, `apps/v1`, but neither `v1/` nor `a/b/c`.
fn has_version(api_version: &str) -> bool {
    let (_, version) = api_version.split_once('/').unwrap_or(("", api_version));
    !version.is_empty() && !version.contains('/')
}

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

impl From<String> for VerbFailure {
    fn from(text: String) -> Self {
        Self::plain(text)
    }
}
