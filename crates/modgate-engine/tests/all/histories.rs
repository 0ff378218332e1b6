//! Policies come, change, break and go in any order; in the end they decide as those of a process that starts with what
//! is there.

use std::collections::BTreeMap;

use modgate_engine::{
    Change, Decision, EngineConfig, OnError, PolicyId, PolicySource, Review, Snapshot, Stages,
    api::meta::Operation,
};
use modgate_value::{Value, go::base64::Alphabet};
use proptest::prelude::*;

use crate::support::{decide, value};

/// The kind of change that a version of a policy makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The policy comes, or becomes this version of it.
    Version(usize),
    /// It becomes something that does not load.
    Broken,
    Removed,
}

const CERTIFICATE: &str = include_str!("../../src/provider/testdata/certificate.pem");

const VERSIONS: usize = 3;

/// The kinds of policies, and how many there are of each.
const SLOTS: [(Kind, usize); 11] = [
    (Kind::Template, 2),
    (Kind::Constraint, 3),
    (Kind::Mutator, 3),
    (Kind::Expansion, 2),
    (Kind::ModRule, 4),
    (Kind::Config, 2),
    (Kind::Provider, 1),
    (Kind::Policy, 2),
    (Kind::Binding, 3),
    (Kind::MutatingPolicy, 1),
    (Kind::MutatingBinding, 1),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Template,
    Constraint,
    Mutator,
    Expansion,
    ModRule,
    Config,
    Provider,
    Policy,
    Binding,
    MutatingPolicy,
    MutatingBinding,
}

/// Where a policy is: its kind and which of them.
type Slot = (Kind, usize);

/// A version of a policy; `None` is one that does not load. The same policy may name a namespace in one version and
/// none in the next, where its kind has none.
fn policy((kind, at): Slot, version: Option<usize>) -> Value {
    let number = version.unwrap_or_default();
    let is_broken = version.is_none();
    let pick = |texts: &[&'static str]| texts[number % texts.len()];
    let namespace = pick(&["", ", namespace: shop", ""]);
    let text = match kind {
        Kind::Template => {
            let rego = match is_broken {
                true => "package p violation[".to_owned(),
                false => format!(
                    "package p\\nviolation[{{\\\"msg\\\": msg}}] {{ msg := sprintf(\\\"v{number} %v %v\\\", \
                     [input.review.object.kind, input.parameters.size]) }}"
                ),
            };
            // The kind may be spelt differently than before.
            let letter = pick(&["A", "A", "a"]);
            format!(
                "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: {letter_low}{at}\
                 {namespace}}}, spec: {{crd: {{spec: {{names: {{kind: {letter}{at}}}, validation: {{openAPIV3Schema: \
                 {{type: object, properties: {{size: {{type: integer}}}}}}}}}}}}, targets: [{{target: \
                 admission.k8s.gatekeeper.sh, rego: \"{rego}\"}}]}}}}",
                letter_low = "a"
            )
        }
        Kind::Constraint => {
            let spec = match is_broken {
                true => "{enforcementAction: nothing}",
                false => pick(&[
                    "{parameters: {size: 1}}",
                    "{enforcementAction: warn, match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}}",
                    "{parameters: {size: 2}, match: {kinds: [{apiGroups: ['*'], kinds: [Service, Deployment]}]}}",
                ]),
            };
            format!(
                "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: A{}, metadata: {{name: c{at}{namespace}}}, \
                 spec: {spec}}}",
                at % 2
            )
        }
        Kind::Mutator => {
            // Two of them may disagree about what `spec.a` is.
            let location = match is_broken {
                true => "spec..",
                false => pick(&["spec.a.b", "'spec.a[name: x].b'", "spec.c"]),
            };
            format!(
                "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {{name: m{at}}}, spec: {{applyTo: \
                 [{{groups: ['', apps], versions: [v1], kinds: [Pod, Deployment]}}], location: {location}, \
                 parameters: {{assign: {{value: m{at}-{number}}}}}}}}}"
            )
        }
        Kind::Expansion => {
            let action = if is_broken { "nothing" } else { pick(&["''", "warn", "''"]) };
            // In one version they expand each other.
            let (from, to) = match (at, number) {
                (1, 2) => ("Pod", "Deployment"),
                (1, _) => ("Service", "Pod"),
                _ => ("Deployment", "Pod"),
            };
            let group = |kind| if kind == "Deployment" { "apps" } else { "" };
            format!(
                "{{apiVersion: expansion.gatekeeper.sh/v1beta1, kind: ExpansionTemplate, metadata: {{name: \
                 e{at}{namespace}}}, spec: {{applyTo: [{{groups: ['{}'], versions: [v1], kinds: [{from}]}}], \
                 templateSource: spec.template, enforcementAction: {action}, generatedGVK: {{group: '{}', version: v1, \
                 kind: {to}}}}}}}",
                group(from),
                group(to)
            )
        }
        Kind::ModRule => {
            let spec = match is_broken {
                true => "type: Patch, match: []",
                false => pick(&[
                    "type: Patch, executionTier: 1, match: [{select: '$.kind == \"Pod\"'}], patch: [{op: add, path: \
                     /metadata/labels/l, value: one}]",
                    "type: Patch, match: [{select: $.kind, matchValue: Pod}], patch: [{op: add, path: \
                     /metadata/labels/l, value: two}]",
                    "type: Reject, rejectMessage: denied, match: [{select: $.metadata.labels.l}]",
                ]),
            };
            // Equal names in several namespaces; one namespace is that of rules without any.
            let (name, namespace) =
                [("r", "shop"), ("r", "kubemod-system"), ("r", "default"), ("s", "shop")][at];
            let namespace = match (namespace, number) {
                ("default", 1) => String::new(),
                _ => format!(", namespace: {namespace}"),
            };
            format!(
                "{{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, metadata: {{name: {name}{namespace}}}, spec: \
                 {{{spec}}}}}"
            )
        }
        Kind::Config => {
            let namespaces = match is_broken {
                true => "7".to_owned(),
                false => format!("[{}]", pick(&["shop", "default", "'*'"])),
            };
            let namespace = match (at, number) {
                (0, 1) => "",
                (0, _) => ", namespace: gatekeeper-system",
                _ => ", namespace: elsewhere",
            };
            format!(
                "{{apiVersion: config.gatekeeper.sh/v1alpha1, kind: Config, metadata: {{name: config{namespace}}}, \
                 spec: {{match: [{{excludedNamespaces: {namespaces}, processes: [webhook]}}]}}}}"
            )
        }
        Kind::Provider => format!(
            "{{apiVersion: externaldata.gatekeeper.sh/v1beta1, kind: Provider, metadata: {{name: p{at}{namespace}}}, \
             spec: {{url: '{}://p', caBundle: {}}}}}",
            if is_broken { "http" } else { "https" },
            Alphabet::Standard.encode(CERTIFICATE.as_bytes())
        ),
        Kind::Policy | Kind::MutatingPolicy => {
            let rules = "matchConstraints: {resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], \
                         resources: ['*']}]}";
            let (of_kind, rest) = match kind {
                Kind::Policy => (
                    "Validating",
                    format!(
                        "validations: [{{expression: 'object.kind == \"X\"', message: v{number}}}]"
                    ),
                ),
                _ => (
                    "Mutating",
                    format!(
                        "reinvocationPolicy: Never, mutations: [{{patchType: JSONPatch, jsonPatch: {{expression: \
                         '[JSONPatch{{op: \"add\", path: \"/metadata/annotations\", value: {{\"a\": \
                         \"{number}\"}}}}]'}}}}]"
                    ),
                ),
            };
            let rest = if is_broken { "failurePolicy: Perhaps" } else { &rest };
            format!(
                "{{apiVersion: admissionregistration.k8s.io/v1, kind: {of_kind}AdmissionPolicy, metadata: {{name: \
                 p{at}{namespace}}}, spec: {{{rules}, {rest}}}}}"
            )
        }
        Kind::Binding | Kind::MutatingBinding => {
            let of_kind = if kind == Kind::Binding { "Validating" } else { "Mutating" };
            let actions = match (kind, is_broken) {
                (_, true) => ", matchResources: {matchPolicy: Perhaps}",
                (Kind::Binding, _) => pick(&[
                    ", validationActions: [Deny]",
                    ", validationActions: [Warn]",
                    ", validationActions: [Warn, Audit]",
                ]),
                _ => "",
            };
            // Its policy may be another one than before.
            let of = if kind == Kind::Binding { (at + number) % 2 } else { 0 };
            format!(
                "{{apiVersion: admissionregistration.k8s.io/v1, kind: {of_kind}AdmissionPolicyBinding, metadata: \
                 {{name: b{at}{namespace}}}, spec: {{policyName: p{of}{actions}}}}}"
            )
        }
    };
    value(&text)
}

/// What is there in the end.
#[derive(Debug, Default)]
struct Known {
    is_broken: bool,
    /// The version that is in force.
    good: Option<usize>,
}

/// What every policy has become, by what is said of each kind where it is loaded.
#[derive(Debug, Default)]
struct Model(BTreeMap<Slot, Known>);

impl Model {
    fn step(&mut self, slot: Slot, step: Step, on_error: OnError) {
        match step {
            Step::Removed => {
                self.0.remove(&slot);
            }
            Step::Version(version) => {
                self.0.insert(slot, Known { is_broken: false, good: Some(version) });
            }
            Step::Broken => {
                let stays = match slot.0 {
                    Kind::Template => true,
                    Kind::Constraint => self.serves(slot),
                    Kind::Config => true,
                    _ => on_error == OnError::Keep,
                };
                let known = self.0.entry(slot).or_default();
                known.is_broken = true;
                known.good = known.good.filter(|_| stays);
            }
        }
        if slot.0 == Kind::Template {
            self.forget_versions();
        }
    }

    /// Whether the template of a constraint is in force, with the kind that constraints have.
    fn serves(&self, (_, at): Slot) -> bool {
        let template = self.0.get(&(Kind::Template, at % 2));
        template.and_then(|it| it.good).is_some_and(|version| version % VERSIONS != 2)
    }

    /// A constraint without a template keeps its newest version only.
    fn forget_versions(&mut self) {
        for at in 0..3 {
            let slot = (Kind::Constraint, at);
            if self.serves(slot) {
                continue;
            }
            if let Some(known) = self.0.get_mut(&slot)
                && known.is_broken
            {
                known.good = None;
            }
        }
    }

    /// The changes that lead there at once: what is in force, then what does not load.
    fn changes(&self) -> Vec<Change> {
        let good = self.0.iter().filter_map(|(slot, known)| Some(policy(*slot, Some(known.good?))));
        let broken = self.0.iter().filter(|(_, known)| known.is_broken);
        let broken = broken.map(|(slot, _)| policy(*slot, None));
        good.chain(broken).map(PolicySource::of_object).map(Change::Upsert).collect()
    }
}

fn change(slot: Slot, step: Step) -> Change {
    match step {
        Step::Version(version) => {
            Change::Upsert(PolicySource::of_object(policy(slot, Some(version))))
        }
        Step::Broken => Change::Upsert(PolicySource::of_object(policy(slot, None))),
        Step::Removed => Change::Remove(PolicyId::of_object(&policy(slot, None))),
    }
}

/// How a snapshot decides about some requests, stage by stage.
fn decisions(snapshot: &Snapshot) -> Vec<Decision> {
    let pod = "spec: {a: {}}";
    let objects = [
        format!("apiVersion: v1, kind: Pod, metadata: {{name: o, namespace: shop, labels: {{}}}}, {pod}"),
        format!("apiVersion: v1, kind: Pod, metadata: {{name: o, namespace: default, labels: {{}}}}, {pod}"),
        "apiVersion: v1, kind: Service, metadata: {name: o, namespace: shop, labels: {l: x}}, spec: {template: {}}"
            .to_owned(),
        format!(
            "apiVersion: apps/v1, kind: Deployment, metadata: {{name: o, namespace: shop}}, spec: {{template: {{\
             metadata: {{labels: {{}}}}, {pod}}}}}"
        ),
    ];
    let stages = [
        Stages::MODRULES,
        Stages::MUTATORS,
        Stages::CONSTRAINTS,
        Stages::MUTATING_POLICIES,
        Stages::VALIDATING_POLICIES,
        Stages::ALL,
    ];
    let mut decisions = Vec::new();
    for object in objects {
        let review =
            Review::of_object(value(&format!("{{{object}}}")), Operation::Create, "default");
        decisions.extend(stages.iter().map(|stages| decide(snapshot, &review, *stages)));
    }
    decisions
}

fn some_change() -> impl Strategy<Value = (Slot, Step)> {
    let slots: Vec<Slot> =
        SLOTS.iter().flat_map(|(kind, count)| (0..*count).map(|at| (*kind, at))).collect();
    let step = prop_oneof![
        5 => (0..VERSIONS).prop_map(Step::Version),
        2 => Just(Step::Broken),
        3 => Just(Step::Removed),
    ];
    (proptest::sample::select(slots), step)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_was_there_before_does_not_count(
        batches in proptest::collection::vec(proptest::collection::vec(some_change(), 1..16), 1..5),
        keeps in any::<bool>(),
    ) {
        let on_error = if keeps { OnError::Keep } else { OnError::Unload };
        let mut snapshot = Snapshot::new(EngineConfig::default());
        let mut model = Model::default();
        for batch in batches {
            batch.iter().for_each(|(slot, step)| model.step(*slot, *step, on_error));
            let changes = batch.iter().map(|(slot, step)| change(*slot, *step)).collect();
            snapshot = snapshot.apply(changes, on_error).snapshot;
            let at_once = Snapshot::new(EngineConfig::default());
            let at_once = at_once.apply(model.changes(), OnError::Keep).snapshot;
            let policies = |of: &Snapshot| -> Vec<String> {
                of.policies().map(|id| id.to_string()).collect()
            };
            prop_assert_eq!(policies(&snapshot), policies(&at_once), "{:?}", model);
            prop_assert_eq!(
                snapshot.providers().keys().collect::<Vec<_>>(),
                at_once.providers().keys().collect::<Vec<_>>()
            );
            for (one, other) in decisions(&snapshot).into_iter().zip(decisions(&at_once)) {
                prop_assert_eq!(one, other, "{:?}", model);
            }
        }
    }
}
