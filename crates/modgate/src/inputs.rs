//! Policies and objects from files, folders and standard input.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, ensure};
use modgate_engine::{
    Host as _, Review,
    api::admission::{AdmissionReview, ReviewVersion},
};
use modgate_policies::{
    PolicyFiles, PolicySet, PolicyStore,
    manifest::{self, Manifest},
};
use modgate_value::{
    Value,
    diag::{Diagnostic, Severity, Source},
};

use crate::{
    args::{PolicyArgs, SubjectArgs},
    terminal::{Terminal, printable},
};

/// An object to look at and where it came from.
pub(crate) struct Subject {
    /// `file:line:column`.
    pub(crate) place: String,
    /// The request about it.
    pub(crate) review: Review,
}

impl Subject {
    /// `Deployment shop/web`, for people.
    pub(crate) fn title(&self) -> String {
        let request = self.review.request();
        let object = self.review.object();
        let text = |path: &[&str]| object.and_then(|object| object.path(path)?.as_str());
        let kind = match request.kind.kind.as_str() {
            "" => text(&["kind"]).unwrap_or("object"),
            kind => kind,
        };
        let name = match request.name.as_str() {
            "" => text(&["metadata", "name"]).or(text(&["metadata", "generateName"])),
            name => Some(name),
        };
        match (self.review.store_namespace(), name.unwrap_or("(unnamed)")) {
            ("", name) => format!("{kind} {name}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        }
    }
}

/// Everything a verb works on.
pub(crate) struct Inputs {
    /// The policies as their files have them.
    pub(crate) store: PolicyStore,
    pub(crate) world: Arc<PolicySet>,
    pub(crate) subjects: VecDeque<Subject>,
    /// Whether an object could not be read, hence is missing from `subjects`.
    pub(crate) incomplete: bool,
}

/// Reads policies and objects; `None` when a policy does not load, for then nothing can be said
/// about any object. Findings go to the terminal.
pub(crate) fn read(
    policies: &PolicyArgs,
    subjects: &SubjectArgs,
    terminal: &Terminal,
) -> Result<Option<Inputs>> {
    let all = policies.policies.iter().chain(&policies.objects).chain(&subjects.subjects);
    let from_stdin = all.filter(|path| manifest::is_stdin(path)).count();
    ensure!(
        from_stdin <= 1,
        "standard input can be read once, but `-` is given {from_stdin} times"
    );

    let files =
        PolicyFiles { policies: policies.policies.clone(), objects: policies.objects.clone() };
    let mut store = PolicyStore::new(files, policies.engine.config(&subjects.namespace));
    let findings = store.refresh().findings;
    if !are_good(findings, policies.strict, terminal) {
        return Ok(None);
    }
    let mut world = PolicySet::clone(store.policies());
    if !are_policies(&world, &policies.policies, terminal) {
        return Ok(None);
    }
    let mut found = VecDeque::new();
    let mut incomplete = false;
    for (manifest, review) in read_subjects(subjects, terminal, &mut incomplete) {
        // Namespaces and Nodes among the objects are there for the others, too.
        world.objects.take(&manifest.object);
        found.push_back(Subject { place: manifest.location(), review });
    }
    if found.is_empty() && !incomplete {
        terminal.error(&format!("there is no object in {}", listed(&subjects.subjects)));
        incomplete = true;
    }
    tell_assumed_namespaces(&world, &found, terminal);
    Ok(Some(Inputs { store, world: Arc::new(world), subjects: found, incomplete }))
}

/// Prints what was found about policies; whether all of it is bearable. Warnings are errors with
/// `strict`.
pub(crate) fn are_good(findings: Vec<Diagnostic>, strict: bool, terminal: &Terminal) -> bool {
    let mut good = true;
    for mut finding in findings {
        if strict && finding.severity == Severity::Warning {
            finding.severity = Severity::Error;
        }
        good &= finding.severity != Severity::Error;
        terminal.diagnostic(&finding);
    }
    good
}

/// Says which Namespaces no file describes, where ModRules look at them.
fn tell_assumed_namespaces(world: &PolicySet, subjects: &VecDeque<Subject>, terminal: &Terminal) {
    let names = subjects.iter().map(|subject| subject.review.store_namespace());
    let assumed: BTreeSet<&str> = names
        .filter(|name| {
            !name.is_empty()
                && world.objects.assumes_namespace(name)
                && world.snapshot.modrules_read_namespace(name)
        })
        .collect();
    for name in assumed {
        terminal.note(format_args!(
            "note: no file describes Namespace `{}`, so ModRules see one without labels of its own; \
             give it with `--objects`",
            printable(name)
        ));
    }
}

/// Whether there is any policy; if not, says so. What no policy objects to would be allowed, so that a
/// wrong folder would pass for a good one.
pub(crate) fn are_policies(world: &PolicySet, paths: &[PathBuf], terminal: &Terminal) -> bool {
    let found = world.snapshot.policies().next().is_some();
    if !found {
        terminal.error(&format!("there is no policy in {}", listed(paths)));
    }
    found
}

/// The paths as the user gave them.
fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    paths.join(", ")
}

fn read_subjects(
    args: &SubjectArgs,
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Vec<(Manifest, Review)> {
    let mut subjects = Vec::new();
    for (manifest, source) in manifests(&args.subjects, terminal, incomplete) {
        match review_of(&manifest, args) {
            Ok(review) => subjects.push((manifest, review)),
            Err(problem) => {
                *incomplete = true;
                terminal.diagnostic(&manifest.finding(*problem, &source));
            }
        }
    }
    subjects
}

/// Every object under `paths`; what cannot be read is reported and noted in `incomplete`.
pub(crate) fn manifests(
    paths: &[PathBuf],
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Vec<(Manifest, Source)> {
    let mut found = Vec::new();
    for path in paths {
        match read_path(path) {
            Ok(read) => {
                for (manifests, source, findings) in read {
                    *incomplete |= !findings.is_empty();
                    findings.iter().for_each(|finding| terminal.diagnostic(finding));
                    found.extend(manifests.into_iter().map(|manifest| (manifest, source.clone())));
                }
            }
            Err(error) => {
                *incomplete = true;
                terminal.diagnostic(&error.into());
            }
        }
    }
    found
}

type Read = (Vec<Manifest>, Source, Vec<Diagnostic>);

fn read_path(path: &Path) -> Result<Vec<Read>, manifest::FileError> {
    let listing = manifest::files(path)?;
    if let Some(problem) = listing.problems.into_iter().next() {
        return Err(problem);
    }
    listing
        .files
        .iter()
        .map(|file| {
            let source = manifest::read_file(file)?;
            let (manifests, findings) = manifest::parse(&source);
            Ok((manifests, source, findings))
        })
        .collect()
}

/// The request an object stands for: the one of an AdmissionReview, or what `--operation` says is
/// done to it.
fn review_of(manifest: &Manifest, args: &SubjectArgs) -> Result<Review, Box<Diagnostic>> {
    let object = &manifest.object;
    if AdmissionReview::is_review(object) {
        return Review::parse(object).map_err(|error| {
            let help = format!(
                "an AdmissionReview has apiVersion `{}` and a `request`",
                ReviewVersion::V1.api_version()
            );
            Diagnostic::error(error.to_string()).help(help).into()
        });
    }
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() {
        let problem = Diagnostic::error("the object has no `kind`");
        return Err(problem.help("give a Kubernetes object or an AdmissionReview").into());
    }
    Ok(Review::of_object(object.clone(), args.operation, &args.namespace))
}
