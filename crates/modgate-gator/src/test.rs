//! `gator test`: evaluates every object of the input against the policies of the input (7.4).

mod admission_policies;
mod output;

use modgate_api::{
    admissionregistration, constraints::EnforcementAction, meta::GroupVersionKind, modrule::ModRule,
};
use modgate_engine::{Code, Review, Stages};
use modgate_value::{Str, Value};

use self::admission_policies::AdmissionPolicies;
use crate::{
    Failure, Io,
    cli::TestArgs,
    expander::Expander,
    finding::{self, Output},
    object::metadata,
    policies::{Policies, Settings, is_constraint},
    read::{self, Resource},
    review::{Outcome, Reviewed, Session},
    work::parallel,
};

/// One result: a violation, and the object of the input that it is reported for.
struct TestResult<'o> {
    outcome: Outcome,
    resource: &'o Resource,
}

/// The formats that are not those of reports.
const OWN: [&str; 3] = ["text", "json", "yaml"];

/// Runs the verb.
pub(crate) fn run(args: &TestArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, Failure> {
    let outputs = match is_gator {
        false => finding::outputs(&args.output, &OWN)?,
        // The last one counts, and what is not known means text.
        true => {
            args.output.last().map(|format| Output { format, file: None }).into_iter().collect()
        }
    };
    let resources = read::sources_or_failure(&args.filenames, &args.images, io)?;
    finding::strictly(args.strict, &resources, io)?;
    let settings = Settings::of(&args.cel, args.verbose)?;
    let objects: Vec<&Value> = resources.iter().map(|resource| &resource.object).collect();
    let admission_policies = if is_gator {
        None
    } else {
        note_what_is_not_evaluated(&objects, io);
        AdmissionPolicies::of(&objects, io)?
    };
    let failed = |error: String| Failure::plain(format!("auditing objects: {error}"));
    let mut policies = Policies::load(objects.iter().copied(), &settings).map_err(failed)?;
    admission_policies.iter().for_each(|own| own.show_in(&mut policies));
    let expander = Expander::of(objects.iter().copied(), &policies)
        .map_err(|error| failed(format!("error creating expander: {error}")))?;
    let session = || Session::new(args.trace, args.stats);
    let reviewed = parallel(objects.len(), session, |index, session| {
        let object = objects.get(index).copied().unwrap_or(&Value::Null);
        let (mut reviewed, text) = review(object, &policies, &expander, session)?;
        if let Some(own) = &admission_policies {
            reviewed.outcomes.extend(own.review(object, expander.namespace_of(object))?);
        }
        Ok((reviewed, text))
    });
    let mut results = Vec::new();
    let mut timings = Vec::new();
    let mut printed = String::new();
    for (resource, reviewed) in resources.iter().zip(reviewed) {
        let (reviewed, text) = reviewed.map_err(failed)?;
        let outcomes = reviewed.outcomes.into_iter();
        results.extend(outcomes.map(|outcome| TestResult { outcome, resource }));
        timings.extend(reviewed.timings);
        if printed.len() <= output::MAX_PRINTED {
            printed.push_str(&text);
        }
    }
    results.sort_by(|a, b| order(a).cmp(&order(b)));
    let is_denied = results.iter().any(|result| denies(&result.outcome));
    if args.deny_only {
        results.retain(|result| denies(&result.outcome));
    }
    let timings = args.stats.then_some(timings.as_slice());
    let mut report = finding::report();
    for result in &results {
        finding::violation(&mut report, &result.outcome.violation, result.resource);
    }
    let own = |format: &str| {
        let format = output::Format::of(format, is_gator)?;
        Some(output::render(&results, timings, format, &policies))
    };
    finding::print(&outputs, &report, own, io)?;
    if args.verbose {
        io.print(&output::printed(&printed))?;
    }
    Ok(u8::from(is_denied))
}

/// A run that leaves policies out must not look like one that passed them.
fn note_what_is_not_evaluated(objects: &[&Value], io: &mut Io<'_>) {
    let is_mutating = |object: &&&Value| {
        let kind = GroupVersionKind::of_object(object);
        kind.group == admissionregistration::GROUP
            && kind.kind == admissionregistration::MUTATING_POLICY_KIND
    };
    let modrules = objects.iter().filter(|object| ModRule::is_modrule(object)).count();
    let mutating = objects.iter().filter(is_mutating).count();
    for (count, one, many, evaluates) in [
        (modrules, "ModRule", "ModRules", "ModRules, mutators and constraints"),
        (
            mutating,
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicies",
            "policies that mutate and policies that validate",
        ),
    ] {
        if count > 0 {
            let were = if count == 1 { format!("{one} was") } else { format!("{many} were") };
            io.note(&format!(
                "warning[{}]: {count} {were} not evaluated: `test` evaluates constraints and \
                 ValidatingAdmissionPolicies\n  \
                 = help: `modgate review` evaluates {evaluates}",
                Code::NothingFound
            ));
        }
    }
}

/// Results of one action and message keep the order of the input.
fn order<'r>(result: &'r TestResult<'_>) -> (&'r Str, &'r str) {
    (&result.outcome.violation.action, &result.outcome.violation.message)
}

/// Whether a result fails the run.
fn denies(outcome: &Outcome) -> bool {
    outcome.violation.actions.contains(&EnforcementAction::Deny)
}

fn review(
    object: &Value,
    policies: &Policies,
    expander: &Expander,
    session: &mut Session,
) -> Result<(Reviewed, String), String> {
    let review = Review::of_existing(with_default_action(object));
    let namespace = expander.namespace_of(object);
    let (snapshot, inventory) = (&expander.snapshot, &policies.inventory);
    let reviewed = session.decide(snapshot, inventory, review, namespace, Stages::TEST);
    let name = metadata(object, "name");
    let reviewed = reviewed
        .of_object(object)
        .map_err(|error| format!("expanding resource {name}: {error}"))?;
    Ok((reviewed, session.outside.take_printed()))
}

/// A constraint that is itself an object under review has the action that it has in a cluster
/// (EV-143).
pub(crate) fn with_default_action(object: &Value) -> Value {
    let spec = object.get("spec").and_then(Value::as_object);
    if !is_constraint(object) || spec.is_some_and(|spec| spec.get("enforcementAction").is_some()) {
        return object.clone();
    }
    let Some(members) = object.as_object() else { return object.clone() };
    let mut members = members.clone();
    let mut spec = spec.cloned().unwrap_or_default();
    spec.insert("enforcementAction", EnforcementAction::Deny.as_str().into());
    members.insert("spec", spec.into());
    members.into()
}
