//! Objects as an API server of Kubernetes 1.36 has them when policies see them: without members that
//! their kind lacks, quantities in one form, and with defaults.
//!
//! The defaults are a table by type (`defaults.txt`), and the few that depend on other members are
//! code (`derive.rs`). Those of custom resources stand in their CustomResourceDefinitions.

use std::{collections::BTreeMap, sync::LazyLock};

use modgate_value::{Object, Value};

use super::{GUESSED, Map, Reference, Types, UNTYPED, derive, quantity};

/// How deep objects are read; what is nested deeper stays as it is.
const MAX_DEPTH: usize = 64;

const QUANTITY: &str = "api.resource.Quantity";

/// By type: members with their defaults.
type Table = BTreeMap<&'static str, Vec<(&'static str, Value)>>;

static DEFAULTS: LazyLock<Table> = LazyLock::new(|| {
    let lines = include_str!("defaults.txt").lines();
    let read = |line: &'static str| {
        let mut words = line.split(' ');
        let ty = words.next()?;
        let members = words.filter_map(|word| {
            let (member, json) = word.split_once('=')?;
            Some((member, Value::from_json(json.as_bytes()).ok()?))
        });
        Some((ty, members.collect()))
    };
    lines.filter_map(read).collect()
});

impl Types {
    /// The object as the API server has it when policies see it; `None` where its kind is none of those
    /// that are known.
    pub fn as_stored(&self, object: &Value) -> Option<Value> {
        let text = |member| object.get(member).and_then(Value::as_str).unwrap_or_default();
        let ty = self.of(text("apiVersion"), text("kind"))?;
        let mut stored = self.stored(ty, object, "", 0);
        if text("apiVersion") == "v1" && text("kind") == "Pod" {
            derive::pod(&mut stored);
        }
        Some(stored)
    }

    /// `parent` is the type that the value is a member of.
    fn stored(&self, ty: &Reference, value: &Value, parent: &str, depth: usize) -> Value {
        let (name, is_named) = match ty {
            Reference::Named(name, _) => (name.as_str(), true),
            Reference::Inline(_) => ("", false),
        };
        if name == QUANTITY {
            return quantity_of(value);
        }
        if depth >= MAX_DEPTH || [UNTYPED, GUESSED].contains(&name) {
            return value.clone();
        }
        let resolved = self.resolve(ty);
        match value {
            Value::Object(members) => {
                let Some(map) = resolved.map else { return value.clone() };
                let mut members = members.clone();
                if is_named {
                    fill(name, parent, &mut members);
                } else {
                    fill_as_defined(map, &mut members);
                }
                let kept = members.iter().filter_map(|(key, value)| {
                    let field = map.fields.get(key);
                    let is_left_out = match field {
                        None if map.prunes => true,
                        Some(field) if field.nullable => false,
                        _ if value.is_null() => true,
                        _ => is_named && is_left_out(name, key, value),
                    };
                    let element = map.element.as_ref().filter(|_| !is_left_out);
                    let ty = field.filter(|_| !is_left_out).map(|field| &field.ty).or(element)?;
                    Some((key.clone(), self.stored(ty, value, name, depth + 1)))
                });
                kept.collect()
            }
            Value::Array(elements) => {
                let Some(list) = resolved.list else { return value.clone() };
                elements
                    .iter()
                    .map(|it| self.stored(&list.element, it, parent, depth + 1))
                    .collect()
            }
            other => other.clone(),
        }
    }
}

/// Members that the API server leaves out where they are zero, because their Go types are no pointers.
const ZERO: [(&str, &[&str]); 10] = [
    ("apps.v1.DeploymentSpec", &["minReadySeconds", "paused"]),
    ("core.v1.Container", &["stdin", "stdinOnce", "tty"]),
    ("core.v1.ContainerPort", &["hostPort"]),
    ("core.v1.EphemeralContainer", &["stdin", "stdinOnce", "tty"]),
    ("core.v1.EnvVar", &["value"]),
    ("core.v1.Probe", &["initialDelaySeconds"]),
    ("core.v1.PodSpec", &["hostIPC", "hostNetwork", "hostPID"]),
    ("core.v1.ServicePort", &["nodePort"]),
    ("core.v1.ServiceSpec", &["publishNotReadyAddresses"]),
    ("core.v1.VolumeMount", &["readOnly"]),
];

/// Whether a member is left out although it is given: zero numbers, empty lists and empty maps of texts.
fn is_left_out(ty: &str, member: &str, value: &Value) -> bool {
    let is_zero = match value {
        Value::Bool(value) => !value,
        Value::Number(_) => value.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let is_listed = |(known, members): &(&str, &[&str])| *known == ty && members.contains(&member);
    is_zero && ZERO.iter().any(is_listed)
        || match (member, value) {
            ("containers" | "rules", _) => false,
            ("labels" | "annotations" | "data" | "nodeSelector", Value::Object(map)) => {
                map.iter().next().is_none()
            }
            (_, Value::Array(list)) => list.is_empty(),
            _ => false,
        }
}

fn quantity_of(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => text.to_string(),
        Value::Number(_) => match value.as_i64() {
            Some(number) => number.to_string(),
            None => value.to_json(),
        },
        _ => return value.clone(),
    };
    quantity::canonical(&text).map_or_else(|| Value::from(text.as_str()), Value::from)
}

/// Adds the defaults of a custom resource, also in place of null where that is not allowed.
fn fill_as_defined(map: &Map, members: &mut Object) {
    for (name, field) in &map.fields {
        let Some(default) = &field.default else { continue };
        let is_empty = |value: &Value| value.is_null() && !field.nullable;
        if members.get(name).is_none_or(is_empty) {
            members.insert(name.clone(), default.clone());
        }
    }
}

/// Adds the defaults of one value of this type.
fn fill(ty: &str, parent: &str, members: &mut Object) {
    // The Jobs of a CronJob get theirs when they are created.
    if (ty, parent) == ("batch.v1.JobSpec", "batch.v1.JobTemplateSpec") {
        return;
    }
    if let Some(defaults) = DEFAULTS.get(ty) {
        for (member, value) in defaults {
            derive::set(members, member, || value.clone());
        }
    }
    derive::fill(ty, members);
}

#[cfg(test)]
mod tests {
    use modgate_value::yaml;

    use super::*;

    fn stored(yaml: &str) -> Value {
        let object = yaml::value(yaml).expect(yaml);
        Types::kubernetes().as_stored(&object).expect("a known kind")
    }

    #[test]
    fn every_type_and_member_of_the_table_exists() {
        let types = Types::kubernetes();
        let mut count = 0;
        for (ty, members) in &*DEFAULTS {
            let reference = Reference::Named((*ty).into(), None);
            let resolved = types.resolve(&reference);
            let map = resolved.map.unwrap_or_else(|| panic!("{ty}"));
            for (member, _) in members {
                assert!(map.fields.contains_key(*member), "{ty}.{member}");
                count += 1;
            }
        }
        let lines = include_str!("defaults.txt").lines();
        let words: usize = lines.map(|line| line.split(' ').count() - 1).sum();
        assert_eq!(count, words, "every default can be read");
    }

    #[test]
    fn pods() {
        let pod = stored(
            "{apiVersion: v1, kind: Pod, metadata: {name: a, nope: 1}, spec: {nope: 1, \
             volumes: [{name: v}], containers: [{name: c, image: 'r.io:80/a', \
             resources: {limits: {cpu: 2, memory: 1024Mi}}}]}}",
        );
        let at = |path: &str| pod.pointer(path).map(Value::to_json).unwrap_or_default();
        for (path, expected) in [
            ("/spec/nope", ""),
            ("/spec/restartPolicy", "\"Always\""),
            ("/spec/enableServiceLinks", "true"),
            ("/spec/securityContext", "{}"),
            ("/spec/volumes/0/emptyDir", "{}"),
            ("/spec/containers/0/imagePullPolicy", "\"Always\""),
            ("/spec/containers/0/resources/limits/cpu", "\"2\""),
            ("/spec/containers/0/resources/requests", r#"{"cpu":"2","memory":"1Gi"}"#),
        ] {
            assert_eq!(at(path), expected, "{path}: {}", pod.to_json());
        }
    }

    #[test]
    fn custom_resources() {
        let definition = "{spec: {group: a.io, names: {kind: K}, versions: [{name: v1, schema: \
            {openAPIV3Schema: {type: object, properties: {spec: {type: object, default: {}, properties: \
            {size: {type: integer, default: 3}, none: {type: string, nullable: true}, \
            parts: {type: array, items: {type: object, properties: {up: {type: boolean, default: true}}}}, \
            map: {type: object, additionalProperties: {type: object, properties: {x: {default: 1}}}}, \
            bare: {type: object}, \
            open: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: \
            {shut: {type: object, properties: {q: {}}}}}}}}}}}]}}";
        let mut types = Types::kubernetes().clone();
        types.define(&yaml::value(definition).expect(definition));
        let head = "apiVersion: a.io/v1, kind: K, metadata: {name: a, nope: 1, labels: {}}";
        for (spec, expected) in [
            ("other: 1", r#"{"size":3}"#),
            ("spec: null", r#"{"size":3}"#),
            ("spec: {size: null, none: null, nope: 1}", r#"{"none":null,"size":3}"#),
            (
                "spec: {parts: [{}, {up: false, b: 1}]}",
                r#"{"parts":[{"up":true},{"up":false}],"size":3}"#,
            ),
            ("spec: {parts: []}", r#"{"parts":[],"size":3}"#),
            ("spec: {map: {a: {}, b: {x: 2}}}", r#"{"map":{"a":{"x":1},"b":{"x":2}},"size":3}"#),
            ("spec: {bare: {a: 1}}", r#"{"bare":{},"size":3}"#),
            (
                "spec: {open: {a: {b: null}, shut: {q: 1, r: 1}}}",
                r#"{"open":{"a":{"b":null},"shut":{"q":1}},"size":3}"#,
            ),
        ] {
            let object = yaml::value(&format!("{{{head}, {spec}}}")).expect(spec);
            let stored = types.as_stored(&object).expect("a known kind");
            assert_eq!(stored.get("spec").map(Value::to_json).as_deref(), Some(expected), "{spec}");
            let metadata = stored.get("metadata").map(Value::to_json);
            assert_eq!(metadata.as_deref(), Some(r#"{"name":"a"}"#));
            assert_eq!(stored.get("other"), None);
        }
    }

    #[test]
    fn images() {
        for (image, policy) in [
            ("a", "Always"),
            ("a:latest", "Always"),
            ("a:1", "IfNotPresent"),
            ("r:80/a", "Always"),
            ("a@sha256:0", "IfNotPresent"),
            ("a:latest@sha256:0", "Always"),
        ] {
            assert_eq!(derive::pull_policy(image), policy, "{image}");
        }
    }
}
