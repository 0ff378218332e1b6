//! The messages about rules when they are loaded, stored and explained.
use std::sync::Arc;

use modgate_engine::{
    Change, EngineConfig, OnError, PolicySource, Problem, Rejection, Review, Severity, Snapshot,
    api::meta::Operation,
    explain::RuleOutcome,
    jsonpatch,
    modrule::{default_modrule, validate_modrule},
};
use modgate_value::{Value, yaml};

use crate::support::{Cluster, create, explained, rule, snapshot, value};

/// Loads one rule from a file; the line of its spec's first member is 5.
fn problems(spec: &str) -> Vec<Problem> {
    let text = format!(
        "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: r, namespace: ns}}\n\
         spec:\n{spec}"
    );
    let document = yaml::load(&text).expect("yaml").pop().expect("a document");
    let source = PolicySource {
        origin: "rule.yaml".into(),
        object: document.value,
        positions: Some(Arc::new(document.positions)),
    };
    let snapshot = Snapshot::new(EngineConfig::default());
    snapshot.apply(vec![Change::Upsert(source)], OnError::Unload).problems
}

fn check(spec: &str, expected: &[&str]) {
    let found: Vec<String> = problems(spec)
        .into_iter()
        .map(|problem| {
            let position = problem.position.map(|position| position.to_string());
            let severity = match problem.severity {
                Severity::Warning => "warning ",
                Severity::Error => "",
            };
            format!(
                "{severity}{} {}: {}",
                position.unwrap_or_default(),
                problem.field,
                problem.message
            )
        })
        .collect();
    assert_eq!(found, expected, "{spec}");
}

#[test]
fn load_errors_name_rule_field_and_position() {
    check(
        "  type: Patch\n  match:\n  - select: '$.a['\n  patch:\n  - {op: copy, path: /a, value: '{{ .x'}\n",
        &[
            "7:13 spec.match[0].select: parsing error: $.a[\t:1:5 - 1:5 unexpected EOF while \
             scanning extensions",
            "9:33 spec.patch[0].value: template: /a:1: unclosed action",
            "9:10 spec.patch[0].op: unsupported value \"copy\": supported values: \"add\", \
             \"replace\", \"remove\"",
        ],
    );
    check(
        "  type: Reject\n  matches:\n  - {select: $.kind}\n",
        &["6:3 spec.matches: unknown field, and `match` is missing"],
    );
    check(
        "  type: Reject\n  match: [{select: $.kind, negate: 3}]\n",
        &["6:36 spec.match[0].negate: expected a boolean, got the number `3`"],
    );
    check(
        "  type: Reject\n  match: [{select: $.kind}]\n  targetNamespaceRegex: '('\n",
        &["7:25 spec.targetNamespaceRegex: error parsing regexp: missing closing ): `(`"],
    );
}

#[test]
fn warnings() {
    check(
        "  type: Patch\n  match: [{select: $.spec.uid, matchValue: '1000660000'}]\n  patch:\n  \
         - {op: add, path: spec/x, value: '#fff'}\n  - {op: add, path: /spec/y, value: '@x'}\n  \
         - {op: add, path: /spec/z, value: '{{ uuidv4 }}'}\n",
        &[
            "warning 6:44 spec.match[0].matchValue: a number from 1000000 on has exponent form as \
             text, so \"1000660000\" never equals one (Q-08)",
            "warning 8:21 spec.patch[0].path: `spec` before the first `/` is dropped (Q-24)",
            "warning 8:36 spec.patch[0].value: an empty value and one that starts with `#` are \
             null (Q-22)",
            "warning 9:37 spec.patch[1].value: the value is not YAML, so the patch is always \
             dropped: yaml: found character that cannot start any token",
            "warning 10:37 spec.patch[2].value: the result depends on more than the object and \
             differs from one review to the next: `uuidv4` (Q-74)",
        ],
    );
    check(
        "  type: Reject\n  match: [{select: $.kind}]\n  targetNamespaceRegex: '.*'\n",
        &["warning 7:25 spec.targetNamespaceRegex: has no effect in namespace `ns`, only in \
           `kubemod-system` and `modgate-system`"],
    );
}

#[test]
fn what_the_webhook_accepts_is_what_loads() {
    for (spec, accepted) in [
        ("type: Reject, match: [{select: $.kind}]", true),
        ("type: Reject, match: []", false),
        ("type: Reject, match: [{select: $.kind}], targetNamespaceRegex: '('", false),
        (
            "type: Patch, match: [{select: $.kind}], \
             patch: [{op: remove, path: /a, select: 'length($.a)'}]",
            false,
        ),
    ] {
        let object = rule("ns/r", spec);
        let config = EngineConfig::default();
        let validated = validate_modrule(&object, &config);
        assert_eq!(validated.is_ok(), accepted, "{spec}: {validated:?}");
        let source = PolicySource::of_object(object);
        let loaded = Snapshot::new(config).apply(vec![Change::Upsert(source)], OnError::Unload);
        assert_eq!(!loaded.has_errors(), accepted, "{spec}");
    }
}

#[test]
fn defaults() {
    let object = rule("ns/r", "type: Reject, match: [{select: $.kind}]");
    let patch = default_modrule(&object).expect("well-formed");
    assert_eq!(
        jsonpatch::to_value(&patch).to_json(),
        r#"[{"op":"add","path":"/spec/admissionOperations","value":["CREATE","UPDATE"]},{"op":"add","path":"/spec/match/0/matchFor","value":"Any"}]"#
    );
    let wrong = rule("ns/r", "type: Reject, match: [{select: 5}]");
    let denied = default_modrule(&wrong).expect_err("wrong type");
    assert_eq!(denied.code, 400);
    assert!(denied.reason.starts_with("spec.match[0].select: "), "{}", denied.reason);
}

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, \
                   spec: {list: [a, b], count: 1}}";

#[test]
fn explanations() {
    let rules = vec![
        rule(
            "ns/patch",
            "type: Patch, match: [{select: '$.spec.list[*]', matchValue: b}, {select: '$.spec.count'}], \
             patch: [{op: add, select: '$.spec.list[*]', path: '/spec/copy/#0', \
                      value: '{{ .SelectedItem }}!'}, {op: remove, path: /spec/zzz}]",
        ),
        rule("ns/other", "type: Reject, match: [{select: $.kind, matchValue: Job}]"),
        rule(
            "ns/deletes",
            "type: Reject, admissionOperations: [DELETE], match: [{select: $.kind}]",
        ),
        rule("ns/reject", "type: Reject, match: [{select: '$.spec.copy[5]', negate: true}]"),
    ];
    let review = Review::of_object(value(POD), Operation::Create, "default");
    let (decision, traces) = explained(&snapshot(rules.clone()), &review, &Cluster::default());
    assert_eq!(decision, create(rules, POD));
    let trace = |name: &str| traces.iter().find(|trace| trace.policy.name == name).expect(name);
    assert_eq!(traces.len(), 4);

    let patch = trace("patch");
    assert_eq!(patch.outcome, RuleOutcome::Patched);
    assert_eq!(patch.criteria[0].values, ["a", "b"]);
    assert_eq!(patch.criteria[0].explanation, "1 of 2 values pass, decided by `b`");
    let operations: Vec<String> = patch
        .operations
        .iter()
        .map(|operation| {
            let rendered = operation.rendered.as_deref().unwrap_or("-");
            format!("{} {} {rendered}: {}", operation.op, operation.path, operation.effect)
        })
        .collect();
    assert_eq!(
        operations,
        [
            "add /spec/copy/1 b!: added",
            "add /spec/copy/0 a!: added",
            "remove /spec/zzz -: nothing to remove"
        ]
    );

    let other = trace("other");
    assert_eq!(other.outcome, RuleOutcome::NoMatch);
    assert_eq!(other.criteria[0].test, "matchValue \"Job\"");
    assert!(!other.criteria[0].positive);

    assert_eq!(
        trace("deletes").outcome,
        RuleOutcome::NotCandidate("the rule does not react to CREATE".to_owned())
    );

    let reject = trace("reject");
    let rejection = Rejection {
        rule: "ns/reject".into(),
        message: None,
        guidance: modgate_engine::guidance::Guidance::default(),
    };
    assert_eq!(reject.outcome, RuleOutcome::Rejected(rejection));
    assert_eq!(reject.criteria[0].explanation, "the expression fails: index 5 out of bounds");
}

#[test]
fn an_explanation_is_data() {
    let rules = vec![rule("ns/r", "type: Reject, match: [{select: $.kind}]")];
    let review = Review::of_object(value(POD), Operation::Create, "default");
    let (_, traces) = explained(&snapshot(rules), &review, &Cluster::default());
    let trace = serde_json::to_string(&traces).expect("serialisable");
    let trace = Value::from_json(trace.as_bytes()).expect("json");
    assert_eq!(trace.pointer("/0/outcome/result"), Some(&Value::from("rejected")));
}
