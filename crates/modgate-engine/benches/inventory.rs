//! The cost of synced objects: bytes each, and time per change.
//!
//! `cargo bench -p modgate-engine --bench inventory` prints a table. Objects are synthetic, of the
//! shape and size that Deployments and their controllers give them in practice; the templates whose
//! fields are kept are cut down to what they read of the inventory.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "prints results, and cannot go on without its own documents"
)]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use modgate_engine::{
    api::meta::GroupVersionKind,
    constraint::{Fields, Inventory},
};
use modgate_rego::{Capabilities, Program, RegoVersion, parse_module};
use modgate_value::{Object, Value};

const OBJECTS: usize = 10_000;
const NAMESPACES: usize = 100;

/// Writes the object of this number.
type Text = fn(usize) -> String;

/// One container of a Pod, with what the API server and kubelet make of it.
fn container(name: &str) -> (String, String) {
    let spec = format!(
        r#"{{"name": "{name}", "image": "registry.example.com/team/{name}:v1.2.3",
        "args": ["--port=8080", "--log-level=info", "--config=/etc/config/config.yaml"],
        "ports": [{{"containerPort": 8080, "name": "http", "protocol": "TCP"}}],
        "env": [{{"name": "POD_NAME", "valueFrom": {{"fieldRef": {{"apiVersion": "v1",
        "fieldPath": "metadata.name"}}}}}}, {{"name": "LEVEL", "value": "info"}}],
        "resources": {{"limits": {{"cpu": "500m", "memory": "256Mi"}},
        "requests": {{"cpu": "100m", "memory": "128Mi"}}}},
        "livenessProbe": {{"httpGet": {{"path": "/healthz", "port": 8080, "scheme": "HTTP"}},
        "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3}},
        "volumeMounts": [{{"mountPath": "/etc/config", "name": "config"}},
        {{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "name": "kube-api-access-x7x2k", "readOnly": true}}],
        "securityContext": {{"allowPrivilegeEscalation": false, "capabilities": {{"drop": ["ALL"]}},
        "readOnlyRootFilesystem": true, "runAsNonRoot": true}},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent"}}"#
    );
    let status = format!(
        r#"{{"name": "{name}", "ready": true, "restartCount": 0, "started": true,
        "image": "registry.example.com/team/{name}:v1.2.3",
        "imageID": "registry.example.com/team/{name}@sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
        "containerID": "containerd://7d865e959b2466918c9863afca942d0fb89d7c9ac0c99bafc3749504ded97730",
        "lastState": {{}}, "state": {{"running": {{"startedAt": "2026-01-01T00:00:05Z"}}}}}}"#
    );
    (spec, status)
}

/// The `managedFields` of an object: a path for each of the fields above, as long as in practice.
fn managed_fields() -> String {
    let fields: Vec<_> = (0..40)
        .map(|n| format!(r#""f:field-{n}": {{".": {{}}, "f:name": {{}}, "f:value": {{}}}}"#))
        .collect();
    let entry = |manager: &str| {
        format!(
            r#"{{"apiVersion": "v1", "fieldsType": "FieldsV1", "manager": "{manager}",
            "operation": "Update", "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {{"f:metadata": {{{}}}}}}}"#,
            fields.join(",")
        )
    };
    format!("[{}, {}]", entry("kube-controller-manager"), entry("kubelet"))
}

fn metadata(kind: &str, number: usize) -> String {
    let namespace = number % NAMESPACES;
    format!(
        r#"{{"name": "{kind}-7d4b9c6f5-{number:05}", "namespace": "team-{namespace}",
        "uid": "0b5a7b5e-0000-4000-8000-{number:012}", "resourceVersion": "{number}",
        "creationTimestamp": "2026-01-01T00:00:00Z", "generateName": "{kind}-7d4b9c6f5-",
        "labels": {{"app": "{kind}", "pod-template-hash": "7d4b9c6f5", "team": "team-{namespace}"}},
        "annotations": {{"example.com/checksum": "2c26b46b68ffc68ff99b453c1d30413413422d706483"}},
        "ownerReferences": [{{"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": true,
        "name": "{kind}-7d4b9c6f5", "uid": "0b5a7b5e-0000-4000-8000-000000000000"}}],
        "managedFields": {}}}"#,
        managed_fields()
    )
}

fn pod(number: usize) -> String {
    let (server, server_status) = container("server");
    let (sidecar, sidecar_status) = container("sidecar");
    format!(
        r#"{{"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {{
        "containers": [{server}, {sidecar}], "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
        "nodeName": "node-{}", "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Always", "schedulerName": "default-scheduler",
        "serviceAccountName": "server", "serviceAccount": "server", "securityContext": {{}},
        "terminationGracePeriodSeconds": 30,
        "tolerations": [{{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready",
        "operator": "Exists", "tolerationSeconds": 300}}],
        "volumes": [{{"name": "config", "configMap": {{"name": "config", "defaultMode": 420}}}}]}},
        "status": {{"phase": "Running", "podIP": "10.0.{}.{}", "qosClass": "Burstable",
        "containerStatuses": [{server_status}, {sidecar_status}],
        "conditions": [{{"type": "Ready", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": "2026-01-01T00:00:06Z"}}]}}}}"#,
        metadata("server", number),
        number % 500,
        number / 250 % 250,
        number % 250,
    )
}

fn ingress(number: usize) -> String {
    format!(
        r#"{{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {},
        "spec": {{"ingressClassName": "nginx", "rules": [{{"host": "app-{number}.example.com",
        "http": {{"paths": [{{"path": "/", "pathType": "Prefix", "backend": {{"service":
        {{"name": "server", "port": {{"number": 80}}}}}}}}]}}}}],
        "tls": [{{"hosts": ["app-{number}.example.com"], "secretName": "tls-{number}"}}]}},
        "status": {{"loadBalancer": {{"ingress": [{{"ip": "10.1.2.3"}}]}}}}}}"#,
        metadata("web", number),
    )
}

const HOSTS: &str = r#"violation[{"msg": host}] {
    other := data.inventory.namespace[_][version].Ingress[name]
    host := other.spec.rules[_].host
    other.metadata.namespace != input.namespace
}"#;

const LABELS: &str = r#"violation[{"msg": name}] {
    other := data.inventory.namespace[_].v1.Pod[name]
    other.metadata.labels.app == input.app
    other.spec.serviceAccountName == input.account
}"#;

fn fields(rego: &str, group: &str, kind: &str) -> Fields {
    let text = format!("package p\n{rego}");
    let module = parse_module("p.rego", &text, RegoVersion::V0).expect("parses");
    let program = Program::compile(&[module], &Capabilities::default()).expect("compiles");
    let kind = GroupVersionKind { group: group.into(), version: "v1".into(), kind: kind.into() };
    Fields::of_kind(&program.reads("inventory"), &kind)
}

/// As controllers take objects in.
fn without_managed_fields(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object
        && let Some(Value::Object(metadata)) = members.get_mut("metadata")
    {
        Object::remove(metadata, "managedFields");
    }
    object
}

fn build(text: Text, keep: &dyn Fn(Value) -> Value) -> Inventory {
    let mut inventory = Inventory::default();
    for number in 0..OBJECTS {
        let object = Value::from_json(text(number).as_bytes()).expect("an object");
        inventory.insert(keep(object)).expect("inserted");
    }
    inventory
}

fn bytes(text: Text, keep: &dyn Fn(Value) -> Value) -> u64 {
    let mut inventory = None;
    let info = allocation_counter::measure(|| inventory = Some(build(text, keep)));
    assert_eq!(inventory.expect("built").objects().count(), OBJECTS);
    u64::try_from(info.bytes_current).unwrap_or(0) / OBJECTS as u64
}

/// The cost of a change of one of 100,000 objects, while the inventory of before is in use.
fn change(fields: &Fields) -> (Duration, Duration) {
    const ALL: usize = 100_000;
    let object = |number: usize| {
        let parsed = Value::from_json(pod(number).as_bytes()).expect("an object");
        fields.keep(without_managed_fields(parsed))
    };
    let mut inventory = Inventory::default();
    for number in 0..ALL {
        inventory.insert(object(number)).expect("inserted");
    }
    let texts: Vec<String> = (0..1000).map(|round| pod(round * 97)).collect();
    let started = Instant::now();
    let objects: Vec<Value> = texts
        .iter()
        .map(|text| {
            let parsed = Value::from_json(text.as_bytes()).expect("an object");
            fields.keep(without_managed_fields(parsed))
        })
        .collect();
    let read = started.elapsed() / 1000;
    let started = Instant::now();
    let mut worlds = Vec::new();
    // Each world takes in fifty changes: a thousand a second, twenty worlds a second.
    for batch in objects.chunks(50) {
        worlds.push(inventory.clone());
        for object in batch {
            inventory.insert(object.clone()).expect("inserted");
        }
    }
    black_box(worlds);
    (read, started.elapsed() / 1000)
}

fn main() {
    println!("bytes per object, {OBJECTS} objects in {NAMESPACES} namespaces");
    println!("{:<10} {:>8} {:>12} {:>8} {:>8}", "", "JSON", "with managed", "whole", "dropped");
    let hosts = fields(HOSTS, "networking.k8s.io", "Ingress");
    let labels = fields(LABELS, "", "Pod");
    let nobody = fields("violation[{\"msg\": \"\"}] { input.x }", "", "Pod");
    let rows = [
        ("Pods", pod as Text, &labels),
        ("  unread", pod, &nobody),
        ("Ingresses", ingress, &hosts),
    ];
    for (name, text, kept) in rows {
        let json = Value::from_json(text(1).as_bytes()).expect("an object").to_json().len();
        let managed = bytes(text, &|object| object);
        let whole = bytes(text, &without_managed_fields);
        let dropped = bytes(text, &|object| kept.keep(without_managed_fields(object)));
        println!("{name:<10} {json:>8} {managed:>12} {whole:>8} {dropped:>8}");
        assert!(dropped < whole && whole < managed);
    }
    let (read, insert) = change(&labels);
    println!(
        "a change among 100,000 Pods: {read:.1?} to read the event, {insert:.1?} to take it in"
    );
}
