//! The requests that policies are compared with: documents, lines of logs, invented objects.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use modgate_engine::{
    Review,
    api::{admission::AdmissionReview, meta::GroupVersionKind},
};
use modgate_policies::manifest::Manifest;
use modgate_prove::{
    compare::Item,
    generate::Generator,
    record::{Caveat, Event, Log, Unreplayed},
};
use modgate_value::Value;

use super::{Checkout, CompareArgs, GENERATED};
use crate::{args::PathArgs, inputs, terminal::Terminal};

/// The extensions of files with one JSON document on each line.
const LINES: [&str; 3] = ["jsonl", "ndjson", "log"];
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
            let lines = logs_of(path)?;
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
        let otherwise = if args.requests.is_empty() { GENERATED } else { 0 };
        let generator =
            Generator::new(args.seed, policies.iter().map(|(manifest, _)| &manifest.object));
        Ok(Self {
            args,
            terminal,
            documents: documents.into_iter(),
            namespaces,
            logs,
            lines: None,
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

    /// The Namespaces among the documents.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &Value> {
        self.namespaces.iter()
    }

    /// How many requests there are, if that is known.
    pub(super) fn total(&self) -> Option<usize> {
        self.logs.is_empty().then_some(self.documents.len() + self.left_to_invent)
    }

    /// The request of a document; `None` where it stands for none.
    fn request(&mut self, document: &Value, place: &str) -> Option<Review> {
        if Log::is_event(document) {
            return match self.log.read(document) {
                Event::Request { review, caveats } => {
                    for caveat in caveats {
                        *self.caveats.entry(caveat).or_default() += 1;
                    }
                    Some(*review)
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
        let problem = if AdmissionReview::is_review(document) {
            match Review::parse(document) {
                Ok(review) => return Some(review),
                Err(error) => error.to_string(),
            }
        } else if document.get("kind").and_then(Value::as_str).is_none_or(str::is_empty) {
            "the object has no `kind`".to_owned()
        } else {
            let (operation, namespace) = (self.args.operation, &self.args.namespace);
            return Some(Review::of_object(document.clone(), operation, namespace));
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
            let (review, place) = if let Some(manifest) = self.documents.next() {
                let place = manifest.location();
                (self.request(&manifest.object, &place), place)
            } else if let Some((place, line)) = self.line() {
                match Value::from_json(&line) {
                    Ok(document) => (self.request(&document, &place), place),
                    Err(error) => {
                        self.incomplete = true;
                        self.terminal.error(&format!("{place}: {error}"));
                        continue;
                    }
                }
            } else if self.left_to_invent > 0 {
                self.left_to_invent -= 1;
                self.invented += 1;
                (Some(self.generator.review()), format!("invented {}", self.invented))
            } else {
                return None;
            };
            let Some(review) = review else { continue };
            self.next += 1;
            return Some(Item { index: self.next, place, review });
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

/// The files of lines at a path: the file itself, or those of the folder, sorted.
fn logs_of(path: &Path) -> Result<Vec<PathBuf>> {
    let is_log = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| LINES.contains(&extension))
    };
    if !path.is_dir() {
        return Ok(if is_log(path) { vec![path.to_owned()] } else { Vec::new() });
    }
    let entries =
        fs::read_dir(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| is_log(path) && path.is_file());
    found.sort();
    Ok(found)
}
