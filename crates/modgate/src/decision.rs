//! Decides about an object, and prints what several verbs print of a decision.

use std::io::Write;

use anyhow::Result;
use modgate_engine::{
    Decision, Evaluation, Faults, Observer, Review, Snapshot, Stages, constraint::Arena,
};
use modgate_policies::PolicySet;
use modgate_review::{decision::skipped, findings, notes, subject::Subject};

use crate::terminal::{Terminal, Tone, printable};

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

/// The fields that policies read last before they objected to an object.
pub(crate) fn faults(
    policy_set: &PolicySet,
    subject: &Subject,
    decision: &Decision,
    arena: &mut Arena,
) -> Faults {
    let mut evaluation = Evaluation::new(&policy_set.objects, &policy_set.inventory, arena);
    findings::faults(&policy_set.snapshot, subject, decision, &mut evaluation)
}

/// Notes where the cluster's own policies decide differently about the object with the API server's
/// defaults.
pub(crate) fn note_defaults(
    policy_set: &PolicySet,
    subject: &Subject,
    decision: &Decision,
    terminal: &Terminal,
) {
    let PolicySet { snapshot, objects, inventory } = policy_set;
    if let Some(note) = notes::about_defaults(snapshot, objects, inventory, subject, decision) {
        terminal.note(note);
    }
}

/// A line for each stage that has policies and was not evaluated.
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
