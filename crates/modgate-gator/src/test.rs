//! `gator test`: judges every object of the input by the policies of the input (7.4).

mod output;

use modgate_api::constraints::EnforcementAction;
use modgate_engine::{constraint::Admission, expansion::Resultant, matching::Source};
use modgate_value::{Str, Value};

use crate::{
    Failure, Io,
    cli::TestArgs,
    expander::Expander,
    policies::{Outcome, Policies, Session, Settings, Timing, is_constraint},
    read::{self, metadata},
    work::parallel,
};

/// One result: a violation, and the object of the input that is charged with it.
struct TestResult<'o> {
    outcome: Outcome,
    object: &'o Value,
}

/// What the review of one object gave.
#[derive(Default)]
struct Reviewed {
    outcomes: Vec<Outcome>,
    timings: Vec<Timing>,
    printed: String,
}

/// Runs the verb.
pub(crate) fn run(args: &TestArgs, io: &mut Io<'_>) -> Result<u8, Failure> {
    let resources = read::sources_or_failure(&args.filenames, &args.images, io)?;
    let settings = Settings::of(&args.cel, args.verbose)?;
    let objects: Vec<&Value> = resources.iter().map(|resource| &resource.object).collect();
    let failed = |error: String| Failure::plain(format!("auditing objects: {error}"));
    let policies = Policies::load(objects.iter().copied(), &settings).map_err(failed)?;
    let expander = Expander::of(objects.iter().copied())
        .map_err(|error| failed(format!("error creating expander: {error}")))?;
    let session = || Session::new(args.trace);
    let reviewed = parallel(objects.len(), session, |index, session| {
        let object = objects.get(index).copied().unwrap_or(&Value::Null);
        review(object, &policies, &expander, args.stats, session)
    });
    let mut results = Vec::new();
    let mut timings = Vec::new();
    let mut printed = String::new();
    for (object, reviewed) in objects.iter().copied().zip(reviewed) {
        let reviewed = reviewed.map_err(failed)?;
        results.extend(reviewed.outcomes.into_iter().map(|outcome| TestResult { outcome, object }));
        timings.extend(reviewed.timings);
        if printed.len() <= output::MAX_PRINTED {
            printed.push_str(&reviewed.printed);
        }
    }
    results.sort_by(|a, b| order(a).cmp(&order(b)));
    let is_denied = results.iter().any(|result| denies(&result.outcome));
    if args.deny_only {
        results.retain(|result| denies(&result.outcome));
    }
    let format = output::Format::of(&args.output);
    let timings = args.stats.then_some(timings.as_slice());
    io.print(&output::render(&results, timings, format, &policies))?;
    if args.verbose {
        io.print(&output::printed(&printed))?;
    }
    Ok(u8::from(is_denied))
}

/// Results of one action and message keep the order of the input.
fn order<'r>(result: &'r TestResult<'_>) -> (&'r Str, &'r str) {
    (&result.outcome.finding.action, &result.outcome.finding.message)
}

/// Whether a result fails the run.
fn denies(outcome: &Outcome) -> bool {
    outcome.finding.actions.contains(&EnforcementAction::Deny)
}

fn review(
    object: &Value,
    policies: &Policies,
    expander: &Expander,
    timed: bool,
    session: &mut Session,
) -> Result<Reviewed, String> {
    let namespace = expander.namespace_of(object);
    let mut reviewed = Reviewed::default();
    let admission = Admission::of_object(with_default_action(object), namespace);
    reviewed.ask(policies, &admission, timed, None, session);
    let name = metadata(object, "name");
    let resultants = expander.expand(object);
    for resultant in resultants.map_err(|error| format!("expanding resource {name}: {error}"))? {
        let admission = Admission::of_object(resultant.object.clone(), namespace)
            .with_source(Some(Source::Generated));
        reviewed.ask(policies, &admission, timed, Some(&resultant), session);
    }
    reviewed.printed = session.outside.take_printed();
    Ok(reviewed)
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

impl Reviewed {
    fn ask(
        &mut self,
        policies: &Policies,
        admission: &Admission,
        timed: bool,
        resultant: Option<&Resultant>,
        session: &mut Session,
    ) {
        let mut outcomes = if timed {
            let (outcomes, mut timings) = policies.timed_review(admission, session);
            for timing in &mut timings {
                timing.template = resultant.map(|resultant| resultant.template.name().clone());
            }
            self.timings.append(&mut timings);
            outcomes
        } else {
            policies.review(admission, session)
        };
        for outcome in &mut outcomes {
            if let Some(resultant) = resultant {
                imply(outcome, resultant);
            }
        }
        self.outcomes.append(&mut outcomes);
    }
}

/// Charges a violation of a resultant to its generator (5.6).
pub(crate) fn imply(outcome: &mut Outcome, resultant: &Resultant) {
    let finding = &mut outcome.finding;
    finding.message = resultant.implied(&finding.message);
    if let Some(action) = resultant.action() {
        finding.action = action.as_str().into();
        // Scoped actions go with it (`fix-override-scoped`).
        finding.actions = vec![action];
    }
}
