//! Where a constraint that is refused goes wrong, and what to do about it.

use modgate_api::{
    constraints::{self, EnforcementAction, EnforcementPoint},
    meta,
    schema::Schema,
};
use modgate_value::{Value, near};

use super::Lints;
use super::values::{self, OPERATORS, SELECTORS, point_at};
use crate::{Code, PolicySource, Problem, constraint::CompiledTemplate};

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

/// Adds place and advice to what the checks said, whose words are the original's.
pub(crate) fn advise(
    problem: &mut Problem,
    source: &PolicySource,
    template: Option<&CompiledTemplate>,
) {
    if let Some(field) = unknown_field(&problem.message) {
        problem.help = Some(match SPEC.contains(&field.as_str()) {
            true => format!("it belongs to `spec`: indent it below `spec:`, as `spec.{field}`"),
            false => match of_parameters(&field, template) {
                Some(name) => format!(
                    "it is a parameter: write it below `parameters`, as `spec.parameters.{name}`"
                ),
                None => known_fields(&field, template),
            },
        });
        problem.position = source.key_position(&field);
        problem.message = "unknown field".to_owned();
        problem.field = field;
        return;
    }
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
    if problem.message.contains("not a valid selector operator") {
        point_at(problem, source, &SELECTORS, &OPERATORS, "the operators are");
        return;
    }
    if problem.field == "spec.match" && super::refused::in_constraint(problem, source) {
        return;
    }
    if problem.message.contains("Could not convert JSON to LabelSelector: matchLabels")
        && let Some(field) = label_that_is_no_text(&source.object)
    {
        problem.position = source.position(&field);
        problem.field = field;
        return;
    }
    if problem.message.contains("unsupported version ") {
        let api_version = source.object.get("apiVersion").and_then(Value::as_str);
        let (_, version) = meta::split_api_version(api_version.unwrap_or_default());
        let known = constraints::VERSIONS;
        problem.help = Some(near::did_you_mean_or(version, &known, "the versions are"));
        problem.position = source.position("apiVersion");
        "apiVersion".clone_into(&mut problem.field);
        problem.code = Some(Code::UnknownVersion);
        return;
    }
    // `.spec.match.labelSelector accessor error: [a] is of the type []interface {}, ...`
    let accessed = problem.message.split_once(" accessor error: ");
    if let Some((_, field)) = accessed.and_then(|(before, _)| before.rsplit_once(" .")) {
        let field = field.to_owned();
        problem.position = source.position(&field);
        problem.field = field;
        return;
    }
    if problem.message.contains("invalid name: ") {
        "metadata.name".clone_into(&mut problem.field);
        problem.position = source.position("metadata.name");
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

/// The first of `unknown fields: [spec.match.kinds[0].kind spec.x]`.
fn unknown_field(message: &str) -> Option<String> {
    let (_, list) = message.split_once("unknown fields: [")?;
    let list = list.strip_suffix(']').unwrap_or(list);
    list.split([' ', ',']).next().filter(|field| !field.is_empty()).map(str::to_owned)
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
