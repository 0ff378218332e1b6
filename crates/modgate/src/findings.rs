//! The report of a run: what policies found about objects, and what is wrong with policies.

use modgate_audit::{AUDIT, MUTATE, ObjectRef, PATCH, PolicyRef, SCOPED, Violation};
use modgate_engine::{
    Faults, PolicyId, Snapshot,
    api::constraints::{self, EnforcementAction},
};
use modgate_policies::{manifest::Manifest, place};
use modgate_report::{Finding, Level, Object, Report};
use modgate_review::findings::{rule, rule_id, template};
use modgate_value::diag::Source;

use crate::{
    args::{FailOn, ReportArgs},
    exit::Exit,
    terminal::Terminal,
};

/// The severity of a violation.
pub(crate) fn severity(violation: &Violation) -> FailOn {
    let has = |action| violation.actions.contains(&action);
    match violation.action.as_str() {
        SCOPED if has(EnforcementAction::Deny) => FailOn::Deny,
        SCOPED if has(EnforcementAction::Warn) => FailOn::Warn,
        SCOPED | "dryrun" | AUDIT => FailOn::Dryrun,
        "warn" | PATCH | MUTATE => FailOn::Warn,
        _ => FailOn::Deny,
    }
}

/// The exit code of a run: incomplete, or with findings that are bad or many enough to fail. Too many warnings are an error
/// that is printed.
pub(crate) fn exit(report: &Report, args: &ReportArgs, terminal: &Terminal) -> Exit {
    if let Some(excess) = args.excess(report) {
        terminal.error(&excess);
    }
    match report.complete {
        false => Exit::BadInput,
        true if args.fails(report) => Exit::Denied,
        true => Exit::Success,
    }
}

/// Adds the rule of a policy that an audit evaluated.
pub(crate) fn audited_rule(report: &mut Report, policy: &PolicyRef, snapshot: &Snapshot) -> usize {
    let id = rule_id(&policy.kind.kind, &policy.namespace, &policy.name);
    let is_constraint = policy.kind.group == constraints::GROUP;
    let template = is_constraint.then(|| template(snapshot, &policy.kind.kind)).flatten();
    report.rule(rule(id, &policy.annotations, template))
}

/// The id of the policy that a violation is of.
pub(crate) fn policy_id(violation: &Violation) -> PolicyId {
    let PolicyRef { kind, namespace, name, .. } = &*violation.policy;
    PolicyId {
        group: kind.group.clone(),
        kind: kind.kind.clone(),
        namespace: namespace.clone(),
        name: name.clone(),
    }
}

/// Adds what an audit found about an object.
pub(crate) fn audited(
    report: &mut Report,
    violation: &Violation,
    origin: Option<&(Manifest, Source)>,
    (snapshot, faults): (&Snapshot, &Faults),
) {
    let rule = audited_rule(report, &violation.policy, snapshot);
    let level = match severity(violation) {
        FailOn::Deny => Level::Error,
        FailOn::Warn => Level::Warning,
        FailOn::Dryrun | FailOn::None => Level::Note,
    };
    let ObjectRef { kind, namespace, name, generate_name, .. } = &*violation.subject;
    let object = Object {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        kind: kind.kind.to_string(),
        namespace: namespace.to_string(),
        name: name.to_string(),
        generate_name: generate_name.to_string(),
    };
    let place = origin.map(|(manifest, source)| {
        let id = policy_id(violation);
        let said = (violation.message.as_str(), &violation.details);
        place::of_violation(manifest, source, said, faults.field(&id, said.0))
    });
    let (place, field) = place.unzip();
    let finding = Finding::new(rule, level, violation.message.as_str()).about(object);
    report.findings.push(Finding {
        place,
        field: field.unwrap_or_default(),
        action: violation.action.to_string(),
        fingerprint: violation.id(""),
        ..finding
    });
}
