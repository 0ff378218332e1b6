//! Findings about objects and policies, for reports.

use std::collections::BTreeSet;

use modgate_engine::{
    Code, Decision, Evaluation, Faults, PolicyId, PolicySource, Snapshot,
    admissionpolicy::{PolicyKind, ValidationAction},
    api::modrule,
    constraint,
    guidance::Guidance,
};
use modgate_report::{Finding, Level, Object, Passed, Report, Rule};
use modgate_value::{Value, diag::Diagnostic};

use crate::{place, subject::Subject};

/// The action of the cluster's own policies that only records.
const AUDIT: &str = "audit";
/// The annotation with the title of a policy, as Gatekeeper's library has it.
const TITLE: &str = "metadata.gatekeeper.sh/title";
/// The description of findings without a code.
const UNREADABLE: &str = "A policy, a suite or an object that cannot be read or does not load.";
/// The annotation with its description.
const DESCRIPTION: &str = "description";

/// Adds a finding about a policy or a file, with a rule that explains its code.
pub fn diagnostic_of(report: &mut Report, diagnostic: &Diagnostic) {
    report.diagnostic(diagnostic);
    let Some(rule) = report.findings.last().and_then(|it| report.rules.get_mut(it.rule)) else {
        return;
    };
    if rule.description.is_empty() {
        let known = Code::ALL.iter().find(|code| code.as_str() == rule.id);
        let text = known.map_or(UNREADABLE, |code| code.explanation());
        text.trim().clone_into(&mut rule.description);
    }
}

/// A report of this version, with what was printed about policies and files.
pub fn report(heard: &[Diagnostic]) -> Report {
    let mut report = Report::new(env!("CARGO_PKG_VERSION"));
    heard.iter().for_each(|diagnostic| diagnostic_of(&mut report, diagnostic));
    report
}

/// `Kind/name` or `Kind/namespace/name`.
pub fn rule_id(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("{kind}/{name}"),
        namespace => format!("{kind}/{namespace}/{name}"),
    }
}

/// The rule that a policy is, from its annotations and those of its template.
pub fn rule(id: String, annotations: &Value, template: Option<&PolicySource>) -> Rule {
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
pub fn template<'s>(snapshot: &'s Snapshot, kind: &str) -> Option<&'s PolicySource> {
    snapshot.constraints().template_source(&kind.to_ascii_lowercase())
}

/// The id of a ModRule, from `namespace/name`.
fn modrule_id(label: &str) -> PolicyId {
    let (namespace, name) = label.split_once('/').unwrap_or(("", label));
    PolicyId {
        group: modrule::GROUP.into(),
        kind: modrule::KIND.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}

/// The fields that the policies of a decision read last before they objected. Only those policies are
/// evaluated again.
pub fn faults(
    snapshot: &Snapshot,
    subject: &Subject,
    decision: &Decision,
    evaluation: &mut Evaluation<'_>,
) -> Faults {
    let own = decision.violations.iter().filter(|it| it.resultant.is_none());
    let constraints = own.map(|it| PolicyId::of_constraint(&it.kind, &it.constraint));
    let rules = decision.rejections.iter().map(|it| modrule_id(&it.rule));
    let denials = decision.denials.iter().map(|it| (it.kind, &it.policy));
    let remarks = decision.remarks.iter().map(|(_, it)| (it.kind, &it.policy));
    let policies = denials.chain(remarks).filter(|(kind, _)| *kind == PolicyKind::Validating);
    let policies = policies.map(|(kind, name)| kind.id(name));
    let ids: BTreeSet<PolicyId> = constraints.chain(rules).chain(policies).collect();
    if ids.is_empty() {
        return Faults::default();
    }
    let review = subject.review.clone().with_object(decision.object.clone());
    snapshot.faults(&review, &ids, evaluation)
}

/// Adds what a decision found about an object; `faults` has the fields that policies read.
pub fn decision(
    report: &mut Report,
    subject: &Subject,
    decision: &Decision,
    (snapshot, faults): (&Snapshot, &Faults),
) {
    let before = report.findings.len();
    let object = object_of(subject);
    let add = |report: &mut Report,
               rule: Rule,
               level,
               action: &str,
               said: (&str, &Value),
               id: Option<PolicyId>| {
        let rule = report.rule(rule);
        let (message, _) = said;
        let read = id.as_ref().and_then(|id| faults.field(id, message));
        let (place, field) = place::of_violation(&subject.manifest, &subject.source, said, read);
        let finding = Finding::new(rule, level, message).at(place).about(object.clone());
        report.findings.push(Finding { action: action.to_owned(), field, ..finding });
    };
    let none = &Value::Null;
    for violation in &decision.violations {
        let id = rule_id(&violation.kind, "", &violation.constraint);
        let rule = rule(id, &violation.annotations, template(snapshot, &violation.kind));
        let said = (violation.message.as_str(), &violation.details);
        let id = PolicyId::of_constraint(&violation.kind, &violation.constraint);
        add(report, rule, level(violation), &violation.action, said, Some(id));
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
        let id = modrule_id(&rejection.rule);
        add(report, rule, Level::Error, "reject", (message, none), Some(id));
    }
    for denial in &decision.denials {
        let rule = Rule::policy(rule_id(denial.kind.as_str(), "", &denial.policy));
        let id = denial.kind.id(&denial.policy);
        add(report, rule, Level::Error, "deny", (&denial.message, none), Some(id));
    }
    for (action, remark) in &decision.remarks {
        let rule = Rule::policy(rule_id(remark.kind.as_str(), "", &remark.policy));
        let (level, action) = match action {
            ValidationAction::Warn => (Level::Warning, "warn"),
            _ => (Level::Note, AUDIT),
        };
        let id = remark.kind.id(&remark.policy);
        add(report, rule, level, action, (&remark.message, none), Some(id));
    }
    for failure in decision.failures.iter().filter(|failure| !failure.rule.is_empty()) {
        let rule = Rule::policy(format!("ModRule/{}", failure.rule));
        let message = format!("{}: {}", failure.kind.log_message(), failure.message);
        add(report, rule, Level::Warning, "failed", (&message, none), None);
    }
    if !decision.allowed && report.findings.len() == before {
        let rule = Rule::policy("modgate/undecided");
        add(report, rule, Level::Error, "deny", (&decision.reason, none), None);
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
        generate_name: text(&["metadata", "generateName"]).to_owned(),
    }
}
