//! `modgate audit --cluster`: what it says besides violations.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use serde_json::{Value, json};

use crate::program::{errors, modgate, out};

/// The answer to a path of an API server with ConfigMaps and Pods.
fn answer(path: &str) -> Option<Value> {
    let path = path.split('?').next().unwrap_or_default();
    let resource = |name: &str, kind: &str| {
        json!({"name": name, "singularName": "", "namespaced": name != "namespaces", "kind": kind,
            "verbs": ["get", "list", "watch"]})
    };
    let object =
        |name: &str, namespace: &str| json!({"metadata": {"name": name, "namespace": namespace}});
    let list = |kind: &str, items: Vec<Value>| json!({"kind": format!("{kind}List"), "apiVersion": "v1", "metadata": {}, "items": items});
    Some(match path {
        "/api" => json!({"kind": "APIVersions", "versions": ["v1"]}),
        "/apis" => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": []}),
        "/api/v1" => json!({"kind": "APIResourceList", "groupVersion": "v1", "resources":
            [resource("pods", "Pod"), resource("configmaps", "ConfigMap"), resource("namespaces", "Namespace")]}),
        "/api/v1/pods" => {
            list("Pod", vec![object("a", "shop"), object("b", "bank"), object("c", "bank")])
        }
        "/api/v1/configmaps" => list("ConfigMap", vec![object("m", "shop")]),
        "/api/v1/namespaces" => list("Namespace", Vec::new()),
        _ => return None,
    })
}

fn serve(stream: TcpStream) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(read) if read > 0 => {}
                _ => return,
            }
        }
        let answer = answer(head.split(' ').nth(1).unwrap_or_default());
        let status = if answer.is_some() { "200 OK" } else { "404 Not Found" };
        let body = answer.unwrap_or_else(|| {
            json!({"kind": "Status", "status": "Failure", "message": "not found", "reason": "NotFound", "code": 404})
        });
        let body = body.to_string();
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        if reader.get_mut().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

fn api_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    address
}

#[test]
fn kinds_that_no_policy_is_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let policy = |criteria: &str| {
        format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: f}}\nspec:\n  \
             crd: {{spec: {{names: {{kind: F}}}}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    \
             rego: |\n      package f\n      violation[{{\"msg\": \"no\"}}] {{ true }}\n\
             ---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: F\nmetadata: {{name: a}}\n\
             spec: {{match: {{{criteria}}}}}\n"
        )
    };
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", api_server())}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).expect("written");
    for (criteria, violations, note) in [
        ("kinds: [{apiGroups: [''], kinds: [Pod]}]", 3, ""),
        ("kinds: [{apiGroups: [''], kinds: [Pod]}], namespaces: [shop]", 1, ""),
        (
            "kinds: [{apiGroups: [apps], kinds: [Deployment]}]",
            0,
            "note: 0 of 1 policy applies to a kind that the cluster serves\n",
        ),
    ] {
        fs::write(folder.path().join("policies.yaml"), policy(criteria)).expect("written");
        let args = ["audit", "-f", "policies.yaml", "--kubeconfig", "kubeconfig"];
        let output = modgate(folder.path(), &args);
        assert_eq!(errors(&output), note, "{criteria}: {}", out(&output));
        assert_eq!(out(&output).matches("deny Pod").count(), violations, "{}", out(&output));
        let quiet = modgate(folder.path(), &[&args[..], &["--quiet"]].concat());
        assert_eq!(errors(&quiet), "", "{criteria}");
    }
}

/// Two contexts of one server, and one that nothing answers.
#[test]
fn several_contexts_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let context = |name: &str, cluster: &str| json!({"name": name, "context": {"cluster": cluster, "user": "u"}});
    let kubeconfig = json!({"apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "up", "cluster": {"server": format!("http://{}", api_server())}},
            {"name": "down", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [context("a", "up"), context("b", "up"), context("c", "down")]});
    fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).expect("written");
    let policies = "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: f}\nspec:\n  \
         crd: {spec: {names: {kind: F}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    \
         rego: |\n      package f\n      violation[{\"msg\": \"no\"}] { true }\n\
         ---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: F\nmetadata: {name: a}\n\
         spec: {match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}}\n";
    fs::write(folder.path().join("policies.yaml"), policies).expect("written");
    let audit = |contexts: &str, more: &[&str]| {
        let args =
            ["audit", "-f", "policies.yaml", "--kubeconfig", "kubeconfig", "--contexts", contexts];
        modgate(folder.path(), &[&args[..], more].concat())
    };
    let both = audit("a,b", &[]);
    assert_eq!(both.status.code(), Some(1), "{}", errors(&both));
    let text = out(&both);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        vec!["CONTEXT", "VIOLATIONS", "POLICY"],
        vec!["a", "3", "F", "a"],
        vec!["b", "3", "F", "a"],
        vec!["a", "3", "3", "3", "0", "0", "0", "0"],
        vec!["all", "6", "6", "6", "0", "0", "0", "0"],
    ] {
        assert!(rows.contains(&row), "{row:?}\n{text}");
    }
    let document: Value = serde_json::from_str(&out(&audit("a,b", &["-o", "json"]))).expect("JSON");
    assert_eq!(document["totals"]["violations"], 6);
    assert_eq!(document["contexts"][1]["context"], "b");
    let lines = out(&audit("a,b", &["-o", "jsonl"]));
    assert_eq!(
        lines.lines().filter(|line| line.contains("\"context\":\"b\"")).count(),
        3,
        "{lines}"
    );
    let partly = audit("a,c", &[]);
    assert_eq!(partly.status.code(), Some(2));
    assert!(errors(&partly).contains("context `c`"), "{}", errors(&partly));
    assert!(out(&partly).contains("all"), "what could be audited is shown");
    let sarif = audit("a,b", &["-o", "sarif"]);
    assert_eq!(sarif.status.code(), Some(2));
}
