//! The report of a run: what policies found about objects, and what is wrong with policies.

use modgate_audit::{AUDIT, MUTATE, ObjectRef, PATCH, PolicyRef, SCOPED, Violation};
use modgate_engine::{
    Decision, PolicySource, Snapshot,
    admissionpolicy::ValidationAction,
    api::constraints::{self, EnforcementAction},
    constraint,
    guidance::Guidance,
};
use modgate_policies::{manifest::Manifest, place};
use modgate_report::{Finding, Level, Object, Passed, Report, Rule};
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
};

use crate::{
    args::{FailOn, ReportArgs},
    exit::Exit,
    inputs::Subject,
    terminal::Terminal,
};

/// The annotation with the title of a policy, as Gatekeeper's library has it.
const TITLE: &str = "metadata.gatekeeper.sh/title";
/// The annotation with its description.
const DESCRIPTION: &str = "description";

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

/// A report of this version, with what was printed about policies and files.
pub(crate) fn report(heard: &[Diagnostic]) -> Report {
    let mut report = Report::new(env!("CARGO_PKG_VERSION"));
    heard.iter().for_each(|diagnostic| report.diagnostic(diagnostic));
    report
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

/// `Kind/name` or `Kind/namespace/name`.
fn rule_id(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind}/{name}"),
        namespace => format!("{kind}/{namespace}/{name}"),
    }
}

/// The rule that a policy is, from its annotations and those of its template.
fn rule(id: String, annotations: &Value, template: Option<&PolicySource>) -> Rule {
    let template = template.and_then(|it| it.object.path(&["metadata", "annotations"]));
    let text = |name: &str| {
        let of = |annotations: &Value| annotations.get(name)?.as_str().map(str::to_owned);
        of(annotations).or_else(|| of(template?)).unwrap_or_default()
    };
    let mut guidance = Guidance::of_annotations(annotations);
    if let Some(template) = template {
        let general = Guidance::of_annotations(template);
        for (own, general) in [
            (&mut guidance.owner, general.owner),
            (&mut guidance.remediation, general.remediation),
            (&mut guidance.docs_url, general.docs_url),
        ] {
            if own.is_empty() {
                *own = general;
            }
        }
    }
    Rule {
        title: text(TITLE),
        description: text(DESCRIPTION).trim().to_owned(),
        help_uri: guidance.docs_url.to_string(),
        owner: guidance.owner.to_string(),
        remediation: guidance.remediation.to_string(),
        ..Rule::policy(id)
    }
}

/// The template of a constraint's kind.
fn template<'s>(snapshot: &'s Snapshot, kind: &str) -> Option<&'s PolicySource> {
    snapshot.constraints().template_source(&kind.to_ascii_lowercase())
}

/// Adds what a decision found about an object.
pub(crate) fn decision(
    report: &mut Report,
    subject: &Subject,
    decision: &Decision,
    snapshot: &Snapshot,
) {
    let before = report.findings.len();
    let object = object_of(subject);
    let add = |report: &mut Report,
               rule: Rule,
               level,
               action: &str,
               (message, details): (&str, &Value)| {
        let rule = report.rule(rule);
        let (place, field) =
            place::of_violation(&subject.manifest, &subject.source, message, details);
        let finding = Finding::new(rule, level, message).at(place).about(object.clone());
        report.findings.push(Finding { action: action.to_owned(), field, ..finding });
    };
    let none = &Value::Null;
    for violation in &decision.violations {
        let id = rule_id(&violation.kind, "", &violation.constraint);
        let rule = rule(id, &violation.annotations, template(snapshot, &violation.kind));
        let said = (violation.message.as_str(), &violation.details);
        add(report, rule, level(violation), &violation.action, said);
    }
    for rejection in &decision.rejections {
        let Guidance { owner, remediation, docs_url } = &rejection.guidance;
        let rule = Rule {
            owner: owner.to_string(),
            remediation: remediation.to_string(),
            help_uri: docs_url.to_string(),
            ..Rule::policy(format!("ModRule/{}", rejection.rule))
        };
        let message = rejection.message.as_deref().unwrap_or("rejected, without a message");
        add(report, rule, Level::Error, "reject", (message, none));
    }
    for denial in &decision.denials {
        let rule = Rule::policy(rule_id(denial.kind.as_str(), "", &denial.policy));
        add(report, rule, Level::Error, "deny", (&denial.message, none));
    }
    for (action, remark) in &decision.remarks {
        let rule = Rule::policy(rule_id(remark.kind.as_str(), "", &remark.policy));
        let (level, action) = match action {
            ValidationAction::Warn => (Level::Warning, "warn"),
            _ => (Level::Note, AUDIT),
        };
        add(report, rule, level, action, (&remark.message, none));
    }
    for failure in decision.failures.iter().filter(|failure| !failure.rule.is_empty()) {
        let rule = Rule::policy(format!("ModRule/{}", failure.rule));
        let message = format!("{}: {}", failure.kind.log_message(), failure.message);
        add(report, rule, Level::Warning, "failed", (&message, none));
    }
    if !decision.allowed && report.findings.len() == before {
        let rule = Rule::policy("modgate/undecided");
        add(report, rule, Level::Error, "deny", (&decision.reason, none));
    }
    if report.findings.len() == before {
        let rule = report.rule(Rule::policy("modgate/objects"));
        report.passed.push(Passed { rule, name: subject.title() });
    }
}

/// How bad a violation of a constraint is.
fn level(violation: &constraint::Violation) -> Level {
    let has = |action: &str| violation.actions.iter().any(|it| it.as_str() == action);
    match (has("deny"), has("warn")) {
        (true, _) => Level::Error,
        (false, true) => Level::Warning,
        (false, false) => Level::Note,
    }
}

fn object_of(subject: &Subject) -> Object {
    let request = subject.review.request();
    let object = subject.review.object();
    let text = |path: &[&str]| object.and_then(|object| object.path(path)?.as_str()).unwrap_or("");
    let name = match request.name.as_str() {
        "" => text(&["metadata", "name"]),
        name => name,
    };
    let kind = match request.kind.kind.as_str() {
        "" => text(&["kind"]),
        kind => kind,
    };
    Object {
        group: request.kind.group.to_string(),
        version: request.kind.version.to_string(),
        kind: kind.to_owned(),
        namespace: subject.review.store_namespace().to_owned(),
        name: name.to_owned(),
    }
}

/// Adds the rule of a policy that an audit evaluated.
pub(crate) fn audited_rule(report: &mut Report, policy: &PolicyRef, snapshot: &Snapshot) -> usize {
    let id = rule_id(&policy.kind.kind, &policy.namespace, &policy.name);
    let is_constraint = policy.kind.group == constraints::GROUP;
    let template = is_constraint.then(|| template(snapshot, &policy.kind.kind)).flatten();
    report.rule(rule(id, &policy.annotations, template))
}

/// Adds what an audit found about an object.
pub(crate) fn audited(
    report: &mut Report,
    violation: &Violation,
    origin: Option<&(Manifest, Source)>,
    snapshot: &Snapshot,
) {
    let rule = audited_rule(report, &violation.policy, snapshot);
    let level = match severity(violation) {
        FailOn::Deny => Level::Error,
        FailOn::Warn => Level::Warning,
        FailOn::Dryrun | FailOn::None => Level::Note,
    };
    let ObjectRef { kind, namespace, name, .. } = &*violation.subject;
    let object = Object {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        kind: kind.kind.to_string(),
        namespace: namespace.to_string(),
        name: name.to_string(),
    };
    let place = origin.map(|(manifest, source)| {
        place::of_violation(manifest, source, &violation.message, &violation.details)
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
