//! The checks on the objects an installation is made of (6.6).

use std::fmt::Write as _;

use modgate_api::meta::ObjectExt as _;
use modgate_api::{
    config, constraints, expansion as expansions,
    externaldata::{self, Provider},
    meta::{Operation, split_api_version},
    mutations::{self, MutatorKind},
    syncset, templates,
};
use modgate_value::{MAX_DEPTH, Str, Value, diag::Location, gofmt};

use crate::{
    Change, OnError, PolicySource, Review, Severity, Snapshot,
    constraint::{CompiledTemplate, ConstraintError, TemplateError, TemplateProblem},
    expansion,
    gatekeeper::kind_of,
    lint,
    mutation::{self, Refusal, check_name},
    provider::CompiledProvider,
};

/// Status objects are checked for nothing, not even their names (AD-3).
const STATUS_GROUP: &str = "status.gatekeeper.sh";

/// The groups whose objects are checked (AD-1).
pub(super) const GROUPS: [&str; 7] = [
    templates::GROUP,
    constraints::GROUP,
    mutations::GROUP,
    config::GROUP,
    externaldata::GROUP,
    expansions::GROUP,
    STATUS_GROUP,
];

/// Warnings about an object of Gatekeeper's own groups; nothing to say of any other.
///
/// A deletion is never refused: what is broken must be removable.
///
/// # Errors
///
/// The refusals of Gatekeeper's webhook, in its words; with
/// [`deny_invalid_templates`](crate::gatekeeper::Installation::deny_invalid_templates) also a template whose source
/// does not compile, which is only warned about otherwise.
pub(crate) fn check_resource(
    review: &Review,
    snapshot: &Snapshot,
    templates_may_follow: bool,
) -> Result<Vec<String>, Refusal> {
    let request = review.request();
    let Some(object) = request.object.as_ref() else { return Ok(Vec::new()) };
    let kind = kind_of(request);
    let group = kind.group.as_str();
    if request.operation == Operation::Delete {
        return Ok(Vec::new());
    }
    // Gatekeeper never refuses a SyncSet.
    if group == syncset::GROUP {
        let is_shallow = object.check_depth(MAX_DEPTH).is_ok();
        return Ok(if is_shallow {
            lint::warnings(object, snapshot.definitions())
        } else {
            Vec::new()
        });
    }
    if !GROUPS.contains(&group) {
        return Ok(Vec::new());
    }
    // What reads policies recurses over them.
    object.check_depth(MAX_DEPTH).map_err(|deep| Refusal::invalid(deep.to_string()))?;
    if group != STATUS_GROUP {
        check_name(object)?;
    }
    let mut warnings =
        checked(object, (group, kind.kind.as_str()), snapshot, templates_may_follow)?;
    if group != STATUS_GROUP {
        warnings.extend(lint::warnings(object, snapshot.definitions()));
    }
    Ok(warnings)
}

/// The checks of one kind, and what they warn about.
fn checked(
    object: &Value,
    kind: (&str, &str),
    snapshot: &Snapshot,
    templates_may_follow: bool,
) -> Result<Vec<String>, Refusal> {
    let config = snapshot.config();
    match kind {
        (templates::GROUP, templates::KIND) => {
            check_version(object, &templates::VERSIONS)?;
            check_template(object, snapshot, config.installation.deny_invalid_templates)
        }
        (constraints::GROUP, _) => {
            match snapshot.constraints().compile_constraint(object, &config.constraints) {
                Ok(compiled) => Ok(compiled.warnings().to_vec()),
                Err(ConstraintError::NoTemplate { template }) if templates_may_follow => {
                    Ok(vec![format!(
                        "there is no template {} yet: the constraint is stored, and in force once \
                         there is",
                        gofmt::quote(&template)
                    )])
                }
                Err(error) => Err(Refusal { code: error.code(), message: error.to_string() }),
            }
        }
        (config::GROUP, config::KIND) => {
            let name = object.metadata("name");
            if name != Some(config::NAME) {
                return Err(Refusal::invalid("config resource must have name 'config'"));
            }
            config::Config::from_value(object).map_err(Refusal::failed)?;
            Ok(Vec::new())
        }
        (mutations::GROUP, name) if MutatorKind::from_name(name).is_some() => {
            mutation::validate(object, config.mutators)
        }
        (expansions::GROUP, expansions::KIND) => expansion::validate(object).map(|()| Vec::new()),
        (externaldata::GROUP, externaldata::KIND) => check_provider(object),
        _ => Ok(Vec::new()),
    }
}

/// The most advice that goes with a refusal.
const MAX_ADVICE: usize = 5;

impl Snapshot {
    /// Advice about a policy that a webhook refuses, as warnings: the texts of refusals are those of the originals, which
    /// have none.
    pub fn advice(&self, object: &Value) -> Vec<String> {
        if object.check_depth(MAX_DEPTH).is_err() {
            return Vec::new();
        }
        let source = PolicySource::of_object(object.clone());
        let update = self.apply(vec![Change::Upsert(source)], OnError::Keep);
        let (group, name) = (group_of(object), object.name());
        let own = update.problems.iter().filter(|problem| {
            (problem.policy.group.as_str(), problem.policy.name.as_str()) == (group, name)
        });
        let advice = own.filter_map(|problem| {
            let help = problem.help.as_ref()?;
            let place = problem.text.as_ref().zip(problem.span).map(|(text, span)| {
                let Location { line, column } = Location::of(text, span.start);
                format!(", line {line}, column {column}")
            });
            let code = problem.code.map(|code| format!(" [{code}]")).unwrap_or_default();
            Some(format!(
                "help: {}{}: {}{code}",
                problem.field,
                place.unwrap_or_default(),
                one_line(help)
            ))
        });
        advice.take(MAX_ADVICE).collect()
    }
}

fn group_of(object: &Value) -> &str {
    let api_version = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    split_api_version(api_version).0
}

/// The kind of the constraint that a request would store, if no template of that kind is known:
/// who can ask the cluster may know better than to refuse it (AD-34).
pub fn lacks_template(review: &Review, snapshot: &Snapshot) -> Option<Str> {
    let request = review.request();
    let kind = kind_of(request);
    let stores = request.object.is_some() && request.operation != Operation::Delete;
    let is_constraint = kind.group == constraints::GROUP && request.sub_resource.is_empty();
    (stores && is_constraint && snapshot.constraints().template(&kind.kind).is_none())
        .then_some(kind.kind)
}

/// Objects that cannot be decoded are refused with the code of an internal error (1.13 of the mutation
/// specification).
fn check_version(object: &Value, known: &[&str]) -> Result<(), Refusal> {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    if known.contains(&version) {
        return Ok(());
    }
    Err(Refusal::failed(format!(
        "no kind {} is registered for version {} in scheme {}",
        gofmt::quote(text("kind")),
        gofmt::quote(text("apiVersion")),
        gofmt::quote(group)
    )))
}

fn check_provider(object: &Value) -> Result<Vec<String>, Refusal> {
    check_version(object, &externaldata::VERSIONS)?;
    let provider = Provider::from_value(object).map_err(Refusal::failed)?;
    CompiledProvider::compile(&provider).map_err(Refusal::invalid)?;
    Ok(Vec::new())
}

fn check_template(
    object: &Value,
    snapshot: &Snapshot,
    deny_invalid: bool,
) -> Result<Vec<String>, Refusal> {
    match CompiledTemplate::compile(object, &snapshot.config().templates) {
        Ok(template) => {
            let problems = template.problems();
            let broken = |problem: &&TemplateProblem| problem.severity == Severity::Error;
            match problems.iter().find(broken).filter(|_| deny_invalid) {
                Some(problem) => Err(Refusal::invalid(located(problem))),
                None => Ok(problems.iter().map(located).collect()),
            }
        }
        Err(error) if error.is_of_source() && !deny_invalid => {
            Ok(vec![source_warning(object, snapshot, &error)])
        }
        Err(error) => Err(Refusal { code: error.code(), message: error.to_string() }),
    }
}

/// The error and its places on one line, for the API server drops warnings with line breaks.
fn source_warning(object: &Value, snapshot: &Snapshot, error: &TemplateError) -> String {
    // A template that compiled before is enforced as it was (TC-3).
    let what = match snapshot.constraints().template_source(object.name()) {
        Some(_) => {
            "this version is stored but not enforced, and the previous version stays in force"
        }
        None => "the template is stored but not enforced",
    };
    let mut warning = format!("{what}: {}", one_line(&error.to_string()));
    for problem in error.problems(object) {
        if let Some(place) = place(&problem) {
            let _ = write!(warning, " ({place})");
        }
    }
    warning
}

/// The error of a part of a template that is enforced all the same.
fn located(problem: &TemplateProblem) -> String {
    let place = place(problem).unwrap_or_else(|| problem.field.clone());
    let code = problem.code.map(|code| format!(" [{code}]")).unwrap_or_default();
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{place}: {}{help}{code}", one_line(&problem.message))
}

/// Field, line and column, where a problem has a place in a text.
fn place(problem: &TemplateProblem) -> Option<String> {
    let (text, span) = (problem.text.as_ref()?, problem.span?);
    let Location { line, column } = Location::of(text, span.start);
    Some(format!("{}, line {line}, column {column}", problem.field))
}

fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join("; ")
}
