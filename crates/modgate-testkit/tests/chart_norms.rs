//! The norms that users of charts expect: profiles, labels, security contexts, monitoring,
//! refusals, and the sets of values in `deploy/chart/ci`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{collections::BTreeSet, fs, path::PathBuf, process::Command};

use modgate_testkit::{
    cluster::{build, helm::Helm},
    corpus,
};
use modgate_value::{Value, yaml};

fn helm() -> Option<Helm> {
    if build::has_go() {
        return Some(build::helm().expect("Helm"));
    }
    eprintln!("skipped: no Go to build Helm with");
    None
}

fn rendered(helm: &Helm, arguments: &[&str]) -> Vec<Value> {
    let manifest = helm.render(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    let all = yaml::load(&manifest).expect("YAML").into_iter().map(|it| it.value);
    all.filter(|it| !it.is_null()).collect()
}

/// Without CRDs, which take most of the time.
fn set(helm: &Helm, values: &str) -> Vec<Value> {
    rendered(helm, &["--set", "crds.install=false", "--set", values])
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    value.path(path).and_then(Value::as_array).map(|list| &**list).unwrap_or_default()
}

fn name(object: &Value) -> String {
    format!("{}/{}", text(object, &["kind"]), text(object, &["metadata", "name"]))
}

fn find<'v>(all: &'v [Value], name_of: &str) -> &'v Value {
    let found = all.iter().find(|it| name(it) == name_of);
    found
        .unwrap_or_else(|| panic!("no {name_of} in {:?}", all.iter().map(name).collect::<Vec<_>>()))
}

fn has(all: &[Value], name_of: &str) -> bool {
    all.iter().any(|it| name(it) == name_of)
}

/// JSON of what stands at a JSON pointer; empty if there is nothing.
fn at(object: &Value, pointer: &str) -> String {
    object.pointer(pointer).map(Value::to_json).unwrap_or_default()
}

const POD: &str = "/spec/template/spec";
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Each value sets exactly one field.
#[test]
fn values_reach_their_fields() {
    let Some(helm) = helm() else { return };
    let modgate = "Deployment/modgate";
    for (values, object, pointer, expected) in [
        ("image.registry=r.io", modgate, format!("{CONTAINER}/image"), r#""r.io/modgate:0.1.0""#),
        (
            "image.registry=r.io,global.imageRegistry=g.io/",
            modgate,
            format!("{CONTAINER}/image"),
            r#""g.io/modgate:0.1.0""#,
        ),
        (
            "global.imagePullSecrets={a},imagePullSecrets[0].name=b",
            modgate,
            format!("{POD}/imagePullSecrets"),
            r#"[{"name":"b"},{"name":"a"}]"#,
        ),
        (
            "podSecurityContext.runAsUser=7",
            modgate,
            format!("{POD}/securityContext/runAsUser"),
            "7",
        ),
        (
            "securityContext.privileged=false",
            modgate,
            format!("{CONTAINER}/securityContext/privileged"),
            "false",
        ),
        ("serviceAccount.name=sa", modgate, format!("{POD}/serviceAccountName"), r#""sa""#),
        (
            "serviceAccount.name=sa",
            "ClusterRoleBinding/modgate",
            "/subjects/0/name".into(),
            r#""sa""#,
        ),
        ("serviceAccount.name=sa", "RoleBinding/modgate", "/subjects/0/name".into(), r#""sa""#),
        (
            "serviceAccount.annotations.a=b",
            "ServiceAccount/gatekeeper-admin",
            "/metadata/annotations".into(),
            r#"{"a":"b"}"#,
        ),
        (
            "webhookAnnotations.a=b,certificates.source=cert-manager",
            "ValidatingWebhookConfiguration/gatekeeper-validating-webhook-configuration",
            "/metadata/annotations".into(),
            r#"{"a":"b","cert-manager.io/inject-ca-from":"gatekeeper-system/gatekeeper-webhook-server-cert"}"#,
        ),
        ("deploymentAnnotations.a=b", modgate, "/metadata/annotations".into(), r#"{"a":"b"}"#),
        (
            "livenessProbe.periodSeconds=7",
            modgate,
            format!("{CONTAINER}/livenessProbe/periodSeconds"),
            "7",
        ),
        (
            "readinessProbe.failureThreshold=7",
            modgate,
            format!("{CONTAINER}/readinessProbe/failureThreshold"),
            "7",
        ),
        (
            "startupProbe.failureThreshold=7",
            modgate,
            format!("{CONTAINER}/startupProbe"),
            r#"{"failureThreshold":7,"httpGet":{"path":"/healthz","port":"healthz"}}"#,
        ),
        ("strategy.type=Recreate", modgate, "/spec/strategy".into(), r#"{"type":"Recreate"}"#),
        ("revisionHistoryLimit=9", modgate, "/spec/revisionHistoryLimit".into(), "9"),
        ("dnsPolicy=None", modgate, format!("{POD}/dnsPolicy"), r#""None""#),
        ("runtimeClassName=r", modgate, format!("{POD}/runtimeClassName"), r#""r""#),
        (
            "extraContainers[0].name=s,extraContainers[0].image=i",
            modgate,
            format!("{POD}/containers/1"),
            r#"{"image":"i","name":"s"}"#,
        ),
        (
            "resourceQuota.pods=5",
            "ResourceQuota/gatekeeper-critical-pods",
            "/spec/hard/pods".into(),
            r#""5""#,
        ),
        ("metrics.service.port=1", "Service/modgate-metrics", "/spec/ports/0/port".into(), "1"),
        (
            "validation.scope=Cluster",
            "ValidatingWebhookConfiguration/gatekeeper-validating-webhook-configuration",
            "/webhooks/0/rules/0/scope".into(),
            r#""Cluster""#,
        ),
    ] {
        let all = set(&helm, values);
        assert_eq!(at(find(&all, object), &pointer), expected, "{values}");
    }
}

/// The settings that modgate-audit has of its own, and those that it takes from the other
/// Deployment.
#[test]
fn the_audit_is_set_apart() {
    let Some(helm) = helm() else { return };
    let fields = [
        ("resources.limits.memory=4Gi", format!("{CONTAINER}/resources/limits/memory"), r#""4Gi""#),
        ("nodeSelector.pool=audit", format!("{POD}/nodeSelector"), r#"{"pool":"audit"}"#),
        (
            "tolerations[0].operator=Exists",
            format!("{POD}/tolerations"),
            r#"[{"operator":"Exists"}]"#,
        ),
        ("priorityClassName=low", format!("{POD}/priorityClassName"), r#""low""#),
        ("podAnnotations.a=b", "/spec/template/metadata/annotations".into(), r#"{"a":"b"}"#),
    ];
    let base = set(&helm, "split.enabled=true");
    let every: String = fields.iter().map(|(value, ..)| format!(",split.{value}")).collect();
    let all = set(&helm, &format!("split.enabled=true{every}"));
    for (value, pointer, expected) in fields {
        assert_eq!(at(find(&all, "Deployment/modgate-audit"), &pointer), expected, "{value}");
        let serving = |all| at(find(all, "Deployment/modgate"), &pointer);
        assert_eq!(serving(&all), serving(&base), "{value}");
        let audit = at(find(&base, "Deployment/modgate-audit"), &pointer);
        assert_eq!(audit, serving(&base), "{value}");
    }
    let all = set(&helm, "split.enabled=true,split.args={--audit-chunk-size=7}");
    let chunk = |name| at(find(&all, name), &format!("{CONTAINER}/args")).contains("=7\"");
    assert!(chunk("Deployment/modgate-audit") && !chunk("Deployment/modgate"));
}

fn sets_of_values() -> Vec<PathBuf> {
    let folder = corpus::repository().join("deploy/chart/ci");
    let entries = fs::read_dir(folder).expect("ci");
    let mut all: Vec<PathBuf> = entries.map(|it| it.expect("entry").path()).collect();
    all.sort();
    assert!(all.len() >= 10, "{all:?}");
    all
}

/// Every set of values renders, names no object twice, and labels every object.
#[test]
fn sets_of_values_render() {
    let Some(helm) = helm() else { return };
    for file in sets_of_values() {
        let file = file.display().to_string();
        let all = rendered(&helm, &["--set", "crds.install=false", "--values", &file]);
        let names: BTreeSet<String> = all.iter().map(name).collect();
        assert_eq!(names.len(), all.len(), "{file}");
        for object in &all {
            let name = name(object);
            if name.contains("/extra-") {
                continue;
            }
            for (label, expected) in [
                ("helm.sh/chart", "modgate-0.1.0"),
                ("app.kubernetes.io/managed-by", "Helm"),
                ("app.kubernetes.io/part-of", "modgate"),
                ("app.kubernetes.io/version", "0.1.0"),
            ] {
                assert_eq!(text(object, &["metadata", "labels", label]), expected, "{file} {name}");
            }
            let is_ours = name != "Namespace/kubemod-system";
            let label = text(object, &["metadata", "labels", "app.kubernetes.io/name"]);
            if name == "Pod/modgate-test" || name == "ConfigMap/modgate-test" {
                assert_eq!(label, "modgate-test", "{file}");
                continue;
            }
            assert_eq!(label == "modgate", is_ours, "{file} {name}");
            if file.ends_with("everything-values.yaml") {
                assert_eq!(text(object, &["metadata", "labels", "team"]), "platform", "{name}");
                let contact = text(object, &["metadata", "annotations", "contact"]);
                assert_eq!(contact, "platform@example.com", "{name}");
            }
        }
    }
}

/// CRDs have the labels of the values, and not those by which modgate's objects are deleted.
#[test]
fn definitions_have_common_labels() {
    let Some(helm) = helm() else { return };
    let all = rendered(&helm, &["--set", "commonLabels.team=a,commonAnnotations.note=b"]);
    let is_definition = |it: &&Value| text(it, &["kind"]) == "CustomResourceDefinition";
    let definitions: Vec<&Value> = all.iter().filter(is_definition).collect();
    assert!(definitions.len() > 10);
    for definition in definitions {
        assert_eq!(at(definition, "/metadata/labels/team"), r#""a""#, "{}", name(definition));
        assert_eq!(at(definition, "/metadata/annotations/note"), r#""b""#, "{}", name(definition));
        let ours = at(definition, "/metadata/labels/app.kubernetes.io~1name");
        assert_eq!(ours, "", "{}", name(definition));
    }
}

/// Templates in further objects are rendered, whether they are YAML or text.
#[test]
fn further_objects() {
    let Some(helm) = helm() else { return };
    let values = r#"extraObjects=[{"kind":"A","metadata":{"name":"{{ .Release.Name }}"}},"kind: B\nmetadata: {name: {{ .Release.Name }}}"]"#;
    let all = rendered(&helm, &["--set", "crds.install=false", "--set-json", values]);
    assert!(has(&all, "A/modgate") && has(&all, "B/modgate"));
}

#[test]
fn profiles() {
    let Some(helm) = helm() else { return };
    for (profile, entries, is_modrule_defined, is_template_defined) in [
        (
            "gatekeeper",
            "check-ignore-label.gatekeeper.sh mutation.gatekeeper.sh validation.gatekeeper.sh",
            false,
            true,
        ),
        (
            "kubemod",
            "check-ignore-label.kubemod.io dragnet.kubemod.io mmodrule.kubemod.io \
             podbinding.kubemod.io rejections.kubemod.io vmodrule.kubemod.io",
            true,
            false,
        ),
        (
            "both",
            "check-ignore-label.gatekeeper.sh dragnet.kubemod.io mmodrule.kubemod.io \
             mutation.gatekeeper.sh podbinding.kubemod.io rejections.kubemod.io \
             validation.gatekeeper.sh vmodrule.kubemod.io",
            true,
            true,
        ),
    ] {
        let values = format!("profile={profile}");
        let all = rendered(&helm, &["--set", &values]);
        let webhooks = all.iter().flat_map(|it| list(it, &["webhooks"]));
        let names: BTreeSet<&str> = webhooks.map(|it| text(it, &["name"])).collect();
        assert_eq!(Vec::from_iter(names).join(" "), entries, "{profile}");
        let crd = |name: &str| has(&all, &format!("CustomResourceDefinition/{name}"));
        assert_eq!(crd("modrules.api.kubemod.io"), is_modrule_defined, "{profile}");
        let template = "constrainttemplates.templates.gatekeeper.sh";
        assert_eq!(crd(template), is_template_defined, "{profile}");
        assert_eq!(has(&all, "Namespace/kubemod-system"), is_modrule_defined, "{profile}");
        assert_eq!(has(&all, "ClusterRole/modgate-modrule-author"), is_modrule_defined);
        assert_eq!(has(&all, "ClusterRole/modgate-template-author"), is_template_defined);
    }
    // Without a cluster to look at nothing is left out.
    let (auto, both) = (set(&helm, "profile=auto"), set(&helm, "profile=both"));
    assert_eq!(auto, both);
}

/// OpenShift's restricted-v2 gives user and group itself, and takes few kinds of volumes.
#[test]
fn pods_are_restricted() {
    let Some(helm) = helm() else { return };
    let all_values = "split.enabled=true,certificates.source=cert-manager,clientAuth.enabled=true,\
                      clientAuth.secret=s";
    for values in ["replicas=1", all_values] {
        let all = set(&helm, values);
        for deployment in all.iter().filter(|it| text(it, &["kind"]) == "Deployment") {
            let pod = deployment.pointer(&format!("{POD}/securityContext")).expect("a context");
            assert_eq!(
                pod.to_json(),
                r#"{"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}"#
            );
            let container = at(deployment, &format!("{CONTAINER}/securityContext"));
            assert_eq!(
                container,
                r#"{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}"#
            );
            for volume in list(deployment, &["spec", "template", "spec", "volumes"]) {
                assert!(volume.get("projected").is_some(), "{}", volume.to_json());
            }
        }
    }
}

#[test]
fn values_that_are_refused() {
    let Some(helm) = helm() else { return };
    for (values, expected) in [
        (
            "args={--log-denys}",
            "--log-denys is no flag of `modgate serve`; did you mean --log-denies?",
        ),
        ("args={--operations=x}", "did you mean --operation?"),
        (
            "split.args={--audit-chunk-sise=1}",
            "split.args: --audit-chunk-sise is no flag of `modgate serve`; did you mean --audit-chunk-size?",
        ),
        ("args={--zzz}", "--zzz is no flag of `modgate serve`; docs/cli.md lists them"),
        ("args={--client-ca-name=x}", "said by the value clientAuth.enabled"),
        (
            "split.args={--operation=audit}",
            "split.args: --operation is said by the value operations",
        ),
        (
            "args={--audit-interval=600}",
            "args: --audit-interval is said by the value audit.interval,",
        ),
        ("args={-log-level=debug}", "args: --log-level is said by the value logs.level,"),
        ("args={--policy-reports=none}", "is said by the value audit.policyReports,"),
        (
            "split.args={--exempt-namespace=a}",
            "split.args: --exempt-namespace is said by the value ignoreLabel.allowedNamespaces,",
        ),
        ("args={-v}", "args: --v needs a value: write --v=LEVEL"),
        (
            "args={--audit-chunk-size}",
            "--audit-chunk-size needs a value: write --audit-chunk-size=N",
        ),
        ("args={--audit-chunk-size=x}", "args: --audit-chunk-size=x is not a whole number"),
        ("logs.level=verbose", "logs.level: there is no level `verbose`; the levels are debug,"),
        ("logs.level=info\\,audit=debgu", "logs.level: there is no level `debgu`"),
        (
            r"commonLabels.app\.kubernetes\.io/name=a",
            "commonLabels: leave out app.kubernetes.io/name, a label that the chart sets itself",
        ),
        ("podLabels.control-plane=a", "podLabels: leave out control-plane"),
        (
            "serviceMonitor.enabled=true,podMonitor.enabled=true",
            "serviceMonitor.enabled and podMonitor.enabled exclude each other",
        ),
        (
            "prometheusRule.disabled={ModgateDwon}",
            "prometheusRule.disabled: there is no alert ModgateDwon; the alerts are ModgateAuditStale,",
        ),
        (
            "kubemod.webapp=true,profile=gatekeeper",
            "kubemod.webapp is the dry-run API of ModRules, which profile=gatekeeper leaves out",
        ),
        ("clientAuth.enabled=true", "set exactly one of clientAuth.ca, clientAuth.configMap and"),
        ("clientAuth.enabled=true,clientAuth.ca=a,clientAuth.secret=b", "set exactly one of"),
        ("clientAuth.secret=b", "clientAuth names authorities and is off"),
        ("serviceMonitor.enabled=true,metrics.service.enabled=false", "podMonitor.enabled=true"),
        ("replicas=0", "minimum: got 0, want 1"),
        ("profile=opa", "value must be one of 'gatekeeper', 'kubemod', 'both', 'auto'"),
        (
            "unifiedMutation.enabled=true,profile=gatekeeper",
            "set mutation.enabled and kubemod.enabled, too",
        ),
        ("networkPolicy.metrics.from[0].cidr=a", "additional properties 'cidr' not allowed"),
        (
            "image.repository=",
            "image.repository is missing: no image of modgate is published. Build one",
        ),
    ] {
        let error = helm.render(&["--set", values]).expect_err(values).to_string();
        assert!(error.contains(expected), "{values}: {error}");
    }
    for fine in [
        // Hidden flags.
        "args={--enable-mutation,-log-stats-audit=true,-v=2}",
        "args={--max-serving-threads=-1}",
        "split.enabled=true,split.args={--log-level=debug}",
        "logs.level=WARN",
        r"logs.level=warn\,dragnet-webhook=debug\,audit",
        // An alert that these values leave out.
        "prometheusRule.disabled={ModgateValidationSlow},profile=kubemod",
        "commonLabels.team=a,podLabels.team=b",
    ] {
        helm.render(&["--set", "crds.install=false", "--set", fine]).expect(fine);
    }
}

#[test]
fn each_port_has_its_peers() {
    let Some(helm) = helm() else { return };
    let rules = |values: &str| -> Vec<(String, String)> {
        let all = set(&helm, values);
        let policy = find(&all, "NetworkPolicy/modgate");
        let of = |rule: &Value| (at(rule, "/ports/0/port"), at(rule, "/from"));
        list(policy, &["spec", "ingress"]).iter().map(of).collect()
    };
    let words = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(port, from)| (format!("{port:?}"), (*from).to_owned())).collect()
    };
    let pods = r#"[{"namespaceSelector":{}}]"#;
    assert_eq!(
        rules("replicas=1"),
        words(&[("webhook-server", ""), ("metrics", pods), ("healthz", "")])
    );
    let open = "kubemod.webapp=true,networkPolicy.webhook.from[0].ipBlock.cidr=10.0.0.0/8";
    assert_eq!(
        rules(open),
        words(&[
            (
                "webhook-server",
                r#"[{"ipBlock":{"cidr":"10.0.0.0/8"}},{"podSelector":{"matchLabels":{"app.kubernetes.io/instance":"modgate","app.kubernetes.io/name":"modgate-test"}}}]"#
            ),
            ("metrics", pods),
            ("healthz", ""),
            ("api", r#"[{"podSelector":{}}]"#),
        ])
    );
    let untested = rules(&format!("{open},test.enabled=false"));
    assert_eq!(untested[0].1, r#"[{"ipBlock":{"cidr":"10.0.0.0/8"}}]"#);
    let all = set(&helm, "networkPolicy.egress.enabled=true");
    let policy = find(&all, "NetworkPolicy/modgate");
    assert_eq!(at(policy, "/spec/policyTypes"), r#"["Ingress","Egress"]"#);
    let ports: Vec<String> =
        list(policy, &["spec", "egress"]).iter().map(|it| at(it, "/ports")).collect();
    assert_eq!(
        ports,
        [
            r#"[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]"#,
            r#"[{"port":443},{"port":6443}]"#
        ]
    );
    assert!(!has(&set(&helm, "networkPolicy.enabled=false"), "NetworkPolicy/modgate"));
    // The dry-run API is served if the values turn it on.
    let is_open = |values| {
        let all = set(&helm, values);
        let args = at(find(&all, "Deployment/modgate"), &format!("{CONTAINER}/args"));
        (args.contains("--webapp-addr"), has(&all, "Service/kubemod-webapp-service"))
    };
    assert_eq!(is_open("replicas=1"), (false, false));
    assert_eq!(is_open("kubemod.webapp=true"), (true, true));
    assert_eq!(is_open("kubemod.webapp=true,kubemod.enabled=false"), (false, false));
}

/// The Pod of `helm test` asks the webhooks that there are, and nothing takes it for a Pod of modgate.
#[test]
fn the_test_of_a_release() {
    let Some(helm) = helm() else { return };
    let asked = |values: &str| -> Vec<String> {
        let all = set(&helm, values);
        let Some(pod) = all.iter().find(|it| name(it) == "Pod/modgate-test") else {
            return Vec::new();
        };
        let args = list(pod, &["spec", "containers"])[0].clone();
        let args = list(&args, &["args"]).iter().filter_map(Value::as_str);
        let service = "https://gatekeeper-webhook-service.gatekeeper-system.svc";
        args.filter_map(|it| it.strip_prefix(service)).map(str::to_owned).collect()
    };
    for (values, paths) in [
        ("replicas=1", "/v1/admit /v1/mutate /dragnet-webhook"),
        ("profile=gatekeeper,mutation.enabled=false", "/v1/admit"),
        ("profile=kubemod", "/dragnet-webhook"),
        ("unifiedMutation.enabled=true", "/v1/admit /mutate"),
        ("test.enabled=false", ""),
        // It would need a client certificate.
        ("clientAuth.enabled=true,clientAuth.secret=s", ""),
        (
            "operations={audit},validation.enabled=false,ignoreLabel.enabled=false,\
             mutation.enabled=false,kubemod.enabled=false",
            "",
        ),
    ] {
        assert_eq!(asked(values).join(" "), paths, "{values}");
    }

    let all = set(&helm, "tolerations[0].operator=Exists,imagePullSecrets[0].name=pull");
    let pod = find(&all, "Pod/modgate-test");
    assert_eq!(at(pod, "/metadata/annotations/helm.sh~1hook"), r#""test""#);
    assert_eq!(at(pod, "/spec/restartPolicy"), r#""Never""#);
    assert_eq!(at(pod, "/spec/automountServiceAccountToken"), "false");
    let deployment = find(&all, "Deployment/modgate");
    for (of_pod, of_deployment) in [
        ("/spec/securityContext", "/securityContext"),
        ("/spec/tolerations", "/tolerations"),
        ("/spec/nodeSelector", "/nodeSelector"),
        ("/spec/imagePullSecrets", "/imagePullSecrets"),
        ("/spec/containers/0/securityContext", "/containers/0/securityContext"),
        ("/spec/containers/0/image", "/containers/0/image"),
    ] {
        let expected = at(deployment, &format!("{POD}{of_deployment}"));
        assert!(!expected.is_empty(), "{of_deployment}");
        assert_eq!(at(pod, of_pod), expected, "{of_pod}");
    }
    // The key of the certificate stays in the Secret.
    assert_eq!(
        at(pod, "/spec/volumes/0/projected/sources"),
        r#"[{"secret":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"gatekeeper-webhook-server-cert"}}]"#
    );
    let labels = pod.path(&["metadata", "labels"]).expect("labels");
    let mut selectors = 0;
    for object in &all {
        for path in [&["spec", "selector"][..], &["spec", "podSelector"]] {
            let selector = object.path(path);
            let selector = selector.map(|it| it.get("matchLabels").unwrap_or(it));
            let Some(selector) = selector.and_then(Value::as_object) else { continue };
            selectors += 1;
            let is_selected = selector.iter().all(|(key, value)| labels.get(key) == Some(value));
            assert!(!is_selected, "{} selects it", name(object));
        }
    }
    assert!(selectors >= 5, "{selectors}");

    // With a certificate of the user's own, it trusts what the API server trusts.
    let all = set(&helm, "certificates.source=secret,certificates.caBundle=cGVt");
    let given = find(&all, "ConfigMap/modgate-test");
    assert_eq!(text(given, &["data", "ca.crt"]).trim(), "pem");
    assert_eq!(at(given, "/metadata/annotations/helm.sh~1hook"), r#""test""#);
    let sources = at(find(&all, "Pod/modgate-test"), "/spec/volumes/0/projected/sources");
    assert!(sources.contains(r#""configMap":{"items":[{"key":"ca.crt""#), "{sources}");
}

/// The authorities of client certificates are mounted beside whatever else is in the folder.
#[test]
fn client_certificates() {
    let Some(helm) = helm() else { return };
    let sources = |values: &str| {
        let all = set(&helm, &format!("clientAuth.enabled=true,{values}"));
        let deployment = find(&all, "Deployment/modgate");
        let args = at(deployment, &format!("{CONTAINER}/args"));
        assert!(
            args.contains(r#""--client-ca-name=client-ca.crt","--client-cn-name=kube-apiserver""#)
        );
        let mount = at(deployment, &format!("{CONTAINER}/volumeMounts/0"));
        assert_eq!(mount, r#"{"mountPath":"/certs","name":"cert","readOnly":true}"#);
        at(deployment, &format!("{POD}/volumes/0/projected/sources"))
    };
    let item = |key: &str| format!(r#""items":[{{"key":"{key}","path":"client-ca.crt"}}]"#);
    let expected =
        format!(r#"[{{"configMap":{{{},"name":"modgate-client-ca"}}}}]"#, item("ca.crt"));
    assert_eq!(sources("clientAuth.ca=pem,clientAuth.key=ignored"), expected);
    let expected = format!(r#"[{{"configMap":{{{},"name":"c"}}}}]"#, item("k"));
    assert_eq!(sources("clientAuth.configMap=c,clientAuth.key=k"), expected);
    let expected = format!(
        r#"[{{"secret":{{"name":"gatekeeper-webhook-server-cert"}}}},{{"secret":{{{},"name":"s"}}}}]"#,
        item("ca.crt")
    );
    assert_eq!(sources("clientAuth.secret=s,certificates.source=cert-manager"), expected);
    // Pods start anew when the authorities change.
    let checksum = |ca: &str| {
        let all = set(&helm, &format!("clientAuth.enabled=true,clientAuth.ca={ca}"));
        let of = "/spec/template/metadata/annotations/checksum~1client-ca";
        at(find(&all, "Deployment/modgate"), of)
    };
    assert_ne!(checksum("a"), checksum("b"));
}

/// Names of metrics in a text.
fn metrics(text: &str) -> BTreeSet<&str> {
    const OURS: [&str; 5] =
        ["gatekeeper_", "modgate_", "controller_runtime_", "process_", "rest_client_"];
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let ours = words.filter(|word| OURS.iter().any(|prefix| word.starts_with(prefix)));
    ours.map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect()
}

/// Alerts and dashboard ask for metrics that exist, and each alert has a page.
#[test]
fn monitoring_asks_for_what_there_is() {
    let Some(helm) = helm() else { return };
    let repository = corpus::repository();
    let table = fs::read_to_string(repository.join("docs/metrics.md")).expect("docs/metrics.md");
    let known: BTreeSet<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let all = set(
        &helm,
        "prometheusRule.enabled=true,grafana.dashboard.enabled=true,serviceMonitor.enabled=true,\
         prometheusRule.runbookBaseURL=https://r/",
    );
    let rules = find(&all, "PrometheusRule/modgate");
    let rules = list(&list(rules, &["spec", "groups"])[0], &["rules"]);
    assert!(rules.len() >= 12);
    let pages = repository.join("docs/runbooks");
    let index = fs::read_to_string(pages.join("README.md")).expect("an index");
    let mut paged = BTreeSet::new();
    for rule in rules {
        let alert = text(rule, &["alert"]);
        let page = fs::read_to_string(pages.join(format!("{alert}.md"))).expect(alert);
        assert!(page.starts_with(&format!("# {alert}\n")), "{alert}");
        assert!(index.contains(&format!(
            "| [{alert}]({alert}.md) | {} |",
            text(rule, &["labels", "severity"])
        )));
        assert_eq!(text(rule, &["annotations", "runbook_url"]), format!("https://r/{alert}.md"));
        let asked = metrics(text(rule, &["expr"]));
        assert!(!asked.is_empty() && asked.is_subset(&known), "{alert}: {asked:?}");
        paged.insert(format!("{alert}.md"));
    }
    for page in fs::read_dir(pages).expect("pages") {
        let name = page.expect("page").file_name().into_string().expect("UTF-8");
        assert!(name == "README.md" || paged.contains(&name), "no alert leads to {name}");
    }
    let dashboard = text(find(&all, "ConfigMap/modgate-dashboard"), &["data", "modgate.json"]);
    let dashboard = Value::from_json(dashboard.as_bytes()).expect("JSON");
    let panels = list(&dashboard, &["panels"]);
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(at(panel, "/id")), "{}", panel.to_json());
        for target in list(panel, &["targets"]) {
            let asked = metrics(text(target, &["expr"]));
            assert!(!asked.is_empty() && asked.is_subset(&known), "{asked:?}");
        }
    }
    assert!(panels.len() > 30);
    // Both find the metrics port by the labels of the chart.
    let service = find(&all, "Service/modgate-metrics");
    let monitor = find(&all, "ServiceMonitor/modgate");
    for (label, value) in monitor
        .path(&["spec", "selector", "matchLabels"])
        .and_then(Value::as_object)
        .expect("labels")
        .iter()
    {
        assert_eq!(service.path(&["metadata", "labels", label]), Some(value), "{label}");
    }
    let by_pod = set(&helm, "podMonitor.enabled=true");
    let pod_monitor = find(&by_pod, "PodMonitor/modgate");
    for monitor in [monitor, pod_monitor] {
        let labels = at(monitor, "/spec/podTargetLabels");
        assert_eq!(labels, r#"["app.kubernetes.io/component"]"#, "alerts ask for it");
    }
    let pods = find(&all, "Deployment/modgate").path(&["spec", "template", "metadata", "labels"]);
    let pods = pods.expect("labels");
    for selector in [
        pod_monitor.path(&["spec", "selector", "matchLabels"]),
        service.path(&["spec", "selector"]),
    ] {
        for (label, value) in selector.and_then(Value::as_object).expect("labels").iter() {
            assert_eq!(pods.get(label), Some(value), "{label}");
        }
    }
    // Alerts about webhooks that are not there, and those that are not wanted, are left out.
    let few = set(
        &helm,
        "prometheusRule.enabled=true,profile=kubemod,audit.interval=0,prometheusRule.disabled={ModgateDown}",
    );
    let few = at(find(&few, "PrometheusRule/modgate"), "/spec");
    for absent in ["ModgateDown", "ModgateValidation", "ModgateMutation", "ModgateAuditStale"] {
        assert!(!few.contains(&format!("\"alert\":\"{absent}")), "{absent}");
    }
    assert!(few.contains("ModgateModRulesSlow"));
    // Without a Pod that audits there is no alert about audits.
    let none = set(&helm, "prometheusRule.enabled=true,operations={webhook,mutation-webhook}");
    let none = at(find(&none, "PrometheusRule/modgate"), "/spec");
    assert!(!none.contains("ModgateAuditStale") && none.contains("ModgateNoLeader"));
}

/// Prometheus' own packages parse the alerts, and evaluate them on series for which each fires or does not; the
/// operator's own types are filled from monitors and rules, and select them.
#[test]
fn alerts_fire_where_they_should() {
    let Some(helm) = helm() else { return };
    // Of two Deployments, each of which needs a leader.
    let mut all = set(
        &helm,
        "split.enabled=true,prometheusRule.enabled=true,prometheusRule.labels.release=kps,\
         serviceMonitor.enabled=true,serviceMonitor.labels.release=kps",
    );
    // The two monitors exclude each other.
    let by_pod = set(&helm, "podMonitor.enabled=true,podMonitor.labels.release=kps");
    all.push(find(&by_pod, "PodMonitor/modgate").clone());
    let spec = find(&all, "PrometheusRule/modgate").get("spec").expect("a spec");
    let folder = std::env::temp_dir().join(format!("modgate-rules-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let (rules, objects) = (folder.join("rules.yaml"), folder.join("objects.json"));
    // JSON is YAML.
    fs::write(&rules, spec.to_json()).expect("written");
    fs::write(&objects, all.into_iter().collect::<Value>().to_json()).expect("written");
    let output = Command::new("go")
        .args(["test", "-count=1", "./..."])
        .current_dir(corpus::repository().join("tests/alerts"))
        .env("MODGATE_RULES", &rules)
        .env("MODGATE_OBJECTS", &objects)
        .output()
        .expect("go");
    fs::remove_dir_all(&folder).expect("removed");
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{error}");
}

/// The permissions of the roles for authors; no role is bound.
#[test]
fn roles_of_authors() {
    let Some(helm) = helm() else { return };
    let all = set(&helm, "replicas=1");
    let role = |name: &str| at(find(&all, &format!("ClusterRole/modgate-{name}")), "/rules");
    let write = r#"["create","delete","deletecollection","get","list","patch","update","watch"]"#;
    assert_eq!(
        role("modrule-author"),
        format!(r#"[{{"apiGroups":["api.kubemod.io"],"resources":["modrules"],"verbs":{write}}}]"#)
    );
    assert!(!role("constraint-author").contains("mutations.gatekeeper.sh"));
    assert!(!role("policy-reader").contains("create"));
    let bindings = all.iter().filter(|it| text(it, &["kind"]).ends_with("RoleBinding"));
    assert!(bindings.into_iter().all(|it| text(it, &["roleRef", "name"]) == "modgate"));
    let aggregated = |all: &[Value]| {
        let labels = all.iter().filter_map(|it| it.path(&["metadata", "labels"]));
        labels.filter(|it| it.to_json().contains("rbac.authorization.k8s.io/aggregate-to-")).count()
    };
    assert_eq!(aggregated(&all), 0);
    let asked =
        "rbac.authorRoles.aggregateModRulesToAdmin=true,rbac.authorRoles.aggregateReadToView=true";
    assert_eq!(aggregated(&set(&helm, asked)), 2);
}

/// Selectors and rules of a configuration that modgate takes over stay as they are.
#[test]
fn rules_and_selectors_can_be_replaced() {
    let Some(helm) = helm() else { return };
    let values = r#"validation.namespaceSelector={"matchLabels":{"a":"b"},"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["x","gatekeeper-system"]}]}"#;
    let rules = r#"validation.rules=[{"apiGroups":[""],"apiVersions":["v1"],"operations":["*"],"resources":["pods"]}]"#;
    let all = rendered(&helm, &["--set-json", values, "--set-json", rules]);
    let name = "ValidatingWebhookConfiguration/gatekeeper-validating-webhook-configuration";
    let entry = &list(find(&all, name), &["webhooks"])[0];
    assert_eq!(format!("validation.namespaceSelector={}", at(entry, "/namespaceSelector")), {
        let (path, json) = values.split_once('=').expect("a value");
        format!("{path}={}", Value::from_json(json.as_bytes()).expect("JSON").to_json())
    });
    assert_eq!(format!("validation.rules={}", at(entry, "/rules")), rules);
    // The namespace of the release is never sent.
    let all = rendered(&helm, &["--set", "validation.namespaceSelector.matchLabels.a=b"]);
    let entry = &list(find(&all, name), &["webhooks"])[0];
    assert_eq!(
        at(entry, "/namespaceSelector"),
        r#"{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["gatekeeper-system"]}],"matchLabels":{"a":"b"}}"#
    );
}

#[test]
fn a_service_account_of_others() {
    let Some(helm) = helm() else { return };
    let all = set(&helm, "serviceAccount.create=false,serviceAccount.name=theirs");
    assert!(!all.iter().any(|it| text(it, &["kind"]) == "ServiceAccount"));
    let account = at(find(&all, "Deployment/modgate"), &format!("{POD}/serviceAccountName"));
    assert_eq!(account, r#""theirs""#);
    assert!(has(&set(&helm, "replicas=1"), "ServiceAccount/gatekeeper-admin"));
}

/// The data that catalogs of charts show, and the warnings of Helm when it packages the chart.
#[test]
fn the_chart_as_catalogs_show_it() {
    let folder = corpus::repository().join("deploy/chart");
    let chart = fs::read_to_string(folder.join("Chart.yaml")).expect("Chart.yaml");
    let chart = yaml::value(&chart).expect("YAML");
    for field in ["apiVersion", "name", "description", "type", "icon", "kubeVersion"] {
        assert!(!text(&chart, &[field]).is_empty(), "{field}");
    }
    for field in ["version", "appVersion"] {
        assert_eq!(text(&chart, &[field]), env!("CARGO_PKG_VERSION"), "{field}");
    }
    assert!(list(&chart, &["keywords"]).len() > 3);
    assert!(!list(&chart, &["maintainers"]).is_empty());
    for annotation in ["license", "category", "operator", "prerelease"] {
        let name = format!("artifacthub.io/{annotation}");
        assert!(!text(&chart, &["annotations", &name]).is_empty(), "{name}");
    }
    let mut open = vec![folder];
    while let Some(path) = open.pop() {
        let kind = fs::symlink_metadata(&path).expect("metadata").file_type();
        assert!(!kind.is_symlink(), "{}: Helm warns of symbolic links", path.display());
        if kind.is_dir() {
            open.extend(fs::read_dir(path).expect("a folder").map(|it| it.expect("entry").path()));
        }
    }
}

/// `cargo xtask codegen` describes every value in schema and README; here, that both are complete.
#[test]
fn every_value_is_described() {
    let folder = corpus::repository().join("deploy/chart");
    let schema = fs::read_to_string(folder.join("values.schema.json")).expect("a schema");
    let schema = Value::from_json(schema.as_bytes()).expect("JSON");
    let readme = fs::read_to_string(folder.join("README.md")).expect("a README");
    let values = fs::read_to_string(folder.join("values.yaml")).expect("values");
    let values = yaml::value(&values).expect("YAML");
    let mut count = 0;
    let mut open = vec![(String::new(), &schema, Some(&values))];
    while let Some((path, schema, value)) = open.pop() {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            continue;
        };
        for (key, property) in properties.iter() {
            let path = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
            let text = text(property, &["description"]);
            assert!(text.len() > 5, "{path}: {text:?}");
            let value = value.and_then(|it| it.get(key));
            if value.is_some() {
                assert!(readme.contains(&format!("\n| `{path}` | ")), "{path}");
                count += 1;
            }
            open.push((path, property, value));
        }
    }
    assert!(count > 180, "{count}");
}
