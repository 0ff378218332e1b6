//! A small fixture in which everything an audit depends on can change.

use std::{
    cell::Cell,
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use modgate_engine::{
    Change, EngineConfig, Host, HostError, OnError, PolicyId, PolicySource, Snapshot,
    admissionpolicy::{ParamScope, Params},
    api::admissionregistration::ParamKind,
    constraint::Inventory,
    matching::Selector,
    rego::builtins,
};
use modgate_value::{Clock, Str, Value, budget::Frozen, yaml};

/// Everything that exists.
pub struct Fixture {
    pub snapshot: Snapshot,
    pub inventory: Inventory,
    pub cluster: Cluster,
    /// By kind, namespace and name.
    pub objects: BTreeMap<(String, String, String), Value>,
    versions: Cell<u64>,
}

/// The host of the evaluations.
#[derive(Default)]
pub struct Cluster {
    pub namespaces: BTreeMap<Str, Value>,
    /// ConfigMaps that bindings pass, by name.
    pub params: BTreeMap<Str, Value>,
    time: AtomicI64,
}

impl Cluster {
    pub fn tick(&self) {
        self.time.fetch_add(1, Ordering::Relaxed);
    }
}

impl Host for Cluster {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        let found = self.namespaces.get(name).cloned();
        found.ok_or_else(|| HostError::NotFound(format!("namespaces \"{name}\" not found")))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        Err(HostError::NotFound(format!("nodes \"{name}\" not found")))
    }

    fn policies(&self) -> &dyn builtins::Host {
        self
    }

    fn parameters(&self) -> &dyn Params {
        self
    }
}

impl Params for Cluster {
    fn scope(&self, _: &ParamKind) -> Option<ParamScope> {
        (!self.params.is_empty()).then_some(ParamScope::Namespaced)
    }

    fn get(&self, _: &ParamKind, _: &str, name: &str) -> Option<Value> {
        self.params.get(name).cloned()
    }

    fn list(&self, _: &ParamKind, _: &str, _: &Selector) -> Vec<Value> {
        self.params.values().cloned().collect()
    }

    fn version(&self, _: &ParamKind) -> u64 {
        let mut hash = DefaultHasher::new();
        self.params.hash(&mut hash);
        hash.finish()
    }
}

impl builtins::Host for Cluster {
    fn now_ns(&self) -> Option<i64> {
        Some(self.time.load(Ordering::Relaxed))
    }
}

const TEMPLATES: &[(&str, &str)] = &[
    (
        "Labels",
        r#"violation[{"msg": msg, "details": {"missing": missing}}] {
             missing := {l | l := input.parameters.labels[_]} - {l | input.review.object.metadata.labels[l]}
             count(missing) > 0
             msg := sprintf("%v lacks %v", [input.review.object.metadata.name, missing])
           }"#,
    ),
    (
        "Team",
        r#"violation[{"msg": msg}] {
             team := input.review.namespaceObject.metadata.labels.team
             input.review.object.metadata.labels.team != team
             msg := sprintf("not of team %v", [team])
           }"#,
    ),
    (
        "Unique",
        r#"violation[{"msg": msg}] {
             app := input.review.object.metadata.labels.app
             app != "c"
             other := data.inventory.namespace[ns][_]["Service"][name]
             other.metadata.labels.app == app
             msg := sprintf("as %v/%v", [ns, name])
           }"#,
    ),
    (
        "Everything",
        r#"violation[{"msg": msg}] {
             walk(data.inventory, [path, value])
             value == input.review.object.metadata.labels.app
             msg := sprintf("at %v", [concat("/", [p | p := path[_]; is_string(p)])])
           }"#,
    ),
    (
        "Clocks",
        r#"violation[{"msg": msg}] {
             input.review.object.metadata.labels.app == "a"
             msg := sprintf("it is %v", [time.now_ns()])
           }"#,
    ),
];

/// Constraints by name, and the beginning of what they are about.
const MATCHES: &[&str] = &[
    "{}",
    "{kinds: [{apiGroups: [''], kinds: [Pod]}]}",
    "{kinds: [{apiGroups: ['*'], kinds: [Deployment, Service]}]}",
    "{namespaceSelector: {matchLabels: {team: a}}}",
    "{labelSelector: {matchLabels: {app: a}}}",
    "{source: Generated}",
    "{excludedNamespaces: ['team-*']}",
];

pub const NAMESPACES: [&str; 3] = ["team-a", "team-b", "other"];
const VALUES: [&str; 3] = ["a", "b", "c"];
const KINDS: [(&str, &str); 4] =
    [("v1", "Pod"), ("v1", "Service"), ("apps/v1", "Deployment"), ("v1", "Namespace")];

pub fn pick<'t, T: ?Sized>(list: &[&'t T], at: u8) -> &'t T {
    list[usize::from(at) % list.len()]
}

pub fn value(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Fixture {
    pub fn new() -> Self {
        let config = EngineConfig { expand_modrules: true, ..EngineConfig::default() };
        Self {
            snapshot: Snapshot::new(config),
            inventory: Inventory::default(),
            cluster: Cluster::default(),
            objects: BTreeMap::new(),
            versions: Cell::new(0),
        }
    }

    fn apply(&mut self, object: Value) {
        let change = Change::Upsert(PolicySource::of_object(object));
        self.snapshot = self.snapshot.apply(vec![change], OnError::Unload).snapshot;
    }

    fn withdraw(&mut self, object: &Value) {
        let change = Change::Remove(PolicyId::of_object(object));
        self.snapshot = self.snapshot.apply(vec![change], OnError::Unload).snapshot;
    }

    /// Changes something; returns the object to look at or, negated, the one that is gone.
    pub fn edit(&mut self, what: u8, which: u8, how: u8) -> Option<Edit> {
        match what % 12 {
            0..=2 => return Some(self.edit_object(which, how)),
            3 => self.edit_namespace(which, how),
            4 => {
                let constraint = constraint(which, how);
                if how.is_multiple_of(5) {
                    self.withdraw(&constraint)
                } else {
                    self.apply(constraint)
                }
            }
            5 => {
                let template = template(which, how);
                if how.is_multiple_of(7) { self.withdraw(&template) } else { self.apply(template) }
            }
            6 => {
                let app = pick(&VALUES, how);
                let kind = KINDS[usize::from(which) % 2].1;
                let (namespace, name) =
                    (pick(&NAMESPACES, which / 2), pick(&["x", "z"], which / 8));
                let synced = value(&format!(
                    "{{apiVersion: v1, kind: {kind}, metadata: {{namespace: {namespace}, \
                     name: {name}, labels: {{app: {app}}}}}}}"
                ));
                if how.is_multiple_of(4) {
                    self.inventory.remove(&synced).expect("removed");
                } else {
                    self.inventory.insert(synced).expect("inserted");
                }
            }
            7 => self.edit_expansion(which, how),
            8 => {
                let rule = modrule(which, how);
                if how.is_multiple_of(5) { self.withdraw(&rule) } else { self.apply(rule) }
            }
            10 => {
                let policy = admission_policy(which, how);
                if how.is_multiple_of(5) { self.withdraw(&policy) } else { self.apply(policy) }
            }
            11 => {
                let name: Str = pick(&["x", "y"], which).into();
                if how.is_multiple_of(5) {
                    self.cluster.params.remove(&name);
                } else {
                    let app = pick(&VALUES, how);
                    let object = value(&format!(
                        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, \
                         data: {{app: {app}}}}}"
                    ));
                    self.cluster.params.insert(name, object);
                }
            }
            _ => {
                let excluded = match how % 3 {
                    0 => "",
                    1 => "team-*",
                    _ => "other",
                };
                self.apply(value(&format!(
                    "{{apiVersion: config.gatekeeper.sh/v1alpha1, kind: Config, \
                     metadata: {{name: config, namespace: gatekeeper-system}}, \
                     spec: {{match: [{{processes: [audit], excludedNamespaces: [x{excluded}x, \
                     '{excluded}x', '{excluded}']}}]}}}}"
                )));
            }
        }
        None
    }

    fn edit_object(&mut self, which: u8, how: u8) -> Edit {
        let (version, kind) = KINDS[usize::from(which) % KINDS.len()];
        let (namespace, name) = match kind {
            "Namespace" => ("", pick(&NAMESPACES, which / 4)),
            _ => (pick(&NAMESPACES, which / 4), pick(&["x", "z", "w"], which / 16)),
        };
        let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
        if how.is_multiple_of(6) {
            self.objects.remove(&key);
            return Edit::Gone(key);
        }
        self.versions.set(self.versions.get() + 1);
        let (app, team) = (pick(&VALUES, how), pick(&VALUES, how / 8));
        let place = match namespace {
            "" => String::new(),
            namespace => format!("namespace: {namespace}, "),
        };
        let object = value(&format!(
            "{{apiVersion: {version}, kind: {kind}, metadata: {{{place}name: {name}, uid: '{kind}-{namespace}-{name}', \
             resourceVersion: '{}', labels: {{app: {app}, team: {team}}}}}, \
             spec: {{template: {{metadata: {{labels: {{app: {team}}}}}, spec: {{}}}}}}}}",
            self.versions.get(),
        ));
        self.objects.insert(key, object.clone());
        Edit::Is(object)
    }

    fn edit_namespace(&mut self, which: u8, how: u8) {
        let name = pick(&NAMESPACES, which);
        if how.is_multiple_of(5) {
            self.cluster.namespaces.remove(name);
            return;
        }
        let team = pick(&VALUES, how);
        let namespace = value(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{team: {team}}}}}}}"
        ));
        self.cluster.namespaces.insert(name.into(), namespace);
    }

    fn edit_expansion(&mut self, which: u8, how: u8) {
        if which.is_multiple_of(2) {
            let action = if how.is_multiple_of(3) { ", enforcementAction: warn" } else { "" };
            let kind = if how.is_multiple_of(2) { "Deployment" } else { "Service" };
            let group = if kind == "Service" { "" } else { "apps" };
            let template = value(&format!(
                "{{apiVersion: expansion.gatekeeper.sh/v1beta1, kind: ExpansionTemplate, \
                 metadata: {{name: expand}}, spec: {{applyTo: [{{groups: ['{group}'], kinds: [{kind}], \
                 versions: [v1]}}], templateSource: spec.template, \
                 generatedGVK: {{group: '', version: v1, kind: Pod}}{action}}}}}"
            ));
            if how.is_multiple_of(5) { self.withdraw(&template) } else { self.apply(template) }
        } else {
            let app = pick(&VALUES, how);
            let mutator = value(&format!(
                "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {{name: set}}, \
                 spec: {{applyTo: [{{groups: [''], kinds: [Pod], versions: [v1]}}], \
                 match: {{source: Generated}}, location: spec.app, \
                 parameters: {{assign: {{value: {app}}}}}}}}}"
            ));
            if how.is_multiple_of(5) { self.withdraw(&mutator) } else { self.apply(mutator) }
        }
    }
}

/// The change of an object by [`Fixture::edit`].
pub enum Edit {
    Is(Value),
    Gone((String, String, String)),
}

fn template(which: u8, how: u8) -> Value {
    let (kind, rego) = TEMPLATES[usize::from(which) % TEMPLATES.len()];
    // Another version of the template says the same in other words.
    let rego = if how.is_multiple_of(2) {
        rego.replace("sprintf(\"", "sprintf(\"!")
    } else {
        rego.to_owned()
    };
    let package = format!("package {}\n{rego}", kind.to_lowercase());
    let mut template = value(&format!(
        "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, \
         metadata: {{name: {}}}, spec: {{crd: {{spec: {{names: {{kind: {kind}}}, validation: \
         {{openAPIV3Schema: {{type: object, properties: {{labels: {{type: array, items: \
         {{type: string}}}}}}}}}}}}}}, targets: [{{target: admission.k8s.gatekeeper.sh, rego: x}}]}}}}",
        kind.to_lowercase()
    ));
    let Value::Object(members) = &mut template else { panic!("a template") };
    let mut spec = members.get("spec").and_then(Value::as_object).cloned().expect("a spec");
    let target = [("target", Value::from("admission.k8s.gatekeeper.sh")), ("rego", package.into())];
    spec.insert("targets", vec![target.into_iter().collect::<Value>()].into());
    members.insert("spec", spec.into());
    template
}

fn constraint(which: u8, how: u8) -> Value {
    let (kind, _) = TEMPLATES[usize::from(which) % TEMPLATES.len()];
    let name = pick(&["one", "two"], which / 8);
    let (matching, action) = (pick(MATCHES, how), pick(&["deny", "warn", "dryrun"], how / 8));
    let label = pick(&["app", "team", "owner"], how / 32);
    value(&format!(
        "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: {kind}, metadata: {{name: {name}}}, \
         spec: {{enforcementAction: {action}, match: {matching}, \
         parameters: {{labels: [{label}]}}}}}}"
    ))
}

/// A ValidatingAdmissionPolicy, or its binding.
fn admission_policy(which: u8, how: u8) -> Value {
    let name = pick(&["one", "two"], which / 2);
    let head = "apiVersion: admissionregistration.k8s.io/v1";
    if which.is_multiple_of(2) {
        let operation = pick(&["CREATE", "UPDATE", "DELETE"], how / 32);
        let (failure, validation) = match how % 4 {
            0 => ("Ignore", "object.metadata.labels.app != params.data.app"),
            1 => ("Fail", "object.metadata.labels.app != params.data.app"),
            2 => ("Fail", "namespaceObject == null || namespaceObject.metadata.labels.team != 'a'"),
            _ => ("Fail", "authorizer.group('').resource('pods').check('get').allowed()"),
        };
        let resource = pick(&["pods", "services", "namespaces", "'*'"], how / 8);
        return value(&format!(
            "{{{head}, kind: ValidatingAdmissionPolicy, metadata: {{name: {name}}}, \
             spec: {{paramKind: {{apiVersion: v1, kind: ConfigMap}}, failurePolicy: {failure}, \
             matchConstraints: {{resourceRules: [{{apiGroups: ['*'], apiVersions: ['*'], \
             operations: [{operation}], resources: [{resource}]}}]}}, \
             validations: [{{expression: \"{validation}\"}}]}}}}"
        ));
    }
    let actions = pick(&["[Deny]", "[Warn, Audit]", "[Audit]"], how);
    let missing = pick(&["Deny", "Allow"], how / 4);
    let team = pick(&["{}", "{matchLabels: {team: a}}"], how / 8);
    let passed = pick(&["name: x", "name: y", "selector: {}"], how / 16);
    value(&format!(
        "{{{head}, kind: ValidatingAdmissionPolicyBinding, metadata: {{name: {name}}}, \
         spec: {{policyName: {name}, validationActions: {actions}, \
         matchResources: {{namespaceSelector: {team}}}, \
         paramRef: {{{passed}, parameterNotFoundAction: {missing}}}}}}}"
    ))
}

fn modrule(which: u8, how: u8) -> Value {
    let app = pick(&VALUES, how);
    let what = match which % 3 {
        0 => "type: Reject, rejectMessage: 'no {{ .Namespace }}'".to_owned(),
        1 => "type: Reject, admissionOperations: [UPDATE]".to_owned(),
        _ => format!(
            "type: Patch, patch: [{{op: add, path: /metadata/labels/app, value: '{app}x'}}]"
        ),
    };
    value(&format!(
        "{{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, \
         metadata: {{name: r{}, namespace: {}}}, spec: {{{what}, \
         match: [{{select: $.metadata.labels.app, matchValue: {app}}}]}}}}",
        which % 3,
        pick(&NAMESPACES, which / 4),
    ))
}

/// A sink that remembers.
#[derive(Default)]
pub struct Seen(pub Mutex<Vec<modgate_audit::Violation>>);

impl modgate_audit::Sink for Seen {
    fn violation(&self, _: &str, violation: &modgate_audit::Violation) {
        self.0.lock().expect("unpoisoned").push(violation.clone());
    }
}
