//! Mistakes of authors: each is told once, where it stands, with advice, and may be allowed.
//!
//! `cargo xtask mistakes` has the table of them; these are the classes of it.

use std::fs;

use tempfile::TempDir;

use crate::program::{errors, modgate, out};

const POD: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: cart, namespace: store}
spec:
  hostNetwork: true
  containers: [{name: main, image: 'cart:1'}]
";

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: ownimages}
spec:
  crd: {spec: {names: {kind: OwnImages}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package ownimages

      violation[{"msg": msg}] {
        container := input.review.object.spec.containers[_]
        not startswith(container.image, "us/")
        msg := sprintf("%v is not ours", [container.image])
      }
"#;

const CONSTRAINT: &str = "
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: OwnImages
metadata: {name: images}
spec:
  match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}
";

/// A folder with these files and the Pod.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files.iter().chain(&[("pod.yaml", POD)]) {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

/// The output of `review` for a policy, and its exit code.
fn review(policy: &str, more: &[&str]) -> (String, Option<i32>) {
    let folder = folder(&[("policy.yaml", policy), ("constraint.yaml", CONSTRAINT)]);
    let files = ["review", "-f", "policy.yaml", "-f", "constraint.yaml", "pod.yaml"];
    let ran = modgate(folder.path(), &[&files[..], more].concat());
    (errors(&ran), ran.status.code())
}

#[test]
fn fields_that_pods_do_not_have() {
    let (said, _) = review(TEMPLATE, &["--strict"]);
    assert!(!said.contains("warning"), "{said}");
    for (right, wrong, place, help) in [
        ("spec.containers[_]", "spec.contaners[_]", "policy.yaml:13:", "`containers`"),
        ("(container.image, \"us/\")", "(container.imge, \"us/\")", "policy.yaml:14:", "`image`"),
        ("spec.containers[_]", "spec.containers", "policy.yaml:14:", "`[_].image`"),
    ] {
        let (said, code) = review(&TEMPLATE.replace(right, wrong), &[]);
        assert!(said.contains("unknown-path") && said.contains(place), "{wrong}: {said}");
        assert!(said.contains(help), "{wrong}: {said}");
        assert_ne!(code, Some(2), "{said}");
        let (_, code) = review(&TEMPLATE.replace(right, wrong), &["--strict"]);
        assert_eq!(code, Some(2), "{wrong}");
    }
}

#[test]
fn comments_allow_warnings() {
    let wrong = TEMPLATE.replace("spec.containers[_]", "spec.contaners[_]");
    for (comment, expected) in [
        ("# modgate: allow unknown-path a webhook adds it", false),
        ("# modgate: allow no-effect a webhook adds it", true),
        ("# modgate: allow unknown-path", true),
    ] {
        let text = wrong.replace("contaners[_]", &format!("contaners[_] {comment}"));
        let (said, _) = review(&text, &[]);
        assert_eq!(said.contains("[unknown-path]"), expected, "{comment}: {said}");
        let above = format!("        {comment}\n        container := ");
        let (said, _) = review(&wrong.replace("        container := ", &above), &[]);
        assert_eq!(said.contains("[unknown-path]"), expected, "{comment}: {said}");
    }
    let text = format!("# modgate: allow unknwon-path it comes later\n{TEMPLATE}");
    let (said, _) = review(&text, &[]);
    assert!(said.contains("did you mean `unknown-path`?"), "{said}");
}

#[test]
fn a_missing_field_that_is_misspelt_is_reported_once() {
    let rule = "
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: owner}
spec:
  location: metadata.labels.owner
  parameter: {assign: {value: us}}
";
    let folder = folder(&[("policy.yaml", rule)]);
    let ran = modgate(folder.path(), &["review", "-f", "policy.yaml", "pod.yaml"]);
    let said = errors(&ran);
    assert_eq!(said.matches("policy.yaml:7:3").count(), 1, "{said}");
    assert_eq!(said.matches("error").count(), 1, "{said}");
    assert!(said.contains("did you mean `parameters`?"), "{said}");
    assert_eq!(ran.status.code(), Some(2));
}

#[test]
fn violations_stand_at_the_field() {
    let folder = folder(&[("policy.yaml", TEMPLATE), ("constraint.yaml", CONSTRAINT)]);
    let files =
        ["review", "-f", "policy.yaml", "-f", "constraint.yaml", "pod.yaml", "-o", "github"];
    let said = out(&modgate(folder.path(), &files));
    assert!(said.contains("file=pod.yaml,line=6,"), "{said}");
    let other = TEMPLATE.replace("\"%v is not ours\", [container.image]", "\"not %v\", [\"ours\"]");
    fs::write(folder.path().join("policy.yaml"), other).expect("a file");
    let said = out(&modgate(folder.path(), &files));
    assert!(said.contains("file=pod.yaml,line=6,"), "what the policy read: {said}");
    let (head, _) = TEMPLATE.split_once("container :=").expect("the body of the rule");
    fs::write(folder.path().join("policy.yaml"), format!("{head}msg := \"no\"\n      }}\n"))
        .expect("a file");
    let said = out(&modgate(folder.path(), &files));
    assert!(said.contains("file=pod.yaml,line=3,"), "the name, where no field is known: {said}");
}

const SUITE: &str = "\
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
- name: images
  template: policy.yaml
  constraint: constraint.yaml
  cases:
  - name: others
    object: pod.yaml
    assertions:
    - violations: 1
";

#[test]
fn suites_mark_the_member_at_fault() {
    let folder = folder(&[("policy.yaml", TEMPLATE), ("constraint.yaml", CONSTRAINT)]);
    let check = |suite: &str, expected: &str, code: i32| {
        fs::write(folder.path().join("suite.yaml"), suite).expect("a file");
        let ran = modgate(folder.path(), &["verify", "suite.yaml", "-o", "github"]);
        let said = format!("{}{}", out(&ran), errors(&ran));
        assert!(said.contains(expected), "{expected}: {said}");
        assert_eq!(ran.status.code(), Some(code), "{said}");
    };
    check(&SUITE.replace("violations: 1", "violations: 2"), "line=11,col=7", 1);
    check(&SUITE.replace("object: pod", "object: pdo"), "line=9,col=5", 1);
    check(&SUITE.replace("constraint: con", "constraint: cno"), "line=6,col=3", 1);
    check(&SUITE.replace("/v1alpha1", "/v1"), "the versions are: v1alpha1", 0);
    check(&SUITE.replace("  cases:", "\tcases:"), "use spaces", 2);
    check(&SUITE.replace("  cases:", "  name: again\n  cases:"), "the first is on line 4", 2);
}

#[test]
fn suites_by_pattern_and_the_first_failure() {
    let folder = folder(&[("policy.yaml", TEMPLATE), ("constraint.yaml", CONSTRAINT)]);
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).expect("a file");
    write("a_suite.yaml", &SUITE.replace("violations: 1", "violations: 2"));
    write("b_suite.yaml", SUITE);
    let ran = modgate(folder.path(), &["verify", "*_suite.yaml"]);
    assert!(out(&ran).contains("1 passed, 1 failed"), "{}{}", out(&ran), errors(&ran));
    let ran = modgate(folder.path(), &["verify", "--fail-fast", "*_suite.yaml"]);
    let said = out(&ran);
    assert!(said.contains("not run\tb_suite.yaml"), "{said}");
    assert!(said.contains("0 passed, 1 failed, 0 skipped in 1 suite; 1 not run"), "{said}");
    let ran = modgate(folder.path(), &["verify", "--fail-fast", "*_suite.yaml", "-o", "json"]);
    assert_eq!(out(&ran).matches("\"passed\": true").count(), 0, "{}", out(&ran));
}

#[test]
fn rules_of_codes_are_explained() {
    let wrong = TEMPLATE.replace("spec.containers[_]", "spec.contaners[_]");
    let folder = folder(&[("policy.yaml", &wrong), ("constraint.yaml", CONSTRAINT)]);
    let files = ["review", "-f", "policy.yaml", "-f", "constraint.yaml", "pod.yaml", "-o", "sarif"];
    let said = out(&modgate(folder.path(), &files));
    assert!(said.contains("A field of the built-in kinds that does not exist"), "{said}");
}

#[test]
fn every_verb_is_strict_and_knows_its_flags() {
    let wrong = TEMPLATE.replace("spec.containers[_]", "spec.contaners[_]");
    let folder = folder(&[("policy.yaml", &wrong), ("constraint.yaml", CONSTRAINT)]);
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = modgate(folder.path(), &words);
        (format!("{}{}", out(&ran), errors(&ran)), ran.status.code())
    };
    for line in ["compare policy.yaml policy.yaml pod.yaml", "select isDefind($.kind)"] {
        assert_ne!(run(line).1, Some(2), "{line}: {}", run(line).0);
        let (said, code) = run(&format!("{line} --strict"));
        assert_eq!(code, Some(2), "{line}: {said}");
    }
    let (said, _) = run("verify --fail-fats suite.yaml");
    assert!(said.contains("unknown flag: --fail-fats; did you mean `--fail-fast`?"), "{said}");
    let (said, _) = run("select $.kind=='a'and$.b");
    assert!(!said.contains("panicked"), "{said}");
    let (said, code) = run("explain --strict -f policy.yaml pod.yaml -o json");
    assert!(said.starts_with('[') && said.contains("unknown-path"), "{said}");
    assert_eq!(code, Some(2));
}

/// A name of a file may have line breaks: no line of the output is anything but what modgate says.
#[test]
fn names_of_files_stay_on_one_line() {
    let policy = "policy\n::error::forged\u{1b}[31m.yaml";
    let object = "object\nPod other: allowed.yaml";
    let files = [("template.yaml", TEMPLATE), (policy, CONSTRAINT), (object, POD)];
    let folder = folder(&files);
    let policies = ["-f", "template.yaml", "-f", policy];
    for verb in [&["review"][..], &["explain", "--all"], &["audit"], &["plan"]] {
        let ran = modgate(folder.path(), &[verb, &policies[..], &[object]].concat());
        let text = format!("{}{}", out(&ran), errors(&ran));
        assert!(text.contains(r"object\nPod other: allowed.yaml"), "{verb:?}: {text}");
        let is_forged = |line: &str| line.starts_with("::error::") || line.starts_with("Pod other");
        assert!(!text.lines().any(is_forged) && !text.contains('\u{1b}'), "{verb:?}: {text}");
    }
    let ran = modgate(folder.path(), &[&["review"], &policies[..], &["pod.yaml"]].concat());
    assert!(out(&ran).contains(r"(policy\n::error::forged\u{1b}[31m.yaml:2:1)"), "{}", out(&ran));
}

/// Mistakes in a suite are on standard error, and not among the results as well.
#[test]
fn mistakes_of_suites_are_reported_once() {
    let suite = "kind: Suite\napiVersion: test.gatekeeper.sh/v1alpha1\ntest: []\n";
    let folder = folder(&[("suite.yaml", suite)]);
    let ran = modgate(folder.path(), &["verify", "."]);
    let told = format!("{}{}", out(&ran), errors(&ran));
    assert_eq!(told.matches("unknown member `test`").count(), 1, "{told}");
}

/// The tip about a flag is a flag with a near name, or one with another name for the same.
#[test]
fn tips_about_flags() {
    let folder = folder(&[("template.yaml", TEMPLATE), ("constraint.yaml", CONSTRAINT)]);
    for (line, expected) in [
        ("review -f . pod.yaml --quite", Some("--quiet")),
        ("explain -f . pod.yaml --policy images", Some("--rule")),
        ("review -f . pod.yaml --policies .", Some("--filename")),
        ("review -f . pod.yaml --zebra", None),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = modgate(folder.path(), &words);
        let told = errors(&ran);
        let tip = told
            .lines()
            .find_map(|line| line.trim().strip_prefix("tip: a similar argument exists: "));
        let expected = expected.map(|flag| format!("'{flag}'"));
        assert_eq!(tip.map(str::to_owned), expected, "{line}: {told}");
        assert_eq!(ran.status.code(), Some(2), "{line}");
    }
}
