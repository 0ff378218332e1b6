//! `cargo xtask audit`: how fast, in how much memory, and how cheaply the second time.
//!
//! Objects are made while they are asked for and arrive as JSON, as pages of an API server do, so
//! that what is resident is the audit's and not theirs.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process,
    sync::atomic::AtomicBool,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use modgate_audit::{Incremental, Item, Manner, Options, Policies, Report, Sink, Violation, audit};
use modgate_engine::constraint::Inventory;
use modgate_server::Objects;
use modgate_value::Value;

use crate::load::{ProcessFigures, cpu_model, library};

/// Options of `cargo xtask audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How many objects there are.
    #[arg(long, default_value_t = 5000)]
    objects: usize,
    /// Pods only, instead of kinds as clusters have them.
    #[arg(long)]
    pods: bool,
    /// How many objects that no other object is judged by change before the second audit.
    #[arg(long, default_value_t = 100)]
    changed: usize,
    /// How many Services change before the third audit: all Services are judged by all others.
    #[arg(long, default_value_t = 10)]
    services: usize,
    /// Keep nothing from audit to audit; the reference.
    #[arg(long)]
    reference: bool,
    /// Write the objects as a List into this file and stop, for other programs to audit.
    #[arg(long, value_name = "FILE")]
    write: Option<std::path::PathBuf>,
}

/// Objects handed out at once.
const BATCH: usize = 64;

/// Runs the audits; false if they contradict each other.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let fleet = Fleet::new(args);
    if let Some(path) = &args.write {
        let items: Vec<Value> = (0..fleet.objects).map(|index| fleet.object(index, 0)).collect();
        let list = [("apiVersion", "v1".into()), ("kind", "List".into()), ("items", items.into())];
        std::fs::write(path, list.into_iter().collect::<Value>().to_json())?;
        return Ok(true);
    }
    let (_, snapshot) = library::policies()?;
    let mut out = io::stdout().lock();
    let threads = Manner::all_cores();
    writeln!(out, "cpu         {}", cpu_model())?;
    writeln!(
        out,
        "objects     {} {}, judged by {} policies on {threads} threads",
        fleet.objects,
        if args.pods { "Pods" } else { "of mixed kinds" },
        snapshot.policies().count()
    )?;
    let host = Objects::default();
    let stop = AtomicBool::new(false);
    let manner = Manner { threads, limit: 20, stop: &stop };

    if args.reference {
        let versions = BTreeMap::new();
        let inventory = fleet.inventory(&versions)?;
        let policies = Policies::new(snapshot, inventory, Options::default());
        let measured = Measured::start()?;
        let mut source = fleet.source(0..fleet.objects, &versions);
        let report = audit("reference", &policies, &mut source, &host, &NoSink, manner)
            .context("stopped")?;
        measured.tell(&mut out, "one audit", &report)?;
        return Ok(report.errors.is_empty());
    }

    let mut incremental = Incremental::new(Options::default());
    let mut versions = BTreeMap::new();
    let mut pass = |name: &str, which: Vec<usize>, versions: &BTreeMap<usize, u32>| -> Result<_> {
        let inventory = fleet.inventory(versions)?;
        let measured = Measured::start()?;
        incremental.adopt(&snapshot, &inventory, &host);
        let mut source = fleet.source(which.into_iter(), versions);
        incremental.run(&mut source, &host, manner);
        drop(source);
        // What is judged by what has changed.
        let stale: Vec<usize> = incremental
            .stale()
            .iter()
            .flat_map(|stale| &stale.objects)
            .filter_map(|(_, name)| name.rsplit_once('-')?.1.parse().ok())
            .collect();
        let again = stale.len();
        incremental.run(&mut fleet.source(stale.into_iter(), versions), &host, manner);
        ensure!(incremental.stale().is_empty(), "{name}: not everything could be judged");
        let report = incremental.report(name, 20, &NoSink).context("nothing was adopted")?;
        let cpu = measured.tell(&mut out, name, &report)?;
        writeln!(out, "            {again} evaluated again because of others")?;
        Ok((report, cpu))
    };
    let (_, first) = pass("first", (0..fleet.objects).collect(), &versions)?;
    let changed = fleet.some(args.changed, |kind| !is_referred_to(kind));
    versions.extend(changed.iter().map(|index| (*index, 1)));
    let (_, second) = pass("second", changed, &versions)?;
    let services = fleet.some(args.services, |kind| kind == Kind::Service);
    versions.extend(services.iter().map(|index| (*index, 1)));
    let third = (!services.is_empty()).then(|| pass("third", services, &versions)).transpose()?;
    let share = |cpu: Duration| 100.0 * cpu.as_secs_f64() / first.as_secs_f64();
    writeln!(out, "second      {:.2} % of the first's processor time", share(second))?;
    if let Some((_, third)) = third {
        writeln!(out, "third       {:.2} %", share(third))?;
    }
    Ok(true)
}

fn is_referred_to(kind: Kind) -> bool {
    matches!(kind, Kind::Service | Kind::Ingress | Kind::Deployment | Kind::Namespace)
}

/// Nothing beside the report.
struct NoSink;

impl Sink for NoSink {
    fn violation(&self, _: &str, _: &Violation) {}
}

struct Measured {
    began: Instant,
    before: ProcessFigures,
}

impl Measured {
    fn start() -> Result<Self> {
        let before = ProcessFigures::read(process::id()).context("this is not Linux")?;
        Ok(Self { began: Instant::now(), before })
    }

    fn tell(self, out: &mut impl io::Write, name: &str, report: &Report) -> Result<Duration> {
        let took = self.began.elapsed();
        let now = ProcessFigures::read(process::id()).context("this is not Linux")?;
        let cpu = now.cpu.saturating_sub(self.before.cpu);
        let mib = |kib: usize| kib / 1024;
        let counts = &report.counts;
        let rate = f64::from(u32::try_from(counts.evaluated).unwrap_or(u32::MAX));
        writeln!(
            out,
            "{name:11} {} of {} objects evaluated, {} violations, {} errors\n            {took:.3?}, \
             {:.0} objects/s, {cpu:.2?} of processor time\n            {} MiB resident, {} MiB at most",
            counts.evaluated,
            counts.objects,
            report.totals.sum(),
            counts.errors,
            rate / took.as_secs_f64(),
            mib(now.resident_kib),
            mib(now.peak_kib),
        )?;
        for error in report.errors.iter().take(3) {
            writeln!(out, "            {}: {}", error.subject.name, error.message)?;
        }
        Ok(cpu)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pod,
    ReplicaSet,
    Deployment,
    ConfigMap,
    Secret,
    ServiceAccount,
    Service,
    Ingress,
    RoleBinding,
    Namespace,
}

/// Per hundred objects, in this order.
const MIX: [(Kind, usize); 10] = [
    (Kind::Pod, 50),
    (Kind::ReplicaSet, 15),
    (Kind::Deployment, 8),
    (Kind::ConfigMap, 9),
    (Kind::Secret, 8),
    (Kind::ServiceAccount, 4),
    (Kind::Service, 2),
    (Kind::Ingress, 1),
    (Kind::RoleBinding, 2),
    (Kind::Namespace, 1),
];

/// Namespaces that objects are spread over.
const NAMESPACES: usize = 200;

/// Objects as clusters have them, each made when it is asked for.
struct Fleet {
    objects: usize,
    pods: bool,
    pod: Value,
    deployment: Value,
}

impl Fleet {
    fn new(args: &Args) -> Self {
        let (pod, deployment) = (library::pod(), library::deployment());
        Self { objects: args.objects, pods: args.pods, pod, deployment }
    }

    fn kind(&self, index: usize) -> Kind {
        if self.pods {
            return Kind::Pod;
        }
        let mut place = index % 100;
        for (kind, share) in MIX {
            match place.checked_sub(share) {
                Some(rest) => place = rest,
                None => return kind,
            }
        }
        Kind::Pod
    }

    /// The first so many objects of kinds.
    fn some(&self, count: usize, of: impl Fn(Kind) -> bool) -> Vec<usize> {
        (0..self.objects).filter(|index| of(self.kind(*index))).take(count).collect()
    }

    /// An object in one of its versions; every hundredth Pod does what most policies refuse.
    fn object(&self, index: usize, version: u32) -> Value {
        let kind = self.kind(index);
        let (api_version, name) = match kind {
            Kind::ReplicaSet | Kind::Deployment => ("apps/v1", format!("{kind:?}")),
            Kind::Ingress => ("networking.k8s.io/v1", format!("{kind:?}")),
            Kind::RoleBinding => ("rbac.authorization.k8s.io/v1", format!("{kind:?}")),
            _ => ("v1", format!("{kind:?}")),
        };
        let object = |members: Vec<(&str, Value)>| members.into_iter().collect::<Value>();
        let text = |text: String| Value::from(text.as_str());
        let place = format!("ns-{}", index % NAMESPACES);
        let mut metadata = vec![
            ("name", text(format!("{}-{index}", name.to_lowercase()))),
            ("uid", text(format!("00000000-0000-4000-8000-{index:012}"))),
            ("resourceVersion", text(format!("{}", u64::from(version) * 1_000_000 + 7))),
            ("labels", object(vec![("app", text(format!("app-{}", index % 1000)))])),
        ];
        if kind != Kind::Namespace {
            metadata.push(("namespace", place.as_str().into()));
        }
        let mut all = vec![
            ("apiVersion", api_version.into()),
            ("kind", name.as_str().into()),
            ("metadata", object(metadata)),
        ];
        let spec = |of: &Value| of.get("spec").cloned().unwrap_or_default();
        match kind {
            Kind::Pod => all.push(("spec", spec(&self.pod))),
            Kind::ReplicaSet | Kind::Deployment => all.push(("spec", spec(&self.deployment))),
            Kind::Service => {
                let selector = object(vec![("app", text(format!("service-{index}")))]);
                let port = object(vec![("port", Value::from(80))]);
                let ports = Value::from(vec![port]);
                all.push(("spec", object(vec![("selector", selector), ("ports", ports)])));
            }
            Kind::Ingress => {
                let rule = object(vec![("host", text(format!("host-{index}.example.com")))]);
                all.push(("spec", object(vec![("rules", Value::from(vec![rule]))])));
            }
            Kind::ConfigMap | Kind::Secret => {
                let data = (0..8).map(|key| (format!("key-{key}"), text(format!("{index:064}"))));
                let data: BTreeMap<String, Value> = data.collect();
                all.push(("data", data.into_iter().collect()));
            }
            Kind::ServiceAccount | Kind::Namespace => {}
            Kind::RoleBinding => {
                let role = [("apiGroup", "rbac.authorization.k8s.io"), ("kind", "Role")];
                let role = role.into_iter().chain([("name", "reader")]);
                let role = role.map(|(member, value)| (member, Value::from(value))).collect();
                all.push(("roleRef", role));
            }
        }
        object(all)
    }

    /// As a page of an API server has them: text, of which a value is made.
    fn source<'a>(
        &'a self,
        which: impl Iterator<Item = usize> + Send + 'a,
        versions: &'a BTreeMap<usize, u32>,
    ) -> impl FnMut() -> Option<Vec<Item>> + Send + 'a {
        let mut which = which;
        move || {
            let objects = which.by_ref().take(BATCH).filter_map(|index| {
                let version = versions.get(&index).copied().unwrap_or_default();
                Value::from_json(self.object(index, version).to_json().as_bytes()).ok()
            });
            let items: Vec<Item> = objects.map(Item::new).collect();
            (!items.is_empty()).then_some(items)
        }
    }

    /// What the library's referential templates look at.
    fn inventory(&self, versions: &BTreeMap<usize, u32>) -> Result<Inventory> {
        let mut inventory = Inventory::default();
        for index in (0..self.objects).filter(|index| is_referred_to(self.kind(*index))) {
            let version = versions.get(&index).copied().unwrap_or_default();
            inventory.insert(self.object(index, version))?;
        }
        Ok(inventory)
    }
}
