//! `modgate audit`: evaluates policies against objects that exist, in files or a cluster.

mod baseline;
mod cluster;
mod contexts;
mod report;

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use anyhow::Result;
use modgate_audit::{
    AuditOptions, Item, ObjectRef, Options, Policies, Report, Sink, Source, Violation, audit,
};
use modgate_engine::{
    Evaluation, Faults, PolicyId, Review, Snapshot,
    api::{
        admission::AdmissionReview,
        meta::{GroupVersionKind, Operation},
    },
    constraint::{Arena, Inventory},
};
use modgate_gator::progress::Progress;
use modgate_policies::{Objects, PolicySet, PolicyStore, manifest::Manifest};
use modgate_report::about_policies;
use modgate_review::{notes, subject};
use modgate_value::{
    Value,
    diag::{self as text, Diagnostic},
    yaml,
};

use self::baseline::{Baseline, Compared};
use crate::{
    args::{AuditCommandArgs, AuditOutput},
    exit::Exit,
    findings, inputs,
    outputs::{Outputs, print_json},
    page,
    terminal::Terminal,
};

/// Objects handed to a thread at once.
const BATCH: usize = 32;

/// Runs the verb.
pub(crate) fn run(args: &AuditCommandArgs, terminal: &Terminal) -> Result<Exit> {
    let terminal = &terminal.recording(args.report.quiet);
    if !args.contexts.is_empty() {
        return contexts::run(args, terminal);
    }
    let paths = args.paths();
    inputs::once(&args.policies, &paths)?;
    let baseline = args.baseline.as_deref().map(Baseline::read).transpose()?;
    let mut outputs = Outputs::new(&args.output, terminal)?;
    let config = args.policies.engine.config(&args.namespace);
    let objects = inputs::Objects::read(&paths)?;
    let definitions = objects.definitions();
    let read = inputs::read_policies(&args.policies, &paths, config, definitions, terminal)?;
    let Some((store, policy_set)) = read else {
        let mut report = modgate_review::findings::report(&terminal.heard());
        args.report.help_base.show_in(&mut report);
        report.complete = false;
        documents(&mut outputs, &AuditFindings::nothing(), args, &report)?;
        outputs.report(&report)?;
        outputs.finish()?;
        return Ok(Exit::BadInput);
    };
    let snapshot = policy_set.snapshot.clone();
    let mut found = match args.is_of_files() {
        false => cluster::audit(args, policy_set, terminal)?,
        true => of_files(args, objects, policy_set, terminal)?,
    };
    found.compared = baseline.map(|baseline| baseline.compare(&found.violations));
    for error in &found.report.errors {
        let place = modgate_audit::place(&error.subject.origin, error.subject.position);
        let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
        terminal.error(&format!("{}{place}: {}", report::title(&error.subject), error.message));
    }
    let heard = terminal.heard();
    let mut report = report::report(&found, args.limit, &heard, &snapshot);
    args.report.help_base.show_in(&mut report);
    let has_objects = !(found.incomplete && found.report.counts.objects == 0);
    for sink in outputs.iter_mut().filter(|_| has_objects) {
        let plain = sink.terminal.again();
        match sink.format {
            AuditOutput::Text => report::text(sink, &found, args, &plain)?,
            AuditOutput::Html => sink.write_all(html(&found, args, &store)?.as_bytes())?,
            _ => {}
        }
    }
    documents(&mut outputs, &found, args, &report)?;
    outputs.report(&report)?;
    outputs.finish()?;
    // `--limit` shortens the report and leaves the exit code as it is.
    let all = report::report(&found, None, &heard, &snapshot);
    Ok(findings::exit(&all, &args.report, terminal))
}

/// Writes the audit's own documents, of one shape whether there are results or not.
fn documents(
    outputs: &mut Outputs<AuditOutput>,
    found: &AuditFindings,
    args: &AuditCommandArgs,
    report: &modgate_report::Report,
) -> Result<()> {
    let about = about_policies(report);
    let document = report::value(found, args, &about);
    for sink in outputs.iter_mut() {
        match sink.format {
            AuditOutput::Json => print_json(sink, &document)?,
            AuditOutput::Jsonl => {
                report::lines(sink, found, args)?;
                for finding in &about {
                    writeln!(sink, "{finding}")?;
                }
            }
            AuditOutput::Yaml => write!(sink, "{}", yaml::write(&document))?,
            _ => {}
        }
    }
    Ok(())
}

/// The page of an audit.
fn html(found: &AuditFindings, args: &AuditCommandArgs, store: &PolicyStore) -> Result<String> {
    let mut page = page::new("audit", &args.policies, store, report::value(found, args, &[]));
    let mut subjects = page::Subjects::new(found.policy_set.secrets());
    let mut arena = Arena::new();
    for (subject, object) in &found.objects {
        let shown = page::Subject {
            object,
            is_secret: false,
            namespace: &subject.namespace,
            name: &subject.name,
            place: modgate_audit::place(&subject.origin, subject.position),
            after: None,
        };
        let policy_set = &found.policy_set;
        subjects
            .add(&shown, || page::of_existing(policy_set, object, &args.namespace, &mut arena))?;
    }
    subjects.leave_out(found.unkept);
    subjects.into_page(&mut page);
    Ok(page.html())
}

/// The findings of an audit.
pub(crate) struct AuditFindings {
    pub(crate) report: Report,
    /// In the order in which they are shown.
    pub(crate) violations: Vec<Violation>,
    /// The documents of the objects, by [`modgate_audit::place`]; empty for those of a cluster.
    pub(crate) documents: BTreeMap<String, (Manifest, text::Source)>,
    /// The fields that policies read of them, by the same.
    faults: BTreeMap<String, Faults>,
    /// Whether something could not even be read.
    pub(crate) incomplete: bool,
    /// The objects with violations, in an order of their own; only kept for a page.
    objects: Vec<(Arc<ObjectRef>, Value)>,
    /// Further objects with violations, for which a page has no room.
    unkept: usize,
    /// The difference to a baseline, if there is one.
    pub(crate) compared: Option<Compared>,
    /// The policies, and what they read.
    policy_set: PolicySet,
}

impl AuditFindings {
    /// The findings of an audit without policies.
    fn nothing() -> Self {
        Self {
            report: no_report(),
            violations: Vec::new(),
            documents: BTreeMap::new(),
            faults: BTreeMap::new(),
            incomplete: true,
            objects: Vec::new(),
            unkept: 0,
            compared: None,
            policy_set: PolicySet {
                snapshot: Snapshot::default(),
                objects: Objects::default(),
                inventory: Inventory::default(),
            },
        }
    }
}

fn of_files(
    args: &AuditCommandArgs,
    mut objects: inputs::Objects,
    mut policy_set: PolicySet,
    terminal: &Terminal,
) -> Result<AuditFindings> {
    let mut incomplete = !objects.report(args.policies.strict, &policy_set, terminal);
    objects.stand_in(&mut policy_set);
    let (mut items, mut reviews) = (Vec::new(), Vec::new());
    let mut documents = BTreeMap::new();
    for (manifest, source) in objects.documents {
        let object = &manifest.object;
        let problem = if AdmissionReview::is_review(object) {
            Some(
                Diagnostic::error("an AdmissionReview is not an object that exists")
                    .help("`modgate review` evaluates requests"),
            )
        } else if manifest.kind().is_empty() {
            Some(subject::no_kind(&manifest, "give a Kubernetes object"))
        } else {
            None
        };
        if let Some(problem) = problem {
            incomplete = true;
            terminal.diagnostic(&manifest.finding(problem, &source));
            continue;
        }
        // As for `review`, and as kubectl would do.
        let review = Review::of_object(object.clone(), Operation::Create, &args.namespace);
        let mut subject = ObjectRef::of_object(object);
        if !subject.kind.is_namespace() {
            subject.namespace = review.request().namespace.clone();
        }
        reviews.push(review);
        subject.origin = manifest.origin.clone();
        subject.position = Some(manifest.positions.nearest("").into());
        let place = modgate_audit::place(&subject.origin, subject.position);
        let types = policy_set.objects.references().types();
        let stored = args.defaulting.then(|| types.as_stored(object)).flatten();
        let object = stored.unwrap_or_else(|| object.clone());
        items.push(Item::of_subject(object, Arc::new(subject)));
        documents.insert(place, (manifest, source));
    }
    if items.is_empty() && !incomplete {
        terminal.error(&format!("there is no object in {}", inputs::listed(&args.paths().named())));
        incomplete = true;
    }
    let references = policy_set.objects.references();
    let notes = notes::about_input(&policy_set.snapshot, references, reviews.iter());
    notes.into_iter().for_each(|note| terminal.note(note));
    drop(reviews);
    let progress = Progress::new(Some(items.len()), "objects");
    let mut items = items.into_iter();
    let mut source = || {
        let batch: Vec<_> = items.by_ref().take(BATCH).collect();
        progress.show(batch.len());
        (!batch.is_empty()).then_some(batch)
    };
    let found = audit_objects(args, &policy_set, &mut source);
    progress.clear();
    // Text has no places of fields, and a second evaluation costs much more than the first (docs/performance.md).
    let marks = args.output.iter().any(|it| !matches!(it.format, AuditOutput::Text));
    let faults = if marks { faults(args, &found, &documents) } else { BTreeMap::new() };
    Ok(AuditFindings { incomplete, documents, faults, ..found })
}

/// The fields that policies read last before they objected to an object.
fn faults(
    args: &AuditCommandArgs,
    found: &AuditFindings,
    documents: &BTreeMap<String, (Manifest, text::Source)>,
) -> BTreeMap<String, Faults> {
    let mut ids: BTreeMap<String, BTreeSet<PolicyId>> = BTreeMap::new();
    for violation in &found.violations {
        let subject = &violation.subject;
        let place = modgate_audit::place(&subject.origin, subject.position);
        ids.entry(place).or_default().insert(findings::policy_id(violation));
    }
    let PolicySet { snapshot, objects, inventory } = &found.policy_set;
    let mut arena = Arena::new();
    let of_object = ids.into_iter().filter_map(|(place, ids)| {
        let (manifest, _) = documents.get(&place)?;
        let object = manifest.object.clone();
        let review = Review::of_object(object, Operation::Create, &args.namespace);
        let mut evaluation = Evaluation::new(objects, inventory, &mut arena);
        Some((place, snapshot.faults(&review, &ids, &mut evaluation)))
    });
    of_object.collect()
}

/// Audits every object of a source.
fn audit_objects(
    args: &AuditCommandArgs,
    policy_set: &PolicySet,
    source: &mut Source<'_>,
) -> AuditFindings {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let options = Options { mutators: args.mutators, ..Options::default() };
    let policies =
        Policies::new(policy_set.snapshot.clone(), policy_set.inventory.clone(), options);
    let seen = Seen {
        keeps_objects: args.output.iter().any(|it| it.format == AuditOutput::Html),
        ..Seen::default()
    };
    let options = AuditOptions {
        threads: AuditOptions::all_cores(),
        limit: 0,
        stop: &NEVER,
        statistics: None,
    };
    let report = audit("", &policies, source, &policy_set.objects, &seen, options);
    let mut violations = seen.violations.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut objects = seen.objects.into_inner().unwrap_or_else(PoisonError::into_inner);
    let unkept = seen.unkept.into_inner();
    objects.sort_by(|(a, _), (b, _)| {
        let key = |it: &ObjectRef| (it.kind.clone(), it.namespace.clone(), it.name.clone());
        key(a).cmp(&key(b)).then_with(|| a.position.cmp(&b.position))
    });
    violations.sort_by(|a, b| {
        let policy = |it: &Violation| {
            let policy = &it.policy;
            (policy.kind.clone(), policy.namespace.clone(), policy.name.clone())
        };
        policy(a).cmp(&policy(b)).then_with(|| a.cmp_listed(b)).then(a.ordinal.cmp(&b.ordinal))
    });
    // It is never stopped.
    let report = report.unwrap_or_else(no_report);
    AuditFindings {
        report,
        violations,
        documents: BTreeMap::new(),
        faults: BTreeMap::new(),
        incomplete: false,
        objects,
        unkept,
        compared: None,
        policy_set: policy_set.clone(),
    }
}

fn no_report() -> Report {
    Report {
        audit: "".into(),
        by_policy: Vec::new(),
        totals: modgate_audit::Totals::default(),
        by_namespace: BTreeMap::new(),
        audited: BTreeMap::new(),
        counts: modgate_audit::Counts::default(),
        errors: Vec::new(),
    }
}

/// Keeps violations, and their objects if a page shows them.
#[derive(Default)]
struct Seen {
    violations: Mutex<Vec<Violation>>,
    objects: Mutex<Vec<(Arc<ObjectRef>, Value)>>,
    unkept: AtomicUsize,
    keeps_objects: bool,
}

impl Sink for Seen {
    fn object(&self, subject: &Arc<ObjectRef>, object: &Value) {
        if !self.keeps_objects {
            return;
        }
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        // A page has no room for more, and a cluster may have more than memory.
        if objects.len() < page::MAX_OBJECTS {
            objects.push((Arc::clone(subject), object.clone()));
        } else {
            self.unkept.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn violation(&self, _: &str, violation: &Violation) {
        self.violations.lock().unwrap_or_else(PoisonError::into_inner).push(violation.clone());
    }
}

/// Group, version and kind as the documents have them.
fn kind_value(kind: &GroupVersionKind) -> [(&'static str, Value); 3] {
    [
        ("group", kind.group.clone().into()),
        ("version", kind.version.clone().into()),
        ("kind", kind.kind.clone().into()),
    ]
}
