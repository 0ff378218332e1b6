//! The objects that are audited, as JSON, each made from its number.

use std::{fmt::Write as _, str::FromStr};

/// How much is wrong with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Density {
    /// Of a hundred Pods 90 do what can be done, 9 say nothing about security, and one breaks every
    /// rule. No Pod can obey all samples of the library.
    Clean,
    /// Every Pod breaks nearly every rule.
    Dirty,
}

impl FromStr for Density {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "clean" => Ok(Self::Clean),
            "dirty" => Ok(Self::Dirty),
            other => Err(format!("`{other}` is neither clean nor dirty")),
        }
    }
}

/// Of what kind an object is. Every Service is judged by all others, and every Ingress: a hundred
/// times as many of them take ten thousand times as long.
pub fn kind(index: usize) -> &'static str {
    match index % 100 {
        0..50 => "Pod",
        50..75 => "Deployment",
        75..97 => "ConfigMap",
        97..99 => "Service",
        _ => "Ingress",
    }
}

/// Whether policies see an object in the inventory: Services and Ingresses.
pub fn is_synced(index: usize) -> bool {
    matches!(kind(index), "Service" | "Ingress")
}

/// One of many kinds.
pub fn mixed(index: usize, version: u32, density: Density) -> String {
    let metadata = || metadata(index, version, &name(index), "");
    match kind(index) {
        "Pod" => pod(index, version, density),
        "Deployment" => format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{},"spec":{{"replicas":3,
            "selector":{{"matchLabels":{{"app":"a{index}"}}}},"template":{{"metadata":{{"labels":
            {{"app":"a{index}"}}}},"spec":{}}}}}}}"#,
            metadata(),
            spec(index, density)
        ),
        "Service" => format!(
            r#"{{"apiVersion":"v1","kind":"Service","metadata":{},"spec":{{"type":"ClusterIP",
            "selector":{{"app":"a{index}"}},"ports":[{{"port":80,"targetPort":8080}}]}}}}"#,
            metadata()
        ),
        "Ingress" => format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{},"spec":
            {{"rules":[{{"host":"h{index}.example.com","http":{{"paths":[{{"path":"/","pathType":
            "Prefix","backend":{{"service":{{"name":"s{index}","port":{{"number":80}}}}}}}}]}}}}]}}}}"#,
            metadata()
        ),
        other => format!(
            r#"{{"apiVersion":"v1","kind":"{other}","metadata":{},"data":{{"key":"value {index}"}}}}"#,
            metadata()
        ),
    }
}

/// A Pod as a controller makes them.
pub fn pod(index: usize, version: u32, density: Density) -> String {
    let name = format!("{}-{:05x}", name(index), scattered(index) % 0x10_0000);
    let pizza = if density == Density::Clean { r#","pizza":"margherita""# } else { "" };
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{},"status":{{"phase":"Running",
        "podIP":"10.0.0.1"}}}}"#,
        metadata(index, version, &name, pizza),
        spec(index, density)
    )
}

fn name(index: usize) -> String {
    const NAMES: [&str; 6] = ["cart", "checkout", "inventory-sync", "mail", "payments", "web"];
    format!("{}-{:09x}", NAMES[index % NAMES.len()], scattered(index) % 0x10_0000_0000)
}

/// Looks like chance.
fn scattered(index: usize) -> u64 {
    let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 8
}

fn metadata(index: usize, version: u32, name: &str, label: &str) -> String {
    let chance = scattered(index);
    format!(
        r#"{{"name":"{name}","namespace":"team-{}","uid":"{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        "resourceVersion":"{index}.{version}","creationTimestamp":"2026-01-01T00:00:00Z",
        "labels":{{"app":"a{index}","tier":"t{}"{label}}},"annotations":
        {{"note":"made for a measurement"}}}}"#,
        index % 50,
        chance & 0xffff_ffff,
        chance >> 8 & 0xffff,
        chance >> 16 & 0xfff,
        chance >> 24 & 0xfff,
        index,
        index % 5
    )
}

fn spec(index: usize, density: Density) -> String {
    match (density, index / 7 % 100) {
        (Density::Clean, 0..90) => careful(index),
        (Density::Clean, 90..99) => silent(index),
        _ => careless(index),
    }
}

/// A Pod that obeys all rules.
fn careful(index: usize) -> String {
    let mut containers = String::new();
    for (at, container) in ["main", "helper"].iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            containers,
            r#"{comma}{{"name":"{container}","image":"registry.example.com/{container}@sha256:{:064x}",
            "env":[{{"name":"INDEX","value":"{index}"}}],"resources":{{"limits":{{"cpu":"100m",
            "memory":"256Mi","ephemeral-storage":"100Mi"}},"requests":{{"cpu":"100m",
            "memory":"256Mi","ephemeral-storage":"100Mi"}}}},"readinessProbe":{{"httpGet":{{"path":
            "/ready","port":8080}}}},"livenessProbe":{{"httpGet":{{"path":"/live","port":8080}}}},
            "securityContext":{{"privileged":false,"allowPrivilegeEscalation":false,
            "readOnlyRootFilesystem":true,"runAsNonRoot":true,"runAsUser":1000,"runAsGroup":1000,
            "capabilities":{{"drop":["ALL"]}},"seccompProfile":{{"type":"RuntimeDefault"}},
            "appArmorProfile":{{"type":"RuntimeDefault"}}}}}}"#,
            index % 40
        );
    }
    format!(
        r#"{{"serviceAccountName":"app","automountServiceAccountToken":false,"securityContext":
        {{"runAsNonRoot":true,"fsGroup":500,"seccompProfile":{{"type":"RuntimeDefault"}},
        "appArmorProfile":{{"type":"RuntimeDefault"}}}},"volumes":
        [{{"name":"scratch","emptyDir":{{}}}}],"containers":[{containers}]}}"#
    )
}

/// As charts are that say nothing of security.
fn silent(index: usize) -> String {
    format!(
        r#"{{"serviceAccountName":"default","containers":[{{"name":"main","image":
        "registry.example.com/app:1.{}","ports":[{{"containerPort":8080}}],
        "env":[{{"name":"INDEX","value":"{index}"}}]}}]}}"#,
        index % 10
    )
}

/// A Pod that breaks most rules.
fn careless(index: usize) -> String {
    format!(
        r#"{{"hostNetwork":true,"hostPID":true,"serviceAccountName":"default","volumes":
        [{{"name":"host","hostPath":{{"path":"/var/run"}}}}],"containers":[{{"name":"main","image":
        "registry.example.com/app:latest","ports":[{{"containerPort":8080,"hostPort":8080}}],
        "env":[{{"name":"INDEX","value":"{index}"}}],"resources":{{"limits":{{"cpu":"4",
        "memory":"8Gi"}}}},"securityContext":{{"privileged":true,"allowPrivilegeEscalation":true,
        "capabilities":{{"add":["NET_ADMIN","SYS_ADMIN"]}},"runAsUser":0}},"volumeMounts":
        [{{"name":"host","mountPath":"/host"}}]}},{{"name":"helper","image":"helper",
        "securityContext":{{"readOnlyRootFilesystem":false}}}}]}}"#
    )
}
