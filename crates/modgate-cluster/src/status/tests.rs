//! Entries and conditions, without a cluster.

use std::{collections::BTreeMap, sync::Arc};

use modgate_engine::{Code, EngineConfig, Problem, Severity, api::meta::GroupVersionKind};
use modgate_policies::Objects;
use modgate_value::{Value, diag::Span, yaml};

use super::{entry::Entries, modrule, pod, subject::Subject};
use crate::{
    ingest::Ingest,
    kinds::Kind,
    object::{Item, Key},
    operations::{Operation, Operations},
    reports::{AllReports, EnforcementPoint, Report, ReportedError, Reports, VapGeneration},
    state::{Loaded, State},
    watches::{Seen, Target},
};

struct Fixture {
    ingest: Ingest,
    entries: Entries,
    reports: Reports,
}

fn kind(object: &Value) -> Kind {
    let GroupVersionKind { group, kind, .. } = GroupVersionKind::of_object(object);
    Kind { group: group.to_string(), kind: kind.to_string() }
}

fn key(object: &Value) -> Key {
    let text =
        |name| object.path(&["metadata", name]).and_then(Value::as_str).unwrap_or_default().into();
    Key { namespace: text("namespace"), name: text("name") }
}

impl Fixture {
    fn new() -> Self {
        let objects = Objects::default();
        let mut config = EngineConfig::default();
        config.installation.namespace = "gk".into();
        let ingest = Ingest::new(config, "gk".into(), objects);
        Self { ingest, entries: Entries::default(), reports: Reports::default() }
    }

    fn apply(&mut self, text: &str) {
        for document in yaml::load(text).expect("YAML") {
            let object = document.value;
            let item = Item { key: key(&object), object: Ok(object.clone()) };
            self.ingest.take(&Target::Kind(kind(&object)), Seen::Applied(item));
        }
        self.ingest.apply();
    }

    fn delete(&mut self, text: &str) {
        let object = yaml::value(text).expect("YAML");
        let item = Item { key: key(&object), object: Ok(object.clone()) };
        self.ingest.take(&Target::Kind(kind(&object)), Seen::Deleted(item));
        self.ingest.apply();
    }

    /// All entries, by kind and name, without what is the same for all.
    fn said(&mut self) -> BTreeMap<String, String> {
        let state = State {
            current: Arc::clone(self.ingest.current()),
            policies: self.ingest.policies().clone(),
            served: Arc::default(),
            facts: Arc::default(),
            synced: Arc::default(),
        };
        let operations: Operations = [Operation::Webhook, Operation::Audit].into_iter().collect();
        let reports: AllReports = self.reports.subscribe().borrow().clone();
        let entries = self.entries.of(&state, &reports, "pod-1", &operations);
        entries
            .into_iter()
            .map(|((subject, kind, key), mut entry)| {
                let Value::Object(members) = &mut entry else { panic!("{entry:?}") };
                assert_eq!(members.remove("id"), Some("pod-1".into()));
                assert!(
                    members
                        .remove("operations")
                        .is_some_and(|it| it.to_json() == r#"["audit","webhook"]"#)
                );
                assert!(members.remove(subject.uid_member()).is_some());
                (format!("{} {}", kind.kind, key.name), entry.to_json())
            })
            .collect()
    }

    fn check(&mut self, policy: &str, expected: &str) {
        let said = self.said();
        assert_eq!(said.get(policy).map(String::as_str), Some(expected), "{policy} of {said:?}");
    }
}

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sdeny, generation: 3, uid: t}
spec:
  crd: {spec: {names: {kind: K8sDeny}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package deny
      violation[{"msg": "no"}] { true }
"#;

const CONSTRAINT: &str = r#"
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sDeny
metadata: {name: all, generation: 1, uid: c}
spec: {enforcementAction: deny}
"#;

#[test]
fn a_constraint_follows_its_template() {
    let mut fixture = Fixture::new();
    fixture.apply(CONSTRAINT);
    fixture.check(
        "K8sDeny all",
        r#"{"errors":[{"code":"","location":"kind","message":"could not cache constraint: missing ConstraintTemplate: template \"k8sdeny\" not found"}],"observedGeneration":1}"#,
    );
    fixture.apply(TEMPLATE);
    fixture.check("K8sDeny all", r#"{"enforced":true,"observedGeneration":1}"#);
    fixture.check("ConstraintTemplate k8sdeny", r#"{"observedGeneration":3}"#);

    let second = CONSTRAINT.replace("generation: 1", "generation: 2").replace("deny}", "obey}");
    fixture.apply(&second);
    let said = fixture.said();
    let said = said.get("K8sDeny all").expect("an entry");
    assert!(said.starts_with(r#"{"enforced":true,"enforcedGeneration":1,"errors":[{"code":"","location":"spec.enforcementAction","message":"could not validate enforcement actions: "#), "{said}");
    assert!(said.ends_with(r#""observedGeneration":2}"#), "{said}");

    fixture.delete(TEMPLATE);
    let said = fixture.said();
    assert!(!said["K8sDeny all"].contains("enforced\":true"), "{said:?}");
}

#[test]
fn templates_that_do_not_load() {
    for (change, code, beginning) in [
        (("violation[", "violation["), "", ""),
        (("{ true }", "{ true"), "ingest_error", "Could not ingest Rego: "),
        (("K8sDeny}", "Other}"), "create_error", "the ConstraintTemplate's name"),
        (("admission.k8s.gatekeeper.sh", "x"), "create_error", "target \\\"x\\\" not recognized"),
    ] {
        let mut fixture = Fixture::new();
        fixture.apply(&TEMPLATE.replace(change.0, change.1));
        let said = fixture.said();
        let said = said.get("ConstraintTemplate k8sdeny").expect("an entry");
        if code.is_empty() {
            assert!(!said.contains("errors"), "{said}");
            continue;
        }
        assert!(said.contains(&format!(r#""code":"{code}""#)), "{said}");
        let message = said.split(r#""message":""#).nth(1).unwrap_or_default();
        let message = message.trim_start_matches("invalid ConstraintTemplate: ");
        assert!(message.starts_with(beginning), "{said}");
        // The same again, kept with its version.
        assert_eq!(fixture.said().get("ConstraintTemplate k8sdeny"), Some(said));
    }
}

#[test]
fn a_template_that_does_not_compile_any_more_names_the_generation_in_force() {
    let at = |generation: u32, code: &str| {
        TEMPLATE
            .replace("generation: 3", &format!("generation: {generation}"))
            .replace("{ true }", code)
    };
    let mut fixture = Fixture::new();
    fixture.apply(&at(1, "{ true }"));
    let before = fixture.said().get("ConstraintTemplate k8sdeny").expect("an entry").clone();
    assert!(!before.contains("errors"), "{before}");
    for (generation, code) in [(2, "{ true"), (3, "{ nope(1) }")] {
        fixture.apply(&at(generation, code));
        let said = fixture.said();
        let entry = said.get("ConstraintTemplate k8sdeny").expect("an entry");
        let beginning = "Could not ingest Rego: generation 1 of the template stays in force; ";
        assert!(entry.contains(&format!("\"message\":\"{beginning}")), "{entry}");
        assert!(entry.contains(&format!("\"observedGeneration\":{generation}")), "{entry}");
        assert_eq!(entry.matches("\"message\"").count(), 1, "{entry}");
        assert_eq!(fixture.said(), said);
    }
    fixture.apply(&at(4, "{ 1 == 1 }"));
    let after = fixture.said().get("ConstraintTemplate k8sdeny").expect("an entry").clone();
    assert!(!after.contains("errors"), "{after}");
}

#[test]
fn mutators_follow_each_other() {
    let assign = |name: &str, location: &str| {
        format!(
            "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {{name: {name}}}\n\
             spec:\n  applyTo: [{{groups: [''], versions: [v1], kinds: [Pod]}}]\n  \
             location: '{location}'\n  parameters: {{assign: {{value: 1}}}}\n"
        )
    };
    let good = r#"{"enforced":true,"observedGeneration":0}"#;
    let mut fixture = Fixture::new();
    fixture.apply(&assign("a", "spec.x.y"));
    fixture.check("Assign a", good);
    fixture.apply(&assign("b", "spec.x[name: n].y"));
    let conflict = r#"{"enforced":false,"errors":[{"message":"the following mutators have conflicting schemas: [Assign.mutations.gatekeeper.sh /a,Assign.mutations.gatekeeper.sh /b]","type":"ErrConflictingSchema"}],"observedGeneration":0}"#;
    fixture.check("Assign a", conflict);
    fixture.check("Assign b", conflict);
    fixture.apply(&assign("b", "metadata.x"));
    fixture.check("Assign a", good);
    fixture.check(
        "Assign b",
        r#"{"enforced":false,"errors":[{"message":"assign b can't change metadata"}],"observedGeneration":0}"#,
    );
}

/// A policy that loads and warns, with the code and the place of its warning.
const WARNED: [(&str, &str, &str, &str); 7] = [
    (
        "ConstraintTemplate k8sdeny",
        "unknown-input",
        "spec.targets[0].rego:2:34",
        r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sdeny}
spec:
  crd: {spec: {names: {kind: K8sDeny}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package deny
      violation[{"msg": "no"}] { input.paramters.x }
"#,
    ),
    (
        "K8sDeny all",
        "never-matches",
        "spec.match.kinds[0].kinds[0]",
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sDeny\nmetadata: {name: all}\n\
         spec: {match: {kinds: [{apiGroups: [''], kinds: [pods]}]}}\n",
    ),
    (
        "Assign pull",
        "never-matches",
        "spec.applyTo[0].kinds[0]",
        "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {name: pull}\n\
         spec:\n  applyTo: [{groups: [''], versions: [v1], kinds: ['*']}]\n  location: spec.x\n  \
         parameters: {assign: {value: 1}}\n",
    ),
    (
        "ExpansionTemplate jobs",
        "unknown-path",
        "spec.templateSource",
        "apiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\n\
         metadata: {name: jobs}\nspec:\n  applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}]\n  \
         templateSource: spec.tempalte\n  generatedGVK: {group: '', version: v1, kind: Pod}\n",
    ),
    (
        "Provider p",
        "unknown-field",
        "spec.timout",
        "apiVersion: externaldata.gatekeeper.sh/v1beta1\nkind: Provider\nmetadata: {name: p}\n\
         spec: {url: 'https://p.example', timeout: 3, timout: 3, caBundle: CA}\n",
    ),
    (
        "Config config",
        "unknown-value",
        "spec.match[0].processes[0]",
        "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
         metadata: {name: config, namespace: gk}\n\
         spec: {match: [{processes: [webhok], excludedNamespaces: [a]}]}\n",
    ),
    (
        "SyncSet s",
        "never-matches",
        "spec.gvks[0].kind",
        "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\nmetadata: {name: s}\n\
         spec: {gvks: [{group: '', version: v1, kind: Pods}]}\n",
    ),
];

#[test]
fn warnings_are_in_statuses_and_counted_by_code() {
    let mut fixture = Fixture::new();
    let mut counted = Vec::new();
    for (.., text) in WARNED {
        for document in yaml::load(text).expect("YAML") {
            let object = document.value;
            let item = Item { key: key(&object), object: Ok(object.clone()) };
            fixture.ingest.take(&Target::Kind(kind(&object)), Seen::Applied(item));
        }
        let found = fixture.ingest.apply().unwrap_or_default();
        counted.push(found.iter().filter_map(|found| found.code).collect::<Vec<_>>());
    }
    let said = fixture.said();
    for ((policy, code, place, _), counted) in WARNED.iter().zip(counted) {
        assert_eq!(counted, [*code], "{policy}");
        // A SyncSet has no status.
        let Some(entry) = said.get(*policy) else {
            assert_eq!(*policy, "SyncSet s");
            continue;
        };
        let expected = format!(r#""warnings":[{{"code":"{code}","location":"{place}","message":""#);
        assert!(entry.contains(&expected), "{entry}");
        assert!(entry.contains("; did you mean `") || *policy == "Assign pull", "{entry}");
        assert!(!entry.contains("\"errors\"") || *policy == "Provider p", "{entry}");
    }
    // They go with the next version.
    fixture.apply(&WARNED[5].3.replace("webhok", "webhook"));
    let said = fixture.said();
    let entry = said.get("Config config").expect("an entry");
    assert!(!entry.contains("warnings"), "{entry}");
}

#[test]
fn what_other_controllers_say() {
    let mut fixture = Fixture::new();
    fixture.apply(&format!("{TEMPLATE}\n---\n{CONSTRAINT}"));
    let constraint = yaml::value(CONSTRAINT).expect("YAML");
    let template = yaml::value(TEMPLATE).expect("YAML");
    let point = EnforcementPoint {
        point: "vap.k8s.io",
        state: "error",
        message: "K8sNativeValidation engine is missing".to_owned(),
        observed_generation: 1,
    };
    let report = Report { points: vec![point], ..Report::default() };
    fixture.reports.set("vap", &kind(&constraint), &key(&constraint), Some(report));
    let generation =
        VapGeneration { state: "generated", observed_generation: 3, warning: String::new() };
    let error = ReportedError { code: "update_error", message: "x".repeat(10_000) };
    let report = Report { generation: Some(generation), errors: vec![error], ..Report::default() };
    fixture.reports.set("vap", &kind(&template), &key(&template), Some(report));
    fixture.check(
        "K8sDeny all",
        r#"{"enforced":true,"enforcementPointsStatus":[{"enforcementPoint":"vap.k8s.io","message":"K8sNativeValidation engine is missing","observedGeneration":1,"state":"error"}],"observedGeneration":1}"#,
    );
    let long = format!("{}...", "x".repeat((8 << 10) - 3));
    fixture.check(
        "ConstraintTemplate k8sdeny",
        &format!(
            r#"{{"errors":[{{"code":"update_error","message":"{long}"}}],"observedGeneration":3,"vapGenerationStatus":{{"observedGeneration":3,"state":"generated"}}}}"#
        ),
    );
}

#[test]
fn configs_of_other_names_are_not_spoken_of() {
    let mut fixture = Fixture::new();
    for name in ["config", "other"] {
        fixture.apply(&format!(
            "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\n\
             metadata: {{name: {name}, namespace: gk}}\nspec: {{}}\n"
        ));
    }
    let said = fixture.said();
    assert_eq!(said.keys().map(String::as_str).collect::<Vec<_>>(), ["Config config"]);
}

fn rule(problems: Vec<Problem>) -> Loaded {
    let object = yaml::value("{metadata: {name: r, generation: 4}}").expect("YAML");
    Loaded { object, problems }
}

fn problem(severity: Severity, field: &str, message: &str) -> Problem {
    Problem {
        code: None,
        severity,
        policy: modgate_engine::PolicyId::of_object(&Value::Null),
        origin: "".into(),
        field: field.to_owned(),
        position: None,
        text: Some("$.a b".into()),
        span: Some(Span::new(4, 5)),
        message: message.to_owned(),
        help: None,
        missing: None,
    }
}

#[test]
fn conditions_of_modrules() {
    let warning = || problem(Severity::Warning, "spec.x", "odd");
    let error = || problem(Severity::Error, "spec.match[0].select", "parsing\nerror");
    for (problems, status, reason, message) in [
        (vec![], "True", "Loaded", ""),
        (vec![warning(), warning()], "True", "LoadedWithWarnings", "spec.x (character 5): odd"),
        (
            vec![Problem { code: Some(Code::SelectMissing), ..warning() }],
            "True",
            "LoadedWithWarnings",
            "spec.x (character 5): odd [select-missing]",
        ),
        (
            vec![warning(), error()],
            "False",
            "Invalid",
            "spec.match[0].select (character 5): parsing error",
        ),
    ] {
        let got = modrule::status(&rule(problems)).to_json();
        let expected = format!(
            r#"{{"conditions":[{{"message":"{message}","observedGeneration":4,"reason":"{reason}","status":"{status}","type":"Loaded"}}],"observedGeneration":4}}"#
        );
        assert_eq!(got, expected);
    }
    let many = (0..8).map(|index| problem(Severity::Error, &format!("f{index}"), "x")).collect();
    let status = modrule::status(&rule(many)).to_json();
    assert!(status.contains("f4 (character 5): x; and 3 more\""), "{status}");
}

#[test]
fn a_condition_keeps_its_time_until_it_changes() {
    let good = modrule::status(&rule(vec![]));
    let bad = modrule::status(&rule(vec![problem(Severity::Error, "", "x")]));
    let (first, since) = modrule::timed(&good, None, "t1");
    assert!(first.to_json().contains(r#""lastTransitionTime":"t1""#));
    let (again, _) = modrule::timed(&good, since.as_ref(), "t2");
    assert_eq!(again, first);
    let (changed, _) = modrule::timed(&bad, since.as_ref(), "t2");
    assert!(changed.to_json().contains(r#""lastTransitionTime":"t2""#));
    // What the cluster has reads back as what was written.
    let stored: Value = [("status", first)].into_iter().collect();
    assert_eq!(modrule::stored(&stored), (good, since));
}

#[test]
fn times_of_providers() {
    let report = |active: bool| -> Value {
        let text = format!(
            "{{apiVersion: a, kind: b, metadata: {{labels: {{}}, name: n, namespace: ns, \
             ownerReferences: []}}, status: {{active: {active}, errors: [{{message: x}}]}}}}"
        );
        yaml::value(&text).expect("YAML")
    };
    let (first, since) = pod::with_times(report(false), None, "t1");
    assert_eq!(pod::without_times(first), (report(false), since.clone()));
    let (again, _) = pod::with_times(report(false), since.as_ref(), "t2");
    let text = again.to_json();
    assert!(text.contains(r#""lastTransitionTime":"t1""#), "{text}");
    assert!(text.contains(r#""lastCacheUpdateTime":"t2""#), "{text}");
    assert!(text.contains(r#""errorTimestamp":"t2""#), "{text}");
    let (changed, _) = pod::with_times(report(true), since.as_ref(), "t3");
    assert!(changed.to_json().contains(r#""lastTransitionTime":"t3""#));
    assert_eq!(Subject::Provider.uid_member(), "providerUID");
}
