//! Policies and objects from files, folders and standard input.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, ensure};
use modgate_engine::{
    Change, EngineConfig, Host as _, OnError, Problem, Review, Snapshot,
    admissionpolicy::Types,
    api::{
        admission::{AdmissionReview, ReviewVersion},
        meta::GroupVersionKind,
    },
    constraint::CompiledConstraint,
    matching::Criteria,
};
use modgate_policies::{
    PolicyFiles, PolicySet, PolicyStore,
    manifest::{self, Manifest},
};
use modgate_value::{
    Value,
    diag::{Diagnostic, Severity, Source, Span},
};

use crate::{
    args::{PathArgs, PolicyArgs, SubjectArgs},
    lines, paths,
    terminal::{Terminal, printable},
};

/// An object to look at and where it came from.
pub(crate) struct Subject {
    /// `file:line:column`.
    pub(crate) place: String,
    /// The document, and the text that it is in.
    pub(crate) manifest: Manifest,
    pub(crate) source: Source,
    /// The request about it.
    pub(crate) review: Review,
}

impl Subject {
    /// `Deployment shop/web`, for people.
    pub(crate) fn title(&self) -> String {
        title(&self.review)
    }
}

/// `Deployment shop/web`: the object of a request, for people.
pub(crate) fn title(review: &Review) -> String {
    let request = review.request();
    let object = review.object();
    let text = |path: &[&str]| object.and_then(|object| object.path(path)?.as_str());
    let kind = match request.kind.kind.as_str() {
        "" => text(&["kind"]).unwrap_or("object"),
        kind => kind,
    };
    let name = match request.name.as_str() {
        "" => text(&["metadata", "name"]).or(text(&["metadata", "generateName"])),
        name => Some(name),
    };
    match (review.store_namespace(), name.unwrap_or("(unnamed)")) {
        ("", name) => format!("{kind} {name}"),
        (namespace, name) => format!("{kind} {namespace}/{name}"),
    }
}

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
        // Namespaces and Nodes among the objects are there for the others, too.
        let object = &subject.manifest.object;
        policy_set.objects.take(object);
        // So are definitions of kinds.
        if GroupVersionKind::of_object(object).kind == "CustomResourceDefinition" {
            policy_set.objects.keep(object);
        }
        let review = match subjects.defaulting {
            true => as_stored(subject.review),
            false => subject.review,
        };
        found.push_back(Subject { review, ..subject });
    }
    if found.is_empty() && !incomplete {
        terminal.error(&format!("there is no object in {}", listed(&subjects.paths().named())));
        incomplete = true;
    }
    note_assumed_namespaces(&policy_set, &found, terminal);
    note_unexpanded(&policy_set, &found, terminal);
    note_unknown_params(&policy_set, terminal);
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

/// Notes the Namespaces that no file describes and that policies read.
fn note_assumed_namespaces(
    policy_set: &PolicySet,
    subjects: &VecDeque<Subject>,
    terminal: &Terminal,
) {
    let names = subjects.iter().map(|subject| subject.review.store_namespace());
    let assumed: BTreeSet<&str> = names
        .filter(|name| {
            !name.is_empty()
                && policy_set.objects.assumes_namespace(name)
                && (policy_set.snapshot.modrules_read_namespace(name)
                    || selects_namespaces(policy_set))
        })
        .collect();
    for name in assumed {
        terminal.note(format_args!(
            "note: no file describes Namespace `{}`, so policies see one without labels of its own; \
             give it with `--objects`",
            printable(name)
        ));
    }
}

/// A request with its object as an API server stores it.
pub(crate) fn as_stored(review: Review) -> Review {
    let stored = review.object().and_then(|object| Types::kubernetes().as_stored(object));
    match stored {
        Some(stored) => review.with_object(stored),
        None => review,
    }
}

/// Notes kinds of parameters that the input does not contain: the API server denies until they exist.
fn note_unknown_params(policy_set: &PolicySet, terminal: &Terminal) {
    for kind in policy_set.snapshot.cluster_policies().bound_param_kinds() {
        if !policy_set.objects.knows_params(&kind) {
            terminal.note(format_args!(
                "note: nothing in the input says that there is a kind {} {}, which a `paramKind` names; an \
                 API server without it denies as `failurePolicy` sets",
                printable(&kind.api_version),
                printable(&kind.kind)
            ));
        }
    }
}

/// Whether a constraint looks at labels of Namespaces.
fn selects_namespaces(policy_set: &PolicySet) -> bool {
    let mut constraints = policy_set.snapshot.constraints().constraints();
    constraints.any(|it| it.criteria().is_some_and(Criteria::selects_namespaces))
}

/// Notes the workloads whose Pods no constraint sees, because no ExpansionTemplate generates them.
fn note_unexpanded(policy_set: &PolicySet, subjects: &VecDeque<Subject>, terminal: &Terminal) {
    let pod = GroupVersionKind { group: "".into(), version: "v1".into(), kind: "Pod".into() };
    let mut noted = BTreeSet::new();
    for subject in subjects {
        let Some(object) = subject.review.object() else { continue };
        let kind = GroupVersionKind::of_object(object);
        let makes_pods = ["template", "jobTemplate"]
            .iter()
            .any(|member| object.path(&["spec", member, "spec"]).is_some());
        let is_done = !makes_pods || policy_set.snapshot.expansions().expands(&kind);
        if is_done || !noted.insert(kind.clone()) {
            continue;
        }
        let misses = |it: &Arc<CompiledConstraint>| {
            it.criteria().is_some_and(|it| it.admits_kind(&pod) && !it.admits_kind(&kind))
        };
        let count = policy_set.snapshot.constraints().constraints().filter(|it| misses(it)).count();
        if count > 0 {
            let (plural, are) = if count == 1 { ("", "is") } else { ("s", "are") };
            terminal.note(format_args!(
                "note: {count} constraint{plural} {are} for Pods and not evaluated for the Pods of \
                 a {}: no ExpansionTemplate generates them (docs/concepts.md)",
                printable(&kind.kind)
            ));
        }
    }
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
    for (manifest, source) in manifests(&paths, terminal, incomplete)? {
        match review_of(&manifest, args) {
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

/// The error of a document that is no Kubernetes object.
pub(crate) fn no_kind(manifest: &Manifest, help: &str) -> Diagnostic {
    let problem = Diagnostic::error("the object has no `kind`");
    match paths::is_of_a_tool(Path::new(manifest.origin.as_str())) {
        Some(what) => {
            problem.help(format!("this is {what}; give what `helm template` or `-k` renders"))
        }
        None => problem.help(help),
    }
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
        return Err(no_kind(manifest, "give a Kubernetes object or an AdmissionReview").into());
    }
    Ok(Review::of_object(object.clone(), args.operation, &args.namespace))
}
