//! Policies and objects from files, folders and standard input.

use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Result, ensure};
use modgate_engine::{
    Change, EngineConfig, OnError, Problem, Snapshot, api::secrets::SecretValues, lint::Definitions,
};
use modgate_policies::{
    PolicyFiles, PolicySet, PolicyStore,
    manifest::{self, Manifest},
    run,
};
use modgate_prove::recorded::Recorded;
use modgate_review::{
    notes,
    subject::{self, Assumed, Subject, as_stored},
};
use modgate_value::{
    Value,
    diag::{Diagnostic, Severity, Source, Span},
};

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

impl Inputs {
    /// The values of all Secrets that policies can read: of the reviewed objects, of the inventory, and of
    /// parameters.
    pub(crate) fn secrets(&self) -> SecretValues {
        let mut values = self.policy_set.secrets();
        for subject in &self.subjects {
            let request = subject.review.request();
            for object in request.object.iter().chain(&request.old_object) {
                values.add(object, subject.review.is_secret());
            }
        }
        values
    }
}

/// Standard output without the values of Secrets. Text appears at the end of [`finish`](Self::finish).
pub(crate) struct Hiding {
    text: Vec<u8>,
    secrets: SecretValues,
}

impl Hiding {
    pub(crate) fn new(secrets: SecretValues) -> Self {
        Self { text: Vec::new(), secrets }
    }

    /// Prints a document, in which everything but text stays as it is.
    pub(crate) fn print(&self, value: &Value, print: impl FnOnce(&Value) -> String) -> Result<()> {
        let text = print(&self.secrets.hide_in(value));
        Ok(io::stdout().lock().write_all(text.as_bytes())?)
    }

    pub(crate) fn finish(self) -> Result<()> {
        let text = String::from_utf8_lossy(&self.text);
        let mut out = io::stdout().lock();
        out.write_all(self.secrets.hide(&text).as_bytes())?;
        Ok(out.flush()?)
    }
}

impl Write for Hiding {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads policies and objects; `None` when a policy does not load, for then nothing can be said
/// about any object. Findings go to the terminal.
pub(crate) fn read(
    policies: &PolicyArgs,
    subjects: &SubjectArgs,
    terminal: &Terminal,
) -> Result<Option<Inputs>> {
    once(policies, &subjects.paths())?;
    let config = subjects.config(&policies.engine);
    let mut objects = Objects::read(&subject_paths(subjects)?)?;
    let paths = subjects.paths();
    let read = read_policies(policies, &paths, config, objects.definitions(), terminal)?;
    let Some((store, mut policy_set)) = read else { return Ok(None) };
    let mut incomplete = !objects.report(policies.strict, &policy_set, terminal);
    objects.documents.retain(|(manifest, _)| !Recorded::is_repeated(&manifest.object));
    objects.stand_in(&mut policy_set);
    let mut found: VecDeque<Subject> =
        reviews(objects.documents, subjects, terminal, &mut incomplete).into();
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

/// Reads the policies; `None` when one does not load, or there is none. Warnings also know `definitions`.
pub(crate) fn read_policies(
    policies: &PolicyArgs,
    paths: &PathArgs,
    config: EngineConfig,
    definitions: Definitions,
    terminal: &Terminal,
) -> Result<Option<(PolicyStore, PolicySet)>> {
    let exclude = paths::Exclude::new(&paths.exclude)?;
    let files = PolicyFiles {
        policies: paths::expanded(&policies.policies, &exclude)?,
        objects: paths::expanded(&policies.objects, &exclude)?,
    };
    let mut store = PolicyStore::new(files, config).knowing(definitions);
    let mut findings = store.refresh().findings;
    let all = policies.policies.iter().chain(&policies.objects).chain(&paths.subjects);
    findings.extend(paths::unmatched(&paths.exclude, all));
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
    for mut finding in findings.into_iter().filter(|finding| !manifest::is_allowed(finding)) {
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

/// Where the objects to evaluate are: also the files of records in folders.
fn subject_paths(args: &SubjectArgs) -> Result<PathArgs> {
    let mut paths = args.paths();
    for folder in args.paths().subjects.iter().filter(|path| path.is_dir()) {
        paths.subjects.extend(lines::files(folder)?);
    }
    Ok(paths)
}

/// The requests that objects stand for.
fn reviews(
    documents: Vec<(Manifest, Source)>,
    args: &SubjectArgs,
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Vec<Subject> {
    let assumed =
        Assumed { operation: args.operation, namespace: &args.namespace, user: args.user_info() };
    let mut subjects = Vec::new();
    for (manifest, source) in documents {
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
    subjects
}

/// The objects of a run, read before the policies: their CustomResourceDefinitions tell which policies
/// are mistaken. What there is to say of files comes later, and only if the policies load.
pub(crate) struct Objects {
    pub(crate) documents: Vec<(Manifest, Source)>,
    said: Vec<Said>,
    incomplete: bool,
}

/// The message about a file.
enum Said {
    Note(String),
    Finding(Diagnostic),
}

impl Objects {
    /// Every object under the paths, without files that belong to Helm and kustomize.
    pub(crate) fn read(args: &PathArgs) -> Result<Self> {
        let exclude = paths::Exclude::new(&args.exclude)?;
        let mut objects = Self { documents: Vec::new(), said: Vec::new(), incomplete: false };
        let paths = paths::expanded(&args.subjects, &exclude)?;
        let listings: Vec<_> = paths.iter().map(|path| manifest::files(path)).collect();
        let files = listings.iter().flatten().flat_map(|listing| &listing.files);
        let patches = paths::patches(files);
        for (path, listing) in paths.iter().zip(listings) {
            let is_named = args.subjects.contains(path);
            let read = listing.and_then(|it| objects.listed(path, it, is_named, &patches));
            if let Err(error) = read {
                objects.find(error.into());
            }
        }
        for folder in &args.kustomize {
            objects.parse(paths::kustomize(folder)?);
        }
        Ok(objects)
    }

    /// The CustomResourceDefinitions among them.
    pub(crate) fn definitions(&self) -> Definitions {
        run::definitions(self.documents.iter().map(|(manifest, _)| &manifest.object))
    }

    /// Prints what there is to say of files; whether all of them could be read.
    pub(crate) fn tell(&mut self, terminal: &Terminal) -> bool {
        for said in self.said.drain(..) {
            match said {
                Said::Note(note) => terminal.note(note),
                Said::Finding(finding) => terminal.diagnostic(&finding),
            }
        }
        !self.incomplete
    }

    /// As [`tell`](Self::tell), with objects that no API server stores: whether everything is bearable.
    pub(crate) fn report(
        &mut self,
        strict: bool,
        policy_set: &PolicySet,
        terminal: &Terminal,
    ) -> bool {
        let is_read = self.tell(terminal);
        let definitions = policy_set.snapshot.definitions();
        let found = self.documents.iter();
        let found =
            found.flat_map(|(manifest, source)| run::impossible(manifest, source, definitions));
        are_good(found.collect(), strict, terminal) && is_read
    }

    /// Has them stand in for those of a cluster.
    pub(crate) fn stand_in(&self, policy_set: &mut PolicySet) {
        let PolicySet { snapshot, objects, inventory } = policy_set;
        let all = self.documents.iter().map(|(manifest, _)| &manifest.object);
        run::stand_in(all, snapshot, objects.references_mut(), inventory);
    }

    fn find(&mut self, finding: Diagnostic) {
        self.incomplete = true;
        self.said.push(Said::Finding(finding));
    }

    fn parse(&mut self, source: Source) {
        let (manifests, findings) = manifest::parse(&source);
        findings.into_iter().for_each(|finding| self.find(finding));
        self.documents.extend(manifests.into_iter().map(|manifest| (manifest, source.clone())));
    }

    /// Reads the files of a path.
    fn listed(
        &mut self,
        path: &Path,
        listing: manifest::Listing,
        is_named: bool,
        patches: &BTreeSet<PathBuf>,
    ) -> Result<(), manifest::FileError> {
        for problem in listing.problems {
            if !problem.is_harmless() {
                return Err(problem);
            }
            match problem {
                manifest::FileError::NearName { .. } => {
                    self.said.push(Said::Finding(problem.into()));
                }
                other => self.said.push(Said::Note(format!("note: {other}"))),
            }
        }
        for file in &listing.files {
            // A file that the user names is read.
            let skipped = paths::is_of_a_tool(file)
                .or_else(|| patches.contains(file).then_some("a patch of a kustomization"))
                .filter(|_| !is_named || file != path);
            if let Some(what) = skipped {
                self.said
                    .push(Said::Note(format!("note: `{}` is {what}, skipped", file.display())));
                continue;
            }
            let mut source = manifest::read_file(file)?;
            if lines::is_one(file)
                && let Some(whole) = lines::whole(&source)
            {
                let name = file.display();
                let note = format!("note: `{name}`: the last line is not complete, skipped");
                self.said.push(Said::Note(note));
                source = whole;
            }
            if let Some(offset) = paths::template_of_helm(file, &source.text) {
                let finding =
                    Diagnostic::error("this is a template of a Helm chart, not an object")
                        .at(source, Span::new(offset, offset + 2))
                        .help("review what `helm template` prints");
                self.find(finding);
                continue;
            }
            self.parse(source);
        }
        Ok(())
    }
}

/// Every object under the paths; what cannot be read is reported and noted in `incomplete`.
pub(crate) fn manifests(
    args: &PathArgs,
    terminal: &Terminal,
    incomplete: &mut bool,
) -> Result<Vec<(Manifest, Source)>> {
    let mut objects = Objects::read(args)?;
    let unmatched = paths::unmatched(&args.exclude, args.subjects.iter());
    unmatched.iter().for_each(|finding| terminal.diagnostic(finding));
    *incomplete |= !objects.tell(terminal);
    Ok(objects.documents)
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
