//! Where a constraint that is refused goes wrong, and what to do about it.

use modgate_api::{constraints::EnforcementAction, schema::Schema};
use modgate_value::{Value, near};

use crate::{PolicySource, Problem, constraint::CompiledTemplate};

/// The operators of label selectors.
const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

/// The members of `spec`, which stand beside it where they are indented too little.
const SPEC: [&str; 5] = [
    "enforcementAction",
    "enforcementActionScoped",
    "match",
    "parameters",
    "scopedEnforcementActions",
];

/// Adds place and advice to what the checks said, whose words are the original's.
pub(crate) fn advise(
    problem: &mut Problem,
    source: &PolicySource,
    template: Option<&CompiledTemplate>,
) {
    if let Some(field) = unknown_field(&problem.message) {
        problem.help = Some(match SPEC.contains(&field.as_str()) {
            true => format!("it belongs to `spec`: indent it below `spec:`, as `spec.{field}`"),
            false => known_fields(&field, template),
        });
        problem.position = source.key_position(&field);
        problem.message = "unknown field".to_owned();
        problem.field = field;
        return;
    }
    if problem.field == "spec.enforcementAction" {
        let action = source.object.path(&["spec", "enforcementAction"]).and_then(Value::as_str);
        let known = EnforcementAction::ALL.map(EnforcementAction::as_str);
        problem.help = action.and_then(|action| near::did_you_mean(action, known));
        return;
    }
    if problem.message.contains("not a valid selector operator")
        && let Some((field, operator)) = wrong_operator(&source.object)
    {
        problem.position = source.position(&field);
        problem.help = Some(near::did_you_mean_or(operator, &OPERATORS, "the operators are"));
        problem.field = field;
        return;
    }
    if problem.message.contains("invalid name: ") {
        "metadata.name".clone_into(&mut problem.field);
        problem.position = source.position("metadata.name");
    }
}

/// The first of `unknown fields: [spec.match.kinds[0].kind spec.x]`.
fn unknown_field(message: &str) -> Option<String> {
    let (_, list) = message.split_once("unknown fields: [")?;
    let list = list.strip_suffix(']').unwrap_or(list);
    list.split([' ', ',']).next().filter(|field| !field.is_empty()).map(str::to_owned)
}

fn known_fields(field: &str, template: Option<&CompiledTemplate>) -> String {
    let schema = template.and_then(|template| {
        let definition = template.schema().crd();
        let version = definition.path(&["spec", "versions"])?.at(0)?;
        Schema::from_value(version.path(&["schema", "openAPIV3Schema"])?, "").ok()
    });
    let known = schema.as_ref().map(|schema| schema.known_members(field)).unwrap_or_default();
    super::known_fields(field, &known)
}

/// The first operator that label selectors do not have, and its field.
fn wrong_operator(object: &Value) -> Option<(String, &str)> {
    ["labelSelector", "namespaceSelector"].into_iter().find_map(|selector| {
        let path = ["spec", "match", selector, "matchExpressions"];
        let expressions = object.path(&path)?.as_array()?;
        expressions.iter().enumerate().find_map(|(index, expression)| {
            let operator = expression.get("operator")?.as_str()?;
            let field = format!("spec.match.{selector}.matchExpressions[{index}].operator");
            (!OPERATORS.contains(&operator)).then_some((field, operator))
        })
    })
}
