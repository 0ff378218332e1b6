//! Null is the zero value of every type on the wire, as Go decodes it: as a member it is as good as absent, and
//! as an element of a list or a value of a map it is empty.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::fmt::Debug;

use modgate_api::{
    admissionregistration::{BindingSpec, MutatingPolicySpec, PolicySpec},
    config::Config,
    constraints::Constraint,
    expansion::ExpansionTemplate,
    externaldata::Provider,
    modrule::ModRule,
    mutations::Mutator,
    schema::Schema,
    syncset::SyncSet,
    templates::{CelSource, ConstraintTemplate, RegoSource},
};
use modgate_value::{Array, Object, Value, yaml};

enum Step {
    Member(String),
    Element(usize),
}

/// The paths of every member and element, but for those inside `raw` members, which stay JSON.
fn paths(value: &Value, raw: &[&str], here: &[&Step], found: &mut Vec<Vec<Step>>) {
    let copy = |step: &Step| match step {
        Step::Member(name) => Step::Member(name.clone()),
        Step::Element(index) => Step::Element(*index),
    };
    let mut go = |step: Step, below: &Value, is_raw: bool| {
        let all: Vec<&Step> = here.iter().copied().chain([&step]).collect();
        found.push(all.iter().map(|step| copy(step)).collect());
        if !is_raw {
            paths(below, raw, &all, found);
        }
    };
    for (name, below) in value.as_object().into_iter().flatten() {
        go(Step::Member(name.to_string()), below, raw.contains(&name.as_str()));
    }
    for (index, below) in value.as_array().into_iter().flat_map(|list| list.iter()).enumerate() {
        go(Step::Element(index), below, false);
    }
}

/// The document with something else at a path; `None` takes the member away.
fn with(value: &Value, path: &[Step], new: Option<&Value>) -> Value {
    let [step, rest @ ..] = path else { return new.cloned().unwrap_or_default() };
    match step {
        Step::Member(name) => {
            let mut members: Object = value.as_object().expect("an object").clone();
            if rest.is_empty() && new.is_none() {
                members.remove(name);
            } else {
                let below = with(members.get(name).expect("a member"), rest, new);
                members.insert(name.as_str(), below);
            }
            members.into()
        }
        Step::Element(at) => {
            let list = value.as_array().expect("a list").iter().enumerate();
            let list =
                list.map(|(index, it)| if index == *at { with(it, rest, new) } else { it.clone() });
            Value::Array(list.collect::<Array>())
        }
    }
}

fn shown(path: &[Step]) -> String {
    let steps = path.iter().map(|step| match step {
        Step::Member(name) => format!(".{name}"),
        Step::Element(index) => format!("[{index}]"),
    });
    steps.collect()
}

/// Puts null everywhere; how many places there were.
fn check<T: PartialEq + Debug, E: Debug>(
    document: &str,
    raw: &[&str],
    decode: impl Fn(&Value) -> Result<T, E>,
) -> usize {
    let document = yaml::value(document).expect(document);
    let whole = decode(&document).expect("it decodes");
    let mut all = Vec::new();
    paths(&document, raw, &[], &mut all);
    for path in &all {
        let place = shown(path);
        let decoded = decode(&with(&document, path, Some(&Value::Null)))
            .unwrap_or_else(|error| panic!("{place}: {error:?}"));
        let is_member = matches!(path.last(), Some(Step::Member(_)));
        // A map is what the document says, so a null among its values is an empty text.
        let is_map = place.contains("matchLabels.") || place.contains(".properties.");
        // A ModRule cannot do without `spec`.
        if is_member && !is_map && !(place == ".spec" && raw.contains(&"modrule")) {
            let absent = decode(&with(&document, path, None)).expect("it decodes");
            assert_eq!(decoded, absent, "{place}");
        }
        // Otherwise the document would not show that the member is read.
        if !["apiVersion", "kind"].iter().any(|it| place == format!(".{it}")) {
            assert_ne!(decoded, whole, "{place} is not decoded");
        }
    }
    all.len()
}

const MATCH: &str = "{source: All, origin: All, kinds: [{apiGroups: [a], kinds: [b]}], scope: Cluster, namespaces: [nn], \
                     excludedNamespaces: [e], labelSelector: {matchLabels: {a: b}, matchExpressions: [{key: k, \
                     operator: In, values: [v]}]}, namespaceSelector: {matchLabels: {a: b}}, name: x}";
const RESOURCES: &str = "{namespaceSelector: {matchLabels: {a: b}}, objectSelector: {matchExpressions: [{key: k, operator: \
                         In, values: [v]}]}, resourceRules: [{resourceNames: [nn], operations: [CREATE], apiGroups: [g], \
                         apiVersions: [v], resources: [r], scope: Cluster}], excludeResourceRules: [{scope: '*'}], \
                         matchPolicy: Exact}";
const EXPRESSIONS: &str = "matchConditions: [{name: nn, expression: e}], variables: [{name: nn, expression: e}], \
                           failurePolicy: Ignore, paramKind: {apiVersion: v1, kind: K}";

#[test]
fn in_policies_of_gatekeeper() {
    let mut places = 0;
    places += check(
        &format!(
            "{{metadata: {{name: nn, namespace: s, generation: 3}}, spec: {{applyTo: [{{groups: [g], versions: [v], \
             kinds: [k], operations: [CREATE]}}], match: {MATCH}, source: All, location: l, parameters: {{assign: \
             {{value: 1, fromMetadata: {{field: name}}, externalData: {{provider: p, dataSource: d, failurePolicy: f, \
             default: d}}}}, pathTests: [{{subPath: s, condition: c}}], assignIf: {{in: [1], notIn: [2]}}, operation: \
             merge, values: {{fromList: [1]}}, assignDomain: d, assignPath: p, assignTag: t}}}}}}"
        ),
        &[],
        Mutator::from_value,
    );
    places += check(
        "{metadata: {name: nn}, spec: {applyTo: [{groups: [g]}], templateSource: t, generatedGVK: {group: g, version: v, \
         kind: k}, enforcementAction: warn}}",
        &[],
        ExpansionTemplate::from_value,
    );
    places += check(
        "{spec: {sync: {syncOnly: [{group: g, version: v, kind: k}]}, validation: {traces: [{user: u, kind: {group: g, \
         version: v, kind: k}, dump: All}]}, match: [{processes: [p], excludedNamespaces: [e]}]}}",
        &[],
        Config::from_value,
    );
    places += check("{spec: {gvks: [{group: g, version: v, kind: k}]}}", &[], SyncSet::from_value);
    places += check(
        "{metadata: {name: nn}, spec: {url: u, timeout: 3, caBundle: b}}",
        &[],
        Provider::from_value,
    );
    places += check(
        "{apiVersion: a, metadata: {name: nn, generation: 3}, spec: {crd: {spec: {names: {kind: K, shortNames: [s]}, \
         validation: {openAPIV3Schema: {type: object}, legacySchema: true}}}, targets: [{target: t, rego: r, libs: [l], \
         code: [{engine: e, source: {a: 1}}], operations: [o]}]}}",
        &["openAPIV3Schema", "source"],
        ConstraintTemplate::from_value,
    );
    places += check("{rego: r, version: v1, libs: [l]}", &[], RegoSource::from_value);
    places += check(
        "{validations: [{expression: e, message: m, messageExpression: x}], variables: [{name: nn, expression: e}], \
         matchCondition: [{name: nn, expression: e}], failurePolicy: Ignore, generateVAP: true}",
        &[],
        CelSource::from_value,
    );
    places += check(
        &format!(
            "{{apiVersion: a, kind: K, metadata: {{name: nn, generation: 3}}, spec: {{match: {MATCH}, enforcementAction: \
             warn, scopedEnforcementActions: [{{action: a, enforcementPoints: [{{name: p}}]}}], parameters: {{a: 1}}}}}}"
        ),
        &["parameters"],
        Constraint::from_value,
    );
    places += check(
        "{type: object, required: [a], enum: [{a: 1}], properties: {a: {pattern: p, minLength: 1, nullable: true}}, \
         anyOf: [{maximum: 3}], not: {type: string}, x-kubernetes-validations: [{rule: r, message: m}], \
         x-kubernetes-list-map-keys: [k]}",
        &["enum"],
        |value| Schema::from_value(value, "s"),
    );
    assert!(places > 170, "{places}");
}

#[test]
fn in_the_clusters_own_policies() {
    let mut places = check(
        &format!(
            "{{spec: {{{EXPRESSIONS}, matchConstraints: {RESOURCES}, validations: [{{expression: e, message: m, \
             messageExpression: x, reason: r}}], auditAnnotations: [{{key: k, valueExpression: v}}]}}}}"
        ),
        &[],
        PolicySpec::from_value,
    );
    places += check(
        &format!(
            "{{spec: {{{EXPRESSIONS}, matchConstraints: {RESOURCES}, mutations: [{{patchType: JSONPatch, \
             applyConfiguration: {{expression: e}}, jsonPatch: {{expression: e}}}}], reinvocationPolicy: Never}}}}"
        ),
        &[],
        MutatingPolicySpec::from_value,
    );
    places += check(
        &format!(
            "{{spec: {{policyName: p, paramRef: {{name: nn, namespace: s, selector: {{matchLabels: {{a: b}}}}, \
             parameterNotFoundAction: Deny}}, matchResources: {RESOURCES}, validationActions: [Deny]}}}}"
        ),
        &[],
        BindingSpec::from_value,
    );
    assert!(places > 100, "{places}");
}

#[test]
fn in_mod_rules() {
    let places = check(
        "{metadata: {name: nn, namespace: s}, spec: {type: Patch, executionTier: 3, admissionOperations: [DELETE], match: \
         [{select: s, matchFor: All, matchValue: v, matchValues: [v], matchRegex: r, negate: true}], patch: [{op: add, \
         select: s, path: p, value: v}], rejectMessage: m, targetNamespaceRegex: r}}",
        &["modrule"],
        ModRule::from_value,
    );
    assert!(places > 20, "{places}");
}
