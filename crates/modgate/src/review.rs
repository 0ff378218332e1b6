//! `modgate review`: evaluates policies against objects, in the order of the API server:
//! MutatingAdmissionPolicies, Gatekeeper's mutators, ModRules, ValidatingAdmissionPolicies,
//! constraints.

use std::io::Write;

use anyhow::Result;
use modgate_engine::{
    Decision, Faults, NoopObserver, Plan, Snapshot, Trace,
    api::secrets::SecretValues,
    constraint::{Arena, Violation},
    jsonpatch,
};
use modgate_report::about_policies;
use modgate_review::{
    decision::{result, texts, without_secrets},
    findings::{decision as report_decision, report as new_report},
    subject::Subject,
};
use modgate_value::{Value, yaml};
use similar::{ChangeTag, TextDiff};

use crate::{
    args::{ReviewArgs, ReviewOutput},
    constraints,
    decision::{decide, faults, headline, not_evaluated, note_defaults, reason},
    exit::Exit,
    findings,
    inputs::{self, Inputs},
    outputs::{Outputs, print_json},
    page,
    terminal::{Terminal, Tone, one_line, printable},
};

/// Runs the verb.
pub(crate) fn run(args: &ReviewArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(args.report.quiet);
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let Some(inputs) = inputs::read(&args.policies, &args.subjects, terminal)? else {
        let mut report = new_report(&terminal.heard());
        args.report.help_base.show_in(&mut report);
        report.complete = false;
        list(&mut outputs, about_policies(&report))?;
        outputs.report(&report)?;
        outputs.finish()?;
        return Ok(Exit::BadInput);
    };
    let mut report = new_report(&terminal.heard());
    args.report.help_base.show_in(&mut report);
    report.complete = !inputs.incomplete;
    let snapshot = &inputs.policy_set.snapshot;
    let mut results = Vec::new();
    let mut counts = Counts::default();
    let mut arena = Arena::new();
    let is_wanted = |format| args.output.iter().any(|output| output.format == format);
    let secrets = inputs.secrets();
    let mut page = is_wanted(ReviewOutput::Html).then(|| ReviewPage::new(inputs.secrets()));
    for subject in &inputs.subjects {
        let policies = &inputs.policy_set;
        let decision = match &mut page {
            Some(page) => {
                let mut trace = Trace::default();
                let decision = decide(policies, &subject.review, &mut arena, &mut trace);
                page.add(subject, &decision, &trace, snapshot)?;
                decision
            }
            None => decide(policies, &subject.review, &mut arena, &mut NoopObserver),
        };
        counts.add(&decision);
        note_defaults(policies, subject, &decision, terminal);
        // These have no places of fields. A second evaluation, which records what policies read, costs much more than
        // the first (docs/performance.md).
        let marks = args.output.iter().any(|it| {
            use ReviewOutput::{Diff, Patch, Text, Yaml};
            !matches!(it.format, Diff | Patch | Text | Yaml)
        });
        let faults = match marks {
            true => faults(policies, subject, &decision, &mut arena),
            false => Faults::default(),
        };
        report_decision(&mut report, subject, &decision, (snapshot, &faults));
        let printed = outputs.on_stdout();
        if printed.is_some_and(|it| !matches!(it, ReviewOutput::Text | ReviewOutput::Json)) {
            remark(subject, &decision, terminal);
        }
        for sink in outputs.iter_mut() {
            let plain = sink.terminal.again();
            match sink.format {
                ReviewOutput::Text if args.report.quiet && !is_notable(&decision) => {}
                ReviewOutput::Text => in_words(sink, subject, &decision, snapshot, &plain)?,
                ReviewOutput::Yaml if decision.allowed => {
                    if counts.documents() > 1 {
                        writeln!(sink, "---")?;
                    }
                    write!(sink, "{}", yaml::write(&decision.object))?;
                }
                ReviewOutput::Patch => writeln!(sink, "{}", jsonpatch::to_value(&decision.patch))?,
                ReviewOutput::Diff => diff(sink, subject, &decision, &plain)?,
                _ => {}
            }
        }
        if is_wanted(ReviewOutput::Json) {
            results.push(without_secrets(result(subject, &decision, snapshot), &secrets));
        }
    }
    results.extend(about_policies(&report));
    list(&mut outputs, results)?;
    if let Some(page) = page {
        let html = page.html(args, &inputs);
        for sink in outputs.iter_mut().filter(|sink| sink.format == ReviewOutput::Html) {
            sink.write_all(html.as_bytes())?;
        }
    }
    outputs.report(&report)?;
    outputs.finish()?;
    if counts.objects > 1 {
        terminal.note(counts.summary(snapshot.policies().count()));
    }
    Ok(findings::exit(&report, &args.report, terminal))
}

/// Writes the JSON list of a review, results and findings about policies.
fn list(outputs: &mut Outputs<ReviewOutput>, results: Vec<Value>) -> Result<()> {
    let results = Value::from(results);
    for sink in outputs.iter_mut().filter(|sink| sink.format == ReviewOutput::Json) {
        print_json(sink, &results)?;
    }
    Ok(())
}

/// Whether a decision is more than "allowed".
fn is_notable(decision: &Decision) -> bool {
    !decision.allowed || !decision.violations.is_empty()
}

/// The decisions of a run.
#[derive(Default)]
struct Counts {
    objects: usize,
    denied: usize,
    patched: usize,
}

impl Counts {
    fn add(&mut self, decision: &Decision) {
        self.objects += 1;
        self.denied += usize::from(!decision.allowed);
        self.patched += usize::from(decision.allowed && !decision.patch.is_empty());
    }

    /// How many objects are allowed, hence printed as documents.
    fn documents(&self) -> usize {
        self.objects - self.denied
    }

    /// `3 objects: 1 denied, 1 patched, 1 allowed; 2 policies`
    fn summary(&self, policies: usize) -> String {
        let allowed = self.objects - self.denied - self.patched;
        let plural = if policies == 1 { "policy" } else { "policies" };
        format!(
            "{} objects: {} denied, {} patched, {allowed} allowed; {policies} {plural}",
            self.objects, self.denied, self.patched
        )
    }
}

/// A decision for people.
fn in_words(
    out: &mut impl Write,
    subject: &Subject,
    decision: &Decision,
    snapshot: &Snapshot,
    terminal: &Terminal,
) -> Result<()> {
    headline(out, subject, decision, terminal)?;
    constraints::violations(out, &decision.violations, snapshot, terminal)?;
    not_evaluated(out, decision, snapshot, terminal)?;
    text(out, subject, decision, terminal)
}

/// The page of a review: the decision about every object, the changes, and why.
struct ReviewPage {
    results: Vec<Value>,
    subjects: page::Subjects,
}

impl ReviewPage {
    fn new(secrets: SecretValues) -> Self {
        Self { results: Vec::new(), subjects: page::Subjects::new(secrets) }
    }

    fn add(
        &mut self,
        subject: &Subject,
        decision: &Decision,
        trace: &Trace,
        snapshot: &Snapshot,
    ) -> Result<()> {
        let request = subject.review.request();
        let before = subject.review.object().cloned().unwrap_or_default();
        let after = (!decision.patch.is_empty()).then_some(&decision.object);
        let shown = page::Subject {
            object: &before,
            is_secret: subject.review.is_secret(),
            namespace: &request.namespace,
            name: &request.name,
            place: subject.place.clone(),
            after,
        };
        let mut plan = Plan::of(decision, trace, snapshot.config());
        self.subjects
            .add(&shown, || page::explanation(&mut plan, trace, page::Explained::Matching))?;
        self.results.push(page::result(result(subject, decision, snapshot)));
        Ok(())
    }

    fn html(self, args: &ReviewArgs, inputs: &Inputs) -> String {
        let mut page = page::new("review", &args.policies, &inputs.store, self.results.into());
        self.subjects.into_page(&mut page);
        page.html()
    }
}

/// Denials and warnings where standard output has no place for them.
fn remark(subject: &Subject, decision: &Decision, terminal: &Terminal) {
    let title = subject.title();
    if !decision.allowed {
        terminal.line(format_args!("denied: {title}: {}", one_line(&decision.reason)));
    }
    for warning in warnings(decision) {
        terminal.note(format_args!("warning: {title}: {warning}"));
    }
}

/// Notes besides the decision: warnings, and rules that could not do their
/// work.
fn warnings(decision: &Decision) -> impl Iterator<Item = String> + '_ {
    let is_warned = |rule: &str, message: &str| {
        decision.warnings.iter().any(|warning| warning.contains(message) && warning.contains(rule))
    };
    let failures = decision
        .failures
        .iter()
        .filter(move |failure| !is_warned(&failure.rule, &failure.message))
        .map(|failure| match failure.rule.as_str() {
            "" => failure.message.clone(),
            rule => format!("{rule}: {}", failure.message),
        });
    decision.warnings.iter().cloned().chain(failures).map(|warning| printable(&warning))
}

fn text(
    out: &mut impl Write,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
) -> Result<()> {
    let violations = &decision.violations;
    for rejection in &decision.rejections {
        writeln!(out, "  rejected by {}", printable(&rejection.to_string()))?;
    }
    for denial in decision.denials.iter().skip(1) {
        writeln!(out, "  also: {}", printable(&denial.to_string()))?;
    }
    for (key, value) in &decision.audit_annotations {
        writeln!(out, "  audit annotation {}: {}", printable(key), printable(value))?;
    }
    reason(out, decision)?;
    // Violations are printed already.
    let is_violation = |warning: &String| {
        let mut lines = violations.iter().map(Violation::line);
        lines.any(|line| printable(&line) == *warning)
    };
    for warning in warnings(decision).filter(|warning| !is_violation(warning)) {
        writeln!(out, "  {}: {warning}", terminal.paint(Tone::Notice, "warning"))?;
    }
    if decision.allowed && !decision.patch.is_empty() {
        hunks(out, subject, decision, terminal, "  ")?;
    }
    Ok(())
}

fn diff(
    out: &mut impl Write,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
) -> Result<()> {
    if !decision.allowed || decision.patch.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", terminal.paint(Tone::Heading, format_args!("--- {}", subject.place)))?;
    writeln!(
        out,
        "{}",
        terminal.paint(Tone::Heading, format_args!("+++ {} (patched)", subject.title()))
    )?;
    hunks(out, subject, decision, terminal, "")
}

/// The changes as a unified diff with three lines of context, each line after `margin`.
fn hunks(
    out: &mut impl Write,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
    margin: &str,
) -> Result<()> {
    let (before, after) = texts(subject, decision);
    let changes = TextDiff::from_lines(&before, &after);
    for hunk in changes.unified_diff().context_radius(3).iter_hunks() {
        writeln!(out, "{margin}{}", terminal.paint(Tone::Faint, hunk.header()))?;
        for change in hunk.iter_changes() {
            let line = printable(change.value().trim_end_matches('\n'));
            match change.tag() {
                ChangeTag::Equal => writeln!(out, "{margin} {line}")?,
                ChangeTag::Delete => {
                    let line = terminal.paint(Tone::Bad, format_args!("-{line}")).to_string();
                    writeln!(out, "{margin}{line}")?;
                }
                ChangeTag::Insert => {
                    let line = terminal.paint(Tone::Good, format_args!("+{line}")).to_string();
                    writeln!(out, "{margin}{line}")?;
                }
            }
        }
    }
    Ok(())
}
