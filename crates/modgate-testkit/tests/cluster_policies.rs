//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies decide as a real API server decides:
//! policies, bindings, parameters and objects from a seed, each sent as a dry run.
//!
//! `MODGATE_SEED` and `MODGATE_CASES` set other seeds and numbers of policies.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]
#![allow(clippy::indexing_slicing, reason = "tests fail by panicking")]

#[path = "cluster_policies/api.rs"]
mod api;
#[path = "cluster_policies/defaults.rs"]
mod defaults;
#[path = "cluster_policies/gatekeeper.rs"]
mod gatekeeper;
#[path = "cluster_policies/generated.rs"]
mod generated;
#[path = "cluster_policies/kat.rs"]
mod kat;
#[path = "cluster_policies/kubescape.rs"]
mod kubescape;
#[path = "cluster_policies/types.rs"]
mod types;

use std::{
    collections::BTreeMap,
    env,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use modgate_engine::{
    Review,
    admissionpolicy::{
        Access, Action, Authorizer, Bindings, CompiledBinding, CompiledMutatingPolicy,
        CompiledPolicy, Denial, Mutated, ParamScope, Params, PolicyDecision, PolicyKind, PolicySet,
        Quantities, Surroundings, Types, expression_warnings,
    },
    api::{admissionregistration::ParamKind, meta::GroupVersionKind},
    constraint::vap::{self, VapOptions},
    cost::Meter,
    matching::Selector,
};
use modgate_testkit::cluster::{ASSETS, Cluster, Options};
use modgate_value::{Budget, Object, Str, Value, yaml};

use self::{
    api::{Answer, Api},
    generated::{Case, Operation},
};

/// The administrator of the test cluster may do everything. Other users may do what no policy asks about.
#[derive(Debug)]
struct Administrator(bool);

impl Authorizer for Administrator {
    fn decide(&self, _: &Action<'_>) -> Result<Access, String> {
        Ok(Access { allowed: self.0, ..Access::default() })
    }
}

/// The objects that the API server stores.
struct Fixture {
    user: Value,
    namespaces: BTreeMap<String, Value>,
    params: Vec<Value>,
}

fn text<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    value.path(path).and_then(Value::as_str).unwrap_or_default()
}

fn named(kind: &ParamKind, object: &Value) -> bool {
    text(object, &["apiVersion"]) == kind.api_version && text(object, &["kind"]) == kind.kind
}

impl Params for Fixture {
    fn scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        match kind.kind.as_str() {
            "ConfigMap" => Some(ParamScope::Namespaced),
            "ControlConfiguration" => Some(ParamScope::Cluster),
            "Namespace" => Some(ParamScope::Cluster),
            _ if kind.api_version.starts_with("constraints.gatekeeper.sh/") => {
                Some(ParamScope::Cluster)
            }
            _ => None,
        }
    }

    fn get(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        let all = self.params.iter().chain(self.namespaces.values());
        let mut all = all.filter(|object| named(kind, object));
        all.find(|object| {
            text(object, &["metadata", "namespace"]) == namespace
                && text(object, &["metadata", "name"]) == name
        })
        .cloned()
    }

    fn list(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        let all = self.params.iter().chain(self.namespaces.values());
        all.filter(|object| named(kind, object))
            .filter(|object| text(object, &["metadata", "namespace"]) == namespace)
            .filter(|object| {
                selector.matches(object.path(&["metadata", "labels"]).and_then(Value::as_object))
            })
            .cloned()
            .collect()
    }

    fn version(&self, _: &ParamKind) -> u64 {
        0
    }
}

fn with(value: &Value, path: &[&str], new: Option<Value>) -> Value {
    let mut members = value.as_object().cloned().unwrap_or_default();
    match (path, new) {
        ([], _) => {}
        ([key], Some(new)) => drop(members.insert(*key, new)),
        ([key], None) => drop(members.remove(key)),
        ([key, rest @ ..], new) => {
            let inner = members.get(key).cloned().unwrap_or_else(|| Object::default().into());
            members.insert(*key, with(&inner, rest, new));
        }
    }
    members.into()
}

/// Without what the API server writes into every object anew.
fn lasting(object: &Value) -> Value {
    ["uid", "creationTimestamp", "managedFields", "resourceVersion", "generation"]
        .iter()
        .fold(object.clone(), |object, member| with(&object, &["metadata", member], None))
}

/// The request that admission sees.
fn review(case: &Case, fixture: &Fixture, object: &Value, old: &Value) -> Review {
    let kind = case.kind;
    let (group, version) = kind.api_version.split_once('/').unwrap_or(("", kind.api_version));
    let request: Value = [
        ("uid", Value::from("1")),
        (
            "kind",
            [("group", group), ("version", version), ("kind", kind.kind)]
                .map(|(key, text)| (key, Value::from(text)))
                .into_iter()
                .collect(),
        ),
        (
            "resource",
            [("group", group), ("version", version), ("resource", kind.resource)]
                .map(|(key, text)| (key, Value::from(text)))
                .into_iter()
                .collect(),
        ),
        ("name", case.name.as_str().into()),
        // A Namespace is in itself.
        ("namespace", if kind.kind == "Namespace" { &case.name } else { case.namespace }.into()),
        ("operation", case.operation.as_str().into()),
        ("userInfo", fixture.user.clone()),
        ("object", object.clone()),
        ("oldObject", old.clone()),
        ("dryRun", true.into()),
    ]
    .into_iter()
    .collect();
    Review::from_request(&request).expect("a request")
}

/// Our decision about a case.
struct Ours {
    validated: PolicyDecision,
    mutated: Mutated,
    denials: Vec<Denial>,
}

fn decide(set: &PolicySet, case: &Case, fixture: &Fixture, object: &Value, old: &Value) -> Ours {
    let groups = fixture.user.get("groups").and_then(Value::as_array);
    let administrator = groups.is_some_and(|groups| groups.contains(&"system:masters".into()));
    let surroundings = Surroundings {
        namespace: &|| Ok(fixture.namespaces.get(case.namespace).cloned()),
        params: fixture,
        meter: Meter::default(),
        authorizer: &Administrator(administrator),
        bindings: Bindings::All,
        types: Types::kubernetes(),
        assumes_namespace: false,
        conditions_see_namespace: false,
    };
    let budget = Budget::unlimited();
    let request = review(case, fixture, object, old);
    let validated = set.validate(&request, &surroundings, &budget).expect("Namespaces are read");
    // Policies that mutate see objects that are not stored yet.
    let fresh = if case.operation == Operation::Create { lasting(object) } else { object.clone() };
    let request = review(case, fixture, &fresh, old);
    let mutated = set.mutate(&request, &surroundings, &budget).expect("Namespaces are read");
    let denials = mutated.denials.iter().chain(&validated.denials).cloned().collect();
    Ours { validated, mutated, denials }
}

/// Policies and bindings of the cases that the API server and modgate both accept. What only one
/// of them accepts is a difference.
fn install(api: &mut Api, cases: &[Case], differences: &mut Vec<String>) -> (PolicySet, usize) {
    let (mut set, mut refused) = (PolicySet::new(), 0);
    for case in cases {
        for document in &case.policies {
            let kind = text(document, &["kind"]);
            let resource = format!("{}s", kind.to_lowercase()).replace("policys", "policies");
            let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
            let answer = api.send("POST", &path, Some(document));
            let ours = match kind {
                "ValidatingAdmissionPolicy" => {
                    CompiledPolicy::compile(document).map(|policy| set.add_policy(policy))
                }
                "ValidatingAdmissionPolicyBinding" => {
                    CompiledBinding::compile(document).map(|binding| set.add_binding(binding))
                }
                "MutatingAdmissionPolicy" => CompiledMutatingPolicy::compile(document)
                    .map(|policy| set.add_mutating_policy(policy)),
                _ => CompiledBinding::compile_mutating(document)
                    .map(|binding| set.add_mutating_binding(binding)),
            };
            let error = ours.err().map(|error| error.to_string());
            refused += usize::from(error.is_some());
            if (answer.code == 201) != error.is_none() {
                differences.push(format!(
                    "{}: {} {}, {error:?}\n{document}",
                    case.id,
                    answer.code,
                    text(&answer.body, &["message"])
                ));
            }
        }
    }
    (set, refused)
}

/// The differences between the answer and our decision.
fn differences(case: &Case, answer: &Answer, ours: &Ours) -> Vec<String> {
    let mut found = Vec::new();
    let kind = case.kind;
    let denied = answer.code >= 400;
    if denied == ours.denials.is_empty() {
        found.push(format!(
            "answer {} {}, ours {:?}",
            answer.code,
            text(&answer.body, &["message"]),
            ours.denials
        ));
        return found;
    }
    if denied {
        let (group, _) = kind.api_version.split_once('/').unwrap_or_default();
        let dot = if group.is_empty() { "" } else { "." };
        let prefix = format!("{}{dot}{group} {:?} is forbidden: ", kind.resource, case.name);
        let theirs = (
            answer.code,
            text(&answer.body, &["reason"]).to_owned(),
            text(&answer.body, &["message"]).to_owned(),
        );
        let possible = ours.denials.iter().map(|denial| {
            let prefix = if denial.kind == PolicyKind::Validating { prefix.as_str() } else { "" };
            (denial.code(), denial.reason.to_string(), format!("{prefix}{denial}"))
        });
        let possible: Vec<_> = possible.collect();
        if !possible.contains(&theirs) {
            found.push(format!("answer {theirs:?}, ours {possible:?}"));
        }
    }
    let mut warnings = ours.validated.warnings.clone();
    warnings.sort();
    // Where a mutation denies, nothing is validated.
    let validated = ours.mutated.denials.is_empty();
    if validated && answer.warnings != warnings {
        found.push(format!("warnings {:?}, ours {warnings:?}", answer.warnings));
    }
    if validated && answer.annotations != ours.validated.audit_annotations {
        found.push(format!(
            "annotations {:?}, ours {:?}",
            answer.annotations, ours.validated.audit_annotations
        ));
    }
    found
}

/// The differences between the object that the API server would store and ours, with the defaults
/// that the API server gives it.
fn other_object(api: &mut Api, case: &Case, answer: &Answer, made: &Value) -> Option<String> {
    let labels = ["metadata", "labels", generated::LABEL];
    // Without its label the object meets no policy.
    let unmatched = with(&lasting(made), &labels, None);
    let filled = api.send("POST", &case.path(), Some(&unmatched));
    let theirs = lasting(&answer.body);
    let ours = with(&lasting(&filled.body), &labels, theirs.path(&labels).cloned());
    if filled.code == 201 && ours == theirs {
        return None;
    }
    Some(format!("object {theirs}, ours {} {ours}", filled.code))
}

/// A cluster that writes an audit log into a folder.
fn audited(folder: &Path) -> Option<(Cluster, Api)> {
    let (rules, log) = (folder.join("rules"), folder.join("log"));
    let levels = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                  rules: [{level: Metadata}]\n";
    std::fs::write(&rules, levels).expect("a file");
    let flags = [("policy-file", &rules), ("log-path", &log)];
    let flags = flags.map(|(name, path)| format!("--audit-{name}={}", path.display()));
    let options = Options { flags: flags.into() };
    let cluster = Cluster::start(&options).expect("a cluster")?;
    let api = Api::start(&cluster, &log);
    Some((cluster, api))
}

#[test]
fn policies_decide_as_the_api_server_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_cluster, mut api)) = audited(folder.path()) else { return };
    let number = |name: &str, default: u64| {
        env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seed, count) = (number("MODGATE_SEED", 1), number("MODGATE_CASES", 400));
    let cases = generated::cases(seed, count);

    let fixture = prepare(&mut api);
    let mut objects = Vec::new();
    for case in &cases {
        objects.push(case.before(&mut api));
    }
    let mut wrong = Vec::new();
    let (set, refused) = install(&mut api, &cases, &mut wrong);
    until_in_force(&mut api);
    let (mut denied, mut warned, mut annotated, mut mutated, mut invalid) = (0, 0, 0, 0, 0);
    for (case, (object, old)) in cases.iter().zip(&objects) {
        let answer = case.send(&mut api, object);
        let ours = decide(&set, case, &fixture, object, old);
        // A mutation may create an object that the API server does not store.
        if answer.code == 422 && ours.denials.is_empty() && case.operation != Operation::Delete {
            let made = ours.mutated.object.as_ref().unwrap_or(object);
            let unmatched = with(&lasting(made), &["metadata", "labels", generated::LABEL], None);
            if api.send("POST", &case.path(), Some(&unmatched)).body.get("message")
                == answer.body.get("message")
            {
                invalid += 1;
                continue;
            }
        }
        let mut found = differences(case, &answer, &ours);
        denied += usize::from(answer.code >= 400);
        warned += usize::from(!answer.warnings.is_empty());
        annotated += usize::from(!answer.annotations.is_empty());
        if answer.code < 400 && case.operation == Operation::Create {
            let made = ours.mutated.object.as_ref().unwrap_or(object);
            mutated += usize::from(ours.mutated.object.is_some());
            found.extend(other_object(&mut api, case, &answer, made));
        }
        for difference in found {
            let policies: Vec<_> = case.policies.iter().map(Value::to_json).collect();
            wrong.push(format!("{}: {difference}\n  {}", case.id, policies.join("\n  ")));
        }
    }
    println!(
        "{} requests from seed {seed}: {denied} denied, {warned} with warnings, {annotated} with \
         annotations, {mutated} mutated; {invalid} made invalid; {refused} policies refused by both",
        cases.len()
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    let least = cases.len() / 40;
    for (what, count) in
        [("denied", denied), ("warned", warned), ("annotated", annotated), ("mutated", mutated)]
    {
        assert!(count >= least, "only {count} of {} {what}", cases.len());
    }
}

/// Every object of kubescape's suite (`MODGATE_SUITES`), with its binding and its parameters, sent as a
/// dry run.
#[test]
fn the_suite_of_kubescape_is_decided_as_by_the_api_server() {
    let Some(folder) = kubescape::folder() else { return };
    let Some(cluster) = Cluster::start(&Options::default()).expect("a cluster") else { return };
    let mut api = Api::start(&cluster, Path::new(""));
    let mut fixture = prepare(&mut api);
    let cases = kubescape::cases(&folder);
    kubescape::prepare(&mut api, &folder, &mut fixture);
    let objects: Vec<_> = cases
        .iter()
        .map(|case| {
            let answer = api.send("POST", &case.path(), Some(&case.object));
            (answer.code == 201).then_some(answer.body)
        })
        .collect();
    let mut wrong = Vec::new();
    let (set, _) = install(&mut api, &cases, &mut wrong);
    until_in_force(&mut api);
    let (mut sent, mut denied, mut warned) = (0, 0, 0);
    for (case, object) in cases.iter().zip(&objects) {
        // Some objects of the suite lack what the API server requires.
        let Some(object) = object else { continue };
        // As it is written: what the API server generates for it is not valid a second time.
        let mut answer = api.send("POST", &case.path(), Some(&case.object));
        // The API server also warns of unknown and deprecated fields.
        answer.warnings.retain(|it| it.starts_with("Validation failed for "));
        let ours = decide(&set, case, &fixture, object, &Value::Null);
        sent += 1;
        denied += usize::from(answer.code >= 400);
        warned += usize::from(!answer.warnings.is_empty());
        let found = differences(case, &answer, &ours);
        wrong.extend(found.into_iter().map(|difference| format!("{}: {difference}", case.id)));
    }
    println!("{sent} of {} objects sent: {denied} denied, {warned} warned", cases.len());
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent > 500 && denied > 200 && warned > 0, "{sent} sent, {denied} denied");
}

/// Every test of kat's suites (`MODGATE_SUITES`), with its binding, parameters, Namespace and user, sent as a
/// dry run.
#[test]
fn suites_of_kat_are_decided_as_by_the_api_server() {
    let Some(suites) = kat::folder() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_cluster, mut api)) = audited(folder.path()) else { return };
    let mut fixture = prepare(&mut api);
    let (tests, left_out) = kat::cases(&suites);
    let objects: Vec<_> = tests
        .iter()
        .map(|test| {
            test.prepare(&mut api, &mut fixture);
            test.before(&mut api)
        })
        .collect();
    let cases: Vec<Case> = tests.iter().map(|test| test.case.clone()).collect();
    let mut wrong = Vec::new();
    let unstored: Vec<Case> = tests.iter().map(|test| test.unstored.clone()).collect();
    let (_, refused) = install(&mut api, &unstored, &mut wrong);
    let (set, _) = install(&mut api, &cases, &mut wrong);
    until_in_force(&mut api);
    let (mut sent, mut denied, mut warned, mut annotated, mut mutated) = (0, 0, 0, 0, 0);
    for (test, object) in tests.iter().zip(&objects) {
        let Some((object, old)) = object else { continue };
        let case = &test.case;
        fixture.user = test.act(&mut api);
        let mut answer = case.send(&mut api, object);
        api.user = Value::Null;
        answer.warnings.retain(|it| it.starts_with("Validation failed for "));
        let ours = decide(&set, case, &fixture, object, old);
        let mut found = differences(case, &answer, &ours);
        sent += 1;
        denied += usize::from(answer.code >= 400);
        warned += usize::from(!answer.warnings.is_empty());
        annotated += usize::from(!answer.annotations.is_empty());
        if answer.code < 400 && case.operation == Operation::Create {
            let made = ours.mutated.object.as_ref().unwrap_or(object);
            mutated += usize::from(ours.mutated.object.is_some());
            found.extend(other_object(&mut api, case, &answer, made));
        }
        wrong.extend(found.into_iter().map(|difference| format!("{}: {difference}", case.id)));
    }
    println!(
        "{sent} of {} requests of kat sent: {denied} denied, {warned} with warnings, {annotated} with \
         annotations, {mutated} mutated; {refused} policies and bindings are refused by both as they are written; \
         {left_out} connect",
        tests.len() + left_out
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    let enough = sent > 40 && denied > 10 && mutated > 2 && annotated > 0;
    assert!(enough, "{sent}, {denied}, {mutated}, {annotated}");
}

/// The policies of `gatekeeper/vap.json` decide about objects as the API server: samples of the library
/// (`MODGATE_CONFORMANCE`) for its templates, and probes for the others.
#[test]
fn policies_of_gatekeeper_decide_as_by_the_api_server() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/gatekeeper/vap.json");
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_cluster, mut api)) = audited(folder.path()) else { return };
    let (families, absent) = gatekeeper::families(&file);
    gatekeeper::define(&mut api, &families);
    let mut fixture = prepare(&mut api);
    gatekeeper::prepare(&mut api, &families, &mut fixture);
    let cases: Vec<Case> =
        families.iter().flat_map(|family| family.cases.iter().cloned()).collect();
    let objects: Vec<_> = cases
        .iter()
        .map(|case| {
            let answer = api.send("POST", &case.path(), Some(&case.object));
            (answer.code == 201).then_some(answer.body)
        })
        .collect();
    let mut wrong = Vec::new();
    let (set, refused) = install(&mut api, &cases, &mut wrong);
    until_in_force(&mut api);
    let (mut sent, mut denied, mut warned) = (0, 0, 0);
    for (case, object) in cases.iter().zip(&objects) {
        // Some samples are of kinds, or have values, that the API server does not store.
        let Some(object) = object else { continue };
        let mut answer = until_synced(&mut api, case);
        answer.warnings.retain(|it| it.starts_with("Validation failed for "));
        let ours = decide(&set, case, &fixture, object, &Value::Null);
        sent += 1;
        denied += usize::from(answer.code >= 400);
        warned += usize::from(!answer.warnings.is_empty());
        let found = differences(case, &answer, &ours);
        wrong.extend(found.into_iter().map(|difference| format!("{}: {difference}", case.id)));
    }
    println!(
        "{sent} of {} objects sent for {} templates of Gatekeeper: {denied} denied, {warned} with warnings; \
         {refused} policies refused by both; {absent} templates not at hand",
        cases.len(),
        families.len()
    );
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(sent > 100 && denied > 50 && warned > 0, "{sent}, {denied}, {warned}");
}

/// The answer to a request once the API server has listed the parameters.
fn until_synced(api: &mut Api, case: &Case) -> Answer {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = api.send("POST", &case.path(), Some(&case.object));
        if !text(&answer.body, &["message"]).contains("not yet synced") {
            return answer;
        }
        assert!(Instant::now() < deadline, "{}", answer.body);
        thread::sleep(Duration::from_millis(100));
    }
}

/// Both accept the same of the policies and bindings that are generated for `gatekeeper/vap.json`.
#[test]
fn policies_of_gatekeeper_are_accepted_as_by_the_api_server() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/gatekeeper/vap.json");
    let Some(cluster) = Cluster::shared() else { return };
    let mut api = Api::start(cluster, Path::new(""));
    let cases = std::fs::read(&file).expect("the corpus");
    let cases = Value::from_json(&cases).expect("JSON");
    let cases = cases.get("cases").and_then(Value::as_array).expect("cases").clone();
    let (mut sent, mut refused) = (0, 0);
    let options = VapOptions::default();
    for case in cases.iter() {
        let Some(template) = case.get("template") else { continue };
        let mut documents = Vec::new();
        documents.extend(vap::policy(template, &options).ok().map(|policy| policy.object));
        for binding in case.get("bindings").and_then(Value::as_array).into_iter().flatten() {
            let actions = binding.get("actions").and_then(Value::as_array).into_iter().flatten();
            let actions: Vec<Str> = actions.filter_map(Value::as_str).map(Str::from).collect();
            let constraint = binding.get("constraint").cloned().unwrap_or_default();
            documents.extend(vap::binding(&constraint, &actions, &options).ok());
        }
        for document in documents {
            let kind = text(&document, &["kind"]);
            let ours = match kind {
                "ValidatingAdmissionPolicy" => CompiledPolicy::compile(&document).err(),
                _ => CompiledBinding::compile(&document).err(),
            };
            let resource = format!("{}s", kind.to_lowercase()).replace("policys", "policies");
            let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}?dryRun=All");
            let answer = api.send("POST", &path, Some(&document));
            sent += 1;
            refused += usize::from(ours.is_some());
            assert_eq!(answer.code == 201, ours.is_none(), "{} {ours:?} {document}", answer.body);
        }
    }
    println!("{sent} policies and bindings of Gatekeeper, {refused} refused by both");
    assert!(sent > 10, "{sent}");
}

/// The table of types is what the API server publishes. `MODGATE_RECORD=1` writes it anew.
#[test]
fn types_are_those_of_the_api_server() {
    let Some(cluster) = Cluster::shared() else { return };
    if env::var_os(ASSETS).is_some() {
        println!("skipped: the table is that of the version in tests/cluster");
        return;
    }
    let mut api = Api::start(cluster, Path::new(""));
    let found = types::table(&mut api);
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../modgate-engine/src/admissionpolicy/types/builtin.txt");
    if env::var_os("MODGATE_RECORD").is_some() {
        std::fs::write(&file, &found).expect("the table");
    }
    let known = std::fs::read_to_string(&file).expect("the table");
    let differ = found.lines().zip(known.lines()).find(|(found, known)| found != known);
    assert_eq!(differ, None);
    assert_eq!(found.lines().count(), known.lines().count());
}

/// Policies have the warnings that a controller of Kubernetes writes into `status.typeChecking`.
#[test]
fn type_checking_is_that_of_the_api_server() {
    let Some(cluster) = Cluster::shared() else { return };
    if !cluster.has_controllers() {
        println!("skipped: no controller checks types");
        return;
    }
    let mut api = Api::start(cluster, Path::new(""));
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let documents = include_str!("cluster_policies/typecheck.yaml").split("\n---\n");
    let policies: Vec<_> = documents
        .map(|text| yaml::value(text).unwrap_or_else(|error| panic!("{error}: {text}")))
        .collect();
    for policy in &policies {
        let answer = api.send("POST", path, Some(policy));
        assert_eq!(answer.code, 201, "{}", answer.body);
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for policy in &policies {
        let name = text(policy, &["metadata", "name"]);
        let deadline = Instant::now() + Duration::from_secs(120);
        let stored = loop {
            let stored = api.send("GET", &format!("{path}/{name}"), None).body;
            if stored.path(&["status", "observedGeneration"]).is_some() {
                break stored;
            }
            assert!(Instant::now() < deadline, "{name} is not checked: {stored}");
            thread::sleep(Duration::from_millis(200));
        };
        let found = stored.path(&["status", "typeChecking", "expressionWarnings"]);
        let theirs: Vec<(String, String)> = found
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|it| (text(it, &["fieldRef"]).to_owned(), without_numbers(text(it, &["warning"]))))
            .collect();
        let ours = expression_warnings(policy, Types::kubernetes(), Quantities::Undefined);
        let ours: Vec<_> =
            ours.iter().map(|it| (it.field.clone(), without_numbers(&it.text()))).collect();
        count += theirs.len();
        if theirs != ours {
            let other = theirs.iter().zip(&ours).find(|(theirs, ours)| theirs != ours);
            wrong.push(format!("{name}: {} and {}: {other:?}", theirs.len(), ours.len()));
        }
        api.send("DELETE", &format!("{path}/{name}"), None);
    }
    println!("{} policies, {count} warnings", policies.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 30, "{count}");
}

/// The API server puts the time into the names of types: `Pod870756749.spec`.
fn without_numbers(warning: &str) -> String {
    let mut kept = String::new();
    let mut letters = false;
    let mut chars = warning.chars().peekable();
    while let Some(c) = chars.next() {
        if letters && c.is_ascii_digit() {
            let mut digits = c.to_string();
            while let Some(digit) = chars.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            if digits.len() < 4 {
                kept.push_str(&digits);
            }
            letters = false;
            continue;
        }
        letters = c.is_ascii_alphabetic();
        kept.push(c);
    }
    kept
}

/// Objects of Kubernetes' own kinds, and custom resources, get the defaults that admission sees.
#[test]
fn defaults_are_those_of_the_api_server() {
    let Some(cluster) = Cluster::start(&Options::default()).expect("a cluster") else { return };
    if env::var_os(ASSETS).is_some() {
        println!("skipped: the table is that of the version in tests/cluster");
        return;
    }
    let mut api = Api::start(&cluster, Path::new(""));
    let account =
        r#"{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}"#;
    let account = Value::from_json(account.as_bytes()).expect("JSON");
    api.send("POST", "/api/v1/namespaces/default/serviceaccounts", Some(&account));
    let mut types = Types::kubernetes().clone();
    types.define(&defaults::define(&mut api));
    let webhook = defaults::Webhook::start();
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(api.send("POST", path, Some(&webhook.configuration)).code, 201);
    let deadline = Instant::now() + Duration::from_secs(60);
    let first = defaults::objects().swap_remove(0);
    while webhook.take().is_none() {
        assert!(Instant::now() < deadline, "the webhook receives nothing");
        let pods = "/api/v1/namespaces/default/pods?dryRun=All";
        assert_eq!(api.send("POST", pods, Some(&first)).code, 201);
    }
    let (mut wrong, mut count) = (Vec::new(), 0);
    for object in defaults::objects() {
        let kind = GroupVersionKind::of_object(&object);
        let group = if kind.group.is_empty() { "api" } else { "apis" };
        let namespace = if kind.is_cluster_scoped() { "" } else { "namespaces/default/" };
        let path = format!(
            "/{group}/{}/{namespace}{}?dryRun=All&fieldValidation=Ignore",
            kind.api_version(),
            kind.plural()
        );
        let answer = api.send("POST", &path, Some(&object));
        let name = format!("{} {}", kind.kind, text(&object, &["metadata", "name"]));
        if answer.code != 201 {
            wrong.push(format!("{name}: {}", answer.body));
            continue;
        }
        let seen = webhook.take().unwrap_or_else(|| panic!("{name} was not reviewed"));
        let ours = types.as_stored(&object).unwrap_or_default();
        let mut found = Vec::new();
        let (theirs, ours) = (defaults::comparable(&seen), defaults::comparable(&ours));
        defaults::differences(&theirs, &ours, "", &mut found);
        wrong.extend(found.into_iter().map(|difference| format!("{name}: {difference}")));
        count += 1;
    }
    println!("{count} objects");
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn prepare(api: &mut Api) -> Fixture {
    let review = "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}";
    let review = Value::from_json(review.as_bytes()).expect("JSON");
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let user = api.send("POST", path, Some(&review)).body;
    let user = user.path(&["status", "userInfo"]).cloned().expect("a user");
    let mut namespaces = BTreeMap::new();
    for document in generated::namespaces() {
        let made = api.send("POST", "/api/v1/namespaces", Some(&document)).body;
        namespaces.insert(text(&made, &["metadata", "name"]).to_owned(), made);
    }
    let mut params = Vec::new();
    for document in generated::params() {
        let namespace = text(&document, &["metadata", "namespace"]);
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        params.push(api.send("POST", &path, Some(&document)).body);
    }
    Fixture { user, namespaces, params }
}

/// Waits until policies of both kinds that came last are in force.
fn until_in_force(api: &mut Api) {
    for document in generated::sentinels() {
        let kind = text(&document, &["kind"]);
        let resource = format!("{}s", kind.to_lowercase()).replace("policys", "policies");
        let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
        assert_eq!(api.send("POST", &path, Some(&document)).code, 201, "{document}");
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let path = "/api/v1/namespaces/diff-a/configmaps?dryRun=All";
    loop {
        let answer = api.send("POST", path, Some(&generated::sentinel()));
        if answer.code >= 400 && answer.body.to_json().contains("mutated first") {
            break;
        }
        assert!(Instant::now() < deadline, "{}", answer.body);
        thread::sleep(Duration::from_millis(200));
    }
    // Parameters of other kinds are listed when the first policy asks for them.
    thread::sleep(Duration::from_secs(3));
}
