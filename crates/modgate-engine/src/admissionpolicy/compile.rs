//! Policies and bindings, compiled once.

use std::collections::BTreeSet;

use modgate_api::{
    admissionregistration::{BindingSpec, MatchResources, ParamKind, ParamRef, PolicySpec},
    templates::FailurePolicy,
};
use modgate_cel::{CompileError, Env, Program, Type, Variables};
use modgate_value::{DecodeError, Str, Value};

use super::{Reason, ResourceMatcher, ValidationAction};
use crate::{constraint::Expression, matching::Selector};

/// Something that is wrong with a policy or binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field, such as `spec.validations[0].expression`.
    pub field: String,
    /// The text of the field and the place in it, for an expression.
    pub expression: Option<(Str, Option<modgate_value::diag::Span>)>,
    /// What is wrong.
    pub message: String,
}

impl PolicyProblem {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), expression: None, message: message.into() }
    }
}

/// Why a policy or binding cannot be used; the API server would not store it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A member has the wrong type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It is not valid; all that is wrong with it.
    #[error("{}", describe(.0))]
    Invalid(Vec<PolicyProblem>),
}

fn describe(problems: &[PolicyProblem]) -> String {
    let lines: Vec<_> =
        problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    lines.join("; ")
}

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct CompiledPolicy {
    pub(super) name: Str,
    pub(super) matcher: ResourceMatcher,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) variables: Variables,
    pub(super) conditions: Vec<Expression>,
    pub(super) validations: Vec<Validation>,
    pub(super) audit_annotations: Vec<AuditAnnotation>,
}

#[derive(Debug)]
pub(super) struct Validation {
    pub(super) expression: Expression,
    /// Without white space around it.
    pub(super) message: Str,
    pub(super) message_expression: Option<Expression>,
    pub(super) reason: Reason,
}

#[derive(Debug)]
pub(super) struct AuditAnnotation {
    pub(super) key: Str,
    pub(super) value: Expression,
}

/// A compiled ValidatingAdmissionPolicyBinding.
#[derive(Debug)]
pub struct CompiledBinding {
    pub(super) name: Str,
    pub(super) policy: Str,
    /// `None` applies to everything that the policy applies to.
    pub(super) matcher: Option<ResourceMatcher>,
    pub(super) param_ref: Option<CompiledParamRef>,
    pub(super) actions: Vec<ValidationAction>,
}

#[derive(Debug)]
pub(super) struct CompiledParamRef {
    pub(super) wire: ParamRef,
    pub(super) selector: Option<Selector>,
    pub(super) deny_if_missing: bool,
}

fn name_of(object: &Value) -> Str {
    object.path(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().into()
}

/// Collects what is wrong while a policy is compiled.
#[derive(Default)]
struct Problems(Vec<PolicyProblem>);

impl Problems {
    fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.0.push(PolicyProblem::new(field, message));
    }

    fn required(&mut self, field: impl Into<String>) {
        self.add(field, "Required value");
    }

    fn finish<T>(self, compiled: Option<T>) -> Result<T, PolicyError> {
        match compiled {
            Some(compiled) if self.0.is_empty() => Ok(compiled),
            _ => Err(PolicyError::Invalid(self.0)),
        }
    }

    fn matcher(&mut self, field: &str, wire: &MatchResources) -> Option<ResourceMatcher> {
        if let Some(policy) = &wire.match_policy
            && !["Exact", "Equivalent"].contains(&policy.as_str())
        {
            self.unsupported(format!("{field}.matchPolicy"), policy, &["Equivalent", "Exact"]);
        }
        for (list, rules) in [
            ("resourceRules", &wire.resource_rules),
            ("excludeResourceRules", &wire.exclude_resource_rules),
        ] {
            for (index, rule) in rules.iter().flatten().enumerate() {
                for (member, values) in [
                    ("operations", &rule.operations),
                    ("apiGroups", &rule.api_groups),
                    ("apiVersions", &rule.api_versions),
                    ("resources", &rule.resources),
                ] {
                    if values.as_deref().unwrap_or_default().is_empty() {
                        self.required(format!("{field}.{list}[{index}].{member}"));
                    }
                }
                const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
                for (position, operation) in rule.operations.iter().flatten().enumerate() {
                    if !OPERATIONS.contains(&operation.as_str()) {
                        let field = format!("{field}.{list}[{index}].operations[{position}]");
                        self.unsupported(field, operation, &OPERATIONS);
                    }
                }
                const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
                if let Some(scope) = &rule.scope
                    && !SCOPES.contains(&scope.as_str())
                {
                    self.unsupported(format!("{field}.{list}[{index}].scope"), scope, &SCOPES);
                }
            }
        }
        match ResourceMatcher::compile(wire) {
            Ok(matcher) => Some(matcher),
            Err((member, error)) => {
                self.add(format!("{field}.{member}"), error.to_string());
                None
            }
        }
    }

    fn unsupported(&mut self, field: impl Into<String>, value: &str, known: &[&str]) {
        let known: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        let message =
            format!("Unsupported value: \"{value}\": supported values: {}", known.join(", "));
        self.add(field, message);
    }

    fn expression(
        &mut self,
        field: String,
        text: &Str,
        wanted: &[Type],
        environment: &Env,
    ) -> Expression {
        if text.trim().is_empty() {
            self.required(&field);
        }
        let program = Program::compile(text, environment).and_then(|program| {
            if wanted.contains(program.ty()) {
                return Ok(program);
            }
            let (wanted, found) =
                (wanted.first().cloned().unwrap_or(Type::Dyn), program.ty().clone());
            Err(CompileError::Result { wanted, found })
        });
        match &program {
            Err(CompileError::Result { found, .. }) if wanted.len() > 1 => {
                self.add(field, format!("must evaluate to string or null but got {found}"));
            }
            Err(error) if !text.trim().is_empty() => self.failed(field, text, error),
            _ => {}
        }
        Expression::new(text.clone(), program)
    }

    fn failed(&mut self, field: String, text: &Str, error: &CompileError) {
        let span = match error {
            CompileError::Check(errors) => errors.issues.first().map(|issue| issue.span),
            _ => None,
        };
        self.0.push(PolicyProblem {
            field,
            expression: Some((text.clone(), span)),
            message: error.to_string(),
        });
    }
}

impl CompiledPolicy {
    /// Compiles a policy; every expression must compile, as when the API server stores it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn compile(object: &Value) -> Result<Self, PolicyError> {
        let spec = PolicySpec::from_value(object)?;
        let mut problems = Problems::default();
        let failure_policy = spec.failure_policy().unwrap_or_else(|text| {
            problems.unsupported("spec.failurePolicy", &text, &["Fail", "Ignore"]);
            FailurePolicy::Fail
        });
        let matcher = match &spec.match_constraints {
            None => {
                problems.required("spec.matchConstraints");
                None
            }
            Some(wire) => {
                if wire.resource_rules.as_deref().unwrap_or_default().is_empty() {
                    problems.required("spec.matchConstraints.resourceRules");
                }
                problems.matcher("spec.matchConstraints", wire)
            }
        };
        if let Some(kind) = &spec.param_kind {
            for (member, text) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
                if text.is_empty() {
                    problems.required(format!("spec.paramKind.{member}"));
                }
            }
        }
        let environment = environment(spec.param_kind.is_some());
        let conditions = conditions(&spec, &environment, &mut problems);
        let variables = variables(&spec, &environment, &mut problems);
        let environment = variables.declare(&environment);
        let validations = validations(&spec, &environment, &mut problems);
        let audit_annotations = audit_annotations(&spec, &environment, &mut problems);
        let nothing = validations.is_empty() && audit_annotations.is_empty();
        if nothing {
            for list in ["validations", "auditAnnotations"] {
                problems.add(
                    format!("spec.{list}"),
                    "Required value: validations or auditAnnotations must contain at least one item",
                );
            }
        }
        problems.finish(matcher.map(|matcher| Self {
            name: name_of(object),
            matcher,
            param_kind: spec.param_kind,
            failure_policy,
            variables,
            conditions,
            validations,
            audit_annotations,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &Str {
        &self.name
    }
}

/// `object`, `oldObject`, `request`, `namespaceObject` and, with a `paramKind`, `params`.
fn environment(params: bool) -> Env {
    let environment = crate::constraint::cel_environment();
    if params { environment.with("params", Type::Dyn) } else { environment }
}

fn conditions(spec: &PolicySpec, environment: &Env, problems: &mut Problems) -> Vec<Expression> {
    let mut names = BTreeSet::new();
    let conditions = spec.match_conditions.iter().flatten().enumerate();
    conditions
        .map(|(index, condition)| {
            let field = |member| format!("spec.matchConditions[{index}].{member}");
            if condition.name.is_empty() {
                problems.required(field("name"));
            } else if !names.insert(condition.name.clone()) {
                let message = format!("Duplicate value: \"{}\"", condition.name);
                problems.add(field("name"), message);
            }
            problems.expression(
                field("expression"),
                &condition.expression,
                &[Type::BOOL],
                environment,
            )
        })
        .collect()
}

fn variables(spec: &PolicySpec, environment: &Env, problems: &mut Problems) -> Variables {
    let mut variables = Variables::new();
    for (index, variable) in spec.variables.iter().flatten().enumerate() {
        if variable.name.trim().is_empty() {
            problems.required(format!("spec.variables[{index}].name"));
        }
        if let Err(error) = variables.add(&variable.name, &variable.expression, environment) {
            let field = format!("spec.variables[{index}].expression");
            problems.failed(field, &variable.expression, &error);
        }
    }
    variables
}

fn validations(spec: &PolicySpec, environment: &Env, problems: &mut Problems) -> Vec<Validation> {
    let validations = spec.validations.iter().flatten().enumerate();
    validations
        .map(|(index, validation)| {
            let field = |member| format!("spec.validations[{index}].{member}");
            let message = validation.message.trim();
            if message.is_empty() && !validation.message.is_empty() {
                problems.add(field("message"), "must be non-empty if specified");
            } else if message.contains(['\n', '\r']) {
                problems.add(field("message"), "must not contain line breaks");
            }
            let reason = validation.reason.as_ref().map_or(Reason::Invalid, |text| {
                text.parse().unwrap_or_else(|()| {
                    problems.unsupported(field("reason"), text, &Reason::ALL.map(Reason::as_str));
                    Reason::Invalid
                })
            });
            Validation {
                expression: problems.expression(
                    field("expression"),
                    &validation.expression,
                    &[Type::BOOL],
                    environment,
                ),
                message: message.into(),
                message_expression: (!validation.message_expression.is_empty()).then(|| {
                    problems.expression(
                        field("messageExpression"),
                        &validation.message_expression,
                        &[Type::STRING],
                        environment,
                    )
                }),
                reason,
            }
        })
        .collect()
}

fn audit_annotations(
    spec: &PolicySpec,
    environment: &Env,
    problems: &mut Problems,
) -> Vec<AuditAnnotation> {
    let mut keys = BTreeSet::new();
    let annotations = spec.audit_annotations.iter().flatten().enumerate();
    annotations
        .map(|(index, annotation)| {
            let field = |member| format!("spec.auditAnnotations[{index}].{member}");
            if !keys.insert(annotation.key.clone()) {
                let message = format!("Duplicate value: \"{}\"", annotation.key);
                problems.add(field("key"), message);
            }
            let value = problems.expression(
                field("valueExpression"),
                &annotation.value_expression,
                &[Type::STRING, Type::Null],
                environment,
            );
            AuditAnnotation { key: annotation.key.clone(), value }
        })
        .collect()
}

impl CompiledBinding {
    /// Compiles a binding.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn compile(object: &Value) -> Result<Self, PolicyError> {
        let spec = BindingSpec::from_value(object)?;
        let mut problems = Problems::default();
        if spec.policy_name.is_empty() {
            problems.required("spec.policyName");
        }
        let matcher = match &spec.match_resources {
            None => Some(None),
            Some(wire) => problems.matcher("spec.matchResources", wire).map(Some),
        };
        let param_ref = spec.param_ref.map(|wire| problems.param_ref(wire));
        let actions = problems.actions(spec.validation_actions.as_deref().unwrap_or_default());
        problems.finish(matcher.map(|matcher| Self {
            name: name_of(object),
            policy: spec.policy_name,
            matcher,
            param_ref,
            actions,
        }))
    }

    /// Its name.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The name of its policy.
    pub fn policy(&self) -> &Str {
        &self.policy
    }
}

impl Problems {
    fn param_ref(&mut self, wire: ParamRef) -> CompiledParamRef {
        let field = "spec.paramRef";
        match (&wire.name, &wire.selector) {
            (name, Some(_)) if !name.is_empty() => {
                self.add(field, "name and selector are mutually exclusive");
            }
            (name, None) if name.is_empty() => {
                self.add(field, "Required value: one of name or selector must be specified");
            }
            _ => {}
        }
        let selector = wire.selector.as_ref().and_then(|selector| {
            Selector::compile(selector)
                .map_err(|error| self.add(format!("{field}.selector"), error.to_string()))
                .ok()
        });
        let deny_if_missing = match wire.parameter_not_found_action.as_deref() {
            Some("Deny") => true,
            Some("Allow") => false,
            None => {
                self.required(format!("{field}.parameterNotFoundAction"));
                true
            }
            Some(other) => {
                self.unsupported(
                    format!("{field}.parameterNotFoundAction"),
                    other,
                    &["Allow", "Deny"],
                );
                true
            }
        };
        CompiledParamRef { wire, selector, deny_if_missing }
    }

    fn actions(&mut self, names: &[Str]) -> Vec<ValidationAction> {
        let field = "spec.validationActions";
        if names.is_empty() {
            self.add(field, "Required value: at least one validation action is required");
        }
        let mut actions = Vec::new();
        for (index, name) in names.iter().enumerate() {
            match name.parse() {
                Err(()) => {
                    let known = ValidationAction::ALL.map(ValidationAction::as_str);
                    self.unsupported(format!("{field}[{index}]"), name, &known);
                }
                Ok(action) if actions.contains(&action) => {
                    self.add(format!("{field}[{index}]"), format!("Duplicate value: \"{name}\""));
                }
                Ok(action) => actions.push(action),
            }
        }
        if actions.contains(&ValidationAction::Deny) && actions.contains(&ValidationAction::Warn) {
            self.add(field, "must not contain both Deny and Warn");
        }
        actions
    }
}
