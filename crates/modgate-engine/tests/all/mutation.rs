//! Mutators as properties, as explanations, and as the webhook that asks them. What each does to an
//! object is recorded in `conformance/gatekeeper`, which the testkit runs.

use std::sync::Arc;

use modgate_engine::{
    Decision, EngineConfig, MutationStatus, Review, Stages,
    api::meta::Operation,
    expansion,
    jsonpatch::{self, Tree},
    matching::Source,
    mutation::{
        self, CompiledMutator, Mutated, MutationError, MutationRequest, MutationSystem,
        MutatorOutcome, NoProviders, Options, What,
    },
};
use modgate_value::{Budget, Limits, Value, budget::Frozen};
use proptest::prelude::*;

use crate::support::{decide, snapshot, snapshot_with, value};

/// A mutator of Pods; `spec` is the inside of a YAML flow mapping.
fn mutator(kind: &str, name: &str, spec: &str) -> Value {
    let apply_to = match kind {
        "AssignMetadata" => "",
        _ => "applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}], ",
    };
    value(&format!(
        "{{apiVersion: mutations.gatekeeper.sh/v1alpha1, kind: {kind}, \
         metadata: {{name: '{name}'}}, spec: {{{apply_to}{spec}}}}}"
    ))
}

fn assign(name: &str, location: &str, rest: &str) -> Value {
    mutator("Assign", name, &format!("location: '{location}', {rest}"))
}

fn system(mutators: &[Value]) -> MutationSystem {
    let compile = |mutator: &Value| {
        CompiledMutator::compile(mutator, Options::default())
            .unwrap_or_else(|error| panic!("{error}: {mutator}"))
    };
    MutationSystem::new(mutators.iter().map(compile).map(Arc::new))
}

fn request<'a>(object: &'a Value, budget: &'a Budget<'a>) -> MutationRequest<'a> {
    MutationRequest {
        shard: 0,
        object,
        namespace: None,
        operation: Some(Operation::Create),
        source: Some(Source::Original),
        username: "",
        annotate: false,
        run_id: &|| "<uuid>".to_owned(),
        providers: &NoProviders,
        budget,
    }
}

fn mutate(system: &MutationSystem, object: &Value) -> Result<Mutated, MutationError> {
    system.mutate(&request(object, &Budget::unlimited()))
}

/// A mutator of the property tests; small, so that they meet.
fn any_mutator() -> impl Strategy<Value = (&'static str, String)> {
    let element = prop::sample::select(vec!["a", "b", "c", "*"]);
    let named = prop::sample::select(vec!["a", "b", "d"]);
    let scalar = prop::sample::select(vec!["1", "1.0", "x", "true", "[1, 2]"]);
    let test = prop::sample::select(vec![
        "",
        ", pathTests: [{subPath: spec, condition: MustExist}]",
        ", pathTests: [{subPath: spec.list, condition: MustExist}]",
        ", pathTests: [{subPath: spec.list, condition: MustNotExist}]",
    ]);
    let condition = prop::sample::select(vec![
        "",
        ", assignIf: {in: [1, x]}",
        ", assignIf: {notIn: [1]}",
        ", assignIf: {in: [x], notIn: [true]}",
    ]);
    let set = prop::sample::select(vec!["[1]", "[1, 2, 1]", "[]", "[{k: 1}]"]);
    let operation = prop::sample::select(vec!["merge", "prune"]);
    prop_oneof![
        (element.clone(), scalar.clone(), test.clone(), condition).prop_map(
            |(element, scalar, test, condition)| {
                let parameters = format!("{{assign: {{value: {scalar}}}{test}{condition}}}");
                let location = format!("spec.list[name: {element}].v");
                ("Assign", format!("location: '{location}', parameters: {parameters}"))
            }
        ),
        (named, scalar, test.clone()).prop_map(|(name, scalar, test)| {
            let element = format!("{{name: {name}, v: {scalar}}}");
            let parameters = format!("{{assign: {{value: {element}}}{test}}}");
            ("Assign", format!("location: 'spec.list[name: {name}]', parameters: {parameters}"))
        }),
        (element.clone(), operation, set, test.clone()).prop_map(
            |(element, operation, set, test)| {
                let values = format!("values: {{fromList: {set}}}");
                let parameters = format!("{{operation: {operation}, {values}{test}}}");
                let location = format!("spec.list[name: {element}].set");
                ("ModifySet", format!("location: '{location}', parameters: {parameters}"))
            }
        ),
        (element, test).prop_map(|(element, test)| {
            let location = format!("spec.list[name: {element}].image");
            let parameters = format!("{{assignTag: ':1'{test}}}");
            ("AssignImage", format!("location: '{location}', parameters: {parameters}"))
        }),
        Just((
            "AssignMetadata",
            "location: metadata.labels.l, parameters: {assign: {fromMetadata: {field: name}}}"
                .to_owned()
        )),
    ]
}

fn any_pod() -> impl Strategy<Value = Value> {
    let member = prop::sample::select(vec![
        "",
        ", v: 1",
        ", v: x",
        ", v: true",
        ", set: [1]",
        ", set: [2, {k: 1.0}]",
        ", image: 'a.io/b:2'",
        ", v: 1.0, set: [], image: b",
    ]);
    let element = (prop::sample::select(vec!["a", "b", "c", "e"]), member)
        .prop_map(|(name, member)| format!("{{name: {name}{member}}}"));
    let list = prop::option::of(prop::collection::vec(element, 0..4));
    list.prop_map(|list| {
        let spec = match list {
            None => String::new(),
            Some(elements) => format!(", spec: {{list: [{}]}}", elements.join(", ")),
        };
        value(&format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}{spec}}}"))
    })
}

/// The keys of a list's elements, in order.
fn keys(object: &Value) -> Vec<Value> {
    let list = object.path(&["spec", "list"]).and_then(Value::as_array);
    let name = |element: &Value| element.get("name").cloned().unwrap_or_default();
    list.map(|list| list.iter().map(name).collect()).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Once the mutators have converged they have nothing more to do, and no element of a keyed
    /// list has lost or changed its key; new ones come behind the others.
    #[test]
    fn converged_is_converged(
        mutators in prop::collection::vec(any_mutator(), 1..6),
        pod in any_pod(),
    ) {
        let mutators: Vec<Value> = mutators
            .iter()
            .enumerate()
            .map(|(index, (kind, spec))| mutator(kind, &format!("m{index}"), spec))
            .collect();
        let system = system(&mutators);
        let budget = Budget::unlimited();
        let request = request(&pod, &budget);
        let result = system.mutate(&request);
        prop_assert_eq!(&system.explain(&request).result, &result);
        match result {
            Err(MutationError::NotConverging { .. }) => {}
            // A path test or value may name what is there otherwise.
            Err(error) => prop_assert!(matches!(error, MutationError::Apply { .. }), "{error}"),
            Ok(Mutated { object: None, .. }) => {}
            Ok(Mutated { object: Some(mutated), .. }) => {
                let again = mutate(&system, &mutated).expect("what converged once does so again");
                prop_assert_eq!(again.object, None);
                let (before, after) = (keys(&pod), keys(&mutated));
                prop_assert!(after.starts_with(&before), "{before:?} became {after:?}");
            }
        }
        // Mutators of other kinds are not even looked at.
        let others = (0..20).map(|index| {
            let spec = "applyTo: [{groups: [''], versions: [v1], kinds: [Service]}], \
                        location: spec.list, parameters: {assign: {value: 1}}";
            value(&format!(
                "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, \
                 metadata: {{name: other{index}}}, spec: {{{spec}}}}}"
            ))
        });
        let crowded = self::system(&mutators.iter().cloned().chain(others).collect::<Vec<_>>());
        if let Ok(mutated) = mutate(&system, &pod) {
            prop_assert_eq!(mutate(&crowded, &pod), Ok(mutated));
        }
    }
}

#[test]
fn explanations() {
    let pod = value(
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns, labels: {l: kept}}, \
         spec: {containers: [{name: a, image: x}, {name: b, image: x, pull: Never}]}}",
    );
    let one = |mutator: &Value| -> (MutatorOutcome, Vec<String>) {
        let system = system(std::slice::from_ref(mutator));
        let explanation = system.explain(&request(&pod, &Budget::unlimited()));
        let trace = explanation.passes[0][0].clone();
        let notes = trace.notes.iter().map(|note| {
            let what = match &note.what {
                What::Missing => "is missing".to_owned(),
                What::Present => "is there".to_owned(),
                What::NotListed { value } => format!("not in: {value:?}"),
                What::Excluded { value } => format!("excluded: {value}"),
                What::NoElements => "no elements".to_owned(),
                What::Nothing => "nothing".to_owned(),
                What::Asked { provider, key } => format!("{provider} answers for {key}"),
                What::Same => "same".to_owned(),
                What::Set { before, after } => format!("{before:?} -> {after}"),
                other => panic!("{other:?}"),
            };
            format!("{} {what}", note.at)
        });
        (trace.outcome, notes.collect())
    };
    let check = |mutator: Value, outcome: MutatorOutcome, notes: &[&str]| {
        let (got, got_notes) = one(&mutator);
        assert_eq!(
            (got, got_notes.iter().map(String::as_str).collect::<Vec<_>>()),
            (outcome, notes.to_vec()),
            "{mutator}"
        );
    };
    let always = "parameters: {assign: {value: Always}";
    check(
        assign(
            "m",
            "spec.containers[name: *].pull",
            &format!(
                "{always}, pathTests: [{{subPath: 'spec.containers[name: *].pull', \
                 condition: MustNotExist}}]}}"
            ),
        ),
        MutatorOutcome::Changed,
        &[
            "spec.containers[name: a].pull None -> \"Always\"",
            "spec.containers[name: b].pull is there",
        ],
    );
    check(
        assign(
            "m",
            "spec.containers[name: c].pull",
            &format!(
                "{always}, pathTests: [{{subPath: 'spec.containers[name: c]', \
                 condition: MustExist}}]}}"
            ),
        ),
        MutatorOutcome::Stopped,
        &["spec.containers[name: c] is missing"],
    );
    check(
        assign(
            "m",
            "spec.containers[name: *].pull",
            &format!("{always}, assignIf: {{in: [IfNotPresent], notIn: [Never]}}}}"),
        ),
        MutatorOutcome::Stopped,
        &[
            "spec.containers[name: a].pull not in: None",
            "spec.containers[name: b].pull not in: Some(\"Never\")",
        ],
    );
    check(
        assign(
            "m",
            "spec.containers[name: b].pull",
            &format!("{always}, assignIf: {{notIn: [Never]}}}}"),
        ),
        MutatorOutcome::Stopped,
        &["spec.containers[name: b].pull excluded: \"Never\""],
    );
    check(
        assign("m", "spec.containers[name: b].pull", "parameters: {assign: {value: Never}}"),
        MutatorOutcome::Unchanged,
        &["spec.containers[name: b].pull same"],
    );
    check(
        assign("m", "spec.initContainers[name: *].pull", &format!("{always}}}")),
        MutatorOutcome::Stopped,
        &["spec.initContainers[name: *] no elements"],
    );
    check(
        mutator(
            "AssignMetadata",
            "m",
            "location: metadata.labels.l, parameters: {assign: {value: v}}",
        ),
        MutatorOutcome::Stopped,
        &["metadata.labels.l is there"],
    );
    check(
        assign(
            "m",
            "spec.containers[name: a].image",
            "parameters: {assign: {externalData: {provider: p}}}",
        ),
        MutatorOutcome::Changed,
        &["spec.containers[name: a].image p answers for x"],
    );
    check(
        assign("m", "spec.x", &format!("match: {{namespaces: [other]}}, {always}}}")),
        MutatorOutcome::NoMatch("namespaces".to_owned()),
        &[],
    );
    let failed = one(&assign("m", "spec.containers.x", &format!("{always}}}"))).0;
    let MutatorOutcome::Failed(error) = failed else { panic!("{failed:?}") };
    assert!(error.starts_with("mismatch between path entry (type: object)"), "{error}");
    // Of another kind, and in conflict with another.
    let services = value(
        "{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {name: s}, \
         spec: {applyTo: [{groups: [''], versions: [v1], kinds: [Service]}], location: spec.x, \
         parameters: {assign: {value: 1}}}}",
    );
    check(services, MutatorOutcome::NotAppliedTo, &[]);
    let system = system(&[
        assign("a", "spec.x.y", &format!("{always}}}")),
        assign("b", "spec.x[k: v].y", &format!("{always}}}")),
    ]);
    let explanation = system.explain(&request(&pod, &Budget::unlimited()));
    for trace in &explanation.passes[0] {
        assert!(matches!(trace.outcome, MutatorOutcome::Conflicting(_)), "{trace:?}");
    }
}

#[test]
fn a_mutator_that_changes_the_kind_hands_on_to_those_of_the_new_one() {
    let kind = |name: &str, kind: &str, location: &str, set: &str| {
        value(&format!(
            "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {{name: {name}}}, \
             spec: {{applyTo: [{{groups: [''], versions: [v1], kinds: [{kind}]}}], \
             location: {location}, parameters: {{assign: {{value: {set}}}}}}}}}"
        ))
    };
    let system = system(&[
        kind("a", "Service", "spec.early", "1"),
        kind("b", "Pod", "kind", "Service"),
        kind("c", "Service", "spec.late", "1"),
        kind("d", "Pod", "spec.never", "1"),
    ]);
    let pod = value("{apiVersion: v1, kind: Pod, metadata: {name: p}}");
    let mutated = mutate(&system, &pod).expect("converges");
    let expected =
        value("{apiVersion: v1, kind: Service, metadata: {name: p}, spec: {early: 1, late: 1}}");
    assert_eq!(mutated.object, Some(expected));
    let names = |pass: usize| mutated.passes[pass].iter().map(|id| id.name.clone());
    assert_eq!(names(0).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(names(1).collect::<Vec<_>>(), ["a", "c"]);
}

#[test]
fn budgets() {
    let long: String =
        (0..300).map(|index| format!("{}a", if index > 0 { "." } else { "" })).collect();
    let refused = |mutator: &Value| {
        CompiledMutator::compile(mutator, Options::default()).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(&assign("m", &long, "parameters: {assign: {value: 1}}")),
        "location has 300 steps, at most 256 are allowed"
    );
    let many = |prefix: &str| {
        (0..30).map(|index| format!("{prefix}{index}")).collect::<Vec<_>>().join(", ")
    };
    let mutator = value(&format!(
        "{{apiVersion: mutations.gatekeeper.sh/v1, kind: Assign, metadata: {{name: m}}, \
         spec: {{applyTo: [{{groups: [{}], versions: [{}], kinds: [{}]}}], location: spec.x, \
         parameters: {{assign: {{value: 1}}}}}}}}",
        many("g"),
        many("v"),
        many("k")
    ));
    assert_eq!(
        refused(&mutator),
        "invalid applyTo for Assign mutator m, it names 27000 kinds, at most 1000 are allowed"
    );

    // A long value at each of many places is long when printed, although it is one in memory.
    let elements: Vec<String> = (0..1000).map(|index| format!("{{name: c{index}}}")).collect();
    let pod = value(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{list: [{}]}}}}",
        elements.join(", ")
    ));
    let text = "x".repeat(10_000);
    let system = system(&[assign(
        "m",
        "spec.list[name: *].v",
        &format!("parameters: {{assign: {{value: '{text}'}}}}"),
    )]);
    let fails = |limits: Limits| {
        let budget = Budget::new(limits, &Frozen);
        system.mutate(&request(&pod, &budget)).expect_err("exhausted").to_string()
    };
    let error = fails(Limits { bytes: 1 << 20, ..Limits::UNLIMITED });
    assert!(
        error.starts_with("mutation <uuid> for mutator Assign.mutations.gatekeeper.sh /m"),
        "{error}"
    );
    assert!(error.contains("bytes"), "{error}");
    let error = fails(Limits { steps: 500, ..Limits::UNLIMITED });
    assert!(error.contains("steps"), "{error}");
}

#[test]
fn conflicts_of_many() {
    let always = "parameters: {assign: {value: Always}}";
    let mutators: Vec<Value> = (0..2000)
        .map(|index| {
            let location = if index == 0 { "spec.x[k: v].y" } else { "spec.x.y" };
            assign(&format!("m{index:04}"), location, always)
        })
        .collect();
    let system = system(&mutators);
    assert_eq!(system.conflicts().len(), 2000);
    let conflict = system.conflicts().values().next().expect("one");
    assert_eq!(conflict.parties().len(), 2000);
    let text = conflict.to_string();
    assert!(
        text.starts_with("the following mutators have conflicting schemas: [Assign."),
        "{text}"
    );
    assert!(text.ends_with("/m0099 and 1900 more]"), "{text}");
}

/// The answers of the validating webhook about mutators and ExpansionTemplates (1.13).
#[test]
fn resources_at_admission() {
    let code_of = |resource: &Value| {
        let refused = match resource.get("kind").and_then(Value::as_str) {
            Some("ExpansionTemplate") => expansion::validate(resource).map(|()| Vec::new()),
            _ => mutation::validate(resource, Options::default()),
        };
        refused.map_err(|refusal| (refusal.code, refusal.message))
    };
    let template = |version: &str, name: &str, rest: &str| {
        value(&format!(
            "{{apiVersion: expansion.gatekeeper.sh/{version}, kind: ExpansionTemplate, \
             metadata: {{name: {name}}}, spec: {{applyTo: [{{groups: [apps], versions: [v1], \
             kinds: [Deployment]}}], templateSource: spec.template, \
             generatedGVK: {{version: v1, kind: Pod}}{rest}}}}}"
        ))
    };
    let parameters = "parameters: {assign: {value: 1}}";
    let long = "n".repeat(64);
    let too_long = "resource cannot have metadata.name larger than 63 char; length: 64";
    let image = mutator("AssignImage", "m", "location: spec.x, parameters: {assignTag: ':1'}");
    let mut newer = image.as_object().expect("a map").clone();
    newer.insert("apiVersion", "mutations.gatekeeper.sh/v1".into());
    for (resource, expected) in [
        (assign("m", "spec.x", parameters), Ok(vec![])),
        (image, Ok(vec![])),
        (
            assign("m", "spec.x", &format!("source: Generated, {parameters}")),
            Ok(vec!["spec.source is deprecated; use spec.match.source".to_owned()]),
        ),
        (assign(&long, "spec.x", parameters), Err((500, too_long))),
        (
            newer.into(),
            Err((
                500,
                "no kind \"AssignImage\" is registered for version \
                 \"mutations.gatekeeper.sh/v1\" in scheme \"mutations.gatekeeper.sh\"",
            )),
        ),
        (
            assign("m", "spec..x", parameters),
            Err((
                422,
                "invalid location format `spec..x` for Assign m: unexpected token: expected field \
                 name or eof, got: SEPARATOR: \".\"",
            )),
        ),
        (template("v1alpha1", "t", ""), Ok(vec![])),
        (template("v1beta1", &long, ""), Err((500, too_long))),
        (
            template("v1", "t", ""),
            Err((
                500,
                "no kind \"ExpansionTemplate\" is registered for version \
                 \"expansion.gatekeeper.sh/v1\" in scheme \"expansion.gatekeeper.sh\"",
            )),
        ),
        (
            template("v1beta1", "t", ", enforcementAction: Deny"),
            Err((
                422,
                "unrecognized enforcementAction: \"Deny\" is not within the supported list \
                 [deny dryrun warn]",
            )),
        ),
    ] {
        let expected = expected.map_err(|(code, message)| (code, message.to_owned()));
        assert_eq!(code_of(&resource), expected, "{resource}");
    }
    let undecodable = code_of(&assign("m", "spec.x", "parameters: 7"));
    assert_eq!(undecodable.map_err(|(code, _)| code), Err(500));
}

fn ask(policies: Vec<Value>, request: &str) -> Decision {
    let review = Review::from_request(&value(request)).expect(request);
    decide(&snapshot(policies), &review, Stages::MUTATORS)
}

#[test]
fn the_webhook_step_by_step() {
    let mutators = || {
        vec![
            assign("m", "spec.x", "match: {namespaces: [ns]}, parameters: {assign: {value: 1}}"),
            assign("bad", "spec.text.y", "match: {name: bad}, parameters: {assign: {value: 1}}"),
            value(
                "{apiVersion: config.gatekeeper.sh/v1alpha1, kind: Config, \
                 metadata: {name: config, namespace: gatekeeper-system}, \
                 spec: {match: [{processes: [mutation-webhook], excludedNamespaces: [out]}]}}",
            ),
        ]
    };
    let pod = |rest: &str, operation: &str, object: &str| {
        format!(
            "{{uid: u, operation: {operation}, kind: {{group: '', version: v1, kind: Pod}}, \
             {rest}, object: {object}}}"
        )
    };
    let object = "{apiVersion: v1, kind: Pod, metadata: {name: p}}";
    let unchanged = |message: &str, status| (true, 200, message.to_owned(), status);
    for (request, expected) in [
        (
            pod(
                "namespace: ns, userInfo: {username: \
                 'system:serviceaccount:gatekeeper-system:gatekeeper-admin'}",
                "CREATE",
                object,
            ),
            unchanged("Gatekeeper does not self-manage", None),
        ),
        (
            pod("namespace: ns, oldObject: {}", "DELETE", "null"),
            unchanged("Mutating only on create or update", None),
        ),
        (
            "{operation: CREATE, kind: {group: mutations.gatekeeper.sh, version: v1, \
             kind: Assign}, object: {}}"
                .to_owned(),
            unchanged("Not mutating gatekeeper resources", None),
        ),
        (
            pod("namespace: out", "CREATE", object),
            unchanged(
                "Namespace is set to be ignored by Gatekeeper config",
                Some(MutationStatus::Skip),
            ),
        ),
        (
            pod("namespace: other", "CREATE", object),
            unchanged("Resource was not mutated", Some(MutationStatus::Success)),
        ),
        (
            pod(
                "namespace: ns",
                "UPDATE",
                "{apiVersion: v1, kind: Pod, metadata: {name: bad}, spec: {text: t}}",
            ),
            (
                false,
                500,
                "mutation 00000000-0000-4000-8000-000000000000 for mutator \
                 Assign.mutations.gatekeeper.sh /bad failed for  Pod ns bad: mismatch between path \
                 entry (type: object) and received object (type: string). Path: y"
                    .to_owned(),
                Some(MutationStatus::Error),
            ),
        ),
        (
            pod("namespace: ns", "CREATE", "7"),
            (
                false,
                500,
                "failed to decode the object of the request".to_owned(),
                Some(MutationStatus::Error),
            ),
        ),
    ] {
        let answer = ask(mutators(), &request);
        let status = answer.mutation_status();
        let got = (answer.allowed, answer.code, answer.reason, status);
        assert_eq!(got, expected, "{request}");
        assert!(answer.patch.is_empty(), "{request}");
    }

    // The namespace of the request is there for mutators, and gone again afterwards.
    let answer = ask(mutators(), &pod("namespace: ns", "CREATE", object));
    assert_eq!((answer.allowed, answer.code, answer.reason.as_str()), (true, 200, ""));
    assert_eq!(
        jsonpatch::to_value(&answer.patch).to_json(),
        r#"[{"op":"add","path":"/spec","value":{"x":1}}]"#
    );
    let expected = value("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {x: 1}}");
    assert_eq!(answer.object, expected);
    let bare = ask(mutators(), &pod("namespace: ns", "CREATE", "{apiVersion: v1, kind: Pod}"));
    assert_eq!(bare.object, value("{apiVersion: v1, kind: Pod, spec: {x: 1}}"));

    // A Namespace is its own namespace.
    let namespace = "{operation: CREATE, kind: {version: v1, kind: Namespace}, namespace: ns, \
                     object: {apiVersion: v1, kind: Namespace, metadata: {name: ns}}}";
    let label = mutator(
        "AssignMetadata",
        "l",
        "match: {namespaces: [ns]}, location: metadata.labels.l, \
         parameters: {assign: {fromMetadata: {field: namespace}}}",
    );
    let answer = ask(vec![label], namespace);
    let metadata = "{name: ns, labels: {l: ''}}";
    let expected = value(&format!("{{apiVersion: v1, kind: Namespace, metadata: {metadata}}}"));
    assert_eq!(answer.object, expected);
}

#[test]
fn annotations() {
    let options = Options { annotations: true, ..Options::default() };
    let config = EngineConfig { mutators: options, ..EngineConfig::default() };
    let mutator = assign("m", "spec.x", "parameters: {assign: {value: 1}}");
    let mut with_generation = mutator.as_object().expect("map").clone();
    with_generation.insert("metadata", value("{name: m, generation: 3}"));
    let snapshot = snapshot_with(config, vec![with_generation.into()]);
    let pod = value("{apiVersion: v1, kind: Pod, metadata: {name: p}}");
    let review = Review::of_object(pod, Operation::Create, "default");
    let answer = decide(&snapshot, &review, Stages::MUTATORS);
    let annotations = answer.object.path(&["metadata", "annotations"]).expect("annotations");
    let expected = value(
        "{gatekeeper.sh/mutation-id: 00000000-0000-4000-8000-000000000000, \
         gatekeeper.sh/mutations: 'Assign//m:3'}",
    );
    assert_eq!(annotations, &expected);
}

/// Integers beyond 2^53 reach the patch as they are.
#[test]
fn patches_are_exact() {
    let mutator = assign("m", "spec.x", "parameters: {assign: {value: 9007199254740993}}");
    let request = "{operation: CREATE, kind: {version: v1, kind: Pod}, namespace: ns, \
                   object: {apiVersion: v1, kind: Pod, spec: {x: 9007199254740992}}}";
    let answer = ask(vec![mutator], request);
    let patch = jsonpatch::to_value(&answer.patch).to_json();
    assert_eq!(patch, r#"[{"op":"replace","path":"/spec/x","value":9007199254740993}]"#);
    let sent = value("{apiVersion: v1, kind: Pod, spec: {x: 9007199254740992}}");
    let mut tree = Tree::from(sent);
    for operation in &answer.patch {
        jsonpatch::apply(&mut tree, operation, &Budget::unlimited()).expect("applies");
    }
    assert_eq!(tree.into_value(), answer.object);
}
