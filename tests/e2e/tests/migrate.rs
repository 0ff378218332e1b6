//! `modgate migrate --check` of a cluster with both originals in it.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test")]

use std::{fs, path::Path, process::Command};

use modgate_engine::api::crds;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

fn succeeds(cluster: &Cluster, arguments: &str, input: &str) -> String {
    let outcome = cluster.run(arguments.split_whitespace(), input).expect("kubectl");
    assert!(outcome.success, "{arguments}: {}", outcome.stderr);
    outcome.stdout
}

/// The same installations as in files, whose constraint has a CRD that no controller creates here.
fn install(cluster: &Cluster) {
    let definitions: String =
        crds::all().expect("CRDs").iter().map(|it| format!("---\n{}\n", it.to_json())).collect();
    succeeds(cluster, "apply --server-side -f -", &definitions);
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/modgate-migrate/tests/fixtures");
    let rendered = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(["render", "crds"])
        .arg(folder.join("gatekeeper.yaml"))
        .output()
        .expect("modgate runs");
    let rendered = String::from_utf8(rendered.stdout).expect("UTF-8");
    succeeds(cluster, "apply -f -", &rendered);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    succeeds(cluster, "create namespace shop", "");
    // Webhooks last: no server answers them.
    let mut webhooks = String::new();
    for name in ["kubemod.yaml", "gatekeeper.yaml"] {
        let text = fs::read_to_string(folder.join(name)).expect(name);
        let (later, now): (Vec<&str>, Vec<&str>) =
            text.split("\n---\n").partition(|part| part.contains("WebhookConfiguration\n"));
        webhooks.push_str(&format!("---\n{}\n", later.join("\n---\n")));
        succeeds(cluster, "apply -f -", &now.join("\n---\n"));
    }
    succeeds(cluster, "apply -f -", &webhooks);
}

#[test]
fn a_cluster_is_read_as_files_are() {
    let Some(cluster) = Cluster::shared() else { return };
    install(cluster);
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/modgate-migrate/tests/fixtures");
    let report = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
            .args(["migrate", "--check", "-o", "json"])
            .args(arguments)
            .output()
            .expect("modgate runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.as_str()), (Some(1), ""));
        Value::from_json(&output.stdout).expect("JSON")
    };
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let live = report(&["--kubeconfig", &kubeconfig]);
    let files = ["kubemod.yaml", "gatekeeper.yaml"].map(|it| folder.join(it).display().to_string());
    let files = report(&[&files[0], &files[1]]);
    // Kind, namespace and name of what is said something of; the rest of a text says where it stands.
    let subjects = |report: &Value, member: &str| -> Vec<String> {
        let all = report.get(member).and_then(Value::as_array).into_iter().flatten();
        let subject = |it: &Value| {
            let object = it.get("object").unwrap_or(it);
            let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
            let more = ["decision", "flag", "field"]
                .map(|key| it.get(key).and_then(Value::as_str).unwrap_or_default().to_owned());
            format!("{} {}/{} {}", text("kind"), text("namespace"), text("name"), more.join(" "))
        };
        let mut all: Vec<String> = all.map(subject).collect();
        all.sort();
        all
    };
    for member in ["unchanged", "differs", "refused", "warnings", "flags"] {
        assert_eq!(subjects(&live, member), subjects(&files, member), "{member}");
    }
    let commands = |report: &Value| -> Vec<String> {
        let steps = report.get("steps").and_then(Value::as_array).into_iter().flatten();
        let of_step = |step: &Value| {
            let all = step.get("commands").and_then(Value::as_array).into_iter().flatten();
            all.filter_map(|it| it.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let mut all: Vec<String> = steps.flat_map(of_step).collect();
        all.sort();
        all
    };
    let only_deletions =
        |all: Vec<String>| all.into_iter().filter(|it| it.contains(" delete ")).collect::<Vec<_>>();
    assert_eq!(only_deletions(commands(&live)), only_deletions(commands(&files)));
}
