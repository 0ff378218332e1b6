//! Rules that cannot do their work, and budgets (spec `kubemod.md`, 4.8, 5.6; Q-01, Q-73).

use std::time::Duration;

use modgate_engine::{EngineConfig, FailureKind, Review, api::meta::Operation};
use modgate_value::{Limits, Value};

use crate::support::{Cluster, create, modrules, rule, snapshot_with, value};

const POD: &str =
    "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}, spec: {list: [1, 2, 3]}}";

fn patch(name: &str, operations: &str) -> Value {
    rule(name, &format!("type: Patch, match: [{{select: $.kind}}], patch: [{operations}]"))
}

#[test]
fn a_failing_rule_is_dropped_whole_and_the_others_run() {
    for (bad, kind) in [
        ("{op: replace, path: /nope, value: '1'}", FailureKind::ApplyPatch),
        ("{op: add, path: /spec/x, value: '@'}", FailureKind::CalculatePatch),
        ("{op: add, path: /spec/x, value: '{{ fail \"no\" }}'}", FailureKind::CalculatePatch),
        ("{op: add, path: '/spec/#0', select: '$.spec', value: '1'}", FailureKind::CalculatePatch),
        ("{op: add, path: /data/80000000, value: '1'}", FailureKind::ApplyPatch),
    ] {
        let decision = create(
            vec![
                patch("ns/a", &format!("{{op: add, path: /spec/first, value: '1'}}, {bad}")),
                patch("ns/b", "{op: add, path: /spec/second, value: '2'}"),
                rule("ns/c", "type: Reject, match: [{select: '$.spec.first'}]"),
            ],
            POD,
        );
        assert!(decision.allowed, "{bad}: {}", decision.reason);
        assert_eq!(decision.object.pointer("/spec/first"), None, "{bad}");
        assert_eq!(decision.object.pointer("/spec/second"), Some(&Value::from(2)), "{bad}");
        let kinds: Vec<_> = decision.failures.iter().map(|failure| failure.kind).collect();
        assert_eq!(kinds, [kind], "{bad}");
        assert!(decision.warnings[0].starts_with("ModRule ns/a: patch dropped: "), "{bad}");
    }
}

#[test]
fn what_cannot_be_decided_is_denied_or_dropped() {
    let limits = Limits { steps: 2, bytes: 1 << 20, time: Duration::from_secs(1) };
    let config = EngineConfig { rule_limits: limits, ..EngineConfig::default() };
    let rules = vec![
        rule("ns/r", "type: Reject, match: [{select: '$.spec.list[? @ == 9]'}]"),
        rule(
            "ns/p",
            "type: Patch, match: [{select: '$.spec.list[? @ == 9]'}], \
             patch: [{op: add, path: /spec/x, value: '1'}]",
        ),
    ];
    let review = Review::of_object(value(POD), Operation::Create, "default");
    let decision = modrules(&snapshot_with(config, rules), &review, &Cluster::default());
    assert!(!decision.allowed);
    assert_eq!(
        decision.reason,
        "operation rejected by the following ModRule(s): ns/r: \"the rule could not be decided: \
         evaluation exceeded its budget of 2 steps\""
    );
    assert_eq!(
        decision.warnings,
        ["ModRule ns/p: patch dropped: evaluation exceeded its budget of 2 steps"]
    );
}

#[test]
fn an_undecidable_rule_for_another_kind_has_no_effect() {
    let limits = Limits { steps: 8, bytes: 1 << 20, time: Duration::from_secs(1) };
    let rules = vec![rule(
        "ns/r",
        "type: Reject, match: [{select: '$..[? @ == 9]'}, {select: $.kind, matchValue: Job}]",
    )];
    for lookup in [modgate_engine::Lookup::Index, modgate_engine::Lookup::Scan] {
        let config = EngineConfig { rule_limits: limits, lookup, ..EngineConfig::default() };
        let review = Review::of_object(value(POD), Operation::Create, "default");
        let decision =
            modrules(&snapshot_with(config, rules.clone()), &review, &Cluster::default());
        assert!(decision.allowed, "{lookup:?}: {}", decision.reason);
    }
}

#[test]
fn template_bombs_are_bounded() {
    let decision = create(
        vec![patch("ns/a", "{op: add, path: /spec/x, value: '{{ repeat 1000000000 \"x\" }}'}")],
        POD,
    );
    assert!(decision.allowed);
    assert_eq!(decision.failures[0].kind, FailureKind::Budget, "{:?}", decision.failures);
}

#[test]
fn missing_data_is_warned_about() {
    let decision =
        create(vec![patch("ns/a", "{op: add, path: /spec/x, value: '{{ .Target.nope }}'}")], POD);
    assert_eq!(decision.object.pointer("/spec/x"), Some(&Value::from("<no value>")));
    assert_eq!(
        decision.warnings,
        ["ModRule ns/a: spec.patch[0].value: `<no value>` was written to /spec/x (Q-23)"]
    );
}

#[test]
fn references_do_not_leak_into_the_patch() {
    let decision =
        create(vec![patch("ns/a", "{op: add, path: /syntheticRefs/x, value: '1'}")], POD);
    assert_eq!(decision.reason, "non-patched ok");
    assert!(decision.patch.is_empty());
}

#[test]
fn removing_the_annotations_with_last_applied_in_them() {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, annotations: \
               {kubectl.kubernetes.io/last-applied-configuration: '{\"spec\":{}}'}}, spec: {}}";
    for path in ["/metadata/annotations", "/metadata"] {
        let decision = create(vec![patch("ns/a", &format!("{{op: remove, path: {path}}}"))], pod);
        assert_eq!(decision.reason, "patched ok", "{path}");
        assert_eq!(decision.object.pointer(path), None, "{path}");
    }
}

/// The API server refuses every object that the rule changes.
#[test]
fn labels_and_annotations_that_become_no_text() {
    use modgate_engine::{Change, OnError, PolicySource, Severity, Snapshot};
    for (operation, told) in [
        ("path: /metadata/annotations/ref.kubemod.io~1inject-node-ref, value: 'true'", true),
        ("path: /metadata/labels/a, value: '8080'", true),
        ("path: /metadata/labels/a, value: '{{ .Target.spec.list | len }}'", true),
        ("path: /metadata/labels/a, value: '[x]'", true),
        ("path: /metadata/labels, value: '{a: x, b: yes}'", true),
        ("path: /spec/template/metadata/labels/a, value: 'no'", true),
        ("path: /metadata/labels/a, value: '\"true\"'", false),
        ("path: /metadata/labels/a, value: '\"{{ .Target.spec.list | len }}\"'", false),
        ("path: /metadata/labels/a, value: x", false),
        ("path: /metadata/labels, value: '{a: x}'", false),
        ("path: /metadata/generation, value: '1'", false),
        ("path: /spec/labels/a, value: '1'", false),
    ] {
        let rule = patch("ns/r", &format!("{{op: add, {operation}}}"));
        let change = Change::Upsert(PolicySource::of_object(rule.clone()));
        let update = Snapshot::new(EngineConfig::default()).apply(vec![change], OnError::Unload);
        let warned = update.problems.iter().any(|problem| {
            problem.severity == Severity::Warning && problem.message.contains("refuses the object")
        });
        let decision = create(vec![rule], POD);
        let in_review = decision.warnings.iter().any(|it| it.contains("refuses the object"));
        // Constants when they are stored, templates when they are rendered.
        let is_template = operation.contains("{{");
        assert_eq!(warned, told && !is_template, "{operation} {:?}", update.problems);
        assert_eq!(in_review, told && is_template, "{operation} {:?}", decision.warnings);
    }
}
