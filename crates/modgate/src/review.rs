//! `modgate review`: evaluates policies against objects, in the order of the API server:
//! MutatingAdmissionPolicies, Gatekeeper's mutators, ModRules, ValidatingAdmissionPolicies,
//! constraints.

use std::io::Write;

use anyhow::Result;
use modgate_engine::{
    Decision, Evaluation, NoopObserver, Observer, Plan, Review, Snapshot, Stages, Trace,
    admissionpolicy::Denial,
    constraint::{Arena, Violation},
    jsonpatch,
};
use modgate_policies::PolicySet;
use modgate_report::about_policies;
use modgate_value::{
    Value,
    json::{self, Escape},
    yaml,
};
use similar::{ChangeTag, TextDiff};

use crate::{
    args::{ReviewArgs, ReviewOutput},
    constraints,
    exit::Exit,
    findings,
    inputs::{self, Inputs, Subject},
    outputs::Outputs,
    page,
    terminal::{Terminal, Tone, printable},
};

/// Runs the verb.
pub(crate) fn run(args: &ReviewArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(args.report.quiet);
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let Some(inputs) = inputs::read(&args.policies, &args.subjects, terminal)? else {
        let mut report = findings::report(&terminal.heard());
        report.complete = false;
        outputs.failed(&report)?;
        outputs.finish()?;
        return Ok(Exit::BadInput);
    };
    let mut report = findings::report(&terminal.heard());
    report.complete = !inputs.incomplete;
    let snapshot = &inputs.world.snapshot;
    let mut results = Vec::new();
    let mut counts = Counts::default();
    let mut arena = Arena::new();
    for sink in outputs.iter_mut().filter(|sink| sink.format == ReviewOutput::Html) {
        html(sink, args, &inputs, &mut arena)?;
    }
    for subject in &inputs.subjects {
        let decision = decide(&inputs.world, &subject.review, &mut arena, &mut NoopObserver);
        counts.add(&decision);
        tell_defaults(&inputs.world, subject, &decision, terminal);
        findings::decision(&mut report, subject, &decision, snapshot);
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
        if args.output.iter().any(|output| output.format == ReviewOutput::Json) {
            results.push(result(subject, &decision, snapshot));
        }
    }
    let results = results.into_iter().chain(about_policies(&report)).collect();
    for sink in outputs.iter_mut().filter(|sink| sink.format == ReviewOutput::Json) {
        print_json(sink, &results)?;
    }
    outputs.report(&report)?;
    outputs.finish()?;
    if counts.objects > 1 {
        terminal.note(counts.summary(snapshot.policies().count()));
    }
    Ok(findings::exit(&report, &args.report, terminal))
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

/// The page of a review: of every object the decision, what changed, and why.
fn html(
    out: &mut impl Write,
    args: &ReviewArgs,
    inputs: &Inputs,
    arena: &mut Arena,
) -> Result<Exit> {
    let world = &inputs.world;
    let mut exit = Exit::Success;
    let mut results = Vec::new();
    let mut subjects = page::Subjects::default();
    for subject in &inputs.subjects {
        let mut trace = Trace::default();
        let decision = decide(world, &subject.review, arena, &mut trace);
        if !decision.allowed {
            exit = Exit::Denied;
        }
        let request = subject.review.request();
        let before = subject.review.object().cloned().unwrap_or_default();
        let after = (!decision.patch.is_empty()).then_some(&decision.object);
        let shown = page::Subject {
            object: &before,
            namespace: &request.namespace,
            name: &request.name,
            place: subject.place.clone(),
            after,
        };
        let mut plan = Plan::of(&decision, &trace, world.snapshot.config());
        subjects.add(&shown, || page::explanation(&mut plan, &trace, page::Explained::Matching))?;
        results.push(page::result(result(subject, &decision, &world.snapshot)));
    }
    let mut page = page::new("review", &args.policies, &inputs.store, results.into());
    subjects.into_page(&mut page);
    out.write_all(page.html().as_bytes())?;
    Ok(exit)
}

/// Decides as the webhooks would one after the other, each for what its configuration as it is
/// installed lets through.
pub(crate) fn decide<O: Observer>(
    world: &PolicySet,
    review: &Review,
    arena: &mut Arena,
    observer: &mut O,
) -> Decision {
    let mut evaluation = Evaluation::new(&world.objects, &world.inventory, arena);
    world.snapshot.decide(review, Stages::ALL, &mut evaluation, observer)
}

/// Says where the cluster's own policies decide otherwise about the object with the API server's defaults,
/// because one of them reads a field that these fill.
pub(crate) fn tell_defaults(
    world: &PolicySet,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
) {
    let stored = inputs::as_stored(subject.review.clone());
    if world.snapshot.cluster_policies().is_empty() || stored.object() == subject.review.object() {
        return;
    }
    let with_defaults = decide(world, &stored, &mut Arena::new(), &mut NoopObserver);
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

/// Prints pretty JSON and a line break.
pub(crate) fn print_json(out: &mut impl Write, value: &Value) -> Result<()> {
    let mut text = String::new();
    json::write_pretty(value, &mut text, "  ", Escape::Minimal);
    Ok(writeln!(out, "{text}")?)
}

/// Denials and warnings where standard output has no place for them.
fn remark(subject: &Subject, decision: &Decision, terminal: &Terminal) {
    let title = subject.title();
    if !decision.allowed {
        terminal.line(format_args!("denied: {title}: {}", printable(&decision.reason)));
    }
    for warning in warnings(decision) {
        terminal.note(format_args!("warning: {title}: {warning}"));
    }
}

/// What the user should hear of besides the decision: warnings, and rules that could not do their
/// work.
fn warnings(decision: &Decision) -> impl Iterator<Item = String> + '_ {
    let told = |rule: &str, message: &str| {
        decision.warnings.iter().any(|warning| warning.contains(message) && warning.contains(rule))
    };
    let failures =
        decision.failures.iter().filter(move |failure| !told(&failure.rule, &failure.message)).map(
            |failure| match failure.rule.as_str() {
                "" => failure.message.clone(),
                rule => format!("{rule}: {}", failure.message),
            },
        );
    decision.warnings.iter().cloned().chain(failures).map(|warning| printable(&warning))
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
    // Constraints have said theirs.
    let told = |warning: &String| {
        let mut lines = violations.iter().map(Violation::line);
        lines.any(|line| printable(&line) == *warning)
    };
    for warning in warnings(decision).filter(|warning| !told(warning)) {
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
    let before = subject.review.object().map(yaml::write).unwrap_or_default();
    let after = yaml::write(&decision.object);
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
