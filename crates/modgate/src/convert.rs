//! `modgate convert`: the cluster's own policies as templates with constraints, and back, with a proof
//! over invented requests.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::{Result, ensure};
use clap::ValueEnum;
use modgate_engine::{PolicyId, Problem, Severity, api::constraints};
use modgate_policies::manifest;
use modgate_prove::convert::{
    self, Conversion,
    proof::{Example, Proof, prove},
};
use modgate_value::Value;

use crate::{
    args::PathArgs,
    exit::Exit,
    inputs,
    outputs::{ObjectsOutput, print_objects},
    terminal::{Terminal, printable},
};

/// Arguments of `modgate convert`.
#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// File, folder or quoted pattern with policies, their bindings, and the objects that bindings pass;
    /// repeat for more, `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true)]
    policies: Vec<PathBuf>,
    /// Kind of policies to write.
    #[arg(long, value_name = "KIND")]
    to: To,
    /// Number of invented requests over which each policy is compared with its conversion.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    generate: u64,
    /// Seed of the invented requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Treat warnings about policies as errors; docs/warnings.md lists them.
    #[arg(long)]
    strict: bool,
    /// Output format.
    #[arg(short, long, default_value = "yaml")]
    output: ObjectsOutput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// ConstraintTemplates in CEL with constraints, of ValidatingAdmissionPolicies.
    Template,
    /// ValidatingAdmissionPolicies with bindings, of ConstraintTemplates in CEL.
    Vap,
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Convert ValidatingAdmissionPolicies to templates and constraints for Gatekeeper or modgate
  modgate convert --to template -f policies/

  # Convert templates in CEL to policies of the API server, with the CRDs of their parameters
  modgate convert --to vap -f templates/ -f constraints/ -o json

  # Compare each policy with its conversion over more requests
  modgate convert --to template -f policies/ --generate 20000 --seed 7

Exit codes:
  0  everything is converted, and no decision differs
  1  a part is lost or cannot be converted, or a decision differs
  2  arguments, files or policies are not valid";

/// Runs the verb.
pub(crate) fn run(args: &ConvertArgs, terminal: &Terminal) -> Result<Exit> {
    let from_stdin = args.policies.iter().filter(|path| manifest::is_stdin(path)).count();
    ensure!(
        from_stdin <= 1,
        "standard input can be read once, but `-` is given {from_stdin} times"
    );
    let mut failed = false;
    let read = inputs::manifests(&PathArgs::of(&args.policies), terminal, &mut failed)?;
    // A constraint may be the parameter of a policy.
    let is_read = |id: &PolicyId| args.to == To::Vap || id.group != constraints::GROUP;
    let is_error = |problem: &Problem| {
        (args.strict || problem.severity == Severity::Error) && is_read(&problem.policy)
    };
    let errors = inputs::problems(&read, is_error);
    if !inputs::are_good(errors, args.strict, terminal) || failed {
        return Ok(Exit::BadInput);
    }
    let documents: Vec<Value> = read.into_iter().map(|(manifest, _)| manifest.object).collect();
    let conversions = match args.to {
        To::Template => convert::policies(&documents),
        To::Vap => convert::templates(&documents),
    };
    if conversions.is_empty() {
        let kind = match args.to {
            To::Template => "ValidatingAdmissionPolicy",
            To::Vap => "ConstraintTemplate",
        };
        terminal.error(&format!("there is no {kind} in the input"));
        return Ok(Exit::BadInput);
    }
    let mut exit = Exit::Success;
    for conversion in &conversions {
        let proof = match conversion.objects.is_empty() {
            true => None,
            false => Some(prove(conversion, args.seed, args.generate)),
        };
        if !conversion.losses.is_empty() || proof.as_ref().is_none_or(|proof| proof.different > 0) {
            exit = Exit::Denied;
        }
        terminal.note(report(conversion, proof.as_ref()).trim_end());
    }
    let objects = conversions.into_iter().flat_map(|it| it.objects).collect();
    print_objects(objects, args.output)?;
    Ok(exit)
}

/// The losses, and the differences that the comparison found.
fn report(conversion: &Conversion, proof: Option<&Proof>) -> String {
    let mut text = String::new();
    let done = if conversion.objects.is_empty() { "not converted" } else { "converted" };
    let _ = writeln!(text, "{}: {done}", conversion.source);
    for loss in &conversion.losses {
        let _ = writeln!(text, "  not kept: {}: {}", loss.field, loss.message);
    }
    if let Some(Proof { requests, found, different, example }) = proof {
        let _ = writeln!(
            text,
            "  {requests} invented requests: {found} with a finding, {different} decided otherwise"
        );
        if let Some(Example { operation, object, original, converted }) = example {
            let _ = writeln!(text, "  for example {}: {}", operation.as_str(), object.to_json());
            for (side, found) in [("original", original), ("converted", converted)] {
                let found: Vec<String> =
                    found.iter().map(|(action, message)| format!("{action}: {message}")).collect();
                let found = if found.is_empty() { "nothing".to_owned() } else { found.join("; ") };
                let _ = writeln!(text, "    {side}: {found}");
            }
        }
    }
    text.lines().map(|line| format!("{}\n", printable(line))).collect()
}
