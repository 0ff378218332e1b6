//! Defaults that depend on other members (`kubernetes/pkg/apis/*/*/defaults.go`), and what an API server
//! computes before it stores an object.

use modgate_value::{Object, Str, Value, go::base64::Alphabet};

fn text(members: &Object, member: &str) -> String {
    members.get(member).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn empty() -> Value {
    Object::default().into()
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect()
}

/// Adds the defaults of one value of this type that depend on its other members.
pub(super) fn fill(ty: &str, members: &mut Object) {
    match ty {
        "core.v1.Container" | "core.v1.EphemeralContainer" => {
            let image = text(members, "image");
            set(members, "imagePullPolicy", || pull_policy(&image).into());
        }
        "core.v1.ImageVolumeSource" => {
            let image = text(members, "reference");
            set(members, "pullPolicy", || pull_policy(&image).into());
        }
        "core.v1.PodSpec" => {
            for (member, other) in
                [("serviceAccount", "serviceAccountName"), ("serviceAccountName", "serviceAccount")]
            {
                if let Some(name) = members.get(other).filter(|name| !name.is_null()).cloned() {
                    set(members, member, || name);
                }
            }
        }
        "core.v1.ServicePort" => {
            let unset = |target: &Value| target.as_i64() == Some(0) || target.as_str() == Some("");
            if members.get("targetPort").is_some_and(unset) {
                members.insert("targetPort", Value::Null);
            }
            if let Some(port) = members.get("port").cloned() {
                set(members, "targetPort", || port);
            }
        }
        "core.v1.ServiceSpec" => service(members),
        "core.v1.Volume" if members.iter().all(|(key, value)| key == "name" || value.is_null()) => {
            set(members, "emptyDir", empty);
        }
        "core.v1.LimitRangeItem" if text(members, "type") == "Container" => limits(members),
        "core.v1.PersistentVolumeClaimSpec" => {
            if let Some(source) = members.get("dataSource").filter(|it| !it.is_null()).cloned() {
                set(members, "dataSourceRef", || source);
            }
        }
        "core.v1.Secret" => secret(members),
        "core.v1.ReplicationController" => replication(members),
        "apps.v1.DeploymentStrategy"
        | "apps.v1.DaemonSetUpdateStrategy"
        | "apps.v1.StatefulSetUpdateStrategy"
            if text(members, "type") == "RollingUpdate" =>
        {
            set(members, "rollingUpdate", empty);
        }
        "apps.v1.StatefulSetSpec" => claims(members),
        "autoscaling.v2.HorizontalPodAutoscalerBehavior" => behaviour(members),
        "batch.v1.JobSpec" => job(members),
        "networking.v1.NetworkPolicySpec" => {
            let egress = members.get("egress").and_then(Value::as_array);
            let egress = egress.is_some_and(|rules| !rules.is_empty());
            let types = ["Ingress", "Egress"].into_iter().take(1 + usize::from(egress));
            set(members, "policyTypes", || types.map(Value::from).collect());
        }
        "rbac.v1.Subject" => {
            if matches!(text(members, "kind").as_str(), "User" | "Group") {
                set(members, "apiGroup", || "rbac.authorization.k8s.io".into());
            }
        }
        "rbac.v1.RoleRef" => set(members, "apiGroup", || "rbac.authorization.k8s.io".into()),
        "apiextensions.v1.CustomResourceDefinitionNames" => {
            let kind = text(members, "kind");
            set(members, "listKind", || format!("{kind}List").into());
            set(members, "singular", || kind.to_lowercase().into());
        }
        _ => {}
    }
}

fn service(members: &mut Object) {
    let ty = text(members, "type");
    let cluster = || Value::from("Cluster");
    if ty != "ExternalName" {
        set(members, "internalTrafficPolicy", cluster);
    }
    if ty == "NodePort" || ty == "LoadBalancer" {
        set(members, "externalTrafficPolicy", cluster);
    }
    if ty == "LoadBalancer" {
        set(members, "allocateLoadBalancerNodePorts", || true.into());
    }
    if text(members, "sessionAffinity") == "ClientIP" {
        set(members, "sessionAffinityConfig", || {
            object([("clientIP", object([("timeoutSeconds", 10_800.into())]))])
        });
    }
}

fn job(members: &mut Object) {
    if is_absent(members, "parallelism") {
        set(members, "completions", || 1.into());
        set(members, "parallelism", || 1.into());
    }
    let by_index = !is_absent(members, "backoffLimitPerIndex");
    let retries: i64 = if by_index { i64::from(i32::MAX) } else { 6 };
    set(members, "backoffLimit", || retries.into());
    let replaces = members.get("podFailurePolicy").is_some();
    let policy = if replaces { "Failed" } else { "TerminatingOrFailed" };
    set(members, "podReplacementPolicy", || policy.into());
}

/// The default of a resource is its maximum; what is requested by default is that, or the minimum.
fn limits(members: &mut Object) {
    let part = |members: &Object, member: &str| {
        members.get(member).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")]
    {
        let (mut target, source) = (part(members, to), part(members, from));
        for (name, quantity) in source.iter() {
            set(&mut target, name, || quantity.clone());
        }
        if !target.is_empty() {
            members.insert(to, target.into());
        }
    }
}

/// `stringData` is stored as `data`.
fn secret(members: &mut Object) {
    let Some(texts) = members.remove("stringData") else { return };
    let Some(texts) = texts.as_object().filter(|texts| !texts.is_empty()) else { return };
    let data = members.get("data").and_then(Value::as_object);
    let mut data = data.cloned().unwrap_or_default();
    for (key, text) in texts.iter() {
        let text = text.as_str().unwrap_or_default();
        data.insert(key.clone(), Alphabet::Standard.encode(text.as_bytes()).into());
    }
    members.insert("data", data.into());
}

/// Labels and selector are those of the template.
fn replication(members: &mut Object) {
    let labels =
        members.get("spec").and_then(|spec| spec.path(&["template", "metadata", "labels"]));
    let Some(labels) = labels.filter(|it| it.as_object().is_some_and(|it| !it.is_empty())).cloned()
    else {
        return;
    };
    if let Some(Value::Object(spec)) = members.get_mut("spec") {
        set(spec, "selector", || labels.clone());
    }
    if let Some(Value::Object(metadata)) = members.get_mut("metadata") {
        set(metadata, "labels", || labels);
    }
}

fn claims(members: &mut Object) {
    let Some(Value::Array(claims)) = members.get_mut("volumeClaimTemplates") else { return };
    for claim in claims.make_mut() {
        let Value::Object(claim) = claim else { continue };
        set(claim, "apiVersion", || "v1".into());
        set(claim, "kind", || "PersistentVolumeClaim".into());
        set(claim, "status", || object([("phase", "Pending".into())]));
    }
}

/// The rules for scaling up and down.
fn behaviour(members: &mut Object) {
    let policy = |kind: &str, value: i64| {
        object([("type", kind.into()), ("value", value.into()), ("periodSeconds", 15.into())])
    };
    let up = vec![policy("Pods", 4), policy("Percent", 100)];
    for (member, policies) in [("scaleUp", up), ("scaleDown", vec![policy("Percent", 100)])] {
        set(members, member, empty);
        let Some(Value::Object(rules)) = members.get_mut(member) else { continue };
        if member == "scaleUp" {
            set(rules, "stabilizationWindowSeconds", || 0.into());
        }
        set(rules, "selectPolicy", || "Max".into());
        set(rules, "policies", || policies.into());
    }
}

fn is_absent(members: &Object, member: &str) -> bool {
    members.get(member).is_none_or(Value::is_null)
}

pub(super) fn set(members: &mut Object, member: &str, value: impl FnOnce() -> Value) {
    if is_absent(members, member) {
        members.insert(Str::from(member), value());
    }
}

/// An image without a tag, or with the tag `latest`, is pulled each time.
pub(super) fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let (name, digest) = name.split_once('@').map_or((name, false), |(name, _)| (name, true));
    match name.split_once(':') {
        Some((_, tag)) if tag != "latest" => "IfNotPresent",
        None if digest => "IfNotPresent",
        _ => "Always",
    }
}

/// Fields that Pods have and their templates do not: links to Services, requests for limited resources, ports of
/// the host's network, and a class of service.
pub(super) fn pod(pod: &mut Value) {
    let Value::Object(members) = pod else { return };
    let mut class = Class::default();
    if let Some(Value::Object(spec)) = members.get_mut("spec") {
        set(spec, "enableServiceLinks", || true.into());
        let on_host = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
        for list in ["containers", "initContainers"] {
            let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
            for container in containers.make_mut() {
                let Value::Object(container) = container else { continue };
                if on_host {
                    ports(container);
                }
                request_limits(container);
                class.add(container);
            }
        }
    }
    if let Some(Value::Object(status)) = members.get_mut("status") {
        set(status, "qosClass", || class.name().into());
    }
}

fn ports(container: &mut Object) {
    let Some(Value::Array(ports)) = container.get_mut("ports") else { return };
    for port in ports.make_mut() {
        let Value::Object(port) = port else { continue };
        if let Some(number) = port.get("containerPort").cloned() {
            set(port, "hostPort", || number);
        }
    }
}

fn request_limits(container: &mut Object) {
    let Some(Value::Object(resources)) = container.get_mut("resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.get("requests").and_then(Value::as_object);
    let mut requests = requests.cloned().unwrap_or_default();
    for (name, limit) in limits.iter() {
        set(&mut requests, name, || limit.clone());
    }
    resources.insert("requests", requests.into());
}

/// The class of service: by what containers ask for of processors and memory.
#[derive(Default)]
struct Class {
    asks: bool,
    /// Whether a container does not ask for exactly what limits it.
    bursts: bool,
}

impl Class {
    fn add(&mut self, container: &Object) {
        let of = |part: &str, name: &str| {
            let found = container.get("resources")?.path(&[part, name])?;
            (found.as_str() != Some("0")).then(|| found.clone())
        };
        for name in ["cpu", "memory"] {
            let (limit, request) = (of("limits", name), of("requests", name));
            self.asks |= limit.is_some() || request.is_some();
            self.bursts |= limit.is_none() || limit != request;
        }
    }

    fn name(&self) -> &'static str {
        match (self.asks, self.bursts) {
            (false, _) => "BestEffort",
            (true, false) => "Guaranteed",
            (true, true) => "Burstable",
        }
    }
}
