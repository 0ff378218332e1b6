//! The values that `modgate migrate --check --write-values` writes, given to Helm: what the chart makes of
//! them is compared with what was installed, field by field.

use std::{fs, path::Path, process::Command};

use modgate_testkit::cluster::build;
use modgate_value::yaml;
use serde_json::{Value, json};
use tempfile::TempDir;

const HOME: &str = "gatekeeper-system";

/// Gatekeeper as its manifests install it, as far as the chart can differ.
const GATEKEEPER: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gatekeeper-validating-webhook-configuration}
webhooks:
- name: validation.gatekeeper.sh
  clientConfig: {service: {name: gatekeeper-webhook-service, namespace: gatekeeper-system, path: /v1/admit}}
  failurePolicy: Ignore
  matchPolicy: Exact
  timeoutSeconds: 3
  sideEffects: None
  admissionReviewVersions: [v1, v1beta1]
  namespaceSelector: &selector
    matchExpressions:
    - {key: admission.gatekeeper.sh/ignore, operator: DoesNotExist}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [gatekeeper-system]}
  rules: &rules
  - apiGroups: ['*']
    apiVersions: ['*']
    operations: [CREATE, UPDATE]
    resources: ['*', pods/ephemeralcontainers, pods/exec, pods/log, pods/eviction, pods/portforward, pods/proxy,
      pods/attach, pods/binding, pods/resize, deployments/scale, replicasets/scale, statefulsets/scale,
      replicationcontrollers/scale, services/proxy, nodes/proxy, services/status]
- name: check-ignore-label.gatekeeper.sh
  clientConfig: {service: {name: gatekeeper-webhook-service, namespace: gatekeeper-system, path: /v1/admitlabel}}
  failurePolicy: Fail
  matchPolicy: Exact
  timeoutSeconds: 3
  sideEffects: None
  admissionReviewVersions: [v1, v1beta1]
  namespaceSelector:
    matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [gatekeeper-system]}]
  rules: [{apiGroups: [''], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [namespaces]}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: gatekeeper-mutating-webhook-configuration}
webhooks:
- name: mutation.gatekeeper.sh
  clientConfig: {service: {name: gatekeeper-webhook-service, namespace: gatekeeper-system, path: /v1/mutate}}
  failurePolicy: Ignore
  matchPolicy: Exact
  timeoutSeconds: 1
  sideEffects: None
  admissionReviewVersions: [v1, v1beta1]
  namespaceSelector:
    matchExpressions:
    - {key: admission.gatekeeper.sh/ignore, operator: DoesNotExist}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [gatekeeper-system]}
  rules:
  - apiGroups: ['*']
    apiVersions: ['*']
    operations: [CREATE, UPDATE]
    resources: ['*', pods/ephemeralcontainers, pods/exec, pods/log, pods/eviction, pods/portforward, pods/proxy,
      pods/attach, pods/binding, pods/resize, deployments/scale, replicasets/scale, statefulsets/scale,
      replicationcontrollers/scale, services/proxy, nodes/proxy, services/status]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gatekeeper-controller-manager, namespace: gatekeeper-system}
spec:
  replicas: 3
  template:
    metadata: {labels: {control-plane: controller-manager}}
    spec:
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
          - weight: 100
            podAffinityTerm: {labelSelector: {matchLabels: {a: b}}, topologyKey: kubernetes.io/hostname}
      containers:
      - name: manager
        image: openpolicyagent/gatekeeper:v3.22.0
        args: [--port=8443, --logtostderr, --exempt-namespace=gatekeeper-system, --operation=webhook, --operation=mutation-webhook]
        env: [{name: CONTAINER_NAME, value: manager}]
        resources: {limits: {memory: 512Mi}, requests: {cpu: 100m, memory: 512Mi}}
      nodeSelector: {kubernetes.io/os: linux}
      priorityClassName: system-cluster-critical
      serviceAccountName: gatekeeper-admin
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gatekeeper-audit, namespace: gatekeeper-system}
spec:
  replicas: 1
  template:
    metadata: {labels: {control-plane: audit-controller}}
    spec:
      containers:
      - name: manager
        image: openpolicyagent/gatekeeper:v3.22.0
        args: [--operation=audit, --operation=status, --logtostderr, --audit-interval=60]
        resources: {limits: {memory: 512Mi}, requests: {cpu: 100m, memory: 512Mi}}
      nodeSelector: {kubernetes.io/os: linux}
      priorityClassName: system-cluster-critical
      serviceAccountName: gatekeeper-admin
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: gatekeeper-controller-manager, namespace: gatekeeper-system}
spec: {minAvailable: 1}
"#;

/// KubeMod likewise.
const KUBEMOD: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kubemod-mutating-webhook-configuration}
webhooks:
- name: mmodrule.kubemod.io
  clientConfig: {service: {name: kubemod-webhook-service, namespace: kubemod-system}}
  failurePolicy: Fail
  timeoutSeconds: 5
  rules: [{apiGroups: [api.kubemod.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [modrules]}]
- name: dragnet.kubemod.io
  clientConfig: {service: {name: kubemod-webhook-service, namespace: kubemod-system}}
  failurePolicy: Ignore
  matchPolicy: Equivalent
  reinvocationPolicy: IfNeeded
  timeoutSeconds: 10
  namespaceSelector:
    matchExpressions: [{key: admission.kubemod.io/ignore, operator: NotIn, values: ['true']}]
  rules:
  - apiGroups: ['*']
    apiVersions: ['*']
    operations: [CREATE, UPDATE, DELETE]
    scope: '*'
    resources: [namespaces, nodes, configmaps, persistentvolumeclaims, persistentvolumes, secrets, services,
      daemonsets, deployments, replicasets, statefulsets, horizontalpodautoscalers, ingresses, pods, cronjobs,
      jobs, serviceaccounts, clusterrolebindings, clusterroles, rolebindings, roles]
- name: podbinding.kubemod.io
  clientConfig: {service: {name: kubemod-webhook-service, namespace: kubemod-system}}
  failurePolicy: Fail
  timeoutSeconds: 10
  namespaceSelector:
    matchExpressions: [{key: admission.kubemod.io/ignore, operator: NotIn, values: ['true']}]
  rules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods/binding], scope: '*'}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kubemod-validating-webhook-configuration}
webhooks:
- name: vmodrule.kubemod.io
  clientConfig: {service: {name: kubemod-webhook-service, namespace: kubemod-system}}
  failurePolicy: Fail
  timeoutSeconds: 5
  rules: [{apiGroups: [api.kubemod.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [modrules]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kubemod-operator, namespace: kubemod-system}
spec:
  replicas: 1
  template:
    spec: {containers: [{name: manager, image: 'kubemod/kubemod:v0.19.1', command: [/kubemod, -operator, -webapp]}]}
"#;

fn documents(text: &str) -> Vec<Value> {
    let plain =
        |value: &modgate_value::Value| serde_json::from_str(&value.to_json()).expect("JSON");
    let all = yaml::load(text).expect("YAML");
    all.iter().map(|it| plain(&it.value)).filter(|it: &Value| !it.is_null()).collect()
}

/// An installation: objects of the originals, some of them changed.
struct Installation(Vec<Value>);

impl Installation {
    fn of(texts: &[&str]) -> Self {
        Self(texts.iter().flat_map(|text| documents(text)).collect())
    }

    fn named(&mut self, kind: &str, name: &str) -> &mut Value {
        let found =
            self.0.iter_mut().find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("{kind} {name}"))
    }

    /// Sets members of an entry, whichever configuration it is in.
    fn entry(mut self, name: &str, members: Value) -> Self {
        let entries = self.0.iter_mut().filter_map(|it| it.get_mut("webhooks"));
        let mut entries = entries.flat_map(|it| it.as_array_mut().expect("entries"));
        let entry = entries.find(|it| it["name"] == name).expect(name);
        for (key, value) in members.as_object().expect("members") {
            entry[key] = value.clone();
        }
        self
    }

    fn without_entry(mut self, name: &str) -> Self {
        for webhooks in self.0.iter_mut().filter_map(|it| it.get_mut("webhooks")) {
            webhooks.as_array_mut().expect("entries").retain(|it| it["name"] != name);
        }
        self.0.retain(|it| it.get("webhooks").is_none_or(|all| all != &json!([])));
        self
    }

    /// Sets members of the Pods of a Deployment, and of their first container.
    fn pods(mut self, deployment: &str, pod: Value, container: Value) -> Self {
        let spec = &mut self.named("Deployment", deployment)["spec"]["template"]["spec"];
        for (key, value) in pod.as_object().expect("members") {
            spec[key] = value.clone();
        }
        for (key, value) in container.as_object().expect("members") {
            spec["containers"][0][key] = value.clone();
        }
        self
    }

    fn set(mut self, kind: &str, name: &str, pointer: &str, value: Value) -> Self {
        *self.named(kind, name).pointer_mut(pointer).expect(pointer) = value;
        self
    }
}

const SERVING: &str = "gatekeeper-controller-manager";
const AUDIT: &str = "gatekeeper-audit";

fn installations() -> Vec<(&'static str, Installation)> {
    let gatekeeper = || Installation::of(&[GATEKEEPER]);
    let ignored = json!({"key": "admission.gatekeeper.sh/ignore", "operator": "DoesNotExist"});
    vec![
        (
            "fails closed, with a selector of its own, and an audit of large objects",
            gatekeeper()
                .entry(
                    "validation.gatekeeper.sh",
                    json!({"failurePolicy": "Fail", "timeoutSeconds": 9, "namespaceSelector":
                        {"matchExpressions": [{"key": "team", "operator": "Exists"}]}}),
                )
                .pods(AUDIT, json!({}), json!({"resources": {"limits": {"memory": "4Gi"}}})),
        ),
        (
            "exempts namespaces, labels and requests",
            gatekeeper()
                .entry(
                    "validation.gatekeeper.sh",
                    json!({"matchPolicy": "Equivalent",
                        "objectSelector": {"matchLabels": {"checked": "yes"}},
                        "matchConditions": [{"name": "a", "expression": "request.name != 'b'"}],
                        "namespaceSelector": {"matchExpressions": [ignored,
                            {"key": "env", "operator": "In", "values": ["prod", "test"]},
                            {"key": "kubernetes.io/metadata.name", "operator": "NotIn",
                             "values": ["kube-system", HOME, "istio"]}]}}),
                )
                .entry("check-ignore-label.gatekeeper.sh", json!({"failurePolicy": "Ignore"}))
                .entry(
                    "mutation.gatekeeper.sh",
                    json!({"reinvocationPolicy": "IfNeeded", "namespaceSelector": {
                        "matchLabels": {"mutated": "yes"},
                        "matchExpressions": [{"key": "kubernetes.io/metadata.name",
                            "operator": "NotIn", "values": [HOME]}]}}),
                ),
        ),
        (
            "has rules of its own",
            gatekeeper()
                .entry(
                    "validation.gatekeeper.sh",
                    json!({"rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"],
                         "resources": ["pods"], "scope": "Namespaced"},
                        {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"],
                         "resources": ["*", "*/scale"]}]}),
                )
                .entry(
                    "mutation.gatekeeper.sh",
                    json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["v1"], "scope": "Cluster",
                        "operations": ["CREATE"], "resources": ["namespaces"]}]}),
                ),
        ),
        (
            "runs elsewhere, with other flags",
            gatekeeper()
                .set("Deployment", SERVING, "/spec/replicas", json!(5))
                .set("PodDisruptionBudget", SERVING, "/spec/minAvailable", json!(3))
                .set(
                    "Deployment",
                    SERVING,
                    "/spec/template/metadata",
                    json!({"annotations": {"note": "ours", "checksum/x": "0"}}),
                )
                .pods(
                    SERVING,
                    json!({"nodeSelector": {"pool": "system", "kubernetes.io/os": "linux"},
                        "tolerations": [{"key": "system", "operator": "Exists"}],
                        "priorityClassName": "high", "hostNetwork": true,
                        "imagePullSecrets": [{"name": "mirror"}],
                        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                            {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}}}),
                    json!({"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
                        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy"}],
                        "args": ["--port=8443", "--operation=webhook", "--operation=mutation-webhook",
                            "--log-denies", "--exempt-namespace=kube-system",
                            "--exempt-namespace-prefix=kube-", "--enable-external-data=false"]}),
                )
                .pods(
                    AUDIT,
                    json!({"tolerations": [{"key": "audit", "operator": "Exists"}]}),
                    json!({"args": ["--operation=audit", "--audit-interval=300",
                        "--constraint-violations-limit=100", "--audit-chunk-size=50"]}),
                ),
        ),
        (
            "has no mutation, and other names",
            gatekeeper().without_entry("mutation.gatekeeper.sh").set(
                "ValidatingWebhookConfiguration",
                "gatekeeper-validating-webhook-configuration",
                "/metadata/name",
                json!("ours"),
            ),
        ),
        (
            "is KubeMod alone, about few resources, without bindings",
            Installation::of(&[KUBEMOD])
                .entry(
                    "dragnet.kubemod.io",
                    json!({"failurePolicy": "Fail", "timeoutSeconds": 20, "rules": [
                        {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
                         "resources": ["pods", "pods/ephemeralcontainers"], "scope": "*"}]}),
                )
                .entry("mmodrule.kubemod.io", json!({"failurePolicy": "Ignore", "timeoutSeconds": 7}))
                .entry("vmodrule.kubemod.io", json!({"failurePolicy": "Ignore", "timeoutSeconds": 7}))
                .without_entry("podbinding.kubemod.io"),
        ),
        (
            "is both, as strict as can be",
            Installation::of(&[GATEKEEPER, KUBEMOD])
                .entry("validation.gatekeeper.sh", json!({"failurePolicy": "Fail"}))
                .entry("mutation.gatekeeper.sh", json!({"failurePolicy": "Fail", "timeoutSeconds": 30}))
                .entry(
                    "dragnet.kubemod.io",
                    json!({"failurePolicy": "Fail", "namespaceSelector": {},
                        "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}}),
                ),
        ),
    ]
}

/// Exit code, standard output and standard error of `modgate migrate --check`.
fn migrate(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(["migrate", "--check"])
        .args(arguments)
        .env("NO_COLOR", "1")
        .env_remove("KUBECONFIG")
        .output()
        .expect("modgate");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().expect("exited"), text(&output.stdout), text(&output.stderr))
}

/// An entry as the API server defaults it, with lists whose order says nothing sorted.
fn defaulted(entry: &Value, kind: &str) -> Value {
    let or = |key: &str, default: Value| match &entry[key] {
        Value::Null => default,
        value => value.clone(),
    };
    let sorted = |value: &Value| {
        let mut all: Vec<String> =
            value.as_array().into_iter().flatten().map(Value::to_string).collect();
        all.sort();
        all
    };
    let rules = entry["rules"].as_array().expect("rules").iter().map(|rule| {
        let of = |key: &str| sorted(&rule[key]);
        let scope = rule["scope"].as_str().unwrap_or("*");
        json!([of("apiGroups"), of("apiVersions"), of("operations"), of("resources"), scope])
    });
    let mut expressions: Vec<Value> =
        entry["namespaceSelector"]["matchExpressions"].as_array().cloned().unwrap_or_default();
    // modgate's own namespace is never sent, whatever was before.
    let mut exempt = vec![json!(HOME).to_string()];
    expressions.retain(|it| {
        let is_name = it["key"] == "kubernetes.io/metadata.name" && it["operator"] == "NotIn";
        if is_name {
            exempt.extend(sorted(&it["values"]));
        }
        !is_name
    });
    exempt.sort();
    exempt.dedup();
    json!({
        "failurePolicy": or("failurePolicy", json!("Fail")),
        "timeoutSeconds": or("timeoutSeconds", json!(10)),
        "matchPolicy": or("matchPolicy", json!("Equivalent")),
        "reinvocationPolicy": or("reinvocationPolicy", match kind.starts_with("Mut") {
            true => json!("Never"),
            false => Value::Null,
        }),
        "rules": rules.collect::<Vec<_>>(),
        "labels": or("namespaceSelector", json!({})).get("matchLabels").cloned().unwrap_or(json!({})),
        "expressions": sorted(&expressions.into()),
        "exempt": exempt,
        "objectSelector": or("objectSelector", json!({})),
        "matchConditions": or("matchConditions", json!([])),
    })
}

fn entries(all: &[Value]) -> Vec<(String, String, Value)> {
    let mut found = Vec::new();
    for object in all {
        let (kind, name) = (object["kind"].as_str().expect("kind"), &object["metadata"]["name"]);
        for entry in object["webhooks"].as_array().into_iter().flatten() {
            let mut value = defaulted(entry, kind);
            if entry["name"] == "podbinding.kubemod.io" {
                // It never denies (Q-37).
                value["failurePolicy"] = "Ignore".into();
            }
            let name = name.as_str().expect("name").to_owned();
            found.push((entry["name"].as_str().expect("name").to_owned(), name, value));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// Whether everything that `had` says is in `has`.
fn is_within(had: &Value, has: &Value) -> bool {
    match (had, has) {
        (Value::Object(had), Value::Object(has)) => {
            had.iter().all(|(key, value)| has.get(key).is_some_and(|it| is_within(value, it)))
        }
        (Value::Array(had), Value::Array(has)) => {
            had.iter().all(|value| has.iter().any(|it| is_within(value, it)))
        }
        _ => had == has,
    }
}

/// Entries that KubeMod never had: the report names them as differences.
const ADDED: [&str; 2] = ["check-ignore-label.kubemod.io", "rejections.kubemod.io"];

/// Every difference between what was installed and what the chart makes.
fn differences(installed: &[Value], rendered: &[Value]) -> Vec<String> {
    let mut all = Vec::new();
    let (before, after) = (entries(installed), entries(rendered));
    for (name, configuration, value) in &before {
        match after.iter().find(|it| it.0 == *name) {
            None => all.push(format!("{name} is gone")),
            Some((_, other, new)) => {
                if other != configuration {
                    all.push(format!("{name} is in {other}, was in {configuration}"));
                }
                for (key, old) in value.as_object().expect("an object") {
                    if *old != new[key] {
                        all.push(format!("{name} {key}: {old} is {}", new[key]));
                    }
                }
            }
        }
    }
    let is_new = |name: &str| before.iter().all(|old| old.0 != name) && !ADDED.contains(&name);
    all.extend(after.iter().filter(|it| is_new(&it.0)).map(|it| format!("{} is new", it.0)));
    let deployment = |of: &[Value], name: &str| {
        of.iter().find(|it| it["kind"] == "Deployment" && it["metadata"]["name"] == name).cloned()
    };
    let ours = deployment(rendered, "modgate").expect("modgate");
    let pairs = [
        (deployment(installed, SERVING), ours.clone()),
        (deployment(installed, AUDIT), deployment(rendered, "modgate-audit").unwrap_or(ours)),
    ];
    for (index, (had, has)) in pairs.into_iter().enumerate() {
        let Some(had) = had else { continue };
        workload(&had, &has, index == 0, &mut all);
    }
    let budget = |of: &[Value]| {
        let found = of.iter().find(|it| it["kind"] == "PodDisruptionBudget");
        found.map(|it| it["spec"]["minAvailable"].clone())
    };
    if let Some(had) = budget(installed)
        && budget(rendered).as_ref() != Some(&had)
    {
        all.push(format!("minAvailable: {had} is {:?}", budget(rendered)));
    }
    all
}

fn workload(had: &Value, has: &Value, is_serving: bool, all: &mut Vec<String>) {
    let name = had["metadata"]["name"].as_str().expect("name");
    if is_serving && had["spec"]["replicas"] != has["spec"]["replicas"] {
        all.push(format!(
            "{name} replicas: {} is {}",
            had["spec"]["replicas"], has["spec"]["replicas"]
        ));
    }
    let (old, new) = (&had["spec"]["template"]["spec"], &has["spec"]["template"]["spec"]);
    let mut within = |what: &str, old: &Value, new: &Value| {
        if !old.is_null() && !is_within(old, new) {
            all.push(format!("{name} {what}: {old} is {new}"));
        }
    };
    for key in
        ["nodeSelector", "tolerations", "priorityClassName", "hostNetwork", "imagePullSecrets"]
    {
        if is_serving || key != "hostNetwork" {
            within(key, &old[key], &new[key]);
        }
    }
    within("nodeAffinity", &old["affinity"]["nodeAffinity"], &new["affinity"]["nodeAffinity"]);
    let (old, new) = (&old["containers"][0], &new["containers"][0]);
    let manifest =
        json!({"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "512Mi"}});
    if old["resources"] != manifest {
        within("resources", &old["resources"], &new["resources"]);
    }
    let environment = old["env"].as_array().into_iter().flatten();
    let own: Vec<&Value> = environment.filter(|it| it["name"] != "CONTAINER_NAME").collect();
    within("env", &json!(own), &new["env"]);
    let chart = ["--port", "--operation", "--logtostderr"];
    let args = old["args"].as_array().into_iter().flatten();
    let args: Vec<&Value> = args
        .filter(|it| !chart.iter().any(|flag| it.as_str().is_some_and(|it| it.starts_with(flag))))
        .collect();
    within("args", &json!(args), &new["args"]);
    let annotation = &had["spec"]["template"]["metadata"]["annotations"]["note"];
    within("annotation", annotation, &has["spec"]["template"]["metadata"]["annotations"]["note"]);
}

fn write(folder: &Path, name: &str, all: &[Value]) -> String {
    let path = folder.join(name);
    let text: String = all.iter().map(|it| format!("---\n{it}\n")).collect();
    fs::write(&path, text).expect("written");
    path.display().to_string()
}

/// With the values nothing changes; without them something would, which the same command reports.
#[test]
fn what_is_installed_goes_on() {
    if !build::has_go() {
        eprintln!("skipped: no Go to build Helm with");
        return;
    }
    let helm = build::helm().expect("Helm");
    let folder = TempDir::new().expect("folder");
    let all = installations();
    assert!(all.len() >= 6);
    for (index, (what, Installation(objects))) in all.iter().enumerate() {
        let installed = write(folder.path(), &format!("{index}.yaml"), objects);
        let values = folder.path().join(format!("values-{index}.yaml")).display().to_string();
        let (code, stdout, stderr) = migrate(&["--write-values", &values, &installed]);
        assert_eq!((code, stderr.as_str()), (0, ""), "{what}: {stdout}");
        assert!(stdout.contains(&format!("--values {values}")), "{what}: {stdout}");
        let has = |kind: &str| objects.iter().any(|it| it["metadata"]["name"] == kind);
        let profile = match (has(SERVING), has("kubemod-operator")) {
            (true, true) => "both",
            (true, false) => "gatekeeper",
            _ => "kubemod",
        };
        let render = |arguments: &[&str]| {
            let set = format!("profile={profile},crds.install=false");
            let text = helm.render(&[&["--set", &set][..], arguments].concat());
            documents(&text.unwrap_or_else(|error| panic!("{what}: {error}")))
        };
        let kept = differences(objects, &render(&["--values", &values]));
        assert_eq!(kept, [""; 0], "{what}: {}", fs::read_to_string(&values).expect("values"));
        assert_ne!(differences(objects, &render(&[])), [""; 0], "{what}");

        let (code, stdout, _) = migrate(&["--values", &values, &installed]);
        assert_eq!(code, 0, "{what}: {stdout}");
        let empty = folder.path().join("empty.yaml").display().to_string();
        fs::write(&empty, "{}\n").expect("written");
        let (_, stdout, _) = migrate(&["--values", &empty, &installed]);
        assert!(
            stdout.contains("\nwould change with the values that you gave\n")
                && stdout.contains("chart: add them to the values that you gave, before the steps"),
            "{what}: {stdout}"
        );
    }
}

/// The exit code is 1 exactly where less would be enforced.
#[test]
fn what_would_be_weaker_is_not_passed_over() {
    let folder = TempDir::new().expect("folder");
    let strict = Installation::of(&[GATEKEEPER])
        .entry("validation.gatekeeper.sh", json!({"failurePolicy": "Fail", "timeoutSeconds": 9}));
    let strict = write(folder.path(), "strict.yaml", &strict.0);
    let values = folder.path().join("values.yaml").display().to_string();
    for (given, expected, line) in [
        ("{}", 1, "validation.failurePolicy: Fail would become Ignore, which enforces less"),
        (
            "validation: {failurePolicy: Fail}",
            1,
            "validation.timeoutSeconds: 9 would become 3, which enforces less",
        ),
        ("validation: {failurePolicy: Fail, timeoutSeconds: 20}", 0, "9 would become 20\n"),
        ("validation: {failurePolicy: Fail, timeoutSeconds: 9}", 0, "is not the chart's default"),
    ] {
        fs::write(&values, given).expect("written");
        let (code, stdout, _) = migrate(&["--values", &values, &strict]);
        assert_eq!(code, expected, "{given}: {stdout}");
        assert!(stdout.contains(line), "{given}: {stdout}");
    }
    let lenient = Installation::of(&[GATEKEEPER])
        .entry("check-ignore-label.gatekeeper.sh", json!({"failurePolicy": "Ignore"}));
    let lenient = write(folder.path(), "lenient.yaml", &lenient.0);
    fs::write(&values, "{}").expect("written");
    assert_eq!(migrate(&["--values", &values, &lenient]).0, 0);
    // What no value can keep.
    let mut more = Installation::of(&[GATEKEEPER]);
    let configuration =
        more.named("ValidatingWebhookConfiguration", "gatekeeper-validating-webhook-configuration");
    configuration["webhooks"]
        .as_array_mut()
        .expect("entries")
        .push(json!({"name": "ours.example.com"}));
    let more = write(folder.path(), "more.yaml", &more.0);
    let (code, stdout, _) = migrate(&[&more]);
    assert_eq!(code, 1, "{stdout}");
    assert!(stdout.contains("the chart has no entry `ours.example.com`, and may remove it"));
}

/// As it is installed by default nothing has to be said.
#[test]
fn defaults_need_no_values() {
    let folder = TempDir::new().expect("folder");
    let both = Installation::of(&[GATEKEEPER, KUBEMOD]);
    let both = write(folder.path(), "both.yaml", &both.0);
    let (code, stdout, _) = migrate(&["-o", "json", &both]);
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!(
        (code, &report["carried"], &report["lost"]),
        (0, &json!([]), &json!([])),
        "{stdout}"
    );
    assert_eq!(report["values"], json!({"audit": {"interval": 60}}));
}

/// A file of values of Gatekeeper's chart becomes one that modgate's chart takes.
#[test]
fn values_of_gatekeepers_chart() {
    if !build::has_go() {
        eprintln!("skipped: no Go to build Helm with");
        return;
    }
    let folder = TempDir::new().expect("folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    fs::write(
        at("old.yaml"),
        "replicas: 4\nauditInterval: 120\nconstraintViolationsLimit: 50\nauditFromCache: true\n\
         validatingWebhookFailurePolicy: Fail\nvalidatingWebhookTimeoutSeconds: 12\n\
         validatingWebhookScope: Namespaced\nvalidatingWebhookExemptNamespacesLabels: {team: [a, b]}\n\
         validatingWebhookMatchConditions: [{name: a, expression: 'true'}]\n\
         mutatingWebhookReinvocationPolicy: IfNeeded\nenableDeleteOperations: true\n\
         enableConnectOperations: true\nlogDenies: true\ndisabledBuiltins: ['{http.send}']\n\
         podCountLimit: 10\nimage: {repository: openpolicyagent/gatekeeper, release: v3.22.0}\n\
         controllerManager:\n  exemptNamespaces: [kube-system]\n  resources: {limits: {memory: 1Gi}}\n\
         \x20 tolerations: [{operator: Exists}]\naudit: {resources: {limits: {memory: 4Gi}}}\n\
         pdb: {controllerManager: {minAvailable: 2}}\nsomethingElse: 1\nlogLevl: DEBUG\n",
    )
    .expect("written");
    let plain = write(folder.path(), "plain.yaml", &Installation::of(&[GATEKEEPER]).0);
    let (code, stdout, stderr) = migrate(&[
        "--gatekeeper-values",
        &at("old.yaml"),
        "--write-values",
        &at("new.yaml"),
        &plain,
    ]);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("  somethingElse: modgate's chart has no such value\n"), "{stdout}");
    let misspelt = "  logLevl: Gatekeeper's chart has no such value; did you mean `logLevel`?\n";
    assert!(stdout.contains(misspelt), "{stdout}");
    let set = "profile=gatekeeper,crds.install=false";
    let rendered =
        build::helm().expect("Helm").render(&["--set", set, "--values", &at("new.yaml")]);
    let rendered = documents(&rendered.expect("a manifest"));
    let expected = Installation::of(&[GATEKEEPER])
        .entry(
            "validation.gatekeeper.sh",
            json!({"failurePolicy": "Fail", "timeoutSeconds": 12,
                "matchConditions": [{"name": "a", "expression": "true"}]}),
        )
        .entry("mutation.gatekeeper.sh", json!({"reinvocationPolicy": "IfNeeded"}))
        .set("Deployment", SERVING, "/spec/replicas", json!(4))
        .set("PodDisruptionBudget", SERVING, "/spec/minAvailable", json!(2))
        .pods(
            SERVING,
            json!({"tolerations": [{"operator": "Exists"}]}),
            json!({"resources": {"limits": {"memory": "1Gi"}},
                "args": ["--exempt-namespace=kube-system", "--log-denies"]}),
        )
        .pods(
            AUDIT,
            json!({}),
            json!({"resources": {"limits": {"memory": "4Gi"}},
                "args": ["--audit-interval=120", "--constraint-violations-limit=50",
                    "--audit-from-cache=true", "--disable-opa-builtin={http.send}"]}),
        );
    let mut expected = expected.0;
    let entry = &mut expected[0]["webhooks"][0];
    entry["rules"][0]["operations"] = json!(["CREATE", "UPDATE", "DELETE", "CONNECT"]);
    entry["rules"][0]["scope"] = "Namespaced".into();
    let expressions = entry["namespaceSelector"]["matchExpressions"].as_array_mut();
    let exempt = json!({"key": "team", "operator": "NotIn", "values": ["a", "b"]});
    expressions.expect("expressions").push(exempt);
    assert_eq!(differences(&expected, &rendered), [""; 0], "{stdout}");
}
