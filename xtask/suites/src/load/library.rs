//! The public Gatekeeper library as a load: its policies, and two reviews to ask them with.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use modgate_engine::{Change, EngineConfig, OnError, PolicySource, Severity, Snapshot};
use modgate_testkit::{gatekeeper::library, rego::library::folder};
use modgate_value::{Object, Value};

/// Writes `policies/` with the 49 templates and 75 constraints of the library, read from where the
/// corpora are, and `pod.json` and `deployment.json`.
///
/// All 75 constraints are loaded here first: one that were not evaluated would flatter the figures.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let library = folder().context("the public library is not here; set MODGATE_CONFORMANCE")?;
    let library::Policies { templates, constraints } = library::policies(&library)?;
    check(templates.iter().chain(&constraints))?;
    let policies = dir.join("policies");
    fs::create_dir_all(&policies).with_context(|| policies.display().to_string())?;
    for (kind, objects) in [("constraint", &constraints), ("template", &templates)] {
        for (number, object) in objects.iter().enumerate() {
            fs::write(policies.join(format!("{kind}-{number:02}.json")), object.to_json())?;
        }
    }
    for (name, review) in ["pod", "deployment"].into_iter().zip(reviews()) {
        let path = dir.join(format!("{name}.json"));
        fs::write(&path, review.to_json())?;
        writeln!(io::stdout(), "{}", path.display())?;
    }
    writeln!(
        io::stdout(),
        "{}: {} templates, {} constraints",
        policies.display(),
        templates.len(),
        constraints.len()
    )?;
    Ok(())
}

/// Every policy must be in force.
fn check<'p>(policies: impl Iterator<Item = &'p Value>) -> Result<()> {
    let changes: Vec<Change> =
        policies.cloned().map(PolicySource::of_object).map(Change::Upsert).collect();
    let count = changes.len();
    let update = Snapshot::new(EngineConfig::default()).apply(changes, OnError::Keep);
    let errors: Vec<String> = update
        .problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .map(ToString::to_string)
        .collect();
    ensure!(errors.is_empty(), "{}", errors.join("\n"));
    let live = update.snapshot.policies().count();
    ensure!(live == count, "{live} of {count} policies are in force");
    Ok(())
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    members.into_iter().collect::<Object>().into()
}

fn review(name: &str, reviewed: Value) -> Value {
    let (group, kind) = if name == "pod" { ("", "Pod") } else { ("apps", "Deployment") };
    let names = |last: &'static str, value: String| {
        object([("group", group.into()), ("version", "v1".into()), (last, value.into())])
    };
    object([
        ("apiVersion", "admission.k8s.io/v1".into()),
        ("kind", "AdmissionReview".into()),
        (
            "request",
            object([
                ("uid", "00000000-0000-4000-8000-000000000000".into()),
                ("kind", names("kind", kind.to_owned())),
                ("resource", names("resource", format!("{name}s"))),
                ("name", "cart".into()),
                ("namespace", "shop".into()),
                ("operation", "CREATE".into()),
                ("userInfo", object([("username", "load".into())])),
                ("object", reviewed),
                ("oldObject", Value::Null),
                ("dryRun", false.into()),
            ]),
        ),
    ])
}

fn metadata() -> Value {
    let labels = object([("app", "cart".into()), ("team", "shop".into())]);
    object([
        ("name", "cart".into()),
        ("namespace", "shop".into()),
        ("labels", labels),
        ("annotations", object([("owner", "shop team".into())])),
    ])
}

/// Two containers as one finds them: images, ports, environment, resources, probes, mounts.
fn pod_spec() -> Value {
    let container = |index: i64| -> Value {
        let env: Value = (0..8)
            .map(|number| {
                let name = format!("SETTING_{number}");
                object([("name", name.into()), ("value", format!("{index}-{number}").into())])
            })
            .collect();
        let amounts = |cpu: &str, memory: &str| {
            object([("cpu", Value::from(cpu)), ("memory", Value::from(memory))])
        };
        let get = object([("path", "/healthz".into()), ("port", Value::from(8080 + index))]);
        let probe = object([("httpGet", get), ("periodSeconds", Value::from(10))]);
        let port = object([("name", "http".into()), ("containerPort", Value::from(8080 + index))]);
        let mount = object([("name", "data".into()), ("mountPath", "/var/lib/cart".into())]);
        object([
            ("name", format!("part-{index}").into()),
            ("image", format!("registry.example.com/shop/part-{index}:1.4.{index}").into()),
            ("imagePullPolicy", "IfNotPresent".into()),
            ("args", Value::from(vec!["--verbose".into(), "--color=off".into()])),
            ("env", env),
            ("ports", Value::from(vec![port])),
            (
                "resources",
                object([
                    ("limits", amounts("500m", "512Mi")),
                    ("requests", amounts("100m", "256Mi")),
                ]),
            ),
            ("livenessProbe", probe.clone()),
            ("readinessProbe", probe),
            (
                "securityContext",
                object([
                    ("allowPrivilegeEscalation", false.into()),
                    ("readOnlyRootFilesystem", true.into()),
                    ("runAsUser", Value::from(1000)),
                ]),
            ),
            ("volumeMounts", Value::from(vec![mount])),
        ])
    };
    let volume = object([("name", "data".into()), ("emptyDir", object([]))]);
    object([
        ("serviceAccountName", "cart".into()),
        ("restartPolicy", "Always".into()),
        ("containers", (0..2).map(container).collect()),
        ("volumes", Value::from(vec![volume])),
    ])
}

/// The reviews of the Pod and of the Deployment.
pub(crate) fn reviews() -> [Value; 2] {
    [review("pod", pod()), review("deployment", deployment())]
}

fn pod() -> Value {
    object([
        ("apiVersion", "v1".into()),
        ("kind", "Pod".into()),
        ("metadata", metadata()),
        ("spec", pod_spec()),
    ])
}

/// The same Pod under another name, in namespace `default`.
pub(crate) fn pod_named(name: &str) -> Value {
    named(pod(), name)
}

/// The same Deployment under another name, in namespace `default`.
pub(crate) fn deployment_named(name: &str) -> Value {
    named(deployment(), name)
}

fn named(object: Value, name: &str) -> Value {
    let mut object = object.as_object().cloned().unwrap_or_default();
    let mut metadata = metadata().as_object().cloned().unwrap_or_default();
    metadata.insert("name", name.into());
    metadata.insert("namespace", "default".into());
    object.insert("metadata", metadata.into());
    object.into()
}

fn deployment() -> Value {
    let labels = || object([("app", Value::from("cart"))]);
    let template = object([("metadata", object([("labels", labels())])), ("spec", pod_spec())]);
    object([
        ("apiVersion", "apps/v1".into()),
        ("kind", "Deployment".into()),
        ("metadata", metadata()),
        (
            "spec",
            object([
                ("replicas", Value::from(3)),
                ("selector", object([("matchLabels", labels())])),
                ("template", template),
            ]),
        ),
    ])
}
