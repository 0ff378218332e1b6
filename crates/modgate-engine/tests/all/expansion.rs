//! Expansion in admission: what is charged to a generator, and how. What a template makes of an
//! object is recorded in `conformance/gatekeeper`, which the testkit runs.

use modgate_engine::{
    Change, Decision, EngineConfig, Expansion, OnError, PolicySource, Review, Scope, Severity,
    Skipped, Snapshot, StageReport, Stages, api::meta::Operation,
};
use modgate_value::{Limits, Value};

use crate::support::{Cluster, decide, rule, snapshot, snapshot_with, value};

/// A constraint template that denies objects whose `spec.bad` is there, and one constraint of it.
fn policies(constraint: &str) -> Vec<Value> {
    let template = "apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: nobad}
spec:
  crd: {spec: {names: {kind: NoBad}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package nobad
      violation[{\"msg\": msg}] {
        input.review.object.spec.bad
        msg := sprintf(\"%v %v %v is bad\", [
          input.review.operation, input.review.object.kind, input.review.object.metadata.name])
      }
      violation[{\"msg\": \"deleted\"}] {
        input.review.oldObject.spec.bad
      }
";
    let constraint = format!(
        "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: NoBad, metadata: {{name: nobad}}, \
         spec: {{{constraint}}}}}"
    );
    vec![value(template), value(&constraint)]
}

fn expand(name: &str, from: &str, source: &str, to: &str, rest: &str) -> Value {
    value(&format!(
        "{{apiVersion: expansion.gatekeeper.sh/v1beta1, kind: ExpansionTemplate, \
         metadata: {{name: {name}}}, spec: {{applyTo: [{{groups: [apps], versions: [v1], \
         kinds: [{from}]}}], templateSource: {source}, generatedGVK: {{group: apps, version: v1, \
         kind: {to}}}{rest}}}}}"
    ))
}

fn ask(policies: Vec<Value>, operation: Operation, object: &str) -> Decision {
    ask_with(&snapshot(policies), operation, object)
}

fn ask_with(snapshot: &Snapshot, operation: Operation, object: &str) -> Decision {
    let review = Review::of_object(value(object), operation, "default");
    decide(snapshot, &review, Stages::CONSTRAINTS)
}

/// An object whose template holds another one.
const OUTER: &str = "{apiVersion: apps/v1, kind: Outer, metadata: {name: o}, \
                     spec: {bad: 1, template: {spec: {bad: 2, template: {spec: {bad: 3}}}}}}";

fn outer_to_inner(actions: [&str; 2]) -> Vec<Value> {
    let action = |action: &str| match action {
        "" => String::new(),
        action => format!(", enforcementAction: {action}"),
    };
    let [middle, inner] = actions;
    vec![
        expand("to-middle", "Outer", "spec.template", "Middle", &action(middle)),
        expand("to-inner", "Middle", "spec.template", "Inner", &action(inner)),
    ]
}

#[test]
fn what_is_found_is_charged_to_the_generator() {
    let with = |constraint: &str, actions| {
        policies(constraint).into_iter().chain(outer_to_inner(actions)).collect::<Vec<_>>()
    };
    let own = "[nobad] CREATE Outer o is bad";
    let middle = "[nobad] [Implied by to-middle] CREATE Middle o-middle is bad";
    let inner = "[nobad] [Implied by to-inner] CREATE Inner o-middle-inner is bad";
    // The template that made a resultant is named, and no other; what is deeper comes first.
    let verdict = ask(with("", ["", ""]), Operation::Create, OUTER);
    assert_eq!((verdict.code, verdict.reason), (403, [own, inner, middle].join("\n")));
    // The action of a template is for its own resultants.
    let verdict = ask(with("", ["warn", ""]), Operation::Create, OUTER);
    assert_eq!(verdict.reason, [own, inner].join("\n"));
    assert_eq!(verdict.warnings, [middle]);
    let verdict =
        ask(with("enforcementAction: warn", ["deny", "dryrun"]), Operation::Create, OUTER);
    assert_eq!((verdict.reason.as_str(), verdict.warnings), (middle, vec![own.to_owned()]));
    // Scoped actions, too.
    let scoped = "enforcementAction: scoped, scopedEnforcementActions: [{action: deny, \
                  enforcementPoints: [{name: '*'}]}]";
    let verdict = ask(with(scoped, ["warn", "warn"]), Operation::Create, OUTER);
    assert_eq!((verdict.reason.as_str(), verdict.warnings.len()), (own, 2));
    // Constraints may tell the two apart.
    let verdict = ask(with("match: {source: Original}", ["", ""]), Operation::Create, OUTER);
    assert_eq!(verdict.reason, own);
    let verdict = ask(with("match: {source: Generated}", ["", ""]), Operation::Create, OUTER);
    assert_eq!(verdict.reason, [inner, middle].join("\n"));
    // The criteria look at the resultant, in the namespace of the generator.
    let kinds = "match: {kinds: [{apiGroups: ['*'], kinds: [Inner]}], namespaces: [default]}";
    let verdict = ask(with(kinds, ["", ""]), Operation::Create, OUTER);
    assert_eq!(verdict.reason, inner);
}

#[test]
fn deletions_are_expanded_from_the_old_object() {
    let all = policies("match: {source: Generated}").into_iter().chain(outer_to_inner(["", ""]));
    let verdict = ask(all.collect(), Operation::Delete, OUTER);
    let lines: Vec<&str> = verdict.reason.lines().collect();
    assert_eq!(
        lines,
        [
            "[nobad] [Implied by to-inner] DELETE Inner o-middle-inner is bad",
            "[nobad] [Implied by to-inner] deleted",
            "[nobad] [Implied by to-middle] DELETE Middle o-middle is bad",
            "[nobad] [Implied by to-middle] deleted",
        ]
    );
}

#[test]
fn failures_deny() {
    let verdict = ask(
        outer_to_inner(["", ""]),
        Operation::Create,
        "{apiVersion: apps/v1, kind: Outer, metadata: {name: o}, spec: {template: 1}}",
    );
    assert_eq!((verdict.allowed, verdict.code), (false, 500));
    assert_eq!(
        verdict.reason,
        "unable to expand object: could not extract source field from unstructured: \
         .spec.template accessor error: 1 is of the type int64, expected map[string]interface{}"
    );
    let off = EngineConfig { expansion: false, ..EngineConfig::default() };
    let object = "{apiVersion: apps/v1, kind: Outer, metadata: {name: o}, spec: {template: 1}}";
    let verdict =
        ask_with(&snapshot_with(off, outer_to_inner(["", ""])), Operation::Create, object);
    assert!(verdict.allowed, "{verdict:?}");
}

/// The resultants of an object, by name.
fn resultants(snapshot: &Snapshot, object: &Value) -> Result<Vec<String>, String> {
    let expansion = Expansion { object, namespace: None, operation: None, username: "" };
    let found = snapshot.expand(&expansion, &Cluster::default());
    let name = |object: &Value| {
        object.path(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let found = found.map_err(|error| error.to_string())?;
    Ok(found.iter().map(|resultant| name(&resultant.object)).collect())
}

#[test]
fn cycles_are_told_of_when_they_appear() {
    let changes = |policies: Vec<Value>| {
        policies.into_iter().map(PolicySource::of_object).map(Change::Upsert).collect::<Vec<_>>()
    };
    let before =
        snapshot(vec![expand("a", "A", "spec", "B", ""), expand("lead", "Lead", "spec", "A", "")]);
    let update = before.apply(changes(vec![expand("b", "B", "spec", "A", "")]), OnError::Unload);
    let errors = update.problems.iter().filter(|problem| problem.severity == Severity::Error);
    let problems: Vec<String> = errors.map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "ExpansionTemplate a: spec.generatedGVK: template forms expansion cycle",
            "ExpansionTemplate b: spec.generatedGVK: template forms expansion cycle"
        ]
    );
    let lead = value("{apiVersion: apps/v1, kind: Lead, metadata: {name: x}, spec: {spec: {}}}");
    assert_eq!(resultants(&update.snapshot, &lead), Ok(vec!["x-a".to_owned()]));
    // Breaking it brings the others back, without a word.
    let broken =
        update.snapshot.apply(changes(vec![expand("b", "B", "spec", "C", "")]), OnError::Unload);
    assert!(broken.problems.iter().all(|problem| problem.severity == Severity::Warning));
    let object = value("{apiVersion: apps/v1, kind: A, metadata: {name: x}, spec: {spec: {}}}");
    assert_eq!(
        resultants(&broken.snapshot, &object),
        Ok(vec!["x-b-c".to_owned(), "x-b".to_owned()])
    );
    // A new version that does not compile is unloaded, or not.
    let bad = || changes(vec![expand("b", "B", "''", "C", "")]);
    for (on_error, expected) in [(OnError::Unload, 1), (OnError::Keep, 2)] {
        let update = broken.snapshot.apply(bad(), on_error);
        assert_eq!(
            update.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "ExpansionTemplate b: spec.templateSource: ExpansionTemplate b has empty source field"
            ]
        );
        assert_eq!(resultants(&update.snapshot, &object).map(|found| found.len()), Ok(expected));
    }
}

#[test]
fn bounds() {
    // A chain of thirty levels is as deep as it goes.
    let chain = |length: usize| {
        let link = |level: usize| {
            let (from, to) = (format!("K{level}"), format!("K{}", level + 1));
            expand(&format!("t{level}"), &from, "spec", &to, "")
        };
        snapshot((0..length).map(link).collect())
    };
    let mut nested = value("{}");
    for _ in 0..40 {
        nested = [("spec", nested)].into_iter().collect();
    }
    let mut object = nested.as_object().expect("map").clone();
    object.insert("apiVersion", "apps/v1".into());
    object.insert("kind", "K0".into());
    object.insert("metadata", value("{name: x}"));
    let object = Value::from(object);
    assert_eq!(resultants(&chain(29), &object).map(|found| found.len()), Ok(29));
    assert_eq!(
        resultants(&chain(30), &object),
        Err("maximum recursion depth of 30 reached".to_owned())
    );
    // Ten templates a level are too many after three.
    let fans = (0..4).flat_map(|level| {
        (0..10).map(move |fan| {
            let (from, to) = (format!("K{level}"), format!("K{}", level + 1));
            expand(&format!("t{level}-{fan}"), &from, "spec", &to, "")
        })
    });
    assert_eq!(
        resultants(&snapshot(fans.collect()), &object),
        Err("more than 1000 resultants".to_owned())
    );
    let limits = Limits { steps: 10, ..EngineConfig::default().expansion_limits };
    let config = EngineConfig { expansion_limits: limits, ..EngineConfig::default() };
    let links = (0..20).map(|level| {
        expand(&format!("t{level}"), &format!("K{level}"), "spec", &format!("K{}", level + 1), "")
    });
    let error = resultants(&snapshot_with(config, links.collect()), &object).expect_err("spent");
    assert!(error.contains("budget"), "{error}");
}

#[test]
fn modrules_change_resultants_when_asked_to() {
    let policies = || {
        vec![
            expand("to-inner", "Outer", "spec.template", "Inner", ""),
            rule(
                "default/label",
                "type: Patch, match: [{select: $.kind, matchValue: Inner}], \
                 patch: [{op: add, path: /metadata/labels/by, value: modrule}]",
            ),
        ]
    };
    let labels = |expand_modrules| {
        let config = EngineConfig { expand_modrules, ..EngineConfig::default() };
        let snapshot = snapshot_with(config, policies());
        let object = value(OUTER);
        let expansion =
            Expansion { object: &object, namespace: None, operation: None, username: "" };
        let found = snapshot.expand(&expansion, &Cluster::default()).expect("expands");
        let resultant = found.into_iter().next().expect("one");
        resultant.object.path(&["metadata", "labels"]).cloned()
    };
    assert_eq!(labels(false), None);
    assert_eq!(labels(true), Some(value("{by: modrule}")));
}

#[test]
fn one_pipeline_for_both() {
    let policies = vec![
        value(
            "{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: m}, \
             spec: {applyTo: [{groups: ['', example.com], versions: [v1], kinds: [Pod, Custom]}], \
             location: spec.x, parameters: {assign: {value: 9007199254740993}}}}",
        ),
        value(
            "{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: never}, \
             spec: {applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}], \
             match: {name: bad}, location: spec.text.y, parameters: {assign: {value: 1}}}}",
        ),
        rule(
            "default/sees",
            "type: Patch, match: [{select: $.spec.x}], \
             patch: [{op: add, path: /spec/seen, value: 'true'}]",
        ),
        rule(
            "default/rejects",
            "type: Reject, match: [{select: $.spec.seen}, \
             {select: $.metadata.name, matchValue: rejected}]",
        ),
    ];
    let snapshot = snapshot(policies);
    let ask = |object: &str, operation| {
        let review = Review::of_object(value(object), operation, "default");
        decide(&snapshot, &review, Stages::UNIFIED)
    };
    let pod = |name: &str| {
        format!("{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{text: t}}}}")
    };
    let decision = ask(&pod("p"), Operation::Create);
    assert_eq!((decision.allowed, decision.reason.as_str()), (true, "patched ok"));
    let patch = modgate_engine::jsonpatch::to_value(&decision.patch).to_json();
    assert_eq!(
        patch,
        r#"[{"op":"add","path":"/spec/x","value":9007199254740993},{"op":"add","path":"/spec/seen","value":true}]"#
    );
    // What ModRules reject is rejected; nothing of the mutators remains.
    let rejected = ask(&pod("rejected"), Operation::Create);
    assert_eq!((rejected.allowed, rejected.code, rejected.patch.len()), (false, 403, 0));
    // What mutators fail never gets to the ModRules.
    let failed = ask(&pod("bad"), Operation::Create);
    assert_eq!((failed.allowed, failed.code), (false, 500));
    assert!(failed.reason.contains("mutator Assign.mutations.gatekeeper.sh /never"), "{failed:?}");
    // Mutators know no deletion, and ModRules only the kinds of KubeMod's webhook.
    let deleted = ask(&pod("p"), Operation::Delete);
    assert_eq!(deleted.stages.mutators, StageReport::Skipped(Skipped::NotWritten));
    let custom = "{apiVersion: example.com/v1, kind: Custom, metadata: {name: c}}";
    let spec = ask(custom, Operation::Create).object.get("spec").cloned();
    assert_eq!(spec, Some(value("{x: 9007199254740993}")));
    let all = EngineConfig { modrule_resources: Some(vec!["*".into()]), ..EngineConfig::default() };
    for (object, operation, config, modrules) in [
        (pod("p"), Operation::Create, EngineConfig::default(), Ok(())),
        (
            pod("p"),
            Operation::Connect,
            EngineConfig::default(),
            Err(Skipped::Operation(Operation::Connect)),
        ),
        (
            custom.to_owned(),
            Operation::Create,
            EngineConfig::default(),
            Err(Skipped::Kind("Custom".into())),
        ),
        (custom.to_owned(), Operation::Create, all, Ok(())),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: x, \
             labels: {admission.kubemod.io/ignore: 'true'}}}"
                .to_owned(),
            Operation::Create,
            EngineConfig::default(),
            Err(Skipped::IgnoreLabel("admission.kubemod.io/ignore")),
        ),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: x, \
             labels: {admission.kubemod.io/ignore: 'yes'}}}"
                .to_owned(),
            Operation::Create,
            EngineConfig::default(),
            Ok(()),
        ),
    ] {
        let review = Review::of_object(value(&object), operation, "default");
        let reach = Scope::of(&review, &config, &Cluster::default());
        assert_eq!(reach.modrules, modrules, "{object}");
        assert_eq!(reach.gatekeeper, Ok(()), "{object}");
    }
    for (object, expected) in [
        (
            "{apiVersion: v1, kind: Pod, metadata: {namespace: gatekeeper-system}}",
            Skipped::OwnNamespace,
        ),
        (
            "{apiVersion: v1, kind: Namespace, metadata: {name: x, \
             labels: {admission.gatekeeper.sh/ignore: ''}}}",
            Skipped::IgnoreLabel("admission.gatekeeper.sh/ignore"),
        ),
    ] {
        let review = Review::of_object(value(object), Operation::Create, "default");
        let config = EngineConfig::default();
        let reach = Scope::of(&review, &config, &Cluster::default());
        assert_eq!(reach.gatekeeper, Err(expected), "{object}");
    }
}
