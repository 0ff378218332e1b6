//! Policies from files, kept current while the files change.
//!
//! A file that cannot be read any more keeps its last good documents, and a policy that does not
//! compile any more its last good version ([`OnError::Keep`]): a half-edited file must not open a
//! gap. Both are reported once per change.
//!
//! Objects that are no policies stand in for a cluster: Namespaces and Nodes wherever they are, and
//! everything in the files for objects as what policies see in `data.inventory`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    files::Fingerprint,
    manifest::{self, Manifest},
    set::{Objects, PolicySet},
};
use modgate_engine::{
    Change, Compiled, EngineConfig, Host as _, OnError, PolicyId, PolicySource, Problem, Snapshot,
    Update,
    api::{admission::AdmissionReview, constraints, modrule::ModRule},
    constraint::Inventory,
    lint::Definitions,
};
use modgate_review::sorted::{self, Document, Sorted};
use modgate_value::{
    Str, Value,
    diag::{Diagnostic, Source},
};

/// Which files hold policies, and which hold the objects policies may refer to.
#[derive(Debug, Clone)]
pub struct PolicyFiles {
    /// Files and folders with policies. Namespaces and Nodes in them count as objects, and
    /// AdmissionReviews as examples.
    pub policies: Vec<PathBuf>,
    /// Files and folders with objects: further Namespaces and Nodes, and all that policies see as
    /// `data.inventory`.
    pub objects: Vec<PathBuf>,
}

/// A policy as its source has it, in force or not.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Which policy.
    pub id: PolicyId,
    /// The object, without status.
    pub object: Value,
    /// The findings about this version of it.
    pub problems: Vec<Problem>,
}

/// The files as they were last seen, and the policies made from them.
#[derive(Debug)]
pub struct PolicyStore {
    files: PolicyFiles,
    seen: BTreeMap<PathBuf, SeenFile>,
    /// Why parts of the folders were left out at the last look.
    skipped: BTreeSet<String>,
    /// The object that the engine last received, and from which reading of which file.
    given: BTreeMap<PolicyId, Reading>,
    broken: BTreeSet<PolicyId>,
    /// The findings about the newest version of each policy.
    problems: BTreeMap<PolicyId, Vec<Problem>>,
    /// Compiled policies that were not reported yet.
    compiled: Vec<Compiled>,
    readings: u64,
    /// CustomResourceDefinitions of other files.
    definitions: Definitions,
    current: Arc<PolicySet>,
}

#[derive(Debug)]
struct SeenFile {
    fingerprint: Option<Fingerprint>,
    reading: u64,
    manifests: Vec<Manifest>,
    holds_policies: bool,
    /// Whether the newest content could not be read.
    broken: bool,
}

/// The position of a policy in the readings so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    reading: u64,
    index: usize,
}

/// The result of [`PolicyStore::refresh`].
#[derive(Debug)]
pub struct Refresh {
    /// Whether any file appeared, changed or went.
    pub changed: bool,
    /// The findings about the files that changed, in the order of the files.
    pub findings: Vec<Diagnostic>,
    /// The policies that are new or have changed.
    pub compiled: Vec<Compiled>,
}

impl PolicyStore {
    /// A store that has not looked at any file.
    pub fn new(files: PolicyFiles, config: EngineConfig) -> Self {
        Self {
            files,
            seen: BTreeMap::new(),
            skipped: BTreeSet::new(),
            given: BTreeMap::new(),
            broken: BTreeSet::new(),
            problems: BTreeMap::new(),
            compiled: Vec::new(),
            readings: 0,
            definitions: Definitions::default(),
            current: Arc::new(PolicySet {
                snapshot: Snapshot::new(config),
                objects: Objects::default(),
                inventory: Inventory::default(),
            }),
        }
    }

    /// The same whose warnings also know the kinds of CustomResourceDefinitions that are not in its files.
    #[must_use]
    pub fn knowing(self, definitions: Definitions) -> Self {
        Self { definitions, ..self }
    }

    /// The newest policies and objects.
    pub fn policies(&self) -> &Arc<PolicySet> {
        &self.current
    }

    /// The policies that were given, as their files have them, by kind, namespace and name.
    pub fn sources(&self) -> impl Iterator<Item = (PolicyId, PolicySource)> {
        self.given.iter().filter_map(|(id, reading)| {
            let file = self.seen.values().find(|file| file.reading == reading.reading)?;
            Some((id.clone(), file.manifests.get(reading.index)?.clone().into_policy()))
        })
    }

    /// The policies that were given, with the findings about their newest version.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |(id, source): (PolicyId, PolicySource)| {
            let problems = self.problems.get(&id).cloned().unwrap_or_default();
            Standing { id, object: source.object, problems }
        };
        self.sources().map(standing).collect()
    }

    /// Policies whose newest version does not load.
    pub fn broken_policies(&self) -> &BTreeSet<PolicyId> {
        &self.broken
    }

    /// How many files and policies have a newest version that does not load.
    pub fn broken(&self) -> usize {
        self.broken.len() + self.seen.values().filter(|file| file.broken).count()
    }

    /// The file of the first AdmissionReview, an example to send.
    pub fn example(&self) -> Option<&Path> {
        self.seen
            .iter()
            .find(|(_, file)| file.manifests.iter().any(|m| AdmissionReview::is_review(&m.object)))
            .map(|(path, _)| path.as_path())
    }

    /// Looks at all files, reads those that changed and makes the next policy set from them.
    pub fn refresh(&mut self) -> Refresh {
        let mut findings = Vec::new();
        let mut sources = BTreeMap::new();
        let changed = self.read_changed(&mut sources, &mut findings);
        if changed {
            self.apply(&sources, &mut findings);
        }
        findings.retain(|finding| !manifest::is_allowed(finding));
        sorted::drop_consequences(&mut findings);
        Refresh { changed, findings, compiled: std::mem::take(&mut self.compiled) }
    }

    /// Brings `seen` up to date; returns whether anything changed.
    fn read_changed(
        &mut self,
        sources: &mut BTreeMap<Str, Source>,
        findings: &mut Vec<Diagnostic>,
    ) -> bool {
        let mut present = BTreeMap::new();
        let mut complete = true;
        let mut skipped = BTreeSet::new();
        let roots = self.files.policies.iter().map(|root| (root, true));
        for (root, holds_policies) in
            roots.chain(self.files.objects.iter().map(|root| (root, false)))
        {
            match manifest::files(root) {
                Ok(listing) => {
                    for path in listing.files {
                        *present.entry(path).or_insert(false) |= holds_policies;
                    }
                    for problem in listing.problems {
                        complete &= !matches!(problem, manifest::FileError::Read { .. });
                        let finding = match problem {
                            manifest::FileError::NearName { .. } => problem.into(),
                            other => Diagnostic::error(other.to_string()),
                        };
                        // Reported when it appears, not with each look.
                        if !self.skipped.contains(&finding.message) {
                            findings.push(finding.clone());
                        }
                        skipped.insert(finding.message);
                    }
                }
                Err(finding) => {
                    complete = false;
                    findings.push(finding.into());
                }
            }
        }
        self.skipped = skipped;
        let mut changed = false;
        // A folder that cannot be listed for a moment has not lost its files.
        if complete {
            let before = self.seen.len();
            self.seen.retain(|path, _| present.contains_key(path));
            changed |= self.seen.len() != before;
        }
        for (path, holds_policies) in present {
            let fingerprint = Fingerprint::of(&path).ok();
            let known = self.seen.get(&path);
            if fingerprint.is_some() && known.is_some_and(|file| file.fingerprint == fingerprint) {
                continue;
            }
            changed = true;
            self.readings += 1;
            let last_good = self.seen.remove(&path);
            let Content { manifests, findings: mut found } = Content::read(&path, sources);
            let broken = !found.is_empty();
            let mut file =
                SeenFile { fingerprint, reading: self.readings, manifests, holds_policies, broken };
            if let Some(good) = last_good.filter(|_| broken) {
                for finding in &mut found {
                    finding.help = Some("the last good version stays in force".to_owned());
                }
                file = SeenFile { fingerprint, broken, ..good };
            }
            findings.append(&mut found);
            self.seen.insert(path, file);
        }
        changed
    }

    fn apply(&mut self, sources: &BTreeMap<Str, Source>, findings: &mut Vec<Diagnostic>) {
        let documents = self.seen.values().flat_map(|file| {
            let reading = |index| Reading { reading: file.reading, index };
            let holds_policies = file.holds_policies;
            file.manifests.iter().enumerate().map(move |(index, manifest)| Document {
                key: reading(index),
                manifest,
                holds_policies,
            })
        });
        // Only files that were just read are reported, so each finding comes once.
        let definitions = self.definitions.clone();
        let sorted =
            Sorted::new(definitions, documents, sources, self.current.snapshot.config(), findings);
        let wanted = &sorted.policies;
        let gone = self.given.keys().filter(|id| !wanted.contains_key(*id));
        let mut changes: Vec<Change> = gone.cloned().map(Change::Remove).collect();
        for (id, (reading, manifest)) in wanted {
            if self.given.get(id) != Some(reading) {
                self.broken.remove(id);
                self.problems.remove(id);
                let just_read = sources.contains_key(&manifest.origin);
                let again = if just_read { None } else { self.read_again(*reading) };
                let manifest = again.unwrap_or_else(|| (*manifest).clone());
                changes.push(Change::Upsert(manifest.into_policy()));
            }
        }
        // What is said of constraints depends on their templates, too.
        let stays = |id: &PolicyId| wanted.contains_key(id) && id.group != constraints::GROUP;
        self.broken.retain(stays);
        self.problems.retain(|id, _| stays(id));
        self.given = wanted.iter().map(|(id, (reading, _))| (id.clone(), *reading)).collect();
        let definitions = Arc::clone(&sorted.definitions);
        let before = self.current.snapshot.clone().with_definitions(definitions);
        let Update { snapshot, problems, compiled } =
            before.apply_timed(changes, OnError::Keep, Objects::default().clock());
        self.compiled.extend(compiled);
        for problem in &problems {
            if problem.severity == modgate_engine::Severity::Error {
                self.broken.insert(problem.policy.clone());
            }
            let known = self.problems.entry(problem.policy.clone()).or_default();
            if !known.contains(problem) {
                known.push(problem.clone());
            }
        }
        findings.extend(sorted::findings(&problems, sources));
        self.broken.extend(snapshot.constraints().outdated().map(PolicySource::id));
        let (references, inventory) = sorted.into_inventory(&snapshot);
        let objects = Objects::of_files(references);
        self.current = Arc::new(PolicySet { snapshot, objects, inventory });
        self.forget_positions();
    }

    /// Forgets where the parts of ModRules stand: all that is said of them was said when they were compiled, and of
    /// thousands of rules the positions would take as much memory as the rules.
    fn forget_positions(&mut self) {
        for manifest in self.seen.values_mut().flat_map(|file| &mut file.manifests) {
            if ModRule::is_modrule(&manifest.object) && !manifest.positions.is_of_whole() {
                manifest.positions = Arc::new(manifest.positions.of_whole());
            }
        }
    }

    /// A policy with all its positions, if its file still has it: it comes into force although its file did not
    /// change, because another one with its name is gone.
    fn read_again(&self, reading: Reading) -> Option<Manifest> {
        let mut files = self.seen.iter();
        let (path, file) = files.find(|(_, file)| file.reading == reading.reading)?;
        let known = file.manifests.get(reading.index)?;
        let (manifests, _) = manifest::parse(&manifest::read_file(path).ok()?);
        let again = manifests.into_iter().nth(reading.index)?;
        (again.object == known.object).then_some(again)
    }
}

/// The contents of a file.
struct Content {
    manifests: Vec<Manifest>,
    /// Why some of it, or all, cannot be read.
    findings: Vec<Diagnostic>,
}

impl Content {
    fn read(path: &Path, sources: &mut BTreeMap<Str, Source>) -> Self {
        match manifest::read_file(path) {
            Err(error) => Self { manifests: Vec::new(), findings: vec![error.into()] },
            Ok(source) => {
                let (manifests, findings) = manifest::parse(&source);
                sources.insert(Str::from(&*source.name), source);
                Self { manifests, findings }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use modgate_engine::{
        Decision, Evaluation, Host as _, NoopObserver, Review, Stages, api::meta::Operation,
    };
    use modgate_value::Value;
    use tempfile::TempDir;

    use super::*;

    fn decide(policies: &PolicySet, review: &Review, stages: Stages) -> Decision {
        let mut arena = modgate_engine::constraint::Arena::new();
        let mut evaluation = Evaluation::new(&policies.objects, &policies.inventory, &mut arena);
        policies.snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver)
    }

    struct Folder {
        dir: TempDir,
        store: PolicyStore,
    }

    impl Folder {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("dir");
            let files = PolicyFiles { policies: vec![dir.path().to_owned()], objects: Vec::new() };
            Self { store: PolicyStore::new(files, EngineConfig::default()), dir }
        }

        fn write(&self, name: &str, text: &str) {
            // Another inode each time, as most editors and every ConfigMap have it.
            let fresh = self.dir.path().join(".fresh");
            fs::write(&fresh, text).expect("write");
            fs::rename(fresh, self.dir.path().join(name)).expect("rename");
        }

        /// The findings, as `file:line:column: message`, and the policies in force.
        fn refresh(&mut self) -> (Vec<String>, Vec<String>) {
            let prefix = format!("{}/", self.dir.path().display());
            let findings = self.store.refresh().findings;
            let texts = findings.iter().map(|found| found.to_string().replace(&prefix, ""));
            let policies = self.store.policies().snapshot.policies().map(|id| id.to_string());
            (texts.collect(), policies.collect())
        }

        /// The message `rejects` denies a Pod in namespace `default` with.
        fn rejection(&self) -> Option<String> {
            let pod = Value::from_json(br#"{"apiVersion": "v1", "kind": "Pod"}"#).expect("pod");
            let review = Review::of_object(pod, Operation::Create, "default");
            let decision = decide(self.store.policies(), &review, Stages::MODRULES);
            decision.rejections.first().map(ToString::to_string)
        }
    }

    fn rule(name: &str, message: &str) -> String {
        format!(
            "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata:\n  name: {name}\nspec:\n  \
             type: Reject\n  rejectMessage: '{message}'\n  match:\n  - select: '$.kind == \"Pod\"'\n"
        )
    }

    #[test]
    fn files_come_change_and_go() {
        let mut folder = Folder::new();
        assert_eq!(folder.refresh(), (vec![], vec![]));
        folder.write("a.yaml", &rule("a", "one"));
        assert_eq!(folder.refresh(), (vec![], vec!["ModRule default/a".to_owned()]));
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"one\""));
        assert!(!folder.store.refresh().changed);

        folder.write("a.yaml", &rule("a", "two"));
        assert!(folder.store.refresh().changed);
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"two\""));

        fs::remove_file(folder.dir.path().join("a.yaml")).expect("remove");
        assert_eq!(folder.refresh(), (vec![], vec![]));
        assert_eq!(folder.rejection(), None);
    }

    /// Problems of a policy name the place of the field, whenever the policy comes into force.
    #[test]
    fn a_rule_that_another_one_hid_has_its_positions() {
        let mut folder = Folder::new();
        let doubtful = format!("{}  - select: '$.kind == \"Deployment\"'\n", rule("a", "hidden"));
        folder.write("b.yaml", &doubtful);
        let (findings, _) = folder.refresh();
        assert!(findings.iter().all(|found| found.starts_with("b.yaml:")), "{findings:?}");
        assert!(!findings.is_empty());
        folder.write("a.yaml", &rule("a", "one"));
        folder.refresh();
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"one\""));
        fs::remove_file(folder.dir.path().join("a.yaml")).expect("remove");
        let problems = |folder: &Folder| -> Vec<_> {
            let standings = folder.store.standings().into_iter();
            standings.flat_map(|it| it.problems).map(|it| (it.field, it.position)).collect()
        };
        folder.refresh();
        let again = problems(&folder);
        assert!(!again.is_empty());
        let mut fresh = Folder::new();
        fresh.write("b.yaml", &doubtful);
        fresh.refresh();
        assert_eq!(again, problems(&fresh));
        // The file is no longer what it was: the rule has a place all the same.
        folder.write("a.yaml", &rule("a", "one"));
        folder.refresh();
        assert!(folder.store.sources().all(|(_, source)| source.position("").is_some()));
    }

    #[test]
    fn a_bad_file_keeps_its_last_good_version() {
        let mut folder = Folder::new();
        folder.write("a.yaml", &rule("a", "one"));
        folder.refresh();
        folder.write("a.yaml", &format!("{}  oops: [\n", rule("a", "two")));
        let (findings, policies) = folder.refresh();
        assert_eq!(policies, ["ModRule default/a"]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.yaml:"), "{findings:?}");
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"one\""));
        assert_eq!(folder.store.broken(), 1);
        assert!(!folder.store.refresh().changed, "reported once");

        folder.write("a.yaml", &rule("a", "three"));
        folder.refresh();
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"three\""));
        assert_eq!(folder.store.broken(), 0);
    }

    #[test]
    fn a_bad_policy_keeps_its_last_good_version_and_its_neighbours_move_on() {
        let mut folder = Folder::new();
        folder.write("a.yaml", &format!("{}---\n{}", rule("a", "one"), rule("b", "one")));
        folder.refresh();
        let bad = rule("a", "two").replace("$.kind ==", "$.kind[");
        folder.write("a.yaml", &format!("{bad}---\n{}", rule("b", "two")));
        let (findings, policies) = folder.refresh();
        assert_eq!(policies, ["ModRule default/a", "ModRule default/b"]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("a.yaml:9:"), "{findings:?}");
        assert_eq!(folder.store.broken(), 1);
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"one\""));
    }

    /// A template and its constraint, which denies everything with this message.
    fn constrained(message: &str) -> (String, &'static str) {
        let template = format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: \
             foo}}\nspec:\n  crd: {{spec: {{names: {{kind: Foo}}}}}}\n  targets:\n  - target: \
             admission.k8s.gatekeeper.sh\n    rego: |\n      package foo\n      \
             violation[{{\"msg\": \"{message}\"}}] {{ true }}\n"
        );
        let constraint =
            "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Foo, metadata: {name: c}}";
        (template, constraint)
    }

    /// Kustomize writes a namespace into the metadata of every kind that it does not know.
    #[test]
    fn a_policy_in_no_namespace_is_one_whatever_namespace_it_names() {
        let admits = |folder: &Folder| {
            let pod = Value::from_json(br#"{"apiVersion": "v1", "kind": "Pod"}"#).expect("pod");
            let review = Review::of_object(pod, Operation::Create, "excluded");
            decide(folder.store.policies(), &review, Stages::CONSTRAINTS).allowed
        };
        let (template, constraint) = constrained("no");
        let config = "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {name: config}\n\
                      spec: {match: [{excludedNamespaces: [excluded], processes: [webhook]}]}\n";
        for first in [template.as_str(), constraint, config] {
            let mut folder = Folder::new();
            folder.write("0.yaml", &format!("{template}---\n{constraint}"));
            folder.write("a.yaml", first);
            folder.refresh();
            let is_admitted = first == config;
            assert_eq!(admits(&folder), is_admitted);
            let namespace = if first == config { "gatekeeper-system" } else { "shop" };
            let named = format!("metadata: {{namespace: {namespace}, ");
            folder.write("b.yaml", &first.replacen("metadata: {", &named, 1));
            let (findings, _) = folder.refresh();
            let [found] = &findings[..] else { panic!("{findings:?}") };
            assert!(found.contains("is already defined in"), "{found}");
            fs::remove_file(folder.dir.path().join("b.yaml")).expect("remove");
            folder.refresh();
            assert_eq!(admits(&folder), is_admitted, "the first is still there");
            // A Config of another namespace never counted.
            folder.write("b.yaml", &config.replace("{name", "{namespace: elsewhere, name"));
            folder.refresh();
            fs::remove_file(folder.dir.path().join("b.yaml")).expect("remove");
            folder.refresh();
            assert_eq!(admits(&folder), is_admitted);
        }
    }

    #[test]
    fn constraints_and_templates_come_in_any_order() {
        let denial = |folder: &Folder| {
            let pod = Value::from_json(br#"{"apiVersion": "v1", "kind": "Pod"}"#).expect("pod");
            let review = Review::of_object(pod, Operation::Create, "default");
            decide(folder.store.policies(), &review, Stages::CONSTRAINTS).reason
        };
        let mut folder = Folder::new();
        let (template, constraint) = constrained("one");
        folder.write("a.yaml", constraint);
        let (findings, policies) = folder.refresh();
        assert!(policies.is_empty());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(folder.store.broken(), 1);

        folder.write("b.yaml", &template);
        assert_eq!(
            folder.refresh(),
            (vec![], vec!["ConstraintTemplate foo".to_owned(), "Foo c".to_owned()])
        );
        assert_eq!((folder.store.broken(), denial(&folder)), (0, "[c] one".to_owned()));

        let (template, _) = constrained("two");
        folder.write("b.yaml", &template.replace("violation", "violations"));
        let (findings, _) = folder.refresh();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!((folder.store.broken(), denial(&folder)), (1, "[c] one".to_owned()));
        folder.write("b.yaml", &template);
        folder.refresh();
        assert_eq!((folder.store.broken(), denial(&folder)), (0, "[c] two".to_owned()));

        fs::remove_file(folder.dir.path().join("b.yaml")).expect("remove");
        let (findings, policies) = folder.refresh();
        assert_eq!((findings.len(), policies), (1, vec![]), "that the constraint waits again");
        assert_eq!((folder.store.broken(), denial(&folder)), (1, String::new()));
    }

    #[test]
    fn the_good_documents_of_a_new_bad_file_load() {
        let mut folder = Folder::new();
        folder.write("a.yaml", &format!("{}---\na: b: c\n---\n{}", rule("a", "x"), rule("b", "x")));
        let (findings, policies) = folder.refresh();
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(policies, ["ModRule default/a", "ModRule default/b"]);
    }

    #[test]
    fn the_same_policy_twice() {
        let mut folder = Folder::new();
        folder.write("a.yaml", &rule("a", "one"));
        folder.write("b.yaml", &rule("a", "two"));
        let (findings, policies) = folder.refresh();
        assert_eq!(policies, ["ModRule default/a"]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("b.yaml:1:1: ModRule default/a is already defined in"));
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"one\""));
        fs::remove_file(folder.dir.path().join("a.yaml")).expect("remove");
        folder.refresh();
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"two\""));
    }

    #[test]
    fn what_is_not_a_policy() {
        let mut folder = Folder::new();
        folder.write(
            "a.yaml",
            "kind: Deployment\napiVersion: apps/v1\n---\nkind: Modrule\n\
             apiVersion: api.kubemod.io/v1beta1\n---\na: 1\n---\n- 1\n",
        );
        let (findings, policies) = folder.refresh();
        assert!(policies.is_empty());
        assert_eq!(
            findings,
            [
                "a.yaml:9:1: expected an object, found a document of type array",
                "a.yaml:4:7: unknown kind `Modrule` in api.kubemod.io/v1beta1, not loaded",
                "a.yaml:7:1: the document has no `kind`, not loaded",
            ]
        );
    }

    #[test]
    fn lists_namespaces_and_examples() {
        let mut folder = Folder::new();
        let rules = rule("a", "x").replace('\n', "\n  ");
        folder.write("list.yaml", &format!("kind: List\napiVersion: v1\nitems:\n- {rules}\n"));
        folder.write(
            "ns.json",
            r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "uid": "u"}}"#,
        );
        folder.write(
            "review.json",
            r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#,
        );
        let (findings, policies) = folder.refresh();
        assert!(findings.is_empty(), "{findings:?}");
        assert_eq!(policies, ["ModRule default/a"]);
        assert!(folder.store.example().is_some_and(|path| path.ends_with("review.json")));
        let objects = &folder.store.policies().objects;
        let uid = |name| objects.namespace(name).expect(name).pointer("/metadata/uid").cloned();
        assert_eq!(uid("n"), Some("u".into()));
        assert_eq!(uid("other"), None);
        assert!(objects.node("n").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_mounted_config_map_swaps_a_link() {
        use std::os::unix::fs::symlink;

        let mut folder = Folder::new();
        let root = folder.dir.path().to_owned();
        for (version, message) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(root.join(version)).expect("folder");
            fs::write(root.join(version).join("a.yaml"), rule("a", message)).expect("write");
        }
        symlink("..1", root.join("..data")).expect("link");
        symlink("..data/a.yaml", root.join("a.yaml")).expect("link");
        folder.refresh();
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"one\""));
        symlink("..2", root.join("..data_tmp")).expect("link");
        fs::rename(root.join("..data_tmp"), root.join("..data")).expect("swap");
        folder.refresh();
        assert_eq!(folder.rejection().as_deref(), Some("default/a: \"two\""));
    }
}
