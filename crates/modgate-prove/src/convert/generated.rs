//! ValidatingAdmissionPolicies that modgate or Gatekeeper generated from templates, as these templates.

use modgate_engine::{
    api::{
        admissionregistration::{BINDING_KIND, BindingSpec, NamedExpression, PolicySpec},
        constraints::{self, Constraint},
        meta::split_api_version,
        templates::{self, CEL_ENGINE, TARGET},
    },
    constraint::vap::{self, VapOptions},
};
use modgate_value::{Str, Value};

use super::{Conversion, Loss, is_of, name, object, text};

/// How the names of match conditions begin that generators add.
const INTERNAL: &str = "gatekeeper_internal_match_";
/// The variables that generators put before those of the template.
const VARIABLES: [&str; 2] = ["anyObject", "params"];
/// The match conditions that stand for what an installation excludes.
const EXCLUSIONS: [&str; 2] = ["global_excluded_namespaces", "global_exempted_namespaces"];

/// Whether a policy was generated from a template.
pub(super) fn is_generated(spec: &PolicySpec) -> bool {
    let kind = spec.param_kind.as_ref().map(|kind| split_api_version(&kind.api_version).0);
    let mut variables = spec.variables.iter().flatten().map(|it| it.name.as_str());
    let mut conditions = spec.match_conditions.iter().flatten();
    kind == Some(constraints::GROUP)
        && VARIABLES.iter().all(|name| variables.next() == Some(name))
        && conditions.any(|it| it.name.starts_with(INTERNAL))
}

/// The template of a generated policy, and the constraints that its bindings pass.
pub(super) fn convert(
    spec: &PolicySpec,
    bindings: &[&Value],
    documents: &[Value],
    conversion: &mut Conversion,
) {
    let kind = spec.param_kind.as_ref().map(|it| it.kind.clone()).unwrap_or_default();
    let mut target = vec![("target", Value::from(TARGET))];
    target.extend(operations(spec, conversion));
    let code = object([("engine", Value::from(CEL_ENGINE)), ("source", source(spec, conversion))]);
    target.push(("code", [code].into_iter().collect()));
    let targets: Value = [object(target)].into_iter().collect();
    let crd = definition(&kind, documents, conversion);
    conversion.objects.push(object([
        ("apiVersion", Value::from(format!("{}/v1", templates::GROUP))),
        ("kind", templates::KIND.into()),
        ("metadata", object([("name", Value::from(kind.to_lowercase()))])),
        ("spec", object([("crd", crd), ("targets", targets)])),
    ]));
    for binding in bindings {
        bound(binding, &kind, documents, conversion);
    }
}

fn named(list: &[&NamedExpression]) -> Value {
    let one = |it: &&NamedExpression| {
        object([
            ("name", Value::from(it.name.clone())),
            ("expression", it.expression.clone().into()),
        ])
    };
    list.iter().map(one).collect()
}

/// The code of the template: what its author wrote.
fn source(spec: &PolicySpec, conversion: &mut Conversion) -> Value {
    let mut members = Vec::new();
    if let Some(policy) = &spec.failure_policy {
        members.push(("failurePolicy", Value::from(policy.clone())));
    }
    let conditions: Vec<_> = spec.match_conditions.iter().flatten().collect();
    let is_internal = |it: &&NamedExpression| it.name.starts_with(INTERNAL);
    let end = conditions.iter().position(is_internal).unwrap_or(conditions.len());
    let (own, added) = conditions.split_at(end);
    if !own.is_empty() {
        members.push(("matchCondition", named(own)));
    }
    for (index, condition) in added.iter().enumerate() {
        let field = format!("spec.matchConditions[{}]", end + index);
        let message = match condition.name.strip_prefix(INTERNAL) {
            Some(part) if EXCLUSIONS.contains(&part) => {
                "the Config and the flags of an installation exclude namespaces, not templates"
            }
            Some(_) => continue,
            None => "the webhook configuration has match conditions of its own, not the template",
        };
        conversion.losses.push(Loss::new(field, message));
    }
    let variables: Vec<_> = spec.variables.iter().flatten().skip(VARIABLES.len()).collect();
    if !variables.is_empty() {
        members.push(("variables", named(&variables)));
    }
    let validations = spec.validations.iter().flatten().map(|it| {
        let mut members = vec![("expression", Value::from(it.expression.clone()))];
        let optional = [("message", &it.message), ("messageExpression", &it.message_expression)];
        let given = optional.into_iter().filter(|(_, text)| !text.is_empty());
        members.extend(given.map(|(key, text)| (key, Value::from(text.clone()))));
        object(members)
    });
    members.push(("validations", validations.collect()));
    object(members)
}

/// `operations` of the template, where the rules of the policy say no more than that.
fn operations(spec: &PolicySpec, conversion: &mut Conversion) -> Option<(&'static str, Value)> {
    let matched = spec.match_constraints.clone().unwrap_or_default();
    let rules = matched.resource_rules.unwrap_or_default();
    let all = |list: &Option<Vec<Str>>| list.as_deref().is_some_and(|list| list == ["*"]);
    let is_plain = matched.namespace_selector.is_none()
        && matched.object_selector.is_none()
        && matched.exclude_resource_rules.is_none_or(|rules| rules.is_empty());
    match rules.as_slice() {
        [rule]
            if is_plain
                && [&rule.api_groups, &rule.api_versions, &rule.resources].into_iter().all(all)
                && rule.resource_names.as_ref().is_none_or(Vec::is_empty) =>
        {
            let operations = rule.operations.clone().unwrap_or_default();
            let is_default = operations == ["CREATE", "UPDATE"];
            let list: Value = operations.into_iter().map(Value::from).collect();
            (!is_default).then_some(("operations", list))
        }
        _ => {
            let message = "the webhook configuration has rules and selectors, not the template";
            conversion.losses.push(Loss::new("spec.matchConstraints", message));
            None
        }
    }
}

/// `spec.crd` of the template, with the parameters of the CustomResourceDefinition if the input has it.
fn definition(kind: &str, documents: &[Value], conversion: &mut Conversion) -> Value {
    let is_it = |it: &&Value| {
        text(it, &["kind"]) == "CustomResourceDefinition"
            && text(it, &["spec", "group"]) == constraints::GROUP
            && text(it, &["spec", "names", "kind"]) == kind
    };
    let crd = documents.iter().find(is_it);
    let version = crd.and_then(|crd| crd.path(&["spec", "versions"])?.as_array()?.first());
    let below = ["properties", "spec", "properties", "parameters"];
    let parameters = version
        .and_then(|version| version.path(&["schema", "openAPIV3Schema"])?.path(&below))
        .cloned();
    let mut members = vec![("names", object([("kind", Value::from(kind))]))];
    if crd.is_none() {
        let message =
            "the input has no CustomResourceDefinition of it: the template admits all parameters";
        conversion.losses.push(Loss::new("spec.paramKind", message));
    }
    let any = || {
        object([
            ("type", Value::from("object")),
            ("x-kubernetes-preserve-unknown-fields", true.into()),
        ])
    };
    let schema = parameters.or_else(|| crd.is_none().then(any));
    members.extend(schema.map(|schema| ("validation", object([("openAPIV3Schema", schema)]))));
    object([("spec", object(members))])
}

/// The constraint that a binding passes.
fn bound(binding: &Value, kind: &str, documents: &[Value], conversion: &mut Conversion) {
    let field = |member: &str| format!("{BINDING_KIND} {}: spec.{member}", name(binding));
    let mut lose = |member: &str, message: &str| {
        conversion.losses.push(Loss::new(field(member), message));
    };
    let spec = match BindingSpec::from_value(binding) {
        Ok(spec) => spec,
        Err(error) => {
            conversion.losses.push(Loss::new(error.path, error.message));
            return;
        }
    };
    let wanted = spec.param_ref.as_ref().map(|it| it.name.clone()).unwrap_or_default();
    let is_it = |it: &&Value| {
        is_of(it, constraints::GROUP) && text(it, &["kind"]) == kind && name(it) == wanted
    };
    let Some(constraint) = documents.iter().find(is_it) else {
        return lose("paramRef", "the input has no such constraint");
    };
    let options = VapOptions::default();
    let expected = Constraint::from_value(constraint).ok().and_then(|wire| {
        vap::binding(constraint, &vap::binding_actions(&wire, &options), &options).ok()
    });
    let same = |path: &[&str]| expected.as_ref().and_then(|it| it.path(path)) == binding.path(path);
    if !same(&["spec", "matchResources"]) {
        lose("matchResources", "differs from the match block of the constraint");
    }
    let converted = if same(&["spec", "validationActions"]) {
        constraint.clone()
    } else {
        let has = |action: &str| spec.validation_actions.iter().flatten().any(|it| it == action);
        let action = match (has("Deny"), has("Warn")) {
            (true, _) => "deny",
            (false, true) => "warn",
            (false, false) => "dryrun",
        };
        if spec.validation_actions.iter().flatten().count() > 1 {
            lose("validationActions", "differs from the action of the constraint, and has several");
        }
        with_action(constraint, action)
    };
    conversion.originals.push(constraint.clone());
    conversion.objects.push(converted);
}

/// A constraint with another action.
fn with_action(constraint: &Value, action: &str) -> Value {
    let mut members = constraint.as_object().cloned().unwrap_or_default();
    let mut spec = members.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    spec.remove("scopedEnforcementActions");
    spec.insert("enforcementAction", action.into());
    members.insert("spec", spec.into());
    members.into()
}
