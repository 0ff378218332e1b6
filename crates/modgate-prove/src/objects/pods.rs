//! Pods and the objects that make them: where their containers are, and what an API server takes.

use std::collections::BTreeSet;

use modgate_engine::api::meta::GroupVersionKind;
use modgate_value::{Object, Value};

use super::KINDS;
use crate::value::{Step, at, replaced};

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
pub(crate) enum List {
    Containers,
    Init,
    Ephemeral,
}

impl List {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Containers => "containers",
            Self::Init => "initContainers",
            Self::Ephemeral => "ephemeralContainers",
        }
    }

    /// Whether containers of the list may have a member.
    pub(crate) fn takes(self, member: &str) -> bool {
        match self {
            Self::Containers => true,
            Self::Init => !NOT_OF_INIT.contains(&member),
            Self::Ephemeral => !NOT_OF_EPHEMERAL.contains(&member),
        }
    }
}

/// The path to the spec of the Pod that an object is or makes.
pub(crate) fn spec_path(object: &Value) -> Option<Vec<Step>> {
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
pub(crate) fn containers(object: &Value, list: List) -> Vec<Value> {
    let Some(mut path) = spec_path(object) else { return Vec::new() };
    path.push(list.name().into());
    let found = at(object, &path).and_then(Value::as_array);
    found.map(|found| found.to_vec()).unwrap_or_default()
}

/// The object with these containers in a list.
pub(crate) fn with_containers(object: &Value, list: List, containers: Vec<Value>) -> Value {
    let Some(mut path) = spec_path(object) else { return object.clone() };
    path.push(list.name().into());
    replaced(object, &path, containers.into())
}

/// A container under another name.
pub(crate) fn named(container: &Value, name: &str) -> Value {
    replaced(container, &["name".into()], name.into())
}

/// The object that makes the Pods of this spec.
pub(crate) fn workload(api_version: &str, kind: &str, spec: &Value, namespace: &Value) -> Value {
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

/// Whether the containers of an object are as an API server takes them: they have a name and an image, and no name is
/// there twice.
pub(crate) fn is_valid(object: &Value) -> bool {
    if spec_path(object).is_none() {
        return true;
    }
    let spec = spec_path(object).and_then(|path| at(object, &path).cloned()).unwrap_or_default();
    let mut names = BTreeSet::new();
    let mut complete = true;
    for list in [List::Containers, List::Init, List::Ephemeral] {
        for container in containers(object, list) {
            let text = |key| container.get(key).and_then(Value::as_str).unwrap_or_default();
            let members = container.as_object().into_iter().flat_map(Object::keys);
            complete &= names.insert(text("name").to_owned())
                && !text("name").is_empty()
                && !text("image").is_empty()
                && is_consistent(&container, &spec)
                && members.into_iter().all(|member| list.takes(member));
        }
    }
    complete && !containers(object, List::Containers).is_empty()
}

/// Whether the security context of a container contradicts neither itself nor the Pod.
fn is_consistent(container: &Value, spec: &Value) -> bool {
    let of = |key: &str| container.path(&["securityContext", key]);
    let is = |key: &str, value: bool| of(key).and_then(Value::as_bool) == Some(value);
    let adds =
        container.path(&["securityContext", "capabilities", "add"]).and_then(Value::as_array);
    let adds_all = adds.is_some_and(|adds| adds.iter().any(|add| add == &"CAP_SYS_ADMIN".into()));
    let has_none = is("allowPrivilegeEscalation", false);
    let unmasked = of("procMount") == Some(&"Unmasked".into());
    let says = |value: &Value| {
        value.path(&["securityContext", "windowsOptions", "hostProcess"]).and_then(Value::as_bool)
    };
    let on_host = |container: &Value| says(container).or(says(spec)) == Some(true);
    let all = ["containers", "initContainers", "ephemeralContainers"].into_iter();
    let mut all = all
        .filter_map(|list| spec.get(list).and_then(Value::as_array))
        .flat_map(|list| list.iter());
    !(has_none && (is("privileged", true) || adds_all))
        && !(unmasked && spec.get("hostUsers").and_then(Value::as_bool) != Some(false))
        && (!on_host(container)
            || all.all(on_host) && spec.get("hostNetwork").and_then(Value::as_bool) == Some(true))
}
