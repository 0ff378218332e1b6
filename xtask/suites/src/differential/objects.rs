//! Random objects, Namespaces and match blocks, from pools small enough that policies meet them.

use serde_json::{Map, Value, json};

use super::random::Random;

pub(crate) const NAMES: &[&str] = &["web", "db", "shop-api", "a", "web-1", "kube-proxy"];
pub(crate) const NAMESPACES: &[&str] = &["default", "shop", "kube-system", "team-a", "prod-1"];
pub(crate) const LABELS: &[&str] = &["app", "team", "example.com/tier", "env"];
pub(crate) const WORDS: &[&str] =
    &["web", "db", "prod", "", "dev", "web-1", "Web", "10", "true", "a.b/c", "ä", "1Gi"];
/// Those of them that a label may have: modgate refuses other ones in the selectors of mutators
/// (`fix-selector-validation`).
pub(crate) const LABEL_WORDS: &[&str] =
    &["web", "db", "prod", "", "dev", "web-1", "Web", "10", "true"];
pub(crate) const IMAGES: &[&str] = &[
    "nginx",
    "nginx:1.25",
    "docker.io/library/nginx:latest",
    "ghcr.io/shop/api@sha256:ab",
    "localhost:5000/web:1",
    "nginx:",
];
const AMOUNTS: &[&str] = &["100m", "1", "0.5", "2Gi", "1024Mi", "1e3", "8G", "bad", ""];
/// Kinds of object: group, version, kind, whether it stands in a Namespace.
pub(crate) const KINDS: &[(&str, &str, &str, bool)] = &[
    ("", "v1", "Pod", true),
    ("", "v1", "Pod", true),
    ("apps", "v1", "Deployment", true),
    ("", "v1", "ConfigMap", true),
    ("", "v1", "Service", true),
    ("", "v1", "Namespace", false),
    ("example.com", "v1", "Widget", true),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", false),
];

/// Some objects and, for most of their Namespaces, the Namespace.
pub(crate) fn documents(random: &mut Random) -> Vec<Value> {
    let mut documents: Vec<Value> = (0..=random.below(4)).map(|at| object(random, at)).collect();
    for name in NAMESPACES {
        if random.chance(60) {
            documents.push(json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": name, "labels": labels(random)}}));
        }
    }
    documents
}

/// An object of one of the `KINDS`; `at` makes its name another one than that of the others.
pub(crate) fn object(random: &mut Random, at: usize) -> Value {
    let (group, version, kind, namespaced) = KINDS[random.below(KINDS.len())];
    let api = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    // Names differ: two objects of one name are one object to a cluster.
    let mut metadata = json!({"name": format!("{}-{at}", random.pick(NAMES))});
    if random.chance(80) {
        metadata["labels"] = labels(random);
    }
    if random.chance(30) {
        metadata["annotations"] = labels(random);
    }
    if namespaced && random.chance(90) {
        metadata["namespace"] = json!(random.pick(NAMESPACES));
    }
    let mut object = json!({"apiVersion": api, "kind": kind, "metadata": metadata});
    match kind {
        "Pod" => object["spec"] = pod_spec(random),
        "Deployment" => {
            object["spec"] = json!({"replicas": random.below(5), "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": labels(random)}, "spec": pod_spec(random)}});
        }
        "ConfigMap" => object["data"] = labels(random),
        "Widget" => object["spec"] = tree(random, 3),
        "ClusterRole" => {
            object["rules"] =
                json!([{"apiGroups": ["*"], "resources": [random.pick(WORDS)], "verbs": ["get"]}]);
        }
        "Service" => {
            object["spec"] = json!({"type": random.pick(&["NodePort", "ClusterIP", "LoadBalancer"]),
                "ports": [{"port": 80 + random.below(3), "name": random.pick(WORDS)}]});
        }
        _ => {}
    }
    object
}

/// Some of the `LABELS`, with one of the `WORDS` each.
pub(crate) fn labels(random: &mut Random) -> Value {
    let mut labels = Map::new();
    for label in LABELS {
        if random.chance(45) {
            labels.insert((*label).to_owned(), json!(random.pick(WORDS)));
        }
    }
    Value::Object(labels)
}

fn pod_spec(random: &mut Random) -> Value {
    let mut spec = json!({"containers": containers(random)});
    if random.chance(25) {
        spec["initContainers"] = containers(random);
    }
    if random.chance(30) {
        spec["hostNetwork"] = json!(random.chance(50));
    }
    if random.chance(20) {
        spec["volumes"] =
            json!([{"name": "v", "hostPath": {"path": random.pick(&["/", "/var", "/var/log"])}}]);
    }
    spec
}

fn containers(random: &mut Random) -> Value {
    let containers = (0..=random.below(3)).map(|at| {
        let mut container = json!({"name": format!("c{at}"), "image": random.pick(IMAGES)});
        if random.chance(50) {
            container["resources"] =
                json!({"limits": {"memory": random.pick(AMOUNTS), "cpu": random.pick(AMOUNTS)}});
        }
        if random.chance(40) {
            container["securityContext"] =
                json!({"privileged": random.chance(50), "runAsUser": random.below(3)});
        }
        if random.chance(25) {
            container["ports"] = json!([{"containerPort": 80, "hostPort": random.below(9000)}]);
        }
        container
    });
    containers.collect()
}

/// A value of any shape, at most `depth` deep.
pub(crate) fn tree(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.chance(50)),
        2 => json!(random.below(12)),
        3 => json!(*random.pick(&[&0.5, &-1.0, &1e21, &2.25, &100.0])),
        4 | 5 => json!(random.pick(WORDS)),
        6 => (0..random.below(4)).map(|_| tree(random, depth - 1)).collect(),
        _ => {
            let members = ["n", "text", "list", "deep"].iter().filter(|_| random.chance(60));
            let names: Vec<&str> = members.copied().collect();
            names.into_iter().map(|name| (name.to_owned(), tree(random, depth - 1))).collect()
        }
    }
}

/// A match block as constraints have it; `words` are the values that its selectors look for.
pub(crate) fn matching(random: &mut Random, words: &[&str]) -> Value {
    let mut block = json!({});
    if random.chance(70) {
        let kinds = (0..=random.below(2)).map(|_| {
            let (group, _, kind, _) = KINDS[random.below(KINDS.len())];
            json!({"apiGroups": [random.pick(&["*", group])], "kinds": [random.pick(&[kind, kind, "*"])]})
        });
        block["kinds"] = kinds.collect();
    }
    for (member, chance) in [("namespaces", 25), ("excludedNamespaces", 20)] {
        if random.chance(chance) {
            let patterns = (0..=random.below(2)).map(|_| {
                json!(random.pick(&["default", "shop", "kube-*", "*-1", "*", "team-a", "*eam*"]))
            });
            block[member] = patterns.collect();
        }
    }
    for member in ["labelSelector", "namespaceSelector"] {
        if random.chance(20) {
            block[member] = selector(random, words);
        }
    }
    if random.chance(15) {
        block["scope"] = json!(random.pick(&["*", "Cluster", "Namespaced"]));
    }
    if random.chance(10) {
        block["name"] = json!(random.pick(&["web*", "*-0", "db-1"]));
    }
    if random.chance(8) {
        block["source"] = json!(random.pick(&["All", "Generated", "Original"]));
    }
    block
}

fn selector(random: &mut Random, words: &[&str]) -> Value {
    let mut selector = json!({});
    if random.chance(50) {
        selector["matchLabels"] = json!({random.pick(LABELS): random.pick(words)});
    }
    if random.chance(60) {
        let operator = random.pick(&["In", "NotIn", "Exists", "DoesNotExist"]);
        let mut expression = json!({"key": random.pick(LABELS), "operator": operator});
        if operator.ends_with("In") {
            expression["values"] = json!([random.pick(words), "prod"]);
        }
        selector["matchExpressions"] = json!([expression]);
    }
    selector
}
