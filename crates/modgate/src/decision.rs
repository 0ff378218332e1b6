//! Decides about an object, and prints what several verbs print of a decision.

use std::io::Write;

use anyhow::Result;
use modgate_engine::{
    Decision, Evaluation, NoopObserver, Observer, Plan, Review, Snapshot, Stages,
    admissionpolicy::Denial,
    constraint::{Arena, ConstraintTrace},
    explain::RuleTrace,
    jsonpatch,
};
use modgate_policies::PolicySet;
use modgate_value::Value;

use crate::{
    constraints,
    inputs::{self, Subject},
    terminal::{Terminal, Tone, printable},
};

/// Decides as the webhooks would one after the other, each for what its configuration as it is
/// installed lets through.
pub(crate) fn decide<O: Observer>(
    policy_set: &PolicySet,
    review: &Review,
    arena: &mut Arena,
    observer: &mut O,
) -> Decision {
    let mut evaluation = Evaluation::new(&policy_set.objects, &policy_set.inventory, arena);
    policy_set.snapshot.decide(review, Stages::ALL, &mut evaluation, observer)
}

/// Notes where the cluster's own policies decide differently about the object with the API server's
/// defaults, because one of them reads a field that these fill.
pub(crate) fn note_defaults(
    policy_set: &PolicySet,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
) {
    let stored = inputs::as_stored(subject.review.clone());
    if policy_set.snapshot.cluster_policies().is_empty()
        || stored.object() == subject.review.object()
    {
        return;
    }
    let with_defaults = decide(policy_set, &stored, &mut Arena::new(), &mut NoopObserver);
    let texts = |decision: &Decision| {
        let denials = decision.denials.iter().map(ToString::to_string);
        denials.chain(decision.warnings.iter().cloned()).collect::<Vec<_>>()
    };
    let (found, expected) = (texts(decision), texts(&with_defaults));
    if found == expected {
        return;
    }
    let other = match expected.first() {
        Some(text) => text.as_str(),
        None => "allowed",
    };
    terminal.note(format_args!(
        "note: {}: a policy reads fields that the API server fills or changes. With its defaults \
         (`--defaulting`): {}",
        subject.title(),
        printable(other)
    ));
}

/// The stages that have policies and were not evaluated, and why.
fn skipped<'d>(
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

/// A line for each of them.
pub(crate) fn not_evaluated(
    out: &mut impl Write,
    decision: &Decision,
    snapshot: &Snapshot,
    terminal: &Terminal,
) -> Result<()> {
    for (stage, why) in skipped(decision, snapshot) {
        let line = format!("  {stage} not evaluated: {why}");
        writeln!(out, "{}", terminal.paint(Tone::Faint, printable(&line)))?;
    }
    Ok(())
}

/// The first line about a subject.
pub(crate) fn headline(
    out: &mut impl Write,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
) -> Result<()> {
    let (tone, verdict) = match (decision.allowed, decision.patch.is_empty()) {
        (false, _) => (Tone::Bad, "denied"),
        (true, false) => (Tone::Good, "allowed, patched"),
        (true, true) => (Tone::Good, "allowed"),
    };
    writeln!(
        out,
        "{}: {} {}",
        terminal.paint(Tone::Heading, subject.title()),
        terminal.paint(tone, verdict),
        terminal.paint(Tone::Faint, format_args!("({})", subject.place)),
    )?;
    Ok(())
}

/// The reason of a denial that no policy gave.
pub(crate) fn reason(out: &mut impl Write, decision: &Decision) -> Result<()> {
    if !decision.allowed && decision.rejections.is_empty() && decision.violations.is_empty() {
        writeln!(out, "  {}", printable(&decision.reason))?;
    }
    Ok(())
}

/// Everything about a decision, for machines.
pub(crate) fn result(subject: &Subject, decision: &Decision, snapshot: &Snapshot) -> Value {
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
        ("violations", constraints::to_value(&decision.violations)),
        ("notEvaluated", not_evaluated),
    ]
    .into_iter()
    .collect()
}

/// The members of a document that explain a decision.
pub(crate) fn stages(
    rules: &[&RuleTrace],
    constraints: &[&ConstraintTrace],
    rest: &Plan,
) -> Result<Vec<(&'static str, Value)>> {
    let rest = Value::from_json(&serde_json::to_vec(rest)?)?;
    let mut members = vec![
        ("rules", Value::from_json(&serde_json::to_vec(rules)?)?),
        ("constraints", Value::from_json(&serde_json::to_vec(constraints)?)?),
    ];
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
