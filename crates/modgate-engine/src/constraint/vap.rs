//! CEL templates and their constraints as the API server's own policies: what a
//! ValidatingAdmissionPolicy and its bindings say (spec 4.6 to 4.8).
//!
//! Everything here is data in, data out. What only a cluster knows is not in the objects: the owner
//! references to the template and the constraint, and when a first binding may be made (CE-40).

use std::collections::BTreeSet;

use modgate_api::{
    constraints::{Constraint, EnforcementAction, EnforcementPoint, GROUP},
    templates::{CelExpression, CelSource, CelSourceError, ConstraintTemplate, FailurePolicy},
};
use modgate_value::{DecodeError, Object, Str, Value, json};
use sha2::{Digest as _, Sha256};

/// The webhook whose rules policies copy (CE-37).
pub const WEBHOOK: &str = "validation.gatekeeper.sh";

/// The longest name the API server takes.
const MAX_NAME: usize = 253;

/// The operations a rule may list, in the order in which they are written.
const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// How policies and bindings are made.
#[derive(Debug, Clone, PartialEq)]
pub struct VapOptions {
    /// The version of the API that is served (CE-31).
    pub version: VapVersion,
    /// Whether templates that do not say get a policy (`--default-create-vap-for-templates`).
    pub for_templates: bool,
    /// Whether constraints without scoped actions get a binding
    /// (`--default-create-vap-binding-for-constraints`).
    pub for_constraints: bool,
    /// For templates that do not say (`--default-k8s-native-validation-failure-policy`).
    pub failure_policy: FailurePolicy,
    /// The webhook's scope, which generated policies share (`--sync-vap-enforcement-scope`).
    pub scope: VapScope,
}

impl Default for VapOptions {
    fn default() -> Self {
        Self {
            version: VapVersion::V1,
            for_templates: true,
            for_constraints: true,
            failure_policy: FailurePolicy::Fail,
            scope: VapScope::default(),
        }
    }
}

/// A version of `admissionregistration.k8s.io` that has the two kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VapVersion {
    /// `v1`
    V1,
    /// `v1beta1`
    V1Beta1,
}

impl VapVersion {
    /// `apiVersion` of the objects.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admissionregistration.k8s.io/v1",
            Self::V1Beta1 => "admissionregistration.k8s.io/v1beta1",
        }
    }
}

/// The scope of the validating webhook (CE-36, CE-37).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct VapScope {
    /// The entry [`WEBHOOK`] of its configuration; without one everything created and updated is
    /// meant.
    pub webhook: Option<Value>,
    /// Namespaces that Config excludes from the webhook, with wildcards.
    pub excluded_namespaces: BTreeSet<Str>,
    /// Namespaces that the flags of the webhook exempt, with wildcards.
    pub exempt_namespaces: BTreeSet<Str>,
}

/// Why there is no policy or binding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VapError {
    /// A member of the template or constraint has the wrong type.
    #[error("{0}")]
    Decode(#[from] DecodeError),
    /// A template has one target.
    #[error("wrong number of targets defined, only 1 target allowed")]
    Targets,
    /// The template is not written in CEL.
    #[error("K8sNativeValidation engine is missing")]
    NoCel,
    /// Its source is refused (CE-2).
    #[error(transparent)]
    Source(#[from] CelSourceError),
    /// A rule of the webhook has none of the template's operations (CE-37).
    #[error("no matching operations between webhook and constraint template")]
    Operations,
    /// An action that has no counterpart (CE-42).
    #[error(
        "invalid enforcement action: unrecognized enforcement action {0}, must be `warn`, `deny` \
         or `dryrun`"
    )]
    Action(Str),
    /// No action at all.
    #[error("invalid enforcement action: enforcement actions must be provided")]
    NoAction,
}

/// A ValidatingAdmissionPolicy.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The object.
    pub object: Value,
    /// The parts of the template that it does not cover (CE-32).
    pub warning: Option<&'static str>,
}

/// The CEL source of a template, and whether a policy is wanted for it (CE-30).
///
/// # Errors
///
/// When it is not written in CEL, or its source is refused.
pub fn cel_source(
    template: &ConstraintTemplate,
    options: &VapOptions,
) -> Result<(CelSource, bool), VapError> {
    if template.spec.targets.as_ref().is_none_or(|targets| targets.len() != 1) {
        return Err(VapError::Targets);
    }
    let (_, source) = template.cel_source().ok_or(VapError::NoCel)?;
    let source = CelSource::from_value(source)?;
    let wanted = source.generate_vap.unwrap_or(options.for_templates);
    Ok((source, wanted))
}

/// The policy of a template, whether it is wanted or not (4.7).
///
/// # Errors
///
/// When the template is not written in CEL, its source is refused, or the webhook sends none of
/// its operations.
pub fn policy(template: &Value, options: &VapOptions) -> Result<Policy, VapError> {
    let template = ConstraintTemplate::from_value(template)?;
    let (source, _) = cel_source(&template, options)?;
    let failure_policy = source.failure_policy(options.failure_policy)?;
    let targets = template.spec.targets.as_deref().unwrap_or_default();
    let operations = targets.first().and_then(|target| target.operations.as_deref());
    let (constraints, warning) = match_constraints(operations, options)?;
    let kind = template.spec.crd.spec.names.kind;
    let spec = object([
        (
            "paramKind",
            object([("apiVersion", format!("{GROUP}/v1beta1").into()), ("kind", kind.into())]),
        ),
        ("matchConstraints", constraints),
        ("matchConditions", match_conditions(&source, &options.scope)),
        ("validations", validations(&source)),
        ("failurePolicy", failure_policy.as_str().into()),
        ("variables", variables(&source)),
    ]);
    let name = format!("gatekeeper-{}", template.metadata.name);
    let object = resource("ValidatingAdmissionPolicy", options.version, &name, spec);
    Ok(Policy { object, warning })
}

/// The actions a binding of the constraint would have; none when there is no binding (CE-33).
pub fn binding_actions(constraint: &Constraint, options: &VapOptions) -> Vec<Str> {
    let spec = constraint.spec.as_ref();
    let action = spec.and_then(|spec| spec.enforcement_action.clone());
    let action = action.filter(|action| !action.is_empty());
    let action = action.unwrap_or_else(|| EnforcementAction::Deny.as_str().into());
    if action != EnforcementAction::Scoped.as_str() {
        return options.for_constraints.then_some(action).into_iter().collect();
    }
    let entries = spec.and_then(|spec| spec.scoped_enforcement_actions.as_deref());
    let is_here = |name: &str| name == "*" || name == EnforcementPoint::Vap.as_str();
    entries
        .unwrap_or_default()
        .iter()
        .filter(|entry| entry.enforcement_points.iter().flatten().any(|point| is_here(&point.name)))
        .map(|entry| entry.action.clone())
        .collect()
}

/// The binding of a constraint with these actions (4.8).
///
/// The API server refuses a binding that both denies and warns (CE-42); this does not.
///
/// # Errors
///
/// When there is no action, or an unknown one.
pub fn binding(
    constraint: &Value,
    actions: &[Str],
    options: &VapOptions,
) -> Result<Value, VapError> {
    if actions.is_empty() {
        return Err(VapError::NoAction);
    }
    let actions: Vec<Value> = actions
        .iter()
        .map(|action| match action.parse() {
            Ok(EnforcementAction::Deny) => Ok(Value::from("Deny")),
            Ok(EnforcementAction::Warn) => Ok("Warn".into()),
            Ok(EnforcementAction::Dryrun) => Ok("Audit".into()),
            Ok(EnforcementAction::Scoped) | Err(_) => Err(VapError::Action(action.clone())),
        })
        .collect::<Result<_, _>>()?;
    let Constraint { kind, metadata, .. } = Constraint::from_value(constraint)?;
    let kind = kind.to_lowercase();
    let selectors =
        [("objectSelector", "labelSelector"), ("namespaceSelector", "namespaceSelector")];
    let selectors = selectors.into_iter().filter_map(|(to, from)| {
        let selector = constraint.path(&["spec", "match", from])?;
        Some((to, without_empty_parts(selector)))
    });
    let spec = object([
        ("policyName", format!("gatekeeper-{kind}").into()),
        (
            "paramRef",
            object([
                ("name", metadata.name.clone().into()),
                ("parameterNotFoundAction", "Allow".into()),
            ]),
        ),
        ("matchResources", object(selectors)),
        ("validationActions", actions.into()),
    ]);
    let name = binding_name(&kind, &metadata.name);
    Ok(resource("ValidatingAdmissionPolicyBinding", options.version, &name, spec))
}

/// The entry of the validating webhook in a ValidatingWebhookConfiguration (CE-37).
pub fn webhook_of(configuration: &Value) -> Option<&Value> {
    let webhooks = configuration.get("webhooks")?.as_array()?;
    webhooks.iter().find(|webhook| webhook.get("name").and_then(Value::as_str) == Some(WEBHOOK))
}

/// The name of the binding of a constraint, cut and made unique where it would be too long (CE-41).
/// `kind` is that of the constraint in lower case.
pub fn binding_name(kind: &str, constraint: &str) -> String {
    let name = format!("gatekeeper-{kind}-{constraint}");
    if name.len() <= MAX_NAME {
        return name;
    }
    let digest = Sha256::digest(name.as_bytes());
    let hash: String = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let mut end = MAX_NAME - hash.len() - 1;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let cut = name.get(..end).unwrap_or_default().trim_end_matches(['-', '.']);
    format!("{cut}-{hash}")
}

/// A selector as Kubernetes writes it back.
fn without_empty_parts(selector: &Value) -> Value {
    let parts = selector.as_object().into_iter().flatten();
    parts
        .filter(|(_, part)| match part {
            Value::Object(members) => !members.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        })
        .cloned()
        .collect()
}

/// `matchConstraints`, and what is missing in it (CE-37).
fn match_constraints(
    operations: Option<&[Str]>,
    options: &VapOptions,
) -> Result<(Value, Option<&'static str>), VapError> {
    let Some(webhook) = &options.scope.webhook else {
        let any = || Value::from(vec![Value::from("*")]);
        let rule = object([
            ("operations", vec!["CREATE".into(), "UPDATE".into()].into()),
            ("apiGroups", any()),
            ("apiVersions", any()),
            ("resources", any()),
        ]);
        return Ok((object([("resourceRules", vec![rule].into())]), None));
    };
    let mut members: Vec<(&str, Value)> = ["namespaceSelector", "objectSelector"]
        .into_iter()
        .filter_map(|key| Some((key, without_empty_parts(given(webhook, key)?))))
        .collect();
    members.extend(given(webhook, "matchPolicy").map(|policy| ("matchPolicy", policy.clone())));
    let mut warning = None;
    let mut rules = Vec::new();
    let written = webhook.get("rules").and_then(Value::as_array);
    for rule in written.into_iter().flat_map(|rules| rules.iter()) {
        let sent: Vec<&str> = texts(rule, "operations").collect();
        let kept: Value = match operations.filter(|operations| !operations.is_empty()) {
            None => sent.iter().map(|operation| Value::from(*operation)).collect(),
            Some(wanted) => {
                let wanted: Vec<&str> = wanted.iter().map(Str::as_str).collect();
                let (sent, wanted) = (expanded(&sent), expanded(&wanted));
                let both =
                    |operation: &&str| sent.contains(operation) && wanted.contains(operation);
                let kept: Vec<&str> = OPERATIONS.into_iter().filter(both).collect();
                if kept.is_empty() {
                    return Err(VapError::Operations);
                }
                if wanted.iter().any(|operation| !sent.contains(operation)) {
                    warning = Some("operations mismatch between webhook and constraint template");
                }
                kept.into_iter().map(Value::from).collect()
            }
        };
        let mut copied = vec![("operations", kept)];
        let mut keys = vec!["apiGroups", "apiVersions", "resources"];
        // Version 1 of the policy is made without it, in the original as well.
        if options.version == VapVersion::V1Beta1 {
            keys.push("scope");
        }
        copied.extend(keys.into_iter().filter_map(|key| Some((key, given(rule, key)?.clone()))));
        rules.push(object(copied));
    }
    if !rules.is_empty() {
        members.push(("resourceRules", rules.into()));
    }
    Ok((object(members), warning))
}

/// Operations without the wildcard.
fn expanded<'o>(operations: &[&'o str]) -> Vec<&'o str> {
    if operations.contains(&"*") { OPERATIONS.to_vec() } else { operations.to_vec() }
}

fn given<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.get(key).filter(|value| !value.is_null())
}

fn texts<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    let list = value.get(key).and_then(Value::as_array);
    list.into_iter().flat_map(|list| list.iter()).filter_map(Value::as_str)
}

/// The author's conditions, the match block, what the installation leaves out, and the webhook's
/// own (CE-36).
fn match_conditions(source: &CelSource, scope: &VapScope) -> Value {
    let mut conditions: Vec<Value> =
        source.match_conditions.iter().flatten().map(expression).collect();
    let named = |name: &str, text: &str| {
        let name = format!("gatekeeper_internal_match_{name}");
        object([("name", name.into()), ("expression", text.into())])
    };
    conditions.push(named("excluded_namespaces", EXCLUDED_NAMESPACES));
    conditions.push(named("namespaces", NAMESPACES));
    conditions.push(named("name", NAME));
    conditions.push(named("kinds", KINDS));
    if !scope.excluded_namespaces.is_empty() {
        let text = left_out(&scope.excluded_namespaces, "");
        conditions.push(named("global_excluded_namespaces", &text));
    }
    if !scope.exempt_namespaces.is_empty() {
        let labelled = "\n    && has(obj.metadata.labels) && \
                        \"admission.gatekeeper.sh/ignore\" in obj.metadata.labels";
        let text = left_out(&scope.exempt_namespaces, labelled);
        conditions.push(named("global_exempted_namespaces", &text));
    }
    let own = scope.webhook.as_ref().and_then(|webhook| webhook.get("matchConditions")?.as_array());
    for condition in own.into_iter().flat_map(|list| list.iter()) {
        let copied = ["name", "expression"].into_iter();
        let copied = copied.filter_map(|key| Some((key, given(condition, key)?.clone())));
        conditions.push(object(copied));
    }
    conditions.into()
}

fn expression(of: &CelExpression) -> Value {
    object([("name", of.name.clone().into()), ("expression", of.expression.clone().into())])
}

/// The two variables every policy has, then the author's (CE-11, CE-35).
fn variables(source: &CelSource) -> Value {
    let fixed = [("anyObject", ANY_OBJECT), ("params", PARAMS)];
    let fixed = fixed
        .into_iter()
        .map(|(name, text)| object([("name", name.into()), ("expression", text.into())]));
    fixed.chain(source.variables.iter().flatten().map(expression)).collect()
}

fn validations(source: &CelSource) -> Value {
    let validations = source.validations.iter().flatten().map(|validation| {
        let optional = [
            ("message", &validation.message),
            ("messageExpression", &validation.message_expression),
        ];
        let optional = optional.into_iter().filter(|(_, text)| !text.is_empty());
        let optional = optional.map(|(key, text)| (key, Value::from(text.clone())));
        object([("expression", validation.expression.clone().into())].into_iter().chain(optional))
    });
    validations.collect()
}

/// On deletions the object is the old one.
const ANY_OBJECT: &str = "has(request.operation) && request.operation == \"DELETE\" && object == \
                          null ? oldObject : object";

/// The parameters of the constraint, or null.
const PARAMS: &str =
    "has(params.spec) && has(params.spec.parameters) ? params.spec.parameters : null";

// A pattern with `*` at its ends becomes an anchored regular expression. That the rest of a pattern
// has no special characters is what the schema of constraints holds it to.

/// True where no pattern of `excludedNamespaces` matches, and for objects without a namespace.
const EXCLUDED_NAMESPACES: &str = r#"!has(params.spec) || !has(params.spec.match) || !has(params.spec.match.excludedNamespaces) ||
[object, oldObject].exists(obj, obj != null && (
  !has(obj.metadata.namespace) || obj.metadata.namespace == "" ||
  !params.spec.match.excludedNamespaces.exists(pattern,
    string(obj.metadata.namespace).matches("^" + string(pattern).replace("*", ".*") + "$"))))"#;

/// True where a pattern of `namespaces` matches, and for objects without a namespace.
const NAMESPACES: &str = r#"!has(params.spec) || !has(params.spec.match) || !has(params.spec.match.namespaces) ||
[object, oldObject].exists(obj, obj != null && (
  !has(obj.metadata.namespace) || obj.metadata.namespace == "" ||
  params.spec.match.namespaces.exists(pattern,
    string(obj.metadata.namespace).matches("^" + string(pattern).replace("*", ".*") + "$"))))"#;

/// True where the pattern matches the name, or with a `*` at its end the generateName.
const NAME: &str = r#"!has(params.spec) || !has(params.spec.match) || !has(params.spec.match.name) ||
[object, oldObject].exists(obj, obj != null && (
  (has(obj.metadata.name) &&
    string(obj.metadata.name).matches("^" + string(params.spec.match.name).replace("*", ".*") + "$")) ||
  (has(obj.metadata.generateName) && obj.metadata.generateName != "" &&
    string(params.spec.match.name).endsWith("*") &&
    string(obj.metadata.generateName).matches("^" + string(params.spec.match.name).replace("*", ".*") + "$"))))"#;

/// True where an entry of `kinds` names the group and the kind of the request.
const KINDS: &str = r#"!has(params.spec) || !has(params.spec.match) || !has(params.spec.match.kinds) ||
params.spec.match.kinds.exists(entry,
  (!has(entry.apiGroups) || size(entry.apiGroups) == 0 ||
    "*" in entry.apiGroups || request.kind.group in entry.apiGroups) &&
  (!has(entry.kinds) || size(entry.kinds) == 0 ||
    "*" in entry.kinds || request.kind.kind in entry.kinds))"#;

/// True for objects outside of the namespaces that match `patterns`, and for Namespaces that do
/// not match themselves, or match without what `also` demands of them.
fn left_out(patterns: &BTreeSet<Str>, also: &str) -> String {
    let quoted = patterns.iter().map(|pattern| {
        let mut out = String::new();
        json::write_string(pattern, &mut out, json::Escape::Minimal);
        out
    });
    let list = quoted.collect::<Vec<_>>().join(", ");
    let matches = |text: &str| {
        format!(
            "[{list}].exists(pattern,\n    string({text}).matches(\"^\" + \
             pattern.replace(\"*\", \".*\") + \"$\"))"
        )
    };
    format!(
        "[object, oldObject].exists(obj, obj != null && (\n  \
         has(obj.kind) && obj.kind == \"Namespace\" && has(obj.metadata.name)\n  \
         ? !({}{also})\n  \
         : (!has(obj.metadata.namespace) || obj.metadata.namespace == \"\" ||\n    !{})))",
        matches("obj.metadata.name"),
        matches("obj.metadata.namespace"),
    )
}

fn resource(kind: &str, version: VapVersion, name: &str, spec: Value) -> Value {
    object([
        ("apiVersion", version.api_version().into()),
        ("kind", kind.into()),
        ("metadata", object([("name", name.into())])),
        ("spec", spec),
    ])
}

fn object<'k>(members: impl IntoIterator<Item = (&'k str, Value)>) -> Value {
    Object::from_entries(members.into_iter().map(|(key, value)| (Str::from(key), value)).collect())
        .into()
}
