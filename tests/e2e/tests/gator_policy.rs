//! `gator policy` against a real API server, with modgate as what makes kinds of templates.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::{Command, Stdio},
};

use modgate_engine::api::crds;
use modgate_testkit::cluster::Cluster;
use modgate_value::Value;

use modgate_e2e::{Running, eventually, kubectl, step, succeeds};

/// Runs `modgate` with these words as arguments; exit code, standard output, standard error.
fn gator(arguments: &str, env: &BTreeMap<String, String>) -> (u8, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_modgate-e2e"))
        .args(arguments.split_whitespace())
        .envs(env)
        .stdin(Stdio::null())
        .output()
        .expect("runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let code = output.status.code().and_then(|code| code.try_into().ok()).expect("exit code");
    (code, text(output.stdout), text(output.stderr))
}

/// A catalog with two policies, one of them in a bundle.
fn write_catalog(folder: &Path, version: &str) {
    let catalog = format!(
        "apiVersion: gator.gatekeeper.sh/v1alpha1\nkind: PolicyCatalog\n\
         metadata: {{name: c, version: {version}, repository: 'https://example.com'}}\n\
         bundles: [{{name: base, policies: [k8slabels]}}]\n\
         policies:\n\
         - {{name: k8slabels, version: {version}, description: d, category: general, templatePath: \
         labels.yaml, bundleConstraints: {{base: owner.yaml}}, bundles: [base]}}\n\
         - {{name: k8snothing, version: {version}, description: d, category: general, templatePath: \
         nothing.yaml}}\n"
    );
    fs::write(folder.join("catalog.yaml"), catalog).expect("written");
    let template = |kind: &str, body: &str| {
        format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
             metadata: {{name: {}}}\nspec:\n  crd: {{spec: {{names: {{kind: {kind}}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package p\n      \
             violation[{{\"msg\": \"no\"}}] {{ {body} }}\n",
            kind.to_lowercase()
        )
    };
    let labels = template("K8sLabels", "not input.review.object.metadata.labels.owner");
    fs::write(folder.join("labels.yaml"), labels).expect("written");
    fs::write(folder.join("nothing.yaml"), template("K8sNothing", "false")).expect("written");
    let constraint = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sLabels\n\
                      metadata: {name: owner}\nspec:\n  enforcementAction: deny\n  match: {kinds: \
                      [{apiGroups: [''], kinds: [ConfigMap]}]}\n";
    fs::write(folder.join("owner.yaml"), constraint).expect("written");
}

/// Installs the CRDs, and serves as Gatekeeper.
fn install_gatekeeper(cluster: &Cluster) -> Running {
    let definitions: String =
        crds::all().expect("CRDs").iter().map(|it| format!("---\n{}\n", it.to_json())).collect();
    succeeds(cluster, "apply --server-side -f -", &definitions);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    let pod = "apiVersion: v1\nkind: Namespace\nmetadata: {name: gatekeeper-system}\n---\n\
               apiVersion: v1\nkind: Pod\nmetadata: {name: modgate-0, namespace: gatekeeper-system}\n\
               spec: {containers: [{name: modgate, image: modgate}]}\n";
    succeeds(cluster, "apply -f -", pod);
    Running::configured(cluster, |config| config.pod = Some("modgate-0".into()))
}

#[test]
fn policies_come_and_go() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().expect("folder");
    write_catalog(folder.path(), "v1.0.0");
    let env: BTreeMap<String, String> = [
        ("KUBECONFIG", cluster.kubeconfig().display().to_string()),
        ("GATOR_HOME", folder.path().join("home").display().to_string()),
        ("GATOR_CATALOG_URL", format!("file://{}/catalog.yaml", folder.path().display())),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let run = |arguments: &str| gator(arguments, &env);
    let is = |arguments: &str, code: u8, stdout: &str, stderr: &str| {
        let expected = (code, stdout.to_owned(), stderr.to_owned());
        assert_eq!(run(arguments), expected, "{arguments}");
    };

    step("without Gatekeeper's CRDs nothing can be installed");
    let (code, stdout, _) = run("policy update");
    assert_eq!(
        (code, stdout.as_str()),
        (0, "Updated catalog to version v1.0.0 (2 policies, 1 bundles)\n")
    );
    is("policy list", 2, "", "Error: gatekeeper CRDs not found in cluster\n");
    let (code, _, stderr) = run("policy install k8snothing");
    assert_eq!(code, 2);
    assert!(stderr.contains("Gatekeeper CRDs not found in cluster."), "{stderr}");

    let _server = install_gatekeeper(cluster);
    is("policy list", 0, "No policies installed.\n", "");
    let done = "✓ k8slabels (v1.0.0) installed\n\n✓ Installed 1 templates, 1 constraints\n";
    is("policy install --bundle base --enforcement-action=Warn", 0, done, "");
    let action = "get k8slabels owner -o jsonpath={.spec.enforcementAction}";
    assert_eq!(succeeds(cluster, action, ""), "warn");
    let again = "✓ k8slabels (v1.0.0) installed\n\n✓ Installed 1 templates, 1 constraints\n";
    is("policy install --bundle base", 0, again, "");
    assert_eq!(succeeds(cluster, action, ""), "warn", "what was decided stays");
    let alone = "✓ k8snothing (v1.0.0) installed\n\n✓ Installed 1 templates, 0 constraints\n";
    is("policy install k8snothing", 0, alone, "");
    is("policy install k8snothing", 0, "- k8snothing (already installed at same version)\n", "");
    let (code, stdout, _) = run("policy list -o json");
    let listed = Value::from_json(stdout.as_bytes()).expect("JSON");
    let names: Vec<&str> = listed
        .get("policies")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|it| it.get("name")?.as_str())
        .collect();
    assert_eq!((code, names), (0, vec!["k8slabels", "k8snothing"]));

    step("objects of other owners are not changed");
    succeeds(cluster, "label k8slabels owner gatekeeper.sh/managed-by-", "");
    let (code, _, stderr) = run("policy install --bundle base");
    assert_eq!(code, 3, "{stderr}");
    assert!(
        stderr.contains("K8sLabels 'owner' already exists but is not managed by gator"),
        "{stderr}"
    );
    succeeds(cluster, "label k8slabels owner gatekeeper.sh/managed-by=gator", "");

    step("a newer catalog");
    write_catalog(folder.path(), "v2.0.0");
    let (_, stdout, _) = run("policy update");
    assert_eq!(
        stdout,
        "Updated catalog to version v2.0.0 (2 policies, 1 bundles)\n\n2 policies have updates \
         available:\n  k8slabels  v1.0.0 → v2.0.0\n  k8snothing  v1.0.0 → v2.0.0\n\nRun 'gator policy \
         upgrade --all' to upgrade.\n"
    );
    let (code, stdout, _) = run("policy upgrade --all --dry-run");
    assert_eq!(code, 0);
    assert!(stdout.contains("k8slabels v1.0.0 -> v2.0.0"), "{stdout}");
    let upgraded =
        "✓ k8slabels upgraded (v1.0.0 → v2.0.0)\n✓ k8snothing upgraded (v1.0.0 → v2.0.0)\n";
    is("policy upgrade --all", 0, upgraded, "");
    let version = "get constrainttemplate k8slabels -o \
                   jsonpath={.metadata.annotations.gatekeeper\\.sh/policy-version}";
    assert_eq!(succeeds(cluster, version, ""), "v2.0.0");
    assert_eq!(succeeds(cluster, action, ""), "warn", "an upgrade takes nothing back");
    let (code, stdout, _) = run("policy upgrade --all");
    assert_eq!(code, 0);
    assert!(stdout.ends_with("\nAll policies are up to date.\n"), "{stdout}");

    what_is_held_is_tested_for_what_it_lacks(cluster, folder.path(), &env);

    is("policy uninstall --dry-run k8slabels", 0, "k8slabels\n", "");
    let gone = "✓ k8slabels uninstalled\n✓ k8snothing uninstalled\n- nothing (not found)\n";
    is("policy uninstall k8slabels k8snothing nothing", 0, gone, "");
    eventually("the templates are gone", || {
        succeeds(cluster, "get constrainttemplates -o name", "").is_empty()
    });
    if cluster.has_controllers() {
        let kind = "get crd k8slabels.constraints.gatekeeper.sh";
        eventually("the constraints are gone with it", || !kubectl(cluster, kind, "").success);
    }
}

/// `gator sync test` of what kubectl gets of a cluster, with the kinds this API server has.
fn what_is_held_is_tested_for_what_it_lacks(
    cluster: &Cluster,
    folder: &Path,
    env: &BTreeMap<String, String>,
) {
    let template = "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata:\n  \
        name: needing\n  annotations:\n    metadata.gatekeeper.sh/requires-sync-data: '\"[[{\"groups\": \
        [\"\"], \"versions\": [\"v1\"], \"kinds\": [\"Service\"]}]]\"'\nspec:\n  \
        crd: {spec: {names: {kind: Needing}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    \
        rego: |\n      package p\n      violation[{\"msg\": \"no\"}] { \
        data.inventory.namespace[_].v1.Service[_] }\n";
    let sync_set = "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\nmetadata: {name: s}\n\
                    spec: {gvks: [{group: '', version: v1, kind: Service}]}\n";
    let served = succeeds(cluster, "get --raw /api/v1", "");
    let served = Value::from_json(served.as_bytes()).expect("JSON");
    let served = served.get("resources").and_then(Value::as_array).expect("resources");
    let kinds: BTreeSet<&str> = served.iter().filter_map(|it| it.get("kind")?.as_str()).collect();
    let kinds: Vec<&str> = kinds.into_iter().collect();
    let manifest = format!(
        "apiVersion: gvkmanifest.gatekeeper.sh/v1alpha1\nkind: GVKManifest\nmetadata: {{name: m}}\n\
         spec: {{groups: {{'': {{v1: [{}]}}}}}}\n",
        kinds.join(", ")
    );
    let [manifest_file, held] = ["manifest.yaml", "held.yaml"].map(|name| folder.join(name));
    fs::write(&manifest_file, manifest).expect("written");
    let test = || {
        let all = succeeds(cluster, "get constrainttemplates,syncsets,configs -A -o json", "");
        let all = Value::from_json(all.as_bytes()).expect("JSON");
        let all = all.get("items").and_then(Value::as_array).expect("items");
        let all: String = all.iter().map(|it| format!("---\n{}\n", it.to_json())).collect();
        fs::write(&held, all).expect("written");
        gator(&format!("sync test -n {} -n {}", held.display(), manifest_file.display()), env)
    };
    succeeds(cluster, "create -f -", template);
    let missing = "the following requirements were not met: \nneeding:\n- /v1:Service";
    let (code, _, stderr) = test();
    assert!(code == 1 && stderr.contains(missing), "{code}: {stderr}");
    succeeds(cluster, "create -f -", sync_set);
    let (code, _, stderr) = test();
    assert_eq!((code, stderr.as_str()), (0, ""));
    succeeds(cluster, "delete -f -", &format!("{template}---\n{sync_set}"));
}

/// The message when there is no cluster.
#[test]
fn without_a_cluster() {
    let nowhere = [("KUBECONFIG".to_owned(), "/no/such/file".to_owned())].into();
    let (code, stdout, stderr) = gator("policy list", &nowhere);
    assert_eq!((code, stdout.as_str()), (1, ""));
    let beginning =
        "Error: creating Kubernetes client: cannot use the kubeconfig `/no/such/file`: ";
    assert!(stderr.starts_with(beginning), "{stderr}");
}
