//! Objects as an API server of Kubernetes 1.36 has them when policies see them: without members that
//! their kind lacks, quantities in one form, and with defaults.
//!
//! The defaults are a table by type (`defaults.txt`), and the few that depend on other members are
//! code (`derive.rs`).

use std::{collections::BTreeMap, sync::LazyLock};

use modgate_value::{Object, Value};

use super::{Reference, Types, derive, quantity};

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
        if !self.is_builtin(text("apiVersion"), text("kind")) {
            return None;
        }
        let mut stored = self.stored(ty, object, "", 0);
        if text("apiVersion") == "v1" && text("kind") == "Pod" {
            derive::pod(&mut stored);
        }
        Some(stored)
    }

    /// `parent` is the type that the value is a member of.
    fn stored(&self, ty: &Reference, value: &Value, parent: &str, depth: usize) -> Value {
        let name = match ty {
            Reference::Named(name, _) => name.as_str(),
            Reference::Inline(_) => "",
        };
        if name == QUANTITY {
            return quantity_of(value);
        }
        if depth >= MAX_DEPTH {
            return value.clone();
        }
        let resolved = self.resolve(ty);
        match value {
            Value::Object(members) => {
                let Some(map) = resolved.map else { return value.clone() };
                let mut members = members.clone();
                fill(name, parent, &mut members);
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let members = members.filter(|(key, value)| !is_left_out(name, key, value));
                let kept = members.filter_map(|(key, value)| {
                    let ty = map.fields.get(key).map(|field| &field.ty).or(map.element.as_ref())?;
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
