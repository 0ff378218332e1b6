//! JSON and YAML in: an admission review of 5 KB, and a stream of policies.
#![expect(clippy::expect_used, reason = "a bench")]

use std::fmt::Write as _;

use divan::{Bencher, counter::BytesCount};
use modgate_value::{MAX_DEPTH, Value, json, yaml};

fn main() {
    divan::main();
}

/// A review of a Deployment of two containers, 5 KB as an API server sends it.
fn review() -> String {
    let container = |name: &str| {
        let env: Vec<String> = (0..10)
            .map(|n| {
                format!(r#"{{"name":"SETTING_{n}","value":"the value of setting number {n}"}}"#)
            })
            .collect();
        format!(
            r#"{{"name":"{name}","image":"registry.example.com/team/{name}:1.20.3","command":["/bin/{name}","--verbose"],"env":[{}],"ports":[{{"name":"http","containerPort":8080,"protocol":"TCP"}},{{"name":"metrics","containerPort":9090,"protocol":"TCP"}}],"resources":{{"limits":{{"cpu":"500m","memory":"256Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"securityContext":{{"runAsNonRoot":true,"readOnlyRootFilesystem":true,"capabilities":{{"drop":["ALL"]}}}},"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}}"#,
            env.join(",")
        )
    };
    let review = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"b8e1f3a2-6c1d-4a7e-9d0b-1f2e3d4c5b6a","kind":{{"group":"apps","version":"v1","kind":"Deployment"}},"resource":{{"group":"apps","version":"v1","resource":"deployments"}},"name":"web","namespace":"shop","operation":"CREATE","userInfo":{{"username":"system:serviceaccount:ci:deployer","uid":"a0b1","groups":["system:serviceaccounts","system:authenticated"]}},"object":{{"kind":"Deployment","apiVersion":"apps/v1","metadata":{{"name":"web","namespace":"shop","labels":{{"app":"web","team":"front","app.kubernetes.io/managed-by":"helm"}},"annotations":{{"deployment.kubernetes.io/revision":"7"}},"managedFields":[{{"manager":"kubectl","operation":"Update","apiVersion":"apps/v1","time":"2024-01-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:team":{{}}}}}},"f:spec":{{"f:replicas":{{}},"f:strategy":{{"f:type":{{}}}}}}}}}}]}},"spec":{{"replicas":3,"selector":{{"matchLabels":{{"app":"web"}}}},"template":{{"metadata":{{"labels":{{"app":"web","team":"front"}}}},"spec":{{"containers":[{},{}],"initContainers":[{}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"serviceAccountName":"web"}}}}}},"status":{{}}}},"oldObject":null,"dryRun":false,"options":{{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}}}}}}"#,
        container("web"),
        container("proxy"),
        container("init")
    );
    assert!((4_500..5_500).contains(&review.len()), "{} bytes", review.len());
    review
}

/// A hundred ModRules in one stream.
fn rules() -> String {
    let mut text = String::new();
    for n in 0..100 {
        let _ = write!(
            text,
            "---\n# Rule number {n}.\napiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata:\n  name: rule-{n}\n  namespace: team-{n}\nspec:\n  type: Patch\n  executionTier: {n}\n  match:\n    - select: '$.kind'\n      matchValue: Deployment\n    - select: \"$.metadata.labels['app']\"\n      matchRegex: ^web-[0-9]+$\n      negate: false\n  patch:\n    - op: add\n      path: /metadata/labels/color\n      value: |-\n        first line of rule {n}\n        {{{{ .Namespace }}}}\n    - {{op: remove, path: /metadata/labels/old}}\n"
        );
    }
    text
}

#[divan::bench]
fn json_review(bencher: Bencher<'_, '_>) {
    let review = review();
    bencher
        .counter(BytesCount::of_str(&review))
        .bench_local(|| Value::from_json(divan::black_box(&review).as_bytes()).expect("json"));
}

/// The yardstick, for machines that are slower or busy.
#[divan::bench]
fn json_review_by_serde_json(bencher: Bencher<'_, '_>) {
    let review = review();
    bencher.counter(BytesCount::of_str(&review)).bench_local(|| {
        serde_json::from_str::<serde_json::Value>(divan::black_box(&review)).expect("json")
    });
}

/// A review of a ConfigMap of 1 MB: texts without escapes, one text of many lines, or many texts.
fn large(shape: &str) -> String {
    let line = "some words of a line of a configuration file that is about as long as this one";
    let data = match shape {
        "plain" => (0..20)
            .map(|n| format!(r#""part-{n}":"{}""#, line.repeat(50_000 / line.len())))
            .collect::<Vec<_>>()
            .join(","),
        "lines" => format!(r#""lines":"{}""#, format!("{line}\\n").repeat((1 << 20) / line.len())),
        _ => (0..10_400).map(|n| format!(r#""key-{n}":"{line}""#)).collect::<Vec<_>>().join(","),
    };
    format!(
        r#"{{"kind":"AdmissionReview","request":{{"object":{{"kind":"ConfigMap","data":{{{data}}}}}}}}}"#
    )
}

#[divan::bench(args = ["plain", "lines", "texts"])]
fn large_config_map(bencher: Bencher<'_, '_>, shape: &str) {
    let review = large(shape);
    bencher
        .counter(BytesCount::of_str(&review))
        .bench_local(|| Value::from_json(divan::black_box(&review).as_bytes()).expect("json"));
}

#[divan::bench(args = ["plain", "lines", "texts"])]
fn large_config_map_without_data(bencher: Bencher<'_, '_>, shape: &str) {
    let review = large(shape);
    bencher.counter(BytesCount::of_str(&review)).bench_local(|| {
        let text = divan::black_box(&review).as_bytes();
        let left_out: &[&[&str]] = &[&["request", "object", "data"]];
        let bounds = json::Bounds { max_depth: MAX_DEPTH, max_values: 3_600_000, left_out };
        json::parse_within(text, &bounds).expect("json")
    });
}

#[divan::bench]
fn json_review_printed(bencher: Bencher<'_, '_>) {
    let review = Value::from_json(review().as_bytes()).expect("json");
    bencher.bench_local(|| divan::black_box(&review).to_json());
}

#[divan::bench]
fn yaml_of_json_review(bencher: Bencher<'_, '_>) {
    let review = review();
    bencher
        .counter(BytesCount::of_str(&review))
        .bench_local(|| yaml::value(divan::black_box(&review)).expect("yaml"));
}

#[divan::bench]
fn yaml_rules_with_positions(bencher: Bencher<'_, '_>) {
    let rules = rules();
    assert_eq!(yaml::load(&rules).expect("yaml").len(), 100);
    bencher
        .counter(BytesCount::of_str(&rules))
        .bench_local(|| yaml::load(divan::black_box(&rules)).expect("yaml"));
}

#[divan::bench]
fn yaml_first_rule(bencher: Bencher<'_, '_>) {
    let rules = rules();
    bencher.bench_local(|| yaml::value(divan::black_box(&rules)).expect("yaml"));
}
