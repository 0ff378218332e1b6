//! Deployments: how many Pods there are, where they run and what they may use.

use modgate_value::{Object, Value, yaml};

use super::Carry;
use crate::{
    installation::{Installation, Original, Workload},
    object::{InstalledObject, list, text},
};

/// The resources in Gatekeeper's own manifests. Where they are unchanged, the chart's resources hold.
const RESOURCES: &str = "{limits: {memory: 512Mi}, requests: {cpu: 100m, memory: 512Mi}}";

/// Environment variables of the originals' own.
const ENVIRONMENT: [&str; 5] =
    ["POD_NAMESPACE", "POD_NAME", "NAMESPACE", "CONTAINER_NAME", "OTEL_RESOURCE_ATTRIBUTES"];

/// Annotations that Kubernetes and kubectl add.
const MADE: [&str; 5] = [
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
    "meta.helm.sh/",
    "checksum/",
    "helm.sh/",
];

const POD: [&str; 3] = ["spec", "template", "spec"];

/// Of Gatekeeper's Deployments; of KubeMod's where there is no other.
pub(super) fn carry(carry: &mut Carry, installation: &Installation<'_>) {
    let of = |original: Original, is_audit: bool| {
        installation
            .workloads
            .iter()
            .find(|it| it.original == original && is_an_audit(it) == is_audit && !it.is_stopped())
    };
    let serving = of(Original::Gatekeeper, false);
    let audit = of(Original::Gatekeeper, true);
    if let Some(workload) = serving.or(of(Original::KubeMod, false)) {
        // KubeMod's one replica is its default, and fewer than three guard less.
        let replicas = workload.found.object.path(&["spec", "replicas"]).and_then(Value::as_i64);
        let replicas = replicas.unwrap_or(1);
        if workload.original == Original::Gatekeeper || replicas > 3 {
            carry.keep(workload.found, "spec.replicas", "replicas", replicas.into());
        }
        placed(carry, workload.found, "");
        container(carry, workload);
        pod(carry, workload.found);
    }
    if let Some(workload) = audit {
        let before = carry.carried.len();
        audits(carry, workload, serving);
        if carry.carried.len() > before {
            carry.keep(workload.found, "metadata.name", "split.enabled", true.into());
        }
    }
    budget(carry, installation);
}

/// Whether a Deployment audits and serves no webhooks.
fn is_an_audit(workload: &Workload<'_>) -> bool {
    let operations: Vec<String> = workload
        .containers()
        .iter()
        .flat_map(crate::arguments::given)
        .filter(|(flag, _)| flag == "operation")
        .filter_map(|(_, value)| value)
        .collect();
    match operations.is_empty() {
        true => workload.found.name().contains("audit"),
        false => !operations.iter().any(|it| it.ends_with("webhook")),
    }
}

fn member(found: &InstalledObject, key: &str) -> Option<Value> {
    let value = found.object.path(&[&POD[..], &[key]].concat())?;
    let is_empty = match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    };
    (!is_empty).then(|| value.clone())
}

/// Where Pods run; `of` is empty, or `split.`.
fn placed(carry: &mut Carry, found: &InstalledObject, of: &str) {
    for key in ["nodeSelector", "tolerations", "priorityClassName"] {
        if let Some(is) = member(found, key) {
            carry.keep(found, format!("spec.template.spec.{key}"), &format!("{of}{key}"), is);
        }
    }
    if let Some(is) = member(found, "affinity").filter(|it| !is_a_spread(it)) {
        carry.keep(found, "spec.template.spec.affinity", &format!("{of}affinity"), is);
    }
}

/// Pods that would rather not share a Node, as Gatekeeper's manifests have it: the chart spreads them anyway.
fn is_a_spread(affinity: &Value) -> bool {
    let Some(members) = affinity.as_object() else { return false };
    let preferred = ["podAntiAffinity", "preferredDuringSchedulingIgnoredDuringExecution"];
    let terms = list(affinity, &preferred);
    let is_by_node =
        |term: &Value| text(term, &["podAffinityTerm", "topologyKey"]) == "kubernetes.io/hostname";
    let only = affinity.get("podAntiAffinity").and_then(Value::as_object).map(Object::len);
    members.len() == 1 && only == Some(1) && !terms.is_empty() && terms.iter().all(is_by_node)
}

fn program<'f>(workload: &Workload<'f>) -> Option<&'f Value> {
    let all = workload.containers();
    all.iter().find(|it| text(it, &["name"]) == "manager").or_else(|| all.first())
}

/// The resources of a container, unless they are those of the original's manifest.
fn resources(workload: &Workload<'_>) -> Option<Value> {
    let of_manifest = yaml::value(RESOURCES).unwrap_or_default();
    let is = program(workload)?.get("resources")?.clone();
    let is_given = is.as_object().is_some_and(|it| !it.is_empty()) && is != of_manifest;
    (is_given && workload.original == Original::Gatekeeper).then_some(is)
}

fn container(carry: &mut Carry, workload: &Workload<'_>) {
    let found = workload.found;
    let index = workload.containers().iter().position(|it| Some(it) == program(workload));
    let field =
        |key: &str| format!("spec.template.spec.containers[{}].{key}", index.unwrap_or_default());
    if let Some(is) = resources(workload) {
        carry.keep(found, field("resources"), "resources", is);
    }
    let Some(container) = program(workload) else { return };
    let env: Vec<Value> = list(container, &["env"])
        .iter()
        .filter(|it| !ENVIRONMENT.contains(&text(it, &["name"])))
        .cloned()
        .collect();
    carry.keep(found, field("env"), "env", env.into());
    for (index, beside) in workload.containers().iter().enumerate() {
        if Some(beside) != program(workload) {
            carry.lose(
                found,
                format!("spec.template.spec.containers[{index}]"),
                false,
                format!(
                    "container `{}` is not carried over; give it to the chart as `extraContainers` \
                     if modgate needs it",
                    text(beside, &["name"])
                ),
            );
        }
    }
}

/// Further fields of a Pod.
fn pod(carry: &mut Carry, found: &InstalledObject) {
    for key in ["hostNetwork", "imagePullSecrets", "dnsConfig", "runtimeClassName"] {
        if let Some(is) = member(found, key) {
            carry.keep(found, format!("spec.template.spec.{key}"), key, is);
        }
    }
    if let Some(account) = member(found, "serviceAccountName")
        && account.as_str() != Some("default")
    {
        carry.keep(found, "spec.template.spec.serviceAccountName", "serviceAccount.name", account);
    }
    let annotations = found.object.path(&["spec", "template", "metadata", "annotations"]);
    let annotations = annotations.and_then(Value::as_object).into_iter().flat_map(Object::iter);
    let own: Vec<_> = annotations
        .filter(|(key, _)| !MADE.iter().any(|made| key.starts_with(made)))
        .cloned()
        .collect();
    carry.keep(
        found,
        "spec.template.metadata.annotations",
        "podAnnotations",
        Object::from_entries(own).into(),
    );
    if let Some(is) = member(found, "topologySpreadConstraints") {
        const LABELS: [&str; 3] =
            ["control-plane", "gatekeeper.sh/operation", "gatekeeper.sh/system"];
        let labels = |it: &Value| -> Vec<String> {
            let labels = it.path(&["labelSelector", "matchLabels"]).and_then(Value::as_object);
            labels.into_iter().flat_map(Object::keys).map(ToString::to_string).collect()
        };
        let field = "spec.template.spec.topologySpreadConstraints";
        let all = list(&found.object, &[&POD[..], &["topologySpreadConstraints"]].concat());
        match all.iter().flat_map(labels).all(|it| LABELS.contains(&it.as_str())) {
            true => carry.keep(found, field, "topologySpreadConstraints", is),
            false => carry.lose(
                found,
                field,
                false,
                "its labels are not those of modgate's Pods, which the chart spreads over zones and \
                 nodes; set `topologySpreadConstraints` for another spread"
                    .to_owned(),
            ),
        }
    }
}

/// The audit's own settings: only with them there is a Deployment of its own, too.
fn audits(carry: &mut Carry, audit: &Workload<'_>, serving: Option<&Workload<'_>>) {
    if let Some(is) = resources(audit).filter(|is| serving.and_then(resources).as_ref() != Some(is))
    {
        carry.keep(
            audit.found,
            "spec.template.spec.containers[0].resources",
            "split.resources",
            is,
        );
    }
    for key in ["nodeSelector", "tolerations", "affinity", "priorityClassName"] {
        // Where `split` says nothing, what the other Deployment has holds.
        let of_other = carry.carried.iter().find(|it| it.value == key).map(|it| it.is.clone());
        let of_other = of_other.unwrap_or_else(|| super::default(key));
        if let Some(is) = member(audit.found, key).filter(|is| *is != of_other) {
            let field = format!("spec.template.spec.{key}");
            carry.keep(audit.found, field, &format!("split.{key}"), is);
        }
    }
    let replicas = audit.found.object.path(&["spec", "replicas"]).and_then(Value::as_i64);
    carry.keep(audit.found, "spec.replicas", "split.replicas", replicas.unwrap_or(1).into());
}

fn budget(carry: &mut Carry, installation: &Installation<'_>) {
    let is_budget = |found: &&InstalledObject| {
        found.kind() == "PodDisruptionBudget" && found.name() == "gatekeeper-controller-manager"
    };
    let all = installation.objects.iter();
    let mut all = all.filter(is_budget).filter(|it| !crate::installation::is_modgates(it));
    if let Some(found) = all.next()
        && let Some(is) = found.object.path(&["spec", "minAvailable"])
    {
        carry.keep(found, "spec.minAvailable", "podDisruptionBudget.minAvailable", is.clone());
    }
}
