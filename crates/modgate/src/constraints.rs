//! Constraints on the terminal: what they found, and how they came to it.

use std::io::Write;

use anyhow::Result;
use modgate_engine::{
    Snapshot,
    constraint::{
        ConstraintKey, ConstraintOutcome, ConstraintTrace, ExpressionResult, ExpressionTrace,
        Violation,
    },
};

use crate::terminal::{Terminal, Tone, place, printable, shorten};

/// One line per violation: what it leads to, whose it is, what it says and where that stands.
pub(crate) fn violations(
    out: &mut impl Write,
    violations: &[Violation],
    snapshot: &Snapshot,
    terminal: &Terminal,
) -> Result<()> {
    for violation in violations {
        let denies = violation.actions.iter().any(|action| action.as_str() == "deny");
        let warns = violation.actions.iter().any(|action| action.as_str() == "warn");
        let (tone, what) = match (denies, warns) {
            (true, _) => (Tone::Bad, "denied by".to_owned()),
            (false, true) => (Tone::Notice, "warning of".to_owned()),
            (false, false) => (Tone::Faint, format!("{}, without effect, by", violation.action)),
        };
        let key =
            ConstraintKey { kind: violation.kind.clone(), name: violation.constraint.clone() };
        let source = snapshot.constraints().source(&key);
        let place = source.map(|source| place(&source.origin, source.position("")));
        writeln!(
            out,
            "  {} {} {}: {}{} {}",
            terminal.paint(tone, what),
            violation.kind,
            violation.constraint,
            printable(&violation.message),
            printable(&violation.guidance().to_string()),
            terminal.paint(Tone::Faint, format_args!("({})", place.unwrap_or_default())),
        )?;
    }
    Ok(())
}

/// How a constraint was decided.
pub(crate) fn explain(
    out: &mut impl Write,
    trace: &ConstraintTrace,
    terminal: &Terminal,
) -> Result<()> {
    let (tone, outcome) = match &trace.outcome {
        ConstraintOutcome::NotEvaluated(why) => (Tone::Faint, format!("not evaluated: {why}")),
        ConstraintOutcome::Excluded(exclusion) => {
            (Tone::Faint, format!("no match: {}", exclusion.found))
        }
        ConstraintOutcome::Undecided(_) => (Tone::Bad, "cannot be decided".to_owned()),
        ConstraintOutcome::Satisfied => (Tone::Good, "satisfied".to_owned()),
        ConstraintOutcome::Violated => (Tone::Bad, "violated".to_owned()),
        _ => (Tone::Notice, "unknown outcome".to_owned()),
    };
    writeln!(
        out,
        "\n  {} {} {}",
        terminal.paint(Tone::Heading, format_args!("{} {}", trace.policy.kind, trace.policy.name)),
        terminal.paint(tone, printable(&outcome)),
        terminal.paint(
            Tone::Faint,
            format_args!(
                "({}, {}, {})",
                trace.action,
                trace.engine,
                place(&trace.origin, trace.position)
            )
        ),
    )?;
    if let ConstraintOutcome::Excluded(exclusion) = &trace.outcome {
        writeln!(
            out,
            "    {} {} {} {}",
            terminal.paint(Tone::Bad, "no "),
            exclusion.field,
            shorten(&exclusion.wanted.to_json()),
            terminal
                .paint(Tone::Faint, format_args!("({})", place(&trace.origin, exclusion.position))),
        )?;
    }
    for violation in &trace.violations {
        writeln!(out, "    {} {}", terminal.paint(Tone::Bad, "violation:"), printable(violation))?;
    }
    if trace.expressions.is_empty() {
        return Ok(());
    }
    let parameters = shorten(&trace.parameters.to_json());
    writeln!(out, "    {}", terminal.paint(Tone::Faint, format_args!("parameters {parameters}")))?;
    let mut rule = "";
    for expression in &trace.expressions {
        if expression.rule != rule {
            rule = &expression.rule;
            writeln!(out, "    {}", terminal.paint(Tone::Faint, printable(rule)))?;
        }
        explain_expression(out, trace, expression, terminal)?;
    }
    if trace.omitted > 0 {
        writeln!(out, "    {} further expressions are not shown", trace.omitted)?;
    }
    Ok(())
}

fn explain_expression(
    out: &mut impl Write,
    trace: &ConstraintTrace,
    expression: &ExpressionTrace,
    terminal: &Terminal,
) -> Result<()> {
    let (tone, verdict, note) = match &expression.result {
        ExpressionResult::Held => (Tone::Good, "yes", String::new()),
        ExpressionResult::Failed => (Tone::Bad, "no ", String::new()),
        ExpressionResult::Mixed(held, failed) => {
            (Tone::Notice, "mix", format!("held {held} times and failed {failed} times"))
        }
        ExpressionResult::Value(value) => (Tone::Notice, "=  ", value.clone()),
        ExpressionResult::Error(error) => (Tone::Bad, "err", error.clone()),
        _ => (Tone::Notice, "?  ", String::new()),
    };
    let at = match expression.position {
        Some(_) => place(&trace.template_origin, expression.position),
        None => expression.module.clone(),
    };
    let at = if at.is_empty() { at } else { format!(" ({at})") };
    writeln!(
        out,
        "      {} {}{}",
        terminal.paint(tone, verdict),
        shorten(&expression.text),
        terminal.paint(Tone::Faint, at),
    )?;
    if !note.is_empty() {
        writeln!(out, "          {}", shorten(&note))?;
    }
    for (name, value) in &expression.values {
        writeln!(out, "          {} = {}", printable(name), shorten(value))?;
    }
    Ok(())
}
