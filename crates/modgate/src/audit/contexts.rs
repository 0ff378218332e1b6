//! An audit of several clusters at once, with a column for the context and totals.

use std::{io::Write, thread};

use anyhow::{Result, ensure};
use modgate_audit::Totals;
use modgate_policies::PolicySet;
use modgate_report::about_policies;
use modgate_value::Value;

use super::{AuditFindings, cluster, report};
use crate::{
    args::{AuditCommandArgs, AuditOutput, Grouping},
    exit::Exit,
    findings, inputs,
    outputs::{Outputs, print_json},
    terminal::{Terminal, Tone, printable},
};

/// Contexts of one audit.
const MAX_CONTEXTS: usize = 100;

/// Audits the cluster of each context.
pub(super) fn run(args: &AuditCommandArgs, terminal: &Terminal) -> Result<Exit> {
    let is_shown =
        |format| matches!(format, AuditOutput::Text | AuditOutput::Json | AuditOutput::Jsonl);
    ensure!(
        args.output.iter().all(|output| is_shown(output.format)),
        "with --contexts the formats are text, json and jsonl"
    );
    ensure!(args.contexts.len() <= MAX_CONTEXTS, "give at most {MAX_CONTEXTS} contexts");
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let config = args.policies.engine.config(&args.namespace);
    let paths = args.paths();
    let objects = inputs::Objects::read(&paths)?;
    let read =
        inputs::read_policies(&args.policies, &paths, config, objects.definitions(), terminal)?;
    let Some((_, policy_set)) = read else { return Ok(Exit::BadInput) };
    let audited = all(args, &policy_set, terminal);
    let mut exit = Exit::Success;
    let heard = terminal.heard();
    for (context, found) in &audited {
        match found {
            Ok(found) => {
                let whole = report::report(found, None, &heard, &policy_set.snapshot);
                exit = exit.max(findings::exit(&whole, &args.report, terminal));
            }
            Err(error) => {
                terminal.error(&format!("context `{}`: {error:#}", printable(context)));
                exit = Exit::BadInput;
            }
        }
    }
    let found: Vec<(&str, &AuditFindings)> = audited
        .iter()
        .filter_map(|(context, found)| Some((*context, found.as_ref().ok()?)))
        .collect();
    let about = about_policies(&modgate_review::findings::report(&heard));
    for sink in outputs.iter_mut() {
        let plain = sink.terminal.again();
        match sink.format {
            AuditOutput::Json => print_json(sink, &document(&found, args, &about))?,
            AuditOutput::Jsonl => lines(sink, &found, args)?,
            _ => text(sink, &found, args, &plain)?,
        }
    }
    outputs.finish()?;
    Ok(exit)
}

/// The findings in each cluster, in the order of the contexts.
fn all<'a>(
    args: &'a AuditCommandArgs,
    policy_set: &PolicySet,
    terminal: &Terminal,
) -> Vec<(&'a str, Result<AuditFindings>)> {
    thread::scope(|scope| {
        let running: Vec<_> = args
            .contexts
            .iter()
            .map(|context| {
                let of_context =
                    AuditCommandArgs { context: Some(context.clone()), ..args.clone() };
                let policy_set = policy_set.clone();
                let terminal = terminal.again();
                let audit = move || cluster::audit(&of_context, policy_set, &terminal);
                (context.as_str(), scope.spawn(audit))
            })
            .collect();
        let joined = running.into_iter().map(|(context, thread)| {
            let panicked = |_| Err(anyhow::anyhow!("the audit panicked; please report it"));
            (context, thread.join().unwrap_or_else(panicked))
        });
        joined.collect()
    })
}

/// A row for each group of violations, then a row of totals for each context and for all of them.
fn text(
    out: &mut impl Write,
    found: &[(&str, &AuditFindings)],
    args: &AuditCommandArgs,
    terminal: &Terminal,
) -> Result<()> {
    let what = match args.by {
        Grouping::Constraint => "POLICY",
        Grouping::Namespace => "NAMESPACE",
    };
    let mut rows = vec![["CONTEXT".to_owned(), "VIOLATIONS".to_owned(), what.to_owned()]];
    for (context, found) in found {
        for group in report::groups(found, args.by) {
            if !group.violations.is_empty() {
                let count = group.violations.len().to_string();
                let title = printable(&group.title);
                rows.push([printable(context), count, title]);
            }
        }
    }
    table(out, &rows, terminal)?;
    writeln!(out)?;
    let head = ["CONTEXT", "OBJECTS", "VIOLATIONS", "DENY", "WARN", "DRYRUN", "OTHER", "ERRORS"];
    let mut rows = vec![head.map(str::to_owned)];
    let mut sums = [0; 7];
    for (context, found) in found {
        let figures = figures(found);
        sums.iter_mut().zip(figures).for_each(|(sum, figure)| *sum += figure);
        rows.push(row(&printable(context), figures));
    }
    rows.push(row("all", sums));
    table(out, &rows, terminal)
}

/// Objects, violations, those that deny, warn, are dry runs and the others, and errors.
fn figures(found: &AuditFindings) -> [u64; 7] {
    let Totals { deny, warn, dryrun, .. } = found.report.totals;
    let all = found.report.totals.sum();
    let counts = found.report.counts;
    let others = all.saturating_sub(deny + warn + dryrun);
    [counts.objects, all, deny, warn, dryrun, others, counts.errors]
}

fn row(context: &str, figures: [u64; 7]) -> [String; 8] {
    let [a, b, c, d, e, f, g] = figures.map(|figure| figure.to_string());
    [context.to_owned(), a, b, c, d, e, f, g]
}

fn table<const N: usize>(
    out: &mut impl Write,
    rows: &[[String; N]],
    terminal: &Terminal,
) -> Result<()> {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        match index {
            0 => writeln!(out, "{}", terminal.paint(Tone::Heading, line.trim_end()))?,
            _ => writeln!(out, "{}", line.trim_end())?,
        }
    }
    Ok(())
}

/// The document of each audit, and totals.
fn document(found: &[(&str, &AuditFindings)], args: &AuditCommandArgs, about: &[Value]) -> Value {
    let mut sums = [0; 7];
    let contexts = found.iter().map(|(context, found)| {
        sums.iter_mut().zip(figures(found)).for_each(|(sum, figure)| *sum += figure);
        let mut members = report::value(found, args, &[]).as_object().cloned().unwrap_or_default();
        members.insert("context", Value::from(*context));
        Value::from(members)
    });
    let contexts: Value = contexts.collect();
    let names = ["objects", "violations", "deny", "warn", "dryrun", "other", "errors"];
    let number = |figure: u64| Value::from(i64::try_from(figure).unwrap_or(i64::MAX));
    let totals: Value = names.into_iter().zip(sums.map(number)).collect();
    let members = [("contexts", contexts), ("totals", totals)];
    let about = (!about.is_empty()).then(|| ("findings", about.iter().cloned().collect()));
    members.into_iter().chain(about).collect()
}

/// A line for each violation, with its context.
fn lines(
    out: &mut impl Write,
    found: &[(&str, &AuditFindings)],
    args: &AuditCommandArgs,
) -> Result<()> {
    for (context, found) in found {
        let mut text = Vec::new();
        report::lines(&mut text, found, args)?;
        for line in String::from_utf8_lossy(&text).lines() {
            let violation = Value::from_json(line.as_bytes()).ok();
            let mut members = violation.and_then(|it| it.as_object().cloned()).unwrap_or_default();
            members.insert("context", Value::from(*context));
            writeln!(out, "{}", Value::from(members))?;
        }
    }
    Ok(())
}
