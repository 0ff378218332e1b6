//! `gator test`: evaluates every object of the input against the policies of the input (7.4).

mod admission_policies;
mod output;

use std::collections::BTreeSet;

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    admissionregistration, config,
    constraints::EnforcementAction,
    expansion::ExpansionTemplate,
    externaldata::Provider,
    meta::{GroupVersionKind, Operation},
    modrule::ModRule,
    mutations::Mutator,
    syncset,
};
use modgate_engine::{
    Code, EngineConfig, PolicyId, Review, Snapshot, Stages, admissionpolicy::PolicyKind,
    constraint::Violation,
};
use modgate_policies::notes;
use modgate_report::{Report, about_policies, printable};
use modgate_value::{Str, Value, diag::Diagnostic};

use self::admission_policies::AdmissionPolicies;
use crate::{
    Io, VerbFailure,
    args::TestArgs,
    expander::Expander,
    finding::{self, Output},
    policies::{Policies, Settings, is_constraint},
    read::input::Input,
    read::{self, Resource},
    review::{Reviewed, ReviewedViolation, Session, Timing},
    work::parallel,
};

/// One result: a violation, and the number of the object of the input that it is reported for.
struct TestResult<'o> {
    outcome: ReviewedViolation,
    index: usize,
    resource: &'o Resource,
    /// The field that its policy read last, a pointer, if the output needs it.
    field: Option<String>,
}

/// Everything that policies said about the input.
struct Tested<'o> {
    results: Vec<TestResult<'o>>,
    timings: Vec<Timing>,
    /// The output of `print`.
    printed: String,
    policies: Policies,
    /// Notes about policies and objects that are not evaluated.
    notes: Vec<String>,
}

/// The formats that are not those of reports.
const OWN: [&str; 3] = ["text", "json", "yaml"];

/// Runs the verb.
pub(crate) fn run(args: &TestArgs, is_gator: bool, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    if !is_gator {
        return as_modgate(args, io);
    }
    let resources = read::sources_or_failure(&args.filenames, &args.images, io)?;
    let settings = Settings::of(&args.cel, args.verbose)?;
    let mut tested = evaluate(args, &settings, &resources, (true, false))?;
    let is_denied = tested.results.iter().any(|result| denies(&result.outcome));
    if args.deny_only {
        tested.results.retain(|result| denies(&result.outcome));
    }
    // The last format counts, and what is not known means text.
    let format = args.output.last().and_then(|format| output::Format::of(format, true));
    if let Some(format) = format {
        io.print(&output::render(&tested, args.stats, format, Vec::new()))?;
    }
    if args.verbose {
        io.print(&output::printed(&tested.printed))?;
    }
    Ok(u8::from(is_denied))
}

/// The same with places, reports, and modgate's exit codes.
fn as_modgate(args: &TestArgs, io: &mut Io<'_>) -> Result<u8, VerbFailure> {
    let outputs = finding::outputs(&args.output, &OWN)?;
    let mut report = finding::report();
    args.report.help_base.show_in(&mut report);
    match reported(args, &outputs, &mut report, io) {
        Ok(()) => {
            if let Some(excess) = args.report.excess(&report) {
                io.note(&format!("error: {excess}"));
            }
            Ok(u8::from(args.report.fails(&report)))
        }
        Err(failure) => {
            let nothing = |format: &str, report: &Report| {
                let format = output::Format::of(format, false)?;
                Some(output::nothing(args.stats, format, about_policies(report)))
            };
            Err(finding::failed(&outputs, &mut report, failure, nothing, io)?)
        }
    }
}

fn reported(
    args: &TestArgs,
    outputs: &[Output<'_>],
    report: &mut Report,
    io: &mut Io<'_>,
) -> Result<(), VerbFailure> {
    let settings = Settings::of(&args.cel, args.verbose)?;
    let config = EngineConfig { templates: settings.templates.clone(), ..EngineConfig::default() };
    let (files, quiet) = (&args.filenames, args.report.quiet);
    let mut input = Input::read(files, &args.exclude, &args.images, &config, io)?;
    let notes = input.notes().iter().filter(|_| !quiet);
    notes.for_each(|note| io.note(note));
    let mut findings = std::mem::take(&mut input.findings);
    findings.extend(not_evaluated(input.resources.iter().map(|resource| &resource.object)));
    if !finding::diagnostics(findings, args.strict, quiet, report, io) {
        return Err(VerbFailure::silent(2));
    }
    // Only reports mark fields.
    let marks = outputs.iter().any(|output| !OWN.contains(&output.format));
    let mut tested = evaluate(args, &settings, &input.resources, (false, marks))?;
    let notes = std::mem::take(&mut tested.notes).into_iter().filter(|_| !quiet);
    notes.for_each(|note| io.note(&printable(&note)));
    for result in &tested.results {
        if let Some((manifest, source)) = input.origin(result.index) {
            let (violation, field) = (&result.outcome.violation, result.field.as_deref());
            finding::violation(report, violation, (manifest, source), field);
        }
    }
    if args.deny_only {
        tested.results.retain(|result| denies(&result.outcome));
    }
    let own = |format: &str| {
        let format = output::Format::of(format, false)?;
        Some(output::render(&tested, args.stats, format, about_policies(report)))
    };
    finding::print(outputs, report, own, io)?;
    if args.verbose {
        io.print(&output::printed(&tested.printed))?;
    }
    Ok(())
}

/// Evaluates every object of the input. With `marks`, violating policies are evaluated once more for the field that they
/// read last.
fn evaluate<'o>(
    args: &TestArgs,
    settings: &Settings,
    resources: &'o [Resource],
    (is_gator, marks): (bool, bool),
) -> Result<Tested<'o>, VerbFailure> {
    let objects: Vec<&Value> = resources.iter().map(|resource| &resource.object).collect();
    let admission_policies = if is_gator { None } else { AdmissionPolicies::of(&objects)? };
    let failed = |error: String| VerbFailure::plain(format!("auditing objects: {error}"));
    let mut policies = Policies::load(objects.iter().copied(), settings).map_err(failed)?;
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
        let fields = match marks {
            true => {
                let all = (&policies, &expander, admission_policies.as_ref());
                fields(object, &reviewed.outcomes, all, session)
            }
            false => vec![None; reviewed.outcomes.len()],
        };
        Ok((reviewed, text, fields))
    });
    let (mut results, mut timings, mut printed) = (Vec::new(), Vec::new(), String::new());
    for (index, (resource, reviewed)) in resources.iter().zip(reviewed).enumerate() {
        let (reviewed, text, fields) = reviewed.map_err(failed)?;
        let outcomes = reviewed.outcomes.into_iter().zip(fields);
        let result = |(outcome, field)| TestResult { outcome, index, resource, field };
        results.extend(outcomes.map(result));
        timings.extend(reviewed.timings);
        if printed.len() <= output::MAX_PRINTED {
            printed.push_str(&text);
        }
    }
    results.sort_by(|a, b| order(a).cmp(&order(b)));
    let notes = match is_gator {
        true => Vec::new(),
        false => unseen(&objects, &expander, admission_policies.is_some()),
    };
    Ok(Tested { results, timings, printed, policies, notes })
}

/// The field that the policy of each outcome read last, a pointer.
fn fields(
    object: &Value,
    outcomes: &[ReviewedViolation],
    (policies, expander, own): (&Policies, &Expander, Option<&AdmissionPolicies>),
    session: &mut Session,
) -> Vec<Option<String>> {
    let id = |outcome: &ReviewedViolation| {
        let Violation { kind, constraint, resultant, .. } = &outcome.violation;
        let is_own = kind == admissionregistration::POLICY_KIND;
        let id = match is_own {
            true => PolicyKind::Validating.id(constraint),
            false => PolicyId::of_constraint(kind, constraint),
        };
        resultant.is_none().then_some((is_own, id))
    };
    let ids: BTreeSet<(bool, PolicyId)> = outcomes.iter().filter_map(id).collect();
    let (of_own, of_constraints): (Vec<_>, Vec<_>) = ids.into_iter().partition(|(own, _)| *own);
    let set = |ids: Vec<(bool, PolicyId)>| ids.into_iter().map(|(_, id)| id).collect();
    let namespace = expander.namespace_of(object);
    let mut found = Vec::new();
    if !of_constraints.is_empty() {
        let (snapshot, inventory) = (&expander.snapshot, &policies.inventory);
        let ids = set(of_constraints);
        found.push(session.faults(snapshot, inventory, (object, namespace), &ids));
    }
    if let Some(own) = own.filter(|_| !of_own.is_empty()) {
        found.push(own.faults((object, namespace), &set(of_own), session));
    }
    let field = |outcome: &ReviewedViolation| {
        let (_, id) = id(outcome)?;
        let message = &outcome.violation.message;
        found.iter().find_map(|faults| faults.field(&id, message)).map(str::to_owned)
    };
    outcomes.iter().map(field).collect()
}

/// Notes about data that policies do not see. A Namespace that is missing is not assumed here:
/// match blocks that need it fail, as in gator. `has_others` if there are policies that the
/// snapshot does not have.
fn unseen(objects: &[&Value], expander: &Expander, has_others: bool) -> Vec<String> {
    let snapshot = &expander.snapshot;
    let reviews: Vec<Review> = objects
        .iter()
        .filter(|object| !Snapshot::takes(object))
        .map(|object| Review::of_object((*object).clone(), Operation::Create, ""))
        .collect();
    let known: BTreeSet<&str> = objects
        .iter()
        .filter(|object| GroupVersionKind::of_object(object).is_namespace())
        .map(|object| object.name())
        .collect();
    let missing = notes::missing_namespaces(snapshot, reviews.iter(), |name| !known.contains(name));
    let missing = missing.into_iter().map(|name| {
        format!(
            "note: no file describes Namespace `{name}`, so a `namespaceSelector` fails for its \
             objects; add it to the input"
        )
    });
    let unconcerned = notes::unconcerned(snapshot, reviews.iter()).filter(|_| !has_others);
    let about_objects = missing.chain(notes::unexpanded(snapshot, reviews.iter()));
    about_objects.chain(unconcerned).chain(partly_evaluated(objects)).collect()
}

/// A run that leaves policies out must not look like one that passed them.
fn not_evaluated<'o>(objects: impl Iterator<Item = &'o Value> + Clone) -> Vec<Diagnostic> {
    let count = |is_left_out: fn(&Value) -> bool| {
        objects.clone().filter(|object| is_left_out(object)).count()
    };
    // What is generated is mutated, so a note says the rest.
    let expands = objects.clone().any(ExpansionTemplate::is_expansion_template);
    let mutators = if expands { 0 } else { count(Mutator::is_mutator) };
    let all = [
        (count(ModRule::is_modrule), "ModRule", "ModRules", "ModRules, mutators and constraints"),
        (mutators, "mutator", "mutators", "mutators and constraints"),
        (count(exempts), "Config", "Configs", "the exemptions of a Config and constraints"),
        (
            count(is_mutating_policy),
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicies",
            "policies that mutate and policies that validate",
        ),
    ];
    let some = all.into_iter().filter(|(count, ..)| *count > 0);
    some.map(|(count, one, many, evaluates)| {
        let were = if count == 1 { format!("{one} was") } else { format!("{many} were") };
        Diagnostic::warning(format!(
            "{count} {were} not evaluated: `test` evaluates constraints and \
             ValidatingAdmissionPolicies"
        ))
        .code(Code::NothingFound.as_str())
        .help(format!("`modgate review` evaluates {evaluates}"))
    })
    .collect()
}

/// Policies of the input that have another effect here than in a cluster.
fn partly_evaluated(objects: &[&Value]) -> Vec<String> {
    let has = |is_one: fn(&Value) -> bool| objects.iter().any(|object| is_one(object));
    let mut notes = Vec::new();
    if has(Mutator::is_mutator) && has(ExpansionTemplate::is_expansion_template) {
        notes.push(
            "note: `test` applies mutators only to the objects that ExpansionTemplates generate; \
             `modgate review` applies them to every object"
                .to_owned(),
        );
    }
    if has(syncs) {
        notes.push(
            "note: `test` puts every object of the input into `data.inventory`, not only the kinds \
             that a Config or SyncSet names"
                .to_owned(),
        );
    }
    if has(Provider::is_provider) {
        notes.push("note: `test` calls no Provider, so policies that need one fail".to_owned());
    }
    notes
}

fn is_mutating_policy(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    kind.group == admissionregistration::GROUP
        && kind.kind == admissionregistration::MUTATING_POLICY_KIND
}

fn is_config(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    kind.group == config::GROUP && kind.kind == config::KIND
}

/// Whether it is a Config that exempts namespaces.
fn exempts(object: &Value) -> bool {
    let entries = object.path(&["spec", "match"]).and_then(Value::as_array);
    is_config(object) && entries.is_some_and(|entries| !entries.is_empty())
}

/// Whether it names kinds for the inventory.
fn syncs(object: &Value) -> bool {
    let kind = GroupVersionKind::of_object(object);
    (kind.group == syncset::GROUP && kind.kind == syncset::KIND)
        || (is_config(object) && object.path(&["spec", "sync", "syncOnly"]).is_some())
}

/// Results of one action and message keep the order of the input.
fn order<'r>(result: &'r TestResult<'_>) -> (&'r Str, &'r str) {
    (&result.outcome.violation.action, &result.outcome.violation.message)
}

/// Whether a result fails the run.
fn denies(outcome: &ReviewedViolation) -> bool {
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
    let review = match expander.assumes_namespace_of(object) {
        true => review.hiding_namespace(),
        false => review,
    };
    let (snapshot, inventory) = (&expander.snapshot, &policies.inventory);
    let reviewed = session.decide(snapshot, inventory, review, namespace, Stages::TEST);
    let name = object.name();
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
