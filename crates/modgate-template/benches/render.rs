//! Parsing and rendering of typical KubeMod templates.
#![allow(clippy::expect_used, reason = "a benchmark")]

use divan::{Bencher, black_box};
use modgate_template::{Env, Isolated, KeyPart, PatchContext, Template, preprocess};
use modgate_value::{Budget, Value};

fn main() {
    divan::main();
}

const OBJECT: &str = r#"{
    "apiVersion": "apps/v1", "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web", "tier": "front"}},
    "spec": {"replicas": 3, "template": {"spec": {"containers": [
        {"name": "a", "image": "docker.io/library/nginx:1.25", "ports": [{"containerPort": 80}]},
        {"name": "b", "image": "quay.io/org/proxy:2", "env": [{"name": "A", "value": "b"}]}
    ]}}}
}"#;

/// Names and value texts as KubeMod rules have them.
const TEMPLATES: &[(&str, &str)] = &[
    ("constant", "nginx:1.14.2"),
    ("field", "{{ .Target.metadata.name }}"),
    ("text", r#""{{ .Target.metadata.labels.app }}-{{ .Namespace }}-{{ .#0 }}""#),
    (
        "regex",
        r#"{{ regexReplaceAll "^(docker\\.io|quay\\.io)/(.+)$" .SelectedItem.image "mirror.example/${2}" }}"#,
    ),
    ("json", "{{ toJson .Target.spec.template.spec.containers }}"),
    (
        "block",
        "{{- range .Target.spec.template.spec.containers }}\n- name: {{ .name }}\n  image: {{ .image | quote }}\n{{- end }}",
    ),
    (
        "default",
        r#"{{ .Target.spec.paused | default false }}{{ if gt (int .Target.spec.replicas) 2 }} many{{ end }}"#,
    ),
];

fn names() -> impl Iterator<Item = &'static str> {
    TEMPLATES.iter().map(|(name, _)| *name)
}

fn text(name: &str) -> &'static str {
    TEMPLATES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text).expect(name)
}

#[divan::bench(args = names())]
fn parse(bencher: Bencher<'_, '_>, name: &str) {
    let text = preprocess(text(name));
    bencher.bench(|| Template::parse("/spec/x", black_box(&text)));
}

#[divan::bench(args = names())]
fn render(bencher: Bencher<'_, '_>, name: &str) {
    let template = Template::parse("/spec/x", &preprocess(text(name))).expect(name);
    let target = Value::from_json(OBJECT.as_bytes()).expect("object");
    let item = target.pointer("/spec/template/spec/containers/0").expect("item");
    let context = PatchContext {
        target: &target,
        namespace: "shop",
        selected_item: Some(item),
        select_key_parts: &[KeyPart::Index(0)],
    };
    let budget = Budget::unlimited();
    let env = Env { budget: &budget, host: &Isolated };
    bencher.bench_local(|| template.render(black_box(context), &env).expect(name));
}

#[divan::bench]
fn as_constant(bencher: Bencher<'_, '_>) {
    let template = Template::parse("/spec/x", text("constant")).expect("template");
    bencher.bench(|| black_box(&template).as_constant().map(str::len));
}
