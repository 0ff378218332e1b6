//! The constraint framework: the public library's suites, and what the acceptance scenarios
//! (`conformance/validation.json`) leave open.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use modgate_api::constraints::EnforcementPoint;
use modgate_engine::constraint::{
    Admission, Arena, CompiledConstraint, CompiledTemplate, ConstraintOptions, Evaluation,
    Externals, Inventory, TemplateOptions, TemplateProblem, Violation, review,
};
use modgate_engine::matching::Source;
use modgate_engine::{Code, Decision, cost::Meter};
use modgate_rego::builtins::Isolated;
use modgate_value::{Budget, Limits, Value, regex::GoRegex, yaml};

// The library.

/// The folder of upstream's corpora, if it is here.
fn corpora() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = env::var_os("MODGATE_CONFORMANCE")
        .map_or_else(|| root.join("../shared/conformance"), PathBuf::from);
    if dir.join("gatekeeper-library").is_dir() {
        return Some(dir);
    }
    assert!(
        env::var_os("CI").is_none() || !root.join("../shared").is_dir(),
        "the library is missing from {}",
        dir.display()
    );
    None
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    suites: usize,
    /// How many of them had a template in CEL.
    in_cel: usize,
    tests: usize,
    cases: usize,
    assertions: usize,
}

/// The 16 templates with two sources by either, the others by their Rego.
#[test]
fn suites_of_the_library() {
    let Some(dir) = corpora() else {
        println!("skipped: the public library is not here; set MODGATE_CONFORMANCE");
        return;
    };
    for cel in [true, false] {
        run_suites(&dir, &TemplateOptions { cel, ..TemplateOptions::default() });
    }
}

fn run_suites(dir: &Path, options: &TemplateOptions) {
    let mut counts = Counts::default();
    let mut failures = Vec::new();
    for group in ["library/general", "library/pod-security-policy"] {
        let group = dir.join("gatekeeper-library").join(group);
        for entry in fs::read_dir(&group).expect("a folder") {
            let path = entry.expect("an entry").path().join("suite.yaml");
            if path.is_file() {
                counts.suites += 1;
                run_suite(&path, options, &mut counts, &mut failures);
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let in_cel = if options.cel { 16 } else { 0 };
    assert_eq!(
        counts,
        Counts { suites: 49, in_cel, tests: 75, cases: 270, assertions: 299 },
        "{options:?}"
    );
}

fn run_suite(
    path: &Path,
    options: &TemplateOptions,
    counts: &mut Counts,
    failures: &mut Vec<String>,
) {
    let folder = path.parent().expect("a folder");
    let suite = document(path);
    let mut in_cel = false;
    for test in list(&suite, "tests") {
        counts.tests += 1;
        let template = template_with(&document(&folder.join(text(test, "template"))), options);
        // This template of the library has a format with six verbs and five values.
        let is_known = |problem: &&TemplateProblem| {
            template.name() == "k8shorizontalpodautoscaler"
                && problem.code == Some(Code::FormatArguments)
        };
        let problems: Vec<_> = template.problems().iter().filter(|it| !is_known(it)).collect();
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
        in_cel |= template.driver().engine() == "K8sNativeValidation";
        let constraint = constraint(&template, &document(&folder.join(text(test, "constraint"))));
        for case in list(test, "cases") {
            counts.cases += 1;
            let mut inventory = Inventory::default();
            for file in list(case, "inventory") {
                let path = folder.join(file.as_str().expect("a file"));
                for document in yaml::load(&read(&path)).expect("YAML") {
                    inventory.insert(document.value).expect("an object");
                }
            }
            let object = document(&folder.join(text(case, "object")));
            let admission = if text(&object, "kind") == "AdmissionReview" {
                Admission::of_request(object.get("request").expect("a request"), None)
                    .expect("a review")
            } else {
                Admission::of_object(object, None)
            };
            let found = ask(&[&constraint], &admission, &inventory, EnforcementPoint::Gator);
            for assertion in list(case, "assertions") {
                counts.assertions += 1;
                if let Err(why) = check(assertion, &found) {
                    failures.push(format!(
                        "{}: {}/{}: {why}",
                        path.display(),
                        text(test, "name"),
                        text(case, "name")
                    ));
                }
            }
        }
    }
    counts.in_cel += usize::from(in_cel);
}

/// As `gator verify` does.
fn check(assertion: &Value, found: &[Violation]) -> Result<(), String> {
    let pattern = GoRegex::new(text(assertion, "message")).expect("a pattern");
    let count = found.iter().filter(|violation| pattern.is_match(&violation.message)).count();
    let holds = match assertion.get("violations") {
        None => count > 0,
        Some(Value::String(word)) if word.as_str() == "yes" => count > 0,
        Some(Value::String(word)) if word.as_str() == "no" => count == 0,
        // YAML 1.1 reads bare `yes` and `no` as booleans.
        Some(Value::Bool(expected)) => (count > 0) == *expected,
        Some(number) => number.as_i64() == i64::try_from(count).ok(),
    };
    let messages: Vec<&str> = found.iter().map(|violation| violation.message.as_str()).collect();
    if holds { Ok(()) } else { Err(format!("{} but got {messages:?}", assertion.to_json())) }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document(path: &Path) -> Value {
    yaml::value(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], |list| &list[..])
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

// Helpers of the scenarios.

fn from_yaml(text: &str) -> Value {
    yaml::value(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn template(resource: &Value) -> Arc<CompiledTemplate> {
    template_with(resource, &TemplateOptions::default())
}

fn template_with(resource: &Value, options: &TemplateOptions) -> Arc<CompiledTemplate> {
    let compiled = CompiledTemplate::compile(resource, options);
    Arc::new(compiled.unwrap_or_else(|error| panic!("{}: {error}", resource.to_json())))
}

fn constraint(template: &Arc<CompiledTemplate>, resource: &Value) -> CompiledConstraint {
    CompiledConstraint::compile(resource, template.clone(), &ConstraintOptions::default())
        .unwrap_or_else(|error| panic!("{}: {error}", resource.to_json()))
}

fn ask(
    constraints: &[&CompiledConstraint],
    admission: &Admission,
    inventory: &Inventory,
    point: EnforcementPoint,
) -> Vec<Violation> {
    let budget = Budget::unlimited();
    let evaluation = Evaluation {
        meter: Meter::default(),
        point,
        externals: Externals { inventory, host: &Isolated },
        budget: &budget,
        limits: Limits::UNLIMITED,
    };
    review(constraints.iter().copied(), admission, evaluation, &mut Arena::new())
}

/// A template of kind `Probe` with this Rego as its legacy source.
fn probe(rego: &str) -> Value {
    probe_with(&[("rego", rego.into())], None)
}

fn probe_with(target: &[(&str, Value)], schema: Option<&str>) -> Value {
    let mut resource = r#"{"apiVersion": "templates.gatekeeper.sh/v1", "kind":
        "ConstraintTemplate", "metadata": {"name": "probe"}, "spec": {"crd": {"spec": {"names":
        {"kind": "Probe"}, "validation": {"openAPIV3Schema": SCHEMA}}}, "targets": [TARGET]}}"#
        .replace("SCHEMA", schema.unwrap_or(r#"{"x-kubernetes-preserve-unknown-fields": true}"#));
    let target: Value = [("target", "admission.k8s.gatekeeper.sh".into())]
        .into_iter()
        .chain(target.iter().cloned())
        .collect();
    resource = resource.replace("TARGET", &target.to_json());
    Value::from_json(resource.as_bytes()).expect("JSON")
}

/// A constraint of kind `Probe` named `c` with this `spec`; none when empty.
fn probe_constraint(spec: &str) -> Value {
    let spec = if spec.is_empty() { String::new() } else { format!(", spec: {spec}") };
    from_yaml(&format!(
        "{{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: Probe, metadata: {{name: c}}{spec}}}"
    ))
}

fn refusal(resource: &Value) -> String {
    match CompiledTemplate::compile(resource, &TemplateOptions::default()) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A request in YAML, with the API server's envelope.
fn request(text: &str) -> Admission {
    Admission::of_request(&from_yaml(text), None).expect("a request")
}

fn answer(constraints: &[&CompiledConstraint], admission: &Admission) -> Decision {
    let point = EnforcementPoint::Webhook;
    Decision::of_violations(ask(constraints, admission, &Inventory::default(), point))
}

/// The messages a Rego policy gives for a request.
fn messages(rego: &str, spec: &str, admission: &Admission) -> Vec<String> {
    let constraint = constraint(&template(&probe(rego)), &probe_constraint(spec));
    let found = ask(&[&constraint], admission, &Inventory::default(), EnforcementPoint::Webhook);
    found.into_iter().map(|violation| violation.message).collect()
}

fn namespace(labels: &str) -> Admission {
    request(&format!(
        "{{operation: CREATE, name: foo, namespace: foo, kind: {{group: '', version: v1, kind: \
         Namespace}}, object: {{apiVersion: v1, kind: Namespace, metadata: {{name: foo, labels: \
         {labels}}}}}}}"
    ))
}

// The seed sample.

const T1: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: foosystemrequiredlabels}
spec:
  crd:
    spec:
      names: {kind: FooSystemRequiredLabels}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels: {type: array, items: {type: string}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    libs:
    - |
      package lib.helpers
      text(missing) = msg { msg := sprintf("you must provide labels: %v", [missing]) }
    rego: |
      package anything
      import data.lib.helpers
      violation[{"msg": msg, "details": {"missing_labels": missing}}] {
        provided := {l | input.review.object.metadata.labels[l]}
        missing := {l | l := input.parameters.labels[_]} - provided
        count(missing) > 0
        msg := helpers.text(missing)
      }
"#;

fn on_namespaces(name: &str, labels: &str, more: &str) -> CompiledConstraint {
    let resource = from_yaml(&format!(
        "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: FooSystemRequiredLabels\n\
         metadata: {{name: {name}}}\nspec:\n  match: {{kinds: [{{apiGroups: [''], kinds: \
         [Namespace]}}]}}\n  parameters: {{labels: {labels}}}\n{more}"
    ));
    constraint(&template(&from_yaml(T1)), &resource)
}

#[test]
fn a_constraint_that_is_scoped_to_the_audit() {
    let constraint = on_namespaces(
        "d-scoped-audit",
        "[s]",
        "  enforcementAction: scoped\n  scopedEnforcementActions: [{action: deny, \
         enforcementPoints: [{name: audit.gatekeeper.sh}]}]\n",
    );
    let ask_at = |point| ask(&[&constraint], &namespace("{a: b}"), &Inventory::default(), point);
    assert!(ask_at(EnforcementPoint::Webhook).is_empty());
    let found = ask_at(EnforcementPoint::Audit);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].action.as_str(), found[0].actions.len()), ("scoped", 1));
}

// Templates.

#[test]
fn template_checks() {
    let header = |name: &str, crd: &str, targets: &str| {
        from_yaml(&format!(
            "{{apiVersion: templates.gatekeeper.sh/v1, kind: ConstraintTemplate, metadata: {{name: \
             {name}}}, spec: {{crd: {{spec: {{names: {crd}}}}}, targets: {targets}}}}}"
        ))
    };
    let known = "{target: admission.k8s.gatekeeper.sh}";
    for (resource, expected) in [
        (header("foo", "{}", "[]"), "invalid ConstraintTemplate: must declare exactly one target"),
        (
            header("foo", "{}", &format!("[{known}]")),
            "invalid ConstraintTemplate: ConstraintTemplate \"foo\" does not specify CRD Kind",
        ),
        (
            header("bar", "{kind: Foo}", &format!("[{known}]")),
            "invalid ConstraintTemplate: the ConstraintTemplate's name \"bar\" is not equal to the \
             lowercase of CRD's Kind: \"foo\"",
        ),
        (
            header("foo", "{kind: Foo}", "[]"),
            "invalid ConstraintTemplate: must declare exactly one target",
        ),
        (
            header("foo", "{kind: Foo}", &format!("[{known}, {known}]")),
            "invalid ConstraintTemplate: must declare exactly one target",
        ),
        (
            header("foo", "{kind: Foo}", "[{rego: x}]"),
            "invalid ConstraintTemplate: target name must not be empty",
        ),
        (
            header("foo", "{kind: Foo}", "[{target: foo.bar}]"),
            "invalid ConstraintTemplate: target \"foo.bar\" not recognized, known targets \
             [admission.k8s.gatekeeper.sh]",
        ),
        (
            header(
                "foo",
                "{kind: Foo}",
                "[{target: admission.k8s.gatekeeper.sh, operations: ['*', CREATE]}]",
            ),
            "if '*' is present, must not specify other operations",
        ),
        (
            header("foo", "{kind: Foo}", &format!("[{known}]")),
            "no language driver is installed that handles this constraint template: available \
             drivers: map[K8sNativeValidation:1 Rego:2], wanted \"\"",
        ),
        (
            header(
                "foo",
                "{kind: Foo}",
                "[{target: admission.k8s.gatekeeper.sh, code: [{engine: Rego, source: {}}]}]",
            ),
            "invalid ConstraintTemplate: rego source missing required field: source",
        ),
    ] {
        assert_eq!(refusal(&resource), expected, "{}", resource.to_json());
    }
}

#[test]
fn rego_checks() {
    let invalid = "invalid ConstraintTemplate: ";
    let refs = "invalid data references: check refs failed on module {template}: errors (1):\n\
                disallowed ref ";
    let violation = |body: &str| format!("package p\nviolation[{{\"msg\": \"m\"}}] {{ {body} }}");
    for (rego, expected) in [
        (
            "package p\nviolation[{".to_owned(),
            "2 errors occurred:\ntemplate:2: rego_parse_error: unexpected eof token\n",
        ),
        (
            "package p\nother { true }".to_owned(),
            "invalid rego: invalid module: missing required rules: [violation]",
        ),
        (
            "package p\nimport rego.v1\nviolation contains {\"msg\": \"m\"} if true".to_owned(),
            "invalid import: bad import: \"rego.v1\"",
        ),
        (
            violation("true").replace("package p", "package p\nimport data.inventory"),
            "invalid import: bad import: \"data.inventory\"",
        ),
        (
            violation("true").replace("package p", "package p\nimport input.review as r"),
            "invalid import: cannot import input: \"input.review\"",
        ),
        (violation("data.foo.bar"), &format!("{refs}data.foo.bar\n")),
        // Q-1: nested references too.
        (
            violation("data.inventory.cluster[data.constraints.x]"),
            &format!("{refs}data.constraints.x\n"),
        ),
        (violation("x := [data]"), &format!("{refs}data\n")),
    ] {
        let found = refusal(&probe(&rego));
        assert!(found.starts_with(&format!("{invalid}{expected}")), "{rego}\n{found}");
    }
    for (rego, expected) in [
        (
            "package p\nviolation[{\"message\": \"x\"}] { true }",
            "1 error occurred: hooks.hooks_builtin:21: rego_type_error: undefined ref: r.msg",
        ),
        (
            "package p\nviolation[\"x\"] { true }",
            "2 errors occurred:\nhooks.hooks_builtin:20: rego_type_error: object.get: invalid argument(s)",
        ),
        ("package p\nviolation(x) = y { y := x }", "rego_type_error: "),
        (
            "package p\nviolation[{\"msg\": m}] { not m }",
            "template:2: rego_unsafe_var_error: var m is unsafe",
        ),
        (
            "package p\nviolation[{\"msg\": \"m\"}] {\n  http.send({})\n}",
            "template:3: rego_type_error: undefined function http.send",
        ),
    ] {
        let found = refusal(&probe(rego));
        assert!(
            found.starts_with("unable to compile modules: ") && found.contains(expected),
            "{rego}\n{found}"
        );
    }
    let external =
        "package p\nviolation[{\"msg\": \"m\"}] {\n  external_data({\"provider\": \"x\"})\n}";
    assert_eq!(refusal(&probe(external)), "accepted");
    let without_external = TemplateOptions { external_data: false, ..TemplateOptions::default() };
    let refused = CompiledTemplate::compile(&probe(external), &without_external).map(|_| ());
    assert_eq!(
        refused.map_err(|error| error.to_string()),
        Err("unable to compile modules: 1 error occurred: template:3: rego_type_error: undefined \
             function external_data"
            .to_owned())
    );
    let without_inventory =
        TemplateOptions { referential_rules: false, ..TemplateOptions::default() };
    let resource = probe(&violation("data.inventory.cluster"));
    assert_eq!(refusal(&resource), "accepted");
    let refused = CompiledTemplate::compile(&resource, &without_inventory).map(|_| ());
    assert_eq!(
        refused.map_err(|error| error.to_string()),
        Err(format!("{invalid}{refs}data.inventory.cluster\n")),
        "30"
    );
}

#[test]
fn libraries() {
    let with_library = |main: &str, library: &str| {
        let libs: Value = [Value::from(library)].into_iter().collect();
        probe_with(&[("rego", main.into()), ("libs", libs)], None)
    };
    let plain = "package p\nviolation[{\"msg\": \"m\"}] { true }";
    for (library, path) in [("package lib", "data.lib"), ("package foo", "data.foo")] {
        assert_eq!(
            refusal(&with_library(plain, library)),
            format!(
                "invalid ConstraintTemplate: invalid lib prefix: path {path} not found in lib \
                 prefixes"
            )
        );
    }
    let found = refusal(&with_library(plain, "package lib.x\np {"));
    assert!(
        found.starts_with(
            "invalid ConstraintTemplate: 1 error occurred: libs[\"lib_0\"]:2: rego_parse_error: "
        ),
        "{found}"
    );
    // Q-2: a library need not be imported, wherever it is used.
    let main = "package p\nviolation[{\"msg\": data.lib.x.f(data.lib.x.v)}] { true }";
    let template = template(&with_library(
        main,
        "package lib.x\nv = \"q\"\nf(x) = [x, input.parameters.text][1]",
    ));
    let constraint = constraint(&template, &probe_constraint("{parameters: {text: z}}"));
    assert_eq!(answer(&[&constraint], &namespace("{}")).reason, "[c] z");
}

#[test]
fn which_source_counts() {
    let deny = |text: &str| format!("package p\nviolation[{{\"msg\": \"{text}\"}}] {{ true }}");
    let code = |engine: &str, source: Value| -> Value {
        [("engine", Value::from(engine)), ("source", source)].into_iter().collect()
    };
    let rego = |text: &str, version: &str| -> Value {
        [("rego", Value::from(text)), ("version", version.into())].into_iter().collect()
    };
    let cel = || code("K8sNativeValidation", from_yaml("{validations: [{expression: 'false'}]}"));
    let v1 = "package p\nviolation contains {\"msg\": \"v1\"} if true";
    let message = |target: &[(&str, Value)]| {
        let constraint = constraint(&template(&probe_with(target, None)), &probe_constraint(""));
        answer(&[&constraint], &namespace("{}")).reason
    };
    let list = |items: Vec<Value>| items.into_iter().collect::<Value>();
    let both = [
        ("rego", deny("legacy").as_str().into()),
        ("code", list(vec![code("Rego", rego(&deny("code"), ""))])),
    ];
    assert_eq!(message(&both), "[c] legacy", "37");
    let dual = [("code", list(vec![cel(), code("Rego", rego(&deny("rego"), ""))]))];
    assert_eq!(message(&dual), "[c] failed expression: false", "38");
    let without_cel = TemplateOptions { cel: false, ..TemplateOptions::default() };
    let by_rego = template_with(&probe_with(&dual, None), &without_cel);
    assert_eq!(by_rego.driver().engine(), "Rego", "38, with the CEL engine off");
    let cel_only = probe_with(&[("code", list(vec![cel()]))], None);
    let refused = CompiledTemplate::compile(&cel_only, &without_cel).expect_err("TC-12");
    assert_eq!(
        refused.to_string(),
        "no language driver is installed that handles this constraint template: available \
         drivers: map[Rego:1], wanted \"\""
    );
    let unknown = probe_with(&[("code", list(vec![code("cel", Value::Null)]))], None);
    assert_eq!(
        refusal(&unknown),
        "no language driver is installed that handles this constraint template: available \
         drivers: map[K8sNativeValidation:1 Rego:2], wanted \"\"",
        "TC-1, 8"
    );
    assert_eq!(message(&[("code", list(vec![code("Rego", rego(v1, "v1"))]))]), "[c] v1", "39");
    let as_v0 = probe_with(&[("code", list(vec![code("Rego", rego(v1, "V1"))]))], None);
    assert!(refusal(&as_v0).contains("rego_parse_error"), "39");
    let imports = format!("{v1}\n").replace("package p", "package p\nimport rego.v1");
    let imports = probe_with(&[("code", list(vec![code("Rego", rego(&imports, "v1"))]))], None);
    assert_eq!(
        refusal(&imports),
        "invalid ConstraintTemplate: invalid import: bad import: \"rego.v1\""
    );
}

// Evaluation.

#[test]
fn what_policies_are_given() {
    for (number, rego, spec, expected) in [
        (
            "EV-1",
            "violation[{\"msg\": sprintf(\"%v\", [k])}] { k := [k | input[k]] }",
            "",
            vec!["[\"parameters\", \"review\"]"],
        ),
        ("EV-31", "violation[m] { m := input.parameters }", "{parameters: {a: 1}}", vec![]),
    ] {
        let found = messages(&format!("package p\n{rego}"), spec, &namespace("{}"));
        assert_eq!(found, expected, "{number}");
    }
}

#[test]
fn details_are_json() {
    let rego = "package p\nviolation[{\"msg\": \"a\"}] { true }\n\
                violation[{\"msg\": \"b\", \"details\": {\"s\": {2, 1}}}] { true }";
    let constraint = constraint(&template(&probe(rego)), &probe_constraint(""));
    let found =
        ask(&[&constraint], &namespace("{}"), &Inventory::default(), EnforcementPoint::Webhook);
    let details: Vec<String> = found.iter().map(|violation| violation.details.to_json()).collect();
    assert_eq!(details, ["{}", r#"{"s":[1,2]}"#], "EV-30");
}

#[test]
fn an_unknown_action_leads_to_nothing() {
    let template = template(&probe("package p\nviolation[{\"msg\": \"m\"}] { true }"));
    let lenient = ConstraintOptions { any_enforcement_action: true };
    for (spec, code, count) in [
        ("{enforcementAction: denny}", 200, 1),
        (
            "{enforcementAction: scoped, scopedEnforcementActions: [{action: denny, \
             enforcementPoints: [{name: '*'}]}, {action: warn, enforcementPoints: [{name: '*'}]}]}",
            299,
            1,
        ),
        ("{enforcementAction: scoped, scopedEnforcementActions: []}", 200, 0),
    ] {
        let resource = probe_constraint(spec);
        let compiled = CompiledConstraint::compile(&resource, template.clone(), &lenient);
        let constraint = compiled.expect(spec);
        let found =
            ask(&[&constraint], &namespace("{}"), &Inventory::default(), EnforcementPoint::Webhook);
        let found = Decision::of_violations(found);
        assert_eq!((found.code, found.violations.len()), (code, count), "EA-3: {spec}");
    }
}

#[test]
fn threads_share_what_is_compiled() {
    fn shared<T: Send + Sync>() {}
    shared::<CompiledTemplate>();
    shared::<CompiledConstraint>();
    shared::<Inventory>();
    shared::<Admission>();
}

#[test]
fn what_policies_see_of_a_request() {
    let namespace = from_yaml("{metadata: {name: ns, labels: {team: a}}}");
    let sent = from_yaml(
        "{uid: u, operation: UPDATE, name: p, namespace: ns, dryRun: false, subResource: '', kind: \
         {group: '', version: v1, kind: Pod}, requestKind: {group: '', version: v1, kind: Pod}, \
         resource: {group: '', version: v1, resource: pods}, userInfo: {username: me, uid: '', \
         groups: []}, object: {kind: Pod, count: 1000000}, oldObject: {kind: Pod}, x: z}",
    );
    let admission = Admission::of_request(&sent, Some(&namespace)).expect("a request");
    assert_eq!(
        admission.review().to_json(),
        r#"{"dryRun":false,"kind":{"group":"","kind":"Pod","version":"v1"},"name":"p","namespace":"ns","namespaceObject":{"metadata":{"labels":{"team":"a"},"name":"ns"}},"object":{"count":1000000,"kind":"Pod"},"oldObject":{"kind":"Pod"},"operation":"UPDATE","options":null,"requestKind":{"group":"","kind":"Pod","version":"v1"},"resource":{"group":"","resource":"pods","version":"v1"},"uid":"u","userInfo":{"username":"me"}}"#
    );
    let object = from_yaml("{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}");
    assert_eq!(
        Admission::of_object(object, None).review().to_json(),
        r#"{"kind":{"group":"apps","kind":"Deployment","version":"v1"},"name":"d","namespaceObject":{},"object":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"}},"oldObject":null,"operation":"","options":null,"resource":{"group":"","resource":"","version":""},"uid":"","userInfo":{}}"#
    );
    assert_eq!(
        Admission::of_request(&from_yaml("{operation: DELETE, name: x}"), None)
            .map(|_| ())
            .map_err(|error| error.to_string()),
        Err("admission.k8s.gatekeeper.sh: target.HandleReview failed for target \
             \"admission.k8s.gatekeeper.sh\": oldObject cannot be nil for DELETE operations\n"
            .to_owned()),
        "EV-5"
    );
}

#[test]
fn parameters_have_the_schemas_defaults() {
    let schema =
        r#"{"type": "object", "properties": {"count": {"type": "integer", "default": 3}}}"#;
    let rego = "package p\nviolation[{\"msg\": json.marshal(input.parameters)}] { true }";
    let template = template(&probe_with(&[("rego", rego.into())], Some(schema)));
    for (spec, expected) in [
        ("{parameters: {}}", r#"[c] {"count":3}"#),
        ("{parameters: {count: 4}}", r#"[c] {"count":4}"#),
        // No parent is made for a default, and without `spec` there is none at all.
        ("{match: {}}", "[c] {}"),
        ("", "[c] {}"),
    ] {
        let constraint = constraint(&template, &probe_constraint(spec));
        assert_eq!(answer(&[&constraint], &namespace("{}")).reason, expected, "49: {spec}");
    }
}

#[test]
fn a_spent_budget_is_a_violation() {
    let rego = "package p\nviolation[{\"msg\": \"m\"}] { numbers.range(1, 1000000)[_] == 0 }";
    let constraint = constraint(&template(&probe(rego)), &probe_constraint(""));
    let budget = Budget::unlimited();
    let inventory = Inventory::default();
    let evaluation = Evaluation {
        meter: Meter::default(),
        point: EnforcementPoint::Webhook,
        externals: Externals { inventory: &inventory, host: &Isolated },
        budget: &budget,
        limits: Limits { steps: 1000, ..Limits::UNLIMITED },
    };
    let found = review([&constraint], &namespace("{}"), evaluation, &mut Arena::new());
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("eval_cancel_error: "), "{}", found[0].message);
    assert!(!Decision::of_violations(found).allowed);
}

// Match blocks.

/// Whether a match block matches a request, or what stands in for the answer.
fn matching(block: &str, admission: &Admission) -> String {
    let rego = "package p\nviolation[{\"msg\": \"matched\"}] { true }";
    messages(rego, &format!("{{match: {block}}}"), admission).join("|")
}

#[test]
fn corner_cases_of_matching() {
    let pod = request(
        "{operation: CREATE, object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}}",
    );
    let connect = request("{operation: CONNECT, name: x}");
    assert_eq!(
        matching("{namespaceSelector: {matchLabels: {a: b}}}", &pod),
        "unable to match constraints: error matching the requested object: p :failed to run Match \
         criteria: namespace selector for namespace-scoped object but missing Namespace",
        "EV-21"
    );
    for (source, block, expected) in [
        (None, "{source: All}", "matched"),
        (Some(Source::Generated), "{source: Generated}", "matched"),
        (Some(Source::Generated), "{source: Original}", ""),
        (
            None,
            "{source: Original}",
            "unable to match constraints: error matching the requested object: p :failed to run \
             Match criteria: source field not specified for resource p",
        ),
    ] {
        let admission = pod.clone().with_source(source);
        assert_eq!(matching(block, &admission), expected, "MA-12: {source:?} {block}");
    }
    let unknown = probe_constraint("{match: {source: original}}");
    let any = template(&probe("package p\nviolation[{\"msg\": \"matched\"}] { true }"));
    let refused = CompiledConstraint::compile(&unknown, any, &ConstraintOptions::default());
    assert_eq!(
        refused.expect_err("MA-20").to_string(),
        "schema validation failed: [].spec.match.source: Unsupported value: \"original\": supported \
         values: \"All\", \"Generated\", \"Original\""
    );
    // Q-39: an error about the new object is final, although the old one would match.
    let moved = request(
        "{operation: UPDATE, object: {apiVersion: v1, kind: Pod, metadata: {name: p, namespace: \
         ns}}, oldObject: {apiVersion: v1, kind: Namespace, metadata: {name: p, labels: {a: b}}}}",
    );
    assert!(
        matching("{namespaceSelector: {matchLabels: {a: b}}}", &moved)
            .starts_with("unable to match constraints: error matching the requested object: p :")
    );
    let everywhere = constraint(
        &template(&probe("package p\nviolation[{\"msg\": \"m\"}] { true }")),
        &probe_constraint(""),
    );
    assert_eq!(answer(&[&everywhere], &connect).reason, "[c] m", "EV-22");
}

#[test]
fn upstreams_tables_of_matching() {
    let Some(dir) = corpora() else {
        println!("skipped: the corpora are not here; set MODGATE_CONFORMANCE");
        return;
    };
    let table = |name: &str| {
        let path = dir.join("gatekeeper/unit").join(name);
        list(&Value::from_json(read(&path).as_bytes()).expect(name), "cases").to_vec()
    };
    let template = template(&probe("package p\nviolation[{\"msg\": \"matched\"}] { true }"));
    let run = |case: &Value, object: Value, namespace: Option<&Value>, source| {
        let mut resource = probe_constraint("{}").as_object().cloned().expect("an object");
        let block = case.get("match").cloned().expect("match");
        resource.insert("spec", [("match", block)].into_iter().collect());
        let compiled = CompiledConstraint::compile(
            &resource.into(),
            template.clone(),
            &ConstraintOptions::default(),
        );
        let constraint = match compiled {
            Ok(constraint) => constraint,
            Err(error) => return error.to_string(),
        };
        let admission = Admission::of_object(object, namespace).with_source(source);
        let found = ask(&[&constraint], &admission, &Inventory::default(), EnforcementPoint::Audit);
        found.into_iter().map(|violation| violation.message).collect()
    };
    let expected = |case: &Value, want: &str, name: &str| match text(case, "error") {
        "" if case.get(want) == Some(&Value::Bool(true)) => "matched".to_owned(),
        "" => String::new(),
        // MA-20: a constraint with such a selector is refused when it is loaded.
        error if error.ends_with("is not a valid label selector operator") => {
            "invalid Constraint: [spec.labelSelector.matchExpressions[0].operator: Invalid value: \
             \"Invalid\": not a valid selector operator, \
             spec.labelSelector.matchExpressions[0].key: Invalid value: \"\": name part must be \
             non-empty, spec.labelSelector.matchExpressions[0].key: Invalid value: \"\": name part \
             must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
             an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
             for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')]"
                .to_owned()
        }
        error => format!(
            "unable to match constraints: error matching the requested object: {name} :{error}"
        ),
    };
    let cases = table("match.json");
    assert_eq!(cases.len(), 46);
    for case in &cases {
        let object = case.get("object").cloned().expect("object");
        let name = object.path(&["metadata", "name"]).and_then(Value::as_str).unwrap_or_default();
        let expected = expected(case, "wantMatch", name);
        let source = match text(case, "source") {
            "Original" => Some(Source::Original),
            "Generated" => Some(Source::Generated),
            _ => None,
        };
        let namespace = case.get("namespace").filter(|namespace| !namespace.is_null());
        assert_eq!(run(case, object, namespace, source), expected, "{}", case.to_json());
    }
    let cases = table("match-names.json");
    assert_eq!(cases.len(), 7);
    for case in &cases {
        let metadata: Value = [("name", "objectName"), ("generateName", "generateName")]
            .into_iter()
            .map(|(key, from)| (key, Value::from(text(case, from))))
            .collect();
        let object: Value =
            [("apiVersion", "v1".into()), ("kind", "Pod".into()), ("metadata", metadata)]
                .into_iter()
                .collect();
        let found = run(case, object, None, Some(Source::Original));
        assert_eq!(found, expected(case, "want", ""), "{}", case.to_json());
    }
}

#[test]
fn a_synced_namespace_stands_in_for_one_that_was_not_given() {
    let selecting = constraint(
        &template(&probe("package p\nviolation[{\"msg\": \"m\"}] { true }")),
        &probe_constraint("{match: {namespaceSelector: {matchLabels: {team: a}}}}"),
    );
    let pod = from_yaml("{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns}}");
    for (labels, expected) in [("{team: a}", 1), ("{team: b}", 0)] {
        let mut inventory = Inventory::default();
        let namespace = format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: ns, labels: {labels}}}}}"
        );
        inventory.insert(from_yaml(&namespace)).expect("a Namespace");
        let admission = Admission::of_object(pod.clone(), None);
        let found = ask(&[&selecting], &admission, &inventory, EnforcementPoint::Audit);
        assert_eq!(found.len(), expected, "MA-4: {labels}");
    }
}

#[test]
fn constraint_checks() {
    let template = template(&probe("package p\nviolation[{\"msg\": \"m\"}] { true }"));
    let refusal = |resource: &Value| {
        CompiledConstraint::compile(resource, template.clone(), &ConstraintOptions::default())
            .map(|_| ())
            .map_err(|error| (error.code(), error.to_string()))
    };
    let refused = |code: u16, text: &str| Err((code, text.to_owned()));
    for (spec, expected) in [
        ("{enforcementAction: dryrun}", Ok(())),
        (
            "{enforcementAction: denny}",
            refused(
                500,
                "unrecognized enforcementAction: \"denny\" is not within the supported list [deny \
                 dryrun warn scoped]",
            ),
        ),
        (
            "{enforcementAction: scoped}",
            refused(
                500,
                "error fetching scopedEnforcementActions: scopedEnforcementActions is required",
            ),
        ),
        ("{enforcementAction: scoped, scopedEnforcementActions: []}", Ok(())),
        (
            "{enforcementAction: scoped, scopedEnforcementActions: [{action: foo, \
             enforcementPoints: [{name: x}]}]}",
            refused(
                500,
                "unrecognized enforcement points: constraint will not be enforced for enforcement \
                 points [x], supported enforcement points are [validation.gatekeeper.sh \
                 audit.gatekeeper.sh gator.gatekeeper.sh vap.k8s.io]\nunrecognized \
                 enforcementAction: [foo] is not within the supported list [deny dryrun warn]",
            ),
        ),
        (
            "{match: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}}",
            refused(
                422,
                "invalid Constraint: spec.labelSelector.matchExpressions[0].values: Required \
                 value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
        ),
        (
            "{match: null}",
            refused(
                422,
                "schema validation failed: [].spec.match: Invalid value: \"null\": spec.match in \
                 body must be of type object: \"null\"",
            ),
        ),
    ] {
        assert_eq!(refusal(&probe_constraint(spec)), expected, "{spec}");
    }
    let header = |api_version: &str, kind: &str, metadata: &str| {
        refusal(&from_yaml(&format!(
            "{{apiVersion: {api_version}, kind: {kind}, metadata: {metadata}}}"
        )))
    };
    assert_eq!(
        header("constraints.gatekeeper.sh/v1beta1", "Probe", "{generateName: c}"),
        refused(422, "invalid Constraint: missing metadata.name")
    );
    assert_eq!(
        header("constraints.gatekeeper.sh/v1", "Probe", "{name: c}"),
        refused(
            422,
            "invalid Constraint: unsupported version \"v1\" for Constraint \"c\"; supported \
             versions: map[v1alpha1:true v1beta1:true]"
        )
    );
    assert!(header("constraints.gatekeeper.sh/v1beta1", "Other", "{name: c}").is_err());
    assert!(header("example.com/v1beta1", "Probe", "{name: c}").is_err());
}
