//! Objects under review that no API server stores.

use modgate_api::{kinds, meta};
use modgate_value::{Value, near, pointer};

use super::{Definitions, Mistake, Place, matching};
use crate::{Code, admissionpolicy::Types};

/// Mistakes in the kind and the metadata of an object that policies are to decide about.
pub fn of_object(object: &Value, definitions: &Definitions) -> Vec<Mistake> {
    of_kind(object, definitions).into_iter().chain(of_metadata(object)).collect()
}

fn found(member: &str, message: String, help: Option<String>) -> Mistake {
    Mistake { code: Code::ImpossibleObject, place: Place::Value(member.to_owned()), message, help }
}

fn of_kind(object: &Value, definitions: &Definitions) -> Option<Mistake> {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if kind.is_empty() {
        // An error of its own.
        return None;
    }
    let of_kubernetes = || {
        let version = kinds::groups_of(kind).find_map(|group| {
            let version = newest(group, kind)?;
            Some(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") })
        })?;
        Some(format!("did you mean `{version}`?"))
    };
    if api_version.is_empty() {
        let message = "the object has no `apiVersion`".to_owned();
        return Some(found("apiVersion", message, of_kubernetes()));
    }
    let (group, version) = meta::split_api_version(api_version);
    let is_policy = super::groups().any(|known| known == group) && kinds::of_group(group).is_none();
    if is_policy {
        return None;
    }
    let Some(known) = kinds::of_group(group) else {
        return of_custom_group(group, kind, definitions);
    };
    if known.contains(&kind) {
        if matching::is_version(version) {
            return None;
        }
        let message = format!("no version is called `{version}`");
        return Some(found("apiVersion", message, of_kubernetes()));
    }
    if kinds::groups_of(kind).next().is_some() {
        let message = match group {
            "" => format!("`{kind}` is not a kind of the core API group"),
            _ => format!("`{kind}` is not a kind of the API group `{group}`"),
        };
        return Some(found("apiVersion", message, of_kubernetes()));
    }
    // `pods` and `pod`.
    let meant = kinds::of_resource_name(kind).filter(|meant| known.contains(meant));
    let meant = meant.or_else(|| near::nearest(kind, known.iter().copied()));
    let meant = meant.or_else(|| near::nearest(kind, kinds::all()));
    let message = format!("no kind of `{api_version}` is called `{kind}`");
    Some(found("kind", message, meant.map(|meant| format!("did you mean `{meant}`?"))))
}

/// The version of a kind that is served and most recent by its name.
pub(super) fn newest(group: &'static str, kind: &str) -> Option<String> {
    let versions = Types::kubernetes().keys().filter(|(_, known)| known == kind);
    let versions = versions.map(|(version, _)| meta::split_api_version(version));
    let mut versions: Vec<&str> =
        versions.filter(|(of, _)| *of == group).map(|(_, version)| version).collect();
    // `v2` before `v1`, and both before `v1beta1`.
    versions.sort_by_key(|version| (version.len() > "v1".len(), std::cmp::Reverse(*version)));
    versions.first().map(|version| (*version).to_owned())
}

/// An object of a group that may be one of custom resources.
fn of_custom_group(group: &str, kind: &str, definitions: &Definitions) -> Option<Mistake> {
    if definitions.groups().any(|known| known == group) {
        if definitions.get(group, kind).is_some() {
            return None;
        }
        let meant = definitions.meant(group, kind)?;
        let message = format!("no CustomResourceDefinition of `{group}` has the kind `{kind}`");
        return Some(found("kind", message, Some(format!("did you mean `{meant}`?"))));
    }
    // Two groups of Kubernetes may differ by few letters from one of custom resources.
    let is_own_kind = kinds::groups_of(kind).next().is_some();
    let meant = matching::near_group(group, definitions);
    let meant = meant.filter(|meant| is_own_kind || definitions.get(meant, kind).is_some());
    let help = meant.map(|meant| format!("did you mean `{meant}`?"));
    if help.is_none() && group.contains('.') {
        return None;
    }
    Some(found("apiVersion", format!("no API group is called `{group}`"), help))
}

/// Members of `metadata` that the API server refuses, because they are no texts.
fn of_metadata(object: &Value) -> Vec<Mistake> {
    let Some(metadata) = object.get("metadata") else { return Vec::new() };
    let is_text = |value: &Value| matches!(value, Value::String(_) | Value::Null);
    let problem = |member: String, value: &Value| {
        let message = format!("`{member}` is `{}`, which is not a text", short(value));
        found(&member.replace('.', "/"), message, Some("put it in quotes".to_owned()))
    };
    let mut all = Vec::new();
    for name in ["generateName", "name", "namespace"] {
        let value = metadata.get(name).filter(|value| !is_text(value));
        all.extend(value.map(|value| problem(format!("metadata.{name}"), value)));
    }
    for map in ["annotations", "labels"] {
        let members = metadata.get(map).and_then(Value::as_object);
        let mut wrong = members.into_iter().flat_map(|members| members.iter());
        if let Some((name, value)) = wrong.find(|(_, value)| !is_text(value)) {
            let message = format!(
                "the value of `{name}` in `metadata.{map}` is `{}`, which is not a text",
                short(value)
            );
            let place = pointer::below(&format!("metadata/{map}"), name);
            all.push(found(&place, message, Some("put it in quotes".to_owned())));
        }
    }
    all
}

/// A value in a message.
fn short(value: &Value) -> String {
    value.to_json().chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(json: &str) -> String {
        let definition = r#"{"kind": "CustomResourceDefinition", "metadata": {"name": "carts.shop.example"},
            "spec": {"group": "shop.example", "names": {"kind": "Cart", "plural": "carts"},
            "versions": [{"name": "v1", "served": true}]}}"#;
        let read = |json: &str| Value::from_json(json.as_bytes()).expect(json);
        let mut definitions = Definitions::default();
        definitions.add(&read(definition));
        let found = of_object(&read(json), &definitions).into_iter().map(|found| {
            let place = match found.place {
                Place::Key(place) | Place::Value(place) => place,
            };
            format!("{place}: {}; {}", found.message, found.help.unwrap_or_default())
        });
        found.collect::<Vec<_>>().join("|")
    }

    #[test]
    fn kinds_and_groups() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", ""),
            ("v1", "pod", "kind: no kind of `v1` is called `pod`; did you mean `Pod`?"),
            ("v1", "pods", "kind: no kind of `v1` is called `pods`; did you mean `Pod`?"),
            ("v1", "Pdo", "kind: no kind of `v1` is called `Pdo`; did you mean `Pod`?"),
            ("v1", "Foo", "kind: no kind of `v1` is called `Foo`; "),
            (
                "apps/v1",
                "Pod",
                "apiVersion: `Pod` is not a kind of the API group `apps`; did you mean `v1`?",
            ),
            (
                "v1",
                "Deployment",
                "apiVersion: `Deployment` is not a kind of the core API group; did you mean `apps/v1`?",
            ),
            (
                "apps",
                "Deployment",
                "apiVersion: `Deployment` is not a kind of the core API group; did you mean `apps/v1`?",
            ),
            (
                "apps/1",
                "Deployment",
                "apiVersion: no version is called `1`; did you mean `apps/v1`?",
            ),
            ("apps/v1beta1", "Deployment", ""),
            ("extensions/v1beta1", "Ingress", ""),
            (
                "app/v1",
                "Deployment",
                "apiVersion: no API group is called `app`; did you mean `apps`?",
            ),
            (
                "networking.k8s.oi/v1",
                "Ingress",
                "apiVersion: no API group is called `networking.k8s.oi`; did you mean `networking.k8s.io`?",
            ),
            ("gateway.networking.k8s.io/v1", "Gateway", ""),
            ("example.com/v1", "Foo", ""),
            ("shop.example/v1", "Cart", ""),
            (
                "shop.example/v1",
                "Crat",
                "kind: no CustomResourceDefinition of `shop.example` has the kind `Crat`; did you mean `Cart`?",
            ),
            (
                "shop.exmaple/v1",
                "Cart",
                "apiVersion: no API group is called `shop.exmaple`; did you mean `shop.example`?",
            ),
            ("templates.gatekeeper.sh/v1", "ConstraintTemplate", ""),
            ("constraints.gatekeeper.sh/v1beta1", "Any", ""),
        ] {
            let json = format!(
                r#"{{"apiVersion": "{api_version}", "kind": "{kind}", "metadata": {{"name": "x"}}}}"#
            );
            assert_eq!(said(&json), expected, "{api_version} {kind}");
        }
        assert_eq!(
            said(r#"{"kind": "HorizontalPodAutoscaler"}"#),
            "apiVersion: the object has no `apiVersion`; did you mean `autoscaling/v2`?"
        );
    }

    #[test]
    fn metadata_that_is_no_text() {
        for (metadata, expected) in [
            (r#"{"name": "x", "labels": {"a": "b"}, "namespace": null}"#, ""),
            (
                r#"{"namespace": true}"#,
                "metadata/namespace: `metadata.namespace` is `true`, which is not a text; put it in quotes",
            ),
            (
                r#"{"name": 8080}"#,
                "metadata/name: `metadata.name` is `8080`, which is not a text; put it in quotes",
            ),
            (
                r#"{"labels": {"a/b": 1.5}}"#,
                "metadata/labels/a~1b: the value of `a/b` in `metadata.labels` is `1.5`, which is not a text; put it in quotes",
            ),
        ] {
            let json = format!(r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {metadata}}}"#);
            assert_eq!(said(&json), expected, "{metadata}");
        }
    }
}
