//! A run of `review` and `explain` over the texts of a request.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

use modgate_engine::{
    Change, Decision, EngineConfig, Evaluation, Faults, OnError, Plan, Snapshot, Stages, Trace,
    Update,
    api::{meta::Operation, secrets::SecretValues},
    constraint::Arena,
    lint::Definitions,
};
use modgate_report::{Finding, Level, Report, about_policies};
use modgate_review::{
    decision::{self, document},
    explain::{Shown, explained, set_columns},
    findings,
    manifest::{self, Manifest},
    notes,
    references::FileHost,
    run::{impossible, stand_in},
    sorted::{self, Document, Sorted},
    subject::{self, Assumed, as_stored},
};
use modgate_value::{
    Str, Value,
    budget::Frozen,
    diag::{Diagnostic, Severity, Source},
};
use serde::Serialize;

use crate::{
    attributes::Composed,
    coverage::{self, Reach},
    kept::{Kept, Loaded, Policies},
    machine::Machine,
    request::{File, Request},
};

/// The content of a page.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The output of `modgate review -o json`.
    pub review: String,
    /// The output of `modgate explain -o json`: explanations, or findings if a policy does not
    /// load.
    pub explain: String,
    /// The findings about policies and documents.
    pub marks: Vec<Mark>,
    /// Notes that the command line prints besides its results.
    pub notes: Vec<String>,
    /// The objects, in the order of the results.
    pub subjects: Vec<Subject>,
    /// The AdmissionReviews that the objects became, if the request has attributes.
    pub request: Option<File>,
    /// How many policies are in force.
    pub policies: usize,
    /// The coverage of the policies; empty unless the request asks for it: then the answer has
    /// nothing else.
    pub coverage: Vec<Reach>,
}

/// An object under review.
#[derive(Debug, Clone, Serialize)]
pub struct Subject {
    /// Such as `Pod default/web`.
    pub title: String,
    /// The object as YAML, without values of a Secret.
    pub before: String,
    /// The same after the policies.
    pub after: String,
    /// The findings of policies, with the fields that they name.
    pub marks: Vec<Mark>,
}

/// A finding and its place.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// The name of the file; empty if the finding has no place.
    pub file: String,
    /// Where it begins, from 1; 0 if the place is not known. Columns count characters.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// Where it ends.
    pub end_line: usize,
    /// The column.
    pub end_column: usize,
    /// `error`, `warning` or `note`.
    pub level: &'static str,
    /// The code of a warning, or the name of a policy.
    pub code: String,
    /// The message.
    pub message: String,
    /// Advice; may be empty.
    pub help: String,
}

/// Answers a request, with the policies of an earlier one if they are the same.
pub(crate) fn run(request: &Request, kept: &mut Kept) -> Answer {
    let mut run =
        Run { answer: Answer::default(), heard: Vec::new(), sources: BTreeMap::new(), kept };
    if request.coverage {
        // Of policies that do not load, nothing is reached.
        let coverage = run.coverage(request).unwrap_or_default();
        return Answer { coverage, ..Answer::default() };
    }
    if run.all(request).is_none() {
        let found: Value = about_policies(&findings::report(&run.heard)).into_iter().collect();
        run.answer.review = document(&found);
        // Both commands print what is wrong with policies.
        run.answer.explain.clone_from(&run.answer.review);
    }
    run.answer.marks = run.heard.iter().map(mark).collect();
    run.answer
}

struct Run<'k> {
    answer: Answer,
    /// The diagnostics so far.
    heard: Vec<Diagnostic>,
    sources: BTreeMap<Str, Source>,
    kept: &'k mut Kept,
}

impl Run<'_> {
    /// `None` if a policy does not load, for then nothing can be said about any object.
    fn all(&mut self, request: &Request) -> Option<()> {
        let Prepared { policies, subjects, mut incomplete } = self.prepared(request)?;
        if subjects.is_empty() && !incomplete {
            let named = listed(&request.objects);
            self.heard.push(Diagnostic::error(format!("there is no object in {named}")));
            incomplete = true;
        }
        self.answer.notes = notes::about_input(
            &policies.snapshot,
            &policies.references,
            subjects.iter().map(|it| &it.subject.review),
        );
        self.decide(request, &policies, subjects, !incomplete);
        Some(())
    }

    /// The coverage of the policies by the objects; `None` if a policy does not load.
    fn coverage(&mut self, request: &Request) -> Option<Vec<Reach>> {
        let Prepared { policies, subjects, .. } = self.prepared(request)?;
        let Policies { snapshot, references, inventory, manifests } = &policies;
        let machine = Machine::new(request.now, request.seed);
        let host = FileHost { references, clock: &Frozen, templates: &machine, policies: &machine };
        let subjects = subjects.iter().map(|it| &it.subject);
        let before: Vec<_> =
            manifests.iter().map(|it| coverage::counted(&it.object, snapshot, &[])).collect();
        let traces = coverage::run(snapshot, &host, inventory, subjects);
        let places = manifests.iter().zip(&before).filter_map(|(manifest, before)| {
            let source = self.sources.get(&manifest.origin)?;
            let coverage = coverage::counted(&manifest.object, snapshot, &traces);
            Some(coverage::places(manifest, source, &coverage, before))
        });
        Some(places.flatten().collect())
    }

    /// Policies and objects, as they are decided; `None` if a policy does not load.
    fn prepared(&mut self, request: &Request) -> Option<Prepared> {
        let namespace = match request.namespace.as_str() {
            "" => "default",
            name => name,
        };
        let mut config = EngineConfig { default_namespace: namespace.into(), ..Default::default() };
        config.templates.observed = request.coverage;
        let mut policies = self.loaded(request, config)?;
        let operation = self.operation(&request.operation)?;
        let mut incomplete = false;
        let mut subjects = self.subjects(request, operation, namespace, &mut incomplete);
        let Policies { snapshot, references, inventory, .. } = &mut policies;
        for Reviewed { subject, .. } in &subjects {
            let found = impossible(&subject.manifest, &subject.source, snapshot.definitions());
            self.heard.extend(found);
        }
        let objects = subjects.iter().map(|it| &it.subject.manifest.object);
        stand_in(objects, snapshot, references, inventory);
        if request.defaulting {
            let types = policies.references.types();
            for Reviewed { subject, .. } in &mut subjects {
                subject.review = as_stored(subject.review.clone(), types);
            }
        }
        Some(Prepared { policies, subjects, incomplete })
    }

    /// The policies, as they were loaded before or now; `None` when one does not load, or there is none.
    fn loaded(&mut self, request: &Request, config: EngineConfig) -> Option<Policies> {
        if let Some(Loaded { policies, heard, sources }) = self.kept.find(request) {
            (self.heard, self.sources) = (heard, sources);
            self.answer.policies = policies.snapshot.policies().count();
            return Some(policies);
        }
        let policies = self.policies(request, config)?;
        let (heard, sources) = (self.heard.clone(), self.sources.clone());
        self.kept.keep(request, Loaded { policies: policies.clone(), heard, sources });
        Some(policies)
    }

    /// Reads the policies; `None` when one does not load, or there is none.
    fn policies(&mut self, request: &Request, config: EngineConfig) -> Option<Policies> {
        // As folders are read: in the order of their paths.
        let mut files: BTreeMap<PathBuf, (&File, bool)> = BTreeMap::new();
        let given = request.policies.iter().map(|file| (file, true));
        for (file, holds_policies) in
            given.chain(request.references.iter().map(|file| (file, false)))
        {
            files.entry(file.name.clone().into()).or_insert((file, false)).1 |= holds_policies;
        }
        let mut documents = Vec::new();
        for (file, holds_policies) in files.values() {
            let source = Source::new(file.name.as_str(), file.text.as_str());
            let (manifests, found) = manifest::parse(&source);
            self.heard.extend(found);
            self.sources.insert(Str::from(file.name.as_str()), source);
            documents.extend(manifests.into_iter().map(|manifest| (manifest, *holds_policies)));
        }
        let each = documents.iter().map(|(manifest, holds_policies)| Document {
            key: (),
            manifest,
            holds_policies: *holds_policies,
        });
        let sorted =
            Sorted::new(Definitions::default(), each, &self.sources, &config, &mut self.heard);
        let changes = sorted.policies.values();
        let changes = changes.map(|((), it)| Change::Upsert((*it).clone().into_policy()));
        let Update { snapshot, problems, .. } = Snapshot::new(config)
            .with_definitions(std::sync::Arc::clone(&sorted.definitions))
            .apply_timed(changes.collect(), OnError::Keep, &Frozen);
        self.heard.extend(sorted::findings(&problems, &self.sources));
        let written = sorted.policies.values().filter(|_| request.coverage);
        let manifests = written.map(|((), manifest)| (*manifest).clone()).collect();
        let (references, inventory) = sorted.into_inventory(&snapshot);
        if self.heard.iter().any(|found| found.severity == Severity::Error) {
            return None;
        }
        self.answer.policies = snapshot.policies().count();
        if self.answer.policies == 0 {
            let named = listed(&request.policies);
            self.heard.push(Diagnostic::error(format!("there is no policy in {named}")));
            return None;
        }
        Some(Policies { snapshot, references, inventory, manifests })
    }

    fn operation(&mut self, text: &str) -> Option<Operation> {
        if text.is_empty() {
            return Some(Operation::Create);
        }
        match text.to_ascii_uppercase().parse::<Operation>() {
            Ok(operation) => Some(operation),
            Err(error) => {
                self.heard.push(Diagnostic::error(error.to_string()));
                None
            }
        }
    }

    /// The objects under review. What cannot be read is heard, and noted in `incomplete`.
    fn subjects(
        &mut self,
        request: &Request,
        operation: Operation,
        namespace: &str,
        incomplete: &mut bool,
    ) -> VecDeque<Reviewed> {
        let mut found = Vec::new();
        for file in &request.objects {
            let source = Source::new(file.name.as_str(), file.text.as_str());
            let (manifests, findings) = manifest::parse(&source);
            *incomplete |= !findings.is_empty();
            self.heard.extend(findings);
            found.extend(manifests.into_iter().map(|manifest| (manifest, source.clone())));
        }
        let written = found.clone();
        if let Some(attributes) = &request.attributes {
            match Composed::read(attributes) {
                Ok(composed) => {
                    let objects: Vec<Manifest> = found.into_iter().map(|(it, _)| it).collect();
                    let file = composed.file(&objects, operation, namespace);
                    let source = Source::new(file.name.as_str(), file.text.as_str());
                    let (manifests, _) = manifest::parse(&source);
                    found = manifests.into_iter().map(|it| (it, source.clone())).collect();
                    self.answer.request = Some(file);
                }
                Err(finding) => {
                    *incomplete = true;
                    self.heard.push(*finding);
                    return VecDeque::new();
                }
            }
        }
        let assumed = Assumed { operation, namespace, user: None };
        let mut subjects = VecDeque::new();
        for ((manifest, source), (written, text)) in found.into_iter().zip(written) {
            match subject::review_of(&manifest, &assumed) {
                Ok(review) => {
                    let place = manifest.location();
                    let subject = subject::Subject { place, manifest, source, review };
                    subjects.push_back(Reviewed { subject, written, text });
                }
                Err(problem) => {
                    *incomplete = true;
                    self.heard.push(manifest.finding(*problem, &source));
                }
            }
        }
        subjects
    }

    fn decide(
        &mut self,
        request: &Request,
        policies: &Policies,
        subjects: VecDeque<Reviewed>,
        complete: bool,
    ) {
        let Policies { snapshot, references, inventory, .. } = policies;
        let machine = Machine::new(request.now, request.seed);
        let host = FileHost { references, clock: &Frozen, templates: &machine, policies: &machine };
        let mut report = findings::report(&self.heard);
        report.complete = complete;
        let (mut results, mut explanations) = (Vec::new(), Vec::new());
        let secrets = secrets(policies, &subjects);
        let mut arena = Arena::new();
        let shown = Shown { all: request.all, ..Shown::default() };
        let mut templates = BTreeMap::new();
        for Reviewed { subject, written, text } in subjects {
            let mut trace = Trace::default();
            let mut evaluation = Evaluation::new(&host, inventory, &mut arena);
            let decision =
                snapshot.decide(&subject.review, Stages::ALL, &mut evaluation, &mut trace);
            let mut evaluation = Evaluation::new(&host, inventory, &mut arena);
            let faults = findings::faults(snapshot, &subject, &decision, &mut evaluation);
            let note = notes::about_defaults(snapshot, &host, inventory, &subject, &decision);
            self.answer.notes.extend(note);
            let result = decision::result(&subject, &decision, snapshot);
            results.push(decision::without_secrets(result, &secrets));
            let read = |name: &str| self.sources.get(name).cloned();
            set_columns(&mut trace.constraints, &mut templates, read);
            let mut plan = Plan::of(&decision, &trace, snapshot.config());
            shown.limit(&mut plan);
            match explained(&subject, &decision, &trace, &plan, snapshot, &shown) {
                Ok(explanation) => explanations.push(explanation),
                Err(error) => self.answer.notes.push(format!("note: no explanation: {error}")),
            }
            // Places are those in the text that the user wrote.
            let subject = subject::Subject { manifest: written, source: text, ..subject };
            self.answer.subjects.push(shown_subject(
                &subject,
                &decision,
                (snapshot, &faults),
                &mut report,
            ));
        }
        let results: Value = results.into_iter().chain(about_policies(&report)).collect();
        self.answer.review = document(&results);
        self.answer.explain = document(&secrets.hide_in(&explanations.into()));
    }
}

/// The values of Secrets that stand in no result: those that policies read, and those under review.
fn secrets(policies: &Policies, subjects: &VecDeque<Reviewed>) -> SecretValues {
    let mut values = SecretValues::default();
    policies.inventory.objects().for_each(|synced| values.add(synced.object, false));
    policies.references.params().for_each(|object| values.add(object, false));
    for Reviewed { subject, .. } in subjects {
        let request = subject.review.request();
        for object in request.object.iter().chain(&request.old_object) {
            values.add(object, subject.review.is_secret());
        }
    }
    values
}

/// Policies and objects before a decision.
struct Prepared {
    policies: Policies,
    subjects: VecDeque<Reviewed>,
    /// Whether an object cannot be read.
    incomplete: bool,
}

/// An object under review, and the document that the user wrote for it.
struct Reviewed {
    subject: subject::Subject,
    written: Manifest,
    text: Source,
}

fn shown_subject(
    subject: &subject::Subject,
    decision: &Decision,
    known: (&Snapshot, &Faults),
    report: &mut Report,
) -> Subject {
    let before = report.findings.len();
    findings::decision(report, subject, decision, known);
    let found = report.findings.iter().skip(before);
    let marks = found.map(|finding| policy_mark(finding, report)).collect();
    let (before, after) = decision::texts(subject, decision);
    Subject { title: subject.title(), before, after, marks }
}

/// The names of files, for a message.
fn listed(files: &[File]) -> String {
    let names: Vec<_> = files.iter().map(|file| format!("`{}`", file.name)).collect();
    names.join(", ")
}

fn mark(diagnostic: &Diagnostic) -> Mark {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let mut mark = Mark {
        file: String::new(),
        line: 0,
        column: 0,
        end_line: 0,
        end_column: 0,
        level,
        code: diagnostic.code.unwrap_or_default().to_owned(),
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone().unwrap_or_default(),
    };
    if let Some(source) = &diagnostic.source {
        let start = source.location(diagnostic.span.start);
        let end = source.location(diagnostic.span.end.max(diagnostic.span.start));
        mark.file = source.name.to_string();
        (mark.line, mark.column) = (start.line, start.column);
        (mark.end_line, mark.end_column) = (end.line, end.column);
    }
    mark
}

/// The mark for a finding of a policy.
fn policy_mark(finding: &Finding, report: &Report) -> Mark {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        _ => "note",
    };
    let place = finding.place.clone().unwrap_or_default();
    let count = |number: u32| usize::try_from(number).unwrap_or_default();
    Mark {
        file: place.file,
        line: count(place.line),
        column: count(place.column),
        end_line: count(place.end_line),
        end_column: count(place.end_column),
        level,
        code: report.rules.get(finding.rule).map(|rule| rule.id.clone()).unwrap_or_default(),
        message: finding.message.clone(),
        help: report.remediation(finding).to_owned(),
    }
}
