//! The findings of an audit, for people and as a document.

use std::io::Write;

use anyhow::Result;
use modgate_audit::{ObjectRef, PolicyRef, Violation, place};
use modgate_engine::{Faults, Snapshot};
use modgate_export::violation_line;
use modgate_value::{Value, diag::Diagnostic};

use super::{AuditFindings, baseline::Compared, kind_value};
use crate::{
    args::{AuditCommandArgs, FailOn, Grouping},
    findings::{self, severity},
    terminal::{self, Terminal, Tone, one_line, printable},
};

/// Violations to show for each group without `--limit`.
const SHOWN: usize = 20;

/// Violations that stand together.
pub(crate) struct Group<'f> {
    /// Their common part, in words.
    pub(crate) title: String,
    pub(crate) violations: Vec<Listed<'f>>,
}

/// A violation of a group.
#[derive(Clone, Copy)]
pub(crate) struct Listed<'f> {
    violation: &'f Violation,
    /// Whether the baseline lacks it; `None` without a baseline.
    is_new: Option<bool>,
}

/// All violations in groups, in the order of what they have in common. Constraints without violations
/// have a group, too.
pub(crate) fn groups<'f>(found: &'f AuditFindings, by: Grouping) -> Vec<Group<'f>> {
    let mut groups: Vec<Group<'f>> = match by {
        Grouping::Namespace => Vec::new(),
        Grouping::Constraint => {
            let by_policy = found.report.by_policy.iter();
            by_policy
                .map(|report| Group { title: policy_title(&report.policy), violations: Vec::new() })
                .collect()
        }
    };
    for (index, violation) in found.violations.iter().enumerate() {
        let is_new = found.compared.as_ref().map(|compared| compared.is_new(index));
        let listed = Listed { violation, is_new };
        let title = match by {
            Grouping::Constraint => policy_title(&violation.policy),
            Grouping::Namespace => match violation.subject.namespace.as_str() {
                "" => "cluster-scoped objects".to_owned(),
                namespace => format!("namespace {namespace}"),
            },
        };
        match groups.iter_mut().find(|group| group.title == title) {
            Some(group) => group.violations.push(listed),
            None => groups.push(Group { title, violations: vec![listed] }),
        }
    }
    groups.sort_by(|a, b| a.title.cmp(&b.title));
    groups
}

/// `K8sRequiredLabels must-have-owner`
pub(crate) fn policy_title(policy: &PolicyRef) -> String {
    match policy.namespace.as_str() {
        "" => format!("{} {}", policy.kind.kind, policy.name),
        namespace => format!("{} {namespace}/{}", policy.kind.kind, policy.name),
    }
}

/// `Deployment shop/web`
pub(crate) fn title(subject: &ObjectRef) -> String {
    let ObjectRef { kind, namespace, name, generate_name, .. } = subject;
    one_line(&modgate_report::title(&kind.kind, namespace, name, generate_name))
}

/// Findings for machines: every policy is a rule, and those without violations passed.
pub(super) fn report(
    found: &AuditFindings,
    limit: Option<usize>,
    heard: &[Diagnostic],
    snapshot: &Snapshot,
) -> modgate_report::Report {
    let unknown = Faults::default();
    let mut report = modgate_review::findings::report(heard);
    report.complete = !found.incomplete && found.report.counts.errors == 0;
    for summary in &found.report.by_policy {
        findings::audited_rule(&mut report, &summary.policy, snapshot);
    }
    for group in groups(found, Grouping::Constraint) {
        for Listed { violation, .. } in group.violations.iter().take(limit.unwrap_or(usize::MAX)) {
            let place = place(&violation.subject.origin, violation.subject.position);
            let origin = found.documents.get(&place);
            let faults = found.faults.get(&place).unwrap_or(&unknown);
            findings::audited(&mut report, violation, origin, (snapshot, faults));
        }
    }
    report
}

/// For people.
pub(super) fn text(
    out: &mut impl Write,
    found: &AuditFindings,
    args: &AuditCommandArgs,
    terminal: &Terminal,
) -> Result<()> {
    let limit = args.limit.unwrap_or(SHOWN);
    for group in groups(found, args.by) {
        if group.violations.is_empty() {
            continue;
        }
        let new = group.violations.iter().filter(|it| it.is_new == Some(true)).count();
        let new = if new > 0 { format!(", {new} new") } else { String::new() };
        let count = counted(group.violations.len(), "violation");
        let heading = terminal.paint(Tone::Heading, printable(&group.title));
        writeln!(out, "{heading}: {count}{new}")?;
        for listed in group.violations.iter().take(limit) {
            violation(out, *listed, args.by, terminal)?;
        }
        if group.violations.len() > limit {
            writeln!(out, "  and {} more", group.violations.len() - limit)?;
        }
        writeln!(out)?;
    }
    if let Some(compared) = &found.compared {
        fixed(out, compared, limit, terminal)?;
    }
    let totals = found.report.totals;
    let counts = found.report.counts;
    let mut parts: Vec<String> = Vec::new();
    let by_action = totals.by_action();
    let others = [
        ("of ModRules and mutators", totals.rules),
        ("of ValidatingAdmissionPolicies", totals.admission_policies),
    ];
    for (action, count) in by_action.iter().chain(&others) {
        if *count > 0 {
            parts.push(format!("{count} {action}"));
        }
    }
    let sum = usize::try_from(totals.sum()).unwrap_or(usize::MAX);
    let objects = usize::try_from(counts.objects).unwrap_or(usize::MAX);
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let (objects, violations) = (counted(objects, "object"), counted(sum, "violation"));
    writeln!(out, "{objects} audited, {violations}{parts}")?;
    if let Some(compared) = &found.compared {
        let (new, fixed) = (compared.new_ones(), compared.fixed.len());
        writeln!(out, "since the baseline: {new} new, {fixed} fixed")?;
    }
    if counts.errors > 0 {
        writeln!(
            out,
            "{} could not be evaluated completely",
            counted(counts.errors as usize, "object")
        )?;
    }
    Ok(())
}

/// The line of a violation.
fn violation(
    out: &mut impl Write,
    Listed { violation, is_new }: Listed<'_>,
    by: Grouping,
    terminal: &Terminal,
) -> Result<()> {
    let Violation { policy, subject, action, message, .. } = violation;
    let tone = match severity(violation) {
        FailOn::Deny => Tone::Bad,
        FailOn::Warn => Tone::Notice,
        FailOn::Dryrun | FailOn::None => Tone::Faint,
    };
    let of = match by {
        Grouping::Constraint => String::new(),
        Grouping::Namespace => format!(" [{}]", policy_title(policy)),
    };
    let place = terminal::place(&subject.origin, subject.position);
    let place = if place.is_empty() { place } else { format!(" ({place})") };
    write!(out, "  ")?;
    if is_new == Some(true) {
        write!(out, "{} ", terminal.paint(Tone::Heading, "new"))?;
    }
    writeln!(
        out,
        "{} {}:{} {}{}",
        terminal.paint(tone, action),
        printable(&title(subject)),
        printable(&of),
        printable(message),
        terminal.paint(Tone::Faint, printable(&place)),
    )?;
    Ok(())
}

/// The violations of the baseline that are no longer there.
fn fixed(
    out: &mut impl Write,
    compared: &Compared,
    limit: usize,
    terminal: &Terminal,
) -> Result<()> {
    if compared.fixed.is_empty() {
        return Ok(());
    }
    let count = counted(compared.fixed.len(), "violation");
    writeln!(out, "{}: {count}", terminal.paint(Tone::Heading, "fixed since the baseline"))?;
    for fixed in compared.fixed.iter().take(limit) {
        let text = |path: &[&str]| fixed.path(path).and_then(Value::as_str).unwrap_or_default();
        let named = |of: &str| {
            let name = text(&[of, "name"]);
            let name = match text(&[of, "namespace"]) {
                "" => name.to_owned(),
                namespace => format!("{namespace}/{name}"),
            };
            one_line(&format!("{} {name}", text(&[of, "kind"])))
        };
        let message = printable(text(&["message"]));
        writeln!(out, "  {}: [{}] {message}", named("object"), named("policy"))?;
    }
    if compared.fixed.len() > limit {
        writeln!(out, "  and {} more", compared.fixed.len() - limit)?;
    }
    writeln!(out)?;
    Ok(())
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A line for each violation.
pub(super) fn lines(
    out: &mut impl Write,
    found: &AuditFindings,
    args: &AuditCommandArgs,
) -> Result<()> {
    let limit = args.limit.unwrap_or(usize::MAX);
    for group in groups(found, args.by) {
        for Listed { violation, is_new } in group.violations.iter().take(limit) {
            // No name: the same violation has the same id the next time.
            let line = violation_line("", violation);
            let Some(is_new) = is_new else {
                writeln!(out, "{line}")?;
                continue;
            };
            let members = Value::from_json(line.as_bytes()).ok();
            let mut members = members.and_then(|it| it.as_object().cloned()).unwrap_or_default();
            members.insert("new", Value::from(*is_new));
            writeln!(out, "{}", Value::from(members).to_json())?;
        }
    }
    Ok(())
}

/// As a document; `about` are findings about policies.
pub(super) fn value(found: &AuditFindings, args: &AuditCommandArgs, about: &[Value]) -> Value {
    let limit = args.limit.unwrap_or(usize::MAX);
    let groups = groups(found, args.by).into_iter().map(|group| {
        let shown = group.violations.iter().take(limit).map(|listed| of_violation(*listed));
        object([
            ("title", group.title.as_str().into()),
            ("total", number(group.violations.len() as u64)),
            ("violations", shown.collect()),
        ])
    });
    let totals = found.report.totals;
    let mut by_action: Vec<(&str, Value)> =
        totals.by_action().iter().map(|(action, count)| (*action, number(*count))).collect();
    by_action.push(("rules", number(totals.rules)));
    by_action.push(("admissionPolicies", number(totals.admission_policies)));
    let counts = found.report.counts;
    let errors = found.report.errors.iter().map(|error| {
        object([("object", of_subject(&error.subject)), ("message", error.message.as_str().into())])
    });
    let groups: Value = groups.collect();
    let members = [
        ("groups", groups),
        ("totals", by_action.into_iter().collect()),
        ("objects", number(counts.objects)),
        ("excluded", number(counts.excluded)),
        ("errors", errors.collect()),
    ];
    let about = (!about.is_empty()).then(|| ("findings", about.iter().cloned().collect()));
    let compared = found.compared.as_ref().map(|compared| {
        let fixed = compared.fixed.iter().take(limit).cloned();
        let members = object([
            ("new", number(compared.new_ones() as u64)),
            ("fixed", number(compared.fixed.len() as u64)),
            ("fixedViolations", fixed.collect()),
        ]);
        ("baseline", members)
    });
    members.into_iter().chain(compared).chain(about).collect()
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

fn number(count: u64) -> Value {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}

fn of_violation(Listed { violation, is_new }: Listed<'_>) -> Value {
    let Violation { policy, subject, action, message, details, .. } = violation;
    let mut constraint: Vec<(&str, Value)> = kind_value(&policy.kind).into();
    if !policy.namespace.is_empty() {
        constraint.push(("namespace", policy.namespace.clone().into()));
    }
    constraint.push(("name", policy.name.clone().into()));
    let mut members = vec![
        ("policy", constraint.into_iter().collect::<Value>()),
        ("object", of_subject(subject)),
        ("enforcementAction", action.clone().into()),
        ("message", message.clone().into()),
        ("details", details.clone()),
    ];
    members.extend(is_new.map(|is_new| ("new", Value::from(is_new))));
    let actions = violation.scoped_actions();
    if !actions.is_empty() {
        let actions = actions.iter().map(|action| Value::from(action.as_str()));
        members.push(("enforcementActions", actions.collect()));
    }
    members.into_iter().collect()
}

fn of_subject(subject: &ObjectRef) -> Value {
    let mut members: Vec<(&str, Value)> = kind_value(&subject.kind).into();
    if !subject.namespace.is_empty() {
        members.push(("namespace", subject.namespace.clone().into()));
    }
    members.push(("name", subject.name.clone().into()));
    let place = place(&subject.origin, subject.position);
    if !place.is_empty() {
        members.push(("place", place.into()));
    }
    members.into_iter().collect()
}
