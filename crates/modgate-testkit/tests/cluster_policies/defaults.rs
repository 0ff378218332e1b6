//! Defaults of objects: ours beside those of the API server.

use modgate_engine::admissionpolicy::Types;
use modgate_value::{Object, Value, yaml};

use super::{api::Api, text};

/// Objects with as little as the API server takes, and with what defaults depend on.
const OBJECTS: &str = r#"
- {apiVersion: v1, kind: Pod, path: /api/v1/namespaces/default/pods, spec: {containers: [{name: a, image: 'x:1', resources: {limits: {cpu: 2, memory: 1024Mi}}, ports: [{containerPort: 80}], livenessProbe: {httpGet: {port: 80}}, readinessProbe: {grpc: {port: 80}}, env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}, {name: b, image: x}], initContainers: [{name: i, image: 'r.io:5000/x@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}], volumes: [{name: a}, {name: b, secret: {secretName: s}}, {name: c, configMap: {name: m}}, {name: d, hostPath: {path: /x}}, {name: e, projected: {sources: [{serviceAccountToken: {path: t}}]}}, {name: f, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.labels}}]}}], hostNetwork: false, hostPID: false, automountServiceAccountToken: false}}
- {apiVersion: apps/v1, kind: Deployment, path: /apis/apps/v1/namespaces/default/deployments, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {serviceAccountName: s, containers: [{name: a, image: 'x:latest', resources: {limits: {cpu: 1000m}}}]}}}}
- {apiVersion: apps/v1, kind: Deployment, path: /apis/apps/v1/namespaces/default/deployments, spec: {strategy: {type: Recreate}, replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: 'x:latest'}]}}}}
- {apiVersion: apps/v1, kind: ReplicaSet, path: /apis/apps/v1/namespaces/default/replicasets, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}}}
- {apiVersion: apps/v1, kind: StatefulSet, path: /apis/apps/v1/namespaces/default/statefulsets, spec: {serviceName: s, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}, volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}]}}
- {apiVersion: apps/v1, kind: DaemonSet, path: /apis/apps/v1/namespaces/default/daemonsets, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}}}
- {apiVersion: batch/v1, kind: Job, path: /apis/batch/v1/namespaces/default/jobs, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: x}]}}}}
- {apiVersion: batch/v1, kind: Job, path: /apis/batch/v1/namespaces/default/jobs, spec: {parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: x}]}}}}
- {apiVersion: batch/v1, kind: CronJob, path: /apis/batch/v1/namespaces/default/cronjobs, spec: {schedule: '* * * * *', jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: x}]}}}}}}
- {apiVersion: v1, kind: Service, path: /api/v1/namespaces/default/services, spec: {selector: {a: b}, ports: [{port: 80}]}}
- {apiVersion: v1, kind: Service, path: /api/v1/namespaces/default/services, spec: {type: LoadBalancer, selector: {a: b}, ports: [{port: 80, targetPort: web}]}}
- {apiVersion: v1, kind: Service, path: /api/v1/namespaces/default/services, spec: {type: ExternalName, externalName: a.b}}
- {apiVersion: v1, kind: PersistentVolumeClaim, path: /api/v1/namespaces/default/persistentvolumeclaims, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 0.5Gi}}}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, path: /apis/networking.k8s.io/v1/namespaces/default/networkpolicies, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}
- {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, path: /apis/networking.k8s.io/v1/namespaces/default/networkpolicies, spec: {podSelector: {matchLabels: {a: b}}, egress: [{}]}}
- {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, path: /apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings, roleRef: {kind: ClusterRole, name: view}, subjects: [{kind: User, name: ann}, {kind: ServiceAccount, name: s, namespace: default}]}
- {apiVersion: v1, kind: Secret, path: /api/v1/namespaces/default/secrets}
- {apiVersion: storage.k8s.io/v1, kind: StorageClass, path: /apis/storage.k8s.io/v1/storageclasses, provisioner: a.b/c}
"#;

/// What the API server or its admission fills from the cluster, not from a table.
const OF_THE_CLUSTER: [&str; 13] = [
    "clusterIP",
    "clusterIPs",
    "creationTimestamp",
    "ipFamilies",
    "ipFamilyPolicy",
    "nodePort",
    "preemptionPolicy",
    "priority",
    "serviceAccount",
    "serviceAccountName",
    "status",
    "tolerations",
    "metadata",
];

/// Minimal objects of the kinds that have defaults, with their paths.
pub(crate) fn objects() -> Vec<(String, Value)> {
    let all = yaml::value(OBJECTS).expect("YAML");
    let all = all.as_array().expect("a list").iter();
    all.map(|object| {
        let mut members = object.as_object().expect("an object").clone();
        let path = members.remove("path").and_then(|it| it.as_str().map(str::to_owned));
        let metadata = [("name", Value::from("example"))].into_iter().collect::<Value>();
        members.insert("metadata", metadata);
        (format!("{}?dryRun=All", path.expect("a path")), members.into())
    })
    .collect()
}

/// What differs between an object that the API server returned and ours.
pub(crate) fn differences(object: &Value, answer: &Value) -> Vec<String> {
    let stored = Types::kubernetes().as_stored(object).expect("a kind that is known");
    let mut found = Vec::new();
    compare("", &stored, answer, &mut found);
    found
}

fn compare(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let none = Value::Null;
            let names: std::collections::BTreeSet<_> =
                members(ours).chain(members(theirs)).collect();
            for name in names {
                let (one, other) = (ours.get(name), theirs.get(name));
                let path = format!("{path}.{name}");
                compare(&path, one.unwrap_or(&none), other.unwrap_or(&none), found);
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (index, (one, other)) in ours.iter().zip(theirs.iter()).enumerate() {
                compare(&format!("{path}[{index}]"), one, other, found);
            }
        }
        (ours, theirs) if ours == theirs => {}
        (ours, theirs) => found.push(format!("{path}: API server {theirs}, ours {ours}")),
    }
}

fn members(object: &Object) -> impl Iterator<Item = &str> {
    let names = object.iter().map(|(name, _)| name.as_str());
    names.filter(|name| !OF_THE_CLUSTER.contains(name))
}

/// Sends the minimal objects: how many, and what differs.
pub(crate) fn check(api: &mut Api) -> (usize, Vec<String>) {
    let objects = objects();
    let mut wrong = Vec::new();
    for (path, object) in &objects {
        let answer = api.send("POST", path, Some(object));
        assert_eq!(answer.code, 201, "{object}: {}", text(&answer.body, &["message"]));
        let kind = text(object, &["kind"]);
        let found = differences(object, &answer.body);
        wrong.extend(found.into_iter().map(|difference| format!("{kind}{difference}")));
    }
    (objects.len(), wrong)
}
