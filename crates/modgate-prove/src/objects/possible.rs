//! Which objects an API server takes, as far as this can be known without one: the types of their members, the
//! schemas of custom resources, and the rules of Kubernetes' own kinds that objects to start from run into.

use std::time::Duration;

use modgate_engine::{
    admissionpolicy::Types,
    api::{
        meta::GroupVersionKind,
        schema::{Schema, names},
    },
};
use modgate_value::{Budget, Limits, Value, budget::Frozen};

use super::{
    images,
    pods::{self, List, containers, spec_path},
};
use crate::value::{Path, Step, at, paths, removed, replaced};

/// The kinds that are known, and their schemas.
pub(crate) struct Possible<'a> {
    types: &'a Types,
    /// The schemas of custom resources, with `apiVersion` and kind.
    schemas: Vec<(String, String, Schema)>,
}

/// The budget of the validation of one object.
const LIMITS: Limits = Limits { steps: 1_000_000, bytes: 1 << 24, time: Duration::MAX };

/// Texts that a member may have, by the last keys of its path.
const CHOICES: [(&[&str], &[&str]); 24] = [
    (&["imagePullPolicy"], &["Always", "IfNotPresent", "Never"]),
    (&["spec", "restartPolicy"], &["Always", "Never", "OnFailure"]),
    (&["initContainers", "restartPolicy"], &["Always", "Never", "OnFailure"]),
    (&["terminationMessagePolicy"], &["FallbackToLogsOnError", "File"]),
    (&["procMount"], &["Default", "Unmasked"]),
    (&["protocol"], &["SCTP", "TCP", "UDP"]),
    (&["dnsPolicy"], &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    (&["seccompProfile", "type"], &["Localhost", "RuntimeDefault", "Unconfined"]),
    (&["appArmorProfile", "type"], &["Localhost", "RuntimeDefault", "Unconfined"]),
    (&["tolerations", "effect"], &["NoExecute", "NoSchedule", "PreferNoSchedule"]),
    (&["tolerations", "operator"], &["Equal", "Exists"]),
    (
        &["hostPath", "type"],
        &[
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ],
    ),
    (&["accessModes"], &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"]),
    (&["concurrencyPolicy"], &["Allow", "Forbid", "Replace"]),
    (&["whenUnsatisfiable"], &["DoNotSchedule", "ScheduleAnyway"]),
    (&["pathType"], &["Exact", "ImplementationSpecific", "Prefix"]),
    (&["fsGroupChangePolicy"], &["Always", "OnRootMismatch"]),
    (&["preemptionPolicy"], &["Never", "PreemptLowerPriority"]),
    (&["sessionAffinity"], &["ClientIP", "None"]),
    (&["externalTrafficPolicy"], &["Cluster", "Local"]),
    (&["internalTrafficPolicy"], &["Cluster", "Local"]),
    (&["scheme"], &["HTTP", "HTTPS"]),
    (&["volumeMode"], &["Block", "Filesystem"]),
    (&["unhealthyPodEvictionPolicy"], &["AlwaysAllow", "IfHealthyBudget"]),
];

/// Numbers that a member may be, by its key.
const RANGES: [(&str, i64, i64); 12] = [
    ("containerPort", 1, 65_535),
    ("hostPort", 1, 65_535),
    ("nodePort", 30_000, 32_767),
    ("port", 1, 65_535),
    ("targetPort", 1, 65_535),
    ("fsGroup", 0, 2_147_483_647),
    ("runAsGroup", 0, 2_147_483_647),
    ("runAsUser", 0, 2_147_483_647),
    ("maxReplicas", 1, 2_147_483_647),
    ("minReplicas", 1, 2_147_483_647),
    ("periodSeconds", 1, 2_147_483_647),
    ("replicas", 0, 2_147_483_647),
];

/// Members that an element or an object must have, by its key.
const NEEDED: [(&str, &[&str]); 17] = [
    ("env", &["name"]),
    ("volumeMounts", &["mountPath", "name"]),
    ("volumes", &["name"]),
    ("subjects", &["kind", "name"]),
    ("roleRef", &["kind", "name"]),
    ("scaleTargetRef", &["kind", "name"]),
    ("hostPath", &["path"]),
    ("httpGet", &["port"]),
    ("tcpSocket", &["port"]),
    ("grpc", &["port"]),
    ("sysctls", &["name"]),
    ("topologySpreadConstraints", &["maxSkew", "topologyKey", "whenUnsatisfiable"]),
    ("paths", &["backend", "pathType"]),
    ("hostAliases", &["ip"]),
    ("seccompProfile", &["type"]),
    ("appArmorProfile", &["type"]),
    ("exec", &["command"]),
];

/// Objects with exactly one handler.
const HANDLED: [&str; 5] =
    ["livenessProbe", "postStart", "preStop", "readinessProbe", "startupProbe"];

/// Members that the objects of a kind must have.
const KINDS: [(&str, &[&[&str]]); 13] = [
    ("Deployment", &[&["spec", "selector", "matchLabels"]]),
    ("StatefulSet", &[&["spec", "selector", "matchLabels"]]),
    ("DaemonSet", &[&["spec", "selector", "matchLabels"]]),
    ("ReplicaSet", &[&["spec", "selector", "matchLabels"]]),
    ("Job", &[&["spec", "template", "spec", "restartPolicy"]]),
    (
        "CronJob",
        &[
            &["spec", "jobTemplate", "spec", "template", "spec", "restartPolicy"],
            &["spec", "schedule"],
        ],
    ),
    (
        "PersistentVolumeClaim",
        &[&["spec", "accessModes"], &["spec", "resources", "requests", "storage"]],
    ),
    ("HorizontalPodAutoscaler", &[&["spec", "maxReplicas"], &["spec", "scaleTargetRef", "name"]]),
    ("RoleBinding", &[&["roleRef", "name"]]),
    ("ClusterRoleBinding", &[&["roleRef", "name"]]),
    ("Ingress", &[&["spec"]]),
    ("Service", &[&["spec"]]),
    ("StorageClass", &[&["provisioner"]]),
];

impl<'a> Possible<'a> {
    /// With the custom resources that these objects define.
    pub(crate) fn new(types: &'a Types, objects: &[Value]) -> Self {
        let mut schemas = Vec::new();
        for object in objects {
            if object.get("kind").and_then(Value::as_str) != Some("CustomResourceDefinition") {
                continue;
            }
            let text = |path: &[&str]| object.path(path).and_then(Value::as_str);
            let (Some(group), Some(kind)) =
                (text(&["spec", "group"]), text(&["spec", "names", "kind"]))
            else {
                continue;
            };
            let versions = object.path(&["spec", "versions"]).and_then(Value::as_array);
            for version in versions.into_iter().flat_map(|versions| versions.iter()) {
                let Some(name) = version.get("name").and_then(Value::as_str) else { continue };
                let schema = version.path(&["schema", "openAPIV3Schema"]);
                if let Some(Ok(schema)) = schema.map(|schema| Schema::from_value(schema, "")) {
                    schemas.push((format!("{group}/{name}"), kind.to_owned(), schema));
                }
            }
        }
        Self { types, schemas }
    }

    /// Kubernetes' own kinds.
    pub(crate) fn kubernetes() -> Possible<'static> {
        Possible { types: Types::kubernetes(), schemas: Vec::new() }
    }

    /// The object without what an API server refuses, and with what it needs; `None` where that is not enough.
    pub(crate) fn repaired(&self, object: &Value) -> Option<Value> {
        let mut object = as_sent(rebuilt(object));
        // Inner members first: what is left out may have been all that an outer one had.
        let mut paths = paths(&object);
        paths.reverse();
        for path in paths {
            if at(&object, &path).is_none() || is_possible(&object, &path) {
                continue;
            }
            let is_image = keys(&path).last() == Some(&"image");
            let is_text = at(&object, &path).is_some_and(|it| it.as_str().is_some());
            object = match is_image && is_text {
                true => replaced(&object, &path, images::UNRELATED.into()),
                false => removed(&object, &path),
            };
        }
        self.takes(&object).then_some(object)
    }

    /// Whether the kind is one of Kubernetes' own.
    pub(crate) fn is_own(object: &Value) -> bool {
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        Types::kubernetes().has(text("apiVersion"), text("kind"))
    }

    /// The schema of a custom resource, where it is known.
    pub(crate) fn schema(&self, object: &Value) -> Option<&Schema> {
        let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let found = self.schemas.iter().find(|(of, name, _)| of == version && name == kind);
        found.map(|(_, _, schema)| schema)
    }

    /// Whether an API server takes the object.
    pub(crate) fn takes(&self, object: &Value) -> bool {
        // Only server-side apply refuses two variables with one name.
        let is_apply = |mistake: &String| mistake.contains(".env: duplicate entries");
        let fits = self.types.mistakes(object).is_none_or(|mistakes| mistakes.iter().all(is_apply));
        if !fits || !pods::is_valid(object) || !is_named(object) {
            return false;
        }
        if let Some(schema) = self.schema(object) {
            let budget = Budget::new(LIMITS, &Frozen);
            return schema.validate(object, "", &budget).is_ok_and(|errors| errors.is_empty());
        }
        !Self::is_own(object)
            || has_needed(object) && paths(object).iter().all(|path| is_possible(object, path))
    }
}

/// The same Pods in an object with the selector, the schedule and the labels that its kind needs.
fn rebuilt(object: &Value) -> Value {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let spec = spec_path(object).filter(|_| kind != "Pod");
    let Some(spec) = spec.and_then(|path| at(object, &path).cloned()) else {
        return object.clone();
    };
    let namespace = object.path(&["metadata", "namespace"]).cloned().unwrap_or_default();
    let made = pods::workload(version, kind, &spec, &namespace);
    match object.get("metadata") {
        Some(metadata) => replaced(&made, &["metadata".into()], metadata.clone()),
        None => made,
    }
}

/// Whether names and labels have the form that API servers ask for.
fn is_named(object: &Value) -> bool {
    let members = |key: &str| {
        let members = object.path(&["metadata", key]).and_then(Value::as_object);
        members.into_iter().flat_map(|members| members.iter())
    };
    let name = object.path(&["metadata", "name"]).and_then(Value::as_str);
    let is_role = GroupVersionKind::of_object(object).group == "rbac.authorization.k8s.io";
    name.is_some_and(|name| is_role || names::subdomain(name).is_empty())
        && members("labels").all(|(key, value)| {
            let value = value.as_str().unwrap_or_default();
            names::label_key(key).is_empty() && names::label_value(value).is_empty()
        })
        && members("annotations").all(|(key, _)| names::label_key(key).is_empty())
}

/// The object as an API server sends it to admission: with an empty `spec` where its kind has one. Pods that see all of
/// `/proc` have users of their own; older examples lack that.
pub(crate) fn as_sent(mut object: Value) -> Value {
    if is_without_spec(&object) {
        let nothing = Vec::<(&str, Value)>::new().into_iter().collect();
        object = replaced(&object, &["spec".into()], nothing);
    }
    if let Some(mut path) = spec_path(&object)
        && containers(&object, List::Containers).iter().any(|container| {
            container.path(&["securityContext", "procMount"]) == Some(&"Unmasked".into())
        })
    {
        path.push("hostUsers".into());
        object = replaced(&object, &path, false.into());
    }
    object
}

/// Whether an object of one of Kubernetes' own kinds lacks the `spec` that API servers always write.
fn is_without_spec(object: &Value) -> bool {
    let text = |key| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let shape = Types::kubernetes().shape(text("apiVersion"), text("kind"));
    object.get("spec").is_none() && shape.and_then(|shape| shape.member("spec")).is_some()
}

/// Whether an object of one of Kubernetes' own kinds has what every one has.
fn has_needed(object: &Value) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut needed = KINDS.iter().filter(|(of, _)| *of == kind).flat_map(|(_, paths)| *paths);
    if !needed.all(|path| object.path(path).is_some()) || is_without_spec(object) {
        return false;
    }
    let labels = object.path(&["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let selects = match (kind, labels) {
        ("Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet", Some(labels)) => {
            let template = object.path(&["spec", "template", "metadata", "labels"]);
            !labels.is_empty()
                && labels
                    .iter()
                    .all(|(key, value)| template.and_then(|labels| labels.get(key)) == Some(value))
        }
        _ => true,
    };
    let service = || {
        let is = |key: &str, text: &str| object.path(&["spec", key]) == Some(&text.into());
        let ports = object.path(&["spec", "ports"]).and_then(Value::as_array);
        let type_of = object.path(&["spec", "type"]).and_then(Value::as_str);
        let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
        let unnamed = |port: &Value| port.get("name").is_none();
        type_of.is_none_or(|of| types.contains(&of))
            && (is("type", "ExternalName") || is("clusterIP", "None") || ports.is_some())
            && ports.is_none_or(|ports| {
                !ports.is_empty()
                    && ports.iter().all(|port| port.get("port").is_some())
                    && (ports.len() == 1 || !ports.iter().any(unnamed))
            })
    };
    let ingress = || {
        ["defaultBackend", "rules"].iter().any(|key| {
            object
                .path(&["spec", key])
                .is_some_and(|value| value.as_array().is_none_or(|rules| !rules.is_empty()))
        })
    };
    selects
        && match kind {
            "Service" => service(),
            "Ingress" => ingress(),
            _ => true,
        }
}

/// The keys of a path.
pub(crate) fn keys(path: &Path) -> Vec<&str> {
    path.iter()
        .filter_map(|step| match step {
            Step::Key(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
        .collect()
}

/// Whether the value at a path is one that its member may have.
fn is_possible(object: &Value, path: &Path) -> bool {
    let Some(value) = at(object, path) else { return true };
    let keys = keys(path);
    let Some(last) = keys.last() else { return true };
    if let Some(text) = value.as_str() {
        let chosen = CHOICES.iter().find(|(ends, _)| keys.ends_with(ends));
        let is_image = *last == "image" && path.len() > 2;
        return chosen.is_none_or(|(_, choices)| choices.contains(&text))
            && (!is_image || images::is_reference(text));
    }
    if let Some(number) = value.as_i64() {
        let range = RANGES.iter().find(|(key, ..)| key == last);
        return range.is_none_or(|(_, least, most)| (*least..=*most).contains(&number));
    }
    // API servers leave empty lists out.
    let Some(members) = value.as_object() else {
        return value.as_array().is_none_or(|list| !list.is_empty());
    };
    let has = |key: &&&str| members.contains_key(key);
    if let Some((_, needed)) = NEEDED.iter().find(|(key, _)| key == last) {
        let source = *last != "volumes" || members.len() == 2;
        return source && needed.iter().filter(has).count() == needed.len();
    }
    let is_port = matches!(keys.as_slice(), [.., "containers" | "initContainers", "ports"]);
    if is_port && !members.contains_key("containerPort") {
        return false;
    }
    let handlers = ["exec", "grpc", "httpGet", "sleep", "tcpSocket"];
    !HANDLED.contains(last) || handlers.iter().filter(has).count() == 1
}
