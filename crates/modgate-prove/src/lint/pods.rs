//! Pods and the objects that make them: where their containers are, and what an API server takes.

use std::collections::BTreeSet;

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::{Object, Value};

use crate::{
    compare::fits,
    generate::KINDS,
    value::{Step, at, replaced},
};

/// Members of a container that an init container must not have.
const NOT_OF_INIT: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
/// Members of a container that an ephemeral container must not have.
const NOT_OF_EPHEMERAL: [&str; 7] = [
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "resources",
    "startupProbe",
];

/// The lists of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum List {
    Containers,
    Init,
    Ephemeral,
}

impl List {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::Init => "initContainers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }

    /// Whether containers of the list may have a member.
    pub(super) fn takes(self, member: &str) -> bool {
        match self {
            Self::Containers => true,
            Self::Init => !NOT_OF_INIT.contains(&member),
            Self::Ephemeral => !NOT_OF_EPHEMERAL.contains(&member),
        }
    }
}

/// The path to the spec of the Pod that an object is or makes.
pub(super) fn spec_path(object: &Value) -> Option<Vec<Step>> {
    let kind = GroupVersionKind::of_object(object);
    if &*kind.kind == "Pod" && kind.group.is_empty() {
        return Some(vec!["spec".into()]);
    }
    let (_, _, template) = KINDS.iter().find(|(api_version, name, template)| {
        !template.is_empty() && kind.kind == *name && kind.api_version() == *api_version
    })?;
    Some(template.iter().copied().chain(["spec"]).map(Step::from).collect())
}

/// The containers of a list.
pub(super) fn containers(object: &Value, list: List) -> Vec<Value> {
    let Some(mut path) = spec_path(object) else { return Vec::new() };
    path.push(list.name().into());
    let found = at(object, &path).and_then(Value::as_array);
    found.map(|found| found.to_vec()).unwrap_or_default()
}

/// The object with these containers in a list.
pub(super) fn with_containers(object: &Value, list: List, containers: Vec<Value>) -> Value {
    let Some(mut path) = spec_path(object) else { return object.clone() };
    path.push(list.name().into());
    replaced(object, &path, containers.into())
}

/// A container under another name.
pub(super) fn named(container: &Value, name: &str) -> Value {
    replaced(container, &["name".into()], name.into())
}

/// The object that makes the Pods of this spec.
pub(super) fn workload(api_version: &str, kind: &str, spec: &Value, namespace: &Value) -> Value {
    let object = |members: Vec<(&str, Value)>| -> Value { members.into_iter().collect() };
    let labels = || object(vec![("app", "web".into())]);
    let mut spec = spec.clone();
    if let "Job" | "CronJob" = kind {
        spec = replaced(&spec, &["restartPolicy".into()], "Never".into());
    }
    let metadata = object(vec![("labels", labels())]);
    let template = object(vec![("metadata", metadata), ("spec", spec)]);
    let selector = object(vec![("matchLabels", labels())]);
    let spec = match kind {
        "Job" => object(vec![("template", template)]),
        "CronJob" => object(vec![
            ("schedule", "0 0 * * *".into()),
            ("jobTemplate", object(vec![("spec", object(vec![("template", template)]))])),
        ]),
        "StatefulSet" => object(vec![
            ("selector", selector),
            ("serviceName", "web".into()),
            ("template", template),
        ]),
        _ => object(vec![("selector", selector), ("template", template)]),
    };
    let mut metadata = vec![("name", Value::from("web"))];
    if !namespace.is_null() {
        metadata.push(("namespace", namespace.clone()));
    }
    object(vec![
        ("apiVersion", api_version.into()),
        ("kind", kind.into()),
        ("metadata", object(metadata)),
        ("spec", spec),
    ])
}

/// Whether an API server takes the object, as far as its type and the rules for containers tell: the
/// type table knows it, containers have a name and an image, and no name is there twice.
pub(super) fn is_valid(object: &Value) -> bool {
    if !fits(object) {
        return false;
    }
    if spec_path(object).is_none() {
        return true;
    }
    let mut names = BTreeSet::new();
    let mut complete = true;
    for list in [List::Containers, List::Init, List::Ephemeral] {
        for container in containers(object, list) {
            let text = |key| container.get(key).and_then(Value::as_str).unwrap_or_default();
            let members = container.as_object().into_iter().flat_map(Object::keys);
            complete &= names.insert(text("name").to_owned())
                && !text("name").is_empty()
                && !text("image").is_empty()
                && members.into_iter().all(|member| list.takes(member));
        }
    }
    complete && !containers(object, List::Containers).is_empty()
}
