//! `modgate lint`: what gets past policies, with the objects that prove it.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use modgate_value::Value;
use tempfile::TempDir;

/// A template in Rego for Pods with a constraint, with this body of its rules.
fn rego(body: &str, parameters: &str) -> String {
    let body = body.trim_end().replace('\n', "\n      ");
    format!(
        "apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {{name: \
         tried}}\nspec:\n  crd:\n    spec:\n      names: {{kind: Tried}}\n      validation:\n        \
         openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}\n  \
         targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n      package \
         tried\n      {body}\n---\napiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Tried\nmetadata: \
         {{name: tried}}\nspec:\n  match: {{kinds: [{{apiGroups: [\"\"], kinds: [Pod]}}]}}\n  \
         parameters: {parameters}\n"
    )
}

/// A ValidatingAdmissionPolicy for Pods and workloads with this expression.
fn vap(resources: &str, expression: &str) -> String {
    format!(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: \
         ValidatingAdmissionPolicy\nmetadata: {{name: tried}}\nspec:\n  matchConstraints:\n    \
         resourceRules:\n    - {{apiGroups: ['', apps, batch], apiVersions: [v1], operations: \
         [CREATE, UPDATE], resources: [{resources}]}}\n  validations:\n  - expression: \
         >-\n      {expression}\n"
    )
}

const EVERY_LIST: &str = "
containers[c] { c := input.review.object.spec.containers[_] }
containers[c] { c := input.review.object.spec.initContainers[_] }
containers[c] { c := input.review.object.spec.ephemeralContainers[_] }
";

struct Run {
    stdout: String,
    stderr: String,
    code: Option<i32>,
}

fn run(folder: &Path, arguments: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_modgate"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Run { stdout: text(output.stdout), stderr: text(output.stderr), code: output.status.code() }
}

fn lint(policies: &str, arguments: &[&str]) -> (TempDir, Run) {
    let folder = TempDir::new().expect("a folder");
    fs::write(folder.path().join("policies.yaml"), policies).expect("written");
    let run = run(folder.path(), &[&["lint", "policies.yaml"], arguments].concat());
    (folder, run)
}

/// The codes of the findings, sorted.
fn codes(policies: &str) -> String {
    let (_folder, run) = lint(policies, &["-o", "jsonl"]);
    let codes: BTreeSet<String> = run
        .stdout
        .lines()
        .map(|line| {
            let finding = Value::from_json(line.as_bytes()).expect(line);
            finding.get("rule").and_then(Value::as_str).expect(line).to_owned()
        })
        // Warnings about the policy itself are in the report, too.
        .filter(|code| code.starts_with("bypass-"))
        .collect();
    let expected = if codes.is_empty() { 0 } else { 1 };
    assert_eq!(run.code, Some(expected), "{}{}", run.stdout, run.stderr);
    codes.into_iter().collect::<Vec<_>>().join(" ")
}

/// Each policy is followed by the codes that it has and no others.
#[test]
fn what_gets_past() {
    let images = |list: &str, test: &str| {
        format!(
            "{EVERY_LIST}\nviolation[{{\"msg\": msg}}] {{\n  c := {list}\n  {test}\n  msg := \
             sprintf(\"bad image %v\", [c.image])\n}}\n"
        )
    };
    let all = "containers[_]";
    let prefix = "not strings.any_prefix_match(c.image, input.parameters.repos)";
    let spec = "input.review.object.spec.containers[_]";
    let first = "input.review.object.spec.containers[0]";
    let privileged = |containers: &str| {
        format!(
            "{containers}.all(c, !has(c.securityContext) || !has(c.securityContext.privileged) || \
             !c.securityContext.privileged)"
        )
    };
    let pods = "object.kind != 'Pod' || object.spec.";
    let combined = "(object.spec.containers + (has(object.spec.initContainers) ? \
                    object.spec.initContainers : []) + (has(object.spec.ephemeralContainers) ? \
                    object.spec.ephemeralContainers : []))";
    let adds = |test: &str| {
        format!(
            "{combined}.all(c, !has(c.securityContext) || !has(c.securityContext.capabilities) || \
             !has(c.securityContext.capabilities.add) || \
             c.securityContext.capabilities.add.all(name, {test}))"
        )
    };
    let everywhere = "pods, pods/ephemeralcontainers";
    let update = images(all, &format!("input.review.operation == \"CREATE\"\n  {prefix}"));
    let named = images(all, "c.securityContext.privileged\n  input.review.name != \"\"");
    let cases = [
        (
            rego(&images(spec, prefix), "{repos: [registry.corp]}"),
            "bypass-ephemeral-containers bypass-init-containers bypass-prefix",
        ),
        (rego(&images(all, prefix), "{repos: [registry.corp/]}"), ""),
        (rego(&images(all, prefix), "{repos: [registry.corp]}"), "bypass-prefix"),
        (rego(&images(all, prefix), "{repos: [ours]}"), "bypass-prefix"),
        (
            rego(&update, "{repos: [registry.corp/]}"),
            "bypass-ephemeral-containers bypass-update",
        ),
        (rego(&named, "{}"), "bypass-generate-name"),
        (
            rego(
                "violation[{\"msg\": \"no\"}] {\n  input.review.object.metadata.name == \"web\"\n}\n",
                "{}",
            ),
            "",
        ),
        (
            rego(&images(first, prefix), "{repos: [registry.corp/]}"),
            "bypass-ephemeral-containers bypass-init-containers bypass-list-element",
        ),
        (
            rego(&images(all, "startswith(c.image, \"bad.example/\")"), "{}"),
            "bypass-image-name",
        ),
        (
            rego(&images(all, "c.image == \"bad.example/app:1.0\""), "{}"),
            "bypass-image-name",
        ),
        (
            vap("pods", &privileged(&format!("{pods}containers"))),
            "bypass-ephemeral-containers bypass-init-containers",
        ),
        (vap("pods", &privileged(combined)), "bypass-ephemeral-containers"),
        (vap(everywhere, &privileged(combined)), ""),
        (vap(everywhere, &adds("name != 'NET_RAW'")), "bypass-all bypass-case"),
        (vap(everywhere, &adds("!(name.upperAscii() in ['NET_RAW', 'ALL'])")), ""),
        (
            "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: tried, namespace: \
             default}\nspec:\n  type: Reject\n  match:\n  - {select: $.kind, matchValue: Pod}\n  - \
             {select: '$.spec.containers[*].securityContext.privileged', matchValue: 'true'}\n"
                .to_owned(),
            "bypass-init-containers",
        ),
    ];
    for (policies, expected) in cases {
        assert_eq!(codes(&policies), expected, "{policies}");
    }
}

/// Each pair of requests is what it is said to be.
#[test]
fn witnesses_prove_it() {
    let policies = rego(
        "violation[{\"msg\": \"privileged\"}] {\n  \
         input.review.object.spec.containers[_].securityContext.privileged\n}\n",
        "{}",
    );
    let (folder, found) = lint(&policies, &["--write-witness", "proofs"]);
    assert_eq!(found.code, Some(1), "{}", found.stderr);
    let mut files: Vec<_> = fs::read_dir(folder.path().join("proofs"))
        .expect("proofs")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        let name = file.display().to_string();
        let reviewed = run(folder.path(), &["review", "-f", "policies.yaml", &name]);
        let expected = if name.ends_with("-denied.yaml") { 1 } else { 0 };
        assert_eq!(reviewed.code, Some(expected), "{name}: {}{}", reviewed.stdout, reviewed.stderr);
    }
}

#[test]
fn a_finding_is_accepted_with_a_reason() {
    let policies = rego(
        "violation[{\"msg\": \"privileged\"}] {\n  \
         input.review.object.spec.containers[_].securityContext.privileged\n}\n",
        "{}",
    );
    let accepting = |entries: &str| {
        let annotations =
            format!("{{name: tried, annotations: {{modgate.sh/allow: \"{entries}\"}}}}");
        policies.replacen("{name: tried}", &annotations, 1)
    };
    for (entries, expected) in [
        ("bypass-init-containers they run trusted images", "bypass-ephemeral-containers"),
        ("bypass-init-containers a; bypass-ephemeral-containers b", ""),
        ("bypass-init-containers", "bypass-ephemeral-containers bypass-init-containers"),
    ] {
        assert_eq!(codes(&accepting(entries)), expected, "{entries}");
    }
}

/// Labels that are required, by a template whose parameter `pattern` for the value is optional.
const PATTERN: &str = r#"apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: labels}
spec:
  crd:
    spec:
      names: {kind: Labels}
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels:
              type: array
              items: {type: object, properties: {key: {type: string}, pattern: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package labels
      violation[{"msg": "missing"}] {
        key := input.parameters.labels[_].key
        not input.review.object.metadata.labels[key]
      }
      violation[{"msg": "mismatch"}] {
        value := input.review.object.metadata.labels[input.parameters.labels[i].key]
        not regex.match(input.parameters.labels[i].pattern, value)
      }
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Labels
metadata: {name: tried}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}]}
  parameters: {labels: [LABEL]}
"#;

#[test]
fn what_an_optional_parameter_would_forbid_is_left_open_on_purpose() {
    let with = |label: &str| codes(&PATTERN.replace("LABEL", label));
    // Any value will do, by the author's choice.
    let open =
        PATTERN.replace("not regex", "input.parameters.labels[i].pattern\n        not regex");
    assert_eq!(codes(&open.replace("LABEL", "{key: owner}")), "");
    // A pattern that an empty value matches is a hole.
    assert_eq!(with("{key: owner, pattern: '^[a-z]*$'}"), "bypass-empty-value");
    assert_eq!(with("{key: owner, pattern: '^[a-z]+$'}"), "");
    // So it is where the template has no such parameter, or does nothing with it.
    let none = open.replace(", pattern: {type: string}", "");
    assert_eq!(codes(&none.replace("LABEL", "{key: owner}")), "bypass-empty-value");
    let unused =
        open.replace("not regex.match(input.parameters.labels[i].pattern, value)", "false");
    assert_eq!(codes(&unused.replace("LABEL", "{key: owner}")), "bypass-empty-value");
}

#[test]
fn cases_of_suites_come_first() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    let policy = rego(
        "violation[{\"msg\": \"no\"}] {\n  \
         input.review.object.spec.containers[_].workingDir == \"/forbidden\"\n}\n",
        "{}",
    );
    let (template, constraint) = policy.split_once("---\n").expect("two documents");
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec: {containers: \
               [{name: c, image: x, workingDir: /forbidden}]}\n";
    let suite = "kind: Suite\napiVersion: test.gatekeeper.sh/v1alpha1\ntests:\n- name: a\n  template: \
                 template.yaml\n  constraint: ../p/constraint.yaml\n  cases: [{name: b, object: \
                 objects/pod.yaml, assertions: [{violations: yes}]}]\n";
    fs::create_dir_all(path.join("p/objects")).expect("a folder");
    for (name, text) in [
        ("p/template.yaml", template),
        ("p/constraint.yaml", constraint),
        ("p/objects/pod.yaml", pod),
        ("p/suite.yaml", suite),
    ] {
        fs::write(path.join(name), text).expect("written");
    }
    let found = run(path, &["lint", "p"]);
    assert_eq!(run(path, &["lint", "-f", "p"]).stdout, found.stdout);
    assert!(found.stdout.contains("bypass-init-containers: Tried tried"), "{}", found.stdout);
    assert!(found.stdout.contains("p/template.yaml:1:1"), "{}", found.stdout);
    assert!(found.stdout.contains("workingDir: /forbidden"), "{}", found.stdout);
    for (format, contains) in [
        ("github", "::warning file=p/template.yaml"),
        ("sarif", "\"ruleId\": \"bypass-init-containers\""),
        ("json", "bypass-ephemeral-containers"),
    ] {
        let found = run(path, &["lint", "p", "-o", format]);
        assert!(found.stdout.contains(contains), "{format}: {}", found.stdout);
    }
}

#[test]
fn what_cannot_be_tried() {
    for (policies, code, message) in [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", 2, "there is no constraint"),
        (&*rego("violation[", "{}"), 2, "error"),
        (&*rego("violation[{\"msg\": \"x\"}] { false }", "{}"), 0, "no object was found"),
    ] {
        let (_folder, run) = lint(policies, &[]);
        assert_eq!(run.code, Some(code), "{policies}{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
}

/// Nothing is said of a policy that denied none of the tried objects.
#[test]
fn policies_that_deny_nothing_are_not_examined() {
    let never = "apiVersion: api.kubemod.io/v1beta1\nkind: ModRule\nmetadata: {name: never, namespace: shop}\n\
                 spec:\n  type: Reject\n  match:\n  - {select: '$.kind', matchValue: Pod}\n  \
                 - {select: '$.metadata.annotations.a', matchValue: b}\n  \
                 - {select: '$.metadata.annotations.a', matchValue: c}\n";
    let (_folder, ran) = lint(never, &["--budget", "50"]);
    assert_eq!(ran.stdout, "1 policy: 1 not examined\n", "{}", ran.stderr);
    assert!(ran.stderr.contains("denies; give one with `--object`"), "{}", ran.stderr);
    assert_eq!(ran.code, Some(0));
    let every = rego(&format!("{EVERY_LIST}violation[{{\"msg\": \"m\"}}] {{ true }}"), "{}");
    let (_folder, ran) = lint(&format!("{never}---\n{every}"), &["--budget", "50"]);
    let last = ran.stdout.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("2 policies: ") && last.ends_with(", 1 not examined"),
        "{}",
        ran.stdout
    );
}

/// The page has what `-o json` prints, and the objects of each finding.
#[test]
fn a_page() {
    let body = "\nviolation[{\"msg\": msg}] {\n  c := input.review.object.spec.containers[_]\n  \
                not startswith(c.image, input.parameters.repo)\n  msg := sprintf(\"bad image %v\", [c.image])\n}\n";
    let policies = rego(body, "{repo: registry.corp}");
    let (folder, run) =
        lint(&policies, &["-o", "html=lint.html", "-o", "json", "--budget", "3999"]);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let html = fs::read_to_string(folder.path().join("lint.html")).expect("a page");
    let (_, rest) = html.split_once("id=\"data\">").expect("data");
    let data = rest.split_once("</script>").expect("the end").0;
    let page = Value::from_json(data.as_bytes()).expect(data);
    let printed = Value::from_json(run.stdout.as_bytes()).expect(&run.stdout);
    let findings = page.path(&["document", "findings"]).expect("findings");
    assert_eq!(Some(findings), printed.get("findings"));
    let list = |value: &Value, member: &str| -> Vec<Value> {
        value.get(member).and_then(Value::as_array).expect(member).to_vec()
    };
    let text = |value: &Value, member: &str| {
        value.get(member).and_then(Value::as_str).expect(member).to_owned()
    };
    let names: Vec<String> = list(&page, "policies").iter().map(|it| text(it, "kind")).collect();
    assert_eq!(names, ["ConstraintTemplate", "Tried"]);
    let proofs = list(&page, "subjects");
    assert!(!proofs.is_empty());
    for proof in &proofs {
        assert_eq!(text(proof, "policy"), "Tried tried");
        let parts = list(proof, "parts");
        let what: Vec<String> = parts.iter().map(|it| text(it, "what")).collect();
        assert!(what[0].starts_with("denied, ") && what[1].starts_with("admitted, "), "{what:?}");
        assert_ne!(text(&parts[0], "text"), text(&parts[1], "text"));
        assert!(!list(proof, "denials").is_empty());
    }
    // The first command writes the files that the second one reads.
    for proof in &proofs {
        for command in list(proof, "commands") {
            let words: Vec<&str> =
                command.as_array().expect("words").iter().filter_map(Value::as_str).collect();
            assert_eq!(words[0], "modgate");
            let again = self::run(folder.path(), &words[1..]);
            assert_eq!(again.code, Some(1), "{words:?}: {}{}", again.stdout, again.stderr);
        }
    }
    assert!(data.contains("\"3999\""), "the command has the budget");
    let broken = "kind: ConstraintTemplate\napiVersion: templates.gatekeeper.sh/v1\n";
    let (_folder, run) = lint(broken, &["-o", "html"]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stdout.contains("\"complete\":false"), "{}", run.stderr);
}

#[test]
fn each_code_has_a_page() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |name: &str| fs::read_to_string(docs.join(name)).expect(name);
    let (table, summary) = (read("lint.md"), read("SUMMARY.md"));
    let of_changes = ["not-idempotent", "order-dependent", "defeated"];
    let codes = modgate_engine::Code::ALL.iter().map(|code| code.as_str());
    let codes: Vec<&str> =
        codes.filter(|it| it.starts_with("bypass-") || of_changes.contains(it)).collect();
    assert_eq!(codes.len(), 22);
    for code in codes {
        assert!(read(&format!("lint/{code}.md")).starts_with(&format!("# `{code}`\n")), "{code}");
        assert!(table.contains(&format!("| [`{code}`](lint/{code}.md) |")), "{code}");
        assert!(summary.contains(&format!("(lint/{code}.md)")), "{code}");
    }
}
