//! Templates and constraints in a snapshot: any order, updates that do not compile, removal, the
//! answer of the webhook, and the index against its oracle.

use modgate_engine::{
    Change, Decision, EngineConfig, Lookup, OnError, PolicyId, PolicySource, Review, Snapshot,
    Stages,
};
use modgate_value::{Value, yaml};

use crate::support::decide;

fn template(kind: &str, rego: &str) -> Value {
    let rego = Value::from(rego).to_json();
    value(&format!(
        "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: {}}}, \
         spec: {{crd: {{spec: {{names: {{kind: {kind}}}}}}}, targets: [{{target: \
         admission.k8s.gatekeeper.sh, rego: {rego}}}]}}}}",
        kind.to_lowercase()
    ))
}

fn says(message: &str) -> String {
    format!("package p\nviolation[{{\"msg\": \"{message}\"}}] {{ true }}")
}

fn constraint(kind: &str, name: &str, spec: &str) -> Value {
    value(&format!(
        "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: {kind}, metadata: {{name: {name}}}, \
         spec: {spec}}}"
    ))
}

fn value(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn upsert(object: Value) -> Change {
    Change::Upsert(PolicySource::of_object(object))
}

/// The snapshot after a change, and what was wrong with it.
fn change(snapshot: &Snapshot, change: Change) -> (Snapshot, Vec<String>) {
    let update = snapshot.apply(vec![change], OnError::Unload);
    let problems = update.problems.iter().map(ToString::to_string).collect();
    (update.snapshot, problems)
}

fn pod(operation: &str) -> Review {
    let request = value(&format!(
        "{{operation: {operation}, name: p, namespace: ns, kind: {{group: '', version: v1, kind: \
         Pod}}, object: {{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: ns}}}}}}"
    ));
    Review::from_request(&request).expect("a request")
}

fn admit(snapshot: &Snapshot, review: &Review) -> Decision {
    decide(snapshot, review, Stages::CONSTRAINTS)
}

fn message(snapshot: &Snapshot) -> String {
    admit(snapshot, &pod("CREATE")).reason
}

#[test]
fn any_order_and_back() {
    let empty = Snapshot::new(EngineConfig::default());
    let (waiting, problems) = change(&empty, upsert(constraint("Foo", "c", "{}")));
    assert_eq!(problems, ["Foo c: kind: missing ConstraintTemplate: template \"foo\" not found"]);
    assert_eq!(message(&waiting), "");
    assert_eq!(waiting.constraints().waiting().count(), 1);

    let (live, problems) = change(&waiting, upsert(template("Foo", &says("one"))));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(message(&live), "[c] one");
    assert_eq!(message(&waiting), "", "a snapshot never changes");
    let policies: Vec<String> = live.policies().map(|id| id.to_string()).collect();
    assert_eq!(policies, ["ConstraintTemplate foo", "Foo c"]);

    let (next, problems) = change(&live, upsert(template("Foo", &says("two"))));
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(message(&next), "[c] two");

    let (broken, problems) = change(&next, upsert(template("Foo", "package p")));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(message(&broken), "[c] two", "TC-3");

    let id = PolicyId::of_object(&template("Foo", ""));
    let (gone, problems) = change(&broken, Change::Remove(id));
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(message(&gone), "");
    let (back, _) = change(&gone, upsert(template("Foo", &says("three"))));
    assert_eq!(message(&back), "[c] three");

    let id = PolicyId::of_object(&constraint("Foo", "c", "{}"));
    let (none, _) = change(&back, Change::Remove(id));
    assert_eq!(message(&none), "");
    assert_eq!(none.constraints().constraints().count(), 0);
}

#[test]
fn a_constraint_that_is_refused_leaves_the_one_before() {
    let empty = Snapshot::new(EngineConfig::default());
    let (snapshot, _) = change(&empty, upsert(template("Foo", &says("one"))));
    let (snapshot, _) = change(&snapshot, upsert(constraint("Foo", "c", "{}")));
    let (snapshot, problems) =
        change(&snapshot, upsert(constraint("Foo", "c", "{enforcementAction: foo}")));
    assert_eq!(
        problems,
        [
            "Foo c: spec.enforcementAction: unrecognized enforcementAction: \"foo\" is not within the \
          supported list [deny dryrun warn scoped]"
        ]
    );
    assert_eq!(message(&snapshot), "[c] one", "ST-21");
    let (snapshot, _) =
        change(&snapshot, upsert(constraint("Foo", "c", "{enforcementAction: warn}")));
    assert_eq!(admit(&snapshot, &pod("CREATE")).warnings, ["[c] one"]);
}

#[test]
fn only_constraints_for_the_kind_are_candidates() {
    let specs = [
        ("pods", "{match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}}"),
        ("both", "{match: {kinds: [{kinds: [Pod, Service]}, {kinds: [Pod]}]}}"),
        ("services", "{match: {kinds: [{kinds: [Service]}]}}"),
        ("groups", "{match: {kinds: [{apiGroups: ['']}]}}"),
        ("stars", "{match: {kinds: [{kinds: ['*']}]}}"),
        ("apps", "{match: {kinds: [{apiGroups: [apps], kinds: [Pod]}]}}"),
        ("all", "{}"),
    ];
    let load = |lookup| {
        let mut changes = vec![upsert(template("Foo", &says("no")))];
        changes.extend(specs.iter().map(|(name, spec)| upsert(constraint("Foo", name, spec))));
        let config = EngineConfig { lookup, ..EngineConfig::default() };
        Snapshot::new(config).apply(changes, OnError::Unload).snapshot
    };
    let (indexed, scanned) = (load(Lookup::Index), load(Lookup::Scan));
    let found = admit(&indexed, &pod("CREATE"));
    let names: Vec<&str> =
        found.violations.iter().map(|violation| violation.constraint.as_str()).collect();
    assert_eq!(names, ["all", "both", "groups", "pods", "stars"]);
    assert_eq!(found, admit(&scanned, &pod("CREATE")));

    let review = pod("CREATE");
    let admission = modgate_engine::constraint::Admission::of_review(&review, None);
    let candidates = indexed.constraints().candidates(&admission.expect("a review"));
    let names: Vec<&str> = candidates.iter().map(|constraint| constraint.name().as_str()).collect();
    assert_eq!(names, ["all", "apps", "both", "groups", "pods", "stars"]);
}

/// Index and oracle agree about objects of several kinds, also when both objects of an update are
/// of different ones.
#[test]
fn the_index_finds_what_looking_at_all_finds() {
    let kinds = ["Pod", "Service", "Deployment", "*", ""];
    let groups = ["", "apps", "*"];
    let mut changes = vec![upsert(template("Foo", &says("no")))];
    for (k, kind) in kinds.iter().enumerate() {
        for (g, group) in groups.iter().enumerate() {
            let kinds = if kind.is_empty() { String::new() } else { format!("'{kind}'") };
            let spec = format!(
                "{{match: {{kinds: [{{apiGroups: ['{group}'], kinds: [{kinds}]}}, {{apiGroups: \
                 [x], kinds: [Service]}}]}}}}"
            );
            changes.push(upsert(constraint("Foo", &format!("c-{k}-{g}"), &spec)));
        }
    }
    let load = |lookup| {
        let config = EngineConfig { lookup, ..EngineConfig::default() };
        let update = Snapshot::new(config).apply(changes.clone(), OnError::Unload);
        assert!(!update.has_errors(), "{:?}", update.problems);
        update.snapshot
    };
    let (indexed, scanned) = (load(Lookup::Index), load(Lookup::Scan));
    let object = |(version, kind): (&str, &str)| {
        format!("{{apiVersion: {version}, kind: {kind}, metadata: {{name: o, namespace: ns}}}}")
    };
    let objects = [("v1", "Pod"), ("apps/v1", "Deployment"), ("x/v1", "Service"), ("v1", "Other")];
    for new in objects {
        for old in objects {
            let request = value(&format!(
                "{{operation: UPDATE, name: o, namespace: ns, object: {}, oldObject: {}}}",
                object(new),
                object(old)
            ));
            let review = Review::from_request(&request).expect("a request");
            let found = admit(&indexed, &review);
            assert_eq!(found, admit(&scanned, &review), "{new:?} {old:?}");
            assert!(!found.violations.is_empty(), "{new:?} {old:?}");
        }
    }
    let connect = value("{operation: CONNECT, name: o, kind: {group: '', version: v1, kind: Pod}}");
    let review = Review::from_request(&connect).expect("a request");
    let found = admit(&indexed, &review);
    assert_eq!(found, admit(&scanned, &review));
    assert_eq!(found.violations.len(), 15, "EV-22: each match block is an error");
}

#[test]
fn what_cannot_be_reviewed_is_denied() {
    let empty = Snapshot::new(EngineConfig::default());
    let verdict = admit(&empty, &pod("DELETE"));
    assert_eq!((verdict.allowed, verdict.code), (false, 500));
    assert_eq!(
        verdict.reason,
        "error reviewing resource p: admission.k8s.gatekeeper.sh: target.HandleReview failed for \
         target \"admission.k8s.gatekeeper.sh\": oldObject cannot be nil for DELETE operations\n"
    );
}

#[test]
fn whether_contents_may_be_read() {
    let rego = |rego: &str, spec: &str| {
        vec![template("K", &format!("package p\n{rego}")), constraint("K", "c", spec)]
    };
    let name = r#"violation[{"msg": "m"}] { input.review.object.metadata.name == "bad" }"#;
    let data = r#"violation[{"msg": "m"}] { input.review.object.data.x }"#;
    let old = r#"violation[{"msg": "m"}] { contents(input.review.oldObject) == 1 }
        contents(object) = x { x := object.binaryData }"#;
    let any = r#"violation[{"msg": "m"}] { input.review.object[_] == 1 }"#;
    let whole = r#"violation[{"msg": m}] { m := sprintf("%v", [input]) }"#;
    let pods = "{match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}}";
    let maps = "{match: {kinds: [{apiGroups: [''], kinds: [ConfigMap]}]}}";
    let rule = |select: &str| {
        value(&format!(
            "{{apiVersion: api.kubemod.io/v1beta1, kind: ModRule, metadata: {{name: r, namespace: ns}}, \
             spec: {{type: Reject, match: [{{select: $.kind, matchValue: {select}}}]}}}}"
        ))
    };
    for (policies, expected) in [
        (vec![], false),
        (rego(name, "{}"), false),
        (rego(data, "{}"), true),
        (rego(data, pods), false),
        (rego(data, maps), true),
        (rego(old, "{}"), true),
        (rego(any, "{}"), true),
        (rego(whole, maps), true),
        (vec![rule("Pod")], false),
        (vec![rule("ConfigMap")], true),
    ] {
        let shown = format!("{policies:?}");
        let changes = policies.into_iter().map(upsert).collect();
        let update = Snapshot::default().apply(changes, OnError::Unload);
        assert!(!update.has_errors(), "{:?}", update.problems);
        for (kind, resource, own, is_known) in [
            ("ConfigMap", "configmaps", "ConfigMap", true),
            ("ConfigMap", "pods", "ConfigMap", false),
            ("Pod", "pods", "Pod", false),
            ("ConfigMap", "configmaps", "Secret", false),
            ("Secret", "secrets", "ConfigMap", false),
        ] {
            let request = value(&format!(
                "{{operation: CREATE, name: m, namespace: ns, kind: {{group: '', version: v1, kind: {kind}}}, \
                 resource: {{group: '', version: v1, resource: {resource}}}, \
                 object: {{apiVersion: v1, kind: {own}, metadata: {{name: m, namespace: ns}}}}}}"
            ));
            let review = Review::from_request(&request).expect("a request");
            let found = update.snapshot.may_read_contents(&review);
            assert_eq!(found, expected || !is_known, "{kind} {resource} {own}: {shown}");
        }
    }
}

#[test]
fn violations_are_sorted_by_action_message_kind_and_name() {
    let rego = "package p\nviolation[{\"msg\": msg}] { msg := input.parameters.messages[_] }";
    let mut snapshot = Snapshot::new(EngineConfig::default());
    for kind in ["Foo", "Bar"] {
        let mut template = template(kind, rego).as_object().expect("an object").clone();
        let schema = "{spec: {names: {kind: KIND}, validation: {legacySchema: true}}}";
        let crd = value(&schema.replace("KIND", kind));
        let mut spec = template.get("spec").and_then(Value::as_object).expect("a spec").clone();
        spec.insert("crd", crd);
        template.insert("spec", spec.into());
        snapshot = change(&snapshot, upsert(template.into())).0;
    }
    // Texts that differ early, late, by their lengths, and by bytes that come before every other.
    let mut messages: Vec<String> = Vec::new();
    for length in [0, 1, 13, 14, 15, 16, 17, 22, 23, 24, 30] {
        for end in ["", "a", "b", "ba", "\u{0}", "\u{0}a", "é", "\u{10ffff}"] {
            messages.push(format!(
                "{}{end}",
                "container <web> has no".repeat(2).get(..length).expect("text")
            ));
        }
    }
    let list = Value::from(messages.iter().map(|it| Value::from(it.as_str())).collect::<Vec<_>>());
    for (number, kind) in ["Foo", "Bar", "Foo", "Bar"].into_iter().enumerate() {
        for action in ["deny", "warn", "dryrun"] {
            let spec = format!(
                "{{enforcementAction: {action}, parameters: {{messages: {}}}}}",
                list.to_json()
            );
            let constraint = constraint(kind, &format!("{action}-{number}"), &spec);
            let (next, problems) = change(&snapshot, upsert(constraint));
            assert!(problems.is_empty(), "{problems:?}");
            snapshot = next;
        }
    }
    let found = admit(&snapshot, &pod("CREATE")).violations;
    let keys: Vec<_> = found
        .iter()
        .map(|it| {
            (it.action.as_str(), it.message.as_str(), it.kind.as_str(), it.constraint.as_str())
        })
        .collect();
    messages.sort();
    messages.dedup();
    assert_eq!(keys.len(), 12 * messages.len());
    assert!(keys.is_sorted());
}
