//! `modgate plan`: what would run for an object, in which order, and what decides it.

use std::io::Write;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use modgate_engine::{
    Plan, PlannedConstraint, PlannedResultant, Stage, Trace,
    admissionpolicy::{ChangeTrace, MutatingOutcome, MutatingPolicyTrace, MutationTrace},
    constraint::Arena,
    explain::{RuleOutcome, RuleTrace},
    mutation::{MutatorOutcome, MutatorTrace, Note, What},
};
use modgate_report::Format;
use modgate_review::{decision::document, subject::Subject};
use modgate_value::{Value, yaml};

use crate::{
    args::{PolicyArgs, SubjectArgs},
    constraints,
    decision::decide,
    exit::Exit,
    inputs::{self, Hiding},
    outputs::print_findings,
    terminal::{Terminal, Tone, printable, shorten},
};

/// Arguments of `modgate plan`.
#[derive(Debug, clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    subjects: SubjectArgs,
    /// Also list policies that do not apply to the object.
    #[arg(long)]
    all: bool,
    /// Output format.
    #[arg(short, long, default_value = "text")]
    output: PlanOutput,
    /// Print results and errors only: no warnings about policies, no notes.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanOutput {
    /// For people.
    Text,
    /// A JSON list.
    Json,
    /// A YAML list.
    Yaml,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # List everything that runs for a Deployment, from the first mutator to the last constraint
  modgate plan -f policies/ deployment.yaml

  # List also what does not apply
  modgate plan -f policies/ --all pod.yaml

  # Print the names of the constraints that would be evaluated
  modgate plan -f policies/ -o json pod.yaml | jq '.[].constraints.steps[].policy.name'

Exit codes:
  0  every object is allowed
  1  at least one object is denied
  2  arguments, files, policies or objects are not valid";

/// Runs the verb.
pub(crate) fn run(args: &PlanArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(args.quiet);
    let Some(inputs) = inputs::read(&args.policies, &args.subjects, terminal)? else {
        match args.output {
            PlanOutput::Text => {}
            PlanOutput::Json => {
                print_findings(&mut std::io::stdout().lock(), terminal, Format::Json)?
            }
            PlanOutput::Yaml => {
                print_findings(&mut std::io::stdout().lock(), terminal, Format::Yaml)?
            }
        }
        return Ok(Exit::BadInput);
    };
    let mut exit = if inputs.incomplete { Exit::BadInput } else { Exit::Success };
    let mut out = Hiding::new(inputs.secrets());
    let mut plans = Vec::new();
    let mut arena = Arena::new();
    for (index, subject) in inputs.subjects.iter().enumerate() {
        let policy_set = &inputs.policy_set;
        let mut trace = Trace::default();
        let decision = decide(policy_set, &subject.review, &mut arena, &mut trace);
        let mut plan = Plan::of(&decision, &trace, policy_set.snapshot.config());
        // What constraints say of them is for `modgate explain`.
        plan.resultants.steps.iter_mut().for_each(|resultant| resultant.constraints.clear());
        if !decision.allowed {
            exit = exit.max(Exit::Denied);
        }
        if args.output == PlanOutput::Text {
            if index > 0 {
                writeln!(out)?;
            }
            Printer { out: &mut out, terminal, all: args.all }.plan(subject, &plan)?;
        } else {
            plans.push(json(subject, &plan)?);
        }
    }
    match args.output {
        PlanOutput::Text => {}
        PlanOutput::Json => out.print(&plans.into(), document)?,
        PlanOutput::Yaml => out.print(&plans.into(), yaml::write)?,
    }
    out.finish()?;
    Ok(exit)
}

fn json(subject: &Subject, plan: &Plan) -> Result<Value> {
    let plan = Value::from_json(&serde_json::to_vec(plan)?)?;
    let mut members = plan.as_object().cloned().context("a plan is an object")?;
    members.insert("object", subject.title().into());
    members.insert("place", subject.place.as_str().into());
    Ok(members.into())
}

/// Prints what mutators and expansion have to do with an object; see `modgate explain`. Where policies
/// were `named`, only the resultants that those of them decide about.
pub(crate) fn explain(
    out: &mut impl Write,
    plan: &Plan,
    all: bool,
    named: bool,
    terminal: &Terminal,
) -> Result<()> {
    let mut printer = Printer { out, terminal, all };
    let mutating = &plan.mutating_policies;
    if mutating.fails && !named || !mutating.steps.is_empty() {
        printer.mutating_policies(mutating)?;
    }
    if named {
        let mut asked = plan.resultants.steps.iter().filter(|it| !it.constraints.is_empty());
        return asked.try_for_each(|resultant| {
            writeln!(printer.out)?;
            printer.resultant(resultant, "  ")?;
            printer.decisions(resultant)
        });
    }
    if plan.mutators.fails || plan.mutators.steps.iter().any(|pass| !pass.is_empty()) {
        printer.mutators(&plan.mutators)?;
    }
    if !plan.resultants.steps.is_empty() || plan.resultants.fails {
        printer.resultants(plan)?;
    }
    Ok(())
}

struct Printer<'a, W> {
    out: &'a mut W,
    terminal: &'a Terminal,
    all: bool,
}

impl<W: Write> Printer<'_, W> {
    fn plan(&mut self, subject: &Subject, plan: &Plan) -> Result<()> {
        let title = self.terminal.paint(Tone::Heading, printable(&subject.title()));
        let place = self.terminal.paint(Tone::Faint, format!("({})", subject.place));
        writeln!(self.out, "{title} {place}")?;
        if plan.mutating_policies.fails || !plan.mutating_policies.steps.is_empty() {
            self.mutating_policies(&plan.mutating_policies)?;
        }
        if plan.mutating_policies.fails {
            return Ok(());
        }
        self.mutators(&plan.mutators)?;
        if plan.mutators.fails {
            return Ok(());
        }
        self.heading("modrules", &plan.modrules)?;
        for rule in &plan.modrules.steps {
            self.rule(rule)?;
        }
        if plan.modrules.fails {
            return Ok(());
        }
        self.resultants(plan)?;
        if plan.resultants.fails {
            return Ok(());
        }
        self.heading("constraints", &plan.constraints)?;
        for constraint in &plan.constraints.steps {
            self.constraint(constraint)?;
        }
        Ok(())
    }

    fn heading<T>(&mut self, name: &str, stage: &Stage<T>) -> Result<()> {
        let name = self.terminal.paint(Tone::Heading, name);
        match (&stage.stopped, stage.fails) {
            (None, _) if stage.steps.is_empty() => writeln!(self.out, "  {name}: none")?,
            (None, _) => writeln!(self.out, "  {name}")?,
            (Some(why), false) => {
                writeln!(self.out, "  {name}: not evaluated: {}", printable(why))?
            }
            (Some(why), true) => {
                let why = self.terminal.paint(Tone::Bad, printable(why));
                writeln!(self.out, "  {name}: denied: {why}")?;
            }
        }
        Ok(())
    }

    fn mutating_policies(&mut self, stage: &Stage<MutatingPolicyTrace>) -> Result<()> {
        self.heading("MutatingAdmissionPolicies", stage)?;
        stage.steps.iter().try_for_each(|trace| self.mutating_policy(trace))
    }

    fn mutating_policy(&mut self, trace: &MutatingPolicyTrace) -> Result<()> {
        let (tone, outcome) = match trace.outcome {
            MutatingOutcome::NoMatch => (Tone::Faint, "a match condition does not hold"),
            MutatingOutcome::Unchanged => (Tone::Good, "evaluated, nothing to change"),
            MutatingOutcome::Changed => (Tone::Good, "evaluated, changed"),
            MutatingOutcome::Failed => (Tone::Bad, "failed"),
            _ => (Tone::Notice, "unknown outcome"),
        };
        let params = trace.params.as_ref().map(|params| format!(", params {params}"));
        let pass = if trace.again { "pass 2: " } else { "" };
        let by = format!("(binding {}{})", trace.binding, params.unwrap_or_default());
        writeln!(
            self.out,
            "    {pass}{} {} {}",
            printable(&trace.policy.name),
            self.terminal.paint(tone, outcome),
            self.terminal.paint(Tone::Faint, printable(&by)),
        )?;
        for (index, mutation) in trace.mutations.iter().enumerate() {
            let MutationTrace { patch_type, expression, changes, error } = mutation;
            let expression = shorten(&expression.split_whitespace().collect::<Vec<_>>().join(" "));
            writeln!(self.out, "      mutations[{index}] {patch_type} {expression}")?;
            for ChangeTrace { path, before, after } in changes {
                let json = |value: &Value| shorten(&value.to_json());
                let change = match (before, after) {
                    (Some(before), Some(after)) => {
                        format!("was {}, becomes {}", json(before), json(after))
                    }
                    (None, Some(after)) => format!("becomes {}", json(after)),
                    (Some(before), None) => format!("was {}, is removed", json(before)),
                    (None, None) => "is removed".to_owned(),
                };
                writeln!(self.out, "        {} {change}", printable(path))?;
            }
            if let Some(error) = error {
                let error = self.terminal.paint(Tone::Bad, printable(error));
                writeln!(self.out, "        {error}")?;
            }
        }
        Ok(())
    }

    fn mutators(&mut self, stage: &Stage<Vec<MutatorTrace>>) -> Result<()> {
        if stage.stopped.is_none() && stage.steps.iter().all(Vec::is_empty) {
            let name = self.terminal.paint(Tone::Heading, "mutators");
            return Ok(writeln!(self.out, "  {name}: none")?);
        }
        self.heading("mutators", stage)?;
        self.passes(&stage.steps, "    ")
    }

    /// The first pass, and of the later ones what changed something again.
    fn passes(&mut self, passes: &[Vec<MutatorTrace>], indent: &str) -> Result<()> {
        let mut hidden = 0;
        for (index, pass) in passes.iter().enumerate() {
            for trace in pass {
                let concerned = !matches!(
                    trace.outcome,
                    MutatorOutcome::NotAppliedTo | MutatorOutcome::NoMatch(_)
                );
                let again =
                    matches!(trace.outcome, MutatorOutcome::Changed | MutatorOutcome::Failed(_));
                if index > 0 && !again {
                    continue;
                }
                if !concerned && !self.all {
                    hidden += 1;
                    continue;
                }
                let pass = if index > 0 { format!("pass {}: ", index + 1) } else { String::new() };
                self.mutator(trace, &pass, indent)?;
            }
        }
        if hidden > 0 {
            let mutators = if hidden == 1 { "mutator" } else { "mutators" };
            let line = format!("{hidden} other {mutators} not shown, `--all` shows them");
            writeln!(self.out, "{indent}{}", self.terminal.paint(Tone::Faint, line))?;
        }
        Ok(())
    }

    fn mutator(&mut self, trace: &MutatorTrace, pass: &str, indent: &str) -> Result<()> {
        let (tone, outcome) = match &trace.outcome {
            MutatorOutcome::Conflicting(why) => (Tone::Bad, format!("skipped: {why}")),
            MutatorOutcome::NotAppliedTo => {
                (Tone::Faint, "not for this kind or operation (applyTo)".to_owned())
            }
            MutatorOutcome::NoMatch(criterion) => {
                (Tone::Faint, format!("no match: match.{criterion}"))
            }
            MutatorOutcome::Stopped => (Tone::Notice, "matched, does not apply".to_owned()),
            MutatorOutcome::Unchanged => (Tone::Good, "matched, nothing to change".to_owned()),
            MutatorOutcome::Changed => (Tone::Good, "matched, changed".to_owned()),
            MutatorOutcome::Failed(why) => (Tone::Bad, format!("failed: {why}")),
            _ => (Tone::Notice, "unknown outcome".to_owned()),
        };
        let id = &trace.mutator;
        writeln!(
            self.out,
            "{indent}{pass}{} {} {}",
            id.kind.as_str(),
            printable(&id.name),
            self.terminal.paint(tone, printable(&outcome))
        )?;
        for note in &trace.notes {
            writeln!(self.out, "{indent}    {}", note_text(note))?;
        }
        Ok(())
    }

    fn rule(&mut self, rule: &RuleTrace) -> Result<()> {
        let is_idle = matches!(rule.outcome, RuleOutcome::NotCandidate(_) | RuleOutcome::NoMatch);
        if is_idle && !self.all {
            return Ok(());
        }
        let (tone, outcome) = outcome_text(&rule.outcome);
        writeln!(
            self.out,
            "    {} tier {} {}/{} {}",
            rule.rule_type,
            rule.tier,
            printable(&rule.policy.namespace),
            printable(&rule.policy.name),
            self.terminal.paint(tone, printable(&outcome))
        )?;
        Ok(())
    }

    fn resultants(&mut self, plan: &Plan) -> Result<()> {
        let heading = match plan.expands_with_modrules {
            true => "expands, patched by ModRules, to",
            false => "expands to",
        };
        self.heading(heading, &plan.resultants)?;
        for resultant in &plan.resultants.steps {
            self.resultant(resultant, "    ")?;
            self.passes(&resultant.mutators, "      ")?;
            self.decisions(resultant)?;
        }
        Ok(())
    }

    fn resultant(&mut self, resultant: &PlannedResultant, indent: &str) -> Result<()> {
        let action = match resultant.enforcement_action {
            Some(action) => format!(", violations {}", action.as_str()),
            None => String::new(),
        };
        let by = format!("(by {}{action})", resultant.template);
        writeln!(
            self.out,
            "{indent}{} {} {}",
            printable(&resultant.kind.kind),
            printable(&resultant.name),
            self.terminal.paint(Tone::Faint, printable(&by))
        )?;
        Ok(())
    }

    /// How constraints came to what they say of a resultant, further in than those of the object.
    fn decisions(&mut self, resultant: &PlannedResultant) -> Result<()> {
        let mut text = Vec::new();
        for trace in &resultant.constraints {
            constraints::explain(&mut text, trace, self.terminal)?;
        }
        for line in String::from_utf8_lossy(&text).lines() {
            let indent = if line.is_empty() { "" } else { "    " };
            writeln!(self.out, "{indent}{line}")?;
        }
        Ok(())
    }

    fn constraint(&mut self, constraint: &PlannedConstraint) -> Result<()> {
        let on = match &constraint.resultant {
            Some(resultant) => format!(" on {}", printable(resultant)),
            None => String::new(),
        };
        let failure = match &constraint.failure {
            Some(failure) => format!(": {}", printable(failure)),
            None => String::new(),
        };
        writeln!(
            self.out,
            "    {} {} ({}){on}{}",
            printable(&constraint.policy.kind),
            printable(&constraint.policy.name),
            printable(&constraint.action),
            self.terminal.paint(Tone::Bad, failure)
        )?;
        Ok(())
    }
}

/// The outcome of a rule in words, and their colour.
pub(crate) fn outcome_text(outcome: &RuleOutcome) -> (Tone, String) {
    match outcome {
        RuleOutcome::NotCandidate(why) => (Tone::Faint, format!("not considered: {why}")),
        RuleOutcome::NoMatch => (Tone::Faint, "no match".to_owned()),
        RuleOutcome::Matched => (Tone::Good, "matched".to_owned()),
        RuleOutcome::Patched => (Tone::Good, "matched, patched".to_owned()),
        RuleOutcome::Rejected(entry) => (Tone::Bad, format!("matched, rejected: {entry}")),
        RuleOutcome::Failed(why) => (Tone::Bad, format!("failed: {why}")),
        _ => (Tone::Notice, "unknown outcome".to_owned()),
    }
}

fn note_text(note: &Note) -> String {
    let json = |value: &Value| shorten(&value.to_json());
    let what = match &note.what {
        What::Missing => "is missing, and a path test says MustExist".to_owned(),
        What::Present => "is there, and it is only set where it is missing".to_owned(),
        What::NotListed { value: Some(value) } => format!("is {}, not in assignIf.in", json(value)),
        What::NotListed { value: None } => "is missing, so not in assignIf.in".to_owned(),
        What::Excluded { value } => format!("is {}, in assignIf.notIn", json(value)),
        What::NoElements => "has no elements".to_owned(),
        What::Nothing => "has nothing to prune or merge".to_owned(),
        What::Asked { provider, key } => {
            let key = shorten(&format!("`{key}`"));
            format!("becomes what provider {} answers for {key}", printable(provider))
        }
        What::Same => "is as wanted".to_owned(),
        What::Set { before: Some(before), after } => {
            format!("was {}, becomes {}", json(before), json(after))
        }
        What::Set { before: None, after } => format!("becomes {}", json(after)),
        _ => "was looked at".to_owned(),
    };
    format!("{} {what}", printable(&note.at))
}
