//! `modgate explain`: why each policy matched, failed or was skipped.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    path::Path,
};

use anyhow::Result;
use modgate_engine::{
    Plan, PolicyId, Position, Trace,
    constraint::{Arena, ConstraintOutcome, ConstraintTrace},
    explain::{CriterionTrace, OperationTrace, RuleOutcome, RuleTrace},
};
use modgate_policies::manifest;
use modgate_report::Format;
use modgate_review::{
    decision::document,
    explain::{Shown, explained, is_named, is_satisfied, set_columns},
};
use modgate_value::{
    Value,
    diag::{Diagnostic, Source},
    near,
};

use crate::{
    args::{ExplainArgs, TextOrJson},
    constraints,
    decision::{decide, headline, not_evaluated, note_defaults, reason},
    exit::Exit,
    inputs::{self, Hiding},
    outputs::print_findings,
    plan, playground,
    terminal::{self, Terminal, Tone, printable, shorten},
};

/// Runs the verb.
pub(crate) fn run(args: &ExplainArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(args.quiet);
    if args.playground {
        return playground::print_address(args, terminal);
    }
    let Some(inputs) = inputs::read(&args.policies, &args.subjects, terminal)? else {
        if args.output == TextOrJson::Json {
            print_findings(&mut std::io::stdout().lock(), terminal, Format::Json)?;
        }
        return Ok(Exit::BadInput);
    };
    let mut exit = if inputs.incomplete { Exit::BadInput } else { Exit::Success };
    let policies: Vec<PolicyId> = inputs.policy_set.snapshot.policies().collect();
    for problem in args.rule.iter().filter_map(|name| unknown_policy(name, &policies)) {
        terminal.diagnostic(&problem);
        exit = Exit::BadInput;
    }
    let mut out = Hiding::new(inputs.secrets());
    let mut results = Vec::new();
    let mut arena = Arena::new();
    let mut templates = BTreeMap::new();
    let shown = Shown { named: &args.rule, all: args.all, folds: args.output == TextOrJson::Text };
    for (index, subject) in inputs.subjects.iter().enumerate() {
        let policy_set = &inputs.policy_set;
        let mut trace = Trace::default();
        let decision = decide(policy_set, &subject.review, &mut arena, &mut trace);
        set_columns(&mut trace.constraints, &mut templates, read_template);
        note_defaults(policy_set, subject, &decision, terminal);
        let mut rest = Plan::of(&decision, &trace, policy_set.snapshot.config());
        shown.limit(&mut rest);
        if !decision.allowed {
            exit = exit.max(Exit::Denied);
        }
        match args.output {
            TextOrJson::Text => {
                let constraints = trace.constraints.iter().filter(|it| shown.constraint(it));
                let mut constraints: Vec<&ConstraintTrace> = constraints.collect();
                constraints.sort_by_key(|trace| rank(trace));
                let mut rules: Vec<&RuleTrace> =
                    trace.modrules.iter().filter(|rule| shown.rule(rule)).collect();
                rules.sort_by_key(|rule| {
                    !matches!(rule.outcome, RuleOutcome::Failed(_) | RuleOutcome::Rejected(_))
                });
                if index > 0 {
                    writeln!(out)?;
                }
                headline(&mut out, subject, &decision, terminal)?;
                reason(&mut out, &decision)?;
                not_evaluated(&mut out, &decision, &policy_set.snapshot, terminal)?;
                for rule in &rules {
                    explain_rule(&mut out, rule, terminal)?;
                }
                for trace in &constraints {
                    constraints::explain(&mut out, trace, terminal)?;
                }
                let named = !args.rule.is_empty();
                plan::explain(&mut out, &rest, args.all, named, terminal)?;
                let implied = rest.resultants.steps.iter().flat_map(|it| &it.constraints);
                let traces = constraints.iter().copied().chain(implied);
                let shown: BTreeSet<&PolicyId> = traces.map(|trace| &trace.policy).collect();
                let all = trace.modrules.len() + trace.constraints.len();
                let hidden = all.saturating_sub(rules.len() + shown.len());
                if hidden > 0 {
                    let policies = if hidden == 1 { "policy" } else { "policies" };
                    let hint = if args.rule.is_empty() { ", `--all` shows them" } else { "" };
                    let satisfied = |it: &&ConstraintTrace| is_satisfied(it);
                    let satisfied = trace.constraints.iter().filter(satisfied).count();
                    let why = match satisfied {
                        0 => String::new(),
                        _ if args.all || !args.rule.is_empty() => String::new(),
                        count => format!(" ({count} satisfied)"),
                    };
                    let line = format!("  {hidden} other {policies} not shown{why}{hint}");
                    writeln!(out, "{}", terminal.paint(Tone::Faint, line))?;
                }
            }
            TextOrJson::Json => {
                let snapshot = &policy_set.snapshot;
                results.push(explained(subject, &decision, &trace, &rest, snapshot, &shown)?);
            }
        }
    }
    if args.output == TextOrJson::Json {
        out.print(&results.into(), document)?;
    }
    out.finish()?;
    Ok(exit)
}

/// The error for the name of a policy that is not loaded.
fn unknown_policy(name: &str, policies: &[PolicyId]) -> Option<Diagnostic> {
    if policies.iter().any(|id| is_named(name, &id.kind, &id.namespace, &id.name)) {
        return None;
    }
    let names: BTreeSet<&str> = policies.iter().map(|id| id.name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().take(MAX_NAMES).collect();
    let mut problem = Diagnostic::error(format!("no policy is called `{name}`"));
    let wanted = name.rsplit('/').next().unwrap_or(name);
    problem.help = Some(near::did_you_mean_or(wanted, &names, "the policies are"));
    Some(problem)
}

/// Names listed where none is near.
const MAX_NAMES: usize = 20;

/// The text of a template, if its origin is a file.
fn read_template(origin: &str) -> Option<Source> {
    let path = Path::new(origin);
    path.is_file().then(|| manifest::read_file(path).ok()).flatten()
}

/// Failures stand first.
fn rank(trace: &ConstraintTrace) -> u8 {
    match trace.outcome {
        ConstraintOutcome::Undecided(_) | ConstraintOutcome::Violated => 0,
        ConstraintOutcome::Satisfied => 2,
        ConstraintOutcome::Excluded(_) => 3,
        _ => 1,
    }
}

fn explain_rule(out: &mut impl Write, rule: &RuleTrace, terminal: &Terminal) -> Result<()> {
    let (tone, outcome) = plan::outcome_text(&rule.outcome);
    writeln!(
        out,
        "\n  {} {} {}",
        terminal.paint(Tone::Heading, format_args!("{} {}", rule.rule_type, rule_name(rule))),
        terminal.paint(tone, printable(&outcome)),
        terminal.paint(
            Tone::Faint,
            format_args!("(tier {}, {})", rule.tier, place(rule, rule.position))
        ),
    )?;
    for criterion in &rule.criteria {
        explain_criterion(out, rule, criterion, terminal)?;
    }
    for operation in &rule.operations {
        explain_operation(out, rule, operation, terminal)?;
    }
    Ok(())
}

fn rule_name(rule: &RuleTrace) -> String {
    format!("{}/{}", rule.policy.namespace, rule.policy.name)
}

/// `file:line:column`, as far as it is known.
fn place(rule: &RuleTrace, position: Option<Position>) -> String {
    terminal::place(&rule.origin, position)
}

fn explain_criterion(
    out: &mut impl Write,
    rule: &RuleTrace,
    criterion: &CriterionTrace,
    terminal: &Terminal,
) -> Result<()> {
    let verdict = if criterion.positive {
        terminal.paint(Tone::Good, "yes")
    } else {
        terminal.paint(Tone::Bad, "no ")
    };
    let test =
        if criterion.test.is_empty() { String::new() } else { format!("  {}", criterion.test) };
    writeln!(
        out,
        "    {verdict} match[{}] {}{} {}",
        criterion.index,
        printable(&criterion.select),
        printable(&test),
        terminal.paint(Tone::Faint, format_args!("({})", place(rule, criterion.position))),
    )?;
    let values: Vec<_> =
        criterion.values.iter().map(|value| shorten(&format!("`{value}`"))).collect();
    if !values.is_empty() {
        writeln!(out, "        saw {}", values.join(", "))?;
    }
    if !criterion.explanation.is_empty() {
        writeln!(out, "        {}", printable(&criterion.explanation))?;
    }
    Ok(())
}

fn explain_operation(
    out: &mut impl Write,
    rule: &RuleTrace,
    operation: &OperationTrace,
    terminal: &Terminal,
) -> Result<()> {
    writeln!(
        out,
        "    patch[{}] {} {}: {} {}",
        operation.index,
        operation.op,
        printable(&operation.path),
        printable(&operation.effect),
        terminal.paint(Tone::Faint, format_args!("({})", place(rule, operation.position))),
    )?;
    if let Some(rendered) = &operation.rendered {
        writeln!(out, "        rendered {}", shorten(&format!("`{}`", rendered.trim_end())))?;
    }
    let json = |value: &Value| shorten(&value.to_json());
    match (&operation.before, &operation.value) {
        (Some(before), Some(value)) => {
            writeln!(out, "        {} became {}", json(before), json(value))?;
        }
        (None, Some(value)) => writeln!(out, "        value {}", json(value))?,
        (Some(before), None) => writeln!(out, "        was {}", json(before))?,
        (None, None) => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::MAX_SHOWN;

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shorten("a\nb"), "a\\nb");
        assert_eq!(shorten(&"é".repeat(300)).chars().count(), MAX_SHOWN + 1);
    }
}
