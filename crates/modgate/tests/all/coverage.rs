//! `modgate verify --coverage` and `--mutants`: what the cases of suites reach, and what they notice.

use std::{fs, path::Path, process::Command};

use modgate_value::Value;
use tempfile::TempDir;

struct Ran {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

/// Runs `modgate verify` in a folder with these files.
fn verify(folder: &Path, arguments: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_modgate"));
    let output = command.arg("verify").args(arguments).current_dir(folder).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Ran { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        fs::write(path, text).expect("written");
    }
    folder
}

/// The places that are not covered, as `file:line:column: what`, in the order of the output.
fn uncovered(ran: &Ran) -> Vec<&str> {
    let table = ran.stdout.split("POLICY").nth(1).expect(&ran.stdout);
    table.lines().filter(|line| line.contains(".yaml:")).collect()
}

const TEMPLATE: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: owned}
spec:
  crd:
    spec:
      names: {kind: Owned}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package owned
      import data.lib.teams

      violation[{"msg": msg}] {
        not input.review.object.metadata.labels.owner
        msg := "no owner"
      }

      violation[{"msg": msg}] {
        owner := input.review.object.metadata.labels.owner
        not teams.known(owner)
        msg := sprintf("%v is no team", [owner])
      }
    libs:
    - |
      package lib.teams

      known("web") = true

      known(name) = true {
        startswith(name, "team-")
      }
"#;

const CONSTRAINT: &str = "apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Owned\nmetadata: \
                          {name: all}\nspec:\n  match:\n    kinds: [{apiGroups: [''], kinds: \
                          [Pod]}]\n    excludedNamespaces: [kube-system]\n";

fn suite(cases: &str) -> String {
    format!(
        "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: owned\n  template: \
         template.yaml\n  constraint: constraint.yaml\n  cases:\n{cases}"
    )
}

fn case(object: &str, violations: &str) -> String {
    format!(
        "  - {{name: {object}, object: {object}.yaml, assertions: [{{violations: {violations}}}]}}\n"
    )
}

fn pod(labels: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: b, labels: {{{labels}}}}}\n"
    )
}

#[test]
fn rego_with_libraries_and_match_clauses_by_line() {
    let (bare, web) = (pod(""), pod("owner: web"));
    let files = [
        ("template.yaml", TEMPLATE),
        ("constraint.yaml", CONSTRAINT),
        ("bare.yaml", &bare),
        ("web.yaml", &web),
    ];
    let folder = folder(&files);
    let write = |cases: &str| {
        fs::write(folder.path().join("suite.yaml"), suite(cases)).expect("written");
        verify(folder.path(), &["suite.yaml", "--coverage"])
    };
    let ran = write(&case("bare", "1"));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        uncovered(&ran),
        [
            "constraint.yaml:6:5: no case is excluded here",
            "constraint.yaml:7:5: no case is excluded here",
            "template.yaml:15:9: the expression holds in every case",
            "template.yaml:19:7: no case has the message",
            "template.yaml:21:9: no case reaches the expression",
            "template.yaml:22:9: no case reaches the expression",
            "template.yaml:28:7: no case takes the branch",
            "template.yaml:30:7: no case takes the branch",
            "template.yaml:31:9: no case reaches the expression",
        ]
    );
    assert!(ran.stdout.contains("\n    not teams.known(owner)\n"), "{}", ran.stdout);
    // The second case reaches the library, and one of its two rules.
    let ran = write(&(case("bare", "1") + &case("web", "no")));
    assert_eq!(
        uncovered(&ran)[2..],
        [
            "template.yaml:19:7: no case has the message",
            "template.yaml:21:9: the expression holds in no case",
            "template.yaml:22:9: no case reaches the expression",
            "template.yaml:30:7: no case takes the branch",
            // One value is enough.
            "template.yaml:31:9: no case reaches the expression",
        ]
    );
    assert!(verify(folder.path(), &["suite.yaml"]).stdout.ends_with("in 1 suite\n"));
}

#[test]
fn lcov_json_yaml_and_a_threshold() {
    let web = pod("owner: web");
    let suite = suite(&case("web", "no"));
    let folder = folder(&[
        ("p/template.yaml", TEMPLATE),
        ("p/constraint.yaml", CONSTRAINT),
        ("p/web.yaml", &web),
        ("p/suite.yaml", &suite),
    ]);
    let ran = verify(
        folder.path(),
        &[
            "p/...",
            "--coverage",
            "-o",
            "lcov=c.info",
            "-o",
            "json=c.json",
            "-o",
            "html=c.html",
            "-o",
            "yaml",
            "-q",
        ],
    );
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let lcov = fs::read_to_string(folder.path().join("c.info")).expect("lcov");
    let record = "TN:\nSF:p/template.yaml\nBRDA:15,0,0,0\nBRDA:15,0,1,1\nBRDA:21,0,0,0\nBRDA:21,0,1,\
                  1\nBRDA:31,0,0,-\nBRDA:31,0,1,-\nBRF:6\nBRH:2\nDA:14,0\nDA:15,1\nDA:16,0\nDA:19,\
                  0\nDA:20,1\nDA:21,1\nDA:22,0\nDA:28,1\nDA:30,0\nDA:31,0\nLF:10\nLH:4\nend_of_record\n";
    assert!(lcov.contains(record), "{lcov}");
    let json = fs::read_to_string(folder.path().join("c.json")).expect("JSON");
    let json = Value::from_json(json.as_bytes()).expect("JSON");
    let yaml = modgate_value::yaml::value(&ran.stdout).expect("YAML");
    assert_eq!(json.get("coverage"), yaml.get("coverage"));
    let coverage = json.get("coverage").expect("coverage");
    let html = fs::read_to_string(folder.path().join("c.html")).expect("a page");
    let data = html.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let data = Value::from_json(data.expect("data").0.as_bytes()).expect("JSON");
    assert_eq!(data.path(&["document", "coverage"]), Some(coverage));
    let number = |path: &[&str]| coverage.path(path).map(Value::to_json).unwrap_or_default();
    assert_eq!(number(&["expressions", "covered"]), "3");
    assert_eq!(number(&["expressions", "total"]), "6");
    let place = coverage.pointer("/policies/1/places/0").expect("a place").to_json();
    assert!(place.contains(r#""missing":"no case has the message""#), "{place}");

    let ran = verify(folder.path(), &["p/...", "--coverage-min", "90"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let told = "Error: coverage is 40.0 %, less than --coverage-min 90\n";
    assert_eq!(ran.stderr, told);
    assert_eq!(verify(folder.path(), &["p/...", "--coverage-min", "40"]).code, Some(0));
    let ran = verify(folder.path(), &["p/...", "-o", "lcov"]);
    assert_eq!((ran.code, ran.stderr.contains("needs `--coverage`")), (Some(2), true));
    assert_eq!(verify(folder.path(), &["p/...", "--coverage-min", "101"]).code, Some(2));
}

const CEL: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: owned}
spec:
  crd:
    spec:
      names: {kind: Owned}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source:
        variables:
        - name: labels
          expression: "has(object.metadata.labels) ? object.metadata.labels : {}"
        validations:
        - expression: >-
            'owner' in variables.labels &&
            (variables.labels.owner == 'web' ||
            variables.labels.owner.startsWith('team-'))
          messageExpression: "'owner' in variables.labels ? 'no team' : 'no owner'"
        - expression: object.kind == 'Pod'
          message: only Pods
"#;

#[test]
fn cel_by_part_of_the_expression() {
    let (bare, web) = (pod(""), pod("owner: web"));
    let suite = suite(&(case("bare", "1") + &case("web", "no")));
    let folder = folder(&[
        ("template.yaml", CEL),
        ("constraint.yaml", CONSTRAINT),
        ("bare.yaml", &bare),
        ("web.yaml", &web),
        ("suite.yaml", &suite),
    ]);
    let ran = verify(folder.path(), &["suite.yaml", "--coverage"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        uncovered(&ran)[2..],
        [
            "template.yaml:15:24: the expression holds in every case",
            "template.yaml:15:79: no case reaches the expression",
            "template.yaml:19:14: the expression holds in every case",
            "template.yaml:20:13: no case reaches the expression",
            "template.yaml:21:31: the expression holds in no case",
            "template.yaml:21:61: no case reaches the expression",
            "template.yaml:22:23: the expression holds in every case",
            "template.yaml:23:11: no case has the message",
        ]
    );
}

const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: \
                      ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n  matchConstraints:\n    \
                      resourceRules:\n    - {apiGroups: [''], apiVersions: [v1], operations: ['*'], \
                      resources: [pods]}\n  matchConditions:\n  - name: other\n    expression: \
                      request.namespace != 'other'\n  validations:\n  - expression: object.metadata.name \
                      == 'a'\n    message: not a\n";

#[test]
fn policies_of_the_cluster_in_kats_layout() {
    let pod = pod("");
    let folder = folder(&[("p/policy.yaml", POLICY), ("p/tests/one.allow.object.yaml", &pod)]);
    let ran = verify(folder.path(), &["p", "--coverage"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        uncovered(&ran),
        [
            "p/policy.yaml:10:17: the expression holds in every case",
            "p/policy.yaml:12:17: the expression holds in every case",
            "p/policy.yaml:13:5: no case has the message",
        ]
    );
}

const MUTATOR: &str = "apiVersion: mutations.gatekeeper.sh/v1\nkind: Assign\nmetadata: {name: \
                       pull}\nspec:\n  applyTo: [{groups: [''], versions: [v1], kinds: [Pod]}]\n  \
                       match:\n    namespaces: [b]\n  location: spec.priority\n  parameters: \
                       {assign: {value: 1}}\n";

const RULES: &str = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: \
                     patch, namespace: b}\nspec:\n  type: Patch\n  match:\n  - {select: $.kind, matchValue: Pod}\n  \
                     patch:\n  - {op: add, path: /metadata/annotations, value: '{a: b}'}\n  - op: \
                     remove\n    select: '$.spec.volumes[*]'\n    path: \
                     /spec/volumes/#0\n---\napiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: \
                     {name: refuse, namespace: b}\nspec:\n  type: Reject\n  rejectMessage: never\n  match:\n  - \
                     {select: $.metadata.name, matchValue: z}\n";

#[test]
fn mutators_and_modrules() {
    let pod = pod("");
    let suite = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: t\n  mutators: \
                 [mutator.yaml]\n  modrules: [rules.yaml]\n  cases:\n  - name: c\n    object: \
                 pod.yaml\n    patch:\n    - {op: add, path: /metadata/annotations, value: {a: b}}\n    \
                 - {op: add, path: /spec, value: {priority: 1}}\n";
    let folder = folder(&[
        ("mutator.yaml", MUTATOR),
        ("rules.yaml", RULES),
        ("pod.yaml", &pod),
        ("suite.yaml", suite),
    ]);
    let ran = verify(folder.path(), &["suite.yaml", "--coverage"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    assert_eq!(
        uncovered(&ran),
        [
            "mutator.yaml:5:3: no case is excluded here",
            "mutator.yaml:7:5: no case is excluded here",
            "mutator.yaml:8:3: no case is excluded here",
            "rules.yaml:7:5: no case is excluded here",
            "rules.yaml:10:5: no case takes the branch",
            "rules.yaml:11:5: the expression holds in no case",
            "rules.yaml:19:3: no case has the message",
            "rules.yaml:21:5: no case matches here",
        ]
    );
}

const TEMPLATES: &str = r#"apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: names, namespace: b}
spec:
  type: Patch
  match:
  - {select: $.kind, matchValue: Pod}
  patch:
  - op: add
    select: $.spec.containers[*].name
    path: /metadata/annotations/name-#0
    value: |-
      {{ if eq .#0 0 }}first {{ .SelectedItem }}
      {{- else }}{{ template "other" . }}{{ end }}
      {{- range .Target.metadata.labels }} {{ . }}{{ else }} none{{ end }}
      {{- define "other" }}other{{ with .Target.spec.hostNetwork }} on {{ . }}{{ end }}{{ end }}
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: refuse, namespace: b}
spec:
  type: Reject
  rejectMessage: 'no {{ if .Target.spec.hostPID }}pid{{ else }}net {{ .Namespace }}{{ end }}'
  match: [{select: '$.spec.nodeName'}]
"#;

#[test]
fn branches_and_actions_of_go_templates() {
    let pod = |containers: &str, more: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: a, namespace: b, annotations: {{x: y}}}}\nspec: \
             {{containers: [{containers}]{more}}}\n"
        )
    };
    let one = pod("{name: web, image: a}", "");
    let two = pod("{name: web, image: a}, {name: db, image: a}", "");
    let bad = pod("{name: web, image: a}", ", nodeName: n, hostPID: true");
    let head = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: t\n  modrules: \
                [rules.yaml]\n  cases:\n  - name: one\n    object: one.yaml\n    patch: [{op: add, path: \
                /metadata/annotations/name-0, value: first web none}]\n";
    let folder = folder(&[
        ("rules.yaml", TEMPLATES),
        ("one.yaml", &one),
        ("two.yaml", &two),
        ("bad.yaml", &bad),
        ("suite.yaml", head),
    ]);
    let of_templates = |ran: &Ran| -> Vec<String> {
        assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
        let places = uncovered(ran).into_iter().filter_map(|it| it.strip_prefix("rules.yaml:"));
        places.filter(|it| it.contains("expression")).map(str::to_owned).collect()
    };
    assert_eq!(
        of_templates(&verify(folder.path(), &["suite.yaml", "--coverage"])),
        [
            "10:5: the expression holds in every case",
            "13:13: the expression holds in every case",
            "14:30: no case reaches the expression",
            "15:17: the expression holds in no case",
            "15:47: no case reaches the expression",
            "16:41: no case reaches the expression",
            "16:75: no case reaches the expression",
            "23:28: no case reaches the expression",
            "23:71: no case reaches the expression",
        ]
    );
    let more = "  - name: two\n    object: two.yaml\n    patch: [{op: add, path: /metadata/annotations/name-0, value: \
                first web none}, {op: add, path: /metadata/annotations/name-1, value: other none}]\n  - name: \
                bad\n    object: bad.yaml\n    rejected: no pid\n";
    fs::write(folder.path().join("suite.yaml"), head.to_owned() + more).expect("written");
    assert_eq!(
        of_templates(&verify(folder.path(), &["suite.yaml", "--coverage"])),
        [
            "10:5: the expression holds in every case",
            "15:17: the expression holds in no case",
            "15:47: no case reaches the expression",
            "16:41: the expression holds in no case",
            "16:75: no case reaches the expression",
            "23:28: the expression holds in every case",
            "23:71: no case reaches the expression",
        ]
    );
}

/// A policy of each kind with its binding.
fn of_suite() -> String {
    let binding = |kind: &str, more: &str| {
        format!(
            "---\napiVersion: admissionregistration.k8s.io/v1\nkind: {kind}Binding\nmetadata: {{name: p}}\nspec: \
             {{policyName: p{more}}}\n"
        )
    };
    let mutating = "---\napiVersion: admissionregistration.k8s.io/v1\nkind: \
                    MutatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n  matchConstraints:\n    \
                    resourceRules:\n    - {apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: \
                    [pods]}\n  reinvocationPolicy: Never\n  mutations:\n  - patchType: JSONPatch\n    \
                    jsonPatch:\n      expression: >-\n        has(object.metadata.annotations) ? [] :\n        \
                    [JSONPatch{op: \"add\", path: \"/metadata/annotations\", value: {\"a\": \"b\"}}]\n";
    let validating = binding("ValidatingAdmissionPolicy", ", validationActions: [Deny]");
    format!("{POLICY}{validating}{mutating}{}", binding("MutatingAdmissionPolicy", ""))
}

#[test]
fn policies_of_suites_are_covered_and_mutated() {
    let pod = pod("");
    let policies = of_suite();
    let case = "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: t\n  policies: \
                [policies.yaml]\n  cases:\n  - name: c\n    object: pod.yaml\n    patch: [{op: add, path: \
                /metadata/annotations, value: {a: b}}]\n    assertions: [{violations: no}]\n";
    let folder = folder(&[("policies.yaml", &policies), ("pod.yaml", &pod), ("suite.yaml", case)]);
    let ran = verify(folder.path(), &["suite.yaml", "--coverage", "--mutants"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let table: Vec<&str> =
        ran.stdout.lines().filter(|it| it.contains("AdmissionPolicy/p ")).collect();
    // Two of the coverage, two of the mutants; none of the bindings.
    assert_eq!(table.len(), 4, "{}", ran.stdout);
    let found: Vec<&str> =
        uncovered(&ran).into_iter().filter(|it| !it.contains("notices")).collect();
    assert_eq!(
        found,
        [
            "policies.yaml:10:17: the expression holds in every case",
            "policies.yaml:12:17: the expression holds in every case",
            "policies.yaml:13:5: no case has the message",
            // Of the policy that mutates, a second pass sees the annotation.
        ]
    );

    let found = survivors(&ran);
    let has = |text: &str| found.iter().any(|it| it.contains(text));
    assert!(has("no case notices: the match is wider"), "{found:#?}");
    assert!(has("+ false ? [] :"), "{found:#?}");
    // The case notices that another annotation is added, and that the comparison is another one.
    assert!(!has("value: {\"a\": ''}"), "{found:#?}");
    assert!(!has("object.metadata.name != 'a'"), "{found:#?}");
}

/// The survivors of a run, as `file:line:column: what`, each with the lines of its difference.
fn survivors(ran: &Ran) -> Vec<String> {
    let table = ran.stdout.split("SURVIVED").nth(1).expect(&ran.stdout);
    let mut found: Vec<String> = Vec::new();
    for line in table.lines().skip(1) {
        match (line.strip_prefix("    "), found.last_mut()) {
            (None, _) if line.contains(".yaml:") => found.push(line.to_owned()),
            (Some(changed), Some(last)) => {
                last.push_str(" | ");
                last.push_str(changed);
            }
            _ => {}
        }
    }
    found
}

#[test]
fn mutants_that_no_case_notices() {
    let (bare, web, team) = (pod(""), pod("owner: web"), pod("owner: team-a"));
    let none = pod("owner: nobody");
    let message = "  - {name: none, object: none.yaml, assertions: [{violations: 1, message: nobody is no team}]}\n";
    let all = case("bare", "1") + &case("web", "no") + &case("team", "no") + message;
    let suite = suite(&all);
    let folder = folder(&[
        ("template.yaml", TEMPLATE),
        ("constraint.yaml", CONSTRAINT),
        ("bare.yaml", &bare),
        ("web.yaml", &web),
        ("team.yaml", &team),
        ("none.yaml", &none),
        ("suite.yaml", &suite),
    ]);
    let ran = verify(folder.path(), &["suite.yaml", "--mutants"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let found = survivors(&ran);
    let of_template: Vec<&str> =
        found.iter().map(String::as_str).filter(|it| it.starts_with("template")).collect();
    assert_eq!(
        of_template,
        ["template.yaml:16:16: no case notices: the constant is another one | - msg := \"no \
             owner\" | + msg := \"\"",]
    );
    let widened = "constraint.yaml:7:5: no case notices: the match is wider | - excludedNamespaces: \
                   [\"kube-system\"]";
    assert!(found.iter().any(|it| it == widened), "{found:?}");

    // The same in data, twice, and with a smaller budget.
    let json = |more: &[&str]| {
        let ran =
            verify(folder.path(), &[&["suite.yaml", "--mutants", "-o", "json"], more].concat());
        let json = Value::from_json(ran.stdout.as_bytes()).expect("JSON");
        json.get("mutants").expect("mutants").clone()
    };
    let first = json(&[]);
    assert_eq!(first, json(&[]));
    let figure = |of: &Value, name: &str| of.get(name).and_then(Value::as_i64).unwrap_or(-1);
    assert_eq!(figure(&first, "total") - figure(&first, "killed"), found.len() as i64);
    let few = json(&["--budget", "2", "--seed", "7"]);
    assert!(figure(&few, "total") <= 4 && figure(&few, "notTried") > 0, "{few}");
    assert_eq!(few, json(&["--budget", "2", "--seed", "7"]));

    let ran = verify(folder.path(), &["suite.yaml", "--mutants-min", "99"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("less than --mutants-min 99"), "{}", ran.stderr);
}

#[test]
fn mutants_in_code_that_no_case_reaches_survive() {
    let bare = pod("");
    let suite = suite(&case("bare", "1"));
    let folder = folder(&[
        ("template.yaml", TEMPLATE),
        ("constraint.yaml", CONSTRAINT),
        ("bare.yaml", &bare),
        ("suite.yaml", &suite),
    ]);
    let ran = verify(folder.path(), &["suite.yaml", "--mutants"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let found = survivors(&ran);
    let place = "template.yaml:31:9: no case reaches this: the expression is left out | - \
                 startswith(name, \"team-\") | + true";
    assert!(found.iter().any(|it| it == place), "{found:?}");
    // The first rule is covered, and its case notices when it is gone.
    assert!(!found.iter().any(|it| it.starts_with("template.yaml:14:")), "{found:?}");
}

#[test]
fn mutants_of_policies_of_the_cluster_and_of_rules() {
    let pod = pod("");
    let folder = folder(&[
        ("p/policy.yaml", POLICY),
        ("p/tests/one.allow.object.yaml", &pod),
        ("m/rules.yaml", RULES),
        ("m/pod.yaml", &pod),
        (
            "m/suite.yaml",
            "apiVersion: test.gatekeeper.sh/v1alpha1\nkind: Suite\ntests:\n- name: t\n  modrules: \
             [rules.yaml]\n  cases:\n  - name: c\n    object: pod.yaml\n    patch:\n    - {op: add, \
             path: /metadata/annotations, value: {a: b}}\n",
        ),
    ]);
    let ran = verify(folder.path(), &["./...", "--mutants"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
    let found = survivors(&ran);
    let has = |text: &str| assert!(found.iter().any(|it| it.contains(text)), "{text}: {found:#?}");
    has("policy.yaml:13:5: no case reaches this: the message is empty | - message: \"not a\"");
    has("policy.yaml:9:5: no case notices: the match is wider");
    has("rules.yaml:21:31: no case notices: the constant is another one");
    // `==` and `!=` are told apart by the case, and so is the operation that adds.
    assert!(
        !found.iter().any(|it| it.contains("policy.yaml:12:") && it.contains("the comparison")),
        "{found:#?}"
    );
    assert!(!found.iter().any(|it| it.contains("rules.yaml:9:") && it.contains("the rule")));
}
