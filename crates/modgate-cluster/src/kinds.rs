//! Which kinds are watched: those of policies, as far as the cluster serves them.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use kube::api::ApiResource;
use modgate_engine::api::{
    admissionregistration as registration, config, constraints, expansion, externaldata,
    meta::GroupVersionKind, modrule, mutations, syncset, templates,
};
use modgate_value::{Str, Value};

use super::operations::{Operation, Operations};

/// A kind without its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Kind {
    pub(crate) group: String,
    pub(crate) kind: String,
}

impl Kind {
    pub(crate) fn of(resource: &ApiResource) -> Self {
        Self { group: resource.group.clone(), kind: resource.kind.clone() }
    }
}

/// The group of the objects that Pods report with.
pub(crate) const STATUS_GROUP: &str = "status.gatekeeper.sh";

/// Where violations are exported to: group and kind.
pub(crate) const CONNECTION: (&str, &str) = ("connection.gatekeeper.sh", "Connection");

/// Whether only objects in our own namespace have an effect (ST-30, XP-1).
pub(crate) fn is_our_own(kind: &Kind) -> bool {
    kind.group == config::GROUP || kind.group == CONNECTION.0
}

/// The kind of a resource.
pub(crate) fn gvk(resource: &ApiResource) -> GroupVersionKind {
    GroupVersionKind {
        group: resource.group.as_str().into(),
        version: resource.version.as_str().into(),
        kind: resource.kind.as_str().into(),
    }
}

/// Namespaces, which policies match and refer to.
pub(crate) fn namespaces() -> ApiResource {
    resource("", "v1", "Namespace", "namespaces")
}

/// Nodes, which ModRules refer to.
pub(crate) fn nodes() -> ApiResource {
    resource("", "v1", "Node", "nodes")
}

/// Pods, into which modgate writes the names of their nodes.
pub(crate) fn pods() -> ApiResource {
    resource("", "v1", "Pod", "pods")
}

/// Where kinds come from.
pub(crate) fn definitions() -> ApiResource {
    let (kind, plural) = ("CustomResourceDefinition", "customresourcedefinitions");
    resource("apiextensions.k8s.io", "v1", kind, plural)
}

/// Templates, which every installation serves as `v1`.
pub(crate) fn templates() -> ApiResource {
    resource(templates::GROUP, "v1", templates::KIND, "constrainttemplates")
}

/// Configurations of admission webhooks, of either kind.
pub(crate) fn webhook_configurations(kind: &str) -> ApiResource {
    let plural = format!("{}s", kind.to_lowercase());
    resource("admissionregistration.k8s.io", "v1", kind, &plural)
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// The cluster's own policies and their bindings, as far as operations need them. The API server may serve
/// some of them in other versions, or not at all.
pub(crate) fn admission_policies(operations: &Operations) -> Vec<Kind> {
    let validating = [registration::POLICY_KIND, registration::BINDING_KIND];
    let mutating = [registration::MUTATING_POLICY_KIND, registration::MUTATING_BINDING_KIND];
    let has = |operation| operations.has(operation);
    let validates = has(Operation::Webhook) || has(Operation::Audit);
    let kinds = validating.into_iter().filter(|_| validates);
    let kinds = kinds.chain(mutating.into_iter().filter(|_| has(Operation::MutationWebhook)));
    kinds
        .map(|kind| Kind { group: registration::GROUP.to_owned(), kind: kind.to_owned() })
        .collect()
}

/// In which versions a kind may be served that has no CRD of ours, the best one first.
pub(crate) fn versions_of(kind: &Kind) -> impl Iterator<Item = GroupVersionKind> {
    registration::VERSIONS.into_iter().map(|version| GroupVersionKind {
        group: kind.group.as_str().into(),
        version: version.into(),
        kind: kind.kind.as_str().into(),
    })
}

/// The use of a CRD.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Definition {
    /// Its objects are no policies.
    Foreign,
    /// The API server has not made up its mind yet.
    Pending,
    /// Its objects cannot exist, as its names are taken.
    Refused,
    /// Its objects can be watched.
    Served(ApiResource),
}

/// Versions, the best one first. Objects look the same in all versions of our kinds.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

impl Definition {
    pub(crate) fn of(definition: &Value) -> Self {
        let text =
            |path: &[&str]| definition.path(path).and_then(Value::as_str).unwrap_or_default();
        let (group, kind) = (text(&["spec", "group"]), text(&["spec", "names", "kind"]));
        if !is_policy(group, kind) {
            return Self::Foreign;
        }
        if !Self::is_established(definition) {
            return match condition(definition, "NamesAccepted") {
                Some("False") => Self::Refused,
                _ => Self::Pending,
            };
        }
        let versions = definition.path(&["spec", "versions"]).and_then(Value::as_array);
        let is_served = |wanted: &str| {
            versions.into_iter().flat_map(|versions| versions.iter()).any(|version| {
                version.get("name").and_then(Value::as_str) == Some(wanted)
                    && version.get("served").and_then(Value::as_bool) == Some(true)
            })
        };
        match VERSIONS.into_iter().find(|version| is_served(version)) {
            Some(version) => {
                Self::Served(resource(group, version, kind, text(&["spec", "names", "plural"])))
            }
            None => Self::Refused,
        }
    }

    /// Whether the API server serves the kind.
    pub(crate) fn is_established(definition: &Value) -> bool {
        condition(definition, "Established") == Some("True")
    }
}

/// A CRD with a hash in place of each schema, which are nearly all of it.
pub(crate) fn without_schemas(mut definition: Value) -> Value {
    if let Value::Object(members) = &mut definition
        && let Some(Value::Object(spec)) = members.get_mut("spec")
        && let Some(Value::Array(versions)) = spec.get_mut("versions")
    {
        for version in versions.make_mut() {
            if let Value::Object(version) = version
                && let Some(schema) = version.get_mut("schema")
            {
                *schema = i64::from_ne_bytes(hash(schema).to_ne_bytes()).into();
            }
        }
    }
    definition
}

/// A CRD of one of these groups, `*` for all of them; null in place of others, which nothing needs.
pub(crate) fn of_groups(definition: Value, groups: &BTreeSet<Str>) -> Value {
    let group = definition.path(&["spec", "group"]).and_then(Value::as_str).unwrap_or_default();
    match groups.contains(group) || groups.contains("*") {
        true => definition,
        false => Value::Null,
    }
}

/// Distinguishes values of this process.
fn hash(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn is_policy(group: &str, kind: &str) -> bool {
    match group {
        modrule::GROUP => kind == modrule::KIND,
        templates::GROUP => kind == templates::KIND,
        constraints::GROUP => true,
        mutations::GROUP => mutations::MutatorKind::from_name(kind).is_some(),
        expansion::GROUP => kind == expansion::KIND,
        externaldata::GROUP => kind == externaldata::KIND,
        config::GROUP => kind == config::KIND,
        syncset::GROUP => kind == syncset::KIND,
        group => (group, kind) == CONNECTION,
    }
}

/// The status of a condition.
fn condition<'d>(definition: &'d Value, wanted: &str) -> Option<&'d str> {
    let conditions = definition.path(&["status", "conditions"])?.as_array()?;
    let of_type = |it: &&Value| it.get("type").and_then(Value::as_str) == Some(wanted);
    conditions.iter().find(of_type)?.get("status")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(group: &str, kind: &str, versions: &[(&str, bool)], conditions: &str) -> Value {
        let versions: Vec<_> = versions
            .iter()
            .map(|(name, served)| format!(r#"{{"name": "{name}", "served": {served}}}"#))
            .collect();
        let text = format!(
            r#"{{"spec": {{"group": "{group}", "names": {{"kind": "{kind}", "plural": "ps"}},
            "versions": [{}]}}, "status": {{"conditions": [{conditions}]}}}}"#,
            versions.join(",")
        );
        Value::from_json(text.as_bytes()).expect("definition")
    }

    #[test]
    fn definitions_of_policies() {
        const GOOD: &str = r#"{"type": "NamesAccepted", "status": "True"},
            {"type": "Established", "status": "True"}"#;
        const TAKEN: &str = r#"{"type": "NamesAccepted", "status": "False"}"#;
        let served =
            |group, version, kind| Definition::Served(resource(group, version, kind, "ps"));
        let (mutations, constraints) = (mutations::GROUP, constraints::GROUP);
        for (group, kind, versions, conditions, expected) in [
            ("apps", "Foo", &[("v1", true)][..], GOOD, Definition::Foreign),
            (mutations, "Foo", &[("v1", true)], GOOD, Definition::Foreign),
            (
                mutations,
                "Assign",
                &[("v1alpha1", true), ("v1", true)],
                GOOD,
                served(mutations, "v1", "Assign"),
            ),
            (
                constraints,
                "Foo",
                &[("v1beta1", true), ("v1", false)],
                GOOD,
                served(constraints, "v1beta1", "Foo"),
            ),
            (constraints, "Foo", &[("v2", true)], GOOD, Definition::Refused),
            (constraints, "Foo", &[("v1", true)], TAKEN, Definition::Refused),
            (constraints, "Foo", &[("v1", true)], "", Definition::Pending),
        ] {
            let definition = definition(group, kind, versions, conditions);
            assert_eq!(Definition::of(&definition), expected, "{definition:?}");
        }
    }

    #[test]
    fn schemas_are_not_kept() {
        let with = |schema: &str| {
            let text =
                format!(r#"{{"spec": {{"versions": [{{"name": "v1", "schema": {schema}}}]}}}}"#);
            without_schemas(Value::from_json(text.as_bytes()).expect("definition"))
        };
        let hash = with(r#"{"a": 1}"#);
        let hash = hash.pointer("/spec/versions/0/schema").expect("a hash");
        assert!(hash.as_i64().is_some(), "{hash}");
        assert_eq!(with(r#"{"a": 1}"#), with(r#"{"a":1}"#));
        assert_ne!(with(r#"{"a": 1}"#), with(r#"{"a": 2}"#));
    }
}
