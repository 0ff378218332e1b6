//! A cluster of the test's own making, and rules in few words.

use modgate_engine::{
    Change, Decision, EngineConfig, Evaluation, Host, HostError, NoopObserver, OnError,
    PolicySource, Review, Snapshot, Stages, Trace,
    api::meta::Operation,
    constraint::{Arena, Inventory},
    explain::RuleTrace,
};
use modgate_value::{Clock, Value, budget::Frozen, yaml};

/// Every namespace exists; nodes are those given.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Value>,
    /// No Namespace can be read.
    pub(crate) no_namespaces: bool,
    /// No Namespace exists.
    pub(crate) missing_namespaces: bool,
    /// No Node can be read.
    pub(crate) unread_nodes: bool,
}

impl Host for Cluster {
    fn clock(&self) -> &dyn Clock {
        &Frozen
    }

    fn namespace(&self, name: &str) -> Result<Value, HostError> {
        if self.no_namespaces {
            return Err(HostError::Unread("namespaces cannot be read".to_owned()));
        }
        if self.missing_namespaces {
            return Err(HostError::NotFound(format!("namespaces \"{name}\" not found")));
        }
        Ok(value(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: '{name}'}}}}")))
    }

    fn node(&self, name: &str) -> Result<Value, HostError> {
        if self.unread_nodes {
            return Err(HostError::Unread("nodes cannot be read".to_owned()));
        }
        let found = self
            .nodes
            .iter()
            .find(|node| node.path(&["metadata", "name"]).and_then(Value::as_str) == Some(name));
        found.cloned().ok_or_else(|| HostError::NotFound(format!("nodes \"{name}\" not found")))
    }
}

/// One YAML document.
pub(crate) fn value(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A rule `namespace/name`; `spec` is the inside of a YAML flow mapping.
pub(crate) fn rule(name: &str, spec: &str) -> Value {
    let (namespace, name) = name.split_once('/').expect(name);
    value(&format!(
        "{{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, \
         metadata: {{name: '{name}', namespace: '{namespace}'}}, spec: {{{spec}}}}}"
    ))
}

/// A Patch rule that appends its own name to `spec.order`.
pub(crate) fn appends(name: &str, more: &str) -> Value {
    rule(
        name,
        &format!(
            "type: Patch, match: [{{select: $.kind}}], \
             patch: [{{op: add, path: /spec/order/-1, value: '{name}'}}]{more}"
        ),
    )
}

pub(crate) fn snapshot_with(config: EngineConfig, rules: Vec<Value>) -> Snapshot {
    let changes = rules.into_iter().map(PolicySource::of_object).map(Change::Upsert).collect();
    let update = Snapshot::new(config).apply(changes, OnError::Unload);
    assert!(!update.has_errors(), "{:?}", update.problems);
    update.snapshot
}

pub(crate) fn snapshot(rules: Vec<Value>) -> Snapshot {
    snapshot_with(EngineConfig::default(), rules)
}

pub(crate) fn mutate(rules: Vec<Value>, operation: Operation, object: &str) -> Decision {
    let review = Review::of_object(value(object), operation, "default");
    modrules(&snapshot(rules), &review, &Cluster::default())
}

pub(crate) fn create(rules: Vec<Value>, object: &str) -> Decision {
    mutate(rules, Operation::Create, object)
}

/// KubeMod's webhook.
pub(crate) fn modrules(snapshot: &Snapshot, review: &Review, host: &dyn Host) -> Decision {
    explained(snapshot, review, host).0
}

/// The same, and what every rule did.
pub(crate) fn explained(
    snapshot: &Snapshot,
    review: &Review,
    host: &dyn Host,
) -> (Decision, Vec<RuleTrace>) {
    let (inventory, mut arena) = (Inventory::default(), Arena::new());
    let mut evaluation = Evaluation::new(host, &inventory, &mut arena);
    let stages = Stages::MODRULES;
    let decision = snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver);
    let mut trace = Trace::default();
    assert_eq!(decision, snapshot.decide(review, stages, &mut evaluation, &mut trace));
    without_object(snapshot, (review, stages), &mut evaluation, &decision);
    (decision, trace.modrules)
}

/// A caller that does not read the object gets the same decision.
fn without_object(
    snapshot: &Snapshot,
    (review, stages): (&Review, Stages),
    evaluation: &mut Evaluation<'_>,
    expected: &Decision,
) {
    evaluation.wants_object = false;
    let decision = snapshot.decide(review, stages, evaluation, &mut NoopObserver);
    assert_eq!(Decision { object: expected.object.clone(), ..decision }, *expected);
}

/// Runs stages of a request, silently and watched: both come to the same.
pub(crate) fn decide(snapshot: &Snapshot, review: &Review, stages: Stages) -> Decision {
    let (inventory, mut arena, cluster) = (Inventory::default(), Arena::new(), Cluster::default());
    let mut evaluation = Evaluation::new(&cluster, &inventory, &mut arena);
    let decision = snapshot.decide(review, stages, &mut evaluation, &mut NoopObserver);
    let watched = snapshot.decide(review, stages, &mut evaluation, &mut Trace::default());
    assert_eq!(decision, watched);
    without_object(snapshot, (review, stages), &mut evaluation, &decision);
    decision
}

/// Numbers in a row that look random.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % count
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(crate) fn is(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}
