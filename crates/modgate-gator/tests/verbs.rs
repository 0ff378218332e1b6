//! Command lines in small folders: what the recorded cases of the corpora do not cover, and what is
//! ours alone.

#![allow(clippy::expect_used, clippy::panic, reason = "a test")]

use std::{ffi::OsString, fs, path::Path};

use modgate_gator::Io;
use modgate_value::Value;
use tempfile::TempDir;

struct Ran {
    code: u8,
    stdout: String,
    stderr: String,
}

fn gator(folder: &Path, args: &[&str]) -> Ran {
    let args: Vec<OsString> =
        std::iter::once("gator").chain(args.iter().copied()).map(OsString::from).collect();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut io = Io {
        stdin: None,
        stdout: &mut stdout,
        stderr: &mut stderr,
        directory: folder,
        env: &|_| None,
        connect: modgate_gator::no_cluster,
    };
    let code = modgate_gator::run(&args, &mut io);
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code, stdout: text(stdout), stderr: text(stderr) }
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    folder
}

const TEMPLATE: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: reqlabel}
spec:
  crd:
    spec:
      names: {kind: ReqLabel}
      validation:
        openAPIV3Schema: {type: object, properties: {label: {type: string}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package reqlabel
      violation[{"msg": msg}] {
        trace("looking")
        not input.review.object.metadata.labels[input.parameters.label]
        msg := sprintf("missing label <%v>", [input.parameters.label])
      }
"#;
const CONSTRAINT: &str = r#"
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: ReqLabel
metadata: {name: need-owner}
spec: {parameters: {label: owner}, match: {kinds: [{apiGroups: [""], kinds: [Pod]}]}}
"#;
const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: prod}}";
const OWNER: &str = r#"
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: owner}
spec:
  match: {namespaceSelector: {matchLabels: {team: a}}}
  location: metadata.labels.owner
  parameters: {assign: {value: me}}
"#;
const NAMESPACE: &str =
    "{apiVersion: v1, kind: Namespace, metadata: {name: prod, labels: {team: a}}}";
/// Adds a label each time.
const RULES: &str = r#"
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: color, namespace: prod}
spec:
  type: Patch
  match: [{select: '$.kind', matchValue: Pod}]
  patch: [{op: add, path: /metadata/labels/color, value: blue}]
---
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: closed, namespace: prod}
spec:
  type: Reject
  rejectMessage: closed for today
  match: [{select: '$.metadata.name', matchValue: closed}]
"#;

#[test]
fn roots() {
    let empty = folder(&[]);
    for (args, code, stdout, stderr) in [
        (&[][..], 0, "Usage: gator", ""),
        (&["--version"], 0, "gator version ", ""),
        (&["version"], 0, "gator: ", ""),
        (&["--help"], 0, "Test Kubernetes policies", ""),
        (&["test", "--help"], 0, "Evaluate manifests", ""),
        (&["completion", "bash"], 0, "_gator()", ""),
        (&["sync", "create"], 0, "Usage: gator sync test\n", ""),
        (&["nope"], 1, "", "Error: unknown command \"nope\" for \"gator\"\n"),
        (&["test", "--nope"], 1, "", "Error: unknown flag: --nope\nUsage:\n  gator test [flags]\n"),
        (&["test", "-x"], 1, "", "Error: unknown shorthand flag: 'x' in -x\n"),
        (&["test", "-f"], 1, "", "Error: flag needs an argument: "),
        (
            &["test", "--stats=maybe"],
            1,
            "",
            "Error: invalid argument \"maybe\" for \"--stats\" flag",
        ),
        (
            &["test", "-t=maybe"],
            1,
            "",
            "Error: invalid argument \"maybe\" for \"-t, --trace\" flag",
        ),
        (&["verify"], 1, "", "Error: accepts 1 arg(s), received 0\nUsage:\n  gator verify "),
        (&["verify", "x", "-o", "xml"], 1, "", "Error: invalid output format: xml (must be text, "),
    ] {
        let ran = gator(empty.path(), args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(stdout), "{args:?}: {}", ran.stdout);
        assert!(ran.stderr.starts_with(stderr), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn flags_in_every_spelling() {
    let files = folder(&[("in.yaml", &format!("{TEMPLATE}---{CONSTRAINT}---\n{POD}"))]);
    for args in [
        &["test", "-f", "in.yaml"][..],
        &["test", "-fin.yaml", "--deny-only=false"],
        &["test", "--filename=in.yaml", "--stats", "--stats=false"],
        &["test", "-o", "json", "-o", "text", "--filename", "in.yaml"],
    ] {
        let ran = gator(files.path(), args);
        let expected = "v1/Pod prod/p: [\"need-owner\"] Message: \"missing label <owner>\"\n";
        assert_eq!((ran.code, ran.stdout.as_str()), (1, expected), "{args:?}: {}", ran.stderr);
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_folder_is_followed() {
    let files = folder(&[("real/in.yaml", &format!("{TEMPLATE}---{CONSTRAINT}---\n{POD}"))]);
    std::os::unix::fs::symlink(files.path().join("real"), files.path().join("link"))
        .expect("a link");
    let ran = gator(files.path(), &["test", "-f", "link"]);
    assert_eq!(ran.code, 1, "fix-symlink-root: {}", ran.stderr);
    assert!(ran.stdout.contains("missing label"), "{}", ran.stdout);
}

#[test]
fn statistics_and_traces() {
    let files = folder(&[("in.yaml", &format!("{TEMPLATE}---{CONSTRAINT}---\n{POD}"))]);
    let ran = gator(files.path(), &["test", "-f", "in.yaml", "--stats", "-o", "yaml"]);
    for part in
        ["results:\n", "stats:\n", "statsfor: ReqLabel", "name: templateRunTimeNS", "value: Rego"]
    {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let ran = gator(files.path(), &["test", "-f", "in.yaml", "--stats", "-o", "json"]);
    assert!(ran.stdout.contains("\"statsFor\": \"ReqLabel\""), "{}", ran.stdout);
    let ran = gator(files.path(), &["test", "-f", "in.yaml", "--stats", "-o", "text"]);
    assert!(ran.stdout.contains("constraintCount=1"), "{}", ran.stdout);
    let ran = gator(files.path(), &["test", "-f", "in.yaml", "--trace"]);
    for part in ["\nTrace: ReqLabel need-owner (Rego)\n", "note: looking\n", "template:"] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
}

/// Only Rego has details; JSON leaves out what is empty, YAML does not.
#[test]
fn details_of_results() {
    const CEL: &str = r#"
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: never}
spec:
  crd: {spec: {names: {kind: Never}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    code:
    - engine: K8sNativeValidation
      source: {validations: [{expression: "false", message: never}]}
---
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: Never
metadata: {name: never}
"#;
    let pod = format!("---\n{POD}");
    let check = |policies: &str, json: Option<&str>, yaml: &str| {
        let files = folder(&[("in.yaml", &format!("{policies}{pod}"))]);
        let ran = gator(files.path(), &["test", "-f", "in.yaml", "-o", "json"]);
        let results = Value::from_json(ran.stdout.as_bytes()).expect("JSON");
        let first = results.as_array().and_then(|results| results.first()).expect("a result");
        assert_eq!(first.get("metadata").map(Value::to_json).as_deref(), json);
        let ran = gator(files.path(), &["test", "-f", "in.yaml", "-o", "yaml"]);
        assert!(ran.stdout.contains(yaml), "{}", ran.stdout);
    };
    let rego = format!("{TEMPLATE}---{CONSTRAINT}");
    check(&rego, Some(r#"{"details":{}}"#), "    metadata:\n        details: {}\n");
    check(CEL, None, "    metadata: {}\n");
}

fn suite(members: &str, case: &str) -> String {
    let object = if case.contains("object: ") { "" } else { "object: pod.yaml, " };
    format!(
        "{{apiVersion: test.gatekeeper.sh/v1alpha1, kind: Suite, tests: [{{name: t, {members}, \
         cases: [{{name: c, {object}{case}}}]}}]}}"
    )
}

#[test]
fn suites_of_mutators_and_modrules() {
    const BOTH: &str = "mutators: [owner.yaml], modrules: [rules.yaml]";
    const JUDGED: &str =
        "mutators: [owner.yaml], template: template.yaml, constraint: constraint.yaml";
    const DONE: &str = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: prod, labels: \
                        {owner: me, color: blue}}}";
    let files = folder(&[
        ("template.yaml", TEMPLATE),
        ("constraint.yaml", CONSTRAINT),
        ("pod.yaml", POD),
        ("closed.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: closed, namespace: prod}}"),
        ("owner.yaml", OWNER),
        ("namespace.yaml", NAMESPACE),
        ("rules.yaml", RULES),
        ("done.yaml", DONE),
    ]);
    for (members, case, failure) in [
        (BOTH, "namespace: namespace.yaml, expected: done.yaml", ""),
        (BOTH, &format!("namespace: namespace.yaml, expected: {DONE}"), ""),
        // The label selects nothing without the Namespace's own labels.
        (BOTH, "expected: done.yaml", "unexpected object: it differs from `expected` by ["),
        (
            BOTH,
            "namespace: namespace.yaml, patch: [{op: add, path: /metadata/labels, value: {owner: me, \
             color: blue}}]",
            "",
        ),
        (
            "mutators: [owner.yaml]",
            "namespace: namespace.yaml, patch: []",
            "unexpected patch: got [{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{\"owner\":\
             \"me\"}}]",
        ),
        (
            BOTH,
            "namespace: namespace.yaml, patch: [{op: move}]",
            "invalid Case: patch: op \"move\"",
        ),
        (BOTH, "rejected: closed", "missing rejection: want one containing \"closed\""),
        (BOTH, "object: closed.yaml, rejected: closed for to", ""),
        (BOTH, "object: closed.yaml, rejected: open", "unexpected rejection: got "),
        (BOTH, "object: closed.yaml, patch: []", "unexpected rejection: got "),
        (BOTH, "operation: NONE, patch: []", "invalid Case: unknown operation `NONE`"),
        (BOTH, "skip: false", "invalid Case: must define expected, patch, rejected or assertions"),
        (JUDGED, "namespace: namespace.yaml, assertions: [{violations: no}]", ""),
        (JUDGED, "assertions: [{violations: 1, message: owner}]", ""),
        (JUDGED, "assertions: [{violations: no}]", "unexpected number of violations: got 1"),
        ("mutators: [pod.yaml]", "patch: []", "not a mutator: "),
        ("modrules: [pod.yaml]", "patch: []", "not a ModRule: "),
    ] {
        fs::write(files.path().join("suite.yaml"), suite(members, case)).expect("a file");
        let ran = gator(files.path(), &["verify", "suite.yaml"]);
        let passes = failure.is_empty();
        assert_eq!(ran.code, u8::from(!passes), "{members} {case}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(failure), "{members} {case}: {}", ran.stdout);
    }
}

#[test]
fn a_second_pass_must_change_nothing() {
    let growing = "
apiVersion: api.kubemod.io/v1beta1
kind: ModRule
metadata: {name: grow, namespace: prod}
spec:
  type: Patch
  match: [{select: '$.kind', matchValue: Pod}]
  patch: [{op: add, path: /spec/list/-1, value: x}]
";
    let files = folder(&[
        (
            "pod.yaml",
            "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: prod}, spec: {list: []}}",
        ),
        ("rules.yaml", growing),
    ]);
    let patch = "patch: [{op: add, path: /spec/list/0, value: x}]";
    for (more, failure) in
        [("", "not idempotent: a second pass changes the object by ["), (", idempotent: false", "")]
    {
        let text = suite("modrules: [rules.yaml]", &format!("{patch}{more}"));
        fs::write(files.path().join("suite.yaml"), text).expect("a file");
        let ran = gator(files.path(), &["verify", "suite.yaml"]);
        assert_eq!(ran.code, u8::from(!failure.is_empty()), "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains(failure), "{}", ran.stdout);
    }
}

/// As gator does, which knows nothing of them.
#[test]
fn a_suite_without_our_members_is_gators() {
    let files =
        folder(&[("pod.yaml", POD), ("template.yaml", TEMPLATE), ("constraint.yaml", CONSTRAINT)]);
    for (members, case, failure) in [
        ("constraint: constraint.yaml", "assertions: [{}]", "  invalid Suite: missing template"),
        (
            "template: template.yaml, constraint: constraint.yaml",
            "expected: pod.yaml",
            "        invalid Case: assertions must be non-empty",
        ),
    ] {
        fs::write(files.path().join("suite.yaml"), suite(members, case)).expect("a file");
        let ran = gator(files.path(), &["verify", "suite.yaml"]);
        assert_eq!(ran.code, 1);
        assert!(ran.stdout.contains(failure), "{}", ran.stdout);
    }
}

#[test]
fn results_for_machines() {
    let files = folder(&[
        ("pod.yaml", POD),
        ("template.yaml", TEMPLATE),
        ("constraint.yaml", CONSTRAINT),
        (
            "suite.yaml",
            &suite(
                "template: template.yaml, constraint: constraint.yaml",
                "assertions: [{violations: no, message: '<ow'}]",
            ),
        ),
    ]);
    let ran = gator(files.path(), &["verify", "suite.yaml", "-o", "junit"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, "Error: FAIL\n"));
    for part in [
        "<testsuites tests=\"1\" failures=\"1\" errors=\"0\"",
        "<testsuite name=\"suite.yaml\"",
        "<testcase classname=\"t\" name=\"c\"",
        "<failure message=\"unexpected number of violations: got 1 violations containing \
         &quot;&lt;ow&quot; but want none",
    ] {
        assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
    }
    let ran = gator(files.path(), &["verify", "suite.yaml", "-o", "json", "--run", "nothing"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.starts_with("{\n  \"passed\": true,\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("\"skipped\": true"), "{}", ran.stdout);
}

#[test]
fn bench_names_the_costliest_constraints() {
    let other =
        CONSTRAINT.replace("need-owner", "need-team").replace("label: owner", "label: team");
    let elsewhere = CONSTRAINT.replace("need-owner", "elsewhere").replace("[Pod]", "[Node]");
    let files = [
        ("template.yaml", TEMPLATE),
        ("owner.yaml", CONSTRAINT),
        ("team.yaml", &other),
        ("elsewhere.yaml", &elsewhere),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: prod}\n"),
    ];
    let folder = folder(&files);
    let bench = |more: &[&str]| {
        let common = ["bench", "-f", ".", "-e", "rego", "-n", "10", "--warmup", "2"];
        let ran = gator(folder.path(), &[&common, more].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    let list = Value::from_json(bench(&["--top", "2", "-o", "json"]).as_bytes()).expect("JSON");
    let costs = list.at(0).and_then(|figures| figures.get("policyCosts")).expect("costs");
    let mut names = Vec::new();
    let mut share = 0.0;
    for cost in costs.as_array().expect("a list").iter() {
        let number = |key: &str| {
            let number = cost.get(key).and_then(Value::as_number).map(|number| number.as_f64());
            number.unwrap_or_else(|| panic!("{key}: {}", cost.to_json()))
        };
        assert_eq!(number("evaluations"), 10.0, "without those of the warm-up");
        assert!(number("steps") > 0.0 && number("bytes") >= 0.0, "{}", cost.to_json());
        share += number("share");
        names.push(cost.get("name").and_then(Value::as_str).unwrap_or_default().to_owned());
    }
    names.sort();
    assert_eq!(names, ["need-owner", "need-team"], "not what was never asked");
    assert!((0.99..=1.01).contains(&share), "{share}");
    let table = bench(&["--top", "1"]);
    assert!(table.contains("\nCostliest Constraints:\n"), "{table}");
    assert_eq!(table.matches("ReqLabel/need-").count(), 1, "{table}");
    // The original knows one output: the last.
    assert!(bench(&["-o", "yaml", "-o", "json"]).starts_with('['));
    // The original prints nothing of the kind.
    assert!(!bench(&[]).contains("Costliest") && !bench(&["-o", "json"]).contains("policyCosts"));
}
