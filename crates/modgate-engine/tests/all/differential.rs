//! The index finds the rules the plain evaluator finds: same decisions for any rules and objects.

use std::collections::BTreeSet;

use modgate_engine::{EngineConfig, Lookup, Review, api::meta::Operation};
use modgate_value::{Limits, Value};
use proptest::prelude::*;

use crate::support::{Cluster, modrules, rule, snapshot_with, value};

fn kind() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("Pod"), Just("Job"), Just("1.20"), Just("Namespace")]
}

fn namespace() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("default"), Just("kubemod-system")]
}

fn criterion() -> impl Strategy<Value = String> {
    let label = "$.metadata.labels.x";
    let shape = (kind(), kind(), namespace(), any::<bool>(), 0..15_u8);
    shape.prop_map(move |(one, other, home, negate, shape)| {
        let item = match shape {
            0..3 => format!("select: $.kind, matchValue: '{one}'"),
            3 => format!("select: $.kind, matchValues: ['{one}', '{other}']"),
            4 => format!("select: '$.kind == \"{one}\"'"),
            5 => format!("select: '\"{one}\" == $.kind'"),
            6 => format!("select: '$.kind == \"{one}\" || $.kind == \"{other}\"'"),
            7 => format!("select: '$.kind in [\"{one}\", \"{other}\"] && $.spec.n < 3'"),
            8 => format!("select: $.kind, matchFor: All, matchRegex: '{one}'"),
            9 => format!("select: {label}, matchValue: '1'"),
            11 => format!("select: $.metadata.namespace, matchValue: {home}"),
            12 => format!("select: '$.metadata.namespace == \"{home}\" && $.kind == \"{one}\"'"),
            13 => "select: $.metadata.namespace, matchValue: '7'".to_owned(),
            10 => format!("select: '$.spec.list[? @ == \"{one}\"]'"),
            _ => "select: '$.spec.list[7]'".to_owned(),
        };
        format!("{{{item}, negate: {negate}}}")
    })
}

fn some_rule() -> impl Strategy<Value = (Value, u8)> {
    let action = prop_oneof![
        Just("type: Reject, rejectMessage: '{{ .Target.kind }}'".to_owned()),
        (kind(), 0..17_u8).prop_map(|(kind, shape)| {
            let patch = match shape {
                0 => format!("{{op: replace, path: /kind, value: '\"{kind}\"'}}"),
                1 => "{op: add, path: /metadata/labels/x, value: '\"1\"'}".to_owned(),
                2 => format!("{{op: add, path: /spec/list/-1, value: '\"{kind}\"'}}"),
                3 => "{op: add, path: /metadata/namespace, value: b}".to_owned(),
                4 => "{op: add, path: /metadata/namespace, value: \"['7', b]\"}".to_owned(),
                5 => "{op: remove, path: /metadata}".to_owned(),
                6 => "{op: add, path: /metadata/labels/y, value: '{{ .Target.metadata.labels.x }}'}"
                    .to_owned(),
                7 => format!(
                    "{{op: add, select: '$.spec.list[*]', path: /spec/copies/#0, value: '\"{kind}\"'}}"
                ),
                8 => format!(
                    "{{op: add, select: '$.metadata.labels.*', path: /spec/seen/#0, value: '\"{kind}\"'}}"
                ),
                // All of a rule's operations or none.
                9 => "{op: add, path: /metadata/labels/z, value: '\"1\"'}, {op: remove, path: /kind}, \
                      {op: replace, path: /nope/nope, value: '1'}"
                    .to_owned(),
                10 => "{op: remove, path: /metadata/labels}".to_owned(),
                11 => "{op: add, path: /metadata/labels/x/inner, value: '1'}".to_owned(),
                12 => "{op: add, path: /syntheticRefs/node/x, value: '1'}, \
                       {op: remove, path: /syntheticRefs/namespace}"
                    .to_owned(),
                13 => format!("{{op: add, path: /metadata/annotations/{kind}, value: '\"1\"'}}"),
                14 => "{op: replace, path: /metadata/annotations/Pod, value: '\"2\"'}".to_owned(),
                15 => "{op: add, select: '$.syntheticRefs.namespace.metadata', path: /spec/home, \
                       value: '1'}"
                    .to_owned(),
                _ => "{op: replace, path: /nope/nope, value: '1'}".to_owned(),
            };
            format!("type: Patch, patch: [{patch}]")
        }),
    ];
    let operations = prop_oneof![
        Just(""),
        Just(", admissionOperations: [CREATE]"),
        Just(", admissionOperations: [UPDATE, DELETE]"),
    ];
    let regex = prop_oneof![
        Just(""),
        Just(", targetNamespaceRegex: '.*'"),
        Just(", targetNamespaceRegex: '^(a|default)$'"),
    ];
    let criteria = proptest::collection::vec(criterion(), 1..4);
    (namespace(), any::<u8>(), action, operations, regex, criteria, -1..2_i8).prop_map(
        |(namespace, number, action, operations, regex, criteria, tier)| {
            let spec = format!(
                "{action}{operations}{regex}, executionTier: {tier}, match: [{}]",
                criteria.join(", ")
            );
            (rule(&format!("{namespace}/r{number}"), &spec), number)
        },
    )
}

/// A rule that tests one of a few selects for a text, so that many rules test the same; `number` is
/// its name.
fn rule_by_value(number: usize) -> impl Strategy<Value = Value> {
    let select = prop_oneof![
        Just("$.metadata.labels.x"),
        Just("$.metadata.labels"),
        Just("$.spec.list[*]"),
        Just("$.spec.list"),
        Just("$.spec.n"),
        Just("$.spec.n > 2"),
        Just("$.spec.list[? @ == \"Pod\"]"),
        Just("$.spec.n + $.kind"),
        Just("$.syntheticRefs.namespace.metadata.name"),
    ];
    let text = prop_oneof![Just("1"), Just("Pod"), Just("Job"), Just("3"), Just("true"), Just("")];
    let test = (select, text, 0..8_u8).prop_map(|(select, text, shape)| {
        let test = match shape {
            0 => format!("matchValues: ['{text}', Pod, '2']"),
            1 => format!("matchValue: '{text}', matchFor: All"),
            2 => format!("matchValue: '{text}', negate: true"),
            3 => format!("matchRegex: '{text}$'"),
            _ => format!("matchValue: '{text}'"),
        };
        format!("{{select: '{select}', {test}}}")
    });
    let action = prop_oneof![
        Just("type: Reject"),
        Just("type: Patch, patch: [{op: add, path: /metadata/labels/x, value: '\"1\"'}]"),
        Just("type: Patch, patch: [{op: add, path: /spec/list/-1, value: '\"3\"'}]"),
        Just("type: Patch, patch: [{op: replace, path: /spec/n, value: '3'}]"),
    ];
    let first = prop_oneof![Just(""), Just("{select: $.kind, matchValue: Pod}, ")];
    (action, first, proptest::collection::vec(test, 1..3), -1..2_i8).prop_map(
        move |(action, first, tests, tier)| {
            let spec =
                format!("{action}, executionTier: {tier}, match: [{first}{}]", tests.join(", "));
            rule(&format!("a/r{number}"), &spec)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn rules_by_value_and_scan_agree(
        rules in (0..40_usize)
            .prop_flat_map(|count| (0..count).map(rule_by_value).collect::<Vec<_>>()),
        n in 0..5_i32,
        labels in prop_oneof![Just(""), Just(", labels: {x: '1'}"), Just(", labels: {x: Pod}")],
    ) {
        let object = value(&format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: o, namespace: a{labels}}}, \
             spec: {{n: {n}, list: [Pod, Pod, Job]}}}}"
        ));
        let review = Review::of_object(object, Operation::Create, "default");
        for cluster in [Cluster::default(), Cluster { no_namespaces: true, ..Cluster::default() }] {
            let decide = |lookup| {
                let config = EngineConfig { lookup, ..EngineConfig::default() };
                modrules(&snapshot_with(config, rules.clone()), &review, &cluster)
            };
            prop_assert_eq!(decide(Lookup::Index), decide(Lookup::Scan));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn index_and_scan_agree(
        rules in proptest::collection::vec(some_rule(), 0..12),
        kind in kind(),
        namespace in namespace(),
        operation in prop_oneof![
            Just(Operation::Create), Just(Operation::Update), Just(Operation::Delete)
        ],
        n in 0..6_i32,
    ) {
        let object = value(&format!(
            "{{apiVersion: v1, kind: '{kind}', metadata: {{name: o, namespace: {namespace}}}, \
             spec: {{n: {n}, list: [Pod, Job]}}}}"
        ));
        let review = Review::of_object(object, operation, "default");
        let decide = |rules: Vec<Value>, lookup| {
            let config = EngineConfig { lookup, ..EngineConfig::default() };
            modrules(&snapshot_with(config, rules), &review, &Cluster::default())
        };
        // Of equal names the last one counts; the order of the others must not.
        let mut distinct: Vec<(Value, u8)> = Vec::new();
        for (rule, number) in rules {
            if distinct.iter().all(|(_, known)| *known != number) {
                distinct.push((rule, number));
            }
        }
        let rules: Vec<Value> = distinct.into_iter().map(|(rule, _)| rule).collect();
        let indexed = decide(rules.clone(), Lookup::Index);
        prop_assert_eq!(&indexed, &decide(rules.clone(), Lookup::Scan));
        prop_assert_eq!(&indexed, &decide(rules.into_iter().rev().collect(), Lookup::Index));
    }
}

/// A search for a large pattern takes memory and gives it back. A rule that shares what was found needs as much to be left.
#[test]
fn what_takes_memory_for_a_time_is_found_within_the_same_budgets() {
    let searched = "{select: $.spec.text, matchRegex: '(ab){300}c', negate: true}";
    let joined = ["$.spec.text"; 6].join(" + ");
    let rules = vec![
        rule("a/alone", &format!("type: Reject, match: [{searched}]")),
        rule("a/behind", &format!("type: Reject, match: [{{select: '{joined}'}}, {searched}]")),
    ];
    let text = "ab".repeat(4_000);
    let object = value(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: o, namespace: a}}, spec: {{text: {text}}}}}"
    ));
    let review = Review::of_object(object, Operation::Create, "default");
    let mut reasons = BTreeSet::new();
    for bytes in (0..24).map(|part| part * 100_000) {
        let decide = |lookup| {
            let rule_limits = Limits { bytes, ..Limits::UNLIMITED };
            let config = EngineConfig { lookup, rule_limits, ..EngineConfig::default() };
            modrules(&snapshot_with(config, rules.clone()), &review, &Cluster::default())
        };
        let decision = decide(Lookup::Scan);
        assert_eq!(decide(Lookup::Index), decision, "{bytes} bytes");
        reasons.insert(decision.failures.len());
    }
    assert_eq!(reasons, BTreeSet::from([0, 1, 2]), "budgets make a difference");
}
