//! Policies and objects from files, folders and standard input.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, ensure};
use modgate_engine::{Change, EngineConfig, OnError, Problem, Snapshot};
use modgate_policies::{
    PolicyFiles, PolicySet, PolicyStore,
    manifest::{self, Manifest},
};
use modgate_prove::recorded::Recorded;
use modgate_review::{
    notes,
    subject::{self, Assumed, Subject, as_stored},
};
use modgate_value::diag::{Diagnostic, Severity, Source, Span};

use crate::{
    args::{PathArgs, PolicyArgs, SubjectArgs},
    lines, paths,
    terminal::Terminal,
};

/// Everything a verb works on.
pub(crate) struct Inputs {
    /// The policies as their files have them.
    pub(crate) store: PolicyStore,
    pub(crate) policy_set: Arc<PolicySet>,
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
    once(policies, &subjects.paths())?;
    let config = policies.engine.config(&subjects.namespace);
    let Some((store, mut policy_set)) =
        read_policies(policies, &subjects.paths(), config, terminal)?
    else {
        return Ok(None);
    };
    let mut found = VecDeque::new();
    let mut incomplete = false;
    for subject in read_subjects(subjects, terminal, &mut incomplete)? {
        policy_set.objects.references_mut().learn(&subject.manifest.object);
        found.push_back(subject);
    }
    if subjects.defaulting {
        let types = policy_set.objects.references().types();
        let stored =
            |subject: Subject| Subject { review: as_stored(subject.review, types), ..subject };
        found = found.into_iter().map(stored).collect();
    }
    if found.is_empty() && !incomplete {
        terminal.error(&format!("there is no object in {}", listed(&subjects.paths().named())));
        incomplete = true;
    }
    let (snapshot, references) = (&policy_set.snapshot, policy_set.objects.references());
    notes::about_input(snapshot, references, found.iter().map(|subject| &subject.review))
        .into_iter()
        .for_each(|note| terminal.note(note));
    Ok(Some(Inputs { store, policy_set: Arc::new(policy_set), subjects: found, incomplete }))
}

/// Whether standard input is read once at most.
pub(crate) fn once(policies: &PolicyArgs, paths: &PathArgs) -> Result<()> {
    let all = policies.policies.iter().chain(&policies.objects).chain(&paths.subjects);
    let from_stdin = all.filter(|path| manifest::is_stdin(path)).count();
    ensure!(
        from_stdin <= 1,
        "standard input can be read once, but `-` is given {from_stdin} times"
    );
    Ok(())
}

/// Reads the policies; `None` when one does not load, or there is none.
pub(crate) fn read_policies(
    policies: &PolicyArgs,
    paths: &PathArgs,
    config: EngineConfig,
    terminal: &Terminal,
) -> Result<Option<(PolicyStore, PolicySet)>> {
    let exclude = paths::Exclude::new(&paths.exclude)?;
    let files = PolicyFiles {
        policies: paths::expanded(&policies.policies, &exclude)?,
        objects: paths::expanded(&policies.objects, &exclude)?,
    };
    let mut store = PolicyStore::new(files, config);
    let findings = store.refresh().findings;
    if !are_good(findings, policies.strict, terminal) {
        return Ok(None);
    }
    let mut policy_set = PolicySet::clone(store.policies());
    policy_set.objects.count_processor_time();
    Ok(are_policies(&policy_set, &policies.policies, terminal).then_some((store, policy_set)))
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

/// Whether there is any policy; prints an error if not. Without one every object would be allowed, and a
/// wrong folder would not be noticed.
pub(crate) fn are_policies(policy_set: &PolicySet, paths: &[PathBuf], terminal: &Terminal) -> bool {
    let found = policy_set.snapshot.policies().next().is_some();
    if !found {
        terminal.error(&format!("there is no policy in {}", listed(paths)));
    }
    found
}

/// The paths as the user gave them.
pub(crate) fn listed(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths.iter().map(|path| format!("`{}`", path.display())).collect();
    paths.join(", ")
}

fn read_subjects(
    args: &SubjectArgs,
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    let mut paths = args.paths();
    // Folders of records.
    for folder in args.paths().subjects.iter().filter(|path| path.is_dir()) {
        paths.subjects.extend(lines::files(folder)?);
    }
    let assumed =
        Assumed { operation: args.operation, namespace: &args.namespace, user: args.user_info() };
    for (manifest, source) in manifests(&paths, terminal, incomplete)? {
        if Recorded::is_repeated(&manifest.object) {
            continue;
        }
        match subject::review_of(&manifest, &assumed) {
            Ok(review) => {
                subjects.push(Subject { place: manifest.location(), manifest, source, review });
            }
            Err(problem) => {
                *incomplete = true;
                terminal.diagnostic(&manifest.finding(*problem, &source));
            }
        }
    }
    Ok(subjects)
}

/// Every object under the paths, without files that belong to Helm and kustomize; what cannot be read
/// is reported and noted in `incomplete`.
pub(crate) fn manifests(
    args: &PathArgs,
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Result<Vec<(Manifest, Source)>> {
    let exclude = paths::Exclude::new(&args.exclude)?;
    let mut found = Vec::new();
    let paths = paths::expanded(&args.subjects, &exclude)?;
    let listings: Vec<_> = paths.iter().map(|path| manifest::files(path)).collect();
    let files = listings.iter().flatten().flat_map(|listing| &listing.files);
    let patches = paths::patches(files);
    for (path, listing) in paths.iter().zip(listings) {
        let is_named = args.subjects.contains(path);
        match listing.and_then(|it| read_listed(path, it, is_named, &patches, terminal)) {
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
    for folder in &args.kustomize {
        let source = paths::kustomize(folder)?;
        let (manifests, findings) = manifest::parse(&source);
        *incomplete |= !findings.is_empty();
        findings.iter().for_each(|finding| terminal.diagnostic(finding));
        found.extend(manifests.into_iter().map(|manifest| (manifest, source.clone())));
    }
    Ok(found)
}

/// The engine's findings about the policies among documents, with their places.
pub(crate) fn problems(
    manifests: &[(Manifest, Source)],
    keep: impl Fn(&Problem) -> bool,
) -> Vec<Diagnostic> {
    let policies = manifests.iter().filter(|(it, _)| Snapshot::takes(&it.object));
    let changes = policies.map(|(it, _)| Change::Upsert(it.clone().into_policy()));
    let snapshot = Snapshot::new(EngineConfig::default());
    let problems = snapshot.apply(changes.collect(), OnError::Unload).problems;
    let found = problems.iter().filter(|problem| keep(problem)).map(|problem| {
        let of = |(_, source): &&(Manifest, Source)| *source.name == *problem.origin;
        let source = manifests.iter().find(of).map(|(_, source)| source);
        manifest::diagnose(problem, source)
    });
    found.collect()
}

type Read = (Vec<Manifest>, Source, Vec<Diagnostic>);

/// Reads the files of a path. Problems of single files are findings without objects.
fn read_listed(
    path: &Path,
    listing: manifest::Listing,
    is_named: bool,
    patches: &BTreeSet<PathBuf>,
    terminal: &Terminal,
) -> Result<Vec<Read>, manifest::FileError> {
    let mut read = Vec::new();
    for problem in listing.problems {
        if !problem.is_harmless() {
            return Err(problem);
        }
        terminal.note(format_args!("note: {problem}"));
    }
    for file in &listing.files {
        // A file that the user names is read.
        let skipped = paths::is_of_a_tool(file)
            .or_else(|| patches.contains(file).then_some("a patch of a kustomization"))
            .filter(|_| !is_named || file != path);
        if let Some(what) = skipped {
            terminal.note(format_args!("note: `{}` is {what}, skipped", file.display()));
            continue;
        }
        let mut source = manifest::read_file(file)?;
        if lines::is_one(file)
            && let Some(whole) = lines::whole(&source)
        {
            let name = file.display();
            terminal.note(format_args!("note: `{name}`: the last line is not complete, skipped"));
            source = whole;
        }
        if let Some(offset) = paths::template_of_helm(file, &source.text) {
            let finding = Diagnostic::error("this is a template of a Helm chart, not an object")
                .at(source.clone(), Span::new(offset, offset + 2))
                .help("review what `helm template` prints");
            read.push((Vec::new(), source, vec![finding]));
            continue;
        }
        let (manifests, findings) = manifest::parse(&source);
        read.push((manifests, source, findings));
    }
    Ok(read)
}
