//! Warnings about policies that load and do not do what their authors intend, each with a [`Code`].
//!
//! One function, [`lint`], is behind every door: the command line and the server that reads files
//! (`snapshot/load.rs`), and the validating webhook that stores policies (`gatekeeper/resources.rs`,
//! `modrule/admission.rs`). It reads the object as it was written, so it works for every version of a
//! kind. What only the compiled form shows is found where that is made (`modrule/lint.rs`,
//! `constraint/source/lint.rs`).

mod admission;
mod allow;
mod constraint;
mod definitions;
pub(crate) mod expressions;
mod fields;
mod inventory;
mod matching;
mod mutator;
mod object;
mod odd;
mod once;
mod patterns;
pub(crate) mod places;
mod reads;
mod refused;
mod rego;
mod resources;
mod schema;
mod selector;
mod sync;
mod template;
pub(crate) mod types;
mod unloaded;
mod values;
mod written;

use modgate_api::{
    admissionregistration, config, constraints, expansion, externaldata, kinds as kubernetes, meta,
    modrule, mutations, schema::names::subdomain, syncset, templates,
};
use modgate_value::{Str, Value, diag::Span, near};

pub(crate) use allow::retain;
pub use allow::{allowed_at, allows, idle_comments};
pub(crate) use constraint::advise as advise_constraint;
pub use definitions::Definitions;
pub(crate) use fields::help as known_fields;
pub(crate) use mutator::advise as advise_mutator;
pub use object::of_object;
pub(crate) use once::{checked_once, misspelt_once, refused_once, unseen_once};
pub(crate) use refused::near_values;
pub(crate) use template::matched as matched_by_constraints;
pub use unloaded::{Mistake, Place, not_loaded};
pub(crate) use values::action;
pub(crate) use written::advise as advise_types;

use crate::{Code, PolicyId, PolicySource, Position, Problem, Severity};

/// The advice about a constraint without a template.
pub const WAITS_FOR_TEMPLATE: &str = "it takes effect when a template of its kind is loaded";

/// The API groups of policies, with the versions of each that a cluster serves.
const VERSIONS: [(&str, &[&str]); 9] = [
    (modrule::GROUP, &["v1beta1"]),
    (templates::GROUP, &templates::VERSIONS),
    (constraints::GROUP, &constraints::VERSIONS),
    (mutations::GROUP, &["v1", "v1beta1", "v1alpha1"]),
    (expansion::GROUP, &["v1beta1", "v1alpha1"]),
    (externaldata::GROUP, &externaldata::VERSIONS),
    (config::GROUP, &["v1alpha1"]),
    (syncset::GROUP, &["v1alpha1"]),
    (admissionregistration::GROUP, &admissionregistration::VERSIONS),
];

/// The API groups of policies.
pub fn groups() -> impl Iterator<Item = &'static str> {
    VERSIONS.iter().map(|(group, _)| *group)
}

/// The kinds of policies in an API group; none for constraints, whose kinds come from templates.
pub fn kinds(group: &str) -> &'static [&'static str] {
    match group {
        modrule::GROUP => &[modrule::KIND],
        templates::GROUP => &[templates::KIND],
        mutations::GROUP => &["Assign", "AssignImage", "AssignMetadata", "ModifySet"],
        expansion::GROUP => &[expansion::KIND],
        externaldata::GROUP => &[externaldata::KIND],
        config::GROUP => &[config::KIND],
        syncset::GROUP => &[syncset::KIND],
        // With the configurations of webhooks, which are no policies.
        admissionregistration::GROUP => kubernetes::of_group(group).unwrap_or_default(),
        _ => &[],
    }
}

/// The kinds of policies in all groups.
fn all_kinds() -> impl Iterator<Item = &'static str> {
    groups().flat_map(|group| kinds(group).iter().copied())
}

/// Every warning about a policy that needs no compiled form, without those its author allows.
pub(crate) fn lint(
    id: &PolicyId,
    source: &PolicySource,
    definitions: &Definitions,
) -> Vec<Problem> {
    let mut lints = Lints { id, source, definitions, found: Vec::new() };
    version(&mut lints);
    name(&mut lints);
    repeated(&mut lints);
    odd::lint(&mut lints);
    fields::metadata(&mut lints);
    allow::check(&mut lints);
    match id.group.as_str() {
        // `modrule::unknown_fields` knows those of ModRules.
        modrule::GROUP => {}
        constraints::GROUP => {
            matching::lint(&mut lints, "spec.match");
            constraint::lint(&mut lints);
        }
        mutations::GROUP => {
            fields::lint(&mut lints);
            matching::lint(&mut lints, "spec.match");
            mutator::lint(&mut lints);
        }
        expansion::GROUP => {
            fields::lint(&mut lints);
            matching::apply_to(&mut lints);
            matching::generated(&mut lints);
            mutator::template_source(&mut lints);
        }
        templates::GROUP => {
            fields::lint(&mut lints);
            template::lint(&mut lints);
            template::required(&mut lints);
            template::paths(&mut lints);
            sync::required(&mut lints);
        }
        admissionregistration::GROUP => {
            fields::lint(&mut lints);
            resources::lint(&mut lints);
            admission::lint(&mut lints);
        }
        config::GROUP | syncset::GROUP => {
            fields::lint(&mut lints);
            sync::lint(&mut lints);
        }
        _ => fields::lint(&mut lints),
    }
    let mut found = lints.found;
    retain(&source.object, &mut found, 0);
    found
}

/// The warnings about a document that is read although it is no policy: a SyncSet.
pub fn read(source: &PolicySource, definitions: &Definitions) -> Vec<Problem> {
    let id = source.id();
    if id.group == syncset::GROUP { lint(&id, source, definitions) } else { Vec::new() }
}

/// The warnings about a policy that does not load, such as unknown fields.
pub(crate) fn unread(
    id: &PolicyId,
    source: &PolicySource,
    definitions: &Definitions,
) -> Vec<Problem> {
    let mut lints = Lints { id, source, definitions, found: Vec::new() };
    version(&mut lints);
    repeated(&mut lints);
    odd::lint(&mut lints);
    fields::metadata(&mut lints);
    if id.group != modrule::GROUP && id.group != constraints::GROUP {
        fields::lint(&mut lints);
    }
    if id.group == templates::GROUP {
        template::lint(&mut lints);
    }
    let mut found = lints.found;
    retain(&source.object, &mut found, 0);
    found
}

/// As [`lint`], as texts for the answer to a request that stores the policy.
pub(crate) fn warnings(object: &Value, definitions: &Definitions) -> Vec<String> {
    let source = PolicySource::of_object(object.clone());
    lint(&source.id(), &source, definitions).iter().map(Problem::one_line).collect()
}

/// A version that no cluster serves: what works from files would be refused there.
fn version(lints: &mut Lints<'_>) {
    // A constraint of another version is refused: `constraint::advise`.
    if lints.id.group == constraints::GROUP {
        return;
    }
    let api_version = lints.text("apiVersion");
    let (group, version) = meta::split_api_version(&api_version);
    let known = VERSIONS.iter().find(|(known, _)| *known == group).map(|(_, versions)| *versions);
    let Some(known) = known.filter(|known| !known.contains(&version)) else { return };
    let help = near::did_you_mean_or(version, known, "the versions are");
    lints.push(
        Code::UnknownVersion,
        "apiVersion",
        format!("`{group}` has no version `{version}`, so a cluster refuses this"),
        Some(help),
    );
}

/// A name that no cluster takes. Of policies that are refused for it nothing more is said.
fn name(lints: &mut Lints<'_>) {
    let name = lints.id.name.clone();
    if name.is_empty() || subdomain(&name).is_empty() {
        return;
    }
    let message = "no API server takes this name, so the policy cannot be stored".to_owned();
    let help = Some(written::as_name(&name));
    lints.push(Code::ImpossibleObject, "metadata.name", message, help);
}

/// Members that are there twice: the last counts, and the API server's strict validation refuses it.
fn repeated(lints: &mut Lints<'_>) {
    let Some(positions) = &lints.source.positions else { return };
    for (name, first, last) in positions.repeated() {
        lints.push(
            Code::DuplicateKey,
            "",
            format!("`{name}` is there twice; only the last counts"),
            Some(format!("the first is on line {}", first.line)),
        );
        if let Some(problem) = lints.found.last_mut() {
            problem.position = Some(last.into());
        }
    }
}

/// The warnings about one policy in the making.
pub(super) struct Lints<'a> {
    id: &'a PolicyId,
    source: &'a PolicySource,
    definitions: &'a Definitions,
    found: Vec<Problem>,
}

impl<'a> Lints<'a> {
    fn object(&self) -> &'a Value {
        &self.source.object
    }

    fn text(&self, key: &str) -> Str {
        self.object().get(key).and_then(Value::as_str).unwrap_or_default().into()
    }

    /// A warning that marks a value.
    fn push(&mut self, code: Code, field: &str, message: String, help: Option<String>) {
        let position = self.source.position(field);
        self.at(code, field, position, message, help);
    }

    /// Has the last warning mark a part of its field's text.
    fn mark(&mut self, text: &str, span: Span) {
        if let Some(problem) = self.found.last_mut() {
            problem.text = Some(text.into());
            problem.span = Some(span);
        }
    }

    /// The name of the resource of a kind.
    fn plural(&self, group: &str, kind: &str) -> String {
        match self.definitions.get(group, kind) {
            Some(defined) => defined.plural.to_string(),
            None => kubernetes::resource(kind),
        }
    }

    /// A warning that marks the key of a member.
    fn push_key(&mut self, code: Code, field: &str, message: String, help: Option<String>) {
        let position = self.source.key_position(field);
        self.at(code, field, position, message, help);
    }

    fn at(
        &mut self,
        code: Code,
        field: &str,
        position: Option<Position>,
        message: String,
        help: Option<String>,
    ) {
        self.found.push(Problem {
            severity: Severity::Warning,
            code: Some(code),
            policy: self.id.clone(),
            origin: self.source.origin.clone(),
            field: field.to_owned(),
            position,
            text: None,
            span: None,
            message,
            help,
            missing: None,
        });
    }
}
