//! Policies and bindings, compiled once.

mod valid;

use std::collections::BTreeSet;

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    admissionregistration::{
        self as wire, BindingSpec, MatchResources, MutatingPolicySpec, NamedExpression, ParamKind,
        ParamRef, PolicySpec,
    },
    templates::FailurePolicy,
};
use modgate_cel::{CompileError, Env, Program, Release, Type, Variables};
use modgate_value::{DecodeError, Str, Value, near};

use super::{Reason, ResourceMatcher, ValidationAction};
use crate::{
    constraint::{Expression, advice_about_policy},
    cost::Usage,
    matching::Selector,
};

/// Something that is wrong with a policy or binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The field, such as `spec.validations[0].expression`.
    pub field: String,
    /// The text of the field and the place in it, for an expression.
    pub expression: Option<(Str, Option<modgate_value::diag::Span>)>,
    /// The error.
    pub message: String,
    /// Advice for its author.
    pub help: Option<String>,
}

impl PolicyProblem {
    fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), expression: None, message: message.into(), help: None }
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

/// The compiled policy, if it has no error.
fn strict<T>((compiled, problems): (T, Vec<PolicyProblem>)) -> Result<T, PolicyError> {
    if problems.is_empty() { Ok(compiled) } else { Err(PolicyError::Invalid(problems)) }
}

fn describe(problems: &[PolicyProblem]) -> String {
    let lines: Vec<_> =
        problems.iter().map(|problem| format!("{}: {}", problem.field, problem.message)).collect();
    lines.join("; ")
}

/// The common members of both kinds of policies.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) name: Str,
    pub(super) matcher: ResourceMatcher,
    pub(super) param_kind: Option<ParamKind>,
    pub(super) failure_policy: FailurePolicy,
    pub(super) variables: Variables,
    pub(super) conditions: Vec<Expression>,
    /// Its cost.
    pub(super) usage: Usage,
    /// Whether it counts what evaluations reach.
    pub(super) observed: bool,
}

/// A compiled ValidatingAdmissionPolicy.
#[derive(Debug)]
pub struct CompiledPolicy {
    pub(super) base: Base,
    pub(super) validations: Vec<Validation>,
    pub(super) audit_annotations: Vec<AuditAnnotation>,
}

/// A compiled MutatingAdmissionPolicy.
#[derive(Debug)]
pub struct CompiledMutatingPolicy {
    pub(super) base: Base,
    pub(super) mutations: Vec<Mutation>,
    /// Whether it is evaluated once more after the object was changed.
    pub(super) reinvoked: bool,
}

#[derive(Debug)]
pub(super) struct Mutation {
    pub(super) expression: Expression,
    pub(super) patch: PatchType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

impl PatchType {
    /// Its name in `patchType`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ApplyConfiguration => "ApplyConfiguration",
            Self::JsonPatch => "JSONPatch",
        }
    }
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

/// A compiled binding of either kind.
#[derive(Debug)]
pub struct CompiledBinding {
    pub(super) name: Str,
    pub(super) policy: Str,
    /// Whether it names its policy as `NAME.modgate.sh`, where the API server finds none.
    pub(super) for_modgate: bool,
    /// `None` applies to everything that the policy applies to.
    pub(super) matcher: Option<ResourceMatcher>,
    pub(super) param_ref: Option<CompiledParamRef>,
    /// None for a binding of a policy that mutates.
    pub(super) actions: Vec<ValidationAction>,
}

/// The end of `spec.policyName` that leaves a policy to modgate's webhooks.
const FOR_MODGATE: &str = ".modgate.sh";

#[derive(Debug)]
pub(super) struct CompiledParamRef {
    pub(super) wire: ParamRef,
    pub(super) selector: Option<Selector>,
    pub(super) deny_if_missing: bool,
}

fn name_of(object: &Value) -> Str {
    object.name().into()
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
        let known = self.0.len();
        self.resources(field, wire);
        match ResourceMatcher::compile(wire) {
            Ok(matcher) => Some(matcher),
            // The same has been said, and where.
            Err(_) if self.0.len() > known => None,
            Err((member, error)) => {
                self.add(format!("{field}.{member}"), error.to_string());
                None
            }
        }
    }

    fn unsupported(&mut self, field: impl Into<String>, value: &str, known: &[&str]) {
        let quoted: Vec<_> = known.iter().map(|name| format!("\"{name}\"")).collect();
        let message =
            format!("Unsupported value: \"{value}\": supported values: {}", quoted.join(", "));
        self.add(field, message);
        if let Some(problem) = self.0.last_mut() {
            problem.help = near::did_you_mean(value, known.iter().copied());
        }
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
        let compile = |environment: &Env| {
            Program::compile(text, environment).and_then(|program| {
                if wanted.contains(program.ty()) {
                    return Ok(program);
                }
                let (wanted, found) =
                    (wanted.first().cloned().unwrap_or(Type::Dyn), program.ty().clone());
                Err(CompileError::Result { wanted, found })
            })
        };
        let program = compile(environment);
        match &program {
            Err(CompileError::Result { found, .. }) if wanted.len() > 1 => {
                self.add(field, format!("must evaluate to string or null but got {found}"));
            }
            Err(error) if !text.trim().is_empty() => self.failed(field, text, error),
            _ => {}
        }
        // For callers that use a policy the API server would not store.
        let program = program.or_else(|error| {
            compile(&environment.clone().with_mixed_literals()).map_err(|_| error)
        });
        Expression::new(text.clone(), program)
    }

    fn failed(&mut self, field: String, text: &Str, error: &CompileError) {
        let issue = match error {
            CompileError::Check(errors) => errors.issues.first(),
            _ => None,
        };
        self.0.push(PolicyProblem {
            help: advice_about_policy(text, error),
            field,
            expression: Some((text.clone(), issue.map(|issue| issue.span))),
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
        Self::compile_counting(object, false)
    }

    /// As [`compile`](Self::compile). An `observed` policy counts what evaluations reach
    /// ([`coverage`](Self::coverage)).
    pub(crate) fn compile_counting(object: &Value, observed: bool) -> Result<Self, PolicyError> {
        Self::compile_as_is(object, observed).and_then(strict)
    }

    /// As [`compile`](Self::compile), and what is wrong with it does not keep it from being used: an
    /// expression that does not compile is an error where it is evaluated. An `observed` policy counts what
    /// evaluations reach ([`coverage`](Self::coverage)).
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn compile_as_is(
        object: &Value,
        observed: bool,
    ) -> Result<(Self, Vec<PolicyProblem>), PolicyError> {
        let spec = PolicySpec::from_value(object)?;
        let mut problems = Problems::default();
        let validations = spec.validations.clone().unwrap_or_default();
        let annotations = spec.audit_annotations.clone().unwrap_or_default();
        let head = Head {
            failure_policy: spec.failure_policy,
            match_constraints: spec.match_constraints,
            param_kind: spec.param_kind,
            match_conditions: spec.match_conditions,
            variables: spec.variables,
            observed,
        };
        let with_params = head.param_kind.is_some();
        let (base, environment) = problems.base(object, head);
        problems.annotation_keys(&base.name, &annotations);
        let messages = environment_of(with_params, false).observed(observed);
        let messages = base.variables.declare(&messages);
        let validations = problems.validations(&validations, &environment, &messages);
        let audit_annotations = problems.audit_annotations(&annotations, &environment);
        if validations.is_empty() && audit_annotations.is_empty() {
            for list in ["validations", "auditAnnotations"] {
                problems.add(
                    format!("spec.{list}"),
                    "Required value: validations or auditAnnotations must contain at least one item",
                );
            }
        }
        Ok((Self { base, validations, audit_annotations }, problems.0))
    }

    /// Its name.
    pub fn name(&self) -> &Str {
        &self.base.name
    }
}

impl CompiledMutatingPolicy {
    /// Whether it changes objects by ApplyConfiguration.
    pub(super) fn configures(&self) -> bool {
        self.mutations.iter().any(|mutation| mutation.patch == PatchType::ApplyConfiguration)
    }

    /// Compiles a policy; every expression must compile, as when the API server stores it.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn compile(object: &Value) -> Result<Self, PolicyError> {
        Self::compile_counting(object, false)
    }

    /// As [`compile`](Self::compile). An `observed` policy counts what evaluations reach
    /// ([`coverage`](Self::coverage)).
    pub(crate) fn compile_counting(object: &Value, observed: bool) -> Result<Self, PolicyError> {
        Self::compile_as_is(object, observed).and_then(strict)
    }

    /// As [`compile`](Self::compile), and what is wrong with it does not keep it from being used: an
    /// expression that does not compile is an error where it is evaluated. An `observed` policy counts what
    /// evaluations reach ([`coverage`](Self::coverage)).
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn compile_as_is(
        object: &Value,
        observed: bool,
    ) -> Result<(Self, Vec<PolicyProblem>), PolicyError> {
        let spec = MutatingPolicySpec::from_value(object)?;
        let mut problems = Problems::default();
        let head = Head {
            failure_policy: spec.failure_policy,
            match_constraints: spec.match_constraints,
            param_kind: spec.param_kind,
            match_conditions: spec.match_conditions,
            variables: spec.variables,
            observed,
        };
        problems.operations("spec.matchConstraints", head.match_constraints.as_ref());
        let (base, environment) = problems.base(object, head);
        let mutations = spec.mutations.unwrap_or_default();
        if mutations.is_empty() {
            let message = "Required value: mutations must contain at least one item";
            problems.add("spec.mutations", message);
        }
        let mutations = problems.mutations(&mutations, &environment.with_patches());
        match spec.reinvocation_policy.as_str() {
            "Never" | "IfNeeded" => {}
            "" => problems.required("spec.reinvocationPolicy"),
            other => {
                problems.unsupported("spec.reinvocationPolicy", other, &["IfNeeded", "Never"]);
            }
        }
        let reinvoked = spec.reinvocation_policy == "IfNeeded";
        Ok((Self { base, mutations, reinvoked }, problems.0))
    }

    /// Its name.
    pub fn name(&self) -> &Str {
        &self.base.name
    }
}

/// The members of `spec` that policies of both kinds have.
struct Head {
    failure_policy: Option<Str>,
    match_constraints: Option<MatchResources>,
    param_kind: Option<ParamKind>,
    match_conditions: Option<Vec<NamedExpression>>,
    variables: Option<Vec<NamedExpression>>,
    /// Whether the policy counts what evaluations reach.
    observed: bool,
}

/// The names that expressions may use: `object`, `oldObject`, `request`, `namespaceObject`, with a
/// `paramKind` `params`, and outside of messages `authorizer`.
pub(super) fn environment_of(params: bool, authorizer: bool) -> Env {
    // The API server's own policies have the results of the API server.
    let mut environment = crate::constraint::cel_environment().with_release(Release::V0_26);
    if params {
        environment = environment.with("params", Type::Dyn);
    }
    if authorizer {
        let check = Type::Plain("kubernetes.authorization.ResourceCheck");
        environment = environment
            .with("authorizer", Type::Plain("kubernetes.authorization.Authorizer"))
            .with("authorizer.requestResource", check);
    }
    environment
}

impl Problems {
    fn base(&mut self, object: &Value, head: Head) -> (Base, Env) {
        self.metadata(object);
        let failure_policy = head.failure_policy.map_or(FailurePolicy::Fail, |text| {
            text.parse().unwrap_or_else(|_| {
                self.unsupported("spec.failurePolicy", &text, &["Fail", "Ignore"]);
                FailurePolicy::Fail
            })
        });
        let matcher = match &head.match_constraints {
            None => {
                self.required("spec.matchConstraints");
                None
            }
            Some(wire) => {
                if wire.resource_rules.as_deref().unwrap_or_default().is_empty() {
                    self.required("spec.matchConstraints.resourceRules");
                }
                self.matcher("spec.matchConstraints", wire)
            }
        };
        if let Some(kind) = &head.param_kind {
            for (member, text) in [("apiVersion", &kind.api_version), ("kind", &kind.kind)] {
                if text.is_empty() {
                    self.required(format!("spec.paramKind.{member}"));
                }
            }
            self.param_kind(kind);
        }
        let environment = environment_of(head.param_kind.is_some(), true).observed(head.observed);
        let conditions =
            self.conditions(head.match_conditions.as_deref().unwrap_or_default(), &environment);
        let variables = self.variables(head.variables.as_deref().unwrap_or_default(), &environment);
        let environment = variables.declare(&environment);
        let base = Base {
            name: name_of(object),
            // Without one there is a problem, and no policy.
            matcher: matcher.unwrap_or_default(),
            param_kind: head.param_kind,
            failure_policy,
            variables,
            conditions,
            usage: Usage::default(),
            observed: head.observed,
        };
        (base, environment)
    }

    /// Policies that mutate are not about DELETE. Those about everything skip it.
    fn operations(&mut self, field: &str, wire: Option<&MatchResources>) {
        let rules = wire.and_then(|wire| wire.resource_rules.as_deref()).unwrap_or_default();
        for operation in rules.iter().flat_map(|rule| rule.operations.iter().flatten()) {
            const OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
            if !OPERATIONS.contains(&operation.as_str()) {
                let field = format!("{field}.resourceRules.operations");
                self.unsupported(field, operation, &OPERATIONS);
            }
        }
    }

    fn conditions(&mut self, list: &[NamedExpression], environment: &Env) -> Vec<Expression> {
        self.condition_count(list.len());
        let mut names = BTreeSet::new();
        let mut conditions = Vec::with_capacity(list.len());
        for (index, condition) in list.iter().enumerate() {
            let field = |member| format!("spec.matchConditions[{index}].{member}");
            if condition.name.is_empty() {
                self.required(field("name"));
            } else if !names.insert(condition.name.clone()) {
                let message = format!("Duplicate value: \"{}\"", condition.name);
                self.add(field("name"), message);
            } else {
                self.condition_name(index, &condition.name);
            }
            let text = &condition.expression;
            conditions.push(self.expression(field("expression"), text, &[Type::BOOL], environment));
        }
        conditions
    }

    fn variables(&mut self, list: &[NamedExpression], environment: &Env) -> Variables {
        let mut variables = Variables::new();
        for (index, variable) in list.iter().enumerate() {
            self.variable_name(index, &variable.name);
            if let Err(error) = variables.add(&variable.name, &variable.expression, environment) {
                let field = format!("spec.variables[{index}].expression");
                self.failed(field, &variable.expression, &error);
            }
        }
        variables
    }

    fn validations(
        &mut self,
        list: &[wire::Validation],
        environment: &Env,
        messages: &Env,
    ) -> Vec<Validation> {
        let mut validations = Vec::with_capacity(list.len());
        for (index, validation) in list.iter().enumerate() {
            let field = |member| format!("spec.validations[{index}].{member}");
            let message = validation.message.trim();
            if message.is_empty() && !validation.message.is_empty() {
                self.add(field("message"), "must be non-empty if specified");
            } else if message.contains(['\n', '\r']) {
                self.add(field("message"), "must not contain line breaks");
            }
            let reason = validation.reason.as_ref().map_or(Reason::Invalid, |text| {
                text.parse().unwrap_or_else(|()| {
                    self.unsupported(field("reason"), text, &Reason::ALL.map(Reason::as_str));
                    Reason::Invalid
                })
            });
            let text = &validation.expression;
            let expression = self.expression(field("expression"), text, &[Type::BOOL], environment);
            let text = &validation.message_expression;
            let message_expression = (!text.is_empty()).then(|| {
                self.expression(field("messageExpression"), text, &[Type::STRING], messages)
            });
            let message = message.into();
            validations.push(Validation { expression, message, message_expression, reason });
        }
        validations
    }

    fn audit_annotations(
        &mut self,
        list: &[wire::AuditAnnotation],
        environment: &Env,
    ) -> Vec<AuditAnnotation> {
        let mut keys = BTreeSet::new();
        let mut annotations = Vec::with_capacity(list.len());
        for (index, annotation) in list.iter().enumerate() {
            let field = |member| format!("spec.auditAnnotations[{index}].{member}");
            if !keys.insert(annotation.key.clone()) {
                let message = format!("Duplicate value: \"{}\"", annotation.key);
                self.add(field("key"), message);
            }
            let (text, wanted) = (&annotation.value_expression, [Type::STRING, Type::Null]);
            let value = self.expression(field("valueExpression"), text, &wanted, environment);
            annotations.push(AuditAnnotation { key: annotation.key.clone(), value });
        }
        annotations
    }

    fn mutations(&mut self, list: &[wire::Mutation], environment: &Env) -> Vec<Mutation> {
        let mut mutations = Vec::with_capacity(list.len());
        for (index, mutation) in list.iter().enumerate() {
            let field = format!("spec.mutations[{index}]");
            let parts = [
                ("jsonPatch", &mutation.json_patch),
                ("applyConfiguration", &mutation.apply_configuration),
            ];
            let (patch, wanted, [own, other]) = match mutation.patch_type.as_str() {
                "JSONPatch" => (PatchType::JsonPatch, Type::list(Type::json_patch()), parts),
                "ApplyConfiguration" => {
                    let [json, apply] = parts;
                    (PatchType::ApplyConfiguration, Type::apply_configuration(), [apply, json])
                }
                "" => {
                    self.required(format!("{field}.patchType"));
                    continue;
                }
                unknown => {
                    let known = ["ApplyConfiguration", "JSONPatch"];
                    self.unsupported(format!("{field}.patchType"), unknown, &known);
                    continue;
                }
            };
            let name = &mutation.patch_type;
            if other.1.is_some() {
                let message = format!("must not be specified when patchType is {name}");
                self.add(format!("{field}.{}", other.0), message);
            }
            let Some(part) = own.1 else {
                let message = format!("Required value: must be specified when patchType is {name}");
                self.add(format!("{field}.{}", own.0), message);
                continue;
            };
            let field = format!("{field}.{}.expression", own.0);
            let expression = self.expression(field, &part.expression, &[wanted], environment);
            mutations.push(Mutation { expression, patch });
        }
        mutations
    }
}

impl CompiledBinding {
    /// Compiles a binding of a policy that validates.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn compile(object: &Value) -> Result<Self, PolicyError> {
        Self::compile_as_is(object).and_then(strict)
    }

    /// As [`compile`](Self::compile), and what is wrong with it does not keep it from being used: an
    /// expression that does not compile is an error where it is evaluated.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn compile_as_is(object: &Value) -> Result<(Self, Vec<PolicyProblem>), PolicyError> {
        let spec = BindingSpec::from_value(object)?;
        let mut problems = Problems::default();
        let actions = problems.actions(spec.validation_actions.as_deref().unwrap_or_default());
        Ok(Self::build(object, spec, actions, problems))
    }

    /// Compiles a binding of a policy that mutates.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it.
    pub fn compile_mutating(object: &Value) -> Result<Self, PolicyError> {
        Self::compile_mutating_as_is(object).and_then(strict)
    }

    /// As [`compile_mutating`](Self::compile_mutating), and what is wrong with it does not keep it
    /// from being used.
    ///
    /// # Errors
    ///
    /// When a member has the wrong type.
    pub fn compile_mutating_as_is(
        object: &Value,
    ) -> Result<(Self, Vec<PolicyProblem>), PolicyError> {
        let spec = BindingSpec::from_value(object)?;
        let mut problems = Problems::default();
        problems.operations("spec.matchResources", spec.match_resources.as_ref());
        Ok(Self::build(object, spec, Vec::new(), problems))
    }

    fn build(
        object: &Value,
        spec: BindingSpec,
        actions: Vec<ValidationAction>,
        mut problems: Problems,
    ) -> (Self, Vec<PolicyProblem>) {
        problems.metadata(object);
        if spec.policy_name.is_empty() {
            problems.required("spec.policyName");
        } else {
            problems.policy_name(&spec.policy_name);
        }
        let matcher = spec
            .match_resources
            .as_ref()
            .map(|wire| problems.matcher("spec.matchResources", wire).unwrap_or_default());
        let param_ref = spec.param_ref.map(|wire| problems.param_ref(wire));
        let name = name_of(object);
        let (policy, for_modgate) = match spec.policy_name.strip_suffix(FOR_MODGATE) {
            Some(policy) if !policy.is_empty() => (policy.into(), true),
            _ => (spec.policy_name, false),
        };
        (Self { name, policy, for_modgate, matcher, param_ref, actions }, problems.0)
    }

    /// Its name.
    pub fn name(&self) -> &Str {
        &self.name
    }

    /// The name of its policy, without the end that leaves it to modgate.
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
        let known = self.0.len();
        if let Some(selector) = &wire.selector {
            self.selector(&format!("{field}.selector"), selector);
        }
        let selector =
            wire.selector.as_ref().filter(|_| self.0.len() == known).and_then(|selector| {
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
