//! Where the original's answer was missed before: v1 read as v0, null members, the Namespace of `default`,
//! policies that `test` leaves out, an update that does not compile, and the two readings of a path.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

use modgate_testkit::steps::eventually;
use modgate_value::Value;

use crate::{
    program::{errors, modgate, out},
    served,
};

fn template(source: &str) -> String {
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: rule}}\nspec:\n  \
         crd: {{spec: {{names: {{kind: Rule}}}}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n{source}"
    )
}

fn rego(lines: &[&str]) -> String {
    let lines: Vec<String> = lines.iter().map(|line| format!("      {line}\n")).collect();
    template(&format!("    rego: |\n      package rule\n{}", lines.concat()))
}

const RULE: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Rule\nmetadata: {name: c}\n\
                    spec: {match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}}\n";
const POD: &str =
    "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: x}\nspec: {containers: []}\n";
const MUTATOR: &str = "apiVersion: mutations.gatekeeper.sh/v1\nkind: AssignMetadata\nmetadata: {name: mm}\n\
                       spec: {location: metadata.labels.a, parameters: {assign: {value: b}}}\n";

/// `gator test` of one file: exit code and everything printed.
fn gator(documents: &[&str]) -> (Option<i32>, String) {
    gator_of("test", documents)
}

fn gator_of(verb: &str, documents: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("gator");
    symlink(env!("CARGO_BIN_EXE_modgate"), &program).expect("a link");
    fs::write(folder.path().join("in.yaml"), documents.join("---\n")).expect("written");
    let mut command = Command::new(&program);
    command
        .args([verb, if verb == "expand" { "-n" } else { "-f" }, "in.yaml"])
        .current_dir(folder.path());
    let output = command.env_remove("KUBERNETES_SERVICE_HOST").output().expect("gator");
    (output.status.code(), out(&output) + &errors(&output))
}

fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    folder
}

/// `experience` F13: the first error and the number of errors are those of OPA 1.17.1. The corpus
/// `languages/rego-syntax.json.gz` has 4,000 modules more.
#[test]
fn gator_says_of_v1_in_v0_what_opa_says() {
    let cut = "unexpected : token: expected \\n or ; or }";
    let var = "var cannot be used for rule name";
    let hint = "unexpected identifier token: expected \\n or ; or } (hint: `import future.keywords.in` for \
                `some x in xs` expressions)";
    for (lines, expected) in [
        (&["violation contains {\"msg\": msg} if {", "  msg := \"x\"", "}"][..], &[(2, cut)][..]),
        (&["violation contains {", "  \"msg\": \"x\",", "} if { true }"], &[(3, cut)]),
        (&["violation contains msg if {", "  msg := {\"msg\": \"x\"}", "}"], &[(2, var); 3]),
        (&["violation contains msg if {", "  some c in input.xs", "  msg := c", "}"], &[(3, hint)]),
        (
            &["is_big if input.n > 1"],
            &[(2, var), (2, var), (2, "rule name conflicts with built-in function")],
        ),
        (&["a contains \"x\""], &[(2, var), (2, var), (2, "string cannot be used for rule name")]),
        (&["p { input.x }", "q if {", "  input.y", "}"], &[(3, var)]),
    ] {
        let (code, shown) = gator(&[&rego(lines)]);
        let count = shown.matches("rego_parse_error: ").count();
        assert_eq!(count, expected.len(), "{lines:?}: {shown}");
        assert_eq!(code, Some(i32::from(count > 0)), "{lines:?}: {shown}");
        let number = if count == 1 { "1 error".to_owned() } else { format!("{count} errors") };
        assert_eq!(shown.contains(&format!("{number} occurred")), count > 0, "{lines:?}: {shown}");
        let mut rest = shown.as_str();
        for (line, message) in expected {
            let told = format!("template:{line}: rego_parse_error: {message}");
            let at = rest.find(&told).unwrap_or_else(|| panic!("{told}: {shown}"));
            rest = &rest[at + told.len()..];
        }
    }
}

/// `experience` F2: every policy of the input that has no effect in `test` is named.
#[test]
fn test_names_the_policies_that_it_leaves_out() {
    let always = rego(&["violation[{\"msg\": \"hit\"}] { false }"]);
    let config = |spec: &str| {
        format!(
            "apiVersion: config.gatekeeper.sh/v1alpha1\nkind: Config\nmetadata: {{name: config, namespace: \
             gatekeeper-system}}\nspec: {spec}\n"
        )
    };
    let exempting = config("{match: [{excludedNamespaces: [kube-system], processes: ['*']}]}");
    let syncing = config("{sync: {syncOnly: [{group: '', version: v1, kind: Pod}]}}");
    let set = "apiVersion: syncset.gatekeeper.sh/v1alpha1\nkind: SyncSet\nmetadata: {name: s}\n\
               spec: {gvks: [{group: '', version: v1, kind: Pod}]}\n";
    let provider = format!(
        "apiVersion: externaldata.gatekeeper.sh/v1beta1\nkind: Provider\nmetadata: {{name: pp}}\nspec: {{url: \
         'https://p.example', timeout: 1, caBundle: {}}}\n",
        include_str!("../../../modgate-migrate/tests/fixtures/ca.txt").trim()
    );
    let expansion = "apiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\nmetadata: {name: t}\n\
                     spec: {applyTo: [{groups: [apps], versions: [v1], kinds: [Deployment]}], templateSource: \
                     spec.template, generatedGVK: {group: '', version: v1, kind: Pod}}\n";
    let mutators = format!("{MUTATOR}---\n{}", MUTATOR.replace("mm", "nn"));
    let generated = format!("{MUTATOR}---\n{expansion}");
    for (policy, told, is_warning) in [
        (MUTATOR, "warning[nothing-found]: 1 mutator was not evaluated: `test` ", true),
        (&mutators, "warning[nothing-found]: 2 mutators were not evaluated: `test` ", true),
        (&exempting, "warning[nothing-found]: 1 Config was not evaluated: `test` ", true),
        (&generated, "note: `test` applies mutators only to the objects that ", false),
        (&syncing, "note: `test` puts every object of the input into `data.inventory`", false),
        (set, "note: `test` puts every object of the input into `data.inventory`", false),
        (&provider, "note: `test` calls no Provider, so policies that need one fail", false),
    ] {
        let all = [always.as_str(), RULE, policy, POD].join("---\n");
        let folder = written(&[("in.yaml", &all)]);
        let output = modgate(folder.path(), &["test", "-f", "in.yaml"]);
        assert!(errors(&output).contains(told), "{told}: {}", errors(&output));
        assert_eq!(output.status.code(), Some(0), "{told}: {}", errors(&output));
        let strict = modgate(folder.path(), &["test", "--strict", "-f", "in.yaml"]);
        let code = if is_warning { 2 } else { 0 };
        assert_eq!(strict.status.code(), Some(code), "{told}: {}", errors(&strict));
        assert!(!gator(&[&all]).1.contains("`test`"), "gator says nothing of it");
    }
}

/// `matching` M5: Go decodes null as the zero value of every type.
#[test]
fn null_in_a_policy_is_as_good_as_absent() {
    let source = "    rego: |\n      package rule\n      violation[{\"msg\": \"hit\"}] { true }\n    libs: null\n    \
                  code: null\n    operations: null\n";
    let template = template(source).replace(
        "{spec: {names: {kind: Rule}}}",
        "{spec: {names: {kind: Rule, shortNames: null}, validation: null}}",
    );
    let template = template.replace("{name: rule}", "{name: rule, labels: null, generation: null}");
    let (code, shown) = gator(&[&template, RULE, POD]);
    assert!(code == Some(1) && shown.contains("Message: \"hit\""), "{shown}");

    // The name is the empty text: gator mutates.
    let expansion = "apiVersion: expansion.gatekeeper.sh/v1beta1\nkind: ExpansionTemplate\n\
                     metadata: {name: t, namespace: null}\nspec:\n  applyTo: [{groups: [apps], versions: [v1], \
                     kinds: [Deployment]}]\n  templateSource: spec.template\n  enforcementAction: null\n  \
                     generatedGVK: {group: null, version: v1, kind: Pod}\n";
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: x}\n\
                      spec: {template: {metadata: {}, spec: {containers: []}}}\n";
    for metadata in ["{name: null}", "null", "{name: mm, generation: null, namespace: null}"] {
        let mutator = MUTATOR.replace("{name: mm}", metadata).replace(
            "{location:",
            "{match: {namespaces: null, kinds: [{apiGroups: null, kinds: [Pod]}], scope: null}, location:",
        );
        let (code, shown) = gator_of("expand", &[expansion, &mutator, deployment]);
        assert!(code == Some(0) && shown.contains("a: b"), "{metadata}: {shown}");
    }

    // A ModRule's members, but for those that it requires.
    let modrule = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: r, namespace: x}\nspec:\n  \
                   type: Reject\n  executionTier: null\n  admissionOperations: null\n  patch: null\n  \
                   rejectMessage: null\n  targetNamespaceRegex: null\n  match: [{select: '$.kind', matchFor: \
                   null, matchValue: Pod, matchValues: null, matchRegex: null, negate: null}]\n";
    let folder = written(&[("rules.yaml", modrule), ("pod.yaml", POD)]);
    let output = modgate(folder.path(), &["review", "-f", "rules.yaml", "pod.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}{}", out(&output), errors(&output));
}

/// EV-142: expressions see no Namespace that no file describes, `default` included; match blocks do.
#[test]
fn namespace_object_is_empty_where_no_file_describes_it() {
    let keys = "violation[{\"msg\": msg}] { msg := sprintf(\"keys: %v\", [[k | input.review.namespaceObject[k]]]) }";
    let in_rego = rego(&[keys]);
    let in_cel = template(
        "    code:\n    - engine: K8sNativeValidation\n      source:\n        validations:\n        - \
         expression: namespaceObject.metadata.name == ''\n          message: described\n",
    );
    let constraint = RULE.replace("}]}}", "}], namespaces: [default]}}");
    let pod = POD.replace("namespace: x", "namespace: default");
    let described = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default}\n";
    for (template, documents, message) in [
        (&in_rego, &[pod.as_str()][..], "keys: []"),
        (&in_rego, &[&pod, described], "keys: [\\\"metadata\\\"]"),
        (&in_cel, &[&pod], "no such key: metadata"),
        (&in_cel, &[&pod, described], "described"),
    ] {
        let all = [&[template.as_str(), &constraint], documents].concat();
        let (code, shown) = gator(&all);
        assert!(code == Some(1) && shown.contains(message), "{message}: {shown}");
    }
}

/// `experience` F11a: the warning and the log name the version that is enforced.
#[test]
fn an_update_that_does_not_compile_leaves_the_version_before() {
    let good = rego(&["violation[{\"msg\": \"of the first version\"}] { true }"]);
    let bad = rego(&["violation[{\"msg\": msg}] { msg := sprintff(\"x\", []) }"]);
    let folder = served::Folder::new(&[("policies.yaml", &format!("{good}---\n{RULE}"))]);
    let server = folder.serve(&["--modrule-resource", "*"]);
    let request = |template: &str, operation: &str| {
        let object: Value = modgate_value::yaml::value(template).expect("a template");
        format!(
            "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{{\"uid\":\"u\",\
             \"kind\":{{\"group\":\"templates.gatekeeper.sh\",\"version\":\"v1\",\"kind\":\"ConstraintTemplate\"}},\
             \"resource\":{{\"group\":\"templates.gatekeeper.sh\",\"version\":\"v1\",\"resource\":\
             \"constrainttemplates\"}},\"name\":\"rule\",\"operation\":\"{operation}\",\"userInfo\":{{}},\
             \"object\":{}}}}}",
            object.to_json()
        )
    };
    let kept = "this version is stored but not enforced, and the previous version stays in force: ";
    let warned = |text: &str, operation: &str| {
        let answer = server.review("/v1/admit", &request(text, operation));
        assert_eq!(answer.get("allowed").and_then(Value::as_bool), Some(true), "{answer}");
        answer.get("warnings").map(Value::to_json).unwrap_or_default()
    };
    assert!(warned(&bad, "UPDATE").contains(kept), "{}", warned(&bad, "UPDATE"));
    let other = bad.replace("rule", "other").replace("Rule", "Other");
    let new = warned(&other, "CREATE");
    assert!(
        new.contains("the template is stored but not enforced: ") && !new.contains(kept),
        "{new}"
    );
    assert_eq!(warned(&good, "UPDATE"), "");

    folder.write("policies.yaml", &format!("{bad}---\n{RULE}"));
    let broken = "gatekeeper_constraint_templates{status=\"error\"}";
    eventually("the file is read", || server.metric(broken) == 1);
    assert_eq!(server.metric("gatekeeper_constraint_templates{status=\"active\"}"), 0);
    let pod = modgate_value::yaml::value(POD).expect("a Pod").to_json();
    let review = format!(
        "{{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{{\"uid\":\"u\",\
         \"kind\":{{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"}},\"resource\":{{\"group\":\"\",\"version\":\
         \"v1\",\"resource\":\"pods\"}},\"name\":\"p\",\"namespace\":\"x\",\"operation\":\"CREATE\",\"userInfo\":{{}},\
         \"object\":{pod}}}}}"
    );
    let answer = server.review("/v1/admit", &review).to_json();
    assert!(answer.contains("of the first version"), "{answer}");
    let log = String::from_utf8(server.stop()).expect("text");
    assert!(log.contains("the previous version stays in force"), "{log}");
}

/// A path is read as `patch[].select` and as `match[].select`; where these differ, both are told.
#[test]
fn select_tells_what_a_match_says() {
    let folder = written(&[("pod.yaml", &POD.replace("[]", "[{name: a}]"))]);
    for (expression, text, json) in [
        (
            "$.spec.containers[5].name",
            "undefined at `[5]`; in `match` the expression fails: index 5 out of bounds",
            "\"matchError\": \"index 5 out of bounds\"",
        ),
        (
            "$.spec.containers.a",
            "in `match` the expression fails: could not select value, invalid key",
            "\"matchError\": \"could not select",
        ),
        (
            "$.metadata.name[0]",
            "in `match` the expression fails: unsupported value type",
            "\"matchError\": \"unsupported value type",
        ),
        ("1/0", "+Inf", "\"text\": \"+Inf\""),
        ("[1/0]", "[+Inf]", "\"text\": \"[+Inf]\""),
    ] {
        let shown = |args: &[&str]| {
            let output =
                modgate(folder.path(), &[&["select", expression, "-f", "pod.yaml"], args].concat());
            assert_eq!(output.status.code(), Some(0), "{expression}: {}", errors(&output));
            out(&output) + &errors(&output)
        };
        assert!(shown(&[]).contains(text), "{expression}: {}", shown(&[]));
        let machine = shown(&["-o", "json"]);
        assert!(machine.contains(json), "{expression}: {machine}");
        // The same as in a rule.
        let rule = format!(
            "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {{name: r, namespace: x}}\nspec: {{type: \
             Reject, match: [{{select: '{expression}', matchValue: z}}]}}\n"
        );
        fs::write(folder.path().join("rule.yaml"), rule).expect("written");
        let told = explained(folder.path());
        let says = text.split_once("in `match` ").map_or("+Inf", |(_, says)| says);
        assert!(told.contains(says), "{expression}: {told}");
    }
}

fn explained(folder: &Path) -> String {
    out(&modgate(folder, &["explain", "-f", "rule.yaml", "pod.yaml"]))
}
