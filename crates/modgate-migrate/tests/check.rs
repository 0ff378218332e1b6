//! Reports about installations that are written for these tests, with the names of the originals'.

#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use modgate_engine::EngineConfig;
use modgate_migrate::{Chart, Fate, InstalledObject, Original, Report, check, parts};
use modgate_value::yaml;

fn crate_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn objects(name: &str, text: &str) -> Vec<InstalledObject> {
    let documents = yaml::load(text).expect("YAML").into_iter();
    documents
        .map(|document| InstalledObject {
            origin: name.into(),
            object: document.value,
            positions: Some(Arc::new(document.positions)),
        })
        .collect()
}

fn fixture(name: &str) -> Vec<InstalledObject> {
    let path = crate_folder().join("tests/fixtures").join(name);
    objects(name, &fs::read_to_string(path).expect(name))
}

/// As if `--audit-interval` were unknown, and `--logtostderr` of no use.
fn accepts(flag: &str) -> Result<Option<String>, String> {
    match flag {
        "--logtostderr" => Ok(Some("it does nothing".to_owned())),
        "--audit-interval=60" => Err(format!("unexpected argument '{flag}'")),
        _ => Ok(None),
    }
}

fn report(objects: &[InstalledObject]) -> Report {
    check(objects, &EngineConfig::default(), &accepts, Chart::default())
}

fn commands(report: &Report, title: &str) -> Vec<String> {
    let step = report.steps.iter().find(|step| step.title.starts_with(title));
    step.expect(title).commands.clone()
}

#[test]
fn kubemod() {
    let report = report(&fixture("kubemod.yaml"));
    assert_eq!(report.originals.len(), 1);
    assert_eq!(report.originals[0].program, Original::KubeMod);
    assert_eq!(report.originals[0].images, ["kubemod/kubemod:v0.19.1".to_owned()].into());

    let unchanged: Vec<String> = report.unchanged.iter().map(ToString::to_string).collect();
    assert_eq!(
        unchanged,
        [
            "ModRule kubemod-system/label-namespaces",
            "ValidatingWebhookConfiguration kubemod-validating-webhook-configuration"
        ]
    );
    let differs: Vec<_> = report
        .differs
        .iter()
        .map(|it| (it.object.to_string(), it.decision, it.field.as_str()))
        .collect();
    assert_eq!(
        differs,
        [
            (
                "MutatingWebhookConfiguration kubemod-mutating-webhook-configuration".to_owned(),
                "KM-5.4",
                "webhooks[1]"
            ),
            (
                "MutatingWebhookConfiguration kubemod-mutating-webhook-configuration".to_owned(),
                "KM-7.1 subresources",
                "webhooks[1].rules"
            ),
            (
                "MutatingWebhookConfiguration kubemod-mutating-webhook-configuration".to_owned(),
                "Q-37",
                "webhooks[2].failurePolicy"
            ),
            ("ModRule shop/no-deletion".to_owned(), "Q-34", "spec.admissionOperations"),
        ]
    );
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let [broken] = &report.refused[..] else { panic!("{:?}", report.refused) };
    assert_eq!(broken.object.to_string(), "ModRule shop/broken");
    assert_eq!(broken.field, "spec.match[0].select");
    assert_eq!(broken.place, "kubemod.yaml:110:20");
    assert!(report.needs_attention());

    let fates: Vec<_> = report.flags.iter().map(|it| (it.flag.as_str(), &it.fate)).collect();
    assert_eq!(fates[0], ("--operator", &Fate::Chart));
    assert_eq!(fates[1], ("--webapp", &Fate::Chart));
    let (flag, fate) = fates[2];
    assert_eq!(flag, "--enable-leader-election");
    assert!(matches!(fate, Fate::Differs { decision: "Q-41", .. }), "{fate:?}");
    assert_eq!(fates[3], ("--cluster-modrules-namespace=kubemod-system", &Fate::Same));

    assert_eq!(
        commands(&report, "Keep the originals"),
        ["kubectl -n kubemod-system patch cronjob kubemod-crt-cron-job --type merge -p \
          '{\"spec\":{\"suspend\":true}}'"]
    );
    assert_eq!(
        commands(&report, "Stop KubeMod"),
        ["kubectl -n kubemod-system scale deployment kubemod-operator --replicas=0"]
    );
    assert_eq!(
        commands(&report, "Remove"),
        [
            "kubectl -n kubemod-system delete deployment kubemod-operator",
            "kubectl -n kubemod-system delete cronjob kubemod-crt-cron-job",
            "kubectl -n kubemod-system delete service kubemod-webhook-service",
            "kubectl delete clusterrole kubemod-manager",
            "kubectl -n kubemod-system delete secret webhook-server-cert --ignore-not-found",
        ]
    );
    let stays = report.steps.iter().find(|step| step.title == "What stays").expect("step");
    assert!(stays.why.contains("namespace kubemod-system, where a policy lives"), "{}", stays.why);
}

#[test]
fn gatekeeper() {
    let report = report(&fixture("gatekeeper.yaml"));
    let names: Vec<&str> = report.unchanged.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(
        names,
        ["config", "k8sneedslabel", "owner", "seen", "gatekeeper-mutating-webhook-configuration"]
    );
    let differs: Vec<_> = report.differs.iter().map(|it| (it.decision, &*it.object.name)).collect();
    assert_eq!(differs, [("GK-Q-22", "gatekeeper-validating-webhook-configuration")]);
    assert_eq!((report.refused.len(), report.warnings.len()), (0, 0));
    let special: Vec<_> = report
        .flags
        .iter()
        .filter_map(|it| match &it.fate {
            Fate::Same => None,
            Fate::Chart => Some((it.flag.as_str(), "chart")),
            Fate::Differs { decision, .. } => Some((it.flag.as_str(), *decision)),
            Fate::Nothing { sentence } | Fate::Refused { sentence } => {
                Some((it.flag.as_str(), sentence.as_str()))
            }
        })
        .collect();
    assert_eq!(
        special,
        [
            ("--port=8443", "chart"),
            ("--logtostderr", "it does nothing"),
            ("--log-denies=true", "GK-Q-34"),
            ("--operation=webhook", "chart"),
            ("--operation=mutation-webhook", "chart"),
            ("--disable-opa-builtin={http.send}", "REGO-8"),
            ("--audit-interval=60", "unexpected argument '--audit-interval=60'"),
            ("--operation=audit", "chart"),
            ("--operation=status", "chart"),
            ("--disable-cert-rotation", "chart"),
        ]
    );
    assert!(report.needs_attention());
    assert_eq!(
        report.values.to_json(),
        r#"{"args":["--disable-opa-builtin={http.send}"],"logs":{"denies":true},"validation":{"operations":["CREATE","UPDATE","DELETE"]}}"#
    );

    // The audit's is off already.
    assert_eq!(
        commands(&report, "Keep the originals"),
        [
            "kubectl -n gatekeeper-system patch deployment gatekeeper-controller-manager --type \
             json -p '[{\"op\":\"add\",\"path\":\"/spec/template/spec/containers/0/args/-\",\
             \"value\":\"--disable-cert-rotation\"}]'",
            "kubectl -n gatekeeper-system rollout status deployment gatekeeper-controller-manager",
        ]
    );
    assert_eq!(
        commands(&report, "Install modgate"),
        [
            "helm upgrade --install --create-namespace modgate deploy/chart -n gatekeeper-system \
             --take-ownership --force-conflicts --set image.repository=REGISTRY/modgate \
             --set profile=gatekeeper --set 'operations={webhook,mutation-webhook}' \
             --set-json 'args=[\"--disable-opa-builtin={http.send}\"]' \
             --set-json logs.denies=true \
             --set-json 'validation.operations=[\"CREATE\",\"UPDATE\",\"DELETE\"]'",
            "kubectl -n gatekeeper-system rollout status deployment modgate",
        ]
    );
    assert_eq!(
        commands(&report, "Stop Gatekeeper"),
        [
            "kubectl -n gatekeeper-system scale deployment gatekeeper-controller-manager \
             --replicas=0",
            "kubectl -n gatekeeper-system scale deployment gatekeeper-audit --replicas=0",
        ]
    );
    // What modgate has under the same name is not in the way.
    assert_eq!(
        commands(&report, "Remove"),
        [
            "kubectl -n gatekeeper-system delete deployment gatekeeper-controller-manager",
            "kubectl -n gatekeeper-system delete deployment gatekeeper-audit",
            "kubectl delete clusterrolebinding gatekeeper-manager-rolebinding",
        ]
    );
    assert_eq!(
        commands(&report, "Let Helm forget"),
        ["kubectl -n gatekeeper-system delete secret -l owner=helm,name=gatekeeper"]
    );
    assert!(report.steps.iter().all(|step| !step.title.contains("KubeMod")));
    assert_eq!(
        commands(&report, "Enable audit, status and CRD generation")[0],
        "helm upgrade --reset-then-reuse-values modgate deploy/chart -n gatekeeper-system --take-ownership \
         --force-conflicts --set operations=null"
    );
    let back = commands(&report, "The way back");
    assert_eq!(
        back[back.len() - 2..],
        [
            "kubectl replace -f webhooks-before.yaml",
            "kubectl -n gatekeeper-system scale deployment modgate --replicas=0"
        ]
    );
}

/// Whatever is installed, no command takes more than what it names.
#[test]
fn nothing_in_use_is_removed() {
    let mut both = fixture("kubemod.yaml");
    both.extend(fixture("gatekeeper.yaml"));
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
               metadata: {name: modrules.api.kubemod.io}\n";
    both.extend(objects("crd.yaml", crd));
    let report = report(&both);
    let commands: Vec<&String> = report.steps.iter().flat_map(|step| &step.commands).collect();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let lower = command.to_lowercase();
        for forbidden in [
            "crd",
            "customresourcedefinition",
            "delete -f",
            "delete namespace",
            "delete ns",
            "--all",
            "helm uninstall",
            "modrules",
        ] {
            assert!(!lower.contains(forbidden), "{command}");
        }
        let configuration = lower.contains("webhookconfiguration");
        let deletes = lower.contains(" delete ");
        assert!(
            !(configuration && deletes) || lower.contains("our-own-for-deletions"),
            "{command}"
        );
        assert!(!lower.contains("somebody-elses"), "{command}");
    }
    let titles: Vec<&str> = report.steps.iter().map(|step| step.title.as_str()).collect();
    assert_eq!(titles.len(), 12, "{titles:?}");
}

/// The objects that the chart creates under a fixed name, as `kubectl delete` would name them.
const CHART_NAMES: [(&str, &str); 5] = [
    ("service", "gatekeeper-webhook-service"),
    ("secret", "gatekeeper-webhook-server-cert"),
    ("serviceaccount", "gatekeeper-admin"),
    ("poddisruptionbudget", "gatekeeper-controller-manager"),
    ("resourcequota", "gatekeeper-critical-pods"),
];

#[test]
fn the_chart_has_these_names() {
    let file = crate_folder().join("../../deploy/modgate.yaml");
    let text = fs::read_to_string(file).expect("`cargo xtask codegen` writes it");
    let named = |kind: &str, name: &str| {
        text.split("\n---\n").any(|part| {
            let kind_line = part.lines().find_map(|line| line.strip_prefix("kind: "));
            let names = part.lines().filter_map(|line| line.strip_prefix("  name: "));
            kind_line.is_some_and(|it| it.eq_ignore_ascii_case(kind))
                && names.into_iter().any(|it| it == name)
        })
    };
    for (kind, name) in CHART_NAMES {
        assert!(named(kind, name), "{kind} {name}");
    }
    for name in [
        "gatekeeper-manager-role",
        "gatekeeper-manager-rolebinding",
        "kubemod-manager",
        "kubemod-crt",
    ] {
        assert!(!text.contains(name), "{name} is the chart's now");
    }
}

/// Images that are published beside an original's image are not the original, and are left alone.
#[test]
fn providers_are_not_gatekeeper() {
    let text = |image: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: provider, namespace: p}}\n\
             spec: {{template: {{spec: {{containers: [{{name: provider, image: '{image}'}}]}}}}}}\n"
        )
    };
    for image in
        ["openpolicyagent/gatekeeper-external-data-provider:v0.1", "kubemod/kubemod-crt:v1.3.0"]
    {
        let report = report(&objects("x", &text(image)));
        assert_eq!((report.originals.len(), report.steps.len()), (0, 0), "{image}");
    }
    let mirrored = report(&objects("x", &text("mirror.local:5000/kubemod/kubemod@sha256:01")));
    assert_eq!(mirrored.originals[0].program, Original::KubeMod);
}

/// The flag goes to Gatekeeper's own container, wherever it stands.
#[test]
fn the_flag_goes_to_gatekeeper() {
    let text = fs::read_to_string(crate_folder().join("tests/fixtures/gatekeeper.yaml"));
    let beside = "{name: side, image: openpolicyagent/gatekeeper-external-data-provider}";
    let text = text
        .expect("fixture")
        .replace("      containers:\n", &format!("      containers:\n      - {beside}\n"));
    let renamed = text.replace("openpolicyagent/gatekeeper:", "mirror.local/gk:");
    for text in [text, renamed] {
        let commands = commands(&report(&objects("x", &text)), "Keep the originals");
        assert!(commands[0].contains("/spec/template/spec/containers/1/args/-"), "{commands:?}");
    }
}

/// Both originals and modgate beside them, with the webhook configurations of
/// those in `switched` taken over, as they are after `helm upgrade --take-ownership`.
fn half_way(
    switched: &[&str],
    modgate_args: &str,
    edit: impl Fn(String) -> String,
) -> Vec<InstalledObject> {
    const OURS: &str = "labels: {app.kubernetes.io/name: modgate}, annotations: \
                        {meta.helm.sh/release-name: modgate, \
                        meta.helm.sh/release-namespace: gatekeeper-system}";
    let mut all = objects(
        "modgate.yaml",
        &format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: modgate, namespace: \
             gatekeeper-system, {OURS}}}\nspec: {{template: {{spec: {{containers: [{{name: manager, \
             image: r/modgate, args: [{modgate_args}]}}]}}}}}}\n"
        ),
    );
    for name in ["kubemod.yaml", "gatekeeper.yaml"] {
        let text = fs::read_to_string(crate_folder().join("tests/fixtures").join(name));
        let mut text = edit(text.expect(name));
        for original in switched {
            for kind in ["mutating", "validating"] {
                let named = format!("{original}-{kind}-webhook-configuration");
                text = text.replace(
                    &format!("metadata: {{name: {named}}}"),
                    &format!("metadata: {{name: {named}, {OURS}}}"),
                );
            }
        }
        if switched.contains(&"kubemod") {
            text = text.replace(
                "service: {name: kubemod-webhook-service, namespace: kubemod-system",
                "service: {name: gatekeeper-webhook-service, namespace: gatekeeper-system",
            );
        }
        all.extend(objects(name, &text));
    }
    all
}

fn switched(report: &Report) -> Vec<&str> {
    report.switched.iter().map(|it| it.name.as_str()).collect()
}

fn titles(report: &Report) -> Vec<&str> {
    report.steps.iter().map(|step| step.title.as_str()).collect()
}

/// Gatekeeper's webhooks are modgate's, KubeMod's are not.
#[test]
fn half_switched() {
    let report = report(&half_way(&["gatekeeper"], "--operation=webhook", |text| text));
    assert_eq!(
        switched(&report),
        [
            "gatekeeper-validating-webhook-configuration",
            "gatekeeper-mutating-webhook-configuration"
        ]
    );
    let programs: Vec<Original> = report.originals.iter().map(|it| it.program).collect();
    assert_eq!(programs, [Original::KubeMod, Original::Gatekeeper]);
    assert_eq!(
        titles(&report),
        [
            "Back up the webhook configurations that are left",
            "Keep the originals from renewing certificates",
            "Stop Gatekeeper, and leave it there",
            "Give ModRules to modgate",
            "See that modgate receives requests",
            "Stop KubeMod, and leave it there",
            "Enable audit, status and CRD generation",
            "Remove what the originals leave behind, object by object",
            "Let Helm forget the originals' releases",
            "What stays",
            "The way back, as long as nothing is removed",
        ]
    );
    let all: Vec<&String> = report.steps.iter().flat_map(|step| &step.commands).collect();
    assert!(all.iter().all(|it| !it.contains("> webhooks-before.yaml")), "{all:?}");
    let [keep] = &commands(&report, "Back up")[..] else { panic!("{all:?}") };
    assert!(keep.ends_with("> webhooks-left.yaml") && !keep.contains("gatekeeper"), "{keep}");
    assert_eq!(
        commands(&report, "Let Helm forget"),
        ["kubectl -n gatekeeper-system delete secret -l owner=helm,name=gatekeeper"]
    );
    let back = commands(&report, "The way back");
    assert_eq!(
        back[back.len() - 3..back.len() - 1],
        ["kubectl replace -f webhooks-before.yaml", "kubectl replace -f webhooks-left.yaml"]
    );
}

/// Everything is modgate's, and the originals are stopped.
#[test]
fn switched_and_not_removed() {
    let stopped = |text: String| {
        text.replace("replicas: 1", "replicas: 0")
            .replace("replicas: 3", "replicas: 0")
            .replace("schedule: 0 0 1 * *", "suspend: true")
    };
    let report = report(&half_way(&["gatekeeper", "kubemod"], "--port=8443", stopped));
    assert_eq!(switched(&report).len(), 4);
    assert_eq!(
        titles(&report),
        [
            "See that modgate receives requests",
            "Remove what the originals leave behind, object by object",
            "Let Helm forget the originals' releases",
            "What stays",
            "The way back, as long as nothing is removed",
        ]
    );
    assert!(
        commands(&report, "Remove").contains(
            &"kubectl -n kubemod-system delete service kubemod-webhook-service".to_owned()
        )
    );
    let back = commands(&report, "The way back");
    assert!(back[0].ends_with("scale deployment kubemod-operator --replicas=1"), "{back:?}");
    let last = &back[back.len() - 2..];
    assert_eq!(last[0], "kubectl replace -f webhooks-before.yaml");
}

/// Nothing of an original is left but what has its name and is modgate's, or calls a Service that is.
#[test]
fn switched_and_removed() {
    let mut all = half_way(&["gatekeeper", "kubemod"], "--port=8443", |text| text);
    all.retain(|found| {
        let text =
            |path: &[&str]| found.object.path(path).and_then(|it| it.as_str().map(str::to_owned));
        let name = text(&["metadata", "name"]).unwrap_or_default();
        match text(&["kind"]).unwrap_or_default().as_str() {
            "Deployment" => name == "modgate",
            "CronJob" | "ClusterRole" | "ClusterRoleBinding" => false,
            "Service" => name == "gatekeeper-webhook-service",
            _ => true,
        }
    });
    let clean = report(&all);
    assert_eq!((clean.originals.len(), clean.steps.len(), clean.switched.len()), (0, 0, 4));
    // Parts are looked for all the same, and one that was forgotten is still to be removed.
    let looked_for = parts(&all);
    assert!(looked_for.iter().any(|part| part.name == "kubemod-manager"));
    assert!(looked_for.iter().any(|part| part.name == "gatekeeper-manager-role"));
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n\
                metadata: {name: kubemod-manager}\nrules: []\n";
    all.extend(objects("left", role));
    let report = report(&all);
    assert_eq!(report.originals[0].program, Original::KubeMod);
    assert_eq!(commands(&report, "Remove")[0], "kubectl delete clusterrole kubemod-manager");
    assert!(!titles(&report).iter().any(|title| title.contains("back")), "{:?}", titles(&report));
}

#[test]
fn nothing_is_installed() {
    let report = report(&objects("x", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"));
    assert_eq!(report.originals.len() + report.unchanged.len() + report.steps.len(), 0);
    assert!(!report.needs_attention());
}

#[test]
fn names_do_not_reach_the_shell() {
    let text = "apiVersion: apps/v1\nkind: Deployment\n\
                metadata: {name: \"a'; rm -rf ~; '\", namespace: \"$(reboot)\"}\n\
                spec: {template: {spec: {containers: [{image: openpolicyagent/gatekeeper}]}}}\n";
    let report = report(&objects("x", text));
    assert_eq!(
        commands(&report, "Stop"),
        [r"kubectl -n '$(reboot)' scale deployment 'a'\''; rm -rf ~; '\''' --replicas=0"]
    );
}

#[test]
fn what_else_is_looked_for() {
    let parts = parts(&fixture("kubemod.yaml"));
    assert!(parts.iter().any(|part| {
        (part.plural, part.namespace.as_str(), part.name)
            == ("cronjobs", "kubemod-system", "kubemod-crt-cron-job")
    }));
    assert!(parts.iter().all(|part| part.plural != "secrets"));
}

fn rule(spec: &str) -> String {
    format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\n\
         metadata: {{name: r, namespace: kubemod-system}}\n\
         spec: {{match: [{{select: $.kind, matchValue: Pod}}], {spec}}}\n"
    )
}

fn patch(operation: &str) -> String {
    rule(&format!("type: Patch, patch: [{operation}]"))
}

#[test]
fn objects_of_several_files() {
    let writer = |name: &str| {
        patch("{op: add, path: /spec/a, value: '1'}").replacen(
            "name: r,",
            &format!("name: {name},"),
            1,
        )
    };
    let broken = rule("type: Reject, rejectMessage: '{{'");
    let files = [
        ("1.yaml", rule("type: Reject")),
        ("2.yaml", broken),
        ("3.yaml", writer("a")),
        ("4.yaml", writer("b")),
        ("5.yaml", writer("b")),
        ("6.yaml", writer("c")),
    ];
    let objects: Vec<InstalledObject> =
        files.iter().flat_map(|(name, text)| objects(name, text)).collect();
    let report = report(&objects);
    let [refused] = &report.refused[..] else { panic!("{:?}", report.refused) };
    assert_eq!(refused.place, "2.yaml:4:81");
    let sentence = &report.differs[0].sentence;
    assert!(sentence.contains("`b`, `c` write to `/spec/a`"), "{sentence}");
}

fn mutator(kind: &str, spec: &str) -> String {
    let apply = "applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}]";
    let apply = if kind == "AssignMetadata" { "match: {}" } else { apply };
    format!(
        "apiVersion: mutations.gatekeeper.sh/v1\nkind: {kind}\nmetadata: {{name: m}}\n\
         spec: {{{apply}, {spec}}}\n"
    )
}

/// One case for each decision that an object can show, and its neighbour that does not show it.
#[test]
fn decisions() {
    let template = |code: &str| {
        format!(
            "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\n\
             metadata: {{name: t}}\nspec:\n  crd: {{spec: {{names: {{kind: T}}}}}}\n  targets:\n  \
             - target: admission.k8s.gatekeeper.sh\n    {code}"
        )
    };
    let rego = |body: &str| {
        template(&format!(
            "rego: |\n      package t\n      violation[{{\"msg\": m}}] {{ {body} }}\n"
        ))
    };
    let cel =
        "code: [{engine: K8sNativeValidation, source: {validations: [{expression: 'true'}]}}]";
    let both = template(&format!(
        "operations: [DELETE]\n    rego: |\n      package t\n      violation[{{\"msg\": \"m\"}}] {{ \
         true }}\n    {cel}\n"
    ));
    let constraint = |spec: &str| {
        format!(
            "{}---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: T\nmetadata: {{name: c}}\n\
             spec: {{{spec}}}\n",
            rego("m := \"m\"")
        )
    };
    let expansion = |name: &str, spec: &str| {
        format!(
            "apiVersion: expansion.gatekeeper.sh/v1alpha1\nkind: ExpansionTemplate\n\
             metadata: {{name: {name}}}\nspec: {{templateSource: spec.template, generatedGVK: \
             {{version: v1, kind: Pod}}, {spec}}}\n"
        )
    };
    let apply = "applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]";
    let scoped = "enforcementAction: scoped, scopedEnforcementActions: [{action: warn, \
                  enforcementPoints: [{name: audit.gatekeeper.sh}]}";
    let provider = |spec: &str| {
        format!(
            "apiVersion: externaldata.gatekeeper.sh/v1beta1\nkind: Provider\n\
             metadata: {{name: p}}\nspec: {{url: 'https://a', caBundle: {CA}{spec}}}\n"
        )
    };
    let external = |more: &str| {
        format!("location: spec.a, parameters: {{assign: {{externalData: {{provider: p{more}}}}}}}")
    };
    let rules = |path: &str| {
        let second = patch("{op: add, path: /spec/a, value: '1'}").replace("name: r,", "name: s,");
        format!("{}---\n{second}", patch(&format!("{{op: add, path: {path}, value: '1'}}")))
    };
    let captured = "select: '$.spec.containers[?(@.name)]'";
    let mut seen = BTreeSet::new();
    let mut expect = |text: &str, expected: &[&str]| {
        let report = report(&objects("case.yaml", text));
        let found: Vec<&str> = report.differs.iter().map(|it| it.decision).collect();
        assert_eq!(found, expected, "{text}\nrefused: {:?}", report.refused);
        seen.extend(report.differs.iter().map(|it| it.decision));
    };
    expect(&patch(&format!("{{op: remove, {captured}, path: '/spec/containers/#0'}}")), &["Q-02"]);
    expect(&patch("{op: remove, path: /spec/containers/0}"), &[]);
    expect(&rule("type: Reject, targetNamespaceRegex: kubemod"), &["Q-19"]);
    expect(&rule("type: Reject, targetNamespaceRegex: ^shop$"), &[]);
    expect(&patch(&format!("{{op: add, {captured}, path: '/m/#0/%d', value: '1'}}")), &["Q-27"]);
    expect(&patch("{op: add, path: '/m/a\"b', value: '1'}"), &["Q-28"]);
    expect(&patch("{op: add, path: '/m/a~1b/c', value: '1'}"), &["Q-29"]);
    expect(&patch("{op: add, path: '/m/a~1b', value: '1'}"), &[]);
    expect(&patch("{op: remove, path: /metadata/annotations}"), &["Q-33"]);
    expect(&patch("{op: add, path: /syntheticRefs/a, value: '1'}"), &["Q-35"]);
    let zone = "{op: add, path: /metadata/labels/zone, \
                value: '{{ .Target.syntheticRefs.node.metadata.labels.zone }}'}";
    expect(&patch(zone), &[]);
    expect(&patch(zone).replace("kubemod-system", "shop"), &["KM-6.1"]);
    expect(&patch("{op: add, path: /spec/2000, value: '1'}"), &["Q-77"]);
    expect(&patch("{op: add, path: /spec/80, value: '1'}"), &[]);
    expect(
        &patch("{op: add, path: /spec/a, value: '{{ set .Target.metadata \"a\" 1 | toJson }}'}"),
        &["Q-45"],
    );
    expect(&patch("{op: add, path: /spec/a, value: '{{ dict \"set\" 1 | toJson }}'}"), &[]);
    expect(&rules("/spec/a"), &["5.3", "5.3"]);
    expect(&rules("/spec/b"), &[]);
    expect(&rules("/spec/a").replacen("matchValue: Pod", "matchValue: Job", 1), &[]);
    expect(
        &rule(
            "type: Patch, admissionOperations: [DELETE], patch: [{op: add, path: /a, value: '1'}]",
        ),
        &["Q-34"],
    );

    expect(&rego("m := \"http.send is a text\""), &["REGO-8"]);
    expect(&rego("m := \"https://send\""), &[]);
    expect(&both, &["GK-Q-12"]);
    expect(&both.replace("DELETE", "CREATE"), &[]);
    expect(&constraint("enforcementAction: ''"), &["GK-Q-20"]);
    expect(&constraint("enforcementAction: deny"), &[]);
    expect(
        &constraint(&format!("{scoped}, {{action: deny, enforcementPoints: [{{name: '*'}}]}}]")),
        &["GK-Q-36"],
    );
    expect(&constraint(&format!("{scoped}]")), &[]);

    let value = "location: spec.a, parameters: {assign: {value: 1}}";
    expect(&mutator("Assign", value), &[]);
    expect(
        &mutator(
            "Assign",
            "location: spec.a, parameters: {assign: {value: 1}, assignIf: {in: [2]}}",
        ),
        &["restored-assignIf"],
    );
    let applied = mutator("Assign", value).replace(
        "{name: m}",
        "{name: m, annotations: {kubectl.kubernetes.io/last-applied-configuration: \
         '{\"spec\":{\"parameters\":{\"assignIf\":{}}}}'}}",
    );
    expect(&applied, &["restored-assignIf"]);
    expect(&mutator("Assign", &format!("{value}, source: Generated")), &["source-aliases"]);
    expect(
        &mutator("Assign", &format!("{value}, match: {{origin: Generated}}")),
        &["source-aliases"],
    );
    expect(
        &mutator("Assign", "location: spec.a, parameters: {assign: {value: 9007199254740993}}"),
        &["fix-numbers"],
    );
    let set = "location: spec.a, parameters: ";
    expect(
        &mutator("ModifySet", &format!("{set}{{operation: merge, values: {{fromList: [a]}}}}")),
        &[],
    );
    expect(
        &mutator("ModifySet", &format!("{set}{{values: {{fromList: [a]}}}}")),
        &["fix-default-merge"],
    );
    expect(
        &mutator("ModifySet", &format!("{set}{{operation: prune, values: {{fromList: [a]}}}}")),
        &["fix-prune-creates"],
    );
    expect(&mutator("ModifySet", &format!("{set}{{operation: merge}}")), &["fix-empty-values"]);
    expect(&mutator("Assign", &external("")), &["fix-default-fail"]);
    expect(
        &mutator("Assign", &external(", failurePolicy: Fail, dataSource: Username")),
        &["fix-username-key"],
    );
    expect(&mutator("Assign", &external(", failurePolicy: Fail")), &[]);
    expect(
        &format!("{}---\n{}", expansion("a", apply), expansion("b", apply)),
        &["fix-expansion-order", "fix-expansion-order"],
    );
    expect(
        &expansion(
            "a",
            "applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment, Deployment]}]",
        ),
        &["fix-duplicate-edges"],
    );
    expect(
        &format!(
            "{}---\n{}",
            constraint(&format!("{scoped}]")),
            expansion("a", &format!("{apply}, enforcementAction: warn"))
        ),
        &["fix-override-scoped"],
    );
    expect(&provider(", timeout: 0"), &["fix-timeout-zero"]);
    expect(&provider(", timeout: 3"), &[]);
    expect(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
         metadata: {name: kubemod-mutating-webhook-configuration}\n\
         webhooks: [{name: podbinding.kubemod.io, failurePolicy: Fail}]\n",
        &["Q-37"],
    );
    let dragnet = |resources: &str| {
        format!(
            "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n\
             metadata: {{name: kubemod-mutating-webhook-configuration}}\n\
             webhooks: [{{name: dragnet.kubemod.io, rules: [{{resources: [{resources}]}}]}}]\n"
        )
    };
    for (resources, gap) in [
        ("pods, configmaps", true),
        ("'*'", true),
        ("pods, pods/resize", true),
        ("pods, pods/resize, pods/ephemeralcontainers", false),
        ("pods, 'pods/*'", false),
        ("'*/*'", false),
        ("configmaps", false),
    ] {
        let expected = ["KM-5.4", "KM-7.1 subresources"];
        expect(&dragnet(resources), if gap { &expected } else { &expected[..1] });
    }
    expect(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n\
         metadata: {name: gatekeeper-validating-webhook-configuration}\n\
         webhooks: [{name: validation.gatekeeper.sh, rules: [{operations: ['*']}]}]\n",
        &["GK-Q-22"],
    );

    // Flags name decisions, too.
    seen.extend(["Q-41", "GK-Q-34"]);
    let document = crate_folder().join("../../docs/compatibility.md");
    let document = fs::read_to_string(document).expect("the document");
    for decision in &seen {
        let row = format!("| {decision} |");
        assert!(document.lines().any(|line| line.starts_with(&row)), "{decision} has no row");
    }
    let sources = ["kubemod", "gatekeeper", "webhooks"].map(|name| {
        let path = crate_folder().join(format!("src/detect/{name}.rs"));
        fs::read_to_string(path).expect(name)
    });
    for part in sources.iter().flat_map(|source| source.split('"')) {
        let is_decision =
            |text: &str| document.lines().any(|line| line.starts_with(&format!("| {text} |")));
        assert!(!is_decision(part) || seen.contains(part), "{part} has no case");
    }
}

/// A certificate authority made for this test; its key is not kept.
const CA: &str = include_str!("fixtures/ca.txt");
