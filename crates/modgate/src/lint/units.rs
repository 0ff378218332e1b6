//! The policies to try, each alone with what it needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::Result;
use modgate_engine::{
    Code, EngineConfig, OnError, PolicyId, PolicySource, Snapshot,
    api::{admission::AdmissionReview, constraints, modrule, mutations, templates},
    constraint::Inventory,
    lint::allows,
};
use modgate_policies::{
    Objects, check,
    manifest::{self, Manifest},
    references::References,
};
use modgate_prove::{
    Side,
    lint::{Change, Changer, Changers, Options, Order, Subject, changes},
    value::{at, paths},
};
use modgate_value::{
    Str, Value,
    diag::{Diagnostic, Source},
};

use crate::{args::PathArgs, inputs, terminal::Terminal};

/// One policy.
pub(super) struct Unit {
    /// `K8sRequiredLabels owner`.
    pub(super) name: String,
    snapshot: Snapshot,
    objects: Objects,
    inventory: Inventory,
    sees_others: bool,
    seeds: Vec<Value>,
    documents: Vec<Value>,
    parameters: Vec<Str>,
    /// Where the policy is, and where its template is if it has one.
    policy: (String, u32, u32),
    template: Option<(String, u32, u32)>,
}

/// All of them.
pub(super) struct Units {
    pub(super) units: Vec<Unit>,
    pub(super) changing: Changing,
    /// The documents of all policies, each once.
    pub(super) sources: Vec<PolicySource>,
}

/// The mutators and Patch rules.
#[derive(Default)]
pub(super) struct Changing {
    policies: Vec<ChangingPolicy>,
    objects: Objects,
    inventory: Inventory,
    seeds: Vec<Value>,
    config: EngineConfig,
}

/// One of them.
struct ChangingPolicy {
    source: PolicySource,
    snapshot: Snapshot,
    order: Order,
    place: (String, u32, u32),
}

impl Changing {
    fn read(
        documents: &[Manifest],
        given: &[Value],
        config: &EngineConfig,
        sources: &[Source],
    ) -> Result<Self, Box<Diagnostic>> {
        let is_seed =
            |it: &&Manifest| !Snapshot::takes(&it.object) || AdmissionReview::is_review(&it.object);
        let objects = documents.iter().filter(is_seed).map(|it| it.object.clone());
        let seeds: Vec<Value> = given.iter().cloned().chain(objects).collect();
        let mut references = References::default();
        for object in &seeds {
            if !references.take(object) {
                references.keep(object);
            }
        }
        let mut policies: Vec<ChangingPolicy> = Vec::new();
        let mut seen = BTreeSet::new();
        for manifest in documents {
            let Some(order) = order(&manifest.object) else { continue };
            let source = manifest.clone().into_policy();
            if seen.insert(source.id()) {
                let snapshot = snapshot(vec![source.clone()], config, sources)?;
                policies.push(ChangingPolicy { source, snapshot, order, place: place(manifest) });
            }
        }
        let objects = Objects::of_files(references);
        let inventory = Inventory::default();
        Ok(Self { policies, objects, inventory, seeds, config: config.clone() })
    }

    pub(super) fn len(&self) -> usize {
        self.policies.len()
    }

    /// Their mistakes, without those that their authors accept; and the names of those that changed
    /// no object.
    pub(super) fn tried(&self, options: Options) -> (Vec<Change>, Vec<String>) {
        let side = |snapshot| Side { snapshot, host: &self.objects, inventory: &self.inventory };
        let all: Vec<Changer<'_>> = self
            .policies
            .iter()
            .map(|policy| Changer { side: side(&policy.snapshot), order: policy.order })
            .collect();
        let documents: Vec<Value> =
            self.policies.iter().map(|policy| policy.source.object.clone()).collect();
        let together = |one: usize, two: usize| {
            let sources = [self.policies.get(one)?, self.policies.get(two)?];
            let sources = sources.map(|policy| policy.source.clone()).to_vec();
            snapshot(sources, &self.config, &[]).ok()
        };
        let changers =
            Changers { all: &all, seeds: &self.seeds, documents: &documents, together: &together };
        let (mut found, unchanged) = changes(&changers, options);
        found.retain(|change| {
            let policies = std::iter::once(change.policy).chain(change.other);
            let mut policies = policies.filter_map(|index| documents.get(index));
            !policies.any(|document| allows(document, change.code))
        });
        (found, unchanged.into_iter().map(|index| self.name(index)).collect())
    }

    pub(super) fn name(&self, index: usize) -> String {
        self.policies.get(index).map(|policy| policy.source.id().to_string()).unwrap_or_default()
    }

    pub(super) fn place(&self, index: usize) -> (String, u32, u32) {
        self.policies.get(index).map(|policy| policy.place.clone()).unwrap_or_default()
    }
}

/// The place of a policy that changes objects in the order of evaluation; `None` for others.
fn order(object: &Value) -> Option<Order> {
    let id = PolicyId::of_object(object);
    match &*id.group {
        mutations::GROUP => Some(Order::Mutator),
        modrule::GROUP if object.path(&["spec", "type"]) == Some(&"Patch".into()) => {
            let tier = object.path(&["spec", "executionTier"]).and_then(Value::as_i64);
            Some(Order::Rule(tier.unwrap_or(0)))
        }
        _ => None,
    }
}

/// The set of these policies.
pub(super) fn snapshot(
    policies: Vec<PolicySource>,
    config: &EngineConfig,
    sources: &[Source],
) -> Result<Snapshot, Box<Diagnostic>> {
    let changes = policies.into_iter().map(modgate_engine::Change::Upsert).collect();
    let update = Snapshot::new(config.clone()).apply(changes, OnError::Keep);
    let error = update.problems.iter().find(|it| it.severity == modgate_engine::Severity::Error);
    match error {
        None => Ok(update.snapshot),
        Some(problem) => {
            let source = sources.iter().find(|source| *source.name == *problem.origin);
            Err(Box::new(manifest::diagnose(problem, source)))
        }
    }
}

impl Unit {
    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            side: Side {
                snapshot: &self.snapshot,
                host: &self.objects,
                inventory: &self.inventory,
            },
            seeds: &self.seeds,
            documents: &self.documents,
            parameters: &self.parameters,
            sees_others: self.sees_others,
        }
    }

    /// The policy with what it needs.
    pub(super) fn documents(&self) -> &[Value] {
        &self.documents
    }

    /// Where a finding is to be mended: a prefix in the constraint, everything else in the template.
    pub(super) fn owner(&self, code: Code) -> &(String, u32, u32) {
        match &self.template {
            Some(template) if code != Code::BypassPrefix => template,
            _ => &self.policy,
        }
    }

    /// Whether an author accepts the finding, with a reason.
    pub(super) fn allows(&self, code: Code) -> bool {
        self.documents.iter().any(|document| allows(document, code))
    }
}

/// A place of a document.
fn place(manifest: &Manifest) -> (String, u32, u32) {
    let position = modgate_engine::Position::from(manifest.positions.nearest(""));
    (manifest.origin.to_string(), position.line, position.column)
}

/// The parts of a unit.
struct Parts<'m> {
    policy: &'m Manifest,
    /// Everything that it needs besides.
    others: Vec<&'m Manifest>,
    seeds: Vec<Value>,
    inventory: Vec<Value>,
}

impl Units {
    /// Reads the policies; `None` where one does not load.
    pub(super) fn read(
        policies: &PathArgs,
        objects: &[PathBuf],
        config: &EngineConfig,
        strict: bool,
        terminal: &Terminal,
    ) -> Result<Option<Self>> {
        let mut incomplete = false;
        let all = inputs::manifests(policies, terminal, &mut incomplete)?;
        let given = inputs::manifests(&PathArgs::of(objects), terminal, &mut incomplete)?;
        if incomplete || !are_good(&all, config, strict, terminal) {
            return Ok(None);
        }
        let (all, sources): (Vec<Manifest>, Vec<Source>) = all.into_iter().unzip();
        let given: Vec<Value> = given.into_iter().map(|(manifest, _)| manifest.object).collect();
        let mut by_file: BTreeMap<PathBuf, Vec<&Manifest>> = BTreeMap::new();
        for manifest in &all {
            by_file.entry(normal(Path::new(&*manifest.origin))).or_default().push(manifest);
        }
        let mut used = BTreeSet::new();
        let mut parts = Vec::new();
        for suite in all.iter().filter(|manifest| manifest.kind() == "Suite") {
            parts.extend(of_suite(suite, &by_file, &given, &mut used));
        }
        let rest: Vec<&Manifest> = all
            .iter()
            .filter(|it| it.kind() != "Suite" && !used.contains(&normal(Path::new(&*it.origin))))
            .collect();
        parts.extend(of_documents(&rest, &given));
        let mut units = Vec::new();
        for parts in parts {
            match unit(&parts, config, &sources) {
                Ok(unit) => units.push(unit),
                Err(problem) => {
                    terminal.diagnostic(&problem);
                    return Ok(None);
                }
            }
        }
        let changing = match Changing::read(&all, &given, config, &sources) {
            Ok(changing) => changing,
            Err(problem) => {
                terminal.diagnostic(&problem);
                return Ok(None);
            }
        };
        if units.is_empty() && changing.len() == 0 {
            terminal.error("there is no constraint, ModRule, mutator or ValidatingAdmissionPolicy");
            return Ok(None);
        }
        let mut seen = BTreeSet::new();
        let policies = all
            .iter()
            .filter(|it| Snapshot::takes(&it.object) && !AdmissionReview::is_review(&it.object));
        let sources = policies.map(|manifest| manifest.clone().into_policy());
        let sources = sources.filter(|source| seen.insert(source.id())).collect();
        Ok(Some(Self { units, changing, sources }))
    }
}

/// Prints what is wrong with the policies; whether it is bearable. Suites of one folder may use
/// policies of one name: the first is checked.
fn are_good(
    all: &[(Manifest, Source)],
    config: &EngineConfig,
    strict: bool,
    terminal: &Terminal,
) -> bool {
    let mut seen = BTreeSet::new();
    let first = all.iter().filter(|(it, _)| seen.insert(PolicyId::of_object(&it.object)));
    let (manifests, sources): (Vec<Manifest>, Vec<Source>) = first.cloned().unzip();
    inputs::are_good(check(&manifests, &sources, config), strict, terminal)
}

/// The path without `.` and `..`, as far as its text shows.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// The policies of a suite's tests, with the objects of their cases.
fn of_suite<'m>(
    suite: &Manifest,
    by_file: &BTreeMap<PathBuf, Vec<&'m Manifest>>,
    given: &[Value],
    used: &mut BTreeSet<PathBuf>,
) -> Vec<Parts<'m>> {
    let folder = Path::new(&*suite.origin).parent().unwrap_or(Path::new("")).to_owned();
    let list = |value: &Value, key: &str| -> Vec<Value> {
        value.get(key).and_then(Value::as_array).map(|it| it.to_vec()).unwrap_or_default()
    };
    let mut files = |value: Option<&Value>| -> Vec<&'m Manifest> {
        let Some(name) = value.and_then(Value::as_str) else { return Vec::new() };
        let path = normal(&folder.join(name));
        let found = by_file.get(&path).cloned().unwrap_or_default();
        used.insert(path);
        found
    };
    let mut found = Vec::new();
    for test in list(&suite.object, "tests") {
        let template = files(test.get("template"));
        let constraint = files(test.get("constraint"));
        let (mut seeds, mut inventory) = (given.to_vec(), Vec::new());
        for case in list(&test, "cases") {
            seeds.extend(files(case.get("object")).iter().map(|it| it.object.clone()));
            for name in list(&case, "inventory") {
                inventory.extend(files(Some(&name)).iter().map(|it| it.object.clone()));
            }
        }
        if let Some(policy) = constraint.first() {
            found.push(Parts { policy, others: template, seeds, inventory });
        }
    }
    found
}

/// The policies among documents that no suite mentions.
fn of_documents<'m>(documents: &[&'m Manifest], given: &[Value]) -> Vec<Parts<'m>> {
    let id = |manifest: &Manifest| PolicyId::of_object(&manifest.object);
    let is_seed = |manifest: &&&Manifest| {
        !Snapshot::takes(&manifest.object) || AdmissionReview::is_review(&manifest.object)
    };
    let objects = documents.iter().filter(is_seed).map(|manifest| manifest.object.clone());
    let seeds: Vec<Value> = given.iter().cloned().chain(objects).collect();
    let mut found = Vec::new();
    for policy in documents {
        let (own, object) = (id(policy), &policy.object);
        let text = |path: &[&str]| object.path(path).and_then(Value::as_str).unwrap_or_default();
        let needs = |other: &Manifest| {
            let (other_id, other) = (id(other), &other.object);
            let text = |path: &[&str]| other.path(path).and_then(Value::as_str).unwrap_or_default();
            match &*own.group {
                constraints::GROUP => {
                    let kind = text(&["spec", "crd", "spec", "names", "kind"]);
                    other_id.group == templates::GROUP && kind == &*own.kind
                        || &*other_id.kind == "ExpansionTemplate"
                }
                modrule::GROUP => false,
                _ => {
                    &*other_id.kind == "ValidatingAdmissionPolicyBinding"
                        && text(&["spec", "policyName"]) == &*own.name
                }
            }
        };
        let is_tried = match &*own.group {
            constraints::GROUP => true,
            modrule::GROUP => text(&["spec", "type"]) == "Reject",
            _ => &*own.kind == "ValidatingAdmissionPolicy",
        };
        if is_tried {
            let others = documents.iter().copied().filter(|other| needs(other)).collect();
            found.push(Parts { policy, others, seeds: seeds.clone(), inventory: Vec::new() });
        }
    }
    found
}

/// The unit of a policy; what is wrong with it or with what it needs otherwise.
fn unit(
    parts: &Parts<'_>,
    config: &EngineConfig,
    sources: &[Source],
) -> Result<Unit, Box<Diagnostic>> {
    let policy = &parts.policy.object;
    let mut references = References::default();
    for object in parts.seeds.iter().chain(&parts.inventory) {
        if !references.take(object) {
            references.keep(object);
        }
    }
    let objects = Objects::of_files(references);
    let mut inventory = Inventory::default();
    for object in &parts.inventory {
        inventory
            .insert(object.clone())
            .map_err(|error| Box::new(Diagnostic::error(error.to_string())))?;
    }
    let mut policies: Vec<PolicySource> =
        parts.others.iter().map(|manifest| (*manifest).clone().into_policy()).collect();
    policies.push(parts.policy.clone().into_policy());
    let is_admission_policy = parts.policy.kind() == "ValidatingAdmissionPolicy";
    if is_admission_policy && parts.others.is_empty() {
        policies.push(PolicySource::of_object(binding(policy, &parts.seeds)));
    }
    let mut documents: Vec<Value> = policies.iter().map(|source| source.object.clone()).collect();
    documents.extend(params(policy, &parts.seeds).cloned());
    let snapshot = snapshot(policies, config, sources)?;
    let spec = policy.path(&["spec", "parameters"]).cloned().unwrap_or_default();
    let texts = paths(&spec);
    let texts = texts.iter().filter_map(|path| at(&spec, path).and_then(Value::as_str));
    let template =
        parts.others.iter().find(|it| PolicyId::of_object(&it.object).group == templates::GROUP);
    Ok(Unit {
        name: PolicyId::of_object(policy).to_string(),
        snapshot,
        objects,
        sees_others: !parts.inventory.is_empty(),
        inventory,
        seeds: parts.seeds.clone(),
        documents,
        parameters: texts.map(Str::from).collect(),
        policy: place(parts.policy),
        template: template.map(|template| place(template)),
    })
}

/// The objects of the kind of a policy's parameters.
fn params<'o>(policy: &'o Value, objects: &'o [Value]) -> impl Iterator<Item = &'o Value> {
    let kind = policy.path(&["spec", "paramKind"]);
    objects.iter().filter(move |object| {
        let same = |kind: &Value| {
            ["apiVersion", "kind"].iter().all(|member| kind.get(member) == object.get(member))
        };
        kind.is_some_and(same)
    })
}

/// A binding of a policy that has none, with the first object of its parameters' kind.
fn binding(policy: &Value, objects: &[Value]) -> Value {
    let text = |path: &[&str]| policy.path(path).cloned().unwrap_or_default();
    let actions: Value = [Value::from("Deny")].into_iter().collect();
    let mut spec: Vec<(&str, Value)> =
        vec![("policyName", text(&["metadata", "name"])), ("validationActions", actions)];
    if let Some(param) = params(policy, objects).next() {
        let member = |key: &str| param.path(&["metadata", key]).cloned();
        let mut reference = vec![("name", member("name").unwrap_or_default())];
        reference.extend(member("namespace").map(|namespace| ("namespace", namespace)));
        reference.push(("parameterNotFoundAction", "Deny".into()));
        spec.push(("paramRef", reference.into_iter().collect()));
    }
    [
        ("apiVersion", Value::from("admissionregistration.k8s.io/v1")),
        ("kind", "ValidatingAdmissionPolicyBinding".into()),
        ("metadata", [("name", Value::from("modgate-lint"))].into_iter().collect()),
        ("spec", spec.into_iter().collect()),
    ]
    .into_iter()
    .collect()
}
