//! The live page of a cluster: who sees it, with tokens of a real API server, and `why` and `status`, which ask it.

#![allow(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Command, Output},
};

use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

use modgate_e2e::{
    Running,
    client::{exchange, free_address, head},
    definition, eventually, kubectl, namespace, succeeds,
};

const NAMESPACE: &str = "gatekeeper-system";
/// Markup in a name of a user's choice.
const MARKUP: &str = "<b>bold</b>";

const POLICIES: &str = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: no-bad, namespace: live-shop}
spec:
  type: Reject
  rejectMessage: 'bad is {{ .Target.data.bad }}'
  match: [{select: '$.kind', matchValue: ConfigMap}, {select: '$.data.bad'}]
";

/// A Pod of modgate, as far as `why` looks for one; nothing runs it here.
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: modgate-live-page, namespace: gatekeeper-system, labels: {app.kubernetes.io/name: modgate}}
spec:
  serviceAccountName: admin
  automountServiceAccountToken: false
  containers: [{name: modgate, image: modgate}]
";

/// An object of a kind of the cluster's own.
const WIDGET: &str = "
apiVersion: live-page.modgate.test/v1
kind: Widget
metadata: {name: w, namespace: live-shop}
";

/// The role of the chart, bound to one account in the cluster and to another in a namespace.
const ROLES: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: modgate-viewer}
rules:
- {apiGroups: [modgate.sh], resources: [overview], verbs: [get]}
- {apiGroups: [modgate.sh], resources: [decisions], verbs: [get, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: modgate-viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: modgate-viewer}
subjects: [{kind: ServiceAccount, name: admin, namespace: gatekeeper-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: modgate-viewer, namespace: live-shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: modgate-viewer}
subjects: [{kind: ServiceAccount, name: dev, namespace: gatekeeper-system}]
";

struct Page {
    address: std::net::SocketAddr,
}

impl Page {
    /// The status and the body of an answer.
    fn get(&self, path: &str, token: &str) -> (u16, String) {
        let more = match token {
            "" => "Connection: close\r\n".to_owned(),
            token => format!("Connection: close\r\nAuthorization: Bearer {token}\r\n"),
        };
        let stream = std::net::TcpStream::connect(self.address).expect("connected");
        let answer = exchange(stream, &head("GET", path, &more)).expect("an answer");
        (answer.status, answer.body)
    }

    /// A verb of modgate that asks the page.
    fn modgate(&self, arguments: &[&str], token: &str) -> Output {
        let address = format!("http://{}", self.address);
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"));
        command.args(arguments).args(["--address", &address, "--token", token]);
        command.output().expect("modgate runs")
    }
}

/// `why` takes kinds by the names that the cluster has for them, and asks the Pods that it finds there.
fn kinds_have_the_names_of_the_cluster(cluster: &Cluster, page: &Page, token: &str) {
    let names = "singular: widget";
    let definition = definition("live-page.modgate.test", "Widget", "widgets", "Namespaced", "v1")
        .replace(names, &format!("{names}, shortNames: [wdg]"));
    succeeds(cluster, "apply -f -", &definition);
    succeeds(cluster, "wait --for=condition=Established crd/widgets.live-page.modgate.test", "");
    succeeds(cluster, "apply -f -", POD);
    eventually("the kind is served", || kubectl(cluster, "apply -f -", WIDGET).success);
    // In place of kubectl: nothing runs the Pod, so there is nothing to forward to.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("forward");
    let port = page.address.port();
    let script =
        format!("#!/bin/sh\necho 'Forwarding from 127.0.0.1:{port} -> 8088'\nexec sleep 600\n");
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let why = |object: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"));
        command.args(["why", object, "-n", "live-shop", "--token", token]);
        command.arg("--kubeconfig").arg(cluster.kubeconfig()).env("KUBECTL", &program);
        let output = command.output().expect("modgate runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    for object in ["wdg/w", "WDG.live-page.modgate.test/w", "widget/w", "widgets/w", "Widget/w"] {
        let (code, text) = why(object);
        assert_eq!(code, Some(0), "{object}: {text}");
        for part in [
            "allowed: Widget live-shop/w",
            "modrules not evaluated: `Widget` is not among the kinds of the webhook",
            "this is the decision about it as it is now",
        ] {
            assert!(text.contains(part), "{object}: {part}\n{text}");
        }
    }
    // A denial that modgate remembers, of an object that was never stored.
    let (code, text) = why("cm/a");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("denied: ConfigMap live-shop/a, CREATE by"), "{text}");
    for (object, words) in [
        ("gdg/w", "the cluster has no kind `gdg`"),
        ("wdg.apps/w", "the cluster has no kind `wdg.apps`"),
        ("wdg/other", "remembers no denial of Widget other, and the cluster has no such object"),
    ] {
        let (code, text) = why(object);
        assert_eq!(code, Some(2), "{object}: {text}");
        assert!(text.contains(words), "{object}: {text}");
    }
    succeeds(cluster, "delete --force --grace-period=0 -f -", POD);
}

fn account(cluster: &Cluster, name: &str) -> String {
    succeeds(cluster, &format!("create serviceaccount {name} -n {NAMESPACE}"), "");
    succeeds(cluster, &format!("create token {name} -n {NAMESPACE}"), "").trim().to_owned()
}

#[test]
fn the_page_is_for_those_whom_the_cluster_lets() {
    let Some(cluster) = Cluster::shared() else { return };
    succeeds(cluster, "apply --server-side -f -", &modgate_e2e::our_definitions());
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    kubectl(cluster, &format!("create namespace {NAMESPACE}"), "");
    namespace(cluster, "live-shop", "live-page");
    succeeds(cluster, "apply -f -", ROLES);
    let [admin, dev, stranger] = ["admin", "dev", "stranger"].map(|name| account(cluster, name));
    succeeds(cluster, "apply -f -", POLICIES);
    let address = free_address().expect("port");
    let running = Running::configured(cluster, |config| {
        config.engine.installation.namespace = NAMESPACE.into();
        config.addresses.ui = Some(address.to_string());
    });
    let page = Page { address };
    eventually("the rule is in force", || {
        let (status, body) = page.get("/api/v1/policies", &admin);
        status == 200 && body.contains("\"no-bad\"")
    });
    succeeds(cluster, "apply -f -", &running.webhook("live-page", "/validate"));
    let object = format!(
        "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, namespace: live-shop}}, data: {{bad: '{MARKUP}'}}}}"
    );
    eventually("the object is denied", || {
        let denied = kubectl(cluster, "create -f -", &object);
        denied.stderr.contains(MARKUP)
    });

    for (path, token, expected) in [
        ("/", "", 200),
        ("/api/v1/status", "", 401),
        ("/api/v1/status", "no-token", 401),
        ("/api/v1/status", &*stranger, 403),
        ("/api/v1/status", &*dev, 403),
        ("/api/v1/status", &*admin, 200),
        ("/api/v1/decisions", &*stranger, 403),
        ("/api/v1/decisions", &*dev, 403),
        ("/api/v1/decisions?namespace=default", &*dev, 403),
        ("/api/v1/decisions?namespace=live-shop", &*dev, 200),
        ("/api/v1/decisions", &*admin, 200),
    ] {
        let (status, body) = page.get(path, token);
        assert_eq!(status, expected, "{path}: {body}");
    }
    let (_, listed) = page.get("/api/v1/decisions?namespace=live-shop&outcome=denied", &dev);
    let listed = Value::from_json(listed.as_bytes()).expect("JSON");
    let first = listed.get("items").and_then(|items| items.at(0)).expect("a decision");
    let message = first.get("message").and_then(Value::as_str).expect("a message");
    assert!(message.contains(MARKUP), "{message}");

    let why = page.modgate(&["why", "-n", "live-shop"], &dev);
    let text = String::from_utf8_lossy(&why.stdout);
    assert_eq!(why.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&why.stderr));
    for part in ["denied: ConfigMap live-shop/a", "ModRule/live-shop/no-bad", MARKUP, "$.data.bad"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let refused = page.modgate(&["why", "-n", "default"], &dev);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("modgate-viewer"));
    for verb in [&["why", "-n", "live-shop"][..], &["status"]] {
        let wrong = page.modgate(verb, "no-token");
        assert_eq!(wrong.status.code(), Some(2), "{verb:?}");
        let error = String::from_utf8_lossy(&wrong.stderr);
        assert!(error.contains("does not accept this token"), "{verb:?}: {error}");
    }
    let status = page.modgate(&["status", "-o", "json"], &admin);
    let document = Value::from_json(&status.stdout).expect("JSON");
    assert_eq!(document.get("source").and_then(Value::as_str), Some("cluster"));
    kinds_have_the_names_of_the_cluster(cluster, &page, &admin);
    running.stop();
}
