//! Where a constraint that is refused goes wrong, and what to do about it.

use modgate_api::{
    constraints::{self, EnforcementAction, EnforcementPoint},
    schema::Schema,
};
use modgate_value::{Value, near};

use super::Lints;
use super::values::{self, OPERATORS, SELECTORS, point_at};
use crate::{
    Code, PolicySource, Problem,
    constraint::{CompiledTemplate, ConstraintError, InvalidConstraint},
};

/// The members of `spec`, which stand beside it where they are indented too little.
const SPEC: [&str; 5] = [
    "enforcementAction",
    "enforcementActionScoped",
    "match",
    "parameters",
    "scopedEnforcementActions",
];

/// Scoped actions beside an action that is not scoped: nothing reads them.
pub(super) fn lint(lints: &mut Lints<'_>) {
    let Some(spec) = lints.object().get("spec") else { return };
    let action = spec.get("enforcementAction").and_then(Value::as_str).unwrap_or_default();
    let scoped = spec.get("scopedEnforcementActions").and_then(Value::as_array);
    let has_some = scoped.is_some_and(|list| !list.is_empty());
    if has_some && action != EnforcementAction::Scoped.as_str() {
        let action = if action.is_empty() { "deny" } else { action };
        let message = format!("`enforcementAction` is `{action}`, so these are not read");
        let help = "write `enforcementAction: scoped`".to_owned();
        lints.push_key(Code::NoEffect, "spec.scopedEnforcementActions", message, Some(help));
    }
}

/// Adds place and advice to the problem of a constraint that is refused, whose message is the original's.
pub(crate) fn advise(
    problem: &mut Problem,
    source: &PolicySource,
    template: Option<&CompiledTemplate>,
    error: &ConstraintError,
) {
    if problem.field == "spec.enforcementAction" {
        let action = source.object.path(&["spec", "enforcementAction"]).and_then(Value::as_str);
        let known = EnforcementAction::ALL.map(EnforcementAction::as_str);
        if action == Some(EnforcementAction::Scoped.as_str()) {
            scoped_action(problem, source);
        } else {
            let meant = action.and_then(|action| values::action(action, &known));
            problem.help = meant.map(|meant| format!("did you mean `{meant}`?"));
        }
        return;
    }
    let ConstraintError::Invalid { reason, .. } = error else { return };
    match reason {
        InvalidConstraint::UnknownFields(fields) => {
            let Some(field) = fields.first() else { return };
            problem.help = Some(unknown_field(field, template));
            problem.position = source.key_position(field);
            problem.message = "unknown field".to_owned();
            problem.field.clone_from(field);
        }
        InvalidConstraint::Selector(errors) => {
            if errors.iter().any(|error| error.path.ends_with(".operator")) {
                point_at(problem, source, &SELECTORS, &OPERATORS, "the operators are");
            } else if let Some(first) = errors.first() {
                super::refused::in_constraint(problem, source, &first.path);
            }
        }
        InvalidConstraint::SelectorType(error) if error.path.starts_with("matchLabels") => {
            let Some(field) = label_that_is_no_text(&source.object) else { return };
            problem.position = source.position(&field);
            problem.field = field;
        }
        InvalidConstraint::Version { version, .. } => {
            let known = constraints::VERSIONS;
            problem.help = Some(near::did_you_mean_or(version, &known, "the versions are"));
            problem.position = source.position("apiVersion");
            "apiVersion".clone_into(&mut problem.field);
            problem.code = Some(Code::UnknownVersion);
        }
        InvalidConstraint::NoObject { path, .. } => {
            problem.field = path.join(".");
            problem.position = source.position(&problem.field);
        }
        InvalidConstraint::Name(_) => {
            "metadata.name".clone_into(&mut problem.field);
            problem.position = source.position("metadata.name");
        }
        _ => {}
    }
}

/// The first label of a selector whose value is no text.
fn label_that_is_no_text(object: &Value) -> Option<String> {
    ["labelSelector", "namespaceSelector"].into_iter().find_map(|selector| {
        let labels = object.path(&["spec", "match", selector, "matchLabels"])?.as_object()?;
        let (name, _) = labels.iter().find(|(_, value)| value.as_str().is_none())?;
        Some(format!("spec.match.{selector}.matchLabels.{name}"))
    })
}

/// The advice about a field that the schema does not have.
fn unknown_field(field: &str, template: Option<&CompiledTemplate>) -> String {
    if SPEC.contains(&field) {
        return format!("it belongs to `spec`: indent it below `spec:`, as `spec.{field}`");
    }
    match of_parameters(field, template) {
        Some(name) => {
            format!("it is a parameter: write it below `parameters`, as `spec.parameters.{name}`")
        }
        None => known_fields(field, template),
    }
}

/// The name of a parameter that stands beside `parameters`.
fn of_parameters<'f>(field: &'f str, template: Option<&CompiledTemplate>) -> Option<&'f str> {
    let name = field.strip_prefix("spec.").or_else(|| (!field.contains('.')).then_some(field))?;
    let schema = schema_of(template?)?;
    schema.known_members("spec.parameters.x").contains(&name).then_some(name)
}

fn schema_of(template: &CompiledTemplate) -> Option<Schema> {
    let definition = template.schema().crd();
    let version = definition.path(&["spec", "versions"])?.at(0)?;
    Schema::from_value(version.path(&["schema", "openAPIV3Schema"])?, "").ok()
}

fn known_fields(field: &str, template: Option<&CompiledTemplate>) -> String {
    let schema = template.and_then(schema_of);
    let known = schema.as_ref().map(|schema| schema.known_members(field)).unwrap_or_default();
    super::known_fields(field, &known)
}

/// Marks the entry of `scopedEnforcementActions` that is refused.
fn scoped_action(problem: &mut Problem, source: &PolicySource) {
    let mut points: Vec<&str> = EnforcementPoint::ALL.iter().map(|point| point.as_str()).collect();
    points.push("*");
    let names = ["spec.scopedEnforcementActions.*.enforcementPoints.*.name"];
    let actions = ["spec.scopedEnforcementActions.*.action"];
    let _ = point_at(problem, source, &names, &points, "the enforcement points are")
        || point_at(problem, source, &actions, &["deny", "dryrun", "warn"], "the actions are");
}
