//! Objects that policies see of a real cluster: followed, left out, and never missing in between.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::networking::v1::{Ingress, IngressRule, IngressSpec};
use kube::{
    Api, Client, Config, Error,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use modgate_cluster::ClusterConfig;
use modgate_testkit::{
    Roots,
    cluster::{Cluster, Options},
};

use modgate_e2e::{
    Running, definition, eventually, free_address, is_ready, kubectl, namespace, step, succeeds,
    until,
};
use modgate_server::PolicyOrigin;

/// Our kinds, and the namespace whose Config counts.
fn install(cluster: &Cluster) {
    succeeds(cluster, "create -f -", &modgate_e2e::our_definitions());
    let names = "crd/constrainttemplates.templates.gatekeeper.sh \
                 crd/configs.config.gatekeeper.sh crd/syncsets.syncset.gatekeeper.sh";
    succeeds(cluster, &format!("wait --for=condition=Established {names}"), "");
    namespace(cluster, "gatekeeper-system", "none");
}

/// A webhook for what is made in Namespaces with label `test: sync`.
fn webhook(server: &Running, name: &str) -> String {
    let ca = STANDARD.encode(fs::read(server.folder.path().join("tls.crt")).expect("read"));
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {{name: {name}}}\nwebhooks:\n- name: {name}.modgate.test\n  \
         clientConfig: {{url: 'https://{}/v1/admit', caBundle: {ca}}}\n  \
         rules: [{{apiGroups: ['*'], apiVersions: ['*'], resources: [ingresses, configmaps], \
         operations: [CREATE]}}]\n  \
         namespaceSelector: {{matchLabels: {{test: sync}}}}\n  failurePolicy: Fail\n  \
         sideEffects: None\n  admissionReviewVersions: [v1]\n  timeoutSeconds: 10\n",
        server.address
    )
}

fn ingress(namespace: &str, name: &str, host: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\n\
         metadata: {{name: {name}, namespace: {namespace}}}\nspec:\n  \
         defaultBackend: {{service: {{name: x, port: {{number: 80}}}}}}\n  \
         rules: [{{host: {host}}}]\n"
    )
}

fn sync_set(name: &str, group: &str, kind: &str) -> String {
    format!(
        "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\nmetadata: {{name: {name}}}\n\
         spec: {{gvks: [{{group: '{group}', version: v1, kind: {kind}}}]}}\n"
    )
}

fn config(synced: &[&str], excluded: &str) -> String {
    let synced: String =
        synced.iter().map(|kind| format!("{{group: '', version: v1, kind: {kind}}}, ")).collect();
    format!(
        "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
         metadata: {{name: config, namespace: gatekeeper-system}}\nspec:\n  \
         sync: {{syncOnly: [{synced}]}}\n  \
         match: [{{processes: [sync], excludedNamespaces: [{excluded}]}}]\n"
    )
}

/// Refuses ConfigMaps that are named as any object of a kind of `example.com` is.
const WIDGETS: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sunlikewidgets}
spec:
  crd: {spec: {names: {kind: K8sUnlikeWidgets}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package unlike
      violation[{"msg": msg}] {
        widget := data.inventory.namespace[_]["example.com/v1"].Widget[_]
        widget.spec.reserves == input.review.object.metadata.name
        msg := sprintf("%v is reserved", [widget.spec.reserves])
      }
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ignored-by-all, namespace: default}
"#;

const UNLIKE: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sUnlikeWidgets\n\
                      metadata: {name: unlike}\nspec: \
                      {match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}}\n";

/// Why an object may not be created; empty if it may.
fn refused(cluster: &Cluster, object: &str) -> String {
    let outcome = kubectl(cluster, "create --dry-run=server -f -", object);
    if outcome.success { String::new() } else { outcome.stderr }
}

fn becomes(cluster: &Cluster, object: &str, expected: &str) {
    until("kubectl prints another text", || {
        let printed = refused(cluster, object);
        let is_so = printed.contains(expected) && printed.is_empty() == expected.is_empty();
        if is_so { Ok(()) } else { Err(format!("{printed:?}, not {expected:?}")) }
    });
}

const CONFLICT: &str =
    "[unique-ingress-host] ingress host conflicts with an existing ingress <taken.test>";

/// A server, and the address of its probes.
fn serve(cluster: &Cluster) -> (Running, SocketAddr) {
    let health = free_address().expect("port");
    let server =
        Running::configured(cluster, |config| config.addresses.health = Some(health.to_string()));
    (server, health)
}

/// One test, as there is one Config.
#[test]
fn policies_see_the_cluster() {
    let Some(library) = Roots::discover().find_folder("gatekeeper-library/library") else {
        eprintln!("skipped: no corpus has `gatekeeper-library/library`");
        return;
    };
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let cluster = &cluster;
    install(cluster);
    let folder = library.join("general/uniqueingresshost");
    let read = |path: &str| fs::read_to_string(folder.join(path)).expect(path);
    succeeds(cluster, "create -f -", &read("template.yaml"));
    succeeds(cluster, "create -f -", WIDGETS);
    succeeds(cluster, "create -f -", &sync_set("ingresses", "networking.k8s.io", "Ingress"));
    // The API server does not serve these, and no process waits for them (ST-33, RD-5).
    succeeds(cluster, "create -f -", &sync_set("widgets", "example.com", "Widget"));
    for name in ["mine", "other", "spare"] {
        namespace(cluster, name, "sync");
    }

    let (server, health) = serve(cluster);
    eventually("the server is ready", || is_ready(health));
    let kinds = "crd/k8suniqueingresshost.constraints.gatekeeper.sh \
                 crd/k8sunlikewidgets.constraints.gatekeeper.sh";
    eventually("constraints have kinds", || {
        kubectl(cluster, &format!("wait --for=condition=Established {kinds}"), "").success
    });
    let constraint = read("samples/unique-ingress-host/constraint.yaml");
    succeeds(cluster, "create -f -", &constraint);
    succeeds(cluster, "create -f -", UNLIKE);
    succeeds(cluster, "create -f -", &webhook(&server, "sync"));

    step("objects come and go");
    let conflicting = ingress("mine", "second", "taken.test");
    becomes(cluster, &conflicting, "");
    succeeds(cluster, "create -f -", &ingress("other", "first", "taken.test"));
    becomes(cluster, &conflicting, CONFLICT);
    assert_eq!(refused(cluster, &ingress("mine", "second", "free.test")), "");
    succeeds(cluster, "delete ingress -n other first", "");
    becomes(cluster, &conflicting, "");

    step("objects that are being deleted are gone for policies");
    succeeds(cluster, "create -f -", &ingress("other", "first", "taken.test"));
    becomes(cluster, &conflicting, CONFLICT);
    let finalizers = r#"{"metadata":{"finalizers":["modgate.test/wait"]}}"#;
    let patch = |finalizers: &str| {
        let arguments = ["patch", "ingress", "-n", "other", "first", "--type=merge", "-p"];
        let outcome = cluster.run(arguments.into_iter().chain([finalizers]), "").expect("kubectl");
        assert!(outcome.success, "{}", outcome.stderr);
    };
    patch(finalizers);
    becomes(cluster, &conflicting, CONFLICT);
    succeeds(cluster, "delete ingress -n other first --wait=false", "");
    becomes(cluster, &conflicting, "");
    patch(r#"{"metadata":{"finalizers":null}}"#);

    step("a kind that is served later");
    let reserved = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: reserved, namespace: mine}\n";
    assert_eq!(refused(cluster, reserved), "");
    let widgets = definition("example.com", "Widget", "widgets", "Namespaced", "v1");
    succeeds(cluster, "create -f -", &widgets);
    succeeds(cluster, "wait --for=condition=Established crd/widgets.example.com", "");
    let widget = "apiVersion: example.com/v1\nkind: Widget\n\
                  metadata: {name: w, namespace: other}\nspec: {reserves: reserved}\n";
    eventually("there is a widget", || kubectl(cluster, "apply -f -", widget).success);
    becomes(cluster, reserved, "[unlike] reserved is reserved");
    step("a kind that is not served any more has no objects");
    succeeds(cluster, "delete crd widgets.example.com", "");
    becomes(cluster, reserved, "");
    succeeds(cluster, "create -f -", &widgets);
    succeeds(cluster, "wait --for=condition=Established crd/widgets.example.com", "");
    eventually("there is a widget", || kubectl(cluster, "apply -f -", widget).success);
    becomes(cluster, reserved, "[unlike] reserved is reserved");

    fields_of_a_crd_are_put_back(cluster);

    step("a namespace is excluded, and included again");
    succeeds(cluster, "create -f -", &ingress("other", "first", "taken.test"));
    becomes(cluster, &conflicting, CONFLICT);
    succeeds(cluster, "apply -f -", &config(&[], "'oth*'"));
    becomes(cluster, &conflicting, "");
    succeeds(cluster, "apply -f -", &config(&[], "spare"));
    becomes(cluster, &conflicting, CONFLICT);

    never_admits_what_conflicts(cluster);

    step("a new process knows all objects before it is ready (RD-1)");
    succeeds(cluster, "delete validatingwebhookconfiguration sync", "");
    drop(server);
    let (later, health) = serve(cluster);
    succeeds(cluster, "create -f -", &webhook(&later, "later"));
    eventually("the server is ready", || is_ready(health));
    step("the API server begins to call the webhook");
    becomes(cluster, &conflicting, CONFLICT);
}

fn fields_of_a_crd_are_put_back(cluster: &Cluster) {
    step("another writer changes a constraint's CRD: our fields are put back");
    let crd = "k8sunlikewidgets.constraints.gatekeeper.sh";
    let labels =
        "{\"metadata\":{\"labels\":{\"gatekeeper.sh/constraint\":\"no\",\"mine\":\"yes\"}}}";
    let arguments = ["patch", "crd", crd, "--type=merge", "-p", labels];
    assert!(cluster.run(arguments, "").expect("kubectl").success);
    let shown =
        |path: &str| succeeds(cluster, &format!("get crd {crd} -o jsonpath={{{path}}}"), "");
    eventually("the label is back", || {
        shown(".metadata.labels") == r#"{"gatekeeper.sh/constraint":"yes","mine":"yes"}"#
    });
    let columns = r#"[{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]"#;
    let before = shown(".spec.versions[0].additionalPrinterColumns");
    let arguments = ["patch", "crd", crd, "--type=json", "-p", columns];
    assert!(cluster.run(arguments, "").expect("kubectl").success);
    eventually("the columns are back", || {
        shown(".spec.versions[0].additionalPrinterColumns") == before
    });
}

/// Changes what is synced while requests come in: none of those that conflict may pass (Q-29).
fn never_admits_what_conflicts(cluster: &Cluster) {
    let runtime = tokio::runtime::Runtime::new().expect("runtime");
    let client = runtime.block_on(client(cluster.kubeconfig()));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let api: Api<Ingress> = Api::namespaced(client.clone(), "mine");
            runtime.spawn(conflict(api, Arc::clone(&stop)))
        })
        .collect();
    let exclusions = ["'spare'", "'spare*', 'x*'", "'mi*'", "'x*'", "kube-system", "'spare'"];
    for round in 0..18 {
        let synced = [&["Service"][..], &["Service", "Namespace"], &[], &["Pod", "Namespace"]];
        let config = config(synced[round % 4], exclusions[round % 6]);
        succeeds(cluster, "apply -f -", &config);
        if round % 6 == 3 {
            // A kind comes with another SyncSet, too, and goes with it.
            succeeds(cluster, "apply -f -", &sync_set("again", "networking.k8s.io", "Ingress"));
        } else if round % 6 == 5 {
            succeeds(cluster, "delete syncset again", "");
        }
    }
    stop.store(true, Ordering::Relaxed);
    let mut asked = 0;
    for worker in workers {
        asked += runtime.block_on(worker).expect("worker");
    }
    eprintln!("{asked} requests that conflict, while what is synced changed 18 times");
    assert!(asked > 50, "{asked}");
}

/// Asks until it is stopped; returns how often.
async fn conflict(api: Api<Ingress>, stop: Arc<AtomicBool>) -> usize {
    let rule = IngressRule { host: Some("taken.test".to_owned()), ..IngressRule::default() };
    let ingress = Ingress {
        metadata: ObjectMeta { name: Some("second".to_owned()), ..ObjectMeta::default() },
        spec: Some(IngressSpec { rules: Some(vec![rule]), ..IngressSpec::default() }),
        ..Ingress::default()
    };
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        match api.create(&params, &ingress).await {
            Err(Error::Api(status)) if status.message.contains(CONFLICT) => asked += 1,
            other => panic!("after {asked} others: {other:?}"),
        }
    }
    asked
}

async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("kubeconfig");
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(file, &options).await.expect("config");
    Client::try_from(config).expect("client")
}

/// Two templates: one looks at labels of ConfigMaps that are synced, the other at their data, too.
fn looks_at(kind: &str, what: &str) -> String {
    format!(
        "---\napiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
         metadata: {{name: {}}}\nspec:\n  crd: {{spec: {{names: {{kind: {kind}}}}}}}\n  targets:\n  \
         - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package p\n      \
         violation[{{\"msg\": \"always\"}}] {{ input.review.object.metadata.name == \"{}\" }}\n      \
         violation[{{\"msg\": \"reserved\"}}] {{\n        \
         data.inventory.namespace[_].v1.ConfigMap[_].{what} == input.review.object.metadata.name\n      \
         }}\n",
        kind.to_lowercase(),
        kind.to_lowercase()
    )
}

/// Policies that look at more of synced objects than was kept wait until these were listed again, but
/// not for ever: here the right to list is gone. When it is back, they see what they look at.
#[test]
fn policies_are_in_force_though_what_they_look_at_cannot_be_listed() {
    const ACCOUNT: &str = "apiVersion: v1\nkind: ServiceAccount\n\
        metadata: {name: reader, namespace: gatekeeper-system}\n---\n\
        apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: most}\n\
        rules:\n- apiGroups: ['']\n  resources: [namespaces, nodes, pods, secrets, events]\n  \
        verbs: ['*']\n- apiGroups: ['apiextensions.k8s.io', 'admissionregistration.k8s.io', \
        'coordination.k8s.io', 'config.gatekeeper.sh', 'connection.gatekeeper.sh', \
        'constraints.gatekeeper.sh', 'expansion.gatekeeper.sh', 'externaldata.gatekeeper.sh', \
        'mutations.gatekeeper.sh', 'status.gatekeeper.sh', 'syncset.gatekeeper.sh', \
        'templates.gatekeeper.sh', 'api.kubemod.io']\n  resources: ['*']\n  verbs: ['*']\n";
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let cluster = &cluster;
    install(cluster);
    succeeds(cluster, "create -f -", ACCOUNT);
    let reader = "--serviceaccount=gatekeeper-system:reader";
    succeeds(cluster, "create clusterrole maps --verb=get,list,watch --resource=configmaps", "");
    let maps = format!("create clusterrolebinding maps --clusterrole=maps {reader}");
    succeeds(cluster, &maps, "");
    succeeds(cluster, &format!("create clusterrolebinding most --clusterrole=most {reader}"), "");
    let token = succeeds(cluster, "create token reader -n gatekeeper-system", "");
    namespace(cluster, "mine", "sync");
    succeeds(cluster, "create -f -", &sync_set("maps", "", "ConfigMap"));
    let taken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: taken, namespace: mine, labels: \
                 {reserves: by-label}}\ndata: {reserves: by-data}\n";
    succeeds(cluster, "create -f -", taken);
    succeeds(cluster, "create -f -", &looks_at("Labels", "metadata.labels.reserves"));

    let folder = tempfile::tempdir().expect("folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let view = "config view --raw --flatten --minify -o jsonpath={.clusters[0].cluster}";
    let clusters = succeeds(cluster, view, "");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: x, context: \
         {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: {clusters}}}]\nusers: [{{name: u, \
         user: {{token: {}}}}}]\n",
        token.trim()
    );
    fs::write(&kubeconfig, text).expect("written");
    let server = Running::configured(cluster, |config| {
        config.policies =
            PolicyOrigin::Cluster(ClusterConfig { kubeconfig: Some(kubeconfig), context: None });
    });
    succeeds(cluster, "create -f -", &webhook(&server, "sync"));
    let constraint = |kind: &str| {
        format!(
            "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: {kind}\nmetadata: {{name: c}}\n\
             spec: {{match: {{kinds: [{{apiGroups: [''], kinds: [ConfigMap]}}]}}}}\n"
        )
    };
    let is_taken = |kind: &str| kubectl(cluster, "apply -f -", &constraint(kind)).success;
    let map = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: mine}}\n")
    };
    eventually("there is a constraint", || is_taken("Labels"));
    becomes(cluster, &map("by-label"), "[c] reserved");
    // The open watch goes on; a new list is refused.
    succeeds(cluster, "delete clusterrolebinding maps", "");
    let may = "auth can-i list configmaps -A --as=system:serviceaccount:gatekeeper-system:reader";
    eventually("it may not list", || kubectl(cluster, may, "").stdout.trim() == "no");

    let asked = Instant::now();
    succeeds(cluster, "create -f -", &looks_at("Contents", "data.reserves"));
    eventually("there is another constraint", || is_taken("Contents"));
    becomes(cluster, &map("contents"), "[c] always");
    let waited = asked.elapsed();
    assert!(waited >= Duration::from_secs(5), "{waited:?}");
    assert_eq!(refused(cluster, &map("by-data")), "", "what was not kept is not seen");
    becomes(cluster, &map("by-label"), "[c] reserved");

    succeeds(cluster, &maps, "");
    becomes(cluster, &map("by-data"), "[c] reserved");
    eprintln!("in force {waited:?} after their template, with nobody to list what they look at");
}
