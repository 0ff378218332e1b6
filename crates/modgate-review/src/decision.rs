//! Decisions as JSON, and the two texts of a change.

use modgate_engine::{
    Decision, Plan, Snapshot,
    admissionpolicy::Denial,
    api::secrets::{self, SecretValues},
    constraint::{ConstraintTrace, Violation},
    explain::RuleTrace,
    jsonpatch,
};
use modgate_value::{
    Value,
    json::{self, Escape},
    yaml,
};

use crate::subject::Subject;

/// The document of `-o json`: indented, with a line break at its end.
pub fn document(value: &Value) -> String {
    let mut text = String::new();
    json::write_pretty(value, &mut text, "  ", Escape::Minimal);
    text.push('\n');
    text
}

/// The object of a review as YAML, before policies changed it and after. Values of a Secret do not stand in them.
pub fn texts(subject: &Subject, decision: &Decision) -> (String, String) {
    let before = subject.review.object().cloned().unwrap_or_default();
    let (before, after) = match subject.review.is_secret() {
        true => secrets::shown_pair(&before, &decision.object),
        false => (before, decision.object.clone()),
    };
    (yaml::write(&before), yaml::write(&after))
}

/// A [`result`] without the values of Secrets, but for messages, which policies wrote for everybody.
pub fn without_secrets(result: Value, secrets: &SecretValues) -> Value {
    let Some(mut members) = result.as_object().cloned().filter(|_| !secrets.is_empty()) else {
        return result;
    };
    for name in ["object", "patch", "failures"] {
        if let Some(member) = members.get(name).map(|member| secrets.hide_in(member)) {
            members.insert(name, member);
        }
    }
    members.into()
}

/// Everything about a decision, for machines.
pub fn result(subject: &Subject, decision: &Decision, snapshot: &Snapshot) -> Value {
    let request = subject.review.request();
    let texts = |texts: &[String]| -> Value {
        texts.iter().map(|text| Value::from(text.as_str())).collect()
    };
    let failures: Value = decision
        .failures
        .iter()
        .map(|failure| {
            [
                ("rule", Value::from(failure.rule.as_str())),
                ("failure", failure.kind.log_message().into()),
                ("cause", failure.message.as_str().into()),
            ]
            .into_iter()
            .collect::<Value>()
        })
        .collect();
    let annotations = decision.audit_annotations.iter();
    let annotations: Value =
        annotations.map(|(key, value)| (key.as_str(), Value::from(value.as_str()))).collect();
    let not_evaluated = skipped(decision, snapshot)
        .map(|(stage, why)| -> Value {
            [("stage", stage.into()), ("reason", why.into())].into_iter().collect()
        })
        .collect();
    [
        ("source", Value::from(subject.place.as_str())),
        ("kind", request.kind.kind.as_str().into()),
        ("namespace", request.namespace.as_str().into()),
        ("name", request.name.as_str().into()),
        ("operation", request.operation.as_str().into()),
        ("allowed", decision.allowed.into()),
        ("code", i64::from(decision.code).into()),
        ("reason", decision.reason.as_str().into()),
        ("policies", denials(&decision.denials)),
        ("auditAnnotations", annotations),
        (
            "rejections",
            decision.rejections.iter().map(|each| Value::from(each.to_string())).collect(),
        ),
        ("warnings", texts(&decision.warnings)),
        ("failures", failures),
        ("patch", jsonpatch::to_value(&decision.patch)),
        ("object", decision.object.clone()),
        ("violations", violations(&decision.violations)),
        ("notEvaluated", not_evaluated),
    ]
    .into_iter()
    .collect()
}

/// The members of a document that explain a decision.
///
/// # Errors
///
/// When a trace has a value that JSON cannot have.
pub fn stages(
    rules: &[&RuleTrace],
    constraints: &[&ConstraintTrace],
    rest: &Plan,
) -> Result<Vec<(&'static str, Value)>, serde_json::Error> {
    let rest = value(rest)?;
    let mut members = vec![("rules", value(rules)?), ("constraints", value(constraints)?)];
    for stage in ["mutatingPolicies", "mutators", "resultants", "expandsWithModrules"] {
        members.push((stage, rest.get(stage).cloned().unwrap_or_default()));
    }
    Ok(members)
}

/// The reasons of the cluster's own policies to deny a request.
fn denials(denials: &[Denial]) -> Value {
    let one = |denial: &Denial| -> Value {
        let binding = denial.binding.as_ref().map(|name| Value::from(name.as_str()));
        [
            ("kind", Value::from(denial.kind.as_str())),
            ("policy", denial.policy.as_str().into()),
            ("binding", binding.unwrap_or_default()),
            ("code", i64::from(denial.code()).into()),
            ("reason", denial.reason.as_str().into()),
            ("message", denial.message.as_str().into()),
        ]
        .into_iter()
        .collect()
    };
    denials.iter().map(one).collect()
}
/// The stages that have policies and were not evaluated, and why.
pub fn skipped<'d>(
    decision: &'d Decision,
    snapshot: &'d Snapshot,
) -> impl Iterator<Item = (&'static str, String)> + 'd {
    let has_policies = |stage: &str| match stage {
        "mutators" => !snapshot.mutators().is_empty(),
        "modrules" => snapshot.has_modrules(),
        _ => snapshot.constraints().constraints().next().is_some(),
    };
    let wanted = decision.stages.skipped().filter(move |(stage, _)| has_policies(stage));
    wanted.map(|(stage, why)| (stage, why.to_string()))
}

/// Violations for machines.
fn violations(violations: &[Violation]) -> Value {
    let each = violations.iter().map(|violation| {
        let actions = violation.actions.iter().map(|action| Value::from(action.as_str()));
        let members = [
            ("kind", Value::from(violation.kind.clone())),
            ("constraint", violation.constraint.clone().into()),
            ("enforcementAction", violation.action.clone().into()),
            ("actions", actions.collect()),
            ("message", violation.message.as_str().into()),
            ("details", violation.details.clone()),
        ];
        members.into_iter().collect::<Value>()
    });
    each.collect()
}

fn value(traces: &(impl serde::Serialize + ?Sized)) -> Result<Value, serde_json::Error> {
    let text = serde_json::to_vec(traces)?;
    Value::from_json(&text).map_err(serde::ser::Error::custom)
}
