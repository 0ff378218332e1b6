//! `modgate audit`: what policies say of objects that exist, in files or a cluster.

mod cluster;
mod junit;
mod report;
mod sarif;

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use anyhow::{Result, ensure};
use modgate_audit::{
    AUDIT, AuditOptions, Item, MUTATE, ObjectRef, Options, PATCH, Policies, Report, SCOPED, Sink,
    Source, Violation, audit,
};
use modgate_engine::{
    api::{admission::AdmissionReview, constraints::EnforcementAction, meta::GroupVersionKind},
    constraint::Arena,
};
use modgate_policies::{PolicyFiles, PolicySet, PolicyStore, manifest};
use modgate_value::{Value, diag::Diagnostic, yaml};

use crate::{
    args::{AuditCommandArgs, AuditOutput, FailOn},
    exit::Exit,
    inputs, page,
    progress::Progress,
    review::print_json,
    terminal::Terminal,
};

/// Objects handed to a thread at once.
const BATCH: usize = 32;

/// Runs the verb.
pub(crate) fn run(args: &AuditCommandArgs, terminal: &Terminal) -> Result<Exit> {
    let all = args.policies.policies.iter().chain(&args.policies.objects).chain(&args.subjects);
    let from_stdin = all.filter(|path| manifest::is_stdin(path)).count();
    ensure!(
        from_stdin <= 1,
        "standard input can be read once, but `-` is given {from_stdin} times"
    );
    let files = PolicyFiles {
        policies: args.policies.policies.clone(),
        objects: args.policies.objects.clone(),
    };
    let mut store = PolicyStore::new(files, args.policies.engine.config(&args.namespace));
    let findings = store.refresh().findings;
    if !inputs::are_good(findings, args.policies.strict, terminal) {
        return Ok(Exit::BadInput);
    }
    let world = PolicySet::clone(store.policies());
    if !inputs::are_policies(&world, &args.policies.policies, terminal) {
        return Ok(Exit::BadInput);
    }
    let found = match args.subjects.is_empty() {
        true => cluster::audit(args, world, terminal)?,
        false => of_files(args, world, terminal)?,
    };
    for error in &found.report.errors {
        let place = modgate_audit::place(&error.subject.origin, error.subject.position);
        let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
        terminal.error(&format!("{}{place}: {}", report::title(&error.subject), error.message));
    }
    if found.incomplete && found.report.counts.objects == 0 {
        return Ok(Exit::BadInput);
    }
    let mut out = io::stdout().lock();
    match args.output {
        AuditOutput::Text => report::text(&mut out, &found, args, terminal)?,
        AuditOutput::Json => print_json(&mut out, &report::value(&found, args))?,
        AuditOutput::Jsonl => report::lines(&mut out, &found, args)?,
        AuditOutput::Yaml => write!(out, "{}", yaml::write(&report::value(&found, args)))?,
        AuditOutput::Sarif => print_json(&mut out, &sarif::value(&found, args))?,
        AuditOutput::Junit => junit::write(&mut out, &found, args)?,
        AuditOutput::Html => out.write_all(html(&found, args, &store)?.as_bytes())?,
    }
    out.flush()?;
    let worst = found.violations.iter().map(severity).min();
    Ok(match worst {
        _ if found.incomplete || found.report.counts.errors > 0 => Exit::BadInput,
        Some(worst) if worst <= args.fail_on && args.fail_on != FailOn::None => Exit::Denied,
        _ => Exit::Success,
    })
}

/// The page of an audit.
fn html(found: &Found, args: &AuditCommandArgs, store: &PolicyStore) -> Result<String> {
    let mut page = page::new("audit", &args.policies, store, report::value(found, args));
    let mut subjects = page::Subjects::default();
    let mut arena = Arena::new();
    for (subject, object) in &found.objects {
        let shown = page::Subject {
            object,
            namespace: &subject.namespace,
            name: &subject.name,
            place: modgate_audit::place(&subject.origin, subject.position),
            after: None,
        };
        let world = &found.world;
        subjects.add(&shown, || page::of_existing(world, object, &args.namespace, &mut arena))?;
    }
    subjects.into_page(&mut page);
    Ok(page.html())
}

/// What an audit found.
pub(crate) struct Found {
    pub(crate) report: Report,
    /// In the order in which they are shown.
    pub(crate) violations: Vec<Violation>,
    /// Whether something could not even be read.
    pub(crate) incomplete: bool,
    /// The objects with violations, in an order of their own; only kept for a page.
    objects: Vec<(Arc<ObjectRef>, Value)>,
    /// The policies, and what they read.
    world: PolicySet,
}

/// How bad a violation is.
pub(crate) fn severity(violation: &Violation) -> FailOn {
    let has = |action| violation.actions.contains(&action);
    match violation.action.as_str() {
        SCOPED if has(EnforcementAction::Deny) => FailOn::Deny,
        SCOPED if has(EnforcementAction::Warn) => FailOn::Warn,
        SCOPED | "dryrun" | AUDIT => FailOn::Dryrun,
        "warn" | PATCH | MUTATE => FailOn::Warn,
        _ => FailOn::Deny,
    }
}

fn of_files(args: &AuditCommandArgs, mut world: PolicySet, terminal: &Terminal) -> Result<Found> {
    let mut incomplete = false;
    let mut items = Vec::new();
    for (manifest, source) in inputs::manifests(&args.subjects, terminal, &mut incomplete) {
        let object = &manifest.object;
        let problem = if AdmissionReview::is_review(object) {
            Some(
                Diagnostic::error("an AdmissionReview is no object that exists")
                    .help("`modgate review` judges requests"),
            )
        } else if manifest.kind().is_empty() {
            Some(Diagnostic::error("the object has no `kind`").help("give a Kubernetes object"))
        } else {
            None
        };
        if let Some(problem) = problem {
            incomplete = true;
            terminal.diagnostic(&manifest.finding(problem, &source));
            continue;
        }
        take(&mut world, object);
        if let Err(error) = world.inventory.insert(object.clone()) {
            incomplete = true;
            terminal.diagnostic(&manifest.finding(Diagnostic::error(error.to_string()), &source));
            continue;
        }
        let mut subject = ObjectRef::of_object(object);
        subject.origin = manifest.origin.clone();
        subject.position = Some(manifest.positions.nearest("").into());
        items.push(Item::of_subject(manifest.object, Arc::new(subject)));
    }
    if items.is_empty() && !incomplete {
        let paths: Vec<_> = args.subjects.iter().map(|path| path.display().to_string()).collect();
        terminal.error(&format!("there is no object in `{}`", paths.join("`, `")));
        incomplete = true;
    }
    let progress = Progress::new(Some(items.len()), "objects");
    let mut items = items.into_iter();
    let mut source = || {
        let batch: Vec<_> = items.by_ref().take(BATCH).collect();
        progress.show(batch.len());
        (!batch.is_empty()).then_some(batch)
    };
    let found = audit_objects(args, &world, &mut source);
    progress.clear();
    Ok(Found { incomplete, ..found })
}

/// Keeps an object that policies look at when they evaluate others.
fn take(world: &mut PolicySet, object: &Value) {
    let kind = GroupVersionKind::of_object(object);
    let (version, kind) = (kind.api_version(), kind.kind);
    let params = world.snapshot.cluster_policies().param_kinds();
    if params.contains(&(&version, &kind)) {
        world.objects.keep(object);
    }
    world.objects.take(object);
}

/// Audits every object of a source.
fn audit_objects(args: &AuditCommandArgs, world: &PolicySet, source: &mut Source<'_>) -> Found {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let options = Options { mutators: args.mutators, ..Options::default() };
    let policies = Policies::new(world.snapshot.clone(), world.inventory.clone(), options);
    let seen = Seen { keeps_objects: args.output == AuditOutput::Html, ..Seen::default() };
    let options = AuditOptions {
        threads: AuditOptions::all_cores(),
        limit: 0,
        stop: &NEVER,
        statistics: None,
    };
    let report = audit("", &policies, source, &world.objects, &seen, options);
    let mut violations = seen.violations.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut objects = seen.objects.into_inner().unwrap_or_else(PoisonError::into_inner);
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
    let report = report.unwrap_or_else(unreachable_report);
    Found { report, violations, incomplete: false, objects, world: world.clone() }
}

fn unreachable_report() -> Report {
    Report {
        audit: "".into(),
        by_policy: Vec::new(),
        totals: modgate_audit::Totals::default(),
        counts: modgate_audit::Counts::default(),
        errors: Vec::new(),
    }
}

/// Remembers violations, and the objects that they are about if a page shows them.
#[derive(Default)]
struct Seen {
    violations: Mutex<Vec<Violation>>,
    objects: Mutex<Vec<(Arc<ObjectRef>, Value)>>,
    keeps_objects: bool,
}

impl Sink for Seen {
    fn object(&self, subject: &Arc<ObjectRef>, object: &Value) {
        if !self.keeps_objects {
            return;
        }
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        // A page has no room for more, and a cluster may have more than memory.
        if objects.len() <= page::MAX_OBJECTS {
            objects.push((Arc::clone(subject), object.clone()));
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
