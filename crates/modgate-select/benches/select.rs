//! Parsing and evaluating what rules typically say, on a Deployment of 4 containers.

#![allow(clippy::expect_used, reason = "a bench")]

use std::{fmt::Write as _, ops::ControlFlow};

use divan::{Bencher, black_box};
use modgate_select::{Expr, PatchSelect};
use modgate_value::{Budget, Value};

fn main() {
    divan::main();
}

const EXPRESSIONS: [&str; 12] = [
    "$.kind",
    "$.metadata.labels.app",
    r#"$.metadata.labels["app.kubernetes.io/name"]"#,
    "$.kind == \"Pod\"",
    r#"$.kind in ["Deployment", "StatefulSet"]"#,
    "$.spec.replicas > 2",
    "$.spec.template.spec.containers[*].image",
    r#"$.spec.template.spec.containers[? @.name == "c2"].image"#,
    r#"length($.spec.template.spec.containers[? isUndefined(@.resources.limits)]) > 0"#,
    r#"$.metadata.namespace =~ "^prod-""#,
    "$.spec.template.spec.containers[*].env[*].value",
    "$..image",
];

/// A Deployment of about 3.5 KB.
fn deployment() -> Value {
    let mut containers = String::new();
    for container in 0..4 {
        let mut env = String::new();
        for index in 0..10 {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(env, r#"{comma}{{"name":"VARIABLE_{index}","value":"value {index}"}}"#);
        }
        let comma = if container > 0 { "," } else { "" };
        let _ = write!(
            containers,
            r#"{comma}{{"name":"c{container}","image":"registry.example/app:{container}",
            "ports":[{{"containerPort":8080}},{{"containerPort":9090}}],"env":[{env}],
            "resources":{{"limits":{{"cpu":"1"}}}}}}"#
        );
    }
    let text = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"app",
        "namespace":"prod-a","labels":{{"app":"web","app.kubernetes.io/name":"web"}}}},
        "spec":{{"replicas":3,"template":{{"spec":{{"containers":[{containers}]}}}}}}}}"#
    );
    Value::from_json(text.as_bytes()).expect("valid JSON")
}

#[divan::bench(args = EXPRESSIONS)]
fn parse(bencher: Bencher<'_, '_>, text: &str) {
    bencher.bench_local(|| Expr::parse(black_box(text)));
}

#[divan::bench(args = EXPRESSIONS)]
fn eval(bencher: Bencher<'_, '_>, text: &str) {
    let (expr, document) = (Expr::parse(text).expect(text), deployment());
    let budget = Budget::unlimited();
    bencher.bench_local(|| expr.eval(black_box(&document), &budget).is_ok());
}

/// As a criteria item sees the values, all of them.
#[divan::bench(args = EXPRESSIONS)]
fn for_each_value(bencher: Bencher<'_, '_>, text: &str) {
    let (expr, document) = (Expr::parse(text).expect(text), deployment());
    let budget = Budget::unlimited();
    bencher.bench_local(|| {
        expr.for_each_value(black_box(&document), &budget, &mut |value| {
            black_box(value);
            ControlFlow::Continue(())
        })
    });
}

/// The plain evaluator, for comparison.
#[divan::bench(args = EXPRESSIONS)]
fn eval_plain(bencher: Bencher<'_, '_>, text: &str) {
    let (expr, document) = (Expr::parse(text).expect(text), deployment());
    let budget = Budget::unlimited();
    bencher.bench_local(|| expr.eval_plain(black_box(&document), &budget).is_ok());
}

#[divan::bench(args = [
    "$.spec.template.spec.containers[*]",
    "$.spec.template.spec.containers[? @.name == \"c2\"]",
    "$..image",
])]
fn patch_items(bencher: Bencher<'_, '_>, text: &str) {
    let (select, document) = (PatchSelect::parse(text).expect(text), deployment());
    let budget = Budget::unlimited();
    bencher.bench_local(|| select.items(black_box(&document), &budget));
}
