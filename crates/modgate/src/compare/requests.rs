//! The requests that policies are compared with: documents, lines of logs, invented objects.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_audit::{Options, Policies};
use modgate_cluster::remote::{Remote, Resource};
use modgate_engine::{
    Review, Stages,
    api::{admission::AdmissionReview, meta::GroupVersionKind},
};
use modgate_policies::{PolicySet, manifest::Manifest};
use modgate_prove::{
    answer::Answer,
    compare::Item,
    generate::Generator,
    record::{Caveat, Event, Log, Unreplayed},
    recorded::Recorded,
    value::unmanaged,
};
use modgate_value::Value;

use super::{Checkout, CompareArgs, GENERATED};
use crate::{
    args::PathArgs,
    cluster::{Cluster, gvk},
    inputs, lines,
    terminal::Terminal,
};

/// A longer line is not read.
const MAX_LINE: u64 = 32 << 20;

/// Requests, one after the other.
pub(super) struct Requests<'a> {
    args: &'a CompareArgs,
    terminal: &'a Terminal,
    /// Those of documents.
    documents: std::vec::IntoIter<Manifest>,
    namespaces: Vec<Value>,
    /// Logs that are still to be read, the next one last.
    logs: Vec<PathBuf>,
    lines: Option<Lines>,
    cluster: Option<ClusterObjects>,
    generator: Generator,
    left_to_invent: usize,
    log: Log,
    next: usize,
    /// Whether something could not be read.
    pub(super) incomplete: bool,
    /// Events that stand for no request.
    pub(super) not_admitted: u64,
    /// Events that could not be replayed, by reason.
    pub(super) unreplayed: BTreeMap<Unreplayed, u64>,
    /// Requests that are not as they were, by reason.
    pub(super) caveats: BTreeMap<Caveat, u64>,
    /// How many objects were invented.
    pub(super) invented: usize,
}

/// A request, and what was answered.
struct Asked {
    review: Review,
    stages: Stages,
    answer: Option<Answer>,
}

impl Asked {
    /// A request that all webhooks see, with an answer that is not known.
    fn all(review: Review) -> Self {
        Self { review, stages: Stages::ALL, answer: None }
    }
}

/// The objects of a cluster, page by page.
struct ClusterObjects {
    remote: Remote,
    /// Kinds with the token of their next page, the next one last.
    pages: Vec<(Resource, String)>,
    objects: std::vec::IntoIter<Value>,
}

struct Lines {
    name: String,
    reader: Box<dyn BufRead + Send>,
    number: u64,
}

impl<'a> Requests<'a> {
    pub(super) fn open(
        args: &'a CompareArgs,
        checkouts: &[Checkout],
        terminal: &'a Terminal,
    ) -> Result<Self> {
        let mut incomplete = false;
        let (mut documents, mut logs) = (Vec::new(), Vec::new());
        for path in &args.requests {
            let lines = lines::files(path)?;
            let is_file = lines.first() == Some(path);
            logs.extend(lines);
            if !is_file {
                documents.push(path.clone());
            }
        }
        logs.reverse();
        let documents = inputs::manifests(&PathArgs::of(&documents), terminal, &mut incomplete)?;
        let documents: Vec<Manifest> =
            documents.into_iter().map(|(manifest, _)| manifest).collect();
        let is_namespace = |object: &&Value| GroupVersionKind::of_object(object).is_namespace();
        let namespaces = documents.iter().map(|it| &it.object).filter(is_namespace);
        let namespaces = namespaces.cloned().collect();
        let mut ignored = false;
        let policies: Vec<PathBuf> = checkouts.iter().map(|it| it.path().to_owned()).collect();
        let policies = inputs::manifests(&PathArgs::of(&policies), terminal, &mut ignored)?;
        let is_given = !args.requests.is_empty() || args.cluster;
        let otherwise = if is_given { 0 } else { GENERATED };
        let generator =
            Generator::new(args.seed, policies.iter().map(|(manifest, _)| &manifest.object));
        Ok(Self {
            args,
            terminal,
            documents: documents.into_iter(),
            namespaces,
            logs,
            lines: None,
            cluster: None,
            generator,
            left_to_invent: args.generate.unwrap_or(otherwise),
            log: Log::default(),
            next: 0,
            incomplete,
            not_admitted: 0,
            unreplayed: BTreeMap::new(),
            caveats: BTreeMap::new(),
            invented: 0,
        })
    }

    /// Adds the objects of the cluster that a policy may apply to, and shows the policies what they look at.
    pub(super) fn add_cluster(&mut self, policy_sets: &mut [PolicySet]) -> Result<()> {
        const NO_CLUSTER: &str = "no cluster is configured; give `--kubeconfig`";
        let (kubeconfig, context) = (self.args.kubeconfig.as_deref(), self.args.context.as_deref());
        let mut cluster = Cluster::connect(kubeconfig, context, NO_CLUSTER, self.terminal)?;
        for policy_set in policy_sets.iter_mut() {
            cluster.show(policy_set, self.terminal);
        }
        let policies = policy_sets.iter().map(|it| {
            let options = Options { mutators: true, ..Options::default() };
            Policies::new(it.snapshot.clone(), it.inventory.clone(), options)
        });
        let policies: Vec<Policies> = policies.collect();
        let Cluster { remote, mut kinds, incomplete } = cluster;
        self.incomplete |= incomplete;
        kinds.retain(|kind| policies.iter().any(|policies| policies.concerns(&gvk(kind))));
        // The last one is read first.
        let pages = kinds.into_iter().rev().map(|kind| (kind, String::new())).collect();
        self.cluster = Some(ClusterObjects { remote, pages, objects: Vec::new().into_iter() });
        Ok(())
    }

    /// The next object of the cluster, and its place.
    fn object(&mut self) -> Option<(Value, String)> {
        let cluster = self.cluster.as_mut()?;
        loop {
            if let Some(object) = cluster.objects.next() {
                let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
                let name = |member| object.path(&["metadata", member]).and_then(Value::as_str);
                let place = match (name("namespace"), name("name").unwrap_or_default()) {
                    (Some(namespace), name) => format!("{kind} {namespace}/{name}"),
                    (None, name) => format!("{kind} {name}"),
                };
                return Some((object, place));
            }
            let (kind, token) = cluster.pages.pop()?;
            match cluster.remote.page(&kind, &token) {
                Ok((objects, next)) => {
                    cluster.objects = objects.into_iter();
                    if !next.is_empty() {
                        cluster.pages.push((kind, next));
                    }
                }
                Err(error) => {
                    self.incomplete = true;
                    self.terminal.error(&format!("{} cannot be listed: {error}", kind.plural));
                }
            }
        }
    }

    /// The Namespaces among the documents.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Value> {
        self.namespaces.iter()
    }

    /// How many requests there are, if that is known.
    pub(super) fn total(&self) -> Option<usize> {
        let is_known = self.logs.is_empty() && self.cluster.is_none();
        is_known.then_some(self.documents.len() + self.left_to_invent)
    }

    /// The request of a document; `None` where it stands for none.
    fn request(&mut self, document: &Value, place: &str) -> Option<Asked> {
        if Log::is_event(document) {
            return match self.log.read(document) {
                Event::Request { review, caveats, answer } => {
                    for caveat in caveats {
                        *self.caveats.entry(caveat).or_default() += 1;
                    }
                    Some(Asked { answer, ..Asked::all(*review) })
                }
                Event::NotAdmitted => {
                    self.not_admitted += 1;
                    None
                }
                Event::Unreplayed(why) => {
                    *self.unreplayed.entry(why).or_default() += 1;
                    None
                }
            };
        }
        if Recorded::is_repeated(document) {
            return None;
        }
        let problem = if Recorded::is_one(document) {
            match Recorded::read(document) {
                Ok(Recorded { review, stages, answer, hidden }) => {
                    if hidden {
                        *self.caveats.entry(Caveat::Hidden).or_default() += 1;
                    }
                    return Some(Asked { review, stages, answer: Some(answer) });
                }
                Err(error) => error.to_string(),
            }
        } else if AdmissionReview::is_review(document) {
            match Review::parse(document) {
                Ok(review) => return Some(Asked::all(review)),
                Err(error) => error.to_string(),
            }
        } else if document.get("kind").and_then(Value::as_str).is_none_or(str::is_empty) {
            "the object has no `kind`".to_owned()
        } else {
            let (operation, namespace) = (self.args.operation, &self.args.namespace);
            let review = Review::of_object(document.clone(), operation, namespace);
            return Some(Asked::all(review));
        };
        self.incomplete = true;
        self.terminal.error(&format!("{place}: {problem}"));
        None
    }

    /// The next line of the logs and its place.
    fn line(&mut self) -> Option<(String, Vec<u8>)> {
        loop {
            if self.lines.is_none() {
                let path = self.logs.pop()?;
                match Lines::open(&path) {
                    Ok(lines) => self.lines = Some(lines),
                    Err(error) => {
                        self.incomplete = true;
                        self.terminal.error(&format!("{error:#}"));
                        continue;
                    }
                }
            }
            let lines = self.lines.as_mut()?;
            match lines.next() {
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                Ok(Some(line)) => return Some((format!("{}:{}", lines.name, lines.number), line)),
                Ok(None) => self.lines = None,
                Err(error) => {
                    self.incomplete = true;
                    self.terminal.error(&format!("cannot read `{}`: {error}", lines.name));
                    self.lines = None;
                }
            }
        }
    }
}

impl Iterator for Requests<'_> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            let (asked, place) = if let Some(manifest) = self.documents.next() {
                let place = manifest.location();
                (self.request(&manifest.object, &place), place)
            } else if let Some((place, line)) = self.line() {
                match Value::from_json(&line) {
                    Ok(document) => (self.request(&document, &place), place),
                    // The process that wrote it was killed, or is still writing.
                    Err(_) if !line.ends_with(b"\n") => {
                        self.terminal.note(format_args!(
                            "note: {place}: the last line is not complete, skipped"
                        ));
                        continue;
                    }
                    Err(error) => {
                        self.incomplete = true;
                        self.terminal.error(&format!("{place}: {error}"));
                        continue;
                    }
                }
            } else if let Some((object, place)) = self.object() {
                let (operation, namespace) = (self.args.operation, &self.args.namespace);
                let review = Review::of_object(unmanaged(&object), operation, namespace);
                (Some(Asked::all(review)), place)
            } else if self.left_to_invent > 0 {
                self.left_to_invent -= 1;
                self.invented += 1;
                (Some(Asked::all(self.generator.request())), format!("invented {}", self.invented))
            } else {
                return None;
            };
            let Some(Asked { review, stages, answer }) = asked else { continue };
            self.next += 1;
            return Some(Item { index: self.next, place, review, stages, answer });
        }
    }
}

impl Lines {
    fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = File::open(path).with_context(|| format!("cannot read `{name}`"))?;
        Ok(Self { name, reader: Box::new(BufReader::new(file)), number: 0 })
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(MAX_LINE + 1).read_until(b'\n', &mut line)?;
        if u64::try_from(read).is_ok_and(|read| read > MAX_LINE) {
            let message = format!("line {} is longer than {} MiB", self.number + 1, MAX_LINE >> 20);
            return Err(io::Error::other(message));
        }
        self.number += 1;
        Ok((read > 0).then_some(line))
    }
}
