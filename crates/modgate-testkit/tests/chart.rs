//! The rendered chart, without a cluster: rights that follow the webhooks, and values that
//! contradict each other.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::collections::BTreeSet;

use modgate_engine::api::crds;
use modgate_testkit::cluster::{
    build,
    helm::{Helm, IMAGE},
};
use modgate_value::{Value, yaml};

fn helm() -> Option<Helm> {
    if build::has_go() {
        return Some(build::helm().expect("Helm"));
    }
    eprintln!("skipped: no Go to build Helm with");
    None
}

/// Everything but CRDs, which are always the same.
fn rendered(helm: &Helm, set: &str) -> Vec<Value> {
    let manifest = helm.render(&["--set", "crds.install=false", "--set", set]).expect(set);
    yaml::load(&manifest).expect("YAML").into_iter().map(|it| it.value).collect()
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, path: &[&str]) -> &'v [Value] {
    value.path(path).and_then(Value::as_array).map(|list| &**list).unwrap_or_default()
}

fn texts(values: &[Value]) -> Vec<&str> {
    values.iter().filter_map(Value::as_str).collect()
}

fn find<'v>(all: &'v [Value], kind: &str, name: &str) -> Option<&'v Value> {
    all.iter().find(|it| text(it, &["kind"]) == kind && text(it, &["metadata", "name"]) == name)
}

/// The rules of the ClusterRole about a resource.
fn rules<'v>(all: &'v [Value], resource: &str) -> Vec<&'v Value> {
    let role = find(all, "ClusterRole", "modgate").expect("a ClusterRole");
    let about = |rule: &&Value| texts(list(rule, &["resources"])).contains(&resource);
    list(role, &["rules"]).iter().filter(about).collect()
}

fn container<'v>(all: &'v [Value], deployment: &str) -> &'v Value {
    let deployment = find(all, "Deployment", deployment).expect("a Deployment");
    &list(deployment, &["spec", "template", "spec", "containers"])[0]
}

fn has_flag(all: &[Value], deployment: &str, flag: &str) -> bool {
    texts(list(container(all, deployment), &["args"])).contains(&flag)
}

#[test]
fn values_that_contradict_each_other_are_refused() {
    let Some(helm) = helm() else { return };
    for (set, expected) in [
        ("operations={audit}", "ignoreLabel.enabled needs Pods that answer: add `webhook` to"),
        (
            "split.enabled=true,operations={webhook}",
            "kubemod.enabled needs Pods that answer: add `mutation-webhook` to operations, or set \
             kubemod.enabled=false",
        ),
        (
            "operations={webhook},kubemod.enabled=false",
            "mutation.enabled needs Pods that answer: add `mutation-webhook` to operations",
        ),
        (
            "operations={mutation-webhook,status},kubemod.enabled=false,ignoreLabel.enabled=false",
            "validation.enabled needs Pods that answer: add `webhook` to operations",
        ),
        ("certificates.source=secret", "certificates.caBundle is missing"),
        ("args={-port=443}", "args: leave out --port, which the rest of the chart"),
        (
            "args={--log-stats-audit,--operation=audit}",
            "args: --operation is said by the value operations,",
        ),
        (
            "args={--disable-cert-rotation}",
            "args: --disable-cert-rotation is said by the value certificates.source,",
        ),
        (
            "unifiedMutation.enabled=true,kubemod.enabled=false",
            "set mutation.enabled and kubemod.enabled, too",
        ),
        (
            "unifiedMutation.enabled=true,mutation.enabled=false",
            "set mutation.enabled and kubemod.enabled, too",
        ),
        (
            "unifiedMutation.enabled=true,mutation.exemptNamespaces={a}",
            "mutation.exemptNamespaces would be lost with unifiedMutation.enabled: set \
             unifiedMutation.exemptNamespaces,",
        ),
        (
            "unifiedMutation.enabled=true,kubemod.dragnet.objectSelector.matchLabels.a=b",
            "kubemod.dragnet.objectSelector would be lost",
        ),
        (
            "unifiedMutation.enabled=true,mutation.failurePolicy=Fail",
            "set unifiedMutation.failurePolicy=Fail",
        ),
        (
            "unifiedMutation.enabled=true,kubemod.dragnet.operations={CREATE}",
            "kubemod.dragnet.operations cannot leave out UPDATE",
        ),
        (
            "unifiedMutation.enabled=true,mutation.apiGroups={apps}",
            "mutation.apiGroups and kubemod.dragnet.apiGroups must be the same",
        ),
        (
            "unifiedMutation.enabled=true,mutation.resources={pods}",
            "mutation.resources cannot leave out namespaces",
        ),
        (
            "unifiedMutation.enabled=true,unifiedMutation.resources={pods}",
            "additional properties 'resources' not allowed",
        ),
    ] {
        let error = helm.render(&["--set", set]).expect_err(set).to_string();
        assert!(error.contains(expected), "{set}: {error}");
    }
}

#[test]
fn the_unified_webhook_is_sent_what_either_half_is_about() {
    let Some(helm) = helm() else { return };
    let rule = |set: &str| {
        let all = rendered(&helm, &format!("unifiedMutation.enabled=true,{set}"));
        for name in ["gatekeeper", "kubemod"] {
            let name = format!("{name}-mutating-webhook-configuration");
            assert_eq!(find(&all, "MutatingWebhookConfiguration", &name), None);
        }
        let of = "modgate-mutating-webhook-configuration";
        let configuration = find(&all, "MutatingWebhookConfiguration", of).expect("one");
        let names = list(configuration, &["webhooks"]);
        let names: Vec<&str> = names.iter().map(|it| text(it, &["name"])).collect();
        assert_eq!(names, ["mmodrule.kubemod.io", "mutation.modgate.sh", "podbinding.kubemod.io"]);
        let rules = list(&list(configuration, &["webhooks"])[1], &["rules"]);
        assert_eq!(rules.len(), 1);
        rules[0].clone()
    };
    let default = rule("replicas=3");
    assert_eq!(texts(list(&default, &["operations"])), ["CREATE", "UPDATE", "DELETE"]);
    let resources = texts(list(&default, &["resources"]));
    assert_eq!(resources[..2], ["*", "pods/ephemeralcontainers"]);
    assert_eq!(resources.len(), 17);
    let few = "mutation.resources={pods,pods/exec},kubemod.dragnet.resources={pods},\
               mutation.apiGroups={a},kubemod.dragnet.apiGroups={a}";
    let few = rule(few);
    assert_eq!(texts(list(&few, &["resources"])), ["pods", "pods/exec"]);
    assert_eq!(texts(list(&few, &["apiGroups"])), ["a"]);
}

/// Webhook configurations may be written exactly if modgate creates the certificates, or reports their
/// authority in them.
#[test]
fn rights_on_configurations_follow_what_there_is() {
    let Some(helm) = helm() else { return };
    let of = |set: &str, kind: &str| -> Vec<(Vec<String>, Vec<String>)> {
        let all = rendered(&helm, set);
        let owned = |rule: &Value, key: &str| {
            texts(list(rule, &[key])).into_iter().map(str::to_owned).collect()
        };
        let found = rules(&all, kind);
        found.into_iter().map(|rule| (owned(rule, "resourceNames"), owned(rule, "verbs"))).collect()
    };
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (validating, mutating) =
        ("validatingwebhookconfigurations", "mutatingwebhookconfigurations");
    let (may_write, may_read) = (words("list patch watch"), words("list watch"));
    for (set, kind, names) in [
        (
            "replicas=3",
            validating,
            "gatekeeper-validating-webhook-configuration kubemod-validating-webhook-configuration",
        ),
        (
            "replicas=3",
            mutating,
            "gatekeeper-mutating-webhook-configuration kubemod-mutating-webhook-configuration",
        ),
        (
            "unifiedMutation.enabled=true",
            mutating,
            "modgate-mutating-webhook-configuration kubemod-mutating-webhook-configuration",
        ),
        (
            "certificates.additionalConfigurations.validating={ours},validation.configurationName=a",
            validating,
            "a kubemod-validating-webhook-configuration ours",
        ),
        (
            "certificates.additionalConfigurations.mutating={ours},mutation.configurationName=a",
            mutating,
            "a kubemod-mutating-webhook-configuration ours",
        ),
    ] {
        assert_eq!(of(set, kind), [(words(names), may_write.clone())], "{set}");
    }
    let manager = "certificates.source=cert-manager";
    let read = vec!["gatekeeper-validating-webhook-configuration".to_owned()];
    assert_eq!(of(manager, validating), [(read, may_read)]);
    assert_eq!(of(manager, mutating), []);

    let all = rendered(
        &helm,
        "certificates.additionalConfigurations.mutating={m,n},mutation.configurationName=a,\
         certificates.additionalConfigurations.validating={v},validation.configurationName=b",
    );
    for flag in [
        "--additional-mutating-webhook-configs-to-rotate-certs=m",
        "--additional-mutating-webhook-configs-to-rotate-certs=n",
        "--additional-validating-webhook-configs-to-rotate-certs=v",
        "--mutating-webhook-configuration-name=a",
        "--validating-webhook-configuration-name=b",
    ] {
        assert!(has_flag(&all, "modgate", flag), "{flag}");
    }
    assert!(find(&all, "MutatingWebhookConfiguration", "a").is_some());
    assert!(find(&all, "ValidatingWebhookConfiguration", "b").is_some());
}

/// modgate may write policies whose kind has more than one version, because objects may be stored in an
/// old one; and constraints, whose kinds are not known beforehand.
#[test]
fn policies_are_written_only_where_versions_can_be_old() {
    let Some(helm) = helm() else { return };
    let all = rendered(&helm, "replicas=3");
    let mut expected = BTreeSet::from([("constraints.gatekeeper.sh".to_owned(), "*".to_owned())]);
    for definition in crds::all().expect("CRDs") {
        if list(&definition, &["spec", "versions"]).len() > 1 {
            let group = text(&definition, &["spec", "group"]).to_owned();
            let plural = text(&definition, &["spec", "names", "plural"]).to_owned();
            expected.insert((group, plural));
        }
    }
    assert!(expected.len() > 5, "{expected:?}");
    let role = find(&all, "ClusterRole", "modgate").expect("a ClusterRole");
    let mut found = BTreeSet::new();
    for rule in list(role, &["rules"]) {
        let writes = texts(list(rule, &["verbs"])).contains(&"patch");
        for group in texts(list(rule, &["apiGroups"])).into_iter().filter(|_| writes) {
            for resource in texts(list(rule, &["resources"])) {
                let is_policy = group.ends_with("gatekeeper.sh") || group.ends_with("kubemod.io");
                if is_policy && !resource.ends_with("/status") {
                    found.insert((group.to_owned(), resource.to_owned()));
                }
            }
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn what_is_not_asked_for_is_not_there() {
    let Some(helm) = helm() else { return };
    let budget = |set| {
        let name = "gatekeeper-controller-manager";
        find(&rendered(&helm, set), "PodDisruptionBudget", name).is_some()
    };
    assert!(budget("replicas=2"));
    assert!(!budget("replicas=1"));
    assert!(!budget("podDisruptionBudget.enabled=false"));

    // The dry-run API has no authentication.
    let all = rendered(&helm, "split.enabled=true,kubemod.webapp=true");
    let ports = |name| list(container(&all, name), &["ports"]).len();
    assert!(has_flag(&all, "modgate", "--webapp-addr=:8081"));
    assert!(!has_flag(&all, "modgate-audit", "--webapp-addr=:8081"));
    assert_eq!((ports("modgate"), ports("modgate-audit")), (4, 3));

    // The Service selects no Pod without webhooks.
    let none = "operations={audit},validation.enabled=false,ignoreLabel.enabled=false,\
                mutation.enabled=false,kubemod.enabled=false";
    let all = rendered(&helm, none);
    let pod = find(&all, "Deployment", "modgate").expect("a Deployment");
    let pod = pod.path(&["spec", "template", "metadata", "labels"]).expect("labels");
    assert_eq!(text(pod, &["gatekeeper.sh/operation"]), "audit");
    let service = find(&all, "Service", "gatekeeper-webhook-service").expect("a Service");
    assert_eq!(text(service, &["spec", "selector", "gatekeeper.sh/operation"]), "webhook");

    let level = |set| {
        let all = rendered(&helm, set);
        let namespace = find(&all, "Namespace", "gatekeeper-system").expect("a Namespace");
        let annotation = text(namespace, &["metadata", "annotations", "helm.sh/resource-policy"]);
        assert_eq!(annotation, "keep");
        let label = "pod-security.kubernetes.io/enforce";
        text(namespace, &["metadata", "labels", label]).to_owned()
    };
    assert_eq!(level("namespace.create=true"), "restricted");
    assert_eq!(level("namespace.create=true,hostNetwork=true"), "privileged");
}

/// The notes after an installation.
#[test]
fn notes_say_what_is_refused() {
    let Some(helm) = helm() else { return };
    for (set, expected) in [
        (
            "replicas=3",
            "refuses\n  - creating and changing Namespaces (ignoreLabel.failurePolicy)\n  - \
             creating and changing ModRules (kubemod.modrules.failurePolicy)\nand lets",
        ),
        (
            "ignoreLabel.enabled=false,kubemod.enabled=false,validation.failurePolicy=Fail",
            "refuses\n  - whatever constraints may be about (validation.failurePolicy)\nand lets",
        ),
        (
            "ignoreLabel.enabled=false,kubemod.enabled=false",
            "the API server lets everything through unchecked.",
        ),
        // The version, how to wait, what was installed, and what to do next.
        ("replicas=3", concat!("modgate ", env!("CARGO_PKG_VERSION"), " is being installed into")),
        ("replicas=3", "kubectl rollout status deployment/modgate -n gatekeeper-system"),
        (
            "profile=gatekeeper",
            "Profile gatekeeper:\n  - constraints (Ignore while no Pod answers)",
        ),
        ("replicas=3", "Next: apply a policy and look at its status."),
    ] {
        let mut install = helm.command();
        install.args(["install", "modgate"]).arg(Helm::chart());
        install.args(["--namespace", "gatekeeper-system", "--dry-run=client", "--set", set]);
        install.args(["--set", IMAGE]);
        let output = install.output().expect("helm");
        let said = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(said.contains(expected), "{set}: {said}");
    }
}

/// The authority that the API server trusts does not change with the serving certificate.
#[test]
fn cert_manager_signs_with_an_authority_that_stays() {
    let Some(helm) = helm() else { return };
    let all = rendered(&helm, "certificates.source=cert-manager");
    let spec = |name: &str, path: &[&str]| {
        let path = [&["spec"], path].concat();
        let certificate = find(&all, "Certificate", name).expect("a Certificate");
        certificate.path(&path).cloned().unwrap_or_default()
    };
    let issuer = find(&all, "Issuer", "modgate-ca").expect("an Issuer");
    let serving = "gatekeeper-webhook-server-cert";
    assert_eq!(spec(serving, &["issuerRef", "name"]), "modgate-ca".into());
    assert_eq!(text(issuer, &["spec", "ca", "secretName"]), "modgate-ca");
    assert_eq!(spec("modgate-ca", &["isCA"]), true.into());
    assert_eq!(spec("modgate-ca", &["privateKey", "rotationPolicy"]), "Never".into());
    assert_eq!(spec("modgate-ca", &["issuerRef", "name"]), "modgate-self-signed".into());
    assert_eq!(spec(serving, &["isCA"]), Value::default());

    let all = rendered(&helm, "certificates.source=cert-manager,certificates.issuerRef.name=ours");
    assert_eq!(find(&all, "Certificate", "modgate-ca"), None);
    assert!(all.iter().all(|it| text(it, &["kind"]) != "Issuer"));
}
