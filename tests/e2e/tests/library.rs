//! The Gatekeeper library applied in an unusual order: constraints before their
//! templates, and templates that are still being taken in (AD-34).

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests fail by panicking, and their output says why"
)]

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use modgate_cluster::remote::{Place, Remote, RemoteError, Resource};
use modgate_engine::{api::crds, constraint::ConstraintSchema};
use modgate_testkit::{
    Roots,
    cluster::{Cluster, Options},
};
use modgate_value::{Value, yaml};

use modgate_e2e::{Running, TIMEOUT, eventually, kubectl, manifests, succeeds};

/// The library.
struct Library {
    templates: Vec<Value>,
    /// As they stand in its files; some have the same name.
    written: Vec<Value>,
    /// Each name once.
    constraints: Vec<Value>,
}

impl Library {
    fn read() -> Option<Self> {
        let Some(folder) = Roots::discover().find_folder("gatekeeper-library/library") else {
            eprintln!("skipped: no corpus has `gatekeeper-library/library`");
            return None;
        };
        let read = |beginning: &str| -> Vec<Value> {
            let mut text = String::new();
            manifests(&folder, beginning, ".yaml", &mut text);
            let documents = yaml::load(&text).expect("YAML").into_iter();
            documents.map(|it| it.value).filter(|it| it.get("kind").is_some()).collect()
        };
        let written = read("constraint");
        let named = written.iter().map(|it| ((kind(it), name(it)), it.clone()));
        let constraints = named.collect::<BTreeMap<_, _>>().into_values().collect();
        let library = Self { templates: read("template"), constraints, written };
        assert_eq!((library.templates.len(), library.written.len()), (49, 75));
        Some(library)
    }
}

fn text<'v>(object: &'v Value, path: &[&str]) -> &'v str {
    object.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn kind(object: &Value) -> &str {
    text(object, &["kind"])
}

fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

fn documents<'v>(objects: impl IntoIterator<Item = &'v Value>) -> String {
    objects.into_iter().map(|object| format!("---\n{}\n", object.to_json())).collect()
}

/// A cluster with our CRDs, and a server that is asked about everything, as Gatekeeper is; but what
/// it does not answer fails.
fn guarded(cluster: &Cluster) -> Running {
    let definitions = documents(&crds::all().expect("CRDs"));
    succeeds(cluster, "apply --server-side -f -", &definitions);
    succeeds(cluster, "wait --for=condition=Established crd --all", "");
    let server = Running::configured(cluster, |config| {
        // What is shown here is not how fast this machine is.
        config.limits.template = Duration::from_secs(8);
        config.limits.object = Duration::from_secs(8);
        // A new binding is about all requests until the API server, which has a second for it, knows
        // its constraints.
        config.vap.wait = Duration::from_secs(3600);
    });
    let ca = STANDARD.encode(std::fs::read(server.folder.path().join("tls.crt")).expect("read"));
    let configuration = format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {{name: gatekeeper-validating-webhook-configuration}}\nwebhooks:\n\
         - name: validation.gatekeeper.sh\n  \
         clientConfig: {{url: 'https://{}/v1/admit', caBundle: {ca}}}\n  \
         rules: [{{apiGroups: ['*'], apiVersions: ['*'], resources: ['*'], operations: [CREATE, \
         UPDATE]}}]\n  matchPolicy: Exact\n  failurePolicy: Fail\n  sideEffects: None\n  \
         admissionReviewVersions: [v1, v1beta1]\n  timeoutSeconds: 10\n",
        server.address
    );
    succeeds(cluster, "apply -f -", &configuration);
    let probe = "create configmap probe -n default --dry-run=server";
    eventually("the server answers", || {
        // Without an answer it was the API server that had not heard of the webhook yet.
        kubectl(cluster, probe, "").success
            && server.metric("gatekeeper_validation_request_count_total", "") > 0
    });
    server
}

/// Templates and constraints in force.
fn in_force(server: &Running) -> (u64, u64) {
    let active = |name: &str| server.metric(name, "status=\"active\"");
    (active("gatekeeper_constraint_templates"), active("gatekeeper_constraints"))
}

/// Kinds of constraints that the API server tells of, which it does some time after they are
/// Established; `None` while it cannot tell of all groups.
fn served_kinds(cluster: &Cluster) -> Option<usize> {
    let served =
        kubectl(cluster, "api-resources --api-group=constraints.gatekeeper.sh -o name", "");
    served.success.then(|| served.stdout.lines().count())
}

/// The same order on every run.
fn shuffled(mut objects: Vec<&Value>) -> Vec<&Value> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    for at in (1..objects.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let other = (state >> 33) as usize % (at + 1);
        objects.swap(at, other);
    }
    objects
}

/// `modgate render crds POLICIES | kubectl apply -f -`, then everything at once in any order.
#[test]
fn one_apply_in_any_order() {
    let Some(library) = Library::read() else { return };
    let Some(cluster) = Cluster::shared() else { return };
    let server = guarded(cluster);
    let expected = (library.templates.len() as u64, library.constraints.len() as u64);
    // What `modgate render crds` prints.
    let rendered: Vec<Value> = library
        .templates
        .iter()
        .map(|template| ConstraintSchema::of_template(template).expect("schema").crd())
        .collect();
    let rendered = documents(&rendered);
    let constraints_first: Vec<&Value> = library.written.iter().chain(&library.templates).collect();
    let orders = [
        ("constraints first", constraints_first.clone()),
        ("shuffled", shuffled(constraints_first)),
    ];
    for (order, objects) in orders {
        succeeds(cluster, "apply -f -", &rendered);
        let established = "wait --for=condition=Established crd -l gatekeeper.sh/constraint=yes";
        succeeds(cluster, established, "");
        eventually("all kinds are served", || {
            served_kinds(cluster) == Some(library.templates.len())
        });
        let started = Instant::now();
        // Fails unless kubectl exits with 0.
        let said = succeeds(cluster, "apply --server-side -f -", &documents(objects));
        assert_eq!(said.lines().count(), library.templates.len() + library.written.len(), "{said}");
        let applied = started.elapsed();
        eventually("all are in force", || in_force(&server) == expected);
        eprintln!(
            "{order}: {} templates and {} constraints applied in {applied:.1?}, in force after {:.1?}",
            library.templates.len(),
            library.written.len(),
            started.elapsed()
        );
        succeeds(cluster, "delete constrainttemplates --all", "");
        succeeds(cluster, "delete crd -l gatekeeper.sh/constraint=yes --ignore-not-found", "");
        eventually("all are gone", || in_force(&server) == (0, 0));
        eventually("all kinds are gone", || {
            succeeds(cluster, "get crd -l gatekeeper.sh/constraint=yes -o name", "").is_empty()
                && served_kinds(cluster) == Some(0)
        });
    }
    through_a_client(cluster, &server, &library);
}

/// Constraints sent from the moment their template is: none is refused, and it is served how long they
/// take. They are applied, for a POST the API server itself holds for two seconds after a kind became
/// one.
fn through_a_client(cluster: &Cluster, server: &Running, library: &Library) {
    let next = AtomicUsize::new(0);
    let sent = AtomicUsize::new(0);
    let waits: Mutex<Vec<Duration>> = Mutex::new(Vec::new());
    let answers: Mutex<Vec<Duration>> = Mutex::new(Vec::new());
    let work = || {
        let place = Place { files: vec![cluster.kubeconfig().to_owned()], context: None };
        let remote = Remote::connect(&place).expect("client");
        while let Some(template) = library.templates.get(next.fetch_add(1, Ordering::Relaxed)) {
            let version = text(template, &["apiVersion"]).rsplit('/').next().expect("version");
            let kinds =
                Resource::of_cluster("templates.gatekeeper.sh", version, "constrainttemplates");
            remote.create(&kinds, template).expect("template");
            let started = Instant::now();
            let of = text(template, &["spec", "crd", "spec", "names", "kind"]);
            for constraint in library.constraints.iter().filter(|it| kind(it) == of) {
                let version = text(constraint, &["apiVersion"]).rsplit('/').next().expect("v");
                let plural = of.to_lowercase();
                let resource = Resource::of_cluster("constraints.gatekeeper.sh", version, &plural);
                loop {
                    sent.fetch_add(1, Ordering::Relaxed);
                    let posted = Instant::now();
                    match remote.apply(&resource, constraint, "test") {
                        Ok(_) => {
                            answers.lock().expect("not poisoned").push(posted.elapsed());
                            break;
                        }
                        // The API server does not know the kind yet, and calls no webhook.
                        Err(RemoteError::Refused { code: 404, .. }) => {
                            assert!(started.elapsed() < TIMEOUT, "{of} never became a kind");
                            thread::sleep(Duration::from_millis(10));
                        }
                        Err(error) => panic!("{of} {}: {error}", name(constraint)),
                    }
                }
                waits.lock().expect("not poisoned").push(started.elapsed());
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut waits = waits.into_inner().expect("not poisoned");
    waits.sort_unstable();
    let (median, longest) = (waits[waits.len() / 2], waits[waits.len() - 1]);
    let slowest = answers.into_inner().expect("not poisoned").into_iter().max();
    let slowest = slowest.unwrap_or_default();
    eprintln!(
        "{} constraints admitted of {} requests sent, 0 wrong; after their template: median \
         {median:.1?}, longest {longest:.1?}; longest answer to one {slowest:.1?}",
        waits.len(),
        sent.into_inner(),
    );
    assert_eq!(waits.len(), library.constraints.len());
    let expected = (library.templates.len() as u64, library.constraints.len() as u64);
    eventually("none is lost", || in_force(server) == expected);
}

const LATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8slate}
spec:
  crd: {spec: {names: {kind: K8sLate}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package late
      violation[{"msg": "late"}] { input.review.object.metadata.name == "bad" }
"#;

/// A constraint whose kind was put there ahead of its template.
#[test]
fn a_constraint_before_its_template() {
    let Some(cluster) = Cluster::start(&Options::default()).expect("cluster") else { return };
    let _server = guarded(&cluster);
    let value = yaml::value(LATE).expect("YAML");
    let ahead = ConstraintSchema::of_template(&value).expect("schema").crd();
    let constraint = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sLate\n\
                      metadata: {name: late}\nspec:\n  match: {kinds: [{apiGroups: [''], kinds: \
                      [ConfigMap]}]}\n";

    // Ahead of its template it is taken, with a word.
    succeeds(&cluster, "apply -f -", &ahead.to_json());
    let crd = "crd/k8slate.constraints.gatekeeper.sh";
    succeeds(&cluster, &format!("wait --for=condition=Established {crd}"), "");
    eventually("the kind is served", || served_kinds(&cluster) == Some(1));
    let outcome = kubectl(&cluster, "create -f -", constraint);
    assert!(outcome.success, "{}", outcome.stderr);
    assert_eq!(
        outcome.stderr,
        "Warning: there is no template \"k8slate\" yet: the constraint is stored, and in force once \
         there is\n"
    );
    let create = "create configmap bad -n default --dry-run=server";
    assert!(kubectl(&cluster, create, "").success, "it is not in force");
    succeeds(&cluster, "create -f -", LATE);
    eventually("it is in force", || !kubectl(&cluster, create, "").success);
}
