//! The cluster's own policies: who evaluates them after the switch.

use std::collections::BTreeSet;

use modgate_api::{admissionregistration as registration, constraints, templates};
use modgate_engine::{Change, EngineConfig, OnError, PolicyId, Severity, Snapshot};
use modgate_value::Value;
use serde::Serialize;

use crate::object::{InstalledObject, Subject, text};

/// The resources of these kinds.
pub const RESOURCES: [&str; 4] = [
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
];

/// One of the cluster's own policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnPolicy {
    /// The policy.
    pub object: Subject,
    /// `file:line:column`, or the URL of the cluster.
    pub place: String,
    /// The evaluators of the policy.
    pub evaluated_by: Evaluator,
    /// The effect of the switch on it.
    pub sentence: String,
}

/// The evaluator of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Evaluator {
    /// The API server, before and after the switch.
    ApiServer,
    /// modgate's webhooks, once they are installed.
    Modgate,
    /// Nothing: it has no binding.
    Nothing,
}

const BOUND: &str = "the API server goes on evaluating it; with the value admissionPolicies.enabled, \
                     modgate's audit evaluates it for existing objects, too";
const BOUND_MUTATING: &str = "the API server goes on evaluating it";
const MARKED: &str = "modgate evaluates it, with the value admissionPolicies.enabled";
const DOUBLED: &str = "the API server evaluates it; its bindings for modgate have no effect beside \
                       those of the API server";
const UNBOUND: &str = "it has no effect: no binding names it";
const GENERATED: &str = "it was generated from a template, and modgate writes it from now on";

fn is_kind(found: &InstalledObject, kinds: [&str; 2]) -> bool {
    found.group() == registration::GROUP && kinds.contains(&found.kind())
}

/// The policies among the objects, and which program evaluates each of them.
pub(crate) fn of(objects: &[InstalledObject], config: &EngineConfig) -> Vec<OwnPolicy> {
    let policies = [registration::POLICY_KIND, registration::MUTATING_POLICY_KIND];
    let bindings = [registration::BINDING_KIND, registration::MUTATING_BINDING_KIND];
    let policies: Vec<&InstalledObject> =
        objects.iter().filter(|it| is_kind(it, policies)).collect();
    let bound: BTreeSet<(String, &str)> = objects
        .iter()
        .filter(|it| is_kind(it, bindings))
        .map(|it| {
            let policy = it.kind().trim_end_matches("Binding").to_owned();
            (policy, text(&it.object, &["spec", "policyName"]))
        })
        .collect();
    let changes = policies.iter().map(|found| Change::Upsert(found.source())).collect();
    let problems = Snapshot::new(config.clone()).apply(changes, OnError::Unload).problems;
    let explained = policies.into_iter().map(|found| {
        let id = PolicyId::of_object(&found.object);
        let error = problems
            .iter()
            .find(|it| it.policy == id && it.severity == Severity::Error)
            .map(|it| format!("{}: {}", it.field, it.message));
        let names = |name: &str| bound.contains(&(found.kind().to_owned(), name));
        let (by_server, by_us) =
            (names(found.name()), names(&format!("{}.modgate.sh", found.name())));
        let (evaluated_by, sentence) = match (by_server, by_us) {
            _ if is_generated(&found.object) => (Evaluator::ApiServer, GENERATED),
            (true, true) => (Evaluator::ApiServer, DOUBLED),
            // An audit changes nothing.
            (true, false) if found.kind() == registration::MUTATING_POLICY_KIND => {
                (Evaluator::ApiServer, BOUND_MUTATING)
            }
            (true, false) => (Evaluator::ApiServer, BOUND),
            (false, true) => (Evaluator::Modgate, MARKED),
            (false, false) => (Evaluator::Nothing, UNBOUND),
        };
        let sentence = match error {
            None => sentence.to_owned(),
            Some(error) => format!("{sentence}; modgate cannot load it: {error}"),
        };
        OwnPolicy { object: found.subject(), place: found.place(""), evaluated_by, sentence }
    });
    explained.collect()
}

/// Whether a template or a constraint owns the policy.
fn is_generated(policy: &Value) -> bool {
    let owners = policy.path(&["metadata", "ownerReferences"]).and_then(Value::as_array);
    owners.into_iter().flat_map(|owners| owners.iter()).any(|owner| {
        let version = text(owner, &["apiVersion"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        [templates::GROUP, constraints::GROUP].contains(&group)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use modgate_value::yaml;

    fn found(yaml: &str) -> InstalledObject {
        let object = yaml::value(yaml).expect(yaml);
        InstalledObject { origin: "f.yaml".into(), object, positions: None }
    }

    fn policy(name: &str, more: &str) -> InstalledObject {
        found(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicy, \
             metadata: {{name: {name}{more}}}, spec: {{validations: [{{expression: 'true'}}], \
             matchConstraints: {{resourceRules: [{{apiGroups: [''], apiVersions: [v1], \
             operations: [CREATE], resources: [pods]}}]}}}}}}"
        ))
    }

    fn binding(name: &str, policy: &str) -> InstalledObject {
        found(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, \
             kind: ValidatingAdmissionPolicyBinding, metadata: {{name: {name}}}, \
             spec: {{policyName: {policy}, validationActions: [Deny]}}}}"
        ))
    }

    /// A policy that mutates, or its binding.
    fn mutating(end: &str, spec: &str) -> InstalledObject {
        found(&format!(
            "{{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy{end}, metadata: \
             {{name: m}}, spec: {{{spec}}}}}"
        ))
    }

    #[test]
    fn who_evaluates_a_policy() {
        let owned = ", ownerReferences: [{apiVersion: templates.gatekeeper.sh/v1, \
                     kind: ConstraintTemplate, name: t, uid: u}]";
        let mut broken = policy("broken", "");
        broken.object =
            yaml::value(&broken.object.to_json().replace("\"true\"", "\"1\"")).expect("YAML");
        let objects = [
            policy("a", ""),
            policy("b", ""),
            policy("c", ""),
            policy("d", ""),
            policy("gatekeeper-e", owned),
            broken,
            binding("a", "a"),
            binding("b", "b.modgate.sh"),
            binding("c", "c"),
            binding("cc", "c.modgate.sh"),
            binding("broken", "broken"),
            mutating(
                "",
                "reinvocationPolicy: Never, matchConstraints: {resourceRules: [{apiGroups: [''], \
                 apiVersions: [v1], operations: [CREATE], resources: [pods]}]}, mutations: \
                 [{patchType: JSONPatch, jsonPatch: {expression: \"[JSONPatch{op: 'remove', path: '/a'}]\"}}]",
            ),
            mutating("Binding", "policyName: m"),
        ];
        let explained = of(&objects, &EngineConfig::default());
        let shown: Vec<_> = explained
            .iter()
            .map(|it| (it.object.name.as_str(), it.evaluated_by, it.sentence.as_str()))
            .collect();
        let (others, last) = shown.split_at(5);
        assert_eq!(
            others,
            [
                ("a", Evaluator::ApiServer, BOUND),
                ("b", Evaluator::Modgate, MARKED),
                ("c", Evaluator::ApiServer, DOUBLED),
                ("d", Evaluator::Nothing, UNBOUND),
                ("gatekeeper-e", Evaluator::ApiServer, GENERATED),
            ]
        );
        let [broken, mutating] = last else { panic!("{last:?}") };
        assert_eq!((broken.0, broken.1), ("broken", Evaluator::ApiServer));
        assert!(
            broken.2.contains("modgate cannot load it: spec.validations[0].expression"),
            "{broken:?}"
        );
        assert_eq!(*mutating, ("m", Evaluator::ApiServer, BOUND_MUTATING), "audits evaluate none");
    }
}
