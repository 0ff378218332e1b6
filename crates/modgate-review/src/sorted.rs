//! Documents by what they are for: policies, references, and the inventory.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use modgate_engine::{
    Code, EngineConfig, PolicyId, Problem, Snapshot,
    api::{admission::AdmissionReview, config, meta, modrule::ModRule, templates},
    constraint::Inventory,
    lint::{self, Definitions},
};
use modgate_value::{
    Str, Value,
    diag::{Diagnostic, Severity, Source},
    yaml,
};

use crate::{
    manifest::{self, Manifest},
    references::References,
};

/// A document, and what its file is for.
#[derive(Debug, Clone, Copy)]
pub struct Document<'m, K> {
    /// The name by which the caller knows it.
    pub key: K,
    /// The document.
    pub manifest: &'m Manifest,
    /// Whether its file is one of policies; others hold objects that policies see in `data.inventory`.
    pub holds_policies: bool,
}

/// Documents by what they are for. Objects that are no policies stand in for a cluster: Namespaces and
/// Nodes of any file, and every object of files for objects as `data.inventory`.
#[derive(Debug)]
pub struct Sorted<'m, K> {
    /// The policies. Of two with the same name the first counts.
    pub policies: BTreeMap<PolicyId, (K, &'m Manifest)>,
    /// The objects that policies refer to.
    pub references: References,
    /// The custom resources that warnings about policies know.
    pub definitions: Arc<Definitions>,
    inventory: Inventory,
}

impl<'m, K> Sorted<'m, K> {
    /// Sorts documents. Only documents whose text is among `sources`, by the names of files, have findings.
    /// Warnings also know `definitions`.
    pub fn new(
        mut definitions: Definitions,
        documents: impl IntoIterator<Item = Document<'m, K>>,
        sources: &BTreeMap<Str, Source>,
        config: &EngineConfig,
        findings: &mut Vec<Diagnostic>,
    ) -> Self {
        let documents: Vec<Document<'m, K>> = documents.into_iter().collect();
        definitions.add_those_of(documents.iter().map(|document| &document.manifest.object));
        let mut sorted = Self {
            policies: BTreeMap::new(),
            references: References::default(),
            definitions: definitions.into(),
            inventory: Inventory::default(),
        };
        for document in documents {
            let source = sources.get(&document.manifest.origin);
            sorted.add(document, source, config, findings);
        }
        sorted
    }

    fn add(
        &mut self,
        document: Document<'m, K>,
        source: Option<&Source>,
        config: &EngineConfig,
        findings: &mut Vec<Diagnostic>,
    ) {
        let Document { key, manifest, holds_policies } = document;
        let mut report = |finding: Diagnostic| {
            if let Some(source) = source {
                findings.push(manifest.finding(finding, source));
            }
        };
        if AdmissionReview::is_review(&manifest.object) || self.references.declare(&manifest.object)
        {
            return;
        }
        let is_reference = self.references.take(&manifest.object);
        let is_policy = Snapshot::takes(&manifest.object);
        if !is_reference && !is_policy {
            self.references.keep(&manifest.object);
        }
        if !holds_policies {
            if let Err(error) = self.inventory.insert(without_managed_fields(&manifest.object)) {
                report(Diagnostic::warning(format!("{error}, skipped")));
            }
            return;
        }
        if is_reference {
            return;
        }
        if !is_policy {
            findings.extend(
                source.into_iter().flat_map(|it| not_a_policy(manifest, it, &self.definitions)),
            );
            return;
        }
        let id = policy_id(manifest, config);
        match self.policies.get(&id) {
            Some((_, first)) => report(is_defined_twice(&id, first)),
            None => {
                self.policies.insert(id, (key, manifest));
            }
        }
    }

    /// The documents under `data.inventory`, as policies see them that are in force: as in a cluster,
    /// without what a Config excludes. The names of the files say which kinds are synced.
    pub fn into_inventory(mut self, snapshot: &Snapshot) -> (References, Inventory) {
        self.inventory.retain(|synced| !snapshot.exclusions().excludes_synced(synced));
        (self.references, self.inventory)
    }
}

/// The findings about policies that follow from nothing but these policies themselves.
pub fn findings<'p>(
    problems: &'p [Problem],
    sources: &'p BTreeMap<Str, Source>,
) -> impl Iterator<Item = Diagnostic> + 'p {
    let own = problems.iter().filter(|problem| !problem.is_consequence());
    own.map(|problem| manifest::diagnose(problem, sources.get(&problem.origin)))
}

/// Removes the errors of constraints without a template where a document is not loaded that was meant as one. That
/// document is the error, then.
pub fn drop_consequences(findings: &mut Vec<Diagnostic>) {
    let codes = [Code::UnknownKind.as_str(), Code::UnknownGroup.as_str()];
    let is_template = |finding: &Diagnostic| {
        let help = finding.help.as_deref().unwrap_or_default();
        finding.code.is_some_and(|code| codes.contains(&code))
            && [templates::KIND, templates::GROUP].iter().any(|name| help.contains(name))
    };
    let waits = |finding: &Diagnostic| finding.help.as_deref() == Some(lint::WAITS_FOR_TEMPLATE);
    if findings.iter().any(waits) {
        let unread = unread(findings, templates::KIND);
        findings.retain(|it| !(waits(it) && unread.iter().any(|text| is_template_of(text, it))));
    }
    if findings.iter().any(|it| missing_policy(it).is_some()) {
        let unread = unread(findings, "AdmissionPolicy");
        findings.retain(|it| {
            let name = missing_policy(it).map(|name| name.to_lowercase());
            !name.is_some_and(|name| unread.iter().any(|text| has_word(text, &name)))
        });
    }
    if !findings.iter().any(is_template) || !findings.iter().any(waits) {
        return;
    }
    findings.retain(|finding| !waits(finding));
    findings.iter_mut().filter(|finding| is_template(finding)).for_each(|finding| {
        finding.severity = Severity::Error;
    });
}

/// The name of the policy that a binding names and that was not found.
fn missing_policy(finding: &Diagnostic) -> Option<&Str> {
    let is_it = finding.code == Some(Code::NoEffect.as_str());
    finding.missing.as_ref().filter(|name| is_it && !name.is_empty())
}

/// The texts with policies of this kind that are no YAML, in small letters.
fn unread(findings: &[Diagnostic], kind: &str) -> Vec<String> {
    let errors = findings.iter().filter(|it| it.severity == Severity::Error && it.code.is_none());
    let texts: BTreeMap<&str, &str> =
        errors.filter_map(|it| it.source.as_ref()).map(|it| (&*it.name, &*it.text)).collect();
    let unread = texts.into_values().filter(|text| {
        text.contains(kind) && yaml::manifest(text).any(|document| document.is_err())
    });
    unread.map(str::to_lowercase).collect()
}

/// Whether a text names the template that a constraint waits for, as a word.
fn is_template_of(text: &str, waiting: &Diagnostic) -> bool {
    let name = waiting.missing.as_deref().unwrap_or_default();
    !name.is_empty() && has_word(text, name)
}

/// Whether a text has a name as a word.
fn has_word(text: &str, name: &str) -> bool {
    text.split(|it: char| !(it.is_alphanumeric() || "-.".contains(it))).any(|word| word == name)
}

/// The object without `managedFields`: no policy reads them, and they are often most of an object.
pub(crate) fn without_managed_fields(object: &Value) -> Value {
    let members = |value: Option<&Value>| value.and_then(Value::as_object).cloned();
    let (Some(mut root), Some(metadata)) = (members(Some(object)), members(object.get("metadata")))
    else {
        return object.clone();
    };
    if metadata.get("managedFields").is_none() {
        return object.clone();
    }
    let kept: Value = metadata.iter().filter(|(key, _)| key != "managedFields").cloned().collect();
    root.insert("metadata", kept);
    root.into()
}

/// The error of a policy whose first definition is elsewhere.
pub fn is_defined_twice(id: &PolicyId, first: &Manifest) -> Diagnostic {
    Diagnostic::error(format!("{id} is already defined in `{}`", first.location()))
        .help("the first definition in the order of file names counts")
}

/// ModRules without a namespace live in the default one, a Config in that of the installation; other policies have none.
pub fn policy_id(manifest: &Manifest, config: &EngineConfig) -> PolicyId {
    let mut id = PolicyId::of_object(&manifest.object);
    if id.namespace.is_empty() {
        if ModRule::is_modrule(&manifest.object) {
            id.namespace.clone_from(&config.default_namespace);
        } else if id.group == config::GROUP && id.kind == config::KIND {
            id.namespace.clone_from(&config.installation.namespace);
        }
    }
    id
}

/// Files of Kustomize, of Helm and of `modgate check` that lie beside policies.
const NO_OBJECTS: [&str; 7] = [
    "Chart.yaml",
    "kustomization.yaml",
    "kustomization.yml",
    "modgate.yaml",
    "values.schema.json",
    "values.yaml",
    "values.yml",
];

/// API groups of policies that other engines evaluate.
const FOREIGN_GROUPS: [&str; 4] =
    ["kyverno.io", "policies.kyverno.io", "policies.kubewarden.io", "jspolicy.com"];

/// Findings about an object that is not a policy: none, unless it looks as if it should be a policy, or is a SyncSet.
/// Policies often live next to the objects they are for.
pub fn not_a_policy(
    manifest: &Manifest,
    source: &Source,
    definitions: &Definitions,
) -> Vec<Diagnostic> {
    let file = Path::new(manifest.origin.as_str()).file_name().and_then(|name| name.to_str());
    if manifest.kind().is_empty() && file.is_some_and(|file| NO_OBJECTS.contains(&file)) {
        let mut finding = Diagnostic::warning("no Kubernetes object, skipped");
        finding.severity = Severity::Note;
        return vec![manifest.finding(finding, source)];
    }
    let (group, _) = meta::split_api_version(manifest.api_version());
    if FOREIGN_GROUPS.contains(&group) {
        let message = format!(
            "`{}` of `{}` is a policy of another engine, skipped: modgate does not evaluate it",
            manifest.kind(),
            manifest.api_version()
        );
        let finding = Diagnostic::warning(message).code(Code::UnknownGroup.as_str());
        return vec![manifest.finding_at("apiVersion", finding, source)];
    }
    let Some(found) = lint::not_loaded(&manifest.object) else {
        let problems = lint::read(&manifest.clone().into_policy(), definitions);
        return problems.iter().map(|it| manifest::diagnose(it, Some(source))).collect();
    };
    vec![placed(manifest, source, found)]
}

/// A mistake in a document, with its place.
pub(crate) fn placed(manifest: &Manifest, source: &Source, found: lint::Mistake) -> Diagnostic {
    let lint::Mistake { code, place, message, help } = found;
    let mut finding = Diagnostic::warning(message).code(code.as_str());
    finding.help = help;
    match place {
        lint::Place::Key(member) => manifest.finding_at_key(&member, finding, source),
        lint::Place::Value(member) => manifest.finding_at(&member, finding, source),
    }
}
