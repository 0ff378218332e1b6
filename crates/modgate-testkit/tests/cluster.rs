//! The test cluster behaves as one: it authorizes requests, and deletes objects without an owner.

#![allow(clippy::expect_used, reason = "tests fail by panicking")]

use std::{
    thread,
    time::{Duration, Instant},
};

use modgate_testkit::cluster::{ASSETS, Cluster};

/// Longer than anything here takes, on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

fn succeeds(cluster: &Cluster, arguments: &[&str], input: &str) -> String {
    let outcome = cluster.run(arguments, input).expect("kubectl");
    assert!(outcome.success, "{arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

#[test]
fn it_answers_as_the_version_it_says() {
    let Some(cluster) = Cluster::shared() else { return };
    let version = succeeds(cluster, &["get", "--raw", "/version"], "");
    assert!(version.contains(&format!("\"{}\"", cluster.kubernetes())), "{version}");
    assert!(cluster.server().starts_with("https://127.0.0.1:"), "{}", cluster.server());
}

#[test]
fn rights_are_asked_for() {
    let Some(cluster) = Cluster::shared() else { return };
    let get = ["get", "namespaces", "--as", "nobody"];
    let refused = cluster.run(get, "").expect("kubectl");
    assert!(!refused.success);
    assert!(refused.stderr.contains("User \"nobody\" cannot list resource"), "{}", refused.stderr);
}

#[test]
fn what_is_deleted_goes() {
    let Some(cluster) = Cluster::shared() else { return };
    if !cluster.has_controllers() {
        eprintln!("skipped: the binaries of {ASSETS} come without controllers");
        return;
    }
    succeeds(cluster, &["create", "namespace", "going"], "");
    let owner = succeeds(
        cluster,
        &["create", "configmap", "owner", "-n", "going", "-o", "jsonpath={.metadata.uid}"],
        "",
    );
    let owned = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: owned\n  namespace: going\n  \
         ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {owner}}}]\n"
    );
    succeeds(cluster, &["create", "-f", "-"], &owned);
    succeeds(cluster, &["delete", "configmap", "owner", "-n", "going"], "");
    let left = |arguments: &[&str]| cluster.run(arguments, "").expect("kubectl").success;
    eventually("what is owned goes with its owner", || {
        !left(&["get", "configmap", "owned", "-n", "going"])
    });
    succeeds(cluster, &["delete", "namespace", "going", "--wait=false"], "");
    eventually("the namespace is gone", || !left(&["get", "namespace", "going"]));
}
